"""The hash chain beside the ledger: by it `verify` finds events that were changed or exchanged.

One record of 32 bytes for each event: the hash of the record before it and of the event's bytes.
It is written by whoever appends, after the event, under the ledger's lock; a few events of other
programs before it are added on the way. Where that would be many, or where a power cut took the
end, a hole stays: records of nothing but zeros, which say that nobody looked. The next record
begins a chain of its own. A record once written is never replaced, so an event that came in the
place of another one stays found.

It is ours and can be deleted: then nobody has looked yet. It is not synced.
"""

from __future__ import annotations

import os
from hashlib import sha256

from holdfast.manager.files.replace_file import replace_file
from holdfast.proof.proof_folder import KEEP, ProofFolder, read
from holdfast.store.write_gate import pread, pwrite

NAME = "chain"
RECORD_BYTES = 32
#: So many events of others are added on the way, no more.
CATCH_UP_MAX = 64

VOID = bytes(RECORD_BYTES)


def path_of(folder: ProofFolder) -> str:
    """Where the chain is."""
    return os.path.join(folder.own, NAME)


def link(before: bytes, data: bytes) -> bytes:
    """The record of an event that comes after another record."""
    return sha256(before + data).digest()


def agrees(record: bytes, before: bytes, data: bytes) -> bool:
    """Whether an event can be the one that its record was made of.

    What is before it may have been a hole then and be filled now.
    """
    return record in (link(before, data), link(VOID, data))


def length(folder: ProofFolder) -> int:
    """Up to which event the chain reaches."""
    try:
        return os.stat(path_of(folder)).st_size // RECORD_BYTES
    except OSError:
        return 0


def records(folder: ProofFolder) -> list[bytes]:
    """All records, from that of the first event on."""
    try:
        data, _ = read(path_of(folder))
    except FileNotFoundError:
        return []
    ends = len(data) - len(data) % RECORD_BYTES
    return [data[at : at + RECORD_BYTES] for at in range(0, ends, RECORD_BYTES)]


def extend(folder: ProofFolder, sequence: int, datas: list[bytes]) -> None:
    """Add events that were just appended, of which the first has this number.

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
    """Fill all holes with what is there now; how many. Call it under the ledger's lock."""
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
