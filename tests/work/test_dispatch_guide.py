"""The output about screens that docs/dispatch.md shows is the real output."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import QuickRepository
from helpers_guides import Shown, is_shown, transcripts
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_work import Desk, manifest

PAGE = "docs/dispatch.md"
SHARED = "app/controllers/concerns/authentication.rb"
MISTAKES, PLAN, DISPATCH, GAPS = range(4)
#: An agent that tries to write what no analysis has named.
GREEDY = """
for file in {files!r}:
    try: os.mkdir(file) if file.endswith("/") else open(file, "w")
    except OSError: pass
"""


def shown(number: int, command: str) -> Shown:
    """The output that the page shows for one of its commands."""
    found = transcripts(PAGE)[number]
    assert found.command == command
    return found


def check(found: Shown, said: str) -> None:
    """The real output is the shown one, apart from seconds."""
    assert found.output is not None
    texts = [re.sub(r"\d+\.\d s|\d+ s\b", "SECONDS", text) for text in (said, found.output)]
    assert is_shown(*texts), f"--- shown\n{found.output}--- said\n{said}"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    screens = {"blog/posts": ["index", "show", "edit"], "blog/comments": ["index", "moderate"]}
    made = Desk(tmp_path, screens)
    yield made
    made.close()


def test_there_is_a_test_for_each_command_of_the_page() -> None:
    assert len(transcripts(PAGE)) == 4


def test_a_manifest_with_mistakes_is_refused_as_shown(tmp_path: Path) -> None:
    repository = QuickRepository(tmp_path / "project")
    data = manifest({"blog/posts": ["show", *"abcdefghi"]})
    screens: list[dict[str, Any]] = data["screens"]
    del screens[3]["controller"]
    screens[7]["read_from"] = screens[7].pop("reads_from")
    screens[9] = screens[0]
    (repository.root / "screens.json").write_text(json.dumps(data))
    found = shown(MISTAKES, "holdfast plan screens.json")
    check(found, repository.hold(*shlex.split(found.command)[1:]).err)


def test_the_plan_is_the_one_that_is_shown(tmp_path: Path) -> None:
    repository = QuickRepository(tmp_path / "project")
    data = manifest({
        "blog/posts": ["index", "show", "edit"], "blog/comments": ["index", "moderate"],
        "shop/carts": ["show", "add", "pay"],
    })  # fmt: skip
    for screen in data["screens"]:
        if screen["controller"] == "comments":
            screen["reads_from"] = ["app/models/blog/post.rb"]
        elif screen["controller"] == "carts" or screen["name"] == "edit":
            screen["reads_from"] = [SHARED]
    for group in ("blog/posts", "blog/comments", "shop/carts"):
        for file in (
            f"app/controllers/{group}_controller.rb", f"app/views/{group}/index.html.erb",
            f"app/models/{group.removesuffix('s')}.rb", SHARED,
        ):  # fmt: skip
            (repository.root / file).parent.mkdir(parents=True, exist_ok=True)
            (repository.root / file).write_text("old\n")
    (repository.root / "screens.json").write_text(json.dumps(data))
    found = shown(PLAN, "holdfast plan screens.json")
    check(found, repository.hold(*shlex.split(found.command)[1:]).out)


@NEEDS_LANDLOCK
def test_a_run_is_printed_as_shown(desk: Desk) -> None:
    found = shown(DISPATCH, "holdfast dispatch screens.json")
    answer = desk.run(*shlex.split(found.command)[1:])
    check(found, answer.err + answer.out)


@NEEDS_LANDLOCK
def test_gaps_are_listed_as_shown(desk: Desk) -> None:
    files = ["app/models/tag.rb", "app/services/", ".claude/settings.json"]
    for file in ("app/models/post.rb", ".claude/CLAUDE.md"):
        (desk.root / file).parent.mkdir()
        (desk.root / file).write_text("old\n")
    desk.app.order("apply-blog-posts", GREEDY.format(files=files))
    assert desk.run("dispatch", "screens.json").code == 0
    found = shown(GAPS, "holdfast gaps")
    answer = desk.run(*shlex.split(found.command)[1:])
    check(found, answer.out + answer.err)
