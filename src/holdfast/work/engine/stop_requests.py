"""Asking the dispatchers of a repository to stop, from any process. Each does it as after the first
interrupt: it sends nobody out any more and waits for those that are out."""

from __future__ import annotations

from holdfast.manager import transactions
from holdfast.manager.manager import LockManager

ASKED = "work_stop_asked"
NOTE = "work:stop"


def ask(manager: LockManager, by: str) -> int:
    """Ask all that run now. What starts later does not care. The number of the event."""
    return transactions.note(manager, ASKED, {"by": by}, name=NOTE).seq


def asked_at(manager: LockManager) -> int:
    """The number of the event with which somebody asked last; 0 if nobody ever did."""
    event = transactions.noted(manager, NOTE)
    return 0 if event is None else event.seq
