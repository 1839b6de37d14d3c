"""Requests of many paths: the promises of 004 hold for each path and for all together."""

from __future__ import annotations

import pytest

from holdfast import LockManager
from holdfast.testing.conformance import Scene

FILES = [f"else/{number}.rb" for number in range(8)]
FOLDERS = [f"else/{number}/" for number in range(8)]


@pytest.mark.parametrize("place", [0, 3, 8])
@pytest.mark.parametrize(
    ("held", "wanted", "overlap"),
    [
        ("a.rb", "a.rb", True),
        ("a.rb", "b.rb", False),
        ("d/", "d/file.rb", True),
        ("d/", "d/deep/er/file.rb", True),
        ("d/file.rb", "d/", True),
        ("d/deep/er/file.rb", "d/", True),
        ("d/", "de/file.rb", False),
        ("de/file.rb", "d/", False),
        ("d/e/file.rb", "d/f/", False),
    ],
)
def test_seed004_03_the_rules_hold_for_every_path_of_a_long_request(
    scene: Scene, manager: LockManager, held: str, wanted: str, overlap: bool, place: int
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    if held.endswith("/"):
        assert manager.try_acquire(holder=ann, read_paths=[held])
    else:
        assert manager.try_acquire(holder=ann, write_paths=[held])
    reads = [*FOLDERS[:place], wanted, *FOLDERS[place:]] if wanted.endswith("/") else []
    writes = [] if reads else [*FILES[:place], wanted, *FILES[place:]]
    found = manager.check_conflicts(read_paths=reads, write_paths=writes)
    assert [(one.path, one.held_path) for one in found] == [(wanted, held)] * overlap
    taken = manager.try_acquire(holder=bob, read_paths=reads, write_paths=writes)
    assert (taken is None) is overlap


def test_seed004_17_a_request_that_is_refused_immediately_does_not_stay_queued(
    scene: Scene, manager: LockManager
) -> None:
    mine = manager.try_acquire(holder=scene.holder("ann"), write_paths=["b"])
    assert mine is not None
    bob = scene.holder("bob")
    assert manager.try_acquire(holder=bob, read_paths=["a"], write_paths=["b", "c"]) is None
    assert scene.waiting() == []
    scene.clock.advance(600)
    manager.release(mine.id)
    assert manager.active_grants() == []
