"""The records of agents beside their leases: one type for each kind.

Each is a note in the ledger: an event that can be read by its name until it is over. The event's
version gives its format; a record of a newer Holdfast is refused with an error, never half
understood. Only this module, and `agent_family` for its own, knows the names and formats of notes.

    gate:KEY:agent         Presence   who an agent is, and the process that it lives by
    gate:KEY:retry:ID      Wait       it was refused, waits in the queue, and may retry once
    gate:KEY:blocked:ID    Block      the retry failed: it waits for its user
    gate:KEY:free:ID       Free       the file that blocks it is free; whether people were notified
    gate:KEY:rest          Rest       it has stopped; its leases end in a while
    gate:KEY:limit         Limit      others cannot tell whether it lives: its leases have an end
    gate:name:NAME         Name       the agent that has, or had, this name
"""

from __future__ import annotations

from holdfast.core.codec import witness_from_list, witness_to_list
from holdfast.core.model import SECOND, Holder, Value, agent_key, ids_of
from holdfast.gate.rulebook import file_states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from holdfast.core.draft import Draft
    from holdfast.core.model import Event, Witness
    from holdfast.core.view import View

# The events of the gate.
HEARTBEAT = "contention_heartbeat"
STOP_HELD = "stop_held"
BACK_IN_LINE = "back_in_line"
HANDED_OVER = "file_handed_over"
LIMITED = "leases_limited"
LASTING = "leases_lasting"
CONTENTION_OVER = "contention_over"
BLOCKED = "agent_blocked"
RESUMED = "agent_resumed"
FREE_AGAIN = "blocker_free"
FREE_TOLD = "blocker_free_told"
FREE_OVER = "blocker_free_over"
RESTING = "agent_resting"
AWAKE = "agent_awake"
PRESENT = "agent_present"
GONE = "agent_gone"
NAMED = "agent_named"
CALLS = "agent_calls"
STARTED = "agent_started"
ENDED = "agent_ended"

#: The newest version of each format that is not 1.
_VERSIONS = {RESTING: 2}

_ALL = "gate:@"
_NAMES = "gate:name:"


def of_agent(key: str) -> str:
    """The common prefix of the names of all notes on an agent."""
    return f"gate:{key}:"


def of_session(session_key: str) -> str:
    """The common prefix of the names of all notes on the agents of a session."""
    return f"gate:{session_key}"


def _key_in(name: str) -> str:
    """The key of the agent that a note of that name is on."""
    start = name.removeprefix("gate:")
    return start.rsplit(":", 1 if start.endswith(_SINGLE) else 2)[0]


_SINGLE = (":agent", ":rest", ":limit")


def agent_of(event: Event) -> str:
    """The key of the agent that an event of the gate is about; empty if it names none."""
    note = event.data.get("note")
    if isinstance(note, str) and note.startswith(_ALL):
        return _key_in(note)
    key = event.data.get("key")
    return key if isinstance(key, str) and key.startswith("@") else ""


def is_readable(event: Event) -> bool:
    """Whether this version knows the format of an event."""
    return event.version <= _VERSIONS.get(event.type, 1)


def version_of(event: Event) -> int:
    """The version of an event's format. Raises if a newer Holdfast wrote it."""
    known = _VERSIONS.get(event.type, 1)
    if event.version > known:
        from holdfast.core.errors import RecordVersionError

        raise RecordVersionError(
            f"the ledger's {event.type} {event.seq} was written by a newer version of Holdfast "
            f"(version {event.version}, this one reads up to {known})",
            hint="upgrade: pip install --upgrade holdfast",
            event=event.seq,
            type=event.type,
            version=event.version,
        )
    return event.version


class Record(Value):
    """One note. `name` is the name that it is read by, `at` the time when it was written."""

    __slots__ = ()
    name: str

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        raise NotImplementedError

    def write(self, draft: Draft, type: str, **facts: Any) -> None:
        """Write the note, in place of an earlier one of this name."""
        data = {**self.to_data(), **facts}
        draft.say(type, data, name=self.name, version=_VERSIONS.get(type, 1))

    def end(self, draft: Draft, type: str, **facts: Any) -> None:
        """End the note."""
        draft.say(type, facts, name=self.name, over=True)


