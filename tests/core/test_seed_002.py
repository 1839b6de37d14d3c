"""File leases of living owners: the promises 002-03 to 002-08, which the kernel keeps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Barrier, Thread

import pytest

from holdfast import Holder, LockConflictError, LockManager
from holdfast.core.model import Witness
from holdfast.testing.conformance import Scene, refused

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux's /proc to prove that a process is gone"
)


def test_seed002_03_the_key_is_the_normalised_path_below_the_repository(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "link").symlink_to(repository / "app")
    spellings: list[str | Path] = [
        "app/x.rb", "./app//x.rb", "lib/../app/x.rb", "link/x.rb", "app/./x.rb",
        repository / "app/x.rb", str(repository / "lib" / ".." / "link" / "x.rb"),
    ]  # fmt: skip
    with LockManager.open(repository) as manager:
        for spelling in spellings:
            grant = manager.try_acquire(holder="ann", write_paths=[spelling])
            assert grant is not None
            assert grant.write_paths == ("app/x.rb",)
            for other in spellings:
                assert manager.try_acquire(holder="bob", write_paths=[other]) is None
                assert manager.verify(grant.id, path=other, token=grant.token)
            manager.release(grant.id)
        (event, *_rest) = manager.events()
        assert event.data["keys"][0] == "app/x.rb"


def test_seed002_03_it_does_not_depend_on_where_the_command_runs(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    for folder in (repository, repository / "app"):
        monkeypatch.chdir(folder)
        with LockManager.open() as manager:
            taken.append(manager.try_acquire(holder=folder.name, write_paths=["app/x.rb"]))
    assert taken[0] is not None
    assert taken[1] is None


def test_seed002_04_at_most_one_live_owner_has_a_file(scene: Scene, manager: LockManager) -> None:
    agents = [scene.holder(f"agent-{number}") for number in range(8)]
    start, won = Barrier(8), []

    def race(agent: Holder) -> None:
        start.wait(60)
        if manager.try_acquire(holder=agent, write_paths=["x"], ttl=None):
            won.append(agent)

    threads = [Thread(target=race, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1
    assert [grant.owner for grant in manager.active_grants()] == won


def test_seed002_05_a_competing_change_is_denied_while_the_owner_lives(
    scene: Scene, manager: LockManager
) -> None:
    manager.ensure(holder=scene.holder("ann"), write_paths=["x"], ttl=None)
    for _ in range(3):
        with pytest.raises(LockConflictError):
            manager.ensure(holder=scene.holder("bob"), write_paths=["x"], ttl=None)
        scene.clock.advance(86_400)


def test_seed002_06_non_live_owners_keep_nothing(scene: Scene, manager: LockManager) -> None:
    for path in ("x", "y", "z"):
        manager.ensure(holder=scene.holder("ann"), write_paths=[path], ttl=None)
    scene.kill("ann")
    assert manager.active_grants() == []
    assert manager.check_conflicts(write_paths=["x", "y", "z"]) == []
    assert len(manager.reap()) == 3


def test_seed002_07_liveness_is_checked_again_before_every_denial(scene: Scene) -> None:
    looks: list[Witness] = []
    real = scene.processes.is_dead

    def is_dead(witness: Witness, marks: tuple[str, ...]) -> bool | None:
        looks.append(witness)
        return real(witness, marks)

    scene.processes.is_dead = is_dead  # type: ignore[method-assign]
    scene.reopen()
    ann = scene.holder("ann")
    scene.take(ann, writes=["x"], ttl=None)
    for _ in range(5):
        looks.clear()
        refused(scene.ask("bob", writes=["x"]))
        assert ann.witness in looks
    scene.kill("ann")
    scene.take("bob", writes=["x"])


def test_seed002_08_a_dead_owners_lease_is_reclaimable_immediately(
    scene: Scene, manager: LockManager
) -> None:
    grant = manager.ensure(holder=scene.holder("ann"), write_paths=["x"], ttl=None)
    scene.kill("ann")
    new = manager.ensure(holder=scene.holder("bob"), write_paths=["x"], ttl=None)
    assert new.token > grant.token
    reaped = next(event for event in manager.events() if event.type == "lock_reaped")
    assert (reaped.data["grant"], reaped.data["why"]) == (grant.id, "owner dead")


AGENT = """
import os, sys
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
print(manager.ensure(holder="agent", write_paths=["app/x.rb"], ttl=None).token, flush=True)
sys.stdin.readline()
os._exit(1)
"""


@linux_only
def test_seed002_08_also_of_a_real_process_that_was_killed(repository: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, os.fspath(repository)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as agent, LockManager.open(repository) as manager:  # fmt: skip
        try:
            assert agent.stdout is not None
            token = int(agent.stdout.readline())
            assert manager.try_acquire(holder="bob", write_paths=["app/x.rb"]) is None
        finally:
            agent.kill()
            agent.wait(60)
        grant = manager.try_acquire(holder="bob", write_paths=["app/x.rb"])
        assert grant is not None
        assert grant.token > token
