"""How a waiting process is woken: by a notification of the server, on a connection of its own.

A process that waits has one such connection, read by one thread, however many of its threads wait.
The commit that serves a waiter notifies its address. A follower of the ledger hears of every commit
while its row says that it follows. A notification may be lost with the connection, so each waiter
also looks by itself once a second.

An address also shows that a process still waits: its row is renewed, by the server's clock, until
the waiter gives up or its process ends. After a start of the server every waiter has that long to
renew its row.
"""

from __future__ import annotations

import os
import threading
from _thread import allocate_lock
from select import select
from time import monotonic
from weakref import WeakMethod

import psycopg

from holdfast.store.file_descriptors import close, identity_of, is_ours
from holdfast.store.postgres import server_errors
from holdfast.store.postgres.server_session import connect, keep_for_ever, lead_nowhere
from holdfast.store.postgres.statements import Statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


#: The beginning of every waiter's address.
WAITER = "holdfast-w"
#: The channel of those who follow a ledger; the number of its repository comes behind it.
FOLLOWERS = "holdfast-f"
#: A row that was not renewed for so long shows nothing any more.
WAITER_SECONDS = 15.0
RENEW_SECONDS = 4.0
CONNECT_SECONDS = 10.0
#: How soon an unreachable server is tried again.
RETRY_SECONDS = 0.2
#: A waiter that cannot be woken looks by itself this often.
POLL_SECONDS = 0.05


class Mailbox:
    """What one thread waits at. It is kept for the next wait of this process."""

    __slots__ = ("_bell", "_listener", "_opened", "_pipe", "address", "pid")

    def __init__(self, listener: Listener, address: str) -> None:
        self.pid = os.getpid()
        self.address = address
        self._listener = listener
        self._bell = allocate_lock()
        self._bell.acquire()
        self._pipe: tuple[int, int] | None = None

    @property
    def descriptor(self) -> int:
        """Readable when it is woken."""
        if self._pipe is None:
            pipe = os.pipe()
            for end in pipe:
                os.set_blocking(end, False)
            self._opened = [identity_of(end) for end in pipe]
            self._pipe = pipe  # last: another thread may ring at any moment
        return self._pipe[0]

    def _end(self, place: int) -> int:
        """An end of the pipe; -1 if there is none, or the program has closed it."""
        if self._pipe is None or not is_ours(self._pipe[place], self._opened[place]):
            return -1
        return self._pipe[place]

    def ring(self) -> None:
        """Wake its waiter."""
        try:
            self._bell.release()
        except RuntimeError:  # an earlier wake-up was not heard yet
            pass
        if (end := self._end(1)) >= 0:
            try:
                os.write(end, b"!")
            except OSError:  # it is full, so it is readable
                pass

    def wait(self, timeout: float) -> bool:
        """Wait until woken, for at most `timeout` seconds."""
        if not self._listener.hears or self.pid != os.getpid():
            self._bell.acquire(timeout=max(0.0, min(timeout, POLL_SECONDS)))
            self._drain()
            return True
        woken = self._bell.acquire(timeout=max(0.0, timeout))
        if woken:
            self._drain()
        return woken

    def reset(self) -> None:
        """Forget wake-ups for an earlier wait."""
        self._bell.acquire(blocking=False)
        self._drain()

    def _drain(self) -> None:
        if (end := self._end(0)) >= 0:
            try:
                while os.read(end, 64):
                    pass
            except BlockingIOError:
                pass

    def close(self) -> None:
        """Keep it for the next wait."""
        self._listener.keep(self)

    def discard(self) -> None:
        """Give up: no process waits any more for the request that has this address."""
        self._listener.forget(self)

    def __del__(self) -> None:
        if self._pipe is not None:
            for end, opened in zip(self._pipe, self._opened, strict=True):
                close(end, opened)


