"""What people are told, by a command of their own, of what a decision changed."""

from __future__ import annotations

from holdfast.gate.notifying import BLOCKED, FREE, RESUMED, notify
from holdfast.gate.rulebook import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.model import Event


def tell(command: tuple[str, ...], root: str, events: Sequence[Event]) -> None:
    """Start the command for each of these events that a person should hear of."""
    for event in events:
        data = event.data
        if event.type == records.BLOCKED:
            report = data["report"]
            file = report["blocked_file"]
            sentence = f"{data['agent']} is blocked: {file} is held by {report['owner']}"
            notify(command, root, what=BLOCKED, agent=data["agent"], file=file, sentence=sentence)
        elif event.type == records.RESUMED:
            sentence = f"{data['agent']} may go on ({data['by']})"
            notify(command, root, what=RESUMED, agent=data["agent"], file="", sentence=sentence)
        elif event.type == records.FREE_AGAIN:
            file = data["file"]
            sentence = f"{file} is free again: {data['agent']} can go on (holdfast resume)"
            notify(command, root, what=FREE, agent=data["agent"], file=file, sentence=sentence)
