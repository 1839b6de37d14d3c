"""Which agent is about to write what: from the moment it may until it says that it has.

A command of another agent that begins in between finds the file unchanged, and would take the
write for damage that it did itself. Small files beside the ledger; one that nobody took away
counts for a while only. Imported by every edit: nothing but what those need.
"""

from __future__ import annotations

import os
from time import time

FOLDER = ".holdfast/busy"
#: A permission dialog may stand for long; after this nobody is in the middle of an edit.
SECONDS = 3600.0
_NAME_MAX = 240


def _file(root: str, key: str) -> str:
    return f"{root}/{FOLDER}/{key.encode('utf-8', 'replace').hex()[:_NAME_MAX]}"


def begin(root: str, key: str, paths: list[str]) -> None:
    """An agent may write these now. Never raises: it is only about who is blamed."""
    if not paths:
        return
    text = "".join(f"{path}\n" for path in paths if "\n" not in path)
    try:
        try:
            _add(_file(root, key), text)
        except FileNotFoundError:
            os.makedirs(f"{root}/{FOLDER}", exist_ok=True)
            _add(_file(root, key), text)
    except OSError:
        pass


def _add(file: str, text: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, text.encode("utf-8", "surrogateescape"))
    finally:
        os.close(descriptor)


def end(root: str, key: str) -> None:
    """It has written, or never will."""
    try:
        os.unlink(_file(root, key))
    except OSError:
        pass


def is_busy(root: str, key: str, path: str) -> bool:
    """Whether an agent may be writing a file, by its absolute path, at this moment."""
    file = _file(root, key)
    try:
        if os.stat(file).st_mtime < time() - SECONDS:
            return False
        with open(file, encoding="utf-8", errors="surrogateescape") as stream:
            return path in stream.read().splitlines()
    except OSError:
        return False
