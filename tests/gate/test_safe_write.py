"""safe_write: allowed, granted, covered, with the current token; atomic, and to no other file."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from helpers_cli import Repository, environment
from helpers_processes import LINUX_ONLY, PATIENCE_SECONDS, Crowd, until
from holdfast import (
    BadKeyError,
    Holder,
    LockGrant,
    LockManager,
    LockViolationError,
    OverLockError,
    safe_write,
)
from holdfast.gate import checked_write, replacement
from holdfast.manager.clock import FakeClock
from holdfast.manager.files.paths import Tree
from holdfast.store import open_store

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def manager(repository: Path) -> Iterator[LockManager]:
    with LockManager.open(repository) as made:
        yield made


def take(manager: LockManager, *paths: str, **more: Any) -> LockGrant:
    grant = manager.try_acquire(holder="ann", write_paths=list(paths), **more)
    assert grant is not None
    return grant


def refused(reason: str, *arguments: Any, **options: Any) -> LockViolationError:
    """The violation that a write must raise, for one reason."""
    with pytest.raises(LockViolationError) as caught:
        safe_write(*arguments, **options)
    error = caught.value
    assert (error.code, error.fields["reason"]) == ("E_LOCK_VIOLATION", reason), error
    assert error.hint
    assert {"path", "grant"} <= error.fields.keys()
    assert error.fields["grant"] == (options.get("grant_id") or "")
    return error


def files(root: Path) -> dict[str, bytes]:
    """Everything in a tree except the ledger: a refused write must leave it unchanged."""
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file() and ".holdfast" not in file.relative_to(root).parts
    }


def leftovers(root: Path) -> list[str]:
    return [file.name for file in root.rglob(f"{replacement.TEMPORARY}*")]


# The checks


def test_seed004_safe_write_writes_what_the_grant_covers(
    repository: Path, manager: LockManager
) -> None:
    grant = take(manager, "app/x.rb", "app/new.rb")
    for path, content in (("app/x.rb", "neu: ä\n"), ("app/new.rb", b"\0\xff"), ("app/x.rb", "")):
        assert safe_write(path, content, grant_id=grant.id, manager=manager) == path
        expected = content.encode() if isinstance(content, str) else content
        assert (repository / path).read_bytes() == expected
    big = os.urandom(5 << 20)
    safe_write("app/x.rb", big, grant_id=grant.id, token=grant.token, manager=manager)
    assert (repository / "app/x.rb").read_bytes() == big
    assert leftovers(repository) == []
    assert [one.id for one in manager.active_grants()] == [grant.id]


def test_seed004_safe_write_refuses_a_path_outside_the_allowlist(
    repository: Path, manager: LockManager
) -> None:
    grant = take(manager, "app/x.rb", "lib/y.rb", "application.rb")
    before = files(repository)
    for path in ("lib/y.rb", "application.rb", "app/../lib/y.rb"):
        error = refused("not_allowed", path, "new", grant_id=grant.id, manager=manager,
                        allowed_write_paths=["app", "lib/y"])  # fmt: skip
        assert error.fields["path"] in ("lib/y.rb", "application.rb")
    refused("not_allowed", "app/x.rb", "new", grant_id=grant.id, manager=manager,
            allowed_write_paths=[])  # fmt: skip
    assert files(repository) == before
    for allowed in (["app"], ["app/"], [repository / "app"], ["app/x.rb"], ["lib", "."]):
        safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager,
                   allowed_write_paths=allowed)  # fmt: skip
    with pytest.raises(BadKeyError, match="list"):
        safe_write("app/x.rb", "new", manager=manager, allowed_write_paths="app")


def test_the_allowlist_holds_after_links_are_followed(
    repository: Path, manager: LockManager
) -> None:
    grant = take(manager, "app/x.rb", "lib/y.rb")
    (repository / "app/door").symlink_to("../lib")
    (repository / "app/y.rb").symlink_to("../lib/y.rb")
    (repository / "allowed").symlink_to("app")
    (repository / "lib/same.rb").hardlink_to(repository / "app/x.rb")
    options: dict[str, Any] = {"grant_id": grant.id, "manager": manager}
    for path in ("app/door/y.rb", "app/y.rb"):
        refused("not_allowed", path, "new", allowed_write_paths=["app"], **options)
    refused("not_allowed", "app/x.rb", "new", allowed_write_paths=["lib/same.rb"], **options)
    assert (repository / "lib/y.rb").read_text() == "old\n"
    safe_write("app/x.rb", "new", allowed_write_paths=["allowed"], **options)
    assert safe_write("app/y.rb", "new", allowed_write_paths=["lib"], **options) == "lib/y.rb"
    assert (repository / "app/y.rb").is_symlink()
    assert (repository / "lib/y.rb").read_text() == "new"


def test_seed004_safe_write_refuses_a_grant_that_is_not_valid(repository: Path) -> None:
    clock, dead = FakeClock(), False
    store = open_store(
        f"sqlite://{repository}/.holdfast/ledger.db", clock=clock, is_dead=lambda *_: dead
    )
    with LockManager(store, tree=Tree(str(repository)), clock=clock) as manager:
        before = files(repository)

        def tried(reason: str, grant: LockGrant) -> str:
            error = refused(reason, "app/x.rb", "new", grant_id=grant.id, manager=manager)
            refused(reason, "app/x.rb", "n", grant_id=grant.id, token=grant.token, manager=manager)
            assert files(repository) == before
            return str(error)

        grant = take(manager, "app/x.rb")
        manager.release(grant.id)
        tried("released", grant)
        grant = take(manager, "app/x.rb", ttl=10)
        clock.advance(10)
        tried("expired", grant)
        manager.reap()
        tried("expired", grant)
        grant = take(manager, "app/x.rb")
        manager.force(grant.id, by="eve", reason="in a hurry")
        assert "forced by eve" in tried("lost", grant)
        grant = take(manager, "app/x.rb", ttl=10)
        clock.advance(10)
        thief = manager.steal(holder="bob", write_paths=["app/x.rb"])
        assert "stolen by bob" in tried("lost", grant)
        dead = True
        assert "dead" in tried("lost", thief)
        refused("unknown", "app/x.rb", "new", grant_id="never-was", manager=manager)
    assert leftovers(repository) == []


def test_seed004_safe_write_refuses_what_the_grant_does_not_cover_exactly(
    repository: Path, manager: LockManager
) -> None:
    (repository / "app/other name.rb").hardlink_to(repository / "app/x.rb")
    grant = manager.try_acquire(holder="ann", write_paths=["app/x.rb"], read_paths=["lib/"])
    assert grant is not None
    before = files(repository)
    options: dict[str, Any] = {"grant_id": grant.id, "manager": manager}
    for path in ("app/X.rb", "app/models/user.rb", "app/x.rb.bak", "lib/y.rb", "app/x.rb/y"):
        assert path in str(refused("not_covered", path, "new", **options))
    error = refused("not_covered", "app/other name.rb", "new", **options)
    assert "another name" in str(error)
    assert files(repository) == before
    for same in ("app/../app/x.rb", "./app//x.rb", repository / "app/x.rb"):
        assert safe_write(same, "new", **options) == "app/x.rb"


def test_seed004_safe_write_refuses_another_token_than_the_current_one(
    repository: Path, manager: LockManager
) -> None:
    grant = take(manager, "app/x.rb")
    for token in (grant.token - 1, grant.token + 1, 0):
        refused("stale_token", "app/x.rb", "new", grant_id=grant.id, token=token, manager=manager)
    assert (repository / "app/x.rb").read_text() == "old\n"


@LINUX_ONLY
def test_seed004_27_a_made_up_released_expired_or_foreign_grant_id_is_refused(
    repository: Path, tmp_path: Path
) -> None:
    """Each for its own reason, while another holder has the file and while it is free. Only None
    means no grant."""
    with LockManager.open(repository) as manager:
        given_back = take(manager, "app/x.rb")
        manager.release(given_back.id)
        run_out = take(manager, "app/x.rb", ttl=0.1)
        until(lambda: manager.active_grants() == [], "it has run out")
    with Crowd(tmp_path) as crowd, LockManager.open(repository) as manager:
        child = crowd.start(HOLDER, repository)
        bob, token = child.wait_for("has it")
        mine = take(manager, "lib/y.rb")
        before = files(repository)
        never = ("never-was", "", " ", "0", "none", "None", "null", "\0", "\ud800", "ä", "%",
                 given_back.id.upper(), f"{bob} ", bob[:8])  # fmt: skip
        for path in ("app/x.rb", "app/free.rb"):
            for made_up in never:
                refused("unknown", path, "new", grant_id=made_up, manager=manager)
            for odd in (0, False, b"", [], object()):
                with pytest.raises(LockViolationError) as caught:
                    safe_write(path, "new", grant_id=odd, manager=manager)  # type: ignore[arg-type]
                assert caught.value.fields["reason"] == "unknown"
            refused("released", path, "new", grant_id=given_back.id, manager=manager)
            refused("expired", path, "new", grant_id=run_out.id, manager=manager)
            error = refused("foreign", path, "new", grant_id=bob, manager=manager)
            assert "belongs to bob" in str(error)
            refused("foreign", path, "n", grant_id=bob, token=mine.token, manager=manager)
            refused("not_covered", path, "new", grant_id=mine.id, manager=manager)
        refused("stale_token", "lib/y.rb", "n", grant_id=mine.id, token=int(token), manager=manager)
        assert files(repository) == before
        with LockManager() as other:
            refused("unknown", "lib/y.rb", "n", grant_id=mine.id, manager=other)
        # A process that was given the grant has its token, too.
        safe_write("app/x.rb", "new", grant_id=bob, token=int(token), manager=manager)
    assert (repository / "app/x.rb").read_text() == "new"


BELOW = """
from holdfast import LockManager, LockViolationError, safe_write
manager = LockManager.open(sys.argv[1])
try:
    safe_write("app/x.rb", "from below", grant_id=sys.argv[2], manager=manager)
    say("wrote")
