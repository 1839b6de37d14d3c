"""Was it true? An independent examination of what a demo has left behind.

It has three witnesses: the events of the ledger, the files, and the diaries of the agents. It uses
none of the code that made the decisions: overlaps and times are computed here again, in the
plainest way.

A line in a file is `# TOKEN WORKFLOW PHASE`, which identifies its writer. A line of a diary is
`SECONDS VERB WHAT`, by a clock that all processes share.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.cli.demo.demo_checks import (
    Finding,
    all_given_back,
    entry_of,
    held,
    never_seen_together,
    never_together,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.model import Event

ANALYZE = "analyze"


class Evidence(NamedTuple):
    """What a demo has left behind: its events in order, the lines that were added to each file, and
    the diaries. `unguarded` is why agents could write any file, if they could."""

    events: Sequence[Event]
    files: Mapping[str, Sequence[str]]
    diaries: Sequence[Sequence[str]]
    unguarded: str = ""


def audit(found: Evidence) -> list[Finding]:
    """Everything that must hold, whatever the agents did and whatever happened to them."""
    return [
        never_together(found.events),
        never_seen_together(found.diaries),
        _nothing_changed_under_readers(found),
        _tokens_grow(found),
        _in_order(found),
        _by_holders(found),
        _nothing_lost(found),
        _nothing_left_over(found),
        _once_each(found),
        all_given_back(found.events),
    ]


# The holders


def _nothing_changed_under_readers(found: Evidence) -> Finding:
    question = "nothing changed under an analysis while it read"
    changed = [entry_of(line)[2] for line in _lines(found) if entry_of(line)[1] == "changed"]
    if changed:
        return Finding(question, False, f"{changed[0]} did")
    return Finding(question, True, "each compared the files before and after")


def _tokens_grow(found: Evidence) -> Finding:
    question = "every token is larger than all before it"
    tokens = [event.data["token"] for event in found.events if event.type == "lock_acquired"]
    grows = all(one < other for one, other in pairwise(tokens))
    return Finding(question, grows, f"{len(tokens)} tokens")


# The content of the files


def _in_order(found: Evidence) -> Finding:
    question = "in each file the tokens only grow"
    for file, lines in found.files.items():
        tokens = [int(line.split()[1]) for line in lines if _is_signed(line)]
        if tokens != sorted(tokens):
            return Finding(question, False, f"not in {file}")
    return Finding(question, True, "no late write")


def _by_holders(found: Evidence) -> Finding:
    question = "each line was written by the holder of its file"
    grants = {one.token: one for one in map(held, _of_type(found, "lock_acquired"))}
    for file, lines in found.files.items():
        for line in lines:
            grant = grants.get(int(line.split()[1])) if _is_signed(line) else None
            if grant is None or not grant.writes(file):
                if found.unguarded:
                    return Finding(question, None, f"not {file}: {found.unguarded}")
                return Finding(question, False, f"not {line!r} in {file}")
    return Finding(question, True, "by the token in the line")


def _nothing_lost(found: Evidence) -> Finding:
    """Every line of a completed merge is there, by its diary; and at least one in every file that
    the ledger gave it."""
    question = "every edit of a completed merge is there, once"
    done = {item["token"]: item for item in _completed(found) if item["phase"] != ANALYZE}
    wrote = Counter(edit for edit in _edits(found) if int(edit[1].split()[1]) in done)
    there = Counter((file, line) for file, lines in found.files.items() for line in lines)
    for (file, line), count in wrote.items():
        if there[file, line] != count:
            return Finding(question, False, f"{file} has {line!r} {there[file, line]} times")
    for token, item in done.items():
        for file in item["write_paths"]:
            if not any(line.startswith(f"# {token} ") for line in found.files.get(file, ())):
                return Finding(question, False, f"{item['workflow']} left nothing in {file}")
    return Finding(question, True, f"{wrote.total()} lines in {len(found.files)} files")


def _nothing_left_over(found: Evidence) -> Finding:
    question = "interrupted and refused edits left nothing behind"
    wrote = set(_edits(found))
    done = {item["token"] for item in _completed(found)}
    cut = {event.data["token"] for event in _of_type(found, "lock_acquired")} - done
    for file, lines in found.files.items():
        for line in lines:
            if _is_signed(line) and (file, line) in wrote and int(line.split()[1]) in done:
                continue
            if found.unguarded and line.endswith(" stray"):
                return Finding(question, None, f"{line!r} in {file}: {found.unguarded}")
            return Finding(question, False, f"{line!r} is in {file}")
    return Finding(question, True, f"{len(cut)} grants were cut off")


# The result of the work


def _once_each(found: Evidence) -> Finding:
    question = "each piece of work was completed exactly once"
    wanted = {event.data["workflow"] for event in _of_type(found, "work_queued")}
    counts = Counter(item["workflow"] for item in _completed(found))
    for workflow in sorted(wanted):
        if counts[workflow] != 1:
            return Finding(question, False, f"{workflow}: {counts[workflow]} times")
    return Finding(question, True, f"{len(wanted)} pieces")


def _completed(found: Evidence) -> list[dict[str, Any]]:
    """Every event by which a piece of work is completed."""
    ended = (event.data for event in _of_type(found, "work_ended"))
    return [dict(item) for item in ended if item["status"] == "completed"]


def _edits(found: Evidence) -> list[tuple[str, str]]:
    """What agents recorded as written: file and line."""
    edits = []
    for diary in found.diaries:
        who = ""
        for line in diary:
            _moment, verb, what = entry_of(line)
            if verb == "begins":
                who = what
            elif verb == "wrote":
                edits.append((what, f"# {who}"))
    return edits


def _of_type(found: Evidence, type: str) -> list[Event]:
    return [event for event in found.events if event.type == type]


def _lines(found: Evidence) -> list[str]:
    return [line for diary in found.diaries for line in diary]


def _is_signed(line: str) -> bool:
    """Whether a line names its writer, as every complete line of an agent does."""
    words = line.split()
    return len(words) == 4 and words[0] == "#" and words[1].isdigit()
