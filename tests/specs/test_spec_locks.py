"""Spec locks among many: real processes, other programs, the agents of one machine, people."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from helpers_cli import Repository, Terminal
from helpers_processes import LINUX_ONLY, Crowd, until
from helpers_specs import foreign, locks, made_repository, made_workspace
from helpers_specs_crowd import fight
from holdfast import Holder, HoldfastError
from holdfast.manager.owners.liveness import own_witness, witness_of
from holdfast.specs import LockFile, errors, spec_files, spec_holders
from holdfast.specs.spec_locks import SETTLE_SECONDS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made_workspace(tmp_path / "workspace")


@pytest.fixture
def demo(root: Path) -> Path:
    return root / ".kiro/specs/demo"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return made_repository(tmp_path / "repo")


@pytest.fixture(autouse=True)
def _no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests may be run by an agent."""
    for name in list(os.environ):
        if name.startswith(("HOLDFAST_", "CLAUDE", "CODEX_")):
            monkeypatch.delenv(name)


# One winner


LOCK = """
from holdfast.specs import SpecLocks, MachineId
class Fixed:
    def get_machine_id(self):
        return MachineId(id=sys.argv[2], hostname="pc", created_at="")
locks = SpecLocks(sys.argv[1], Fixed(), holder=sys.argv[2], owner=sys.argv[2])
for round in range(int(sys.argv[3])):
    say("ready"); go()
    result = locks.acquire_lock("demo")
    say("won" if result.success else "lost", (result.lock or result.existing_lock).machine_id)
"""


@pytest.mark.parametrize("before", [None, b"nonsense", b""])
def test_of_many_machines_that_lock_at_once_one_wins(
    root: Path, demo: Path, tmp_path: Path, before: bytes | None
) -> None:
    rounds = 10 if before is None else 3
    with Crowd(tmp_path) as crowd:
        machines = [crowd.start(LOCK, root, f"m-{n}", rounds) for n in range(6)]
        for round in range(1, rounds + 1):
            for one in machines:
                one.wait_for("ready", round)
            if before is not None:
                (demo / ".lock").write_bytes(before)
            for one in machines:
                one.tell()
            until(
                lambda: all(
                    len(one.words("won") + one.words("lost")) == round  # noqa: B023
                    for one in machines
                ),
                "all have tried",
            )
            won = [one for one in machines if one.lines()[_last(one)].startswith("won")]
            assert len(won) == 1
            winner = won[0].words("won")[-1][0]
            for one in machines:
                said = one.lines()[_last(one)].split()
                assert said[1] == winner
            assert locks(root, id=winner).release_lock("demo", force=True).success
    assert [one for one in os.listdir(demo) if "damaged" not in one] == []


def _last(child: Any) -> int:
    """Where the last outcome is among the lines of a child."""
    lines = child.lines()
    return max(at for at, line in enumerate(lines) if line.split()[0] in ("won", "lost"))


def test_a_lock_outlives_the_process_that_took_it(root: Path, tmp_path: Path) -> None:
    with Crowd(tmp_path) as crowd:
        child = crowd.start(LOCK, root, "m-1", 1)
        child.wait_for("ready")
        child.tell()
        child.wait_for("won")
        child.kill()
    assert locks(root, id="m-2").acquire_lock("demo").error == errors.ALREADY_LOCKED
    assert locks(root, holder="m-1", id="m-1").release_lock("demo").success


KILLED = """
from holdfast.specs import SpecLocks, MachineId
class Fixed:
    def get_machine_id(self):
        return MachineId(id="pc-1", hostname="pc", created_at="")
locks = SpecLocks(sys.argv[1], Fixed(), holder="agent", owner="ann")
say("ready")
while True:
    locks.acquire_lock("demo")
    locks.release_lock("demo")
"""


def test_a_process_killed_at_any_moment_leaves_a_whole_lock_or_none(
    root: Path, demo: Path, tmp_path: Path
) -> None:
    for round in range(15):
        with Crowd(tmp_path / str(round)) as crowd:
            child = crowd.start(KILLED, root)
            child.wait_for("ready")
            time.sleep(0.002 * round)
            child.kill()
        left = set(os.listdir(demo)) - {".lock", ".lock.tmp"}
        assert left == set(), "nothing but the lock and what guards it"
        mine = locks(root)
        if (demo / ".lock").exists():
            assert mine.is_locked_by_me("demo")
            assert mine.release_lock("demo").success
        assert mine.acquire_lock("demo").success
        assert mine.release_lock("demo").success
        assert os.listdir(demo) == []


