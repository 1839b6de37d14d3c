"""top: what the page shows, in a terminal. It is drawn again whenever something changes."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from select import select
from typing import Any

from holdfast.cli import DONE
from holdfast.cli.opening import Desk
from holdfast.cli.parser import Call
from holdfast.cli.printing import colours, document, is_terminal, out, plain, talk
from holdfast.cli.tables import (
    BOLD,
    DIM,
    MORE,
    RED,
    YELLOW,
    Cell,
    Column,
    cut,
    render,
    terminal_height,
    terminal_width,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.model import SECOND
from holdfast.core.words import duration
from holdfast.gate.rulebook.states import BLOCKED, RETRY_PENDING
from holdfast.manager.manager import LockManager
from holdfast.server.board import Board
from holdfast.server.history import EVENTS_MAX, History

#: How often it is drawn although nothing happened: time passes, and what dies says nothing.
LOOK_SECONDS = 1.0
#: How often it is drawn at most.
DRAW_SECONDS = 0.1
#: How many rows each part has where nobody counts lines, and the least that it has where one does.
ROWS, ROWS_LEAST = 20, 3
_QUIT = ("q", "Q", "\x03", "\x1b")


def top(call: Call) -> int:
    """Show it until somebody has seen enough; once, where no person looks."""
    desk = Desk(call)
    manager = desk.find([])
    if call.flag("json") or not _is_watched():
        return _once(call, manager)
    with _screen() as keys:
        while manager is None:
            _draw(["there is no ledger here yet; q ends"])
            if keys.pressed(LOOK_SECONDS):
                return DONE
            manager = desk.find([])
        with _changes(manager) as bell:
            view = View(manager)
            while True:
                _draw(drawn(view.look(), terminal_width(), terminal_height(), colours()))
                if keys.pressed(DRAW_SECONDS) or keys.pressed(LOOK_SECONDS, bell):
                    return DONE


def _once(call: Call, manager: LockManager | None) -> int:
    if manager is None:
        talk("there is no ledger here yet")
        return DONE
    state = View(manager).look()
    if call.flag("json"):
        document(state)
    else:
        out("\n".join(drawn(state, terminal_width(), None, colours())))
    return DONE


class View:
    """How things stand, and what was fought over."""

    def __init__(self, manager: LockManager) -> None:
        self._manager = manager
        self._board = Board(manager)
        self._history = History()

    def look(self) -> dict[str, Any]:
        """As it is now."""
        state = self._board.state()
        start = max(self._history.head, state["head"] - EVENTS_MAX)
        self._history.read(self._manager.events(start))
        state["contention"] = self._history.contention(ROWS)
        state["gaps"] = [gap.to_data() for gap in self._history.gaps()]
        return state


# Drawing


def drawn(
    state: dict[str, Any], width: int | None, height: int | None, coloured: bool
) -> list[str]:
    """All of it as lines. Where the height is known, none too many."""
    parts = [_at_work(state), _waiting(state), _contended(state), _troubles(state)]
    parts = [part for part in parts if part[1]]
    lines = [_bold(_headline(state), width, coloured), *_banners(state, width, coloured)]
    left = None if height is None else max(0, height - len(lines) - 1)
    for at, (columns, rows) in enumerate(parts):
        most = ROWS if left is None else max(ROWS_LEAST, left // (len(parts) - at) - 3)
        table = render(columns, rows[:most], width=width, colours=coloured)
        if len(rows) > most:
            table.append(f"{MORE} and {len(rows) - most} more")
        lines += ["", *table]
        left = None if left is None else left - len(table) - 1
    return lines if height is None else lines[: max(1, height - 1)]


Part = tuple[list[Column], list[list[Cell]]]


def _headline(state: dict[str, Any]) -> str:
    items = state["items"]
    waiting = items.get("queued", 0) + len(state["tickets"]) + len(_strays(state))
    parts = [
        state["name"], state["phase"].replace("_", " "),
        f"{len(state['locks']['active_grants'])} held", f"{waiting} waiting",
    ]  # fmt: skip
    parts += [f"{items[one]} {word}" for one, word in (("completed", "done"), ("error", "failed"))
              if items.get(one)]  # fmt: skip
    return plain(" · ".join(parts))


def _banners(state: dict[str, Any], width: int | None, coloured: bool) -> list[str]:
    told = []
    if state["trouble"]:
        told.append((f"the scheduler broke: {state['trouble']}", RED))
    if state["off"]:
        told.append((state["off"], YELLOW))
    counts = Counter(one["state"] for one in state["controllers"])
    if counts:
        words = (f"{number} {name.replace('_', ' ')}" for name, number in counts.most_common())
        told.append((f"controllers: {', '.join(words)}", DIM))
    undecided = [one["name"] for one in state["controllers"] if one["state"] == _UNDECIDED]
    if undecided:
        told.append((f"to decide: holdfast decide {undecided[0]} approve|reject", YELLOW))
    return [_coloured(plain(text), colour, width, coloured) for text, colour in told]


_UNDECIDED = "awaiting_decisions"


def _at_work(state: dict[str, Any]) -> Part:
    now = _moment(state["now"])
    columns = [
        Column("AT WORK", 14), Column("PHASE"), Column("FOR"), Column("HAS", 16),
        Column("STATE", 12, prose=True),
    ]  # fmt: skip
    standing = _standing(state)
    rows = [
        [
            Cell(one["name"]), Cell(one["phase"]),
            Cell(duration(now - _moment(one["acquired_at"]))), Cell(_covers(one)),
            Cell(_words(standing, one)),
        ]
        for one in state["locks"]["active_grants"]
    ]  # fmt: skip
    return columns, rows


def _standing(state: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """How agents stand, by their keys and the files."""
    return {(one["key"], one["file"]): one for one in state["agents"]}


def _words(standing: dict[tuple[str, str], dict[str, Any]], one: dict[str, Any]) -> str:
    """How the owner of a grant or of a place in line stands; nothing if that is no agent."""
    key, paths = one.get("owner", {}).get("key", ""), one["write_paths"]
    found = standing.get((key, paths[0])) if paths else None
    return "" if found is None else str(found["words"])


def _strays(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Agents that wait and stand in no line."""
    return [one for one in state["agents"] if one["state"] == RETRY_PENDING and not one["line"]]


