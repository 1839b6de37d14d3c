"""Whether the gate of a repository is switched off, by which person and why.

The switch is a file, `.holdfast/off`: its existence counts, not its contents, so that a person can
also create it by hand and no contents can break a hook. Off means that hooks let everything pass
and report so. Only a person may run the commands that switch; the file itself is not protected.
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
    """The record of a gate that is off. Fields that were not recorded are empty."""

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
    """The file that is the switch."""
    return f"{root}/{LEDGER_FOLDER}/{NAME}"


def switched_off(root: str) -> Off | None:
    """The record if the gate is off, None if it is on. Never raises."""
    try:
        with open(file_of(root), "rb") as stream:
            found = loads(stream.read(_SIZE_MAX).decode().strip())
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        return None
    except (OSError, ValueError, RecursionError):
        # An unreadable file exists all the same, unless the folder itself is closed to us.
        return Off() if os.path.lexists(file_of(root)) else None
    fields = found if isinstance(found, dict) else {}
    by, at, reason = (fields.get(name) for name in ("by", "at", "reason"))
    return Off(*(value if isinstance(value, str) else "" for value in (by, at, reason)))


def switch_off(root: str, off: Off) -> None:
    """Switch the gate off. The folder `.holdfast` must exist."""
    from holdfast.manager.files.replace_file import replace_file

    text = dumps({"by": off.by, "at": off.at, "reason": off.reason}) + "\n"
    replace_file(file_of(root), text.encode("utf-8", "backslashreplace"))
    seal_off(root)


def switch_on(root: str) -> bool:
    """Switch the gate on. False if it was on already."""
    try:
        os.unlink(file_of(root))
    except FileNotFoundError:
        return False
    seal_off(root)
    return True
