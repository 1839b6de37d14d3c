"""run: acquire the locks, run a command, and release them however the command ends.

The grant has no ttl: it lasts as long as this process, and after that as long as any process that
carries its mark. So if this process is killed, the lock stays with the orphaned command and is free
as soon as that has exited, without any cleanup.

With `--sandbox` the kernel lets the command write only what it has locked; see
`holdfast.gate.sandbox`.

What this does not promise: a process that the command leaves running in the background is not
covered. The lock is released when the command itself ends.
"""

from __future__ import annotations

import errno
import os

from holdfast.cli.command_context import STORE_VARIABLE, CommandContext, tree_of
from holdfast.cli.locking.lock_commands import keep_beside, take
from holdfast.cli.locking.sandbox_option import is_best_effort, version
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import complain, plain, talk
from holdfast.core.errors import HoldfastError
from holdfast.gate.sandbox.starting.signal_relay import SignalRelay, can_pass_signals
from holdfast.manager.owners.identity import (
    HOLDER_VARIABLE,
    OWNER_VARIABLE,
    runner_holder,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call
    from holdfast.core.model import Holder
    from holdfast.gate.sandbox.box import Sandbox
    from holdfast.manager.grants import LockGrant
    from holdfast.manager.manager import LockManager

GRANT_VARIABLE = "HOLDFAST_GRANT"
TOKEN_VARIABLE = "HOLDFAST_TOKEN"

CANNOT_EXECUTE = 126
NOT_FOUND = 127


class CommandError(HoldfastError):
    """A command that could not be started."""

    code = "E_COMMAND"


def run(call: Call) -> int:
    """Lock, run, release. The exit code is that of the command, once it has started."""
    _check_options(call)
    if call.flag("lease"):
        from holdfast.cli.locking.run_lease import run_leased

        return run_leased(call)
    abi = _sandbox_version(call)
    context = CommandContext(call)
    writes, reads = context.places(call.many("write")), context.places(call.many("read"))
    holder, variables = runner(call.text("holder"))
    manager = context.open(writes + reads)
    reason = call.text("reason") or f"running {os.path.basename(call.words[0])}"
    grant = take(manager, holder, reads, writes, ttl=None, reason=reason, wait=call.wait())
    keep_beside(manager, holder, grant)
    environment = {**os.environ, **variables}
    environment |= {GRANT_VARIABLE: grant.id, TOKEN_VARIABLE: str(grant.token)}
    if context.store:
        environment[STORE_VARIABLE] = context.store
    with SignalRelay() as signals:
        try:
            if abi:
                return _run_inside(call, manager, grant, abi, environment, signals)
            return _run(call, environment, signals)
        finally:
            release(manager, grant, holder)


def _check_options(call: Call) -> None:
    if not can_pass_signals():
        raise UsageError(
            "run is not available on this system: it cannot pass signals on",
            hint="use holdfast lock and holdfast unlock, or LockManager.hold from Python",
        )
    if not call.words:
        raise UsageError(
            "run needs a command", hint="holdfast run --write PATH -- COMMAND ARGUMENT…"
        )
    if not (call.flag("write") or call.flag("read") or call.flag("lease")):
        raise UsageError(
            "run needs something to lock", hint="give --lease, --write PATH or --read PATH"
        )
    if call.flag("until-commit") and not call.flag("lease"):
        raise UsageError("--until-commit needs --lease", hint="give --lease too")
    is_best_effort(call)
    if call.flag("git") and not call.flag("sandbox"):
        raise UsageError("--git needs --sandbox", hint="without --sandbox, .git is open anyway")


def _sandbox_version(call: Call) -> int:
    """The version of the kernel's sandbox; 0 if the command gets none.

    Determined before anything is locked. Raises SandboxError if a required sandbox is impossible.
    """
    if not call.flag("sandbox"):
        return 0
    return version(call, "the command runs", "run it without --sandbox, or ")


def runner(given: str | None) -> tuple[Holder, dict[str, str]]:
    """This process as a holder, with a given name or a generated one, and the variables for its
    command.

    Inside another run the name is not inherited: two commands that one runner started side by side
    must be able to exclude each other.
    """
    inherited = None if os.environ.get(OWNER_VARIABLE) else os.environ.get(HOLDER_VARIABLE)
    id = given if given is not None else inherited or f"run-{os.urandom(4).hex()}"
    return runner_holder(id)


def _run(call: Call, environment: dict[str, str], signals: SignalRelay) -> int:
    command = call.words
    try:
        child = os.posix_spawnp(
            command[0], command, environment,
            setsigmask=signals.as_given, setsigdef=signals.ignored_by_python,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        complain(cannot_start(command[0], error), call.flag("json"))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    return signals.attend(child)


def _run_inside(
    call: Call,
    manager: LockManager,
    grant: LockGrant,
    abi: int,
    environment: dict[str, str],
    signals: SignalRelay,
) -> int:
    """As `_run`, in a sandbox."""
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.people.ledger_picture import QUESTIONS
    from holdfast.gate.sandbox.box import Sandbox

    write = Settings.load(tree_of(manager).root).sandbox_write
    sandbox = Sandbox(
        manager, grant, abi=abi, write=write, git=call.flag("git"), questions=QUESTIONS
    )
    try:
        for text in sandbox.missing:
            talk(f"holdfast: {plain(text)} does not exist, so it stays closed (sandbox.write)")
            talk("  -> with a slash at its end it is created, as a folder")
        return _start_inside(sandbox, call, environment, signals)
    finally:
        left = sandbox.close()
        if left:
            talk(f"holdfast: the scratch folder could not be removed: {plain(left)}")
            talk("  -> something that the command started still writes there")


def _start_inside(
    sandbox: Sandbox, call: Call, environment: dict[str, str], signals: SignalRelay
) -> int:
    command = call.words
    try:
        child = sandbox.start(
            command, environment, mask=signals.as_given, default=signals.ignored_by_python
        )
    except (OSError, ValueError) as error:
        complain(cannot_start(command[0], error), call.flag("json"))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_EXECUTE
    sandbox.serve()
    return signals.attend(child)


def cannot_start(name: str, error: Exception) -> CommandError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    hint = "check the spelling, and PATH"
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        hint = "a script needs a first line like #!/bin/sh"
    elif isinstance(error, PermissionError):
        hint = "it must be an executable file"
    return CommandError(f"cannot start {name!r}: {why}", hint=hint, command=name)


def release(manager: LockManager, grant: LockGrant, holder: Holder) -> None:
    """Release the grant. The command has ended, so an error is only printed."""
    try:
        if not manager.release(grant.id, holder=holder):
            talk(f"holdfast: the lock was taken away before the command ended (grant {grant.id})")
            talk("  -> holdfast log shows by whom; check what both have written")
    except HoldfastError as error:
        talk(f"holdfast: the lock could not be released: {plain(error.message)}")
        talk("  -> it becomes free by itself, since the command has ended")
