"""Plays random sequences of file calls, and prints the result of each call.

    python lease_player.py ROOT FIRST COUNT --prepare
    python lease_player.py ROOT FIRST COUNT [--calls N] [--threads N]

One sequence per seed, each in its own folder `ROOT/s<seed>`, which the first line creates; it plays
some levels below, so that `..` does not lead to another sequence. The next call depends on the seed
and on the results of the calls before. So two players print the same as long as the kernel answers
them alike, and the first difference is the first call that was answered differently. One line of
JSON per sequence: the calls with their results (an error as a negative number), and the descriptors
that are open at the end.

The calls are made by number, because the C library would hide bad pointers and rare flags. With
threads, each has its own working folder, umask and descriptors.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import fcntl
import json
import mmap
import os
import random
import re
import resource
import stat
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from lease_calls import NUMBERS, Argument, edge, kernel, shown
from lease_tree import FILES, FOLDERS, LINKS, MADE_UP, STRANGE, inner, prepare

HERE = -100
AT_SYMLINK_NOFOLLOW, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = 0x100, 0x200, 0x400, 0x1000
O_TMPFILE = 0o20200000
CLONE_FS, CLONE_FILES = 0x200, 0x400
UTIME_NOW, UTIME_OMIT = (1 << 30) - 1, (1 << 30) - 2

#: How often a call is repeated if the kernel asks for it.
AGAIN_MAX = 8

MODES = [0, 0o600, 0o644, 0o666, 0o777, 0o444, 0o755, 0o1777, 0o4755, 0o2755, 0o7777, 0o100644]


class Sequence:
    """One sequence, while it is played."""

    def __init__(self, folder: bytes, seed: int, *, alone: bool, edge: int) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        #: Whether this sequence has the process's limits and its first thread to itself.
        self.alone = alone
        self.edge = edge
        self.open: list[int] = []
        self.folders: list[int] = []
        self.said: list[tuple[str, list[str], int]] = []

    def play(self, calls: int | None) -> dict[str, object]:
        wanted = self.chance.randint(5, 25)
        os.chdir(self.folder)
        os.umask(0o022)
        limits = {one: resource.getrlimit(one) for one in _LIMITS}
        try:
            for _ in range(wanted if calls is None else min(calls, wanted)):
                self.chance.choices(_STEPS, _WEIGHTS)[0](self)
            self.open.sort()
            left = [self._look(fd) for fd in self.open]
        finally:
            if self.alone:
                for one, limit in limits.items():
                    resource.setrlimit(one, limit)
            for fd in self.open:
                os.close(fd)
            os.chdir("/")
        return {"calls": self.said, "open": left}

    def _look(self, fd: int) -> tuple[object, ...]:
        found = os.fstat(fd)
        try:
            place = os.lseek(fd, 0, os.SEEK_CUR)
        except OSError as error:
            place = -(error.errno or 0)
        name = os.readlink(b"/proc/thread-self/fd/%d" % fd)
        # The numbers of a temporary file, which has nothing else, and of this process.
        name = re.sub(rb"/#\d+|^/proc/\d+(/task/\d+)?", b"/#", name)
        flags = fcntl.fcntl(fd, fcntl.F_GETFL), fcntl.fcntl(fd, fcntl.F_GETFD)
        return fd, *flags, place, repr(name), found.st_mode, found.st_size, found.st_nlink

    def call(self, name: str, *arguments: Argument) -> int:
        result = kernel(NUMBERS[name], *arguments)
        for _ in range(AGAIN_MAX if name == "openat2" else 0):
            # Below a root: some process renamed something on this machine meanwhile.
            if result != -errno.EAGAIN:
                break
            result = kernel(NUMBERS[name], *arguments)
        self.said.append((name, [shown(one) for one in arguments], result))
        return result

    # Words

    def maybe(self, probability: float) -> bool:
        return self.chance.random() < probability

    def path(self) -> Argument:
        chance = self.chance
        if self.maybe(0.05):
            return self._strange_path()
        kinds = [FILES, FOLDERS, LINKS, MADE_UP, STRANGE]
        name: bytes = chance.choice(chance.choices(kinds, [6, 3, 4, 5, 1])[0])
        if self.maybe(0.6):
            return name
        fd = str(self.descriptor()).encode()
        # Other threads must be as invisible as other sequences.
        me = b"/proc/self" if self.alone else b"/proc/thread-self"
        return chance.choice([
            b"./" + name, name.replace(b"/", b"//"), b"d/../" + name, b"ld/../" + name,
            b"d/e/../../" + name, name + b"/", name + b"/.", name + b"/..", name + b"//",
            self.folder + b"/" + name, b"//" + self.folder + b"//" + name,
            me + b"/cwd/" + name, b"/proc/thread-self/cwd/" + name,
            b"/proc/self/root" + self.folder + b"/" + name, me + b"/fd/" + fd,
            b"/proc/thread-self/fd/" + fd, b"/proc/thread-self/fd/" + fd + b"/" + name,
            b"/dev/fd/" + fd if self.alone else b"d/./e", b"../it/" + name, b".", b"..",
            b"d/.", b"d/..", b"/proc/thread-self/../thread-self/cwd/" + name,
        ])  # fmt: skip

    def _strange_path(self) -> Argument:
        name = self.chance.choice(FILES + MADE_UP)
        at_the_end = self.edge - len(name) - 1
        ctypes.memmove(at_the_end, name + b"\0", len(name) + 1)
        without_end = self.edge - 1
        return self.chance.choice([
            None, 1, self.edge, at_the_end, without_end, -4096, b"", b"L" * 256, b"d/" + b"L" * 300,
            b"./" * ((4095 - len(name)) // 2) + name, b"./" * ((4096 - len(name)) // 2) + name,
            b"./" * 2047 + b"/" * (2 - len(name) % 2) + name, b"./" * 3000 + name, b"l/x",
            b"/" * 4000 + self.folder + b"/" + name if len(self.folder) < 80 else b"loop1",
        ])  # fmt: skip

    def descriptor(self) -> int:
        if self.open and self.maybe(0.9):
            return self.chance.choice(self.open)
        return self.chance.choice([-1, 999, 1 << 20, HERE, 2_000_000_000])

    def dirfd(self) -> int:
        if self.maybe(0.5):
            return HERE
        folders = [fd for fd in self.folders if fd in self.open]
        return self.chance.choice(folders) if folders and self.maybe(0.7) else self.descriptor()

    def one_that_is_there(self) -> bytes:
        return self.chance.choice(FILES + FOLDERS + LINKS)

    def flags(self) -> int:
        chance = self.chance
        flags: int = chance.choice([os.O_RDONLY, os.O_WRONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR, 3])
        for flag, probability in _FLAGS.items():
            if self.maybe(probability):
                flags |= flag
        return flags

    def mode(self) -> int:
        return self.chance.choice(MODES) if self.maybe(0.95) else 1 << 16 | 0o644

    def _would_block(self, path: Argument, dirfd: int = HERE) -> bool:
        if isinstance(path, int) and path == self.edge - 1:
            return False
        name = path if isinstance(path, bytes) else None
        if isinstance(path, int) and 4096 < path < self.edge:
            name = ctypes.string_at(path)
        if name is None:
            return False
        try:
            found = os.stat(name, dir_fd=None if dirfd == HERE else dirfd)
        except (OSError, ValueError, OverflowError):
            return False
        return stat.S_ISFIFO(found.st_mode)

    def keep(self, fd: int) -> int:
        if fd >= 0:
            self.open.append(fd)
        return fd

    # Steps

    def do_open(self) -> None:
        path, flags, mode, dirfd = self.path(), self.flags(), self.mode(), self.dirfd()
        how = self.chance.choice(["open", "openat", "openat", "creat", "openat2"])
        if how == "openat2":
            self._openat2(dirfd, path, flags, mode)
            return
        if self._would_block(path, dirfd if how == "openat" else HERE):
            flags, how = flags | os.O_NONBLOCK, "open" if how == "creat" else how
        if how == "creat":
            self.keep(self.call("creat", path, mode))
        elif how == "open":
            self.keep(self.call("open", path, flags, mode))
        else:
            self.keep(self.call("openat", dirfd, path, flags, mode))

    def _openat2(self, dirfd: int, path: Argument, flags: int, mode: int) -> None:
        chance = self.chance
        if not flags & (os.O_CREAT | O_TMPFILE & ~os.O_DIRECTORY) and self.maybe(0.95):
            mode = 0
        # NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH, IN_ROOT, and some that do not exist
        resolve = chance.choice([0, 1, 2, 4, 8, 8, 16, 16, 5, 12, 18, 24, 1 << 40])
        if flags & os.O_CREAT and self.maybe(0.05):
            resolve |= 32  # CACHED, which is refused for calls that create something
        flags |= os.O_NONBLOCK
        if self.maybe(0.9):
            flags &= ~(3 if flags & 3 == 3 else 0)
            mode &= 0o7777
        how = struct.pack("=QQQ", flags, mode, resolve) + bytes(8 if self.maybe(0.1) else 0)
        if self.maybe(0.02):
            how = how[:24] + b"\1" * 8
        size = chance.choices([len(how), 16, 0, 5000], [95, 2, 2, 1])[0]
        pointer: Argument = how if size <= len(how) and self.maybe(0.97) else 8
        self.keep(self.call("openat2", dirfd, path, pointer, size))

    def do_temporary(self) -> None:
        where = self.chance.choice([b"d", b".", b"f", b"ld", b"shut", self.path()])
        flags = O_TMPFILE | self.chance.choice([os.O_WRONLY, os.O_RDWR, os.O_RDWR | os.O_EXCL])
        fd = self.keep(self.call("openat", self.dirfd(), where, flags, self.mode()))
        if fd < 0:
            return
        self.call("write", fd, b"temporary", 9)
        name = self.path()
        if self.maybe(0.3) and self.chance.random() < 0.5:
            # Below /proc the kernel checks which process opened the descriptor: the broker here.
            name = self.chance.choice(FILES + LINKS + MADE_UP)
            self.call("linkat", fd, b"", HERE, name, AT_EMPTY_PATH)
        else:
            source = b"/proc/thread-self/fd/%d" % fd
            self.call("linkat", HERE, source, HERE, name, AT_SYMLINK_FOLLOW)

    def do_folder_fd(self) -> None:
        flags = os.O_DIRECTORY | self.chance.choice([os.O_RDONLY, os.O_PATH, os.O_CLOEXEC])
        where = self.chance.choice([*FOLDERS, b"ld", b"."])
        dirfd = HERE if self.maybe(0.8) else self.dirfd()
        self.folders.append(self.keep(self.call("openat", dirfd, where, flags, 0)))

    def do_write(self) -> None:
        if not self.open and self.maybe(0.8):
            self.do_open()
        fd, text = self.descriptor(), b"w" * self.chance.randrange(1, 60)
        if self.maybe(0.5):
            self.call("write", fd, text, len(text))
        else:
            self.call("pwrite64", fd, text, len(text), self.chance.randrange(-1, 200))

    def do_resize(self) -> None:
        size = self.chance.choice([-1, 0, 1, 10, 4096, 10000])
        how = self.chance.choice(["truncate", "truncate", "ftruncate", "fallocate"])
        if how == "truncate":
            self.call(how, self.path(), size)
        elif how == "ftruncate":
            self.call(how, self.descriptor(), size)
        else:
            self.call(how, self.descriptor(), self.chance.choice([0, 1, 3, 16]), 0, size)

    def do_map(self) -> None:
        fd, result = self.descriptor(), 0
        try:
            size = os.fstat(fd).st_size
            with mmap.mmap(fd, min(size, 4096) or 1, mmap.MAP_SHARED) as found:
                if size:
                    found[0] = self.chance.randrange(65, 90)
        except OSError as error:
            result = -(error.errno or 0)
        except (ValueError, TypeError):
            result = -1000
        except OverflowError:
            result = -1001
        self.said.append(("mmap", [str(fd)], result))

    def do_close(self) -> None:
        fd = self.descriptor()
        if fd != HERE and self.call("close", fd) == 0:
            self.open.remove(fd)

    def do_dup(self) -> None:
        fd = self.descriptor()
        if self.maybe(0.6):
            self.keep(self.call("dup", fd))
            return
        wanted = self.chance.randrange(40, 50)
        if self.call("dup3", fd, wanted, self.chance.choice([0, os.O_CLOEXEC])) >= 0:
            self.open += [] if wanted in self.open else [wanted]

    def do_rename(self) -> None:
        old, new = self.path(), self.path()
        how = self.chance.choice(["rename", "rename", "renameat", "renameat2", "renameat2"])
        if how == "rename":
            self.call(how, old, new)
        elif how == "renameat":
            self.call(how, self.dirfd(), old, self.dirfd(), new)
        else:
            flags = self.chance.choice([0, 1, 1, 2, 2, 2, 3, 4, 8])
            if flags == 2:
                old, new = self.one_that_is_there(), self.one_that_is_there()
            self.call(how, self.dirfd(), old, self.dirfd(), new, flags)

    def do_link(self) -> None:
        if self.maybe(0.4):
            self.call("link", self.path(), self.path())
            return
        flags = self.chance.choice([0, 0, AT_SYMLINK_FOLLOW, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH, 1])
        self.call("linkat", self.dirfd(), self.path(), self.dirfd(), self.path(), flags)

    def do_symlink(self) -> None:
        target = self.chance.choice([b"a", b"nowhere", b"..", b"", b"d", self.path(), self.path()])
        if self.maybe(0.5):
            self.call("symlink", target, self.path())
        else:
            self.call("symlinkat", target, self.dirfd(), self.path())

    def do_remove(self) -> None:
        how = self.chance.choice(["unlink", "rmdir", "unlinkat", "unlinkat"])
        if how == "unlinkat":
            flags = self.chance.choice([0, 0, AT_REMOVEDIR, AT_REMOVEDIR, 1])
            self.call(how, self.dirfd(), self.path(), flags)
        else:
            self.call(how, self.path())

    def do_make(self) -> None:
        how = self.chance.choice(["mkdir", "mkdirat", "mknod", "mknodat"])
        mode = self.mode()
        if how.startswith("mknod"):
            mode |= self.chance.choice([stat.S_IFIFO, stat.S_IFIFO, stat.S_IFREG, stat.S_IFSOCK, 0])
        if how.endswith("at"):
            self.call(how, self.dirfd(), self.path(), mode, 0)
        else:
            self.call(how, self.path(), mode, 0)

    def do_chmod(self) -> None:
        how = self.chance.choice(["chmod", "fchmod", "fchmodat", "fchmodat2"])
        if how == "chmod":
            self.call(how, self.path(), self.mode())
        elif how == "fchmod":
            self.call(how, self.descriptor(), self.mode())
        elif how == "fchmodat":
            self.call(how, self.dirfd(), self.path(), self.mode(), 0)
        else:
            path = b"" if self.maybe(0.2) else self.path()
            flags = self.chance.choice([0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1])
            self.call(how, self.dirfd(), path, self.mode(), flags)

    def do_chown(self) -> None:
        user = self.chance.choice([os.getuid(), -1, -1])
        group = self.chance.choice([os.getgid(), -1])
        how = self.chance.choice(["chown", "lchown", "fchown", "fchownat"])
        if how in ("chown", "lchown"):
            self.call(how, self.path(), user, group)
        elif how == "fchown":
            self.call(how, self.descriptor(), user, group)
        else:
            path = b"" if self.maybe(0.2) else self.path()
            flags = self.chance.choice([0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1])
            self.call(how, self.dirfd(), path, user, group, flags)

    def do_times(self) -> None:
        chance, first = self.chance, self.chance.randrange(10**9)
        how = chance.choice(["utime", "utimes", "futimesat", "utimensat", "utimensat", "utimensat"])
        if how == "utime":
            times: Argument = struct.pack("=qq", first, first + 1)
            self.call(how, self.path(), chance.choice([times, times, None, 3]))
            return
        part = chance.choice([0, 5, 999_999, 1_000_000, -1])
        times = struct.pack("=qqqq", first, 1, first + 1, part)
        if how == "utimes":
            self.call(how, self.path(), chance.choice([times, times, None]))
        elif how == "futimesat":
            path = None if self.maybe(0.2) else self.path()
            self.call(how, self.dirfd(), path, chance.choice([times, times, None]))
        else:
            part = chance.choice([5, 999_999_999, 1_000_000_000, UTIME_NOW, UTIME_OMIT])
            times = struct.pack("=qqqq", first, chance.choice([1, UTIME_OMIT]), first + 1, part)
            path = self.path() if self.maybe(0.7) else self.chance.choice(_NO_PATHS)
            flags = chance.choice([0, 0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1])
            self.call(how, self.dirfd(), path, chance.choice([times, times, None]), flags)

    def do_attribute(self) -> None:
        name = self.chance.choice(_ATTRIBUTES)
        what = self.chance.choice(["setxattr", "lsetxattr", "fsetxattr"])
        on: Argument = self.descriptor() if what == "fsetxattr" else self.path()
        if on == HERE:
            on = -1  # some kernels take the working folder, others do not
        if self.maybe(0.7):
            value = b"v" * self.chance.randrange(0, 20)
            flags = self.chance.choice([0, 0, 1, 2, 4])
            if self.call(what, on, name, value, len(value), flags) < 0 or self.maybe(0.6):
                return
        if name != 2 or self.maybe(0.2):
            self.call(what.replace("set", "remove"), on, name)

    def do_change_folder(self) -> None:
        if self.maybe(0.5):
            self.call("chdir", self.path() if self.maybe(0.5) else self.folder)
        else:
            folders = [fd for fd in self.folders if fd in self.open]
            self.call("fchdir", self.chance.choice(folders) if folders else self.descriptor())
        if not f"{os.readlink('/proc/thread-self/cwd')}/".startswith(
            f"{os.fsdecode(self.folder)}/"
        ):
            self.call("chdir", self.folder)

    def do_umask(self) -> None:
        self.call("umask", self.chance.choice([0, 0o022, 0o077, 0o777, 0o027]))

    def do_limit(self) -> None:
        if not self.alone:
            return
        which = self.chance.choice(_LIMITS)
        value = 5000 if which == resource.RLIMIT_FSIZE else max([2, *self.open]) + 2
        resource.setrlimit(which, (value, resource.getrlimit(which)[1]))
        self.said.append(("setrlimit", [str(which), str(value)], 0))


_NO_PATHS: list[Argument] = [None, b""]
_ATTRIBUTES: list[Argument] = [b"user.a", b"user.a", b"user.b", b"nothing.x", b"", 2]
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
_FLAGS = {
    os.O_CREAT: 0.5, os.O_EXCL: 0.15, os.O_TRUNC: 0.3, os.O_APPEND: 0.2, os.O_DIRECTORY: 0.07,
    os.O_NOFOLLOW: 0.12, os.O_CLOEXEC: 0.3, os.O_NONBLOCK: 0.2, os.O_PATH: 0.05, os.O_SYNC: 0.05,
    os.O_NOATIME: 0.04, os.O_DIRECT: 0.02, os.O_NOCTTY: 0.03, 0o100000: 0.05, 1 << 30: 0.02,
}  # fmt: skip
_STEPS_BY_WEIGHT: dict[Callable[[Sequence], None], int] = {
    Sequence.do_open: 26, Sequence.do_folder_fd: 6, Sequence.do_write: 7, Sequence.do_resize: 6,
    Sequence.do_map: 2, Sequence.do_close: 3, Sequence.do_dup: 3, Sequence.do_rename: 12,
    Sequence.do_link: 5, Sequence.do_symlink: 4, Sequence.do_remove: 7, Sequence.do_make: 6,
    Sequence.do_chmod: 5, Sequence.do_chown: 3, Sequence.do_times: 5, Sequence.do_attribute: 4,
    Sequence.do_change_folder: 5, Sequence.do_umask: 2, Sequence.do_limit: 1,
    Sequence.do_temporary: 3,
}  # fmt: skip
_STEPS, _WEIGHTS = list(_STEPS_BY_WEIGHT), list(_STEPS_BY_WEIGHT.values())


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("--calls", type=int)
    parser.add_argument("--threads", type=int, default=0)
    asked = parser.parse_args(words)
    seeds = range(asked.first, asked.first + asked.count)
    if asked.prepare:
        for seed in seeds:
            prepare(asked.root, seed)
        return 0
    told: dict[int, str] = {}

    def play(seeds: range, *, alone: bool) -> None:
        if not alone:
            assert kernel(NUMBERS["unshare"], CLONE_FS | CLONE_FILES) == 0
        behind = edge()
        for seed in seeds:
            folder = inner(asked.root, seed)
            played = Sequence(folder, seed, alone=alone, edge=behind).play(asked.calls)
            told[seed] = json.dumps({"seed": seed, **played})
            if alone:
                print(told[seed], flush=True)

    if asked.threads:
        threads = [
            threading.Thread(
                target=play, args=[seeds[at :: asked.threads]], kwargs={"alone": False}
            )
            for at in range(asked.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seed in seeds:
            print(told[seed], flush=True)
    else:
        play(seeds, alone=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
