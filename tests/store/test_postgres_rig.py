"""The PostgreSQL servers of these tests: shared, private, killed, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_postgres import ROLE, SCHEMA, Server, is_running, missing, own_server
from helpers_processes import LINUX_ONLY, until

psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")

HERE = Path(__file__).parent


def test_the_role_has_rights_on_its_own_schema_only(postgres_server: Server) -> None:
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"create table {SCHEMA}.rig (a int)")
        connection.execute(f"drop table {SCHEMA}.rig")
        for sql in ("create table public.rig (a int)", "create schema rig", "create role rig"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(postgres_server.url().replace(postgres_server.password, "wrong"))


def test_the_server_answers_on_its_socket_and_takes_the_password_from_elsewhere(
    postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(postgres_server.url(by_socket=True)) as connection:
        assert connection.execute("select current_user").fetchone() == (ROLE,)
    plain = postgres_server.url(password=False)
    assert postgres_server.password not in plain
    monkeypatch.setenv("PGPASSFILE", str(postgres_server.password_file(tmp_path / "pass")))
    psycopg.connect(plain).close()


@LINUX_ONLY
def test_a_killed_server_starts_again_with_what_was_committed() -> None:
    with own_server() as server:
        with psycopg.connect(server.url()) as connection:
            connection.execute(f"create table {SCHEMA}.rig (a int)")
            connection.execute(f"insert into {SCHEMA}.rig values (7)")
            connection.commit()
            server.kill()
            assert server.pid == 0
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
        server.start()
        assert server.run(f"select a from {SCHEMA}.rig", database="holdfast") == [(7,)]
        server.restart()
        pid = server.pid
    assert not is_running(pid)
    assert not server.folder.exists()


OWNER = """
import sys
from helpers_postgres import Server
server = Server.made(durable=False)
print(server.folder, server.pid, flush=True)
sys.stdin.read()
"""


@LINUX_ONLY
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_server_ends_when_the_process_that_made_it_is_ended(how: signal.Signals) -> None:
    if reason := missing():
        pytest.skip(reason)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, env={**os.environ, "PYTHONPATH": str(HERE.parent)},
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        folder, pid = owner.stdout.readline().split()
        assert is_running(int(pid))
        owner.send_signal(how)
        owner.wait(30)
    until(lambda: not is_running(int(pid)), "the server ends")
    until(lambda: not Path(folder).exists(), "its folder is deleted")
