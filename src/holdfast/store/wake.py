"""How a process that waits is woken: a datagram to a socket beside the ledger.

Whoever commits sends to exactly those it served, and to those who follow the ledger, so a crowd
of waiters does not stampede. A wake-up is a hint and may be lost (another user's socket, a full
queue, a path too long for a socket): everybody also looks again after a while.

Linux and macOS. Elsewhere nobody is woken and everybody looks again at short intervals.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket

WAITER = "wake-w"
FOLLOWER = "wake-f"

#: The longest path that a socket can have everywhere.
_PATH_BYTES_MAX = 100


def _socket() -> socket | None:
    try:
        import _socket as module

        made = module.socket(module.AF_UNIX, module.SOCK_DGRAM)
    except (ImportError, AttributeError, OSError):
        return None
    made.setblocking(False)
    return made


class Mailbox:
    """A socket that hears when it is called by its address. Not to be shared between threads."""

    __slots__ = ("_folder", "_socket", "address", "pid")

    def __init__(self, post: Post, kind: str) -> None:
        self.pid = os.getpid()
        self._folder = post
        self.address = f"{kind}{self.pid}-{os.urandom(6).hex()}"
        self._socket = _socket()
        if self._socket is None:
            return
        try:
            self._socket.bind(post.path_of(self.address))
        except OSError:
            self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        # Lost to an interrupt, or never given back: nobody will know of this address any more.
        try:
            self.close()
        except Exception:  # at the end of the interpreter anything may be gone already
            pass

    @property
    def hears(self) -> bool:
        """Whether it can be woken at all."""
        return self._socket is not None

    def wait(self, timeout: float) -> bool:
        """Wait to be called, at most so many seconds; look again soon if nobody can call."""
        if self._socket is None:
            from time import sleep

            sleep(max(0.0, min(timeout, 0.02)))
            return True
        try:
            self._socket.settimeout(max(0.0, timeout))
            self._socket.recv(1)
        except (BlockingIOError, TimeoutError):
            return False
        return True

    def reset(self) -> bool:
        """Forget calls that were meant for an earlier wait. False if nobody can call any more."""
        if self._socket is None:
            return True
        if not os.path.exists(f"{self._folder.folder}/{self.address}"):
            self._socket.close()
            return False
        self._socket.setblocking(False)
        try:
            while True:
                self._socket.recv(1)
        except BlockingIOError:
            return True

    def close(self) -> None:
        """Remove the address."""
        if self._socket is not None and self.pid == os.getpid():
            self._socket.close()
            self._socket = None
            self._folder.remove(self.address)


class PooledMailbox:
    """A mailbox that is kept for the next one who waits."""

    __slots__ = ("_mailbox", "_pool", "address")

    def __init__(self, pool: list[Mailbox], mailbox: Mailbox) -> None:
        self._pool = pool
        self._mailbox = mailbox
        self.address = mailbox.address if mailbox.hears else ""

    def wait(self, timeout: float) -> bool:
        """Wait to be called."""
        return self._mailbox.wait(timeout)

    def close(self) -> None:
        """Give the mailbox back."""
        if self._mailbox.pid == os.getpid() and self._mailbox not in self._pool:
            self._pool.append(self._mailbox)


class Post:
    """The folder of addresses, and the way to call them."""

    __slots__ = ("_descriptor", "_followers", "_pid", "_senders", "folder")

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._pid = os.getpid()
        #: From which it calls, once it has. Two threads may make one at once: the first counts.
        self._senders: dict[str, socket] = {}
        self._descriptor = -1
        self._followers: list[str] = []

    def path_of(self, address: str) -> str:
        """The path of an address, short enough for a socket however deep the repository lies."""
        path = f"{self.folder}/{address}"
        if len(os.fsencode(path)) <= _PATH_BYTES_MAX or not os.path.isdir("/proc/self/fd"):
            return path
        if self._descriptor < 0 or self._pid != os.getpid():
            self._pid = os.getpid()
            self._descriptor = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._descriptor}/{address}"

    def call(self, addresses: tuple[str, ...]) -> None:
        """Wake these, and all who follow the ledger."""
        if self._followers:
            addresses = (*addresses, *self._followers)
        elif not addresses:
            return
        self.send(addresses)

    def send(self, addresses: tuple[str, ...]) -> None:
        """Wake these."""
        sender = self._senders.get(self.folder)
        if sender is None:
            made = _socket()
            if made is None:
                return
            sender = self._senders.setdefault(self.folder, made)
            if sender is not made:
                made.close()
        for address in addresses:
            if "/" in address:
                continue
            try:
                sender.sendto(b"!", self.path_of(address))
            except OSError as error:
                if error.errno == errno.ECONNREFUSED:  # it died and left its address behind
                    self.remove(address)

    def look(self) -> None:
        """Find out again who follows the ledger: the folder has changed."""
        self._followers = [name for name in os.listdir(self.folder) if name.startswith(FOLLOWER)]

    def sweep(self) -> int:
        """Remove the addresses of the dead. How many there were."""
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
        """Let go of the descriptors."""
        while self._senders:
            self._senders.popitem()[1].close()
        if self._descriptor >= 0 and self._pid == os.getpid():
            os.close(self._descriptor)
        self._descriptor = -1
