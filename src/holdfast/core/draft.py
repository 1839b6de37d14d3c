"""A draft: an immutable view together with the changes of one decision so far.

It keeps the rules pure: they read through it and write into it, and the result is a list of
events, which the store commits or discards as a whole.
"""

from __future__ import annotations

from holdfast.core import codec, events, keys
from holdfast.core.model import SECOND, Decision, Ending, Event, Grant, Request, Ticket, Witness
from holdfast.core.overlaps import Overlaps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    from holdfast.core.model import Holder
    from holdfast.core.view import View

    T = TypeVar("T")

NOTHING: dict[str, Any] = {}
SERVED: dict[str, Any] = {"ticket": True}  # in the event of a grant whose request had waited
#: Waking a process costs little compared with a hold of this length.
LONG = SECOND // 100
#: However many requests wait, their graces end after this time, and they are served in order.
TURNS_MAX = SECOND
LAST = 1 << 61  # the arrival of a request without a ticket: after all that have one


_reached: dict[tuple[str, ...], tuple[list[str], list[tuple[str, str]]]] = {}
REACHED_MAX = 4096
#: Larger requests are not cached: they are rarely repeated, and would take too much memory.
REMEMBERED_KEYS_MAX = 64


def reach(wanted: tuple[str, ...]) -> tuple[list[str], list[tuple[str, str]]]:
    """Where to look for everything that overlaps these keys: exact keys (those of inodes last),
    and the ranges below them.

    Cached, because a holder releases the keys that it acquired. Callers must not change it.
    """
    if len(wanted) > REMEMBERED_KEYS_MAX:
        return _reach(wanted)
    known = _reached.get(wanted)
    if known is None:
        if len(_reached) >= REACHED_MAX:
            _reached.clear()
        known = _reached[wanted] = _reach(wanted)
    return known


def _reach(wanted: tuple[str, ...]) -> tuple[list[str], list[tuple[str, str]]]:
    at: dict[str, None] = {}
    below: list[tuple[str, str]] = []
    for key in wanted:
        at[key] = None
        for ancestor in keys.ancestors(key):
            at[ancestor] = None
        inside = keys.below(key)
        if inside is not None:
            below.append(inside)
    inodes = [key for key in at if key.startswith("inode:")]
    return [key for key in at if not key.startswith("inode:")] + inodes, below


def folders_of(below: list[tuple[str, str]]) -> set[str]:
    """The folders whose contents these ranges cover."""
    return {low[:-1] or keys.ROOT for low, _high in below}


