"""Processes that acquire and release while their ledger is deleted or replaced again and again.

Each process records the answers that it got, with the times before and after. The check afterwards
relies on these records alone, not on the ledger's history or its tokens.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from helpers_processes import Child, Crowd, until
from holdfast import LockManager

WORKER = """
import itertools, json, pathlib
from holdfast import LockManager, StoreError
from holdfast.core.errors import Lost
root, name = pathlib.Path(sys.argv[1]), sys.argv[2]
record = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
manager = LockManager.open(root)


def note(what, began, **facts):
    line = {"who": name, "what": what, "began": began, "ended": time.monotonic(), **facts}
    os.write(record, json.dumps(line).encode() + b"\\n")


def take(path):
    began = time.monotonic()
    grant = manager.acquire(holder=name, write_paths=[root / path], timeout=20)
    note("taken", began, path=path, id=grant.id, token=grant.token)
    return grant


def passes(grant):
    began = time.monotonic()
    verified = bool(manager.verify(grant.id, token=grant.token))
    try:
        with manager.fenced(grant):
            fenced = True
    except Lost:
        fenced = False
    note("checked", began, id=grant.id, verified=verified, fenced=fenced)
    return verified and fenced


def give_back(grant):
    began = time.monotonic()
    note("released", began, id=grant.id, held=manager.release(grant.id))


kept = take(f"kept-{name}")
say("ready")
while not (root.parent / "over").exists():
    for _ in range(3):
        grant = take("contended")
        passes(grant)
        give_back(grant)
    if not passes(kept):
        kept = take(f"kept-{name}")
say("over")
go()
"""


class Replaced(NamedTuple):
    """When the ledger was replaced: the old one was there before, the new one after."""

    began: float
    ended: float


Replace = Callable[[Path, Path], None]


def delete(root: Path, _backup: Path) -> None:
    """Delete the ledger like `rm -rf`, while other processes recreate the folder."""
    shutil.rmtree(root / ".holdfast", ignore_errors=True)


def move_away(root: Path, _backup: Path) -> None:
    os.rename(root / ".holdfast", root.parent / f"moved-{time.monotonic_ns()}")


def restore(root: Path, backup: Path) -> None:
    """Restore the ledger as the guide describes: a copy beside it, and one rename inside the
    gate."""
    new = root / ".holdfast/ledger.new"
    shutil.copy(backup, new)
    with (root / ".holdfast/gate").open("rb+") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        os.replace(new, root / ".holdfast/ledger.db")


def fight(crowd: Crowd, root: Path, replace: Replace, *, workers: int, rounds: int) -> None:
    """Let processes work, replace their ledger, and check the answers that they got."""
    LockManager.open(root).close()
    backup = root.parent / "backup.db"
    shutil.copy(root / ".holdfast/ledger.db", backup)
    records = [root.parent / f"record-{number}" for number in range(workers)]
    children = [
        crowd.start(WORKER, root, f"worker-{number}", record)
        for number, record in enumerate(records)
    ]
    for child in children:
        child.wait_for("ready", seconds=60)
    replaced = []
    for _ in range(rounds):
        began = time.monotonic()
        replace(root, backup)
        replaced.append(Replaced(began, time.monotonic()))
        for record, child in zip(records, children, strict=True):
            until(
                partial(has_worked, record, replaced[-1], child),
                "each process has gone on with the new ledger",
                60,
            )
    (root.parent / "over").touch()
    for child in children:
        child.wait_for("over", seconds=60)
    notes = [note for record in records for note in read(record)]
    with LockManager.open(root) as manager:
        check(notes, replaced, manager)
    for child in children:
        child.tell()
        child.done()


def read(record: Path, last: int = 0) -> list[dict[str, Any]]:
    """The notes of a process, except one that it is writing just now."""
    lines = record.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines[-last:]]


def has_worked(record: Path, since: Replaced, child: Child) -> bool:
    assert child.process.poll() is None, child.story()
    notes = read(record, last=40)
    taken = [note for note in notes if note["what"] == "taken" and note["began"] > since.ended]
    return len(taken) >= 4


def check(notes: list[dict[str, Any]], replaced: list[Replaced], manager: LockManager) -> None:
    taken = sorted((note for note in notes if note["what"] == "taken"), key=lambda n: n["ended"])
    checked = [note for note in notes if note["what"] == "checked"]
    released = {note["id"]: note for note in notes if note["what"] == "released"}
    by_id = {note["id"]: note for note in taken}
    assert len(by_id) == len(taken), "one id was granted twice"
    tokens_grow(taken)

    # Grants of a former ledger are lost.
    lost = 0
    for note in checked:
        grant = by_id[note["id"]]
        if any(grant["ended"] < r.began and r.ended < note["began"] for r in replaced):
            assert not note["verified"], note
            assert not note["fenced"], note
            lost += 1
    assert lost, "no process checked a grant of a former ledger"

    # Grants of the present ledger are recorded, and still held.
    last = replaced[-1].ended
    known = {e.data["id"] for e in manager.events() if e.type == "lock_acquired"}
    present = [grant for grant in taken if grant["began"] > last]
    assert present
    for grant in present:
        assert grant["id"] in known, grant
    for note in checked:
        if by_id[note["id"]]["began"] > last:
            assert note["verified"], note
            assert note["fenced"], note
    one_holder(taken, released, replaced)


def tokens_grow(taken: list[dict[str, Any]]) -> None:
    """A request that began after another one was answered has the larger token."""
    largest, answered = 0, 0
    for grant in sorted(taken, key=lambda note: note["began"]):
        while answered < len(taken) and taken[answered]["ended"] < grant["began"]:
            largest = max(largest, taken[answered]["token"])
            answered += 1
        assert grant["token"] > largest, grant


def one_holder(
    taken: list[dict[str, Any]], released: dict[str, Any], replaced: list[Replaced]
) -> None:
    """Each grant of one ledger on one file begins after the release of the one before."""
    ends = [*(replacement.began for replacement in replaced[1:]), float("inf")]
    for (_, begin), end in zip(replaced, ends, strict=True):
        inside = 0.0
        for grant in taken:
            if grant["path"] != "contended" or grant["began"] <= begin:
                continue
            back = released.get(grant["id"])
            if back is None or back["ended"] >= end:
                continue
            assert grant["ended"] > inside, (grant, "was granted before the last one was released")
            inside = back["began"]
