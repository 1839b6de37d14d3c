"""The state in dictionaries: the reference model, and the whole of the memory store.

Every answer takes a few look-ups, however many locks there are: one dictionary maps a key to its
grants, another maps a folder to the keys directly inside it.
"""

from __future__ import annotations

from _bisect import bisect_left
from _bisect import insort_right as insort
from itertools import islice

from holdfast.core import codec, events, keys
from holdfast.core.draft import in_order, reach
from holdfast.core.model import READ, WRITE, Ending, Grant, Ticket
from holdfast.core.overlaps import FEW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from holdfast.core.model import Event

#: The contents of a smaller folder are sorted at each query.
SORTED_MIN = 64


class Shelf:
    """An index from keys to ids that can also list the keys below a folder.

    A key with a single id, by far the commonest, needs no container of its own.
    """

    __slots__ = ("_changed", "_sorted", "ids", "inside")

    def __init__(self) -> None:
        self.ids: dict[str, str | dict[str, None]] = {}
        self.inside: dict[str, dict[str, None]] = {}
        #: The sorted contents of a folder, once queried, and the changes there since.
        self._sorted: dict[str, list[str]] = {}
        self._changed: dict[str, dict[str, None]] = {}

    def add(self, key: str, id: str) -> None:
        """Put an id at a key."""
        there = self.ids.get(key)
        if there is None:
            self.ids[key] = id
            self._link(key)
        elif isinstance(there, str):
            if there != id:
                self.ids[key] = {there: None, id: None}
        else:
            there[id] = None

    def remove(self, key: str, id: str) -> None:
        """Remove an id from a key."""
        there = self.ids.get(key)
        if isinstance(there, dict):
            there.pop(id, None)
            if len(there) == 1:
                (self.ids[key],) = there
        elif there == id:
            del self.ids[key]
            self._unlink(key)

    def _link(self, key: str) -> None:
        inside = self.inside
        for parent in reach((key,))[0][1:]:
            siblings = inside.get(parent)
            if siblings is not None:
                siblings[key] = None
                if parent in self._sorted:
                    self._changed[parent][key] = None
                return
            inside[parent] = {key: None}
            key = parent

    def _unlink(self, key: str) -> None:
        inside = self.inside
        if key in inside:  # a folder that still contains something
            return
        for parent in reach((key,))[0][1:]:
            siblings = inside[parent]
            del siblings[key]
            if siblings:
                if parent in self._sorted:
                    self._changed[parent][key] = None
                return
            del inside[parent]
            if self._sorted.pop(parent, None) is not None:
                del self._changed[parent]
            if parent in self.ids:
                return
            key = parent

    def at(self, key: str) -> Sequence[str]:
        """The ids at a key, in order."""
        there = self.ids.get(key)
        if there is None:
            return ()
        return (there,) if isinstance(there, str) else sorted(there)

    def below(self, folder: str) -> Iterator[tuple[str, str]]:
        """(key, id) of everything inside a folder, in the order of the keys.

        The contents of `a` sort after `a-b`, which sorts after `a`, so they must wait until all
        keys before them have been yielded.
        """
        open_folders: list[tuple[Iterator[str], list[str]]] = []
        names = iter(self._in_order(folder))
        waiting: list[str] = []
        name = next(names, None)
        while True:
            if waiting and (name is None or f"{waiting[-1]}/" < name):
                inner = waiting.pop()
                open_folders.append((_before(name, names), waiting))
                names, waiting = iter(self._in_order(inner)), []
            elif name is None:
                if not open_folders:
                    return
                names, waiting = open_folders.pop()
            else:
                for id in self.at(name):
                    yield name, id
                if name in self.inside:
                    waiting.append(name)
            name = next(names, None)

    def _in_order(self, folder: str) -> list[str]:
        """The keys directly inside a folder, sorted. Sorting a large folder at each query would be
        slow, so the sorted list is kept, and corrected where it has changed."""
        inside = self.inside.get(folder)
        if inside is None:
            return []
        if len(inside) < SORTED_MIN:
            return sorted(inside)
        known = self._sorted.get(folder)
        changed = self._changed.get(folder, ())
        if known is None or len(changed) > len(known) // 8:
            known = self._sorted[folder] = sorted(inside)
        else:
            for key in changed:
                at = bisect_left(known, key)
                if at < len(known) and known[at] == key:
                    if key not in inside:
                        del known[at]
                elif key in inside:
                    known.insert(at, key)
        self._changed[folder] = {}
        return known


