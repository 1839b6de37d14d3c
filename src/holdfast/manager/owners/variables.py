"""Holdfast's environment variables, and which of them agents do not get.

Every descendant can read a variable. Some of ours are secrets, or lead to the ledger itself: with
them an agent could make decisions that are reserved for people. So they are removed where an agent
is started. The user's own variables stay, keys of models included.

The others are for agents: the runner sets them for each agent, and they name only that agent's
grant.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STORE = "HOLDFAST_STORE"
SERVE_TOKEN = "HOLDFAST_SERVE_TOKEN"
TREE_TOKEN = "HOLDFAST_TREE_TOKEN"

#: Not for agents: the store's URL, and the tokens for the page and for publishing a worktree.
NOT_FOR_AGENTS = (STORE, SERVE_TOKEN, TREE_TOKEN)


def for_agents(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables that agents must not get."""
    return {name: text for name, text in environ.items() if name not in NOT_FOR_AGENTS}
