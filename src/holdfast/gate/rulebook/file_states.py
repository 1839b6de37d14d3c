"""The state of an agent towards a file: five states, and every transition between them.

    free           no holder has the file
    owned          a live holder has it, and this agent does not wait for it
    contended      this agent requested it, and was refused in the same decision
    retry_pending  the heartbeat is written, and the one retry is planned
    blocked        the retry failed: the agent is stopped, and waits for its user

There are no other transitions: code that moves an agent from the state of its record to another
calls `after`, which raises if the table has no such transition. Taking a free file and finding an
owner dead need no record; the core decides both. `status`, the page and the guide show the same
words. The states of an agent end with the agent.
"""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

FREE = "free"
OWNED = "owned"
CONTENDED = "contended"
RETRY_PENDING = "retry_pending"
BLOCKED = "blocked"
STATES = (FREE, OWNED, CONTENDED, RETRY_PENDING, BLOCKED)

ACQUIRED = "acquire"
COMPETED = "competing acquire"
HEARTBEAT_WRITTEN = "heartbeat emitted"
RETRY_SUCCEEDED = "retry succeeds"
HANDED_OVER = "handed over when it came free"
RETRY_FAILED = "retry fails"
COMMITTED = "commit success"
ENDED = "hard failure or end"
OWNER_DIED = "owner not alive"
RESTED = "stop and idle"
RESUMED = "resumed by a person"


class Edge(Value):
    """One transition from a state to another, and its cause."""

    __slots__ = ("after", "before", "cause")

    def __init__(self, before: str, after: str, cause: str) -> None:
        self.before: Final = before
        self.after: Final = after
        self.cause: Final = cause


EDGES = (
    Edge(FREE, OWNED, ACQUIRED),
    Edge(OWNED, CONTENDED, COMPETED),
    Edge(CONTENDED, RETRY_PENDING, HEARTBEAT_WRITTEN),
    Edge(RETRY_PENDING, OWNED, RETRY_SUCCEEDED),
    Edge(RETRY_PENDING, OWNED, HANDED_OVER),
    Edge(RETRY_PENDING, BLOCKED, RETRY_FAILED),
    Edge(OWNED, FREE, COMMITTED),
    Edge(OWNED, FREE, ENDED),
    Edge(OWNED, FREE, OWNER_DIED),
    Edge(OWNED, FREE, RESTED),
    Edge(BLOCKED, OWNED, RESUMED),
)

_AFTER = {(edge.before, edge.cause): edge.after for edge in EDGES}

#: The words for people.
WORDS = {
    FREE: "free",
    OWNED: "owned",
    CONTENDED: "contended",
    RETRY_PENDING: "retry pending",
    BLOCKED: "blocked",
}


def after(before: str, cause: str) -> str:
    """The state that a cause leads to. Raises KeyError if the table has no such transition."""
    return _AFTER[before, cause]


def diagram() -> str:
    """The table as a diagram for the guide."""
    names = {state: "".join(word.title() for word in state.split("_")) for state in STATES}
    lines = [f"    [*] --> {names[FREE]}"]
    lines += [f"    {names[one.before]} --> {names[one.after]}: {one.cause}" for one in EDGES]
    return "\n".join(("stateDiagram-v2", *lines))
