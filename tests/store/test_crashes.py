"""`kill -9` and failing disks at every moment: the next process opens the ledger and trusts it.

Children are killed again and again while they acquire, renew and release (hundreds of times in
`fights/test_many_crashes.py`); killed and stopped inside the gate; killed at exact system calls;
and made to fail at exact system calls. Every confirmed change is there afterwards, and an
unconfirmed one is complete or absent.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import TypeVar

import pytest

from helpers_processes import LINUX_ONLY, PRELUDE, Auditor, Child, Crowd, state_of, until
from holdfast import LockManager, StoreBusyError
from holdfast.core import rules
from holdfast.core.model import Refusal
from holdfast.core.table import fold
from holdfast.store.sqlite import sqlite_store

pytestmark = LINUX_ONLY

Case = TypeVar("Case")
Result = TypeVar("Result")

KILLS = 50
WORKERS = 4
SHARED = ["shared/0", "shared/1", "shared/2"]
OWN = 4

# Starts workers at our word. A fork costs a hundredth of a new interpreter, and each worker opens
# the ledger for itself.
NURSERY = """
import random
from holdfast import LockManager, Refused

root, OWN, SHARED = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(",")
os.chdir(root)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the dead at once


def work(name):
    dice = random.Random(int(name))
    manager = LockManager.open(".")
    own = [f"own/{name}/{number}" for number in range(OWN)]
    held = []
    say("running", name)
    while True:
        wanted = dice.sample(own, 2) + dice.sample(SHARED, dice.choice((0, 0, 1, 2)))
        try:
            grant = manager.acquire(holder="worker", write_paths=wanted, timeout=0.2, ttl=600)
            held.append(grant)
            if dice.random() < 0.3:
                manager.renew(grant.id)
            if dice.random() < 0.3:
                with manager.fenced(grant):
                    pass
        except Refused:
            pass
        while len(held) > dice.choice((0, 0, 1, 2)):
            manager.release(held.pop(0).id)


while True:
    name = go()
    pid = os.fork()
    if not pid:
        work(name)
    say("born", name, pid)
"""


def is_sound(root: Path) -> bool:
    database = sqlite3.connect(root / ".holdfast/ledger.db")
    try:
        return bool(database.execute("pragma integrity_check").fetchone() == ("ok",))
    finally:
        database.close()


def needs_strace() -> list[str]:
    """The command that makes system calls fail, if this machine lets us use it."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace (apt-get install strace) to make system calls fail")
    command = [strace, "-f", "-qq"]
    if trouble := _trouble_with(*command):
        pytest.skip(f"strace may not trace here: {trouble}")
    return command


@cache
def _trouble_with(*command: str) -> str:
    words = [*command, "-e", "trace=pwrite64", "-o", os.devnull, "true"]
    tried = subprocess.run(words, capture_output=True, text=True, check=False)
    return tried.stderr.strip() or ("it fails" if tried.returncode else "")


def sparingly(strace: list[str]) -> list[str]:
    """The same, stopping only at the calls that are traced, if it can. It sends no signals then."""
    command = [*strace, "--seccomp-bpf"]
    return strace if _trouble_with(*command) else command


# Killed anywhere


def test_after_kill_at_random_moments_the_next_process_opens_the_ledger_and_trusts_it(
    crowd: Crowd, root: Path
) -> None:
    die_at_random_moments(crowd, root, KILLS)


