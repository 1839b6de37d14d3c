"""Everything that can be wrong with the ledger's file, each with its own error and a way out.

Earlier grants are still there when the trouble is over, wherever that is promised.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import pytest

from helpers_processes import Auditor, Crowd, until
from holdfast import (
    Holder,
    LockManager,
    Lost,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreNetworkError,
    StoreReadonlyError,
    StoreVersionError,
)
from holdfast.core import rules
from holdfast.store.sqlite import schema

#: Only the ttl ends its grants, so they outlast every process and every trouble.
SOMEBODY = Holder(id="somebody")

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / ".git").mkdir(parents=True)
    return folder


def ledger(root: Path) -> Path:
    return root / ".holdfast/ledger.db"


def granted(root: Path, count: int = 1) -> list[str]:
    """Grants that were promised before the trouble began; their ids."""
    with LockManager.open(root) as manager:
        grants = [
            manager.try_acquire(holder=SOMEBODY, write_paths=[root / f"before-{number}"])
            for number in range(count)
        ]
        return [grant.id for grant in grants if grant is not None]


def still_there(root: Path, ids: list[str]) -> None:
    with LockManager.open(root) as manager:
        assert [grant.id for grant in manager.active_grants()] == ids
        assert manager.try_acquire(holder="other", write_paths=[root / "before-0"]) is None
        Auditor().check(manager)


def is_sensible(error: StoreError, path: Path | str) -> None:
    """A sentence that names the file, and a next step."""
    assert str(path) in error.message
    assert len(error.hint) > 10
    assert error.to_dict()["code"] == error.code


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# Missing


def test_a_missing_ledger_is_made_and_hidden_from_git(root: Path) -> None:
    with LockManager.open(root) as manager:
        assert manager.try_acquire(holder="a", write_paths=[root / "x"]) is not None
    assert ledger(root).stat().st_size > 0
    assert (root / ".holdfast/.gitignore").read_text() == "*\n"


def test_git_sees_nothing_of_the_ledger(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", str(root)], check=True, capture_output=True)
    with LockManager.open(root):
        status = subprocess.run(
            ["git", "-C", str(root), "status", "--porcelain"], check=True, capture_output=True
        )
        assert status.stdout == b""


def test_a_gitignore_that_is_there_is_left_alone(root: Path) -> None:
    (root / ".holdfast").mkdir()
    (root / ".holdfast/.gitignore").write_text("ledger.*\n")
    LockManager.open(root).close()
    assert (root / ".holdfast/.gitignore").read_text() == "ledger.*\n"


def test_an_empty_file_becomes_a_ledger(root: Path) -> None:
    (root / ".holdfast").mkdir()
    ledger(root).touch()
    still_there(root, granted(root))


# Another version


def test_a_newer_ledger_is_refused_and_not_touched(root: Path) -> None:
    ids = granted(root)
    with closing(sqlite3.connect(ledger(root))) as database:
        database.execute("pragma user_version = 99")
    before = digest(ledger(root))
    with pytest.raises(StoreVersionError) as caught:
        LockManager.open(root)
    error = caught.value
    assert error.code == "E_STORE_VERSION"
    assert error.fields["version"] == 99
    assert "upgrade" in error.hint
    is_sensible(error, ledger(root))
    assert digest(ledger(root)) == before
    with closing(sqlite3.connect(ledger(root))) as database:
        database.execute(f"pragma user_version = {schema.VERSION}")
    still_there(root, ids)


# Damaged


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(20_000))


def text(path: Path) -> None:
    path.write_text("this is a note that somebody saved in the wrong place\n" * 50)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_in_the_header(path: Path) -> None:
    os.truncate(path, 50)


def flip_first_page(path: Path) -> None:
    flip(path, 0, schema.PAGE_BYTES)


def flip_all_but_first_page(path: Path) -> None:
    flip(path, schema.PAGE_BYTES, path.stat().st_size)


def flip(path: Path, start: int, end: int) -> None:
    content = bytearray(path.read_bytes())
    for place in range(start, min(end, len(content))):
        content[place] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [garbage, text, cut_in_half, cut_in_the_header, flip_first_page, flip_all_but_first_page],
)
def test_a_damaged_ledger_is_refused_kept_and_can_be_moved_away(
    root: Path, damage: Callable[[Path], None]
) -> None:
    granted(root, 30)
    damage(ledger(root))
    before = digest(ledger(root))
    with pytest.raises(StoreCorruptError) as caught, LockManager.open(root) as manager:
        manager.try_acquire(holder="a", write_paths=[root / "before-0"])
    assert caught.value.code == "E_STORE_CORRUPT"
    is_sensible(caught.value, ledger(root))
    assert "backup" in caught.value.hint
    assert digest(ledger(root)) == before, "what is damaged was made worse"
    ledger(root).rename(ledger(root).with_suffix(".damaged"))
    with LockManager.open(root) as manager:
        assert manager.try_acquire(holder="a", write_paths=[root / "before-0"]) is not None


def test_the_log_of_a_damaged_ledger_that_is_moved_away_is_not_used(
    crowd: Crowd, root: Path
) -> None:
    killed_with_a_log(crowd, root)
    flip_first_page(ledger(root))
    ledger(root).rename(ledger(root).with_suffix(".damaged"))
    with LockManager.open(root) as manager:
        assert manager.active_grants() == []
        assert manager.try_acquire(holder="a", write_paths=[root / "before-0"]) is not None
        Auditor().check(manager)


def test_a_backup_in_the_place_of_a_damaged_ledger_brings_all_back(root: Path) -> None:
    ids = granted(root, 3)
    shutil.copy(ledger(root), root / "backup.db")
    garbage(ledger(root))
    with pytest.raises(StoreCorruptError):
        LockManager.open(root)
    os.replace(root / "backup.db", ledger(root))
    still_there(root, ids)


@pytest.mark.parametrize("data", ["", "{", "[]", '{"id":1}', "null"])
def test_a_record_that_cannot_be_read_fails_closed(root: Path, data: str) -> None:
    granted(root)
    with closing(sqlite3.connect(ledger(root))) as database:
        database.execute("update events set data = ?", (data,))
        database.commit()
    with LockManager.open(root) as manager:
        with pytest.raises(StoreCorruptError) as caught:
            manager.try_acquire(holder="a", write_paths=[root / "before-0"])
        is_sensible(caught.value, ledger(root))
        with pytest.raises(StoreCorruptError):
            manager.active_grants()


def test_a_history_that_cannot_be_read_is_called_damaged(root: Path) -> None:
    granted(root)
    with closing(sqlite3.connect(ledger(root))) as database:
        database.execute("update events set data = '{'")
        database.commit()
    with LockManager.open(root) as manager, pytest.raises(StoreCorruptError) as caught:
        list(manager.events())
    is_sensible(caught.value, ledger(root))


KILLED_WITH_A_LOG = """
from holdfast import Holder, LockManager
manager = LockManager.open(sys.argv[1])
first = int(sys.argv[2])
for number in range(first, first + 10):
    path = f"{sys.argv[1]}/before-{number}"
    say("granted", manager.try_acquire(holder=Holder(id="somebody"), write_paths=[path]).id)
