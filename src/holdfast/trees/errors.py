"""The errors of trees, in addition to those of any lock."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.core.errors import (
    HoldfastError,
    InvalidInput,
    Refused,
    StoreError,
    StoreFullError,
    StoreReadonlyError,
)

_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM)


class ConsistencyError(Refused):
    """The tree changed, or nothing could prevent that it would."""

    code = "E_CONSISTENCY_UNAVAILABLE"


class PartialSnapshotError(Refused):
    """A snapshot that was never completed."""

    code = "E_PARTIAL_SNAPSHOT"


class TreeExistsError(Refused):
    """The name is already in use."""

    code = "E_TREE_EXISTS"


class TreeNotAllowedError(Refused):
    """The worktree does not allow this operation."""

    code = "E_TREE_NOT_ALLOWED"


class BadTreeError(InvalidInput):
    """An invalid name, or an invalid entry in a payload."""

    code = "E_BAD_TREE"


class NoTreeError(InvalidInput):
    """There is no repository, worktree or snapshot of that name."""

    code = "E_NO_TREE"


class ForeignTreeError(NoTreeError):
    """The repository is another program's, or another program has written into it."""

    code = "E_TREE_FOREIGN"


class TreeDamagedError(StoreError):
    """Stored data has changed since it was stored."""

    code = "E_TREE_DAMAGED"


class TreeVersionError(StoreError):
    """The repository has a format that this version does not know."""

    code = "E_TREE_VERSION"


class TreeAccessError(StoreError):
    """The system does not let us read or write something that the operation needs."""

    code = "E_TREE_ACCESS"


@contextmanager
def in_words(doing: str) -> Iterator[None]:
    """A section in which errors of the system become errors of ours."""
    try:
        yield
    except OSError as error:
        raise translated(error, doing) from error


def translated(error: OSError, doing: str) -> HoldfastError:
    """An error of the system as one of ours."""
    said = error.strerror or type(error).__name__
    about = f" ({shown(error.filename)})" if error.filename is not None else ""
    if error.errno in _FULL:
        return StoreFullError(
            f"no space left while {doing}{about}",
            hint="nothing half done was left behind; free some space and try again",
        )
    if error.errno == errno.EROFS:
        return StoreReadonlyError(f"{doing} failed: {said}{about}", hint="it is read-only here")
    if error.errno in _CLOSED:
        return TreeAccessError(
            f"{doing} failed: {said}{about}",
            hint="get permission for it, or move it out of the tree, and try again",
        )
    return StoreError(f"{doing} failed: {said}{about}", hint="fix that and try again")


def shown(path: str | bytes | int) -> str:
    """A path that can be printed and stored, whatever bytes it is made of."""
    text = os.fsdecode(path) if isinstance(path, bytes) else str(path)
    return text.encode("utf-8", "backslashreplace").decode()
