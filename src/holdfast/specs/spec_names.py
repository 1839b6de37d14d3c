"""Valid names of specs, and the folders of specs in a workspace."""

from __future__ import annotations

import os

from holdfast.manager.files.paths import home_root
from holdfast.manager.files.realpath import upwards

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where programs keep their specs, the later one first.
HOMES = (".sce", ".kiro")
SPECS = "specs"
#: The parts of paths that lead into specs.
MARKS = tuple(f"/{home}/{SPECS}/" for home in HOMES)

NAME_BYTES_MAX = 255


def is_name(text: object) -> bool:
    """Whether it is a valid name of a spec: one visible folder, and not a parent."""
    if not isinstance(text, str) or not text or text.isspace() or text[0] == ".":
        return False
    if "/" in text or "\\" in text or not (text.isprintable() or _is_plain(text)):
        return False
    try:
        return len(os.fsencode(text)) <= NAME_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _is_plain(text: str) -> bool:
    """Whether a text has no control characters; blanks of other scripts are allowed."""
    return not any(ord(character) < 32 or ord(character) == 127 for character in text)


def specs_folder(workspace: str) -> str:
    """The folder of a workspace's specs: in `.sce` if it has that, else in `.kiro`.

    If it has both, existing specs count: a `.sce` without specs does not hide those of `.kiro`.
    """
    later, earlier = (f"{workspace}/{home}" for home in HOMES)
    if os.path.isdir(f"{later}/{SPECS}"):
        return f"{later}/{SPECS}"
    moved = os.path.isdir(later) and not os.path.isdir(f"{earlier}/{SPECS}")
    return f"{later if moved else earlier}/{SPECS}"


def specs_folders(workspace: str) -> list[str]:
    """All folders of a workspace's specs, the later program's first. Two programs may work side
    by side, each in its own; if there is none yet, the one that would be created."""
    found = [f"{workspace}/{home}/{SPECS}" for home in HOMES]
    return [folder for folder in found if os.path.isdir(folder)] or [specs_folder(workspace)]


def has_specs(folder: str) -> bool:
    """Whether a folder is a workspace with specs."""
    return any(os.path.isdir(f"{folder}/{home}/{SPECS}") for home in HOMES)


def workspace_of(place: str) -> str:
    """The workspace around a path: the nearest folder with specs inside its repository, since a
    home folder may have specs too; or else the repository."""
    root = home_root(place)
    for folder in upwards(os.path.realpath(place)):
        if has_specs(folder):
            return folder
        if folder == root:
            break
    return root


def specs_around(path: str) -> Iterator[tuple[str, str]]:
    """The specs that an absolute path leads into, by its text alone: the folder of all specs, and
    the name of the spec."""
    for mark in MARKS:
        at = path.find(mark)
        while at >= 0:
            end = at + len(mark)
            name, slash, _rest = path[end:].partition("/")
            if slash and is_name(name):
                yield path[: end - 1], name
            at = path.find(mark, end - 1)


def specs_below(folder: str) -> Iterator[str]:
    """The folders of specs in a folder, at the usual places."""
    folder = folder.rstrip("/")
    if os.path.basename(folder) == SPECS and os.path.basename(os.path.dirname(folder)) in HOMES:
        yield folder
    elif os.path.basename(folder) in HOMES:
        yield f"{folder}/{SPECS}"
    for home in HOMES:
        yield f"{folder}/{home}/{SPECS}"
