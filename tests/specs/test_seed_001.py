"""Spec locks: the promises 001-P1 to 001-22, each property with at least a hundred examples."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers_cli import Repository
from helpers_processes import LINUX_ONLY, Crowd
from helpers_specs import foreign, made_repository, powerless
from holdfast.manager.clock import FakeClock
from holdfast.specs import (
    CleanedLock,
    CleanupResult,
    FailedLock,
    LockFile,
    LockMetadata,
    LockResult,
    LockStatus,
    MachineId,
    MachineIdentifier,
    MachineInfo,
    SpecLocks,
    UnlockResult,
    lockfile_codec,
    machine,
    staleness,
)
from holdfast.specs.spec_names import is_name

EXAMPLES = 100
#: Thousands of locks are acquired here, each synced to its disk: on a memory disk if there is one.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
HOUR = 3_600_000
SECOND = 1_000_000

#: The titles of the properties, by number.
TITLES = {
    1: "Lock Acquisition Creates Valid Lock File",
    2: "Lock Contention Rejection",
    3: "Reason Parameter Preservation",
    4: "Lock Release Removes Lock File",
    5: "Ownership Validation on Unlock",
    6: "Status Query Completeness",
    7: "Stale Lock Detection",
    8: "Stale Lock Cleanup",
    9: "Own Lock Identification",
    10: "Machine ID Persistence",
    11: "Machine ID Format",
    12: "Lock Metadata Round-Trip",
    13: "Corrupted Lock File Handling",
    14: "Default Values for Optional Fields",
    15: "Unlocked Spec Detection",
}


#: The tests of the properties by number.
PROPERTIES: dict[int, Any] = {}


def tagged(number: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A property by its number: enough examples, and its tag."""

    def tag(test: Callable[..., None]) -> Callable[..., None]:
        test.tag = f"Feature: spec-locking-mechanism, Property {number}: {TITLES[number]}"  # type: ignore[attr-defined]
        PROPERTIES[number] = made = settings(max_examples=EXAMPLES)(test)
        return made

    return tag


# Strategies

names = st.text(min_size=1, max_size=30).filter(is_name)
#: All characters, and often blanks and lone surrogates, which `text` rarely chooses; never both
#: halves, since they would form a pair.
anything = st.one_of(
    st.text(max_size=60),
    st.lists(st.characters(codec="utf-8") | st.sampled_from(" \n\ud800"), max_size=8).map("".join),
    st.lists(st.characters(codec="utf-8") | st.sampled_from(" \n\udfff"), max_size=8).map("".join),
)
hours = st.one_of(
    st.integers(1, 10_000),
    st.floats(1e-9, 1e9, allow_nan=False),
    st.sampled_from([1e-7, 0.000001, 0.1, 1.5, 24.0, 1e16, 1e21, 1.5e22]),
)
owners = anything.filter(bool)
two_machines = st.lists(owners, min_size=2, max_size=2, unique=True)
hosts = st.text(st.characters(codec="utf-8"), max_size=40)
stamps = st.integers(0, 4_000_000_000_000).map(staleness.written)
metadata = st.builds(
    LockMetadata,
    owner=owners,
    machine_id=owners,
    hostname=anything,
    timestamp=st.one_of(stamps, anything),
    reason=st.none() | anything,
    timeout=hours,
    version=anything,
)


class Machine:
    """A machine by its name, without a file."""

    def __init__(self, id: str) -> None:
        self.id = id

    def get_machine_id(self) -> MachineId:
        return MachineId(id=self.id, hostname=f"host of {self.id}", created_at="")


