"""Where locks depend on keepsakes: which owners count as dead, and how a refused request helps.

The theory is in `holdfast.manager.files.keepsakes`, which is imported only where there are
keepsakes: almost never in a hook.
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

#: The prefix of the mark of a holder with a keepsake. No process has it in its environment.
MARK = "HOLDFAST_KEPT="
#: Under the root: a folder for each holder, and in it the list of kept files; under its second name
#: once the work can no longer be undone and its final steps are incomplete.
FOLDER = f"{LEDGER_FOLDER}/runs"
LIST = "before.json"
LANDING = "landing"


def dead_in(root: str, *, is_shared: bool = False) -> IsDead:
    """Whether an owner in this repository counts as dead: its processes are gone, and none of its
    files has yet to be restored; None if that cannot be determined from here. The disk is checked
    last, and only for holders with marks. An agent's processes are those of its open calls.
    `is_shared`: several hosts use the ledger."""

    def sought(marks: tuple[str, ...]) -> list[tuple[str, int]]:
        from holdfast.manager.owners import running_calls

        return running_calls.sought(root, marks)

    def dead(witness: Witness, marks: tuple[str, ...]) -> bool | None:
        gone = is_dead(witness, marks, sought, is_shared=is_shared)
        return gone and not is_kept(root, marks)

    return dead


def left_running(root: str, marks: tuple[str, ...]) -> list[int]:
    """The processes that keep the locks of a dead owner, except this one."""
    from holdfast.manager.owners import running_calls

    if not sees_processes():
        return []
    found = {pid for sought in running_calls.sought(root, marks) for pid in carriers(*sought)}
    return sorted(found - {os.getpid()})


def is_kept(root: str, marks: tuple[str, ...]) -> bool:
    """Whether one of these marks belongs to an existing keepsake, whose work has yet to be undone
    or completed."""
    return any(
        os.path.lexists(f"{root}/{FOLDER}/{mark[len(MARK) :]}/{name}")
        for mark in marks
        if mark.startswith(MARK)
        for name in (LIST, LANDING)
    )


def has_keepsakes(root: str) -> bool:
    """Whether there are any keepsakes. Checked before every edit, so with a single system call."""
    return bool(root) and os.path.lexists(f"{root}/{FOLDER}")


def settles(manager: Ledger, conflicts: Collection[ConflictInfo]) -> bool:
    """Whether to repeat the request: it conflicts with half-done edits of a dead owner, and those
    files have now been restored."""
    if manager.tree is None:
        return False
    start = f"{manager.tree.root}/{FOLDER}"
    if not any(os.path.lexists(f"{start}/{one.holder}/{LIST}") for one in conflicts):
        return False
    from holdfast.manager.files.keepsakes import settle

    return settle(manager, conflicts)
