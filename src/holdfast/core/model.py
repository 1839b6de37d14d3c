"""The values that all other modules exchange. They are immutable.

They are plain slotted classes because dataclasses would double the start-up time of a hook.
`Final` lets the type checker refuse an assignment from outside.

Times are whole microseconds of ledger time, in UTC since 1970.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final, Generic, TypeVar

    T = TypeVar("T", covariant=True)
else:  # `class Decision(Generic[T])` without the cost of importing typing
    T = None
    Generic = {T: object}

#: The prefix of agents' holder keys. Agents have many grants, which are often listed together.
AGENT = "@"


def agent_key(client: str, session: str, agent: str = "") -> str:
    """The holder key of an agent: events and commands with the same key come from the same agent.
    Characters in ids that separate the parts of keys and of notes' names are escaped."""
    return f"{AGENT}{client}/{_spelled(session)}/{_spelled(agent)}"


def ids_of(key: str) -> tuple[str, str]:
    """The session and the agent in a holder key."""
    session, _, agent = key.partition("/")[2].rpartition("/")
    return _read(session), _read(agent)


_SPELLINGS = (("%", "%25"), ("/", "%2F"), (":", "%3A"))


def _spelled(id: str) -> str:
    for mark, spelling in _SPELLINGS:
        if mark in id:
            id = id.replace(mark, spelling)
    return id


def _read(text: str) -> str:
    for mark, spelling in reversed(_SPELLINGS):
        text = text.replace(spelling, mark)
    return text


READ = "r"
WRITE = "w"

SECOND = 1_000_000

#: A refusal names the first conflicts and counts the others up to a limit; a count of one more
#: means any larger number.
CONFLICTS_NAMED_MAX = 20
CONFLICTS_COUNTED_MAX = 1000
TTL_DEFAULT_SECONDS = 30 * 60
PATIENCE_DEFAULT_SECONDS = 10 * 60


