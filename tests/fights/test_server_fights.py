"""The fights over files, herds and queues of waiters, on a PostgreSQL server that is killed.

The contenders and the judge are those of `store/test_fight.py`; here their ledger is on a server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_network import Proxy
from helpers_postgres import Server, own_server
from helpers_processes import LINUX_ONLY, Crowd, until
from holdfast import LockManager
from test_fight import FILES, Arena, eight_fight, stopped_and_overtaken

pytestmark = LINUX_ONLY

HERD = 100
LINE = 12


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests kill; each test has a repository of its own on it."""
    with own_server() as made:
        yield made


# Files that show who wrote


def test_eight_processes_fight_while_the_server_is_killed_and_connections_are_cut(
    crowd: Crowd, tmp_path: Path, server: Server
) -> None:
    with Proxy(server.port) as proxy:
        url = server.url("eight", port=proxy.port)
        arena = Arena(crowd, tmp_path / "repo", FILES, fence="fenced", store=url)
        happened = []

        def turns() -> int:
            return sum(len(child.words("turn")) for child in arena.fighters)

        def trouble() -> None:
            for what in (server.kill, server.cut_all, proxy.drop, server.kill, proxy.drop):
                seen = turns()
                until(lambda seen=seen: turns() > seen + 10, "the fight goes on")  # type: ignore[misc]
                what()
                if not server.pid:
                    server.start()
                happened.append(what.__name__)

        eight_fight(arena, 12, meanwhile=trouble, pace=0.2)
    assert happened == ["kill", "cut_all", "drop", "kill", "drop"]


@pytest.mark.parametrize("fence", ["fenced", "unfenced"])
def test_a_process_stopped_beyond_its_lease_does_harm_only_without_the_fence(
    crowd: Crowd, tmp_path: Path, server: Server, fence: str
) -> None:
    url = server.url(f"overtaken-{fence}")
    arena = Arena(crowd, tmp_path / "repo", ["guarded/a/0"], fence=fence, store=url)
    stopped_and_overtaken(arena)


# A herd

MANY = """
from holdfast import LockManager
import holdfast.store.postgres.server_store

root, size, url = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.chdir(root)


def member(number):
    begin = time.monotonic()
    try:
        with LockManager.open(root, store=url) as manager:
            assert manager.try_acquire(holder=f"member-{number}", write_paths=[f"f{number}"])
        say("served", number, time.monotonic() - begin)
    except BaseException as error:
        say("failed", repr(error))
    os._exit(0)


held, start = os.pipe()
for number in range(size):
    if not os.fork():
        os.close(start)
        os.read(held, 1)
        member(number)
say("ready")
go()
os.close(start)
for _ in range(size):
    os.wait()
"""


def test_a_herd_that_connects_and_takes_at_the_same_instant_is_served(
    crowd: Crowd, tmp_path: Path, server: Server
) -> None:
    """All of them make the tables of a new database at the same time, too."""
    url = server.url("herd", database=server.make_database("herd"))
    child = crowd.start(MANY, tmp_path, HERD, url, name="herd")
    child.wait_for("ready", seconds=120)
    child.tell()
    child.done(seconds=120)
    assert child.words("failed") == [], child.words("failed")[:3]
    assert len(child.words("served")) == HERD
    assert server.run("select count(*) from holdfast.repositories", database="herd") == [(1,)]


# A line of waiters

WAITER = """
from holdfast import LockManager

root, url, number = sys.argv[1:]
os.chdir(root)
manager = LockManager.open(root, store=url)
say("ready")
go()
grant = manager.acquire(holder=f"w{number}", write_paths=["x"], timeout=100)
# The witness: a file that each holder appends to while it holds.
witness = os.open("witness", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(witness, f"begin {number}\\n".encode())
with manager.fenced(grant):
    os.write(witness, f"end {number}\\n".encode())
manager.release(grant.id)
manager.close()
"""


@pytest.mark.parametrize("trouble", ["", "kill", "cut"])
def test_a_line_of_waiters_is_served_in_turn_and_each_is_alone(
    crowd: Crowd, tmp_path: Path, server: Server, trouble: str
) -> None:
    url = server.url(f"line-{trouble}")
    with LockManager.open(tmp_path, store=url) as manager:
        first = manager.try_acquire(holder="first", write_paths=["x"])
        assert first is not None
        waiters = [crowd.start(WAITER, tmp_path, url, number) for number in range(LINE)]
        for number, child in enumerate(waiters):
            child.wait_for("ready", seconds=120)
            child.tell()
            until(lambda number=number: len(manager.queue()) == number + 1, "it stands in line")  # type: ignore[misc]
        if trouble == "kill":
            server.kill()
            server.start()
        elif trouble == "cut":
            server.cut_all()
        begin = time.monotonic()
        manager.release(first.id)
        for child in waiters:
            child.done(seconds=120)
        took = time.monotonic() - begin
        assert manager.queue() == []
        assert manager.active_grants() == []
    told = [f"{what} {number}" for number in range(LINE) for what in ("begin", "end")]
    assert (tmp_path / "witness").read_text().splitlines() == told
    # Each is woken when it is served. Looks at intervals of a second would take much longer.
    assert took < LINE * 0.7, f"{LINE} hand-overs took {took:.1f} s"
