"""Which tasks of a list are known to exclude each other before anything runs.

Two tasks exclude each other if both write one file, if one writes what the other reads (a folder
covers everything in it), or if both take one lock. Tasks are grouped by what they share, so the
cost grows with what is declared and not with the number of pairs.

A task that does not declare its writes may still conflict with any other task: each of its files is
leased at the first write. Such conflicts are not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.core import keys
from holdfast.manager.files.paths import Tree
from holdfast.work.tasks.lists.task import Task, TaskList
from holdfast.work.tasks.lists.task_order import levels

#: How many of the names that a task excludes are shown; the rest is counted.
NAMES_MAX = 20
#: In how many steps of the order the width is computed, the largest first.
STEPS_MAX = 16


@dataclass(frozen=True, slots=True)
class Shared:
    """Something that at least two tasks cannot have at once. Each writer excludes every other task
    here; readers do not exclude each other. A task that takes a lock is a writer of it."""

    path: str
    writers: tuple[str, ...]
    readers: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return {"path": self.path, "writers": list(self.writers), "readers": list(self.readers)}


@dataclass(frozen=True, slots=True)
class Excluded:
    """The tasks that one task excludes: how many, the first of them, and through what."""

    count: int = 0
    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


class Exclusions:
    """What the tasks of one list share. `width` is how many could run at once, as declared;
    `undeclared` is how many do not declare their writes."""

    __slots__ = ("_excluded", "shared", "tasks", "undeclared", "width")

    def __init__(self, tasks: TaskList, shared: tuple[Shared, ...]) -> None:
        self.tasks = tasks
        self.shared = shared
        self.undeclared = sum(task.writes is None for task in tasks)
        self._excluded = _excluded(tasks, shared)
        self.width = _width(tasks, shared, self._excluded)

    @classmethod
    def of(cls, tasks: TaskList, tree: Tree) -> Exclusions:
        """What is shared, with every path followed to where it leads in the tree."""
        return cls(tasks, tuple(_shared(tasks, tree)))

    def excluded_by(self, name: str) -> Excluded:
        """The tasks that cannot run while this one does."""
        return self._excluded.get(name, _NOTHING)

    def headline(self) -> str:
        """How many can run at once, in a sentence."""
        told = f"up to {self.width} at once, as declared"
        if not self.undeclared:
            return told
        if self.undeclared == 1:
            return (
                f"{told}; 1 task declares no writes: each of its files is leased at the first write"
            )
        return (
            f"{told}; {self.undeclared} tasks declare no writes: each of their files is leased at "
            "the first write"
        )

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "list": self.tasks.name,
            "slots": self.tasks.slots,
            "tasks": [self._task(task) for task in self.tasks],
            "shared": [one.to_data() for one in self.shared],
            "width": self.width,
            "undeclared": self.undeclared,
        }

    def _task(self, task: Task) -> dict[str, Any]:
        found = self.excluded_by(task.name)
        more = {
            "excludes": list(found.names),
            "excludes_count": found.count,
            "excludes_by": list(found.paths),
        }
        return {**task.to_data(), **more}


_NOTHING = Excluded()


def _shared(tasks: TaskList, tree: Tree) -> Iterable[Shared]:
    places: dict[str, tuple[str, ...]] = {}
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    spelled: dict[str, str] = {}

    def found(path: str) -> tuple[str, ...]:
        if path not in places:
            place = tree.place(path)
            # Of a file with other names (hard links), the inode is what is shared.
            many = (place.inode,) if place.inode and place.links > 1 else ()
            places[path] = (place.key, *many)
            for key in places[path]:
                spelled.setdefault(key, place.path)
        return places[path]

    for task in tasks:
        for path in task.writes or ():
            for key in found(path):
                writers.setdefault(key, []).append(task.name)
        for lock in task.locks:
            spelled[lock] = lock
            writers.setdefault(lock, []).append(task.name)
        for path in task.reads:
            for key in found(path):
                readers.setdefault(key, []).append(task.name)
    for key, writing in writers.items():
        around = [key, *keys.ancestors(key)]
        reading = dict.fromkeys(name for one in around for name in readers.get(one, ()))
        others = dict.fromkeys(writing)
        reads_only = tuple(name for name in reading if name not in others)
        one = Shared(spelled[key], tuple(others), reads_only)
        if len(one.writers) + len(one.readers) > 1:
            yield one


def _excluded(tasks: TaskList, groups: Sequence[Shared]) -> dict[str, Excluded]:
    #: The groups of each task, and whether it writes there: tasks of one profile exclude the same
    #: others, apart from themselves.
    profiles: dict[str, list[tuple[int, bool]]] = {}
    for at, one in enumerate(groups):
        for name in one.writers:
            profiles.setdefault(name, []).append((at, True))
        for name in one.readers:
            profiles.setdefault(name, []).append((at, False))
    place = {task.name: at for at, task in enumerate(tasks)}
    known: dict[tuple[tuple[int, bool], ...], tuple[set[str], list[str]]] = {}
    found: dict[str, Excluded] = {}
    for name, profile in profiles.items():
        key = tuple(profile)
        if key not in known:
            others: set[str] = set()
            for at, writes in key:
                others.update(groups[at].writers)
                others.update(groups[at].readers if writes else ())
            known[key] = others, sorted(others, key=place.__getitem__)[: NAMES_MAX + 1]
        others, first = known[key]
        names = [one for one in first if one != name][:NAMES_MAX]
        paths = tuple(dict.fromkeys(groups[at].path for at, _writes in key))
        found[name] = Excluded(len(others) - (name in others), tuple(names), paths)
    return found


def _width(tasks: TaskList, shared: Sequence[Shared], excluded: dict[str, Excluded]) -> int:
    """How many can run at once, found greedily: the tasks of one step of the order, together with
    those that have no order."""
    after = {task.name: task.after for task in tasks}
    ordered = {name for task in tasks if task.after for name in (task.name, *task.after)}
    free = [task.name for task in tasks if task.name not in ordered]
    steps: dict[int, list[str]] = {0: []}
    for name, level in levels(after).items():
        if name in ordered:
            steps.setdefault(level, []).append(name)
    groups: dict[str, list[int]] = {}
    for at, one in enumerate(shared):
        for name in (*one.writers, *one.readers):
            groups.setdefault(name, []).append(at)
    writing = [set(one.writers) for one in shared]
    largest = sorted(steps.values(), key=len, reverse=True)[:STEPS_MAX]
    return max(_fitting([*step, *free], groups, writing, excluded) for step in largest)


def _fitting(
    names: list[str],
    groups: dict[str, list[int]],
    writing: list[set[str]],
    excluded: dict[str, Excluded],
) -> int:
    """How many of them fit together, those that exclude the fewest first."""
    written: set[int] = set()
    read: set[int] = set()
    count = 0
    for name in sorted(names, key=lambda one: excluded.get(one, _NOTHING).count):
        mine = groups.get(name, ())
        if any(at in written or (at in read and name in writing[at]) for at in mine):
            continue
        for at in mine:
            (written if name in writing[at] else read).add(at)
        count += 1
    return count
