"""How far a list of tasks is: counts, elapsed time, a forecast, and who waits for whom.

Pure: everything is computed from the records of one moment, so all figures of one `Progress` agree.
Whether a process is dead is asked through a function that the caller can replace.

The forecast is an estimate, not a promise. It assumes that each remaining task takes as long as the
mean of the finished ones, that all slots are used, and that no task waits for a file of another. A
decision of a person cannot be forecast, so a list that waits only for decisions has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from holdfast.core.model import SECOND
from holdfast.work import abandoned_work
from holdfast.work.tasks import task_states
from holdfast.work.tasks.task_records import ListRecord, TaskRecord

if TYPE_CHECKING:
    from holdfast.work.abandoned_work import IsDead


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a list is. Times are microseconds. `left` is the forecast until the last task ends,
    None if it cannot be known. `is_abandoned` is whether there is work left and every dispatcher of
    the list is proven dead: then `command` is what a person types to continue."""

    name: str
    counts: Mapping[str, int]
    elapsed: int
    left: int | None
    is_abandoned: bool
    command: str

    @property
    def total(self) -> int:
        """How many tasks the list has."""
        return sum(self.counts.values())

    @property
    def done(self) -> int:
        """How many of them are done."""
        return self.counts.get(task_states.DONE, 0)

    @property
    def is_over(self) -> bool:
        """Whether no task of it will change by itself."""
        return all(state in task_states.OVER for state in self.counts)

    def to_data(self) -> dict[str, Any]:
        """For `--json`, and for the page."""
        return {
            "name": self.name, "total": self.total, "done": self.done, "counts": dict(self.counts),
            "is_over": self.is_over, "elapsed_seconds": self.elapsed / SECOND,
            "left_seconds": None if self.left is None else self.left / SECOND,
            "is_abandoned": self.is_abandoned, "command": self.command,
        }  # fmt: skip


def progress_of(
    tasklist: ListRecord,
    known: Iterable[TaskRecord],
    now: int,
    is_dead: IsDead,
) -> Progress:
    """How far a list is at one moment. Only the records of its present tasks count."""
    tasks = tasks_of(tasklist, known)
    abandoned = is_abandoned(tasklist, tasks, is_dead)
    return Progress(
        tasklist.name, Counter(one.state for one in tasks),
        elapsed(tasklist, tasks, now, is_at_work=not abandoned),
        None if abandoned else forecast(tasks, tasklist.slots, now), abandoned, tasklist.command,
    )  # fmt: skip


def tasks_of(tasklist: ListRecord, known: Iterable[TaskRecord]) -> list[TaskRecord]:
    """The present tasks of a list, in its order, without tasks that were removed from it."""
    found = {one.name: one for one in known if one.list == tasklist.name}
    return [found[name] for name in tasklist.tasks if name in found]


def is_abandoned(tasklist: ListRecord, tasks: Iterable[TaskRecord], is_dead: IsDead) -> bool:
    """Whether there is work left, and every dispatcher of the list is proven dead."""
    if all(one.is_over for one in tasks):
        return False
    return abandoned_work.is_abandoned(tasklist.dispatchers, is_dead=is_dead)


def elapsed(
    tasklist: ListRecord, tasks: Sequence[TaskRecord], now: int, *, is_at_work: bool = True
) -> int:
    """How long a list has been worked on since it was last started: until its last task ended; or
    until now; or until the last sign of life, if no dispatcher is running."""
    signs = [moment for one in tasks for moment in (one.began, one.ended)]
    if is_at_work and not all(one.is_over for one in tasks):
        signs.append(now)
    return max(0, max(signs, default=0) - tasklist.began)


# The forecast


