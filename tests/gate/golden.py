"""Ledgers that earlier versions wrote, kept as text files: how to rebuild one, and its agents."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from holdfast.core.model import SECOND, Witness
from holdfast.manager.clock import FakeClock
from holdfast.manager.owners import liveness

FOLDER: Final = Path(__file__).parent / "golden"

#: When the clock of `ledger-0` began, and how long it ran.
BEGAN: Final = 1_735_689_600 * SECOND
LASTED_SECONDS: Final = 212
#: When the agents in the queue at its end make their retry, in seconds from the beginning.
RETRY_SECONDS: Final = 380


class Name(str):
    """The session of an agent in `ledger-0`."""

    __slots__ = ("pid",)

    def __new__(cls, session: str, pid: int) -> Name:
        made = super().__new__(cls, session)
        made.pid = pid
        return made

    pid: int


#: Has app/x.py, and was refused lib/y.py, which would have closed a deadlock. A command of IDA
#: changed app/x.py; ANN has not been told yet.
ANN: Final = Name("9af06104-75a9-583b-9d61-8d3891e48bfa", 5000)
#: Has lib/y.py, and is in the queue for app/x.py.
BOB: Final = Name("f0814790-fc20-5175-9fe2-114b23521c75", 5001)
#: Was blocked by ANN, and is idle; its file, app/dan.py, came free two seconds ago.
DAN: Final = Name("96fae25f-6da1-59c5-9b0b-51f9e4de6006", 5002)
#: Its sub-agent CHILD_OF_HAL was blocked by ANN, and ended.
HAL: Final = Name("40aa64d6-4a5f-5ed1-8964-f0e5b4c9a6f5", 5003)
CHILD_OF_HAL: Final = "a0000000000000001"
#: Was blocked and may continue. Has app/kim.py and app/z.py.
KIM: Final = Name("40084ead-24d6-5053-911e-c8030b259dfd", 5004)
#: Its CHILD has README.md, and lib/grand.py from a sub-agent that ended; the GRANDCHILD has
#: lib/new.py. It has just called for another sub-agent.
GUS: Final = Name("4888487c-e87d-589e-934d-1d7b0726ac3d", 5005)
CHILD: Final = "a0000000000000002"
GRANDCHILD: Final = "a0000000000000004"
#: Its command changed lib/y.py of BOB, and its client did not report the command's end.
IVY: Final = Name("8a0baa4d-de92-5039-be21-5ec640cd9740", 5007)
#: Has app/fay.py, and became idle two seconds ago.
FAY: Final = Name("a7b39f07-f54a-5a19-bd34-cb9bceafc7dd", 5008)
#: Agents of Codex: the first has app/cox.py, and the second is in the queue for it.
COX: Final = Name("f3da0afe-ddfd-5367-9653-73ab7c3869ff", 5009)
COY: Final = Name("d8437b03-e9a8-573e-98df-c29824383722", 5010)
#: Has lib/lee.py. It was shown to people under the same name as FAY.
LEE: Final = Name("a7b39f07-6830-545e-9038-a8c9192f5a50", 5011)
#: Was refused app/mia.py, which is free and reserved for it until its retry.
NED: Final = Name("64d456c3-518d-50db-848a-78957107dcbc", 5013)
#: Was the first that was refused app/x.py; its retry was due 32 seconds ago.
ODA: Final = Name("56790952-7dc5-5a7b-a896-6b40fa7eb728", 5014)
#: Was interrupted while its call for app/x.py was held open.
PIA: Final = Name("3450ed7e-08bb-57a4-bf04-c9b165a9de01", 5015)
#: Has app/sue.py and lib/sue.py, of which only the first could be restored.
SUE: Final = Name("ff764e01-0d7d-521a-9ba1-bca1dcb19ba1", 5016)


def rebuilt(path: Path, folder: Path) -> str:
    """Make the ledger of such a file in a folder, with the files that the guard kept; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger = folder / "ledger.db"
    assert not ledger.exists()
    connection = sqlite3.connect(ledger, isolation_level=None)
    try:
        connection.executescript(path.read_text(encoding="utf-8"))
    finally:
        connection.close()
    beside = path.with_suffix("")
    if beside.is_dir():
        shutil.copytree(beside, folder / "aside")
    return str(ledger)


def clock_of_ledger_0() -> FakeClock:
    """The clock at the moment at which the ledger was written."""
    made = FakeClock(BEGAN)
    made.advance(LASTED_SECONDS)
    return made


def let_die(monkeypatch: pytest.MonkeyPatch, *gone: Name) -> None:
    """From now on the processes of these agents are known to be dead."""
    pids = {one.pid for one in gone}

    def is_dead(
        witness: Witness,
        marks: tuple[str, ...],
        sought: Callable[[tuple[str, ...]], liveness.Sought] = liveness.as_plain_marks,
        *,
        is_shared: bool = False,
    ) -> bool | None:
        if witness.host == "golden-host":
            return witness.pid in pids
        return liveness.is_dead(witness, marks, sought, is_shared=is_shared)

    monkeypatch.setattr("holdfast.manager.files.unfinished_edits.is_dead", is_dead)


def furnished(root: Path) -> Path:
    """The files of the repository that `ledger-0` describes, as they were when it was written."""
    (root / ".git").mkdir(parents=True)
    for file in ("app/x.py", "lib/y.py", "app/dan.py", "app/kim.py", "app/z.py", "README.md",
                 "lib/grand.py", "lib/new.py", "app/fay.py", "app/cox.py", "lib/lee.py",
                 "app/mia.py", "app/sue.py", "lib/sue.py", "free.py"):  # fmt: skip
        (root / file).parent.mkdir(exist_ok=True)
        (root / file).write_text("new\n")
        os.chmod(root / file, 0o644)
    for file in ("app/x.py", "lib/y.py", "lib/sue.py"):
        with open(root / file, "a", encoding="ascii") as text:
            text.write("sneaky\n")
    with open(root / "lib/sue.py", "a", encoding="ascii") as text:
        text.write("again\n")
    return root
