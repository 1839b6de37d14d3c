"""A progress bar on standard error for tasks longer than a second, removed at the end."""

from __future__ import annotations

import os
import sys
from time import monotonic

from holdfast.trees.progress_reports import Progress

_QUIET_SECONDS = 1.0
_DRAW_SECONDS = 0.1
_BAR_CELLS = 24


class Bar(Progress):
    """A bar that is redrawn regularly, on one line of a terminal."""

    wants_total = True

    def __init__(self) -> None:
        self._task = ""
        self._files = self._bytes = 0
        self._files_total = self._bytes_total = 0
        self._next = monotonic() + _QUIET_SECONDS
        self._drawn = False

    def begin(self, task: str, files: int = 0, bytes: int = 0) -> None:
        """A task begins."""
        self._task = task
        self._files = self._bytes = 0
        self._files_total, self._bytes_total = files, bytes
        if monotonic() >= self._next:  # some tasks are a single, slow step
            self._draw()

    def advance(self, files: int = 0, bytes: int = 0) -> None:
        """This much more is done."""
        self._files += files
        self._bytes += bytes
        now = monotonic()
        if now >= self._next:
            self._next = now + _DRAW_SECONDS
            self._draw()

    def end(self) -> None:
        """Leave a clean line."""
        if self._drawn:
            _write("\r\x1b[K")
            self._drawn = False

    def _draw(self) -> None:
        from holdfast.cli.terminal.tables import cut
        from holdfast.cli.tree.tree_context import size

        done = f"{self._files:,} files, {size(self._bytes)}" if self._files or self._bytes else "…"
        if self._files_total or self._bytes_total:
            filled = round(self.part * _BAR_CELLS)
            bar = "#" * filled + "-" * (_BAR_CELLS - filled)
            done = f"[{bar}] {self.part:4.0%}  {done}"
        _write(f"\r\x1b[K{cut(f'{self._task}  {done}', _width() - 1)}")
        self._drawn = True

    @property
    def part(self) -> float:
        """The part that is done, by files or by bytes, whichever is less."""
        parts = [
            min(1.0, done / total)
            for done, total in (
                (self._files, self._files_total),
                (self._bytes, self._bytes_total),
            )
            if total
        ]
        return min(parts, default=0.0)


def _width() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def _write(text: str) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        return
