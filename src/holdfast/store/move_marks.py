"""What a ledger says about itself that is moved to another store.

A ledger is moved in three steps, and after each of them at most one of the two can be used:

    moving   the source says where it goes; nothing is decided there any more
    copied   the target has everything, and says so, in one transaction
    moved    the source says that this is over

Both say it in rows of their own, next to the notes, that belong to no event. So neither history
nor state changes, and trimming keeps them.
"""

from __future__ import annotations

from holdfast.core.errors import LockConflictError, StoreError
from holdfast.core.model import Value
from holdfast.core.root_errors import BadKeyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: The tables whose rows are copied, and how many rows at once. A ledger that is not in use has no
#: rows in the others.
TABLES = ("events", "repeats", "lost", "notes")
PAGE_ROWS = 5000

_OVER, _BEGUN = "moved", "moving"
#: The rows among the notes: of a store that has no other place for its own mark, the beginning of
#: that and the text after it; of a target, what became of a copy.
MARK, MARK_END = "ledger mov", "ledger mow"
_COPIED, _REFUSED = "ledger copied ", "ledger refused "


class Move(Value):
    """One move of a ledger, as the ledger itself says it. `id` is the same for each attempt to
    complete it."""

    __slots__ = ("id", "is_over", "to")

    def __init__(self, id: str, to: str, *, is_over: bool = False) -> None:
        self.id: Final = id
        self.to: Final = to
        self.is_over: Final = is_over

    @property
    def text(self) -> str:
        """The move as one text."""
        return f"{_OVER if self.is_over else _BEGUN} {self.id} {self.to}"

    @property
    def note(self) -> str:
        """The same as the name of a row among the notes."""
        return f"ledger {self.text}"

    def completed(self) -> Move:
        """The same move, once it is over."""
        return Move(self.id, self.to, is_over=True)


def move_of(text: str | None) -> Move | None:
    """The move of a mark, or of the name of such a row; None without one."""
    if text is None:
        return None
    how, id, to = text.removeprefix("ledger ").split(" ", 2)
    return Move(id, to, is_over=how == _OVER)


def copied(id: str) -> str:
    """The name of the row of a target that a move has filled."""
    return f"{_COPIED}{id}"


def refused(id: str) -> str:
    """The name of the row of a target that must not be filled any more by a move."""
    return f"{_REFUSED}{id}"


def command(source: str, target: str) -> str:
    """The command that moves a ledger, as it is typed."""
    from shlex import quote

    return f"holdfast store copy {quote(source)} {quote(target)}"


def gone(move: Move, here: str) -> StoreError:
    """The error of every call at a ledger that was moved away."""
    if move.is_over:
        from shlex import quote

        return StoreError(
            f"the ledger {here} was moved to {move.to}",
            hint=f"use that one: HOLDFAST_STORE={quote(move.to)}, or store in holdfast.toml",
            path=here, to=move.to,
        )  # fmt: skip
    return StoreError(
        f"the ledger {here} is being moved to {move.to}",
        hint="wait until that is done; if it was interrupted, a person completes it: "
        f"{command(here, move.to)}",
        path=here, to=move.to,
    )  # fmt: skip


def not_empty(here: str, head: int) -> LockConflictError:
    """The error of a target that has a history of its own."""
    return LockConflictError(
        f"{here} has a ledger already, with {head} events",
        hint="choose another place, or another name after the #: a ledger is never overwritten",
        path=here,
    )


def called_off(here: str) -> LockConflictError:
    """The error of a copy whose move was undone meanwhile."""
    return LockConflictError(
        f"this move to {here} was undone meanwhile: nothing was written there",
        hint="the ledger is where it was; begin again if it should move",
        path=here,
    )


def no_descendant(source: str, target: str) -> BadKeyError:
    """The error of a way back from a store that does not have what was moved there."""
    return BadKeyError(
        f"{target} was moved to {source}, but what is in {source} did not come from there",
        hint="choose another place, or another name after the #: a ledger is never overwritten",
        path=target,
    )
