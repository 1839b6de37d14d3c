"""The lookout: a small process that notifies people when a file comes free that blocks an agent.

A commit, the end of a session, a person's `unlock`, a death or an expired lease may free the file,
perhaps while no other process of ours runs. So where `notify` is set there is one process for a
repository (`gate.side_process`), from the moment that an agent is blocked until none is. It is
woken by changes of the ledger, and checks twice a second for deaths and expiries, which no process
writes.

Notifications are recorded in the ledger, so a killed lookout is replaced without repeating one: by
the next hook that meets a blocked agent or frees its file, or by `holdfast blockers`.
"""

from __future__ import annotations

import os
from time import monotonic, sleep

from holdfast.core.errors import StoreError
from holdfast.gate import side_process
from holdfast.gate.config.settings import Settings
from holdfast.gate.people.notices import LOOKOUT, tell_free
from holdfast.gate.rulebook import unblocking
from holdfast.manager import transactions
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.ledger import Ledger
from holdfast.manager.ledger_location import has_ledger, is_on_server
from holdfast.store.sqlite.wake_ups import FOLLOWER, Mailbox, Post

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.store.contract import Store

#: How often to check whether owners are alive and leases have expired.
LOOK_SECONDS = 0.5
#: A ledger that cannot be read for this long is broken; the next block starts another lookout.
PATIENCE_SECONDS = 300.0
#: Events within this time are examined together.
SETTLE_SECONDS = 0.05


def run(words: list[str]) -> None:
    """The process itself."""
    (root,) = words
    place = side_process.Place(root, LOOKOUT)
    try:
        while has_ledger(root) and place.claim():
            is_done = _looked(root, place)
            place.give_up()
            # An agent that was blocked just before that counts on this lookout.
            if not is_done or not _is_any_agent_blocked(root):
                break
    except FileNotFoundError:  # the ledger's folder
        pass


def _looked(root: str, place: side_process.Place) -> bool:
    """Watch, and notify people, until no agent is blocked. False if it ends for another reason."""
    reached = monotonic()
    with Ledger.at(root) as manager:
        ears = _ears(root, manager)
        while place.is_ours() and has_ledger(root) and monotonic() < reached + PATIENCE_SECONDS:
            try:
                found = transactions.look(manager, unblocking.look_out)
                reached = monotonic()
                if not found.outcome[1]:
                    return True
                if found.events:
                    command = Settings.load(root, lenient=True).notify
                    if not command:
                        return False
                    for block in transactions.decide(manager, unblocking.look_out)[0]:
                        tell_free(command, root, block)
            except StoreError:
                pass  # it may be better a moment later
            ears.listen()
            _bury()
    return False


def _is_any_agent_blocked(root: str) -> bool:
    if not has_ledger(root):
        return False
    with Ledger.at(root) as manager:
        return bool(transactions.look(manager, unblocking.look_out).outcome[1])


def _bury() -> None:
    """Reap the notification commands that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _ears(root: str, manager: Ledger) -> _Ears | _Events:
    return _Events(manager.store) if is_on_server(root) else _Ears(f"{root}/{LEDGER_FOLDER}")


class _Events:
    """Waits for events of a ledger on a server."""

    __slots__ = ("_seen", "_store")

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen = 0

    def listen(self) -> None:
        """Wait until it is time to look again. The first time that is at once: there are events
        that were not seen."""
        try:
            last = self._store.wait(self._seen, LOOK_SECONDS)
        except StoreError:
            sleep(LOOK_SECONDS)
            return
        if last > self._seen:
            self._seen = last
            sleep(SETTLE_SECONDS)


class _Ears:
    """Waits for writes to the ledger without opening it, because that would create a new one if it
    is gone."""

    __slots__ = ("_mailbox", "_post")

    def __init__(self, folder: str) -> None:
        self._post = Post(folder)
        self._mailbox = Mailbox(self._post, FOLLOWER)

    def listen(self) -> None:
        """Wait until it is time to look again."""
        if not self._mailbox.hears:
            sleep(LOOK_SECONDS)
        elif self._mailbox.wait(LOOK_SECONDS):
            sleep(SETTLE_SECONDS)
        if not self._mailbox.reset():
            self._mailbox = Mailbox(self._post, FOLLOWER)
