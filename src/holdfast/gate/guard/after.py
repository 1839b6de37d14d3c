"""After a command ran: what it did to others, and what is its agent's from now on.

Nothing is refused here: it has happened.
"""

from __future__ import annotations

from holdfast.gate import busy
from holdfast.gate.guard import aside, signs
from holdfast.gate.intent import QUIET, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.guard.aside import Running
    from holdfast.gate.intent import Intent
    from holdfast.gate.leases import Gate
    from holdfast.manager.manager import LockManager


def after(intent: Intent, gate: Gate, manager: LockManager) -> Answer:
    """What is said when a command has ended, or was left running."""
    assert manager.tree is not None
    gate.awake()
    root = manager.tree.root
    if not intent.background:
        busy.end(root, gate.holder.key)
    running = aside.all_running(root)
    one = _this(running, gate, intent)
    if one is None:
        return Answer(QUIET)
    from holdfast.gate.guard import watching

    if one.data.get("unsure"):
        signs.sign(root, gate.holder.key, (signs.ANYTHING,))
    others = [
        other
        for other in running
        if other is not one
        and other.agent != gate.holder.key
        and other.data.get("unsure")
        and (other.end is not None or watching.is_recent(other))
    ]
    found = watching.hurt(manager, one, others)
    if one.data.get("unsure"):
        from holdfast.gate.guard.leasing import lease

        lease(manager, gate.holder, one, others)
    _close(one, running, others)
    if not any(other.end is None for other in running if other is not one):
        aside.clear(root, "watch")
    gone = aside.sweep(root)
    if not found and not gone:
        return Answer(QUIET)
    from holdfast.gate.guard import damage

    damage.forget(manager, gone)
    if not found:
        return Answer(QUIET)
    id = damage.record(manager, gate.holder, one.data.get("command", ""), found)
    told = damage.to_culprit(id, found)
    who = ", ".join(sorted({hurt.owner for hurt in found}))
    user = (
        f"holdfast: a command of {gate.holder.id} changed what {who} holds: "
        f"{damage.listed([hurt.path for hurt in found])}. To undo it: holdfast undo {id}"
    )
    return Answer(QUIET, user=user, context=told)


def _this(running: list[Running], gate: Gate, intent: Intent) -> Running | None:
    """The last one of this agent with this command. Several may run at once, and of an earlier
    one that was broken off nothing was ever heard."""
    from holdfast.gate.guard.watching import call_of

    call = call_of(gate.holder, intent.command)
    for one in reversed(running):
        if one.end is None and one.file.rpartition("/")[2].startswith(f"{call}-"):
            return one
    return None


def _close(one: Running, running: list[Running], others: list[Running]) -> None:
    """Nobody has to know of this command any more, but those who were at work meanwhile."""
    unended = [other for other in others if other.end is None]
    aside.finish(one, overlaps=bool(unended) and one.data.get("unsure") is True)
    for other in running:
        # one that ended matters to those who had begun by then
        if other.end is not None and not any(still.at <= other.end for still in unended):
            aside.remove(other.file)
