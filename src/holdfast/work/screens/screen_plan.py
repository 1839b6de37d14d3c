"""The dependency graph: who reads what, who will be in whose way, and how many can run at once.

Made from the manifest and the layout before any agent is sent out. What the merges will write is
not known then; it is what the analyses are for. So the plan says what would be if every controller
changed all that its screens read, which is the worst that well-behaved analyses can bring about.

**Shared files.** A path is read by the screens that name it or a folder around it. If screens of
several controllers read it, writing it keeps others out: two merges that write it cannot overlap,
nor can a merge that writes it and an analysis, of another controller, that reads it. The
*contention* of a path is the number of such pairs. With k controllers whose n screens read it,
these are k·(k-1)/2 pairs of merges and n·(k-1) of a merge and an analysis. What only one
controller reads costs nothing: its merge begins after its analyses.

**How many at once.** As many as can be found of which no two are in each other's way, taking first
those that are in the way of the fewest. That is not always the largest such set, which nobody
finds quickly; it is one that exists. Two analyses are in each other's way if one reads what the
other writes; as they write only into their own folders, ordinarily none are. The merges: at most
all of them, if no two write the same file; at worst, if each writes all that it reads, those that
share nothing.

What this does not promise: that so many will run. Slots, and how long each takes, decide that.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, islice
from operator import or_
from typing import Any

from holdfast.core import keys
from holdfast.core.errors import BadKeyError
from holdfast.manager.files.paths import Tree
from holdfast.work.engine.work_items import LockRequest
from holdfast.work.input_checks import Problems
from holdfast.work.screens.layout import Layout
from holdfast.work.screens.manifest import ManifestError, Screen, ScreenManifest

#: How far a shared path reaches.
IN_CONTROLLER, IN_MODULE, IN_APP = "controller", "module", "app"
#: How many of the controllers that share something are named.
NAMES_MAX = 20


@dataclass(frozen=True, slots=True)
class Group:
    """The screens of one controller, and what they read: each path with the screens' names."""

    workflow: str
    screens: tuple[Screen, ...]
    reads: dict[str, tuple[str, ...]]

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "controller": self.workflow,
            "screens": [screen.name for screen in self.screens],
            "reads": {path: list(names) for path, names in self.reads.items()},
        }


@dataclass(frozen=True, slots=True)
class SharedRead:
    """A path that several screens read, and what it costs if all who read it change it.

    `names` are the first of its controllers, as many as anybody wants to read.
    """

    path: str
    screens: int
    controllers: int
    names: tuple[str, ...]
    scope: str

    @property
    def contention(self) -> int:
        """How many pairs of agents it keeps from running at the same time."""
        others = self.controllers - 1
        return self.controllers * others // 2 + self.screens * others

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "path": self.path,
            "scope": self.scope,
            "screens": self.screens,
            "controllers": self.controllers,
            "names": list(self.names),
            "contention": self.contention,
        }


@dataclass(frozen=True, slots=True)
class Width:
    """How many items of one phase can run at once: at most, and if everybody changes all that it
    reads."""

    items: int
    most: int
    least: int

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return {"items": self.items, "at_once": self.most, "at_once_at_worst": self.least}


