"""A keeper: a small process beside a client that others cannot judge, such as one in a container.

The leases of such a client end by time. While the client lives, its keeper renews those leases of
all agents of one session that have an end, so that a long turn without any event loses none. A
lease with a ttl of its own ends at its time. When the client dies, the keeper immediately releases
the leases that no running command keeps, because no other process could know. The keeper ends when
there is no lease left to renew, and when the ledger is gone.

There is one keeper for each session (`gate.side_process`). Between two renewals it has no file of
the repository open.
"""

from __future__ import annotations

import os
import sys
from time import sleep

from holdfast.core import events
from holdfast.core.conflicts import expiry, fate, steal_only
from holdfast.core.draft import Draft
from holdfast.core.errors import StoreError
from holdfast.core.model import SECOND
from holdfast.core.wait_line import hand_over
from holdfast.gate import side_process
from holdfast.manager.ledger_location import has_ledger
from holdfast.manager.owners.liveness import is_dead, witness_of
from holdfast.manager.owners.running_calls import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Decision, Witness
    from holdfast.core.view import View

#: How much of a lease may pass before it is renewed.
RENEW_PART = 1 / 3
#: How soon an unreachable ledger is tried again.
RETRY_SECONDS = 5.0
#: How often to check for the end of a process that cannot notify us.
LOOK_SECONDS = 1.0


def start(root: str, key: str, client: Witness, seconds: float) -> int:
    """Start a keeper for all agents whose keys begin with `key`, unless this client has one. Each
    renewal lasts for `seconds`. Returns the pid of the new process, or 0. Never raises."""
    if sys.platform != "linux" or not sys.executable:
        return 0
    words = [root, key, str(client.pid), str(client.start), repr(float(seconds))]
    try:
        if is_dead(client, ()) is not False or _place(root, key, client).is_taken():
            return 0
    except OSError:
        return 0
    return side_process.start(__name__, words, {})


def run(words: list[str]) -> None:
    """The process itself."""
    root, key, pid, start, seconds = words
    client = witness_of(int(pid))
    if client is not None and client.start == int(start):
        keep(root, key, client, float(seconds))


def _place(root: str, key: str, client: Witness) -> side_process.Place:
    return side_process.Place(root, named(key), f"{client.pid} {client.start}")


def keep(root: str, key: str, client: Witness, seconds: float) -> None:
    """Renew until there is no lease to renew."""
    place = _place(root, key, client)
    try:
        if not place.claim():
            return
        pause = seconds * RENEW_PART
        while place.is_ours():
            try:
                if not _renewed(root, key, client, seconds):
                    break
                _wait(client, pause)
            except StoreError:
                if is_dead(client, ()) is not False:
                    break
                _wait(client, min(RETRY_SECONDS, pause / 4))
        place.give_up()
    except FileNotFoundError:  # the ledger's folder
        pass


def _renewed(root: str, key: str, client: Witness, seconds: float) -> bool:
    from holdfast.manager import transactions
    from holdfast.manager.manager import LockManager

    if not has_ledger(root):
        return False
    length = round(seconds * SECOND)
    with LockManager.open(root) as manager:
        return transactions.decide(manager, lambda view: renewal(view, key, client, length))


def renewal(view: View, start: str, client: Witness, length: int) -> Decision[bool]:
    """Renew the leases that would end by time, of all agents of this client whose keys begin with
    `start`, as soon as RENEW_PART of their time has passed. The outcome is whether the agents have
    leases: one without an end may get one later. Ended leases are removed, and their files go to
    the waiting holders."""
    draft = Draft(view)
    found = False
    for grant in view.held_within(start):
        if grant.holder.witness != client:  # from an earlier process of the session
            continue
        why = fate(draft, grant)
        if why:
            if not steal_only(grant):
                draft.end(grant, events.LOCK_REAPED, why=why)
            continue
        if grant.ttl is not None:
            continue
        found = True
        ends = expiry(draft, grant)
        if ends is None:
            continue
        if ends - draft.now <= length * (1 - RENEW_PART):
            draft.extend(grant, expires_at=draft.now + length, idle_at=grant.idle_at)
    hand_over(draft)
    return draft.done(found)


def _wait(client: Witness, seconds: float) -> None:
    """Wait so long, or until the client ends. If it has ended, one of its commands still runs, so
    wait only briefly."""
    descriptor = -1
    try:
        descriptor = os.pidfd_open(client.pid)
    except (OSError, AttributeError):  # it has ended, or this system cannot tell
        pass
    try:
        if descriptor < 0 or is_dead(client, ()) is not False:
            sleep(min(seconds, LOOK_SECONDS))
            return
        from select import POLLIN, poll

        watch = poll()
        watch.register(descriptor, POLLIN)
        watch.poll(seconds * 1000)
    finally:
        if descriptor >= 0:
            os.close(descriptor)
