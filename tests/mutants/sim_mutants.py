"""Seeded bugs: each breaks the real code in one small way, during its `with` block.

They show that the simulator can fail. Each names the invariant that should catch it; where the
broken code raises by itself, that is a catch as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from holdfast.core import (
    conflicts,
    draft,
    keys,
    ledger_time,
    rules,
    table,
    wait_line,
)
from holdfast.core.draft import Draft
from holdfast.core.events import ENDINGS
from holdfast.core.model import SECOND, Conflicts, Event, Grant, Request, Ticket, Verdict, Witness
from holdfast.store import memory
from holdfast.store.sqlite import sqlite_store

if TYPE_CHECKING:
    from holdfast.core.model import Decision
    from holdfast.core.view import View

Patch = tuple[Any, str, Any]
Row = tuple[str, str, str]

MODULES: tuple[ModuleType, ...] = (conflicts, draft, rules, table, wait_line, memory, sqlite_store)

MUTANTS: dict[str, Mutant] = {}


class Mutant:
    """One seeded bug."""

    def __init__(self, name: str, about: str, patches: Callable[[], list[Patch]]) -> None:
        self.name = name
        self.about = about
        self._patches = patches

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the code is broken. Not for several threads."""
        draft._reached.clear()  # the cached values come from the other code
        try:
            with patched(self._patches()):
                yield
        finally:
            draft._reached.clear()


@contextmanager
def patched(patches: list[Patch]) -> Iterator[None]:
    """Other values under these names, temporarily."""
    with ExitStack() as undo:
        for owner, name, value in patches:
            undo.callback(setattr, owner, name, owner.__dict__[name])
            setattr(owner, name, value)
        yield


