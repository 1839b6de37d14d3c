"""The pending writes of each agent: from the decision that allows a write until it is done.

In between the client may ask its user, so this can take minutes. The agent must keep the lease all
that time: a commit does not end it, and it does not go down to a sub-agent. And another agent's
command that runs meanwhile is not blamed for the change.

There is one small file for each agent, beside the ledger. The agent's next tool call replaces it:
both clients run an agent's writing tools one after another, so an earlier edit is over then, even
if the client does not report its end. A mark is made before the decision, and read inside other
decisions: whichever of the two comes first, the other sees it.

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
#: A permission dialog may be open for long; after this time no edit counts as pending.
SECONDS = 3600.0
#: The first line of a mark. A command line may commit the files that it writes, so a commit may
#: release those.
_EDIT, _COMMAND = "edit", "command"


def begin_edit(root: str, key: str, keys: Iterable[str]) -> None:
    """Mark that an agent requests to write these with its edit tool. Never raises."""
    _put(root, key, _EDIT, keys)


def begin_command(root: str, key: str, keys: Iterable[str]) -> None:
    """Mark that an agent runs a line that plainly writes these. Never raises: the mark only decides
    which agent is blamed for a change."""
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
    """Remove the mark: the agent has written, or never will."""
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
