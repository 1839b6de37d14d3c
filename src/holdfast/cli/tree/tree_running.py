"""tree run: a command under a worktree's lock, which is renewed as long as the command runs.

If the caller holds the lock, it is used and stays with the caller; otherwise the runner acquires
it for itself and releases it. The command gets the token; `holdfast tree` inside it acts for the
same holder. If a renewal fails, the command is ended, because another holder may be writing by now.
"""

from __future__ import annotations

import os
import signal
import threading

from holdfast.cli import NOT_HELD
from holdfast.cli.locking.run_command import (
    CANNOT_EXECUTE,
    NOT_FOUND,
    CommandError,
)
from holdfast.cli.parser import Call, UsageError
from holdfast.cli.printing import complain, plain, talk
from holdfast.cli.tree.tree_context import TOKEN_VARIABLE, TreeContext
from holdfast.core.errors import HoldfastError
from holdfast.gate.sandbox.starting.signal_relay import SignalRelay, can_pass_signals
from holdfast.manager.owners.identity import runner_holder
from holdfast.trees.locking import worktree_locks
from holdfast.trees.locking.lock_records import LockRecord
from holdfast.trees.locking.worktree_holders import holder_id
from holdfast.trees.worktrees import Worktree

#: How long a command may take to end on SIGTERM when the lock is lost.
GRACE_SECONDS = 10.0


def run(call: Call) -> int:
    """Lock, run, renew, release. The exit code is the command's own, unless the lock is lost."""
    if not call.words or not can_pass_signals():
        raise UsageError("tree run needs a command", hint="holdfast tree run -- COMMAND ARGUMENT…")
    context = TreeContext(call)
    worktree = context.worktree()
    record, variables, taken = _lock(context, worktree)
    environment = {**os.environ, **variables}
    environment[TOKEN_VARIABLE] = f"{worktree.id}:{record.fencing_token}"
    with SignalRelay() as signals:
        keeper = _Keeper(worktree, record)
        try:
            return _run(call, environment, signals, keeper)
        finally:
            keeper.stop()
            if taken and not keeper.lost:
                _release(worktree, record)


def _lock(context: TreeContext, worktree: Worktree) -> tuple[LockRecord, dict[str, str], bool]:
    """The lock for the command, the command's extra variables, and whether to release the lock."""
    caller = context.caller()
    state = worktree_locks.status(worktree)
    if state.record is not None and state.record.holder_id == caller.id:
        record = worktree_locks.renew(
            worktree, caller.id, token=context.token(worktree), lease_seconds=context.lease()
        )
        return record, {}, False
    given = context.call.text("holder")
    id = caller.id
    variables: dict[str, str] = {}
    if given is None:
        holder, variables = runner_holder(f"tree-run-{os.urandom(4).hex()}")
        id = holder_id(holder)
    return (
        worktree_locks.acquire(worktree, id, lease_seconds=context.lease_or_default()),
        variables,
        True,
    )


class _Keeper(threading.Thread):
    """Renews the lock; if that fails, it reports this and ends the command."""

    def __init__(self, worktree: Worktree, record: LockRecord) -> None:
        super().__init__(name="holdfast-tree-run", daemon=True)
        self._worktree = worktree
        self._record = record
        self._over = threading.Event()
        self._child = 0
        self.lost = False

    def watch(self, child: int) -> None:
        """Keep the lock for this command."""
        self._child = child
        self.start()

    def run(self) -> None:
        """Renew after each third of the lease."""
        record = self._record
        while not self._over.wait(record.lease_seconds / 3):
            try:
                worktree_locks.renew(self._worktree, record.holder_id, token=record.fencing_token)
            except (HoldfastError, OSError) as error:
                self._end(str(error))
                return

    def _end(self, why: str) -> None:
        self.lost = True
        talk(f"holdfast: the lock of {self._worktree.name} is lost: {plain(why)}")
        talk("  -> the command is being ended; see what was published since: holdfast tree history")
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self._child, number)
            except ProcessLookupError:
                return
            if self._over.wait(GRACE_SECONDS):
                return

    def stop(self) -> None:
        """The command has ended."""
        self._over.set()
        if self.is_alive():
            self.join()


def _run(call: Call, environment: dict[str, str], signals: SignalRelay, keeper: _Keeper) -> int:
    command = call.words
    try:
        child = os.posix_spawnp(
            command[0], command, environment,
            setsigmask=signals.as_given, setsigdef=signals.ignored_by_python,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else str(error)
        complain(
            CommandError(f"cannot start {command[0]!r}: {said}", hint="check its spelling"),
            call.flag("json"),
        )
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    keeper.watch(child)
    code = signals.attend(child)
    return NOT_HELD if keeper.lost else code


def _release(worktree: Worktree, record: LockRecord) -> None:
    """Release the lock. The command has ended, so an error is only reported."""
    try:
        worktree_locks.release(worktree, record.holder_id, token=record.fencing_token)
    except HoldfastError as error:
        talk(f"holdfast: the lock could not be released: {plain(error.message)}")
        talk("  -> it ends when its lease expires")
