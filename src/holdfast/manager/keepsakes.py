"""Keepsakes: the files that a grant may write, as they were before its work began.

.holdfast/runs/<holder>/before/        the copies
.holdfast/runs/<holder>/before.json    what each file was; its presence says that the copies are
                                       whole

Work that fails leaves its files as they were, to the byte, before another holder can take them.
That must also be true if every process involved is killed, so it cannot depend on any of them:

- A keepsake is complete and on disk (fsync) before the work begins, in the ledger's folder, which
  no sandbox opens.
- The grant's holder carries the mark `HOLDFAST_KEPT=<holder>`. Whether an owner is dead is asked
  inside each transaction, and an owner whose keepsake is still there does not count as dead (see
  `settling`). So the grant of killed work stays held: no request can take its files.
- The files are put back first, and the keepsake is removed last. From then on the grant is that of
  an ordinary dead owner, and the next request that meets it reaps it. A crash in between leaves
  both, and the next one begins again: putting back twice is harmless.
- Any request that is refused because of such a grant puts the files back itself and asks again
  (`settle`). No daemon is needed, and no command has to be run first.
- A finished edit is never undone: the item is ended in the ledger first and the keepsake goes
  after that, both under the keepsake's lock (a flock on its folder, which ends with its process).
  `settle` takes the same lock and then looks whether the grant is still held; the grant's id is
  never used twice, so a keepsake that is met belongs to that grant.

A file is written in place if it is still the same inode, so its other hard links get their content
back too; otherwise what has its name is removed and the file is made anew, with its content, mode
and extended attributes. Links are put back as links and never followed, neither in the last place
nor in a folder on the way. Files that were not there are removed, and folders that were not there
too, if they are empty. The time of change is that of putting back, as with git: with the old one, a
build tool would take what was built from half an edit for up to date.

Not promised: that a program which reads without asking never sees half of a file; the owner and
group of a file that was replaced, unless root puts it back; what `unlock --force` takes from a
grant (a person's decision: the files stay as they are then).
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress

from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Grant, Holder
from holdfast.manager.liveness import is_dead
from holdfast.manager.settling import FOLDER, LIST, MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from holdfast.core.model import ConflictInfo
    from holdfast.manager.ledger import Ledger

FILE, LINK, NONE = "file", "link", "none"
_CHUNK = 1 << 20
_IN_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class KeepsakeError(HoldfastError):
    """Files could not be kept, or not be put back. The field `paths` says which."""

    code = "E_KEEPSAKE"


def marked(holder: Holder) -> Holder:
    """The same holder, whose grants are held until its files were put back."""
    return Holder(
        id=holder.id, key=holder.key, witness=holder.witness,
        marks=(*holder.marks, f"{MARK}{holder.id}"), user=holder.user, client=holder.client,
        session=holder.session, agent=holder.agent, parent=holder.parent,
    )  # fmt: skip


def is_marked(holder: Holder) -> bool:
    """Whether a holder's files are kept while it works."""
    return any(mark.startswith(MARK) for mark in holder.marks)


def settle(manager: Ledger, conflicts: Iterable[ConflictInfo]) -> bool:
    """Put back the files of dead owners that block a request. True if it is worth asking again.
    What cannot be put back stays held."""
    if manager.tree is None:
        return False
    found = False
    for id, holder in dict.fromkeys((one.grant_id, one.holder) for one in conflicts):
        keepsake = Keepsake(manager.tree.root, holder)
        if "/" in holder or not keepsake.is_there:
            continue
        # It stays held as well if that is not ours to do, as with files of another user.
        with suppress(KeepsakeError, OSError), keepsake.alone():
            if _is_left_behind(manager, id, f"{MARK}{holder}"):
                keepsake.put_back()
                found = True
    return found


def _is_left_behind(manager: Ledger, id: str, mark: str) -> bool:
    from time import monotonic

    with manager.store.view(deadline=monotonic() + 10) as view:
        grant = view.grant(id)
    if not isinstance(grant, Grant) or mark not in grant.holder.marks:
        return False
    holder = grant.holder
    return holder.witness is not None and is_dead(holder.witness, holder.marks) is True


