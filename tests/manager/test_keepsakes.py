"""Keepsakes: files come back as they were, to the byte, whatever was done to them meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.model import Holder
from holdfast.gate.git import commit_check
from holdfast.manager.files import file_restore, keepsakes
from holdfast.manager.files.keepsakes import Keepsake, KeepsakeError, marked
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import own_witness

pytestmark = pytest.mark.skipif(os.name != "posix", reason="flock and folders as descriptors")

CONTENT = bytes(range(256)) * 5000
PATHS = ["bin/run.sh", "link", "empty", "missing/deep/new.rb", "closed", "odd \udcff\n name"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "repository"
    (made / "bin").mkdir(parents=True)
    (made / "bin/run.sh").write_bytes(CONTENT)
    (made / "bin/run.sh").chmod(0o755)
    (made / "target").write_text("behind the link\n")
    (made / "link").symlink_to("target")
    (made / "empty").touch()
    (made / "closed").write_text("read only\n")
    (made / "closed").chmod(0o444)
    (made / "odd \udcff\n name").write_text("odd\n")
    return made


def picture(root: Path) -> dict[str, Any]:
    """All files, except those of the keepsake itself."""
    found: dict[str, Any] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if one != ".holdfast"]
        for name in [*files, *folders]:
            path = os.path.join(folder, name)
            now = os.lstat(path)
            kind = stat.S_IFMT(now.st_mode)
            what: Any = None
            if kind == stat.S_IFLNK:
                what = os.readlink(path)
            elif kind == stat.S_IFREG:
                what = (Path(path).read_bytes(), stat.S_IMODE(now.st_mode))
            found[os.path.relpath(path, root)] = (kind, what)
    return found


def written_in_place(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(b"half")


def truncated(path: Path) -> None:
    path.write_bytes(b"")


def deleted(path: Path) -> None:
    path.unlink()


def renamed_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def replaced(path: Path) -> None:
    path.with_name("new").write_bytes(b"new")
    path.with_name("new").replace(path)


def made_a_folder(path: Path) -> None:
    path.unlink()
    (path / "inside").mkdir(parents=True)
    (path / "inside/x").write_text("x")


def made_a_link(path: Path) -> None:
    (path.parent / "victim").write_text("do not write me\n")
    path.unlink()
    path.symlink_to("victim")


def linked_to_another(path: Path) -> None:
    (path.parent / "victim").write_text("do not write me\n")
    path.unlink()
    os.link(path.parent / "victim", path)


def closed_to_its_owner(path: Path) -> None:
    path.write_bytes(b"half")
    path.chmod(0)


def made_executable(path: Path) -> None:
    path.chmod(0o777)


DAMAGE = [
    written_in_place, truncated, deleted, renamed_away, replaced, made_a_folder, made_a_link,
    linked_to_another, closed_to_its_owner, made_executable,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda one: one.__name__)
def test_whatever_was_done_to_a_file_it_comes_back_to_the_byte(
    root: Path, damage: Callable[[Path], None]
) -> None:
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(PATHS)
    damage(root / "bin/run.sh")
    assert keepsake.put_back() == ["bin/run.sh"]
    after = picture(root)
    for extra in ("bin/victim", "bin/elsewhere"):  # not files of the grant
        after.pop(extra, None)
    assert after == before
    if (root / "bin/victim").exists():
        assert (root / "bin/victim").read_text() == "do not write me\n"
    assert not keepsake.is_there


def test_an_owner_and_attributes_come_back_also_where_nothing_else_changed(root: Path) -> None:
    path = root / "bin/run.sh"
    try:
        os.setxattr(path, "user.had", b"1")
    except OSError:
        pytest.skip("no attributes on this file system")
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh", "link", "empty"])
    owner = path.stat().st_uid
    os.removexattr(path, "user.had")
    os.setxattr(path, "user.new", b"2")
    os.setxattr(root / "empty", "user.new", b"2")
    (root / "empty").write_text("half")
    if os.geteuid() == 0:
        os.chown(path, 1000, 1000)
        os.chown(root / "link", 1000, 1000, follow_symlinks=False)
    changed = keepsake.put_back()
    assert [one for one in changed if one != "link"] == ["bin/run.sh", "empty"]
    assert {name: os.getxattr(path, name) for name in os.listxattr(path)} == {"user.had": b"1"}
    assert os.listxattr(root / "empty") == []
    assert path.stat().st_uid == os.lstat(root / "link").st_uid == owner


@pytest.mark.parametrize("path", PATHS)
def test_every_kind_of_file_comes_back(root: Path, path: str) -> None:
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(PATHS)
    full = root / path
    if os.path.lexists(full):
        full.unlink()
    full.parent.mkdir(parents=True, exist_ok=True)
    full.write_text("another file")
    assert keepsake.put_back() == [path]
    assert picture(root) == before


def test_a_restored_file_is_newer_than_results_from_half_an_edit(
    root: Path,
) -> None:
    long_ago = 1_500_000_000_000_000_000
    for path in ("empty", "bin/run.sh"):
        os.utime(root / path, ns=(long_ago, long_ago))
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh", "empty"])
    written_in_place(root / "bin/run.sh")
    built = (root / "bin/run.sh").stat().st_mtime_ns
    keepsake.put_back()
    assert (root / "bin/run.sh").stat().st_mtime_ns >= built
    assert (root / "empty").stat().st_mtime_ns == long_ago, "nothing was done to this one"


def test_a_file_written_through_a_link_is_restored_behind_it(root: Path) -> None:
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["link"])
    (root / "link").write_text("half")
    keepsake.put_back()
    left, right = picture(root), before
    assert left["link"] == right["link"]
    assert left["target"] == right["target"]


def test_other_names_of_a_file_that_was_written_in_place_have_its_content_again(
    root: Path,
) -> None:
    os.link(root / "bin/run.sh", root / "second")
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh"])
    inode = os.stat(root / "second").st_ino
    written_in_place(root / "bin/run.sh")
    keepsake.put_back()
    assert (root / "second").read_bytes() == CONTENT
    assert os.stat(root / "bin/run.sh").st_ino == inode


@pytest.mark.parametrize("deed", ["replaced", "a link", "a full disk"])
def test_a_file_that_was_replaced_is_at_no_moment_missing_or_empty_while_it_comes_back(
    root: Path, monkeypatch: pytest.MonkeyPatch, deed: str
) -> None:
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh"])
    other = root / "other"
    other.symlink_to("../target") if deed == "a link" else other.write_text("half")
    os.replace(other, root / "bin/run.sh")
    seen: list[bool] = []
    pour = file_restore.pour

    def poured(source: int, target: int) -> None:
        seen.append(bool((root / "bin/run.sh").read_bytes()))
        if deed == "a full disk" and "/new" in os.readlink(f"/proc/self/fd/{target}"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        pour(source, target)

    monkeypatch.setattr(file_restore, "pour", poured)
    keepsake.put_back()
    assert picture(root) == before
    # Without space for both, being restored matters more than never being missing.
    assert all(seen) == (deed != "a full disk")


def test_nothing_is_put_back_through_a_folder_that_became_a_link(
    root: Path, tmp_path: Path
) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh"])
    (root / "bin").rename(tmp_path / "outside")
    (root / "bin").symlink_to(tmp_path / "outside")
    (tmp_path / "outside/run.sh").write_text("not in the repository\n")
    with pytest.raises(KeepsakeError, match=r"bin/run\.sh could not be restored"):
        keepsake.put_back()
    assert (tmp_path / "outside/run.sh").read_text() == "not in the repository\n"
    assert keepsake.is_there, "it is still kept"


def test_the_content_by_an_agent_is_kept_for_people(root: Path) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh", "missing/deep/new.rb"])
    written_in_place(root / "bin/run.sh")
    (root / "missing/deep").mkdir(parents=True)
    (root / "missing/deep/new.rb").write_text("new\n")
    keepsake.put_back()
    assert Path(keepsake.folder, "left/bin/run.sh").read_bytes()[:4] == b"half"
    assert Path(keepsake.folder, "left/missing/deep/new.rb").read_text() == "new\n"


def test_a_file_that_cannot_be_copied_is_refused_before_the_work_begins(root: Path) -> None:
    keepsake = Keepsake(str(root), "item")
    with pytest.raises(KeepsakeError, match="it is a folder"):
        keepsake.keep(["empty", "bin"])
    assert not keepsake.is_there


def test_a_copy_is_for_its_owner_only(root: Path) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh"])
    assert stat.S_IMODE(os.stat(f"{keepsake.folder}/before/0").st_mode) == 0o600


class Cut(BaseException):
    """The process ends here."""


def cut_off(monkeypatch: pytest.MonkeyPatch, after: int) -> list[int]:
    """From now on so many calls to the system work, and the next one is never made."""
    left = [after]

    class System:
        def __getattr__(self, name: str) -> Any:
            found = getattr(os, name)
            if not callable(found) or isinstance(found, type):
                return found

            def call(*words: Any, **more: Any) -> Any:
                if left[0] == 0:
                    raise Cut
                left[0] -= 1
                return found(*words, **more)

            return call

    for module in (keepsakes, file_restore):
        monkeypatch.setattr(module, "os", System())
    return left


def test_cut_off_at_any_call_it_is_kept_whole_or_not_at_all(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = picture(root)
    for after in range(10_000):
        keepsake = Keepsake(str(root), "item")
        with monkeypatch.context() as patch:
            left = cut_off(patch, after)
            try:
                keepsake.keep(PATHS)
            except Cut:
                pass
            if left[0]:
                return
        assert picture(root) == before, "keeping changes nothing"
        if keepsake.is_there:
            (root / "bin/run.sh").write_bytes(b"half")
            deleted(root / "link")
            keepsake.put_back()
            assert picture(root) == before
    raise AssertionError("it never came to an end")


def test_cut_off_at_any_call_putting_back_begins_again_and_ends_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = picture(root)
    cuts = 0
    for after in range(10_000):
        keepsake = Keepsake(str(root), "item")
        keepsake.keep(PATHS)
        for path in PATHS:
            (root / path).unlink(missing_ok=True)
        (root / "bin/run.sh").mkdir()
        (root / "missing/deep").mkdir(parents=True)
        (root / "missing/deep/new.rb").write_text("x")
        with monkeypatch.context() as patch:
            left = cut_off(patch, after)
            try:
                keepsake.put_back()
            except Cut:
                cuts += 1
        if keepsake.is_there:
            keepsake.put_back()
        assert picture(root) == before, f"cut off after {after} calls"
        if left[0]:
            assert cuts > 50
            return
        shutil.rmtree(keepsake.folder)
    raise AssertionError("it never came to an end")


# Grants of dead owners


def dead_owner(name: str) -> Holder:
    """A holder whose process is gone, and whose files are kept."""
    here = own_witness()
    gone = type(here)(
        host=here.host, boot="another boot", namespace=here.namespace, pid=1, start=1
    )  # fmt: skip
    return marked(Holder(id=name, key=f"work/{name}", witness=gone))


@pytest.fixture
def manager(root: Path) -> Any:
    (root / ".holdfast").mkdir()
    with LockManager.open(root) as made:
        yield made


def left_half_done(manager: LockManager, root: Path) -> str:
    """A grant of a dead owner, with half an edit; its id."""
    grant = manager.try_acquire(
        holder=dead_owner("blog-posts-7"), write_paths=["bin/run.sh"], ttl=None
    )
    assert grant is not None
    keepsake = Keepsake(str(root), "blog-posts-7")
    with keepsake.alone():
        keepsake.keep(["bin/run.sh"])
    (root / "bin/run.sh").write_bytes(b"half")
    return grant.id


LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only there another boot proves death")


@LINUX
@pytest.mark.parametrize("way", ["try_acquire", "ask", "acquire", "ensure", "gate", "queue"])
def test_a_request_that_meets_half_an_edit_of_a_dead_owner_gets_the_file_as_it_was(
    manager: LockManager, root: Path, way: str
) -> None:
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.manager import transactions

    left_half_done(manager, root)
    person = Holder(id="ann", witness=own_witness())
    if way in ("try_acquire", "ensure"):
        assert getattr(manager, way)(holder="ann", write_paths=["bin/run.sh"])
    elif way == "ask":
        assert manager.ask("ann", write_paths=["bin/run.sh"])
    elif way == "acquire":
        assert manager.acquire(holder="ann", write_paths=["bin/run.sh"], timeout=30)
    elif way == "gate":
        ann = Holder(id="ann", key="@claude/ann/", client="claude", session="ann")
        assert (
            LeaseGate(manager, ann, Settings()).permit([str(root / "bin/run.sh")]).kind == "allow"
        )
    else:
        request = manager.request(person, (), ["bin/run.sh"])
        assert transactions.queue(manager, request).id == request.id  # type: ignore[union-attr]
    (grant,) = manager.active_grants()
    assert grant.owner.id in ("ann", "claude:ann")
    assert (root / "bin/run.sh").read_bytes() == CONTENT


@LINUX
def test_a_grant_of_a_dead_owner_is_held_as_long_as_its_files_cannot_be_put_back(
    manager: LockManager, root: Path, tmp_path: Path
) -> None:
    id = left_half_done(manager, root)
    copy = root / ".holdfast/runs/blog-posts-7/before/0"
    copy.rename(tmp_path / "copy")
    manager.reap()
    assert manager.try_acquire(holder="ann", write_paths=["bin/run.sh"]) is None
    assert [grant.id for grant in manager.active_grants()] == [id]
    (tmp_path / "copy").rename(copy)
    assert manager.try_acquire(holder="ann", write_paths=["bin/run.sh"])
    assert (root / "bin/run.sh").read_bytes() == CONTENT


@LINUX
def test_a_keepsake_of_a_grant_that_has_ended_is_never_put_back(
    manager: LockManager, root: Path
) -> None:
    """It was finished, and its dispatcher died before it could remove the keepsake."""
    manager.release(left_half_done(manager, root))
    (root / "bin/run.sh").write_bytes(b"finished")
    assert manager.try_acquire(holder="ann", write_paths=["bin/run.sh"])
    assert manager.try_acquire(holder="bob", write_paths=["bin/run.sh"]) is None
    assert (root / "bin/run.sh").read_bytes() == b"finished"


def test_the_files_of_a_live_owner_are_not_restored(manager: LockManager, root: Path) -> None:
    living = marked(Holder(id="blog-posts-7", key="work/blog-posts-7", witness=own_witness()))
    assert manager.try_acquire(holder=living, write_paths=["bin/run.sh"], ttl=None)
    keepsake = Keepsake(str(root), "blog-posts-7")
    with keepsake.alone():
        keepsake.keep(["bin/run.sh"])
    (root / "bin/run.sh").write_bytes(b"half")
    assert manager.try_acquire(holder="ann", write_paths=["bin/run.sh"]) is None
    assert (root / "bin/run.sh").read_bytes() == b"half"


@LINUX
def test_the_files_of_a_live_owner_are_not_restored_for_a_grant_of_an_earlier_one(
    manager: LockManager, root: Path
) -> None:
    """Work that is tried again has the same name, and its keepsake too."""
    assert manager.try_acquire(holder=dead_owner("task-1"), write_paths=["empty"], ttl=None)
    living = marked(Holder(id="task-1", key="the second attempt", witness=own_witness()))
    assert manager.try_acquire(holder=living, write_paths=["bin/run.sh"], ttl=None)
    keepsake = Keepsake(str(root), "task-1")
    keepsake.keep(["bin/run.sh"])
    (root / "bin/run.sh").write_bytes(b"under way")
    manager.try_acquire(holder="ann", write_paths=["empty"])
    assert (root / "bin/run.sh").read_bytes() == b"under way"
    assert keepsake.is_there


@LINUX
def test_of_many_concurrent_requests_that_meet_half_an_edit_each_finds_the_files_of_the_one_before(
    manager: LockManager, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long a restore takes, no process restores over another's later writes."""
    left_half_done(manager, root)
    pour = file_restore.pour

    first: list[int] = []

    def slowly(source: int, target: int) -> None:
        first.append(threading.get_ident())
        if first[0] == threading.get_ident() and first.count(first[0]) == 2:
            time.sleep(0.5)  # it has set half the edit aside, and is about to write the file
        pour(source, target)

    monkeypatch.setattr(file_restore, "pour", slowly)
    ready = threading.Barrier(6)
    wrong: list[str] = []

    def visit(number: int) -> None:
        with LockManager.open(root) as mine:
            ready.wait()
            grant = None
            while grant is None:  # not in the queue, where the slow one would be granted first
                grant = mine.try_acquire(holder=f"n{number}", write_paths=["bin/run.sh"])
            found = (root / "bin/run.sh").read_bytes()
            if not found.endswith(CONTENT):
                wrong.append(f"{number} found {found[:20]!r}")
            (root / "bin/run.sh").write_bytes(b"%d\n" % number + found)
            mine.release(grant.id)

    crowd = [threading.Thread(target=visit, args=(number,)) for number in range(6)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert not wrong
    written = (root / "bin/run.sh").read_bytes()[: -len(CONTENT)].split()
    assert sorted(written) == [b"%d" % number for number in range(6)]


@LINUX
def test_half_an_edit_of_a_dead_owner_is_not_committed(manager: LockManager, root: Path) -> None:
    """Restoring it would not help: half an edit may be staged already."""
    left_half_done(manager, root)
    (held,) = commit_check._of_others(str(root), ["bin/run.sh", "empty"], {})
    assert (held.name, held.grant.holder.id) == ("bin/run.sh", "blog-posts-7")


# One file after the other


def test_files_that_are_kept_one_by_one_come_back_as_they_were(root: Path) -> None:
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    for number, path in enumerate(["bin/run.sh", "link", "empty", "missing/deep/new.rb", "closed"]):
        keepsake.add(str(root / path), f"key{number}")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)
        (root / path).write_text("half an edit")
    again = Keepsake(str(root), "item")  # another process, after the first was killed
    assert again.put_back() == ["bin/run.sh", "link", "empty", "missing/deep/new.rb", "closed"]
    assert picture(root) == before


