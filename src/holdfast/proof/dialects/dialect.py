"""Which dialect a folder uses: the protocol's own, that of af, or none, if it is not a proof.

af keeps its proofs in a `ledger/` with a `meta.json` too, and takes the same `ledger.lock`, but
names its events `000001.json` and its claims `nodes_claimed`. The dialect is detected by the events
or, while there are none, by af's settings. A folder with events of both is refused before anything
is written: af ignores the other events, so both programs would grant the same node.

Any other folder with a `ledger/` is a proof in the protocol's own dialect if its content fits: the
ledger has such events or is empty, or the folder has our settings or our own folder.
"""

from __future__ import annotations

import os

from holdfast.proof.dialects import proof_codec
from holdfast.proof.dialects.af_dialect import AfDialect, is_event
from holdfast.proof.dialects.seed_dialect import SeedDialect
from holdfast.proof.errors import ForeignProofError, NoProofError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.proof.proof_folder import ProofFolder

    Dialect = SeedDialect | AfDialect

SEED = SeedDialect()
AF = AfDialect()

#: The ledger of a longer proof is not listed when it is opened. Only the first event of each
#: dialect is checked there; without it neither program can read its ledger.
_LISTED_MAX = 4096
_TOLD_MAX = 20
_UNCHANGED = "nothing was changed"


def found(folder: ProofFolder) -> Dialect:
    """The dialect of a folder with a ledger. Raises NoProofError if it is not a proof."""
    names = _names(folder)
    theirs = sorted(filter(is_event, names))
    ours = sorted(name for name in names if SEED.sequence_of(name) is not None)
    if theirs and ours:
        raise _mixed(folder.root, theirs, ours)
    if theirs or (not ours and proof_codec.is_meta_of_af(_meta(folder.root))):
        _check_names(folder.root, theirs)
        return AF
    strangers = [name for name in names if is_stranger(SEED, name)]
    if strangers and not ours and not _is_marked(folder.root):
        raise NoProofError(
            f"{folder.ledger} is not the ledger of a proof: it has {listed(sorted(strangers))}, "
            "and no events",
            hint=f"{_UNCHANGED}; name the folder of a proof, or create one: "
            "holdfast proof init DIR",
        )
    return SEED


def check_new(root: str) -> None:
    """Raise if a folder is used for anything but a proof, so that none is created in it."""
    try:
        names = os.listdir(root)
    except OSError:
        return  # missing, or not a folder: creating it reports the rest
    if proof_codec.LEDGER in names:
        return  # it has a ledger: it is checked as a proof
    if proof_codec.is_meta_of_af(_meta(root)):
        raise ForeignProofError(
            f"{root} is a proof of af, as the version in {proof_codec.META} shows, "
            "and has no ledger",
            hint=f"{_UNCHANGED}; af init creates its ledger; or create another proof: "
            "holdfast proof init DIR",
        )
    known = (proof_codec.CLAIM_FILES, proof_codec.META)
    others = sorted(name for name in names if name[0] != "." and name not in known)
    if others and not _is_marked(root):
        raise NoProofError(
            f"{root} is not a proof, and is not empty: it has {listed(others)}",
            hint=f"{_UNCHANGED}; create one in a folder of its own: "
            f"holdfast proof init {os.path.join(root, 'NAME')}",
        )


def check_still(folder: ProofFolder) -> None:
    """Raise if the other dialect has appeared since the folder was opened. Checks one file."""
    other = SEED if folder.dialect is AF else AF
    if not os.path.lexists(f"{folder.ledger}/{other.first_event}"):
        return
    if found(folder) is not folder.dialect:
        raise ForeignProofError(
            f"{folder.root} has become a proof of another dialect, as "
            f"ledger/{other.first_event} shows",
            hint=f"{_UNCHANGED}; open it again",
            files=[other.first_event],
        )


def is_stranger(dialect: Dialect, name: str) -> bool:
    """Whether a name in a ledger is not part of its dialect; hidden files do not count."""
    return name[0] != "." and not dialect.is_event_like(name) and name != proof_codec.LOCK


def listed(names: Sequence[str]) -> str:
    """Names for people: some of them, and the number of the others."""
    more = f" and {len(names) - _TOLD_MAX} more" if len(names) > _TOLD_MAX else ""
    return ", ".join(names[:_TOLD_MAX]) + more


def _names(folder: ProofFolder) -> list[str]:
    """The names in a ledger; in a long or unreadable one, only those that can be guessed."""
    from holdfast.proof.hash_chain import length

    if length(folder) <= _LISTED_MAX:
        try:
            return os.listdir(folder.ledger)
        except OSError:
            pass  # then reading reports why
    asked = (SEED.first_event, AF.first_event)
    return [name for name in asked if os.path.lexists(f"{folder.ledger}/{name}")]


def _meta(root: str) -> bytes:
    from holdfast.core.errors import StoreCorruptError
    from holdfast.proof.proof_folder import read

    try:
        return read(os.path.join(root, proof_codec.META))[0]
    except (OSError, StoreCorruptError):
        return b""


def _is_marked(root: str) -> bool:
    """Whether a folder has our settings or our own folder, as only our proofs have."""
    from holdfast.proof.proof_folder import OWN

    return os.path.isdir(os.path.join(root, OWN)) or proof_codec.is_meta_of_ours(_meta(root))


def _check_names(root: str, theirs: list[str]) -> None:
    """Raise for unpadded numbers: af counts such a file as an event, and then cannot find it."""
    wrong = [name for name in theirs if AF.sequence_of(name) is None]
    if wrong:
        raise ForeignProofError(
            f"{root} is a proof of af that af itself cannot read: ledger/{wrong[0]} counts as "
            "an event but is not named like one",
            hint=f"{_UNCHANGED}; move it away, or rename it so that its number has six digits",
            files=wrong[:_TOLD_MAX],
        )


def _mixed(root: str, theirs: list[str], ours: list[str]) -> ForeignProofError:
    return ForeignProofError(
        f"{root} has events of af (ledger/{theirs[0]}) beside events of the protocol's own dialect "
        f"(ledger/{ours[0]}): af ignores those, so both would grant the same node",
        hint=f"{_UNCHANGED}; find out which of the two is in use, and move the other's events away",
        files=theirs[:_TOLD_MAX],
    )
