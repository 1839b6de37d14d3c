"""Forks, threads, signals and several managers: one ledger, and each holder keeps its identity.

Tests that fork do so in a child process, because a test runner with threads must not fork.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, Auditor, Crowd, state_of, until
from holdfast import (
    FencingError,
    LockExpiredError,
    LockManager,
    LockNotHeldError,
    LockTimeoutError,
    StoreBusyError,
)
from holdfast.core import rules
from holdfast.core.model import SECOND, Grant

pytestmark = LINUX_ONLY

THREADS = 16
#: Each needs a new process; the first few are enough.
INTERRUPTS_LISTED_MAX = 5


# Fork

FORKED = """
from holdfast import LockManager, LockNotHeldError
os.chdir(sys.argv[1])
manager = LockManager.open(".")
grant = manager.try_acquire(holder="agent-1", write_paths=["x"])
pid = os.fork()
if not pid:
    say("child", manager.try_acquire(holder="agent-1", write_paths=["x"]))
    for use in (
        lambda: manager.release(grant.id, holder="agent-1"),
        lambda: manager.renew(grant.id, holder="agent-1"),
        lambda: manager.renew(grant.id),
    ):
        try:
            use()
            say("allowed")
        except LockNotHeldError as error:
            say("refused", error.code)
    mine = manager.try_acquire(holder="agent-1", write_paths=["y"])
    say("child-token", mine.token)
    with manager.fenced(mine):
        pass
    go()
    sys.exit()  # with all that an interpreter does at its end
os.waitpid(pid, 0)
say("parent-still", bool(manager.verify(grant.id, "x", token=grant.token)))
later = manager.try_acquire(holder="agent-1", write_paths=["y"])
say("parent-later", later.token, later.id)
say("over")
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_forked_child_is_another_holder_and_both_go_on(crowd: Crowd, root: Path) -> None:
    child = crowd.start(FORKED, root)
    child.wait_for("child-token")
    with LockManager.open(root) as manager:
        assert len(manager.active_grants()) == 2
    child.tell()
    child.wait_for("over")
    assert child.words("child") == [["None"]]
    assert child.words("refused") == [["E_LOCK_NOT_HELD"]] * 3, child.story()
    assert not child.words("allowed")
    assert child.words("parent-still") == [["True"]]
    token, id = child.words("parent-later")[0]
    assert int(token) > int(child.words("child-token")[0][0])
    # The child closed its inherited files; the parent's later commits are there for others.
    with LockManager.open(root) as manager:
        assert id in [grant.id for grant in manager.active_grants()]
        assert manager.try_acquire(holder="agent-1", write_paths=[root / "x"]) is None
        Auditor().check(manager)


POOL = """
import multiprocessing
from holdfast import LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")


def work(name):
    for _ in range(25):
        with manager.hold(write_paths=["counter"], timeout=60):
            with open("counter") as file:
                count = int(file.read())
            with open("counter", "w") as file:
                file.write(str(count + 1))


if __name__ == "__main__":
    with open("counter", "w") as file:
        file.write("0")
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=work, args=(name,)) for name in range(4)]
    for worker in workers:
        worker.start()
    work("parent")
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    say("count", open("counter").read())
    assert manager.active_grants() == []
    assert manager.queue() == []
"""


def test_workers_of_multiprocessing_share_a_manager_that_was_opened_before(
    crowd: Crowd, root: Path
) -> None:
    child = crowd.start(POOL, root).done()
    assert child.words("count") == [["125"]]
    with LockManager.open(root) as manager:
        Auditor().check(manager)


FORKED_IN_THE_GATE = """
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
grant = manager.try_acquire(holder="parent", write_paths=[f"{sys.argv[1]}/x"])
with manager.fenced(grant):
    pid = os.fork()
    if not pid:
        say("child", os.getpid())
        time.sleep(60)
        os._exit(0)
    say("forked")
    signal.pause()
"""


