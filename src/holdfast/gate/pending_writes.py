"""What each agent may write at this moment: from the decision that allows it until it is done.

In between a client may ask its user, so it can take minutes. The lease must be the agent's all that
time: a commit leaves it, and it does not go down to a sub-agent. And another agent's command that
runs meanwhile is not blamed for the change.

One small file for each agent, beside the ledger. The agent's next tool call replaces it: both
clients run the tools of an agent that write one after another, so an earlier edit is over then,
also where the client says nothing of its end. A mark is made before the decision, and read inside
other decisions: whichever of the two comes first, the other knows.

Imported by every edit: nothing but what those need.
"""

from __future__ import annotations

import os
from time import time

from holdfast.manager.owners.running_calls import named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = ".holdfast/busy"
#: A permission dialog may stand for long; after this an agent is in the middle of no edit.
SECONDS = 3600.0
#: The first line of a mark. What a command line writes, and when, only the line itself knows: it
#: may well commit it, so its files are not kept from that.
_EDIT, _COMMAND = "edit", "command"


def begin_edit(root: str, key: str, keys: Iterable[str]) -> None:
    """An agent asks to write these with its edit tool. Never raises."""
    _put(root, key, _EDIT, keys)


def begin_command(root: str, key: str, keys: Iterable[str]) -> None:
    """An agent runs a line that plainly writes these. Never raises: it is only about who is
    blamed."""
    _put(root, key, _COMMAND, keys)


def _put(root: str, key: str, kind: str, keys: Iterable[str]) -> None:
    text = "\n".join((kind, *(one for one in keys if "\n" not in one)))
    file = f"{root}/{FOLDER}/{named(key)}"
    try:
        try:
            _write(file, text)
        except FileNotFoundError:
            os.makedirs(f"{root}/{FOLDER}", exist_ok=True)
            _write(file, text)
    except OSError:
        pass


def _write(file: str, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        os.write(descriptor, text.encode("utf-8", "surrogateescape"))
    finally:
        os.close(descriptor)


def end(root: str, key: str) -> None:
    """The agent has written, or never will."""
    try:
        os.unlink(f"{root}/{FOLDER}/{named(key)}")
    except OSError:
        pass


def is_busy(root: str, key: str, keys: Iterable[str]) -> bool:
    """Whether an agent may be writing one of these at this moment, in any way."""
    return not set(keys).isdisjoint(_marked(root, key)[1:])


def is_writing(root: str, key: str, keys: Iterable[str]) -> bool:
    """Whether an edit tool of an agent is about to write one of these."""
    marked = _marked(root, key)
    return marked[:1] == [_EDIT] and not set(keys).isdisjoint(marked[1:])


def _marked(root: str, key: str) -> list[str]:
    file = f"{root}/{FOLDER}/{named(key)}"
    try:
        if os.stat(file).st_mtime < time() - SECONDS:
            return []
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            return stream.read().split("\n")
    except OSError:
        return []
