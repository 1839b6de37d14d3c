"""An index of many keys, to find those that overlap another key.

Two keys overlap when they are the same or one contains the other. So a look-up needs only the key
itself, the folders that contain it, and the keys that it contains.
"""

from __future__ import annotations

from holdfast.core import keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Up to this many keys are compared one by one, which is faster than building an index.
FEW = 4


class Overlaps:
    """Keys by position. A `None` in place of a key overlaps nothing."""

    __slots__ = ("_at", "_few", "_inside")

    def __init__(self, wanted: Iterable[str | None]) -> None:
        found = [(place, key) for place, key in enumerate(wanted) if key is not None]
        self._few = found if len(found) <= FEW else None
        self._at: dict[str, list[int]] = {}
        self._inside: dict[str, list[int]] = {}
        if self._few is None:
            for place, key in found:
                self._at.setdefault(key, []).append(place)
                for folder in keys.ancestors(key):
                    self._inside.setdefault(folder, []).append(place)

    def of(self, key: str) -> list[int]:
        """The positions of the keys that overlap this one, in order. Callers must not change it."""
        if self._few is not None:
            return [place for place, other in self._few if keys.overlap(other, key)]
        met = [places for places in (self._at.get(key), self._inside.get(key)) if places]
        met += [self._at[folder] for folder in keys.ancestors(key) if folder in self._at]
        if len(met) == 1:
            return met[0]
        return sorted([place for places in met for place in places])
