"""Whether a call still runs in the process that made it.

A signal handler may fork at any moment, and its child returns into the same call with the same
request. The number of forks tells parent and child apart, without a system call.
"""

from __future__ import annotations

import os

from holdfast.core.root_errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from holdfast.core.model import Decision
    from holdfast.core.view import View
    from holdfast.store.contract import Store

    T = TypeVar("T")

_count = 0


def count() -> int:
    """The number of forks between the program's first process and this one."""
    return _count


def refuse_in_child(of_caller: int) -> None:
    """Raise if this process was forked after the caller called `count`."""
    if _count != of_caller:
        raise StoreError(
            "this process was forked during a call of its parent",
            hint="the call continues in the parent; repeat it here",
        )


def decide_once(
    store: Store, of_caller: int, rule: Callable[[View], Decision[T]], deadline: float
) -> T:
    """Apply a rule and commit its decision, but only in the process that made the call."""

    def decide_here(view: View) -> Decision[T]:
        refuse_in_child(of_caller)
        return rule(view)

    outcome = store.transact(decide_here, deadline=deadline)
    refuse_in_child(of_caller)
    return outcome


def _begin_child() -> None:
    global _count
    _count += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
