"""Leases that are kept on a real server: heartbeats, keepers, outages, and processes that stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest

from helpers_cli import environment
from helpers_hook import InProcesses
from helpers_postgres import Server, own_server
from helpers_processes import LINUX_ONLY, state_of, until
from holdfast import Holder, LockManager
from holdfast.core import bulk_rules, rules
from holdfast.core.draft import Draft
from holdfast.core.model import Grant, Witness, agent_key
from holdfast.gate import side_process
from holdfast.manager import transactions
from holdfast.manager.files.paths import Tree
from holdfast.manager.owners.liveness import witness_of
from holdfast.manager.owners.variables import STORE
from holdfast.store.store_url import without_password

if TYPE_CHECKING:
    from holdfast.core.model import Decision
    from holdfast.core.view import View

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")
pytestmark = LINUX_ONLY

HERE = Path(__file__).parent
KEY = agent_key("claude", "faf2c0de")


def unknown(_witness: Witness, _marks: tuple[str, ...]) -> None:
    """The judge of another host, which can tell nothing about the processes of this one."""


@contextmanager
def opened(url: str, lease: float, root: Path | None = None) -> Iterator[LockManager]:
    from holdfast.store.postgres.server_store import PostgresStore

    store = PostgresStore(url, is_dead=unknown, lease_seconds=lease)
    with LockManager(store, tree=None if root is None else Tree(str(root))) as made:
        yield made


def is_live(manager: LockManager, id: str) -> bool:
    with manager.store.view(deadline=monotonic() + 60) as view:
        grant = view.grant(id)
        return isinstance(grant, Grant) and rules.is_live(view, grant)


def kept(manager: LockManager) -> int:
    return [event.type for event in manager.events()].count("leases_kept")


def test_a_lease_outlasts_its_length_while_its_process_lives(postgres_server: Server) -> None:
    url = postgres_server.url("heartbeat-lives")
    with opened(url, 1) as here, opened(url, 1) as elsewhere:
        grants = [here.acquire(holder="a", write_paths=[f"x{n}"], ttl=None) for n in range(20)]
        until(lambda: kept(elsewhere) >= 6, "two lives have passed")
        assert len(elsewhere.active_grants()) == len(grants)
        assert elsewhere.try_acquire(holder="b", write_paths=["x7"]) is None
        assert kept(elsewhere) <= 20, "all leases share their renewals"


def test_an_outage_that_is_shorter_than_the_lease_loses_nothing() -> None:
    with own_server() as server, opened(server.url("outage"), 12) as manager:
        grant = manager.acquire(holder="a", write_paths=["x"], ttl=None)
        server.kill()
        sleep(5)  # a renewal was due in between
        server.start()
        until(lambda: kept(manager) > 0, "it goes on", seconds=12)
        assert manager.verify(grant.id, path="x", token=grant.token)
        sleep(8)
        assert manager.verify(grant.id, path="x", token=grant.token)


def test_after_a_long_outage_the_lease_is_lost_and_new_ones_are_kept() -> None:
    with own_server() as server, opened(server.url("long"), 1) as manager:
        grant = manager.acquire(holder="a", write_paths=["x"], ttl=None)
        server.kill()
        sleep(2)
        server.start()
        until(lambda: grant.released, "it is lost")
        verdict = manager.verify(grant.id, path="x", token=grant.token)
        assert (verdict.allowed, verdict.code) == (False, "E_LOCK_EXPIRED")
        again = manager.acquire(holder="a", write_paths=["x"], ttl=None)
        count = kept(manager)
        until(lambda: kept(manager) >= count + 4, "the new lease is kept")
        assert manager.verify(again.id, path="x", token=again.token)


STOPPED = """
import os, signal, sys
from holdfast import LockManager, LockExpiredError
from holdfast.store.postgres.server_store import PostgresStore

