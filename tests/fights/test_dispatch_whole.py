"""The dispatcher and its launchers are killed at random moments, and a person takes the files
before the next dispatcher does: the files are never half done, and what the person writes stays."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

from helpers_processes import LINUX_ONLY
from test_dispatch_killed import END_SECONDS, SCREENS, SHARED, Doomed, _signed

pytestmark = LINUX_ONLY

SECONDS = 30.0
KILLS_MAX = 12


class Visited(Doomed):
    """An application where a person takes the shared file and writes a line into it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, orphans=0)
        self.lines: list[str] = []

    def has_come(self, head: int) -> Callable[[], bool]:
        return lambda: self.head() >= head

    def visit(self) -> None:
        """Take all files, as the gate or a command would; check that they are whole; write one of
        them."""
        paths = [f"app/controllers/{group}_controller.rb" for group in SCREENS]
        grant = self.manager.acquire(
            holder="person", write_paths=[*paths, SHARED], timeout=END_SECONDS
        )
        for path in (*paths, SHARED):
            self.whole(path)
        line = f"person-{len(self.lines)}"
        body = f"{self.whole(SHARED)}{line}\n"
        self.lines.append(line)
        (self.root / SHARED).write_text(_signed(body))
        self.manager.release(grant.id)

    def whole(self, path: str) -> str:
        file = self.root / path
        text = file.read_text() if file.exists() else ""
        body = text.rpartition("sum ")[0]
        assert text in ("", _signed(body)), f"{path} is half done: {text!r}\n{self.told()}"
        lost = [line for line in self.lines if path == SHARED and line not in body.split()]
        assert not lost, f"what a person wrote was undone: {lost}\n{self.told()}"
        return body

    def _files_are_whole(self) -> None:
        for group in SCREENS:
            body = self.whole(f"app/controllers/{group}_controller.rb")
            assert body.split() == ["old", group]
        assert sorted(self.whole(SHARED).split()) == sorted([*SCREENS, *self.lines])


def test_a_person_who_comes_between_two_kills_finds_no_file_half_done(tmp_path: Path) -> None:
    dice = random.Random(7)
    end = time.monotonic() + SECONDS
    kills = number = 0
    while kills < KILLS_MAX and time.monotonic() < end:
        number += 1
        app = Visited(tmp_path / str(number))
        try:
            for _ in range(4):
                one = app.start()
                if not app.goes_on(app.has_come(app.head() + dice.randint(1, 40))):
                    break
                time.sleep(dice.uniform(0, 0.05))  # not only when the ledger changes
                app.kill(one, itself=True, launchers=dice.random() < 0.7)
                app.visit()
                kills += 1
            app.finish()
            app.check()
        finally:
            app.close()
    assert kills >= 3
