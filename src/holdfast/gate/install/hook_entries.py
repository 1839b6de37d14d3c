"""One hook in a client's settings: the program that it starts, and the effect of its failure.

Claude Code takes the program and its arguments separately (exec form), without a shell or the
user's prefix between them. With `onFailure: block` it refuses a call whose hook is missing, ends
with an error, is killed or is late. Codex has neither: it runs a line in the user's shell, so the
line itself turns every failure into a refusal. Only a late hook lets a write of Codex happen.

Only the event before a tool fails closed. At a prompt a failure would erase the prompt, and at a
stop it would send the agent back to work again and again.
"""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: What one of our hooks runs, whichever installation it belongs to.
SCRIPT = "holdfast/gate/hook.py"
#: The event whose hook must not fail unnoticed.
GUARDED = "PreToolUse"
#: The field of a hook that its client shows while it runs.
STATUS = "statusMessage"
ARGUMENTS = "args"
ON_FAILURE = "onFailure"
BLOCK = "block"


def note(file: str) -> str:
    """How to repair a hook that fails. Clients show the command of such a hook, so this text is its
    last argument, which the hook itself does not read."""
    return (
        "(if this hook fails, edits are refused. To repair it, the user installs Holdfast again "
        f"and runs holdfast init here, or removes the hooks from {file})"
    )


def made(
    words: Sequence[str], event: str, file: str, *, exec_form: bool, status: str = ""
) -> dict[str, Any]:
    """The hook of an event, without its timeout."""
    closed = event == GUARDED
    handler: dict[str, Any] = {"type": "command", "command": shlex.join(words)}
    if exec_form:
        handler["command"] = words[0]
        handler[ARGUMENTS] = [*words[1:], note(file)] if closed else list(words[1:])
    elif closed:
        # not `{ …; }`: the user's shell may be fish
        told = f"echo {shlex.quote(f'holdfast: the hook failed {note(file)}')} >&2; exit 2"
        handler["command"] += f" || /bin/sh -c {shlex.quote(told)}"
    if exec_form and closed:
        handler[ON_FAILURE] = BLOCK
    if status:
        handler[STATUS] = status
    return handler


def is_ours(handler: object) -> bool:
    """Whether a handler in the settings is a hook of Holdfast, of whichever version."""
    return isinstance(handler, dict) and script_of(handler) is not None


def script_of(handler: dict[str, Any]) -> str | None:
    """The script that a hook of ours runs, or None if it is not ours."""
    return next((word for word in split(handler) if f"/{word}".endswith(f"/{SCRIPT}")), None)


def split(handler: dict[str, Any]) -> list[str]:
    """The words of what a hook runs, the program first."""
    command, more = handler.get("command"), handler.get(ARGUMENTS)
    if not isinstance(command, str):
        return []
    if isinstance(more, list):
        return [command, *(word for word in more if isinstance(word, str))]
    if SCRIPT not in command:
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def started(handler: dict[str, Any]) -> list[str]:
    """What a client starts for one of our hooks."""
    if isinstance(handler.get(ARGUMENTS), list):
        return split(handler)
    return ["/bin/sh", "-c", handler["command"]]


def shown(handler: dict[str, Any]) -> str:
    """The same for people to read."""
    is_line = ARGUMENTS not in handler
    return str(handler.get("command")) if is_line else shlex.join(split(handler))


def is_closed(handler: dict[str, Any]) -> bool:
    """Whether a call is refused if this hook cannot be started or ends badly."""
    return handler.get(ON_FAILURE) == BLOCK or " || /bin/sh -c " in str(handler.get("command"))
