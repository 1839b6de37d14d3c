"""What a demo prints: one screen that is redrawn on a terminal, one line per event elsewhere."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.cli.demo.demo_screens_story import News, Story
from holdfast.cli.demo.demo_words import GREEN, WIDTH, Words, wrapped
from holdfast.cli.printing import is_terminal, listed, out
from holdfast.cli.terminal.tables import (
    BOLD,
    DIM,
    RED,
    YELLOW,
    Cell,
    Column,
    render,
    terminal_height,
    terminal_width,
)
from holdfast.core.model import SECOND

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.cli.demo.demo_checks import Finding

NAME_WIDTH = 22
STATE_WIDTH = 10
#: How many of the last news stay on the screen.
NEWS_LINES = 7
#: How many files, and how many of the waiting agents, are listed at the end.
FILES_SHOWN = 5
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_STATES = {"completed": GREEN, "error": RED, "idle": DIM, "queued": DIM}


class Show(Words):
    """Prints events as they happen."""

    def __init__(self, groups: Mapping[str, int], *, quiet: bool) -> None:
        """`groups` are the controllers, each with how many screens it has."""
        super().__init__(quiet=quiet)
        self._groups = groups
        self._is_live = not quiet and _has_room(len(groups) + NEWS_LINES + 6)
        self._frame = 0
        self._news: list[str] = []

    # While it runs

    def tell(self, story: Story, news: Sequence[News]) -> None:
        """Something has happened."""
        for one in news:
            seconds = (one.at - story.began) / SECOND
            lines = self.news(seconds, one.who, one.text, one.colour, NAME_WIDTH)
            if self._is_live:
                self._news = [*self._news, *lines][-NEWS_LINES:]
            else:
                self.line("\n".join(lines))

    def draw(self, story: Story, seconds: float) -> None:
        """Draw the present state over the one before."""
        if not self._is_live:
            return
        lines = [self._headline(story, seconds), "", *self._table(story), ""]
        lines += [*self._news, *[""] * (NEWS_LINES - len(self._news))]
        up = f"\x1b[{self._frame}A\r" if self._frame else _HIDE_CURSOR
        self._frame = len(lines)
        out(up + "\n".join(f"{line}\x1b[K" for line in lines))

    def end(self) -> None:
        """Leave the screen as it is, and restore the terminal."""
        if self._frame:
            self._frame = 0
            self.line(_SHOW_CURSOR)

    def _headline(self, story: Story, seconds: float) -> str:
        done = sum(state == "completed" for state in story.states.values())
        told = (
            f"{seconds:5.1f} s   {len(story.out)} agents running   {story.queued} waiting   "
            f"{done} of {len(self._groups)} done   {len(story.waits)} conflicts avoided"
        )
        return self.painted(told, BOLD)

    def _table(self, story: Story) -> list[str]:
        columns = [Column("CONTROLLER"), Column("SCREENS"), Column("STATE"), Column("", 10)]
        rows = []
        for group, screens in self._groups.items():
            state = story.states.get(group, "idle")
            waits = [wait for wait in story.waiting() if f"{wait.waiter}/".startswith(f"{group}/")]
            why = f"waits for {waits[0].holder}: {waits[0].path}" if waits else ""
            said = f"{state.replace('_', ' '):<{STATE_WIDTH}}"
            done = f"{story.analysed(group)} of {screens}"
            colour = _STATES.get(state, "")
            rows.append([Cell(group), Cell(done), Cell(said, colour), Cell(why, YELLOW)])
        return render(columns, rows, width=(terminal_width() or WIDTH) - 1, colours=self.colours)

    # The end

    def report(self, result: Mapping[str, Any], findings: Sequence[Finding]) -> None:
        """The result, and whether every check passed."""
        self.title("What happened")
        for name, text in facts(result):
            first, *rest = wrapped(text, WIDTH - 14)
            self.line(f"  {name:<12}{first}")
            for line in rest:
                self.line(f"{'':14}{line}")
        self._conflicts(result)
        self.title(
            f"Checked by reading {result['events']} events, {result['files']} files and "
            f"{result['diaries']} diaries again"
        )
        self.findings(findings)

    def _conflicts(self, result: Mapping[str, Any]) -> None:
        waits: list[dict[str, Any]] = result["waits"]
        if not waits:
            return
        self.title("Conflicts that did not happen")
        behind: dict[str, dict[str, None]] = {}
        for wait in waits:
            behind.setdefault(wait["waiter"], {})[wait["holder"]] = None
        width = max(map(len, behind))
        for waiter, holders in behind.items():
            first, *rest = wrapped(f"waited for {listed(holders)}", WIDTH - 4 - width)
            self.line(f"  {waiter:<{width}}  {first}")
            for line in rest:
                self.line(f"  {'':<{width}}  {line}")
        self.say("The most contended files:")
        for path, count, seconds in result["contended"][:FILES_SHOWN]:
            told = f"{count:3} wait{'s' * (count > 1)}"
            self.line(f"    {path:<40}{told:<9}  {seconds:5.1f} s")


def facts(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What happened, without what did not happen."""
    wall, work = result["seconds"], result["work_seconds"]
    done = f"{result['screens']} screens analysed, {result['controllers']} controllers merged"
    times = f" ({work / wall:.1f} times)" if wall else ""
    told = [
        ("work", f"{done}, tested and verified"),
        ("time", f"{wall:.1f} s; one at a time, the same work takes {work:.1f} s{times}"),
        ("at once", f"{result['agents_at_once']} agents at the busiest moment"),
        (
            "conflicts",
            f"{result['conflicts_avoided']} avoided: one waited until the other was done",
        ),
    ]
    for gap in result["gaps"]:
        wanted = f"{gap['workflow']} wanted to write {gap['path']}, which no analysis had named"
        end = (
            result["unguarded"] or "the kernel refused it, and the gap is recorded (holdfast gaps)"
        )
        told.append(("refused", f"{wanted}: {end}"))
    if crash := result["crash"]:
        end = "its files were restored, and it was run again"
        told.append(("crashed", f"{crash['workflow']}, in the middle of an edit: {end}"))
    if hang := result["hang"]:
        end = (
            f"ended after {hang['seconds']:.0f} s with every process that they had started; "
            "fixed and run again"
        )
        told.append(("hung", f"the tests of {hang['workflow']}: {end}"))
    if killed := result["killed"]:
        end = "dispatch --resume continued from the ledger"
        told.append(
            ("killed", f"the dispatcher itself, with {killed['agents_out']} agents running: {end}")
        )
    return told


def _has_room(lines: int) -> bool:
    """Whether there is a terminal on which so many lines can be redrawn."""
    if not is_terminal() or os.environ.get("TERM") == "dumb":
        return False
    return (terminal_width() or 0) >= WIDTH and (terminal_height() or 0) > lines
