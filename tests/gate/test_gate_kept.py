"""The gate on a ledger that several hosts use: every lease has an end, and a keeper moves it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holder, LockManager
from holdfast.core.errors import StoreError
from holdfast.core.model import SECOND, Witness, agent_key
from holdfast.core.root_errors import SettingsError
from holdfast.gate import client_keeper, side_process
from holdfast.gate.people.file_standing import standings
from holdfast.gate.people.ledger_picture import Picture
from holdfast.manager import transactions
from holdfast.manager.clock import FakeClock
from holdfast.manager.files.keepsakes import Keepsake, marked
from holdfast.manager.owners.liveness import own_witness
from holdfast.manager.owners.variables import STORE
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite.sql_view import SqlView
from holdfast.store.sqlite.sqlite_store import SqliteStore
from stage import Actor, Stage, settled

LEASE = 120


@pytest.fixture
def stage(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage whose leases have to be renewed."""
    monkeypatch.setattr(SqliteStore, "lease", LEASE * SECOND)
    monkeypatch.setattr(SqlView, "lease", LEASE * SECOND)
    settled(repository / "app/x.rb", repository / "lib/y.rb")
    made = Stage(repository)
    yield made
    made.close()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions for which a keeper was started, in order."""
    found: list[str] = []

    def start(_root: str, key: str, _client: Witness, _seconds: float, store: Any) -> int:
        assert store.lease == LEASE * SECOND
        found.append(key)
        return 1

    monkeypatch.setattr(client_keeper, "start", start)
    return found


def ends(actor: Actor) -> set[int | None]:
    return {grant.expires_at for grant in actor.grants()}


def test_a_lease_of_an_agent_has_an_end_from_its_start(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb", "lib/y.rb")
    assert ends(ann) == {stage.manager.now() + LEASE * SECOND}
    assert {grant.ttl for grant in ann.grants()} == {None}


def test_without_events_and_without_a_keeper_it_is_free_then(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    stage.clock.advance(LEASE - 0.000001)
    assert bob.edit("app/x.rb").kind == "deny"
    stage.clock.advance(0.000001)
    assert bob.edit("app/x.rb").kind == "allow"


def test_events_of_its_owner_renew_it_whether_any_agent_was_refused_or_not(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    for _ in range(5):
        stage.clock.advance(LEASE - 1)
        ann.gate().live_on()
        assert ends(ann) == {stage.manager.now() + LEASE * SECOND}
    assert bob.edit("app/x.rb").kind == "deny"
    assert stage.events("leases_limited") == []


def test_a_refusal_does_not_prolong_it(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    before = ends(ann)
    stage.clock.advance(100)
    assert bob.edit("app/x.rb").kind == "deny"
    assert ends(ann) == before


def test_an_agent_that_was_stopped_beyond_its_lease_is_refused_with_the_owner(
    stage: Stage,
) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    stage.clock.advance(LEASE)
    assert bob.edit("app/x.rb").kind == "allow"
    answer = ann.edit("app/x.rb")
    assert answer.kind == "deny"
    assert "bob" in answer.reason
    assert ann.held() == []


def test_its_events_never_revive_a_lease_that_has_ended(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    stage.clock.advance(LEASE)
    ann.gate().live_on()
    assert stage.owner("app/x.rb") == ""


def test_an_idle_agent_still_gives_its_files_back(stage: Stage) -> None:
    ann = stage.agent("ann")
    ann.edit("app/x.rb")
    ann.stop()
    stage.clock.advance(stage.settings.idle_seconds)
    assert stage.owner("app/x.rb") == ""


def test_people_do_not_read_an_end(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.hide("ann")
    refusal = bob.edit("app/x.rb")
    assert "lease ends" not in refusal.reason
    held = ann.grants()
    (shown,) = transactions.look(stage.manager, lambda view: standings(view, held))[:1]
    assert (shown.until, shown.how) == (None, "")
    picture = Picture(stage.manager, True, str(stage.root))
    assert [until for _grant, _why, until in picture.grants] == [None]
    essence = picture.essence()
    stage.clock.advance(60)
    ann.gate().live_on()
    assert Picture(stage.manager, True, str(stage.root)).essence()[1] == essence[1]


# The keeper


def test_every_event_that_leaves_leases_starts_a_keeper(stage: Stage, started: list[str]) -> None:
    ann = stage.agent("ann")
    key = agent_key("claude", "ann")
    ann.gate().session_start()
    assert started == []
    ann.edit("app/x.rb")
    assert started == [key]
    ann.gate().live_on()  # the first may have been killed
    assert started == [key] * 2
    ann.stop()
    assert started == [key] * 3
    ann.gate().prompt()
    assert started[-1:] == [key]
    count = len(started)
    ann.gate().end_session()
    assert len(started) == count


def test_a_sub_agents_leases_are_kept_with_its_session(stage: Stage, started: list[str]) -> None:
    ann, child = stage.agent("ann"), stage.agent("ann", "sub")
    ann.starts(child)
    child.edit("app/x.rb")
    assert started == [agent_key("claude", "ann")]


def test_a_keeper_that_runs_is_not_started_again(
    stage: Stage, started: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_keeper, "is_running", lambda *_: True)
    stage.agent("ann").edit("app/x.rb")
    assert started == []


def test_an_embedded_ledger_needs_none(repository: Path, started: list[str]) -> None:
    made = Stage(repository)
    try:
        made.agent("ann").edit("app/x.rb")
        assert started == []
    finally:
        made.close()


def test_it_gets_what_a_server_needs_and_nothing_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/secret/pgpass")
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "ann")
    monkeypatch.delenv(STORE, raising=False)
    calls: list[tuple[Any, ...]] = []

    def spawn(module: str, words: list[str], environ: dict[str, str]) -> int:
        calls.append((module, words, environ))
        return 7

    monkeypatch.setattr(side_process, "start", spawn)
    store = MemoryStore(clock=FakeClock(), is_dead=lambda *_: False, lease=LEASE * SECOND)
    monkeypatch.setattr(store, "url", "postgresql://there/db#repo", raising=False)
    own = own_witness()
    assert client_keeper.start(str(tmp_path), "key", own, 1800, store) == 7
    ((module, words, environ),) = calls
    assert module == client_keeper.__name__
    assert words == [
        str(tmp_path), "key", str(own.pid), str(own.start), "120.0", "postgresql://there/db#repo"
    ]  # fmt: skip
    assert environ["PGPASSFILE"] == "/secret/pgpass"
    assert environ[STORE] == "postgresql://there/db#repo"
    assert "CLAUDE_CODE_SESSION_ID" not in environ
    assert "PATH" not in environ
    monkeypatch.setenv(STORE, "postgresql://me:secret@there/db")
    client_keeper.start(str(tmp_path), "key", own, 1800, store)
    assert calls[1][2][STORE] == "postgresql://me:secret@there/db"
    assert "secret@" not in " ".join(calls[1][1])


def test_it_goes_on_through_an_outage_while_its_client_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".holdfast").mkdir()
    answers: list[bool | None] = [True, None, None, None, True, False]
    seen: list[str] = []

    def renewed(*words: Any) -> bool:
        seen.append(words[-1])
        answer = answers.pop(0)
        if answer is None:
            raise StoreError("the server cannot be reached", hint="wait")
        return answer

    monkeypatch.setattr(client_keeper, "_renewed", renewed)
    client_keeper.keep(str(tmp_path), "key", own_witness(), 0.03, "postgresql://there/db#repo")
    assert answers == []
    assert set(seen) == {"postgresql://there/db#repo"}
    assert os.listdir(tmp_path / ".holdfast/beside") == []


def test_it_goes_on_while_the_server_is_not_named_rightly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may be in the middle of a change of the settings."""
    (tmp_path / ".holdfast").mkdir()
    answers = [True, None, False]

    def renewed(*_: Any) -> bool:
        answer = answers.pop(0)
        if answer is None:
            raise SettingsError("store in holdfast.toml must be a URL", hint="correct it")
        return answer

    monkeypatch.setattr(client_keeper, "_renewed", renewed)
    client_keeper.keep(str(tmp_path), "key", own_witness(), 0.03, "postgresql://there/db#repo")
    assert answers == []


