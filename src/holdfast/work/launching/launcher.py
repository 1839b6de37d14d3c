"""The process of a slot: starts agents in a sandbox, and outlives none of them.

It runs before an item's locks are taken, and holds them: they are free only when it and every
process with its mark are gone. It is the reaper of everything that an agent starts, including
processes that fork away and change their session, so it knows when none is left; only then does it
report that the agent has ended. When its own parent dies, it kills what it started, restores the
files of the item, and ends as well; the agent dies with it even if the launcher itself is killed.

It reads lines of JSON and answers with them:

    {"run": {…}}    start an agent: see `Job`; below a broker, if it has leases
    {"stop": WHY}   kill it, with everything that it started
    -> {"gaps": [PATH, …]}, when it tried to write files that its grant does not cover
    -> {"code": N, "why": "", "bytes": N, "seconds": N}, when none of its processes is left
    -> {"error": {"code": …, "message": …, "hint": …}}, if it could not be started

Its fork server starts the agents, as children of the launcher. Without a fork server the launcher
forks itself, and so it has one thread only; queries from inside the sandbox are answered by another
thread, which starts with the first query and ends with the agent.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError, LockNotHeldError
from holdfast.core.model import Grant, Holder
from holdfast.gate.sandbox.box import Sandbox
from holdfast.gate.sandbox.kernel.landlock import support
from holdfast.gate.sandbox.runner.runner_folders import RunnerFolders
from holdfast.gate.sandbox.starting.fork_client import ForkServer, is_possible
from holdfast.gate.sandbox.starting.fork_server import IGNORED_BY_PYTHON
from holdfast.gate.sandbox.starting.restricted_start import start
from holdfast.manager import transactions
from holdfast.manager.files.keepsakes import Keepsake, put_back
from holdfast.manager.files.unfinished_edits import FOLDER
from holdfast.manager.grants import LockGrant
from holdfast.manager.helper_process import GoneError
from holdfast.manager.ledger_location import is_on_server
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import own_witness
from holdfast.work.launching.agent_output import READ_BYTES, Output
from holdfast.work.launching.descendants import (
    be_reaper,
    die_with,
    kill_all,
    reap,
    signal_group,
)
from holdfast.work.launching.open_agent import OpenAgent

if TYPE_CHECKING:
    from holdfast.gate.broker.command_start import Enclosure
    from holdfast.work.launching.brokered_attempt import Brokered

#: How long an agent has to end by itself before it is killed.
GRACE_SECONDS = 5.0
#: The beginning of the reason for ending an agent whose task has to yield.
DEADLOCK = "deadlock"


class Job:
    """What an agent is: its command, where it runs, what it may write, how long it may take."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.command: list[str] = said["command"]
        self.folder: str = said["folder"]
        self.environment: dict[str, str] = said["environment"]
        self.stdin: str = said["stdin"]
        self.grant: str = said["grant"]
        #: What it may write in addition to its grant; None for no sandbox at all.
        self.write: list[str] | None = said["write"]
        self.git: bool = said["git"]
        self.output: str = said["output"]
        self.output_bytes_max: int = said["output_bytes_max"]
        self.timeout_seconds: float = said["timeout_seconds"]
        #: For a task: whether it writes only what its grant names, and what is closed to it.
        self.lease: dict[str, Any] | None = said.get("lease")


def main(root: str, told: str = "") -> int:
    """Serve until the parent has died. With `told`, the first line of the input has the variables
    that lead to the ledger's server: agents can read those that a process was started with."""
    be_reaper()
    os.environ.update(_variables() if told else {})
    with LockManager.open(root) as manager:
        return Launcher(manager, 0, 1).serve()


def _variables() -> dict[str, str]:
    line = b""
    while not line.endswith(b"\n"):  # and not a byte of the orders after it
        byte = os.read(0, 1)
        if not byte:
            return {}
        line += byte
    found: dict[str, str] = json.loads(line)
    return found


