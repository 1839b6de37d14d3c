"""A command and a hook on a ledger on a server, beside the same on the embedded ledger.

Each opens a connection of its own, once for its run. Afterwards it is counted how many connections
a client has that holds leases between two edits.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING

from bench import locks
from bench.harness import Row, compare
from bench.hook import installed_command, told_in
from bench.shell import install, milliseconds

if TYPE_CHECKING:
    from pathlib import Path

    from bench.database import Database

EMBEDDED = "embedded"
SERVER = "on a server"
REPOSITORY = "commands"
VERBS = ("lock", "unlock", "edit through the hook")


def commands(database: Database, scratch: Path, quick: bool) -> list[Row]:
    rounds = 8 if quick else 40
    bin = install(scratch / "installed", "[postgres]")
    kinds = {name: locks.repository(scratch / name) for name in (EMBEDDED, SERVER)}
    variables = {
        EMBEDDED: {},
        SERVER: {
            "HOLDFAST_STORE": f"{database.place}#{REPOSITORY}",
            "PGPASSWORD": database.password,
        },
    }
    script = str(bin / "holdfast")
    hooks = {name: installed_command(bin, folder) for name, folder in kinds.items()}
    told = {name: str(told_in(scratch, name, folder)) for name, folder in kinds.items()}
    samples: dict[str, dict[str, list[float]]] = {
        verb: {name: [] for name in kinds} for verb in VERBS
    }
    work: dict[str, dict[str, list[float]]] = {verb: {name: [] for name in kinds} for verb in VERBS}
    complaints = scratch / "complaints"
    before = database.settled_connections()
    with subprocess.Popen(["sleep", "86400"]) as client:  # whose leases the hooks get
        os.environ["CLAUDE_PID"] = str(client.pid)
        try:
            for number in range(rounds + 2):
                for name, folder in _turned(kinds, number):
                    lines = ([script, "lock", "locked.rb"], [script, "unlock", "locked.rb"])
                    for verb, line in zip(VERBS, (*lines, hooks[name]), strict=True):
                        with contextlib.chdir(folder):
                            spent, worked = milliseconds(
                                line, complaints, told[name], variables[name]
                            )
                        if number >= 2:  # the first runs compile, and fill the system's caches
                            samples[verb][name].append(spent)
                            work[verb][name].append(worked)
            connections = database.settled_connections() - before
            _require_lease(database)
        finally:
            del os.environ["CLAUDE_PID"]
            client.kill()
    times = {f", {SERVER}": samples, f", {SERVER}, processor time": work}
    return [
        *(
            compare(f"{_said(verb)}{what}", "ms", found[verb], SERVER, EMBEDDED)
            for what, found in times.items()
            for verb in VERBS
        ),
        Row("connections of a client with leases, between edits", "", connections),
    ]


def _require_lease(database: Database) -> None:
    """A hook that found no ledger would be quick, and lease nothing."""
    [[count]] = database.run(
        "select count(*) from holdfast.live join holdfast.repositories r on r.id = repository"
        " where r.name = %s and seq is not null",
        REPOSITORY,
    )
    if count != 1:
        raise AssertionError(f"{count} leases are on the server and should be 1, of the hook")


def _turned(kinds: dict[str, Path], number: int) -> list[tuple[str, Path]]:
    """The first of each round comes last in the next one."""
    pairs = list(kinds.items())
    return pairs if number % 2 else pairs[::-1]


def _said(verb: str) -> str:
    return verb if " " in verb else f"holdfast {verb}"
