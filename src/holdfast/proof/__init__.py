"""Proofs: an append-only ledger of events in files, and claims on the nodes of a proof.

    ledger       ProofLedger: append, read
    claims       Claims: who works on which node, until when
    claim_state  what the events up to one of them say about claims
    activity     what each owner of claims did so far
    codec        how all of it is spelled on disk
    dialect      which dialect a folder speaks, if it is a proof at all
    seed_dialect the protocol's own: `event-000001.json`, `lock_acquired`
    af_dialect   af's: `000001.json`, `nodes_claimed`
    backoff      growing pauses between attempts
    folder       where the files are; how one is read, made and synced
    reading      events without any lock; where the ledger ends
    writelock    the ledger's lock, which other programs take too
    line         a fair order among ours in front of it
    chain        hashes beside the ledger, by which changed events are found
    checkpoint   the claims at some event, so that starting is quick
    mirror       the files in `locks/`
    finding      one thing that is wrong with a proof
    audit        all that is wrong with one
    strangers    files that nothing here understands
    repair       what can be put right
    errors       its own errors

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
