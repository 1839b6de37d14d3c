"""Lists of tasks: how they are read, and that a list with a mistake is refused as a whole."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.work.tasks.lists.list_reader import (
    TasksError,
    from_command_line,
    read_tasks,
)
from holdfast.work.tasks.lists.task import COMMAND_LINE, Task, TaskList

TASK = '[[task]]\nname = "one"\nprompt = "do it"\n'


def read(root: Path, text: str | bytes, name: str = "tasks.toml") -> TaskList:
    (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_tasks(str(root / name), str(root))


def refused(root: Path, text: str | bytes, name: str = "tasks.toml") -> list[str]:
    """Each problem, as `line: what`."""
    with pytest.raises(TasksError) as caught:
        read(root, text, name)
    assert caught.value.code == "E_TASKS"
    found: list[dict[str, Any]] = caught.value.fields["problems"]
    assert caught.value.fields["count"] == len(found)
    return [f"{one['place']}: {one['problem']}".removeprefix(": ") for one in found]


def test_a_task_is_a_name_and_a_prompt(tmp_path: Path) -> None:
    found = read(tmp_path, TASK)
    assert found == TaskList("tasks.toml", (Task("one", "do it", line=1),))


def test_every_key_reaches_the_task(tmp_path: Path) -> None:
    text = """\
