"""A checkpoint of the claims, so that a new reader need not read every event again.

It is not trusted: it records the inode, size and time of change of each event's file when it was
read, and counts only if all of these files still exist and are unchanged. Otherwise, and if it is
damaged, it is ignored. Deleting it costs one full replay.

It is written so seldom that each event bears a fixed share of the cost, and by a rename, so several
processes may write it.
"""

from __future__ import annotations

import json
import os
from array import array
from hashlib import sha256

from holdfast.manager.files.replace_file import replace_file
from holdfast.proof.claim_state import ClaimState, state_of
from holdfast.proof.proof_folder import ProofFolder, read

NAME = "checkpoint"
VERSION = 2
#: A new one is due after this many events, or this part of all, whichever is more.
DUE_EVENTS = 1000
DUE_PART = 8

_FACTS = 3


class Stamps:
    """The status of each event's file, from the first one on."""

    __slots__ = ("_facts", "_saved")

    def __init__(self, facts: array[int] | None = None) -> None:
        self._facts = array("q") if facts is None else facts
        self._saved = len(self)

    def __len__(self) -> int:
        return len(self._facts) // _FACTS

    def add(self, status: os.stat_result) -> None:
        """Add the status of the next event's file."""
        self._facts.extend((status.st_ino, status.st_size, status.st_ctime_ns))

    def are_due(self) -> bool:
        """Whether there are enough new ones to write a checkpoint."""
        new = len(self) - self._saved
        return new >= DUE_EVENTS and new * DUE_PART >= len(self)

    def as_bytes(self) -> bytes:
        """All stamps as bytes; from now on none of them is new."""
        self._saved = len(self)
        return self._facts.tobytes()

    def hold(self, folder: ProofFolder) -> bool:
        """Whether all these files still exist and are unchanged."""
        found = array("q", bytes(len(self._facts) * self._facts.itemsize))
        count = len(self)
        with os.scandir(folder.ledger) as entries:
            for entry in entries:
                sequence = folder.dialect.sequence_of(entry.name)
                if sequence is None or sequence > count:
                    continue
                status = entry.stat(follow_symlinks=False)
                at = (sequence - 1) * _FACTS
                found[at] = status.st_ino
                found[at + 1] = status.st_size
                found[at + 2] = status.st_ctime_ns
        return found == self._facts


def path_of(folder: ProofFolder) -> str:
    """Where the checkpoint is."""
    return os.path.join(folder.own, NAME)


def save(folder: ProofFolder, sequence: int, state: ClaimState, stamps: Stamps) -> None:
    """Write a checkpoint. If that fails, the old one, if any, remains."""
    facts = stamps.as_bytes()
    head = [VERSION, folder.dialect.name, sequence, state.rows()]
    body = json.dumps(head).encode() + b"\n" + facts
    try:
        folder.make_own()
        replace_file(path_of(folder), sha256(body).digest() + body, mode=0o644)
    except OSError:
        return  # it only saves time, and a process that may only read must succeed


def load(folder: ProofFolder) -> tuple[int, ClaimState, Stamps] | None:
    """The number of its last event, the claims after that event, and its stamps; None if it is
    not valid."""
    try:
        data, _ = read(path_of(folder))
        body = data[32:]
        if sha256(body).digest() != data[:32]:
            return None
        head, _, facts = body.partition(b"\n")
        version, dialect, sequence, rows = json.loads(head)
        numbers = array("q")
        numbers.frombytes(facts)
        stamps = Stamps(numbers)
        is_ours = (version, dialect) == (VERSION, folder.dialect.name)
        if not is_ours or sequence != len(stamps) or not stamps.hold(folder):
            return None
        return sequence, state_of(rows), stamps
    except (OSError, ValueError, TypeError):
        return None
