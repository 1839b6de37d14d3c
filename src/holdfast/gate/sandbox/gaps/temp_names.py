"""Temporary names: files that tools create beside a file that they will replace."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: What tools append to the name of a file: a word of their own, with or without digits, or
#: random characters. It counts as random if it has a digit or a capital: `.markdown` does not.
_ADDED = re.compile(
    r"~|#|[._-](?:tmp|temp|swp|swo|swx|new|bak|backup|orig|rej)(?:[._-]?[0-9A-Za-z]+)*"
    r"|[._-](?=[0-9A-Za-z]*[0-9A-Z])[0-9A-Za-z]{6,}(?:[._-][0-9A-Za-z]+)*"
)
#: The names that `sed -i` and Python's `tempfile` give to a new file, whatever it will replace.
_RANDOM = re.compile(r"sed[0-9A-Za-z]{6}|tmp[0-9a-z_]{8}")
#: What tools put before the name.
_BEFORE = ".#~"
_FOR_THE_TIME_BEING = os.O_RDWR | os.O_CREAT | os.O_EXCL


def is_temporary(flags: int, mode: int) -> bool:
    """Whether an open creates a file as all variants of `mkstemp` do: with a random name."""
    asked = flags & (os.O_ACCMODE | os.O_CREAT | os.O_EXCL)
    return asked == _FOR_THE_TIME_BEING and mode & 0o777 == 0o600


def has_random_name(path: str) -> bool:
    """Whether tools give such a name to a file that may replace any other in its folder."""
    return _RANDOM.fullmatch(os.path.basename(path)) is not None


def stands_in_for(path: str, beside: list[str] | None, granted: Collection[str]) -> str:
    """The file that a new one will replace. It is the new one itself if it replaces nothing, and
    the folder if the name is random and nothing tells which file it will replace.

    `beside` is what the tool has open, or None if the name is not random.
    """
    folder, name = os.path.split(path)
    found = _by_name(folder, name)
    if found or beside is None:
        return found or path
    near = [one for one in beside if os.path.dirname(one) == folder and os.path.isfile(one)]
    near += [one for one in granted if os.path.dirname(one) == folder]
    return near[0] if near else f"{folder}/"


def _by_name(folder: str, name: str) -> str:
    """The longest file name in the folder that this name extends."""
    return next(filter(os.path.isfile, named_after(f"{folder}/{name}")), "")


def named_after(path: str) -> Iterator[str]:
    """The files that a new one may replace, by its name alone, whether they exist or not; the
    longest name first."""
    folder, name = os.path.split(path)
    for stem in dict.fromkeys((name, name.lstrip(_BEFORE))):
        for end in range(len(stem) - 1, 0, -1):
            if _ADDED.fullmatch(stem, end):
                yield f"{folder}/{stem[:end]}"
