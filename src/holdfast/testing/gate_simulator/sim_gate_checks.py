"""Compares the gate's answers to agents with the model, and checks what must hold after every
step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.model import Grant
from holdfast.gate.rulebook.outcomes import Denied, Halted, Held, Passed, Rested
from holdfast.testing.gate_simulator.sim_gate_model import (
    SIGNS,
    STOPPED,
    STOPS,
    GateModel,
    Lease,
    Refused,
    session_of,
)
from holdfast.testing.gate_simulator.sim_gate_world import Step
from holdfast.testing.simulator.sim_state import Broken

if TYPE_CHECKING:
    from holdfast.core.view import View

LAST = 1 << 62


class Before:
    """The state before a step."""

    __slots__ = ("blocked", "family", "process", "refusals", "resting")

    def __init__(self, model: GateModel, step: Step) -> None:
        self.refusals = model.waits(step.key)
        self.blocked = model.is_blocked(step.key)
        self.process = model.processes.get(step.key)
        self.family = _family(model, step) if step.kind == "session_start" else set()
        self.resting = {lease.id: lease.rests_at for lease in model.of(step.key)}


def _family(model: GateModel, step: Step) -> set[object]:
    """The leases without an end of a session, and its agents that are present."""
    leases = {
        (one.id, one.witness)
        for one in model.leases.values()
        if session_of(one.key) == step.key and one.ends_at is one.rests_at is None
    }
    known = {(key, one) for key, one in model.processes.items() if session_of(key) == step.key}
    return {*leases, *known, *(name for name in model.refusals if f":{step.key}" in name)}


def check(model: GateModel, step: Step, before: Before, outcome: object) -> None:
    """All of it."""
    _follow(model, step, before, outcome)
    if step.kind in ("edit", "wait_on", "agent_call"):
        _check_halted(model, step, outcome)
    if step.kind in ("edit", "wait_on"):
        _check_edit(model, step, before, outcome)
    if step.kind in SIGNS and not isinstance(outcome, Halted):
        _check_awake(model, step, before)
    if step.kind == "session_start":
        _check_start(model, step, before)
    if step.kind in STOPS:
        _check_stop(model, step, before, outcome)
    if step.kind in ("prompt", "fail"):
        _check_told(model, step)
    if step.kind == "look_out":
        _check_people(model, step)
    _check_progress(model, step, before, outcome)
    _check_line(model, step)
    _check_notes(model, step)


def _follow(model: GateModel, step: Step, before: Before, outcome: object) -> None:
    """Update the stopped agents, and the parents of sub-agents."""
    is_sign = step.kind in SIGNS or (step.kind == "wait_on" and isinstance(outcome, Passed))
    if is_sign and model.ends_rest(step):
        model.rests.pop(step.key, None)
    is_new = not before.blocked and model.is_blocked(step.key)
    is_halted = isinstance(outcome, Halted) and (is_new or step.kind in STOPS)
    if is_halted or isinstance(outcome, Rested):
        is_known = step.key in model.rests and step.key not in model.alone
        is_known = is_known or model.is_blocked(step.key)
        if is_known or model.of(step.key) or model.has_children(step.key):
            model.alone.discard(step.key)
        else:
            model.alone.add(step.key)
        model.rests[step.key] = STOPPED
    elif isinstance(outcome, Held):
        model.rests[step.key] = outcome.until
    elif isinstance(outcome, Passed) and step.kind in STOPS:
        model.rests.pop(step.key, None)
    if step.kind == "session_start" and _is_elsewhere(step, before):
        model.disband(step.key)
        is_known = step.key in model.rests and step.key not in model.alone
        if is_known or any(not lease.handed for lease in model.of(step.key)):
            model.alone.discard(step.key)
            model.rests[step.key] = STOPPED
    elif step.kind == "agent_call" and isinstance(outcome, Passed):
        model.called(step)
    elif step.kind == "agent_start":
        model.started(step)
    elif isinstance(outcome, Rested) and step.facts.get("ends"):
        model.ended(step.key)
        model.rests.pop(step.key, None)
    elif step.kind == "session_end":
        model.disband(step.key)
        for key in [key for key in model.rests if session_of(key) == step.key]:
            del model.rests[key]
        model.closed.add(step.key)


def _check_halted(model: GateModel, step: Step, outcome: object) -> None:
    """Agents that may not write are refused, and no others."""
    may_not = model.may_not_write(step.key)
    if isinstance(outcome, Halted):
        if not may_not:
            raise Broken("blocked by its retry (3)", f"{step}: reported as blocked, and is not")
        if not model.is_blocked(step.key):
            model.count("halted for one above")
    elif may_not and outcome is not None:
        raise Broken("nothing by the blocked (3)", f"{step} passed")


def _is_elsewhere(step: Step, before: Before) -> bool:
    """Whether this is a session's first event in this process."""
    is_new = step.agent is not None and before.process != step.agent.session.witness
    return is_new and not step.facts.get("second")


