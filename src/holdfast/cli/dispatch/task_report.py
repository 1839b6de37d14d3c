"""What a dispatcher prints about its tasks: a line for each event, and a table at the end."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Iterable, Sequence
from time import monotonic

from holdfast.cli.dispatch.task_deciding import files_in_words
from holdfast.cli.dispatch.task_waits import PATIENCE_SECONDS, Wait
from holdfast.cli.printing import colours, out, plain
from holdfast.cli.terminal.sheet import Sheet
from holdfast.cli.terminal.tables import (
    RED,
    YELLOW,
    Cell,
    Column,
    terminal_width,
)
from holdfast.core.model import SECOND
from holdfast.core.sentences import duration
from holdfast.work.tasks import task_states
from holdfast.work.tasks.task_records import TaskRecord

_MARKS = {
    task_states.WORKING: "->", task_states.CHECKING: "->", task_states.FIXING: "->",
    task_states.REVIEWING: "??",
    task_states.DONE: "ok", task_states.FAILED: "!!", task_states.SKIPPED: "--",
}  # fmt: skip
_COLOURS = {task_states.FAILED: RED, task_states.SKIPPED: YELLOW, task_states.REVIEWING: YELLOW}
_INDENT = " " * 14
#: How many lines of output are shown of an attempt that is retried, and of each failed task at the
#: end; and of how many tasks then. All of it was printed when it happened, and is in a file.
_LINES_AGAIN, _LINES_LAST, _FAILED_LAST = 3, 5, 10


class Watch:
    """Prints one line per event of a task. Called by many threads."""

    def __init__(self, *, quiet: bool) -> None:
        """If `quiet`, only decisions that a person has to make are printed: work waits for them."""
        self._quiet = quiet
        self._begun = monotonic()
        self._last: dict[str, str] = {}
        self._undecided: list[str] = []
        self._waits: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def see(self, record: TaskRecord) -> None:
        """A task has changed its state."""
        mark = _MARKS.get(record.state, ".." if record.reason else "")
        if not mark or self._last.get(record.name) == record.state != task_states.QUEUED:
            return
        self._last[record.name] = record.state
        if not self._quiet or record.state == task_states.REVIEWING:
            said = f"{mark}  {record.state:<9} {plain(record.name)}{_why(record)}"
            self._say([said, *_details(record)])

    def waits_for(self, undecided: list[str]) -> None:
        """Everything that is left waits for a person. Printed once for each set of tasks."""
        if undecided and undecided != self._undecided:
            names = ", ".join(map(plain, undecided))
            self._say([f"??  all remaining tasks wait for a decision: {names}",
                       f"{_INDENT}holdfast decide shows them"])  # fmt: skip
        self._undecided = undecided

    def waits(self, waits: Iterable[Wait]) -> None:
        """Tasks wait for holders outside the list. Printed once for each task and holder, when the
        wait gets long."""
        for one in waits:
            told = (one.task, one.holder)
            if told not in self._waits and one.waited >= PATIENCE_SECONDS * SECOND:
                self._waits.add(told)
                if not self._quiet:
                    self._say([f"..  waiting   {plain(one.task)}: {one.sentence}"])

    def _say(self, lines: list[str]) -> None:
        at = f"{monotonic() - self._begun:6.1f} s  "
        with self._lock:  # in one write, or two threads would share a line
            sys.stderr.write("\n".join([at + lines[0], *lines[1:], ""]))
            sys.stderr.flush()


def _why(record: TaskRecord) -> str:
    if record.state == task_states.DONE and record.commit:
        return f": {record.commit[:10]}"
    if record.state == task_states.REVIEWING:
        return f": {files_in_words(record)}"
    again = "; it will be retried" if record.state == task_states.QUEUED else ""
    return f": {plain(record.reason)}{again}" if record.reason else ""


def _details(record: TaskRecord) -> list[str]:
    if record.state == task_states.FAILED:
        return [_INDENT + line for line in _output(record, len(record.tail))]
    if record.state == task_states.QUEUED and record.tail:
        return [_INDENT + line for line in _output(record, _LINES_AGAIN)]
    if record.state == task_states.REVIEWING:
        command = f"holdfast decide {shlex.quote(plain(record.name))}"
        return [f"{_INDENT}{command}    # shows the diff and asks"]
    return []


def _output(record: TaskRecord, most: int) -> list[str]:
    """The end of the output of a failed command, and where the rest is."""
    if not record.log:
        return []
    if not record.tail:
        return ["it printed nothing"]
    lines = [f"| {plain(line)}" for line in record.tail[-most:]]
    return [*lines, f"full output: {plain(record.log)}"]


# At the end


def print_table(found: Sequence[TaskRecord], seconds: float, *, command: str, error: str) -> None:
    """The result of each task, and what a person can do about failed ones. `command` starts the
    list."""
    sheet = Sheet(terminal_width(), colours(), len(found))
    notes = [one.reason for one in found]
    out("\n".join(sheet.table_with_notes(_COLUMNS, [_row(one) for one in found], notes)))
    failed = [one for one in found if one.state == task_states.FAILED]
    for one in failed[:_FAILED_LAST]:
        _print_failed(one)
    out(f"\n{_sum(found)}, in {duration(round(seconds * 1_000_000))}")
    if failed:
        out("the changes of failed tasks were undone; to retry: "
            f"{command} --retry-failed")  # fmt: skip
    if error:
        out(f"the dispatcher failed: {plain(error)}")


_COLUMNS = [
    Column("TASK", 12), Column("STATE"), Column("FILES", 12, prose=True), Column("COMMIT"),
    Column("TIME"), Column("TRIES"),
]  # fmt: skip


def _row(one: TaskRecord) -> list[Cell]:
    files = ", ".join(one.files) if one.state == task_states.DONE else ""
    time = duration(one.worked_microseconds) if one.worked_microseconds else ""
    return [
        Cell(one.name), Cell(one.state, _COLOURS.get(one.state, "")), Cell(files),
        Cell(one.commit[:10]), Cell(time), Cell(str(one.tries or "")),
    ]  # fmt: skip


def _print_failed(one: TaskRecord) -> None:
    lines = _output(one, _LINES_LAST)
    if lines:
        out("\n".join([f"\n{plain(one.name)}:", *(f"  {line}" for line in lines)]))


def _sum(found: Sequence[TaskRecord]) -> str:
    counted = {state: sum(one.state == state for one in found) for state in task_states.STATES}
    of = "1 task" if len(found) == 1 else f"{len(found)} tasks"
    parts = [f"{counted[task_states.DONE]} of {of} done"]
    parts += [f"{counted[state]} {state}" for state in (task_states.FAILED, task_states.SKIPPED)
              if counted[state]]  # fmt: skip
    left = sum(not one.is_over for one in found)
    return ", ".join([*parts, *([f"{left} left"] if left else [])])
