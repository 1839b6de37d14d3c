"""The progress of a long operation. The command line draws it; a library shows nothing."""

from __future__ import annotations


class Progress:
    """Receives every step and ignores it. Write a class of your own with these methods."""

    #: Whether counting everything first is worthwhile.
    wants_total = False

    def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
        """A task begins, with its total amount if that is known."""

    def advance(self, files: int = 0, bytes: int = 0) -> None:
        """This much more is done."""

    def end(self) -> None:
        """The task is over."""


SILENT = Progress()


class Pulse:
    """The heartbeat of an operation: counts its progress, and keeps its lease alive.

    `beat` is called by the one thread that may stop the operation; the others only count.
    """

    def __init__(self, progress: Progress, keep: KeepAlive | None = None) -> None:
        self._progress = progress
        self._keep = keep
        self._bytes = 0
        self._files = 0

    def count(self, bytes: int) -> None:
        """Count more bytes, from any thread."""
        self._bytes += bytes

    def file(self) -> None:
        """Count one more file."""
        self._files += 1
        if self._files >= 64:
            self.beat()

    def beat(self) -> None:
        """Report the progress, and renew the lease if it is due. Raises if it is lost."""
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
