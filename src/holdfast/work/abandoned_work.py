"""Whether work is abandoned: no process that could continue it is left.

The one rule, for lists of tasks and for manifests of screens. Every dispatcher records its process
in the ledger when it starts or takes up work. Only proof of death counts: where no process is
recorded we cannot tell, and assume that one is alive.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.model import Witness

    #: True if a process is proven dead, None if that is unknown.
    IsDead = Callable[[Witness], bool | None]


def is_proven_dead(process: Witness) -> bool:
    """Whether a process is proven dead."""
    from holdfast.manager.owners.liveness import is_dead  # `holdfast status` rarely needs it

    return is_dead(process, ()) is True


def is_abandoned(
    dispatchers: Iterable[Witness],
    launchers: Iterable[Witness | None] = (),
    *,
    is_dead: IsDead = is_proven_dead,
) -> bool:
    """Whether every dispatcher of some work, and every launcher that still holds its locks, is
    proven dead. None is a launcher of which no process is recorded."""
    recorded = [*dispatchers]
    if not recorded or not all(is_dead(one) is True for one in recorded):
        return False
    return all(one is not None and is_dead(one) is True for one in launchers)
