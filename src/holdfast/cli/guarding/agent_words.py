"""The gate's events about agents, as sentences."""

from __future__ import annotations

from holdfast.cli.printing import listed
from holdfast.gate.rulebook import agent_records, file_states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Data = Mapping[str, Any]


def sentence(type: str, data: Data) -> str:
    """One event as a sentence; empty for an unknown one."""
    phrase = _SENTENCES.get(type)
    return "" if phrase is None else phrase(_who(data), data)


def _who(data: Data) -> str:
    return str(data.get("agent") or data.get("client") or "an agent")


def _files(data: Data) -> str:
    return listed(map(str, data.get("blocked") or data.get("paths") or ["a file"]))


def _heartbeat(who: str, data: Data) -> str:
    seconds = data.get("retry_seconds")
    due = f"; its one retry is due in {seconds:g} s" if isinstance(seconds, int | float) else ""
    stand = ", and waiting would deadlock" if data.get("circle") else ""
    return f"{who} may not write {_files(data)}, which {_owner(data)} holds{stand}{due}"


def _back_in_line(who: str, data: Data) -> str:
    if data.get("circle"):
        return f"{who} may not wait again for {_files(data)}: that would deadlock"
    return f"{who} waits in line again for {_files(data)}"


def _owner(data: Data) -> str:
    return str(data.get("owner") or "another agent")


_OVER = {
    file_states.RETRY_SUCCEEDED: "has what it waited for: its retry succeeded",
    file_states.HANDED_OVER: "has what it waited for: it came free",
    file_states.RETRY_FAILED: "no longer waits: its retry failed",
}


def _over(who: str, data: Data) -> str:
    return f"{who} {_OVER.get(str(data.get('cause')), 'no longer waits')}"


def _handed_over(who: str, data: Data) -> str:
    why = (
        "its retry succeeded"
        if data.get("cause") == file_states.RETRY_SUCCEEDED
        else "it came free"
    )
    return f"{who} was given {_files(data)}: {why}"


def _blocked(who: str, data: Data) -> str:
    report = data.get("report")
    if not isinstance(report, dict):
        return f"{who} is blocked"
    file = report.get("blocked_file") or "a file"
    return f"{who} is blocked and waits for its user: {_owner(report)} holds {file}"


def _resting(who: str, data: Data) -> str:
    if data.get("held_until"):
        return f"{who} has nothing left to do; its stop is delayed"
    seconds = data.get("seconds")
    if not isinstance(seconds, int | float):
        return f"{who} came to rest"
    return f"{who} came to rest: its leases end in {seconds:g} s unless it continues"


def _named(who: str, data: Data) -> str:
    return f"{who} is the name of {data.get('key') or 'an agent'}"


def _limited(who: str, data: Data) -> str:
    return f"{who} cannot be observed by an agent it blocks: its leases end unless it is active"


def _free_over(who: str, data: Data) -> str:
    file = data.get("file") or "a file"
    if data.get("why") == "taken":
        return f"{file}, which blocks {who}, is locked again"
    return f"{file} is no longer kept free for {who}"


def _plain(words: str) -> Callable[[str, Data], str]:
    return lambda who, data: f"{who} {words}"


_SENTENCES: dict[str, Callable[[str, Data], str]] = {
    agent_records.HEARTBEAT: _heartbeat,
    agent_records.CONTENTION_OVER: _over,
    agent_records.STOP_HELD: lambda who, data: f"{who} waits for {_files(data)} before it stops",
    agent_records.BACK_IN_LINE: _back_in_line,
    agent_records.HANDED_OVER: _handed_over,
    agent_records.BLOCKED: _blocked,
    agent_records.RESUMED: lambda who, data: f"{data.get('by') or 'a person'} let {who} continue",
    agent_records.FREE_AGAIN: lambda who, data: (
        f"{data.get('file') or 'a file'}, which blocks {who}, is free again"
    ),
    agent_records.FREE_TOLD: lambda who, data: (
        f"the user was notified that {data.get('file') or 'a file'} is free for {who}"
    ),
    agent_records.FREE_OVER: _free_over,
    agent_records.RESTING: _resting,
    agent_records.AWAKE: _plain("continues"),
    agent_records.PRESENT: _plain("is at work here"),
    agent_records.GONE: _plain("is no longer at work here"),
    agent_records.NAMED: _named,
    agent_records.LIMITED: _limited,
    agent_records.LASTING: _plain("has leases without a time limit again"),
    agent_records.CALLS: _plain("starts a sub-agent"),
    agent_records.STARTED: lambda _who, data: (
        f"{data.get('child') or 'a sub-agent'} was started by {data.get('parent') or 'another'}"
    ),
    agent_records.ENDED: lambda _who, _data: "the start of a sub-agent is complete",
    "coverage_gap": lambda who, data: (
        f"{who} wanted to write {data.get('path') or 'a file'}, which its grant does not cover"
    ),
    "command_refused": lambda who, data: f"{who} was refused a command{_command(data)}",
    "edit_refused": _plain("was refused an edit that would have switched the gate off"),
    "damage_told": lambda who, data: f"{who} was told of damage {data.get('id') or 'to a file'}",
}


def _command(data: Data) -> str:
    return f": `{data['command']}`" if data.get("command") else ""
