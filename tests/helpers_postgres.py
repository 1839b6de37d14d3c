"""Real PostgreSQL servers for tests: found, started on this machine alone, and always ended.

`Server` is one server with a data folder of its own. It listens on loopback and on a Unix socket,
both with a password. A test that kills its server makes one with `Server.made`. All others share
the server of their run, which `Run` starts for the first test that asks, in whichever process of
pytest that is, and stops when pytest ends. Should pytest be killed, a guard process notices it,
stops the server and deletes its folder.

The role that Holdfast uses has rights in its own database only, on one schema only.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

NEEDED = "needs PostgreSQL: apt-get install postgresql"
NEEDED_DRIVER = "needs psycopg: pip install 'holdfast[postgres]'"
#: The oldest server that Holdfast promises to work with.
OLDEST = 13
#: Where packages put the server's programs, besides PATH. Debian keeps them out of it.
PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/opt/homebrew/bin",
)
#: Names another folder of programs, to test with another version.
VARIABLE = "HOLDFAST_POSTGRES_BIN"

ROLE = "holdfast_app"
DATABASE = "holdfast"
SCHEMA = "holdfast"
CONNECTIONS_MAX = 300
START_SECONDS = 60
#: A data folder with its first journal takes 40 MB, and journals of up to 1 GB.
ROOM_MIN = 2 << 30


# The programs


@cache
def programs() -> Path | None:
    """The folder with the newest server's programs that this machine has."""
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    found = [Path(on_path).resolve().parent] if (on_path := shutil.which("postgres")) else []
    for place in PLACES:
        found += Path("/").glob(place[1:])
    versions = [(version_of(folder), folder) for folder in found]
    usable = [one for one in versions if one[0] >= OLDEST]
    return max(usable)[1] if usable else None


def version_of(folder: Path) -> int:
    """The main version of the server whose programs are in a folder; 0 if there is none."""
    if not all((folder / name).exists() for name in ("postgres", "initdb", "pg_ctl")):
        return 0
    said = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True)
    number = re.search(r"\d+", said.stdout)
    return int(number[0]) if number else 0


def missing() -> str:
    """What a test with a server lacks here, for the reason of its skip; or empty."""
    if find_spec("psycopg") is None:
        return NEEDED_DRIVER
    return "" if programs() else NEEDED


@cache
def other_user() -> dict[str, Any]:
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


def roomy_folder() -> Path:
    """A new folder for a server, in memory if there is room.

    What was written there outlives a killed server as it does on a disk, and no test switches the
    machine off. On a disk each commit would wait for it, a hundred at most in a second.
    """
    memory = Path("/dev/shm")
    parent = Path(tempfile.gettempdir())
    if memory.is_mount() and shutil.disk_usage(memory).free >= ROOM_MIN:
        parent = memory
    made = Path(tempfile.mkdtemp(prefix="holdfast-postgres-", dir=parent))
    owner = other_user()
    if owner:
        os.chown(made, owner["user"], owner["group"])
    made.chmod(0o711)  # the server's user and ours may differ; the data folder is private itself
    return made