def test_a_line_that_was_cut_off_is_a_write_that_never_came(root: Path) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.add(str(root / "empty"), "empty")
    (root / "empty").write_text("half")
    with open(f"{keepsake.folder}/before.json", "ab") as file:
        file.write(b'{"at":"closed","kin')
    assert [at for at, _was in keepsake.entries()] == ["empty"]
    assert keepsake.put_back() == ["empty"]
    assert (root / "empty").read_text() == ""


def test_a_line_that_does_not_fit_on_the_disk_leaves_the_list_readable(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.add(str(root / "empty"), "empty")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(OSError, match="No space"):
            keepsake.add(str(root / "closed"), "closed")
    keepsake.add(str(root / "bin/run.sh"), "bin/run.sh")
    assert [at for at, _was in keepsake.entries()] == ["empty", "bin/run.sh"]


def test_only_files_that_the_holder_still_holds_are_restored(root: Path) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    for path in ("empty", "bin/run.sh"):
        keepsake.add(str(root / path), path)
        (root / path).write_text("new")
    keepsake.put_back(lambda key: key != "empty")
    assert (root / "empty").read_text() == "new"
    assert (root / "bin/run.sh").read_bytes() == CONTENT


def test_a_folder_is_restored_where_there_is_a_file_now(root: Path) -> None:
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.add(str(root / "bin/run.sh"), "bin/run.sh")
    (root / "bin/run.sh").unlink()
    (root / "bin").rmdir()
    keepsake.add(str(root / "bin"), "bin")
    (root / "bin").write_text("a file now")
    keepsake.put_back()
    assert picture(root) == before


def test_a_folder_that_was_made_goes_again_unless_another_has_a_file_in_it(root: Path) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    for name in ("made", "made/inner", "shared"):
        (root / name).mkdir()
        keepsake.add_folder(str(root / name))
    (root / "shared/theirs").touch()
    keepsake.put_back()
    assert not (root / "made").exists()
    assert (root / "shared/theirs").exists()


@pytest.mark.parametrize("deed", ["removed", "renamed"])
def test_names_of_one_file_have_the_copy_that_was_made_first(root: Path, deed: str) -> None:
    first, second = root / "bin/run.sh", root / "second"
    os.link(first, second)
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.add(str(first), "first")
    written_in_place(first)
    keepsake.add(str(second), "second")
    keepsake.add(str(root / "third"), "third")
    second.unlink() if deed == "removed" else second.rename(root / "third")
    keepsake.put_back()
    assert picture(root) == before
    assert first.samefile(second)


def test_a_released_file_is_copied_again_under_another_name(root: Path) -> None:
    """Another holder may have written it since."""
    first, second = root / "bin/run.sh", root / "second"
    os.link(first, second)
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.add(str(first), "first", [str(first)])
    first.write_bytes(b"of another holder")
    keepsake.add(str(second), "second", [str(second)])
    second.write_bytes(b"half")
    keepsake.put_back(lambda key: key == "second")
    assert second.read_bytes() == b"of another holder"


def test_an_inode_that_another_file_has_now_has_no_old_copy(root: Path) -> None:
    first, second = root / "bin/run.sh", root / "second"
    os.link(first, second)
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.add(str(first), "first")
    first.unlink()
    second.unlink()
    for number in range(50):  # one of them would get the inode if it were free
        path = root / f"new{number}"
        path.write_bytes(b"%d" % number)
        keepsake.add(str(path), f"new{number}")
        path.write_bytes(b"half")
    keepsake.put_back()
    assert [(root / f"new{number}").read_bytes() for number in range(50)] == [
        b"%d" % number for number in range(50)
    ]


def test_a_folder_comes_back_with_its_mode(root: Path) -> None:
    (root / "bin").chmod(0o750)
    (root / "hollow").mkdir(mode=0o700)
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.keep_folders([str(root / "bin"), str(root / "hollow")])
    keepsake.add(str(root / "bin/run.sh"), "bin/run.sh")
    shutil.rmtree(root / "bin")
    (root / "hollow").rmdir()
    keepsake.keep_folders([])
    keepsake.add_folder(str(root / "bin"))
    (root / "bin").mkdir()
    assert [at for at, _was in keepsake.entries()] == ["bin/run.sh", "bin"]
    assert keepsake.put_back() == ["bin/run.sh"]
    assert stat.S_IMODE((root / "bin").stat().st_mode) == 0o750
    assert stat.S_IMODE((root / "hollow").stat().st_mode) == 0o700
    assert (root / "bin/run.sh").read_bytes() == CONTENT


def test_a_folder_does_not_come_back_where_another_holder_has_a_file(root: Path) -> None:
    (root / "hollow").mkdir()
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    keepsake.keep_folders([str(root / "hollow")])
    (root / "hollow").rmdir()
    (root / "hollow").write_text("theirs")
    assert keepsake.put_back() == []
    assert (root / "hollow").read_text() == "theirs"


def test_a_file_that_blocks_another_restore_is_no_failure(root: Path) -> None:
    """A file that was made where a folder was, which had another file in it."""
    (root / "deep").mkdir()
    (root / "deep/x").write_text("x")
    before = picture(root)
    keepsake = Keepsake(str(root), "item")
    keepsake.begin()
    for name in ("deep/new", "deep/x", "deep"):
        if name == "deep":
            shutil.rmtree(root / "deep")
        keepsake.add(str(root / name), name)
    (root / "deep").write_text("a file")
    keepsake.put_back()
    assert picture(root) == before


CLOSED = {
    "a folder": ["bin"], "a folder on the way": ["missing"], "two": ["bin", "missing"],
    "one in another": ["missing/deep", "missing"],
}  # fmt: skip


@LINUX
@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("mode", [0, 0o555, 0o311])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="root becomes another user")
def test_a_folder_that_its_owner_may_not_enter_is_opened_on_the_way(
    root: Path, closed: str, mode: int, kept: bool
) -> None:
    """With other rights than root's, which enters every folder."""

    def act() -> None:
        before = picture(root)
        modes = {one: stat.S_IMODE(os.lstat(root / one).st_mode) for one in ("bin", ".")}
        keepsake = Keepsake(str(root), "item")
        keepsake.begin()
        if kept:
            keepsake.keep_folders([str(root / "bin")])
        keepsake.add(str(root / "bin/run.sh"), "bin/run.sh")
        keepsake.add(str(root / "missing/deep/new"), "missing/deep/new")
        (root / "bin/run.sh").unlink()
        (root / "missing/deep").mkdir(parents=True)
        (root / "missing/deep/new").write_text("new")
        for one in CLOSED[closed]:
            (root / one).chmod(mode)
        keepsake.put_back()
        if not kept and "bin" in CLOSED[closed]:
            modes["bin"] = mode  # as it was found
        assert modes == {one: stat.S_IMODE(os.lstat(root / one).st_mode) for one in modes}
        (root / "bin").chmod(0o755)
        assert picture(root) == before

    _as_nobody(root, act)


