"""Ledgers that are deleted, moved away and restored again and again, under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, Crowd
from helpers_replacing import Replace, delete, fight, move_away, restore
from lengths import length

pytestmark = LINUX_ONLY


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    with Crowd(tmp_path) as made:
        yield made


@pytest.mark.parametrize("replace", [delete, move_away, restore])
def test_six_processes_go_on_while_their_ledger_is_replaced_again_and_again(
    crowd: Crowd, tmp_path: Path, replace: Replace
) -> None:
    root = tmp_path / "repo"
    (root / ".holdfast").mkdir(parents=True)
    fight(crowd, root, replace, workers=6, rounds=length(40, sample=8))
