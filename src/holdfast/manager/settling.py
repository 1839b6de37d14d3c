"""Where locks meet keepsakes: which owners count as dead, and what a refused request does then.

The theory is in `holdfast.manager.keepsakes`, which is imported only where files are kept: nearly
never on the way of a hook.
"""

from __future__ import annotations

import os

from holdfast.manager.liveness import is_dead
from holdfast.manager.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.model import ConflictInfo, Witness
    from holdfast.manager.manager import LockManager
    from holdfast.store.contract import IsDead

#: How the mark of a holder begins whose files are kept. No process carries it.
MARK = "HOLDFAST_KEPT="
#: Under the root: a folder for each holder, and in it the list of what is kept.
FOLDER = f"{LEDGER_FOLDER}/runs"
LIST = "before.json"


def dead_in(root: str) -> IsDead:
    """Whether an owner in this repository counts as dead: its processes are gone, and no file that
    it left half done is still to be put back. The disk is looked at last, and only for holders
    with the mark."""

    def dead(witness: Witness, marks: tuple[str, ...]) -> bool:
        return is_dead(witness, marks) and not is_kept(root, marks)

    return dead


def is_kept(root: str, marks: tuple[str, ...]) -> bool:
    """Whether one of these marks is that of a keepsake which is still there."""
    return any(
        os.path.lexists(f"{root}/{FOLDER}/{mark[len(MARK) :]}/{LIST}")
        for mark in marks
        if mark.startswith(MARK)
    )


def settles(manager: LockManager, conflicts: Collection[ConflictInfo]) -> bool:
    """Whether asking again is worth it: what stands in the way are files of a dead owner that were
    half done, and they have been put back now."""
    if manager.tree is None:
        return False
    start = f"{manager.tree.root}/{FOLDER}"
    if not any(os.path.lexists(f"{start}/{one.holder}/{LIST}") for one in conflicts):
        return False
    from holdfast.manager.keepsakes import settle

    return settle(manager, conflicts)
