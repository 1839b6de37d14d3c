"""Networks that fail: a proxy that drops connections or swallows them, and a host with a cable.

`Proxy` stands between clients and a server on this machine. `Host` is a network of its own, with
one link to ours that a test cuts and restores, as root on Linux only; packets are then lost without
a word, as with a pulled cable.
"""

from __future__ import annotations

import os
import secrets
import select
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType

import pytest

#: How often a thread of the proxy looks for what the test wants.
TICK_SECONDS = 0.05
#: Addresses of the links: blocks of four out of a private network.
NETWORK = "10.213"


class Proxy:
    """Forwards connections to a port of this machine, until told otherwise."""

    def __init__(self, target: int, address: str = "127.0.0.1") -> None:
        self.target = target
        self.listener = socket.create_server((address, 0), backlog=512)
        self.port: int = self.listener.getsockname()[1]
        #: How many connections were accepted.
        self.accepted = 0
        self._pairs: dict[int, tuple[socket.socket, socket.socket]] = {}
        self._mutex = threading.Lock()
        self._is_silent = False
        self._refuses = False
        self._over = False
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._thread.start()

    # What a test does to it

    def drop(self) -> int:
        """Reset all connections; new ones are accepted. Returns how many there were."""
        with self._mutex:
            pairs, self._pairs = {id(pair): pair for pair in self._pairs.values()}, {}
            for pair in pairs.values():
                for end in pair:
                    _reset(end)
        return len(pairs)

    def refuse(self) -> None:
        """Reset all connections, and every new one immediately."""
        self._refuses = True
        self.drop()

    def silence(self) -> None:
        """Forward nothing any more, and say nothing about it."""
        self._is_silent = True

    def restore(self) -> None:
        """Forward again, also what was sent meanwhile."""
        self._refuses = self._is_silent = False

    # Forwarding

    def _forward(self) -> None:
        while not self._over:
            with self._mutex:
                ends = list(self._pairs)
            watched = [self.listener.fileno(), *([] if self._is_silent else ends)]
            poll = select.poll()
            for end in watched:
                poll.register(end, select.POLLIN)
            for end, _event in poll.poll(TICK_SECONDS * 1000):
                if end == self.listener.fileno():
                    self._accept()
                else:
                    self._pass_on(end)

    def _accept(self) -> None:
        client, _address = self.listener.accept()
        self.accepted += 1
        if self._refuses:
            _reset(client)
            return
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            _reset(client)
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(5)
        with self._mutex:
            self._pairs[client.fileno()] = self._pairs[server.fileno()] = (client, server)

    def _pass_on(self, end: int) -> None:
        with self._mutex:
            pair = self._pairs.get(end)
            if pair is None:
                return
            source, other = pair if pair[0].fileno() == end else pair[::-1]
            try:
                data = source.recv(65_536, socket.MSG_DONTWAIT)
                if data:
                    other.sendall(data)
                    return
            except BlockingIOError:  # the number belongs to another connection by now
                return
            except OSError:
                pass
            for one in (source, other):
                self._pairs.pop(one.fileno(), None)
                one.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._thread.join(10)
        self.drop()
        self.listener.close()


def _reset(end: socket.socket) -> None:
    """Close a connection so that its other end is told at once."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    end.close()


def wrong_clock(offset: str) -> list[str]:
    """What to put before a command that is to believe in another time of day, such as +10m."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        pytest.skip("needs faketime: apt-get install faketime")
    # The library leaves a few bytes of shared memory behind for each program that was killed.
    for left in Path("/dev/shm").glob("*faketime_s*_*"):
        if not Path(f"/proc/{left.name.rpartition('_')[2]}").exists():
            left.unlink(missing_ok=True)
    return ["env", f"LD_PRELOAD={found[0]}", f"FAKETIME={offset}", "DONT_FAKE_MONOTONIC=1"]


class Host:
    """A network of its own, in which a test runs programs. It reaches our end of its cable only.

    It has our clocks, processes and files; a test gives it a machine's id of its own.
    """

    def __init__(self) -> None:
        if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("ip"):
            pytest.skip("needs root and iproute2, to make a network of its own (apt-get install)")
        self.name = f"hold{secrets.token_hex(3)}"
        block = secrets.randbelow(64 * 256)
        self.address = f"{NETWORK}.{block // 64}.{block % 64 * 4 + 1}"
        inside = f"{NETWORK}.{block // 64}.{block % 64 * 4 + 2}"
        self._outer, self._inner = f"{self.name}o", f"{self.name}i"
        if _ip("netns", "add", self.name).returncode:
            pytest.skip("needs the right to make a network of its own")
        try:
            for words in (
                f"link add {self._outer} type veth peer name {self._inner}",
                f"link set {self._inner} netns {self.name}",
                f"addr add {self.address}/30 dev {self._outer}",
                f"link set {self._outer} up",
                f"-n {self.name} addr add {inside}/30 dev {self._inner}",
                f"-n {self.name} link set {self._inner} up",
                f"-n {self.name} link set lo up",
            ):
                _ip(*words.split()).check_returncode()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    @property
    def prefix(self) -> list[str]:
        """What to put before a command, to run it there."""
        return ["ip", "netns", "exec", self.name]

    def cut(self) -> None:
        """Pull the cable at our end: all packets are lost, and programs there are not told."""
        _ip("link", "set", self._outer, "down").check_returncode()

    def mend(self) -> None:
        """Put the cable back."""
        _ip("link", "set", self._outer, "up").check_returncode()

    def __enter__(self) -> Host:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        _ip("link", "del", self._outer)
        _ip("netns", "del", self.name)


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True)
