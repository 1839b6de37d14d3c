"""Was it true? An independent look at what a demo has left behind.

It reads the events of the ledger and the contents of the files, and asks none of the code that
decided anything: what overlaps is worked out here once more, in the plainest way.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.model import Event

ENDS = ("lock_released", "lock_reaped", "lock_stolen", "lock_forced")


class Finding(NamedTuple):
    """One question and its answer."""

    question: str
    passed: bool
    detail: str


class Held(NamedTuple):
    """One grant as its event tells it."""

    holder: str
    token: int
    keys: tuple[str, ...]
    modes: str
    paths: tuple[str, ...]


def held(event: Event) -> Held:
    """What a `lock_acquired` event is about."""
    data = event.data
    keys = tuple(data["keys"])
    paths = tuple(data.get("paths") or codec.paths_of(keys))
    return Held(data["holder"]["id"], data["token"], keys, data["modes"], paths)


def overlap(one: str, other: str) -> bool:
    """Whether one key is the other or a folder around it."""
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)


def clash(one: Held, other: Held) -> str:
    """The first path that two grants may not both have."""
    for key, mode, path in zip(one.keys, one.modes, one.paths, strict=True):
        for theirs, their_mode in zip(other.keys, other.modes, strict=True):
            if "w" in (mode, their_mode) and overlap(key, theirs):
                return path
    return ""


def audit(
    events: Sequence[Event],
    files: Mapping[str, Sequence[str]],
    published: Sequence[tuple[str, str]],
    refused: Sequence[str],
) -> list[Finding]:
    """Everything that must be so, whatever the agents did and whatever happened to them.

    `files` are the lines that were added to each file, `published` the edits that agents say they
    have made, as (file, line), `refused` the lines of edits that must not be there.
    """
    return [
        _never_together(events),
        _tokens_grow(events),
        _nothing_lost(files, published),
        _in_order(files),
        _by_holders(events, files),
        _nothing_refused_got_in(files, refused),
    ]


def _never_together(events: Iterable[Event]) -> Finding:
    question = "no writer ever shared a file with anybody"
    live: dict[str, Held] = {}
    grants = 0
    for event in events:
        if event.type == "lock_acquired":
            grants += 1
            new = held(event)
            for old in live.values():
                path = clash(new, old) if new.holder != old.holder else ""
                if path:
                    return Finding(
                        question, False, f"{new.holder} and {old.holder} both had {path}"
                    )
            live[event.data["id"]] = new
        elif event.type in ENDS:
            live.pop(event.data["grant"], None)
    return Finding(question, True, f"{grants} grants")


def _tokens_grow(events: Iterable[Event]) -> Finding:
    question = "every token is larger than all before it"
    tokens = [event.data["token"] for event in events if event.type == "lock_acquired"]
    grows = all(one < other for one, other in pairwise(tokens))
    return Finding(question, grows, f"{len(tokens)} tokens")


def _nothing_lost(
    files: Mapping[str, Sequence[str]], published: Sequence[tuple[str, str]]
) -> Finding:
    question = "every published edit is there, and nothing else"
    there = sorted((file, line) for file, lines in files.items() for line in lines)
    missing = [edit for edit in published if edit not in there]
    if missing:
        return Finding(question, False, f"{missing[0][0]} has lost {missing[0][1]!r}")
    strange = [edit for edit in there if edit not in published]
    if strange:
        return Finding(question, False, f"{strange[0][0]} has {strange[0][1]!r} from nobody")
    if len(there) != len(published):
        return Finding(question, False, "an edit is there twice")
    return Finding(question, True, f"{len(there)} lines in {len(files)} files")


def _in_order(files: Mapping[str, Sequence[str]]) -> Finding:
    question = "in each file the tokens only grow"
    for file, lines in files.items():
        tokens = [int(line.split()[0]) for line in lines]
        if tokens != sorted(tokens):
            return Finding(question, False, f"not in {file}")
    return Finding(question, True, "nobody wrote late")


def _by_holders(events: Iterable[Event], files: Mapping[str, Sequence[str]]) -> Finding:
    question = "each line was written by who held that file"
    grants = {one.token: one for one in map(held, _acquired(events))}
    for file, lines in files.items():
        for line in lines:
            token, agent, _number = line.split()
            grant = grants.get(int(token))
            writes = [] if grant is None else zip(grant.modes, grant.paths, strict=True)
            if grant is None or grant.holder != agent or ("w", file) not in list(writes):
                return Finding(question, False, f"not {line!r} in {file}")
    return Finding(question, True, "by the token in the line")


def _acquired(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if event.type == "lock_acquired"]


def _nothing_refused_got_in(files: Mapping[str, Sequence[str]], refused: Sequence[str]) -> Finding:
    question = "what was refused or never published is in no file"
    for file, lines in files.items():
        for line in lines:
            if line in refused:
                return Finding(question, False, f"{line!r} is in {file}")
    return Finding(question, True, f"{len(refused)} edits")


def agents_at_once(events: Iterable[Event]) -> int:
    """How many different holders had something at the same moment, at most."""
    live: dict[str, str] = {}
    most = 0
    for event in events:
        if event.type == "lock_acquired":
            live[event.data["id"]] = event.data["holder"]["id"]
            most = max(most, len(set(live.values())))
        elif event.type in ENDS:
            live.pop(event.data["grant"], None)
    return most
