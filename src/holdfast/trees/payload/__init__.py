"""The files of a worktree: walked, copied, hashed and rebuilt.

payload_walk      every entry once, in one fixed order
entry_lists       the manifest and the sources, written during a walk
payload_copy      from a live payload to its read-only copy in a snapshot
payload_rebuild   from a snapshot to a new payload, verifying everything on the way
file_content      one file, copied and hashed
file_attributes   extended attributes and access lists
copy_workers      threads that copy and hash large files
hard_links        which files of a snapshot are links to the previous one
linker            the process that makes those links
quick_compare     what changed since a snapshot, by kind, mode, size and time
"""
