"""The shell guard: what happens around a command that an agent runs.

A hook sees a command line, not what it writes. So there are three nets, one behind the other:

    before   what the line plainly writes is leased like an edit, and may be refused like one;
             a git verb that changes the whole tree is refused if others would lose something
    watched  what others hold is remembered, with its content
    after    what of it was changed by nobody who may is damage: written down, told to both sides,
             and put back by one command. What else changed and nobody holds is told, and left free

    held       what others hold              trees, asking   what git verbs would change
    aside      files kept beside the ledger  watching        before and after, compared
    ending     one decision at the end       records         what is written into the ledger
    damage     telling of it, and undoing it unclaimed       what changed and nobody holds
    own        lines that always pass        switches        files that switch the gate off
    abroad     several ledgers at once       caches          what nobody keeps

What this does not promise: a program that writes a file of another agent is not stopped, it is
found out. And it is not found out if the owner did something with the file in the same time. Who
changed something while a command ran is never guessed.
"""

from __future__ import annotations

from holdfast.gate.intent import MCP_PREFIX, SHELL, Answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.model import Holder
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.guard.damage import Undone
    from holdfast.gate.intent import Intent
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.gate.shell import Reading
    from holdfast.manager.ledger import Ledger

__all__ = [
    "around", "edit_refused", "edited", "is_own", "pending", "plain_writes", "read_line", "settle",
    "undo",
]  # fmt: skip


def around(
    intent: Intent,
    gate: LeaseGate,
    manager: Ledger,
    settings: Settings,
    line: Reading | None = None,
) -> Answer:
    """What there is to say before a command, or after it. `line` is what was read of it, if it was
    read already."""
    before = intent.event == SHELL
    is_off = settings.shell == "off" and not intent.tool.startswith(MCP_PREFIX)
    off = is_off or manager.tree is None
    if before and not off and not is_own(intent.command):
        from holdfast.gate.guard.before_command import before as asked

        return asked(intent, gate, manager, line or read_line(intent))
    if before and is_own(intent.command):
        from holdfast.gate.guard.before_command import before_own

        return before_own(intent, gate, manager)
    if before:  # the guard is switched off
        block = gate.blocked()
        if block is not None and not (line or read_line(intent)).only_reads:
            return block
    if off:
        return gate.live_on(is_tail=not before)
    from holdfast.gate.guard.after_command import after

    return after(intent, gate, manager)


def settle(intent: Intent, gate: LeaseGate, manager: Ledger) -> Callable[[], str]:
    """What a person has to read of an agent's commands of whose end nobody heard, when the agent
    rests, ends, or is spoken to: to be asked for when that event has been decided."""
    from holdfast.gate.guard.after_command import settle as looked

    return looked(intent, gate, manager)


def read_line(intent: Intent) -> Reading:
    """What a command line writes. Of a call of an MCP tool its arguments tell, as far as anything
    does."""
    if intent.tool.startswith(MCP_PREFIX):
        from holdfast.gate.shell.line_writes import Reading

        return Reading(intent.writes, unsure=True)
    from holdfast.gate.shell import read

    return read(intent.command, intent.cwd or "/")


def plain_writes(intent: Intent, manager: Ledger, line: Reading | None = None) -> list[str]:
    """The files of this ledger that a command plainly writes, as absolute paths, and those that its
    git verbs would change, as far as that is known."""
    if manager.tree is None or is_own(intent.command):
        return []
    from holdfast.gate.guard.before_command import inside

    line = line or read_line(intent)
    writes = list(line.writes)
    if line.trees:
        from holdfast.gate.guard.tree_verbs import changes

        for _verb, top, names in changes(line.trees, manager.tree.root):
            writes += [f"{top}/{name}" for name in sorted(names or ())]
    found = inside(writes, manager.tree)
    return [*found.files, *found.folders, *found.ours]


def edit_refused(intent: Intent, data: object, manager: Ledger, gate: LeaseGate) -> Answer | None:
    """The refusal of an edit that would switch the gate off, by what its client said of it; None
    if it would not."""
    from holdfast.gate.guard.switch_files import edit_refused as refused

    return refused(intent, data, manager, gate)


def is_own(command: str) -> bool:
    """Whether a command line is nothing but calls of Holdfast itself: those always pass."""
    if "holdfast" not in command:
        return False
    from holdfast.gate.guard.own_commands import is_own_line

    return is_own_line(command)


def edited(manager: Ledger, holder: Holder, paths: Iterable[str]) -> None:
    """An agent writes these files by itself, now or in a moment: that is no damage.

    To be called around each edit. It costs one failed `open` unless somebody is watched.
    """
    if manager.tree is not None:
        from holdfast.gate.guard.edit_marks import sign

        sign(manager.tree.root, holder.key, paths)


def pending(
    manager: Ledger, gate: LeaseGate, cwd: str = "", *, expected: bool = False
) -> Callable[[], str]:
    """What an agent, who is in a folder now, has to be told of damage to its files, once: to be
    asked for when the event has been decided. `expected`: what is decided before may add to it.

    It costs one failed `stat` if there is nothing.
    """
    from holdfast.gate.guard import edit_marks

    if manager.tree is None:
        return str
    if not expected and not edit_marks.is_called(manager.tree.root, gate.holder.key):
        return str
    from holdfast.gate.guard.damage import told

    return told(manager, gate, cwd)


def undo(manager: Ledger, id: str) -> Undone:
    """Put back what a command damaged, but nothing that was changed again since.

    Raises NoSuchDamage if nothing of that id is known.
    """
    from holdfast.gate.guard.damage import undo as undone

    return undone(manager, id)
