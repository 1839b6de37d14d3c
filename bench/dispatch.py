"""A thousand agents of a tenth of a second on eight slots, each a process in its own sandbox: as
items that know their files, and as tasks, whose files are leased at the write.

No dispatcher can finish before all work divided by the slots, nor before the serial work on the
most wanted file. Measured are how close this one comes to that bound, the time from a release to
the next agent, and the cost of one dispatch while many items wait.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import locks
from bench.harness import Row, at_most, compare, in_turns, percentile
from bench.task_lists import Checkout
from holdfast.core.model import SECOND
from holdfast.manager.grants import LockGrant
from holdfast.manager.manager import LockManager
from holdfast.work.engine.scheduler import Scheduler
from holdfast.work.engine.work_items import LockRequest, Order, WorkItem
from holdfast.work.launching.slots import Launcher, Launchers
from holdfast.work.tasks.lists.task import Task

SLOTS = 8
WORK_SECONDS = 0.1
END_SECONDS = 600.0
#: What is held while others wait, and how many may be queued in one step.
HOT = "app/hot.rb"
BATCH = 1000
FEW, MANY = "few wait", "many wait"


def lock_sets(count: int, seed: int = 8) -> list[LockRequest]:
    """The requests of so many items, always the same: one or two files to write and up to three to
    read, of half as many files as items. Some files are wanted ten times as often as most."""
    dice = random.Random(seed)
    files = [f"app/part{number % 20}/file{number}.rb" for number in range(max(20, count // 2))]
    weights = [1 / (1 + number) ** 0.35 for number in range(len(files))]
    found = []
    for _ in range(count):
        named = dice.choices(files, weights, k=dice.choice((1, 1, 2)) + dice.randint(0, 3))
        paths = list(dict.fromkeys(named))
        writes = dice.randint(1, min(2, len(paths)))
        found.append(LockRequest.of(paths[writes:], paths[:writes]))
    return found


def heaviest(requests: Sequence[LockRequest]) -> tuple[str, int]:
    """The file that most items want to write, and how many of them do."""
    return Counter(path for one in requests for path in one.write_paths).most_common(1)[0]


def contention(requests: Sequence[LockRequest]) -> str:
    """The contention of these requests, in words."""
    writers: dict[str, set[int]] = {}
    readers: dict[str, set[int]] = {}
    for number, one in enumerate(requests):
        for path in one.write_paths:
            writers.setdefault(path, set()).add(number)
        for path in one.read_paths:
            readers.setdefault(path, set()).add(number)
    apart = {
        (min(one, other), max(one, other))
        for path, wanting in writers.items()
        for one in wanting
        for other in wanting | readers.get(path, set())
        if one != other
    }
    pairs = len(requests) * (len(requests) - 1) // 2
    file, count = heaviest(requests)
    return f"{len(apart) / pairs:.2%} of all pairs exclude each other; {count} write {file}"


class Shop:
    """A repository with a scheduler whose items are real processes, each in its sandbox."""

    def __init__(self, folder: Path, slots: int, command: Sequence[str]) -> None:
        self.root = locks.repository(folder)
        self.manager = LockManager.open(self.root)
        self.launchers = Launchers(self.manager, slots)
        self.launchers.warm(slots)
        self.scheduler = Scheduler(lock_manager=self.manager, slots=slots, host=self.launchers.lend)
        self.command = list(command)
        self.scheduler.handle("apply", self._work)
        # The launchers are Python processes, whose start is not measured here.
        self.run([LockRequest.of((), [f"first/{number}.rb"]) for number in range(slots)])
        self._first = slots

    def _work(self, item: WorkItem, grant: LockGrant) -> dict[str, Any]:
        host = self.scheduler.host_of(item)
        assert isinstance(host, Launcher)
        ended = host.run(
            item, self.command, folder=str(self.root), environment=dict(os.environ), write=(),
            output=f"{self.root}/.holdfast/runs/{item.id}/apply.log",
        )  # fmt: skip
        assert ended.is_well, ended
        return {"seconds": ended.seconds}

    def run(self, requests: Sequence[LockRequest]) -> None:
        """Run all items, from the first to the last."""
        for path in {path for one in requests for path in one.write_paths}:
            Path(self.root, path).parent.mkdir(parents=True, exist_ok=True)
            Path(self.root, path).touch()
        orders = [Order(f"item/{n}", "apply", one) for n, one in enumerate(requests)]
        for first in range(0, len(orders), BATCH):
            self.scheduler.enqueue_all(orders[first : first + BATCH])
        self.scheduler.start()
        assert self.scheduler.wait_until_idle(END_SECONDS), "it does not come to an end"
        assert not self.scheduler.error, self.scheduler.error

    def times(self) -> tuple[list[int], list[int]]:
        """The moments at which items were dispatched and ended, in microseconds, without the first
        ones."""
        sent, ended = [], []
        for event in self.manager.events():
            if event.type == "work_dispatched":
                sent.append(event.at)
            elif event.type == "work_ended":
                assert event.data["status"] == "completed", event.data["reason"]
                ended.append(event.at)
        return sent[self._first :], ended[self._first :]

    def close(self) -> None:
        self.scheduler.stop()
        self.launchers.close()
        self.manager.close()


def run(scratch: Path, quick: bool) -> list[Row]:
    return [
        *_whole(scratch, *((160, 1) if quick else (1000, 3))),
        *_tasks(scratch, *((160, 1) if quick else (1000, 3))),
        _handover(scratch / "chain", 20 if quick else 100),
        _cost(scratch, 1_000 if quick else 10_000, 3 if quick else 7),
    ]


def _whole(scratch: Path, count: int, rounds: int) -> list[Row]:
    """The best of some runs: the bound is computed, so other load only adds to our figure."""
    requests = lock_sets(count)
    _file, writers = heaviest(requests)
    bound = max(count / SLOTS, writers) * WORK_SECONDS
    found = sorted(_all_of(scratch / f"whole{number}", requests) for number in range(rounds))
    total, own = found[0]
    others = ", ".join(f"{one / bound:.2f}" for one, _own in found[1:])
    what = f"{count} sandboxed agents of {WORK_SECONDS * 1000:.0f} ms on {SLOTS} slots"
    note = contention(requests) + (f"; the other runs: {others}" if others else "")
    return [
        Row(
            what, "s", total, "no dispatcher is quicker than", bound, total / bound, at_most(1.15),
            note,
        ),
        Row("processor time of the scheduler for one of them", "ms", own / count * 1000),
    ]  # fmt: skip


def _all_of(folder: Path, requests: Sequence[LockRequest]) -> tuple[float, float]:
    """How long all of them take, and the scheduler's own processor time."""
    shop = Shop(folder, SLOTS, ["sleep", str(WORK_SECONDS)])
    before = time.process_time()
    try:
        shop.run(requests)
        own = time.process_time() - before
        sent, ended = shop.times()
    finally:
        shop.close()
    assert (len(sent), len(ended)) == (len(requests), len(requests))
    return (max(ended) - min(sent)) / SECOND, own


