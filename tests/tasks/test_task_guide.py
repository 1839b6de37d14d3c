"""The guide to lists of tasks shows the real behaviour: its lists are read, and its tables
compared."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import QuickRepository
from helpers_processes import until
from helpers_task_commands import TypedCheckout, why_no_broker
from holdfast.work.screens.layout import AgentSettings, Layout
from holdfast.work.tasks.lists.list_reader import read_tasks
from holdfast.work.tasks.lists.task import TIMEOUT_SECONDS, Task
from holdfast.work.tasks.lists.task_fields import KEYS
from holdfast.work.tasks.task_agent import KNOWN

GUIDE = (Path(__file__).parents[2] / "docs/tasks.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
#: The words of the guide for a key that has no default value.
IN_WORDS = {"writes": "not declared", "command": "the installed client"}


def block(kind: str, begins: str) -> str:
    """The block of a kind that starts like this."""
    found = [text for name, text in BLOCK.findall(GUIDE) if (name, text.find(begins)) == (kind, 0)]
    assert len(found) == 1, found
    return str(found[0])


@pytest.fixture
def repository(tmp_path: Path) -> QuickRepository:
    made = QuickRepository(tmp_path / "project")
    (made.root / "tasks.toml").write_text(block("toml", "# tasks.toml"))
    return made


def test_the_plan_of_the_guides_list_is_the_one_that_it_shows(repository: QuickRepository) -> None:
    command, _, shown = block("text", "$ holdfast plan").partition("\n")
    answer = repository.hold(*shlex.split(command)[2:])
    lines = [line.rstrip() for line in answer.out.splitlines()]
    assert lines == shown.splitlines()


def test_a_list_with_mistakes_is_refused_as_the_guide_says(repository: QuickRepository) -> None:
    (repository.root / "app").mkdir(exist_ok=True)
    text = '[[task]]\nname = "one"\npromt = "x"\nwrites = ["app/"]\n'
    (repository.root / "tasks.toml").write_text(text)
    answer = repository.hold("plan", "tasks.toml")
    assert answer.err == block("text", "holdfast: tasks.toml: 3 errors")


def test_the_checklist_of_the_guide_has_two_tasks(repository: QuickRepository) -> None:
    file = repository.root / "TODO.md"
    file.write_text(block("markdown", "- [ ] rename"))
    found = read_tasks(str(file), str(repository.root))
    assert [task.name for task in found] == ["rename User to Account", "make the seed data smaller"]


def test_the_guide_has_every_key_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \|\s*(.*?)\s*\| .* \|$", GUIDE, re.M)
    shown = dict(rows)
    assert tuple(sorted(shown)) == tuple(sorted(KEYS))
    for field in fields_of(Task):
        if field.name in ("name", "prompt", "check", "line"):
            continue
        said = shown[field.name]
        default = TIMEOUT_SECONDS if field.name == "timeout_seconds" else field.default
        if field.name in IN_WORDS:
            assert said == IN_WORDS[field.name]
        elif isinstance(default, bool):
            assert said == f"`{str(default).lower()}`"
        elif isinstance(default, tuple):
            assert said == "`[]`"
        elif isinstance(default, str):
            assert said == f'`"{default}"`'
        else:
            assert isinstance(default, int | float)
            assert said == f"`{default:g}`"


def test_the_guide_shows_how_each_client_is_called() -> None:
    for name, words in KNOWN.values():
        assert f"| {name} | `{shlex.join(words)}` |" in GUIDE


def test_the_settings_of_the_guide_are_understood() -> None:
    found = Layout.of("/r/holdfast.toml", block("toml", "[work.agent]"), {}).agent
    assert found == AgentSettings(
        ("my-agent", "--yes", "{prompt}"), timeout_seconds=1800, environment={"MY_MODEL": "large"}
    )


# The shown runs


UNIT_TEST = """\
import unittest

from app import seed

class Seed(unittest.TestCase):
    def test_there_are_names(self):
        self.assertTrue(seed.NAMES)