class Workspace:
    """A folder with specs, and a clock that stops until it is moved."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = FakeClock()
        (root / ".kiro/specs").mkdir(parents=True)
        (root / ".git").mkdir()

    def spec(self, name: str) -> Path:
        folder = self.root / ".kiro/specs" / name
        folder.mkdir(exist_ok=True)
        return folder

    def file(self, name: str) -> Path:
        return self.spec(name) / ".lock"

    def locks(self, machine: Any = None, **more: Any) -> SpecLocks:
        more.setdefault("owner", "ann")
        more.setdefault("holder", "agent")
        more.setdefault("settle_seconds", 0)
        return SpecLocks(self.root, machine or Machine("A"), clock=self.clock, **more)

    def now(self) -> int:
        return self.clock.read().wall // 1000

    def settle(self, name: str) -> None:
        """Make the file look as if no process has written to it for a while."""
        os.utime(self.file(name), (0, 0))


@contextmanager
def made_workspace() -> Iterator[Workspace]:
    with tempfile.TemporaryDirectory(prefix="specs-", dir=MEMORY) as folder:
        yield Workspace(Path(os.path.realpath(folder)))


@pytest.fixture
def ws() -> Iterator[Workspace]:
    with made_workspace() as made:
        yield made


# The fifteen properties


@tagged(1)
@given(names, st.none() | anything, hours, owners)
def test_seed001_p1_locking_makes_a_valid_lock_file(
    name: str, reason: str | None, timeout: float, owner: str
) -> None:
    with made_workspace() as ws:
        ws.spec(name)
        result = ws.locks(owner=owner).acquire_lock(name, reason=reason, timeout=timeout)
        assert result.success
        file = ws.root / ".kiro/specs" / name / ".lock"
        found = json.loads(file.read_bytes())
        assert list(found) == [
            "owner", "machineId", "hostname", "timestamp", "reason", "timeout", "version",
        ]  # fmt: skip
        assert found["owner"] == owner
        assert found["machineId"] == "A"
        assert found["hostname"] == "host of A"
        assert found["timestamp"] == staleness.written(ws.now())
        assert (found["reason"], found["timeout"], found["version"]) == (reason, timeout, "1.0.0")
        assert LockFile(file.parent.parent).read(name) == result.lock


@tagged(2)
@given(names, two_machines)
def test_seed001_p2_another_machine_is_refused_with_the_existing_lock(
    name: str, machines: list[str]
) -> None:
    one, other = machines
    with made_workspace() as ws:
        ws.spec(name)
        first = ws.locks(Machine(one)).acquire_lock(name, reason="mine")
        before = ws.file(name).read_bytes()
        second = ws.locks(Machine(other)).acquire_lock(name, reason="mine now")
        assert (second.success, second.error) == (False, "Spec is already locked")
        assert second.existing_lock == first.lock
        assert second.lock is None
        assert ws.file(name).read_bytes() == before


def test_seed001_p2_a_lock_created_after_the_check_refuses_too(
    ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, real = ws.file("demo"), LockFile.publish

    def publish(self: LockFile, spec_name: str, metadata: LockMetadata) -> bool:
        monkeypatch.setattr(LockFile, "publish", real)
        foreign(file)
        return real(self, spec_name, metadata)

    monkeypatch.setattr(LockFile, "publish", publish)
    refused = ws.locks().acquire_lock("demo")
    assert refused.error == "Spec is already locked"
    assert refused.existing_lock is not None
    assert refused.existing_lock.owner == "bob"
    assert json.loads(file.read_bytes())["owner"] == "bob"


@tagged(3)
@given(names, anything)
def test_seed001_p3_the_reason_is_kept_exactly(name: str, reason: str) -> None:
    with made_workspace() as ws:
        ws.spec(name)
        result = ws.locks().acquire_lock(name, reason=reason)
        assert result.lock is not None
        assert result.lock.reason == reason
        status = ws.locks().get_lock_status(name)
        assert status.lock is not None
        assert status.lock.reason == reason


@tagged(4)
@given(names)
def test_seed001_p4_the_owner_releases_and_the_file_is_gone(name: str) -> None:
    with made_workspace() as ws:
        ws.spec(name)
        taken = ws.locks().acquire_lock(name)
        result = ws.locks().release_lock(name)
        assert result.success
        assert result.previous_lock == taken.lock
        assert os.listdir(ws.spec(name)) == []
        assert not ws.locks().is_locked(name)
        assert ws.locks().get_lock_status(name) == LockStatus(name, False)


def test_seed001_p4_the_machine_owns_a_lock_and_its_holders_are_told_apart(ws: Workspace) -> None:
    """A lock without a note belongs to the machine, and any holder on it may release it. A lock
    with a note is released only by its holder, which a separate field shows."""
    ws.spec("demo")
    taken = ws.locks(holder="one").acquire_lock("demo")
    assert taken.lock is not None
    for holder, is_held in (("one", True), ("two", False)):
        status = ws.locks(holder=holder).get_lock_status("demo")
        assert (status.is_owned_by_me, status.is_held_by_me) == (True, is_held)
        assert status.to_dict()["isHeldByMe"] is is_held
    refused = ws.locks(holder="two").release_lock("demo")
    assert refused.error == "Lock held by another holder on this machine"
    assert ws.locks(holder="one").release_lock("demo").success
    assert not ws.file("demo").exists()
    LockFile(ws.root / ".kiro/specs").write("demo", taken.lock)
    assert ws.locks(holder="two").get_lock_status("demo").is_held_by_me is True
    assert ws.locks(holder="two").release_lock("demo").success
    assert not ws.file("demo").exists()
    far = ws.locks(Machine("B")).acquire_lock("demo")
    assert far.success
    status = ws.locks(holder="one").get_lock_status("demo")
    assert (status.is_owned_by_me, status.is_held_by_me) == (False, False)


@tagged(5)
@given(names, two_machines)
def test_seed001_p5_another_machine_releases_only_with_force(
    name: str, machines: list[str]
) -> None:
    one, other = machines
    with made_workspace() as ws:
        ws.spec(name)
        taken = ws.locks(Machine(one)).acquire_lock(name)
        refused = ws.locks(Machine(other)).release_lock(name)
        assert (refused.success, refused.error) == (False, "Lock owned by different machine")
        assert ws.locks(Machine(one)).is_locked_by_me(name)
        forced = ws.locks(Machine(other)).release_lock(name, force=True)
        assert (forced.success, forced.forced, forced.previous_lock) == (True, True, taken.lock)
        assert not ws.file(name).exists()


@tagged(6)
@given(st.dictionaries(names, st.sampled_from("AB"), max_size=5), st.integers(0, 40))
def test_seed001_p6_a_status_shows_everything_about_all_locked_specs(
    locked: dict[str, str], later: int
) -> None:
    with made_workspace() as ws:
        ws.spec("free")
        locked.pop("free", None)
        taken = {}
        for name, who in locked.items():
            ws.spec(name)
            taken[name] = ws.locks(Machine(who)).acquire_lock(name, timeout=24).lock
        ws.clock.advance(later * 3600)
        found = ws.locks(Machine("A")).get_lock_status()
        assert {one.spec_name: one.lock for one in found} == taken
        for one in found:
            assert one.locked
            assert one.is_stale == (later > 24)
            assert one.is_owned_by_me == (locked[one.spec_name] == "A")
            assert one.duration
            told = one.to_dict()
            assert {"specName", "locked", "lock", "isStale", "isOwnedByMe", "duration"} <= set(told)


@tagged(7)
@given(hours, st.integers(-(10**13), 10**13))
def test_seed001_p7_a_lock_is_stale_exactly_when_it_is_older_than_its_timeout(
    timeout: float, age: int
) -> None:
    now = 10**13
    lock = LockMetadata(
        owner="ann", machine_id="A", hostname="", timestamp=staleness.written(now - age),
        timeout=timeout,
    )  # fmt: skip
    is_stale = age > timeout * HOUR
    assert staleness.is_stale(lock, now) == is_stale
    with made_workspace() as ws:
        ws.spec("demo")
        LockFile(ws.root / ".kiro/specs").write("demo", lock)
        ws.clock = FakeClock(now * 1000)
        assert ws.locks().get_lock_status("demo").is_stale == is_stale


def test_seed001_p7_at_the_very_moment_of_its_timeout_it_is_still_within_it() -> None:
    lock = LockMetadata(
        owner="ann", machine_id="A", hostname="", timestamp=staleness.written(0), timeout=24
    )
    assert not staleness.is_stale(lock, 24 * HOUR)
    assert staleness.is_stale(lock, 24 * HOUR + 1)


@tagged(8)
@given(st.dictionaries(names, st.tuples(st.integers(1, 50), st.booleans()), max_size=6))
def test_seed001_p8_a_clean_up_removes_the_stale_locks_and_no_others(
    locked: dict[str, tuple[int, bool]],
) -> None:
    with made_workspace() as ws:
        taken = {}
        for name, (timeout, is_mine) in locked.items():
            ws.spec(name)
            locks = ws.locks(Machine("A" if is_mine else "B"))
            taken[name] = locks.acquire_lock(name, timeout=timeout).lock
        ws.clock.advance(25 * 3600)
        stale = {name for name, (timeout, _is_mine) in locked.items() if timeout < 25}
        result = ws.locks().cleanup_stale_locks()
        assert result.cleaned == len(stale)
        assert {one.spec_name: one.lock for one in result.cleaned_locks} == {
            name: taken[name] for name in stale
        }
        assert result.errors == ()
        left = {one.spec_name for one in ws.locks().get_lock_status()}
        assert left == set(locked) - stale
        for name in stale:
            assert os.listdir(ws.spec(name)) == []


@tagged(9)
@given(metadata, owners)
def test_seed001_p9_a_lock_is_mine_exactly_when_the_machine_matches(
    lock: LockMetadata, mine: str
) -> None:
    with made_workspace() as ws:
        ws.spec("demo")
        LockFile(ws.root / ".kiro/specs").write("demo", lock)
        for id in (mine, lock.machine_id):
            for of_that_id in (Machine(id), _kept(ws.root, id, lock.hostname)):
                locks = ws.locks(of_that_id)
                assert locks.is_locked_by_me("demo") == (id == lock.machine_id)
                assert locks.get_lock_status("demo").is_owned_by_me == (id == lock.machine_id)


def _kept(folder: Path, id: str, host: str) -> MachineIdentifier:
    """A machine with an old id."""
    kept = MachineId(id=id, hostname=host, created_at="then")
    (folder / "machine-id.json").write_bytes(lockfile_codec.machine_bytes(kept))
    return MachineIdentifier(folder)


@tagged(10)
@given(hosts, st.lists(st.integers(0, 10_000), min_size=1, max_size=4))
def test_seed001_p10_the_machine_id_is_the_same_for_ever(host: str, hours: list[int]) -> None:
    clock = FakeClock()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "host_name", lambda: host)
        first = MachineIdentifier(folder, clock=clock)
        ids = [first.get_machine_id(), first.get_machine_id()]
        for since in hours:
            clock.advance(since * 3600)
            ids += [MachineIdentifier(folder, clock=clock).get_machine_id()]
        ids += [first.get_machine_id()]
        assert all(id == ids[0] for id in ids)
        assert json.loads(Path(folder, "machine-id.json").read_text()) == ids[0].to_dict()


@tagged(11)
@given(hosts)
def test_seed001_p11_a_machine_id_is_the_host_name_and_a_uuid(host: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "host_name", lambda: host)
        made = [MachineIdentifier("/nowhere").generate_machine_id() for _ in range(3)]
    for one in made:
        assert one.id.startswith(f"{host}-")
        assert UUID(one.id[len(host) + 1 :]).version == 4
        assert one.hostname == host
    assert len({one.id for one in made}) == 3


@tagged(12)
@given(metadata)
def test_seed001_p12_what_is_written_is_read_back_the_same(lock: LockMetadata) -> None:
    data = lockfile_codec.lock_bytes(lock)
    assert lockfile_codec.lock_of(data) == lock
    # and any other reader of JSON reads the same
    assert json.loads(data) == {"reason": None, **lock.to_dict()}


#: Each of them lacks something that a lock must have, so none is a lock.
broken = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=100).map(str.encode),
    metadata.flatmap(
        lambda lock: st.integers(0, len(lockfile_codec.lock_bytes(lock)) - 1).map(
            lambda cut: lockfile_codec.lock_bytes(lock)[:cut]
        )
    ),
    st.tuples(metadata, st.sampled_from(["owner", "machineId", "hostname", "timestamp", "timeout"]))
    .map(lambda both: json.dumps({k: v for k, v in both[0].to_dict().items() if k != both[1]}))
    .map(str.encode),
    st.sampled_from([b"", b"null", b"[]", b"{}", b"42", b'"text"', b"[" * 20_000]),
)


@tagged(13)
@given(broken)
def test_seed001_p13_a_corrupt_file_is_not_a_lock_and_a_new_one_can_be_acquired(
    data: bytes,
) -> None:
    with made_workspace() as ws:
        ws.file("demo").write_bytes(data)
        ws.settle("demo")
        locks = ws.locks()
        assert locks.files.read("demo") is None
        assert not locks.is_locked("demo")
        assert locks.get_lock_status() == []
        result = locks.acquire_lock("demo")
        assert result.success
        assert locks.is_locked_by_me("demo")
        [kept] = ws.spec("demo").glob(".lock.damaged-*")
        assert kept.read_bytes() == data


@tagged(14)
@given(metadata, st.sets(st.sampled_from(["reason", "version"]), min_size=1))
def test_seed001_p14_optional_fields_that_are_missing_get_their_defaults(
    lock: LockMetadata, missing: set[str]
) -> None:
    fields = {name: value for name, value in lock.to_dict().items() if name not in missing}
    found = lockfile_codec.lock_of(json.dumps(fields).encode())
    assert found is not None
    assert found.reason == (None if "reason" in missing else lock.reason)
    assert found.version == ("1.0.0" if "version" in missing else lock.version)
    for name in ("owner", "machine_id", "hostname", "timestamp", "timeout"):
        assert getattr(found, name) == getattr(lock, name)


@tagged(15)
@given(names)
def test_seed001_p15_without_a_file_a_spec_is_not_locked(name: str) -> None:
    with made_workspace() as ws:
        ws.spec(name)
        locks = ws.locks()
        assert not locks.is_locked(name)
        assert not locks.is_locked_by_me(name)
        assert locks.get_lock_status(name).to_dict() == {"specName": name, "locked": False}
        assert locks.get_lock_status() == []


# The interfaces, the commands, the shapes


def test_seed001_16_the_three_interfaces_have_their_methods() -> None:
    for kind, methods in {
        SpecLocks: ("acquire_lock", "release_lock", "get_lock_status", "cleanup_stale_locks",
                    "is_locked", "is_locked_by_me"),
        MachineIdentifier: ("get_machine_id", "generate_machine_id", "get_machine_info"),
        LockFile: ("read", "write", "delete", "exists", "list_locked_specs"),
    }.items():  # fmt: skip
        for method in methods:
            assert inspect.getdoc(getattr(kind, method)), method
    assert list(inspect.signature(SpecLocks).parameters)[:2] == ["workspace_root", "machine"]
    assert next(iter(inspect.signature(MachineIdentifier).parameters)) == "config_dir"
    assert list(inspect.signature(LockFile).parameters) == ["specs_dir"]


def test_seed001_16_a_lock_file_is_written_read_listed_and_deleted(ws: Workspace) -> None:
    files = LockFile(ws.root / ".kiro/specs")
    for name in ("b", "a", "free"):
        ws.spec(name)
    lock = LockMetadata(owner="ann", machine_id="A", hostname="h", timestamp="2024-01-01T00:00:00Z")
    for name in ("b", "a"):
        assert not files.exists(name)
        files.write(name, lock)
        assert files.exists(name)
        assert files.read(name) == lock
    assert files.list_locked_specs() == ["a", "b"]
    assert files.delete("a") is True
    assert files.delete("a") is False
    assert files.read("a") is None
    assert files.list_locked_specs() == ["b"]


def test_seed001_16_a_second_write_replaces_the_first(ws: Workspace) -> None:
    files = LockFile(ws.root / ".kiro/specs")
    ws.spec("demo")
    for reason in ("one", "two"):
        made = LockMetadata(owner="a", machine_id="A", hostname="", timestamp="", reason=reason)
        files.write("demo", made)
    found = files.read("demo")
    assert found is not None
    assert found.reason == "two"


def test_seed001_17_the_timeout_is_24_hours_unless_one_is_given(ws: Workspace) -> None:
    ws.spec("demo")
    result = ws.locks().acquire_lock("demo")
    assert result.lock is not None
    assert result.lock.timeout == 24
    assert b'"timeout": 24,' in ws.file("demo").read_bytes()


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return made_repository(tmp_path / "repo")


def test_seed001_17_the_five_commands(repo: Repository) -> None:
    taken = repo.hold("spec", "lock", "demo", "--reason", "why", "--timeout", "2.5", "--json").json
    assert (taken["success"], taken["lock"]["reason"], taken["lock"]["timeout"]) == (
        True, "why", 2.5,
    )  # fmt: skip
    assert repo.hold("spec", "lock", "demo").code == 3
    assert [one["specName"] for one in repo.hold("spec", "status", "--json").json["specs"]] == [
        "demo"
    ]
    assert repo.hold("spec", "status", "demo", "--json").json["isOwnedByMe"] is True
    assert repo.hold("spec", "status", "other", "--json").json["locked"] is False
    assert repo.hold("spec", "cleanup", "--json").json == {
        "cleaned": 0, "cleanedLocks": [], "errors": [],
    }  # fmt: skip
    me = repo.hold("spec", "whoami", "--json").json
    assert me["id"] == taken["lock"]["machineId"]
    assert me["hostname"] == taken["lock"]["hostname"]
    assert repo.hold("spec", "unlock", "demo", "--json").json["success"] is True
    again = repo.hold("spec", "lock", "demo", "--json").json["lock"]
    assert (again["timeout"], "reason" in again) == (24, False)
    assert repo.hold("spec", "unlock", "demo", "--force", "--json").json["forced"] is True
    foreign(repo.root / ".kiro/specs/demo/.lock", timestamp="2020-01-01T00:00:00.000Z")
    cleaned = repo.hold("spec", "cleanup", "--json").json
    assert [one["specName"] for one in cleaned["cleanedLocks"]] == ["demo"]
    assert repo.hold("spec", "status", "--json").json["specs"] == []


def test_seed001_18_the_shapes_have_their_fields() -> None:
    lock = LockMetadata(owner="o", machine_id="m", hostname="h", timestamp="t", reason="r")
    told = {
        "owner": "o", "machineId": "m", "hostname": "h", "timestamp": "t", "reason": "r",
        "timeout": 24, "version": "1.0.0",
    }  # fmt: skip
    assert lock.to_dict() == told
    assert MachineId(id="i", hostname="h", created_at="c").to_dict() == {
        "id": "i", "hostname": "h", "createdAt": "c",
    }  # fmt: skip
    assert LockResult(True, lock=lock).to_dict() == {"success": True, "lock": told}
    assert LockResult(False, error="e", existing_lock=lock).to_dict() == {
        "success": False, "error": "e", "existingLock": told,
    }  # fmt: skip
    assert UnlockResult(True, forced=True, previous_lock=lock).to_dict() == {
        "success": True, "forced": True, "previousLock": told,
    }  # fmt: skip
    status = LockStatus(
        "s", True, lock=lock, is_stale=False, is_owned_by_me=True, duration="3 h"
    )  # fmt: skip
    assert status.to_dict() == {
        "specName": "s", "locked": True, "lock": told, "isStale": False, "isOwnedByMe": True,
        "duration": "3 h",
    }  # fmt: skip
    cleaned = CleanupResult([CleanedLock("s", lock)], [FailedLock("x", "e")])
    assert cleaned.to_dict() == {
        "cleaned": 1, "cleanedLocks": [{"specName": "s", "lock": told}],
        "errors": [{"specName": "x", "error": "e"}],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0 s"), (90, "90 s"), (3 * 3600 + 1200, "3 h 20 min")]
)
def test_seed001_18_the_duration_is_for_people(ws: Workspace, seconds: int, told: str) -> None:
    ws.spec("demo")
    ws.locks().acquire_lock("demo")
    ws.clock.advance(seconds)
    assert ws.locks().get_lock_status("demo").duration == told


def test_seed001_18_the_machine_info_is_for_people(tmp_path: Path) -> None:
    identifier = MachineIdentifier(tmp_path)
    info = identifier.get_machine_info()
    assert isinstance(info, MachineInfo)
    assert info.id == identifier.get_machine_id().id
    assert (info.hostname, info.platform) == (os.uname().nodename, sys.platform)


# The errors


def test_seed001_19_already_locked_even_for_the_machine_that_holds_it(ws: Workspace) -> None:
    ws.spec("demo")
    taken = ws.locks().acquire_lock("demo")
    again = ws.locks().acquire_lock("demo")
    assert again == LockResult(False, error="Spec is already locked", existing_lock=taken.lock)


def test_seed001_19_a_missing_spec_is_not_found(ws: Workspace) -> None:
    assert ws.locks().acquire_lock("none") == LockResult(False, error="Spec not found")
    (ws.root / ".kiro/specs/file").write_text("")
    assert ws.locks().acquire_lock("file") == LockResult(False, error="Spec not found")
    assert not (ws.root / ".kiro/specs/none").exists()


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "...", "../demo", "demo/..", "a/b", "/demo", "a\\b", "demo\0", "\0", ".hidden",
     " ", "\n", "a\nb", "x" * 256, "ü" * 128, "\udc00\ud800"],
)  # fmt: skip
def test_seed001_19_a_name_that_leads_elsewhere_is_invalid(ws: Workspace, name: str) -> None:
    ws.spec("demo")
    before = sorted(ws.root.rglob("*"))
    locks = ws.locks()
    assert locks.acquire_lock(name) == LockResult(False, error="Invalid spec name")
    assert locks.release_lock(name) == UnlockResult(False, error="Invalid spec name")
    assert locks.release_lock(name, force=True).error == "Invalid spec name"
    assert not locks.is_locked(name)
    assert sorted(ws.root.rglob("*")) == before


#: Runs as a user for whom modes count: locks and releases without permission.
WITHOUT_POWER = """
from holdfast.specs import SpecLocks
locks = SpecLocks(sys.argv[1], holder="agent", owner="ann")
for name in sys.argv[2:]:
    say("lock", name, locks.acquire_lock(name).error)
    say("unlock", name, locks.release_lock(name).error)
    say("status", name, locks.get_lock_status(name).error)
    say("locked", name, locks.is_locked(name))