def _tasks(scratch: Path, count: int, rounds: int) -> list[Row]:
    """The same for a list of tasks: each agent below a broker, each state of its task recorded. The
    best of some runs here too."""
    bound = count * WORK_SECONDS / SLOTS
    tasks = [Task(f"task {n}", "-", command=("sleep", str(WORK_SECONDS))) for n in range(count)]
    runs = [Checkout(scratch / f"tasks{number}").run(tasks, SLOTS) for number in range(rounds)]
    found = sorted(run.seconds for run in runs)
    own = min(run.own_seconds for run in runs)
    what = f"{count} tasks of {WORK_SECONDS * 1000:.0f} ms below a broker on {SLOTS} slots"
    others = ", ".join(f"{one / bound:.2f}" for one in found[1:])
    note = f"the other runs: {others}" if others else ""
    return [
        Row(
            what, "s", found[0], "no dispatcher is quicker than", bound, found[0] / bound,
            at_most(1.15), note,
        ),
        Row("processor time of the dispatcher for one of them", "ms", own / count * 1000),
    ]  # fmt: skip


def _handover(folder: Path, count: int) -> Row:
    """Items that all want one file: when one ends, the next is dispatched."""
    shop = Shop(folder, 2, ["true"])
    try:
        shop.run([LockRequest.of((), [HOT])] * count)
        sent, ended = shop.times()
    finally:
        shop.close()
    gaps = [(begin - end) / 1000 for end, begin in zip(ended[:-1], sent[1:], strict=True)]
    note = f"worst of {len(gaps)}: {max(gaps):.1f} ms"
    limit = at_most(10, "ours")
    return Row("release to next dispatch, p50", "ms", percentile(gaps, 50), target=limit, note=note)


def _cost(scratch: Path, many: int, rounds: int) -> Row:
    """The processor time of one item, dispatched and ended, while others wait for a file."""
    lines = {FEW: Line(scratch / "few", 100), MANY: Line(scratch / "many", many)}
    try:
        samples = in_turns(lines, rounds, lambda name: lines[name].milliseconds(40))
    finally:
        for line in lines.values():
            line.close()
    what = f"one dispatch with {many:,} waiting, beside 100"
    return compare(what, "ms", samples, MANY, FEW, at_most(2.0), note="processor time")


class Line:
    """A scheduler with so many waiting items, all for files that another holder has."""

    def __init__(self, folder: Path, count: int) -> None:
        self.manager = LockManager.open(locks.repository(folder))
        held = [f"app/held{number}.rb" for number in range(max(1, count // 10))]
        self.manager.acquire(holder="another", write_paths=held)
        self.scheduler = Scheduler(lock_manager=self.manager, slots=1)
        self.scheduler.handle("apply", lambda item, grant: None)
        orders = [
            Order(f"waits/{number}", "apply", LockRequest.of((), [held[number % len(held)]]))
            for number in range(count)
        ]
        for first in range(0, count, BATCH):
            self.scheduler.enqueue_all(orders[first : first + BATCH])
        self.scheduler.start()
        end = time.monotonic() + END_SECONDS
        while not all(why for _item, why in self.scheduler.waiting_items()):
            assert time.monotonic() < end, "not all of them were tried"
            self.scheduler.wait_for_change(0.1)
        self._number = 0

    def milliseconds(self, count: int) -> float:
        """The processor time of one dispatch, with its end."""
        orders = []
        for _ in range(count):
            self._number += 1
            orders.append(Order("quick", "apply", LockRequest.of((), [f"lib/{self._number}.rb"])))
        waiting = self.scheduler.queue_depth
        before = time.process_time()
        self.scheduler.enqueue_all(orders)
        end = time.monotonic() + END_SECONDS
        while self.scheduler.queue_depth > waiting or self.scheduler.active_items:
            assert time.monotonic() < end, "they are not sent out"
            self.scheduler.wait_for_change(1.0)
        return (time.process_time() - before) / count * 1000

    def close(self) -> None:
        self.scheduler.stop()
        self.manager.close()
