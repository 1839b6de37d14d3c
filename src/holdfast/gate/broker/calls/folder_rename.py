"""The rename of a folder: with everything in it, or not at all.

Every file in it changes its name, so every file is leased, under its old and its new name, in a
single grant. The folder is read again and renamed inside `fenced`, where no lock changes hands, so
a file that was added meanwhile is not moved unnoticed. Nor is a file that another holder is about
to create there: during the rename no other holder is granted anything in the folder, and a holder
that was granted something before checks whether its folder is still in place.
"""

from __future__ import annotations

import errno
import os

from holdfast.gate.broker import heard_calls
from holdfast.gate.broker.calls.call_answers import WouldBlock, fail
from holdfast.gate.broker.places.path_lookup import files_below
from holdfast.gate.broker.places.path_zones import LEASED, LEDGER, PASSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.control.control_writes import ControlWrites
    from holdfast.gate.broker.leasing.command_leases import Leases
    from holdfast.gate.broker.places.path_kinds import PathKinds
    from holdfast.gate.broker.places.path_lookup import Found
    from holdfast.manager.manager import LockManager

    Wanted = list[tuple[str, os.stat_result | None]]

_EXCHANGE = 2


class FolderRenames:
    """Renames folders."""

    def __init__(
        self, manager: LockManager, kinds: PathKinds, leases: Leases, control_writes: ControlWrites
    ) -> None:
        self._manager = manager
        self._kinds = kinds
        self._leases = leases
        self._controlling = control_writes

    def rename(self, caller: Caller, first: Found, second: Found, flags: int) -> None:
        """Rename a folder, or exchange it. Raises OSError, or WouldBlock if it must be repeated."""
        both = bool(flags & _EXCHANGE)
        for one in (first, second):
            kind = self._kinds.rough(one.path)[0]
            if kind == LEDGER or (one.is_folder and _has_ledger(one)):
                raise fail(errno.EACCES)
        self._demand_free(first, second)
        held: list[str] = []
        try:
            for one in (first, second):
                if one.is_folder and self._kinds.rough(one.path)[0] == LEASED:
                    held.append(self._leases.hold_folder(caller, one))
            self._rename(caller, first, second, flags)
        finally:
            for id in filter(None, held):
                self._leases.let_go(id)
        for one, other in ((first, second), (second, first)) if both else ((first, second),):
            if one.is_folder:
                self._note_made(other.path)
        if not both:
            self._forget_made(first.path)

    def _demand_free(self, first: Found, second: Found) -> None:
        """Verify that no other holder has one of them, or anything in it. Raises OSError."""
        for one in (first, second):
            if self._kinds.rough(one.path)[0] != LEASED:
                continue
            if one.is_folder:
                self._leases.demand_may_change(one)
            else:
                self._leases.demand_free(one)

    def _rename(self, caller: Caller, first: Found, second: Found, flags: int) -> None:
        both = bool(flags & _EXCHANGE)
        wanted = self._wanted(first, second, both)
        taken = self._leases.take_all(caller, wanted)
        if not taken:
            heard_calls.rename(first.folder, first.last, second.folder, second.last, flags)
            return
        try:
            with self._manager.fenced(taken[0].grant, taken[0].token):
                if self._wanted(first, second, both) != wanted:
                    raise WouldBlock
                heard_calls.rename(first.folder, first.last, second.folder, second.last, flags)
        except BaseException:
            self._leases.drop_all(lease.path for lease in taken)
            raise

    def _wanted(self, first: Found, second: Found, both: bool) -> Wanted:
        """The files whose names would change, by both their names."""
        found: dict[str, os.stat_result | None] = {}
        for one, other in ((first, second), (second, first)) if both else ((first, second),):
            for inner, status in _names_in(one):
                old, new = one.path + inner, other.path + inner
                self._controlling.moves(old, new)
                for path in (old, new):
                    self._leases.refuse_closed(path)
                kinds = self._kinds.of(old), self._kinds.of(new)
                if LEASED in kinds:
                    for path, kind, state in zip((old, new), kinds, (status, None), strict=True):
                        if kind in (LEASED, PASSING):
                            found[path] = found.get(path) or state
                elif LEDGER in kinds:
                    raise fail(errno.EACCES)
        return sorted(found.items())

    def _note_made(self, folder: str) -> None:
        """Record that a folder, and every folder in it, has a new name."""
        for top, _folders, _names in os.walk(folder):
            self._leases.made_folder(top)

    def _forget_made(self, folder: str) -> None:
        """Release the leases of names that did not exist before and are gone again."""
        if self._leases.keeps_absent:
            return
        mine = self._leases.mine
        self._leases.drop_all([
            path for path, lease in mine.items()
            if path.startswith(f"{folder}/") and not lease.existed
        ])  # fmt: skip


def _names_in(found: Found) -> Iterator[tuple[str, os.stat_result | None]]:
    """All files in a folder, by their paths below it; a file yields itself."""
    if found.is_folder:
        yield from files_below(found.fd)
    else:
        yield "", found.status


def _has_ledger(found: Found) -> bool:
    from holdfast.manager.files.paths import LEDGER_FOLDER

    return any(LEDGER_FOLDER in folders for _top, folders, _names in os.walk(found.path))
