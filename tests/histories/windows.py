"""The interval in which each operation took effect, narrowed by tokens and fenced sections.

Both rules hold over a whole ledger, so they connect sets that are otherwise checked separately. A
grant with a larger token was granted later; and during a fenced section no lock changes hands. So
the interval of an operation is often much shorter than that from its call to its answer. If it is
empty, the history is illegal, and a few operations show why.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from histories.model import NEVER
from histories.operation import History, Operation

Window = tuple[int, int]


class Contradiction(Exception):
    """Operations without a legal order, whatever else happened."""

    def __init__(self, why: str, *operations: Operation) -> None:
        super().__init__(why)
        self.why = why
        self.operations = operations


def narrowed(history: History) -> History:
    """The same history with the narrowest known windows of its operations."""
    by_section = _outside_sections(history.operations)
    by_token = _in_order_of_tokens(history.operations)
    found = []
    for place, operation in enumerate(history.operations):
        if place in by_section or place in by_token:
            assert operation.answered is not None
            whole = (operation.invoked, operation.answered)
            one, other = by_section.get(place, whole), by_token.get(place, whole)
            invoked, answered = max(one[0], other[0]), min(one[1], other[1])
            if invoked > answered:
                why = "its token and the fenced sections leave no moment at which it was given"
                raise Contradiction(why, operation)
            operation = replace(operation, invoked=invoked, answered=answered)
        found.append(operation)
    return history.only(found)


# Fenced sections


def _outside_sections(operations: Sequence[Operation]) -> dict[int, Window]:
    """Narrower windows, by the operation's place."""
    sections = [
        (*operation.section, operation) for operation in operations if operation.section is not None
    ]
    sections.sort(key=lambda section: section[:2])
    for (_, end, one), (begin, _, other) in pairwise(sections):
        if begin < end:
            raise Contradiction("two fenced sections overlap", one, other)
    starts = [begin for begin, _, _ in sections]

    def around(at: int) -> tuple[int, int, Operation] | None:
        place = bisect_right(starts, at) - 1
        return sections[place] if place >= 0 and starts[place] < at < sections[place][1] else None

    windows = {}
    for place, operation in enumerate(operations):
        if not operation.changes or operation.answered is None:
            continue
        invoked, answered = operation.invoked, operation.answered
        first, last = around(invoked), around(answered)
        if first is not None and last is not None and first[1] > last[0]:
            raise Contradiction("it changed hands inside a fenced section", first[2], operation)
        if first is not None or last is not None:
            windows[place] = (first[1] if first else invoked, last[0] if last else answered)
    return windows


# Tokens


def _in_order_of_tokens(operations: Sequence[Operation]) -> dict[int, Window]:
    """Narrower windows, by the operation's place."""
    given = [
        (operation.token, place, operation)
        for place, operation in enumerate(operations)
        if operation.asks and operation.outcome
    ]
    given.sort(key=lambda one: one[:2])
    _refuse_repeats([operation for _, _, operation in given])
    begins = {}
    latest: Operation | None = None
    for _, place, operation in given:
        assert operation.answered is not None
        if latest is None or operation.invoked > latest.invoked:
            latest = operation
        if latest.invoked > operation.answered:
            why = "the grant that was given later has the smaller token"
            raise Contradiction(why, operation, latest)
        begins[place] = latest.invoked
    windows, earliest = {}, NEVER
    for _, place, operation in reversed(given):
        assert operation.answered is not None
        earliest = min(earliest, operation.answered)
        windows[place] = (begins[place], earliest)
    return windows


def _refuse_repeats(given: list[Operation]) -> None:
    ids: dict[str, Operation] = {}
    before: Operation | None = None
    for operation in given:
        if before is not None and before.token == operation.token:
            raise Contradiction("two grants have the same token", before, operation)
        if operation.grant in ids:
            raise Contradiction("one grant was given twice", ids[operation.grant], operation)
        ids[operation.grant] = before = operation