@LINUX_ONLY
def test_a_process_stopped_inside_is_named_after_a_while(
    root: Path, demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = """
import fcntl
at = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(at, fcntl.LOCK_EX)
say("inside"); go()
"""
    monkeypatch.setattr(spec_files, "ALONE_SECONDS", 0.2)
    with Crowd(tmp_path) as crowd:
        child = crowd.start(stopped, demo)
        child.wait_for("inside")
        with pytest.raises(errors.SpecBusyError, match=f"process {child.pid} ") as caught:
            locks(root).acquire_lock("demo")
    assert f"kill -CONT {child.pid}" in caught.value.hint
    assert locks(root).acquire_lock("demo").success


# Other programs


def test_a_lock_that_another_program_made_exclusively_is_respected(root: Path, demo: Path) -> None:
    foreign(demo / ".lock")
    result = locks(root).acquire_lock("demo")
    assert result.error == errors.ALREADY_LOCKED
    assert result.existing_lock is not None
    assert result.existing_lock.owner == "bob"


SLOW = """
import json, threading
at = os.open(sys.argv[1], os.O_CREAT | os.O_EXCL | os.O_WRONLY)
say("made"); go()
os.write(at, sys.argv[2][:40].encode()); say("half"); go()
os.write(at, sys.argv[2][40:].encode()); say("whole"); go()
"""


def test_a_file_that_is_being_written_is_not_taken_for_damaged(
    root: Path, demo: Path, tmp_path: Path
) -> None:
    text = foreign(tmp_path / "lock").decode()
    asking = """
from holdfast.specs import SpecLocks
result = SpecLocks(sys.argv[1], holder="agent", owner="ann").acquire_lock("demo")
say("said", result.error)
"""
    with Crowd(tmp_path) as crowd:
        slow = crowd.start(SLOW, demo / ".lock", text)
        slow.wait_for("made")
        ours = crowd.start(asking, root)
        for word in ("half", "whole"):
            slow.tell()
            slow.wait_for(word)
        assert " ".join(ours.done().words("said")[0]) == errors.ALREADY_LOCKED
    assert (demo / ".lock").read_text() == text


@pytest.mark.parametrize("data", [b"", b'{"owner": "ann"'])
def test_a_file_that_was_left_half_written_is_damaged_after_a_moment(
    root: Path, demo: Path, data: bytes
) -> None:
    (demo / ".lock").write_bytes(data)
    begun = time.monotonic()
    assert locks(root).acquire_lock("demo").success
    assert time.monotonic() - begun < 5


def test_also_if_the_clocks_differ(root: Path, demo: Path) -> None:
    (demo / ".lock").write_bytes(b"")
    os.utime(demo / ".lock", (time.time() + 10_000, time.time() + 10_000))
    assert locks(root).acquire_lock("demo").success


def overwriting(demo: Path) -> None:
    """The dangerous half of how one program locks: its write after the check."""
    (demo / ".lock.tmp").write_text("{}")
    (demo / ".lock.tmp").rename(demo / ".lock")


OVERWRITING = """
lock = sys.argv[1] + "/.lock"
say("ready")
while not os.path.exists(lock):  # it looked just before
    time.sleep(0.0005)
time.sleep(float(sys.argv[2]))
with open(lock + ".tmp", "wb") as file:
    file.write(open(sys.argv[3], "rb").read())
os.rename(lock + ".tmp", lock)
"""


def test_a_program_that_writes_over_our_lock_has_it_and_we_do_not(
    root: Path, demo: Path, tmp_path: Path
) -> None:
    """Nothing is in its way on which it could crash."""
    theirs = foreign(tmp_path / "lock")
    with Crowd(tmp_path) as crowd:
        for late in (0, 0.02, 0.1):
            child = crowd.start(OVERWRITING, demo, late, tmp_path / "lock")
            child.wait_for("ready")
            result = locks(root, settle_seconds=SETTLE_SECONDS).acquire_lock("demo")
            child.done()
            assert (result.success, result.error) == (False, errors.ALREADY_LOCKED)
            assert result.existing_lock is not None
            assert result.existing_lock.owner == "bob"
            assert (demo / ".lock").read_bytes() == theirs
            (demo / ".lock").unlink()


def test_a_program_that_is_writing_while_ours_settles_is_waited_for(
    root: Path, demo: Path, tmp_path: Path
) -> None:
    text = foreign(tmp_path / "lock").decode()
    slow = """
draft = sys.argv[1] + "/.lock.tmp"
say("ready")
while not os.path.exists(sys.argv[1] + "/.lock"):
    time.sleep(0.0005)
with open(draft, "w") as file:
    file.write(open(sys.argv[2]).read())
time.sleep(0.2)
os.rename(draft, sys.argv[1] + "/.lock")
"""
    with Crowd(tmp_path) as crowd:
        child = crowd.start(slow, demo, tmp_path / "lock")
        child.wait_for("ready")
        assert not locks(root, settle_seconds=0.05).acquire_lock("demo").success
        child.done()
    assert (demo / ".lock").read_text() == text


def test_an_interrupt_while_ours_settles_leaves_no_lock(
    root: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(seconds: float) -> None:
        assert (demo / ".lock").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.specs.spec_locks.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        locks(root, settle_seconds=SETTLE_SECONDS).acquire_lock("demo")
    assert os.listdir(demo) == []


def test_nothing_but_the_lock_is_there_and_nothing_when_it_is_gone(root: Path, demo: Path) -> None:
    mine = locks(root)
    for end in (
        lambda: mine.release_lock("demo"),
        lambda: mine.release_lock("demo", force=True),
        lambda: mine.files.delete("demo"),
    ):
        assert mine.acquire_lock("demo").success
        assert os.listdir(demo) == [".lock"]
        end()
        assert os.listdir(demo) == []


def test_a_folder_that_versions_before_left_there_is_taken_away(root: Path, demo: Path) -> None:
    mine = locks(root)
    for step in (
        lambda: mine.cleanup_stale_locks(),
        lambda: mine.release_lock("demo"),
        lambda: mine.acquire_lock("demo"),
    ):
        (demo / ".lock.tmp").mkdir()
        step()
        assert not (demo / ".lock.tmp").exists()


def test_a_program_that_is_writing_is_waited_for(root: Path, demo: Path, tmp_path: Path) -> None:
    text = foreign(tmp_path / "lock").decode()
    (demo / ".lock.tmp").write_text(text)
    other = """
time.sleep(0.1)
os.rename(sys.argv[1] + "/.lock.tmp", sys.argv[1] + "/.lock")
"""
    with Crowd(tmp_path) as crowd:
        child = crowd.start(other, demo)
        assert locks(root).acquire_lock("demo").error == errors.ALREADY_LOCKED
        child.done()


def test_a_program_that_died_while_it_wrote_is_not(root: Path, demo: Path) -> None:
    (demo / ".lock.tmp").write_text("{")
    os.utime(demo / ".lock.tmp", (0, 0))
    assert locks(root).acquire_lock("demo").success
    assert locks(root).release_lock("demo").success
    assert (demo / ".lock.tmp").read_text() == "{", "it is not ours to remove"


def test_a_mixed_crowd_never_has_the_lock_twice(tmp_path: Path) -> None:
    counts = fight(tmp_path / "workspace", 3, Random(1))
    assert counts.pop("kills") > 0
    assert sum(counts.values()) > 0


# Two agents on one machine


def test_another_agent_of_the_machine_does_not_release_it(root: Path) -> None:
    assert locks(root, "ann").acquire_lock("demo").success
    refused = locks(root, "bob").release_lock("demo")
    assert (refused.success, refused.error) == (False, errors.OTHER_HOLDER)
    assert locks(root, "bob").is_locked_by_me("demo"), "it is the machine's, whoever holds it"
    assert locks(root, "bob").get_lock_status("demo").holder == "ann"
    assert locks(root, "bob").acquire_lock("demo").error == errors.ALREADY_LOCKED
    assert locks(root, "ann").release_lock("demo").success


def test_with_force_it_does(root: Path) -> None:
    locks(root, "ann").acquire_lock("demo")
    assert locks(root, "bob").release_lock("demo", force=True).success


def test_the_note_is_beside_the_ledger_and_not_in_the_file(root: Path, demo: Path) -> None:
    locks(root, "ann-the-agent").acquire_lock("demo")
    assert b"ann-the-agent" not in (demo / ".lock").read_bytes()
    note = root / ".holdfast/specs/.kiro/specs/demo/holder.json"
    assert "ann-the-agent" in note.read_text()
    assert (root / ".holdfast/.gitignore").read_text() == "*\n"
    locks(root, "ann-the-agent").release_lock("demo")
    assert not note.exists()


def test_a_lock_without_a_note_is_the_machines(root: Path, demo: Path) -> None:
    foreign(demo / ".lock", machineId="pc-1")
    assert locks(root, "ann").get_lock_status("demo").holder is None
    assert locks(root, "ann").release_lock("demo").success


def test_a_note_does_not_apply_to_a_later_lock(root: Path, demo: Path) -> None:
    locks(root, "ann").acquire_lock("demo")
    foreign(demo / ".lock", machineId="pc-1")  # another program removed it by force and locked it
    assert locks(root, "bob").get_lock_status("demo").holder is None
    assert locks(root, "bob").release_lock("demo").success


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"lock": 1, "holder": {}}'])
def test_a_damaged_note_is_ignored(root: Path, text: str) -> None:
    locks(root, "ann").acquire_lock("demo")
    (root / ".holdfast/specs/.kiro/specs/demo/holder.json").write_text(text)
    assert locks(root, "bob").release_lock("demo").success


@LINUX_ONLY
def test_a_dead_holders_lock_stays_and_the_machine_may_release_it(
    root: Path,
) -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        agent = Holder(id="runner", key="runner", witness=witness_of(process.pid))
        assert locks(root, agent).acquire_lock("demo").success
        assert locks(root, "bob").release_lock("demo").error == errors.OTHER_HOLDER
        process.kill()
        process.wait()
    assert locks(root, "bob").acquire_lock("demo").error == errors.ALREADY_LOCKED
    assert locks(root, "bob", "far-2").release_lock("demo").error == errors.OTHER_MACHINE
    assert locks(root, "bob").release_lock("demo").success


def test_a_sub_agent_is_family_and_another_session_is_not() -> None:
    session = Holder(id="s", key="@codex/s/")
    child = Holder(id="c", key="@codex/s/c", parent="@codex/s/")
    sibling = Holder(id="d", key="@codex/s/d", parent="@codex/s/")
    other = Holder(id="o", key="@codex/o/")
    assert spec_holders.is_family(session, child)
    assert spec_holders.is_family(child, session)
    assert not spec_holders.is_family(child, sibling)
    assert not spec_holders.is_family(child, other)
    assert not spec_holders.is_family(session, other)
    assert not spec_holders.is_family(Holder(id="a"), Holder(id="b"))


@LINUX_ONLY
def test_agents_are_told_apart_by_their_sessions_on_the_command_line(repo: Repository) -> None:
    ann, bob = ({"CLAUDE_CODE_SESSION_ID": name} for name in ("ann-session", "bob-session"))
    assert repo.hold("spec", "lock", "demo", env=ann).code == 0
    refused = repo.hold("spec", "unlock", "demo", env=bob)
    assert refused.code == 4
    assert errors.OTHER_HOLDER in refused.err
    assert "claude:ann-sess" in refused.err
    assert repo.hold("spec", "unlock", "demo", env=ann).code == 0


def test_an_agent_cannot_force_and_a_person_can(repo: Repository) -> None:
    ann, bob = ({"CLAUDE_CODE_SESSION_ID": name} for name in ("ann-session", "bob-session"))
    repo.hold("spec", "lock", "demo", env=ann)
    refused = repo.hold("spec", "unlock", "demo", "--force", env=bob)
    assert (refused.code, "agents may not" in refused.err) == (2, True)
    forced = repo.hold("spec", "unlock", "demo", "--force")
    assert forced.code == 0
    assert forced.out.startswith("took demo from ")


@LINUX_ONLY
def test_a_person_is_the_same_at_another_terminal(repo: Repository) -> None:
    one, other = Terminal(repo), Terminal(repo)
    try:
        assert one.hold("spec", "lock", "demo").code == 0
        assert other.hold("spec", "unlock", "demo").code == 0
    finally:
        one.close()
        other.close()


def test_a_name_that_cannot_be_a_holder_is_an_error(root: Path, repo: Repository) -> None:
    with pytest.raises(HoldfastError, match="cannot be the name of a holder"):
        locks(root, "two\nlines")
    assert repo.hold("spec", "lock", "demo", "--holder", " x").code == 2


def test_the_hint_can_be_pasted(repo: Repository) -> None:
    (repo.root / ".kiro/specs/-odd one").mkdir()
    said = repo.hold("spec", "lock", "--holder", "me", "--", "-odd one")
    assert said.err == "  release it: holdfast spec unlock --holder me -- '-odd one'\n"
    assert repo.hold("spec", "unlock", "--holder", "me", "--", "-odd one").code == 0


# Status


def test_the_status_of_everything_shows_locked_specs(repo: Repository) -> None:
    assert repo.hold("status").out == "nothing is locked\n"
    repo.hold("spec", "lock", "demo", "--reason", "rewrite it", "--holder", "agent-7")
    foreign(repo.root / ".kiro/specs/other/.lock", timestamp="2020-01-01T00:00:00Z")
    said = repo.hold("status").out
    assert said.startswith("2 specs locked in ")
    for fact in ("demo", "agent-7", "rewrite it", "other", "bob", "far", "stale", "days"):
        assert fact in said
    found = repo.hold("status", "--json").json["specs"]
    assert [(one["specName"], one["isOwnedByMe"], one["isStale"]) for one in found] == [
        ("demo", True, False), ("other", False, True),
    ]  # fmt: skip
    repo.hold("lock", "app/x.rb")
    assert repo.hold("status").out.startswith("1 lock, 2 specs locked in ")


def test_nothing_in_a_lock_reaches_the_terminal_as_a_command(repo: Repository) -> None:
    evil = "\x1b[31mred\x07\n"
    foreign(repo.root / ".kiro/specs/demo/.lock", owner=evil, reason=evil, hostname=evil)
    for words in (("spec", "status"), ("status",), ("spec", "lock", "demo")):
        answer = repo.hold(*words)
        assert "\x1b" not in answer.out + answer.err
        assert "\\x1b[31mred" in answer.out + answer.err


def test_a_repository_without_specs_pays_for_no_specs(tmp_path: Path) -> None:
    bare = Repository(tmp_path / "bare")
    script = (
        "import sys; from holdfast.cli import main; main(['status']);"
        "print(*[name for name in sys.modules if name.startswith('holdfast.specs')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=bare.root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1].split() == ["holdfast.specs", "holdfast.specs.spec_names"]


# Interfaces that others use


def test_the_manager_and_the_file_agree_on_what_is_there(root: Path) -> None:
    mine = locks(root)
    mine.acquire_lock("demo")
    found = LockFile(root / ".kiro/specs").read("demo")
    assert mine.get_lock_status("demo").lock == found


def test_reading_by_an_invalid_name_is_an_error(root: Path) -> None:
    for method in ("read", "delete", "exists"):
        with pytest.raises(errors.SpecNameError):
            getattr(LockFile(root / ".kiro/specs"), method)("..")


def test_every_error_text_has_a_class_with_its_own_code() -> None:
    texts = [
        errors.ALREADY_LOCKED, errors.NOT_FOUND, errors.PERMISSION_DENIED, errors.INVALID_NAME,
        errors.OTHER_MACHINE, errors.OTHER_HOLDER, errors.NOT_REMOVED,
    ]  # fmt: skip
    codes = [errors.error_of(text).code for text in texts]
    assert len(set(codes)) == len(codes) - 1  # two texts share one code
    assert all(code.startswith("E_SPEC_") for code in codes)


def test_own_witness_is_alive_and_so_is_its_lock(root: Path) -> None:
    me = Holder(id="me", key="me", witness=own_witness())
    assert locks(root, me).acquire_lock("demo").success
    assert locks(root, "bob").release_lock("demo").error == errors.OTHER_HOLDER
