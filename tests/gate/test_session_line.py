"""One session in one line: its locks, the agents that wait for it, and its own blockers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from helpers_hook import Scene
from holdfast.gate.people import session_line
from holdfast.gate.people.session_line import SessionState, state_of
from holdfast.manager.ledger import Ledger
from stage import settled

ANN, BOB = "ann-session", "bob-session"


@pytest.fixture
def scene(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    settled(repository / "app/x.rb", repository / "lib/y.rb")
    made = Scene(repository, monkeypatch)
    yield made
    made.close()


def told(root: Path, session: str = ANN, **more: Any) -> bytes:
    """The input that Claude Code passes to the command of its status line."""
    place = {"current_dir": str(root), "project_dir": str(root)}
    said = {
        "hook_event_name": "Status", "session_id": session, "cwd": str(root), "workspace": place,
        "transcript_path": "/tmp/transcript.jsonl", "model": {"id": "opus", "display_name": "Opus"},
        "version": "2.1.325",
    }  # fmt: skip
    return json.dumps({**said, **more}, indent=2).encode()


def line(root: Path, session: str = ANN, **more: Any) -> str:
    state = state_of(told(root, session, **more))
    return "" if state is None else state.line


def test_a_session_that_holds_nothing_is_said_to(scene: Scene) -> None:
    scene.at_the_door(BOB).edit("app/x.rb")
    assert line(scene.root) == "holdfast: nothing held"


def test_what_the_hooks_have_leased_to_the_session_is_counted(scene: Scene) -> None:
    ann = scene.at_the_door(ANN)
    ann.edit("app/x.rb")
    assert line(scene.root) == "holdfast: 1 file held"
    ann.edit("lib/y.rb")
    assert line(scene.root) == "holdfast: 2 files held"
    state = state_of(told(scene.root))
    assert state is not None
    assert state.held == ("app/x.rb", "lib/y.rb")


def test_files_of_its_sub_agents_count_and_those_of_others_do_not(scene: Scene) -> None:
    ann = scene.at_the_door(ANN)
    ann.edit("app/x.rb", agent_id="sub")
    scene.at_the_door(f"{ANN}-2").edit("lib/y.rb")
    scene.at_the_door(ANN, "codex").tell("SessionStart")
    assert line(scene.root) == "holdfast: 1 file held"


def test_a_wait_inside_the_session_is_not_named(scene: Scene) -> None:
    ann = scene.at_the_door(ANN)
    ann.edit("app/x.rb", agent_id="one")
    assert ann.edit("app/x.rb", agent_id="two")
    assert line(scene.root) == "holdfast: 1 file held"


def test_it_names_the_first_who_waits_and_counts_the_others(scene: Scene) -> None:
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, "cid-session"))
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    assert line(scene.root) == f"holdfast: 1 file held, {bob.name} waits for app/x.rb"
    assert cid.edit("app/x.rb")
    assert line(scene.root) == f"holdfast: 1 file held, {bob.name} waits for app/x.rb (and 1 more)"
    assert line(scene.root, BOB) == "holdfast: nothing held", "bob only waits for another agent"


def test_a_dead_waiter_is_not_named(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    bob.kill()
    assert line(scene.root) == "holdfast: 1 file held"


def test_a_blocked_session_shows_by_whom(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    scene.clock.advance(180)
    assert bob.edit("app/x.rb")
    assert line(scene.root, BOB) == (f"holdfast: nothing held, blocked: {ann.name} holds app/x.rb")


def test_what_ended_is_not_held(scene: Scene) -> None:
    ann = scene.at_the_door(ANN)
    ann.edit("app/x.rb")
    ann.kill()
    assert line(scene.root) == "holdfast: nothing held"


def test_a_gate_that_is_off_is_said_to_be(scene: Scene) -> None:
    scene.at_the_door(ANN).edit("app/x.rb")
    (scene.root / ".holdfast/off").write_text("")
    assert line(scene.root) == "holdfast: the gate is off"


def test_the_folder_of_the_session_counts_wherever_its_shell_is(
    scene: Scene, tmp_path: Path
) -> None:
    scene.at_the_door(ANN).edit("app/x.rb")
    elsewhere = {"current_dir": str(tmp_path), "project_dir": str(scene.root)}
    assert line(scene.root, cwd=str(tmp_path), workspace=elsewhere) == "holdfast: 1 file held"
    assert line(scene.root, workspace=None) == "holdfast: 1 file held"


def test_where_there_is_no_ledger_it_is_empty_and_none_is_made(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").mkdir()
    assert line(tmp_path) == ""
    assert list((tmp_path / ".holdfast").iterdir()) == []
    assert line(tmp_path / "gone") == ""


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"{", b"[]", b"null", b'"x"', b"{}", b'{"session_id": 7}', b"[" * 100_000,
     b'{"session_id": "a", "workspace": {"project_dir": "relative"}, "cwd": 3}'],
)  # fmt: skip
def test_input_that_cannot_be_read_is_an_empty_line(data: bytes) -> None:
    assert state_of(data) is None


def test_a_session_without_an_id_is_an_empty_line(scene: Scene) -> None:
    scene.at_the_door(ANN).edit("app/x.rb")
    assert line(scene.root, "") == ""


def test_a_broken_ledger_is_an_empty_line(scene: Scene) -> None:
    scene.at_the_door(ANN).edit("app/x.rb")
    for part in (scene.root / ".holdfast").glob("ledger.db*"):
        part.write_bytes(b"rubbish" * 1000)
    assert line(scene.root) == ""


def test_it_is_given_up_after_half_a_second(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[float] = []
    open_ledger = Ledger.at

    def at(root: str, *, end: float) -> Ledger:
        ends.append(end)
        return open_ledger(root, end=end)

    scene.at_the_door(ANN).edit("app/x.rb")
    monkeypatch.setattr(Ledger, "at", at)
    began = monotonic()
    assert line(scene.root) == "holdfast: 1 file held"
    assert began < ends[0] <= monotonic() + session_line.LINE_SECONDS


def test_the_data_say_what_the_line_says() -> None:
    state = SessionState(
        "/r", ANN, held=["a", "b"], waiting=[("codex:77ab", "a")], blocked=("c", "claude:bob")
    )
    assert state.line == (
        "holdfast: 2 files held, blocked: claude:bob holds c, codex:77ab waits for a"
    )
    assert state.to_data() == {
        "root": "/r", "session": ANN, "line": state.line, "held": ("a", "b"),
        "waiting": [{"holder": "codex:77ab", "path": "a"}],
        "blocked": {"file": "c", "owner": "claude:bob"}, "off": False,
    }  # fmt: skip
