"""Two lists of a tree's entries, written during a walk and in its order.

The manifest describes a snapshot, one JSON line for each entry: kind, mode, owner, time, size,
hash, the target of a link. Its own hash is the hash of the payload. The sources record where each
entry was read from (inode, size, times), so that the next snapshot can quickly tell what did not
change, and this one can tell what changed during the copy.

Both are read and written line by line: a tree of a million files needs no more memory than one of
ten.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, BinaryIO

from holdfast.trees.errors import TreeDamagedError, shown
from holdfast.trees.payload.payload_walk import FOLDER, order

MANIFEST = "manifest.jsonl"
SOURCES = "sources"

#: A kind of line that the walk does not have: another name of an earlier file.
SAME = "same"

#: How many lines may wait for the hash of a large file before them.
WAITING_LINES_MAX = 4096

_BUFFER_BYTES = 1 << 18
_AT_ONCE_MAX = 1000
_TRUSTED, _DOUBTED = b"+", b"?"

_decoder = json.JSONDecoder()
_decode, _decode_line = _decoder.raw_decode, _decoder.decode
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def source_of(path: str, status: os.stat_result) -> bytes:
    """A text that changes whenever a file does, even if its size and its time are reset.

    It is one text, so that two of them can be compared without parsing.
    """
    return (
        f"{quoted(path)} {status.st_ino} {status.st_size} {status.st_mtime_ns} "
        f"{status.st_ctime_ns} {status.st_mode}\n"
    ).encode("ascii")


def path_of(source: bytes) -> str:
    """The path in such a text."""
    return str(_decode(source.decode("ascii"))[0])


def line(fields: dict[str, Any]) -> bytes:
    """A line of the manifest."""
    return _encode(fields).encode("ascii") + b"\n"


class Lister:
    """Writes both lists. A line may be a function, which is called when its turn comes."""

    def __init__(self, folder: str, device: int) -> None:
        self._manifest: BinaryIO = open(f"{folder}/{MANIFEST}", "xb", _BUFFER_BYTES)  # noqa: SIM115
        self._sources: BinaryIO = open(f"{folder}/{SOURCES}", "xb", _BUFFER_BYTES)  # noqa: SIM115
        self._sources.write(b"%d\n" % device)
        self._hash = hashlib.sha256()
        self._waiting: deque[bytes | Callable[[], bytes]] = deque()
        self._texts: list[bytes] = []
        self._origins: list[bytes] = []

    def add(self, text: bytes | Callable[[], bytes], source: bytes, trusted: bool) -> None:
        """Add the next entry. It is not trusted if it changed just before it was read, because
        another change in the same tick of the clock would not be seen."""
        self._origins += (_TRUSTED if trusted else _DOUBTED, source)
        if not self._waiting and isinstance(text, bytes):
            self._texts.append(text)
        else:
            self._waiting.append(text)
            while len(self._waiting) > WAITING_LINES_MAX:
                self._settle()
        if len(self._origins) >= _AT_ONCE_MAX:
            self._write()

    def _settle(self) -> None:
        first = self._waiting.popleft()
        self._texts.append(first if isinstance(first, bytes) else first())

    def _write(self) -> None:
        """Write many lines together: one by one, writing would cost more than making them."""
        texts, origins = b"".join(self._texts), b"".join(self._origins)
        self._texts.clear()
        self._origins.clear()
        self._hash.update(texts)
        self._manifest.write(texts)
        self._sources.write(origins)

    def finish(self) -> str:
        """Write all remaining lines; returns the hash of the payload."""
        while self._waiting:
            self._settle()
        self._write()
        self.close()
        return self._hash.hexdigest()

    def close(self) -> None:
        """Close the files."""
        self._manifest.close()
        self._sources.close()


class Old:
    """An entry of an earlier snapshot, and whether its source is unchanged."""

    __slots__ = ("is_same", "text")

    def __init__(self, text: bytes, is_same: bool) -> None:
        self.text = text
        self.is_same = is_same

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of its line in the manifest."""
        found: dict[str, Any] = json.loads(self.text)
        return found


