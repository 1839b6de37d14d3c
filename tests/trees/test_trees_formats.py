"""Whose repository it is: ours keeps jvs out by its format, and stays out of jvs's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers_foreign import JVS_LAYOUTS, jvs_repository
from helpers_processes import Crowd
from helpers_trees import ANN, World, killed_at, picture, steps_of, told, tree
from holdfast.cli.families.tree import COMMANDS
from holdfast.core.errors import HoldfastError, StoreBusyError, StoreError
from holdfast.trees import (
    ForeignTreeError,
    NoTreeError,
    Repository,
    TreeDamagedError,
    TreeVersionError,
    acquire,
    create,
    examine,
    find,
    take,
)
from holdfast.trees.foreign import format_numbers
from holdfast.trees.locking.operation_guard import Guard
from holdfast.trees.snapshots import descriptors

NEEDS_ROOT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="needs root and unshare, to mount something",
)

#: Arguments with which each command gets as far as possible.
WORDS = {
    "tree init": ["new"],
    "tree create": ["new"],
    "tree remove": ["main", "--force"],
    "tree run": ["--", "true"],
    "tree snapshot": ["a note"],
    "tree restore": ["1770", "--inplace", "--force", "--reason", "a test"],
    "tree doctor": ["--strict", "--clean"],
    "tree verify": ["--all"],
    "tree diff": ["1770", "1771"],
    "tree tag add": ["v1.0", "1770"],
    "tree tag remove": ["v1.0"],
    "tree gc run": ["0123abcd"],
    "tree gc settings": ["keep_last=3"],
    "tree import": ["."],
}
#: These take no `--json`, because they print another program's output.
PLAIN = ("tree run",)


def age(world: World) -> World:
    """Turn a repository into one of an earlier version."""
    (world.control / "format_version").write_text("1\n")
    return world


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.write("app/x", "one\n")
    made.lock()
    made.take("before")
    return made


def version(world: World) -> str:
    return (world.control / "format_version").read_text()


# Ours, seen by jvs


def test_a_new_repository_has_a_format_that_no_jvs_accepts(tmp_path: Path) -> None:
    """jvs refuses every number above the one that it knows, which is 1."""
    world = World(tmp_path)
    assert version(world) == "1000\n"
    assert Repository.open(str(world.root)).format == 1000


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.name != "tree init"],
                         ids=lambda one: one.name)  # fmt: skip
def test_whichever_command_opens_an_older_repository_of_ours_gives_it_the_new_format(
    world: World, command: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = getattr(command, "name", "")
    before = picture(age(world).control / "snapshots", mtimes=False)
    monkeypatch.chdir(world.payload)
    tree(*name.split()[1:], *WORDS.get(name, []), holder=None)
    assert version(world) == "1000\n"
    assert before.items() <= picture(world.control / "snapshots", mtimes=False).items()
    assert not (world.control / "format_version.tmp").exists()


def test_an_older_repository_works_on_with_its_locks_snapshots_and_payload(world: World) -> None:
    id = world.snapshots()[0]
    age(world)
    repository = Repository.open(str(world.root))
    main = find(repository, "main")
    assert repository.format == 1000
    assert [one["snapshot_id"] for one in descriptors.history(repository)] == [id]
    again = take(main, ANN, "after")
    assert again["parent_snapshot_id"] == id
    assert world.codes() == []


def test_a_change_of_format_that_is_killed_leaves_the_old_one_or_the_new_one(world: World) -> None:
    def work() -> None:
        Repository.open(str(world.root))

    age(world)
    seen: set[str] = set()
    for step in range(len(steps_of(work, world.root.parent / "steps")) + 1):
        age(world)
        shutil.rmtree(world.control / "format_version.tmp", ignore_errors=True)
        dead = killed_at(step, work)
        seen.add(version(world))
        assert version(world) in ("1\n", "1000\n")
        work()
        assert version(world) == "1000\n"
        assert world.leftovers() == []
        assert not (world.control / "format_version.tmp").exists()
    assert not dead
    assert seen == {"1\n", "1000\n"}
    assert world.codes() == []


OPENING = """
from holdfast.trees import Repository, find, take
say("ready")
go()
repository = Repository.open(sys.argv[1])
say("opened", repository.format, open(sys.argv[1] + "/.jvs/format_version").read().strip())
"""


def test_many_processes_change_the_format_at_once_and_all_go_on(
    world: World, tmp_path: Path
) -> None:
    age(world)
    with Crowd(tmp_path) as crowd:
        children = [crowd.start(OPENING, world.root) for _ in range(8)]
        for child in children:
            child.wait_for("ready")
        for child in children:
            child.tell()
        for child in children:
            assert child.done().words("opened") == [["1000", "1000"]]
    assert world.codes() == []


def test_a_newer_version_that_came_first_is_not_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number is checked again in the guard: the first check may be outdated by then."""
    age(world)

    class Late(Guard):
        def __enter__(self) -> Guard:
            entered = super().__enter__()
            (world.control / "format_version").write_text("2000\n")
            return entered

    monkeypatch.setattr(format_numbers, "Guard", Late)
    with pytest.raises(TreeVersionError):
        Repository.open(str(world.root))
    assert version(world) == "2000\n"


