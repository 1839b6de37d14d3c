"""An ordinary day of three agents in one repository, and what must never happen on it.

No agent is refused wrongly, no line is lost, and no damage is reported that did not happen; an
agent that reaches for a file that another has changed is refused. An independent record judges
(`day/record.py`).

A seed decides what each agent does and whose turn it is. Calls are held open in real time, so two
runs are not identical.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import LockManager

from .day.agent import KINDS
from .day.repository import Day


@pytest.fixture(params=[20_260, 1, 2])
def day(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Day]:
    made = Day(tmp_path, seed=request.param)
    yield made
    made.close()


def test_on_an_ordinary_day_nobody_is_refused_wrongly_and_nothing_is_lost(day: Day) -> None:
    day.live()
    assert not day.record.wrong
    kept = day.everything()
    lost = {line: whose for line, whose in day.record.lines.items() if line not in kept}
    assert not lost
    assert len(day.record.lines) > 200
    with LockManager.open(day.root) as manager:
        assert manager.active_grants() == []
        assert manager.queue() == []
        assert [event for event in manager.events() if event.type == "damage"] == []
    for kind in KINDS:
        assert day.counts[kind.__name__], kind
    for what in (
        "collision refused", "write refused", "commit refused", "whole tree refused", "blocked",
        "siblings kept apart", "back on main", "idle for long", "through the real hook", "denied",
        "asked again too early", "got what it was refused", "told that a file came free",
        "waited at its stop in vain", "went on at its stop",
    ):  # fmt: skip
        assert day.counts[what], (what, day.counts)
