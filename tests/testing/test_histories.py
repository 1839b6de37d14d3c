"""The checker of histories: for a legal one it finds an order, for an illegal one the few
operations that show it.

Its results on real processes are in `test_history_fight.py`.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, count, permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from histories import Death, History, Journal, Operation, Recorder, check, read
from histories.components import components
from histories.judging import judge
from histories.model import NEVER, NOTHING_HELD, Model, clash, overlap
from histories.search import granted_by
from histories.windows import Contradiction, narrowed
from holdfast import LockManager

MS = 1_000_000
BUDGET = 50_000


def ask(
    who: str, start: int, end: int | None, grant: str = "", token: int = 0, *,
    w: str = "", r: str = "", ttl: int | None = None, call: str = "try_acquire",
    answer: str = "", patience: int | None = None,
) -> Operation:  # fmt: skip
    """A request, in milliseconds: granted if it has a grant, else refused by default."""
    wants = [(key, "w") for key in w.split()] + [(key, "r") for key in r.split()]
    said = answer or ("" if end is None else "granted" if grant else "refused")
    return Operation(
        who, who, call, start * MS, None if end is None else end * MS, said, tuple(wants),
        grant, token, None if ttl is None else ttl * MS,
        None if patience is None else patience * MS,
    )  # fmt: skip


def about(
    who: str, call: str, grant: str, start: int, end: int | None, answer: str, token: int = 0,
    section: tuple[int, int] | None = None, ttl: int | None = None,
) -> Operation:  # fmt: skip
    return Operation(
        who, who, call, start * MS, None if end is None else end * MS, answer, (), grant, token,
        None if ttl is None else ttl * MS, None,
        None if section is None else (section[0] * MS, section[1] * MS),
    )  # fmt: skip


def release(
    who: str, grant: str, start: int, end: int | None = None, answer: str = "released"
) -> Operation:
    return about(who, "release", grant, start, end, answer if end is not None else "")


def verify(who: str, grant: str, token: int, start: int, end: int, holds: bool) -> Operation:
    return about(who, "verify", grant, start, end, "holds" if holds else "does not hold", token)


def judged(*operations: Operation, deaths: tuple[Death, ...] = ()) -> str:
    history = History(operations, deaths)
    judgement = check(history)
    if judgement:
        # The witness has every operation with an answer, and respects real time.
        placed = [o for order in judgement.orders for o in order]
        assert len(placed) >= sum(o.outcome is not None for o in operations)
        for order in judgement.orders:
            respects_real_time(order)
    elif judgement.name == "illegal":
        assert judgement.core
        assert str(judgement.core[0]) in str(judgement)
    return judgement.name


def respects_real_time(order: tuple[Operation, ...]) -> None:
    latest = 0
    for operation in order:
        latest = max(latest, operation.invoked)
        assert operation.answered is None or latest <= operation.answered


# Histories made by hand


def test_one_after_the_other_is_legal() -> None:
    assert judged(
        ask("A", 0, 1, "g1", 1, w="x"), ask("B", 2, 3, w="x"), release("A", "g1", 4, 5),
        ask("B", 6, 7, "g2", 2, w="x"), verify("A", "g1", 1, 8, 9, False),
        verify("B", "g2", 2, 8, 9, True), release("A", "g1", 10, 11, "nothing to release"),
    ) == "legal"  # fmt: skip


def test_two_writers_at_once_are_illegal_and_the_two_are_shown() -> None:
    operations = (
        ask("C", 0, 1, "g0", 1, w="y"), verify("C", "g0", 1, 1, 2, True),
        ask("A", 0, 1, "g1", 2, w="x"), ask("C", 1, 2, w="x"),
        ask("B", 2, 3, "g2", 3, w="x"), release("A", "g1", 4, 5), release("B", "g2", 6, 7),
    )  # fmt: skip
    judgement = check(History(operations))
    assert judgement.name == "illegal"
    assert [operation.holder for operation in judgement.core] == ["A", "B"]
    assert "A holds g1 and it has not ended" in str(judgement)


@pytest.mark.parametrize(
    ("first", "second", "legal"),
    [
        ({"w": "a/x"}, {"r": "a"}, False),
        ({"r": "a"}, {"w": "a/b/x"}, False),
        ({"r": "."}, {"w": "a"}, False),
        ({"r": "a/"}, {"r": "a/x"}, True),
        ({"w": "a/x"}, {"w": "a/xy"}, True),
        ({"w": "a/x b"}, {"r": "c a/x"}, False),
        ({"r": "."}, {"w": "port:1"}, True),
        ({"w": "port:1"}, {"w": "port:1"}, False),
        ({"w": "./a//x"}, {"w": "a/x"}, False),
    ],
)
def test_grants_that_may_be_held_together(
    first: dict[str, str], second: dict[str, str], legal: bool
) -> None:
    history = (ask("A", 0, 1, "g1", 1, **first), ask("B", 2, 3, "g2", 2, **second))  # type: ignore[arg-type]
    assert judged(*history) == ("legal" if legal else "illegal")
    same = (history[0], replace(history[1], holder="A"))
    assert judged(*same) == "legal", "a holder is not in its own way"


def test_calls_that_overlap_in_time_may_be_ordered_either_way() -> None:
    taken = ask("B", 2, 9, "g2", 2, w="x")
    given_back = release("A", "g1", 3, 8)
    assert judged(ask("A", 0, 1, "g1", 1, w="x"), taken, given_back) == "legal"
    later = release("A", "g1", 10, 11)
    assert judged(ask("A", 0, 1, "g1", 1, w="x"), taken, later) == "illegal"


def test_a_refusal_needs_a_reason() -> None:
    assert judged(ask("A", 0, 1, w="x")) == "illegal"
    held = ask("A", 0, 1, "g1", 1, w="x")
    back = release("A", "g1", 3, 4)
    assert judged(held, back, ask("B", 3, 5, w="x")) == "legal"
    assert judged(held, back, ask("B", 5, 6, w="x")) == "illegal"
    assert judged(held, ask("B", 2, 3, call="acquire", answer="timed out", w="x")) == "legal"
    assert judged(held, ask("A", 2, 3, w="x")) == "illegal", "it is in its own way"


def test_a_reservation_is_a_reason_once_its_patience_is_over() -> None:
    wait = ask("B", 2, 90, "g2", 2, w="x y", call="acquire", patience=10)
    held = ask("A", 0, 1, "g1", 1, w="x")
    back = release("A", "g1", 70, 80)
    assert judged(held, wait, back, ask("C", 30, 31, w="y")) == "legal"
    assert judged(held, wait, back, ask("C", 5, 6, w="y")) == "illegal"


def test_a_reservation_counts_from_its_call_and_not_from_when_it_was_served() -> None:
    """The token of a later grant shows that the wait was served at 85 at the earliest."""
    wait = ask("B", 2, 90, "g3", 3, w="x y", call="acquire", patience=10)
    held, back = ask("A", 0, 1, "g1", 1, w="x"), release("A", "g1", 70, 88)
    between = ask("D", 85, 86, "g2", 2, w="elsewhere")
    assert judged(held, wait, between, back, ask("C", 30, 31, w="y")) == "legal"


def test_verify_says_yes_only_while_the_grant_is_held_and_with_its_token() -> None:
    held, back = ask("A", 0, 1, "g1", 7, w="x"), release("A", "g1", 4, 6)
    assert judged(held, back, verify("B", "g1", 7, 5, 9, True)) == "legal"
    assert judged(held, back, verify("B", "g1", 7, 7, 9, True)) == "illegal"
    assert judged(held, back, verify("B", "g1", 7, 2, 3, False)) == "illegal"
    assert judged(held, back, verify("B", "g1", 6, 2, 3, False)) == "legal"
    assert judged(held, back, verify("B", "g1", 6, 2, 3, True)) == "illegal"
    assert judged(verify("B", "g9", 6, 2, 3, True)) == "illegal", "this was never granted"


def test_release_and_renew_succeed_only_for_a_grant_that_has_not_ended() -> None:
    held, back = ask("A", 0, 1, "g1", 1, w="x"), release("A", "g1", 2, 3)
    assert judged(held, back, release("A", "g1", 4, 5)) == "illegal"
    assert judged(held, release("A", "g1", 2, 3, "nothing to release")) == "illegal"
    assert judged(held, back, about("A", "renew", "g1", 4, 5, "renewed")) == "illegal"
    assert judged(held, about("A", "renew", "g1", 4, 5, "lapsed")) == "illegal"
    assert judged(held, about("B", "renew", "g1", 4, 5, "lapsed")) == "legal", "it is A's"
    assert judged(held, about("B", "renew", "g1", 4, 5, "renewed")) == "illegal"


def test_tokens_grow_in_real_time_over_the_whole_ledger() -> None:
    first, second = ask("A", 0, 1, "g1", 5, w="x"), ask("B", 2, 3, "g2", 4, w="elsewhere")
    judgement = check(History((first, second)))
    assert judgement.name == "illegal"
    assert judgement.core == (first, second)
    assert judgement.why == ("the grant that was given later has the smaller token",)
    assert judged(first, replace(second, token=5)) == "illegal"
    assert judged(first, replace(second, token=6)) == "legal"
    assert judged(first, replace(second, invoked=0)) == "legal", "they overlap in time"


def test_a_token_says_when_a_request_that_waited_was_served() -> None:
    """Its lease began after a grant elsewhere with a smaller token, so it has not expired."""
    waited = ask("A", 0, 100, "g2", 5, w="x", call="acquire", ttl=50)
    taken = ask("B", 105, 110, "g3", 6, w="x")
    assert judged(waited, taken) == "legal"
    assert judged(ask("C", 80, 81, "g1", 4, w="elsewhere"), waited, taken) == "illegal"
    before = ask("C", 120, 121, "g4", 7, w="elsewhere")
    held = verify("A", "g2", 5, 195, 196, True)
    assert judged(waited, before, held) == "legal"
    early = ask("C", 10, 20, "g4", 7, w="elsewhere")
    assert judged(waited, early, held) == "illegal", "it was served within 20 ms"


def test_the_order_of_tokens_is_the_order_of_grants() -> None:
    """A reader and two writers, all concurrent: only the tokens show which was first."""
    grants = [ask("A", 0, 9, "g1", 1, w="x"), ask("B", 0, 9, "g2", 2, w="x")]
    one = release("A", "g1", 10, 11)
    assert judged(*grants, one) == "illegal", "B was given it after A, who still had it"
    early = replace(one, invoked=4 * MS, answered=5 * MS)
    assert judged(replace(grants[0], answered=3 * MS), grants[1], early) == "legal"


# Time


def test_a_lease_ends_by_time_and_not_before() -> None:
    held = ask("A", 0, 10, "g1", 1, w="x", ttl=1000)
    assert judged(held, ask("B", 900, 901, "g2", 2, w="x")) == "illegal"
    assert judged(held, ask("B", 1005, 1006, "g2", 2, w="x")) == "legal"
    assert judged(held, verify("A", "g1", 1, 900, 901, False)) == "illegal"
    assert judged(held, verify("A", "g1", 1, 1200, 1201, True)) == "illegal"
    assert judged(held, ask("B", 1200, 1201, w="x")) == "illegal"


def test_an_expired_grant_can_be_released_until_another_request_meets_it() -> None:
    held = ask("A", 0, 10, "g1", 1, w="x", ttl=100)
    seen = verify("A", "g1", 1, 200, 201, False)
    assert judged(held, seen, release("A", "g1", 300, 301)) == "legal"
    assert judged(held, seen, release("A", "g1", 300, 301, "nothing to release")) == "legal"
    assert judged(held, seen, verify("A", "g1", 1, 202, 203, True)) == "illegal"
    taken = ask("B", 250, 251, "g2", 2, w="x")
    assert judged(held, taken, release("A", "g1", 300, 301)) == "illegal"


def test_a_renewal_extends_a_lease() -> None:
    held = ask("A", 0, 10, "g1", 1, w="x", ttl=1000)
    renewed = about("A", "renew", "g1", 900, 910, "renewed")
    assert judged(held, ask("B", 1500, 1501, w="x")) == "illegal"
    assert judged(held, renewed, ask("B", 1500, 1501, w="x")) == "legal"
    assert judged(held, renewed, ask("B", 1500, 1501, "g2", 2, w="x")) == "illegal"
    unanswered = about("A", "renew", "g1", 900, None, "")
    assert judged(held, unanswered, ask("B", 1500, 1501, w="x")) == "legal"


# The killed


def test_a_grant_may_end_with_its_process_and_has_ended_when_that_is_gone() -> None:
    held = ask("A", 0, 1, "g1", 1, w="x")
    death = (Death("A", 100 * MS, 200 * MS),)
    early, late = ask("B", 90, 99, "g2", 2, w="x"), ask("B", 110, 120, "g2", 2, w="x")
    assert judged(held, early, deaths=death) == "illegal"
    assert judged(held, late, deaths=death) == "legal"
    assert judged(held, ask("B", 110, 120, w="x"), deaths=death) == "legal"
    assert judged(held, ask("B", 210, 220, w="x"), deaths=death) == "illegal"
    assert judged(held, verify("B", "g1", 1, 210, 220, True), deaths=death) == "illegal"


def test_a_request_without_an_answer_may_have_been_granted_or_not() -> None:
    asked = ask("A", 10, None, w="x")
    death = (Death("A", 50 * MS, 60 * MS),)
    refused = ask("B", 20, 30, w="x")
    granted = ask("C", 20, 30, "g2", 2, w="x")
    assert judged(asked, refused, deaths=death) == "legal"
    assert judged(asked, granted, deaths=death) == "legal"
    assert judged(asked, ask("B", 2, 9, w="x"), deaths=death) == "illegal", "before it was made"
    assert judged(asked, ask("B", 70, 80, w="x"), deaths=death) == "illegal", "after its death"
    # It was granted before the first refusal, and is live: then C cannot have acquired it.
    later = ask("C", 35, 40, "g2", 2, w="x")
    assert judged(asked, refused, later, deaths=death) == "illegal"
    assert judged(asked, refused, later, deaths=(Death("A", 33 * MS),)) == "legal"


def test_a_release_without_an_answer_may_have_happened_or_not() -> None:
    held, back = ask("A", 0, 1, "g1", 1, w="x"), release("A", "g1", 10)
    assert judged(held, back, ask("B", 20, 21, "g2", 2, w="x")) == "legal"
    assert judged(held, back, ask("B", 20, 21, w="x")) == "legal"
    assert judged(held, back, ask("B", 5, 6, "g2", 2, w="x")) == "illegal"


def test_a_request_that_timed_out_may_have_been_served_and_lapsed_if_there_was_time() -> None:
    held = ask("A", 0, 1, "g1", 1, w="x")
    back = release("A", "g1", 20, 30)
    waited = ask("B", 10, 500, w="x", call="acquire", answer="timed out", ttl=100)
    refused = ask("C", 50, 60, w="x")
    assert judged(held, back, waited, refused) == "legal"
    assert judged(held, back, replace(waited, ttl=1000 * MS), refused) == "illegal"


# Fenced sections


def test_nothing_changes_hands_inside_a_fenced_section() -> None:
    held = ask("A", 0, 1, "g1", 1, w="x")
    inside = about("A", "fenced", "g1", 2, 9, "entered", 1, section=(3, 8))
    during = ask("B", 4, 7, "g2", 2, w="y")
    judgement = check(History((held, inside, during)))
    assert judgement.name == "illegal"
    assert judgement.core == (inside, during)
    assert judgement.why == ("it changed hands inside a fenced section",)
    assert judged(held, inside, ask("B", 4, 9, "g2", 2, w="y")) == "legal"
    assert judged(held, inside, release("A", "g1", 4, 7)) == "illegal"
    assert judged(held, inside, verify("B", "g1", 1, 4, 7, True)) == "legal"


def test_two_fenced_sections_do_not_overlap() -> None:
    held = [ask("A", 0, 1, "g1", 1, w="x"), ask("B", 0, 1, "g2", 2, w="y")]
    first = about("A", "fenced", "g1", 2, 9, "entered", 1, section=(3, 6))
    second = about("B", "fenced", "g2", 2, 9, "entered", 2, section=(5, 8))
    assert judged(*held, first, second) == "illegal"
    assert judged(*held, first, replace(second, section=(7 * MS, 8 * MS))) == "legal"


def test_a_section_tells_when_concurrent_calls_took_effect() -> None:
    """B acquired x during A's section, so it took effect after it: A had released it."""
    held = ask("A", 0, 1, "g1", 1, w="x")
    inside = about("C", "fenced", "g0", 2, 30, "entered", 0, section=(3, 20))
    other = ask("C", 0, 1, "g0", 0, w="y")
    back = release("A", "g1", 21, 25)
    taken = ask("B", 10, 24, "g2", 2, w="x")
    assert judged(other, held, inside, back, taken) == "legal"
    refused = ask("D", 22, 23, r="z")
    assert judged(other, held, inside, back, taken, refused) == "illegal"


