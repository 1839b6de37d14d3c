"""The embedded ledger's file: its tables, its version, and its errors.

The state tables are an index on the ledger: the body of a grant is its `lock_acquired` event,
that of a ticket its `ticket_added` event. Trimming leaves those events in place.

The cost of a commit is the number of pages that it touches. So one table has everything about live
grants: in a ledger of ordinary size a transaction writes one page of it and one page of events.
"""

from __future__ import annotations

import os

from holdfast.core.root_errors import StoreBusyError, StoreError
from holdfast.store.sqlite.sqlite_driver import driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sqlite3 import Connection

    from holdfast.core.errors import StoreCorruptError, StoreFullError, StoreReadonlyError

VERSION = 2
#: Added to the version of a ledger that was moved to another store: older versions of Holdfast,
#: which do not know the mark of that, refuse it as one of a newer version.
MOVED = 1_000_000

#: The longest path that SQLite accepts, unless compiled otherwise.
PATH_BYTES_MAX = 512
APPLICATION_ID = 0x686F6C64  # "hold"

#: Small pages: a transaction writes few bytes to several tables, and each page is copied whole.
PAGE_BYTES = 1024
#: The size at which the log is written back into the file. The first process to open the ledger
#: reads the whole log, so short commands keep it short. A process that writes a lot may let it grow
#: to 16 MB; if that process is killed, the next one needs some 0.05 s more, once.
CHECKPOINT_PAGES_SHORT = 250
CHECKPOINT_PAGES = 16_000
BUSY_SECONDS = 0.1

TABLES = """
create table anchor (
    one integer primary key check (one = 1),
    boot text not null, uptime integer not null, ledger integer not null,
    slept integer not null, asleep integer not null
);
create table events (
    seq integer primary key,
    at integer not null,
    token integer not null,      -- the largest token issued so far
    type text not null,
    version integer not null,
    data text not null
);
create table repeats (           -- events that said the same again instead of being written again
    once text primary key, seq integer not null, count integer not null, last_at integer not null
) without rowid;
create index repeats_by_seq on repeats (seq);
create table live (              -- a row for each key of a grant, and one for itself:
    key text not null,           -- "grant:" and its id
    grant_id text not null,
    mode text not null,          -- there: the holder's key
    seq integer,                 -- and the event that says the rest, and the limits
    expires_at integer, idle_at integer, slept integer,
    inode text,                  -- of a file, for those who ask for it by another name
    primary key (key, grant_id)
) without rowid;
create table lost (              -- grants that were not given back, and the event that ended them
    id text primary key, seq integer not null
) without rowid;
create table notes (             -- the last word on something: which event said it
    name text primary key, seq integer not null
) without rowid;
create table tickets (
    id text primary key,
    seq integer not null,
    holder_key text not null,
    rank integer not null,
    stirs_at integer not null,
    ripe_at integer not null,
    reserved integer not null,
    wake text not null
) without rowid;
create index tickets_by_holder on tickets (holder_key);
create index tickets_by_stirring on tickets (stirs_at);
create table wants (
    key text not null, ticket_id text not null,
    primary key (key, ticket_id)
) without rowid;
"""

#: Created when a file with several names is requested while there are many locks. It makes every
#: change of the ledger a tenth slower, and most ledgers never need it.
INDEX = "create index if not exists live_by_inode on live (inode) where inode is not null"

NETWORK_FILE_SYSTEMS = frozenset(
    (
        "nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "9p", "ceph", "lustre", "gpfs",
        "beegfs", "ncpfs", "virtiofs", "vboxsf", "prl_fs", "fuse.sshfs", "fuse.glusterfs",
        "fuse.cephfs", "fuse.s3fs", "fuse.rclone", "fuse.vmhgfs-fuse",
    )
)  # fmt: skip


