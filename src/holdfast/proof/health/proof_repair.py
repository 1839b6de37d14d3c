"""What can be repaired in a proof without losing anything, and what a person must decide.

No event is ever deleted: unreadable ones are kept in `.holdfast-proof/aside/`.
"""

from __future__ import annotations

import os
import time

from holdfast.core.errors import HoldfastError
from holdfast.core.model import Witness
from holdfast.manager.owners.liveness import is_dead, own_witness
from holdfast.proof import claim_files, hash_chain, ledger_lock
from holdfast.proof.claims import Claims
from holdfast.proof.dialects import proof_codec
from holdfast.proof.errors import told
from holdfast.proof.health.audit_finding import ERROR, NOTE, WARNING, Finding
from holdfast.proof.health.proof_audit import FIX, verify
from holdfast.proof.proof_folder import ASIDE, Draft, draft_owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.proof.event_ledger import ProofLedger

#: A temporary file of another program that is older than this counts as left over.
_LEFT_SECONDS = 3600.0
_OURS_LEFT_SECONDS = 60.0


def examine(ledger: ProofLedger) -> list[Finding]:
    """All findings of `verify`, and problems with the lock, settings and leftovers."""
    return [*_lock(ledger), *_settings(ledger), *_left(ledger), *verify(ledger)]


def _lock(ledger: ProofLedger) -> list[Finding]:
    found = ledger_lock.look(ledger.folder)
    if found is None:
        return []
    age = found.age(ledger.now())
    held = f"{found.holder()} has held the ledger's lock for {age:.0f} s"
    if found.is_dead:
        repair = f"nothing: the next append removes it, and so does {FIX}"
        return [Finding("dead-lock", WARNING, f"{held} and is dead", None, repair)]
    if found.owner is None and age >= ledger_lock.BREAK_SECONDS:
        repair = "if you are sure that its holder is gone: holdfast proof doctor --break-lock"
        return [Finding("old-lock", WARNING, f"{held}; no other process can append", None, repair)]
    return [Finding("lock", NOTE, held)]


def _settings(ledger: ProofLedger) -> list[Finding]:
    try:
        ledger.folder.timeout()
    except HoldfastError as error:
        return [Finding("settings", ERROR, error.message, repair=error.hint)]
    return []


def _left(ledger: ProofLedger) -> list[Finding]:
    """Temporary files that never became events."""
    told = "was written and never published"
    return [
        Finding("left-over", NOTE, f"{name} {told}", None, f"{FIX} removes it")
        for name in _left_names(ledger)
    ]


def _left_names(ledger: ProofLedger) -> list[str]:
    own, found = own_witness(), []
    for name in sorted(os.listdir(ledger.folder.ledger)):
        if not (name.startswith(".event-") and name.endswith(".tmp")):
            continue
        try:
            age = time.time() - os.lstat(os.path.join(ledger.folder.ledger, name)).st_mtime
        except FileNotFoundError:
            continue
        owner = draft_owner(name)
        if owner is not None and age > _OURS_LEFT_SECONDS:
            witness = Witness(host=own.host, boot=own.boot, namespace=own.namespace,
                              pid=owner[0], start=owner[1])  # fmt: skip
            if is_dead(witness, ()):
                found.append(name)
        elif age > _LEFT_SECONDS:
            found.append(name)
    return found


def fix(ledger: ProofLedger) -> list[str]:
    """Make the safe repairs, and return a sentence for each."""
    done: list[str] = []
    try:
        with ledger.mutex, ledger.locked():
            for name in _left_names(ledger):
                os.unlink(os.path.join(ledger.folder.ledger, name))
                done.append(f"removed {name}, which never became an event")
            done += _fill(ledger)
            added = hash_chain.complete(ledger.folder)
            if added:
                done.append(f"added {added} events to the chain")
            swept = ledger_lock.sweep(ledger.folder)
            if swept:
                done.append(f"removed the queue places of {len(swept)} processes that have ended")
            done += _mirror(ledger)
    except OSError as error:
        raise told(error, "repairing the proof") from error
    return done


def _fill(ledger: ProofLedger) -> list[str]:
    """Put an event into each gap and in place of each unreadable event, if the dialect has an
    event for that."""
    done: list[str] = []
    if not ledger.folder.dialect.fills_gaps:
        return done
    for finding in verify(ledger):
        if finding.code not in ("gap", "broken") or finding.sequence is None:
            continue
        for sequence in _places(ledger, finding):
            kept = _put_aside(ledger, sequence) if finding.code == "broken" else ""
            event = {"type": proof_codec.LOST, "sequence": sequence, "detail": finding.detail}
            if kept:
                event["kept"] = kept
            data = ledger.folder.dialect.encoded(event, ledger.now())
            draft = Draft(ledger.folder, data, sync=True)
            try:
                draft.publish(sequence)
            finally:
                draft.discard()
            done.append(f"put an event_lost event in place of {ledger.folder.event_name(sequence)}")
    if done:
        ledger.folder.sync()
    return done


def _places(ledger: ProofLedger, finding: Finding) -> range:
    first = finding.sequence or 0
    last = first
    while finding.code == "gap" and not os.path.lexists(ledger.folder.event(last + 1)):
        last += 1
    return range(first, last + 1)


def _put_aside(ledger: ProofLedger, sequence: int) -> str:
    """Move an unreadable event to a place where no program reads it."""
    aside = ledger.folder.make_own(ASIDE)
    name = f"{ledger.folder.event_name(sequence)}.{time.time_ns()}"
    os.rename(ledger.folder.event(sequence), os.path.join(aside, name))
    return f"{os.path.basename(ledger.folder.own)}/{ASIDE}/{name}"


def _mirror(ledger: ProofLedger) -> list[str]:
    """Make the files of the ledger's claims match the ledger; those of other programs stay."""
    if not claim_files.is_kept(ledger):
        return []
    claims = Claims(ledger)
    done = []
    for claim in claims.left_behind():
        claim_files.remove(ledger, claim)
        done.append(f"removed the file of a claim on {claim.node} that has ended")
    for claim in claims.active():
        shown = claim_files.shown(ledger, claim.node)
        if shown is None or not claim_files.counts(shown, ledger.now()):
            claim_files.write(ledger, claim)
            done.append(f"wrote the file of the claim on {claim.node}")
    return done