class Presence(Record):
    """An agent at work here: its name, where a person finds it, and the process it lives by."""

    __slots__ = (
        "agent", "at", "client", "key", "marks", "name", "place", "session", "shown", "witness",
    )  # fmt: skip

    def __init__(
        self,
        key: str,
        *,
        shown: str,
        client: str,
        session: str,
        agent: str,
        place: str,
        witness: Witness | None,
        marks: Sequence[str],
        at: int,
    ) -> None:
        self.key: Final = key
        self.name = f"{of_agent(key)}agent"
        self.shown: Final = shown
        self.client: Final = client
        self.session: Final = session
        self.agent: Final = agent
        self.place: Final = place
        self.witness: Final = witness
        self.marks: Final = tuple(marks)
        self.at: Final = at

    def in_process(self, witness: Witness | None) -> Holder:
        """The agent as a holder that is alive as long as that process."""
        return Holder(
            id=self.shown, key=self.key, witness=witness, marks=self.marks, client=self.client,
            session=self.session, agent=self.agent,
            parent=agent_key(self.client, self.session) if self.agent else "",
        )  # fmt: skip

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {
            "agent": self.shown, "key": self.key, "client": self.client, "session": self.session,
            "sub_agent": self.agent, "place": self.place, "witness": witness_to_list(self.witness),
            "marks": self.marks,
        }  # fmt: skip

    @classmethod
    def of(cls, event: Event) -> Presence:
        """The record of an event."""
        version_of(event)
        data = event.data
        return cls(
            data["key"], shown=data["agent"], client=data["client"], session=data["session"],
            agent=data["sub_agent"], place=data["place"],
            witness=witness_from_list(data["witness"]), marks=data["marks"], at=event.at,
        )  # fmt: skip


class Wait(Record):
    """A refusal: the files waited for, their owner, and the time of the one retry.

    `ticket` is the place in the queue, empty if the wait would deadlock: `circle` is the cycle then
    (pairs of a path and its holder). `held`: a stop has been held for this wait since the agent's
    last attempt, which happens once. `handed`: the file came free and is the agent's, which has
    been told and has not used it yet.
    """

    __slots__ = (
        "agent", "at", "blocked", "circle", "denied_at", "handed", "held", "keys", "name", "owner",
        "owner_key", "paths", "retry_at", "retry_seconds", "since", "ticket",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        agent: str,
        paths: Sequence[str],
        keys: Sequence[str],
        blocked: Sequence[str],
        owner: str,
        owner_key: str,
        since: int,
        denied_at: int,
        retry_at: int,
        retry_seconds: float,
        ticket: str,
        circle: Sequence[Sequence[str]],
        held: bool = False,
        handed: bool = False,
        at: int = 0,
    ) -> None:
        self.name = name
        self.agent: Final = agent
        self.paths: Final = tuple(paths)
        self.keys: Final = tuple(keys)
        self.blocked: Final = tuple(blocked)
        self.owner: Final = owner
        self.owner_key: Final = owner_key
        self.since: Final = since
        self.denied_at: Final = denied_at
        self.retry_at: Final = retry_at
        self.retry_seconds: Final = retry_seconds
        self.ticket: Final = ticket
        self.circle: Final = tuple((path, holder) for path, holder in circle)
        self.held: Final = held
        self.handed: Final = handed
        self.at: Final = at

    @staticmethod
    def named(key: str, id: str) -> str:
        """The name of the note on an agent's wait."""
        return f"{of_agent(key)}retry:{id}"

    @property
    def id(self) -> str:
        """The id of this wait among the agent's waits."""
        return self.name.rsplit(":", 1)[1]

    @property
    def key(self) -> str:
        """The agent that waits."""
        return _key_in(self.name)

    @property
    def state(self) -> str:
        """The agent's state towards the files."""
        return file_states.OWNED if self.handed else file_states.RETRY_PENDING

    def but(self, **fields: Any) -> Wait:
        """The same wait, with other values for these fields."""
        return Wait(**{**self._fields(), **fields})

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {
            "agent": self.agent, "paths": self.paths, "keys": self.keys, "blocked": self.blocked,
            "owner": self.owner, "owner_key": self.owner_key, "since": self.since,
            "denied_at": self.denied_at, "retry_at": self.retry_at,
            "retry_seconds": self.retry_seconds, "ticket": self.ticket,
            "circle": [list(step) for step in self.circle],
        }  # fmt: skip

    @classmethod
    def of(cls, event: Event) -> Wait:
        """The record of an event."""
        version_of(event)
        data = event.data
        fields = {name: data[name] for name in _WAIT_FIELDS}
        kind = event.type
        return cls(
            data["note"], held=kind == STOP_HELD, handed=kind == HANDED_OVER, at=event.at, **fields
        )


