"""Text to key when things change meanwhile, may not be seen, or are mounted twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.manager.files import realpath
from holdfast.manager.files.paths import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINUX = sys.platform == "linux"
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become another user"
)
needs_linux = pytest.mark.skipif(not LINUX, reason="about /proc and O_PATH, which only Linux has")


@pytest.fixture(params=["look_by_descriptor", "look_by_name"], autouse=True)
def look(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule holds on both ways to look: Linux's quick one, and the one for all systems."""
    if request.param == "look_by_descriptor" and not LINUX:
        pytest.skip("only Linux has O_PATH")
    monkeypatch.setattr(realpath, "look", getattr(realpath, request.param))
    if request.param == "look_by_name":
        monkeypatch.setattr(realpath, "_QUICK_ACCESS", False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / ".holdfast").mkdir(parents=True)
    (root / "app" / "models").mkdir(parents=True)
    (root / "app" / "x.rb").write_text("x")
    return root


@pytest.fixture
def tree(root: Path) -> Tree:
    return Tree(str(root))


# Moments


@pytest.fixture
def at_the_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Do something once, between opening a file and asking for its name."""

    def arrange(deed: Callable[[], object]) -> None:
        real_fstat = os.fstat

        def fstat(descriptor: int) -> os.stat_result:
            monkeypatch.setattr(os, "fstat", real_fstat)
            deed()
            return real_fstat(descriptor)

        monkeypatch.setattr(os, "fstat", fstat)

    return arrange


@needs_linux
def test_a_file_that_is_called_deleted_is_not_taken_for_one_that_is(tree: Tree, root: Path) -> None:
    (root / "x (deleted)").write_text("x")
    place = tree.place("x (deleted)")
    assert place.key == "x (deleted)"
    assert place.inode


@needs_linux
def test_a_file_that_is_deleted_in_between_keeps_its_name(
    tree: Tree, root: Path, at_the_look: Callable[[Callable[[], object]], None]
) -> None:
    at_the_look((root / "app" / "x.rb").unlink)
    assert tree.place("app/x.rb").key == "app/x.rb"


@needs_linux
def test_a_name_that_is_deleted_in_between_is_not_confused_with_another_of_its_file(
    tree: Tree, root: Path, at_the_look: Callable[[Callable[[], object]], None]
) -> None:
    os.link(root / "app" / "x.rb", root / "twin.rb")
    (root / "app" / "x.rb (deleted)").write_text("somebody else's")
    at_the_look((root / "app" / "x.rb").unlink)
    assert tree.place("app/x.rb").key == "app/x.rb"


@needs_linux
def test_a_folder_that_is_replaced_in_between_leads_nowhere_else(
    tree: Tree, root: Path, at_the_look: Callable[[Callable[[], object]], None]
) -> None:
    at_the_look(lambda: (root / "app").rename(root / "old"))
    assert tree.place("app/x.rb").key in ("app/x.rb", "old/x.rb")


def test_a_link_that_is_swapped_in_between_gives_the_key_and_the_inode_of_one_file(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "other.rb").write_text("x")
    (root / "link").symlink_to("app/x.rb")
    monkeypatch.setattr(realpath, "look", realpath.look_by_name)
    real_stat = os.stat

    def stat(path: str) -> os.stat_result:
        status = real_stat(path)
        if path == str(root / "link"):
            monkeypatch.setattr(os, "stat", real_stat)
            (root / "link").unlink()
            (root / "link").symlink_to("other.rb")
        return status

    monkeypatch.setattr(os, "stat", stat)
    place = tree.place("link")
    assert os.readlink(root / "link") == "other.rb"
    assert place == tree.place("other.rb")


@needs_linux
def test_without_proc_the_answers_are_the_same(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "link").symlink_to("app")
    texts = ("app/x.rb", "link/x.rb", "link/new", "new/", ".", "link")
    expected = [tree.place(text) for text in texts]
    real_readlink = os.readlink

    def readlink(path: str) -> str:
        if path.startswith("/proc/"):
            raise FileNotFoundError(path)
        return real_readlink(path)

    monkeypatch.setattr(os, "readlink", readlink)
    assert [tree.place(text) for text in texts] == expected


# Permissions and mounts


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that other users may enter, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


AS_NOBODY = """
import os, sys
from holdfast.core.errors import BadKeyError
from holdfast.manager.files import paths, realpath
realpath.look = getattr(realpath, sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
tree = paths.Tree(sys.argv[2])
for text in sys.argv[3:]:
    try:
        print(tree.place(text).key)
    except BadKeyError as error:
        print(error.message)
"""


@needs_root
def test_where_one_may_not_look_there_is_no_key_but_a_clear_word(public: Path) -> None:
    (public / ".holdfast").mkdir()
    (public / "open").mkdir()
    (public / "open" / "x").write_text("x")
    (public / "shut" / "deep").mkdir(parents=True)
    (public / "shut" / "x").symlink_to("../open/x")
    (public / "link").symlink_to("shut/x")
    (public / "new").symlink_to("shut/new")
    (public / "open" / "unreadable").write_text("x")
    (public / "open" / "unreadable").chmod(0)
    (public / "shut").chmod(0o700)
    clear = ["open/x", "open/unreadable", "open/new", "open"]
    barred = ["shut", "shut/x", "shut/new", "shut/deep/x", "shut/../open/x", "link", "new"]
    texts = clear + barred
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, realpath.look.__name__, str(public), *texts],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    said = dict(zip(texts, done.stdout.splitlines(), strict=True))
    assert [said[text] for text in clear] == clear
    for text in barred:
        assert "permission denied" in said[text]


def in_own_mounts(script: str, *arguments: str) -> list[str]:
    """Run a shell script in which `$0` is Python, and mounts are invisible to other processes."""
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script, sys.executable, *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "mount:" in done.stderr or "unshare:" in done.stderr:
        pytest.skip(f"may not mount here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


can_mount = pytest.mark.skipif(
    not LINUX or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="needs root and unshare, to mount something",
)
PLACES = (
    "import sys; from holdfast.manager.files import paths, realpath; "
    "realpath.look = getattr(realpath, sys.argv[1]); tree = paths.Tree(sys.argv[2]); "
    "print(tree.folds); print(*(tree.place(t) for t in sys.argv[3:]), sep='\\n')"
)


@can_mount
def test_the_tree_by_way_of_a_bind_mount_is_the_same_tree(root: Path) -> None:
    other = root.parent / "other"
    other.mkdir()
    lines = in_own_mounts(
        'mount --bind "$2" "$3"; "$0" -c "$1" "$4" "$2" "$3/app/x.rb" "$3/new" "$3" "$3/app/new/y"',
        PLACES, str(root), str(other), realpath.look.__name__,
    )  # fmt: skip
    tree = Tree(str(root))
    expected = [tree.place(text) for text in ("app/x.rb", "new", ".", "app/new/y")]
    assert lines == ["False", *map(repr, expected)]


@can_mount
def test_a_path_covered_by_a_mount_in_the_tree_itself_is_outside(root: Path) -> None:
    other = root.parent / "other"
    other.mkdir()
    lines = in_own_mounts(
        'mount --bind "$2" "$3"; mount -t tmpfs none "$2/app"; touch "$2/app/x.rb"; '
        '"$0" -c "$1" "$4" "$2" "$3/app/x.rb" 2>&1 >/dev/null | tail -1',
        PLACES, str(root), str(other), realpath.look.__name__,
    )  # fmt: skip
    assert "lies outside the tree" in lines[0]


@can_mount
def test_a_file_system_that_takes_two_cases_for_one_is_noticed(root: Path) -> None:
    (root / ".HOLDFAST").mkdir(exist_ok=True)
    lines = in_own_mounts(
        'mount --bind "$2/.holdfast" "$2/.HOLDFAST"; "$0" -c "$1" "$3" "$2" NEW',
        PLACES, str(root), realpath.look.__name__,
    )  # fmt: skip
    assert lines[0] == "True"
    assert "key='new'" in lines[1]
    assert "path='NEW'" in lines[1]
