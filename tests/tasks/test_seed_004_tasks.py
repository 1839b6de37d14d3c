"""The promises of 004 for tasks: gaps are recorded, no lock is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_task_commands import TypedCheckout, why_no_broker
from holdfast.core.events import ENDINGS
from holdfast.gate.door.delegated_calls import GAP
from holdfast.manager.manager import LockManager
from holdfast.work.engine.work_items import LockRequest
from holdfast.work.tasks import task_flow, task_states
from holdfast.work.tasks.attempt import request_of
from holdfast.work.tasks.lists.task import Task

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")

SCRIPT = "echo one > a.txt; for i in 1 2; do echo x > b.txt || true; done; echo x > new.txt || true"
WANTED = [("tasks.toml", "declares", "b.txt"), ("tasks.toml", "declares", "new.txt")]


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[TypedCheckout]:
    made = TypedCheckout(tmp_path)
    yield made
    made.close()


def named(gaps: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(one["list"], one["task"], one["path"]) for one in gaps]


def write_list(checkout: TypedCheckout, *writes: str) -> None:
    """One task that declares these, and one that declares nothing."""
    declares = {"prompt": SCRIPT, "writes": list(writes)}
    checkout.list(declares=declares, free="echo three > c.txt")


def test_seed004_35_a_task_completes_what_it_can_and_its_gaps_are_told(
    checkout: TypedCheckout,
) -> None:
    """Once each, at the end of every run and by `holdfast gaps`, until the list declares them."""
    write_list(checkout, "a.txt")
    answer = checkout.type("dispatch", "tasks.toml", "--json")
    assert answer.code == 0, answer
    assert {one["state"] for one in answer.json["tasks"]} == {task_states.DONE}
    assert (checkout.read("a.txt"), checkout.read("b.txt")) == ("one\n", "b0\n")
    assert not (checkout.root / "new.txt").exists()
    assert named(answer.json["gaps"]) == WANTED
    again = checkout.type("dispatch", "tasks.toml")
    assert "refused writes to undeclared files: b.txt, new.txt; see: holdfast gaps" in again.out
    found = checkout.type("gaps", "--json").json
    assert (found["gaps"], named(found["tasks"])) == ([], WANTED)
    shown = checkout.type("gaps").out
    assert shown.count("not among its writes") == 2
    assert "screen" not in shown + again.out + again.err
    write_list(checkout, "a.txt", "b.txt", "new.txt")
    assert "holdfast gaps" not in checkout.type("dispatch", "tasks.toml").out
    assert checkout.type("gaps").out == "no gaps\n"


def test_seed004_19_a_task_that_declares_its_writes_is_given_no_lease_beside_them(
    checkout: TypedCheckout,
) -> None:
    """Not for another name of a file, nor for one that it makes, moves or deletes. Only for a
    temporary file that replaces a declared one, as `sed -i` makes it."""
    deeds = [
        "mv b.txt c2.txt", "ln -s b.txt s", "ln a.txt hard", "rm b.txt", "mkfifo pipe",
        "chmod +x b.txt", "truncate -s 0 b.txt", "mv src lib", "sed -i s/b/x/ b.txt",
    ]  # fmt: skip
    script = "; ".join(f"{deed} || true" for deed in deeds)
    checkout.list(declares={"prompt": f"{script}; echo one > a.txt", "writes": ["a.txt"]})
    before = checkout.status()
    answer = checkout.type("dispatch", "tasks.toml", "--json")
    assert answer.code == 0, answer
    assert checkout.status().replace(" M a.txt\n", "") == before.replace(" M a.txt\n", "")
    assert checkout.read("a.txt") == "one\n"
    taken = [e for e in checkout.events() if e["type"] == "lock_acquired"]
    keys = [
        key for e in taken for key in e["data"]["keys"] if not key.startswith(("inode", "task"))
    ]
    assert [key for key in keys if (checkout.root / key).exists()] == ["a.txt"]
    assert {"b.txt", "hard", "s"} <= {one["path"] for one in answer.json["gaps"]}


@pytest.mark.parametrize(
    ("deed", "said"),
    [
        ("kill -9 $$", "the agent was killed by signal 9 (2 attempts)"),
        ("exit 3", "the agent failed with code 3 (2 attempts)"),
        ("sleep 60", "the agent was ended after 2 s"),
    ],
)
def test_seed004_31_a_task_whose_agent_crashes_fails_in_the_end_and_holds_nothing(
    checkout: TypedCheckout, deed: str, said: str
) -> None:
    """It is retried up to its limit, each time with its files restored."""
    script = f"cat a.txt; echo half >> a.txt; echo new > new.txt; {deed}"
    crashes = checkout.task(
        "crashes", script, tries=2, timeout_seconds=2 if "sleep" in deed else 60
    )
    found = checkout.dispatch(crashes)["crashes"]
    assert (found.state, found.reason) == (task_states.FAILED, said)
    printed = [log.read_text() for log in (checkout.root / ".holdfast/runs").glob("*/task*.log")]
    assert set(printed) == {"a0\n"}
    assert len(printed) == found.tries
    assert checkout.status() == ""
    with LockManager.open(str(checkout.root)) as manager:
        assert manager.active_grants() == []
        events = list(manager.events())
        taken = [e.data["id"] for e in events if e.type == "lock_acquired"]
        freed = {e.data["grant"]: e.type for e in events if e.type in ENDINGS}
        assert freed == dict.fromkeys(taken, "lock_released"), "given back, and not merely dead"
        assert manager.try_acquire(holder="ann", write_paths=["a.txt", "new.txt"]) is not None


def test_seed004_15_even_a_bug_in_the_scheduler_cannot_let_a_task_write_what_it_did_not_lock(
    checkout: TypedCheckout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dispatched without the lock for a file that it declares, and that another holds."""

    def forgetful(task: Task, list: str, needs: tuple[str, ...] = ()) -> LockRequest:
        asked = request_of(task, list, needs)
        kept = [path for path in asked.write_paths if path != "b.txt"]
        return LockRequest.of(asked.read_paths, kept)

    monkeypatch.setattr(task_flow, "request_of", forgetful)
    script = "echo x > a.txt; echo x > b.txt || echo refused"
    task = checkout.task("declares", script, writes=("a.txt", "b.txt"))
    with LockManager.open(str(checkout.root)) as manager:
        assert manager.try_acquire(holder="ann", write_paths=["b.txt"]) is not None
        found = checkout.dispatch(task)["declares"]
        gaps = [one.data["path"] for one in manager.events() if one.type == GAP]
    assert found.state == task_states.DONE
    assert (checkout.read("a.txt"), checkout.read("b.txt")) == ("x\n", "b0\n")
    assert gaps == ["b.txt"]
