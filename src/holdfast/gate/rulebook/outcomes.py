"""The agent of an event, and the outcomes that the event can have."""

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
    """The default where no client could be about to write."""
    return False


class Asker(Value):
    """The agent of an event, and the settings of its repository. Lengths are microseconds.

    `place` returns where a person finds the agent; it is called only when the agent has no name
    yet. `hears`: the agent reads the outcome, whatever it is. `is_writing` takes an agent's key and
    some keys, and returns whether that agent's edit tool is about to write one of them: the write
    was allowed and has not been reported. Like `view.dead`, it is called inside the decision.
    `also` are rules that are decided with the event.
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
        """The same, with other values for these fields."""
        return Asker(**{**self._fields(), **fields})

    @property
    def retry(self) -> int:
        """The time from a refusal to its retry."""
        return round(self.retry_seconds * SECOND)


class Seen(Value):
    """The stamps of an agent's files just before its stop was decided. Those of its `leases` are
    by the leases' ids, because another agent may have changed the file of a lease that it got
    since; those that it `waited` for are by their paths."""

    __slots__ = ("leases", "waited")

    def __init__(self, leases: Mapping[str, str] = NOTHING, waited: Stamps = NOTHING) -> None:
        self.leases: Final = leases
        self.waited: Final = waited


class Passed(Value):
    """The event passed without a conflict.

    `came` are files that came free for the agent and are now its own; `lapsed` are files that had,
    and that it did not use in time. `is_limited`: an agent was refused that cannot tell whether
    this one is alive, so its leases need a keeper.
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
    """A command of the agent may write: `grants` has a lease for each requested file.

    `is_kept`: they are the agent's, and end as the leases of its edits do. Otherwise the agent has
    stopped or the command has ended, and they are for the processes that still run, as long as
    those write. `is_limited` as in `Passed`.
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
    """Refused for now: the wait, the present conflicts, the place in line; `came` and `lapsed` as
    in `Passed`."""

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
    """The agent may write nothing: it, or an agent that it works for, is blocked. No file is
    reserved for it any more; `lapsed` as in `Passed`."""

    __slots__ = ("block", "holder", "lapsed")

    def __init__(self, holder: Holder, block: Block, *, lapsed: Sequence[str] = ()) -> None:
        self.holder: Final = holder
        self.block: Final = block
        self.lapsed: Final = tuple(lapsed)


class Held(Value):
    """A stop that is held open until a moment, because files may come free."""

    __slots__ = ("holder", "until")

    def __init__(self, holder: Holder, until: int) -> None:
        self.holder: Final = holder
        self.until: Final = until


class Rested(Value):
    """The agent has stopped or ended. `left` are files that it did not get, `given_back` are unused
    files that had come free for it; `blocks` are its blocks, if it ended."""

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
