"""The errors of proofs."""

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
    """Another process appended since the caller read: read again, and decide again."""

    code = "E_SEQUENCE_MISMATCH"


class NodeAlreadyLocked(Refused):
    """Another claim is on the node."""

    code = "E_NODE_LOCKED"


class LockBreakRefused(Refused):
    """A ledger lock that may still be in use is not broken."""

    code = "E_LOCK_IN_USE"


class NoProofError(InvalidInput):
    """There is no proof in that folder, or it cannot be used."""

    code = "E_NO_PROOF"


class ForeignProofError(NoProofError):
    """The proof belongs to another program, which stores its claims differently."""

    code = "E_PROOF_FOREIGN"


class BadEventError(InvalidInput):
    """An event that other programs could not read."""

    code = "E_BAD_EVENT"


class BadNodeError(InvalidInput):
    """A text that is not a node of a proof."""

    code = "E_BAD_NODE"


class BadTimeoutError(InvalidInput):
    """A claim timeout that is not a duration, or out of range."""

    code = "E_BAD_TIMEOUT"


_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)


def told(error: OSError, doing: str) -> HoldfastError:
    """An error of the system during a change, as one of ours."""
    message = _sentence(error, doing)
    if error.errno in _FULL:
        return StoreFullError(message, hint="free some space and try again; nothing was appended")
    if error.errno in _CLOSED:
        return StoreReadonlyError(
            message, hint="give this user permission to write there; reading needs less"
        )
    return StoreError(message, hint="fix that and try again; nothing was appended")


def unread(error: OSError) -> StoreError:
    """An error of the system during reading, as one of ours."""
    return StoreError(_sentence(error, "reading the proof"), hint="fix that and try again")


def _sentence(error: OSError, doing: str) -> str:
    said = error.strerror or type(error).__name__
    about = f" ({error.filename})" if isinstance(error.filename, str) else ""
    return f"{doing} failed: {said}{about}"
