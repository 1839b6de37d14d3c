"""The values that everything else passes around. None of them is ever changed.

Plain slotted classes on purpose: they cost the start-up of a hook nothing, where the
standard library's generated classes would double it. `Final` lets the type checker refuse
an assignment from outside.

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

#: How the keys of agents begin: they hold many things, and are asked again and again for all.
AGENT = "@"


def agent_key(client: str, session: str, agent: str = "") -> str:
    """What makes two events, or a command and an event, come from the same agent. What an id has in
    it of the marks that keys and the names of notes are put together with is spelled otherwise."""
    return f"{AGENT}{client}/{_spelled(session)}/{_spelled(agent)}"


def ids_of(key: str) -> tuple[str, str]:
    """The session, and the agent of it, that a key was made of."""
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

#: A refusal names the first conflicts, and counts the others up to a limit: one more than that
#: stands for any larger number.
CONFLICTS_NAMED_MAX = 20
CONFLICTS_COUNTED_MAX = 1000
TTL_DEFAULT_SECONDS = 30 * 60
PATIENCE_DEFAULT_SECONDS = 10 * 60


class Value:
    """Equality and a readable form for slotted values. What begins with `_` is not part of it."""

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
    """One process on one machine since one boot: what a holder's life hangs on."""

    __slots__ = ("boot", "host", "namespace", "pid", "start")

    def __init__(self, *, host: str, boot: str, namespace: str, pid: int, start: int) -> None:
        self.host: Final = host
        self.boot: Final = boot
        self.namespace: Final = namespace
        self.pid: Final = pid
        self.start: Final = start

    def __hash__(self) -> int:  # asked for every owner that a decision meets
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
        self._json: str | None = None  # what the ledger says of it, once somebody wrote that


class Request(Value):
    """What somebody wants, all or nothing.

    `keys`, `modes` and `paths` belong together by position: the key to hold, `r` or `w`, and the
    spelling that was given, for people. `silent` are keys that the grant will carry but that are
    not looked up (the identity of a file that has only one name). During the first `grace` of a
    wait it is woken when its turn comes; after that it is served whether awake or not. `stamp` is
    what the requester saw of the file, in words of its own: the grant carries it, and so does
    whatever the grant becomes when it changes hands.

    The id is made by the caller and becomes that of the ticket and of the grant, so a request
    that is repeated because its answer was lost finds what it made the first time.
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
        """The same request with other words in some places."""
        return Request(**{**self._fields(), **changes})

    def without_silent(self) -> Request:
        """The same request with all of its keys looked up."""
        return self.but(silent=())

    def as_reservation(self, ttl: int | None) -> Request:
        """The same request as a reservation from the first moment on, for a lease of a length."""
        return self.but(ttl=ttl, patience=0, grace=0)

    def named(self, id: str) -> Request:
        """The same request under another id."""
        return self.but(id=id)

    def after(self, turns: int) -> Request:
        """The same request with a grace that is longer by the turns of those ahead."""
        return self.but(grace=self.grace + turns)

    def waiting(self, *, waiter: Witness | None, wake: str, grace: int) -> Request:
        """The same request by somebody who stands in line."""
        return self.but(waiter=waiter, wake=wake, grace=grace)


class Grant(Value):
    """What somebody has. It never grows; `token` is what later writes are fenced with.

    It ends at `expires_at` unless it is renewed, or at `idle_at` if its owner came to rest.
    `slept` is how long the machine had slept when the lease was last extended: a sleep does not
    use up the lease of a process that slept as well.
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
        """The same grant with other limits."""
        return Grant(
            id=self.id, holder=self.holder, keys=self.keys, modes=self.modes, paths=self.paths,
            token=self.token, acquired_at=self.acquired_at, ttl=self.ttl, expires_at=expires_at,
            idle_at=idle_at, slept=slept, reason=self.reason, stamp=self.stamp,
        )  # fmt: skip


class Ticket(Value):
    """A wait. `arrival` is the sequence number of its event: the place in the queue.

    Past its patience it is a reservation that no later overlapping request passes.
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
        """The id of the request, and of the grant it will become."""
        return self.request.id

    @property
    def rank(self) -> int:
        """The order of the queue: reservations by arrival, then priority, then arrival."""
        if self.reserved:
            return self.arrival - (1 << 62)
        return self.arrival - (self.request.priority << 40)

    @property
    def ripe_at(self) -> int:
        """When its patience ends and it becomes a reservation."""
        return self.added_at + self.request.patience

    @property
    def grace_ends_at(self) -> int:
        """When its grace ends and others have to serve it."""
        return self.added_at + self.request.grace


class Ending(Value):
    """How a grant was lost, kept with the history so that a late user is told the exact reason.

    One that was given back leaves none: that is what everybody assumes of a grant that is gone.
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
    """One line of the ledger. `data` is what it says.

    An event that says `once` is written only if no event said the same before; otherwise that
    one's `repeats` is counted up, so that somebody who tries again and again does not fill the
    ledger.
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
        """With a `subject`, `data` is only what there is to say beyond that grant."""
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
        """Everything that it says, as plain data."""
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
    """One reason why a request cannot start: who has what, since when, until when, and why."""

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
        """Whether nothing would be told of another one."""
        return self.more > CONFLICTS_COUNTED_MAX

    def and_more(self, count: int) -> None:
        """Count some that are not named."""
        self.more = min(self.more + count, CONFLICTS_COUNTED_MAX + 1)


class Verdict(Value):
    """May this write proceed? If not: the code of the error and the reason in words."""

    __slots__ = ("allowed", "code", "reason")

    def __init__(self, *, allowed: bool, code: str = "", reason: str = "") -> None:
        self.allowed: Final = allowed
        self.code: Final = code
        self.reason: Final = reason

    def __bool__(self) -> bool:
        return self.allowed


class Refusal(Value):
    """A rule's no. It is an outcome, not an exception: what was learnt on the way is committed
    with it, and the manager raises afterwards."""

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
        """`more` conflicts than are named; see CONFLICTS_COUNTED_MAX."""
        self.code: Final = code
        self.message: Final = message
        self.conflicts: Final = conflicts
        self.circle: Final = circle
        self.ending: Final = ending
        self.more: Final = more


class Waiting(Value):
    """A request that has been queued: what stands in its way, and in how long something may
    change by the mere passing of time."""

    __slots__ = ("conflicts", "look_in", "more", "ticket")

    def __init__(
        self,
        *,
        ticket: Ticket,
        conflicts: tuple[ConflictInfo, ...],
        look_in: int | None,
        more: int = 0,
    ) -> None:
        self.ticket: Final = ticket
        self.conflicts: Final = conflicts
        self.look_in: Final = look_in
        self.more: Final = more


class Decision(Generic[T]):
    """What a rule decided: the events to commit, the outcome to return, whom to wake afterwards.

    Those in `wake` have been served. Whoever wants one of the keys in `hint` may try its luck: to
    tell them once in a while is enough.
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
