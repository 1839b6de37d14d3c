"""The rulebook: what is true about locks, and nothing else.

Everything here is pure: no clock, no files, no threads, no randomness, no environment.
Same inputs, same answer, for ever. It imports nothing but itself, and next to nothing of
the standard library, because it is on the path of every hook.

    roots     the root of what can go wrong, and the part that a hook needs
    errors    all that can go wrong, with stable codes
    keys      the text of one thing that can be held, and which of them overlap
    overlaps  which of many keys overlap another one
    model     the values: Holder, Request, Grant, Ticket, Event, Decision
    events    the vocabulary of the ledger, and what each event changes
    view      what a decision may ask of a store
    draft     what one decision has changed so far
    conflicts what stands in the way, and what no longer lives
    waiting   tickets, reservations, circles
    rules     take, hold, give back
    table     the state on dictionaries: the reference model
    time      ledger time
    codec     values to JSON and back
    words     what a refusal says
"""
