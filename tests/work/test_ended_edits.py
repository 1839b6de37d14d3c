"""Half-done edits of work whose locks ended by time, because its host was gone: nobody in the same
checkout gets them, and nobody's later work is overwritten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import Any

import pytest

from helpers_postgres import Server
from helpers_processes import LINUX_ONLY, until
from holdfast import Holder, LockManager
from holdfast.core import bulk_rules, rules
from holdfast.core.errors import StoreBusyError
from holdfast.core.model import SECOND, Grant, Refusal, Witness
from holdfast.gate import client_keeper
from holdfast.gate.broker.calls.waiting_calls import WaitLine
from holdfast.gate.broker.leasing.leased_files import MustWait
from holdfast.manager import transactions
from holdfast.manager.clock import FakeClock
from holdfast.manager.files import file_restore
from holdfast.manager.files.keepsakes import Keepsake, marked
from holdfast.manager.files.paths import Tree
from holdfast.manager.owners.liveness import own_witness, witness_of
from holdfast.store.memory import MemoryStore
from holdfast.testing.conformance import Processes
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.orphan_cleanup import settled
from holdfast.work.engine.work_items import LockRequest
from holdfast.work.launching.run_folders import Run

pytestmark = LINUX_ONLY

LEASE = 120


class Host:
    """A checkout with two files, on a ledger that hosts share. `there` is another host's manager,
    with a checkout of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "here"
        (self.root / "app").mkdir(parents=True)
        for name in ("x.rb", "y.rb"):
            (self.root / "app" / name).write_text("old\n")
        (folder / "there").mkdir()
        self.clock, self.processes = FakeClock(), Processes()
        self.store = MemoryStore(
            clock=self.clock, is_dead=self.processes.is_dead, lease=LEASE * SECOND
        )
        self.here = LockManager(self.store, tree=Tree(str(self.root)), clock=self.clock)
        self.there = LockManager(self.store, tree=Tree(str(folder / "there")), clock=self.clock)

    def holder(self, name: str, witness: Witness | None = None) -> Holder:
        return Holder(id=name, key=f"{name}@1", witness=witness or self.processes.start())

    def half_done(
        self, *paths: str, name: str = "task-1", witness: Witness | None = None
    ) -> Keepsake:
        """A task leases files, keeps them and has written half of each when its host crashes."""
        keepsake = Keepsake(str(self.root), name)
        os.makedirs(keepsake.folder, exist_ok=True)
        keepsake.begin()
        owner = marked(self.holder(name, witness))
        for path in paths or ("app/x.rb", "app/y.rb"):
            grant = self.here.ask(owner, [], [path], ttl=None)
            assert not isinstance(grant, Refusal)
            keepsake.add(f"{self.root}/{path}", self.here.place(path).key)
            (self.root / path).write_text("half\n")
        return keepsake

    def lose(self) -> None:
        """Nobody renews a lease for longer than it lasts."""
        self.here.close = lambda: None  # type: ignore[method-assign]
        self.clock.advance(LEASE + 1)

    def text(self, name: str = "x.rb") -> str:
        return (self.root / "app" / name).read_text()

    def not_restored(self) -> list[Any]:
        return [
            (event.data["holder"], event.data["paths"])
            for event in self.store.events() if event.type == "edits_not_restored"
        ]  # fmt: skip


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


ASKING: dict[str, Callable[[LockManager, Holder], Any]] = {
    "try_acquire": lambda m, one: m.try_acquire(holder=one, write_paths=["app/x.rb"]),
    "ask": lambda m, one: m.ask(one, [], ["app/x.rb"]),
    "to read": lambda m, one: m.ask(one, ["app/x.rb"]),
    "a folder": lambda m, one: m.ask(one, ["app/"]),
    "acquire": lambda m, one: m.acquire(holder=one, write_paths=["app/x.rb"], timeout=5),
    "ensure": lambda m, one: m.ensure(holder=one, write_paths=["app/x.rb"]),
    "queue": lambda m, one: transactions.queue(m, m.request(one, [], ["app/x.rb"])),
    "a service": lambda m, one: transactions.decide(
        m, lambda view: bulk_rules.take_free(view, [m.request(one, [], ["app/x.rb"])])
    ),
    "store": lambda m, one: m.store.transact(
        lambda view: rules.acquire(view, m.request(one, [], ["app/x.rb"]), wait=False),
        deadline=monotonic() + 5,
    ),
}


