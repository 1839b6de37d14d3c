"""What the gate tells: to the agent that is refused, to its user, and in a report.

Who, since when, what happens next, what to do. An agent does what it reads, so each text also says
what not to do: not to try again and again, not to go round the gate.
"""

from __future__ import annotations

from holdfast.core.time import iso
from holdfast.core.words import conflict_sentences, duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.core.model import ConflictInfo, Event, Grant

WAITING_FOR_INSTRUCTION = "waiting_for_instruction"

_NOT_ROUND = "Do not write it in another way."


def denied(
    record: Mapping[str, Any],
    now: int,
    conflicts: Sequence[ConflictInfo] = (),
) -> str:
    """For an agent whose edit was refused for now."""
    names = _listed(record["blocked"])
    left = duration(record["retry_at"] - now)
    at = iso(record["retry_at"])
    circle = record["circle"]
    if circle:
        return (
            f"Refused: {names} belongs to {record['owner']}, and waiting would never end: "
            f"{_circle(circle)}: commit it, or give it back with `holdfast unlock "
            f"{circle[-1][0]}`. The one retry is due in {left} ({at}); an attempt before that is "
            f"not tried. {_NOT_ROUND}"
        )
    if conflicts:
        what = f"Refused: {conflict_sentences(conflicts, now)}."
    else:
        what = (
            f"Refused: {names} belongs to {record['owner']}, as you were told "
            f"{duration(now - record['denied_at'])} ago."
        )
    return (
        f"{what} You stand in line for it. The one retry is due in {left} ({at}); an attempt "
        f"before that is not tried. Work on something else until then. {_NOT_ROUND}"
    )


def _circle(circle: Sequence[Sequence[str]]) -> str:
    """Who waits for what: from one to the next, and in the end for what the agent itself has."""
    said = []
    for number, (path, holder) in enumerate(circle[1:]):
        whose = "your " if number == len(circle) - 2 else f"{holder}'s "
        said.append(f"{circle[number][1]} waits for {whose}{path}")
    return ", ".join(said)


def denied_to_user(record: Mapping[str, Any], agent: str, now: int) -> str:
    """For the person whose agent was refused."""
    since = duration(now - record["since"])
    return (
        f"holdfast: {agent} may not write {_listed(record['blocked'])} now: {record['owner']} has "
        f"held it for {since}. Next attempt at {iso(record['retry_at'])}."
    )


def report(
    agent: str, conflict: ConflictInfo, record: Event, now: int, *, retry_seconds: float
) -> dict[str, Any]:
    """The blocker report: everything that somebody needs who has to decide."""
    return {
        "state": WAITING_FOR_INSTRUCTION,
        "agent": agent,
        "blocked_file": conflict.path,
        "owner": conflict.holder,
        "lock_age_seconds": round((now - conflict.since) / 1_000_000, 3),
        "last_heartbeat": iso(record.at),
        "retry_interval_seconds": retry_seconds,
        "blocked_at": iso(now),
        "paths": list(record.data["paths"]),
    }


def blocked(report: Mapping[str, Any]) -> str:
    """The report in words, for the agent and for its user."""
    return (
        f"Blocked, {report['state'].replace('_', ' ')} (state={report['state']}).\n"
        f"{facts(report)}\n"
        f"Stop here and tell your user. Nothing that you write passes until the user sends a new "
        f"prompt or runs: holdfast resume"
    )


def facts(report: Mapping[str, Any]) -> str:
    """The facts of a report, one to a line."""
    age = duration(round(report["lock_age_seconds"] * 1_000_000))
    return (
        f"  blocked file    {report['blocked_file']}\n"
        f"  owner           {report['owner']}\n"
        f"  lock age        {age}\n"
        f"  last heartbeat  {report['last_heartbeat']}\n"
        f"  retry interval  {report['retry_interval_seconds']:g} s, and the retry failed"
    )


def child_blocked(report: Mapping[str, Any]) -> str:
    """The report on a sub-agent, for the one that had sent it out."""
    return (
        f"Your sub-agent {report['agent']} was stopped, state={report['state']}.\n"
        f"{facts(report)}\n"
        f"What it changed is yours now. Do not write that file in its place: tell your user. The "
        f"user's next prompt, or holdfast resume, lets it be tried again."
    )


def uncovered(path: str, grant: str, why: str) -> str:
    """For an agent that was sent out with a grant which does not cover what it writes."""
    return (
        f"Refused: {path} is not covered by grant {grant} ({why}). This grant cannot grow: finish "
        f"what it covers, and name this file in your result. It has been recorded. {_NOT_ROUND}"
    )


def not_understood(problem: str) -> str:
    """For a call that the gate could not read."""
    return (
        f"Refused: this call could not be understood ({problem or 'no reason'}), so nobody knows "
        "what it would write. Try again in the ordinary form; if it goes on, tell your user to "
        "run: holdfast doctor"
    )


def trouble(what: str, hint: str = "") -> str:
    """For an edit that is refused because the gate itself is in trouble."""
    more = f" {hint[:1].upper()}{hint[1:]}." if hint else ""
    return (
        f"Refused: the gate could not decide: {what}.{more} Nothing was written. "
        "A person can look with: holdfast doctor (or switch the gate off: holdfast off)"
    )


def moved_on(grants: Sequence[Grant]) -> str:
    """What came free with a commit."""
    return _listed([grant.paths[0] for grant in grants])


def _listed(paths: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(paths[:most])
    more = len(paths) - most
    return f"{shown} and {more} more" if more > 0 else shown
