"""What `holdfast store check` says about a server. It creates nothing there.

A connection that cannot be made is an error, whose sentence says which part of the URL, or which
side, is the reason; everything else is a finding.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter, time

import psycopg

from holdfast.store.check_finding import BAD, GOOD, NOTE, Finding
from holdfast.store.move_marks import gone, move_of
from holdfast.store.postgres import server_errors
from holdfast.store.postgres.migrations import FORMAT, OLDEST_SERVER, SCHEMA
from holdfast.store.postgres.server_session import connect
from holdfast.store.store_url import without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    Row = tuple[Any, ...]
    Connection = psycopg.Connection[Row]

#: How many exchanges the latency is the median of.
EXCHANGES = 21
#: What a person should know: a slower answer, in seconds; a clock that differs by more; less of the
#: server's sessions left, as a share.
SLOW_SECONDS = 0.1
CLOCK_SECONDS = 5.0
FULL_SHARE = 0.8


def has_repository(url: str, *, end: float) -> bool:
    """Whether the ledger of a URL is in its database. Raises StoreError."""
    name = server_errors.split(url)[1]
    with _connected(url, end) as connection:
        return _tables(connection) == "" and _repository(connection, name) is not None


def check(url: str, *, end: float) -> Iterator[Finding]:
    """All findings, most important first. Raises StoreError if there is no connection."""
    name = server_errors.split(url)[1]
    with _connected(url, end) as connection:
        yield _server(connection)
        yield from _state(connection, url, name)
        yield _latency(connection)
        yield _clock(connection)
        yield _durability(connection)
        yield _sessions(connection)
        yield _pooler(connection, url, end)
        yield _encryption(connection)


def _connected(url: str, end: float) -> AbstractContextManager[Connection]:
    try:
        made = connect(server_errors.split(url)[0], end)
    except psycopg.Error as error:
        raise server_errors.cannot_connect(error, url) from error
    except TimeoutError as error:
        raise server_errors.away(without_password(url), str(error)) from error
    return _Asking(made, url)


class _Asking:
    """A connection, whose errors are those of a store."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url

    def __enter__(self) -> Connection:
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._connection.close()
        if isinstance(error, psycopg.Error):
            raise server_errors.of_statement(error, self._url) from error
        if isinstance(error, TimeoutError):
            raise server_errors.away(without_password(self._url), str(error)) from error


def _row(connection: Connection, sql: str, *values: Any) -> Row:
    row = connection.execute(sql.encode(), values or None).fetchone()
    assert row is not None
    return row


def _server(connection: Connection) -> Finding:
    number, shown, encoding, standby, reads, database, role = _row(
        connection,
        "select current_setting('server_version_num')::integer, current_setting('server_version'),"
        " current_setting('server_encoding'), pg_is_in_recovery(),"
        " current_setting('default_transaction_read_only')::boolean,"
        " current_database(), current_user",
    )
    facts = {"version": shown, "role": role, "database": database, "encoding": encoding}
    said = f"PostgreSQL {shown.split(' ')[0]}, database {database}, as {role}"
    if number < OLDEST_SERVER:
        hint = f"upgrade the server: Holdfast needs PostgreSQL {OLDEST_SERVER // 10000} or later"
        return Finding("server", BAD, f"{said}: this version is too old", hint=hint, **facts)
    if encoding != "UTF8":
        return Finding(
            "server", BAD, f"{said}: its encoding is {encoding}, and paths need UTF8",
            hint="create the database with: createdb --encoding=UTF8 --template=template0", **facts,
        )  # fmt: skip
    if standby or reads:
        why = "it is a standby" if standby else "its transactions are read-only"
        return Finding(
            "server", BAD, f"{said}: {why}, so nothing can be written",
            hint="name the primary server in the URL; with several hosts add "
            "?target_session_attrs=read-write", **facts,
        )  # fmt: skip
    return Finding("server", GOOD, said, **facts)


# The tables


def _tables(connection: Connection) -> str:
    """Why the tables cannot be read; empty if they can."""
    row = connection.execute(
        b"select has_schema_privilege(n.oid, 'usage'),"
        b" exists (select from pg_class c where c.relnamespace = n.oid"
        b" and relname = 'repositories')"
        b" from pg_namespace n where nspname = %s",
        (SCHEMA,),
    ).fetchone()
    if row is None or not row[1]:
        return "none"
    return "" if row[0] else "no rights"


