"""Who asks, and what comes of an event."""

from __future__ import annotations

from holdfast.core.draft import NOTHING
from holdfast.core.model import SECOND, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from holdfast.core.draft import Draft
    from holdfast.core.model import ConflictInfo, Grant, Holder
    from holdfast.gate.rulebook.agent_records import Block, Wait

    #: What files look like, by their paths; see `gate.stamps`.
    Stamps = Mapping[str, str]


def no_edit_is_pending(_key: str, _keys: Sequence[str]) -> bool:
    """Where no client is that could be about to write something."""
    return False


class Asker(Value):
    """The agent that an event is of, and what its repository has set. Lengths are microseconds.

    `place` says where a person finds the agent; it is asked only when the agent has no name yet.
    `hears`: it reads what comes of the event, whatever that is. `is_writing` tells of an agent, by
    its key, whether its edit tool is about to write one of some keys: it was allowed, and has not
    been done. It is asked inside the decision, as `view.dead` is. `also` is what else is decided
    with the event.
    """

    __slots__ = (
        "also", "foreign", "hears", "holder", "idle", "is_writing", "new_id", "place",
        "retry_seconds", "wake",
    )  # fmt: skip

    def __init__(
        self,
        holder: Holder,
        *,
        place: Callable[[], str],
        new_id: Callable[[], str],
        retry_seconds: float,
        idle: int,
        foreign: int,
        wake: bool,
        hears: bool = True,
        is_writing: Callable[[str, Sequence[str]], bool] = no_edit_is_pending,
        also: Sequence[Callable[[Draft, Holder], None]] = (),
    ) -> None:
        self.also: Final = tuple(also)
        self.holder: Final = holder
        self.place: Final = place
        self.new_id: Final = new_id
        self.retry_seconds: Final = retry_seconds
        self.idle: Final = idle
        self.foreign: Final = foreign
        self.wake: Final = wake
        self.hears: Final = hears
        self.is_writing: Final = is_writing

    def but(self, **fields: Any) -> Asker:
        """The same, with something else in it."""
        return Asker(**{**self._fields(), **fields})

    @property
    def retry(self) -> int:
        """From a refusal to its retry."""
        return round(self.retry_seconds * SECOND)


class Seen(Value):
    """What an agent's files looked like just before its stop was decided: those of its `leases` by
    the leases' ids, for a lease that it got since is of a file that another may have changed; and
    by their paths those that it `waited` for."""

    __slots__ = ("leases", "waited")

    def __init__(self, leases: Mapping[str, str] = NOTHING, waited: Stamps = NOTHING) -> None:
        self.leases: Final = leases
        self.waited: Final = waited


class Passed(Value):
    """Nothing stands in the way.

    `came` are files that came free for the agent and are its own; `lapsed` are some that were, and
    that it did not use in time. `is_limited`: another agent was refused that cannot tell whether
    this one lives, so its leases need a keeper.
    """

    __slots__ = ("came", "holder", "is_limited", "lapsed")

    def __init__(
        self,
        holder: Holder,
        *,
        came: Sequence[str] = (),
        lapsed: Sequence[str] = (),
        is_limited: bool = False,
    ) -> None:
        self.holder: Final = holder
        self.came: Final = tuple(came)
        self.lapsed: Final = tuple(lapsed)
        self.is_limited: Final = is_limited


class Leased(Value):
    """A command of the agent may write: `grants` has a lease for each file that was asked for.

    `is_kept`: they are the agent's, and end as those of its edits do. Else the agent has stopped
    or the command has ended, and they are for what is still running, as long as that writes.
    `is_limited` as of what passed.
    """

    __slots__ = ("grants", "holder", "is_kept", "is_limited")

    def __init__(
        self, holder: Holder, grants: Sequence[Grant], *, is_kept: bool, is_limited: bool = False
    ) -> None:
        self.holder: Final = holder
        self.grants: Final = tuple(grants)
        self.is_kept: Final = is_kept
        self.is_limited: Final = is_limited


class Denied(Value):
    """Refused for now: the wait, what stands in the way at this moment, the place in line; `came`
    and `lapsed` as of what passed."""

    __slots__ = ("came", "conflicts", "holder", "lapsed", "line", "now", "wait")

    def __init__(
        self,
        holder: Holder,
        wait: Wait,
        conflicts: Sequence[ConflictInfo],
        *,
        line: int,
        now: int,
        came: Sequence[str] = (),
        lapsed: Sequence[str] = (),
    ) -> None:
        self.came: Final = tuple(came)
        self.lapsed: Final = tuple(lapsed)
        self.holder: Final = holder
        self.wait: Final = wait
        self.conflicts: Final = tuple(conflicts)
        self.line: Final = line
        self.now: Final = now


class Halted(Value):
    """The agent may write nothing: it is blocked, or one that it works for. Nothing is kept for it
    any more; `lapsed` as of what passed."""

    __slots__ = ("block", "holder", "lapsed")

    def __init__(self, holder: Holder, block: Block, *, lapsed: Sequence[str] = ()) -> None:
        self.holder: Final = holder
        self.block: Final = block
        self.lapsed: Final = tuple(lapsed)


class Held(Value):
    """A stop that is held open until a moment, for files that may come free."""

    __slots__ = ("holder", "until")

    def __init__(self, holder: Holder, until: int) -> None:
        self.holder: Final = holder
        self.until: Final = until


class Rested(Value):
    """The agent has stopped, or ended. `left` are files that it did not get, `given_back` some that
    had come free for it; `blocks` is what it was blocked by, if it ended."""

    __slots__ = ("blocks", "given_back", "holder", "left")

    def __init__(
        self,
        holder: Holder,
        left: Sequence[str] = (),
        given_back: Sequence[str] = (),
        blocks: Sequence[Block] = (),
    ) -> None:
        self.holder: Final = holder
        self.left: Final = tuple(left)
        self.given_back: Final = tuple(given_back)
        self.blocks: Final = tuple(blocks)
