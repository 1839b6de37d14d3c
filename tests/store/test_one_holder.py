"""One holder, whatever else the program does with its files, processes and descriptors.

The programs here are ordinary ones: they read, copy and archive their own tree with a manager open,
fork and go on in either process, become daemons, or have their ledger replaced under their hands.
Each of them runs in a process of its own.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers_processes import LINUX_ONLY, Auditor, Child, Crowd, until
from holdfast import LockManager
from holdfast.core import bulk_rules
from holdfast.core.model import Holder
from holdfast.manager import transactions

if TYPE_CHECKING:
    from holdfast.core.model import Decision
    from holdfast.core.view import View

pytestmark = LINUX_ONLY


def ledger(root: Path) -> Path:
    return root / ".holdfast/ledger.db"


def hear(program: Child, first: str) -> list[str]:
    """The output of a program, from all of its processes."""
    until(lambda: program.words(first) or program.trouble.read_text(), f"it says {first}")
    assert program.words(first), program.story()
    return program.words(first)[-1]


# A program that touches its own files

TOUCHES = """
import hashlib, pathlib, shutil, tarfile
from holdfast import LockManager
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
first = manager.try_acquire(holder="program", write_paths=[root / "x"])
manager.release(first.id)
say("open")
way = go()
if way == "read":
    for path in root.rglob("*"):
        if path.is_file():
            path.read_bytes()
elif way == "copy":
    shutil.copytree(
        root, root.parent / "copy",
        ignore=lambda folder, names: [name for name in names if name.startswith("wake-")],
    )
elif way == "hash":
    for path in root.rglob("ledger*"):
        with open(path, "rb") as file:
            hashlib.file_digest(file, "sha256")
elif way == "archive":
    with tarfile.open(root.parent / "all.tar", "w") as archive:
        archive.add(root)
say("touched")
go()
grant = manager.try_acquire(holder="program", write_paths=[root / "x"])
if grant is None:
    say("refused")
else:
    say("granted", grant.id, grant.token, bool(manager.verify(grant.id, token=grant.token)))
go()
"""


@pytest.mark.parametrize("way", ["read", "copy", "hash", "archive"])
def test_a_program_that_touches_every_file_below_its_root_keeps_its_ledger(
    crowd: Crowd, root: Path, way: str
) -> None:
    program = crowd.start(TOUCHES, root)
    program.wait_for("open")
    program.tell(way)
    program.wait_for("touched")
    log = (root / ".holdfast/ledger.db-wal").stat().st_ino
    LockManager.open(root).close()  # another process opens the ledger, and is not the last one out
    assert (root / ".holdfast/ledger.db-wal").stat().st_ino == log
    with LockManager.open(root) as other:
        held = other.try_acquire(holder="other", write_paths=[root / "x"])
        assert held is not None
        program.tell()
        until(lambda: program.words("refused") or program.words("granted"), "it answers")
        assert not program.words("granted"), program.story()
        other.release(held.id)
        program.tell()
        program.done()
        Auditor().check(other)


VIEWED = """
import pathlib, threading
from holdfast import LockManager
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
with manager.store.view(deadline=time.monotonic() + 10) as view:
    def read():
        for path in (root / ".holdfast").glob("ledger.db*"):
            path.read_bytes()
    reading = threading.Thread(target=read)
    reading.start()
    reading.join()
    say("reading", view.head)
    go()
    held = view.grants()  # read from the files only now
say("over", *sorted(grant.id for grant in held))
"""


def test_a_view_stays_as_it_is_when_another_thread_closes_the_files(
    crowd: Crowd, root: Path
) -> None:
    someone = Holder(id="someone")
    with LockManager.open(root) as other:
        grants = [other.try_acquire(holder=someone, write_paths=[root / f"{n}"]) for n in range(60)]
        ids = [grant.id for grant in grants if grant is not None]
    program = crowd.start(VIEWED, root)
    assert program.wait_for("reading") == ["60"]
    with LockManager.open(root) as other:
        for id in ids[:40]:
            other.release(id)
        with closing(sqlite3.connect(ledger(root), timeout=0.1)) as database:
            database.execute("pragma wal_checkpoint(truncate)")
    program.tell()
    assert program.wait_for("over") == sorted(ids), program.story()


# Forks and daemons

HEIR = """
import pathlib
from holdfast import LockManager
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
first = manager.try_acquire(holder="program", write_paths=[root / "x"])
manager.release(first.id)
parent = os.getpid()
child = os.fork()
if sys.argv[2] == "parent ends":
    if child:
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.005)
else:
    if not child:
        sys.exit()  # with all that an interpreter does at its end
    os.waitpid(child, 0)
