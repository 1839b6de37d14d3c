"""One attempt at a task: its agent, its check, the rounds between them, and what the end means.

An attempt ends in one of four ways:

- it is accepted: its changes land (or a person decides first),
- `Again`: it is undone and repeated. A task that had to yield in a deadlock, or that failed after a
  stale write was refused, starts again with every file that it is known to write, all taken at its
  start; this does not count as a failed attempt. A task that was killed, or whose agent failed,
  starts again after a pause.
- `Failed`: it is undone for good,
- the process is killed: then the next dispatcher undoes it, or the next request for its files.

Nothing is undone here: the engine does that, before the leases are released.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.core.errors import HoldfastError, StoreError
from holdfast.manager import transactions
from holdfast.manager.files.keepsakes import KeepsakeError, is_held_by
from holdfast.manager.files.realpath import plain
from holdfast.work.engine.callbacks import Again, Failed
from holdfast.work.engine.work_items import LockRequest, WorkItem
from holdfast.work.launching.launcher import DEADLOCK
from holdfast.work.launching.run_folders import Run
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.lists.task import TIMEOUT_SECONDS, Task
from holdfast.work.tasks.task_changes import changed_files, write_patch
from holdfast.work.tasks.task_records import TAIL_LINES, TaskRecord

if TYPE_CHECKING:
    from holdfast.manager.files.keepsakes import IsHeld
    from holdfast.manager.manager import LockManager
    from holdfast.work.launching.slots import Ended
    from holdfast.work.tasks.task_agent import Agent

AGENT_LOG, CHECK_LOG = "task", "check"
#: The pause before the second attempt; each further one is four times as long, up to the limit.
PAUSE_SECONDS = 2.0
PAUSE_SECONDS_MAX = 120.0
#: The exit code of a shell if there is no such command.
NOT_FOUND = 127
_TAIL_BYTES = 16_384
_LINE_CHARACTERS_MAX = 300

#: Added to the prompt of every agent.
NOTE = """

(You share this checkout with other tasks. Git is read-only here: do not stage, commit or stash; the
dispatcher commits. If a write fails with ESTALE ("Stale file handle") or for no reason that you can
see, another task has changed that file: read it again, then write it.)
"""
#: Added to the prompt if the check of the task fails.
FIX = """

Your changes are in place, but this check fails:

    {check}

The end of what it printed (all of it is in {log}):

{tail}

