"""Ledgers on other versions of the server: the oldest that is promised, and the newest there is.

The other tests use the server of this machine. Here the programs come from the npm registry.
"""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from helpers_cli import COMMAND, environment
from helpers_postgres import NEEDED_DRIVER, OLDEST, Server, version_of
from helpers_server_ledger import Clones
from holdfast import LockManager
from holdfast.manager.owners.liveness import is_dead
from holdfast.testing import conformance

from .conftest import need
from .install import SERVERS, program

if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.store.contract import IsDead, Store

pytest.importorskip("psycopg", reason=NEEDED_DRIVER)


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of each version. Its user may not read the folder of the clients."""
    need(request.param)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-server-"))
    folder.chmod(0o755)
    shutil.copytree(program(request.param).parent.parent, folder / "native", symlinks=True)
    try:
        made = Server.made(durable=False, programs=folder / "native" / "bin")
        try:
            yield made
        finally:
            made.remove()
    finally:
        shutil.rmtree(folder)


def test_the_versions_are_the_oldest_that_is_promised_and_a_newer_one() -> None:
    versions = [int(name.rpartition("-")[2]) for name in SERVERS]
    assert min(versions) == OLDEST
    assert max(versions) >= 18


def test_the_programs_that_run_are_of_the_version_that_was_asked_for(
    server: Server, request: pytest.FixtureRequest
) -> None:
    number = int(server.run("show server_version_num")[0][0]) // 10_000
    assert f"postgres-{number}" in request.node.name
    assert version_of(Path(server.programs)) == number


@pytest.mark.parametrize("check", conformance.SHARED_CHECKS, ids=conformance.name_of)
def test_the_store_keeps_the_contract(check: conformance.Check, server: Server) -> None:
    from holdfast.store.postgres.server_store import PostgresStore

    run = secrets.token_hex(6)

    def opened(name: str, *, clock: Clock, is_dead: IsDead) -> Store:
        return PostgresStore(server.url(f"{run}/{name}"), is_dead=is_dead, clock=clock)

    conformance.run(check, opened)


def test_a_role_that_may_make_a_schema_makes_the_tables_in_it(server: Server) -> None:
    name = f"bare_{secrets.token_hex(6)}"
    server.run(f"create database {name} owner holdfast_app")
    with LockManager.open(server.url("a", database=name)) as manager:
        assert manager.try_acquire(holder="a", write_paths=["x"])
    (count,) = server.run("select count(*) from holdfast.migrations", database=name)[0]
    assert count == 1


def test_a_lost_connection_is_made_again(server: Server) -> None:
    from holdfast.store.postgres.server_store import PostgresStore

    name = server.make_database(f"cut_{secrets.token_hex(6)}")
    with LockManager(PostgresStore(server.url("a", database=name), is_dead=is_dead)) as manager:
        assert manager.try_acquire(holder="a", write_paths=["x"])
        assert server.cut_all(name)
        assert manager.try_acquire(holder="a", write_paths=["y"])


def test_a_waiter_is_woken(server: Server, repo: Path) -> None:
    url = server.url(f"wake-{secrets.token_hex(6)}")
    with LockManager.open(url) as manager:
        held = manager.acquire(holder="a", write_paths=["x"])
        waiting = subprocess.Popen(
            [*COMMAND, "--store", url, "lock", "x", "--holder", "b", "--wait", "60s"],
            stdout=subprocess.DEVNULL, env=environment(), cwd=repo,
        )  # fmt: skip
        end = monotonic() + 60
        while not manager.queue():
            assert monotonic() < end
            assert waiting.poll() is None
        manager.release(held.id)
        assert waiting.wait(60) == 0


def test_the_commands_work_between_two_clones(server: Server, tmp_path: Path) -> None:
    clones = Clones(tmp_path, server)
    assert clones.hold(clones.here, "lock", "app/x.rb", "--holder", "a").code == 0
    refused = clones.hold(clones.there, "lock", "app/x.rb", "--holder", "b")
    assert refused.code == 3, refused
    assert "app/x.rb" in clones.hold(clones.there, "status").out
    checked = clones.hold(clones.here, "store", "check", server.url("a"))
    assert checked.code == 0, checked
    assert f"PostgreSQL {version_of(Path(server.programs))}" in checked.out
