"""The server: where it listens, and how it begins and ends.

The standard library's threading server, because everything below it waits and blocks: the store,
the files, the agents. Those who watch are few, and each may have a thread. What is bounded:
connections, streams, bodies, and for how long a client may say or take nothing. A connection above
the bound is closed at once, so that those who have one keep it.
"""

from __future__ import annotations

import secrets
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from time import monotonic
from typing import Any

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.manager import services
from holdfast.manager.manager import LockManager
from holdfast.server.board import REASONS, Board
from holdfast.server.feed import Feed, as_json
from holdfast.server.guarding import Guard, is_loopback
from holdfast.server.orders import Orders
from holdfast.server.web import Handler
from holdfast.work.desk import NOTES
from holdfast.work.items import DISPATCHED
from holdfast.work.pipeline import Pipeline

HOST = "127.0.0.1"
PORT = 4747
CONNECTIONS_MAX = 128
STREAMS_MAX = 48
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
        self._state: tuple[int, float, bytes] = (-1, 0.0, b"")
        self._state_lock = threading.Lock()
        self._over = threading.Event()
        self._listener = _listen(host, port, self)
        self._host = host
        self.port: int = self._listener.server_address[1]
        secret = secrets.token_urlsafe(24) if changes else ""
        self.guard = Guard(host, self.port, token, secret)
        self.feed = Feed(manager)
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
        self.feed.start()
        self._thread.start()

    def close(self) -> None:
        """End: no connection is taken any more, and those that are open end."""
        self._over.set()
        if self._thread.is_alive():
            self._listener.shutdown()
        self._listener.server_close()
        self.feed.close()

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # For those who answer

    def state(self, reasons: int = REASONS) -> bytes:
        """How things stand, as JSON. Made once for all who ask at the same moment."""
        if reasons != REASONS:
            return as_json({**self.board.state(reasons), "gaps": self.feed.gaps()}).encode()
        with self._state_lock:
            head = services.look(self._manager, lambda view: view.head)
            known, made, text = self._state
            if head != known or monotonic() - made > FRESH_SECONDS:
                found = {**self.board.state(), "gaps": self.feed.gaps()}
                text = as_json(found).encode()
                self._state = (found["head"], monotonic(), text)
            return text

    def is_out(self, item: str) -> bool:
        """Whether somebody works on an item."""
        note = services.noted(self._manager, f"{NOTES}{item}")
        return note is not None and note.data["status"] == DISPATCHED

    def pause(self, seconds: float) -> bool:
        """Wait a moment. True if it is all over."""
        return self._over.wait(seconds)

    @contextmanager
    def place(self) -> Iterator[bool]:
        """A place among those who watch, for a while; False if there is none."""
        with self._watchers:
            is_free = self.watching < STREAMS_MAX
            self.watching += is_free
        try:
            yield is_free
        finally:
            with self._watchers:
                self.watching -= is_free


class _Listener(ThreadingHTTPServer):
    """Takes connections, so many at a time."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], site: Server) -> None:
        self.site = site
        self._places = threading.BoundedSemaphore(CONNECTIONS_MAX)
        super().__init__(address, Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

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
