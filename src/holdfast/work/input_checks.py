"""Checks of input from people and agents: files, JSON, names and paths, with every mistake
reported.

A mistake is a place and a sentence: `screens[3].controller: missing`. All mistakes of a document
are reported in one error, so that its author corrects it once; only a limited number is shown.

The checks of paths are about their text. Where a path leads on disk is checked by `Tree`.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar
from unicodedata import normalize

from holdfast.core import keys
from holdfast.core.errors import BadKeyError, InvalidInput
from holdfast.gate.config.settings_file import shown
from holdfast.manager.files.control_files import CLOSED
from holdfast.manager.files.paths import reject_unusable

#: How many mistakes of one document are shown; the rest is counted.
TOLD_MAX = 20
#: None of our documents is nested deeper; the standard library's reader fails much later.
DEPTH_MAX = 64
NAME_CHARACTERS_MAX = 100
#: A manifest has the same names and paths many times.
REMEMBERED_MAX = 4096

#: Separators of any system, characters that would read as a resource or a placeholder, and those
#: that end a text in JSON.
_NEVER_IN_NAMES = frozenset('/\\:{}<>|*?"')

_Error = TypeVar("_Error", bound=InvalidInput)


class Problems:
    """What is wrong with one document, place by place."""

    __slots__ = ("count", "found", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0
        self.found: list[tuple[str, str]] = []

    def add(self, place: str, what: str) -> None:
        """Add a mistake. An empty place is the whole document."""
        self.count += 1
        if len(self.found) < TOLD_MAX:
            self.found.append((place, what))

    def error(self, kind: type[_Error], hint: str, **fields: Any) -> _Error:
        """All of them as one error."""
        told = [f"{place}: {what}" if place else what for place, what in self.found]
        more = self.count - len(told)
        heading = f"{self.source}: {self.count} errors: " if self.count > 1 else f"{self.source}: "
        return kind(
            heading + "; ".join(told) + (f"; and {more} more" if more else ""),
            hint=hint,
            file=self.source,
            count=self.count,
            problems=[{"place": place, "problem": what} for place, what in self.found],
            **fields,
        )


class Unreadable(Exception):
    """A document that cannot be read, with the place of the reason."""

    def __init__(self, what: str, place: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.place = place


@contextmanager
def readable(problems: Problems, kind: type[_Error], hint: str, **fields: Any) -> Iterator[None]:
    """An unreadable document is reported as its one problem."""
    try:
        yield
    except Unreadable as error:
        problems.add(error.place, error.what)
        raise problems.error(kind, hint, **fields) from error


def file_bytes(path: str, limit: int, *, by_agent: bool = False) -> bytes:
    """The content of a file, up to one byte more than `limit`. Raises Unreadable.

    A file that an agent wrote must be a regular file and no link: a pipe would block us for ever.
    """
    flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if by_agent:
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
        with open(descriptor, "rb") as stream:
            if by_agent and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable("this is not a regular file")
            data = stream.read(limit + 1)
    except FileNotFoundError:
        raise Unreadable("there is no such file") from None
    except IsADirectoryError:
        raise Unreadable("this is a folder") from None
    except ValueError as error:  # a NUL in the path
        raise Unreadable(f"this cannot be the name of a file: {error}") from error
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise Unreadable(f"this cannot be read: {said}") from error
    return data


def json_value(data: bytes, limit: int) -> Any:
    """The value of a JSON text, by the letter of the standard. Raises Unreadable.

    An object with a duplicate name becomes a `Doubled`.
    """
    if len(data) > limit:
        raise Unreadable(f"this is larger than {limit >> 20} MiB")
    text = _decoded(data)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise Unreadable(f"this is not JSON: {error.msg}", place) from error
    except RecursionError:
        raise Unreadable("this is nested too deeply") from None
    except ValueError as error:
        told = (
            "this contains a number with thousands of digits"
            if "digits" in str(error)
            else str(error)
        )
        raise Unreadable(told) from error
    if not _is_shallow(value):
        raise Unreadable(f"this is nested more than {DEPTH_MAX} levels deep")
    if "\\ud" in text.lower() and not _is_whole(value):
        raise Unreadable("this has an escape \\uD800 to \\uDFFF that is half a character")
    return value


class Doubled(dict[str, Any]):
    """An object with a duplicate name: readers differ about what that means."""

    twice = ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    doubled = Doubled(found)
    names = [name for name, _value in pairs]
    doubled.twice = next(name for name in names if names.count(name) > 1)
    return doubled


def _no_constant(word: str) -> Any:
    raise ValueError(f"this is not JSON: {word} is not a number there")


def _decoded(data: bytes) -> str:
    if not data.strip():
        raise Unreadable("this is empty")
    if data.startswith(b"\xef\xbb\xbf"):
        raise Unreadable("this begins with a byte order mark; save it as UTF-8 without one")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable("this is UTF-16; save it as UTF-8")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable("this is not UTF-8", f"line {line}") from error


def _is_shallow(value: Any) -> bool:
    level: list[Any] = [value]
    for _depth in range(DEPTH_MAX):
        level = [one for one in level if isinstance(one, _CONTAINERS)]
        if not level:
            return True
        inner = (one if isinstance(one, list) else one.values() for one in level)
        level = [one for part in inner for one in part]
    return False


_CONTAINERS = (dict, list)


def _is_whole(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def check_fields(
    problems: Problems, place: str, value: Any, needed: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, Any] | None:
    """The value as an object with these fields and no others; None if it is not an object."""
    if not isinstance(value, dict):
        problems.add(place, f"an object is needed, not {kind_of(value)}")
        return None
    known = (*needed, *optional)
    inside = f"{place}." if place else ""
    if isinstance(value, Doubled):
        problems.add(f"{inside}{printable(value.twice)}", "given twice")
    for name in value:
        if name not in known:
            near = nearest(name, known)
            problems.add(
                f"{inside}{printable(name)}",
                f"no such field; did you mean {near}?" if near
                else f"no such field; there is {', '.join(known)}",
            )  # fmt: skip
    for name in needed:
        if name not in value:
            problems.add(f"{inside}{name}", "missing")
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """The known word that was probably meant; empty if none is similar."""
    near = get_close_matches(name[:100], list(known), 1)
    return near[0] if near else ""


def kind_of(value: Any) -> str:
    """The kind of a value, in the words of JSON."""
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)[:40]
    if isinstance(value, str):
        return f"the text {shown(value)}"
    return "a list" if isinstance(value, list) else "an object"


def printable(text: str) -> str:
    """A name of any origin, shortened, and without characters that a terminal would obey."""
    return shown(text)[1:-1]


def name_problem(text: Any) -> str:
    """Why a name cannot become part of paths, commands and prompts; empty if it can."""
    if not isinstance(text, str):
        return f"a text is needed, not {kind_of(text)}"
    return _name_problem(text)


@lru_cache(maxsize=REMEMBERED_MAX)
def _name_problem(text: str) -> str:
    if not text or text.isspace():
        return "empty"
    if text.isprintable() and _NEVER_IN_NAMES.isdisjoint(text):
        if len(text) > NAME_CHARACTERS_MAX or len(text.encode()) > keys.COMPONENT_BYTES_MAX:
            return f"longer than {NAME_CHARACTERS_MAX} characters"
        if text[0] in ".-" or text[-1] == "." or text != text.strip():
            return f"{shown(text)} begins with . or -, ends with . or has blanks around it"
        return ""
    wrong = next(one for one in text if not one.isprintable() or one in _NEVER_IN_NAMES)
    return f"{shown(text)} contains {shown(wrong)}, which is not allowed in a name"


def path_problem(text: Any) -> str:
    """Why it cannot be a path below the root of the repository; empty if it can."""
    if not isinstance(text, str):
        return f"a path is needed, not {kind_of(text)}"
    return _path_problem(text)


@lru_cache(maxsize=REMEMBERED_MAX)
def _path_problem(text: str) -> str:
    if not text or text.isspace():
        return "empty"
    if text.startswith(("/", "~/")) or (sys.platform == "win32" and os.path.isabs(text)):
        return f"{shown(text)} is absolute; give it relative to the root of the repository"
    if keys.kind(text) != "path":
        return f"{shown(text)} is a resource, not a path"
    parts = text.split("/")
    if ".." in parts:
        return f"{shown(text)} contains ..; write the path without it"
    for part in parts:
        if part.lower() in CLOSED:  # in any case: some file systems ignore case
            return f"{shown(text)} is inside {part}, which belongs to {CLOSED[part.lower()]}"
    try:
        keys.lexical(text)
        reject_unusable(text, text)
    except BadKeyError as error:
        return error.message
    return ""


def folded(text: str) -> str:
    """One spelling for names that some file systems treat as equal: of other case, or with an
    accent that is composed in another way."""
    return text.lower() if text.isascii() else normalize("NFC", text).casefold()


def tidy(path: str) -> str:
    """A valid path, in one spelling: no `./`, no doubled slash; a folder keeps the slash at its
    end."""
    if not path.startswith("./") and "//" not in path and "/./" not in path and path != ".":
        return path if not path.endswith("/.") else path[:-1]
    inner = "/".join(part for part in path.split("/") if part not in ("", "."))
    if keys.kind(inner) != "path":
        inner = f"./{inner}"
    return f"{inner}/" if inner and path.endswith(("/", "/.")) else inner or "./"
