"""Damage by commands: detected, reported to both sides, undone.

Real git repositories, real commands, two or three agents.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_guard import Shop, Worker, made_repository, settled, sh, sneaky, text
from holdfast.core.errors import StoreBusyError
from holdfast.gate import guard
from holdfast.gate.guard import after_command, edit_marks, kept_files
from holdfast.gate.intent import Answer


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    root = made_repository(tmp_path / "work")
    made = Shop(root)
    settled(root / "app/x.py", root / "lib/y.py")
    yield made
    made.close()


# Damage


def test_damage_is_found_told_to_both_and_undone(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann's work\n")
    (shop.root / "app/x.py").chmod(0o755)
    said = bob.run(sneaky("app/x.py"))
    assert said.kind == "quiet"
    assert text(shop, "app/x.py") == "ann's work\nsneaky\n"
    (event,) = shop.events("damage")
    id = event.data["id"]
    assert event.data["by"] == "claude:bob"
    assert f"holdfast undo {id}" in said.context
    assert "app/x.py (claude:ann)" in said.context
    assert f"holdfast undo {id}" in said.user
    told = ann.pending()
    assert "claude:bob" in told
    assert f"holdfast undo {id}" in told
    assert ann.pending() == ""  # reported once
    assert bob.pending() == ""
    done = guard.undo(shop.manager, id)
    assert done.restored == ("app/x.py",)
    assert text(shop, "app/x.py") == "ann's work\n"
    assert (shop.root / "app/x.py").stat().st_mode & 0o777 == 0o755
    with pytest.raises(Exception, match="no damage"):
        guard.undo(shop.manager, id)


def hurt_by(shop: Shop, bob: Worker, path: str = "app/x.py") -> str:
    """Let bob's command change files that ann holds; the id of the damage."""
    bob.run(sneaky(path))
    return str(shop.events("damage")[-1].data["id"])