say("alone", os.getpid())
go()
grant = manager.try_acquire(holder="program", write_paths=[root / "x"])
say("refused" if grant is None else "granted")
go()
mine = manager.acquire(holder="program", write_paths=[root / "x"], timeout=20)
say("mine", mine.id, mine.token, bool(manager.verify(mine.id, token=mine.token)))
go()
"""


@pytest.mark.parametrize("ends", ["parent ends", "child ends"])
def test_the_survivor_of_a_fork_has_a_ledger_that_others_see(
    crowd: Crowd, root: Path, ends: str
) -> None:
    program = crowd.start(HEIR, root, ends)
    hear(program, "alone")
    if ends == "child ends":
        log = (root / ".holdfast/ledger.db-wal").stat().st_ino
        LockManager.open(root).close()
        assert (root / ".holdfast/ledger.db-wal").stat().st_ino == log
    with LockManager.open(root) as other:
        held = other.try_acquire(holder="other", write_paths=[root / "x"])
        assert held is not None
        program.tell()
        until(lambda: program.words("refused") or program.words("granted"), "it answers")
        assert not program.words("granted"), program.story()
        assert other.verify(held.id, token=held.token)
        other.release(held.id)
        program.tell()
        _id, token, verified = hear(program, "mine")
        assert verified == "True"
        assert int(token) > held.token
        assert _id in [grant.id for grant in other.active_grants()]
        assert other.try_acquire(holder="other", write_paths=[root / "x"]) is None
        Auditor().check(other)
        program.tell()


DAEMON = """
import pathlib
from holdfast import LockManager
root = pathlib.Path(sys.argv[1])
said = os.dup(1)
heard = pathlib.Path(sys.argv[2])
manager = LockManager.open(root)
first = manager.acquire(holder="program", write_paths=[root / "x"], timeout=5)
manager.release(first.id)
manager.store.wait(0, 0.01)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(3, 256)
own = []
for number in range(40):  # they get the numbers of what was closed
    file = open(root.parent / f"own-{number}", "w+b", buffering=0)
    file.write(bytes([number]) * 4096)
    own.append(file)
say("daemon", os.getpid())
while not heard.exists():
    time.sleep(0.005)
for number in range(5):
    grant = manager.acquire(holder="program", write_paths=[root / "x"], timeout=20)
    assert manager.verify(grant.id, token=grant.token)
    with manager.fenced(grant):
        pass
    say("granted", grant.id, grant.token)
    manager.release(grant.id)
for number, file in enumerate(own):
    os.fstat(file.fileno())
    assert (root.parent / f"own-{number}").read_bytes() == bytes([number]) * 4096, number
say("intact")
sys.exit()
"""


def test_a_daemon_that_closes_all_descriptors_has_a_ledger_and_keeps_its_own_files(
    crowd: Crowd, root: Path, tmp_path: Path
) -> None:
    heard = tmp_path / "heard"
    program = crowd.start(DAEMON, root, heard)
    (pid,) = hear(program, "daemon")
    with LockManager.open(root) as other:
        held = other.try_acquire(holder="other", write_paths=[root / "x"])
        assert held is not None
        heard.touch()
        other.release(held.id)
        until(lambda: program.words("intact") or program.trouble.read_text(), "the daemon ends")
        assert program.words("intact"), program.story()
        until(lambda: not Path(f"/proc/{pid}").exists(), "it has ended")
        granted = program.words("granted")
        assert len(granted) == 5
        tokens = [held.token, *(int(token) for _id, token in granted)]
        assert tokens == sorted(set(tokens))
        ids = {event.data["id"] for event in other.events() if event.type == "lock_acquired"}
        assert {id for id, _token in granted} <= ids
        for number in range(40):
            assert (tmp_path / f"own-{number}").read_bytes() == bytes([number]) * 4096
        Auditor().check(other)


CLOSED = """
import pathlib
from holdfast import LockManager, StoreError
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
grant = manager.acquire(holder="program", write_paths=[root / "x"], timeout=5)
manager.acquire(holder="program", write_paths=[root / "x"], timeout=5)
manager.store.wait(0, 0.01)
os.closerange(3, 256)
own = []
for number in range(40):
    file = open(root.parent / f"own-{number}", "w+b", buffering=0)
    file.write(bytes([number]) * 4096)
    own.append(file)