def mutant(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    """Register a mutant: the function returns its patches, its docstring describes the bug."""
    name = patches.__name__
    MUTANTS[name] = Mutant(name, (patches.__doc__ or "").strip(), patches)
    return patches


def everywhere(original: Any, value: Any) -> list[Patch]:
    """The same function under every name by which the code calls it."""
    name = original.__name__
    return [(module, name, value) for module in MODULES if module.__dict__.get(name) is original]


# Life and death


@mutant
def skip_liveness() -> list[Patch]:
    """No owner is ever found dead. Caught by (6)."""
    return [(Draft, "is_dead", lambda self, witness, marks=(): False)]


@mutant
def bury_the_unknown() -> list[Patch]:
    """An owner that cannot be judged counts as dead. Caught by (7)."""
    is_dead = Draft.is_dead
    return [
        (
            Draft,
            "is_dead",
            lambda self, witness, marks=(): is_dead(self, witness, marks) is not False,
        )
    ]


@mutant
def forget_descendants() -> list[Patch]:
    """A dead owner is dead, even if its descendants live. Caught by (7)."""
    is_dead = Draft.is_dead
    return [(Draft, "is_dead", lambda self, witness, marks=(): is_dead(self, witness))]


@mutant
def one_answer_per_process() -> list[Patch]:
    """Two holders of one process count as dead together. Caught by (7)."""

    def is_dead(self: Draft, witness: Witness | None, marks: tuple[str, ...] = ()) -> bool | None:
        if witness is None:
            return False
        known: dict[Any, bool | None] = self._dead
        if witness not in known:
            known[witness] = self.view.dead(witness, marks)
        return known[witness]

    return [(Draft, "is_dead", is_dead)]


@mutant
def serve_the_dead() -> list[Patch]:
    """Tickets are served even if their waiters are dead. Caught by (9)."""
    return everywhere(conflicts.waiter_is_dead, lambda draft, ticket: False)


# Tokens and grants


@mutant
def reuse_token() -> list[Patch]:
    """A token is issued twice while the wall clock is behind. Caught by (2)."""
    granted = draft.granted
    return everywhere(
        granted, lambda view, request, last_token: granted(view, request, last_token - 1)
    )


class _Wallless:
    """A view whose wall clock is at zero."""

    def __init__(self, view: View) -> None:
        self.now = view.now
        self.slept = view.slept
        self.lease = view.lease
        self.wall = 0


@mutant
def restart_tokens() -> list[Patch]:
    """Tokens follow the ledger alone, so a restored backup issues them again. Caught by (2)."""
    granted: Callable[..., Grant] = draft.granted
    return everywhere(
        granted, lambda view, request, last_token: granted(_Wallless(view), request, last_token)
    )


@mutant
def partial_grant() -> list[Patch]:
    """The last of several keys is left out. Caught by (3)."""
    granted = draft.granted

    def partial(view: View, request: Request, last_token: int) -> Grant:
        if len(request.keys) > 1:
            request = Request(
                request.id, request.holder, request.keys[:-1], request.modes[:-1],
                ttl=request.ttl,
            )  # fmt: skip
        return granted(view, request, last_token)

    return everywhere(granted, partial)


@mutant
def second_grant() -> list[Patch]:
    """A request whose answer was lost is granted again. Caught by (2)."""
    acquire = rules.acquire

    def forgetful(view: View, request: Request, *, wait: bool, again: bool = True) -> Decision[Any]:
        return acquire(view, request, wait=wait, again=False)

    return [(rules, "acquire", forgetful)]


@mutant
def same_name_same_holder() -> list[Patch]:
    """Holders are distinguished by name instead of key. Caught by (1)."""
    original = conflicts.grants_in_the_way

    def by_name(draft: Draft, request: Request) -> Conflicts:
        found = original(draft, request)
        return Conflicts(conflict for conflict in found if conflict.holder != request.holder.id)

    return everywhere(original, by_name)


# Overlap


@mutant
def overlap_by_text() -> list[Patch]:
    """`app/x` overlaps `app/xy` because the text does. Caught by the overlap of the model."""

    scopes = table.LockTable.scopes

    def overlap(one: str, other: str) -> bool:
        return one == "." or other == "." or one.startswith(other) or other.startswith(one)

    def by_text(
        self: table.LockTable, at: list[str], below: list[tuple[str, str]]
    ) -> Iterator[Row]:
        rows = dict.fromkeys(scopes(self, at, below))
        for grant in self.grants():
            for key, mode in zip(grant.keys, grant.modes, strict=True):
                if any(key.startswith(low[:-1]) for low, _high in below):
                    rows[key, mode, grant.id] = None
        return iter(rows)

    return [(keys, "overlap", overlap), (table.LockTable, "scopes", by_text)]


@mutant
def forget_ancestors() -> list[Patch]:
    """The folders above a path are not checked. Caught by (1)."""
    return [(keys, "ancestors", lambda key: [])]


@mutant
def one_name_per_file() -> list[Patch]:
    """Two names of one file are two things. Caught by (1)."""
    checked_keys = conflicts.checked_keys

    def by_path(request: Request) -> tuple[str, ...]:
        return tuple(key for key in checked_keys(request) if not key.startswith("inode:"))

    return everywhere(checked_keys, by_path)


# Leases


@mutant
def never_expires() -> list[Patch]:
    """A lease never ends by time. Caught by (6)."""
    fate = conflicts.fate

    def patient(draft: Draft, grant: Grant) -> str:
        why = fate(draft, grant)
        return "" if why == conflicts.EXPIRED else why

    return everywhere(fate, patient)


@mutant
def steal_the_living() -> list[Patch]:
    """Any lease can be stolen. Caught by (7)."""
    steal = rules.steal

    def greedy(view: View, request: Request) -> Decision[Any]:
        with patched([(rules, "fate", lambda draft, grant: conflicts.EXPIRED)]):
            return steal(view, request)

    return [(rules, "steal", greedy)]


@mutant
def renew_the_dead() -> list[Patch]:
    """An expired lease is renewed as if nothing had happened. Caught as a revival."""
    renew = rules.renew

    def generous(view: View, id: str, **rest: Any) -> Decision[Any]:
        with patched([(rules, "fate", lambda draft, grant: "")]):
            return renew(view, id, **rest)

    return [(rules, "renew", generous)]


@mutant
def renew_shortens() -> list[Patch]:
    """A renewal may end a lease earlier than it would have. Caught as such."""
    extend = Draft.extend

    def shortened(
        self: Draft, grant: Grant, *, expires_at: int | None, idle_at: int | None
    ) -> Grant:
        if expires_at is not None:
            expires_at = self.now + SECOND
        return extend(self, grant, expires_at=expires_at, idle_at=idle_at)

    return [(Draft, "extend", shortened)]


@mutant
def sleep_uses_up_leases() -> list[Patch]:
    """Time asleep with the machine counts against a lease. Caught by (7)."""
    return everywhere(conflicts.expiry, lambda draft, grant: grant.expires_at)


@mutant
def wall_clock() -> list[Patch]:
    """Ledger time is the wall clock. Caught by (10)."""

    def wall(
        anchor: object, reading: ledger_time.Reading, last_event_at: int
    ) -> tuple[int, int, None]:
        return max(reading.wall, last_event_at), 0, None

    return everywhere(ledger_time.ledger_time, wall)


# Releasing and verifying


@mutant
def release_another() -> list[Patch]:
    """The release of one grant ends another of the same holder. Caught by (7)."""
    release = rules.release

    def wrong(view: View, id: str, holder_key: str | None) -> Decision[Any]:
        others = [grant.id for grant in view.held_by(holder_key or "") if grant.id != id]
        return release(view, others[0] if others else id, holder_key)

    return [(rules, "release", wrong)]


@mutant
def scope_left_behind() -> list[Patch]:
    """The end of a grant leaves one of its keys held. Caught by (4)."""
    apply, scopes = table.LockTable.apply, table.LockTable.scopes
    left: dict[str, Row] = {}

    def leaving(self: table.LockTable, event: Event) -> None:
        if event.type in ENDINGS:
            id = event.data["grant"]
            grant = self.grant(id)
            assert isinstance(grant, Grant)
            left[id] = (grant.keys[0], grant.modes[0], id)
        apply(self, event)

    def remembering(
        self: table.LockTable, at: list[str], below: list[tuple[str, str]]
    ) -> Iterator[Row]:
        yield from scopes(self, at, below)
        yield from [row for row in left.values() if row[0] in at]

    return [(table.LockTable, "apply", leaving), (table.LockTable, "scopes", remembering)]


@mutant
def verify_without_token() -> list[Patch]:
    """A write may proceed with any token. Caught by (5)."""
    verify = rules.verify

    def trusting(view: View, id: str, key: str | None, token: int) -> Verdict:
        grant = view.grant(id)
        return verify(view, id, key, grant.token if isinstance(grant, Grant) else token)

    return everywhere(verify, trusting)


# Waiting


@mutant
def forget_waiters() -> list[Patch]:
    """A released file is handed to no waiter. Caught by (9)."""
    return everywhere(wait_line.hand_over, lambda draft: draft.freed.clear())


@mutant
def ignore_reservations() -> list[Patch]:
    """Every request overtakes reservations. Caught by (8)."""
    return everywhere(conflicts.reservations_in_the_way, lambda draft, request, arrival=0: [])


@mutant
def last_come_first_served() -> list[Patch]:
    """The queue is served from its end. Caught by (8)."""
    tickets = Draft.tickets

    def backwards(self: Draft, at: list[str], below: list[tuple[str, str]]) -> Iterator[Ticket]:
        yield from reversed(list(tickets(self, at, below)))

    return [(Draft, "tickets", backwards)]


@mutant
def reserve_at_once() -> list[Patch]:
    """Every ticket is a reservation from the start. Caught by (8)."""
    return [(Ticket, "ripe_at", property(lambda self: self.added_at))]


@mutant
def blind_to_circles() -> list[Patch]:
    """Holders may wait for each other for ever. Caught by (12)."""
    return everywhere(wait_line.circle, lambda *_: ())


@mutant
def every_refusal_is_news() -> list[Patch]:
    """Repeated attempts fill the ledger. Caught by (11)."""
    emit = Draft.emit

    def talkative(
        self: Draft, type: str, data: Mapping[str, Any], *, once: str = "",
        subject: Grant | None = None,
    ) -> None:  # fmt: skip
        emit(self, type, data, subject=subject)

    return [(Draft, "emit", talkative)]


@mutant
def endless_patience() -> list[Patch]:
    """No ticket ever becomes a reservation. Caught by (8), and in progress mode by starvation."""
    return [(Ticket, "ripe_at", property(lambda self: 1 << 62))]


@mutant
def somebody_else() -> list[Patch]:
    """Every holder may release every grant. Caught by (7)."""
    release = rules.release

    def careless(view: View, id: str, holder_key: str | None) -> Decision[Any]:
        return release(view, id, None)

    return [(rules, "release", careless)]