except LockViolationError as error:
    say("refused", error.fields["reason"])
"""


@LINUX_ONLY
def test_a_grant_is_good_for_the_processes_that_its_holder_starts(
    repository: Path, manager: LockManager, tmp_path: Path
) -> None:
    grant = take(manager, "app/x.rb")
    with Crowd(tmp_path) as crowd:
        assert crowd.start(BELOW, repository, grant.id).done().lines() == ["wrote"]
    assert (repository / "app/x.rb").read_text() == "from below"


@LINUX_ONLY
def test_a_grant_is_valid_for_the_same_holder_at_the_command_line(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by its marks: a program that a runner started may outlive the processes between them."""
    from holdfast.manager.owners.identity import runner_holder
    from holdfast.manager.owners.liveness import witness_of

    with Crowd(tmp_path) as crowd, LockManager.open(repository) as manager:
        runner = crowd.start("say('ready'); go()")
        runner.wait_for("ready")
        holder, variables = runner_holder("a run", witness_of(runner.pid))
        grant = manager.try_acquire(holder=holder, write_paths=["app/x.rb"])
        assert grant is not None
        refused("foreign", "app/x.rb", "new", grant_id=grant.id, manager=manager)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)


def test_a_path_that_is_not_a_file_is_refused(repository: Path, manager: LockManager) -> None:
    os.mkfifo(repository / "app/pipe")
    grant = take(manager, "app/pipe", "port:5432")
    options: dict[str, Any] = {"grant_id": grant.id, "manager": manager}
    with pytest.raises(OverLockError):
        safe_write("app", "new", **options)
    with pytest.raises(BadKeyError, match="not a file"):
        safe_write("port:5432", "new", **options)
    with pytest.raises(BadKeyError, match="Holdfast's own"):
        safe_write(".holdfast/ledger.db", "new", **options)
    refused("moved", "app/pipe", "new", **options)
    with pytest.raises(TypeError):
        safe_write("app/x.rb", 7, **options)  # type: ignore[arg-type]


