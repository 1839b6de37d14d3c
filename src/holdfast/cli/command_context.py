"""Which ledger a command works on, who calls it, and where its paths start.

A path is relative to the caller's folder (or to `-C`), never to the root of the repository. The
ledger is that of the nearest `.holdfast` above the first path, else of the git work tree around
it. A first path in neither belongs to the ledger of the caller's folder, which is made there if
the caller is in no repository; a path outside of that is refused, and no ledger is made around it.

A ledger on a server (see `holdfast.manager.ledger_location`) is there without any file, in each
repository: `--store` with a server's URL holds for this process and all that it starts.

Commands that only look never make a ledger: one made in a home folder by mistake would be the
nearest for everything below it. For the same reason a request that is refused for its paths makes
none outside of a repository.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.cli.parser import UsageError
from holdfast.core import keys
from holdfast.core.errors import LockNotHeldError
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import LEDGER_FOLDER, Tree, home_root
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.manager.ledger_location import is_on_server, own_folder
from holdfast.manager.manager import LockManager
from holdfast.manager.owners import variables
from holdfast.manager.owners.identity import whoami
from holdfast.store.store_url import is_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from holdfast.cli.parser import Call
    from holdfast.core.view import View
    from holdfast.manager.owners.identity import Self

STORE_VARIABLE = variables.STORE


class CommandContext:
    """The folder, store and holder of one command. Creating it enters the folder of `-C`."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.folder = _enter(call.many("-C"))
        #: The URL of a store on this machine, if one was named.
        self.store = call.text("store") or os.environ.get(STORE_VARIABLE) or ""
        if is_server(self.store):
            os.environ[STORE_VARIABLE] = self.store  # from here on it is the ledger of each tree
            self.store = ""
        if self.store.startswith("memory:"):
            raise UsageError(
                "a ledger in memory would end with this command",
                hint="use sqlite:///absolute/path/to/ledger.db, or no --store at all",
            )

    def me(self) -> Self:
        """The caller as a holder, and how it was determined."""
        return whoami(os.environ, holder=self.call.text("holder"))

    def places(self, texts: list[str]) -> list[str]:
        """Make paths absolute; leave resources and unusable words as they are."""
        return [self._place(text) for text in texts]

    def _place(self, text: str) -> str:
        if not text or text.isspace() or keys.kind(text) != "path" or realpath.is_absolute(text):
            return text
        return os.path.join(self.folder, text)

    def open(self, places: list[str]) -> LockManager:
        """Open the ledger for these places, and make it if there is none."""
        if self.store:
            return LockManager.open("", store=self.store)
        root = self._root(places)
        if not is_repository(root):
            tree = Tree(root)
            for place in places:
                tree.place(place)  # raises BadKeyError before a ledger is made
            if is_on_server(root):
                from holdfast.store.sqlite.schema import make_folder

                make_folder(own_folder(root))  # the tree begins here, as with a ledger on disk
        return LockManager.open(root)

    def find(self, places: list[str]) -> LockManager | None:
        """Open the ledger for these places, if there is one."""
        if self.store:
            is_there = os.path.exists(self.store.removeprefix("sqlite://"))
            is_known = self.store.startswith("sqlite:///")
        else:
            root = self._root(places)
            is_there = os.path.isdir(f"{root}/{LEDGER_FOLDER}")
            is_there = is_there or (is_repository(root) and is_on_server(root))
            is_known = True
        return self.open(places) if is_there or not is_known else None

    def root(self) -> str:
        """The root of the tree that the caller is in."""
        return home_root(self.folder)

    def _root(self, places: list[str]) -> str:
        for place in places:
            if realpath.is_absolute(place) and keys.kind(place) == "path":
                root = home_root(place)
                if is_repository(root):
                    return root
                break
        return self.root()


def is_repository(root: str) -> bool:
    """Whether a folder has a ledger, or is the root of a git work tree."""
    return os.path.lexists(f"{root}/{LEDGER_FOLDER}") or os.path.lexists(f"{root}/.git")


def _enter(folders: list[str]) -> str:
    try:
        for folder in folders:
            os.chdir(folder)
        return os.getcwd()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        where = repr(folders[-1]) if folders else "the current folder"
        raise UsageError(
            f"cannot work in {where}: {why}", hint="name a folder that exists"
        ) from error


def tree_of(manager: LockManager) -> Tree:
    """The tree of a ledger on disk."""
    assert manager.tree is not None
    return manager.tree


def view_of(manager: LockManager) -> AbstractContextManager[View]:
    """The current state, to read."""
    return manager.store.view(deadline=monotonic() + DEADLINE_SECONDS)


def nothing_held(what: str) -> LockNotHeldError:
    """The error for a name where no ledger exists, so nothing is held."""
    return LockNotHeldError(
        f"{what} is not locked: there is no ledger here yet",
        hint="holdfast status shows who holds what",
    )
