"""Ledgers that are moved: made with every kind of row, read back, and moved by a process that is
killed on the way."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import pytest

from helpers_cli import environment
from holdfast.core.errors import StoreError
from holdfast.core.model import Decision, Ending, Event, Grant
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager

if TYPE_CHECKING:
    from holdfast.core.view import View

#: Makes the URL of a place of this test: the kind of its store, and a name.
Place = Callable[[str, str], str]
KINDS = ("sqlite", "postgres")
WAYS = [(one, other) for one in KINDS for other in KINDS]


def places(request: pytest.FixtureRequest, folder: Path) -> Place:
    """Places of one test, on disk and on the server of this run."""
    unique = secrets.token_hex(6)

    def place(kind: str, name: str) -> str:
        if kind == "sqlite":
            (folder / name).mkdir(exist_ok=True)
            return f"sqlite://{folder}/{name}/ledger.db"
        url: str = request.getfixturevalue("postgres_server").url(f"{unique}-{name}")
        return url

    return place


def eventful(url: str) -> str:
    """A ledger with grants that ended in every way, refusals that were repeated, and notes. Returns
    the id of a grant that was taken away."""
    with LockManager.open(url) as manager:
        first = manager.acquire(holder="ann", write_paths=["a.txt"], ttl=None)
        for _ in range(3):
            assert manager.try_acquire(holder="bob", write_paths=["a.txt"]) is None
        lost = manager.acquire(holder="cid", write_paths=["dé/b.txt"], read_paths=["lib/"])
        transactions.note(manager, "spec_told", {"text": 'quote " \\ tab\t\u2028é'}, name="told:1")
        transactions.note(manager, "spec_told", {"text": "gone"}, name="told:2")
        transactions.note(manager, "spec_told", {}, name="told:2", over=True)
        manager.force(lost.id, by="dee", reason="it hangs")
        manager.release(first.id, holder="ann")
        return lost.id


def add_events(url: str, count: int) -> None:
    """Add many events of a service, in few decisions."""
    with LockManager.open(url) as manager:
        for begin in range(0, count, 10_000):
            some = min(10_000, count - begin)

            def decide(view: View, some: int = some) -> Decision[None]:
                made = (
                    Event(seq=view.head + 1 + at, type="task_told", at=view.now, data={"n": at})
                    for at in range(some)
                )
                return Decision(None, tuple(made))

            manager.store.transact(decide, deadline=monotonic() + 60)


def history(url: str) -> list[Event]:
    """All events. Raises StoreError if the ledger was moved."""
    with LockManager.open(url) as manager:
        return list(manager.events())


def is_usable(url: str) -> bool:
    """Whether there is a ledger with a history that can be used."""
    try:
        return bool(history(url))
    except StoreError as error:
        if "moved to" not in str(error):
            raise
        return False


def last_token(url: str) -> int:
    with LockManager.open(url) as manager:
        return transactions.look(manager, lambda view: view.last_token)


def found(url: str, id: str) -> Grant | Ending | None:
    """What a ledger knows of a grant."""
    with LockManager.open(url) as manager:
        return transactions.look(manager, lambda view: view.grant(id))


def told(url: str) -> list[Any]:
    """The notes of a ledger."""
    with LockManager.open(url) as manager:
        return [note.data for note in transactions.notes(manager, "told:")]


#: Runs the move of `sys.argv[1:3]`, and is killed at the step `sys.argv[3]`: before or after the
#: n-th change of a mark, between two pages, at the end of the last page, or after the target was
#: filled.
_KILLED = """
import os, signal, sys
from holdfast.manager import ledger_move
from holdfast.store.sqlite.sqlite_mover import SqliteMover
from holdfast.store.postgres.server_mover import ServerMover
source, target, step = sys.argv[1:]

def reached(name):
    if name == step:
        os.kill(os.getpid(), signal.SIGKILL)

marks = 0
def marked(mark):
    def run(self, *words, **more):
        global marks
        marks += 1
        number = marks
        reached(f"before mark {number}")
        done = mark(self, *words, **more)
        reached(f"after mark {number}")
        return done
    return run

def paged(pages):
    def run(self):
        for number, page in enumerate(pages(self), 1):
            reached(f"before page {number}")
            yield page
        reached("after the last page")
    return run

def taken(take):
    def run(self, *words, **more):
        done = take(self, *words, **more)
        reached("filled")
        return done
    return run

for mover in SqliteMover, ServerMover:
    mover.mark, mover.pages, mover.take = marked(mover.mark), paged(mover.pages), taken(mover.take)
ledger_move.copy(source, target)
"""
STEPS = (
    "before mark 1", "after mark 1", "before page 1", "before page 2", "after the last page",
    "filled", "after mark 2",
)  # fmt: skip


def killed_at(step: str, source: str, target: str) -> None:
    """Move a ledger, and be killed at a step."""
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, source, target, step], env=environment(), check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr


def begun(source: str, target: str) -> subprocess.Popen[bytes]:
    """Begin to move a ledger in another process."""
    code = "import sys; from holdfast.manager import ledger_move; ledger_move.copy(*sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, source, target], env=environment(), stderr=subprocess.DEVNULL
    )
