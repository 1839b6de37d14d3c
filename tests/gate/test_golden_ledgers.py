"""Ledgers of earlier versions are read and continued: by commands, and by the hook."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from golden import (
    ANN,
    BEGAN,
    BOB,
    CHILD,
    CHILD_OF_HAL,
    COX,
    COY,
    DAN,
    FAY,
    FOLDER,
    GRANDCHILD,
    GUS,
    HAL,
    IVY,
    KIM,
    LEE,
    NED,
    ODA,
    PIA,
    RETRY_SECONDS,
    SUE,
    Name,
    clock_of_ledger_0,
    furnished,
    let_die,
    rebuilt,
)
from helpers_cli import COMMAND, as_a_person, environment
from helpers_guard import context, refusal
from helpers_hook import Agent, Scene
from holdfast import LockManager
from holdfast.core.model import SECOND

LEDGERS = sorted(FOLDER.glob("*.sql"))
#: The message to a blocked agent.
BLOCKED = "state=waiting_for_instruction"
#: A session of which the ledger has no record.
NEW = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """The repository of `ledger-0`, as an agent finds it now, long after."""
    made = Scene(furnished(tmp_path / "work"), monkeypatch)
    rebuilt(FOLDER / "ledger-0.sql", made.root / ".holdfast")
    yield made
    made.close()


@pytest.fixture
def then(scene: Scene) -> Scene:
    """The same at the moment at which the ledger was written: its clock does not move."""
    clock = clock_of_ledger_0()
    scene._clock = clock
    scene.monkeypatch.setattr("holdfast.manager.ledger.SystemClock", lambda: clock)
    return scene


def hold(scene: Scene, *words: str, code: int = 0) -> str:
    """A command's output for a person."""
    done = subprocess.run(
        as_a_person(*COMMAND, *words), cwd=scene.root, env=environment(), text=True, timeout=60,
        capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done
    return done.stdout


def owners(scene: Scene) -> dict[str, tuple[str, str]]:
    """The owner of each file: its session, and its sub-agent."""
    with LockManager.open(scene.root) as manager:
        return {
            path: (grant.owner.session, grant.owner.agent)
            for grant in manager.active_grants()
            for path in grant.write_paths
        }


def wait_until(scene: Scene, seconds: float) -> None:
    """Move the clock to a time, in seconds after the ledger began."""
    scene.clock.advance(BEGAN / SECOND + seconds - scene.clock.read().wall / SECOND)


def patch(agent: Agent, path: str) -> str:
    """Edit a file with Codex: the reason for a refusal, or "" once it is changed."""
    text = f"*** Begin Patch\n*** Update File: {path}\n@@\n-new\n+newer\n*** End Patch\n"
    why = refusal(agent.tell("PreToolUse-apply_patch", tool_input={"command": text}))
    if not why:
        (agent.root / path).write_text("newer\n")
        agent.tell("PostToolUse-apply_patch", tool_input={"command": text})
    return why


# The content


@pytest.mark.parametrize("path", LEDGERS, ids=lambda path: path.stem)
def test_a_ledger_comes_back_whole(path: Path, tmp_path: Path) -> None:
    connection = sqlite3.connect(rebuilt(path, tmp_path / "ledger"))
    assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    assert connection.execute("pragma application_id").fetchone() == (0x686F6C64,)
    assert connection.execute("pragma journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize(
    ("name", "count"),
    [("gate:@%:retry:%", 6), ("gate:@%:blocked:%", 2), ("gate:@%:rest", 2),
     ("family:@%:call:%", 1), ("family:@%:child:@%", 1), ("damaged:%", 3),
     ("damage-for:@%", 4)],
)  # fmt: skip
def test_the_first_one_has_all_that_was_remembered_of_agents(
    scene: Scene, name: str, count: int
) -> None:
    connection = sqlite3.connect(scene.root / ".holdfast/ledger.db")
    found = connection.execute("select count(*) from notes where name like ?", (name,))
    assert found.fetchone() == (count,)
    connection.close()


# Commands


@pytest.mark.parametrize(
    "line",
    ["status", "status --all", "status --json", "blockers", "log", "log --json", "gaps", "reap",
     "check app/x.py", "doctor --json"],
)  # fmt: skip
def test_commands_read_it(scene: Scene, line: str) -> None:
    code = {"check app/x.py": 3, "doctor --json": 1}.get(line, 0)
    said = hold(scene, *line.split(), code=code)
    assert said
    if line == "doctor --json":  # missing hooks are the only fault
        found = {(one["about"], one["check"]): one["state"] for one in json.loads(said)["findings"]}
        assert found["ledger", "reading"] == "held"


def test_status_shows_who_has_and_who_waits_for_what(scene: Scene) -> None:
    shown = json.loads(hold(scene, "status", "--json"))
    held = {
        path: (one["owner"]["session"], one["owner"].get("agent", ""), one["owner"]["pid"])
        for one in shown["grants"]
        for path in one["write_paths"]
    }
    expected = {
        "app/x.py": (ANN, "", ANN.pid), "lib/y.py": (BOB, "", BOB.pid),
        "app/kim.py": (KIM, "", KIM.pid), "app/z.py": (KIM, "", KIM.pid),
        "README.md": (GUS, CHILD, GUS.pid), "lib/grand.py": (GUS, CHILD, GUS.pid),
        "lib/new.py": (GUS, GRANDCHILD, GUS.pid), "app/cox.py": (COX, "", COX.pid),
        "lib/lee.py": (LEE, "", LEE.pid), "app/sue.py": (SUE, "", SUE.pid),
        "lib/sue.py": (SUE, "", SUE.pid),
    }  # fmt: skip
    assert held == expected, "the idle agents' files have come free since"
    waits = {one["owner"]["session"]: one["write_paths"] for one in shown["waiting"]}
    assert waits[BOB] == ["app/x.py"]
    assert waits[COY] == ["app/cox.py"]


def test_blockers_shows_the_reports(scene: Scene) -> None:
    reports = json.loads(hold(scene, "blockers", "--json"))["blockers"]
    for report in reports:
        assert report["state"] == "waiting_for_instruction"
        assert report["blocked_file"] == "app/x.py"
        assert report["paths"] == ["app/x.py"]
        assert (report["lock_age_seconds"], report["retry_interval_seconds"]) == (180, 180)
        assert report["last_heartbeat"] == "2025-01-01T00:00:00.000000Z"
        assert report["blocked_at"] == "2025-01-01T00:03:00.000000Z"
    assert len({report["agent"] for report in reports}) == 2
    told = hold(scene, "blockers")
    for report in reports:
        assert report["agent"] in told
    assert told.count("app/x.py") == 2


def test_the_log_tells_all_that_happened(scene: Scene) -> None:
    events = [json.loads(line) for line in hold(scene, "log", "--json").splitlines()]
    connection = sqlite3.connect(scene.root / ".holdfast/ledger.db")
    written = connection.execute("select seq, type from events order by seq").fetchall()
    connection.close()
    assert [(event["seq"], event["type"]) for event in events] == written
    assert {
        "contention_heartbeat", "contention_over", "agent_blocked", "agent_resumed",
        "agent_resting", "agent_awake", "agent_calls", "agent_started", "agent_ended", "damage",
        "damage_to_be_told", "damage_undone", "lock_moved", "ticket_added",
    } <= {event["type"] for event in events}  # fmt: skip
    told = hold(scene, "log")
    assert told.count("is blocked") == 3
    assert re.search(r" let .* continue$", told, re.M)


# Blocked agents, by the program that clients start


def test_a_blocked_agent_is_still_refused_until_a_person_lets_it_go_on(scene: Scene) -> None:
    dan, hal, other = (scene.in_processes(name) for name in (DAN, HAL, NEW))
    assert other.edit("free.py") == ""
    assert other.edit("app/dan.py") == "", "the idle agent that was blocked keeps nothing"
    said = dan.ask("app/kim.py")
    assert said["continue"] is False
    assert BLOCKED in refusal(said)
    assert "app/x.py" in refusal(said)
    assert BLOCKED in hal.edit("lib/hal.py", agent_id=CHILD_OF_HAL)
    assert hal.edit("lib/hal.py") == "", "only its sub-agent was blocked"
    assert len(json.loads(hold(scene, "resume", "--json"))["resumed"]) == 2
    assert hold(scene, "blockers") == "no agent is blocked\n"
    assert dan.edit("lib/dan.py") == ""
    assert hal.edit("lib/child.py", agent_id=CHILD_OF_HAL) == ""


def test_one_may_go_on_by_the_name_that_it_is_listed_by(scene: Scene) -> None:
    reports = json.loads(hold(scene, "blockers", "--json"))["blockers"]
    first, second = (report["agent"] for report in reports)
    hold(scene, "resume", first)
    assert [one["agent"] for one in json.loads(hold(scene, "blockers", "--json"))["blockers"]] == [
        second
    ]
    assert scene.in_processes(DAN).edit("lib/dan.py") == ""
    assert BLOCKED in scene.in_processes(HAL).edit("lib/hal.py", agent_id=CHILD_OF_HAL)


def test_a_prompt_lets_an_agent_and_its_sub_agents_go_on(scene: Scene) -> None:
    dan, hal = scene.in_processes(DAN), scene.in_processes(HAL)
    dan.tell("UserPromptSubmit", prompt="go on")
    assert dan.edit("lib/dan.py") == ""
    assert BLOCKED in hal.edit("lib/hal.py", agent_id=CHILD_OF_HAL)
    hal.tell("UserPromptSubmit", prompt="go on")
    assert hal.edit("lib/hal.py", agent_id=CHILD_OF_HAL) == ""


def test_what_was_held_is_still_refused_to_others(scene: Scene) -> None:
    other = scene.in_processes(NEW)
    (scene.root / "holdfast.toml").write_text("[gate]\nwake = false\ntimeout_seconds = 30\n")
    assert "lib/lee.py" in other.edit("lib/lee.py")
    assert scene.in_processes(LEE).edit("lib/lee.py") == ""


# Waiting, on the ledger's clock


def test_whoever_was_refused_is_refused_until_its_retry(then: Scene) -> None:
    for name in (BOB, PIA):
        why = then.at_the_door(name).edit("app/x.py")
        assert "app/x.py" in why
        assert BLOCKED not in why
    assert owners(then)["app/x.py"] == (ANN, "")


@pytest.mark.parametrize(
    ("name", "path"), [(BOB, "app/x.py"), (ANN, "lib/y.py")], ids=["in line", "in a circle"]
)
def test_a_retry_that_fails_blocks(then: Scene, name: Name, path: str) -> None:
    wait_until(then, RETRY_SECONDS)
    agent = then.at_the_door(name)
    assert BLOCKED in agent.edit(path)
    assert BLOCKED in agent.edit("free.py")


def test_a_retry_that_is_long_due_is_made_now(then: Scene) -> None:
    assert BLOCKED in then.at_the_door(ODA).edit("app/x.py")


def test_a_retry_succeeds_when_the_owner_has_ended(then: Scene) -> None:
    coy = then.at_the_door(COY, "codex")
    assert "app/cox.py" in patch(coy, "app/cox.py")
    then.at_the_door(COX, "codex").tell("SessionEnd")
    assert "app/cox.py" in then.at_the_door(NEW).edit("app/cox.py"), "it is reserved for another"
    wait_until(then, RETRY_SECONDS)
    assert patch(coy, "app/cox.py") == ""
    assert owners(then)["app/cox.py"] == (COY, "")


def test_what_came_free_is_kept_until_the_retry(then: Scene) -> None:
    assert "app/mia.py" in then.at_the_door(NEW).edit("app/mia.py")
    wait_until(then, RETRY_SECONDS)
    assert then.at_the_door(NED).edit("app/mia.py") == ""
    assert owners(then)["app/mia.py"] == (NED, "")


def test_in_a_circle_one_reads_what_to_give_back(then: Scene) -> None:
    why = then.at_the_door(ANN).edit("lib/y.py")
    assert "lib/y.py" in why
    assert "app/x.py" in why


def test_a_lease_ends_with_the_process_of_its_owner(then: Scene) -> None:
    other = then.at_the_door(NEW)
    let_die(then.monkeypatch, LEE)
    assert other.edit("lib/lee.py") == ""
    assert "app/fay.py" in other.edit("app/fay.py"), "FAY lives, under the same displayed name"


# Idle agents


def test_what_a_resting_agent_has_comes_free_after_30_seconds(then: Scene) -> None:
    wait_until(then, 239)
    assert "app/fay.py" in then.at_the_door(NEW).edit("app/fay.py")
    wait_until(then, 241)
    other = then.at_the_door("22222222-2222-4333-8444-555555555555")
    assert owners(then).get("app/fay.py") != (FAY, "")
    assert "lib/lee.py" in other.edit("lib/lee.py"), "its owner is not idle"


def test_one_that_goes_on_in_time_keeps_it(then: Scene) -> None:
    wait_until(then, 239)
    assert then.at_the_door(FAY).edit("lib/more.py") == ""
    wait_until(then, 900)
    assert owners(then)["app/fay.py"] == (FAY, "")


def test_a_session_that_is_resumed_has_what_it_had(then: Scene) -> None:
    sue = then.at_the_door(SUE)
    sue.tell("SessionStart", source="resume")
    with LockManager.open(then.root) as manager:
        pids = {
            one.owner.witness.pid
            for one in manager.active_grants()
            if one.owner.session == SUE and one.owner.witness is not None
        }
    assert pids == {sue.process.pid}
    assert owners(then)["lib/sue.py"] == (SUE, "")


# Families


def test_what_is_held_above_goes_down_to_a_sub_agent(then: Scene) -> None:
    gus = then.at_the_door(GUS)
    assert gus.edit("README.md", agent_id=GRANDCHILD) == ""
    assert owners(then)["README.md"] == (GUS, GRANDCHILD)
    assert "lib/grand.py" in gus.edit("lib/grand.py", agent_id="a00000000000000ff")


def test_what_a_sub_agent_changed_goes_up_a_generation_at_a_time(then: Scene) -> None:
    gus = then.at_the_door(GUS)
    gus.tell("SubagentStop", agent_id=GRANDCHILD)
    assert owners(then)["lib/new.py"] == (GUS, CHILD)
    gus.tell("SubagentStop", agent_id=CHILD)
    for path in ("README.md", "lib/grand.py", "lib/new.py"):
        assert owners(then)[path] == (GUS, "")


def test_the_next_sub_agent_is_of_the_one_that_called_first(then: Scene) -> None:
    gus = then.at_the_door(GUS)
    gus.tell("PreToolUse-Agent", agent_id=CHILD)  # the session's own call came before
    gus.tell("SubagentStart", agent_id="a0000000000000005")
    assert gus.edit("lib/five.py", agent_id="a0000000000000005") == ""
    gus.tell("SubagentStop", agent_id="a0000000000000005")
    assert owners(then)["lib/five.py"] == (GUS, "")


# Damage


@pytest.mark.parametrize(
    ("name", "damaged"),
    [(ANN, "app/x.py"), (BOB, "lib/y.py"), (IVY, "lib/y.py")],
    ids=["the owner", "another owner", "who did it"],
)
def test_damage_is_told_to_those_who_have_not_heard_of_it(
    then: Scene, name: Name, damaged: str
) -> None:
    agent = then.at_the_door(name)

    def told() -> str:
        return context(agent.tell("PostToolUse-Write", tool_input={"file_path": "free.py"}))

    first = told()
    assert damaged in first
    assert "holdfast undo " in first
    assert told() == "", "once"
    hold(then, "undo", first.partition("holdfast undo ")[2].split()[0])
    assert (then.root / damaged).read_text() == "new\n"


def test_what_could_not_be_undone_can_be_tried_again(then: Scene) -> None:
    events: list[dict[str, Any]] = [
        json.loads(line) for line in hold(then, "log", "--json").splitlines()
    ]
    (undone,) = [event["data"] for event in events if event["type"] == "damage_undone"]
    shown = json.loads(hold(then, "undo", undone["id"], "--json", code=1))
    assert [one["path"] for one in shown["left"]] == ["lib/sue.py"]
    file = then.root / "lib/sue.py"
    file.write_text("new\nsneaky\n")
    hold(then, "undo", undone["id"])
    assert file.read_text() == "new\n"
    hold(then, "undo", undone["id"], code=1)
