"""A checkpoint of the claims, so that a reader that starts need not read every event again.

It is not trusted: it carries what the system said about each event's file when it was read (its
inode, its size and when it was last changed), and counts only if all of these files are still
there and exactly so. Otherwise, and if it is damaged, it is as if there were none. Deleting it
costs one full replay.

Written seldom enough that it costs each event a fixed share, and by a rename, so several may do so.
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
#: A new one is due after so many events, or so large a part of all, whichever is more.
DUE_EVENTS = 1000
DUE_PART = 8

_FACTS = 3


class Stamps:
    """What the system said about each event's file, from the first one on."""

    __slots__ = ("_facts", "_saved")

    def __init__(self, facts: array[int] | None = None) -> None:
        self._facts = array("q") if facts is None else facts
        self._saved = len(self)

    def __len__(self) -> int:
        return len(self._facts) // _FACTS

    def add(self, status: os.stat_result) -> None:
        """One more event was read."""
        self._facts.extend((status.st_ino, status.st_size, status.st_ctime_ns))

    def are_due(self) -> bool:
        """Whether so many are new that a checkpoint should be written."""
        new = len(self) - self._saved
        return new >= DUE_EVENTS and new * DUE_PART >= len(self)

    def as_bytes(self) -> bytes:
        """All of it; from now on nothing is new."""
        self._saved = len(self)
        return self._facts.tobytes()

    def hold(self, folder: ProofFolder) -> bool:
        """Whether all these files are still there, and as they were."""
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
    """Write a checkpoint. If that fails there is none, or the old one."""
    facts = stamps.as_bytes()
    head = [VERSION, folder.dialect.name, sequence, state.rows()]
    body = json.dumps(head).encode() + b"\n" + facts
    try:
        folder.make_own()
        replace_file(path_of(folder), sha256(body).digest() + body, mode=0o644)
    except OSError:
        return  # it only saves time, and who may just read must be able to do so


def load(folder: ProofFolder) -> tuple[int, ClaimState, Stamps] | None:
    """The number it reaches to, the claims as they were then, and its stamps; None if it does not
    hold."""
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
