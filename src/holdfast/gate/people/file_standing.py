"""The states of agents towards files at one moment, for people: holders, waiting agents, blocks.

The states are those of `rulebook.file_states`; a free file concerns no agent and is not listed.
`status`, `top`, the page and the metrics show these in the same words.
"""

from __future__ import annotations

from holdfast.core.codec import paths_of
from holdfast.core.conflicts import fate, in_the_way, shown_end
from holdfast.core.draft import LAST, Draft
from holdfast.core.keys import kind
from holdfast.core.ledger_time import iso
from holdfast.core.model import AGENT, READ, SECOND, Ending, Holder, Request, Value
from holdfast.core.sentences import duration
from holdfast.gate.rulebook import agent_records, file_states
from holdfast.gate.rulebook.contention import KEPT, place_in_line
from holdfast.gate.rulebook.unblocking import blockers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any, Final

    from holdfast.core.model import Grant
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_records import AllAgents, Block, Wait

# Details beside the state.
RESTS = "rests"
HANDED = "handed over"
HELD = "stop held"
LIMITED = "limited"
CIRCLE = "circle"
RESERVED = "kept"
FREED = "free"

_SAID = {
    RESTS: "rests",
    HANDED: "handed over, unused",
    HELD: "its stop is held",
    LIMITED: "not judged from here",
    CIRCLE: "in a circle",
    RESERVED: "kept for it",
    FREED: "the file is free now",
}


class Standing(Value):
    """One agent and one file.

    `owner` has the file now; empty if it is free or kept for this agent. `since` is when the state
    began, `retry_at` when the retry is due, `line` the place in line (0 without one), `until` when
    the file comes free by itself. `how` is one of the words above, or empty. `report` is what
    blocked the agent.
    """

    __slots__ = (
        "agent", "file", "how", "key", "line", "owner", "report", "retry_at", "since", "state",
        "until",
    )  # fmt: skip

    def __init__(
        self,
        agent: str,
        key: str,
        file: str,
        state: str,
        *,
        owner: str,
        since: int,
        retry_at: int | None = None,
        line: int = 0,
        until: int | None = None,
        how: str = "",
        report: Mapping[str, Any] | None = None,
    ) -> None:
        self.agent: Final = agent
        self.key: Final = key
        self.file: Final = file
        self.state: Final = state
        self.owner: Final = owner
        self.since: Final = since
        self.retry_at: Final = retry_at
        self.line: Final = line
        self.until: Final = until
        self.how: Final = how
        self.report: Final = None if report is None else dict(report)

    @property
    def said(self) -> str:
        """The state in words, without what depends on the moment."""
        blocked = "waits for its user" if self.state == file_states.BLOCKED else ""
        parts = (file_states.WORDS[self.state], blocked, _SAID.get(self.how, ""))
        return ", ".join(filter(None, parts))

    def words(self, now: int) -> str:
        """The state in words, as it is at this moment."""
        if self.retry_at is not None:
            late = now - self.retry_at
            then = f"overdue for {countdown(late)}" if late >= 0 else f"due in {countdown(-late)}"
            return f"{self.said}, {then}"
        if self.until is not None:
            return f"{self.said}, free in {countdown(self.until - now)}"
        return self.said

    def is_overdue(self, now: int) -> bool:
        """Whether the retry is due and has not been made."""
        return self.retry_at is not None and now >= self.retry_at

    def to_data(self, now: int) -> dict[str, Any]:
        """For other programs: times in ISO 8601."""
        return {
            "agent": self.agent, "key": self.key, "file": self.file, "state": self.state,
            "said": self.said, "words": self.words(now), "how": self.how, "owner": self.owner,
            "since": iso(self.since),
            "retry_at": None if self.retry_at is None else iso(self.retry_at),
            "line": self.line, "until": None if self.until is None else iso(self.until),
            "report": self.report,
        }  # fmt: skip