# Edits


def _check_edit(model: GateModel, step: Step, before: Before, outcome: object) -> None:
    if isinstance(outcome, Passed):
        for path in step.wanted:
            _check_owned(model, step, path)
    elif isinstance(outcome, Denied):
        _check_denied(model, step, before, outcome)


def _lives(step: Step) -> bool:
    """Whether an agent's client runs: the hook of a killed client may be the last to learn that its
    files are free."""
    return step.agent is not None and step.agent.is_alive


def _check_owned(model: GateModel, step: Step, path: str) -> None:
    mine = [one for one in model.of(step.key) if path in one.paths]
    is_mine = any(
        not one.handed and one.rests_at is None and (one.ends_at is None or one.ends_at > model.now)
        for one in mine
    )
    if not is_mine and _lives(step):
        raise Broken("permitted is owned (1)", f"{step}: {path} is not its own: {_told(mine)}")


def _told(leases: Sequence[Lease]) -> str:
    return " ".join(
        f"{one.id}({one.key} handed={one.handed} ends={one.ends_at} rests={one.rests_at})"
        for one in leases
    )


def _check_denied(model: GateModel, step: Step, before: Before, denied: Denied) -> None:
    wait = model.refusals.get(denied.wait.name)
    if wait is None or wait.handed:
        raise Broken("no denial without a wait (2)", f"{step}")
    is_new = wait not in before.refusals
    if wait.retry_at != wait.denied_at + model.promises.retry:
        raise Broken("retry (2)", f"{step}: {wait.retry_at - wait.denied_at}")
    if not is_new and step.kind == "edit" and model.now >= wait.retry_at:
        raise Broken("the retry is made when it is due (2)", f"{step}")
    for conflict in denied.conflicts:
        lease = model.leases.get(conflict.grant_id)
        place = model.line.get(conflict.grant_id)
        if lease is None and place is None:
            raise Broken("denied for a holder (2)", f"{step}: {conflict.holder_key} has nothing")
        if conflict.holder_key == step.key:
            raise Broken("denied for itself (2)", f"{step}")
        if (lease is not None and not model.lives(lease)) or (
            place is not None and model.is_dead(place)
        ):
            raise Broken("denied for the living (2)", f"{step}: {conflict.holder_key}")
        if is_new and lease is not None and lease.ends_at is None and model.is_abroad(lease):
            raise Broken("leases of those abroad (4)", f"{step}: {_told([lease])} has no end")
    if is_new or step.kind == "edit":
        has_place = wait.ticket in model.line or wait.ticket in model.leases  # kept for its retry
        lives = _lives(step)
        if lives and not has_place and not wait.circle:
            raise Broken("in line with the refusal (2)", f"{step}")
    kept = not model.promises.wake and not is_new and model.now < wait.retry_at
    place = model.line.get(wait.ticket)
    arrival = LAST if place is None else place.arrival
    if not model.in_the_way(step.key, step.wanted, arrival) and not kept:
        raise Broken("denied for nothing (2)", f"{step}: {wait.paths} waited for")


# Starting, resuming and stopping


def _check_awake(model: GateModel, step: Step, before: Before) -> None:
    is_awake = model.ends_rest(step)
    for lease in model.of(step.key):
        if is_awake and lease.rests_at is not None and model.lives(lease) and _lives(step):
            raise Broken("an event ends the rest (4)", f"{step}: {_told([lease])}")
        if not is_awake and lease.rests_at != before.resting.get(lease.id, lease.rests_at):
            raise Broken("the rest goes on (4)", f"{step}: {_told([lease])}")
        _check_renewed(model, step, lease)


