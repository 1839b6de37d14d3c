"""The file itself, not tokens or clocks, shows whether an agent changed it since its lease."""

from __future__ import annotations

import os

import pytest

from holdfast.gate.file_stamps import stamp_at, stamp_of
from holdfast.gate.guard import kept_files, unclaimed_changes
from stage import Actor, Stage, settled


def stops_with(agent: Actor) -> list[str]:
    """The leases an agent still has right after its stop: on files it changed."""
    files = [agent.stage.root / grant.paths[0] for grant in agent.grants()]
    there = [file for file in files if file.exists()]
    if there:
        settled(*there)
    agent.stop()
    return agent.held()


MOMENT = 1_700_000_000_123_456_789
WHOLE = 1_700_000_000_000_000_000


@pytest.mark.parametrize(
    ("changed", "after", "is_sure"),
    [
        (MOMENT, 0.01, False),
        (MOMENT, 0.1, True),
        (WHOLE, 0.9, False),  # another change in this second gets the same time
        (WHOLE, 1.9, False),  # some file systems count in steps of 2 s
        (WHOLE, 2.2, True),
    ],
)
def test_what_changed_so_shortly_ago_that_a_change_could_go_unseen_has_no_stamp(
    monkeypatch: pytest.MonkeyPatch, changed: int, after: float, is_sure: bool
) -> None:
    """A modification time without a fraction of a second suggests a coarse file system."""
    now = changed + round(after * 1e9)
    status = a_file(changed)
    monkeypatch.setattr("holdfast.gate.file_stamps.time_ns", lambda: now)
    monkeypatch.setattr("holdfast.gate.guard.kept_files.time_ns", lambda: now)
    assert bool(stamp_of(status)) is is_sure
    stamp = [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode]
    assert kept_files.is_settled(stamp) is is_sure


BEGAN = WHOLE + 900_000_000


@pytest.mark.parametrize(
    ("changed", "is_since"), [(WHOLE, True), (WHOLE - 10**9 + 1, False), (BEGAN - 10**7, True)]
)
def test_what_changed_in_the_coarse_second_in_which_a_command_began_may_have_changed_since(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, changed: int, is_since: bool
) -> None:
    tree = stage.manager.tree
    assert tree is not None
    monkeypatch.setattr(unclaimed_changes, "uncommitted", lambda *_: ["x.rb"])
    monkeypatch.setattr("holdfast.gate.guard.unclaimed_changes.os.lstat", lambda _: a_file(changed))
    assert bool(unclaimed_changes.changed_since(tree, "", BEGAN)) is is_since


def a_file(changed: int) -> os.stat_result:
    """An ordinary file whose status changed at a moment; its modification time is different."""
    seconds = changed // 10**9
    times = (0.0, 1.0, changed / 1e9, 0, MOMENT, changed)
    return os.stat_result((0o100644, 1, 1, 1, 0, 0, 3, 0, 1, seconds, *times))


@pytest.mark.parametrize("seconds", [-86400, 86400])
def test_the_clock_may_be_set_before_the_lease(stage: Stage, seconds: float) -> None:
    ann = stage.agent("ann")
    stage.clock.step_wall(seconds)
    ann.edit("app/x.rb", write=None)
    ann.edit("lib/y.rb")
    assert stops_with(ann) == ["lib/y.rb"]


@pytest.mark.parametrize("seconds", [-86400, 86400])
def test_the_clock_may_be_set_after_the_lease(stage: Stage, seconds: float) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb", write=None)
    ann.edit("lib/y.rb", write=None)
    stage.clock.step_wall(seconds)
    ann.edit("lib/y.rb")
    assert stops_with(ann) == ["lib/y.rb"]


def test_a_file_of_the_same_size_and_time_but_another_inode_has_been_changed(
    stage: Stage,
) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb", write=None)
    file = stage.root / "app/x.rb"
    before = file.stat()
    fresh = file.with_name("fresh")
    fresh.write_text("new\n")
    os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))
    fresh.replace(file)
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert stops_with(ann) == ["app/x.rb"]


def test_a_file_written_in_place_with_its_time_put_back_has_been_changed(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb", write=None)
    file = stage.root / "app/x.rb"
    before = file.stat()
    file.write_text("new\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert stops_with(ann) == ["app/x.rb"]


def test_a_file_that_was_absent_and_still_is_has_not_been_changed(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("new.rb", write=None)
    assert stops_with(ann) == []


def test_a_file_that_was_absent_and_was_made_has_been_changed(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("new.rb")
    assert stops_with(ann) == ["new.rb"]


def test_a_file_that_was_deleted_has_been_changed(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb", write=None)
    (stage.root / "app/x.rb").unlink()
    assert stops_with(ann) == ["app/x.rb"]


def test_a_lease_without_a_stamp_counts_as_changed(stage: Stage) -> None:
    ann = stage.agent("ann")
    (stage.root / "app/x.rb").write_text("just now\n")
    ann.edit("app/x.rb", write=None)
    (grant,) = ann.grants()
    assert grant.stamp == ""
    assert stops_with(ann) == ["app/x.rb"]


def test_what_has_no_stamp_at_the_lease_and_none_at_the_stop_counts_as_changed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = stage.agent("ann")
    monkeypatch.setattr(
        "holdfast.gate.file_stamps.time_ns", lambda: 0
    )  # every file is too new for a stamp
    ann.edit("app/x.rb", write=None)
    ann.stop()
    assert ann.held() == ["app/x.rb"]


def test_a_second_edit_keeps_the_stamp_of_the_lease(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    settled(stage.root / "app/x.rb")
    ann.edit("app/x.rb", write=None)  # the client never made this edit
    assert stops_with(ann) == ["app/x.rb"]


def changed_and_committed(ann: Actor) -> None:
    ann.edit("app/x.rb", write="newer\n")
    ann.commit("app/x.rb")
    settled(ann.stage.root / "app/x.rb")


def test_what_its_owner_changed_before_a_held_call_passed_is_not_the_waiters_change(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    settled(stage.root / "app/x.rb")
    stage.later(3, lambda: changed_and_committed(ann))
    assert bob.edit("app/x.rb", hold=True, write=None).kind == "allow"
    assert bob.held() == ["app/x.rb"]
    assert stops_with(bob) == []


def test_what_its_owner_changed_before_a_hand_over_is_not_the_waiters_change(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    changed_and_committed(ann)
    bob.gate().live_on()
    assert bob.edit("app/x.rb", write=None).kind == "allow"
    assert stops_with(bob) == []


def test_what_its_owner_changed_before_a_stop_went_on_is_not_the_waiters_change(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.later(3, lambda: changed_and_committed(ann))
    assert bob.stop(hold=True).kind == "continue"
    (grant,) = bob.grants()
    assert grant.stamp == stamp_at(f"{stage.root}/app/x.rb")
    assert stops_with(bob) == []


def test_what_the_waiter_changed_after_a_hand_over_is_its_change(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    changed_and_committed(ann)
    assert bob.edit("app/x.rb", write="bob\n").kind == "allow"
    assert stops_with(bob) == ["app/x.rb"]
