"""Seed 000, promise by promise, on real folders: worktree locks, fencing, snapshots, restores."""

from __future__ import annotations

import itertools
import json
import os
import signal
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Barrier, Thread

import pytest

from helpers_processes import until
from helpers_trees import (
    ANN,
    BOB,
    CID,
    LIVED,
    World,
    in_child,
    killed_at,
    picture,
    steps_of,
    told,
    tree,
)
from holdfast.cli.tree.tree_context import TreeContext
from holdfast.core.errors import (
    FencingError,
    HoldfastError,
    LockConflictError,
    LockExpiredError,
    LockNotHeldError,
)
from holdfast.manager.clock import FakeClock
from holdfast.trees import (
    ConsistencyError,
    NoTreeError,
    PartialSnapshotError,
    Progress,
    Repository,
    TreeNotAllowedError,
    Worktree,
    acquire,
    audit_log,
    create,
    examine,
    find,
    in_place,
    release,
    remove,
    renew,
    status,
    steal,
    take,
)
from holdfast.trees.locking.operation_guard import Guard

FIELDS = [
    "lock_id", "worktree_id", "holder_id", "created_at", "last_renewed_at", "lease_expires_at",
    "fencing_token",
]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, clock=FakeClock())
    made.write("app/x", "one\n")
    made.write("readme", "two\n")
    return made


class Meanwhile(Progress):
    """Calls a function once in the middle of an operation."""

    def __init__(self, doing: Callable[[], object]) -> None:
        self._doing = doing

    def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
        if task in ("check", "restore"):
            doing, self._doing = self._doing, lambda: None
            doing()


def expire_and_steal(world: World, thief: str = BOB) -> None:
    world.clock.advance(301)
    steal(world.main, thief)


def just_before(monkeypatch: pytest.MonkeyPatch, doing: Callable[[], object]) -> None:
    """Another process acts just before the next one enters the guard of a worktree."""
    guard = Worktree.guard

    def entered(worktree: Worktree) -> Guard:
        monkeypatch.setattr(Worktree, "guard", guard)
        doing()
        return guard(worktree)

    monkeypatch.setattr(Worktree, "guard", entered)


def test_seed000_01_an_exclusive_worktree_has_one_writer(world: World) -> None:
    acquire(world.main, ANN)
    with pytest.raises(LockConflictError):
        acquire(world.main, BOB)
    with pytest.raises(LockNotHeldError):
        world.take(holder=BOB)
    assert len([*(world.control / "locks").glob("*.json")]) == 1
    world.take()


