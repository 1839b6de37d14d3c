"""A keeper: a small process beside a client that others cannot judge, such as one in a container.

The leases of such a client end by time. While the client lives, its keeper renews those leases of
all agents of one session that have an end, so that a long turn without any event loses none. A
lease with a ttl of its own ends at its time. When the client dies, the keeper immediately releases
the leases that no running command keeps, because no other process could know. The keeper ends when
there is no lease left to renew, and when the ledger is gone.

On a server's ledger no other host can judge any client, so every client with leases has a keeper.
It goes on for as long as the client lives, whether the server can be reached or not, and keeps no
connection between two renewals.

There is one keeper for each session (`gate.side_process`). Between two renewals it has no file of
the repository open.
"""

from __future__ import annotations

import os
import sys
from time import monotonic, sleep

from holdfast.core import bulk_rules, events
from holdfast.core.conflicts import expiry
from holdfast.core.draft import Draft
from holdfast.core.model import AGENT, SECOND
from holdfast.core.root_errors import BadKeyError, SettingsError, StoreError
from holdfast.core.wait_line import hand_over
from holdfast.gate import side_process
from holdfast.manager.ledger_location import has_ledger
from holdfast.manager.owners.liveness import is_dead, witness_of
from holdfast.manager.owners.running_calls import named
from holdfast.manager.owners.variables import STORE, of_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.core.model import Decision, Witness
    from holdfast.core.view import View
    from holdfast.store.contract import Store

#: How much of a lease may pass before it is renewed.
RENEW_PART = 1 / 3
#: How soon an unreachable ledger is tried again.
RETRY_SECONDS = 5.0
#: How often to check for the end of a process that cannot notify us.
LOOK_SECONDS = 1.0


def start(root: str, key: str, client: Witness, seconds: float, store: Store | None = None) -> int:
    """Start a keeper for all agents whose keys begin with `key`, or for a holder that is no agent
    and has this key, unless this client has one. Each renewal lasts for `seconds`, or for as long
    as the store says. Returns the pid of the new process, or 0. Never raises."""
    is_kept = store is not None and store.lease is not None
    if not sys.executable or (sys.platform != "linux" and not is_kept):
        return 0
    environ: dict[str, str] = {}
    url = ""
    if store is not None and store.lease is not None:
        seconds, url = store.lease / SECOND, store.url
        environ = {STORE: url, **of_server(os.environ)}
    words = [root, key, str(client.pid), str(client.start), repr(float(seconds)), url]
    try:
        if is_dead(client, ()) is not False or _place(root, key, client).is_taken():
            return 0
    except OSError:
        return 0
    return side_process.start(__name__, words, environ)


def is_running(root: str, key: str, client: Witness) -> bool:
    """Whether this client has a keeper for these agents. A place that cannot be read has none."""
    try:
        return _place(root, key, client).is_taken()
    except OSError:
        return False


def run(words: list[str]) -> None:
    """The process itself."""
    root, key, pid, start, seconds, url = words
    client = witness_of(int(pid))
    if client is not None and client.start == int(start):
        keep(root, key, client, float(seconds), url)


def _place(root: str, key: str, client: Witness) -> side_process.Place:
    return side_process.Place(root, named(key), f"{client.pid} {client.start}")


def keep(root: str, key: str, client: Witness, seconds: float, url: str = "") -> None:
    """Renew until there is no lease to renew. `url` is that of a server's ledger."""
    place = _place(root, key, client)
    try:
        if not place.claim():
            return
        pause = seconds * RENEW_PART
        retry, reached = min(RETRY_SECONDS, pause / 4), monotonic()
        while place.is_ours():
            try:
                if not _renewed(root, key, client, seconds, url):
                    break
                reached = monotonic()
                _wait(client, pause, retry if url else LOOK_SECONDS)
            except (StoreError, SettingsError, BadKeyError):
                is_over = not url or monotonic() > reached + seconds
                if is_over and is_dead(client, ()) is not False:
                    break
                _wait(client, retry, retry)
        place.give_up()
    except FileNotFoundError:  # the ledger's folder
        pass


def _renewed(root: str, key: str, client: Witness, seconds: float, url: str) -> bool:
    from holdfast.manager import transactions
    from holdfast.manager.manager import LockManager

    if not has_ledger(root):
        return False
    length = round(seconds * SECOND)
    with LockManager.open(root) as manager:
        if url and manager.store.url != url:  # the repository has another ledger now
            return False
        return transactions.decide(manager, lambda view: renewal(view, key, client, length))


def renewal(view: View, start: str, client: Witness, length: int) -> Decision[bool]:
    """Renew the leases that would end by time, of all agents of this client whose keys begin with
    `start`, or of the holder with that key if it is no agent, as soon as RENEW_PART of their time
    has passed. The outcome is whether there are leases: one without an end may get one later. Ended
    leases are removed, and their files go to the waiting holders."""
    draft = Draft(view)
    found = []
    # The keys of agents are found by their beginning, which all agents of a session share.
    is_agent = start.startswith(AGENT)
    for grant in view.held_within(start) if is_agent else view.held_by(start):
        if grant.holder.witness != client:  # from an earlier process of the session
            continue
        if not bulk_rules.end_if_over(draft, grant) and grant.ttl is None:
            found.append(grant)
    if view.lease is not None:
        bulk_rules.renew_kept(draft, found)
    else:
        for grant in found:
            ends = expiry(draft, grant)
            if ends is not None and ends - draft.now <= length * (1 - RENEW_PART):
                draft.extend(grant, expires_at=draft.now + length, idle_at=grant.idle_at)
    hand_over(draft)
    return draft.done(bool(found))


def leaves_some(view: View, decision: Decision[Any], start: str) -> bool:
    """Whether agents whose keys begin with `start` have leases to keep after a decision."""
    left = {grant.id for grant in view.held_within(start) if grant.ttl is None}
    for event in decision.events:
        grant = event.subject
        if grant is None or not grant.holder.key.startswith(start):
            continue
        if event.type != events.LOCK_ACQUIRED:
            left.discard(grant.id)
        elif grant.ttl is None:
            left.add(grant.id)
    return bool(left)


def _wait(client: Witness, seconds: float, look: float) -> None:
    """Wait so long, or until the client ends. If it has ended, something that it left still keeps
    its leases, so wait only for `look`."""
    if is_dead(client, ()) is not False:
        sleep(min(seconds, look))
        return
    try:
        descriptor = os.pidfd_open(client.pid)
    except (OSError, AttributeError):  # it has ended, or this system cannot tell
        _wait_and_look(client, seconds)
        return
    try:
        if is_dead(client, ()) is not False:
            return
        from select import POLLIN, poll

        watch = poll()
        watch.register(descriptor, POLLIN)
        watch.poll(seconds * 1000)
    finally:
        os.close(descriptor)


def _wait_and_look(client: Witness, seconds: float) -> None:
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0 and is_dead(client, ()) is False:
        sleep(min(left, LOOK_SECONDS))
