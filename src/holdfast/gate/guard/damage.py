"""Damage: a command changed what another agent holds. It is told to both, and can be undone."""

from __future__ import annotations

import os
import stat

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Value
from holdfast.gate.guard import aside, signs
from holdfast.manager import services
from holdfast.manager.ids import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Final

    from holdfast.core.model import Holder
    from holdfast.gate.guard.watching import Hurt
    from holdfast.manager.manager import LockManager

#: The events of it.
DAMAGE = "damage"
TO_BE_TOLD = "damage_to_be_told"
TOLD = "damage_told"
UNDONE = "damage_undone"
FORGOTTEN = "damage_forgotten"

LISTED_MAX = 10


class NoSuchDamage(HoldfastError):
    """Nothing is known of damage with this id."""

    code = "E_NO_DAMAGE"


class Undone(Value):
    """What was put back, and what was left as it is, with the reason."""

    __slots__ = ("id", "left", "restored")

    def __init__(
        self, id: str, restored: tuple[str, ...], left: tuple[tuple[str, str], ...]
    ) -> None:
        self.id: Final = id
        self.restored: Final = restored
        self.left: Final = left


def _name(id: str) -> str:
    return f"damaged:{id}"


def _name_for(key: str, id: str = "") -> str:
    return f"damage-for:{key}:{id}"


# Telling


def record(
    manager: LockManager, by: Holder, command: str, found: Sequence[Hurt], *, is_heard: bool = True
) -> str:
    """Write damage down, keep what can be put back, and call the owners; also the agent whose
    command it was, unless it `is_heard` there at once. Its id."""
    assert manager.tree is not None
    root = manager.tree.root
    id = new_id()[-8:]
    files: list[dict[str, Any]] = []
    for number, one in enumerate(found):
        kept = one.kind == aside.ABSENT or (one.keeps and _set_aside(root, id, number, one.before))
        files.append({
            "path": one.path, "owner": one.owner, "owner_key": one.key, "before": one.before,
            "was": one.kind, "mode": one.mode, "after": one.after, "kept": kept, "number": number,
        })  # fmt: skip
    data = {"id": id, "by": by.id, "by_key": by.key, "command": command, "files": files}
    services.note(manager, DAMAGE, data, name=_name(id))
    owners: dict[str, list[str]] = {}
    for one in found:
        for key in (one.key, one.parent):  # a sub-agent may be gone before it is asked anything
            if key and key != by.key:
                owners.setdefault(key, []).append(one.path)
    if not is_heard:
        owners[by.key] = [f"{one.path} ({one.owner})" for one in found]
    for key, paths in owners.items():
        told = {"id": id, "by": by.id, "command": command, "paths": paths}
        services.note(manager, TO_BE_TOLD, told, name=_name_for(key, id))
        signs.call(root, key)
    return id


def _set_aside(root: str, id: str, number: int, name: str) -> bool:
    target = signs.aside(root, "undo", id, str(number))
    try:
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        with open(signs.aside(root, "kept", name), "rb") as stream:
            aside.put(target, stream.read())
    except OSError:
        return False
    return True


def undoing(id: str, root: str, cwd: str) -> str:
    """The command that undoes it, as somebody types it who is in a folder."""
    if not cwd or f"{cwd}/".startswith(f"{root}/"):
        return f"holdfast undo {id}"
    from shlex import quote

    return f"holdfast -C {quote(root)} undo {id}"


def to_culprit(undo: str, found: Sequence[Hurt]) -> str:
    """For the agent whose command it was."""
    return _to_culprit([f"{one.path} ({one.owner})" for one in found], undo)


def to_user(undo: str, by: Holder, found: Sequence[Hurt]) -> str:
    """For the person whose agent it was."""
    who = ", ".join(sorted({hurt.owner for hurt in found}))
    what = listed([hurt.path for hurt in found])
    return f"holdfast: a command of {by.id} changed what {who} holds: {what}. To undo it: {undo}"


def _to_culprit(files: Sequence[str], undo: str) -> str:
    return (
        "While your command ran, files were changed that other agents are working on: "
        f"{listed(files)}. "
        f"Put them back now with: {undo}\n"
        "Then do it again in a way that touches only your own files."
    )


