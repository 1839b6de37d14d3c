"""Lock files of specs: their bytes, and whatever else may be in their place."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import Repository
from helpers_specs import Fixed, foreign, locks, made_repository, made_workspace
from holdfast.core.errors import InvalidInput
from holdfast.manager.clock import FakeClock
from holdfast.specs import (
    LockMetadata,
    MachineIdentifier,
    SpecLocks,
    errors,
    lockfile_codec,
    spec_files,
    staleness,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made_workspace(tmp_path / "workspace")


@pytest.fixture
def demo(root: Path) -> Path:
    return root / ".kiro/specs/demo"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return made_repository(tmp_path / "repo")


# The bytes


GOLDEN = """{
  "owner": "Änne \\"A\\" O\\\\N",
  "machineId": "pc-1",
  "hostname": "pc",
  "timestamp": "2023-11-14T22:13:20.123Z",
  "reason": "tab\\there\\u0001\u2028 \U0001f980",
  "timeout": 0.5,
  "version": "1.0.0"
}"""


def test_the_file_is_byte_for_byte_what_the_other_program_writes(root: Path, demo: Path) -> None:
    clock = FakeClock(1_700_000_000_123_456)
    mine = SpecLocks(root, Fixed(), holder="x", owner='Änne "A" O\\N', clock=clock)
    reason = "tab\there\x01\u2028 \U0001f980"
    assert mine.acquire_lock("demo", reason=reason, timeout=0.5).success
    assert (demo / ".lock").read_bytes() == GOLDEN.encode()
    assert stat.S_IMODE((demo / ".lock").stat().st_mode) == 0o644


def test_without_a_reason_the_file_says_null(root: Path, demo: Path) -> None:
    locks(root).acquire_lock("demo", timeout=24.0)
    text = (demo / ".lock").read_text()
    assert '\n  "reason": null,\n  "timeout": 24,\n' in text
    assert text.endswith('"version": "1.0.0"\n}')


@pytest.mark.parametrize(
    ("value", "text"),
    [(24, "24"), (24.0, "24"), (0.5, "0.5"), (1e16, "10000000000000000"), (1e21, "1e+21"),
     (1.5e22, "1.5e+22"), (1e-7, "1e-7"), (1.25e-9, "1.25e-9"), (0.000001, "0.000001"),
     (0.0000125, "0.0000125"), (0.1, "0.1"), (float("inf"), "null")],
)  # fmt: skip
def test_numbers_are_spelled_as_the_other_program_spells_them(value: float, text: str) -> None:
    assert lockfile_codec.number(value) == text


def test_the_machines_file_is_spelled_like_that_too(tmp_path: Path) -> None:
    id = MachineIdentifier(tmp_path / "made/config").get_machine_id()
    assert (tmp_path / "made/config/machine-id.json").read_text() == (
        f'{{\n  "id": "{id.id}",\n  "hostname": "{id.hostname}",\n'
        f'  "createdAt": "{id.created_at}"\n}}'
    )


# Valid and invalid content


def read(root: Path, demo: Path, data: bytes) -> LockMetadata | None:
    (demo / ".lock").write_bytes(data)
    return locks(root).files.read("demo")


def test_a_byte_order_mark_and_blanks_around_it_do_not_matter(root: Path, demo: Path) -> None:
    plain = foreign(demo / ".lock")
    expected = locks(root).files.read("demo")
    assert expected is not None
    for data in (b"\xef\xbb\xbf" + plain, plain + b"\n", b" \r\n\t" + plain + b"\n\n"):
        assert read(root, demo, data) == expected


def test_invalid_utf8_is_read_as_the_other_program_reads_it(root: Path, demo: Path) -> None:
    data = foreign(demo / ".lock", reason="X").replace(b'"X"', b'"\xff"')
    found = read(root, demo, data)
    assert found is not None
    assert found.reason == "\ufffd"


@pytest.mark.parametrize(
    "fields",
    [{"owner": ""}, {"owner": 1}, {"machineId": ""}, {"machineId": None}, {"hostname": 1},
     {"timestamp": 0}, {"timeout": "24"}, {"timeout": None}, {"timeout": True},
     {"timeout": float("nan")}, {"timeout": []}],
)  # fmt: skip
def test_a_field_of_the_wrong_kind_makes_it_no_lock(
    root: Path, demo: Path, fields: dict[str, Any]
) -> None:
    foreign(demo / ".lock", **fields)
    assert locks(root).files.read("demo") is None


@pytest.mark.parametrize(
    "fields",
    [{"hostname": ""}, {"timestamp": ""}, {"timeout": 0}, {"timeout": -1}, {"timeout": 1e300},
     {"reason": 1}, {"version": 2}, {"more": {"deep": [1]}}, {"timeout": 10**400}],
)  # fmt: skip
def test_an_odd_but_complete_file_is_a_lock(root: Path, demo: Path, fields: dict[str, Any]) -> None:
    foreign(demo / ".lock", **fields)
    assert locks(root).is_locked("demo")
    assert locks(root).get_lock_status("demo").duration
    assert locks(root).acquire_lock("demo").error == errors.ALREADY_LOCKED


def test_json_nested_too_deeply_is_damaged(root: Path, demo: Path) -> None:
    data = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    assert read(root, demo, data) is None


def test_a_reason_of_a_mebibyte_is_kept(root: Path) -> None:
    reason = "ü\n" * (1 << 19)
    assert locks(root).acquire_lock("demo", reason=reason).success
    status = locks(root).get_lock_status("demo")
    assert status.lock is not None
    assert status.lock.reason == reason


def test_a_file_that_is_too_long_to_be_a_lock_is_damaged(root: Path, demo: Path) -> None:
    with (demo / ".lock").open("wb") as file:
        file.truncate(spec_files.BYTES_MAX + 1)
    assert locks(root).files.read("demo") is None
    assert locks(root).acquire_lock("demo").success


@pytest.mark.parametrize("reason", ["x" * ((16 << 20) // 8 + 1), 7])
def test_an_invalid_reason_is_an_error(root: Path, demo: Path, reason: Any) -> None:
    with pytest.raises(errors.SpecReasonError):
        locks(root).acquire_lock("demo", reason=reason)
    assert os.listdir(demo) == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "24", True, None])
def test_an_invalid_timeout_is_an_error(root: Path, demo: Path, timeout: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        locks(root).acquire_lock("demo", timeout=timeout)
    assert caught.value.code == "E_SPEC_TIMEOUT"
    assert caught.value.hint
    assert os.listdir(demo) == []


@pytest.mark.parametrize("text", ["0", "-1", "nan", "1e3", "", "1.", "٣", "24h"])
def test_the_command_takes_hours_and_nothing_else(repo: Repository, text: str) -> None:
    assert repo.hold("spec", "lock", "demo", f"--timeout={text}").code == 2


# Links, pipes and folders in its place


@pytest.mark.parametrize("kind", ["link", "dangling", "loop", "pipe", "folder"])
def test_something_else_in_its_place_is_kept_aside(
    root: Path, demo: Path, tmp_path: Path, kind: str
) -> None:
    file = demo / ".lock"
    (tmp_path / "elsewhere").write_bytes(foreign(tmp_path / "lock"))
    make: dict[str, Callable[[], None]] = {
        "link": lambda: file.symlink_to(tmp_path / "elsewhere"),
        "dangling": lambda: file.symlink_to(tmp_path / "nowhere"),
        "loop": lambda: file.symlink_to(file),
        "pipe": lambda: os.mkfifo(file),
        "folder": file.mkdir,
    }
    make[kind]()
    assert not locks(root).is_locked("demo")
    assert locks(root).acquire_lock("demo").success
    assert file.is_file()
    assert not file.is_symlink()
    assert len(list(demo.glob(".lock.damaged-*"))) == 1
    assert (tmp_path / "elsewhere").exists()
    assert not (tmp_path / "nowhere").exists()


def test_a_link_is_not_a_spec(root: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (root / ".kiro/specs/far").symlink_to(tmp_path / "far")
    assert locks(root).acquire_lock("far").error == errors.NOT_FOUND
    foreign(tmp_path / "far/.lock")
    assert locks(root).get_lock_status() == []
    assert locks(root).release_lock("far", force=True).message == errors.NOT_LOCKED
    assert (tmp_path / "far/.lock").exists()


def test_a_home_that_is_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real/specs/demo").mkdir(parents=True)
    root = tmp_path / "workspace"
    root.mkdir()
    (root / ".kiro").symlink_to(tmp_path / "real")
    assert locks(root).acquire_lock("demo").success
    assert (tmp_path / "real/specs/demo/.lock").exists()
    assert locks(root).get_lock_status("demo").holder == "agent"


def test_where_nothing_can_be_linked_the_file_is_made_by_its_name(
    root: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert locks(root).acquire_lock("demo").success
    assert locks(root).acquire_lock("demo").error == errors.ALREADY_LOCKED
    assert sorted(os.listdir(demo)) == [".lock"]


def test_where_files_must_have_a_name_it_works_too(
    root: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spec_files, "_NAMELESS", 0)
    assert locks(root).acquire_lock("demo").success
    assert sorted(os.listdir(demo)) == [".lock"]
    assert locks(root).acquire_lock("demo").error == errors.ALREADY_LOCKED
    assert sorted(os.listdir(demo)) == [".lock"]


def test_a_full_disk_is_an_error_and_nothing_is_locked(
    root: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    with pytest.raises(OSError, match="No space"):
        locks(root).acquire_lock("demo")
    assert not (demo / ".lock").exists()


# Time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2024-02-29T12:00:00.000Z", 1709208000.0), ("2024-02-29T12:00:00Z", 1709208000.0),
     ("2024-02-29T12:00:00.123456789Z", 1709208000.123), ("2024-02-29T12:00Z", 1709208000.0),
     ("2024-02-29T14:00:00+02:00", 1709208000.0), ("2024-02-29T06:30:00.5-05:30", 1709208000.5),
     ("1969-12-31T23:59:59.999Z", -0.001), ("2024-02-29", 1709164800.0),
     ("0001-01-01T00:00:00Z", -62135596800.0)],
)  # fmt: skip
def test_moments_are_read_with_their_offsets(text: str, seconds: float) -> None:
    assert staleness.read(text) == round(seconds * 1000)


@pytest.mark.parametrize(
    "text",
    ["", "T", "now", "2024", "2024-02-30T00:00:00Z", "2023-02-29", "2024-13-01", "2024-00-10",
     "2024-01-01T25:00:00Z", "2024-01-01T00:60:00Z", "2024-01-01T00:00:61Z", "2024-1-1",
     "2024-01-01T00:00:00+2", "2024-01-01T00:00:00+0200", "2024-01-01T00:00:00+25:00",
     "2024-01-01 00:00:00", "20240101", "２０24-01-01", "2024-01-01T00:00:00.Z", "1709208000"],
)  # fmt: skip
def test_an_invalid_time_is_none_and_never_stale(text: str, root: Path, demo: Path) -> None:
    assert staleness.read(text) is None
    foreign(demo / ".lock", timestamp=text, timeout=0.001)
    status = locks(root).get_lock_status("demo")
    assert (status.is_stale, status.duration) == (False, "unknown")
    assert locks(root).cleanup_stale_locks().cleaned == 0


def test_a_time_without_an_offset_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-3")
    time.tzset()
    try:
        assert staleness.read("2024-02-29T15:00:00") == 1709208000_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_lock_from_the_future_is_never_stale(root: Path, demo: Path) -> None:
    foreign(demo / ".lock", timestamp="9999-01-01T00:00:00.000Z", timeout=-1e9)
    status = locks(root).get_lock_status("demo")
    assert (status.is_stale, status.duration) == (False, "0 s")
    assert locks(root).cleanup_stale_locks().cleaned == 0


def test_a_stale_lock_still_refuses_and_points_to_the_clean_up(repo: Repository) -> None:
    foreign(repo.root / ".kiro/specs/demo/.lock", timestamp="2020-01-01T00:00:00.000Z")
    refused = repo.hold("spec", "lock", "demo")
    assert refused.code == 3
    assert "holdfast spec cleanup" in refused.err
    assert "stale" in repo.hold("spec", "status").out
    assert repo.hold("spec", "cleanup").out == "removed the lock of demo, held by bob on far\n"
    assert repo.hold("spec", "cleanup").out == "no lock is stale\n"
    assert repo.hold("spec", "lock", "demo").code == 0


def test_a_clean_up_leaves_damaged_files_alone(root: Path, demo: Path) -> None:
    (demo / ".lock").write_text("nonsense")
    assert locks(root).cleanup_stale_locks().to_dict() == {
        "cleaned": 0, "cleanedLocks": [], "errors": [],
    }  # fmt: skip
    assert (demo / ".lock").exists()


# Changes between a check and an action


def test_a_file_that_became_a_lock_since_it_was_looked_at_is_put_back(
    root: Path, demo: Path
) -> None:
    file = demo / ".lock"
    file.write_text("nonsense")
    seen = spec_files.look(str(file))
    assert seen is not None
    new = foreign(demo / "new")
    (demo / "new").rename(file)
    assert spec_files.set_aside(str(file), seen, "damaged") is None
    assert file.read_bytes() == new
    assert os.listdir(demo) == [".lock"]


def test_a_release_checks_again_if_another_program_replaced_the_lock(
    root: Path, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = locks(root)
    assert mine.acquire_lock("demo").success
    real = spec_files.is_same

    def replaced_meanwhile(path: str, seen: spec_files.Seen) -> bool:
        monkeypatch.setattr(spec_files, "is_same", real)
        foreign(demo / "new")
        (demo / "new").rename(path)
        return real(path, seen)

    monkeypatch.setattr(spec_files, "is_same", replaced_meanwhile)
    refused = mine.release_lock("demo")
    assert refused.error == "Lock owned by different machine"
    assert mine.is_locked("demo")
