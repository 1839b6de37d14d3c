"""Which agent of this machine has a lock. The lock file names a machine, and agents share one.

The note is beside the ledger, never in the lock file, which other programs read. It belongs to one
lock by that lock's whole content, so it says nothing about any later one. A lock without a note is
the machine's: whoever works there may give it back.

Agents are told apart by their session, and runners by their name. A person is a user, not a
terminal: a lock for hours outlives both the terminal and the shell it was taken in.
"""

from __future__ import annotations

import os

from holdfast.core import codec
from holdfast.core.model import Holder
from holdfast.manager.files.paths import home_root
from holdfast.manager.files.replace_file import replace_file
from holdfast.manager.ledger_location import ledger_of
from holdfast.manager.owners.identity import HOLDER_VARIABLE, user_name, whoami
from holdfast.specs import spec_files
from holdfast.specs.lockfile_codec import lock_bytes
from holdfast.store.schema import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.specs.results import LockMetadata

FOLDER = "specs"
FILE = "holder.json"


def holder_here(environ: Mapping[str, str], name: str | None = None) -> Holder:
    """Who it is that calls: somebody by name, an agent, or else the user."""
    if name is not None or environ.get(HOLDER_VARIABLE):
        return whoami(environ, holder=name).holder
    found = whoami(environ).holder
    if found.client:
        return found
    user = user_name()
    return Holder(id=user, key=f"user:{user}", user=user)


def is_family(one: Holder, other: Holder) -> bool:
    """Whether two are the same, or one is the sub-agent of the other."""
    return one.key in (other.key, other.parent) or other.key == one.parent


class HolderNotes:
    """The notes on the locks of one folder of specs."""

    __slots__ = ("_folder", "_ledger", "_specs_dir", "_workspace")

    def __init__(self, workspace: str, specs_dir: str) -> None:
        """Both real paths, the folder of specs by its name in the workspace."""
        self._workspace = workspace
        self._specs_dir = specs_dir
        self._ledger = self._folder = ""

    def write(self, spec_name: str, lock: LockMetadata, holder: Holder) -> None:
        """Note who has a lock, before anybody can see it."""
        file = self._file(spec_name)
        if not os.path.isdir(os.path.dirname(file)):
            make_folder(self._ledger)
            os.makedirs(os.path.dirname(file), exist_ok=True)
        text = codec.dumps({"lock": _text(lock), "holder": codec.holder_to_dict(holder)})
        # If it is lost the lock is the machine's, which is what its file says.
        replace_file(file, text.encode("utf-8", "surrogatepass"), mode=0o644)

    def read(self, spec_name: str, lock: LockMetadata) -> Holder | None:
        """Who has this very lock, if that was noted."""
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
        """Nobody has it any more. A note that stays says nothing, for its lock is gone."""
        try:
            os.unlink(self._file(spec_name))
        except OSError:
            return

    def _file(self, spec_name: str) -> str:
        if not self._folder:
            root = home_root(self._workspace)
            self._ledger = os.path.dirname(ledger_of(root))
            self._folder = f"{self._ledger}/{FOLDER}/{os.path.relpath(self._specs_dir, root)}"
        return f"{self._folder}/{spec_name}/{FILE}"


def _text(lock: LockMetadata) -> str:
    return lock_bytes(lock).decode()
