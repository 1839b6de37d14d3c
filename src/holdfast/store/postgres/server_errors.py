"""What the errors of the server and of the network mean for a person: one sentence, and what to do.

A connection that fails has no error code, only the server's sentence; so the sentences that people
meet are recognised by their words, and any other is shown as it is.
"""

from __future__ import annotations

from psycopg import Error, conninfo

from holdfast.core.errors import StoreFullError, StoreReadonlyError
from holdfast.core.root_errors import BadKeyError, StoreBusyError, StoreError
from holdfast.store import store_url
from holdfast.store.store_url import without_password

#: Errors that a moment's patience may end: the server is starting, stopping, or full.
PASSING = frozenset(("57P01", "57P02", "57P03", "53300", "08000", "08001", "08003", "08006"))

_AWAY_HINT = (
    "start the server or mend the network, then repeat the command; "
    "holdfast store check says what is wrong"
)


class ServerAwayError(StoreError):
    """The server did not answer in time."""

    is_away = True


def split(url: str) -> tuple[str, str]:
    """The URL for the driver, and the name of the repository. Raises BadKeyError."""
    address, name = store_url.split(url)
    if not store_url.is_readable(url):  # no error of the driver, which would quote a part of it
        raise BadKeyError(
            f"{without_password(url)} is not the URL of a server", hint=store_url.WRITE_IT
        )
    if not name.strip():
        raise BadKeyError(
            f"{without_password(url)} does not name a repository in the database",
            hint="add its name after a #: postgresql://host/database#name",
        )
    try:
        conninfo.conninfo_to_dict(address)
    except Error as error:
        raise BadKeyError(
            f"{without_password(url)} is not the URL of a server: {one_line(error)}",
            hint="write it as postgresql://user@host:5432/database",
        ) from None
    return address, name


def one_line(error: BaseException) -> str:
    """The first line of an error, without the words that every failed connection begins with."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    for start in ("connection failed: ", "connection is bad: "):
        text = text.removeprefix(start)
    return text.rpartition("FATAL:")[2].strip() or text


def is_passing(error: Error) -> bool:
    """Whether a failed connection may succeed a moment later."""
    if error.sqlstate is not None:
        return error.sqlstate in PASSING
    return _refused(error, "") is None


def cannot_connect(error: Error, url: str) -> StoreError:
    """The error for a connection that could not be made, or not be used for a ledger."""
    place, said = without_password(url), one_line(error)
    if error.sqlstate is not None and error.sqlstate not in PASSING:
        return of_statement(error, url)
    if _is_full(error):
        return ServerAwayError(
            f"{place}: the server has no session left: {said}",
            hint="raise max_connections or the limit of the role, or end processes that wait",
            path=place,
        )
    return _refused(error, place, _reason(said, url)) or away(place, said)


def _reason(said: str, url: str) -> str:
    """What the driver does not say about a certificate that was refused."""
    if "certificate verify failed" not in said:
        return ""
    from holdfast.store.postgres.certificate_check import why_refused

    found = why_refused(store_url.split(url)[0])
    return f": {found}" if found else ""


def _is_full(error: Error) -> bool:
    text = str(error).lower()
    return any(words in text for words in _FULL)


_FULL = ("too many connections", "too many clients", "remaining connection slots")


def away(place: str, why: str) -> ServerAwayError:
    """The error for a server that does not answer."""
    return ServerAwayError(
        f"the ledger's server cannot be reached: {why}", hint=_AWAY_HINT, path=place
    )


def wrong_pooler(place: str) -> StoreError:
    """The error for a pooler that does not keep one session for each client."""
    return StoreError(_POOLER[0].format(place=place), hint=_POOLER[1], path=place)


_POOLER = (
    "{place} is behind a pooler that gives each transaction another session",
    "set the pooler to session mode (pool_mode = session), or connect directly",
)


def _refused(error: Error, place: str, more: str = "") -> StoreError | None:
    """The error if the server, or the driver, refused the connection for a reason that stays."""
    if _is_full(error):
        return None
    text, said = str(error).lower(), one_line(error)
    if said.startswith("connection to server"):
        said = said.partition(" failed: ")[2] or said
    for words, message, hint in _REASONS:
        if any(word in text for word in words):
            said += more
            return StoreError(message.format(place=place, said=said), hint=hint, path=place)
    return None


_REASONS = (
    (("pooling mode",), *_POOLER),
    (
        ("no password supplied",),
        "{place}: the server asks for a password, and none was given",
        "set it in PGPASSWORD, in the file of PGPASSFILE, or in HOLDFAST_STORE",
    ),
    (
        ("password authentication failed", "sasl authentication failed"),
        "{place}: the server refused the user or the password: {said}",
        "correct the user in the URL, or the password in PGPASSWORD, PGPASSFILE or HOLDFAST_STORE",
    ),
    (
        ("permission denied for database",),
        "{place}: the user may not use this database: {said}",
        "let the owner of the database run: grant connect on database … to …",
    ),
    (
        ("pg_hba.conf", "authentication failed", "is not permitted to log in"),
        "{place}: the server refused this user or this host: {said}",
        "ask the owner of the server to let this user in (pg_hba.conf)",
    ),
    (
        ("certificate", "ssl error", "root.crt", "server does not support ssl",
         "ssl is not enabled", "ssl connection has been closed", "sslmode", "tlsv1"),
        "{place}: the encrypted connection was not made: {said}",
        "check sslmode and sslrootcert in the URL, and the server's certificate",
    ),
    (
        ("could not translate host name", "name or service not known", "no address associated",
         "nodename nor servname", "temporary failure in name resolution"),
        "{place}: this host does not know the server's name: {said}",
        "check the name of the host in the URL",
    ),
    (
        ("no such database", "database \""),
        "{place}: {said}",
        "create the database, or correct its name in the URL",
    ),
    (
        ("role \"", "user does not exist"),
        "{place}: {said}",
        "create the role, or correct the user in the URL",
    ),
    (
        ("unrecognized configuration parameter", "invalid connection option",
         "invalid integer value", "invalid uri", "invalid port", "invalid sslmode",
         "invalid channel_binding"),
        "{place}: an option of the URL is wrong: {said}",
        "correct the URL: postgresql://user@host:5432/database",
    ),
)  # fmt: skip


def of_statement(error: Error, url: str) -> StoreError:
    """The error for a statement that the server refused."""
    place, code, said = without_password(url), error.sqlstate or "", one_line(error)
    if "pooling mode" in said:
        return wrong_pooler(place)
    if code == "55P03":
        return StoreBusyError(
            f"another process is deciding, and holds the ledger {place}",
            hint="try again; if it stays so, look in pg_stat_activity for the session that waits",
            path=place,
        )
    # A standby refuses already to read who waits: it has no unlogged tables.
    if code == "25006" or "during recovery" in said:
        return StoreReadonlyError(
            f"{place} cannot be written: {said}",
            hint="name the primary server, not a standby; with several hosts in the URL add "
            "?target_session_attrs=read-write",
            path=place,
        )
    if code == "42501":
        return StoreReadonlyError(
            f"{place}: the role lacks rights: {said}",
            hint="let the owner of the schema run: grant usage on schema holdfast to …; "
            "grant all on all tables in schema holdfast to …",
            path=place,
        )
    if code in ("53100", "53200"):
        return StoreFullError(
            f"{place}: the server has no room left: {said}",
            hint="free some space on the server and try again; nothing was half done",
            path=place,
        )
    return StoreError(f"{place}: {said}", hint="see the server's message above", path=place)
