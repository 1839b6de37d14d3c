"""Bad input and damage: refused with a clear message, found by the doctor, nothing lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY
from helpers_trees import ANN, BOB, World, old_enough, picture, tree
from holdfast.core.errors import InvalidInput, LockConflictError, LockNotHeldError
from holdfast.manager.clock import FakeClock
from holdfast.trees import (
    BadTreeError,
    NoTreeError,
    Repository,
    TreeDamagedError,
    TreeExistsError,
    TreeNotAllowedError,
    acquire,
    audit_log,
    create,
    examine,
    find,
    remove,
    status,
    steal,
    take,
    tree_files,
    verify,
)
from holdfast.trees.snapshots import descriptors

NEEDS_ROOT = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="needs root and unshare, to mount something",
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.write("app/x", "one\n")
    made.write("readme", "two\n")
    made.lock()
    return made


# Names

BAD_NAMES = [
    "", ".", "..", "a/b", "../x", "/etc", "a\\b", ".hidden", "-rf", "x" * 101, "a b", "a\nb", "ä",
    "a\0b", "x.tmp", "x.", "a:b", "main/..",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_could_lead_elsewhere_is_refused(world: World, name: str) -> None:
    before = picture(world.root)
    with pytest.raises(BadTreeError):
        create(world.repository, name)
    with pytest.raises(BadTreeError):
        find(world.repository, name)
    assert picture(world.root) == before


def test_a_name_that_is_taken_is_refused(world: World) -> None:
    create(world.repository, "one")
    (world.root / "worktrees" / "two").mkdir()
    for name in ("one", "two", "main"):
        with pytest.raises(TreeExistsError):
            create(world.repository, name)
    assert world.leftovers() == []


def test_a_repository_is_made_in_a_new_folder_and_not_inside_another(
    world: World, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    with pytest.raises(TreeExistsError):
        Repository.init(str(tmp_path / "full" / "x"))
    with pytest.raises(BadTreeError):
        Repository.init(str(world.payload / "inner"))
    with pytest.raises(NoTreeError):
        Repository.open(str(tmp_path / "full"))
    assert (tmp_path / "full" / "x").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "zz", "../..", "main", "0" * 21, "HEAD", "ffffffff"])
def test_a_text_that_names_no_snapshot_is_refused(world: World, text: str) -> None:
    with pytest.raises((NoTreeError, InvalidInput)):
        descriptors.find(world.repository, text)


def test_a_prefix_must_name_one_snapshot_only(world: World) -> None:
    ids = [world.take() for _ in range(17)]
    first = {id[0] for id in ids}
    common = next(one for one in first if sum(id[0] == one for id in ids) > 1)
    with pytest.raises(NoTreeError, match="snapshots begin with"):
        descriptors.find(world.repository, common)
    assert descriptors.find(world.repository, ids[3][:12]) == ids[3]


@pytest.mark.parametrize("lease", ["0", "0.01", "40d"])
def test_a_lease_that_makes_no_sense_is_refused(
    world: World, lease: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.payload)
    assert tree("lock", "renew", "--lease", lease) == 2


# What is in a payload


@pytest.mark.parametrize("path", [".jvs/x", "app/.jvs", "app/.jvs-worktree/id"])
def test_a_payload_with_reserved_names_is_refused(world: World, path: str) -> None:
    world.write(path)
    with pytest.raises(BadTreeError):
        world.take()
    assert world.snapshots() == []
    assert world.leftovers() == []


def test_a_worktree_that_is_a_link_is_refused(world: World, tmp_path: Path) -> None:
    made = create(world.repository, "moved").worktree
    os.rename(made.path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", made.path)
    with pytest.raises(BadTreeError, match="symbolic link"):
        find(world.repository, "moved")


def test_a_copy_of_a_worktree_by_hand_is_found_out(world: World) -> None:
    made = create(world.repository, "one").worktree
    shutil.copytree(made.path, world.root / "worktrees" / "two")
    assert world.codes() == ["E_WORKTREE_DOUBLE"]


# Damage


def test_a_tampered_descriptor_is_found_and_not_restored(world: World) -> None:
    id = world.take("a note")
    place = world.descriptor(id)
    fields = json.loads(place.read_text())
    place.write_text(json.dumps({**fields, "note": "another note"}))
    assert world.codes() == ["E_DESCRIPTOR_DAMAGED"]
    assert [*verify(world.repository, id)] != []
    with pytest.raises(TreeDamagedError):
        world.restore(id)
    with pytest.raises(TreeDamagedError):
        world.in_place(id)
    assert descriptors.history(world.repository)[0]["integrity_state"] == "damaged"
    world.take()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"snapshot_id": 7}'])
def test_an_unreadable_descriptor_is_found_and_stops_no_command(world: World, text: str) -> None:
    id = world.take()
    world.descriptor(id).write_text(text)
    assert "E_DESCRIPTOR_DAMAGED" in world.codes()
    assert world.snapshots() == [id]
    assert world.take() in world.snapshots()


def test_a_descriptor_of_another_snapshot_is_found(world: World) -> None:
    one, other = world.take(), world.take()
    shutil.copy(world.descriptor(one), world.descriptor(other))
    assert "E_DESCRIPTOR_DAMAGED" in world.codes()


@pytest.mark.parametrize("how", ["content", "length", "gone", "new", "kind", "manifest"])
def test_a_tampered_payload_is_found_and_not_restored(world: World, how: str) -> None:
    id = world.take()
    place = world.snapshot(id) / "payload" / "app" / "x"
    os.chmod(place.parent, 0o700)
    os.chmod(place, 0o600)
    if how == "content":
        place.write_text("eno\n")
    elif how == "length":
        place.write_text("one and more\n")
    elif how == "new":
        (place.parent / "extra").write_text("x")
    elif how == "manifest":
        manifest = world.snapshot(id) / "manifest.jsonl"
        manifest.write_bytes(manifest.read_bytes().replace(b'"mode":420', b'"mode":511'))
    else:
        place.unlink()
    if how == "kind":
        place.symlink_to("/etc/passwd")
    assert set(world.codes()) == {"E_PAYLOAD_DAMAGED"}
    assert world.codes(strict=False) == []
    if how != "new":
        with pytest.raises(TreeDamagedError):
            world.restore(id)
        assert world.leftovers() == []


def test_a_damaged_snapshot_is_not_inherited_by_the_next(world: World) -> None:
    world.write("later", "x")
    first = world.take()
    manifest = world.snapshot(first) / "manifest.jsonl"
    manifest.write_bytes(manifest.read_bytes().replace(b'"mode":420', b'"mode":511'))
    second = world.take()
    assert [*verify(world.repository, second)] == []
    assert json.loads(world.descriptor(second).read_text())["files_linked"] == 0


@pytest.mark.parametrize("how", ["line lost", "line more", "garbage", "empty", "no device"])
def test_a_damaged_list_of_sources_costs_time_and_nothing_else(world: World, how: str) -> None:
    for number in range(5):
        world.write(f"f{number}", f"{number}")
    old_enough()
    place = world.snapshot(world.take()) / "sources"
    lines = place.read_text().splitlines(keepends=True)
    if how == "line lost":
        del lines[3]
    elif how == "line more":
        lines.insert(3, lines[3])
    elif how == "garbage":
        lines[3] = "garbage\n"
    elif how == "empty":
        lines = []
    else:
        lines[0] = "\n"
    place.write_text("".join(lines))
    id = world.take()
    assert [*verify(world.repository, id)] == []
    assert picture(world.restore(id).worktree.path) == picture(world.payload)


@pytest.mark.parametrize("text", ["one and more\n", "eno\n"], ids=["longer", "other"])
def test_an_edited_copy_is_not_linked_again(world: World, text: str) -> None:
    old_enough()
    first = world.take()
    place = world.snapshot(first) / "payload" / "app" / "x"
    os.chmod(place, 0o600)
    place.write_text(text)
    second = world.take()
    assert [*verify(world.repository, second)] == []


@pytest.mark.parametrize("how", ["changed", "removed", "cut short", "put in", "garbage"])
def test_a_tampered_audit_log_is_found(world: World, how: str) -> None:
    world.take()
    place = world.control / "audit" / "audit.jsonl"
    lines = place.read_text().splitlines(keepends=True)
    assert len(lines) >= 3
    if how == "changed":
        lines[1] = lines[1].replace("ann", "bob")
    elif how == "removed":
        del lines[1]
    elif how == "cut short":
        del lines[-1]
    elif how == "put in":
        lines.insert(1, lines[1])
    else:
        lines[1] = "garbage\n"
    place.write_text("".join(lines))
    assert set(world.codes()) == {"E_AUDIT_DAMAGED"}
    assert set(world.codes(clean=True)) == {"E_AUDIT_DAMAGED"}


def test_a_line_of_the_log_that_a_crash_cut_off_is_mended(world: World) -> None:
    place = world.control / "audit" / "audit.jsonl"
    whole = place.read_bytes()
    place.write_bytes(whole + b'{"event": "half a l')
    assert world.codes() == ["E_AUDIT_TORN"]
    assert world.codes(clean=True) == ["E_AUDIT_TORN"]
    assert place.read_bytes() == whole
    place.write_bytes(whole + b'{"event": "half a l')
    world.take()
    assert world.codes() == []
    assert [*audit_log.faults(world.repository)] == []


@pytest.mark.parametrize("text", ["0123456789abcdef0123", "../../../etc", "garbage", "\xff"])
def test_a_bad_head_is_found(world: World, text: str) -> None:
    world.take()
    Path(world.main.control("head_snapshot")).write_text(text, encoding="latin-1")
    assert set(world.codes()) <= {"E_BAD_HEAD", "E_WORKTREE_DAMAGED"}
    assert world.codes() != []


def test_a_missing_parent_is_found(world: World) -> None:
    one, two = world.take(), world.take()
    tree_files.remove_tree(str(world.snapshot(one)))
    world.descriptor(one).unlink()
    assert world.codes() == ["E_MISSING_PARENT"]
    assert world.snapshots() == [two]
    world.restore(two)


def test_a_cycle_of_parents_is_found_and_followed_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = world.take(), world.take()
    fields = json.loads(world.descriptor(one).read_text())
    fields["parent_snapshot_id"] = two
    del fields["descriptor_checksum"]
    sealed = descriptors.seal(fields)
    world.descriptor(one).write_bytes(tree_files.pretty(sealed))
    mark = world.snapshot(one) / ".READY"
    mark.write_bytes(descriptors.mark(sealed, "now"))
    (finding,) = examine(world.repository, strict=True)
    assert finding.code == "E_PARENT_CYCLE"
    assert one in finding.what
    assert two in finding.what
    assert len([*descriptors.lineage(world.repository, two)]) == 2


def test_a_descriptor_without_its_snapshot_is_found(world: World) -> None:
    id = world.take()
    tree_files.remove_tree(str(world.snapshot(id)))
    assert set(world.codes()) == {"E_SNAPSHOT_MISSING", "E_BAD_HEAD"}
    assert world.snapshots() == []


def test_a_snapshot_without_its_mark_is_kept_for_people(world: World) -> None:
    id = world.take()
    (world.snapshot(id) / ".READY").unlink()
    assert "E_PARTIAL_SNAPSHOT" in world.codes(clean=True)
    assert world.snapshot(id).exists()


def test_a_damaged_worktree_is_found_and_hides_no_other(world: World) -> None:
    made = create(world.repository, "one").worktree
    Path(made.control("config.json")).write_text("{}")
    assert world.codes() == ["E_WORKTREE_DAMAGED"]
    assert world.codes(clean=True) == ["E_WORKTREE_DAMAGED"]
    world.take()


# Locks


@pytest.mark.parametrize("text", ["", "{}", "garbage", '{"lock_id": 7}'])
def test_an_unreadable_lock_record_refuses_every_holder_for_one_lease(
    tmp_path: Path, text: str
) -> None:
    world = World(tmp_path, clock=FakeClock())
    record = world.control / "locks" / f"{world.main.id}.json"
    record.write_text(text)
    moment = world.clock.read().wall / 1e6
    os.utime(record, (moment, moment))
    assert status(world.main).state == "unreadable"
    assert world.codes() == ["E_LOCK_UNREADABLE"]
    for doing in (acquire, steal):
        with pytest.raises(TreeDamagedError):
            doing(world.main, BOB)
    world.clock.advance(301)
    with pytest.raises(TreeDamagedError):
        acquire(world.main, BOB)
    steal(world.main, BOB)
    world.take(holder=BOB)


def test_a_lock_that_another_program_made_is_respected(world: World) -> None:
    made = create(world.repository, "one").worktree
    record = json.loads((world.control / "locks" / f"{world.main.id}.json").read_text())
    record |= {"worktree_id": made.id, "holder_id": "elsewhere:eve:1:1"}
    (world.control / "locks" / f"{made.id}.json").write_text(json.dumps(record))
    with pytest.raises(LockConflictError):
        acquire(made, ANN)


def test_a_lost_counter_never_makes_a_token_smaller(world: World) -> None:
    record = status(world.main).record
    assert record is not None
    before = record.fencing_token
    for counter in (world.control / "locks").glob("*.counter"):
        counter.write_text("garbage")
    (world.control / "locks" / f"{world.main.id}.json").unlink()
    assert acquire(world.main, BOB).fencing_token > before


def test_a_stale_lock_is_noticed_and_left_to_a_thief(tmp_path: Path) -> None:
    world = World(tmp_path, clock=FakeClock())
    world.lock()
    world.clock.advance(301)
    (finding,) = examine(world.repository, strict=True, clean=True)
    assert (finding.code, finding.severity) == ("E_STALE_LOCK", "notice")
    steal(world.main, BOB)


def test_a_lock_of_a_worktree_that_is_gone_is_cleaned(world: World) -> None:
    made = create(world.repository, "one").worktree
    acquire(made, ANN)
    shutil.rmtree(made.path)
    assert set(world.codes()) == {"E_ORPHAN_LOCK"}
    world.codes(clean=True)
    assert world.codes() == []
    assert status(world.main).state == "held"


# Removing


def test_a_worktree_with_work_in_no_snapshot_is_not_removed(world: World) -> None:
    made = create(world.repository, "one", snapshot_id=world.take()).worktree
    acquire(made, ANN)
    Path(made.path, "new").write_text("work")
    with pytest.raises(TreeNotAllowedError, match="new"):
        remove(made, ANN)
    take(made, ANN)
    remove(made, ANN)
    assert not Path(made.path).exists()
    assert world.codes() == []


def test_main_is_not_removed_and_the_current_worktree_is(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadTreeError):
        remove(world.main, ANN)
    made = create(world.repository, "one").worktree
    monkeypatch.chdir(made.path)
    assert tree("lock", "acquire") == 0
    assert tree("remove") == 0
    assert "a deleted folder" in capsys.readouterr().err
    assert not Path(made.path).exists()
    assert world.codes() == []


# The system says no

FULL = """
set -e
mount -t tmpfs -o size=6m none "$2"
exec "$1" -c '
import os, sys
from holdfast.trees import *
from holdfast.trees.snapshots import descriptors
repository = Repository.init(sys.argv[1] + "/repo")
main = find(repository, "main")
acquire(main, "h:a:1:1")
open(main.path + "/first", "wb").write(b"x" * 100_000)
whole = take(main, "h:a:1:1")["snapshot_id"]
for number in range(4):
    open(main.path + f"/f{number}", "wb").write(os.urandom(900_000))
