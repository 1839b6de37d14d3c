"""The world around the ledger: things to lock, processes, clocks. All of it follows one seed.

Nothing here uses the core. Overlap follows from the parts of each name, death from the simulated
process table, ledger time from the simulated clocks; the checks compare the rulebook with these
answers.
"""

from __future__ import annotations

from random import Random

from holdfast.core.model import SECOND, Holder, Request, Witness
from holdfast.manager.clock import FakeClock

HOST = "simulated"

#: What can be locked: the key, and its components if it is a path. The names are easy to confuse: a
#: file that is a prefix of another, a file where a folder was, a path like a resource.
THINGS: dict[str, tuple[str, ...] | None] = {
    ".": (),
    "app": ("app",),
    "app/models": ("app", "models"),
    "app/models/user.rb": ("app", "models", "user.rb"),
    "app/models/user.rb/old": ("app", "models", "user.rb", "old"),
    "app/models/user": ("app", "models", "user"),
    "app/models/cart.rb": ("app", "models", "cart.rb"),
    "app/x": ("app", "x"),
    "app/xy": ("app", "xy"),
    "app/x.rb": ("app", "x.rb"),
    "app/x0": ("app", "x0"),
    "app-old/z": ("app-old", "z"),
    "lib": ("lib",),
    "lib/x-link": ("lib", "x-link"),
    "lib/a": ("lib", "a"),
    "lib/b": ("lib", "b"),
    "docs/a": ("docs", "a"),
    "docs/b": ("docs", "b"),
    "docs/c": ("docs", "c"),
    "./res:odd/a": ("res:odd", "a"),
    "port:5432": None,
    "db:test": None,
    "git:index": None,
    "res:odd": None,
    "worktree:one": None,
    "inode:1:7": None,
    "inode:1:8": None,
}

#: The files for times of little contention.
QUIET_FOLDERS = ("src", "src/a", "src/b")
QUIET_FILES = tuple(f"src/{folder}/{name}" for folder in "ab" for name in range(48))
THINGS.update((key, tuple(key.split("/"))) for key in (*QUIET_FOLDERS, *QUIET_FILES))

FOLDERS = (".", "app", "app/models", "lib")
RESOURCES = ("port:5432", "db:test", "git:index", "res:odd", "worktree:one")
INODES = ("inode:1:7", "inode:1:8")
FILES = tuple(
    key
    for key in THINGS
    if key not in (*FOLDERS, *RESOURCES, *INODES, *QUIET_FOLDERS, *QUIET_FILES)
)

#: One file has two names while the link exists; another always has only one.
NAME, LINK, INODE_OF_BOTH = "app/x", "lib/x-link", "inode:1:7"
SINGLE, INODE_OF_SINGLE = "docs/a", "inode:1:8"

STEAL_ONLY = "worktree:one"

BIT = {key: 1 << place for place, key in enumerate(THINGS)}


def touches(one: str, other: str) -> bool:
    """Whether two things overlap, by their components."""
    mine, theirs = THINGS[one], THINGS[other]
    if mine is None or theirs is None:
        return one == other
    shared = min(len(mine), len(theirs))
    return mine[:shared] == theirs[:shared]


REACH = {key: sum(BIT[other] for other in THINGS if touches(key, other)) for key in THINGS}


class Footprint:
    """The keys of a request as bit sets, so that finding a conflict takes a few operations.

    `any` and `writes` are the keys themselves, `reach` and `writes_reach` everything that overlaps
    them. `sees` and `writes_see` are the same without the keys that are not looked up.
    """

    __slots__ = (
        "any", "keys", "modes", "reach", "sees", "silent", "steal_only", "writes",
        "writes_reach", "writes_see",
    )  # fmt: skip

    def __init__(self, keys: tuple[str, ...], modes: str, silent: tuple[str, ...] = ()) -> None:
        self.keys = keys
        self.modes = modes
        self.silent = silent
        self.any = self.writes = self.reach = self.writes_reach = self.sees = self.writes_see = 0
        self.steal_only = STEAL_ONLY in keys
        for key, mode in zip(keys, modes, strict=True):
            self.any |= BIT[key]
            self.reach |= REACH[key]
            self.sees |= 0 if key in silent else REACH[key]
            if mode == "w":
                self.writes |= BIT[key]
                self.writes_reach |= REACH[key]
                self.writes_see |= 0 if key in silent else REACH[key]

    def without_silent(self) -> Footprint:
        """The same with all keys looked up."""
        return Footprint(self.keys, self.modes) if self.silent else self

    def clashes(self, other: Footprint) -> bool:
        """Whether two holders cannot have both."""
        return bool(self.writes_reach & other.any or self.reach & other.writes)

    def meets(self, other: Footprint) -> bool:
        """Whether a request for this must find a conflict with the other when it looks."""
        return bool(self.writes_see & other.any or self.sees & other.writes)

    def covered_by(self, other: Footprint) -> bool:
        """Whether the holder of the other has this already: each write exactly, each read by the
        key itself or by a folder around it."""
        for key, mode in zip(self.keys, self.modes, strict=True):
            if key in self.silent:
                continue
            if mode == "w":
                if not BIT[key] & other.writes:
                    return False
            elif not any(_contains(have, key) for have in other.keys):
                return False
        return True


def _contains(outer: str, inner: str) -> bool:
    around, inside = THINGS[outer], THINGS[inner]
    if around is None or inside is None:
        return outer == inner
    return inside[: len(around)] == around


