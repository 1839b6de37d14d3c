"""Text to key: every rule of `holdfast.manager.files.paths`, on a real disk."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.core import keys
from holdfast.core.errors import BadKeyError
from holdfast.manager.files import paths, realpath
from holdfast.manager.files.paths import Place, Tree, Words, find_root

if TYPE_CHECKING:
    pass

LINUX = sys.platform == "linux"
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become another user"
)
needs_linux = pytest.mark.skipif(not LINUX, reason="about /proc and O_PATH, which only Linux has")
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git command")


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
    (root / "app" / "models" / "user.rb").write_text("x")
    return root


@pytest.fixture
def tree(root: Path) -> Tree:
    return Tree(str(root))


def refusal(tree: Tree | Words, text: str | os.PathLike[str], **options: str) -> BadKeyError:
    with pytest.raises(BadKeyError) as caught:
        tree.place(text, **options)
    return caught.value


# The fields of a place


def test_an_existing_file_has_its_key_its_spelling_its_real_path_and_its_inode(
    tree: Tree, root: Path
) -> None:
    status = os.stat(root / "app/x.rb")
    assert tree.place("app/x.rb") == Place(
        key="app/x.rb",
        path="app/x.rb",
        real=str(root / "app/x.rb"),
        folder=False,
        inode=f"inode:{status.st_dev}-{status.st_ino}",
        links=1,
    )


def test_a_file_that_does_not_exist_yet_has_no_inode(tree: Tree, root: Path) -> None:
    assert tree.place("app/new.rb") == Place("app/new.rb", "app/new.rb", str(root / "app/new.rb"))


def test_a_new_file_in_new_folders_keeps_the_rest_as_it_is(tree: Tree, root: Path) -> None:
    place = tree.place("app/a/b/c/new.rb")
    assert (place.key, place.real) == ("app/a/b/c/new.rb", str(root / "app/a/b/c/new.rb"))


def test_a_file_keeps_its_key_when_it_is_made(tree: Tree, root: Path) -> None:
    before = tree.place("app/a/new.rb")
    (root / "app" / "a").mkdir()
    between = tree.place("app/a/new.rb")
    (root / "app" / "a" / "new.rb").write_text("x")
    after = tree.place("app/a/new.rb")
    assert before == between
    assert (after.key, after.path, after.real) == (before.key, before.path, before.real)
    assert after.inode


def test_a_folder_on_disk_is_a_folder_with_or_without_its_slash(tree: Tree) -> None:
    assert tree.place("app") == tree.place("app/")
    assert tree.place("app").folder
    assert (tree.place("app").key, tree.place("app").path) == ("app", "app/")


def test_a_new_path_is_a_folder_by_its_slash(tree: Tree) -> None:
    assert tree.place("new/").folder
    assert tree.place("new/.").folder
    assert not tree.place("new").folder
    assert (tree.place("new/").key, tree.place("new/").path) == ("new", "new/")


def test_the_root_is_a_dot_and_its_spelling_ends_with_a_slash(tree: Tree, root: Path) -> None:
    for text in (".", "./", "app/..", str(root), f"{root}/"):
        assert tree.place(text) == Place(".", "./", str(root), folder=True)


def test_a_slash_at_the_end_of_a_file_is_refused(tree: Tree) -> None:
    assert "is not a folder" in refusal(tree, "app/x.rb/").message
    assert "is not a folder" in refusal(tree, "app/x.rb/.").message


def test_a_path_below_a_folder_that_became_a_file_keeps_its_key(tree: Tree, root: Path) -> None:
    before = tree.place("app/models/user.rb").key
    shutil.rmtree(root / "app" / "models")
    (root / "app" / "models").write_text("now a file")
    assert tree.place("app/models/user.rb").key == before
    assert keys.overlap(tree.place("app/models").key, before)
    assert not tree.place("app/models").folder


def test_special_files_are_plain_paths_without_an_inode(tree: Tree, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(root)  # the name of a socket must be short
            listener.bind("socket")
        finally:
            os.fchdir(here)
            os.close(here)
    for name in ("pipe", "socket"):
        assert tree.place(name) == Place(name, name, str(root / name))


def test_a_path_object_is_accepted_and_is_always_a_path(tree: Tree, root: Path) -> None:
    assert tree.place(Path("app/x.rb")) == tree.place("app/x.rb")
    assert tree.place(root / "app" / "x.rb") == tree.place("app/x.rb")
    assert tree.place(Path("port:5432")).key == "./port:5432"
    assert tree.place("port:5432").key == "port:5432"


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"app/x.rb"


@pytest.mark.parametrize("text", [None, 3, 1.5, b"app", ["app"], object(), BytesPath()])
def test_a_path_that_is_not_text_is_refused(tree: Tree, text: object) -> None:
    for places in (tree, Words()):
        with pytest.raises(BadKeyError, match="a path is a text"):
            places.place(text)  # type: ignore[arg-type]


def test_a_resource_has_a_key_and_no_place_on_disk(tree: Tree) -> None:
    assert tree.place("port:5432") == Place("port:5432", "port:5432")
    assert tree.place("res:a/../b").key == "res:a/../b"


def test_kinds_that_belong_to_a_service_are_refused_with_the_right_command(tree: Tree) -> None:
    assert "holdfast spec" in refusal(tree, "spec:x").hint
    assert "holdfast proof" in refusal(tree, "node:1").hint
    assert "holdfast tree" in refusal(tree, "worktree:w").hint
    assert "by its path" in refusal(tree, "inode:1-2").hint


def test_a_file_that_is_called_like_a_resource_is_told_apart(tree: Tree, root: Path) -> None:
    (root / "port:1").write_text("x")
    place = tree.place("./port:1")
    assert (place.key, place.path, place.real) == ("./port:1", "./port:1", str(root / "port:1"))
    assert place != tree.place("port:1")
    assert tree.place(place.path) == place


# Where relative texts start


def test_a_relative_text_starts_at_the_base_that_is_given(tree: Tree, root: Path) -> None:
    for base in (str(root / "app"), "app", "app/", str(root / "app" / "models" / "..")):
        assert tree.place("x.rb", base=base).key == "app/x.rb"
        assert tree.place("../new", base=base).key == "new"
        assert tree.place(str(root / "app" / "x.rb"), base=base).key == "app/x.rb"
        assert tree.place("port:1", base=base).key == "port:1"


def test_a_base_outside_the_tree_may_lead_into_it_and_is_refused_otherwise(
    tree: Tree, root: Path
) -> None:
    assert tree.place("repo/app/x.rb", base=str(root.parent)).key == "app/x.rb"
    assert "outside" in refusal(tree, "x.rb", base=str(root.parent)).message


def test_a_base_that_no_path_can_be_is_refused(tree: Tree) -> None:
    assert "cannot be resolved" in refusal(tree, "x", base="/a\0b").message
    assert "cannot be resolved" in refusal(tree, "x", base="/a\ud800b").message


# Links


def test_a_link_to_a_file_is_that_file(tree: Tree, root: Path) -> None:
    (root / "link").symlink_to("app/x.rb")
    assert tree.place("link") == tree.place("app/x.rb")


def test_a_link_to_a_folder_is_that_folder_and_so_is_what_is_below(tree: Tree, root: Path) -> None:
    (root / "link").symlink_to(root / "app")
    assert tree.place("link") == tree.place("app")
    assert tree.place("link/x.rb") == tree.place("app/x.rb")
    assert tree.place("link/new/y.rb") == tree.place("app/new/y.rb")


def test_the_way_up_from_a_link_is_that_of_its_target(tree: Tree, root: Path) -> None:
    (root / "link").symlink_to("app/models")
    assert tree.place("link/../x.rb").key == "app/x.rb"
    assert tree.place("link/../new.rb").key == "app/new.rb"


def test_a_dangling_link_counts_as_its_target(tree: Tree, root: Path) -> None:
    (root / "link").symlink_to("app/new.rb")
    (root / "chain").symlink_to("link")
    (root / "folder").symlink_to("later/deep")
    assert tree.place("link") == tree.place("app/new.rb")
    assert tree.place("chain") == tree.place("app/new.rb")
    assert tree.place("folder/x") == tree.place("later/deep/x")
    (root / "app" / "new.rb").write_text("x")
    assert tree.place("link") == tree.place("app/new.rb")


def test_a_loop_of_links_is_refused(tree: Tree, root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    for text in ("a", "b", "a/x", "a/"):
        assert "loop" in refusal(tree, text).message


def test_the_way_up_from_a_missing_folder_is_refused(tree: Tree, root: Path) -> None:
    (root / "link").symlink_to("missing/../x")
    for text in ("missing/../x", "missing/..", "app/x.rb/../x.rb", "link"):
        assert "goes up" in refusal(tree, text).message


def test_a_link_out_of_the_tree_is_refused(tree: Tree, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "later").symlink_to(tmp_path / "nothing")
    (root / "up").symlink_to("..")
    for text in ("out", "later", "up/secret", "up/new", "up"):
        assert "outside" in refusal(tree, text).message


def test_on_a_ledger_of_several_hosts_an_inode_belongs_to_one_running_kernel(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host may have another file with the same number."""
    (root / "one").write_text("")
    os.link(root / "one", root / "other")
    here = Tree(str(root), is_shared=True)
    monkeypatch.setattr(paths, "boot_id", lambda: "another-boot")
    there = Tree(str(root), is_shared=True)
    names = [tree.place(name).inode for tree in (here, there) for name in ("one", "other")]
    assert names[0] == names[1]
    assert names[2] == names[3]
    assert names[0] != names[2]
    assert here.place("one").inode.startswith("inode:")
    assert here.place("one").key == there.place("one").key