def connect(path: str) -> Connection:
    """A connection to the ledger, which is created if missing. To be called inside the gate."""
    connection: Connection | None = None
    try:
        connection = driver.connect(
            path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False,
            cached_statements=256,
        )  # fmt: skip
        _prepare(connection, path)
    except driver.Error as error:
        if connection is not None:
            connection.close()
        raise translated(error, path) from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


def _prepare(connection: Connection, path: str) -> None:
    ask = connection.execute
    (version,) = ask("pragma user_version").fetchone()
    if version == 0:
        _create(connection, path)
        if ask("pragma application_id").fetchone() != (APPLICATION_ID,):
            raise _foreign(path)
    elif ask("pragma application_id").fetchone() != (APPLICATION_ID,):
        raise _foreign(path)
    elif version % MOVED < VERSION:
        _upgrade(connection)
    elif version % MOVED > VERSION:
        from holdfast.core.errors import StoreVersionError

        raise StoreVersionError(
            f"{path} was written by a newer version of Holdfast (format {version}, "
            f"this one reads up to {VERSION})",
            hint="upgrade: pip install --upgrade holdfast",
            path=path,
            version=version,
        )
    ask("pragma synchronous = normal")
    ask(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES_SHORT}")


def _create(connection: Connection, path: str) -> None:
    ask = connection.execute
    (tables,) = ask("select count(*) from sqlite_schema").fetchone()
    if tables:
        raise _foreign(path)
    ask(f"pragma page_size = {PAGE_BYTES}")
    ask("pragma journal_mode = wal")
    ask("begin immediate")
    try:
        if ask("pragma user_version").fetchone() == (0,):
            for statement in TABLES.split(";\n"):
                if statement.strip():
                    ask(statement)
            ask(f"pragma application_id = {APPLICATION_ID}")
            ask(f"pragma user_version = {VERSION}")
    except BaseException:
        ask("rollback")
        raise
    ask("commit")


def _upgrade(connection: Connection) -> None:
    """From format 1, which had no notes."""
    ask = connection.execute
    ask("begin immediate")
    try:
        if ask("pragma user_version").fetchone() == (1,):
            ask("create table notes (name text primary key, seq integer not null) without rowid")
            ask(f"pragma user_version = {VERSION}")
    except BaseException:
        ask("rollback")
        raise
    ask("commit")


def _foreign(path: str) -> StoreCorruptError:
    from holdfast.core.errors import StoreCorruptError

    return StoreCorruptError(
        f"{path} is a database, but not a Holdfast ledger",
        hint="choose another place with --store, or move that file away",
        path=path,
    )


def translated(error: Exception, path: str) -> StoreError:
    """The error for an error of the database."""
    code = getattr(error, "sqlite_errorcode", 0) or 0
    primary = code & 0xFF
    if primary == driver.SQLITE_FULL or (primary == driver.SQLITE_IOERR and _is_full(path)):
        return _full(path)
    if primary == driver.SQLITE_CANTOPEN and _could_be_opened(path):
        if len(os.fsencode(path)) + len("-journal") > PATH_BYTES_MAX:
            return StoreError(
                f"{path} is too long for the database",
                hint="keep the ledger elsewhere: --store sqlite:///short/path/ledger.db",
                path=path,
            )
        return StoreError(
            f"{path}: {error}", hint="are too many files open? see ulimit -n", path=path
        )
    if primary in (driver.SQLITE_READONLY, driver.SQLITE_PERM, driver.SQLITE_CANTOPEN):
        return readonly(path)
    if primary in (driver.SQLITE_CORRUPT, driver.SQLITE_NOTADB):
        from holdfast.core.errors import StoreCorruptError

        return StoreCorruptError(
            f"{path} is damaged: {error}",
            hint=f"stop the agents, then restore a backup or move the file away "
            f"(mv {path} {path}.damaged): a new ledger is created and all locks are free",
            path=path,
        )
    if primary in (driver.SQLITE_BUSY, driver.SQLITE_LOCKED):
        return StoreBusyError(
            f"another program keeps {path} locked",
            hint="close the program that has the file open (a database browser?) and try again",
            path=path,
        )
    return StoreError(f"{path}: {error}", hint="see the system's message above", path=path)


