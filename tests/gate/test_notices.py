"""People are notified, by a command of their own, that an agent is blocked, free or resumed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers_cli import COMMAND, Repository, Terminal, as_a_person, environment
from helpers_hook import HOOK, InProcesses, Scene, refusal
from helpers_processes import LINUX_ONLY, state_of, until
from holdfast import LockManager
from holdfast.gate import side_process
from holdfast.gate.people import lookout, notices, notify_command
from holdfast.gate.people.blocked_agents import resume
from holdfast.gate.rulebook import unblocking
from stage import settled

pytestmark = LINUX_ONLY

FILE = "app/x.rb"
HEARD = "heard"
#: A command that records its notice.
NOTIFY = ("sh", "-c", f'echo "$HOLDFAST_NOTICE $HOLDFAST_FILE" >> {HEARD}', "notify")
#: Long enough for any wrong notice to arrive.
QUIET_SECONDS = 1.5
#: The time within which people are notified, on a busy machine.
SOON_SECONDS = 8.0

ANN, BOB, CID = "ann-session", "bob-session", "cid-session"


class Desk(Scene):
    """A repository whose user is notified of its agents."""

    def __init__(self, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(repository.root, monkeypatch)
        self.repository = repository

    def settle(self, **gate: object) -> None:
        """Write the settings: a retry is due almost immediately, and no call is held open."""
        words = ", ".join(f"'{word}'" for word in NOTIFY)
        rows = {"retry_seconds": 0.05, "hold_seconds": 0, **gate}
        lines = [f"notify = [{words}]", "[gate]", *(f"{key} = {rows[key]}" for key in rows)]
        (self.root / "holdfast.toml").write_text("\n".join(lines) + "\n")

    def blocked(self) -> tuple[InProcesses, InProcesses]:
        """Let ann have a file, and bob be blocked by it."""
        ann, bob = self.in_processes(ANN), self.in_processes(BOB)
        assert ann.edit(FILE) == ""
        self.block(bob)
        self.hears("blocked")
        return ann, bob

    def block(self, agent: InProcesses, file: str = FILE) -> None:
        """Let an agent ask twice for a file that another has."""
        assert refusal(agent.ask(file))
        time.sleep(0.1)
        assert "waiting_for_instruction" in str(agent.ask(file))

    def heard(self) -> list[str]:
        try:
            lines = (self.root / HEARD).read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.split()[0] for line in lines]

    def hears(self, *words: str) -> None:
        """People get these notices soon, and no other."""
        until(lambda: len(self.heard()) >= len(words), f"people hear {words}", SOON_SECONDS)
        assert self.heard() == list(words)

    def hears_only(self, *words: str) -> None:
        """The same, and no further notice in a while."""
        self.hears(*words)
        time.sleep(QUIET_SECONDS)
        assert self.heard() == list(words)

    def lookouts(self) -> list[int]:
        """The lookout processes of this repository."""
        found = []
        for name in os.listdir("/proc"):
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
                continue
            if os.fsencode(self.root) in words and b"gate.people.lookout" in b" ".join(words):
                found += [int(name)] if state_of(int(name)) not in "ZX" else []
        return found

    def lookout(self) -> int:
        """The lookout that has taken its place."""
        until(lambda: self.place.exists() and self.place.read_text(), "it has its place")
        (found,) = self.lookouts()
        return found

    @property
    def place(self) -> Path:
        return self.root / side_process.FOLDER / notices.LOOKOUT

    def types(self) -> list[str]:
        """The ledger's events about blocked agents."""
        known = ("agent_blocked", "agent_resumed")
        return [
            event.type
            for event in self.events()
            if event.type in known or event.type.startswith("blocker_free")
        ]

    def close(self) -> None:
        super().close()
        self.kill_lookouts()

    def kill_lookouts(self) -> None:
        for pid in self.lookouts():
            os.kill(pid, signal.SIGKILL)
        until(lambda: not self.lookouts(), "nobody looks out")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(Repository(tmp_path / "repository"), monkeypatch)
    made.settle()
    settled(made.root / FILE, made.root / "app/y.rb")
    yield made
    made.close()


