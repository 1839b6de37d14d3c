"""A proof's folder: where its files are, and how one is read, created and synced.

ledger/            the events and the ledger's lock: the only truth
locks/             a file for each claim, if the folder exists: a mirror
meta.json          settings
.holdfast-proof/   ours: the hash chain, the checkpoint, the line, the seats. Deleting it
                   costs nothing but time.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.core.errors import StoreCorruptError, StoreError
from holdfast.manager.files.replace_file import replace_file, write_all
from holdfast.manager.owners.liveness import own_witness
from holdfast.proof.dialects import dialect, proof_codec
from holdfast.proof.errors import NoProofError, told, unread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from holdfast.proof.dialects.dialect import Dialect

OWN = ".holdfast-proof"
#: In there: unreadable files that were in the place of an event.
ASIDE = "aside"

_CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_BINARY: int = getattr(os, "O_BINARY", 0)
READ: int = os.O_RDONLY | _CLOEXEC | _NOFOLLOW | _BINARY | getattr(os, "O_NONBLOCK", 0)
NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC | _NOFOLLOW | _BINARY
KEEP: int = os.O_RDWR | os.O_CREAT | _CLOEXEC | _NOFOLLOW | _BINARY

_CHUNK_BYTES = 16_384
#: The errors of a file system without hard links.
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)

_drafts = 0


class ProofFolder:
    """The paths of one proof, and its dialect. Raises NoProofError if there is no proof."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root: Final = os.path.abspath(os.fspath(root))
        self.ledger: Final = os.path.join(self.root, proof_codec.LEDGER)
        self.lock: Final = os.path.join(self.ledger, proof_codec.LOCK)
        self.claims: Final = os.path.join(self.root, proof_codec.CLAIM_FILES)
        self.meta: Final = os.path.join(self.root, proof_codec.META)
        self.own: Final = os.path.join(self.root, OWN)
        _check_ledger(self.root, self.ledger)
        self.dialect: Final[Dialect] = dialect.found(self)

    def event_name(self, sequence: int) -> str:
        """The name of an event's file."""
        return self.dialect.event_name(sequence)

    def event(self, sequence: int) -> str:
        """The path of an event."""
        return f"{self.ledger}/{self.dialect.event_name(sequence)}"

    def timeout(self) -> int:
        """How long a claim lasts here."""
        try:
            data, _ = read(self.meta)
        except FileNotFoundError:
            return self.dialect.timeout(None)
        except OSError as error:
            raise unread(error) from error
        return self.dialect.timeout(data)

    def sequences(self) -> list[int]:
        """The numbers of all events, in order. It lists the whole folder."""
        names = os.listdir(self.ledger)
        return sorted(filter(None, map(self.dialect.sequence_of, names)))

    def make_own(self, name: str = "") -> str:
        """Create our own folder, or one in it, hidden from git. Returns its path.

        Every user who may append to the ledger may use it, so it has the ledger's mode.
        """
        for path in (self.own, os.path.join(self.own, name)):
            if not os.path.isdir(path):
                os.makedirs(path, exist_ok=True)
                os.chmod(path, stat.S_IMODE(os.stat(self.ledger).st_mode))
        ignore = os.path.join(self.own, ".gitignore")
        if not os.path.exists(ignore):
            replace_file(ignore, b"*\n", mode=0o644)
        return os.path.join(self.own, name)

    def sync(self) -> None:
        """Sync the names in the ledger, so that they survive a power cut."""
        if os.name != "posix":  # a folder cannot be synced there
            return
        descriptor = os.open(self.ledger, os.O_RDONLY | _CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check_ledger(root: str, ledger: str) -> None:
    try:
        status = os.lstat(ledger)
    except (FileNotFoundError, NotADirectoryError):
        raise NoProofError(
            f"there is no proof in {root}", hint=f"holdfast proof init {root} creates one"
        ) from None
    except (OSError, ValueError) as error:
        raise NoProofError(f"{root} cannot be used: {error}", hint="name another folder") from error
    if stat.S_ISLNK(status.st_mode):
        # A program that reaches the ledger by another path would not find these settings.
        raise NoProofError(
            f"{ledger} is a symbolic link",
            hint="go to the proof that it belongs to, or make it a folder of its own",
        )
    if not stat.S_ISDIR(status.st_mode):
        raise NoProofError(f"{ledger} is not a folder", hint="name a folder with a proof in it")


def make_proof(
    root: str | os.PathLike[str], *, timeout: str = "", claim_files: bool = False
) -> None:
    """Create a proof in a new or empty folder, or complete one. Existing files stay unchanged."""
    path = os.path.abspath(os.fspath(root))
    if timeout:
        proof_codec.timeout_of(timeout, "the timeout")
    dialect.check_new(path)
    try:
        os.makedirs(path, exist_ok=True)
        if not os.path.lexists(os.path.join(path, proof_codec.LEDGER)):
            os.mkdir(os.path.join(path, proof_codec.LEDGER))
        folder = ProofFolder(path)
        if claim_files:
            os.makedirs(folder.claims, exist_ok=True)
        if not os.path.lexists(folder.meta):
            write_new(folder.meta, b'{"lock_timeout":"%s"}\n' % (timeout or "5m").encode())
    except OSError as error:
        raise told(error, "creating the proof") from error
    if timeout and folder.timeout() != proof_codec.timeout_of(timeout, "the timeout"):
        raise NoProofError(
            f"{folder.meta} already exists and sets another timeout",
            hint="change lock_timeout in it by hand",
        )


def read(path: str) -> tuple[bytes, os.stat_result]:
    """The content of a file, and its status at that moment."""
    descriptor = os.open(path, READ)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StoreCorruptError(f"{path} is not a file", hint="see holdfast proof verify")
        data = os.read(descriptor, _CHUNK_BYTES)
        if len(data) == _CHUNK_BYTES:
            parts = [data]
            while chunk := os.read(descriptor, 1 << 20):
                parts.append(chunk)
            data = b"".join(parts)
        return data, status
    finally:
        os.close(descriptor)


def write_new(
    path: str, data: bytes, *, mode: int = 0o644, fixed_mode: bool = False, sync: bool = False
) -> int:
    """Create a new file with all its content; returns its inode. If that fails nothing is left. A
    fixed mode is the same for every user, whatever the umask."""
    descriptor = os.open(path, NEW, mode)
    try:
        write_all(descriptor, data)
        if fixed_mode:
            os.fchmod(descriptor, mode)
        if sync:
            os.fsync(descriptor)
        return os.fstat(descriptor).st_ino
    except BaseException:
        _forget(path)
        raise
    finally:
        os.close(descriptor)


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


class Draft:
    """An event that is written and synced, but has no number yet."""

    __slots__ = ("_folder", "data", "inode", "path")

    def __init__(self, folder: ProofFolder, data: bytes, *, sync: bool) -> None:
        global _drafts
        _drafts += 1
        own = own_witness()
        name = f".event-{own.pid}-{own.start}-{_drafts}-{os.urandom(3).hex()}.tmp"
        self._folder = folder
        self.data: Final = data
        self.path: Final = f"{folder.ledger}/{name}"
        fixed = folder.dialect.has_fixed_mode
        self.inode: Final = write_new(self.path, data, fixed_mode=fixed, sync=sync)

    def publish(self, sequence: int) -> bool:
        """Give it a number; False if that number is taken. Never replaces anything."""
        try:
            os.link(self.path, self._folder.event(sequence))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            raise StoreError(
                f"the file system of {self._folder.ledger} has no hard links",
                hint="an event cannot be published safely there; move the proof to another disk",
            ) from error
        return True

    def is_at(self, sequence: int) -> bool:
        """Whether it still has that number."""
        try:
            return os.lstat(self._folder.event(sequence)).st_ino == self.inode
        except FileNotFoundError:
            return False

    def discard(self) -> None:
        """Remove its temporary name."""
        _forget(self.path)


def draft_owner(name: str) -> tuple[int, int] | None:
    """The pid and start time in the name of our draft; None for another program's."""
    parts = name.removeprefix(".event-").split("-")
    if len(parts) == 4 and all(part.isascii() and part.isdigit() for part in parts[:3]):
        return int(parts[0]), int(parts[1])
    return None
