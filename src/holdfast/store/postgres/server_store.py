"""The store on a PostgreSQL server.

Decisions for one repository follow each other: each takes the repository's advisory lock for its
transaction, and the server hands that lock on in the order of arrival. Events and state change in
that one transaction, and its commit is durable. Decisions for different repositories do not meet.

The server's clock is the clock of the ledger; no clock of a host is read for a lease. Without an
answer a call goes on until its deadline: it connects again, and decides again, unless the server
says that the decision was committed.
"""

from __future__ import annotations

from time import monotonic, sleep

import psycopg

from holdfast.core.draft import reach
from holdfast.core.ledger_time import Anchor, Reading, ledger_time
from holdfast.core.model import SECOND
from holdfast.core.root_errors import StoreBusyError, StoreError
from holdfast.store.move_marks import gone, move_of
from holdfast.store.mutexes import Mutex, forked
from holdfast.store.postgres import server_errors
from holdfast.store.postgres.listener import FOLLOWERS
from holdfast.store.postgres.server_forks import watch
from holdfast.store.postgres.server_rows import ServerRows
from holdfast.store.postgres.server_sections import ServerFence, ServerSnapshot
from holdfast.store.postgres.server_session import INSIDE_SECONDS, ServerSession, SessionLostError
from holdfast.store.postgres.server_view import ServerView
from holdfast.store.postgres.server_waits import Waits
from holdfast.store.records import build_or_fail
from holdfast.store.store_url import without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeVar

    from holdfast.core.ledger_time import Clock
    from holdfast.core.model import Decision, Event, Grant
    from holdfast.core.view import View
    from holdfast.store.contract import IsDead
    from holdfast.store.postgres.listener import Mailbox

    T = TypeVar("T")
    Row = tuple[Any, ...]

#: A lease without a ttl lasts so long, unless it is renewed.
LEASE_SECONDS = 120
OPEN_SECONDS = 10.0
EVENTS_AT_ONCE = 500
#: The shortest time between two hints to waiters that they may try again.
HINT_SECONDS = 1.0
#: The pauses between attempts to reach the server.
FIRST_PAUSE_SECONDS = 0.05
LAST_PAUSE_SECONDS = 0.5