def test_seed000_02_a_shared_worktree_enforces_nothing_and_is_marked(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = create(world.repository, "open", isolation="shared").worktree
    monkeypatch.chdir(shared.path)
    Path(shared.path, "x").write_text("anybody")
    take(shared, BOB)
    capsys.readouterr()
    assert tree("info", "--json", holder=None) == 0
    shown = told(capsys)
    assert shown["worktree"]["high_risk"] is True
    assert shown["warning"] is True
    tree("list", holder=None)
    assert "shared (high risk)" in capsys.readouterr().out
    with pytest.raises(TreeNotAllowedError):
        acquire(shared, ANN)


def test_seed000_03_lock_records_are_files_below_jvs_locks(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.payload)
    record = world.root / ".jvs" / "locks" / f"{world.main.id}.json"
    assert tree("lock", "acquire", "--json") == 0
    assert json.loads(record.read_text()) == told(capsys)["lock"]
    assert not record.is_symlink()
    assert tree("lock", "release") == 0
    assert not record.exists()


def test_seed000_04_a_lock_record_has_its_seven_fields(world: World) -> None:
    acquire(world.main, ANN)
    place = world.control / "locks" / f"{world.main.id}.json"
    record = json.loads(place.read_text())
    assert list(record) == FIELDS
    assert str(uuid.UUID(record["lock_id"])) == record["lock_id"]
    assert record["worktree_id"] == world.main.id
    assert type(record["fencing_token"]) is int
    assert len(record["holder_id"].split(":")) == 4
    assert record["created_at"] == record["last_renewed_at"] < record["lease_expires_at"]
    world.clock.advance(20)
    renew(world.main, ANN)
    renewed = json.loads(place.read_text())
    assert list(renewed) == FIELDS
    assert record["created_at"] == renewed["created_at"] < renewed["last_renewed_at"]


def test_seed000_04_the_holder_is_the_session_and_not_the_command(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.payload)
    assert tree("lock", "acquire", "--json", holder=None) == 0
    host, _user, pid, start = told(capsys)["lock"]["holder_id"].split(":")
    assert host == os.uname().nodename.replace(":", "%3A")
    assert int(pid) != os.getpid()
    assert start.isdigit()


def test_seed000_05_of_many_who_acquire_at_once_one_gets_it(world: World) -> None:
    start, won = Barrier(8), []

    def race(number: int) -> None:
        start.wait(60)
        try:
            won.append(acquire(world.main, f"here:racer:{number}:1"))
        except LockConflictError:
            pass

    threads = [Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1
    assert status(world.main).record == won[0]


def test_seed000_05_a_later_request_does_not_get_it_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    just_before(monkeypatch, lambda: acquire(world.main, BOB))
    with pytest.raises(LockConflictError):
        acquire(world.main, ANN)
    record = status(world.main).record
    assert record is not None
    assert record.holder_id == BOB


def test_seed000_05_a_process_killed_while_writing_it_has_it_whole_or_not_at_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = os.write

    def acquire_and_die(whole: int) -> None:
        writes = itertools.count()

        def half(descriptor: int, data: bytes) -> int:
            if next(writes) < whole:
                return written(descriptor, data)
            written(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            return 0

        monkeypatch.setattr(os, "write", half)
        acquire(world.main, ANN)

    seen = []
    for number in itertools.count():
        code = in_child(partial(acquire_and_die, number), hook=lambda *_: None)
        seen.append(status(world.main).state)
        assert seen[-1] in ("free", "held")
        if seen[-1] == "held":
            release(world.main, ANN)
        if code == LIVED:
            break
        assert code == -signal.SIGKILL
    assert set(seen) == {"free", "held"}


def test_seed000_06_acquire_on_a_live_lock_is_a_conflict_even_for_its_holder(world: World) -> None:
    acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(29.999)
    for holder in (ANN, BOB):
        with pytest.raises(LockConflictError):
            acquire(world.main, holder)


def test_seed000_07_an_expired_lock_is_acquired_only_by_stealing(world: World) -> None:
    acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(30)
    for holder in (ANN, BOB):
        with pytest.raises(LockExpiredError):
            acquire(world.main, holder)
    assert steal(world.main, BOB).holder_id == BOB


def test_seed000_07_not_even_its_holder_renews_an_expired_lock(world: World) -> None:
    first = acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(30)
    for token in (None, first.fencing_token):
        with pytest.raises(LockExpiredError):
            renew(world.main, ANN, token=token)
    assert status(world.main).state == "expired"
    with pytest.raises(LockExpiredError):
        world.take()
    again = steal(world.main, ANN)
    assert again.fencing_token > first.fencing_token
    renew(world.main, ANN)
    world.take()


def test_seed000_08_only_the_holder_renews(world: World) -> None:
    acquire(world.main, ANN)
    with pytest.raises(LockNotHeldError):
        renew(world.main, BOB)
    release(world.main, ANN)
    with pytest.raises(LockNotHeldError):
        renew(world.main, ANN)


def test_seed000_09_a_renewal_extends_the_lease(world: World) -> None:
    first = acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(20)
    renewed = renew(world.main, ANN)
    assert status(world.main).record == renewed
    assert renewed.lease_expires_at > first.lease_expires_at
    assert (renewed.lock_id, renewed.fencing_token) == (first.lock_id, first.fencing_token)
    world.clock.advance(29)
    with pytest.raises(LockConflictError):
        steal(world.main, BOB)


def test_seed000_10_a_failed_renewal_stops_the_holders_writes(world: World) -> None:
    mine = acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(30)
    steal(world.main, BOB)
    with pytest.raises(LockNotHeldError):
        renew(world.main, ANN)
    with pytest.raises(FencingError):
        renew(world.main, ANN, token=mine.fencing_token)
    with pytest.raises(LockNotHeldError):
        world.take()
    with pytest.raises(FencingError):
        world.take(token=mine.fencing_token)
    release(world.main, BOB)
    acquire(world.main, ANN)
    for doing in (renew, take):
        with pytest.raises(FencingError):
            doing(world.main, ANN, token=mine.fencing_token)
    assert world.snapshots() == []


def test_seed000_10_a_renewal_that_fails_in_the_middle_ends_an_operation_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, begun = [0.0], []
    monkeypatch.setattr("holdfast.trees.locking.operation_rights.monotonic", lambda: now[0])

    class Robbed(Progress):
        def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
            begun.append(task)
            if task in ("check", "restore"):
                expire_and_steal(world)
                now[0] += 100  # a third of the lease: it is time to renew

    for number in range(64):
        world.write(f"many/{number}")
    world.lock()
    id = world.take()
    for doing in (world.take, partial(world.in_place, id)):
        with pytest.raises((FencingError, LockExpiredError)):
            doing(progress=Robbed())
        release(world.main, BOB)
        world.lock()
    assert begun == ["snapshot", "check", "restore"]
    assert world.snapshots() == [id]
    assert world.leftovers() == []


def test_seed000_11_nothing_is_stolen_before_it_has_expired(world: World) -> None:
    acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(29.999)
    with pytest.raises(LockConflictError):
        steal(world.main, BOB)
    world.clock.advance(0.001)
    steal(world.main, BOB)


def test_seed000_11_not_even_a_dead_owners_lock(world: World) -> None:
    acquire(world.main, "here:ghost:4194304:1", lease_seconds=30)
    with pytest.raises(LockConflictError):
        steal(world.main, BOB)
    with pytest.raises(LockConflictError):
        acquire(world.main, BOB)


def test_seed000_11_setting_the_wall_clock_frees_nothing_and_freezes_nothing(world: World) -> None:
    acquire(world.main, ANN, lease_seconds=30)
    world.clock.step_wall(86400)
    with pytest.raises(LockConflictError):
        steal(world.main, BOB)
    world.clock.step_wall(-2 * 86400)
    world.clock.advance(30)
    steal(world.main, BOB)


def test_seed000_12_a_steal_raises_the_token(world: World) -> None:
    tokens = [acquire(world.main, ANN, lease_seconds=30).fencing_token]
    for thief in (BOB, CID, BOB):
        world.clock.advance(30)
        world.clock.step_wall(-3600)
        tokens.append(steal(world.main, thief, lease_seconds=30).fencing_token)
    assert tokens == sorted(set(tokens))


def test_seed000_12_a_thief_who_comes_a_moment_later_gets_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(30)
    just_before(monkeypatch, lambda: steal(world.main, BOB))
    with pytest.raises(LockConflictError):
        steal(world.main, CID)
    record = status(world.main).record
    assert record is not None
    assert record.holder_id == BOB


def test_seed000_12_the_counter_outlives_the_record(world: World) -> None:
    tokens = []
    for holder in (ANN, BOB, ANN):
        tokens.append(acquire(world.main, holder).fencing_token)
        release(world.main, holder)
        world.clock.step_wall(-100)
    assert tokens == sorted(set(tokens))


def test_seed000_13_a_steal_is_in_the_audit_log_with_both_parties(world: World) -> None:
    lost = acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(30)
    won = steal(world.main, BOB, reason="ann went home")
    (line,) = [one for one in audit_log.records(world.repository) if one["event"] == "lock_stolen"]
    assert (line["holder_id"], line["fencing_token"]) == (BOB, won.fencing_token)
    assert line["stolen_from"]["holder_id"] == ANN
    assert line["stolen_from"]["fencing_token"] == lost.fencing_token
    assert line["reason"] == "ann went home"


def test_seed000_13_no_steal_takes_effect_before_it_is_in_the_audit_log(
    world: World, tmp_path: Path
) -> None:
    acquire(world.main, ANN, lease_seconds=30)
    world.clock.advance(30)
    steps = len(steps_of(lambda: steal(world.main, BOB), tmp_path / "steps"))
    taken = set()
    for step in range(steps + 1):
        world.clock.advance(301)
        thief = f"here:thief:{step}:1"
        killed_at(step, partial(steal, world.main, thief))
        log = [one for one in audit_log.records(world.repository) if one["event"] == "lock_stolen"]
        record = status(world.main).record
        assert record is not None
        assert record.fencing_token in [one["fencing_token"] for one in log]
        taken.add(record.holder_id == thief)
    assert taken == {True, False}


def test_seed000_14_only_the_holder_releases(world: World) -> None:
    acquire(world.main, ANN)
    with pytest.raises(LockNotHeldError):
        release(world.main, BOB)
    release(world.main, ANN)
    with pytest.raises(LockNotHeldError):
        release(world.main, ANN)
    acquire(world.main, BOB)


def test_seed000_15_a_snapshot_checks_the_token_again_at_its_commit(world: World) -> None:
    world.lock()
    with pytest.raises((FencingError, LockExpiredError)):
        world.take(progress=Meanwhile(lambda: expire_and_steal(world)))
    assert world.snapshots() == []
    assert world.leftovers() == []
    assert world.main.head() == ""


def test_seed000_15_so_does_a_restore_in_place(world: World) -> None:
    world.lock()
    id = world.take()
    world.write("later", "not in the snapshot")
    before = picture(world.payload)
    with pytest.raises((FencingError, LockExpiredError)):
        world.in_place(id, progress=Meanwhile(lambda: expire_and_steal(world)))
    assert picture(world.payload) == before
    assert world.leftovers() == []


def test_seed000_15_no_steal_comes_between_the_check_and_the_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lock()
    id = world.take()
    world.write("later", "not in the snapshot")
    before = picture(world.payload)
    just_before(monkeypatch, lambda: expire_and_steal(world))
    with pytest.raises((FencingError, LockExpiredError)):
        world.take()
    just_before(monkeypatch, lambda: expire_and_steal(world, CID))
    with pytest.raises((FencingError, LockExpiredError)):
        world.in_place(id, holder=BOB)
    assert world.snapshots() == [id]
    assert picture(world.payload) == before
    assert world.leftovers() == []


def test_seed000_15_so_does_one_whose_lease_merely_expired(world: World) -> None:
    world.lock()
    with pytest.raises(LockExpiredError):
        world.take(progress=Meanwhile(lambda: world.clock.advance(300)))
    assert world.snapshots() == []


def test_seed000_16_a_stale_token_ends_with_a_code_and_publishes_nothing(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.payload)
    assert tree("lock", "acquire") == 0
    assert tree("snapshot") == 0
    (id,) = world.snapshots()
    world.write("later", "not in the snapshot")
    before = picture(world.payload)
    restore = ("restore", id, "--inplace", "--force", "--reason", "so")
    for command in (("snapshot",), restore):
        capsys.readouterr()
        assert tree(*command, "--json", "--token", "17") == 4
        assert told(capsys)["error"]["code"] == "E_FENCING_MISMATCH"
        with monkeypatch.context() as told_by_run:
            told_by_run.setenv("HOLDFAST_TREE_TOKEN", f"{world.main.id}:17")
            assert tree(*command, "--json") == 4
        assert told(capsys)["error"]["code"] == "E_FENCING_MISMATCH"
    assert world.snapshots() == [id]
    assert picture(world.payload) == before
    assert world.leftovers() == []


def test_seed000_16_removing_needs_lock_and_token_too(world: World) -> None:
    other = create(world.repository, "other").worktree
    with pytest.raises(LockNotHeldError):
        remove(other, ANN, force=True)
    acquire(other, BOB)
    with pytest.raises(LockNotHeldError):
        remove(other, ANN, force=True)
    with pytest.raises(FencingError):
        remove(other, BOB, token=3, force=True)
    remove(other, BOB)
    with pytest.raises(NoTreeError):
        find(world.repository, "other")


def test_seed000_17_quiesced_is_the_default_and_is_stored(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.payload)
    assert tree("snapshot") == 4
    assert tree("lock", "acquire") == 0
    capsys.readouterr()
    assert tree("snapshot", "--json") == 0
    made = told(capsys)["snapshot"]
    assert made["consistency_level"] == "quiesced"
    fields = json.loads(world.descriptor(made["snapshot_id"]).read_text())
    assert fields["consistency_level"] == "quiesced"
    other = create(world.repository, "other").worktree
    acquire(other, ANN)
    assert take(other, ANN)["consistency_level"] == "quiesced"


@pytest.mark.parametrize("how", ["more", "same size and time", "new", "gone", "swapped"])
def test_seed000_17_a_writer_meanwhile_makes_a_quiesced_snapshot_fail(
    world: World, how: str
) -> None:
    world.lock()
    place = world.payload / "readme"

    def write() -> None:
        before = place.stat()
        if how == "more":
            place.write_text("more than before")
        elif how == "same size and time":
            place.write_text("owt\n")
            os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        elif how == "new":
            world.write("app/new")
        elif how == "gone":
            place.unlink()
        else:
            place.rename(world.payload / "app/readme")

    with pytest.raises(ConsistencyError) as caught:
        world.take(progress=Meanwhile(write))
    assert caught.value.code == "E_CONSISTENCY_UNAVAILABLE"
    assert any("app" in path or "readme" in path for path in caught.value.fields["changed"])
    assert world.snapshots() == []
    assert world.leftovers() == []
    world.take()


def test_seed000_18_best_effort_goes_on_and_says_which_files(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lock()
    id = world.take(
        consistency="best_effort", progress=Meanwhile(lambda: world.write("readme", "changed"))
    )
    fields = json.loads(world.descriptor(id).read_text())
    assert fields["consistency_level"] == "best_effort"
    assert "readme" in fields["changed"]["paths"]
    monkeypatch.chdir(world.payload)
    assert tree("history", "--json", holder=None) == 0
    assert told(capsys)["snapshots"][0]["warning"] is True
    assert tree("info", "--json", holder=None) == 0
    shown = told(capsys)
    assert shown["worktree"]["head"]["warning"] is True
    assert shown["warning"] is True
    assert tree("history", holder=None) == 0
    assert "best_effort" in capsys.readouterr().out
    assert tree("info", holder=None) == 0
    assert "warning: its latest snapshot is best_effort" in capsys.readouterr().err
    world.take()
    assert tree("history", "--json", holder=None) == 0
    assert [one["warning"] for one in told(capsys)["snapshots"]] == [False, True]


def test_seed000_19_what_a_snapshot_needs_in_each_isolation(world: World) -> None:
    with pytest.raises(LockNotHeldError):
        world.take()
    token = acquire(world.main, ANN).fencing_token
    with pytest.raises(FencingError):
        world.take(token=token - 1)
    fields = take(world.main, ANN, token=token)
    assert (fields["isolation"], fields["fencing_token"]) == ("exclusive", token)
    shared = create(world.repository, "open", isolation="shared").worktree
    for level in ("quiesced", "best_effort"):
        fields = take(shared, BOB, consistency=level)
        assert fields["consistency_level"] == level
        assert fields["fencing_token"] is None
        assert fields["isolation"] == "shared"


def test_seed000_20_history_needs_no_lock_and_changes_nothing(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lock()
    ids = [world.take("first")]
    world.clock.advance(1)
    ids.append(world.take("second"))
    release(world.main, ANN)
    # Leftovers of other processes are not touched either.
    (world.control / "snapshots" / "0123456789abcdef0123.tmp").mkdir()
    abandoned = {"operation": "snapshot", "worktree": "main", "worktree_id": world.main.id}
    (world.control / "intents" / "0123456789abcdef0123.json").write_text(json.dumps(abandoned))
    controls = world.payload / ".jvs-worktree"
    before = picture(world.root), picture(controls)
    monkeypatch.chdir(world.payload)
    assert tree("history", "--json", holder=None) == 0
    assert [one["snapshot_id"] for one in told(capsys)["snapshots"]] == ids[::-1]
    assert tree("history", "--all", "--limit", "1", "--json", holder=None) == 0
    assert [one["snapshot_id"] for one in told(capsys)["snapshots"]] == ids[1:]
    assert (picture(world.root), picture(controls)) == before


def test_seed000_21_a_safe_restore_needs_no_lock_and_makes_a_new_worktree(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lock()
    id = world.take()
    before = picture(world.payload)
    world.write("later", "x")
    after = picture(world.payload)
    monkeypatch.chdir(world.payload)
    assert tree("restore", id[:7], "--json", holder=None) == 0
    made = told(capsys)["worktree"]
    shape = f"restore-{id[:8]}-"
    assert made["name"].startswith(shape)
    assert len(made["name"]) == len(shape) + len("YYYYMMDD-HHMMSS-abcd")
    assert picture(made["path"]) == before
    assert tree("restore", id[:7], "--json", holder=None) == 0
    again = told(capsys)["worktree"]
    assert picture(again["path"]) == before
    assert len({one["worktree_id"] for one in (made, again)} | {world.main.id}) == 3
    assert picture(world.payload) == after
    assert Path.cwd() == world.payload


def test_seed000_22_a_restore_in_place_needs_lock_and_token(world: World) -> None:
    world.lock()
    id = world.take()
    before = picture(world.payload)
    world.write("later", "x")
    with pytest.raises(LockNotHeldError):
        world.in_place(id, holder=BOB)
    with pytest.raises(FencingError):
        world.in_place(id, token=1)
    assert (world.payload / "later").exists()
    world.in_place(id)
    assert picture(world.payload) == before


def test_seed000_22_it_is_off_in_a_shared_worktree_until_it_is_allowed(world: World) -> None:
    shared = create(world.repository, "open", isolation="shared").worktree
    id = take(shared, BOB)["snapshot_id"]
    with pytest.raises(TreeNotAllowedError):
        in_place(shared, BOB, id, reason="no")
    config = Path(shared.control("config.json"))
    config.write_text(
        json.dumps({**json.loads(config.read_text()), "allow_restore_in_place": True})
    )
    in_place(find(world.repository, "open"), BOB, id, reason="yes")


def test_seed000_22_the_command_wants_force_and_a_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.payload)
    assert tree("lock", "acquire") == 0
    assert tree("snapshot") == 0
    (id,) = world.snapshots()
    assert tree("restore", id, "--inplace") == 2
    assert tree("restore", id, "--inplace", "--force") == 2
    assert tree("restore", id, "--inplace", "--reason", "so") == 2
    assert tree("restore", id, "--inplace", "--force", "--reason", "so") == 0
    (line,) = [
        one for one in audit_log.records(world.repository) if one["event"] == "restored_in_place"
    ]
    assert (line["reason"], line["previous_head"]) == ("so", id)


def test_seed000_23_only_ready_snapshots_are_seen(world: World) -> None:
    world.lock()
    id, other = world.take(), world.take()
    (world.snapshot(id) / ".READY").unlink()
    assert world.snapshots() == [other]
    with pytest.raises(PartialSnapshotError):
        world.restore(id)


def test_seed000_24_partial_ones_are_ignored_and_refused_by_name(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.lock()
    id = world.take()
    snapshots, descriptors = world.control / "snapshots", world.control / "descriptors"
    without_name, without_mark, without_descriptor, without_folder = (one * 20 for one in "0123")
    (snapshots / f"{without_name}.tmp" / "payload").mkdir(parents=True)
    (descriptors / f"{without_name}.json.tmp").write_text("{}")
    (snapshots / without_mark / "payload").mkdir(parents=True)
    (snapshots / without_descriptor / "payload").mkdir(parents=True)
    (snapshots / without_descriptor / ".READY").write_text("{}")
    (descriptors / f"{without_folder}.json").write_text(world.descriptor(id).read_text())
    monkeypatch.chdir(world.payload)
    for scope in ([], ["--all"]):
        assert tree("history", *scope, "--json", holder=None) == 0
        assert [one["snapshot_id"] for one in told(capsys)["snapshots"]] == [id]
    for unfinished in (without_name, without_mark, without_descriptor):
        assert tree("restore", unfinished[:10], "--json", holder=None) == 3
        assert told(capsys)["error"]["code"] == "E_PARTIAL_SNAPSHOT"
    world.take()


def test_seed000_25_the_strict_doctor_reports_leftovers_and_cleans_them_if_told(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (world.control / "snapshots" / "0123456789abcdef0123.tmp" / "payload").mkdir(parents=True)
    (world.control / "intents" / "abc.json").write_text('{"operation": "snapshot"}')
    monkeypatch.chdir(world.payload)
    assert tree("doctor", "--strict", "--json", holder=None) == 1
    findings = told(capsys)["findings"]
    assert {one["code"] for one in findings} == {"E_ORPHAN_TMP", "E_ORPHAN_INTENT"}
    assert all(one["severity"] and one["path"] and one["remedy"] for one in findings)
    assert len(world.leftovers()) > 0
    assert tree("doctor", "--strict", "--clean", "--json", holder=None) == 0
    capsys.readouterr()
    assert world.leftovers() == []
    before = picture(world.root)
    assert tree("doctor", "--strict", "--clean", "--json", holder=None) == 0
    assert told(capsys)["findings"] == []
    assert picture(world.root) == before


def test_seed000_25_work_in_progress_is_not_a_leftover(world: World) -> None:
    world.lock()
    found = []

    def clean() -> None:
        found.extend(examine(world.repository, strict=True, clean=True))

    id = world.take(progress=Meanwhile(clean))
    world.in_place(id, progress=Meanwhile(clean))
    assert found == []
    assert world.snapshots() == [id]


def test_seed000_26_the_six_error_classes_have_stable_codes() -> None:
    classes: list[type[HoldfastError]] = [
        LockConflictError, LockExpiredError, LockNotHeldError, FencingError, ConsistencyError,
        PartialSnapshotError,
    ]  # fmt: skip
    assert [one.code for one in classes] == [
        "E_LOCK_CONFLICT", "E_LOCK_EXPIRED", "E_LOCK_NOT_HELD", "E_FENCING_MISMATCH",
        "E_CONSISTENCY_UNAVAILABLE", "E_PARTIAL_SNAPSHOT",
    ]  # fmt: skip


def test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(world.payload)
    (world.control / "snapshots" / "0123456789abcdef0123").mkdir()

    def code(*words: str, holder: str | None = "ann") -> tuple[int, str]:
        capsys.readouterr()
        exit_code = tree(*words, "--json", holder=holder)
        return exit_code, told(capsys)["error"]["code"]

    assert code("snapshot") == (4, "E_LOCK_NOT_HELD")
    assert tree("lock", "acquire", "--lease", "0.1s") == 0
    real = find(Repository.open(str(world.root)), "main")  # the commands have the real clock
    acquired = status(real).record
    assert acquired is not None
    until(lambda: status(real).state == "expired", "the lease has run out")
    assert code("lock", "acquire", holder="bob") == (4, "E_LOCK_EXPIRED")
    assert tree("lock", "steal", holder="bob") == 0
    assert code("lock", "acquire") == (3, "E_LOCK_CONFLICT")
    assert code("lock", "renew", "--token", str(acquired.fencing_token)) == (
        4, "E_FENCING_MISMATCH",
    )  # fmt: skip
    assert code("restore", "0123456789", holder=None) == (3, "E_PARTIAL_SNAPSHOT")
    writes = Meanwhile(lambda: world.write("readme", "changed"))
    monkeypatch.setattr(TreeContext, "progress", lambda _context: writes)
    assert code("snapshot", holder="bob") == (3, "E_CONSISTENCY_UNAVAILABLE")
