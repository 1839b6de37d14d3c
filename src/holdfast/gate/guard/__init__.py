"""The shell guard: what happens around a command that an agent runs.

A hook sees a command line, not what it writes. So there are three nets, one behind the other:

    before   what the line plainly writes is leased like an edit, and may be refused like one;
             a git verb that changes the whole tree is refused if others would lose something
    watched  what others hold is remembered, with its content
    after    what of it was changed by nobody who may is damage: written down, told to both sides,
             and put back by one command. What else the command changed is its agent's, if free

    held       what others hold              trees, asking   what git verbs would change
    aside      files kept beside the ledger  watching        before and after, compared
    leasing    what a command changed        damage          telling of it, and undoing it
    own        lines that always pass, and files that switch the gate off

What this does not promise: a program that writes a file of another agent is not stopped, it is
found out. And it is not found out if the owner did something with the file in the same time.
"""

from __future__ import annotations

from holdfast.gate.intent import DENY, QUIET, SHELL, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.model import Holder
    from holdfast.gate.guard.damage import Undone
    from holdfast.gate.intent import Intent
    from holdfast.gate.leases import Gate
    from holdfast.gate.settings import Settings
    from holdfast.manager.manager import LockManager

__all__ = ["around", "edited", "is_own", "pending", "plain_writes", "undo"]

NO_ENFORCE = (
    'E_SETTINGS: gate.shell = "enforce" is set in holdfast.toml, but a hook cannot put a command '
    'into a sandbox, so no command is let through. Set gate.shell = "guard", and run what must be '
    "confined with: holdfast run --sandbox"
)


def around(intent: Intent, gate: Gate, manager: LockManager, settings: Settings) -> Answer:
    """What there is to say before a command, or after it."""
    before = intent.event == SHELL
    if settings.shell == "off" or manager.tree is None or (before and is_own(intent.command)):
        gate.awake()
        return Answer(QUIET)
    if before:
        if settings.shell == "enforce":
            return Answer(DENY, NO_ENFORCE, user=f"holdfast: {NO_ENFORCE}")
        from holdfast.gate.guard.before import before as asked

        return asked(intent, gate, manager)
    from holdfast.gate.guard.after import after

    return after(intent, gate, manager)


def plain_writes(intent: Intent, manager: LockManager) -> list[str]:
    """The files of this ledger that a command plainly writes, as absolute paths."""
    if manager.tree is None or is_own(intent.command):
        return []
    from holdfast.gate.guard.before import inside
    from holdfast.gate.shell import read

    found = inside(read(intent.command, intent.cwd or "/").writes, manager.tree)
    return [*found.files, *found.folders, *found.ours]


def is_own(command: str) -> bool:
    """Whether a command line is nothing but calls of Holdfast itself: those always pass."""
    if "holdfast" not in command:
        return False
    from holdfast.gate.guard.own import is_own_line

    return is_own_line(command)


def edited(manager: LockManager, holder: Holder, paths: Iterable[str]) -> None:
    """An agent writes these files by itself, now or in a moment: that is no damage.

    To be called around each edit. It costs one failed `open` unless somebody is watched.
    """
    if manager.tree is not None:
        from holdfast.gate.guard.signs import sign

        sign(manager.tree.root, holder.key, paths)


def pending(manager: LockManager, holder: Holder) -> str:
    """What an agent has to be told of damage to its files. It is told once.

    It costs one failed `stat` if there is nothing.
    """
    if manager.tree is None:
        return ""
    from holdfast.gate.guard import signs

    if not signs.is_called(manager.tree.root, holder.key):
        return ""
    from holdfast.gate.guard.damage import told

    return told(manager, holder)


def undo(manager: LockManager, id: str) -> Undone:
    """Put back what a command damaged, but nothing that was changed again since.

    Raises NoSuchDamage if nothing of that id is known.
    """
    from holdfast.gate.guard.damage import undo as undone

    return undone(manager, id)
