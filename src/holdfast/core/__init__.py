"""The rules about locks, and nothing else.

Everything here is pure: no clock, no files, no threads, no randomness, no environment. The same
inputs always give the same answer. The room imports no other room, and little of the standard
library, because every hook loads it.

    root_errors   the base of all errors, and those that a hook may raise
    errors        all other errors, with stable codes
    sentences     a refusal in words
    keys          the text of one thing that can be held, and which keys overlap
    overlaps      which of many keys overlap another one
    model         the values: Holder, Request, Grant, Ticket, Event, Decision
    events        the vocabulary of the ledger, and what each event changes
    view          what a decision may ask of a store
    draft         what one decision has changed so far
    rules         take, hold, release
    bulk_rules    many grants in one decision, changing hands, resting, notes
    conflicts     which grants and reservations are in the way
    wait_line     tickets, reservations, deadlocks
    table         the state in dictionaries: the reference model
    ledger_time   the clock that all processes share
    file_times    what the times of a file say
    codec         values to JSON and back
"""