def _state(connection: Connection, url: str, name: str) -> Iterator[Finding]:
    why = _tables(connection)
    role = connection.info.user
    if why == "none":
        yield _may_make(connection, role)
        return
    if why:
        yield _no_rights(role, [f"usage of the schema {SCHEMA}"])
        return
    found = (
        _row(
            connection,
            f"select has_table_privilege('{SCHEMA}.migrations', 'select')",
        )[0]
        and _row(connection, f"select coalesce(max(version), 0) from {SCHEMA}.migrations")[0]
    )
    missing = _missing_rights(connection)
    if found is False or missing:
        yield _no_rights(role, missing)
        return
    if found > FORMAT:
        yield Finding(
            "tables", BAD, f"format {found}: made by a newer version of Holdfast (this one reads "
            f"up to {FORMAT})", hint="upgrade: pip install --upgrade 'holdfast[postgres]'",
            format=found,
        )  # fmt: skip
        return
    old = f", brought up to {FORMAT} by the first command" if found < FORMAT else ""
    yield Finding("tables", GOOD, f"format {found}{old}; {role} may read and write", format=found)
    yield _ledger(connection, url, name)


def _may_make(connection: Connection, role: str) -> Finding:
    (may,) = _row(
        connection,
        "select coalesce((select has_schema_privilege(oid, 'create') from pg_namespace"
        " where nspname = %s), has_database_privilege(current_database(), 'create'))",
        SCHEMA,
    )
    if may:
        return Finding("tables", NOTE, f"there are none yet; {role} may make them, which the "
                       "first command does", format=0)  # fmt: skip
    return Finding(
        "tables", BAD, f"there are none, and {role} may not make them",
        hint=f"let the owner of the database run: create schema if not exists {SCHEMA}; "
        f'grant all on schema {SCHEMA} to "{role}"', format=0,
    )  # fmt: skip


def _missing_rights(connection: Connection) -> list[str]:
    rows = connection.execute(
        b"select relname, wanted from pg_class c join pg_namespace n on n.oid = relnamespace,"
        b" unnest(array['select', 'insert', 'update', 'delete']) as wanted"
        b" where nspname = %s and relkind = 'r' and relname <> 'migrations'"
        b" and not has_table_privilege(c.oid, wanted) order by 1, 2",
        (SCHEMA,),
    ).fetchall()
    lacking: dict[str, list[str]] = {}
    for table, wanted in rows:
        lacking.setdefault(table, []).append(wanted)
    return [f"{', '.join(wanted)} on {SCHEMA}.{table}" for table, wanted in lacking.items()]


def _no_rights(role: str, missing: list[str]) -> Finding:
    more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
    lacks = "; ".join(missing[:2]) or f"select on {SCHEMA}.migrations"
    return Finding(
        "tables", BAD, f"the role {role} lacks rights: {lacks}{more}",
        hint=f"let the owner of the tables run: grant usage on schema {SCHEMA} to \"{role}\"; "
        f'grant all on all tables in schema {SCHEMA} to "{role}"',
        missing=missing,
    )  # fmt: skip


def _repository(connection: Connection, name: str) -> Row | None:
    return connection.execute(
        f"select moved_to, (select max(seq) from {SCHEMA}.events e where e.repository = r.id)"
        f" from {SCHEMA}.repositories r where name = %s".encode(),
        (name,),
    ).fetchone()


def _ledger(connection: Connection, url: str, name: str) -> Finding:
    row = _repository(connection, name)
    if row is None:
        return Finding("ledger", NOTE, f"{name}: not there yet; the first command makes it",
                       repository=name, last_event=0)  # fmt: skip
    move = move_of(row[0])
    if move is not None:
        error = gone(move, without_password(url))
        return Finding("ledger", BAD, error.message, hint=error.hint, repository=name,
                       moved_to=move.to)  # fmt: skip
    last = row[1] or 0
    return Finding("ledger", GOOD, f"{name}, with {last} events so far",
                   repository=name, last_event=last)  # fmt: skip


# How good it is


def _latency(connection: Connection) -> Finding:
    spans = []
    for _ in range(EXCHANGES):
        begin = perf_counter()
        connection.execute(b"select 1")
        spans.append(perf_counter() - begin)
    seconds = median(spans)
    said = (
        f"{seconds * 1000:.3g} ms for an exchange (median of {EXCHANGES}); a decision takes three"
    )
    facts: dict[str, Any] = {
        "latency_ms": round(seconds * 1000, 3),
        "slowest_ms": round(max(spans) * 1000, 3),
    }
    if seconds > SLOW_SECONDS:
        return Finding("latency", NOTE, said, hint="every hook of an agent waits for it", **facts)
    return Finding("latency", GOOD, said, **facts)


