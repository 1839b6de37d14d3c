"""The agents' states towards files, as people are shown them: the states of the rulebook."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.model import SECOND
from holdfast.gate.config.settings import Settings
from holdfast.gate.held_stops import hold
from holdfast.gate.people import file_standing
from holdfast.gate.people.file_standing import Standing, countdown, standings
from holdfast.gate.rulebook import file_states
from holdfast.manager import transactions
from stage import Actor, Stage, settled


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Stage]:
    """A stage on which nothing is handed over before the retry."""
    made = Stage(tmp_path, Settings(wake=False))
    yield made
    made.close()


def seen(stage: Stage) -> list[Standing]:
    return transactions.look(stage.manager, standings)


def of(stage: Stage, actor: Actor, file: str = "x.rb") -> Standing:
    [one] = [one for one in seen(stage) if (one.key, one.file) == (actor.holder.key, file)]
    return one


def told(stage: Stage, actor: Actor, file: str = "x.rb") -> str:
    return of(stage, actor, file).words(stage.manager.now())


def test_what_is_free_concerns_no_agent(stage: Stage) -> None:
    assert seen(stage) == []
    stage.manager.try_acquire(holder="a person", write_paths=["x.rb"])
    assert seen(stage) == []


def test_an_owner_is_shown_with_each_file(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("x.rb", "y.rb")
    assert [(one.file, one.state) for one in seen(stage)] == [
        ("x.rb", file_states.OWNED),
        ("y.rb", file_states.OWNED),
    ]
    one = of(stage, ann)
    assert one.owner == one.agent
    assert one.until is None
    assert told(stage, ann) == "owned"


def test_an_owner_that_rests_is_shown_with_the_time_that_is_left(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("x.rb")
    settled(stage.root / "x.rb")
    ann.gate().stop()
    stage.clock.advance(18)
    assert told(stage, ann) == "owned, rests, free in 12 s"
    stage.clock.advance(12)
    assert seen(stage) == []


def test_one_that_waits_is_shown_with_its_owner_its_place_and_its_retry(stage: Stage) -> None:
    ann, bob, eve = stage.agent("ann"), stage.agent("bob"), stage.agent("eve")
    ann.edit("x.rb")
    bob.edit("x.rb")
    stage.clock.advance(50)
    eve.edit("x.rb")
    one, other = of(stage, bob), of(stage, eve)
    assert (one.state, one.line, other.line) == (file_states.RETRY_PENDING, 1, 2)
    assert one.owner == of(stage, ann).agent
    assert told(stage, bob) == "retry pending, due in 2 min 10 s"
    assert told(stage, eve) == "retry pending, due in 3 min"
    stage.clock.advance(131)
    assert told(stage, bob) == "retry pending, overdue for 1 s"
    assert of(stage, bob).is_overdue(stage.manager.now())
    assert not of(stage, eve).is_overdue(stage.manager.now())


def test_what_came_free_is_owned_and_not_used_yet(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("x.rb")
    bob.edit("x.rb")
    ann.gate().fail()
    one = of(stage, bob)
    assert (one.state, one.how) == (file_states.OWNED, file_standing.HANDED)
    assert told(stage, bob) == "owned, handed over, unused, free in 30 s"
    bob.gate().live_on()
    assert of(stage, bob) == one
    stage.clock.advance(31)
    assert seen(stage) == []


def test_the_next_owner_is_the_one_that_is_named(stage: Stage) -> None:
    ann, bob, eve = stage.agent("ann"), stage.agent("bob"), stage.agent("eve")
    ann.edit("x.rb")
    bob.edit("x.rb")
    eve.edit("x.rb")
    ann.gate().fail()
    assert of(stage, eve).owner == of(stage, bob).agent
    assert of(stage, eve).line == 1


def test_without_hand_overs_it_is_pending_until_the_retry(patient: Stage) -> None:
    ann, bob = patient.agent("ann"), patient.agent("bob")
    ann.edit("x.rb")
    bob.edit("x.rb")
    ann.gate().fail()
    one = of(patient, bob)
    assert (one.state, one.how, one.owner) == (
        file_states.RETRY_PENDING,
        file_standing.RESERVED,
        "",
    )
    assert told(patient, bob) == "retry pending, kept for it, due in 3 min"
    patient.clock.advance(200)
    assert told(patient, bob) == "retry pending, overdue for 20 s"


def test_one_in_a_circle_is_shown_although_it_stands_in_no_line(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("x.rb")
    bob.edit("y.rb")
    ann.edit("y.rb")
    bob.edit("x.rb")
    one = of(stage, bob)
    assert (one.state, one.how, one.line) == (file_states.RETRY_PENDING, file_standing.CIRCLE, 0)
    assert one.owner == of(stage, ann).agent
    assert told(stage, bob) == "retry pending, in a circle, due in 3 min"


def test_one_that_is_blocked_is_shown_with_its_report(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("x.rb")
    bob.edit("x.rb")
    stage.clock.advance(181)
    bob.edit("x.rb")
    one = of(stage, bob)
    assert one.state == file_states.BLOCKED
    assert one.report is not None
    report = one.report
    assert one.owner == report["owner"] == of(stage, ann).agent
    assert one.since == stage.manager.now()
    assert told(stage, bob) == "blocked, waits for its user"
    ann.gate().fail()
    one = of(stage, bob)
    assert (one.owner, one.report["owner"] if one.report else "") == ("", report["owner"])
    assert told(stage, bob) == "blocked, waits for its user, the file is free now"
    bob.gate().end_session()
    assert of(stage, bob).state == file_states.BLOCKED  # until a person has read the report
    stage.agent("bob").gate().prompt()
    assert seen(stage) == []


def test_one_that_died_waits_for_nothing(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("x.rb")
    bob.edit("x.rb")
    stage.kill("bob")
    assert [one.key for one in seen(stage)] == [ann.holder.key]


def test_a_stop_that_is_held_is_no_rest(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("x.rb")
    bob.edit("y.rb")
    bob.edit("x.rb")
    found: list[tuple[str, str]] = []

    def look(seconds: float, _waiter: object) -> bool:
        found.append((told(stage, bob, "y.rb"), told(stage, bob)))
        stage.clock.advance(seconds)
        return False

    gate = bob.gate(hold=True)
    gate._pause = look
    hold([gate.stop(may_go_on=True)])
    assert found[0] == (
        "owned, its stop is held",
        "retry pending, its stop is held, due in 3 min",
    )


def test_looking_changes_nothing(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("x.rb")
    bob.edit("x.rb")
    stage.kill("ann")
    before = stage.manager.store.wait(0, 0)
    assert of(stage, bob).owner == ""
    assert stage.manager.store.wait(0, 0) == before


def test_for_other_programs_it_has_the_full_key_and_moments(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("x.rb")
    bob.edit("x.rb")
    data = of(stage, bob).to_data(stage.manager.now())
    assert data["key"] == bob.holder.key
    assert data["state"] == file_states.RETRY_PENDING
    assert (data["said"], data["words"]) == ("retry pending", "retry pending, due in 3 min")
    assert data["retry_at"].endswith("Z")
    assert (data["until"], data["report"]) == (None, None)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-3, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (130, "2 min 10 s"), (3600, "60 min"),
     (8000, "2 h 13 min")],
)  # fmt: skip
def test_seconds_are_counted_as_long_as_they_matter(seconds: int, said: str) -> None:
    assert countdown(seconds * SECOND) == said
