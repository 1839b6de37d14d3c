"""A ledger moves to another store, with its whole history.

There are never two ledgers that can be used. First the source says where it goes, and from then on
no process decides there; then the target gets everything in one transaction; then the source says
that it is over. So after a crash between the steps neither can be used, and the same copy, begun
again, goes on from there.

The way back is the same copy in the other direction. From a source that is only being moved, it
makes sure that the target is never filled, and then the source can be used as before. A source that
was moved gets everything that happened since.

What this does not promise: a backup that is restored, or a file that was copied by other means,
knows nothing of a move that came later.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core.errors import LockConflictError, StoreError
from holdfast.core.model import SECOND, Value
from holdfast.core.root_errors import BadKeyError
from holdfast.core.sentences import duration
from holdfast.manager.clock import SystemClock
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import LEDGER_FOLDER, Tree
from holdfast.manager.files.unfinished_edits import dead_in
from holdfast.manager.ids import new_id
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.manager.ledger_location import SERVER_FILE, complete, is_url, root_of
from holdfast.manager.manager import LockManager
from holdfast.store import move_marks, open_store
from holdfast.store.by_kind import has_ledger, mover
from holdfast.store.move_marks import Move
from holdfast.store.store_url import is_server, without_password

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from holdfast.core.model import Grant, Ticket
    from holdfast.core.view import View
    from holdfast.store.contract import Mover, Page

#: What became of it.
COPIED, ALREADY, UNDONE = "copied", "already", "undone"
#: How many holders a refusal names.
NAMED_MAX = 3
#: A ledger this far ahead of the server's clock is worth a word.
AHEAD = SECOND


class Copied(Value):
    """What became of a copy. `events` is how many were copied by this call; `ahead` is how many
    microseconds the ledger's time is ahead of the clock of its new server."""

    __slots__ = ("ahead", "events", "outcome", "source", "target")

    def __init__(
        self, outcome: str, source: str, target: str, *, events: int = 0, ahead: int = 0
    ) -> None:
        self.outcome: Final = outcome
        self.source: Final = source
        self.target: Final = target
        self.events: Final = events
        self.ahead: Final = ahead


def url_of(text: str, folder: str) -> str:
    """The URL of a store as a person names it: by its URL, by its file, or by the folder of its
    tree. One on a server that names no repository means that of the tree around `folder`."""
    if text.startswith("memory:"):
        raise BadKeyError(
            "a ledger in memory ends with its process",
            hint="name a ledger on disk or on a server",
            url=text,
        )
    if is_server(text):
        return complete(text, root_of(text, folder))
    if is_url(text):
        path = text.removeprefix("sqlite://")
        if not path.startswith("/"):
            raise BadKeyError(
                f"{text!r} does not name a store",
                hint="use sqlite:///absolute/path/to/ledger.db",
                url=text,
            )
    else:
        if "://" in text:
            raise BadKeyError(
                f"{without_password(text)!r} does not name a store",
                hint="use sqlite:///absolute/path/to/ledger.db, postgresql://host/database#name, "
                "or the folder of a repository",
            )
        path = realpath.absolute(os.path.join(folder, text))
        if os.path.isdir(path):
            path = f"{path}/{LEDGER_FOLDER}/ledger.db"
    return f"sqlite://{path}"


def copy(source: str, target: str) -> Copied:
    """Move a ledger, both given by their URLs. Raises LockConflictError if the source is in use, or
    the target is not empty."""
    _refuse_same(source, target)
    if not has_ledger(source, end=_soon()):
        shown = without_password(source)
        raise StoreError(
            f"there is no ledger at {shown}: nothing to copy",
            hint="check the path, or the name after the #",
            path=shown,
        )
    with _Opened(source) as old:
        if old.move(deadline=_soon()) is None:
            _end_the_dead(old)
            with old.store.view(deadline=_soon()) as view:
                _refuse_in_use(view, old.store.url)
        with _Opened(target) as new:
            done = _copy(old, new)
    _forget_server(done.target)
    return done


def _copy(old: Mover, new: Mover) -> Copied:
    source, target = old.store.url, new.store.url
    move, back = old.move(deadline=_soon()), new.move(deadline=_soon())
    if back is not None and back.to == source and not back.is_over:
        if old.call_off(back.id, deadline=_soon()):
            new.mark(back, None, deadline=_soon())
            return Copied(UNDONE, source, target)
        back = new.mark(back, back.completed(), deadline=_soon())
    if move is not None and new.has_copied(move.id, deadline=_soon()):
        old.mark(move, move.completed(), deadline=_soon())
        return Copied(ALREADY if move.is_over else COPIED, source, target)
    if back is not None:
        if back.to != source:
            raise move_marks.gone(back, target)
        if not old.has_copied(back.id, deadline=_soon()):
            raise move_marks.no_descendant(source, target)
    if move is None:
        head = new.head(deadline=_soon())
        if back is None and head:
            raise move_marks.not_empty(target, head)
        move = old.mark(
            None,
            Move(new_id(), target),
            lambda view: _refuse_in_use(view, source),
            deadline=_soon(),
        )
        assert move is not None
    if move.to != target or move.is_over:
        raise move_marks.gone(move, source)
    counted = _take(old, new, move, back)
    old.mark(move, move.completed(), deadline=_soon())
    return Copied(COPIED, source, target, events=counted, ahead=_ahead(new))


