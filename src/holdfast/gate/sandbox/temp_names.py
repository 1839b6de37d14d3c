"""New files that stand in for others: what tools make beside a file which they will replace."""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: What tools put behind the name of a file: a word of their own, with figures or without, or
#: something random. It is random if it has a figure or a capital in it: `.markdown` is a name.
_ADDED = re.compile(
    r"~|#|[._-](?:tmp|temp|swp|swo|swx|new|bak|backup|orig|rej)(?:[._-]?[0-9A-Za-z]+)*"
    r"|[._-](?=[0-9A-Za-z]*[0-9A-Z])[0-9A-Za-z]{6,}(?:[._-][0-9A-Za-z]+)*"
)
#: What `sed -i` and Python's `tempfile` call a new file, whatever it will replace.
_RANDOM = re.compile(r"sed[0-9A-Za-z]{6}|tmp[0-9a-z_]{8}")
#: What they put before it.
_BEFORE = ".#~"
_FOR_THE_TIME_BEING = os.O_RDWR | os.O_CREAT | os.O_EXCL


def is_temporary(flags: int, mode: int) -> bool:
    """Whether an open makes a file as `mkstemp` does in all its forms: with a random name."""
    asked = flags & (os.O_ACCMODE | os.O_CREAT | os.O_EXCL)
    return asked == _FOR_THE_TIME_BEING and mode & 0o777 == 0o600


def has_random_name(path: str) -> bool:
    """Whether tools give such a name to a file that will replace any other of its folder."""
    return _RANDOM.fullmatch(os.path.basename(path)) is not None


def stands_in_for(path: str, beside: list[str] | None, granted: Collection[str]) -> str:
    """The file that a new one is made for. It is the new one itself if it stands in for nothing;
    and its folder, if it has a random name and nothing tells for which.

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
    """The longest name of a file in the folder to which something was added."""
    return next(filter(os.path.isfile, named_after(f"{folder}/{name}")), "")


def named_after(path: str) -> Iterator[str]:
    """The files that a new one may be made for, by its name alone, whether they are there or not;
    the longest name first."""
    folder, name = os.path.split(path)
    for stem in dict.fromkeys((name, name.lstrip(_BEFORE))):
        for end in range(len(stem) - 1, 0, -1):
            if _ADDED.fullmatch(stem, end):
                yield f"{folder}/{stem[:end]}"
