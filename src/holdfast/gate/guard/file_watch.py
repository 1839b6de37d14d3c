"""Before a command: record the files that others hold. After it: find those that have changed.

A change counts as damage if the owner still has the lease and cannot have made the change: it
neither wrote this file meanwhile, nor ran a command whose writes are unknown. It is not known what
made the change: the command, a person, or a program that was left running. A file that changes
while its owner is busy itself is not damaged.
"""

from __future__ import annotations

from time import time_ns

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Value
from holdfast.gate import pending_writes
from holdfast.gate.guard import edit_marks, kept_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, Final

    from holdfast.core.model import Holder
    from holdfast.gate.guard.held_by_others import Held
    from holdfast.gate.guard.kept_files import Running
    from holdfast.manager.ledger import Ledger

WATCHED_MAX = 500
COMMAND_CHARACTERS_MAX = 200
#: A command without any event for so long has ended without a report.
SILENT_NS = 600 * 10**9


def call_of(holder: Holder, command: str) -> str:
    """What identifies a command both before and after it ran."""
    return edit_marks.digest(f"{holder.key}\0{command}")


def remember(
    root: str,
    holder: Holder,
    command: str,
    others: Iterable[Held],
    *,
    unsure: bool,
    fleeting: Sequence[str] = (),
) -> None:
    """Record a command that is about to run. It makes and removes the files in `fleeting`."""
    data: dict[str, Any] = {
        "at": time_ns(), "agent": holder.key, "unsure": unsure, "command": shown(command),
        "fleeting": list(fleeting),
    }  # fmt: skip
    kept = kept_files.Kept(root)
    files: list[list[Any]] = []
    watched: dict[str, tuple[int, int]] = {}
    for one in others:
        if not one.writes or one.folder or len(files) >= WATCHED_MAX:
            continue
        if pending_writes.is_busy(root, one.key, one.keys):
            continue  # its owner is in the middle of writing it
        if one.key not in watched:
            watched[one.key] = edit_marks.watch_owner(root, one.key)
        kind, stamp, name, keeps = kept.remember(one.path, one.file)
        files.append([
            one.path, one.file, one.grant, one.owner, one.key, one.parent,
            kind, stamp, name, keeps,
        ])  # fmt: skip
    kept.done()
    data["files"] = files
    data["watched"] = watched
    kept_files.begin(root, call_of(holder, command), data)


def latest_running(running: list[Running], holder: Holder, command: str) -> Running | None:
    """The latest command of this agent with this text. Several may run at once, and the end of an
    earlier one that was interrupted was never reported."""
    call = f"{call_of(holder, command)}-"
    for one in reversed(running):
        if one.file.rpartition("/")[2].startswith(call):
            return one
    return None


def withdraw(root: str, holder: Holder, command: str) -> None:
    """Forget a command that was about to run and will not."""
    one = latest_running(kept_files.all_running(root), holder, command)
    if one is not None:
        kept_files.remove(one.file)


def shown(command: str) -> str:
    """A command as people can recognise it: one line, shortened."""
    line = " ".join("".join(c if c.isprintable() else " " for c in command).split())
    most = COMMAND_CHARACTERS_MAX
    return line if len(line) <= most else f"{line[: most - 1]}…"


class ChangedFile(Value):
    """A file that changed while a command ran and another agent held it: before, and after."""

    __slots__ = ("after", "before", "file", "grant", "keeps", "key", "kind", "mode", "owner",
                 "parent", "path")  # fmt: skip

    def __init__(self, entry: list[Any], after: str) -> None:
        self.path: Final[str] = entry[0]
        self.file: Final[str] = entry[1]
        self.grant: Final[str] = entry[2]
        self.owner: Final[str] = entry[3]
        self.key: Final[str] = entry[4]
        self.parent: Final[str] = entry[5]
        self.kind: Final[str] = entry[6]
        self.mode: Final[int] = entry[7][4] & 0o7777 if entry[7] else 0o644
        self.before: Final[str] = entry[8]
        self.keeps: Final[bool] = entry[9]
        self.after: Final = after


def changed_files(manager: Ledger, one: Running, running: Iterable[Running]) -> list[ChangedFile]:
    """Files of others that have changed since a command began, and not by their owner. Whether the
    owner still holds them only the ledger knows."""
    changed = [
        entry
        for entry in one.data.get("files", ())
        if kept_files.has_changed(entry[1], entry[6], entry[7], entry[8])
    ]
    if not changed:
        return []
    busy = {other.agent for other in running if other.data.get("unsure") and is_recent(other)}
    return [
        ChangedFile(entry, kept_files.name_of(entry[1]))
        for entry in changed
        if not _is_its_own(manager, entry, one, busy)
    ]


def is_recent(one: Running) -> bool:
    """Whether a command may still be in progress."""
    return one.at > time_ns() - SILENT_NS


def _is_its_own(manager: Ledger, entry: list[Any], one: Running, busy: set[str]) -> bool:
    """Whether the owner of a file may have changed it itself. If in doubt, yes."""
    path, key = entry[0], entry[4]
    assert manager.tree is not None
    root = manager.tree.root
    if key in busy or key not in one.data["watched"]:
        return True
    written = edit_marks.noted_writes(root, key, *one.data["watched"][key])
    if written is None or edit_marks.ANYTHING in written:
        return True
    for text in written:
        try:
            if manager.tree.place(text).path == path:
                return True
        except HoldfastError:
            continue
    return False
