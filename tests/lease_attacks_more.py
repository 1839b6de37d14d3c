"""The rest of the attacks: after the caller's identity changed, and on more than a file's bytes.

    python lease_attacks_more.py FOLDER NAME...

Each attack is tried by a process of its own in `FOLDER/NAME`. Prints one line of JSON: for each
attack its result, the state of the held files then, and whether a free file can still be written.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import struct
import sys
from pathlib import Path

from lease_attacks import (
    ATTACKS,
    EMPTY,
    HERE,
    NEWNS,
    NEWUSER,
    NOBODY,
    PATIENCE_SECONDS,
    attack,
    change,
    must,
    of,
    rarely,
    state,
)
from lease_calls import kernel

MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000


@attack
def by_a_daemon() -> None:
    heard, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            try:
                change("held.txt")
            finally:
                os.write(told, b"x")
                os._exit(0)
        os._exit(0)
    os.wait()
    os.read(heard, 1)


@attack
def after_another_program() -> None:
    code = "open('held.txt', 'w').write('changed')"
    os.execv(sys.executable, [sys.executable, "-c", code])


@attack
def by_one_that_cannot_be_looked_at() -> None:
    must(kernel(157, 4, 0, 0, 0, 0))  # PR_SET_DUMPABLE
    change("held.txt")


@attack
def with_another_root() -> None:
    os.chroot(".")
    change("/held.txt")


@attack
def with_another_root_and_back() -> None:
    above = os.open("/", os.O_RDONLY)
    here = os.getcwd()
    os.chroot(".")
    os.fchdir(above)
    change(f".{here}/held.txt")


@attack
def by_another_user() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(0)
    change("held.txt")


@attack
def in_another_mount_namespace() -> None:
    must(kernel(272, NEWNS))
    change("held.txt")


@rarely
def in_another_user_namespace() -> None:
    must(kernel(272, NEWUSER | NEWNS))
    change("held.txt")


@attack
def mounted_elsewhere() -> None:
    must(kernel(272, NEWNS))
    must(kernel(165, b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    must(kernel(165, b"sub", b"sub2", None, MS_BIND, None))
    change("sub2/held.txt")


@rarely
def mounted_elsewhere_in_the_new_way() -> None:
    must(kernel(272, NEWNS))
    must(kernel(165, b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    tree = must(kernel(428, -100, b"sub", 1))
    change(os.open("held.txt", os.O_WRONLY, dir_fd=tree))


@rarely
def in_the_mount_namespace_of_another() -> None:
    must(kernel(308, os.open("/proc/1/ns/mnt", os.O_RDONLY), 0))
    change("held.txt")


@rarely
def by_the_accounting_of_the_kernel() -> None:
    must(kernel(163, os.path.abspath("held.txt").encode()))
    try:
        if os.fork() == 0:
            os._exit(0)
        os.wait()
    finally:
        kernel(163, None)


# Attributes other than the bytes


@attack
def chmod() -> None:
    os.chmod("held.txt", 0o600)


@attack
def chmod_of_a_reader() -> None:
    os.fchmod(of("held.txt"), 0o600)


@attack
def chmod_by_descriptor() -> None:
    os.chmod(f"/proc/self/fd/{of('held.txt', os.O_PATH)}", 0o600)


@rarely
def chmod_with_no_path() -> None:
    must(kernel(452, of("held.txt", os.O_PATH), b"", 0o600, EMPTY))


@attack
def chown() -> None:
    os.chown("held.txt", 1, 1)


@attack
def chown_of_a_reader() -> None:
    os.fchown(of("held.txt"), 1, 1)


@attack
def lchown() -> None:
    os.lchown("held.txt", 1, 1)


@attack
def chown_with_no_path() -> None:
    must(kernel(260, of("held.txt", os.O_PATH), b"", 1, 1, EMPTY))


@attack
def times() -> None:
    os.utime("held.txt", (1, 2))


@attack
def times_of_a_reader() -> None:
    os.utime(of("held.txt"), (1, 2))


@rarely
def times_with_no_path() -> None:
    must(kernel(280, of("held.txt", os.O_PATH), b"", struct.pack("=4q", 1, 0, 2, 0), EMPTY))


@attack
def times_in_the_old_way() -> None:
    must(kernel(132, b"held.txt", struct.pack("=qq", 1, 2)))


@attack
def times_in_an_older_way() -> None:
    must(kernel(261, of("held.txt"), None, struct.pack("=4q", 1, 0, 2, 0)))


@attack
def attribute() -> None:
    os.setxattr("held.txt", "user.new", b"x")


@attack
def attribute_of_a_reader() -> None:
    os.setxattr(of("held.txt"), "user.new", b"x")


@attack
def attribute_removed() -> None:
    os.removexattr("held.txt", "user.keep")


@attack
def attribute_removed_of_a_reader() -> None:
    os.removexattr(of("held.txt"), "user.keep")


@rarely
def attribute_in_the_new_way() -> None:
    value = ctypes.create_string_buffer(b"x")
    asked = struct.pack("=QII", ctypes.addressof(value), 1, 0)
    must(kernel(463, HERE, b"held.txt", 0, b"user.new", asked, 16))


@rarely
def attribute_in_the_new_way_of_a_reader() -> None:
    value = ctypes.create_string_buffer(b"x")
    asked = struct.pack("=QII", ctypes.addressof(value), 1, 0)
    must(kernel(463, of("held.txt"), b"", EMPTY, b"user.new", asked, 16))


@rarely
def attribute_removed_in_the_new_way() -> None:
    must(kernel(466, HERE, b"held.txt", 0, b"user.keep"))


@rarely
def flags_in_the_new_way() -> None:
    must(kernel(469, HERE, b"held.txt", struct.pack("=QIIII", 0x80, 0, 0, 0, 0), 24, 0))


@rarely
def flags_of_a_reader() -> None:
    fcntl.ioctl(of("held.txt"), 0x40086602, struct.pack("=q", 0x40 | 0x80000))


@rarely
def more_flags_of_a_reader() -> None:
    fcntl.ioctl(of("held.txt"), 0x401C5820, struct.pack("=IIIII8x", 0x80, 0, 0, 0, 0))


@rarely
def version_of_a_reader_in_another_way() -> None:
    fcntl.ioctl(of("held.txt"), 0x40086604, struct.pack("=q", 4712))


@rarely
def sealed_for_ever() -> None:
    """fs-verity, after which the file can no longer be written."""
    asked = struct.pack("=4I2Q2Q11Q", 1, 1, 4096, *[0] * 16)
    fcntl.ioctl(of("held.txt"), 0x40806685, asked)


@rarely
def version_of_a_reader() -> None:
    fcntl.ioctl(of("held.txt"), 0x40087602, struct.pack("=q", 4711))


def main(folder: Path, names: list[str]) -> None:
    told = {}
    for name in names:
        os.chdir(folder / name)
        said, came = _try(name)
        os.chdir(folder)
        told[name] = {"said": said, "code": came, "held": state(folder / name), "served": _served()}
    print(json.dumps(told))


def _try(name: str) -> tuple[str, int]:
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_SECONDS)
        try:
            ATTACKS[name]()
            os.write(told, b"done")
            os._exit(0)
        except BaseException as error:
            os.write(told, repr(error).encode())
        finally:
            os._exit(1)
    os.close(told)
    with open(heard, "rb") as file:
        _, status = os.waitpid(child, 0)
        return file.read().decode(), os.waitstatus_to_exitcode(status)


def _served() -> str:
    """Whether the broker still serves others."""
    try:
        Path("served.txt").write_text("served\n")
        os.unlink("served.txt")
    except OSError as error:
        return repr(error)
    return ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