_WAIT_FIELDS = (
    "agent", "paths", "keys", "blocked", "owner", "owner_key", "since", "denied_at", "retry_at",
    "retry_seconds", "ticket", "circle",
)  # fmt: skip
_WAITS = (HEARTBEAT, STOP_HELD, BACK_IN_LINE, HANDED_OVER)


class Block(Record):
    """An agent that was stopped: the whole report, until a person lets it continue. `keys` are
    those of the file that blocks it."""

    __slots__ = ("agent", "at", "keys", "name", "report")

    def __init__(
        self,
        name: str,
        *,
        agent: str,
        report: Mapping[str, Any],
        keys: Sequence[str] = (),
        at: int = 0,
    ) -> None:
        self.name = name
        self.agent: Final = agent
        self.report: Final = dict(report)
        self.keys: Final = tuple(keys) or (self.file,)
        self.at: Final = at

    @staticmethod
    def named(key: str, id: str) -> str:
        """The name of the note on an agent's block."""
        return f"{of_agent(key)}blocked:{id}"

    @property
    def state(self) -> str:
        """The agent's state towards the file."""
        return file_states.BLOCKED

    @property
    def key(self) -> str:
        """The agent that it is about."""
        return _key_in(self.name)

    @property
    def file(self) -> str:
        """The file that another agent holds."""
        file: str = self.report["blocked_file"]
        return file

    @property
    def free(self) -> Free:
        """The note that the file is free, whether or not it is written."""
        return Free(
            f"{of_agent(self.key)}free:{self.name.rsplit(':', 1)[1]}",
            agent=self.agent, key=self.key, file=self.file,
        )  # fmt: skip

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {"agent": self.agent, "report": self.report, "keys": self.keys}

    def end(self, draft: Draft, type: str, **facts: Any) -> None:
        """End the note, and the note that the file is free."""
        super().end(draft, type, **facts)
        free = self.free
        if draft.note(free.name) is not None:
            free.end(draft, FREE_OVER, **free.to_data(), why="resumed")

    @classmethod
    def of(cls, event: Event) -> Block:
        """The record of an event. The first reports contained no keys."""
        version_of(event)
        data = event.data
        key = agent_of(event)
        report = {"agent_key": key, "session": ids_of(key)[0], "owner_key": "", **data["report"]}
        return cls(
            data["note"], agent=data["agent"], report=report, keys=data.get("keys", ()),
            at=event.at,
        )  # fmt: skip


class Free(Record):
    """The file that blocks an agent is free. The event's type says whether people were told."""

    __slots__ = ("agent", "file", "key", "name")

    def __init__(self, name: str, *, agent: str, key: str, file: str) -> None:
        self.name = name
        self.agent: Final = agent
        self.key: Final = key
        self.file: Final = file

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {"agent": self.agent, "key": self.key, "file": self.file}


class Rest(Record):
    """An agent that has stopped. `held_until` is not 0 while its hook holds the stop open."""

    __slots__ = ("agent", "at", "held_until", "length", "name")

    def __init__(
        self, key: str, *, agent: str, length: int, held_until: int = 0, at: int = 0
    ) -> None:
        self.name = f"{of_agent(key)}rest"
        self.agent: Final = agent
        self.length: Final = length
        self.held_until: Final = held_until
        self.at: Final = at

    @property
    def key(self) -> str:
        """The agent that has stopped."""
        return self.name.split(":", 1)[1].rsplit(":", 1)[0]

    def held_only_until(self, moment: int) -> Rest:
        """The same, held open no longer than until that moment."""
        return Rest(self.key, agent=self.agent, length=self.length, held_until=moment, at=self.at)

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {
            "agent": self.agent,
            "seconds": self.length / SECOND,
            "held_until": self.held_until or None,
        }

    @classmethod
    def of(cls, event: Event) -> Rest:
        """The record of an event. The first version had no held stops."""
        held = event.data["held_until"] or 0 if version_of(event) > 1 else 0
        made = cls(
            "", agent=event.data["agent"], length=round(event.data["seconds"] * SECOND),
            held_until=held, at=event.at,
        )  # fmt: skip
        made.name = event.data["note"]
        return made


class Limit(Record):
    """An agent was refused that cannot tell whether this one lives: this one's leases end unless
    its events, or a keeper beside it, renew them."""

    __slots__ = ("agent", "name")

    def __init__(self, key: str, *, agent: str) -> None:
        self.name = f"{of_agent(key)}limit"
        self.agent: Final = agent

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {"agent": self.agent}

    @classmethod
    def of(cls, event: Event) -> Limit:
        """The record of an event."""
        version_of(event)
        made = cls("", agent=event.data["agent"])
        made.name = event.data["note"]
        return made