def test_a_message_that_a_killed_hook_owed_is_sent_by_the_next(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann's work\n")
    id = hurt_by(shop, bob)
    guard.pending(shop.manager, ann.gate())  # killed before the message was sent
    assert f"holdfast undo {id}" in ann.pending()
    assert ann.pending() == ""


def test_a_message_owed_while_the_ledger_was_busy_is_sent_by_the_next(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann's work\n")
    id = hurt_by(shop, bob)

    def busy(*_: object) -> None:
        raise StoreBusyError("the ledger is busy")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.manager.transactions.decide", busy)
        with pytest.raises(StoreBusyError):
            ann.pending()
    assert f"holdfast undo {id}" in ann.pending()
    assert not edit_marks.is_called(str(shop.root), ann.holder.key)


def test_a_message_that_arrives_during_another_is_sent_next(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann's work\n")
    ann.write("app/z.py", "ann's work\n")
    first = hurt_by(shop, bob)
    gate = ann.gate()
    told = guard.pending(shop.manager, gate)
    gate.live_on()
    second = hurt_by(shop, bob, "app/z.py")
    assert first in (said := told())
    assert second not in said
    assert second in ann.pending()
    assert ann.pending() == ""


@pytest.mark.parametrize("how", ["ended", "settle"])
def test_owners_are_called_before_the_command_is_forgotten(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann's work\n")
    bob.ask("make")
    sh(shop.root, "echo half > app/x.py")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(after_command, "_close", killed)
    with pytest.raises(KeyboardInterrupt):
        bob.ended("make") if how == "ended" else bob.settle()
    assert "holdfast undo" in ann.pending()


def test_a_file_that_has_changed_again_is_not_undone(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    ann.write("app/z.py", "ann\n")
    bob.run(f"{sneaky('app/x.py')}; {sneaky('app/z.py')}")
    ann.write("app/x.py", "ann again\n")
    id = shop.events("damage")[0].data["id"]
    done = guard.undo(shop.manager, id)
    assert done.restored == ("app/z.py",)
    assert done.left == (("app/x.py", "it has changed again since"),)
    assert text(shop, "app/x.py") == "ann again\n"
    assert guard.undo(shop.manager, id).restored == ()  # a further undo may be attempted


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c 'import os; os.unlink(\"app/x.py\")'",
        "python3 -c 'import shutil; shutil.rmtree(\"app\")'",
        'python3 -c \'import os; os.unlink("app/x.py"); os.symlink("z.py", "app/x.py")\'',
        'python3 -c \'import os; os.replace("README.md", "app/x.py")\'',
    ],
)
def test_removed_and_replaced_files_come_back(shop: Shop, command: str) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    (shop.root / "app/x.py").chmod(0o750)
    bob.run(command)
    guard.undo(shop.manager, shop.events("damage")[0].data["id"])
    assert text(shop, "app/x.py") == "ann\n"
    assert not (shop.root / "app/x.py").is_symlink()
    assert (shop.root / "app/x.py").stat().st_mode & 0o777 == 0o750


def test_a_file_that_changed_a_moment_ago_is_compared_by_its_content(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = str(shop.root / "app/x.py")
    monkeypatch.setattr(kept_files, "is_settled", lambda _stamp: False)
    kind, stamp, name, _kept = kept_files.Kept(str(shop.root)).remember("app/x.py", file)
    monkeypatch.setattr(kept_files, "name_of", lambda _file: "another")
    assert kept_files.has_changed(file, kind, stamp, name)


def test_undo_removes_a_file_that_another_was_about_to_make(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.edit("app/new.py", write=None)
    bob.run(sneaky("app/new.py"))
    done = guard.undo(shop.manager, shop.events("damage")[0].data["id"])
    assert done.restored == ("app/new.py",)
    assert not (shop.root / "app/new.py").exists()


def test_a_command_that_failed_is_checked_too(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    said = bob.run(f"{sneaky('app/x.py')}; exit 3", code=3)
    assert "holdfast undo" in said.context


def test_a_change_by_the_owner_itself_is_no_damage(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    ann.write("app/z.py", "ann\n")
    bob.ask("make test")
    ann.write("app/x.py", "ann goes on\n")
    assert bob.ended("make test") == Answer("quiet")
    assert shop.events("damage") == []


def test_another_file_of_an_owner_at_work_counts_as_damaged(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    ann.write("app/z.py", "ann\n")
    bob.ask("make test")
    ann.write("app/x.py", "ann goes on\n")
    sh(shop.root, "echo oops > app/z.py")
    assert "app/z.py (claude:ann)" in bob.ended("make test").context


@pytest.mark.parametrize("first", ["ann", "bob"])
def test_an_owner_that_runs_a_program_itself_may_have_done_it(shop: Shop, first: str) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    for worker in (ann, bob) if first == "ann" else (bob, ann):
        worker.ask("make test")
    sh(shop.root, "echo whose > app/x.py")
    assert bob.ended("make test").context == ""
    ann.ended("make test")


def test_an_owner_whose_program_ended_meanwhile_may_have_done_it(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    ann.ask("make test")
    bob.ask("make test")
    sh(shop.root, "echo whose > app/x.py")
    ann.ended("make test")
    assert bob.ended("make test").context == ""


def test_an_owner_that_only_reads_did_not_do_it(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("make test")
    ann.run("cat app/x.py")
    sh(shop.root, "echo whose > app/x.py")
    assert "holdfast undo" in bob.ended("make test").context


def test_a_change_to_a_file_that_came_free_is_no_damage(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("make test")
    ann.gate().end_session()
    sh(shop.root, "echo other > app/x.py")
    assert "holdfast undo" not in bob.ended("make test").context
    assert shop.events("damage", "damage_to_be_told") == []
    assert not any(
        Path(edit_marks.guard_path(str(shop.root), "undo")).iterdir()
    )  # no content is kept for it


def test_a_file_that_was_only_touched_is_not_damaged(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    said = bob.run('python3 -c \'import os; os.utime("app/x.py"); os.chmod("app/z.py", 0o600)\'')
    assert said.context == ""
    assert shop.events("damage") == []


def test_the_parent_is_told_of_damage_to_a_sub_agents_files(shop: Shop) -> None:
    child, ann, bob = shop.worker("ann", "kid"), shop.worker("ann"), shop.worker("bob")
    child.write("app/x.py", "child\n")
    bob.run(sneaky("app/x.py"))
    assert "app/x.py" in ann.pending()
    assert "app/x.py" in child.pending()


def test_the_same_command_twice_at_once(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("make test")
    bob.ask("make test")
    assert len(kept_files.all_running(str(shop.root))) == 2
    watched = Path(edit_marks.guard_path(str(shop.root), "watch"))
    bob.ended("make test")
    assert list(watched.iterdir()) != []  # the other one still watches
    sh(shop.root, "echo oops > app/x.py")
    assert "holdfast undo" in bob.ended("make test").context
    assert kept_files.all_running(str(shop.root)) == []
    assert list(watched.iterdir()) == []


def test_an_end_without_a_beginning_says_nothing(shop: Shop) -> None:
    assert shop.worker("ann").ended("make").kind == "quiet"


def test_too_large_a_file_is_recorded_but_not_kept(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "KEPT_BYTES_MAX", 100)
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "x" * 101)
    ann.write("app/z.py", "small\n")
    bob.run(f"{sneaky('app/x.py')}; {sneaky('app/z.py')}")
    done = guard.undo(shop.manager, shop.events("damage")[0].data["id"])
    assert done.restored == ("app/z.py",)
    assert "too large" in done.left[0][1]


def test_a_file_too_large_to_read_is_compared_by_its_size_and_time(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_files, "HASHED_BYTES_MAX", 50)
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "x" * 101)
    assert bob.run("make -v").context == ""
    assert "holdfast undo" in bob.run(sneaky("app/x.py")).context


def test_a_second_command_reads_nothing_again_that_did_not_change(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    settled(shop.root / "app/x.py")
    bob.run("make -v")
    monkeypatch.setattr(kept_files, "content_of", lambda *_: pytest.fail("read again"))
    bob.run("make -v")


def test_a_folder_for_contents_that_cannot_be_written_stops_no_command(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    (shop.root / ".holdfast/aside").write_text("no folder")
    said = bob.run("make -v")
    assert said.kind == "quiet"
    said = bob.ask("make -v")
    assert "could not be watched" in said.user


def test_old_things_are_swept_away(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.run(sneaky("app/x.py"))
    bob.run(sneaky("app/z.py"))  # which is reported to it
    bob.ask("never ends")
    root = str(shop.root)
    id = shop.events("damage")[0].data["id"]
    assert list(Path(edit_marks.guard_path(root, "said")).iterdir()) != []
    for folder, age in (("running", 2), ("kept", 2), ("said", 2), ("watch", 2), ("undo", 8)):
        old = time.time() - age * 86400
        place = Path(edit_marks.guard_path(root, folder))
        for file in [place, *place.rglob("*")]:
            os.utime(file, (old, old))
    os.utime(edit_marks.guard_path(root, "swept"), (0, 0))
    bob.run("make -v")
    assert kept_files.all_running(root) == []
    assert not Path(edit_marks.guard_path(root, "undo", id)).exists()
    assert list(Path(edit_marks.guard_path(root, "said")).iterdir()) == []
    assert [event.data["id"] for event in shop.events("damage_forgotten")] == [id]


def test_undo_puts_back_what_a_command_hurt(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.run(sneaky("app/x.py"))
    id = shop.events("damage")[0].data["id"]
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "-C", str(shop.root), "undo", id],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "restored app/x.py\n"), done.stderr
    assert (shop.root / "app/x.py").read_text() == "ann\n"


def test_undo_of_unknown_damage_says_so(shop: Shop) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "-C", str(shop.root), "undo", "nothing"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "nothing" in done.stderr


def test_messages_are_sent_with_a_command_that_cannot_be_watched(shop: Shop) -> None:
    ann, bob, cid = shop.worker("ann"), shop.worker("bob"), shop.worker("cid")
    ann.write("app/x.py", "ann\n")
    cid.write("lib/y.py", "cid\n")
    assert bob.edit("app/x.py").kind == "deny"
    ann.gate().end_session()
    folder = shop.root / ".holdfast/aside"
    folder.mkdir(exist_ok=True)
    (folder / "running").write_text("this is no folder")
    said = bob.ask("make")
    assert "could not be watched" in said.user
    assert "app/x.py came free and is yours now" in said.context
