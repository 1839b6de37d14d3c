"""The lookout: a small process that tells people when a file comes free that blocks an agent.

Whatever frees it: a commit, the end of a session, a person's `unlock`, a death, a lease whose time
is over. Nobody may be there then to say so, so somebody looks: one process for a repository
(`gate.beside`), from the moment that an agent is blocked until none is, where `notify` is set. It
hears of what is written to the ledger, and looks twice a second at what nobody writes.

What has been told stands in the ledger, so one that is killed is replaced without a word too many:
by the next hook that meets a blocked agent or frees its file, or when somebody looks who is
blocked.
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
from holdfast.store.wake_ups import FOLLOWER, Mailbox, Post

#: How often to look whether owners live, and whether the time of a lease is over.
LOOK_SECONDS = 0.5
#: A ledger that could not be read for so long is broken; the next that is blocked starts another.
PATIENCE_SECONDS = 300.0
#: So much of what happens in the ledger at once is looked at once.
SETTLE_SECONDS = 0.05


def run(words: list[str]) -> None:
    """The process itself."""
    (root,) = words
    place = side_process.Place(root, LOOKOUT)
    try:
        while _is_there(root) and place.claim():
            is_done = _looked(root, place)
            place.give_up()
            # One that was blocked before that has taken us for its lookout.
            if not is_done or not _is_anybody_blocked(root):
                break
    except FileNotFoundError:  # the ledger's folder
        pass


def _looked(root: str, place: side_process.Place) -> bool:
    """Look, and tell people, until nobody is blocked any more. False if there is another reason to
    end."""
    ears = _Ears(f"{root}/{LEDGER_FOLDER}")
    reached = monotonic()
    with Ledger.at(root) as manager:
        while place.is_ours() and _is_there(root) and monotonic() < reached + PATIENCE_SECONDS:
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


def _is_there(root: str) -> bool:
    """Whether there is a ledger: whoever opens one that is not makes it."""
    return os.path.lexists(f"{root}/{LEDGER_FOLDER}/ledger.db")


def _is_anybody_blocked(root: str) -> bool:
    if not _is_there(root):
        return False
    with Ledger.at(root) as manager:
        return bool(transactions.look(manager, unblocking.look_out).outcome[1])


def _bury() -> None:
    """Of the commands that told people, nothing is left when they have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class _Ears:
    """Hears that something is written to the ledger. Without opening it, for that would make
    another if it is gone."""

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
