"""The agents: seeded state machines that request, wait, hold, write, forget, and return late.

Each belongs to a process and acts for one of its holders; two agents of one holder are threads of
the same program. A grant that an agent believes to hold may have ended long ago: tokens exist for
this case.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from holdfast.core.model import SECOND, Holder
from holdfast.testing.simulator.sim_world import (
    FILES,
    FOLDERS,
    INODE_OF_BOTH,
    INODE_OF_SINGLE,
    LINK,
    NAME,
    QUIET_FILES,
    QUIET_FOLDERS,
    RESOURCES,
    SINGLE,
    Ask,
    Footprint,
    Process,
)

HOLDER_NAMES = 5
STALE_MAX = 3
FOOTPRINTS = 200


class Belief:
    """A grant that an agent believes to hold."""

    __slots__ = ("footprint", "holder", "id", "token", "until")

    def __init__(self, id: str, token: int, holder: str, footprint: Footprint, until: int) -> None:
        self.id = id
        self.token = token
        self.holder = holder
        self.footprint = footprint
        self.until = until


class Agent:
    """One agent. `retry` is a command whose answer was lost."""

    __slots__ = (
        "address", "beliefs", "gives_up_at", "holder", "looks_at", "name", "process", "retry",
        "stale", "waiting", "wide",
    )  # fmt: skip

    def __init__(self, name: int, process: Process, holder: Holder) -> None:
        self.name = name
        self.address = f"agent-{name}"
        self.process = process
        self.holder = holder
        self.beliefs: list[Belief] = []
        self.stale: list[Belief] = []
        self.waiting: Ask | None = None
        self.looks_at = 0
        self.gives_up_at = 0
        self.retry: Callable[[], None] | None = None
        self.wide = False

    def believe(self, belief: Belief) -> None:
        """The agent was told that it holds this."""
        self.waiting = None
        if all(belief.id != known.id for known in self.beliefs):
            self.beliefs.append(belief)

    def forget(self, belief: Belief) -> None:
        """The agent gives this up, but remembers the token."""
        if belief in self.beliefs:
            self.beliefs.remove(belief)
        self.stale.append(belief)
        if len(self.stale) > STALE_MAX:
            del self.stale[0]

    def restarted(self, process: Process, holder: Holder) -> None:
        """A new process continues the agent. It may remember the grants of the old one."""
        if holder.key != self.holder.key:
            for belief in list(self.beliefs):
                self.forget(belief)
        self.process = process
        self.holder = holder
        self.waiting = None
        self.retry = None


def holders_for(process: Process, client: Process | None) -> list[Holder]:
    """The holders of one process: itself, a second one with another mark, one that is owned by
    another process, and one that lives only by its ttl."""
    start = process.witness.start
    names = [f"agent-{(process.slot + n) % HOLDER_NAMES}" for n in range(3)]
    found = [
        Holder(
            id=name, key=f"{name}#{start}.{n}", witness=process.witness,
            marks=(f"HOLDFAST_HOLDER={start}.{n}",),
        )
        for n, name in enumerate(names[:2])
    ]  # fmt: skip
    if client is not None and client.alive:
        found.append(Holder(
            id=names[2], key=f"client#{client.witness.start}", witness=client.witness,
            marks=client.holders[0].marks,
        ))  # fmt: skip
    else:
        found.append(Holder(id=f"shell-{process.slot}"))
    return found


def draw_footprints(random: Random) -> list[tuple[Footprint, Footprint]]:
    """The requests of a run: each without and with the hard link in place."""
    shapes = [_shape(random) for _ in range(FOOTPRINTS)]
    return [(_footprint(shape, linked=False), _footprint(shape, linked=True)) for shape in shapes]


def draw_quiet_footprints(random: Random) -> list[tuple[Footprint, Footprint]]:
    """The requests during times of little contention."""
    found = [Footprint((file,), "w") for file in QUIET_FILES for _ in range(3)]
    for _ in range(30):
        found.append(Footprint((random.choice(QUIET_FILES),), "r"))
        found.append(Footprint(tuple(random.sample(QUIET_FILES, 2)), "ww"))
    found.append(Footprint((random.choice(QUIET_FOLDERS), random.choice(FILES)), "rw"))
    return [(footprint, footprint) for footprint in found]


def _shape(random: Random) -> list[tuple[str, str]]:
    """Some keys to read and to write: mostly one file, rarely many."""
    drawn = random.random()
    if drawn < 0.45:
        return [(random.choice(FILES), "w")]
    if drawn < 0.55:
        return [(random.choice(FILES), "r"), (random.choice(FILES), "w")]
    if drawn < 0.62:
        return [(random.choice(FOLDERS), "r")]
    if drawn < 0.7:
        return [(random.choice(RESOURCES), random.choice("rw"))]
    if drawn < 0.85:
        file = random.choice((NAME, LINK, SINGLE))
        return [(file, random.choice("rw"))]
    if drawn < 0.9:
        return [(random.choice(FOLDERS[1:]), "r"), (random.choice(FILES), "w")]
    if drawn < 0.98:
        return [(file, random.choice("rww")) for file in random.sample(FILES, 3)]
    return wide_shape(random)


def wide_shape(random: Random) -> list[tuple[str, str]]:
    """Many files in one request."""
    return [(file, "w") for file in random.sample(FILES, 6)]


def _footprint(shape: list[tuple[str, str]], *, linked: bool) -> Footprint:
    wanted: dict[tuple[str, str], None] = {}
    silent: list[str] = []
    for key, mode in shape:
        wanted[key, mode] = None
        if key == SINGLE:
            wanted[INODE_OF_SINGLE, mode] = None
            silent.append(INODE_OF_SINGLE)
        elif key == NAME or (key == LINK and linked):
            wanted[INODE_OF_BOTH, mode] = None
            if not linked:
                silent.append(INODE_OF_BOTH)
    keys = tuple(key for key, _mode in wanted)
    return Footprint(keys, "".join(mode for _key, mode in wanted), tuple(silent))


def ttl_of(random: Random, holder: Holder) -> int | None:
    """A lease: short ones that expire, long ones, or none for a holder whose owner can die."""
    drawn = random.random()
    if drawn < 0.35 and holder.witness is not None:
        return None
    return (2 if drawn < 0.5 else 8 if drawn < 0.8 else 60) * SECOND


def patience_of(random: Random) -> int:
    """How long a request lets others overtake it."""
    drawn = random.random()
    return (0 if drawn < 0.1 else 2 if drawn < 0.5 else 10) * SECOND
