"""Paths that change while a call is under way: held files stay unchanged."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, until
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_siege import X86_64, Siege, compiled
from lease_attacks import state
from lengths import length

pytestmark = [LINUX_ONLY, NEEDS_LANDLOCK, X86_64]

#: Calls that follow a link at the end of a path.
FOLLOWING = [
    "open", "openat", "empty", "make", "creat", "openat2", "truncate", "chmod", "fchmodat",
    "chown", "utimensat", "setxattr",
]  # fmt: skip
NAMING = ["unlink", "rename from", "rename to", "exchange", "link"]


@pytest.fixture(scope="module")
def racer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("racer"), "racer")


@pytest.fixture
def siege() -> Iterator[Siege]:
    made = Siege()
    yield made
    try:
        made.stands()
        answer = made.shell("echo served >served.txt")
        assert answer.code == 0, answer
    finally:
        made.close()


def race(siege: Siege, racer: Path, path: str, op: str) -> None:
    """Race until some calls were carried out and some were refused; fail if that never happens."""
    count = length(20_000, sample=1_500)
    for _ in range(5):
        answer = siege.run(racer, path, op, count)
        assert answer.code == 0, answer
        siege.stands()
        done, refused, _failed = map(int, answer.out.split())
        if done and refused:
            return
    pytest.fail(f"no race came about: {answer}")


@pytest.mark.parametrize("op", [*FOLLOWING, *NAMING])
def test_a_thread_that_changes_the_path(siege: Siege, racer: Path, op: str) -> None:
    race(siege, racer, "buffer", op)


def test_a_thread_that_changes_the_flags(siege: Siege, racer: Path) -> None:
    race(siege, racer, "flags", "open")


@pytest.fixture
def flipping(siege: Siege, racer: Path) -> Iterator[None]:
    """Outside the repository, where writes need no lease, a process swaps links at full speed."""
    links = {"flip": ("held.txt", "free.txt"), "turn": ("sub", "sub2")}
    running = [
        subprocess.Popen([racer, "flip", link, *targets], cwd=siege.root)
        for link, targets in links.items()
    ]
    try:
        for link in links:
            until((siege.root / link).is_symlink, "there is a link")
        yield
        assert [one.poll() for one in running] == [None, None]
    finally:
        for one in running:
            one.kill()
            one.wait()


@pytest.mark.usefixtures("flipping")
@pytest.mark.parametrize("op", FOLLOWING)
def test_a_link_that_leads_to_one_and_the_other(siege: Siege, racer: Path, op: str) -> None:
    race(siege, racer, "flip", op)


@pytest.mark.usefixtures("flipping")
@pytest.mark.parametrize("op", [*FOLLOWING, *NAMING])
def test_a_folder_that_leads_to_one_and_the_other(siege: Siege, racer: Path, op: str) -> None:
    race(siege, racer, "turn/held.txt", op)


def test_a_racer_that_is_not_held_back_changes_what_is_held(siege: Siege, racer: Path) -> None:
    # Else the tests above would prove nothing.
    assert siege.plainly(racer, "buffer", "open", 1_000_000).code == 3
    assert siege.plainly(racer, "buffer", "chmod", 1_000_000).code == 0
    found = state(siege.root)
    assert found != siege.before
    siege.before = found
