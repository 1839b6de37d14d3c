"""What `holdfast store check` says about the file of an embedded ledger. It creates none."""

from __future__ import annotations

import os
from shutil import disk_usage
from statistics import median
from time import monotonic, perf_counter

from holdfast.core.root_errors import StoreError
from holdfast.store.check_finding import BAD, GOOD, NOTE, Finding
from holdfast.store.sqlite.schema import (
    APPLICATION_ID,
    MOVED,
    NETWORK_FILE_SYSTEMS,
    VERSION,
    file_system,
)
from holdfast.store.sqlite.sqlite_driver import driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.store.contract import Store

#: How many reads the latency is the median of.
READS = 21
#: The places of two numbers in the first page of any SQLite file.
_MAGIC, _VERSION_AT, _APPLICATION_AT, _PAGE_BYTES = b"SQLite format 3\0", 60, 68, 100


def check(path: str, opened: Callable[[], Store]) -> Iterator[Finding]:
    """All findings about the ledger at a path, which `opened` opens."""
    folder = os.path.dirname(path)
    if not os.path.lexists(path):
        yield _missing(path, folder)
        return
    yield _rights(path, folder)
    yield _place(folder)
    head = _first_bytes(path)
    if head is None:
        return
    old = _version(path, head)
    if old is not None:
        yield old
        return
    try:
        store = opened()
        try:
            yield from _ledger(store, path)
        finally:
            store.close()
    except StoreError as error:
        yield Finding("ledger", BAD, error.message, hint=error.hint, code=error.code)


def _missing(path: str, folder: str) -> Finding:
    above = folder
    while above and not os.path.isdir(above) and above != os.path.dirname(above):
        above = os.path.dirname(above)
    if not os.access(above, os.W_OK | os.X_OK):
        return Finding("file", BAD, f"there is none, and {above} cannot be written by this user",
                       hint=f"check the owner and mode of {above}")  # fmt: skip
    return Finding("file", NOTE, "there is none yet; the first command that locks makes it",
                   exists=False)  # fmt: skip


def _rights(path: str, folder: str) -> Finding:
    size = sum(os.path.getsize(one) for one in (path, f"{path}-wal") if os.path.exists(one))
    said = f"{size / 1_000_000:.3g} MB"
    if not os.path.isfile(path) or not os.access(path, os.R_OK):
        return Finding("file", BAD, f"{path} cannot be read by this user",
                       hint="check its owner and mode", size=size)  # fmt: skip
    if not os.access(path, os.W_OK) or not os.access(folder, os.W_OK | os.X_OK):
        return Finding(
            "file", BAD, f"{said}, but this user cannot write it",
            hint=f"check the owner and mode of {folder} and of the files in it", size=size,
        )  # fmt: skip
    return Finding("file", GOOD, f"{said}, readable and writable", size=size)


def _place(folder: str) -> Finding:
    kind = file_system(folder)
    free = disk_usage(folder).free
    said = f"{kind or 'unknown'}, {free / 1e9:.3g} GB free"
    if kind in NETWORK_FILE_SYSTEMS:
        return Finding(
            "file system", BAD, f"{said}: a network file system, where locks are not reliable",
            hint="keep the ledger on a local disk, or on a server", kind=kind, free=free,
        )  # fmt: skip
    return Finding("file system", GOOD, said, kind=kind, free=free)


def _first_bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(_PAGE_BYTES)
    except OSError:
        return None


def _version(path: str, head: bytes) -> Finding | None:
    """A finding if the ledger cannot be opened, or would be changed by that."""
    if not head:
        return None
    application = int.from_bytes(head[_APPLICATION_AT : _APPLICATION_AT + 4], "big")
    version = int.from_bytes(head[_VERSION_AT : _VERSION_AT + 4], "big") % MOVED
    # The newest page may still be in the log: then both numbers are 0 here.
    if not head.startswith(_MAGIC) or (application not in (0, APPLICATION_ID)):
        return Finding("ledger", BAD, f"{path} is not a Holdfast ledger",
                       hint="choose another place, or move that file away")  # fmt: skip
    if 0 < version < VERSION:
        return Finding("ledger", NOTE, f"format {version}, brought up to {VERSION} by the first "
                       "command", format=version)  # fmt: skip
    return None


def _ledger(store: Store, path: str) -> Iterator[Finding]:
    spans = []
    for _ in range(READS):
        begin = perf_counter()
        with store.view(deadline=monotonic() + 10) as view:
            head = view.head
        spans.append(perf_counter() - begin)
    yield Finding(
        "ledger", GOOD, f"format {VERSION}, with {head} events so far, SQLite "
        f"{driver.sqlite_version}", format=VERSION, last_event=head,
    )  # fmt: skip
    seconds = median(spans)
    yield Finding(
        "latency", GOOD, f"{seconds * 1000:.3g} ms for a look (median of {READS})",
        latency_ms=round(seconds * 1000, 3),
    )  # fmt: skip
