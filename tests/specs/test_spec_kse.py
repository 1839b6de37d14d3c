"""Beside kse, in one folder of specs and in two: locks in either refuse, and nothing wedges."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from helpers_cli import Repository
from helpers_kse import Kse, made
from helpers_specs import foreign, locks, made_repository
from helpers_specs_crowd import kse_fight, wander
from holdfast.specs import LockFile, SpecLocks

BOTH = (".sce", ".kiro")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path / "workspace", *BOTH)


def files(root: Path) -> list[str]:
    """The homes that have a lock, and nothing else beside it."""
    found = []
    for home in BOTH:
        names = os.listdir(root / home / "specs/demo")
        assert names in ([], [".lock"]), names
        found += [home] * len(names)
    return found


def test_ours_then_unlocked_by_kse_then_locked_by_kse(tmp_path: Path) -> None:
    """It crashed on the folder that we kept at `.lock.tmp`."""
    root = made(tmp_path / "workspace", ".kiro")
    kse = Kse(root, ".kiro", "pc-1")
    assert locks(root).acquire_lock("demo").success
    assert kse.lock("demo") == "Spec is already locked"
    assert kse.unlock("demo") == ""  # to kse it is the same machine
    assert kse.lock("demo") == ""
    assert locks(root).acquire_lock("demo").error == "Spec is already locked"
    assert kse.unlock("demo") == ""
    assert locks(root).acquire_lock("demo").success


@pytest.mark.parametrize("home", BOTH)
def test_a_lock_in_either_folder_refuses(root: Path, home: str) -> None:
    kse = Kse(root, home, "far-1")
    assert kse.lock("demo") == ""
    refused = locks(root).acquire_lock("demo")
    assert refused.error == "Spec is already locked"
    assert refused.existing_lock is not None
    assert refused.existing_lock.machine_id == "far-1"
    assert locks(root).is_locked("demo")
    assert files(root) == [home]
    assert locks(root).release_lock("demo").error == "Lock owned by different machine"
    assert kse.unlock("demo") == ""
    assert locks(root).acquire_lock("demo").success


def test_ours_is_in_both_the_later_programs_first(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = LockFile.publish

    def publish(self: LockFile, spec: str, lock: object) -> bool:
        order.append(Path(self.specs_dir).parent.name)
        return real(self, spec, lock)  # type: ignore[arg-type]

    monkeypatch.setattr(LockFile, "publish", publish)
    assert locks(root).acquire_lock("demo").success
    assert order == [".sce", ".kiro"]
    one, other = (root / home / "specs/demo/.lock" for home in BOTH)
    assert one.read_bytes() == other.read_bytes()
    for home in BOTH:
        assert Kse(root, home, "far-1").lock("demo") == "Spec is already locked"
    assert [one.spec_name for one in locks(root).get_lock_status()] == ["demo"]
    assert locks(root).release_lock("demo").success
    assert files(root) == []


def test_if_the_second_is_taken_meanwhile_the_first_is_taken_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = LockFile.publish

    def publish(self: LockFile, spec: str, lock: object) -> bool:
        if ".kiro" in self.specs_dir:
            monkeypatch.setattr(LockFile, "publish", real)
            assert Kse(root, ".kiro", "far-1").lock("demo") == ""
        return real(self, spec, lock)  # type: ignore[arg-type]

    monkeypatch.setattr(LockFile, "publish", publish)
    refused = locks(root).acquire_lock("demo")
    assert refused.existing_lock is not None
    assert refused.existing_lock.machine_id == "far-1"
    assert files(root) == [".kiro"]


@pytest.mark.parametrize("missing", BOTH)
def test_one_alone_counts_as_held_and_its_holders_next_command_completes_it(
    root: Path, missing: str
) -> None:
    """As left by a process that was killed between the two, or by a kse that unlocks one."""
    (left,) = (home for home in BOTH if home != missing)
    mine, other = locks(root, "one"), locks(root, "two")
    assert mine.acquire_lock("demo").success
    (root / missing / "specs/demo/.lock").unlink()
    for some in (other, locks(root, id="far-1")):
        assert some.is_locked("demo")
        assert not some.acquire_lock("demo").success
        some.complete_locks()
        assert files(root) == [left], "it is not theirs to complete"
    mine.complete_locks()
    assert files(root) == list(BOTH)
    (root / missing / "specs/demo/.lock").unlink()
    assert mine.acquire_lock("demo").error == "Spec is already locked"
    assert files(root) == list(BOTH)
    (root / missing / "specs/demo/.lock").unlink()
    assert mine.release_lock("demo").success
    assert files(root) == []


def test_the_commands_complete_it(tmp_path: Path) -> None:
    repo: Repository = made_repository(tmp_path / "repo")
    (repo.root / ".sce/specs/demo").mkdir(parents=True)
    assert repo.hold("spec", "lock", "demo").code == 0
    for command in (("status",), ("lock", "demo"), ("cleanup",)):
        (repo.root / ".sce/specs/demo/.lock").unlink()
        repo.hold("spec", *command)
        assert (repo.root / ".sce/specs/demo/.lock").exists()
    assert repo.hold("spec", "unlock", "demo").code == 0
    assert not (repo.root / ".kiro/specs/demo/.lock").exists()


def test_a_lock_of_kse_is_not_put_into_the_other_folder(root: Path) -> None:
    """Its unlock would leave it there."""
    kse = Kse(root, ".sce", "pc-1")
    assert kse.lock("demo") == ""
    locks(root).complete_locks()
    assert not locks(root).acquire_lock("demo").success
    assert files(root) == [".sce"]


def test_a_lock_that_kse_took_beside_ours_is_left_to_it(root: Path) -> None:
    kse = Kse(root, ".sce", "pc-1")
    assert locks(root).acquire_lock("demo").success
    assert kse.unlock("demo") == kse.lock("demo") == ""
    assert locks(root).release_lock("demo").success
    assert files(root) == [".sce"]
    assert kse.unlock("demo") == ""
    assert files(root) == []


def test_a_clean_up_counts_a_spec_once(root: Path) -> None:
    for home in BOTH:
        foreign(root / home / "specs/demo/.lock", timestamp="2020-01-01T00:00:00.000Z")
    result = locks(root).cleanup_stale_locks()
    assert [one.spec_name for one in result.cleaned_locks] == ["demo"]
    assert files(root) == []


def test_force_takes_all_of_it_away(root: Path) -> None:
    for home in BOTH:
        assert Kse(root, home, f"far{home}").lock("demo") == ""
    assert locks(root).release_lock("demo", force=True).success
    assert files(root) == []


def test_the_gate_sees_a_lock_in_the_other_folder(root: Path) -> None:
    from holdfast import Holder
    from holdfast.gate.locked_specs import refusal

    assert Kse(root, ".kiro", "far-1").lock("demo") == ""
    for home in BOTH:
        answer = refusal(Holder(id="x"), [f"{root}/{home}/specs/demo/design.md"])
        assert answer is not None
        assert "far-1" in (answer.reason or "")
    assert SpecLocks(root, holder="x").in_the_way("demo") is not None


@pytest.mark.parametrize("homes", [(".kiro",), BOTH], ids="-".join)
def test_no_order_of_commands_wedges_either(tmp_path: Path, homes: tuple[str, ...]) -> None:
    dice = Random(22)
    for number in range(40):
        wander(made(tmp_path / str(number), *homes), homes, dice)


def test_ours_beside_kse_are_never_granted_twice(tmp_path: Path) -> None:
    counts = kse_fight(tmp_path / "workspace", 4, Random(1), specs=3)
    assert counts["kills"] > 0
    assert counts["ours"] > 0
    assert counts["theirs"] > 0
