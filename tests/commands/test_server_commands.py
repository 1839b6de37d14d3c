"""An agent's shell commands where the ledger is on a server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from helpers_cli import COMMAND
from helpers_commands import ClaudeLike, held
from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK, without_call

if TYPE_CHECKING:
    from helpers_postgres import Server

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux"),
    *([NEEDS_LANDLOCK] if sys.platform == "linux" else []),
]

STATUS = " ".join([*COMMAND, "status"])
#: The number of `connect` on x86_64, and of EPERM.
CONNECT, EPERM = 42, 1


@pytest.fixture
def agent(
    root: Path, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClaudeLike]:
    """An agent of a client that a person started with the URL in its environment."""
    url = postgres_server.url(f"commands/{uuid4()}")
    monkeypatch.setenv("HOLDFAST_STORE", url)
    made = ClaudeLike(root, "ann")
    made.more_environment = {"HOLDFAST_STORE": url, "PGPASSWORD": "s3cret"}
    yield made
    made.close()


def test_a_command_is_leased_on_the_server_and_has_nothing_that_leads_there(
    root: Path, agent: ClaudeLike
) -> None:
    code, out = agent.run(f"env; echo new > new.txt; {STATUS}")
    assert code == 0
    assert "HOLDFAST_STORE" not in out
    assert "PGPASSWORD" not in out
    assert "new.txt" in out.rpartition("WHAT")[2], "the broker answers for the ledger"
    assert held(root) == {"new.txt": "@claude/ann/"}
    assert not (root / ".holdfast/ledger.db").exists()


def test_the_keeper_of_the_client_is_no_process_of_the_command(
    root: Path, agent: ClaudeLike
) -> None:
    assert agent.run("echo new > new.txt") == (0, "")
    beside = root / ".holdfast/beside"
    until(lambda: beside.is_dir() and bool(os.listdir(beside)), "a keeper")


@pytest.mark.parametrize("how", ["variable", "filter"])
def test_without_network_no_command_is_run_below_a_broker_and_the_reason_is_told(
    agent: ClaudeLike, how: str
) -> None:
    """As in Codex's own sandbox: it says so, and its filter refuses every connection."""
    words = [*COMMAND, "run", "--lease", "--", "sh", "-c", "echo new > new.txt"]
    env = {name: text for name, text in agent.environment.items() if "CLAUDE" not in name}
    if how == "variable":
        env["CODEX_SANDBOX_NETWORK_DISABLED"] = "1"
    else:
        words = without_call(CONNECT, EPERM, *words)
    done = subprocess.run(
        words, cwd=agent.root, env=env, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "the ledger is on a server, and the sandbox around this command" in done.stderr
    assert not (agent.root / "new.txt").exists()


def test_nor_is_an_agents_command_run_there(agent: ClaudeLike) -> None:
    agent.more_environment["CODEX_SANDBOX_NETWORK_DISABLED"] = "1"
    code, out = agent.run("echo new > new.txt")
    assert code == 126
    assert "the ledger is on a server, and the sandbox around this command" in out
    assert not (agent.root / "new.txt").exists()