def free_port() -> int:
    """A port of the loopback interface that no program listens on at this moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


# One server


class Server:
    """One PostgreSQL server. Any process may hold one for the same folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        told = json.loads((folder / "server.json").read_text())
        self.port: int = told["port"]
        self.password: str = told["password"]
        self.admin_password: str = told["admin_password"]
        #: The folder of its programs; empty for those of the machine.
        self.programs: str = told.get("programs", "")
        self.data = folder / "data"
        self.sockets = folder / "sockets"

    # Its life

    @classmethod
    def made(
        cls,
        *,
        durable: bool,
        owner: int | None = None,
        beside: Path | None = None,
        settings: Mapping[str, object] | None = None,
        programs: Path | None = None,
    ) -> Server:
        """Make a server and start it; it ends with the process `owner`, or with this one, and
        a folder `beside` it is deleted then, too. Its programs are those of the machine, unless
        another folder is given.

        A durable server has the settings of production, for tests that kill it. The others have
        fsync off, which saves time where the folder is on a disk.
        """
        folder = roomy_folder()
        words = {"port": free_port(), "password": _password(), "admin_password": _password()}
        words["programs"] = str(programs or "")
        (folder / "server.json").write_text(json.dumps(words))
        _guard(folder, owner or os.getpid(), beside or folder)
        self = cls(folder)
        try:
            self._initialise(durable, settings or {})
            self.start()
            self.make_role(ROLE, self.password)
            self.make_database(DATABASE)
        except BaseException:
            self.remove()
            raise
        return self

    def _initialise(self, durable: bool, settings: Mapping[str, object]) -> None:
        words = self.folder / "password"
        words.write_text(self.admin_password)
        words.chmod(0o644)
        self._run(
            "initdb", "--pgdata", self.data, "--username=postgres", "--encoding=UTF8",
            "--locale=C", "--auth=scram-sha-256", f"--pwfile={words}", "--no-sync",
        )  # fmt: skip
        words.unlink()
        as_user = other_user()
        self.sockets.mkdir()
        if as_user:
            os.chown(self.sockets, as_user["user"], as_user["group"])
        chosen = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.sockets,
            "max_connections": CONNECTIONS_MAX,
            "fsync": "on" if durable else "off",
            "synchronous_commit": "on",
            "full_page_writes": "on" if durable else "off",
            "log_min_messages": "warning",
            **settings,
        }
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in chosen.items())

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        # After `kill`, the system may need a moment until the last old process has ended.
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self._run(
                    "pg_ctl", "start", "--wait", f"--timeout={START_SECONDS}", "--silent",
                    "--pgdata", self.data, "--log", self.folder / "log",
                )  # fmt: skip
            except AssertionError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)
            else:
                return

    def stop(self, mode: str = "fast") -> None:
        """Stop it, and wait until it has ended; `mode` is pg_ctl's."""
        if self.pid:
            self._run("pg_ctl", "stop", "--wait", "--silent", f"--mode={mode}", "-D", self.data)

    def kill(self) -> None:
        """End all its processes at once, as a crash of its machine does."""
        pid = self.pid
        if not pid:
            return
        os.kill(pid, signal.SIGSTOP)  # or it would start new ones for those that end
        for one in (*children_of(pid), pid):
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                pass
        end = time.monotonic() + START_SECONDS
        while is_running(pid):
            assert time.monotonic() < end, "the server does not end"
            time.sleep(0.001)

    def restart(self, mode: str = "fast") -> None:
        """Stop it in an orderly way, and start it."""
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """End it, and delete all that it has written."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """The server's main process; 0 if it is not running."""
        return running_server(self.data)

    def log(self) -> str:
        """What the server has written about its troubles."""
        file = self.folder / "log"
        return file.read_text(errors="replace") if file.exists() else ""

    def _run(self, program: str, *words: object) -> None:
        folder = Path(self.programs) if self.programs else programs()
        assert folder is not None, NEEDED
        done = subprocess.run(
            [str(folder / program), *map(str, words)], cwd="/", stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT, text=True, start_new_session=True, **other_user(),
        )  # fmt: skip
        assert done.returncode == 0, f"{program} failed: {done.stdout} {self.log()[-2000:]}"

    # Its names

    def url(
        self,
        repository: str = "",
        *,
        database: str = DATABASE,
        password: bool = True,
        role: str = ROLE,
        by_socket: bool = False,
        port: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> str:
        """The URL of a database, and of a repository in it.

        Without the password in it, the caller passes that by `environment` or a password file.
        """
        words = {"": role} if not password else {"": f"{role}:{quote(self.password, safe='')}"}
        asked = dict(options or {})
        place = f"127.0.0.1:{port or self.port}"
        if by_socket:
            place, asked = "", {"host": str(self.sockets), "port": port or self.port, **asked}
        query = f"?{urlencode(asked)}" if asked else ""
        fragment = f"#{quote(repository)}" if repository else ""
        return f"postgresql://{words['']}@{place}/{database}{query}{fragment}"

    @property
    def environment(self) -> dict[str, str]:
        """The variable that has the password of the role."""
        return {"PGPASSWORD": self.password}

    def password_file(self, file: Path) -> Path:
        """Write a file for PGPASSFILE."""
        file.touch(0o600)
        file.write_text(
            f"127.0.0.1:*:*:{ROLE}:{self.password}\nlocalhost:*:*:{ROLE}:{self.password}\n"
        )
        return file

    def admin_url(self, database: str = "postgres") -> str:
        """The URL of the server's superuser."""
        return f"postgresql://postgres:{self.admin_password}@127.0.0.1:{self.port}/{database}"

    # What it contains

    def run(self, sql: str, *values: object, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the superuser; the rows of its answer."""
        import psycopg

        with psycopg.connect(self.admin_url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def make_role(self, role: str, password: str) -> None:
        """Make a role that may log in, and nothing else."""
        self.run(f"create role {role} login password '{password}'")

    def make_database(self, name: str, *, role: str = ROLE, schema: str = SCHEMA) -> str:
        """Make a database in which a role has rights on one schema only; returns its name."""
        self.run(f"create database {name}")
        self.run(f"revoke all on database {name} from public")
        self.run(f"grant connect, temporary on database {name} to {role}")
        self.run("revoke all on schema public from public", database=name)
        self.run(f"create schema {schema} authorization {role}", database=name)
        return name

    def backends(self, database: str = DATABASE) -> list[int]:
        """The processes of the connections of the role to a database."""
        rows = self.run(
            "select pid from pg_stat_activity where datname = %s and usename <> 'postgres'"
            " and backend_type = 'client backend'",
            database,
        )
        return [row[0] for row in rows]

    def cut_all(self, database: str = DATABASE) -> int:
        """End all connections of the role to a database; returns how many there were."""
        rows = self.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
            " and usename <> 'postgres' and backend_type = 'client backend'",
            database,
        )
        return len(rows)


@contextmanager
def own_server(**settings: object) -> Iterator[Server]:
    """A durable server of one test, which may stop it, kill it and start it again."""
    if reason := missing():
        pytest.skip(reason)
    made = Server.made(durable=True, settings=settings)
    try:
        yield made
    finally:
        made.remove()


def _password() -> str:
    return secrets.token_hex(12)


# Its processes


def running_server(data: Path) -> int:
    """The main process of the server with a data folder; 0 if there is none."""
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n")[0])
    except (OSError, ValueError):
        return 0
    return pid if is_running(pid) else 0


def is_running(pid: int) -> bool:
    """Whether there is a process that has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return sys.platform != "linux"


def children_of(pid: int) -> list[int]:
    """The processes that a process has started itself."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True)
    pairs = (line.split() for line in listed.stdout.splitlines())
    return [int(one) for one, parent in pairs if int(parent) == pid]


# The guard


def _guard(folder: Path, owner: int, beside: Path) -> None:
    """Start the process that ends a server once its owner has ended."""
    subprocess.run(
        [sys.executable, __file__, str(folder), str(owner), str(beside)],
        check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _watch(folder: Path, owner: int, beside: Path) -> None:
    """Be the guard: wait until the owner has ended, or the folder has been removed."""
    if os.fork():
        os._exit(0)
    os.setsid()  # an interrupt from the terminal must not end it
    while is_running(owner) and folder.exists():
        time.sleep(0.2)
    if (folder / "server.json").exists():
        Server(folder).remove()
    shutil.rmtree(beside, ignore_errors=True)


# The server of a run


class Run:
    """One server for all tests of a run of pytest. A plugin of every process of that run."""

    def __init__(self, config: pytest.Config) -> None:
        told: dict[str, Any] = getattr(config, "workerinput", {})
        self._is_main = "postgres_run" not in told
        self._owner: int = told.get("postgres_owner", os.getpid())
        self._folder = Path(
            told.get("postgres_run")
            or f"{tempfile.gettempdir()}/holdfast-run-{os.getpid()}-{secrets.token_hex(4)}"
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell another process of the run where to look; a hook of pytest-xdist."""
        node.workerinput["postgres_run"] = str(self._folder)
        node.workerinput["postgres_owner"] = self._owner

    def server(self) -> Server:
        """The server of this run, which the first caller starts; without one the test skips."""
        if reason := missing():
            pytest.skip(reason)
        said = self._folder / "server"
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with (self._folder / "turn").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            if not said.exists():
                made = Server.made(durable=False, owner=self._owner, beside=self._folder)
                said.write_text(str(made.folder))
        return Server(Path(said.read_text()))

    def pytest_unconfigure(self) -> None:
        """Stop the server, if this is the process that the others report to."""
        if not self._is_main:
            return
        said = self._folder / "server"
        if said.exists() and Path(said.read_text()).exists():
            Server(Path(said.read_text())).remove()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    _watch(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
