"""The environment variables that are Holdfast's own, and which of them end above an agent.

What a variable says is known to every process below. Some of ours are secrets, or lead to the
ledger itself: with them an agent could decide what is for people to decide. So they are taken out
where an agent is started. The user's variables, and the keys of models among them, stay.

The others are for an agent: its runner sets them anew for each, and they name that agent's own
grant and nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STORE = "HOLDFAST_STORE"
SERVE_TOKEN = "HOLDFAST_SERVE_TOKEN"
TREE_TOKEN = "HOLDFAST_TREE_TOKEN"

#: Not for agents: where a store is, who may read the page, who may publish a worktree.
NOT_FOR_AGENTS = (STORE, SERVE_TOKEN, TREE_TOKEN)


def for_agents(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without what is not for agents."""
    return {name: text for name, text in environ.items() if name not in NOT_FOR_AGENTS}
