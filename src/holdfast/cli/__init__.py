"""The command `holdfast`: it parses and prints, and decides nothing.

    commands     the commands and their options as one table
    families     the tables of commands of one kind, each under its own first word
    parser       how a line is read with it
    helping      --help and --version
    opening      which ledger, whose lock, and where a path starts
    init         init
    doctor       doctor
    switching    off, on
    gating       hook, blockers, resume, undo
    person       whether a person asks
    locks        lock, unlock, renew, steal
    naming       which grants somebody means
    looking      check, whoami
    status       status
    spec         spec lock, unlock, status, cleanup, whoami
    history      log, reap, trim
    running      run
    leasing      run --lease
    writing      write
    planning     plan
    signals      what passes between a runner and its command
    proof        proof …
    demo         demo: which one is shown
    demo_tasks   the demo of tasks; beside it demo_tasks_stage, _agent, _story and _audit
    demo_screens the demo of screens; beside it demo_stage, _agent, _story, _show and _audit
    demo_process the folder and the dispatcher of a demo; demo_words and demo_checks are for both
    completion   for bash, zsh and fish, made from the same table
    tables       columns that fit the terminal
    printing     what goes to which stream, and what must never reach a terminal
    top          top: what the page shows, in a terminal
    serving      serve: the page

A module is imported when its command runs: starting must cost next to nothing. The store is not
closed in the end. Leaving it open is safe, and closing it would write its log back every time.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Call
    from holdfast.core.errors import HoldfastError

DONE = 0
FAILED = 1
USAGE = 2
CONFLICT = 3
NOT_HELD = 4
TIMED_OUT = 5
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and say with which code to exit. `-C` changes the current folder."""
    try:
        return _guarded(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return INTERRUPTED


def _guarded(words: list[str]) -> int:
    """Whatever can be expected to go wrong, as words and an exit code."""
    from holdfast.cli.parser import parse, wants_json
    from holdfast.cli.printing import complain, prepare
    from holdfast.core.errors import HoldfastError

    prepare()
    as_json = wants_json(words)
    try:
        call = parse(words)
        as_json = call.flag("json")
        return _run(call)
    except BrokenPipeError:  # whoever read our output has had enough
        return DONE
    except HoldfastError as error:
        complain(error, as_json)
        return exit_code(error)
    except Exception as error:
        known = _known(error)
        if known is None:
            raise
        complain(known, as_json)
        return exit_code(known)


def _run(call: Call) -> int:
    command = call.command
    home = __import__(f"holdfast.cli.{command.module}", fromlist=[command.function])
    code: int = getattr(home, command.function)(call)
    return code


def _known(error: Exception) -> HoldfastError | None:
    """What the system or the database says while somebody reads or writes, as one of ours."""
    import sqlite3

    from holdfast.core.errors import StoreError
    from holdfast.store.schema import translated

    if isinstance(error, OSError):
        about = f" ({error.filename})" if error.filename is not None else ""
        return StoreError(
            f"the system refused: {error.strerror or type(error).__name__}{about}",
            hint="fix that and try again; holdfast status shows what is locked",
        )
    return translated(error, "the ledger") if isinstance(error, sqlite3.Error) else None


def exit_code(error: HoldfastError) -> int:
    """The exit code that belongs to an error. They are few, and they stay."""
    from holdfast.core.errors import InvalidInput, LockTimeoutError, Lost, Refused

    if isinstance(error, LockTimeoutError):
        return TIMED_OUT
    if isinstance(error, Refused):
        return CONFLICT
    if isinstance(error, Lost):
        return NOT_HELD
    return USAGE if isinstance(error, InvalidInput) else FAILED
