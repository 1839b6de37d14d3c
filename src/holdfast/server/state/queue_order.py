"""The rows of the queue in the order in which they are shown: cut off, at work, waiting.

A row only names an object by its id; the object itself is elsewhere in the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from holdfast.core.keys import INODE, kind
from holdfast.server.state.ledger_facts import without_anchors
from holdfast.work.engine.work_items import QUEUED

if TYPE_CHECKING:
    from holdfast.server.state.ledger_facts import Moment

    Row = dict[str, str]

ITEM, GRANT, TICKET, AGENT = "item", "grant", "ticket", "agent"


def groups(now: Moment, cut_off: Collection[str], waiting_max: int) -> dict[str, list[Row]]:
    """The rows of each part of the queue. At work: items in review, items at work, and the grants
    of agents and people. Waiting: tickets, agents without a ticket, and items in the order in which
    they will be dispatched."""
    out = [*now.held, *now.active]
    others = sorted(now.others, key=lambda grant: grant.acquired_at)
    return {
        "cut_off": [_row(ITEM, item.id) for item in out if item.id in cut_off],
        "at_work": [
            *(_row(ITEM, item.id) for item in out if item.id not in cut_off),
            *(_row(GRANT, grant.id) for grant in others),
        ],
        "waiting": [
            *(_row(TICKET, ticket.id) for ticket in now.strangers[:waiting_max]),
            *({"kind": AGENT, "id": one.key, "file": one.file} for one in now.strays),
            *(_row(ITEM, item.id) for item in now.queued[:waiting_max]),
        ],
    }


def wanted(now: Moment) -> dict[str, int]:
    """How many wait for each path: items without locks, tickets, and agents without a ticket."""
    found: Counter[str] = Counter()
    for item in now.queued:
        if not item.grant_id:
            found.update(
                without_anchors([*item.lock_request.write_paths, *item.lock_request.read_paths])
            )
    for ticket in now.tickets:
        own = now.item_of(ticket.id, ticket.request.holder.id)
        if own is None or own.status != QUEUED:
            request = ticket.request
            found.update(path for key, path in zip(request.keys, request.paths, strict=True)
                         if kind(key) != INODE)  # fmt: skip
    found.update(one.file for one in now.strays)
    return dict(found)


def _row(kind: str, id: str) -> Row:
    return {"kind": kind, "id": id}