for attempt in (lambda: take(main, "h:a:1:1"), lambda: [create(repository, f"w{n}", snapshot_id=take(main, "h:a:1:1")["snapshot_id"]) for n in range(9)]):
    try:
        attempt()
        sys.exit("there was room")
    except Exception as error:
        print(getattr(error, "code", repr(error)))
os.unlink(main.path + "/f3"); os.unlink(main.path + "/f2")
print([one["snapshot_id"] for one in descriptors.history(repository)] == [whole], list(verify(repository, whole)))
print([one.code for one in examine(repository, strict=True, clean=True)])
take(main, "h:a:1:1")
' "$2"
"""  # noqa: E501


@NEEDS_ROOT
def test_a_full_disk_leaves_nothing_half_done(tmp_path: Path) -> None:
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", FULL, "sh", sys.executable, tmp_path],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["E_STORE_FULL", "E_STORE_FULL", "True []", "[]"]


ELSEWHERE = """
set -e
mount -t tmpfs none "$2/worktrees/far"
exec "$1" -c '
import os, sys, shutil
from holdfast.trees import *
from holdfast.core.errors import HoldfastError
repository = Repository.open(sys.argv[1])
shutil.copytree(sys.argv[1] + "/kept", sys.argv[1] + "/worktrees/far", dirs_exist_ok=True)
far = find(repository, "far")
acquire(far, "h:a:1:1")
open(far.path + "/x", "w").write("far away")
id = take(far, "h:a:1:1")["snapshot_id"]
print(list(verify(repository, id)))
for attempt in (lambda: in_place(far, "h:a:1:1", id, reason="r"), lambda: remove(far, "h:a:1:1")):
    try:
        attempt()
    except HoldfastError as error:
        print(error.code)