def test_one_decision_renews_everything_of_the_client_and_nothing_else() -> None:
    clock = FakeClock()
    store = MemoryStore(clock=clock, is_dead=lambda *_: None, lease=LEASE * SECOND)
    client = Witness(host="h", boot="b", namespace="n", pid=1, start=2)
    other = Witness(host="h", boot="b", namespace="n", pid=3, start=4)
    with LockManager(store, clock=clock) as manager:
        ann = agent_key("claude", "ann")
        holders = [(ann, client), (f"{ann}sub", client), (f"{ann}old", other), ("bob", client)]
        for place, (key, witness) in enumerate(holders):
            holder = Holder(id=key, key=key, witness=witness)
            manager.acquire(holder=holder, write_paths=[f"x{place}"], ttl=None)
        clock.advance(40)
        head = [event.seq for event in manager.events()][-1]
        assert transactions.decide(
            manager, lambda view: client_keeper.renewal(view, ann, client, LEASE * SECOND)
        )
        (event,) = manager.events(head)
        assert (event.type, event.data["holders"]) == ("leases_kept", [ann, f"{ann}sub"])


def test_a_keeper_finds_the_leases_of_a_holder_that_is_no_agent(stage: Stage) -> None:
    """The command line starts one for a person's shell. Only agents are found by the start of their
    keys."""
    shell = stage.processes.start()
    person = Holder(id="me", key="me@7", witness=shell)
    namesake = Holder(id="me", key="me@77", witness=shell)
    grant = stage.manager.acquire(holder=person, write_paths=["app/x.rb"], ttl=None)
    stage.manager.acquire(holder=namesake, write_paths=["lib/y.rb"], ttl=None)
    stage.clock.advance(40)
    assert transactions.decide(
        stage.manager, lambda view: client_keeper.renewal(view, "me@7", shell, LEASE * SECOND)
    )
    (event,) = stage.events("leases_kept")
    assert event.data["grants"] == [grant.id]


