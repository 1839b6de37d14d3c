"""The parts of the sandbox: the kernel's rules, opened paths, scratch folders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_cli import children_of
from helpers_processes import Crowd, until
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Witness
from holdfast.gate.sandbox import SandboxError, box, runner_client
from holdfast.gate.sandbox.kernel import landlock
from holdfast.gate.sandbox.kernel.open_places import OpenPlaces, git_folders, remove_untouched
from holdfast.gate.sandbox.runner import scratch_folder
from holdfast.gate.sandbox.starting.restricted_start import start
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.identity import runner_holder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")


# What the kernel can do


def test_versions_know_the_rights_of_their_time() -> None:
    first, second, third = (landlock.rights(abi) for abi in (1, 2, 3))
    assert not first & (landlock.REFER | landlock.TRUNCATE)
    assert second & landlock.REFER
    assert not second & landlock.TRUNCATE
    assert third == landlock.rights(7) == landlock.MUTATING
    execute, read_file, read_folder = 1 << 0, 1 << 2, 1 << 3
    assert not landlock.MUTATING & (execute | read_file | read_folder), "reading stays free"


def test_only_a_version_that_can_keep_the_promise_is_enough() -> None:
    assert [landlock.Support(abi).is_enough for abi in (0, 1, 2, 3, 7)] == [
        False, False, False, True, True,
    ]  # fmt: skip
    assert landlock.Support(3).lacks == ""
    assert "truncated" in landlock.Support(2).lacks
    assert landlock.Support(0, "because").lacks == "because"


def test_another_system_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "not Linux" in landlock.support().lacks
    with pytest.raises(SandboxError, match="not Linux") as caught:
        box.demand()
    assert caught.value.to_dict()["code"] == "E_SANDBOX"
    assert isinstance(caught.value, HoldfastError)


def test_a_python_without_ctypes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_calls", {})
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert "ctypes" in landlock.support().lacks


# Starting


def test_a_command_that_cannot_be_restricted_is_never_started(tmp_path: Path) -> None:
    def restrict() -> None:
        raise PermissionError(1, "no")

    with pytest.raises(SandboxError, match="cannot restrict the command"):
        start(["touch", str(tmp_path / "x")], dict(os.environ), restrict)
    assert os.listdir(tmp_path) == []


def test_any_error_before_the_start_ends_the_child(tmp_path: Path) -> None:
    def restrict() -> None:
        raise RuntimeError("no")

    with pytest.raises(SandboxError):
        start(["touch", str(tmp_path / "x")], dict(os.environ), restrict)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["no-such-command"], FileNotFoundError),
        (["/"], PermissionError),
        (["a\0b"], ValueError),
        (["true", "\0"], ValueError),
    ],
)
def test_a_command_that_cannot_be_executed_is_told(
    command: list[str], error: type[Exception]
) -> None:
    before = children_of(os.getpid())
    # A folder in PATH without access would hide that there is no such command.
    with pytest.raises(error):
        start(command, {"PATH": os.defpath}, lambda: None)
    assert children_of(os.getpid()) == before


def test_the_parent_stays_unrestricted(tmp_path: Path) -> None:
    if not landlock.support().is_enough:
        pytest.skip(landlock.support().lacks)
    ruleset = landlock.Ruleset(landlock.support().abi)
    child = start(["touch", str(tmp_path / "x")], dict(os.environ), ruleset.enforce)
    ruleset.close()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    (tmp_path / "x").touch()


# Places


def ignore(_fd: int, _rights: int) -> None:
    pass


def test_created_files_are_removed_unless_they_were_used(tmp_path: Path) -> None:
    places = OpenPlaces(ignore)
    places.add_targets(str(tmp_path), ["a/b/new", "a/kept", "written", "emptied", "replaced"])
    (tmp_path / "written").write_text("x")
    (tmp_path / "emptied").write_text("")
    (tmp_path / "other").touch()
    (tmp_path / "other").rename(tmp_path / "replaced")
    os.utime(tmp_path / "a/kept")
    remove_untouched(places.made)
    assert sorted(os.listdir(tmp_path)) == ["a", "emptied", "replaced", "written"]
    assert os.listdir(tmp_path / "a") == ["kept"]


def test_a_folder_that_was_exchanged_for_a_link_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x").touch()
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/app").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "tree/link").symlink_to(tmp_path / "elsewhere/x")
    for path in ("app/x", "link"):
        places = OpenPlaces(ignore)
        with pytest.raises(SandboxError):
            places.add_targets(str(tmp_path / "tree"), [path])


def test_a_target_that_is_not_a_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    places = OpenPlaces(ignore)
    with pytest.raises(SandboxError, match="not a regular file"):
        places.add_targets(str(tmp_path), ["pipe"])


def test_a_target_that_cannot_be_made_is_told() -> None:
    places = OpenPlaces(ignore)
    with pytest.raises(SandboxError, match="cannot open /proc/self/x"):
        places.add_targets("/proc/self", ["x"])
    assert places.made == []


def test_a_grant_may_have_more_files_than_a_process_may_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    opened: list[int] = []
    places = OpenPlaces(lambda fd, _rights: opened.append(fd))
    places.add_targets(str(tmp_path), [f"file-{at}" for at in range(50)])
    places.add_devices()
    places.add_streams()
    assert len(opened) > 50
    assert len(set(opened)) < 10
    assert os.listdir("/proc/self/fd") == before


def test_git_s_folders_are_found_in_worktrees_and_submodules(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C"]
    for words in (
        ["git", "init", "-q", tmp_path / "main"],
        [*git, tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "x"],
        [*git, tmp_path / "main", "worktree", "add", "-q", "../linked"],
    ):
        subprocess.run(list(map(str, words)), check=True)
    main = str(tmp_path / "main/.git")
    assert git_folders(str(tmp_path / "main")) == [main]
    assert git_folders(str(tmp_path / "linked")) == [f"{main}/worktrees/linked", main]
    with pytest.raises(SandboxError, match="not a git work tree"):
        git_folders(str(tmp_path))


# Scratch folders


OWNER = """
import sys
from holdfast.gate.sandbox.kernel.open_places import OpenPlaces
from holdfast.gate.sandbox.runner.scratch_folder import ScratchFolder
ignore = lambda fd, rights: None
from holdfast.manager.owners.identity import runner_holder
holder, _variables = runner_holder("one")
scratch, places = ScratchFolder(holder), OpenPlaces(ignore)
places.add_targets(sys.argv[1], ["new"])
scratch.note(holder, places.made)
say("made", scratch.folder)
go()
"""


def test_only_what_a_dead_runner_left_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    (tmp_path / "t/holdfast-run-foreign").mkdir(0o755)
    (tmp_path / "t/holdfast-run-new").mkdir(0o700)
    _age(tmp_path / "t/holdfast-run-foreign")
    (tmp_path / "t/holdfast-run-file").touch()
    with Crowd(tmp_path) as crowd:
        child = crowd.start(OWNER, tmp_path)
        [folder] = child.wait_for("made")
        assert scratch_folder.sweep(str(tmp_path / "t")) == []
        assert (tmp_path / "new").exists()
        child.kill()
    assert scratch_folder.sweep(str(tmp_path / "t")) == [folder]
    assert not (tmp_path / "new").exists()
    assert len(os.listdir(tmp_path / "t")) == 3, "folders of others, or unfinished ones, stay"
    assert scratch_folder.sweep(str(tmp_path / "absent")) == []


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that has not changed for a long time."""
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    _age(place)
    return place


