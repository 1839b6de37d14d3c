"""Reduces an illegal history to the few operations that make it illegal.

A legal history stays legal without answers that change nothing, and without a whole grant, its
request and all its operations, unless it may be the reason of a remaining refusal. So if a history
is still illegal without them, the original was illegal too.
"""

from __future__ import annotations

from dataclasses import replace

from histories.judging import Judgement, judge
from histories.model import clash, grant_of
from histories.operation import CHANGING, History, Operation
from histories.search import Stuck

#: How many smaller parts are tried.
TRIES_MAX = 400


def shrunk(history: History, found: Judgement, stuck: Stuck, budget: int) -> Judgement:
    """The same judgement with as few operations as were found to suffice."""
    part = until(history, stuck.at)
    # Later operations may be needed too: a later token shows when others were granted.
    for guess in (_around(part, stuck), part, _around(history, stuck), history):
        known = _Reduction(guess, budget)
        if known.judgement is not None:
            return known.smallest()
    return found


def until(history: History, at: int) -> History:
    """The history up to a moment: later answers are unknown."""
    operations = []
    for operation in history.operations:
        if operation.invoked > at:
            continue
        if operation.answered is not None and operation.answered > at:
            operation = replace(operation, answered=None, answer="", section=None)
            if operation.asks:
                operation = replace(operation, grant="", token=0)
        operations.append(operation)
    deaths = tuple(
        replace(death, by=None) if death.by is not None and death.by > at else death
        for death in history.deaths
        if death.after <= at
    )
    return History(tuple(operations), deaths)


def _around(part: History, stuck: Stuck) -> History:
    """The grants that were held where the search got stuck, and the operations that did not fit."""
    left = [operation for operation, _why in stuck.left]
    refused = [operation for operation in left if operation.asks and not operation.outcome]
    ids = set(stuck.held) | {grant_of(operation) for operation in left}
    for id, family in _families(part).items():
        if any(_may_explain(family, one) for one in refused):
            ids.add(id)
    moments = {(operation.process, operation.answered) for operation in left}
    return part.only(
        operation
        for operation in part.operations
        if (_changes_or_may(operation) and _family(operation) in ids)
        or (operation.process, operation.answered) in moments
    )


def _families(part: History) -> dict[str, list[Operation]]:
    """The operations of each grant, and of each request that may have been one."""
    families: dict[str, list[Operation]] = {}
    for operation in part.operations:
        if operation.outcome is not False or not operation.asks:
            families.setdefault(_family(operation), []).append(operation)
    return families


def _may_explain(family: list[Operation], refused: Operation) -> bool:
    """Whether a request may have been refused because of this grant, in some order."""
    until = refused.answered or 0
    begun = any(o.asks and o.invoked <= until and clash(o.wants, refused.wants) for o in family)
    return begun and not any(
        o.call == "release" and o.outcome is not None and (o.answered or 0) < refused.invoked
        for o in family
    )


def _family(operation: Operation) -> str:
    return grant_of(operation) if operation.asks else operation.grant


def _changes_or_may(operation: Operation) -> bool:
    return operation.call in CHANGING and operation.outcome is not False


class _Reduction:
    """Omits the operations that can be omitted."""

    def __init__(self, part: History, budget: int) -> None:
        self._part = part
        self._budget = budget
        self._tries = TRIES_MAX
        self.judgement: Judgement | None = self._illegal(part)

    def _illegal(self, part: History) -> Judgement | None:
        self._tries -= 1
        judgement, _stuck = judge(part, self._budget)
        if judgement.name != "illegal":
            return None
        return replace(judgement, core=part.operations)

    def smallest(self) -> Judgement:
        """The operations that remain when none can be omitted any more."""
        self._without_observations()
        self._without_families()
        self._without_observations()
        assert self.judgement is not None
        return self.judgement

    def _keep(self, operations: list[Operation]) -> bool:
        part = self._part.only(operations)
        judgement = self._illegal(part) if self._tries > 0 else None
        if judgement is not None:
            self._part, self.judgement = part, judgement
        return judgement is not None

    def _without_observations(self) -> None:
        seen = [[o] for o in self._part.operations if not _changes_or_may(o)]
        self._without_some(seen)

    def _without_families(self) -> None:
        refused = [o for o in self._part.operations if o.asks and o.outcome is False]
        self._without_some(
            [
                family
                for family in _families(self._part).values()
                if not any(_may_explain(family, one) for one in refused)
            ]
        )

    def _without_some(self, groups: list[list[Operation]]) -> None:
        """Try to omit all, then halves, and so on down to single groups."""
        size = len(groups)
        while size and self._tries > 0:
            start = 0
            while start < len(groups):
                out = {id(o) for group in groups[start : start + size] for o in group}
                if self._keep([o for o in self._part.operations if id(o) not in out]):
                    del groups[start : start + size]
                else:
                    start += size
            size //= 2
