"""The process of a slot: starts agents in a sandbox, and outlives none of them.

It is there before an item's locks are taken, and holds them: they are free when it and all that
carries its mark are gone, not earlier. It is the reaper of everything that an agent starts, also
of what forks away and changes its session, so it knows when nothing is left; only then it says
that the agent has ended. When its own parent goes, it kills what it started, puts the files of
the item back as they were, and goes as well; the agent dies with it even if it is killed itself.

It hears lines of JSON and answers with them:

    {"run": {…}}    start an agent: see `Job`
    {"stop": WHY}   kill it, with all that it started
    -> {"gaps": [PATH, …]}, when it tried to write what its grant does not cover
    -> {"code": N, "why": "", "bytes": N, "seconds": N}, when nothing of it is left
    -> {"error": {"code": …, "message": …, "hint": …}}, if it could not be started

Its nursery makes the agents, as children of the launcher. Where there is none it forks itself, and
so it has one thread only; the answers to those inside the sandbox come from another one that begins
when somebody asks and ends with the agent.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from holdfast.core.errors import HoldfastError, LockNotHeldError
from holdfast.core.model import Grant
from holdfast.gate.sandbox.box import Sandbox
from holdfast.gate.sandbox.landlock import prctl, support
from holdfast.gate.sandbox.nursery import IGNORED_BY_PYTHON, SET_DEATH_SIGNAL
from holdfast.gate.sandbox.quarters import Quarters
from holdfast.gate.sandbox.spawning import Nursery, is_possible
from holdfast.gate.sandbox.starting import start
from holdfast.manager import services
from holdfast.manager.grants import LockGrant
from holdfast.manager.keepsakes import Keepsake
from holdfast.manager.liveness import own_witness
from holdfast.manager.manager import LockManager
from holdfast.manager.orders import GoneError
from holdfast.manager.settling import FOLDER

PR_SET_CHILD_SUBREAPER = 36
#: From asking an agent to end to making it.
GRACE_SECONDS = 5.0
READ_BYTES = 1 << 16


class Job:
    """What an agent is: its command, where it runs, what it may write, how long it may take."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.command: list[str] = said["command"]
        self.folder: str = said["folder"]
        self.environment: dict[str, str] = said["environment"]
        self.stdin: str = said["stdin"]
        self.grant: str = said["grant"]
        #: What it may write beside its grant; None for no sandbox at all.
        self.write: list[str] | None = said["write"]
        self.git: bool = said["git"]
        self.output: str = said["output"]
        self.output_bytes_max: int = said["output_bytes_max"]
        self.timeout_seconds: float = said["timeout_seconds"]


def main(root: str) -> int:
    """Serve until the parent is gone."""
    _be_reaper()
    with LockManager.open(root) as manager:
        return Launcher(manager, 0, 1).serve()


