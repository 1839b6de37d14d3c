"""Programs below `run --lease` that change their identity, or attack the broker.

    python lease_siege_programs.py NAME [WORD...]

They print the result of each attempt, one per line: `ok`, or the name of the error.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lease_calls import kernel

NOBODY = 65534
PROGRAMS: dict[str, Callable[..., object]] = {}


def program(function: Callable[..., object]) -> Callable[..., object]:
    PROGRAMS[function.__name__] = function
    return function


def say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def tell(what: Callable[..., object], *given: object) -> None:
    """Try something, and print the result."""
    try:
        found = what(*given)
    except OSError as error:
        say(errno.errorcode[error.errno or 0])
        return
    say(errno.errorcode[-found] if isinstance(found, int) and found < 0 else "ok")


def write(path: str) -> None:
    with open(path, "r+b") as file:
        file.write(b"changed")


def changes(path: str) -> None:
    """All kinds of changes to a file, none of which the broker may make for a caller whose identity
    is not that of the command at its start."""
    tell(write, path)
    tell(os.truncate, path, 0)
    tell(os.chmod, path, 0o600)
    tell(os.utime, path, (1, 2))
    tell(os.setxattr, path, "user.new", b"x")
    tell(os.rename, path, f"{path}.gone")
    tell(os.unlink, path)
    tell(os.mkdir, "new")


# Programs that change their identity


@program
def another_user() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    changes("free.txt")


@program
def another_user_of_files() -> None:
    """Become another user for the file system only."""
    kernel(122, NOBODY)  # setfsuid
    changes("free.txt")


@program
def another_user_in_a_thread() -> None:
    """Become another user in one thread, by the system call: the C library would change all
    threads."""

    def do() -> None:
        kernel(117, NOBODY, NOBODY, NOBODY)  # setresuid
        changes("free.txt")

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


@program
def other_groups() -> None:
    os.setgroups([NOBODY])
    changes("free.txt")


@program
def fewer_capabilities() -> None:
    """Drop the capabilities with which root writes another user's read-only file."""
    head = struct.pack("=Ii", 0x20080522, 0)
    room = ctypes.create_string_buffer(24)
    assert kernel(125, head, room) == 0  # capget
    fields = list(struct.unpack("=6I", room.raw))
    for at in (0, 1):
        fields[at] &= ~0b1111  # chown, dac_override, dac_read_search, fowner
    assert kernel(126, head, struct.pack("=6I", *fields)) == 0  # capset
    changes("free.txt")


@program
def another_user_namespace() -> None:
    assert kernel(272, 0x10000000) == 0
    changes("free.txt")


@program
def another_mount_namespace() -> None:
    assert kernel(272, 0x20000) == 0
    changes("free.txt")


@program
def another_root() -> None:
    os.chroot(".")
    os.chdir("/")
    changes("/free.txt")


def restrict() -> None:
    """Forbid this process all writes from here on."""
    ruleset = kernel(444, struct.pack("=Q", 0x7FFF & ~0b1101), 8, 0)
    assert ruleset >= 0
    assert kernel(157, 38, 1, 0, 0, 0) == 0
    assert kernel(446, ruleset, 0) == 0
    os.close(ruleset)


@program
def restricted() -> None:
    restrict()
    changes("free.txt")


@program
def restricted_parent() -> None:
    restrict()
    if os.fork() == 0:
        changes("free.txt")
        os._exit(0)
    os.wait()


@program
def restricted_thread() -> None:
    def do() -> None:
        restrict()
        changes("free.txt")

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


@program
def restricted_thread_then_another_program() -> None:
    def do() -> None:
        restrict()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, __file__, "plain"])
        os.wait()

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


@program
def restricted_daemon() -> None:
    restrict()
    heard, told = os.pipe()
    if os.fork() == 0:
        between = os.getpid()
        if os.fork() == 0:
            os.setsid()
            while os.getppid() == between:
                time.sleep(0.01)
            changes("free.txt")
            os.write(told, b"x")
            os._exit(0)
        os._exit(0)
    os.wait()
    os.read(heard, 1)


@program
def plain() -> None:
    changes("free.txt")


@program
def unlike_others() -> None:
    """After one process became another user, the rest of the command is still served."""
    if os.fork() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        with suppress(OSError):
            write("free.txt")
        os._exit(0)
    os.wait()
    tell(write, "free.txt")


# Programs that attack the broker


