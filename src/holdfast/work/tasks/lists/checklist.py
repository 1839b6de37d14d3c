"""The items of a Markdown checklist, and how one is ticked.

    - [ ] rename User to Account
      Also in the documentation.
    - [x] add a changelog

An unticked item is a task. Its prompt is its text and every line below it that is indented deeper;
so an item includes everything nested in it. Checkboxes inside an unticked item are part of its
prompt, and those inside a ticked one count as done. Items in fenced code and in HTML comments are
ignored.

`tick` changes one character of the present file. A person who saves the file in the instant between
the last check and the rename loses that edit; an earlier edit is never lost.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from holdfast.gate.replacement import Moved, replacement
from holdfast.work.input_checks import Unreadable, file_bytes
from holdfast.work.tasks.lists.task_names import name_of

SIZE_MAX = 32 << 20
TAB_COLUMNS = 4
#: How many times a file is read again because a person saved it meanwhile.
TICK_TRIES = 10

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ITEM = re.compile(r"([ \t]*)(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[([ xX])\](?:[ \t]+(.*))?$")
_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)?(`{3,}(?=[^`]*$)|~{3,})")
_MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Item:
    """An item that is not nested in another one. `line` counts from 1; `box` is where its box is in
    the text."""

    name: str
    prompt: str
    line: int
    is_ticked: bool
    box: int


def items(text: str) -> list[Item]:
    """The items of a text, without those nested in another one."""
    lines = list(_lines(text))
    found: list[Item] = []
    at = 0
    while at < len(lines):
        match = None if lines[at].is_prose else _ITEM.match(lines[at].text)
        if match is None:
            at += 1
            continue
        end = _end(lines, at, _columns(match[1]))
        words = (match[3] or "").strip()
        body = _dedented(lines[at + 1 : end])
        prompt = f"{words}\n{body}".strip()
        box = lines[at].start + match.start(2)
        found.append(Item(name_of(words), prompt, at + 1, match[2] != " ", box))
        at = end
    return found


def tick(path: str, *names: str) -> bool:
    """Tick the items of these names, except those that no longer exist, are ticked already, or
    cannot be told from another one; False if that leaves none. Raises OSError if the file cannot be
    replaced.

    Every other byte stays. A link stays a link: its target is replaced.
    """
    real = os.path.realpath(path)
    with _alone(os.path.dirname(real)):
        for _ in range(TICK_TRIES):
            data = _data(real)
            new = None if data is None else _ticked(data, names)
            if data is None or new is None:
                return False
            if _replace(real, data, new):
                return True
    raise OSError(f"{path} keeps changing")


class Ticker:
    """Ticks the items of one file for many threads. One of them does it, for all requests that came
    meanwhile: reading a long list takes longer than a task may."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names: set[str] = set()
        self._is_at_work = False
        self._lock = threading.Lock()

    def tick(self, names: Iterable[str]) -> None:
        """Have these items ticked, by this thread or by the one that is ticking. An item that
        cannot be ticked now is ticked when the list is run the next time."""
        with self._lock:
            self._names.update(names)
            if self._is_at_work:
                return
            self._is_at_work = True
        while found := self._next():
            with suppress(OSError):
                tick(self._path, *found)

    def _next(self) -> set[str]:
        with self._lock:
            found, self._names = self._names, set()
            self._is_at_work = bool(found)
            return found


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    """While this lasts, no other dispatcher, and no other thread of this one, ticks an item in this
    folder: two that replaced the file at the same moment would lose one tick."""
    import fcntl  # not on every system

    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _ticked(data: bytes, names: Collection[str]) -> bytes | None:
    text = data.decode("utf-8", "surrogateescape")
    wanted = set(names)
    boxes: dict[str, list[int]] = {}
    for item in items(text):
        if item.name in wanted and not item.is_ticked:
            boxes.setdefault(item.name, []).append(item.box)
    parts, end = [], 0
    for box in sorted(found[0] for found in boxes.values() if len(found) == 1):
        parts += [text[end:box], "x"]
        end = box + 1
    return "".join([*parts, text[end:]]).encode("utf-8", "surrogateescape") if parts else None


def _replace(real: str, old: bytes, new: bytes) -> bool:
    """Whether the file was still as it had been read, and is replaced now."""
    folder, name = os.path.split(real)
    made = replacement(folder, (name,), alone=False)
    try:
        made.prepare(new)
        if _data(real) != old:
            return False
        made.commit()
        made.settle()
    except Moved:  # it was renamed, or became a link: read it again
        return False
    finally:
        made.close()
    return True


def _data(real: str) -> bytes | None:
    try:
        return file_bytes(real, SIZE_MAX)
    except Unreadable:
        return None


# The lines


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    start: int
    #: Whether the line is inside a fence or a comment, so that no item starts in it.
    is_prose: bool


def _lines(text: str) -> Iterator[_Line]:
    fence, in_comment = "", False
    start = len(_MARK) if text.startswith(_MARK) else 0
    for match in _LINE.finditer(text, start):
        line = match[0].rstrip("\r\n")
        is_prose = bool(fence) or in_comment
        if fence:
            closing = line.strip()
            if len(closing) >= len(fence) and not closing.strip(fence[0]):
                fence = ""
        elif in_comment:
            in_comment = "-->" not in line
        elif opening := _FENCE.match(line):
            fence, is_prose = opening[1], not _ITEM.match(line)
        elif line.lstrip().startswith("<!--"):
            in_comment, is_prose = "-->" not in line, True
        yield _Line(line, match.start(), is_prose)


def _end(lines: list[_Line], first: int, columns: int) -> int:
    """The line after the last that belongs to an item."""
    end = first + 1
    for at in range(first + 1, len(lines)):
        text = lines[at].text
        if not text.strip():
            continue
        if not lines[at].is_prose or not lines[at - 1].is_prose or at == first + 1:
            indent = text[: len(text) - len(text.lstrip(" \t"))]
            if _columns(indent) <= columns:
                break
        end = at + 1
    return end


def _dedented(lines: list[_Line]) -> str:
    """The lines without their common indentation; code that is indented less than its fence does
    not count."""
    texts = [line.text.expandtabs(TAB_COLUMNS) for line in lines]
    indents = [
        len(text) - len(text.lstrip(" "))
        for text, line in zip(texts, lines, strict=True)
        if text.strip() and not line.is_prose
    ]
    common = min(indents, default=0)
    return "\n".join(text[min(common, len(text) - len(text.lstrip(" "))) :] for text in texts)


def _columns(indent: str) -> int:
    return len(indent.expandtabs(TAB_COLUMNS))
