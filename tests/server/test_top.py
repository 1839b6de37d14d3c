"""top: what the page shows, in a terminal."""

from __future__ import annotations

import fcntl
import os
import re
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from browser.scenes import analysed, crowd, workshop
from helpers_agents import Agent, blocked
from helpers_cli import COMMAND, Repository, Terminal
from helpers_processes import until
from holdfast.cli.terminal.pager import Pager
from holdfast.cli.terminal.sheet import Sheet
from holdfast.cli.terminal.tables import wide
from holdfast.cli.watching.top import ROWS, View, drawn
from holdfast.gate.door.delegated_calls import GAP
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.engine import scheduler
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.scheduler import Here
from holdfast.work.engine.work_items import LockRequest


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workshop(tmp_path / "shop")


@pytest.fixture
def manager(root: Path) -> Iterator[LockManager]:
    with LockManager.open(str(root)) as found:
        yield found


def shown(manager: LockManager, width: int | None = None) -> str:
    return "\n".join(drawn(View(manager).look(), Sheet(width, False, ROWS)))


def busy(manager: LockManager) -> str:
    """One merge at work and one that waits for it; the grant of the first."""
    desk = ItemStore(manager)
    first, _second = (
        desk.enqueue(workflow, "apply", LockRequest.of([], ["app/shared.rb", f"{workflow}.rb"]))
        for workflow in ("blog/posts", "blog/tags")
    )
    assert first is not None
    claimed = desk.claim(first, Here().holder(first))
    assert isinstance(claimed, tuple)
    return claimed[0].grant_id


def test_it_shows_grants_and_waiting_requests(manager: LockManager) -> None:
    busy(manager)
    lines = shown(manager).splitlines()
    assert lines[0] == "shop · merging · 1 held · 1 waiting"
    work = next(line for line in lines if "and 1 more" in line)
    assert re.match(r"blog/posts +apply +\d+ s +app/shared.rb", work)
    waits = next(line for line in lines if line.startswith("blog/tags"))
    assert re.search(r"blog/posts +app/shared.rb is locked for writing", waits)
    assert any(line.startswith("CONTENDED") for line in lines)


def test_it_shows_trouble(manager: LockManager, root: Path) -> None:
    analysed(manager, root)
    grant = busy(manager)
    transactions.note(
        manager, GAP, {"grant": grant, "path": "z.rb", "why": "no", "client": "claude"}
    )
    Agent(manager, "ann").edit("app/x.rb")
    eve = blocked(manager, "eve", "app/x.rb").name
    transactions.note(manager, scheduler.BROKEN, {"error": "it fell"}, name=scheduler.TROUBLE)
    text = shown(manager)
    assert "the scheduler failed: it fell" in text
    assert "controllers: 2 awaiting decisions" in text
    assert "holdfast decide blog/posts approve|reject" in text
    assert re.search(r"gap +blog/posts +z.rb +no", text)
    said = rf"blocked, waits for its user +{re.escape(eve)} +app/x.rb +\S+ has it"
    assert re.search(said, text)


def test_it_shows_how_agents_stand_towards_files(manager: LockManager) -> None:
    ann, ben = Agent(manager, "ann"), Agent(manager, "ben")
    ann.edit("app/x.rb")
    ben.edit("app/y.rb")
    ann.edit("app/y.rb")
    ben.edit("app/x.rb")  # would deadlock, so it has no ticket
    lines = shown(manager).splitlines()
    assert lines[0] == "shop · ready · 2 held · 2 waiting"
    [has] = [line for line in lines if re.search(rf"{ann.name} .*app/x.rb +owned$", line)]
    due = r"due in (3 min|2 min \d+ s)"
    [waits] = [line for line in lines if line.startswith(ann.name) and line != has]
    assert re.search(rf"{ben.name} +retry pending, {due} +app/y.rb is locked for writing", waits)
    [stray] = [line for line in lines if "circle" in line]
    circle = rf"{ben.name} .*{ann.name} +retry pending, in a circle, {due} +wants app/x.rb"
    assert re.search(circle, stray)


def test_it_fits_the_screen_whatever_there_is(tmp_path: Path) -> None:
    with crowd(tmp_path / "crowd", items=120, events=300, out=6) as manager:
        for width, height in ((20, 1), (20, 2), (30, 6), (40, 12), (80, 24), (200, 60)):
            first, *rest = drawn(View(manager).look(), Sheet(width, False, 1000))
            lines = Pager().frame(first, rest, width, height)
            assert len(lines) == height
            assert all(wide(line) <= width for line in lines)
        assert "and 94 more" in shown(manager)


def test_nothing_of_a_text_reaches_the_terminal_as_a_command(manager: LockManager) -> None:
    data = {"error": "\x1b[2Jgone"}
    transactions.note(manager, scheduler.BROKEN, data, name=scheduler.TROUBLE)
    assert "\x1b" not in shown(manager)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


