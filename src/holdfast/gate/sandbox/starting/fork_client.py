"""The runner's side of its fork server: has commands started, and learns their pids."""

from __future__ import annotations

import os

from holdfast.gate.sandbox.starting import fork_server
from holdfast.gate.sandbox.starting.restricted_start import (
    likely_program,
    read_note,
    refuse_null,
    start_error,
)
from holdfast.manager import helper_process
from holdfast.manager.helper_process import GoneError, Helper
from holdfast.manager.owners.variables import for_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.gate.sandbox.kernel.seccomp import Filter

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from {0} import main; main()"


def is_possible() -> bool:
    """Whether a fork server can run on this machine."""
    return helper_process.is_possible() and os.uname().machine in fork_server.CLONE


class ForkServer(Helper):
    """The fork server: the process that starts commands. It is a child of ours, not a command."""

    __slots__ = ()

    def __init__(self) -> None:
        # It writes no bytecode: an import in a new process, after the filter is installed, would
        # wait forever for a runner that is not listening yet.
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
        """Have a command started with these streams; its pid. `ruleset` restricts it; on `line` it
        passes on a listener: of `filter`, or else of the filter that only observes, if the kernel
        supports that. Raises as `restricted_start.start`, and GoneError if the fork server is gone
        or may not create a process: then nothing was started."""
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
    """The pid of a new process, from the lines that it wrote."""
    pid, trouble = 0, b""
    for line in note.splitlines():
        if line.startswith(fork_server.BORN):
            pid = int(line[1:])
        else:
            trouble = line
    if trouble:
        if pid:
            os.waitpid(pid, 0)
        raise start_error(trouble)
    if not pid:
        raise GoneError
    return pid