def person(desk: Desk, *words: str) -> subprocess.CompletedProcess[str]:
    """A person runs a command of ours."""
    return subprocess.run(
        as_a_person(*COMMAND, *words), cwd=desk.root, env=environment(), text=True,
        capture_output=True, timeout=60,
    )  # fmt: skip


# Each way in which a file comes free


def commits(desk: Desk, ann: InProcesses) -> None:
    ann.commit(FILE)


def ends(desk: Desk, ann: InProcesses) -> None:
    ann.tell("SessionEnd")


def dies(desk: Desk, ann: InProcesses) -> None:
    ann.process.send_signal(signal.SIGKILL)
    ann.process.wait(60)


def is_unlocked(desk: Desk, ann: InProcesses) -> None:
    terminal = Terminal(desk.repository)
    try:
        answer = terminal.hold("unlock", FILE, "--force", "--reason", "urgent")
        assert answer.code == 0, answer
    finally:
        terminal.close()


def is_given_back(desk: Desk, ann: InProcesses) -> None:
    (grant,) = desk.grants()
    with LockManager.open(desk.root) as manager:
        manager.release(grant.id)


@pytest.mark.parametrize("frees", [commits, ends, dies, is_unlocked, is_given_back])
def test_people_hear_once_that_the_file_is_free(
    desk: Desk, frees: Callable[[Desk, InProcesses], None]
) -> None:
    ann, bob = desk.blocked()
    frees(desk, ann)
    desk.hears_only("blocked", "free")
    assert desk.types() == ["agent_blocked", "blocker_free", "blocker_free_told"]
    bob.tell("UserPromptSubmit")
    desk.hears("blocked", "free", "resumed")


def test_people_hear_that_an_owner_rested_long_enough(desk: Desk) -> None:
    desk.settle(idle_seconds=1)
    ann, _bob = desk.blocked()
    ann.tell("Stop")
    desk.hears_only("blocked", "free")


def test_people_hear_that_the_time_of_a_lease_is_over(desk: Desk) -> None:
    with LockManager.open(desk.root) as manager:
        manager.acquire(holder="eve", write_paths=[FILE], ttl=2)
    desk.block(desk.in_processes(BOB))
    desk.hears_only("blocked", "free")


def test_people_hear_that_a_command_which_had_the_file_has_ended(desk: Desk) -> None:
    script = "echo begun; read line"
    run = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "run", "--write", FILE, "--", "sh", "-c", script],
        cwd=desk.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"begun\n"
        desk.block(desk.in_processes(BOB))
        desk.hears_only("blocked")
        run.communicate(b"\n", timeout=60)
    desk.hears_only("blocked", "free")


def test_a_folder_that_comes_free_frees_the_files_in_it(desk: Desk) -> None:
    with LockManager.open(desk.root) as manager:
        grant = manager.acquire(holder="eve", read_paths=["app/"], ttl=None)
        desk.block(desk.in_processes(BOB))
        desk.hears("blocked")
        manager.release(grant.id)
    desk.hears_only("blocked", "free")


def test_people_hear_it_each_time(desk: Desk) -> None:
    ann, _bob = desk.blocked()
    ann.tell("SessionEnd")
    desk.hears("blocked", "free")
    cid = desk.in_processes(CID)
    assert cid.edit(FILE) == ""
    until(lambda: "blocker_free_over" in desk.types(), "it is seen that the file is taken again")
    desk.hears_only("blocked", "free")
    dies(desk, cid)
    desk.hears_only("blocked", "free", "free")


def test_of_several_that_are_blocked_people_hear_of_each(desk: Desk) -> None:
    ann, _bob = desk.blocked()
    assert ann.edit("app/y.rb") == ""
    desk.block(desk.in_processes(CID), "app/y.rb")
    assert len(desk.lookouts()) == 1
    dies(desk, ann)
    desk.hears_only("blocked", "blocked", "free", "free")
    told = (desk.root / HEARD).read_text().splitlines()[2:]
    assert sorted(told) == [f"free {FILE}", "free app/y.rb"]


# No false notices