os.makedirs(far.path + "/y")
os.system("mount -t tmpfs none " + far.path + "/y")
try:
    take(far, "h:a:1:1")
except HoldfastError as error:
    print(error.code)
print(open(far.path + "/x").read(), [one.code for one in examine(repository, strict=True)])
' "$2"
"""


@NEEDS_ROOT
def test_a_worktree_on_another_file_system_is_copied_and_not_exchanged(world: World) -> None:
    made = create(world.repository, "far").worktree
    shutil.copytree(made.path, world.root / "kept")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", ELSEWHERE, "sh", sys.executable, world.root],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[]", "E_TREE_NOT_ALLOWED", "E_TREE_NOT_ALLOWED", "E_BAD_TREE", "far away []",
    ]  # fmt: skip


STRANGER = """
import sys
from holdfast.trees import *
from holdfast.core.errors import HoldfastError
repository = Repository.open(sys.argv[1])
main = find(repository, "main")
for attempt in (
    lambda: acquire(main, "h:b:1:1"), lambda: take(main, "h:b:1:1"),
    lambda: create(repository, "mine"), lambda: steal(main, "h:b:1:1"),
):
    try:
        attempt()
        say("allowed")
    except (HoldfastError, OSError) as error:
        say(type(error).__name__)
from holdfast.trees.snapshots import descriptors
say(len(descriptors.history(repository)))
"""


@LINUX_ONLY
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_may_look_and_change_nothing(world: World, tmp_path: Path) -> None:
    from helpers_processes import Crowd

    world.take()
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/") and folder.stat().st_mode & 0o005 != 0o005:
            os.chmod(folder, folder.stat().st_mode | 0o005)
    before = picture(world.root)
    with Crowd(tmp_path) as crowd:
        prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        child = crowd.start(STRANGER, world.root, prefix=prefix).done()
    *refusals, seen = child.lines()
    assert "allowed" not in refusals
    assert seen == "1"
    assert picture(world.root) == before


@LINUX_ONLY
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to lose its rights")
def test_an_unreadable_file_stops_a_snapshot_without_a_trace(world: World, tmp_path: Path) -> None:
    from helpers_processes import Crowd

    secret = world.write("app/secret", "x")
    os.chmod(secret, 0)
    text = (
        "import sys\nfrom holdfast.trees import *\n"
        "main = find(Repository.open(sys.argv[1]), 'main')\n"
        "try:\n    take(main, sys.argv[2])\n"
        "except Exception as error:\n    say(error.code, str(error))\n"
    )
    prefix = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]
    with Crowd(tmp_path) as crowd:
        child = crowd.start(text, world.root, ANN, prefix=prefix).done()
    assert child.lines()[0].startswith("E_TREE_ACCESS")
    assert "app/secret" in child.lines()[0]
    assert world.leftovers() == []
    with pytest.raises(LockNotHeldError):
        world.take(holder=BOB)
