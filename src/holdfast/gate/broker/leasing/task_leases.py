"""The leases of a task: taken at the first write, kept until the task ends, and undone if it fails.

All commands of one attempt share them: the agent, the check, the agent again. Nothing is released
when a command ends; the dispatcher ends all leases of the task's holder in one step with the task.

Between the lease and the write the file is copied (`manager.files.keepsakes`). If that fails, the
write fails with the same error.

The broker does not know when the task read the files that it writes; a process that has ended since
may have read them. So a file that another holder changed after the attempt began counts as stale
for all its processes: the first write fails, once, with ESTALE. `is_stale` records this; a task
that fails afterwards has to be repeated with its files leased from the start.

A call that would deadlock asks `choose_victim` which of the waiting holders has to yield. If it is
another task, the call waits until that task is undone. If it is this one, `victim` says why, and
its runner ends it.

With `declared` the task may write exactly what its first grant covers; everything else is refused
and recorded as a gap. A new file beside a declared one, with a name that tools give to a
replacement (`temp_names`), is leased as well: without it neither Claude Code nor `sed -i` can
write. If it still exists when the command has ended, it is removed.

A folder is backed up before the task removes it, renames it or changes its mode; with `declared`
the task may do so only with folders that it created. It must not change what cannot be restored: a
name that cannot be leased, or a pipe, a socket or a device.

Files that git ignores are not leased. A task that changes a `.gitignore` does not extend them
(`PathKinds.freeze`).

Control files (`manager.files.control_files`) are never leased, nor is the list that contains the
task: not even for a change without effect.
"""

from __future__ import annotations

import errno
import os
import stat

from holdfast.core.keys import kind
from holdfast.core.model import WRITE
from holdfast.core.sentences import circle_sentence
from holdfast.gate.broker.leasing.command_leases import Leases
from holdfast.gate.broker.leasing.leased_files import Lease, MustWait, changed_at, seen_of
from holdfast.gate.broker.places.path_zones import PASSING
from holdfast.gate.git.git_control_files import controls_of
from holdfast.gate.sandbox.gaps.temp_names import has_random_name, named_after
from holdfast.manager.files.realpath import plain
from holdfast.manager.request_limits import to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import NoReturn

    from holdfast.core.model import ConflictInfo, Grant, Refusal
    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.places.path_kinds import PathKinds
    from holdfast.gate.broker.places.path_lookup import Found
    from holdfast.manager.files.keepsakes import Keepsake
    from holdfast.manager.files.paths import Place
    from holdfast.manager.manager import LockManager

    #: Returns which of these holders has to yield, by id. If it is another task, that one has been
    #: notified when this returns.
    ChooseVictim = Callable[[Sequence[str], str], str]

_CYCLE = "E_LOCK_CYCLE"
#: How many gaps are reported; a loop inside must not fill the ledger.
_GAPS_MAX = 500


