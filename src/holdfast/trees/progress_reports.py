"""What a long operation tells while it runs. The command line draws it; a library says nothing."""

from __future__ import annotations


class Progress:
    """Told about every step; does nothing with it. Make a class of your own with these methods."""

    #: Whether it is worth to count everything first.
    wants_total = False

    def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
        """A task begins; how much there is to do, if that is known."""

    def advance(self, files: int = 0, bytes: int = 0) -> None:
        """So much more is done."""

    def end(self) -> None:
        """The task is over."""


SILENT = Progress()


class Pulse:
    """The heartbeat of an operation: counts what is done, and keeps its lease alive.

    `beat` is called by the one thread that may stop the operation; the others only count.
    """

    def __init__(self, progress: Progress, keep: KeepAlive | None = None) -> None:
        self._progress = progress
        self._keep = keep
        self._bytes = 0
        self._files = 0

    def count(self, bytes: int) -> None:
        """So many bytes more, from any thread."""
        self._bytes += bytes

    def file(self) -> None:
        """One file more."""
        self._files += 1
        if self._files >= 64:
            self.beat()

    def beat(self) -> None:
        """Tell what was done, and renew the lease if it is time. Raises if it is lost."""
        files, bytes = self._files, self._bytes
        self._files -= files
        self._bytes -= bytes
        self._progress.advance(files, bytes)
        if self._keep is not None:
            self._keep()


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    KeepAlive = Callable[[], None]
