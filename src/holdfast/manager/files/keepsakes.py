"""Keepsakes: the files that a grant may write, as they were before its work began.

.holdfast/runs/<holder>/before/        the copies
.holdfast/runs/<holder>/before.json    what each file was, one line for each; as long as it is
                                       there, the work can be undone
.holdfast/runs/<holder>/landing        the same list, once the work cannot be undone any more and
                                       its end is not whole yet
.holdfast/runs/<holder>/accepted       the same list, once nothing is left to do

Work that fails leaves its files as they were, to the byte, before another holder can take them.
That must also be true if every process involved is killed, so it cannot depend on any of them:

- A keepsake is on disk (fsync) before the first write that it would have to undo, in the ledger's
  folder, which no sandbox opens. Where the files are known, all of them are kept before the work
  begins (`keep`). Where each file is leased at the first write, it is kept between the lease and
  the write (`begin`, then `add`); a line that was cut off by a crash is one whose write never came.
- The grant's holder carries the mark `HOLDFAST_KEPT=<holder>`. Whether an owner is dead is asked
  inside each transaction, and an owner whose keepsake is still there does not count as dead (see
  `settling`). So the grant of killed work stays held: no request can take its files.
- The files are put back first, and the keepsake is removed last. From then on the grant is that of
  an ordinary dead owner, and the next request that meets it reaps it. A crash in between leaves
  both, and the next one begins again: putting back twice is harmless.
- Any request that is refused because of such a grant puts the files back itself and asks again
  (`settle`). No daemon is needed, and no command has to be run first.
- Work whose end takes several steps is accepted first: one rename, after which nothing undoes it
  (`accept`). Whoever finds it cut off later sees from the new name that it is to be finished. If
  that must happen before others have the files, as with a commit, the grant of a dead owner stays
  held until then (`lands`, `landed`), and a request that meets it is refused.
- A finished edit is never undone: the item is ended in the ledger first and the keepsake goes
  after that, both under the keepsake's lock (a flock on its folder, which ends with its process).
  `settle` takes the same lock and then looks whether the grant is still held; the grant's id is
  never used twice, so a keepsake that is met belongs to that grant.

A file is written in place if it is still the same inode, so its other hard links get their content
back too; otherwise the file is made anew, with its content, mode and extended attributes, and takes
its name in one step. A file with several names is copied once, before the first write through any
of them. Links are put back as links and never followed, neither in the last place nor in a folder
on the way. Files that were not there are removed, and folders that were not there too, if they are
empty. A folder that was there is made again, with its mode, owner and attributes, if it was kept
before its first change. The time of change is that of putting back, as with git: with the old one,
a build tool would take what was built from half an edit for up to date.

A folder that an agent has closed to its owner is opened on the way. What fails because something
else is still in the way is tried again as long as there is progress.

Not promised: that a program which reads without asking never sees half of a file; the owner and
group of a file that was replaced, unless root puts it back; what `unlock --force` takes from a
grant (a person's decision: the files stay as they are then).
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress

from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.core.model import WRITE, Grant, Holder
from holdfast.manager.files.file_restore import FOLDER as FOLDER_ENTRY
from holdfast.manager.files.file_restore import IN_FOLDER, NONE, Copies
from holdfast.manager.files.replace_file import replace_file
from holdfast.manager.files.unfinished_edits import FOLDER, LANDING, LIST, MARK
from holdfast.manager.owners.liveness import is_dead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from holdfast.core.model import ConflictInfo
    from holdfast.manager.ledger import Ledger

    #: Whether the holder of a keepsake still has what has this key.
    IsHeld = Callable[[str], bool]


#: So many files with several names are held open.
_OPEN_MAX = 200


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
                keepsake.put_back(is_held_by(manager, holder))
                found = True
    return found


def is_held_by(manager: Ledger, name: str) -> IsHeld:
    """Whether the holder of that name, which is also that of its keepsake, still has a key. What a
    person took away from it is not put back, and what it gave back itself is another's now."""
    from holdfast.manager.ledger import call_deadline

    def is_held(key: str) -> bool:
        with manager.store.view(deadline=call_deadline(manager.end)) as view:
            grants = [view.grant(id) for _key, mode, id in view.scopes([key], []) if mode == WRITE]
        return any(isinstance(one, Grant) and one.holder.id == name for one in grants)

    return is_held


