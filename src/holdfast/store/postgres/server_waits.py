"""The waits of one process: its requests in line, and its followers of the ledger."""

from __future__ import annotations

from time import monotonic

from holdfast.store.postgres.listener import WAITER_SECONDS, Listener
from holdfast.store.postgres.server_session import SessionLostError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.store.postgres.listener import Mailbox
    from holdfast.store.postgres.server_store import PostgresStore

OPEN_SECONDS = 10.0
#: How long a follower relies on being woken before it looks by itself.
FALLBACK_SECONDS = 1.0


class Waits:
    """The waits at one store. The first one starts the listener."""

    def __init__(self, store: PostgresStore, address: str) -> None:
        self._store = store
        self._address = address
        self._listener: Listener | None = None

    def waiter(self) -> Mailbox:
        """A waiter that a decision can wake."""
        mailbox, is_new = self._listening(monotonic() + OPEN_SECONDS).mailbox()
        if is_new:
            self._write("wait", (mailbox.address, WAITER_SECONDS))
        return mailbox

    def follow(self, after: int, timeout: float) -> int:
        """Wait for an event after this one. Returns the number of the last event."""
        head = self._head()
        if head > after or timeout <= 0:
            return head
        end = monotonic() + timeout
        listener = self._listening(end)
        mailbox = listener.follower()
        try:
            self._write("follow", (listener.channel, WAITER_SECONDS))
            while (head := self._head()) <= after and (left := end - monotonic()) > 0:
                mailbox.wait(min(left, FALLBACK_SECONDS))
        finally:
            is_last = listener.follow_no_more(mailbox) and listener is self._listener
            if is_last and not self._store.why_away:
                self._write("follow_no_more", (listener.channel,))
        return head

    def _head(self) -> int:
        with self._store.view(deadline=monotonic() + OPEN_SECONDS) as view:
            return view.head

    def _listening(self, deadline: float) -> Listener:
        store = self._store
        mutex = store.lock(deadline)
        try:
            listener = self._listener
            if listener is None:
                number = store.connected(deadline).repository
                listener = self._listener = Listener(self._address, number, self._hint)
                listener.start(max(0.0, deadline - monotonic()))
            return listener
        finally:
            if mutex is store.mutex:
                mutex.release()

    def _write(self, name: str, values: Sequence[Any]) -> None:
        """Write something that is only a hint; without the server it stays undone."""
        store = self._store
        mutex = store.lock(monotonic() + OPEN_SECONDS)
        try:
            store.connected(monotonic() + OPEN_SECONDS).short(name, values)
        except SessionLostError:
            pass
        finally:
            if mutex is store.mutex:
                mutex.release()

    def _hint(self, name: str, address: str) -> None:
        """The same, but only if there is a session that no other thread uses."""
        mutex, session = self._store.mutex, self._store.session
        if not mutex._is_owned() and mutex.acquire(False):
            try:
                if session is not None and not session.is_lost:
                    session.short(name, (address,))
            except SessionLostError:
                pass
            finally:
                mutex.release()

    # The end

    def stop(self) -> None:
        """Have the listener end by itself."""
        if self._listener is not None:
            self._listener.stop()

    def close(self) -> None:
        """End the listener."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def leave_to_parent(self) -> None:
        """In a forked child, which has none of the parent's threads."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.leave_to_parent()
