"""Defects that the simulator found in the gate's rulebook, each in as few steps as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.model import SECOND, Decision, Grant, Holder, Request, Witness
from holdfast.gate.rulebook import agent_records, event_decisions
from holdfast.gate.rulebook.outcomes import Asker, Denied, Halted, Held, Passed, Rested, Seen
from holdfast.manager.clock import FakeClock
from holdfast.store.memory import MemoryStore

IDLE = 30 * SECOND


class Ledger:
    """A ledger in memory, whose clock and processes a test moves by hand."""

    def __init__(self, *, wake: bool = True) -> None:
        self.wake = wake
        self.clock = FakeClock()
        self.dead: set[int] = set()
        self.store = MemoryStore(clock=self.clock, is_dead=self._is_dead)
        self.ids = 0
        self.pids: dict[str, int] = {}

    def _is_dead(self, witness: Witness, marks: tuple[str, ...]) -> bool:
        return witness.pid in self.dead

    def new_id(self) -> str:
        self.ids += 1
        return f"g{self.ids}"

    def do(self, rule: Callable[[Any], Decision[Any]]) -> Any:
        return self.store.transact(rule, deadline=float("inf"))

    def look(self) -> Any:
        return self.store.view(deadline=float("inf"))

    def agent(self, session: str, agent: str = "") -> Agent:
        self.pids.setdefault(session, len(self.pids) + 1)
        return Agent(self, session, agent)

    def kill(self, session: str) -> None:
        self.dead.add(self.pids[session])

    def restart(self, session: str) -> None:
        self.pids[session] = 100 + len(self.dead)

    def leases(self, path: str) -> list[Grant]:
        with self.look() as view:
            return [grant for grant in view.grants() if path in grant.paths]

    def owner(self, path: str) -> str:
        return " ".join(grant.holder.key for grant in self.leases(path))

    def line(self) -> list[str]:
        with self.look() as view:
            return [ticket.request.holder.key for ticket in view.queue()]

    def notes(self, start: str) -> list[str]:
        with self.look() as view:
            return [event.type for event in view.notes(start)]


class Agent:
    """One agent, by its events."""

    def __init__(self, ledger: Ledger, session: str, agent: str) -> None:
        self.ledger = ledger
        self.session = session
        self.agent = agent
        self.key = f"@claude/{session}/{agent}"

    @property
    def holder(self) -> Holder:
        pid = self.ledger.pids[self.session]
        witness = Witness(host="here", boot="1", namespace="", pid=pid, start=pid)
        return Holder(
            id=self.key, key=self.key, witness=witness, client="claude", session=self.session,
            agent=self.agent, parent=f"@claude/{self.session}/" if self.agent else "",
        )  # fmt: skip

    @property
    def asker(self) -> Asker:
        return Asker(
            self.holder, place=lambda: "", new_id=self.ledger.new_id, retry_seconds=180,
            idle=IDLE, foreign=1800 * SECOND, wake=self.ledger.wake,
        )  # fmt: skip

    def _wanted(self, paths: Sequence[str]) -> list[Request]:
        return [
            Request(
                self.ledger.new_id(), self.holder, (path,), "w", (path,), ttl=None, reason="edit",
                stamp="v1",
            )
            for path in paths
        ]  # fmt: skip

    def edit(self, *paths: str) -> Any:
        wanted = self._wanted(paths)
        return self.ledger.do(lambda view: event_decisions.edit(view, self.asker, wanted))

    def wait_on(self, denied: Denied, *paths: str) -> Any:
        wanted = self._wanted(paths)
        id = denied.wait.id
        return self.ledger.do(lambda view: event_decisions.wait_on(view, self.asker, wanted, id))

    def stop(
        self,
        *,
        hold: int = 0,
        ends: bool = False,
        stamps: dict[str, str] | None = None,
        seen: Seen | None = None,
    ) -> Any:
        """`stamps`: the stamps of its files when it stops; or `seen`, taken a moment earlier."""
        leases = {
            grant.id: stamp
            for path, stamp in (stamps or {}).items()
            for grant in self.ledger.leases(path)
        }
        seen = seen or Seen(leases, stamps or {})
        return self.ledger.do(
            lambda view: event_decisions.stop(
                view, self.asker, seen, hold=hold, may_go_on=hold > 0, ends=ends
            )
        )

    def hold_on(self) -> Any:
        return self.ledger.do(lambda view: event_decisions.hold_on(view, self.asker, Seen()))

    def __getattr__(self, name: str) -> Callable[[], Any]:
        rule = getattr(event_decisions, name)
        return lambda: self.ledger.do(lambda view: rule(view, self.asker))

    def commit(self, *paths: str) -> None:
        ids = [grant.id for path in paths for grant in self.ledger.leases(path)]
        self.ledger.do(lambda view: event_decisions.commit(view, ids))


def test_a_client_that_was_killed_leaves_no_notes_and_no_place_in_line() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x")
    bob.edit("x")
    ledger.kill("bob")
    ledger.agent("cat").session_start()
    assert ledger.notes("gate:@claude/bob/") == []
    assert ledger.line() == []


def test_who_asks_for_less_than_before_gets_what_of_it_is_free() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x", "y")
    denied = bob.edit("x", "y")
    ann.commit("y")
    assert isinstance(bob.wait_on(denied, "x"), Denied)
    assert isinstance(bob.wait_on(denied, "y"), Passed)
    assert isinstance(bob.edit("x"), Denied)
    assert isinstance(bob.edit("y"), Passed)


def test_a_prompt_makes_a_retry_that_succeeds() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x")
    bob.edit("x")
    bob.stop()
    ann.commit("x")
    ledger.clock.advance(181)
    passed, _resumed = bob.prompt()
    assert passed.came == ("x",)


def test_nothing_comes_to_an_agent_that_is_blocked() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x", "y")
    bob.edit("x")
    ledger.clock.advance(100)
    bob.edit("y")
    ledger.clock.advance(81)
    assert isinstance(bob.edit("x"), Halted)
    assert ledger.line() == []
    ann.commit("y")
    assert ledger.owner("y") == ""


def test_another_call_of_a_blocked_agent_does_not_pass() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x", "y")
    bob.edit("x")
    ledger.clock.advance(179)
    held_open = bob.edit("y")
    ledger.clock.advance(2)
    assert isinstance(bob.edit("x"), Halted)
    ann.commit("y")
    assert isinstance(bob.wait_on(held_open, "y"), Halted)


def test_what_lapsed_goes_to_the_next_as_soon_as_its_owner_is_heard_of() -> None:
    ledger = Ledger()
    ann, bob, cat = ledger.agent("ann"), ledger.agent("bob"), ledger.agent("cat")
    ann.edit("x")
    bob.edit("x")
    cat.edit("x")
    ann.commit("x")
    ledger.clock.advance(31)
    assert bob.live_on().lapsed == ("x",)
    assert ledger.owner("x") == cat.key


def test_what_came_free_for_a_parent_and_is_used_by_its_child_does_not_lapse() -> None:
    ledger = Ledger()
    ann, bob, child = ledger.agent("ann"), ledger.agent("bob"), ledger.agent("bob", "kid")
    ann.edit("x", "y")
    bob.edit("x", "y")
    ann.commit("x", "y")
    assert isinstance(child.edit("x"), Passed)
    (lease,) = ledger.leases("x")
    assert (lease.holder.key, lease.expires_at) == (child.key, None)
    assert ledger.owner("y") == ""


def test_what_came_free_before_a_session_was_resumed_is_a_lease_when_it_is_used() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x")
    bob.edit("x")
    ann.commit("x")
    ledger.restart("bob")
    bob.session_start()
    assert isinstance(bob.edit("x"), Passed)
    (lease,) = ledger.leases("x")
    assert (lease.reason, lease.expires_at) == ("edit", None)


def test_without_hand_overs_one_retry_is_not_that_of_another_file() -> None:
    ledger = Ledger(wake=False)
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x", "y")
    bob.edit("x")
    bob.stop()
    ledger.clock.advance(100)
    bob.edit("y")
    ann.commit("x", "y")
    ledger.clock.advance(81)
    denied = bob.edit("x", "y")
    assert isinstance(denied, Denied)
    assert denied.wait.paths == ("y",)


def test_a_retry_is_not_failed_by_a_file_that_was_never_refused() -> None:
    ledger = Ledger(wake=False)
    ann, bob, cat = ledger.agent("ann"), ledger.agent("bob"), ledger.agent("cat")
    ann.edit("x")
    cat.edit("y")
    bob.edit("x")
    bob.stop()
    ann.commit("x")
    ledger.clock.advance(181)
    denied = bob.edit("x", "y")
    assert isinstance(denied, Denied)
    assert denied.wait.paths == ("y",)


def test_a_call_that_is_held_open_writes_no_second_heartbeat() -> None:
    ledger = Ledger()
    ann, bob, cat = ledger.agent("ann"), ledger.agent("bob"), ledger.agent("cat")
    ann.edit("x")
    cat.edit("y")
    bob.edit("y")
    denied = bob.edit("x")
    ann.commit("x")
    assert isinstance(bob.wait_on(denied, "x", "y"), Denied)
    assert ledger.line() == [bob.key]
    assert ledger.notes(f"gate:{bob.key}:retry:").count(agent_records.HEARTBEAT) == 1


def test_who_got_what_it_waited_for_by_its_turn_in_a_family_leaves_the_line() -> None:
    ledger = Ledger()
    parent, child = ledger.agent("ann"), ledger.agent("ann", "kid")
    bob, cat = ledger.agent("bob"), ledger.agent("cat")
    parent.edit("y")
    cat.edit("x")
    bob.edit("x", "y")
    child.edit("x")
    cat.commit("x")
    child.edit("y")  # now bob waits for the child, which may overtake him
    assert isinstance(child.edit("x"), Passed)
    assert ledger.line() == [bob.key]


def test_without_hand_overs_what_a_retry_got_is_kept_no_longer_than_elsewhere() -> None:
    ledger = Ledger(wake=False)
    parent, child = ledger.agent("ann"), ledger.agent("ann", "kid")
    bob, cat = ledger.agent("bob"), ledger.agent("cat")
    child.edit("y")
    cat.edit("x")
    bob.edit("x", "y")
    parent.edit("x")
    cat.commit("x")
    child.stop(ends=True, stamps={"y": "v2"})  # bob waits for the parent, which may overtake
    ledger.clock.advance(181)
    parent.prompt()
    (lease,) = ledger.leases("x")
    assert (lease.holder.key, lease.ttl) == (parent.key, IDLE)


def test_an_agent_that_has_ended_is_nobodys_parent() -> None:
    ledger = Ledger()
    first, second = ledger.agent("ann", "one"), ledger.agent("ann", "two")
    ledger.agent("ann").live_on()
    first.agent_call()
    first.stop(ends=True)
    second.agent_start()
    second.edit("x")
    second.stop(ends=True, stamps={"x": "v2"})
    assert ledger.owner("x") == "@claude/ann/"


def test_what_comes_up_to_an_agent_that_has_stopped_ends_in_a_while() -> None:
    ledger = Ledger()
    ann, child, bob = ledger.agent("ann"), ledger.agent("ann", "kid"), ledger.agent("bob")
    ann.live_on()
    child.edit("x")
    ann.stop()
    child.stop(ends=True, stamps={"x": "v2"})
    assert isinstance(bob.edit("x"), Denied)
    ledger.clock.advance(31)
    assert isinstance(bob.edit("x"), Passed)


def test_what_comes_up_to_a_sub_agent_that_has_stopped_ends_in_a_while() -> None:
    ledger = Ledger()
    middle, child, bob = ledger.agent("ann", "mid"), ledger.agent("ann", "kid"), ledger.agent("bob")
    middle.agent_call()
    child.agent_start()
    child.edit("x")
    middle.stop()
    child.stop(ends=True, stamps={"x": "v2"})
    assert ledger.owner("x") == middle.key
    ledger.clock.advance(31)
    assert isinstance(bob.edit("x"), Passed)


def test_what_comes_up_from_one_that_started_after_the_stop_ends_in_a_while() -> None:
    ledger = Ledger()
    ann, child, bob = ledger.agent("ann"), ledger.agent("ann", "kid"), ledger.agent("bob")
    ann.agent_call()
    ann.stop()
    child.agent_start()
    child.edit("x")
    child.stop(ends=True, stamps={"x": "v2"})
    assert ledger.owner("x") == ann.key
    ledger.clock.advance(31)
    assert isinstance(bob.edit("x"), Passed)


def test_what_comes_up_to_a_blocked_agent_ends_in_a_while() -> None:
    ledger = Ledger()
    ann, child, bob = ledger.agent("ann"), ledger.agent("ann", "kid"), ledger.agent("bob")
    bob.edit("x")
    ann.edit("x")
    child.edit("y")
    ledger.clock.advance(181)
    assert isinstance(ann.edit("x"), Halted)
    child.stop(ends=True, stamps={"y": "v2"})
    assert ledger.owner("y") == ann.key
    ledger.clock.advance(31)
    assert isinstance(bob.edit("y"), Passed)


def test_what_comes_up_after_a_look_at_it_counts_as_changed() -> None:
    ledger = Ledger()
    ann, child = ledger.agent("ann"), ledger.agent("ann", "kid")
    child.edit("x")
    assert isinstance(ann.edit("x"), Denied)
    looked = Seen({}, {"x": "v1"})  # afterwards the child writes it, and ends
    child.stop(ends=True, stamps={"x": "v2"})
    ann.stop(seen=looked)
    (lease,) = ledger.leases("x")
    assert lease.holder.key == ann.key
    assert lease.idle_at is not None


def test_what_a_dead_client_s_hook_takes_is_taken_once() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x")
    bob.edit("y")
    ann.edit("y")
    assert not bob.edit("x").wait.ticket  # it would close a deadlock
    ann.commit("x")
    ledger.clock.advance(181)
    ledger.kill("bob")
    wanted = bob._wanted(("x",))
    made: list[Any] = []

    def rule(view: Any) -> Decision[Any]:
        made[:] = [event_decisions.edit(view, bob.asker, wanted)]
        return made[0]  # type: ignore[no-any-return]

    assert isinstance(ledger.do(rule), Passed)
    taken = [event.data["id"] for event in made[0].events if event.type == "lock_acquired"]
    assert len(taken) == len(set(taken))
    moved = [event.data["to"] for event in made[0].events if event.type == "lock_moved"]
    assert all(moved)


def test_nothing_is_kept_for_a_client_that_was_killed() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x")
    bob.edit("x")
    ann.commit("x")
    assert ledger.owner("x") == bob.key
    ledger.kill("bob")
    ledger.agent("cat").session_start()
    assert ledger.owner("x") == ""


def test_what_lapsed_does_not_outlive_a_child() -> None:
    ledger = Ledger()
    ann, child = ledger.agent("ann"), ledger.agent("bob", "kid")
    ann.edit("x")
    child.edit("y")
    child.stop(stamps={"y": "v2"})
    ledger.clock.advance(31)
    assert isinstance(child.stop(ends=True, stamps={"y": "v2"}), Rested)
    assert ledger.owner("y") == ""


def test_a_hook_that_was_held_open_does_not_bring_back_a_session_that_ended() -> None:
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x")
    denied = bob.edit("x")
    assert isinstance(bob.stop(hold=200 * SECOND), Held)
    bob.session_end()
    ann.commit("x")
    assert bob.wait_on(denied, "x") is None
    assert bob.hold_on() is None
    assert bob.leave() is None
    assert ledger.owner("x") == ""
    assert ledger.notes("gate:@claude/bob/") == []


def test_of_what_came_free_for_a_parent_only_what_its_child_wants_goes_down() -> None:
    ledger = Ledger()
    ann, child = ledger.agent("ann"), ledger.agent("ann", "kid")
    bob, cat = ledger.agent("bob"), ledger.agent("cat")
    ann.live_on()
    bob.edit("x")
    bob.edit("y")
    cat.edit("z")
    assert isinstance(ann.edit("x", "y"), Denied)
    bob.commit("x")
    assert isinstance(ann.edit("x"), Passed)  # but is in the queue for both
    assert isinstance(child.edit("y", "z"), Denied)
    bob.commit("y")
    assert ledger.owner("y") == ann.key
    cat.commit("z")
    assert list(child.live_on().came) == ["y", "z"]
    assert [grant.holder.key for grant in ledger.leases("x")] == [ann.key]
    assert ledger.owner("y") == child.key


def test_the_tail_of_something_older_leaves_what_came_free_to_the_hook_that_holds_the_stop() -> (
    None
):
    ledger = Ledger()
    ann, bob = ledger.agent("ann"), ledger.agent("bob")
    ann.edit("x")
    bob.edit("x")
    assert isinstance(bob.stop(hold=60 * SECOND), Held)
    ann.commit("x")
    tail = ledger.do(lambda view: event_decisions.live_on(view, bob.asker, is_tail=True))
    assert tail.came == ()
    passed = bob.hold_on()
    assert isinstance(passed, Passed)
    assert passed.came == ("x",)