@pytest.mark.parametrize("way", ASKING)
@pytest.mark.parametrize("reaped", [False, True], ids=["not reaped", "reaped"])
def test_whoever_asks_in_the_checkout_gets_the_files_as_they_were(
    host: Host, way: str, reaped: bool
) -> None:
    keepsake = host.half_done()
    host.lose()
    if reaped:
        assert host.there.reap()
    asked = ASKING[way](host.here, host.holder("agent"))
    if way == "a service" and not reaped:  # it takes only what is free
        assert asked == []
        return
    assert asked
    assert not isinstance(asked, Refusal)
    assert (host.text(), host.text("y.rb")) == ("old\n", "old\n")
    assert not keepsake.is_there
    assert [one.holder for one in host.here.active_grants()] == ["agent"]
    assert host.not_restored() == []


def test_a_lease_that_still_lasts_is_not_touched(host: Host) -> None:
    keepsake = host.half_done()
    host.clock.advance(LEASE - 1)
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb"]) is None
    assert keepsake.is_there
    assert host.text() == "half\n"


def test_a_request_for_other_files_restores_nothing(host: Host) -> None:
    keepsake = host.half_done()
    host.lose()
    assert host.here.try_acquire(holder="agent", write_paths=["app/z.rb"])
    assert keepsake.is_there
    assert host.text() == "half\n"


def test_what_another_holder_had_after_the_end_is_left_alone_and_reported(host: Host) -> None:
    keepsake = host.half_done()
    host.lose()
    other = host.there.try_acquire(holder=host.holder("b"), write_paths=["app/x.rb"])
    assert other
    (host.root / "app/x.rb").write_text("later work\n")
    assert host.there.release(other.id)
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb", "app/y.rb"])
    assert (host.text(), host.text("y.rb")) == ("later work\n", "old\n")
    assert host.not_restored() == [("task-1", ["app/x.rb"])]
    assert not keepsake.is_there
    assert Path(keepsake.folder, "not-restored").exists()
    assert [one.read_text() for one in Path(keepsake.folder, "before").iterdir()] == ["old\n"] * 2


def test_what_another_holder_has_now_is_left_alone(host: Host) -> None:
    host.half_done()
    host.lose()
    assert host.there.try_acquire(holder=host.holder("b"), write_paths=["app/x.rb"])
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb"]) is None
    assert host.here.try_acquire(holder="agent", write_paths=["app/y.rb"])
    assert (host.text(), host.text("y.rb")) == ("half\n", "old\n")
    assert host.not_restored() == [("task-1", ["app/x.rb"])]


def test_what_another_holder_only_read_is_restored(host: Host) -> None:
    host.half_done()
    host.lose()
    other = host.there.try_acquire(holder=host.holder("b"), read_paths=["app/x.rb"])
    assert other
    host.there.release(other.id)
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb"])
    assert host.text() == "old\n"


@pytest.mark.parametrize("how", ["released", "forced"])
def test_files_that_were_given_away_stay_as_they_are(host: Host, how: str) -> None:
    host.half_done()
    (grant,) = [one for one in host.here.active_grants() if one.write_paths == ("app/x.rb",)]
    if how == "released":
        host.here.release(grant.id)
    else:
        host.here.force(grant.id, by="a person", reason="mine")
    host.lose()
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb"])
    assert (host.text(), host.text("y.rb")) == ("half\n", "old\n")
    assert host.not_restored() == []


def test_a_task_that_ends_hands_its_files_on_as_they_are(host: Host) -> None:
    """Its keepsake is removed after that, by the process that has it for itself meanwhile."""
    keepsake = host.half_done("app/x.rb")
    request = host.here.request("agent", [], ["app/x.rb"])
    transactions.queue(host.here, request)
    host.clock.advance(1)
    (grant,) = host.here.active_grants()
    begun = monotonic()
    with keepsake.alone():
        transactions.release_each(host.here, [grant.id])
    assert [one.holder for one in host.here.active_grants()] == ["agent"]
    assert monotonic() - begun < 5
    assert (host.text(), keepsake.is_there) == ("half\n", True)


