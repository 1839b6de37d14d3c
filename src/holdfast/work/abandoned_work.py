"""Whether work is abandoned: no process that could continue it is left.

The one rule, for lists of tasks and for manifests of screens. Every dispatcher records its process
in the ledger when it starts or takes up work. Only proof of death counts: where no process is
recorded we cannot tell, and assume that one is alive. What proves it depends on the ledger: where
several hosts share one, a process of another boot may live on another host (`judge`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from holdfast.core.model import Witness

    class HasLease(Protocol):
        """A store, or a view of it."""

        @property
        def lease(self) -> int | None:
            """None if the processes of one machine alone use the ledger."""

    #: True if a process is proven dead, None if that is unknown.
    IsDead = Callable[[Witness], bool | None]


def judge(ledger: HasLease) -> IsDead:
    """How the users of a ledger judge the processes that it names."""
    return is_proven_dead if ledger.lease is None else is_proven_dead_among_hosts


def is_proven_dead(process: Witness) -> bool:
    """Whether a process that a machine's own ledger names is proven dead."""
    from holdfast.manager.owners.liveness import is_dead  # `holdfast status` rarely needs it

    return is_dead(process, ()) is True


def is_proven_dead_among_hosts(process: Witness) -> bool:
    """The same for a ledger that several hosts share."""
    from holdfast.manager.owners.liveness import is_dead

    return is_dead(process, (), is_shared=True) is True


def is_abandoned(
    dispatchers: Iterable[Witness],
    launchers: Iterable[Witness | None] = (),
    *,
    is_dead: IsDead,
) -> bool:
    """Whether every dispatcher of some work, and every launcher that still holds its locks, is
    proven dead. None is a launcher of which no process is recorded."""
    recorded = [*dispatchers]
    if not recorded or not all(is_dead(one) is True for one in recorded):
        return False
    return all(one is not None and is_dead(one) is True for one in launchers)