def _waiting(state: dict[str, Any]) -> Part:
    now = _moment(state["now"])
    columns = [
        Column("WAITING", 14), Column("PHASE"), Column("FOR"), Column("BEHIND", 10),
        Column("STATE", 12, prose=True), Column("WHY", 16, prose=True),
    ]  # fmt: skip
    rows = []
    standing = _standing(state)
    for one in (*state["tickets"], *state["waiting"]):
        since = _moment(one["since"]) if "since" in one else one["queued"]
        name = one.get("workflow") or one["holder"]
        behind = ", ".join(one.get("for", ()))
        why = one.get("why") or []
        reason = (
            _why(why[0]) if why else f"waits for {one['sentence']}" if one.get("sentence") else ""
        )
        rows.append(
            [Cell(name), Cell(one.get("phase", "")), Cell(duration(now - since)),
             Cell(behind, YELLOW), Cell(_words(standing, one)), Cell(reason)]
        )  # fmt: skip
    rows += [
        [Cell(one["agent"]), Cell(""), Cell(duration(now - _moment(one["since"]))),
         Cell(one["owner"], YELLOW), Cell(one["words"]), Cell(f"wants {one['file']}")]
        for one in _strays(state)
    ]  # fmt: skip
    return columns, rows


def _why(conflict: dict[str, Any]) -> str:
    if conflict["kind"] == "reservation":
        return f"{conflict['path']} is reserved"
    verb = "written" if conflict["held_mode"] == "write" else "read"
    return f"{conflict['path']} is being {verb}"