store = PostgresStore(sys.argv[1], is_dead=lambda *_: None, lease_seconds=1)
with LockManager(store) as manager:
    grant = manager.acquire(holder="a", write_paths=["x"], ttl=None)
    assert manager.verify(grant.id, path="x", token=grant.token)
    print(grant.id, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    print(manager.verify(grant.id, path="x", token=grant.token).code, flush=True)
    try:
        with manager.fenced(grant):
            print("inside", flush=True)
    except Exception as error:
        print(getattr(error, "code", error), flush=True)
"""


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_process_that_was_stopped_beyond_its_lease_is_refused(
    postgres_server: Server, is_taken: bool
) -> None:
    url = postgres_server.url(f"stopped-{is_taken}")
    child = subprocess.Popen(
        [sys.executable, "-c", STOPPED, url], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child, opened(url, 1) as elsewhere:
        id = child.stdout.readline().strip()
        until(lambda: state_of(child.pid) == "T", "it is stopped")
        until(lambda: not is_live(elsewhere, id), "its lease has ended", seconds=10)
        if is_taken:
            assert elsewhere.try_acquire(holder="b", write_paths=["x"]) is not None
        os.kill(child.pid, signal.SIGCONT)
        assert child.stdout.read().split() == ["E_LOCK_EXPIRED"] * 2


# Keepers

#: The process of a keeper, on a server whose leases are short.
KEEPER = """
import sys
from holdfast.store.postgres.server_store import PostgresStore

PostgresStore.__init__.__kwdefaults__["lease_seconds"] = float(sys.argv[5])
from holdfast.gate import client_keeper

client_keeper.run(sys.argv[1:])
"""


class Bench:
    """A repository on a server's ledger, a client, and its keeper."""

    def __init__(self, root: Path, url: str, lease: float) -> None:
        self.root, self.url, self.lease = root, url, lease
        (root / ".git").mkdir(parents=True)
        (root / ".holdfast").mkdir()
        self.client = subprocess.Popen(["sleep", "300"])
        found = witness_of(self.client.pid)
        assert found is not None
        self.witness = found

    def keep(self) -> subprocess.Popen[bytes]:
        words = [str(self.root), KEY, str(self.witness.pid), str(self.witness.start),
                 str(self.lease), without_password(self.url)]  # fmt: skip
        return subprocess.Popen(
            [sys.executable, "-c", KEEPER, *words], env=environment(**{STORE: self.url})
        )

    def take(self, manager: LockManager, path: str) -> str:
        """A lease as a hook takes it: by a process that has ended."""
        holder = Holder(id="faf2", key=KEY, witness=self.witness)
        request = manager.request(holder, [], [str(self.root / path)], None)
        transactions.decide(manager, lambda view: bulk_rules.take_free(view, [request]))
        return request.id


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str, float], Bench]]:
    made: list[Bench] = []

    def new(url: str, lease: float) -> Bench:
        made.append(Bench(tmp_path / "work", url, lease))
        return made[-1]

    yield new
    for bench in made:
        bench.client.kill()
        bench.client.wait()


def test_a_keeper_renews_while_its_client_lives_and_frees_its_files_when_it_dies(
    postgres_server: Server, start: Callable[[str, float], Bench]
) -> None:
    bench = start(postgres_server.url("keeper"), 2)
    with opened(bench.url, 2, bench.root) as elsewhere:
        id = bench.take(elsewhere, "x")
        with bench.keep() as keeper:
            until(lambda: kept(elsewhere) >= 5, "it has been renewed", seconds=30)
            assert is_live(elsewhere, id)
            bench.client.kill()
            bench.client.wait()
            keeper.wait(20)
        reaped = [event for event in elsewhere.events() if event.type == "lock_reaped"]
        assert [event.data["why"] for event in reaped] == ["owner dead"]


def test_a_keeper_goes_on_through_an_outage(start: Callable[[str, float], Bench]) -> None:
    with own_server() as server:
        bench = start(server.url("keeper"), 10)
        with opened(bench.url, 10, bench.root) as elsewhere:
            id = bench.take(elsewhere, "x")
            with bench.keep() as keeper:
                until(lambda: kept(elsewhere) >= 1, "it has been renewed", seconds=30)
                server.kill()
                sleep(4)
                server.start()
                count = kept(elsewhere)
                until(lambda: kept(elsewhere) >= count + 2, "it goes on", seconds=40)
                assert is_live(elsewhere, id)
                assert keeper.poll() is None
                elsewhere.release(id)
                keeper.wait(20)


