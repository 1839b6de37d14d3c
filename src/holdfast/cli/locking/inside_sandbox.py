"""Reading from inside a sandbox, where the ledger is closed: the runner outside answers.

This is the side of the commands that only read; `holdfast.gate.people.ledger_picture` answers. They
print the same as outside, with the same code.
"""

from __future__ import annotations

from holdfast.core import codec
from holdfast.core.events import TICKET_ADDED
from holdfast.core.model import ConflictInfo, Conflicts, Event
from holdfast.gate.people.file_standing import Standing
from holdfast.gate.people.ledger_picture import Picture

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.cli.command_context import CommandContext
    from holdfast.core.errors import StoreReadonlyError
    from holdfast.core.model import Ticket


def picture(context: CommandContext, everything: bool, closed: StoreReadonlyError) -> Picture:
    """What `status` shows. Raises the error of the closed ledger if no runner can answer."""
    answer = _ask_runner(context, {"ask": "picture", "all": everything}, closed)
    found = Picture(None, everything, context.folder)
    found.look_at(answer["root"], answer["store"], answer["head"], answer["now"])
    found.grants = [
        (codec.grant_from_dict(one), why, until) for one, why, until in answer["grants"]
    ]
    found.waiting = [
        (_ticket(one), dead, [ConflictInfo(**conflict) for conflict in behind])
        for one, dead, behind in answer["waiting"]
    ]
    found.agents = [Standing(**one) for one in answer["agents"]]
    return found


def conflicts(
    context: CommandContext, reads: list[str], writes: list[str], closed: StoreReadonlyError
) -> tuple[Conflicts, int]:
    """The conflicts with a request of the caller, and the time of the answer."""
    me = context.me().holder
    wanted = {"ask": "check", "id": me.id, "key": me.key, "read": reads, "write": writes}
    answer = _ask_runner(context, wanted, closed)
    named = [ConflictInfo(**one) for one in answer["conflicts"]]
    return Conflicts(named, answer.get("more", 0)), answer["now"]


def blockers(context: CommandContext, closed: StoreReadonlyError) -> list[dict[str, Any]]:
    """The reports about agents that were stopped."""
    found: list[dict[str, Any]] = _ask_runner(context, {"ask": "blockers"}, closed)["blockers"]
    return found


def _ask_runner(
    context: CommandContext, wanted: Mapping[str, Any], closed: StoreReadonlyError
) -> dict[str, Any]:
    from holdfast.gate.sandbox import runner_client

    if not runner_client.address():
        raise closed
    answer = runner_client.ask(wanted)
    if answer["root"] != context.root():  # the runner knows only its own ledger
        raise closed
    return answer


def _ticket(fields: Mapping[str, Any]) -> Ticket:
    event = Event(
        seq=fields["arrival"], type=TICKET_ADDED, at=fields["added_at"], data=fields["request"]
    )
    return codec.ticket_of(event, reserved=fields["reserved"])
