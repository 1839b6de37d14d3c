"""Was it true? An independent examination of what the demo of tasks has left behind.

It has four witnesses: the events of the ledger, the files, the history of git, and the diaries of
the agents. It uses none of the code that made the decisions.

A line in a file is `# NUMBER TASK: PROMPT`, where the number is that of one attempt. A line of a
diary is `SECONDS VERB WHAT`, by a clock that all processes share; `read PATH SUM` has the checksum
of the content. The diary of an attempt that was not interrupted has `ends`.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from holdfast.cli.demo.demo_checks import (
    Finding,
    all_given_back,
    entry_of,
    never_seen_together,
    never_together,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.model import Event

    Files = Mapping[str, bytes]


class Commit(NamedTuple):
    """One commit: its subject, the files that it changes, and all files as they are in it."""

    subject: str
    changed: Sequence[str]
    files: Files


class Plan(NamedTuple):
    """What was to be done: the files as they were at first, and each task with its files and with
    the message of its commit."""

    files: Files
    tasks: Mapping[str, Sequence[str]]
    subjects: Mapping[str, str]


class Evidence(NamedTuple):
    """What the demo has left behind. `files` are those of the checkout. `commits` are in order,
    starting with the first state; None if there is no git."""

    events: Sequence[Event]
    files: Files
    diaries: Sequence[Sequence[str]]
    commits: Sequence[Commit] | None


class Attempt(NamedTuple):
    """One attempt at a task, by its diary."""

    number: str
    task: str
    entries: Sequence[tuple[float, str, str]]

    @property
    def is_whole(self) -> bool:
        """Whether it came to its end."""
        return self.entries[-1][1] == "ends"

    def did(self, verb: str, what: str) -> bool:
        """Whether the diary has this entry."""
        return any(entry[1:] == (verb, what) for entry in self.entries)

    def last_read(self, path: str) -> str:
        """The checksum of what it last read in a file."""
        read = [what for _at, verb, what in self.entries if verb == "read"]
        return next((one.split()[1] for one in reversed(read) if one.split()[0] == path), "")


def attempts_in(diaries: Sequence[Sequence[str]]) -> list[Attempt]:
    """Every attempt, in the order in which they started."""
    found = []
    for diary in filter(None, diaries):
        entries = [entry_of(line) for line in diary]
        number, task, _phase = entries[0][2].split()
        found.append(Attempt(number, task, entries))
    return sorted(found, key=lambda one: one.entries[0][0])


def audit(plan: Plan, found: Evidence) -> list[Finding]:
    """Everything that must hold, whatever the agents did and whatever happened to them."""
    together = never_together(found.events)
    return [
        _once_each(plan, found),
        _each_edit_once(plan, found),
        _nothing_else(plan, found),
        _nothing_cut_off(found),
        _one_commit_each(plan, found),
        _each_commit_whole(plan, found),
        together._replace(
            question="no two tasks ever held one file at a time, according to the ledger"
        ),
        never_seen_together(found.diaries),
        all_given_back(found.events)._replace(question="no lease is left"),
    ]


# The results of the tasks


def _once_each(plan: Plan, found: Evidence) -> Finding:
    question = "every task was done exactly once"
    changes = [event.data for event in found.events if event.type == "task_changed"]
    counts = Counter(task["name"] for task in changes if task["state"] == "done")
    whole = Counter(one.task for one in attempts_in(found.diaries) if one.is_whole)
    for task in plan.tasks:
        if counts[task] != 1 or whole[task] != 1:
            told = f"{task}: {counts[task]} times by the ledger, {whole[task]} by its agents"
            return Finding(question, False, told)
    attempts = len(attempts_in(found.diaries))
    return Finding(question, True, f"{len(plan.tasks)} tasks in {attempts} attempts")


def _each_edit_once(plan: Plan, found: Evidence) -> Finding:
    question = "every edit of every task is there, once"
    numbers = {one.task: one.number for one in attempts_in(found.diaries) if one.is_whole}
    for task, paths in plan.tasks.items():
        for path in paths:
            lines = found.files.get(path, b"").decode(errors="replace").splitlines()
            start = f"# {numbers.get(task)} {task}: "
            count = sum(line.startswith(start) for line in lines)
            if count != 1:
                return Finding(question, False, f"{path} has the edit of {task} {count} times")
    edits = sum(map(len, plan.tasks.values()))
    return Finding(question, True, f"{edits} edits in {len(_expected(plan))} files")


def _nothing_else(plan: Plan, found: Evidence) -> Finding:
    """Whether removing these edits leaves the original files, to the byte."""
    question = "apart from these edits, every file is unchanged to the byte"
    ours = {line for task in plan.tasks for line in _lines_of(plan, found, task)}
    for path in sorted({*found.files, *_expected(plan)}):
        if path not in found.files or path not in _expected(plan):
            there = "is missing" if path not in found.files else "should not be there"
            return Finding(question, False, f"{path} {there}")
        left = [one for one in found.files[path].splitlines(keepends=True) if one not in ours]
        if b"".join(left) != plan.files.get(path, b""):
            return Finding(question, False, f"not {path}")
    return Finding(question, True, f"{len(found.files)} files")


def _nothing_cut_off(found: Evidence) -> Finding:
    question = "attempts that were cut off left nothing behind, in any file or commit"
    cut = [one for one in attempts_in(found.diaries) if not one.is_whole]
    history = [commit.files for commit in found.commits or ()]
    for files in (found.files, *history):
        for path, content in files.items():
            for one in cut:
                if one.number.encode() in content:
                    return Finding(question, False, f"{path} has something of {one.task}")
    return Finding(question, True, f"{len(cut)} of them")


def _expected(plan: Plan) -> set[str]:
    return {*plan.files, *(path for paths in plan.tasks.values() for path in paths)}


def _lines_of(plan: Plan, found: Evidence, task: str) -> list[bytes]:
    """The line that a task adds to each of its files."""
    return [
        f"# {one.number} {task}: {plan.subjects[task]}\n".encode()
        for one in attempts_in(found.diaries)
        if one.task == task and one.is_whole
    ]


# The history of git


def _one_commit_each(plan: Plan, found: Evidence) -> Finding:
    question = "git has one commit for each task, with exactly its files"
    if found.commits is None:
        return Finding(question, None, "there is no git here")
    tasks = {subject: task for task, subject in plan.subjects.items()}
    made = [tasks.get(commit.subject, commit.subject) for commit in found.commits[1:]]
    if sorted(made) != sorted(plan.tasks):
        return Finding(question, False, f"there are commits for {', '.join(made) or 'none'}")
    for task, commit in zip(made, found.commits[1:], strict=True):
        if sorted(commit.changed) != sorted(plan.tasks[task]):
            return Finding(
                question, False, f"the commit for {task} has {', '.join(commit.changed)}"
            )
    return Finding(question, True, f"{len(made)} commits")


def _each_commit_whole(plan: Plan, found: Evidence) -> Finding:
    """Whether each commit is the one before plus the lines of its task, and the last one equals the
    checkout."""
    question = "each commit adds the edits of its task to the one before, and nothing else"
    if not found.commits:
        return Finding(question, None, "there is no git here")
    tasks = {subject: task for task, subject in plan.subjects.items()}
    before = found.commits[0].files
    for commit in found.commits[1:]:
        task = tasks.get(commit.subject, "")
        lines = b"".join(_lines_of(plan, found, task)) if task else b""
        added = {path: before.get(path, b"") + lines for path in plan.tasks.get(task, ())}
        if {**before, **added} != commit.files:
            return Finding(question, False, f"not {commit.subject!r}")
        before = commit.files
    if before != found.files:
        return Finding(question, False, "the checkout differs from the last commit")
    return Finding(question, True, "and the checkout matches the last one")


# What was to be shown


def waited(found: Evidence, first: str, second: str, path: str) -> Finding:
    """Whether a task waited for another, and continued from that one's version of a file."""
    question = f"{second} waited for {path}, and continued from what {first} had written"
    attempts = [one for one in attempts_in(found.diaries) if one.task == second]
    was_told = any(one.did("stale", path) for one in attempts)
    if not _stood_in_line(found, second, path) or not was_told:
        return Finding(question, False, "it did not happen")
    lines = found.files.get(path, b"").splitlines(keepends=True)
    own = [at for at, line in enumerate(lines) if f" {second}: ".encode() in line]
    has_first = any(f" {first}: ".encode() in line for line in lines[: own[0]]) if own else False
    if not has_first:
        return Finding(question, False, f"{path} does not have both, one after the other")
    read = attempts[-1].last_read(path)
    is_new = read == checksum(b"".join(lines[: own[0]]))
    return Finding(question, is_new, "it read the file again" if is_new else "it read old content")


