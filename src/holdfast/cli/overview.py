"""`holdfast` alone: the state of this repository, and what to do next."""

from __future__ import annotations

import os

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext, is_repository
from holdfast.cli.dispatch.task_left import sentence
from holdfast.cli.guarding.person import person
from holdfast.cli.locking.status import caller, headline, look
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import colours, document, listed, out, plain, quoted
from holdfast.cli.terminal.tables import terminal_width
from holdfast.core.keys import INODE, kind
from holdfast.gate.install.install_plan import installed
from holdfast.gate.install.install_record import load
from holdfast.gate.rulebook.file_states import BLOCKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.core.model import Grant
    from holdfast.gate.people.ledger_picture import Picture

    #: A command, and what it is for.
    Steps = list[tuple[str, str]]

_WHAT_IT_IS = "holdfast: many agents and people, one repository, locks that hold."
_UNGUARDED = "not guarded: agents write here without a lease"
_INIT = ("holdfast init", "guard this repository: no agent writes a file that another holds")
_LOCK = ("holdfast lock PATH", "lock a file for writing")
_HELP = ("holdfast help", "list all commands")
_DEMO = ("holdfast demo", "watch agents do a list of tasks in a made-up repository")
#: So many paths are named in the command that releases them; more are named by their grant.
_NAMED_MAX = 3


def overview(call: Call) -> int:
    """Show it. A repository without a ledger is no error, nor is a folder in no repository."""
    context = CommandContext(call)
    root = context.root()
    if not context.store and not is_repository(root):
        return _outside(call, root)
    picture, left = look(context)
    me = caller(context)
    own = [
        grant for grant, ended, _until in picture.grants
        if me is not None and grant.holder.key == me.key and not ended
    ]  # fmt: skip
    guarded = _guarded(root)
    steps = _steps(context, picture, own, is_guarded=bool(guarded))
    if call.flag("json"):
        document({
            "root": picture.root or root, "in_repository": True, "ledger": bool(picture.store),
            "guarded": guarded, "locks": len(picture.grants),
            "waiting": len(picture.waiting) + len(picture.strays),
            "blocked": len(picture.of(BLOCKED)), "own": [_own_data(grant) for grant in own],
            "unfinished": left, **_steps_data(steps),
        })  # fmt: skip
        return DONE
    lines = [headline(picture, terminal_width(), colours(), always_in=picture.root or root)]
    if picture.off is not None:
        lines.append(plain(picture.off.sentence()))
    else:
        lines.append(f"guarded: {listed(guarded)}" if guarded else _UNGUARDED)
    if own:
        lines.append(f"yours: {listed(path for grant in own for path in _paths(grant))}")
    lines += map(sentence, left)
    out("\n".join([*lines, "", *_shown(steps)]))
    return DONE


def _outside(call: Call, folder: str) -> int:
    steps = [_INIT, _LOCK, _DEMO, _HELP]
    if call.flag("json"):
        document({"root": None, "in_repository": False, **_steps_data(steps)})
        return DONE
    told = f"{plain(folder)} is in no repository. Go to one, and run one of these:"
    out("\n".join([_WHAT_IT_IS, "", told, *_shown(steps)]))
    return DONE


def _guarded(root: str) -> list[str]:
    """The clients that have our hooks, and git if it has them."""
    return [one.title for one in installed(root)] + ["git"] * load(root).git


def _steps(
    context: CommandContext,
    picture: Picture,
    own: list[Grant],
    *,
    is_guarded: bool,
) -> Steps:
    """What to do next: first what needs attention, then what is usual. An agent is not shown
    commands that only a person may use."""
    is_person = _is_person()
    steps: Steps = []
    if picture.of(BLOCKED):
        steps.append(("holdfast blockers", "see which agents are blocked, and by which holder"))
    if picture.off is not None and is_person:
        steps.append(("holdfast on", "guard again"))
    if not is_guarded and is_person:
        steps.append(_INIT)
    if picture.grants or picture.waiting or picture.strays:
        steps.append(("holdfast status", "see who holds what, since when and why"))
    if own:
        steps.append((_unlock(context, picture, own), "release what is yours"))
    else:
        steps.append(_LOCK)
    return [*steps, _HELP]


def _is_person() -> bool:
    try:
        person("", "", at_a_terminal=False)
    except UsageError:
        return False
    return True


def _unlock(context: CommandContext, picture: Picture, own: list[Grant]) -> str:
    """The command that releases the caller's grants, from the folder it is in."""
    names = [path for grant in own for path in _paths(grant)]
    if len(names) > _NAMED_MAX:
        names = [grant.id for grant in own]
    elif picture.root:
        names = [_from(context.folder, picture.root, name) for name in names]
    return "holdfast unlock PATH" if len(names) > _NAMED_MAX else f"holdfast unlock {quoted(names)}"


def _from(folder: str, root: str, path: str) -> str:
    if kind(path) != "path":
        return path
    found = os.path.relpath(os.path.join(root, path), folder)
    is_plain = kind(found) == "path" and not found.startswith("-")
    return found if is_plain else f"./{found}"


def _paths(grant: Grant) -> list[str]:
    return [path for key, path in zip(grant.keys, grant.paths, strict=True) if kind(key) != INODE]


def _own_data(grant: Grant) -> dict[str, Any]:
    return {"id": grant.id, "paths": _paths(grant)}


def _steps_data(steps: Steps) -> dict[str, Any]:
    return {"next": [{"command": command, "does": does} for command, does in steps]}


def _shown(steps: Steps) -> list[str]:
    width = max(len(command) for command, _does in steps)
    return [f"  {command:<{width}}  {does}" for command, does in steps]
