"""verify and fenced: where an effect becomes visible, the token decides."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from holdfast import (
    BadKeyError,
    FencingError,
    LockExpiredError,
    LockManager,
    LockNotHeldError,
    StoreBusyError,
)
from holdfast.manager import ledger
from holdfast.testing.conformance import Scene


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of a manager gives up after a moment."""
    monkeypatch.setattr(ledger, "DEADLINE_SECONDS", 0.05)


def test_a_verdict_is_true_or_says_the_exact_reason(scene: Scene, manager: LockManager) -> None:
    grant = manager.try_acquire(
        holder=scene.holder("ann"), read_paths=["lib/"], write_paths=["a/x", "port:1"], ttl=10
    )
    assert grant is not None

    def code(path: str | None, token: int = grant.token) -> str:
        verdict = manager.verify(grant.id, path, token=token)
        assert bool(verdict) is verdict.allowed
        assert bool(verdict.reason) is not verdict.allowed
        return verdict.code

    assert code("a/x") == code("port:1") == code(None) == ""
    assert code("a/./x") == ""
    assert code("a/y") == code("a/x/z") == code("lib/b") == code("a/") == "E_LOCK_VIOLATION"
    assert code("a/x", grant.token - 1) == code("a/x", grant.token + 1) == "E_FENCING_MISMATCH"
    assert code(None, 0) == "E_FENCING_MISMATCH"
    scene.clock.advance(10)
    assert code("a/x") == "E_LOCK_EXPIRED"
    assert manager.verify("never-was", "a/x", token=1).code == "E_LOCK_NOT_HELD"


def test_the_reason_names_the_path_that_is_not_covered(scene: Scene, manager: LockManager) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    assert grant is not None
    assert "lib/other" in manager.verify(grant.id, "lib/other", token=grant.token).reason


def test_a_dead_owners_grant_is_not_held(scene: Scene, manager: LockManager) -> None:
    grant = scene.take("ann", writes=["x"])
    scene.kill("ann")
    verdict = manager.verify(grant.id, "x", token=grant.token)
    assert (verdict.code, "dead" in verdict.reason) == ("E_LOCK_NOT_HELD", True)


def test_verify_changes_nothing(scene: Scene, manager: LockManager) -> None:
    grant = scene.take("ann", writes=["x"], ttl=10)
    scene.clock.advance(10)
    before = scene.state()
    manager.verify(grant.id, "x", token=grant.token)
    assert scene.state() == before


def test_a_fenced_section_is_entered_with_a_live_grant_and_its_token(
    scene: Scene, manager: LockManager
) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"], ttl=10)
    assert grant is not None
    with manager.fenced(grant):
        pass
    with manager.fenced(grant.id, grant.token):
        pass
    with pytest.raises(BadKeyError):
        manager.fenced(grant.id)
    with pytest.raises(FencingError), manager.fenced(grant, grant.token + 1):
        pytest.fail("let in with a wrong token")
    with pytest.raises(LockNotHeldError), manager.fenced("never-was", 1):
        pytest.fail("let in without a grant")
    scene.clock.advance(10)
    with pytest.raises(LockExpiredError), manager.fenced(grant):
        pytest.fail("let in after the lease had expired")


@pytest.mark.usefixtures("impatient")
def test_no_lock_is_stolen_acquired_or_released_inside_a_fenced_section(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    grant = manager.try_acquire(holder=ann, write_paths=["x"], ttl=10)
    assert grant is not None
    before = scene.state()
    attempts: dict[str, Callable[[], object]] = {
        "steal": lambda: manager.steal(holder=bob, write_paths=["x"]),
        "take": lambda: manager.try_acquire(holder=bob, write_paths=["x"]),
        "take something else": lambda: manager.try_acquire(holder=bob, write_paths=["y"]),
        "give back": lambda: manager.release(grant.id),
        "force": lambda: manager.force(grant.id, by=bob, reason="now"),
        "renew": lambda: manager.renew(grant.id, holder=ann),
        "fence": lambda: manager.fenced(grant).__enter__(),
    }
    codes: dict[str, str] = {}

    def attempt() -> None:
        for name, call in attempts.items():
            try:
                call()
                codes[name] = "done"
            except StoreBusyError as error:
                codes[name] = error.code

    with manager.fenced(grant):
        scene.clock.advance(10)  # it runs out while its holder is inside
        others = Thread(target=attempt)
        others.start()
        others.join(60)
        assert codes == dict.fromkeys(attempts, "E_STORE_BUSY")
    assert scene.state() == before
    assert manager.steal(holder=bob, write_paths=["x"]).token > grant.token


def test_a_rename_inside_is_one_step_with_the_check(repository: Path) -> None:
    target, temporary = repository / "app/x.rb", repository / "app/x.rb.new"
    with LockManager.open(repository) as manager:
        grant = manager.try_acquire(holder="ann", write_paths=["app/x.rb"])
        assert grant is not None
        temporary.write_text("new\n")
        with manager.fenced(grant):
            os.replace(temporary, target)
        assert target.read_text() == "new\n"
        manager.force(grant.id, by="operator", reason="test")
        temporary.write_text("too late\n")
        with pytest.raises(FencingError), manager.fenced(grant):
            os.replace(temporary, target)
        assert target.read_text() == "new\n"


STOPPED = """
import os, signal, sys
from holdfast import LockManager
with LockManager.open(sys.argv[1]) as manager:
    grant = manager.acquire(holder="sleeper", write_paths=["app/x.rb"])
    with manager.fenced(grant):
        print("inside", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
"""


@pytest.mark.usefixtures("impatient")
def test_a_process_that_was_stopped_inside_makes_the_others_give_up_in_time(
    repository: Path,
) -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", STOPPED, str(repository)], stdout=subprocess.PIPE, text=True
        ) as sleeper,
        LockManager.open(repository) as manager,
    ):
        try:
            assert sleeper.stdout is not None
            assert sleeper.stdout.readline() == "inside\n"
            os.waitpid(sleeper.pid, os.WUNTRACED)
            with pytest.raises(StoreBusyError) as caught:
                manager.try_acquire(holder="ann", write_paths=["lib/y.rb"])
            assert str(sleeper.pid) in str(caught.value) + caught.value.hint
        finally:
            sleeper.kill()
            sleeper.wait(60)
        assert manager.try_acquire(holder="ann", write_paths=["app/x.rb"]) is not None


@pytest.mark.usefixtures("impatient")
def test_the_ledger_is_not_used_from_inside(scene: Scene, manager: LockManager) -> None:
    grant = manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    assert grant is not None
    with manager.fenced(grant):
        for call in (
            lambda: manager.release(grant.id),
            lambda: manager.verify(grant.id, "x", token=grant.token),
            lambda: manager.fenced(grant).__enter__(),
            manager.active_grants,
        ):
            with pytest.raises(StoreBusyError) as caught:
                call()
            assert caught.value.hint
    assert manager.release(grant.id) is True