# Separate sets of keys, and undecided histories


def test_requests_are_checked_apart_unless_their_keys_are_connected() -> None:
    history = (
        ask("A", 0, 1, "g1", 1, w="a/x"), ask("B", 0, 1, "g2", 2, w="b/x"),
        ask("C", 0, 1, "g3", 3, w="c/x d/x"), ask("D", 0, 1, "g4", 4, w="d/y c/y"),
        ask("E", 0, 1, "g5", 5, r="c"), ask("F", 0, 1, "g6", 6, w="port:1"),
    )  # fmt: skip
    found = {frozenset(o.holder for o in some) for some in components(history)}
    assert found == {frozenset("A"), frozenset("B"), frozenset("CDE"), frozenset("F")}
    whole = (*history, ask("G", 2, 3, r="."))
    assert {frozenset(o.holder for o in some) for some in components(whole)} == {
        frozenset("ABCDEG"), frozenset("F"),
    }  # fmt: skip


def test_without_a_budget_nothing_is_decided_and_that_is_no_pass() -> None:
    operations = []
    for number in range(8):  # releases that can be ordered in many ways, and a refusal after all
        operations.append(ask(f"h{number}", 0, 1, f"g{number}", number + 1, r="x"))
        operations.append(release(f"h{number}", f"g{number}", 10, 20))
    history = History((*operations, ask("Z", 30, 31, w="x")))
    judgement = check(history, budget=20)
    assert judgement.name == "undecided"
    assert not judgement
    assert "20 states" in str(judgement)
    assert check(history).name == "illegal"


