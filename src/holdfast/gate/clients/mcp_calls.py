"""Calls of MCP tools: which files are among their arguments, and whether they may be written.

Both clients name such a tool `mcp__SERVER__TOOL` and pass its arguments to a hook, without their
meaning. A text counts as a path if it is absolute, a `file:` address, or relative under an argument
name for paths (`path`, `files`, `destination`). Only the tool's name shows whether it writes:

    named for reading (`read_file`)    nothing is leased
    named for writing (`write_file`)   files are leased; folders are checked for others' files
    any other                          files are leased

Each call is watched like a program, whatever its tool is called: a name proves nothing.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_READING = frozenset([
    "check", "count", "describe", "diff", "explain", "fetch", "find", "get", "grep", "help", "list",
    "look", "lookup", "query", "read", "search", "show", "status", "view",
])  # fmt: skip
_WRITING = frozenset([
    "add", "append", "apply", "clear", "copy", "create", "delete", "edit", "format", "insert",
    "make", "move", "patch", "put", "remove", "rename", "replace", "save", "set", "store", "touch",
    "truncate", "update", "write",
])  # fmt: skip
#: With one of these words in its name, an argument is a path even if it is relative.
_PATHS = frozenset([
    "destination", "dest", "directory", "dir", "file", "filename", "filepath", "files", "folder",
    "path", "paths", "source", "src", "target", "uri",
])  # fmt: skip
_ADDRESS = "file://"
_TEXT_MAX = 4096
_TEXTS_MAX = 500
_DEPTH_MAX = 6


def written(tool: str, fields: object, cwd: str) -> tuple[str, ...]:
    """The absolute paths that a call may write; a folder ends with a slash."""
    words = _words(tool.rpartition("__")[2])
    if words and words[0] in _READING:
        return ()
    takes_folders = not _WRITING.isdisjoint(words)
    found: dict[str, None] = {}
    for path in _paths(fields, cwd):
        is_folder = os.path.isdir(path)
        if not is_folder:
            found[path.rstrip("/") or "/"] = None
        elif takes_folders:
            found[f"{path.rstrip('/')}/"] = None
    return tuple(found)


def _paths(fields: object, cwd: str) -> Iterator[str]:
    """The paths among arguments."""
    for number, (name, text) in enumerate(_texts(fields, "", 0)):
        if number >= _TEXTS_MAX:
            return
        if text.startswith(_ADDRESS):
            text = _unquoted(text.removeprefix(_ADDRESS).removeprefix("localhost"))
        if not text or len(text) > _TEXT_MAX or "\n" in text or "\0" in text:
            continue
        if text.startswith("~/"):
            text = os.path.expanduser(text)
        if text[0] == "/":
            yield text
        elif cwd and "://" not in text and not _PATHS.isdisjoint(_words(name)):
            yield f"{cwd}/{text}"


def _texts(value: object, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """All texts in a value, each with the name of the argument that it stands under."""
    if isinstance(value, str):
        yield name, value
    elif depth < _DEPTH_MAX and isinstance(value, dict):
        for inner, one in value.items():
            yield from _texts(one, inner if isinstance(inner, str) else name, depth + 1)
    elif depth < _DEPTH_MAX and isinstance(value, list):
        for one in value:
            yield from _texts(one, name, depth + 1)


def _words(name: str) -> list[str]:
    """The words of a name, however they are joined: `read_file`, `readFile`, `read-file`."""
    spaced = "".join(
        f" {c}" if c.isupper() and not before.isupper() else c if c.isalnum() else " "
        for before, c in zip(f" {name}", name, strict=False)
    )
    return spaced.lower().split()


def _unquoted(text: str) -> str:
    """The text of an address without its percent signs."""
    first, *rest = text.encode("utf-8", "surrogateescape").split(b"%")
    parts = [first]
    for part in rest:
        try:
            parts += [bytes([int(part[:2], 16)]), part[2:]]
        except ValueError:
            parts += [b"%", part]
    return b"".join(parts).decode("utf-8", "surrogateescape")
