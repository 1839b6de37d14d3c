"""gc: unneeded snapshots are removed, by a plan; needed ones stay, whatever crashes."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from threading import Event, Thread

import pytest

from helpers_processes import LINUX_ONLY
from helpers_trees import ANN, World, killed_at, picture, steps_of, told, tree
from helpers_trees_gc import STRICT, Orchard, crash_gc, crash_gc_at_random, loose
from holdfast.core.errors import StoreBusyError
from holdfast.manager.clock import FakeClock
from holdfast.trees import (
    BadTreeError,
    NoTreeError,
    PartialSnapshotError,
    Progress,
    Settings,
    TreeDamagedError,
    acquire,
    audit_log,
    create,
    plan_gc,
    remove,
    run_gc,
    take,
)
from holdfast.trees.locking import intents
from holdfast.trees.snapshots import (
    descriptors,
    garbage_collection,
    retention,
    tags,
)

pytestmark = LINUX_ONLY


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, clock=FakeClock())
    made.write("app/x", "one\n")
    made.lock(lease=30 * 86400)
    return made


def several(world: World, count: int) -> list[str]:
    ids = []
    for number in range(count):
        world.write("app/x", f"{number}\n")
        ids.append(world.take(f"number {number}"))
        world.clock.advance(60)
    return ids


def planned(world: World, **settings: object) -> set[str]:
    chosen = Settings().but(**{**STRICT.to_dict(), **settings})
    return {one["snapshot_id"] for one in plan_gc(world.repository, chosen).remove}


def collect(world: World, settings: Settings = STRICT) -> garbage_collection.Collected:
    retention.change_settings(world.repository, **settings.to_dict())
    return run_gc(world.repository, plan_gc(world.repository, settings).id)


def test_a_plan_removes_nothing(world: World) -> None:
    ids = several(world, 3)
    before = picture(world.control / "snapshots")
    assert planned(world) == {*ids[:2]}
    assert picture(world.control / "snapshots") == before
    assert {*world.snapshots()} == {*ids}


def test_a_run_removes_what_the_plan_names_and_frees_its_files(world: World) -> None:
    ids = several(world, 3)
    made = plan_gc(world.repository, STRICT)
    loose(world)
    done = run_gc(world.repository, made.id)
    assert done.removed == ids[:2]
    assert world.snapshots() == [ids[2]]
    assert {path.name for path in (world.control / "snapshots").iterdir()} == {ids[2]}
    assert world.leftovers() == []
    assert world.codes() == []
    world.check_all()
    with pytest.raises(NoTreeError, match="no plan"):
        run_gc(world.repository, made.id)


def test_by_default_everything_that_a_head_came_from_stays(world: World) -> None:
    ids = several(world, 12)
    made = create(world.repository, "side", snapshot_id=ids[0]).worktree
    acquire(made, ANN)
    lost = str(take(made, ANN)["snapshot_id"])
    remove(made, ANN)
    world.clock.advance(2 * 86400)
    plan = plan_gc(world.repository, Settings(keep_last=0))
    assert [one["snapshot_id"] for one in plan.remove] == [lost]
    assert plan.kept[ids[-1]] == "the head of main"
    assert plan.kept[ids[0]] == "an ancestor of the head of main"


def test_heads_bases_and_tags_stay_whatever_the_settings(world: World) -> None:
    ids = several(world, 6)
    tags.add(world.repository, "v1.0", ids[0])
    made = create(world.repository, "other", snapshot_id=ids[2]).worktree
    acquire(made, ANN)
    head = str(take(made, ANN)["snapshot_id"])
    assert planned(world) == {ids[1], ids[3], ids[4]}
    collect(world)
    assert {*world.snapshots()} == {ids[0], ids[2], ids[5], head}


def test_keep_last_and_keep_days_keep_so_many_and_so_long(world: World) -> None:
    ids = several(world, 4)
    world.clock.advance(3 * 86400)
    ids += several(world, 4)
    assert planned(world, keep_last=3) == {*ids[:5]}
    assert planned(world, keep_days=1) == {*ids[:4]}
    assert planned(world, keep_days=4) == set()
    other = create(world.repository, "other").worktree
    acquire(other, ANN)
    mine = []
    for _ in range(3):
        mine.append(str(take(other, ANN)["snapshot_id"]))
        world.clock.advance(60)
    assert planned(world, keep_last=2) == {*ids[:6], mine[0]}


def test_snapshots_that_became_needed_since_the_plan_stay(world: World) -> None:
    ids = several(world, 5)
    loose(world)
    plan = plan_gc(world.repository, STRICT)
    tags.add(world.repository, "late", ids[0])
    create(world.repository, "late", snapshot_id=ids[1])
    retention.change_settings(world.repository, keep_last=2)
    done = run_gc(world.repository, plan.id)
    assert done.removed == [ids[2]]
    assert done.spared == {
        ids[0]: "the tag late", ids[1]: "the head of late", ids[3]: "keep_last",
    }  # fmt: skip


def test_a_snapshot_that_an_operation_reads_is_left_alone(world: World) -> None:
    ids = several(world, 3)
    loose(world)
    plan = plan_gc(world.repository, STRICT)
    seen = []

    class Meanwhile(Progress):
        def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
            if task == "restore":
                seen.append(run_gc(world.repository, plan.id))

    made = create(world.repository, "slow", snapshot_id=ids[0], progress=Meanwhile())
    assert seen[0].spared == {ids[0]: "an operation under way"}
    assert seen[0].removed == [ids[1]]
    assert Path(made.worktree.path, "app/x").read_text() == "0\n"
    assert planned(world) == set()


def test_a_gc_beside_a_snapshot_under_way_knows_what_it_needs(world: World) -> None:
    ids = several(world, 3)
    seen = []

    class Meanwhile(Progress):
        def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
            if task == "check":
                seen.append(plan_gc(world.repository, Settings(keep_last=0, keep_days=0)))
                seen.append(plan_gc(world.repository, STRICT))

    world.take(progress=Meanwhile())
    by_default, strict = seen
    assert by_default.remove == []
    assert [one["snapshot_id"] for one in strict.remove] == ids[:2]


def test_a_gc_that_is_interrupted_is_finished_by_the_next(world: World) -> None:
    ids = several(world, 4)
    loose(world)
    plan = plan_gc(world.repository, STRICT)

    class Interrupted(Progress):
        def advance(self, files: int = 0, bytes: int = 0) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_gc(world.repository, plan.id, Interrupted())
    assert world.snapshots() == [ids[3]]
    assert world.leftovers() != []
    assert collect(world).removed == []
    assert world.leftovers() == []
    assert world.codes() == []


def test_a_restore_of_what_gc_has_just_taken_fails_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = several(world, 2)
    begin = intents.begin

    def late(*words: object, **facts: object) -> intents.Intent:
        monkeypatch.setattr(intents, "begin", begin)
        collect(world)
        return begin(*words, **facts)  # type: ignore[arg-type]

    monkeypatch.setattr(intents, "begin", late)
    with pytest.raises(PartialSnapshotError):
        create(world.repository, "late", snapshot_id=ids[0])
    assert not (world.root / "worktrees" / "late").exists()
    assert world.leftovers() == []
    assert world.codes() == []


def test_an_unknown_state_makes_gc_remove_nothing(world: World) -> None:
    ids = several(world, 3)
    tags.add(world.repository, "v1.0", ids[0])
    tag = world.control / "refs" / "v1.0.json"
    whole = tag.read_text()
    loose(world)
    plan = plan_gc(world.repository, STRICT)
    tag.write_text("{")
    for doing in (lambda: plan_gc(world.repository), lambda: run_gc(world.repository, plan.id)):
        with pytest.raises(TreeDamagedError):
            doing()
    assert world.codes() == ["E_BAD_TAG"]
    tag.write_text(whole)
    head = world.payload / ".jvs-worktree" / "head_snapshot"
    known = head.read_text()
    head.write_text("?!\n")
    with pytest.raises(TreeDamagedError):
        run_gc(world.repository, plan.id)
    head.write_text(known)
    (world.control / "gc" / "settings.json").write_text('{"keep_all": 1}')
    with pytest.raises(TreeDamagedError):
        run_gc(world.repository, plan.id)
    assert {*world.snapshots()} == {*ids}
    assert world.leftovers() == []


def test_history_goes_past_what_was_removed(world: World) -> None:
    ids = several(world, 5)
    tags.add(world.repository, "v1.0", ids[1])
    collect(world)
    seen = [one["snapshot_id"] for one in descriptors.lineage(world.repository, ids[4])]
    assert seen == [ids[4], ids[1]]
    # Their parents are known, so keep_ancestors still applies to the rest.
    tags.remove(world.repository, "v1.0")
    assert planned(world, keep_ancestors=True) == set()


def test_a_gc_is_in_the_audit_log(world: World) -> None:
    ids = several(world, 3)
    collect(world)
    (record,) = [one for one in audit_log.records(world.repository) if "removed" in one]
    assert record["event"] == "snapshots_removed"
    assert record["removed"] == ids[:2]


def test_a_gc_beside_another_is_refused(world: World) -> None:
    several(world, 3)
    loose(world)
    plan = plan_gc(world.repository, STRICT)
    refused = []

    class Meanwhile(Progress):
        def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
            other = plan_gc(world.repository, STRICT)
            with pytest.raises(StoreBusyError) as caught:
                run_gc(world.repository, other.id)
            refused.append(caught.value.fields["pid"])

    run_gc(world.repository, plan.id, Meanwhile())
    assert len(refused) == 1
    assert world.leftovers() == []


def test_a_gc_that_is_killed_loses_nothing_needed_and_the_next_one_finishes(tmp_path: Path) -> None:
    counts = crash_gc(tmp_path, every=31)
    assert {3, 6} <= counts


def test_gc_killed_at_random_moments(tmp_path: Path) -> None:
    crash_gc_at_random(tmp_path, times=8, seed=22)


def test_a_doctor_finishes_what_a_killed_gc_left(tmp_path: Path) -> None:
    orchard = Orchard(tmp_path)
    world = orchard.world
    loose(world)
    plan = plan_gc(world.repository, STRICT)
    work = partial(run_gc, world.repository, plan.id)
    steps = steps_of(lambda: run_gc(world.repository, plan.id), tmp_path / "steps")
    orchard.grow(3)
    plan = plan_gc(world.repository, STRICT)
    work = partial(run_gc, world.repository, plan.id)
    last = max(at for at, name in enumerate(steps) if name == "os.rename")
    assert killed_at(last - 4, work)
    assert "E_ORPHAN_INTENT" in world.codes(clean=True)
    assert world.codes() == []
    assert world.leftovers() == []
    orchard.check({*world.snapshots()})


def test_a_doctor_and_a_verify_beside_a_gc_find_no_damage(world: World) -> None:
    found: list[str] = []
    over = Event()

    def look() -> None:
        while not over.is_set():
            found.extend(world.codes(clean=len(found) % 2 == 0))

    thread = Thread(target=look)
    thread.start()
    try:
        for _ in range(8):
            several(world, 4)
            collect(world)
    finally:
        over.set()
        thread.join(60)
    assert {*found} <= {"E_ORPHAN_TMP"}
    assert len(world.snapshots()) == 1
    world.codes(clean=True)
    assert world.codes() == []
    assert world.leftovers() == []


def test_snapshots_are_taken_while_gc_runs(world: World) -> None:
    several(world, 6)
    loose(world)
    thread = Thread(target=lambda: [collect(world) for _ in range(6)])
    thread.start()
    made = []
    for number in range(12):
        world.write("app/x", f"again {number}\n")
        made.append(world.take())
    thread.join(60)
    assert not thread.is_alive()
    assert made[-1] in world.snapshots()
    world.check_all()
    assert world.codes() == []
    assert world.leftovers() == []


@pytest.mark.parametrize("change", [{"keep_last": -1}, {"keep_last": 1.5}, {"keep_days": -1},
                                    {"keep_days": 1e9}, {"keep_ancestors": 1}, {"keep_all": True},
                                    {"keep_last": True}])  # fmt: skip
def test_a_setting_that_cannot_be_is_refused(world: World, change: dict[str, object]) -> None:
    with pytest.raises(BadTreeError):
        retention.change_settings(world.repository, **change)
    assert retention.settings(world.repository).to_dict() == Settings().to_dict()


def test_the_commands_plan_then_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path)
    world.lock()
    for number in range(4):
        world.write("x", f"{number}")
        world.take(f"number {number}")
    monkeypatch.chdir(world.payload)
    assert tree("gc", "settings", "keep_ancestors=false", "keep_last=2", "keep_days=0",
                holder=None) == 0  # fmt: skip
    capsys.readouterr()
    assert tree("gc", "settings", "--json", holder=None) == 0
    assert told(capsys)["settings"] == {
        "keep_ancestors": False, "keep_last": 2, "keep_days": 0,
    }  # fmt: skip
    assert tree("gc", "plan", holder=None) == 0
    shown = capsys.readouterr()
    assert "2 snapshots to remove" in shown.out
    assert "-> holdfast tree gc run" in shown.err
    assert tree("gc", "plan", "--keep-last", "3", "--json", holder=None) == 0
    plan = told(capsys)["plan"]
    assert len(plan["remove"]) == 1
    assert tree("gc", "run", plan["plan_id"], holder=None) == 0
    assert "removed 1 snapshot" in capsys.readouterr().out
    assert len(world.snapshots()) == 3
    for words in (["run"], ["run", "none"], ["run", "../x"], ["settings", "keep_last"],
                  ["settings", "keep_last=x"], ["plan", "--keep-last", "x"]):  # fmt: skip
        assert tree("gc", *words, holder=None) == 2
    assert json.loads((world.control / "gc" / "settings.json").read_text())["keep_last"] == 2