def test_the_smallest_part_is_found_in_a_long_history() -> None:
    operations, clock = [], count(0, 10)
    for number in range(400):
        at = next(clock)
        operations.append(ask("A", at, at + 1, f"g{number}", number + 1, w="x y"))
        operations.append(ask("B", at + 2, at + 3, w="x"))
        operations.append(verify("A", f"g{number}", number + 1, at + 4, at + 5, True))
        operations.append(release("A", f"g{number}", at + 6, at + 7))
    at = 2000
    bad = verify("B", "g200", 201, at + 8, at + 9, True)
    judgement = check(History((*operations, bad)))
    assert judgement.name == "illegal"
    assert len(judgement.core) == 3
    assert bad in judgement.core
    assert {operation.grant for operation in judgement.core} == {"g200"}


# Any history


class _Table:
    """A lock table that takes one call after another, to generate legal histories."""

    def __init__(self) -> None:
        self.held: dict[str, Operation] = {}
        self.token = 0

    def call(self, dice: random.Random, who: str, at: int) -> Operation:
        mine = [id for id, grant in self.held.items() if grant.holder == who]
        draw = dice.random()
        if mine and draw < 0.4:
            del self.held[mine[0]]
            return release(who, mine[0], at, at)
        if mine and draw < 0.6:
            return verify(who, mine[0], self.held[mine[0]].token, at, at, True)
        if self.token and draw < 0.7:
            token = dice.randrange(self.token) + 1
            holds = f"g{token}" in self.held
            return verify(who, f"g{token}", token * 10, at, at, holds)
        key, mode = dice.choice(("a", "a/x", "a/y", "b")), dice.choice("rww")
        wanted = ask(who, at, at, w=key) if mode == "w" else ask(who, at, at, r=key)
        if any(grant.holder != who and clash(grant.wants, wanted.wants)
               for grant in self.held.values()):  # fmt: skip
            return wanted
        self.token += 1
        id = f"g{self.token}"
        granted = replace(wanted, answer="granted", grant=id, token=self.token * 10)
        self.held[id] = granted
        return granted


