"""A refusal in words: the holder, for how long, when the lease ends, and what to do next."""

from __future__ import annotations

from holdfast.core.errors import HoldfastError, LockTimeoutError, error_of
from holdfast.core.model import CONFLICTS_COUNTED_MAX, READ, SECOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from holdfast.core.model import ConflictInfo, Refusal, Verdict

_HINTS = {
    "E_LOCK_CONFLICT": "wait for it (--wait, or acquire with a timeout), or work on something else",
    "E_LOCK_CYCLE": "release what the others wait for, then request everything together",
    "E_LOCK_EXPIRED": "stop writing; acquire the lock again before you continue",
    "E_LOCK_NOT_HELD": "acquire the lock first; holdfast status lists the holders",
    "E_FENCING_MISMATCH": "stop writing: another holder has taken over; reread the files first",
    "E_LOCK_VIOLATION": "request a grant that names every file you will write",
    "E_LOCK_TIMEOUT": "try again later, or ask the holder to finish",
}


def duration(microseconds: int) -> str:
    """A length of time for people: `45 s`, `12 min`, `3 h 20 min`, `2 days`."""
    seconds = max(0, microseconds) // SECOND
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{hours // 24} days"


def conflict_sentence(conflict: ConflictInfo, now: int) -> str:
    """One conflict as a sentence: the holder, for how long, and until when."""
    since = duration(now - conflict.since)
    if conflict.kind == "reservation":
        said = f"{conflict.path} is reserved for {conflict.holder}, which has waited for {since}"
    else:
        mode = "reading" if conflict.held_mode == READ else "writing"
        said = f"{conflict.path} has been locked for {mode} by {conflict.holder} for {since}"
        if conflict.held_path != conflict.path:
            said += f" (as {conflict.held_path})"
        if conflict.until is not None:
            said += f"; its lease ends in {duration(conflict.until - now)}"
    return f"{said}: {conflict.reason}" if conflict.reason else said


def conflict_sentences(
    conflicts: Sequence[ConflictInfo], now: int, most: int = 3, *, more: int = 0
) -> str:
    """The first conflicts as sentences; the rest, and `more` that are not listed, are counted."""
    said = "; ".join(conflict_sentence(conflict, now) for conflict in conflicts[:most])
    rest = and_more(max(0, len(conflicts) - most), more)
    return f"{said}; {rest}" if rest else said


def and_more(rest: int, more: int) -> str:
    """How many conflicts are omitted: `rest` of those listed, and `more` beyond the list."""
    if more > CONFLICTS_COUNTED_MAX:
        return f"and more than {CONFLICTS_COUNTED_MAX:,} more"
    return f"and {rest + more:,} more" if rest + more else ""


def circle_sentence(requester: str, circle: Sequence[ConflictInfo]) -> str:
    """The cycle of holders, step by step, from the requester back to it."""
    waiter, steps = requester, []
    for step in circle:
        steps.append(f"{waiter} would wait for {step.holder} ({step.held_path})")
        waiter = step.holder
    return ", ".join(steps)


def refusal_error(refusal: Refusal, *, now: int, requester: str = "") -> HoldfastError:
    """The exception for a refusal."""
    parts = [refusal.message] if refusal.message else []
    fields: dict[str, Any] = {}
    if refusal.circle:
        parts.append(circle_sentence(requester, refusal.circle))
        fields["circle"] = refusal.circle
    elif refusal.conflicts:
        parts.append(conflict_sentences(refusal.conflicts, now, more=refusal.more))
    if refusal.conflicts:
        fields["conflicts"] = refusal.conflicts
    if refusal.more:
        fields["more"] = refusal.more
    if refusal.ending is not None:
        fields["ending"] = refusal.ending
    return error_of(refusal.code)(": ".join(parts), hint=_HINTS[refusal.code], **fields)


def timeout_error(
    conflicts: Sequence[ConflictInfo], *, now: int, seconds: float, more: int = 0
) -> HoldfastError:
    """The exception for a wait that timed out."""
    said = conflict_sentences(conflicts, now, more=more)
    return LockTimeoutError(
        f"timed out after {seconds:g} s: {said}" if said else f"timed out after {seconds:g} s",
        hint=_HINTS["E_LOCK_TIMEOUT"],
        conflicts=tuple(conflicts),
        waited_seconds=seconds,
        **({"more": more} if more else {}),
    )


def raise_verdict(verdict: Verdict) -> None:
    """Raise the error of a negative verdict."""
    if not verdict:
        raise error_of(verdict.code)(verdict.reason, hint=_HINTS[verdict.code])