os.kill(os.getpid(), signal.SIGKILL)
"""


def log_of(root: Path) -> Path:
    return ledger(root).with_name("ledger.db-wal")


def killed_with_a_log(crowd: Crowd, root: Path, first: int = 0) -> list[str]:
    """Grants whose only record is in the log that a killed process left behind."""
    child = crowd.start(KILLED_WITH_A_LOG, root, first)
    child.join()
    assert log_of(root).stat().st_size > 0
    return [id for (id,) in child.words("granted")]


def test_garbage_in_place_of_an_old_log_is_ignored(root: Path) -> None:
    ids = granted(root, 3)
    garbage(log_of(root))
    still_there(root, ids)


def test_garbage_behind_the_log_of_a_killed_process_takes_nothing_away(
    crowd: Crowd, root: Path
) -> None:
    ids = killed_with_a_log(crowd, root)
    with log_of(root).open("ab") as log:
        log.write(random.Random(2).randbytes(5000))
    still_there(root, ids)


def test_a_log_that_is_damaged_in_the_middle_leaves_a_whole_ledger_and_growing_tokens(
    crowd: Crowd, root: Path
) -> None:
    ids = killed_with_a_log(crowd, root)
    middle = log_of(root).stat().st_size * 3 // 4
    flip(log_of(root), middle, middle + 2000)
    with LockManager.open(root) as manager:
        left = [grant.id for grant in manager.active_grants()]
        assert left == ids[: len(left)], "the oldest are there, nothing is half there"
        Auditor().check(manager)
        tokens = [grant.token for grant in manager.active_grants()]
        grant = manager.try_acquire(holder="next", write_paths=[root / "next"])
        assert grant is not None
        assert grant.token > max(tokens, default=0)
    with closing(sqlite3.connect(ledger(root))) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


# Another program's


@pytest.mark.parametrize("version", [0, 1, 7])
def test_a_database_of_another_program_is_refused_and_not_touched(root: Path, version: int) -> None:
    (root / ".holdfast").mkdir()
    with closing(sqlite3.connect(ledger(root))) as database:
        database.execute("create table recipes (name text)")
        database.execute("insert into recipes values ('soup')")
        database.execute(f"pragma user_version = {version}")
        database.commit()
    before = digest(ledger(root))
    with pytest.raises(StoreCorruptError) as caught:
        LockManager.open(root)
    assert "not a Holdfast ledger" in caught.value.message
    is_sensible(caught.value, ledger(root))
    assert digest(ledger(root)) == before


def test_a_folder_in_the_place_of_the_ledger_is_trouble_of_the_store(root: Path) -> None:
    ledger(root).mkdir(parents=True)
    with pytest.raises(StoreError) as caught:
        LockManager.open(root)
    is_sensible(caught.value, ledger(root))


def test_a_file_in_the_place_of_the_folder_is_refused_with_a_word(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").write_text("")
    with pytest.raises(StoreError) as caught:
        LockManager.open(f"sqlite://{tmp_path}/.holdfast/ledger.db")
    is_sensible(caught.value, tmp_path)


# May not be written

AS_ANOTHER_USER = """
from holdfast import HoldfastError, LockManager
import holdfast.manager.manager, holdfast.store.sqlite.sqlite_store
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    manager = LockManager.open(sys.argv[1])
    say("opened")
    grant = manager.try_acquire(holder="a", write_paths=[f"{sys.argv[1]}/mine"])
    say("granted")