def legal_history(seed: int, length: int) -> list[Operation]:
    """Calls that took effect one after another, seen through overlapping windows."""
    dice = random.Random(seed)
    table, operations = _Table(), []
    free_from: dict[str, int] = {}
    points = [(number + 1) * 100 for number in range(length)]
    for place, point in enumerate(points):
        who = dice.choice("ABCDE")
        operation = table.call(dice, who, 0)
        if not operation.asks and operation.call == "verify" and not operation.grant:
            continue
        begin = max(free_from.get(who, 0), point - dice.randrange(400))
        operation = replace(operation, invoked=begin, answered=point + dice.randrange(60))
        free_from[who] = point + 60
        del place
        operations.append(operation)
    # A process makes one call at a time, so a window ends before its next one begins; it may well
    # last until then.
    return [_stretched(operation, operations, dice) for operation in operations]


def _stretched(operation: Operation, all: list[Operation], dice: random.Random) -> Operation:
    assert operation.answered is not None
    later = [o.invoked for o in all if o.process == operation.process and o is not operation
             and o.invoked >= operation.answered]  # fmt: skip
    room = min(later, default=operation.answered + 500) - operation.answered
    return replace(operation, answered=operation.answered + dice.randrange(room + 1))


SEEDS = st.integers(0, 1 << 30)