def test_hard_links_have_one_inode_and_count_their_names(tree: Tree, root: Path) -> None:
    os.link(root / "app" / "x.rb", root / "twin.rb")
    one, other = tree.place("app/x.rb"), tree.place("twin.rb")
    assert one.key != other.key
    assert one.inode == other.inode
    assert one.links == other.links == 2


def test_a_link_swapped_at_the_wrong_moment_gives_one_of_its_targets(
    tree: Tree, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "link").symlink_to("app/one.rb")
    real_readlink = os.readlink

    def swapping(path: str) -> str:
        if path == str(root / "link"):
            os.unlink(path)
            os.symlink("app/x.rb", path)
            monkeypatch.undo()
            raise OSError("it changed")
        return real_readlink(path)

    monkeypatch.setattr(os, "readlink", swapping)
    assert tree.place("link").key in ("app/one.rb", "app/x.rb")


# Outside, ours, and theirs


def test_a_path_outside_is_refused_and_the_error_names_the_root(tree: Tree, root: Path) -> None:
    for text in ("..", "../x", "/etc/passwd", "/", f"{root}-twin", f"{root}-twin/x", "/nowhere/x"):
        error = refusal(tree, text)
        assert "outside" in error.message
        assert str(root) in error.hint
        assert error.fields["root"] == str(root)


