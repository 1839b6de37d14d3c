"""File leases through the hook: what real clients tell it, and what it makes them do.

Where 180 s or 30 s pass the hook's function is called on a clock that the test moves; elsewhere the
hook is the program that clients start.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, get_ident
from typing import Any

import pytest

from conftest import until
from helpers_guard import Session, gated
from helpers_guard import owners as owners_of
from helpers_hook import Agent, InProcesses, Scene, answer_of, refusal, sample
from helpers_processes import LINUX_ONLY
from holdfast.core.model import SECOND, Event
from holdfast.core.time import iso
from holdfast.store.sqlite import SqliteStore
from stage import settled

ANN, BOB = "ann-session", "bob-session"
ANN_ID, BOB_ID = "claude:ann-sess", "claude:bob-sess"
#: A retry that comes later than any hook may be held: the answer comes at once.
NOT_HELD = "[gate]\nretry_seconds = 300\n"


@pytest.fixture
def scene(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    settled(repository / "app/x.rb", repository / "lib/y.rb")
    made = Scene(repository, monkeypatch)
    yield made
    made.close()


def two(scene: Scene) -> tuple[InProcesses, InProcesses]:
    """Two agents whose hooks are processes, and are never held."""
    (scene.root / "holdfast.toml").write_text(NOT_HELD)
    return scene.in_processes(ANN), scene.in_processes(BOB)


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
    assert text(scene, "app/x.rb") == "old\n"  # it is asked for before


def test_seed002_01_of_several_files_the_hook_leases_all_or_none(scene: Scene) -> None:
    ann, cid = scene.at_the_door(ANN), scene.at_the_door("cid-session", "codex")
    assert ann.edit("b.txt") == ""
    assert refusal(cid.tell("PreToolUse-apply_patch"))  # it writes four files, this one among them
    assert scene.owners() == {"b.txt": ANN_ID}


def test_seed002_01_a_command_that_plainly_writes_takes_a_lease_too(tmp_path: Path) -> None:
    root = gated(tmp_path / "work")
    ann, bob = Session(ANN, root), Session(BOB, root)
    assert ann.ask("echo ann > app/x.py") == ""
    assert owners_of(root) == {"app/x.py": ANN_ID}
    assert ANN_ID in bob.ask("echo bob > app/x.py")


def test_seed002_02_edits_pass_without_a_word_and_without_a_command(scene: Scene) -> None:
    ann, _bob = two(scene)
    for _ in range(2):  # two hooks of one agent are no two agents
        assert ann.ask("app/x.rb") == {}
    assert scene.owners() == {"app/x.rb": ANN_ID}


def test_seed002_03_the_ledger_is_the_one_above_the_file_wherever_the_agent_is(
    scene: Scene, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / ".holdfast").mkdir(parents=True)
    (elsewhere / "app").mkdir()
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    assert ann.ask("lib/../app/x.rb", cwd=str(elsewhere)) == {}
    assert scene.owners() == {"app/x.rb": ANN_ID}
    assert owners_of(elsewhere) == {}
    assert ANN_ID in refusal(bob.ask("app/x.rb", cwd=str(scene.root / "app")))


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
    assert f"{ANN_ID}:one" in ann.edit("app/x.rb", "other\n", **other)
    assert text(scene, "app/x.rb") == "one\n"


def test_seed002_05_the_hook_refuses_an_edit_while_the_owner_lives(scene: Scene) -> None:
    ann, bob = two(scene)
    assert ann.edit("app/x.rb", "ann\n") == ""  # and its hooks have ended
    assert ANN_ID in bob.edit("app/x.rb", "bob\n")
    assert text(scene, "app/x.rb") == "ann\n"


def test_seed002_05_however_long_ago_it_began(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    assert ann.edit("app/x.rb") == ""
    scene.clock.advance(30 * 86400)
    assert ANN_ID in bob.edit("app/x.rb")


@LINUX_ONLY
def test_seed002_06_a_client_that_is_gone_keeps_no_file(scene: Scene) -> None:
    ann, bob = two(scene)
    ann.edit("app/x.rb")
    ann.edit("lib/y.rb")
    ann.kill()
    assert scene.owners() == {}
    assert bob.edit("app/x.rb") == ""
    assert scene.owners() == {"app/x.rb": BOB_ID}


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
    assert bob.edit("app/x.rb") == ""  # and no moment has passed
    assert scene.events("lock_refused", "contention_heartbeat") == []
    assert scene.events("lock_reaped")[0].data["why"] == "owner dead"


@LINUX_ONLY
def test_seed002_08_a_client_that_was_killed_and_not_waited_for_is_dead_too(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.process.kill()
    os.waitid(os.P_PID, ann.process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is there
    assert bob.edit("app/x.rb") == ""


# Heartbeat, and one retry


def contended(scene: Scene) -> tuple[Event, dict[str, Any]]:
    """The heartbeat of a refusal, and what the refused agent and its user read."""
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    said = bob.ask("app/x.rb")
    (heartbeat,) = scene.events("contention_heartbeat")
    return heartbeat, said


def test_seed002_09_an_edit_that_is_refused_leaves_a_heartbeat(scene: Scene) -> None:
    heartbeat, _said = contended(scene)
    told = [heartbeat.data[name] for name in ("agent", "blocked", "owner")]
    assert told == [BOB_ID, ["app/x.rb"], ANN_ID]


def test_seed002_10_its_retry_is_exactly_180_seconds_later(scene: Scene) -> None:
    heartbeat, said = contended(scene)
    assert heartbeat.data["denied_at"] == heartbeat.at
    assert heartbeat.data["retry_at"] == heartbeat.at + 180 * SECOND
    assert iso(heartbeat.data["retry_at"]) in refusal(said)


def test_seed002_10_a_hook_that_is_held_tries_again_at_that_moment_and_not_before(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    bob.held_open = True
    begun = scene.clock.monotonic()

    def woken_early(seconds: float, waiter: object) -> bool:
        scene.clock.advance(min(seconds, 50))
        return True

    monkeypatch.setattr(bob, "wait", woken_early)
    assert bob.ask("app/x.rb").get("continue") is False
    assert scene.clock.monotonic() - begun == 180


def test_seed002_11_an_edit_before_the_retry_is_not_tried(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")
    ann.tell("SessionEnd")  # it is free now, and kept for bob
    before = len(scene.events())
    for passed in (0, 60, 119.999999):
        scene.clock.advance(passed)
        assert bob.edit("app/x.rb", "bob\n")
    assert len(scene.events()) == before
    scene.clock.advance(0.000001)
    assert bob.edit("app/x.rb", "bob\n") == ""


def test_seed002_12_a_held_edit_goes_on_when_the_retry_succeeds(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    bob.held_open = True

    def meanwhile(seconds: float, waiter: object) -> bool:
        ann.tell("SessionEnd")
        scene.clock.advance(seconds)
        return False

    monkeypatch.setattr(bob, "wait", meanwhile)
    assert bob.edit("app/x.rb", "bob\n") == ""
    assert text(scene, "app/x.rb") == "bob\n"
    assert scene.owners() == {"app/x.rb": BOB_ID}
    assert bob.edit("lib/y.rb") == ""  # nothing of it is left
    scene.clock.advance(3600)
    assert scene.owners() == {"app/x.rb": BOB_ID, "lib/y.rb": BOB_ID}  # for good


def blocked(scene: Scene) -> tuple[Agent, Agent, dict[str, Any]]:
    """An owner, an agent whose retry has failed, and what the client of that one was told."""
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb", "ann\n")
    scene.clock.advance(60)
    bob.held_open = True
    return ann, bob, bob.ask("app/x.rb")


def test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks(scene: Scene) -> None:
    ann, bob, said = blocked(scene)
    assert refusal(said)
    assert said.get("continue") is False
    ann.tell("SessionEnd")
    assert bob.ask("lib/y.rb").get("continue") is False  # nothing that it edits passes
    bob.tell("UserPromptSubmit-notification")  # this is the client, and not the user
    assert bob.ask("app/x.rb").get("continue") is False  # free, but nobody told it
    bob.tell("UserPromptSubmit")
    assert bob.edit("app/x.rb") == ""


def test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    for passed in (0, 1, 179, 1):
        scene.clock.advance(passed)
        said = bob.ask("app/x.rb")
        for told in (refusal(said), said.get("systemMessage", "")):
            assert "app/x.rb" in told
            assert ANN_ID in told
    assert said.get("continue") is False
    assert scene.events("agent_blocked")
    assert text(scene, "app/x.rb") == "new\n"


# When leases end


def failed(agent: Agent, **more: Any) -> None:
    """Its model cannot be reached any more."""
    agent.tell("StopFailure-subagent", **{"agent_id": None, "agent_type": None, **more})


def test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard(scene: Scene) -> None:
    ann, bob = two(scene)
    for path in ("app/x.rb", "lib/y.rb"):
        assert ann.edit(path) == ""
    assert bob.edit("app/x.rb")
    failed(ann)
    assert scene.owners() == {"app/x.rb": BOB_ID}  # it stood in line
    assert bob.edit("lib/y.rb") == ""


def test_seed002_16_nothing_is_kept_for_an_agent_that_failed_hard(scene: Scene) -> None:
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, "cid-session"))
    ann.edit("app/x.rb")
    assert bob.edit("app/x.rb")  # and stands in line
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
    assert scene.owners() == {"app/x.rb": ANN_ID}


def test_seed002_17_the_hook_frees_everything_when_a_session_ends(scene: Scene) -> None:
    ann, bob = two(scene)
    assert ann.edit("app/x.rb") == ""
    assert ann.edit("lib/y.rb", agent_id="child", agent_type="general-purpose") == ""
    ann.tell("SessionEnd")
    assert scene.owners() == {}
    for path in ("app/x.rb", "lib/y.rb"):
        assert bob.edit(path) == ""


def test_seed002_17_of_either_client(scene: Scene) -> None:
    cid = scene.at_the_door("cid-session", "codex")
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
    assert scene.owners() == {"lib/y.rb": ANN_ID}
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
    cid, bob = scene.at_the_door("cid-session", "codex"), scene.at_the_door(BOB)
    assert cid.tell("PreToolUse-apply_patch") == {}
    (scene.root / "new.txt").write_text("new\n")
    cid.tell("Stop", hook_event_name="Interrupt")
    scene.clock.advance(29.999999)
    assert "new.txt" in scene.owners()
    scene.clock.advance(0.000001)
    assert bob.edit("new.txt") == ""


@pytest.mark.parametrize("name", ["UserPromptSubmit", "PostToolUse-Write", "SessionStart-resume"])
def test_seed002_19_whatever_the_agent_does_stops_the_timer(scene: Scene, name: str) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.tell("Stop")
    scene.clock.advance(29)
    ann.tell(name)
    scene.clock.advance(3600)
    assert ANN_ID in bob.edit("app/x.rb")


def test_seed002_19_an_agent_whose_commands_still_run_has_not_stopped(scene: Scene) -> None:
    ann, bob = scene.at_the_door(ANN), scene.at_the_door(BOB)
    ann.edit("app/x.rb")
    ann.tell("Stop-background")
    scene.clock.advance(3600)
    assert ANN_ID in bob.edit("app/x.rb")


def test_seed002_19_a_stop_in_a_process_of_its_own_starts_the_timer(scene: Scene) -> None:
    ann, bob = two(scene)
    ann.edit("app/x.rb")
    ann.tell("Stop")
    (resting,) = scene.events("agent_resting")
    assert resting.data["seconds"] == 30
    with (scene.root / "holdfast.toml").open("a") as file:
        file.write("idle_seconds = 0\n")
    ann.tell("UserPromptSubmit")
    assert scene.owners() == {"app/x.rb": ANN_ID}
    ann.tell("Stop")
    assert bob.edit("app/x.rb") == ""


# The report


def test_seed002_20_agent_and_user_read_the_six_facts(scene: Scene) -> None:
    _ann, _bob, said = blocked(scene)
    (heartbeat,) = scene.events("contention_heartbeat")
    (event,) = scene.events("agent_blocked")
    report = event.data["report"]
    assert report["blocked_file"] == "app/x.rb"
    assert report["owner"] == ANN_ID
    assert report["lock_age_seconds"] == 240
    assert report["last_heartbeat"] == iso(heartbeat.at)
    assert report["retry_interval_seconds"] == 180
    assert report["state"] == "waiting_for_instruction"
    facts = (
        "blocked file    app/x.rb", f"owner           {ANN_ID}", "lock age        4 min",
        f"last heartbeat  {iso(heartbeat.at)}", "retry interval  180 s",
        "state=waiting_for_instruction",
    )  # fmt: skip
    for told in (refusal(said), said["systemMessage"], said["stopReason"]):
        for fact in facts:
            assert fact in told


# The states of a file


def states(events: list[Event]) -> Iterator[str]:
    """The states that a file goes through, by what the ledger tells."""
    state = "Free"
    yield state
    for event in events:
        before = state
        if event.type == "lock_acquired" and state in ("Free", "Blocked"):
            state = "Owned"
        elif event.type == "lock_refused":
            state = "Contended"
        elif event.type == "contention_heartbeat":
            state = "RetryPending"
        elif event.type == "agent_blocked":
            state = "Blocked"
        elif event.type == "contention_over" and not event.data.get("blocked"):
            state = "Owned"
        elif event.type in ("lock_released", "lock_reaped") and state == "Owned":
            state = "Free"
        if state != before:
            yield state


def test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised(
    scene: Scene,
) -> None:
    ann, bob, cid = (scene.at_the_door(name) for name in (ANN, BOB, "cid-session"))
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
    step("Free", "Owned")  # stop, and 30 s of rest
    bob.edit(path)
    step("Contended", "RetryPending")  # a competing acquire, and the heartbeat
    scene.clock.advance(179)
    bob.edit(path)
    step()  # it is not tried
    scene.clock.advance(1)
    bob.edit(path)
    step("Blocked")  # the retry fails
    ann.commit(path)
    bob.edit(path)
    step()  # released, and nobody told it
    bob.tell("UserPromptSubmit")
    bob.edit(path, "bob\n")
    step("Owned")  # resumed by hand after the release
    failed(bob)
    step("Free")  # hard failure
    ann.edit(path, "ann\n")
    bob.edit(path)
    step("Owned", "Contended", "RetryPending")
    ann.tell("SessionEnd")  # the end: it is kept for the one who waits
    scene.clock.advance(180)
    bob.edit(path, "bob again\n")
    step("Owned")  # the retry succeeds
    bob.commit(path)
    step("Free")  # the commit succeeds
    bob.edit(path)
    step("Owned")
    bob.kill()
    cid.edit(path)
    step("Free", "Owned")  # the owner is not alive
    cid.tell("SessionEnd")
    step("Free")  # the end, and nobody waits


# What was to be verified


@contextmanager
def ledger_closed(root: Path) -> Iterator[Path]:
    """Nobody gets into the ledger."""
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
    assert scene.owners() == {"app/x.rb": f"claude:{allowed[0][:8]}"}


def asked_at_once(scene: Scene, agents: list[InProcesses], path: str) -> dict[str, dict[str, Any]]:
    """What the hooks of all these agents answer who stood at the ledger's gate when it opened."""
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
    assert scene.owners() == {"app/x.rb": f"claude:{answers.index('')}-sessio"}


def test_seed002_25_through_the_hook_contention_is_a_heartbeat_and_a_retry_at_180(
    scene: Scene,
) -> None:
    heartbeat, said = contended(scene)
    assert heartbeat.data["agent"] == BOB_ID
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
    scene.clock.advance(180)
    assert bob.edit("app/x.rb", "bob\n") == ""
    assert text(scene, "app/x.rb") == "bob\n"


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
