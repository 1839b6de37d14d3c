"""Twenty tasks whose agents do not know their files in advance: each is done exactly once, whatever
happens."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY
from helpers_task_fights import (
    WORDS,
    Arena,
    arena,
    kill_at_random_moments,
    until_no_process_is_left,
)
from helpers_task_scripts import CIRCLE, JOURNAL, SHARED
from helpers_task_witness import (
    demand_all_done_once,
    demand_marks_of,
    demand_nothing_left,
    demand_one_commit_each,
    demand_ticks,
    mounted,
)
from holdfast.work.tasks import task_states
from lengths import length

pytestmark = LINUX_ONLY
#: After this many kills a list may finish, and the next one is started.
KILLS_IN_ONE = 13


def fight(folder: Path, kills: int, *, seed: int, **options: bool) -> Iterator[Arena]:
    """Run lists until there were this many kills altogether; every list must be done in spite of
    them."""
    dice = random.Random(seed)
    number = 0
    while kills > 0:
        number += 1
        with arena(folder / str(number), **options) as made:
            kills -= kill_at_random_moments(made, min(kills, KILLS_IN_ONE), dice)
            demand_all_done_once(made)
            yield made


def test_twenty_tasks_that_collide_are_all_done_once(tmp_path: Path) -> None:
    with arena(tmp_path) as made:
        made.start()
        made.finish()
        demand_all_done_once(made)
        yielded = "it yielded to an older task"
        assert yielded in made.said.read_text(), (
            "there was never a deadlock, so this proves nothing"
        )


def test_after_fifty_kills_every_task_is_done_once(tmp_path: Path) -> None:
    orphans = 0
    for made in fight(tmp_path, length(400, sample=50), seed=1):
        orphans += made.orphans()
    assert orphans, "no orphan ever wrote anything, so this proves nothing"


def test_after_kills_there_is_one_commit_for_each_task(tmp_path: Path) -> None:
    for made in fight(tmp_path, length(200, sample=20), seed=2, commit=True):
        demand_one_commit_each(made, set(made.names))


def test_after_kills_a_checklist_has_a_tick_for_each_task(tmp_path: Path) -> None:
    for made in fight(tmp_path, length(100, sample=8), seed=3, checklist=True):
        demand_ticks(made, set(made.names))


# Checks that fail


def test_a_check_that_always_fails_stops_its_task_and_what_comes_after_it(tmp_path: Path) -> None:
    words = {**WORDS, "task-07": "hopeless"}
    terms: dict[str, dict[str, Any]] = {
        "task-07": {"rounds": 1}, "task-10": {"after": ["task-07"]},
        "task-11": {"after": ["task-10"]}, "task-20": {"after": ["task-03"]},
    }  # fmt: skip
    with arena(tmp_path, words=words, terms=terms) as made:
        assert made.ended(made.start()) == 1
        found = made.states()
        done = set(made.names) - {"task-07", "task-10", "task-11"}
        assert {name for name, one in found.items() if one.state == task_states.DONE} == done
        assert found["task-07"].reason == "the check failed with code 1"
        assert any("SyntaxError" in line for line in found["task-07"].tail)
        assert found["task-10"].reason == "it comes after task-07, which failed"
        assert found["task-11"].reason == "it comes after task-10, which was skipped"
        assert (found["task-04"].round, found["task-19"].round) == (1, 1)
        demand_marks_of(made, done)
        demand_nothing_left(made)
        made.words = WORDS
        made.make_list(terms)
        assert made.ended(made.start(made.list, "--retry-failed")) == 0
        demand_all_done_once(made)


# A full disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if why := mounted(str(folder), "16m"):
        pytest.skip(why)
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def keep_full(disk: Path, seconds: float) -> None:
    """Leave no room on the disk for this long, even when other processes free some."""
    ballast = disk / "ballast"
    end = time.monotonic() + seconds
    with ballast.open("wb", buffering=0) as file:
        while time.monotonic() < end:
            with suppress(OSError):
                while file.write(bytes(65536)) == 65536:
                    pass
                while file.write(bytes(512)) == 512:
                    pass
            time.sleep(0.002)
    ballast.unlink()


@pytest.mark.parametrize("commit", [False, True])
def test_a_disk_that_is_full_now_and_then_leaves_nothing_half_done(
    tmp_path: Path, disk: Path, commit: bool
) -> None:
    dice = random.Random(4)
    with arena(tmp_path, root=disk / "repository", commit=commit) as made:
        for _ in range(length(10, sample=2)):
            one = made.start(made.list, "--retry-failed")
            for _ in range(5):
                head = made.head() + dice.randint(5, 60)
                while one.poll() is None and not made.is_done() and made.head() < head:
                    made.manager.store.wait(made.head(), 0.02)
                keep_full(disk, dice.uniform(0.1, 1.0))
            made.ended(one)
            demand_nothing_half_done(made)
        for _ in range(3):
            if made.ended(made.start(made.list, "--retry-failed")) == 0:
                break
        assert ran_out_of_room(made), "nothing ever ran out of room, so this proves nothing"
        demand_all_done_once(made)
        if commit:
            demand_one_commit_each(made, set(made.names))


def ran_out_of_room(made: Arena) -> bool:
    """Whether a dispatcher or an agent reports a full disk."""
    told = [made.said, *(made.root / ".holdfast/runs").glob("*/*.log")]
    return any(
        words in one.read_text() for one in told for words in ("no space left", "No space left")
    )


def demand_nothing_half_done(made: Arena) -> None:
    """Check that another holder that requests all files gets them as the finished tasks left them,
    and that every unfinished task has its reason."""
    until_no_process_is_left(made)
    own = [
        path for name in made.names for path in (f"todo/{name}.txt", f"shop/parts/{name}/part.py")
    ]
    wanted = [*SHARED, *CIRCLE, JOURNAL, *own]
    with made.manager.hold(holder="ann", write_paths=wanted, timeout=30):
        found = made.states()
        done = {
            name
            for name, one in found.items()
            if one.state in (task_states.DONE, task_states.LANDING)
        }
        demand_marks_of(made, done)
    for one in found.values():
        assert one.state != task_states.FAILED or one.reason, one
    assert "Traceback" not in made.said.read_text(), made.told()
