"""`gate.shell = "enforce"`: what is done with a command of which nobody can tell what it writes. It
runs in a sandbox that keeps it from what others hold.

A hook cannot put anybody into a sandbox. But some clients let it change the line that is run: so
the line becomes one that starts the launcher. What cannot be changed like that is refused.

A line of which all is known that it writes needs no sandbox, for that is leased; and nobody needs
one as long as nobody else holds anything.
"""

from __future__ import annotations

import os

from holdfast.core.model import Value
from holdfast.gate import clients, guard
from holdfast.gate.guard.held import look
from holdfast.gate.guard.trees import changes
from holdfast.gate.guard.watching import shown
from holdfast.gate.intent import ALLOW, DENY, QUIET, Answer
from holdfast.gate.sandbox import closing, landlock
from holdfast.gate.sandbox.line import is_too_long, line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from holdfast.core.model import Holder
    from holdfast.gate.guard.held import Held
    from holdfast.gate.intent import Intent
    from holdfast.gate.shell import Reading
    from holdfast.manager.ledger import Ledger

LISTED_MAX = 5
#: Steps of something that was begun: it stops where it must, and goes on from there.
_STEPS = ("--continue", "--skip", "--quit", "--abort", "--edit-todo")


class Closing(Value):
    """What is to be closed for a command: the root of a ledger, and what others hold there.

    `verb` is one of git's that the command calls and of which nobody knows what it will change.
    """

    __slots__ = ("held", "root", "verb")

    def __init__(self, root: str, held: list[Held], verb: str = "") -> None:
        self.root: Final = root
        self.held: Final = held
        self.verb: Final = verb


def to_close(
    intent: Intent, manager: Ledger, holder: Holder, reading: Reading | None
) -> list[Closing]:
    """What of a ledger must be closed for a command: nothing, if all is known that it writes."""
    if manager.tree is None or guard.is_own(intent.command):
        return []
    others = look(manager, holder).others
    if not others:
        return []
    reading, root = reading or guard.read_line(intent), manager.tree.root
    verb = _unknown_verb(reading, root)
    if not reading.unsure and verb is None:
        return []
    return [Closing(root, others, verb or "")]


def _unknown_verb(reading: Reading, root: str) -> str | None:
    """The first of git's verbs of which it is not known what it changes; empty if it may stop
    half-way, None if there is none."""
    found: str | None = None
    for verb, _top, names in changes(reading.trees, root):
        if names is None or verb.verb == "pull":
            if not any(step in verb.argv for step in _STEPS):
                return f"git {verb.verb}"
            found = ""
    return found


def rewritten(said: Answer, intent: Intent, data: object, closings: Sequence[Closing]) -> Answer:
    """The answer with which a command that may run does so in a sandbox; a refusal if it cannot.

    `data` is what the client told.
    """
    if said.kind not in (ALLOW, QUIET):
        return said
    fields = data.get("tool_input") if isinstance(data, dict) else None
    root = closings[0].root
    held = [one for closing in closings for one in closing.held]
    paths = dict.fromkeys(os.path.relpath(one.file, root) for one in held)
    text = line(intent.command, root, paths)
    verbs = [closing.verb for closing in closings if closing.verb]
    why = _half_way(verbs[0]) if verbs else _obstacle(intent, fields, text, held)
    if why or not isinstance(fields, dict):
        return _refused(why, intent, held)
    context = "\n".join(filter(None, (said.context, _told(held))))
    return Answer(
        said.kind, said.reason, user=said.user, context=context, report=said.report,
        input={**fields, "command": text},
    )  # fmt: skip


def _half_way(verb: str) -> str:
    instead = "name the branch, the commit or the files"
    if verb == "git pull":
        instead = "run `git fetch` first, then `git merge` or `git rebase`"
    return (
        f"nobody knows which files `{verb}` would change, and it would stop half-way at the first "
        f"that it must not; {instead}, so that it is known"
    )


def _obstacle(intent: Intent, fields: object, text: str, held: Sequence[Held]) -> str:
    """Why a command cannot run in a sandbox; empty if it can."""
    adapter = clients.adapter(intent.client)
    if intent.tool not in getattr(adapter, "REWRITES", ()) or not isinstance(fields, dict):
        return f"the line of a {intent.tool or 'tool'} cannot be changed by a hook"
    if not isinstance(fields.get("command"), str):
        return "it is no line of a shell"
    if "\0" in text or clients.is_broken(text) or is_too_long(text):
        return "the line is too long, or has characters in it that no shell takes"
    lacking = landlock.support().lacks
    if lacking:
        return lacking
    for one in held:
        try:
            if not one.folder and os.lstat(one.file).st_nlink > 1:
                return f"{one.path} has other names (hard links), which would stay open"
        except OSError:
            continue  # it is not there yet, so it has no other names
    return ""


def _refused(why: str, intent: Intent, held: Sequence[Held]) -> Answer:
    told = (
        'Refused: gate.shell = "enforce" is set in holdfast.toml, and this command cannot be kept '
        f"in a sandbox: {why}. Others hold {_listed(held)}. Run it when they have given that "
        'back, or name what it writes in the line itself. A person can set gate.shell = "guard".'
    )
    return Answer(DENY, told, user=f"holdfast: `{shown(intent.command)}`: {told}")


def _told(held: Sequence[Held]) -> str:
    folders = closing.ways(closing.real(one.file) for one in held)
    return (
        "holdfast: this command runs in a sandbox, because its line does not say what it writes "
        f"while others hold {_listed(held)}. It cannot write that; and in {folders[0]} and the "
        "other folders on the way there it can write what exists, but not make, rename or remove "
        'anything: a "Permission denied" there means this.'
    )


def _listed(held: Sequence[Held]) -> str:
    names = [f"{one.path} ({one.owner})" for one in held[:LISTED_MAX]]
    more = len(held) - LISTED_MAX
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")
