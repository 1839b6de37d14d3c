"""The right to change a worktree, which every operation that changes one needs.

`Right` is the lock and the token of an exclusive worktree: checked before the work, kept alive
during it, and checked again inside the guard at the moment when the result becomes visible. A
shared worktree has no lock, so there every caller has the right.
"""

from __future__ import annotations

from time import monotonic

from holdfast.trees.locking import worktree_locks
from holdfast.trees.worktrees import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: A lease is renewed when this part of it has passed, and checked more often than that.
_RENEW_AFTER = 1 / 3


class Right:
    """The right of one holder to change one worktree."""

    def __init__(self, worktree: Worktree, holder_id: str, token: int | None = None) -> None:
        self._worktree: Final = worktree
        self._holder_id: Final = holder_id
        self._renewed_at = monotonic()
        self._lease_seconds = 0.0
        self.token: int | None = None
        if not worktree.is_shared:
            record = worktree_locks.check(worktree, holder_id, token=token)
            self.token = record.fencing_token
            self._lease_seconds = record.lease_seconds

    @property
    def holder_id(self) -> str:
        """The holder who has the right."""
        return self._holder_id

    def keep(self) -> None:
        """Renew the lease if it is due. Raises if it is lost, or had expired meanwhile."""
        if self.token is None:
            return
        now = monotonic()
        if now - self._renewed_at < self._lease_seconds * _RENEW_AFTER:
            return
        worktree_locks.renew(self._worktree, self._holder_id, token=self.token)
        self._renewed_at = now

    def check(self) -> None:
        """Raise unless the right is still ours. For the commit point, inside the guard."""
        if self.token is not None:
            worktree_locks.check(self._worktree, self._holder_id, token=self.token)