def forecast(tasks: Sequence[TaskRecord], slots: int, now: int) -> int | None:
    """How long until the last task ends, apart from decisions of people. None if no task is done
    yet, if nothing is left, or if all remaining tasks have taken longer than the mean."""
    usual = mean_time(tasks)
    names = {one.name for one in tasks}
    waits = {
        one.name: [name for name in one.task.after if name in names] for one in _unstarted(tasks)
    }
    out = {one.name: max(0, usual - (now - one.began)) for one in tasks if one.state in _RUNNING}
    is_over = {one.name for one in tasks if one.is_over}
    if not usual or not (any(out.values()) or waits):
        return None
    end = _end_of_work(waits, out, is_over, max(1, slots), usual)
    return end or None


def mean_time(tasks: Iterable[TaskRecord]) -> int:
    """How long a finished task has taken on average, in all its attempts; 0 if none is done."""
    times = [_time_of(one) for one in tasks if one.state == task_states.DONE]
    return sum(times) // len(times) if times else 0


_RUNNING = (*task_states.OUT, task_states.LANDING)


def _unstarted(tasks: Iterable[TaskRecord]) -> list[TaskRecord]:
    return [one for one in tasks if one.state in (task_states.WAITING, task_states.QUEUED)]


def _time_of(record: TaskRecord) -> int:
    """Without the pauses between attempts, and without the time of people's decisions."""
    measured = record.worked_microseconds + record.waited_microseconds
    return measured or max(0, record.ended - record.began)


def _end_of_work(
    waits: Mapping[str, Sequence[str]],
    out: Mapping[str, int],
    is_over: set[str],
    slots: int,
    usual: int,
) -> int:
    """When the last of them ends, if each that has not started takes the usual time and starts as
    soon as a slot is free and every task that it comes after has ended."""
    blocked = {name: {one for one in before if one not in is_over}
               for name, before in waits.items()}  # fmt: skip
    followers: dict[str, list[str]] = {}
    for name, before in blocked.items():
        for one in before:
            followers.setdefault(one, []).append(name)
    ready = [name for name, before in blocked.items() if not before]
    ends: list[tuple[int, str]] = []
    for name, time in out.items():
        heappush(ends, (time, name))
    now = 0
    while True:
        while ready and len(ends) < slots:
            heappush(ends, (now + usual, ready.pop(0)))
        if not ends:
            return now  # the rest comes after a task in review
        now, ended = heappop(ends)
        for name in followers.get(ended, ()):
            blocked[name].discard(ended)
            if not blocked[name]:
                ready.append(name)


# Who waits for whom


@dataclass(frozen=True, slots=True)
class Wait:
    """A task, or another holder, that waits for another one. `what` is the file or the lock; empty
    if the waiting task comes after the other."""

    who: str
    whom: str
    what: str = ""


def waits_after(tasks: Iterable[TaskRecord]) -> list[Wait]:
    """Which tasks wait for one that they come after: the first that is not done."""
    known = {one.name: one for one in tasks}
    found = []
    for record in known.values():
        before = [known[name] for name in record.task.after if name in known]
        missing = [one.name for one in before if one.state != task_states.DONE]
        if record.state == task_states.WAITING and missing:
            found.append(Wait(record.name, missing[0]))
    return found


def chain(who: str, waits: Iterable[Wait]) -> tuple[Wait, ...]:
    """One wait after the other, from `who` to the one that waits for none; a cycle ends where it
    closes."""
    return chain_in(who, first_waits(waits))


def first_waits(waits: Iterable[Wait]) -> dict[str, Wait]:
    """The first wait of each, to look up many chains."""
    first: dict[str, Wait] = {}
    for one in waits:
        first.setdefault(one.who, one)
    return first


def chain_in(who: str, first: Mapping[str, Wait]) -> tuple[Wait, ...]:
    """The chain of one, among the first waits of all."""
    found: dict[str, Wait] = {}
    while who in first and who not in found:
        found[who] = first[who]
        who = first[who].whom
    return tuple(found.values())


def chain_sentence(links: Sequence[Wait]) -> str:
    """A chain in words: `waits for b (a.txt), which waits for c`."""
    said = [f"waits for {one.whom}{f' ({one.what})' if one.what else ''}" for one in links]
    return ", which ".join(said)