@program
def at_the_broker(*pids: str) -> None:
    for pid in map(int, pids):
        room = ctypes.create_string_buffer(8)
        vector = struct.pack("=QQ", ctypes.addressof(room), 8)
        tell(kernel, 101, 16, pid, 0, 0)  # PTRACE_ATTACH
        tell(kernel, 101, 0x4206, pid, 0, 0)  # PTRACE_SEIZE
        tell(kernel, 311, pid, vector, 1, vector, 1, 0)  # process_vm_writev
        tell(kernel, 310, pid, vector, 1, vector, 1, 0)  # process_vm_readv
        for name in ("mem", "oom_score_adj", "comm", "coredump_filter", "clear_refs"):
            tell(os.open, f"/proc/{pid}/{name}", os.O_WRONLY)
        pidfd = kernel(434, pid, 0)
        for fd in range(12):
            tell(kernel, 438, pidfd, fd, 0)  # pidfd_getfd
        tell(kernel, 302, pid, 7, struct.pack("=QQ", 0, 0), None)  # prlimit
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
            tell(os.kill, pid, number)
        tell(kernel, 424, pidfd, signal.SIGKILL, None, 0)  # pidfd_send_signal


@program
def second_listener() -> None:
    """Try a second listener, which would get the calls first and could let all of them continue."""
    held = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000), 8)
    filter = struct.pack("=H6xQ", 1, ctypes.addressof(held))
    assert kernel(157, 38, 1, 0, 0, 0) == 0
    tell(kernel, 317, 1, 8, filter)
    tell(kernel, 317, 1, 0, filter)  # filters without a listener may be added without limit
    tell(write, "free.txt")


@program
def own_filter_that_allows() -> None:
    """Calls that a second filter allows are still reported to the broker."""
    held = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000), 8)
    filter = struct.pack("=H6xQ", 1, ctypes.addressof(held))
    assert kernel(317, 1, 0, filter) == 0
    tell(write, "held.txt")


@program
def unix_socket() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        tell(one.bind, "held.txt")
    with socket.socket(socket.AF_UNIX) as one:
        tell(one.bind, "sub/socket")


# Programs that make it wait


@program
def pipe_that_nobody_reads(path: str) -> None:
    os.mkfifo(path)
    say("made")
    os.open(path, os.O_WRONLY)
    say("opened")


@program
def pipes() -> None:
    """Open both ends of a pipe in two threads: each waits for the other."""
    os.mkfifo("pipe")
    got: list[bytes] = []

    def read() -> None:
        with open("pipe", "rb") as file:
            got.append(file.read())

    thread = threading.Thread(target=read)
    thread.start()
    with open("pipe", "wb") as file:
        file.write(b"through")
    thread.join()
    say(got[0].decode())


@program
def leased_by_the_kernel() -> None:
    """A file with a kernel lease: an open waits until the lease is released."""
    import fcntl

    signal.signal(signal.SIGIO, signal.SIG_IGN)
    kept = os.open("free.txt", os.O_RDONLY)
    fcntl.fcntl(kept, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    opened = threading.Event()

    def do() -> None:
        write("free.txt")
        opened.set()

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    time.sleep(0.5)
    say(str(opened.is_set()))
    tell(write, "sub/free.txt")  # served meanwhile
    fcntl.fcntl(kept, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    thread.join()
    say(Path("free.txt").read_text()[:7])


@program
def many_waiters(count: str) -> None:
    """Many threads wait for a held file; this one continues."""
    came: list[str] = []

    def do(name: str) -> None:
        try:
            write(name)
            came.append("ok")
        except OSError as error:
            came.append(errno.errorcode[error.errno or 0])

    names = ("held.txt", "sub/held.txt")
    threads = [threading.Thread(target=do, args=[names[at % 2]]) for at in range(int(count))]
    for thread in threads:
        thread.start()
    for at in range(50):
        Path(f"new-{at}.txt").write_text("new\n")
    say("went on")
    for thread in threads:
        thread.join()
    say(" ".join(f"{one}:{came.count(one)}" for one in sorted({*came})))


@program
def killed_in_mid_call(count: str) -> None:
    """Children that are killed during their calls."""
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            while True:
                for name in ("free.txt", "held.txt"):
                    with suppress(OSError):
                        write(name)
                os.rename("free.txt", "free2.txt")
                os.rename("free2.txt", "free.txt")
        time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with suppress(FileNotFoundError):
            os.rename("free2.txt", "free.txt")
    say("done")


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
