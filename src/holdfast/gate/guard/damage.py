"""Damage: while a command ran, a file of another holder changed. Both are told; it can be undone.

It is not known whether the command did it: a person may have saved the file at the same time.
"""

from __future__ import annotations

import os
import stat

from holdfast.core.errors import HoldfastError, RecordVersionError
from holdfast.core.model import Value
from holdfast.gate.guard import edit_marks, guard_records, kept_files
from holdfast.gate.guard.ended_commands import Ended
from holdfast.gate.guard.guard_records import (
    Damage,
    DamagedFile,
    Told,
    damage_name,
    told_name,
)
from holdfast.manager import transactions
from holdfast.manager.ids import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final

    from holdfast.core.draft import Draft
    from holdfast.core.model import Holder
    from holdfast.gate.guard.ended_commands import Facts, Outcome
    from holdfast.gate.guard.file_watch import ChangedFile
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.manager.ledger import Ledger

LISTED_MAX = 10


class NoSuchDamage(HoldfastError):
    """There is no damage with this id."""

    code = "E_NO_DAMAGE"


class Undone(Value):
    """Which files were restored, and which were left as they are, with the reason."""

    __slots__ = ("id", "left", "restored")

    def __init__(
        self, id: str, restored: tuple[str, ...], left: tuple[tuple[str, str], ...]
    ) -> None:
        self.id: Final = id
        self.restored: Final = restored
        self.left: Final = left


# Telling


def set_aside(root: str, command: str, found: Sequence[ChangedFile]) -> Ended:
    """A command that ended, and the files of others that changed; their old content is kept."""
    id = new_id()[-8:]
    files = []
    for number, one in enumerate(found):
        kept = one.kind == kept_files.ABSENT or (one.keeps and _kept(root, id, number, one.before))
        files.append(
            DamagedFile(
                path=one.path, owner=one.owner, owner_key=one.key, was=one.kind, mode=one.mode,
                before=one.before, after=one.after, kept=kept, number=number,
            )
        )  # fmt: skip
    return Ended(id, command, found, files)


def _kept(root: str, id: str, number: int, name: str) -> bool:
    target = edit_marks.guard_path(root, "undo", id, str(number))
    try:
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        with open(edit_marks.guard_path(root, "kept", name), "rb") as stream:
            kept_files.put(target, stream.read())
    except OSError:
        return False
    return True


def call(root: str, facts: Facts, outcome: Outcome) -> None:
    """Notify the agents concerned, and keep no content for changes that are no damage after all."""
    for key in outcome.called:
        edit_marks.call_agent(root, key)
    damages = {one.id for one in outcome.damages}
    for one in facts.ended:
        if one.id not in damages:
            kept_files.discard(root, one.id)


def undoing(id: str, root: str, cwd: str) -> str:
    """The command that undoes it, as typed in `cwd`."""
    if not cwd or f"{cwd}/".startswith(f"{root}/"):
        return f"holdfast undo {id}"
    from shlex import quote

    return f"holdfast -C {quote(root)} undo {id}"


def to_user(undo: str, damage: Damage) -> str:
    """For the user whose agent ran the command."""
    who = ", ".join(sorted({file.owner for file in damage.files}))
    what = listed([file.path for file in damage.files])
    return (
        f"holdfast: while a command of {damage.by} ran, files that {who} holds were changed: "
        f"{what}. If the command changed them, undo it with: {undo}"
    )


def with_owners(damage: Damage) -> list[str]:
    """The files, each with its holder."""
    return [f"{file.path} ({file.owner})" for file in damage.files]


def to_agent(undo: str, files: Sequence[str]) -> str:
    """For the agent whose command ran."""
    return (
        f"While your command ran, files that others hold were changed: {listed(files)}. "
        f"If your command changed them, restore them now with: {undo}\n"
        "Then run it again in a way that touches only your own files. If it did not change them, "
        "leave them alone."
    )


def _to_owner(record: Told, undo: str) -> str:
    return (
        f"While {record.by} ran `{record.command}`, files that you hold were changed: "
        f"{listed(record.paths)}. It is not known whether that command changed them. Read them "
        "before you edit them again. To restore those that have not changed again since, run: "
        f"{undo}"
    )


