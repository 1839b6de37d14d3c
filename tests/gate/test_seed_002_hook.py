"""File leases through the hook: the input of real clients, and the actions that its answers cause.

Where 180 s or 30 s pass, the hook's function is called on a clock that the test moves; elsewhere
the hook is the program that clients start.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from threading import Barrier, get_ident
from time import monotonic
from typing import Any

import pytest

from conftest import until
from helpers_commits import Repo
from helpers_guard import made_repository, sh
from helpers_guard import owners as owners_of
from helpers_hook import Agent, AtTheDoor, InProcesses, Scene, answer_of, refusal, sample
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
from holdfast.core.ledger_time import iso
from holdfast.core.model import SECOND, Event, Witness, agent_key
from holdfast.gate.rulebook.agent_records import waits
from holdfast.manager import transactions
from holdfast.manager.owners.liveness import witness_of
from holdfast.store.sqlite.sqlite_store import SqliteStore
from stage import settled

ANN, BOB, CID = "ann-session", "bob-session", "cid-session"
#: No call is held open: the answer comes immediately.
NOT_HELD = "[gate]\nhold_seconds = 0\n"
#: As in the seed's diagram: a free file goes to the next in line at its retry, and not before.
TO_THE_LETTER = "[gate]\nwake = false\n"


@pytest.fixture
def scene(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    settled(repository / "app/x.rb", repository / "lib/y.rb")
    made = Scene(repository, monkeypatch)
    yield made
    made.close()


def two(scene: Scene) -> tuple[InProcesses, InProcesses]:
    """Two agents whose hooks are processes; no call of theirs is held."""
    (scene.root / "holdfast.toml").write_text(NOT_HELD)
    return scene.in_processes(ANN), scene.in_processes(BOB)


def set_up(scene: Scene, settings: str) -> None:
    (scene.root / "holdfast.toml").write_text(settings)


def text(scene: Scene, path: str) -> str:
    return (scene.root / path).read_text()


# The lease comes before the write

CALLS: list[tuple[str, str, dict[str, Any], list[str]]] = [
    ("claude", "PreToolUse-Write", {"file_path": "app/x.rb", "content": "new\n"}, ["app/x.rb"]),
    ("claude", "PreToolUse-Edit", {"file_path": "app/x.rb"}, ["app/x.rb"]),
    ("claude", "PreToolUse-NotebookEdit", {"notebook_path": "n.ipynb"}, ["n.ipynb"]),
    ("codex", "PreToolUse-apply_patch", {}, ["a.txt", "b.txt", "moved.txt", "new.txt"]),
]


@pytest.mark.parametrize(("client", "name", "fields", "files"), CALLS)
def test_seed002_01_the_hook_takes_a_lease_before_every_edit(
    scene: Scene, client: str, name: str, fields: dict[str, str], files: list[str]
) -> None:
    ann = scene.at_the_door(ANN, client)
    whole = {key: f"{scene.root}/{value}" for key, value in fields.items() if "path" in key}
    tool_input = {**sample(client, name)["tool_input"], **fields, **whole}
    assert ann.tell(name, tool_input=tool_input) == {}
    assert sorted(scene.owners()) == files
    assert text(scene, "app/x.rb") == "old\n"  # the hook is called before the write


def test_seed002_01_of_several_files_the_hook_leases_all_or_none(scene: Scene) -> None:
    ann, cid = scene.at_the_door(ANN), scene.at_the_door(CID, "codex")
    assert ann.edit("b.txt") == ""
    assert refusal(cid.tell("PreToolUse-apply_patch"))  # it writes four files, this one among them
    assert scene.owners() == {"b.txt": ANN}


def test_seed002_01_a_command_that_plainly_writes_takes_a_lease_too(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    assert ann.command("echo ann > app/x.rb") == {}
    assert scene.owners() == {"app/x.rb": ANN}
    assert ann.name in refusal(bob.command("echo bob > app/x.rb"))


def test_seed002_02_edits_pass_without_a_word_and_without_a_command(scene: Scene) -> None:
    ann, _bob = two(scene)
    for _ in range(2):  # two hooks of one agent count as one agent
        assert ann.ask("app/x.rb") == {}
    assert scene.owners() == {"app/x.rb": ANN}
    assert len(scene.grants()) == 1


def test_seed002_03_the_ledger_is_the_one_above_the_file_wherever_the_agent_is(
    scene: Scene, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".holdfast").mkdir(parents=True)
    (elsewhere / "app").mkdir()
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    assert ann.ask("lib/../app/x.rb", cwd=str(elsewhere)) == {}
    assert scene.owners() == {"app/x.rb": ANN}
    assert owners_of(elsewhere) == {}
    assert ann.name in refusal(bob.ask("app/x.rb", cwd=str(scene.root / "app")))


def test_seed002_03_the_settings_are_those_of_the_files_repository(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scene.root / "holdfast.toml").write_text("[gate]\nretry_seconds = 60\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/holdfast.toml").write_text("[gate]\nretry_seconds = 90\n")
    monkeypatch.chdir(tmp_path / "elsewhere")
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    bob.ask("app/x.rb", cwd=str(tmp_path / "elsewhere"))
    (heartbeat,) = scene.events("contention_heartbeat")
    assert heartbeat.data["retry_at"] - heartbeat.data["denied_at"] == 60 * SECOND


# One owner, as long as it lives


def test_seed002_04_two_agents_of_one_session_are_two_owners(scene: Scene) -> None:
    ann = scene.at_the_door(ANN)
    one, other = ({"agent_id": name, "agent_type": "general"} for name in ("one", "other"))
    assert ann.edit("app/x.rb", "one\n", **one) == ""
    assert ann.name_of("one") in ann.edit("app/x.rb", "other\n", **other)
    assert scene.owners() == {"app/x.rb": f"{ANN}/one"}
    assert text(scene, "app/x.rb") == "one\n"


def test_seed002_05_the_hook_refuses_an_edit_while_the_owner_lives(scene: Scene) -> None:
    ann, bob = two(scene)
    assert ann.edit("app/x.rb", "ann\n") == ""  # its hooks have ended
    assert ann.name in bob.edit("app/x.rb", "bob\n")
    assert text(scene, "app/x.rb") == "ann\n"


def test_seed002_05_however_long_ago_it_began(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    assert ann.edit("app/x.rb") == ""
    for _ in range(2):  # not even after a refusal
        scene.clock.advance(30 * 86400)
        assert ann.name in bob.edit("app/x.rb")
    assert scene.owners() == {"app/x.rb": ANN}


@LINUX_ONLY
def test_seed002_06_a_client_that_is_gone_keeps_no_file(scene: Scene) -> None:
    ann, bob = two(scene)
    ann.edit("app/x.rb")
    ann.edit("lib/y.rb")
    ann.kill()
    assert scene.owners() == {}
    assert bob.edit("app/x.rb") == ""
    assert scene.owners() == {"app/x.rb": BOB}


@LINUX_ONLY
def test_seed002_06_what_a_client_left_in_the_background_keeps_nothing(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    line = "nohup make serve &"
    assert refusal(ann.command(line)) == ""
    server = ann.shell("exec sleep 600")
    try:
        ann.command(line, "PostToolUse-Bash")
        ann.kill()
        assert scene.owners() == {}
        assert bob.edit("app/x.rb") == ""
    finally:
        server.kill()
        server.wait(60)


@LINUX_ONLY
def test_seed002_06_a_command_whose_call_is_open_keeps_the_files_until_it_ends(
    scene: Scene,
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert refusal(ann.command("make test")) == ""
    running = ann.shell("exec sleep 600")
    try:
        ann.kill()
        assert scene.owners() == {"app/x.rb": ANN}
        assert ann.name in bob.edit("app/x.rb")
    finally:
        running.kill()
        running.wait(60)
    assert scene.owners() == {}
    assert bob.edit("app/x.rb") == ""


def foreign(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's client runs where other processes cannot tell whether it is alive."""
    monkeypatch.setattr(
        "holdfast.gate.agents.witness_of",
        lambda pid: elsewhere(pid) if pid == agent.process.pid else witness_of(pid),
    )


