"""The tables on the server: made once, and brought up to date once, whoever comes first.

Each format is a file in `sql`. The files that the database does not have yet run in one
transaction, under a lock, so of several processes that open a new database one makes the tables.
"""

from __future__ import annotations

from holdfast.core.errors import StoreReadonlyError, StoreVersionError
from holdfast.store.postgres.statements import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from psycopg import Connection

#: The format that this version of Holdfast reads and writes.
FORMAT = 1
SCHEMA = "holdfast"
#: The oldest server with which Holdfast works, as in `server_version_num`.
OLDEST_SERVER = 130_000
#: The advisory lock of those who make tables; no repository has this number.
_LOCK = "select pg_advisory_xact_lock(1752132708, 0)"


def migrate(connection: Connection[tuple[object, ...]], place: str) -> None:
    """Make the tables, or bring them up to date. Does nothing to a newer format."""
    with connection.transaction():
        connection.execute(_LOCK)
        _make_schema(connection, place)
        connection.execute(
            "create table if not exists migrations"
            " (version integer primary key, at timestamptz not null default now())"
        )
        row = connection.execute("select coalesce(max(version), 0) from migrations").fetchone()
        assert row is not None
        for version in range(int(str(row[0])) + 1, FORMAT + 1):
            with open(f"{FOLDER}/tables_{version}.sql", encoding="utf-8") as file:
                connection.execute(file.read().encode(), prepare=False)
            connection.execute("insert into migrations (version) values (%s)", (version,))


def _make_schema(connection: Connection[tuple[object, ...]], place: str) -> None:
    found = connection.execute(
        "select has_schema_privilege(oid, 'CREATE') from pg_namespace where nspname = %s", (SCHEMA,)
    ).fetchone()
    if found is not None:
        if not found[0]:
            raise _may_not(connection, place, "make tables in")
        return
    (may,) = connection.execute(
        "select has_database_privilege(current_database(), 'CREATE')"
    ).fetchone() or (False,)
    if not may:
        raise _may_not(connection, place, "make")
    connection.execute(f"create schema {SCHEMA}")


def _may_not(
    connection: Connection[tuple[object, ...]], place: str, what: str
) -> StoreReadonlyError:
    user = connection.info.user
    return StoreReadonlyError(
        f"the role {user} may not {what} the schema {SCHEMA} in {place}",
        hint=f"let the owner of the database run: create schema if not exists {SCHEMA}; "
        f'grant all on schema {SCHEMA} to "{user}"',
        path=place,
    )


def refuse_other_format(found: int, place: str) -> None:
    """Raise if the tables were made by a newer version of Holdfast."""
    if found > FORMAT:
        raise StoreVersionError(
            f"{place} was written by a newer version of Holdfast (format {found}, "
            f"this one reads up to {FORMAT})",
            hint="upgrade: pip install --upgrade 'holdfast[postgres]'",
            path=place,
            version=found,
        )