def _age(place: Path, seconds: float = 3600) -> None:
    moment = time.time() - seconds
    os.utime(place, (moment, moment))


def test_a_folder_without_an_owner_is_swept_when_it_is_old_and_empty(old: Path) -> None:
    names = ("empty", "full", "open", "new")
    places = {name: old / f"holdfast-run-{name}" for name in names}
    for name, place in places.items():
        place.mkdir(0o755 if name == "open" else 0o700)
    (places["full"] / "owner.new").touch()
    for name in ("empty", "full", "open"):
        _age(places[name], 120)
    assert scratch_folder.sweep(str(old)) == [str(places["empty"])]
    assert [name for name in names if places[name].exists()] == ["full", "open", "new"]
    _age(places["new"], 61)
    assert scratch_folder.sweep(str(old)) == [str(places["new"])], (
        "though nothing changed around it"
    )


def test_changes_are_noticed_though_the_folder_is_not_listed_again(
    old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists: list[str] = []
    real = scratch_folder._listed

    def listed(folder: str) -> list[str]:
        lists.append(folder)
        return real(folder)

    monkeypatch.setattr(scratch_folder, "_listed", listed)
    with Crowd(tmp_path) as crowd:
        first = crowd.start(OWNER, tmp_path)
        [one] = first.wait_for("made")
        _age(old)
        assert [scratch_folder.sweep(str(old)) for _ in range(3)] == [[], [], []]
        assert len(lists) == 1, "nothing has changed there"
        first.kill()
        assert scratch_folder.sweep(str(old)) == [one], "its runner has died"
        second = crowd.start(OWNER, tmp_path)
        [two] = second.wait_for("made")
        assert scratch_folder.sweep(str(old)) == []
        second.kill()
        assert scratch_folder.sweep(str(old)) == [two], "it was new"


def test_a_second_change_in_one_tick_of_the_clock_is_noticed(old: Path, tmp_path: Path) -> None:
    with Crowd(tmp_path) as crowd:
        moment = time.time_ns()
        os.utime(old, ns=(moment, moment))
        assert scratch_folder.sweep(str(old)) == []
        child = crowd.start(OWNER, tmp_path)
        [folder] = child.wait_for("made")
        child.kill()
        os.utime(old, ns=(moment, moment))
        assert scratch_folder.sweep(str(old)) == [folder]


EMPTIES = """
from holdfast.gate.sandbox.runner.scratch_folder import ScratchFolder
from holdfast.manager.owners.identity import runner_holder
made = ScratchFolder(runner_holder("one")[0])
os.makedirs(f"{made.tmp}/a/b/c")
open(f"{made.tmp}/a/b/file", "w").close()
os.symlink("/", f"{made.tmp}/a/link")
os.chmod(f"{made.tmp}/a/b/c", 0)
for closed in (f"{made.tmp}/a/b", f"{made.tmp}/a", made.tmp):
    os.chmod(closed, 0o500 if go() == "read" else 0)
say("emptied", made.empty(), len(os.listdir(made.tmp)), oct(os.stat(made.tmp).st_mode)[-3:])
say("removed", made.remove())
"""


def test_closed_folders_are_emptied_as_well(old: Path, tmp_path: Path) -> None:
    prefix = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]
    with Crowd(tmp_path) as crowd:
        for how in ("read", "not at all"):
            child = crowd.start(EMPTIES, prefix=prefix if os.geteuid() == 0 else ())
            for _ in range(3):
                child.tell(how)
            child.done()
            assert child.words("emptied") == [["True", "0", "700"]]
            assert child.words("removed") == [["True"]]
    assert os.listdir(old) == []