def test_a_lock_of_the_command_line_has_a_keeper_beside_its_owner(
    postgres_server: Server, tmp_path: Path
) -> None:
    root = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "x").write_text("x\n")
    url = postgres_server.url("command", password=False)
    environ = environment(**{STORE: url}, **postgres_server.environment)
    words = [sys.executable, "-m", "holdfast"]
    said = subprocess.run(
        [*words, "lock", "x", "--ttl", "none"],
        cwd=root, env=environ, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "until it is released" in said.stdout
    status = subprocess.run(
        [*words, "status"], cwd=root, env=environ, check=True, capture_output=True, text=True
    )
    assert "owner exits" in status.stdout
    folder = root / side_process.FOLDER
    until(lambda: folder.is_dir() and any(one.read_text() for one in folder.iterdir()), "claimed")
    (file,) = folder.iterdir()
    pid = int(file.read_text().split()[0])
    told = Path(f"/proc/{pid}/environ").read_text()
    assert f"{STORE}={url}" in told
    assert postgres_server.password not in Path(f"/proc/{pid}/cmdline").read_text()
    subprocess.run([*words, "unlock", "x"], cwd=root, env=environ, check=True, capture_output=True)
    os.kill(pid, signal.SIGKILL)  # it looks again only after a third of its lease


def test_a_command_whose_runner_was_killed_keeps_its_files_until_it_ends(
    postgres_server: Server, tmp_path: Path
) -> None:
    """No heartbeat is left, but the keeper beside the runner finds the command by its mark."""
    root = tmp_path / "work"
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / "x").write_text("x\n")
    url = postgres_server.url("orphan", password=False)
    environ = environment(**{STORE: url}, **postgres_server.environment)
    words = [sys.executable, "-m", "holdfast", "run", "--write", "x", "--"]
    runner = subprocess.Popen(
        [*words, "sh", "-c", "echo $$; exec sleep 300"],
        cwd=root, env=environ, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert runner.stdout is not None
    with runner, opened(postgres_server.url("orphan"), 120, root) as elsewhere:
        orphan = int(runner.stdout.readline())
        until(lambda: len(keepers(root)) == 1, "it has claimed its place")
        runner.kill()
        runner.wait()
        sleep(2.5)  # the keeper looks once a second
        (keeper,) = keepers(root)
        assert len(elsewhere.active_grants()) == 1
        os.kill(orphan, signal.SIGKILL)
        until(lambda: not elsewhere.active_grants(), "its files are free", seconds=20)
        until(lambda: witness_of(keeper) is None, "the keeper has ended")


# Hooks


@pytest.fixture
def agent(
    postgres_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[InProcesses]:
    """An agent whose hooks find its ledger on the server."""
    root = tmp_path / "work"
    (root / "app").mkdir(parents=True)
    (root / "app/x.rb").write_text("old\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.setenv(STORE, postgres_server.url(f"hook-{tmp_path.name}", password=False))
    for name, text in postgres_server.environment.items():
        monkeypatch.setenv(name, text)
    with LockManager.open(root):
        pass
    made = InProcesses(root, "faf2c0de")
    yield made
    made.close()
    for pid in keepers(root):
        os.kill(pid, signal.SIGKILL)


def keepers(root: Path) -> list[int]:
    """The keepers of a repository that have claimed their places and run."""
    folder = root / side_process.FOLDER
    told = [one.read_text().split() for one in folder.iterdir()] if folder.is_dir() else []
    return [int(one[0]) for one in told if one and witness_of(int(one[0])) is not None]


def test_a_hook_leaves_a_keeper_that_frees_the_files_when_the_client_dies(
    agent: InProcesses,
) -> None:
    assert agent.edit("app/x.rb") == ""
    until(lambda: len(keepers(agent.root)) == 1, "it has claimed its place")
    (keeper,) = keepers(agent.root)
    assert agent.edit("app/x.rb") == ""
    assert keepers(agent.root) == [keeper]
    with opened(os.environ[STORE], 120, agent.root) as elsewhere:
        (held,) = elsewhere.active_grants()
        assert (held.write_paths, held.ttl_seconds) == (("app/x.rb",), None)
        assert elsewhere.try_acquire(holder="b", write_paths=[agent.root / "app/x.rb"]) is None
        agent.kill()
        until(lambda: not elsewhere.active_grants(), "its files are free", seconds=20)
        reaped = [event for event in elsewhere.events() if event.type == "lock_reaped"]
        assert [event.data["why"] for event in reaped] == ["owner dead"]
    until(lambda: keepers(agent.root) == [], "it has ended")


def test_a_keeper_that_was_killed_is_replaced_by_the_next_event(agent: InProcesses) -> None:
    agent.edit("app/x.rb")
    until(lambda: len(keepers(agent.root)) == 1, "it has claimed its place")
    (first,) = keepers(agent.root)
    os.kill(first, signal.SIGKILL)
    until(lambda: keepers(agent.root) == [], "it is gone")
    agent.command("true")
    until(lambda: keepers(agent.root) not in ([], [first]), "there is another")


def test_an_agent_whose_lease_has_passed_to_another_is_refused_by_its_hook(
    agent: InProcesses,
) -> None:
    agent.edit("app/x.rb")
    until(lambda: len(keepers(agent.root)) == 1, "it has claimed its place")
    with opened(os.environ[STORE], 120, agent.root) as elsewhere:
        (held,) = elsewhere.active_grants()
        with elsewhere.store.view(deadline=monotonic() + 60) as view:
            past = view.now
        assert held.expires_at is not None

        def expire(view: View) -> Decision[None]:
            """What passes while the agent's host is cut off for longer than the lease."""
            draft = Draft(view)
            grant = draft.live_grant(held.id)
            assert grant is not None
            draft.extend(grant, expires_at=past, idle_at=None)
            return draft.done(None)

        transactions.decide(elsewhere, expire)
        file = agent.root / "app/x.rb"
        taken = elsewhere.try_acquire(holder="b", write_paths=[file], reason="a fix")
        assert taken is not None
        why = agent.edit("app/x.rb")
        assert "app/x.rb" in why
        assert "a fix" in why or "b" in why.split()
        verdict = elsewhere.verify(held.id, path=file, token=held.token)
        assert (verdict.allowed, verdict.code) == (False, "E_LOCK_EXPIRED")
