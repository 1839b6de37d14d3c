"""The loop of the broker: it receives one call after the other, and answers it.

It is single-threaded, so no two calls of a command are in progress together; calls that have to
wait are put aside (`waiting_calls`). A call that the broker does not understand, or may not perform
for the caller, is left to the kernel, and so to Landlock; a call that Landlock does not handle is
refused instead.
"""

from __future__ import annotations

import errno
import os
import select
from _functools import partial  # type: ignore[import-not-found]  # functools takes longer
from time import monotonic

from holdfast.core.errors import HoldfastError
from holdfast.gate.broker.calling_thread import Caller, CallerGone, Trust
from holdfast.gate.broker.calls.attribute_calls import AttributeCalls
from holdfast.gate.broker.calls.call_answers import Descriptor, WouldBlock
from holdfast.gate.broker.calls.waiting_calls import WaitLine
from holdfast.gate.broker.heard_calls import NAMES, Listener, signed
from holdfast.gate.broker.leasing.leased_files import MustWait
from holdfast.gate.broker.left_running import (
    command_of,
    descendants,
    written_by,
)
from holdfast.gate.broker.places.path_lookup import KernelDecides
from holdfast.gate.broker.places.path_zones import OUTSIDE
from holdfast.manager.files.realpath import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gate.broker.calls.call_answers import Answer, CallContext
    from holdfast.gate.broker.calls.name_calls import NameCalls
    from holdfast.gate.broker.calls.open_calls import OpenCalls
    from holdfast.gate.broker.calls.waiting_calls import Call
    from holdfast.gate.broker.leasing.committed_files import CommittedFiles
    from holdfast.manager.manager import LockManager

#: How often the broker checks its leases.
_LOOK_SECONDS = 1.0
#: How long after a rename in git's folder to check for a commit: a commit renames several times.
_COMMIT_SECONDS = 0.2
#: A command that makes no call for this long is busy with something else.
_QUIET_SECONDS = 0.01
#: How many calls are answered before the broker attends to other things.
_TURN_MAX = 64


