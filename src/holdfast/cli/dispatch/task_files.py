"""Which files are work: lists of tasks, and manifests of screens."""

from __future__ import annotations

import os

from holdfast.cli.parser import UsageError


def refuse_other(path: str) -> None:
    """Raise UsageError for a file that is not a list of tasks, unless it looks like a manifest."""
    if not os.path.lexists(path):
        raise UsageError(
            f"{path}: there is no such file",
            hint='name a list of tasks: tasks.toml, TODO.md, or --task "what to do"',
        )
    if path.endswith(".json"):
        return  # the manifest's reader reports the mistakes in it
    try:
        with open(path, "rb") as file:
            start = file.read(4096).lstrip()[:1]
    except OSError:
        start = b""
    if start not in (b"{", b"["):
        raise UsageError(
            f"{path} is not a list of tasks",
            hint="a list is a .toml file or a Markdown checklist (.md): holdfast dispatch --help",
        )
