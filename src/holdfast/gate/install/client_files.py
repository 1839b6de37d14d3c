"""Files of clients and users: read to the byte, backed up, and replaced atomically."""

from __future__ import annotations

import os

from holdfast.core.model import Value
from holdfast.gate.install.hook_command import InstallError
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


class Change(Value):
    """A change of one file's text. None means that there is no file.

    `name` is shown to people; `client` says whose settings it is: a client's name, `exclude` or
    `commands`.
    """

    __slots__ = ("client", "name", "new", "old", "path")

    def __init__(self, client: str, name: str, path: str, old: str | None, new: str | None) -> None:
        self.client: Final = client
        self.name: Final = name
        self.path: Final = path
        self.old: Final = old
        self.new: Final = new

    @property
    def is_change(self) -> bool:
        """Whether the two texts differ."""
        return self.old != self.new

    def diff(self) -> str:
        """The change as a patch."""
        from difflib import unified_diff

        old, new = self.old or "", self.new or ""
        name = self.name.lstrip("/")
        before = "/dev/null" if self.old is None else f"a/{name}"
        after = "/dev/null" if self.new is None else f"b/{name}"
        lines = unified_diff(_lines(old), _lines(new), before, after)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        )


def _lines(text: str) -> list[str]:
    """The lines with their ends; nothing but a line break ends one."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def read(path: str, name: str) -> str | None:
    """The text of a file, None if there is none. Raises InstallError if it is not text."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        if os.path.islink(path):
            raise InstallError(
                f"{name} is a link to a missing file: {os.readlink(path)}",
                hint="repair or remove the link, then try again; nothing was written",
                path=path,
            ) from None
        return None
    except OSError as error:
        raise InstallError(
            f"{name} cannot be read: {error.strerror}", hint=_NOTHING, path=path
        ) from error
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InstallError(
            f"{name}, line {line}: the file is not UTF-8", hint=_NOTHING, path=path, line=line
        ) from error


_NOTHING = "correct it and try again; nothing was written"


def write(change: Change) -> None:
    """Replace the old text by the new one atomically, with the same mode.

    Raises InstallError if another program has changed the file meanwhile.
    """
    path = os.path.realpath(change.path)
    if read(path, change.name) != change.old:
        raise InstallError(
            f"another program has just changed {change.name}", hint="try again", path=change.path
        )
    if change.new is None:
        os.unlink(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _replace(change.path, change.new.encode())


def _replace(path: str, data: bytes) -> None:
    try:
        # People link their settings to a folder of dotfiles, so the link must stay.
        replace_file(path, data, like_old=True, follow_link=True, durable=True)
    except OSError as error:
        raise InstallError(
            f"{path} cannot be written: {error.strerror}", hint="see to that and try again",
            path=path,
        ) from error  # fmt: skip


def keep(folder: str, change: Change) -> str:
    """Back up the old text below a folder; returns the path, empty if there was no file."""
    if change.old is None:
        return ""
    name = change.name.lstrip("/").replace("../", "")
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "xb") as file:
        file.write(change.old.encode())
    return path