def told(manager: LockManager, holder: Holder, cwd: str) -> str:
    """What an owner, who is in a folder now, has not heard yet."""
    assert manager.tree is not None
    root = manager.tree.root
    signs.answer_call(root, holder.key)  # first: a call from now on is a new one
    texts = []
    for event in services.notes(manager, _name_for(holder.key)):
        undo = undoing(event.data["id"], root, cwd)
        mine = event.data["by"] == holder.id
        texts.append(
            _to_culprit(event.data["paths"], undo) if mine else _to_owner(event.data, undo)
        )
        services.note(
            manager, TOLD, {"id": event.data["id"], "agent": holder.id},
            name=event.data["note"], over=True,
        )  # fmt: skip
    return "\n".join(texts)


def _to_owner(data: Mapping[str, Any], undo: str) -> str:
    return (
        f"While {data['by']} ran `{data['command']}`, what you hold was changed: "
        f"{listed(data['paths'])}. Look at it before you edit it again. What was there before "
        f"comes back, unless it has changed again since, with: {undo}"
    )


def listed(items: Sequence[str]) -> str:
    more = len(items) - LISTED_MAX
    return ", ".join(items[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


# Undoing


def undo(manager: LockManager, id: str) -> Undone:
    """Put back what can be put back. What changed again is left, and can be tried again."""
    event = services.noted(manager, _name(id)) if id.isalnum() else None
    if event is None or manager.tree is None:
        raise NoSuchDamage(
            f"there is no damage {id[:40]!r} to undo",
            hint="it was undone already, or is more than a week old; see: holdfast events",
            id=id[:40],
        )
    restored: list[str] = []
    left: list[tuple[str, str]] = []
    remaining = []
    for one in event.data["files"]:
        why = _put_back(manager.tree.root, id, one)
        if why:
            left.append((one["path"], why))
            remaining.append(one)
        else:
            restored.append(one["path"])
    data = {**event.data, "files": remaining, "restored": restored}
    data.pop("note", None)
    services.note(manager, UNDONE, data, name=_name(id), over=not remaining)
    return Undone(id, tuple(restored), tuple(left))


def _put_back(root: str, id: str, one: Mapping[str, Any]) -> str:
    """Put one file back; why it was not, if it was not."""
    file = f"{root}/{one['path'].removeprefix('./')}"
    if not one["kept"]:
        return (
            "its content was too large to be kept" if one["was"] == aside.FILE else "it was no file"
        )
    now = aside.name_of(file)
    if now == one["before"] or (now == aside.ABSENT == one["was"]):
        return ""
    if now != one["after"]:
        return "it has been changed again since"
    if now == aside.OTHER:
        return "something is there now that is no file"
    try:
        _save_present(root, id, one["number"], file)
        if one["was"] == aside.ABSENT:
            os.unlink(file)
            return ""
        with open(signs.aside(root, "undo", id, str(one["number"])), "rb") as stream:
            content = stream.read()
        _replace(root, file, content, one["mode"])
    except FileNotFoundError:
        return "what was kept of it is gone"
    except OSError as error:
        return f"it cannot be written: {error.strerror or type(error).__name__}"
    return ""


def _save_present(root: str, id: str, number: int, file: str) -> None:
    """What is replaced is kept as well: the undoing may have been the mistake."""
    content = aside.content_of(file)
    if content is not None and not os.path.islink(file):
        aside.put(signs.aside(root, "undo", id, f"{number}.replaced"), content)


def _replace(root: str, file: str, content: bytes, mode: int) -> None:
    from holdfast.gate.replacing import Moved, replacement

    if os.path.islink(file):
        os.unlink(file)
    names = tuple(file[len(root) + 1 :].split("/"))
    one = replacement(root, names, alone=False)
    try:
        one.prepare(content)
        one.commit()
        one.settle()
    except Moved as error:
        raise NotADirectoryError(20, "its folder is not what it was") from error
    finally:
        one.close()
    if stat.S_IMODE(os.lstat(file).st_mode) != mode:
        os.chmod(file, mode)


def forget(manager: LockManager, ids: Sequence[str]) -> None:
    """What was kept of these is gone: there is nothing to undo any more."""
    for id in ids:
        if services.noted(manager, _name(id)) is not None:
            services.note(manager, FORGOTTEN, {"id": id}, name=_name(id), over=True)
