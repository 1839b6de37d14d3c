"""The format of a row in the corpus of writing tools, and the small world in which it runs."""

from __future__ import annotations

import re
import shutil
import sys
from typing import NamedTuple, TypedDict, Unpack

import pytest

#: The files of a case before its own preparation.
WORLD = {
    "a.txt": "alpha\nbeta\ngamma\n",
    "b.txt": "bravo\n",
    "run.sh": "#!/bin/sh\necho run\n",
    "d/one.txt": "one\n",
    "d/two.txt": "two\n",
    "d/sub/three.txt": "three\n",
}

#: Patterns for caches of tools, which take no lease unless git tracks them.
CACHES = (
    "*~", "*.o", "*.log", "*.tmp", "*.swp", "*.pyc", "*node_modules/*", "*__pycache__/*",
    "*.mypy_cache/*", "*.pytest_cache/*", "*.ruff_cache/*",
)  # fmt: skip

#: The programs that the corpus drives, and the packages of Debian and Ubuntu that have them.
PACKAGES = {
    "zsh": "zsh", "fish": "fish", "busybox": "busybox", "gawk": "gawk", "ed": "ed", "vim": "vim",
    "ex": "vim", "emacs": "emacs-nox", "patch": "patch", "unzip": "unzip", "zip": "zip",
    "xz": "xz-utils", "bzip2": "bzip2", "zstd": "zstd", "rsync": "rsync", "cpio": "cpio",
    "perl": "perl", "ruby": "ruby", "php": "php-cli", "sqlite3": "sqlite3",
    "gcc": "build-essential", "make": "build-essential", "ar": "binutils", "strip": "binutils",
    "jq": "jq", "sponge": "moreutils",
    "node": "nodejs", "npm": "npm", "script": "bsdutils", "flock": "util-linux",
    "fallocate": "util-linux", "git": "git",
}  # fmt: skip


class Case(NamedTuple):
    """One way to write."""

    name: str
    command: tuple[str, ...]
    victim: str = ""
    """The file that it changes. While another holder has it, it stays as it is."""
    beside: str = ""
    """A file that it leaves alone: while another holder has it, the command works as ever."""
    before: str = ""
    """What is prepared in the folder, for a shell."""
    needs: tuple[str, ...] = ()
    """The programs without which it is skipped."""
    quiet: bool = False
    """It ends with 0 although its victim was refused, since it does not look or does not mind."""
    differs: tuple[str, ...] = ()
    """What is not the same in two runs: `out`, `err`, or patterns of names in the tree."""
    temporary: tuple[str, ...] = ()
    """Patterns of names that the tool itself leaves when it fails."""
    unleased: tuple[str, ...] = ()
    """Patterns of names that it changes without a lease: what git ignores, and what nothing can
    hold."""
    between: tuple[str, ...] = ()
    """Names that git has tracked in between, and that are gone in the end."""
    gap: str = ""
    """Why it is known not to work as it does without Holdfast."""

    @property
    def missing(self) -> str:
        """The packages to install for it; empty if everything is installed."""
        lacking = [one for one in self.needs if shutil.which(one) is None]
        packages = sorted({PACKAGES[one] for one in lacking})
        if not lacking:
            return ""
        return f"{', '.join(lacking)} is not installed: apt-get install {' '.join(packages)}"


class More(TypedDict, total=False):
    """The fields of a row besides its command and its victim."""

    beside: str
    before: str
    needs: tuple[str, ...]
    quiet: bool
    differs: tuple[str, ...]
    temporary: tuple[str, ...]
    unleased: tuple[str, ...]
    between: tuple[str, ...]
    gap: str


class Rows(list[Case]):
    """A table of cases with unique names."""

    def add(self, name: str, command: tuple[str, ...], victim: str, more: More) -> None:
        """A program with its words."""
        assert re.fullmatch(r"[a-z0-9-]+", name), name
        assert name not in {row.name for row in self}, name
        more["needs"] = more.get("needs", ()) + tuple({command[0]} & {*PACKAGES})
        self.append(Case(name, command, victim, **more))

    def sh(self, name: str, script: str, victim: str = "", **more: Unpack[More]) -> None:
        """A script for sh."""
        self.add(name, ("sh", "-c", script), victim, more)

    def program(self, name: str, *command: str, victim: str = "", **more: Unpack[More]) -> None:
        """A program without a shell around it."""
        self.add(name, command, victim, more)

    def python(self, name: str, script: str, victim: str = "", **more: Unpack[More]) -> None:
        """A script for Python."""
        self.add(name, (sys.executable, "-c", script), victim, more)


def needing(case: Case) -> None:
    """Skip a test whose programs are not installed."""
    if case.missing:
        pytest.skip(case.missing)
