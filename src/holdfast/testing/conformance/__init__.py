"""The conformance suite: the checks that every store must pass.

With pytest, one test for each check:

    from holdfast.testing import conformance

    @pytest.mark.parametrize("check", conformance.SHARED_CHECKS, ids=conformance.name_of)
    def test_my_store_keeps_the_contract(check, tmp_path):
        conformance.run(check, lambda name, **rest: MyStore(tmp_path / name, **rest))

or all checks in one call, without pytest: `conformance.check_store(open_store, shared=True)`.

`CHECKS` are for every store; `SHARED_CHECKS` add those for a store that outlives its process and
is shared by several processes (they fork). All of them take a few seconds.

The suite does not show how fast a store is, what it does on a broken disk, or that no rare
interleaving breaks it; for the last there is the simulator.

    scene             a ledger with a clock and processes that a check controls
    child_processes   forked children, always cleaned up
    lock_checks       acquire, hold, release
    waiting_checks    queue, wake-up, hand-over
    service_checks    notes, many leases in one decision, leases that change hands
    history_checks    the ledger, its time, lost answers
    trouble_checks    fences, deadlines, threads, a forked child
    sharing_checks    stores that several processes share
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from holdfast.testing.conformance import (
    history_checks,
    lock_checks,
    service_checks,
    sharing_checks,
    trouble_checks,
    waiting_checks,
)
from holdfast.testing.conformance.scene import OpenStore, Processes, Scene, refused, state_of

Check = Callable[[Scene], None]

__all__ = [
    "CHECKS",
    "SHARED_CHECKS",
    "Check",
    "OpenStore",
    "Processes",
    "Scene",
    "check_store",
    "name_of",
    "refused",
    "run",
    "state_of",
]


def _checks_of(module: ModuleType) -> tuple[Check, ...]:
    return tuple(
        value
        for name, value in vars(module).items()
        if callable(value)
        and getattr(value, "__module__", "") == module.__name__
        and not name.startswith("_")
        and value is not trouble_checks.code_of
    )


#: For every store, also one that lives and dies with its process.
CHECKS: tuple[Check, ...] = tuple(
    check
    for module in (lock_checks, waiting_checks, service_checks, history_checks, trouble_checks)
    for check in _checks_of(module)
)
#: For a store that several processes share.
SHARED_CHECKS: tuple[Check, ...] = (*CHECKS, *_checks_of(sharing_checks))


def name_of(check: Check) -> str:
    """The name of a check, which states what it shows."""
    return check.__name__


def run(check: Check, open_store: OpenStore) -> None:
    """Run one check on a ledger of its own."""
    if not __debug__:
        raise RuntimeError("the checks are assertions: run them without -O")
    with Scene(open_store, check.__name__) as scene:
        check(scene)


def check_store(open_store: OpenStore, *, shared: bool = False) -> None:
    """Run all checks, and raise all failures in one group."""
    failures = []
    for check in SHARED_CHECKS if shared else CHECKS:
        try:
            run(check, open_store)
        except Exception as failure:
            failure.add_note(f"in the check {name_of(check)}")
            failures.append(failure)
    if failures:
        raise ExceptionGroup("this store does not keep the contract", failures)