except HoldfastError as error:
    say("error", error.code, type(error).__name__)
    say("message", error.message)
    say("hint", error.hint)
"""


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A repository that every user can reach; the tests' own folders are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    folder.chmod(0o755)
    (folder / ".git").mkdir()
    yield folder
    subprocess.run(["chmod", "-R", "u+rwX", str(folder)], check=True)
    shutil.rmtree(folder)


def no_folder_and_none_can_be_made(root: Path) -> None:
    root.chmod(0o555)


def nothing_may_be_written(root: Path) -> None:
    for path in (root / ".holdfast").rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    (root / ".holdfast").chmod(0o555)
    root.chmod(0o555)


def only_the_ledger_may_not_be_written(root: Path) -> None:
    for path in (root / ".holdfast").rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    (root / ".holdfast").chmod(0o777)
    ledger(root).chmod(0o444)


def the_folder_may_not_even_be_searched(root: Path) -> None:
    (root / ".holdfast").chmod(0o000)


@pytest.mark.parametrize(
    "shut",
    [
        no_folder_and_none_can_be_made,
        nothing_may_be_written,
        only_the_ledger_may_not_be_written,
        the_folder_may_not_even_be_searched,
    ],
)
def test_another_user_gets_the_error_that_the_ledger_is_not_writable(
    crowd: Crowd, open_root: Path, shut: Callable[[Path], None]
) -> None:
    ids = [] if shut is no_folder_and_none_can_be_made else granted(open_root)
    shut(open_root)
    child = crowd.start(AS_ANOTHER_USER, open_root).done()
    assert child.words("error") == [["E_STORE_READONLY", "StoreReadonlyError"]], child.story()
    assert str(open_root) in " ".join(child.words("message")[0])
    assert "owner and mode" in " ".join(child.words("hint")[0])
    assert not child.words("granted")
    subprocess.run(["chmod", "-R", "u+rwX", str(open_root)], check=True)
    if ids:
        still_there(open_root, ids)


def test_a_user_who_may_write_shares_the_ledger_with_its_owner(
    crowd: Crowd, open_root: Path
) -> None:
    if not IS_ROOT:
        pytest.skip("needs root, to be two users")
    ids = granted(open_root)
    only_the_ledger_may_not_be_written(open_root)
    ledger(open_root).chmod(0o666)
    child = crowd.start(AS_ANOTHER_USER, open_root).done()
    assert child.words("granted"), child.story()
    still_there(open_root, ids)


# Too long


def test_a_path_that_is_too_long_for_the_database_is_an_error(tmp_path: Path) -> None:
    root = tmp_path.joinpath(*["a-folder-with-a-rather-long-name-" + "x" * 60] * 10)
    (root / ".git").mkdir(parents=True)
    with pytest.raises(StoreError) as caught:
        LockManager.open(root)
    assert "too long" in caught.value.message
    assert "--store" in caught.value.hint


# Mounted


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a small disk in memory. Unmounts it in the end."""
    mounted: list[Path] = []

    def mount_one(options: str) -> Path:
        if not IS_ROOT:
            pytest.skip("needs root, to mount a small disk")
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            pytest.skip(f"this machine does not let us mount: {ran.stderr.strip()}")
        mounted.append(folder)
        (folder / ".git").mkdir()
        return folder

    yield mount_one
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"

    def write_on(file: IO[bytes]) -> None:
        while True:
            file.write(b"x" * 512)

    with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        write_on(file)
    return filler