def die_at_random_moments(crowd: Crowd, root: Path, kills: int) -> None:
    """Kill one worker after the other, and look at the ledger after each death."""
    dice = random.Random(9)
    auditor = Auditor()
    nursery = crowd.start(NURSERY, root, OWN, ",".join(SHARED), name="nursery")
    died_holding = 0
    for name in range(WORKERS):
        nursery.tell(str(name))
    for name in range(kills):
        pid = int(nursery.wait_for(f"born {name}")[0])
        if dice.random() < 0.2:  # while it opens the ledger
            time.sleep(dice.uniform(0, 0.01))
        else:
            nursery.wait_for(f"running {name}")
            time.sleep(dice.uniform(0, 0.03))
        kill(nursery, pid)
        died_holding += trust_after(root, auditor, name, pid)
        if name % 50 == 49:
            assert is_sound(root)
        nursery.tell(str(name + WORKERS))

    assert died_holding >= kills / 10, f"only {died_holding} died with something in their hands"
    for name in range(kills, kills + WORKERS):
        kill(nursery, int(nursery.wait_for(f"born {name}")[0]))
    nothing_is_left(root)


def kill(nursery: Child, pid: int) -> None:
    assert state_of(pid) != "Z", f"a worker ended by itself: {nursery.story()}"
    os.kill(pid, signal.SIGKILL)
    until(lambda: state_of(pid) == "Z", f"{pid} is gone")


def nothing_is_left(root: Path) -> None:
    with LockManager.open(root) as manager:
        grant = manager.try_acquire(holder="last", write_paths=[root / path for path in SHARED])
        assert grant is not None, "a dead owner blocks"
        manager.release(grant.id)
        assert manager.active_grants() == []
        assert manager.queue() == []
        manager.reap()
        whole = fold(manager.events())
        assert whole.grants() == []
        assert whole.queue() == []
        Auditor().check(manager)
    assert is_sound(root)


def trust_after(root: Path, auditor: Auditor, name: int, pid: int) -> bool:
    """Open the ledger right after a death, and look at it; whether the dead had held something."""
    with LockManager.open(root) as manager:
        auditor.check(manager)
        held = [grant for grant in auditor.table.grants() if is_of(grant.holder.witness, pid)]
        keys = {key for grant in held for key in grant.keys}
        own = [root / f"own/{name}/{number}" for number in range(OWN)]
        grant = manager.try_acquire(holder="next", write_paths=own)
        assert grant is not None, "a dead owner blocks"
        for path in SHARED:
            if path in keys:
                outcome = manager.ask("next", write_paths=[root / path])
                if isinstance(outcome, Refusal):  # by a live process that had waited for it
                    holders = {conflict.grant_id for conflict in outcome.conflicts}
                    assert not holders & {dead.id for dead in held}, "a dead owner blocks"
                else:
                    manager.release(outcome.id)
        manager.release(grant.id)
        auditor.check(manager)
        return bool(held)


def is_of(witness: object, pid: int) -> bool:
    return getattr(witness, "pid", 0) == pid


# Killed and stopped inside the gate

IN_THE_GATE = """
from holdfast import LockManager
os.chdir(sys.argv[1])
manager = LockManager.open(".")
grant = manager.try_acquire(holder="inside", write_paths=["a", "b"], ttl=None)
with manager.fenced(grant):
    say("inside")
    os.kill(os.getpid(), signal.SIGSTOP)
    say("resumed")
manager.release(grant.id)
"""