# Without a grant


def test_seed004_without_a_grant_id_only_the_allowlist_counts(
    repository: Path, manager: LockManager
) -> None:
    assert safe_write("app/x.rb", "new", manager=manager) == "app/x.rb"
    safe_write("app/made/up.rb", "new", manager=manager, allowed_write_paths=["app"])
    assert (repository / "app/made/up.rb").read_text() == "new"
    refused("not_allowed", "lib/y.rb", "new", manager=manager, allowed_write_paths=["app"])
    assert manager.active_grants() == []
    assert leftovers(repository) == []


def test_seed004_without_a_grant_id_a_file_that_another_has_is_not_written(
    repository: Path, manager: LockManager
) -> None:
    grant = take(manager, "app/x.rb", reason="rename it")
    before = files(repository)
    error = refused("held", "app/x.rb", "new", manager=manager)
    assert "ann" in str(error)
    assert "rename it" in str(error)
    assert error.fields["conflicts"][0].grant_id == grant.id
    (repository / "app/door.rb").symlink_to("x.rb")
    refused("held", "app/door.rb", "new", manager=manager)
    assert manager.try_acquire(holder="bob", read_paths=["lib/"]) is not None
    refused("held", "lib/y.rb", "new", manager=manager)
    (repository / "app/door.rb").unlink()
    assert files(repository) == before
    manager.release(grant.id)
    safe_write("app/x.rb", "new", manager=manager)


