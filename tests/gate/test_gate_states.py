"""The five states of an agent towards a file, and every transition between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from holdfast.core.model import Event
from holdfast.gate.config.settings import Settings
from holdfast.gate.rulebook import file_states
from holdfast.manager import transactions
from stage import Stage


def state(stage: Stage, path: str) -> str:
    """The state of a file, according to the ledger."""
    notes = {
        event.type: event
        for event in transactions.notes(stage.manager, "gate:")
        if path in event.data.get("blocked", ()) or event.type == "agent_blocked"
    }
    if "agent_blocked" in notes:
        return "Blocked"
    if "contention_heartbeat" in notes:
        return "RetryPending"
    return "Owned" if stage.owner(path) else "Free"


def test_seed002_a_file_has_exactly_the_promised_states_and_ways_between_them(
    stage: Stage,
) -> None:
    stage.settings = Settings(wake=False)  # the seed to the letter
    ann, bob = stage.agent("ann"), stage.agent("bob")
    seen = [state(stage, "app/x.rb")]

    def step(happens: Callable[[], object]) -> None:
        happens()
        now = state(stage, "app/x.rb")
        if now != seen[-1]:
            seen.append(now)

    step(lambda: ann.edit("app/x.rb"))  # acquire
    step(lambda: bob.edit("app/x.rb"))  # a competing acquire: heartbeat, and the retry is planned
    step(lambda: stage.clock.advance(180))
    step(lambda: bob.edit("app/x.rb"))  # the retry fails
    step(lambda: ann.commit("app/x.rb"))
    step(lambda: bob.edit("app/x.rb"))  # its user has not resumed it
    step(lambda: bob.gate().prompt())
    step(lambda: bob.edit("app/x.rb"))  # resumed by hand after the release
    step(lambda: bob.gate().fail())  # hard failure
    step(lambda: ann.edit("app/x.rb"))
    step(lambda: stage.kill("ann"))  # the owner is dead
    step(lambda: bob.edit("app/x.rb"))
    step(lambda: bob.stop())
    step(lambda: stage.clock.advance(30))  # stop, and 30 s idle
    stage.restart("ann")
    step(lambda: ann.edit("app/x.rb"))
    step(lambda: bob.edit("app/x.rb"))
    step(lambda: ann.gate().end_session())  # the end: reserved for the next in line
    step(lambda: stage.clock.advance(180))
    step(lambda: bob.edit("app/x.rb", write="newer\n"))  # the retry succeeds
    step(lambda: bob.commit("app/x.rb"))  # commit success
    assert seen == [
        "Free", "Owned", "RetryPending", "Blocked", "Free", "Owned", "Free", "Owned", "Free",
        "Owned", "Free", "Owned", "RetryPending", "Owned", "Free",
    ]  # fmt: skip


SEED = {
    ("free", "owned"): 1,
    ("owned", "contended"): 1,
    ("contended", "retry_pending"): 1,
    ("retry_pending", "owned"): 2,  # the retry, or a hand-over instead
    ("retry_pending", "blocked"): 1,
    ("owned", "free"): 4,  # commit, failure or end, death, 30 s after a stop
    ("blocked", "owned"): 1,
}


def test_seed002_the_table_has_the_promised_ways_and_no_others() -> None:
    found: dict[tuple[str, str], int] = {}
    for edge in file_states.EDGES:
        found[edge.before, edge.after] = found.get((edge.before, edge.after), 0) + 1
    assert found == SEED
    assert file_states.STATES == ("free", "owned", "contended", "retry_pending", "blocked")
    assert len({(edge.before, edge.cause) for edge in file_states.EDGES}) == len(file_states.EDGES)


def test_there_is_no_way_that_the_table_does_not_have() -> None:
    known = {(edge.before, edge.cause) for edge in file_states.EDGES}
    causes = {edge.cause for edge in file_states.EDGES}
    for before in file_states.STATES:
        for cause in causes:
            if (before, cause) not in known:
                with pytest.raises(KeyError):
                    file_states.after(before, cause)


def test_the_diagram_shows_the_table() -> None:
    shown = file_states.diagram().splitlines()
    assert shown[:2] == ["stateDiagram-v2", "    [*] --> Free"]
    assert len(shown) == 2 + len(file_states.EDGES)
    assert "    RetryPending --> Blocked: retry fails" in shown
    assert "    RetryPending --> Owned: handed over when it came free" in shown


def recorded(events: list[Event]) -> dict[str, list[str]]:
    """The states of each contention in the ledger, in order, from the refusal on."""
    found: dict[str, list[str]] = {}
    for event in events:
        note = str(event.data.get("note", ""))
        if "state" not in event.data or not note.startswith("gate:"):
            continue
        agent, _kind, id = note.rsplit(":", 2)
        found.setdefault(f"{agent}:{id}", []).append(str(event.data["state"]))
    return found


@pytest.mark.parametrize("wake", [True, False])
def test_every_state_in_the_ledger_came_by_a_way_of_the_table(stage: Stage, wake: bool) -> None:
    stage.settings = Settings(wake=wake)
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    child = stage.agent("bob", "child")
    ann.edit("app/x.rb", "lib/y.rb")
    bob.edit("app/x.rb", hold=True)
    child.edit("lib/y.rb")
    child.stop(hold=True)
    stage.clock.advance(180)
    bob.edit("app/x.rb")  # blocked, unless its own wait has ended
    bob.gate().prompt()
    bob.edit("app/x.rb")
    ann.commit("app/x.rb")
    bob.gate().live_on()
    stage.clock.advance(180)
    bob.edit("app/x.rb", write="bob\n")
    cid.edit("app/x.rb")
    stage.later(50, lambda: stage.kill("bob"))
    cid.stop(hold=True)
    stage.clock.advance(180)
    cid.gate().prompt()
    cid.gate().end_session()
    ways = {(edge.before, edge.after) for edge in file_states.EDGES}
    found = recorded(list(stage.manager.events()))
    assert len(found) >= 4
    for walked in found.values():
        assert walked[0] == "retry_pending"
        for before, after in itertools.pairwise(walked):
            assert before == after or (before, after) in ways
    assert "blocked" in {state for walked in found.values() for state in walked}
    assert "owned" in {state for walked in found.values() for state in walked}


def _refused(stage: Stage) -> None:
    stage.agent("ann").edit("app/x.rb", write="new\n")
    stage.agent("bob").edit("app/x.rb")


def _retried(stage: Stage) -> None:
    _refused(stage)
    stage.clock.advance(180)
    stage.agent("bob").edit("app/x.rb")


def _resumed(stage: Stage) -> None:
    _retried(stage)
    stage.agent("bob").gate().prompt()


def _came_free(stage: Stage) -> None:
    _refused(stage)
    stage.agent("ann").gate().end_session()
    stage.agent("bob").gate().live_on()


def _retried_well(stage: Stage) -> None:
    stage.settings = Settings(wake=False)
    _refused(stage)
    stage.agent("ann").commit("app/x.rb")
    stage.clock.advance(180)
    stage.agent("bob").edit("app/x.rb")


def _rested(stage: Stage) -> None:
    stage.agent("ann").edit("app/x.rb", write=None)
    stage.agent("ann").stop()


@pytest.mark.parametrize(
    ("before", "cause", "story"),
    [
        (file_states.OWNED, file_states.COMPETED, _refused),
        (file_states.CONTENDED, file_states.HEARTBEAT_WRITTEN, _refused),
        (file_states.RETRY_PENDING, file_states.RETRY_FAILED, _retried),
        (file_states.RETRY_PENDING, file_states.RETRY_SUCCEEDED, _retried_well),
        (file_states.RETRY_PENDING, file_states.HANDED_OVER, _came_free),
        (file_states.OWNED, file_states.COMMITTED, _retried_well),
        (file_states.OWNED, file_states.ENDED, _came_free),
        (file_states.OWNED, file_states.RESTED, _rested),
        (file_states.BLOCKED, file_states.RESUMED, _resumed),
    ],
)
def test_a_way_that_is_not_in_the_table_is_not_gone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, before: str, cause: str,
    story: Callable[[Stage], None],
) -> None:  # fmt: skip
    ways = dict(file_states._AFTER)
    del ways[before, cause]
    monkeypatch.setattr(file_states, "_AFTER", ways)
    with pytest.raises(KeyError):
        story(stage)
