"""Ledger time and the clocks it is made from."""

from __future__ import annotations

import datetime
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger_time import (
    SLEEP_NOTICED,
    Anchor,
    Reading,
    iso,
    ledger_time,
)
from holdfast.core.model import SECOND
from holdfast.manager.clock import FakeClock, SystemClock, boot_id

WALL = 1_700_000_000 * SECOND


class Ledger:
    """As much of a store as time needs: the anchor and the last event."""

    def __init__(self, clock: FakeClock | SystemClock) -> None:
        self.clock = clock
        self.anchor: Anchor | None = None
        self.last_event_at = 0
        self.slept = 0

    def now(self, *, commit: bool = True) -> int:
        now, self.slept, anchor = ledger_time(self.anchor, self.clock.read(), self.last_event_at)
        if commit:
            self.anchor = anchor or self.anchor
            self.last_event_at = now
        return now


def test_a_new_ledger_begins_at_the_wall_clock() -> None:
    ledger = Ledger(FakeClock(WALL))
    assert ledger.now() == WALL
    assert ledger.anchor is not None
    assert ledger.slept == 0


def test_time_passes_with_the_uptime_and_keeps_its_anchor() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    anchor = ledger.anchor
    clock.advance(12.5)
    assert ledger.now() == WALL + 12_500_000
    assert ledger.anchor is anchor


@pytest.mark.parametrize("step", [-86_400 * 365, -1, 1, 86_400 * 365])
def test_a_step_of_the_wall_clock_changes_nothing(step: int) -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    clock.step_wall(step)
    assert ledger.now() == WALL
    clock.advance(3)
    assert ledger.now() == WALL + 3 * SECOND


def test_sleep_passes_as_time_and_is_counted() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    clock.advance(1)
    clock.sleep_machine(3600)
    assert ledger.now() == WALL + 3601 * SECOND
    assert ledger.slept == 3600 * SECOND
    clock.advance(1)
    clock.sleep_machine(60)
    assert ledger.now() == WALL + 3662 * SECOND
    assert ledger.slept == 3660 * SECOND


def test_sleep_before_the_ledger_was_created_does_not_count() -> None:
    clock = FakeClock(WALL)
    clock.sleep_machine(500)
    ledger = Ledger(clock)
    ledger.now()
    assert ledger.slept == 0


def test_the_gap_between_reading_two_clocks_is_not_taken_for_a_sleep() -> None:
    anchor = Anchor(boot="b", uptime=0, ledger=WALL, slept=7 * SECOND, asleep=5 * SECOND)
    for noise in (-SLEEP_NOTICED, -1, 1, SLEEP_NOTICED - 1):
        reading = Reading(WALL, "b", 10, 5 * SECOND + noise)
        assert ledger_time(anchor, reading, 0) == (WALL + 10, 7 * SECOND, None)


def test_after_a_reboot_time_goes_on_at_the_wall_clock() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    clock.reboot(down_seconds=120)
    assert ledger.now() == WALL + 120 * SECOND
    clock.advance(5)
    assert ledger.now() == WALL + 125 * SECOND


def test_after_a_reboot_with_a_clock_set_back_time_goes_on_at_the_last_event() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    clock.advance(100)
    last = ledger.now()
    clock.step_wall(-86_400)
    clock.reboot()
    assert ledger.now() == last
    clock.advance(7)
    # It does not wait until the wall clock has caught up.
    assert ledger.now() == last + 7 * SECOND


def test_a_reboot_forgets_no_sleep() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    clock.sleep_machine(3600)
    ledger.now()
    clock.reboot()
    ledger.now()
    assert ledger.slept == 3600 * SECOND
    clock.sleep_machine(10)
    ledger.now()
    assert ledger.slept == 3610 * SECOND


def test_a_second_reboot_without_an_event_does_not_lead_back() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    clock.reboot(down_seconds=1000)
    now, _, ledger.anchor = ledger_time(ledger.anchor, clock.read(), ledger.last_event_at)
    clock.step_wall(-5000)
    clock.reboot()
    assert ledger.now() >= now


def test_a_restored_backup_catches_up_within_the_same_boot() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    backup = (ledger.anchor, ledger.last_event_at)
    clock.advance(5000)
    ledger.now()
    clock.step_wall(-100_000)
    ledger.anchor, ledger.last_event_at = backup
    assert ledger.now() == WALL + 5000 * SECOND


def test_a_restored_backup_catches_up_after_a_reboot() -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    backup = (ledger.anchor, ledger.last_event_at)
    clock.advance(5000)
    clock.reboot()
    ledger.anchor, ledger.last_event_at = backup
    assert ledger.now() == WALL + 5000 * SECOND


def test_a_machine_that_was_put_back_to_a_snapshot_does_not_stop_time() -> None:
    anchor = Anchor(boot="b", uptime=5000 * SECOND, ledger=WALL, slept=0, asleep=0)
    last = WALL + 100 * SECOND
    snapshot = Reading(WALL + 900 * SECOND, "b", 10 * SECOND, 0)
    now, _, anew = ledger_time(anchor, snapshot, last)
    assert now == WALL + 900 * SECOND
    assert anew is not None
    later = Reading(WALL + 901 * SECOND, "b", 11 * SECOND, 0)
    assert ledger_time(anew, later, now)[0] == now + SECOND


