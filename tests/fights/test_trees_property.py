"""A thousand random trees: what is restored is what was snapshotted."""

from __future__ import annotations

import random
from pathlib import Path

from helpers_processes import LINUX_ONLY
from helpers_trees_property import round_trips

pytestmark = LINUX_ONLY


def test_a_thousand_random_trees_come_back_in_bytes_and_metadata(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    round_trips(tmp_path, trees=1000, seed=seed)