@given(seed=SEEDS)
@settings(max_examples=150)
def test_sequential_calls_are_legal_in_all_windows(seed: int) -> None:
    assert judged(*legal_history(seed, 60)) == "legal"


def _grants(history: list[Operation]) -> list[Operation]:
    return [operation for operation in history if operation.asks and operation.outcome]


def _released(history: list[Operation], id: str) -> Operation | None:
    return next((o for o in history if o.call == "release" and o.grant == id), None)


@given(seed=SEEDS, pick=st.integers(0, 1000))
@settings(max_examples=100)
def test_a_second_writer_of_a_held_file_is_found(seed: int, pick: int) -> None:
    history = legal_history(seed, 40)
    grants = _grants(history)
    held = grants[pick % len(grants)]
    back = _released(history, held.grant)
    assert held.answered is not None
    begin = held.answered + 1
    end = begin + 50 if back is None else back.invoked - 1
    if end <= begin:
        return  # no operation could show that it was held for a moment
    second = Operation(
        "Z", "Z", "try_acquire", begin, end, "granted", ((held.wants[0][0], "w"),), "gz",
        max(o.token for o in grants if o.invoked <= end) + 1,
    )  # fmt: skip
    assert judged(*history, second) == "illegal"


@given(seed=SEEDS, pick=st.integers(0, 1000))
@settings(max_examples=100)
def test_a_token_that_goes_back_is_found(seed: int, pick: int) -> None:
    history = legal_history(seed, 40)
    grants = _grants(history)
    pairs = [(a, b) for a, b in combinations(grants, 2) if (a.answered or 0) < b.invoked]
    if not pairs:
        return
    early, late = pairs[pick % len(pairs)]
    swapped = {early.grant: late.token, late.grant: early.token}
    mutant = [replace(o, token=swapped.get(o.grant, o.token)) for o in history]
    assert judged(*mutant) == "illegal"


