"""A terminal in full-screen mode: drawing, keys and size."""

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
    """Whether input and output are a terminal, so that a person can watch and type."""
    try:
        import termios  # noqa: F401
    except ImportError:  # Windows
        return False
    stdin, stdout = sys.stdin, sys.stdout
    return all(one is not None and one.isatty() for one in (stdin, stdout))


class Screen:
    """Draws whole screens, and writes only the lines that changed."""

    def __init__(self, keyboard: int, resized: int) -> None:
        """`resized` is readable when the size of the terminal has changed."""
        self._keyboard = keyboard
        self._resized = resized
        self._reader = KeyReader()
        self._shown: list[str] = []
        self._size = (0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """The current columns and lines."""
        return terminal_width() or _SIZE[0], terminal_height() or _SIZE[1]

    def draw(self, lines: list[str]) -> None:
        """Show these lines, none of them wider than the screen."""
        if self.size != self._size:
            self._size, self._shown = self.size, []
            write("\x1b[2J")
        had = self._shown + [""] * len(lines)
        changed = [(row, line) for row, line in enumerate(lines) if line != had[row]]
        # The line is cleared first: clearing after a full line would remove its last character.
        write("".join(f"\x1b[{row + 1};1H\x1b[2K{line}" for row, line in changed))
        self._shown = lines

    def wait(self, seconds: float, bell: int | None = None) -> tuple[list[str], bool]:
        """Wait for keys, a new size or the bell. Returns the keys, and whether the bell rang."""
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
    """A screen of our own; the old one is restored at the end, also after an error."""
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
    """A descriptor that is readable when the size of the terminal has changed."""
    ear, mouth = os.pipe()
    os.set_blocking(mouth, False)

    def heard(_number: int, _frame: object) -> None:
        try:
            os.write(mouth, b".")
        except BlockingIOError:
            return  # the pipe is full of signals already

    before = signal.signal(signal.SIGWINCH, heard)
    try:
        yield ear
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(ear)
        os.close(mouth)


def write(text: str) -> None:
    """Write to the terminal, and flush."""
    sys.stdout.write(text)
    sys.stdout.flush()
