"""How a waiting process is woken: a datagram to a socket next to the ledger.

A commit wakes exactly the waiters that it granted, and the followers of the ledger, so a crowd of
waiters does not stampede. A wake-up is a hint and may be lost (another user's socket, a full queue,
a path too long for a socket), so every waiter also polls at long intervals.

This works on Linux and macOS. On other systems every waiter polls at short intervals.
"""

from __future__ import annotations

import os
from _weakref import ref

from holdfast.store.file_descriptors import identity_of, is_ours, on_forgetting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

    from holdfast.store.file_descriptors import Identity

WAITER = "wake-w"
FOLLOWER = "wake-f"

#: The longest path of a socket that every system accepts.
_PATH_BYTES_MAX = 100


def _socket() -> socket | None:
    try:
        import _socket as module

        made = module.socket(module.AF_UNIX, module.SOCK_DGRAM)
    except (ImportError, AttributeError, OSError):
        return None
    made.setblocking(False)
    return made


def _close(made: socket, opened: Identity) -> None:
    """Close a socket, unless its number now belongs to another file."""
    if is_ours(made.fileno(), opened):
        made.close()
    else:
        made.detach()


class Mailbox:
    """A socket that is woken through its address. Threads must not share it.

    The address also shows that a process still waits for the request: a waiter that gives up
    without being able to write that to the ledger removes it.
    """

    __slots__ = ("__weakref__", "_folder", "_opened", "_socket", "address", "kind", "pid")

    def __init__(self, post: Post, kind: str) -> None:
        self.pid = os.getpid()
        self.kind = kind
        self._folder = post
        self._opened: Identity = (0, 0)
        self.address = f"{kind}{self.pid}-{os.urandom(6).hex()}"
        self._socket = _socket()
        if self._socket is None:
            return
        self._opened = identity_of(self._socket.fileno())
        _kept.append(ref(self, _kept.remove))
        try:
            self._socket.bind(post.path_of(self.address))
        except OSError:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        # Lost to an interrupt, or never returned to the pool: no other code knows the address.
        try:
            self.close()
        except Exception:  # while the interpreter shuts down, anything may be gone already
            pass

    @property
    def hears(self) -> bool:
        """Whether it can be woken at all."""
        return self._socket is not None

    @property
    def descriptor(self) -> int:
        """Readable when it is woken; -1 if it cannot be woken."""
        return -1 if self._socket is None else self._socket.fileno()

    def wait(self, timeout: float) -> bool:
        """Wait until woken, for at most `timeout` seconds; return soon if it cannot be woken."""
        own = self._socket  # a signal handler may fork, and its child forgets open sockets
        if own is None:
            from time import sleep

            sleep(max(0.0, min(timeout, 0.02)))
            return True
        try:
            own.settimeout(max(0.0, timeout))
            own.recv(1)
        except (BlockingIOError, TimeoutError):
            return False
        except OSError:
            if self._socket is not None:
                raise
            # This is such a child: the wait belongs to the parent.
        return True

    def reset(self) -> bool:
        """Discard wake-ups for an earlier wait. False if it can no longer be woken."""
        own = self._socket  # a signal handler may fork, and its child forgets open sockets
        if own is None:
            return True
        if not os.path.exists(f"{self._folder.folder}/{self.address}"):
            own.close()
            return False
        try:
            own.setblocking(False)
            while True:
                own.recv(1)
        except BlockingIOError:
            return True
        except OSError:
            if self._socket is not None:
                raise
            return False  # this is such a child, and the address belongs to the parent

    def close(self) -> None:
        """Remove the address."""
        if self._socket is not None and self.pid == os.getpid():
            self.let_go()
            self._folder.remove(self.address)

    def let_go(self) -> None:
        """Close the socket, or this process's copy of it. The address stays."""
        made, self._socket = self._socket, None
        if made is not None:
            _close(made, self._opened)


class PooledMailbox:
    """A mailbox that is kept for the next wait of this process."""

    __slots__ = ("_mailbox", "_post", "address")

    def __init__(self, post: Post, mailbox: Mailbox) -> None:
        self._post = post
        self._mailbox = mailbox
        self.address = mailbox.address if mailbox.hears else ""

    @property
    def descriptor(self) -> int:
        """Readable when it is woken; -1 if it cannot be woken."""
        return self._mailbox.descriptor

    def wait(self, timeout: float) -> bool:
        """Wait until woken."""
        return self._mailbox.wait(timeout)

    def close(self) -> None:
        """Return the mailbox to the pool."""
        self._post.keep(self._mailbox)

    def discard(self) -> None:
        """Remove the address: no process waits any more for the request that has it."""
        self._mailbox.close()


