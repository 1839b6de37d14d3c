"""The state of a repository at one moment: grants, items, workflows, and why each item waits.

It is read in one view of the ledger, so its parts agree with each other and with `head`, the number
of the last event that they include. A reader that then follows the events after `head` misses none
and gets none twice.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from holdfast.core.conflicts import in_the_way
from holdfast.core.draft import Draft
from holdfast.core.ledger_time import iso
from holdfast.core.model import ConflictInfo, Conflicts
from holdfast.core.sentences import conflict_sentences
from holdfast.gate.config.off_switch import switched_off
from holdfast.gate.people.file_standing import standings
from holdfast.gate.rulebook.file_states import BLOCKED, OWNED
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.plain_data import conflict_data, grant_data, ticket_data
from holdfast.server.state import queue_order, tally, task_board, wait_chains, work_progress
from holdfast.server.state.controllers import controllers
from holdfast.server.state.ledger_facts import Moment, task_of, without_anchors
from holdfast.server.state.wait_chains import Chains
from holdfast.server.visible_text import visible
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.work_items import (
    ANALYZE,
    QUEUED,
    WorkItem,
)
from holdfast.work.screens import workflow_states
from holdfast.work.tasks import task_states

if TYPE_CHECKING:
    from holdfast.core.model import Grant, Ticket
    from holdfast.core.view import View
    from holdfast.gate.people.file_standing import Standing

    Question = Callable[[View], list[ConflictInfo]]

#: How many conflicts of one item are listed; the rest are counted.
WHY_MAX = 5
#: How many waiting items are listed, and how many of them with reasons unless the request asks for
#: more: resolving an item's paths and finding their holders takes a millisecond.
WAITING_MAX = 5000
REASONS = 60

#: What an item waits for.
LOCKS, SLOT, DISPATCHER = "locks", "slot", "dispatcher"


class Board:
    """Computes the state of one repository, and answers questions about it."""

    def __init__(self, manager: LockManager) -> None:
        self._manager = manager
        self._item_store = ItemStore(manager)
        self._questions: dict[str, Question] = {}

    def state(self, reasons: int = REASONS, gaps: int = 0) -> dict[str, Any]:
        """Everything but history. `reasons` is how many waiting items and requests have their
        reasons; `gaps` is the number of gaps in history."""

        def look(view: View) -> dict[str, Any]:
            now = Moment(view)
            self._forget(now)
            active, queued = now.active, now.queued
            found = Chains(now, view, lambda item: self._question(item)(view))
            summary = self._summary(now, found, reasons, gaps)
            return {
                **summary,
                "queue": queue_order.groups(now, summary["cut_off"], WAITING_MAX),
                "wanted": queue_order.wanted(now),
                "controllers": controllers(now),
                "workflows": now.flows,
                "locks": {
                    "active_grants": [_grant(now, grant) for grant in now.grants],
                    "queue_depth": len(queued),
                    "active_items": [item_data(item) for item in active],
                    "held_items": [item_data(item) for item in now.held],
                },
                "waiting": [
                    *(self._waits(now, view, item, found) for item in queued[:reasons]),
                    *(item_data(item) for item in queued[reasons:WAITING_MAX]),
                ],
                "tickets": [
                    *(_ticket(now, view, one, found) for one in now.strangers[:reasons]),
                    *(
                        _with_standing(now, ticket_data(one, ()))
                        for one in now.strangers[reasons:WAITING_MAX]
                    ),
                ],
                "calls": [
                    {**ticket_data(ticket, ()), "workflow": now.items[id].workflow}
                    for id, ticket in now.calls.items()
                ],
                "items": dict(Counter(item.status for item in now.items.values())),
                **_agents(now.agents, now.now),
            }

        return {**transactions.look(self._manager, look), **self._surroundings()}

    def summary(self, reasons: int = REASONS, gaps: int = 0) -> dict[str, Any]:
        """The progress of all work, every task, and all counts."""

        def look(view: View) -> dict[str, Any]:
            now = Moment(view)
            self._forget(now)
            found = Chains(now, view, lambda item: self._question(item)(view))
            return self._summary(now, found, reasons, gaps)

        return transactions.look(self._manager, look)

    def _summary(self, now: Moment, found: Chains, reasons: int, gaps: int) -> dict[str, Any]:
        work = work_progress.progress(now)
        cut_off = work_progress.cut_off(now, work)
        at, failures = phase(now, work), tally.failures(now)
        return {
            "phase": at,
            "phase_words": phase_words(at, now.trouble, len(failures)),
            "counts": tally.counts(now, gaps, cut_off),
            "failures": failures,
            "undecided": tally.undecided(now, cut_off),
            "progress": work,
            "tasks": task_board.rows(now, found, cut_off, reasons),
            "cut_off": sorted(cut_off),
            "trouble": now.trouble,
            "guidance": task_board.guidance(now),
            "head": now.head,
            "now": iso(now.now),
        }

    def gone(self) -> tuple[str, ...]:
        """The lists of tasks, and the screens, whose dispatcher has died. No event reports that."""
        return transactions.look(self._manager, work_progress.gone)

    def task(self, list: str, name: str) -> dict[str, Any] | None:
        """One task with everything in its record; None if there is no task of that name."""

        def look(view: View) -> dict[str, Any] | None:
            now = Moment(view)
            found = Chains(now, view, lambda item: self._question(item)(view))
            cut_off = work_progress.cut_off(now, work_progress.progress(now))
            return task_board.one(now, found, cut_off, list, name)

        return transactions.look(self._manager, look)

    def agents(self) -> dict[str, Any]:
        """The states of agents towards files: a part of the state that changes often."""

        def look(view: View) -> dict[str, Any]:
            found = _agents(standings(view), view.now)
            return {"head": view.head, "now": iso(view.now), **found}

        return transactions.look(self._manager, look)

    def why(self, ids: Iterable[str]) -> dict[str, Any]:
        """Why items wait; of the given ones, those that do."""

        def look(view: View) -> dict[str, Any]:
            now = Moment(view)
            waiting = (now.items.get(id) for id in dict.fromkeys(ids))
            found = [item for item in waiting if item is not None and item.status == QUEUED]
            chained = Chains(now, view, lambda item: self._question(item)(view))
            return {
                "head": now.head,
                "now": iso(now.now),
                "waiting": {item.id: self._reason(now, view, item, chained) for item in found},
            }

        return transactions.look(self._manager, look)

    def item(self, id: str) -> dict[str, Any] | None:
        """One item; None if the ledger has none of that id."""

        def look(view: View) -> dict[str, Any] | None:
            now = Moment(view)
            item = now.items.get(id)
            if item is None:
                return None
            if item.status != QUEUED:
                return item_data(item)
            found = Chains(now, view, lambda item: self._question(item)(view))
            return self._waits(now, view, item, found)

        return transactions.look(self._manager, look)

    def items(self, group: str) -> list[dict[str, Any]]:
        """The items of one controller, in the order of their arrival."""
        return [
            item_data(item) for item in self._item_store.items() if item.data.get("group") == group
        ]

    def figures(self) -> dict[str, Any]:
        """The figures for `/metrics`."""

        def look(view: View) -> dict[str, Any]:
            now = Moment(view)
            waits = [item.queued for item in now.queued] + [one.added_at for one in now.tickets]
            return {
                "events": now.head,
                "grants": len(now.grants),
                "tickets": len(now.tickets),
                "items": Counter(item.status for item in now.items.values()),
                "workflows": Counter(flow["state"] for flow in now.flows.values()),
                "tasks": Counter(task.state for task in now.tasks),
                "failed": len(tally.failures(now)),
                "retries": sum(item.retries for item in now.items.values()),
                "agents": Counter(one.state for one in now.agents),
                "overdue": sum(one.is_overdue(now.now) for one in now.agents),
                "blockers": len({one.key for one in now.agents if one.state == BLOCKED}),
                "trouble": now.trouble,
                "longest_wait": max((now.now - since for since in waits), default=0),
            }

        return transactions.look(self._manager, look)

    # Why

    def _waits(self, now: Moment, view: View, item: WorkItem, found: Chains) -> dict[str, Any]:
        return {**item_data(item), **self._reason(now, view, item, found)}

    def _reason(self, now: Moment, view: View, item: WorkItem, found: Chains) -> dict[str, Any]:
        """What an item waits for: locks of others, a free slot, or a dispatcher."""
        conflicts = [] if item.grant_id else self._question(item)(view)
        if conflicts:
            return _behind(now, conflicts, item.workflow, found)
        waits_for = SLOT if now.active else DISPATCHER
        said = "a free slot" if now.active else "a dispatcher; none seems to be running"
        return {"waits_for": waits_for, "why": [], "why_more": 0, "for": [], "sentence": said,
                "chain": []}  # fmt: skip

    def _question(self, item: WorkItem) -> Question:
        """The function that finds an item's conflicts. It is cached, because resolving the paths
        costs more than finding their holders."""
        known = self._questions.get(item.id)
        if known is None:
            known = self._questions[item.id] = self._item_store.question(item)
        return known

    def _forget(self, now: Moment) -> None:
        over = [id for id in list(self._questions)
                if id not in now.items or now.items[id].status != QUEUED]  # fmt: skip
        for id in over:
            self._questions.pop(id, None)

    def _surroundings(self) -> dict[str, Any]:
        tree = self._manager.tree
        root = tree.root if tree is not None else ""
        off = switched_off(root) if root else None
        return {
            "root": root,
            "name": os.path.basename(root) or root,
            "version": _version(),
            "off": "" if off is None else off.sentence(),
        }


def phase(now: Moment, work: list[dict[str, Any]]) -> str:
    """The phase of all work in one word; `ready` if there is none."""
    if now.trouble:
        return "error"
    found = {flow["state"] for flow in now.flows.values()}
    if not found - {workflow_states.IDLE} and not now.items and not now.tasks:
        return "ready"
    if any(one["gone"] for one in work):
        return "stopped"
    merging = {item.phase for item in now.items.values()
               if not item.is_over and task_of(item) is None}  # fmt: skip
    if merging:
        return "analyzing" if merging == {ANALYZE} else "merging"
    if workflow_states.AWAITING_DECISIONS in found:
        return workflow_states.AWAITING_DECISIONS
    if any(not one.is_over for one in now.tasks):
        is_review = all(one.is_over or one.state == task_states.REVIEWING for one in now.tasks)
        return task_states.REVIEWING if is_review else task_states.WORKING
    return "error" if tally.failures(now) else "completed"


def phase_words(phase: str, trouble: str, failed: int) -> str:
    """The phase for people. Work that finished with failures is not itself in error."""
    if phase == "error" and not trouble:
        return f"finished, {failed} failed"
    return phase.replace("_", " ")


def item_data(item: WorkItem) -> dict[str, Any]:
    """An item with its times in ISO 8601."""
    dispatched, data = item.dispatched_at, item.to_data()
    return {
        **data,
        "write_paths": without_anchors(data["write_paths"]),
        "queued_at": item.queued_at.isoformat(),
        "dispatched_at": None if dispatched is None else dispatched.isoformat(),
    }


def _behind(now: Moment, conflicts: list[ConflictInfo], name: str, found: Chains) -> dict[str, Any]:
    shown = conflicts[:WHY_MAX]
    more = conflicts.more if isinstance(conflicts, Conflicts) else 0
    chain = found.after(conflicts)
    return {
        "waits_for": LOCKS,
        "why": [{**conflict_data(one), "name": now.name(one)} for one in shown],
        "why_more": len(conflicts) - len(shown) + more,
        "for": list(dict.fromkeys(now.name(one) for one in conflicts))[:WHY_MAX],
        "sentence": visible(conflict_sentences(conflicts, now.now, more=more)),
        "chain": chain,
        "chain_sentence": wait_chains.sentence(name, chain),
    }


def _grant(now: Moment, grant: Grant) -> dict[str, Any]:
    item, data = now.item_of(grant.id, grant.holder.id), grant_data(grant)
    if grant.ttl is None and now.lease is not None:
        data["expires_at"] = None  # it lasts as long as its owner
    return _with_standing(now, {
        **data,
        "write_paths": without_anchors(data["write_paths"]),
        "name": grant.holder.id if item is None else item.workflow,
        "item": "" if item is None else item.id,
        "phase": "" if item is None else item.phase,
    })  # fmt: skip


def _with_standing(now: Moment, one: dict[str, Any]) -> dict[str, Any]:
    """A grant or a ticket with the state of its agent towards its first file; None if its owner is
    not an agent."""
    key, paths = one["owner"]["key"], one["write_paths"]
    standing = now.standing.get((key, paths[0])) if key and paths else None
    return {**one, "standing": None if standing is None else _standing(standing, now.now)}


def _standing(one: Standing, now: int) -> dict[str, Any]:
    """The state of an agent towards a file; `is_plain` if the agent simply owns the file."""
    return {**one.to_data(now), "is_plain": one.state == OWNED and not one.how}


def _agents(found: list[Standing], now: int) -> dict[str, Any]:
    """The states of agents towards files, and the reports on blocked agents."""
    return {
        "agents": [_standing(one, now) for one in found],
        "blockers": [one.report for one in found if one.report is not None],
    }


def _ticket(now: Moment, view: View, ticket: Ticket, found: Chains) -> dict[str, Any]:
    conflicts = in_the_way(Draft(view), ticket.request, ticket.arrival)
    name = ticket.request.holder.id
    data = {**ticket_data(ticket, ()), **_behind(now, conflicts, name, found)}
    return _with_standing(now, data)


def _version() -> str:
    try:
        return version("holdfast")
    except PackageNotFoundError:
        return ""
