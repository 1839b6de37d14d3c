"""Agents at the command line, under the names that the ledger has for them.

Locks that an agent's commands take belong to the agent, as its edits do: it is found by its key.
People read its name, so it is the name that they have read before.
"""

from __future__ import annotations

from holdfast.core.draft import Draft
from holdfast.core.model import Decision
from holdfast.gate.agents import place_of
from holdfast.gate.rulebook import agent_records, display_names
from holdfast.manager import transactions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Holder
    from holdfast.core.view import View
    from holdfast.manager.manager import LockManager


def known_as(manager: LockManager, holder: Holder) -> Holder:
    """A holder under the name that it has in a ledger, or would get there."""
    if not _is_agent(holder):
        return holder
    return transactions.look(manager, lambda view: _named(Draft(view), holder, manager))


def introduced(manager: LockManager, holder: Holder) -> Holder:
    """The same, and record the name in the ledger: for a holder that takes a lock."""
    if not _is_agent(holder):
        return holder

    def rule(view: View) -> Decision[Holder]:
        draft = Draft(view)
        return draft.done(_named(draft, holder, manager))

    found = transactions.look(manager, rule)
    return transactions.decide(manager, rule) if found.events else found.outcome


def _is_agent(holder: Holder) -> bool:
    """Whether the holder is an agent that can have a name in the ledger."""
    return bool(holder.client and holder.session)


def _named(draft: Draft, holder: Holder, manager: LockManager) -> Holder:
    presence = agent_records.known(draft, holder.key).presence
    if presence is not None:
        return display_names.named(holder, presence.shown)
    home = manager.tree.root if manager.tree is not None else ""
    return display_names.introduce(draft, holder, place_of(holder.witness, home))
