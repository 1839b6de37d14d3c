"""The embedded default: one SQLite file, any number of processes on one machine, no daemon.

Events and state change in one transaction, inside a gate that one process at a time enters. A
process may die at any moment: what it has committed stays, and an uncommitted transaction leaves no
trace. After a power failure the very last grants may be missing; their tokens are not issued again,
because tokens follow the wall clock.
"""

from __future__ import annotations

import os
from os import getpid
from time import monotonic, time_ns

from holdfast.core.draft import reach
from holdfast.core.file_times import is_settled
from holdfast.core.ledger_time import Anchor, ledger_time
from holdfast.core.model import Event, Grant
from holdfast.core.root_errors import StoreBusyError, StoreError
from holdfast.store.file_descriptors import is_ours
from holdfast.store.mutexes import Mutex, forked
from holdfast.store.records import build_or_fail
from holdfast.store.sqlite.fork_handlers import watch
from holdfast.store.sqlite.rows import Rows
from holdfast.store.sqlite.schema import CHECKPOINT_PAGES, INDEX
from holdfast.store.sqlite.session import CLOSE_SECONDS, open_session
from holdfast.store.sqlite.sql_view import SqlView
from holdfast.store.sqlite.sqlite_driver import driver
from holdfast.store.sqlite.transaction import Transaction
from holdfast.store.sqlite.wake_ups import FOLLOWER, WAITER, PooledMailbox, Post
from holdfast.store.sqlite.write_gate import (
    LOCK_EX,
    LOCK_NB,
    LOCK_UN,
    MARK_AT,
    MARK_BYTES,
    flock,
    pread,
    pwrite,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from sqlite3 import Connection
    from typing import TypeVar

    from holdfast.core.ledger_time import Clock
    from holdfast.core.model import Decision
    from holdfast.core.view import View
    from holdfast.store.contract import IsDead
    from holdfast.store.sqlite.rows import Head
    from holdfast.store.sqlite.sections import Fence, Snapshot
    from holdfast.store.sqlite.session import Session

    T = TypeVar("T")

_REST = (
    "(select min(stirs_at) from tickets),"
    " (select name from notes where name >= 'ledger mov' and name < 'ledger mow')"
)
HEAD = f"select seq, at, token, {_REST} from events order by seq desc limit 1"
HEAD_OF_EMPTY = f"select 0, 0, 0, {_REST}"
HISTORY = (
    "select e.seq, type, version, at, data, ifnull(count, 0) from events e"
    " left join repeats r on r.seq = e.seq where e.seq > ? order by e.seq limit ?"
)
#: Up to this many rows are scanned for a file with several names; beyond that, an index is made.
SCANNED_MAX = 500
MUCH = "select count(*) from (select 1 from live limit ?)"
OPEN_SECONDS = 10.0
EVENTS_AT_ONCE = 500
FALLBACK_SECONDS = 1.0
#: The shortest time between two hints to waiters that they may try again.
HINT_SECONDS = 1.0
#: A process with this many writes is not a short command: its log may grow larger.
WRITES_OF_A_SHORT_COMMAND = 100


class SqliteStore:
    """The SQLite store. It is thread-safe; a forked child gets its own connection."""

    #: Its users are on one machine, and judge owners by their processes.
    lease: int | None = None

    def __init__(
        self, path: str, *, clock: Clock, is_dead: IsDead, end: float = float("inf")
    ) -> None:
        """Raises if opening takes beyond `end`, a time of `time.monotonic()`."""
        self.path = os.path.abspath(path)
        self.folder = os.path.dirname(self.path)
        self.url = f"sqlite://{self.path}"
        self._clock = clock
        self._is_dead = is_dead
        self.mutex = Mutex()
        #: Held while a thread is inside SQLite. A fork by another thread waits for it.
        self.engine = Mutex()
        self.in_fence = False
        self._pid = 0
        self._closed = False
        self._token_floor = 0
        self._bodies: dict[int, Grant] = {}
        self._fresh: dict[str, Grant] = {}
        watch(self)
        self._open(min(monotonic() + OPEN_SECONDS, end))

    # Opening and closing

    def _open(self, deadline: float) -> None:
        """Begin a session. If that fails, the store keeps the old one; the next call retries."""
        session = open_session(self.path, deadline, self.engine)
        self._adopt(session, Post(self.folder))

    def _adopt(self, session: Session, post: Post) -> None:
        self.session = session
        self.gate = session.gate
        self.connection: Connection = session.connection
        self.ask = session.cursor.execute
        self.transaction = Transaction(session)
        self._post = post
        self._bodies.clear()
        self._fresh.clear()
        self._view = SqlView(self.ask, self.path, self._bodies, self._fresh, self._is_dead)
        self._rows = Rows(self.ask, self._bodies, self._fresh)
        self._mark = os.urandom(MARK_BYTES)
        self._head_known: Head | None = None
        self._folder_seen: tuple[int, int] | None = None
        #: What the ledger said about its own move, when its head was read last.
        self.moved: str | None = None
        self._anchor: Anchor | None = None
        self._new_anchor: Anchor | None = None
        self._writes = 0
        self._has_index = False  # as far as we know
        self._hinted = 0.0
        self._pid = getpid()

    def close(self) -> None:
        """Release all resources, after the calls of other threads."""
        if self._closed:
            return
        self.refuse_twice()
        mutex = self.mutex
        self._closed = True
        if mutex.acquire(timeout=CLOSE_SECONDS):  # else a thread still uses the descriptors
            try:
                self._post.close()
                self.session.close()
            finally:
                mutex.release()

    def _reopen(self, deadline: float) -> None:
        """Inside the mutex and outside the gate: replace the session by a new one."""
        old, post = self.session, self._post
        if old.pid == getpid():
            self._token_floor = max(self._token_floor, self._last_token())
        self._open(deadline)
        post.close()
        old.give_up()

    def _last_token(self) -> int:
        """The largest token of a ledger that was replaced: the new one issues larger tokens, even
        if the wall clock was set back meanwhile."""
        try:
            with self.engine:
                return int((self.ask(HEAD).fetchone() or (0, 0, 0))[2])
        except driver.Error:
            return 0

    def before_fork(self) -> None:
        """In the thread that has the engine."""
        if self._pid:  # else this store is still being opened, and has no transaction
            self.transaction.tear()

    def after_fork(self) -> None:
        """After that fork, in the same thread of the parent."""
        if self._pid:
            self.transaction.go_on()

    def leave_to_parent(self) -> None:
        """In a forked child: its first call opens a new session. A call that the fork interrupted
        still has the parent's mutex, and fails in the child."""
        self.mutex = Mutex()
        self.engine = Mutex()
        self.in_fence = False

    # Inside

    def enter(self, deadline: float) -> Mutex:
        """Take the mutex and enter the gate. After an interrupt, neither is held."""
        mutex = self.mutex
        if mutex._is_owned():
            self.refuse_twice()
        try:
            if self._pid != getpid() or not mutex.acquire(False):
                self._lock(deadline)
            gate = self.gate
            if self._closed or not is_ours(gate.fd, gate.inode):
                self._refuse_unusable()
            try:
                flock(gate.fd, LOCK_EX | LOCK_NB)
            except BlockingIOError:
                gate.enter(deadline)
            return mutex
        except BaseException as error:
            if mutex is not self.mutex:
                raise forked(error) from error
            if mutex._is_owned():
                self.gate.leave()
                mutex.release()
            raise

    def leave(self, mutex: Mutex) -> None:
        """Leave both, unless this is a forked child: then the parent holds them."""
        if mutex is self.mutex:
            try:
                self.gate.leave()
            finally:
                mutex.release()

    def refuse_twice(self) -> None:
        """Raise if this thread is inside already: it would wait for itself."""
        if self._pid == getpid() and self.mutex._is_owned():
            raise StoreBusyError(
                "the ledger cannot be used from within a fenced section",
                hint="do one rename inside the section, and everything else outside",
            )

    def lock(self, deadline: float) -> Mutex:
        """Take the mutex, and make sure that the connection belongs to this process."""
        self.refuse_twice()
        mutex = self.mutex
        try:
            self._lock(deadline)
            self._refuse_unusable()
            return mutex
        except BaseException as error:
            if mutex is not self.mutex:
                raise forked(error) from error
            if mutex._is_owned():
                mutex.release()
            raise

    def _refuse_unusable(self) -> None:
        """Inside the mutex, because another thread may have closed the store a moment ago."""
        if self._closed:
            raise StoreError("this store is closed", hint="open it again")
        if not self.gate.is_ours():
            raise self.session.lose()

    def _lock(self, deadline: float) -> None:
        mutex = self.mutex
        if not mutex.acquire(False) and not mutex.acquire(timeout=max(0.0, deadline - monotonic())):
            raise StoreBusyError(
                "the ledger is in use by another thread of this process",
                hint="give more time, or look for a thread that is stuck in a fenced section",
            )
        if self._pid != getpid() and not self._closed:
            self._reopen(deadline)

    def still_there(self) -> bool:
        """Whether our open files are still those that other processes open.

        The folder's time of change is nearly always proof enough; the files are examined only when
        it has changed.
        """
        try:
            status = os.stat(self.folder)
        except OSError:
            return False
        seen = (status.st_ino, status.st_mtime_ns)
        if seen == self._folder_seen:
            return True
        if not self.session.is_at_its_path():
            return False
        # A change within the same tick of the file system's clock is invisible: trust it later.
        self._folder_seen = seen if is_settled(status.st_mtime_ns, time_ns()) else None
        self._post.look()
        return True

    def look(self, known: Head | None = None) -> SqlView:
        """The current state. The caller must be in a transaction."""
        view = self._view
        view.wanting.clear()
        view.crowded = None
        if known is None:
            self._fresh.clear()
            row = self.ask(HEAD).fetchone() or self.ask(HEAD_OF_EMPTY).fetchone()
            known, self.moved = row[:4], row[4]
        view.head, last_at, view.last_token, grace_ends_at = known
        if view.last_token < self._token_floor:
            view.last_token = self._token_floor
        reading = self._clock.read()
        now, view.slept, anchor = ledger_time(self._anchor, reading, last_at)
        if anchor is not None:  # another process may have stored a newer one already
            self._anchor = self._stored_anchor()
            now, view.slept, anchor = ledger_time(self._anchor, reading, last_at)
        self._new_anchor = anchor
        view.now = now
        view.wall = reading.wall
        view.grace_ends_at = grace_ends_at
        if grace_ends_at is None:
            view.has_tickets = view.grace_over = False
        else:
            view.has_tickets = True
            view.grace_over = now >= grace_ends_at
        return view

    def refuse_moved(self) -> None:
        """Raise if the ledger was moved to another store, as `look` has found."""
        if self.moved is not None:
            from holdfast.store.move_marks import gone, move_of

            move = move_of(self.moved)
            assert move is not None
            raise gone(move, self.url)

    def _stored_anchor(self) -> Anchor | None:
        sql = "select boot, uptime, ledger, slept, asleep from anchor"
        row = self.ask(sql).fetchone()
        if row is None:
            return None
        boot, uptime, ledger, slept, asleep = row
        return Anchor(boot=boot, uptime=uptime, ledger=ledger, slept=slept, asleep=asleep)

    # Deciding

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float) -> T:
        """Decide on the current state, commit the decision, and wake the waiters that it names."""
        while True:
            mutex = None
            try:
                mutex = self.enter(deadline)
                decision = self._decide_and_commit(decide, deadline)
                to_hint = self._to_hint(decision.hint) if decision.hint else ()
                if self.still_there():
                    break
                # The decision went to a ledger that has been replaced, where no process will ever
                # see it. Repeat it on the current one.
                flock(self.gate.fd, LOCK_UN)
                self._reopen(deadline)
            except Exception as error:
                if mutex is None or mutex is self.mutex:
                    raise
                raise forked(error) from error
            finally:
                # Inlined, because an interrupt may come at the start of any function.
                if mutex is not None and mutex is self.mutex:
                    try:
                        flock(self.gate.fd, LOCK_UN)
                    finally:
                        mutex.release()
        if to_hint:
            self._post.call(to_hint)
        elif decision.events:
            self._post.call(())
        return decision.outcome

    def _to_hint(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """The first waiters that may try again, unless they got a hint a moment ago."""
        now = monotonic()
        if now - self._hinted < HINT_SECONDS:
            return ()
        self._hinted = now
        return tuple(self._view.addresses(*reach(keys)))

    def _decide_and_commit(
        self, decide: Callable[[View], Decision[T]], deadline: float
    ) -> Decision[T]:
        def write() -> Decision[T]:
            known = self._head_known
            if known is not None and pread(self.gate.fd, MARK_BYTES, MARK_AT) != self._mark:
                known = None  # another process has written since
            view = self.look(known)
            if self.moved is not None:
                self.refuse_moved()
            decision = decide(view)
            if self._new_anchor is not None:
                self._anchor = self._new_anchor
                self._rows.put_anchor(self._anchor)
            if decision.events:
                if known is None:
                    pwrite(self.gate.fd, self._mark, MARK_AT)
                self._head_known = self._rows.write(view, decision.events)
                if decision.wake:
                    # Sent before the commit, because waking up takes longer than a commit. A waiter
                    # that is faster waits for its grant at the gate, and finds it.
                    self._post.send(decision.wake)
            self._writes += 1
            if self._writes == WRITES_OF_A_SHORT_COMMAND:
                self.ask(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}")
            return decision

        decision = self.transaction.run(write, self._forget, deadline)
        if self._view.asked_by_inode and not self._has_index:
            with self.engine:
                self._index()
        return decision

    def _forget(self) -> None:
        """Drop the caches after a rollback: what they have may never have been committed."""
        self._head_known = None
        self._anchor = None
        self._bodies.clear()
        self._view.forget()

    def _index(self) -> None:
        """A file with several names was requested: make the next such request fast."""
        try:
            (held,) = self.ask(MUCH, (SCANNED_MAX,)).fetchone()
            if held == SCANNED_MAX:
                self.ask(INDEX)
                self._has_index = True
        except driver.Error:
            pass  # the decision is committed; without the index it is only slower
        self._view.asked_by_inode = False

    # The rest of the contract

    def fenced(self, grant_id: str, token: int, *, deadline: float) -> Fence:
        """A short section in which no lock changes hands; it requires a current token."""
        from holdfast.store.sqlite.sections import Fence

        return Fence(self, grant_id, token, deadline)

    def view(self, *, deadline: float) -> Snapshot:
        """The current state, for reading. Other processes may write meanwhile."""
        from holdfast.store.sqlite.sections import Snapshot

        return Snapshot(self, deadline)

    def reopen_if_gone(self, deadline: float) -> None:
        """Inside the mutex: reopen the ledger if it was replaced."""
        if not self.still_there():
            self._reopen(deadline)

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        """The history, oldest first."""
        left = limit
        while left is None or left > 0:
            count = EVENTS_AT_ONCE if left is None else min(left, EVENTS_AT_ONCE)
            some = self._read_events(after, count)
            yield from some
            if len(some) < count:
                return
            after = some[-1].seq
            left = None if left is None else left - len(some)

    def _read_events(self, after: int, count: int) -> list[Event]:
        with self.view(deadline=monotonic() + OPEN_SECONDS):
            rows = self.ask(HISTORY, (after, count)).fetchall()
        return [build_or_fail(row, lambda event: event, self.path) for row in rows]

    def wait(self, after: int, timeout: float) -> int:
        """Wait until there is an event after this one, for at most `timeout` seconds."""
        if timeout <= 0 or not self._post.has_idle(FOLLOWER):
            head = self._head()
            if head > after or timeout <= 0:
                return head
        # Created before the check, so that no later event is missed.
        mailbox = self._mailbox(FOLLOWER)
        end = monotonic() + timeout
        try:
            while (head := self._head()) <= after and (left := end - monotonic()) > 0:
                mailbox.wait(min(left, FALLBACK_SECONDS))
        finally:
            mailbox.close()
        return head

    def _head(self) -> int:
        with self.view(deadline=monotonic() + OPEN_SECONDS) as view:
            return view.head

    def waiter(self) -> PooledMailbox:
        """A waiter that a decision can wake."""
        return self._mailbox(WAITER)

    def _mailbox(self, kind: str) -> PooledMailbox:
        mutex = self.lock(monotonic() + OPEN_SECONDS)
        try:
            return self._post.mailbox(kind)
        finally:
            if mutex is self.mutex:  # inlined, because an interrupt may come at any call
                mutex.release()

    def trim(self, before: int) -> int:
        """Delete history before an event, without changing the state."""

        def write() -> int:
            gone = self.ask(
                "delete from events where seq < ? and seq < (select max(seq) from events)"
                " and seq not in (select seq from live where seq is not null)"
                " and seq not in (select seq from tickets)"
                " and seq not in (select seq from notes)",
                (before,),
            ).rowcount
            self.ask("delete from repeats where seq < ?", (before,))
            self.ask("delete from lost where seq < ?", (before,))
            return gone

        return self.rewrite(write, monotonic() + OPEN_SECONDS)

    def rewrite(self, write: Callable[[], T], deadline: float, *, even_moved: bool = False) -> T:
        """Change the tables beside the rules, in one durable transaction. Every process that has
        the ledger open reads its head again. `write` may be called more than once."""

        def checked() -> T:
            self.look()
            if not even_moved:
                self.refuse_moved()
            pwrite(self.gate.fd, os.urandom(MARK_BYTES), MARK_AT)
            return write()

        while True:
            mutex = self.enter(deadline)
            try:
                if self.still_there():
                    with self.engine:
                        self.ask("pragma synchronous = full")
                        try:
                            return self.transaction.run(checked, self._forget, deadline)
                        finally:
                            self._forget()
                            self.ask("pragma synchronous = normal")
            finally:
                self.leave(mutex)
            mutex = self.lock(deadline)
            try:
                self.reopen_if_gone(deadline)
            finally:
                mutex.release()

    def sweep(self) -> int:
        """Remove the addresses of dead waiters. Returns how many there were."""
        return self._post.sweep()
