"""spec lock, unlock, status, cleanup, whoami: the specs of the workspace around the caller."""

from __future__ import annotations

import os

from holdfast.cli import DONE, FAILED
from holdfast.cli.command_context import CommandContext
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import colours, document, out, plain, quoted, talk
from holdfast.cli.terminal.tables import (
    BOLD,
    RED,
    YELLOW,
    Cell,
    Column,
    render,
    terminal_width,
)
from holdfast.specs import errors
from holdfast.specs.lockfile_codec import number
from holdfast.specs.results import TIMEOUT_HOURS_DEFAULT
from holdfast.specs.spec_holders import holder_here
from holdfast.specs.spec_locks import SpecLocks
from holdfast.specs.spec_names import workspace_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.parser import Call
    from holdfast.core.errors import HoldfastError
    from holdfast.specs.results import LockMetadata, LockStatus

_HINTS = {
    errors.ALREADY_LOCKED: "wait until it is released, or work on another spec",
    errors.NOT_FOUND: "a spec is a folder in .kiro/specs (or .sce/specs) of the workspace",
    errors.PERMISSION_DENIED: "it is unknown whether it is locked: get permission to read and "
    "write its folder",
    errors.INVALID_NAME: "give the name of one folder, without slashes or a leading dot",
    errors.OTHER_MACHINE: "ask its owner; a person can remove it with --force",
    errors.OTHER_HOLDER: "ask its holder (if that is you, give --holder ID); a person can remove "
    "it with --force",
    errors.NOT_REMOVED: "get permission to write to its folder, then try again",
}
_STALE = "it is stale, since it has outlived its timeout: holdfast spec cleanup removes it"


def lock(call: Call) -> int:
    """Lock a spec."""
    name, locks = _name(call), _locks(call, complete=True)
    result = locks.acquire_lock(name, reason=call.text("reason"), timeout=_hours(call))
    if not result.success:
        raise _error(locks, name, result.error, result.existing_lock)
    if call.flag("json"):
        document(result.to_dict())
    elif result.lock is not None:
        after = f"stale after {number(result.lock.timeout)} h"
        out(f"locked {plain(name)} for {plain(result.lock.owner)} on {_host(result.lock)}, {after}")
        talk(f"  release it: holdfast spec unlock {quoted(_way_back(call, name))}")
    return DONE


def unlock(call: Call) -> int:
    """Release a spec."""
    name, locks, force = _name(call), _locks(call), call.flag("force")
    if force and locks.holder.client:
        # An agent would use force whenever a lock is in its way.
        raise UsageError(
            f"agents may not remove a lock by force, and this runs under {locks.holder.id}",
            hint="ask its holder, or let a person do it",
        )
    result = locks.release_lock(name, force=force)
    if not result.success:
        raise _error(locks, name, result.error, result.previous_lock)
    if call.flag("json"):
        document(result.to_dict())
    elif result.message:
        out(f"{plain(name)} is not locked")
    elif result.previous_lock is None:
        out(f"removed the lock of {plain(name)}, which could not be read")
    elif force:
        lock = result.previous_lock
        out(f"took {plain(name)} from {plain(lock.owner)} on {_host(lock)}")
    else:
        out(f"released {plain(name)}")
    return DONE


def status(call: Call) -> int:
    """Show the status of one spec, or of all locked ones."""
    locks = _locks(call, complete=True)
    if call.words:
        name = _name(call)
        if not locks.has_spec(name):
            raise _error(locks, name, errors.NOT_FOUND, None)
        found = locks.get_lock_status(name)
        _warn([found])
        if call.flag("json"):
            document(found.to_dict())
        else:
            out("\n".join(drawn([found])) if found.locked else f"{plain(name)} is not locked")
        return DONE
    all_found = locks.get_lock_status()
    _warn(all_found)
    if call.flag("json"):
        document({
            "workspace": locks.workspace_root, "specs": [one.to_dict() for one in all_found],
        })  # fmt: skip
    else:
        out("\n".join(drawn(all_found)) if all_found else "no spec is locked")
    return DONE


def cleanup(call: Call) -> int:
    """Remove the stale locks."""
    result = _locks(call, complete=True).cleanup_stale_locks()
    if call.flag("json"):
        document(result.to_dict())
    else:
        for cleaned in result.cleaned_locks:
            lock = cleaned.lock
            out(
                f"removed the lock of {plain(cleaned.spec_name)}, held by {plain(lock.owner)} "
                f"on {_host(lock)}"
            )
        if not result.cleaned:
            out("no lock is stale")
        for failed in result.errors:
            talk(f"holdfast: {plain(failed.spec_name)}: {failed.error}")
    return FAILED if result.errors else DONE