def test_people_hear_of_a_sub_agent_that_is_blocked_when_it_stops(desk: Desk) -> None:
    ann, bob = desk.in_processes(ANN), desk.in_processes(BOB)
    assert ann.edit(FILE) == ""
    assert refusal(bob.ask(FILE, agent_id="a0000000000000001"))
    time.sleep(0.1)
    bob.tell("SubagentStop", agent_id="a0000000000000001")
    desk.hears("blocked")
    dies(desk, ann)
    desk.hears_only("blocked", "free")


def test_nothing_is_told_of_a_file_that_goes_to_somebody_else(desk: Desk) -> None:
    desk.settle(retry_seconds=0.05)
    ann, _bob = desk.blocked()
    desk.settle(retry_seconds=600)
    cid = desk.in_processes(CID)
    assert cid.edit(FILE)
    assert desk.queue() == [CID]
    dies(desk, ann)
    until(lambda: desk.owners() == {FILE: CID}, "the file is handed over")
    desk.hears_only("blocked")


def test_nothing_is_told_as_long_as_another_still_has_it(desk: Desk) -> None:
    with LockManager.open(desk.root) as manager:
        first = manager.acquire(holder="eve", read_paths=[FILE], ttl=None)
        second = manager.acquire(holder="zoe", read_paths=[FILE], ttl=None)
        desk.block(desk.in_processes(BOB))
        manager.release(first.id)
        desk.hears_only("blocked")
        manager.release(second.id)
    desk.hears_only("blocked", "free")


def test_nothing_is_told_as_long_as_another_name_of_the_file_is_held(desk: Desk) -> None:
    os.link(desk.root / FILE, desk.root / "linked.rb")
    ann = desk.in_processes(ANN)
    assert not refusal(ann.ask(FILE))
    desk.block(desk.in_processes(BOB), "linked.rb")
    desk.hears_only("blocked")
    dies(desk, ann)
    desk.hears_only("blocked", "free")


def test_nothing_is_told_as_long_as_a_command_of_the_dead_goes_on_writing(desk: Desk) -> None:
    ann, _bob = desk.blocked()
    ann.command("sleep 60")
    with ann.shell("exec sleep 60") as running:
        dies(desk, ann)
        desk.hears_only("blocked")
        running.kill()
        running.wait(60)
    desk.hears_only("blocked", "free")


def test_nothing_is_told_of_another_file(desk: Desk) -> None:
    ann, _bob = desk.blocked()
    assert ann.edit("app/y.rb") == ""
    ann.commit("app/y.rb")
    desk.hears_only("blocked")


def test_nothing_is_told_after_the_agent_may_go_on(desk: Desk) -> None:
    ann, _bob = desk.blocked()
    with LockManager.open(desk.root) as manager:
        assert resume(manager, "eve")
    desk.hears("blocked", "resumed")
    dies(desk, ann)
    desk.hears_only("blocked", "resumed")


def test_nothing_is_told_of_a_retry_that_fails_while_the_user_speaks(desk: Desk) -> None:
    ann, bob = desk.in_processes(ANN), desk.in_processes(BOB)
    assert ann.edit(FILE) == ""
    assert bob.edit(FILE)
    time.sleep(0.1)
    bob.tell("UserPromptSubmit")
    assert desk.types() == ["agent_blocked", "agent_resumed"]
    desk.hears_only()


def test_nobody_looks_out_if_nobody_wants_to_hear(desk: Desk) -> None:
    desk.settle()
    file = desk.root / "holdfast.toml"
    file.write_text(file.read_text().partition("\n")[2])
    ann, bob = desk.in_processes(ANN), desk.in_processes(BOB)
    assert ann.edit(FILE) == ""
    desk.block(bob)
    ann.tell("SessionEnd")
    assert person(desk, "status").returncode == 0
    assert desk.types() == ["agent_blocked", "blocker_free"]
    assert not desk.place.exists()
    assert desk.lookouts() == []


def test_an_edit_that_nobody_contends_pays_nothing_for_it(desk: Desk) -> None:
    ann = desk.in_processes(ANN)
    told = ann.told("PreToolUse-Write", tool_input={"file_path": f"{desk.root}/{FILE}"})
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", str(HOOK), "claude"], input=told, cwd="/",
        env={**environment(), **ann.env}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert desk.owners() == {FILE: ANN}
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "holdfast.gate.people.notices" in imported
    late = (side_process, lookout, notify_command, unblocking)
    assert not imported & {module.__name__ for module in late}
    assert not desk.place.parent.exists()


