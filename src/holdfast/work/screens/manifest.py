"""The manifest: the screens, the controller of each, and what each reads.

    {"version": 1,
     "screens": [
       {"name": "show", "module": "blog", "controller": "posts",
        "actions": {"primary": "show", "secondary": ["like"]},
        "reads_from": ["app/controllers/concerns/authentication.rb"]}]}

It is written by hand, on purpose: the author of `reads_from` has thought about boundaries. So a
missing or misspelled field is an error, not a default. Only `secondary` may be left out.

A loaded manifest is safe to use: its names are valid in paths, commands and prompts, no two screens
are the same, and by its text no path leads out of the repository. Whether the files exist, and
where links lead, is not checked here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import InvalidInput
from holdfast.work.input_checks import (
    Problems,
    check_fields,
    file_bytes,
    folded,
    json_value,
    kind_of,
    name_problem,
    path_problem,
    readable,
    tidy,
)

VERSION = 1
SIZE_MAX = 32 << 20

_TOP = ("version", "screens")
_FIELDS = ("name", "module", "controller", "actions", "reads_from")
#: Stands for a missing value, which is reported once.
_ABSENT = "x"
_HINT = (
    'a manifest is {"version": 1, "screens": [{"name": "show", "module": "blog", "controller": '
    '"posts", "actions": {"primary": "show", "secondary": []}, "reads_from": []}]}'
)
_READING_HINT = "name a file with a manifest of screens that you may read"


class ManifestError(InvalidInput):
    """A manifest with mistakes. The field `problems` has each place and its problem."""

    code = "E_MANIFEST"


@dataclass(frozen=True, slots=True)
class Screen:
    """One screen: what one agent analyses."""

    name: str
    module: str
    controller: str
    primary: str
    secondary: tuple[str, ...] = ()
    reads_from: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """The workflow of its controller: `blog/posts`. Two modules may have controllers of the
        same name, so the module is part of it."""
        return f"{self.module}/{self.controller}"

    @property
    def workflow(self) -> str:
        """Its own workflow: `blog/posts/show`."""
        return f"{self.module}/{self.controller}/{self.name}"

    def to_data(self) -> dict[str, Any]:
        """As it is written in a manifest."""
        return {
            "name": self.name,
            "module": self.module,
            "controller": self.controller,
            "actions": {"primary": self.primary, "secondary": list(self.secondary)},
            "reads_from": list(self.reads_from),
        }


@dataclass(frozen=True, slots=True)
class ScreenManifest:
    """All screens, in the order of the manifest."""

    screens: tuple[Screen, ...]
    source: str = ""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScreenManifest:
        """The manifest in a file. Raises ManifestError with every mistake."""
        source = os.fspath(path)
        problems = Problems(source)
        with readable(problems, ManifestError, _READING_HINT):
            data = file_bytes(source, SIZE_MAX)
        return cls.parse(data, source)

    @classmethod
    def parse(cls, data: bytes, source: str = "manifest") -> ScreenManifest:
        """The manifest in a text. Raises ManifestError with every mistake."""
        problems = Problems(source)
        with readable(problems, ManifestError, _HINT):
            value = json_value(data, SIZE_MAX)
        screens = _screens(problems, value)
        if problems.count:
            raise problems.error(ManifestError, _HINT)
        return cls(tuple(screens), source)

    @property
    def groups(self) -> dict[str, tuple[Screen, ...]]:
        """The screens of each controller, under the name of its workflow."""
        found: dict[str, list[Screen]] = {}
        for screen in self.screens:
            found.setdefault(screen.group, []).append(screen)
        return {group: tuple(screens) for group, screens in found.items()}

    def __iter__(self) -> Iterator[Screen]:
        return iter(self.screens)

    def __len__(self) -> int:
        return len(self.screens)


def _screens(problems: Problems, value: Any) -> list[Screen]:
    if isinstance(value, dict) and "version" in value:
        version = value["version"]
        if type(version) is not int or version != VERSION:
            told = f"{kind_of(version)} is not known; this program reads {VERSION}"
            problems.add("version", told)
            return []  # the meaning of the rest is not known
    top = check_fields(problems, "", value, _TOP)
    if top is None:
        return []
    screens = top.get("screens", [])
    if not isinstance(screens, list):
        problems.add("screens", f"a list is needed, not {kind_of(screens)}")
        return []
    if not screens and "screens" in top:
        problems.add("screens", "empty; there is nothing to do")
    found: list[Screen] = []
    places: dict[str, int] = {}
    for at, one in enumerate(screens):
        screen = _screen(problems, f"screens[{at}]", one)
        if screen is not None:
            found.append(screen)
            _check_once(problems, screen, at, places)
    return found


def _check_once(problems: Problems, screen: Screen, at: int, places: dict[str, int]) -> None:
    """Two names that differ only in case, or in how an accent is composed, are one folder on many
    file systems, so they are one screen."""
    first = places.setdefault(folded(screen.workflow), at)
    if first != at:
        problems.add(f"screens[{at}]", f"{screen.workflow} is already in screens[{first}]")


def _screen(problems: Problems, place: str, value: Any) -> Screen | None:
    before = problems.count
    fields = check_fields(problems, place, value, _FIELDS)
    if fields is None:
        return None
    name = _name(problems, place, fields, "name")
    module = _name(problems, place, fields, "module")
    controller = _name(problems, place, fields, "controller")
    actions = fields.get("actions", {"primary": _ABSENT})
    primary, secondary = _actions(problems, f"{place}.actions", actions)
    reads = _reads(problems, f"{place}.reads_from", fields.get("reads_from", []))
    if problems.count > before:
        return None
    return Screen(name, module, controller, primary, secondary, reads)


def _name(problems: Problems, place: str, fields: dict[str, Any], field: str) -> str:
    text = fields.get(field, _ABSENT)
    problem = name_problem(text)
    if problem:
        problems.add(f"{place}.{field}", problem)
        return ""
    return str(text)


def _actions(problems: Problems, place: str, value: Any) -> tuple[str, tuple[str, ...]]:
    fields = check_fields(problems, place, value, ("primary",), ("secondary",))
    if fields is None:
        return "", ()
    primary = _name(problems, place, fields, "primary")
    others = fields.get("secondary", [])
    if not isinstance(others, list):
        problems.add(f"{place}.secondary", f"a list is needed, not {kind_of(others)}")
        return primary, ()
    for at, one in enumerate(others):
        problem = name_problem(one)
        if problem:
            problems.add(f"{place}.secondary[{at}]", problem)
    return primary, tuple(map(str, others))


def _reads(problems: Problems, place: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        problems.add(place, f"a list is needed, not {kind_of(value)}")
        return ()
    found: list[str] = []
    for at, one in enumerate(value):
        problem = path_problem(one)
        if problem:
            problems.add(f"{place}[{at}]", problem)
        else:
            found.append(tidy(one))
    return tuple(dict.fromkeys(found))
