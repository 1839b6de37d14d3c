"""The scratch folder of a sandboxed command, and cleaning up after a killed runner.

    holdfast-run-XXXXXXXX/      accessible to this user only
      owner                     the runner, and what else it created, as JSON
      socket                    see `ledger_socket`
      tmp/                      the command's TMPDIR; the only part that is open to it

A runner that ends removes all of it. A killed runner cannot, so the next one looks for folders
whose owner is dead, with all processes that it started, and cleans up. A runner that is killed
before it has written `owner` leaves an empty folder, which is recognised by its age.

What this does not promise: finding folders that were left under another TMPDIR.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time

from holdfast.core import codec
from holdfast.core.file_times import is_settled
from holdfast.gate.sandbox import SandboxError
from holdfast.gate.sandbox.kernel.open_places import Created, remove_untouched
from holdfast.manager.files.replace_file import replace_file
from holdfast.manager.owners.liveness import is_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from holdfast.core.model import Holder, Witness

PREFIX = "holdfast-run-"
#: How many folders one runner looks into, and how often it tries to empty one of its own.
LOOKED_AT_MAX = 1000
TRIES_MAX = 3
#: Folders that are nested deeper are moved to the top before they are removed.
DEPTH_MAX = 10
_OWNER_BYTES_MAX = 16 << 20
#: No runner takes this long to write `owner` into a new folder.
NEW_SECONDS = 60.0


class ScratchFolder:
    """A folder of the runner, with the command's folder in it."""

    __slots__ = ("_owner", "folder", "tmp")

    def __init__(self, holder: Holder) -> None:
        try:
            self.folder = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
            self.tmp = f"{self.folder}/tmp"
            self._owner = f"{self.folder}/owner"
            self.note(holder, ())
            os.mkdir(self.tmp, 0o700)
        except OSError as error:
            raise SandboxError(
                f"cannot create a scratch folder: {error.strerror} ({error.filename})",
                hint="TMPDIR must name a writable folder",
            ) from error

    def note(self, holder: Holder, made: Iterable[Created]) -> None:
        """Record the owner and what has to be removed, in case we are killed."""
        text = codec.dumps(
            {
                "witness": codec.witness_to_list(holder.witness),
                "marks": list(holder.marks),
                "made": [one.to_list() for one in made],
            }
        )
        replace_file(self._owner, text.encode("utf-8", "surrogatepass"))

    def empty(self) -> bool:
        """Empty the command's folder for another command. False if that fails."""
        try:
            os.rmdir(self.tmp)  # most commands leave nothing there
        except OSError:
            if not _remove(self.tmp):
                return False
        try:
            os.mkdir(self.tmp, 0o700)
        except OSError:  # the disk is full, or the outer folder was removed
            return False
        return True

    def remove(self) -> bool:
        """Remove the folder. False if that fails, because a process still writes there, say."""
        return _remove(self.folder)


#: The owner of each folder, once read; it never changes. A runner with many commands sweeps before
#: each of them, and would read the same files again and again.
_owners: dict[str, tuple[Witness, tuple[str, ...]]] = {}
#: The last change of each temporary folder whose entries are all in `_owners`: if it is the same,
#: so is the list.
_known: dict[str, int] = {}


def sweep(folder: str | None = None) -> list[str]:
    """Clean up after killed runners of which no process is left. Returns what was removed."""
    folder = folder or tempfile.gettempdir()
    try:
        now, changed = time.time_ns(), os.stat(folder).st_mtime_ns
        if _known.get(folder) == changed:
            found = [path for path in _owners if os.path.dirname(path) == folder]
        else:
            found = _listed(folder)
    except OSError:
        return []
    gone = [path for path in found if _sweep(path)]
    is_sure = is_settled(changed, now) and all(path in _owners for path in found)
    _known[folder] = changed if is_sure and not gone else -1
    return gone


def _listed(folder: str) -> list[str]:
    names = [name for name in os.listdir(folder) if name.startswith(PREFIX)]
    found = [f"{folder}/{name}" for name in names[:LOOKED_AT_MAX]]
    for path in _owners.keys() - set(found):
        if os.path.dirname(path) == folder:
            del _owners[path]
    return found


def _sweep(path: str) -> bool:
    if path in _owners and not is_dead(*_owners[path]):
        return False
    try:
        status = os.lstat(path)
        # Any user can create a folder with such a name; only our own can be trusted.
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        if stat.S_IMODE(status.st_mode) & 0o077:
            return False
        if status.st_mtime + NEW_SECONDS < time.time() and _was_empty(path):
            return True
        with open(f"{path}/owner", encoding="utf-8", errors="surrogatepass") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made = _if_dead(path, codec.loads(file.read(_OWNER_BYTES_MAX)))
            if made is None:
                return False
            remove_untouched(made)
            return _remove(path)
    except (OSError, ValueError, TypeError, LookupError):
        return False  # another process is cleaning up, or it was never finished: leave it alone


def _was_empty(path: str) -> bool:
    """Remove a folder if it is empty. Whether it was."""
    try:
        os.rmdir(path)
    except OSError:
        return False
    return True


def _if_dead(path: str, data: Any) -> list[Created] | None:
    """What a runner had created, if it is proven dead with all processes that it started."""
    witness, marks = codec.witness_from_list(data["witness"]), tuple(data["marks"])
    if witness is None:
        return None
    if not is_dead(witness, marks):
        _owners[path] = (witness, marks)
        return None
    return [Created(*fields) for fields in data["made"]]


def _remove(path: str) -> bool:
    import shutil

    for _ in range(TRIES_MAX):
        try:
            shutil.rmtree(path, ignore_errors=True)
        except RecursionError:
            pass  # nested too deeply: see `_unlock`
        if not os.path.lexists(path):
            return True
        _unlock(path)
    return False


def _unlock(path: str) -> None:
    """Make folders removable that their owner made inaccessible, or that are nested too deeply:
    the latter are moved to the top. Links are not followed."""
    tops = [path]
    for top in tops:  # the list grows in this loop
        _open(top)
        for folder, names, _files in os.walk(top):
            for name in list(names):
                one = f"{folder}/{name}"
                if _open(one) and folder.count("/") - top.count("/") >= DEPTH_MAX:
                    tops += _brought_to(path, one)
                    names.remove(name)


def _open(folder: str) -> bool:
    """Give us access to a folder. Whether it is a folder, and that worked."""
    try:
        if os.path.islink(folder):
            return False
        os.chmod(folder, 0o700)
    except OSError:
        return False
    return True


def _brought_to(folder: str, path: str) -> list[str]:
    there = f"{folder}/{os.urandom(8).hex()}"
    try:
        os.rename(path, there)
    except OSError:
        return []
    return [there]
