"""Ways to change a file that another holder has.

In the working folder of each attack, `held.txt` and `sub/held.txt` are held, and `free.txt`,
`sub/free.txt` and `sub2/held.txt` are not. `lease_attacks_more` has the rest, and runs them.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

from lease_calls import kernel

HELD = ("held.txt", "sub/held.txt")
HERE, EMPTY, NOFOLLOW, FOLLOW = -100, 0x1000, 0x100, 0x400
NEWNS, NEWUSER = 0x20000, 0x10000000
NOBODY = 65534
PATIENCE_SECONDS = 20

ATTACKS: dict[str, Callable[[], object]] = {}
#: These change nothing outside a sandbox either, on some machines or on any.
MAY_FAIL = set[str]()


def attack(function: Callable[[], object]) -> Callable[[], object]:
    ATTACKS[function.__name__] = function
    return function


def rarely(function: Callable[[], object]) -> Callable[[], object]:
    """An attack that does not work on every kernel or file system, or for every user."""
    MAY_FAIL.add(function.__name__)
    return attack(function)


def make(folder: Path) -> None:
    """The files for one attack."""
    for name in (*HELD, "free.txt", "sub/free.txt", "sub2/held.txt"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{name} as it was\n")
        os.setxattr(file, "user.keep", b"kept")
    if folder.name.startswith("linked_before"):
        os.link(folder / "held.txt", folder / "alias.txt")


def state(folder: Path) -> list[object]:
    """Everything about the held files that must not change."""
    found: list[object] = []
    for name in HELD:
        path = folder / name
        try:
            status = path.lstat()
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            found.append((name, str(error)))
            continue
        flags = ctypes.create_string_buffer(8)
        kernel(16, fd, 0x80086601, flags)
        version = ctypes.create_string_buffer(8)
        kernel(16, fd, 0x80087601, version)
        attributes = {one: os.getxattr(path, one).hex() for one in os.listxattr(path)}
        with open(fd, encoding="latin-1") as file:
            text = file.read()
        found.append([
            name, text, status.st_ino, status.st_mode, status.st_uid, status.st_gid,
            status.st_mtime_ns, attributes, flags.raw[:4].hex(), version.raw[:4].hex(),
        ])  # fmt: skip
    return found


def must(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


def change(path: str | int, flags: int = os.O_WRONLY) -> None:
    """Write to the file of a path or a descriptor."""
    fd = os.open(path, flags) if isinstance(path, str) else path
    os.write(fd, b"changed")
    os.close(fd)


def of(path: str, flags: int = os.O_RDONLY) -> int:
    return os.open(path, flags)


# By its name


@attack
def to_write() -> None:
    change("held.txt")


@attack
def to_append() -> None:
    change("sub/held.txt", os.O_WRONLY | os.O_APPEND)


@attack
def emptied_by_a_reader() -> None:
    os.open("held.txt", os.O_RDONLY | os.O_TRUNC)


@attack
def mapped() -> None:
    with mmap.mmap(of("held.txt", os.O_RDWR), 4) as found:
        found[0] = 65


@attack
def creat() -> None:
    must(kernel(85, b"held.txt", 0o644))


@attack
def openat2() -> None:
    change(must(kernel(437, HERE, b"held.txt", struct.pack("=QQQ", os.O_WRONLY, 0, 8), 24)))


@attack
def truncated() -> None:
    os.truncate("held.txt", 1)


@attack
def removed() -> None:
    os.unlink("held.txt")


@attack
def removed_with_its_folder() -> None:
    os.unlink("sub/free.txt")
    os.unlink("sub/held.txt")
    os.rmdir("sub")


@attack
def renamed() -> None:
    os.rename("held.txt", "gone.txt")


@attack
def replaced() -> None:
    os.rename("free.txt", "held.txt")


@attack
def replaced_by_a_link() -> None:
    os.symlink("free.txt", "link")
    os.rename("link", "held.txt")


@attack
def exchanged() -> None:
    must(kernel(316, HERE, b"free.txt", HERE, b"held.txt", 2))


@rarely
def whited_out() -> None:
    must(kernel(316, HERE, b"held.txt", HERE, b"gone.txt", 4))


@attack
def folder_renamed() -> None:
    os.rename("sub", "gone")


@attack
def folder_exchanged() -> None:
    must(kernel(316, HERE, b"sub", HERE, b"sub2", 2))


@attack
def folder_above_renamed() -> None:
    os.rename(os.getcwd(), os.getcwd() + "-gone")


@attack
def folder_renamed_by_descriptor() -> None:
    above = of("..", os.O_PATH)
    os.rename("sub", "gone", src_dir_fd=of(".", os.O_PATH), dst_dir_fd=above)


@attack
def folder_moved_into_another() -> None:
    os.rename("sub", "sub2/sub")


# By another name


@attack
def linked() -> None:
    os.link("held.txt", "alias.txt")
    change("alias.txt")


@attack
def linked_before() -> None:
    change("alias.txt")


@attack
def linked_before_and_emptied() -> None:
    os.truncate("alias.txt", 0)


@attack
def linked_before_and_chmod() -> None:
    os.chmod("alias.txt", 0o600)


@attack
def linked_before_and_renamed_alias() -> None:
    os.rename("alias.txt", "free.txt")
    change("free.txt")


@attack
def linked_by_descriptor() -> None:
    source = f"/proc/self/fd/{of('held.txt')}".encode()
    must(kernel(265, HERE, source, HERE, b"alias.txt", FOLLOW))
    change("alias.txt")


@rarely
def linked_with_no_path() -> None:
    must(kernel(265, of("held.txt"), b"", HERE, b"alias.txt", EMPTY))
    change("alias.txt")


@attack
def linked_elsewhere() -> None:
    name = f"../../outside-{os.getpid()}"
    os.link("held.txt", name)
    try:
        change(name)
    finally:
        os.unlink(name)


@attack
def symlinked() -> None:
    os.symlink("held.txt", "link")
    change("link")


@attack
def symlinked_through_proc() -> None:
    os.symlink(f"/proc/self/cwd/{HELD[1]}", "link")
    change("link")


@attack
def symlinked_from_elsewhere() -> None:
    name = f"../../link-{os.getpid()}"
    os.symlink(os.path.abspath("held.txt"), name)
    try:
        change(name)
    finally:
        os.unlink(name)


@attack
def folder_symlinked() -> None:
    os.symlink("sub", "sub3")
    change("sub2/../sub3/held.txt")


@attack
def dangling_until_it_is_written() -> None:
    os.symlink("sub3/held.txt", "link")
    os.symlink("sub", "sub3")
    change("link", os.O_WRONLY | os.O_CREAT)


# By an open descriptor, and through /proc


@attack
def reopened() -> None:
    change(f"/proc/self/fd/{of('held.txt')}")


@attack
def reopened_as_a_device() -> None:
    change(f"/dev/fd/{of('held.txt')}")


@attack
def reopened_place() -> None:
    change(f"/proc/self/fd/{of('held.txt', os.O_PATH)}")


@attack
def reopened_of_the_thread() -> None:
    def do() -> None:
        change(f"/proc/thread-self/fd/{of('held.txt')}")

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


@attack
def reopened_descriptor_of_the_parent() -> None:
    fd = of("held.txt")
    if (child := os.fork()) == 0:
        os.close(fd)
        change(f"/proc/{os.getppid()}/fd/{fd}")
        os._exit(0)
    os.waitpid(child, 0)


@attack
def emptied_by_reopening() -> None:
    os.open(f"/proc/self/fd/{of('held.txt')}", os.O_RDONLY | os.O_TRUNC)


@attack
def truncated_by_descriptor() -> None:
    os.truncate(f"/proc/self/fd/{of('held.txt', os.O_PATH)}", 1)


@attack
def folder_descriptor() -> None:
    fd = os.open("held.txt", os.O_WRONLY, dir_fd=of("sub", os.O_PATH))
    change(fd)


@attack
def folder_descriptor_and_up() -> None:
    fd = os.open("../held.txt", os.O_WRONLY, dir_fd=of("sub2", os.O_PATH))
    change(fd)


@attack
def folder_moved_under_a_descriptor() -> None:
    folder = of("sub2")
    os.rename("sub2", "sub3")
    os.mkdir("sub2")
    change(os.open("../sub/held.txt", os.O_WRONLY, dir_fd=folder))


@attack
def working_folder() -> None:
    os.chdir("sub")
    change("held.txt")


@attack
def working_folder_of_the_parent() -> None:
    change(f"/proc/{os.getppid()}/cwd/held.txt")


@attack
def working_folder_of_a_thread() -> None:
    def do() -> None:
        must(kernel(272, 0x200))
        os.chdir("sub")
        change("held.txt")

    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


@attack
def root_of_the_parent() -> None:
    change(f"/proc/{os.getppid()}/root{os.getcwd()}/held.txt")


@rarely
def root_of_the_first_process() -> None:
    change(f"/proc/1/root{os.getcwd()}/held.txt")


@attack
def descriptor_of_another() -> None:
    change(f"/proc/{os.environ['OTHER']}/fd/{os.environ['DESCRIPTOR_OF_ANOTHER']}")


@attack
def stolen_descriptor() -> None:
    other = must(kernel(434, int(os.environ["OTHER"]), 0))
    change(must(kernel(438, other, int(os.environ["STOLEN_DESCRIPTOR"]), 0)))


@attack
def by_handle() -> None:
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128), 136)
    must(kernel(303, HERE, b"held.txt", handle, ctypes.create_string_buffer(8), 0))
    change(must(kernel(304, of("."), handle, os.O_WRONLY)))
