"""The vocabulary of the ledger, version 1, and what each event changes.

| event           | data                                             | changes                  |
|-----------------|--------------------------------------------------|--------------------------|
| lock_acquired   | the whole grant; `ticket` if it had waited       | a grant, a ticket less   |
| lock_renewed    | grant, holder, expires_at, idle_at, slept        | the grant's limits       |
| leases_kept     | grants, holders, expires_at, idle_at, slept      | the limits of all these  |
| lock_released   | grant, holder, token, paths                      | the grant ends           |
| lock_reaped     | the same, `why`: expired, idle or owner dead     | the grant ends           |
| lock_stolen     | the same, `by`: the new holder and its grant     | the grant ends           |
| lock_forced     | the same, `by` and `reason`                      | the grant ends           |
| lock_moved      | the same, `to`: the new holders and their grants | the grant ends           |
| lock_refused    | holder, paths, modes, code, the blockers' grants | nothing                  |
| ticket_added    | the whole request                                | a ticket                 |
| ticket_reserved | ticket, holder                                   | the ticket reserves      |
| ticket_dropped  | ticket, holder, `why`: timeout, cancelled, …     | a ticket less            |

Services add events of their own types. Such an event may have the field `note`, a name: it is then
a note, which can be looked up by that name until another event with the same name replaces it, or
ends it with `over`.

The state is the fold of the events: nothing else changes it. A reader skips a type that it does not
know; a change of meaning gets a new version number.
"""

from __future__ import annotations

from holdfast.core.model import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Event

VERSION = 1

LOCK_ACQUIRED = "lock_acquired"
LOCK_RENEWED = "lock_renewed"
LEASES_KEPT = "leases_kept"
LOCK_RELEASED = "lock_released"
LOCK_REAPED = "lock_reaped"
LOCK_STOLEN = "lock_stolen"
LOCK_FORCED = "lock_forced"
LOCK_MOVED = "lock_moved"
LOCK_REFUSED = "lock_refused"
TICKET_ADDED = "ticket_added"
TICKET_RESERVED = "ticket_reserved"
TICKET_DROPPED = "ticket_dropped"

#: How a grant ended, by the type of the event; a `lock_reaped` event has the reason itself.
ENDINGS = {
    LOCK_RELEASED: "released",
    LOCK_REAPED: "",
    LOCK_STOLEN: "stolen",
    LOCK_FORCED: "forced",
    LOCK_MOVED: "moved",
}

PUT_GRANT = "put grant"
EXTEND_GRANT = "extend grant"
END_GRANT = "end grant"
PUT_TICKET = "put ticket"
RESERVE_TICKET = "reserve ticket"
DROP_TICKET = "drop ticket"
PUT_NOTE = "put note"
DROP_NOTE = "drop note"


def changes(event: Event) -> tuple[tuple[str, str], ...]:
    """The changes of an event to the state, as (operation, id). Stores execute them without knowing
    their meaning; further details are in the event."""
    kind = event.type
    if kind == LOCK_ACQUIRED:
        if event.subject is not None:
            id = event.subject.id
            waited = bool(event._data)
        else:
            id = event.data["id"]
            waited = "ticket" in event.data
        return ((PUT_GRANT, id), (DROP_TICKET, id)) if waited else ((PUT_GRANT, id),)
    if kind in ENDINGS:
        return ((END_GRANT, event.data["grant"] if event.subject is None else event.subject.id),)
    if kind == LOCK_RENEWED:
        return ((EXTEND_GRANT, event.data["grant"]),)
    if kind == LEASES_KEPT:
        return tuple([(EXTEND_GRANT, id) for id in event.data["grants"]])
    if kind == TICKET_ADDED:
        return ((PUT_TICKET, event.data["id"]),)
    if kind == TICKET_RESERVED:
        return ((RESERVE_TICKET, event.data["ticket"]),)
    if kind == TICKET_DROPPED:
        return ((DROP_TICKET, event.data["ticket"]),)
    name = event.data.get("note")
    if name is None:
        return ()
    return ((DROP_NOTE if event.data.get("over") else PUT_NOTE, name),)


def ending(event: Event) -> Ending:
    """How the grant of an event has ended."""
    data = event.data
    by = data.get("by") or {}
    return Ending(
        id=data["grant"],
        holder=data["holder"],
        token=data["token"],
        why=ENDINGS[event.type] or data["why"],
        at=event.at,
        by=by.get("holder", ""),
    )
