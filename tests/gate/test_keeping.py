"""The keeper: leases last as long as their client, even where others cannot tell if it lives."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast import Holder, LockManager
from holdfast.core import events
from holdfast.core.draft import Draft
from holdfast.core.model import SECOND, Decision, Grant, Witness, agent_key
from holdfast.gate import client_keeper, side_process
from holdfast.manager import transactions
from holdfast.manager.owners import running_calls
from holdfast.manager.owners.liveness import witness_of

if TYPE_CHECKING:
    from holdfast.core.view import View

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="keepers are for Linux")

KEY = agent_key("claude", "faf2c0de")
OTHER = agent_key("claude", "0ddba11")
SECONDS = 2.0


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.005)


class Bench:
    """A repository, clients and their keepers."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.keepers: list[int] = []
        subprocess.run(["git", "init", "-q", root], check=True)
        self.client = self.new_client()

    def new_client(self) -> Witness:
        return self.started({})

    def started(self, environ: dict[str, str]) -> Witness:
        self.processes.append(subprocess.Popen(["sleep", "120"], env={**os.environ, **environ}))
        found = witness_of(self.processes[-1].pid)
        assert found is not None
        return found

    def kill(self, witness: Witness) -> None:
        (process,) = (one for one in self.processes if one.pid == witness.pid)
        process.kill()
        process.wait()

    def lease(
        self,
        path: str,
        key: str = KEY,
        *,
        seconds: float | None = SECONDS,
        ttl: float | None = None,
        marks: tuple[str, ...] = (),
    ) -> str:
        """A lease of the gate with an expiry, as another process would have set it."""
        with LockManager.open(self.root) as manager:
            owner = Holder(id=key[-8:], key=key, witness=self.client, marks=marks)
            grant = manager.acquire(holder=owner, write_paths=[path], ttl=ttl)

            def end(view: View) -> Decision[None]:
                draft = Draft(view)
                found = view.grant(grant.id)
                assert isinstance(found, Grant)
                ends = None if seconds is None else view.now + round(seconds * SECOND)
                draft.extend(found, expires_at=ends, idle_at=None)
                return draft.done(None)

            if ttl is None:
                transactions.decide(manager, end)
            return str(grant.id)

    def start(self, client: Witness | None = None, seconds: float = SECONDS) -> int:
        pid = client_keeper.start(self.root, KEY, client or self.client, seconds)
        if pid:
            self.keepers.append(pid)
        return pid

    def is_held(self, id: str) -> bool:
        with LockManager.open(self.root) as manager:
            return any(one.id == id for one in manager.active_grants())

    def types(self, id: str) -> list[str]:
        with LockManager.open(self.root) as manager:
            return [
                one.type
                for one in manager.events()
                if id in (one.data.get("grant"), one.data.get("id"))
            ]

    def reaped(self, id: str) -> object:
        """Why a lease was reaped."""
        with LockManager.open(self.root) as manager:
            (event,) = (one for one in manager.events() if one.type == events.LOCK_REAPED)
            assert event.data["grant"] == id
            return event.data["why"]

    def has_ended(self, pid: int) -> bool:
        return witness_of(pid) is None

    def waits(self, pid: int) -> bool:
        """Whether a keeper has only the descriptors open on which it waits."""
        found = set()
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
            except FileNotFoundError:
                continue
        return found == {os.devnull, "anon_inode:[pidfd]"}

    @property
    def files(self) -> list[str]:
        folder = f"{self.root}/{side_process.FOLDER}"
        return os.listdir(folder) if os.path.isdir(folder) else []

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        for pid in self.keepers:
            if witness_of(pid) is not None:
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def test_leases_last_as_long_as_the_client_and_no_longer(bench: Bench) -> None:
    lease, of_a_child = bench.lease("a"), bench.lease("b", f"{KEY}9c1e")
    keeper = bench.start()
    assert keeper
    time.sleep(2.5 * SECONDS)
    assert bench.is_held(lease)
    assert bench.is_held(of_a_child)
    assert 2 <= bench.types(lease).count(events.LOCK_RENEWED) <= 12
    bench.kill(bench.client)
    until(lambda: bench.has_ended(keeper))
    assert bench.files == []
    for id in (lease, of_a_child):
        assert bench.types(id)[-1] == events.LOCK_REAPED


