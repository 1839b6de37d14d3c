"""A terminal that a program has for itself: what is drawn on it, the keys, and its size."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from select import select

from holdfast.cli.terminal.keystrokes import QUIT, KeyReader
from holdfast.cli.terminal.tables import terminal_height, terminal_width

_SIZE = (80, 24)
_READ_BYTES = 1024


def is_watched() -> bool:
    """Whether a person sees what is drawn, and can type."""
    try:
        import termios  # noqa: F401
    except ImportError:  # Windows
        return False
    stdin, stdout = sys.stdin, sys.stdout
    return all(one is not None and one.isatty() for one in (stdin, stdout))


class Screen:
    """Drawn as a whole; only lines that changed are written."""

    def __init__(self, keyboard: int, resized: int) -> None:
        """`resized` can be read when the terminal has another size."""
        self._keyboard = keyboard
        self._resized = resized
        self._reader = KeyReader()
        self._shown: list[str] = []
        self._size = (0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        return terminal_width() or _SIZE[0], terminal_height() or _SIZE[1]

    def draw(self, lines: list[str]) -> None:
        """Show these lines, none of them wider than the screen."""
        if self.size != self._size:
            self._size, self._shown = self.size, []
            write("\x1b[2J")
        had = self._shown + [""] * len(lines)
        changed = [(row, line) for row, line in enumerate(lines) if line != had[row]]
        # The line is cleared first: after a full one that would take its last character.
        write("".join(f"\x1b[{row + 1};1H\x1b[2K{line}" for row, line in changed))
        self._shown = lines

    def wait(self, seconds: float, bell: int | None = None) -> tuple[list[str], bool]:
        """Wait so long, or until something happens: the keys, and whether the bell rang."""
        heard = [self._keyboard, self._resized] + ([] if bell is None else [bell])
        ready, _, _ = select(heard, [], [], max(0.0, seconds))
        for other in (self._resized, bell):
            if other in ready and other is not None:
                os.read(other, _READ_BYTES)
        return self._keys() if self._keyboard in ready else [], bell in ready

    def _keys(self) -> list[str]:
        typed = os.read(self._keyboard, _READ_BYTES)
        return self._reader.feed(typed) if typed else [QUIT]  # the terminal is gone


@contextmanager
def screen() -> Iterator[Screen]:
    """A screen of our own, which gives back the old one in the end, whatever happens."""
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)
        write("\x1b[?1049h\x1b[?25l")
        with _resizing() as resized:
            yield Screen(file, resized)
    finally:
        write("\x1b[?25h\x1b[?1049l")
        termios.tcsetattr(file, termios.TCSADRAIN, before)


@contextmanager
def _resizing() -> Iterator[int]:
    """A descriptor that can be read when the terminal has another size."""
    ear, mouth = os.pipe()
    os.set_blocking(mouth, False)

    def heard(_number: int, _frame: object) -> None:
        try:
            os.write(mouth, b".")
        except BlockingIOError:
            return  # told often enough

    before = signal.signal(signal.SIGWINCH, heard)
    try:
        yield ear
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(ear)
        os.close(mouth)


def write(text: str) -> None:
    """To the terminal, at once."""
    sys.stdout.write(text)
    sys.stdout.flush()
