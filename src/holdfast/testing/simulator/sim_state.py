"""The state of the model: grants, tickets, living processes, and conflicts.

It shares no code with the rulebook: overlap, time and death come from `sim_world`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.model import Event, Witness
from holdfast.testing.simulator.sim_world import Ask, LedgerClock, World

#: The data of an event.
Facts = Mapping[str, Any]


class Broken(Exception):
    """An invariant does not hold."""

    def __init__(self, invariant: str, facts: str) -> None:
        super().__init__(f"{invariant}: {facts}")
        self.invariant = invariant
        self.facts = facts


class Command:
    """The command that was just given: events may only result from it."""

    __slots__ = ("caller", "holder", "id", "verb")

    def __init__(self, verb: str, id: str, holder: str, caller: Witness | None = None) -> None:
        self.verb = verb
        self.id = id
        self.holder = holder
        self.caller = caller


class Held:
    """A grant that the ledger has not ended."""

    __slots__ = (
        "acquired", "ask", "expires_at", "footprint", "holder", "id", "idle_at", "renewed",
        "slept", "token",
    )  # fmt: skip

    def __init__(self, ask: Ask, event: Event, token: int, slept: int) -> None:
        ttl = ask.request.ttl
        self.ask = ask
        self.id = ask.id
        self.holder = ask.holder
        self.footprint = ask.footprint
        self.token = token
        self.expires_at = None if ttl is None else event.at + ttl
        self.idle_at: int | None = None
        self.slept = slept
        self.acquired = event
        self.renewed: Event | None = None

    def copy(self) -> Held:
        """A copy for a backup."""
        held = Held(self.ask, self.acquired, self.token, self.slept)
        held.expires_at, held.idle_at = self.expires_at, self.idle_at
        held.renewed = self.renewed
        return held


class Queued:
    """A ticket that still waits."""

    __slots__ = (
        "added", "arrival", "ask", "footprint", "grown_at", "holder", "id", "lucky", "reserved",
        "ripe_at",
    )  # fmt: skip

    def __init__(self, ask: Ask, event: Event) -> None:
        self.ask = ask
        self.id = ask.id
        self.holder = ask.holder
        self.footprint = ask.footprint.without_silent()  # a second name may be made while it waits
        self.arrival = event.seq
        self.ripe_at = event.at + ask.request.patience
        self.grown_at = event.at + int(event.data["grace"])
        self.added = event
        self.reserved: Event | None = None
        self.lucky = False  # it could start, and was left to its own look

    def rank(self, head: int) -> tuple[bool, int, int]:
        """The rank in the queue when the ledger's last event was this one."""
        reserved = self.reserved is not None and self.reserved.seq <= head
        return not reserved, 0 if reserved else -self.ask.request.priority, self.arrival

    def copy(self) -> Queued:
        """A copy for a backup."""
        queued = Queued(self.ask, self.added)
        queued.reserved = self.reserved
        queued.lucky = self.lucky
        return queued


class State:
    """Grants and tickets, and every question about them."""

    def __init__(self, world: World, time: LedgerClock) -> None:
        self.world = world
        self.time = time
        self.grants: dict[str, Held] = {}
        self.tickets: dict[str, Queued] = {}

    def expiry(self, held: Held) -> int | None:
        """When a lease ends. Time asleep with the machine does not count."""
        if held.expires_at is None or not held.ask.mortal:
            return held.expires_at
        return held.expires_at + max(0, self.time.slept - held.slept)

    def has_expired(self, held: Held) -> bool:
        """Whether the lease has expired."""
        expiry = self.expiry(held)
        return expiry is not None and self.time.now >= expiry

    def is_idle(self, held: Held) -> bool:
        """Whether the owner has been idle too long."""
        return held.idle_at is not None and self.time.now >= held.idle_at

    def owner_is_dead(self, ask: Ask) -> bool:
        """Whether the owner and its descendants are gone."""
        holder = ask.request.holder
        if holder.witness is None:
            return False
        return self.world.is_dead(holder.witness, holder.marks) is True

    def waiter_is_dead(self, ask: Ask) -> bool:
        """Whether the process that waits with this request is dead."""
        waiter = ask.request.waiter
        if waiter is not None and self.world.is_dead(waiter, ()):
            return True
        return self.owner_is_dead(ask)

    def is_live(self, held: Held) -> bool:
        """Whether a grant counts."""
        return not (self.has_expired(held) or self.is_idle(held) or self.owner_is_dead(held.ask))

    def is_ripe(self, queued: Queued) -> bool:
        """Whether a ticket is a reservation, or is due to be one."""
        return queued.reserved is not None or queued.ripe_at <= self.time.now

    def is_young(self, queued: Queued) -> bool:
        """Whether a ticket is only woken when its turn comes, and must look for itself."""
        return self.time.now < queued.grown_at

    def is_held_back(self, queued: Queued) -> bool:
        """Whether anything in the ledger conflicts with a ticket, live or not."""
        footprint, holder, arrival = queued.footprint, queued.holder, queued.arrival
        for held in self.grants.values():
            if held.holder != holder and footprint.meets(held.footprint):
                return True
        return any(
            other.arrival < arrival
            and other.holder != holder
            and self.is_ripe(other)
            and footprint.meets(other.footprint)
            for other in self.tickets.values()
        )

    def awaited(self, queued: Queued) -> set[str]:
        """The holders that a reservation waits for, directly or through other waiting requests: for
        their grants, or for their turn."""
        found: set[str] = set()
        pending = [queued]
        while pending:
            waiting = pending.pop()
            holders = [held.holder for held in self._grants_before(waiting)]
            holders += [other.holder for other in self._reservations_before(waiting)]
            for holder in holders:
                if holder not in found:
                    found.add(holder)
                    pending += self._waiting(holder)
        return found

    def is_in_circle(self, queued: Queued) -> bool:
        """Whether a holder waits for itself through grants alone."""
        found: set[str] = set()
        pending = [queued]
        while pending:
            for held in self._grants_before(pending.pop()):
                if held.holder not in found:
                    found.add(held.holder)
                    pending += self._waiting(held.holder)
        return queued.holder in found

    def _grants_before(self, queued: Queued) -> list[Held]:
        footprint, holder = queued.footprint, queued.holder
        return [
            held
            for held in self.grants.values()
            if held.holder != holder
            and footprint.meets(held.footprint)
            and (held.footprint.steal_only or self.is_live(held))
        ]

    def _reservations_before(self, queued: Queued) -> list[Queued]:
        return [
            other
            for other in self.tickets.values()
            if other.arrival < queued.arrival
            and other.holder != queued.holder
            and queued.footprint.meets(other.footprint)
            and self.is_ripe(other)
            and not self.waiter_is_dead(other.ask)
        ]

    def _waiting(self, holder: str) -> list[Queued]:
        return [
            queued
            for queued in self.tickets.values()
            if queued.holder == holder and not self.waiter_is_dead(queued.ask)
        ]
