"""The command `holdfast`: it parses and prints, and decides nothing.

    commands         the commands and their options as one table
    families         the tables of the families of commands: store, spec, proof, tree
    parser           reads a command line with these tables
    suggestions      the hint under an unknown command or option
    command_context  which ledger, which holder, and where a path starts
    overview         holdfast alone
    help             help, --help and --version
    locking          lock, unlock, renew, steal, check, whoami, status, log, reap, trim, run, write
    guarding         init, doctor, off, on, hook, blockers, resume, undo
    dispatch         plan, dispatch, decide, gaps
    watching         top, serve
    tree             tree …
    store_commands   store …
    spec_commands    spec …
    proof_commands   proof …
    demo             demo
    completion       completions for bash, zsh and fish, made from the same tables
    printing         what goes to which stream, and what must never reach a terminal
    terminal         width, keys, and tables that fit

A module is imported when its command runs, because starting must cost next to nothing. The store
is not closed at the end: leaving it open is safe, and closing it would write its log back every
time.
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
    """Run one command line and return the exit code. `-C` changes the current folder."""
    try:
        return _guarded(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return INTERRUPTED


def _guarded(words: list[str]) -> int:
    """Run it, and turn every expected error into a message and an exit code."""
    from holdfast.cli.parser import parse, wants_json
    from holdfast.cli.printing import complain, prepare
    from holdfast.core.errors import HoldfastError

    prepare()
    as_json = wants_json(words)
    try:
        call = parse(words)
        as_json = call.flag("json")
        return _run(call)
    except BrokenPipeError:  # the reader of our output is gone
        return DONE
    except HoldfastError as error:
        complain(error, as_json)
        return exit_code(error)
    except Exception as error:
        ours = _as_holdfast_error(error)
        if ours is None:
            raise
        complain(ours, as_json)
        return exit_code(ours)


def _run(call: Call) -> int:
    command = call.command
    home = __import__(f"holdfast.cli.{command.module}", fromlist=[command.function])
    code: int = getattr(home, command.function)(call)
    return code


def _as_holdfast_error(error: Exception) -> HoldfastError | None:
    """An error of the system or of the database as one of Holdfast's; None for a bug."""
    import sqlite3

    from holdfast.core.errors import StoreError
    from holdfast.store.sqlite.schema import translated

    if isinstance(error, OSError):
        about = f" ({error.filename})" if error.filename is not None else ""
        return StoreError(
            f"the system refused: {error.strerror or type(error).__name__}{about}",
            hint="fix that and try again; holdfast status shows what is locked",
        )
    return translated(error, "the ledger") if isinstance(error, sqlite3.Error) else None


def exit_code(error: HoldfastError) -> int:
    """The exit code of an error. There are few, and they are stable."""
    from holdfast.core.errors import InvalidInput, LockTimeoutError, Lost, Refused

    if isinstance(error, LockTimeoutError):
        return TIMED_OUT
    if isinstance(error, Refused):
        return CONFLICT
    if isinstance(error, Lost):
        return NOT_HELD
    return USAGE if isinstance(error, InvalidInput) else FAILED
