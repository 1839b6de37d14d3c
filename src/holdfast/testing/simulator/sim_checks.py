"""Compares the answers to callers with the model.

The events say what the ledger did; these checks say whether the answer fits it: who stands in
the way, whether a write may proceed, what came of a wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.core.draft import TURNS_MAX
from holdfast.core.model import ConflictInfo, Ending, Grant, Refusal, Verdict, Waiting
from holdfast.core.table import LockTable
from holdfast.testing.simulator.sim_model import Model
from holdfast.testing.simulator.sim_state import Broken, Held, Queued
from holdfast.testing.simulator.sim_world import (
    BIT,
    LINK,
    NAME,
    THINGS,
    Ask,
    Footprint,
    touches,
)

if TYPE_CHECKING:
    from holdfast.core.view import View

LAST = 1 << 62
#: How many conflicts a refusal names; it counts the rest.
NAMED_MAX = 20


def check_answer(model: Model, ask: Ask, verb: str, outcome: object, *, first: bool = True) -> None:
    """The answer to a request. A waiting request is looked up with all its keys, except the first
    time."""
    wanted = ask.footprint if first or verb != "wait" else ask.footprint.without_silent()
    if isinstance(outcome, Grant):
        _check_given(model, ask, verb, outcome)
    elif isinstance(outcome, Waiting):
        if verb != "wait" or not (ask.id in model.tickets or ask.id in model.grants):
            raise Broken("ticket and grant", f"{ask.id} waits without a ticket")
        check_conflicts(model, ask, wanted, outcome.conflicts, outcome.more)
        _check_no_circle(model, ask)
    elif isinstance(outcome, Refusal):
        _check_refused(model, ask, wanted, verb, outcome)
    else:
        raise Broken("answer", f"{outcome!r}")


def _check_given(model: Model, ask: Ask, verb: str, grant: Grant) -> None:
    held = model.grants.get(grant.id)
    if held is None and model.owner_is_dead(ask):
        return  # it was reaped again at once
    if held is None or held.token != grant.token or held.holder != ask.holder:
        raise Broken("fold (4)", f"{verb} {ask.id} was answered {grant}, the ledger has {held}")
    if model.has_expired(held) or model.is_idle(held):
        raise Broken("given what has ended", f"{verb} {ask.id}: {grant}")
    if verb != "ensure" and grant.id != ask.id:
        raise Broken("one request, one grant (2)", f"{ask.id} was answered {grant.id}")
    if not ask.footprint.covered_by(held.footprint):
        raise Broken("all or nothing (3)", f"{grant} does not cover {ask.request}")


def _check_refused(model: Model, ask: Ask, wanted: Footprint, verb: str, refusal: Refusal) -> None:
    if ask.id in model.tickets:
        raise Broken("ticket and grant", f"{ask.id} was refused and still waits")
    if refusal.ending is not None:
        if ask.id in model.grants:
            raise Broken("fold (4)", f"{ask.id} is held, and reported as ended")
        return
    if verb == "steal" and refusal.code == "E_LOCK_NOT_HELD":
        check_conflicts(model, ask, wanted, ())
        return
    if verb == "wait" and refusal.code == "E_LOCK_NOT_HELD" and model.owner_is_dead(ask):
        return
    if not refusal.conflicts:
        raise Broken("refused for nothing (6)", f"{ask.id}: {refusal.code}")
    check_conflicts(model, ask, wanted, refusal.conflicts, refusal.more)
    if refusal.code == "E_LOCK_CYCLE":
        model.count("circles refused")
        _check_circle(model, ask, refusal.circle)


def check_conflicts(
    model: Model, ask: Ask, wanted: Footprint, conflicts: Sequence[ConflictInfo], more: int = 0
) -> None:
    """Each named conflict is real, and each real conflict is named, or counted if there are too
    many."""
    handed_over = model.granted_now > 0
    own = model.tickets.get(ask.id)
    arrival = LAST if own is None else own.arrival
    named: set[str] = set()
    for conflict in conflicts:
        named.add(conflict.grant_id)
        held = model.grants.get(conflict.grant_id)
        if held is not None and (conflict.kind == "grant" or handed_over):
            _check_holder(model, ask, held, conflict)
        else:
            queued = model.tickets.get(conflict.grant_id)
            if queued is None or conflict.kind != "reservation":
                raise Broken("only the living block (6)", f"{ask.id}: {conflict}")
            _check_reservation(model, ask, wanted, queued, arrival)
    if handed_over:
        return
    untold = [
        held.id
        for held in model.grants.values()
        if held.id not in named
        and held.holder != ask.holder
        and wanted.meets(held.footprint)
        and (held.footprint.steal_only or model.is_live(held))
    ]
    if untold and len(conflicts) < NAMED_MAX:
        raise Broken("all conflicts are named", f"{ask.id} was not shown {untold}")
    if len(untold) > more:
        raise Broken("all conflicts are counted", f"{ask.id}: {len(untold)}, counted {more}")


def _check_holder(model: Model, ask: Ask, held: Held, conflict: ConflictInfo) -> None:
    if not (held.footprint.steal_only or model.is_live(held)):
        raise Broken("only the living block (6)", f"{held.id} of {held.holder} blocks {ask.id}")
    if held.holder == ask.holder:
        raise Broken("a holder never refuses itself", f"{held.id} blocks {ask.id}")
    names = {conflict.path, conflict.held_path}
    if "w" not in conflict.mode + conflict.held_mode or not (
        touches(conflict.path, conflict.held_path) or names <= {NAME, LINK}
    ):
        raise Broken("overlap", f"{ask.id}: {conflict}")


def _check_reservation(
    model: Model, ask: Ask, wanted: Footprint, queued: Queued, arrival: int
) -> None:
    if not model.is_ripe(queued) or queued.arrival >= arrival or queued.holder == ask.holder:
        raise Broken("reservations (8)", f"{queued.id} blocks {ask.id}")
    if not wanted.meets(queued.footprint):
        raise Broken("overlap", f"{queued.id} blocks {ask.id}")
    if model.waiter_is_dead(queued.ask):
        raise Broken("only the living block (6)", f"{queued.id} blocks {ask.id}")
    if not model.granted_now and ask.holder in model.awaited(queued):
        raise Broken("reservations (8)", f"{queued.id} waits for {ask.holder} and blocks it")


def _check_circle(model: Model, ask: Ask, circle: Sequence[ConflictInfo]) -> None:
    """The reported cycle leads from the requester back to itself."""
    if not circle or circle[-1].holder_key != ask.holder:
        raise Broken("circles (12)", f"{ask.id} was shown {circle}")
    if model.granted_now:
        return  # its refusal has broken the circle
    waiting = [ask.footprint.without_silent()]
    for step in circle:
        other = model.grants.get(step.grant_id) or model.tickets.get(step.grant_id)
        if other is None and step.grant_id == ask.id:
            other_footprint = ask.footprint
        elif other is None or other.holder != step.holder_key:
            raise Broken("circles (12)", f"{step} is not in the ledger")
        else:
            other_footprint = other.footprint
        if not any(footprint.meets(other_footprint) for footprint in waiting):
            raise Broken("circles (12)", f"no holder in {circle} waits for {step}")
        waiting = [
            queued.footprint
            for queued in model.tickets.values()
            if queued.holder == step.holder_key and not model.waiter_is_dead(queued.ask)
        ]


def _check_no_circle(model: Model, ask: Ask) -> None:
    """No waiting request waits for itself through grants."""
    if model.granted_now:
        return  # what was handed over may have closed one: it is refused at the next look
    queued = model.tickets.get(ask.id)
    if queued is not None and model.is_in_circle(queued):
        raise Broken("circles (12)", f"{ask.id} of {ask.holder} waits for itself")


def check_verdict(model: Model, id: str, key: str | None, token: int, verdict: Verdict) -> None:
    """A write may proceed if and only if its grant is live, has that token and covers the file."""
    held = model.grants.get(id)
    allowed = (
        held is not None
        and held.token == token
        and model.is_live(held)
        and (key is None or bool(BIT[key] & held.footprint.writes))
    )
    if verdict.allowed != allowed:
        raise Broken("verdict (5)", f"{id} {key} {token}: {verdict}, the model says {allowed}")
    if not allowed and held is not None:
        if held.token != token:
            right: tuple[str, ...] = ("E_FENCING_MISMATCH",)
        elif not model.is_live(held):
            right = ("E_LOCK_EXPIRED", "E_LOCK_NOT_HELD")
        else:
            right = ("E_LOCK_VIOLATION",)
        if verdict.code not in right:
            raise Broken("verdict (5)", f"{id} {key} {token}: {verdict}, not one of {right}")


def note_write(model: Model, id: str, key: str, token: int) -> None:
    """A write was allowed: its token must not be older than that of an earlier write by another
    holder. Two grants of one holder may alternate."""
    holder = model.grants[id].holder
    latest = model.written.setdefault(key, {})
    for other, before in latest.items():
        if before > token and other != holder and id not in model.resurrected:
            raise Broken("fencing (5)", f"{key} was written with {token} after {before}")
    latest[holder] = max(token, latest.get(holder, 0))
    if len(latest) > 2:
        del latest[min(latest, key=lambda writer: latest[writer])]


def check_cancelled(model: Model, id: str, grant: Grant | None) -> None:
    """After a cancel there is no ticket; there is a grant only if it was returned."""
    held = model.grants.get(id)
    if id in model.tickets:
        raise Broken("ticket and grant", f"{id} was cancelled and still waits")
    if (held is not None and model.is_live(held)) != (grant is not None):
        raise Broken("ticket and grant", f"{id} was cancelled: {grant}, the model has {held}")


def check_renewed(model: Model, id: str, outcome: Grant | Refusal) -> None:
    """A living holder's renewal is not refused."""
    held = model.grants.get(id)
    if isinstance(outcome, Grant):
        if held is None or held.expires_at != outcome.expires_at:
            raise Broken("fold (4)", f"{id} was renewed: {outcome}, the model has {held}")
    elif held is not None and model.may_renew(held):
        raise Broken("taken from a living owner (7)", f"{id}: {outcome}")


