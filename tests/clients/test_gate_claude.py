"""The gate with real Claude Codes, installed by the real `holdfast init` in a real repository."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, until
from holdfast.core.time import iso

from .drive import Running, run_claude, start_claude
from .gated import (
    AT_ONCE,
    BLOCKED,
    HELD,
    REFUSED,
    WOKEN,
    Gated,
    Gateway,
    first_to_end,
    is_refusal,
    name,
    when,
)
from .servers import AnthropicServer, Turn, agent, bash, edit, write

pytestmark = LINUX_ONLY

ROUNDS = 10


@pytest.fixture
def gated(repo: Path) -> Gated:
    return Gated(repo)


class Owner:
    """A Claude that has edited `a.txt` and is still at work, until `finish`."""

    def __init__(self, gated: Gated, server: AnthropicServer, *first: object) -> None:
        self._leave = Gateway()
        steps = first or (edit(gated.root / "a.txt", "old", "mine"),)
        server.scripts["owner"] = [*steps, self._leave.then("Done.")]
        self.running = start_claude(gated.root, "[[owner]]", server, home=gated.home())
        server.wait_for("owner", len(steps))
        self.name = name("claude", self.running.said().session)

    def finish(self) -> None:
        self._leave.open()
        assert self.running.wait().code == 0


def test_a_refused_edit_leaves_the_file_as_it_is_and_the_model_reads_whose_it_is(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(gated, anthropic)
    assert gated.held() == {"a.txt": owner.name}
    anthropic.scripts["other"] = [
        edit(gated.root / "a.txt", "mine", "theirs"),
        write(gated.root / "a.txt", "theirs\n"),
        edit(gated.root / "b.txt", "old", "free"),
        "Done.",
    ]
    other = run_claude(gated.root, "[[other]]", anthropic, home=gated.home())
    assert gated.text() == "mine\n"
    assert gated.text("b.txt") == "free\n"
    first, again, free = anthropic.results("other")
    assert f"{REFUSED}a.txt is being written by {owner.name}" in first
    assert f"a.txt belongs to {owner.name}, as you were told" in again
    assert not is_refusal(free)
    # and the user reads it, too
    assert f"{owner.name} has held it" in other.stdout
    assert gated.held() == {"a.txt": owner.name}
    owner.finish()
    assert gated.held() == {}


def test_two_at_once_on_one_file_make_exactly_one_edit_each_round(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**HELD)
    lines: list[str] = []
    (gated.root / "a.txt").write_text("end\n")
    for number in range(ROUNDS):
        over = Gateway()
        runs: dict[str, Running] = {}
        for who in ("one", "two"):
            script, line = f"{who}-{number}", f"{number} by {who}"
            anthropic.scripts[script] = [
                edit(gated.root / "a.txt", "end\n", f"{line}\nend\n"),
                over.unless_refused(anthropic),
            ]
            home = gated.root.parent / who
            runs[line] = start_claude(gated.root, f"[[{script}]]", anthropic, home=home)
        loser = first_to_end(*runs.values())
        (winner,) = (line for line, run in runs.items() if run is not loser)
        lines.append(winner)
        assert gated.text().splitlines() == [*lines, "end"]
        over.open()
        results = {line: run.wait() for line, run in runs.items()}
        assert all(result.code == 0 for result in results.values())
        assert BLOCKED in loser.said().stdout
        assert BLOCKED not in results[winner].stdout
        assert gated.held() == {}
    assert gated.text().splitlines() == [*lines, "end"]


def test_with_wake_two_on_one_file_take_turns_at_once_and_no_edit_is_lost(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**WOKEN)
    (gated.root / "a.txt").write_text("end\n")
    lines: set[str] = set()
    for number in range(ROUNDS):
        runs = []
        over = Gateway()
        for who in ("one", "two"):
            script, line = f"{who}-{number}", f"{number} by {who}"
            lines.add(line)
            anthropic.scripts[script] = [
                edit(gated.root / "a.txt", "end\n", f"{line}\nend\n"),
                over.then("Done."),
            ]
            home = gated.root.parent / who
            runs.append(start_claude(gated.root, f"[[{script}]]", anthropic, home=home))
        until(lambda n=number: len(gated.happened("contention_heartbeat")) > n, "one must wait")
        over.open()
        for run in runs:
            assert not is_refusal(run.wait().stdout)
        *found, end = gated.text().splitlines()
        assert (sorted(found), end) == (sorted(lines), "end")
        beat = gated.happened("contention_heartbeat")[-1]
        served = [
            event
            for event in gated.happened("contention_over")
            if event["data"]["note"] == beat["data"]["note"]
        ]
        assert served[0]["timestamp"] < iso(beat["data"]["retry_at"])


#: A file, and a command that writes it past every edit tool.
WAYS = {
    "a.txt": "sed -i s/old/new/ a.txt",
    "b.txt": "echo new | tee b.txt",
    "c.txt": "echo new > c.txt",
    "d.txt": "cd . && echo new >> ./d.txt",
    "e.txt": "cp b.txt e.txt",
    "f.txt": "rm -f f.txt",
}


def test_shell_commands_that_write_what_another_has_are_refused(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    for path in WAYS:
        (gated.root / path).write_text("old\n")
    gated.init(**AT_ONCE)
    takes = [edit(gated.root / path, "old", "old, mine") for path in WAYS]
    owner = Owner(gated, anthropic, *takes)
    anthropic.scripts["other"] = [*map(bash, WAYS.values()), bash("cat a.txt > g.txt"), "Done."]
    run_claude(gated.root, "[[other]]", anthropic, home=gated.home())
    *refusals, free = anthropic.results("other")
    for path, said in zip(WAYS, refusals, strict=True):
        assert f"{REFUSED}{path} is being written by {owner.name}" in said
        assert gated.text(path) == "old, mine\n"
    assert not is_refusal(free)
    assert gated.text("g.txt") == "old, mine\n"
    owner.finish()
    assert gated.happened("damage") == []


def test_siblings_exclude_each_other_and_the_parent_gets_the_lease_back(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE)
    path = gated.root / "a.txt"
    leave = Gateway()
    during: list[dict[str, str]] = []
    anthropic.scripts["main"] = [
        edit(path, "old", "parent"),
        Turn(calls=(agent("[[one]]"), agent("[[two]]"))),
        leave.then(edit(path, "one", "parent again")),
        leave.then("Done."),
    ]
    anthropic.scripts["one"] = [
        edit(path, "parent", "one"),
        when(lambda: anthropic.wait_for("two", 1), "Done."),
    ]
    anthropic.scripts["two"] = [
        when(
            lambda: (anthropic.wait_for("one", 1), during.append(gated.held())),
            edit(path, "one", "two"),
        ),
        "Done.",
    ]
    running = start_claude(gated.root, "[[main]]", anthropic)
    anthropic.wait_for("main", 2)
    parent = name("claude", running.said().session)
    (child,) = {holder for held in during for holder in held.values()}
    assert child.startswith(f"{parent}:")
    (said,) = anthropic.results("two")
    assert f"{REFUSED}a.txt is being written by {child}" in said
    assert gated.text() == "one\n"
    assert gated.held() == {"a.txt": parent}
    leave.open()
    assert running.wait().code == 0
    assert gated.text() == "parent again\n"
    assert gated.held() == {}


#: Tells its pid, waits for a file, and writes late; what is left of an agent that was killed.
ORPHAN = (
    "echo $$ > ../pid.new; mv ../pid.new ../pid; until [ -e ../go ]; do sleep 0.05; done; "
    "echo late > a.txt"
)


def test_a_killed_owner_is_taken_over_from_once_its_orphans_are_gone(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE)
    anthropic.scripts["owner"] = [edit(gated.root / "a.txt", "old", "mine"), bash(ORPHAN), "Done."]
    running = start_claude(gated.root, "[[owner]]", anthropic, home=gated.home())
    outside = gated.root.parent
    until((outside / "pid").exists, "the command began")
    running.kill()
    owner = name("claude", running.said().session)
    anthropic.scripts["early"] = [edit(gated.root / "a.txt", "mine", "theirs"), "Done."]
    run_claude(gated.root, "[[early]]", anthropic, home=gated.home())
    assert owner in anthropic.results("early")[0]
    assert gated.text() == "mine\n"
    (outside / "go").touch()
    pid = int((outside / "pid").read_text())
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the orphan ended")
    anthropic.scripts["heir"] = [edit(gated.root / "a.txt", "late", "late, theirs"), "Done."]
    run_claude(gated.root, "[[heir]]", anthropic, home=gated.home())
    assert not is_refusal(anthropic.results("heir")[0])
    assert gated.text() == "late, theirs\n"


def test_a_commit_releases_what_it_has_while_its_agent_goes_on(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(
        gated,
        anthropic,
        edit(gated.root / "a.txt", "old", "mine"),
        edit(gated.root / "b.txt", "old", "not ready"),
        bash("git commit -q -m mine a.txt && git log -1 --format=%s"),
    )
    assert "mine" in anthropic.results("owner")[2]
    assert gated.held() == {"b.txt": owner.name}
    anthropic.scripts["other"] = [
        edit(gated.root / "a.txt", "mine", "mine and theirs"),
        bash("git commit -q -m everything -a"),
        bash("git commit -q -m theirs a.txt"),
        "Done.",
    ]
    run_claude(gated.root, "[[other]]", anthropic, home=gated.home())
    free, everything, own = anthropic.results("other")
    assert not is_refusal(free)
    assert "b.txt" in everything
    assert owner.name in everything
    assert owner.name not in own
    assert gated.git("log", "--format=%s").split() == ["theirs", "mine", "settings", "first"]
    assert gated.held() == {"b.txt": owner.name}
    owner.finish()


def test_after_a_stop_files_come_free_though_the_client_lives_on(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE, idle_seconds=4)
    anthropic.scripts["owner"] = [
        edit(gated.root / "a.txt", "old", "mine"),
        bash("false && echo new > b.txt; echo over"),
        "Done.",
    ]
    running = start_claude(gated.root, "[[owner]]", anthropic, home=gated.home(), stays=True)
    until(lambda: gated.happened("agent_resting"), "it stopped")
    # what it never changed is free at once, the rest is not
    assert list(gated.held()) == ["a.txt"]
    until(lambda: gated.held() == {}, "its file came free")
    assert running.process.poll() is None
    anthropic.scripts["other"] = [edit(gated.root / "a.txt", "mine", "theirs"), "Done."]
    run_claude(gated.root, "[[other]]", anthropic, home=gated.home())
    assert gated.text() == "theirs\n"
    running.hang_up()
    assert running.wait().code == 0


def test_a_prompt_after_a_stop_keeps_the_files_and_silence_frees_nothing(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE, idle_seconds=3)
    leave = Gateway()
    anthropic.scripts["owner"] = [edit(gated.root / "a.txt", "old", "mine"), "Done."]
    anthropic.scripts["more"] = [leave.then("Done.")]
    running = start_claude(gated.root, "[[owner]]", anthropic, home=gated.home(), stays=True)
    until(lambda: gated.happened("agent_resting"), "it stopped")
    running.say("[[more]]")
    anthropic.wait_for("more")
    woken = time.monotonic()
    assert len(gated.happened("agent_awake")) == 1
    until(lambda: time.monotonic() > woken + 3.5, "more than the idle time has passed")
    assert list(gated.held()) == ["a.txt"]
    leave.open()
    running.hang_up()
    assert running.wait().code == 0
    assert gated.held() == {}


def test_background_work_keeps_the_files_after_a_stop(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE, idle_seconds=1)
    anthropic.scripts["owner"] = [
        edit(gated.root / "a.txt", "old", "mine"),
        bash("until [ -e ../go ]; do sleep 0.05; done", background=True),
        "Done.",
        "Noted.",
        "Noted.",
    ]
    running = start_claude(gated.root, "[[owner]]", anthropic, home=gated.home(), stays=True)
    until(lambda: '"type":"result"' in running.said().stdout, "it stopped")
    stopped = time.monotonic()
    until(lambda: time.monotonic() > stopped + 1.5, "more than the idle time has passed")
    assert list(gated.held()) == ["a.txt"]
    (gated.root.parent / "go").touch()
    until(lambda: gated.held() == {}, "its file came free after the work in the background")
    running.hang_up()
    assert running.wait().code == 0


def test_a_resumed_session_has_what_it_had(gated: Gated, anthropic: AnthropicServer) -> None:
    gated.init(**AT_ONCE)
    home = gated.home()
    leave = Gateway()
    anthropic.scripts["first"] = [edit(gated.root / "a.txt", "old", "mine"), leave.then("Done.")]
    first = start_claude(gated.root, "[[first]]", anthropic, home=home)
    anthropic.wait_for("first", 1)
    session = first.said().session
    first.kill()
    until(lambda: gated.held() == {}, "the killed one has nothing any more")
    anthropic.scripts["again"] = [leave.then(edit(gated.root / "a.txt", "mine", "mine again"))]
    again = start_claude(gated.root, "[[again]]", anthropic, home=home, resume=session)
    anthropic.wait_for("again")
    assert gated.held() == {"a.txt": name("claude", session)}
    anthropic.scripts["other"] = [edit(gated.root / "a.txt", "mine", "theirs"), "Done."]
    run_claude(gated.root, "[[other]]", anthropic, home=gated.home())
    assert name("claude", session) in anthropic.results("other")[0]
    leave.open()
    assert again.wait().session == session
    assert gated.text() == "mine again\n"
    assert gated.held() == {}


def test_a_retry_that_succeeds_goes_on_as_if_nothing_had_been(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(retry_seconds=4, timeout_seconds=60)
    owner = Owner(gated, anthropic)
    anthropic.scripts["other"] = [edit(gated.root / "a.txt", "mine", "mine and theirs"), "Done."]
    running = start_claude(gated.root, "[[other]]", anthropic, home=gated.home())
    until(lambda: gated.happened("contention_heartbeat"), "the other was refused")
    owner.finish()
    result = running.wait()
    assert not is_refusal(result.stdout)
    assert gated.text() == "mine and theirs\n"
    (beat,) = gated.happened("contention_heartbeat")
    assert beat["data"]["retry_at"] - beat["data"]["denied_at"] == 4_000_000
    assert gated.blockers() == []


def test_a_retry_that_fails_stops_the_agent_until_its_user_says_something(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**HELD)
    owner = Owner(gated, anthropic)
    change = edit(gated.root / "a.txt", "mine", "theirs")
    anthropic.scripts["other"] = [change, "Not reached."]
    running = start_claude(gated.root, "[[other]]", anthropic, home=gated.home(), stays=True)
    until(lambda: gated.blockers(), "the other was stopped")
    until(lambda: '"type":"result"' in running.said().stdout, "the user was told")
    (report,) = gated.blockers()
    me = name("claude", running.said().session)
    assert report["state"] == "waiting_for_instruction"
    assert (report["agent"], report["owner"], report["blocked_file"]) == (me, owner.name, "a.txt")
    assert report["retry_interval_seconds"] == 1
    assert report["lock_age_seconds"] > 0
    assert report["last_heartbeat"]
    said = running.said().stdout
    assert BLOCKED in said
    assert f"owner           {owner.name}" in said
    # stopped: its model was not asked again
    assert len(anthropic.asked("other")) == 1
    assert gated.text() == "mine\n"
    owner.finish()
    anthropic.scripts["on"] = [change, "Done."]
    running.say("[[on]]")
    anthropic.wait_for("on", 1)
    running.hang_up()
    assert running.wait().code == 0
    assert gated.text() == "theirs\n"
    assert gated.blockers() == []


def test_holdfast_resume_lets_a_stopped_agent_go_on(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**HELD)
    owner = Owner(gated, anthropic)
    anthropic.scripts["other"] = [edit(gated.root / "a.txt", "mine", "theirs"), "Not reached."]
    running = start_claude(gated.root, "[[other]]", anthropic, home=gated.home(), stays=True)
    until(lambda: gated.blockers(), "the other was stopped")
    me = name("claude", running.said().session)
    assert me in gated.by_a_person("blockers").out
    answer = gated.by_a_person("resume")
    assert answer.code == 0, answer
    assert f"{me} may go on" in answer.out
    assert owner.name in answer.out
    assert gated.blockers() == []
    assert [event["data"]["agent"] for event in gated.happened("agent_resumed")] == [me]
    owner.finish()
    running.hang_up()
    running.wait()


def test_holdfast_resume_takes_the_name_of_an_agent(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**HELD)
    owner = Owner(gated, anthropic)
    anthropic.scripts["other"] = [edit(gated.root / "a.txt", "mine", "theirs"), "Not reached."]
    running = start_claude(gated.root, "[[other]]", anthropic, home=gated.home(), stays=True)
    until(lambda: gated.blockers(), "the other was stopped")
    answer = gated.by_a_person("resume", owner.name)
    assert f"{owner.name} is not blocked" in answer.out
    assert len(gated.blockers()) == 1
    answer = gated.by_a_person("resume", name("claude", running.said().session))
    assert answer.code == 0, answer
    assert gated.blockers() == []


def test_a_report_outlives_a_client_that_ends_when_it_is_stopped(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**HELD)
    owner = Owner(gated, anthropic)
    anthropic.scripts["other"] = [edit(gated.root / "a.txt", "mine", "theirs"), "Not reached."]
    result = run_claude(gated.root, "[[other]]", anthropic, home=gated.home())
    assert BLOCKED in result.stdout
    assert [report["owner"] for report in gated.blockers()] == [owner.name]


@pytest.mark.xfail(strict=True, reason="nobody tells the parent of a sub-agent that was stopped")
def test_the_parent_of_a_stopped_sub_agent_reads_why(
    gated: Gated, anthropic: AnthropicServer
) -> None:
    gated.init(**HELD)
    owner = Owner(gated, anthropic)
    anthropic.scripts["main"] = [agent("[[child]]"), "Done."]
    anthropic.scripts["child"] = [edit(gated.root / "a.txt", "mine", "child"), "Not reached."]
    result = run_claude(gated.root, "[[main]]", anthropic, home=gated.home())
    assert gated.text() == "mine\n"
    assert BLOCKED in result.stdout
    assert owner.name in anthropic.asked("main")[-1].text()
