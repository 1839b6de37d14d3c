"""After a command ran: files of others that were changed, and changed files that no one holds.

Nothing is refused here, because it has happened. Nothing is leased either, because it is not known
which files the program changed.
"""

from __future__ import annotations

from holdfast.core.model import AGENT
from holdfast.gate import pending_writes
from holdfast.gate.guard import edit_marks, kept_files
from holdfast.gate.intent import PROMPT, QUIET, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.draft import Draft
    from holdfast.core.model import Holder
    from holdfast.gate.guard.ended_commands import Ended, Facts, Outcome
    from holdfast.gate.guard.file_watch import ChangedFile
    from holdfast.gate.guard.kept_files import Running
    from holdfast.gate.intent import Intent
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.manager.ledger import Ledger


#: In the record of a command: its client reported that it runs on.
BACKGROUND = "background"


def after(intent: Intent, gate: LeaseGate, manager: Ledger) -> Answer:
    """The answer when a command has ended, or was left running."""
    assert manager.tree is not None
    root, key = manager.tree.root, gate.holder.key
    if not intent.background:
        pending_writes.end(root, key)
    running = kept_files.all_running(root)
    one = None
    if running:
        from holdfast.gate.guard import file_watch

        one = file_watch.latest_running(running, gate.holder, intent.command)
    if one is None:
        return gate.live_on(is_tail=True)
    if intent.background:
        kept_files.save(one.file, {**one.data, BACKGROUND: True})
        return gate.live_on(is_tail=True)  # it is checked when its agent comes to rest
    from holdfast.gate.guard import damage, ended_commands, unclaimed_changes
    from holdfast.gate.guard.git_queries import GIT_SECONDS

    changed: dict[str, str] = {}
    if one.data.get("unsure"):
        edit_marks.note_writes(root, key, (edit_marks.ANYTHING,))
        seconds = gate.at_most(GIT_SECONDS)
        changed = unclaimed_changes.changed_since(manager.tree, intent.cwd, one.at, seconds)
    facts = ended_commands.Facts(
        [_ended(manager, one, file_watch.changed_files(manager, one, running))],
        is_heard=True,
        gone=ended_commands.gone(manager.tree, one.data.get("fleeting", ())),
        changed=changed,
        forgotten=kept_files.sweep(root),
    )
    found = _with_event(gate, facts)
    said = gate.live_on(is_tail=True)
    damage.call(root, facts, found[0])
    _close(root, [one], running)
    users = [said.user] if said.user else []
    texts = [said.context] if said.context else []
    for one_damage in found[0].damages:
        undo = damage.undoing(one_damage.id, root, intent.cwd)
        users.append(damage.to_user(undo, one_damage))
        texts.append(damage.to_agent(undo, damage.with_owners(one_damage)))
    new = unclaimed_changes.news(root, key, found[0].free)
    if new:
        texts.append(unclaimed_changes.told(new))
    return Answer(QUIET, user="\n".join(users), context="\n".join(texts))


def _with_event(gate: LeaseGate, facts: Facts) -> list[Outcome]:
    """Have it decided with the event; the outcome is in the list once that is done."""
    from holdfast.gate.guard.ended_commands import write_down

    found: list[Outcome] = []

    def part(draft: Draft, holder: Holder) -> None:
        found[:] = [write_down(draft, holder, facts)]

    gate.also(part)
    return found


def settle(intent: Intent, gate: LeaseGate, manager: Ledger) -> Callable[[], str]:
    """What the user is told about files that changed during an agent's commands whose end was not
    reported: they were interrupted, or left running until now. The agent is told with its next
    message.

    Changed files that no one holds do not matter here: the commands may have begun long ago.
    """
    assert manager.tree is not None
    root = manager.tree.root
    running = kept_files.all_running(root)
    open_ones = [one for one in running if one.agent == gate.holder.key]
    if intent.event == PROMPT or intent.background:  # what runs in the background runs on
        open_ones = [one for one in open_ones if not one.data.get(BACKGROUND)]
    if not open_ones:
        return str
    from holdfast.gate.guard import damage, ended_commands, file_watch

    ended = []
    for one in open_ones:
        # In so long a time a person may have written their own files, which no hook reports.
        changed = file_watch.changed_files(manager, one, running)
        hurt = [file for file in changed if file.key.startswith(AGENT)]
        ended.append(_ended(manager, one, hurt))
    facts = ended_commands.Facts(ended, is_heard=False, forgotten=kept_files.sweep(root))
    found = _with_event(gate, facts)

    def told() -> str:
        damage.call(root, facts, found[0])
        _close(root, open_ones, running)
        return "\n".join(
            damage.to_user(damage.undoing(one.id, root, intent.cwd), one)
            for one in found[0].damages
        )

    return told


def _ended(manager: Ledger, one: Running, found: list[ChangedFile]) -> Ended:
    from holdfast.gate.guard import damage

    assert manager.tree is not None
    return damage.set_aside(manager.tree.root, one.data.get("command", ""), found)


def _close(root: str, ended: list[Running], running: list[Running]) -> None:
    """Forget these commands. If they were the last, no owner is watched any more."""
    for one in ended:
        kept_files.remove(one.file)
    if len(ended) == len(running):
        kept_files.clear(root, "watch")
