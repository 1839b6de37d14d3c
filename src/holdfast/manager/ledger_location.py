"""Where the ledger of a path is, and which tree it covers."""

from __future__ import annotations

import os

from holdfast.core.root_errors import BadKeyError
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import LEDGER_FOLDER, home_root


def is_url(place: str) -> bool:
    """Whether a text names a store rather than a path."""
    return place.startswith(("memory:", "sqlite:"))


def ledger_of(root: str) -> str:
    """The ledger of a tree. The store creates its folder if missing."""
    folder = f"{root}/{LEDGER_FOLDER}"
    if os.path.islink(folder):
        raise BadKeyError(
            f"{folder} is a symbolic link, and a ledger must be inside the tree that it covers",
            hint="remove the link; to keep the ledger elsewhere use --store",
            path=folder,
        )
    return f"{folder}/ledger.db"


def root_of(url: str, place: str) -> str:
    """The tree that a ledger covers: around its `.holdfast`, or else around the path."""
    folder = os.path.dirname(url.removeprefix("sqlite://"))
    if not place and os.path.basename(folder) == LEDGER_FOLDER:
        return os.path.dirname(folder)
    return home_root(realpath.absolute(place or "."))
