"""The contents of the ledger at one moment, for `status`; and for callers without access to it.

Below a runner or a broker, commands that only read ask it, and it answers from here:

    {"ask": "picture", "all": false}
        -> the contents that `status` shows
    {"ask": "check", "id": ID, "key": KEY, "read": [PATH...], "write": [PATH...]}
        -> the conflicts for that holder
    {"ask": "blockers"}
        -> the reports on agents that were stopped

Any process inside may ask. An unknown question is an error, and no question changes anything.
"""

from __future__ import annotations

from time import monotonic

from holdfast.core import codec, rules
from holdfast.core.conflicts import (
    fate,
    in_the_way,
    shown_end,
    steal_only,
    waiter_is_dead,
)
from holdfast.core.draft import Draft
from holdfast.core.model import ConflictInfo, Holder
from holdfast.gate.config.off_switch import switched_off
from holdfast.gate.people.file_standing import Standing, standings
from holdfast.gate.rulebook.file_states import RETRY_PENDING
from holdfast.manager.ledger import DEADLINE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager
    from typing import Any

    from holdfast.core.model import Grant, Ticket
    from holdfast.core.view import View
    from holdfast.gate.sandbox.runner.ledger_socket import Question
    from holdfast.manager.manager import LockManager
    from holdfast.specs.results import LockStatus


class Picture:
    """The contents of the ledger at one moment, in the order in which they are shown, and the
    locked specs around a folder."""

    __slots__ = (
        "agents", "grants", "head", "now", "off", "orphaned", "root", "specs", "store", "waiting",
    )  # fmt: skip

    def __init__(self, manager: LockManager | None, everything: bool, folder: str) -> None:
        self.look_at("", "", 0, 0)
        #: Each with the reason why it is no longer live, or empty, and its end.
        self.grants: list[tuple[Grant, str, int | None]] = []
        #: Those whose runner is dead: only the processes that it started keep them.
        self.orphaned: set[str] = set()
        #: Each with whether its waiter is dead, and its conflicts.
        self.waiting: list[tuple[Ticket, bool, list[ConflictInfo]]] = []
        #: The states of agents towards files.
        self.agents: list[Standing] = []
        self.specs = _locked_specs(folder)
        if manager is not None:
            self._look(manager, everything)

    def look_at(self, root: str, store: str, head: int, now: int) -> None:
        """Set which ledger this is, and the moment; empty if there is no ledger."""
        self.root, self.store, self.head, self.now = root, store, head, now
        self.off = switched_off(root) if root else None

    def _look(self, manager: LockManager, everything: bool) -> None:
        with _view_of(manager) as view:
            self.look_at(_root(manager), manager.store.url, view.head, view.now)
            draft = Draft(view)
            live = []
            for grant in view.grants():
                why = fate(draft, grant)
                if not why:
                    live.append(grant)
                    witness = grant.holder.witness
                    if grant.holder.marks and witness is not None and view.dead(witness, ()):
                        self.orphaned.add(grant.id)
                if everything or not why or steal_only(grant):
                    self.grants.append((grant, why, shown_end(draft, grant)))
            for ticket in view.queue():
                is_dead = waiter_is_dead(draft, ticket)
                if everything or not is_dead:
                    # A draft of its own: looking ends what it finds dead, and we only look.
                    behind = in_the_way(Draft(view), ticket.request, ticket.arrival)
                    self.waiting.append((ticket, is_dead, behind))
            self.agents = standings(view, live)

    def of(self, state: str) -> list[Standing]:
        """The agents in this state, with their files."""
        return [one for one in self.agents if one.state == state]

    @property
    def strays(self) -> list[Standing]:
        """Agents that wait without a place in the queue."""
        return [one for one in self.of(RETRY_PENDING) if not one.line]

    def standing(self) -> dict[tuple[str, str], Standing]:
        """The same by the agent's key and the file."""
        return {(one.key, one.file): one for one in self.agents}

    def essence(self) -> tuple[Any, ...]:
        """The parts that must differ for a change to be worth showing."""
        return (
            self.off,
            [(grant.id, why, until and grant.expires_at) for grant, why, until in self.grants],
            [(ticket.id, ticket.reserved, dead) for ticket, dead, _behind in self.waiting],
            [
                (one.key, one.file, one.state, one.how, one.owner, one.is_overdue(self.now))
                for one in self.agents
            ],
            [(one.spec_name, one.lock, one.is_stale) for one in self.specs],
        )


def _locked_specs(folder: str) -> list[LockStatus]:
    """Those of the workspace around a folder. Without specs, their module is not imported."""
    from holdfast.specs.spec_names import has_specs, workspace_of

    workspace = workspace_of(folder)
    if not has_specs(workspace):
        return []
    from holdfast.specs.spec_locks import SpecLocks

    return SpecLocks(workspace).get_lock_status()


# Answers for callers below a runner


def _picture(manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
    found = Picture(manager, wanted.get("all") is True, _root(manager))
    return {
        "root": found.root,
        "store": found.store,
        "head": found.head,
        "now": found.now,
        "grants": [(codec.grant_to_dict(grant), why, until) for grant, why, until in found.grants],
        "waiting": [
            (_ticket_fields(ticket), dead, list(map(_conflict_fields, behind)))
            for ticket, dead, behind in found.waiting
        ],
        "agents": [{name: getattr(one, name) for name in Standing.__slots__}
                   for one in found.agents],
    }  # fmt: skip


def _ticket_fields(ticket: Ticket) -> dict[str, Any]:
    fields = {name: getattr(ticket, name) for name in ("added_at", "arrival", "reserved")}
    return {**fields, "request": codec.request_to_dict(ticket.request)}


def _conflict_fields(conflict: ConflictInfo) -> dict[str, Any]:
    return {name: getattr(conflict, name) for name in ConflictInfo.__slots__}


def _check(manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
    id, key = wanted["id"], wanted["key"]
    reads, writes = wanted["read"], wanted["write"]
    if not isinstance(id, str) or not isinstance(key, str):
        raise TypeError("id and key are texts")
    for paths in (reads, writes):
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise TypeError("read and write are lists of texts")
    request = manager.request(Holder(id=id, key=key), reads, writes)
    with _view_of(manager) as view:
        found, now = rules.look(view, request), view.now
    named = list(map(_conflict_fields, found))
    return {"root": _root(manager), "now": now, "conflicts": named, "more": found.more}


def _blockers(manager: LockManager, _wanted: Mapping[str, Any]) -> dict[str, Any]:
    from holdfast.gate.people.blocked_agents import blockers as blocked

    reports = [block.report for block in blocked(manager)]
    return {"root": _root(manager), "blockers": reports}


def _view_of(manager: LockManager) -> AbstractContextManager[View]:
    return manager.store.view(deadline=monotonic() + DEADLINE_SECONDS)


def _root(manager: LockManager) -> str:
    return manager.tree.root if manager.tree is not None else ""


#: The questions that every runner answers beside those of any sandbox.
QUESTIONS: Mapping[str, Question] = {
    "picture": _picture, "check": _check, "blockers": _blockers,
}  # fmt: skip
