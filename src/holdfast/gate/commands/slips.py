"""Slips: for each command that an agent is about to run, whose it is.

The hook writes a slip before the command, into a folder beside the ledger. The program that runs
the command looks for a slip with its session and the hash of its text, and claims it by a rename,
which only one process can do. The slip goes when the call returns, and what was never claimed (the
user refused the call) when the agent stops or is spoken to later.

Imported by hooks: nothing but what those need.
"""

from __future__ import annotations

import os
from time import time

from holdfast.core import codec
from holdfast.core.model import Value
from holdfast.manager.files.replace_file import TEMPORARY, replace_file
from holdfast.manager.owners.running_calls import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    from holdfast.core.model import Holder

#: Below the folder of a ledger.
FOLDER = "slips"
#: A permission dialog may stand for long; older slips are of calls that never ran.
SECONDS_MAX = 86400.0
#: A command that was started has claimed its slip by then.
SECONDS_CLAIMED = 30.0
#: Of a claimed slip.
_CLAIMED = ".claimed"


class Slip(Value):
    """One command of an agent. `root` is that of the ledger whose files are leased, `home` the
    session's folder."""

    __slots__ = ("call", "holder", "home", "root")

    def __init__(self, holder: Holder, root: str, call: str, home: str) -> None:
        self.holder: Final = holder
        self.root: Final = root
        self.call: Final = call
        self.home: Final = home


def digest(command: str) -> str:
    """What a command has in common for the hook and for the program that runs it: clients may trim
    the text that they run, and mend it."""
    from _blake2 import blake2b

    return blake2b(_mended(command.strip()).encode(), digest_size=16).hexdigest()


def _mended(command: str) -> str:
    """A text as Claude Code may run it: without halves of characters, and with `>nul`, which is
    meant for Windows, as `>/dev/null`. A text that it has mended stays as it is."""
    try:
        command.encode()
    except UnicodeEncodeError:
        command = "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in command)
    if ">" in command and "nul" in command.lower().replace("/dev/null", ""):
        import re

        return re.sub(r"(>[ \t]*)nul", r"\1/dev/null", command, flags=re.IGNORECASE)
    return command


def leave(folder: str, slip: Slip, command: str) -> None:
    """A command may begin now. `folder` is that of a ledger. Raises OSError."""
    data = codec.dumps({
        "session": slip.holder.session, "digest": digest(command), "root": slip.root,
        "call": slip.call, "home": slip.home, "holder": codec.holder_to_dict(slip.holder),
    }).encode("utf-8", "surrogatepass")  # fmt: skip
    file = f"{folder}/{FOLDER}/{_name(slip.holder.key, slip.call)}"
    try:
        replace_file(file, data, mode=0o600)
    except FileNotFoundError:
        os.makedirs(f"{folder}/{FOLDER}", exist_ok=True)
        replace_file(file, data, mode=0o600)


def claim(folder: str, session: str, command: str) -> Slip | None:
    """The slip of a command that begins now, oldest first; None if it is no tool call. With an
    empty session any session's counts."""
    wanted = digest(command)
    for file in _files(folder):
        try:
            data = _read(file)
            if data["digest"] != wanted or session not in ("", data["session"]):
                continue
            os.rename(file, file + _CLAIMED)
            holder = codec.holder_from_dict(data["holder"])
            return Slip(holder, data["root"], data["call"], data["home"])
        except (OSError, ValueError, LookupError, TypeError):
            continue  # another process was first, or it is none of ours
    return None


def _files(folder: str) -> Iterator[str]:
    place = f"{folder}/{FOLDER}"
    try:
        names = os.listdir(place)
    except OSError:
        return
    found: list[tuple[int, str]] = []
    for name in names:
        if not name.endswith((_CLAIMED, TEMPORARY)):
            try:
                found.append((os.stat(f"{place}/{name}").st_mtime_ns, f"{place}/{name}"))
            except OSError:
                continue
    for _at, file in sorted(found):
        yield file


def is_left(folder: str, key: str, call: str) -> bool | None:
    """Whether the slip of a call was claimed; None if there is none."""
    file = f"{folder}/{FOLDER}/{_name(key, call)}"
    if os.path.lexists(file + _CLAIMED):
        return True
    return False if os.path.lexists(file) else None


def withdraw(folder: str, key: str, call: str) -> bool | None:
    """The call of an agent has returned, or never began. As `is_left`. Never raises."""
    file = f"{folder}/{FOLDER}/{_name(key, call)}"
    if _remove(file + _CLAIMED):
        return True
    was_swapped = _give_back_like(file)
    return was_swapped if _remove(file) else None


def _remove(file: str) -> bool:
    try:
        os.unlink(file)
    except OSError:
        return False
    return True


def _give_back_like(file: str) -> bool:
    """A call has returned, and its slip was not claimed: the call may have claimed an older slip of
    the same session and text. Then that one can be claimed again. Whether there is such a slip."""
    try:
        wanted = _read(file)
        for name in os.listdir(os.path.dirname(file)):
            other = f"{os.path.dirname(file)}/{name}"
            if name.endswith(_CLAIMED) and _is_alike(wanted, _read(other)):
                os.rename(other, other.removesuffix(_CLAIMED))
                return True
    except (OSError, ValueError, LookupError, TypeError):
        pass  # another call was first, or it is none of ours
    return False


def _read(file: str) -> dict[str, Any]:
    with open(file, encoding="utf-8", errors="surrogatepass") as stream:
        found: dict[str, Any] = codec.loads(stream.read())
    return found


def _is_alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] == other[name] for name in ("session", "digest"))


def withdraw_old(folder: str, key: str) -> None:
    """An agent has stopped, or is spoken to: what it was about to run and did not will not begin.
    A command that was left running may be about to claim its slip, so young ones stay. Never
    raises."""
    place = f"{folder}/{FOLDER}"
    start, now = _name(key, ""), time()
    try:
        for name in os.listdir(place):
            age = SECONDS_CLAIMED if name.startswith(start) else SECONDS_MAX
            try:
                if os.stat(f"{place}/{name}").st_mtime < now - age:
                    os.unlink(f"{place}/{name}")
            except OSError:
                continue
    except OSError:
        pass


def _name(key: str, call: str) -> str:
    return f"{named(key)}={named(call) if call else ''}"
