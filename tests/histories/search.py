"""The search for a legal order of the operations on one set of keys.

The algorithm is Wing and Gong's, with the cache of states that Lowe added: place next any operation
whose call came before the earliest answer that is still missing, step the model, and backtrack if
no operation fits. A state that was visited with the same operations placed is not tried again.

Two facts about locks keep the search short. An operation that fits and changes nothing is placed
without trying others: wherever it is in a legal order, it can be moved here. And of the grants only
the one with the smallest token can be next. The remaining choices are when releases, renewals and
observed ends took effect, earliest answer first.

A request without an answer may have been granted. That is tried only where a refusal needs it as
its reason: before the first such refusal it makes no difference, and no answer shows that it was
earlier.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from histories.model import NEVER, NOTHING_HELD, Held, Model
from histories.operation import Operation


class Stuck(NamedTuple):
    """Where the search came furthest: after which answers no operation fits, and why."""

    at: int
    placed: tuple[Operation, ...]
    held: Held
    left: tuple[tuple[Operation, str], ...]


class OutOfBudget(Exception):
    """It is undecided whether there is an order."""


class _Place(NamedTuple):
    """A state of the search: the operations that are placed."""

    #: The operations of which any may be next, by their numbers. All before `reached` that are not
    #: among them are placed.
    open: frozenset[int]
    reached: int
    #: Requests without an answer that are assumed to have been granted.
    guessed: frozenset[int]
    next_grant: int
    held: Held

    @property
    def key(self) -> tuple[object, ...]:
        return self.open, self.reached, self.guessed, frozenset(self.held.items())


class Search:
    """One search. `budget` bounds the number of visited states."""

    def __init__(self, model: Model, operations: tuple[Operation, ...], budget: int) -> None:
        self._model = model
        known = (operation for operation in operations if operation.outcome is not None)
        self._operations = sorted(known, key=lambda o: (o.invoked, o.answered or 0))
        self._unknown = sorted(
            (operation for operation in operations if operation.asks and operation.outcome is None),
            key=lambda o: o.invoked,
        )
        self._answered = [operation.answered or 0 for operation in self._operations]
        self._changes = [operation.changes for operation in self._operations]
        self._grants = sorted(
            (number for number, o in enumerate(self._operations) if o.asks and o.outcome),
            key=lambda number: self._operations[number].token,
        )
        self._order: list[Operation] = []
        self._stuck: Stuck | None = None
        self._budget = budget

    def run(self) -> list[Operation] | Stuck:
        """A legal order, or where it got stuck. Raises OutOfBudget."""
        place = self._settled(_Place(frozenset(), 0, frozenset(), 0, NOTHING_HELD))
        seen = {place.key}
        trail = [(len(self._order), self._ways_on(place))]
        while trail and place.open:
            length, ways = trail[-1]
            for operation, after in ways:
                self._order.append(operation)
                place = self._settled(after)
                if place.key not in seen:
                    seen.add(place.key)
                    trail.append((len(self._order), self._ways_on(place)))
                    break
                del self._order[length:]
            else:
                trail.pop()
                del self._order[trail[-1][0] if trail else 0 :]
            if len(seen) > self._budget:
                raise OutOfBudget
        if not place.open:
            return self._order
        assert self._stuck is not None
        return self._stuck

    def _settled(self, place: _Place) -> _Place:
        """The place after all operations that fit and change nothing. At the end none is open."""
        model, operations, held = self._model, self._operations, place.held
        still_open, reached = set(place.open), place.reached
        fresh = sorted(still_open)
        while True:
            for number in fresh:
                operation = operations[number]
                if not self._changes[number] and model.step(held, operation) is held:
                    self._order.append(operation)
                    still_open.discard(number)
            fresh = []
            earliest = min((self._answered[number] for number in still_open), default=NEVER)
            while reached < len(operations) and operations[reached].invoked <= earliest:
                fresh.append(reached)
                earliest = min(earliest, self._answered[reached])
                reached += 1
            if not fresh:
                return place._replace(open=frozenset(still_open), reached=reached)
            still_open.update(fresh)

    def _ways_on(self, place: _Place) -> Iterator[tuple[Operation, _Place]]:
        """Every operation that changes something and fits here, the earliest answer first."""
        numbers = sorted(place.open, key=lambda number: (self._answered[number], number))
        left = []
        for number in numbers:
            operation = self._operations[number]
            is_grant = operation.asks and operation.outcome is True
            if is_grant and self._grants[place.next_grant] != number:
                left.append((operation, "a grant with a smaller token comes first"))
                continue
            held = self._model.step(place.held, operation)
            if isinstance(held, str):
                left.append((operation, held))
                continue
            yield (
                operation,
                place._replace(
                    open=place.open - {number}, next_grant=place.next_grant + is_grant, held=held
                ),
            )
        at = min((self._answered[number] for number in numbers), default=NEVER)
        yield from self._guesses(place, at, [operation for operation, _ in left])
        if self._stuck is None or at > self._stuck.at:
            self._stuck = Stuck(at, tuple(self._order), place.held, tuple(left))

    def _guesses(
        self, place: _Place, at: int, left: list[Operation]
    ) -> Iterator[tuple[Operation, _Place]]:
        """The requests without an answer that, if they were granted here, explain a refusal."""
        refused = [operation for operation in left if operation.asks and not operation.outcome]
        for number, operation in enumerate(self._unknown):
            if not refused or operation.invoked > at:
                return
            if number in place.guessed:
                continue
            held = self._model.step(place.held, granted_by(operation, at))
            if isinstance(held, str):
                continue
            if any(self._model.step(held, one) is held for one in refused):
                yield operation, place._replace(guessed=place.guessed | {number}, held=held)


def granted_by(operation: Operation, at: int) -> Operation:
    """A request without an answer, if it was granted before an answer that came at this moment."""
    answered = at if operation.answered is None else min(at, operation.answered)
    return replace(operation, answered=answered, answer="")
