"""run --lease: a command that leases what it writes, at the very write.

Three processes. This one, the runner, waits for the command as it does for any other, passes
signals on and exits with its code. Its child is the broker (`holdfast.gate.broker`), which starts
the command and serves it. The broker goes on when the runner has ended, as long as the command has
left something running.

What goes wrong before the command starts is told by the broker, with its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import socket

from holdfast.cli import DONE
from holdfast.cli.locks import take
from holdfast.cli.opening import STORE_VARIABLE, Desk, tree_of
from holdfast.cli.printing import complain, plain, talk
from holdfast.cli.running import (
    CANNOT_EXECUTE,
    NOT_FOUND,
    cannot_start,
    give_back,
    runner,
)
from holdfast.cli.signals import Signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.core.model import Holder
    from holdfast.gate.broker.serving import Broker
    from holdfast.gate.broker.starting import Enclosure
    from holdfast.gate.sandbox.places import Places
    from holdfast.gate.sandbox.quarters import Quarters
    from holdfast.manager.grants import LockGrant
    from holdfast.manager.manager import LockManager

_MESSAGE_BYTES_MAX = 65_536


def run_leased(call: Call) -> int:
    """Run the command below a broker. The exit code is the command's own, once it has started."""
    from holdfast.gate.broker.starting import demand
    from holdfast.gate.broker.system import adopt_orphans

    abi = demand()
    with Signals() as signals:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        adopt_orphans()  # if the broker is killed the command is ours to wait for
        me, group = os.getpid(), os.getpgrp()
        broker = os.fork()
        if broker == 0:
            ours.close()
            os.setpgid(0, 0)  # what the terminal sends is not for the broker
            return _serve(call, abi, signals, theirs, me, group)
        theirs.close()
        return _Runner(broker, ours, signals).attend()