@LINUX
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="root becomes another user")
def test_a_closed_folder_where_a_file_was_is_removed(root: Path) -> None:
    def act() -> None:
        before = picture(root)
        keepsake = Keepsake(str(root), "item")
        keepsake.begin()
        keepsake.add(str(root / "bin/run.sh"), "bin/run.sh")
        (root / "bin/run.sh").unlink()
        (root / "bin/run.sh/inner").mkdir(parents=True)
        (root / "bin/run.sh/inner/x").write_text("x")
        (root / "bin/run.sh/inner").chmod(0)
        (root / "bin/run.sh").chmod(0o555)
        keepsake.put_back()
        assert picture(root) == before

    _as_nobody(root, act)


def _as_nobody(root: Path, act: Callable[[], None]) -> None:
    """Run a function in another process, as an unprivileged user that owns the files below."""
    nobody = 65534
    top = root
    while top != Path("/tmp") and top != Path("/"):
        top.parent.chmod(top.parent.stat().st_mode | 0o111)
        top = top.parent
    for folder, _folders, files in os.walk(root):
        for name in (".", *files):
            os.chown(os.path.join(folder, name), nobody, nobody, follow_symlinks=False)
    child = os.fork()
    if not child:
        try:
            os.setgid(nobody)
            os.setuid(nobody)
            act()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# Work that is accepted


