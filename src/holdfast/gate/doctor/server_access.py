"""Who else can reach a ledger that is on a server.

The server trusts each client that it lets in. Agents that we start have no variable that leads
there, but a client that a person started keeps its own environment, and so do its agents.
"""

from __future__ import annotations

import os

from holdfast.core import rules
from holdfast.gate.doctor.finding import HELD, NOTE, Finding
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from holdfast.manager.ledger_location import is_on_server, ledger_of, own_store
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import environment_of
from holdfast.manager.owners.variables import OF_DRIVER, STORE
from holdfast.store.store_url import is_server, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.view import View

_SECRETS = ("PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSSLKEY")
_FIX = (
    "nothing, if you trust these agents with the ledger; else start the client through a broker, "
    "which takes the variables away: holdfast run --lease -- CLIENT"
)


def server_access(root: str, manager: LockManager, environ: Mapping[str, str]) -> list[Finding]:
    """Where the ledger is, which clients have its URL, and a ledger that was left behind."""
    if not is_on_server(root):
        return []
    found = [Finding("ledger", "server", HELD, f"the ledger is {manager.store.url}")]
    names = _leading(environ)
    if names:
        told = f"clients that are started from here inherit {names}, and so do their agents"
        found.append(Finding("ledger", "variables", NOTE, told, _FIX))
    seen = dict.fromkeys(transactions.look(manager, _clients))
    for client, pid in seen:
        names = _leading(environment_of(pid))
        if names:
            told = f"{client} (pid {pid}) has {names}: its agents can reach the ledger themselves"
            found.append(Finding("ledger", "variables", NOTE, told, _FIX))
    return found + _left_behind(root)


def _leading(environ: Mapping[str, str]) -> str:
    """The variables in an environment that lead to the server, without their values."""
    url = environ.get(STORE, "")
    names = [name for name in OF_DRIVER if name in environ and name in _SECRETS]
    if not is_server(url):
        return ", ".join(names)
    secret = " with a password" if without_password(url) != url else ""
    return ", ".join([f"{STORE}{secret}", *names])


def _clients(view: View) -> list[tuple[str, int]]:
    """The clients at work that run on this host, as far as their processes live."""
    found = []
    for one in agent_records.present(view):
        witness = one.witness
        if witness is not None and view.dead(witness, ()) is False:
            found.append((one.client, witness.pid))
    return found


def _left_behind(root: str) -> list[Finding]:
    """The embedded ledger of before, if leases are left in it: nobody on the server knows them."""
    if not os.path.lexists(ledger_of(root)):
        return []

    def look(view: View) -> list[str]:
        return [grant.holder.id for grant in view.grants() if rules.is_live(view, grant)]

    with LockManager.open(own_store(root)) as old:
        holders = sorted(set(transactions.look(old, look)))
    if not holders:
        return []
    told = f"{', '.join(holders)} still hold leases in {ledger_of(root)}, unknown to the server"
    return [Finding("ledger", "left behind", NOTE, told, "wait for them, or end them")]
