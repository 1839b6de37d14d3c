"""Whose proof a folder is: one of the protocol that is spoken here, af's own, or none at all.

af keeps its proofs in a `ledger/` with a `meta.json` too, and takes the same `ledger.lock`, but
names its events `000001.json` and its claims `nodes_claimed`. Each of the two reads past what the
other wrote. So both would grant the same node, and both would call the proof well: a folder of af
is refused, and one that has events of both, before anything is written.

Everything else that has a `ledger/` is a proof as long as nothing in it says otherwise: the ledger
has events of ours or nothing at all, or the folder has our settings or our own folder.
"""

from __future__ import annotations

import os

from holdfast.proof import codec
from holdfast.proof.errors import ForeignProofError, NoProofError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.proof.folder import ProofFolder

#: The ledger of a longer proof is not listed to open it. There only af's first event is looked
#: for, without which af itself cannot read its ledger.
_LISTED_MAX = 4096
_FIRST_OF_AF = "000001.json"
_TOLD_MAX = 20


def check(folder: ProofFolder) -> None:
    """Raise if a folder with a ledger is not a proof of the protocol that is spoken here."""
    names = _names(folder)
    theirs = sorted(filter(codec.is_event_of_af, names))
    ours = sorted(name for name in names if codec.sequence_of(name) is not None)
    if theirs or codec.is_meta_of_af(_meta(folder.root)):
        raise _foreign(folder.root, theirs, ours)
    strangers = [name for name in names if is_stranger(name)]
    if strangers and not ours and not _is_marked(folder.root):
        raise NoProofError(
            f"{folder.ledger} is the ledger of no proof: it has {listed(sorted(strangers))}, "
            "and no event",
            hint="nothing was changed; name the folder of a proof, or make one: "
            "holdfast proof init DIR",
        )


def check_new(root: str) -> None:
    """Raise if a folder is used for something else than a proof, so that none is made in it."""
    try:
        names = os.listdir(root)
    except OSError:
        return  # not there, or no folder: making it says the rest
    if codec.LEDGER in names:
        return  # there is one: it is looked at as such
    if codec.is_meta_of_af(_meta(root)):
        raise _foreign(root, [], [])
    known = (codec.CLAIM_FILES, codec.META)
    others = sorted(name for name in names if name[0] != "." and name not in known)
    if others and not _is_marked(root):
        raise NoProofError(
            f"{root} is not a proof, and is not empty: it has {listed(others)}",
            hint=f"nothing was changed; make one in a folder of its own: "
            f"holdfast proof init {os.path.join(root, 'NAME')}",
        )


def check_still(folder: ProofFolder) -> None:
    """Raise if af has begun a proof here since the folder was opened. It looks for one file."""
    if os.path.lexists(f"{folder.ledger}/{_FIRST_OF_AF}"):
        check(folder)


def is_stranger(name: str) -> bool:
    """Whether a name in a ledger is none that this protocol has; hidden files do not count."""
    return name[0] != "." and not name.startswith("event-") and name != codec.LOCK


def listed(names: Sequence[str]) -> str:
    """Names for people: some of them, and how many more."""
    more = f" and {len(names) - _TOLD_MAX} more" if len(names) > _TOLD_MAX else ""
    return ", ".join(names[:_TOLD_MAX]) + more


def _names(folder: ProofFolder) -> list[str]:
    """What lies in a ledger; of one that is long, or may not be listed, what can be asked for."""
    from holdfast.proof.chain import length

    if length(folder) <= _LISTED_MAX:
        try:
            return os.listdir(folder.ledger)
        except OSError:
            pass  # then reading says why
    asked = (codec.event_name(1), _FIRST_OF_AF)
    return [name for name in asked if os.path.lexists(f"{folder.ledger}/{name}")]


def _meta(root: str) -> bytes:
    from holdfast.core.errors import StoreCorruptError
    from holdfast.proof.folder import read

    try:
        return read(os.path.join(root, codec.META))[0]
    except (OSError, StoreCorruptError):
        return b""


def _is_marked(root: str) -> bool:
    """Whether a folder has our settings or our own folder, as only a proof of ours has."""
    from holdfast.proof.folder import OWN

    return os.path.isdir(os.path.join(root, OWN)) or codec.is_meta_of_ours(_meta(root))


def _foreign(root: str, theirs: list[str], ours: list[str]) -> ForeignProofError:
    if theirs and ours:
        return ForeignProofError(
            f"{root} has events of af (ledger/{theirs[0]}) beside events of this protocol "
            f"(ledger/{ours[0]}): each program reads past the other's claims",
            hint="nothing was changed; find out which of the two is in use, and move the other's "
            "events away",
            files=theirs[:_TOLD_MAX],
        )
    why = f"ledger/{theirs[0]}" if theirs else f"the version in {codec.META}"
    return ForeignProofError(
        f"{root} is a proof of af, as {why} shows; holdfast does not read its claims, so it would "
        "grant a node that af has granted",
        hint="nothing was changed; use af there, or make another proof: holdfast proof init DIR",
        files=theirs[:_TOLD_MAX],
    )
