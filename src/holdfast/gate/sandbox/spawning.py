"""A runner's side of its nursery: has commands made, and learns who they are."""

from __future__ import annotations

import marshal
import os
import socket
import sys

from holdfast.gate.sandbox import nursery
from holdfast.gate.sandbox.starting import grief, likely_program, read_note, refuse_null

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from {0} import main; main()"


class GoneError(OSError):
    """The nursery is gone, or not allowed to make a process. Nothing was started."""


def is_possible() -> bool:
    """Whether this machine can have one."""
    return sys.platform == "linux" and os.uname().machine in nursery.CLONE


class Nursery:
    """The process that makes commands."""

    def __init__(self) -> None:
        #: Of a child of ours that is no command; 0 once somebody has seen to its end, for then that
        #: number may be anybody's.
        self.pid = 0
        self._line, theirs = socket.socketpair()
        source = nursery.__file__.removesuffix("/holdfast/gate/sandbox/nursery.py")
        # It writes no bytecode: a new process that imports something would wait for ever, for
        # somebody who lets it write.
        words = [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM.format(nursery.__name__), source]
        silence = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        try:
            self.pid = os.posix_spawn(
                sys.executable, words, os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), silence],
            )  # fmt: skip
        except BaseException:
            self._line.close()
            raise
        finally:
            theirs.close()

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        streams: tuple[int, int],
        ruleset: int = -1,
        line: int = -1,
    ) -> int:
        """Have a command started that reads and writes there; its pid. `ruleset` restricts it, on
        `line` it hands over a listener. Raises as `starting.start`, and GoneError."""
        words, variables = list(command), dict(environment)
        refuse_null(words, variables)
        program = likely_program(words[0], variables)
        order = (program, words, variables, folder, os.getpid(), ruleset >= 0, line >= 0)
        more = [one for one in (ruleset, line) if one >= 0]
        heard, told = os.pipe()
        try:
            try:
                self._send(marshal.dumps(order), [told, *streams, *more])
            except (BrokenPipeError, ConnectionResetError) as error:
                raise GoneError("the process that starts commands is gone") from error
            finally:
                os.close(told)
            return _born(read_note(heard))
        finally:
            os.close(heard)

    def _send(self, body: bytes, descriptors: list[int]) -> None:
        head = len(body).to_bytes(nursery.LENGTH_BYTES, sys.byteorder)
        socket.send_fds(self._line, [head], descriptors)
        self._line.sendall(body)

    def close(self) -> None:
        """Nobody wants any more."""
        self._line.close()
        if self.pid:
            os.waitpid(self.pid, 0)
            self.pid = 0


def _born(note: bytes) -> int:
    """The pid of a new process, as the lines say."""
    pid, trouble = 0, b""
    for line in note.splitlines():
        if line.startswith(nursery.BORN):
            pid = int(line[1:])
        else:
            trouble = line
    if trouble:
        if pid:
            os.waitpid(pid, 0)
        raise grief(trouble)
    if not pid:
        raise GoneError("the process that starts commands is gone")
    return pid
