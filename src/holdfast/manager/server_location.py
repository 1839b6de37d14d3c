"""The ledger of a tree on a server: its URL, and the name of the repository in the database.

The URL is that of `HOLDFAST_STORE`, or else `store` in `holdfast.toml`, which is committed and so
may have no password. All clones of a repository must find the same name. It is `repository` in
`holdfast.toml`, or else the fragment of the URL, or else the first commit of the history (of
several, the least), which every complete clone has. A tree below the root of its repository, with a
`.holdfast` of its own, adds its path: its keys are relative to another folder.

A clone keeps the name in `.holdfast/server.json`, because git may need seconds to find it, and with
it the URL, without any password. From then on it is known that the ledger of this clone is on a
server: where no server is named, nothing is opened (see `holdfast.manager.ledger_location`).

What this does not promise: the name from the history is that of the moment when it was first
needed. A clone that merged an unrelated history later has more first commits than one made before:
set `repository` in such a repository.
"""

from __future__ import annotations

import os

from holdfast.core import codec
from holdfast.core.model import Value
from holdfast.core.root_errors import BadKeyError, HoldfastError, SettingsError, StoreError
from holdfast.manager.files import checkouts
from holdfast.manager.files.replace_file import replace_file
from holdfast.manager.files.settings_text import FILE, text_of
from holdfast.manager.ledger_location import SERVER_FILE, own_folder, own_store
from holdfast.manager.owners.variables import SOCKET, STORE
from holdfast.store import store_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

#: A large history on a slow disk delays git, but not without limit.
GIT_SECONDS_MAX = 60.0
_NAME_IT = f'set repository = "…" above all tables of {FILE}, the same in all clones'
#: Variables of git that say how it runs, and not which repository is meant.
_GIT_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")


class Kept(Value):
    """What a clone knows of its ledger on a server. `commit` is the name from its history; empty if
    that was not needed so far."""

    __slots__ = ("commit", "repository", "store")

    def __init__(self, *, store: str, repository: str, commit: str = "") -> None:
        self.store: Final = store
        self.repository: Final = repository
        self.commit: Final = commit


def url_of(root: str) -> str:
    """The URL of the ledger of a tree. Raises SettingsError, BadKeyError, StoreError."""
    settings = _settings(root)
    url = _variable()
    if not url:
        url = _from_settings(root, settings)
        if not url and not os.path.lexists(f"{root}/{SERVER_FILE}"):
            return own_store(root)
        if os.environ.get(SOCKET):
            raise _runner_asks(root)
        if not url:
            raise _not_named(root)
    return _completed(url, root, settings, keeps=True)


def complete(url: str, root: str) -> str:
    """A URL given for one call, with the name of the repository if it has none. Nothing is kept: it
    does not say where the ledger of the tree is. Raises as `url_of`."""
    if store_url.split(url)[1]:
        _check(url)
        return url
    return _completed(url, root, _settings(root), keeps=False)


def is_meant(root: str) -> bool:
    """Whether the ledger of a tree is on a server, or that cannot be told."""
    if _variable() or os.path.lexists(f"{root}/{SERVER_FILE}"):
        return True
    try:
        return bool(_from_settings(root, _settings(root)))
    except HoldfastError:
        return True


def _variable() -> str:
    url = os.environ.get(STORE, "")
    return url if store_url.is_server(url) else ""


def _settings(root: str) -> dict[str, Any]:
    """The tables of the settings, if they may have a key that matters here. Raises SettingsError
    if they cannot be parsed."""
    file = f"{root}/{FILE}"
    text = text_of(file)
    if text is None or not ("store" in text or "repository" in text):
        return {}
    from holdfast.manager.files.plain_toml import plain_tables, toml_tables

    tables = plain_tables(text)
    return toml_tables(file, text) if tables is None else tables


def _from_settings(root: str, tables: dict[str, Any]) -> str:
    url = tables.get("store", "")
    if url != "" and not store_url.is_for_settings(url):
        raise SettingsError(
            f"store in {FILE} must be {store_url.WANTED_STORE}",
            hint="correct that line: the file is committed, and every clone can read it",
            file=f"{root}/{FILE}", key="store",
        )  # fmt: skip
    return str(url)


def _runner_asks(root: str) -> StoreError:
    """Below a runner or a broker, commands that only read ask it instead of the ledger. The error
    is that of an embedded ledger, which is closed to them by the kernel."""
    from holdfast.core.errors import StoreReadonlyError

    return StoreReadonlyError(
        f"the ledger of {root} is on a server, and only the runner of this command uses it",
        hint="inside, holdfast status, check and blockers ask the runner; do the rest outside",
        path=f"{root}/{SERVER_FILE}",
    )