@dataclass(frozen=True, slots=True)
class Absent:
    """Something that is read and is not there: a template that does not fit, or a typing error."""

    path: str
    part: str
    workflow: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to do and what will be in its way."""

    groups: tuple[Group, ...]
    shared: tuple[SharedRead, ...]
    analyze: Width
    merge: Width
    slots: int
    requests: dict[str, LockRequest] = field(repr=False)
    absent: tuple[Absent, ...] = ()

    @classmethod
    def of(cls, manifest: ScreenManifest, layout: Layout, tree: Tree | None = None) -> Plan:
        """The plan for these screens. With a `tree`, every path is followed to where it leads:
        one that a link leads out of the repository is a ManifestError, and what is not there is
        noted. Raises SettingsError if the layout does not fit the screens."""
        layout.check(manifest)
        absent = _absent(manifest, layout, tree) if tree is not None else ()
        graph = _Graph(manifest, layout)
        shared = tuple(sorted(graph.shared(), key=lambda one: (-one.contention, one.path)))
        analyses, merges = len(manifest), len(graph.groups)
        at_once = graph.analyses_at_once()
        return cls(
            groups=graph.groups,
            shared=shared,
            analyze=Width(analyses, at_once, at_once),
            merge=Width(merges, merges, graph.strangers()),
            slots=layout.slots,
            requests={screen.workflow: layout.analysis_request(screen) for screen in manifest},
            absent=absent,
        )

    @property
    def contended(self) -> tuple[SharedRead, ...]:
        """What is shared by several controllers, the worst first."""
        return tuple(one for one in self.shared if one.contention)

    @property
    def screens(self) -> int:
        """How many there are."""
        return self.analyze.items

    def headline(self) -> str:
        """What there is, in one line."""
        modules = len({group.screens[0].module for group in self.groups})
        return (
            f"{counted(self.screens, 'screen')} of {counted(len(self.groups), 'controller')} "
            f"in {counted(modules, 'module')}"
        )

    def widths(self) -> list[str]:
        """How many can run at once, a sentence for each phase."""
        analyze, merge = self.analyze, self.merge
        every = "all" if analyze.most == analyze.items else f"{analyze.most} of"
        first = f"analyze: {every} {analyze.items} at once"
        if self.slots < analyze.most == analyze.items:
            waves = -(-analyze.items // self.slots)
            first += f"; with {counted(self.slots, 'slot')}, {counted(waves, 'wave')}"
        second = f"merge: up to {merge.most} at once, if no two change the same file"
        if merge.least < merge.most:
            second += f"; {merge.least} if each changes everything it reads"
        return [first, second]

    def __str__(self) -> str:
        return "\n".join([self.headline(), *self.widths()])

    def to_data(self) -> dict[str, Any]:
        """For `--json`: everything."""
        return {
            "screens": [
                {
                    "workflow": workflow,
                    "read_paths": list(request.read_paths),
                    "write_paths": list(request.write_paths),
                }
                for workflow, request in self.requests.items()
            ],
            "controllers": [group.to_data() for group in self.groups],
            "shared": [one.to_data() for one in self.shared],
            "slots": self.slots,
            "parallelism": {"analyze": self.analyze.to_data(), "merge": self.merge.to_data()},
            "absent": [
                {"path": one.path, "part": one.part, "screen": one.workflow} for one in self.absent
            ],
        }


def counted(count: int, noun: str) -> str:
    """`1 screen`, `2 screens`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class _Graph:
    """Who reads what. Sets of screens and of controllers are numbers, a bit for each: sets of ten
    thousand, one for each of thirty thousand paths, would not fit anywhere."""

    def __init__(self, manifest: ScreenManifest, layout: Layout) -> None:
        self._outputs = [layout.output_of(screen) for screen in manifest]
        self._declared = {_key(path) for screen in manifest for path in screen.reads_from}
        self._spelled: dict[str, str] = {}
        self._screens: dict[str, int] = {}
        self._controllers: dict[str, int] = {}
        self._reads = [layout.reads_of(screen) for screen in manifest]
        reads = dict(zip(manifest, self._reads, strict=True))
        groups = manifest.groups
        numbers = {name: at for at, name in enumerate(groups)}
        for at, (screen, paths) in enumerate(reads.items()):
            for path in paths:
                key = _key(path)
                self._spelled.setdefault(key, path)
                self._screens[key] = self._screens.get(key, 0) | 1 << at
                mine = 1 << numbers[screen.group]
                self._controllers[key] = self._controllers.get(key, 0) | mine
        self.groups = tuple(_group(name, screens, reads) for name, screens in groups.items())

    def shared(self) -> Iterator[SharedRead]:
        """What several screens read. Of what lies in a shared folder only what more of them read
        than the folder; and of what is one controller's only what its screens declare."""
        for key, path in self._spelled.items():
            screens = _around(self._screens, key)
            around = next((up for up in keys.ancestors(key) if up in self._screens), "")
            if screens.bit_count() < 2 or (around and _around(self._screens, around) == screens):
                continue
            controllers = _around(self._controllers, key)
            count = controllers.bit_count()
            if count == 1 and key not in self._declared:
                continue
            names = [self.groups[at].workflow for at in islice(_positions(controllers), NAMES_MAX)]
            yield SharedRead(
                path, screens.bit_count(), count, tuple(names), self._scope(controllers)
            )

    def _scope(self, controllers: int) -> str:
        if controllers.bit_count() == 1:
            return IN_CONTROLLER
        modules = (self.groups[at].screens[0].module for at in _positions(controllers))
        first = next(modules)
        return IN_MODULE if all(module == first for module in modules) else IN_APP

    def analyses_at_once(self) -> int:
        """How many analyses can run at once."""
        written = {_key(path): 1 << at for at, paths in enumerate(self._outputs) for path in paths}
        inside = _inside(written, self._screens)
        met = []
        for outputs, reads in zip(self._outputs, self._reads, strict=True):
            who_reads = (_around(self._screens, _key(path)) for path in outputs)
            who_writes = (written.get(key, 0) | inside.get(key, 0) for key in map(_key, reads))
            met.append(reduce(or_, chain(who_reads, who_writes), 0))
        return _at_once(met)

    def strangers(self) -> int:
        """How many controllers can be found of which no two read the same thing."""
        inside = _inside(self._controllers, self._controllers)
        met = []
        for group in self.groups:
            who_reads = (
                _around(self._controllers, key) | inside.get(key, 0)
                for key in map(_key, group.reads)
            )
            met.append(reduce(or_, who_reads, 0))
        return _at_once(met)


