"""The limits of requests: leases, waits, priorities and reasons; and the keys for given paths.

Values outside the limits are refused.
"""

from __future__ import annotations

from holdfast.core.model import READ, SECOND, WRITE
from holdfast.core.root_errors import BadKeyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from holdfast.core.errors import OverLockError
    from holdfast.manager.files.paths import Place, Tree, Words

    Path = str | os.PathLike[str]
    #: Keys, modes and paths of a request, by position, and the silent keys.
    Footprint = tuple[tuple[str, ...], str, tuple[str, ...], tuple[str, ...]]

LEASE_SECONDS_MAX = 10 * 366 * 86400
PRIORITY_MAX = 1000
REASON_CHARACTERS_MAX = 500
REMEMBERED_MAX = 4096


def not_a_list(text: str) -> BadKeyError:
    """The error for a single path where several are expected."""
    return BadKeyError(
        f"{text!r} is one path where a list was expected", hint=f"give [{text!r}]", key=text
    )


def over_lock(path: str) -> OverLockError:
    """The error for a write lock on a folder."""
    from holdfast.core.errors import OverLockError

    return OverLockError(
        f"{path} is a folder: a write lock names single files",
        hint="name the files you will write; a folder can be locked for reading",
        path=path,
    )


def seconds(value: float, name: str) -> float:
    """The value, if it is a valid number of seconds."""
    if not 0 <= value < float("inf"):
        raise BadKeyError(
            f"{name} must be a number of seconds, not {value!r}", hint="give 0 or more"
        )
    return value


def microseconds(value: float, name: str) -> int:
    """A number of seconds in microseconds."""
    return round(seconds(value, name) * SECOND)


def lease(ttl: float | None) -> int | None:
    """The length of a lease: more than 0 and at most ten years; None for as long as the owner."""
    if ttl is None:
        return None
    length = microseconds(ttl, "ttl")
    if not 0 < length <= LEASE_SECONDS_MAX * SECOND:
        raise BadKeyError(
            f"a lease of {ttl!r} s is not possible",
            hint=f"give more than 0 and at most {LEASE_SECONDS_MAX} s, or None",
        )
    return length


def priority(value: int) -> int:
    """The value, if it is a valid priority."""
    if not -PRIORITY_MAX <= value <= PRIORITY_MAX:
        raise BadKeyError(
            f"{value!r} is not a priority",
            hint=f"give a number from -{PRIORITY_MAX} to {PRIORITY_MAX}",
        )
    return value


def one_line(text: str) -> str:
    """A reason as one printable line, since tables and other people's terminals show it."""
    shown = text
    if not text.isprintable():
        shown = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(shown.split())[:REASON_CHARACTERS_MAX]


class Footprints:
    """Computes the keys and modes for the paths of a request."""

    __slots__ = ("_find", "_known")

    def __init__(self, places: Tree | Words, *, fixed: bool) -> None:
        """With `fixed`, results are cached: without a disk, the same text always means the same."""
        self._find = places.place
        self._known: dict[object, Footprint] | None = {} if fixed else None

    def of(self, read_paths: Iterable[Path], write_paths: Iterable[Path]) -> Footprint:
        """Raises for a path that cannot be locked, or not in this mode."""
        if isinstance(read_paths, str):
            raise not_a_list(read_paths)
        if isinstance(write_paths, str):
            raise not_a_list(write_paths)
        if self._known is None:
            if read_paths == () and isinstance(write_paths, list) and len(write_paths) == 1:
                return to_write(self._find(write_paths[0]))
            return self._made(read_paths, write_paths)
        asked = (tuple(read_paths), tuple(write_paths))
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            known = self._known[asked] = self._made(*asked)
        return known

    def _made(self, read_paths: Iterable[Path], write_paths: Iterable[Path]) -> Footprint:
        find = self._find
        reads: dict[str, str] = {}
        writes: dict[str, str] = {}
        silent: list[str] = []
        for found, texts in ((reads, read_paths), (writes, write_paths)):
            for text in texts:
                place = find(text)
                if place.folder and found is writes:
                    raise over_lock(place.path)
                found.setdefault(place.key, place.path)
                if place.inode:
                    found.setdefault(place.inode, place.path)
                    if place.links == 1:
                        silent.append(place.inode)
        if not (reads or writes):
            raise BadKeyError("nothing was requested", hint="name at least one path or resource")
        keys = (*reads, *writes)
        paths = (*reads.values(), *writes.values())
        modes = READ * len(reads) + WRITE * len(writes)
        return keys, modes, keys if keys == paths else paths, tuple(silent)


def to_write(place: Place) -> Footprint:
    """The fast path for one path to write, with the same result as `Footprints.of`."""
    if place.folder:
        raise over_lock(place.path)
    if not place.inode:
        return (place.key,), WRITE, (place.path,), ()
    silent = (place.inode,) if place.links == 1 else ()
    return (place.key, place.inode), WRITE + WRITE, (place.path, place.path), silent
