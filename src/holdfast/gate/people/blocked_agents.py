"""Agents that were stopped because a retry failed: which, by which holder, and how they continue.

A block is a note in the ledger with the whole report, so it outlives the session: it stays until a
person has read it and lets the agent continue.
"""

from __future__ import annotations

from holdfast.gate.rulebook import agent_records, event_decisions
from holdfast.manager import transactions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.gate.rulebook.agent_records import Block
    from holdfast.manager.manager import LockManager


def blockers(manager: LockManager) -> list[Block]:
    """The blocks of all agents, oldest first, with the reports."""
    return transactions.look(manager, agent_records.blocks)


def resume(manager: LockManager, by: str, *, agent: str = "") -> list[dict[str, Any]]:
    """Let blocked agents continue: all of them, or one by its name or key. Returns the reports."""
    from holdfast.gate.people.notices import decide_and_tell

    found = decide_and_tell(manager, lambda view: event_decisions.let_go_on(view, by, agent))
    return [dict(block.report) for block in found]