def test_a_reading_that_was_used_late_does_not_move_the_anchor() -> None:
    anchor = Anchor(boot="b", uptime=0, ledger=WALL, slept=0, asleep=0)
    stale = Reading(WALL + 10 * SECOND, "b", 10 * SECOND, 0)
    last = WALL + 7200 * SECOND
    assert ledger_time(anchor, stale, last) == (last, 0, None)


def test_without_a_boot_id_time_is_the_wall_clock_held_back() -> None:
    assert ledger_time(None, Reading(WALL, "", 5, 0), 0) == (WALL, 0, None)
    assert ledger_time(None, Reading(WALL - 9, "", 5, 0), WALL) == (WALL, 0, None)
    kept = Anchor(boot="b", uptime=0, ledger=WALL + 3, slept=42, asleep=0)
    assert ledger_time(kept, Reading(WALL, "", 5, 0), 0) == (WALL + 3, 42, None)


MOVES = st.one_of(
    st.tuples(st.just("advance"), st.floats(0, 1e5)),
    st.tuples(st.just("step_wall"), st.floats(-1e9, 1e9)),
    st.tuples(st.just("sleep_machine"), st.floats(0, 1e5)),
    st.tuples(st.just("reboot"), st.floats(0, 1e5)),
)


@given(st.lists(st.tuples(MOVES, st.booleans()), max_size=60))
def test_whatever_happens_time_never_goes_back(moves: list[tuple[tuple[str, float], bool]]) -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    committed = (ledger.now(), ledger.slept)
    for (move, seconds), commit in moves:
        getattr(clock, move)(seconds)
        now = ledger.now(commit=commit)
        assert now >= committed[0]
        assert ledger.slept >= committed[1]
        if commit:
            committed = (now, ledger.slept)


@given(st.lists(st.tuples(MOVES.filter(lambda move: move[0] != "reboot"), st.booleans())))
def test_within_one_boot_time_is_exactly_what_passed(
    moves: list[tuple[tuple[str, float], bool]],
) -> None:
    clock = FakeClock(WALL)
    ledger = Ledger(clock)
    ledger.now()
    begun = clock.read().uptime
    for (move, seconds), commit in moves:
        getattr(clock, move)(seconds)
        assert ledger.now(commit=commit) == WALL + clock.read().uptime - begun
        assert abs(ledger.slept - clock.read().slept) < SLEEP_NOTICED


@given(st.integers(0, 250_000_000_000 * SECOND))
def test_iso_agrees_with_the_standard_library(microseconds: int) -> None:
    expected = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=microseconds)
    assert iso(microseconds) == expected.isoformat(timespec="microseconds") + "Z"


def test_iso_always_has_all_its_digits() -> None:
    assert iso(0) == "1970-01-01T00:00:00.000000Z"
    assert iso(WALL + 1) == "2023-11-14T22:13:20.000001Z"


def test_the_system_clock_tells_the_time() -> None:
    clock = SystemClock()
    before = time.time_ns() // 1000
    reading = clock.read()
    assert before <= reading.wall <= time.time_ns() // 1000
    assert reading.uptime > 0
    assert 0 <= reading.slept <= reading.uptime
    assert reading.boot.startswith(boot_id())
    assert clock.read().uptime >= reading.uptime
    assert clock.read().slept >= reading.slept
    assert abs(clock.monotonic() - time.monotonic()) < 60


def test_the_uptime_is_that_of_the_machine() -> None:
    try:
        with open("/proc/uptime") as file:
            expected = float(file.read().split()[0])
    except FileNotFoundError:
        pytest.skip("needs /proc/uptime to compare with")
    assert abs(SystemClock().read().uptime / SECOND - expected) < 60


def test_the_system_clock_feeds_a_ledger() -> None:
    ledger = Ledger(SystemClock())
    times = [ledger.now() for _ in range(1000)]
    assert times == sorted(times)
    assert ledger.slept == 0


def test_the_fake_clock_stands_still_until_it_is_moved() -> None:
    clock = FakeClock()
    assert clock.read() == clock.read()
    before = clock.read()
    clock.advance(1.5)
    after = clock.read()
    assert (after.wall - before.wall, after.uptime - before.uptime) == (1_500_000, 1_500_000)
    assert clock.monotonic() == pytest.approx(1001.5)


def test_a_sleeping_machine_lets_no_deadline_pass() -> None:
    clock = FakeClock()
    before = clock.monotonic()
    clock.sleep_machine(100)
    assert clock.monotonic() == before


def test_a_reboot_has_a_new_name_and_begins_at_nought() -> None:
    clock = FakeClock()
    clock.sleep_machine(5)
    first = clock.read()
    clock.reboot()
    second = clock.read()
    assert second.boot != first.boot
    assert (second.uptime, second.slept) == (0, 0)
    assert clock.monotonic() >= 1000


@pytest.mark.parametrize("move", ["advance", "sleep_machine", "reboot"])
def test_the_fake_clock_cannot_be_turned_back(move: str) -> None:
    with pytest.raises(ValueError, match="forward"):
        getattr(FakeClock(), move)(-1)
