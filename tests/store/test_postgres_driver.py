"""The driver is found by every program of ours, however it starts Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")

SOURCE = Path(holdfast.__file__).parents[1]
#: Port 1 refuses connections: getting as far as that takes the driver.
OPENS = """
import sys
sys.path.insert(0, sys.argv[1])
from time import monotonic
from holdfast.manager.clock import SystemClock
from holdfast.store import open_store
try:
    open_store("postgresql://127.0.0.1:1/none#x", clock=SystemClock(), is_dead=lambda *_: None,
               end=monotonic() + 0.2)
except Exception as error:
    print(error.code, error.message)
"""


@pytest.mark.parametrize("options", [["-I", "-S"], ["-I"]], ids=["a hook", "a command"])
def test_the_driver_is_found_without_the_site_module(options: list[str]) -> None:
    said = subprocess.run(
        [sys.executable, *options, "-c", OPENS, str(SOURCE)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert said.stderr == ""
    assert "psycopg" not in said.stdout
    assert said.stdout.startswith("E_STORE"), said.stdout