LOOKING = """
set -e
mount --bind "$2" "$2"
mount -o remount,ro,bind "$2"
cd "$2/main"
exec "$1" -c '
import sys
from holdfast.cli import main
from holdfast.trees import Repository, acquire, create, find
from holdfast.core.errors import HoldfastError
for words in ("history", "list", "info", "path", "lock status", "verify --all"):
    print(words, main(["tree", *words.split(), "--json"]), file=sys.stderr)
repository = Repository.open(".")
print(repository.format, file=sys.stderr)
for attempt in (lambda: acquire(find(repository, "main"), "b"), lambda: create(repository, "b")):
    try:
        attempt()
    except HoldfastError as error:
        print(error.code, error.message, file=sys.stderr)
'
"""


@NEEDS_ROOT
def test_an_older_repository_on_a_read_only_mount_is_read_as_it_is(world: World) -> None:
    age(world)
    before = picture(world.root)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", LOOKING, "sh", sys.executable, world.root],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line.rsplit(" ", 1)[-1] for line in lines[:6]] == ["0"] * 6, lines
    assert lines[6] == "1"
    assert [line.split()[0] for line in lines[7:]] == ["E_STORE_READONLY"] * 2, lines
    assert "format 1000" in lines[7]
    assert picture(world.root) == before


def test_a_reader_passes_a_process_that_is_stopped_and_a_writer_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(format_numbers, "_GUARD_SECONDS", 0.01)
    age(world)
    with Guard(str(world.control / "intents/intents.guard"), "a test"):
        repository = Repository.open(str(world.root))
    assert len(descriptors.history(repository)) == 1
    with pytest.raises(StoreBusyError):
        acquire(find(repository, "main"), "bob")
    with pytest.raises(StoreBusyError):
        create(repository, "another")
    assert version(world) == "1\n"
    Repository.open(str(world.root))
    assert version(world) == "1000\n"


# Unknown formats


@pytest.mark.parametrize("text", ["2\n", "999\n", "1001\n", "123456789\n"])
def test_an_unknown_format_is_refused_by_its_number(world: World, text: str) -> None:
    (world.control / "format_version").write_text(text)
    before = picture(world.root)
    with pytest.raises(TreeVersionError, match=f"the format {text.strip()}, which") as refused:
        Repository.open(str(world.root))
    assert refused.value.code == "E_TREE_VERSION"
    assert picture(world.root) == before


@pytest.mark.parametrize("text", ["", "\n", "one", "-1", "1.0", "1 2", "9" * 30, "\xb2"])
def test_a_format_that_is_not_a_number_is_damage(world: World, text: str) -> None:
    (world.control / "format_version").write_text(text)
    before = picture(world.root)
    with pytest.raises(TreeDamagedError, match="which is not a format number"):
        Repository.open(str(world.root))
    assert picture(world.root) == before


def test_a_repository_of_ours_without_its_format_is_damaged_and_not_overlooked(
    world: World,
) -> None:
    (world.control / "format_version").unlink()
    with pytest.raises(TreeDamagedError, match="cannot be read"):
        Repository.open(str(world.payload))


# Uncertain cases


def _no_about(control: Path) -> None:
    (control / "repository.json").unlink()


def _cut_about(control: Path) -> None:
    (control / "repository.json").write_text('{"name": "re')


def _empty_about(control: Path) -> None:
    (control / "repository.json").write_text('{"name": "repo", "repository_id": ""}')


def _no_staging(control: Path) -> None:
    (control / "staging").rmdir()


def _linked_staging(control: Path) -> None:
    (control / "staging").rmdir()
    (control / "staging").symlink_to("gc")


@pytest.mark.parametrize(
    "spoil", [_no_about, _cut_about, _empty_about, _no_staging, _linked_staging]
)
def test_an_older_one_that_lacks_what_tells_it_from_jvs_is_refused_and_stays_as_it_is(
    world: World, spoil: Callable[[Path], None]
) -> None:
    spoil(age(world).control)
    before = picture(world.root)
    with pytest.raises(TreeDamagedError, match="lacks what tells ours from one of jvs"):
        Repository.open(str(world.root))
    assert picture(world.root) == before


