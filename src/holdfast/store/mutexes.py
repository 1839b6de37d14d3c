"""The lock that a store holds during a call, and the error of a child that was forked meanwhile."""

from __future__ import annotations

from _thread import RLock

from holdfast.core.root_errors import StoreError

TYPE_CHECKING = False


class Mutex(RLock):  # type: ignore[misc]
    """A reentrant lock that can tell whether the calling thread holds it."""

    if TYPE_CHECKING:

        def _is_owned(self) -> bool: ...


def forked(error: BaseException) -> StoreError:
    """The error of a call in a child that was forked during it."""
    return StoreError(
        f"this process was forked during a call of its parent ({error})",
        hint="the call continues in the parent; repeat it here",
    )