def _before(name: str | None, names: Iterator[str]) -> Iterator[str]:
    if name is not None:
        yield name
    yield from names


class LockTable:
    """Grants and tickets, changed by events only."""

    __slots__ = (
        "_endings", "_grants", "_held_by", "_modes", "_notes", "_shelf", "_tickets", "_waiting",
        "_wanted", "grace_ends", "head", "last_at", "last_token",
    )  # fmt: skip

    def __init__(self) -> None:
        self.head = 0
        self.last_at = 0
        self.last_token = 0
        self.grace_ends: list[int] = []  # of all tickets, in order
        self._grants: dict[str, Grant] = {}
        self._endings: dict[str, Event] = {}
        self._held_by: dict[str, dict[str, None]] = {}
        self._modes: dict[str, dict[str, str]] = {}  # by key, of grants that have many
        self._notes: dict[str, Event] = {}
        self._shelf = Shelf()
        self._tickets: dict[str, Ticket] = {}
        self._waiting: dict[str, dict[str, None]] = {}
        self._wanted = Shelf()

    # Changes

    def apply(self, event: Event) -> None:
        """Let an event change the state."""
        self.head = event.seq
        if event.at > self.last_at:
            self.last_at = event.at
        grant = event.subject
        if grant is not None and not event._data:  # nearly all events are of two types
            if event.type == events.LOCK_ACQUIRED:
                self._put_grant(grant)
                return
            if event.type == events.LOCK_RELEASED:
                self._end_grant(grant.id, event)
                return
        for op, id in events.changes(event):
            if op is events.PUT_GRANT:
                self._put_grant(event.subject or codec.grant_of(event))
            elif op is events.END_GRANT:
                self._end_grant(id, event)
            elif op is events.EXTEND_GRANT:
                self._extend_grant(id, event.data)
            elif op is events.PUT_TICKET:
                self._put_ticket(codec.ticket_of(event))
            elif op is events.RESERVE_TICKET:
                self._reserve_ticket(id)
            elif op is events.PUT_NOTE:
                self._notes[id] = event
            elif op is events.DROP_NOTE:
                self._notes.pop(id, None)
            else:
                self._drop_ticket(id)

    def _put_grant(self, grant: Grant) -> None:
        if grant.token > self.last_token:
            self.last_token = grant.token
        self._grants[grant.id] = grant
        self._held_by.setdefault(grant.holder.key, {})[grant.id] = None
        for key in grant.keys:
            self._shelf.add(key, grant.id)

    def _extend_grant(self, id: str, data: Mapping[str, Any]) -> None:
        self._grants[id] = self._grants[id].extended(
            expires_at=data["expires_at"], idle_at=data["idle_at"], slept=data["slept"]
        )

    def _end_grant(self, id: str, event: Event) -> None:
        grant = self._grants.pop(id)
        if self._modes:
            self._modes.pop(id, None)
        if event.type != events.LOCK_RELEASED:
            self._endings[id] = event
        _discard(self._held_by, grant.holder.key, id)
        for key in grant.keys:
            self._shelf.remove(key, id)

    def _put_ticket(self, ticket: Ticket) -> None:
        self._tickets[ticket.id] = ticket
        insort(self.grace_ends, ticket.grace_ends_at)
        self._waiting.setdefault(ticket.request.holder.key, {})[ticket.id] = None
        for key in ticket.request.keys:
            self._wanted.add(key, ticket.id)

    def _reserve_ticket(self, id: str) -> None:
        self._tickets[id] = self._tickets[id].as_reserved()

    def _drop_ticket(self, id: str) -> None:
        ticket = self._tickets.pop(id)
        self.grace_ends.remove(ticket.grace_ends_at)
        _discard(self._waiting, ticket.request.holder.key, id)
        for key in ticket.request.keys:
            self._wanted.remove(key, id)

    def forget(self, before: int) -> None:
        """Forget how grants were lost before an event. The state does not change."""
        self._endings = {id: end for id, end in self._endings.items() if end.seq >= before}

    # Queries

    def grant(self, id: str) -> Grant | Ending | None:
        """A grant, or how it ended."""
        grant = self._grants.get(id)
        if grant is not None:
            return grant
        ended = self._endings.get(id)
        return None if ended is None else events.ending(ended)

    def scopes(self, at: list[str], below: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
        """(key, mode, grant id) of all keys held there, in order, read on demand."""
        return iter(()) if self.is_free(at, below) else self._scopes(at, below)

    def is_free(self, at: list[str], below: list[tuple[str, str]]) -> bool:
        """Whether no key is held there."""
        ids, inside = self._shelf.ids, self._shelf.inside
        for key in at:
            if key in ids:
                return False
        for low, _high in below:  # noqa: SIM110  a generator would be slower than the look-ups
            if (low[:-1] or keys.ROOT) in inside:
                return False
        return True

    def _scopes(
        self, at: list[str], below: list[tuple[str, str]]
    ) -> Iterator[tuple[str, str, str]]:
        shelf = self._shelf
        exactly, folders = in_order(at, below)
        held = iter([(key, id) for key in exactly if key in shelf.ids for id in shelf.at(key)])
        last = next(held, None)
        for folder in folders:
            for row in shelf.below(folder):
                while last is not None and last < row:
                    yield last[0], self._mode(last[1], last[0]), last[1]
                    last = next(held, None)
                yield row[0], self._mode(row[1], row[0]), row[1]
        while last is not None:
            yield last[0], self._mode(last[1], last[0]), last[1]
            last = next(held, None)

    def count(self, at: list[str], below: list[tuple[str, str]], *, writes: bool, most: int) -> int:
        """The number of rows, counted up to a limit; with `writes` only those for writing."""
        rows = self.scopes(at, below)
        return sum(1 for _ in islice((r for r in rows if not writes or r[1] == WRITE), most))

    def _mode(self, id: str, key: str) -> str:
        grant = self._grants[id]
        if len(grant.keys) <= FEW:
            held = zip(grant.keys, grant.modes, strict=True)
            return WRITE if (key, WRITE) in held else READ
        modes = self._modes.get(id)
        if modes is None:
            modes = self._modes[id] = {}
            for one, mode in zip(grant.keys, grant.modes, strict=True):
                if mode == WRITE or one not in modes:
                    modes[one] = mode
        return modes[key]

    def held_by(self, holder_key: str) -> list[Grant]:
        """The grants of one holder."""
        return [self._grants[id] for id in self._held_by.get(holder_key, ())]

    def held_within(self, start: str) -> list[Grant]:
        """The grants of all agents whose keys begin with `start`."""
        found = [ids for key, ids in self._held_by.items() if key.startswith(start)]
        return [self._grants[id] for ids in found for id in ids]

    def some_grants(self, after: int, count: int) -> list[tuple[int, str]]:
        """(token, id) of the next grants after a token, oldest first."""
        found = ((one.token, one.id) for one in self._grants.values() if one.token > after)
        return list(islice(found, count))

    def grants(self) -> list[Grant]:
        """All grants, oldest first."""
        return list(self._grants.values())

    def ticket(self, id: str) -> Ticket | None:
        """A ticket that is still in the queue."""
        return self._tickets.get(id)

    def tickets(self, at: list[str], below: list[tuple[str, str]]) -> list[Ticket]:
        """The tickets that overlap there, by rank."""
        if not self._tickets:
            return []
        ids: dict[str, None] = {}
        for key in at:
            ids.update(dict.fromkeys(self._wanted.at(key)))
        for low, _high in below:
            folder = low[:-1] or keys.ROOT
            ids.update(dict.fromkeys(id for _key, id in self._wanted.below(folder)))
        return self._by_rank(ids)

    def note(self, name: str) -> Event | None:
        """The current note of this name."""
        return self._notes.get(name)

    def notes(self, start: str) -> list[Event]:
        """All notes whose names begin with `start`, oldest first."""
        found = [event for name, event in self._notes.items() if name.startswith(start)]
        return sorted(found, key=lambda event: event.seq)

    def waiting(self, holder_key: str) -> list[Ticket]:
        """The tickets of one holder, by rank."""
        return self._by_rank(self._waiting.get(holder_key, ()))

    def queue(self) -> list[Ticket]:
        """All tickets, by rank."""
        return self._by_rank(self._tickets)

    def _by_rank(self, ids: Iterable[str]) -> list[Ticket]:
        return sorted((self._tickets[id] for id in ids), key=lambda ticket: ticket.rank)


def _discard(index: dict[str, dict[str, None]], key: str, id: str) -> None:
    ids = index[key]
    del ids[id]
    if not ids:
        del index[key]


def fold(history: Iterable[Event]) -> LockTable:
    """The state that results from a history."""
    table = LockTable()
    for event in history:
        table.apply(event)
    return table
