"""The operations that can affect each other: those on one connected set of keys.

Two keys are connected if one request names both, or one contains the other. An operation on a grant
belongs to the set of that grant's keys. The rules about tokens and fenced sections over the whole
ledger are applied before (`windows`), so each set can be checked separately.
"""

from __future__ import annotations

from histories.model import grant_of, parts
from histories.operation import Operation


class _Sets:
    """Sets that are joined."""

    def __init__(self) -> None:
        self._parent: dict[tuple[str, ...], tuple[str, ...]] = {}

    def find(self, one: tuple[str, ...]) -> tuple[str, ...]:
        parent = self._parent.setdefault(one, one)
        while parent != (above := self._parent[parent]):
            self._parent[one] = parent = above
        return parent

    def join(self, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        self._parent[self.find(one)] = self.find(other)

    def __contains__(self, one: tuple[str, ...]) -> bool:
        return one in self._parent


def components(operations: tuple[Operation, ...]) -> list[tuple[Operation, ...]]:
    """The operations of each connected set, in their order."""
    sets = _Sets()
    asking = [operation for operation in operations if operation.asks]
    for operation in asking:
        keys = [parts(key) for key, _mode in operation.wants]
        for one in keys:
            sets.join(one, keys[0])
    for operation in asking:
        for key, _mode in operation.wants:
            whole = parts(key)
            for length in range(0 if "" in whole else len(whole)):
                if whole[:length] in sets:
                    sets.join(whole, whole[:length])
    homes = {grant_of(operation): parts(operation.wants[0][0]) for operation in asking}
    found: dict[tuple[str, ...], list[Operation]] = {}
    for operation in operations:
        home = homes.get(grant_of(operation) if operation.asks else operation.grant)
        found.setdefault(sets.find(home) if home is not None else ("",), []).append(operation)
    return [tuple(some) for some in found.values()]
