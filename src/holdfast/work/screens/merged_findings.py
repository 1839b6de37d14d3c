"""What was merged, in the ledger: so that no later run applies a finished edit again.

Each controller has one note with the screens whose findings were carried out, each as it was in the
manifest then. The note is written in the transaction that ends the merge, and outlives the items
and the manifest; only `dispatch --forget` removes it. A screen that is the same in a later manifest
is done. A changed or new one is work: it is analysed, and only its findings are merged.

Not promised: that an agent with a new prompt does not repeat an old edit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules
from holdfast.manager import transactions
from holdfast.work.screens.manifest import Screen

if TYPE_CHECKING:
    from holdfast.core.model import Decision
    from holdfast.core.view import View
    from holdfast.manager.manager import LockManager

NOTES = "work:merged:"
MERGED = "work_merged"
FORGOTTEN = "work_forgotten"
#: Why nothing is done for a finished controller.
DONE_BEFORE = "already done, so not done again; to redo it, run holdfast dispatch --forget first"


def left(manager: LockManager, group: str, screens: Iterable[Screen]) -> list[Screen]:
    """The screens of a controller whose findings were not merged yet."""
    event = transactions.noted(manager, f"{NOTES}{group}")
    done: Mapping[str, Any] = event.data["screens"] if event is not None else {}
    return [one for one in screens if done.get(one.workflow) != one.to_data()]


def is_merged(manager: LockManager, group: str) -> bool:
    """Whether anything was ever merged for a controller."""
    return transactions.noted(manager, f"{NOTES}{group}") is not None


def with_merged(
    view: View, decision: Decision[Any], group: str, screens: Iterable[Screen]
) -> Decision[Any]:
    """Extends a decision by the record that the findings for these screens were carried out."""
    event = view.note(f"{NOTES}{group}")
    done = {**(event.data["screens"] if event is not None else {})}
    done.update({one.workflow: one.to_data() for one in screens})
    said = {"workflow": group, "screens": done}
    return bulk_rules.with_note(view, decision, MERGED, said, name=f"{NOTES}{group}")


def forget(manager: LockManager) -> None:
    """Forget everything that was merged: all of it may be done again."""
    for event in transactions.notes(manager, NOTES):
        group = str(event.data["workflow"])
        said = {"workflow": group}
        transactions.note(manager, FORGOTTEN, said, name=f"{NOTES}{group}", over=True)
