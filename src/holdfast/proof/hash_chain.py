"""The hash chain beside the ledger, by which `verify` finds events that were changed or swapped.

One record of 32 bytes for each event: the hash of the previous record and of the event's bytes. The
process that appends writes it after the event, under the ledger's lock, and also adds a few events
of other programs before it. Where those are too many, or where a power cut removed the end, a hole
stays: records of zeros, which mean that the events were never checked. The next record begins a new
chain. A written record is never replaced, so a replaced event stays detectable.

The chain is ours and can be deleted: then no event counts as checked. It is not synced.
"""

from __future__ import annotations

import os
from hashlib import sha256

from holdfast.manager.files.replace_file import replace_file
from holdfast.proof.proof_folder import KEEP, ProofFolder, read
from holdfast.store.sqlite.write_gate import pread, pwrite

NAME = "chain"
RECORD_BYTES = 32
#: How many events of other programs are added at most.
CATCH_UP_MAX = 64

VOID = bytes(RECORD_BYTES)


def path_of(folder: ProofFolder) -> str:
    """Where the chain is."""
    return os.path.join(folder.own, NAME)


def link(before: bytes, data: bytes) -> bytes:
    """The record of an event after another record."""
    return sha256(before + data).digest()


def agrees(record: bytes, before: bytes, data: bytes) -> bool:
    """Whether an event matches its record.

    The records before it may have been a hole then, and may be filled now.
    """
    return record in (link(before, data), link(VOID, data))


def length(folder: ProofFolder) -> int:
    """The number of the last event in the chain."""
    try:
        return os.stat(path_of(folder)).st_size // RECORD_BYTES
    except OSError:
        return 0


def records(folder: ProofFolder) -> list[bytes]:
    """All records, starting with the first event."""
    try:
        data, _ = read(path_of(folder))
    except FileNotFoundError:
        return []
    ends = len(data) - len(data) % RECORD_BYTES
    return [data[at : at + RECORD_BYTES] for at in range(0, ends, RECORD_BYTES)]


def extend(folder: ProofFolder, sequence: int, datas: list[bytes]) -> None:
    """Add events that were just appended, the first of which has this number.

    Call it under the ledger's lock.
    """
    file = os.open(path_of(folder), KEEP, 0o666)
    try:
        known = os.fstat(file).st_size // RECORD_BYTES
        if known >= sequence:
            return
        if sequence - known > CATCH_UP_MAX:
            known, last = sequence - 1, VOID
        else:
            last = pread(file, RECORD_BYTES, (known - 1) * RECORD_BYTES) if known else VOID
        added = []
        for number in range(known + 1, sequence):
            last = link(last, read(folder.event(number))[0])
            added.append(last)
        for data in datas:
            last = link(last, data)
            added.append(last)
        pwrite(file, b"".join(added), known * RECORD_BYTES)
    finally:
        os.close(file)


def complete(folder: ProofFolder) -> int:
    """Fill all holes from the present events; returns how many. Call it under the ledger's lock."""
    made, added = records(folder), 0
    for number in folder.sequences():
        made += [VOID] * (number - len(made))
        if made[number - 1] == VOID:
            before = made[number - 2] if number > 1 else VOID
            made[number - 1] = link(before, read(folder.event(number))[0])
            added += 1
    if added:
        replace_file(path_of(folder), b"".join(made), mode=0o644)
    return added