@given(seed=SEEDS, pick=st.integers(0, 1000))
@settings(max_examples=100)
def test_a_yes_after_a_release_that_was_seen_is_found(seed: int, pick: int) -> None:
    history = legal_history(seed, 40)
    ended = [(o, back) for o in _grants(history) if (back := _released(history, o.grant))]
    if not ended:
        return
    grant, back = ended[pick % len(ended)]
    assert back.answered is not None
    late = back.answered + 1
    for call, answer in (("verify", "holds"), ("fenced", "entered"), ("renew", "renewed")):
        said = Operation(
            "Z", "Z", call, late, late + 1, answer, grant=grant.grant, token=grant.token
        )
        assert judged(*history, said) == "illegal"


@given(seed=SEEDS)
@settings(max_examples=100)
def test_the_search_agrees_with_trying_every_order(seed: int) -> None:
    history = _any_history(random.Random(seed))
    try:
        narrow = narrowed(history)
    except Contradiction:
        assert judge(history, BUDGET)[0].name == "illegal"
        return
    model = Model(narrow)
    legal = all(_has_an_order(model, some) for some in components(narrow.operations))
    assert judge(history, BUDGET)[0].name == ("legal" if legal else "illegal")


def _any_history(dice: random.Random) -> History:
    """A few calls with answers that may be right: some of a table's answers are changed."""
    table, operations = _Table(), []
    for number in range(dice.choice((4, 5, 6))):
        operation = table.call(dice, dice.choice("ABC"), 0)
        begin = max(0, number * 100 - dice.randrange(250))
        end = number * 100 + dice.randrange(250)
        operation = replace(operation, invoked=begin * MS, answered=max(begin, end) * MS)
        if operation.asks:
            operation = replace(operation, ttl=dice.choice((None, None, 100 * MS, 300 * MS)))
        draw = dice.random()
        if draw < 0.15:
            operation = replace(operation, answered=None, answer="")
            if operation.asks:
                operation = replace(operation, grant="", token=0)
        elif draw < 0.25 and operation.call == "verify":
            turned = {"holds": "does not hold", "does not hold": "holds"}[operation.answer]
            operation = replace(operation, answer=turned)
        elif draw < 0.3:
            continue
        operations.append(operation)
    deaths = [Death(who, dice.randrange(600) * MS, 700 * MS) for who in "AB" if dice.random() < 0.2]
    return History(tuple(operations), tuple(deaths))