def check_reaped(model: Model, endings: list[Ending]) -> None:
    """After a reap of everything only live grants are left."""
    for held in model.grants.values():
        if not held.footprint.steal_only and not model.is_live(held):
            raise Broken("only the living block (6)", f"{held.id} was not reaped: {endings}")


def check_state(model: Model, view: View, beside: LockTable) -> None:
    """The store's state is that of the model, and that of the fold of its events."""
    if view.head != model.head or view.last_token != model.last_token:
        raise Broken(
            "fold (4)", f"head {view.head}, token {view.last_token}; the model has"
            f" {model.head}, {model.last_token}",
        )  # fmt: skip
    grants = view.grants()
    if len(grants) != len(model.grants):
        raise Broken("fold (4)", f"{len(grants)} grants, the model has {len(model.grants)}")
    rows: set[tuple[str, str, str]] = set()
    for grant in grants:
        held = model.grants.get(grant.id)
        if held is None or _facts(grant) != (
            held.holder, held.ask.request.keys, held.ask.request.modes, held.token,
            held.expires_at, held.idle_at, held.slept,
        ):  # fmt: skip
            raise Broken("fold (4)", f"{grant} is not what was granted")
        folded = beside.grant(grant.id)
        if folded is not grant and folded != grant:
            raise Broken("fold (4)", f"{grant}, its events give {folded}")
        modes: dict[str, str] = {}
        for key, mode in zip(grant.keys, grant.modes, strict=True):
            modes[key] = max(mode, modes.get(key, ""))
        rows.update((key, mode, grant.id) for key, mode in modes.items())
    found = list(view.scopes(list(THINGS), []))
    if len(found) != len(rows) or set(found) != rows:
        raise Broken("fold (4)", f"scopes {set(found) ^ rows}")
    _check_inside(model, view, rows)
    _check_queue(model, view, beside)


