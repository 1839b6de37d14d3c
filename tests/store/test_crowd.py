"""Crowds at the gate: everyone is served, in turn, and waiting costs little."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_herd import stampede
from helpers_processes import LINUX_ONLY, Crowd, until
from holdfast import LockManager
from holdfast.store.sqlite import schema, session
from holdfast.store.sqlite.gate_turns import COUNTED_MAX, Turn, is_crowded
from holdfast.store.sqlite.write_gate import Gate

pytestmark = LINUX_ONLY

HERD = 100


# A herd


def test_a_herd_that_opens_and_takes_at_the_same_instant_is_served(
    crowd: Crowd, root: Path
) -> None:
    few, many = stampede(crowd, root / "few", HERD // 4), stampede(crowd, root / "many", HERD)
    assert many.tries <= 2 * few.tries + 40, "waiting costs the more, the more processes wait"


def test_twenty_concurrent_commands_all_get_their_locks(root: Path) -> None:
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "holdfast", "lock", f"f{number}", "--holder", f"h{number}"],
            cwd=root,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for number in range(20)
    ]
    told = [command.communicate(timeout=120)[1] for command in commands]
    assert [command.returncode for command in commands] == [0] * 20, set(told)


# A place in the queue


@pytest.fixture
def gates(tmp_path: Path) -> Iterator[list[Gate]]:
    made = [Gate(str(tmp_path / "gate")) for _ in range(40)]
    yield made
    for gate in made:
        gate.close()


def test_each_in_line_knows_how_many_are_ahead(gates: list[Gate]) -> None:
    turns = [Turn(gate.fd) for gate in gates]
    assert [turn.ahead() for turn in turns] == list(range(40))
    turns[0].give_back()
    turns[2].give_back()
    assert [turn.ahead() for turn in turns[3:6]] == [1, 2, 3]
    for turn in turns:
        turn.give_back()
    assert Turn(gates[0].fd).ahead() == 0


def test_a_newcomer_is_behind_all_waiting_processes(gates: list[Gate]) -> None:
    turns = [Turn(gate.fd) for gate in gates[:10]]
    for turn in turns[:5]:
        turn.give_back()
    late = Turn(gates[20].fd)
    assert late.ahead() >= 5
    assert [turn.ahead() for turn in turns[5:8]] == [0, 1, 2]


def test_a_process_that_dies_in_line_leaves_it(crowd: Crowd, gates: list[Gate]) -> None:
    child = crowd.start(
        "from holdfast.store.sqlite.write_gate import Gate\n"
        "from holdfast.store.sqlite.gate_turns import Turn\n"
        "turn = Turn(Gate(sys.argv[1]).fd)\nsay('in line')\ngo()",
        gates[0].path,
    )
    child.wait_for("in line")
    mine = Turn(gates[0].fd)
    assert mine.ahead() == 1
    child.kill()
    assert mine.ahead() == 0


def test_a_few_in_line_are_no_crowd(gates: list[Gate]) -> None:
    turns = [Turn(gate.fd) for gate in gates[: COUNTED_MAX - 1]]
    assert not is_crowded(gates[20].fd)
    turns.append(Turn(gates[21].fd))
    assert is_crowded(gates[20].fd)


def test_a_process_that_gives_up_at_the_gate_leaves_the_queue(
    gates: list[Gate], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside, other = gates[:3]
    assert inside.try_enter()
    monkeypatch.setattr("holdfast.store.sqlite.write_gate.SHORT_PAUSES", 0)

    def interrupt(_seconds: float) -> None:
        assert Turn(other.fd).ahead() == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.store.sqlite.write_gate.sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        outside.enter(time.monotonic() + 60)
    assert Turn(other.fd).ahead() == 0


IN_LINE = """
from holdfast.store.sqlite.write_gate import Gate
gate = Gate(sys.argv[1])
say("begins")
gate.enter(time.monotonic() + 60)
say("inside")
"""


def test_a_process_that_is_stopped_in_the_queue_keeps_no_other_out(
    crowd: Crowd, gates: list[Gate]
) -> None:
    inside, mine = gates[:2]
    assert inside.try_enter()
    stopped = [crowd.start(IN_LINE, inside.path) for _ in range(2 * COUNTED_MAX)]
    until(lambda: _places_taken(inside) == len(stopped), "all of them stand in line")
    for child in stopped:
        child.stop()
    inside.leave()
    begin = time.monotonic()
    mine.enter(begin + 30)
    assert time.monotonic() - begin < 5
    mine.leave()


def _places_taken(gate: Gate) -> int:
    """The number of processes in the queue, counted by the kernel."""
    locks = Path("/proc/locks").read_text().splitlines()
    return sum("OFDLCK" in line and f":{gate.inode[1]} " in line for line in locks)


# Opening


LOCKED = """
import sqlite3
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("pragma locking_mode = exclusive")
other.execute("begin exclusive")
other.execute("commit")
say("locked")
go()
other.close()
say("closed")
"""


def test_a_ledger_that_is_locked_for_a_moment_is_opened_after_that(
    crowd: Crowd, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LockManager.open(root).close()
    child = crowd.start(LOCKED, root / ".holdfast/ledger.db")
    child.wait_for("locked")
    seen: list[bool] = []

    def pause(_seconds: float) -> None:
        if not seen:
            seen.append(True)
            other = Gate(str(root / ".holdfast/gate"))
            assert other.try_enter(), "the gate is held while the other program is waited for"
            other.close()
            child.tell()
            child.wait_for("closed")

    monkeypatch.setattr(schema, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(session, "sleep", pause)
    with LockManager.open(root) as manager:
        assert manager.try_acquire(holder="ann", write_paths=[root / "a"])
    assert seen