class PostgresStore:
    """The store. It is thread-safe; a forked child gets its own connection."""

    def __init__(
        self,
        url: str,
        *,
        is_dead: IsDead,
        clock: Clock | None = None,
        end: float = float("inf"),
        lease_seconds: float | None = LEASE_SECONDS,
    ) -> None:
        """With a `clock`, which only tests and simulators have, that clock replaces the server's.
        Raises if opening takes beyond `end`, a time of `time.monotonic()`."""
        server_errors.split(url)
        self.url = without_password(url)
        self.lease = None if lease_seconds is None else round(lease_seconds * SECOND)
        self._address = url
        self._clock = clock
        self._is_dead = is_dead
        self.mutex = Mutex()
        self.in_fence = False
        self._closed = False
        #: Why the server could not be reached at the last attempt; empty once it could.
        self.why_away = ""
        self.session: ServerSession | None = None
        self._waits = Waits(self, url)
        self._anchor: Anchor | None = None
        #: The number and the time of the last event, if no other process has added one since.
        self._head = (-1, 0)
        self._hinted = 0.0
        self._bodies: dict[tuple[str, int], Grant] = {}
        self._fresh: dict[str, Grant] = {}
        self._view = ServerView(
            self._ask, self._look_up, self.url, self._bodies, self._fresh, is_dead, self.lease
        )
        watch(self)
        self.connected(min(monotonic() + OPEN_SECONDS, end))

    # The connection

    def _ask(self, name: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a statement, inside a transaction."""
        assert self.session is not None
        return self.session.ask(self.session.statements[name], values)

    def _look_up(
        self, what: str, keys: list[str], ranges: list[tuple[str, str]], most: int = 0
    ) -> list[Row]:
        """What is `held`, or who is `wanting`, at some keys and inside some ranges."""
        assert self.session is not None
        statement = self.session.statements.look_up(what, len(keys), len(ranges), most)
        return self.session.ask(statement, [*keys, *(end for ends in ranges for end in ends)])

    def connected(self, deadline: float) -> ServerSession:
        """The session, or a new one if there is none or the last was lost. Inside the mutex."""
        session = self.session
        if session is not None:
            if session.has_lost_descriptor:
                session.lose()
            elif session.is_idle:
                return session
            else:
                session.close()  # an interrupt came before its last transaction was over
        self.forget()
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                session = self.session = ServerSession(self._address, deadline)
                self.why_away = ""
                return session
            except psycopg.Error as error:
                is_passing = server_errors.is_passing(error)
                self.why_away = server_errors.one_line(error) if is_passing else ""
                left = deadline - monotonic()
                if not is_passing or left <= pause:
                    raise server_errors.cannot_connect(error, self._address) from error
            except (TimeoutError, SessionLostError) as error:
                self.why_away = str(error)
                if deadline - monotonic() <= pause:
                    raise server_errors.away(self.url, str(error)) from error
            sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_SECONDS)

    def forget(self) -> None:
        """Drop the caches: what they have may never have been committed."""
        self._head = (-1, 0)
        self._anchor = None
        self._bodies.clear()
        self._fresh.clear()
        self._view.forget()

    def close(self) -> None:
        """Release all resources, after the calls of other threads."""
        if self._closed:
            return
        self.refuse_twice()
        mutex = self.mutex
        self._closed = True
        self._waits.close()
        if mutex.acquire(timeout=OPEN_SECONDS):  # else a thread still uses the connection
            try:
                if self.session is not None:
                    self.session.close()
            finally:
                mutex.release()

    def __del__(self) -> None:
        waits = getattr(self, "_waits", None)
        if waits is not None:
            waits.stop()

    def leave_to_parent(self) -> None:
        """In a forked child: its first call opens a new connection."""
        self.mutex = Mutex()
        self.in_fence = False
        if self.session is not None:
            self.session.leave_to_parent()
        self.session = None
        self._waits.leave_to_parent()
        self.forget()

    # Inside

    def lock(self, deadline: float) -> Mutex:
        """Take the mutex."""
        self.refuse_twice()
        mutex = self.mutex
        try:
            left = max(0.0, deadline - monotonic())
            if not mutex.acquire(False) and not mutex.acquire(timeout=left):
                if self.why_away:  # it is in use by a thread that tries to reach the server
                    raise server_errors.away(self.url, self.why_away)
                raise StoreBusyError(
                    "the ledger is in use by another thread of this process",
                    hint="give more time, or look for a thread that is stuck in a fenced section",
                )
            if self._closed:
                raise StoreError("this store is closed", hint="open it again")
            return mutex
        except BaseException:
            if mutex._is_owned():
                mutex.release()
            raise

    def refuse_twice(self) -> None:
        """Raise if this thread is inside already: it would wait for itself."""
        if self.mutex._is_owned():
            raise StoreBusyError(
                "the ledger cannot be used from within a fenced section",
                hint="do one rename inside the section, and everything else outside",
            )

    def begin_deciding(self, deadline: float, inside_seconds: float = INSIDE_SECONDS) -> ServerView:
        """The current state, while nobody else decides."""
        return self.look(self.begun(deadline, inside_seconds)[1])

    def begin_reading(self, deadline: float) -> ServerView:
        """The current state, beside those who decide."""
        return self.look(self.begun(deadline, 0)[1])

    def begun(
        self, deadline: float, inside_seconds: float, *, even_moved: bool = False
    ) -> tuple[ServerSession, Row]:
        """The session, and the head of the ledger, at the beginning of a transaction: to decide,
        for so many seconds at most, or to read. Inside the mutex."""
        while True:
            session = self.connected(deadline)
            try:
                row = (
                    session.enter(deadline, inside_seconds)
                    if inside_seconds
                    else session.read(deadline)
                )
            except SessionLostError as lost:
                if monotonic() >= deadline:
                    raise self.away(lost) from lost
                continue
            if row[-1] is not None and not even_moved:
                session.roll_back()
                move = move_of(row[-1])
                assert move is not None
                raise gone(move, self.url)
            return session, row

    def end_reading(self, error: BaseException | None) -> None:
        """End what `begin_reading` or `begin_deciding` began, without any effect."""
        session = self.session
        if session is None:
            return
        try:
            session.roll_back()
        except SessionLostError:
            pass  # the server rolls it back by itself
        if isinstance(error, SessionLostError):
            raise self.away(error) from error

    def end_fence(self, error: BaseException | None) -> None:
        """End a fenced section. Raises StoreError if the server ended it before, unless the section
        itself has failed."""
        session = self.session
        try:
            if session is None or session.is_lost:
                raise SessionLostError("the connection was lost")
            session.roll_back()
        except SessionLostError as lost:
            if error is None:
                raise StoreError(
                    f"the server ended this fenced section before the process did: {lost}",
                    hint="another holder may have the files since: verify the grant, and read them "
                    "again",
                    path=self.url,
                ) from lost

    def away(self, lost: SessionLostError) -> StoreError:
        """The error for a connection that was lost."""
        self.why_away = str(lost)
        return server_errors.away(self.url, str(lost))

    def look(self, row: Row) -> ServerView:
        """The state at the beginning of a transaction."""
        view = self._view
        view.begin()
        view.head, last_at, view.last_token, grace_ends_at, server_now, *_ = row
        if (view.head, last_at) != self._head:
            self._fresh.clear()  # another process has decided since
        self._set_time(view, last_at, server_now)
        view.has_tickets = grace_ends_at is not None
        view.grace_over = grace_ends_at is not None and view.now >= grace_ends_at
        return view

    def _set_time(self, view: ServerView, last_at: int, server_now: int) -> None:
        self._new_anchor: Anchor | None = None
        if self._clock is None:
            view.wall = server_now
            view.now, view.slept = max(server_now, last_at), 0
            return
        reading: Reading = self._clock.read()
        view.wall = reading.wall
        if self._anchor is None:
            self._anchor = self._stored_anchor()
        view.now, view.slept, self._new_anchor = ledger_time(self._anchor, reading, last_at)
        if self._new_anchor is not None:  # another process may have stored a newer one already
            self._anchor = self._stored_anchor()
            view.now, view.slept, self._new_anchor = ledger_time(self._anchor, reading, last_at)

    def _stored_anchor(self) -> Anchor | None:
        rows = self._ask("anchor")
        if not rows or rows[0][0] is None:
            return None
        boot, uptime, ledger, slept, asleep = rows[0]
        return Anchor(boot=boot, uptime=uptime, ledger=ledger, slept=slept, asleep=asleep)

    # Deciding

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float) -> T:
        """Decide on the current state, commit the decision, and wake the waiters that it names."""
        mutex = self.lock(deadline)
        try:
            return self._transact(decide, deadline)
        except BaseException as error:
            if mutex is not self.mutex and isinstance(error, Exception):
                raise forked(error) from error
            raise
        finally:
            # No function of ours, because an interrupt may come at the start of any.
            if mutex is self.mutex:
                try:
                    if self.session is not None and self.session.in_transaction:
                        self.session.connection.pgconn.finish()  # an interrupt came in between
                finally:
                    mutex.release()

    def _transact(self, decide: Callable[[View], Decision[T]], deadline: float) -> T:
        mutex = self.mutex
        while True:
            decision: Decision[T] | None = None
            session, row = self.begun(deadline, INSIDE_SECONDS)
            try:
                view = self.look(row)
                decision = decide(view)
                rows = ServerRows(session.statements, self._ask, self._bodies, self._fresh)
                if self._new_anchor is not None:
                    rows.put_anchor(self._new_anchor)
                if decision.events:
                    rows.write(view, decision.events)
                    if row[5]:
                        rows.wake((f"{FOLLOWERS}{session.repository}.",))
                rows.wake(decision.wake)
                if decision.hint:
                    rows.wake(self._to_hint(decision.hint))
                if not rows.writes:
                    session.roll_back()
                    return decision.outcome
                session.commit(rows.writes)
            except SessionLostError as lost:
                if mutex is not self.mutex:
                    raise  # a forked child
                self.forget()
                if lost.in_commit and decision and self._was_committed(rows.first, deadline):
                    return decision.outcome
                if monotonic() >= deadline:
                    raise self.away(lost) from lost
                continue
            except BaseException:
                if mutex is self.mutex:
                    self.forget()
                    try:
                        session.roll_back()
                    except SessionLostError:
                        pass  # the server rolls it back by itself
                raise
            if self._new_anchor is not None:
                self._anchor = self._new_anchor
            self._head = self._head_after(view, decision.events)
            return decision.outcome

    def _head_after(self, view: ServerView, history: tuple[Event, ...]) -> tuple[int, int]:
        if not history or any(event.once for event in history):  # which may have got no number
            return (-1, 0)
        return history[-1].seq, history[-1].at

    def _was_committed(self, first: Row | None, deadline: float) -> bool:
        """Whether a decision whose answer was lost is in the ledger, by the first event that it
        would have added. Without one, to decide again does no harm.

        The number of its transaction would not show it: a server that crashed may have given the
        same number to another one. The lost transaction has ended when this one has its turn.
        """
        while first is not None:
            try:
                self.begun(deadline, INSIDE_SECONDS)
                found = self._ask("event", (first[0],))
            except (SessionLostError, StoreBusyError) as error:
                if isinstance(error, StoreBusyError) or monotonic() >= deadline:
                    why = f"the connection was lost during a commit, and then: {error}"
                    raise server_errors.away(self.url, why) from error
                continue
            finally:
                self.end_reading(None)
            _seq, at, _token, kind, version, data = first
            return [row[1:5] for row in found] == [(kind, version, at, data)]
        return False

    def _to_hint(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """The first waiter that may try again, unless it got a hint a moment ago."""
        now = monotonic()
        if now - self._hinted < HINT_SECONDS:
            return ()
        self._hinted = now
        return tuple(self._view.first_address(*reach(keys)))

    # The rest of the contract

    def fenced(self, grant_id: str, token: int, *, deadline: float) -> ServerFence:
        """A short section in which no lock changes hands; it requires a current token."""
        return ServerFence(self, grant_id, token, deadline)

    def view(self, *, deadline: float) -> ServerSnapshot:
        """The current state, for reading. Other processes may write meanwhile."""
        return ServerSnapshot(self, deadline)

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
        deadline = monotonic() + OPEN_SECONDS
        while True:
            try:
                with self.view(deadline=deadline):
                    rows = self._ask("history", (after, count))
                break
            except StoreError as error:
                if not error.is_away or monotonic() >= deadline:
                    raise
        hint = "restore a backup of the database"
        return [build_or_fail(row, lambda event: event, self.url, hint) for row in rows]

    def wait(self, after: int, timeout: float) -> int:
        """Wait until there is an event after this one, for at most `timeout` seconds."""
        return self._waits.follow(after, timeout)

    def waiter(self) -> Mailbox:
        """A waiter that a decision can wake."""
        return self._waits.waiter()

    def trim(self, before: int) -> int:
        """Delete history before an event, without changing the state."""
        deadline = monotonic() + OPEN_SECONDS
        mutex = self.lock(deadline)
        try:
            session = self.begun(deadline, INSIDE_SECONDS)[0]
            try:
                gone = session.write([(session.statements["trim_events"], (before,))])
                rest = [
                    (session.statements[name], (before,)) for name in ("trim_repeats", "trim_lost")
                ]
                session.commit(rest)
                return gone
            except SessionLostError as lost:
                raise self.away(lost) from lost
            except BaseException:
                self.end_reading(None)
                raise
        finally:
            if mutex is self.mutex:
                mutex.release()

    def sweep(self) -> int:
        """Remove the rows of waiters and followers that ended long ago. Returns how many."""
        deadline = monotonic() + OPEN_SECONDS
        mutex = self.lock(deadline)
        try:
            session = self.connected(deadline)
            forget = [session.statements[f"forget_{who}"] for who in ("waiters", "followers")]
            return sum(session.write([(one, ())]) for one in forget)
        finally:
            if mutex is self.mutex:
                mutex.release()
