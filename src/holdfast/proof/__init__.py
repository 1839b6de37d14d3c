"""Proofs: an append-only ledger of events in files, and claims on the nodes of a proof.

    event_ledger     ProofLedger: append, read
    claims           Claims: which owner works on which node, until when
    claim_state      what the events up to one of them say about claims
    claim_files      the files in `locks/`, a mirror of the claims
    owner_activity   what each owner of claims has done
    event_reader     events, read without any lock; where the ledger ends
    ledger_lock      the ledger's lock, which other programs take too
    append_line      a fair queue of our processes in front of it
    backoff          growing pauses between attempts
    hash_chain       hashes beside the ledger, by which changed events are found
    checkpoint       the claims at some event, so that starting is quick
    proof_folder     where the files are; how one is read, made and synced
    dialects         how other programs spell the same things
    health           what is wrong with a proof, and what can be repaired
    errors           the errors of proofs

The files are the only truth, because other programs read and write them: nothing here keeps state
that they do not show. Imports the manager, for life and time, and below; knows nothing of its
sister rooms.
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
