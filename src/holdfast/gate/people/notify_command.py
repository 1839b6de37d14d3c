"""A command of the user's that is told when an agent is blocked, or can go on.

    notify = ["notify-send", "Holdfast"]

It is started with one sentence as its last argument, in the folder of the repository, and left
alone: nobody waits for it, hears what it says or learns how it ends, for a hook has to answer and
an agent has nothing to do with it. So it has neither the descriptors of the hook nor a terminal,
and its environment does not say who the agent is. A process that carried the mark of a session
would count as one of that agent, and would keep its files after its death. Nor does it say what git
tells its hooks, such as which index a commit is made from.
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

#: What there is to tell.
BLOCKED = "blocked"
RESUMED = "resumed"
FREE = "free"

NOTICE_VARIABLE = "HOLDFAST_NOTICE"
AGENT_VARIABLE = "HOLDFAST_AGENT"
FILE_VARIABLE = "HOLDFAST_FILE"

#: All of ours start like this; those of an agent or a runner say what that one may do.
_OURS = "HOLDFAST_"
_OF_AGENTS = frozenset((CLAUDE_PID_VARIABLE, CODEX_THREAD_VARIABLE, *(row[3] for row in CLIENTS)))


def notify(
    command: tuple[str, ...], root: str, *, what: str, agent: str, file: str, sentence: str
) -> None:
    """Start the command, if there is one. Whatever becomes of it, this returns at once and never
    raises."""
    if not command:
        return
    told = {NOTICE_VARIABLE: what, AGENT_VARIABLE: agent, FILE_VARIABLE: file}
    environ = {**for_anybody(os.environ), **told}
    try:
        spawn([*command, sentence], environ, root)
    except Exception:  # an edit does not depend on whether somebody could be told of it
        pass


def for_anybody(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment that says nothing of agents or of one commit, and gives no rights."""
    return {
        name: text
        for name, text in environ.items()
        if not name.startswith(_OURS) and name not in _OF_AGENTS and name not in LOCAL
    }