@pytest.mark.parametrize(
    "path",
    ["repo_id", "repo_mode", "worktrees/main/lock.json", "restore-plans/x", "recovery-plans/x",
     "gc/plan.json", "gc/tombstones/x.json", "refs/v1.json"],
)  # fmt: skip
def test_an_older_one_into_which_jvs_has_written_is_refused_and_says_what_to_move(
    world: World, path: str
) -> None:
    trace = age(world).control / path
    trace.parent.mkdir(exist_ok=True, parents=True)
    trace.write_text("{}")
    before = picture(world.root)
    with pytest.raises(ForeignTreeError, match="a repository of Holdfast into which jvs") as found:
        Repository.open(str(world.root))
    assert found.value.fields["traces"][0].startswith(path.split("/")[0])
    assert picture(world.root) == before
    if len(Path(path).parts) > 1 and path.split("/")[0] in ("gc", "refs"):
        shutil.rmtree(world.control / "gc")
        shutil.rmtree(world.control / "refs")
        (world.control / "gc").mkdir()
        (world.control / "refs").mkdir()
    elif trace.parent == world.control:
        trace.unlink()
    else:
        shutil.rmtree(world.control / path.split("/")[0])
    assert Repository.open(str(world.root)).format == 1000


def test_the_doctor_names_unknown_files_and_leaves_them_there(world: World) -> None:
    """As from a jvs that had read the format before it was changed."""
    (world.control / "worktrees/main").mkdir(parents=True)
    (world.control / "gc/plan.json").write_text("{}")
    (world.control / "note").write_text("mine")
    before = picture(world.control, mtimes=False)
    found = examine(world.repository, clean=True)
    assert [(one.code, one.severity) for one in found] == [("E_UNKNOWN_FILE", "notice")] * 3
    assert [Path(one.path).name for one in found] == ["plan.json", "note", "worktrees"]
    assert not any(one.cleaned for one in found)
    assert picture(world.control, mtimes=False) == before


# jvs's


@pytest.mark.parametrize("layout", JVS_LAYOUTS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_every_command_refuses_a_repository_of_jvs_before_it_writes_a_byte(
    tmp_path: Path,
    layout: str,
    command: object,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = getattr(command, "name", "")
    root = tmp_path / "theirs"
    payload = jvs_repository(root, layout)
    before = picture(tmp_path)
    words = [*name.split()[1:], *WORDS.get(name, [])]
    if name not in PLAIN:
        words.append("--json")
    monkeypatch.chdir(payload)
    assert tree(*words, holder=None) == 2
    said = capsys.readouterr()
    if name in PLAIN:
        assert "belongs to jvs, not to Holdfast" in said.err
    else:
        error = json.loads(said.out)["error"]
        assert error["code"] == "E_TREE_FOREIGN"
        assert "belongs to jvs, not to Holdfast: it has .jvs/repo_id" in error["message"]
        assert "holdfast tree import PATH" in error["hint"]
    assert picture(tmp_path) == before


@pytest.mark.parametrize("layout", JVS_LAYOUTS)
@pytest.mark.parametrize("text", ["2\n", "x", None])
def test_one_of_jvs_is_jvs_whatever_its_format_says(
    tmp_path: Path, layout: str, text: str | None
) -> None:
    payload = jvs_repository(tmp_path / "theirs", layout)
    file = tmp_path / "theirs/.jvs/format_version"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    before = picture(tmp_path)
    with pytest.raises(ForeignTreeError):
        Repository.open(str(payload))
    assert picture(tmp_path) == before


def test_a_workspace_that_jvs_keeps_outside_of_its_repository_is_jvs_s_too(tmp_path: Path) -> None:
    """It has a file where a repository has its control folder."""
    (tmp_path / "far/deep").mkdir(parents=True)
    (tmp_path / "far/.jvs").write_text('{"type": "jvs-workspace", "format_version": 1}')
    before = picture(tmp_path)
    with pytest.raises(ForeignTreeError, match=r"a file \.jvs"):
        Repository.open(str(tmp_path / "far/deep"))
    with pytest.raises(ForeignTreeError):
        Repository.init(str(tmp_path / "far/deep/new"))
    assert picture(tmp_path) == before


def test_nothing_is_made_inside_a_repository_of_jvs_or_in_its_place(tmp_path: Path) -> None:
    jvs_repository(tmp_path / "theirs", "later")
    before = picture(tmp_path)
    for place in ("theirs", "theirs/new", "theirs/main/new"):
        with pytest.raises(ForeignTreeError):
            Repository.init(str(tmp_path / place))
    assert picture(tmp_path) == before


def test_a_folder_that_belongs_to_neither_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "some/.jvs").mkdir(parents=True)
    (tmp_path / "some/.jvs/note").write_text("mine")
    with pytest.raises(NoTreeError) as found:
        Repository.open(str(tmp_path / "some"))
    assert found.value.code == "E_NO_TREE"


def test_the_errors_are_on_the_branches_that_people_catch() -> None:
    assert issubclass(ForeignTreeError, NoTreeError)
    assert issubclass(TreeVersionError, StoreError)
    assert not issubclass(TreeVersionError, TreeDamagedError)
    assert all(issubclass(one, HoldfastError) for one in (ForeignTreeError, TreeVersionError))


def test_people_see_which_format_it_has(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.payload)
    assert tree("info", "--json", holder=None) == 0
    assert told(capsys)["repository"]["format"] == 1000
    assert create(world.repository, "another").worktree.name == "another"
