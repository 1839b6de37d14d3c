"""The bundle: the code that the hook usually needs in one file, used only while up to date."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from marshal import dumps, loads
from pathlib import Path

import pytest

import holdfast
from holdfast.gate.door import bundle

PACKAGE = Path(holdfast.__file__).parent
#: Compiled files may be copied, except those that another process is just writing.
NOT_COPIED = ("testing", "cli", "*.bundle*", "*.pyc.*")
EDIT = (
    b'{"session_id":"s","cwd":"%s","hook_event_name":"PreToolUse","tool_name":"Write",'
    b'"tool_input":{"file_path":"%s/app/x.rb"}}'
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, so that its sources can be changed."""
    made = tmp_path / "lib" / "holdfast"
    shutil.copytree(PACKAGE, made, ignore=shutil.ignore_patterns(*NOT_COPIED))
    return made


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The same rooms with almost empty modules."""
    made = tmp_path / "small" / "holdfast"
    for room in bundle.ROOMS[bundle.HOOK]:
        (made / room).mkdir(parents=True, exist_ok=True)
        (made / room / "__init__.py").touch()
    for source in ("gate/door/unbundle.py", "gate/door/client_events.py", "gate/clients/claude.py"):
        (made / source).touch()
    return made


def run(
    package: Path, root: Path, *options: str, told: bytes = EDIT
) -> subprocess.CompletedProcess[bytes]:
    (root / ".holdfast").mkdir(exist_ok=True)
    place = os.fsencode(root)
    return subprocess.run(
        [sys.executable, "-I", "-S", *options, str(package / "gate/hook.py"), "claude"],
        input=told % (place, place), capture_output=True, timeout=60, check=False,
        env={**os.environ, "CLAUDE_PID": str(os.getpid())},
    )  # fmt: skip


def imported_one_by_one(package: Path, root: Path) -> set[str]:
    """The modules of ours that were read from files of their own."""
    done = run(package, root, "-v")
    assert done.returncode == 0
    lines = done.stderr.decode().splitlines()
    return {
        line.rsplit("/holdfast/", 1)[1].split(" ")[0].replace("__pycache__/", "")
        for line in lines
        if "/holdfast/" in line and ("code object from" in line or "matches" in line)
    }


def test_with_a_bundle_nothing_is_imported_from_a_file_of_its_own(
    package: Path, repository: Path
) -> None:
    assert imported_one_by_one(package, repository)
    assert bundle.write(str(package))
    assert imported_one_by_one(package, repository) == set()


def test_a_changed_source_makes_the_bundle_count_no_more(package: Path, repository: Path) -> None:
    bundle.write(str(package))
    door = package / "gate/door/client_events.py"
    door.write_text(door.read_text().replace("def answer(", "def answer(  # changed\n"))
    assert any("door" in name for name in imported_one_by_one(package, repository))
    assert run(package, repository).returncode == 0


def test_a_changed_source_that_is_seldom_needed_is_imported_as_it_is_now(
    package: Path, repository: Path
) -> None:
    bundle.write(str(package))
    adapter = package / "gate/clients/claude.py"
    adapter.write_text(f"{adapter.read_text()}\nCHANGED = True\n")
    assert imported_one_by_one(package, repository) == {"gate/clients/claude.py"}


def test_an_upgraded_package_has_no_use_for_its_old_bundle(
    tmp_path: Path, package: Path, repository: Path
) -> None:
    """An upgrade replaces files one by one, which changes their folders; the hook checks the
    folders, which is faster than checking every file."""
    installed = tmp_path / "lib" / "site-packages" / "holdfast"
    installed.parent.mkdir(parents=True)
    package.rename(installed)
    assert run(installed, repository).returncode == 0  # every module is compiled after this
    bundle.write(str(installed))
    assert imported_one_by_one(installed, repository) == set()
    source = installed / "core/bulk_rules.py"
    new = source.with_name("new")
    new.write_text(f"{source.read_text()}\n")
    new.rename(source)
    assert any("bulk_rules" in name for name in imported_one_by_one(installed, repository))


def test_a_bundle_that_is_true_is_not_made_again_and_any_other_is(
    small: Path, tmp_path: Path
) -> None:
    file = Path(bundle.file_of(str(small)))

    def is_made_again() -> bool:
        before = file.stat().st_ino
        kept = tmp_path / "kept"
        os.link(file, kept)  # so that no other file gets its inode number
        assert bundle.write(str(small))
        kept.unlink()
        return file.stat().st_ino != before

    assert bundle.write(str(small))
    assert not is_made_again()
    for source in (
        "gate/door/client_events.py",
        "gate/clients/claude.py",
        "__init__.py",
        "gate/door/unbundle.py",
    ):
        with open(small / source, "a") as stream:
            stream.write("\n")
        assert is_made_again(), source
    (small / "core/more.py").write_text("")
    assert is_made_again()
    (small / "core/more.py").unlink()
    assert is_made_again()
    for content in (b"", b"x", b"\xff" * 1000, file.read_bytes()[:500], dumps((1, 2, 3, 4, 5))):
        file.write_bytes(content)
        assert is_made_again()
    assert not is_made_again()


def test_a_bundle_with_damage_in_its_code_is_made_again(small: Path) -> None:
    """It loads, names the right sources, and contains different code."""
    (small / "gate/door/client_events.py").write_text("ANSWER = 'refused'\n")
    assert bundle.write(str(small))
    file = Path(bundle.file_of(str(small)))
    good = file.read_bytes()
    assert good.count(b"refused") == 1
    bad = good.replace(b"refused", b"allowed")
    loads(bad[bundle.SIZE_BYTES :])
    file.write_bytes(bad)
    assert bundle.write(str(small))
    assert file.read_bytes() == good


def test_the_bundle_of_an_installed_package_is_always_made_again(
    tmp_path: Path, small: Path
) -> None:
    """The bundle is checked by its folders, and an edit inside a file does not change them."""
    installed = tmp_path / "lib" / "site-packages" / "holdfast"
    installed.parent.mkdir(parents=True)
    small.rename(installed)
    assert bundle.write(str(installed))
    before = Path(bundle.file_of(str(installed))).read_bytes()
    with open(installed / "gate/door/client_events.py", "a") as stream:
        stream.write("CHANGED = True\n")
    assert bundle.write(str(installed))
    assert Path(bundle.file_of(str(installed))).read_bytes() != before


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 1000, 5000, -5000, None])
def test_a_broken_bundle_is_as_good_as_none(
    package: Path, repository: Path, content: bytes | int | None
) -> None:
    """With garbage in it, cut off in the part that is read first, cut off behind it, or without
    anything behind it."""
    file = Path(bundle.file_of(str(package)))
    file.parent.mkdir(exist_ok=True)
    if not isinstance(content, bytes):
        assert bundle.write(str(package))
        whole = file.read_bytes()
        end = bundle.SIZE_BYTES + int(whole[: bundle.SIZE_BYTES]) if content is None else content
        content = whole[:end]
    file.write_bytes(content)
    done = run(package, repository)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_where_it_cannot_be_written_hooks_work_without_it(package: Path, repository: Path) -> None:
    shutil.rmtree(package / "gate/__pycache__", ignore_errors=True)
    (package / "gate/__pycache__").write_text("in the way")
    assert not bundle.write(str(package))
    assert run(package, repository).returncode == 0


def test_the_bundle_of_a_copied_package_is_not_the_copys(
    package: Path, repository: Path, tmp_path: Path
) -> None:
    bundle.write(str(package))
    copy = tmp_path / "copy" / "holdfast"
    shutil.copytree(package, copy)
    assert imported_one_by_one(copy, repository)


# Half an upgrade


@pytest.mark.parametrize(
    "broken", ["gate/pending_writes.py", "gate/intent.py", "gate/door/hook_process.py"]
)
@pytest.mark.parametrize(
    ("event", "code"),
    [
        ("PreToolUse", 2), ("PostToolUse", 0), ("UserPromptSubmit", 0), ("Stop", 0),
        ("SubagentStop", 0), ("SessionStart", 0), ("SessionEnd", 0), ("", 2),
    ],
)  # fmt: skip
def test_a_package_that_cannot_be_imported_refuses_what_may_write_and_nothing_else(
    package: Path, repository: Path, broken: str, event: str, code: int
) -> None:
    (package / broken).write_text("from holdfast import nothing_of_that_name\n")
    done = run(package, repository, told=EDIT.replace(b"PreToolUse", event.encode()))
    assert (done.returncode, done.stdout) == (code, b"")
    assert bool(done.stderr) == bool(code)
