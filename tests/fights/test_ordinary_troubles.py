"""Moments of an ordinary day that once went wrong, each reduced to its smallest case."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import until
from holdfast import Event, LockManager

from .day.agent import Agent
from .day.repository import Day


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    made = Day(tmp_path, seed=1)
    (made.root / "holdfast.toml").write_text("[gate]\nretry_seconds = 0.5\nidle_seconds = 0.2\n")
    yield made
    made.close()


@pytest.fixture
def ann(day: Day) -> Agent:
    return day.agents[0]


@pytest.fixture
def bob(day: Day) -> Agent:
    return day.agents[1]


def told(agent: Agent, event: str, **data: Any) -> str:
    whole = {"session_id": agent.client.session, "cwd": str(agent.day.root)}
    return json.dumps({**whole, "hook_event_name": event, **data})


def tell(agent: Agent, event: str, **data: Any) -> dict[str, Any]:
    return outcome(agent.client.ask(told(agent, event, **data)))


def outcome(asked: Generator[None, None, dict[str, Any]]) -> dict[str, Any]:
    while True:
        try:
            next(asked)
        except StopIteration as answer:
            value: dict[str, Any] = answer.value
            return value


def settings(agent: Agent, *, hold: float, retry: float, idle: float) -> None:
    (agent.day.root / "holdfast.toml").write_text(
        f"[gate]\nhold_seconds = {hold}\nretry_seconds = {retry}\nidle_seconds = {idle}\n"
    )


def resting(agent: Agent) -> list[Event]:
    with LockManager.open(agent.day.root) as manager:
        return [
            event for event in manager.events()
            if event.type == "agent_resting" and agent.client.session in event.data["note"]
        ]  # fmt: skip


def refusal(answer: dict[str, Any]) -> str:
    return str(answer.get("hookSpecificOutput", {}).get("permissionDecisionReason", ""))


def command(line: str) -> dict[str, Any]:
    return {"tool_name": "Bash", "tool_input": {"command": line}}


def edit(agent: Agent, path: str) -> str:
    tool = agent.tool([path])
    refused = refusal(tell(agent, "PreToolUse", **tool))
    if not refused:
        agent.write(path, agent.line())
        tell(agent, "PostToolUse", **tool)
    return refused


def run(agent: Agent, line: str) -> None:
    assert not refusal(tell(agent, "PreToolUse", **command(line)))
    assert agent.client.run(line).code == 0
    assert not tell(agent, "PostToolUse", **command(line))


def lapse(agent: Agent) -> None:
    """End a turn without a commit, and wait until the agent's leases have lapsed."""
    tell(agent, "Stop")
    with LockManager.open(agent.day.root) as manager:
        until(lambda: not manager.active_grants(), "the lease has lapsed")


def interrupted_in_line(agent: Agent, path: str) -> None:
    """Wait for another agent's file until the user interrupts: the client kills the hook."""
    asked = agent.client.ask(told(agent, "PreToolUse", **agent.tool([path])), quick=False)
    next(asked)
    with LockManager.open(agent.day.root) as manager:
        until(lambda: bool(manager.queue()), "it stands in line")
    os.kill(agent.client.child, signal.SIGKILL)


def past_the_retry() -> None:
    end = time.monotonic() + 0.6
    until(lambda: time.monotonic() > end, "the moment of the retry is over")


def test_an_edit_under_way_is_no_damage_of_a_command_that_runs_meanwhile(
    ann: Agent, bob: Agent
) -> None:
    assert not refusal(tell(ann, "PreToolUse", **ann.tool(["app/ann0.py"])))
    tell(bob, "PreToolUse", **command("make test"))
    ann.write("app/ann0.py", ann.line())
    assert tell(bob, "PostToolUse", **command("make test")) == {}


def test_a_plain_write_under_way_is_no_damage_of_a_command_that_runs_meanwhile(
    ann: Agent, bob: Agent
) -> None:
    edit(ann, "app/ann0.py")
    sed = "sed -i '1a # more' app/ann0.py"
    assert tell(ann, "PreToolUse", **command(sed)) == {}
    tell(bob, "PreToolUse", **command("make test"))
    assert ann.client.run(sed).code == 0
    assert tell(ann, "PostToolUse", **command(sed)) == {}
    assert tell(bob, "PostToolUse", **command("make test")) == {}


