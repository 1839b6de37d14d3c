"""Many streams: hundreds of readers, one thread, and all other requests are still answered."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from conftest import until
from helpers_server import Stream, ask
from holdfast.manager.manager import LockManager
from holdfast.server import ledger_feed, server
from holdfast.server.server import Server

STREAMS = 500
PATIENCE_SECONDS = 60.0


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Both ends of every connection are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * STREAMS + 600
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"this process may have no more than {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def site(tmp_path: Path, many_descriptors: None) -> Iterator[Server]:
    (tmp_path / ".git").mkdir()
    with LockManager.open(str(tmp_path)) as own, Server(own, port=0) as made:
        yield made


def opened(site: Server, path: str = "/api/events?after=0") -> socket.socket:
    """A connection with a request for a stream."""
    line = socket.create_connection(("127.0.0.1", site.port), PATIENCE_SECONDS)
    line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost:{site.port}\r\n\r\n".encode())
    return line


def read_until(line: socket.socket, text: bytes) -> bytes:
    """Everything that arrives until a text is in it."""
    said = b""
    while text not in said:
        some = line.recv(65536)
        assert some, f"the stream has ended after {said[-200:]!r}"
        said += some
    return said


def test_500_streams_are_served_and_everything_else_is_answered_beside_them(
    site: Server, tmp_path: Path
) -> None:
    lines = [opened(site) for _ in range(STREAMS)]
    try:
        for line in lines:
            assert read_until(line, b"retry: 1000").startswith(b"HTTP/1.1 200")
        assert site.watching == STREAMS
        for path in ("/healthz", "/api/state", "/api/summary", "/metrics", "/"):
            began = monotonic()
            assert ask(site, path).status == 200, path
            assert monotonic() - began < 5.0, path
        with LockManager.open(str(tmp_path)) as manager:
            assert manager.try_acquire(holder="ann", write_paths=["a.txt"]) is not None
        for line in lines:
            assert b'"lock_acquired"' in read_until(line, b'"data":{')
        threads = [one for one in threading.enumerate() if "process_request" in one.name]
        assert len(threads) < 20
    finally:
        for line in lines:
            line.close()
    until(lambda: site.watching == 0, "all places are free again")
    assert ask(site, "/healthz").status == 200


def test_streams_that_are_closed_by_their_readers_are_noticed_at_once(site: Server) -> None:
    with Stream(site, "/api/events"):
        assert site.watching == 1
    until(lambda: site.watching == 0, "its place is free")


def test_there_are_no_more_streams_than_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    monkeypatch.setattr(server, "DESCRIPTORS_KEPT", limit)
    monkeypatch.setattr(server, "STREAMS_LEAST", 1)
    (tmp_path / ".git").mkdir()
    with (
        LockManager.open(str(tmp_path)) as own,
        Server(own, port=0) as made,
        Stream(made, "/api/events"),
    ):
        refused = ask(made, "/api/events")
        assert (refused.status, refused.code) == (503, "E_BUSY")
        assert ask(made, "/healthz").status == 200


def test_where_many_are_connected_no_connection_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_MAX", 4)
    (tmp_path / ".git").mkdir()
    with LockManager.open(str(tmp_path)) as own, Server(own, port=0) as made:
        silent = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(2)]
        until(lambda: made.is_crowded or made._listener.open == 2, "both are there")
        for _ in range(5):  # each would use a place if it were kept
            assert ask(made, "/healthz").headers["Connection"] == "close"
        for line in silent:
            line.close()


def test_a_change_without_an_event_is_reported_on_every_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_feed, "PULSE_SECONDS", 0.05)
    (tmp_path / ".git").mkdir()
    gone: list[str] = []
    with LockManager.open(str(tmp_path)) as own:
        made = Server(own, port=0)
        made.feed._pulse = lambda: tuple(gone)
        has_changed = threading.Event()
        begin = made.feed._begin

        def begin_late() -> None:
            has_changed.wait(PATIENCE_SECONDS)
            begin()

        monkeypatch.setattr(made.feed, "_begin", begin_late)
        with made, Stream(made, "/api/events") as first, Stream(made, "/api/events") as second:
            gone.append("tasks.toml")
            has_changed.set()
            for stream in (first, second):
                told = stream.next()
                assert told["event"] == "changed"
                assert "id" not in told, "it is no event of the ledger"
