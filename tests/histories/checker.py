"""The check of a history, as tests use it."""

from __future__ import annotations

from histories.judging import Judgement, judge
from histories.operation import History
from histories.shrinking import shrunk

#: How many states the search for an order of one set of keys visits before it gives up.
BUDGET = 300_000


def check(history: History, *, budget: int = BUDGET) -> Judgement:
    """Decide whether a legal order exists; if not, show that with few operations."""
    judgement, stuck = judge(history, budget)
    return judgement if stuck is None else shrunk(history, judgement, stuck, budget)
