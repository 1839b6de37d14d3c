"""The server: its answers, its orders, and the requests that it refuses."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.scenes import analysed, crowd, workshop
from conftest import until
from helpers_agents import Agent, blocked
from helpers_cli import COMMAND, environment
from helpers_server import PATIENCE_SECONDS, Far, Serving, Stream, ask, own_headers, post
from holdfast.core import events
from holdfast.core.errors import InvalidInput
from holdfast.core.events import ENDINGS
from holdfast.gate.config.settings import Settings
from holdfast.gate.door.delegated_calls import GAP
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.server import event_stream, ledger_feed, routes, server
from holdfast.server.server import ListenError, Server
from holdfast.work.engine import item_store, scheduler, stop_requests
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.scheduler import Here
from holdfast.work.engine.work_items import LockRequest, WorkItem
from holdfast.work.launching.run_folders import Run
from holdfast.work.screens import assignment, workflow_records
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.pipeline import Pipeline
from holdfast.work.screens.workflow_records import Flows
from holdfast.work.tasks import task_records


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return workshop(tmp_path / "shop")


@pytest.fixture
def manager(root: Path) -> Iterator[LockManager]:
    with LockManager.open(str(root)) as found:
        yield found


@pytest.fixture
def site(root: Path) -> Iterator[Server]:
    """A server with a ledger of its own, as in another process."""
    with LockManager.open(str(root)) as own, Server(own, port=0) as made:
        yield made


class Shown:
    """A server that many tests share, because they change nothing, and the state that it shows."""

    def __init__(self, root: Path, site: Server, manager: LockManager) -> None:
        self.root, self.site, self.manager = root, site, manager
        self.item = sent_out(manager, ["app/shared.rb"])
        log = printed(root, self.item.id, b"text")
        (log.parent / "before.json").write_text("{}")
        (log.parent / "link.log").symlink_to(root / "holdfast.toml")
        os.mkfifo(log.parent / "pipe.log")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    root = workshop(tmp_path_factory.mktemp("shown") / "shop")
    with (
        LockManager.open(str(root)) as manager,
        LockManager.open(str(root)) as own,
        Server(own, port=0) as made,
    ):
        yield Shown(root, made, manager)


def head(manager: LockManager) -> int:
    return transactions.look(manager, lambda view: view.head)


def lock(manager: LockManager, path: str, holder: str = "ann") -> str:
    grant = manager.try_acquire(holder=holder, write_paths=[path])
    assert grant is not None
    return grant.id


def sent_out(manager: LockManager, writes: list[str], workflow: str = "blog/posts") -> WorkItem:
    desk = ItemStore(manager)
    item = desk.enqueue(workflow, "apply", LockRequest.of([], writes), {"group": workflow})
    assert item is not None
    claimed = desk.claim(item, Here().holder(item))
    assert isinstance(claimed, tuple)
    return claimed[0]


# The state


def test_seed004_29_the_state_has_phase_controllers_workflows_and_locks(
    site: Server, manager: LockManager, root: Path
) -> None:
    assert ask(site, "/api/state").json["phase"] == "ready"
    analysed(manager, root)
    item = sent_out(manager, ["app/shared.rb"])
    ItemStore(manager).enqueue("blog/tags", "apply", LockRequest.of([], ["app/shared.rb"]))
    state = ask(site, "/api/state").json
    assert state["phase"] == "merging"
    assert [one["name"] for one in state["controllers"]] == ["blog/posts", "blog/comments"]
    assert state["controllers"][0]["analysed"] == 2
    assert state["workflows"]["blog/posts"]["state"] == "awaiting_decisions"
    locks = state["locks"]
    assert [one["write_paths"] for one in locks["active_grants"]] == [["app/shared.rb"]]
    assert locks["active_grants"][0]["name"] == "blog/posts"
    assert locks["queue_depth"] == 1
    active = locks["active_items"][0]
    for field in ("id", "workflow", "phase", "status", "queued_at", "dispatched_at", "grant_id"):
        assert active[field], field
    assert active["id"] == item.id
    assert state["head"] == head(manager)


def test_the_state_says_why_an_item_waits_and_for_which_holder(
    site: Server, manager: LockManager
) -> None:
    sent_out(manager, ["app/shared.rb"])
    waiting = ItemStore(manager).enqueue(
        "blog/tags", "apply", LockRequest.of(["app/"], ["lib/x.rb"])
    )
    assert waiting is not None
    one = ask(site, "/api/state").json["waiting"][0]
    assert one["waits_for"] == "locks"
    assert one["for"] == ["blog/posts"]
    assert one["why"][0]["path"] == "app/"
    assert one["why"][0]["held_path"] == "app/shared.rb"
    assert "app/" in one["sentence"]
    why = ask(site, f"/api/why?item={waiting.id}&item=nobody").json["waiting"]
    assert why[waiting.id]["for"] == ["blog/posts"]
    assert list(why) == [waiting.id]


def test_an_item_that_waits_for_no_lock_waits_for_a_slot_or_a_dispatcher(
    site: Server, manager: LockManager
) -> None:
    ItemStore(manager).enqueue("blog/tags", "apply", LockRequest.of([], ["lib/x.rb"]))
    assert ask(site, "/api/state").json["waiting"][0]["waits_for"] == "dispatcher"
    sent_out(manager, ["app/shared.rb"])
    assert ask(site, "/api/state").json["waiting"][0]["waits_for"] == "slot"


def test_the_state_has_tickets_with_the_holders_that_they_wait_for(
    site: Server, manager: LockManager
) -> None:
    lock(manager, "app/x.rb")
    request = manager.request("ben", (), ["app/x.rb"])
    transactions.queue(manager, request)
    ticket = ask(site, "/api/state").json["tickets"][0]
    assert ticket["holder"] == "ben"
    assert ticket["for"] == ["ann"]
    assert ticket["write_paths"] == ["app/x.rb"]


def test_the_state_has_gaps_blockers_and_the_error_of_a_scheduler(
    site: Server, manager: LockManager
) -> None:
    for name in ("list", "show"):
        request = LockRequest.of([f"app/{name}.rb"], ())
        ItemStore(manager).enqueue(
            f"blog/posts/{name}", "analyze", request, {"group": "blog/posts"}
        )
    item = sent_out(manager, ["app/shared.rb"])
    gap = {"grant": item.grant_id, "path": "lib/z.rb", "why": "not covered", "client": "claude"}
    transactions.note(manager, GAP, gap)
    ann = Agent(manager, "ann")
    ann.edit("app/x.rb")
    eve = blocked(manager, "eve", "app/x.rb")
    transactions.note(manager, scheduler.BROKEN, {"error": "it fell"}, name=scheduler.TROUBLE)
    until(lambda: site.feed.head == head(manager), "the feed has seen it")
    state = ask(site, "/api/state").json
    assert state["phase"] == "error"
    assert state["trouble"] == "it fell"
    [found] = state["gaps"]
    assert (found["path"], found["workflow"], found["possible"]) == ("lib/z.rb", "blog/posts", True)
    assert found["screens"] == ["blog/posts/list", "blog/posts/show"]
    [report] = state["blockers"]
    assert (report["agent"], report["agent_key"], report["owner"]) == (eve.name, eve.key, ann.name)
    assert report["blocked_file"] == "app/x.rb"


def test_the_state_has_the_states_of_agents_towards_files(
    site: Server, manager: LockManager
) -> None:
    ann, ben = Agent(manager, "ann"), Agent(manager, "ben")
    ann.edit("app/x.rb", "app/y.rb")
    ben.edit("app/x.rb")
    blocked(manager, "eve", "app/y.rb")
    for path in ("/api/state", "/api/agents"):
        told = ask(site, path).json
        found = [(one["agent"], one["file"], one["state"], one["owner"]) for one in told["agents"]]
        assert found == [
            (ann.name, "app/x.rb", "owned", ann.name),
            (ann.name, "app/y.rb", "owned", ann.name),
            (ben.name, "app/x.rb", "retry_pending", ann.name),
            (Agent(manager, "eve").name, "app/y.rb", "blocked", ann.name),
        ]
        assert re.fullmatch(
            r"retry pending, due in (3 min|2 min \d+ s)", told["agents"][2]["words"]
        )
        assert told["agents"][2]["line"] == 1
        assert told["agents"][3]["words"] == "blocked, waits for its user"
        assert [one["agent_key"] for one in told["blockers"]] == [told["agents"][3]["key"]]
        assert told["head"] == head(manager)
    figures = ask(site, "/metrics").body.decode()
    assert 'holdfast_agent_files{state="owned"} 2\n' in figures
    assert 'holdfast_agent_files{state="retry_pending"} 1\n' in figures
    assert 'holdfast_agent_files{state="blocked"} 1\n' in figures
    assert "holdfast_retries_overdue 0\n" in figures
    assert "holdfast_blocked_agents 1\n" in figures


def test_the_state_has_the_queue_in_the_order_in_which_it_is_shown(
    site: Server, manager: LockManager
) -> None:
    ann, ben = Agent(manager, "ann"), Agent(manager, "ben")
    ann.edit("app/x.rb")
    ben.edit("app/y.rb")
    ann.edit("app/y.rb")
    ben.edit("app/x.rb")  # would close a circle, so it stands in no line
    first = sent_out(manager, ["app/shared.rb"])
    ids = [
        ItemStore(manager).enqueue(name, phase, LockRequest.of([], ["app/shared.rb"])).id
        for name, phase in (("blog/tags", "analyze"), ("blog/users", "apply"))
    ]
    state = ask(site, "/api/state").json
    queue, counts = state["queue"], state["counts"]
    assert queue["cut_off"] == []
    assert [row["kind"] for row in queue["at_work"]] == ["item", "grant", "grant"]
    assert queue["at_work"][0]["id"] == first.id
    grants = {one["id"]: one["write_paths"] for one in state["locks"]["active_grants"]}
    assert [grants[row["id"]] for row in queue["at_work"][1:]] == [["app/x.rb"], ["app/y.rb"]]
    assert [row["kind"] for row in queue["waiting"]] == ["ticket", "agent", "item", "item"]
    assert queue["waiting"][1] == {"kind": "agent", "id": ben.key, "file": "app/x.rb"}
    assert [row["id"] for row in queue["waiting"][2:]] == ids[::-1], "a merge before an analysis"
    assert (len(queue["at_work"]), len(queue["waiting"])) == (counts["at_work"], counts["waiting"])
    assert state["wanted"] == {"app/shared.rb": 2, "app/y.rb": 1, "app/x.rb": 1}


def test_a_grant_and_a_ticket_have_the_state_of_their_agent(
    site: Server, manager: LockManager
) -> None:
    ann, ben = Agent(manager, "ann"), Agent(manager, "ben")
    ann.edit("app/x.rb")
    ben.edit("app/x.rb")
    lock(manager, "app/z.rb", "a person")
    state = ask(site, "/api/state").json
    of_ann, of_person = state["locks"]["active_grants"]
    assert (of_ann["standing"]["agent"], of_ann["standing"]["is_plain"]) == (ann.name, True)
    assert of_person["standing"] is None
    [ticket] = state["tickets"]
    assert ticket["standing"]["said"] == "retry pending"
    assert not ticket["standing"]["is_plain"]


def test_controllers_have_the_orders_that_a_person_can_give(
    site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    told = ask(site, "/api/state").json["controllers"]
    assert [one["orders"] for one in told] == [["approve", "reject"]] * 2
    post(site, "/decide/blog/posts", {"decision": "reject"})
    told = ask(site, "/api/state").json["controllers"]
    assert [(one["name"], one["orders"]) for one in told] == [
        ("blog/comments", ["approve", "reject"]),
        ("blog/posts", ["analyze"]),
    ], "what needs a person comes first"


def test_the_page_knows_no_event_of_the_ledger() -> None:
    """The server interprets events; the page only requests the state again after one."""
    known = {value for module in (agent_records, events, item_store, task_records, workflow_records)
             for name, value in vars(module).items()
             if name.isupper() and isinstance(value, str) and "_" in value}  # fmt: skip
    assert {"lock_acquired", "ticket_added", "work_queued", "agent_blocked"} <= known
    for file in (Path(server.__file__).parent / "page").glob("*.js"):
        words = set(re.findall(r"[a-z_]+", file.read_text(encoding="utf-8")))
        assert not words & known, file.name


def test_an_overdue_retry_is_counted(site: Server, manager: LockManager) -> None:
    Agent(manager, "ann").edit("app/x.rb")
    ben = Agent(manager, "ben", Settings(retry_seconds=0.01))
    ben.edit("app/x.rb")
    until(lambda: b"holdfast_retries_overdue 1\n" in ask(site, "/metrics").body, "it is overdue")
    [_ann, told] = ask(site, "/api/agents").json["agents"]
    assert told["words"].startswith("retry pending, overdue for ")


def test_only_the_first_of_many_items_have_reasons_unless_the_request_asks_for_more(
    tmp_path: Path,
) -> None:
    with crowd(tmp_path / "crowd", items=100, events=0, out=2) as own, Server(own, port=0) as made:
        waiting = ask(made, "/api/state").json["waiting"]
        assert len(waiting) == 98
        assert ["why" in one for one in waiting] == [True] * 60 + [False] * 38
        assert all("why" in one for one in ask(made, "/api/state?why=1000").json["waiting"])


def test_the_actions_of_another_process_are_seen(site: Server, root: Path) -> None:
    before = ask(site, "/api/state").json["locks"]["active_grants"]
    command = [*COMMAND, "lock", "app/shared.rb", "--holder", "ann", "--reason", "a look"]
    subprocess.run(command, cwd=root, env=environment(), check=True, capture_output=True)
    after = ask(site, "/api/state").json["locks"]["active_grants"]
    assert before == []
    assert [(one["holder"], one["reason"]) for one in after] == [("ann", "a look")]


def test_history_has_spans_and_contention(site: Server, manager: LockManager) -> None:
    first = lock(manager, "app/x.rb")
    transactions.queue(manager, manager.request("ben", (), ["app/x.rb"]))
    manager.release(first)
    until(lambda: site.feed.head == head(manager), "the feed has seen it")
    told = ask(site, "/api/history").json
    assert [(one["holder"], one["how"]) for one in told["spans"]] == [
        ("ann", "released"),
        ("ben", ""),
    ]
    contended = told["contention"][0]
    assert contended["path"] == "app/x.rb"
    assert contended["grants"] == 2
    assert contended["waited_seconds"] > 0
    assert ask(site, "/api/history?spans=0").json["spans"] == []
    manager.try_acquire(holder="cid", write_paths=["app/z.rb"])
    until(lambda: site.feed.head == head(manager), "the feed has seen it")
    changed = ask(site, f"/api/history?since={told['head']}").json
    assert [one["holder"] for one in changed["spans"]] == ["cid"]


def test_the_items_of_a_controller_are_listed(
    site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    items = ask(site, "/api/items?workflow=blog/posts").json["items"]
    assert [one["workflow"] for one in items] == ["blog/posts/index", "blog/posts/show"]
    assert ask(site, f"/api/items/{items[0]['id']}").json["status"] == "completed"
    assert ask(site, "/api/items/nobody").code == "E_NOT_FOUND"


# Events


def test_events_are_the_ledgers_and_their_ids_its_numbers(
    site: Server, manager: LockManager
) -> None:
    lock(manager, "app/x.rb")
    with Stream(site, "/api/events?after=0") as stream:
        event = stream.events(1)[0]
        assert event["type"] == "lock_acquired"
        assert event["data"]["write_paths"] == ["app/x.rb"]
        lock(manager, "app/y.rb")
        assert stream.events(1)[0]["data"]["write_paths"] == ["app/y.rb"]


def test_without_a_number_a_stream_begins_with_the_next_event(
    site: Server, manager: LockManager
) -> None:
    lock(manager, "app/x.rb")
    until(lambda: site.feed.head == 1, "the feed has seen it")
    with Stream(site, "/api/events") as stream:
        lock(manager, "app/y.rb")
        assert stream.events(1)[0]["seq"] == 2


def test_a_stream_that_broke_resumes_without_loss_and_without_repeats(
    site: Server, manager: LockManager
) -> None:
    total, over = 400, threading.Event()

    def write() -> None:
        for number in range(total // 2):
            manager.release(lock(manager, f"app/{number}.rb"))
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[int] = []
    headers: dict[str, str] = {}
    while len(seen) < total:
        # the number in the address does not change: the id of the last event wins
        with Stream(site, "/api/events?after=0", **headers) as stream:
            seen += [event["seq"] for event in stream.events(min(37, total - len(seen)))]
            headers = {"Last-Event-ID": str(seen[-1])}
    writer.join()
    assert over.is_set()
    assert seen == list(range(1, total + 1))


def test_a_reader_that_is_far_behind_gets_every_event(
    root: Path, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_feed, "KEPT_MAX", 10)
    monkeypatch.setattr(ledger_feed, "BATCH_MAX", 7)
    with LockManager.open(str(root)) as own, Server(own, port=0) as made:
        for number in range(50):
            manager.release(lock(manager, f"app/{number}.rb"))
        until(lambda: made.feed.head == 100, "the feed has seen all")
        with Stream(made, "/api/events?after=3") as stream:
            assert [event["seq"] for event in stream.events(97)] == list(range(4, 101))


def test_a_trimmed_history_is_reported(root: Path, manager: LockManager) -> None:
    for number in range(10):
        manager.release(lock(manager, f"app/{number}.rb"))
    manager.store.trim(15)
    with (
        LockManager.open(str(root)) as own,
        Server(own, port=0) as made,
        Stream(made, "/api/events?after=2") as stream,
    ):
        told = stream.next()
        assert told["event"] == "trimmed"
        assert json.loads(told["data"]) == {"after": 2, "next": 15}
        assert stream.events(1)[0]["seq"] == 15


def test_a_number_that_the_ledger_never_had_begins_anew(site: Server, manager: LockManager) -> None:
    lock(manager, "app/x.rb")
    until(lambda: site.feed.head == 1, "the feed has seen it")
    with Stream(site, "/api/events", **{"Last-Event-ID": "999"}) as stream:
        told = stream.next()
        assert (told["event"], told["id"]) == ("reset", "0")
        assert stream.events(1)[0]["seq"] == 1


def test_a_quiet_stream_gives_signs_of_life(site: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "QUIET_SECONDS", 0.05)
    with Stream(site, "/api/events") as stream:
        lines = [stream.answer.readline() for _ in range(8)]
    assert any(line.startswith(b":") for line in lines)


def test_a_slow_reader_delays_no_other_and_is_cut_off(
    root: Path, manager: LockManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes.Handler, "timeout", 0.5)
    monkeypatch.setattr(event_stream, "QUIET_SECONDS", 0.1)
    long = "x" * 60_000
    for number in range(100):
        transactions.note(manager, "filling", {"text": long, "number": number})
    with LockManager.open(str(root)) as own, Server(own, port=0) as made:
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", made.port))
        slow.sendall(
            f"GET /api/events?after=0 HTTP/1.1\r\nHost: localhost:{made.port}\r\n\r\n".encode()
        )
        until(lambda: made.watching == 1, "the slow one is served")
        with Stream(made, "/api/events?after=98") as quick:
            assert quick.events(2)[-1]["seq"] == 100
        assert ask(made, "/healthz").json == {"ok": True}
        until(lambda: made.watching == 0, "the slow one was cut off")
        slow.close()


def test_streams_are_bounded_and_further_ones_are_refused(
    site: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "STREAMS_MAX", 2)
    with Stream(site, "/api/events"), Stream(site, "/api/events"):
        refused = ask(site, "/api/events")
        assert (refused.status, refused.code) == (503, "E_BUSY")
        assert ask(site, "/api/state").status == 200


def test_connections_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 3)
    with LockManager.open(str(root)) as own, Server(own, port=0) as made:
        silent = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(3)]
        one_more = socket.create_connection(("127.0.0.1", made.port), timeout=PATIENCE_SECONDS)
        assert one_more.recv(10) == b""
        for line in (*silent, one_more):
            line.close()
        until(lambda: _answers(made), "a place came free")


def _answers(site: Server) -> bool:
    try:
        return ask(site, "/healthz").status == 200
    except (OSError, http.client.HTTPException):
        return False


# Orders


def test_a_decision_is_made_by_the_button(site: Server, manager: LockManager, root: Path) -> None:
    analysed(manager, root)
    answer = post(site, "/decide/blog/posts", {"decision": "approve"})
    assert (answer.status, answer.json["state"]) == (200, "queued")
    merges = [item for item in ItemStore(manager).items() if item.phase == "apply"]
    assert [item.workflow for item in merges] == ["blog/posts"]
    assert merges[0].lock_request.write_paths == (
        "app/controllers/blog/posts_controller.rb", "app/shared.rb",
    )  # fmt: skip
    answer = post(site, "/decide/blog/comments", {"decision": "reject"})
    assert answer.json["state"] == "idle"
    assert "rejected by" in answer.json["reason"]


def test_a_controller_that_waits_for_no_decision_gets_none(
    site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    assert post(site, "/decide/blog/posts", {"decision": "approve"}).status == 200
    again = post(site, "/decide/blog/posts", {"decision": "approve"})
    assert (again.status, again.code) == (409, "E_TRANSITION")
    assert len([item for item in ItemStore(manager).items() if item.phase == "apply"]) == 1
    for wrong in ({"decision": "perhaps"}, {}, {"decision": ["approve"]}):
        answer = post(site, "/decide/blog/comments", wrong)
        assert (answer.status, answer.code) == (400, "E_REQUEST")
    unknown = post(site, "/decide/blog/nothing", {"decision": "approve"})
    assert (unknown.status, unknown.code) == (404, "E_NOT_FOUND")


def test_seed004_30_analyze_goes_through_the_scheduler(root: Path, manager: LockManager) -> None:
    manifest = ScreenManifest.load(str(root / "screens.json"))
    assignment.assign(manager, manifest, review=True)
    pipeline = Pipeline.open(manager, manifest, review=True)
    assert pipeline.scheduler is not None
    with LockManager.open(str(root)) as own, Server(own, port=0, pipeline=pipeline) as made:
        pipeline.scheduler.start()
        try:
            # the scheduler may start the first screen before the answer is made
            assert post(made, "/analyze/blog/posts").json["state"] in ("queued", "analyzing")
            until(lambda: _state_of(made, "blog/posts") == "awaiting_decisions", "it was analysed")
        finally:
            pipeline.stop()
    items = [item for item in ItemStore(manager).items() if item.status == "completed"]
    assert sorted(item.workflow for item in items) == ["blog/posts/index", "blog/posts/show"]
    assert all(item.grant_id for item in items)


def test_seed004_30_without_a_scheduler_here_the_item_waits_for_a_dispatcher_elsewhere(
    site: Server, manager: LockManager, root: Path
) -> None:
    manifest = ScreenManifest.load(str(root / "screens.json"))
    assignment.assign(manager, manifest, review=True)
    assert post(site, "/analyze/blog/posts").json["state"] == "queued"
    waiting = [item for item in ItemStore(manager).items() if item.status == "queued"]
    assert [item.workflow for item in waiting] == ["blog/posts/index", "blog/posts/show"]
    again = post(site, "/analyze/blog/posts")
    assert (again.status, again.code) == (409, "E_TRANSITION")


def test_seed004_30_a_pipeline_without_locks_does_it_at_once(root: Path) -> None:
    manifest = ScreenManifest.load(str(root / "screens.json"))
    legacy = Pipeline(screen_manifest=manifest, root=str(root))
    found = root / ".analysis/blog/posts/index/findings.json"
    found.parent.mkdir(parents=True)
    (root / ".analysis/blog/posts/show").mkdir()
    with LockManager.open(str(root)) as own, Server(own, port=0, pipeline=legacy) as made:
        assert post(made, "/analyze/blog/posts").status == 200
        until(found.exists, "it was analysed")
        assert post(made, "/decide/blog/posts", {"decision": "approve"}).code == "E_LEGACY"
        assert ItemStore(own).items() == []


def _state_of(site: Server, name: str) -> str:
    return str(ask(site, "/api/state").json["workflows"].get(name, {}).get("state"))


def test_without_any_work_there_is_nothing_to_decide(site: Server) -> None:
    answer = post(site, "/decide/blog/posts", {"decision": "approve"})
    assert (answer.status, answer.code) == (409, "E_WORK")


def test_stop_asks_the_dispatchers_of_all_processes(site: Server, manager: LockManager) -> None:
    assert stop_requests.asked_at(manager) == 0
    answer = post(site, "/stop")
    assert answer.json == {"stopping": True, "seq": head(manager)}
    assert stop_requests.asked_at(manager) == head(manager)


def test_seed004_36_there_is_no_way_to_override_a_lock() -> None:
    assert set(routes.Handler.posts) == {"analyze", "decide", "stop"}
    page = Path(routes.__file__).parent / "page"
    asked = re.findall(r"`?/(\w+)(?:/\$\{|\"|`)", (page / "page.js").read_text())
    assert "decide" in asked
    for name in ("release", "force", "steal", "unlock", "grant"):
        assert name not in asked
        assert f"/{name}" not in "".join(file.read_text() for file in page.glob("*.js"))


def test_seed004_36_whatever_is_asked_for_a_lock_stays_with_its_holder(
    site: Server, manager: LockManager, root: Path
) -> None:
    assignment.assign(manager, ScreenManifest.load(str(root / "screens.json")), review=True)
    grant = lock(manager, "app/shared.rb")
    asked = {"grant": grant, "grant_id": grant, "force": True, "decision": "approve"}
    others = {"locks", "grants", "release", "force", "steal", "unlock", "override", "reap"}
    for name in sorted(others | set(routes.Handler.posts)):
        for path in (f"/{name}", f"/{name}/{grant}", f"/api/{name}/{grant}", f"/{name}/blog/posts"):
            answer = post(site, path, asked)
            assert answer.status == 404 or name not in others, path
            for method in ("DELETE", "PUT", "PATCH"):
                assert ask(site, path, method, headers=own_headers(site)).status == 501
    assert [one.id for one in manager.active_grants()] == [grant]
    assert {event.type for event in manager.events()}.isdisjoint(ENDINGS)


# Access


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:{port}", "localhost", "localhost:1", "", "a@localhost:{port}",
        "127.0.0.1.evil.example:{port}", "192.0.2.1:{port}", "localhost:{port}/x", "localhost:x",
    ],
)  # fmt: skip
def test_another_name_for_this_machine_is_refused(shown: Shown, host: str) -> None:
    site = shown.site
    for method, path in (("GET", "/"), ("GET", "/api/state"), ("POST", "/stop")):
        answer = ask(site, path, method, headers={"Host": host.format(port=site.port)})
        assert (answer.status, answer.code) == (403, "E_FORBIDDEN")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST", "127.0.0.9"])
def test_the_names_of_this_machine_are_known(shown: Shown, host: str) -> None:
    site = shown.site
    assert ask(site, "/api/state", headers={"Host": f"{host}:{site.port}"}).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://localhost:{port}", "http://localhost:1"]
)
def test_another_sites_page_may_neither_ask_nor_look(shown: Shown, origin: str) -> None:
    site, manager = shown.site, shown.manager
    headers = {"Origin": origin.format(port=site.port), "Host": f"localhost:{site.port}"}
    assert post(site, "/stop", **headers).code == "E_FORBIDDEN"
    assert ask(site, "/api/state", headers=headers).code == "E_FORBIDDEN"
    assert stop_requests.asked_at(manager) == 0


def test_its_own_page_may(site: Server) -> None:
    own = {"Origin": f"http://localhost:{site.port}", "Host": f"localhost:{site.port}",
           "Sec-Fetch-Site": "same-origin"}  # fmt: skip
    assert post(site, "/stop", **own).status == 200
    for other in ("cross-site", "same-site"):
        assert post(site, "/stop", **{**own, "Sec-Fetch-Site": other}).status == 403


def test_a_form_cannot_change_anything(site: Server, manager: LockManager, root: Path) -> None:
    analysed(manager, root)
    for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data"):
        answer = ask(site, "/decide/blog/posts", "POST", b'{"decision": "approve"}',
                     {**own_headers(site), "Content-Type": kind})  # fmt: skip
        assert (answer.status, answer.code) == (400, "E_REQUEST")
    assert _state_of(site, "blog/posts") == "awaiting_decisions"


@pytest.mark.parametrize("path", ["/stop", "/decide/blog/posts", "/analyze/blog/posts"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_no_get_changes_anything(shown: Shown, path: str, method: str) -> None:
    site, manager = shown.site, shown.manager
    before = head(manager)
    assert ask(site, f"{path}?decision=approve", method).status == 405
    assert head(manager) == before


def test_a_server_with_a_token_answers_nothing_without_it(root: Path) -> None:
    with LockManager.open(str(root)) as own, Server(own, port=0, token="secret-1") as made:
        assert made.url.partition("#")[0].endswith("/?token=secret-1")
        for path in (
            "/",
            "/page.js",
            "/api/state",
            "/api/events",
            "/metrics",
            "/api/state?token=no",
        ):
            answer = ask(made, path)
            assert (answer.status, answer.code) == (401, "E_TOKEN"), path
        for wrong in (
            "Bearer",
            "Bearer secret-2",
            "Basic secret-1",
            "Bearer sécret".encode().decode("latin-1"),
        ):
            assert ask(made, "/api/state", headers={"Authorization": wrong}).status == 401
        assert ask(made, "/healthz").status == 200
        bearer = {"Authorization": "Bearer secret-1"}
        assert ask(made, "/api/state", headers=bearer).status == 200
        assert ask(made, "/api/state", headers=own_headers(made)).status == 200
        assert post(made, "/stop", **bearer).status == 401, "a token is not enough to decide"
        assert post(made, "/stop").status == 200


def test_a_request_that_changes_something_needs_the_pages_own_secret(
    site: Server, manager: LockManager, root: Path
) -> None:
    analysed(manager, root)
    before = head(manager)
    body, plain = b'{"decision": "approve"}', {"Content-Type": "application/json"}
    own = {"Origin": f"http://127.0.0.1:{site.port}", "Sec-Fetch-Site": "same-origin"}
    cookie = {"Cookie": f"holdfast={site.guard.secret}"}
    wrong = {"Authorization": f"Bearer {site.guard.secret[:-1]}"}
    empty = {"Authorization": "Bearer "}
    for more in ({}, own, cookie, wrong, empty):
        for path in ("/decide/blog/posts", "/analyze/blog/posts", "/stop"):
            answer = ask(site, path, "POST", body, {**plain, **more})
            assert (answer.status, answer.code) == (401, "E_TOKEN"), (path, more)
    assert head(manager) == before
    assert post(site, "/decide/blog/posts", {"decision": "approve"}).status == 200


def test_the_secret_is_in_the_printed_address_and_in_no_answer(site: Server, root: Path) -> None:
    secret = site.guard.secret
    assert len(secret) >= 24
    assert site.url.endswith(f"#secret={secret}")
    for path in ("/", "/page.js", "/api/state", "/api/history", "/metrics", "/healthz", "/nothing"):
        answer = ask(site, path)
        assert secret not in answer.body.decode() + str(answer.headers), path
    with LockManager.open(str(root)) as own, Server(own, port=0) as another:
        assert another.guard.secret != secret
    kept = [file for file in (root / ".holdfast").rglob("*") if file.is_file()]
    assert kept
    assert not any(secret.encode() in file.read_bytes() for file in kept)


def test_a_decision_names_who_made_it(root: Path, manager: LockManager) -> None:
    analysed(manager, root)
    with LockManager.open(str(root)) as own, Server(own, port=0, by="ann, on the page") as made:
        assert post(made, "/decide/blog/posts", {"decision": "approve"}).status == 200
        assert post(made, "/decide/blog/comments", {"decision": "reject"}).status == 200
        assert post(made, "/stop").status == 200
    flows = Flows(manager)
    assert flows.get("blog/posts").data["decision"] == "approved by ann, on the page"
    assert flows.get("blog/comments").reason == "rejected by ann, on the page"
    asked = [event for event in manager.events() if event.type == stop_requests.ASKED]
    assert [event.data["by"] for event in asked] == ["ann, on the page"]


def test_a_browser_that_came_with_the_token_keeps_it_in_a_cookie(root: Path) -> None:
    with LockManager.open(str(root)) as own, Server(own, port=0, token="secret-1") as made:
        answer = ask(made, "/?token=secret-1")
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert ask(made, "/", headers={"Cookie": cookie.partition(";")[0]}).status == 200
        assert ask(made, "/", headers={"Cookie": "holdfast=other"}).status == 401


def test_where_others_can_reach_it_a_token_is_made_up(root: Path) -> None:
    with LockManager.open(str(root)) as own, Server(own, host="0.0.0.0", port=0) as made:
        assert len(made.guard.token) >= 24
        assert ask(made, "/api/state").status == 401
        headers = {"Authorization": f"Bearer {made.guard.token}"}
        assert ask(made, "/api/state", headers=headers).status == 200
        rebound = {**headers, "Host": f"evil.example:{made.port}"}
        assert ask(made, "/api/state", headers=rebound).status == 403


def test_an_address_in_use_is_an_error(site: Server, root: Path) -> None:
    with LockManager.open(str(root)) as own, pytest.raises(ListenError, match=str(site.port)):
        Server(own, port=site.port)


def test_a_ledger_in_memory_cannot_be_served() -> None:
    with pytest.raises(InvalidInput):
        Server(LockManager.open("", store="memory:"), port=0)


# Bad input


def test_bodies_are_bounded_and_must_match_their_headers(site: Server) -> None:
    headers = own_headers(site)
    large = ask(site, "/decide/blog/posts", "POST", b"x" * 70_000, headers)
    assert (large.status, large.code) == (413, "E_TOO_LARGE")
    for body in (b"{", b"[]", b"\xff\xfe", b'"approve"', b"[" * 60_000):
        answer = ask(site, "/decide/blog/posts", "POST", body, headers)
        assert (answer.status, answer.code) == (400, "E_REQUEST"), body[:10]
    for more in (
        {"Content-Length": "-1"},
        {"Content-Length": "9" * 30},
        {"Transfer-Encoding": "chunked"},
    ):
        assert ask(site, "/stop", "POST", b"", {**headers, **more}).status in (400, 413)


def test_an_invalid_request_is_answered_as_json(site: Server) -> None:
    for words in (b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"PUT / HTTP/1.1\r\n\r\n",
                  b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n"):  # fmt: skip
        with socket.create_connection(("127.0.0.1", site.port), PATIENCE_SECONDS) as line:
            line.sendall(words)
            said = b""
            while some := line.recv(65536):
                said += some
        assert b'"code":"E_REQUEST"' in said, words[:20]
    assert ask(site, "/healthz").status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404), ("/api", 404), ("/api/nothing", 404), ("/api/state/x", 404),
        ("/api/events?after=x", 400), ("/api/events?after=-1", 400), ("/page.js/..", 404),
        ("/../page.js", 404), ("/%2e%2e/server.py", 404), ("/page/index.html", 404),
        ("/api/items/", 404), ("/api/items/a/b", 404), ("/api/state?why=x", 400),
    ],
)  # fmt: skip
def test_every_error_is_json_with_a_code(shown: Shown, path: str, status: int) -> None:
    answer = ask(shown.site, path)
    assert answer.status == status
    assert answer.code.startswith("E_")


def test_a_get_is_not_for_posting(site: Server) -> None:
    for path in ("/api/state", "/", "/metrics", "/api/events"):
        assert post(site, path).code in ("E_METHOD", "E_NOT_FOUND")


# The output of agents


def printed(root: Path, item: str, text: bytes, name: str = "apply.log") -> Path:
    folder = Path(Run(str(root), item).folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(text)
    return folder / name


def test_output_is_read_from_any_place_on(site: Server, manager: LockManager, root: Path) -> None:
    item = sent_out(manager, ["app/shared.rb"])
    printed(root, item.id, "grün und gut\n".encode() + b"\xff!\n")
    assert ask(site, f"/api/items/{item.id}").json["logs"] == [{"name": "apply.log", "size": 17}]
    whole = ask(site, f"/api/output/{item.id}/apply.log")
    assert whole.body.decode() == "grün und gut\n\ufffd!\n"
    assert whole.headers["Holdfast-Offset"] == whole.headers["Holdfast-Size"] == "17"
    assert whole.headers["Content-Type"].startswith("text/plain")
    rest = ask(site, f"/api/output/{item.id}/apply.log?offset=5")
    assert rest.body.decode() == " und gut\n\ufffd!\n"
    assert ask(site, f"/api/output/{item.id}/apply.log?offset=99").body == b""
    assert ask(site, f"/api/output/{item.id}/apply.log?offset=x").code == "E_REQUEST"


def test_output_is_streamed_while_the_agent_runs_and_ends_with_it(
    site: Server, manager: LockManager, root: Path
) -> None:
    item = sent_out(manager, ["app/shared.rb"])
    log = printed(root, item.id, b"one\n\xc3")
    with Stream(site, f"/api/output/{item.id}/apply.log") as stream:
        first = stream.next()
        assert (json.loads(first["data"]), first["id"]) == ("one\n", "4")
        with log.open("ab") as file:
            file.write(b"\xbc two\n")
        second = stream.next()
        assert (json.loads(second["data"]), second["id"]) == ("ü two\n", "11")
        ItemStore(manager).end(item)
        assert stream.next()["event"] == "end"
    with Stream(site, f"/api/output/{item.id}/apply.log", **{"Last-Event-ID": "4"}) as stream:
        assert json.loads(stream.next()["data"]) == "ü two\n"


@pytest.mark.parametrize(
    "path",
    [
        "{item}/..%2f..%2f..%2fholdfast.toml", "{item}/before.json", "{item}/%2fetc%2fpasswd",
        "..%2f{item}/apply.log", "{item}/apply.log%00", "{item}/link.log", "{item}/APPLY.log",
        "{item}%2f..%2f{item}/apply.log", "nobody/apply.log", "{item}/apply.log/x", "{item}",
        "%2e%2e/apply.log", "./apply.log", "{item}/pipe.log",
    ],
)  # fmt: skip
def test_nothing_but_output_can_be_read(shown: Shown, path: str) -> None:
    assert ask(shown.site, f"/api/output/{shown.item.id}/apply.log").body == b"text"
    answer = ask(shown.site, f"/api/output/{path.format(item=shown.item.id)}")
    assert (answer.status, answer.code) == (404, "E_NOT_FOUND")


def test_a_folder_of_output_that_is_a_link_is_not_followed(
    site: Server, manager: LockManager, root: Path, tmp_path: Path
) -> None:
    item = sent_out(manager, ["app/shared.rb"])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/apply.log").write_text("secret")
    folder = Path(Run(str(root), item.id).folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(tmp_path / "elsewhere")
    assert ask(site, f"/api/output/{item.id}/apply.log").status == 404


# The page, and figures


@pytest.mark.parametrize("path", sorted(routes._ASSETS))
def test_the_page_comes_whole_and_takes_nothing_from_elsewhere(shown: Shown, path: str) -> None:
    site = shown.site
    answer = ask(site, path)
    assert answer.status == 200
    text = answer.body.decode()
    for link in re.findall(r"https?://[^\s\"'`)]+", text):
        assert link == "http://www.w3.org/2000/svg"  # a name, not a place
    again = ask(site, path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status, again.body) == (304, b"")
    assert ask(site, path, "HEAD").body == b""


@pytest.mark.parametrize("path", ["/", "/api/state", "/nothing", "/metrics", "/healthz"])
def test_every_answer_has_the_headers_that_keep_others_out(shown: Shown, path: str) -> None:
    headers = ask(shown.site, path).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Python" not in headers["Server"]


def test_metrics_are_in_the_format_of_prometheus(site: Server, manager: LockManager) -> None:
    sent_out(manager, ["app/shared.rb"])
    ItemStore(manager).enqueue("blog/tags", "apply", LockRequest.of([], ["app/shared.rb"]))
    answer = ask(site, "/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    values = {}
    for line in answer.body.decode().splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r'([a-z_]+(?:\{[a-z]+="[a-z_]+"\})?) (-?[\d.e+]+)', line)
            assert match, line
            values[match[1]] = float(match[2])
    assert values["holdfast_grants"] == 1
    assert values['holdfast_items{status="queued"}'] == 1
    assert values['holdfast_items{status="dispatched"}'] == 1
    assert values["holdfast_events_total"] == head(manager)
    assert values["holdfast_scheduler_broken"] == 0


# The command


def test_serve_prints_its_address_and_ends_when_interrupted(root: Path) -> None:
    serving = Serving(root, "serve", "--port", "0", "--json")
    assert serving.process.stdout is not None
    told = json.loads(serving.process.stdout.readline())
    assert ask(Far(told["url"]), "/api/state").json["root"] == str(root)  # type: ignore[arg-type]
    assert serving.end() == (0, "")


def test_a_page_that_an_agent_started_only_shows(root: Path) -> None:
    serving = Serving(root, "serve", "--port", "0", "--json", HOLDFAST_GRANT="of-an-agent")
    assert serving.process.stdout is not None
    told = json.loads(serving.process.stdout.readline())
    assert "secret" not in told["url"]
    far: Any = Far(told["url"])
    assert ask(far, "/api/state").status == 200
    for given in ("", "x"):
        answer = post(far, "/stop", Authorization=f"Bearer {given}")
        assert (answer.status, answer.code) == (403, "E_FORBIDDEN")
    code, said = serving.end()
    assert code == 0
    assert "read only" in said


def test_serve_makes_no_ledger_where_there_is_no_repository(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "serve", "--port", "0"], cwd=tmp_path, env=environment(), capture_output=True,
        text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no ledger here" in done.stderr
    assert not (tmp_path / ".holdfast").exists()


@pytest.mark.parametrize("words", [["--port", "70000"], ["--port", "x"], ["--token", "a b"]])
def test_serve_refuses_impossible_options(root: Path, words: list[str]) -> None:
    done = subprocess.run(
        [*COMMAND, "serve", *words], cwd=root, env=environment(), capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 2


def test_a_dispatcher_shows_its_page_and_stops_when_it_is_asked_to(tmp_path: Path) -> None:
    root = workshop(tmp_path / "shop", pace=0.5)
    serving = Serving(root, "dispatch", "screens.json", "--review", "--serve=0")
    assert serving.process.stderr is not None
    line = serving.process.stderr.readline()
    while "watch it at" not in line:
        assert line, "it ended"
        line = serving.process.stderr.readline()
    far: Any = Far(line.split()[-1])
    with Stream(far, "/api/events?after=0") as stream:
        seen = ""
        while seen != "work_dispatched":
            seen = stream.events(1)[0]["type"]
    assert post(far, "/stop").status == 200
    _, said = serving.process.communicate(timeout=PATIENCE_SECONDS)
    assert serving.process.returncode == 130
    assert "holdfast dispatch --resume" in said
    with LockManager.open(str(root)) as manager:
        assert manager.active_grants() == []
        statuses = {item.status for item in ItemStore(manager).items()}
    assert statuses <= {"completed", "queued"}


def test_a_dispatcher_that_goes_on_with_screens_says_who_it_is(root: Path) -> None:
    with LockManager.open(str(root)) as manager:
        for words in (["screens.json"], ["--resume"]):
            before = transactions.noted(manager, assignment.DISPATCHER)
            assert before is None
            command = [*COMMAND, "dispatch", *words, "--json"]
            subprocess.run(command, cwd=root, env=environment(), check=True, capture_output=True)
        assert transactions.noted(manager, assignment.DISPATCHER) is not None


def test_starting_the_page_costs_a_lock_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from holdfast.cli import main; main(['lock', 'x', '--holder', 'a']);"
        "print([name for name in sys.modules if name.startswith(('holdfast.server', 'http'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
