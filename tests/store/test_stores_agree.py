"""One state machine drives the memory store and another together and compares every step.

Both get the same commands, the same clock and the same processes. After every step they must
have given the same answers, written the same events and be in the same state; that state must be
the fold of the events, and keep the promises of the rules, which are stated here again
independently. `fights/test_long_agreement.py` tries twenty times as many histories.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from conftest import KEPT, opener
from holdfast.core.errors import HoldfastError
from holdfast.core.model import (
    SECOND,
    Decision,
    Event,
    Grant,
    Holder,
    Request,
    Ticket,
    Waiting,
)
from holdfast.core.table import LockTable, fold
from holdfast.manager.clock import FakeClock
from holdfast.testing.conformance import Processes, Scene, state_of

KEYS = ["a", "a/x", "a/y", "a/x/z", "a-x", "b", "b2", ".", "port:1", "worktree:w"]
#: Two names of one file, once the second one exists.
INODES = {"b": "inode:1", "b2": "inode:1"}
NAMES = ["ann", "bob", "cid", "dee"]
RUNNER, MARK = "runner", "RUN=1"
VISITOR = Holder(id="visitor")

holders = st.sampled_from([*NAMES, *NAMES, RUNNER, "visitor"])
wants = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from("rw")), min_size=1, max_size=3, unique=True
).filter(lambda found: (".", "w") not in found)
ttls = st.sampled_from([None, None, 5.0, 60.0, 1800.0])
spans = st.sampled_from([0.0, 0.000001, 1.0, 1.0, 4.999999, 5.0, 30.0, 60.0, 600.0])
picks = st.integers(0, 1_000_000)
rarely = st.integers(0, 3)  # done when it is 0: a step that clears the table must be rare


class Watched(Scene):
    """A scene that remembers its last decision."""

    decision: Decision[Any] | None = None

    def do(self, decide: Callable[[Any], Decision[Any]]) -> Any:
        def watched(view: Any) -> Decision[Any]:
            self.decision = decide(view)
            return self.decision

        return super().do(watched)


class StoresAgree(RuleBasedStateMachine):
    #: What the memory store is compared with.
    kind = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(mkdtemp(prefix="holdfast-agree-"))
        self.clock, self.processes = FakeClock(), Processes()
        shared: dict[str, Any] = {"clock": self.clock, "processes": self.processes}
        self.memory = Watched(opener("memory", self.folder), **shared)
        self.other = Watched(opener(self.kind, self.folder), **shared)
        self.asked: list[Request] = []
        self.granted: list[Grant] = []
        self.table = LockTable()
        self.trimmed = False
        self.linked = False
        self.last_token = 0

    def teardown(self) -> None:
        self.memory.store.close()
        self.other.store.close()
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        self.write_something_down()

    def write_something_down(self) -> None:
        """Time that passed without an event is not remembered over a reboot."""
        request = self.memory.request(VISITOR, [], ["res:time"])
        self.both(lambda scene: scene.put(request))
        self.granted.pop()
        self.both(lambda scene: scene.release(request.id))

    # Doing the same on both sides

    def both(self, act: Callable[[Scene], Any]) -> Any:
        """Do something with both stores; they must answer, decide and remember the same."""
        self.memory.decision = self.other.decision = None
        ours, theirs = _outcome(act, self.memory), _outcome(act, self.other)
        assert ours == theirs
        mine, other = self.memory.decision, self.other.decision
        if mine is not None and other is not None:
            assert _plain(mine.events) == _plain(other.events)
            assert (mine.wake, mine.hint) == (other.wake, other.hint)
        self.learn()
        if isinstance(ours, Grant):
            self.granted.append(ours)
        return ours

    def learn(self) -> None:
        """Read the events that both have written since the last call."""
        head = self.table.head
        ours, theirs = self.memory.history(head), self.other.history(head)
        assert _plain(ours) == _plain(theirs)
        for event in theirs:
            assert event.seq == self.table.head + 1
            assert event.at >= self.table.last_at
            if event.type == "lock_acquired":
                assert event.data["token"] > self.last_token
                self.last_token = event.data["token"]
            self.table.apply(event)

    def request(self, who: str, wanted: list[tuple[str, str]], **rest: Any) -> Request:
        if not self.linked:
            wanted = [pair for pair in wanted if pair[0] != "b2"] or [("b", "w")]
        wanted = wanted + [(INODES[key], mode) for key, mode in wanted if key in INODES]
        wanted = list(dict.fromkeys(wanted))
        request = self.memory.request(
            self.holder(who),
            [key for key, mode in wanted if mode == "r"],
            [key for key, mode in wanted if mode == "w"],
            silent=() if self.linked else tuple(INODES.values()),
            wake=f"bell-{who}",
            **rest,
        )
        self.asked.append(request)
        return request

    def holder(self, who: str) -> Holder:
        if who == "visitor":
            return VISITOR
        return self.memory.holder(who, marks=(MARK,) if who == RUNNER else ())

    def some_grant(self, pick: int) -> Grant | None:
        return self.granted[-1 - pick % len(self.granted)] if self.granted else None

    # Take

    @rule(who=holders, wanted=wants, ttl=ttls)
    def try_acquire(self, who: str, wanted: Any, ttl: float | None) -> None:
        request = self.request(who, wanted, ttl=ttl)
        outcome = self.both(lambda scene: scene.put(request, again=False))
        assert not isinstance(outcome, Waiting)

    @rule(
        who=holders, wanted=wants, ttl=ttls,
        patience=st.sampled_from([0.0, 5.0, 600.0]), priority=st.sampled_from([-1, 0, 0, 1]),
        grace=st.sampled_from([0.0, 0.0, 1.0]),
    )  # fmt: skip
    def acquire(
        self, who: str, wanted: Any, ttl: float | None, patience: float, priority: int, grace: float
    ) -> None:
        waiter = self.processes.start() if who == "visitor" else None
        request = self.request(
            who, wanted, ttl=ttl, patience=patience, priority=priority, waiter=waiter, grace=grace
        )
        self.both(lambda scene: scene.put(request, wait=True, again=False))

    @precondition(lambda self: self.table.grants())
    @rule(who=holders, pick=picks, more=wants, modes=st.sampled_from(["w", "w", "r"]))
    def wait_for_what_somebody_has(self, who: str, pick: int, more: Any, modes: str) -> None:
        wanted = [*self.something_held(pick, modes), *more[:1]]
        request = self.request(who, list(dict.fromkeys(wanted)), ttl=None, patience=5.0)
        self.both(lambda scene: scene.put(request, wait=True, again=False))

    @precondition(lambda self: self.table.grants())
    @rule(who=holders, pick=picks)
    def steal_what_has_just_expired(self, who: str, pick: int) -> None:
        leases = [(grant, grant.ttl) for grant in self.table.grants() if grant.ttl is not None]
        if leases:
            grant, ttl = leases[pick % len(leases)]
            self.clock.advance(ttl / SECOND)
            request = self.request(who, self.something_held(self.table.grants().index(grant), "w"))
            self.both(lambda scene: scene.steal(request))

    def something_held(self, pick: int, mode: str) -> list[tuple[str, str]]:
        """A held key, requested in some mode."""
        grants = self.table.grants()
        grant = grants[pick % len(grants)]
        key = grant.keys[pick % len(grant.keys)]
        key = "b" if key in INODES.values() else key
        return [(key, "r" if key == "." else mode)]

    @precondition(lambda self: self.table.queue())
    @rule(pick=picks)
    def look_again(self, pick: int) -> None:
        tickets = self.table.queue()
        request = tickets[pick % len(tickets)].request
        self.both(lambda scene: scene.put(request, wait=True))

    @precondition(lambda self: self.asked)
    @rule(pick=picks, wait=st.booleans())
    def repeat_an_old_request(self, pick: int, wait: bool) -> None:
        request = self.asked[-1 - pick % len(self.asked)]
        self.both(lambda scene: scene.put(request, wait=wait))

    @rule(who=holders, wanted=wants, ttl=ttls)
    def ensure(self, who: str, wanted: Any, ttl: float | None) -> None:
        request = self.request(who, wanted, ttl=ttl)
        self.both(lambda scene: scene.ensure(request))

    @rule(who=holders, wanted=wants, ttl=ttls)
    def steal(self, who: str, wanted: Any, ttl: float | None) -> None:
        request = self.request(who, wanted, ttl=ttl)
        self.both(lambda scene: scene.steal(request))

    # Release

    @precondition(lambda self: self.table.grants())
    @rule(pick=picks, dice=st.booleans())
    def release(self, pick: int, dice: bool) -> None:
        if dice:
            return
        grants = self.table.grants()
        id = grants[pick % len(grants)].id
        assert self.both(lambda scene: scene.release(id)) is True

    @rule(pick=picks, who=holders)
    def release_an_old_grant_by_name(self, pick: int, who: str) -> None:
        grant, key = self.some_grant(pick), self.holder(who).key
        if grant is not None:
            self.both(lambda scene: scene.release(grant, key))

    @precondition(lambda self: self.asked)
    @rule(pick=picks, why=st.sampled_from(["timeout", "cancelled"]))
    def cancel(self, pick: int, why: str) -> None:
        tickets = self.table.queue()
        waiting = [ticket.request for ticket in tickets] or self.asked
        request = waiting[pick % len(waiting)]
        self.both(lambda scene: scene.cancel(request, why))

    @rule(pick=picks)
    def force(self, pick: int) -> None:
        grant = self.some_grant(pick)
        if grant is not None:
            self.both(lambda scene: scene.force(grant, VISITOR, "because"))

    @rule(dice=rarely)
    def reap(self, dice: int) -> None:
        if dice:
            return
        everything = self.table.grants()
        self.both(lambda scene: scene.reap(*everything))

    # Hold

    @rule(pick=picks, ttl=st.sampled_from([None, 1.0, 100.0]), rest=st.sampled_from([None, 30.0]))
    def renew(self, pick: int, ttl: float | None, rest: float | None) -> None:
        grant = self.some_grant(pick)
        if grant is not None:
            self.both(lambda scene: scene.renew(grant, ttl=ttl, rest=rest))

    @rule(pick=picks, key=st.sampled_from([None, *KEYS]), off=st.sampled_from([0, 0, 1, -1]))
    def verify_and_enter(self, pick: int, key: str | None, off: int) -> None:
        grant = self.some_grant(pick)
        if grant is None:
            return

        def enter(scene: Scene) -> None:
            token = grant.token + off
            with scene.store.fenced(grant.id, token, deadline=monotonic() + 60):
                pass

        verdict = self.both(lambda scene: scene.verify(grant, key, grant.token + off))
        entered = self.both(enter)
        assert (entered is None) == (verdict.allowed or verdict.code == "E_LOCK_VIOLATION")

    @rule(who=holders, wanted=wants)
    def look(self, who: str, wanted: Any) -> None:
        request = self.request(who, wanted)
        self.asked.pop()
        self.both(lambda scene: scene.look(request))

    # The world

    @rule(seconds=spans)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-1e7, -60.0, 60.0, 1e7]))
    def somebody_sets_the_wall_clock(self, seconds: float) -> None:
        self.clock.step_wall(seconds)

    @rule(seconds=spans.filter(lambda seconds: seconds >= 1))  # shorter ones go unnoticed
    def the_machine_sleeps(self, seconds: float) -> None:
        self.clock.sleep_machine(seconds)

    @rule(seconds=spans, dice=rarely)
    def the_machine_reboots(self, seconds: float, dice: int) -> None:
        if dice:
            return
        self.write_something_down()
        self.clock.reboot(seconds)
        for who in (*NAMES, RUNNER):
            self.holder(who)
            self.memory.kill(who)
        self.processes.clear_away(MARK)
        self.processes.end(*(request.waiter for request in self.asked))
        self.other.reopen()
        self.write_something_down()

    @rule(who=st.sampled_from([*NAMES, RUNNER]), dice=rarely)
    def a_process_dies(self, who: str, dice: int) -> None:
        if dice:
            return
        self.holder(who)
        self.memory.kill(who)

    @precondition(lambda self: not any("b" in t.request.keys for t in self.table.queue()))
    @rule()
    def a_file_gets_a_second_name(self) -> None:
        self.linked = True  # and no request still treats it as having only one
        self.asked = [request for request in self.asked if "b" not in request.keys]

    @rule(there=st.booleans())
    def descendants_come_and_go(self, there: bool) -> None:
        (self.processes.leave_behind if there else self.processes.clear_away)(MARK)

    @precondition(lambda self: self.asked)
    @rule(pick=picks)
    def somebody_who_waits_dies(self, pick: int) -> None:
        self.processes.end(self.asked[pick % len(self.asked)].waiter)

    @rule(back=st.integers(0, 20))
    def the_history_is_trimmed(self, back: int) -> None:
        self.trimmed = True
        before = max(0, self.table.head - back)  # the last event is always kept
        for scene in (self.memory, self.other):
            scene.store.trim(before)

    @rule()
    def the_ledger_is_opened_and_read_again(self) -> None:
        self.other.reopen()
        if not self.trimmed:
            ours, theirs = self.memory.history(), self.other.history()
            assert _plain(ours) == _plain(theirs)
            assert [one.repeats for one in ours] == [one.repeats for one in theirs]
            assert state_of(fold(theirs)) == self.other.state()

    # The invariants after every step

    @invariant()
    def both_are_in_the_state_that_the_events_lead_to(self) -> None:
        state = self.other.state()
        assert self.memory.state() == state
        assert state_of(self.table) == state
        assert self.memory.now() == self.other.now()

    @invariant()
    def nobody_writes_what_another_reads_or_writes(self) -> None:
        grants = self.table.grants()
        for number, one in enumerate(grants):
            for other in grants[:number]:
                if one.holder.key != other.holder.key:
                    assert not _conflict(_held(one), _held(other)), f"{one} and {other}"

    @invariant()
    def the_queue_is_in_order(self) -> None:
        assert self.table.queue() == sorted(self.table.queue(), key=_place)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        now = self.other.now()
        for ticket in self.table.queue():
            request = ticket.request
            if request.grace:
                continue  # it has been woken, and must come for it itself
            wanted = [pair for pair in _held(request) if pair[0] not in request.silent]
            others = [
                _held(grant)
                for grant in self.table.grants()
                if grant.holder.key != request.holder.key
            ]
            others += [
                _held(other.request)
                for other in self.table.queue()
                if other.arrival < ticket.arrival
                and other.request.holder.key != request.holder.key
                and (other.reserved or other.added_at + other.request.patience <= now)
            ]
            others += [  # they have been woken, and it is their turn
                _held(other.request)
                for other in self.table.queue()
                if other.request.grace
                and other.request.holder.key != request.holder.key
                and other.rank < ticket.rank
                and not self.is_gone(other)
            ]
            assert any(_conflict(wanted, other) for other in others), f"forgotten: {ticket}"

    def is_gone(self, ticket: Ticket) -> bool:
        holder, waiter = ticket.request.holder, ticket.request.waiter
        return any(
            self.processes.is_dead(witness, holder.marks if witness is holder.witness else ())
            for witness in (holder.witness, waiter)
            if witness is not None
        )


def _outcome(act: Callable[[Scene], Any], scene: Scene) -> Any:
    try:
        return act(scene)
    except HoldfastError as error:
        return error.to_dict()


def _plain(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Events as plain data, whether they come from JSON or not."""
    return [(e.seq, e.type, e.version, e.at, json.loads(json.dumps(dict(e.data)))) for e in events]


