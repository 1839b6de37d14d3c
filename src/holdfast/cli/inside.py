"""Looking from inside a sandbox, where the ledger is closed: the runner outside is asked.

Two ends of the same questions: what `run` answers, and how the commands that only look ask. They
print what they print outside, from the same code.

    {"ask": "picture", "all": false}
        -> what `status` shows
    {"ask": "check", "id": ID, "key": KEY, "read": [PATH...], "write": [PATH...]}
        -> what would be in the way of that holder
    {"ask": "blockers"}
        -> the reports on agents that were stopped

Whoever asks may be anybody inside: a question that is no such question is an error, and none of
them changes anything.
"""

from __future__ import annotations

from holdfast.cli.opening import view_of
from holdfast.cli.status import Picture
from holdfast.core import codec, rules
from holdfast.core.events import TICKET_ADDED
from holdfast.core.model import ConflictInfo, Conflicts, Event, Holder
from holdfast.gate.standing import Standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.cli.opening import Desk
    from holdfast.core.errors import StoreReadonlyError
    from holdfast.core.model import Ticket
    from holdfast.gate.sandbox.service import Question
    from holdfast.manager.manager import LockManager


# How the commands ask


def picture(desk: Desk, everything: bool, closed: StoreReadonlyError) -> Picture:
    """What `status` shows. Raises the error with which the ledger is closed if nobody can tell."""
    said = _asked(desk, {"ask": "picture", "all": everything}, closed)
    found = Picture(None, everything, desk.folder)
    found.look_at(said["root"], said["store"], said["head"], said["now"])
    found.grants = [(codec.grant_from_dict(one), why, until) for one, why, until in said["grants"]]
    found.waiting = [
        (_ticket(one), dead, [ConflictInfo(**conflict) for conflict in behind])
        for one, dead, behind in said["waiting"]
    ]
    found.agents = [Standing(**one) for one in said["agents"]]
    return found


def conflicts(
    desk: Desk, reads: list[str], writes: list[str], closed: StoreReadonlyError
) -> tuple[Conflicts, int]:
    """What would be in the way of the caller, and when that was."""
    me = desk.me().holder
    wanted = {"ask": "check", "id": me.id, "key": me.key, "read": reads, "write": writes}
    said = _asked(desk, wanted, closed)
    named = [ConflictInfo(**one) for one in said["conflicts"]]
    return Conflicts(named, said.get("more", 0)), said["now"]


def blockers(desk: Desk, closed: StoreReadonlyError) -> list[dict[str, Any]]:
    """The reports on agents that were stopped."""
    found: list[dict[str, Any]] = _asked(desk, {"ask": "blockers"}, closed)["blockers"]
    return found


def _asked(desk: Desk, wanted: Mapping[str, Any], closed: StoreReadonlyError) -> dict[str, Any]:
    from holdfast.gate.sandbox import asking

    if not asking.address():
        raise closed
    said = asking.ask(wanted)
    if said["root"] != desk.root():  # the runner knows its own ledger only
        raise closed
    return said


def _ticket(fields: Mapping[str, Any]) -> Ticket:
    event = Event(
        seq=fields["arrival"], type=TICKET_ADDED, at=fields["added_at"], data=fields["request"]
    )
    return codec.ticket_of(event, reserved=fields["reserved"])


# What the runner answers


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
    with view_of(manager) as view:
        found, now = rules.look(view, request), view.now
    named = list(map(_conflict_fields, found))
    return {"root": _root(manager), "now": now, "conflicts": named, "more": found.more}


def _blockers(manager: LockManager, _wanted: Mapping[str, Any]) -> dict[str, Any]:
    from holdfast.gate.blocking import blockers as blocked

    reports = [block.report for block in blocked(manager)]
    return {"root": _root(manager), "blockers": reports}


def _root(manager: LockManager) -> str:
    return manager.tree.root if manager.tree is not None else ""


#: What `run --sandbox` answers beside what any sandbox does.
QUESTIONS: Mapping[str, Question] = {
    "picture": _picture, "check": _check, "blockers": _blockers,
}  # fmt: skip