class Launcher:
    """One slot. At most one agent at a time."""

    def __init__(self, manager: LockManager, ear: int, mouth: int) -> None:
        self._manager = manager
        self._ear = ear
        self._mouth = mouth
        self._heard = b""
        self._deaf = False
        self._stop = ""
        self._abi = support().abi
        self._quarters: Quarters | None = None
        self._nursery = _nursery()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
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
        if self._quarters is not None:
            self._quarters.close()
        if self._nursery is not None:
            self._nursery.close()

    def _put_back(self) -> None:
        """Our dispatcher is gone. If that was in the middle of an item, its files are put back at
        once, and not only when another holder wants them. What does not work stays held."""
        assert self._manager.tree is not None
        root = self._manager.tree.root
        keepsakes = [(name, Keepsake(root, name)) for name in _names(f"{root}/{FOLDER}")]
        kept = [(name, keepsake) for name, keepsake in keepsakes if keepsake.is_there]
        if not kept:
            return
        from holdfast.work.desk import Desk  # most launchers end with nothing to put back

        desk = Desk(self._manager)
        for name, keepsake in kept:
            with suppress(HoldfastError, OSError):
                item = desk.item(name)
                if item is None or desk.owner(item) != own_witness():
                    continue
                with keepsake.alone():
                    if desk.owner(item) == own_witness():
                        keepsake.put_back()

    # One agent

    def _run(self, job: Job) -> None:
        begun = time.monotonic()
        self._stop = ""
        os.makedirs(os.path.dirname(job.output), exist_ok=True)
        sandbox = self._sandbox(job)
        try:
            self._say(self._ended(job, sandbox, begun))
        finally:
            if sandbox is not None:
                sandbox.close()  # for which nobody has to wait

    def _ended(self, job: Job, sandbox: Sandbox | None, begun: float) -> dict[str, Any]:
        """How an agent ended, when nothing of it is left."""
        output = Output(job.output, job.output_bytes_max)
        try:
            pid = self._start(job, sandbox, output)
            status = self._attend(pid, output, sandbox, begun + job.timeout_seconds)
        finally:
            kill_all(self._nursery)
            output.close()
            if sandbox is not None:
                sandbox.shut()
        code = os.waitstatus_to_exitcode(status)
        seconds = round(time.monotonic() - begun, 3)
        return {"code": code, "why": self._stop, "bytes": output.seen, "seconds": seconds}

    def _sandbox(self, job: Job) -> Sandbox | None:
        if job.write is None:
            return None
        found = services.look(self._manager, lambda view: view.grant(job.grant))
        if not isinstance(found, Grant):
            raise LockNotHeldError(
                f"grant {job.grant} is not held any more", hint="send the item out again"
            )
        grant = LockGrant(found, lambda _id: False)
        if self._quarters is not None and not self._quarters.is_ready:
            self._quarters.close()
            self._quarters = None
        if self._quarters is None:
            self._quarters = Quarters(grant.owner)
        return Sandbox(
            self._manager, grant, abi=self._abi, write=job.write, git=job.git, notice=True,
            quarters=self._quarters,
        )  # fmt: skip

    def _start(self, job: Job, sandbox: Sandbox | None, output: Output) -> int:
        try:
            source = _text_to_read(job.stdin)
            try:
                return self._started(job, sandbox, source, output.inner)
            finally:
                os.close(source)
        finally:
            output.let_go()

    def _started(self, job: Job, sandbox: Sandbox | None, source: int, output: int) -> int:
        is_new = False
        while self._nursery is not None:
            try:
                return self._have_started(self._nursery, job, sandbox, source, output)
            except GoneError:  # somebody killed it; or, if that happens again, it is of no use here
                self._nursery.close()
                self._nursery = None if is_new else _nursery()
                is_new = True
        return self._start_here(job, sandbox, source, output)

    def _have_started(
        self, nursery: Nursery, job: Job, sandbox: Sandbox | None, source: int, output: int
    ) -> int:
        if sandbox is None:
            return nursery.start(job.command, job.environment, job.folder, (source, output))
        noticing = sandbox.noticing
        pid = nursery.start(
            job.command, {**job.environment, **sandbox.variables()}, job.folder, (source, output),
            sandbox.ruleset, noticing.line if noticing is not None else -1,
        )  # fmt: skip
        sandbox.begin()
        return pid

    def _start_here(self, job: Job, sandbox: Sandbox | None, source: int, output: int) -> int:
        """Where there is no nursery."""
        launcher = os.getpid()

        def prepare() -> None:
            die_with(launcher, signal.SIGKILL)
            os.setsid()
            os.chdir(job.folder)
            for target, one in enumerate((source, output, output)):
                os.dup2(one, target)

        command, variables = job.command, job.environment
        if sandbox is None:
            return start(command, variables, prepare, default=IGNORED_BY_PYTHON)
        return sandbox.start(command, variables, default=IGNORED_BY_PYTHON, prepare=prepare)

    def _attend(self, pid: int, output: Output, sandbox: Sandbox | None, deadline: float) -> int:
        """Until the agent has ended: its status. What it left running is not seen to here."""
        killed_at = 0.0
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                output.drain()
                return status
            self._obey()  # also what came together with the order to run
            now = time.monotonic()
            if not self._stop and (self._deaf or now >= deadline):
                self._stop = "the dispatcher is gone" if self._deaf else "timeout"
            if self._stop and not killed_at:
                _signal_group(pid, signal.SIGTERM)
                killed_at = now
            elif killed_at and now >= killed_at + GRACE_SECONDS:
                kill_all(self._nursery, but_wait_for=pid)
            until = killed_at + GRACE_SECONDS if killed_at else deadline
            self._listen(output, sandbox, max(0.0, min(until - now, 3600.0)))

    def _listen(self, output: Output, sandbox: Sandbox | None, seconds: float) -> None:
        noticing = sandbox.noticing if sandbox is not None else None
        calls = noticing.ears if noticing is not None else []
        knock = sandbox.knock if sandbox is not None else -1
        ears = [self._wake_read, *output.ears, *calls]
        if not self._deaf:
            ears.append(self._ear)
        if knock >= 0:
            ears.append(knock)
        ready, _, _ = select.select(ears, [], [], seconds)
        if noticing is not None and any(ear in ready for ear in calls):
            gaps = noticing.take()  # before all else: somebody waits for it
            if gaps:
                self._say({"gaps": gaps})
        if sandbox is not None and knock in ready:
            sandbox.serve()
        if self._wake_read in ready:
            _empty(self._wake_read)
        if self._ear in ready:
            self._hear()
        for ear in output.ears:
            if ear in ready:
                output.take()

    def _obey(self) -> None:
        for said in self._lines():
            if "stop" in said and not self._stop:
                self._stop = said["stop"] or "stopped"

    # Hearing and saying

    def _next(self) -> dict[str, Any] | None:
        while True:
            for said in self._lines():
                return said
            if self._deaf:
                return None
            select.select([self._ear], [], [])
            self._hear()

    def _hear(self) -> None:
        data = os.read(self._ear, READ_BYTES)
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


