"""The store on a server: what it promises beyond the checks that every store must pass."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from conftest import until
from helpers_network import Proxy
from helpers_postgres import ROLE, Server, own_server
from helpers_processes import Crowd
from holdfast import LockManager, StoreError
from holdfast.core.errors import StoreFullError
from holdfast.core.model import Decision, Holder
from holdfast.core.root_errors import StoreBusyError
from holdfast.manager import transactions
from holdfast.manager.owners.liveness import is_dead, witness_of
from holdfast.store import open_store
from holdfast.testing import conformance

pytest.importorskip("psycopg", reason="needs psycopg: pip install 'holdfast[postgres]'")

from holdfast.store.postgres import (
    listener,
    server_sections,
    server_session,
    server_store,
    server_waits,
)
from holdfast.store.postgres.server_session import ServerSession
from holdfast.store.postgres.server_store import PostgresStore

if TYPE_CHECKING:
    from holdfast.core.ledger_time import Clock
    from holdfast.store.contract import IsDead

SOON = 20.0


def a_name() -> str:
    return f"repository-{secrets.token_hex(6)}"


def opened(url: str, **more: Any) -> PostgresStore:
    return PostgresStore(url, is_dead=is_dead, **more)


def manager_of(store: PostgresStore) -> LockManager:
    return LockManager(store)


@pytest.fixture
def url(postgres_server: Server) -> str:
    """A ledger of the test's own on the server of the run."""
    return postgres_server.url(a_name())


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    with closing(opened(url)) as made:
        yield made


@contextmanager
def closing(store: PostgresStore) -> Iterator[PostgresStore]:
    try:
        yield store
    finally:
        store.close()


# Decisions


def test_a_connection_that_was_cut_is_made_again(
    store: PostgresStore, postgres_server: Server
) -> None:
    manager = manager_of(store)
    for round in range(5):
        grant = manager.acquire(holder="ann", write_paths=["x"], timeout=5)
        backend = session_of(store).backend
        postgres_server.run("select pg_terminate_backend(%s)", backend)
        assert wait_for_end_of(backend, postgres_server)
        assert manager.verify(grant.id, "x", token=grant.token)
        assert manager.release(grant.id)
        assert [event.seq for event in store.events()] == list(range(1, 2 * round + 3))


def wait_for_end_of(backend: int, server: Server) -> bool:
    until(lambda: backend not in server.backends(), "the server's process has ended")
    return True


def session_of(store: PostgresStore) -> ServerSession:
    assert store.session is not None
    return store.session


FULL = """
create function holdfast.full_disk() returns trigger language plpgsql as $$
begin raise sqlstate '53100' using message = 'could not extend file'; end $$
"""


@pytest.mark.parametrize("cycles", range(4))
def test_a_decision_that_the_server_refused_leaves_a_store_that_decides(
    postgres_server: Server, cycles: int
) -> None:
    """The driver prepares a statement when it has seen it a few times. It believes so also of one
    that the server skipped, because an earlier one in the same exchange was refused."""
    database = postgres_server.make_database(f"full_{secrets.token_hex(6)}")
    with closing(opened(postgres_server.url(a_name(), database=database))) as store:
        manager = manager_of(store)
        for _ in range(cycles):
            manager.release(manager.acquire(holder="ann", write_paths=["x"]).id)
        postgres_server.run(FULL, database=database)
        postgres_server.run(
            "create trigger full_disk before insert on holdfast.live"
            " execute function holdfast.full_disk()",
            database=database,
        )
        for _ in range(4):
            with pytest.raises(StoreFullError):
                manager.acquire(holder="ann", write_paths=["x"])
        postgres_server.run("drop trigger full_disk on holdfast.live", database=database)
        for _ in range(4):
            manager.release(manager.acquire(holder="ann", write_paths=["x"]).id)
        assert [event.seq for event in store.events()] == list(range(1, 2 * cycles + 9))


