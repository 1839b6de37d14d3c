"""Unknown files in the folders of a proof.

No program of this protocol reads them, so they do no harm by themselves. They are reported because
a person or a program may believe that they are part of the proof: an event under a wrong name, or a
claim of another program.
"""

from __future__ import annotations

import os
import re
import stat
import time

from holdfast.proof import checkpoint, hash_chain
from holdfast.proof.dialects import dialect, proof_codec
from holdfast.proof.ledger_lock import LINE, SEATS
from holdfast.proof.proof_folder import ASIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.proof.proof_folder import ProofFolder

#: Temporary files have names like this, and get their final names within this time.
_ASIDE = re.compile(r".+\.[0-9]+\.[0-9a-f]{8}\.tmp\Z")
_ASIDE_SECONDS = 60.0
_SEAT = re.compile(r"[0-9]+-[0-9]+-[0-9a-f]+\Z")
_KEPT = re.compile(r"(event-)?[0-9]+\.json\.[0-9]+\Z")

_OWN = (".gitignore", hash_chain.NAME, checkpoint.NAME, LINE, SEATS, ASIDE)


def in_ledger(folder: ProofFolder) -> list[str]:
    """Names in the ledger that are neither events nor its other files."""
    return [
        name
        for name in _names(folder.ledger)
        if dialect.is_stranger(folder.dialect, name) or (name[0] == "." and not _is_draft(name))
    ]


def in_claims(folder: ProofFolder) -> list[str]:
    """Names in the folder of claim files that are not names of claims."""
    return [*_odd(folder.claims, lambda name: name.endswith(".lock"))]


def in_own(folder: ProofFolder) -> list[str]:
    """Names in our own folder, and in its subfolders."""
    found = [*_odd(folder.own, _OWN.__contains__)]
    for inner, like in ((SEATS, _SEAT), (ASIDE, _KEPT)):
        place = os.path.join(folder.own, inner)
        found += [f"{inner}/{name}" for name in _names(place) if not like.match(name)]
    return found


def beside(folder: ProofFolder) -> list[str]:
    """Names beside the ledger that are not part of a proof. Other files in a proof of af are af's
    business."""
    if folder.dialect is dialect.AF:
        return []
    own = os.path.basename(folder.own)
    known = (proof_codec.LEDGER, proof_codec.CLAIM_FILES, proof_codec.META, own)
    found = [name for name in _names(folder.root) if name not in known]
    return sorted(
        found + [name for name in (proof_codec.CLAIM_FILES, own) if _is_odd(folder, name)]
    )


def _is_odd(folder: ProofFolder, name: str) -> bool:
    """Whether something that is not a folder is in the place of one."""
    try:
        return not stat.S_ISDIR(os.lstat(os.path.join(folder.root, name)).st_mode)
    except FileNotFoundError:
        return False


def _is_draft(name: str) -> bool:
    return name.startswith(".event-") and name.endswith(".tmp")


def _odd(place: str, is_known: Callable[[str], bool]) -> Iterator[str]:
    for name in _names(place):
        if not is_known(name) and not (_ASIDE.match(name) and _is_young(place, name)):
            yield name


def _is_young(place: str, name: str) -> bool:
    try:
        return time.time() - os.lstat(os.path.join(place, name)).st_mtime < _ASIDE_SECONDS
    except FileNotFoundError:
        return True  # it has got its final name meanwhile


def _names(place: str) -> list[str]:
    try:
        return sorted(os.listdir(place))
    except (FileNotFoundError, NotADirectoryError):
        return []