Fix it.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all attempts of a dispatcher have in common."""

    manager: LockManager
    root: str
    environment: Mapping[str, str]
    #: What an agent may write outside the repository.
    write: tuple[str, ...]
    #: Real paths that no task may write.
    closed: tuple[str, ...]
    agent_of: Callable[[Task], Agent]
    pause_seconds: float = PAUSE_SECONDS


class Attempt:
    """One attempt, in the thread of its item."""

    def __init__(
        self,
        setting: Setting,
        item: WorkItem,
        record: TaskRecord,
        host: Any,
        move: Callable[..., TaskRecord],
        run: Run,
    ) -> None:
        """`host` runs commands under the item's locks. `move` changes the state of the record.
        `run` is the folder of this attempt."""
        self._setting = setting
        self._item = item
        self._record = record
        self._task = record.task
        self._host = host
        self._move = move
        self._run = run
        self._worked = self._waited = 0.0
        #: The time limit of each command, in seconds.
        self._limit = record.task.timeout_seconds or TIMEOUT_SECONDS

    @property
    def is_held(self) -> IsHeld:
        """Whether the task still holds a key."""
        return is_held_by(self._setting.manager, self._item.id)

    def work(self) -> dict[str, Any]:
        """Run the agent and the check, until the check succeeds; what is known of the attempt then.
        Raises Again or Failed."""
        try:
            self._run.begin()
            self._judge(self._agent(self._task.prompt + NOTE), "the agent", self._log(AGENT_LOG, 0))
            self._checked()
            files = changed_files(self._run, self.is_held)
        except KeepsakeError as error:
            raise self._failed(f"{error.code}: {error.message}") from error
        write_patch(self._run)
        return {"files": files, **self._times()}

    # The check

    def _checked(self) -> None:
        round = 0
        while self._task.check:
            cause = task_states.FIXED if round else task_states.AGENT_ENDED
            self._move(cause, round=round)
            ended = self._command(
                ["/bin/sh", "-c", self._task.check], self._log(CHECK_LOG, round), ""
            )
            log = self._log(CHECK_LOG, round)
            if ended.is_well:
                return
            if round >= self._task.rounds or ended.why:
                self._judge(ended, "the check", log, is_final=True)
            round += 1
            self._move(task_states.CHECK_FAILED, round=round)
            told = FIX.format(
                check=self._task.check, log=self._shown(log), tail="\n".join(tail_of(log))
            )
            fixed = self._agent(self._task.prompt + told + NOTE, round)
            self._judge(fixed, "the agent", self._log(AGENT_LOG, round))

    # Commands

    def _agent(self, prompt: str, round: int = 0) -> Ended:
        agent = self._setting.agent_of(self._task)
        log = self._log(AGENT_LOG, round)
        try:
            words = agent.words(self._task.name, prompt)
        except HoldfastError as error:
            raise self._failed(f"{error.code}: {error.message}") from error
        typed = prompt if agent.stdin else ""
        if self._task.timeout_seconds is None:  # the list does not set it
            self._limit = agent.timeout_seconds or TIMEOUT_SECONDS
        return self._command(words, log, typed, agent.environment, agent.writes)

    def _command(
        self,
        words: list[str],
        log: str,
        typed: str,
        variables: Mapping[str, str] | None = None,
        writes: tuple[str, ...] = (),
    ) -> Ended:
        setting = self._setting
        environment = {**setting.environment, **(variables or {}), "HOLDFAST_TASK": self._task.name}
        try:
            ended: Ended = self._host.run(
                self._item, words, folder=setting.root, environment=environment, stdin=typed,
                output=log, write=(*setting.write, *writes),
                timeout_seconds=self._limit,
                lease={"declared": self._task.writes is not None, "closed": list(setting.closed)},
            )  # fmt: skip
        except HoldfastError as error:
            if str(error.fields.get("cause", error.code)).startswith(StoreError.code):
                self._once_more(f"the ledger failed: {error.message}", log)
            missing = f"{plain(words[0])} could not be started: {error.message}"
            raise self._failed(missing, log) from error
        self._worked += ended.seconds - ended.waited_seconds
        self._waited += ended.waited_seconds
        return ended

    def _log(self, name: str, round: int) -> str:
        """The file for a command's output. Every attempt has its own."""
        attempt = self._record.tries
        return self._run.log(name if attempt < 2 else f"{name}.try{attempt}", round)

    def _shown(self, path: str) -> str:
        return os.path.relpath(path, self._setting.root)

    # What an end means

    def _judge(self, ended: Ended, what: str, log: str, *, is_final: bool = False) -> None:
        """Return, or raise what becomes of the attempt. `log` has the output."""
        if ended.is_well:
            return
        if ended.why.startswith(DEADLOCK):
            circle = self._with_names(ended.why.partition(": ")[2])
            raise self._again_with_files(f"it yielded to an older task: {circle}", ended)
        if ended.why == "halted":
            raise Again("its dispatcher was told to stop", counts=False, data=self._told(""))
        reason = self._sentence(ended, what, log)
        if ended.is_stale and self._has_grown(ended.wanted):
            raise self._again_with_files(f"{reason}, after another task had changed a file", ended)
        if is_final or ended.why:
            raise self._failed(reason, log, ended)
        self._once_more(reason, log, ended)

    def _with_names(self, circle: str) -> str:
        """A deadlock with the names of tasks; a holder of locks has the id of its task's item."""
        known = transactions.look(self._setting.manager, task_records.tasks_in)
        names = {one.item: one.name for one in known if one.item}
        return re.sub(r"[^\s(),]+", lambda word: names.get(word[0], word[0]), circle)

    def _once_more(self, reason: str, log: str, ended: Ended | None = None) -> NoReturn:
        """Another attempt after a pause, if one is left. Attempts that had to yield, or whose
        dispatcher ended, do not count."""
        failures = self._record.failures + 1
        if failures >= self._task.tries:
            more = f" ({failures} attempts)" if failures > 1 else ""
            raise self._failed(f"{reason}{more}", log, ended)
        pause = min(self._setting.pause_seconds * 4 ** (failures - 1), PAUSE_SECONDS_MAX)
        data = {**self._told(log, ended), "failures": failures}
        raise Again(reason, data=data, counts=False, pause_seconds=pause)

    def _sentence(self, ended: Ended, what: str, log: str) -> str:
        if ended.why == "timeout":
            return f"{what} was ended after {self._limit:g} s"
        if ended.why:
            return f"{what} was ended: {ended.why}"
        if ended.code < 0:
            return f"{what} was killed by signal {-ended.code}"
        missing = _missing_command(log) if ended.code == NOT_FOUND else ""
        return f"{what} failed with code {ended.code}{f': {missing}' if missing else ''}"

    def _again_with_files(self, reason: str, ended: Ended) -> Again:
        """Start again with every file that is known to be needed."""
        needs = self._needs(ended.wanted)
        request = request_of(self._task, self._record.list, needs)
        data = {"needs": list(needs), **self._told("")}
        return Again(reason, request=request, data=data, counts=False)

    def _needs(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """The files that this attempt has written, or was about to write."""
        found = [*self._record.needs, *changed_files(self._run, self.is_held), *wanted]
        root = self._setting.root
        return tuple(dict.fromkeys(
            path for path in found if not os.path.isdir(os.path.join(root, path))
        ))  # fmt: skip

    def _has_grown(self, wanted: tuple[str, ...]) -> bool:
        """Whether the next attempt would take more files at its start than this one did."""
        with suppress(KeepsakeError):
            return set(self._needs(wanted)) > set(self._record.needs)
        return False

    def _failed(self, reason: str, log: str = "", ended: Ended | None = None) -> Failed:
        return Failed(reason, self._told(log, ended))

    def _told(self, log: str, ended: Ended | None = None) -> dict[str, Any]:
        """The report on a failed attempt, for people."""
        said = tail_of(log) if log else []
        if ended is not None:
            said += [f"holdfast: {plain(one)}" for one in ended.refused]
        shown = self._shown(log) if log else ""
        return {"tail": said[-TAIL_LINES:], "log": shown, **self._times()}

    def _times(self) -> dict[str, int]:
        """How long it worked and waited, added to earlier attempts."""
        had = self._record
        return {
            "worked": had.worked_microseconds + round(self._worked * 1_000_000),
            "waited": had.waited_microseconds + round(self._waited * 1_000_000),
        }


def request_of(task: Task, list: str, needs: tuple[str, ...] = ()) -> LockRequest:
    """What a task takes at its start: its own name, what it declares, and the files that it is
    known to write."""
    writes = task.writes if task.writes is not None else needs
    return LockRequest.of(task.reads, (anchor(task, list), *task.locks, *writes))


def anchor(task: Task, list: str) -> str:
    """A resource that stands for the task itself, so that it always holds something."""
    from hashlib import sha256

    letters = "".join(one if one.isascii() and one.isalnum() else "-" for one in task.name)
    digest = sha256(f"{list}\0{task.name}".encode("utf-8", "surrogateescape")).hexdigest()[:6]
    return f"task:{letters.strip('-')[:40] or 'task'}-{digest}"


def _missing_command(log: str) -> str:
    """What a shell printed about a command that it did not find."""
    said = [line for line in tail_of(log) if "not found" in line or "No such file" in line]
    return said[-1] if said else ""


def tail_of(log: str) -> list[str]:
    """The last lines of a command's output, in readable form."""
    try:
        with open(log, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = [plain(line.rstrip())[:_LINE_CHARACTERS_MAX] for line in text.splitlines()]
    return [line for line in lines if line][-TAIL_LINES:]
