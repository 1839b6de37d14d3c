"""What an agent prints, on its way from a pipe into a file."""

from __future__ import annotations

import os

READ_BYTES = 1 << 16


class Output:
    """What an agent says, in a file, up to a limit; the rest is read and thrown away, so that an
    agent which talks without end is slow to nobody but itself."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._left = bytes_max
        self.seen = 0
        self._outer, self.inner = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._outer, False)
        self.ears = [self._outer]

    def let_go(self) -> None:
        """The agent has its end of it."""
        os.close(self.inner)

    def take(self) -> bool:
        """Take what is there. False if there is nothing now, or nothing will come any more."""
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
        """Take what an agent had said when it ended."""
        for _ in range(1024):  # something that it left running may never be silent
            if not self.take():
                return

    def close(self) -> None:
        os.close(self._outer)
        os.close(self._file)
