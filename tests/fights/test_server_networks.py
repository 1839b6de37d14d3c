"""Hosts apart: one whose network is cut, and some with other ideas of the time.

Each host has a network and process ids of its own, so the others know nothing of its processes: its
lease alone counts, by the clock of the server.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_network import Host, Proxy, wrong_clock
from helpers_postgres import Server, children_of, own_server
from helpers_processes import LINUX_ONLY, Crowd, until
from holdfast import LockManager

pytestmark = LINUX_ONLY

#: Process ids of its own; they end with the process that the test knows.
APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
TTL = 3.0


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server for the tests of this file; each has a repository of its own on it."""
    with own_server() as made:
        yield made


HOLDER = """
from holdfast import LockManager, Lost, StoreError
from holdfast.manager import ledger

ledger.DEADLINE_SECONDS = 2.0
root, url, ttl = sys.argv[1], sys.argv[2], float(sys.argv[3])
os.chdir(root)
witness = os.open("witness", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
manager = LockManager.open(root, store=url)
say("ready")


def write(grant):
    with manager.fenced(grant):
        os.write(witness, b"%d\\n" % grant.token)


def outcome(act):
    try:
        return act() or "done"
    except (Lost, StoreError) as error:
        return error.code


while True:
    what = go()
    if what == "take":
        grant = manager.acquire(holder="holder", write_paths=["x"], ttl=ttl, timeout=60)
        say("took", grant.token, grant.expires_at.timestamp(), time.time())
    elif what == "write":
        say("write", outcome(lambda: write(grant)))
    elif what == "verify":
        say("verify", outcome(lambda: manager.verify(grant.id, token=grant.token).code))
    elif what == "release":
        say("release", outcome(lambda: str(manager.release(grant.id))))
"""


def written(folder: Path) -> list[int]:
    """The tokens with which the holders wrote, in order."""
    return [int(line) for line in (folder / "witness").read_text().split()]


def test_a_host_whose_network_is_cut_loses_its_lease_and_writes_nothing_afterwards(
    crowd: Crowd, tmp_path: Path, server: Server
) -> None:
    with Host() as host, Proxy(server.port, host.address) as proxy:
        url = server.url("cut", options={"tcp_user_timeout": 2000})
        far_url = url.replace(f"127.0.0.1:{server.port}", f"{host.address}:{proxy.port}")
        far = crowd.start(HOLDER, tmp_path, far_url, TTL, name="far", prefix=[*host.prefix, *APART])
        far.tell("take")
        token = int(far.wait_for("took")[0])
        far.tell("write")
        assert far.wait_for("write") == ["done"]
        host.cut()
        begin = time.monotonic()
        far.tell("write")
        with LockManager.open(tmp_path, store=url) as near:
            assert near.try_acquire(holder="near", write_paths=["x"]) is None
            assert far.wait_for("write", 2) == ["E_STORE"]
            grant = near.acquire(holder="near", write_paths=["x"], timeout=60)
            assert time.monotonic() - begin >= TTL / 2
            with near.fenced(grant), (tmp_path / "witness").open("a") as witness:
                witness.write(f"{grant.token}\n")
            host.mend()
            far.tell("verify")
            assert far.wait_for("verify", seconds=60)[0] in ("E_LOCK_EXPIRED", "E_STORE")
            until_answered(far)
            far.tell("write")
            assert far.wait_for("write", 3) == ["E_LOCK_EXPIRED"]
            near.release(grant.id)
            far.tell("take")  # without a restart
            again = int(far.wait_for("took", 2, seconds=60)[0])
            far.tell("write")
            assert far.wait_for("write", 4) == ["done"]
        assert written(tmp_path) == [token, grant.token, again]
        assert token < grant.token < again


def until_answered(far: object) -> None:
    """Wait until a call of the host reaches the server again."""
    from helpers_processes import Child

    assert isinstance(far, Child)
    asked = len(far.words("verify"))
    while far.words("verify")[-1] != ["E_LOCK_EXPIRED"]:
        far.tell("verify")
        asked += 1
        far.wait_for("verify", asked, seconds=60)


def test_a_host_that_was_stopped_beyond_its_lease_has_lost_it(
    crowd: Crowd, tmp_path: Path, server: Server
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for process ids of its own")
    url = server.url("stopped")
    far = crowd.start(HOLDER, tmp_path, url, TTL, name="far", prefix=APART)
    far.tell("take")
    token = int(far.wait_for("took")[0])
    (inside,) = children_of(far.pid)
    os.kill(inside, 19)
    with LockManager.open(tmp_path, store=url) as near:
        assert near.try_acquire(holder="near", write_paths=["x"]) is None
        grant = near.acquire(holder="near", write_paths=["x"], timeout=60)
        far.tell("write")
        os.kill(inside, 18)
        assert far.wait_for("write") == ["E_LOCK_EXPIRED"]
        far.tell("verify")
        assert far.wait_for("verify") == ["E_LOCK_EXPIRED"]
        assert near.verify(grant.id, token=grant.token)
        assert token < grant.token
        assert not (tmp_path / "witness").read_text()


@pytest.mark.parametrize("offset", ["+10m", "-10m"])
def test_a_host_whose_clock_is_wrong_has_its_lease_for_as_long_as_any_other(
    crowd: Crowd, tmp_path: Path, server: Server, offset: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, for process ids of its own")
    url = server.url(f"clock{offset}")
    far = crowd.start(HOLDER, tmp_path, url, TTL, name="far", prefix=[*wrong_clock(offset), *APART])
    with LockManager.open(tmp_path, store=url) as near:
        far.tell("take")
        token, expires_at, its_time = map(float, far.wait_for("took"))
        assert abs(its_time - time.time()) > 500, "faketime did not change its clock"
        now = near.now() / 1e6
        assert 0 < expires_at - now <= TTL
        assert near.try_acquire(holder="near", write_paths=["x"]) is None
        far.tell("verify")
        assert far.wait_for("verify") == ["done"]
        # Now the other way round: this host's lease, seen by the one whose clock is wrong.
        begin = time.monotonic()
        grant = near.acquire(holder="near", write_paths=["x"], ttl=TTL, timeout=60)
        assert time.monotonic() - begin <= TTL + 5
        taken = time.monotonic()
        far.tell("write")
        assert far.wait_for("write") == ["E_LOCK_EXPIRED"]
        far.tell("take")
        again = float(far.wait_for("took", 2, seconds=60)[0])
        assert time.monotonic() - taken >= TTL - 1
        assert token < grant.token < again
        until(lambda: not near.verify(grant.id, token=grant.token), "this lease is over, too")
