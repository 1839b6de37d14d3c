"""The last refusals of a command, for its standard error and for requests from inside."""

from __future__ import annotations

from collections import deque

from holdfast.manager.files.realpath import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How many are remembered.
REFUSALS_MAX = 50


class Refusals:
    """Each is a path, its holder (or the kind of refusal), and the sentence."""

    __slots__ = ("_last", "_said")

    def __init__(self) -> None:
        self._last: deque[dict[str, str]] = deque(maxlen=REFUSALS_MAX)
        self._said: set[tuple[str, str]] = set()

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(self._last)

    def add(self, shown: str, by: str, sentence: str) -> bool:
        """Remember one. Whether it is the first one for its path and holder."""
        last = self._last
        if last and (last[-1]["path"], last[-1]["by"]) == (shown, by):
            last.pop()  # a tool that retries in another way
        last.append({"path": plain(shown), "by": by, "sentence": sentence})
        if (shown, by) in self._said:
            return False
        self._said.add((shown, by))
        return True