def _held(thing: Grant | Request) -> list[tuple[str, str]]:
    return list(zip(thing.keys, thing.modes, strict=True))


def _conflict(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> bool:
    return any(
        "w" in (mode, other_mode) and _overlap(key, other_key)
        for key, mode in one
        for other_key, other_mode in other
    )


def _overlap(one: str, other: str) -> bool:
    if one == other:
        return True
    if ":" in one or ":" in other:
        return False
    return "." in (one, other) or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _place(ticket: Ticket) -> tuple[int, int, int]:
    priority = 0 if ticket.reserved else -ticket.request.priority
    return (0 if ticket.reserved else 1, priority, ticket.arrival)


class PostgresAgrees(StoresAgree):
    kind = "postgres"


MANY_STEPS = settings(
    max_examples=30,
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
StoresAgree.TestCase.settings = PostgresAgrees.TestCase.settings = MANY_STEPS
TestStoresAgree = StoresAgree.TestCase
TestPostgresAgrees = PostgresAgrees.TestCase


@pytest.mark.parametrize("kind", KEPT)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(held=st.lists(st.tuples(wants, st.sampled_from(NAMES)), max_size=6), wanted=wants)
def test_both_stores_list_conflicts_in_the_same_order(
    tmp_path: Path, kind: str, held: list[tuple[Any, str]], wanted: Any
) -> None:
    """People see the first few; and decisions must not depend on the store."""
    folder = Path(mkdtemp(dir=tmp_path))
    clock, processes = FakeClock(), Processes()
    told, events = [], []
    for store in ("memory", kind):
        with Scene(opener(store, folder), clock=clock, processes=processes) as scene:
            for number, (keys, who) in enumerate([*held, (wanted, "eve")]):
                request = scene.request(
                    Holder(id=who),
                    [key for key, mode in keys if mode == "r"],
                    [key for key, mode in keys if mode == "w"],
                    id=f"request-{number:04d}",
                )
                told.append((store, number, scene.put(request)))
            events.append(_plain(scene.history()))
    assert [one[1:] for one in told if one[0] == "memory"] == [
        one[1:] for one in told if one[0] == kind
    ]
    assert events[0] == events[1]


def test_a_wait_for_everything_is_no_longer_because_a_request_waits_for_a_resource() -> None:
    """To a store with sorted keys, everything is below the root."""
    state = StoresAgree()
    try:
        state.begin()
        held = [("a", "r"), ("worktree:w", "w"), ("a/x", "r")]
        state.try_acquire(who="dee", wanted=held, ttl=None)
        wanted = [("worktree:w", "r"), ("a/y", "r"), ("a/y", "w")]
        state.acquire(grace=1.0, patience=600.0, priority=0, ttl=None, wanted=wanted, who="dee")
        wanted = [("worktree:w", "r"), ("b2", "r")]
        state.acquire(grace=1.0, patience=5.0, priority=1, ttl=1800.0, wanted=wanted, who="ann")
        wanted = [(".", "r")]
        state.acquire(grace=1.0, patience=600.0, priority=-1, ttl=None, wanted=wanted, who="ann")
    finally:
        state.teardown()
