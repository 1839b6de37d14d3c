"""A list of tasks, run in a repository of its own by the dispatcher that the command uses."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.core.model import SECOND, Event
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import (
    ITEM_DISPATCHED,
    ITEM_ENDED,
    ITEM_RETRIED,
)
from holdfast.work.tasks import task_states
from holdfast.work.tasks.dispatcher import TaskDispatcher
from holdfast.work.tasks.lists.task import Task, TaskList
from holdfast.work.tasks.task_records import TaskRecord

END_SECONDS = 600.0
#: How the reason begins if a task is repeated because it was the victim of a deadlock.
YIELDED = "it yielded"
#: The names of the tasks that run before the clock starts, one on each slot.
FIRST = "first"
_IDENTITY = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a list: how long it took, and how often tasks conflicted."""

    seconds: float
    #: How many tasks had a call that waited for a file, and for how long in all.
    waits: int
    waited_seconds: float
    yields: int
    #: Attempts besides the first of each task, including those after a yield.
    retries: int
    #: The processor time of the dispatcher, without its launchers and agents.
    own_seconds: float = 0.0


class Checkout:
    """A repository in which one list is done."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        # A ledger of its own, even if there is one above the scratch folder.
        (folder / ".holdfast").mkdir(parents=True)
        (folder / "README").write_text("A repository.\n")
        for words in (("init", "-q"), ("add", "-A"), (*_IDENTITY, "commit", "-q", "-m", "first")):
            subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)

    def run(self, tasks: Sequence[Task], slots: int) -> Outcome:
        """Do all of them. The start of the launchers is not in the figure: every slot has done
        another task before these can begin."""
        first = [Task(f"{FIRST} {n}", "-", command=("sleep", "0.5")) for n in range(slots)]
        names = tuple(task.name for task in first)
        listed = TaskList("tasks.toml", (*first, *(replace(one, after=names) for one in tasks)))
        with LockManager.open(self.root) as manager:
            work = TaskDispatcher(manager, listed, slots=slots)
            work.begin(command="holdfast dispatch tasks.toml")
            before = time.process_time()
            try:
                _finish(work)
                own = time.process_time() - before
            finally:
                work.stop()
            events = [one for one in manager.events() if _is_measured(one)]
            return replace(_outcome(events, work.flow.records()[slots:]), own_seconds=own)


def _finish(work: TaskDispatcher) -> None:
    """Until all is done, as the command waits for it."""
    work.start()
    end = time.monotonic() + END_SECONDS
    while not work.is_done():
        assert time.monotonic() < end, "it does not come to an end"
        work.wait_for_change(1.0)
    assert not work.error, work.error


def _is_measured(event: Event) -> bool:
    types = (ITEM_DISPATCHED, ITEM_ENDED, ITEM_RETRIED)
    return event.type in types and not event.data["workflow"].startswith(FIRST)


def _outcome(events: Sequence[Event], found: Sequence[TaskRecord]) -> Outcome:
    for record in found:
        assert record.state == task_states.DONE, (
            record.name,
            record.state,
            record.reason,
            record.tail,
        )
    sent = [one.at for one in events if one.type == ITEM_DISPATCHED]
    ended = [one.at for one in events if one.type == ITEM_ENDED]
    assert len(ended) == len(found), "a task did not end once"
    repeated = [one.data["reason"] for one in events if one.type == ITEM_RETRIED]
    waited = [one.waited_microseconds for one in found if one.waited_microseconds]
    return Outcome(
        (max(ended) - min(sent)) / SECOND, len(waited), sum(waited) / SECOND,
        sum(why.startswith(YIELDED) for why in repeated), len(repeated),
    )  # fmt: skip
