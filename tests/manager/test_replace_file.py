"""The promises of replacing a file: all or nothing, links, modes, and power failures."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.manager.files.replace_file import TEMPORARY, replace_file

SOURCE = Path(holdfast.__file__).parent


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "state"
    made.write_bytes(b"old")
    return made


def names(file: Path) -> list[str]:
    return sorted(os.listdir(file.parent))


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


# Whole or not at all


def test_a_file_is_made_or_replaced(file: Path) -> None:
    replace_file(str(file), b"new")
    replace_file(str(file.with_name("other")), b"")
    assert file.read_bytes() == b"new"
    assert file.with_name("other").read_bytes() == b""
    assert names(file) == ["other", "state"]


def test_a_reader_finds_whole_contents_while_several_write(file: Path) -> None:
    contents = [bytes([number]) * 300_000 for number in range(1, 4)]
    file.write_bytes(contents[0])
    over = threading.Event()

    def write(content: bytes) -> None:
        while not over.is_set():
            replace_file(str(file), content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for writer in writers:
        writer.start()
    try:
        seen = [file.read_bytes() for _ in range(100)]
    finally:
        over.set()
        for writer in writers:
            writer.join()
    assert set(seen) <= set(contents)
    assert names(file) == ["state"]


def test_content_that_the_system_takes_in_parts_is_written_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda to, data: real(to, data[:3]))
    replace_file(str(file), b"0123456789")
    assert file.read_bytes() == b"0123456789"


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("call", ["write", "fsync", "replace", "fchmod"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch, call: str, alone: bool
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        replace_file(str(file), b"new", like_old=True, durable=True, alone=alone)
    assert file.read_bytes() == b"old"
    assert names(file) == ["state"]


def test_an_interrupt_leaves_the_old_file_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace_file(str(file), b"new")
    assert (file.read_bytes(), names(file)) == (b"old", ["state"])


def test_a_process_killed_before_the_rename_leaves_the_old_file(file: Path) -> None:
    script = (
        f"import os, signal, sys; sys.path[:0] = {sys.path!r}\n"
        "from holdfast.manager.files.replace_file import replace_file\n"
        "kill = lambda event, _: os.kill(os.getpid(), 9) if event == 'os.rename' else None\n"
        "sys.addaudithook(kill)\n"
        f"replace_file({str(file)!r}, b'new', alone=True)\n"
    )
    run = subprocess.run([sys.executable, "-I", "-S", "-c", script], check=False)
    assert run.returncode == -signal.SIGKILL
    assert file.read_bytes() == b"old"
    assert names(file) == ["state", f"state{TEMPORARY}"]
    replace_file(str(file), b"newer", alone=True)
    assert (file.read_bytes(), names(file)) == (b"newer", ["state"])


# Links


def test_a_link_gives_way_and_what_it_leads_to_stays(file: Path) -> None:
    link = file.with_name("link")
    link.symlink_to(file)
    replace_file(str(link), b"new")
    assert not link.is_symlink()
    assert (link.read_bytes(), file.read_bytes()) == (b"new", b"old")


def test_a_link_is_followed_when_that_is_asked_for(tmp_path: Path, file: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(file)
    replace_file(str(link), b"new", follow_link=True)
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert os.listdir(tmp_path / "elsewhere") == ["link"]


def test_a_link_at_the_temporary_name_is_not_written_through(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = file.with_name("victim")
    victim.write_bytes(b"mine")
    monkeypatch.setattr(os, "urandom", bytes)
    file.with_name(f"state.{os.getpid()}.00000000{TEMPORARY}").symlink_to(victim)
    with pytest.raises(FileExistsError):
        replace_file(str(file), b"new")
    file.with_name(f"state{TEMPORARY}").symlink_to(victim)
    replace_file(str(file), b"new", alone=True)
    assert (file.read_bytes(), victim.read_bytes()) == (b"new", b"mine")


# Modes and owners


def test_a_new_file_has_its_mode_less_the_umask(file: Path) -> None:
    before = os.umask(0o077)
    try:
        replace_file(str(file), b"new", mode=0o755)
        assert mode(file) == 0o700
        replace_file(str(file), b"new", mode=0o755, mode_at_least=0o050)
        assert mode(file) == 0o750
    finally:
        os.umask(before)


def test_a_file_keeps_its_mode(file: Path) -> None:
    file.chmod(0o4751)
    replace_file(str(file), b"new", like_old=True)
    assert mode(file) == 0o4751
    replace_file(str(file.with_name("other")), b"new", mode=0o600, like_old=True)
    assert mode(file.with_name("other")) == 0o600


def test_the_content_of_a_private_file_is_never_readable_by_others(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o600)
    real, seen = os.write, []

    def write(to: int, data: bytes) -> int:
        seen.append(stat.S_IMODE(os.fstat(to).st_mode))
        return real(to, data)

    monkeypatch.setattr(os, "write", write)
    replace_file(str(file), b"new", like_old=True)
    assert seen == [0o600]


def test_a_file_keeps_its_user_attributes(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"x")
    except (OSError, AttributeError):
        pytest.skip("this file system has no user attributes")
    replace_file(str(file), b"new", like_old=True)
    assert os.getxattr(file, "user.note") == b"x"
    replace_file(str(file), b"new")
    assert os.listxattr(file) == []


def test_a_file_of_another_user_is_replaced_without_its_owner(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    file.chmod(0o640)
    monkeypatch.setattr(os, "fchown", refuse)
    replace_file(str(file), b"new", like_old=True)
    assert (file.read_bytes(), mode(file)) == (b"new", 0o640)


# Power cuts


def synced(file: Path, monkeypatch: pytest.MonkeyPatch, *, durable: bool) -> list[str]:
    """The syncs, and their order relative to the rename."""
    said: list[str] = []
    sync, rename = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        said.append("folder" if is_folder else f"file of {os.fstat(descriptor).st_size} bytes")
        sync(descriptor)

    def replace(*words: str) -> None:
        said.append("rename")
        rename(*words)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    replace_file(str(file), b"new", durable=durable)
    return said


def test_a_durable_file_is_synced_before_its_rename_and_its_folder_after(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert synced(file, monkeypatch, durable=True) == ["file of 3 bytes", "rename", "folder"]


def test_a_file_that_need_not_last_costs_no_sync(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert synced(file, monkeypatch, durable=False) == ["rename"]


def test_the_module_costs_a_hook_no_other_import(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n"
        "import os, holdfast.manager.files; before = set(sys.modules)\n"
        "from holdfast.manager.files.replace_file import replace_file\n"
        f"replace_file({str(tmp_path / 'x')!r}, b'new')\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["holdfast.manager.files.replace_file"]