class Name(Record):
    """The agent that has, or had, a name: names are never given twice."""

    __slots__ = ("key", "name", "shown")

    def __init__(self, shown: str, key: str) -> None:
        self.name = f"{_NAMES}{shown}"
        self.shown: Final = shown
        self.key: Final = key

    def to_data(self) -> dict[str, Any]:
        """The data of the event."""
        return {"agent": self.shown, "key": self.key}


class Known:
    """All records of one agent. `handed` are waits that succeeded and whose file is unused."""

    __slots__ = ("blocks", "handed", "limit", "presence", "rest", "waits")

    def __init__(self, notes: Sequence[Event]) -> None:
        self.presence: Presence | None = None
        self.rest: Rest | None = None
        self.limit: Limit | None = None
        self.waits: list[Wait] = []
        self.handed: list[Wait] = []
        self.blocks: list[Block] = []
        for event in notes:
            kind = event.type
            if kind == PRESENT:
                self.presence = Presence.of(event)
            elif kind in _WAITS:
                wait = Wait.of(event)
                (self.handed if wait.handed else self.waits).append(wait)
            elif kind == BLOCKED:
                self.blocks.append(Block.of(event))
            elif kind == RESTING:
                self.rest = Rest.of(event)
            elif kind == LIMITED:
                self.limit = Limit.of(event)


def known(view: View | Draft, key: str) -> Known:
    """The records of an agent."""
    return Known(view.notes(of_agent(key)))


def blocks(view: View | Draft, start: str = "") -> list[Block]:
    """The blocks of agents, oldest first: all, or those whose notes' names begin with `start`."""
    return [Block.of(event) for event in view.notes(start or _ALL) if event.type == BLOCKED]


def known_blocks(view: View | Draft) -> list[Block]:
    """The same of all agents, without records of a newer Holdfast: a notification must not keep
    an agent from releasing a file."""
    notes = (event for event in view.notes(_ALL) if event.type == BLOCKED)
    return [Block.of(event) for event in notes if is_readable(event)]


def waits(view: View | Draft, start: str = _ALL) -> list[Wait]:
    """All waits of agents, oldest first."""
    return [Wait.of(event) for event in view.notes(start) if event.type in _WAITS]


def rests(view: View | Draft, start: str) -> list[Rest]:
    """The rests of agents that have stopped, by the beginning of the notes' names."""
    return [Rest.of(event) for event in view.notes(start) if event.type == RESTING]


def present(view: View | Draft, start: str = _ALL) -> list[Presence]:
    """The agents at work here, oldest first, without records of a newer Holdfast."""
    notes = (event for event in view.notes(start) if event.type == PRESENT)
    return [Presence.of(event) for event in notes if is_readable(event)]


class AllAgents:
    """The records of all agents, oldest first; by key where an agent has only one of a kind."""

    __slots__ = ("blocks", "present", "rests", "waits")

    def __init__(self, notes: Sequence[Event]) -> None:
        self.present: dict[str, Presence] = {}
        self.rests: dict[str, Rest] = {}
        self.waits: list[Wait] = []
        self.blocks: list[Block] = []
        for event in notes:
            kind = event.type
            if kind == PRESENT:
                presence = Presence.of(event)
                self.present[presence.key] = presence
            elif kind in _WAITS:
                self.waits.append(Wait.of(event))
            elif kind == BLOCKED:
                self.blocks.append(Block.of(event))
            elif kind == RESTING:
                rest = Rest.of(event)
                self.rests[rest.key] = rest


def all_agents(view: View | Draft) -> AllAgents:
    """The records of all agents."""
    return AllAgents(view.notes(_ALL))


def end_all(draft: Draft, start: str) -> None:
    """End all notes of some agents, except those on blocks: a person has to read them."""
    for event in draft.notes(start):
        type = _OVER.get(event.type)
        if type is not None:
            data = {"agent": event.data["agent"]}
            draft.say(type, data, name=event.data["note"], over=True)


_OVER = {
    **dict.fromkeys(_WAITS, CONTENTION_OVER),
    RESTING: AWAKE,
    PRESENT: GONE,
    LIMITED: LASTING,
}


def owner_of_name(view: View | Draft, shown: str) -> str:
    """The key of the agent that has a name; empty if none ever had it."""
    event = view.note(f"{_NAMES}{shown}")
    if event is None:
        return ""
    version_of(event)
    key: str = event.data["key"]
    return key
