"""A commit whose answer was lost: it is found out whether it happened, whatever the server did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from helpers_postgres import Server, own_server
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
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
