"""What people are told, by a command of their own, of what a decision changed."""

from __future__ import annotations

from holdfast.gate.notifying import BLOCKED, FREE, RESUMED, notify
from holdfast.gate.rulebook import records
from holdfast.gate.settings import Settings
from holdfast.manager import services

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from holdfast.core.model import Decision, Event
    from holdfast.core.view import View
    from holdfast.manager.manager import LockManager

    T = TypeVar("T")


def decide_and_tell(
    manager: LockManager,
    rule: Callable[[View], Decision[T]],
    deadline: float = 0,
    command: tuple[str, ...] | None = None,
) -> T:
    """What a rule of the gate decides, committed; people hear of what concerns them, by the command
    that their repository has set unless another is given."""
    made: list[Decision[T]] = []

    def remembered(view: View) -> Decision[T]:
        made[:] = [rule(view)]
        return made[0]

    outcome = services.decide(manager, remembered, deadline)
    root = manager.tree.root if manager.tree is not None else ""
    if command is None:
        command = Settings.load(root, lenient=True).notify if root else ()
    if command:
        tell(command, root, made[0].events)
    return outcome


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