def _group(name: str, screens: tuple[Screen, ...], reads: dict[Screen, tuple[str, ...]]) -> Group:
    found: dict[str, list[str]] = {}
    for screen in screens:
        for path in reads[screen]:
            found.setdefault(path, []).append(screen.name)
    return Group(name, screens, {path: tuple(names) for path, names in found.items()})


def _around(readers: dict[str, int], key: str) -> int:
    """Those who read a path, or a folder around it."""
    found = readers.get(key, 0)
    for folder in keys.ancestors(key):
        found |= readers.get(folder, 0)
    return found


def _inside(those: dict[str, int], folders: Container[str]) -> dict[str, int]:
    """For each folder: those who have something in it."""
    found: dict[str, int] = {}
    for key, bits in those.items():
        for folder in keys.ancestors(key):
            if folder in folders:
                found[folder] = found.get(folder, 0) | bits
    return found


def _at_once(met: list[int]) -> int:
    """How many can be found of which none meets another; each may meet itself."""
    chosen = 0
    for at in sorted(range(len(met)), key=lambda at: met[at].bit_count()):
        if not met[at] & chosen:
            chosen |= 1 << at
    return chosen.bit_count()


def _positions(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _key(path: str) -> str:
    return path.rstrip("/") or keys.ROOT


def _absent(manifest: ScreenManifest, layout: Layout, tree: Tree) -> tuple[Absent, ...]:
    """What is read and is not there. Raises ManifestError for what lies elsewhere."""
    problems = Problems(manifest.source)
    found: dict[str, Absent | None] = {}
    for at, screen in enumerate(manifest):
        for part, path in layout.parts_of(screen):
            if path in found:
                continue
            found[path] = None
            try:
                place = tree.place(path)
            except BadKeyError as error:
                problems.add(f"screens[{at}].{part}", error.message)
                continue
            if not place.inode and not os.path.lexists(place.real):
                found[path] = Absent(path, part, screen.workflow)
    if problems.count:
        raise problems.error(
            ManifestError, "give paths that stay in the repository, also through links"
        )
    return tuple(one for one in found.values() if one is not None)