def _full(path: str) -> StoreFullError:
    from holdfast.core.errors import StoreFullError

    return StoreFullError(
        f"no space left to write {path}",
        hint="free some space on that disk and try again; nothing was half done",
        path=path,
    )


def readonly(path: str) -> StoreReadonlyError:
    """The error for a ledger that may not be written."""
    from holdfast.core.errors import StoreReadonlyError

    folder = os.path.dirname(path)
    if os.environ.get("HOLDFAST_SOCKET"):  # the runner outside answers queries instead
        return StoreReadonlyError(
            f"commands under holdfast run cannot open the ledger: {path}",
            hint="under run --lease, just write the file, which leases it; status, check and "
            "whoami work here, everything else only outside",
            path=path,
        )
    return StoreReadonlyError(
        f"{path} cannot be written by this user",
        hint=_given_back(folder)
        or f"check the owner and mode of {folder} and of the files in it, "
        "or choose another place with --store",
        path=path,
    )


def _given_back(folder: str) -> str:
    """A hint for the owner of a repository whose ledger root has written to; empty if the cause is
    another one."""
    try:
        me = os.geteuid()
        owners = {os.lstat(folder).st_uid, *(one.stat().st_uid for one in _files(folder))}
        if me == 0 or 0 not in owners or os.stat(os.path.dirname(folder)).st_uid != me:
            return ""
        own = f"{me}:{os.getegid()}"
    except (AttributeError, OSError):
        return ""
    from shlex import quote

    return f"root has written there; take the files back: sudo chown -R {own} {quote(folder)}"


def _files(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except PermissionError:
        return []


def _could_be_opened(path: str) -> bool:
    # Checked without opening it: closing it again would drop the locks of SQLite on it.
    folder = os.path.dirname(path)
    allowed = os.access(folder, os.W_OK | os.X_OK)
    return allowed and (not os.path.lexists(path) or os.access(path, os.R_OK | os.W_OK))


def trouble(error: OSError, path: str) -> StoreError:
    """The error for an error of the system at the files around the ledger."""
    import errno

    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
        return readonly(path)
    return StoreError(f"{path}: {error.strerror}", hint="see the system's message", path=path)


def make_folder(folder: str) -> None:
    """Create the folder of the ledger, and have git ignore it."""
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
    ignore = f"{folder}/.gitignore"
    if os.path.basename(folder) == ".holdfast" and not os.path.exists(f"{folder}/ledger.db"):
        try:
            with open(ignore, "x", encoding="ascii") as file:
                file.write("*\n")  # state is never committed
        except FileExistsError:
            pass
        except OSError:
            if os.path.exists(ignore):
                os.unlink(ignore)  # an empty one would ignore nothing
            raise


def _is_full(path: str) -> bool:
    try:
        space = os.statvfs(os.path.dirname(path))
    except (OSError, AttributeError):
        return False
    return space.f_bavail == 0


def refuse_network_file_system(folder: str) -> None:
    """Raise if locks are not reliable here."""
    kind = file_system(folder)
    if kind in NETWORK_FILE_SYSTEMS:
        from holdfast.core.errors import StoreNetworkError

        raise StoreNetworkError(
            f"{folder} is on a network file system ({kind}), where locks are not reliable",
            hint="keep the ledger on a local disk: --store sqlite:///local/path/ledger.db",
            file_system=kind,
        )


def file_system(folder: str, mounts: str = "/proc/self/mountinfo") -> str:
    """The kind of file system of a folder; empty where the system does not report it."""
    try:
        device = os.stat(folder).st_dev
        with open(mounts, "rb", buffering=0) as file:
            table = file.read()
    except OSError:
        return ""
    wanted = b" %d:%d " % (os.major(device), os.minor(device))
    for line in table.splitlines():
        if wanted in line:
            return line.partition(b" - ")[2].split(b" ", 1)[0].decode("ascii", "replace")
    return ""
