"""Which agent had which file when, by the ledger and by the agents themselves: the checks of every
demo.

They use none of the code that made the decisions: overlaps and times are computed here again, in
the plainest way. A line of a diary is `SECONDS VERB WHAT`, by a clock that all processes share.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.model import Event

ENDS = ("lock_released", "lock_reaped", "lock_stolen", "lock_forced", "lock_moved")


class Finding(NamedTuple):
    """One question and its answer. `passed` is None where this machine cannot promise it."""

    question: str
    passed: bool | None
    detail: str


class Held(NamedTuple):
    """One grant, as its event describes it."""

    holder: str
    token: int
    keys: tuple[str, ...]
    modes: str
    paths: tuple[str, ...]

    def writes(self, path: str) -> bool:
        """Whether it has this file to write."""
        return ("w", path) in zip(self.modes, self.paths, strict=True)


class Stay(NamedTuple):
    """From when to when an agent used a file or a folder, by its own diary."""

    token: int
    who: str
    path: str
    begin: float
    end: float
    writes: bool


def held(event: Event) -> Held:
    """The grant of a `lock_acquired` event."""
    data = event.data
    keys = tuple(data["keys"])
    paths = tuple(data.get("paths") or codec.paths_of(keys))
    return Held(data["holder"]["id"], data["token"], keys, data["modes"], paths)


def overlap(one: str, other: str) -> bool:
    """Whether one path is the other or a folder around it."""
    one, other = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return one.startswith(other) or other.startswith(one)


def clash(one: Held, other: Held) -> str:
    """The first path that two grants must not both have."""
    for key, mode, path in zip(one.keys, one.modes, one.paths, strict=True):
        for theirs, their_mode in zip(other.keys, other.modes, strict=True):
            if "w" in (mode, their_mode) and overlap(key, theirs):
                return path
    return ""


def never_together(events: Iterable[Event]) -> Finding:
    """Whether the ledger ever gave one file to two holders, unless both only read it."""
    question = "no writer ever shared a file, according to the ledger"
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


def never_seen_together(diaries: Iterable[Sequence[str]]) -> Finding:
    """Whether two agents ever used one file at the same time, by their own diaries."""
    question = "nor according to the agents' own diaries"
    stays = stays_in(diaries)
    for one, other in combinations(sorted(stays, key=lambda stay: stay.begin), 2):
        if one.token == other.token or one.end <= other.begin:
            continue
        if (one.writes or other.writes) and overlap(one.path, other.path):
            return Finding(question, False, f"{one.who} and {other.who} were both at {one.path}")
    edits = sum(stay.writes for stay in stays)
    readings = f", {len(stays) - edits} readings" if edits < len(stays) else ""
    return Finding(question, True, f"{edits} edits{readings}")


def stays_in(diaries: Iterable[Sequence[str]]) -> list[Stay]:
    """Which agent used which file, from the first to the last entry about it."""
    stays: dict[tuple[int, str, bool], Stay] = {}
    for diary in diaries:
        token, who = 0, ""
        for line in diary:
            moment, verb, what = entry_of(line)
            if verb == "begins":
                number, who, _phase = what.split()
                token = int(number)
            elif verb in ("reads", "edits", "wrote", "crashes"):
                key = (token, what, verb != "reads")
                known = stays.get(key)
                begin = moment if known is None else known.begin
                stays[key] = Stay(token, who, what, begin, moment, verb != "reads")
    return list(stays.values())


def all_given_back(events: Iterable[Event]) -> Finding:
    """Whether every grant has ended."""
    question = "no lock is left"
    taken: dict[str, Held] = {}
    for event in events:
        if event.type == "lock_acquired":
            taken[event.data["id"]] = held(event)
        elif event.type in ENDS:
            taken.pop(event.data["grant"], None)
    left = ", ".join(one.holder for one in taken.values())
    return Finding(question, not taken, left or "all were released or taken over")


def entry_of(line: str) -> tuple[float, str, str]:
    """A line of a diary: when, what the agent did, and to what."""
    moment, verb, *what = line.split(" ", 2)
    return float(moment), verb, "".join(what)
