"""Holdfast's environment variables, and which of them agents do not get.

Every descendant can read a variable. Some of ours are secrets, or lead to the ledger itself: with
them an agent could make decisions that are reserved for people. So they are removed where an agent
is started. The user's own variables stay, keys of models included.

If the ledger is on a server, the driver's variables lead to it as well: they are removed together
with ours. With an embedded ledger they are none of our business: an application under test may
need them.

The others are for agents: the runner sets them for each agent, and they name only that agent's
grant.
"""

from __future__ import annotations

from holdfast.store.store_url import is_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

STORE = "HOLDFAST_STORE"
SERVE_TOKEN = "HOLDFAST_SERVE_TOKEN"
TREE_TOKEN = "HOLDFAST_TREE_TOKEN"
#: Set by a runner or broker for all that it starts: where it answers requests.
SOCKET = "HOLDFAST_SOCKET"

#: Not for agents: the store's URL, and the tokens for the page and for publishing a worktree.
NOT_FOR_AGENTS = (STORE, SERVE_TOKEN, TREE_TOKEN)


#: What the driver of a server reads from the environment to find a server, and to be let in.
OF_DRIVER = (
    "PGHOST", "PGHOSTADDR", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE",
    "PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR", "PGOPTIONS", "PGREQUIREAUTH",
    "PGCHANNELBINDING", "PGREQUIREPEER", "PGTARGETSESSIONATTRS", "PGSSLMODE", "PGREQUIRESSL",
    "PGSSLCERT", "PGSSLKEY", "PGSSLCERTMODE", "PGSSLROOTCERT", "PGSSLCRL", "PGSSLCRLDIR",
    "PGSSLSNI", "PGSSLMINPROTOCOLVERSION", "PGSSLMAXPROTOCOLVERSION", "PGGSSENCMODE",
    "PGKRBSRVNAME", "PGGSSLIB", "PGGSSDELEGATION",
)  # fmt: skip
#: Where the driver looks for a person's files: passwords, certificates, tickets.
_FILES_OF_DRIVER = (
    "HOME", "APPDATA", "XDG_CONFIG_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "KRB5CCNAME",
    "KRB5_CONFIG",
)  # fmt: skip


def for_agents(environ: Mapping[str, str], *, on_server: bool = False) -> dict[str, str]:
    """An environment without the variables that agents must not get. `on_server`: the ledger is on
    a server that the settings name."""
    leads_there = on_server or is_server(environ.get(STORE, ""))
    hidden = {*NOT_FOR_AGENTS, *(OF_DRIVER if leads_there else ())}
    return {name: text for name, text in environ.items() if name not in hidden}


def of_server(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a process of ours reaches a ledger on a server."""
    names = (*OF_DRIVER, *_FILES_OF_DRIVER)
    found = {name: environ[name] for name in names if name in environ}
    return {**found, STORE: environ[STORE]} if is_server(environ.get(STORE, "")) else found