def test_without_a_terminal_it_is_drawn_once(repo: Repository) -> None:
    assert repo.hold("top").err == "there is no ledger here yet\n"
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    answer = repo.hold("top")
    assert answer.code == 0
    assert "ann" in answer.out
    assert "\x1b" not in answer.out
    data: Any = repo.hold("top", "--json").json
    assert data["locks"]["active_grants"][0]["holder"] == "ann"


def test_in_a_terminal_it_is_drawn_when_something_changes_and_q_ends_it(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    terminal = Terminal(repo)
    try:
        terminal.type(f"{' '.join(COMMAND)} top; echo ended with $?\n")
        terminal.shows("\x1b[?1049h", "it has a screen of its own")
        terminal.shows("ann")
        repo.hold("lock", "app/y.rb", "--holder", "ben")
        terminal.shows("ben")
        terminal.type("q")
        terminal.shows("\x1b[?1049l", "the old screen is back")
        terminal.shows("ended with 0")
        terminal.type("stty -a\n")
        terminal.shows(" icanon", "the terminal is as it was")
    finally:
        terminal.close()


@contextmanager
def at_top(repo: Repository, columns: int = 80, lines: int = 24) -> Iterator[Terminal]:
    """A terminal of that size in which top runs; at the end top must have exited with 0."""
    terminal = Terminal(repo, TERM="xterm")
    try:
        termios.tcsetwinsize(terminal.master, (lines, columns))
        terminal.type(f"{' '.join(COMMAND)} top; echo ended with $?\n")
        terminal.shows("q quits", "the keys are shown")
        yield terminal
        assert b"\x1b[?1049l" not in terminal.read(), "no other key has ended it"
        terminal.type("q")
        terminal.shows("ended with 0")
    finally:
        terminal.close()


def many(repo: Repository, count: int) -> None:
    for one in range(count):
        repo.hold("lock", f"app/f{one:02}.rb", "--holder", f"holder{one:02}")


def until_at(terminal: Terminal, place: str) -> None:
    """Wait until these lines are shown according to the last line."""

    def is_there() -> bool:
        found: list[bytes] = re.findall(rb"(\d+-\d+) of \d+", terminal.read())
        return found[-1:] == [place.encode()]

    until(is_there, f"it shows the lines {place}")


#: Texts that are typed, each with a write of its own, and the lines that are shown then.
WALK = [
    (["\x1b[B"], "2-9"), (["\x1bOB"], "3-10"), (["j", "j", "k"], "4-11"), (["\x1b[A"], "3-10"),
    (["\x1b[6~"], "10-17"), (["\x1b[5~"], "3-10"), (["\x1b[F"], "15-22"), (["\x1b[H"], "1-8"),
    (["\x1b[4~"], "15-22"), (["\x1b[1~"], "1-8"), (["\x1b[1;5B"], "2-9"),
    (["\x1b", "[", "B"], "3-10"), (["\x1b[", "6", "~"], "10-17"), (["\x1b", "[A"], "9-16"),
    (["\x1b", "j"], "10-17"), (["\x1b[D", "\x1b[C", "\x1bOP", "x", "k"], "9-16"),
]  # fmt: skip


def test_keys_scroll_also_in_pieces_and_none_but_q_quits(repo: Repository) -> None:
    many(repo, 20)
    with at_top(repo, lines=10) as terminal:
        until_at(terminal, "1-8")
        for keys, then in WALK:
            for key in keys:
                terminal.type(key)
                until(lambda: _unread(terminal) == 0, "top has read the key")
            until_at(terminal, then)


def _unread(terminal: Terminal) -> int:
    """How many typed bytes no process has read."""
    slave = os.open(f"/proc/{terminal.pid}/fd/0", os.O_RDWR | os.O_NOCTTY)
    try:
        return int.from_bytes(fcntl.ioctl(slave, termios.FIONREAD, bytes(4)), sys.byteorder)
    finally:
        os.close(slave)


def test_a_lone_escape_does_not_quit(repo: Repository) -> None:
    with at_top(repo) as terminal:
        terminal.type("\x1b")
        until(lambda: _unread(terminal) == 0, "top has read the key")
        repo.hold("lock", "app/y.rb", "--holder", "ben")
        terminal.shows("ben", "it goes on")


def test_it_is_drawn_anew_when_the_terminal_gets_another_size(repo: Repository) -> None:
    many(repo, 20)
    with at_top(repo, lines=10) as terminal:
        until_at(terminal, "1-8")
        termios.tcsetwinsize(terminal.master, (16, 80))
        until_at(terminal, "1-14")
        termios.tcsetwinsize(terminal.master, (5, 30))
        until_at(terminal, "1-3")


def test_an_interrupt_gives_the_terminal_back(repo: Repository) -> None:
    terminal = Terminal(repo)
    try:
        terminal.type(f"{' '.join(COMMAND)} top; echo ended with $?\n")
        terminal.shows("there is no ledger here yet")
        terminal.type("\x03")
        terminal.shows("ended with 130")
        assert b"\x1b[?1049l" in terminal.read()
    finally:
        terminal.close()
