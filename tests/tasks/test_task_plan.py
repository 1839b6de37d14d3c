"""`holdfast plan` for tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_cli import Repository

LIST = """\
[[task]]
name = "rename User"
prompt = "x"
writes = ["app/user.py"]
[[task]]
name = "guide"
prompt = "x"
writes = ["docs/guide.md"]
reads = ["app/"]
[[task]]
name = "seed"
prompt = "x"
locks = ["db:test"]
after = ["guide"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "r")


def test_a_list_is_shown_as_a_table_and_its_width(repository: Repository) -> None:
    (repository.root / "tasks.toml").write_text(LIST)
    answer = repository.hold("plan", "tasks.toml")
    assert answer.code == 0, answer
    lines = answer.out.splitlines()
    assert lines[0].split() == ["TASK", "WRITES", "READS", "LOCKS", "AFTER", "EXCLUDES"]
    assert lines[1].split() == ["rename", "User", "app/user.py", "guide"]
    assert lines[3].split() == ["seed", "not", "declared", "db:test", "guide"]
    assert lines[-1].startswith("up to ")
    assert "1 task declares no writes" in lines[-1]
    assert not (repository.root / ".holdfast").exists()


def test_a_checklist_and_single_tasks_have_a_plan_too(repository: Repository) -> None:
    (repository.root / "TODO.md").write_text("- [ ] one\n- [x] two\n")
    answer = repository.hold("plan", "TODO.md", "--json")
    assert [task["name"] for task in answer.json["tasks"]] == ["one"]
    answer = repository.hold("plan", "--task", "a", "--task", "b", "--json")
    assert (answer.json["list"], answer.json["width"]) == ("--task", 2)
    (repository.root / "TODO.md").write_text("- [x] two\n")
    assert "nothing to do" in repository.hold("plan", "TODO.md").out


def test_a_list_and_single_tasks_at_once_are_refused(repository: Repository) -> None:
    for words in (["plan"], ["plan", "a.toml", "--task", "x"], ["plan", "a.toml", "b.toml"]):
        assert repository.hold(*words).code == 2


def test_a_wrong_list_is_refused_with_each_line(repository: Repository) -> None:
    (repository.root / "tasks.toml").write_text(f"tires = 3\n{LIST}promt = 1\n")
    answer = repository.hold("plan", "tasks.toml")
    assert answer.code == 2
    assert "line 1: there is no 'tires' here; did you mean tries?" in answer.err
    assert "line 16: there is no 'promt' here; did you mean prompt?" in answer.err
    assert "screen" not in answer.err