for use in (
    lambda: manager.release(grant.id),
    manager.active_grants,
    lambda: manager.try_acquire(holder="program", write_paths=[root / "y"]),
    lambda: LockManager.open(root),
):
    try:
        use()
        say("used")
    except StoreError as error:
        say("refused", error.code)
del manager
for file in own:
    os.fstat(file.fileno())
say("intact")
"""


def test_a_process_that_closes_the_ledgers_descriptors_gets_an_error_and_harms_no_file(
    crowd: Crowd, root: Path, tmp_path: Path
) -> None:
    program = crowd.start(CLOSED, root).done()
    assert program.words("refused") == [["E_STORE"]] * 4, program.story()
    assert program.words("intact")
    for number in range(40):
        assert (tmp_path / f"own-{number}").read_bytes() == bytes([number]) * 4096
    with LockManager.open(root) as other:
        Auditor().check(other)


MANY = """
import multiprocessing, pathlib
from holdfast import LockManager
root = pathlib.Path(sys.argv[1])


def work(count):
    manager = LockManager.open(root)
    tokens = []
    for _ in range(count):
        with manager.hold(write_paths=[root / "counter"], timeout=60) as grant:
            number = int((root / "counter").read_text())
            for path in (root / ".holdfast").glob("ledger*"):
                path.read_bytes()
            (root / "counter").write_text(str(number + 1))
            tokens.append(grant.token)
    return tokens


