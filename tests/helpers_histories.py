"""Fights whose history is recorded: real processes on the embedded store, threads on the memory
store. The players are in `history_player.py`."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from helpers_network import wrong_clock
from helpers_postgres import Server
from helpers_processes import PATIENCE_SECONDS, state_of, until
from histories import History, Journal, Recorder, note_death, read
from history_bugs import BUGS
from history_player import FILES, LONG_TTL, SHORT_TTL, TREES, Player
from holdfast import Holder, LockManager
from holdfast.core.model import Witness
from holdfast.manager.clock import SystemClock
from holdfast.store import open_store

PLAYER = Path(__file__).with_name("history_player.py")

#: The programs at the start. Replacements of killed ones have any of these habits.
HABITS = (
    "plays", "plays", "forgets", "forgets", "walks", "walks", "opens", "opens", "forks", "forks",
    "daemonises", "daemonises", "threads", "is_signalled",
)  # fmt: skip
STEADY = 2
#: With faketime, Python's own way to sleep is an error of the system. This one is not.
SLEEPS = """
import select, time
time.sleep = lambda seconds: select.select([], [], [], seconds) and None
"""
#: What can happen to a program.
HAPPENS = ("walked", "opened", "forked", "daemonised", "stopped", "killed")


class ProcessFight:
    """Programs of every habit over one ledger. Some are stopped, some are killed."""

    def __init__(
        self, folder: Path, seconds: float, *, seed: int = 1, bug: str = "", store: str = ""
    ) -> None:
        """`store` is the URL of a store on a server."""
        self.store = store
        self.root = folder / "repo"
        self.records = folder / "records"
        self.seconds = seconds
        self.bug = bug
        self.dice = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._programs: list[subprocess.Popen[bytes]] = []
        self._names: dict[int, str] = {}
        self._stopped: dict[int, float] = {}
        (self.root / ".holdfast").mkdir(parents=True)
        self.records.mkdir()
        for tree in (tree for trees in TREES for tree in trees):
            (self.root / tree).mkdir()
            for file in FILES:
                (self.root / tree / file).touch()

    def run(
        self, habits: tuple[str, ...] = HABITS, *, gently: bool = False, operations: int = 0
    ) -> History:
        """Run the fight, `gently` without stopping and killing; the history of all participants.

        With a number of operations it ends as soon as so many have been recorded and everything
        that can happen to a program has happened.
        """
        try:
            for habit in habits:
                self._start(habit)
            until(lambda: len(list(self.records.iterdir())) >= len(habits), "all have begun")
            end = time.monotonic() + self.seconds
            while time.monotonic() < end and not (operations and self._has_met(operations)):
                time.sleep(self.dice.uniform(0.01, 0.05))
                if not gently:
                    self._disturb(habits)
            (self.root / "over").touch()
            self._await_the_end()
        finally:
            self._end_all()
        self._count()
        return read(self.records)

    def _count(self) -> None:
        for what in ("walked", "opened", "forked", "forked-inside", "daemonised", "unanswered"):
            path = self.root / what
            self.counts[what] = path.stat().st_size if path.exists() else 0

    def _has_met(self, operations: int) -> bool:
        self._count()
        if not all(self.counts[what] for what in HAPPENS):
            return False
        lines = sum(file.read_bytes().count(b"\n") for file in self.records.iterdir())
        return lines > 2 * operations  # each has one for its beginning and one for its end

    def troubles(self) -> str:
        """The errors of programs."""
        return "\n".join(path.read_text() for path in sorted(self.root.glob("trouble-*")))

    def _start(self, habit: str) -> None:
        number = len(self._programs)
        name = f"{habit}-{number}"
        program = subprocess.Popen(
            [*self._prefix(number), sys.executable, PLAYER, self.root, self.records, name, habit,
             str(self.dice.randrange(1 << 30)), str(self.seconds + 2 * PATIENCE_SECONDS), self.bug,
             self.store],
            start_new_session=True,
        )  # fmt: skip
        self._programs.append(program)
        self._names[program.pid] = f"{name}.{program.pid}"

    def _prefix(self, _number: int) -> list[str]:
        """What stands before the command of a program."""
        return []

    # Stopping and killing

    def _alive(self) -> list[tuple[str, int]]:
        """The living processes that have a record, whatever their parents are."""
        found = []
        for file in self.records.iterdir():
            pid = int(file.suffix[1:]) if file.suffix[1:].isdigit() else 0
            if pid and self._is_ours(pid):
                found.append((file.name, pid))
        return sorted(found)

    def _is_ours(self, pid: int) -> bool:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False
        return os.fsencode(self.records) in command.split(b"\0") and state_of(pid) not in "ZX"

    def _disturb(self, habits: tuple[str, ...]) -> None:
        now = time.monotonic()
        for pid in [pid for pid, at in self._stopped.items() if now >= at]:
            self._resume(pid)
        steady = {program.pid for program in self._programs[:STEADY]}
        others = [(name, pid) for name, pid in self._alive() if pid not in steady]
        draw = self.dice.random()
        if draw < 0.15 and others:
            self._kill(*self.dice.choice(others))
        elif draw < 0.3 and others:
            _, pid = self.dice.choice(others)
            self._signal(pid, signal.SIGSTOP)
            self._stopped[pid] = now + self.dice.uniform(0.3, 2.5) * SHORT_TTL
            self.counts["stopped"] += 1
        lacking = len(habits) - len(self._alive())
        if lacking > 0:
            self._start(self.dice.choice(habits))

    def _kill(self, name: str, pid: int) -> None:
        after = time.monotonic_ns()
        self._signal(pid, signal.SIGKILL)
        until(lambda: is_gone(pid), f"{name} is gone")
        for file in self.records.glob(f"*.{pid}"):  # each of its threads has a record
            note_death(self.records, file.name, after, time.monotonic_ns())
        self._stopped.pop(pid, None)
        self.counts["killed"] += 1

    def _resume(self, pid: int) -> None:
        del self._stopped[pid]
        self._signal(pid, signal.SIGCONT)

    def _signal(self, pid: int, number: int) -> None:
        if self._is_ours(pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def _await_the_end(self) -> None:
        def have_ended() -> bool:
            for pid in list(self._stopped):
                self._resume(pid)
            left = [program for program in self._programs if program.poll() is None]
            return not left and not self._alive()

        until(have_ended, "all programs end")

    def _end_all(self) -> None:
        for _, pid in self._alive():
            self._signal(pid, signal.SIGKILL)
        for program in self._programs:
            program.kill()
            program.wait(PATIENCE_SECONDS)


class ServerFight(ProcessFight):
    """The same programs over a ledger on a server, which has troubles of its own now and then.

    Some of the programs believe in another time of day.
    """

    def __init__(
        self, folder: Path, server: Server, seconds: float, *, seed: int = 1, bug: str = "",
        troubles: Mapping[str, Callable[[], object]] | None = None, every_seconds: float = 1.0,
        store: str = "", wrong_clocks: bool = False, roughness: float = 1.0,
    ) -> None:  # fmt: skip
        """One of the troubles happens every few seconds. With less roughness, fewer programs are
        stopped and killed: to start one takes as long as hundreds of operations."""
        name = f"fight-{secrets.token_hex(6)}"
        super().__init__(folder, seconds, seed=seed, bug=bug, store=store or server.url(name))
        self.server = server
        self._troubles = sorted((troubles or {}).items())
        self._every = every_seconds
        self._next = 0.0
        self._wrong_clocks = wrong_clocks
        self._roughness = roughness

    def _prefix(self, number: int) -> list[str]:
        offset = ("", "+10m", "-10m")[number % 3]
        if not self._wrong_clocks or not offset:
            return []
        started = self.root / "sitecustomize.py"
        started.write_text(SLEEPS)
        return [*wrong_clock(offset), f"PYTHONPATH={started.parent}"]

    def _disturb(self, habits: tuple[str, ...]) -> None:
        now = time.monotonic()
        if self._troubles and now >= self._next:
            if self._next:
                name, happens = self.dice.choice(self._troubles)
                happens()
                self.counts[name] += 1
            self._next = time.monotonic() + self._every * self.dice.uniform(0.5, 1.5)
        if self.dice.random() < self._roughness:
            super()._disturb(habits)


def is_gone(pid: int) -> bool:
    """Whether a process has ended completely. While it is ending it counts as alive."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return fields[0] in "ZX" and int(fields[17]) <= 1


