"""One run: a seed, a store, agents, and a world in which things fail.

The same seed gives the same run, byte for byte: there is one source of randomness, only a simulated
clock, and nothing depends on the order of a set.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from holdfast.core.codec import dumps
from holdfast.core.model import SECOND, Decision
from holdfast.core.table import LockTable, fold
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.sqlite_store import SqliteStore
from holdfast.testing.simulator import sim_checks as checks
from holdfast.testing.simulator.sim_agents import (
    Agent,
    Belief,
    draw_footprints,
    draw_quiet_footprints,
    holders_for,
)
from holdfast.testing.simulator.sim_commands import Commands
from holdfast.testing.simulator.sim_faults import FOR_EVER, FaultyStore
from holdfast.testing.simulator.sim_model import Backup, Model
from holdfast.testing.simulator.sim_state import Broken
from holdfast.testing.simulator.sim_world import LINK, Footprint, Process, World

if TYPE_CHECKING:
    from holdfast.store.contract import Store

HISTORY_EVENTS_MAX = 400
COMPARE_EVERY = 64
WEATHER_EVERY = 512
STORMY = 0.1
PRUNE_EVERY = 8192
SQLITE_CONNECTIONS = 3
PICKS_MAX = 6


class Simulation(Commands):
    """A run of many steps. `folder` is for a sqlite ledger; one in memory needs none."""

    fault_rate = 0.02
    trouble_rate = 0.03
    step_microseconds_max = SECOND // 16

    def __init__(self, seed: int, *, store: str = "memory", folder: str = "") -> None:
        random = Random(seed)
        world = World(random)
        in_memory = store == "memory"
        model = Model(
            world,
            by_looking=in_memory,
            history_events_max=HISTORY_EVENTS_MAX if in_memory else None,
        )
        super().__init__(world, model, random)
        self.seed = seed
        self.folder = folder
        self.in_memory = in_memory
        self.backup: Backup | None = None
        self.beside = LockTable()
        self.crowded = draw_footprints(random)
        self.quiet = draw_quiet_footprints(random)
        self.stormy = True
        self._open()
        self.processes = [self._started(slot) for slot in range(4 + int(random.random() * 5))]
        agents = max(len(self.processes), 8 + int(random.random() * 13))
        for name in range(agents):
            self.agents.append(self._agent(name, self.processes[name % len(self.processes)]))
        self._troubles = self._draw_troubles()

    # Setup

    @property
    def path(self) -> str:
        """The ledger's file."""
        return f"{self.folder}/ledger.db"

    def _open(self) -> None:
        clock, is_dead = self.world.clock, self.world.is_dead
        stores: list[Store]
        if self.in_memory:
            stores = [
                MemoryStore(clock=clock, is_dead=is_dead, history_events_max=HISTORY_EVENTS_MAX)
            ]
        else:
            stores = [
                SqliteStore(self.path, clock=clock, is_dead=is_dead)
                for _ in range(SQLITE_CONNECTIONS)
            ]
        self.store = FaultyStore(
            stores, random=self.random, watcher=self, fault_rate=self.fault_rate,
            survives_tearing=not self.in_memory,
        )  # fmt: skip

    def close(self) -> None:
        """Close the ledger."""
        self.store.close()

    def _started(self, slot: int) -> Process:
        process = self.world.start(slot)
        others = [other for other in getattr(self, "processes", ()) if other.alive]
        client = self.random.choice(others) if others and self.random.random() < 0.5 else None
        process.holders = holders_for(process, client)
        return process

    def _agent(self, name: int, process: Process) -> Agent:
        return Agent(name, process, self.random.choice(process.holders))

    def _draw_troubles(self) -> list[tuple[float, Callable[[], None]]]:
        weights: list[tuple[int, Callable[[], None]]] = [
            (200, self._kill_one),
            (120, self._pause_one),
            (60, self._sleep),
            (80, self._step_wall),
            (10, self._reboot),
            (24, self._back_up),
            (20, self._restore),
            (60, self._force_one),
            (80, self.reap),
            (300, self._look),
            (120, self._link),
            (6, self._trim),
        ]
        total = sum(weight for weight, _ in weights)
        found, sum_so_far = [], 0.0
        for weight, trouble in weights:
            sum_so_far += weight / total
            found.append((sum_so_far, trouble))
        found[-1] = (1.0, found[-1][1])
        return found

    # Running

    def run(self, steps: int) -> None:
        """Run the steps, each with all its checks. Raises Broken."""
        for _ in range(steps):
            self.step()
        self.compare()

    def step(self) -> None:
        """Time passes, and an agent acts."""
        self.steps += 1
        random = self.random.random
        self.world.advance(int(random() * self.step_microseconds_max))
        if random() < self.trouble_rate:
            self.trouble()
        else:
            self._let_one_act()
        if self.steps % COMPARE_EVERY == 0:
            self.compare()
        if self.steps % WEATHER_EVERY == 0:
            self.set_weather(stormy=random() < STORMY)
        if self.steps % PRUNE_EVERY == 0:
            self._prune()

    def set_weather(self, *, stormy: bool) -> None:
        """Choose between much and little contention."""
        self.stormy = stormy
        self.wait_seconds_max = 20 if stormy else 5
        self.hold_seconds_max = 4 if stormy else 2

    def trouble(self) -> None:
        """Something fails, or an operator intervenes."""
        drawn = self.random.random()
        next(trouble for limit, trouble in self._troubles if drawn <= limit)()

    def _let_one_act(self) -> None:
        agents, random, now = self.agents, self.random.random, self.world.elapsed
        for _ in range(PICKS_MAX):
            agent = agents[int(random() * len(agents))]
            process = agent.process
            if not process.alive:
                if random() < 0.3:
                    self._restart(process)
                continue
            if process.paused_until > now or (
                agent.waiting is not None and agent.looks_at > now and agent.retry is None
            ):
                continue
            self.act(agent)
            return

    def _restart(self, process: Process) -> None:
        slot = process.slot
        self.processes[slot] = new = self._started(slot)
        for agent in self.agents:
            if agent.process is process:
                agent.restarted(new, self.random.choice(new.holders))
        self.note("start", new.witness.pid)

    def footprint(self) -> Footprint:
        """Draw a request."""
        among = self.crowded if self.stormy else self.quiet
        return among[int(self.random.random() * len(among))][self.world.linked]

    def act(self, agent: Agent) -> None:
        """One agent takes its next action."""
        random = self.random.random
        if agent.retry is not None:
            again, agent.retry = agent.retry, None
            self.model.count("commands repeated")
            again()
        elif agent.waiting is not None:
            ask = agent.waiting
            if self.world.elapsed >= agent.gives_up_at:
                self.cancel(agent, ask)
            else:
                self.ask(agent, ask, "wait")
        elif agent.stale and random() < 0.05:
            self._misuse(agent)
        elif agent.beliefs and random() < 0.85:
            self._use(agent)
        else:
            self._want(agent)

    def _want(self, agent: Agent) -> None:
        drawn = self.random.random()
        verb = (
            "try" if drawn < 0.35 else "wait" if drawn < 0.75 else "ensure" if drawn < 0.95
            else "steal"
        )  # fmt: skip
        ask = self.new_ask(agent, self.footprint(), wait=verb == "wait")
        self.ask(agent, ask, verb, first=drawn < 0.5)

    def _use(self, agent: Agent) -> None:
        """Use a grant that the agent believes to hold."""
        random = self.random.random
        belief = agent.beliefs[int(random() * len(agent.beliefs))]
        drawn = random()
        if self.world.elapsed >= belief.until and drawn < 0.8:
            self.release(agent, belief, named=drawn < 0.7)
        elif drawn < 0.75:
            place = int(random() * len(belief.footprint.keys))
            key, mode = belief.footprint.keys[place], belief.footprint.modes[place]
            self.write(agent, belief, key, fenced=mode == "w" and drawn < 0.2)
        elif drawn < 0.93:
            rest = int(random() * 10 * SECOND) if random() < 0.2 else None
            ttl = 2 * SECOND if random() < 0.3 else None
            self.renew(agent, belief, by_process=random() < 0.3, ttl=ttl, rest=rest)
        else:
            self._want(agent)

    def _misuse(self, agent: Agent) -> None:
        """Return with a grant that ended long ago, or with one of another holder."""
        random = self.random.random
        belief = agent.stale[int(random() * len(agent.stale))]
        drawn = random()
        if drawn < 0.2 and agent.beliefs:
            live = agent.beliefs[0]
            mixed = Belief(live.id, belief.token, live.holder, live.footprint, 0)
            self.write(agent, mixed, live.footprint.keys[0], fenced=drawn < 0.1)
        elif drawn < 0.5:
            fenced = belief.footprint.modes[0] == "w" and drawn < 0.35
            self.write(agent, belief, belief.footprint.keys[0], fenced=fenced)
        elif drawn < 0.7:
            self.release(agent, belief)
        else:
            self.renew(agent, belief, by_process=drawn < 0.8, ttl=None, rest=None)

    # Trouble

    def _one(self) -> Process:
        return self.processes[int(self.random.random() * len(self.processes))]

    def _kill_one(self) -> None:
        process = self._one()
        if process.alive:
            self.note("kill", process.witness.pid)
            self.crash(process)

    def _pause_one(self) -> None:
        process = self._one()
        if process.alive:
            self.model.count("pauses")
            process.paused_until = self.world.elapsed + int(self.random.random() * 30 * SECOND)
            self.note("pause", process.witness.pid)

    def _sleep(self) -> None:
        self.model.count("machine sleeps")
        seconds = 1 + int(self.random.random() * 300)
        self.note("sleep", seconds)
        self.world.sleep(seconds)

    def _step_wall(self) -> None:
        seconds = int((self.random.random() - 0.5) * 200_000)
        model, wall = self.model, self.world.clock.read().wall
        if model.last_token < model.token_max and wall + seconds * SECOND <= model.token_max:
            return  # a restored ledger and a clock set back: then no number is left to go by
        model.count("clock steps")
        self.note("wall", seconds)
        self.world.clock.step_wall(seconds)

    def _reboot(self) -> None:
        self.model.count("reboots")
        seconds = int(self.random.random() * 300)
        self.note("reboot", seconds)
        self.world.reboot(seconds)
        if not self.in_memory:  # the processes that had it open are gone
            self.store.close()
            self._open()

    def _force_one(self) -> None:
        ids = list(self.model.grants)
        if ids:
            self.force(ids[int(self.random.random() * len(ids))])

    def _look(self) -> None:
        agent = self.agents[int(self.random.random() * len(self.agents))]
        if agent.process.alive:
            ask = self.new_ask(agent, self.footprint(), wait=False)
            self.look(agent, ask)

    def _link(self) -> None:
        """Create or remove the second name of a file, unless a grant depends on the old state."""
        if self._link_is_in_use():
            return
        if any(agent.retry is not None for agent in self.agents):
            return
        self.world.linked = not self.world.linked
        self.note("linked", self.world.linked)

    def _link_is_in_use(self) -> bool:
        in_use = [held.footprint for held in self.model.grants.values()]
        in_use += [queued.footprint for queued in self.model.tickets.values()]
        return any(LINK in footprint.keys for footprint in in_use)

    def _trim(self) -> None:
        if any(agent.retry is not None for agent in self.agents):
            return
        before = self.model.head - HISTORY_EVENTS_MAX
        if before > 0:
            self.compare()
            self.store.trim(before)
            self.model.trimmed(before)

    # Backups

    def _back_up(self) -> None:
        self.compare()
        self.note("back up", self.model.head)
        self.backup = Backup(self.model)
        if not self.in_memory:
            with_ledger = sqlite3.connect(self.path)
            copy = sqlite3.connect(f"{self.folder}/backup.db")
            with_ledger.backup(copy)
            copy.close()
            with_ledger.close()

    def _restore(self) -> None:
        """Replace the ledger by its backup between two transactions. The agents continue.

        The wall clock is correct again at that moment: tokens are guaranteed to grow over a
        restored backup unless the clock is set back together with the ledger.
        """
        backup = self.backup
        if backup is None:
            return
        self.compare()
        self.model.count("restores")
        self.note("restore", backup.head)
        behind = max(self.model.token_max, self.model.time.now) - self.world.clock.read().wall
        if behind >= 0:
            self.world.clock.step_wall(behind // SECOND + 1)
        self.store.close()
        if not self.in_memory:
            for name in ("ledger.db-wal", "ledger.db-shm"):
                if os.path.exists(f"{self.folder}/{name}"):
                    os.remove(f"{self.folder}/{name}")
            shutil.copy(f"{self.folder}/backup.db", self.path)
        self._open()
        if self.in_memory:
            self.store.store.transact(
                lambda view: Decision(None, backup.events()), deadline=FOR_EVER
            )
        self.model.restore(backup, from_events=self.in_memory)
        self.beside = fold(backup.events())
        if self._link_is_in_use():  # a backup has no claim on a name that is gone: see ARCHITECTURE
            self.world.linked = True
        if self.in_memory:
            self.model.time.look()

    # Comparing

    def compare(self) -> None:
        """The store's history is what it reported, and its state follows from it."""
        self._read_back()
        self.model.granted_now = 0
        with self.store.view() as view:
            self.looking(view)
            checks.check_state(self.model, view, self.beside)

    def _read_back(self) -> None:
        after = self.unread[0].seq - 1 if self.unread else self.model.head
        found = list(self.store.events(after))
        if [event.seq for event in found] != [event.seq for event in self.unread]:
            raise Broken("sequence (10)", f"{len(found)} events where {len(self.unread)} were made")
        for event, told in zip(found, self.unread, strict=True):
            if event.type != told.type or event.at != told.at or (
                event is not told and dumps(event.data) != dumps(told.data)
            ):  # fmt: skip
                raise Broken("fold (4)", f"{event} was committed as {told}")
            self.beside.apply(event)
        self.unread.clear()

    def _prune(self) -> None:
        """Forget requests that no agent can return with."""
        known = {belief.id for agent in self.agents for belief in (*agent.beliefs, *agent.stale)}
        known.update(self.model.grants, self.model.tickets)
        known.update(agent.waiting.id for agent in self.agents if agent.waiting is not None)
        if self.backup is not None:
            known.update(held.id for held in self.backup.grants)
            known.update(queued.id for queued in self.backup.tickets)
        if all(agent.retry is None for agent in self.agents):
            self.model.forget_others(known)