class Post:
    """The folder of addresses, and the means to wake them."""

    __slots__ = (
        "__weakref__", "_descriptor", "_followers", "_idle", "_opened", "_pid", "_senders",
        "folder",
    )  # fmt: skip

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._pid = os.getpid()
        #: The sending socket, once there is one. If two threads create one, the first is used.
        self._senders: dict[str, tuple[socket, Identity]] = {}
        self._descriptor = -1
        self._opened: Identity = (0, 0)
        self._followers: list[str] = []
        #: The mailboxes that no thread is using. A process that has waited once will wait again,
        #: and a new address would change the folder, which every other process then lists.
        self._idle: dict[str, list[Mailbox]] = {WAITER: [], FOLLOWER: []}
        _kept.append(ref(self, _kept.remove))

    def mailbox(self, kind: str) -> PooledMailbox:
        """An address of this process that no thread uses."""
        idle = self._idle[kind]
        while idle:
            mailbox = idle.pop()
            if mailbox.pid == os.getpid() and mailbox.reset():
                return PooledMailbox(self, mailbox)
        return PooledMailbox(self, Mailbox(self, kind))

    def has_idle(self, kind: str) -> bool:
        """Whether there is an unused mailbox."""
        return bool(self._idle[kind])

    def keep(self, mailbox: Mailbox) -> None:
        """Keep a mailbox for the next wait."""
        idle = self._idle[mailbox.kind]
        if mailbox.pid == os.getpid() and mailbox not in idle:
            idle.append(mailbox)

    def path_of(self, address: str) -> str:
        """The path of an address, short enough for a socket however deep the repository is."""
        path = f"{self.folder}/{address}"
        if len(os.fsencode(path)) <= _PATH_BYTES_MAX or not os.path.isdir("/proc/self/fd"):
            return path
        if self._descriptor < 0 or self._pid != os.getpid():
            self._pid = os.getpid()
            self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            self._opened = identity_of(self._descriptor)
        return f"/proc/self/fd/{self._descriptor}/{address}"

    def call(self, addresses: tuple[str, ...]) -> None:
        """Wake these addresses, and all followers of the ledger."""
        if self._followers:
            addresses = (*addresses, *self._followers)
        elif not addresses:
            return
        self.send(addresses)

    def send(self, addresses: tuple[str, ...]) -> None:
        """Wake these addresses."""
        known = self._senders.get(self.folder)
        if known is None:
            made = _socket()
            if made is None:
                return
            known = self._senders.setdefault(self.folder, (made, identity_of(made.fileno())))
            if known[0] is not made:
                made.close()
        sender = known[0]
        for address in addresses:
            if "/" in address:
                continue
            try:
                sender.sendto(b"!", self.path_of(address))
            except ConnectionRefusedError:  # its process died
                self.remove(address)
            except OSError:
                pass

    def look(self) -> None:
        """List the followers of the ledger again, after the folder has changed."""
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            names = []  # the ledger has just been moved away, with its followers
        self._followers = [name for name in names if name.startswith(FOLLOWER)]

    def sweep(self) -> int:
        """Remove the addresses of dead processes. Returns how many there were."""
        swept = 0
        sender = _socket()
        if sender is None:
            return 0
        try:
            for name in os.listdir(self.folder):
                if not name.startswith("wake-"):
                    continue
                try:
                    sender.connect(self.path_of(name))
                except ConnectionRefusedError:
                    self.remove(name)
                    swept += 1
                except OSError:
                    continue
        finally:
            sender.close()
        return swept

    def remove(self, address: str) -> None:
        """Remove one address."""
        try:
            os.unlink(f"{self.folder}/{address}")
        except OSError:
            pass

    def close(self) -> None:
        """Remove the unused addresses, and close the descriptors."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()
        self.let_go()

    def let_go(self) -> None:
        """Close the descriptors, or this process's copies of them."""
        while self._senders:
            _close(*self._senders.popitem()[1])
        if self._descriptor >= 0 and is_ours(self._descriptor, self._opened):
            os.close(self._descriptor)
        self._descriptor = -1


_kept: list[ref[Mailbox] | ref[Post]] = []


def _forget(_still_ours: bool) -> None:
    for known in list(_kept):
        kept = known()
        if kept is not None:
            kept.let_go()


on_forgetting(_forget)
