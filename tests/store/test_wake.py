"""A waiter is woken instead of polling; one that is not woken polls in the end.

Times here only distinguish a wake-up from the slow poll once a second. The benchmarks measure how
fast a wake-up is.
"""

from __future__ import annotations

import _socket
import os
import statistics
import threading
import time
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, Auditor, Child, Crowd, until
from holdfast import LockManager
from holdfast.core.model import SECOND
from holdfast.store.sqlite import wake_ups

pytestmark = LINUX_ONLY

ROUNDS = 15
MEDIAN_SECONDS_MAX = 0.1
ONCE_SECONDS_MAX = 0.5
#: A look once a second, on a machine that has other things to do.
FALLBACK_SECONDS_MAX = 8.0

WAITER = """
from holdfast import LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")
say("ready")
while True:
    go()
    grant = manager.acquire(holder="waiter", write_paths=["x"], timeout=60)
    say("granted", time.monotonic())
    go()
    manager.release(grant.id)
    say("released")
"""


def made(root: Path) -> Path:
    (root / ".holdfast").mkdir(parents=True)
    return root


def ready(crowd: Crowd, root: Path) -> Child:
    """A process that waits for `x` on command, and releases it on the next command."""
    waiter = crowd.start(WAITER, root, name="waiter")
    waiter.wait_for("ready")
    return waiter


def sockets(root: Path) -> list[Path]:
    return [path for path in (root / ".holdfast").rglob("*") if path.is_socket()]


def hand_over(manager: LockManager, waiter: Child, root: Path) -> float:
    """Hold, let the other wait, release: how long it took to notice. It releases, too."""
    number = len(waiter.words("granted"))
    grant = manager.try_acquire(holder="first", write_paths=[root / "x"])
    assert grant is not None
    waiter.tell()
    until(manager.queue, "the waiter has a ticket")
    begin = time.monotonic()
    manager.release(grant.id)
    (at,) = waiter.wait_for("granted", number + 1)
    waiter.tell()
    waiter.wait_for("released", number + 1)
    return float(at) - begin


def quick(seconds: list[float]) -> bool:
    slow = [took for took in seconds if took > ONCE_SECONDS_MAX]
    return statistics.median(seconds) < MEDIAN_SECONDS_MAX and len(slow) <= len(seconds) // 10


def test_a_waiter_in_another_process_is_woken_when_its_turn_comes(crowd: Crowd, root: Path) -> None:
    with LockManager.open(root) as manager:
        waiter = ready(crowd, root)
        took = [hand_over(manager, waiter, root) for _ in range(ROUNDS)]
        assert quick(took), took
        Auditor().check(manager)


def test_waiters_are_woken_in_a_repository_whose_path_is_longer_than_a_sockets_can_be(
    crowd: Crowd, tmp_path: Path
) -> None:
    root = made(tmp_path.joinpath(*["a-folder-with-a-rather-long-name-" + "x" * 60] * 4))
    assert len(os.fsencode(root)) > 400
    with LockManager.open(root) as manager:
        waiter = ready(crowd, root)
        took = [hand_over(manager, waiter, root) for _ in range(5)]
        assert quick(took), took
        assert len(sockets(root)) == 1


def test_a_waiter_sleeps_until_it_is_called(crowd: Crowd, root: Path) -> None:
    with LockManager.open(root) as manager:
        manager.try_acquire(holder="first", write_paths=[root / "x"])
        waiter = ready(crowd, root)
        waiter.tell()
        until(manager.queue, "the waiter has a ticket")
        before = switches(waiter.pid)
        begin = time.monotonic()
        until(lambda: time.monotonic() >= begin + 1.5, "some time has passed")
        # Two of the slow looks at most, each of a few steps; twenty a second would be polling.
        assert switches(waiter.pid) - before <= 12


def switches(pid: int) -> int:
    """How often a process went to sleep voluntarily."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    raise AssertionError("the system does not count")


# Lost wake-ups


def test_slow_polling_makes_up_for_a_lost_wake_up(crowd: Crowd, root: Path) -> None:
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="first", write_paths=[root / "x"])
        assert grant is not None
        waiter = ready(crowd, root)
        waiter.tell()
        until(manager.queue, "the waiter has a ticket")
        (socket,) = sockets(root)
        socket.unlink()
        begin = time.monotonic()
        manager.release(grant.id)
        (at,) = waiter.wait_for("granted")
        assert float(at) - begin < FALLBACK_SECONDS_MAX


def test_a_waiter_whose_address_was_deleted_gets_a_new_one_for_its_next_wait(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="first", write_paths=[root / "x"])
        assert grant is not None
        waiter = ready(crowd, root)
        waiter.tell()
        until(manager.queue, "the waiter has a ticket")
        for socket in sockets(root):
            socket.unlink()
        manager.release(grant.id)
        waiter.wait_for("granted")
        waiter.tell()
        waiter.wait_for("released")
        took = [hand_over(manager, waiter, root) for _ in range(3)]
        assert quick(took), took


def test_a_release_before_the_waiter_listens_is_not_missed(crowd: Crowd, root: Path) -> None:
    """The call may come between the ticket and the wait: it must be heard all the same."""
    with LockManager.open(root) as manager:
        waiter = ready(crowd, root)
        took = []
        for number in range(30):
            grant = manager.try_acquire(holder="first", write_paths=[root / "x"])
            assert grant is not None
            waiter.tell()
            while not manager.queue():
                pass  # not a moment later than its ticket
            begin = time.monotonic()
            manager.release(grant.id)
            took.append(float(waiter.wait_for("granted", number + 1)[0]) - begin)
            waiter.tell()
            waiter.wait_for("released", number + 1)
        assert quick(took), took


# The dead

FORKS = """
from holdfast import LockManager
os.chdir(sys.argv[1])
signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def wait(name):
    manager = LockManager.open(".")
    grant = manager.acquire(holder=f"waiter-{name}", write_paths=["x"], timeout=60)
    say("granted", name)
    manager.release(grant.id)
    manager.close()
    os._exit(0)