class Ask:
    """One request, and what the checks need to know about it."""

    __slots__ = ("asked_at", "footprint", "holder", "id", "mortal", "request")

    def __init__(self, request: Request, footprint: Footprint, asked_at: int) -> None:
        self.id = request.id
        self.request = request
        self.footprint = footprint
        self.holder = request.holder.key
        self.mortal = request.holder.witness is not None
        self.asked_at = asked_at


class Process:
    """One simulated process."""

    __slots__ = ("alive", "holders", "paused_until", "slot", "witness")

    def __init__(self, slot: int, witness: Witness) -> None:
        self.slot = slot
        self.witness = witness
        self.alive = True
        self.paused_until = 0
        self.holders: list[Holder] = []


class World:
    """Processes, clocks and hard links. `elapsed` is the real time that has passed, in
    microseconds; every other clock can be wrong."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clock = FakeClock()
        self.boot = self.clock.read().boot
        self.elapsed = 0
        self.linked = False
        self._running: dict[int, Process] = {}
        self._starts = 0
        self._orphans: dict[str, int] = {}

    # Time

    def advance(self, microseconds: int) -> None:
        """Time passes for all processes."""
        self.elapsed += microseconds
        self.clock.advance(microseconds / SECOND)

    def sleep(self, seconds: int) -> None:
        """The machine sleeps. So do all processes, orphans included."""
        self.clock.sleep_machine(seconds)

    # Life and death

    def start(self, slot: int) -> Process:
        """A new process, often with a reused pid."""
        self._starts += 1
        pid = 100 + slot if self.random.random() < 0.5 else 1000 + self._starts
        witness = Witness(host=HOST, boot=self.boot, namespace="pid:1", pid=pid, start=self._starts)
        process = Process(slot, witness)
        self._running[pid] = process
        return process

    def kill(self, process: Process, orphan_seconds: dict[str, int]) -> None:
        """A process ends. Descendants that carry these marks live on for a while."""
        process.alive = False
        if self._running.get(process.witness.pid) is process:
            del self._running[process.witness.pid]
        for mark, seconds in orphan_seconds.items():
            self._orphans[mark] = self.elapsed + seconds * SECOND

    def reboot(self, down_seconds: int) -> None:
        """All processes end, all orphans with them."""
        for process in self._running.values():
            process.alive = False
        self._running.clear()
        self._orphans.clear()
        self.clock.reboot(down_seconds)
        self.boot = self.clock.read().boot

    def is_dead(self, witness: Witness, marks: tuple[str, ...]) -> bool | None:
        """Whether the process and all processes with its marks are dead; None for some living
        processes that cannot be judged."""
        if witness.boot != self.boot:
            return True
        process = self._running.get(witness.pid)
        if process is not None and process.witness.start == witness.start:
            return None if witness.start % 4 == 0 else False
        for mark in marks:
            until = self._orphans.get(mark)
            if until is not None:
                if until > self.elapsed:
                    return False
                del self._orphans[mark]
        return True


class LedgerClock:
    """What the ledger's time must be, computed without the core.

    Time is bound to the machine's uptime at one moment and advances with it from then on. After a
    reboot it is bound again, at the later of the wall clock and the latest time in the ledger.
    Until something is written it is not bound, and follows the wall clock. For a store in memory a
    look is enough to bind it.
    """

    __slots__ = (
        "_asleep", "_boot", "_bound_ledger", "_bound_uptime", "_clock", "_slept", "by_looking",
        "floor", "now", "slept",
    )  # fmt: skip

    def __init__(self, clock: FakeClock, *, by_looking: bool) -> None:
        self._clock = clock
        self.by_looking = by_looking
        self._boot = ""
        self._bound_ledger = self._bound_uptime = 0
        self._slept = self._asleep = 0
        self.floor = 0
        self.now = 0
        self.slept = 0

    def look(self) -> None:
        """Compute `now` and `slept`."""
        reading = self._clock.read()
        if reading.boot == self._boot and reading.slept == self._asleep:
            self.now = self._bound_ledger + reading.uptime - self._bound_uptime
            self.slept = self._slept
            return
        if reading.boot == self._boot:
            self.now = self._bound_ledger + reading.uptime - self._bound_uptime
            self.slept = self._slept + reading.slept - self._asleep
        else:
            self.now = max(reading.wall, self.floor)
            self.slept = self._slept
        if self.by_looking:
            self.bind()

    def bind(self) -> None:
        """The store keeps what `look` computed."""
        reading = self._clock.read()
        if reading.boot == self._boot and reading.slept == self._asleep:
            return
        self._boot = reading.boot
        self._bound_ledger = self.floor = self.now
        self._bound_uptime = reading.uptime
        self._slept = self.slept
        self._asleep = reading.slept

    def saved(self) -> tuple[str, int, int, int, int, int]:
        """The part of it that a backup of the ledger contains."""
        return (
            self._boot, self._bound_ledger, self._bound_uptime, self._slept, self._asleep,
            self.floor,
        )  # fmt: skip

    def restore(self, saved: tuple[str, int, int, int, int, int]) -> None:
        """Return to the values of a backup."""
        (
            self._boot, self._bound_ledger, self._bound_uptime, self._slept, self._asleep,
            self.floor,
        ) = saved  # fmt: skip

    def forget(self, floor: int) -> None:
        """Keep only the time of the last event, as a store does that is rebuilt from events."""
        self.restore(("", 0, 0, 0, 0, floor))