#: Too deep for a recursive function, and for a path.
DEEP = 1100


def test_folders_in_folders_without_end_are_removed(old: Path) -> None:
    assert sys.getrecursionlimit() < DEEP
    assert DEEP * len("deeper/") > os.pathconf("/", "PC_PATH_MAX")
    made = scratch_folder.ScratchFolder(runner_holder("one")[0])
    for deep in (made.tmp, f"{made.tmp}/side"):
        os.makedirs(deep, exist_ok=True)
        fd = os.open(deep, os.O_RDONLY)
        for _ in range(DEEP):
            os.mkdir("deeper", dir_fd=fd)
            inner = os.open("deeper", os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = inner
        os.close(fd)
    assert made.empty()
    assert os.listdir(made.tmp) == []
    assert made.remove()


def test_a_folder_that_is_gone_cannot_be_emptied(old: Path) -> None:
    made = scratch_folder.ScratchFolder(runner_holder("one")[0])
    assert made.remove()
    assert not made.empty()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a folder of somebody else")
def test_another_user_s_folder_is_never_trusted(tmp_path: Path) -> None:
    # Its owner could name any empty file of ours.
    witness = runner_holder("one")[0].witness
    assert witness is not None
    dead = codec.witness_to_list(
        Witness(host=witness.host, boot="another", namespace="", pid=1, start=1)
    )
    place = tmp_path / "holdfast-run-trap"
    place.mkdir(0o700)
    (place / "owner").write_text(json.dumps({"witness": dead, "marks": [], "made": []}))
    os.chown(place, 12345, 12345)
    assert scratch_folder.sweep(str(tmp_path)) == []
    os.chown(place, 0, 0)
    assert scratch_folder.sweep(str(tmp_path)) == [str(place)], "as our own it is"


def test_a_scratch_folder_that_cannot_be_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(SandboxError, match="scratch folder"):
        scratch_folder.ScratchFolder(runner_holder("one")[0])


# All of it


@pytest.fixture
def manager(repository: Path) -> Iterator[LockManager]:
    with LockManager.open(repository) as made:
        yield made


@NEEDS_LANDLOCK
def test_a_sandbox_from_python(
    manager: LockManager, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    grant = manager.try_acquire(holder=runner_holder("one")[0], write_paths=["app/x.rb", "new"])
    assert grant is not None
    made = box.Sandbox(manager, grant, abi=box.demand().abi)
    script = "echo new >app/x.rb; echo new >lib/y.rb; exec sleep 600"
    script = f"cd {repository}; test -S $HOLDFAST_SOCKET || exit 9; {script}"
    child = made.start(["sh", "-c", script], dict(os.environ))
    made.serve()
    until(lambda: (repository / "app/x.rb").read_text() == "new\n", "it has written")
    assert runner_client.status(where=made.variables()["HOLDFAST_SOCKET"])["grants"]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert made.close() == ""
    assert (repository / "lib/y.rb").read_text() == "old\n"
    assert not (repository / "new").exists()
    assert not os.path.exists(made.scratch)
