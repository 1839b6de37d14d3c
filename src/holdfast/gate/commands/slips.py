"""Slips: for each command that an agent is about to run, a file that names the agent.

The hook writes a slip before the command, into a folder beside the ledger. The program that runs
the command looks for a slip with its session and the hash of its text, and claims it by a rename,
which only one process can do. The slip is removed when the call returns; if it was never claimed
(the user refused the call), when the agent stops or gets its next prompt.

Hooks import this, so it imports little.
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
#: A permission dialog may stay open for long; older slips are of calls that never ran.
SECONDS_MAX = 86400.0
#: A command that was started has claimed its slip within this time.
SECONDS_CLAIMED = 30.0
#: The suffix of a claimed slip.
_CLAIMED = ".claimed"


class Slip(Value):
    """One command of an agent. `root` is that of the ledger in which its files are leased, `home`
    the session's folder."""

    __slots__ = ("call", "holder", "home", "root")

    def __init__(self, holder: Holder, root: str, call: str, home: str) -> None:
        self.holder: Final = holder
        self.root: Final = root
        self.call: Final = call
        self.home: Final = home


def digest(command: str) -> str:
    """The hash of a command, the same for the hook and for the program that runs it: clients may
    trim and repair the text that they run."""
    from _blake2 import blake2b

    return blake2b(_mended(command.strip()).encode(), digest_size=16).hexdigest()


def _mended(command: str) -> str:
    """A text as Claude Code may run it: without lone surrogates, and with `>nul`, which is meant
    for Windows, as `>/dev/null`. A text that it has repaired stays unchanged."""
    try:
        command.encode()
    except UnicodeEncodeError:
        command = "".join("\ufffd" if "\ud800" <= one <= "\udfff" else one for one in command)
    if ">" in command and "nul" in command.lower().replace("/dev/null", ""):
        import re

        return re.sub(r"(>[ \t]*)nul", r"\1/dev/null", command, flags=re.IGNORECASE)
    return command


def leave(folder: str, slip: Slip, command: str) -> None:
    """Leave a slip for a command that may start now. `folder` is a ledger's. Raises OSError."""
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
    """Claim the slip of a command that starts now, the oldest one; None if it is not a tool call.
    An empty session matches any."""
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
            continue  # another process was first, or it is not ours
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
    """The call of an agent has returned, or never ran: remove its slip. Returns the same as
    `is_left`. Never raises."""
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
    """A call has returned, and its slip was not claimed: it may have claimed an older slip of the
    same session and text. Make that one claimable again. Returns whether there is one."""
    try:
        wanted = _read(file)
        for name in os.listdir(os.path.dirname(file)):
            other = f"{os.path.dirname(file)}/{name}"
            if name.endswith(_CLAIMED) and _is_alike(wanted, _read(other)):
                os.rename(other, other.removesuffix(_CLAIMED))
                return True
    except (OSError, ValueError, LookupError, TypeError):
        pass  # another call was first, or it is not ours
    return False


def _read(file: str) -> dict[str, Any]:
    with open(file, encoding="utf-8", errors="surrogatepass") as stream:
        found: dict[str, Any] = codec.loads(stream.read())
    return found


def _is_alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] == other[name] for name in ("session", "digest"))


def withdraw_old(folder: str, key: str) -> None:
    """An agent has stopped, or got a prompt: remove the slips of commands that it did not run. A
    command that was left running may be about to claim its slip, so young ones stay. Never
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
