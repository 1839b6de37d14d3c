"""The folders in which `lease_player` plays: created before, and compared afterwards."""

from __future__ import annotations

import os
import random
import stat
from pathlib import Path

FILES = [b"a", b"b", b"c.txt", b"d/x", b"d/e/y", b"h"]
FOLDERS = [b"d", b"d/e", b"f", b"shut"]
LINKS = [b"l", b"ld", b"dangling", b"absolute", b"loop1", b"loop2", b"around", b"chain"]
STRANGE = [b"a b\nc", b"\xff\xfe", b"-n", b"*", b"N" * 255, b"x.tmp", b"a~", b".a.swp"]
MADE_UP = [b"n0", b"n1", b"n2", b"d/n3", b"d/e/n4", b"f/n5", b"ld/n6", b"shut/n7"]


def inner(root: Path, seed: int) -> bytes:
    """The folder in which a sequence plays."""
    return os.fsencode(root) + b"/s%d/1/2/3/it" % seed


def prepare(root: Path, seed: int) -> None:
    """Create the folder of a sequence, without any restrictions."""
    folder = inner(root, seed)
    os.makedirs(os.path.dirname(folder))
    chance = random.Random(-seed - 1)
    for one in (b"", *FOLDERS):
        os.mkdir(folder + b"/" + one)
    for one in FILES[:-1]:
        with open(folder + b"/" + one, "wb") as file:
            file.write(one * chance.randrange(1, 30))
    os.link(folder + b"/b", folder + b"/h")
    os.chmod(folder + b"/c.txt", 0o444)
    targets = [b"a", b"d", b"nowhere", folder + b"/b", b"loop2", b"loop1", b"d/../ld/x", b"l"]
    for one, target in zip(LINKS, targets, strict=True):
        os.symlink(target, folder + b"/" + one)
    os.mkfifo(folder + b"/n0" if chance.random() < 0.3 else folder + b"/d/pipe")
    os.chmod(folder + b"/shut", chance.choice([0o000, 0o500, 0o700, 0o300]))
    if chance.random() < 0.3:
        os.chmod(folder + b"/b", 0)


def picture(folder: bytes) -> list[tuple[object, ...]]:
    """Everything in a folder: names, kinds, modes, bytes, targets, names of the same file,
    attributes, and the times that a call has set. Makes the folders accessible as it goes."""
    found: list[tuple[object, ...]] = []
    same: dict[int, bytes] = {}
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        status = os.lstat(path)
        first = same.setdefault(status.st_ino, path)
        mode, what = status.st_mode, b""
        set_by_hand = status.st_mtime < 1_100_000_000
        if stat.S_ISDIR(mode):
            os.chmod(path, 0o700)
            names = sorted(os.listdir(path))
            what = repr(names).encode()
            waiting += [path + b"/" + name for name in names]
        elif stat.S_ISLNK(mode):
            what = os.readlink(path)
        elif stat.S_ISREG(mode):
            if not os.access(path, os.R_OK):
                os.chmod(path, 0o600)
            with open(path, "rb") as file:
                what = file.read()
        attributes = []
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            for name in sorted(os.listxattr(path)):
                attributes.append((name, os.getxattr(path, name)))
        found.append((
            path, oct(mode), status.st_nlink, status.st_uid, status.st_gid, first, what,
            status.st_mtime_ns if set_by_hand else "now", attributes,
        ))  # fmt: skip
    return found