class Earlier:
    """The lists of an earlier snapshot, searched path after path in the order of the walk."""

    def __init__(self, folder: str, device: int) -> None:
        """Raises OSError or ValueError if the lists cannot be read."""
        self._manifest = open(f"{folder}/{MANIFEST}", "rb", _BUFFER_BYTES)  # noqa: SIM115
        self._sources = open(f"{folder}/{SOURCES}", "rb", _BUFFER_BYTES)  # noqa: SIM115
        self._text = self._source = b""
        try:
            self._mark = _TRUSTED if int(self._sources.readline()) == device else b"!"
            self._next()
        except ValueError:
            self.close()
            raise

    def find(self, path: str, source: bytes) -> Old | None:
        """The entry of a path, if there was one."""
        if self._source == self._mark + source:
            # The path is before the five numbers, as in a line of the manifest.
            return self._take(source.rsplit(b" ", 5)[0], is_same=True)
        wanted: list[str] | None = None
        while self._source:
            try:
                at = path_of(self._source[1:])
            except ValueError:  # damaged: nothing after this can be relied on
                self._source = b""
                return None
            if at == path:
                return self._take(quoted(path).encode("ascii"), is_same=False)
            wanted = wanted if wanted is not None else order(path)
            if order(at) > wanted:
                return None
            self._next()
        return None

    def _take(self, path: bytes, *, is_same: bool) -> Old | None:
        """Read the next line of both lists, which must be about the same entry."""
        text = self._text
        if not text.startswith(b'{"path":%b,' % path):
            self._source = b""
            return None
        self._text, self._source = self._manifest.readline(), self._sources.readline()
        return Old(text, is_same)

    def _next(self) -> None:
        self._text, self._source = self._manifest.readline(), self._sources.readline()

    def close(self) -> None:
        """Close the files."""
        self._manifest.close()
        self._sources.close()


def sources(folder: str) -> Iterator[bytes]:
    """The lines of the sources."""
    with open(f"{folder}/{SOURCES}", "rb", _BUFFER_BYTES) as lines:
        next(lines)
        for text in lines:
            yield text[1:]


def manifest(folder: str) -> Iterator[dict[str, Any]]:
    """The entries of a manifest. Raises TreeDamagedError at an invalid line."""
    if not os.path.lexists(f"{folder}/{MANIFEST}"):
        raise _damaged(folder, "its manifest is missing")
    with open(f"{folder}/{MANIFEST}", "rb", _BUFFER_BYTES) as lines:
        for number, text in enumerate(lines, 1):
            try:
                fields = _decode_line(text.decode("ascii"))
                _check(fields, number)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise _damaged(folder, f"line {number} of its manifest: {error}") from error
            yield fields


def lines(folder: str) -> Iterator[bytes]:
    """The lines of a manifest, unparsed."""
    with open(f"{folder}/{MANIFEST}", "rb", _BUFFER_BYTES) as texts:
        yield from texts


def parsed(folder: str, text: bytes) -> dict[str, Any]:
    """The fields of a line of a manifest. Raises TreeDamagedError for an invalid line."""
    try:
        fields: dict[str, Any] = _decode_line(text.decode("ascii"))
        _check(fields, 1 if fields["path"] == "" else 2)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder, f"a line of its manifest: {error}") from error
    return fields


def _check(fields: dict[str, Any], number: int) -> None:
    """Raise unless the path leads to a place inside the tree."""
    if not isinstance(fields["kind"], str):
        raise ValueError("no kind")
    if number == 1:
        if fields["path"] != "" or fields["kind"] != FOLDER:
            raise ValueError("the tree itself must come first")
        return
    _check_path(fields["path"])
    if fields["kind"] == SAME:
        _check_path(fields["as"])


def _check_path(path: str) -> None:
    inside = f"/{path}/"
    if "//" in inside or "/./" in inside or "/../" in inside or "\0" in path:
        raise ValueError(f"a path that leads out of the tree: {path!r}")


def hash_of_manifest(folder: str) -> str:
    """The hash of the payload according to the present manifest."""
    with open(f"{folder}/{MANIFEST}", "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(folder: str, why: str) -> TreeDamagedError:
    id = os.path.basename(folder)
    return TreeDamagedError(
        f"snapshot {id} is damaged: {shown(why)}",
        hint="holdfast tree verify shows what is left of it; take another snapshot",
        snapshot_id=id,
    )
