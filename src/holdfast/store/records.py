"""What every store on disk writes and reads: events as rows, and the keys of a grant."""

from __future__ import annotations

from holdfast.core import codec, keys
from holdfast.core.model import AGENT, WRITE, Event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from holdfast.core.model import Grant

    K = TypeVar("K")
    T = TypeVar("T")

#: How many grants, or tickets, are cached as they began.
BODIES_MAX = 512


def remember(known: dict[K, T], key: K, body: T) -> None:
    """Keep something in a cache of limited size."""
    if len(known) >= BODIES_MAX:
        known.clear()
    known[key] = body


def short_mark(once: str) -> str:
    """A short text for what an event says once, which may be of any length."""
    from hashlib import blake2b

    return blake2b(once.encode(), digest_size=16).hexdigest()


def event_of(row: Sequence[Any]) -> Event:
    """The event of a row (seq, type, version, at, data, repeats)."""
    seq, type, version, at, data, repeats = row
    return Event(
        seq=seq, type=type, version=version, at=at, data=codec.loads(data), repeats=repeats
    )


def build_or_fail(
    row: Sequence[Any] | None,
    build: Callable[[Event], T],
    path: str,
    mend: str = "restore a backup or move the file away",
) -> T:
    """The content of an event. An unreadable one is damage, and never means "not locked"."""
    try:
        if row is None:
            raise ValueError("an event is missing")
        return build(event_of(row))
    except (ValueError, KeyError, TypeError) as error:
        from holdfast.core.errors import StoreCorruptError

        raise StoreCorruptError(
            f"{path} has a record that cannot be read: {error}",
            hint=f"stop the agents, then {mend}",
            path=path,
        ) from error


def _between_resources() -> list[tuple[str, str]]:
    """The ranges that make up the inside of the root: all texts except the root itself, paths of
    other checkouts, and resources."""
    everything = keys.below(keys.ROOT)
    assert everything is not None
    last = everything[1]
    ends = [keys.ROOT, keys.ROOT]
    for start in (keys.OUTSIDE, *(f"{kind}:" for kind in sorted(keys.KINDS))):
        ends += [start, f"{start}{last}"]  # not the next text, which may be a file's name
    ends = [everything[0], *ends, everything[1]]
    return list(zip(ends[::2], ends[1::2], strict=True))


_INSIDE_ROOT = _between_resources()


def without_resources(below: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same ranges without rows that are not paths: there is one such row for each grant, and
    skipping them would take longer than reading the locks."""
    if all(low for low, _high in below):
        return below
    return [ends for low, high in below for ends in (_INSIDE_ROOT if not low else [(low, high)])]


def held_keys(grant: Grant) -> list[tuple[str, str, str | None]]:
    """Each key of a grant once, with its mode (a write if it is held both ways) and its inode.

    An inode is stored in the row of its path: a separate row would be one more write for every
    file, and a request for a file by another of its names is rare.
    """
    keys, modes, paths = grant.keys, grant.modes, grant.paths
    if grant.holder.key[:1] == AGENT:
        return [*_of_paths(keys, modes, paths), (f"grant:{grant.holder.key}", AGENT, None)]
    return _of_paths(keys, modes, paths)


def _of_paths(
    keys: tuple[str, ...], modes: str, paths: tuple[str, ...]
) -> list[tuple[str, str, str | None]]:
    if len(keys) == 1:
        return [(keys[0], modes, None)]
    if len(keys) == 2 and paths[0] == paths[1] and keys[1][:6] == "inode:":
        return [(keys[0], modes[0], keys[1])]
    found: dict[str, tuple[str, str | None]] = {}
    last = ("", "", "")
    for key, mode, path in zip(keys, modes, paths, strict=True):
        if key.startswith("inode:") and last[1:] == (mode, path):
            found[last[0]] = (found[last[0]][0], key)
        elif key not in found or mode == WRITE:
            found[key] = (mode, None)
            last = (key, mode, path)
    return [(key, mode, inode) for key, (mode, inode) in found.items()]
