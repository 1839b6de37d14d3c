"""The audit log: which holder acquired, stole, published, restored and removed what.

JSON lines in `.jvs/audit/audit.jsonl`, appended under a guard and flushed. Each line has the hash
of the previous line (`prev_hash`) and its own (`record_hash`), so a line that was changed, added or
removed is detected. `audit/head.json` names the last line, so a truncated log is detected too.

What this does not promise: a program that may write these files can write a whole new chain.
"""

from __future__ import annotations

import json
import os

from holdfast.manager.files.replace_file import write_all
from holdfast.trees import tree_files
from holdfast.trees.locking.operation_guard import Guard
from holdfast.trees.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

#: The previous hash of the first line.
FIRST = "0" * 64
_TAIL_BYTES = 1 << 16


def append(repository: Repository, event: str, facts: Mapping[str, Any]) -> None:
    """Add a line; it is on the disk when this returns.

    A line that was cut off by a crash was never acknowledged, so it is removed first.
    """
    path = repository.path("audit", "audit.jsonl")
    with guard(repository):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            end, last = _last_line(descriptor)
            fields = {"event": event, "at": repository.now, **facts, "prev_hash": last}
            fields["record_hash"] = hash_of(fields)
            os.ftruncate(descriptor, end)
            os.lseek(descriptor, end, os.SEEK_SET)
            try:
                write_all(descriptor, tree_files.canonical(fields) + b"\n")
                os.fsync(descriptor)
            except BaseException:
                os.ftruncate(descriptor, end)
                raise
        finally:
            os.close(descriptor)
        tree_files.replace(
            _head_path(repository), tree_files.pretty({"record_hash": fields["record_hash"]})
        )


def guard(repository: Repository) -> Guard:
    """The guard that every change of the log takes."""
    return Guard(repository.path("audit", "audit.guard"), "the audit log")


def hash_of(fields: Mapping[str, Any]) -> str:
    """The hash of a line, over all its fields except the hash itself."""
    return tree_files.checksum(
        tree_files.canonical(
            {name: value for name, value in fields.items() if name != "record_hash"}
        )
    )


def records(repository: Repository) -> Iterator[dict[str, Any]]:
    """All readable lines, oldest first. Nothing is checked."""
    for _number, fields, _why in _lines(repository):
        if fields is not None:
            yield fields


def faults(repository: Repository) -> Iterator[tuple[int, str]]:
    """The damages of the log: line numbers and descriptions."""
    last, seen_head = FIRST, False
    head = _head(repository)
    number = 0
    for number, fields, why in _lines(repository):
        if fields is None:
            yield number, why
            continue
        if fields.get("prev_hash") != last:
            yield number, "it does not follow the line before it"
        if fields.get("record_hash") != hash_of(fields):
            yield number, "it was changed after it was written"
        last = str(fields.get("record_hash"))
        seen_head = seen_head or last == head
    if head and not seen_head:
        yield number + 1, "the log was cut short: the last line that was written is missing"


def torn_at(repository: Repository) -> int | None:
    """Where a line that a crash cut off begins; None if the log ends with a whole line."""
    try:
        descriptor = os.open(repository.path("audit", "audit.jsonl"), tree_files.READ)
    except FileNotFoundError:
        return None
    try:
        end, _last = _last_line(descriptor)
        return end if end < os.fstat(descriptor).st_size else None
    finally:
        os.close(descriptor)


def mend(repository: Repository) -> None:
    """Remove a line that a crash cut off."""
    with guard(repository):
        end = torn_at(repository)
        if end is not None:
            os.truncate(repository.path("audit", "audit.jsonl"), end)


def _lines(repository: Repository) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    path = repository.path("audit", "audit.jsonl")
    if not os.path.lexists(path):
        return
    with open(path, "rb") as log:
        for number, line in enumerate(log, 1):
            if not line.endswith(b"\n"):
                return  # not acknowledged: its process is writing it, or was killed
            try:
                fields = json.loads(line)
            except ValueError:
                fields = None
            if isinstance(fields, dict):
                yield number, fields, ""
            else:
                yield number, None, "it cannot be read"


def _last_line(descriptor: int) -> tuple[int, str]:
    """Where the last whole line ends, and its hash."""
    size = os.fstat(descriptor).st_size
    reach = _TAIL_BYTES
    while True:
        begin = max(0, size - reach)
        tail = os.pread(descriptor, size - begin, begin)
        end = tail.rfind(b"\n") + 1
        start = tail.rfind(b"\n", 0, end - 1) + 1 if end else 0
        if start > 0 or begin == 0:
            break
        reach *= 2
    if not end:
        return 0, FIRST
    try:
        last = str(json.loads(tail[start:end])["record_hash"])
    except (ValueError, KeyError, TypeError):
        last = tree_files.checksum(tail[start:end])  # damaged: the chain shows it from here on
    return begin + end, last


def _head_path(repository: Repository) -> str:
    return repository.path("audit", "head.json")


def _head(repository: Repository) -> str:
    try:
        return str(tree_files.read_json(_head_path(repository)).get("record_hash", ""))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError):
        return "unreadable"
