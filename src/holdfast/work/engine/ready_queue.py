"""Which items are worth a try: a queue that does not try ten thousand items to start one.

A refused item waits in a group with all others that want the same path in the same mode: what is in
the way of one of them is in the way of all. When paths are released, only the groups that they
could concern are checked, and of each only the first item, until one is refused for that path
again. So the cost of a dispatch depends on how many items it starts, not on how many wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator
from heapq import heappop, heappush

from holdfast.core.model import ConflictInfo
from holdfast.work.engine.work_items import Rank, WorkItem

#: A wanted path and its mode.
Want = tuple[str, str]
#: The whole repository.
ROOT = "."


class Group:
    """Items that wait for the same path in the same mode."""

    __slots__ = ("awake", "places", "ranks", "want")

    def __init__(self, want: Want) -> None:
        self.want = want
        self.ranks: list[tuple[Rank, str]] = []
        #: Whether something was released since the first item was refused.
        self.awake = False
        #: The paths that were in the way, each in one spelling: the wanted path, another name of
        #: it, or a folder around it.
        self.places: set[str] = set()


class Queue:
    """All waiting items, and which of them comes next."""

    def __init__(self) -> None:
        self._items: dict[str, WorkItem] = {}
        self._ready: list[tuple[Rank, str]] = []
        self._groups: dict[Want, Group] = {}
        self._group_of: dict[str, Group] = {}
        self._awake: dict[Want, Group] = {}
        self._by_place: dict[str, set[Want]] = {}
        self._places: list[str] = []

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, id: str) -> bool:
        return id in self._items

    def __iter__(self) -> Iterator[WorkItem]:
        """All waiting items, in order."""
        return iter(sorted(self._items.values(), key=lambda item: item.rank))

    def get(self, id: str) -> WorkItem | None:
        """One waiting item."""
        return self._items.get(id)

    def add(self, item: WorkItem) -> None:
        """Queue an item to be tried; or replace what is known of it and try it again."""
        self.remove(item.id)
        self._items[item.id] = item
        heappush(self._ready, (item.rank, item.id))

    def remove(self, id: str) -> None:
        """Remove an item. Its entries in the heaps are skipped when they come up."""
        if self._items.pop(id, None) is not None:
            self._leave(id)

    def update(self, item: WorkItem) -> None:
        """Replace an item whose place has not changed."""
        if item.id in self._items:
            self._items[item.id] = item

    def next(self) -> WorkItem | None:
        """The item to try next: the first that was not tried since something changed for it. It
        stays queued until it is removed or blocked."""
        best: tuple[Rank, str] | None = self._first(self._ready, None)
        for group in list(self._awake.values()):
            first = self._first(group.ranks, group)
            if first is None:
                self._sleep(group)
            elif best is None or first < best:
                best = first
        return self._items[best[1]] if best is not None else None

    def block(self, item: WorkItem, conflicts: Iterable[ConflictInfo]) -> None:
        """The item was tried, and this is in its way: it joins those that want the same."""
        first = next(iter(conflicts))
        want = (first.path, first.mode)
        group = self._groups.get(want)
        if group is None:
            group = self._groups[want] = Group(want)
            self._listen(group, first.path)
        self._listen(group, first.held_path)
        if self._group_of.get(item.id) is group:
            self._sleep(group)  # the first of them was refused, and so would be the others
            return
        self._leave(item.id)
        self._group_of[item.id] = group
        heappush(group.ranks, (item.rank, item.id))

    def is_blocked(self, id: str) -> bool:
        """Whether it was tried, and nothing was released for it since."""
        group = self._group_of.get(id)
        return group is not None and not group.awake

    def wake(self, paths: Iterable[str]) -> None:
        """These paths were released: items that wait for one of them, or for something in or around
        it, are worth a try."""
        for path in paths:
            plain = _plain(path)
            if plain == ROOT:
                self.wake_all()
                return
            for place in (plain, *_folders_above(plain), *self._below(plain)):
                for want in self._by_place.get(place, ()):
                    self._rouse(self._groups[want])

    def wake_all(self) -> None:
        """Something was released, but it is not known what."""
        for group in self._groups.values():
            self._rouse(group)

    # The bookkeeping

    def _first(self, ranks: list[tuple[Rank, str]], group: Group | None) -> tuple[Rank, str] | None:
        while ranks:
            rank, id = ranks[0]
            item = self._items.get(id)
            if item is not None and item.rank == rank and self._group_of.get(id) is group:
                return ranks[0]
            heappop(ranks)
        return None

    def _rouse(self, group: Group) -> None:
        group.awake = True
        self._awake[group.want] = group

    def _sleep(self, group: Group) -> None:
        group.awake = False
        self._awake.pop(group.want, None)

    def _listen(self, group: Group, place: str) -> None:
        plain = _plain(place)
        group.places.add(plain)
        if plain not in self._by_place:
            insort(self._places, plain)
            self._by_place[plain] = set()
        self._by_place[plain].add(group.want)

    def _leave(self, id: str) -> None:
        group = self._group_of.pop(id, None)
        if group is not None and self._first(group.ranks, group) is None:
            self._forget(group)

    def _forget(self, group: Group) -> None:
        del self._groups[group.want]
        self._awake.pop(group.want, None)
        for plain in group.places:
            wants = self._by_place[plain]
            wants.discard(group.want)
            if not wants:
                del self._by_place[plain]
                self._places.pop(bisect_left(self._places, plain))

    def _below(self, folder: str) -> list[str]:
        start, end = f"{folder}/", f"{folder}0"  # 0 comes after the slash
        return self._places[bisect_left(self._places, start) : bisect_left(self._places, end)]


class Lines:
    """Two queues: for items that need a slot, and for those that need none. While no slot is free,
    only the second is used."""

    def __init__(self) -> None:
        self._with_slot = Queue()
        self._without_slot = Queue()
        self._both = (self._with_slot, self._without_slot)

    def __len__(self) -> int:
        return sum(map(len, self._both))

    def __contains__(self, id: str) -> bool:
        return any(id in queue for queue in self._both)

    def __iter__(self) -> Iterator[WorkItem]:
        """All waiting items, in order."""
        return iter(sorted((item for queue in self._both for item in queue), key=_rank))

    def get(self, id: str) -> WorkItem | None:
        """One waiting item."""
        return self._with_slot.get(id) or self._without_slot.get(id)

    def add(self, item: WorkItem, *, takes_slot: bool) -> None:
        """Queue an item to be tried; or replace what is known of it and try it again."""
        self.remove(item.id)
        (self._with_slot if takes_slot else self._without_slot).add(item)

    def remove(self, id: str) -> None:
        """Remove an item."""
        for queue in self._both:
            queue.remove(id)

    def next(self, *, slot_is_free: bool) -> WorkItem | None:
        """The item to try next; see `Queue.next`."""
        queues = self._both if slot_is_free else (self._without_slot,)
        found = [item for queue in queues if (item := queue.next()) is not None]
        return min(found, key=_rank, default=None)

    def block(self, item: WorkItem, conflicts: Iterable[ConflictInfo]) -> None:
        """The item was tried, and this is in its way."""
        (self._with_slot if item.id in self._with_slot else self._without_slot).block(
            item, conflicts
        )

    def wake(self, paths: Collection[str]) -> None:
        """These paths were released."""
        for queue in self._both:
            queue.wake(paths)


def _rank(item: WorkItem) -> Rank:
    return item.rank


def _plain(path: str) -> str:
    """A path in the form by which folders and files are compared."""
    return path.rstrip("/").removeprefix("./") or ROOT


def _folders_above(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
    yield ROOT
