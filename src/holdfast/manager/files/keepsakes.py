"""Keepsakes: copies of the files that a grant may write, from before its work began.

.holdfast/runs/<holder>/before/        the copies
.holdfast/runs/<holder>/before.json    the record of each file, one per line; while it exists, the
                                       work can be undone
.holdfast/runs/<holder>/landing        the same list, once the work can no longer be undone and
                                       its final steps are incomplete
.holdfast/runs/<holder>/accepted       the same list, once nothing is left to do
.holdfast/runs/<holder>/not-restored   the same list, if another holder had some of the files before
                                       they could be restored (see `ended_edits`)

Failed work leaves its files as they were, to the byte, before another holder can lock them. That
must hold even if every process involved is killed, so it depends on none of them:

- A keepsake is on disk (fsync) before the first write that it would have to undo, in the ledger's
  folder, which no sandbox makes writable. Where the files are known, all are copied before the work
  begins (`keep`). Where each file is leased at the first write, it is copied between the lease and
  the write (`begin`, then `add`); a truncated last line is one whose write never happened.
- The grant's holder has the mark `HOLDFAST_KEPT=<holder>`. Each transaction checks whether an owner
  is dead, and an owner with an existing keepsake does not count as dead (see `unfinished_edits`).
  So the grant of killed work stays held: no request can get its files.
- The files are restored first, and the keepsake is removed last. From then on, the grant is that of
  an ordinary dead owner, and the next request that conflicts with it reaps it. A crash in between
  leaves both, and the next process starts again: restoring twice is harmless.
- A request that is refused because of such a grant restores the files itself and is then repeated
  (`settle`). There is no daemon, and no command to run first.
- Work with several final steps is accepted first: one rename, after which nothing undoes it
  (`accept`). A process that finds it interrupted later sees from the new name that it must be
  completed. If that must happen before other holders get the files, as with a commit, the grant of
  a dead owner stays held until then (`lands`, `landed`), and conflicting requests are refused.
- A finished edit is never undone: the item is ended in the ledger first, and the keepsake removed
  after that, both under the keepsake's lock (a flock on its folder, which ends with its process).
  `settle` takes the same lock and then checks whether the grant is still held; the grant's id is
  never reused, so an existing keepsake belongs to that grant.

A file is written in place if it still has the same inode, so that its other hard links get their
content back too; otherwise a new file with its content, mode and extended attributes is renamed
over its name. A file with several names is copied once, before the first write through any of them.
Links are restored as links and never followed, neither as the last component nor in a folder on the
way. Files that did not exist are removed, and so are folders that did not exist, if they are empty.
A folder that existed is created again, with its mode, owner and attributes, if it was recorded
before its first change. The time of change is that of the restore, as with git: with the original
time, a build tool would consider results from half an edit up to date.

A folder that an agent has made inaccessible to its owner is opened on the way. A restore that fails
because another file is still in the way is retried as long as there is progress.

Not promised: that a program which reads without a lock never sees half a file; the owner and group
of a replaced file, unless root restores it; files that `unlock --force` takes from a grant (a
person's decision: they stay as they are then).
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

    #: Whether the holder of a keepsake still holds this key.
    IsHeld = Callable[[str], bool]


#: At most this many files with several names are kept open.
_OPEN_MAX = 200
#: The list of a keepsake with files that were not restored, because another holder had them since.
NOT_RESTORED = "not-restored"
_LOOK_SECONDS = 0.01

#: The keepsakes that a thread of this process keeps for itself: folder, process, thread.
_alone: set[tuple[str, int, int]] = set()


class KeepsakeError(HoldfastError):
    """Files could not be copied, or not restored. The field `paths` lists them."""

    code = "E_KEEPSAKE"


def marked(holder: Holder) -> Holder:
    """The same holder, marked so that its grants stay held until its files are restored."""
    return Holder(
        id=holder.id, key=holder.key, witness=holder.witness,
        marks=(*holder.marks, f"{MARK}{holder.id}"), user=holder.user, client=holder.client,
        session=holder.session, agent=holder.agent, parent=holder.parent,
    )  # fmt: skip


def is_marked(holder: Holder) -> bool:
    """Whether a holder has a keepsake while it works."""
    return any(mark.startswith(MARK) for mark in holder.marks)


def settle(manager: Ledger, conflicts: Iterable[ConflictInfo]) -> bool:
    """Restore the files of dead owners that conflict with a request. True if the request should be
    repeated. Files that cannot be restored stay held."""
    if manager.tree is None:
        return False
    found = False
    for id, holder in dict.fromkeys((one.grant_id, one.holder) for one in conflicts):
        keepsake = Keepsake(manager.tree.root, holder)
        if "/" in holder or not keepsake.is_there:
            continue
        # It also stays held if we lack the permission, as with files of another user.
        with suppress(KeepsakeError, OSError), keepsake.alone():
            if _is_left_behind(manager, id, f"{MARK}{holder}"):
                found = put_back(manager, keepsake, holder) is not None or found
    return found


def put_back(
    manager: Ledger, keepsake: Keepsake, name: str, *, by_owner: bool = False
) -> list[str] | None:
    """Restore the files of a holder whose work is over, and that it still holds. On a ledger that
    several hosts share, its leases may have ended by time; there also those that no other holder
    could write since. None if its process may still write; `by_owner` says that it may not, and
    that its leases stay. Raises KeepsakeError. See `ended_edits`."""
    if manager.store.lease is None:
        return keepsake.put_back(is_held_by(manager, name))
    from holdfast.manager.files import ended_edits

    store: Any = manager.store
    return ended_edits.put_back(store, keepsake, name, by_owner=by_owner)


def is_held_by(manager: Ledger, name: str) -> IsHeld:
    """Whether the holder of that name, which is also its keepsake's, still holds a key. Files that
    a person took from it are not restored, and files that it released may be another holder's."""
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
        # Retried work has a keepsake of the same name. That of a live owner must not be touched,
        # even if the conflict was with a grant of an earlier attempt.
        holders = {one.holder for one in view.grants() if mark in one.holder.marks}
    # Where hosts share the ledger, a lease of another boot may be that of another machine.
    is_shared = manager.store.lease is not None
    return all(
        one.witness is not None and is_dead(one.witness, one.marks, is_shared=is_shared) is True
        for one in holders
    )


