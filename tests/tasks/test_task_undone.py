"""What a failed task leaves behind beyond the content of files: other names, owners, attributes,
folders. And what it must not do, because it could not be undone."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout, picture, shell
from holdfast.gate.door.delegated_calls import GAP
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_states
from holdfast.work.tasks.task_records import TaskRecord

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    files = {
        "a.txt": "a0\n", "app/h1": "hard\n", "app/x.txt": "x\n", "app/run.sh": "r\n",
        "app/deep/er/x": "x\n", "d/f": "f\n",
    }  # fmt: skip
    made = Checkout(tmp_path, files)
    os.link(made.root / "app/h1", made.root / "app/h2")
    (made.root / "link").symlink_to("a.txt")
    (made.root / "em").mkdir()
    (made.root / "app/inner").mkdir(mode=0o750)
    (made.root / "d").chmod(0o700)
    return made


def whole_picture(root: Path) -> dict[str, Any]:
    """As `picture`, with the owner, the mode and the attributes of everything."""
    found: dict[str, Any] = {}
    for name, what in {**picture(root), ".": ""}.items():
        now = os.lstat(root / name)
        names = os.listxattr(root / name, follow_symlinks=False)
        marks = {one: os.getxattr(root / name, one, follow_symlinks=False) for one in sorted(names)}
        found[name] = (what, oct(now.st_mode), now.st_uid, now.st_gid, marks)
    return found


def fails(checkout: Checkout, *lines: str, **terms: Any) -> TaskRecord:
    found = checkout.dispatch(checkout.task("fails", shell(*lines, "exit 3"), **terms))["fails"]
    assert found.state == task_states.FAILED
    assert "failed with code 3" in found.reason, (found.reason, found.tail)
    return found


# Files with several names


HARD_LINKS = {
    "written, and its other name removed": "echo x >> app/h1; rm app/h2",
    "written, and its other name renamed": "echo x >> app/h2; mv app/h1 app/h3",
    "written, and all names removed": "echo x >> app/h1; rm app/h1; rm app/h2",
    "replaced under one name, written under another": "sed -i s/h/H/ app/h1; echo x >> app/h2",
}


@pytest.mark.parametrize("deed", HARD_LINKS)
def test_a_file_with_several_names_comes_back_under_all_of_them(
    checkout: Checkout, deed: str
) -> None:
    before = whole_picture(checkout.root)
    fails(checkout, HARD_LINKS[deed])
    assert whole_picture(checkout.root) == before
    first, second = os.lstat(checkout.root / "app/h1"), os.lstat(checkout.root / "app/h2")
    assert os.path.samestat(first, second)
    assert first.st_nlink == 2


# Owners and attributes


MARKS = {
    "another owner": "chown 1000 a.txt",
    "another group": "chgrp 1000 a.txt",
    "another owner of a link": "chown -h 1000 link",
    "another owner of a folder": "chown 1000 app",
}
ATTRIBUTE = 'python3 -c \'import os; os.setxattr("{}", "user.k", b"v")\''
ATTRIBUTES = {
    "an attribute": ATTRIBUTE.format("a.txt"),
    "an attribute and content": shell("echo x >> a.txt", ATTRIBUTE.format("a.txt")),
    "an attribute of a folder": ATTRIBUTE.format("app"),
}


@ROOT_ONLY
@pytest.mark.parametrize("deed", MARKS)
def test_what_a_task_gave_away_is_its_owner_s_again(checkout: Checkout, deed: str) -> None:
    before = whole_picture(checkout.root)
    fails(checkout, MARKS[deed])
    assert whole_picture(checkout.root) == before


@pytest.mark.parametrize("deed", ATTRIBUTES)
def test_an_attribute_that_a_task_set_goes_again(checkout: Checkout, deed: str) -> None:
    try:
        os.setxattr(checkout.root / "a.txt", "user.had", b"1")
    except OSError:
        pytest.skip("no attributes on this file system")
    before = whole_picture(checkout.root)
    fails(checkout, ATTRIBUTES[deed])
    assert whole_picture(checkout.root) == before


# Folders


FOLDERS = {
    "a mode": "chmod 777 app",
    "a folder with a mode of its own renamed": "mv d e",
    "a folder with a mode of its own removed": "rm -r d",
    "an empty folder removed": "rmdir em",
    "an empty folder renamed": "mv em app/",
    "an empty folder exchanged for a file": "rmdir em; echo file > em",
    "a folder removed and made again": "rm -r d; mkdir d",
    "an empty folder in one that was renamed": "mv app q",
    "a name that was used again": "mkdir n; mv n m; mkdir n",
    "made and renamed": "mkdir -p n/z; mv n app/",
    "made in a folder that was renamed": "mkdir -p app/sub/er; mv app q",
    "one over another": "mkdir -m 700 n; mv -T n em",
    "what stands in the way of something else": shell(
        "mv app/run.sh app/deep/er/", "mv app/deep moved", "mv moved/er/x app/deep"
    ),
}


@pytest.mark.parametrize("deed", FOLDERS)
def test_a_task_that_fails_leaves_every_folder_as_it_was(checkout: Checkout, deed: str) -> None:
    before = whole_picture(checkout.root)
    fails(checkout, FOLDERS[deed])
    assert whole_picture(checkout.root) == before


@pytest.mark.parametrize("deed", FOLDERS)
def test_a_task_that_succeeds_may_change_folders(checkout: Checkout, deed: str) -> None:
    before = whole_picture(checkout.root)
    found = checkout.dispatch(checkout.task("succeeds", FOLDERS[deed]))["succeeds"]
    assert found.state == task_states.DONE, found.tail
    assert whole_picture(checkout.root) != before


@pytest.mark.parametrize("deed", ["rmdir em", "mv em en", "chmod 777 app"])
def test_a_folder_that_a_task_does_not_declare_is_a_gap(checkout: Checkout, deed: str) -> None:
    before = whole_picture(checkout.root)
    task = checkout.task("declares", f"! {deed}", writes=("a.txt",))
    assert checkout.dispatch(task)["declares"].state == task_states.DONE
    assert whole_picture(checkout.root) == before
    with LockManager.open(str(checkout.root)) as manager:
        gaps = [one.data["path"] for one in manager.events() if one.type == GAP]
    assert gaps == [deed.split()[-1] if "chmod" in deed else "em"]


def test_a_folder_that_a_task_has_made_is_its_own(checkout: Checkout) -> None:
    script = shell("mkdir n", "chmod 700 n", "mv n m", "rmdir m", "! rmdir app")
    task = checkout.task("declares", script, writes=("a.txt",))
    assert checkout.dispatch(task)["declares"].state == task_states.DONE
    with LockManager.open(str(checkout.root)) as manager:
        assert not [one for one in manager.events() if one.type == GAP]


def test_ignored_folders_are_not_put_back_and_no_gap(checkout: Checkout) -> None:
    checkout.write({".gitignore": "out/\n", "out/x/y": ""})
    fails(checkout, "chmod 777 out", "rm -r out", writes=("a.txt",))
    assert not (checkout.root / "out").exists()


# Names that cannot be leased


ODD = {"a line": b"one\ntwo", "a tab": b"a\tb", "an escape": b"a\033[31mb", "bytes": b"a\xffb"}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("deed", ["'wb'", "'r+b'", "unlink", "rename", "chmod"])
@pytest.mark.parametrize("declared", [False, True])
def test_a_name_that_cannot_be_leased_is_refused(
    checkout: Checkout, kind: str, deed: str, declared: bool
) -> None:
    odd = ODD[kind]
    path = os.path.join(os.fsencode(checkout.root), odd)
    if deed != "'wb'":
        Path(os.fsdecode(path)).write_text("as it was\n")
    acts = {"unlink": f"os.unlink({odd!r})", "rename": f"os.rename({odd!r}, b'app/n')",
            "chmod": f"os.chmod({odd!r}, 0)"}  # fmt: skip
    line = acts.get(deed, f"open({odd!r}, {deed}).write(b'new')")
    lines = "import os", "try:", f"    {line}", "except PermissionError:", "    os._exit(0)"
    script = shell("python3 - <<'END'", *lines, "os._exit(1)", "END")
    before = os.lstat(path) if os.path.lexists(path) else None
    terms: dict[str, Any] = {"writes": ("a.txt",)} if declared else {}
    found = checkout.dispatch(checkout.task("odd", script, **terms))["odd"]
    assert found.state == task_states.DONE, found.tail
    assert os.path.lexists(path) == (before is not None)
    if before is not None:
        now = os.lstat(path)
        assert (now.st_mode, now.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_a_refused_name_is_reported(checkout: Checkout) -> None:
    found = fails(checkout, "printf x > 'a\tb' || exit 3")
    assert any("has a name that cannot be leased" in line for line in found.tail)


def test_a_folder_with_such_a_name_in_it_cannot_be_renamed(checkout: Checkout) -> None:
    (checkout.root / "app/a\tb").write_text("as it was\n")
    before = whole_picture(checkout.root)
    fails(checkout, "mv app q || exit 3")
    assert whole_picture(checkout.root) == before


# Files that declare themselves ignored


@pytest.mark.parametrize(
    "deed",
    ["echo '*.out' >> .gitignore", "echo '*.out' > app/new; mv app/new app/.gitignore",
     "mkdir n; echo '*.out' > n/.gitignore; mv n app/"],
)  # fmt: skip
def test_an_agent_that_edits_a_gitignore_gets_no_file_unleased(
    checkout: Checkout, deed: str
) -> None:
    checkout.write({".gitignore": "*.bin\nout/\n", "old.bin": "old\n", "out/x": "x\n"})
    before = whole_picture(checkout.root)
    fails(
        checkout, deed, "echo x > app/a.out", "mkdir -p app/n", "echo x > app/n/a.out",
        "echo new > old.bin", "echo new > out/y",
    )  # fmt: skip
    assert checkout.read("old.bin") == "new\n", "it was ignored before"
    assert checkout.read("out/y") == "new\n"
    checkout.write({"old.bin": "old\n"})
    (checkout.root / "out/y").unlink()
    assert whole_picture(checkout.root) == before


def test_that_is_so_for_the_check_as_well(checkout: Checkout) -> None:
    before = whole_picture(checkout.root)
    task = checkout.task(
        "checked", "echo '*.out' > .gitignore", check="echo x > a.out; exit 3", rounds=1
    )
    assert checkout.dispatch(task)["checked"].state == task_states.FAILED
    assert whole_picture(checkout.root) == before


# Neither files nor folders


@pytest.mark.parametrize("deed", ["rm {}", "mv {} other", "mv a.txt {}", "chmod 777 {}", "mv s t"])
def test_no_task_may_change_a_pipe_or_a_socket_that_was_there(
    checkout: Checkout, deed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout.root / "s").mkdir()
    os.mkfifo(checkout.root / "s/pipe")
    with socket.socket(socket.AF_UNIX) as one, monkeypatch.context() as patch:
        patch.chdir(checkout.root / "s")
        one.bind("socket")
    before = whole_picture(checkout.root)
    for name in ("s/pipe", "s/socket"):
        found = fails(checkout, f"{deed.format(name)} || exit 3")
        assert any("could not be restored" in line for line in found.tail)
    assert whole_picture(checkout.root) == before
    assert stat.S_ISFIFO(os.lstat(checkout.root / "s/pipe").st_mode)


def test_the_times_of_a_folder_may_be_set_by_any_task(checkout: Checkout) -> None:
    """Tools that copy folders do that at the end, and would fail."""
    script = "touch -d 2001-02-03 app; echo new > a.txt"
    found = checkout.dispatch(checkout.task("declares", script, writes=("a.txt",)))["declares"]
    assert found.state == task_states.DONE, (found.reason, found.tail)
    assert (checkout.root / "app").stat().st_mtime < 1_000_000_000
