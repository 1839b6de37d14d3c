"""What an agent prints, on its way from a pipe into a file."""

from __future__ import annotations

import os

READ_BYTES = 1 << 16


class Output:
    """An agent's output, written to a file up to a limit. The rest is read and discarded, so that
    an agent whose output never ends slows down only itself."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._left = bytes_max
        self.seen = 0
        self._outer, self.inner = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._outer, False)
        self.ears = [self._outer]

    def let_go(self) -> None:
        """The agent has its end of the pipe: close ours."""
        os.close(self.inner)

    def take(self) -> bool:
        """Read what is available. False if nothing is now, or nothing more will come."""
        try:
            data = os.read(self._outer, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.ears = []
            return False
        self.seen += len(data)
        kept = data[: self._left]
        self._left -= len(kept)
        while kept:
            kept = kept[os.write(self._file, kept) :]
        return True

    def drain(self) -> None:
        """Read what the agent had written when it ended."""
        for _ in range(1024):  # a process that it left running may never stop writing
            if not self.take():
                return

    def close(self) -> None:
        os.close(self._outer)
        os.close(self._file)
