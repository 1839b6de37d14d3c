"""The rooms: each lists its contents, the map of the architecture has all of them, and a file's
name shows which room it is in."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src/holdfast"
MAP = (ROOT / "docs/ARCHITECTURE.md").read_text().partition("## The map")[2].partition("\n## ")[0]
ROOMS = sorted(file.parent for file in SOURCE.rglob("__init__.py"))
#: About fifteen. A larger room has sub-rooms.
MODULES_MAX = 17
#: Names that several rooms have, always for the same thing.
PATTERNS = {"__init__.py", "errors.py"}


def name_of(room: Path) -> str:
    return str(room.relative_to(SOURCE.parent))


def inside(room: Path) -> set[str]:
    """The modules and the sub-rooms of a room."""
    modules = {file.stem for file in room.glob("[a-z]*.py")}
    return modules | {each.name for each in ROOMS if each.parent == room}


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_a_room_lists_what_is_in_it(room: Path) -> None:
    text = (room / "__init__.py").read_text().split('"""')[1]
    blocks = [re.findall(r"^ *(\w+)/? {2,}\S", block, re.M) for block in text.split("\n\n")]
    listed = [name for block in blocks if inside(room) & set(block) for name in block]
    assert sorted(listed) == sorted(inside(room) | ({"page"} if room.name == "server" else set()))


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_no_room_is_too_full(room: Path) -> None:
    assert len(list(room.glob("[a-z]*.py"))) <= MODULES_MAX


def test_the_map_has_every_room_and_no_other() -> None:
    shown = re.findall(r"^\| `([\w/]+)` \|", MAP.partition("All rooms.")[2], re.M)
    assert len(shown) == len(set(shown))
    assert set(shown) == {str(room.relative_to(SOURCE)) for room in ROOMS if room != SOURCE}


def test_every_file_of_the_map_exists() -> None:
    shown = re.findall(r"`(\w+/[\w/]+(?:\.py|/))`", MAP)
    assert len(shown) > 30
    assert [name for name in shown if not (SOURCE / name).exists()] == []


def test_a_file_name_occurs_once() -> None:
    counts = Counter(file.name for file in SOURCE.rglob("*.py"))
    assert {name for name, count in counts.items() if count > 1} <= PATTERNS
