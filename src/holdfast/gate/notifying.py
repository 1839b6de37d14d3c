"""A command of the user's that is told when an agent is blocked, or free again.

    notify = ["notify-send", "Holdfast"]

It is started with one sentence as its last argument, in the folder of the repository, and left
alone: nobody waits for it, hears what it says or learns how it ends, for a hook has to answer and
an agent has nothing to do with it. So it has neither the descriptors of the hook nor a terminal,
and its environment does not say who the agent is. A process that carried the mark of a session
would count as one of that agent, and would keep its files after its death.
"""

from __future__ import annotations

import os
import sys

from holdfast.manager.identity import CLAUDE_PID_VARIABLE, CODEX_THREAD_VARIABLE
from holdfast.manager.processes import CLIENTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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

_SHELL = "/bin/sh"
#: To start a program in another folder without going there ourselves.
_IN_FOLDER = 'cd "$0" && exec "$@"'


def notify(
    command: tuple[str, ...], root: str, *, what: str, agent: str, file: str, sentence: str
) -> None:
    """Start the command, if there is one. Whatever becomes of it, this returns at once and never
    raises."""
    if not command:
        return
    told = {NOTICE_VARIABLE: what, AGENT_VARIABLE: agent, FILE_VARIABLE: file}
    environ = {**_for_anybody(os.environ), **told}
    try:
        _start([*command, sentence], root, environ)
    except Exception:  # an edit does not depend on whether somebody could be told of it
        pass


def _for_anybody(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment that says nothing of agents, and gives no rights."""
    return {
        name: text
        for name, text in environ.items()
        if not name.startswith(_OURS) and name not in _OF_AGENTS
    }


def _start(words: Sequence[str], root: str, environ: Mapping[str, str]) -> None:
    """Not with the standard library's module where it can be done without: to import that takes
    longer than all the rest."""
    if sys.platform != "win32" and hasattr(os, "posix_spawn"):
        try:
            _spawn(words, root, environ)
            return
        except NotImplementedError:  # no `setsid` here
            pass
    import subprocess

    child = subprocess.Popen(
        words, cwd=root, env=environ, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    child.returncode = 0  # so that it is not complained that nobody waited


def _spawn(words: Sequence[str], root: str, environ: Mapping[str, str]) -> None:
    import signal

    os.posix_spawn(
        _SHELL, ["sh", "-c", _IN_FOLDER, root, *words], environ,
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # the interpreter ignores these, for itself
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
        ],
    )  # fmt: skip


def _inheritable() -> Iterator[int]:
    """What a program that we start would get, beside the first three: not ours, which close by
    themselves, but what we were started with."""
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        try:
            if descriptor > 2 and os.get_inheritable(descriptor):
                yield descriptor
        except OSError:  # the one that was listed with
            continue