class ThreadFight:
    """Threads over one memory store. Each is a holder whose process is made up, and can die."""

    def __init__(self, folder: Path, seconds: float, *, seed: int = 1) -> None:
        self.records = folder / "records"
        self.records.mkdir()
        self.seconds = seconds
        self.dice = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._dead: set[int] = set()
        self._errors: list[BaseException] = []
        clock = SystemClock()
        store = open_store("memory:", clock=clock, is_dead=self._is_dead)
        self.manager = LockManager(store, clock=clock, is_dead=self._is_dead)

    def _is_dead(self, witness: Witness, marks: tuple[str, ...]) -> bool:
        return witness.pid in self._dead

    def run(self, threads: int) -> History:
        """Run the fight; the history of all participants."""
        end = time.monotonic() + self.seconds
        crowd = [
            threading.Thread(target=self._play, args=(number, end)) for number in range(threads)
        ]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        self.manager.close()
        if self._errors:
            raise self._errors[0]
        return read(self.records)

    def _play(self, number: int, end: float) -> None:
        try:
            dice = random.Random(self.dice.random() + number)
            life = 0
            while time.monotonic() < end:
                life += 1
                self._live(dice, number * 100_000 + life, end)
        except BaseException as error:
            self._errors.append(error)

    def _live(self, dice: random.Random, pid: int, end: float) -> None:
        """Play some turns as one process, then leave a lock behind and die."""
        witness = Witness(host="here", boot="boot", namespace="", pid=pid, start=1)
        holder = Holder(id="player", key=f"player {pid}", witness=witness)
        journal = Journal(self.records, f"player-{pid}")
        ttl = SHORT_TTL if dice.random() < 0.3 else LONG_TTL
        player = Player(Recorder(self.manager, journal, holder), dice, ttl=ttl)
        turns = dice.randrange(5, 60)
        while turns and time.monotonic() < end:
            turns -= 1
            player.turn()
        player.recorder.try_acquire(write_paths=["a/0"], ttl=None)
        after = time.monotonic_ns()
        self._dead.add(pid)
        note_death(self.records, journal.process, after, time.monotonic_ns())
        self.counts["died"] += 1
        journal.close()


def kinds(history: History) -> Counter[tuple[str, str]]:
    """How often each call had each answer."""
    return Counter((operation.call, operation.answer) for operation in history.operations)


#: What a fight must have covered, or its history proves less than it claims.
MET = (
    ("try_acquire", "granted"), ("try_acquire", "refused"), ("acquire", "granted"),
    ("acquire", "timed out"), ("release", "released"), ("release", "nothing to release"),
    ("verify", "holds"), ("verify", "does not hold"), ("renew", "renewed"), ("renew", "lapsed"),
    ("fenced", "entered"), ("fenced", "kept out"),
)  # fmt: skip

__all__ = [
    "BUGS",
    "HABITS",
    "HAPPENS",
    "MET",
    "ProcessFight",
    "ServerFight",
    "ThreadFight",
    "kinds",
]
