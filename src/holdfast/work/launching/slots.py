"""A slot's launcher as the scheduler sees it: started in advance, lent to an item, taken back.

An item keeps its launcher for as long as it has its locks, also while it waits between two phases
and another item uses its slot: the launcher is the process that holds the locks.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.model import Holder
from holdfast.gate.sandbox.gaps import gap_records
from holdfast.manager.files.keepsakes import marked
from holdfast.manager.files.paths import home_root
from holdfast.manager.ledger_location import for_agents_in, of_ledger
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.identity import runner_holder
from holdfast.manager.owners.liveness import witness_of
from holdfast.work.engine.callbacks import Again
from holdfast.work.engine.work_items import WorkItem

GRANT_VARIABLE = "HOLDFAST_GRANT"
TOKEN_VARIABLE = "HOLDFAST_TOKEN"
#: Not `-m`: that imports from the current folder first, where agents write files that may have the
#: names of modules, and a launcher is in no sandbox.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from holdfast.work.launching.launcher import main; sys.exit(main(*sys.argv[2:]))"
)
_SOURCE = os.path.abspath(__file__).removesuffix("/holdfast/work/launching/slots.py")
#: To a launcher whose ledger is on a server: the first line on its input are variables.
_TOLD = "told"
OUTPUT_BYTES_MAX = 16 << 20
STARTS_MAX = 3


class AgentError(HoldfastError):
    """An agent could not be started. The fields tell which `command`."""

    code = "E_AGENT"


@dataclass(frozen=True, slots=True)
class Ended:
    """How an agent ended: its exit code, negative for a signal; `why` if it was made to end."""

    code: int
    why: str
    bytes: int
    seconds: float
    #: For a task: whether a write was refused because the file was stale, which files it was about
    #: to write when it ended, how long it waited for files in all, and which writes were refused.
    is_stale: bool = False
    wanted: tuple[str, ...] = ()
    waited_seconds: float = 0.0
    refused: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether it succeeded, by its exit code."""
        return not (self.code or self.why)

    @property
    def was_killed(self) -> bool:
        """Whether it was ended by a signal that we did not send."""
        return self.code < 0 and not self.why

    def sentence(self, phase: str) -> str:
        """One sentence for the operator."""
        if self.why:
            return f"{phase} was ended after {self.seconds:.0f} s: {self.why}"
        if self.code < 0:
            return f"{phase} was killed by signal {-self.code} after {self.seconds:.0f} s"
        return f"{phase} failed with code {self.code} after {self.seconds:.0f} s"


class Launcher:
    """The process that holds one item's locks and starts its agents."""

    def __init__(self, pool: Launchers) -> None:
        self._pool = pool
        told = of_ledger(pool.root, os.environ)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, _SOURCE, pool.root, *([_TOLD] if told else [])],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            # where there is no sandbox, its agents can read all of it
            env=for_agents_in(pool.root, os.environ),
        )  # fmt: skip
        if told:
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # it has ended, as is found below
                self._process.stdin.write(json.dumps(told).encode() + b"\n")
                self._process.stdin.flush()
        found = witness_of(self._process.pid)
        if found is None:
            raise StoreError("a launcher ended at its start", hint="look at its output above")
        self._witness = found
        self._variables: dict[str, str] = {}
        self._lock = threading.Lock()
        #: Why the item's agents were told to end.
        self._stopped = ""
        self.is_well = True

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def holder(self, item: WorkItem) -> Holder:
        """The holder that the item's locks are granted to."""
        self._stopped = ""
        made, self._variables = runner_holder(item.id, self._witness)
        return marked(made)

    def leave(self) -> None:
        """The item has no locks any more; another may have this launcher."""
        self._pool.take_back(self)

    def run(
        self,
        item: WorkItem,
        command: Sequence[str],
        *,
        folder: str,
        output: str,
        environment: Mapping[str, str],
        stdin: str = "",
        write: Sequence[str] | None = (),
        git: bool = False,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
        timeout_seconds: float = 3600.0,
        lease: Mapping[str, Any] | None = None,
    ) -> Ended:
        """Run an agent under the locks of an item, until none of its processes is left. `write` is
        what it may write in addition; None for no sandbox. With `lease` it runs below a broker, as
        a task does (`brokered_attempt`). Refused writes are recorded. Raises AgentError if it
        cannot start, `Again` if the launcher is gone."""
        told = {**for_agents_in(self._pool.root, environment), **self._variables}
        if lease is None:
            # Below a broker each file has a lease of its own: a client's hook that found this grant
            # would refuse every edit that it does not cover.
            told |= {GRANT_VARIABLE: item.grant_id, TOKEN_VARIABLE: str(item.token)}
        is_told = self._tell(
            {
                "run": {
                    "command": list(command), "folder": folder, "environment": told,
                    "stdin": stdin, "grant": item.grant_id, "git": git, "output": output,
                    "write": None if write is None else list(write),
                    "output_bytes_max": output_bytes_max, "timeout_seconds": timeout_seconds,
                    "lease": None if lease is None else dict(lease),
                }
            },
            unless_stopped=True,
        )  # fmt: skip
        if not is_told:
            return Ended(-signal.SIGTERM, self._stopped, 0, 0.0)
        unrecorded: list[str] = []
        while True:
            heard = self._hear()
            if "gaps" in heard:
                unrecorded = self._recorded(item, [*unrecorded, *heard["gaps"]])
            if "error" in heard:
                error = heard["error"]
                raise AgentError(
                    error["message"], hint=error["hint"], command=command[0], cause=error["code"]
                )
            if "code" in heard:
                gap_records.record(self._pool.manager, item.grant_id, item.token, unrecorded)
                return Ended(
                    heard["code"], heard["why"], heard["bytes"], heard["seconds"],
                    heard.get("stale", False),
                    tuple(heard.get("wanted", ())), heard.get("waited", 0.0),
                    tuple(heard.get("refused", ())),
                )  # fmt: skip

    def _recorded(self, item: WorkItem, paths: list[str]) -> list[str]:
        """Record gaps while the agent runs. Returns those that could not be recorded: a failure of
        the ledger is reported when the agent has ended, when its callback can handle it."""
        try:
            gap_records.record(self._pool.manager, item.grant_id, item.token, paths)
        except StoreError:
            return paths
        return []

    def stop(self, why: str = "stopped") -> None:
        """End the running agent, with everything that it started; if the item has none yet, it gets
        none before its locks are taken again."""
        with self._lock:
            self._stopped = why
        try:
            self._tell({"stop": why})
        except Again:
            return  # it is gone, and the agent with it

    def abandon(self) -> None:
        """The launcher restores the files of its item, and ends."""
        self.is_well = False
        self._pool.take_back(self)

    def dismiss(self) -> None:
        """No agent runs: the launcher may end. This does not wait until it has ended."""
        self.is_well = False
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def close(self) -> None:
        """The same, and wait until it has ended."""
        self.dismiss()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _tell(self, said: Mapping[str, Any], *, unless_stopped: bool = False) -> bool:
        assert self._process.stdin is not None
        try:
            with self._lock:
                if unless_stopped and self._stopped:
                    return False
                self._process.stdin.write(json.dumps(said).encode() + b"\n")
                self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self._gone()
        return True

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            self._gone()
        found: dict[str, Any] = json.loads(line)
        return found

    def _gone(self) -> None:
        self.is_well = False
        raise Again("its launcher is gone")