def _has_an_order(model: Model, operations: tuple[Operation, ...]) -> bool:
    known = [o for o in operations if o.outcome is not None]
    unknown = [o for o in operations if o.outcome is None and o.asks]
    return any(
        _is_legal(model, order)
        for size in range(len(unknown) + 1)
        for guessed in combinations(unknown, size)
        for order in permutations((*known, *guessed))
    )


def _is_legal(model: Model, order: tuple[Operation, ...]) -> bool:
    latest, token, held = 0, -1, NOTHING_HELD
    for place, operation in enumerate(order):
        if operation.outcome is None:
            later = [o.answered for o in order[place:] if o.answered is not None]
            operation = granted_by(operation, min(later, default=NEVER - 1))
        latest = max(latest, operation.invoked)
        if operation.answered is not None and latest > operation.answered:
            return False
        if operation.asks and operation.outcome:
            if operation.token <= token:
                return False
            token = operation.token
        after = model.step(held, operation)
        if isinstance(after, str):
            return False
        held = after
    return True


def test_overlap_of_the_model_is_that_of_paths() -> None:
    assert overlap("a", "a/b")
    assert overlap(".", "a")
    assert not overlap("a", "ab")
    assert not overlap(".", "res:a")
    assert not overlap("res:a", "res:a/b")


# The recorder


@pytest.fixture
def manager() -> Iterator[LockManager]:
    with LockManager() as made:
        yield made