def test_a_file_that_lapsed_while_anothers_command_ran_is_still_free(
    ann: Agent, bob: Agent
) -> None:
    tell(bob, "PreToolUse", **command("make test"))
    edit(ann, "app/ann0.py")
    lapse(ann)
    tell(bob, "PostToolUse", **command("make test"))
    tell(ann, "UserPromptSubmit", prompt="go on")
    assert edit(ann, "app/ann0.py") == ""


def test_a_removal_that_lapsed_is_not_of_the_next_command(ann: Agent, bob: Agent) -> None:
    run(ann, "rm app/ann0.py")
    lapse(ann)
    tell(bob, "PreToolUse", **command("make test"))
    edit(ann.day.agents[2], "app/cid0.py")  # a third agent writes in the same folder
    tell(bob, "PostToolUse", **command("make test"))
    done = ann.client.run("git commit -q -m gone -- app/ann0.py")
    assert done.code == 0, done


def test_nothing_is_kept_for_one_who_stopped_in_line(ann: Agent, bob: Agent) -> None:
    edit(ann, "app/ann0.py")
    interrupted_in_line(bob, "app/ann0.py")
    tell(bob, "Stop")
    assert ann.client.run("git commit -q -m mine -- app/ann0.py").code == 0
    past_the_retry()
    assert edit(ann, "app/ann0.py") == ""


def test_what_came_free_is_told_with_the_next_event_and_written_then(
    ann: Agent, bob: Agent
) -> None:
    settings(ann, hold=0.05, retry=30, idle=20)
    edit(ann, "app/ann0.py")
    assert "You are number 1 in line" in edit(bob, "app/ann0.py")
    assert edit(bob, "app/bob0.py") == ""  # bob works on something else meanwhile
    assert ann.client.run("git commit -q -m mine -- app/ann0.py").code == 0
    answer = tell(bob, "PreToolUse", **command("ls app"))
    assert "app/ann0.py came free and is yours now" in json.dumps(answer)
    assert "app/ann0.py" in edit(ann, "app/ann0.py")
    assert edit(bob, "app/ann0.py") == ""


def test_who_has_nothing_else_to_do_waits_at_its_stop_and_goes_on(ann: Agent, bob: Agent) -> None:
    settings(ann, hold=0.05, retry=30, idle=20)
    edit(ann, "app/ann0.py")
    assert edit(bob, "app/ann0.py")
    stop = bob.client.ask(told(bob, "Stop", stop_hook_active=False), quick=False)
    next(stop)
    until(lambda: bool(resting(bob)), "the stop is held open")
    assert ann.client.run("git commit -q -m mine -- app/ann0.py").code == 0
    answer = outcome(stop)
    assert answer["decision"] == "block"
    assert answer["reason"].startswith("app/ann0.py came free and is yours now")
    assert "app/ann0.py" in edit(ann, "app/ann0.py")
    assert edit(bob, "app/ann0.py") == ""
    assert "decision" not in tell(bob, "Stop", stop_hook_active=True)


def test_a_prompt_after_a_retry_was_due_finds_the_file_free(ann: Agent, bob: Agent) -> None:
    settings(ann, hold=0.05, retry=0.5, idle=20)
    edit(ann, "app/ann0.py")
    assert edit(bob, "app/ann0.py")
    assert ann.client.run("git commit -q -m mine -- app/ann0.py").code == 0
    past_the_retry()
    answer = tell(bob, "UserPromptSubmit", prompt="and now?")
    assert "app/ann0.py came free and is yours now" in json.dumps(answer)
    assert edit(bob, "app/ann0.py") == ""


def test_nothing_is_kept_for_long_for_one_who_does_not_come(ann: Agent, bob: Agent) -> None:
    settings(ann, hold=0.05, retry=30, idle=0.2)
    edit(ann, "app/ann0.py")
    interrupted_in_line(bob, "app/ann0.py")
    assert ann.client.run("git commit -q -m mine -- app/ann0.py").code == 0
    with LockManager.open(ann.day.root) as manager:
        assert [grant.owner.session for grant in manager.active_grants()] == [bob.client.session]
        until(lambda: not manager.active_grants(), "what was kept has lapsed")
    tell(bob, "UserPromptSubmit", prompt="do something else")
    assert edit(bob, "app/bob0.py") == ""
    assert edit(ann, "app/ann0.py") == ""