def test_a_process_that_lives_is_not_undone_under_its_hands(host: Host) -> None:
    """It was stopped for longer than its lease, or cut off, and may go on writing."""
    host.half_done(witness=own_witness())
    host.lose()
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb"])
    assert host.text() == "half\n"


def test_nobody_gets_a_file_while_it_is_restored(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.half_done()
    host.lose()
    met: list[Any] = []
    real = file_restore.Copies.put_back

    def slow(self: Any, *words: Any) -> bool:
        met.append(host.there.try_acquire(holder=host.holder("b"), write_paths=["app/x.rb"]))
        return real(self, *words)

    monkeypatch.setattr(file_restore.Copies, "put_back", slow)
    assert host.here.try_acquire(holder="agent", write_paths=["app/y.rb"])
    assert set(met) == {None}
    assert host.text() == "old\n"
    assert host.there.try_acquire(holder=host.holder("b"), write_paths=["app/x.rb"])


def test_files_that_cannot_be_restored_stay_held_and_are_tried_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    keepsake = host.half_done()
    host.lose()

    def fail(*_: Any) -> bool:
        raise OSError(28, "no space left")

    with monkeypatch.context() as broken:
        broken.setattr(file_restore.Copies, "put_back", fail)
        assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb"]) is None
        assert host.there.try_acquire(holder="b", write_paths=["app/y.rb"]) is None
    assert keepsake.is_there
    host.clock.advance(LEASE + 1)
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb"])
    assert host.text() == "old\n"


def test_a_waiter_here_that_another_host_serves_restores_before_it_goes_on(host: Host) -> None:
    host.half_done()
    read: list[str] = []

    def wait() -> None:
        with host.here.hold(holder="agent", write_paths=["app/x.rb"], timeout=20):
            read.append(host.text())

    waiter = Thread(target=wait)
    waiter.start()
    until(lambda: bool(host.there.queue()), "it waits")
    host.lose()
    host.there.reap()
    waiter.join()
    assert read == ["old\n"]


def test_while_another_process_restores_nobody_gets_the_files(host: Host) -> None:
    keepsake = host.half_done()
    host.lose()
    with ThreadPoolExecutor(1) as other, keepsake.alone():
        request = host.here.request(host.holder("agent"), [], ["app/x.rb"])
        asked = other.submit(
            host.here.store.transact,
            lambda view: rules.acquire(view, request, wait=False),
            deadline=monotonic() + 0.2,
        )
        with pytest.raises(StoreBusyError):
            asked.result()
    assert list(host.here.active_grants()) == []
    assert host.text() == "half\n"


def test_two_tasks_of_one_checkout_are_both_undone(host: Host) -> None:
    host.half_done("app/x.rb")
    host.half_done("app/y.rb", name="task-2")
    host.lose()
    assert host.here.try_acquire(holder="agent", write_paths=["app/x.rb", "app/y.rb"])
    assert (host.text(), host.text("y.rb")) == ("old\n", "old\n")


# The dispatcher that comes back


@pytest.mark.parametrize("reaped", [False, True], ids=["not reaped", "reaped"])
@pytest.mark.parametrize("taken", [False, True], ids=["free", "another holder had it"])
def test_a_resumed_dispatcher_undoes_what_nobody_else_had(
    host: Host, monkeypatch: pytest.MonkeyPatch, reaped: bool, taken: bool
) -> None:
    monkeypatch.setattr(client_keeper, "start", lambda *_: 1)
    items = ItemStore(host.here)
    item = items.enqueue("w", "apply", LockRequest((), ("app/x.rb", "app/y.rb")))
    launcher = marked(Holder(id=item.id, key=f"{item.id}@1", witness=host.processes.start()))
    claimed = items.claim(item, launcher)
    assert isinstance(claimed, tuple)
    Run(str(host.root), item.id).keep(item.lock_request.write_paths)
    for name in ("x.rb", "y.rb"):
        (host.root / "app" / name).write_text("half\n")
    host.lose()
    if reaped:
        host.there.reap()
    if taken:
        other = host.there.try_acquire(holder=host.holder("b"), write_paths=["app/x.rb"])
        assert other
        (host.root / "app/x.rb").write_text("later work\n")
        host.there.release(other.id)

    def undo(item: Any) -> None:
        run = Run(str(host.root), item.id, lambda: items.is_current(item))
        run.put_back(host.here)

    done = settled(items, claimed[0], None, undo)
    assert done is not None
    assert host.text() == ("later work\n" if taken else "old\n")
    assert host.text("y.rb") == "old\n"
    assert items.retry(done, "its host was gone") is not None
    assert list(host.here.active_grants()) == []


def test_a_call_of_a_command_that_another_host_serves_goes_on_with_the_file_as_it_was(
    host: Host,
) -> None:
    host.half_done("app/x.rb")
    read: list[str] = []

    class Leases:
        def waited(self, _awaited: MustWait, _grant: Grant, _status: os.stat_result | None) -> None:
            read.append(host.text())

    leases: Any = Leases()
    line = WaitLine(host.here, leases, 60, lambda _: True, lambda _: None, lambda *_: None)
    request = host.here.request("command", [], ["app/x.rb"], None)
    line.stand((1, 1, 1, ()), MustWait(request, f"{host.root}/app/x.rb", None))
    assert host.there.queue()
    host.lose()
    assert host.there.reap()

    def goes_on() -> bool:
        line.look_if_due()
        return bool(read)

    until(goes_on, "the call goes on")
    assert read == ["old\n"]


def test_an_item_in_line_that_another_host_serves_begins_with_the_files_as_they_were(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_keeper, "start", lambda *_: 1)
    host.half_done("app/x.rb")
    items = ItemStore(host.here)
    item = items.enqueue("w", "apply", LockRequest((), ("app/x.rb",)))
    launcher = marked(Holder(id=item.id, key=f"{item.id}@1", witness=host.processes.start()))
    waiting = items.escalate(item, launcher)
    assert waiting is not None
    assert waiting.ticket
    host.lose()
    assert host.there.reap()
    assert isinstance(items.claim(waiting, launcher), tuple)
    assert host.text() == "old\n"


# On a real server


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    root = tmp_path / "clone"
    (root / "app").mkdir(parents=True)
    (root / "app/x.rb").write_text("old\n")
    return root


def test_on_a_server_an_agent_on_the_host_that_came_back_gets_the_file_as_it_was(
    postgres_server: Server, clone: Path
) -> None:
    pytest.importorskip("psycopg")
    from holdfast.manager.files.unfinished_edits import dead_in
    from holdfast.store.postgres.server_store import PostgresStore

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    me = witness_of(child.pid)
    assert me is not None
    before = Witness(
        host=me.host, boot="before", namespace=me.namespace, pid=me.pid, start=me.start
    )
    child.send_signal(signal.SIGKILL)
    child.wait()
    url = postgres_server.url("ended-edits")
    store = PostgresStore(url, is_dead=dead_in(str(clone), is_shared=True), lease_seconds=1)
    with LockManager(store, tree=Tree(str(clone))) as manager:
        owner = marked(Holder(id="task-1", key="task-1@1", witness=before))
        keepsake = Keepsake(str(clone), "task-1")
        os.makedirs(keepsake.folder)
        keepsake.begin()
        request = manager.request(owner, [], ["app/x.rb"], None)
        granted = transactions.decide(
            manager, lambda view: rules.acquire(view, request, wait=False)
        )
        assert isinstance(granted, Grant)
        keepsake.add(f"{clone}/app/x.rb", "app/x.rb")
        (clone / "app/x.rb").write_text("half\n")
        assert manager.try_acquire(holder="agent", write_paths=["app/x.rb"]) is None
        sleep(1.2)
        assert manager.try_acquire(holder="agent", write_paths=["app/x.rb"])
        assert (clone / "app/x.rb").read_text() == "old\n"
        assert not keepsake.is_there
