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
    own        lines that always pass        switches        files that switch the gate off
    abroad     several ledgers at once       caches          what nobody keeps

What this does not promise: a program that writes a file of another agent is not stopped, it is
found out. And it is not found out if the owner did something with the file in the same time.
"""

from __future__ import annotations

from holdfast.gate.intent import QUIET, SHELL, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.model import Holder
    from holdfast.gate.guard.damage import Undone
    from holdfast.gate.intent import Intent
    from holdfast.gate.leases import Gate
    from holdfast.gate.settings import Settings
    from holdfast.gate.shell import Reading
    from holdfast.manager.manager import LockManager

__all__ = [
    "around", "edit_refused", "edited", "is_own", "pending", "plain_writes", "read_line", "settle",
    "undo",
]  # fmt: skip


def around(
    intent: Intent,
    gate: Gate,
    manager: LockManager,
    settings: Settings,
    line: Reading | None = None,
) -> Answer:
    """What there is to say before a command, or after it. `line` is what was read of it, if it was
    read already."""
    before = intent.event == SHELL
    if settings.shell == "off" or manager.tree is None or (before and is_own(intent.command)):
        gate.awake()
        return Answer(QUIET)
    if before:
        from holdfast.gate.guard.before import before as asked

        return asked(intent, gate, manager, line or read_line(intent))
    from holdfast.gate.guard.after import after

    return after(intent, gate, manager)


def settle(intent: Intent, manager: LockManager, holder: Holder) -> str:
    """What a person has to read of an agent's commands of whose end nobody heard, when the agent
    rests, ends, or is spoken to."""
    if manager.tree is None:
        return ""
    from holdfast.gate.guard.after import settle as looked

    return looked(intent, manager, holder)


def read_line(intent: Intent) -> Reading:
    """What a command line writes."""
    from holdfast.gate.shell import read

    return read(intent.command, intent.cwd or "/")


def plain_writes(intent: Intent, manager: LockManager, line: Reading | None = None) -> list[str]:
    """The files of this ledger that a command plainly writes, as absolute paths, and those that its
    git verbs would change, as far as that is known."""
    if manager.tree is None or is_own(intent.command):
        return []
    from holdfast.gate.guard.before import inside

    line = line or read_line(intent)
    writes = list(line.writes)
    if line.trees:
        from holdfast.gate.guard.trees import changes

        for _verb, top, names in changes(line.trees, manager.tree.root):
            writes += [f"{top}/{name}" for name in sorted(names or ())]
    found = inside(writes, manager.tree)
    return [*found.files, *found.folders, *found.ours]


def edit_refused(
    intent: Intent, data: object, manager: LockManager, holder: Holder
) -> Answer | None:
    """The refusal of an edit that would switch the gate off, by what its client said of it; None
    if it would not."""
    from holdfast.gate.guard.switches import edit_refused as refused

    return refused(intent, data, manager, holder)


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


def pending(manager: LockManager, holder: Holder, cwd: str = "") -> str:
    """What an agent, who is in a folder now, has to be told of damage to its files. It is told
    once.

    It costs one failed `stat` if there is nothing.
    """
    if manager.tree is None:
        return ""
    from holdfast.gate.guard import signs

    if not signs.is_called(manager.tree.root, holder.key):
        return ""
    from holdfast.gate.guard.damage import told

    return told(manager, holder, cwd)


def undo(manager: LockManager, id: str) -> Undone:
    """Put back what a command damaged, but nothing that was changed again since.

    Raises NoSuchDamage if nothing of that id is known.
    """
    from holdfast.gate.guard.damage import undo as undone

    return undone(manager, id)