def in_order(at: list[str], below: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """The keys and the folders to search, each sorted, without those inside another of the folders:
    so every match is found once, and in the order of its key."""
    folders = folders_of(below)
    if not folders:
        return sorted(at), []

    def is_apart(key: str) -> bool:
        return folders.isdisjoint(keys.ancestors(key))

    return sorted(filter(is_apart, at)), sorted(filter(is_apart, folders))


def granted(view: View, request: Request, last_token: int) -> Grant:
    """The grant that a request becomes."""
    now, ttl, token = view.now, request.ttl, last_token + 1
    length = kept_for(view, request.holder) if ttl is None else ttl
    return Grant(
        request.id,
        request.holder,
        request.keys,
        request.modes,
        request.paths,
        token if token > view.wall else view.wall,
        now,
        ttl,
        None if length is None else now + length,
        None,
        view.slept,
        request.reason,
        request.stamp,
    )


def kept_for(view: View, holder: Holder) -> int | None:
    """How long a lease of this holder without a ttl lasts unless it is renewed; None without limit.

    A process renews its leases. A holder without one cannot, so its leases last until released."""
    return None if holder.witness is None else view.lease


class Draft:
    """The changes of one decision so far. Not for use after `done`."""

    __slots__ = (
        "_dead", "_dropped", "_ended", "_granted", "_notes", "_queued",
        "_token", "after_long", "events", "freed", "hint", "now", "view", "wake",
    )  # fmt: skip

    def __init__(self, view: View) -> None:
        self.view = view
        self.now = view.now
        self.events: list[Event] = []
        self.wake: list[str] = []
        self.hint: list[str] = []
        self.freed: list[str] = []
        self.after_long = False  # whether a key that came free had been held for long
        self._token = 0
        self._ended: dict[str, Event] = {}
        self._granted: dict[str, Grant] = {}
        self._queued: dict[str, Ticket] = {}
        self._dropped: set[str] = set()
        self._notes: dict[str, Event | None] = {}
        self._dead: dict[tuple[Witness, tuple[str, ...]], bool | None] = {}

    def done(self, outcome: T) -> Decision[T]:
        """The decision."""
        return Decision(outcome, tuple(self.events), tuple(self.wake), tuple(self.hint))

    # The state, with the changes so far

    def grant(self, id: str) -> Grant | Ending | None:
        """A grant, or how it ended."""
        granted = self._granted.get(id)
        if granted is not None:
            return granted
        ended = self._ended.get(id)
        return self.view.grant(id) if ended is None else events.ending(ended)

    def live_grant(self, id: str) -> Grant | None:
        """A grant that has not ended."""
        found = self.grant(id)
        return found if isinstance(found, Grant) else None

    def scopes(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
        """(key, mode, grant id) of all keys held there, those granted by this decision first."""
        rows = self.view.scopes(at, below)
        if self._ended or self._granted:
            return self._changed(rows, self._new_scopes(at, below))
        return rows

    def _changed(
        self, rows: Iterator[tuple[str, str, str]], new: list[tuple[str, str, str]]
    ) -> Iterator[tuple[str, str, str]]:
        # A grant that ends while its rows are being read must not appear any more.
        yield from new
        for row in rows:
            if row[2] not in self._ended and row[2] not in self._granted:
                yield row

    def _new_scopes(
        self, at: list[str], below: list[tuple[str, str]]
    ) -> list[tuple[str, str, str]]:
        if not self._granted:
            return []
        exactly, folders = set(at), folders_of(below)
        found = [
            (key, mode, grant.id)
            for grant in self._granted.values()
            for key, mode in zip(grant.keys, grant.modes, strict=True)
            if key in exactly or not folders.isdisjoint(keys.ancestors(key))
        ]
        return sorted(found)

    def rows_of(self, holder_key: str) -> list[tuple[str, str, str]]:
        """(key, mode, grant id) of all keys of one holder."""
        grants = [grant for grant in self.view.held_by(holder_key) if grant.id not in self._ended]
        grants += [new for new in self._granted.values() if new.holder.key == holder_key]
        return sorted(
            {
                (key, mode, grant.id)
                for grant in grants
                for key, mode in zip(grant.keys, grant.modes, strict=True)
            }
        )

    def ticket(self, id: str) -> Ticket | None:
        """A ticket that is still in the queue."""
        if id in self._dropped or not (self._queued or self.view.has_tickets):
            return None
        return self._queued.get(id) or self.view.ticket(id)

    def tickets(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
        """The tickets that overlap there, by their rank when the decision began."""
        for ticket in self.view.tickets(at, below):
            current = self._current(ticket)
            if current is not None:
                yield current

    def ripe(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
        """Those of them that are reservations, or are due to become one."""
        for ticket in self.view.ripe(at, below):
            current = self._current(ticket)
            if current is not None:
                yield current

    def waiting(self, holder_key: str) -> Iterator[Ticket]:
        """The tickets of one holder."""
        for ticket in self.view.waiting(holder_key):
            current = self._current(ticket)
            if current is not None:
                yield current

    def _current(self, ticket: Ticket) -> Ticket | None:
        if ticket.id in self._dropped:
            return None
        return self._queued.get(ticket.id, ticket)

    def held_by(self, holder_key: str) -> list[Grant]:
        """The grants of one holder."""
        return self._with_changes(
            self.view.held_by(holder_key), lambda grant: grant.holder.key == holder_key
        )

    def held_within(self, start: str) -> list[Grant]:
        """The grants of all agents whose keys begin with `start`."""
        return self._with_changes(
            self.view.held_within(start), lambda grant: grant.holder.key.startswith(start)
        )

    def _with_changes(self, known: list[Grant], is_meant: Callable[[Grant], bool]) -> list[Grant]:
        if not (self._ended or self._granted):
            return known
        kept = {grant.id: grant for grant in known if grant.id not in self._ended}
        kept.update((id, grant) for id, grant in self._granted.items() if is_meant(grant))
        return list(kept.values())

    def came_free(self) -> list[str]:
        """The paths of the grants that this decision has ended, unless it granted them again."""
        if not self._ended:
            return []
        held = {path for grant in self._granted.values() for path in grant.paths}
        ended = (event.subject for event in self._ended.values())
        paths = (path for grant in ended if grant is not None for path in grant.paths)
        return [path for path in dict.fromkeys(paths) if path not in held]

    def note(self, name: str) -> Event | None:
        """The current note of this name."""
        return self._notes[name] if name in self._notes else self.view.note(name)

    def notes(self, start: str) -> list[Event]:
        """All notes whose names begin with `start`, oldest first."""
        known = self.view.notes(start)
        if not self._notes:
            return known
        kept = [event for event in known if event.data["note"] not in self._notes]
        new = [
            event
            for name, event in self._notes.items()
            if event is not None and name.startswith(start)
        ]
        return kept + sorted(new, key=lambda event: event.seq)

    def is_dead(self, witness: Witness | None, marks: tuple[str, ...] = ()) -> bool | None:
        """Whether a process, and every process with one of its marks, is known to be dead; None if
        that cannot be determined from here, which counts as alive.

        Checked once per decision for each pair: one process may be several holders with different
        marks.
        """
        if witness is None:
            return False
        try:
            return self._dead[witness, marks]
        except KeyError:
            known = self._dead[witness, marks] = self.view.dead(witness, marks)
            return known

    # Changes

    def emit(
        self, type: str, data: Mapping[str, Any], *, once: str = "", subject: Grant | None = None
    ) -> None:
        """Add an event. One with `once` must be the last of its decision."""
        seq = self.view.head + len(self.events) + 1
        event = Event(seq=seq, type=type, at=self.now, data=data, once=once, subject=subject)
        self.events.append(event)

    def say(
        self,
        type: str,
        data: Mapping[str, Any],
        *,
        name: str = "",
        over: bool = False,
        version: int = 1,
    ) -> Event:
        """Add an event of a service; with a name it is a note, kept until replaced or over."""
        said = dict(data)
        if name:
            said["note"] = name
            if over:
                said["over"] = True
        seq = self.view.head + len(self.events) + 1
        event = Event(seq=seq, type=type, at=self.now, data=said, version=version)
        self.events.append(event)
        if name:
            self._notes[name] = None if over else event
        return event

    def admit(self, request: Request, *, ticket: bool) -> Grant:
        """Turn a request into a grant."""
        grant = granted(self.view, request, self._token or self.view.last_token)
        self._token = grant.token
        if ticket:
            self.emit(events.LOCK_ACQUIRED, SERVED, subject=grant)
            self._dropped.add(request.id)
            if request.wake:
                self.wake.append(request.wake)
        else:
            self.emit(events.LOCK_ACQUIRED, NOTHING, subject=grant)
        self._granted[grant.id] = grant
        return grant

    def extend(self, grant: Grant, *, expires_at: int | None, idle_at: int | None) -> Grant:
        """Change when a grant ends."""
        extended = grant.extended(expires_at=expires_at, idle_at=idle_at, slept=self.view.slept)
        data = {
            "grant": grant.id,
            "holder": grant.holder.id,
            "expires_at": expires_at,
            "idle_at": idle_at,
            "slept": self.view.slept,
        }
        self.emit(events.LOCK_RENEWED, data)
        self._granted[grant.id] = extended
        return extended

    def keep(self, grants: Iterable[Grant], length: int) -> None:
        """Renew grants, until `length` from now. One event serves all whose other limits are equal:
        the history of a ledger where many agents work would otherwise consist of renewals."""
        alike: dict[int | None, list[Grant]] = {}
        for grant in grants:
            alike.setdefault(grant.idle_at, []).append(grant)
        expires_at, slept = self.now + length, self.view.slept
        for idle_at, some in alike.items():
            data = {
                "grants": [grant.id for grant in some],
                "holders": list(dict.fromkeys(grant.holder.id for grant in some)),
                "expires_at": expires_at,
                "idle_at": idle_at,
                "slept": slept,
            }
            self.emit(events.LEASES_KEPT, data)
            for grant in some:
                self._granted[grant.id] = grant.extended(
                    expires_at=expires_at, idle_at=idle_at, slept=slept
                )

    def end(self, grant: Grant, type: str, **facts: Any) -> Event:
        """End a grant, and record which keys came free."""
        self.emit(type, facts, subject=grant)
        self._granted.pop(grant.id, None)
        self._ended[grant.id] = event = self.events[-1]
        self.freed.extend(grant.keys)
        if self.now - grant.acquired_at >= LONG:
            self.after_long = True
        return event

    def enqueue(self, request: Request) -> Ticket:
        """Add a ticket for a request. A file that has one name now may have two when its turn
        comes, so none of its keys is silent any more."""
        if request.silent:
            request = request.without_silent()
        if request.grace:
            request = request.after(self._turns_ahead(request))
        self.emit(events.TICKET_ADDED, codec.request_to_dict(request))
        ticket = Ticket(request=request, added_at=self.now, arrival=self.events[-1].seq)
        self._queued[ticket.id] = ticket
        return ticket

    def _turns_ahead(self, request: Request) -> int:
        """How long the graces of the tickets ahead still last. They end one after another, so that
        in a crowd each ticket has a turn, and all turns are equally long."""
        mine = Overlaps(request.keys)
        ends = [
            ticket.grace_ends_at
            for ticket in self.tickets(*reach(request.keys))
            if ticket.request.priority >= request.priority
            # a search of everything below the root may return resources as well
            and any(map(mine.of, ticket.request.keys))
        ]
        return min(max(0, max(ends, default=0) - self.now), TURNS_MAX)

    def reserve(self, ticket: Ticket) -> Ticket:
        """Make a ticket a reservation."""
        self.emit(events.TICKET_RESERVED, {"ticket": ticket.id, "holder": ticket.request.holder.id})
        reserved = ticket.as_reserved()
        self._queued[ticket.id] = reserved
        return reserved

    def drop(self, ticket: Ticket, why: str) -> None:
        """Remove a ticket from the queue. If it was a reservation, other requests may start now."""
        self.emit(
            events.TICKET_DROPPED,
            {"ticket": ticket.id, "holder": ticket.request.holder.id, "why": why},
        )
        self._dropped.add(ticket.id)
        self._queued.pop(ticket.id, None)
        if ticket.reserved:
            self.freed.extend(ticket.request.keys)
