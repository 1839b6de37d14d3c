"""The gate's messages: to the agent that is refused, to its user, and in a report.

Each names the holder, since when, what happens next and what to do. An agent follows what it reads,
so each text also forbids what it must not do: retry again and again, or work around the lock.
"""

from __future__ import annotations

from holdfast.core.ledger_time import iso
from holdfast.core.model import SECOND
from holdfast.core.sentences import conflict_sentences, duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from holdfast.core.model import ConflictInfo, Holder
    from holdfast.gate.rulebook.agent_records import Wait

WAITING_FOR_INSTRUCTION = "waiting_for_instruction"

_NO_WORKAROUND = "Do not work around this lock."


def denied(wait: Wait, now: int, conflicts: Sequence[ConflictInfo] = (), *, line: int = 0) -> str:
    """For an agent whose edit was refused for now: the holder, since when, why, and what next."""
    names = listed(wait.blocked)
    left = duration(wait.retry_at - now) if wait.retry_at > now else "0 s"
    retry = f"The one retry is due in {left} ({iso(wait.retry_at)}); earlier retries are refused."
    if wait.circle:
        path = wait.circle[-1][0]
        return (
            f"Refused: {names} is held by {wait.owner}, and waiting for it would deadlock: "
            f"{_circle(wait.circle)}. Commit that file, or release it with "
            f"`holdfast unlock {path}`. {retry} {_NO_WORKAROUND}"
        )
    if conflicts:
        what = f"Refused: {conflict_sentences(conflicts, now)}."
    else:
        what = f"Refused: {names} is free now and reserved for you until your retry."
    stand = f" You are number {line} in line for it." if line else ""
    return f"{what}{stand} {retry} Work on something else until then. {_NO_WORKAROUND}"


def _circle(circle: Sequence[Sequence[str]]) -> str:
    """The cycle: each agent waits for a file of the next, the last one for a file of this agent."""
    said = []
    for number, (path, holder) in enumerate(circle[1:]):
        whose = "your " if number == len(circle) - 2 else f"{holder}'s "
        said.append(f"{circle[number][1]} waits for {whose}{path}")
    return ", ".join(said)


def denied_to_user(wait: Wait, agent: str, now: int, conflicts: Sequence[ConflictInfo] = ()) -> str:
    """For the person whose agent was refused."""
    owner, since = wait.owner, wait.since
    if conflicts:
        owner, since = conflicts[0].holder, conflicts[0].since
    return (
        f"holdfast: {agent} may not write {listed(wait.blocked)} now: {owner} has held it for "
        f"{duration(now - since)}. Next attempt at {iso(wait.retry_at)}."
    )


def came(paths: Sequence[str], left: int | None) -> str:
    """For an agent whose files came free while it worked on something else. `left` is how long
    they are reserved for it, in microseconds; None if without limit."""
    until = "" if left is None else f" within {max(1, left // SECOND)} s"
    return (
        f"{listed(paths)} came free and is yours now: make the edit that was refused{until}. "
        "Read it again first: it may have changed."
    )


def lapsed(paths: Sequence[str]) -> str:
    """For an agent that did not use in time the files that had come free for it."""
    return (
        f"{listed(paths)} came free and was reserved for you, but you did not write it in time: "
        "it is not yours any more. To write it, try again."
    )


def go_on(paths: Sequence[str]) -> str:
    """For an agent that was about to stop, and can now make the edit that was refused."""
    return (
        f"{listed(paths)} came free and is yours now. Read it again, for it may have changed, and "
        "make the edit that was refused."
    )


def not_done(agent: str, left: Sequence[str], given_back: Sequence[str]) -> str:
    """For the person whose agent stopped without making an edit that it had waited for."""
    said = []
    if left:
        said.append(
            f"holdfast: {agent} stopped and did not write {listed(left)}: another agent held it. "
            "Tell it to continue when the file is free: holdfast status"
        )
    if given_back:
        said.append(
            f"holdfast: {agent} stopped and did not write {listed(given_back)}: it had come free "
            "for the agent, and was released. Tell it to continue."
        )
    return "\n".join(said)


def changed_elsewhere(found: Sequence[tuple[str, str, str, int]]) -> str:
    """For an agent that begins to change files which other agents are changing in another checkout.
    Each is given as the file, its path there, its holder, and for how long it has been held."""
    lines = [
        f"{name} is changing {path} in another checkout: it has held {other} for {duration(age)}."
        for path, other, name, age in found[:_OTHERS_MAX]
    ]
    more = len(found) - _OTHERS_MAX
    if more > 0:
        lines.append(f"Other agents are changing {more} more of your files elsewhere.")
    return "\n".join([*lines, "You may write here; the two changes will have to be merged."])