def elsewhere(pid: int) -> Witness:
    return Witness(host="another", boot="b", namespace="1", pid=pid, start=1)


def test_seed002_06_an_owner_that_nobody_can_judge_keeps_a_file_for_half_an_hour(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    foreign(ann, monkeypatch)
    ann.edit("app/x.rb")
    scene.clock.advance(7200)
    assert ann.name in bob.edit("app/x.rb")  # from now on the lease expires
    scene.clock.advance(1799.999999)
    assert scene.owners() == {"app/x.rb": ANN}
    scene.clock.advance(0.000001)
    assert bob.edit("app/x.rb") == ""


def test_seed002_06_as_long_as_it_is_heard_of_it_keeps_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    foreign(ann, monkeypatch)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    for _ in range(3):
        scene.clock.advance(1700)
        ann.tell("PostToolUse-Write")
    assert scene.owners() == {"app/x.rb": ANN}


@LINUX_ONLY
def test_seed002_07_the_hook_looks_for_the_owner_before_each_refusal(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    for path in ("app/x.rb", "lib/y.rb", "new.rb"):
        ann.edit(path)
    assert bob.edit("app/x.rb")
    assert bob.edit("lib/y.rb")
    ann.kill()
    assert bob.edit("new.rb") == ""


@LINUX_ONLY
def test_seed002_08_the_next_edit_has_a_dead_owners_file_at_once(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.kill()
    assert bob.edit("app/x.rb") == ""  # without any time passing
    assert scene.events("lock_refused", "contention_heartbeat") == []
    assert scene.events("lock_reaped")[0].data["why"] == "owner dead"


@LINUX_ONLY
def test_seed002_08_a_client_that_was_killed_and_not_waited_for_is_dead_too(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.process.kill()
    os.waitid(os.P_PID, ann.process.pid, os.WEXITED | os.WNOWAIT)  # ended, but not reaped
    assert bob.edit("app/x.rb") == ""


# Heartbeat, and one retry


def contended(scene: Scene) -> tuple[Event, dict[str, Any]]:
    """The heartbeat of a refusal, and the message to the refused agent and its user."""
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    said = bob.ask("app/x.rb")
    (heartbeat,) = scene.events("contention_heartbeat")
    return heartbeat, said


def test_seed002_09_an_edit_that_is_refused_leaves_a_heartbeat(scene: Scene) -> None:
    heartbeat, _said = contended(scene)
    told = [heartbeat.data[name] for name in ("agent", "blocked", "owner")]
    assert told[:2] == [scene.agents[1].name, ["app/x.rb"]]
    assert told[2] == scene.agents[0].name
    assert heartbeat.data["owner_key"] == agent_key("claude", ANN)
    assert len(scene.events("lock_refused")) == 1


def test_seed002_10_its_retry_is_exactly_180_seconds_later(scene: Scene) -> None:
    heartbeat, said = contended(scene)
    assert heartbeat.data["denied_at"] == heartbeat.at
    assert heartbeat.data["retry_at"] == heartbeat.at + 180 * SECOND
    assert iso(heartbeat.data["retry_at"]) in refusal(said)


def test_seed002_10_a_refused_call_is_held_open_for_20_seconds_and_no_longer(
    scene: Scene,
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    bob.held_open = True
    begun = scene.clock.monotonic()
    said = refusal(bob.ask("app/x.rb"))
    assert scene.clock.monotonic() - begun == 20
    (heartbeat,) = scene.events("contention_heartbeat")
    assert heartbeat.data["retry_at"] == heartbeat.at + 180 * SECOND  # counted from the refusal
    assert iso(heartbeat.data["retry_at"]) in said
    assert "number 1 in line" in said
    assert len(scene.events("lock_refused")) == 1  # the held call looked, and attempted nothing


def test_seed002_10_a_stop_that_is_held_tries_again_at_that_moment_and_not_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    begun = scene.clock.monotonic()
    assert bob.edit("app/x.rb")
    bob.held_open = True

    def woken(seconds: float, waiter: object) -> bool:
        scene.clock.advance(min(seconds, 0.3))  # woken by another event
        assert not scene.events("agent_blocked")
        return True

    monkeypatch.setattr(bob, "wait", woken)
    said = bob.tell("Stop")
    assert scene.clock.monotonic() - begun == pytest.approx(180, abs=0.000001)
    assert "state=waiting_for_instruction" in said["systemMessage"]
    (heartbeat,) = scene.events("contention_heartbeat")
    (blocked,) = scene.events("agent_blocked")
    assert blocked.at == heartbeat.data["retry_at"]


def test_seed002_11_an_edit_before_the_retry_is_not_tried(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    before = len(scene.events())
    for passed in (0, 60, 119.999999):
        scene.clock.advance(passed)
        assert bob.edit("app/x.rb", "bob\n")
    assert len(scene.events()) == before
    scene.clock.advance(0.000001)
    assert bob.ask("app/x.rb", "bob\n").get("continue") is False  # the one retry


def test_seed002_11_nor_is_one_of_a_file_that_is_free_if_nothing_is_handed_over(
    scene: Scene,
) -> None:
    set_up(scene, TO_THE_LETTER)
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    ann.tell("SessionEnd")  # the file is free now, and reserved for bob
    before = len(scene.events())
    for passed in (0, 60, 119.999999):
        scene.clock.advance(passed)
        assert bob.edit("app/x.rb", "bob\n")
    assert len(scene.events()) == before
    scene.clock.advance(0.000001)
    assert bob.edit("app/x.rb", "bob\n") == ""


def test_seed002_12_the_edit_goes_on_when_the_retry_succeeds(scene: Scene) -> None:
    set_up(scene, TO_THE_LETTER)
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    assert bob.edit("app/x.rb", "bob\n")
    scene.clock.advance(100)
    ann.tell("SessionEnd")
    scene.clock.advance(80)
    assert bob.edit("app/x.rb", "bob\n") == ""
    resumed(scene, bob)


def test_seed002_12_a_held_edit_goes_on_when_its_file_comes_free(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    bob.held_open = True
    monkeypatch.setattr(bob, "wait", ended_meanwhile(scene, ann))
    assert bob.edit("app/x.rb", "bob\n") == ""
    resumed(scene, bob)


def test_seed002_12_what_came_free_is_told_with_the_next_event_and_is_not_retried(
    scene: Scene,
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    assert bob.edit("app/x.rb", "bob\n")
    ann.tell("SessionEnd")
    assert scene.owners() == {"app/x.rb": BOB}  # immediately
    said = bob.tell("PostToolUse-Write")["hookSpecificOutput"]["additionalContext"]
    assert "app/x.rb came free and is yours now" in said
    assert bob.ask("app/x.rb", "bob\n") == {}
    assert bob.tell("PostToolUse-Write") == {}  # bob was told, and no message is left
    assert bob.edit("app/x.rb", "bob\n") == ""
    resumed(scene, bob)


def test_seed002_12_what_came_free_and_is_not_used_lapses_after_30_seconds(scene: Scene) -> None:
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, CID))
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    ann.tell("SessionEnd")
    bob.tell("PostToolUse-Write")
    scene.clock.advance(29.999999)
    assert scene.owners() == {"app/x.rb": BOB}
    scene.clock.advance(0.000001)
    assert cid.edit("app/x.rb") == ""
    said = bob.tell("PostToolUse-Write")["hookSpecificOutput"]["additionalContext"]
    assert "not yours any more" in said


def test_seed002_12_a_stop_that_is_held_goes_on_when_the_file_comes_free(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    assert bob.edit("app/x.rb", "bob\n")
    assert bob.edit("lib/y.rb") == ""
    bob.held_open = True
    monkeypatch.setattr(bob, "wait", ended_meanwhile(scene, ann))
    said = bob.tell("Stop")
    assert said["decision"] == "block"
    assert "app/x.rb came free and is yours now" in said["reason"]
    scene.clock.advance(3600)  # it has not stopped, so no timer runs
    assert scene.owners() == {"app/x.rb": BOB, "lib/y.rb": BOB}
    assert bob.edit("app/x.rb", "bob\n") == ""
    resumed(scene, bob)


@pytest.mark.parametrize("name", ["Stop", "SubagentStop"])
def test_seed002_12_the_stop_of_a_session_or_of_a_sub_agent(
    scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    of = {"agent_id": "child", "agent_type": "general-purpose"} if name != "Stop" else {}
    ann.edit("app/x.rb", "ann\n")
    assert bob.edit("app/x.rb", "bob\n", **of)
    bob.held_open = True
    monkeypatch.setattr(bob, "wait", ended_meanwhile(scene, ann))
    assert bob.tell(name, **of)["decision"] == "block"
    assert bob.edit("app/x.rb", "bob\n", **of) == ""


def test_seed002_12_what_came_free_while_an_agent_rested_is_had_with_its_next_edit(
    scene: Scene,
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    assert bob.edit("app/x.rb", "bob\n")
    bob.tell("Stop")
    assert scene.queue() == []
    ann.tell("SessionEnd")
    assert scene.owners() == {}  # nothing is handed over to one that has stopped
    bob.tell("UserPromptSubmit")
    assert bob.edit("app/x.rb", "bob\n") == ""
    resumed(scene, bob)


def test_seed002_12_an_agent_is_sent_back_to_work_only_once(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    assert bob.edit("app/x.rb", "bob\n")
    ann.tell("SessionEnd")
    said = bob.tell("Stop", stop_hook_active=True)
    assert "decision" not in said


def ended_meanwhile(scene: Scene, owner: Agent) -> Callable[[float, object], bool]:
    """Ends the owner's session while a hook is held open."""

    def meanwhile(seconds: float, waiter: object) -> bool:
        if not scene.events("lock_released"):
            owner.tell("SessionEnd")
        scene.clock.advance(seconds)
        return True

    return meanwhile


def resumed(scene: Scene, agent: Agent) -> None:
    """The agent works as if it had never been refused."""
    assert text(scene, "app/x.rb") == "bob\n"
    assert scene.owners()["app/x.rb"] == agent.session
    scene.clock.advance(3600)
    assert agent.ask("lib/y.rb") == {}  # no retry or message is left
    assert scene.owners() == {"app/x.rb": agent.session, "lib/y.rb": agent.session}  # for good
    assert not scene.events("agent_blocked")
    with LockManager.open(scene.root) as manager:
        assert transactions.look(manager, waits) == []


def blocked(scene: Scene) -> tuple[AtTheDoor, AtTheDoor, dict[str, Any]]:
    """An owner, an agent whose retry has failed, and the answer to that agent's client."""
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    scene.clock.advance(60)
    assert bob.edit("app/x.rb", "bob\n")
    scene.clock.advance(180)
    return ann, bob, bob.ask("app/x.rb")


def test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks(scene: Scene) -> None:
    ann, bob, said = blocked(scene)
    assert refusal(said)
    assert said.get("continue") is False
    ann.tell("SessionEnd")
    assert bob.ask("lib/y.rb").get("continue") is False  # every edit of it is refused
    bob.tell("UserPromptSubmit-notification")  # sent by the client, not by the user
    assert bob.ask("app/x.rb").get("continue") is False  # free, but its user has not resumed it
    bob.tell("UserPromptSubmit")
    assert bob.edit("app/x.rb") == ""


WRITES = ["make", "echo x > lib/new.rb", "git commit -am x", "python3 run.py", "git stash", "$TOOL",
          "holdfast run lib/y.rb -- make", "cd lib && holdfast -C .. write lib/y.rb"]  # fmt: skip
READS = ["cat app/x.rb", "git status", "git diff", "ls -l app", "grep -rn old app",
         "holdfast blockers", "holdfast --json status | jq ."]  # fmt: skip


@pytest.mark.parametrize("line", WRITES)
def test_seed002_13_a_blocked_agent_runs_no_command_that_may_write(scene: Scene, line: str) -> None:
    ann, bob, _said = blocked(scene)
    ann.tell("SessionEnd")
    said = bob.command(line)
    assert "state=waiting_for_instruction" in refusal(said)
    assert said.get("continue") is False
    bob.tell("UserPromptSubmit")
    assert refusal(bob.command(line)) == ""


@pytest.mark.parametrize("line", READS)
def test_seed002_13_a_blocked_agent_may_run_what_is_proven_to_only_read(
    scene: Scene, line: str
) -> None:
    _ann, bob, _said = blocked(scene)
    assert bob.command(line) == {}


#: The tool of each client that starts an agent.
STARTING = {"claude": "PreToolUse-Agent", "codex": "PreToolUse-spawn_agent"}
PATCH = "*** Begin Patch\n*** Add File: {}\n+new\n*** End Patch\n"


def asked(agent: Agent, path: str, **more: Any) -> str:
    """Ask for a file without writing it, as an agent of either client: the reason for a refusal."""
    if agent.client == "claude":
        return refusal(agent.ask(path, **more))
    patch = {"command": PATCH.format(path)}
    return refusal(agent.tell("PreToolUse-apply_patch", tool_input=patch, **more))


def blocked_one(scene: Scene, client: str) -> AtTheDoor:
    """An agent of a client whose retry has failed. Its sub-agent `old` was at work before."""
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB, client)
    ann.edit("app/x.rb")
    bob.tell(STARTING[client])
    bob.tell("SubagentStart", agent_id="old")
    assert asked(bob, "app/x.rb")
    scene.clock.advance(180)
    assert "state=waiting_for_instruction" in asked(bob, "app/x.rb")
    ann.tell("SessionEnd")
    return bob


@pytest.mark.parametrize("client", sorted(STARTING))
def test_seed002_13_a_blocked_agent_starts_no_other(scene: Scene, client: str) -> None:
    bob = blocked_one(scene, client)
    calls = len(scene.events("agent_calls"))
    said = bob.tell(STARTING[client])
    assert "state=waiting_for_instruction" in refusal(said)
    assert said.get("continue") is (False if client == "claude" else None)
    assert len(scene.events("agent_calls")) == calls
    bob.tell("UserPromptSubmit")
    assert bob.tell(STARTING[client]) == {}


@pytest.mark.parametrize("client", sorted(STARTING))
def test_seed002_13_nobody_writes_in_the_place_of_a_blocked_agent(
    scene: Scene, client: str
) -> None:
    bob = blocked_one(scene, client)
    scene.clock.advance(1)
    bob.tell("SubagentStart", agent_id="new")
    report = "state=waiting_for_instruction"
    for agent in ("new", "never-heard-of"):
        assert report in asked(bob, "lib/y.rb", agent_id=agent)
        assert report in refusal(bob.command("make", agent_id=agent))
        assert report in refusal(bob.command("holdfast run lib/y.rb -- make", agent_id=agent))
        assert report in refusal(bob.tell(STARTING[client], agent_id=agent))
        assert bob.command("cat lib/y.rb", agent_id=agent) == {}
    set_up(scene, '[gate]\nshell = "off"\n')
    assert report in refusal(bob.command("make", agent_id="new"))
    assert "lib/y.rb" not in scene.owners()
    # a sub-agent that was at work before counts as its own agent
    assert asked(bob, "lib/old.rb", agent_id="old") == ""
    bob.tell("UserPromptSubmit")
    assert asked(bob, "lib/y.rb", agent_id="new") == ""
    assert scene.owners()["lib/y.rb"] == f"{BOB}/new"


def test_seed002_13_a_retry_that_fails_at_a_stop_stops_the_agent_too(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    bob.held_open = True
    said = bob.tell("Stop")
    assert "decision" not in said
    assert "state=waiting_for_instruction" in said["systemMessage"]
    assert bob.ask("lib/y.rb").get("continue") is False


@LINUX_ONLY
def test_seed002_13_a_new_prompt_ends_a_stop_that_is_held(scene: Scene) -> None:
    ann, bob = two(scene)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    stop = bob.begin("Stop")
    until(lambda: bool(scene.events("stop_held")), "the stop is held")
    bob.tell("UserPromptSubmit")
    assert answer_of(stop, 10) == {}
    assert scene.queue() == [BOB]  # bob continues, and stays in the queue
    assert not scene.events("agent_blocked")


def test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    for passed in (0, 1, 179, 1):
        scene.clock.advance(passed)
        said = bob.ask("app/x.rb")
        for told in (refusal(said), said.get("systemMessage", "")):
            assert "app/x.rb" in told
            assert ann.name in told
    assert said.get("continue") is False
    assert scene.events("agent_blocked")
    assert text(scene, "app/x.rb") == "new\n"


def test_seed002_14_the_user_hears_of_what_an_agent_stopped_without(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    told = bob.tell("Stop", stop_hook_active=True)["systemMessage"]
    assert f"{bob.name} stopped and did not write app/x.rb" in told


def test_seed002_14_one_that_nobody_sits_before_says_that_it_ended_blocked(scene: Scene) -> None:
    _ann, bob, _said = blocked(scene)
    bob.attended = False
    told = bob.told("SessionEnd")
    assert told is not None
    reply = bob.reply(told)
    assert (reply.code, reply.stdout) == (1, "")
    assert f"{bob.name} ended blocked (state=waiting_for_instruction)" in reply.stderr
    assert "blocked file    app/x.rb" in reply.stderr


def test_seed002_14_one_that_ended_well_says_nothing(scene: Scene) -> None:
    bob = scene.at_the_door(BOB)
    bob.attended = False
    bob.edit("app/x.rb")
    assert bob.tell("SessionEnd") == {}


# When leases end


@LINUX_ONLY
def test_seed002_15_a_commit_frees_what_was_committed_for_the_next_one(scene: Scene) -> None:
    (scene.root / ".git").rmdir()
    ann, bob = two(scene)
    for path in ("app/x.rb", "lib/y.rb"):
        assert ann.edit(path) == ""
    assert bob.edit("app/x.rb")
    ann.commit("app/x.rb")
    assert scene.owners() == {"app/x.rb": BOB, "lib/y.rb": ANN}
    assert bob.edit("app/x.rb") == ""


def failed(agent: Agent, **more: Any) -> None:
    """The agent's model is unreachable."""
    agent.tell("StopFailure-subagent", **{"agent_id": None, "agent_type": None, **more})


def test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard(scene: Scene) -> None:
    ann, bob = two(scene)
    for path in ("app/x.rb", "lib/y.rb"):
        assert ann.edit(path) == ""
    assert bob.edit("app/x.rb")
    failed(ann)
    assert scene.owners() == {"app/x.rb": BOB}  # bob was in the queue
    assert bob.edit("lib/y.rb") == ""


def test_seed002_16_nothing_is_kept_for_an_agent_that_failed_hard(scene: Scene) -> None:
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, CID))
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")  # bob is in the queue
    failed(bob)
    ann.tell("SessionEnd")
    assert scene.owners() == {}
    assert cid.edit("app/x.rb") == ""


def test_seed002_16_of_a_sub_agent_that_failed_hard_only_its_own(scene: Scene) -> None:
    ann = scene.at_the_door(ANN)
    child = {"agent_id": "a0000000000000001", "agent_type": "general-purpose"}
    ann.edit("app/x.rb")
    ann.edit("lib/y.rb", **child)
    failed(ann, **child)
    assert scene.owners() == {"app/x.rb": ANN}


def test_seed002_16_of_a_session_whose_own_agent_failed_hard_not_its_sub_agents(
    scene: Scene,
) -> None:
    ann = scene.at_the_door(ANN)
    child = {"agent_id": "a0000000000000001", "agent_type": "general-purpose"}
    ann.edit("app/x.rb")
    ann.edit("lib/y.rb", **child)
    failed(ann)
    assert scene.owners() == {"lib/y.rb": f"{ANN}/{child['agent_id']}"}


def test_seed002_17_the_hook_frees_everything_when_a_session_ends(scene: Scene) -> None:
    ann, bob = two(scene)
    assert ann.edit("app/x.rb") == ""
    assert ann.edit("lib/y.rb", agent_id="child", agent_type="general-purpose") == ""
    ann.tell("SessionEnd")
    assert scene.owners() == {}
    for path in ("app/x.rb", "lib/y.rb"):
        assert bob.edit(path) == ""


def test_seed002_17_of_either_client(scene: Scene) -> None:
    cid = scene.at_the_door(CID, "codex")
    assert cid.tell("PreToolUse-apply_patch") == {}
    for path in (left := scene.owners()):
        (scene.root / path).write_text("new\n")
    assert len(left) == 4
    cid.tell("SessionEnd")
    assert scene.owners() == {}


def test_seed002_17_a_stop_frees_at_once_what_was_never_changed(scene: Scene) -> None:
    ann, bob = two(scene)
    ann.ask("app/x.rb")
    ann.edit("lib/y.rb")
    ann.tell("Stop")
    assert scene.owners() == {"lib/y.rb": ANN}
    assert bob.edit("app/x.rb") == ""


@pytest.mark.parametrize(
    ("client", "name"), [("claude", "PreToolUse-Write"), ("codex", "PreToolUse-apply_patch")]
)
def test_seed002_19_thirty_seconds_after_a_stop_the_hook_lets_others_edit(
    scene: Scene, client: str, name: str
) -> None:
    ann, bob = scene.at_the_door(ANN, client), scene.at_the_door(BOB)
    told = {"tool_input": {"file_path": f"{scene.root}/new.txt"}} if client == "claude" else {}
    assert ann.tell(name, **told) == {}
    (scene.root / "new.txt").write_text("new\n")
    ann.tell("Stop")
    scene.clock.advance(29.999999)
    assert "new.txt" in scene.owners()
    scene.clock.advance(0.000001)
    assert bob.edit("new.txt") == ""


def test_seed002_19_an_interrupted_agent_has_stopped(scene: Scene) -> None:
    cid, bob = scene.at_the_door(CID, "codex"), scene.at_the_door(BOB)
    assert cid.tell("PreToolUse-apply_patch") == {}
    (scene.root / "new.txt").write_text("new\n")
    cid.tell("Stop", hook_event_name="Interrupt")
    scene.clock.advance(29.999999)
    assert "new.txt" in scene.owners()
    scene.clock.advance(0.000001)
    assert bob.edit("new.txt") == ""


@pytest.mark.parametrize("source", ["compact", "clear", "resume", "startup"])
def test_that_its_session_starts_does_not_stop_the_timer(scene: Scene, source: str) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.tell("Stop")
    scene.clock.advance(10)
    ann.tell("SessionStart-resume", source=source)
    scene.clock.advance(19.999999)
    assert "app/x.rb" in scene.owners()
    scene.clock.advance(0.000001)
    assert bob.edit("app/x.rb") == ""


@pytest.mark.parametrize("name", ["UserPromptSubmit", "PostToolUse-Write"])
def test_seed002_19_whatever_the_agent_does_stops_the_timer(scene: Scene, name: str) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.tell("Stop")
    scene.clock.advance(29)
    ann.tell(name)
    scene.clock.advance(3600)
    assert ann.name in bob.edit("app/x.rb")


def test_seed002_19_work_in_the_background_does_not_keep_the_files(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.tell("Stop-background")
    scene.clock.advance(29.999999)
    assert scene.owners() == {"app/x.rb": ANN}
    scene.clock.advance(0.000001)
    assert bob.edit("app/x.rb") == ""


@pytest.mark.parametrize("has", [True, False])
def test_seed002_19_what_a_sub_agent_leaves_to_one_that_has_stopped_rests_too(
    scene: Scene, has: bool
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    child = {"agent_id": "a0000000000000001", "agent_type": "general-purpose"}
    if has:
        ann.edit("lib/y.rb")
    ann.edit("app/x.rb", **child)
    ann.tell("Stop-background")
    scene.clock.advance(20)
    ann.tell("SubagentStop", **child)
    assert scene.owners()["app/x.rb"] == ANN
    scene.clock.advance(29.999999)
    assert scene.owners() == {"app/x.rb": ANN}
    scene.clock.advance(0.000001)
    assert bob.edit("app/x.rb") == ""


def test_seed002_19_the_30_seconds_begin_when_a_stop_is_held_no_longer(
    scene: Scene,
) -> None:
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, CID))
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    assert bob.edit("app/x.rb")
    bob.held_open = True
    bob.tell("Stop")  # the retry fails after 180 s
    scene.clock.advance(29.999999)
    assert scene.owners()["lib/y.rb"] == BOB
    scene.clock.advance(0.000001)
    assert cid.edit("lib/y.rb") == ""


def test_seed002_19_a_stop_in_a_process_of_its_own_starts_the_timer(scene: Scene) -> None:
    ann, bob = two(scene)
    ann.edit("app/x.rb")
    ann.tell("Stop")
    (resting,) = scene.events("agent_resting")
    assert resting.data["seconds"] == 30
    with (scene.root / "holdfast.toml").open("a") as file:
        file.write("idle_seconds = 0\n")
    ann.tell("UserPromptSubmit")
    assert scene.owners() == {"app/x.rb": ANN}
    ann.tell("Stop")
    assert bob.edit("app/x.rb") == ""


# The report


def test_seed002_20_agent_and_user_read_the_six_facts(scene: Scene) -> None:
    ann, _bob, said = blocked(scene)
    (heartbeat,) = scene.events("contention_heartbeat")
    (event,) = scene.events("agent_blocked")
    report = event.data["report"]
    assert report["blocked_file"] == "app/x.rb"
    assert report["owner"] == ann.name
    assert report["lock_age_seconds"] == 240
    assert report["last_heartbeat"] == iso(heartbeat.at)
    assert report["retry_interval_seconds"] == 180
    assert report["state"] == "waiting_for_instruction"
    facts = (
        "blocked file    app/x.rb", f"owner           {ann.name}", "lock age        4 min",
        f"last heartbeat  {iso(heartbeat.at)}", "retry interval  180 s",
        "state=waiting_for_instruction",
    )  # fmt: skip
    for told in (refusal(said), said["systemMessage"], said["stopReason"]):
        for fact in facts:
            assert fact in told


def test_seed002_20_no_two_agents_have_one_name(scene: Scene) -> None:
    ids = ["1-of-session", "2-of-session", "session"]  # their ids end with the same text
    one, two, three = (scene.at_the_door(id) for id in ids)
    files = ["app/x.rb", "lib/y.rb", "new.rb"]
    for agent, path in zip((one, two, three), files, strict=True):
        assert agent.edit(path) == ""
    assert len({one.name, two.name, three.name}) == 3
    said = three.edit("app/x.rb")
    assert f"by {one.name} " in said
    assert two.name not in said


# The commit is the agent's

#: The git commands that change the index, the history or the files.
GIT_WRITES = {
    "add", "am", "apply", "checkout", "commit", "commit-tree", "merge", "mv", "rebase", "reset",
    "restore", "rm", "stash", "switch", "update-index", "update-ref", "write-tree",
}  # fmt: skip


@LINUX_ONLY
def test_seed002_21_whatever_an_agent_does_its_hook_neither_adds_nor_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = made_repository(tmp_path / "work")
    log, wrapper = tmp_path / "calls", tmp_path / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\nexec "{shutil.which("git")}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    before = ((root / ".git/index").read_bytes(), sh(root, "git rev-parse HEAD"))
    scene = Scene(root, monkeypatch)
    set_up(scene, "[gate]\nhold_seconds = 0\nretry_seconds = 0.5\n")
    try:
        ann, bob = scene.in_processes(ANN), scene.in_processes(BOB)
        ann.tell("SessionStart")
        ann.edit("app/x.py")
        assert bob.edit("app/x.py")
        for line in ("make", "echo x > app/new.py", "git commit -am x", "git stash"):
            ann.command(line)
            ann.command(line, "PostToolUse-Bash")
        bob.tell("Stop")  # the retry fails
        assert scene.events("agent_blocked")
        bob.tell("UserPromptSubmit")
        ann.tell("Stop")
        for agent in (ann, bob):
            agent.tell("SessionEnd")
    finally:
        scene.close()
    calls = [set(line.split()) for line in log.read_text().splitlines()]
    assert calls, "the hooks have run git"
    assert [words for words in calls if words & GIT_WRITES] == []
    assert ((root / ".git/index").read_bytes(), sh(root, "git rev-parse HEAD")) == before


# The states of a file

#: The transitions between states.
WAYS = {
    ("Free", "Owned"), ("Owned", "Contended"), ("Contended", "RetryPending"),
    ("RetryPending", "Owned"), ("RetryPending", "Blocked"), ("Owned", "Free"), ("Blocked", "Owned"),
}  # fmt: skip


def states(events: list[Event]) -> Iterator[str]:
    """The states that a file goes through, according to the ledger's events."""
    state = "Free"
    yield state
    for event in events:
        before = state
        if event.type == "lock_acquired" and state in ("Free", "Blocked"):
            state = "Owned"
        elif event.type == "contention_heartbeat":
            yield "Contended"  # and refused in the same transaction
            state = "RetryPending"
        elif event.type == "agent_blocked":
            state = "Blocked"
        elif event.type == "file_handed_over" or (
            event.type == "contention_over" and event.data.get("state") == "owned"
        ):
            state = "Owned"
        elif event.type in ("lock_released", "lock_reaped") and state == "Owned":
            state = "Free"
        if state != before:
            yield state


@pytest.mark.parametrize("wake", [True, False])
def test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised(
    scene: Scene, wake: bool
) -> None:
    if not wake:
        set_up(scene, TO_THE_LETTER)
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, CID))
    path = "app/x.rb"
    expected = ["Free"]

    def step(*then: str) -> None:
        expected.extend(then)
        assert list(states(scene.events())) == expected

    step()
    cid.edit(path)
    step("Owned")  # acquire
    cid.tell("Stop")
    scene.clock.advance(30)
    step()
    ann.edit(path)
    step("Free", "Owned")  # stop, and 30 s idle
    bob.edit(path)
    step("Contended", "RetryPending")  # a competing acquire, and the heartbeat
    scene.clock.advance(179)
    bob.edit(path)
    step()  # the retry is not attempted
    scene.clock.advance(1)
    bob.edit(path)
    step("Blocked")  # the retry fails
    ann.commit(path)
    bob.edit(path)
    step()  # released, but its user has not resumed it
    bob.tell("UserPromptSubmit")
    bob.edit(path, "bob\n")
    step("Owned")  # resumed by hand after the release
    failed(bob)
    step("Free")  # hard failure
    ann.edit(path, "ann\n")
    bob.edit(path)
    step("Owned", "Contended", "RetryPending")
    ann.tell("SessionEnd")  # the end: to the next in line, now or at its retry
    bob.tell("PostToolUse-Write")
    step(*(["Owned"] if wake else []))
    scene.clock.advance(20 if wake else 180)
    assert bob.edit(path, "bob again\n") == ""
    step(*([] if wake else ["Owned"]))  # the retry succeeds
    bob.commit(path)
    step("Free")  # the commit succeeds
    bob.edit(path)
    step("Owned")
    bob.kill()
    cid.edit(path)
    step("Free", "Owned")  # the owner is dead
    cid.tell("SessionEnd")
    step("Free")  # the end, with no agent waiting
    assert set(pairwise(expected)) == WAYS


# The promised verifications


@contextmanager
def ledger_closed(root: Path) -> Iterator[Path]:
    """No process can open the ledger."""
    with open(root / ".holdfast/gate", "rb+") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield root / ".holdfast/gate"


@LINUX_ONLY
def test_seed002_24_of_agents_that_ask_at_the_same_moment_one_may_change_the_file(
    scene: Scene,
) -> None:
    (scene.root / "holdfast.toml").write_text(NOT_HELD)
    scene.in_processes(ANN).tell("SessionStart")  # makes the ledger
    agents = [scene.in_processes(f"{number}-session") for number in range(8)]
    answers = asked_at_once(scene, agents, "app/x.rb")
    allowed = [name for name, said in answers.items() if not refusal(said)]
    assert len(allowed) == 1
    assert scene.owners() == {"app/x.rb": allowed[0]}


def asked_at_once(scene: Scene, agents: list[InProcesses], path: str) -> dict[str, dict[str, Any]]:
    """The answers of these agents' hooks, which wait at the gate's file until it opens."""
    told = {"file_path": f"{scene.root}/{path}", "content": "new\n"}
    with ledger_closed(scene.root) as gate:
        hooks = [agent.start(agent.told("PreToolUse-Write", tool_input=told)) for agent in agents]
        until(lambda: all(stands_at(gate, hook.pid) for hook in hooks), "all stand at the gate")
    return {agent.session: answer_of(hook) for agent, hook in zip(agents, hooks, strict=True)}


def stands_at(gate: Path, pid: int) -> bool:
    """Whether a process has opened the gate's file."""
    try:
        opened = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    return str(gate) in opened


def test_seed002_24_also_if_all_have_looked_before_any_of_them_takes_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = [scene.at_the_door(f"{number}-session") for number in range(4)]
    agents[0].tell("SessionStart")  # makes the ledger
    together, real = Barrier(len(agents)), SqliteStore.transact
    arrived: set[int] = set()

    def transact(store: SqliteStore, decide: Any, *, deadline: float) -> Any:
        if get_ident() not in arrived:
            arrived.add(get_ident())
            together.wait(60)
        return real(store, decide, deadline=deadline)

    monkeypatch.setattr(SqliteStore, "transact", transact)
    with ThreadPoolExecutor(len(agents)) as threads:
        answers = list(threads.map(lambda agent: refusal(agent.ask("app/x.rb")), agents))
    assert sorted(map(bool, answers)) == [False, True, True, True]
    assert scene.owners() == {"app/x.rb": agents[answers.index("")].session}


def test_seed002_25_through_the_hook_contention_is_a_heartbeat_and_a_retry_at_180(
    scene: Scene,
) -> None:
    heartbeat, said = contended(scene)
    assert heartbeat.data["agent"] == scene.agents[1].name
    assert heartbeat.data["retry_at"] == heartbeat.at + 180 * SECOND
    assert "due in 3 min" in refusal(said)


def test_seed002_26_through_the_hook_still_blocked_at_the_retry_is_a_hard_stop_with_a_report(
    scene: Scene,
) -> None:
    _ann, bob, said = blocked(scene)
    assert said.get("continue") is False
    assert "state=waiting_for_instruction" in said["stopReason"]
    assert text(scene, "app/x.rb") == "ann\n"
    assert bob.ask("lib/y.rb").get("continue") is False
    (event,) = scene.events("agent_blocked")
    assert event.data["report"]["blocked_file"] == "app/x.rb"


@LINUX_ONLY
def test_seed002_27_through_the_hook_a_dead_owners_file_goes_to_the_next_contender(
    scene: Scene,
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    assert bob.edit("app/x.rb", "bob\n")
    ann.kill()
    assert bob.edit("app/x.rb", "bob\n") == ""  # without any time passing
    assert text(scene, "app/x.rb") == "bob\n"


ENDS: dict[str, Callable[[InProcesses], None]] = {
    "died": lambda owner: owner.process.kill(),
    "committed": lambda owner: owner.commit("app/x.rb"),
    "ended": lambda owner: void(owner.tell("SessionEnd")),
    "failed": lambda owner: failed(owner),
}


def void(_said: object) -> None:
    return None


@LINUX_ONLY
@pytest.mark.parametrize("held", ["call", "stop"])
@pytest.mark.parametrize("end", ENDS)
def test_seed002_27_whoever_waits_has_it_within_a_second_after_the_owner_died_or_finished(
    scene: Scene, end: str, held: str
) -> None:
    (scene.root / ".git").rmdir()
    ann, bob = scene.in_processes(ANN), scene.in_processes(BOB)
    set_up(scene, "" if held == "call" else NOT_HELD)
    assert ann.edit("app/x.rb") == ""
    if held == "call":
        waiting = bob.begin_edit("app/x.rb")
    else:
        assert bob.edit("app/x.rb")
        waiting = bob.begin("Stop")
        until(lambda: bool(scene.events("stop_held")), "the stop is held")
    until(lambda: scene.queue() == [BOB], "it stands in line")
    assert waiting.poll() is None
    ENDS[end](ann)
    begun = monotonic()
    said = answer_of(waiting, 15)
    assert monotonic() - begun < 1.5  # a third of it allows for a busy machine
    assert (said.get("decision"), refusal(said)) == ("block" if held == "stop" else None, "")
    assert scene.owners() == {"app/x.rb": BOB}
    assert bob.edit("app/x.rb") == ""


@LINUX_ONLY
@pytest.mark.parametrize("held", ["call", "stop"])
def test_seed002_06_a_hook_that_waits_ends_with_its_client_and_leaves_the_line(
    scene: Scene, held: str
) -> None:
    ann, bob, cid = (scene.in_processes(name) for name in (ANN, BOB, CID))
    set_up(scene, "" if held == "call" else NOT_HELD)
    assert ann.edit("app/x.rb") == ""
    if held == "call":
        waiting = bob.begin_edit("app/x.rb")
    else:
        assert bob.edit("app/x.rb")
        waiting = bob.begin("Stop")
        until(lambda: bool(scene.events("stop_held")), "the stop is held")
    until(lambda: scene.queue() == [BOB], "it stands in line")
    bob.kill()
    begun = monotonic()
    assert "decision" not in answer_of(waiting, 15)
    assert monotonic() - begun < 1.5
    with LockManager.open(scene.root) as manager:
        assert transactions.look(manager, lambda view: list(view.queue())) == []
    ann.tell("SessionEnd")
    assert scene.owners() == {}
    assert cid.edit("app/x.rb") == ""


def test_seed002_28_through_the_hook_a_stop_and_30_idle_seconds_free_the_file(
    scene: Scene,
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    ann.tell("Stop")
    scene.clock.advance(30)
    assert bob.edit("app/x.rb", "bob\n") == ""
    assert text(scene, "app/x.rb") == "bob\n"
    assert scene.events("lock_reaped")[0].data["why"] == "idle"


# Other agents at work


def test_at_its_start_a_session_reads_who_else_is_at_work_and_on_what(scene: Scene) -> None:
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, CID))
    assert ann.tell("SessionStart") == {}  # no agent is at work
    ann.edit("app/x.rb")
    ann.edit("lib/y.rb", agent_id="child", agent_type="general-purpose")
    bob.tell("SessionStart")
    said = cid.tell("SessionStart")["hookSpecificOutput"]["additionalContext"]
    assert f"{ann.name} (app/x.rb, lib/y.rb)" in said
    assert bob.name in said
    assert cid.name not in said
    ann.kill()
    bob.tell("SessionEnd")
    assert cid.tell("SessionStart-resume") == {}


@LINUX_ONLY
def test_seed002_22_a_file_that_a_person_saves_while_a_command_runs_stays_the_persons(
    tmp_path: Path,
) -> None:
    repo = Repo(tmp_path)
    repo.start("app/x.py", "lib/y.py")
    settled(repo.root / "app/x.py", repo.root / "lib/y.py")
    ann = InProcesses(repo.root, ANN)
    try:
        person = repo.actor("vim")
        ann.command("make test")
        (repo.root / "lib/y.py").write_text("a person's\n")
        said = ann.command("make test", "PostToolUse-Bash")
        assert "lib/y.py" in said["hookSpecificOutput"]["additionalContext"]
        assert repo.held() == {}
        done = person.commit("lib/y.py")
        assert (done.code, repo.last()) == (0, ["lib/y.py"]), done
    finally:
        ann.close()
        repo.close()
