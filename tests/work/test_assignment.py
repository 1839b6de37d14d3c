"""The work that a dispatcher was given: of several processes that start it, one succeeds."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from helpers_processes import Crowd
from holdfast import LockManager
from holdfast.manager import transactions
from holdfast.work.errors import WorkError
from holdfast.work.screens import assignment, workflow_states
from holdfast.work.screens.assignment import assign, forget, present, unfinished
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.workflow_records import Flows

SCREENS = [
    {
        "name": name,
        "module": "blog",
        "controller": controller,
        "actions": {"primary": "index", "secondary": []},
        "reads_from": [],
    }
    for name, controller in (("list", "posts"), ("show", "posts"), ("all", "users"))
]
TEXT = json.dumps({"version": 1, "screens": SCREENS}).encode()


def manifest() -> ScreenManifest:
    return ScreenManifest.parse(TEXT, "screens.json")


def finish(manager: LockManager, to: str = workflow_states.COMPLETED) -> None:
    flows = Flows(manager)
    for name in manifest().groups:
        for state in (
            workflow_states.QUEUED,
            workflow_states.ANALYZING,
            workflow_states.AWAITING_DECISIONS,
            to,
        ):
            flows.move(name, state)


def test_of_many_who_begin_at_the_same_moment_one_does(repository: Path) -> None:
    barrier = threading.Barrier(6)
    begun: list[assignment.Assignment] = []
    refused: list[WorkError] = []

    def begin() -> None:
        with LockManager.open(repository) as manager:
            barrier.wait(30)
            try:
                begun.append(assign(manager, manifest(), review=False))
            except WorkError as error:
                refused.append(error)

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(begun), len(refused)) == (1, 5)
    assert "--resume" in refused[0].hint
    with LockManager.open(repository) as manager:
        assert present(manager).began == begun[0].began
        assert manager.active_grants() == []


def test_a_process_that_cannot_start_for_long_gets_an_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "TURN_SECONDS", 0.1)
    with LockManager.open(repository) as manager, assignment._alone(manager):
        with pytest.raises(WorkError, match="another process is starting or forgetting"):
            assign(manager, manifest(), review=False)
        with pytest.raises(WorkError, match="another process is starting or forgetting"):
            forget(manager)


def test_work_that_has_not_started_is_not_done(repository: Path) -> None:
    with LockManager.open(repository) as manager:
        assign(manager, manifest(), review=False)
        assert unfinished(manager) == ["blog/posts", "blog/users"]
        with pytest.raises(WorkError, match="blog/posts and 1 more"):
            assign(manager, manifest(), review=False)


ASSIGNER = """
from holdfast import LockManager
from holdfast.work.screens.assignment import assign
from holdfast.work.screens.manifest import ScreenManifest
with LockManager.open(sys.argv[1]) as manager:
    assign(manager, ScreenManifest.parse(sys.argv[2].encode(), "screens.json"), review=False)
    say("begun")
    go()
"""


def test_work_that_never_started_is_dropped_with_its_dead_dispatcher(
    repository: Path, tmp_path: Path
) -> None:
    with Crowd(tmp_path) as crowd, LockManager.open(repository) as manager:
        child = crowd.start(ASSIGNER, repository, TEXT.decode())
        child.wait_for("begun")
        with pytest.raises(WorkError):
            assign(manager, manifest(), review=False)
        child.kill()
        assert unfinished(manager) == []
        assert present(manager).manifest.groups.keys() == manifest().groups.keys()
        assign(manager, manifest(), review=True)
        assert present(manager).review


def test_work_that_another_dispatcher_has_taken_up_is_not_abandoned(
    repository: Path, tmp_path: Path
) -> None:
    with Crowd(tmp_path) as crowd, LockManager.open(repository) as manager:
        child = crowd.start(ASSIGNER, repository, TEXT.decode())
        child.wait_for("begun")
        child.kill()
        assignment.take_up(manager)
        assert unfinished(manager) == ["blog/posts", "blog/users"]
        with pytest.raises(WorkError, match="there is unfinished work"):
            assign(manager, manifest(), review=False)


def test_work_that_is_done_or_rejected_makes_room_for_the_next(repository: Path) -> None:
    with LockManager.open(repository) as manager:
        assign(manager, manifest(), review=False)
        finish(manager)
        assert unfinished(manager) == []
        assign(manager, manifest(), review=False)
        assert Flows(manager).all() == {}, "what was done is forgotten"
        finish(manager, workflow_states.IDLE)
        assert unfinished(manager) == ["blog/posts", "blog/users"]
        for name in manifest().groups:
            Flows(manager).move(name, workflow_states.QUEUED)
            Flows(manager).move(name, workflow_states.IDLE, "rejected", {"decision": "rejected"})
        assert unfinished(manager) == []


def test_forgotten_work_can_be_started_again(repository: Path) -> None:
    with LockManager.open(repository) as manager:
        assign(manager, manifest(), review=False)
        forget(manager)
        assert transactions.noted(manager, assignment.NOTE) is None
        with pytest.raises(WorkError, match="there is nothing to resume"):
            present(manager)
        assign(manager, manifest(), review=False)
