"""What people keep open goes on while the server of the ledger is away, and says that it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_cli import COMMAND, Answer, Repository, Terminal
from helpers_postgres import Server, own_server
from helpers_processes import until
from helpers_server import Stream, ask
from holdfast.manager.manager import LockManager
from holdfast.server import server as page

AWAY = "the ledger's server cannot be reached"
BACK = "the ledger's server is back"


class World:
    """A repository whose ledger is on a server of its own, and what watches it."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.server = server
        self.url = server.url("watched")
        self.repo = Repository(folder / "repository")
        self._terminals: list[Terminal] = []

    def hold(self, *words: str) -> Answer:
        answer = self.repo.hold(*words, env={"HOLDFAST_STORE": self.url})
        assert answer.code == 0, answer
        return answer

    def open(self, line: str) -> Terminal:
        """A terminal in which a command runs."""
        made = Terminal(self.repo, HOLDFAST_STORE=self.url)
        self._terminals.append(made)
        made.type(f"{' '.join(COMMAND)} {line}; echo code:$?\n")
        return made

    def close(self) -> None:
        for one in self._terminals:
            one.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with own_server() as server:
        made = World(tmp_path, server)
        yield made
        made.close()


def test_whoever_watches_hears_that_the_server_is_away_and_goes_on_when_it_is_back(
    world: World,
) -> None:
    world.hold("lock", "app/x.rb", "--holder", "ann")
    watch, log, top = (world.open(line) for line in ("status --watch", "log --follow", "top"))
    with (
        LockManager.open(world.repo.root, store=world.url) as manager,
        page.Server(manager, port=0) as site,
    ):
        stream = Stream(site, "/api/events?after=0")
        assert json.loads(stream.next()["data"])["type"] == "lock_acquired"
        for one in (watch, log, top):
            one.shows("app/x.rb")
        world.server.stop()
        for one in (watch, log, top):
            one.shows(AWAY)
        until(lambda: ask(site, "/healthz").status == 503, "the page is in trouble")
        assert AWAY in ask(site, "/healthz").json["message"]
        refused = ask(site, "/api/events?after=1")
        assert (refused.status, refused.code) == (503, "E_STORE")
        world.server.start()
        world.hold("lock", "app/y.rb", "--holder", "ben")
        for one in (watch, log, top):
            one.shows("app/y.rb")
        until(lambda: ask(site, "/healthz").status == 200, "the page is well again")
        again = Stream(site, "/api/events?after=1")
        assert json.loads(again.next()["data"])["seq"] == 2
    assert BACK in watch.read().decode()
    assert log.read().decode().count("ann locked app/x.rb") == 1
    for one, key in ((watch, "\x03"), (log, "\x03"), (top, "q")):
        one.type(key)
        one.shows("code:0" if key == "q" else "code:130")