def test_without_a_keeper_they_end_by_time(bench: Bench) -> None:
    lease = bench.lease("a")
    until(lambda: not bench.is_held(lease), 10 * SECONDS)


def test_the_death_of_the_client_is_noticed_at_once(bench: Bench) -> None:
    lease = bench.lease("a", seconds=30)
    keeper = bench.start(seconds=3000)
    until(lambda: bench.types(lease).count(events.LOCK_RENEWED) == 2)
    begun = time.monotonic()
    bench.kill(bench.client)
    until(lambda: bench.has_ended(keeper))
    assert time.monotonic() - begun < 10
    assert bench.reaped(lease) == "owner dead"


def test_a_command_that_is_running_keeps_the_files_of_a_dead_client(bench: Bench) -> None:
    variable = ("TEST_SESSION_ID", f"{os.getpid()}-keeper")
    lease = bench.lease("a", marks=(running_calls.mark(KEY, *variable),))
    running_calls.open_call(bench.root, KEY, "call")
    command = bench.started(dict([variable]))
    keeper = bench.start()
    until(lambda: bench.files)
    bench.kill(bench.client)
    time.sleep(2 * SECONDS)
    assert bench.is_held(lease)
    assert not bench.has_ended(keeper)
    bench.kill(command)
    until(lambda: bench.has_ended(keeper))
    assert bench.types(lease)[-1] == events.LOCK_REAPED


def test_it_ends_when_nothing_is_left_to_keep(bench: Bench) -> None:
    lease, for_life = bench.lease("a"), bench.lease("b", seconds=None)
    keeper = bench.start()
    until(lambda: bench.files)
    with LockManager.open(bench.root) as manager:
        manager.release(lease)
        time.sleep(2 * SECONDS)
        assert not bench.has_ended(keeper), "another process may yet set its expiry"
        manager.release(for_life)
    until(lambda: bench.has_ended(keeper))
    assert bench.files == []


def test_a_lease_with_its_own_duration_is_not_renewed(bench: Bench) -> None:
    timed, other = bench.lease("a", ttl=SECONDS), bench.lease("b", OTHER)
    keeper = bench.start()
    until(lambda: bench.has_ended(keeper))
    assert events.LOCK_RENEWED not in bench.types(timed)
    assert bench.types(other).count(events.LOCK_RENEWED) == 1


def test_a_lease_that_has_ended_stays_ended(bench: Bench) -> None:
    lease = bench.lease("a", seconds=0.01)
    time.sleep(0.05)
    keeper = bench.start()
    until(lambda: bench.has_ended(keeper))
    assert bench.types(lease)[-1] == events.LOCK_REAPED


def test_it_ends_when_the_ledger_is_gone_and_makes_no_new_one(bench: Bench) -> None:
    bench.lease("a")
    keeper = bench.start()
    until(lambda: bench.files and bench.waits(keeper))
    shutil.rmtree(f"{bench.root}/.holdfast")
    until(lambda: bench.has_ended(keeper))
    assert not os.path.lexists(f"{bench.root}/.holdfast")


