"""Which agent of this machine holds a lock. The lock file names a machine, and agents share one.

The note is in the clone's own `.holdfast`, wherever the ledger is, never in the lock file, which
other programs read. It is bound to one lock by the lock's whole content, so it never applies to a
later one. A lock without a note belongs to the machine: any holder on it may release the lock.

Agents are distinguished by their sessions, and runners by their names. A person is a user, not a
terminal: a lock for hours outlives the terminal and the shell in which it was acquired.
"""

from __future__ import annotations

import os

from holdfast.core import codec
from holdfast.core.model import Holder
from holdfast.manager.files.paths import home_root
from holdfast.manager.files.replace_file import replace_file
from holdfast.manager.ledger_location import own_folder
from holdfast.manager.owners.identity import HOLDER_VARIABLE, user_name, whoami
from holdfast.specs import spec_files
from holdfast.specs.lockfile_codec import lock_bytes
from holdfast.store.sqlite.schema import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.specs.results import LockMetadata

FOLDER = "specs"
FILE = "holder.json"


def holder_here(environ: Mapping[str, str], name: str | None = None) -> Holder:
    """The caller: a named holder, an agent, or else the user."""
    if name is not None or environ.get(HOLDER_VARIABLE):
        return whoami(environ, holder=name).holder
    found = whoami(environ).holder
    if found.client:
        return found
    user = user_name()
    return Holder(id=user, key=f"user:{user}", user=user)


def is_family(one: Holder, other: Holder) -> bool:
    """Whether two holders are the same, or one is a sub-agent of the other."""
    return one.key in (other.key, other.parent) or other.key == one.parent


class HolderNotes:
    """The notes on the holders of locks in one folder of specs."""

    __slots__ = ("_folder", "_ledger", "_specs_dir", "_workspace")

    def __init__(self, workspace: str, specs_dir: str) -> None:
        """Both are real paths; the folder of specs has its name in the workspace."""
        self._workspace = workspace
        self._specs_dir = specs_dir
        self._ledger = self._folder = ""

    def write(self, spec_name: str, lock: LockMetadata, holder: Holder) -> None:
        """Write the holder of a lock, before the lock becomes visible."""
        file = self._file(spec_name)
        if not os.path.isdir(os.path.dirname(file)):
            make_folder(self._ledger)
            os.makedirs(os.path.dirname(file), exist_ok=True)
        text = codec.dumps({"lock": _text(lock), "holder": codec.holder_to_dict(holder)})
        # If the note is lost the lock belongs to the machine, as its file says.
        replace_file(file, text.encode("utf-8", "surrogatepass"), mode=0o644)

    def read(self, spec_name: str, lock: LockMetadata) -> Holder | None:
        """The holder of exactly this lock, if a note names it."""
        try:
            seen = spec_files.look(self._file(spec_name))
        except OSError:
            return None
        if seen is None or seen.data is None:
            return None
        try:
            found = codec.loads(seen.data.decode("utf-8", "surrogatepass"))
            if found["lock"] != _text(lock):
                return None
            return codec.holder_from_dict(found["holder"])
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    def forget(self, spec_name: str) -> None:
        """Remove the note. A note that remains has no effect, because its lock is gone."""
        try:
            os.unlink(self._file(spec_name))
        except OSError:
            return

    def _file(self, spec_name: str) -> str:
        if not self._folder:
            root = home_root(self._workspace)
            self._ledger = own_folder(root)
            self._folder = f"{self._ledger}/{FOLDER}/{os.path.relpath(self._specs_dir, root)}"
        return f"{self._folder}/{spec_name}/{FILE}"


def _text(lock: LockMetadata) -> str:
    return lock_bytes(lock).decode()
