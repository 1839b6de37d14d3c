"""The program in front of a client's shell commands: its variable in the client's settings.

Claude Code reads it from `env` in its settings. Ours goes where our hooks are. Our program runs a
prefix that the user had set, there or elsewhere, behind itself; the settings contain the user's
prefix again when ours is removed.
"""

from __future__ import annotations

import os

from holdfast.gate.commands import prefix_script
from holdfast.gate.install import json_text
from holdfast.gate.install.client_hooks import Unusable, root_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from holdfast.gate.config.settings import Settings
    from holdfast.gate.install.hook_command import Command

_ENV = "env"


def wanted(settings: Settings) -> bool:
    """Whether shell commands are to be leased here: the setting says so, and the kernel can."""
    from holdfast.gate.commands.lease_mode import can_lease
    from holdfast.gate.config.settings import LEASE

    return settings.shell == LEASE and not can_lease()


# In the settings


def found(text: str, variable: str) -> str:
    """The variable's value in the settings; empty if it is not set. Raises Unusable."""
    env = _env(text) if text.strip() else None
    node = env.member(variable) if env is not None else None
    value = json_text.value(text, node) if node is not None else ""
    return value if isinstance(value, str) else ""


def put(text: str, variable: str, value: str) -> str:
    """The settings with this value. Raises Unusable."""
    env = _env(text)
    if env is None:
        return json_text.added(text, root_of(text), {variable: value}, name=_ENV)
    node = env.member(variable)
    if node is None:
        return json_text.added(text, env, value, name=variable)
    if json_text.value(text, node) == value:
        return text
    return json_text.replaced(text, node, value)


def taken_out(text: str, variable: str, before: Mapping[str, Any] | None) -> str:
    """The settings without our value, with the one that the user had there `before`. Raises
    Unusable."""
    if not prefix_script.is_ours(found(text, variable)):
        return text
    had = before.get(_ENV) if before is not None else None
    if isinstance(had, dict) and isinstance(had.get(variable), str):
        return put(text, variable, had[variable])
    env = _env(text)
    assert env is not None
    text = json_text.removed(text, env, env.names.index(variable))
    env = _env(text)
    if env is not None and not env.parts and not isinstance(had, dict):
        root = root_of(text)
        text = json_text.removed(text, root, root.names.index(_ENV))
    return text


def _env(text: str) -> json_text.Node | None:
    root = root_of(text)
    env = root.member(_ENV)
    if env is not None and (env.kind != "object" or root.names.count(_ENV) > 1):
        raise Unusable(f'"{_ENV}" is not an object, or occurs twice')
    return env


# The script


MODE = 0o755


def script(root: str, command: Command, chained: str) -> str:
    """The text of the script of a repository."""
    program = os.path.join(os.path.dirname(command.script), "commands", "prefixed.py")
    folder = os.path.dirname(prefix_script.path_of(root))
    return prefix_script.text(command.python, program, folder, chained)


def chained(root: str, variable: str, texts: list[str], environ: Mapping[str, str]) -> str:
    """The user's own prefix: from the first of the settings that has one, else from the
    environment. Where ours is set already, the one that its script runs."""
    for text in texts:
        try:
            value = found(text, variable)
        except (Unusable, ValueError):
            continue
        if prefix_script.is_ours(value):
            return prefix_script.chained_in(_script(root))
        if value:
            return value
    value = environ.get(variable, "")
    return prefix_script.chained_in(_script(root)) if prefix_script.is_ours(value) else value


def _script(root: str) -> str:
    try:
        with open(prefix_script.path_of(root), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def problems(root: str, text: str, variable: str, command: Command | None) -> list[str]:
    """The problems with the variable and its program, as sentences. Raises Unusable."""
    value, path = found(text, variable), prefix_script.path_of(root)
    if not prefix_script.is_ours(value):
        other = f" ({value} is)" if value else ""
        return [f"{variable} is not set to {path}{other}: shell commands are not leased"]
    if not os.access(value, os.X_OK):
        return [f"the program in front of shell commands is gone, so none can run: {value}"]
    if command is not None and command.python not in _script(root):
        return ["the program in front of shell commands belongs to another Holdfast installation"]
    return []