say("cleanup", [one.to_dict() for one in locks.cleanup_stale_locks().errors])
"""


@LINUX_ONLY
def test_seed001_19_a_folder_that_may_not_be_written_is_permission_denied(
    ws: Workspace, tmp_path: Path
) -> None:
    MachineIdentifier(ws.root / ".kiro/config").get_machine_id()
    folder = ws.spec("closed")
    folder.chmod(0o555)
    try:
        with Crowd(tmp_path) as crowd:
            child = crowd.start(WITHOUT_POWER, ws.root, "closed", prefix=powerless()).done()
    finally:
        folder.chmod(0o755)
    assert child.words("lock closed") == [["Permission", "denied"]]
    assert child.words("locked closed") == [["False"]]
    assert os.listdir(folder) == []


@LINUX_ONLY
def test_seed001_21_a_file_that_may_not_be_read_is_an_unknown_state(
    ws: Workspace, tmp_path: Path
) -> None:
    MachineIdentifier(ws.root / ".kiro/config").get_machine_id()
    file = ws.file("secret")
    file.write_text("")
    file.chmod(0)
    with Crowd(tmp_path) as crowd:
        child = crowd.start(WITHOUT_POWER, ws.root, "secret", prefix=powerless()).done()
    assert child.words("lock secret") == [["Permission", "denied"]]
    assert " ".join(child.words("unlock secret")[0]) == "Failed to remove lock file"
    assert child.words("status secret") == [["Permission", "denied"]]
    assert child.words("locked secret") == [["True"]]
    assert "Permission denied" in " ".join(child.words("cleanup")[0])
    assert file.exists()


@LINUX_ONLY
def test_seed001_21_the_command_warns_of_an_unknown_state(repo: Repository) -> None:
    file = repo.root / ".kiro/specs/demo/.lock"
    file.write_text("")
    file.chmod(0)
    done = subprocess.run(
        [*powerless(), sys.executable, "-m", "holdfast", "spec", "status"], cwd=repo.root,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "cannot be read" in done.stdout
    assert "Permission denied" in done.stderr


def test_seed001_20_releasing_an_unlocked_spec_is_not_an_error(ws: Workspace) -> None:
    ws.spec("demo")
    for name in ("demo", "none"):
        result = ws.locks().release_lock(name)
        assert result == UnlockResult(True, message="Spec is not locked")


@LINUX_ONLY
def test_seed001_20_a_file_that_cannot_be_removed_is_an_error_and_stays(
    ws: Workspace, tmp_path: Path
) -> None:
    MachineIdentifier(ws.root / ".kiro/config").get_machine_id()
    folder = ws.spec("kept")
    assert SpecLocks(ws.root, holder="agent", owner="ann").acquire_lock("kept").success
    folder.chmod(0o555)
    try:
        with Crowd(tmp_path) as crowd:
            child = crowd.start(WITHOUT_POWER, ws.root, "kept", prefix=powerless()).done()
    finally:
        folder.chmod(0o755)
    assert " ".join(child.words("unlock kept")[0]) == "Failed to remove lock file"
    assert (folder / ".lock").exists()


def test_seed001_20_the_texts_of_the_errors_reach_the_command_line(repo: Repository) -> None:
    other = json.dumps({
        "owner": "bob", "machineId": "elsewhere", "hostname": "far", "timestamp": "x", "timeout": 1,
    })  # fmt: skip
    (repo.root / ".kiro/specs/demo/.lock").write_text(other)
    for words, code, text in [
        (("lock", "demo"), 3, "Spec is already locked"),
        (("lock", "none"), 2, "Spec not found"),
        (("lock", "../x"), 2, "Invalid spec name"),
        (("unlock", "demo"), 4, "Lock owned by different machine"),
        (("unlock", ".."), 2, "Invalid spec name"),
    ]:
        answer = repo.hold("spec", *words)
        assert (answer.code, answer.out) == (code, "")
        assert answer.err.startswith(f"holdfast: {text}: ")
        told = repo.hold("spec", *words, "--json").error
        assert told["message"].startswith(text)
        assert told["hint"]
        if words[1] == "demo":
            assert told["existingLock"]["machineId"] == "elsewhere"


@pytest.mark.parametrize("number", TITLES)
def test_seed001_22_every_property_is_tagged_and_tried_a_hundred_times(number: int) -> None:
    test = PROPERTIES[number]
    assert test.__name__.startswith(f"test_seed001_p{number}_")
    assert test.tag == f"Feature: spec-locking-mechanism, Property {number}: {TITLES[number]}"
    assert _examples_of(test) >= 100


def _examples_of(test: Any) -> int:
    """How often a property is really tried: less often if it has fewer examples."""
    tried = 0

    def count(*_: object, **__: object) -> None:
        nonlocal tried
        tried += 1

    body, test.hypothesis.inner_test = test.hypothesis.inner_test, count
    try:
        test()
    finally:
        test.hypothesis.inner_test = body
    return tried
