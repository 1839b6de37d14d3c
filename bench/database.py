"""A PostgreSQL server of the benchmarks' own: on a disk, with the durability of production.

It listens on loopback with a password. A guard process ends it and deletes its folder when the
process that started it closes it, or ends without that.
"""

from __future__ import annotations

import os
import pwd
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.harness import file_system

if TYPE_CHECKING:
    from types import TracebackType

#: The oldest server that Holdfast promises to work with.
OLDEST = 13
#: Where packages put the server's programs, besides PATH.
PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/opt/homebrew/bin",
)
#: Names the folder of another version's programs.
VARIABLE = "HOLDFAST_POSTGRES_BIN"

USER = "holdfast"
#: A crowd of 64 has a connection for each way in which it is measured.
CONNECTIONS_MAX = 600
START_SECONDS = 60
IN_MEMORY = ("tmpfs", "ramfs")


def programs() -> Path | None:
    """The folder with the newest server's programs that this machine has."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    found = [Path(on_path).resolve().parent] if (on_path := shutil.which("postgres")) else []
    for place in PLACES:
        found += Path("/").glob(place[1:])
    versions = [(_main_version(folder), folder) for folder in found]
    usable = [one for one in versions if one[0] >= OLDEST]
    return max(usable)[1] if usable else None


def _main_version(folder: Path) -> int:
    """The main version of the server in a folder; 0 if there is none."""
    if not all((folder / name).exists() for name in ("postgres", "initdb", "pg_ctl")):
        return 0
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True)
    number = re.search(r"\d+", said.stdout)
    return int(number[0]) if number else 0


def missing() -> str:
    """What this machine lacks, in words; or empty."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed"
    return "" if programs() else "PostgreSQL is not installed"


class Database:
    """One server with an empty database. `url` has its password."""

    def __init__(self) -> None:
        self.folder = _folder_on_disk()
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "bench.database", self.folder],
            cwd=Path(__file__).parent.parent, stdin=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        self._port, self.password = _free_port(), secrets.token_hex(12)
        try:
            self._initialise()
            _run(
                "pg_ctl", "start", "--wait", f"--timeout={START_SECONDS}", "--silent",
                f"--pgdata={self.folder}/data", f"--log={self.folder}/log",
            )  # fmt: skip
        except BaseException:
            self.close()
            raise

    def _initialise(self) -> None:
        words, data = self.folder / "password", self.folder / "data"
        words.write_text(self.password)
        words.chmod(0o644)  # the server's user reads it; the password is for loopback and one run
        _run(
            "initdb", f"--pgdata={data}", f"--username={USER}", "--encoding=UTF8", "--locale=C",
            "--auth=scram-sha-256", f"--pwfile={words}",
        )  # fmt: skip
        words.unlink()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "unix_socket_directories": "",
            "max_connections": CONNECTIONS_MAX,
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
        }
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    @property
    def place(self) -> str:
        """The URL without the password."""
        return f"postgresql://{USER}@127.0.0.1:{self._port}/postgres"

    @property
    def url(self) -> str:
        return self.place.replace("@", f":{self.password}@")

    def run(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement; the rows of its answer."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def connections(self) -> int:
        """How many connections Holdfast has open."""
        [[count]] = self.run(
            "select count(*) from pg_stat_activity where application_name = 'holdfast'"
        )
        return int(count)

    def settled_connections(self) -> int:
        """The same, once the connections that are being closed are closed."""
        count, before = self.connections(), -1
        while count != before:
            time.sleep(0.3)
            count, before = self.connections(), count
        return count

    def described(self) -> str:
        """Its version and its durability, in words."""
        [[version, fsync]] = self.run(
            "select current_setting('server_version'), current_setting('fsync')"
        )
        return f"PostgreSQL {version.split()[0]} on {file_system(self.folder)}, fsync {fsync}"

    def close(self) -> None:
        """End it, and delete its files."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.close()


def _folder_on_disk() -> Path:
    """A new folder that the server's user can enter, on a disk if there is one."""
    places = (tempfile.gettempdir(), "/var/tmp")
    usable = [one for one in places if Path(one).is_dir()]
    on_disk = [one for one in usable if file_system(Path(one).resolve()) not in IN_MEMORY]
    made = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=(on_disk or usable)[0])).resolve()
    if owner := _other_user():
        os.chown(made, owner["user"], owner["group"])
    made.chmod(0o711)
    return made


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _other_user() -> dict[str, Any]:
    """The user that runs the server, for `subprocess`. PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise LookupError("there is neither a user postgres nor a user nobody")


def _run(program: str, *words: str) -> None:
    folder = programs()
    if folder is None:
        raise LookupError(missing())
    # A server that starts keeps its parent's output open, so there is no pipe to read to its end.
    with tempfile.TemporaryFile("w+") as said:
        done = subprocess.run(
            [folder / program, *words], cwd="/", stdin=subprocess.DEVNULL, stdout=said,
            stderr=said, start_new_session=True, check=False, **_other_user(),
        )  # fmt: skip
        if done.returncode != 0:
            said.seek(0)
            raise RuntimeError(f"{program} failed: {said.read()}")


def _guarded(folder: Path) -> None:
    """Be the guard: wait until the starter closes the pipe, or ends."""
    sys.stdin.read()
    try:
        if (folder / "data/postmaster.pid").exists():
            _run("pg_ctl", "stop", "--wait", "--silent", "--mode=immediate", f"-D{folder}/data")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _guarded(Path(sys.argv[1]))