def told(manager: Ledger, gate: LeaseGate, cwd: str) -> Callable[[], str]:
    """What to tell an agent, which works in `cwd`, about damage that it has not heard of yet: to
    files that it holds, or perhaps by its own command. To be called when its event was decided."""
    assert manager.tree is not None
    root = manager.tree.root
    which = edit_marks.which_call(root, gate.holder.key)
    heard: list[list[tuple[Told | RecordVersionError, bool]]] = []

    def part(draft: Draft, holder: Holder) -> None:
        heard[:] = [_heard(draft, holder)]

    gate.also(part)

    def said() -> str:
        if not heard:  # nothing was decided: the agent is told another time
            return ""
        edit_marks.answer_call(root, gate.holder.key, which)
        texts = []
        for record, mine in heard[0]:
            if isinstance(record, RecordVersionError):
                texts.append(f"holdfast: {record.message}. {record.hint}")
                continue
            undo = undoing(record.id, root, cwd)
            texts.append(to_agent(undo, record.paths) if mine else _to_owner(record, undo))
        return "\n".join(texts)

    return said


def _heard(draft: Draft, holder: Holder) -> list[tuple[Told | RecordVersionError, bool]]:
    """All that an agent has not heard yet, each with whether its own command was involved. Marks
    these as heard, except records that only a newer version can read."""
    found: list[tuple[Told | RecordVersionError, bool]] = []
    for event in draft.notes(told_name(holder.key)):
        try:
            record = Told.of(event)
            by_key = record.by_key or _by_key(draft, record.id)
        except RecordVersionError as error:
            found.append((error, False))
            continue
        found.append((record, by_key == holder.key))
        data = {"id": record.id, "agent": holder.id}
        draft.say(guard_records.TOLD, data, name=told_name(holder.key, record.id), over=True)
    return found


def _by_key(draft: Draft, id: str) -> str:
    """Whose command it was, from the damage itself; empty if that was undone or forgotten."""
    event = draft.note(damage_name(id))
    return Damage.of(event).by_key if event is not None else ""


def listed(items: Sequence[str]) -> str:
    more = len(items) - LISTED_MAX
    return ", ".join(items[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


# Undoing


def undo(manager: Ledger, id: str) -> Undone:
    """Restore the files that can be restored. The others are left, and can be tried again."""
    event = transactions.noted(manager, damage_name(id)) if id.isalnum() else None
    if event is None or manager.tree is None:
        raise NoSuchDamage(
            f"there is no damage {id[:40]!r} to undo",
            hint="it was already undone, or is more than a week old; see: holdfast log",
            id=id[:40],
        )
    damage = Damage.of(event)
    restored: list[str] = []
    left: list[tuple[str, str]] = []
    remaining = []
    for one in damage.files:
        why = _put_back(manager.tree.root, id, one)
        if why:
            left.append((one.path, why))
            remaining.append(one)
        else:
            restored.append(one.path)
    data = {**damage.with_files(remaining).to_data(), "restored": restored}
    transactions.note(manager, guard_records.UNDONE, data, name=damage_name(id), over=not remaining)
    return Undone(id, tuple(restored), tuple(left))


def _put_back(root: str, id: str, one: DamagedFile) -> str:
    """Restore one file; the reason if that is not possible, else empty."""
    file = f"{root}/{one.path.removeprefix('./')}"
    if not one.kept:
        return (
            "its content was too large to be kept"
            if one.was == kept_files.FILE
            else "it was not a regular file"
        )
    now = kept_files.name_of(file)
    if now == one.before or (now == kept_files.ABSENT == one.was):
        return ""
    if now != one.after:
        return "it has changed again since"
    if now == kept_files.OTHER:
        return "it is no longer a regular file"
    try:
        _save_present(root, id, one.number, file)
        if one.was == kept_files.ABSENT:
            os.unlink(file)
            return ""
        with open(edit_marks.guard_path(root, "undo", id, str(one.number)), "rb") as stream:
            content = stream.read()
        _replace(root, file, content, one.mode)
    except FileNotFoundError:
        return "its saved content is gone"
    except OSError as error:
        return f"it cannot be written: {error.strerror or type(error).__name__}"
    return ""


def _save_present(root: str, id: str, number: int, file: str) -> None:
    """Keep the content that is about to be replaced: the undo itself may be the mistake."""
    content = kept_files.content_of(file)
    if content is not None and not os.path.islink(file):
        kept_files.put(edit_marks.guard_path(root, "undo", id, f"{number}.replaced"), content)


def _replace(root: str, file: str, content: bytes, mode: int) -> None:
    from holdfast.gate.replacement import Moved, replacement

    if os.path.islink(file):
        os.unlink(file)
    names = tuple(file[len(root) + 1 :].split("/"))
    one = replacement(root, names, alone=False)
    try:
        one.prepare(content)
        one.commit()
        one.settle()
    except Moved as error:
        raise NotADirectoryError(20, "its folder was replaced") from error
    finally:
        one.close()
    if stat.S_IMODE(os.lstat(file).st_mode) != mode:
        os.chmod(file, mode)
