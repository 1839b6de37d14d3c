"""The judgement on a history: is there an order of its operations that is legal and respects real
time?

Linearizability is local: a history is legal if it is legal on every connected set of keys. Two
rules are not local, and are checked first, over the whole ledger: tokens grow in the order of the
grants, and no lock changes hands inside a fenced section. They are checked against real time; it is
not checked that the orders of all sets can be merged into one in which tokens grow.
"""

from __future__ import annotations

from dataclasses import dataclass

from histories.components import components
from histories.model import Model
from histories.operation import History, Operation
from histories.search import OutOfBudget, Search, Stuck
from histories.windows import Contradiction, narrowed


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of a check: `legal`, `illegal`, or `undecided` if the budget was too small.

    It is true only if the history is legal: an undecided one shows nothing.
    """

    name: str
    #: A legal order for each connected set of keys, if there is one.
    orders: tuple[tuple[Operation, ...], ...] = ()
    #: Operations without a legal order, as few as were found, and the reason.
    core: tuple[Operation, ...] = ()
    why: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.name == "legal"

    def __str__(self) -> str:
        if self:
            count = sum(map(len, self.orders))
            return f"legal: {count} operations on {len(self.orders)} connected sets of keys"
        if self.name == "undecided":
            return f"undecided: {' '.join(self.why)}"
        lines = [f"illegal: no order of these {len(self.core)} operations is legal"]
        lines += [f"  {o}" for o in sorted(self.core, key=lambda o: o.invoked)]
        lines += [f"    {line}" for line in self.why]
        return "\n".join(lines)


def judge(history: History, budget: int) -> tuple[Judgement, Stuck | None]:
    """The judgement on a history, and where the search came furthest if it is illegal."""
    try:
        narrow = narrowed(history)
    except Contradiction as found:
        return Judgement("illegal", core=found.operations, why=(found.why,)), None
    model = Model(narrow, history)
    orders = []
    for some in components(narrow.operations):
        try:
            found_order = Search(model, some, budget).run()
        except OutOfBudget:
            why = f"more than {budget} states, with {len(some)} operations on one set of keys"
            return Judgement("undecided", why=(why,)), None
        if isinstance(found_order, Stuck):
            why_not = tuple(f"{reason}: {operation}" for operation, reason in found_order.left)
            return Judgement("illegal", core=some, why=why_not), found_order
        orders.append(tuple(found_order))
    return Judgement("legal", orders=tuple(orders)), None