class Value:
    """Equality and `repr` for slotted values, over the fields that do not begin with `_`."""

    __slots__ = ()

    def _fields(self) -> dict[str, Any]:
        slots: tuple[str, ...] = self.__slots__
        return {name: getattr(self, name) for name in slots if name[0] != "_"}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(tuple(self._fields().values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields().items())
        return f"{type(self).__name__}({fields})"


class Witness(Value):
    """One process of one boot of one machine: a holder's owner."""

    __slots__ = ("boot", "host", "namespace", "pid", "start")

    def __init__(self, *, host: str, boot: str, namespace: str, pid: int, start: int) -> None:
        self.host: Final = host
        self.boot: Final = boot
        self.namespace: Final = namespace
        self.pid: Final = pid
        self.start: Final = start

    def __hash__(self) -> int:  # called for every owner that a decision examines
        return hash((self.pid, self.start))


class Holder(Value):
    """The holder of grants: `id` is for people, `key` decides whether two holders are the same.

    A holder with a witness is alive while that process runs, or any descendant that has one of
    its `marks` in its environment (`NAME=value`). Without a witness, only the ttl ends its grants.
    """

    __slots__ = (
        "_json", "agent", "client", "id", "key", "marks", "parent", "session", "user", "witness",
    )  # fmt: skip

    def __init__(
        self,
        *,
        id: str,
        key: str = "",
        witness: Witness | None = None,
        marks: tuple[str, ...] = (),
        user: str = "",
        client: str = "",
        session: str = "",
        agent: str = "",
        parent: str = "",
    ) -> None:
        self.id: Final = id
        self.key: Final = key or id
        self.witness: Final = witness
        self.marks: Final = marks
        self.user: Final = user
        self.client: Final = client
        self.session: Final = session
        self.agent: Final = agent
        self.parent: Final = parent
        self._json: str | None = None  # its form in the ledger, cached at the first write


class Request(Value):
    """The keys that a holder wants, all or nothing.

    `keys`, `modes` and `paths` correspond by position: the key to lock, `r` or `w`, and the
    spelling given by the caller, for people. `silent` are keys that the grant will have but that
    are not checked for conflicts (the inode of a file that has only one name). During the first
    `grace` of a wait, the waiter is woken when its turn comes; after that it is granted its keys
    whether it is awake or not. `stamp` is the requester's own description of the file's state; it
    stays with the grant, also when the grant moves to another holder.

    The caller creates the id, which the ticket and the grant share. So a request that is repeated
    because its answer was lost finds the result of the first attempt.
    """

    __slots__ = (
        "grace", "holder", "id", "keys", "modes", "paths", "patience", "priority", "reason",
        "silent", "stamp", "ttl", "waiter", "wake",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        holder: Holder,
        keys: tuple[str, ...],
        modes: str,
        paths: tuple[str, ...] = (),
        silent: tuple[str, ...] = (),
        ttl: int | None = TTL_DEFAULT_SECONDS * SECOND,
        reason: str = "",
        priority: int = 0,
        patience: int = PATIENCE_DEFAULT_SECONDS * SECOND,
        waiter: Witness | None = None,
        wake: str = "",
        grace: int = 0,
        stamp: str = "",
    ) -> None:
        self.id: Final = id
        self.holder: Final = holder
        self.keys: Final = keys
        self.modes: Final = modes
        self.paths: Final = paths or keys
        self.silent: Final = silent
        self.ttl: Final = ttl
        self.reason: Final = reason
        self.priority: Final = priority
        self.patience: Final = patience
        self.waiter: Final = waiter
        self.wake: Final = wake
        self.grace: Final = min(grace, patience)
        self.stamp: Final = stamp

    def but(self, **changes: Any) -> Request:
        """The same request with some fields changed."""
        return Request(**{**self._fields(), **changes})

    def without_silent(self) -> Request:
        """The same request with all of its keys checked."""
        return self.but(silent=())

    def as_reservation(self, ttl: int | None) -> Request:
        """The same request as a reservation from the start, for a lease of this length."""
        return self.but(ttl=ttl, patience=0, grace=0)

    def named(self, id: str) -> Request:
        """The same request under another id."""
        return self.but(id=id)

    def after(self, turns: int) -> Request:
        """The same request with its grace extended by the turns of the tickets ahead."""
        return self.but(grace=self.grace + turns)

    def waiting(self, *, waiter: Witness | None, wake: str, grace: int) -> Request:
        """The same request, with a process that waits for it."""
        return self.but(waiter=waiter, wake=wake, grace=grace)


class Grant(Value):
    """The record of a lock. It never grows; `token` fences later writes.

    It ends at `expires_at` unless it is renewed, or at `idle_at` if its owner stops working.
    `slept` is the machine's total sleep when the lease was last extended: sleep does not use up the
    lease of a process that slept as well.
    """

    __slots__ = (
        "acquired_at", "expires_at", "holder", "id", "idle_at", "keys",
        "modes", "paths", "reason", "slept", "stamp", "token", "ttl",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        holder: Holder,
        keys: tuple[str, ...],
        modes: str,
        paths: tuple[str, ...],
        token: int,
        acquired_at: int,
        ttl: int | None,
        expires_at: int | None,
        idle_at: int | None = None,
        slept: int = 0,
        reason: str = "",
        stamp: str = "",
    ) -> None:
        self.id: Final = id
        self.holder: Final = holder
        self.keys: Final = keys
        self.modes: Final = modes
        self.paths: Final = paths
        self.token: Final = token
        self.acquired_at: Final = acquired_at
        self.ttl: Final = ttl
        self.expires_at: Final = expires_at
        self.idle_at: Final = idle_at
        self.slept: Final = slept
        self.reason: Final = reason
        self.stamp: Final = stamp

    def extended(self, *, expires_at: int | None, idle_at: int | None, slept: int) -> Grant:
        """The same grant with other end times."""
        return Grant(
            id=self.id, holder=self.holder, keys=self.keys, modes=self.modes, paths=self.paths,
            token=self.token, acquired_at=self.acquired_at, ttl=self.ttl, expires_at=expires_at,
            idle_at=idle_at, slept=slept, reason=self.reason, stamp=self.stamp,
        )  # fmt: skip


class Ticket(Value):
    """A waiting request. `arrival` is the sequence number of its event.

    Past its patience it is a reservation: no later overlapping request may overtake it.
    """

    __slots__ = ("added_at", "arrival", "request", "reserved")

    def __init__(
        self, *, request: Request, added_at: int, arrival: int, reserved: bool = False
    ) -> None:
        self.request: Final = request
        self.added_at: Final = added_at
        self.arrival: Final = arrival
        self.reserved: Final = reserved

    def as_reserved(self) -> Ticket:
        """The same ticket as a reservation."""
        return Ticket(
            request=self.request, added_at=self.added_at, arrival=self.arrival, reserved=True
        )

    @property
    def id(self) -> str:
        """The id of the request, and of its future grant."""
        return self.request.id

    @property
    def rank(self) -> int:
        """The order of the queue: reservations by arrival, then priority, then arrival."""
        if self.reserved:
            return self.arrival - (1 << 62)
        return self.arrival - (self.request.priority << 40)

    @property
    def ripe_at(self) -> int:
        """When its patience ends, and it becomes a reservation."""
        return self.added_at + self.request.patience

    @property
    def grace_ends_at(self) -> int:
        """When its grace ends, and other decisions must serve it."""
        return self.added_at + self.request.grace


class Ending(Value):
    """How a grant was lost, kept with the history so that a late caller learns the exact reason.

    A released grant leaves none: a release is the default assumption for a missing grant.
    """

    __slots__ = ("at", "by", "holder", "id", "token", "why")

    def __init__(self, *, id: str, holder: str, token: int, why: str, at: int, by: str) -> None:
        self.id: Final = id
        self.holder: Final = holder
        self.token: Final = token
        self.why: Final = why
        self.at: Final = at
        self.by: Final = by


class Event(Value):
    """One event of the ledger.

    An event with `once` is written only if there is no event with the same text yet; otherwise
    that one's `repeats` is incremented, so that a caller that retries does not fill the ledger.
    """

    __slots__ = ("_data", "at", "once", "repeats", "seq", "subject", "type", "version")

    def __init__(
        self,
        seq: int,
        type: str,
        at: int,
        data: Mapping[str, Any],
        version: int = 1,
        repeats: int = 0,
        once: str = "",
        subject: Grant | None = None,
    ) -> None:
        """With a `subject`, `data` has only the fields beyond that grant."""
        self.seq: Final = seq
        self.type: Final = type
        self.at: Final = at
        self._data: Final = data
        self.version: Final = version
        self.repeats: Final = repeats
        self.once: Final = once
        self.subject: Final = subject

    @property
    def data(self) -> Mapping[str, Any]:
        """All of its fields, as plain data."""
        if self.subject is None:
            return self._data
        from holdfast.core.codec import spelled

        return spelled(self.type, self.subject, self._data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Event):
            return NotImplemented
        mine = (self.seq, self.type, self.version, self.at, self.data)
        return mine == (other.seq, other.type, other.version, other.at, other.data)

    def __hash__(self) -> int:
        return hash((self.seq, self.type))

    def __repr__(self) -> str:
        return f"Event(seq={self.seq}, type={self.type!r}, at={self.at}, data={self.data!r})"


class ConflictInfo(Value):
    """One reason why a request cannot start: the holder, path, start, end and reason of a lock."""

    __slots__ = (
        "grant_id", "held_mode", "held_path", "holder", "holder_key", "kind",
        "mode", "path", "reason", "since", "until",
    )  # fmt: skip

    def __init__(
        self,
        *,
        path: str,
        mode: str,
        held_path: str,
        held_mode: str,
        holder: str,
        holder_key: str,
        grant_id: str,
        since: int,
        until: int | None,
        reason: str = "",
        kind: str = "grant",
    ) -> None:
        self.path: Final = path
        self.mode: Final = mode
        self.held_path: Final = held_path
        self.held_mode: Final = held_mode
        self.holder: Final = holder
        self.holder_key: Final = holder_key
        self.grant_id: Final = grant_id
        self.since: Final = since
        self.until: Final = until
        self.reason: Final = reason
        self.kind: Final = kind


class Conflicts(list[ConflictInfo]):
    """The first conflicts of a request, and how many `more` there are (CONFLICTS_COUNTED_MAX)."""

    __slots__ = ("more",)

    def __init__(self, named: Iterable[ConflictInfo] = (), more: int = 0) -> None:
        super().__init__(named)
        self.more = more

    @property
    def are_enough(self) -> bool:
        """Whether a further conflict would change nothing in the refusal."""
        return self.more > CONFLICTS_COUNTED_MAX

    def and_more(self, count: int) -> None:
        """Count conflicts that are not named."""
        self.more = min(self.more + count, CONFLICTS_COUNTED_MAX + 1)


class Verdict(Value):
    """Whether a write may proceed; if not, the code of the error and the reason in words."""

    __slots__ = ("allowed", "code", "reason")

    def __init__(self, *, allowed: bool, code: str = "", reason: str = "") -> None:
        self.allowed: Final = allowed
        self.code: Final = code
        self.reason: Final = reason

    def __bool__(self) -> bool:
        return self.allowed


class Refusal(Value):
    """A refusal, as an outcome and not an exception: the changes made on the way (a reaped grant)
    are committed with it, and the manager raises the error afterwards."""

    __slots__ = ("circle", "code", "conflicts", "ending", "message", "more")

    def __init__(
        self,
        *,
        code: str,
        message: str = "",
        conflicts: tuple[ConflictInfo, ...] = (),
        circle: tuple[ConflictInfo, ...] = (),
        ending: Ending | None = None,
        more: int = 0,
    ) -> None:
        """`more` is the number of further conflicts; see CONFLICTS_COUNTED_MAX."""
        self.code: Final = code
        self.message: Final = message
        self.conflicts: Final = conflicts
        self.circle: Final = circle
        self.ending: Final = ending
        self.more: Final = more


class Waiting(Value):
    """A queued request: its conflicts, and the time after which to check again, because a lease
    or a patience will have ended."""

    __slots__ = ("check_after", "conflicts", "more", "ticket")

    def __init__(
        self,
        *,
        ticket: Ticket,
        conflicts: tuple[ConflictInfo, ...],
        check_after: int | None,
        more: int = 0,
    ) -> None:
        self.ticket: Final = ticket
        self.conflicts: Final = conflicts
        self.check_after: Final = check_after
        self.more: Final = more


class Decision(Generic[T]):
    """The result of a rule: the events to commit, the outcome to return, the waiters to wake.

    The waiters in `wake` have their grants. The keys in `hint` came free, and a waiter for one of
    them may try again; waking such a waiter only now and then is enough.
    """

    __slots__ = ("events", "hint", "outcome", "wake")

    def __init__(
        self,
        outcome: T,
        events: tuple[Event, ...] = (),
        wake: tuple[str, ...] = (),
        hint: tuple[str, ...] = (),
    ) -> None:
        self.outcome: Final = outcome
        self.events: Final = events
        self.wake: Final = wake
        self.hint: Final = hint
