"""Where the ledger of a path is, and which tree it covers.

The ledger of a tree is on a server if one is named: by `HOLDFAST_STORE` (which `--store` sets for
its command), or else by `store` in `holdfast.toml`. Otherwise it is the tree's own, in `.holdfast`.
Everything that opens the ledger of a tree asks here, so hooks, commands and side processes agree.

A clone whose ledger is on a server has a file that says so. Where no server is named any more, such
a clone has no ledger until a person decides: a second one, begun in silence, would let two agents
write the same file. What concerns a server is in `holdfast.manager.server_location`, which is
imported only if the variable, the settings or that file mention one.
"""

from __future__ import annotations

import os

from holdfast.core.root_errors import BadKeyError
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import LEDGER_FOLDER, home_root
from holdfast.manager.files.settings_text import FILE, SIZE_MAX
from holdfast.manager.owners.variables import STORE, for_agents, of_server
from holdfast.store.store_url import is_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Under the root: which store on a server has the ledger of this clone, and under which name.
SERVER_FILE = f"{LEDGER_FOLDER}/server.json"

_EMBEDDED = "sqlite://"
#: How a line of the settings begins that may name a store.
_KEYS = (b"store", b'"store"', b"'store'")


def is_url(place: str) -> bool:
    """Whether a text names a store rather than a path."""
    return place.startswith(("memory:", "sqlite:")) or is_server(place)


def store_of(root: str) -> str:
    """The URL of the ledger of a tree whose root is resolved. Raises if its server is not known, or
    not named rightly."""
    if mentions_server(root):
        from holdfast.manager import server_location

        return server_location.url_of(root)
    return own_store(root)


def has_ledger(root: str) -> bool:
    """Whether a tree has a ledger: opening a missing one would create it. True as well if its place
    cannot be told: whoever opens it learns why."""
    return os.path.lexists(f"{root}/{LEDGER_FOLDER}/ledger.db") or is_on_server(root)


def is_on_server(root: str) -> bool:
    """Whether the ledger of a tree is on a server, or that cannot be told."""
    if not mentions_server(root):
        return False
    from holdfast.manager import server_location

    return server_location.is_meant(root)


def for_agents_in(root: str, environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables that agents in a tree must not get."""
    return for_agents(environ, on_server=is_on_server(root))


def of_ledger(root: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a side process reaches the ledger of a tree: none if it is
    embedded."""
    return of_server(environ) if is_on_server(root) else {}


def mentions_server(root: str) -> bool:
    """Whether anything says that the ledger of a tree may be on a server. Hooks ask this each time,
    and nearly always it is two files that do not exist."""
    return (
        is_server(os.environ.get(STORE, ""))
        or os.path.lexists(f"{root}/{SERVER_FILE}")
        or _is_in_settings(root)
    )


def _is_in_settings(root: str) -> bool:
    try:
        with open(f"{root}/{FILE}", "rb", 0) as stream:
            data = stream.read(SIZE_MAX)
    except OSError:
        return False  # the settings cannot be used either, and their reader says why
    return b"store" in data and any(line.lstrip().startswith(_KEYS) for line in data.splitlines())


def own_store(root: str) -> str:
    """The URL of the embedded ledger of a tree."""
    return f"{_EMBEDDED}{ledger_of(root)}"


def ledger_of(root: str) -> str:
    """The embedded ledger of a tree. The store creates its folder if missing."""
    return f"{own_folder(root)}/ledger.db"


def own_folder(root: str) -> str:
    """The tree's own folder for a ledger and for all that is kept beside it. It has one even if the
    ledger is on a server."""
    folder = f"{root}/{LEDGER_FOLDER}"
    if os.path.islink(folder):
        raise BadKeyError(
            f"{folder} is a symbolic link, and a ledger must be inside the tree that it covers",
            hint="remove the link; to keep the ledger elsewhere use --store",
            path=folder,
        )
    return folder


def folder_of(url: str, root: str) -> str:
    """The folder with the files of a store: around an embedded ledger, or else the tree's own."""
    path = url.removeprefix(_EMBEDDED)
    return os.path.dirname(path) if path.startswith("/") else f"{root}/{LEDGER_FOLDER}"


def root_of(url: str, place: str) -> str:
    """The tree that a ledger covers: around its `.holdfast`, or else around the path."""
    if not place and url.startswith(_EMBEDDED):
        folder = os.path.dirname(url.removeprefix(_EMBEDDED))
        if os.path.basename(folder) == LEDGER_FOLDER:
            return os.path.dirname(folder)
    return home_root(realpath.absolute(place or "."))


def complete(url: str, root: str) -> str:
    """A URL given for one call, which names the repository of this tree if it is on a server."""
    if not is_server(url):
        return url
    from holdfast.manager import server_location

    return server_location.complete(url, root)
