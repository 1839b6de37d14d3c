"""A server with a standby: which of the two has the ledger, and what a client of both does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from helpers_postgres import ROLE, Server, free_port, other_user, own_server, programs
from helpers_processes import until
from holdfast import LockManager
from holdfast.core.errors import StoreReadonlyError

_HAS_ALL = "select replay_lsn >= pg_current_wal_lsn() from pg_stat_replication"


class Standby:
    """A copy of a server that follows it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._data = server.folder / "standby"
        self.port = free_port()
        self._run(
            "pg_basebackup", "--host=127.0.0.1", f"--port={server.port}", "--username=postgres",
            f"--pgdata={self._data}", "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
        )  # fmt: skip
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(f"port = {self.port}\n")
        self._run(
            "pg_ctl", "start", "--wait", "--silent", f"--pgdata={self._data}",
            f"--log={server.folder}/log-of-standby",
        )  # fmt: skip

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "--wait", "--silent", f"--pgdata={self._data}")

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--silent", "--mode=immediate", f"--pgdata={self._data}")

    def _run(self, program: str, *words: str) -> None:
        folder = programs()
        assert folder is not None
        subprocess.run(
            [str(folder / program), *words], check=True, cwd="/", stdin=subprocess.DEVNULL,
            env={**os.environ, "PGPASSWORD": self._server.admin_password},
            stdout=subprocess.DEVNULL, start_new_session=True, **other_user(),
        )  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as made:
        made.folder.chmod(0o777)  # the standby's folder is made by the server's user
        yield made


@pytest.fixture
def standby(server: Server) -> Iterator[Standby]:
    with LockManager.open(server.url("project")):  # which makes the tables
        pass
    made = Standby(server)
    yield made
    made.stop()


def test_a_standby_is_refused_as_read_only_and_a_url_with_both_finds_the_server(
    server: Server, standby: Standby, tmp_path: Path
) -> None:
    with closing(LockManager.open(server.url("project", port=standby.port))) as manager:
        with pytest.raises(StoreReadonlyError) as refused:
            manager.active_grants()
        assert "standby" in refused.value.hint
        with pytest.raises(StoreReadonlyError):
            manager.try_acquire(holder="a", write_paths=["x"])

    both = f"127.0.0.1:{standby.port},127.0.0.1:{server.port}"
    url = (
        f"postgresql://{ROLE}:{server.password}@{both}/holdfast"
        "?target_session_attrs=read-write#project"
    )
    with closing(LockManager.open(url)) as manager:
        grant = manager.try_acquire(holder="a", write_paths=["x"])
        assert grant is not None
        until(lambda: server.run(_HAS_ALL) == [(True,)], "the standby has everything")
        server.stop("immediate")
        standby.promote()
        assert manager.try_acquire(holder="b", write_paths=["x"]) is None
        later = manager.try_acquire(holder="b", write_paths=["y"])
        assert later is not None
        assert later.token > grant.token
