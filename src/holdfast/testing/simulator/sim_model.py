"""The independent model: what the ledger must contain, derived from its events alone.

Every event is checked against the invariants when it is committed, so no state goes unchecked. What
an event may contain depends on the state (`sim_state`) and on the command that was just given.

The numbers in parentheses are those of `docs/simulation.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b

from holdfast.core.model import Event
from holdfast.testing.simulator.sim_state import (
    Broken,
    Command,
    Facts,
    Held,
    Queued,
    State,
)
from holdfast.testing.simulator.sim_world import Ask, LedgerClock, World


class Backup:
    """The contents of the ledger at one moment."""

    __slots__ = ("grants", "head", "ids", "last_at", "last_token", "said", "tickets", "time")

    def __init__(self, model: Model) -> None:
        self.grants = [held.copy() for held in model.grants.values()]
        self.tickets = [queued.copy() for queued in model.tickets.values()]
        self.head = model.head
        self.last_at = model.last_at
        self.last_token = model.last_token
        self.said = dict(model.said)
        self.ids = dict(model.ids)
        self.time = model.time.saved()

    def events(self) -> tuple[Event, ...]:
        """The events that the state is derived from, and one that only records where the history
        ended."""
        found = [held.acquired for held in self.grants]
        found += [held.renewed for held in self.grants if held.renewed is not None]
        found += [queued.added for queued in self.tickets]
        found += [queued.reserved for queued in self.tickets if queued.reserved is not None]
        if not any(event.seq == self.head for event in found):
            found.append(Event(seq=self.head, type="rebuilt", at=self.last_at, data={}))
        return tuple(
            Event(seq=e.seq, type=e.type, at=e.at, data=_without_ticket(e), subject=None)
            for e in sorted(found, key=lambda event: event.seq)
        )


def _without_ticket(event: Event) -> Facts:
    if event.type != "lock_acquired":
        return event.data
    return {name: value for name, value in event.data.items() if name != "ticket"}


class Model(State):
    """The state according to the model. `commit` raises Broken if the ledger cannot be right."""

    def __init__(self, world: World, *, by_looking: bool, history_events_max: int | None) -> None:
        super().__init__(world, LedgerClock(world.clock, by_looking=by_looking))
        self.history_events_max = history_events_max
        self.asks: dict[str, Ask] = {}
        self.ids: dict[str, None] = {}  # every grant of this history that was not released
        self.said: dict[tuple[object, ...], int] = {}
        self.head = 0
        self.last_at = 0
        self.last_token = 0
        self.token_max = 0  # over all histories
        self.resurrected: set[str] = set()
        self.written: dict[str, dict[str, int]] = {}  # by file: the last writer and its token
        self.command = Command("", "", "")
        self.counts: dict[str, int] = {}
        self.longest_wait = 0
        self.digest = blake2b(digest_size=16)
        self.before = 0  # the last event before the present decision
        self._freed = 0
        self.granted_now = 0  # grants made by the present decision
        self._thief = ""
        self._apply: dict[str, Callable[[Event, Facts], None]] = {
            "lock_acquired": self._acquired,
            "lock_renewed": self._renewed,
            "lock_released": self._released,
            "lock_reaped": self._reaped,
            "lock_stolen": self._stolen,
            "lock_forced": self._forced,
            "lock_refused": self._refused,
            "ticket_added": self._added,
            "ticket_reserved": self._reserved,
            "ticket_dropped": self._dropped,
        }

    def count(self, what: str) -> None:
        """Count one more of these."""
        self.counts[what] = self.counts.get(what, 0) + 1

    # One decision

    def commit(self, events: Sequence[Event], now: int, *, repeated: bool) -> None:
        """Check and apply the events of one decision; if `repeated`, its last event was counted
        instead of written."""
        self.before = self.head
        self._freed = self.granted_now = 0  # grants made by the present decision
        self._thief = ""
        for place, event in enumerate(events, 1):
            if event.at != now:
                raise Broken("time (10)", f"{event.type} is at {event.at}, the time is {now}")
            if event.seq != self.before + place:
                raise Broken("sequence (10)", f"{event.type} is {event.seq} after {self.head}")
            if repeated and place == len(events):
                self._repeated(event.type, event.data)
                break
            if event.at < self.last_at:
                raise Broken("time (10)", f"{event.at} after {self.last_at}")
            self.head = event.seq
            self.last_at = event.at
            data = event.data
            self._apply[event.type](event, data)
            if event.at > self.time.floor:
                self.time.floor = event.at
            self.count(event.type)
            about = data.get("grant") or data.get("id") or data.get("ticket")
            self.digest.update(f"{event.seq} {event.type} {event.at} {about}\n".encode())
        if events:
            self.time.bind()
        if self._thief:
            raise Broken("steal", f"{self._thief} ended a lease and was not granted it")
        if self._freed:
            self._none_forgotten()

    def _none_forgotten(self) -> None:
        freed = self._freed
        free = [
            queued
            for queued in self.tickets.values()
            if queued.footprint.reach & freed and not queued.lucky and not self.is_held_back(queued)
        ]
        for queued in free:
            queued.lucky = self.is_young(queued)  # it is only woken, and looks for itself
            if not queued.lucky:
                raise Broken(
                    "forgotten ticket (9)", f"{queued.id} could start after {self.command.verb}"
                )

    def _ask_of(self, data: Facts) -> Ask:
        ask = self.asks.get(data["id"])
        if ask is None:
            raise Broken("all or nothing (3)", f"no request has the id {data['id']}")
        request = ask.request
        if (
            tuple(data["keys"]) != request.keys
            or data["modes"] != request.modes
            or data["holder"]["id"] != request.holder.id
            or data["ttl"] != request.ttl
        ):
            raise Broken("all or nothing (3)", f"{data} is not what {request} requested")
        return ask

    def _acquired(self, event: Event, data: Facts) -> None:
        ask = self._ask_of(data)
        held = Held(ask, event, data["token"], data.get("slept", 0))
        if ask.id in self.ids:
            raise Broken("one request, one grant (2)", f"{ask.id} was granted before")
        if held.token <= self.token_max:
            raise Broken("tokens grow (2)", f"{held.token} after {self.token_max}")
        if held.slept != self.time.slept:
            raise Broken("time (10)", f"{held.id} has {held.slept} slept, not {self.time.slept}")
        queued = self.tickets.get(ask.id)
        if ("ticket" in data) != (queued is not None):
            raise Broken("ticket and grant", f"{ask.id} had a ticket: {queued is not None}")
        self._alone(held)
        self._in_turn(ask, queued)
        if queued is not None:
            if self.command.id != ask.id and self.waiter_is_dead(ask):
                raise Broken("dead waiter (9)", f"{ask.id} was granted, and its waiter is dead")
            self.count("hand-overs" if self.command.id != ask.id else "own looks that start")
            del self.tickets[ask.id]
        self.longest_wait = max(self.longest_wait, self.world.elapsed - ask.asked_at)
        self.grants[ask.id] = held
        self.ids[ask.id] = None
        self.token_max = self.last_token = held.token
        self.granted_now += 1
        if self._thief == ask.id:
            self._thief = ""

    def _alone(self, new: Held) -> None:
        writes_reach, reach = new.footprint.writes_reach, new.footprint.reach
        for held in self.grants.values():
            if held.holder != new.holder and (
                writes_reach & held.footprint.any or reach & held.footprint.writes
            ):
                raise Broken(
                    "one writer (1)",
                    f"{new.id} of {new.holder} beside {held.id} of {held.holder}:"
                    f" {new.footprint.keys} {new.footprint.modes},"
                    f" {held.footprint.keys} {held.footprint.modes}",
                )

    def _in_turn(self, ask: Ask, queued: Queued | None) -> None:
        arrival = 1 << 62 if queued is None else queued.arrival
        footprint = ask.footprint if queued is None else queued.footprint
        for other in self.tickets.values():
            if other.holder == ask.holder or not footprint.meets(other.footprint):
                continue
            left_to_itself, other.lucky = other.lucky, False
            if other.arrival < arrival and self.is_ripe(other):
                if self.waiter_is_dead(other.ask):
                    continue
                if ask.holder not in self.awaited(other):
                    raise Broken("reservations (8)", f"{ask.id} overtook {other.id}")
                self.count("reservations passed")
            elif (
                self.command.verb != "steal"  # a thief is not in the queue
                and not (left_to_itself or self.is_young(other))
                and (queued is None or other.rank(self.before) < queued.rank(self.before))
                and other.footprint.clashes(ask.footprint)
                and not self.is_held_back(other)
                and not self.waiter_is_dead(other.ask)
            ):
                raise Broken("order of the queue (8)", f"{ask.id} came before {other.id}")

    def _holding(self, data: Facts) -> Held:
        held = self.grants.get(data["grant"])
        if held is None:
            raise Broken("fold (4)", f"{data} names no live grant")
        if "token" in data and data["token"] != held.token:
            raise Broken("fold (4)", f"{data} does not have the token {held.token}")
        return held

    def _renewed(self, event: Event, data: Facts) -> None:
        held = self._holding(data)
        command = self.command
        if command.verb != "renew" or command.id != held.id:
            raise Broken("renewed by itself", f"{command.verb} {command.id} renewed {held.id}")
        if not self.may_renew(held):
            raise Broken("renewed by another", f"{held.id} by {command.holder}")
        if (self.has_expired(held) or self.is_idle(held)) and not held.footprint.steal_only:
            raise Broken("revived", f"{held.id} had ended when it was renewed")
        before = self.expiry(held)
        held.expires_at, held.idle_at = data["expires_at"], data["idle_at"]
        held.slept = data["slept"]
        held.renewed = event
        after = self.expiry(held)
        if (before is None) != (after is None) or (before or 0) > (after or 0):
            raise Broken("a lease is never shortened", f"{held.id}: {before} became {after}")

    def may_renew(self, held: Held) -> bool:
        """Whether the present command comes from the holder: in its name, or from its owner
        process."""
        command = self.command
        if command.holder:
            return command.holder == held.holder
        return command.caller == held.ask.request.holder.witness

    def _ended(self, held: Held) -> None:
        del self.grants[held.id]
        self._freed |= held.footprint.any

    def _released(self, event: Event, data: Facts) -> None:
        held = self._holding(data)
        if self.command.verb != "release" or self.command.id != held.id:
            raise Broken(
                "taken from a living owner (7)", f"{self.command.verb} {self.command.id} of"
                f" {self.command.holder} released {held.id} of {held.holder}",
            )  # fmt: skip
        if self.command.holder and self.command.holder != held.holder:
            raise Broken("taken from a living owner (7)", f"{held.id} by {self.command.holder}")
        self._ended(held)
        self.ids.pop(held.id, None)  # the ledger does not remember released grants

    def _reaped(self, event: Event, data: Facts) -> None:
        held, why = self._holding(data), data["why"]
        true = {
            "expired": self.has_expired(held),
            "idle": self.is_idle(held),
            "owner dead": self.owner_is_dead(held.ask),
        }
        if not true[why]:
            raise Broken("taken from a living owner (7)", f"{held.id} was reaped: {why}")
        if held.footprint.steal_only:
            raise Broken("steal only", f"{held.id} was reaped: {why}")
        self.count(f"reaped: {why}")
        self._ended(held)

    def _stolen(self, event: Event, data: Facts) -> None:
        held = self._holding(data)
        if self.command.verb != "steal" or not self.has_expired(held):
            raise Broken("taken from a living owner (7)", f"{held.id} was stolen")
        self._thief = self.command.id
        if data["by"]["grant"] != self._thief or self.command.holder == held.holder:
            raise Broken("steal", f"{held.id} was stolen by {data['by']}")
        self._ended(held)

    def _forced(self, event: Event, data: Facts) -> None:
        held = self._holding(data)
        if self.command.verb != "force" or self.command.id != held.id:
            raise Broken("taken from a living owner (7)", f"{held.id} was forced")
        self._ended(held)

    def _once(self, data: Facts) -> tuple[object, ...]:
        ask = self.asks[self.command.id]
        return (data["code"], ask.holder, ask.request.keys, ask.request.modes, *data["blockers"])

    def _refused(self, event: Event, data: Facts) -> None:
        once = self._once(data)
        before = self.said.get(once)
        oldest = 0 if self.history_events_max is None else event.seq - self.history_events_max
        if before is not None and before > oldest:
            raise Broken("repeated refusals (11)", f"{once} again, after {before}")
        self.said[once] = event.seq

    def _repeated(self, type: str, data: Facts) -> None:
        self.count("refusals counted, not written")
        if type != "lock_refused" or self._once(data) not in self.said:
            raise Broken("repeated refusals (11)", f"{type} was not written")

    def _added(self, event: Event, data: Facts) -> None:
        ask = self._ask_of(data)
        if ask.id in self.tickets or ask.id in self.grants or ask.id != self.command.id:
            raise Broken("one ticket a request (9)", f"{ask.id} by {self.command.id}")
        self.tickets[ask.id] = Queued(ask, event)
        self._freed |= ask.footprint.reach

    def _queued(self, data: Facts) -> Queued:
        queued = self.tickets.get(data["ticket"])
        if queued is None:
            raise Broken("fold (4)", f"{data} names no ticket")
        return queued

    def _reserved(self, event: Event, data: Facts) -> None:
        queued = self._queued(data)
        if queued.reserved is not None or event.at < queued.ripe_at:
            raise Broken("patience (8)", f"{queued.id} reserves too early")
        queued.reserved = event

    def _dropped(self, event: Event, data: Facts) -> None:
        queued, why = self._queued(data), data["why"]
        if why == "waiter dead":
            if not self.waiter_is_dead(queued.ask):
                raise Broken("a living waiter's ticket (9)", f"{queued.id} was dropped")
            self.count("dead waiters")
        elif self.command.id != queued.id:
            raise Broken("a living waiter's ticket (9)", f"{queued.id} was dropped: {why}")
        del self.tickets[queued.id]
        self._freed |= queued.footprint.any

    def trimmed(self, before: int) -> None:
        """The ledger has removed its history before an event."""
        self.said = {once: seq for once, seq in self.said.items() if seq >= before}

    def forget_others(self, ids: set[str]) -> None:
        """Forget all requests but these."""
        self.asks = {id: ask for id, ask in self.asks.items() if id in ids}
        self.ids = {id: None for id in self.ids if id in ids}
        self.resurrected &= ids

    # Backups

    def restore(self, backup: Backup, *, from_events: bool) -> None:
        """The ledger is as it was at the backup. What agents have learned since is not undone."""
        for held in backup.grants:
            if held.id not in self.grants:
                self.resurrected.add(held.id)
        self.grants = {held.id: held.copy() for held in backup.grants}
        self.tickets = {queued.id: queued.copy() for queued in backup.tickets}
        self.ids = dict(backup.ids)
        self.head, self.last_at = backup.head, backup.last_at
        self.last_token = backup.last_token
        self.said = dict(backup.said)
        self.time.restore(backup.time)
        if from_events:
            self.said.clear()
            self.last_token = max((held.token for held in backup.grants), default=0)
            self.time.forget(backup.last_at)
