"""`tree init` at any path, even in an existing folder: no existing file is touched."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY
from helpers_trees import ANN, killed_at, picture, steps_of, told, tree
from holdfast.trees import Repository, TreeExistsError, acquire, examine, find, take

pytestmark = LINUX_ONLY


@pytest.mark.parametrize(
    "where", [".", "new", "a/b/c", "there", "./there/", "../other", "with blank"]
)
def test_a_repository_is_made_at_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    (tmp_path / "here" / "there").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    words = [] if where == "." else [where]
    assert tree("init", *words, "--json", holder=None) == 0
    root = Path(os.path.realpath(where))
    assert told(capsys)["repository"]["root"] == str(root)
    main = find(Repository.open(where), "main")
    Path(main.path, "x").write_text("one")
    acquire(main, ANN)
    take(main, ANN)
    assert examine(main.repository, strict=True) == []


def test_in_a_folder_that_is_there_main_becomes_the_worktree_and_the_rest_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r" / "main" / "app").mkdir(parents=True)
    (tmp_path / "r" / "main" / "app" / "x").write_text("one")
    (tmp_path / "r" / "notes").write_text("mine")
    before = picture(tmp_path / "r" / "main" / "app")
    assert tree("init", str(tmp_path / "r"), holder=None) == 0
    assert "notes" in capsys.readouterr().err
    assert (tmp_path / "r" / "notes").read_text() == "mine"
    assert picture(tmp_path / "r" / "main" / "app") == before
    main = find(Repository.open(str(tmp_path / "r")), "main")
    acquire(main, ANN)
    assert take(main, ANN)["files"] == 1


@pytest.mark.parametrize("what", ["main", "worktrees"])
@pytest.mark.parametrize("kind", ["file", "link"])
def test_a_file_in_the_way_is_refused_and_left_alone(tmp_path: Path, what: str, kind: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "r").mkdir()
    if kind == "file":
        (tmp_path / "r" / what).write_text("mine")
    else:
        (tmp_path / "r" / what).symlink_to(tmp_path / "elsewhere")
    before = picture(tmp_path)
    with pytest.raises(TreeExistsError):
        Repository.init(str(tmp_path / "r"))
    assert picture(tmp_path) == before


def test_a_repository_is_not_made_again_nor_over_anothers_worktree(tmp_path: Path) -> None:
    made = Repository.init(str(tmp_path / "r"))
    with pytest.raises(TreeExistsError):
        Repository.init(str(tmp_path / "r"))
    main = find(made, "main")
    Path(main.path, "x").write_text("one")
    acquire(main, ANN)
    take(main, ANN)
    os.rename(tmp_path / "r" / ".jvs", tmp_path / "away")
    before = picture(tmp_path)
    with pytest.raises(TreeExistsError, match="no longer exists"):
        Repository.init(str(tmp_path / "r"))
    assert picture(tmp_path) == before


def test_one_that_is_killed_in_a_folder_with_files_is_made_by_the_next(tmp_path: Path) -> None:
    def furnished(name: str) -> Path:
        root = tmp_path / name
        (root / "main").mkdir(parents=True)
        (root / "main" / "x").write_text("one")
        (root / "notes").write_text("mine")
        return root

    place = furnished("steps-of")
    steps = steps_of(partial(Repository.init, str(place)), tmp_path / "steps")
    for step in range(0, len(steps) + 5, 3):
        root = furnished(f"r{step}")
        dead = killed_at(step, partial(Repository.init, str(root)))
        if not (root / ".jvs").exists():
            assert dead
            Repository.init(str(root))
        made = Repository.open(str(root))
        assert [one.code for one in examine(made) if one.code != "E_ORPHAN_TMP"] == []
        assert (root / "main" / "x").read_text() == "one"
        assert (root / "notes").read_text() == "mine"
        assert {one.name for one in root.iterdir()} == {".jvs", "main", "worktrees", "notes"}
    assert not dead
