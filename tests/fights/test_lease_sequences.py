"""Random sequences of file calls below `run --lease`: each call returns what it does without us.

The same sequences (see `lease_player`) are played twice in the same place, once plainly and once
below the command. The results, the open descriptors at the end and the contents of the folders must
be equal.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import lease_player
from helpers_cli import COMMAND, environment
from helpers_sandbox import NEEDS_LANDLOCK, without_call
from lease_calls import NUMBERS
from lease_tree import picture
from lengths import length

pytestmark = [
    NEEDS_LANDLOCK,
    pytest.mark.skipif(
        sys.platform != "linux" or os.uname().machine != "x86_64",
        reason="the calls are made by their numbers on x86_64",
    ),
]

LEASED = [*COMMAND, "run", "--lease", "--"]
#: How many sequences one process plays.
BATCH = 250
#: The limit for one process. It is long because no test here is about time.
PATIENCE_SECONDS = 600

Played = dict[int, tuple[dict[str, Any], object]]


class Place:
    """Where the sequences are played, below which command, and how many files were leased."""

    def __init__(self, folder: Path, below: Sequence[str] = ()) -> None:
        self.folder = folder
        self.root = folder / "repo"
        self.below = below
        #: Files that were leased, over all runs.
        self.leases = 0

    def do(self, line: Sequence[object]) -> str:
        """Run a command, which must succeed; its output."""
        env = environment(HOME=str(self.folder), XDG_CONFIG_HOME=str(self.folder / "config"))
        env["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run(
            [*self.below, *map(str, line)], cwd=self.root if self.root.exists() else self.folder,
            env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, (line, done.returncode, done.stdout[-2000:], done.stderr)
        said: str = done.stdout
        return said

    def play(self, prefix: list[str], seeds: range, *more: object) -> Played:
        """Play some sequences in a new repository; the result of each, and the files at the end."""
        player = [sys.executable, lease_player.__file__, self.root, seeds.start, len(seeds)]
        self.do(["git", "init", "--quiet", self.root])
        try:
            self.do([*player, "--prepare"])
            lines = self.do([*prefix, *player, *more]).splitlines()
            if prefix == LEASED:
                log = self.do([*COMMAND, "log", "--json"]).splitlines()
                self.leases += sum(json.loads(line)["type"] == "lock_acquired" for line in log)
            told = {one["seed"]: one for one in map(json.loads, lines)}
            assert [*told] == [*seeds]
            trees = {seed: os.fsencode(self.root) + b"/s%d" % seed for seed in seeds}
            return {seed: (told[seed], picture(trees[seed])) for seed in seeds}
        finally:
            shutil.rmtree(self.root)

    def compare(self, prefix: list[str], seeds: range, *more: object) -> None:
        """Fail with the first sequence that differs, and the shortest part of it that does."""
        plainly, below = self.play([], seeds, *more), self.play(prefix, seeds, *more)
        for seed in seeds:
            if plainly[seed] != below[seed]:
                pytest.fail(self._shortest(prefix, seed, more, (plainly[seed], below[seed])))

    def _shortest(
        self, prefix: list[str], seed: int, more: tuple[object, ...], found: tuple[Any, Any]
    ) -> str:
        alone = range(seed, seed + 1)
        for calls in range(len(found[0][0]["calls"]) + 1):
            short = [self.play(line, alone, "--calls", calls, *more)[seed] for line in ([], prefix)]
            if short[0] != short[1]:
                return f"seed {seed}, {calls} calls, {more}:\n{_difference(*short)}"
        return f"seed {seed}, not when it is played alone, {more}:\n{_difference(*found)}"


def _difference(plainly: Any, below: Any) -> str:
    lines = []
    for (name, arguments, result), other in zip(
        plainly[0]["calls"], below[0]["calls"], strict=False
    ):
        line = f"{name}({', '.join(arguments)}) = {_named(result)}"
        if [name, arguments, result] != other:
            lines.append(f"{line}, but below the command {_named(other[2])}")
            break
        lines.append(line)
    for told, one, two in (
        ("open", plainly[0]["open"], below[0]["open"]), ("tree", plainly[1], below[1])
    ):  # fmt: skip
        lines += [f"{told} plainly: {part}" for part in one if part not in two]
        lines += [f"{told} below:   {part}" for part in two if part not in one]
    return "\n".join(lines)


def _named(result: int) -> str:
    return errno.errorcode.get(-result, str(result)) if result < 0 else str(result)


@pytest.fixture
def place() -> Iterator[Place]:
    # Not in this test's folder, whose path is too long for tests near the limit of 4096 bytes.
    with tempfile.TemporaryDirectory(prefix="hf") as folder:
        yield Place(Path(folder))


@pytest.fixture
def modest_place(place: Place) -> Place:
    """The same for a user whom file modes restrict."""
    if os.geteuid() == 0:
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("needs setpriv, to give up what root may do")
        place.below = [setpriv, "--bounding-set=-all", "--inh-caps=-all"]
    return place


def batches(count: int) -> Iterator[range]:
    """Seeds that are new in every run, in ranges for one process each."""
    first = random.randrange(1 << 40)
    print(f"seeds from {first}")
    for at in range(first, first + count, BATCH):
        yield range(at, min(at + BATCH, first + count))


def test_every_call_answers_as_it_does_without_us(place: Place) -> None:
    for seeds in batches(length(10_000, sample=300)):
        place.compare(LEASED, seeds)
    assert place.leases > length(10_000, sample=300), (
        "too few files were leased: there should be several for each sequence"
    )


def test_the_same_for_a_user_who_may_not_do_everything(modest_place: Place) -> None:
    for seeds in batches(length(4_000, sample=150)):
        modest_place.compare(LEASED, seeds)
    assert modest_place.leases > length(4_000, sample=150)


def test_the_same_for_threads_with_folders_masks_and_descriptors_of_their_own(place: Place) -> None:
    for seeds in batches(length(2_000, sample=100)):
        place.compare(LEASED, seeds, "--threads", 4)
    assert place.leases > length(2_000, sample=100)


def test_a_call_that_answers_differently_is_found_and_shown(place: Place) -> None:
    # Else the tests above would prove nothing.
    mkdir = NUMBERS["mkdir"]
    with pytest.raises(pytest.fail.Exception) as told:
        place.compare(without_call(mkdir, errno.EDQUOT), range(100))
    last = [line for line in str(told.value).splitlines() if "below the command" in line]
    assert len(last) == 1
    assert last[0].startswith("mkdir(")
    assert "EDQUOT" in last[0]
