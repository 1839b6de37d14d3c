"""SQLite for Python: the C module alone. The package around it doubles the cost of the import."""

from __future__ import annotations

__all__ = ["driver"]

try:
    import _sqlite3 as driver
except ImportError:  # another Python than CPython
    import sqlite3 as driver  # type: ignore[no-redef]