def test_there_is_one_for_each_session(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.lease("a")
    with monkeypatch.context() as patch:
        patch.setattr(side_process.Place, "is_taken", lambda _: False)  # all start at the same time
        started = [bench.start() for _ in range(5)]
    assert all(started)
    until(lambda: sum(not bench.has_ended(pid) for pid in started) == 1)
    time.sleep(SECONDS)
    (left,) = (pid for pid in started if not bench.has_ended(pid))
    assert bench.start() == 0
    os.kill(left, signal.SIGKILL)
    until(lambda: bench.has_ended(left))
    assert bench.start()


def test_a_session_that_goes_on_in_a_new_process_has_a_new_one(bench: Bench) -> None:
    bench.lease("a")
    first = bench.start()
    until(lambda: bench.files)
    bench.client = bench.new_client()
    bench.lease("b")
    second = bench.start()
    assert second
    until(lambda: bench.has_ended(first))
    time.sleep(SECONDS / 2)
    assert not bench.has_ended(second)


def test_the_sessions_leases_elsewhere_end_with_its_client(bench: Bench) -> None:
    here = bench.client
    bench.client = Witness(host="elsewhere", boot="b", namespace="n", pid=1, start=1)
    elsewhere = bench.lease("a", seconds=None)
    bench.client = here
    bench.lease("b")
    keeper = bench.start()
    until(lambda: bench.files)
    bench.kill(here)
    until(lambda: bench.has_ended(keeper))
    assert bench.is_held(elsewhere), "a keeper here cannot tell"


def test_nothing_is_kept_for_a_client_that_is_gone_or_another(bench: Bench) -> None:
    bench.lease("a")
    gone = bench.new_client()
    bench.kill(gone)
    assert bench.start(gone) == 0
    mistaken = Witness(
        host=gone.host, boot=gone.boot, namespace=gone.namespace,
        pid=bench.client.pid, start=bench.client.start - 1,
    )  # fmt: skip
    assert bench.start(mistaken) == 0
    assert bench.files == []


def test_between_renewals_it_touches_nothing_of_the_repository_or_of_the_hook(
    bench: Bench,
) -> None:
    bench.lease("a", seconds=30)
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        keeper = bench.start(seconds=30)
    finally:
        os.close(writer)
    until(lambda: bench.files and bench.waits(keeper))
    assert os.read(reader, 1) == b""  # a reader of the hook's output does not wait for it
    os.close(reader)
    proc = f"/proc/{keeper}"
    assert os.readlink(f"{proc}/cwd") == "/"
    assert bench.root not in Path(f"{proc}/maps").read_text()
    assert Path(f"{proc}/environ").read_bytes() == b""
    assert os.getsid(keeper) == keeper


CLIENT = """
import os, signal, sys
from holdfast import Holder, LockManager
from holdfast.core.draft import Draft
from holdfast.core.model import SECOND
from holdfast.gate import client_keeper
from holdfast.manager import transactions
from holdfast.manager.owners.liveness import own_witness

root, key, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
with LockManager.open(root) as manager:
    owner = Holder(id="inside", key=key, witness=own_witness())
    grant = manager.acquire(holder=owner, write_paths=["a"], ttl=None)

    def end(view):
        draft = Draft(view)
        ends = view.now + round(seconds * SECOND)
        draft.extend(view.grant(grant.id), expires_at=ends, idle_at=None)
        return draft.done(None)

    transactions.decide(manager, end)
assert client_keeper.start(root, key, own_witness(), seconds)
print(grant.id, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="needs root and unshare, to make a pid namespace",
)
def test_a_client_in_another_pid_namespace_keeps_its_leases_until_it_dies(bench: Bench) -> None:
    inside = subprocess.Popen(
        ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
         '"$@"; sleep 60', "sh", sys.executable, "-c", CLIENT, bench.root, KEY, str(SECONDS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert inside.stdin is not None
    assert inside.stdout is not None
    try:
        lease = inside.stdout.readline().strip()
        if not lease:
            pytest.skip("no pid namespace can be made here")
        time.sleep(2.5 * SECONDS)
        with LockManager.open(bench.root) as manager:
            (owner,) = (one.owner for one in manager.active_grants())
            witness, marks = owner.witness, owner.marks
            assert witness is not None
            assert transactions.look(manager, lambda view: view.dead(witness, marks)) is None
        inside.stdin.write("die\n")
        inside.stdin.flush()
        until(lambda: not bench.is_held(lease))
        assert bench.reaped(lease) == "owner dead"
    finally:
        inside.kill()
        inside.wait()
        inside.stdin.close()
        inside.stdout.close()