@pytest.mark.parametrize("event", ["edit", "stop", "prompt"])
def test_a_file_that_another_host_hands_to_an_agent_is_as_it_was_before_a_half_done_edit(
    stage: Stage, event: str
) -> None:
    """A task's host crashed, and its lease ends. The other host has no half edit to restore."""
    keepsake = Keepsake(str(stage.root), "task-1")
    os.makedirs(keepsake.folder)
    keepsake.begin()
    task = marked(Holder(id="task-1", key="task-1@1", witness=stage.processes.start()))
    stage.manager.acquire(holder=task, write_paths=["app/x.rb"], ttl=None)
    keepsake.add(f"{stage.root}/app/x.rb", "app/x.rb")
    before = (stage.root / "app/x.rb").read_text()
    (stage.root / "app/x.rb").write_text("half\n")
    ann = stage.agent("ann")
    assert ann.edit("app/x.rb").kind == "deny"
    stage.clock.advance(LEASE + 1)
    store: Any = stage.manager.store
    with LockManager(store.shared, clock=stage.clock) as there:
        assert there.reap()
        assert ann.held() == ["app/x.rb"]
        if event == "edit":
            assert ann.edit("app/x.rb", write=None).kind == "allow"
        elif event == "stop":
            ann.stop(may_go_on=True)
        else:
            assert "app/x.rb" in ann.gate().prompt().context
        assert (stage.root / "app/x.rb").read_text() == before
        assert not keepsake.is_there
