"""One connection to the server: its deadlines, its transactions, and a lost answer.

A session that fails in the middle of an exchange is closed and never used again: neither side knows
where the other is. What it had not committed, the server rolls back. If the answer to a commit was
lost, the next session looks for what it would have written.
"""

from __future__ import annotations

import os
from logging import NullHandler, getLogger
from time import monotonic

import psycopg
from psycopg import conninfo, waiting
from psycopg.types.numeric import Int8Dumper

from holdfast.core.root_errors import StoreError
from holdfast.store import file_descriptors
from holdfast.store.postgres import migrations, server_errors
from holdfast.store.postgres.statements import ALL, Statements
from holdfast.store.store_url import without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, TypeVar

    from psycopg.abc import PQGen

    T = TypeVar("T")
    Row = tuple[Any, ...]
    #: A statement and its values.
    Write = tuple[bytes, Sequence[Any]]

#: A process that is stopped in the middle of a decision keeps the others for so long.
INSIDE_SECONDS = 5.0
#: How long a session waits for the others that decide, unless a call has less time, or more.
WAIT_SECONDS = 10.0
#: How much later than its deadline a call may end, because the server's answer travels.
TRAVEL_SECONDS = 0.5
#: How long a statement that is no decision may take, such as those of a close.
SHORT_SECONDS = 2.0

_DEFAULTS = {
    "application_name": "holdfast", "client_encoding": "utf8", "keepalives_idle": "10",
    "keepalives_interval": "5", "keepalives_count": "3",
}  # fmt: skip


# Each of these is raised here as an error; without a handler they would be printed as well.
getLogger("psycopg").addHandler(NullHandler())


class SessionLostError(Exception):
    """The connection was lost, perhaps `in_commit`: then a commit may have happened."""

    def __init__(self, why: str, *, in_commit: bool = False) -> None:
        super().__init__(why)
        self.in_commit = in_commit


class _Connection(psycopg.Connection["Row"]):
    """A connection whose every exchange ends at its deadline."""

    deadline = float("inf")

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        left = max(0.001, self.deadline - monotonic())
        try:
            return waiting.wait(gen, self.pgconn.socket, interval=interval, timeout=left)
        except psycopg.Error as error:
            if error.sqlstate is None and monotonic() >= self.deadline:
                self.pgconn.finish()  # the exchange is not complete, so neither side can go on
                raise TimeoutError("no answer in time") from error
            raise
        except BaseException:  # an interrupt: the same
            self.pgconn.finish()
            raise


def connect(address: str, deadline: float) -> _Connection:
    """A connection to the server. Raises psycopg's error."""
    settings: dict[str, Any] = {**_DEFAULTS, **conninfo.conninfo_to_dict(address)}
    left = max(1.0, deadline - monotonic())
    settings["connect_timeout"] = min(int(settings.get("connect_timeout") or 10), round(left) or 1)
    made = _Connection.connect(**settings, autocommit=True)
    made.adapters.register_dumper(int, Int8Dumper)
    made.deadline = deadline + TRAVEL_SECONDS
    return made


