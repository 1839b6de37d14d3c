"""A listing of all grants, read during the iteration.

It is a consistent snapshot only up to one page: a grant that is acquired or released between two
pages may be included or not. No grant is listed twice, and one that is held throughout is listed.
"""

from __future__ import annotations

from _collections_abc import Sequence

from holdfast.core import rules
from holdfast.core.model import Grant
from holdfast.manager.grants import GrantSnapshot
from holdfast.manager.ledger import look_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.core.view import View
    from holdfast.store.contract import Store

#: How many grants are read in one view.
PAGE = 200
#: How many ids are read in one view. That scans all rows of live grants, so it is done rarely.
LOOKED_UP = 8000


class ActiveGrants(Sequence[GrantSnapshot] if TYPE_CHECKING else Sequence):  # type: ignore[misc]
    """The live grants, oldest first. Each iteration reads the ledger in pages, with no open
    transaction in between. The first page is read when the listing is created."""

    __slots__ = ("_after", "_deadline", "_first", "_store")

    def __init__(self, store: Store, deadline: Callable[[], float]) -> None:
        self._store = store
        self._deadline = deadline
        numbers, self._first = look_at(store, _first_page, deadline())
        #: The number of the last grant of the first page, or None if there are no more.
        self._after = numbers[PAGE - 1][0] if len(numbers) > PAGE else None

    def __iter__(self) -> Iterator[GrantSnapshot]:
        yield from self._first
        if self._after is not None:
            for grants in pages(self._store, self._deadline, self._after):
                yield from grants

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int) and 0 <= place < len(self._first):
            return self._first[place]
        return list(self)[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (list, tuple, ActiveGrants)):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        rest = "" if self._after is None else ", …"
        return f"[{', '.join(map(repr, self._first))}{rest}]"


def pages(
    store: Store, deadline: Callable[[], float], after: int = 0, *, live: bool = True
) -> Iterator[list[GrantSnapshot]]:
    """Live grants, or with `live=False` the dead ones to reap, page by page, oldest first."""
    while True:
        numbers = look_at(store, _numbers(after), deadline())
        for begin in range(0, len(numbers), PAGE):
            some = numbers[begin : begin + PAGE]
            yield look_at(store, _page(some, live), deadline())
        if len(numbers) < LOOKED_UP:
            return
        after = numbers[-1][0]


def _first_page(view: View) -> tuple[list[tuple[int, str]], list[GrantSnapshot]]:
    numbers = view.some_grants(0, PAGE + 1)
    return numbers, _live(view, numbers[:PAGE])


def _numbers(after: int) -> Callable[[View], list[tuple[int, str]]]:
    return lambda view: view.some_grants(after, LOOKED_UP)


def _page(numbers: list[tuple[int, str]], live: bool) -> Callable[[View], list[GrantSnapshot]]:
    return lambda view: _live(view, numbers, live=live)


def _live(view: View, numbers: list[tuple[int, str]], *, live: bool = True) -> list[GrantSnapshot]:
    grants = [view.grant(id) for _number, id in numbers]
    return [
        GrantSnapshot(grant)
        for grant in grants
        if isinstance(grant, Grant) and rules.is_live(view, grant) == live
    ]