def _forget_server(url: str) -> None:
    """A clone whose ledger has come back does not know any more that it is on a server."""
    folder = os.path.dirname(url.removeprefix("sqlite://"))
    if os.path.basename(folder) == LEDGER_FOLDER:
        try:
            os.unlink(f"{os.path.dirname(folder)}/{SERVER_FILE}")
        except FileNotFoundError:
            pass


def _take(old: Mover, new: Mover, move: Move, back: Move | None) -> int:
    """Fill the target. How many events that were."""
    counted = 0

    def pages() -> Iterator[Page]:
        nonlocal counted
        counted = 0
        for table, rows in old.pages():
            if table == "events":
                counted += len(rows)
            yield table, rows

    try:
        new.take(move.id, pages, back, deadline=_soon())
    except BaseException as error:
        if _given_back(old, new, move, error):
            raise
    return counted


def _given_back(old: Mover, new: Mover, move: Move, error: BaseException) -> bool:
    """After a copy that failed: let the source be used again, if the target is not filled and never
    will be. Whether the copy has failed."""
    again = move_marks.command(old.store.url, new.store.url)
    try:
        if not new.call_off(move.id, deadline=_soon()):
            return False  # only the answer was lost
        old.mark(move, None, deadline=_soon())
    except StoreError:
        if isinstance(error, StoreError):
            error.hint = f"{error.hint}; nothing can be used until the copy is complete: {again}"
    else:
        if isinstance(error, StoreError):
            error.hint = f"{error.hint}; nothing was moved, and the ledger is in use where it was"
    return True


def _ahead(new: Mover) -> int:
    if not is_server(new.store.url):
        return 0
    with new.store.view(deadline=_soon()) as view:
        return view.now - view.wall if view.now - view.wall > AHEAD else 0


# The source


def _end_the_dead(old: Mover) -> None:
    """End the leases of dead owners: nothing holds them any more."""
    LockManager(old.store, tree=_tree(old.store.url)).reap()


def _refuse_in_use(view: View, url: str) -> None:
    grants, tickets = view.grants(), view.queue()
    if not grants and not tickets:
        return
    said = [_held(grant, view.now) for grant in grants]
    said += [_awaited(ticket, view.now) for ticket in tickets]
    rest = len(said) - NAMED_MAX
    more = f"; and {rest} more" if rest > 0 else ""
    raise LockConflictError(
        f"{url} is in use: {'; '.join(said[:NAMED_MAX])}{more}",
        hint="let them finish, or end them (holdfast status --all, holdfast unlock --force), then "
        "repeat the command; nothing was moved",
        path=url,
        grants=[grant.id for grant in grants[:NAMED_MAX]],
        waiting=len(tickets),
    )


def _held(grant: Grant, now: int) -> str:
    path = grant.paths[0] if grant.paths else "nothing"
    rest = len(set(grant.paths)) - 1
    more = f" and {rest} more" if rest > 0 else ""
    return f"{grant.holder.id} has held {path}{more} for {duration(now - grant.acquired_at)}"


def _awaited(ticket: Ticket, now: int) -> str:
    request = ticket.request
    path = request.paths[0] if request.paths else "a lock"
    return f"{request.holder.id} has waited for {path} for {duration(now - ticket.added_at)}"


# Both


def _refuse_same(source: str, target: str) -> None:
    same = without_password(source) == without_password(target)
    paths = [url.removeprefix("sqlite://") for url in (source, target)]
    if not same and all(os.path.exists(path) for path in paths):
        same = os.path.samefile(*paths)
    if same:
        raise BadKeyError(
            f"{without_password(source)} cannot be copied to itself",
            hint="name another store as the target",
        )


class _Opened:
    """An open store, as long as it is needed."""

    def __init__(self, url: str) -> None:
        dead = dead_in(_tree(url).root, is_shared=is_server(url))
        self._store = open_store(url, clock=SystemClock(), is_dead=dead, end=_soon())

    def __enter__(self) -> Mover:
        return mover(self._store)

    def __exit__(self, *_: object) -> None:
        self._store.close()


def _tree(url: str) -> Tree:
    return Tree(root_of(url, ""), is_shared=is_server(url))


def _soon() -> float:
    return monotonic() + DEADLINE_SECONDS