def _stood_in_line(found: Evidence, task: str, path: str) -> bool:
    """Whether a task got a file after a wait, by the ledger."""
    changes = [event.data for event in found.events if event.type == "task_changed"]
    items = {one["item"] for one in changes if one["name"] == task}
    tickets = {
        event.data["id"] for event in found.events
        if event.type == "ticket_added" and path in event.data["paths"]
        and event.data["holder"]["id"] in items
    }  # fmt: skip
    return any(event.type == "lock_acquired" and event.data["id"] in tickets
               for event in found.events)  # fmt: skip


def yielded(found: Evidence, older: str, younger: str) -> Finding:
    """Whether the younger task of a deadlock was undone, and done again after the older."""
    question = f"{younger} yielded to {older} in a deadlock, was undone, and was done after it"
    changes = [event.data for event in found.events if event.type == "task_changed"]
    reasons = [task["reason"] for task in changes if task["name"] == younger]
    if not any(reason.startswith("it yielded") for reason in reasons):
        return Finding(question, False, "it did not happen")
    if any(task["name"] == older and task["reason"].startswith("it yielded") for task in changes):
        return Finding(question, False, f"{older} yielded too")
    done = [task["name"] for task in changes if task["state"] == "done"]
    in_order = older in done and younger in done and done.index(older) < done.index(younger)
    return Finding(question, in_order, "in this order" if in_order else "not in this order")


def crashed(plan: Plan, found: Evidence, task: str, path: str) -> Finding:
    """Whether an agent was killed in the middle of an edit, and the next one found the file as it
    was before."""
    question = f"{task} crashed in {path}, and the next attempt found it restored"
    attempts = [one for one in attempts_in(found.diaries) if one.task == task]
    if not attempts or not attempts[0].did("crashes", path):
        return Finding(question, False, "it did not happen")
    reads = [one.last_read(path) for one in attempts[1:]]
    is_back = bool(reads) and set(reads) == {checksum(plan.files.get(path, b""))}
    return Finding(question, is_back, "to the byte" if is_back else "it did not")


def checksum(content: bytes) -> str:
    """In the form in which the agents record it."""
    return f"{zlib.crc32(content):08x}"
