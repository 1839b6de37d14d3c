"""top: what the page shows, in a terminal, redrawn whenever something changes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext
from holdfast.cli.parser import Call
from holdfast.cli.printing import colours, document, out, talk
from holdfast.cli.terminal.keystrokes import QUIT
from holdfast.cli.terminal.pager import Pager
from holdfast.cli.terminal.screen import Screen, is_watched, screen
from holdfast.cli.terminal.sheet import Sheet
from holdfast.cli.terminal.tables import RED, terminal_width
from holdfast.cli.watching.top_parts import body, title
from holdfast.cli.watching.top_tasks import lists_of
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.manager.manager import LockManager
from holdfast.server.state.board import Board
from holdfast.server.state.event_history import EVENTS_MAX, History

#: How often it is redrawn without an event: times advance, and a process that dies writes none.
LOOK_SECONDS = 1.0
#: The least time between two redraws.
DRAW_SECONDS = 0.1
#: How many rows a table has at most: when it is printed once, and when it can be scrolled.
ROWS, ROWS_SCROLLED = 20, 1000

_NO_LEDGER = "there is no ledger here yet"


def top(call: Call) -> int:
    """Show the state until the person at the terminal quits; print it once without a terminal."""
    context = CommandContext(call)
    if call.flag("json") or not is_watched():
        return _once(call, context.find([]))
    with screen() as terminal, ExitStack() as stack:
        return Watching(context, terminal, stack).run()


def _once(call: Call, manager: LockManager | None) -> int:
    if manager is None:
        talk(_NO_LEDGER)
        return DONE
    state = View(manager).look()
    if call.flag("json"):
        document(state)
    else:
        out("\n".join(drawn(state, Sheet(terminal_width(), colours(), ROWS))))
    return DONE


def drawn(state: dict[str, Any], sheet: Sheet) -> list[str]:
    """Everything, as lines."""
    return [title(state, sheet), *body(state, sheet)]


class View:
    """The state, and the contended paths."""

    def __init__(self, manager: LockManager) -> None:
        self._manager = manager
        self._board = Board(manager)
        self._history = History()

    def look(self) -> dict[str, Any]:
        """The present state."""
        state = self._board.state()
        start = max(self._history.head, state["head"] - EVENTS_MAX)
        self._history.read(self._manager.events(start))
        state["contention"] = self._history.contention(ROWS)
        state["gaps"] = [gap.to_data() for gap in self._history.gaps()]
        state["lists"] = lists_of(self._manager, state)
        return state


class Watching:
    """The screen of a person at a terminal, who may scroll while things change."""

    def __init__(self, context: CommandContext, terminal: Screen, stack: ExitStack) -> None:
        self._context = context
        self._terminal = terminal
        self._stack = stack
        self._pager = Pager()
        self._view: View | None = None
        self._bell: int | None = None
        #: Why the state on the screen is an old one; empty if it is not.
        self._trouble = ""

    def run(self) -> int:
        """Show the state until the person quits."""
        state = self._look()
        while not self._is_over(state, monotonic()):
            try:
                state = self._look()
                self._trouble = ""
            except StoreError as error:
                if not error.is_away:
                    raise
                self._trouble = error.message
        return DONE

    def _look(self) -> dict[str, Any] | None:
        """The state; None while there is no ledger."""
        if self._view is None:
            manager = self._context.find([])
            if manager is None:
                return None
            self._view = View(manager)
            self._bell = self._stack.enter_context(_changes(manager))
        return self._view.look()

    def _is_over(self, state: dict[str, Any] | None, looked: float) -> bool:
        """Show the state until it is time to read it again. True if the person quits."""
        has_changed = False
        while True:
            self._show(state)
            due = looked + (DRAW_SECONDS if has_changed else LOOK_SECONDS)
            if due <= monotonic():
                return False
            bell = None if has_changed else self._bell
            keys, rang = self._terminal.wait(due - monotonic(), bell)
            if QUIT in keys:
                return True
            for key in keys:
                self._pager.press(key)
            has_changed = has_changed or rang

    def _show(self, state: dict[str, Any] | None) -> None:
        width, height = self._terminal.size
        sheet = Sheet(width, colours(), ROWS_SCROLLED)
        first = sheet.line(_NO_LEDGER) if state is None else title(state, sheet)
        if self._trouble:
            first = sheet.line(f"not up to date: {self._trouble}", RED)
        rest = [] if state is None else body(state, sheet)
        self._terminal.draw(self._pager.frame(first, rest, width, height))


@contextmanager
def _changes(manager: LockManager) -> Iterator[int]:
    """A descriptor that becomes readable whenever the ledger is written."""
    bell, rope = os.pipe()
    over = threading.Event()

    def follow() -> None:
        head = 0
        while not over.is_set():
            try:
                now = manager.store.wait(head, LOOK_SECONDS)
            except HoldfastError as error:  # the thread that draws meets it too, and reports it
                if not isinstance(error, StoreError) or not error.is_away:
                    return
                continue
            if now != head and not over.is_set():
                head = now
                os.write(rope, b".")

    thread = threading.Thread(target=follow, name="holdfast top", daemon=True)
    thread.start()
    try:
        yield bell
    finally:
        over.set()