def whoami(call: Call) -> int:
    """Show this machine, and the caller on it."""
    from holdfast.specs.machine import WorkspaceMachine

    locks = _locks(call)
    assert isinstance(locks.machine, WorkspaceMachine)
    info = locks.machine.get_machine_info()
    if call.flag("json"):
        document({**info.to_dict(), "owner": locks.owner, "holder": locks.holder.id})
        return DONE
    out(f"machine  {plain(info.id)}")
    out(f"owner    {plain(locks.owner)}")
    out(f"holder   {plain(locks.holder.id)}")
    return DONE


def drawn(specs: Sequence[LockStatus]) -> list[str]:
    """A table of locked specs."""
    columns = [
        Column("SPEC", 12), Column("WHO", 8), Column("MACHINE", 8), Column("FOR"),
        Column("STATE"), Column("WHY", 4, prose=True),
    ]  # fmt: skip
    rows = [_row(one) for one in specs]
    return render(columns, rows, width=terminal_width(), colours=colours())


def _row(status: LockStatus) -> list[Cell]:
    lock = status.lock
    if lock is None:
        return [Cell(status.spec_name), *[Cell("")] * 3, Cell("cannot be read", RED), Cell("")]
    who = _who(lock, status.holder)
    host = f"{lock.hostname} (this)" if status.is_owned_by_me else lock.hostname
    return [
        Cell(status.spec_name), Cell(who), Cell(host, BOLD if status.is_owned_by_me else ""),
        Cell(status.duration or ""), Cell("stale" if status.is_stale else "", YELLOW),
        Cell(lock.reason or ""),
    ]  # fmt: skip


def _warn(specs: Sequence[LockStatus]) -> None:
    for one in specs:
        if one.error is not None:
            talk(f"holdfast: {plain(one.spec_name)}: {one.error}: it may be locked")


def _locks(call: Call, *, complete: bool = False) -> SpecLocks:
    folder = CommandContext(call).folder
    locks = SpecLocks(workspace_of(folder), holder=holder_here(os.environ, call.text("holder")))
    if complete:
        locks.complete_locks()
    return locks


def _name(call: Call) -> str:
    if len(call.words) != 1:
        raise UsageError(
            f"{call.command.name} needs the name of one spec",
            hint=f"holdfast {call.command.name} NAME; holdfast spec status shows what is locked",
        )
    return call.words[0]


def _hours(call: Call) -> float:
    text = call.text("timeout")
    if text is None:
        return TIMEOUT_HOURS_DEFAULT
    whole, point, part = text.partition(".")
    # Not only float(), which accepts "nan", "1e999" and digits of other scripts.
    is_number = text.isascii() and whole.isdigit() and len(text) < 12
    if not is_number or (point and not part.isdigit()) or float(text) <= 0:
        raise UsageError(
            f"--timeout {text!r} is not a number of hours", hint="give hours, such as 24 or 0.5"
        )
    return float(text) if point else int(text)


def _way_back(call: Call, name: str) -> list[str]:
    """The arguments of `spec unlock`, from the same folder, that undo this call."""
    words = [word for folder in call.many("-C") for word in ("-C", folder)]
    holder = call.text("holder")
    words += ["--holder", holder] if holder else []
    return [*words, *(["--"] if name.startswith("-") else []), name]


def _who(lock: LockMetadata, holder: str | None) -> str:
    return f"{lock.owner} ({holder})" if holder else lock.owner


def _host(lock: LockMetadata) -> str:
    return plain(lock.hostname) or "a machine without a name"


def _error(
    locks: SpecLocks, name: str, error: str | None, lock: LockMetadata | None
) -> HoldfastError:
    """A refusal of the library as an error, with all known facts."""
    assert error is not None
    told, hint = f"{error}: {plain(name)}", _HINTS[error]
    if lock is None:
        return errors.error_of(error)(told, hint=hint, spec=name)
    status = locks.get_lock_status(name)
    told += f", by {plain(_who(lock, status.holder))} on {_host(lock)} ({plain(lock.machine_id)})"
    told += f" for {status.duration}" if status.duration else ""
    told += f": {plain(lock.reason)}" if lock.reason else ""
    return errors.error_of(error)(
        told, hint=_STALE if status.is_stale else hint, spec=name, existingLock=lock.to_dict()
    )