def test_without_a_grant_id_a_dead_holder_is_not_in_the_way(
    repository: Path, tmp_path: Path
) -> None:
    with Crowd(tmp_path) as crowd:
        child = crowd.start(HOLDER, repository)
        child.wait_for("has it")
        with LockManager.open(repository) as manager:
            refused("held", "app/x.rb", "new", manager=manager)
            child.kill()
            safe_write("app/x.rb", "new", manager=manager)
    assert (repository / "app/x.rb").read_text() == "new"


HOLDER = """
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
grant = manager.acquire(holder="bob", write_paths=["app/x.rb"])
say("has it", grant.id, grant.token)
go()
"""


def test_without_a_grant_id_ones_own_lock_does_not_refuse(
    repository: Path, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOLDER", "runner-7")
    mine = Holder(id="runner-7")
    assert manager.try_acquire(holder=mine, write_paths=["app/x.rb"]) is not None
    safe_write("app/x.rb", "new", manager=manager)
    monkeypatch.setenv("HOLDFAST_HOLDER", "runner-8")
    refused("held", "app/x.rb", "newer", manager=manager)
    assert (repository / "app/x.rb").read_text() == "new"


def test_without_a_manager_the_ledger_above_the_file_decides(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository / "app")
    assert safe_write("x.rb", "free") == "x.rb"
    assert not (repository / ".holdfast").exists()  # a write alone makes no ledger
    for made_up in ("never-was", ""):
        refused("unknown", "x.rb", "new", grant_id=made_up)
    with LockManager.open(repository) as manager:
        grant = take(manager, "app/x.rb")
    refused("held", "x.rb", "new")
    assert safe_write("x.rb", "new", grant_id=grant.id) == "app/x.rb"
    assert (repository / "app/x.rb").read_text() == "new"


def test_without_a_manager_or_an_allowlist_it_stays_in_the_tree_of_the_current_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    outside = tmp_path / "outside"
    outside.mkdir()
    (repository / "door").symlink_to(outside)
    refused("outside", outside / "x", "new")
    refused("outside", "door/x", "new")
    refused("outside", "../outside/x", "new")
    assert os.listdir(outside) == []
    safe_write(outside / "deep/x", "new", allowed_write_paths=[outside])
    assert (outside / "deep/x").read_text() == "new"


def test_locks_in_memory_guard_files_of_the_current_folder(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repository)
    (repository / "door").symlink_to("lib")
    with LockManager() as manager:
        grant = take(manager, "app/x.rb", "door/y.rb")
        safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)
        assert (repository / "app/x.rb").read_text() == "new"
        refused("not_covered", "lib/y.rb", "new", grant_id=grant.id, manager=manager)
        refused("outside", "door/y.rb", "new", grant_id=grant.id, manager=manager)
        refused("held", "app/x.rb", "newer", manager=manager)
        safe_write("lib/y.rb", "new", manager=manager)
    assert leftovers(repository) == []


# The file


@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755, 0o640, 0o4755])
def test_the_mode_is_kept(repository: Path, manager: LockManager, mode: int) -> None:
    file = repository / "app/x.rb"
    file.chmod(mode)
    grant = take(manager, "app/x.rb")
    safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)
    assert stat.S_IMODE(file.stat().st_mode) == mode


def test_a_new_file_has_the_mode_that_the_umask_leaves(
    repository: Path, manager: LockManager
) -> None:
    grant = take(manager, "app/a", "made/b")
    for mask, path in ((0o027, "app/a"), (0o077, "made/b")):
        old = os.umask(mask)
        try:
            safe_write(path, "new", grant_id=grant.id, manager=manager)
        finally:
            os.umask(old)
        assert stat.S_IMODE((repository / path).stat().st_mode) == 0o666 & ~mask
    assert stat.S_IMODE((repository / "made").stat().st_mode) == 0o700


@pytest.mark.skipif(not IS_ROOT, reason="needs root, to give a file to another user")
def test_the_owner_is_kept(repository: Path, manager: LockManager) -> None:
    file = repository / "app/x.rb"
    os.chown(file, 12345, 23456)
    file.chmod(0o4750)
    grant = take(manager, "app/x.rb")
    safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)
    found = file.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o4750)


AS_OTHER = """
from holdfast import LockManager, safe_write
safe_write("x", "all that is needed is imported now", manager=LockManager.open(sys.argv[2]))
os.setgroups([]); os.setgid(12345); os.setuid(12345)
manager = LockManager.open(sys.argv[1])
grant = manager.acquire(holder="other", write_paths=["app/x.rb"])
try:
    safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)
except PermissionError as error:
    say("refused", error.errno, error.filename)
"""