class Listener:
    """The connection on which a process is woken, and its thread."""

    def __init__(self, url: str, repository: int, hint: Callable[[str, str], None]) -> None:
        """`hint` executes a statement for an address at once, if that is possible."""
        self._hint = WeakMethod(hint)
        self.pid = os.getpid()
        self.channel = f"{WAITER}{os.urandom(8).hex()}"
        self._address = server_errors.split(url)[0]
        self._statements = Statements(repository)
        self._followed = f"{FOLLOWERS}{repository}"
        self._lock = allocate_lock()
        self._waiting: dict[str, Mailbox] = {}
        self._following: list[Mailbox] = []
        self._idle: list[Mailbox] = []
        self._numbers = 0
        self._ready = threading.Event()
        self._closed = False
        self._poke = os.pipe()
        for end in self._poke:
            os.set_blocking(end, False)
        #: Which files these descriptors are, and that of the connection.
        self._opened = {end: identity_of(end) for end in self._poke}
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._thread = threading.Thread(target=self._run, name="holdfast-listener", daemon=True)

    def start(self, seconds: float) -> None:
        """Start the thread, and wait until it listens, or for so long."""
        self._thread.start()
        self._ready.wait(seconds)

    @property
    def hears(self) -> bool:
        """Whether it can be woken at this moment."""
        return self._ready.is_set()

    def mailbox(self) -> tuple[Mailbox, bool]:
        """A mailbox that no thread uses, and whether it is new: then its row has to be written."""
        with self._lock:
            if self._idle:
                mailbox = self._idle.pop()
                mailbox.reset()
                return mailbox, False
            self._numbers += 1
            mailbox = Mailbox(self, f"{self.channel}.{self._numbers}")
            self._waiting[mailbox.address] = mailbox
            return mailbox, True

    def follower(self) -> Mailbox:
        """A mailbox that is woken by every commit, once its row is written."""
        mailbox = Mailbox(self, self.channel)
        with self._lock:
            self._following.append(mailbox)
        return mailbox

    def follow_no_more(self, mailbox: Mailbox) -> bool:
        """Release a follower's mailbox. Whether there is no other."""
        with self._lock:
            self._following.remove(mailbox)
            return not self._following

    def keep(self, mailbox: Mailbox) -> None:
        """Keep a mailbox for the next wait."""
        with self._lock:
            if self._waiting.get(mailbox.address) is mailbox and mailbox not in self._idle:
                self._idle.append(mailbox)

    def forget(self, mailbox: Mailbox) -> None:
        """Show that no thread waits at this mailbox."""
        with self._lock:
            self._waiting.pop(mailbox.address, None)
        hint = self._hint()
        if hint is not None:
            hint("wait_no_more", mailbox.address)
        self._wake_thread()  # which does it as soon as the server can be reached

    def stop(self) -> None:
        """Have the thread end by itself."""
        self._closed = True
        if self.pid == os.getpid():
            self._wake_thread()

    def close(self) -> None:
        """End the thread and its connection."""
        self.stop()
        if self.pid == os.getpid() and self._thread.is_alive():
            self._thread.join(CONNECT_SECONDS)

    def leave_to_parent(self) -> None:
        """In a forked child, which has none of the parent's threads."""
        self._closed = True
        if self._connection is not None:
            lead_nowhere(self._connection)

    def _wake_thread(self) -> None:
        try:
            if self._is_intact():
                os.write(self._poke[1], b"!")
        except OSError:
            pass

    def _is_intact(self) -> bool:
        """Whether the program has closed none of the descriptors. Their numbers may belong to other
        files then, so the thread ends without touching any, and the waiters look by themselves."""
        return all(is_ours(number, opened) for number, opened in list(self._opened.items()))

    # In the thread

    def _run(self) -> None:
        written: set[str] = set()
        while not self._closed and self._is_intact():
            try:
                self._listen_once(written)
            except (psycopg.Error, OSError):
                pass
            finally:
                self._connection = None
                self._ready.clear()
            if not self._closed and self._is_intact():
                select([self._poke[0]], [], [], RETRY_SECONDS)
        for end in self._poke:
            close(end, self._opened[end])

    def _listen_once(self, written: set[str]) -> None:
        connection = self._connection = connect(self._address, monotonic() + CONNECT_SECONDS)
        number = connection.fileno()
        self._opened[number] = opened = identity_of(number)
        try:
            self._listen(connection, written)
        finally:
            if connection.closed or is_ours(number, opened):
                del self._opened[number]
                connection.close()
            else:
                keep_for_ever(connection)

    def _listen(self, connection: psycopg.Connection[tuple[Any, ...]], written: set[str]) -> None:
        connection.execute("set search_path = holdfast; set synchronous_commit = off")
        connection.execute(f'listen "{self.channel}"'.encode())
        connection.execute(f'listen "{self._followed}"'.encode())
        renewed = self._renew(connection, written)
        self._ready.set()
        self._ring_all()  # what happened meanwhile was not heard
        while not self._closed:
            connection.deadline = float("inf")  # type: ignore[attr-defined]
            left = max(0.0, renewed + RENEW_SECONDS - monotonic())
            woken = select([connection.fileno(), self._poke[0]], [], [], left)[0]
            if not self._is_intact():
                return
            connection.deadline = monotonic() + CONNECT_SECONDS  # type: ignore[attr-defined]
            if self._poke[0] in woken:
                self._drain_pokes()
                self._forget_rows(connection, written)
            if connection.fileno() in woken:
                for notice in connection.notifies(timeout=0):
                    self._ring(notice.channel, notice.payload)
            if monotonic() >= renewed + RENEW_SECONDS:
                renewed = self._renew(connection, written)
        if self._is_intact():
            with self._lock:
                self._waiting.clear()
            self._forget_rows(connection, written)

    def _ring(self, channel: str, payload: str) -> None:
        if channel == self._followed:
            with self._lock:
                woken = list(self._following)
        else:
            mailbox = self._waiting.get(f"{channel}.{payload}")
            woken = [] if mailbox is None else [mailbox]
        for mailbox in woken:
            mailbox.ring()

    def _ring_all(self) -> None:
        with self._lock:
            woken = [*self._waiting.values(), *self._following]
        for mailbox in woken:
            mailbox.ring()

    def _renew(self, connection: psycopg.Connection[tuple[Any, ...]], written: set[str]) -> float:
        with self._lock:
            addresses, follows = list(self._waiting), bool(self._following)
        written.update(addresses)
        with connection.pipeline(), connection.cursor() as cursor:
            for address in addresses:
                cursor.execute(self._statements["wait"], (address, WAITER_SECONDS))
            if follows:
                values = (self.channel, WAITER_SECONDS)
                cursor.execute(self._statements["follow"], values)
        return monotonic()

    def _forget_rows(
        self, connection: psycopg.Connection[tuple[Any, ...]], written: set[str]
    ) -> None:
        with self._lock:
            gone = written.difference(self._waiting)
        for address in gone:
            connection.execute(self._statements["wait_no_more"], (address,))
        written -= gone

    def _drain_pokes(self) -> None:
        try:
            while os.read(self._poke[0], 64):
                pass
        except BlockingIOError:
            pass
