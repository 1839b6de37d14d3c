"""Whether the gate of a repository is switched off, by whom and why.

A file says so, `.holdfast/off`: its being there counts, whatever is in it, so that a person can
also make it by hand and nothing in it can break a hook. Off means that hooks let everything pass
and say so. It is kept from agents by asking for a person where it is switched, not by the file.
"""

from __future__ import annotations

import os

from holdfast.core.codec import dumps, loads
from holdfast.core.model import Value
from holdfast.gate.config.seals import seal_off
from holdfast.manager.files.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

NAME = "off"
_SIZE_MAX = 1 << 16


class Off(Value):
    """That the gate is off. What nobody wrote down is empty."""

    __slots__ = ("at", "by", "reason")

    def __init__(self, by: str = "", at: str = "", reason: str = "") -> None:
        self.by: Final = by
        self.at: Final = at
        self.reason: Final = reason

    def sentence(self) -> str:
        """The switch's state as a sentence."""
        by = f" by {self.by}" if self.by else ""
        at = f" since {self.at}" if self.at else ""
        reason = f": {self.reason}" if self.reason else ""
        return f"the gate is off{at}{by}{reason}"


def file_of(root: str) -> str:
    """The file that says so."""
    return f"{root}/{LEDGER_FOLDER}/{NAME}"


def switched_off(root: str) -> Off | None:
    """How it came that the gate is off, or None if it is on. Never raises."""
    try:
        with open(file_of(root), "rb") as stream:
            found = loads(stream.read(_SIZE_MAX).decode().strip())
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError, RecursionError):
        # What cannot be read is there all the same, unless the folder itself is closed to us.
        return Off() if os.path.lexists(file_of(root)) else None
    fields = found if isinstance(found, dict) else {}
    by, at, reason = (fields.get(name) for name in ("by", "at", "reason"))
    return Off(*(value if isinstance(value, str) else "" for value in (by, at, reason)))


def switch_off(root: str, off: Off) -> None:
    """Switch it off. The folder `.holdfast` is there."""
    from holdfast.manager.files.replace_file import replace_file

    text = dumps({"by": off.by, "at": off.at, "reason": off.reason}) + "\n"
    replace_file(file_of(root), text.encode("utf-8", "backslashreplace"))
    seal_off(root)


def switch_on(root: str) -> bool:
    """Switch it on. False if it was."""
    try:
        os.unlink(file_of(root))
    except FileNotFoundError:
        return False
    seal_off(root)
    return True
