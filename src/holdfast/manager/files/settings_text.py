"""The text of a repository's settings: `holdfast.toml` at its root.

Every hook reads it. What the keys mean is said where they are used: `gate.config.settings`,
`work.screens.layout`, and for the store of the ledger `manager.server_location`.
"""

from __future__ import annotations

from holdfast.core.root_errors import SettingsError

FILE = "holdfast.toml"
#: The table that no hook reads, and the first part of the names of its subtables.
WORK = "work"
#: A larger file cannot be meant as settings.
SIZE_MAX = 1 << 18
HINT = "correct it, or remove it: without it the defaults apply"


def text_of(file: str) -> str | None:
    """The text of a settings file; None if there is none. Raises SettingsError."""
    try:
        with open(file, "rb") as stream:
            data = stream.read(SIZE_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be read: {error.strerror or type(error).__name__}",
            hint="make it a readable file, or remove it: without it the defaults apply",
            file=file,
        ) from error
    if len(data) > SIZE_MAX:
        raise SettingsError(
            f"{file} is larger than {SIZE_MAX >> 10} KiB, the limit for settings",
            hint=HINT, file=file,
        )  # fmt: skip
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            f"{file}, line {line}: this is not UTF-8", hint=HINT, file=file, line=line
        ) from error