def test_a_full_disk_is_an_error_and_no_grant_is_lost(mount: Callable[[str], Path]) -> None:
    disk = mount("size=300k")
    promised: list[str] = []
    with LockManager.open(disk) as manager:

        def take(*numbers: int) -> None:
            for number in numbers:
                path = disk / f"before-{number}"
                grant = manager.try_acquire(holder=SOMEBODY, write_paths=[path])
                assert grant is not None
                promised.append(grant.id)

        take(0, 1)
        filler = fill(disk)
        with pytest.raises(StoreFullError) as caught:
            take(*range(2, 2000))
        assert caught.value.code == "E_STORE_FULL"
        is_sensible(caught.value, ledger(disk))
        assert "free some space" in caught.value.hint
        assert [grant.id for grant in manager.active_grants()] == promised
        with pytest.raises(StoreFullError):
            take(*range(2000, 4000))

        filler.unlink()
        take(5000)
        assert manager.release(promised.pop(1))
        assert [grant.id for grant in manager.active_grants()] == promised
        Auditor().check(manager)
    still_there(disk, promised)


def test_a_full_disk_can_still_be_looked_at_and_opened(mount: Callable[[str], Path]) -> None:
    disk = mount("size=300k")
    ids = granted(disk, 3)
    filler = fill(disk)
    try:
        with LockManager.open(disk) as manager:
            assert [grant.id for grant in manager.active_grants()] == ids
    except StoreFullError:
        pass  # no space even for the index of the log: reported as such
    filler.unlink()
    still_there(disk, ids)