class TaskLeases(Leases):
    """The leases of one attempt at a task. Only for the broker's single thread."""

    def __init__(
        self,
        manager: LockManager,
        grant: Grant,
        say: Callable[[str], None],
        keepsake: Keepsake,
        *,
        declared: bool,
        closed: Collection[str],
        choose_victim: ChooseVictim,
    ) -> None:
        """`grant` is the task's grant at its start. `closed` are real paths that it must not write:
        its own list."""
        super().__init__(manager, grant.holder, say)
        # The task may have read that a file does not exist: that must stay true until it ends.
        # Declared files are held until then anyway.
        self.keeps_absent = not declared
        self.keeps_folders = True
        #: Whether a write was refused because the file had changed.
        self.is_stale = False
        #: Why this task has to yield; empty as long as it need not.
        self.victim = ""
        #: The files that it was about to write when it had to yield, or that were stale.
        self.wanted: list[str] = []
        #: The paths that it tried to write and may not, since the runner last read this.
        self.gaps: list[str] = []
        self._gaps_told: set[str] = set()
        #: New files beside the declared ones that they will replace.
        self._stand_ins: set[str] = set()
        self._grant = grant
        self._first = {
            key for key, mode in zip(grant.keys, grant.modes, strict=True) if mode == WRITE
        }
        self._keepsake = keepsake
        self._declared = declared
        self._closed = closed
        self._controls = controls_of(self._tree.root)
        self._choose_victim = choose_victim
        #: The kinds of paths for the present command.
        self._kinds: PathKinds | None = None
        #: Paths that count as ignored for all commands, once the task has leased a `.gitignore`.
        self._ignored: dict[str, frozenset[str]] = {}
        #: Folders that the task has created, and those that were backed up.
        self._made: set[str] = set()
        self._kept: set[str] = set()

    def know_kinds(self, kinds: PathKinds) -> None:
        """Set the kinds of the next command, which has a broker of its own."""
        self._kinds = kinds
        kinds.frozen = self._ignored

    # Taking

    def refuse_closed(self, path: str) -> None:
        shown = path.removeprefix(f"{self._tree.root}/")
        if path in self._closed or self._is_another_name(path):
            self._refuse(path, "list", f"{plain(shown)} is the list that contains this task; only "
                         "the dispatcher and people may write it")  # fmt: skip
        control = self._controls.of(path)
        if control is not None:
            if self._declared:
                self._note_gap(shown)
            self._refuse(path, "control", control.sentence(plain(shown)))

    def _is_another_name(self, path: str) -> bool:
        """Whether a path is another name (hard link) of a closed file."""
        try:
            status = os.lstat(path)
            return status.st_nlink > 1 and any(
                os.path.samestat(status, os.lstat(one)) for one in self._closed
            )
        except OSError:
            return False

    def _take(self, caller: Caller, found: Found, waits: bool) -> Lease | None:
        if self._place(found) is None:
            self._refuse_name(found.path)
        return super()._take(caller, found, waits)

    def _refuse_name(self, path: str) -> None:
        shown = plain(path.removeprefix(f"{self._tree.root}/"))
        self._refuse(shown, "name", f"{shown} has a name that cannot be leased, so no task may "
                     "write it")  # fmt: skip

    def _take_place(self, caller: Caller, found: Found, place: Place, waits: bool) -> Lease:
        if place.key in self._first and not self.is_over:
            return self._add(Lease(found.path, place.path, self._grant, found.is_there))
        if self._declared:
            if found.is_there or not self._stands_in(found.path):
                self._refuse_gap(place)
            self._stand_ins.add(found.path)
        return super()._take_place(caller, found, place, waits)

    def _stands_in(self, path: str) -> bool:
        """Whether a new file will replace one that the task declares, judging by its name."""
        if any(self._key_at(one) in self._first for one in named_after(path)):
            return True
        folder = os.path.dirname(self._key_at(path))
        declared = {os.path.dirname(key) for key in self._first if kind(key) == "path"}
        return has_random_name(path) and folder in declared

    def remove_stand_ins(self) -> None:
        """A command has ended: remove files that were to replace a declared one and did not."""
        for path in self._stand_ins & set(self.mine):
            try:
                os.unlink(path)
            except OSError:  # a folder, or gone: then there is no file left
                continue
        self._stand_ins.clear()

    def _note_gap(self, path: str) -> None:
        if path not in self._gaps_told and len(self._gaps_told) < _GAPS_MAX:
            self._gaps_told.add(path)
            self.gaps.append(path)

    def _refuse_gap(self, place: Place) -> None:
        self._note_gap(place.path)
        self._refuse(
            place.path, "gap", f"{plain(place.path)} is not among the files that this task declares"
        )

    def _add(self, lease: Lease) -> Lease:
        super()._add(lease)
        if _is_special(lease.path):
            self.drop(lease.path)
            self._refuse(lease.shown, "special", f"{plain(lease.shown)} is neither a file nor a "
                         "folder and could not be restored, so no task may change it")  # fmt: skip
        try:
            self._keepsake.add(lease.path, self._key_at(lease.path), self.mine)
            if self._kinds is not None:
                self._kinds.freeze(lease.path)
        except OSError as error:
            self.drop(lease.path)
            self._tell(lease.shown, "copy", f"{plain(lease.shown)} cannot be backed up, so it "
                       f"must not be written: {error.strerror}")  # fmt: skip
            raise OSError(
                error.errno or errno.EIO, os.strerror(error.errno or errno.EIO)
            ) from error
        return lease

    def _key_at(self, path: str) -> str:
        return self._tree.place_of(path, path, None, 0).key

    def take_all(
        self, caller: Caller, wanted: Sequence[tuple[str, os.stat_result | None]]
    ) -> list[Lease]:
        new, places = self._places(wanted)
        known = {path for path, _status in new}
        for path, _status in wanted:
            if path not in known and path not in self.mine:
                self._refuse_name(path)
        for place in places:
            if self._declared and place.key not in self._first:
                self._refuse_gap(place)
        had = set(self.mine)
        try:
            taken = super().take_all(caller, wanted)
        except OSError:
            self.drop_all([path for path in self.mine if path not in had])
            raise
        self._demand_all_fresh(caller, taken, dict(wanted))
        return taken

    def _demand_all_fresh(
        self,
        caller: Caller,
        taken: Iterable[Lease],
        were: Mapping[str, os.stat_result | None],
    ) -> None:
        """Refuse the rename of a folder with files that another holder changed since the attempt
        began: the task may have read them, so they are stale, as they would be at a write."""
        self.others.follow()
        old = []
        for lease in taken:
            changed = changed_at(lease.path, were[lease.path])
            if changed >= self.others.began and lease.shown in self.others.released:
                lease.moved_at = changed
                lease.told.add(caller.process)
                old.append(lease)
        if old:
            self._refuse_old(old)

    def take_ahead(
        self, _caller: Caller, _wanted: Iterable[tuple[str, os.stat_result | None, int]]
    ) -> list[str]:
        return []  # only for a git that changes a tree, which no task may do

    def made_folder(self, path: str) -> None:
        self._keepsake.add_folder(path)
        if path not in self._kept:
            self._made.add(path)

    def drop_all(self, paths: Iterable[str]) -> None:
        """Release some that were not changed after all, except those of the first grant."""
        for path in list(paths):
            lease = self.mine.get(path)
            if lease is not None and lease.grant == self._grant.id:
                del self.mine[path]
            else:
                super().drop_all((path,))

    # Folders, which change with everything in them

    def demand_may_change(self, found: Found) -> None:
        """Back up the folder, with all folders in it."""
        super().demand_may_change(found)
        if found.path in self._made or self._is_passing(found.path):
            return
        shown = found.path.removeprefix(f"{self._tree.root}/")
        if self._declared:
            self._note_gap(shown)
            self._refuse(shown, "gap", f"{plain(shown)} is a folder that this task did not create, "
                         "so it may not remove, rename or change it")  # fmt: skip
        new = [path for path in self._folders_in(found.path) if path not in self._kept]
        try:
            self._keepsake.keep_folders(new)
        except OSError as error:
            self._tell(shown, "copy", f"{plain(shown)} cannot be backed up, so it must not be "
                       f"changed: {error.strerror}")  # fmt: skip
            raise
        self._kept.update(new)

    def _folders_in(self, path: str) -> Iterator[str]:
        """A folder, and those in it that the task did not create and git does not ignore."""
        for top, folders, _names in os.walk(path):
            yield top
            inner = {one: f"{top}/{one}" for one in folders}
            folders[:] = [
                one for one, at in inner.items()
                if at not in self._made and not os.path.islink(at) and not self._is_passing(at)
            ]  # fmt: skip

    def _is_passing(self, path: str) -> bool:
        return self._kinds is not None and self._kinds.of(path) == PASSING

    def _refuse_held(
        self, shown: str, conflicts: Sequence[ConflictInfo], caller: Caller | None
    ) -> None:
        """Wait for the lock that conflicts with a folder: the first file of another holder."""
        first = conflicts[0]
        inner = first.path if not first.path.endswith("/") else first.held_path
        if inner.endswith("/") or self._declared:
            super()._refuse_held(shown, conflicts, caller)
        path = f"{self._tree.root}/{inner.removeprefix('./')}"
        try:
            status: os.stat_result | None = os.lstat(path)
        except OSError:
            status = None
        place = self._tree.place_of(path, path, status, 0)
        request = self._request(to_write(place), f"{plain(inner)} is in the way of a folder")
        raise MustWait(request, path, seen_of(status))

    # Stale content

    def _demand_fresh(self, caller: Caller, lease: Lease) -> None:
        if lease.told:
            return
        lease.told.add(caller.process)
        if self._reads.get((caller.process, lease.path), 0) <= lease.moved_at:
            self._refuse_old([lease])

    def _refuse_old(self, leases: Sequence[Lease]) -> NoReturn:
        self.is_stale = True
        self.wanted += [lease.shown for lease in leases]
        for lease in leases:
            self._tell(
                lease.shown, "stale",
                f"{plain(lease.shown)} was changed by another holder after this task began; this "
                "write was refused once: read it again, then write it",
            )  # fmt: skip
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    # Deadlocks

    def waits_on(self, awaited: MustWait, refusal: Refusal) -> bool:
        """On a deadlock, or readers that all want to write, have one of the holders yield."""
        shown = awaited.request.paths[0]
        if refusal.code == _CYCLE:
            holders = list(dict.fromkeys(one.holder for one in refusal.circle))
            why = circle_sentence(self.holder.id, refusal.circle)
        else:
            holders, why = [], refusal.message or "other readers of it also want to write it"
        if self._choose_victim(holders, why) == self.holder.id and not self.victim:
            self.victim = plain(why)
            self.wanted.append(shown)
        return True

    # Releasing

    def begin_command(self) -> None:
        """Another command of the same attempt starts."""
        self.is_over = False

    def settle(self, in_use: Iterable[str]) -> None:
        """Nothing is released at the end of a command: its leases are the task's."""

    def relabel(self, path: str, reason: str) -> None:
        """Nothing to do: processes that a command left running are about to be killed."""


def _is_special(path: str) -> bool:
    """Whether a path exists and is neither a file nor a link nor a folder."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode))
