"""Before a command: what others hold is remembered. After it: what of that has changed.

A change counts as damage if the lease is still its owner's and the owner cannot have made it: it
neither wrote this file meanwhile, nor ran a command of which nobody knows what it writes. Who made
it is not known: it may have been the command, a person, or a program that was left running. What is
changed while its owner is busy itself is no damage.
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
#: A command of which nothing was heard for so long has ended without a word.
SILENT_NS = 600 * 10**9


def call_of(holder: Holder, command: str) -> str:
    """What a command has in common before and after it ran."""
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
    """A command is about to run. `fleeting` are files that it makes and removes again."""
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
            watched[one.key] = edit_marks.watch(root, one.key)
        kind, stamp, name, keeps = kept.remember(one.path, one.file)
        files.append([
            one.path, one.file, one.grant, one.owner, one.key, one.parent,
            kind, stamp, name, keeps,
        ])  # fmt: skip
    kept.done()
    data["files"] = files
    data["watched"] = watched
    kept_files.begin(root, call_of(holder, command), data)


def this(running: list[Running], holder: Holder, command: str) -> Running | None:
    """The last one of this agent with this command. Several may run at once, and of an earlier
    one that was broken off nothing was ever heard."""
    call = f"{call_of(holder, command)}-"
    for one in reversed(running):
        if one.file.rpartition("/")[2].startswith(call):
            return one
    return None


def withdraw(root: str, holder: Holder, command: str) -> None:
    """A command that was about to run will not."""
    one = this(kept_files.all_running(root), holder, command)
    if one is not None:
        kept_files.remove(one.file)


def shown(command: str) -> str:
    """A command for people to recognise: one line, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in command).split())
    most = COMMAND_CHARACTERS_MAX
    return line if len(line) <= most else f"{line[: most - 1]}…"


class Hurt(Value):
    """A file that changed while a command ran and another held it; as it was, and as it is."""

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


def hurt(manager: Ledger, one: Running, running: Iterable[Running]) -> list[Hurt]:
    """What of others has changed since a command began, and was not changed by its owner. Whether
    it is still its owner's only the ledger knows."""
    changed = [
        entry
        for entry in one.data.get("files", ())
        if kept_files.has_changed(entry[1], entry[6], entry[7], entry[8])
    ]
    if not changed:
        return []
    busy = {other.agent for other in running if other.data.get("unsure") and is_recent(other)}
    return [
        Hurt(entry, kept_files.name_of(entry[1]))
        for entry in changed
        if not _is_its_own(manager, entry, one, busy)
    ]


def is_recent(one: Running) -> bool:
    """Whether a command can be in progress still."""
    return one.at > time_ns() - SILENT_NS


def _is_its_own(manager: Ledger, entry: list[Any], one: Running, busy: set[str]) -> bool:
    """Whether the owner of a file may have changed it itself. In doubt it did."""
    path, key = entry[0], entry[4]
    assert manager.tree is not None
    root = manager.tree.root
    if key in busy or key not in one.data["watched"]:
        return True
    written = edit_marks.seen(root, key, *one.data["watched"][key])
    if written is None or edit_marks.ANYTHING in written:
        return True
    for text in written:
        try:
            if manager.tree.place(text).path == path:
                return True
        except HoldfastError:
            continue
    return False
