"""Notifications of people, by a command of their own, about the changes of a decision."""

from __future__ import annotations

import os

from holdfast.gate.config.settings import Settings
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from holdfast.manager.ledger_location import of_ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from holdfast.core.model import Decision, Event
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_records import Block
    from holdfast.manager.ledger import Ledger

    T = TypeVar("T")

#: The module that looks whether files come free, and its place beside the ledger.
LOOKOUT = "lookout"

_TOLD = (agent_records.BLOCKED, agent_records.RESUMED, agent_records.FREE_AGAIN)


def decide_and_tell(
    manager: Ledger,
    rule: Callable[[View], Decision[T]],
    deadline: float = 0,
    command: tuple[str, ...] | None = None,
) -> T:
    """Commit the decision of a rule and return its outcome; people are notified of the changes that
    concern them, by the command that their repository has set unless another is given."""
    made: list[Decision[T]] = []

    def remembered(view: View) -> Decision[T]:
        made[:] = [rule(view)]
        return made[0]

    outcome = transactions.decide(manager, remembered, deadline)
    root = manager.tree.root if manager.tree is not None else ""
    if command is None:
        command = Settings.load(root, lenient=True).notify if root else ()
    if command:
        tell(command, root, made[0].events)
    return outcome


def tell(command: tuple[str, ...], root: str, events: Sequence[Event]) -> None:
    """Start the command for each of these events that concerns a person. Only the lookout reports
    that a file is free, whichever process has freed it."""
    if not any(event.type in _TOLD for event in events):
        return
    from holdfast.gate.people.notify_command import BLOCKED, RESUMED, notify

    over = {event.data["note"] for event in events if event.type == agent_records.RESUMED}
    begun = {event.data["note"] for event in events if event.type == agent_records.BLOCKED}
    for event in events:
        data = event.data
        if data.get("note") in over & begun:
            continue  # its retry failed while its user spoke to it and so let it continue
        if event.type == agent_records.BLOCKED:
            report = data["report"]
            file = report["blocked_file"]
            sentence = f"{data['agent']} is blocked: {file} is held by {report['owner']}"
            notify(command, root, what=BLOCKED, agent=data["agent"], file=file, sentence=sentence)
        elif event.type == agent_records.RESUMED:
            sentence = f"{data['agent']} may continue ({data['by']})"
            notify(command, root, what=RESUMED, agent=data["agent"], file="", sentence=sentence)
    if any(event.type == agent_records.FREE_AGAIN for event in events):
        look_out(root)


def look_out(root: str) -> int:
    """Start the lookout of a repository unless there is one. Call it where an agent is blocked and
    `notify` is set. Returns the pid of the new process, or 0. Never raises."""
    from holdfast.gate import side_process
    from holdfast.gate.people.notify_command import without_agent_variables

    try:
        if side_process.Place(root, LOOKOUT).is_taken():
            return 0
    except OSError:
        return 0
    return side_process.start(
        "holdfast.gate.people.lookout",
        [root],
        {**without_agent_variables(os.environ), **of_ledger(root, os.environ)},
    )


def look_out_if_wanted(root: str) -> None:
    """The same, if `notify` is set."""
    if Settings.load(root, lenient=True).notify:
        look_out(root)


def tell_free(command: tuple[str, ...], root: str, block: Block) -> None:
    """Notify people that the file that blocks an agent is free."""
    from holdfast.gate.people.notify_command import FREE, notify

    sentence = f"{block.file} is free again: {block.agent} can continue (holdfast resume)"
    notify(command, root, what=FREE, agent=block.agent, file=block.file, sentence=sentence)