def test_a_recorded_history_is_read_back(tmp_path: Path, manager: LockManager) -> None:
    one = Recorder(manager, Journal(tmp_path, "one"), "one")
    other = Recorder(manager, Journal(tmp_path, "other"), "other")
    grant = one.try_acquire(read_paths=["a/"], write_paths=["b"], ttl=10)
    assert grant is not None
    assert other.try_acquire(write_paths=["b"], ttl=None) is None
    assert other.acquire(write_paths=["a/x"], ttl=None, timeout=0.01, patience=5) is None
    assert one.verify(grant)
    assert not one.verify(grant, token=grant.token + 1)
    assert one.renew(grant)
    with one.fenced(grant) as entered:
        assert entered
    assert one.release(grant)
    assert not one.release(grant)
    assert not one.renew(grant)
    with one.fenced(grant) as entered:
        assert not entered
    history = read(tmp_path)
    said = [(o.process.partition(".")[0], o.call, o.answer) for o in history.operations]
    assert said == [
        ("one", "try_acquire", "granted"), ("other", "try_acquire", "refused"),
        ("other", "acquire", "timed out"), ("one", "verify", "holds"),
        ("one", "verify", "does not hold"), ("one", "renew", "renewed"),
        ("one", "fenced", "entered"), ("one", "release", "released"),
        ("one", "release", "nothing to release"), ("one", "renew", "lapsed"),
        ("one", "fenced", "kept out"),
    ]  # fmt: skip
    first, wait, section = history.operations[0], history.operations[2], history.operations[6]
    assert first.wants == (("a/", "r"), ("b", "w"))
    assert (first.grant, first.token, first.ttl) == (grant.id, grant.token, 10_000 * MS)
    assert wait.patience == 5_000 * MS
    assert section.section is not None
    begin, end = section.section
    assert section.invoked < begin <= end <= (section.answered or 0)
    for earlier, later in zip(history.operations, history.operations[1:], strict=False):
        assert (earlier.answered or 0) < later.invoked
    assert judged(*history.operations) == "legal"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_record_of_its_own(tmp_path: Path, manager: LockManager) -> None:
    journal = Journal(tmp_path, "program")
    recorder = Recorder(manager, journal, "me")
    parent = os.getpid()
    mine = journal.invoke("verify", holder="me", grant="g1")
    pid = os.fork()
    if not pid:
        os.closerange(3, 64)
        journal.answer(mine, "holds")  # of a call that its parent made
        recorder.try_acquire(write_paths=["x"], ttl=None)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    journal.answer(mine, "holds")
    found = {(o.process, o.holder, o.answer) for o in read(tmp_path).operations}
    assert found == {
        (f"program.{parent}", "me", "holds"),
        (f"program.{pid}", f"me in program.{pid}", "granted"),
    }


def test_half_a_line_is_a_call_that_was_not_made(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "killed")
    journal.invoke("verify", holder="me", grant="g1")
    file = tmp_path / f"killed.{os.getpid()}"
    whole = file.read_text()
    file.write_text(whole + whole[: len(whole) // 2])
    (operation,) = read(tmp_path).operations
    assert operation.answered is None


def test_a_section_whose_process_was_killed_inside_was_entered(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "killed")
    journal.inside(journal.invoke("fenced", holder="me", grant="g1", token=1))
    (operation,) = read(tmp_path).operations
    assert operation.outcome is True
    assert operation.section == (operation.answered, operation.answered)


#: `histories` is a package beside the tests.
TESTS = Path(__file__).parents[1]


def test_a_recorded_history_is_checked_by_a_command(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "one")
    asked = journal.invoke("try_acquire", holder="me", wants=[["x", "w"]], ttl=None)
    journal.answer(asked, "granted", grant="g1", token=1)

    def checked(*more: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "histories", str(tmp_path), *more],
            capture_output=True, text=True, timeout=60, check=False, cwd=TESTS,
        )  # fmt: skip
        return done.returncode, done.stdout

    assert checked() == (0, "legal: 1 operations on 1 connected sets of keys\n")
    assert checked("0")[0] == 2
    late = journal.invoke("release", holder="me", grant="g1")
    journal.answer(late, "nothing to release")
    code, said = checked()
    assert code == 1
    assert "this grant has not ended" in said
