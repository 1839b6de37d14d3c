"""The page on many machines is true: its commands are typed, on a server of their own, and its
compose file and its figures are compared with what the program does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from helpers_cli import Repository, Terminal
from helpers_guides import ROOT, Reader, Shown, blocks, transcripts
from helpers_postgres import Server, missing, other_user, own_server, programs
from holdfast import LockManager
from holdfast.gate.lease_gate import STORE_SECONDS
from holdfast.manager.heartbeat import RENEW_PART
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.store import store_url

PAGE = "docs/many-machines.md"
TEXT = (ROOT / PAGE).read_text()
URL = "postgresql://holdfast@db.example.org/holdfast"
HOST = "db.example.org"
PASSWORD = "PASSWORD"

NEEDS_SERVER = pytest.mark.skipif(bool(missing()), reason=missing() or "there is a server")
NEEDS_TERMINAL = pytest.mark.skipif(sys.platform != "linux", reason="types into a terminal")

#: `sudo -u postgres` is the server's superuser here, and otherwise nobody else.
_SUDO = """#!/bin/sh
[ "$1" = -u ] && shift 2
unset PGHOSTADDR
export PGHOST=127.0.0.1 PGPORT={port} PGUSER=postgres PGPASSWORD={password}
exec "$@"
"""


@pytest.fixture
def server() -> Iterator[Server]:
    """A server as its package makes it, without any role or database of ours."""
    with own_server() as made:
        made.run("drop database holdfast")
        yield made


@pytest.fixture
def tools(tmp_path: Path, server: Server) -> Path:
    """A folder with the programs that the page's commands need, for `PATH`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    texts = {
        "holdfast": f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n',
        "sudo": _SUDO.format(port=server.port, password=server.admin_password),
        "apt-get": "#!/bin/sh\n",  # what it installs is here
        "systemctl": f'#!/bin/sh\necho "$@" >{tmp_path}/systemctl\n',
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


class Host:
    """A person at a terminal on a host with a clone. The page's server has another name there."""

    def __init__(
        self, folder: Path, tools: Path, server: Server, origin: Path | None = None
    ) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        if origin is None:
            repository = Repository(folder / "project")
        else:
            subprocess.run(["git", "clone", "-q", origin, folder / "project"], check=True)
            repository = Repository.__new__(Repository)
            repository.root = folder / "project"
        self.root = repository.root
        path = f"{tools}:{programs()}:{os.environ['PATH']}"
        self.terminal = Terminal(
            repository, HOME=str(self.home), PATH=path, USER=folder.name, LOGNAME=folder.name,
            PGHOSTADDR="127.0.0.1", PGPORT=str(server.port),
        )  # fmt: skip
        self.reader = Reader(self.terminal, [(folder, f"/home/{folder.name}")])

    def do(self, line: str) -> str:
        answer = self.terminal.do(line)
        assert answer.code == 0, answer
        return answer.out

    def commit(self) -> None:
        """The first commit of a repository of its own."""
        self.do(f"git config user.name {self.root} && git config user.email a@example.org")
        self.do("git add -A && git commit -q -m first")

    def close(self) -> None:
        self.terminal.close()


def give_password(terminal: Terminal, command: str) -> None:
    """Type a command that asks twice for a new password."""
    terminal.type(f"{command}; echo code-$?\n")
    for question in ("Enter password for new role: ", "Enter it again: "):
        terminal.shows(question)
        terminal.type(f"{PASSWORD}\n")
    terminal.shows("code-0")


def encrypt(server: Server, authority: Path) -> None:
    """Give the server a certificate for its name, which is its own authority."""
    key, certificate = server.data / "server.key", server.data / "server.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-keyout", key, "-out",
         certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    key.chmod(0o600)
    shutil.copy(certificate, authority)
    owner = other_user()
    for file in (key, certificate):
        if owner:
            os.chown(file, owner["user"], owner["group"])
    server.run("alter system set ssl = on")
    server.run("select pg_reload_conf()")


