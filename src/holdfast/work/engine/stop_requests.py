"""Asking the dispatchers of a repository to stop, from any process. Each reacts as to the first
interrupt: it dispatches no more items and waits for those in progress."""

from __future__ import annotations

from holdfast.manager import transactions
from holdfast.manager.manager import LockManager

ASKED = "work_stop_asked"
NOTE = "work:stop"


def ask(manager: LockManager, by: str) -> int:
    """Ask all dispatchers that are running now; later ones are not affected. Returns the number of
    the event."""
    return transactions.note(manager, ASKED, {"by": by}, name=NOTE).seq


def asked_at(manager: LockManager) -> int:
    """The number of the last event that asked dispatchers to stop; 0 if there is none."""
    event = transactions.noted(manager, NOTE)
    return 0 if event is None else event.seq
