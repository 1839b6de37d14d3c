"""Which requests conflict: overlap by path components, and the compatibility of modes."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Holder, LockGrant, LockManager, OverLockError
from holdfast.core import keys
from holdfast.core.model import Grant
from holdfast.testing.conformance import Scene

# A folder D, files in it at two depths, a folder in it, a sibling whose name begins like D's, …
SHAPES = [
    "D/", "D/file", "D/E/", "D/E/file", "D/E", "D", "Dx", "D.x/", "D.x/file",
    "other", "other/", "other/file", "port:80", "res:D/file",
]  # fmt: skip


def components(shape: str) -> list[str]:
    """The parts of a path; a resource is one part that nothing is inside of."""
    if ":" in shape:
        return [shape]
    return shape.rstrip("/").split("/")


def overlapping(one: str, other: str) -> bool:
    """The rule, written independently: both are the same, or one is a folder above the other."""
    mine, theirs = components(one), components(other)
    shorter = min(len(mine), len(theirs))
    if ":" in one or ":" in other:
        return one == other
    return mine[:shorter] == theirs[:shorter]


def ask(manager: LockManager, who: Holder, shape: str, mode: str) -> LockGrant | None:
    reads, writes = ([shape], []) if mode == "r" else ([], [shape])
    return manager.try_acquire(holder=who, read_paths=reads, write_paths=writes)


@pytest.mark.parametrize("held", SHAPES)
def test_every_pair_of_shapes_conflicts_exactly_when_they_overlap_and_one_writes(
    scene: Scene, manager: LockManager, held: str
) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    for held_mode, wanted, mode in product("rw", SHAPES, "rw"):
        if "w" in (held_mode * held.endswith("/"), mode * wanted.endswith("/")):
            continue  # a folder is never written
        first = ask(manager, ann, held, held_mode)
        assert first is not None
        second = ask(manager, bob, wanted, mode)
        blocked = overlapping(held, wanted) and "w" in (held_mode, mode)
        assert (second is None) == blocked, f"{held_mode} {held} against {mode} {wanted}"
        for grant in filter(None, (first, second)):
            manager.release(grant.id)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.endswith("/")])
def test_a_write_on_a_folder_is_refused_and_names_the_path(
    scene: Scene, manager: LockManager, shape: str
) -> None:
    with pytest.raises(OverLockError) as caught:
        manager.try_acquire(holder=scene.holder("ann"), write_paths=["fine", shape])
    assert caught.value.code == "E_OVER_LOCK"
    assert shape in str(caught.value)
    assert caught.value.fields["path"] == shape
    assert manager.active_grants() == []
    assert list(manager.events()) == []


def test_the_root_is_a_folder_that_contains_every_path(scene: Scene, manager: LockManager) -> None:
    ann, bob = scene.holder("ann"), scene.holder("bob")
    with pytest.raises(OverLockError):
        manager.try_acquire(holder=ann, write_paths=["."])
    assert manager.try_acquire(holder=ann, read_paths=["."]) is not None
    assert manager.try_acquire(holder=bob, write_paths=["any/file"]) is None
    assert manager.try_acquire(holder=bob, read_paths=["any/file", "."]) is not None
    assert manager.try_acquire(holder=bob, write_paths=["port:1"]) is not None


def test_a_conflict_names_both_sides(scene: Scene, manager: LockManager) -> None:
    grant = manager.try_acquire(
        holder=scene.holder("ann"), read_paths=["app/"], ttl=60, reason="reading all of it"
    )
    assert grant is not None
    (conflict,) = manager.check_conflicts(write_paths=["app/x.rb", "lib/y.rb"])
    assert (conflict.path, conflict.mode) == ("app/x.rb", "w")
    assert (conflict.held_path, conflict.held_mode) == ("app/", "r")
    assert (conflict.holder, conflict.grant_id) == ("ann", grant.id)
    assert (conflict.since, conflict.until) == (manager.now(), manager.now() + 60_000_000)
    assert (conflict.reason, conflict.kind) == ("reading all of it", "grant")


def test_a_conflict_check_asks_for_nothing_and_changes_nothing(
    scene: Scene, manager: LockManager
) -> None:
    manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    before = scene.state()
    assert len(manager.check_conflicts(read_paths=["x"])) == 1
    assert manager.check_conflicts(read_paths=["y"]) == []
    assert scene.state() == before


def test_a_conflict_check_shows_the_grants_of_all_holders_whatever_their_names(
    scene: Scene, manager: LockManager
) -> None:
    from holdfast import Holder

    for name in ("nobody", "None", "anybody", "me"):
        manager.try_acquire(holder=Holder(id=name), write_paths=[f"of-{name}"])
        assert [c.holder for c in manager.check_conflicts(write_paths=[f"of-{name}"])] == [name]


# Names that sort around the separator, share beginnings, and need more than one byte.
NAMES = st.sampled_from(["a", "a.b", "a-b", "a0", "ab", "b", "A", "ä", "\u4e2d", "~", "!"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
ANYTHING = st.one_of(PATHS, st.just("."), st.sampled_from(["port:1", "res:a/b", "res:a"]))


@given(one=ANYTHING, other=ANYTHING)
def test_overlap_follows_from_the_components(one: str, other: str) -> None:
    among_paths = not (":" in one or ":" in other)
    expected = among_paths if "." in (one, other) else overlapping(one, other)
    assert keys.overlap(one, other) == keys.overlap(other, one) == expected


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(held=st.lists(ANYTHING, min_size=1, max_size=12, unique=True), wanted=ANYTHING)
def test_a_look_up_finds_exactly_what_overlaps(scene: Scene, held: list[str], wanted: str) -> None:
    grants: dict[str, Grant] = {}
    ann, bob = scene.holder("ann"), scene.holder("bob")
    for key in held:
        grants[key] = scene.take(ann, reads=[key])
    found = scene.look(scene.request(bob, [], [wanted]))
    expected = {key for key in held if keys.overlap(key, wanted)}
    assert {conflict.held_path for conflict in found} == expected
    for grant in grants.values():
        scene.release(grant)