def _check_renewed(model: GateModel, step: Step, lease: Lease) -> None:
    least = model.now + model.promises.foreign * 2 // 3
    is_limited = not lease.handed and model.world.runs(lease.witness)
    ends_at = lease.ends_at if is_limited and lease.ends_at is not None else least
    if ends_at < least and model.lives(lease):
        raise Broken("signs renew (4)", f"{step}: {_told([lease])}")


def _check_start(model: GateModel, step: Step, before: Before) -> None:
    """The start of a session is no work: resting agents keep resting, and in a new process the
    session's agent rests. A second window changes nothing."""
    assert step.agent is not None
    if step.facts.get("second"):
        if not before.family <= _family(model, step):  # a file may have become free for it
            raise Broken("a second window changes nothing (4)", f"{step}")
        return
    for lease in model.of(step.key):
        _check_renewed(model, step, lease)
        if not model.lives(lease):
            continue
        if lease.witness != step.agent.session.witness:
            raise Broken("a session goes on with its files (4)", f"{step}: {_told([lease])}")
        if _is_elsewhere(step, before):
            rests_at: int | None = model.now + model.promises.idle
        else:
            rests_at = before.resting.get(lease.id, lease.rests_at)
        if lease.rests_at != rests_at:
            raise Broken("a start is no work (4)", f"{step}: {_told([lease])}, not {rests_at}")
    own = step.agent.session.witness
    for key, process in model.processes.items():
        if session_of(key) == step.key and process != own:
            raise Broken("gone with its process (6)", f"{step}: {key}")
    for place in model.line.values():
        if session_of(place.key) == step.key and place.witness != own:
            raise Broken("a resumed session has no ticket (5)", f"{step}: {place.paths}")


def _check_told(model: GateModel, step: Step) -> None:
    """A person prompted the agent, or the agent failed."""
    if step.kind == "prompt":
        left = [key for key in model.blocked.values() if session_of(key) == step.key]
        if left:
            raise Broken("a prompt resumes (3)", f"{step}: {left}")
    elif model.of(step.key):
        raise Broken("a failure frees everything (4)", f"{step}: {_told(model.of(step.key))}")
    elif any(place.key == step.key for place in model.line.values()):
        raise Broken("a failed agent has no ticket (5)", f"{step}")


def _check_stop(model: GateModel, step: Step, before: Before, outcome: object) -> None:
    if outcome is None:
        return None
    leases = model.of(step.key)
    if isinstance(outcome, Passed):
        return _check_awake(model, step, before)
    if step.facts.get("ends") and isinstance(outcome, Rested):
        if leases:
            raise Broken("what has ended has nothing (4)", f"{step}: {_told(leases)}")
        for lease in model.leases.values():
            came_up = lease.since == model.now and not lease.handed
            came_up = came_up and model.world.runs(lease.witness)
            if came_up and lease.key in model.rests and lease.key not in model.alone:
                until = max(model.now, model.rests[lease.key]) + model.promises.idle
                if lease.rests_at != until:
                    raise Broken("stopped for 30 s (4)", f"{step}: {_told([lease])} came up")
        return None
    rests_at = model.now + model.promises.idle
    if isinstance(outcome, Held):
        rests_at = outcome.until + model.promises.idle
        if model.now >= outcome.until and step.kind == "stop":
            raise Broken("held for a while (5)", f"{step} until {outcome.until}")
    for lease in leases:
        if lease.rests_at != rests_at and model.lives(lease):
            raise Broken("stopped for 30 s (4)", f"{step}: {_told([lease])}, not {rests_at}")
        if lease.stamp and step.facts["seen"].leases.get(lease.id) == lease.stamp:
            raise Broken("unchanged is free (4)", f"{step}: {_told([lease])}")
    if not isinstance(outcome, Held):
        in_line = [place.paths for place in model.line.values() if place.key == step.key]
        if in_line:
            raise Broken("a stopped agent has no ticket (5)", f"{step}: {in_line}")
    return None


# Checks after every step


def _check_progress(model: GateModel, step: Step, before: Before, outcome: object) -> None:
    """A retry that was due has been made, and an agent that could start has started."""
    if outcome is None or before.blocked or model.is_blocked(step.key):
        return
    if step.kind not in ("edit", "stop", "hold_on", "prompt"):
        return
    for wait in before.refusals:
        if step.kind == "edit":
            again = [path for path in step.wanted if path in wait.paths]
            if not model.in_the_way(step.key, again, LAST):
                continue  # it requests less than before, and that is free
        is_left = step.kind != "edit" or isinstance(outcome, Denied)
        if is_left and model.now >= wait.retry_at and _is_pending(model, wait):
            raise Broken("the retry is made when it is due (7)", f"{step}: {wait.paths}")