class Launcher:
    """One slot. At most one agent at a time."""

    def __init__(self, manager: LockManager, ear: int, mouth: int) -> None:
        self._manager = manager
        self.ear = ear
        self._mouth = mouth
        self._heard = b""
        self._deaf = False
        self._stop = ""
        self._abi = support().abi
        self._runner_folders: RunnerFolders | None = None
        #: The task whose agents run here.
        self._task: Brokered | None = None
        self.fork_server = _fork_server()
        self.wake, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> int:
        while True:
            said = self._next()
            if said is None:
                self._put_back()
                self._leave()
                return 0
            if "run" in said:
                try:
                    self._run(Job(said["run"]))
                except HoldfastError as error:
                    told = {"code": error.code, "message": error.message, "hint": error.hint}
                    self._say({"error": told})
                except (OSError, ValueError) as error:
                    self._say({"error": {"code": "E_COMMAND", "message": str(error), "hint": ""}})

    def _leave(self) -> None:
        if self._runner_folders is not None:
            self._runner_folders.close()
        if self.fork_server is not None:
            self.fork_server.close()

    def _put_back(self) -> None:
        """Our dispatcher has died. If an item was in progress, restore its files immediately, and
        not only when another holder requests them. If that fails, they stay locked."""
        assert self._manager.tree is not None
        root = self._manager.tree.root
        keepsakes = [(name, Keepsake(root, name)) for name in _names(f"{root}/{FOLDER}")]
        kept = [(name, keepsake) for name, keepsake in keepsakes if keepsake.is_there]
        if not kept:
            return
        from holdfast.work.engine.item_store import (
            ItemStore,  # most launchers end with nothing to restore
        )

        item_store = ItemStore(self._manager)
        for name, keepsake in kept:
            with suppress(HoldfastError, OSError):
                item = item_store.item(name)
                if item is None or item_store.owner(item) != own_witness():
                    continue
                with keepsake.alone():
                    if item_store.owner(item) == own_witness():
                        put_back(self._manager, keepsake, name, by_owner=True)

    # One agent

    def _run(self, job: Job) -> None:
        begun = time.monotonic()
        self._stop = ""
        os.makedirs(os.path.dirname(job.output), exist_ok=True)
        if job.lease is not None:
            self._say(self._ended_leased(job, begun))
            return
        sandbox = self._sandbox(job)
        try:
            self._say(self._ended(job, sandbox, begun))
        finally:
            if sandbox is not None:
                sandbox.close()  # no one has to wait for this

    def _ended(self, job: Job, sandbox: Sandbox | OpenAgent | None, begun: float) -> dict[str, Any]:
        """How an agent ended, when none of its processes is left."""
        output = Output(job.output, job.output_bytes_max)
        try:
            pid = self._start(job, sandbox, output)
            status = self._attend(pid, output, sandbox, begun + job.timeout_seconds)
        finally:
            kill_all(self.fork_server)
            output.close()
            if sandbox is not None:
                sandbox.shut()
        code = os.waitstatus_to_exitcode(status)
        seconds = round(time.monotonic() - begun, 3)
        return {"code": code, "why": self._stop, "bytes": output.seen, "seconds": seconds}

    def _sandbox(self, job: Job) -> Sandbox | OpenAgent | None:
        assert self._manager.tree is not None
        if job.write is None and not is_on_server(self._manager.tree.root):
            return None
        found = transactions.look(self._manager, lambda view: view.grant(job.grant))
        if not isinstance(found, Grant):
            raise LockNotHeldError(
                f"grant {job.grant} is no longer held", hint="dispatch the item again"
            )
        grant = LockGrant(found, lambda _id: False)
        if job.write is None:
            return OpenAgent(self._manager, grant, self._ready_folders(grant.owner))
        return Sandbox(
            self._manager, grant, abi=self._abi, write=job.write, git=job.git, notice=True,
            runner_folders=self._ready_folders(grant.owner),
        )  # fmt: skip

    def _ready_folders(self, holder: Holder) -> RunnerFolders:
        if self._runner_folders is not None and not self._runner_folders.is_ready:
            self._runner_folders.close()
            self._runner_folders = None
        if self._runner_folders is None:
            self._runner_folders = RunnerFolders(holder)
        return self._runner_folders

    # One agent of a task

    def _ended_leased(self, job: Job, begun: float) -> dict[str, Any]:
        """The same for an agent below a broker, which is this process."""
        from holdfast.work.launching.brokered_attempt import Brokered, task_grant

        grant = task_grant(self._manager, job.grant)
        if self._task is None or self._task.grant.id != grant.id:
            self._task = Brokered(self._manager, grant, self._abi, job.lease or {})
        task, runner_folders = self._task, self._ready_folders(grant.holder)
        source = _text_to_read(job.stdin)
        output = Output(job.output, job.output_bytes_max)
        streams = source, output.inner

        def begin(enclosure: Enclosure, variables: Mapping[str, str]) -> int:
            command, folder = job.command, job.folder
            return self._by_fork_server(
                lambda fork_server: enclosure.start_by(
                    fork_server, command, variables, folder, streams
                ),
                lambda: enclosure.start(
                    command, variables, _preparing(folder, streams), default=IGNORED_BY_PYTHON
                ),
            )

        try:
            pid = task.start(job.environment, begin, runner_folders, job.write or ())
        except BaseException:
            output.let_go()
            output.close()
            runner_folders.clear()
            raise
        finally:
            os.close(source)
        output.let_go()
        attending = _Attending(self, task, pid, output, runner_folders, begun + job.timeout_seconds)
        waited = 0.0
        try:
            status = attending.attend()
        finally:
            # First: whatever fails here, no process of it may write when its files are restored.
            kill_all(self.fork_server)
            waited = task.waited_seconds
            task.end()
            output.close()
            runner_folders.clear()
        self.say_gaps(task.gaps())
        code = os.waitstatus_to_exitcode(status)
        return {
            "code": code, "why": self._stop, "bytes": output.seen,
            "seconds": round(time.monotonic() - begun, 3), "waited": round(waited, 3),
            **task.told(),
        }  # fmt: skip

    def _start(self, job: Job, sandbox: Sandbox | OpenAgent | None, output: Output) -> int:
        try:
            source = _text_to_read(job.stdin)
            try:
                return self._started(job, sandbox, source, output.inner)
            finally:
                os.close(source)
        finally:
            output.let_go()

    def _started(
        self, job: Job, sandbox: Sandbox | OpenAgent | None, source: int, output: int
    ) -> int:
        return self._by_fork_server(
            lambda fork_server: self._have_started(fork_server, job, sandbox, source, output),
            lambda: self._start_here(job, sandbox, source, output),
        )

    def _by_fork_server(
        self, start: Callable[[ForkServer], int], start_here: Callable[[], int]
    ) -> int:
        """Start a command through the fork server, or directly where there is none."""
        is_new = False
        while self.fork_server is not None:
            try:
                return start(self.fork_server)
            except GoneError:  # killed from outside; if that happens again, give it up
                self.fork_server.close()
                self.fork_server = None if is_new else _fork_server()
                is_new = True
        return start_here()

    def _have_started(
        self,
        fork_server: ForkServer,
        job: Job,
        sandbox: Sandbox | OpenAgent | None,
        source: int,
        output: int,
    ) -> int:
        if sandbox is None:
            return fork_server.start(job.command, job.environment, job.folder, (source, output))
        denied_writes = sandbox.denied_writes
        pid = fork_server.start(
            job.command, {**job.environment, **sandbox.variables()}, job.folder, (source, output),
            sandbox.ruleset, denied_writes.line if denied_writes is not None else -1,
        )  # fmt: skip
        sandbox.begin()
        return pid

    def _start_here(
        self, job: Job, sandbox: Sandbox | OpenAgent | None, source: int, output: int
    ) -> int:
        """Used where there is no fork server."""
        prepare = _preparing(job.folder, (source, output))
        command, variables = job.command, job.environment
        if sandbox is None:
            return start(command, variables, prepare, default=IGNORED_BY_PYTHON)
        return sandbox.start(command, variables, default=IGNORED_BY_PYTHON, prepare=prepare)

    def _attend(
        self, pid: int, output: Output, sandbox: Sandbox | OpenAgent | None, deadline: float
    ) -> int:
        """Serve until the agent has ended; its status. Processes that it left running are handled
        elsewhere."""
        killed_at = 0.0
        while True:
            status = reap(pid, self.fork_server)
            if status is not None:
                output.drain()
                return status
            self._obey()  # including what arrived together with the order to run
            now = time.monotonic()
            if not self._stop and (self._deaf or now >= deadline):
                self._stop = "the dispatcher is gone" if self._deaf else "timeout"
            if self._stop and not killed_at:
                signal_group(pid, signal.SIGTERM)
                killed_at = now
            elif killed_at and now >= killed_at + GRACE_SECONDS:
                kill_all(self.fork_server, but_wait_for=pid)
            until = killed_at + GRACE_SECONDS if killed_at else deadline
            self._listen(output, sandbox, max(0.0, min(until - now, 3600.0)))

    def _listen(self, output: Output, sandbox: Sandbox | OpenAgent | None, seconds: float) -> None:
        denied_writes = sandbox.denied_writes if sandbox is not None else None
        calls = denied_writes.ears if denied_writes is not None else []
        first_request = sandbox.first_request if sandbox is not None else -1
        ears = [self.wake, *output.ears, *calls]
        if not self._deaf:
            ears.append(self.ear)
        if first_request >= 0:
            ears.append(first_request)
        ready, _, _ = select.select(ears, [], [], seconds)
        if denied_writes is not None and any(ear in ready for ear in calls):
            gaps = denied_writes.take()  # before everything else: a process waits for it
            if gaps:
                self._say({"gaps": gaps})
        if sandbox is not None and first_request in ready:
            sandbox.serve()
        if self.wake in ready:
            _empty(self.wake)
        if self.ear in ready:
            self.hear()
        for ear in output.ears:
            if ear in ready:
                output.take()

    def told_to_stop(self, victim: str, *, is_late: bool) -> str:
        """Why the agent has to end, if it has to."""
        self._obey()
        if not self._stop:
            if self._deaf:
                self._stop = "the dispatcher is gone"
            elif victim:
                self._stop = f"{DEADLOCK}: {victim}"
            elif is_late:
                self._stop = "timeout"
        return self._stop

    def say_gaps(self, paths: list[str]) -> None:
        """Report what an agent tried to write and was refused."""
        if paths:
            self._say({"gaps": paths})

    def empty_wake(self) -> None:
        """A child has ended; the code that waits for it checks which."""
        _empty(self.wake)

    @property
    def is_deaf(self) -> bool:
        """Whether the dispatcher is gone."""
        return self._deaf

    def _obey(self) -> None:
        for said in self._lines():
            if "stop" in said and not self._stop:
                self._stop = said["stop"] or "stopped"

    # Reading orders and writing answers

    def _next(self) -> dict[str, Any] | None:
        while True:
            for said in self._lines():
                return said
            if self._deaf:
                return None
            select.select([self.ear], [], [])
            self.hear()

    def hear(self) -> None:
        """Read the orders of the dispatcher."""
        data = os.read(self.ear, READ_BYTES)
        self._heard += data
        self._deaf = self._deaf or not data

    def _lines(self) -> Iterator[dict[str, Any]]:
        while b"\n" in self._heard:
            line, self._heard = self._heard.split(b"\n", 1)
            yield json.loads(line)

    def _say(self, said: Mapping[str, Any]) -> None:
        data = json.dumps(said).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._mouth, data) :]
        except OSError:
            self._deaf = True


