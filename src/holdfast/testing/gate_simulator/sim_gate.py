"""The gate under agents, stops, prompts, commits and kills: one run, by a seed.

Each step is one event of one agent: its hook reads the world, others may act meanwhile, then one
pure decision is made on a real store, and the client follows the answer. Hooks are killed before
their decision and between the decision and its answer, clients at any time.

    sim_gate_events   each event as a decision, with its checks
    sim_gate_world    files, processes on two hosts, clients and their agents
    sim_gate_model    the model: what the gate has promised
    sim_gate_checks   compares the answers to agents with the model
    sim_gate_mutants  bugs that a run must catch
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core import rules
from holdfast.core.model import SECOND, Holder
from holdfast.gate.rulebook import event_decisions, unblocking
from holdfast.gate.rulebook.outcomes import Denied, Halted, Held, Passed, Rested
from holdfast.testing.gate_simulator.sim_gate_events import GateEvents
from holdfast.testing.gate_simulator.sim_gate_world import (
    ABROAD,
    CLIENTS,
    FILES,
    HERE,
    ID_ENDS,
    ID_START,
    Agent,
    Call,
    Session,
)
from holdfast.testing.simulator.sim_state import Broken

if TYPE_CHECKING:
    pass

COMPARE_EVERY = 32
LOOK_OUT_EVERY = 25
SESSIONS = 6
SUBS_MAX = 3
CALLS_MAX = 2
HOLD = 20 * SECOND
STOP_HOLD = 228 * SECOND
#: A client writes within this time of its permission, or not at all.
WRITES_WITHIN = 60 * SECOND


class GateSimulation(GateEvents):
    """A run of many steps. `folder` is for a sqlite ledger; one in memory needs none."""

    kill_rate = 0.04
    late_rate = 0.3

    def __init__(
        self, seed: int, *, store: str = "memory", folder: str = "", wake: bool | None = None
    ) -> None:
        super().__init__(
            seed, store=store, folder=folder, wake=seed % 4 != 0 if wake is None else wake
        )
        self._sessions = 0
        #: Hooks that were held open when their agent ended, and have not noticed yet.
        self._strays: list[tuple[Agent, Call]] = []
        #: Sub-agents that continue although their session has ended.
        self._late: list[Agent] = []
        self.sessions = [self._new_session() for _ in range(SESSIONS)]

    # Running

    def run(self, steps: int) -> None:
        """Run the steps, each with all its checks. Raises Broken."""
        for _ in range(steps):
            self.step()
        self.compare()

    def step(self) -> None:
        """Time passes, an agent or the person acts, or something fails."""
        self.steps += 1
        self._late = [agent for agent in self._late if agent.is_alive]
        drawn = self.random.random()
        if drawn < 0.12:
            self._pass_time()
        elif drawn < 0.18:
            self._trouble()
        else:
            self.world.advance(int(max(0, self.random.random() - 0.2) * SECOND / 2))
            self._let_one_act()
            self._look_again()
        if self.model.blocked and self.steps % LOOK_OUT_EVERY == 0:
            self.decide("look_out", None, unblocking.look_out)
        if self.steps % COMPARE_EVERY == 0:
            self.compare()

    def _pass_time(self) -> None:
        drawn = self.random.random()
        seconds = (
            self.random.random() * 2 if drawn < 0.4 else self.random.random() * 40 if drawn < 0.75
            else self.random.random() * 400
        )  # fmt: skip
        if seconds * SECOND > WRITES_WITHIN // 2:
            for agent in self._everybody():
                while agent.writes:
                    self._write(agent)
        self.world.advance(SECOND // 10 + int(seconds * SECOND))
        self.note("time", f"{seconds:.1f} s")

    def _everybody(self) -> list[Agent]:
        return [*(agent for session in self.sessions for agent in session.agents), *self._late]

    def _any(self, among: Any) -> Any:
        return among[int(self.random.random() * len(among))]

    def _happens(self, rate: float) -> bool:
        return self.random.random() < rate

    def _new_session(self) -> Session:
        self._sessions += 1
        host = ABROAD if self._happens(0.2) else HERE
        id = f"{ID_START}{self._sessions}{self._any(ID_ENDS)}"
        return Session(self.world, self._any(CLIENTS), id, host)

    # The actions of agents

    def _let_one_act(self) -> None:
        if self._strays and self._happens(0.2):
            self._decided(*self._strays.pop(0))
            self.model.count("hooks of agents that had ended")
            return
        if self._late and self._happens(0.25):
            self._go_on_late(self._any(self._late))
            return
        session = self._any(self.sessions)
        agent = self._any(session.agents)
        if agent.calls and not (self._is_waiting(agent) and self._happens(0.2)):
            self._go_on(agent, self._any(agent.calls))
        elif not session.is_alive:
            self._revive(session)
        elif agent.writes and self._happens(0.7):
            self._write(agent)
        elif agent.is_idle:
            self._speak(agent)
        else:
            self._work(agent)

    def _go_on_late(self, agent: Agent) -> None:
        """A sub-agent whose session has ended writes once more, and ends."""
        if agent.writes:
            self._write(agent)
        elif agent.calls:
            self._go_on(agent, self._any(agent.calls))
        elif self._happens(0.3 if self.model.of(agent.key) else 0.9):
            self._want(agent)
        else:
            self._begin(agent, "stop", seen=self._seen(agent), may_go_on=False, hold=0, ends=True)

    def _look_again(self) -> None:
        """A hook that holds its call open looks repeatedly."""
        held = [(agent, call) for agent in self._everybody() for call in agent.calls if call.stage]
        if held and self._happens(0.3):
            self._go_on(*self._any(held))

    def _is_waiting(self, agent: Agent) -> bool:
        """Whether an agent may act beside its open call: clients run several tools in parallel, and
        a person may prompt an agent whose stop is held open."""
        call = agent.calls[0]
        if not agent.is_alive or not call.stage:
            return False
        agent.is_idle = call.stage == "stop"
        return len(agent.calls) == 1 and not (agent.is_idle and agent.agent)

    def _speak(self, agent: Agent) -> None:
        """The client waits for its user."""
        drawn = self.random.random()
        if agent.agent:
            if drawn < 0.1:
                self._begin(agent, "live_on", is_tail=self._happens(0.5))
        elif drawn < 0.5:
            self._begin(agent, "prompt")
        elif drawn < 0.56:
            self._begin(agent, "session_end")
        elif drawn < 0.62:
            self._begin(agent, "live_on", is_tail=self._happens(0.5))
        elif drawn < 0.68:
            self._begin(agent, "session_start")

    def _work(self, agent: Agent) -> None:
        drawn = self.random.random()
        session = agent.session
        tries_others = self.model.is_blocked(agent.key) and len(session.subs) < SUBS_MAX
        if tries_others and self._happens(0.3):
            self._begin(agent, "agent_call")
        elif agent.again or agent.calls:
            self._want(agent)
        elif self.model.waits(agent.key) and self._happens(0.25):
            self._stop(agent)  # it has nothing else to do
        elif drawn < 0.45:
            self._want(agent)
        elif drawn < 0.62:
            self._stop(agent)
        elif drawn < 0.74:
            self._commit(agent)
        elif drawn < 0.8:
            self._begin(agent, "live_on", is_tail=self._happens(0.5))
        elif drawn < 0.9:
            if len(session.subs) < SUBS_MAX:
                self._begin(agent, "agent_call")
        elif drawn < 0.93:
            self._begin(agent, "fail")
        elif agent.agent:
            pass
        elif drawn < 0.96:
            self._begin(agent, "prompt")
        elif drawn < 0.97:
            self._begin(agent, "session_start")
        elif drawn < 0.985:
            self._begin(agent, "session_end")

    def _want(self, agent: Agent) -> None:
        if agent.again:
            paths, agent.again = agent.again, ()
            self.model.count("edits repeated")
        else:
            count = 2 if self._happens(0.2) else 1
            waited = [path for one in self.model.waits(agent.key) for path in one.paths]
            first = self._any(waited) if waited and self._happens(0.5) else self._any(FILES)
            paths = tuple(dict.fromkeys((first, *(self._any(FILES) for _ in range(count - 1)))))
        self._begin(agent, "edit", paths=paths, stamps=self.world.stamps(paths))

    def _stop(self, agent: Agent) -> None:
        if agent.calls or agent.writes:
            return
        may_go_on, holds = self._happens(0.7), self._happens(0.8)
        self._begin(
            agent, "stop", seen=self._seen(agent), may_go_on=may_go_on,
            hold=STOP_HOLD if holds else 0, ends=bool(agent.agent) and self._happens(0.8),
        )  # fmt: skip

    def _commit(self, agent: Agent) -> None:
        """An agent commits its changes and those of its sub-agents; the files are clean then."""
        ids = []
        for lease in self.model.leases.values():
            below = lease.key == agent.key or agent.key in self.model.ancestors(lease.key)
            if below and not lease.handed and self._happens(0.8):
                self.world.files[lease.paths[0]].is_dirty = False
                ids.append(lease.id)
        if ids:
            self._begin(agent, "commit", ids=ids)

    def _begin(self, agent: Agent, kind: str, **facts: Any) -> None:
        """A hook starts, and has read the world."""
        if len(agent.calls) >= CALLS_MAX:
            return
        if kind == "fail":
            agent.writes.clear()
        elif kind == "session_end":
            self._leave_behind(agent.session)
        call = Call(kind, **facts)
        agent.calls.append(call)
        if not self._happens(self.late_rate):
            self._go_on(agent, call)

    def _go_on(self, agent: Agent, call: Call) -> None:
        """A hook comes to its next decision, unless it is killed before or after it."""
        if call.stage == "edit" and self._now >= call.until + SECOND and agent.is_alive:
            agent.calls.remove(call)  # it has answered that the edit was refused
            return
        drawn = self.random.random()
        if drawn < self.kill_rate / 2:
            self.model.count("hooks killed before their decision")
            self.note("hook killed before", call.kind, agent.key)
            self._failed(agent, call)
            return
        outcome = self._decided(agent, call)
        if drawn < self.kill_rate:
            self.model.count("hooks killed before their answer")
            self.note("hook killed after", call.kind, agent.key)
            self._failed(agent, call)
            return
        self._answered(agent, call, outcome)

    # The reactions of clients to answers

    def _failed(self, agent: Agent, call: Call) -> None:
        """The hook failed: its client writes nothing, and continues without it."""
        if call in agent.calls:
            agent.calls.remove(call)
        if not agent.is_alive:
            return
        if call.kind == "edit" and self._happens(0.5):
            agent.again = call.facts["paths"]
        elif call.kind == "stop":
            agent.is_idle = True
            if call.facts["ends"]:
                self._dismiss(agent)
        elif call.kind == "session_end":
            self._end(agent.session)
        elif call.kind == "prompt":
            agent.is_idle = False
        elif call.kind == "agent_call" and self._happens(0.5):
            self._born(agent)

    def _answered(self, agent: Agent, call: Call, outcome: Any) -> None:
        if self._is_held(agent, call, outcome):
            return
        if call in agent.calls:
            agent.calls.remove(call)
        if not agent.is_alive:
            return
        if call.kind == "edit":
            if isinstance(outcome, Passed):
                agent.writes.append(call.facts["paths"])
                if self._happens(0.6):
                    self._write(agent)
            elif isinstance(outcome, Halted):
                while agent.writes:
                    self._write(agent)
                agent.is_idle = agent.session.client == "claude" or self._happens(0.5)
        elif call.kind == "stop":
            if isinstance(outcome, Halted | Rested):
                agent.is_idle = True
                if call.facts["ends"] and isinstance(outcome, Rested):
                    self._dismiss(agent)
        elif call.kind in ("prompt", "live_on"):
            agent.is_idle = bool(call.facts.get("is_tail")) and agent.is_idle
        elif call.kind == "agent_call":
            # clients also start agents in ways that call no hook
            if self._happens(0.7):
                self._born(agent)
        elif call.kind == "session_end":
            self._end(agent.session)

    def _is_held(self, agent: Agent, call: Call, outcome: Any) -> bool:
        """Whether the hook keeps its call open."""
        if isinstance(outcome, Held):
            call.stage, call.until = "stop", outcome.until
            return True
        if isinstance(outcome, Denied) and self.promises.wake and outcome.wait.ticket:
            if not call.stage:
                call.stage, call.until = "edit", outcome.now + HOLD
            call.wait_id = outcome.wait.id
            return self._now < call.until
        return False

    def _write(self, agent: Agent) -> None:
        """An agent writes the file that it was permitted to write, and must own at that moment."""
        paths = agent.writes.pop(0)
        for path in paths:
            self.world.viewer = agent.session.host
            self.model.now = self._now
            lease = self.model.owner(path)
            if lease is None or lease.key != agent.key:
                has = "no agent" if lease is None else lease.key
                raise Broken("writes under a lease (1)", f"{agent.key} writes {path} of {has}")
            lease.written.add(path)
            self.world.write(path)
        self.model.count("writes")
        self.note("write", agent.key, *paths)

    def _born(self, agent: Agent) -> None:
        sub = agent.session.new_sub()
        self._begin(sub, "agent_start")

    def _leave_behind(self, session: Session) -> None:
        """The hooks of a session no longer matter, but some still run."""
        for agent in session.agents:
            held = [call for call in agent.calls if call.stage and self._happens(0.8)]
            self._strays += [(agent, call) for call in held]
        session.drop_calls()

    def _dismiss(self, agent: Agent) -> None:
        if agent in self._late:
            self._late.remove(agent)
        if agent in agent.session.subs:
            agent.session.subs.remove(agent)

    def _end(self, session: Session) -> None:
        """The session is over; its client may live on, with another session."""
        session.drop_calls()
        self.sessions[self.sessions.index(session)] = fresh = self._new_session()
        if self._happens(0.8 if session.subs else 0.5):
            fresh = self.sessions[self.sessions.index(fresh)]
            self.world.kill(fresh.witness)
            fresh.witness, fresh.host = session.witness, session.host
            self._late += [sub for sub in session.subs if self._happens(0.8)]
        else:
            self.world.kill(session.witness)
        self._begin(fresh.main, "session_start")

    def _revive(self, session: Session) -> None:
        """A session whose client was killed continues in a new process, or another one starts."""
        if self._happens(0.7):
            return
        session.drop_calls()
        if self._happens(0.5):
            session.witness = self.world.start(session.host)
            session.subs.clear()
            session.main.is_idle = self._happens(0.7)
            self.model.count("sessions resumed")
            self._begin(session.main, "session_start")
        else:
            self.sessions[self.sessions.index(session)] = fresh = self._new_session()
            self._begin(fresh.main, "session_start")

    # Trouble

    def _trouble(self) -> None:
        drawn = self.random.random()
        if drawn < 0.3:
            self._kill_one()
        elif drawn < 0.55:
            path = self._any(FILES)
            self.note("a person saves", path)
            self.world.write(path)
            self.model.count("files that a person saved")
        elif drawn < 0.8:
            self._resume()
        elif drawn < 0.85:
            self._open_again(self._any(self.sessions))
        elif drawn < 0.92:
            self.world.clock.step_wall(-int(self.random.random() * 5000))
            self.model.count("clock steps")
        else:
            self._force()

    def _kill_one(self) -> None:
        session = self._any(self.sessions)
        if not session.is_alive:
            return
        self.note("kill", session.key)
        self.model.count("clients killed")
        self.world.kill(session.witness)
        for agent in session.agents:
            agent.writes.clear()
            agent.calls = [call for call in agent.calls if self._happens(0.5)]
            if self._happens(0.3):
                length = int(self.random.random() * 200 * SECOND)
                self.world.leave_running(f"mark of {agent.key}", length)

    def _open_again(self, session: Session) -> None:
        """The person opens a session in a second window, only reads it, and closes the window."""
        first = session.witness
        if not session.is_alive or self.model.processes.get(session.key) != first:
            return
        session.witness = self.world.start(session.host)
        asker = self._asker(session.main)
        rule = lambda view: event_decisions.session_start(view, asker)  # noqa: E731
        _passed, _others, elsewhere = self.decide("session_start", session.main, rule, second=True)
        if elsewhere is None or elsewhere.witness != first:
            raise Broken("a second window is told (4)", f"{session.key}")
        self.world.kill(session.witness)
        session.witness = first
        self.model.count("second windows")

    def _resume(self) -> None:
        keys = list(self.model.blocked.values())
        one = self._any(keys) if keys and self._happens(0.5) else ""
        self.decide("resume", None, lambda view: event_decisions.let_go_on(view, "a person", one))

    def _force(self) -> None:
        """A person takes a file away from an agent that is not about to write it."""
        writing = {
            path
            for agent in self._everybody()
            for paths in (*agent.writes, *(call.facts.get("paths", ()) for call in agent.calls))
            for path in paths
        }
        ids = [one.id for one in self.model.leases.values() if writing.isdisjoint(one.paths)]
        if ids:
            id = self._any(ids)
            by = Holder(id="operator")
            self.decide("force", None, lambda view: rules.force(view, id, by=by, reason="test"))