def _facts(grant: Grant) -> tuple[object, ...]:
    return (
        grant.holder.key, grant.keys, grant.modes, grant.token, grant.expires_at,
        grant.idle_at, grant.slept,
    )  # fmt: skip


def _check_inside(model: Model, view: View, rows: set[tuple[str, str, str]]) -> None:
    folder = ("app", "app/models", "app/x", "lib")[model.head % 4]
    parts = THINGS[folder] or ()
    inside = {
        row for row in rows if row[0] != folder and (THINGS[row[0]] or ())[: len(parts)] == parts
    }
    found = view.scopes([], [(f"{folder}/", f"{folder}0")])
    if set(found) != inside:
        raise Broken("fold (4)", f"inside {folder}: {set(found) ^ inside}")


def _check_queue(model: Model, view: View, beside: LockTable) -> None:
    queue = view.queue()
    if [ticket.id for ticket in queue] != [
        queued.id
        for queued in sorted(model.tickets.values(), key=lambda queued: queued.rank(model.head))
    ]:
        raise Broken("order of the queue (8)", f"{[ticket.id for ticket in queue]}")
    for ticket in queue:
        queued = model.tickets[ticket.id]
        asked = queued.ask.request.without_silent()
        turns = ticket.request.grace - asked.grace
        if not 0 <= turns <= (TURNS_MAX if asked.grace else 0):
            raise Broken("order of the queue (8)", f"the grace of {ticket} ends too late")
        if (
            ticket.arrival != queued.arrival
            or ticket.added_at != queued.added.at
            or ticket.reserved != (queued.reserved is not None)
            or ticket.request != asked.after(turns)
            or ticket != beside.ticket(ticket.id)
        ):
            raise Broken("fold (4)", f"{ticket} is not what was queued")
