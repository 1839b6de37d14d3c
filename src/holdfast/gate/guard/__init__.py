"""The shell guard: what happens around a command that an agent runs.

A hook sees a command line, not which files it writes. So there are three nets, one behind another:

    before   files that the line plainly writes are leased like an edit, and may be refused like
             one; a git verb that changes the whole tree is refused if others would lose something
    watched  files that others hold are recorded, with their content
    after    a recorded file that its owner did not change is damage: noted in the ledger, reported
             to both sides, and restored by one command. Other files that changed, and that no
             holder has, are reported and left free

before_command     before a command: whether it may run, and what has to be recorded
after_command      after a command: what changed, and who has to be told
own_commands       lines that only call Holdfast, which always pass
held_by_others     what others hold, and the agent's own state
tree_verbs         which files a git verb on the whole tree would change
git_queries        questions to git with a time limit
switch_files       files that switch the gate off
tool_caches        files that tools leave behind, which no agent keeps
file_watch         files of others before and after a command, compared
kept_files         commands in progress and contents, kept beside the ledger
edit_marks         marks between agents, as small files
ended_commands     one decision at the end of a command
guard_records      the guard's records in the ledger
damage             reporting damage, and undoing it
unclaimed_changes  unleased files that changed
other_ledgers      several ledgers at once

What this does not promise: a program that writes a file of another agent is not stopped, only
detected, and not even that if the owner was at work on the file at the same time. The gate never
guesses who changed a file while a command ran.
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
    """The answer to a command that is about to run, or has ended. `line` is its reading, if it was
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
    """What to tell the user about an agent's commands whose end was not reported, when the agent
    rests, ends, or gets a prompt: to be called when that event has been decided."""
    from holdfast.gate.guard.after_command import settle as looked

    return looked(intent, gate, manager)


def read_line(intent: Intent) -> Reading:
    """What a command line writes. For a call of an MCP tool only its arguments show it, if
    anything does."""
    if intent.tool.startswith(MCP_PREFIX):
        from holdfast.gate.shell.line_writes import Reading

        return Reading(intent.writes, unsure=True)
    from holdfast.gate.shell import read

    return read(intent.command, intent.cwd or "/")


def plain_writes(intent: Intent, manager: Ledger, line: Reading | None = None) -> list[str]:
    """The files of this ledger that a command plainly writes, as absolute paths, and those that its
    git verbs would change, as far as is known."""
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
    """The refusal of an edit that would switch the gate off, judged by its client's data; None
    if it would not."""
    from holdfast.gate.guard.switch_files import edit_refused as refused

    return refused(intent, data, manager, gate)


def is_own(command: str) -> bool:
    """Whether a command line only calls Holdfast itself: such lines always pass."""
    if "holdfast" not in command:
        return False
    from holdfast.gate.guard.own_commands import is_own_line

    return is_own_line(command)


def edited(manager: Ledger, holder: Holder, paths: Iterable[str]) -> None:
    """Note that an agent writes these files itself, now or in a moment: that is no damage.

    To be called around each edit. It costs one failed `open` unless a command watches this agent.
    """
    if manager.tree is not None:
        from holdfast.gate.guard.edit_marks import note_writes

        note_writes(manager.tree.root, holder.key, paths)


def pending(
    manager: Ledger, gate: LeaseGate, cwd: str = "", *, expected: bool = False
) -> Callable[[], str]:
    """What to tell an agent, which works in `cwd`, about damage to its files, once: to be called
    when the event has been decided. `expected`: the decision itself may add to it.

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
    """Restore the files that a command damaged, except those that have changed again since.

    Raises NoSuchDamage if there is no damage with that id.
    """
    from holdfast.gate.guard.damage import undo as undone

    return undone(manager, id)
