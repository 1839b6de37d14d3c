"""The audit of a proof: checks every event, the chain, and the claims.

Truncated and missing events are detected by their syntax and by gaps; changed and swapped ones by
the chain, as far as it reaches. The audit changes nothing and needs no lock, so it may miss an
event that is appended meanwhile.
"""

from __future__ import annotations

import os

from holdfast.core.errors import StoreCorruptError
from holdfast.proof import claim_files, hash_chain
from holdfast.proof.claim_state import ClaimState
from holdfast.proof.dialects import dialect, proof_codec
from holdfast.proof.errors import unread
from holdfast.proof.health import unknown_files
from holdfast.proof.health.audit_finding import ERROR, NOTE, WARNING, Finding
from holdfast.proof.proof_folder import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from holdfast.proof.event_ledger import ProofLedger
    from holdfast.proof.proof_folder import ProofFolder

FIX = "holdfast proof doctor --fix"
_FILLED = f"{FIX} puts an event_lost event in its place; later events keep their numbers"
_BACKUP = "restore it from a backup: af could not read an event that stands for a lost one"
_RESPECTED = "another program made this claim; it is respected until it expires"
_MOVE = "check what it is; if no program needs it there, move it away"
_MEANT = "restore it from a backup; if the change was intended, delete .holdfast-proof/chain"

#: Two processes that append at the same time, or on two machines, may record times out of order.
_TOLERANCE = 2 * proof_codec.SECOND
#: How many changed events are compared with each other, to detect swapped ones.
_COMPARED_MAX = 200


def verify(ledger: ProofLedger) -> list[Finding]:
    """All problems in the history of a proof, by number."""
    try:
        return sorted(_Audit(ledger).findings(), key=lambda one: (one.sequence or 0, one.code))
    except OSError as error:
        raise unread(error) from error


