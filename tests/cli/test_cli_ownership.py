"""The holder of a lock: terminals, an agent, a runner, a name; and who may take a lock away."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers_cli import COMMAND, Repository, Terminal
from helpers_processes import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


@pytest.fixture
def terminal(repo: Repository) -> Iterator[Callable[..., Terminal]]:
    """Opens terminals, and hangs them all up at the end."""
    opened: list[Terminal] = []

    def open_one(**more: str) -> Terminal:
        opened.append(Terminal(repo, **more))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_a_lock_belongs_to_the_terminal_and_not_to_the_command(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    ann, bob = terminal(), terminal()
    answer = ann.hold("lock", "app/x.rb", "--reason", "mine")
    assert answer.code == 0
    assert ": this terminal (" in answer.err
    assert bob.hold("lock", "app/x.rb").code == 3
    assert bob.hold("unlock", "app/x.rb").code == 4
    assert ann.hold("lock", "app/x.rb").code == 0, "its own locks never refuse it"
    assert ann.hold("unlock", "app/x.rb").code == 0
    assert bob.hold("lock", "app/x.rb").code == 0


def test_a_lock_ends_with_the_terminal_it_belongs_to(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    gone = Terminal(repo)
    assert gone.hold("lock", "app/x.rb", "--ttl", "none").code == 0
    assert repo.hold("check", "app/x.rb").code == 3
    gone.close()
    assert repo.hold("lock", "app/x.rb").code == 0


def test_status_marks_what_is_yours(repo: Repository, terminal: Callable[..., Terminal]) -> None:
    ann = terminal()
    ann.hold("lock", "app/x.rb")
    repo.hold("lock", "app/y.rb", "--holder", "bob")
    mine, theirs = ann.hold("status").out.splitlines()[-2:]
    assert "(you)" in mine
    assert "(you)" not in theirs


def test_inside_one_terminal_scripts_and_subshells_are_the_same_holder(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    ann = terminal()
    ann.hold("lock", "app/x.rb")
    line = " ".join([*COMMAND, "unlock", "app/x.rb"])
    assert ann.do(f"sh -c '{line}; exit $?'").code == 0


def test_holdfast_holder_names_the_holder(repo: Repository) -> None:
    agent = {"HOLDFAST_HOLDER": "agent-7"}
    assert repo.hold("whoami", "--json", env=agent).json["id"] == "agent-7"
    assert repo.hold("lock", "app/x.rb", env=agent).code == 0
    assert repo.holders("app/x.rb") == ["agent-7"]
    assert repo.hold("unlock", "app/x.rb").code == 4
    assert repo.hold("unlock", "app/x.rb", env=agent).code == 0


def test_a_given_name_comes_first_and_lives_by_its_ttl(repo: Repository) -> None:
    answer = repo.hold("lock", "app/x.rb", "--holder", "bob", env={"HOLDFAST_HOLDER": "agent-7"})
    assert "end by their ttl alone" in answer.err
    [grant] = repo.grants()
    assert (grant["holder"], grant["owner"]["pid"]) == ("bob", None)
    assert repo.hold("unlock", "app/x.rb", env={"HOLDFAST_HOLDER": "agent-7"}).code == 4
    assert repo.hold("unlock", "app/x.rb", "--holder", "bob").code == 0


def test_an_agent_client_is_the_holder_and_another_session_of_it_is_another(
    repo: Repository,
) -> None:
    one = {"CLAUDE_CODE_SESSION_ID": "11111111-aaaa-bbbb-cccc-000000000000"}
    two = {"CLAUDE_CODE_SESSION_ID": "22222222-aaaa-bbbb-cccc-000000000000"}
    found = repo.hold("whoami", "--json", env=one).json
    assert (found["client"], found["session"]) == ("claude", one["CLAUDE_CODE_SESSION_ID"])
    assert found["key"] == f"@claude/{one['CLAUDE_CODE_SESSION_ID']}/"
    broken = repo.hold("whoami", "--json", "--store", "odd://x", env=one)
    assert broken.json["id"] == f"claude:{one['CLAUDE_CODE_SESSION_ID']}", "it needs no ledger"
    assert repo.hold("lock", "app/x.rb", env=one).code == 0
    assert repo.hold("lock", "app/x.rb", env=two).code == 3
    assert repo.hold("unlock", "app/x.rb", env=one).code == 0


def test_whoami_says_it_in_one_line(repo: Repository) -> None:
    answer = repo.hold("whoami", "--holder", "bob")
    assert (answer.code, answer.out) == (0, "bob: as given; its locks end by their ttl alone\n")


# Force


def test_a_person_takes_a_lock_away_and_both_are_recorded(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    repo.hold("lock", "app/x.rb", "app/y.rb", "--holder", "bob")
    person = terminal()
    me = person.hold("whoami").out.split(": ")[0]
    answer = person.hold("unlock", "app/x.rb", "--force", "--reason", '"bob is on holiday"')
    assert answer.code == 0, answer
    assert answer.out == f"took app/x.rb, app/y.rb away from bob, by {me}\n"
    assert repo.grants() == []
    forced = repo.events()[-1]
    assert forced["type"] == "lock_forced"
    assert forced["data"]["holder"] == "bob"
    assert forced["data"]["by"]["holder"] == me
    assert forced["data"]["reason"] == "bob is on holiday"
    assert f"{me} took app/x.rb, app/y.rb away from bob: bob is on holiday" in repo.hold("log").out


def test_a_person_takes_a_lock_away_by_its_grant_and_the_old_holder_is_told(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    grant = repo.hold("lock", "app/x.rb", "--holder", "bob", "--json").json["grant"]["id"]
    person = terminal()
    answer = person.hold("unlock", grant, "--force", "--reason", "urgent", "--json")
    assert [one["id"] for one in answer.json["forced"]] == [grant]
    late = repo.hold("renew", grant, "--holder", "bob", "--json")
    assert (late.code, late.error["code"]) == (4, "E_FENCING_MISMATCH")
    assert "forced by" in late.error["message"]
    assert person.hold("unlock", "app/x.rb", "--force", "--reason", "again").code == 4


def test_force_needs_a_reason_and_ones_own_name(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    person = terminal()
    assert person.hold("unlock", "app/x.rb", "--force").code == 2
    assert person.hold("unlock", "app/x.rb", "--force", "--reason", "' '").code == 2
    answer = person.hold("unlock", "app/x.rb", "--force", "--reason", "x", "--holder", "eve")
    assert answer.code == 2
    assert repo.holders("app/x.rb") == ["bob"]


@pytest.mark.parametrize(
    "variables",
    [
        {"CLAUDE_CODE_SESSION_ID": "11111111-aaaa-bbbb-cccc-000000000000"},
        {"HOLDFAST_HOLDER": "agent-7"},
        {"HOLDFAST_GRANT": "01a1e126-54ee-7b60-864d-52c6ecb385a4"},
    ],
)
def test_a_command_that_runs_for_an_agent_cannot_force(
    repo: Repository, terminal: Callable[..., Terminal], variables: dict[str, str]
) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    agent = terminal(**variables)
    answer = agent.hold("unlock", "app/x.rb", "--force", "--reason", "it is in my way")
    assert answer.code == 2
    assert "only a person" in answer.err
    assert repo.holders("app/x.rb") == ["bob"]
    assert "lock_forced" not in [event["type"] for event in repo.events()]


def test_an_agents_program_above_the_terminal_is_enough_to_be_refused(
    repo: Repository, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    line = " ".join([*COMMAND, "unlock", "app/x.rb", "--force", "--reason", "x"])
    agent = tmp_path / "claude"
    agent.write_text(f"#!/bin/sh\n{line}\nexit $?\n")
    agent.chmod(0o755)
    answer = terminal().do(str(agent))
    assert answer.code == 2
    assert "under an agent" in answer.err
    assert repo.holders("app/x.rb") == ["bob"]


@pytest.mark.parametrize(
    "words",
    ["unlock app/x.rb --force --reason x", "resume", "off", "on", "init --undo"],
)
def test_no_process_below_a_runner_is_a_person_whatever_its_environment_says(
    repo: Repository, terminal: Callable[..., Terminal], words: str
) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    command = " ".join([*COMMAND, words])
    run = " ".join(
        [*COMMAND, "run", "--write", "app/y.rb", "--", "env", "-i", "PATH=$PATH", command]
    )
    answer = terminal().do(run)
    assert answer.code == 2
    assert "this was started by the agent of" in answer.err
    assert repo.holders("app/x.rb") == ["bob"]
    assert not (repo.root / ".holdfast/off").exists()


def test_a_command_without_a_terminal_cannot_force(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    assert repo.hold("unlock", "app/x.rb", "--force", "--reason", "x").code == 2
    piped = terminal().do(
        " ".join(["echo y |", *COMMAND, "unlock", "app/x.rb", "--force", "--reason", "x"])
    )
    assert piped.code == 2
    assert "not a terminal" in piped.err
    assert repo.holders("app/x.rb") == ["bob"]


def test_a_waiter_gets_what_was_taken_away(
    repo: Repository, terminal: Callable[..., Terminal]
) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    waiter = repo.start("lock", "app/x.rb", "--wait", "--holder", "ann")
    until(lambda: len(repo.waiting()) == 1, "ann waits")
    terminal().hold("unlock", "app/x.rb", "--force", "--reason", "x")
    waiter.communicate(timeout=30)
    assert waiter.returncode == 0
    assert repo.holders("app/x.rb") == ["ann"]
