"""Whether a store can be used, and how good it is. A check creates nothing."""

from __future__ import annotations

from time import monotonic

from holdfast.manager.clock import SystemClock
from holdfast.manager.files.unfinished_edits import dead_in
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.manager.ledger_location import root_of
from holdfast.store import open_store
from holdfast.store.by_kind import checked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.store.check_finding import Finding
    from holdfast.store.contract import Store


def check(url: str) -> Iterator[Finding]:
    """All findings about the store of a URL. Raises StoreError if a server cannot be reached."""

    def opened() -> Store:
        return open_store(url, clock=SystemClock(), is_dead=dead_in(root_of(url, "")), end=_soon())

    return checked(url, opened, end=_soon())


def _soon() -> float:
    return monotonic() + DEADLINE_SECONDS