class Launchers:
    """The launchers of one dispatcher: those in use, and some in reserve."""

    def __init__(self, manager: LockManager, spare: int) -> None:
        assert manager.tree is not None
        self.manager = manager
        self.root = manager.tree.root
        self._spare = spare
        self._idle: list[Launcher] = []
        #: Those that were told to end.
        self._leaving: list[Launcher] = []
        self._lock = threading.Lock()

    def warm(self, most: int) -> None:
        """Start as many as are used at once, so that the first items need not wait for them; no
        more than there can be items."""
        made = [self._start() for _ in range(min(self._spare, most) - len(self._idle))]
        with self._lock:
            self._idle += made

    def lend(self) -> Launcher:
        """A launcher for an item."""
        while True:
            with self._lock:
                if not self._idle:
                    break
                launcher = self._idle.pop()
            if launcher.is_running:
                return launcher
            launcher.close()
        return self._start()

    def _start(self) -> Launcher:
        for _ in range(STARTS_MAX - 1):
            try:
                return Launcher(self)
            except StoreError:
                continue  # it was killed from outside immediately: that is no reason to give up
        return Launcher(self)

    def take_back(self, launcher: Launcher) -> None:
        """An item no longer needs it."""
        with self._lock:
            if launcher.is_well and len(self._idle) < self._spare:
                self._idle.append(launcher)
                return
            launcher.dismiss()
            gone = [one for one in self._leaving if not one.is_running]
            self._leaving = [*(one for one in self._leaving if one not in gone), launcher]
        for one in gone:
            one.close()

    def close(self) -> None:
        """No item is in progress any more."""
        with self._lock:
            left = [*self._idle, *self._leaving]
            self._idle, self._leaving = [], []
        for launcher in left:
            launcher.dismiss()
        for launcher in left:
            launcher.close()


class Unguarded:
    """Runs the agents of items where there are no launchers: below this process, informed of their
    grant, and outside any sandbox."""

    def run(
        self,
        item: WorkItem,
        command: Sequence[str],
        *,
        folder: str,
        output: str,
        environment: Mapping[str, str],
        stdin: str = "",
        timeout_seconds: float = 3600.0,
        **_of_launchers: object,
    ) -> Ended:
        """As a launcher does it, without any of its guarantees."""
        told = {GRANT_VARIABLE: item.grant_id, TOKEN_VARIABLE: str(item.token)}
        return run_here(
            command, folder=folder, output=output, environment={**environment, **told},
            stdin=stdin, timeout_seconds=timeout_seconds,
        )  # fmt: skip


def run_here(
    command: Sequence[str],
    *,
    folder: str,
    output: str,
    environment: Mapping[str, str],
    stdin: str = "",
    timeout_seconds: float = 3600.0,
) -> Ended:
    """Run an agent directly below this process: without locks, without a sandbox, without any of
    the guarantees of a launcher."""
    os.makedirs(os.path.dirname(output), exist_ok=True)
    begun = time.monotonic()
    why = ""
    with open(output, "wb") as file:
        try:
            process = subprocess.Popen(
                command, cwd=folder, env=for_agents_in(home_root(folder), environment),
                stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise AgentError(f"{command[0]}: {error.strerror}", command=command[0]) from error
        try:
            process.communicate(stdin.encode(), timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            why = "timeout"
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    size = os.path.getsize(output)
    return Ended(process.returncode, why, size, round(time.monotonic() - begun, 3))
