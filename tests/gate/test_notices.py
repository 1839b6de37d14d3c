"""People hear, by a command of their own, that an agent is blocked, free to go on, or resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers_processes import until
from holdfast.gate.blocking import resume
from holdfast.gate.settings import Settings
from stage import Actor, Stage, settled

HEARD = "heard"
#: A command that writes down what it is told.
NOTIFY = ("sh", "-c", f'echo "$HOLDFAST_NOTICE" >> {HEARD}', "notify")


@pytest.fixture
def told(repository: Path) -> Stage:
    lines = ", ".join(f"'{word}'" for word in NOTIFY)
    (repository / "holdfast.toml").write_text(f"notify = [{lines}]\n")
    settled(repository / "app/x.rb")
    return Stage(repository, Settings.load(str(repository)))


def heard(stage: Stage) -> list[str]:
    try:
        return (stage.root / HEARD).read_text().split()
    except FileNotFoundError:
        return []


def hears(stage: Stage, *words: str) -> None:
    until(lambda: heard(stage) == list(words), f"people hear {words}")


def blocked(stage: Stage) -> tuple[Actor, Actor]:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    bob.edit("app/x.rb")
    stage.clock.advance(180)
    assert bob.edit("app/x.rb").kind == "halt"
    hears(stage, "blocked")
    return ann, bob


def test_people_hear_of_a_block_and_that_the_owner_ended(told: Stage) -> None:
    ann, bob = blocked(told)
    ann.gate().end_session()
    hears(told, "blocked", "free")
    bob.gate().prompt()
    hears(told, "blocked", "free", "resumed")


def test_people_hear_that_the_owner_committed(told: Stage) -> None:
    ann, _bob = blocked(told)
    ann.commit("app/x.rb")
    hears(told, "blocked", "free")


def test_people_hear_that_a_person_let_it_go_on(told: Stage) -> None:
    blocked(told)
    assert resume(told.manager, "eve")
    hears(told, "blocked", "resumed")
