"""Values as plain data, for `--json` and the page: modes as words, times as UTC in ISO 8601."""

from __future__ import annotations

from holdfast.core.keys import INODE, kind
from holdfast.core.ledger_time import iso
from holdfast.core.model import READ, SECOND, ConflictInfo, Ending
from holdfast.manager.grants import GrantSnapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.core.errors import HoldfastError
    from holdfast.core.model import Event, Grant, Holder, Ticket

#: Fields of events that are points in time, and those that are lengths of time.
_MOMENTS = ("acquired_at", "expires_at", "idle_at")
_LENGTHS = ("ttl", "lease", "patience", "grace", "slept")


def error_data(error: HoldfastError) -> dict[str, Any]:
    """An error with all its details."""
    facts = {name: _plain_data(value) for name, value in error.fields.items()}
    return {"code": error.code, "message": error.message, "hint": error.hint, **facts}


def _plain_data(value: Any) -> Any:
    if isinstance(value, ConflictInfo):
        return conflict_data(value)
    if isinstance(value, Ending):
        return ending_data(value)
    if isinstance(value, list | tuple):
        return [_plain_data(one) for one in value]
    if isinstance(value, dict):
        return {name: _plain_data(one) for name, one in value.items()}
    return value if isinstance(value, str | int | float | None) else str(value)


def moment(at: int | None) -> str | None:
    """A ledger time as text, if there is one."""
    return None if at is None else iso(at)


def conflict_data(conflict: ConflictInfo) -> dict[str, Any]:
    """A conflict."""
    return {
        "kind": conflict.kind,
        "path": conflict.path,
        "mode": mode_word(conflict.mode),
        "held_path": conflict.held_path,
        "held_mode": mode_word(conflict.held_mode),
        "holder": conflict.holder,
        "holder_key": conflict.holder_key,
        "grant": conflict.grant_id,
        "since": iso(conflict.since),
        "until": moment(conflict.until),
        "reason": conflict.reason,
    }


def ending_data(ending: Ending) -> dict[str, Any]:
    """How a grant ended."""
    return {
        "grant": ending.id,
        "holder": ending.holder,
        "token": ending.token,
        "why": ending.why,
        "at": iso(ending.at),
        "by": ending.by,
    }


def grant_data(grant: Grant) -> dict[str, Any]:
    """A grant with its owner."""
    return {**GrantSnapshot(grant).to_dict(), "owner": holder_data(grant.holder)}


def holder_data(holder: Holder) -> dict[str, Any]:
    """A holder with its owner's pid."""
    witness = holder.witness
    pid = None if witness is None else witness.pid
    found: dict[str, Any] = {"id": holder.id, "key": holder.key, "pid": pid}
    for name in ("user", "client", "session", "agent", "parent"):
        if getattr(holder, name):
            found[name] = getattr(holder, name)
    return found


def ticket_data(ticket: Ticket, behind: Sequence[ConflictInfo]) -> dict[str, Any]:
    """A ticket: its holder and paths, and the conflicts that it waits for."""
    request = ticket.request
    wanted = [
        (mode, path)
        for key, mode, path in zip(request.keys, request.modes, request.paths, strict=True)
        if kind(key) != INODE
    ]
    return {
        "id": ticket.id,
        "holder": request.holder.id,
        "read_paths": [path for mode, path in wanted if mode == READ],
        "write_paths": [path for mode, path in wanted if mode != READ],
        "since": iso(ticket.added_at),
        "reserved": ticket.reserved,
        "priority": request.priority,
        "reason": request.reason,
        "behind": [conflict_data(conflict) for conflict in behind],
        "owner": holder_data(request.holder),
    }


def event_data(event: Event) -> dict[str, Any]:
    """One event of the ledger."""
    return {
        "seq": event.seq,
        "type": event.type,
        "version": event.version,
        "timestamp": iso(event.at),
        "repeats": event.repeats,
        "data": _event_fields(event.data),
    }


def _event_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _MOMENTS and isinstance(value, int):
            found[name] = iso(value)
        elif name in _LENGTHS:
            found[f"{name}_seconds"] = value / SECOND if isinstance(value, int) else None
        else:
            found[name] = value
    return found


def mode_word(mode: str) -> str:
    """`r` and `w` as words."""
    return "read" if mode == READ else "write"