def _is_pending(model: GateModel, wait: Refused) -> bool:
    return wait.name in model.refusals and not wait.handed


def _check_line(model: GateModel, step: Step) -> None:
    """No ticket is left whose files are free."""
    taken: set[str] = set()
    for place in sorted(model.line.values(), key=lambda place: place.arrival):
        held = any(
            lease.key != place.key and not set(lease.paths).isdisjoint(place.paths)
            for lease in model.leases.values()
        )
        if not held and taken.isdisjoint(place.paths) and not model.is_dead(place):
            raise Broken("the first in line has it at once (5)", f"{step}: {place.key}")
        taken.update(place.paths)


def _check_notes(model: GateModel, step: Step) -> None:
    pending = {one.ticket: one for one in model.refusals.values() if not one.handed}
    for id, place in model.line.items():
        if id not in pending:
            raise Broken("no ticket without its wait (6)", f"{step}: {place.key} {place.paths}")
    for one in model.refusals.values():
        if one.key not in model.present:
            raise Broken("no wait of an ended agent (6)", f"{step}: {one.name}")
    if step.kind == "session_end":
        left = [key for key in model.present if session_of(key) == step.key]
        left += [one.key for one in model.leases.values() if session_of(one.key) == step.key]
        if left:
            raise Broken("nothing after the end (6)", f"{step}: {left}")
    for lease in model.leases.values():
        if lease.key not in model.present and model.world.runs(lease.witness):
            raise Broken("an ended agent has no lease (4)", f"{step}: {_told([lease])}")


def _check_people(model: GateModel, step: Step) -> None:
    """People who are notified know which agents can continue."""
    for block in model.blocked:
        freed = model.free.get(block.replace(":blocked:", ":free:"))
        is_told = freed is not None and freed.told
        if is_told != model.is_free(block):
            raise Broken("what is free (3)", f"{step}: {block}: reported: {is_told}")


def compare(model: GateModel, view: View) -> None:
    """The ledger's state follows from its events."""
    grants = {grant.id: grant for grant in view.grants()}
    if set(grants) != set(model.leases):
        raise Broken("fold", f"grants {set(grants) ^ set(model.leases)}")
    for id, lease in model.leases.items():
        _compare_lease(lease, grants[id])
    tickets = [ticket.id for ticket in view.queue()]
    if sorted(tickets) != sorted(model.line):
        raise Broken("fold", f"tickets {set(tickets) ^ set(model.line)}")
    notes = {event.data["note"] for event in view.notes("gate:@")}
    known = {*model.refusals, *model.blocked, *model.free}
    known |= {f"gate:{key}:agent" for key in model.present}
    kept = {name for name in notes if not name.endswith((":rest", ":limit"))}
    if kept != known:
        raise Broken("notes (6)", f"{sorted(kept ^ known)}")
    for name in notes - kept:
        key = name.split(":")[1]
        # An agent that died silently may still have leases, and they may get an end.
        died = name.endswith(":limit") and session_of(key) not in model.closed
        if key not in model.present and not died:
            raise Broken("notes (6)", f"{name} of an ended agent")
    _compare_families(model, view)


def _compare_families(model: GateModel, view: View) -> None:
    """Compare the parents of sub-agents, and the calls that are about to start one."""
    notes = list(view.notes("family:"))
    told = {event.data["child"]: event.data["parent"] for event in notes if "child" in event.data}
    known = {
        child: parent for child, parent in model.parents.items() if parent != session_of(child)
    }
    calls = sorted(event.data["parent"] for event in notes if "child" not in event.data)
    about = sorted(parent for calls in model.births.values() for parent, _at in calls)
    if (told, calls) != (known, about):
        raise Broken("families (6)", f"{told} {calls} in the ledger, not {known} {about}")


def _compare_lease(lease: Lease, grant: Grant) -> None:
    mine = (lease.key, lease.paths, lease.ends_at, lease.rests_at)
    if mine != (grant.holder.key, grant.paths, grant.expires_at, grant.idle_at):
        raise Broken("fold", f"{_told([lease])} is {grant}")