@pytest.mark.skipif(not IS_ROOT, reason="needs root, to become another user")
@pytest.mark.parametrize(("mode", "error"), [(0o666, 1), (0o644, 13)])
def test_an_owner_that_cannot_be_kept_is_an_error_and_nothing_changes(
    tmp_path: Path, mode: int, error: int
) -> None:
    """A file of root in another user's folder: replaceable, but not without a change of owner."""
    root = Path("/tmp") / f"holdfast-owner-{os.getpid()}-{mode:o}"
    (root / "app").mkdir(parents=True)
    try:
        (root / ".git").mkdir()
        file = root / "app/x.rb"
        file.write_text("old\n")
        file.chmod(mode)
        os.chown(root, 12345, 12345)
        os.chown(root / "app", 12345, 12345)
        with Crowd(tmp_path) as crowd:
            said = crowd.start(AS_OTHER, root, tmp_path).done().words("refused")
        assert said == [[str(error), str(file)]]
        assert file.read_text() == "old\n"
        assert leftovers(root) == []
    finally:
        shutil.rmtree(root)


@LINUX_ONLY
def test_user_attributes_of_a_file_are_kept(repository: Path, manager: LockManager) -> None:
    file = repository / "app/x.rb"
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("needs a file system with attributes of users")
    grant = take(manager, "app/x.rb")
    safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)
    assert os.getxattr(file, "user.note") == b"mine"


def test_other_names_of_a_file_keep_the_old_content(
    repository: Path, tmp_path: Path, manager: LockManager
) -> None:
    outside = tmp_path / "outside"
    outside.hardlink_to(repository / "app/x.rb")
    grant = take(manager, "app/x.rb")
    safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)
    assert (repository / "app/x.rb").read_text() == "new"
    assert outside.read_text() == "old\n"


WITHOUT_POWER = """
from holdfast import LockManager, safe_write
manager = LockManager.open(sys.argv[1])
grant = manager.acquire(holder="ann", write_paths=["app/x.rb", "app/new.rb", "lib/y.rb"])
for path in grant.write_paths:
    try:
        safe_write(path, "new", grant_id=grant.id, manager=manager)
    except PermissionError as error:
        say("refused", error.filename)
"""


@LINUX_ONLY
def test_a_folder_or_a_file_that_may_not_be_written_is_an_error_and_nothing_changes(
    repository: Path, tmp_path: Path
) -> None:
    prefix = []
    if IS_ROOT:  # no mode stops root: drop that privilege
        assert shutil.which("setpriv"), "these tests need setpriv when they run as root"
        prefix = ["setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search"]
    before = files(repository)
    (repository / "app").chmod(0o555)
    (repository / "lib/y.rb").chmod(0o444)
    try:
        with Crowd(tmp_path) as crowd:
            child = crowd.start(WITHOUT_POWER, repository, prefix=prefix).done()
    finally:
        (repository / "app").chmod(0o755)
    paths = ("app/x.rb", "app/new.rb", "lib/y.rb")
    assert child.words("refused") == [[str(repository / path)] for path in paths]
    assert files(repository) == before
    assert leftovers(repository) == []