def test_a_process_stopped_inside_the_gate_is_named_at_the_deadline_and_its_death_opens_it(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        child = crowd.start(IN_THE_GATE, root)
        child.wait_for("inside")
        child.wait_until_stopped()
        busy = refused_at_the_deadline(manager, root)
        assert busy.code == "E_STORE_BUSY"
        assert busy.fields["pid"] == child.pid
        assert str(child.pid) in busy.message
        assert f"kill -CONT {child.pid}" in busy.hint
        # Reading continues meanwhile: every process can see the locks.
        assert [grant.holder for grant in manager.active_grants()] == ["inside"]

        child.kill()
        begin = time.monotonic()
        grant = manager.try_acquire(holder="next", write_paths=[root / "a", root / "b"])
        assert grant is not None
        assert time.monotonic() - begin < 2
        Auditor().check(manager)


def test_a_process_that_continues_inside_the_gate_has_lost_nothing(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        child = crowd.start(IN_THE_GATE, root)
        child.wait_for("inside")
        child.wait_until_stopped()
        refused_at_the_deadline(manager, root)
        child.resume()
        child.done()
        assert manager.try_acquire(holder="next", write_paths=[root / "a"]) is not None
        assert [event.type for event in manager.events()] == [
            "lock_acquired",
            "lock_released",
            "lock_acquired",
        ]


def test_opening_while_another_is_stopped_inside_the_gate_ends_at_its_deadline(
    crowd: Crowd, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = crowd.start(IN_THE_GATE, root)
    child.wait_for("inside")
    child.wait_until_stopped()
    monkeypatch.setattr(sqlite_store, "OPEN_SECONDS", 0.2)
    with pytest.raises(StoreBusyError) as caught:
        LockManager.open(root)
    assert caught.value.fields["pid"] == child.pid
    child.kill()
    LockManager.open(root).close()


def refused_at_the_deadline(manager: LockManager, root: Path) -> StoreBusyError:
    request = manager.request("next", (), [root / "elsewhere"])
    begin = time.monotonic()
    with pytest.raises(StoreBusyError) as caught:
        manager.store.transact(
            lambda view: rules.acquire(view, request, wait=False), deadline=begin + 0.3
        )
    assert 0.25 < time.monotonic() - begin < 3
    return caught.value


# At exact system calls

LIFE = """
from holdfast import LockManager, StoreError
from holdfast.core import rules
from holdfast.core.model import Grant
from holdfast.store.sqlite import schema
for name in dir(schema):  # so that the log is written back several times in a short life
    if name.startswith("CHECKPOINT_PAGES"):
        setattr(schema, name, 24)
os.chdir(sys.argv[1])


def stubborn(what, *words):
    # Twice in vain, then it gives up: the disk may be full for good.
    for _ in range(2):
        try:
            return what()
        except StoreError as error:
            say("failed", error.code, *words)
    return None


def take(request):
    decide = lambda view: rules.acquire(view, request, wait=False)
    return manager.store.transact(decide, deadline=time.monotonic() + 10)


manager = stubborn(lambda: LockManager.open("."), "open")
if manager is None:
    say("over")
    os._exit(0)
say("opened")
for number in range(8):
    request = manager.request("one", (), [f"a/{number}", f"b/{number}"], ttl=None)
    outcome = stubborn(lambda: take(request), "acquire", request.id)
    if outcome is None:
        say("unsure", request.id)
        continue
    assert isinstance(outcome, Grant) and outcome.id == request.id
    say("granted", outcome.id, outcome.token)
    stubborn(lambda: manager.renew(outcome.id), "renew", outcome.id)
    give_back = lambda: manager.release(outcome.id)
    if number % 2 and stubborn(give_back, "release", outcome.id) is not None:
        say("released", outcome.id)
    path = f"c/{number}"
    try:  # with an id that nobody knows: what fails here must not stay locked
        single = manager.try_acquire(holder="one", write_paths=[path])
        say("granted", single.id, single.token)
    except StoreError as error:
        say("failed", error.code, "try", path)
        if stubborn(lambda: manager.check_conflicts(write_paths=[path]), "check"):
            say("stuck", path)
say("over")
os._exit(0)
"""

WRITES = ("pwrite64", "fdatasync", "ftruncate")


def life(root: Path, prefix: list[str], log: Path) -> list[list[str]]:
    """One child's life under strace, and its output."""
    ran = subprocess.run(
        [*prefix, "-o", str(log), sys.executable, "-c", PRELUDE + LIFE, str(root)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )
    assert ran.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), ran.stderr
    return [line.split(" ") for line in ran.stdout.splitlines()]


def calls_of(root: Path, strace: list[str], log: Path) -> dict[str, int]:
    """How often an undisturbed life calls each of these."""
    said = life(root, [*sparingly(strace), "-e", f"trace={','.join(WRITES)}"], log)
    assert said[-1] == ["over"]
    text = log.read_text()
    counts = {call: text.count(f" {call}(") for call in WRITES}
    assert all(counts.values()), f"not all of these are called: {counts}"
    assert counts["fdatasync"] > 4, f"the log is hardly ever written back: {counts}"
    return counts


def moments(count: int, most: int) -> list[int]:
    """Some of the calls from first to last, spread evenly, the first ones all of them."""
    step = max(1, count // most)
    return sorted({*range(1, min(count, 4) + 1), *range(1, count + 1, step)})


def truth_holds(root: Path, said: list[list[str]]) -> None:
    """Every confirmed change is in the ledger, and the ledger is intact."""
    with LockManager.open(root) as manager:
        Auditor().check(manager)
        acquired = {
            event.data["id"]: event.data["token"]
            for event in manager.events()
            if event.type == "lock_acquired"
        }
        ended = {event.data["grant"] for event in manager.events() if event.type == "lock_released"}
        for word, *rest in said:
            if word == "granted":
                assert acquired.get(rest[0]) == int(rest[1]), "a grant that is not in the ledger"
            elif word == "released":
                assert rest[0] in ended, "a release that is not in the ledger"
            assert word != "stuck", f"{rest} failed and stays locked"
        everything = [root / f"{folder}/{number}" for folder in "abc" for number in range(8)]
        grant = manager.try_acquire(holder="next", write_paths=everything)
        assert grant is not None
        assert grant.token > max(acquired.values(), default=0)
    assert is_sound(root)


def test_an_error_of_the_disk_at_any_system_call_breaks_no_promise(tmp_path: Path) -> None:
    counts = calls_of(fresh(tmp_path, "counted"), needs_strace(), tmp_path / "log")
    # Once, or from then on.
    cases = [
        (call, f"error={('ENOSPC', 'EIO')[number % 2]}:when={when}{rest}")
        for call in WRITES
        for number, when in enumerate(moments(counts[call], 6))
        for rest in ("", "+")
    ]

    def try_out(case: tuple[str, str]) -> set[str]:
        said = life_with(tmp_path, *case, made=True)
        assert said[-1] == ["over"]
        return {words[1] for words in said if words[0] == "failed"}

    failures = {code for codes in two_at_once(try_out, cases) for code in codes}
    assert failures, "nothing failed: the errors did not reach the ledger"
    assert failures <= {"E_STORE_FULL", "E_STORE"}, failures


def test_a_kill_at_any_system_call_breaks_no_promise(tmp_path: Path) -> None:
    """From the first byte of a new ledger to the last one of its log."""
    counts = calls_of(fresh(tmp_path, "counted", made=False), needs_strace(), tmp_path / "log")
    cases = [
        (call, f"signal=KILL:when={when}") for call in WRITES for when in moments(counts[call], 10)
    ]

    def try_out(case: tuple[str, str]) -> None:
        said = life_with(tmp_path, *case, made=False)
        assert ["over"] not in said

    two_at_once(try_out, cases)


def life_with(tmp_path: Path, call: str, fault: str, *, made: bool) -> list[list[str]]:
    """A life in which a system call goes wrong; afterwards the truth must hold."""
    name = f"{call} {fault}"
    root = fresh(tmp_path, name, made=made)
    log = tmp_path / f"{name}.log"
    inject = ["-e", f"trace={call}", "-e", f"inject={call}:{fault}"]
    strace = needs_strace()
    said = life(root, [*(sparingly(strace) if "error=" in fault else strace), *inject], log)
    text = log.read_text()
    assert "INJECTED" in text or "killed by SIGKILL" in text
    truth_holds(root, said)
    shutil.rmtree(root)
    return said


def two_at_once(work: Callable[[Case], Result], cases: list[Case]) -> list[Result]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, cases))


def fresh(tmp_path: Path, name: str, *, made: bool = True) -> Path:
    root = tmp_path / name
    (root / ".holdfast").mkdir(parents=True)
    if made:
        LockManager.open(root).close()
    return root
