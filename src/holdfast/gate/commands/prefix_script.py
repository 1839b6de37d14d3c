"""The script that stands in front of Claude Code's shell commands.

Claude Code starts it for every shell command of an agent, with the line as its one argument, and
also for lines that its user types after `!`, for other hooks in shell form, for the status line and
for MCP servers. What tells them apart is in the environment:

                       CLAUDE_PID   CLAUDE_PROJECT_DIR
    agents, ! lines    set          not set
    hooks, status      set          set
    MCP servers        not set      set

Hooks and the status line run at once. If our Python or program is gone, every line runs as it is:
the hook in front of an agent's command is in exec form and refuses it then, so nothing is lost.

A prefix that the user had before is run behind ours, with the line as Claude Code would have given
it.
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
#: How every path of such a script ends.
MARK = f"/{LEDGER_FOLDER}/{NAME}"
_CHAIN_MARK = "# chained: "


def path_of(root: str) -> str:
    """Where the script of a repository lies."""
    return f"{root}{MARK}"


def is_ours(prefix: str) -> bool:
    """Whether a prefix is a script of ours, of whichever repository."""
    return prefix.endswith(MARK)


def folder_of(environ: Mapping[str, str]) -> str:
    """The folder in which slips are left, if a client runs its commands through a script of ours;
    else empty."""
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
    """A prefix as Claude Code puts it in front of a line: from the last ` -` on it has options."""
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
