"""Agents that a dispatcher starts, in a repository whose ledger is on a server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers_launcher import Bench
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_server_ledger import Clones
from holdfast.manager.owners.variables import OF_DRIVER
from holdfast.work.launching.slots import run_here

if TYPE_CHECKING:
    from helpers_postgres import Server

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="launchers need Linux: subreaper, pidfd, Landlock"
)

#: In an agent: the answers of the ledger, and of the command.
ASKS = """
import json, os, subprocess, sys
from holdfast.gate.sandbox import runner_client
grant, token = os.environ["HOLDFAST_GRANT"], int(os.environ["HOLDFAST_TOKEN"])
held = runner_client.verify(grant, "app/x.rb", token=token)
free = runner_client.verify(grant, "app/y.rb", token=token)
status = subprocess.run(
    [sys.executable, "-m", "holdfast", "lock", "app/y.rb"], capture_output=True, text=True
)
print(json.dumps([bool(held), bool(free), status.returncode, status.stderr]))
"""
SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
#: What every process of the same user can read of the processes above an agent.
ABOVE = """
import os
pid = os.getppid()
while pid > 1:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read()
    if b"holdfast.work.launching" not in words and b"fork_server" not in words:
        break
    with open(f"/proc/{pid}/environ", "rb") as file:
        print(repr(file.read()))
    with open(f"/proc/{pid}/stat") as file:
        pid = int(file.read().rpartition(")")[2].split()[1])
"""


@pytest.fixture(params=["variable", "settings"])
def clones(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Clones:  # fmt: skip
    """Named in one of two ways, with a password in the environment."""
    made = Clones(tmp_path, postgres_server)
    url = postgres_server.url(password=False)
    if request.param == "variable":
        monkeypatch.setenv("HOLDFAST_STORE", url)
    else:
        monkeypatch.delenv("HOLDFAST_STORE", raising=False)
        made.set(made.here, store=url)
    monkeypatch.setenv("PGPASSWORD", postgres_server.password)
    monkeypatch.setenv("PGAPPNAME", "shop")
    return made


@pytest.fixture
def bench(clones: Clones) -> Iterator[Bench]:
    made = Bench(clones.here)
    yield made
    made.close()


def leading(found: dict[str, str]) -> list[str]:
    return sorted({"HOLDFAST_STORE", *OF_DRIVER} & set(found))


@NEEDS_LANDLOCK
def test_a_sandboxed_agent_has_nothing_that_leads_to_the_server(
    bench: Bench, clones: Clones
) -> None:
    assert bench.manager.store.url == clones.shown
    found = json.loads(bench.python(SHOW))
    assert leading(found) == []
    assert found["PGAPPNAME"] == "shop", "which leads nowhere"


def test_an_agent_without_a_sandbox_has_nothing_that_leads_to_the_server(bench: Bench) -> None:
    assert leading(json.loads(bench.python(SHOW, write=None))) == []


def test_nor_has_what_it_can_read_of_its_launcher(bench: Bench, clones: Clones) -> None:
    said = bench.python(ABOVE, write=None)
    assert said.count("\n") >= 1, "it saw the launcher"
    assert clones.server.password not in said
    assert "HOLDFAST_STORE" not in said


@NEEDS_LANDLOCK
@pytest.mark.parametrize("write", [(), None])
def test_its_launcher_asks_the_ledger_for_it(bench: Bench, write: tuple[()] | None) -> None:
    held, free, code, error = json.loads(bench.python(ASKS, write=write))
    assert (held, free) == (True, False)
    assert code == 1
    assert "only the runner of this command uses it" in error


def test_an_agent_without_a_launcher_has_nothing_that_leads_to_the_server(
    clones: Clones, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    ended = run_here(
        [sys.executable, "-c", SHOW], folder=str(clones.here), output=str(output),
        environment=dict(os.environ),
    )  # fmt: skip
    assert ended.code == 0
    assert leading(json.loads(output.read_text())) == []


def test_with_an_embedded_ledger_the_variables_of_an_application_stay(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOST", "app-db")
    bench = Bench(repository)
    try:
        assert json.loads(bench.python(SHOW, write=None))["PGHOST"] == "app-db"
    finally:
        bench.close()
