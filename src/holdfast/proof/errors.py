"""What can go wrong with a proof, on the branches of the tree of all errors."""

from __future__ import annotations

import errno

from holdfast.core.errors import (
    HoldfastError,
    InvalidInput,
    Refused,
    StoreError,
    StoreFullError,
    StoreReadonlyError,
)


class SequenceMismatch(Refused):
    """Somebody else appended since the caller looked: look again, and decide again."""

    code = "E_SEQUENCE_MISMATCH"


class NodeAlreadyLocked(Refused):
    """Somebody has a claim on the node."""

    code = "E_NODE_LOCKED"


class LockBreakRefused(Refused):
    """A ledger lock that may still be in use is not broken."""

    code = "E_LOCK_IN_USE"


class NoProofError(InvalidInput):
    """There is no proof in that folder, or it is not one that can be used."""

    code = "E_NO_PROOF"


class ForeignProofError(NoProofError):
    """The proof is another program's, which keeps its claims in another way."""

    code = "E_PROOF_FOREIGN"


class BadEventError(InvalidInput):
    """An event that other programs could not read."""

    code = "E_BAD_EVENT"


class BadNodeError(InvalidInput):
    """A text that is no node of a proof."""

    code = "E_BAD_NODE"


class BadTimeoutError(InvalidInput):
    """A claim timeout that is no length of time, or outside its limits."""

    code = "E_BAD_TIMEOUT"


_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def told(error: OSError, doing: str) -> HoldfastError:
    """What the system said while we were about to change something, as one of ours."""
    message = _sentence(error, doing)
    if error.errno in _FULL:
        return StoreFullError(message, hint="free some space and try again; nothing was appended")
    if error.errno in _CLOSED:
        return StoreReadonlyError(
            message, hint="give this user permission to write there; reading needs less"
        )
    return StoreError(message, hint="fix that and try again; nothing was appended")


def unread(error: OSError) -> StoreError:
    """What the system said while we were reading."""
    return StoreError(_sentence(error, "reading the proof"), hint="fix that and try again")


def _sentence(error: OSError, doing: str) -> str:
    said = error.strerror or type(error).__name__
    about = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return f"{doing} failed: {said}{about}"