if __name__ == "__main__":
    (root / "counter").write_text("0")
    manager = LockManager.open(root)
    manager.active_grants()
    with multiprocessing.get_context(sys.argv[2]).Pool(3) as pool:
        tokens = [token for some in pool.map(work, [15] * 6) for token in some]
    say("count", (root / "counter").read_text(), len(set(tokens)))
    ids = [event.data["id"] for event in manager.events() if event.type == "lock_acquired"]
    say("granted", len(ids))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_that_read_their_own_tree_count_without_a_loss(
    crowd: Crowd, root: Path, tmp_path: Path, method: str
) -> None:
    program = tmp_path / "many.py"
    program.write_text("import os, sys, time\nsay = print\n" + MANY)
    done = subprocess.run(
        [sys.executable, program, root, method], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["count 90 90", "granted 90"]


# Forks at awkward moments

AWKWARD = """
import pathlib, threading
from holdfast import LockManager, StoreError
root = pathlib.Path(sys.argv[1])
where = sys.argv[2]
manager = LockManager.open(root)
held = manager.try_acquire(holder="parent", write_paths=[root / "x"])


def in_child():
    assert manager.try_acquire(holder="child", write_paths=[root / "x"]) is None
    mine = manager.try_acquire(holder="child", write_paths=[root / f"y-{os.getpid()}"])
    assert manager.verify(mine.id, token=mine.token)
    with manager.fenced(mine):
        pass
    assert manager.release(mine.id)
    say("child")


def fork():
    pid = os.fork()
    if not pid:
        try:
            in_child()
            os._exit(0)
        except BaseException as error:
            say("error", repr(error))
            os._exit(1)
    children.append(pid)  # not awaited here: this process may be inside the gate


def reap(flags):
    for pid in list(children):
        found, status = os.waitpid(pid, flags)
        if found:
            children.remove(pid)
            assert status == 0


children = []
over = threading.Event()
if len(sys.argv) > 3:
    def busy():
        while not over.is_set():
            grant = manager.try_acquire(holder="thread", write_paths=[root / "z"])
            if grant is not None:
                manager.release(grant.id)
    thread = threading.Thread(target=busy)
    thread.start()
if where == "view":
    with manager.store.view(deadline=time.monotonic() + 10) as view:
        assert view.grants()
        fork()
        assert view.grants()
elif where == "fence":
    pid = 0
    with manager.fenced(held):
        pid = os.fork()
        if not pid:
            say("inside")
    if not pid:
        in_child()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
elif where == "decision":
    from holdfast.core import rules
    def decide(view):
        if not children:  # it is asked again: a fork tears the transaction
            fork()
        return rules.release(view, "no such grant", None)
    assert manager.store.transact(decide, deadline=time.monotonic() + 10) is False
elif where == "signal":
    import random
    dice = random.Random(7)
    def handler(*_):
        reap(os.WNOHANG)
        if len(children) < 8:
            fork()
        signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.001, 0.02))
    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        grant = manager.try_acquire(holder="parent", write_paths=[root / "w"])
        assert manager.verify(grant.id, token=grant.token)
        with manager.fenced(grant):
            pass
        manager.release(grant.id)
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
reap(0)
over.set()
assert manager.verify(held.id, token=held.token)
assert manager.try_acquire(holder="parent", write_paths=[root / "v"]) is not None
say("parent")
"""


@pytest.mark.parametrize("beside", [(), ("a thread",)], ids=["alone", "beside a thread"])
@pytest.mark.parametrize("where", ["view", "fence", "decision", "signal"])
def test_a_fork_in_the_middle_of_a_call_leaves_both_sides_a_ledger(
    crowd: Crowd, root: Path, where: str, beside: tuple[str, ...]
) -> None:
    program = crowd.start(AWKWARD, root, where, *beside).done(60)
    assert program.words("parent"), program.story()
    assert program.words("child"), program.story()
    assert not program.words("error"), program.story()
    with LockManager.open(root) as manager:
        Auditor().check(manager)


CONTINUES = """
import pathlib
from holdfast import LockManager, StoreError
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
parent = os.getpid()
signal.signal(signal.SIGALRM, lambda *_: os.fork())
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    grant = manager.acquire(holder="program", write_paths=[root / "x"], timeout=20)
    say("granted", "parent" if os.getpid() == parent else "child", grant.id)
except StoreError as error:
    say("failed", "parent" if os.getpid() == parent else "child", error.code)
go()
"""


def test_a_wait_that_a_fork_interrupts_is_the_parents_and_fails_in_the_child(
    crowd: Crowd, root: Path
) -> None:
    with LockManager.open(root) as manager:
        held = manager.try_acquire(holder="other", write_paths=[root / "x"])
        assert held is not None
        program = crowd.start(CONTINUES, root)
        assert program.wait_for("failed") == ["child", "E_STORE"]
        assert len(manager.queue()) == 1
        manager.release(held.id)
        assert program.wait_for("granted")[0] == "parent"
        assert [grant.holder for grant in manager.active_grants()] == ["program"]


#: A signal whose handler forks comes right before the call does its next step.
STEPS = """
import pathlib
from holdfast import LockManager, StoreError
from holdfast.core import bulk_rules
from holdfast.core.draft import Draft
from holdfast.manager import transactions
root, way, step = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
manager = LockManager.open(root)
parent, going_on = os.getpid(), getattr(manager.store, step)


def forks(*words, **rest):
    setattr(manager.store, step, going_on)
    os.fork()
    return going_on(*words, **rest)


wanted = {"holder": "program", "write_paths": [root / "x"]}
if way == "acquire":
    wanted["timeout"] = 20
request = manager.request("program", (), [root / "x"], None, "")


def taking(view):
    draft = Draft(view)
    return draft.done(bulk_rules.take_each(draft, [request]))


setattr(manager.store, step, forks)
try:
    if way == "queue":
        grant = transactions.queue(manager, request)
    elif way == "decide":
        grant = transactions.decide(manager, taking)
    else:
        grant = getattr(manager, way)(**wanted)
    say("granted" if grant else "refused", "parent" if os.getpid() == parent else "child")
except StoreError as error:
    say("failed", "parent" if os.getpid() == parent else "child", error.code)
if os.getpid() == parent:
    go()
"""


@pytest.mark.parametrize(
    ("way", "step"),
    [
        ("try_acquire", "transact"), ("ask", "transact"), ("ensure", "transact"),
        ("acquire", "transact"), ("acquire", "waiter"),
        ("queue", "transact"), ("decide", "transact"),
    ],
)  # fmt: skip
def test_a_request_that_a_fork_interrupts_is_never_granted_to_the_child_as_well(
    crowd: Crowd, root: Path, way: str, step: str
) -> None:
    with LockManager.open(root) as manager:
        held = None
        if step == "waiter":
            held = manager.try_acquire(holder="other", write_paths=[root / "x"])
        program = crowd.start(STEPS, root, way, step)
        if held is not None:
            until(manager.queue, "the parent waits")
            manager.release(held.id)
        assert program.wait_for("granted") == ["parent"]
        assert program.wait_for("failed") == ["child", "E_STORE"]
        assert len(manager.active_grants()) == 1
        assert manager.queue() == []
        Auditor().check(manager)


CLOSING = """
import pathlib
from holdfast import LockManager
from holdfast.store.sqlite.write_gate import Gate
from holdfast.store.sqlite.session import Session
root, step = pathlib.Path(sys.argv[1]), sys.argv[2]
manager = LockManager.open(root)
owner = Gate if hasattr(Gate, step) else Session
parent, going_on = os.getpid(), getattr(owner, step)


def forks(*words):
    setattr(owner, step, going_on)
    os.fork()
    return going_on(*words)


setattr(owner, step, forks)
manager.close()
say("closed", "parent" if os.getpid() == parent else "child")
with LockManager.open(root) as other:
    assert other.try_acquire(holder="me", write_paths=[root / f"{os.getpid()}"])
say("open")
if os.getpid() == parent:
    go()
"""


@pytest.mark.parametrize("step", ["try_enter", "is_at_its_path", "_close_copy", "leave"])
def test_a_close_that_a_fork_interrupts_ends_quietly_on_both_sides(
    crowd: Crowd, root: Path, step: str
) -> None:
    program = crowd.start(CLOSING, root, step)
    program.wait_for("open", 2)
    assert sorted(program.words("closed")) == [["child"], ["parent"]]
    with LockManager.open(root) as manager:
        Auditor().check(manager)


FORKED_AT_THE_GATE = """
import pathlib
from holdfast import LockManager, StoreError
from holdfast.store.sqlite import sqlite_store
root = pathlib.Path(sys.argv[1])
manager = LockManager.open(root)
is_ours, parent = sqlite_store.is_ours, os.getpid()


def forks(number, opened):  # as a signal's handler may at this moment
    sqlite_store.is_ours = is_ours
    os.fork()
    return is_ours(manager.store.gate.fd, opened)


sqlite_store.is_ours = forks
try:
    grant = manager.try_acquire(holder="program", write_paths=[root / "x"])
    say("granted", "parent" if os.getpid() == parent else "child")
except StoreError as error:
    say("failed", "parent" if os.getpid() == parent else "child")
    grant = manager.try_acquire(holder="program", write_paths=[root / "y"])
    say("again", manager.verify(grant.id, token=grant.token).allowed)
    os._exit(0)
os.wait()
"""


def test_a_child_forked_at_the_gate_has_a_ledger_after_the_call_that_failed(
    crowd: Crowd, root: Path
) -> None:
    program = crowd.start(FORKED_AT_THE_GATE, root).done()
    assert program.words("granted") == [["parent"]], program.story()
    assert program.words("failed") == [["child"]], program.story()
    assert program.words("again") == [["True"]], program.story()


#: Another thread would hold the module's own lock during an import: here it is held without one.
IMPORTING = """
import pathlib, threading
from importlib import _bootstrap
from holdfast import LockManager
root = pathlib.Path(sys.argv[1])
(root / "x").write_text("")
manager = LockManager.open(root)
loaded = sys.modules.pop(sys.argv[2], None)
lock = _bootstrap._get_module_lock(sys.argv[2])
taken, over = threading.Event(), threading.Event()


def imports():
    lock.acquire()
    taken.set()
    over.wait(0.5)
    if loaded is not None:
        sys.modules[sys.argv[2]] = loaded
    lock.release()
    if loaded is None:
        __import__(sys.argv[2])


thread = threading.Thread(target=imports)
thread.start()
taken.wait()
pid = os.fork()
if not pid:
    with manager.hold(write_paths=[root / "x"], ttl=5):
        pass
    say("child")
    os._exit(0)
over.set()
end = time.monotonic() + 20
while os.waitpid(pid, os.WNOHANG) == (0, 0):
    if time.monotonic() > end:
        os.kill(pid, signal.SIGKILL)
        say("hangs")
        break
    time.sleep(0.01)
thread.join()
"""


@pytest.mark.parametrize("module", ["threading", "select", "_socket", "unicodedata"])
def test_a_child_forked_while_another_thread_imports_does_not_wait_for_that_import(
    crowd: Crowd, root: Path, module: str
) -> None:
    program = crowd.start(IMPORTING, root, module).done(60)
    assert program.words("child"), program.story()
    assert not program.words("hangs")


def test_a_fork_after_a_torn_transaction_was_given_up_begins_no_other(root: Path) -> None:
    with LockManager.open(root) as manager:
        store: Any = manager.store
        transaction = store.transaction
        rolled_back: list[str] = []
        asked = transaction._ask

        def fork() -> None:
            transaction.tear()
            transaction.go_on()

        def ask(sql: str, *more: object) -> object:
            done = asked(sql, *more)
            if sql == "rollback":
                rolled_back.append(sql)
                if len(rolled_back) == 2:  # the first is that of the fork itself
                    fork()
            return done

        def rule(view: View) -> Decision[Any]:
            if not rolled_back:
                fork()
            return bulk_rules.note(view, "heard", {})

        transaction._ask = ask
        transactions.decide(manager, rule)
        assert len(rolled_back) == 2
        assert [event.type for event in manager.events()] == ["heard"]
