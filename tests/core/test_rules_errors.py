"""Errors: stable codes, one class each, and a tree that says whose turn it is."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import holdfast
from holdfast import HoldfastError, InvalidInput, LockManager, Lost, Refused, StoreError
from holdfast.testing.conformance import Scene

TABLE = [
    ("E_LOCK_CONFLICT", "LockConflictError", Refused),
    ("E_LOCK_TIMEOUT", "LockTimeoutError", Refused),
    ("E_LOCK_CYCLE", "LockCycleError", Refused),
    ("E_LOCK_VIOLATION", "LockViolationError", Refused),
    ("E_LOCK_EXPIRED", "LockExpiredError", Lost),
    ("E_LOCK_NOT_HELD", "LockNotHeldError", Lost),
    ("E_FENCING_MISMATCH", "FencingError", Lost),
    ("E_OVER_LOCK", "OverLockError", InvalidInput),
    ("E_BAD_KEY", "BadKeyError", InvalidInput),
    ("E_STORE_CORRUPT", "StoreCorruptError", StoreError),
    ("E_STORE_VERSION", "StoreVersionError", StoreError),
    ("E_RECORD_VERSION", "RecordVersionError", StoreError),
    ("E_STORE_READONLY", "StoreReadonlyError", StoreError),
    ("E_STORE_FULL", "StoreFullError", StoreError),
    ("E_STORE_BUSY", "StoreBusyError", StoreError),
    ("E_STORE_NETWORK", "StoreNetworkError", StoreError),
]


@pytest.mark.parametrize(("code", "name", "branch"), TABLE)
def test_each_code_has_one_class_on_its_branch(
    code: str, name: str, branch: type[HoldfastError]
) -> None:
    error = getattr(holdfast, name)
    assert error.code == code
    assert issubclass(error, branch)
    assert issubclass(branch, HoldfastError)
    assert name in holdfast.__all__


def test_no_two_classes_share_a_code() -> None:
    def below(error: type[HoldfastError]) -> list[type[HoldfastError]]:
        return [error, *(one for sub in error.__subclasses__() for one in below(sub))]

    own = [error for error in below(HoldfastError) if "code" in vars(error)]
    assert len({error.code for error in own}) == len(own)
    assert {code for code, _name, _branch in TABLE} <= {error.code for error in own}


def test_the_branches_exclude_each_other() -> None:
    for _code, name, _branch in TABLE:
        error = getattr(holdfast, name)
        assert sum(issubclass(error, one) for one in (Refused, Lost, InvalidInput, StoreError)) == 1


def test_an_error_is_a_sentence_a_hint_and_its_facts() -> None:
    error = holdfast.LockConflictError("it is taken", hint="wait", path="x")
    assert str(error) == error.message == "it is taken"
    assert (error.hint, error.fields) == ("wait", {"path": "x"})
    assert json.loads(json.dumps(error.to_dict())) == {
        "code": "E_LOCK_CONFLICT", "message": "it is taken", "hint": "wait", "path": "x",
    }  # fmt: skip


def test_a_refusal_names_the_holder_for_how_long_until_when_why_and_what_next(
    scene: Scene, manager: LockManager
) -> None:
    manager.try_acquire(
        holder=scene.holder("ann"), read_paths=["app/"], ttl=3600, reason="renaming things"
    )
    scene.clock.advance(300)
    with pytest.raises(holdfast.LockConflictError) as caught:
        manager.ensure(holder=scene.holder("bob"), write_paths=["app/x.rb"])
    told = str(caught.value)
    for fact in ("app/x.rb", "app/", "ann", "5 min", "55 min", "renaming things"):
        assert fact in told
    assert caught.value.hint
    (conflict,) = caught.value.fields["conflicts"]
    assert (conflict.holder, conflict.held_path) == ("ann", "app/")


def test_a_refusal_as_plain_data_can_be_written_as_json(scene: Scene, manager: LockManager) -> None:
    manager.try_acquire(holder=scene.holder("ann"), write_paths=["x"])
    errors = []
    calls: list[Callable[[], object]] = [
        lambda: manager.ensure(holder=scene.holder("bob"), write_paths=["x"]),
        lambda: manager.acquire(holder=scene.holder("bob"), write_paths=["x"], timeout=0),
        lambda: manager.renew("never-was", holder=scene.holder("bob")),
        lambda: manager.try_acquire(holder=scene.holder("bob"), write_paths=["a/"]),
    ]
    for call in calls:
        with pytest.raises(HoldfastError) as caught:
            call()
        errors.append(caught.value)
    for error in errors:
        plain = json.loads(json.dumps(error.to_dict()))
        assert plain["code"] == error.code
        assert plain["message"]
        assert plain["hint"]


def test_a_crowd_of_conflicts_is_counted_and_not_listed(scene: Scene, manager: LockManager) -> None:
    for number in range(50):
        scene.take(f"agent-{number}", writes=[f"a/{number}"])
    with pytest.raises(holdfast.LockConflictError, match="and 47 more") as caught:
        manager.ensure(holder=scene.holder("bob"), read_paths=["a/"])
    assert len(caught.value.fields["conflicts"]) == 20
    assert caught.value.fields["more"] == 30
    for number in range(50, 1100):
        scene.take("ann", writes=[f"a/{number}"])
    with pytest.raises(holdfast.LockConflictError, match="and more than 1,000 more") as caught:
        manager.ensure(holder=scene.holder("bob"), read_paths=["a/"])
    assert caught.value.to_dict()["more"] == 1001
