"""The players of recorded fights: the turns of one holder, and programs made of them.

    python history_player.py ROOT FOLDER NAME HABIT SEED SECONDS BUG [STORE]

is such a program, with a habit of its own: it walks its own tree, forks, becomes a daemon, opens
and closes the ledger all the time, or lets its leases expire. It ends by itself when its time is
over, even if its parent is dead. It does not import pytest, because it starts often.

STORE is the URL of a store on a server, which may be away for longer than a call waits. A program
that gets no answer then does not know what it holds: it ends, and so does all that it held.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

from histories import Journal, Recorder
from holdfast import LockGrant, LockManager, StoreError
from holdfast.manager import manager

#: Two connected sets of files, one of them of two trees that a few requests join, and a port.
TREES = (("a", "b"), ("c",))
FILES = ("0", "1", "2")
PORT = "port:5432"

LONG_TTL, SHORT_TTL = 60.0, 0.15
WORK_SECONDS, PAUSE_SECONDS = 0.0005, 0.002


class Player:
    """Takes turns as one holder: requests, verifies, writes, releases, or forgets to release."""

    def __init__(self, recorder: Recorder, dice: random.Random, *, ttl: float = LONG_TTL) -> None:
        self.recorder = recorder
        self.dice = dice
        self.ttl = ttl
        self._last: LockGrant | None = None

    def turn(self, while_held: Callable[[LockGrant], None] = lambda grant: None) -> None:
        """Request something and use it."""
        grant = self._ask()
        if grant is None:
            self._look_back()
            self._rest(PAUSE_SECONDS)
            return
        for _ in range(self.dice.randrange(3)):
            self._use(grant)
        while_held(grant)
        self._rest(WORK_SECONDS)
        if self.ttl == SHORT_TTL and self.dice.random() < 0.2:
            if self.dice.random() < 0.5:
                pause(1.2 * SHORT_TTL)
                self._use(grant)
            self._last = grant
            return
        self.recorder.release(grant)
        if self.dice.random() < 0.1:
            self.recorder.release(grant)
        self._last = grant
        self._look_back()
        self._rest(PAUSE_SECONDS)

    def _ask(self) -> LockGrant | None:
        reads, writes = self._wanted()
        ttl = None if self.ttl == LONG_TTL and self.dice.random() < 0.3 else self.ttl
        if self.dice.random() < 0.6:
            return self.recorder.try_acquire(read_paths=reads, write_paths=writes, ttl=ttl)
        timeout = self.dice.choice((0.01, 0.1, 1.0))
        patience = 0.02 if self.dice.random() < 0.1 else 600
        return self.recorder.acquire(
            read_paths=reads, write_paths=writes, ttl=ttl, timeout=timeout, patience=patience
        )

    def _wanted(self) -> tuple[list[str], list[str]]:
        trees = self.dice.choice(TREES)
        tree = self.dice.choice(trees)
        draw = self.dice.random()
        if draw < 0.05:
            return [], [PORT]
        if draw < 0.2:
            return [f"{tree}/"], []
        if draw < 0.3:
            return [f"{tree}/{self.dice.choice(FILES)}"], []
        if draw < 0.35 and len(trees) > 1:
            return [], [f"{tree}/{self.dice.choice(FILES)}" for tree in trees]
        names = self.dice.sample(FILES, self.dice.choice((1, 1, 1, 2)))
        return [], [f"{tree}/{name}" for name in names]

    def _use(self, grant: LockGrant) -> None:
        draw = self.dice.random()
        if draw < 0.4:
            self.recorder.verify(grant)
        elif draw < 0.5:
            self.recorder.verify(grant, token=grant.token - 1)
        elif draw < 0.8:
            with self.recorder.fenced(grant) as entered:
                if entered:
                    self._rest(WORK_SECONDS / 4)
        else:
            self.recorder.renew(grant)

    def _look_back(self) -> None:
        if self._last is not None and self.dice.random() < 0.15:
            self._use(self._last)

    def _rest(self, seconds: float) -> None:
        pause(self.dice.expovariate(1 / seconds))


def pause(seconds: float) -> None:
    """Sleep by a relative time: where the clocks are wrong on purpose, an absolute one is refused
    now and then."""
    select.select([], [], [], seconds)


class Program:
    """A process that plays, with a habit."""

    def __init__(
        self, root: str, folder: str, name: str, habit: str, seed: int, seconds: float, store: str
    ) -> None:
        self.root = root
        self.store = store or None
        self.folder = folder
        self.name = name
        self.over = f"{root}/over"
        self.habit = habit
        self.dice = random.Random(seed)
        self.end = time.monotonic() + seconds
        self.turns_left = 1 << 60
        self.is_ending = False
        self.journal = Journal(folder, name)
        self.journals = [self.journal]
        self.threads: list[threading.Thread] = []
        self.manager = LockManager.open(root, store=self.store)
        self.player = self._new_player()

    def _new_player(self) -> Player:
        ttl = SHORT_TTL if self.habit == "forgets" else LONG_TTL
        return Player(Recorder(self.manager, self.journal, "player"), self.dice, ttl=ttl)

    def run(self) -> None:
        try:
            if self.habit == "threads":
                self._beside_each_other()
            while not self._is_over():
                self.turns_left -= 1
                self._turn()
            for thread in self.threads:
                thread.join()
        finally:
            for journal in self.journals:
                journal.leave()
        self.manager.close()

    def _is_over(self) -> bool:
        if self.is_ending or not self.turns_left:
            return True
        return os.path.exists(self.over) or time.monotonic() >= self.end

    def _turn(self) -> None:
        here = os.getpid()
        try:
            self.player.turn(self.while_held)
        except StoreError as error:
            if os.getpid() == here:
                self._end_after(error)
            # A signal forked this process in the middle of a call, which is its parent's.
        if not self.is_ending:
            getattr(self, f"_{self.habit}")()

    def _end_after(self, error: StoreError) -> None:
        """End soon if a server may be away. Elsewhere every call has an answer."""
        if self.store is None:
            raise error
        self._note("unanswered")
        self.is_ending = True

    def while_held(self, grant: LockGrant) -> None:
        """Some programs fork while they hold a lock, which stays the parent's."""
        if self.habit == "forks" and self.dice.random() < 0.03:
            parent = os.getpid()
            self._fork()
            if os.getpid() != parent:
                self.player.recorder.verify(grant)
                self.run()
                os._exit(0)

    def _fork_inside(self, _signal: int, frame: FrameType | None) -> None:
        """Fork if a call is under way. At its very start, or between two calls, the child would
        make a call of its own, which no record has."""
        while frame is not None and frame.f_back is not None:
            frame = frame.f_back
            if frame.f_code.co_filename == manager.__file__:
                self._note("forked-inside")
                self._fork()
                return

    # Habits

    def _threads(self) -> None:
        pass

    def _beside_each_other(self) -> None:
        """Three more threads share the manager, each as a holder of its own."""

        def play(number: int) -> None:
            journal = Journal(self.folder, f"{self.name}-{number}")
            self.journals.append(journal)
            recorder = Recorder(self.manager, journal, f"thread-{number}")
            player = Player(recorder, random.Random(self.dice.random() + number))
            try:
                while not self._is_over():
                    player.turn()
            except StoreError as error:
                self._end_after(error)
            except BaseException:
                self.note_trouble()
                raise

        for number in range(3):
            self.threads.append(threading.Thread(target=play, args=(number,), daemon=True))
            self.threads[-1].start()

    def _is_signalled(self) -> None:
        """Sometimes a signal arrives during a call, and its handler forks."""
        if self.dice.random() < 0.2:
            signal.signal(signal.SIGALRM, self._fork_inside)
            signal.setitimer(signal.ITIMER_REAL, self.dice.uniform(0.0001, 0.01))
        self._await_children()

    def _plays(self) -> None:
        pass

    def _forgets(self) -> None:
        pass

    def _walks(self) -> None:
        """Read every file below the root, including the ledger's, as a backup does."""
        if self.dice.random() < 0.3:
            for folder, _, names in os.walk(self.root):
                for name in names:
                    try:
                        file = os.open(f"{folder}/{name}", os.O_RDONLY)
                    except OSError:  # a socket, or gone
                        continue
                    os.read(file, 4096)
                    os.close(file)
            self._note("walked")

    def _opens(self) -> None:
        """Reopen the ledger after some turns, as short commands do."""
        if self.dice.random() < 0.3:
            self.manager.close()
            try:
                self.manager = LockManager.open(self.root, store=self.store)
            except StoreError as error:
                self._end_after(error)
                return
            self.player.recorder.manager = self.manager
            self._note("opened")

    def _forks(self) -> None:
        """Fork; both sides continue, the child for some turns."""
        self._await_children()
        if self.dice.random() < 0.08:
            self._fork()

    def _await_children(self) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            pass

    def _fork(self) -> None:
        seed = self.dice.random()
        if os.fork() == 0:
            self.habit = "walks" if seed < 0.3 else "plays"
            self.dice.seed(seed)
            self.turns_left = 20
            self._note("forked")

    def _daemonises(self) -> None:
        """Fork twice, leave the session, close everything, go on. The parent leaves its locks."""
        if self.dice.random() < 0.06:
            seed = self.dice.random()
            if seed < 0.3:
                self.player.recorder.try_acquire(write_paths=["a/0"], ttl=None)
            if os.fork():
                self.journal.leave()
                os._exit(0)
            os.setsid()
            if os.fork():
                os._exit(0)
            os.closerange(0, 256)
            for _ in range(3):
                os.open(os.devnull, os.O_RDWR)
            self.dice.seed(seed)
            self._note("daemonised")

    def note_trouble(self) -> None:
        """Report an error in a file that the test reads."""
        path = f"{self.root}/trouble-{self.name}.{os.getpid()}"
        with open(path, "a", encoding="utf-8") as file:
            traceback.print_exc(file=file)

    def _note(self, what: str) -> None:
        """Count something in a file that the test reads."""
        file = os.open(f"{self.root}/{what}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.write(file, b".")
        os.close(file)


def main() -> None:
    root, folder, name, habit, seed, seconds, bug, *store = sys.argv[1:]
    os.chdir(root)
    with ExitStack() as broken:
        if bug:
            from history_bugs import BUGS

            broken.enter_context(BUGS[bug]())
        program = Program(root, folder, name, habit, int(seed), float(seconds), "".join(store))
        try:
            program.run()
        except BaseException:
            program.note_trouble()
            os._exit(1)


if __name__ == "__main__":
    main()
