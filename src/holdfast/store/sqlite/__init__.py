"""The embedded store: one SQLite file, any number of processes on one machine, no daemon.

sqlite_store      the store
schema            its file, and the errors of that file
sqlite_mover      its ledger, as the source or target of a move
file_check        what `holdfast store check` says about the file
sql_view          its state, for reading
rows              its tables, for writing
transaction       a writing transaction, which is repeated if a fork interrupts it
sections          snapshots for reading, and fenced sections
write_gate        a lock around every write, with a reliable deadline
session           one process's open ledger: gate, connection and locks
lock_bytes        locks that no other code in the process can drop
gate_turns        how many processes are ahead at the gate
fork_handlers     what a forked child must not inherit
sqlite_driver     the SQLite module in use
wake_ups          how a waiting process is woken
"""
