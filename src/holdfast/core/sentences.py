"""Sentences: what a refusal tells a person or an agent. Who, since when, until when, what next."""

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
    "E_LOCK_CYCLE": "give back what the others wait for, then ask for everything at once",
    "E_LOCK_EXPIRED": "stop writing; take the lock again before you go on",
    "E_LOCK_NOT_HELD": "take the lock first; holdfast status shows who holds what",
    "E_FENCING_MISMATCH": "stop writing: somebody else has taken over; read the files again first",
    "E_LOCK_VIOLATION": "ask for a grant that names every file you will write",
    "E_LOCK_TIMEOUT": "try later, or ask the holder to finish",
}


def duration(microseconds: int) -> str:
    """A length of time as people say it: `45 s`, `12 min`, `3 h 20 min`, `2 days`."""
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
    """One conflict as a sentence."""
    since = duration(now - conflict.since)
    if conflict.kind == "reservation":
        told = f"{conflict.path} is reserved for {conflict.holder}, who has waited for {since}"
    else:
        verb = "read" if conflict.held_mode == READ else "written"
        told = f"{conflict.path} is being {verb} by {conflict.holder} for {since}"
        if conflict.held_path != conflict.path:
            told += f" (as {conflict.held_path})"
        if conflict.until is not None:
            told += f", its lease ends in {duration(conflict.until - now)}"
    return f"{told}: {conflict.reason}" if conflict.reason else told


def conflict_sentences(
    conflicts: Sequence[ConflictInfo], now: int, most: int = 3, *, more: int = 0
) -> str:
    """Some conflicts as sentences; the rest is counted, and those `more` that are not given."""
    told = "; ".join(conflict_sentence(conflict, now) for conflict in conflicts[:most])
    rest = and_more(max(0, len(conflicts) - most), more)
    return f"{told}; {rest}" if rest else told


def and_more(rest: int, more: int) -> str:
    """How many conflicts are not told: the rest of those that are named, and those `more`."""
    if more > CONFLICTS_COUNTED_MAX:
        return f"and more than {CONFLICTS_COUNTED_MAX:,} more"
    return f"and {rest + more:,} more" if rest + more else ""


def circle_sentence(requester: str, circle: Sequence[ConflictInfo]) -> str:
    """The circle, step by step."""
    waiter, steps = requester, []
    for step in circle:
        steps.append(f"{waiter} would wait for {step.holder} ({step.held_path})")
        waiter = step.holder
    return ", ".join(steps)


def refusal_error(refusal: Refusal, *, now: int, requester: str = "") -> HoldfastError:
    """The exception that a refusal becomes."""
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
    """What somebody is told who has waited in vain."""
    told = conflict_sentences(conflicts, now, more=more)
    return LockTimeoutError(
        f"waited {seconds:g} s in vain: {told}" if told else f"waited {seconds:g} s in vain",
        hint=_HINTS["E_LOCK_TIMEOUT"],
        conflicts=tuple(conflicts),
        waited_seconds=seconds,
        **({"more": more} if more else {}),
    )


def raise_verdict(verdict: Verdict) -> None:
    """Raise what a verdict says, if it says no."""
    if not verdict:
        raise error_of(verdict.code)(verdict.reason, hint=_HINTS[verdict.code])