def test_folders_made_for_a_failed_write_are_removed(
    repository: Path, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = take(manager, "made/deep/x")

    def no_space(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    with pytest.raises(OSError, match="No space") as caught:
        safe_write("made/deep/x", "new", grant_id=grant.id, manager=manager)
    assert caught.value.filename == str(repository / "made/deep/x")
    assert not (repository / "made").exists()


def test_where_files_must_have_a_name_it_works_too(
    repository: Path, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "_NAMELESS", 0)
    grant = take(manager, "app/x.rb", "made/new.rb")
    (repository / "app/x.rb").chmod(0o751)
    for path in grant.write_paths:
        safe_write(path, "new", grant_id=grant.id, manager=manager)
        assert (repository / path).read_text() == "new"
    assert stat.S_IMODE((repository / "app/x.rb").stat().st_mode) == 0o751
    manager.force(grant.id, by="eve", reason="test")
    monkeypatch.setattr(checked_write, "_check_grant", lambda *_: grant.token)
    refused("lost", "app/x.rb", "late", grant_id=grant.id, manager=manager)
    assert leftovers(repository) == []


def test_where_folders_cannot_be_opened_it_works_too(
    repository: Path, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "_BY_FOLDER", False)
    grant = take(manager, "app/x.rb", "made/new.rb")
    for path in grant.write_paths:
        safe_write(path, "new", grant_id=grant.id, manager=manager)
        assert (repository / path).read_text() == "new"
    (repository / "app").rename(repository / "was")
    (repository / "app").symlink_to("was")
    with pytest.raises(LockViolationError):
        safe_write("app/x.rb", "newer", grant_id=grant.id, manager=manager)
    assert (repository / "was/x.rb").read_text() == "new"
    assert leftovers(repository) == []


# Races


def swap_before(monkeypatch: pytest.MonkeyPatch, call: str, swap: Callable[[], None]) -> None:
    """Call `swap` once, just before the replacement's next call of this method."""
    real = getattr(replacement.Replacement, call)
    done: list[int] = []

    def swapped(self: object, *arguments: object) -> object:
        if not done:
            done.append(1)
            swap()
        return real(self, *arguments)

    monkeypatch.setattr(replacement.Replacement, call, swapped)


@pytest.mark.parametrize("call", ["prepare", "commit"])
@pytest.mark.parametrize("kind", ["link out", "moved out", "another folder", "gone"])
def test_a_folder_that_is_swapped_on_the_way_leads_nowhere(
    repository: Path,
    tmp_path: Path,
    manager: LockManager,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    kind: str,
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.rb").write_text("theirs")

    def swap() -> None:
        (repository / "app").rename(tmp_path / "was")
        if kind in ("link out", "moved out"):
            (repository / "app").symlink_to(outside if kind == "link out" else tmp_path / "was")
        elif kind == "another folder":
            (repository / "app").mkdir()

    grant = take(manager, "app/x.rb")
    swap_before(monkeypatch, call, swap)
    options: dict[str, Any] = {"grant_id": grant.id, "manager": manager}
    if call == "prepare" and kind in ("another folder", "gone"):
        safe_write("app/x.rb", "new", **options)  # nothing was checked earlier
        assert (repository / "app/x.rb").read_text() == "new"
    else:
        refused("moved", "app/x.rb", "new", **options)
    assert (outside / "x.rb").read_text() == "theirs"
    assert (tmp_path / "was/x.rb").read_text() == "old\n"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("call", ["prepare", "commit"])
def test_a_file_that_becomes_a_link_is_not_followed(
    repository: Path,
    tmp_path: Path,
    manager: LockManager,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("theirs")

    def swap() -> None:
        (repository / "app/x.rb").unlink()
        (repository / "app/x.rb").symlink_to(outside)

    grant = take(manager, "app/x.rb")
    swap_before(monkeypatch, call, swap)
    refused("moved", "app/x.rb", "new", grant_id=grant.id, manager=manager)
    assert outside.read_text() == "theirs"
    assert (repository / "app/x.rb").is_symlink()
    assert leftovers(tmp_path) == []


def test_a_link_that_leads_out_of_the_tree_is_not_followed(
    repository: Path, tmp_path: Path, manager: LockManager
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.rb").write_text("theirs")
    (repository / "door").symlink_to(outside)
    (repository / "app/file.rb").symlink_to(outside / "x.rb")
    grant = take(manager, "app/x.rb")
    for path in ("door/x.rb", "door/new.rb", "app/file.rb", "../outside/x.rb", outside / "x.rb"):
        for more in ({}, {"allowed_write_paths": [outside, repository]}):
            refused("outside", path, "new", grant_id=grant.id, manager=manager, **more)
            refused("outside", path, "new", manager=manager, **more)
    assert files(outside) == {"x.rb": b"theirs"}


SWAPPER = """
root, outside = sys.argv[1:]
say("ready")
while True:
    os.rename(f"{root}/app", f"{root}/real")
    os.symlink(outside, f"{root}/app")
    os.unlink(f"{root}/app")
    os.rename(f"{root}/real", f"{root}/app")
"""


@LINUX_ONLY
def test_a_process_that_keeps_swapping_folders_diverts_nothing(
    repository: Path, tmp_path: Path, manager: LockManager
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    grant = take(manager, "app/x.rb")
    written = 0
    with Crowd(tmp_path) as crowd:
        crowd.start(SWAPPER, repository, outside).wait_for("ready")
        end = monotonic() + PATIENCE_SECONDS
        for number in count():
            try:
                safe_write("app/x.rb", f"{number}", grant_id=grant.id, manager=manager)
                written += 1
            except (LockViolationError, BadKeyError, OSError):
                pass
            if (written and number >= 300) or monotonic() > end:
                break
    assert os.listdir(outside) == []
    assert written > 0
    assert leftovers(tmp_path) == []


# Real processes


LATE = """
from holdfast import LockManager, LockViolationError, safe_write
from holdfast.gate.replacement import Replacement
manager = LockManager.open(sys.argv[1])
grant = manager.acquire(holder="late", write_paths=["app/x.rb"], ttl=float(sys.argv[2]))
prepared = Replacement.prepare
def prepare_and_stop(self, content):
    prepared(self, content)
    say("prepared")
    go()
Replacement.prepare = prepare_and_stop
try:
    safe_write("app/x.rb", "too late", grant_id=grant.id, token=grant.token, manager=manager)
except LockViolationError as error:
    say("refused", error.fields["reason"])
"""


@LINUX_ONLY
def test_seed004_safe_write_stops_a_late_writer_whose_lease_was_stolen(
    repository: Path, tmp_path: Path, manager: LockManager
) -> None:
    with Crowd(tmp_path) as crowd:
        late = crowd.start(LATE, repository, 0.2)
        late.wait_for("prepared")
        until(lambda: not manager.active_grants(), "the lease has expired")
        mine = manager.steal(holder="ann", write_paths=["app/x.rb"])
        safe_write("app/x.rb", "mine", grant_id=mine.id, manager=manager)
        late.tell()
        assert late.done().words("refused") == [["lost"]]
    assert (repository / "app/x.rb").read_text() == "mine"
    assert leftovers(repository) == []


@LINUX_ONLY
def test_a_writer_whose_lock_was_forced_away_in_the_middle_is_refused(
    repository: Path, tmp_path: Path, manager: LockManager
) -> None:
    with Crowd(tmp_path) as crowd:
        late = crowd.start(LATE, repository, 600)
        late.wait_for("prepared")
        [grant] = manager.active_grants()
        manager.force(grant.id, by="eve", reason="test")
        late.tell()
        assert late.done().words("refused") == [["lost"]]
    assert (repository / "app/x.rb").read_text() == "old\n"
    assert leftovers(repository) == []


KILLED = """
import holdfast.gate.replacement
from holdfast import LockManager, safe_write
manager = LockManager.open(sys.argv[1])
grant = manager.acquire(holder="killed", write_paths=["app/x.rb"])
def kill(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, sys.argv[2], kill)
safe_write("app/x.rb", "n" * 3_000_000, grant_id=grant.id, manager=manager)
"""


@LINUX_ONLY
@pytest.mark.parametrize("call", ["write", "fchmod", "fsync", "link", "rename"])
def test_killed_before_the_rename_it_leaves_the_old_file(
    repository: Path, tmp_path: Path, manager: LockManager, call: str
) -> None:
    with Crowd(tmp_path) as crowd:
        assert crowd.start(KILLED, repository, call).join() == -9
    assert (repository / "app/x.rb").read_text() == "old\n"
    left = [replacement.TEMPORARY] if call == "rename" else []
    assert leftovers(repository) == left
    grant = take(manager, "app/x.rb")
    safe_write("app/x.rb", "new", grant_id=grant.id, manager=manager)
    assert (repository / "app/x.rb").read_text() == "new"
    assert leftovers(repository) == []


WRITER = """
from holdfast import LockManager, safe_write
manager = LockManager.open(sys.argv[1])
grant = manager.acquire(holder="writer", write_paths=["app/x.rb"])
say("ready")
while True:
    for letter in "ab":
        safe_write("app/x.rb", letter * 2_000_000, grant_id=grant.id, manager=manager)
"""


@LINUX_ONLY
def test_seed004_safe_write_killed_at_any_moment_leaves_the_old_file_or_the_new_one(
    repository: Path, tmp_path: Path
) -> None:
    """A concurrent reader sees one of the two, whole."""
    file = repository / "app/x.rb"
    whole = {b"old\n", b"a" * 2_000_000, b"b" * 2_000_000}
    with Crowd(tmp_path) as crowd:
        for number in range(8):
            writer = crowd.start(WRITER, repository)
            writer.wait_for("ready")
            for _ in range(number + 1):
                assert file.read_bytes() in whole
            writer.kill()
            assert file.read_bytes() in whole
    with LockManager.open(repository) as manager:
        grant = take(manager, "app/x.rb")
        safe_write("app/x.rb", "end", grant_id=grant.id, manager=manager)
    assert leftovers(repository) == []


COUNTER = """
from holdfast import LockManager, safe_write
manager = LockManager.open(sys.argv[1])
for _ in range(20):
    with manager.hold(write_paths=["app/n"]) as grant:
        with open(f"{sys.argv[1]}/app/n") as file:
            number = int(file.read())
        safe_write("app/n", str(number + 1), grant_id=grant.id, manager=manager)
say("done")
"""


@LINUX_ONLY
def test_many_processes_that_write_one_file_lose_nothing(repository: Path, tmp_path: Path) -> None:
    (repository / "app/n").write_text("0")
    with Crowd(tmp_path) as crowd:
        children = [crowd.start(COUNTER, repository) for _ in range(4)]
        for child in children:
            child.done(60)
    assert (repository / "app/n").read_text() == "80"
    assert leftovers(repository) == []


# The command


@pytest.fixture
def project(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project")


def write(
    project: Repository, *words: object, content: bytes = b"new\n", **env: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "write", *map(str, words)], input=content,
        cwd=project.root, env=environment(**env), capture_output=True, check=False, timeout=60,
    )  # fmt: skip


def test_the_command_writes_its_standard_input(project: Repository) -> None:
    answer = project.hold("lock", "app/x.rb", "--holder", "ann", "--json").json["grant"]
    content = b"\0\xffbytes\r\n"
    done = write(project, "app/x.rb", "--grant", answer["id"], content=content)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"wrote app/x.rb, 9 bytes\n"
    assert (project.root / "app/x.rb").read_bytes() == content
    done = write(project, "-C", "app", "x.rb", "--grant", answer["id"],
                 "--token", answer["token"], "--json", content=b"")  # fmt: skip
    assert done.returncode == 0, done
    assert done.stdout.decode() == f'{{"written":"app/x.rb","bytes":0,"grant":"{answer["id"]}"}}\n'
    assert (project.root / "app/x.rb").read_bytes() == b""


def test_the_command_refuses_with_the_reason(project: Repository) -> None:
    done = write(project, "app/x.rb", "--grant", "never-was")
    assert (done.returncode, b"no ledger" in done.stderr) == (4, True)
    grant = project.hold("lock", "app/x.rb", "--holder", "ann", "--json").json["grant"]
    for words, reason in (
        (("app/y.rb", "--grant", grant["id"]), "not_covered"),
        (("app/x.rb", "--grant", "never-was"), "unknown"),
        (("app/x.rb", "--grant", ""), "unknown"),
        (("app/x.rb", "--grant", grant["id"], "--token", "1"), "stale_token"),
    ):
        done = write(project, *words, "--json")
        assert done.returncode == 3
        assert f'"reason":"{reason}"'.encode() in done.stdout
    assert write(project, "app/x.rb").returncode == 2
    assert write(project, "--grant", grant["id"]).returncode == 2
    assert write(project, "app/x.rb", "app/y.rb", "--grant", grant["id"]).returncode == 2
    assert (project.root / "app/x.rb").read_text() == "old\n"


@LINUX_ONLY
def test_the_command_refuses_the_grant_of_another_process(
    project: Repository, tmp_path: Path
) -> None:
    with Crowd(tmp_path) as crowd:
        bob, token = crowd.start(HOLDER, project.root).wait_for("has it")
        done = write(project, "app/x.rb", "--grant", bob, "--json")
        assert (done.returncode, b'"reason":"foreign"' in done.stdout) == (3, True)
        assert (project.root / "app/x.rb").read_text() == "old\n"
        assert write(project, "app/x.rb", "--grant", bob, "--token", token).returncode == 0


def test_a_token_in_the_environment_that_is_none_is_not_taken_for_absent(
    project: Repository,
) -> None:
    grant = project.hold("lock", "app/x.rb", "--holder", "ann", "--json").json["grant"]
    given = {"HOLDFAST_GRANT": grant["id"]}
    for token in ("", "none", "-1", "1"):
        done = write(project, "app/x.rb", **given, HOLDFAST_TOKEN=token)
        assert done.returncode == (3 if token == "1" else 2), done
    assert (project.root / "app/x.rb").read_text() == "old\n"
    assert write(project, "app/x.rb", **given, HOLDFAST_TOKEN=str(grant["token"])).returncode == 0


@LINUX_ONLY
def test_under_run_the_command_finds_its_grant(project: Repository) -> None:
    line = f"echo better | {sys.executable} -m holdfast write app/x.rb"
    answer = project.hold("run", "--write", "app/x.rb", "--", "sh", "-c", line)
    assert answer.code == 0, answer
    assert (project.root / "app/x.rb").read_text() == "better\n"