class Keepsake:
    """The keepsake of one holder. Everything that changes it, or the files, wants `alone`."""

    def __init__(self, root: str, name: str) -> None:
        self._root = root
        self.folder = f"{root}/{FOLDER}/{name}"
        self._list = f"{self.folder}/{LIST}"
        self._before = f"{self.folder}/before"

    @property
    def is_there(self) -> bool:
        """Whether files are kept."""
        return os.path.lexists(self._list)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process or thread keeps, puts back or forgets meanwhile."""
        import fcntl  # not everywhere

        os.makedirs(self.folder, exist_ok=True)
        fd = os.open(self.folder, _IN_FOLDER)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def keep(self, paths: Iterable[str]) -> None:
        """Keep these files as they are now, in place of what was kept before. On disk when it
        returns. Raises KeepsakeError."""
        import shutil

        self._forget()
        shutil.rmtree(f"{self.folder}/left", ignore_errors=True)
        path = ""
        try:
            os.makedirs(self._before)
            kept: dict[str, dict[str, Any]] = {}
            for path in paths:
                for at in _places(self._root, path):
                    if at not in kept:
                        kept[at] = self._copied(at, len(kept))
            self._publish(kept)
        except OSError as error:
            self._forget()
            raise KeepsakeError(
                f"{path} cannot be kept as it is: {error.strerror or error}",
                hint="its merge has not begun; make the file readable, or make room on the disk",
                paths=[path],
            ) from error

    def put_back(self) -> list[str]:
        """Put the files back as they were, and forget how that was. Which of them had changed; what
        they had become is in the folder `left`. Raises KeepsakeError; then all is still kept."""
        kept = self._kept()
        changed, failed, why = [], [], ""
        for at, was in kept.items():
            try:
                if self._restore(at, was):
                    changed.append(at)
            except OSError as error:
                failed.append(at)
                why = why or (error.strerror or str(error))
        if failed:
            raise KeepsakeError(
                f"{', '.join(failed)} could not be put back: {why}",
                hint="it stays locked until that works: see to it, then holdfast dispatch --resume",
                paths=failed,
            )
        self._forget()
        return changed

    def forget(self) -> None:
        """The files as they were are not needed any more."""
        if self.is_there:
            self._forget()

    def _forget(self) -> None:
        import shutil

        with suppress(FileNotFoundError):
            os.unlink(self._list)
            _sync(self.folder)  # a keepsake that came back after a power cut would undo later work
        shutil.rmtree(self._before, ignore_errors=True)

    # Keeping

    def _copied(self, at: str, number: int) -> dict[str, Any]:
        full = os.path.join(self._root, at)
        try:
            now = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            return {"kind": NONE, "made": _missing_folders(self._root, at)}
        if stat.S_ISLNK(now.st_mode):
            return {"kind": LINK, "to": os.readlink(full)}
        if not stat.S_ISREG(now.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", full)
        source = os.open(full, os.O_RDONLY | _NO_LINK)
        try:
            copy = f"{self._before}/{number}"
            target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                _pour(source, target)
                attributes = _attributes(source)
                os.fsync(target)
            finally:
                os.close(target)
        finally:
            os.close(source)
        return {
            "kind": FILE, "copy": str(number), "mode": stat.S_IMODE(now.st_mode),
            "inode": now.st_ino, "owner": [now.st_uid, now.st_gid], "attributes": attributes,
        }  # fmt: skip

    def _publish(self, kept: dict[str, dict[str, Any]]) -> None:
        new = f"{self._list}.new"
        with open(new, "wb") as file:
            file.write(codec.dumps(kept).encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        _sync(self._before)
        os.replace(new, self._list)
        _sync(self.folder)
        _sync(os.path.dirname(self.folder))

    def _kept(self) -> dict[str, dict[str, Any]]:
        try:
            with open(self._list, "rb") as file:
                found: dict[str, dict[str, Any]] = codec.loads(
                    file.read().decode("utf-8", "surrogateescape")
                )
        except FileNotFoundError:
            return {}  # nothing had begun
        except ValueError as error:
            raise KeepsakeError(
                f"{self._list} is damaged: {error}",
                hint="the copies are in the folder before, beside it: put them back by hand, and "
                "remove both",
                paths=[],
            ) from error
        return found

    # Putting back

    def _restore(self, at: str, was: dict[str, Any]) -> bool:
        folder = _folder_of(self._root, at, make=was["kind"] != NONE)
        is_changed = folder >= 0 and self._restore_in(folder, at, was)
        for made in was.get("made", ()):
            with suppress(OSError):  # another file came to be in it, or it is gone already
                os.rmdir(os.path.join(self._root, made))
        return is_changed

    def _restore_in(self, folder: int, at: str, was: dict[str, Any]) -> bool:
        try:
            name = os.path.basename(at)
            now = _look(name, folder)
            if was["kind"] == FILE:
                is_changed = self._restore_file(at, was, folder, now)
            elif was["kind"] == LINK:
                is_changed = self._restore_link(at, was["to"], folder, now)
            else:
                is_changed = now is not None
                if now is not None:
                    self._clear(at, folder, now)
            if is_changed:
                os.fsync(folder)
            return is_changed
        finally:
            os.close(folder)

    def _restore_link(self, at: str, to: str, folder: int, now: os.stat_result | None) -> bool:
        name = os.path.basename(at)
        if now is not None:
            if stat.S_ISLNK(now.st_mode) and os.readlink(name, dir_fd=folder) == to:
                return False
            self._clear(at, folder, now)
        os.symlink(to, name, dir_fd=folder)
        return True

    def _restore_file(
        self, at: str, was: dict[str, Any], folder: int, now: os.stat_result | None
    ) -> bool:
        name, copy = os.path.basename(at), f"{self._before}/{was['copy']}"
        is_same = now is not None and stat.S_ISREG(now.st_mode) and now.st_ino == was["inode"]
        if now is not None and is_same:
            if _has_content(name, folder, now, copy):
                has_mode = stat.S_IMODE(now.st_mode) == was["mode"]
                if not has_mode:
                    self._adjust(name, folder, was)
                return not has_mode
            self._set_aside(at, folder)
        elif now is not None:
            self._clear(at, folder, now)
        target = _open_to_write(name, folder, is_same)
        try:
            source = os.open(copy, os.O_RDONLY | _NO_LINK)
            try:
                os.ftruncate(target, 0)
                _pour(source, target)
            finally:
                os.close(source)
            os.fsync(target)
        finally:
            os.close(target)
        self._adjust(name, folder, was)
        return True

    def _adjust(self, name: str, folder: int, was: dict[str, Any]) -> None:
        """What else belongs to a file whose content is right."""
        fd = _opened(name, folder, os.O_RDONLY)
        try:
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                os.fchown(fd, *was["owner"])
            for attribute, value in was["attributes"].items():
                with suppress(OSError):  # one that only the system may set
                    os.setxattr(fd, attribute, bytes.fromhex(value))
            os.fchmod(fd, was["mode"])
            os.fsync(fd)
        finally:
            os.close(fd)

    def _clear(self, at: str, folder: int, now: os.stat_result) -> None:
        """Remove what has a file's name. A folder that an agent put there is covered by its grant,
        with all that is in it."""
        import shutil

        name = os.path.basename(at)
        if stat.S_ISDIR(now.st_mode):
            shutil.rmtree(name, dir_fd=folder)
            return
        if stat.S_ISREG(now.st_mode):
            self._set_aside(at, folder)
        os.unlink(name, dir_fd=folder)

    def _set_aside(self, at: str, folder: int) -> None:
        """Leave a person a copy of what an agent wrote. If that does not work, it is not worth
        failing for."""
        with suppress(OSError):
            place = f"{self.folder}/left/{at.lstrip('/')}"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            source = _opened(os.path.basename(at), folder, os.O_RDONLY)
            try:
                target = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_LINK, 0o600)
                try:
                    _pour(source, target)
                finally:
                    os.close(target)
            finally:
                os.close(source)


def _places(root: str, path: str) -> Iterator[str]:
    """What a path means, each relative to the root if it is in there: its own name, with the links
    in its folders followed, and if that is a link what it leads to."""
    full = os.path.normpath(os.path.join(root, path))
    here = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
    found = [here, os.path.realpath(here)] if os.path.islink(here) else [here]
    real = f"{os.path.realpath(root).rstrip('/')}/"
    for one in found:
        yield one[len(real) :] if one.startswith(real) else one


def _missing_folders(root: str, at: str) -> list[str]:
    """The folders of a file that are not there, the innermost first."""
    found = []
    folder = os.path.dirname(at)
    while folder not in ("", "/") and not os.path.lexists(os.path.join(root, folder)):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _folder_of(root: str, at: str, *, make: bool) -> int:
    """The folder of a file, opened without following a link below the root; -1 if it is not there
    and not to be made."""
    fd = os.open("/" if os.path.isabs(at) else root, _IN_FOLDER)
    for part in os.path.dirname(at).split("/"):
        if not part:
            continue
        try:
            try:
                inner = os.open(part, _IN_FOLDER | _NO_LINK, dir_fd=fd)
            except FileNotFoundError:
                if not make:
                    return -1
                os.mkdir(part, dir_fd=fd)
                inner = os.open(part, _IN_FOLDER | _NO_LINK, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _look(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _has_content(name: str, folder: int, now: os.stat_result, copy: str) -> bool:
    if now.st_size != os.stat(copy).st_size:
        return False
    one = _opened(name, folder, os.O_RDONLY)
    try:
        other = os.open(copy, os.O_RDONLY | _NO_LINK)
        try:
            while True:
                left, right = os.read(one, _CHUNK), os.read(other, _CHUNK)
                if left != right:
                    return False
                if not left:
                    return True
        finally:
            os.close(other)
    finally:
        os.close(one)


def _opened(name: str, folder: int, flags: int) -> int:
    """A file of ours, also one that an agent has closed to its owner."""
    try:
        return os.open(name, flags | _NO_LINK, dir_fd=folder)
    except PermissionError:
        os.chmod(name, 0o600, dir_fd=folder)
        return os.open(name, flags | _NO_LINK, dir_fd=folder)


def _open_to_write(name: str, folder: int, is_same: bool) -> int:
    if is_same:
        try:
            return _opened(name, folder, os.O_WRONLY)
        except OSError as error:
            if error.errno != errno.ETXTBSY:  # a program that is being run cannot be written
                raise
            os.unlink(name, dir_fd=folder)
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)


def _attributes(fd: int) -> dict[str, str]:
    if not hasattr(os, "listxattr"):
        return {}
    try:
        return {name: os.getxattr(fd, name).hex() for name in os.listxattr(fd)}
    except OSError:  # a file system without them
        return {}


def _pour(source: int, target: int) -> None:
    while data := os.read(source, _CHUNK):
        while data:
            data = data[os.write(target, data) :]


def _sync(folder: str) -> None:
    fd = os.open(folder, _IN_FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