class _Attending:
    """A launcher while it is the broker of an agent."""

    def __init__(
        self,
        launcher: Launcher,
        task: Brokered,
        pid: int,
        output: Output,
        runner_folders: RunnerFolders,
        deadline: float,
    ) -> None:
        self._launcher = launcher
        self._task = task
        self._pid = pid
        self._output = output
        self._runner_folders = runner_folders
        self._deadline = deadline
        self._killed_at = 0.0
        self._status: int | None = None

    def attend(self) -> int:
        """Serve until the agent has ended; its status."""
        self._task.serve(self._look, self._ears)
        if self._status is None:
            self._status = os.waitpid(self._pid, 0)[1]
        self._output.drain()
        return self._status

    def _ears(self) -> dict[int, Callable[[], object]]:
        """The other descriptors to listen to."""
        launcher = self._launcher
        found: dict[int, Callable[[], object]] = {
            launcher.wake: launcher.empty_wake,
            **dict.fromkeys(self._output.ears, self._output.take),
        }
        if not launcher.is_deaf:
            found[launcher.ear] = launcher.hear
        if self._runner_folders.first_request >= 0:
            found[self._runner_folders.first_request] = lambda: self._runner_folders.serve(
                self._task.manager
            )
        return found

    def _look(self) -> float | None:
        """Handle what is due: how long the loop may sleep then; None if the agent has ended."""
        self._status = reap(self._pid, self._launcher.fork_server)
        if self._status is not None:
            return None
        launcher, now = self._launcher, time.monotonic()
        launcher.say_gaps(self._task.gaps())
        # The agent does not work while it waits for the files of others.
        deadline = self._deadline + self._task.waited_seconds
        why = launcher.told_to_stop(self._task.victim, is_late=now >= deadline)
        # Other tasks wait for the files that are restored next, or the dispatcher is gone.
        is_urgent = launcher.is_deaf or why.startswith(DEADLOCK)
        if not why:
            return max(0.0, deadline - now)
        if not self._killed_at:
            self._killed_at = now - (GRACE_SECONDS if is_urgent else 0)
            signal_group(self._pid, signal.SIGTERM)
        if now >= self._killed_at + GRACE_SECONDS:
            kill_all(launcher.fork_server, but_wait_for=self._pid)
        return max(0.01, self._killed_at + GRACE_SECONDS - now)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _fork_server() -> ForkServer | None:
    """A new fork server, if one can run here."""
    try:
        return ForkServer() if is_possible() else None
    except OSError:
        return None


def _preparing(folder: str, streams: tuple[int, int]) -> Callable[[], None]:
    """What a forked child does before it is restricted: it dies with us, leads a session, and reads
    and writes these descriptors."""
    launcher = os.getpid()
    source, output = streams

    def prepare() -> None:
        die_with(launcher, signal.SIGKILL)
        os.setsid()
        os.chdir(folder)
        for target, one in enumerate((source, output, output)):
            os.dup2(one, target)

    return prepare


def _text_to_read(text: str) -> int:
    """A descriptor from which a text can be read."""
    data = text.encode("utf-8", "surrogateescape")
    fd = os.memfd_create("holdfast-stdin", os.MFD_CLOEXEC)
    while data:
        data = data[os.write(fd, data) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _empty(fd: int) -> None:
    try:
        while os.read(fd, READ_BYTES):
            pass
    except BlockingIOError:
        return