class Output:
    """What an agent says, in a file, up to a limit; the rest is read and thrown away, so that an
    agent which talks without end is slow to nobody but itself."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._left = bytes_max
        self.seen = 0
        self._outer, self.inner = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._outer, False)
        self.ears = [self._outer]

    def let_go(self) -> None:
        """The agent has its end of it."""
        os.close(self.inner)

    def take(self) -> bool:
        """Take what is there. False if there is nothing now, or nothing will come any more."""
        try:
            data = os.read(self._outer, READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self.ears = []
            return False
        self.seen += len(data)
        kept = data[: self._left]
        self._left -= len(kept)
        while kept:
            kept = kept[os.write(self._file, kept) :]
        return True

    def drain(self) -> None:
        """Take what an agent had said when it ended."""
        for _ in range(1024):  # something that it left running may never be silent
            if not self.take():
                return

    def close(self) -> None:
        os.close(self._outer)
        os.close(self._file)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _nursery() -> Nursery | None:
    """A new one, if there can be one here."""
    try:
        return Nursery() if is_possible() else None
    except OSError:
        return None


def _be_reaper() -> None:
    """Whatever our children leave behind becomes a child of ours."""
    prctl()(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int, number: int) -> None:
    """Get this signal when our parent is gone. Who that is, it must have said before the fork."""
    prctl()(SET_DEATH_SIGNAL, number, 0, 0, 0)
    if os.getppid() != parent:  # it went before the kernel knew what to do then
        os._exit(1)


def kill_all(spared: Nursery | None = None, but_wait_for: int = 0) -> None:
    """Kill everything below us but the nursery, until nothing is left. What becomes of one of them
    is still asked for."""
    while but_wait_for or _has_children(spared):
        for pid in descendants(os.getpid()):
            try:
                if spared is None or pid != spared.pid:
                    os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if but_wait_for:
            return
        _reap(spared, 0)


def _reap(spared: Nursery | None, options: int) -> bool:
    """Take one that has ended off the list. False if there is none now."""
    pid = os.waitpid(-1, options)[0]
    if spared is not None and pid == spared.pid:
        spared.pid = 0  # somebody killed it: whoever has that pid next is not to be spared
    return pid != 0


def _has_children(spared: Nursery | None) -> bool:
    """Whether anything but the nursery is left below us; those that have ended are not.

    Nobody is overlooked: what loses its parent becomes a child of ours, and nobody but us takes one
    off the list. What was forked by one that has ended since is seen in the next round, for then
    there is somebody who has ended.
    """
    while True:
        try:
            while _reap(spared, os.WNOHANG):
                pass
        except ChildProcessError:
            return False
        if spared is None or not spared.pid:
            return True
        if any(pid != spared.pid for pid in _children()):
            return True
        try:
            if not _reap(spared, os.WNOHANG):
                return False
        except ChildProcessError:
            return False


def _children() -> list[int]:
    """The children of this process, also those that have ended and were not asked for."""
    found: list[int] = []
    try:
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children", "rb") as file:
                found += map(int, file.read().split())
    except FileNotFoundError:  # a kernel without this list
        return _families().get(os.getpid(), [])
    return found


def descendants(pid: int) -> list[int]:
    """All processes below one, whatever sessions and groups they made."""
    children = _families()
    found: list[int] = []
    front = [pid]
    while front:
        front = [child for one in front for child in children.get(one, ())]
        found += front
    return found


def _families() -> dict[int, list[int]]:
    """The children of every process that has any."""
    found: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            found.setdefault(int(fields[1]), []).append(int(entry))
    return found


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


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
