"""What others hold, and the asking agent's own state, in one read of the ledger."""

from __future__ import annotations

from holdfast.core import keys, rules
from holdfast.core.model import WRITE, Value
from holdfast.gate.rulebook import agent_family
from holdfast.manager import transactions
from holdfast.manager.files.paths import checkout_of, file_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Final

    from holdfast.core.model import Grant, Holder
    from holdfast.core.view import View
    from holdfast.manager.ledger import Ledger


class Held(Value):
    """One path that another holder has; `file` is absolute, a folder is held for reading only."""

    __slots__ = ("file", "folder", "grant", "key", "keys", "owner", "parent", "path", "since",
                 "writes")  # fmt: skip

    def __init__(
        self, *, path: str, file: str, writes: bool, grant: Grant, folder: bool = False
    ) -> None:
        self.path: Final = path
        self.file: Final = file
        self.folder: Final = folder
        self.writes: Final = writes
        self.grant: Final = grant.id
        self.owner: Final = grant.holder.id
        self.key: Final = grant.holder.key
        self.keys: Final = grant.keys
        self.parent: Final = grant.holder.parent
        self.since: Final = grant.acquired_at


class Sight(Value):
    """What an agent's command meets: what `others` hold, and which paths are `mine`.

    `blocked` is the report if the agent, or one above it, waits for instruction.
    """

    __slots__ = ("blocked", "mine", "others")

    def __init__(
        self,
        others: list[Held],
        mine: frozenset[str],
        *,
        blocked: Mapping[str, Any] | None,
    ) -> None:
        self.others: Final = others
        self.mine: Final = mine
        self.blocked: Final = blocked


def look(manager: Ledger, holder: Holder) -> Sight:
    """What a command of this agent meets now.

    Files held by agents above a sub-agent do not count as others': the lease would move down to it
    with its first edit.
    """
    root = manager.tree.root if manager.tree is not None else ""

    def ask(view: View) -> Sight:
        mine_too = {holder.key, *(agent_family.ancestors(view, holder) if holder.agent else ())}
        others: list[Held] = []
        mine: list[str] = []
        for grant in view.grants():
            if grant.holder.key == holder.key:
                mine += grant.paths
            elif grant.holder.key not in mine_too and rules.is_live(view, grant):
                others += _paths(root, grant)
        block = agent_family.block_of(view, holder)
        return Sight(others, frozenset(mine), blocked=None if block is None else block.report)

    return transactions.look(manager, ask)


def is_near(folder: str, root: str) -> bool:
    """Whether changes in a folder can concern the ledger at `root`: one is inside the other, or
    the folder is in a linked worktree."""
    if f"{folder}/".startswith(f"{root}/") or f"{root}/".startswith(f"{folder}/"):
        return True
    return checkout_of(root, folder) != root


def _paths(root: str, grant: Grant) -> Iterable[Held]:
    for key, mode, path in zip(grant.keys, grant.modes, grant.paths, strict=True):
        if keys.kind(key) != "path":
            continue
        file = file_of(root, path) if path != keys.ROOT else root
        yield Held(
            path=path, file=file.rstrip("/"), writes=mode == WRITE, grant=grant,
            folder=path.endswith("/") or path == keys.ROOT,
        )  # fmt: skip
