"""One call of one process as it was seen from outside, and a history of calls.

Times are nanoseconds of CLOCK_MONOTONIC, which is one clock for all processes of a host (in one
time namespace): a call that was answered before another one was made happened first, in whichever
processes. A call without an answer is one whose process was killed. It took effect at any time
after it was made, or never.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

#: A request for one key: the key and a mode, `r` or `w`.
Want = tuple[str, str]

#: Answers of success and of failure. Any other answer is inconclusive.
YES = frozenset(("granted", "released", "holds", "entered", "renewed"))
NO = frozenset(
    ("refused", "timed out", "nothing to release", "does not hold", "kept out", "lapsed")
)

#: Calls that request a grant. All others concern one.
ASKING = frozenset(("try_acquire", "acquire"))
#: Calls that change the held grants if they succeed.
CHANGING = frozenset(("try_acquire", "acquire", "release", "renew"))


@dataclass(frozen=True, slots=True)
class Operation:
    """A call, and its answer if there was one."""

    process: str
    holder: str
    call: str
    invoked: int
    answered: int | None = None
    answer: str = ""
    wants: tuple[Want, ...] = ()
    #: The grant that it concerns or received, and its token.
    grant: str = ""
    token: int = 0
    ttl: int | None = None
    #: How long a waiting request lets others overtake; None if it never waits, or always does.
    patience: int | None = None
    #: From when to when a fenced section lasted, as its holder saw it.
    section: tuple[int, int] | None = None

    @property
    def outcome(self) -> bool | None:
        """Whether the call succeeded; None if that is unknown.

        A request that timed out after more than its ttl may have been granted meanwhile, and may
        have let the grant expire because its process was stopped.
        """
        if self.answered is None:
            return None
        if self.answer == "timed out" and self.ttl is not None:
            return None if self.answered - self.invoked >= self.ttl else False
        return True if self.answer in YES else False if self.answer in NO else None

    @property
    def asks(self) -> bool:
        """Whether it requests a grant."""
        return self.call in ASKING

    @property
    def changes(self) -> bool:
        """Whether it certainly changed the held grants."""
        return self.call in CHANGING and self.outcome is True

    def __str__(self) -> str:
        about = " ".join(f"{mode}({key})" for key, mode in self.wants)
        if not self.asks:
            about = f"{self.grant} token {self.token}" if self.token else self.grant
        said = self.answer or "no answer"
        if self.asks and self.outcome:
            said += f" {self.grant} token {self.token}"
        end = "" if self.answered is None else f"{self.answered / 1e9:.6f}"
        return f"[{self.invoked / 1e9:.6f} .. {end}] {self.holder}: {self.call} {about} -> {said}"


@dataclass(frozen=True, slots=True)
class Death:
    """The end of a process: not before `after`, and certainly over at `by` if that is known."""

    process: str
    after: int
    by: int | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Everything that was recorded of one ledger."""

    operations: tuple[Operation, ...]
    deaths: tuple[Death, ...] = field(default=())

    def only(self, operations: Iterable[Operation]) -> History:
        """A part of it."""
        return History(tuple(operations), self.deaths)