class Broker:
    """Serves one command. `ears` are other descriptors to wait for, each with what to do then."""

    def __init__(
        self,
        manager: LockManager,
        context: CallContext,
        acts: tuple[OpenCalls, NameCalls],
        attribute_calls: AttributeCalls,
        trust: Trust,
        listener: Listener,
        *,
        wait: float,
        committed: CommittedFiles | None = None,
    ) -> None:
        """`committed` finds the files that a commit has made clean, if those are to be released."""
        self.ears = context.lookahead.ears
        self.ears[context.control_writes.ear] = context.control_writes.hear
        #: The loop is to end: no process is left below.
        self.is_over = False
        #: Called once, as soon as there is no call for a moment, or after a while at the latest.
        self.when_quiet: Callable[[], None] | None = None
        self._quiet_at_last = monotonic() + 10 * _QUIET_SECONDS
        self._context = context
        self._leases = context.leases
        self._trust = trust
        self._listener = listener
        self._line = WaitLine(
            manager, context.leases, wait, listener.is_waiting, self._answer, listener.refuse
        )
        self._acts = {
            number: getattr(one, name)
            for number, name in NAMES.items()
            for one in acts
            if hasattr(one, name)
        }
        #: The calls that Landlock does not handle.
        self._attribute_calls = {
            number: getattr(attribute_calls, name) for number, name in NAMES.items()
            if hasattr(attribute_calls, name)
        }  # fmt: skip
        #: Called in every round of the loop. Returns how long it may sleep, in seconds.
        self.attend: Callable[[], float] | None = None
        self._look_at = monotonic() + _LOOK_SECONDS
        self._committed = committed
        self._is_commit_likely = False
        self._git_moves = 0
        self._has_told_of_others = False

    @property
    def waited_seconds(self) -> float:
        """For how long in all at least one call has waited in line."""
        return self._line.waited_seconds

    @property
    def wanted(self) -> list[str]:
        """The paths that calls in line are about to write."""
        return self._line.wanted

    def answer(self, call: Call) -> None:
        """Answer a call that was received before there was a broker."""
        self._answer(call)

    def serve(self) -> None:
        """Serve until no process is left below that could make a call."""
        poll = select.poll()
        poll.register(self._listener.fd, select.POLLIN)
        watched: set[int] = set()
        while not self.is_over:
            wanted = {*self.ears, *self._line.ears}
            if wanted != watched:
                for fd in watched - wanted:
                    poll.unregister(fd)
                for fd in wanted - watched:
                    poll.register(fd, select.POLLIN)
                watched = wanted
            pause = min(self._line.pause, max(0.0, self._look_at - monotonic()))
            if self.when_quiet is not None:
                pause = min(pause, _QUIET_SECONDS)
            if self.attend is not None:
                pause = min(pause, self.attend())
                if self.is_over:
                    return
            ready = poll.poll(pause * 1000)
            if self.when_quiet is not None and (not ready or monotonic() > self._quiet_at_last):
                due, self.when_quiet = self.when_quiet, None
                due()
            for fd, happened in ready:
                if fd == self._listener.fd:
                    self._take(happened)
                elif fd in self.ears:
                    self.ears[fd]()
            self._line.look_if_due()
            if self._context.git_moves != self._git_moves:
                self._git_moves = self._context.git_moves
                if self._committed is not None:
                    self._look_at = min(self._look_at, monotonic() + _COMMIT_SECONDS)
                    self._is_commit_likely = True
            if monotonic() >= self._look_at:
                self._look()

    def _take(self, happened: int) -> None:
        if not happened & select.POLLIN:
            self.is_over = True
            return
        poll = select.poll()
        poll.register(self._listener.fd, select.POLLIN)
        for _ in range(_TURN_MAX):
            call = self._listener.hear()
            if call is not None:
                self._answer(call)
            ready = poll.poll(0)
            if not ready or not ready[0][1] & select.POLLIN:
                return

    # One call

    def _answer(self, call: Call) -> None:
        id, _thread, number, _given = call
        try:
            answer = self._made(call)
        except (KernelDecides, CallerGone):
            self._leave_to_kernel(id, number)
        except MustWait as awaited:
            self._line.stand(call, awaited)
        except WouldBlock:
            self._line.block(call)
        except OSError as error:
            self._listener.refuse(id, error.errno or errno.EIO)
        except HoldfastError:
            self._listener.refuse(id, errno.EACCES)
        except Exception as error:  # our own error must not stop all other calls
            self._leases.say(f"internal error in the broker, so a call was refused: {error!r}")
            self._listener.refuse(id, errno.EIO)
        else:
            self._hand(id, answer)

    def _made(self, call: Call) -> Answer:
        id, thread, number, given = call
        name = NAMES.get(number, "")
        if name == "prlimit64":
            self._refuse_limits(signed(given[0]))
        try:
            caller = Caller(thread, partial(self._listener.is_waiting, id))
            if number in _NOTED:
                self._note(caller, name, given)
                raise KernelDecides
            is_ours = self._trust.has_first_identity(caller)
        except (OSError, ValueError) as error:
            raise KernelDecides from error
        if not is_ours:
            self._tell_of_other(caller, name, given)
            raise KernelDecides
        caller.demand_waiting()
        act = self._acts.get(number) or self._attribute_calls.get(number)
        if act is None:
            raise KernelDecides
        answer: Answer = act(caller, given)
        return answer

    def _tell_of_other(self, caller: Caller, name: str, given: tuple[int, ...]) -> None:
        """Say, once, why a program cannot write anything here."""
        if self._has_told_of_others or name not in _PATHS_AT:
            return
        try:
            text = os.fsdecode(caller.text(given[_PATHS_AT[name]]))
            path = os.path.join(os.readlink(f"{caller.folder}/cwd"), text)
        except OSError:
            return
        if self._context.kinds.rough(os.path.normpath(path))[0] != OUTSIDE:
            self._has_told_of_others = True
            self._leases.say(
                f"{plain(caller.name)} (pid {caller.process}) has other privileges than the "
                "command had at its start (its own sandbox, another user, another namespace), so "
                f"it cannot write {plain(path)}; turn that off to write below run --lease"
            )

    def _refuse_limits(self, process: int) -> None:
        """Refuse limits for the broker: without descriptors or memory it could serve no call."""
        try:
            process = Caller(process, lambda: True).process
        except (OSError, ValueError):
            return
        if process in {os.getpid(), os.getppid(), *_helpers(self._context)}:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    def _note(self, caller: Caller, name: str, given: tuple[int, ...]) -> None:
        if name == "close":
            self._context.control_writes.closing(caller, signed(given[0]))
        elif name == "prctl":
            self._trust.note_adopter(caller.process)
        else:
            self._trust.note_restricted(caller.process)

    def _leave_to_kernel(self, id: int, number: int) -> None:
        if number in self._attribute_calls:
            self._listener.refuse(id, errno.EACCES)
        else:
            self._listener.pass_on(id)

    def _hand(self, id: int, answer: Answer) -> None:
        if not isinstance(answer, Descriptor):
            self._listener.answer(id, answer)
            return
        try:
            self._listener.give(
                id, answer.fd, close_on_exec=answer.close_on_exec, number=answer.number
            )
        except OSError as error:
            self._listener.refuse(id, error.errno or errno.EMFILE)
        finally:
            os.close(answer.fd)

    # The end of the command

    def end(self) -> list[str]:
        """The command itself has ended. Release the leases that are no longer in use. Returns a
        line for people about each process that is left."""
        self.refuse_all()
        kept = self._give_back()
        return [
            f"still running: pid {process} ({plain(command_of(process))})"
            + (f", with {', '.join(map(self._shown, paths))} open for writing" if paths else "")
            for process, paths in kept.items()
        ]

    def refuse_all(self) -> None:
        """The command itself has ended: processes that it left running get no more leases."""
        self._context.control_writes.hear()
        self._leases.is_over = True
        self._line.refuse_all()

    def settle_git(self) -> None:
        """The command has ended, and its runner knows: release what git has made clean."""
        if self._context.git_moves:
            self._leases.free_clean(self._context.kinds)

    def _shown(self, path: str) -> str:
        return plain(self._leases.mine[path].shown)

    def _give_back(self) -> dict[int, list[str]]:
        """Release what no process below has open for writing. Returns what each of them has."""
        used: dict[int, list[str]] = {}
        mine = self._leases.mine
        for process in descendants():
            if process in _helpers(self._context):
                continue
            used[process] = sorted({path for path in written_by(process) if path in mine})
        in_use = {path for paths in used.values() for path in paths}
        self._leases.settle(in_use)
        for process, paths in used.items():
            for path in paths:
                self._leases.relabel(
                    path,
                    f"left running by {self._leases.holder.id}, pid {process}, "
                    f"{command_of(process)}",
                )
        return used

    def _give_back_committed(self) -> None:
        if self._committed is None or not self._is_commit_likely:
            return
        self._is_commit_likely = False
        clean = self._committed.clean(self._leases.mine)
        if clean:
            below = descendants()
            in_use = {path for process in below for path in written_by(process)}
            self._leases.drop_all([path for path in clean if path not in in_use])

    def _look(self) -> None:
        self._look_at = monotonic() + _LOOK_SECONDS
        try:
            self._leases.find_lost_leases()
            self._give_back_committed()
            if self._leases.is_over and self._leases.mine:
                self._give_back()
        except HoldfastError:
            pass  # the ledger cannot be used now; the next round tries again

    def let_go(self) -> None:
        """Stop receiving calls: processes that are left below can open nothing from now on."""
        self._listener.close()

    def close(self) -> None:
        """No process is left: release the rest."""
        self._leases.close()
        self._line.close()
        self._context.control_writes.close()
        self._context.kinds.close()


#: The position of the path among a call's arguments.
_PATHS_AT = {"open": 0, "creat": 0, "openat": 1, "openat2": 1}
_NOTED = frozenset(number for number, name in NAMES.items()
                   if name in ("close", "prctl", "landlock_restrict_self"))  # fmt: skip


def _helpers(context: CallContext) -> set[int]:
    return context.kinds.helpers()
