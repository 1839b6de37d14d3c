"""What is due when, by a clock that is read as rarely as possible."""

from __future__ import annotations

import math
from typing import cast

import pytest

from holdfast.core.model import SECOND
from holdfast.manager.manager import LockManager
from holdfast.work.engine import deadlines
from holdfast.work.engine.deadlines import Deadlines


class Clock:
    """The ledger's clock, which counts how often it was read; and ours, which does not move."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.ours = 50.0
        self.asked = 0

    def now(self) -> int:
        self.asked += 1
        return round(self.seconds * SECOND)

    def passes(self, seconds: float) -> None:
        self.seconds += seconds
        self.ours += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(deadlines, "monotonic", lambda: made.ours)
    return made


@pytest.fixture
def due(clock: Clock) -> Deadlines:
    return Deadlines(cast(LockManager, clock))


def at(seconds: float) -> int:
    return round(seconds * SECOND)


def test_while_nothing_is_due_the_clock_is_not_read(clock: Clock, due: Deadlines) -> None:
    assert due.due() == (0, [])
    assert due.seconds == math.inf
    assert clock.asked == 0


def test_each_is_told_once_in_the_order_of_its_moment(clock: Clock, due: Deadlines) -> None:
    for moment, id in ((1030, "c"), (1010, "a"), (1020, "b")):
        due.note(at(moment), id)
    assert due.due()[1] == []
    clock.passes(21)
    assert due.due() == (at(1021), ["a", "b"])
    assert due.due()[1] == []
    clock.passes(9)
    assert due.due() == (at(1030), ["c"])
    assert due.seconds == math.inf


def test_the_clock_is_asked_only_when_something_may_have_come(clock: Clock, due: Deadlines) -> None:
    due.note(at(1010), "a")
    for _ in range(100):
        due.due()
    assert clock.asked == 1
    assert due.seconds == pytest.approx(10)
    clock.passes(9.9)
    assert due.due()[1] == []
    assert clock.asked == 1
    clock.passes(0.2)
    assert due.due()[1] == ["a"]


def test_one_that_comes_earlier_than_all_others_is_not_missed(clock: Clock, due: Deadlines) -> None:
    due.note(at(1050), "late")
    due.due()
    due.note(at(1055), "later")
    assert due.seconds == pytest.approx(50)
    due.note(at(1001), "soon")
    assert due.seconds <= 0, "it is not known yet how far away that is"
    due.due()
    assert due.seconds == pytest.approx(1)


def test_our_clock_is_trusted_for_a_while_only(clock: Clock, due: Deadlines) -> None:
    due.note(at(1600), "a")
    due.due()
    assert due.seconds == pytest.approx(60)
    clock.seconds += 1000  # the machine slept, and our clock with it
    clock.ours += 61
    assert due.due()[1] == ["a"]


def test_a_doubt_makes_it_read_the_clock_again_even_during_a_reading(
    clock: Clock, due: Deadlines
) -> None:
    due.note(at(1010), "a")
    due.due()
    clock.seconds += 20
    assert due.due()[1] == []
    due.doubt()
    assert due.due()[1] == ["a"]

    due.note(at(1100), "b")
    asking = clock.now

    def now() -> int:
        read = asking()
        clock.seconds += 100
        due.doubt()
        return read

    clock.now = now  # type: ignore[method-assign]
    assert due.due()[1] == []
    clock.now = asking  # type: ignore[method-assign]
    assert due.due()[1] == ["b"], "the reading was old, and was doubted"
