"""All open streams, in one thread: each of hundreds of readers costs a descriptor, but no thread.

A connection comes here when the headers of its answer have been sent. From then on its socket
never blocks. At most one batch is buffered for a reader; the rest stays in the ledger or the log.
So a slow reader delays no other. A reader that receives nothing for a while is cut off, and loses
nothing: it can reconnect with its last id.
"""

from __future__ import annotations

import selectors
import socket
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from holdfast.core.errors import HoldfastError
from holdfast.server import event_stream
from holdfast.server.event_stream import Source

QUIET = b": nothing happens\n\n"


class Stream:
    """One reader."""

    __slots__ = ("is_gone", "look_at", "moved_at", "patience", "pending", "said_at", "sock",
                 "source")  # fmt: skip

    def __init__(self, sock: socket.socket, source: Source, patience: float) -> None:
        """`patience` is how many seconds the reader may receive nothing."""
        self.sock, self.source, self.patience = sock, source, patience
        self.pending = b""
        self.look_at = 0.0
        self.moved_at = self.said_at = monotonic()
        self.is_gone = False

    def due(self) -> float:
        """When there is something to do even if nothing happens."""
        if self.pending:
            return self.moved_at + self.patience
        return min(self.look_at, self.said_at + event_stream.QUIET_SECONDS)


class Streams:
    """The thread, and the calls of other threads to it."""

    def __init__(self, ended: Callable[[], None]) -> None:
        """`ended` is called for each stream that has ended."""
        self._ended = ended
        self._selector = selectors.DefaultSelector()
        self._bell, self._rope = socket.socketpair()
        for one in (self._bell, self._rope):
            one.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._new: list[Stream] = []
        self._has_changed = False
        self._is_over = self._has_ended = False
        self._all: dict[socket.socket, Stream] = {}
        self._thread = threading.Thread(target=self._serve, name="holdfast streams", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End all streams."""
        self._is_over = True
        self.ring()
        if self._thread.is_alive():
            self._thread.join()
        else:
            self._end_all()

    def add(self, sock: socket.socket, source: Source, patience: float) -> None:
        """Take over a connection, and send it what a source has."""
        sock.setblocking(False)
        one = Stream(sock, source, patience)
        with self._lock:
            has_ended = self._has_ended
            if not has_ended:
                self._new.append(one)
        if has_ended:  # the server ended while it answered the request
            self._let_go(one)
        else:
            self.ring()

    def changed(self) -> None:
        """Every source may have more."""
        self._has_changed = True
        self.ring()

    def ring(self) -> None:
        """Wake the thread. If the socket is full, the thread is awake already."""
        with suppress(BlockingIOError, OSError):
            self._rope.send(b"\0")

    # The thread

    def _serve(self) -> None:
        while not self._is_over:
            ready = self._selector.select(self._pause())
            for key, events in ready:
                if key.fileobj is self._bell:
                    with suppress(BlockingIOError):
                        self._bell.recv(4096)
                else:
                    self._attend(key.data, events)
            self._welcome()
            self._round()
        self._end_all()

    def _pause(self) -> float:
        if self._new or self._has_changed:
            return 0.0
        due = min((one.due() for one in self._all.values()), default=monotonic() + 60.0)
        return max(0.0, due - monotonic())

    def _welcome(self) -> None:
        with self._lock:
            new, self._new = self._new, []
        for one in new:
            self._all[one.sock] = one
            self._selector.register(one.sock, selectors.EVENT_READ, one)

    def _attend(self, one: Stream, events: int) -> None:
        """A reader can receive more, has closed its connection, or has sent something, which is
        ignored."""
        if events & selectors.EVENT_READ:
            try:
                one.is_gone = not one.sock.recv(4096)
            except BlockingIOError:
                pass
            except OSError:
                one.is_gone = True
        if events & selectors.EVENT_WRITE:
            self._send(one)

    def _round(self) -> None:
        """Send each reader what is due."""
        has_changed = self._has_changed
        if has_changed:  # reset only then, so that no change in between is lost
            self._has_changed = False
        now = monotonic()
        for one in list(self._all.values()):
            if not one.pending and not one.is_gone and (has_changed or one.look_at <= now):
                self._fill(one, now)
            elif not one.pending and one.said_at + event_stream.QUIET_SECONDS <= now:
                self._say(one, QUIET)
            elif one.pending and one.moved_at + one.patience <= now:
                one.is_gone = True
            if one.is_gone:
                self._end(one)

    def _fill(self, one: Stream, now: float) -> None:
        """Ask the source once. If it has more, it is asked again in the next round, after the
        others have had their turn."""
        try:
            found = one.source.more()
        except (HoldfastError, OSError):
            found = None  # the browser reconnects
        except Exception:  # a bug of ours ends one stream, not all of them
            traceback.print_exc()
            found = None
        one.look_at = now + (one.source.look_seconds if not found else 0.0)
        if found is None:
            one.is_gone = True
        elif found:
            self._say(one, found.encode())
        elif one.said_at + event_stream.QUIET_SECONDS <= now:
            self._say(one, QUIET)

    def _say(self, one: Stream, data: bytes) -> None:
        one.pending = data
        one.moved_at = one.said_at = monotonic()
        self._send(one)

    def _send(self, one: Stream) -> None:
        try:
            sent = one.sock.send(one.pending)
        except BlockingIOError:
            sent = 0
        except OSError:
            one.is_gone = True
            return
        if sent:
            one.pending = one.pending[sent:]
            one.moved_at = monotonic()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.pending else 0)
        self._selector.modify(one.sock, wanted, one)

    def _end(self, one: Stream) -> None:
        del self._all[one.sock]
        self._selector.unregister(one.sock)
        self._let_go(one)

    def _let_go(self, one: Stream) -> None:
        one.source.close()
        with suppress(OSError):
            one.sock.shutdown(socket.SHUT_RDWR)
        one.sock.close()
        self._ended()

    def _end_all(self) -> None:
        with self._lock:
            self._has_ended = True
        self._welcome()
        for one in list(self._all.values()):
            self._end(one)
        self._selector.close()
        self._bell.close()
        self._rope.close()
