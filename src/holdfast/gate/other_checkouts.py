"""The same file in other checkouts of a repository: linked worktrees, and the main one.

A lease is on one checkout's file, so agents in two checkouts do not wait for each other. But the
changes of both have to be merged, so with `gate.across_worktrees`

    tell     an agent that begins to change a file hears which agent changes it in another checkout
    refuse   the edit is refused: a lease also covers the path that all checkouts have in common
    off      neither

What this does not promise: to follow a file that has another name in the other checkout.
"""

from __future__ import annotations

from holdfast.core import keys, rules
from holdfast.core.errors import HoldfastError
from holdfast.core.model import WRITE, Grant
from holdfast.manager import transactions
from holdfast.manager.files import checkouts
from holdfast.manager.files.paths import checkout_of, file_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.model import Holder, Request
    from holdfast.core.view import View
    from holdfast.manager.ledger import Ledger

#: How many files are looked up in other checkouts.
FILES_MAX = 20


def everywhere(root: str, request: Request) -> Request:
    """The same request, extended by the path that all checkouts have in common."""
    common = f"{keys.REPO}:{_within(root, request.paths[0])[1]}"
    return request.but(
        keys=(*request.keys, common),
        modes=f"{request.modes}{WRITE}",
        paths=(*request.paths, request.paths[0]),
    )


def _within(root: str, path: str) -> tuple[str, str]:
    """The checkout that a path of the ledger lies in, and the path inside it."""
    file = file_of(root, path)
    checkout = checkout_of(root, file)
    return checkout, file[len(checkout) + 1 :]


def told(manager: Ledger, holder: Holder, wanted: Sequence[Request]) -> str:
    """The message to an agent that has just got some of these leases; empty if no other agent is
    changing one of the files in another checkout."""
    root = manager.tree.root if manager.tree is not None else ""
    if not root or not checkouts.has_linked(root):
        return ""
    others = {
        key: (request.paths[0], shown, request.id)
        for request in wanted[:FILES_MAX]
        for key, shown in _elsewhere(manager, root, request.paths[0])
    }

    def look(view: View) -> list[tuple[str, str, str, int]]:
        found = []
        for key, mode, id in view.scopes(list(others), []):
            grant = view.grant(id) if mode == WRITE else None
            path, shown, new = others[key]
            is_new = isinstance(view.grant(new), Grant)
            if not (is_new and isinstance(grant, Grant) and rules.is_live(view, grant)):
                continue
            if grant.holder.key != holder.key:
                found.append((path, shown, grant.holder.id, view.now - grant.acquired_at))
        return found

    found = transactions.look(manager, look) if others else []
    if not found:
        return ""
    from holdfast.gate.rulebook import agent_messages

    return agent_messages.changed_elsewhere(found)


def _elsewhere(manager: Ledger, root: str, path: str) -> Iterator[tuple[str, str]]:
    """The keys of a file in all other checkouts, and how these are shown."""
    own, inner = _within(root, path)
    for checkout in (root, *checkouts.linked(root)):
        if checkout != own:
            try:
                place = manager.place(f"{checkout}/{inner}")
            except HoldfastError:
                continue  # it cannot be held there
            yield place.key, place.path
