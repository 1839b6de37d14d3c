"""The gate: no edit without a lease, for agents that never heard of locks.

A client's hook tells what is about to happen; an adapter in `clients` turns that into an `Intent`.
The gate takes or refuses the lease and answers; the adapter says it in the words which that client
obeys. Trouble inside is a refusal with a reason, never a write that slips through.

It sees what a client tells it. What a program writes behind the client's back is noticed
afterwards, or prevented by a sandbox; the guide has a table of which is which.

May import manager and below; nothing below knows of it.
"""