slots = 7
[[task]]
name = "one"
prompt = "first"
[[task]]
name = "two"
prompt = "second"
writes = ["./a//b.py", "new.txt"]
reads = ["docs/"]
locks = ["port:5432", "db:test", "res:x"]
after = ["one"]
check = "make test"
commit = true
message = "{name}: {first_line} {prompt}"
command = ["agent", "--name={name}", "{prompt}"]
timeout_seconds = 0.5
priority = -3
rounds = 0
tries = 1
"""
    found = read(tmp_path, text)
    assert found.slots == 7
    assert found.task("two") == Task(
        "two", "second", ("a/b.py", "new.txt"), ("docs/",), ("port:5432", "db:test", "res:x"),
        ("one",), "make test", True, "{name}: {first_line} {prompt}",
        ("agent", "--name={name}", "{prompt}"), 0.5, -3, 0, 1, 5,
    )  # fmt: skip


def test_a_default_holds_for_each_task_that_says_nothing_else(tmp_path: Path) -> None:
    text = f'check = "make"\ntries = 9\n{TASK}[[task]]\nname = "two"\nprompt = "x"\ntries = 2\n'
    found = read(tmp_path, text)
    assert [(task.check, task.tries) for task in found] == [("make", 9), ("make", 2)]


@pytest.mark.parametrize("key", ["name", "prompt", "writes", "after"])
def test_a_key_of_one_task_cannot_be_a_default(tmp_path: Path, key: str) -> None:
    value = '"x"' if key in ("name", "prompt") else '["x"]'
    (told,) = refused(tmp_path, f"{key} = {value}\n{TASK}")
    assert (
        told
        == f"line 1: {key} belongs to one task and cannot be a default; write it below [[task]]"
    )


def test_all_problems_of_a_list_are_told_with_their_lines(tmp_path: Path) -> None:
    text = f'slots = 0\n{TASK}tires = 3\n[[task]]\nname = "two"\nwrites = "x"\n'
    assert refused(tmp_path, text) == [
        "line 1: slots cannot be 0; it must be a whole number, 1 to 1000",
        "line 5: there is no 'tires' here; did you mean tries?",
        "line 6: prompt is missing",
        "line 8: writes must be a list of paths, not the text 'x'",
    ]
    with pytest.raises(TasksError, match=r"tasks\.toml: 4 errors: line 1: slots"):
        read(tmp_path, text)


def test_prose_in_a_prompt_is_not_taken_for_keys(tmp_path: Path) -> None:
    text = '[[task]]\nprompt = """\n[[task]]\ntries = 3\n"""\nname = "one"\ntries = 0\n'
    assert refused(tmp_path, text) == [
        "line 7: tries cannot be 0; it must be a whole number, 1 to 100"
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("timeout_seconds = 0", "timeout_seconds cannot be 0"),
        ("timeout_seconds = 604801", "timeout_seconds cannot be 604801"),
        ("timeout_seconds = nan", "timeout_seconds cannot be nan"),
        ("priority = 1001", "priority cannot be 1001"),
        ("priority = 1.5", "priority cannot be 1.5"),
        ("rounds = -1", "rounds cannot be -1"),
        ("rounds = 101", "rounds cannot be 101"),
        ("tries = 101", "tries cannot be 101"),
        ("tries = true", "tries cannot be true"),
        ('commit = "yes"', "commit must be true or false"),
        ('check = " "', "check is empty"),
        ('check = ["make", "a b"]', "write check = \"make 'a b'\""),
        ('message = "{nam}"', "did you mean {name}?"),
        ('command = ["claude", "-p"]', "command has no {prompt}"),
        ('command = ["claude", "{promt}", "{prompt}"]', "did you mean {prompt}?"),
        ('command = ["{prompt}"]', "command must begin with a program"),
        ("command = []", "command is a list of words"),
        ('command = "claude {prompt}"', "command must be a list of texts"),
        ('writes = ["src/"]', "src/ is a folder: a write lock names single files"),
        ('writes = ["src"]', "src/ is a folder: a write lock names single files"),
        ('writes = ["."]', "is a folder: a write lock names single files"),
        ('writes = ["holdfast.toml"]', "controls Holdfast"),
        ('writes = ["sub/.claude/settings.json"]', "controls Claude Code"),
        ('writes = ["tasks.toml"]', "is the list itself"),
        ('writes = ["link"]', "lies outside the tree"),
        ('writes = ["../x"]', "contains .."),
        ('writes = ["/etc/x"]', "is absolute"),
        ('writes = ["port:1"]', "is a resource"),
        ('writes = ["a", "./A"]', "writes lists './A' twice"),
        ("writes = [1]", "a path is needed"),
        ('reads = ["../x"]', "contains .."),
        ('reads = ["tasks.toml"]', "is the list itself"),
        ('reads = ["src", "src/"]', "reads lists 'src/' twice"),
        ('locks = ["spec:x"]', "use: holdfast spec lock"),
        ('locks = ["node:x"]', "use: holdfast proof claim"),
        ('locks = ["worktree:x"]', "use: holdfast tree lock"),
        ('locks = ["task:x"]', "is not a resource; resources begin with port:, db:, git:, res:"),
        ('locks = ["port:0"]', "is not a port"),
        ('locks = ["db:x", "db:X"]', "locks lists 'db:X' twice"),
        ('after = ["one"]', "'one' cannot come after itself"),
        ('after = ["ones"]', "there is no task 'ones'; did you mean 'one'?"),
        ("slots = 3", "slots applies to the whole list"),
    ],
)
def test_an_invalid_value_is_refused_with_its_line(tmp_path: Path, line: str, told: str) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("/etc/hostname")
    (problem,) = refused(tmp_path, TASK + line + "\n")
    assert problem.startswith("line 4: ")
    assert told in problem


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "name is empty"),
        ("x" * 101, "longer than 100"),
        ("a\\nb", "an invisible character"),
        ("a\\u202eb", "an invisible character"),
        ("a\\u200bb", "an invisible character"),
        ("a\\u3164b", "an invisible character"),
        (" a", "blanks around it"),
    ],
)
def test_a_name_is_one_line_that_can_be_seen(tmp_path: Path, name: str, told: str) -> None:
    (problem,) = refused(tmp_path, f'[[task]]\nname = "{name}"\nprompt = "x"\n')
    assert problem.startswith("line 2: name ")
    assert told in problem


@pytest.mark.parametrize("other", ["ONE", "o\\u006ee", "one\\ufe0f"])
def test_two_names_that_look_the_same_are_one(tmp_path: Path, other: str) -> None:
    text = f'{TASK}[[task]]\nname = "{other}"\nprompt = "x"\n'
    assert [told.endswith("is already in line 2") for told in refused(tmp_path, text)] == [True]


def test_a_prompt_without_a_word_or_with_a_nul_is_refused(tmp_path: Path) -> None:
    for prompt, told in ((" ", "prompt is empty"), ("a\\u0000b", "prompt contains a NUL")):
        text = f'[[task]]\nname = "one"\nprompt = "{prompt}"\n'
        assert refused(tmp_path, text) == [f"line 3: {told}"]


def test_a_cycle_is_reported_with_all_of_its_names(tmp_path: Path) -> None:
    names = {"a": "b", "b": "c", "c": "a", "d": "a"}
    text = "".join(
        f'[[task]]\nname = "{name}"\nprompt = "x"\nafter = ["{other}"]\n'
        for name, other in names.items()
    )
    assert refused(tmp_path, text) == ["line 4: these wait for each other: a -> b -> c -> a"]


def test_a_long_chain_is_no_cycle(tmp_path: Path) -> None:
    text = "".join(
        f'[[task]]\nname = "t{at}"\nprompt = "x"\nafter = ["t{at + 1}"]\n' for at in range(3000)
    )
    assert len(read(tmp_path, f'{text}[[task]]\nname = "t3000"\nprompt = "x"\n')) == 3001


def test_a_prompt_that_fits_into_no_command_line_is_refused(tmp_path: Path) -> None:
    text = f'[[task]]\nname = "one"\nprompt = "{"x" * 131_072}"\n'
    assert len(read(tmp_path, text)) == 1
    (told,) = refused(tmp_path, f'{text}command = ["agent", "{{prompt}}"]\n')
    assert told == "line 4: with this prompt, a word of command is longer than 131071 bytes"


def test_a_list_without_a_task_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "") == ["the list has no [[task]]"]
    assert refused(tmp_path, "# to do\n", "TODO.md") == ["the list has no item with a checkbox"]


def test_a_task_with_another_mistake_is_also_checked_for_what_it_comes_after(
    tmp_path: Path,
) -> None:
    text = '[[task]]\nname = "a"\nafter = ["c", "b"]\n[[task]]\nname = "b"\nafter = ["a"]\n'
    assert refused(tmp_path, text) == [
        "line 1: prompt is missing",
        "line 3: there is no task 'c'",
        "line 3: these wait for each other: a -> b -> a",
        "line 4: prompt is missing",
    ]


def test_tables_of_another_name_are_told_how_a_task_begins(tmp_path: Path) -> None:
    text = '# a list\n[[tasks]]\nname = "one"\nprompt = "x"\n[[tasks]]\nname = "two"\n'
    assert refused(tmp_path, text) == ["line 2: [[tasks]] is not known; did you mean [[task]]?"]
    told = refused(tmp_path, f"{TASK}[[job]]\ntries = 1\n")
    assert told == ["line 4: [[job]] is not known; did you mean [[task]]?"]


@pytest.mark.parametrize(
    ("line", "form"), [("prompt", True), ("promt = 1", True), ("tries = 0", False)]
)
def test_the_form_of_a_task_is_shown_where_it_is_wrong(
    tmp_path: Path, line: str, form: bool
) -> None:
    with pytest.raises(TasksError) as caught:
        read(tmp_path, TASK + line + "\n")
    assert caught.value.hint is not None
    assert ("a task is: [[task]]" in caught.value.hint) == form
    assert form or "holdfast plan" in caught.value.hint


def test_a_broken_checkbox_is_refused_with_its_line(tmp_path: Path) -> None:
    text = "\n".join([
        "# to do", "- [ ] fine", "- [] b", "  - [ ] inside", "* [X ] done", "3. [ ]c", "-[ ] d",
        "- [link](there) and", "- [x](there)", "- [] (in brackets)", "```", "- [] code", "```",
        "<!--", "- [] comment", "-->", "- [ ] last", "  - [] of its prompt",
    ])  # fmt: skip
    told = [
        (3, "'- [ ] b'"), (5, "'* [x] done'"), (6, "'3. [ ] c'"), (7, "'- [ ] d'"),
        (10, "'- [ ] (in brackets)'"),
    ]  # fmt: skip
    assert refused(tmp_path, text, "TODO.md") == [
        f"line {line}: this checkbox is broken; write {meant}" for line, meant in told
    ]
    assert refused(tmp_path, text.replace("\n", "\r\n"), "TODO.md")[1].startswith("line 5: ")
    assert refused(tmp_path, "- []\n", "TODO.md") == [
        "line 1: this checkbox is broken; write '- [ ]'"
    ]


@pytest.mark.parametrize("name", ["tasks.toml", "TODO.md"])
def test_bytes_that_are_no_utf8_are_refused_with_their_line(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, b"# a\n# \xff\n", name) == ["line 2: this is not UTF-8"]
    assert refused(tmp_path, "x".encode("utf-16"), name) == ["this is UTF-16; save it as UTF-8"]


def test_a_byte_order_mark_and_carriage_returns_change_nothing(tmp_path: Path) -> None:
    plain = read(tmp_path, TASK)
    assert read(tmp_path, b"\xef\xbb\xbf" + TASK.replace("\n", "\r\n").encode()) == plain


def test_invalid_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    (told,) = refused(tmp_path, f"{TASK}x = \n")
    assert told.startswith("line 4: this is not valid TOML")


def test_a_single_table_is_refused_with_the_form_of_a_task(tmp_path: Path) -> None:
    (told,) = refused(tmp_path, '[task]\nname = "x"\n')
    assert told == "line 1: each task begins with [[task]], in double brackets"


def test_a_path_that_is_not_a_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.toml").mkdir()
    for name, told in (
        ("none.toml", "there is no such file"),
        ("folder.toml", "this is a folder"),
        ("tasks.txt", "ends with .toml"),
    ):
        with pytest.raises(TasksError, match=told):
            read_tasks(str(tmp_path / name), str(tmp_path))


def test_more_than_ten_thousand_tasks_are_refused(tmp_path: Path) -> None:
    text = "".join(f"- [ ] task {at}\n" for at in range(10_001))
    assert refused(tmp_path, text, "x.md") == ["10001 tasks; at most 10000 are accepted"]


def test_ten_thousand_tasks_are_read_in_seconds(tmp_path: Path) -> None:
    text = "".join(
        f'[[task]]\nname = "t{at}"\nprompt = "x"\nwrites = ["f{at}"]\n' for at in range(10_000)
    )
    began = time.process_time()
    assert len(read(tmp_path, text)) == 10_000
    assert time.process_time() - began < 20


def test_a_list_is_known_by_its_path_from_the_root(tmp_path: Path) -> None:
    root = tmp_path / "repo"
    (root / "plans").mkdir(parents=True)
    (root / "plans/a.toml").write_text(TASK)
    (tmp_path / "b.toml").write_text(TASK)
    inside = os.path.join(str(root), "plans", "..", "plans", "a.toml")
    assert read_tasks(inside, str(root)).name == "plans/a.toml"
    assert read_tasks(str(tmp_path / "b.toml"), str(root)).name == os.path.realpath(
        tmp_path / "b.toml"
    )


def test_tasks_of_the_command_line_are_named_by_their_prompts() -> None:
    found = from_command_line(["rename User\n to Account ", "-x"])
    assert found.name == COMMAND_LINE
    assert [(task.name, task.prompt) for task in found] == [
        ("rename User to Account", "rename User\n to Account"),
        ("-x", "-x"),
    ]


def test_long_prompts_that_begin_alike_have_names_of_their_own() -> None:
    start = "word " * 40
    one, two = from_command_line([f"{start} one", f"{start} two"])
    assert one.name != two.name
    assert max(len(one.name), len(two.name)) <= 100


def test_a_prompt_that_is_given_twice_or_empty_is_refused() -> None:
    with pytest.raises(TasksError, match="--task: 2 errors: task 2: 'a' is already task 1"):
        from_command_line(["a", "a", " "])
    with pytest.raises(TasksError, match="contains no tasks"):
        from_command_line([])
    with pytest.raises(TasksError, match=r"^--task is empty$"):
        from_command_line([" "])