class _Audit:
    """One pass over a ledger."""

    def __init__(self, ledger: ProofLedger) -> None:
        self._ledger = ledger
        self._folder = ledger.folder
        self._filled = _FILLED if ledger.folder.dialect.fills_gaps else _BACKUP
        self._other = dialect.AF if ledger.folder.dialect is dialect.SEED else dialect.SEED
        self._chain = hash_chain.records(ledger.folder)
        self._claims = ClaimState()
        self._changed: dict[int, bytes] = {}
        self._last_moment = 0
        self._backwards: list[int] = []
        self._lost: list[int] = []

    def findings(self) -> Iterator[Finding]:
        """All findings, in no order."""
        yield from self._names()
        expected = 1
        for sequence in self._folder.sequences():
            yield from self._gap(expected, sequence - 1)
            yield from self._event(sequence)
            expected = sequence + 1
        yield from self._backwards_told()
        yield from self._lost_told()
        yield from self._changes()
        yield from self._chain_end(expected - 1)
        yield from self._mirror()
        yield from self._strangers()

    def _names(self) -> Iterator[Finding]:
        for name in sorted(os.listdir(self._folder.ledger)):
            spelling = self._folder.dialect
            if spelling.is_event_like(name) and spelling.sequence_of(name) is None:
                told = f"{name} is not named like an event, so no program reads it"
                repair = "check what it is, and move it away"
                files = [f"{proof_codec.LEDGER}/{name}"]
                yield Finding("misnamed", ERROR, told, None, repair, files=files)

    def _strangers(self) -> Iterator[Finding]:
        """Unknown files, in the folders of a proof and beside them."""
        own = os.path.basename(self._folder.own)
        places = (
            (proof_codec.LEDGER, unknown_files.in_ledger), (proof_codec.CLAIM_FILES,
            unknown_files.in_claims),
            (own, unknown_files.in_own),
        )  # fmt: skip
        for place, look in places:
            for name in look(self._folder):
                path = f"{place}/{name}"
                if place == proof_codec.LEDGER and self._other.is_event_like(name):
                    told = f"{path} is named like an event of another dialect, and is not read"
                    yield Finding("foreign-event", ERROR, told, None, _MOVE, files=[path])
                else:
                    severity = NOTE if name.startswith(".") or place == own else WARNING
                    told = f"{path} is unknown to Holdfast, which does not read it"
                    yield Finding("unknown-file", severity, told, None, _MOVE, files=[path])
        names = unknown_files.beside(self._folder)
        if names:
            told = f"not part of the proof: {', '.join(names)}"
            yield Finding("unknown-file", NOTE, told, files=names)

    def _gap(self, first: int, last: int) -> Iterator[Finding]:
        if first > last:
            return
        which = self._folder.event_name(first)
        which += f" to {self._folder.event_name(last)} are" if last > first else " is"
        yield Finding("gap", ERROR, f"{which} missing", first, self._filled)

    def _event(self, sequence: int) -> Iterator[Finding]:
        name, path, data = self._folder.event_name(sequence), self._folder.event(sequence), b""
        try:
            data, _ = read(path)
            event = proof_codec.event_of(data)
        except FileNotFoundError:  # it was removed after the folder was listed
            yield from self._gap(sequence, sequence)
            return
        except (ValueError, StoreCorruptError) as error:
            why = str(error)
        except OSError as error:
            if not os.path.islink(path):
                why = error.strerror or type(error).__name__
                yield Finding("unreadable", ERROR, f"{name} may not be read: {why}", sequence)
                return
            why = "it is a symbolic link"
        else:
            self._compare(sequence, data, event)
            yield from self._odd(sequence, name, data, event)
            yield from self._folder.dialect.conduct(self._claims, sequence, event)
            self._folder.dialect.fold(self._claims, sequence, event)
            return
        yield Finding("broken", ERROR, f"{name} cannot be read: {why}", sequence, self._filled)
        self._compare(sequence, data, {})

    def _odd(
        self, sequence: int, name: str, data: bytes, event: dict[str, Any]
    ) -> Iterator[Finding]:
        """Valid events that are still worth a warning or a note."""

        def odd(code: str, severity: str, detail: str) -> Finding:
            return Finding(code, severity, f"{name} {detail}", sequence)

        if event["type"] == proof_codec.LOST:
            self._lost.append(sequence)
            return  # its time is that of the repair, so it cannot be compared
        if len(data) > proof_codec.EVENT_BYTES_MAX:
            yield odd("large", WARNING, f"has {len(data):,} bytes, which other programs refuse")
        if data.startswith(b"\xef\xbb\xbf"):
            yield odd(
                "byte-order-mark",
                WARNING,
                "begins with a byte order mark, which other programs refuse",
            )
        moment = proof_codec.moment_of(event.get("timestamp"))
        if moment is None:
            yield odd("no-timestamp", WARNING, "has no timestamp that can be read")
            return
        if moment + _TOLERANCE < self._last_moment:
            self._backwards.append(sequence)
        elif self._backwards:
            yield from self._backwards_told()
        self._last_moment = max(self._last_moment, moment)

    def _backwards_told(self) -> Iterator[Finding]:
        """One finding for consecutive events that are older than an earlier one."""
        run, self._backwards = self._backwards, []
        if run:
            told = (
                f"{_run(self._folder, run)} older than an earlier event; two may have been swapped"
            )
            yield Finding("backwards", NOTE, told, run[0])

    def _lost_told(self) -> Iterator[Finding]:
        """One finding for all events that a repair has put into gaps."""
        if self._lost:
            told = f"{len(self._lost)} events were lost; event_lost events are in their places"
            yield Finding("lost", NOTE, f"{told}, first {self._lost[0]}", self._lost[0])

    def _compare(self, sequence: int, data: bytes, event: dict[str, Any]) -> None:
        """Report an event that does not match the chain, unless a repair put it there."""
        record = self._record(sequence)
        if record == hash_chain.VOID or event.get("type") == proof_codec.LOST:
            return
        if not hash_chain.agrees(record, self._record(sequence - 1), data):
            self._changed[sequence] = data

    def _record(self, sequence: int) -> bytes:
        return self._chain[sequence - 1] if 0 < sequence <= len(self._chain) else hash_chain.VOID

    def _changes(self) -> Iterator[Finding]:
        few = list(self._changed.items())[:_COMPARED_MAX]
        for sequence in self._changed:
            before, record = self._record(sequence - 1), self._record(sequence)
            other = next((at for at, data in few if hash_chain.agrees(record, before, data)), None)
            name = self._folder.event_name(sequence)
            if other is None:
                told = f"{name} has changed since it was first seen"
                yield Finding("changed", ERROR, told, sequence, _MEANT)
            else:
                told = f"{name}: what was event {sequence} is now event {other}"
                yield Finding("reordered", ERROR, told, sequence, _MEANT)

    def _chain_end(self, last: int) -> Iterator[Finding]:
        reach = len(self._chain)
        seen = sum(record != hash_chain.VOID for record in self._chain[:last])
        if reach > last:
            name = self._folder.event_name(last + 1)
            told = f"{name} existed once and is gone, with all events after it: there were {reach}"
            yield Finding("gone", ERROR, told, last + 1, _MEANT)
        if seen < last:
            told = f"the chain covers {seen} of {last} events"
            yield Finding("chain-behind", NOTE, told, None, f"{FIX} adds the others as they are")

    def _mirror(self) -> Iterator[Finding]:
        now = self._ledger.now()
        shown = {claim.node: claim for claim in claim_files.claims(self._ledger)}
        readable = set(map(proof_codec.claim_name, shown))
        for name in claim_files.names(self._ledger):
            if name not in readable:
                path = f"{proof_codec.CLAIM_FILES}/{name}"
                told = f"{path} cannot be read"
                yield Finding("bad-claim-file", WARNING, told, None, "remove it", files=[path])
        for node, claim in sorted(shown.items()):
            known = self._claims.claims.get(node)
            owner = f"that {known.owner} holds it" if known and known.is_live(now) else "it is free"
            if claim.is_live(now) and not (known and known.owner == claim.owner):
                name = proof_codec.claim_name(node)
                told = f"locks/{name} says {claim.owner}, the ledger says {owner}"
                is_foreign = claim_files.is_foreign(self._claims, claim)
                repair = _RESPECTED if is_foreign else f"{FIX} removes it"
                yield Finding("claim-file", WARNING, told, None, repair)


def _run(folder: ProofFolder, numbers: list[int]) -> str:
    """Consecutive events for people, with their verb."""
    first, last = folder.event_name(numbers[0]), folder.event_name(numbers[-1])
    return f"{first} is" if first == last else f"{first} to {last} ({len(numbers)}) are"
