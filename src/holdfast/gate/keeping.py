"""A keeper: a small process beside a client that others cannot judge, such as one in a container.

The leases of such a client end by time. While it lives, its keeper lets those that have an end last
on, all that the agents of one session have, so that a long turn without any event costs it nothing.
A lease that was taken for a time of its own ends when that is over. When the client dies, what no
running command keeps is given back at once, for nobody else could know. The keeper ends when
nothing is left to keep, and when the ledger is gone.

There is one for each session: a file beside the ledger says which. Between two renewals nothing of
the repository is open, and nothing is inherited from the hook that started it: no descriptor that a
client waits for, and no variable by which it would be taken for a command of the agent.
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
from holdfast.core.waiting import hand_over
from holdfast.manager.calls import named
from holdfast.manager.liveness import is_dead, own_witness, witness_of
from holdfast.manager.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.model import Decision, Witness
    from holdfast.core.view import View

#: Under the root: a file for each session that has a keeper.
FOLDER = f"{LEDGER_FOLDER}/keepers"
LEDGER = f"{LEDGER_FOLDER}/ledger.db"
#: How much of a lease may pass before it is renewed.
RENEW_PART = 1 / 3
#: How soon a ledger that could not be reached is tried again.
RETRY_SECONDS = 5.0
#: How often to look for what has no way to tell us that it has ended.
LOOK_SECONDS = 1.0

_BYTES_MAX = 300
_SOURCE = __file__.removesuffix("/holdfast/gate/keeping.py")
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); "
    "from holdfast.gate.keeping import main; main(sys.argv[1:])"
)


def start(root: str, key: str, client: Witness, seconds: float) -> int:
    """Start a keeper for all whose keys start like this, unless this client has one. Its leases
    last so long from each renewal. The pid of the new process, or 0. Never raises."""
    if sys.platform != "linux" or not sys.executable:
        return 0
    words = [root, key, str(client.pid), str(client.start), repr(float(seconds))]
    silence = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    try:
        if is_dead(client, ()) is not False or _is_kept(_said(_file(root, key)), client):
            return 0
        return os.posix_spawn(
            sys.executable, [sys.executable, "-I", "-S", "-c", _PROGRAM, _SOURCE, *words], {},
            file_actions=silence, setsid=True,
        )  # fmt: skip
    except (OSError, NotImplementedError):
        return 0


def main(arguments: list[str]) -> None:
    """The process itself."""
    os.chdir("/")
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:  # that by which they were listed
                pass
    root, key, pid, start, seconds = arguments
    client = witness_of(int(pid))
    if client is not None and client.start == int(start):
        keep(root, key, client, float(seconds))


def keep(root: str, key: str, client: Witness, seconds: float) -> None:
    """Renew until there is no reason to."""
    file = _file(root, key)
    own = own_witness()
    text = f"{own.pid} {own.start} {client.pid} {client.start} {own.namespace}"
    try:
        if not _claimed(file, text, client):
            return
        pause = seconds * RENEW_PART
        while _said(file) == text:
            try:
                if not _renewed(root, key, seconds):
                    break
                _wait(client, pause)
            except StoreError:
                if is_dead(client, ()) is not False:
                    break
                _wait(client, min(RETRY_SECONDS, pause / 4))
        _give_up(file, text)
    except FileNotFoundError:  # the ledger's folder
        pass


def _renewed(root: str, key: str, seconds: float) -> bool:
    from holdfast.manager import services
    from holdfast.manager.manager import LockManager

    if not os.path.lexists(f"{root}/{LEDGER}"):
        return False
    with LockManager.open(root) as manager:
        return services.decide(manager, lambda view: renewal(view, key, round(seconds * SECOND)))


def renewal(view: View, start: str, length: int) -> Decision[bool]:
    """Let all leases last so long from now that would end by time otherwise, of all whose keys
    start like this, as soon as a part of that has passed. Whether there is anything to keep: a
    lease that has no end yet may be given one. What has ended is cleared away, and goes to those
    who wait for it."""
    draft = Draft(view)
    found = False
    for grant in view.held_within(start):
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
    """Wait so long, or until the client ends. If it has ended, a command of its is left: look again
    soon."""
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


# Which process it is


def _file(root: str, key: str) -> str:
    return f"{root}/{FOLDER}/{named(key)}"


def _said(file: str) -> str:
    """The keeper's process, the client's, and their pid namespace; empty if there is none."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        return os.read(descriptor, _BYTES_MAX).decode("ascii", "replace")
    finally:
        os.close(descriptor)


def _is_kept(said: str, client: Witness) -> bool:
    """Whether that names a keeper of this very client, and it lives."""
    fields = said.split(" ", 4)
    if fields[2:] != [str(client.pid), str(client.start), client.namespace]:
        return False
    keeper = witness_of(int(fields[0])) if fields[0].isdecimal() else None
    return keeper is not None and str(keeper.start) == fields[1]


def _claimed(file: str, text: str, client: Witness) -> bool:
    try:
        os.mkdir(file.rpartition("/")[0])
    except FileExistsError:
        pass
    descriptor = _locked(file)
    try:
        if _is_kept(_said(file), client):
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode("ascii", "replace"), 0)
        return True
    finally:
        os.close(descriptor)


def _give_up(file: str, text: str) -> None:
    if _said(file) != text:
        return
    descriptor = _locked(file)
    try:
        if _said(file) == text:
            os.unlink(file)
    finally:
        os.close(descriptor)


def _locked(file: str) -> int:
    """The file, locked, while it is the one that has this name."""
    from fcntl import LOCK_EX, flock

    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            flock(descriptor, LOCK_EX)
            if os.fstat(descriptor).st_ino == os.stat(file).st_ino:
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