def _clock(connection: Connection) -> Finding:
    begin = time()
    (there,) = _row(connection, "select extract(epoch from clock_timestamp())::float8")
    end = time()
    differs, within = there - (begin + end) / 2, (end - begin) / 2
    facts: dict[str, Any] = {
        "clock_difference_ms": round(differs * 1000, 3),
        "within_ms": round(within * 1000, 3),
    }
    if abs(differs) <= within:
        return Finding("clock", GOOD, "no difference to this host's", **facts)
    way = "ahead of" if differs > 0 else "behind"
    said = f"{abs(differs):.3g} s {way} this host's"
    if abs(differs) > CLOCK_SECONDS:
        hint = "leases follow the server's clock alone; only the times in lists look odd"
        return Finding("clock", NOTE, said, hint=hint, **facts)
    return Finding("clock", GOOD, said, **facts)


def _durability(connection: Connection) -> Finding:
    names = ("synchronous_commit", "fsync", "full_page_writes")
    values = _row(connection, f"select {', '.join(f'current_setting({name!r})' for name in names)}")
    facts = dict(zip(names, values, strict=True))
    said = ", ".join(f"{name} {value}" for name, value in facts.items())
    if facts["fsync"] == "off" or facts["full_page_writes"] == "off":
        return Finding(
            "commits", NOTE, f"not durable: {said}; a crash of the server's machine may lose or "
            "damage the ledger", hint="switch both on in postgresql.conf", **facts,
        )  # fmt: skip
    if facts["synchronous_commit"] == "off":
        said += ", which Holdfast's own sessions switch on"
    return Finding("commits", GOOD, f"durable: {said}", **facts)


def _sessions(connection: Connection) -> Finding:
    used, ours, allowed, of_role, of_database = _row(
        connection,
        "select count(*), count(*) filter (where application_name = 'holdfast'),"
        " current_setting('max_connections')::integer"
        " - current_setting('superuser_reserved_connections')::integer,"
        " (select rolconnlimit from pg_roles where rolname = current_user),"
        " (select datconnlimit from pg_database where datname = current_database())"
        " from pg_stat_activity where datname is not null",
    )
    limits = [limit for limit in (of_role, of_database) if limit is not None and limit >= 0]
    most = min([allowed, *limits])
    said = f"{used} of {most} are used, {ours} of them by Holdfast"
    if used > FULL_SHARE * most:
        return Finding(
            "sessions", NOTE, said, hint="raise max_connections: each process of Holdfast needs "
            "one, and one more while it waits", used=used, allowed=most, ours=ours,
        )  # fmt: skip
    return Finding("sessions", GOOD, said, used=used, allowed=most, ours=ours)


def _pooler(connection: Connection, url: str, end: float) -> Finding:
    """A pooler shows another process number than the server does. In session mode nobody else gets
    our server process while we are connected; in any other mode the next transaction does."""
    (mine,) = _row(connection, "select pg_backend_pid()")
    if mine == connection.info.backend_pid:
        return Finding("pooler", GOOD, "there is none", pooler="none")
    with _connected(url, end) as other:
        other.autocommit = False
        (theirs,) = _row(other, "select pg_backend_pid()")
        (again,) = _row(connection, "select pg_backend_pid()")
        other.rollback()
    if theirs == mine or again != mine:
        return Finding(
            "pooler", BAD, "a pooler gives each transaction another session",
            hint="set it to session mode (pool_mode = session), or connect directly",
            pooler="transaction",
        )  # fmt: skip
    return Finding("pooler", GOOD, "there is one, in session mode", pooler="session")


def _encryption(connection: Connection) -> Finding:
    info = connection.info
    if connection.pgconn.ssl_in_use:
        verifies = (info.get_parameters().get("sslmode") or "prefer").startswith("verify")
        if verifies:
            return Finding("encryption", GOOD, "TLS, and the server's certificate is verified",
                           tls=True, verified=True)  # fmt: skip
        return Finding(
            "encryption", NOTE, "TLS, but the server's certificate is not verified",
            hint="add ?sslmode=verify-full&sslrootcert=… to the URL", tls=True, verified=False,
        )  # fmt: skip
    if _is_local(info.hostaddr or info.host):
        return Finding("encryption", GOOD, "none, and none needed on this host", tls=False)
    return Finding(
        "encryption", NOTE, "none: passwords and paths cross the network in the clear",
        hint="switch TLS on in the server, and add ?sslmode=verify-full to the URL", tls=False,
    )  # fmt: skip


def _is_local(host: str) -> bool:
    return not host or host.startswith(("/", "127.", "@")) or host in ("::1", "localhost")
