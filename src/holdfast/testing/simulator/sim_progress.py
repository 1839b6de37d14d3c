"""Progress: as long as grants end, every waiting request is served, also a wide one.

Only processes fail here, and they stay dead. A crowd acquires and releases single files in an
endless stream, some agents hold one and wait for another, and a few want many files in one request.
Safety is checked as always; in addition no ticket may become older than the bound.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.model import SECOND, Grant
from holdfast.testing.simulator.sim_agents import Agent, Belief
from holdfast.testing.simulator.sim_run import Simulation
from holdfast.testing.simulator.sim_state import Broken
from holdfast.testing.simulator.sim_world import QUIET_FILES, Footprint, Process

HOT_FILES = QUIET_FILES[:8]
CROWD, CLIMBERS, TRIERS, WIDE = 10, 2, 2, 2
PATIENCE = 10 * SECOND
HOLD_MAX = 2 * SECOND
LOOK = SECOND

#: An agent notices anything within one turn of all agents.
AGENTS = CROWD + CLIMBERS + TRIERS + WIDE
STEP_MAX = SECOND // 10
TURN = AGENTS * STEP_MAX

#: At most all other agents are ahead of a reservation, and each of them ends within that time.
WAIT_MAX = PATIENCE + AGENTS * (HOLD_MAX + LOOK + TURN)


class Progress(Simulation):
    """A run in which every grant ends. `patience` is how long a wait lets others overtake."""

    fault_rate = 0.0
    trouble_rate = 0.005
    step_microseconds_max = STEP_MAX

    def __init__(
        self, seed: int, *, store: str = "memory", folder: str = "", patience: int = PATIENCE
    ) -> None:
        self.patience = patience
        self.open_for_business = True
        super().__init__(seed, store=store, folder=folder)
        self.processes = [self._started(slot) for slot in range(AGENTS)]
        self.agents = [
            Agent(process.slot, process, process.holders[0]) for process in self.processes
        ]
        self.singles = [Footprint((file,), "w") for file in HOT_FILES]
        self.pairs = [
            Footprint((one, other), "wr")
            for one in HOT_FILES
            for other in HOT_FILES
            if one != other
        ]
        self.all = Footprint(HOT_FILES, "w" * len(HOT_FILES))

    def run(self, steps: int) -> None:
        """Run the steps, and then as many as it takes until nothing is held or waiting."""
        super().run(steps)
        self.open_for_business = False
        self.trouble_rate = 0.0
        for _ in range(2 * WAIT_MAX // STEP_MAX):
            if not self.model.grants and not self.model.tickets:
                return
            self.step()
        raise Broken("progress", f"left: {list(self.model.grants)}, {list(self.model.tickets)}")

    def step(self) -> None:
        """One step, and a check of how long each ticket has waited."""
        super().step()
        now = self.model.time.now
        for queued in self.model.tickets.values():
            waited = now - queued.added.at
            if waited > WAIT_MAX and not self.model.waiter_is_dead(queued.ask):
                raise Broken(
                    "progress", f"{queued.id} of {queued.holder} has waited {waited // SECOND} s"
                    f" for {len(queued.footprint.keys)} files",
                )  # fmt: skip

    def _draw_troubles(self) -> list[tuple[float, Callable[[], None]]]:
        return [(0.7, self._kill_one), (1.0, self.reap)]

    def crash(self, process: Process) -> None:
        """A process dies, and leaves no descendants."""
        self.model.count("crashes")
        self.world.kill(process, {})

    def _let_one_act(self) -> None:
        agent = self.agents[self.steps % len(self.agents)]
        if not agent.process.alive:
            self._restart(agent.process)
        if agent.waiting is None or agent.looks_at <= self.world.elapsed:
            self.act(agent)

    def _restart(self, process: Process) -> None:
        self.processes[process.slot] = new = self._started(process.slot)
        for agent in self.agents:
            if agent.process is process:
                agent.restarted(new, new.holders[0])

    def given(self, agent: Agent, grant: Grant) -> None:
        """The agent holds the grant for a bounded time."""
        footprint = self.model.asks[grant.id].footprint
        until = self.world.elapsed + int(self.random.random() * HOLD_MAX)
        agent.believe(Belief(grant.id, grant.token, grant.holder.key, footprint, until))

    def act(self, agent: Agent) -> None:
        """Wait, hold, release, and start again."""
        name, random = agent.name, self.random
        if agent.waiting is not None:
            self.ask(agent, agent.waiting, "wait")
        elif agent.beliefs and self.world.elapsed >= agent.beliefs[-1].until:
            for belief in list(agent.beliefs):
                self.release(agent, belief)
        elif agent.beliefs:
            if CROWD <= name < CROWD + CLIMBERS and len(agent.beliefs) == 1:
                self._climb(agent)
            else:
                belief = agent.beliefs[0]
                self.write(agent, belief, belief.footprint.keys[0], fenced=False)
        elif self.open_for_business:
            if name >= AGENTS - WIDE:
                self._begin(agent, self.all, "wait")
            elif name >= AGENTS - WIDE - TRIERS:
                self._begin(agent, random.choice(self.singles), "try")
            elif random.random() < 0.8:
                self._begin(agent, random.choice(self.singles), "wait")
            else:
                self._begin(agent, random.choice(self.pairs), "wait")

    def _begin(self, agent: Agent, footprint: Footprint, verb: str) -> None:
        ask = self.new_ask(agent, footprint, wait=verb == "wait", ttl=None, patience=self.patience)
        self.ask(agent, ask, verb, first=True)
        agent.gives_up_at = 1 << 62

    def _climb(self, agent: Agent) -> None:
        """Request another file while holding one. After a refusal the agent starts again."""
        self._begin(agent, self.random.choice(self.singles), "wait")
        if agent.waiting is None and len(agent.beliefs) == 1:
            self.release(agent, agent.beliefs[0])