def others(found: Sequence[tuple[str, Sequence[str]]]) -> str:
    """For an agent that starts: the other agents at work here, and their files."""
    said = [f"{name} ({listed(paths, 3)})" if paths else name for name, paths in found]
    more = len(said) - _OTHERS_MAX
    shown = ", ".join(said[:_OTHERS_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"Also at work in this repository: {shown}. You cannot write the files they hold."


_OTHERS_MAX = 5


def also_open(name: str, pid: int) -> str:
    """For a session that is open in a second window, and for its user."""
    return (
        f"This session is also open as {name}, in process {pid}. Both windows count as one agent: "
        "nothing stops one from overwriting the other's changes. Close one of them, or continue "
        "in a fork of the session."
    )


def report(agent: Holder, conflict: ConflictInfo, wait: Wait, now: int) -> dict[str, Any]:
    """The blocker report: everything that the person who decides needs to know."""
    return {
        "state": WAITING_FOR_INSTRUCTION,
        "agent": agent.id,
        "agent_key": agent.key,
        "session": agent.session,
        "blocked_file": conflict.path,
        "owner": conflict.holder,
        "owner_key": conflict.holder_key,
        "lock_age_seconds": round((now - conflict.since) / 1_000_000, 3),
        "last_heartbeat": iso(wait.denied_at),
        "retry_interval_seconds": wait.retry_seconds,
        "blocked_at": iso(now),
        "paths": list(wait.paths),
    }


def blocked(report: Mapping[str, Any]) -> str:
    """The report in words, for the agent and for its user."""
    return (
        f"Blocked, {report['state'].replace('_', ' ')} (state={report['state']}).\n"
        f"{facts(report)}\n"
        f"Stop here and tell your user. Every edit of yours is refused until the user sends a new "
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


def ended_blocked(reports: Sequence[Mapping[str, Any]]) -> str:
    """For the person or program that started a session which ended while it was blocked."""
    said = "\n".join(facts(report) for report in reports)
    return (
        f"holdfast: {reports[0]['agent']} ended blocked (state={reports[0]['state']}); its task is "
        f"not finished.\n{said}\n"
        "Start it again when the file is free: holdfast status"
    )


def child_blocked(report: Mapping[str, Any]) -> str:
    """The report on a sub-agent, for the agent that had started it."""
    return (
        f"Your sub-agent {report['agent']} was stopped, state={report['state']}.\n"
        f"{facts(report)}\n"
        f"The files it changed are yours now. Do not write the blocked file in its place: tell "
        f"your user. The user's next prompt, or holdfast resume, allows another attempt."
    )


def held_outside(path: str, holder: str) -> str:
    """For an agent below a broker whose write another holder's lock refused."""
    return (
        f"Refused: {path} is locked for writing by {holder}. Work on something else and try again "
        "later; holdfast status lists the holders."
    )


def uncovered(path: str, grant: str, why: str) -> str:
    """For an agent that was started under a grant which does not cover a file that it writes."""
    return (
        f"Refused: {path} is not covered by grant {grant} ({why}). The grant cannot be extended: "
        f"finish the files it covers, and name this one in your result. The gap has been recorded. "
        f"{_NO_WORKAROUND}"
    )


def not_understood(problem: str) -> str:
    """For a call that the gate could not read."""
    return (
        f"Refused: the gate could not parse this call ({problem or 'no reason'}), so it cannot "
        "tell which files the call would write. Retry in the usual form; if that is refused too, "
        "tell your user to run: holdfast doctor"
    )


def trouble(what: str, hint: str = "") -> str:
    """For an edit that is refused because the gate itself has failed."""
    more = f" {hint[:1].upper()}{hint[1:]}." if hint else ""
    return (
        f"Refused: the gate could not decide: {what}.{more} Nothing was written. "
        "Your user can diagnose it with: holdfast doctor (or switch the gate off: holdfast off)"
    )


def not_noted(event: str, what: str, therefore: str) -> str:
    """For the person whose agent continues, or ends, although the gate itself has failed."""
    return (
        f"holdfast: {event} could not be recorded ({what}), so {therefore}. "
        "Diagnose it with: holdfast doctor"
    )


def listed(paths: Sequence[str], most: int = 5) -> str:
    """The first paths by name, and the number of the rest."""
    shown = ", ".join(paths[:most])
    more = len(paths) - most
    return f"{shown} and {more} more" if more > 0 else shown