@pytest.mark.parametrize("room", ["size=300k", "size=300k,nr_inodes=5"])
def test_a_new_ledger_on_a_full_disk_is_refused_as_full(
    mount: Callable[[str], Path], room: str
) -> None:
    disk = mount(room)
    filler = fill(disk)
    with pytest.raises(StoreFullError) as caught:
        LockManager.open(disk)
    is_sensible(caught.value, ledger(disk))
    filler.unlink()
    if "nr_inodes" not in room:
        still_there(disk, granted(disk))


def test_a_disk_that_becomes_read_only_is_an_error_until_it_is_writable_again(
    mount: Callable[[str], Path],
) -> None:
    disk = mount("size=2m")
    with LockManager.open(disk) as manager:
        before = manager.try_acquire(holder=SOMEBODY, write_paths=[disk / "before-0"])
        assert before is not None
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with pytest.raises(StoreReadonlyError) as caught:
        LockManager.open(disk)
    is_sensible(caught.value, ledger(disk))
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    still_there(disk, [before.id])


FEW_FILES = """
import resource
from holdfast import HoldfastError, LockManager
import holdfast.manager.manager, holdfast.store.sqlite.sqlite_store
LockManager.open(sys.argv[1]).close()
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), 100))
try:
    LockManager.open(sys.argv[1])
    say("opened")
except HoldfastError as error:
    say("error", error.code)
    say("message", error.message)
"""


@pytest.mark.parametrize("files", [4, 5])
def test_too_many_open_files_are_not_taken_for_missing_rights(
    crowd: Crowd, root: Path, files: int
) -> None:
    child = crowd.start(FEW_FILES, root, files).done()
    assert child.words("error"), child.story()
    assert child.words("error") != [["E_STORE_READONLY"]], child.story()


# On a network

