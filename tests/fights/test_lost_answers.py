"""Connections that are lost in the middle of a call: the call goes on, and is made once.

The answer to a commit may be lost, too; then it is found out whether it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from helpers_postgres import Server, own_server
from helpers_processes import LINUX_ONLY, Crowd, until
from holdfast import LockGrant, LockManager, StoreError
from holdfast.store.postgres import server_session
from holdfast.store.postgres.server_session import ServerSession

pytestmark = LINUX_ONLY


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests kill; each test has a repository of its own on it."""
    with own_server() as made:
        yield made


class LostCommit:
    """The next commit of this process: trouble comes before it, or after it; its answer is lost."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, trouble: Any, *, arrives: bool) -> None:
        self.happened = 0
        commit = ServerSession.commit

        def lost(session: ServerSession, writes: Any) -> None:
            if self.happened:
                commit(session, writes)
                return
            self.happened += 1
            if arrives:
                commit(session, writes)
            trouble()
            session.connection.close()
            raise server_session.SessionLostError("the answer was lost", in_commit=True)

        monkeypatch.setattr(ServerSession, "commit", lost)


@pytest.mark.parametrize("arrives", [True, False], ids=["it arrived", "it did not arrive"])
@pytest.mark.parametrize("trouble", ["crash", "cut"])
def test_a_decision_whose_answer_was_lost_is_made_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, arrives: bool, trouble: str
) -> None:
    """A server that crashed gives the numbers of lost transactions to others."""
    url = server.url(f"lost-{trouble}-{arrives}")
    with LockManager.open(store=url) as ours, LockManager.open(store=server.url("other")) as other:

        def happen() -> None:
            if trouble == "crash":
                server.kill()
                server.start()
            else:
                server.cut_all()
            for number in range(5):
                found = other.try_acquire(holder="other", write_paths=[f"{trouble}{number}"])
                assert found is not None
                other.release(found.id)

        for number in range(3):
            assert ours.try_acquire(holder="before", write_paths=[f"{number}"])
        lost = LostCommit(monkeypatch, happen, arrives=arrives)
        grant = ours.try_acquire(holder="ann", write_paths=["x"])
        assert lost.happened == 1
        assert grant is not None
        assert ours.verify(grant.id, token=grant.token), "it was told a grant that is not there"
        events = [event for event in ours.events() if event.data.get("id") == grant.id]
        assert [event.type for event in events] == ["lock_acquired"]


# In the middle of other calls


class LostQuestion:
    """A question about grants, in the middle of a call: the connection is lost over it, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], object]) -> None:
        self.happened = 0
        ask = ServerSession.ask

        def lost(session: ServerSession, statement: bytes, values: Any = ()) -> Any:
            if not self.happened and any(
                words in statement for words in (b"from live", b"from events")
            ):
                self.happened += 1
                trouble()
            return ask(session, statement, values)

        monkeypatch.setattr(ServerSession, "ask", lost)


CALLS: dict[str, Callable[[LockManager, LockGrant], object]] = {
    "verify": lambda manager, grant: manager.verify(grant.id, token=grant.token).allowed,
    "fenced": lambda manager, grant: enter(manager, grant),
    "released": lambda manager, grant: not grant.released,
    "active_grants": lambda manager, grant: (
        [one.id for one in manager.active_grants()] == [grant.id]
    ),
    "reap": lambda manager, grant: manager.reap() == [],
    "events": lambda manager, grant: len(list(manager.events())) == 3,
    "renew": lambda manager, grant: manager.renew(grant.id).id == grant.id,
    "release": lambda manager, grant: manager.release(grant.id),
}


def grant_of(manager: LockManager, who: str) -> LockGrant:
    grant = manager.try_acquire(holder=who, write_paths=["y"])
    assert grant is not None
    return grant


def enter(manager: LockManager, grant: LockGrant) -> bool:
    with manager.fenced(grant):
        return True


@pytest.mark.parametrize("call", CALLS)
def test_a_call_goes_on_when_its_connection_is_lost_in_the_middle(
    server: Server, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    url = server.url(f"middle-{call}")
    with LockManager.open(store=url) as manager, LockManager.open(store=url) as other:
        grant = manager.try_acquire(holder="ann", write_paths=["x"])
        assert grant is not None
        other.release(grant_of(other, "bob").id)  # so what the first knows is no longer new
        lost = LostQuestion(monkeypatch, server.cut_all)
        assert CALLS[call](manager, grant)
        assert lost.happened == 1


def test_a_waiter_goes_on_when_the_server_was_away_for_longer_than_one_call_may_take(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.manager.ledger.DEADLINE_SECONDS", 1.0)
    url = server.url("patient")
    with LockManager.open(store=url) as ours, LockManager.open(store=url) as other:
        grant = other.try_acquire(holder="ann", write_paths=["x"])
        assert grant is not None
        got: list[object] = []

        def wait() -> None:
            got.append(ours.acquire(holder="bob", write_paths=["x"], timeout=60).token)

        waiter = Thread(target=wait)
        waiter.start()
        until(lambda: len(other.queue()) == 1, "it stands in line")
        server.kill()
        with pytest.raises(StoreError):  # it failed closed, in its own time
            other.verify(grant.id, token=grant.token)
        server.start()
        until(lambda: len(other.queue()) == 1, "the ticket is still there")
        other.release(grant.id)
        waiter.join(30)
        assert [token > grant.token for token in got if isinstance(token, int)] == [True]


QUIET = """
from holdfast import LockManager
from holdfast.store.postgres.server_session import ServerSession

commit = ServerSession.commit


def slow(session, writes):
    say("commits")
    go()
    commit(session, writes)


ServerSession.commit = slow
with LockManager.open(store=sys.argv[1]) as manager:
    say("got", manager.try_acquire(holder="ann", write_paths=["x"]) is not None)
"""


def test_a_connection_that_is_lost_in_a_commit_puts_no_words_of_the_driver_on_the_screen(
    crowd: Crowd, server: Server
) -> None:
    child = crowd.start(QUIET, server.url("quiet"))
    child.wait_for("commits")
    server.cut_all()
    child.tell()
    child.wait_for("commits", 2)
    child.tell()
    assert child.wait_for("got") == ["True"]
    child.done()
    assert child.trouble.read_text() == ""
