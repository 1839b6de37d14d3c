"""Which tasks exclude each other, and how wide a list can get."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from holdfast.manager.files.paths import Tree
from holdfast.work.tasks.exclusion import Exclusions
from holdfast.work.tasks.lists.task import Task, TaskList


def task(
    name: str,
    writes: tuple[str, ...] | None = None,
    reads: tuple[str, ...] = (),
    locks: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
) -> Task:
    return Task(name, "x", writes, reads, locks, after)


def of(root: Path, *tasks: Task) -> Exclusions:
    return Exclusions.of(TaskList("tasks.toml", tasks), Tree(str(root)))


def excluded(found: Exclusions) -> dict[str, tuple[str, ...]]:
    return {one.name: found.excluded_by(one.name).names for one in found.tasks}


def test_two_writers_of_one_file_exclude_each_other_and_name_it(tmp_path: Path) -> None:
    found = of(tmp_path, task("a", ("x", "y")), task("b", ("x",)), task("c", ("z",)))
    assert excluded(found) == {"a": ("b",), "b": ("a",), "c": ()}
    assert found.excluded_by("a").paths == ("x",)
    assert found.width == 2


def test_a_writer_excludes_the_readers_of_its_file_and_of_the_folders_around_it(
    tmp_path: Path,
) -> None:
    found = of(
        tmp_path, task("w", ("app/x.py",)), task("file", (), ("app/x.py",)),
        task("folder", (), ("app/",)), task("root", (), ("./",)), task("other", (), ("ap/",)),
    )  # fmt: skip
    assert found.excluded_by("w").names == ("file", "folder", "root")
    assert found.excluded_by("folder").names == ("w",)
    assert found.excluded_by("other").count == 0
    assert found.width == 4


def test_a_shared_lock_excludes(tmp_path: Path) -> None:
    found = of(tmp_path, task("a", None, (), ("db:x",)), task("b", None, (), ("db:x",)))
    assert excluded(found) == {"a": ("b",), "b": ("a",)}
    assert found.width == 1


def test_two_names_of_one_file_are_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    os.link(tmp_path / "x", tmp_path / "y")
    (tmp_path / "z").symlink_to("x")
    found = of(tmp_path, task("a", ("x",)), task("b", ("y",)), task("c", ("z",)))
    assert excluded(found) == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}


def test_the_order_bounds_the_width(tmp_path: Path) -> None:
    chain = [task("a"), task("b", after=("a",)), task("c", after=("b",))]
    assert of(tmp_path, *chain).width == 1
    fan = [task("a"), task("b", after=("a",)), task("c", after=("a",)), task("d")]
    assert of(tmp_path, *fan).width == 3


def test_the_headline_says_how_many_declare_no_writes(tmp_path: Path) -> None:
    assert of(tmp_path, task("a", ("x",))).headline() == "up to 1 at once, as declared"
    assert of(tmp_path, task("a"), task("b")).headline() == (
        "up to 2 at once, as declared; 2 tasks declare no writes: each of their files is "
        "leased at the first write"
    )


def test_the_json_has_everything(tmp_path: Path) -> None:
    found = of(tmp_path, task("a", ("x",)), task("b", (), ("x",)))
    data = json.loads(json.dumps(found.to_data()))
    assert data["shared"] == [{"path": "x", "writers": ["a"], "readers": ["b"]}]
    assert data["tasks"][1]["excludes"] == ["a"]
    assert (data["width"], data["undeclared"], data["list"]) == (1, 0, "tasks.toml")


def test_ten_thousand_tasks_that_share_one_file_take_seconds(tmp_path: Path) -> None:
    began = time.process_time()
    found = of(tmp_path, *(task(f"t{at}", ("x", f"own{at}")) for at in range(10_000)))
    assert found.width == 1
    assert found.excluded_by("t1").count == 9_999
    assert len(json.dumps(found.to_data())) < 20_000_000
    assert time.process_time() - began < 20
