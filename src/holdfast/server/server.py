"""The server: where it listens, and how it begins and ends.

The standard library's threading server answers requests, because everything below it waits and
blocks: the store, the files, the agents. A stream needs no thread: once its headers are sent, its
connection goes to the one thread that serves all streams (`holdfast.server.stream_thread`), and
its place
among the connections comes free. What is bounded: connections, streams, bodies, and for how long a
client may say or take nothing. A connection above the bound is closed at once, so that those who
have one keep it; long before that, connections are closed after each answer instead of being kept.
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
#: Descriptors that are left for everything else, where the system allows only a few.
DESCRIPTORS_KEPT = 256
STREAMS_LEAST = 16
#: How long an answer is as good as a new one if nothing was written since: what dies says nothing.
FRESH_SECONDS = 1.0


class ListenError(HoldfastError):
    """The address is taken, or is none of this machine's."""

    code = "E_LISTEN"


class Server:
    """Shows one repository. `manager` is its own: nobody else should have to wait for it."""

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
        """Port 0 is any that is free. Where others can reach it and no token is given, one is made
        up. `by` is who has the page's secret, for the ledger; without `changes` there is none, and
        this server only shows. `pipeline` is the one that runs in this process, if one does."""
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
        """The address of the page; with the token, if there is one, and with the secret."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(
            self._host, self._host
        )
        name = f"[{host}]" if ":" in host else host
        token = f"?token={self.guard.token}" if self.guard.token else ""
        secret = f"#secret={self.guard.secret}" if self.guard.secret else ""
        return f"http://{name}:{self.port}/{token}{secret}"

    def start(self) -> None:
        """Begin, in threads of its own."""
        self.streams.start()
        self.feed.start()
        self._thread.start()

    def close(self) -> None:
        """End: no connection is taken any more, and those that are open end."""
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

    # For those who answer

    def state(self, reasons: int = REASONS) -> bytes:
        """How things stand, as JSON. Made once for all who ask at the same moment."""
        if reasons != REASONS:
            return as_json(self._made_state(reasons)).encode()
        return self._state.text(self._head())

    def summary(self) -> bytes:
        """How far the work is, and what is counted; likewise."""
        return self._summary.text(self._head())

    def _made_state(self, reasons: int = REASONS) -> dict[str, Any]:
        gaps = self.feed.gaps()
        return {**self.board.state(reasons, len(gaps)), "gaps": gaps}

    def _made_summary(self) -> dict[str, Any]:
        return self.board.summary(gaps=len(self.feed.gaps()))

    def _head(self) -> tuple[int, int]:
        """What an answer is as good as a new one for: the last event, and the last news of what
        changes without one."""
        return transactions.look(self._manager, lambda view: view.head), self.feed.beat

    def is_out(self, item: str) -> bool:
        """Whether somebody works on an item."""
        note = transactions.noted(self._manager, f"{NOTES}{item}")
        return note is not None and note.data["status"] == DISPATCHED

    def take_place(self) -> bool:
        """A place among the streams; False if there is none."""
        with self._watchers:
            is_free = self.watching < min(STREAMS_MAX, self._room)
            self.watching += is_free
            return is_free

    def give_place_back(self) -> None:
        """A stream is over."""
        with self._watchers:
            self.watching -= 1

    @property
    def is_crowded(self) -> bool:
        """Whether so many connections are open that none is kept after its answer."""
        return self._listener.open > CONNECTIONS_MAX // 2


class _Fresh:
    """An answer that is made once for all who ask at the same moment."""

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: tuple[tuple[int, int], float, bytes] = ((-1, 0), 0.0, b"")

    def text(self, head: tuple[int, int]) -> bytes:
        """As JSON, as new as `head` at least."""
        with self._lock:
            known, made, text = self._made
            is_older = known[0] < head[0] or known[1] != head[1]
            if is_older or monotonic() - made > FRESH_SECONDS:
                found = self._make()
                text = as_json(found).encode()
                self._made = ((found["head"], head[1]), monotonic(), text)
            return text


def _room() -> int:
    """How many streams there may be with the descriptors that this process may have. The limit is
    left as it is: programs that are started here would inherit it."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return STREAMS_MAX
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return STREAMS_MAX if limit < 0 else max(STREAMS_LEAST, limit - DESCRIPTORS_KEPT)


class _Listener(ThreadingHTTPServer):
    """Takes connections, so many at a time."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512

    def __init__(self, address: tuple[str, int], site: Server) -> None:
        self.site = site
        #: How many connections are open that are not streams.
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
        """A connection that was handed over as a stream lives on by another descriptor."""
        if request.fileno() in self.handed_over:
            self.handed_over.discard(request.fileno())
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news. A mistake of ours is told where the server runs."""
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