@pytest.mark.parametrize("lands", [False, True])
def test_accepted_and_interrupted_work_leaves_no_copies_once_it_has_landed(
    root: Path, monkeypatch: pytest.MonkeyPatch, lands: bool
) -> None:
    keepsake = Keepsake(str(root), "item")
    keepsake.keep(["bin/run.sh"])
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_words, **_more: None)  # as if it were cut off here
        assert keepsake.accept(lands=lands)
    assert keepsake.is_accepted
    assert (root / ".holdfast/runs/item/before").exists()
    keepsake.landed()
    assert keepsake.is_accepted
    assert os.listdir(root / ".holdfast/runs/item") == ["accepted"]


@LINUX
@pytest.mark.parametrize("lands", [False, True])
def test_landing_work_is_held_although_its_owner_is_dead_and_nothing_is_restored(
    manager: LockManager, root: Path, lands: bool
) -> None:
    left_half_done(manager, root)
    keepsake = Keepsake(str(root), "blog-posts-7")
    assert keepsake.accept(lands=lands)
    got = manager.try_acquire(holder="ann", write_paths=["bin/run.sh"])
    assert (got is None) == lands
    keepsake.landed()
    assert got or manager.try_acquire(holder="ann", write_paths=["bin/run.sh"])
    assert (root / "bin/run.sh").read_bytes() == b"half"
