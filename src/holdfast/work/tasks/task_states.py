"""The states of a task, and every transition between them.

    waiting    a task that it comes after is not done yet
    queued     it waits for a slot, for its locks, or for its next attempt
    working    its agent is at work
    checking   its check runs, with all of its files still held
    fixing     the check failed, and its agent has been given the output
    reviewing  a person decides, with all of its files still held
    landing    it can no longer be undone; its commit is being made
    done       its changes are final
    failed     its files are as they were before
    skipped    a task that it comes after failed, so it was not started

The only transitions are those of the table: `after` raises for anything else.
"""

from __future__ import annotations

from holdfast.work.engine.transitions import Edge, Transitions

WAITING = "waiting"
QUEUED = "queued"
WORKING = "working"
CHECKING = "checking"
FIXING = "fixing"
REVIEWING = "reviewing"
LANDING = "landing"
DONE = "done"
FAILED = "failed"
SKIPPED = "skipped"
STATES = (
    WAITING, QUEUED, WORKING, CHECKING, FIXING, REVIEWING, LANDING, DONE, FAILED, SKIPPED,
)  # fmt: skip

#: A task in one of these will not change by itself.
OVER = (DONE, FAILED, SKIPPED)
#: An agent or a check of the task runs.
OUT = (WORKING, CHECKING, FIXING)
#: It has files that others may have to wait for.
HOLDING = (*OUT, REVIEWING, LANDING)

READY = "everything that it comes after is done"
UNREADY = "what it comes after is no longer done"
SENT_OUT = "a slot and its locks are free"
AGENT_ENDED = "the agent succeeded, and there is a check"
CHECK_FAILED = "the check failed, and a round is left"
FIXED = "the agent succeeded once more"
TO_REVIEW = "a person is to decide"
ACCEPTED = "nothing is left to do but to record it"
LANDED = "it is recorded, and committed if the list says so"
AGAIN = "this attempt is undone, and the task is tried again"
GIVEN_UP = "this attempt is undone, and was the last"
BLOCKED = "a task that it comes after failed"
ANEW = "a person asks for another attempt"


EDGES = (
    Edge(WAITING, QUEUED, READY),
    Edge(WAITING, SKIPPED, BLOCKED),
    Edge(QUEUED, WAITING, UNREADY),
    Edge(QUEUED, WORKING, SENT_OUT),
    *(Edge(before, FAILED, GIVEN_UP) for before in (WAITING, QUEUED)),
    Edge(WORKING, CHECKING, AGENT_ENDED),
    Edge(CHECKING, FIXING, CHECK_FAILED),
    Edge(FIXING, CHECKING, FIXED),
    *(Edge(before, REVIEWING, TO_REVIEW) for before in (WORKING, CHECKING)),
    *(Edge(before, LANDING, ACCEPTED) for before in (WORKING, CHECKING, REVIEWING)),
    Edge(LANDING, DONE, LANDED),
    *(Edge(before, QUEUED, AGAIN) for before in (*OUT, REVIEWING)),
    *(Edge(before, FAILED, GIVEN_UP) for before in (*OUT, REVIEWING)),
    *(Edge(before, WAITING, ANEW) for before in (FAILED, SKIPPED)),
)

TRANSITIONS = Transitions(*EDGES)
after, may = TRANSITIONS.after, TRANSITIONS.may
