"""The rules about locks, and nothing else.

Everything here is pure: no clock, no files, no threads, no randomness, no environment. The same
inputs always give the same answer. The room imports no other room, and little of the standard
library, because every hook loads it.

    root_errors   the base of all errors, and those that a hook may raise
    errors        all other errors, with stable codes
    sentences     a refusal in words
    keys          the canonical text of one thing that can be locked, and which keys overlap
    overlaps      which of many keys overlap another one
    model         the values: Holder, Request, Grant, Ticket, Event, Decision
    events        the vocabulary of the ledger, and what each event changes
    view          the questions that a decision may ask a store
    draft         a view with the changes of one decision
    rules         acquire, renew, release
    bulk_rules    several grants in one decision, grants that move, idle agents, notes
    conflicts     the grants and reservations that conflict with a request
    wait_line     tickets, reservations, deadlocks
    table         the state in dictionaries: the reference model
    ledger_time   the clock that all processes share
    file_times    how exact the times of files are
    codec         values to JSON and back
"""