def test_a_process_that_is_stopped_in_a_decision_keeps_the_others_for_seconds_only(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the transaction; the stopped process decides again when it goes on."""
    monkeypatch.setattr(server_session, "INSIDE_SECONDS", 0.3)
    monkeypatch.setattr(server_store, "INSIDE_SECONDS", 0.3)
    entered, go_on, rounds = threading.Event(), threading.Event(), []

    def decide(view: Any) -> Decision[int]:
        rounds.append(view.head)
        if len(rounds) == 1:
            entered.set()
            go_on.wait(SOON)
            view.grants()  # the server has ended this transaction
        return Decision(view.head)

    with closing(opened(url)) as slow:
        heard: list[int] = []
        deadline = monotonic() + SOON
        thread = threading.Thread(
            target=lambda: heard.append(slow.transact(decide, deadline=deadline))
        )
        thread.start()
        assert entered.wait(SOON)
        manager_of(store).acquire(holder="ann", write_paths=["x"], timeout=SOON)
        go_on.set()
        thread.join(SOON)
    assert rounds == [0, 1]
    assert heard == [1]


def test_a_fenced_section_that_lasts_too_long_says_so_at_its_end(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_sections, "FENCE_SECONDS", 0.3)
    grant = manager_of(store).acquire(holder="ann", write_paths=["x"])
    with closing(opened(url)) as other:
        fence = store.fenced(grant.id, grant.token, deadline=monotonic() + SOON)
        fence.__enter__()
        other.transact(lambda view: Decision(view.head), deadline=monotonic() + SOON)
        with pytest.raises(StoreError, match="the server ended this fenced section"):
            fence.__exit__(None, None, None)
    assert manager_of(store).verify(grant.id, "x", token=grant.token)


def test_a_busy_ledger_refuses_at_the_deadline_and_is_usable_afterwards(
    store: PostgresStore, url: str
) -> None:
    grant = manager_of(store).acquire(holder="ann", write_paths=["x"])
    with closing(opened(url)) as other:
        with store.fenced(grant.id, grant.token, deadline=monotonic() + SOON):
            begin = monotonic()
            with pytest.raises(StoreBusyError):
                other.transact(lambda view: Decision(None), deadline=begin + 0.2)
            assert monotonic() - begin < 5
            with other.view(deadline=monotonic() + SOON) as view:
                assert view.head == 1
        assert other.transact(lambda view: Decision(view.head), deadline=monotonic() + SOON) == 1


# The server's settings, which are not ours


def test_the_settings_of_a_role_change_neither_order_nor_durability(
    postgres_server: Server,
) -> None:
    """A role may have other defaults than the server: each session sets what decisions rest on."""
    role = f"role_{secrets.token_hex(4)}"
    database = f"database_{secrets.token_hex(4)}"
    postgres_server.make_role(role, postgres_server.password)
    postgres_server.make_database(database, role=role)
    for setting in (
        "default_transaction_isolation = 'repeatable read'", "synchronous_commit = off",
        "search_path = public", "enable_indexscan = off", "lock_timeout = '1ms'",
        "statement_timeout = 0", "DateStyle = 'German'", "client_encoding = 'latin1'",
    ):  # fmt: skip
        postgres_server.run(f"alter role {role} set {setting}")
    url = postgres_server.url(a_name(), role=role, database=database)
    with closing(opened(url)) as one, closing(opened(url)) as two:
        first = manager_of(one).acquire(holder="ann", write_paths=["äö/ü"])
        second = manager_of(two).try_acquire(holder="bob", write_paths=["äö/ü"])
        assert second is None
        manager_of(two).acquire(holder="bob", write_paths=["y"])
        assert len(manager_of(one).active_grants()) == 2
        assert manager_of(one).release(first.id)
        cursor = session_of(one).connection.execute("show synchronous_commit")
        assert cursor.fetchone() == ("on",)


def test_a_role_needs_rights_on_the_schema_only(postgres_server: Server, url: str) -> None:
    with closing(opened(url)) as store:
        manager_of(store).acquire(holder="ann", write_paths=["x"])
    owners = postgres_server.run(
        "select distinct schemaname, tableowner from pg_tables where tableowner = %s",
        ROLE, database="holdfast",
    )  # fmt: skip
    assert owners == [("holdfast", ROLE)]


def test_many_that_open_a_new_database_at_once_make_its_tables_once(
    postgres_server: Server,
) -> None:
    database = postgres_server.make_database(f"new_{secrets.token_hex(4)}")
    url = postgres_server.url(a_name(), database=database)
    errors: list[BaseException] = []

    def begin(number: int) -> None:
        try:
            with closing(opened(url)) as store:
                manager_of(store).acquire(holder=f"h{number}", write_paths=[f"x{number}"])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert errors == []
    made = postgres_server.run("select version from holdfast.migrations", database=database)
    assert made == [(1,)]
    with closing(opened(url)) as store:
        assert len(manager_of(store).active_grants()) == 8


def test_repositories_in_one_database_know_nothing_of_each_other(postgres_server: Server) -> None:
    with (
        closing(opened(postgres_server.url(a_name()))) as one,
        closing(opened(postgres_server.url(a_name()))) as two,
    ):
        first, second = manager_of(one), manager_of(two)
        grant = first.acquire(holder="ann", write_paths=["x"])
        assert second.acquire(holder="bob", write_paths=["x"]).token
        assert not second.release(grant.id)
        assert [event.seq for event in one.events()] == [1]
        assert [event.seq for event in two.events()] == [1]
        begin = monotonic()
        with one.fenced(grant.id, grant.token, deadline=monotonic() + SOON):
            second.acquire(holder="bob", write_paths=["y"])
        assert monotonic() - begin < 5


def test_a_restored_backup_is_read_as_it_is_by_a_process_that_stayed_connected(
    store: PostgresStore, postgres_server: Server
) -> None:
    """Its events have the numbers of others that the process has read before."""
    with closing(opened(postgres_server.url(a_name()))) as other:
        mine = manager_of(store).acquire(holder="ann", write_paths=["x"])
        assert [held.id for held in manager_of(store).active_grants()] == [mine.id]
        theirs = manager_of(other).acquire(holder="bob", write_paths=["y"])
        for table in ("events", "live"):
            postgres_server.run(
                f"delete from holdfast.{table} where repository = %s",
                session_of(store).repository, database="holdfast",
            )  # fmt: skip
            postgres_server.run(
                f"update holdfast.{table} set repository = %s where repository = %s",
                session_of(store).repository, session_of(other).repository, database="holdfast",
            )  # fmt: skip
        held = manager_of(store).active_grants()
        assert [(one.id, one.owner.id) for one in held] == [(theirs.id, "bob")]
        assert not manager_of(store).verify(mine.id, "x", token=mine.token)


def test_a_decision_reads_what_concerns_it_however_much_is_held(postgres_server: Server) -> None:
    """The server counts the rows that it read: those of an index look-up, and not of a scan."""
    database = postgres_server.make_database(f"index_{secrets.token_hex(4)}")

    def open_one(name: str, *, clock: Clock, is_dead: IsDead) -> PostgresStore:
        url = postgres_server.url(name, database=database)
        return PostgresStore(url, clock=clock, is_dead=is_dead)

    with conformance.Scene(open_one) as scene:
        for number in range(200):
            scene.take(f"holder-{number}", writes=[f"held/{number}/{file}" for file in range(10)])
            scene.queue_up("late", writes=[f"held/{number}/0"])
        scene.reopen()
        read = rows_read(postgres_server, database)
        for number in range(10):
            held = scene.take("ann", writes=["x", f"y/{number}"], ttl=100)
            conformance.refused(scene.ask("bob", reads=["x"]))
            served = scene.queue_up("cid", writes=["x"])
            scene.renew(held, ttl=200)
            assert scene.verify(held)
            scene.release(held)
            assert scene.holds(served)
            with scene.store.view(deadline=monotonic() + SOON) as view:
                mine = view.held_by(scene.holder("cid").key)
                assert view.note("nothing") is None
            for grant in mine:
                scene.release(grant)
        scene.reopen()
        read = rows_read(postgres_server, database) - read
        assert 100 < read < 3_000, "a look at everything that is held would read 2,000 each time"


def rows_read(server: Server, database: str) -> int:
    """What sessions that have ended, or are idle for a while, have read of the ledgers' tables."""
    until(lambda: len(server.backends(database)) <= 1, "the former session has ended")
    (row,) = server.run(
        "select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint"
        " from pg_stat_user_tables",
        database=database,
    )
    return int(row[0])


# Time


def test_the_servers_clock_is_the_clock_of_the_ledger(
    postgres_server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host whose clock is wrong by an hour sees the same time, and its tokens are in order."""
    monkeypatch.setattr("time.time_ns", lambda: 1)
    with closing(opened(url)) as store:
        now = manager_of(store).now()
        (row,) = postgres_server.run("select (extract(epoch from clock_timestamp()) * 1e6)::bigint")
        assert abs(row[0] - now) < 60_000_000
        assert manager_of(store).acquire(holder="ann", write_paths=["x"]).token >= now


# Waking


def test_a_process_that_waits_has_one_more_connection_however_many_wait(
    postgres_server: Server,
) -> None:
    database = postgres_server.make_database(f"waiting_{secrets.token_hex(4)}")
    with closing(opened(postgres_server.url(a_name(), database=database))) as store:
        let_ten_wait(manager_of(store), postgres_server, database)


def let_ten_wait(manager: LockManager, server: Server, database: str) -> None:
    held = manager.acquire(holder="first", write_paths=["x"])
    assert len(server.backends(database)) == 1
    got: list[str] = []

    def wait(number: int) -> None:
        grant = manager.acquire(holder=f"h{number}", write_paths=["x"], timeout=SOON)
        got.append(grant.id)
        manager.release(grant.id)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    until(lambda: len(manager.queue()) == 10, "all of them wait")
    assert len(server.backends(database)) == 2
    manager.release(held.id)
    for thread in threads:
        thread.join(SOON)
    assert len(set(got)) == 10


def test_a_waiter_whose_connection_was_cut_is_still_served(postgres_server: Server) -> None:
    database = postgres_server.make_database(f"cut_{secrets.token_hex(4)}")
    url = postgres_server.url(a_name(), database=database)
    with closing(opened(url)) as store, closing(opened(url)) as other:
        held = manager_of(other).acquire(holder="first", write_paths=["x"])
        got: list[str] = []
        manager = manager_of(store)
        thread = threading.Thread(
            target=lambda: got.append(
                manager.acquire(holder="next", write_paths=["x"], timeout=SOON).id
            )
        )
        thread.start()
        until(lambda: bool(manager_of(other).queue()), "it waits")
        postgres_server.cut_all(database)
        manager_of(other).release(held.id)
        thread.join(SOON)
        assert len(got) == 1


def test_a_waiter_that_was_killed_elsewhere_loses_its_turn(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process cannot be judged from here; its row is renewed no more."""
    monkeypatch.setattr(listener, "WAITER_SECONDS", 0.5)
    with closing(opened(url)) as other:
        mailbox = other.waiter()
        assert mailbox.address
        with store.view(deadline=monotonic() + SOON) as view:
            assert not view.gave_up(mailbox.address)
        mailbox.discard()
        with store.view(deadline=monotonic() + SOON) as view:
            assert view.gave_up(mailbox.address)


def test_a_follower_hears_of_a_commit_and_not_by_looking(
    store: PostgresStore, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_waits, "FALLBACK_SECONDS", SOON)
    with closing(opened(url)) as other:
        heads: list[int] = []
        thread = threading.Thread(target=lambda: heads.append(other.wait(0, SOON)))
        thread.start()
        until(lambda: is_followed(store), "the other one follows")
        begin = monotonic()
        manager_of(store).acquire(holder="ann", write_paths=["x"])
        thread.join(SOON)
        assert heads == [1]
        assert monotonic() - begin < SOON / 2
        begin = monotonic()
        assert other.wait(1, 0.2) == 1
        assert 0.2 <= monotonic() - begin < SOON / 2
        assert not is_followed(store)


def is_followed(store: PostgresStore) -> bool:
    row = session_of(store).connection.execute(
        "select has_followers from head(%s::integer)", (session_of(store).repository,)
    )
    return bool((row.fetchone() or (False,))[0])


def test_a_store_that_nobody_closed_leaves_neither_thread_nor_connection(
    postgres_server: Server, url: str
) -> None:
    store = opened(url)
    store.waiter().close()
    backend = session_of(store).backend
    assert store._waits._listener is not None
    thread = store._waits._listener._thread
    assert thread.is_alive()
    del store
    gc.collect()
    thread.join(SOON)
    assert not thread.is_alive()
    assert wait_for_end_of(backend, postgres_server)


# Forks


def test_a_child_does_not_touch_the_connections_of_its_parent(store: PostgresStore) -> None:
    manager = manager_of(store)
    store.waiter().close()
    grant = manager.acquire(holder="ann", write_paths=["x"])
    before = session_of(store).backend
    child = os.fork()
    if child == 0:
        code = 1
        try:
            manager.acquire(holder="child", write_paths=["y"])
            store.waiter().close()
            store.close()
            gc.collect()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert manager.verify(grant.id, "x", token=grant.token)
    assert session_of(store).backend == before, "the parent's session went on"
    assert [event.seq for event in store.events()] == [1, 2]


def test_a_daemon_that_closes_every_descriptor_notices_that_an_owner_has_died(
    store: PostgresStore,
) -> None:
    """Owners that are looked at again are watched by a descriptor. A daemon closes it, and another
    file gets its number."""
    manager = manager_of(store)
    owner = subprocess.Popen(["sleep", "1000"])
    try:
        holder = Holder(id="owner", key="owner", witness=witness_of(owner.pid))
        manager.acquire(holder=holder, write_paths=["x"], ttl=None)
        for _ in range(3):
            assert manager.try_acquire(holder="ann", write_paths=["x"]) is None
        child = os.fork()
        if child == 0:
            os._exit(become_daemon(manager, owner.pid))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert manager.try_acquire(holder="ann", write_paths=["y"]) is not None
    finally:
        owner.kill()
        owner.wait()


def test_a_program_that_closes_every_descriptor_goes_on_with_a_connection_of_its_own(
    crowd: Crowd, url: str
) -> None:
    """The numbers belong to other files now, into which nothing may be written."""
    child = crowd.start(CLOSES_EVERYTHING, url)
    assert child.wait_for("granted") == ["True", "True"]
    assert child.wait_for("written") == ["[]"]
    child.done()


CLOSES_EVERYTHING = """
import socket
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
first = manager.try_acquire(holder="ann", write_paths=["x"])
mailbox = manager.store.waiter()
os.closerange(3, 256)
pairs = [socket.socketpair() for _ in range(30)]
second = manager.try_acquire(holder="ann", write_paths=["y"])
say("granted", first is not None, second is not None)
mailbox.discard()
manager.close()
heard = []
for pair in pairs:
    for end in pair:
        end.setblocking(False)
        try:
            heard.append(end.recv(100))
        except BlockingIOError:
            pass
say("written", heard)
"""


def become_daemon(manager: LockManager, owner: int) -> int:
    os.closerange(3, 1024)
    for _ in range(20):
        os.pipe()
    os.kill(owner, signal.SIGKILL)
    end = monotonic() + SOON
    while monotonic() < end:
        if manager.try_acquire(holder="daemon", write_paths=["x"]) is not None:
            return 0
    return 1


def test_a_signal_handler_may_fork_in_the_middle_of_a_decision(store: PostgresStore) -> None:
    manager, children = manager_of(store), []
    code = "unset"

    def decide(view: Any) -> Decision[int]:
        nonlocal code
        child = os.fork()
        if child == 0:
            code = "child"
        else:
            children.append(child)
        view.grants()
        return Decision(view.head)

    try:
        store.transact(decide, deadline=monotonic() + SOON)
    except StoreError as error:
        os._exit(0 if code == "child" and "forked" in error.message else 2)
    if code == "child":
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 0
    manager.acquire(holder="ann", write_paths=["x"])


# Faults of the server


def test_calls_wait_for_a_server_that_is_restarted_and_go_on(tmp_path: Path) -> None:
    with own_server() as server, closing(opened(server.url(a_name()))) as store:
        manager = manager_of(store)
        grant = manager.acquire(holder="ann", write_paths=["x"])
        server.kill()
        begin = monotonic()
        with pytest.raises(StoreError) as caught:
            store.transact(lambda view: Decision(None), deadline=begin + 0.5)
        assert 0.3 < monotonic() - begin < 5
        assert caught.value.code == "E_STORE"
        assert "cannot be reached" in caught.value.message
        assert "start the server" in caught.value.hint
        thread = threading.Thread(target=server.start)
        thread.start()
        assert store.transact(lambda view: Decision(view.head), deadline=monotonic() + SOON) == 1
        thread.join(SOON)
        assert manager.verify(grant.id, "x", token=grant.token)


def test_a_thread_that_waits_for_one_that_cannot_reach_the_server_is_told_so() -> None:
    with own_server() as server, closing(opened(server.url(a_name()))) as store:
        server.stop()
        tries = threading.Thread(target=suppressed(StoreError, store.wait), args=(0, 0.0))
        tries.start()
        until(
            lambda: store.session is None or store.session.is_lost,
            "the other thread cannot connect",
        )
        with pytest.raises(StoreError) as caught:
            store.transact(lambda view: Decision(None), deadline=monotonic() + 0.5)
        assert tries.is_alive()
        assert caught.value.is_away
        assert "the ledger's server cannot be reached" in caught.value.message
        server.start()
        tries.join(SOON)
        assert store.wait(0, 0.0) == 0


def test_a_wait_for_an_event_ends_at_its_first_deadline_without_the_server() -> None:
    with own_server() as server, closing(opened(server.url(a_name()))) as store:
        thread = threading.Timer(0.5, server.stop)
        thread.start()
        begin = monotonic()
        with pytest.raises(StoreError) as caught:
            store.wait(0, 5.0)
        assert caught.value.is_away
        assert monotonic() - begin < 1.5 * server_store.OPEN_SECONDS
        thread.join()


def suppressed(error: type[Exception], call: Callable[..., object]) -> Callable[..., None]:
    """The call, without this error."""

    def made(*words: object) -> None:
        with suppress(error):
            call(*words)

    return made


def test_a_network_that_swallows_everything_ends_at_the_deadline(
    postgres_server: Server,
) -> None:
    name = a_name()
    with (
        Proxy(postgres_server.port) as proxy,
        closing(opened(postgres_server.url(name, port=proxy.port))) as store,
    ):
        manager_of(store).acquire(holder="ann", write_paths=["x"])
        proxy.silence()
        begin = monotonic()
        with pytest.raises(StoreError) as caught:
            store.transact(lambda view: Decision(None), deadline=begin + 0.5)
        assert monotonic() - begin < 5
        assert caught.value.code == "E_STORE"
        proxy.restore()
        assert store.transact(lambda view: Decision(view.head), deadline=monotonic() + SOON) == 1


# Imports


def test_the_driver_is_imported_by_this_store_only(tmp_path: Path) -> None:
    program = (
        "import sys, holdfast\n"
        "from holdfast import LockManager\n"
        f"with LockManager.open('sqlite://{tmp_path}/ledger.db') as manager:\n"
        "    manager.release(manager.acquire(holder='a', write_paths=['x']).id)\n"
        "print([name for name in sys.modules if 'psycopg' in name or '.postgres' in name])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "[]\n"


def test_without_the_driver_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.startswith("holdfast.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError) as caught:
        open_store("postgresql://somewhere/db#name", clock=None, is_dead=is_dead)  # type: ignore[arg-type]
    assert "psycopg" in caught.value.message
    assert "pip install 'holdfast[postgres]'" in caught.value.hint


# Poolers


POOLER = """
[databases]
* = host=127.0.0.1 port={port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
auth_type = scram-sha-256
auth_file = {users}
pool_mode = {mode}
default_pool_size = 4
unix_socket_dir =
logfile = {folder}/log
pidfile = {folder}/pid
"""


@contextmanager
def pooler(server: Server, folder: Path, mode: str) -> Iterator[int]:
    """A PgBouncer in front of a server; its port."""
    from helpers_postgres import free_port, other_user

    program = "/usr/sbin/pgbouncer"
    if not os.path.exists(program):
        pytest.skip("needs PgBouncer: apt-get install pgbouncer")
    port = free_port()
    users = folder / "users"
    users.write_text(f'"{ROLE}" "{server.password}"\n')
    text = POOLER.format(port=server.port, listen=port, users=users, mode=mode, folder=folder)
    (folder / "settings").write_text(text)
    owner = other_user()
    if owner:
        for one in (folder, users, folder / "settings"):
            os.chown(one, owner["user"], owner["group"])
        for parent in folder.parents:
            if str(parent).startswith(("/tmp/", str(Path(os.environ.get("TMPDIR", "/tmp")) / "x"))):
                parent.chmod(parent.stat().st_mode | 0o011)
    process = subprocess.Popen(
        [program, "-q", str(folder / "settings")], cwd="/", stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT, start_new_session=True, **owner,
    )  # fmt: skip
    try:
        until(lambda: "listening on" in read(folder / "log"), "the pooler listens", 30)
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_a_pooler_in_session_mode_is_as_good_as_the_server(
    postgres_server: Server, tmp_path: Path
) -> None:
    with pooler(postgres_server, tmp_path, "session") as port:
        url = postgres_server.url(a_name(), port=port)
        with closing(opened(url)) as one, closing(opened(url)) as two:
            grant = manager_of(one).acquire(holder="ann", write_paths=["x"])
            assert manager_of(two).try_acquire(holder="bob", write_paths=["x"]) is None
            got: list[str] = []
            thread = threading.Thread(
                target=lambda: got.append(
                    manager_of(two).acquire(holder="bob", write_paths=["x"], timeout=SOON).id
                )
            )
            thread.start()
            until(lambda: bool(manager_of(one).queue()), "it waits")
            manager_of(one).release(grant.id)
            thread.join(SOON)
            assert len(got) == 1


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_in_another_mode_is_refused(
    mode: str, postgres_server: Server, tmp_path: Path
) -> None:
    """Each transaction may have another session there, so settings and waits would be lost."""
    with pooler(postgres_server, tmp_path, mode) as port:
        url = postgres_server.url(a_name(), port=port)
        with pytest.raises(StoreError) as caught:
            use_two_in_turn(url)
        assert "pool" in caught.value.message
        assert "session" in caught.value.hint


def use_two_in_turn(url: str) -> None:
    with closing(opened(url)) as one, closing(opened(url)) as two:
        for store in [one, two] * 20:
            store.transact(lambda view: Decision(None), deadline=monotonic() + 5)


def test_a_request_that_joins_the_queue_again_has_its_new_place(url: str) -> None:
    """A repeated request has the id of the one that was cancelled."""
    with manager_of(opened(url)) as manager:
        manager.acquire(holder="a", write_paths=["x"])
        first = manager.request("b", [], ["x"])
        transactions.queue(manager, first)
        assert [ticket.id for ticket in manager.queue()] == [first.id]
        transactions.cancel(manager, first.id, "timeout")
        other = manager.request("c", [], ["x"])
        transactions.queue(manager, other)
        transactions.queue(manager, first)
        line = manager.queue()
        assert [ticket.id for ticket in line] == [other.id, first.id]
        assert line[1].arrival > line[0].arrival
