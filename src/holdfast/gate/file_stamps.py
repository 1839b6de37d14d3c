"""Stamps show a change of a file without reading it: its inode, its size and its times.

A stamp is taken when a lease is requested, and kept with the lease. A file whose stamp is still the
same was not changed since. File times lag a tick behind the clock: a file that was changed just now
could be changed again without a new time, so it has no stamp, and counts as changed.
"""

from __future__ import annotations

import os
from time import time_ns

from holdfast.core.file_times import is_settled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ABSENT = "absent"


def stamp_of(status: os.stat_result | None) -> str:
    """The stamp for a stat result; empty if a change could go unseen."""
    if status is None:
        return ABSENT
    if not is_settled(status.st_ctime_ns, time_ns()):
        return ""
    return f"{status.st_ino}.{status.st_size}.{status.st_mtime_ns}.{status.st_ctime_ns}"


def stamp_at(file: str) -> str:
    """The stamp of a file by its absolute path."""
    try:
        return stamp_of(os.lstat(file))
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT
    except OSError:
        return ""


def stamps_at(root: str, paths: Iterable[str]) -> dict[str, str]:
    """The stamps of some files, by their paths in a tree."""
    return {path: stamp_at(f"{root}/{path.removeprefix('./')}") for path in paths}
