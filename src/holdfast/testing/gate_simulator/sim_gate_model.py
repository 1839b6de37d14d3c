"""The model: what the gate has promised, which agent may write which file, and since when.

It follows the ledger event by event, and checks whether the step may cause each event. It shares no
code with the rulebook: it has its own queues, families, ends of leases and liveness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from holdfast.core.codec import dumps, ticket_of
from holdfast.core.model import SECOND, Event, Grant, Witness
from holdfast.gate.rulebook.file_states import CONTENDED, EDGES, RETRY_PENDING
from holdfast.testing.gate_simulator.sim_gate_world import GateWorld, Step
from holdfast.testing.simulator.sim_state import Broken

#: Steps that show that an agent is at work. The start of its session does not.
SIGNS = ("edit", "live_on", "prompt", "agent_call", "agent_start")
#: Steps that end an agent's work.
STOPS = ("stop", "hold_on")
#: Steps that may be an agent's retry.
RETRIES = ("edit", "wait_on", "stop", "hold_on", "prompt")
#: How long a call of the tool that starts agents counts.
CALL_LASTS = 60 * SECOND
#: Without hand-overs, how long a file is kept after the time of the retry.
KEPT = 10 * SECOND
STOPPED = -1

_OF_WAITS = (
    "contention_heartbeat", "stop_held", "back_in_line", "file_handed_over", "contention_over",
)  # fmt: skip
_WAYS = {(edge.before, edge.after) for edge in EDGES}


class Promises:
    """The settings of a repository, in microseconds."""

    def __init__(self, *, retry: int, idle: int, foreign: int, wake: bool) -> None:
        self.retry = retry
        self.idle = idle
        self.foreign = foreign
        self.wake = wake


class Lease:
    """The lease of a file, or of several that became free together. `written` are those that its
    holder has changed, or an earlier holder of the same family."""

    __slots__ = (
        "ends_at", "handed", "id", "key", "marks", "paths", "rests_at", "since", "stamp",
        "witness", "written",
    )  # fmt: skip

    def __init__(self, grant: Grant, *, handed: bool) -> None:
        self.id = grant.id
        self.key = grant.holder.key
        self.paths = grant.paths
        self.since = grant.acquired_at
        self.handed = handed
        self.ends_at = grant.expires_at
        self.rests_at: int | None = None
        self.stamp = grant.stamp
        self.witness = grant.holder.witness
        self.marks = grant.holder.marks
        self.written: set[str] = set()


class Place:
    """A place in the queue."""

    __slots__ = ("arrival", "id", "key", "marks", "paths", "witness")

    def __init__(self, event: Event) -> None:
        request = ticket_of(event).request
        self.id = request.id
        self.key = request.holder.key
        self.witness = request.holder.witness
        self.marks = request.holder.marks
        self.paths = request.paths
        self.arrival = event.seq


class Refused:
    """A refusal after which an agent waits. `state` is the last one in the ledger."""

    __slots__ = (
        "circle", "denied_at", "handed", "key", "name", "paths", "retry_at", "state", "ticket",
    )  # fmt: skip

    def __init__(self, name: str, key: str, event: Event) -> None:
        self.name = name
        self.key = key
        self.paths = tuple(event.data["paths"])
        self.ticket: str = event.data["ticket"]
        self.denied_at: int = event.data["denied_at"]
        self.retry_at: int = event.data["retry_at"]
        self.circle = bool(event.data["circle"])
        self.handed = False
        self.state = CONTENDED


class Freed:
    """The file of a blocked agent is free: whether people were told, and whether another agent has
    taken it since."""

    __slots__ = ("taken", "told")

    def __init__(self) -> None:
        self.told = False
        self.taken = False


class GateModel:
    """The present promises."""

    def __init__(self, world: GateWorld, promises: Promises) -> None:
        self.world = world
        self.promises = promises
        self.now = 0
        self.head = 0
        self.leases: dict[str, Lease] = {}
        self.line: dict[str, Place] = {}
        self.refusals: dict[str, Refused] = {}
        self.blocked: dict[str, str] = {}
        #: The cause of each blocked agent, and whether people were told that its file is free.
        self.blockers: dict[str, str] = {}
        self.free: dict[str, Freed] = {}
        self._blocked_at: dict[str, int] = {}
        #: The first event of the present decision.
        self._begun_at = 0
        #: The time of the first event of each agent at work.
        self._heard_at: dict[str, int] = {}
        #: Agents that have stopped (STOPPED), or until when their stop is held open.
        self.rests: dict[str, int] = {}
        #: Agents that stopped without leases, and without sub-agents that could pass any to them.
        self.alone: set[str] = set()
        self.parents: dict[str, str] = {}
        self.births: dict[str, list[tuple[str, int]]] = {}
        self.present: dict[str, str] = {}
        #: The process of the last event of each agent that is present.
        self.processes: dict[str, Witness] = {}
        self.heard_of: set[str] = set()
        self.names: dict[str, str] = {}
        #: Sessions that have reported their end.
        self.closed: set[str] = set()
        self.counts: dict[str, int] = {}
        self.digest = blake2b(digest_size=16)
        self.longest_wait = 0
        self._moved: dict[str, Lease] = {}
        self._failed: set[str] = set()

    def count(self, what: str) -> None:
        """Count one more of these."""
        self.counts[what] = self.counts.get(what, 0) + 1

    # Liveness

    def is_dead(self, one: Lease | Place) -> bool:
        """Whether an owner's death can be detected."""
        return one.witness is not None and self.world.is_dead(one.witness, one.marks) is True

    def is_abroad(self, one: Lease) -> bool:
        """Whether an owner's life cannot be judged from here."""
        return one.witness is not None and self.world.is_dead(one.witness, one.marks) is None

    def lives(self, lease: Lease) -> bool:
        """Whether a lease conflicts with other requests."""
        ends = [at for at in (lease.ends_at, lease.rests_at) if at is not None]
        return self.now < min(ends, default=self.now + 1) and not self.is_dead(lease)

    def owner(self, path: str) -> Lease | None:
        """The owner of a file, if any."""
        found = [one for one in self.leases.values() if path in one.paths and self.lives(one)]
        return found[0] if found else None

    def of(self, key: str) -> list[Lease]:
        """The leases of an agent according to the ledger."""
        return [lease for lease in self.leases.values() if lease.key == key]

    def waits(self, key: str) -> list[Refused]:
        """The refusals of an agent that still wait."""
        return [one for one in self.refusals.values() if one.key == key and not one.handed]

    def in_the_way(self, key: str, paths: Sequence[str], arrival: int) -> list[str]:
        """The files among these that an agent cannot take: others have them, or are before it in
        their queue."""
        found = [
            path
            for path in paths
            for one in self.leases.values()
            if one.key != key and path in one.paths and self.lives(one)
        ]
        for place in self.line.values():
            is_ahead = place.key != key and place.arrival < arrival and not self.is_dead(place)
            if is_ahead and key not in self.awaited(place):
                found += [path for path in paths if path in place.paths]
        return found

    def awaited(self, place: Place) -> set[str]:
        """The holders that a place waits for, directly or through others that wait."""
        found: set[str] = set()
        pending = [place]
        while pending:
            one = pending.pop()
            ahead = {
                lease.key
                for lease in self.leases.values()
                if lease.key != one.key
                and not set(lease.paths).isdisjoint(one.paths)
                and self.lives(lease)
            }
            ahead |= {
                other.key
                for other in self.line.values()
                if other.key != one.key
                and other.arrival < one.arrival
                and not set(other.paths).isdisjoint(one.paths)
                and not self.is_dead(other)
            }
            for key in sorted(ahead - found):
                found.add(key)
                pending += [
                    other
                    for other in self.line.values()
                    if other.key == key and not self.is_dead(other)
                ]
        return found

    def ends_rest(self, step: Step) -> bool:
        """Whether a sign of life ends the rest of its agent. That of a blocked agent does not, and
        the end of an older call does not end a stop that is held open."""
        is_held = self.rests.get(step.key, STOPPED) != STOPPED
        is_tail = bool(step.facts.get("is_tail"))
        return not self.is_blocked(step.key) and not (is_tail and is_held)

    # Blocked agents

    def is_blocked(self, key: str) -> bool:
        """Whether an agent's own retry has failed, and no person has resumed it."""
        return key in self.blocked.values()

    def may_not_write(self, key: str) -> bool:
        """Whether an agent is blocked, or works for one that was blocked before its first event."""
        above = set(self.ancestors(key))
        since = self._heard_at.get(key, self.now)
        return self.is_blocked(key) or any(
            owner in above and self._blocked_at[name] <= since
            for name, owner in self.blocked.items()
        )

    # Families

    def ancestors(self, key: str) -> list[str]:
        """The ancestors of a sub-agent, the nearest first."""
        session = session_of(key)
        found = []
        while key != session:
            key = self.parents.get(key, session)
            found.append(key)
        return found

    def has_children(self, key: str) -> bool:
        """Whether there are sub-agents, or may soon be, whose leases pass to this agent."""
        session = session_of(key)
        if any(parent == key for parent, _at in self.births.get(session, ())):
            return True
        if key != session:
            return key in self.parents.values()
        return any(one != key and session_of(one) == session for one in self.present)

    def called(self, step: Step) -> None:
        """An agent is about to start another."""
        self.births.setdefault(session_of(step.key), []).append((step.key, self.now))

    def started(self, step: Step) -> None:
        """A sub-agent started: its parent is the agent with the oldest valid call."""
        calls = self.births.get(session_of(step.key), [])
        calls[:] = [call for call in calls if call[1] + CALL_LASTS >= self.now]
        if calls:
            parent = calls.pop(0)[0]
            if parent != step.key:
                self.parents[step.key] = parent

    def ended(self, key: str) -> None:
        """A sub-agent ended: its own sub-agents pass to its parent."""
        above = self.ancestors(key)[0]
        self.parents.pop(key, None)
        for child, parent in list(self.parents.items()):
            if parent == key:
                self.parents[child] = above
        calls = self.births.get(session_of(key), [])
        calls[:] = [call for call in calls if call[0] != key]

    def disband(self, session: str) -> None:
        """All sub-agents of a session have ended."""
        for child in [child for child in self.parents if session_of(child) == session]:
            del self.parents[child]
        self.births.pop(session, None)

    # The ledger

    def commit(self, step: Step, events: Sequence[Event], now: int) -> None:
        """Check and apply the events of a step."""
        if now < self.now:
            raise Broken("time", f"{now} after {self.now}")
        self.now = now
        self._moved.clear()
        self._failed.clear()
        self._begun_at = self.head + 1
        for event in events:
            if event.seq != self.head + 1:
                raise Broken("sequence", f"{event.seq} after {self.head}")
            self.head = event.seq
            told = f"{event.seq} {event.type} {event.at} {dumps(event.data)}\n"
            self.digest.update(told.encode())
            self.count(event.type)
            self._apply(step, event)
        if self._moved:
            raise Broken("hand-overs in a family", f"{sorted(self._moved)} went nowhere")
        owners: dict[str, str] = {}
        for lease in self.leases.values():
            for path in lease.paths if self.lives(lease) else ():
                if owners.setdefault(path, lease.key) != lease.key:
                    raise Broken("one owner (1)", f"{step}: {path}: {owners[path]}, {lease.key}")

    def _apply(self, step: Step, event: Event) -> None:
        kind = event.type
        if kind == "lock_acquired":
            self._acquired(step, event)
        elif kind in ("lock_released", "lock_reaped", "lock_moved", "lock_forced"):
            self._over(step, event)
        elif kind == "lock_renewed":
            self._renewed(step, event)
        elif kind == "ticket_added":
            place = Place(event)
            if place.key != step.key or step.kind not in ("edit", "wait_on"):
                raise Broken("line (5)", f"{step} put {place.key} in line")
            self.rests.pop(place.key, None)  # it has just tried to write
            self.line[place.id] = place
        elif kind == "ticket_dropped":
            self._left(step, event)
        elif kind == "ticket_reserved" or kind == "lock_refused":
            pass
        elif kind in ("agent_present", "agent_gone", "agent_named"):
            self._present(step, event)
        elif kind in ("agent_blocked", "agent_resumed"):
            self._blocked(step, event)
        elif kind in ("blocker_free", "blocker_free_told", "blocker_free_over"):
            self._freed(step, event)
        elif kind in _OF_WAITS:
            self._refused(step, event)

    def _acquired(self, step: Step, event: Event) -> None:
        grant = event.subject
        assert grant is not None
        place = self.line.get(grant.id)
        came_from = self._moved.pop(grant.id, None)
        key = grant.holder.key
        handed = place is not None
        if place is not None:
            self.count("hand-overs")
            self._check_served(step, place)
            del self.line[place.id]
        elif came_from is not None:
            self._check_moved(step, came_from, grant)
            handed = came_from.handed and grant.ttl is not None
        elif key != step.key:
            raise Broken("whose it is (1)", f"{step} gave {grant.paths} to {key}")
        elif step.kind in ("edit", "wait_on") and grant.ttl is None:
            if not set(grant.paths) <= set(step.wanted):
                raise Broken("nothing by guess (1)", f"{step} took {grant.paths}")
            self._check_not_passed(step, key, grant.paths)
        else:
            handed = True
            self._check_retried(step, grant)
        lease = Lease(grant, handed=handed)
        for name, freed in self.free.items():
            if self.blockers[name.replace(":free:", ":blocked:")] in grant.paths:
                freed.taken = True
        if came_from is not None:
            lease.written = came_from.written & set(lease.paths)
        kept = place is not None and not self.promises.wake
        length = self.promises.retry + KEPT if kept else self.promises.idle
        if handed and lease.ends_at != self.now + length and came_from is None:
            raise Broken("hand-overs lapse (4)", f"{step}: {grant.paths} ends at {lease.ends_at}")
        if not handed and lease.ends_at is not None:
            raise Broken("no end but its owner's (4)", f"{step}: {grant.paths} of {key}")
        self.leases[lease.id] = lease

    def _check_served(self, step: Step, place: Place) -> None:
        if self.is_dead(place):
            raise Broken("nothing to the dead (5)", f"{step}: {place.paths} to {place.key}")
        if self.rests.get(place.key) == STOPPED:
            raise Broken("nothing to the stopped (5)", f"{step}: {place.paths} to {place.key}")
        is_let_go_on = step.kind == "prompt" and place.key == step.key
        if self.is_blocked(place.key) and not is_let_go_on:
            raise Broken("nothing to the blocked (5)", f"{step}: {place.paths} to {place.key}")
        self._check_not_passed(step, place.key, place.paths, place.arrival)

    def _check_not_passed(
        self, step: Step, key: str, paths: Sequence[str], arrival: int = 1 << 62
    ) -> None:
        for path in self.in_the_way(key, paths, arrival):
            raise Broken("order of the line (5)", f"{step}: {key} got {path} before its turn")

    def _check_retried(self, step: Step, grant: Grant) -> None:
        due = [one for one in self.waits(step.key) if one.retry_at <= self.now]
        if step.kind not in RETRIES or all(one.paths != grant.paths for one in due):
            raise Broken("nothing tried in between (2)", f"{step} took {grant.paths}")
        self._check_not_passed(step, step.key, grant.paths)

    def _check_moved(self, step: Step, lease: Lease, grant: Grant) -> None:
        to, by = grant.holder.key, step.key
        if to == lease.key == by:
            is_right = lease.handed or step.kind == "session_start"
        elif step.kind in STOPS and lease.key == by:
            is_right = bool(step.facts.get("ends")) and to == self.ancestors(by)[0]
        elif to == by and lease.key in self.ancestors(by):
            is_right = not set(lease.paths).isdisjoint(step.wanted) or self._comes_down(by, lease)
        elif step.kind == "session_start":
            is_right = to == by and session_of(lease.key) == by
        else:
            is_right = False
        if not is_right:
            raise Broken("hand-overs in a family (4)", f"{step}: {lease.paths} {lease.key} -> {to}")
        if lease.key != to:
            self.count(f"moved by {step.kind}")

    def _comes_down(self, key: str, lease: Lease) -> bool:
        """Whether a sub-agent waits for a file of an ancestor, and is the first of its session that
        does; if its retry is due it need not be the first."""
        for wait in self.waits(key):
            if set(lease.paths).isdisjoint(wait.paths):
                continue
            mine = self.line.get(wait.ticket)
            ahead = [
                place
                for place in self.line.values()
                if place.key != key
                and session_of(place.key) == session_of(key)
                and (mine is None or place.arrival < mine.arrival)
                and not set(place.paths).isdisjoint(lease.paths)
                and not self.is_dead(place)
                and key not in self.awaited(place)
            ]
            if not ahead or self.now >= wait.retry_at:
                return True
        return False

    def _over(self, step: Step, event: Event) -> None:
        grant = event.subject
        assert grant is not None
        lease = self.leases.pop(grant.id)
        said = f"{step}: {event.type} {lease.paths} of {lease.key}"
        if event.type == "lock_forced":
            if step.kind != "force":
                raise Broken("ends of leases (4)", said)
        elif event.type == "lock_moved":
            if lease.rests_at is not None and self.now >= lease.rests_at:
                raise Broken("ends of leases (4)", f"{said}, which had ended")
            for heir in event.data["to"]:
                self._moved[heir["grant"]] = lease
            if not event.data["to"]:
                raise Broken("ends of leases (4)", said)
        elif event.type == "lock_reaped":
            why = event.data["why"]
            is_right = {
                "owner dead": self.is_dead(lease),
                "idle": lease.rests_at is not None and self.now >= lease.rests_at,
                "expired": lease.ends_at is not None and self.now >= lease.ends_at,
            }[why]
            self.count(f"reaped: {why}")
            if not is_right:
                raise Broken("ends of leases (4)", f"{said}, {why}")
        elif not self._may_free(step, lease):
            raise Broken("ends of leases (4)", said)

    def _may_free(self, step: Step, lease: Lease) -> bool:
        if step.kind == "commit":
            return lease.id in step.facts["ids"]
        if step.kind == "session_end":
            return session_of(lease.key) == step.key
        if step.kind == "session_start" and step.agent is not None:
            is_old = lease.witness != step.agent.session.witness
            is_own = is_old and session_of(lease.key) == step.key and not step.facts.get("second")
            is_gone = lease.witness is not None and self.world.is_dead(lease.witness, ()) is True
            return lease.handed and (is_own or is_gone)
        if lease.key != step.key:
            return False
        if step.kind == "fail" or lease.handed:
            return True
        if step.facts.get("ends") and self.present.keys().isdisjoint(self.ancestors(lease.key)):
            self.count("files of those whose session had ended")
            return True
        return step.kind in STOPS and not lease.written

    def _renewed(self, step: Step, event: Event) -> None:
        data = event.data
        lease = self.leases[data["grant"]]
        ends_at, rests_at = data["expires_at"], data["idle_at"]
        said = f"{step}: {lease.paths} of {lease.key} until {ends_at}, at rest {rests_at}"
        if ends_at != lease.ends_at:
            foreign = self.promises.foreign
            is_first = lease.ends_at is None and lease.key != step.key and self.is_abroad(lease)
            is_sign = lease.key == step.key and lease.ends_at is not None and not lease.handed
            if not (is_first or is_sign) or ends_at != self.now + foreign:
                raise Broken("leases of those abroad (4)", said)
            self.count("leases of those abroad")
        if rests_at != lease.rests_at:
            came_up = step.facts.get("ends") and lease.since == self.now
            if lease.key != step.key and not came_up:
                raise Broken("rest (4)", said)
            if rests_at is None and lease.rests_at is not None and self.now >= lease.rests_at:
                raise Broken("rest (4)", f"{said}: it had ended")
        lease.ends_at, lease.rests_at = ends_at, rests_at

    def _left(self, step: Step, event: Event) -> None:
        place = self.line.pop(event.data["ticket"])
        family = step.kind == "session_end" and session_of(place.key) == step.key
        is_gone = place.witness is not None and self.world.is_dead(place.witness, ())
        if place.key != step.key and not family and not is_gone:
            raise Broken("line (5)", f"{step} took {place.key} out of the line for {place.paths}")

    # Notes

    def _present(self, step: Step, event: Event) -> None:
        name, over = event.data["agent"], event.data.get("over")
        if over:
            known: dict[str, Any]
            for known in (self.present, self.processes, self.rests, self._heard_at):
                known.pop(key_of(event), None)
            self.alone.discard(key_of(event))
            if step.kind == "session_start":
                self._forgotten(key_of(event))
            return
        key = event.data["key"]
        if step.kind in ("wait_on", "hold_on", "leave") and key not in self.present:
            raise Broken("the ended stay ended (6)", f"{step} brought {key} back")
        if self.names.setdefault(name, key) != key:
            raise Broken("names (7)", f"{name} is {self.names[name]}, and now {key}")
        if event.type == "agent_present":
            if key != step.key and key in self.heard_of:
                raise Broken("no agent is invented (6)", f"{step} brought {key} back")
            self.heard_of.add(key)
            self.present[key] = name
            self._heard_at[key] = self.now
            if step.agent is not None:
                self.processes[key] = step.agent.session.witness
            self.closed.discard(session_of(key))

    def _forgotten(self, key: str) -> None:
        """An agent ended silently."""
        if key == session_of(key):
            self.disband(key)
        else:
            self.ended(key)

    def _blocked(self, step: Step, event: Event) -> None:
        name, key = event.data["note"], key_of(event)
        if event.type == "agent_resumed":
            by_prompt = step.kind == "prompt" and session_of(key) == step.key
            if not by_prompt and step.kind != "resume":
                raise Broken("left by a person (3)", f"{step} resumed {key}")
            if self.blocked.pop(name, None) is None:
                raise Broken("left by a person (3)", f"{step} resumed {key}, which was not blocked")
            return
        file = event.data["report"]["blocked_file"]
        has_failed = name.replace(":blocked:", ":retry:") in self._failed
        if key != step.key or not has_failed or step.kind not in RETRIES:
            raise Broken("blocked by its retry (3)", f"{step} blocked {key}")
        if file not in self.in_the_way(key, (file,), 1 << 62):
            raise Broken("blocked for nothing (3)", f"{step}: {file} is free")
        if self.is_blocked(key) and step.kind != "prompt":
            raise Broken("blocked once (3)", f"{step}")
        self.blocked[name], self._blocked_at[name] = key, self.now
        self.blockers[name] = file

    def is_free(self, block: str, *, before: int = 1 << 62) -> bool:
        """Whether no conflict keeps a blocked agent from its file, nor did before an event: only
        the next decision sees a place that this decision has queued."""
        file = self.blockers[block]
        return not self.in_the_way(self.blocked[block], (file,), before)

    def _freed(self, step: Step, event: Event) -> None:
        name = event.data["note"]
        block, known = name.replace(":free:", ":blocked:"), self.free.get(name)
        if event.type == "blocker_free_over":
            was_taken = block in self.blocked and not self.is_free(block)
            if known is None or (block in self.blocked and not was_taken):
                raise Broken("what is free (3)", f"{step}: {name} is over")
            del self.free[name]
            return
        if block not in self.blocked or not self.is_free(block, before=self._begun_at):
            raise Broken("what is free (3)", f"{step}: {name} is not")
        if event.type == "blocker_free":
            if known is not None and not known.taken:
                raise Broken("free once (3)", f"{step}: {name}")
            self.free[name] = Freed()
        elif known is None or known.told or step.kind != "look_out":
            raise Broken("told once (3)", f"{step}: {name}")
        else:
            known.told = True

    def _refused(self, step: Step, event: Event) -> None:
        name, key, data = event.data["note"], key_of(event), event.data
        wait = self.refusals.get(name)
        if event.type == "contention_heartbeat":
            self._check_heartbeat(step, key, data)
            wait = self.refusals[name] = Refused(name, key, event)
        assert wait is not None, f"{step}: {event}"
        if event.type == "back_in_line":
            self._check_back(step, wait, data)
            wait.ticket, wait.circle = data["ticket"], bool(data["circle"])
        if event.type == "file_handed_over":
            wait.handed, wait.ticket = True, data["ticket"]
        self._check_state(step, wait, data)
        if data.get("over"):
            is_end = step.kind == "session_end" and session_of(key) == step.key
            if key != step.key and not is_end and step.kind != "session_start":
                raise Broken("notes (6)", f"{step} ended a wait of {key}")
            if data.get("blocked"):
                self._failed.add(name)
                if self.now < wait.retry_at:
                    raise Broken("blocked by its retry (3)", f"{step}: due at {wait.retry_at}")
            self.longest_wait = max(self.longest_wait, self.now - wait.denied_at)
            del self.refusals[name]

    def _check_heartbeat(self, step: Step, key: str, data: Mapping[str, Any]) -> None:
        if key != step.key or step.kind not in ("edit", "wait_on"):
            raise Broken("heartbeat (2)", f"{step}: of {key}")
        if data["denied_at"] != self.now or data["retry_at"] != self.now + self.promises.retry:
            raise Broken("heartbeat (2)", f"{step}: retry {data['retry_at'] - self.now} later")
        if any(set(data["paths"]) == set(one.paths) for one in self.waits(key)):
            raise Broken("one heartbeat for each denial (2)", f"{step}: {data['paths']}")

    def _check_back(self, step: Step, wait: Refused, data: Mapping[str, Any]) -> None:
        if wait.key != step.key or step.kind not in ("edit", "wait_on"):
            raise Broken("back in line (5)", f"{step}: {wait.key}")
        if wait.ticket in self.line or wait.circle or wait.handed:
            raise Broken("back in line (5)", f"{step}: it needs no place for {wait.paths}")
        told = (tuple(data["paths"]), data["denied_at"], data["retry_at"])
        if told != (wait.paths, wait.denied_at, wait.retry_at):
            raise Broken("one retry for each denial (2)", f"{step}: {told}")

    def _check_state(self, step: Step, wait: Refused, data: Mapping[str, Any]) -> None:
        state = data.get("state")
        if state is None or state == wait.state == RETRY_PENDING:  # a stop is held for it
            return
        if (wait.state, state) not in _WAYS:
            raise Broken("states (6)", f"{step}: {wait.state} -> {state}")
        wait.state = state


def session_of(key: str) -> str:
    """The key of the session's own agent."""
    return key[: key.rindex("/") + 1]


def key_of(event: Event) -> str:
    """The agent that a note is about."""
    name: str = event.data["note"]
    return name.split(":")[1]