while True:
    name = go()
    pid = os.fork()
    if not pid:
        wait(name)
    say("born", name, pid)
"""


def test_twenty_waiters_are_served_in_the_order_in_which_they_came(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        first = manager.try_acquire(holder="first", write_paths=[root / "x"])
        assert first is not None
        nursery = crowd.start(FORKS, root)
        for number in range(20):
            nursery.tell(str(number))
            until(lambda n=number: len(manager.queue()) == n + 1, "one more waits")  # type: ignore[misc]
        # A newcomer may be passed by others for a moment; then it has its place for good.
        last = manager.queue()[-1].added_at
        until(lambda: manager.now() > last + SECOND // 2, "the last has its place")
        begin = time.monotonic()
        manager.release(first.id)
        nursery.wait_for("granted", 20)
        assert [int(name) for (name,) in nursery.words("granted")] == list(range(20))
        assert time.monotonic() - begin < 10, "served one look at a time, not by wake-ups"
        until(lambda: not manager.active_grants(), "all have given back")
        assert manager.queue() == []
        until(lambda: not sockets(root), "all have taken their addresses with them")
        Auditor().check(manager)


def test_dead_waiters_delay_no_request_and_their_addresses_are_swept(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        first = manager.try_acquire(holder="first", write_paths=[root / "x"])
        assert first is not None
        dead = [ready(crowd, root) for _ in range(3)]
        for child in dead:
            child.tell()
        until(lambda: len(manager.queue()) == 3, "three wait")
        alive = ready(crowd, root)
        alive.tell()
        until(lambda: len(manager.queue()) == 4, "a fourth waits behind them")
        for child in dead:
            child.kill()
        begin = time.monotonic()
        manager.release(first.id)
        (at,) = alive.wait_for("granted")
        assert float(at) - begin < ONCE_SECONDS_MAX
        assert manager.queue() == []

        manager.store.sweep()  # type: ignore[attr-defined]
        (left,) = sockets(root)
        assert str(alive.pid) in left.name
        assert manager.store.sweep() == 0  # type: ignore[attr-defined]
        assert left.exists(), "one who lives lost its address"


def test_waiting_requests_notice_that_a_holder_died(crowd: Crowd, root: Path) -> None:
    """No process wakes them: the slow poll notices it."""
    holder = ready(crowd, root)
    holder.tell()
    holder.wait_for("granted")
    with LockManager.open(root) as manager:
        waiter = ready(crowd, root)
        waiter.tell()
        until(manager.queue, "the waiter has a ticket")
        holder.kill()
        begin = time.monotonic()
        (at,) = waiter.wait_for("granted")
        assert float(at) - begin < FALLBACK_SECONDS_MAX


def test_an_expired_lease_is_noticed_when_it_ends_not_a_second_later(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        waiter = ready(crowd, root)
        grant = manager.try_acquire(holder="first", write_paths=[root / "x"], ttl=1.3)
        assert grant is not None
        end = time.monotonic() + 1.3
        waiter.tell()
        (at,) = waiter.wait_for("granted")
        assert -0.1 < float(at) - end < ONCE_SECONDS_MAX


# Following

FOLLOWER = """
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
head = manager.store.wait(0, 0)
while True:
    say("head", head, time.monotonic())
    head = manager.store.wait(head, 30)
"""


def test_a_follower_of_the_ledger_sees_every_change(crowd: Crowd, root: Path) -> None:
    with LockManager.open(root) as manager:
        follower = crowd.start(FOLLOWER, root)
        follower.wait_for("head 0")
        until(lambda: sockets(root), "the follower listens")
        took = []
        for number in range(1, 11):
            begin = time.monotonic()
            manager.try_acquire(holder="a", write_paths=[root / f"file-{number}"])
            (at,) = follower.wait_for(f"head {number}")
            took.append(float(at) - begin)
        assert quick(took), took


def test_following_ends_at_its_time_with_the_head_that_is_there(root: Path) -> None:
    with LockManager.open(root) as manager:
        manager.try_acquire(holder="a", write_paths=[root / "x"])
        begin = time.monotonic()
        assert manager.store.wait(1, 0.2) == 1
        assert 0.15 < time.monotonic() - begin < 5
        assert manager.store.wait(0, 30) == 1, "there is something already: no wait"
        assert manager.store.wait(1, 0) == 1
        first = sockets(root)
        assert len(first) == 1, "whoever waits once will wait again: the address is kept"
        assert manager.store.wait(1, 0.05) == 1
        assert sockets(root) == first
    assert sockets(root) == []


def test_two_threads_that_call_for_the_first_time_leave_one_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[_socket.socket] = []
    together, real = threading.Barrier(2, timeout=60), wake_ups._socket

    def slow() -> object:
        one = real()
        assert one is not None
        made.append(one)
        together.wait()
        return one

    monkeypatch.setattr(wake_ups, "_socket", slow)
    post = wake_ups.Post(str(tmp_path))
    callers = [threading.Thread(target=post.send, args=(("nobody",),)) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert sorted(one.fileno() >= 0 for one in made) == [False, True]
    post.close()
    assert [one.fileno() for one in made] == [-1, -1]
