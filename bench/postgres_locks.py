"""What is measured on one PostgreSQL server: Holdfast, and plain use of the server by psycopg.

Each is a `locks.Lock` in a child process, on a connection of its own. The plain uses do less than a
lock: they commit two rows, or take the server's advisory lock, which is gone with its session and
leaves no record. They are the least that the server can do for a lock of that kind.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench import locks
from bench.locks import Lock, Ours, Plain

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

COMMITS = "two commits by psycopg"
AUTOCOMMITS = "two autocommitted rows"
SHARED_ROW = "two updates of one row"
ADVISORY = "pg_advisory_lock"
ADVISORY_AND_ROWS = "pg_advisory_lock and a row"
SERIALIZABLE = "serializable, repeated"

TABLES = (
    "create schema plain",
    "create table plain.rows (id bigint generated always as identity primary key, text text)",
    "create table plain.numbers (id integer primary key, number bigint)",
    "insert into plain.numbers values (1, 0)",
)
#: As long as the event of an acquired lock.
TEXT = "x" * 250

_INSERT = "insert into plain.rows (text) values (%s)"
_UPDATE = "update plain.numbers set number = number + 1 where id = 1"
_TAKE = "select pg_advisory_lock(1)"
_GIVE_BACK = "select pg_advisory_unlock(1)"


def open_ours(name: str, folder: Path, store: str, who: str, path: str) -> None:
    """In a child: a manager of this store, which cycles one path."""
    from holdfast import LockManager

    locks.keep(name, Ours(LockManager.open(folder, store=store), who, path))


def open_repeating(name: str, folder: Path, store: str, who: str, path: str) -> None:
    """In a child: the same, with serializable transactions in the place of the advisory lock."""
    from bench.postgres_serializable import repeating_manager

    locks.keep(name, Ours(repeating_manager(folder, store), who, path))


def repeats(name: str) -> int:
    """In a child: how many decisions of a lock had to be repeated until now."""
    lock: Any = locks.opened(name)
    return int(lock.manager.store.repeats)


def open_plain(name: str, url: str) -> None:
    """In a child: one of the plain uses of the server."""
    locks.keep(name, _PLAIN[name](url))


def _two_commits(url: str) -> Lock:
    connection = _connected(url, autocommit=False)
    return _both(connection, lambda: _commit(connection, _INSERT, (TEXT,)))


def _two_autocommits(url: str) -> Lock:
    connection = _connected(url)
    return _both(connection, lambda: _run(connection, _INSERT, (TEXT,)))


def _two_updates(url: str) -> Lock:
    connection = _connected(url, autocommit=False)
    return _both(connection, lambda: _commit(connection, _UPDATE))


def _advisory(url: str) -> Lock:
    connection = _connected(url)
    return Plain(
        lambda: _run(connection, _TAKE), lambda: _run(connection, _GIVE_BACK), connection.close
    )


def _advisory_and_rows(url: str) -> Lock:
    connection = _connected(url)

    def acquire() -> None:
        _run(connection, _TAKE)
        _run(connection, _INSERT, (TEXT,))

    def release() -> None:
        _run(connection, _INSERT, (TEXT,))
        _run(connection, _GIVE_BACK)

    return Plain(acquire, release, connection.close)


_PLAIN = {
    COMMITS: _two_commits,
    AUTOCOMMITS: _two_autocommits,
    SHARED_ROW: _two_updates,
    ADVISORY: _advisory,
    ADVISORY_AND_ROWS: _advisory_and_rows,
}


def _connected(url: str, *, autocommit: bool = True) -> psycopg.Connection[Any]:
    import psycopg

    return psycopg.connect(url, autocommit=autocommit)


def _both(connection: psycopg.Connection[Any], do: Callable[[], None]) -> Lock:
    """A lock whose acquire and release are the same."""
    return Plain(do, do, connection.close)


def _run(connection: psycopg.Connection[Any], sql: str, values: tuple[str, ...] = ()) -> None:
    connection.execute(sql.encode(), values, prepare=True)


def _commit(connection: psycopg.Connection[Any], sql: str, values: tuple[str, ...] = ()) -> None:
    _run(connection, sql, values)
    connection.commit()


def cycles_together(name: str, start_at: float, seconds: float) -> tuple[int, float]:
    """In a child: the cycles of one of many processes that begin together, and their time."""
    lock = locks.opened(name)
    acquire, release, clock = lock.acquire, lock.release, time.monotonic
    count = 0
    while (wait := start_at - clock()) > 0:
        time.sleep(wait)
    begun = now = clock()
    while now < begun + seconds:
        acquire()
        release()
        count += 1
        now = clock()
    return count, now - begun