"""
needs_broker = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker: {why_no_broker()}")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[TypedCheckout]:
    made = TypedCheckout(tmp_path)
    made.write({"tests/__init__.py": "", "tests/test_seed.py": UNIT_TEST, ".gitignore": "*.pyc\n",
                "app/seed.py": 'NAMES = ["Ann", "Bob", "Cleo", "Dan"]\n'})  # fmt: skip
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "the shop")
    yield made
    made.close()


def likened(text: str, root: str = "/home/ann/shop") -> list[str]:
    """The lines without what differs each time: times, numbers of items, and alignment."""
    text = re.sub(r"(speed-up-)\d+", r"\1N", text.replace(root, "ROOT"))
    text = re.sub(r"\d+(\.\d+)?( ?s\b)", r"T\2", text)
    return [" ".join(line.split()) for line in text.splitlines()]


@needs_broker
def test_what_the_guide_shows_of_a_failure_is_what_is_printed(shop: TypedCheckout) -> None:
    script = "echo 'NAMES = []' > app/seed.py"
    check = f"{sys.executable} -m unittest -q"
    tasks: dict[str, str | dict[str, Any]] = {
        "speed up": {"prompt": script, "check": check, "rounds": 0},
        "measure": {"prompt": "true", "after": ["speed up"]},
    }
    shop.list(**tasks)
    answer = shop.type("dispatch", "tasks.toml", "--keep-failed")
    _command, _dots, *shown = likened(block("text", "$ holdfast dispatch tasks.toml --keep"))
    printed = likened(answer.err, str(shop.root)) + likened(answer.out, str(shop.root))
    begun = next(at for at, line in enumerate(printed) if "working" in line)
    assert printed[begun:] == shown


@needs_broker
def test_what_the_guide_shows_of_a_review_is_what_is_printed(shop: TypedCheckout) -> None:
    name = "Make the seed data smaller"
    shop.list(**{name: """echo 'NAMES = ["Ann"]' > app/seed.py"""})
    running = shop.start("dispatch", "tasks.toml", "--review")
    until(lambda: name in shop.type("decide").out, "the task in review")
    commands = block("text", f"$ holdfast decide '{name}'\n").split("$ ")[1:]
    for one in commands:
        command, _, shown = one.partition("\n")
        assert shop.type(*shlex.split(command)[1:]).out == shown
    answer = shop.end(running)
    shown_lines = likened(block("text", "   9.1 s  ??  reviewing"))
    printed = likened(answer.err)
    at = printed.index(shown_lines[0])
    assert printed[at : at + len(shown_lines)] == shown_lines


#: A stand-in for `claude`: it does what the guide's prompts ask for, in the guide's order.
CLAUDE = r"""#!/bin/sh
case "$(cat)" in
    *"Rename the class"*) sleep 0.5; echo Account > docs/user.md
        until echo 'class Account: ...' > app/user.py; do cat app/user.py; done ;;  # it has changed
    *"Add type hints"*) echo 'class User: "typed"' > app/user.py; sleep 1 ;;
    *"Write docs/guide.md"*) echo guide > docs/guide.md ;;
    *"Make the seed data"*) sleep 1; echo 'NAMES = ["Ann"]' > app/seed.py ;;
esac
"""


@needs_broker
def test_what_the_guide_shows_of_a_run_is_what_is_printed(
    shop: TypedCheckout, tmp_path: Path
) -> None:
    bin = tmp_path / "home/.local/bin"
    bin.mkdir(parents=True)
    (bin / "claude").write_text(CLAUDE)
    (bin / "claude").chmod(0o755)
    shop.write({"app/user.py": "class User: ...\n", "docs/user.md": "User\n",
                "tasks.toml": block("toml", "# tasks.toml")})  # fmt: skip
    shop.git("add", "app", "docs")
    shop.git("commit", "-q", "-m", "users")
    answer = shop.type("dispatch", "tasks.toml", PATH=f"{bin}:{os.environ['PATH']}")
    assert answer.code == 0, answer
    _command, _, shown = block("text", "$ holdfast dispatch tasks.toml\n4 tasks").partition("\n")

    def lines(text: str, home: str) -> list[str]:
        text = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{10}\b", "COMMIT", text.replace(home, "HOME"))
        return sorted(likened(text))  # two tasks that do not meet may end in another order

    said = lines(answer.err + answer.out, str(tmp_path / "home"))
    wanted = lines(shown, "/home/ann")
    assert said == wanted, "\n".join(["said", *said, "shown", *wanted])


def test_an_agent_that_is_not_installed_is_reported_as_shown(shop: TypedCheckout) -> None:
    listed = '[[task]]\nname = "rename User"\nprompt = "x"\n'
    shop.write({"tasks.toml": f'command = ["aider", "{{prompt}}"]\n{listed}'})
    answer = shop.type("dispatch", "tasks.toml")
    shown = block("text", "$ holdfast dispatch tasks.toml\nholdfast: rename User: there is no")
    assert answer.err == shown.partition("\n")[2]


@needs_broker
def test_a_changed_prompt_is_refused_as_shown(shop: TypedCheckout) -> None:
    for prompt in ("true", "true; true"):
        shop.list(**{"seed data": prompt})
        answer = shop.type("dispatch", "tasks.toml")
    shown = block("text", "$ holdfast dispatch tasks.toml\nholdfast: seed data")
    assert answer.err == shown.partition("\n")[2]


@needs_broker
def test_gaps_are_listed_as_shown(shop: TypedCheckout) -> None:
    script = "mkdir -p docs; echo x > docs/guide.md || true; echo x > app/user.py"
    shop.list(**{"rename User": {"prompt": script, "writes": ["app/user.py"]}})
    shop.type("dispatch", "tasks.toml")
    answer = shop.type("gaps")
    assert answer.out + answer.err == block("text", "$ holdfast gaps").partition("\n")[2]
