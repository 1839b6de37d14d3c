"""The script in front of Claude Code's shell commands.

Claude Code starts it for every shell command of an agent, with the line as its only argument, and
also for lines that its user types after `!`, for other hooks in shell form, for the status line and
for MCP servers. The environment distinguishes them:

                       CLAUDE_PID   CLAUDE_PROJECT_DIR
    agents, ! lines    set          not set
    hooks, status      set          set
    MCP servers        not set      set

Hooks and the status line run directly. If our Python or program is gone, every line runs unchanged:
the hook before an agent's command is in exec form and refuses the command then, so nothing is
written unleased.

A prefix that the user had set before is run after ours, with the line that Claude Code would have
passed to it.
"""

from __future__ import annotations

import os

from holdfast.gate.commands.shell_lines import quoted
from holdfast.manager.files.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "CLAUDE_CODE_SHELL_PREFIX"
NAME = "shell-prefix"
#: The end of the path of every such script.
MARK = f"/{LEDGER_FOLDER}/{NAME}"
_CHAIN_MARK = "# chained: "


def path_of(root: str) -> str:
    """The path of a repository's script."""
    return f"{root}{MARK}"


def is_ours(prefix: str) -> bool:
    """Whether a prefix is a script of ours, in any repository."""
    return prefix.endswith(MARK)


def folder_of(environ: Mapping[str, str]) -> str:
    """The folder for slips if a client runs its commands through a script of ours; else empty."""
    prefix = environ.get(VARIABLE, "")
    return os.path.dirname(prefix) if is_ours(prefix) else ""


def text(python: str, program: str, folder: str, chained: str = "") -> str:
    """The script. `chained` is the prefix that the user has set."""
    behind = _as_client_does(chained)
    plain = f'exec {behind} "$1"' if behind else 'exec /bin/sh -c "$1"'
    in_shell = plain if behind else 'exec "${SHELL:-/bin/sh}" -c "$1"'
    words = " ".join(map(quoted, (python, "-I", "-S", program, "claude", folder, behind)))
    return f"""#!/bin/sh
# Holdfast: the files that an agent's shell command writes are leased to that agent.
# Written by `holdfast init`; `holdfast init --undo` stops Claude Code from using it.
{_CHAIN_MARK}{quoted(chained)}
if [ -n "$CLAUDE_PROJECT_DIR" ] && [ -n "$CLAUDE_PID" ]; then
    {plain}
fi
if [ -x {quoted(python)} ] && [ -f {quoted(program)} ]; then
    exec {words} "$1"
fi
if [ -n "$CLAUDE_PROJECT_DIR" ]; then
    {plain}
fi
{in_shell}
"""


def _as_client_does(prefix: str) -> str:
    """A prefix as Claude Code puts it before a line: from the last ` -` on, it consists of
    options."""
    program, space, options = prefix.rpartition(" -")
    if space and program:
        return f"{quoted(program)} -{options}"
    return quoted(prefix) if prefix else ""


def chained_in(script: str) -> str:
    """The user's own prefix that a script of ours runs."""
    from holdfast.gate.commands.shell_lines import first_word

    for line in script.splitlines():
        if line.startswith(_CHAIN_MARK):
            return first_word(line.removeprefix(_CHAIN_MARK))[0]
    return ""
