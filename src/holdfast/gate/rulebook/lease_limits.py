"""The leases of agents that others cannot judge have an end.

From the moment that a requester is refused which cannot tell whether the owner is alive, the
owner's leases end after `gate.foreign_seconds`, unless its events, or a keeper beside it, renew
them. On a ledger that several hosts use, all leases have an end from their start (`View.lease`),
and are renewed in the same way.
"""

from __future__ import annotations

from holdfast.core import bulk_rules
from holdfast.core.conflicts import fate
from holdfast.core.model import AGENT
from holdfast.gate.rulebook import agent_records
from holdfast.gate.rulebook.agent_records import Limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.draft import Draft
    from holdfast.gate.rulebook.agent_life import Life


def limit(draft: Draft, ids: Iterable[str], length: int) -> None:
    """Give an end, `length` from now, to those of some leases whose owners cannot be judged from
    here, unless all leases of this ledger have one."""
    if draft.view.lease is not None:
        return
    for id in ids:
        grant = draft.live_grant(id)
        if (
            grant is not None
            and grant.holder.key[:1] == AGENT
            and grant.ttl is None
            and grant.expires_at is None
            and draft.is_dead(grant.holder.witness, grant.holder.marks) is None
        ):
            draft.extend(grant, expires_at=draft.now + length, idle_at=grant.idle_at)
            limit = Limit(grant.holder.key, agent=grant.holder.id)
            if draft.note(limit.name) is None:
                limit.write(draft, agent_records.LIMITED)


def renew(life: Life) -> None:
    """Renew the agent's leases that have an end because others cannot judge it."""
    if life.draft.view.lease is not None:
        held = life.draft.held_by(life.holder.key)
        live = [grant for grant in held if grant.ttl is None and not fate(life.draft, grant)]
        bulk_rules.renew_kept(life.draft, live)
        return
    length, limited = life.asker.foreign, False
    for grant in life.draft.held_by(life.holder.key):
        if grant.expires_at is None or grant.ttl is not None or fate(life.draft, grant):
            continue
        limited = True
        if grant.expires_at < life.now + length - length // 3:
            until = life.now + length
            life.draft.extend(grant, expires_at=until, idle_at=grant.idle_at)
    if not limited and life.known.limit is not None:
        life.known.limit.end(life.draft, agent_records.LASTING, agent=life.holder.id)
        life.known.limit = None
