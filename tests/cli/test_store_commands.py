"""`holdfast store copy` and `holdfast store check`, as they are typed."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Repository, as_a_person, environment
from helpers_postgres import Server, own_server

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")


class PersonsRepository(Repository):
    """A repository in which a person types the commands, whoever runs the tests."""

    def start(
        self,
        *words: object,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        **more: Any,
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            as_a_person(*COMMAND, *map(str, words)), cwd=cwd or self.root,
            env=environment(**(env or {})), text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
        )  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return PersonsRepository(tmp_path / "repo")


@pytest.fixture
def server_url(postgres_server: Server) -> str:
    return postgres_server.url(f"cli-{secrets.token_hex(6)}")


def _log(repo: Repository, *words: str) -> list[dict[str, object]]:
    answer = repo.hold("log", "--json", *words)
    assert answer.code == 0, answer
    return [json.loads(line) for line in answer.out.splitlines()]


def test_a_repository_moves_to_a_server_and_back_with_the_same_log(
    repo: Repository, server_url: str, postgres_server: Server
) -> None:
    for _ in range(2):
        assert repo.hold("lock", "app/x.rb", "--holder", "ann").code == 0
        assert repo.hold("lock", "app/x.rb", "--holder", "bob").code == 3
        assert repo.hold("unlock", "app/x.rb", "--holder", "ann").code == 0
    before = _log(repo)
    moved = repo.hold("store", "copy", ".", server_url)
    assert moved.code == 0, moved
    assert moved.out.startswith(f"moved sqlite://{repo.root}/.holdfast/ledger.db to postgresql://")
    assert f"{len(before)} events" in moved.out
    assert "export HOLDFAST_STORE='postgresql://" in moved.err
    assert "undo it: holdfast store copy 'postgresql://" in moved.err
    assert postgres_server.password not in moved.out + moved.err
    refused = repo.hold("lock", "app/x.rb", "--holder", "ann")
    assert (refused.code, "was moved to postgresql://" in refused.err) == (1, True)
    assert _log(repo, "--store", server_url) == before
    assert (repo.root / ".holdfast/server.json").exists(), "the clone keeps where its ledger is"
    assert repo.hold("store", "copy", ".", server_url).out.startswith("already: ")
    back = repo.hold("store", "copy", server_url, ".", "--json")
    assert back.json["outcome"] == "copied"
    assert back.json["events"] == len(before)
    assert _log(repo) == before
    assert repo.hold("lock", "app/x.rb", "--holder", "ann").code == 0


def test_a_url_without_a_name_means_the_repository_of_the_caller(
    repo: Repository, server_url: str
) -> None:
    name = f"named-{secrets.token_hex(6)}"
    (repo.root / "holdfast.toml").write_text(f'repository = "{name}"\n')
    repo.hold("lock", "x", "--holder", "ann", "--ttl", "1h")
    repo.hold("unlock", "x", "--holder", "ann")
    base = server_url.partition("#")[0]
    moved = repo.hold("store", "copy", ".", base, "--json")
    assert moved.json["to"].endswith(f"#{name}")
    told = {
        one["about"]: one for one in repo.hold("store", "check", base, "--json").json["findings"]
    }
    assert told["ledger"]["repository"] == name
    assert told["ledger"]["last_event"] == moved.json["events"]


def test_a_ledger_in_use_says_by_which_holder_with_the_code_of_a_conflict(
    repo: Repository, server_url: str
) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann", "--ttl", "1h")
    refused = repo.hold("store", "copy", ".", server_url)
    assert refused.code == 3
    assert "is in use: ann has held app/x.rb" in refused.err
    assert "-> let them finish" in refused.err
    as_json = repo.hold("store", "copy", ".", server_url, "--json")
    assert as_json.error["code"] == "E_LOCK_CONFLICT"
    assert repo.hold("unlock", "app/x.rb", "--holder", "ann").code == 0


@pytest.mark.parametrize("name", ["HOLDFAST_HOLDER", "HOLDFAST_GRANT", "CLAUDE_CODE_SESSION_ID"])
def test_an_agent_may_not_move_a_ledger(repo: Repository, server_url: str, name: str) -> None:
    repo.hold("lock", "x", "--holder", "ann", "--ttl", "1h")
    repo.hold("unlock", "x", "--holder", "ann")
    refused = repo.hold("store", "copy", ".", server_url, env={name: "1"})
    assert refused.code == 2, refused
    assert "only a person may move a ledger" in refused.err
    assert repo.hold("lock", "x", "--holder", "ann").code == 0
    assert repo.hold("store", "check", env={name: "1"}).code == 0


def test_the_two_stores_must_be_named(repo: Repository) -> None:
    assert repo.hold("store", "copy", ".").code == 2
    assert repo.hold("store", "copy", "memory:", "x.db").code == 2
    assert repo.hold("store", "copy", "mysql://host/db", "x.db").code == 2
    assert "there is no ledger" in repo.hold("store", "copy", "nowhere.db", "x.db").err
    assert not (repo.root / "x.db").exists()
    assert repo.hold("store", "check", "a", "b").code == 2


# check


def test_a_check_of_a_file_says_what_it_is_and_makes_none(repo: Repository) -> None:
    missing = repo.hold("store", "check")
    assert missing.code == 0, missing
    assert "there is none yet" in missing.out
    assert not (repo.root / ".holdfast/ledger.db").exists()
    repo.hold("lock", "x", "--holder", "ann", "--ttl", "1h")
    there = repo.hold("store", "check")
    assert there.out.startswith(f"sqlite://{repo.root}/.holdfast/ledger.db can be used\n")
    for text in ("MB, readable and writable", "GB free", "with 1 events so far", "(median of"):
        assert text in there.out
    assert repo.hold("store", "check", ".", "--json").json["ok"] is True


def test_a_check_of_a_file_that_is_no_ledger_fails(repo: Repository) -> None:
    (repo.root / "other.db").write_bytes(b"SQLite format 3\0" + bytes(200))
    (repo.root / "text.db").write_text("some text, and more of it" * 10)
    for name in ("other.db", "text.db"):
        before = (repo.root / name).read_bytes()
        told = repo.hold("store", "check", name)
        assert told.code == 1, told
        assert "cannot be used" in told.out
        assert (repo.root / name).read_bytes() == before


def test_a_check_of_a_server_says_everything_in_words(
    repo: Repository, server_url: str, postgres_server: Server
) -> None:
    told = repo.hold("store", "check", server_url)
    assert told.code == 0, told
    assert postgres_server.password not in told.out + told.err
    for about in ("server", "tables", "latency", "clock", "commits", "sessions", "pooler",
                  "encryption"):  # fmt: skip
        assert f"  {about} " in told.out
    found = {one["about"]: one for one in
             repo.hold("store", "check", server_url, "--json").json["findings"]}  # fmt: skip
    assert abs(found["clock"]["clock_difference_ms"]) < 1000
    assert 0 < found["latency"]["latency_ms"] < 1000
    assert found["commits"]["fsync"] == "off", "as the servers of the tests are"
    assert found["commits"]["level"] == "note"
    assert found["sessions"]["used"] >= 1
    assert found["pooler"]["pooler"] == "none"


def test_a_check_of_a_server_makes_nothing(repo: Repository, postgres_server: Server) -> None:
    name = f"check_{secrets.token_hex(4)}"
    postgres_server.make_database(name)
    url = postgres_server.url("app", database=name)
    told = repo.hold("store", "check", url)
    assert told.code == 0, told
    assert "there are none yet" in told.out
    tables = "select count(*) from pg_class where relnamespace = 'holdfast'::regnamespace"
    assert postgres_server.run(tables, database=name) == [(0,)]
    postgres_server.run(f"drop database {name} with (force)")


def test_a_check_of_a_server_that_is_away_is_one_sentence(
    repo: Repository, postgres_server: Server
) -> None:
    told = repo.hold("store", "check", postgres_server.url("app", port=1))
    assert told.code == 1
    assert told.out == ""
    assert "port 1 failed: Connection refused" in told.err
    told = repo.hold("store", "check", postgres_server.url("app", port=1), "--json")
    assert told.error["code"] == "E_STORE"


@pytest.fixture(params=["session", "transaction"])
def pooled(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The mode of a pooler, and a URL that goes through it."""
    if shutil.which("pgbouncer") is None:
        pytest.skip("needs pgbouncer")
    from helpers_postgres import ROLE, free_port, other_user

    with own_server() as server:
        port, folder = free_port(), server.folder
        (folder / "users").write_text(f'"{ROLE}" "{server.password}"\n')
        (folder / "users").chmod(0o644)
        (folder / "pooler").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = scram-sha-256\n"
            f"auth_file = {folder}/users\npool_mode = {request.param}\nunix_socket_dir =\n"
            "ignore_startup_parameters = extra_float_digits\n"
        )
        (folder / "pooler").chmod(0o644)
        pooler = subprocess.Popen(
            ["pgbouncer", "-q", str(folder / "pooler")], cwd="/", stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **other_user(),
        )  # fmt: skip
        try:
            yield request.param, server.url("app", port=port)
        finally:
            pooler.terminate()
            pooler.wait()


def test_a_check_knows_the_mode_of_a_pooler(repo: Repository, pooled: tuple[str, str]) -> None:
    mode, url = pooled
    told = repo.hold("store", "check", url, "--json")
    for _ in range(50):
        if "findings" in told.json:
            break
        told = repo.hold("store", "check", url, "--json")
    found = {one["about"]: one for one in told.json["findings"]}
    assert found["pooler"]["pooler"] == mode
    assert told.code == (0 if mode == "session" else 1)


def test_the_commands_that_a_message_proposes_can_be_typed(
    repo: Repository, server_url: str
) -> None:
    repo.hold("lock", "x", "--holder", "ann", "--ttl", "1h")
    repo.hold("unlock", "x", "--holder", "ann")
    moved = repo.hold("store", "copy", ".", server_url)
    (line,) = [one for one in moved.err.splitlines() if "undo it:" in one]
    words = shlex.split(line.partition("undo it: ")[2])
    password = server_url.partition("//")[2].partition("@")[0].partition(":")[2]
    back = repo.hold(*words[1:], env={"PGPASSWORD": password, **_home()})
    assert back.code == 0, back


def _home() -> dict[str, str]:
    return {"HOME": os.environ.get("HOME", "/")}
