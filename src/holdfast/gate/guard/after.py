"""After a command ran: what it did to others, and what is its agent's from now on.

Nothing is refused here: it has happened.
"""

from __future__ import annotations

from holdfast.gate import busy
from holdfast.gate.guard import aside, signs
from holdfast.gate.intent import PROMPT, QUIET, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Holder
    from holdfast.gate.guard.aside import Running
    from holdfast.gate.intent import Intent
    from holdfast.gate.leases import Gate
    from holdfast.manager.manager import LockManager


#: In what is remembered of a command: its client said that it runs on.
BACKGROUND = "background"


def after(intent: Intent, gate: Gate, manager: LockManager) -> Answer:
    """What is said when a command has ended, or was left running."""
    assert manager.tree is not None
    gate.awake()
    root = manager.tree.root
    if not intent.background:
        busy.end(root, gate.holder.key)
    running = aside.all_running(root)
    if not running:
        return Answer(QUIET)
    from holdfast.gate.guard import watching

    one = watching.this(running, gate.holder, intent.command)
    if one is None:
        return Answer(QUIET)
    if intent.background:
        aside.save(one.file, {**one.data, BACKGROUND: True})
        return Answer(QUIET)  # it is looked at when its agent comes to rest
    if one.data.get("unsure"):
        signs.sign(root, gate.holder.key, (signs.ANYTHING,))
    others = _others(one, running)
    found = watching.hurt(manager, one, others)
    if one.data.get("unsure"):
        from holdfast.gate.guard.leasing import lease

        lease(manager, gate.holder, one, others)
    if one.data.get("fleeting"):
        from holdfast.gate.guard.leasing import give_back

        give_back(manager, gate.holder, one.data["fleeting"])
    _close(one, running, others)
    _tidy(manager, [other for other in running if other is not one])
    if not found:
        return Answer(QUIET)
    from holdfast.gate.guard import damage

    id = damage.record(manager, gate.holder, one.data.get("command", ""), found)
    undo = damage.undoing(id, root, intent.cwd)
    user = damage.to_user(undo, gate.holder, found)
    return Answer(QUIET, user=user, context=damage.to_culprit(undo, found))


def settle(intent: Intent, manager: LockManager, holder: Holder) -> str:
    """What a person reads of what an agent's commands did of whose end nobody heard: they were
    broken off, or left running until now. The agent reads of it when it is told something next.

    What they changed beside that is not leased: it may be long since they began, and others'.
    """
    assert manager.tree is not None
    running = aside.all_running(manager.tree.root)
    open_ones = [one for one in running if one.agent == holder.key and one.end is None]
    if intent.event == PROMPT:  # a person spoke: what runs in the background runs on
        open_ones = [one for one in open_ones if not one.data.get(BACKGROUND)]
    if not open_ones:
        return ""
    from holdfast.gate.guard import damage, watching

    told = []
    for one in open_ones:
        others = _others(one, running)
        # Of a person nobody hears what it writes itself in so long a time.
        found = [hurt for hurt in watching.hurt(manager, one, others) if hurt.key.startswith("@")]
        _close(one, running, others)
        if found:
            command = one.data.get("command", "")
            id = damage.record(manager, holder, command, found, is_heard=False)
            undo = damage.undoing(id, manager.tree.root, intent.cwd)
            told.append(damage.to_user(undo, holder, found))
    _tidy(manager, [one for one in running if one not in open_ones])
    return "\n".join(told)


def _others(one: Running, running: list[Running]) -> list[Running]:
    """Commands of others that may have changed something while this one ran."""
    from holdfast.gate.guard.watching import is_recent

    return [
        other
        for other in running
        if other is not one
        and other.agent != one.agent
        and other.data.get("unsure")
        and (other.end is not None or is_recent(other))
    ]


def _tidy(manager: LockManager, left: list[Running]) -> None:
    """Take away what nobody needs any more, now that only these are left."""
    assert manager.tree is not None
    if not any(one.end is None for one in left):
        aside.clear(manager.tree.root, "watch")
    gone = aside.sweep(manager.tree.root)
    if gone:
        from holdfast.gate.guard.damage import forget

        forget(manager, gone)


def _close(one: Running, running: list[Running], others: list[Running]) -> None:
    """Nobody has to know of this command any more, but those who were at work meanwhile."""
    unended = [other for other in others if other.end is None]
    aside.finish(one, overlaps=bool(unended) and one.data.get("unsure") is True)
    for other in running:
        # one that ended matters to those who had begun by then
        if other.end is not None and not any(still.at <= other.end for still in unended):
            aside.remove(other.file)