def _not_named(root: str) -> StoreError:
    kept = kept_of(root)
    where = f" ({kept.store})" if kept is not None and kept.store else ""
    return StoreError(
        f"the ledger of {root} is on a server{where}, and nothing here names that server",
        hint=f"set {STORE} to its URL; to go back to a ledger in this clone, which knows nothing "
        f"of the leases there, remove {SERVER_FILE}",
        path=f"{root}/{SERVER_FILE}",
    )


# The name


def _completed(url: str, root: str, settings: dict[str, Any], *, keeps: bool) -> str:
    _check(url)
    own_folder(root)  # raises if it is a link
    base, fragment = store_url.split(url)
    named = settings.get("repository", "")
    if named != "" and not store_url.is_name(named):
        raise SettingsError(
            f"repository in {FILE} must be {store_url.WANTED_NAME}",
            hint="correct that line", file=f"{root}/{FILE}", key="repository",
        )  # fmt: skip
    kept = kept_of(root)
    commit = "" if kept is None else kept.commit
    name = named or fragment or commit
    if not name:
        name = commit = first_commit(root)
    if not store_url.is_name(name):
        raise _nameless(root, f"{name!r} is not {store_url.WANTED_NAME}")
    if keeps:
        new = Kept(store=store_url.without_password(base), repository=name, commit=commit)
        if new != kept:
            _keep(root, new)
    return store_url.joined(base, name)


def _check(url: str) -> None:
    fragment = store_url.split(url)[1]
    if not store_url.is_readable(url):
        raise BadKeyError(
            f"{store_url.without_password(url)!r} does not name a store",
            hint=store_url.WRITE_IT,
        )
    if fragment and not store_url.is_name(fragment):
        raise BadKeyError(
            f"{store_url.without_password(url)!r} does not name a repository",
            hint=f"after # there must be {store_url.WANTED_NAME}",
        )


def first_commit(root: str) -> str:
    """The name of a repository that has no other: its first commit, and the way from its root to
    the tree. Raises SettingsError if its history has none, or is incomplete."""
    said = _git(root, "rev-parse", "--is-shallow-repository", "--show-prefix").split("\n")
    if said[0] == "true":
        raise _nameless(root, "this clone is shallow, so its first commit is not known")
    commits = sorted(_git(root, "rev-list", "--max-parents=0", "HEAD", "--").split())
    if not commits:
        raise _nameless(root, "its history has no commit")
    inner = said[1].rstrip("/") if len(said) > 1 else ""
    return f"{commits[0]}:{inner}" if inner else commits[0]


def _git(root: str, *words: str) -> str:
    import subprocess

    kept = {
        name: text for name, text in os.environ.items()
        if not name.startswith("GIT_") or name in _GIT_KEPT
    }  # fmt: skip
    try:
        done = subprocess.run(
            ["git", "-C", root, "--no-replace-objects", *words], env={**kept, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=GIT_SECONDS_MAX,
        )  # fmt: skip
    except OSError as error:
        raise _nameless(root, f"git cannot be run ({error.strerror})") from error
    except subprocess.TimeoutExpired as error:
        raise _nameless(root, f"git did not answer within {GIT_SECONDS_MAX:g} s") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
        raise _nameless(root, f"git says: {said[-1] if said else done.returncode}")
    return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def _nameless(root: str, why: str) -> SettingsError:
    return SettingsError(
        f"{root} has no name on the server: {why}",
        hint=_NAME_IT, file=f"{root}/{FILE}", key="repository",
    )  # fmt: skip


# What a clone keeps


def kept_of(root: str) -> Kept | None:
    """What a clone knows of its ledger on a server; None if there is nothing, or nothing usable."""
    try:
        with open(f"{root}/{SERVER_FILE}", "rb") as stream:
            found = codec.loads(stream.read(1 << 16).decode().strip())
        texts = {name: found.get(name, "") for name in Kept.__slots__}
    except (OSError, ValueError, AttributeError, RecursionError):
        return None
    return Kept(**texts) if all(isinstance(text, str) for text in texts.values()) else None


def _keep(root: str, new: Kept) -> None:
    """Outside of a repository nothing is kept: a `.holdfast` made there would be the nearest for
    everything below."""
    folder = own_folder(root)
    is_known = os.path.isdir(folder) or os.path.lexists(f"{root}/.git") or checkouts.is_bare(root)
    if not is_known:
        return
    facts = {"store": new.store, "repository": new.repository}
    if new.commit:
        facts["commit"] = new.commit
    try:
        from holdfast.store.sqlite.schema import make_folder

        make_folder(folder)
        text = f"{codec.dumps(facts)}\n".encode("utf-8", "surrogatepass")
        replace_file(f"{root}/{SERVER_FILE}", text, durable=True)
    except OSError as error:
        raise StoreError(
            f"cannot write {root}/{SERVER_FILE}: {error.strerror or type(error).__name__}",
            hint="make its folder writable: the clone keeps there that its ledger is on a server",
            path=f"{root}/{SERVER_FILE}",
        ) from error
