"""The dependency graph: which screens read which files, which controllers block each other, and how
many agents can run at once.

It is computed from the manifest and the layout before any agent starts. What the merges will write
is not known then; that is the purpose of the analyses. So the plan assumes that every controller
changes everything that its screens read, which is the worst case of well-behaved analyses.

**Shared files.** A path is read by the screens that name it or a folder around it. If screens of
several controllers read it, writing it keeps others out: two merges that write it cannot overlap,
nor can a merge that writes it and an analysis, of another controller, that reads it. The
*contention* of a path is the number of such pairs. With k controllers whose n screens read it,
these are k·(k-1)/2 pairs of merges and n·(k-1) of a merge and an analysis. A path that only one
controller reads costs nothing: its merge starts after its analyses.

**How many at once.** A set of items that do not exclude each other, found greedily: those that
exclude the fewest others are taken first. A larger set may exist, but finding the largest takes too
long. Two analyses exclude each other if one reads what the other writes; as they write only into
their own folders, there are ordinarily none. For merges there are two figures: all of them, if no
two write the same file; and in the worst case, if each writes everything that it reads, those that
share nothing.

Not promised: that so many will run. That depends on the slots, and on how long each takes.
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
#: How many of the controllers that share a path are named.
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
    """A path that several screens read, and its cost if all its readers change it.

    `names` are the first of its controllers.
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
    """How many items of one phase can run at once: at most, and if each changes everything that it
    reads."""

    items: int
    most: int
    least: int

    def to_data(self) -> dict[str, Any]:
        """For `--json`."""
        return {"items": self.items, "at_once": self.most, "at_once_at_worst": self.least}


@dataclass(frozen=True, slots=True)
class Absent:
    """A path that is read and does not exist: a template that does not fit, or a typing error."""

    path: str
    part: str
    workflow: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The work, and what its items share."""

    groups: tuple[Group, ...]
    shared: tuple[SharedRead, ...]
    analyze: Width
    merge: Width
    slots: int
    requests: dict[str, LockRequest] = field(repr=False)
    absent: tuple[Absent, ...] = ()

    @classmethod
    def of(cls, manifest: ScreenManifest, layout: Layout, tree: Tree | None = None) -> Plan:
        """The plan for these screens. With a `tree`, every path is followed to where it leads: a
        path that a link leads out of the repository is a ManifestError, and missing paths are
        recorded. Raises SettingsError if the layout does not fit the screens."""
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
        """The paths that several controllers share, worst first."""
        return tuple(one for one in self.shared if one.contention)

    @property
    def screens(self) -> int:
        """How many screens there are."""
        return self.analyze.items

    def headline(self) -> str:
        """The extent of the work, in one line."""
        modules = len({group.screens[0].module for group in self.groups})
        return (
            f"{counted(self.screens, 'screen')} of {counted(len(self.groups), 'controller')} "
            f"in {counted(modules, 'module')}"
        )

    def widths(self) -> list[str]:
        """How many can run at once, one sentence for each phase."""
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
    """Which screens and controllers read which paths. Sets of them are integers, one bit for each:
    sets of ten thousand, one for each of thirty thousand paths, would need too much memory."""

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
        """The paths that several screens read. Of the paths in a shared folder, only those that
        more screens read than the folder; of the paths of one controller, only those that its
        screens declare."""
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
        """How many controllers can be found of which no two read the same path."""
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
    """The readers of a path, or of a folder around it."""
    found = readers.get(key, 0)
    for folder in keys.ancestors(key):
        found |= readers.get(folder, 0)
    return found


def _inside(those: dict[str, int], folders: Container[str]) -> dict[str, int]:
    """For each folder: the readers of a path inside it."""
    found: dict[str, int] = {}
    for key, bits in those.items():
        for folder in keys.ancestors(key):
            if folder in folders:
                found[folder] = found.get(folder, 0) | bits
    return found


def _at_once(met: list[int]) -> int:
    """How many can be found of which no two exclude each other."""
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
    """The paths that are read and do not exist. Raises ManifestError for paths outside the
    repository."""
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
