"""The sequential specification: the right answers when calls come one after the other.

It shares nothing with the rulebook. The complete rules:

    A request is granted only if every live, overlapping grant of another holder is a read, and the
    request is one too. Paths overlap if they are equal or one contains the other.
    A request is refused only if it conflicts with a live grant, or with a reservation of a request
    that has waited past its patience.
    `verify` and `fenced` succeed only for a live grant with its own token, and fail only otherwise.
    `release` and `renew` succeed only for a grant that has not ended. An expired grant remains
    until a request, `renew` or `release` meets it, so it can still be released. Any process may
    release a grant; only its holder renews it.
    A grant ends by its release, by time (a ttl after it was granted or renewed), or with its
    process.

The moments at which a lease expires or a process dies are known as intervals. Before the interval
the grant is live, after it the grant is not, and inside it an answer decides. So the model accepts
a little more than an exact clock would, and never less.

The order of tokens is not here: it holds over the whole ledger, and `windows` checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from histories.operation import Death, History, Operation, Want

#: A moment that is never reached.
NEVER = 1 << 62
#: A lease is measured on the ledger's clock, in whole microseconds, and the machine may be busy.
EARLY, LATE = 1_000_000, 100_000_000
#: Named things that are not paths; nothing contains them.
RESOURCES = ("port:", "db:", "git:", "res:")


class Lease(NamedTuple):
    """A grant that is held: when it expires at the earliest, at the latest, and whether an answer
    has shown that it has expired."""

    earliest: int
    latest: int
    lapsed: bool = False


#: The held grants by id. Never changed: a step makes a new one.
Held = Mapping[str, Lease]
NOTHING_HELD: Held = {}


class Facts(NamedTuple):
    """What is true of a grant in every order."""

    holder: str
    wants: tuple[Want, ...]
    token: int
    ttl: int | None
    #: From when on it may have ended, other than by time, and from when on it has.
    may_end: int
    must_end: int
    #: Whether a renewal had no answer, so that it may have been extended.
    stretched: bool


def parts(key: str) -> tuple[str, ...]:
    """The components of a path; the root has none. A named resource is one that no path has."""
    if key.startswith(RESOURCES):
        return ("", key)
    return tuple(part for part in key.split("/") if part not in ("", "."))


def overlap(one: str, other: str) -> bool:
    """Whether two keys are equal, or one contains the other."""
    first, second = parts(one), parts(other)
    if "" in first or "" in second:
        return first == second
    shorter = min(len(first), len(second))
    return first[:shorter] == second[:shorter]


def clash(some: Iterable[Want], others: Iterable[Want]) -> bool:
    """Whether two holders cannot have both."""
    others = tuple(others)
    return any(
        (mode == "w" or its == "w") and overlap(key, held)
        for key, mode in some
        for held, its in others
    )


class Model:
    """The specification, with the known facts about the grants of one history."""

    def __init__(self, history: History, seen: History | None = None) -> None:
        """`seen` is the history as it was recorded, if the windows of this one are narrower: the
        wait of a request counts from its call."""
        self._deaths = {death.process: death for death in history.deaths}
        self._clashes: dict[tuple[tuple[Want, ...], tuple[Want, ...]], bool] = {}
        self.facts: dict[str, Facts] = {}
        for operation in history.operations:
            if operation.asks and operation.outcome is not False:
                self.facts[grant_of(operation)] = self._facts_of(operation)
        for operation in history.operations:
            if operation.outcome is None and operation.grant in self.facts:
                self._note_unanswered(operation)
        self._excused = self._excused_refusals((seen or history).operations)

    def _facts_of(self, operation: Operation) -> Facts:
        death = self._deaths.get(operation.process, Death("", NEVER))
        may_end = death.after
        if operation.answer == "failed":  # its call may have released the grant
            may_end = operation.invoked
        return Facts(
            operation.holder, operation.wants, operation.token, operation.ttl,
            may_end, NEVER if death.by is None else death.by, False,
        )  # fmt: skip

    def _note_unanswered(self, operation: Operation) -> None:
        facts = self.facts[operation.grant]
        if operation.call == "release":
            facts = facts._replace(may_end=min(facts.may_end, operation.invoked))
        elif operation.call == "renew":
            facts = facts._replace(stretched=True)
        self.facts[operation.grant] = facts

    def clashes(self, some: tuple[Want, ...], others: tuple[Want, ...]) -> bool:
        """`clash`, cached."""
        known = self._clashes.get((some, others))
        if known is None:
            known = self._clashes[some, others] = clash(some, others)
        return known

    # One step

    def step(self, held: Held, operation: Operation) -> Held | str:
        """The held grants after an operation: the same object if they did not change, or a text if
        the operation cannot have had this answer here. A request whose outcome is unknown counts as
        granted, and needs a moment by which it was."""
        yes = operation.outcome is not False
        if operation.asks:
            return self._grant(held, operation) if yes else self._refuse(held, operation)
        lease = held.get(operation.grant)
        if operation.call == "release":
            return self._release(held, operation, lease, yes)
        if operation.call == "renew":
            return self._renew(held, operation, lease, yes)
        return self._verify(held, operation, lease, yes)

    def _grant(self, held: Held, operation: Operation) -> Held | str:
        ended = []
        for id, lease in held.items():
            facts = self.facts[id]
            if facts.holder == operation.holder or not self.clashes(facts.wants, operation.wants):
                continue
            if not self._may_have_ended(id, lease, operation):
                return f"{facts.holder} holds {id} and it has not ended"
            ended.append(id)
        after = {id: lease for id, lease in held.items() if id not in ended}
        id = grant_of(operation)
        assert operation.answered is not None
        extent = self._extent(self.facts[id], operation.ttl, operation.invoked, operation.answered)
        after[id] = Lease(*extent)
        return after

    def _refuse(self, held: Held, operation: Operation) -> Held | str:
        if self._excused and operation in self._excused:
            return held
        for id, lease in held.items():
            facts = self.facts[id]
            if (
                facts.holder != operation.holder
                and self.clashes(facts.wants, operation.wants)
                and not self._must_have_ended(id, lease, operation)
            ):
                return held
        return "nothing that it asks for is held by another holder"

    def _release(
        self, held: Held, operation: Operation, lease: Lease | None, yes: bool
    ) -> Held | str:
        if lease is None:
            return "this grant has ended already" if yes else held
        if not yes and not self._may_have_ended(operation.grant, lease, operation):
            return "this grant has not ended"
        return {id: its for id, its in held.items() if id != operation.grant}

    def _renew(
        self, held: Held, operation: Operation, lease: Lease | None, yes: bool
    ) -> Held | str:
        facts = self.facts.get(operation.grant)
        is_holder = facts is not None and facts.holder == operation.holder
        if not yes:
            return self._release(held, operation, lease, False) if is_holder else held
        if facts is None or not is_holder:
            return "only its holder renews a grant"
        if lease is None or self._must_have_ended(operation.grant, lease, operation):
            return "this grant has ended"
        assert operation.answered is not None
        ttl = operation.ttl or facts.ttl
        extent = self._extent(facts, ttl, operation.invoked, operation.answered)
        longer = Lease(max(lease.earliest, extent[0]), max(lease.latest, extent[1]))
        return {**held, operation.grant: longer}

    def _verify(
        self, held: Held, operation: Operation, lease: Lease | None, yes: bool
    ) -> Held | str:
        facts = self.facts.get(operation.grant)
        covered = facts is not None and all(want in facts.wants for want in operation.wants)
        if lease is None or facts is None:
            return "this grant is not held" if yes else held
        if facts.token != operation.token or not covered:
            return "its token is another one, or it does not cover this" if yes else held
        over = self._must_have_ended(operation.grant, lease, operation)
        if yes:
            return "this grant has run out" if over else held
        if over:
            return held
        if not self._may_have_ended(operation.grant, lease, operation):
            return "this grant is held"
        return {**held, operation.grant: lease._replace(lapsed=True)}

    # When a grant ends by itself

    def _extent(
        self, facts: Facts, ttl: int | None, invoked: int, answered: int
    ) -> tuple[int, int]:
        if ttl is None:
            return NEVER, NEVER
        return invoked + ttl - EARLY, NEVER if facts.stretched else answered + ttl + LATE

    def _may_have_ended(self, id: str, lease: Lease, operation: Operation) -> bool:
        by = operation.answered
        assert by is not None
        return lease.earliest <= by or self.facts[id].may_end <= by

    def _must_have_ended(self, id: str, lease: Lease, operation: Operation) -> bool:
        since = operation.invoked
        return lease.lapsed or lease.latest < since or self.facts[id].must_end < since

    # Reservations

    def _excused_refusals(self, operations: Iterable[Operation]) -> frozenset[Operation]:
        """The refusals that a reservation may explain. Waiting requests are not part of the state,
        so these refusals are excused by their times alone."""
        operations = tuple(operations)
        waits = [operation for operation in operations if self._may_reserve(operation)]
        if not waits:
            return frozenset()
        return frozenset(
            refused
            for refused in operations
            if refused.asks and refused.outcome is False
            if any(self._keeps_out(wait, refused) for wait in waits)
        )

    @staticmethod
    def _may_reserve(operation: Operation) -> bool:
        if operation.call != "acquire" or operation.patience is None:
            return False
        return operation.answered is None or (
            operation.answered - operation.invoked >= operation.patience
        )

    def _keeps_out(self, wait: Operation, refused: Operation) -> bool:
        assert wait.patience is not None
        assert refused.answered is not None
        until = NEVER if wait.answered is None else wait.answered
        death = self._deaths.get(wait.process)
        if death is not None and death.by is not None:
            until = min(until, death.by)
        return (
            wait.holder != refused.holder
            and wait.invoked + wait.patience <= refused.answered
            and refused.invoked <= until
            and self.clashes(wait.wants, refused.wants)
        )


def grant_of(operation: Operation) -> str:
    """The id of the grant of a request; a request without an answer has an id of its own."""
    return operation.grant or f"?{operation.process}@{operation.invoked}"
