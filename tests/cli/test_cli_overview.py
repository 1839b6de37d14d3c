"""`holdfast` alone says how a repository stands and what to do next, in each of its states."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_agents import Agent, blocked
from helpers_cli import COMMAND, Answer, Repository, Terminal
from helpers_processes import until
from holdfast import LockManager

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


@pytest.fixture
def ann(repo: Repository) -> Iterator[Terminal]:
    """A person at a terminal, whoever runs the tests."""
    terminal = Terminal(repo, HOME=str(repo.root.parent), PATH="/usr/bin:/bin")
    yield terminal
    terminal.close()


def commands(answer: Answer) -> list[str]:
    """The commands that are proposed."""
    assert (answer.code, answer.err) == (0, "")
    steps = answer.out.split("\n\n")[-1].splitlines()
    return [line.strip().partition("  ")[0] for line in steps]


def facts(answer: Answer) -> list[str]:
    """What it says before them."""
    return answer.out.split("\n\n")[0].splitlines()


def test_in_no_repository_it_says_what_it_is_and_how_to_begin(
    repo: Repository, ann: Terminal
) -> None:
    outside = repo.root.parent / "elsewhere"
    outside.mkdir()
    answer = ann.hold("-C", str(outside))
    assert facts(answer) == ["holdfast: many agents and people, one repository, locks that hold."]
    assert f"{outside} is in no repository" in answer.out
    assert commands(answer)[1:] == [
        "holdfast init", "holdfast lock PATH", "holdfast demo", "holdfast help",
    ]  # fmt: skip
    assert list(outside.iterdir()) == [], "looking makes no ledger"
    assert ann.hold("-C", str(outside), "--json").json["in_repository"] is False


def test_without_a_ledger_it_proposes_to_guard_or_to_lock(repo: Repository, ann: Terminal) -> None:
    answer = ann.hold()
    assert facts(answer) == [
        f"nothing is locked in {repo.root}", "not guarded: agents write here without a lease",
    ]  # fmt: skip
    assert commands(answer) == ["holdfast init", "holdfast lock PATH", "holdfast help"]
    assert not (repo.root / ".holdfast").exists()


def test_after_init_it_names_what_is_guarded_and_proposes_a_lock(
    repo: Repository, ann: Terminal
) -> None:
    assert ann.hold("init", "--client", "claude", "--git", "--yes").code == 0
    answer = ann.hold()
    assert facts(answer)[1] == "guarded: Claude Code, git"
    assert commands(answer) == ["holdfast lock PATH", "holdfast help"]


def test_it_counts_locks_and_waiters_and_names_your_own(repo: Repository, ann: Terminal) -> None:
    ann.hold("lock", "app/x.rb", "port:5432")
    repo.hold("lock", "app/y.rb", "--holder", "bob")
    with repo.start("lock", "app/x.rb", "--holder", "cid", "--wait", "60") as waiter:
        until(lambda: len(repo.waiting()) == 1, "it waits")
        answer = ann.hold()
        assert facts(answer)[0] == f"2 locks, 1 waiting in {repo.root}"
        assert facts(answer)[2] == "yours: app/x.rb, port:5432"
        assert "bob" not in answer.out
        assert commands(answer)[1:3] == [
            "holdfast status", "holdfast unlock app/x.rb port:5432",
        ]  # fmt: skip
        waiter.kill()


@pytest.mark.parametrize("folder", [".", "app", "app/models"])
def test_the_command_that_releases_yours_works_in_the_folder_where_it_is_shown(
    repo: Repository, ann: Terminal, folder: str
) -> None:
    ann.hold("lock", "app/x.rb", "./port:5432", "'lib/a b'")
    line = next(one for one in commands(ann.hold("-C", folder)) if "unlock" in one)
    words = " ".join(map(shlex.quote, shlex.split(line)[1:]))
    assert ann.hold("-C", folder, words).code == 0
    assert ann.hold("--json").json["own"] == []


def test_many_files_of_yours_are_released_by_the_id_of_their_grant(
    repo: Repository, ann: Terminal
) -> None:
    ann.hold("lock", "a", "b", "c", "d")
    grant = ann.hold("--json").json["own"][0]
    assert grant["paths"] == ["a", "b", "c", "d"]
    assert f"holdfast unlock {grant['id']}" in commands(ann.hold())
    for name in ("e", "f", "g"):
        ann.hold("lock", name)
    assert "holdfast unlock PATH" in commands(ann.hold())


def test_a_blocked_agent_comes_first(repo: Repository, ann: Terminal) -> None:
    with LockManager.open(repo.root) as manager:
        Agent(manager, "dan").edit("x.rb")
        blocked(manager, "eve", "x.rb")
        answer = ann.hold()
    assert "1 blocked" in facts(answer)[0]
    assert commands(answer)[0] == "holdfast blockers"


def test_a_gate_that_is_off_is_told_with_the_way_back(repo: Repository, ann: Terminal) -> None:
    ann.hold("init", "--client", "claude", "--yes")
    assert ann.do(f"{shlex.join(COMMAND)} off --reason rebase 0</dev/tty").code == 0
    answer = ann.hold()
    assert facts(answer)[1].startswith("the gate is off since ")
    assert facts(answer)[1].endswith(": rebase")
    assert commands(answer)[0] == "holdfast on"


def test_an_agent_is_not_shown_what_only_a_person_may(repo: Repository) -> None:
    answer = repo.hold(env={"HOLDFAST_HOLDER": "agent-7"})
    assert commands(answer) == ["holdfast lock PATH", "holdfast help"]


def test_as_json_it_is_one_document(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    found: dict[str, Any] = repo.hold("--json", env={"HOLDFAST_HOLDER": "bob"}).json
    assert found["root"] == os.fspath(repo.root)
    assert (found["in_repository"], found["ledger"], found["guarded"]) == (True, True, [])
    assert (found["locks"], found["waiting"], found["blocked"]) == (1, 0, 0)
    assert [one["paths"] for one in found["own"]] == [["app/x.rb"]]
    assert [one["command"] for one in found["next"]][-2:] == [
        "holdfast unlock app/x.rb", "holdfast help",
    ]  # fmt: skip


def test_another_store_needs_no_repository(repo: Repository, tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/other.db"
    repo.hold("lock", "x", "--holder", "bob", "--store", store)
    answer = repo.hold("--store", store, cwd=tmp_path, env={"HOLDFAST_HOLDER": "ann"})
    assert answer.code == 0
    assert facts(answer)[0].startswith("1 lock")