class ServerSession:
    """A connection for one repository, of one process."""

    __slots__ = (
        "_cursor", "_opened", "_sign", "backend", "connection", "in_transaction", "pid",
        "repository", "statements", "url",
    )  # fmt: skip

    def __init__(self, url: str, deadline: float) -> None:
        """Raises StoreError, or psycopg's error if the connection was not made."""
        address, name = server_errors.split(url)
        self.url = url
        self.pid = os.getpid()
        #: Between the beginning and the known end of a transaction.
        self.in_transaction = False
        self._sign = os.urandom(8).hex()
        self.connection = connect(address, deadline)
        number = self.connection.fileno()
        #: Its descriptor, and which file that was.
        self._opened = number, file_descriptors.identity_of(number)
        try:
            self._cursor = self.connection.cursor()
            self.repository = self._prepare(name)
            self.statements = Statements(self.repository)
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self, name: str) -> int:
        """Set the session up. The number of the repository."""
        text = ALL["connect"].encode().replace(b":sign", b"'%s'" % self._sign.encode())
        text = text.replace(b":inside", _ms(INSIDE_SECONDS)).replace(b":wait", _ms(WAIT_SECONDS))
        _version, encoding, has_tables, self.backend = self._all(text)
        place = without_password(self.url)
        if encoding != "UTF8":
            raise StoreError(
                f"the database of {place} has the encoding {encoding}, and paths need UTF8",
                hint="create the database with: createdb --encoding=UTF8 --template=template0",
                path=place,
            )
        found = self._format() if has_tables else 0
        if found < migrations.FORMAT:
            migrations.migrate(self.connection, place)
        else:
            migrations.refuse_other_format(found, place)
        row = self._cursor.execute(ALL["find"], (name,)).fetchone()
        if row is None:
            self._cursor.execute(ALL["begin_repository"], (name,))
            row = self._cursor.execute(ALL["find"], (name,)).fetchone()
        assert row is not None
        return int(row[0])

    def _format(self) -> int:
        row = self._cursor.execute(ALL["format"]).fetchone()
        return int(row[0] or 0) if row else 0

    def _all(self, text: bytes) -> Row:
        """The last row of several statements that travel together."""
        self._cursor.execute(text, prepare=False)
        while self._cursor.nextset():
            pass
        row = self._cursor.fetchone()
        assert row is not None
        return row

    # Transactions

    def enter(self, deadline: float, inside_seconds: float = INSIDE_SECONDS) -> Row:
        """Begin to decide: nobody else decides for this repository until `leave` or `commit`. The
        head of the ledger."""
        self.connection.deadline = deadline + TRAVEL_SECONDS
        left = max(0.001, deadline - monotonic())
        if inside_seconds == INSIDE_SECONDS and 0 <= WAIT_SECONDS - left < TRAVEL_SECONDS:
            return self._begin(self.statements["enter"])
        text = self.statements["enter_within"].replace(b":wait", _ms(left))
        return self._begin(text.replace(b":inside", _ms(inside_seconds)))

    def read(self, deadline: float) -> Row:
        """Begin to read one state of the ledger, beside those who decide."""
        self.connection.deadline = deadline + TRAVEL_SECONDS
        return self._begin(self.statements["read"])

    def _begin(self, text: bytes) -> Row:
        self.in_transaction = True
        try:
            row = self._exchange(lambda: self._all(text))
        except StoreError:  # refused: the connection is as good as before
            self.roll_back()
            raise
        if row[-2] != self._sign:
            self.roll_back()
            raise server_errors.wrong_pooler(without_password(self.url))
        return row

    def ask(self, statement: bytes, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of a statement."""

        def asked() -> list[Row]:
            cursor = self._cursor.execute(statement, values)
            has_rows = cursor.pgresult is not None and cursor.pgresult.nfields
            return cursor.fetchall() if has_rows else []

        return self._exchange(asked)

    def commit(self, writes: Iterable[Write]) -> None:
        """Write, and commit: all of it in one exchange."""

        def written() -> None:
            with self.connection.pipeline():
                for statement, values in writes:
                    self._cursor.execute(statement, values)
                self._cursor.execute(b"commit")

        try:
            self._exchange(written, in_commit=True)
        except StoreError:
            self._forget_exchange()
            raise
        self.in_transaction = False

    def _forget_exchange(self) -> None:
        """End a transaction with a refused statement. The server skipped those behind it, but the
        driver counts some of them as prepared, until it rolls back by itself."""
        try:
            self._exchange(self.connection.rollback)
            self.in_transaction = False
        except (SessionLostError, StoreError):
            self.connection.close()

    def write(self, writes: Iterable[Write]) -> int:
        """Write without committing. How many rows the first statement changed."""

        def written() -> int:
            changed = [self._cursor.execute(*one).rowcount for one in writes]
            return changed[0]

        return self._exchange(written)

    def roll_back(self) -> None:
        """End a transaction without any effect. Raises only SessionLostError."""
        if not self.in_transaction:
            return
        if not self.is_lost:
            try:
                self._exchange(lambda: self._cursor.execute(b"rollback"))
            except StoreError as error:
                self.connection.close()
                raise SessionLostError(error.message) from error
        self.in_transaction = False

    def _exchange(self, exchanged: Callable[[], T], *, in_commit: bool = False) -> T:
        """Send something and hear the answer, all of it or none."""
        try:
            return exchanged()
        except psycopg.Error as error:
            raise self.failed(error, in_commit=in_commit) from error
        except TimeoutError as error:
            raise SessionLostError("no answer in time", in_commit=in_commit) from error
        except BaseException:  # an interrupt: neither side knows where the other is
            self.connection.pgconn.finish()
            raise

    def short(self, name: str, values: Sequence[Any]) -> None:
        """A statement of its own, which no decision depends on."""
        self.connection.deadline = monotonic() + SHORT_SECONDS
        self.ask(self.statements[name], values)

    # Its end

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be used any more."""
        return bool(self.connection.closed)

    @property
    def has_lost_descriptor(self) -> bool:
        """Whether the program has closed it, as daemons do. Its number may belong to another file
        now, so the driver must never use it again."""
        number, opened = self._opened
        return not (self.is_lost or file_descriptors.is_ours(number, opened))

    def lose(self) -> None:
        """Keep the driver from ever closing the connection, even at the interpreter's exit."""
        file_descriptors.forget(False)
        keep_for_ever(self.connection)
        self.pid = 0  # which no process has: nothing here is closed any more

    @property
    def is_idle(self) -> bool:
        """Whether a transaction can begin."""
        return not (self.in_transaction or self.connection.closed)

    def failed(self, error: psycopg.Error, *, in_commit: bool = False) -> Exception:
        """The error to raise for psycopg's. A lost connection is closed on our side, too."""
        if "pooling mode" in str(error):
            self.connection.close()
            return server_errors.of_statement(error, self.url)
        if self.is_lost or self.connection.broken or (error.sqlstate or "")[:2] in ("57", "08"):
            self.connection.close()
            return SessionLostError(server_errors.one_line(error), in_commit=in_commit)
        if error.sqlstate == "25P03":  # the server ended a transaction that took too long
            self.connection.close()
            return SessionLostError("this process was stopped for too long")
        return server_errors.of_statement(error, self.url)

    def close(self) -> None:
        """Close the connection, unless it is the parent's."""
        if self.pid == os.getpid():
            self.connection.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # while the interpreter shuts down, anything may be gone already
            pass

    def leave_to_parent(self) -> None:
        """In a forked child: give the connection up without a word to the server. Its number leads
        nowhere from now on, so whatever the driver still writes cannot reach the parent's."""
        lead_nowhere(self.connection)


#: Connections that are not taken down: those of the parent, in which another thread may have been
#: inside the driver, and those whose descriptors the program has closed.
_left: list[psycopg.Connection[Any]] = []


def keep_for_ever(connection: psycopg.Connection[Any]) -> None:
    """Never take a connection down, not even when the interpreter ends."""
    _left.append(connection)
    try:
        from ctypes import py_object, pythonapi

        pythonapi.Py_IncRef(py_object(connection))
        pythonapi.Py_IncRef(py_object(connection.pgconn))
    except (ImportError, AttributeError):
        pass


def lead_nowhere(connection: psycopg.Connection[Any]) -> None:
    """Replace the descriptor of a connection, in a child that must not use it."""
    _left.append(connection)
    try:
        number = connection.pgconn.socket
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        os.dup2(nothing, number, inheritable=False)
        os.close(nothing)
    except (psycopg.Error, OSError):  # it was closed already
        pass


def _ms(seconds: float) -> bytes:
    return b"'%dms'" % max(1, round(seconds * 1000))
