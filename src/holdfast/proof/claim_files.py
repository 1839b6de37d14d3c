"""The files in `locks/`: a mirror of the claims for programs that look there, and the claims of
programs that write only there.

The mirror is kept if the folder exists and the dialect has one. The ledger is the truth about its
own claims: a file that could not be written or removed changes nothing, `verify` reports it, and
the next reaping repairs it. Files are written under the ledger's lock, so that an older claim never
replaces a newer one.

A file that matches no claim in the ledger belongs to another program. It is respected: it is never
overwritten while it counts, and never removed without an event.
"""

from __future__ import annotations

import os

from holdfast.core.errors import StoreCorruptError
from holdfast.manager.files.replace_file import replace_file
from holdfast.proof.claim_state import Claim
from holdfast.proof.dialects import proof_codec
from holdfast.proof.proof_folder import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.proof.claim_state import ClaimState
    from holdfast.proof.event_ledger import ProofLedger

SUFFIX = ".lock"
#: How much the clocks of two machines may differ: a file counts this much longer.
GRACE = 5 * proof_codec.SECOND


def write(ledger: ProofLedger, claim: Claim) -> None:
    """Write the file of a claim."""
    folder = ledger.folder.claims
    if not is_kept(ledger) or claim.acquired_at is None or claim.expires_at is None:
        return
    data = proof_codec.claim_bytes(claim.node, claim.owner, claim.acquired_at, claim.expires_at)
    try:
        replace_file(f"{folder}/{proof_codec.claim_name(claim.node)}", data, mode=0o644)
    except OSError:
        _unlink(ledger, claim.node)  # no file is better than that of an earlier claim


def remove(ledger: ProofLedger, claim: Claim) -> None:
    """Remove the file of a claim. A file with another claim stays."""
    if is_kept(ledger) and claim.is_shown_by(shown(ledger, claim.node)):
        _unlink(ledger, claim.node)


def is_kept(ledger: ProofLedger) -> bool:
    """Whether this proof has a mirror."""
    return ledger.folder.dialect.shows_claims and os.path.isdir(ledger.folder.claims)


def shown(ledger: ProofLedger, node: str) -> Claim | None:
    """The claim in the file of a node; None without a readable file."""
    name = proof_codec.claim_name(node)
    try:
        data, _ = read(os.path.join(ledger.folder.claims, name))
    except (OSError, StoreCorruptError):
        return None
    fields = proof_codec.claim_fields(data)
    if fields is None or proof_codec.claim_name(fields[0]) != name:
        return None
    return Claim(*fields, sequence=0)


def claims(
    ledger: ProofLedger, is_wanted: Callable[[str], bool] = lambda node: True
) -> list[Claim]:
    """The claims in the files of some nodes, or of all; unreadable files are skipped."""
    nodes = (name.removesuffix(SUFFIX) for name in names(ledger))
    found = (shown(ledger, node) for node in nodes if is_wanted(node))
    return [claim for claim in found if claim is not None]


def names(ledger: ProofLedger) -> list[str]:
    """The names of the files."""
    try:
        return sorted(name for name in os.listdir(ledger.folder.claims) if name.endswith(SUFFIX))
    except OSError:
        return []


def is_foreign(state: ClaimState, claim: Claim) -> bool:
    """Whether a file's claim belongs to another program: the ledger has no such claim, and its
    last one on this node was different."""
    known = state.claims.get(claim.node) or state.ended.get(claim.node)
    return known is None or not known.is_shown_by(claim)


def counts(claim: Claim, now: int) -> bool:
    """Whether the claim of another program's file still counts."""
    return claim.is_live(now - GRACE)


def stale(ledger: ProofLedger, state: ClaimState, now: int, node: str | None = None) -> list[Claim]:
    """The expired claims in other programs' files, of one node or of all, whose nodes are free.
    While a node has a successor in the ledger the file stays: an event about it would end that
    claim."""
    if node is None:
        found = claims(ledger, lambda one: _is_free(state, one, now))
    else:
        one = shown(ledger, node) if _is_free(state, node, now) else None
        found = [] if one is None else [one]
    return [claim for claim in found if is_foreign(state, claim) and not counts(claim, now)]


def _is_free(state: ClaimState, node: str, now: int) -> bool:
    found = state.claims.get(node)
    return found is None or not found.is_live(now)


def left_behind(ledger: ProofLedger, state: ClaimState) -> list[Claim]:
    """The claims in files although the ledger has ended them."""
    found = claims(ledger, lambda node: node not in state.claims)
    return [claim for claim in found if not is_foreign(state, claim)]


def _unlink(ledger: ProofLedger, node: str) -> None:
    try:
        os.unlink(os.path.join(ledger.folder.claims, proof_codec.claim_name(node)))
    except OSError:
        return
