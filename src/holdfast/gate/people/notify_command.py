"""A command of the user's that is started when an agent is blocked, or can continue.

    notify = ["notify-send", "Holdfast"]

It is started with one sentence as its last argument, in the folder of the repository, and detached:
no process waits for it or reads its output or exit code, because a hook has to answer. So it has
neither the descriptors of the hook nor a terminal, and its environment does not identify the agent:
a process with the mark of a session would count as one of that agent's, and would keep its files
after its death. Nor does the environment contain git's variables for its hooks, such as the index
of a commit.
"""

from __future__ import annotations

import os

from holdfast.gate.git.git_files import LOCAL
from holdfast.gate.side_process import spawn
from holdfast.manager.owners.identity import (
    CLAUDE_PID_VARIABLE,
    CODEX_THREAD_VARIABLE,
)
from holdfast.manager.owners.processes import CLIENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The kinds of notices.
BLOCKED = "blocked"
RESUMED = "resumed"
FREE = "free"

NOTICE_VARIABLE = "HOLDFAST_NOTICE"
AGENT_VARIABLE = "HOLDFAST_AGENT"
FILE_VARIABLE = "HOLDFAST_FILE"

#: The prefix of our variables; those of an agent or a runner carry its rights.
_OURS = "HOLDFAST_"
_OF_AGENTS = frozenset((CLAUDE_PID_VARIABLE, CODEX_THREAD_VARIABLE, *(row[3] for row in CLIENTS)))


def notify(
    command: tuple[str, ...], root: str, *, what: str, agent: str, file: str, sentence: str
) -> None:
    """Start the command, if there is one. This returns immediately and never raises."""
    if not command:
        return
    told = {NOTICE_VARIABLE: what, AGENT_VARIABLE: agent, FILE_VARIABLE: file}
    environ = {**without_agent_variables(os.environ), **told}
    try:
        spawn([*command, sentence], environ, root)
    except Exception:  # an edit does not depend on a notification
        pass


def without_agent_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables of agents, of a commit, or with rights."""
    return {
        name: text
        for name, text in environ.items()
        if not name.startswith(_OURS) and name not in _OF_AGENTS and name not in LOCAL
    }
