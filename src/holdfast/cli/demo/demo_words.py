"""How a demo prints: titles, sentences, news with their time, and the results of its checks."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from holdfast.cli.printing import colours, out, plain
from holdfast.cli.terminal.tables import BOLD, DIM, RED, YELLOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.demo.demo_checks import Finding

WIDTH = 80
GREEN = "32"
MARKS = {True: ("ok", GREEN), False: ("NO", RED), None: ("--", YELLOW)}


class Words:
    """Prints, unless it is quiet; in colours on a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self.colours = not quiet and colours()

    def title(self, text: str) -> None:
        """Start a section."""
        self.line("")
        self.line(self.painted(text, BOLD))

    def say(self, text: str) -> None:
        """A paragraph."""
        for line in wrapped(text, WIDTH - 2):
            self.line(f"  {line}")

    def paste(self, text: str) -> None:
        """Text that a person may copy: in one piece, however long."""
        self.line(f"  {text}")

    def pause(self) -> None:
        """An empty line."""
        self.line("")

    def painted(self, text: str, colour: str) -> str:
        """A text in a colour, where colours are shown."""
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours and colour and text else text

    def line(self, text: str) -> None:
        """One line, or several, as they are."""
        if not self._quiet:
            out(text)

    def news(self, seconds: float, who: str, text: str, colour: str, width: int) -> list[str]:
        """The lines of one piece of news: when, who, and what; `width` is that of the names."""
        first, *rest = wrapped(text, WIDTH - 10 - width)
        at = self.painted(f"{seconds:6.1f}", DIM)
        lines = [f"{at}  {plain(who):<{width}}  {self.painted(first, colour)}"]
        indent = " " * (10 + width)
        return lines + [indent + self.painted(line, colour) for line in rest]

    def findings(self, findings: Sequence[Finding]) -> None:
        """Each question with its answer, and what to do if one of them is no."""
        for finding in findings:
            mark, colour = MARKS[finding.passed]
            first, *rest = wrapped(f"{finding.question} ({finding.detail})", WIDTH - 6)
            self.line(f"  {self.painted(mark, colour)}  {first}")
            for more in rest:
                self.line(f"      {more}")
        self.line("")
        if any(finding.passed is False for finding in findings):
            self.say("Not every check passed: please report this.")


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of a width; a word is never broken."""
    found = textwrap.wrap(plain(text), width, break_on_hyphens=False, break_long_words=False)
    return found or [""]
