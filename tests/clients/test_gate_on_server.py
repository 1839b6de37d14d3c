"""The gate between one Claude Code and one Codex, each in its own clone as on a host of its own:
the ledger is on a PostgreSQL server."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

from helpers_postgres import Server, own_server
from helpers_processes import LINUX_ONLY, until

from .crew import Agent, Claudes, Codexes, Gateway, is_refusal
from .gated import AT_ONCE, HELD, WOKEN
from .hosts import APART, SHORT_SECONDS, Host, go_on, stop, with_short_leases
from .servers import AnthropicServer, OpenAIServer

pytestmark = LINUX_ONLY

NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for process ids of its own")
ROUNDS = 2
#: The answer is immediate, and soon there where the server is away.
AWAY = {**AT_ONCE, "timeout_seconds": 15}
#: What a person does when the server is away; a part of the refusal's sentence.
MEND = "Start the server or mend the network"


class Two:
    """A host with Claude Codes and a host with Codexes."""

    def __init__(
        self, repo: Path, server: Server, anthropic: AnthropicServer, openai: OpenAIServer
    ) -> None:
        # The first commits of all tests are equal, and most tests share one server.
        self.url = server.url(f"clients/{uuid4()}")
        self.here = Host(repo, self.url)
        self._site: Path | None = None
        self._before: Sequence[str] = ()
        self.anthropic, self.openai = anthropic, openai

    def apart(self, folder: Path) -> Self:
        """From now on neither host can judge the clients of the other, and leases are short."""
        self._site, self._before = with_short_leases(folder), APART
        return self

    def init(self, **settings: object) -> tuple[Claudes, Codexes]:
        """Guard both clones."""
        root = self.here.root
        self.here = Host(root, self.url, self._site)
        self.here.init(**settings)
        self.there = self.here.clone(root.parent / "there", self.url, self._site)
        self.here.before = self.there.before = self._before
        return Claudes(self.here, self.anthropic), Codexes(self.there, self.openai)


@pytest.fixture
def two(
    repo: Path, postgres_server: Server, anthropic: AnthropicServer, openai: OpenAIServer
) -> Two:
    return Two(repo, postgres_server, anthropic, openai)


def is_held_by(who: str, path: str = "a.txt") -> str:
    return f"{path} has been locked for writing by {who}"


def test_each_is_refused_what_the_other_has_hears_who_and_goes_on_when_it_is_free(two: Two) -> None:
    claudes, codexes = two.init(**HELD)
    codex = codexes.owner()
    over = Gateway()
    wanted = claudes.edit("a.txt", "old", "claude's")
    claude = claudes.start("claude", claudes.edit("b.txt", "old", "new"), wanted, over.then(wanted))
    claude.has_done(2)
    assert is_held_by(codex.name) in claude.results[1]
    other = codexes.run("other", codexes.edit("b.txt", "old", "codex's"))
    assert is_held_by(claude.name, "b.txt") in other.results[0]
    assert (two.here.text(), two.there.text("b.txt")) == ("old\n", "old\n")
    assert two.here.held() == {"a.txt": codex.name, "b.txt": claude.name} == two.there.held()
    codex.ends()
    over.open()
    claude.ends()
    assert not is_refusal(claude.results[2])
    assert (two.here.text(), two.there.text()) == ("claude's\n", "mine\n")
    assert two.here.held() == {}
    assert not (two.there.root / ".holdfast/ledger.db").exists()


def test_at_once_on_one_file_they_take_turns_and_each_edits_only_during_its_lease(two: Two) -> None:
    crews = two.init(**WOKEN)
    for number in range(ROUNDS):
        over = Gateway()
        agents: dict[Agent, Host] = {}
        for crew, host in zip(crews, (two.here, two.there), strict=True):
            insert = crew.insert("a.txt", f"line {number}", "old")
            home = host.root.parent / crew.client
            agent = crew.start(f"{crew.client}-{number}", insert, over.then(), home=home)
            agents[agent] = host
        until(
            lambda: len(two.here.happened("contention_heartbeat")) > number,  # noqa: B023
            "one must wait",
        )
        over.open()
        for agent in agents:
            assert not is_refusal(agent.ends().stdout + "".join(agent.results))
        for agent, host in agents.items():
            begin, end = two.here.leases("a.txt")[agent.name]
            changed = (host.root / "a.txt").stat().st_mtime
            assert begin < changed < end
        (_, end), (begin, _) = sorted(two.here.leases("a.txt").values())[-2:]
        assert end <= begin
    lines = [*(f"line {number}" for number in range(ROUNDS)), "old"]
    assert two.here.text().splitlines() == two.there.text().splitlines() == lines


@NEEDS_ROOT
def test_keepers_renew_the_leases_of_their_clients_beyond_their_length(
    two: Two, tmp_path: Path
) -> None:
    claudes, codexes = two.apart(tmp_path).init(**AT_ONCE)
    claude = claudes.owner()
    over = Gateway()
    wanted = codexes.edit("a.txt", "old", "theirs")
    codex = codexes.start("codex", codexes.edit("b.txt", "old", "mine"), over.then(wanted))
    codex.has_done(1)
    until(lambda: len(two.here.held()) == 2, "both have a lease")
    held = {"a.txt": claude.name, "b.txt": codex.name}
    time.sleep(2.5 * SHORT_SECONDS)  # the clients are silent, as in a long turn
    assert two.here.held() == held
    over.open()
    codex.ends()
    assert is_held_by(claude.name) in codex.results[1]
    claude.ends()
    renewed = [event["data"]["holders"] for event in two.here.happened("leases_kept")]
    for name in held.values():
        assert renewed.count([name]) >= 2
    assert two.here.held() == {}


@NEEDS_ROOT
def test_a_client_that_was_stopped_beyond_its_lease_is_refused_what_another_took(
    two: Two, tmp_path: Path
) -> None:
    claudes, codexes = two.apart(tmp_path).init(**AT_ONCE)
    over = Gateway()
    first, again = claudes.edit("a.txt", "old", "mine"), claudes.edit("a.txt", "mine", "again")
    claude = claudes.start("claude", first, over.then(again))
    claude.has_done(1)
    assert two.there.held() == {"a.txt": claude.name}
    stopped = stop(claude.running)
    until(lambda: two.there.held() == {}, "the lease of a stopped client ends")
    codex = codexes.owner()
    over.open()
    go_on(stopped)
    claude.ends()
    assert is_held_by(codex.name) in claude.results[1]
    assert two.here.text() == "mine\n"
    assert two.there.held() == {"a.txt": codex.name}
    codex.ends()


def test_without_the_server_an_edit_is_refused_with_the_reason_and_allowed_when_it_is_back(
    repo: Path, anthropic: AnthropicServer, openai: OpenAIServer
) -> None:
    with own_server() as server:
        two = Two(repo, server, anthropic, openai)
        away, back = Gateway(), Gateway()
        agents = []
        for crew, path in zip(two.init(**AWAY), ("a.txt", "b.txt"), strict=True):
            call = crew.edit(path, "old", "new")
            steps = crew.shell("true"), away.then(call), back.then(call)
            agents.append(crew.start(crew.client, *steps))
        for agent in agents:
            agent.has_done(1)
        server.stop()
        away.open()
        for agent in agents:
            agent.has_done(2)
            assert is_refusal(agent.results[1])
            assert "the ledger's server cannot be reached" in agent.results[1]
            assert MEND in agent.results[1]
            assert server.password not in agent.results[1]
        assert (two.here.text("a.txt"), two.there.text("b.txt")) == ("old\n", "old\n")
        server.start()
        back.open()
        for agent in agents:
            agent.ends()
        assert (two.here.text("a.txt"), two.there.text("b.txt")) == ("new\n", "new\n")
