"""The files in `locks/`: a mirror of the claims for programs that look there.

It is kept if the folder is there. The ledger is the truth: a file that could not be written or
removed changes nothing, `verify` names it, and the next reaping puts it right. It is written under
the ledger's lock, so that an older claim never comes after a newer one.
"""

from __future__ import annotations

import os

from holdfast.core.errors import StoreCorruptError
from holdfast.proof import codec
from holdfast.proof.folder import read, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.proof.claims import Claim
    from holdfast.proof.ledger import ProofLedger

SUFFIX = ".lock"


def write(ledger: ProofLedger, claim: Claim) -> None:
    """Show a claim."""
    folder = ledger.folder.claims
    if not os.path.isdir(folder) or claim.acquired_at is None or claim.expires_at is None:
        return
    data = codec.claim_bytes(claim.node, claim.owner, claim.acquired_at, claim.expires_at)
    try:
        replace(os.path.join(folder, codec.claim_name(claim.node)), data)
    except OSError:
        remove(ledger, claim.node)  # none is better than that of somebody before


def remove(ledger: ProofLedger, node: str) -> None:
    """Show a claim no more."""
    try:
        os.unlink(os.path.join(ledger.folder.claims, codec.claim_name(node)))
    except OSError:
        return


def claims(ledger: ProofLedger) -> list[Claim]:
    """The claims that the files show; those that cannot be read are passed over."""
    from holdfast.proof.claims import Claim

    found = []
    for name in names(ledger):
        try:
            data, _ = read(os.path.join(ledger.folder.claims, name))
        except (OSError, StoreCorruptError):
            continue
        fields = codec.claim_fields(data)
        if fields is not None and codec.claim_name(fields[0]) == name:
            found.append(Claim(*fields, sequence=0))
    return found


def names(ledger: ProofLedger) -> list[str]:
    """The names of the files."""
    try:
        return sorted(name for name in os.listdir(ledger.folder.claims) if name.endswith(SUFFIX))
    except OSError:
        return []


def tidy(ledger: ProofLedger) -> None:
    """Remove the files whose time is over."""
    now = ledger.now()
    if all(claim.is_live(now) for claim in claims(ledger)):
        return
    with ledger.mutex, ledger.locked():  # or one that was written just now would be removed
        for claim in claims(ledger):
            if not claim.is_live(now):
                remove(ledger, claim.node)
