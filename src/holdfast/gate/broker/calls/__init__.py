"""The system calls that the broker performs for its command.

call_answers      what the calls share: the lease of a file, the answer, and how a call fails
open_calls        calls that open a file for writing, create it, or truncate it
name_calls        calls that create, rename, link or remove a name
folder_rename     the rename of a folder, with everything in it
attribute_calls   modes, owners, times and extended attributes
waiting_calls     calls that wait in line for a lease, or for a reader
outside_calls     calls outside the repository, answered before the ledger is open
"""