def countdown(microseconds: int) -> str:
    """A length of time to the second, as long as seconds matter: `45 s`, `2 min 10 s`."""
    minutes, seconds = divmod(max(0, microseconds) // SECOND, 60)
    if minutes == 0:
        return f"{seconds} s"
    if minutes >= 60:
        return duration(microseconds)
    return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"


def standings(view: View, grants: Iterable[Grant] | None = None) -> list[Standing]:
    """The state of each agent towards each file that concerns it. `grants` are the live ones, if
    the caller knows them already."""
    draft = Draft(view)
    if grants is None:
        grants = [grant for grant in view.grants() if not fate(draft, grant)]
    all_agents = agent_records.all_agents(view)
    waits = [wait for wait in all_agents.waits if _is_waited_for(draft, all_agents, wait)]
    tickets = {wait.ticket: wait for wait in waits if wait.ticket}
    owned = [grant for grant in grants if grant.holder.key[:1] == AGENT]
    kept = {grant.id for grant in owned if _is_kept(grant, tickets.get(grant.id))}
    given = {grant.id for grant in owned} - kept
    unused = {wait.ticket for wait in all_agents.waits}
    found: list[Standing] = []
    for grant in owned:
        if grant.id in given:
            found += _owned(draft, all_agents, grant, is_unused=grant.id in unused)
    for wait in waits:
        if wait.ticket not in given:
            found += _waiting(view, all_agents, wait, kept)
    found += [_blocked(view, block) for block in all_agents.blocks]
    return found


def _is_waited_for(draft: Draft, all_agents: AllAgents, wait: Wait) -> bool:
    """Whether the agent of a wait is alive, and still waits for its files."""
    presence = all_agents.present.get(wait.key)
    if wait.handed or (presence is not None and draft.is_dead(presence.witness) is True):
        return False
    # A file that was handed over and has lapsed before the retry is no longer waited for.
    given = draft.grant(wait.ticket) if wait.ticket else None
    has_lapsed = isinstance(given, Ending) or (given is not None and bool(fate(draft, given)))
    return not has_lapsed or draft.now >= wait.retry_at


def _is_kept(grant: Grant, wait: Wait | None) -> bool:
    """Whether a file has come free for an agent that gets it only at its retry (`wake = false`)."""
    return (
        wait is not None
        and not wait.handed
        and grant.ttl == round(wait.retry_seconds * SECOND) + KEPT
    )


def _owned(
    draft: Draft, all_agents: AllAgents, grant: Grant, *, is_unused: bool
) -> Iterator[Standing]:
    holder = grant.holder
    how, until = "", shown_end(draft, grant)
    if is_unused:
        how = HANDED
    elif _stops(all_agents, holder.key, draft.now):
        how, until = HELD, None
    elif grant.idle_at is not None:
        how, until = RESTS, grant.idle_at
    elif until is not None and grant.ttl is None:
        how = LIMITED
    for file in _files(grant):
        yield Standing(
            holder.id, holder.key, file, file_states.OWNED, owner=holder.id,
            since=grant.acquired_at,
            until=until, how=how,
        )  # fmt: skip


def _stops(all_agents: AllAgents, key: str, now: int) -> bool:
    """Whether an agent's stop is being held open."""
    rest = all_agents.rests.get(key)
    return rest is not None and rest.held_until > now


def _files(grant: Grant) -> Iterable[str]:
    """The files that a lease lets its owner write."""
    covered = zip(grant.keys, grant.modes, grant.paths, strict=True)
    return dict.fromkeys(
        path for key, mode, path in covered if mode != READ and kind(key) == "path"
    )


def _waiting(view: View, all_agents: AllAgents, wait: Wait, kept: set[str]) -> Iterator[Standing]:
    draft = Draft(view)  # of its own: looking ends what it finds dead, and we only look
    ticket = draft.ticket(wait.ticket) if wait.ticket else None
    line = 0 if ticket is None else place_in_line(draft, ticket)
    owners: dict[str, str] = {}
    how = CIRCLE if wait.circle else HELD if _stops(all_agents, wait.key, view.now) else ""
    if wait.ticket in kept:
        how = RESERVED
    else:
        wanted = _request(wait.agent, wait.key, wait.keys)
        request = wanted if ticket is None else ticket.request
        arrival = LAST if ticket is None else ticket.arrival
        for conflict in in_the_way(draft, request, arrival):
            owners.setdefault(conflict.path, conflict.holder)
    for file in wait.paths:
        yield Standing(
            wait.agent, wait.key, file, file_states.RETRY_PENDING, owner=owners.get(file, ""),
            since=wait.denied_at, retry_at=wait.retry_at, line=line, how=how,
        )  # fmt: skip


def _request(agent: str, key: str, keys: tuple[str, ...]) -> Request:
    """The request of an agent without a place in the queue."""
    return Request(
        id="", holder=Holder(id=agent, key=key), keys=keys, modes="w" * len(keys),
        paths=paths_of(keys),
    )  # fmt: skip


def _blocked(view: View, block: Block) -> Standing:
    """The standing of a blocked agent, with the present owner; the report has the old one."""
    found = blockers(Draft(view), block)
    return Standing(
        block.agent, block.key, block.file, file_states.BLOCKED,
        owner=found[0].holder if found else "",
        since=block.at, how="" if found else FREED, report=block.report,
    )  # fmt: skip
