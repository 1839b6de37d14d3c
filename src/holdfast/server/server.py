"""The server: where it listens, and how it starts and ends.

The standard library's threading server answers requests, because everything below it blocks: the
store, the files, the agents. A stream needs no thread: once its headers are sent, its connection
goes to the one thread that serves all streams (`holdfast.server.stream_thread`), and no longer
counts as a connection. Connections, streams, bodies, and the time that a client may send or
receive nothing are bounded. A connection above the bound is closed immediately, so that the others
keep theirs; long before that, connections are closed after each answer instead of being kept.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from time import monotonic
from typing import Any

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.server.access_control import Guard, is_loopback
from holdfast.server.ledger_feed import Feed, as_json
from holdfast.server.page_orders import Orders
from holdfast.server.routes import Handler
from holdfast.server.state.board import REASONS, Board
from holdfast.server.stream_thread import Streams
from holdfast.work.engine.item_store import NOTES
from holdfast.work.engine.work_items import DISPATCHED
from holdfast.work.screens.pipeline import Pipeline

HOST = "127.0.0.1"
PORT = 4747
CONNECTIONS_MAX = 256
STREAMS_MAX = 1000
#: Descriptors that streams leave for everything else.
DESCRIPTORS_KEPT = 256
STREAMS_LEAST = 16
#: How long an answer is reused while nothing is written: the death of a process writes nothing.
FRESH_SECONDS = 1.0


class ListenError(HoldfastError):
    """The address is in use, or is not one of this machine's."""

    code = "E_LISTEN"


class Server:
    """Shows one repository. `manager` is the server's own, so that no other part of the program
    waits for it."""

    def __init__(
        self,
        manager: LockManager,
        *,
        host: str = HOST,
        port: int = PORT,
        token: str = "",
        by: str = "the page",
        changes: bool = True,
        pipeline: Pipeline | None = None,
    ) -> None:
        """Port 0 is any free port. If other machines can reach the server and no token is given,
        it generates one. `by` names the person with the page's secret in the ledger; without
        `changes` there is no secret, and this server is read only. `pipeline` is the one that runs
        in this process, if any."""
        if manager.tree is None:
            raise InvalidInput("a ledger in memory cannot be served", hint="use one on disk")
        token = token or ("" if is_loopback(host) else secrets.token_urlsafe(24))
        self.root = manager.tree.root
        self.board = Board(manager)
        self.orders = Orders(manager, by, pipeline)
        #: How many streams are open.
        self.watching = 0
        self._watchers = threading.Lock()
        self._manager = manager
        self._state = _Fresh(self._made_state)
        self._summary = _Fresh(self._made_summary)
        self._listener = _listen(host, port, self)
        self._host = host
        self.port: int = self._listener.server_address[1]
        secret = secrets.token_urlsafe(24) if changes else ""
        self.guard = Guard(host, self.port, token, secret)
        self.feed = Feed(manager, self.board.gone)
        self.streams = Streams(self.give_place_back)
        self.feed.changed = self.streams.changed
        self._room = _room()
        self._thread = threading.Thread(
            target=self._listener.serve_forever, args=(0.1,), name="holdfast server", daemon=True
        )

    @property
    def url(self) -> str:
        """The address of the page, with the token, if there is one, and the secret."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(
            self._host, self._host
        )
        name = f"[{host}]" if ":" in host else host
        token = f"?token={self.guard.token}" if self.guard.token else ""
        secret = f"#secret={self.guard.secret}" if self.guard.secret else ""
        return f"http://{name}:{self.port}/{token}{secret}"

    def start(self) -> None:
        """Start, in threads of its own."""
        self.streams.start()
        self.feed.start()
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections, and end those that are open."""
        if self._thread.is_alive():
            self._listener.shutdown()
        self._listener.server_close()
        self.feed.close()
        self.streams.close()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For the handlers of requests

    def state(self, reasons: int = REASONS) -> bytes:
        """The state as JSON, made once for all simultaneous requests."""
        if reasons != REASONS:
            return as_json(self._made_state(reasons)).encode()
        return self._state.text(self._head())

    def summary(self) -> bytes:
        """Progress, tasks and counts; likewise."""
        return self._summary.text(self._head())

    def _made_state(self, reasons: int = REASONS) -> dict[str, Any]:
        gaps = self.feed.gaps()
        return {**self.board.state(reasons, len(gaps)), "gaps": gaps}

    def _made_summary(self) -> dict[str, Any]:
        return self.board.summary(gaps=len(self.feed.gaps()))

    def _head(self) -> tuple[int, int]:
        """How new an answer must be: the last event, and the last change without an event."""
        return transactions.look(self._manager, lambda view: view.head), self.feed.beat

    def is_out(self, item: str) -> bool:
        """Whether an agent works on an item."""
        note = transactions.noted(self._manager, f"{NOTES}{item}")
        return note is not None and note.data["status"] == DISPATCHED

    def take_place(self) -> bool:
        """Take a place among the streams; False if none is free."""
        with self._watchers:
            is_free = self.watching < min(STREAMS_MAX, self._room)
            self.watching += is_free
            return is_free

    def give_place_back(self) -> None:
        """A stream has ended."""
        with self._watchers:
            self.watching -= 1

    @property
    def is_crowded(self) -> bool:
        """Whether so many connections are open that none is kept after its answer."""
        return self._listener.open > CONNECTIONS_MAX // 2


class _Fresh:
    """An answer that is made once for all simultaneous requests."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[tuple[int, int], float, bytes] = ((-1, 0), 0.0, b"")

    def text(self, head: tuple[int, int]) -> bytes:
        """The answer as JSON, at least as new as `head`."""
        with self._lock:
            known, made, text = self._made
            is_older = known[0] < head[0] or known[1] != head[1]
            if is_older or monotonic() - made > FRESH_SECONDS:
                found = self._make()
                text = as_json(found).encode()
                self._made = ((found["head"], head[1]), monotonic(), text)
            return text


def _room() -> int:
    """How many streams this process has descriptors for. It does not raise its limit, since the
    programs that it starts would inherit that."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return STREAMS_MAX
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return STREAMS_MAX if limit < 0 else max(STREAMS_LEAST, limit - DESCRIPTORS_KEPT)


class _Listener(ThreadingHTTPServer):
    """Accepts connections, up to a bound."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], site: Server) -> None:
        self.site = site
        #: How many connections are open, without the streams.
        self.open = 0
        #: Descriptors of connections that live on as streams.
        self.handed_over: set[int] = set()
        self._places = threading.Lock()
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._places:
            is_free = self.open < CONNECTIONS_MAX
            self.open += is_free
        if is_free:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._places:
                self.open -= 1

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, unless it lives on as a stream, with another descriptor."""
        if request.fileno() in self.handed_over:
            self.handed_over.discard(request.fileno())
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection; print a bug of ours to the server's output."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Listener6(_Listener):
    address_family = socket.AF_INET6


def _listen(host: str, port: int, site: Server) -> _Listener:
    try:
        return (_Listener6 if ":" in host else _Listener)((host, port), site)
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ListenError(
            f"cannot listen on {host}:{port}: {why}", hint="give another: --port N, or --port 0"
        ) from error