@NEEDS_SERVER
@NEEDS_TERMINAL
def test_the_commands_of_the_page_do_what_it_shows(
    tmp_path: Path, tools: Path, server: Server
) -> None:
    shown = transcripts(PAGE)

    def before(text: str) -> list[Shown]:
        """The next commands, up to one that begins with a text."""
        number = next(at for at, one in enumerate(shown) if one.command.startswith(text))
        some, shown[:] = shown[:number], shown[number:]
        return some

    with closing(Host(tmp_path / "alice", tools, server)) as alice:
        alice.commit()
        for one in before("sudo -u postgres createuser"):
            alice.reader.follow(one)
        give_password(alice.terminal, shown.pop(0).command)
        for one in before("(umask"):
            alice.reader.follow(one)
        assert (tmp_path / "systemctl").read_text() == "restart postgresql\n"
        server.restart()
        rules = server.run("select address, auth_method from pg_hba_file_rules")
        assert ("10.0.0.0", "scram-sha-256") in rules

        exports = before("holdfast store check")
        for one in (*exports, shown.pop(0), shown.pop(0)):
            alice.reader.follow(one)
        with closing(Host(tmp_path / "bob", tools, server, alice.root)) as bob:
            for one in (*exports, *before("holdfast store copy")):
                bob.reader.follow(one)
        with closing(Host(tmp_path / "carol", tools, server)) as carol:
            carol.commit()
            carol.do("holdfast lock app/x.rb && holdfast unlock app/x.rb")
            for one in exports[:2]:
                carol.reader.follow(one)
            carol.reader.follow(shown.pop(0))
        assert not (alice.root / ".holdfast/ledger.db").exists()

        encrypt(server, alice.home / "ca.pem")
        for one in before("pg_dump"):
            alice.reader.follow(one)
        alice.reader.follow(shown.pop(0))
        kept = alice.do("holdfast status")
        assert "app/x.rb" in kept
        alice.do("holdfast unlock app/x.rb")
        for one in shown:
            alice.reader.follow(one)
        assert "app/x.rb" in alice.do("holdfast status")
        alice.do("holdfast lock app/y.rb")  # the tables are the role's own again

    [[may]] = server.run("select rolsuper or rolcreatedb from pg_roles where rolname = 'holdfast'")
    assert not may


# The compose file


def compose() -> Any:
    [text] = blocks(PAGE, "yaml")
    return yaml.safe_load(text)


def test_the_compose_file_leads_agents_to_the_ledger_that_it_makes() -> None:
    services = compose()["services"]
    server, agent = services["db"]["environment"], services["agent"]["environment"]
    there, elsewhere = urlsplit(agent["HOLDFAST_STORE"]), urlsplit(URL)
    assert store_url.is_for_settings(agent["HOLDFAST_STORE"])
    assert there.hostname == "db"
    assert (there.username, there.path) == (elsewhere.username, elsewhere.path)
    assert there.path == f"/{server['POSTGRES_DB']}"
    assert agent["PGPASSWORD"] == server["HOLDFAST_PASSWORD"] != server["POSTGRES_PASSWORD"]
    assert services["agent"]["depends_on"]["db"]["condition"] == "service_healthy"
    assert services["db"]["ports"] == ["127.0.0.1:5432:5432"]
    assert f"{there.scheme}://{there.username}@localhost{there.path}" in TEXT


def test_every_name_that_the_compose_file_uses_is_in_it() -> None:
    found = compose()
    for service in found["services"].values():
        for volume in service["volumes"]:
            assert volume.partition(":")[0] in found["volumes"]
        for config in service.get("configs", ()):
            assert config["source"] in found["configs"]
        assert set(service.get("depends_on", ())) <= set(found["services"])


@NEEDS_SERVER
def test_the_sql_of_the_compose_file_makes_the_role_and_its_schema(
    tmp_path: Path, server: Server
) -> None:
    found = compose()
    server.run("create database holdfast")
    folder = programs()
    assert folder is not None
    (tmp_path / "role.sql").write_text(found["configs"]["role"]["content"])
    done = subprocess.run(
        [folder / "psql", "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "-f", tmp_path / "role.sql",
         server.admin_url("holdfast")],
        env={**os.environ, "HOLDFAST_PASSWORD": "it's"}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    url = f"postgresql://holdfast:it%27s@127.0.0.1:{server.port}/holdfast#project"
    with LockManager.open(url) as manager:
        assert manager.try_acquire(holder="a", write_paths=["x"]) is not None


# The rest of the page


def test_the_settings_of_the_page_name_the_same_server() -> None:
    [text] = blocks(PAGE, "toml")
    settings = tomllib.loads(text)
    assert settings["store"] == URL
    assert store_url.is_for_settings(URL)
    assert store_url.is_name(settings["repository"])
    assert f'LockManager.open("{URL}")' in TEXT


@NEEDS_SERVER
def test_the_limits_of_the_page_are_those_of_the_program() -> None:
    from holdfast.store.postgres import server_rows, server_sections, server_session, server_store

    lease = server_store.LEASE_SECONDS
    renewal = lease * RENEW_PART
    for said in (
        f"its locks without a ttl are free for the others after at most {lease} s",
        f"and again {lease} s with each renewal",
        f"renews it, after each {renewal:.0f} s",
        f"10,000 clients need {10_000 / renewal:.0f} in a second",
        f"delays the repository for {server_session.INSIDE_SECONDS:.0f} s",
        f"inside `fenced` for {server_sections.FENCE_SECONDS:.0f} s",
        f"Keys are at most {server_rows.KEY_BYTES_MAX:,} bytes long",
        f"A command waits for it for {DEADLINE_SECONDS:.0f} s, a hook for {STORE_SECONDS:.0f} s",
    ):
        assert said in TEXT.replace("\n", " ").replace("  ", " "), said
