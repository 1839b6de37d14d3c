"""The lengths of the fights: `./check fights` runs samples, `./check long` the full lengths."""

from __future__ import annotations

import os

FULL = os.environ.get("HOLDFAST_LONG") == "1"


def length(full: int, *, sample: int) -> int:
    """How often something is repeated."""
    return full if FULL else sample
