"""A small helper process, which gets plain data and open files through a socket.

It is for work that another process does better, because that process is smaller or uses a second
processor. The helper is a bare interpreter that runs a program of ours, reads orders from its
standard input, and exits when the other end is closed.

An order is its length in eight bytes, sent together with the descriptors, and then the data in the
format of `marshal`: both sides are the same interpreter. Only on Linux.
"""

from __future__ import annotations

import errno
import marshal
import os
import sys

from holdfast.manager.owners.variables import for_agents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Sequence
    from typing import Any

DESCRIPTORS_MAX = 8
_LENGTH_BYTES = 8
_SOME_BYTES = 1 << 20
_SOURCE = __file__.removesuffix("/holdfast/manager/helper_process.py")


class GoneError(OSError):
    """The other process is gone."""

    def __init__(self) -> None:
        super().__init__(errno.EPIPE, "a helper process is gone")


def is_possible() -> bool:
    """Whether this machine can have such processes."""
    return sys.platform == "linux" and bool(sys.executable)


class Helper:
    """The helper process, and the socket to it."""

    __slots__ = ("_line", "pid")

    def __init__(self, *program: str) -> None:
        """`program` are the interpreter's arguments, such as a file of ours. The folder of our
        packages is added as the last argument."""
        from _socket import AF_UNIX, SOCK_STREAM, socketpair

        #: The pid of our child; 0 once it has been waited for, because the number may then be
        #: reused.
        self.pid = 0
        self._line, theirs = socketpair(AF_UNIX, SOCK_STREAM)
        # It uses no ledger, and agents can read all of it.
        environ = for_agents(os.environ, on_server=True)
        silence = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        try:
            self.pid = os.posix_spawn(
                sys.executable, [sys.executable, "-I", "-S", *program, _SOURCE], environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0), silence],
                setpgroup=0,  # Ctrl-C is only for the process that gives the orders
            )  # fmt: skip
        except BaseException:
            self._line.close()
            raise
        finally:
            theirs.close()

    def tell(self, data: Any, descriptors: Sequence[int] = ()) -> None:
        """Send an order. Raises GoneError."""
        try:
            tell(self._line, data, descriptors)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise GoneError from error

    def hear(self) -> Any:
        """Receive an answer. Raises GoneError."""
        try:
            found = hear(self._line)
        except ConnectionResetError:
            found = None
        if found is None:
            raise GoneError
        return found[0]

    def close(self) -> None:
        """Close the socket, and wait until the helper has exited."""
        self._line.close()
        if self.pid:
            os.waitpid(self.pid, 0)
            self.pid = 0


def tell(line: socket, data: Any, descriptors: Sequence[int] = ()) -> None:
    """Send one order."""
    from _socket import SCM_RIGHTS, SOL_SOCKET

    body = marshal.dumps(data)
    head = len(body).to_bytes(_LENGTH_BYTES, sys.byteorder)
    sent = b"".join(number.to_bytes(4, sys.byteorder) for number in descriptors)
    line.sendmsg([head], [(SOL_SOCKET, SCM_RIGHTS, sent)] if sent else [])
    line.sendall(body)


def hear(line: socket) -> tuple[Any, list[int]] | None:
    """The next order with its descriptors; None if the other end is closed."""
    from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC

    room = CMSG_SPACE(4 * DESCRIPTORS_MAX)
    head, found, _flags, _address = line.recvmsg(_LENGTH_BYTES, room, MSG_CMSG_CLOEXEC)
    descriptors = [
        int.from_bytes(some[at : at + 4], sys.byteorder)
        for _level, _type, some in found
        for at in range(0, len(some), 4)
    ]
    left = int.from_bytes(head, sys.byteorder)
    parts = []
    while left:
        part = line.recv(min(left, _SOME_BYTES))
        if not part:
            return None
        parts.append(part)
        left -= len(part)
    return (marshal.loads(b"".join(parts)), descriptors) if parts else None
