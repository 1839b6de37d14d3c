"""200 tasks of which 30 % collide, on eight slots, beside the same list one after the other.

Only its agent knows which files a task writes: each is leased at the write, a call waits for a file
that another task has, and in a deadlock the youngest task is undone and repeated. All of that takes
time that serial tasks do not need. The ratio is what remains of eight slots. At the end every file
must have the line of every task that writes it, once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.dispatch import SLOTS, WORK_SECONDS
from bench.harness import Row, compare, in_turns
from bench.task_lists import Checkout, Outcome
from holdfast.work.tasks.lists.task import Task

COLLIDING = 0.3
#: So many files that others write too does each of the colliding tasks write, and there are so many
#: of these tasks for each such file.
SHARED = 2
TASKS_FOR_EACH = 12
PARALLEL, SERIAL = f"on {SLOTS} slots", "one after the other"

#: `AGENT SECONDS FILE...`: appends a line to each file, and sleeps before each. Like a client
#: that is told that a file is stale, it reads the file again, then writes it.
AGENT = """
seconds=$1; shift
for file; do
  sleep $seconds
  echo "$HOLDFAST_TASK" >> "$file" || { cat "$file"; echo "$HOLDFAST_TASK" >> "$file"; }
done
"""


def file_sets(count: int, seed: int = 18) -> list[list[str]]:
    """The files of so many tasks, always the same: each task has a file of its own, and the
    colliding ones some that others write too, in an order of their own, so that a few deadlock."""
    dice = random.Random(seed)
    colliding = set(dice.sample(range(count), round(count * COLLIDING)))
    shared = [f"shared/{n}.txt" for n in range(max(SHARED, len(colliding) // TASKS_FOR_EACH))]
    return [
        [f"own/{n}.txt", *(dice.sample(shared, SHARED) if n in colliding else ())]
        for n in range(count)
    ]


def listed(files: Sequence[Sequence[str]]) -> list[Task]:
    """A task for each set of files, whose agent works for `WORK_SECONDS`."""
    found = []
    for n, own in enumerate(files):
        seconds = f"{WORK_SECONDS / len(own):.3f}"
        found.append(Task(f"task {n}", "-", command=("sh", "-c", AGENT, "sh", seconds, *own)))
    return found


def run(scratch: Path, quick: bool) -> list[Row]:
    count, rounds = (40, 1) if quick else (200, 3)
    files = file_sets(count)
    found: dict[str, list[Outcome]] = {PARALLEL: [], SERIAL: []}

    def measure(name: str) -> float:
        checkout = Checkout(scratch / f"{name.replace(' ', '-')}-{len(found[name])}")
        for path in {path for own in files for path in own}:
            (checkout.root / path).parent.mkdir(exist_ok=True)
            (checkout.root / path).touch()
        outcome = checkout.run(listed(files), SLOTS if name == PARALLEL else 1)
        _verify(checkout, files)
        found[name].append(outcome)
        return outcome.seconds

    samples = in_turns(found, rounds, measure)
    colliding = sum(len(own) > 1 for own in files)
    what = (
        f"{count} tasks of {WORK_SECONDS * 1000:.0f} ms, {colliding} of which collide, {PARALLEL}"
    )
    return [compare(what, "s", samples, PARALLEL, SERIAL), *_troubles(found[PARALLEL])]


def _troubles(found: Sequence[Outcome]) -> list[Row]:
    """How often tasks conflicted, as the median of the rounds."""
    seconds = median(one.waited_seconds for one in found)
    return [
        Row("tasks of these that waited for a file", "", median(one.waits for one in found),
            note=f"{seconds:.1f} s in all"),
        Row("tasks that yielded in a deadlock", "", median(one.yields for one in found)),
        Row("attempts that were repeated, those included", "",
            median(one.retries for one in found)),
    ]  # fmt: skip


def _verify(checkout: Checkout, files: Sequence[Sequence[str]]) -> None:
    """Check that every file has the line of each task that writes it, once: no write was lost, and
    nothing remains of an undone attempt."""
    wanted: dict[str, Counter[str]] = {}
    for n, own in enumerate(files):
        for path in own:
            wanted.setdefault(path, Counter())[f"task {n}"] += 1
    for path, lines in wanted.items():
        found = Counter((checkout.root / path).read_text().splitlines())
        assert found == lines, f"{path} has {found}, not {lines}"