def test_absolute_texts_are_fine_when_they_lead_inside(tree: Tree, root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    for start in (root, alias):
        assert tree.place(f"{start}/app/x.rb") == tree.place("app/x.rb")
        assert tree.place(f"{start}/app/new.rb") == tree.place("app/new.rb")


def test_a_root_that_is_given_by_a_link_is_made_real(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    assert Tree(str(alias)).root == str(root)
    assert Tree(f"{root}/app/..").root == str(root)


def test_a_root_that_is_a_file_is_refused(root: Path) -> None:
    with pytest.raises(BadKeyError, match="is not a folder"):
        Tree(str(root / "app" / "x.rb"))


def test_a_root_with_a_name_that_no_key_could_have_still_works(tmp_path: Path) -> None:
    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\n\xff"))
    (root / "app").mkdir(parents=True)
    (root / "app" / "x").write_text("x")
    tree = Tree(str(root))
    assert tree.place("app/x").key == "app/x"
    assert tree.place(f"{root}/app/x").key == "app/x"
    assert tree.place(f"{root}/app/new").key == "app/new"
    assert "character" in refusal(tree, f"{root}/app\n").message
    json.dumps(refusal(tree, "..").to_dict(), ensure_ascii=False).encode()


def test_the_top_of_the_file_system_can_be_a_root() -> None:
    top = Tree("/")
    assert (top.place("/").key, top.place("/").path, top.place("/").real) == (".", "./", "/")
    assert top.place("/nowhere-at-all/x").key == "nowhere-at-all/x"
    assert top.place("..").key == "."


def test_the_ledger_is_not_locked(tree: Tree, root: Path) -> None:
    (root / "link").symlink_to(".holdfast")
    for text in (".holdfast", ".holdfast/", ".holdfast/x", "link/ledger.db", "new/.holdfast"):
        assert "Holdfast's own" in refusal(tree, text).message
    assert tree.place(".holdfast2/x").key == ".holdfast2/x"


def test_a_path_of_a_nested_ledger_is_refused_and_the_error_names_it(
    tree: Tree, root: Path
) -> None:
    inner = root / "vendor" / "lib"
    (inner / ".holdfast").mkdir(parents=True)
    (inner / "src").mkdir()
    (inner / "src" / "x").write_text("x")
    (root / "link").symlink_to(inner / "src")
    for text in ("vendor/lib", "vendor/lib/src", "vendor/lib/src/x", "vendor/lib/a/b", "link/x"):
        error = refusal(tree, text)
        assert str(inner) in error.message
        assert f"-C {inner}" in error.hint
        assert error.fields["root"] == str(inner)
    assert tree.place("vendor").key == "vendor"
    assert tree.place("vendor/x").key == "vendor/x"
    assert Tree(str(inner)).place("src/x").key == "src/x"


def test_of_several_nested_ledgers_the_nearest_is_named(tree: Tree, root: Path) -> None:
    (root / "a" / ".holdfast").mkdir(parents=True)
    (root / "a" / "b" / ".holdfast").mkdir(parents=True)
    assert refusal(tree, "a/b/x").fields["root"] == str(root / "a" / "b")
    assert refusal(tree, "a/x").fields["root"] == str(root / "a")


def test_only_a_folder_is_a_ledger(tree: Tree, root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / "app" / ".holdfast").symlink_to(tmp_path / "elsewhere")
    (root / "app" / "models" / ".holdfast").write_text("a file")
    assert tree.place("app/models/user.rb").key == "app/models/user.rb"
    assert find_root(str(root / "app" / "models" / "user.rb")) == str(root)


# One spelling


def test_composed_and_decomposed_names_are_one_key(tree: Tree, root: Path) -> None:
    (root / "cafe\u0301.txt").write_text("x")
    on_disk, other = tree.place("cafe\u0301.txt"), tree.place("caf\u00e9.txt")
    assert on_disk.key == other.key == "caf\u00e9.txt"
    assert on_disk.path == "cafe\u0301.txt"
    assert on_disk.real == str(root / "cafe\u0301.txt")


def test_case_makes_a_difference_where_the_file_system_says_so(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    if (tmp_path / "A").exists():
        pytest.skip("this file system folds case")
    tree = Tree(str(tmp_path))
    assert not tree.folds
    assert tree.place("App").key != tree.place("app").key


def test_where_case_folds_all_spellings_are_one_key_and_the_spelling_is_kept(tree: Tree) -> None:
    tree.folds = True
    assert tree.place("App/New.RB").key == tree.place("aPP/nEW.rb").key == "app/new.rb"
    assert tree.place("New/File.RB").path == "New/File.RB"
    assert tree.place("STRASSE").key == tree.place("stra\u00dfe").key
    assert tree.place("\u00c9t\u00e9").key == tree.place("E\u0301TE\u0301").key == "\u00e9t\u00e9"
    assert tree.place("./PORT:1").key == "./port:1"
    assert tree.place("./PORT:1").path == "./PORT:1"
    for text in (".HoldFast/x", ".holdfast/x", ".HOLD\u200bFAST/x"):
        assert "Holdfast's own" in refusal(tree, text).message


def test_where_case_folds_characters_that_are_not_compared_do_not_count(tree: Tree) -> None:
    tree.folds = True
    assert tree.place("a\u200bb\ufe0f").key == "ab"
    assert tree.place("\u200b/x").key == "\u200b/x"
    assert tree.place("\u200b../x").key == "\u200b../x"
    tree.folds = False
    assert tree.place("a\u200bb").key == "a\u200bb"


def test_a_link_between_two_cases_is_not_taken_for_folding(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").mkdir()
    if (tmp_path / ".HOLDFAST").exists():
        pytest.skip("this file system folds case")
    (tmp_path / ".HOLDFAST").symlink_to(".holdfast")
    assert not Tree(str(tmp_path)).folds


@pytest.mark.parametrize("names", [[], [".git"], ["README", "1", "\u00e9"], ["1", "2"]])
def test_folding_is_found_out_with_whatever_is_there(tmp_path: Path, names: list[str]) -> None:
    root = tmp_path / "Root"
    root.mkdir()
    for name in names:
        (root / name).write_text("x")
    assert Tree(str(root)).folds == (tmp_path / "rOOT").exists()


# Limits


def test_text_that_no_key_can_contain_is_refused_in_a_clear_sentence(tree: Tree) -> None:
    for text in ("a\0b", "a\nb", "a\x1bb", "a\x7f", "a\udcffb", "a\ud800"):
        assert "contains a character" in refusal(tree, text).message
    assert "too long" in refusal(tree, "x" * 256).message
    assert "too long" in refusal(tree, "missing/" + "\u00e9" * 128).message
    assert "too long" in refusal(tree, "a/" * 5_000).message
    assert "empty" in refusal(tree, "").message
    assert "blank" in refusal(tree, "  ").message
    assert tree.place("./  ").path == "./  "


def test_a_link_to_a_name_that_no_key_can_have_is_refused(tree: Tree, root: Path) -> None:
    for number, name in enumerate([b"a\nb", b"a\xffb"]):
        os.symlink(os.fsdecode(name), root / f"new{number}")
        assert "contains a character" in refusal(tree, f"new{number}").message
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("x")
        assert "contains a character" in refusal(tree, f"new{number}").message


def test_a_path_that_is_too_long_to_look_for_a_ledger_in_is_refused(tree: Tree, root: Path) -> None:
    here = os.open(root, os.O_RDONLY)
    try:
        for _ in range(20):  # 4,000 and more bytes below the root, made step by step
            os.mkdir("d" * 210, dir_fd=here)
            below = os.open("d" * 210, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        for length in range(4060, 4110):
            real = f"{root}/{('d' * 210 + '/') * 20}"[:length].rstrip("/")
            text = real[len(str(root)) + 1 :]
            if len(f"{real}/.holdfast") <= 4095:
                assert tree.place(text).real == real
            else:
                assert "long" in refusal(tree, text).message
    finally:
        os.close(here)


def test_a_process_without_utf8_refuses_text_that_is_not_ascii(root: Path) -> None:
    script = (
        "import sys; from holdfast.manager.files.paths import Tree\n"
        "from holdfast.core.errors import BadKeyError\n"
        "tree = Tree(sys.argv[1]); print(sys.getfilesystemencoding(), tree.place('app/x.rb').key)\n"
        "try: print(ascii(tree.place('caf\\u00e9').key))\n"
        "except BadKeyError as error: print('refused', error.hint)\n"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(root)],
        env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    encoding, first, *rest = done.stdout.split()
    assert first == "app/x.rb"
    if encoding == "utf-8":
        pytest.skip("this system uses UTF-8 whatever the locale says")
    assert rest[0] == "refused"
    assert "PYTHONUTF8=1" in done.stdout


# Without a disk


def test_words_are_keys_by_their_text_alone() -> None:
    words = Words()
    assert words.place("app/../x//y/.") == Place("x/y", "x/y/", folder=True)
    assert words.place("app/x.rb") == Place("app/x.rb", "app/x.rb")
    assert words.place("app/") == Place("app", "app/", folder=True)
    assert words.place(".") == words.place("a/..") == Place(".", "./", folder=True)
    assert words.place("cafe\u0301").key == "caf\u00e9"
    assert words.place("port:5432") == Place("port:5432", "port:5432")
    assert words.place("./port:5432") == Place("./port:5432", "./port:5432")
    assert words.place(Path("port:5432")).key == "./port:5432"
    assert words.place("x", base="app").key == "app/x"
    assert words.place("../x", base="app/models/").key == "app/x"


@pytest.mark.parametrize(
    "text", ["", " ", "..", "../x", "a/../../x", "/x", "a\0", "x" * 256, "spec:x"]
)
def test_words_refuse_text_without_a_key(text: str) -> None:
    refusal(Words(), text)


def test_importing_paths_costs_the_start_up_nothing() -> None:
    heavy = "dataclasses typing enum re json pathlib contextlib logging socket threading subprocess"
    script = (
        "import sys; before = set(sys.modules); import holdfast.manager.files.paths; "
        f"print(*sorted((set(sys.modules) - before) & set({heavy.split()!r})))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "PYTHONPATH": str(Path(paths.__file__).parents[3])},
    )  # fmt: skip
    assert done.stdout.split() == []