def _is_left_behind(manager: Ledger, id: str, mark: str) -> bool:
    from holdfast.manager.ledger import call_deadline

    with manager.store.view(deadline=call_deadline(manager.end)) as view:
        grant = view.grant(id)
        if not isinstance(grant, Grant) or mark not in grant.holder.marks:
            return False
        # Work that is tried again has a keepsake of the same name: that of a living owner is not to
        # be touched, though a grant of one before it was met.
        holders = {one.holder for one in view.grants() if mark in one.holder.marks}
    return all(
        one.witness is not None and is_dead(one.witness, one.marks) is True for one in holders
    )


class Keepsake:
    """The keepsake of one holder. Everything that changes it, or the files, wants `alone`, but for
    `add` and `add_folder`: these are for the owner, and while it lives no other process comes."""

    def __init__(self, root: str, name: str) -> None:
        self._root = root
        self.folder = f"{root}/{FOLDER}/{name}"
        self._list = f"{self.folder}/{LIST}"
        self._landing = f"{self.folder}/{LANDING}"
        self._accepted = f"{self.folder}/accepted"
        self._before = f"{self.folder}/before"
        self._copies = Copies(root, self._before, f"{self.folder}/left")
        self._count = 0
        #: The first name under which a file with several was kept, and its entry: by its inode,
        #: which belongs to no other file as long as it is open.
        self._linked: dict[tuple[int, int], tuple[str, dict[str, Any], _Open]] = {}

    @property
    def is_there(self) -> bool:
        """Whether files are kept."""
        return os.path.lexists(self._list)

    @property
    def is_accepted(self) -> bool:
        """Whether the work cannot be undone any more."""
        return os.path.lexists(self._landing) or os.path.lexists(self._accepted)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process or thread keeps, puts back or forgets meanwhile."""
        import fcntl  # not everywhere

        os.makedirs(self.folder, exist_ok=True)
        fd = os.open(self.folder, IN_FOLDER)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    # Keeping

    def keep(self, paths: Iterable[str]) -> None:
        """Keep these files as they are now, in place of what was kept before. On disk when it
        returns. Raises KeepsakeError."""
        path = ""
        try:
            self._clear()
            kept: dict[str, dict[str, Any]] = {}
            for path in paths:
                for at in _places(self._root, path):
                    if at not in kept:
                        kept[at] = self._copies.copy(at, len(kept))
            self._publish(kept)
        except OSError as error:
            self._forget()
            raise KeepsakeError(
                f"{path} cannot be copied before the work begins: {error.strerror or error}",
                hint="the work has not begun; make the file readable, or free some disk space",
                paths=[path],
            ) from error

    def begin(self) -> None:
        """Nothing is kept yet: each file is, before it is written. Raises KeepsakeError."""
        try:
            self._clear()
            with open(self._list, "xb"):
                pass  # of an empty list only the name has to last
            self._sync_names()
        except OSError as error:
            self._forget()
            raise KeepsakeError(
                f"no copies can be written to {self.folder}: {error.strerror or error}",
                hint="the work has not begun; free some disk space",
                paths=[],
            ) from error

    def add(self, path: str, key: str, held: Collection[str] | None = None) -> None:
        """Keep one more file, which the holder has leased under this key and not written yet. On
        disk when it returns. Raises OSError; then it is not kept, and must not be written.

        `held` are the paths that the holder still has, if that may have changed: what it gave back,
        another may have written since."""
        at = self._inner(path)
        self._append({at: {**self._copy(path, at, held), "key": key}}, sync=True)

    def _copy(self, path: str, at: str, held: Collection[str] | None) -> dict[str, Any]:
        """What a file was before it was written first, under whichever of its names."""
        inode = _inode(os.path.join(self._root, at))
        if inode in self._linked:
            first, was, _open = self._linked[inode]
            if first != path and (held is None or first in held):
                return was
        self._count += 1
        was = self._copies.copy(at, self._count)
        if was.get("linked") and hasattr(os, "O_PATH") and len(self._linked) < _OPEN_MAX:
            self._linked[inode] = path, was, _Open(os.path.join(self._root, at))
        return was

    def add_folder(self, path: str) -> None:
        """A folder was made that was not there. Raises OSError."""
        self._append({self._inner(path): {"kind": FOLDER_ENTRY}}, sync=False)

    def keep_folders(self, paths: Iterable[str]) -> None:
        """Keep folders as they are now, before their first change. On disk when it returns. Raises
        OSError."""
        inner = [self._inner(path) for path in paths]
        self._append({at: self._copies.look_at_folder(at) for at in inner}, sync=True)

    def _inner(self, path: str) -> str:
        start = f"{self._root.rstrip('/')}/"
        return path[len(start) :] if path.startswith(start) else path

    def _append(self, entries: dict[str, dict[str, Any]], *, sync: bool) -> None:
        line = b"".join(_line(at, was) for at, was in entries.items())
        fd = os.open(self._list, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            try:
                while line:
                    line = line[os.write(fd, line) :]
                if sync:
                    os.fdatasync(fd)
            except OSError:
                os.ftruncate(fd, size)  # a line that is cut off must stay the last one
                raise
        finally:
            os.close(fd)

    def _clear(self) -> None:
        import shutil

        self._forget()
        for path in (self._landing, self._accepted):
            with suppress(FileNotFoundError):
                os.unlink(path)
        shutil.rmtree(f"{self.folder}/left", ignore_errors=True)
        self._count = 0
        self._linked.clear()
        os.makedirs(self._before)

    def _publish(self, kept: dict[str, dict[str, Any]]) -> None:
        _sync(self._before)
        lines = b"".join(_line(at, was) for at, was in kept.items())
        replace_file(self._list, lines, durable=True, alone=True)
        _sync(os.path.dirname(self.folder))

    def _sync_names(self) -> None:
        """From now on the list is found also after a power cut."""
        _sync(self.folder)
        _sync(os.path.dirname(self.folder))

    # What is kept

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """What is kept: each path, with what `file_restore` says of it. A file that was given back
        and leased anew is kept as it was the last time. Without the folders that were there: a file
        may have come to the name of one. Raises KeepsakeError."""
        found: dict[str, dict[str, Any]] = {}
        for at, said in self._lines():
            if said["kind"] != FOLDER_ENTRY or ("mode" not in said and at not in found):
                found[at] = said
        return list(found.items())

    def folders(self) -> dict[str, dict[str, Any]]:
        """The folders that were there before they were changed first. Raises KeepsakeError."""
        found: dict[str, dict[str, Any]] = {}
        for at, said in self._lines():
            if said["kind"] == FOLDER_ENTRY and "mode" in said:
                found.setdefault(at, said)
        return found

    def _lines(self) -> list[tuple[str, dict[str, Any]]]:
        try:
            with open(self._list, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return []  # nothing had begun
        found = []
        try:
            for line in lines[:-1]:  # what follows the last end of a line was cut off
                said: dict[str, Any] = codec.loads(line.decode("utf-8", "surrogateescape"))
                at, _kind = said.pop("at"), said["kind"]
                found.append((at, said))
        except (ValueError, KeyError, AttributeError) as error:
            raise KeepsakeError(
                f"{self._list} is damaged: {error}",
                hint="the copies are in the folder before, next to it: restore them by hand, then "
                "remove both",
                paths=[],
            ) from error
        return found

    def copy_of(self, was: dict[str, Any]) -> str:
        """The file with the content that another had, by its entry."""
        return f"{self._before}/{was['copy']}"

    # Putting back

    def put_back(self, is_held: IsHeld | None = None) -> list[str]:
        """Put the files back as they were, and forget how that was. Which of them had changed; what
        they had become is in the folder `left`. With `is_held` only what the holder still has.
        Raises KeepsakeError; then all is still kept."""
        kept = [
            (at, was) for at, was in self.entries()
            if is_held is None or "key" not in was or is_held(was["key"])
        ]  # fmt: skip
        folders = self.folders()
        # What was made goes first: a file may stand where there was a folder with other files.
        # What became of one name of a file is put right where the file still is, if it is anywhere.
        made_first = sorted(kept, key=lambda entry: (
            entry[1]["kind"] != NONE,
            "linked" in entry[1] and not self._copies.is_in_place(*entry),
        ))  # fmt: skip
        try:
            changed = self._restore(made_first)
            self._copies.remove_folders(
                path for at, was in kept
                for path in (at, *was.get("made", ()))
                if path not in folders and (path != at or was["kind"] == FOLDER_ENTRY)
            )  # fmt: skip
            # The innermost first, and after all files: a folder may be closed again by its mode.
            self._restore(sorted(folders.items(), key=lambda entry: -len(entry[0])))
        finally:
            self._copies.close_again(folders)
        self._forget()
        return [at for at, _was in kept if at in changed]

    def _restore(self, kept: list[tuple[str, dict[str, Any]]]) -> set[str]:
        """Make all of them what they were. Which had changed. Raises KeepsakeError."""
        changed: set[str] = set()
        left = kept
        while left:
            tried, left, why = left, [], ""
            for at, was in tried:
                try:
                    if self._copies.put_back(at, was):
                        changed.add(at)
                except OSError as error:
                    left.append((at, was))
                    why = why or (error.strerror or str(error))
            if len(left) == len(tried):  # nothing was in the way that is gone by now
                failed = [at for at, _was in left]
                raise KeepsakeError(
                    f"{', '.join(failed)} could not be restored: {why}",
                    hint="the files stay locked until that succeeds: fix the cause, then run "
                    "holdfast dispatch --resume",
                    paths=failed,
                )
        return changed

    def accept(self, *, lands: bool = False) -> bool:
        """From now on the work cannot be undone. On disk when it returns. With `lands` its files
        are held until `landed`. False if another process has put them back already."""
        import shutil

        if not self.is_there:
            return self.is_accepted
        os.replace(self._list, self._landing if lands else self._accepted)
        _sync(self.folder)
        shutil.rmtree(self._before, ignore_errors=True)
        return True

    def landed(self) -> None:
        """Work that was accepted has come to its end. If it was cut off meanwhile, the copies are
        still there."""
        import shutil

        with suppress(FileNotFoundError):
            os.replace(self._landing, self._accepted)
        shutil.rmtree(self._before, ignore_errors=True)

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


def _line(at: str, was: dict[str, Any]) -> bytes:
    return codec.dumps({"at": at, **was}).encode("utf-8", "surrogateescape") + b"\n"


class _Open:
    """A file that stays itself: while it is open, its inode is not given to another."""

    __slots__ = ("fd",)

    def __init__(self, path: str) -> None:
        self.fd = -1
        self.fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


def _inode(path: str) -> tuple[int, int]:
    try:
        now = os.lstat(path)
    except OSError:
        return 0, 0  # no file has this one
    return now.st_dev, now.st_ino


def _places(root: str, path: str) -> Iterator[str]:
    """What a path means, each relative to the root if it is in there: its own name, with the links
    in its folders followed, and if that is a link what it leads to."""
    full = os.path.normpath(os.path.join(root, path))
    here = os.path.join(os.path.realpath(os.path.dirname(full)), os.path.basename(full))
    found = [here, os.path.realpath(here)] if os.path.islink(here) else [here]
    real = f"{os.path.realpath(root).rstrip('/')}/"
    for one in found:
        yield one[len(real) :] if one.startswith(real) else one


def _sync(folder: str) -> None:
    fd = os.open(folder, IN_FOLDER)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
