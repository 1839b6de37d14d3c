"""The ledger's lock among many: broken by exactly one, released only by its holder, in order."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from threading import Barrier, Thread

import pytest

from helpers_processes import LINUX_ONLY, Crowd, until
from holdfast.core.errors import LockTimeoutError
from holdfast.proof import ProofLedger, ledger_lock, make_proof
from holdfast.proof.append_line import Line

pytestmark = LINUX_ONLY


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_proof(tmp_path / "proof")
    return tmp_path / "proof"


HOLD = """
from holdfast.proof import ProofLedger
with ProofLedger(sys.argv[1]).locked():
    say("inside")
    go()
"""


def dead_lock(root: Path, tmp_path: Path) -> Path:
    """A lock that a process of ours left behind when it was killed."""
    with Crowd(tmp_path) as crowd:
        holder = crowd.start(HOLD, root)
        holder.wait_for("inside")
        holder.kill()
    lock = root / "ledger/ledger.lock"
    assert lock.exists()
    return lock


def test_exactly_one_of_many_breaks_a_dead_lock(root: Path, tmp_path: Path) -> None:
    dead_lock(root, tmp_path)
    found = ledger_lock.look(ProofLedger(root).folder)
    assert found is not None
    assert found.is_dead
    start, broke = Barrier(8), []

    def contend() -> None:
        start.wait(60)
        broke.append(ledger_lock._remove_lock(ProofLedger(root).folder, found))

    threads = [Thread(target=contend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(broke) == [False] * 7 + [True]


def test_a_late_process_does_not_break_the_lock_of_a_successor(root: Path, tmp_path: Path) -> None:
    dead_lock(root, tmp_path)
    ledger = ProofLedger(root, sync=False)
    found = ledger_lock.look(ledger.folder)  # a contender has checked, and is slow
    assert found is not None
    with ledger.locked():  # another one broke it, and is inside now
        assert not ledger_lock._remove_lock(ledger.folder, found)
        assert (root / "ledger/ledger.lock").exists()


def test_a_dead_lock_delays_others_only_briefly(root: Path, tmp_path: Path) -> None:
    dead_lock(root, tmp_path)
    said: list[int] = []

    def append() -> None:
        said.append(ProofLedger(root, sync=False).append({"type": "x"}))

    threads = [Thread(target=append) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(said) == [1, 2, 3, 4, 5, 6]


def test_a_lock_of_ours_from_another_machine_is_not_judged(root: Path) -> None:
    lock = root / "ledger/ledger.lock"
    agent = ledger_lock.agent_id().split(":")
    agent[1] = "elsewhere"
    agent[4] = "999999999"
    lock.write_text(
        json.dumps({"agent_id": ":".join(agent), "acquired_at": "2001-01-01T00:00:00Z"})
    )
    with pytest.raises(LockTimeoutError):
        ProofLedger(root, sync=False, wait_seconds=0.2).append({"type": "x"})
    assert lock.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"agent_id": 7}', '{"agent_id": "holdfast:a:b"}', "\x00" * 50]
)
def test_a_lock_that_says_nothing_is_never_broken(root: Path, text: str) -> None:
    lock = root / "ledger/ledger.lock"
    lock.write_text(text)
    with pytest.raises(LockTimeoutError):
        ProofLedger(root, sync=False, wait_seconds=0.1).append({"type": "x"})
    assert lock.read_text() == text


def test_no_process_releases_the_lock_of_another(root: Path) -> None:
    ledger = ProofLedger(root, sync=False)
    lock = root / "ledger/ledger.lock"
    with ledger.locked():
        lock.unlink()  # another program removed it as too old
        lock.write_text('{"agent_id": "them", "acquired_at": "2024-01-15T10:30:00Z"}')
    assert "them" in lock.read_text()


def test_an_interrupt_while_waiting_leaves_no_lock_and_no_place(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = root / "ledger/ledger.lock"
    lock.mkdir()
    ledger = ProofLedger(root, sync=False)

    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.append({"type": "x"})
    lock.rmdir()
    assert list(root.glob("ledger/*")) == list(root.glob("ledger/.event*")) == []
    assert ledger.append({"type": "x"}) == 1


def test_an_interrupt_just_after_it_was_taken_does_not_lock_us_out(root: Path) -> None:
    ledger = ProofLedger(root, sync=False, wait_seconds=1)
    ledger._lock.acquire()  # and it is never released
    assert ledger.append({"type": "x"}) == 1


def test_the_dead_of_long_ago_are_swept_away(root: Path, tmp_path: Path) -> None:
    dead_lock(root, tmp_path).unlink()
    assert len(list(root.glob(".holdfast-proof/seats/*"))) == 1
    mine = ProofLedger(root, sync=False)
    mine.append({"type": "x"})
    assert len(ledger_lock.sweep(mine.folder)) == 1
    assert len(list(root.glob(".holdfast-proof/seats/*"))) == 1  # that of a living process


# The line


def test_those_in_the_line_come_one_after_the_other(tmp_path: Path) -> None:
    first, second, third = (Line(str(tmp_path / "line")) for _ in range(3))
    for one in (first, second, third):
        one.join()
    assert [one.is_my_turn() for one in (first, second, third)] == [True, False, False]
    second.leave()  # it gave up
    assert [one.is_my_turn() for one in (first, third)] == [True, False]
    first.leave()
    assert third.is_my_turn()


def test_newcomers_pass_until_a_member_has_waited_long(tmp_path: Path) -> None:
    waits, comes = Line(str(tmp_path / "line")), Line(str(tmp_path / "line"))
    waits.join()
    assert comes.may_pass()
    waits.stop_overtaking()
    assert not comes.may_pass()
    waits.leave()
    assert comes.may_pass()


def test_the_place_of_a_process_that_dies_is_free(tmp_path: Path) -> None:
    text = """
from holdfast.proof.append_line import Line
line = Line(sys.argv[1])
line.join()
line.stop_overtaking()
say("in line")
go()
"""
    mine = Line(str(tmp_path / "line"))
    with Crowd(tmp_path) as crowd:
        other = crowd.start(text, tmp_path / "line")
        other.wait_for("in line")
        mine.join()
        assert not mine.is_my_turn()
        other.kill()
        assert mine.is_my_turn()


def test_a_member_that_was_stopped_does_not_stop_the_others(root: Path, tmp_path: Path) -> None:
    text = """
from holdfast.proof import ProofLedger
ledger = ProofLedger(sys.argv[1], sync=False, wait_seconds=60)
say("asks")
ledger.append({"type": "stopped"})
say("done")
"""
    lock = root / "ledger/ledger.lock"
    lock.mkdir()
    line = root / ".holdfast-proof/line"
    with Crowd(tmp_path) as crowd:
        child = crowd.start(text, root)
        child.wait_for("asks")
        until(lambda: line.exists() and line.read_bytes() != b"", "it stands in line")
        elder = Line(str(line))
        until(lambda: not elder.may_pass(), "it has waited for long")
        child.stop()
        lock.rmdir()
        assert ProofLedger(root, sync=False).append({"type": "x"}) == 1
        child.resume()
        child.wait_for("done")
    assert [one.type for one in ProofLedger(root).read()] == ["x", "stopped"]


def test_a_lock_with_the_mode_of_others_is_respected(root: Path) -> None:
    lock = root / "ledger/ledger.lock"
    lock.write_text("{}")
    os.chmod(lock, 0)
    with pytest.raises(LockTimeoutError):
        ProofLedger(root, sync=False, wait_seconds=0.1).append({"type": "x"})
