"""Where locks meet keepsakes: which owners count as dead, and what a refused request does then.

The theory is in `holdfast.manager.files.keepsakes`, which is imported only where files are kept:
nearly never on the way of a hook.
"""

from __future__ import annotations

import os

from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.owners.liveness import carriers, is_dead, sees_processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.model import ConflictInfo, Witness
    from holdfast.manager.ledger import Ledger
    from holdfast.store.contract import IsDead

#: How the mark of a holder begins whose files are kept. No process carries it.
MARK = "HOLDFAST_KEPT="
#: Under the root: a folder for each holder, and in it the list of what is kept; under its second
#: name while the work cannot be undone any more and its end is not whole yet.
FOLDER = f"{LEDGER_FOLDER}/runs"
LIST = "before.json"
LANDING = "landing"


def dead_in(root: str) -> IsDead:
    """Whether an owner in this repository counts as dead: its processes are gone, and no file that
    it left half done is still to be put back; None if that cannot be judged from here. The disk is
    looked at last, and only for holders with marks. An agent's processes are those of the calls
    that are open."""

    def sought(marks: tuple[str, ...]) -> list[tuple[str, int]]:
        from holdfast.manager.owners import running_calls

        return running_calls.sought(root, marks)

    def dead(witness: Witness, marks: tuple[str, ...]) -> bool | None:
        return is_dead(witness, marks, sought) and not is_kept(root, marks)

    return dead


def left_running(root: str, marks: tuple[str, ...]) -> list[int]:
    """The processes that keep what an owner has who is gone, but for the one that asks."""
    from holdfast.manager.owners import running_calls

    if not sees_processes():
        return []
    found = {pid for sought in running_calls.sought(root, marks) for pid in carriers(*sought)}
    return sorted(found - {os.getpid()})


def is_kept(root: str, marks: tuple[str, ...]) -> bool:
    """Whether one of these marks is that of a keepsake which is still there: its work is to be
    undone, or to be brought to its end."""
    return any(
        os.path.lexists(f"{root}/{FOLDER}/{mark[len(MARK) :]}/{name}")
        for mark in marks
        if mark.startswith(MARK)
        for name in (LIST, LANDING)
    )


def has_keepsakes(root: str) -> bool:
    """Whether files of anybody are kept at all. Asked before every edit, so of nothing but this."""
    return bool(root) and os.path.lexists(f"{root}/{FOLDER}")


def settles(manager: Ledger, conflicts: Collection[ConflictInfo]) -> bool:
    """Whether asking again is worth it: what stands in the way are files of a dead owner that were
    half done, and they have been put back now."""
    if manager.tree is None:
        return False
    start = f"{manager.tree.root}/{FOLDER}"
    if not any(os.path.lexists(f"{start}/{one.holder}/{LIST}") for one in conflicts):
        return False
    from holdfast.manager.files.keepsakes import settle

    return settle(manager, conflicts)