class Keepsake:
    """The keepsake of one holder. Every change of it, or of the files, requires `alone`, except
    `add` and `add_folder`: only the owner calls these, and while it lives no other process
    interferes."""

    def __init__(self, root: str, name: str) -> None:
        self._root = root
        self.folder = f"{root}/{FOLDER}/{name}"
        self._list = f"{self.folder}/{LIST}"
        self._landing = f"{self.folder}/{LANDING}"
        self._accepted = f"{self.folder}/accepted"
        self._before = f"{self.folder}/before"
        self._copies = Copies(root, self._before, f"{self.folder}/left")
        self._count = 0
        #: For a file with several names, by its inode: the first recorded name, its entry, and the
        #: open file, which keeps the inode from being reused.
        self._linked: dict[tuple[int, int], tuple[str, dict[str, Any], _Open]] = {}

    @property
    def is_there(self) -> bool:
        """Whether there is a keepsake."""
        return os.path.lexists(self._list)

    @property
    def is_accepted(self) -> bool:
        """Whether the work can no longer be undone."""
        return os.path.lexists(self._landing) or os.path.lexists(self._accepted)

    def is_alone(self) -> bool:
        """Whether this thread is `alone` with it."""
        return self._me() in _alone

    def _me(self) -> tuple[str, int, int]:
        from threading import get_ident

        return self.folder, os.getpid(), get_ident()

    @contextmanager
    def alone(self, deadline: float | None = None) -> Iterator[bool]:
        """Keep other processes and threads from changing this keepsake meanwhile. With a deadline,
        false if another one still keeps us from it by then."""
        import fcntl  # not everywhere

        os.makedirs(self.folder, exist_ok=True)
        me = self._me()
        fd = os.open(self.folder, IN_FOLDER)
        try:
            is_ours = True
            if deadline is None:
                fcntl.flock(fd, fcntl.LOCK_EX)
            else:
                is_ours = _locked_by(fd, deadline)
            if is_ours:
                _alone.add(me)
            yield is_ours
        finally:
            _alone.discard(me)
            os.close(fd)

    # Keeping

    def keep(self, paths: Iterable[str]) -> None:
        """Copy these files as they are now, replacing any earlier keepsake. On disk when it
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
        """Begin with an empty list, to which each file is added before its first write. Raises
        KeepsakeError."""
        try:
            self._clear()
            with open(self._list, "xb"):
                pass  # an empty list is durable once its name is
            self._sync_names()
        except OSError as error:
            self._forget()
            raise KeepsakeError(
                f"no copies can be written to {self.folder}: {error.strerror or error}",
                hint="the work has not begun; free some disk space",
                paths=[],
            ) from error

    def add(self, path: str, key: str, held: Collection[str] | None = None) -> None:
        """Copy one more file, which the holder has leased under this key and not written yet. On
        disk when it returns. Raises OSError; then there is no copy, and it must not be written.

        `held` are the paths that the holder still holds, if that may have changed: another holder
        may have written the files that it released."""
        at = self._inner(path)
        self._append({at: {**self._copy(path, at, held), "key": key}}, sync=True)

    def _copy(self, path: str, at: str, held: Collection[str] | None) -> dict[str, Any]:
        """The record of a file from before its first write, under any of its names."""
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
        """Record a folder that was created. Raises OSError."""
        self._append({self._inner(path): {"kind": FOLDER_ENTRY}}, sync=False)

    def keep_folders(self, paths: Iterable[str]) -> None:
        """Record folders as they are now, before their first change. On disk when it returns.
        Raises OSError."""
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
                os.ftruncate(fd, size)  # a truncated line must stay the last one
                raise
        finally:
            os.close(fd)

    def _clear(self) -> None:
        import shutil

        self._forget()
        for path in (self._landing, self._accepted, f"{self.folder}/{NOT_RESTORED}"):
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
        """Make the list's name survive a power failure."""
        _sync(self.folder)
        _sync(os.path.dirname(self.folder))

    # The entries

    def entries(self) -> list[tuple[str, dict[str, Any]]]:
        """Each recorded path with its record (see `file_restore`). For a file that was released and
        leased again, the last record. Without folders that existed before, whose names may belong
        to files now. Raises KeepsakeError."""
        found: dict[str, dict[str, Any]] = {}
        for at, said in self._lines():
            if said["kind"] != FOLDER_ENTRY or ("mode" not in said and at not in found):
                found[at] = said
        return list(found.items())

    def folders(self) -> dict[str, dict[str, Any]]:
        """The folders that existed before, as they were. Raises KeepsakeError."""
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
            return []  # the work had not begun
        found = []
        try:
            for line in lines[:-1]:  # the rest after the last line end is truncated
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
        """The path of the copy for a record."""
        return f"{self._before}/{was['copy']}"

    # Restoring

    def put_back(
        self,
        is_held: IsHeld | None = None,
        key_of: Callable[[str], str] | None = None,
        *,
        sets_aside: bool = False,
    ) -> list[str]:
        """Restore the files, and remove the keepsake. Returns those that had changed; their changed
        content is in the folder `left`. With `is_held`, only files that the holder still holds;
        `key_of` tells the keys of those that are recorded without one, which count as held
        otherwise. With `sets_aside` the copies stay, for people. Raises KeepsakeError; then the
        keepsake stays."""
        kept = []
        for at, was in self.entries():
            key = was.get("key") or (None if key_of is None else key_of(at))
            if is_held is None or key is None or is_held(key):
                kept.append((at, was))
        folders = self.folders()
        # Created files go first: one may be where there was a folder with other files. For a file
        # with several names, the name that still leads to it comes first.
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
            # The innermost first, and after all files: its mode may make a folder inaccessible.
            self._restore(sorted(folders.items(), key=lambda entry: -len(entry[0])))
        finally:
            self._copies.close_again(folders)
        if sets_aside:
            os.replace(self._list, f"{self.folder}/{NOT_RESTORED}")
            _sync(self.folder)
        else:
            self._forget()
        return [at for at, _was in kept if at in changed]

    def _restore(self, kept: list[tuple[str, dict[str, Any]]]) -> set[str]:
        """Restore all of them. Returns those that had changed. Raises KeepsakeError."""
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
            if len(left) == len(tried):  # no progress
                failed = [at for at, _was in left]
                raise KeepsakeError(
                    f"{', '.join(failed)} could not be restored: {why}",
                    hint="the files stay locked until that succeeds: fix the cause, then run "
                    "holdfast dispatch --resume",
                    paths=failed,
                )
        return changed

    def accept(self, *, lands: bool = False) -> bool:
        """Accept the work, which can no longer be undone. On disk when it returns. With `lands` its
        files stay held until `landed`. False if another process has already restored them."""
        import shutil

        if not self.is_there:
            return self.is_accepted
        os.replace(self._list, self._landing if lands else self._accepted)
        _sync(self.folder)
        shutil.rmtree(self._before, ignore_errors=True)
        return True

    def landed(self) -> None:
        """The accepted work is complete. After an interruption the copies may still exist."""
        import shutil

        with suppress(FileNotFoundError):
            os.replace(self._landing, self._accepted)
        shutil.rmtree(self._before, ignore_errors=True)

    def forget(self) -> None:
        """Remove a keepsake that is no longer needed."""
        if self.is_there:
            self._forget()

    def _forget(self) -> None:
        import shutil

        with suppress(FileNotFoundError):
            os.unlink(self._list)
            _sync(self.folder)  # a list that reappears after a power failure would undo later work
        shutil.rmtree(self._before, ignore_errors=True)


def _locked_by(fd: int, deadline: float) -> bool:
    import fcntl
    from time import monotonic, sleep

    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= deadline:
                return False
            sleep(_LOOK_SECONDS)
        else:
            return True


def _line(at: str, was: dict[str, Any]) -> bytes:
    return codec.dumps({"at": at, **was}).encode("utf-8", "surrogateescape") + b"\n"


class _Open:
    """An open file, whose inode cannot be reused meanwhile."""

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
        return 0, 0  # no file has this inode
    return now.st_dev, now.st_ino


def _places(root: str, path: str) -> Iterator[str]:
    """The paths for a path, each relative to the root if it is inside: its own name with the links
    in its folders resolved, and the target if the name itself is a link."""
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