# The process


def test_there_is_one_and_it_ends_when_nobody_is_blocked(desk: Desk) -> None:
    _ann, bob = desk.blocked()
    first = desk.lookout()
    desk.block(desk.in_processes(CID))
    for _ in range(3):
        assert "waiting_for_instruction" in str(bob.ask("app/y.rb"))
    assert desk.lookout() == first
    bob.tell("UserPromptSubmit")
    time.sleep(QUIET_SECONDS)
    assert desk.lookout() == first, "another agent is still blocked"
    assert person(desk, "resume").returncode == 0
    until(lambda: not desk.lookouts(), "it ends")
    assert not desk.place.exists()


def test_many_that_start_at_once_are_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, _bob = desk.blocked()
    desk.lookout()
    desk.kill_lookouts()
    with monkeypatch.context() as patch:
        patch.setattr(side_process.Place, "is_taken", lambda _: False)
        started = [notices.look_out(str(desk.root)) for _ in range(5)]
    assert all(started)
    until(lambda: len(desk.lookouts()) == 1, "one is left")
    dies(desk, ann)
    desk.hears_only("blocked", "free")
    desk.kill_lookouts()
    for pid in started:
        os.waitpid(pid, 0)


@pytest.mark.parametrize(
    "who", ["the blocked agent", "its command", "the owner", "a person", "another person"]
)
def test_one_that_was_killed_is_replaced_and_says_nothing_twice(desk: Desk, who: str) -> None:
    ann, bob = desk.blocked()
    desk.block(desk.in_processes(CID))
    desk.hears("blocked", "blocked")
    desk.lookout()
    desk.kill_lookouts()
    if who == "the owner":
        commits(desk, ann)
    else:
        dies(desk, ann)
        if who == "the blocked agent":
            assert "waiting_for_instruction" in str(bob.ask("app/y.rb"))
        elif who == "its command":
            said = bob.tell("PreToolUse-Bash", tool_input={"command": "make"})
            assert "waiting_for_instruction" in str(said)
        else:
            words = ("status",) if who == "a person" else ("blockers",)
            assert person(desk, *words).returncode == 0
    desk.hears("blocked", "blocked", "free", "free")
    desk.lookout()
    desk.kill_lookouts()
    assert "waiting_for_instruction" in str(bob.ask("app/y.rb"))
    assert desk.lookout()
    desk.hears_only("blocked", "blocked", "free", "free")


def test_it_has_nothing_of_the_hook_and_leaves_nothing_of_the_command(desk: Desk) -> None:
    ann, _bob = desk.blocked()
    pid = desk.lookout()
    proc = Path(f"/proc/{pid}")
    assert os.readlink(proc / "cwd") == "/"
    assert os.getsid(pid) == pid
    assert [os.readlink(proc / f"fd/{number}") for number in range(3)] == [os.devnull] * 3
    environ = (proc / "environ").read_bytes()
    assert b"CLAUDE_PID=" not in environ, "it would count as a command of the agent"
    assert b"PATH=" in environ, "the notify command needs a PATH"
    dies(desk, ann)
    desk.hears("blocked", "free")
    children = proc / f"task/{pid}/children"
    until(lambda: children.read_text() == "", "the command has left nothing behind")


@pytest.mark.parametrize("gone", [".holdfast", "."])
def test_it_ends_when_the_ledger_is_gone_and_makes_no_new_one(desk: Desk, gone: str) -> None:
    desk.blocked()
    maps = Path(f"/proc/{desk.lookout()}/maps")
    until(lambda: "ledger.db-shm" in maps.read_text(), "it has opened the ledger")
    time.sleep(0.1)
    shutil.rmtree(desk.root / gone)
    until(lambda: not desk.lookouts(), "it ends")
    assert not (desk.root / ".holdfast").exists()


def test_it_ends_when_people_do_not_want_to_hear_any_more(desk: Desk) -> None:
    ann, _bob = desk.blocked()
    desk.lookout()
    (desk.root / "holdfast.toml").unlink()
    dies(desk, ann)
    until(lambda: not desk.lookouts(), "it ends")
    assert "blocker_free_told" not in desk.types()