def _contended(state: dict[str, Any]) -> Part:
    columns = [Column("CONTENDED", 20), Column("WAITING"), Column("WAITED"), Column("HELD")]
    rows = [
        [
            Cell(one["path"]), Cell(str(one["waiting"] or "")),
            Cell(duration(round(one["waited_seconds"] * SECOND))),
            Cell(duration(round(one["held_seconds"] * SECOND))),
        ]
        for one in state["contention"]
    ]  # fmt: skip
    return columns, rows


def _troubles(state: dict[str, Any]) -> Part:
    columns = [
        Column("TROUBLE"),
        Column("WHO", 12),
        Column("WHAT", 16),
        Column("WHY", 16, prose=True),
    ]
    rows = [
        [Cell("error", RED), Cell(one["name"]), Cell(""), Cell(one["reason"])]
        for one in state["controllers"]
        if one["state"] == "error"
    ]
    rows += [
        [Cell(one["words"], YELLOW), Cell(one["agent"]), Cell(one["file"]),
         Cell(f"{one['owner']} has it" if one["owner"] else "")]
        for one in state["agents"]
        if one["state"] == BLOCKED
    ]  # fmt: skip
    rows += [
        [Cell("gap", YELLOW), Cell(gap["workflow"]), Cell(gap["path"]), Cell(gap["why"])]
        for gap in reversed(state["gaps"])
    ]
    return columns, rows


def _covers(grant: dict[str, Any]) -> str:
    paths = [*grant["write_paths"], *(f"{path} (read)" for path in grant["read_paths"])]
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{paths[0]}{more}" if paths else ""


def _moment(text: str) -> int:
    """A moment of ledger time, in microseconds, from how it is written."""
    from datetime import datetime

    return round(datetime.fromisoformat(text).timestamp() * SECOND)


def _bold(text: str, width: int | None, coloured: bool) -> str:
    return _coloured(text, BOLD, width, coloured)


def _coloured(text: str, colour: str, width: int | None, coloured: bool) -> str:
    text = text if width is None else cut(text, width)
    return f"\x1b[{colour}m{text}\x1b[0m" if coloured else text


# The terminal


def _is_watched() -> bool:
    """Whether a person sees it as it comes and can say when it is enough."""
    try:
        import termios  # noqa: F401
    except ImportError:  # Windows
        return False
    return is_terminal() and sys.stdin is not None and sys.stdin.isatty()


class _Keys:
    """What is typed, as it is typed, where the system has that."""

    def __init__(self, file: int) -> None:
        self._file = file

    def pressed(self, seconds: float, bell: int | None = None) -> bool:
        """Wait so long, or until the bell rings. True if somebody wants to go."""
        heard = [self._file] if bell is None else [self._file, bell]
        ready, _, _ = select(heard, [], [], seconds)
        if bell in ready:
            os.read(bell, 4096)
        if self._file not in ready:
            return False
        typed = os.read(self._file, 64).decode("utf-8", "replace")
        return not typed or typed[0] in _QUIT


@contextmanager
def _screen() -> Iterator[_Keys]:
    """A screen of our own, which gives back the old one in the end, whatever happens."""
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)
        _write("\x1b[?1049h\x1b[?25l")
        yield _Keys(file)
    finally:
        _write("\x1b[?25h\x1b[?1049l")
        termios.tcsetattr(file, termios.TCSADRAIN, before)


@contextmanager
def _changes(manager: LockManager) -> Iterator[int]:
    """A descriptor that can be read whenever something was written to the ledger."""
    bell, rope = os.pipe()
    over = threading.Event()

    def follow() -> None:
        head = 0
        while not over.is_set():
            try:
                now = manager.store.wait(head, LOOK_SECONDS)
            except HoldfastError:
                return  # whoever draws meets the same trouble, and says so
            if now != head and not over.is_set():
                head = now
                os.write(rope, b".")

    thread = threading.Thread(target=follow, name="holdfast top", daemon=True)
    thread.start()
    try:
        yield bell
    finally:
        over.set()


def _draw(lines: list[str]) -> None:
    _write("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
