"""Linked git worktrees: the repository of a checkout, and the checkouts of a repository.

A repository has one ledger for all its checkouts. It is in the main checkout, or in the folder of a
bare repository, and a linked worktree leads to it through git's own pointers:

    CHECKOUT/.git                     a file: `gitdir: COMMON/worktrees/NAME`
    COMMON/worktrees/NAME/gitdir      the path of that file
    COMMON/worktrees/NAME/commondir   where COMMON is, from there

A pointer counts only if the one in the repository points back: an unrelated folder cannot make
itself part of a repository that does not list it. The pointers are read without git, which would
take longer than the rest of a hook.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

GIT = ".git"
_POINTER = "gitdir:"
_YES = ("", "true", "yes", "on", "1")
_TEXT_MAX = 8192


def home_of(checkout: str) -> str | None:
    """The folder for the ledger of a linked worktree: the main checkout, or the folder of a bare
    repository. None if the folder is not a linked worktree. The result is a real path, as
    `checkout` must be."""
    admin = _pointed(f"{checkout}/{GIT}", checkout)
    if admin is None or os.path.basename(os.path.dirname(admin)) != "worktrees":
        return None
    back = _pointed_back(admin)
    if back is None or not _is_same(back, f"{checkout}/{GIT}"):
        return None
    common = _line(f"{admin}/commondir")
    return _home_of_common(os.path.realpath(os.path.join(admin, common or "../..")))


def _home_of_common(common: str) -> str:
    """The same, from the common folder of all checkouts. A submodule's settings have the path of
    its main checkout; without one a repository is bare, whatever its folder is called."""
    core = _core_settings(f"{common}/config")
    if "worktree" in core:
        return os.path.realpath(os.path.join(common, core["worktree"]))
    above, name = os.path.split(common)
    return above if name == GIT and core.get("bare", "false") not in _YES else common


def linked(home: str) -> Iterator[str]:
    """The existing linked worktrees of the repository whose ledger is in a folder, as real
    paths."""
    for folder in _admin_folders(home):
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            back = _pointed_back(f"{folder}/{name}")
            checkout = os.path.realpath(os.path.dirname(back)) if back is not None else ""
            if checkout and home_of(checkout) == home:
                yield checkout


def has_linked(home: str) -> bool:
    """Whether there may be any, after one or two checks on disk."""
    return any(map(os.path.isdir, _admin_folders(home)))


def is_bare(home: str) -> bool:
    """Whether the folder is a bare repository, which has no main checkout."""
    return os.path.isfile(f"{home}/HEAD") and os.path.isdir(f"{home}/objects")


def checkouts(home: str) -> list[str]:
    """All checkouts of the repository, the main one first."""
    return [*([] if is_bare(home) else [home]), *linked(home)]


def _admin_folders(home: str) -> tuple[str, str]:
    """Where a repository lists its worktrees: with a main checkout, and bare."""
    return f"{home}/{GIT}/worktrees", f"{home}/worktrees"


def _pointed(file: str, base: str) -> str | None:
    """The target of a `.git` file; None if it is not such a file."""
    text = _line(file)
    if text is None or not text.startswith(_POINTER):
        return None
    return os.path.realpath(os.path.join(base, text.removeprefix(_POINTER).strip()))


def _pointed_back(admin: str) -> str | None:
    """The `.git` file that the repository lists, which may be a relative path."""
    text = _line(f"{admin}/gitdir")
    return None if not text else os.path.join(admin, text)


def _line(file: str) -> str | None:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read(_TEXT_MAX).rstrip("\r\n")
    except (OSError, ValueError):
        return None
    return None if "\0" in text else text


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samestat(os.lstat(one), os.lstat(other))
    except OSError:
        return False


def _core_settings(file: str) -> dict[str, str]:
    """The section `[core]` of a repository's own settings, as git itself writes it."""
    found: dict[str, str] = {}
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.read().splitlines()
    except (OSError, ValueError):
        return found
    is_core = False
    for line in map(str.strip, lines):
        if line.startswith("["):
            is_core = line.lower().replace(" ", "") == "[core]"
        elif is_core:
            name, _, value = line.partition("=")
            value = value.strip().strip('"')
            found[name.strip().lower()] = value if "worktree" in name.lower() else value.lower()
    return found
