"""The gate with real Claude Codes: behaviour that is theirs alone."""

from __future__ import annotations

import time

import pytest

from helpers_cli import is_gone, wait_for_file
from helpers_processes import LINUX_ONLY, until

from .crew import BLOCKED, REFUSED, SERVER, Agent, Claudes, Gateway
from .gated import AT_ONCE, HELD, Gated
from .servers import agent, bash, write

pytestmark = LINUX_ONLY


def test_the_user_reads_a_refusal_too_and_a_whole_file_is_not_written_either(
    gated: Gated, claudes: Claudes
) -> None:
    gated.init(**AT_ONCE)
    owner = claudes.owner()
    other = claudes.start("other", write(gated.root / "a.txt", "theirs\n"))
    assert f"{owner.name} has held it" in other.ends().stdout
    assert f"{REFUSED}a.txt has been locked for writing by {owner.name}" in other.results[0]
    assert gated.text() == "mine\n"
    owner.ends()


# A Claude that stays after its answer, and takes more prompts


def test_a_prompt_after_a_stop_keeps_the_files(gated: Gated, claudes: Claudes) -> None:
    gated.init(**AT_ONCE, idle_seconds=3)
    leave = Gateway()
    claudes.server.scripts["more"] = [leave.then()]
    owner = claudes.start("owner", claudes.edit("a.txt", "old", "mine"), stays=True)
    until(lambda: gated.happened("agent_resting"), "it stopped")
    owner.running.say("[[more]]")
    claudes.server.wait_for("more")
    woken = time.monotonic()
    assert len(gated.happened("agent_awake")) == 1
    until(lambda: time.monotonic() > woken + 3.5, "more than the idle time has passed")
    assert gated.held() == {"a.txt": owner.name}
    leave.open()
    owner.running.hang_up()
    owner.ends()
    assert gated.held() == {}


def test_a_server_in_the_background_keeps_no_file_after_a_stop(
    gated: Gated, claudes: Claudes
) -> None:
    gated.init(**AT_ONCE, idle_seconds=1)
    server = bash(SERVER, background=True)
    owner = claudes.start("owner", claudes.edit("a.txt", "old", "mine"), server, stays=True)
    has_answered(owner)
    pid = int(wait_for_file(gated.root.parent / "pid"))
    until(lambda: gated.held() == {}, "its file came free")
    assert not is_gone(pid)
    assert not owner.has_ended()
    claudes.run("other", claudes.edit("a.txt", "mine", "theirs"))
    assert gated.text() == "theirs\n"
    owner.running.kill()  # otherwise it would wait for the server


def has_answered(agent: Agent) -> None:
    """Wait until the agent has reported the end of its turn to its user."""
    until(lambda: '"type":"result"' in agent.running.said().stdout, "the user was told")


def stopped_by(owner: Agent, claudes: Claudes) -> Agent:
    """Another agent that tried to edit the owner's file and was stopped; it stays."""
    stopped = claudes.start("other", claudes.edit("a.txt", "mine", "theirs"), stays=True)
    until(lambda: claudes.gated.blockers(), "the other was stopped")
    (report,) = claudes.gated.blockers()
    assert (report["agent"], report["owner"]) == (stopped.name, owner.name)
    return stopped


def test_a_retry_that_fails_stops_the_agent_until_its_user_says_something(
    gated: Gated, claudes: Claudes
) -> None:
    gated.init(**HELD)
    owner = claudes.owner()
    stopped = stopped_by(owner, claudes)
    has_answered(stopped)
    said = stopped.running.said().stdout
    assert BLOCKED in said
    assert f"owner           {owner.name}" in said
    # refused, then stopped: its model got no further request
    assert len(claudes.server.asked("other")) == 2
    assert gated.text() == "mine\n"
    owner.ends()
    claudes.server.scripts["on"] = [claudes.edit("a.txt", "mine", "theirs")]
    stopped.running.say("[[on]]")
    claudes.server.wait_for("on", 1)
    stopped.running.hang_up()
    stopped.ends()
    assert gated.text() == "theirs\n"
    assert gated.blockers() == []


@pytest.mark.parametrize("format", ["text", "json"])
def test_one_that_ended_blocked_without_a_terminal_says_so(
    gated: Gated, claudes: Claudes, format: str
) -> None:
    gated.init(**HELD)
    owner = claudes.owner()
    change = claudes.edit("a.txt", "mine", "theirs")
    other = claudes.start("other", change, options=["--output-format", format])
    said = other.ends().stderr
    (report,) = gated.blockers()
    assert f"{report['agent']} ended blocked ({BLOCKED})" in said
    assert "blocked file    a.txt" in said
    assert f"owner           {owner.name}" in said
    assert gated.text() == "mine\n"
    owner.ends()
    free = claudes.start("free", claudes.edit("b.txt", "old", "new"))
    assert free.ends().stderr == ""


def test_holdfast_resume_lets_a_stopped_agent_go_on(gated: Gated, claudes: Claudes) -> None:
    gated.init(**HELD)
    owner = claudes.owner()
    stopped = stopped_by(owner, claudes)
    assert stopped.name in gated.by_a_person("blockers").out
    answer = gated.by_a_person("resume")
    assert answer.code == 0, answer
    assert f"{stopped.name} may continue" in answer.out
    assert owner.name in answer.out
    assert gated.blockers() == []
    assert [event["data"]["agent"] for event in gated.happened("agent_resumed")] == [stopped.name]
    owner.ends()
    stopped.running.hang_up()
    stopped.running.wait()


def test_holdfast_resume_takes_the_name_of_an_agent(gated: Gated, claudes: Claudes) -> None:
    gated.init(**HELD)
    owner = claudes.owner()
    stopped = stopped_by(owner, claudes)
    answer = gated.by_a_person("resume", owner.name)
    assert f"{owner.name} is not blocked" in answer.out
    assert len(gated.blockers()) == 1
    answer = gated.by_a_person("resume", stopped.name)
    assert answer.code == 0, answer
    assert gated.blockers() == []


def test_the_parent_of_a_stopped_sub_agent_reads_why(gated: Gated, claudes: Claudes) -> None:
    gated.init(**HELD)
    owner = claudes.owner()
    claudes.server.scripts["child"] = [claudes.edit("a.txt", "mine", "child")]
    parent = claudes.start("main", agent("[[child]]"))
    assert BLOCKED in parent.ends().stdout
    assert gated.text() == "mine\n"
    assert owner.name in claudes.server.asked("main")[-1].text()
