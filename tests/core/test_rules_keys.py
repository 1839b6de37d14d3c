"""Things that can be locked: paths, and resources by name."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

import pytest

from holdfast import BadKeyError, LockManager, OverLockError
from holdfast.core import rules
from holdfast.testing.conformance import Scene


@pytest.mark.parametrize("name", ["port:5432", "db:test", "git:index", "res:anything at all"])
def test_a_resource_is_locked_by_its_name(scene: Scene, manager: LockManager, name: str) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    grant = manager.try_acquire(holder=ann, write_paths=[name])
    assert grant is not None
    assert grant.write_paths == (name,)
    assert manager.try_acquire(holder=bob, write_paths=[name]) is None
    assert manager.try_acquire(holder=bob, read_paths=[name]) is None
    assert manager.try_acquire(holder=bob, write_paths=[f"{name.partition(':')[0]}:1"])
    manager.release(grant.id)
    assert manager.try_acquire(holder=bob, write_paths=[name]) is not None


def test_paths_and_resources_are_taken_together_or_not_at_all(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    assert manager.try_acquire(holder=ann, write_paths=["port:5432"])
    assert manager.try_acquire(holder=bob, write_paths=["app/x.rb", "port:5432"]) is None
    grant = manager.try_acquire(
        holder=ann, read_paths=["lib/"], write_paths=["app/x.rb", "db:test", "git:index"]
    )
    assert grant is not None
    assert grant.write_paths == ("app/x.rb", "db:test", "git:index")


@pytest.mark.parametrize(
    ("key", "command"),
    [("spec:login", "spec"), ("node:1.2", "proof"), ("worktree:main", "tree")],
)
def test_what_belongs_to_a_service_is_refused_with_the_way_to_it(
    scene: Scene, manager: LockManager, key: str, command: str
) -> None:
    ann = scene.holder("ann")
    for call in (
        lambda: manager.try_acquire(holder=ann, write_paths=[key]),
        lambda: manager.acquire(holder=ann, read_paths=["x", key], timeout=1),
        lambda: manager.ensure(holder=ann, write_paths=[key]),
        lambda: manager.steal(holder=ann, write_paths=[key]),
        lambda: manager.check_conflicts(write_paths=[key]),
    ):
        with pytest.raises(BadKeyError) as caught:
            call()
        assert caught.value.code == "E_BAD_KEY"
        assert f"holdfast {command} " in caught.value.hint
    assert list(manager.events()) == []


def test_a_file_that_is_called_like_a_resource_is_still_a_file(
    scene: Scene, manager: LockManager
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    file = manager.try_acquire(holder=ann, write_paths=["./port:80"])
    assert file is not None
    assert manager.try_acquire(holder=bob, write_paths=["port:80"]) is not None
    assert manager.try_acquire(holder=bob, write_paths=list(file.write_paths)) is None
    assert manager.try_acquire(holder=bob, read_paths=["."]) is None


def test_asking_for_nothing_is_an_error(scene: Scene, manager: LockManager) -> None:
    with pytest.raises(BadKeyError):
        manager.try_acquire(holder=scene.holder("ann"))


def test_one_text_in_the_place_of_a_list_is_an_error(scene: Scene, manager: LockManager) -> None:
    with pytest.raises(BadKeyError, match="list"):
        manager.try_acquire(holder=scene.holder("ann"), write_paths="app/x.rb")


@pytest.mark.parametrize("text", ["app/models", "app/models/", "app", ".", "app/new/"])
def test_a_folder_on_disk_is_not_written_with_or_without_its_slash(
    repository: Path, text: str
) -> None:
    with LockManager.open(repository) as manager:
        with pytest.raises(OverLockError) as caught:
            manager.try_acquire(holder="ann", write_paths=[text])
        assert text.rstrip("/") in str(caught.value)


def test_a_read_of_a_folder_on_disk_covers_the_folder_without_its_slash(
    repository: Path,
) -> None:
    with LockManager.open(repository) as manager:
        grant = manager.try_acquire(holder="ann", read_paths=["app"])
        assert grant is not None
        assert grant.read_paths == ("app/",)
        for path in ("app/x.rb", "app/models/user.rb", "app/not/there/yet.rb"):
            assert manager.try_acquire(holder="bob", write_paths=[path]) is None
        assert manager.try_acquire(holder="bob", write_paths=["lib/y.rb"]) is not None


def test_a_folder_that_was_replaced_by_a_file_still_conflicts(repository: Path) -> None:
    with LockManager.open(repository) as manager:
        assert manager.try_acquire(holder="ann", read_paths=["app/models"])
        (repository / "app/models/user.rb").unlink()
        (repository / "app/models").rmdir()
        (repository / "app/models").write_text("a file now\n")
        assert manager.try_acquire(holder="bob", write_paths=["app/models"]) is None


def test_two_names_of_one_file_are_one_thing(repository: Path) -> None:
    os.link(repository / "app/x.rb", repository / "lib/x2.rb")
    with LockManager.open(repository) as manager:
        grant = manager.try_acquire(holder="ann", write_paths=["app/x.rb"])
        assert grant is not None
        assert grant.write_paths == ("app/x.rb",)
        assert manager.try_acquire(holder="bob", write_paths=["lib/x2.rb"]) is None
        assert manager.try_acquire(holder="bob", read_paths=["lib/x2.rb"]) is None
        assert manager.try_acquire(holder="bob", write_paths=["lib/y.rb"]) is not None


def test_a_name_that_is_added_while_the_file_is_held_is_the_same_thing(repository: Path) -> None:
    with LockManager.open(repository) as manager:
        assert manager.try_acquire(holder="ann", write_paths=["app/x.rb"])
        os.link(repository / "app/x.rb", repository / "lib/x2.rb")
        assert manager.try_acquire(holder="bob", write_paths=["lib/x2.rb"]) is None


def test_a_name_that_is_added_while_a_request_waits_for_the_file_is_the_same_thing(
    repository: Path,
) -> None:
    with LockManager.open(repository) as manager:
        reading = manager.try_acquire(holder="ann", read_paths=["app"])
        assert reading is not None
        request = manager.request("bob", write_paths=["app/x.rb"])
        store, end = manager.store, monotonic() + 60
        store.transact(lambda view: rules.acquire(view, request, wait=True), deadline=end)
        os.link(repository / "app/x.rb", repository / "lib/x2.rb")
        other = manager.try_acquire(holder="cid", write_paths=["lib/x2.rb"])
        manager.release(reading.id)
        held = {grant.holder for grant in manager.active_grants()}
        assert len(held) == 1, f"{held} write one file, by two names"
        assert (other is None) == ("bob" in held)
