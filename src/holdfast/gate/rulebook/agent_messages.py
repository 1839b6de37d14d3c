"""What the gate tells: to the agent that is refused, to its user, and in a report.

Who, since when, what happens next, what to do. An agent does what it reads, so each text also says
what not to do: not to try again and again, not to go round the gate.
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

_NOT_ROUND = "Do not write it in another way."


def denied(wait: Wait, now: int, conflicts: Sequence[ConflictInfo] = (), *, line: int = 0) -> str:
    """For an agent whose edit was refused for now: who, since when, what for, and what next."""
    names = listed(wait.blocked)
    left = duration(wait.retry_at - now) if wait.retry_at > now else "0 s"
    retry = (
        f"The one retry is due in {left} ({iso(wait.retry_at)}); an attempt before that is not "
        "tried."
    )
    if wait.circle:
        path = wait.circle[-1][0]
        return (
            f"Refused: {names} belongs to {wait.owner}, and waiting would never end: "
            f"{_circle(wait.circle)}: commit it, or give it back with `holdfast unlock {path}`. "
            f"{retry} {_NOT_ROUND}"
        )
    if conflicts:
        what = f"Refused: {conflict_sentences(conflicts, now)}."
    else:
        what = f"Refused: {names} has come free, and is kept for you until your retry."
    stand = f" You are number {line} in line for it." if line else ""
    return f"{what}{stand} {retry} Work on something else until then. {_NOT_ROUND}"


def _circle(circle: Sequence[Sequence[str]]) -> str:
    """Who waits for what: from one to the next, and in the end for what the agent itself has."""
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
    """For an agent for whom something came free while it worked on something else. `left` is how
    long it is kept, in microseconds, if it has an end."""
    until = "" if left is None else f", if you do it within {max(1, left // SECOND)} s"
    return (
        f"{listed(paths)} came free and is yours now: what you were refused before can be "
        f"written{until}. Read it again first: it may have changed."
    )


def lapsed(paths: Sequence[str]) -> str:
    """For an agent that did not use what had come free for it."""
    return (
        f"{listed(paths)} came free and was kept for you, but you did not write it in time: it is "
        "not yours any more. To write it, try again."
    )


def go_on(paths: Sequence[str]) -> str:
    """For an agent that was about to stop, and can do what it was refused before."""
    return (
        f"{listed(paths)} came free and is yours now. Read it again, for it may have changed, and "
        "do what you were refused before."
    )


def not_done(agent: str, left: Sequence[str], given_back: Sequence[str]) -> str:
    """For the person whose agent stopped without what it had waited for."""
    said = []
    if left:
        said.append(
            f"holdfast: {agent} stopped, and did not write {listed(left)}: another held it. "
            "Tell it to go on when the file is free: holdfast status"
        )
    if given_back:
        said.append(
            f"holdfast: {agent} stopped, and did not write {listed(given_back)}: it had come free "
            "for the agent, and was given back. Tell it to go on."
        )
    return "\n".join(said)


def changed_elsewhere(found: Sequence[tuple[str, str, str, int]]) -> str:
    """For an agent that begins to change files which other agents are changing in another checkout:
    the file, the other one, its holder and for how long it has been held."""
    lines = [
        f"{name} is changing {path} in another checkout: it has held {other} for {duration(age)}."
        for path, other, name, age in found[:_OTHERS_MAX]
    ]
    more = len(found) - _OTHERS_MAX
    if more > 0:
        lines.append(f"Other agents are changing {more} more of your files elsewhere.")
    return "\n".join([*lines, "You may write here; the two changes will have to be merged."])


def others(found: Sequence[tuple[str, Sequence[str]]]) -> str:
    """For an agent that begins: who else is at work here, and on what."""
    said = [f"{name} ({listed(paths, 3)})" if paths else name for name, paths in found]
    more = len(said) - _OTHERS_MAX
    shown = ", ".join(said[:_OTHERS_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"Also at work in this repository: {shown}. What they hold you cannot write meanwhile."


_OTHERS_MAX = 5


def also_open(name: str, pid: int) -> str:
    """For a session that is open in a second window, and for its user."""
    return (
        f"This session is also open as {name}, in process {pid}. Both windows count as one agent: "
        "nothing keeps one from overwriting what the other writes. Close one of them, or go on in "
        "a fork of the session."
    )


def report(agent: Holder, conflict: ConflictInfo, wait: Wait, now: int) -> dict[str, Any]:
    """The blocker report: everything that somebody needs who has to decide."""
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


def ended_blocked(reports: Sequence[Mapping[str, Any]]) -> str:
    """For whoever started a session that ended while it was blocked."""
    said = "\n".join(facts(report) for report in reports)
    return (
        f"holdfast: {reports[0]['agent']} ended blocked (state={reports[0]['state']}); what it was "
        f"asked to do is not done.\n{said}\n"
        "Start it again when the file is free: holdfast status"
    )


def child_blocked(report: Mapping[str, Any]) -> str:
    """The report on a sub-agent, for the one that had sent it out."""
    return (
        f"Your sub-agent {report['agent']} was stopped, state={report['state']}.\n"
        f"{facts(report)}\n"
        f"What it changed is yours now. Do not write that file in its place: tell your user. The "
        f"user's next prompt, or holdfast resume, lets it be tried again."
    )


def held_outside(path: str, holder: str) -> str:
    """To an agent below a broker that wants what another holds."""
    return (
        f"Refused: {path} is being changed by {holder}. Work on something else, and try again "
        "later; holdfast status says who has what."
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


def not_noted(event: str, what: str, therefore: str) -> str:
    """For the person whose agent lives on, or ends, while the gate itself is in trouble."""
    return (
        f"holdfast: {event} could not be noted ({what}), so {therefore}. Look with: holdfast doctor"
    )


def listed(paths: Sequence[str], most: int = 5) -> str:
    """Some paths by name, and how many more."""
    shown = ", ".join(paths[:most])
    more = len(paths) - most
    return f"{shown} and {more} more" if more > 0 else shown