MOUNTS = """\
22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw
28 0 {local} / / rw,relatime shared:1 - ext4 /dev/vda rw
36 28 {device} / {folder} rw,relatime shared:21 master:3 - {kind} server:/export rw,vers=4.2
40 28 0:51 / /run/{device}/x rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ext4"])
def test_the_kind_of_file_system_is_read_from_the_table_of_mounts(
    tmp_path: Path, kind: str
) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(
        MOUNTS.format(device=number, kind=kind, folder=tmp_path, local="253:99"), encoding="utf-8"
    )
    assert schema.file_system(str(tmp_path), str(mounts)) == kind


def test_where_the_system_does_not_tell_the_file_system_counts_as_local(tmp_path: Path) -> None:
    assert schema.file_system(str(tmp_path), str(tmp_path / "missing")) == ""
    (tmp_path / "empty").touch()
    assert schema.file_system(str(tmp_path), str(tmp_path / "empty")) == ""


def test_a_ledger_on_a_network_file_system_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "file_system", lambda folder: "nfs4")
    with pytest.raises(StoreNetworkError) as caught:
        LockManager.open(root)
    assert caught.value.code == "E_STORE_NETWORK"
    assert caught.value.fields["file_system"] == "nfs4"
    assert "local disk" in caught.value.hint
    is_sensible(caught.value, root)
    assert not ledger(root).exists()
    with pytest.raises(StoreNetworkError):
        schema.refuse_network_file_system(str(root))
    monkeypatch.setattr(schema, "file_system", lambda folder: "ext4")
    schema.refuse_network_file_system(str(root))


# Changed under a process that runs


def is_lost(manager: LockManager, grant_id: str, token: int) -> None:
    assert not manager.verify(grant_id, token=token)
    with pytest.raises(Lost), manager.fenced(grant_id, token):
        pytest.fail("a lost grant has passed the fence")
    with pytest.raises(Lost):
        manager.renew(grant_id)
    assert manager.release(grant_id) is False


def test_a_ledger_that_is_deleted_under_a_running_process_is_made_anew_and_its_grants_are_lost(
    root: Path,
) -> None:
    with LockManager.open(root) as old, LockManager.open(root) as other:
        grant = old.try_acquire(holder=SOMEBODY, write_paths=[root / "x"])
        assert grant is not None
        shutil.rmtree(root / ".holdfast")

        with LockManager.open(root) as fresh:
            taken = fresh.try_acquire(holder=Holder(id="new"), write_paths=[root / "x"])
            assert taken is not None
            assert taken.token > grant.token
        is_lost(old, grant.id, grant.token)
        assert old.try_acquire(holder=SOMEBODY, write_paths=[root / "x"]) is None
        assert [grant.id for grant in other.active_grants()] == [taken.id]
        Auditor().check(other)


def test_the_first_to_notice_a_deleted_ledger_makes_a_whole_one(root: Path) -> None:
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="a", write_paths=[root / "x"])
        assert grant is not None
        shutil.rmtree(root / ".holdfast")
        is_lost(manager, grant.id, grant.token)
        again = manager.try_acquire(holder="a", write_paths=[root / "x"])
        assert again is not None
        assert again.token > grant.token
        with LockManager.open(root) as other:
            assert other.try_acquire(holder="b", write_paths=[root / "x"]) is None
            assert [held.id for held in other.active_grants()] == [again.id]
    assert (root / ".holdfast/.gitignore").read_text() == "*\n"


def test_history_is_read_from_the_ledger_that_is_there_now(root: Path) -> None:
    with LockManager.open(root) as manager:
        manager.try_acquire(holder="a", write_paths=[root / "x"])
        shutil.rmtree(root / ".holdfast")
        with LockManager.open(root) as fresh:
            taken = fresh.try_acquire(holder="b", write_paths=[root / "y"])
            assert taken is not None
            assert [event.data["id"] for event in manager.events()] == [taken.id]


WAITS = """
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
say("waiting")
grant = manager.acquire(holder="waiter", write_paths=[f"{sys.argv[1]}/x"], timeout=20)
say("granted", grant.id)
go()
"""


def test_a_waiter_continues_in_the_new_ledger(crowd: Crowd, root: Path) -> None:
    with LockManager.open(root) as manager:
        manager.try_acquire(holder=SOMEBODY, write_paths=[root / "x"])
        waiter = crowd.start(WAITS, root)
        until(manager.queue, "the waiter has a ticket")
        shutil.rmtree(root / ".holdfast")
        (id,) = waiter.wait_for("granted", seconds=10)
        assert [grant.id for grant in manager.active_grants()] == [id]


@pytest.mark.parametrize("log", ["all in the log", "some in the log", "nothing in the log"])
def test_a_backup_that_replaces_the_ledger_of_a_running_process_is_what_counts(
    root: Path, log: str
) -> None:
    """The old ledger's log lies beside it still, and belongs to neither."""
    ids = granted(root, 3)
    backup = root / "backup.db"
    shutil.copy(ledger(root), backup)
    with LockManager.open(root) as manager:
        for number in range(40):
            later = manager.try_acquire(holder=SOMEBODY, write_paths=[root / f"later-{number}"])
            if (log, number) in (("some in the log", 35), ("nothing in the log", 39)):
                with closing(sqlite3.connect(ledger(root))) as database:
                    database.execute("pragma wal_checkpoint(truncate)")
        assert later is not None
        os.replace(backup, ledger(root))
        is_lost(manager, later.id, later.token)
        assert [grant.id for grant in manager.active_grants()] == ids
        grant = manager.try_acquire(holder="b", write_paths=[root / "later-0"])
        assert grant is not None
        assert grant.token > later.token
        manager.release(grant.id)
        Auditor().check(manager)
    still_there(root, ids)
    with closing(sqlite3.connect(ledger(root))) as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_ledger_that_is_replaced_right_after_a_look_is_noticed(root: Path) -> None:
    """A folder's time of change is only as fine as the kernel's clock, on most of them 4 ms."""
    LockManager.open(root).close()
    folder = root / ".holdfast"
    for number in range(20):
        shutil.copy(ledger(root), root / f"backup-{number}")
        with LockManager.open(root) as manager:
            grant = manager.try_acquire(holder=SOMEBODY, write_paths=[root / "x"])
            assert grant is not None
            with closing(sqlite3.connect(ledger(root))) as database:
                database.execute("pragma wal_checkpoint(truncate)")
            (folder / "something").touch()
            seen = folder.stat().st_mtime_ns
            assert manager.verify(grant.id, token=grant.token)
            os.replace(root / f"backup-{number}", ledger(root))
            if folder.stat().st_mtime_ns - seen < 3_000_000:
                os.utime(folder, ns=(seen, seen))  # as a coarse clock would have it
            is_lost(manager, grant.id, grant.token)
        (folder / "something").unlink()