def test_a_parent_that_dies_in_the_gate_leaves_it_open_though_its_child_lives(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        parent = crowd.start(FORKED_IN_THE_GATE, root)
        pid = int(parent.wait_for("child")[0])
        parent.wait_for("forked")
        with pytest.raises(StoreBusyError):
            transact_within(manager, root, 0.1)
        parent.kill()
        assert state_of(pid) != "Z"
        begin = time.monotonic()
        assert isinstance(transact_within(manager, root, 5), Grant)
        assert time.monotonic() - begin < 2
        assert manager.try_acquire(holder="next", write_paths=[root / "x"]) is not None
        assert state_of(pid) != "Z"


def transact_within(manager: LockManager, root: Path, seconds: float) -> object:
    request = manager.request("next", (), [root / "elsewhere"])
    return manager.store.transact(
        lambda view: rules.acquire(view, request, wait=False), deadline=time.monotonic() + seconds
    )


LEAVES_THE_GATE_OF_ITS_PARENT = """
from holdfast import LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")
grant = manager.try_acquire(holder="parent", write_paths=["x"])
with manager.fenced(grant):
    pid = os.fork()
    if pid:
        say("inside")
        go()
if pid:
    assert manager.verify(grant.id, token=grant.token)
    say("parent")
else:
    say("left")
    assert manager.try_acquire(holder="child", write_paths=["y"]) is not None
    say("child")
    sys.exit()
assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_child_that_leaves_its_parents_section_does_not_open_the_gate(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        parent = crowd.start(LEAVES_THE_GATE_OF_ITS_PARENT, root)
        parent.wait_for("inside")
        parent.wait_for("left", seconds=10)
        with pytest.raises(StoreBusyError):
            transact_within(manager, root, 0.2)
        parent.tell()
        parent.done()
        assert parent.words("child"), parent.story()
        assert parent.words("parent"), parent.story()


FORKS_BESIDE_A_THREAD = """
import threading
from holdfast import LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")
over = threading.Event()


def busy():
    while not over.is_set():
        grant = manager.try_acquire(holder="thread", write_paths=["x"])
        manager.release(grant.id)


thread = threading.Thread(target=busy)
thread.start()
for number in range(40):
    pid = os.fork()
    if not pid:
        begin = time.monotonic()
        try:
            manager.try_acquire(holder="child", write_paths=[f"y-{number}"])
            os._exit(0 if time.monotonic() - begin < 5 else 2)
        except BaseException as error:
            say("error", error)
            os._exit(1)
    status = os.waitpid(pid, 0)[1]
    if status:
        say("failed", number, status)
        break
over.set()
thread.join()
say("over")
os._exit(0)
"""


def test_a_fork_while_another_thread_uses_the_ledger_leaves_the_child_a_ledger_to_use(
    crowd: Crowd, root: Path
) -> None:
    child = crowd.start(FORKS_BESIDE_A_THREAD, root).done()
    assert not child.words("failed"), child.story()
    with LockManager.open(root) as manager:
        Auditor().check(manager)


DESCRIPTORS = """
import subprocess
from holdfast import LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")
grant = manager.try_acquire(holder="a", write_paths=["x"])
waiter = manager.acquire(holder="a", write_paths=["x"], timeout=1)
manager.store.wait(1000, 0.01)
mailbox = manager.store.waiter()
with manager.hold(write_paths=["y"], ttl=5), manager.fenced(grant):
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
            if int(name) > 2 and os.get_inheritable(int(name)):
                say("inheritable", name, target)
        except OSError:
            continue
        if "holdfast" in target or "socket" in target:
            say("open", name, target)
    seen = subprocess.run(
        ["ls", "-l", "/proc/self/fd/"], close_fds=False, capture_output=True, text=True
    ).stdout
    assert "/proc" in seen
    if ".holdfast" in seen:
        say("leaked", seen)
say("over")
"""


def test_no_descriptor_is_passed_on_to_other_programs(crowd: Crowd, tmp_path: Path) -> None:
    root = tmp_path / ("long-" * 20) / "repo"  # so long that the wake-up needs a descriptor more
    (root / ".holdfast").mkdir(parents=True)
    child = crowd.start(DESCRIPTORS, root).done()
    names = " ".join(" ".join(words) for words in child.words("open"))
    assert "ledger.db" in names, child.story()
    assert "gate" in names
    assert "socket" in names
    assert not child.words("inheritable"), child.story()
    assert not child.words("leaked"), child.story()


# Names

HOLDS = """
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
grant = manager.try_acquire(holder="agent-1", write_paths=[f"{sys.argv[1]}/x"])
say("granted", grant is not None)
go()
manager.release(grant.id)
say("released")
go()
"""


def test_two_processes_that_call_themselves_the_same_exclude_each_other(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        child = crowd.start(HOLDS, root)
        assert child.wait_for("granted") == ["True"]
        (held,) = manager.active_grants()
        assert held.holder == "agent-1"
        assert manager.try_acquire(holder="agent-1", write_paths=[root / "x"]) is None
        with pytest.raises(LockNotHeldError):
            manager.release(held.id, holder="agent-1")
        with pytest.raises(LockNotHeldError):
            manager.renew(held.id, holder="agent-1")
        with pytest.raises(LockNotHeldError):
            manager.renew(held.id)
        child.tell()
        child.wait_for("released")
        assert manager.try_acquire(holder="agent-1", write_paths=[root / "x"]) is not None


# Threads


def count_up(file: Path) -> None:
    count = int(file.read_text())
    file.write_text(str(count + 1))


def run_all(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_sixteen_threads_on_one_manager_exclude_each_other(root: Path) -> None:
    file = root / "counter"
    file.write_text("0")
    troubles: list[BaseException] = []

    def work(name: int) -> None:
        dice = random.Random(name)
        try:
            for _ in range(15):
                grant = manager.acquire(
                    holder=f"thread-{name}",
                    write_paths=[file],
                    read_paths=[root / f"read-{dice.randrange(3)}"],
                    timeout=60,
                )
                count_up(file)
                if dice.random() < 0.3:
                    manager.renew(grant.id)
                if dice.random() < 0.3:
                    assert manager.active_grants()
                    list(manager.events(limit=5))
                with manager.fenced(grant):
                    pass
                assert manager.release(grant.id, holder=f"thread-{name}")
        except BaseException as trouble:
            troubles.append(trouble)

    with LockManager.open(root) as manager:
        run_all([threading.Thread(target=work, args=(name,)) for name in range(THREADS)])
        assert troubles == []
        assert file.read_text() == str(THREADS * 15)
        assert manager.active_grants() == []
        assert manager.queue() == []
        Auditor().check(manager)


def test_threads_of_one_holder_do_not_refuse_each_other(root: Path) -> None:
    outcomes: list[object] = []

    def work() -> None:
        for _ in range(10):
            outcomes.append(manager.try_acquire(holder="same", write_paths=[root / "x"]))

    with LockManager.open(root) as manager:
        run_all([threading.Thread(target=work) for _ in range(4)])
        assert len(outcomes) == 40
        assert None not in outcomes
        assert len(manager.active_grants()) == 40


def test_a_thread_inside_the_fence_keeps_the_others_out_until_their_deadline(root: Path) -> None:
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="a", write_paths=[root / "x"])
        assert grant is not None
        inside, leave = threading.Event(), threading.Event()

        def stay() -> None:
            with manager.fenced(grant):
                inside.set()
                leave.wait(30)

        thread = threading.Thread(target=stay)
        thread.start()
        try:
            assert inside.wait(10)
            begin = time.monotonic()
            with pytest.raises(StoreBusyError) as caught:
                transact_within(manager, root, 0.2)
            assert time.monotonic() - begin < 3
            assert "thread" in caught.value.message
        finally:
            leave.set()
            thread.join()
        assert isinstance(transact_within(manager, root, 5), Grant)


def test_the_ledger_used_from_within_the_fence_is_refused_not_deadlocked(root: Path) -> None:
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="a", write_paths=[root / "x"])
        assert grant is not None
        with manager.fenced(grant):
            begin = time.monotonic()
            with pytest.raises(StoreBusyError, match="fenced section"):
                manager.release(grant.id)
            with pytest.raises(StoreBusyError, match="fenced section"):
                manager.active_grants()
            assert time.monotonic() - begin < 1
        assert manager.release(grant.id)


# Two managers


def test_two_managers_of_one_process_share_its_holders_and_exclude_others(root: Path) -> None:
    with LockManager.open(root) as one, LockManager.open(root) as two:
        grant = one.try_acquire(holder="a", write_paths=[root / "x"])
        assert grant is not None
        assert two.try_acquire(holder="b", write_paths=[root / "x"]) is None
        same = two.try_acquire(holder="a", write_paths=[root / "x"])
        assert same is not None
        assert same.token > grant.token
        assert two.renew(grant.id, holder="a").id == grant.id
        with one.fenced(grant), pytest.raises(StoreBusyError) as caught:
            transact_within(two, root, 0.2)
        assert caught.value.fields["pid"] == os.getpid()
        assert two.release(grant.id, holder="a")
        assert two.release(same.id, holder="a")
        assert one.active_grants() == []


def test_closing_one_manager_takes_nothing_from_the_other(crowd: Crowd, root: Path) -> None:
    one, two = LockManager.open(root), LockManager.open(root)
    grant = two.try_acquire(holder="a", write_paths=[root / "x"])
    assert grant is not None
    one.close()
    # The files' own locks belong to the process: closing one connection must not drop the other's.
    other = crowd.start(HOLDS, root)
    assert other.wait_for("granted") == ["False"]
    assert two.verify(grant.id, root / "x", token=grant.token)
    for _ in range(20):
        more = two.try_acquire(holder="a", write_paths=[root / "y"])
        assert more is not None
        two.release(more.id)
    with LockManager.open(root) as three:
        Auditor().check(three)
        assert [held.id for held in three.active_grants()] == [grant.id]
    two.close()


def test_threads_on_two_managers_exclude_each_other(root: Path) -> None:
    file = root / "counter"
    file.write_text("0")

    def work(manager: LockManager, name: str) -> None:
        for _ in range(25):
            with manager.hold(holder=name, write_paths=[file], timeout=60):
                count_up(file)

    with LockManager.open(root) as one, LockManager.open(root) as two:
        run_all(
            [
                threading.Thread(target=work, args=(manager, f"{name}-{number}"))
                for name, manager in (("one", one), ("two", two))
                for number in range(2)
            ]
        )
        assert file.read_text() == "100"
        assert one.active_grants() == []
        assert two.queue() == []


# Interrupts

INTERRUPTED = """
from holdfast import LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")
number = 0
while True:
    try:
        say("waiting", number)
        manager.acquire(holder="impatient", write_paths=["x", "y"], timeout=60)
        say("granted", number)
    except KeyboardInterrupt:
        say("interrupted", number)
    go()
    number += 1
"""


def test_an_interrupt_in_the_middle_of_a_wait_leaves_neither_ticket_nor_grant(
    crowd: Crowd, root: Path
) -> None:
    dice = random.Random(5)
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="first", write_paths=[root / "x"])
        assert grant is not None
        child = crowd.start(INTERRUPTED, root)
        for number in range(40):
            child.wait_for(f"waiting {number}")
            # From the making of the ticket on, at any moment.
            if number % 2:
                until(manager.queue, "it has a ticket")
            time.sleep(dice.uniform(0, 0.004))
            os.kill(child.pid, signal.SIGINT)
            child.wait_for(f"interrupted {number}")
            assert manager.queue() == [], f"a ticket is left in round {number}"
            assert [held.id for held in manager.active_grants()] == [grant.id]
            child.tell()
        assert not child.words("granted")
        Auditor().check(manager)


# Raises KeyboardInterrupt at every moment at which Python looks for signals, one after the other:
# when a function of ours begins, and when one of the system's has ended. Ends at the first moment
# that left something behind, as nothing can be trusted then. The first moment of an `__exit__` is
# left out: no context manager that is written in Python survives an interrupt there.
INTERRUPTED_EVERYWHERE = """
import itertools
from holdfast import LockManager, LockTimeoutError, StoreError
from holdfast.core import rules
from holdfast.manager import ledger as module
from holdfast.store.sqlite import write_gate

os.chdir(sys.argv[1])
name, first = sys.argv[2], int(sys.argv[3])
module.DEADLINE_SECONDS = 0.3
ours = os.path.dirname(os.path.dirname(os.path.dirname(write_gate.__file__)))
place = left = None


def profile(frame, event, argument):
    global place, left
    if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(ours):
        return
    if event == "call" and frame.f_code.co_name == "__exit__":
        return
    left -= 1
    if left == 0:
        sys.setprofile(None)
        what = f"after {argument.__name__}" if event == "c_return" else "begin"
        file = frame.f_code.co_filename[len(ours) :]
        place = f"{file}:{frame.f_lineno} {frame.f_code.co_name} {what}"
        raise KeyboardInterrupt


def take(manager):
    return manager.try_acquire(holder="holder", write_paths=["x"])


def fence(manager, grant):
    with manager.fenced(grant):
        pass


def hold(manager, grant):
    with manager.hold(write_paths=["y"], ttl=None):
        pass


uses = {
    "acquire": lambda m, grant: m.acquire(holder="a", write_paths=["y"], timeout=1),
    "try_acquire": lambda m, grant: m.try_acquire(holder="a", write_paths=["y"]),
    "wait": lambda m, grant: m.acquire(holder="a", write_paths=["x"], timeout=0.005),
    "hold": hold,
    "renew": lambda m, grant: m.renew(grant.id),
    "release": lambda m, grant: m.release(grant.id),
    "fenced": fence,
    "look": lambda m, grant: m.active_grants(),
}


def trouble(manager, other, known):
    for who, tried in (("others", other), ("itself", manager)):
        try:
            request = tried.request("next", (), ["elsewhere"])
            decide = lambda view: rules.acquire(view, request, wait=False)
            tried.store.transact(decide, deadline=time.monotonic() + 0.2)
            tried.release(request.id)
        except StoreError as error:
            return f"no use any more for {who}: {error.message}"
    if other.queue():
        return "a ticket is left"
    left = [held.id for held in other.active_grants() if held.id != known]
    return "a grant is left that nobody knows of" if left else ""


manager, other = LockManager.open("."), LockManager.open(".")
for moment in itertools.count(first - 1):
    for held in other.active_grants():
        other.force(held.id, by="tester", reason="next moment")
    grant = take(manager)
    place, left = None, moment
    try:
        if moment >= first:  # once before, so that all is imported that is ever needed
            sys.setprofile(profile)
        uses[name](manager, grant)
    except (KeyboardInterrupt, LockTimeoutError, StoreError):
        pass
    finally:
        sys.setprofile(None)
    if moment < first:
        continue
    if place is None:
        break
    found = trouble(manager, other, grant.id)
    if found:
        say("left", moment, place + ":", found)
        os._exit(0)
say("over", moment)
os._exit(0)
"""


@pytest.mark.parametrize(
    "name", ["acquire", "try_acquire", "wait", "hold", "renew", "release", "fenced", "look"]
)
def test_an_interrupt_at_any_moment_leaves_nothing_behind(
    crowd: Crowd, root: Path, name: str
) -> None:
    """No locked gate, no unusable manager, no leftover ticket, no grant without a holder."""
    left: list[str] = []
    first = 1
    while len(left) < INTERRUPTS_LISTED_MAX:
        child = crowd.start(INTERRUPTED_EVERYWHERE, root, name, first, name=name).done(60)
        if child.words("over"):
            assert int(child.words("over")[0][0]) > 20, "nothing was interrupted"
            break
        moment, *place = child.words("left")[0]
        left.append(" ".join(place))
        first = int(moment) + 1
    assert left == []


# Keeping alive

STOPS_INSIDE = """
from holdfast import LockManager
manager = LockManager.open(sys.argv[1])
grant = manager.try_acquire(holder="stopper", write_paths=[f"{sys.argv[1]}/elsewhere"])
say("ready")
go()
with manager.fenced(grant):
    say("inside")
    os.kill(os.getpid(), signal.SIGSTOP)
say("out")
go()
"""


def test_hold_renews_by_itself_for_as_long_as_it_lasts(crowd: Crowd, root: Path) -> None:
    with LockManager.open(root) as manager, LockManager.open(root) as other:
        with manager.hold(write_paths=[root / "x"], ttl=0.5) as grant:
            first = grant.expires_at
            assert first is not None

            def expires_at() -> float:
                (held,) = other.active_grants()
                assert held.id == grant.id
                assert held.expires_at is not None
                return held.expires_at.timestamp()

            until(lambda: expires_at() > first.timestamp() + 1, "it has lived three lives")
            assert grant.state == "held"
            assert other.try_acquire(holder="b", write_paths=[root / "x"]) is None
            assert not grant.released
        assert grant.released
        assert other.try_acquire(holder="b", write_paths=[root / "x"]) is not None
        renewals = [event for event in manager.events() if event.type == "lock_renewed"]
        assert 3 <= len(renewals) <= 30


def test_hold_is_suspect_when_the_ledger_cannot_be_reached_and_then_lost(
    crowd: Crowd, root: Path
) -> None:
    states = ["held"]
    with LockManager.open(root) as manager:
        stopper = crowd.start(STOPS_INSIDE, root)
        stopper.wait_for("ready")
        hold = manager.hold(write_paths=[root / "x"], ttl=1.5)
        with pytest.raises(LockExpiredError), hold as grant:  # noqa: PT012
            assert grant.state == "held"
            stopper.tell()
            stopper.wait_for("inside")
            stopper.wait_until_stopped()

            def lost() -> bool:
                state = grant.state
                if state != states[-1]:
                    states.append(state)
                return state == "lost"

            until(lost, "it is lost")
            assert states == ["held", "suspect", "lost"]
            stopper.kill()
        with LockManager.open(root) as other:
            assert other.try_acquire(holder="b", write_paths=[root / "x"]) is not None


def test_hold_is_held_again_when_the_ledger_comes_back_in_time(
    crowd: Crowd, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LockManager.open(root) as manager:
        stopper = crowd.start(STOPS_INSIDE, root)
        stopper.wait_for("ready")
        with manager.hold(write_paths=[root / "x"], ttl=3) as grant:
            monkeypatch.setattr("holdfast.manager.ledger.DEADLINE_SECONDS", 0.2)
            stopper.tell()
            stopper.wait_for("inside")
            stopper.wait_until_stopped()
            until(lambda: grant.state == "suspect", "it is in doubt")
            stopper.resume()
            until(lambda: grant.state == "held", "it is sure again")
        assert grant.released


def has_waited(manager: LockManager, seconds: float) -> bool:
    now = manager.now()
    return any(now - ticket.added_at > seconds * SECOND for ticket in manager.queue())


SERVED_WHILE_STOPPED = """
from holdfast import HoldfastError, LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")
say("ready")
try:
    with manager.hold(write_paths=["x"], ttl=0.9, timeout=60) as grant:
        say("holding")
        end = time.monotonic() + 0.7
        while time.monotonic() < end:
            if grant.state == "held":
                allowed = manager.verify(grant.id, "x", token=grant.token)
                if not allowed and grant.state == "held":
                    say("wrong", allowed.reason)
                    break
except HoldfastError as error:
    say("error", error.code)
say("over")
"""


def test_hold_knows_how_much_of_its_lease_has_passed_before_it_woke(
    crowd: Crowd, root: Path
) -> None:
    """Its turn may come while it is stopped: the lease begins without it."""
    with LockManager.open(root) as manager:
        first = manager.try_acquire(holder="first", write_paths=[root / "x"])
        assert first is not None
        child = crowd.start(SERVED_WHILE_STOPPED, root)
        until(lambda: has_waited(manager, 0.3), "it has waited so long that others serve it")
        child.stop()
        manager.release(first.id)
        begin = time.monotonic()
        until(lambda: time.monotonic() > begin + 0.75, "most of the lease has passed")
        child.resume()
        child.done()
        assert not child.words("wrong"), child.story()


def test_hold_learns_that_it_was_taken_away(root: Path) -> None:
    with LockManager.open(root) as manager, LockManager.open(root) as other:
        hold = manager.hold(write_paths=[root / "x"], ttl=0.6)
        with pytest.raises(FencingError), hold as grant:  # noqa: PT012
            other.force(grant.id, by="person", reason="it took too long")
            until(lambda: grant.state == "lost", "it knows", seconds=5)
            with pytest.raises(FencingError), manager.fenced(grant):
                pytest.fail("a grant that was taken away has passed the fence")


def test_hold_releases_on_an_exception_and_lets_it_through(root: Path) -> None:
    with LockManager.open(root) as manager:
        with pytest.raises(ZeroDivisionError), manager.hold(write_paths=[root / "x"], ttl=1):
            raise ZeroDivisionError
        assert manager.active_grants() == []


def test_two_holds_of_one_process_exclude_each_other(root: Path) -> None:
    with LockManager.open(root) as manager, manager.hold(write_paths=[root / "x"]):
        assert manager.check_conflicts(write_paths=[root / "x"])
        with pytest.raises(LockTimeoutError, match="timed out"):
            manager.hold(write_paths=[root / "x"], timeout=0.05).__enter__()