class _Runner:
    """The process that was called, while the broker serves."""

    def __init__(self, broker: int, line: socket.socket, signals: Signals) -> None:
        self._broker = broker
        self._line = line
        self._signals = signals
        self._command = 0
        self._is_alone = False

    def attend(self) -> int:
        started = self._hear()
        if started is None or "started" not in started:
            _pid, status = os.waitpid(self._broker, 0)
            return os.waitstatus_to_exitcode(status)
        self._command = started["started"]
        self._line.setblocking(False)
        return self._signals.attend(self._command, self._changes)

    def _hear(self) -> dict[str, Any] | None:
        try:
            said = self._line.recv(_MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return {}
        except OSError:
            said = b""
        return json.loads(said) if said else None

    def _changes(self) -> Iterator[int]:
        while not self._is_alone:
            said = self._hear()
            if said is None:
                self._lose_broker()
            elif not said:
                return
            else:
                for line in said.get("say", ()):
                    talk(line)
                yield said["status"]
        while True:
            try:
                found, status = os.waitpid(self._command, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if not found:
                return
            yield status

    def _lose_broker(self) -> None:
        self._is_alone = True
        os.waitpid(self._broker, 0)
        talk("holdfast: the broker was killed: the command can open nothing for writing any more")
        talk("  -> stop it; its leases stay until all of its processes have ended")
        os.kill(os.getpid(), signal.SIGCHLD)  # it may have ended before it became our child


# In the broker's process


def _serve(
    call: Call, abi: int, signals: Signals, line: socket.socket, waiting: int, group: int
) -> int:
    from holdfast.gate.broker.starting import Enclosure, socket_path
    from holdfast.gate.broker.system import adopt_orphans, keep_own_umask
    from holdfast.gate.sandbox import SOCKET_VARIABLE
    from holdfast.gate.sandbox.service import Service

    adopt_orphans()
    desk = Desk(call)
    writes, reads = desk.places(call.many("write")), desk.places(call.many("read"))
    manager = desk.open(writes + reads)
    holder, variables = runner(call.text("holder"))
    grant = _locked(call, manager, holder, reads, writes)
    quarters: Quarters | None = None
    open_places: Callable[[Places], None] | None = None
    if call.flag("sandbox"):
        quarters, open_places = _quarters(manager, holder)
    enclosure = Enclosure(
        manager,
        holder,
        abi,
        _say,
        wait=call.wait(),
        until_commit=call.flag("until-commit"),
        places=open_places,
    )
    root = tree_of(manager).root
    service = Service(socket_path(root), _questions(enclosure))
    environment = {**os.environ, **variables, SOCKET_VARIABLE: service.path}
    if quarters is not None:
        environment |= dict.fromkeys(("TMPDIR", "TMP", "TEMP"), quarters.tmp)
    if desk.store:
        environment[STORE_VARIABLE] = desk.store
    command = call.words
    try:
        child = enclosure.start(
            command, environment, group, mask=signals.as_given, default=signals.ignored_by_python
        )
    except (OSError, ValueError) as error:
        complain(cannot_start(command[0], error), call.flag("json"))
        _leave(manager, grant, holder, service, quarters)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    broker = enclosure.broker()
    line.send(json.dumps({"started": child}).encode())
    service.start(manager)
    keep_own_umask()
    watch = _Watch(broker, line, waiting, child)
    try:
        broker.serve()
    finally:
        broker.let_go()
        watch.finish()
        broker.close()
        _leave(manager, grant, holder, service, quarters)
        watch.end()
        manager.close()  # else the next command reads the whole log of what was leased here
    return DONE


class _Watch:
    """What becomes of the command, told to the runner."""

    def __init__(self, broker: Broker, line: socket.socket, runner: int, command: int) -> None:
        self._broker = broker
        self._line = line
        self._runner = runner
        self._command = command
        self._status: int | None = None
        self._is_told = False
        heard, told = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._heard = heard
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        broker.ears[heard] = self.hear
        self.hear()

    def hear(self) -> None:
        """Something has become of a child."""
        try:
            while os.read(self._heard, 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                found, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            except ChildProcessError:
                return
            if not found:
                return
            if found == self._command:
                self._note(status)

    def _note(self, status: int) -> None:
        if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
            self._tell({"status": status})
            return
        self._status = status
        self._tell({"status": status, "say": [f"holdfast: {one}" for one in self._broker.end()]})
        _be_quiet()

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._line.send(json.dumps(message).encode())
            os.kill(self._runner, signal.SIGCHLD)
        except OSError:
            pass  # the runner was killed

    def finish(self) -> None:
        """Nothing is left that could call: the command has ended, or is about to."""
        if self._status is None:
            try:
                self._note(os.waitpid(self._command, 0)[1])
            except ChildProcessError:
                self.hear()

    def end(self) -> None:
        self._line.close()


def _locked(
    call: Call, manager: LockManager, holder: Holder, reads: list[str], writes: list[str]
) -> LockGrant | None:
    if not (reads or writes):
        return None
    reason = call.text("reason") or f"running {os.path.basename(call.words[0])}"
    return take(manager, holder, reads, writes, ttl=None, reason=reason, wait=call.wait())


def _quarters(manager: LockManager, holder: Holder) -> tuple[Quarters, Callable[[Places], None]]:
    """What is open outside of the repository in a sandbox."""
    from holdfast.gate.controlling import controls_of
    from holdfast.gate.sandbox.quarters import Quarters
    from holdfast.gate.settings import Settings

    root = tree_of(manager).root
    quarters = Quarters(holder)

    def opened(places: Places) -> None:
        listed = Settings.load(root).sandbox_write
        places.add_listed(root, listed, controls_of(root), keep=[quarters.folder])
        places.add_folder(quarters.tmp)
        places.add_devices()
        places.add_streams()

    return quarters, opened


def _questions(enclosure: Enclosure) -> dict[str, Any]:
    from holdfast.cli.inside import QUESTIONS

    return {**QUESTIONS, **enclosure.questions()}


def _leave(
    manager: LockManager,
    grant: LockGrant | None,
    holder: Holder,
    service: Any,
    quarters: Quarters | None,
) -> None:
    service.close()
    try:
        os.unlink(service.path)
    except OSError:
        pass
    if quarters is not None:
        quarters.close()
    if grant is not None:
        give_back(manager, grant, holder)


def _say(sentence: str) -> None:
    talk(f"holdfast: {plain(sentence)}")


def _be_quiet() -> None:
    """The runner is about to end: what reads its output must not wait for the broker."""
    fd = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(fd, number)
    os.close(fd)
