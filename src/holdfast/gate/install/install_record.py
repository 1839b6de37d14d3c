"""The record of the files that `init` wrote, so that `--undo` can restore exactly those.

It is kept in `.holdfast/init.json`, with each file's earlier text. If the record is lost, our hooks
are still recognised by the script they run; only the earlier text is then reconstructed.
"""

from __future__ import annotations

import json
import os
from hashlib import sha256

from holdfast.core.model import Value
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.files.replace_file import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

NAME = "init.json"


class Written(Value):
    """One file: its text `before` ours, None if there was none, and the mark of the text we wrote.

    `folder`: we created the folder too. `lines` are the lines that we added to a list of lines.
    """

    __slots__ = ("before", "client", "folder", "lines", "mark", "path")

    def __init__(
        self,
        client: str,
        path: str,
        before: str | None,
        mark: str,
        *,
        folder: bool = False,
        lines: tuple[str, ...] = (),
    ) -> None:
        self.client: Final = client
        self.path: Final = path
        self.before: Final = before
        self.mark: Final = mark
        self.folder: Final = folder
        self.lines: Final = lines

    def is_untouched(self, text: str | None) -> bool:
        """Whether a text is the one that we wrote."""
        return text is not None and mark(text) == self.mark


class Record:
    """All files that were written, by their names."""

    def __init__(self, version: str = "", files: dict[str, Written] | None = None) -> None:
        self.version = version
        self.git = False
        self.files: dict[str, Written] = files if files is not None else {}

    @property
    def is_empty(self) -> bool:
        """Whether no file that we wrote is left."""
        return not self.files and not self.git


def mark(text: str) -> str:
    """A digest that identifies a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def file_of(root: str) -> str:
    """Where the record is."""
    return f"{root}/{LEDGER_FOLDER}/{NAME}"


def load(root: str) -> Record:
    """The record of a repository. A record that cannot be read counts as none."""
    return load_file(file_of(root))


def load_file(file: str) -> Record:
    """The same, from a file."""
    try:
        with open(file, encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return Record()
    record = Record()
    if not isinstance(found, dict):
        return record
    record.version = str(found.get("version", ""))
    record.git = found.get("git") is True
    files = found.get("files")
    for name, fields in files.items() if isinstance(files, dict) else ():
        written = _written(fields)
        if written is not None:
            record.files[name] = written
    return record


def _written(fields: Any) -> Written | None:
    if not isinstance(fields, dict):
        return None
    client, path, found = (fields.get(name) for name in ("client", "path", "mark"))
    before, lines = fields.get("before"), fields.get("lines", [])
    if not (isinstance(client, str) and isinstance(path, str) and isinstance(found, str)):
        return None
    if not (before is None or isinstance(before, str)) or not isinstance(lines, list):
        return None
    folder, lines = fields.get("folder") is True, tuple(map(str, lines))
    return Written(client, path, before, found, folder=folder, lines=lines)


def save(root: str, record: Record) -> None:
    """Write the record, or remove it if nothing is left."""
    file = file_of(root)
    if record.is_empty:
        if os.path.lexists(file):
            os.unlink(file)
        return
    data = {
        "version": record.version,
        "git": record.git,
        "files": {
            name: {
                "client": one.client, "path": one.path, "before": one.before, "mark": one.mark,
                "folder": one.folder, "lines": list(one.lines),
            }
            for name, one in record.files.items()
        },
    }  # fmt: skip
    replace_file(file, f"{json.dumps(data, indent=1)}\n".encode())
