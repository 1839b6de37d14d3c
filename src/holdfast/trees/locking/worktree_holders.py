"""The holder of a worktree's lock: `host:user:pid:start_time` of a process that outlives commands.

The process is the terminal's session, the agent or the runner around the command, as
`holdfast.manager.owners.identity` finds it. A holder with a name and no process (`--holder NAME`)
is written with that name in the user's place and zeros for the process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from holdfast.core.model import Holder
from holdfast.manager.owners.identity import Self, whoami


class Caller:
    """The caller: the id that records use, and how it was determined."""

    __slots__ = ("how", "id")

    def __init__(self, id: str, how: str) -> None:
        self.id = id
        self.how = how


def caller(environ: Mapping[str, str], *, holder: str | None = None) -> Caller:
    """The caller of this command, or the holder that it names."""
    found: Self = whoami(environ, holder=holder)
    return Caller(holder_id(found.holder), found.how)


def holder_id(holder: Holder) -> str:
    """A holder as a text with four parts; different holders have different texts."""
    host = _part(
        os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    )
    if holder.witness is None:
        return f"{host}:{_part(holder.key if holder.client else holder.id)}:0:0"
    user = f"{holder.user}/{holder.agent}" if holder.agent else holder.user
    return f"{host}:{_part(user)}:{holder.witness.pid}:{holder.witness.start}"


def _part(text: str) -> str:
    """A text without the character that separates the parts."""
    return text.replace("%", "%25").replace(":", "%3A") or "unknown"