def test_a_backup_in_the_place_of_a_ledger_whose_last_user_was_killed_is_what_counts(
    crowd: Crowd, root: Path
) -> None:
    ids = granted(root, 3)
    shutil.copy(ledger(root), root / "backup.db")
    with LockManager.open(root) as manager:
        manager.release(ids[0])
        for number in range(20):
            manager.try_acquire(holder=SOMEBODY, write_paths=[root / f"later-{number}"])
    killed_with_a_log(crowd, root, first=20)
    os.replace(root / "backup.db", ledger(root))
    still_there(root, ids)


def test_a_copy_of_the_whole_folder_is_as_good_as_the_original(crowd: Crowd, root: Path) -> None:
    """With the log of a killed process in it, which belongs to the ledger beside it."""
    ids = killed_with_a_log(crowd, root)
    (root / ".holdfast").rename(root / "moved")
    shutil.copytree(root / "moved", root / ".holdfast", ignore=shutil.ignore_patterns("wake"))
    still_there(root, ids)


# Another program has it open

BROWSER = """
import sqlite3
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute(sys.argv[2])
database.execute("select count(*) from events").fetchall()
say("open")
go()
database.execute("rollback")
say("closed")
go()
"""


def test_a_database_browser_that_keeps_the_ledger_locked_is_named_within_the_deadline(
    crowd: Crowd, root: Path
) -> None:
    ids = granted(root)
    with LockManager.open(root) as manager:
        browser = crowd.start(BROWSER, ledger(root), "begin immediate")
        browser.wait_for("open")
        request = manager.request("a", (), [root / "x"])
        begin = time.monotonic()
        with pytest.raises(StoreBusyError) as caught:
            manager.store.transact(
                lambda view: rules.acquire(view, request, wait=False), deadline=begin + 0.4
            )
        assert time.monotonic() - begin < 2, "the deadline does not hold"
        assert caught.value.code == "E_STORE_BUSY"
        assert "database browser" in caught.value.hint
        is_sensible(caught.value, ledger(root))
        assert [grant.id for grant in manager.active_grants()] == ids, "reading goes on"
        browser.tell()
        browser.wait_for("closed")
        assert manager.try_acquire(holder="a", write_paths=[root / "x"]) is not None
        Auditor().check(manager)


def test_a_database_browser_that_only_reads_blocks_no_process(crowd: Crowd, root: Path) -> None:
    granted(root)
    with LockManager.open(root) as manager:
        browser = crowd.start(BROWSER, ledger(root), "begin")
        browser.wait_for("open")
        begin = time.monotonic()
        for _ in range(20):
            grant = manager.try_acquire(holder="a", write_paths=[root / "x"])
            assert grant is not None
            manager.release(grant.id)
        assert time.monotonic() - begin < 5
        browser.kill()
        Auditor().check(manager)


def test_a_closed_manager_says_so(root: Path) -> None:
    manager = LockManager.open(root)
    manager.close()
    manager.close()
    with pytest.raises(StoreError, match="closed"):
        manager.try_acquire(holder="a", write_paths=[root / "x"])
    with pytest.raises(StoreError, match="closed"):
        manager.active_grants()
