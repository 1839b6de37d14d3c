"""Proofs: an append-only ledger of events in files, and claims on the nodes of a proof.

    event_ledger     ProofLedger: append, read
    claims           Claims: which owner works on which node, until when
    claim_state      the claims after a given event
    claim_files      the files in `locks/`, a mirror of the claims
    owner_activity   what each owner of claims has done
    event_reader     events, read without any lock; where the ledger ends
    ledger_lock      the ledger's lock, which other programs take too
    append_line      a fair queue of our processes in front of it
    backoff          growing pauses between attempts
    hash_chain       hashes beside the ledger, which reveal changed events
    checkpoint       the claims at some event, so that starting is quick
    proof_folder     where the files are; how one is read, made and synced
    dialects         how other programs write the same things
    health           what is wrong with a proof, and what can be repaired
    errors           the errors of proofs

The files are the only truth, because other programs read and write them: nothing here keeps state
that they do not show. The room may import the manager, for liveness and time, and what is below it,
but not the rooms beside it.
"""

from __future__ import annotations

from holdfast.proof.claims import Claim, Claims
from holdfast.proof.errors import (
    BadEventError,
    BadNodeError,
    BadTimeoutError,
    ForeignProofError,
    LockBreakRefused,
    NodeAlreadyLocked,
    NoProofError,
    SequenceMismatch,
)
from holdfast.proof.event_ledger import ProofLedger
from holdfast.proof.event_reader import ProofEvent
from holdfast.proof.health.audit_finding import Finding
from holdfast.proof.health.proof_audit import verify
from holdfast.proof.owner_activity import Agent, agents
from holdfast.proof.proof_folder import make_proof

__all__ = [
    "Agent", "BadEventError", "BadNodeError", "BadTimeoutError", "Claim", "Claims", "Finding",
    "ForeignProofError", "LockBreakRefused", "NoProofError", "NodeAlreadyLocked", "ProofEvent",
    "ProofLedger", "SequenceMismatch", "agents", "make_proof", "verify",
]  # fmt: skip
