"""A runner's side of its nursery: has commands made, and learns who they are."""

from __future__ import annotations

import os

from holdfast.gate.sandbox import fork_server
from holdfast.gate.sandbox.restricted_start import (
    grief,
    likely_program,
    read_note,
    refuse_null,
)
from holdfast.manager import helper_process
from holdfast.manager.helper_process import GoneError, Helper
from holdfast.manager.owners.variables import for_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.gate.sandbox.seccomp import Filter

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from {0} import main; main()"


def is_possible() -> bool:
    """Whether this machine can have one."""
    return helper_process.is_possible() and os.uname().machine in fork_server.CLONE


class Nursery(Helper):
    """The process that makes commands. It is a child of ours, and no command."""

    __slots__ = ()

    def __init__(self) -> None:
        # It writes no bytecode: a new process that imports something would wait for ever, for
        # somebody who lets it write.
        super().__init__("-B", "-c", _PROGRAM.format(fork_server.__name__))

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        streams: tuple[int, int],
        ruleset: int = -1,
        line: int = -1,
        filter: Filter | None = None,
    ) -> int:
        """Have a command started that reads and writes there; its pid. `ruleset` restricts it, on
        `line` it hands over a listener: of `filter`, or else of the one that only notices, if the
        kernel can. Raises as `starting.start`, and GoneError if the nursery is gone, or not allowed
        to make a process: then nothing was started."""
        words, variables = list(command), for_agents(environment)
        refuse_null(words, variables)
        program = likely_program(words[0], variables)
        steps = b"" if filter is None else filter.steps
        order = (program, words, variables, folder, os.getpid(), ruleset >= 0, line >= 0, steps)
        more = [one for one in (ruleset, line) if one >= 0]
        heard, told = os.pipe()
        try:
            try:
                self.tell(order, [told, *streams, *more])
            finally:
                os.close(told)
            return _born(read_note(heard))
        finally:
            os.close(heard)


def _born(note: bytes) -> int:
    """The pid of a new process, as the lines say."""
    pid, trouble = 0, b""
    for line in note.splitlines():
        if line.startswith(fork_server.BORN):
            pid = int(line[1:])
        else:
            trouble = line
    if trouble:
        if pid:
            os.waitpid(pid, 0)
        raise grief(trouble)
    if not pid:
        raise GoneError
    return pid
