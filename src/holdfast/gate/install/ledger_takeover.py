"""The repository's ledger takes over the ledgers that linked worktrees had of their own.

Agents' leases are transferred unchanged. The old ledger is kept, with its history, in
`.holdfast/taken-over/` of the main checkout, and the record of the files that `init` wrote in the
worktree is merged, so that `--undo` restores them.

Only agents' leases can be transferred: their hooks open the ledger anew for each event. A person's
lock or a running command has the old ledger open, so as long as there is one it stays in place.
"""

from __future__ import annotations

import os
import shutil
from time import gmtime, strftime

from holdfast.core import keys, rules
from holdfast.core.model import AGENT, Grant
from holdfast.gate.install import install_record
from holdfast.gate.install.hook_command import InstallError
from holdfast.manager import transactions
from holdfast.manager.files import checkouts
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.ids import new_id
from holdfast.manager.ledger_location import own_store
from holdfast.manager.manager import LockManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.model import Request
    from holdfast.core.view import View

FOLDER = f"{LEDGER_FOLDER}/taken-over"


def to_take_over(root: str) -> list[str]:
    """The linked worktrees that have a ledger of their own."""
    return [
        checkout
        for checkout in checkouts.linked(root)
        if os.path.isdir(f"{checkout}/{LEDGER_FOLDER}")
        and not os.path.islink(f"{checkout}/{LEDGER_FOLDER}")
    ]


def take_over(root: str, checkout: str) -> int:
    """Take over one ledger; returns the number of leases. Raises InstallError while people or
    commands hold locks there."""
    known: set[str] = set()
    with LockManager.open(root) as manager:
        with LockManager.open(own_store(checkout)) as old:
            live = _live(old)
            _reject_others(root, checkout, live)
            count = _admit(manager, root, checkout, live, known)
        kept = _put_aside(root, checkout)
        if os.path.exists(f"{kept}/ledger.db"):
            with LockManager.open(f"sqlite://{kept}/ledger.db") as old:  # taken at the last moment
                count += _admit(manager, root, checkout, _live(old), known)
    _merge_records(root, checkout, kept)
    return count


def _live(manager: LockManager) -> list[Grant]:
    def look(view: View) -> list[Grant]:
        return [grant for grant in view.grants() if rules.is_live(view, grant)]

    return transactions.look(manager, look)


def _reject_others(root: str, checkout: str, live: Iterable[Grant]) -> None:
    others = sorted({one.holder.id for one in live if not one.holder.key.startswith(AGENT)})
    if others:
        where = os.path.relpath(checkout, root)
        raise InstallError(
            f"the ledger of {where} cannot be taken over: {', '.join(others)} holds locks there",
            hint=f"see: holdfast -C {where} status; run holdfast init again after their release",
            path=f"{checkout}/{LEDGER_FOLDER}",
        )


def _admit(
    manager: LockManager, root: str, checkout: str, live: Iterable[Grant], known: set[str]
) -> int:
    """Request the same leases in the repository's ledger."""
    count = 0
    for grant in live:
        if grant.id in known or not grant.holder.key.startswith(AGENT):
            continue
        known.add(grant.id)
        count += isinstance(_ask(manager, _moved(grant, os.path.relpath(checkout, root))), Grant)
    return count


def _ask(manager: LockManager, request: Request) -> object:
    return transactions.decide(manager, lambda view: rules.acquire(view, request, wait=False))


def _moved(grant: Grant, place: str) -> Request:
    from holdfast.core.model import Request

    return Request(
        new_id(), grant.holder,
        tuple(_at(place, key) for key in grant.keys), grant.modes,
        tuple(_at(place, path) for path in grant.paths),
        ttl=grant.ttl, reason=grant.reason, stamp=grant.stamp,
    )  # fmt: skip


def _at(place: str, key: str) -> str:
    """A key of the worktree's ledger in that of its repository."""
    if keys.kind(key) != "path":
        return key
    inner = key.removeprefix("./")
    return place if inner in ("", keys.ROOT) else f"{place}/{inner}"


def _put_aside(root: str, checkout: str) -> str:
    name = f"{os.path.basename(checkout)}-{strftime('%Y%m%dT%H%M%SZ', gmtime())}"
    kept = f"{root}/{FOLDER}/{name}"
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    shutil.move(f"{checkout}/{LEDGER_FOLDER}", kept)
    return kept


def _merge_records(root: str, checkout: str, kept: str) -> None:
    """Merge the worktree's record, so that its files are restored with the rest."""
    theirs, ours = (
        install_record.load_file(f"{kept}/{install_record.NAME}"),
        install_record.load(root),
    )
    for written in theirs.files.values():
        if written.path.startswith(f"{checkout}/"):
            ours.files.setdefault(os.path.relpath(written.path, root), written)
    install_record.save(root, ours)
