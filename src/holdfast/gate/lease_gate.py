"""The lease gate: an agent holds a file before it writes it, without calling any lock command.

Each file that an agent writes has a lease of its own, which lasts as long as its owner. A free file
is leased, the agent's own lease is kept, and the file of another live agent is refused:

    refused         a heartbeat is written, with the time of the one retry (180 s later, exactly);
                    the agent joins the queue, and its call is held open for a moment
    in between      the agent works on something else; each attempt is answered from that record
    it comes free   the file is the agent's immediately, and its next event tells it so
    stop            held open until the file comes free, or the retry is made
    blocked         the retry failed: the agent is stopped, a report names the owner and since when,
                    and every edit is refused until a person lets the agent continue

The decisions are in `gate.rulebook`. This module gathers the facts, makes one transaction for each
event, holds calls open, and puts the outcome into words. The records of an agent beside its leases
are notes in the ledger, so no process has to run.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core.model import AGENT, SECOND, Grant
from holdfast.gate import pending_writes
from holdfast.gate.config.settings import REFUSE, TELL
from holdfast.gate.file_stamps import stamp_of, stamps_at
from holdfast.gate.intent import (
    ALLOW,
    DENY,
    HALT,
    QUIET,
    Answer,
    leads_into_spec,
)
from holdfast.gate.rulebook import agent_records, event_decisions
from holdfast.gate.rulebook.agent_life import FOR_EDIT, FOR_NEXT_EDIT
from holdfast.gate.rulebook.display_names import session_key
from holdfast.gate.rulebook.outcomes import Asker, Denied, Halted, Leased, Passed, Seen
from holdfast.manager import transactions
from holdfast.manager.ids import new_id
from holdfast.manager.owners.liveness import is_outermost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.core.draft import Draft
    from holdfast.core.model import Decision, Holder, Request
    from holdfast.core.view import View
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.held_stops import Follower, Stop
    from holdfast.gate.rulebook.agent_records import Presence
    from holdfast.manager.files.paths import Place
    from holdfast.manager.ledger import Ledger

#: How long one decision may take, however busy other processes keep the ledger.
STORE_SECONDS = 8.0
#: A hook that holds a call or a stop open makes its last decision this long before its deadline.
SPARE_SECONDS = 2.0
#: How many grants are examined for people who are at work here.
PEOPLE_AMONG = 200


def _for_ever() -> float:
    return float("inf")


def _nowhere() -> str:
    return ""


class LeaseGate:
    """The gate of one repository, for one event of one agent."""

    __slots__ = (
        "_earlier", "_has_kept", "_left", "_pause", "_settings", "asker", "holder", "manager",
        "wanted",
    )  # fmt: skip

    def __init__(
        self,
        manager: Ledger,
        holder: Holder,
        settings: Settings,
        *,
        place: Callable[[], str] = _nowhere,
        left: Callable[[], float] = _for_ever,
        pause: Callable[[float, Any], bool] | None = None,
        hears: bool = True,
    ) -> None:
        """`place` returns where a person finds the agent; `left` the seconds until the answer is
        due. `pause` waits so many seconds, or until an event is written to the ledger; without it
        nothing is held open. `hears`: the agent reads the answer's `context`."""
        self.manager = manager
        self.holder = holder
        self._settings = settings
        self._left = left
        self._pause = pause
        self.asker = Asker(
            holder,
            place=place,
            new_id=new_id,
            retry_seconds=settings.retry_seconds,
            idle=round(settings.idle_seconds * SECOND),
            foreign=round(settings.foreign_seconds * SECOND),
            wake=settings.wake,
            hears=hears,
            is_writing=lambda key, keys: pending_writes.is_writing(self._root, key, keys),
        )
        #: Decisions made while the call was held open, and not reported yet.
        self._earlier: list[Denied] = []
        #: Whether the last decision left leases that have to be renewed, and no process does it.
        self._has_kept = False
        #: The requests; a new lease has the id of its request.
        self.wanted: list[Request] = []

    @property
    def _root(self) -> str:
        return self.manager.tree.root if self.manager.tree is not None else ""

    def also(self, part: Callable[[Draft, Holder], None]) -> None:
        """Decide this with the event, in the same transaction."""
        self.asker = self.asker.but(also=(*self.asker.also, part))

    def limit(self, ids: Sequence[str]) -> None:
        """This agent is refused for these leases: give an end to those whose owners cannot be
        judged from here, in the same transaction."""
        from holdfast.gate.rulebook import lease_limits

        length = self.asker.foreign
        self.also(lambda draft, _holder: lease_limits.limit(draft, ids, length))

    def introduce(self) -> Holder:
        """The agent under the name that it has, or will get with its first decision."""
        self.holder = transactions.look(
            self.manager, lambda view: event_decisions.introduced(view, self.asker)
        )
        return self.holder

    def decide(self, rule: Callable[[View], Decision[Any]]) -> Any:
        """Make one transaction, and notify people of the changes that concern them."""
        self._receive()
        rule = self._watched(rule)
        end = monotonic() + min(STORE_SECONDS, self._left())
        if self._settings.notify:
            from holdfast.gate.people.notices import decide_and_tell

            outcome = decide_and_tell(self.manager, rule, end, self._settings.notify)
        else:
            outcome = transactions.decide(self.manager, rule, end)
        if self.asker.also:
            self.asker = self.asker.but(also=())
        self._keep_leases()
        return outcome

    def _receive(self) -> None:
        """Another host may have given the agent a file that it waits for, and has not used yet. The
        unfinished edits of dead owners in this checkout are undone before it does."""
        if self.manager.store.lease is None:
            return
        from holdfast.manager.files.unfinished_edits import has_keepsakes

        if not has_keepsakes(self._root):
            return
        from holdfast.manager.files.ended_edits import entrust

        key = self.holder.key

        def handed(view: View) -> list[Grant]:
            known = agent_records.known(view, key)
            paths = {path for wait in (*known.waits, *known.handed) for path in wait.paths}
            return [grant for grant in view.held_by(key) if not paths.isdisjoint(grant.paths)]

        for grant in transactions.look(self.manager, handed):
            entrust(self.manager, grant)

    def _decide_if_needed(self, rule: Callable[[View], Decision[Any]]) -> Any:
        """The same, without blocking other processes when there is nothing to write."""
        end = monotonic() + min(STORE_SECONDS, self._left())
        found = transactions.look(self.manager, self._watched(rule), end)
        if found.events:
            return self.decide(rule)
        self._keep_leases()
        return found.outcome

    def _watched(self, rule: Callable[[View], Decision[Any]]) -> Callable[[View], Decision[Any]]:
        """The same rule. Where leases have to be renewed and no process does it, it notes whether
        the session has any afterwards."""
        self._has_kept = False
        witness = self.holder.witness
        if self.manager.store.lease is None or witness is None:
            return rule
        from holdfast.gate import client_keeper

        start = session_key(self.holder)
        if client_keeper.is_running(self._root, start, witness):
            return rule

        def noting(view: View) -> Decision[Any]:
            decision = rule(view)
            self._has_kept = client_keeper.leaves_some(view, decision, start)
            return decision

        return noting

    def _keep_leases(self) -> None:
        """Start a keeper if the last decision has left something to keep."""
        if self._has_kept:
            self._has_kept = False
            self._start_keeper()

    def _keep(self, passed: Passed) -> None:
        """Start a keeper if others cannot tell whether this agent is alive."""
        if passed.is_limited:
            self._start_keeper()

    def keep_through_command(self) -> None:
        """Start a keeper before a command, which may run for long without an event, if another
        agent may be here that cannot tell whether this one is alive."""
        own = self.holder.witness
        if own is None or self.manager.store.lease is not None:  # then every decision starts one
            return

        def may_be_foreign(view: View) -> bool:
            others = (one.witness for one in agent_records.present(view))
            here = (own.host, own.namespace)
            return any(one is not None and (one.host, one.namespace) != here for one in others)

        if not is_outermost(own) or transactions.look(self.manager, may_be_foreign):
            self._start_keeper()

    def _start_keeper(self) -> None:
        if self.holder.witness is None:
            return
        from holdfast.gate import client_keeper

        client_keeper.start(
            self._root, session_key(self.holder), self.holder.witness,
            self._settings.foreign_seconds, self.manager.store,
        )  # fmt: skip

    # Before a write

    def permit(self, paths: Sequence[str | Place], *, is_edit: bool = False) -> Answer:
        """Lease these files to the agent, all of them or none. Without a file: whether the agent is
        blocked. `is_edit`: its edit tool is about to write them, and until that is done no lease on
        them is released or passes to another agent of its session."""
        wanted = self.requests(paths)
        if not wanted:
            return self.blocked() or Answer(QUIET)
        if not is_edit:
            return self._permit(wanted, paths)
        pending_writes.begin_edit(
            self._root, self.holder.key, (key for one in wanted for key in one.keys)
        )
        answer = None
        try:
            answer = self._permit(wanted, paths)
        finally:
            if answer is None or answer.kind != ALLOW:
                pending_writes.end(self._root, self.holder.key)
        return answer

    def _permit(self, wanted: list[Request], paths: Sequence[str | Place]) -> Answer:
        locked = self._locked_spec(wanted)
        if locked is not None:
            return locked
        self.wanted = wanted
        self._settle(wanted)
        outcome = self.decide(lambda view: event_decisions.edit(view, self.asker, wanted))
        if isinstance(outcome, Denied) and self._may_hold(outcome):
            later = self._wait(outcome, paths)
            # A second window of the session has continued: the first refusal stands.
            is_over = later is not None or self._client_is_gone()
            outcome = later if is_over else outcome
        if isinstance(outcome, Passed):
            self._keep(outcome)
            mine = {path for request in wanted for path in request.paths}
            told = self.told(outcome.came, outcome.lapsed, mine)
            return Answer(ALLOW, context=f"{told}\n{self._changed_elsewhere()}".strip())
        return self._refused(outcome)

    def write(self, places: Sequence[Place], *, is_left: bool = False) -> Any:
        """Lease these files to a command of the agent, all of them or none. Returns the outcome of
        `event_decisions.write`; nothing is held open."""
        self.wanted = wanted = self.requests(places)
        self._settle(wanted)
        outcome = self.decide(
            lambda view: event_decisions.write(view, self.asker, wanted, is_left=is_left)
        )
        if isinstance(outcome, Leased) and outcome.is_limited:
            self._start_keeper()
        return outcome

    def locked_spec(self, places: Sequence[Place]) -> Answer | None:
        """The refusal of files in a spec that another holder has locked."""
        inside = [place.real for place in places if leads_into_spec(place.path)]
        if not inside or self.manager.tree is None:
            return None
        from holdfast.gate import locked_specs

        return locked_specs.refusal(self.introduce(), inside)

    def _changed_elsewhere(self) -> str:
        """The message about other checkouts in which the agent's files are being changed too."""
        folders = (f"{self._root}/.git/worktrees", f"{self._root}/worktrees")
        if self._settings.across_worktrees != TELL or not any(map(os.path.lexists, folders)):
            return ""
        from holdfast.gate.other_checkouts import told

        return told(self.manager, self.holder, self.wanted)

    def requests(self, paths: Sequence[str | Place]) -> list[Request]:
        """A request for each file, with its present stamp; each path is looked up once."""
        places: dict[str, Place] = {}
        for path in paths:
            place = self.manager.place(path) if isinstance(path, str) else path
            places.setdefault(place.key, place)
        wanted = [
            transactions.request_at(
                self.holder, place, reason=FOR_EDIT, stamp=stamp_of(place.status)
            )
            for place in places.values()
        ]
        if self._settings.across_worktrees != REFUSE:
            return wanted
        from holdfast.gate.other_checkouts import everywhere

        return [everywhere(self._root, request) for request in wanted]

    def _locked_spec(self, wanted: list[Request]) -> Answer | None:
        """The refusal of requests for files in a spec that another holder has locked."""
        inside = [key for one in wanted if leads_into_spec(key := one.keys[0])]
        if not inside or self.manager.tree is None:
            return None
        from holdfast.gate import locked_specs

        return locked_specs.refusal(self.introduce(), [f"{self._root}/{key}" for key in inside])

    def _settle(self, wanted: list[Request]) -> None:
        """Restore the unfinished edits of dead owners before an agent is refused for them."""
        from holdfast.manager.files.unfinished_edits import has_keepsakes, settles

        if not has_keepsakes(self._root):
            return
        for request in wanted:
            settles(self.manager, transactions.conflicts_of(self.manager, request))

    # Waiting

    def _may_hold(self, denied: Denied) -> bool:
        return (
            self._pause is not None
            and self._settings.wake
            and self._settings.hold_seconds > 0
            and denied.line > 0
            and self.hold_seconds > 0
        )

    @property
    def hold_seconds(self) -> float:
        """For how many seconds from now a call can be held open, at most."""
        return self._left() - SPARE_SECONDS if self._pause is not None else 0.0

    def at_most(self, seconds: float) -> float:
        """So many seconds, or those that are left before the last decision."""
        return max(0.0, min(seconds, self._left() - SPARE_SECONDS))

    def _wait(self, denied: Denied, paths: Sequence[str | Place]) -> Any:
        """Hold the call open for a moment: a file that comes free meanwhile is the agent's, as its
        owner has left it."""
        id = denied.wait.id
        until = self.manager.now() + round(
            min(self.hold_seconds, self._settings.hold_seconds) * SECOND
        )
        texts = [path if isinstance(path, str) else path.real or path.path for path in paths]

        def now() -> Callable[[View], Decision[Any]]:
            self.wanted = wanted = self.requests(texts)
            return lambda view: event_decisions.wait_on(view, self.asker, wanted, id)

        return self._held_open(denied, now, min(until, denied.wait.retry_at))

    def _held_open(self, denied: Denied, rule: Callable[[], Any], until: int) -> Any:
        """Wait until a decision is no longer a refusal; None if the client is gone."""
        outcome: Any = denied
        from holdfast.gate.held_stops import LOOK_SECONDS, Follower

        follower = Follower(self.manager)
        while (left := until - self.manager.now()) > 0 and isinstance(outcome, Denied):
            if self.hold_seconds <= 0:  # the ledger's clock differs from the client's
                break
            self._earlier.append(outcome)
            outcome = self.a_moment_later(follower, min(left / SECOND, LOOK_SECONDS), rule)
        return outcome

    def a_moment_later(
        self, follower: Follower, seconds: float, rule: Callable[[], Callable[[View], Any]]
    ) -> Any:
        """The decision after so many seconds, or after the next event in the ledger if that comes
        first; None if the client is gone."""
        assert self._pause is not None
        self._pause(seconds, follower)
        if self._client_is_gone():
            self.decide(lambda view: event_decisions.leave(view, self.asker))
            return None
        decide = rule()
        follower.catch_up()
        return self._decide_if_needed(decide)

    def _client_is_gone(self) -> bool:
        witness = self.holder.witness
        if witness is None:
            return False
        return bool(transactions.look(self.manager, lambda view: view.dead(witness, ())))

    # In words

    def _refused(self, outcome: Denied | Halted | None) -> Answer:
        from holdfast.gate.rulebook import agent_messages

        if outcome is None:
            return Answer(DENY, agent_messages.trouble("the client of this call is gone"))
        if isinstance(outcome, Halted):
            return self.halted(outcome)
        denied = outcome
        now = self.manager.now()
        return Answer(
            DENY,
            agent_messages.denied(denied.wait, now, denied.conflicts, line=denied.line),
            user=agent_messages.denied_to_user(
                denied.wait, denied.holder.id, now, denied.conflicts
            ),
            context=self.told(denied.came, denied.lapsed, set(denied.wait.blocked)),
        )

    def halted(self, halted: Halted) -> Answer:
        """The answer to an agent that may write nothing."""
        from holdfast.gate.rulebook import agent_messages

        self.look_out()
        report, told = halted.block.report, agent_messages.blocked(halted.block.report)
        return Answer(HALT, told, user=told, context=self.told((), halted.lapsed), report=report)

    def look_out(self) -> None:
        """An agent is blocked: start the lookout that notifies people when it can continue, unless
        there is one."""
        if self._settings.notify:
            from holdfast.gate.people.notices import look_out

            look_out(self._root)

    def told(
        self,
        came: Sequence[str],
        lapsed: Sequence[str] = (),
        known: set[str] | frozenset[str] = frozenset(),
    ) -> str:
        """The message about files that came free for the agent meanwhile, and files that it has
        lost."""
        earlier = self._earlier
        lapsed = [*(path for one in earlier for path in one.lapsed), *lapsed]
        came = [*(path for one in earlier for path in one.came), *came]
        lapsed = [path for path in dict.fromkeys(lapsed) if path not in known]
        came = [path for path in dict.fromkeys(came) if path not in {*known, *lapsed}]
        if not (came or lapsed):
            return ""
        from holdfast.gate.rulebook import agent_messages

        said = [agent_messages.came(came, self._kept(came))] if came else []
        return "\n".join([*said, *([agent_messages.lapsed(lapsed)] if lapsed else ())])

    def _kept(self, came: Sequence[str]) -> int | None:
        """How long files that came free stay reserved for the agent; None if without limit."""

        def left(view: View) -> list[int]:
            return [
                grant.expires_at - view.now
                for grant in view.held_by(self.holder.key)
                if grant.expires_at is not None
                and grant.reason == FOR_NEXT_EDIT
                and not set(came).isdisjoint(grant.paths)
            ]

        return min(transactions.look(self.manager, left), default=None)

    def blocked(self) -> Answer | None:
        """The answer to any write, if the agent may write nothing; else None."""
        from holdfast.gate.rulebook import agent_family

        block = transactions.look(
            self.manager, lambda view: agent_family.block_of(view, self.holder)
        )
        return None if block is None else self.halted(Halted(self.holder, block))

    # The turns of a life

    def live_on(self, *, is_tail: bool = False) -> Answer:
        """An event showed that the agent is at work, or (`is_tail`) that earlier work of it
        ended."""
        return self._lived(lambda view: event_decisions.live_on(view, self.asker, is_tail=is_tail))

    def agent_call(self) -> Answer:
        """The agent is about to start a sub-agent."""
        return self._lived(lambda view: event_decisions.agent_call(view, self.asker))

    def agent_start(self) -> Answer:
        """The agent is a sub-agent that has started."""
        return self._lived(lambda view: event_decisions.agent_start(view, self.asker))

    def _lived(self, rule: Callable[[View], Decision[Any]]) -> Answer:
        passed = self._decide_if_needed(rule)
        if isinstance(passed, Halted):
            return self.halted(passed)
        self._keep(passed)
        return Answer(QUIET, context=self.told(passed.came, passed.lapsed))

    def prompt(self) -> Answer:
        """The user spoke: the session's blocked agents may continue."""
        passed, _resumed = self._decide_if_needed(
            lambda view: event_decisions.prompt(view, self.asker)
        )
        self._keep(passed)
        return Answer(QUIET, context=self.told(passed.came, passed.lapsed))

    def session_start(self) -> Answer:
        """The session begins, or continues: it hears which agents are at work here, and on which
        files."""
        passed, others, elsewhere = self.decide(
            lambda view: event_decisions.session_start(view, self.asker)
        )
        self._keep(passed)
        context = self.told(passed.came, passed.lapsed)
        at_work = transactions.look(self.manager, lambda view: _at_work(view, others))
        if not (at_work or elsewhere):
            return Answer(QUIET, context=context)
        from holdfast.gate.rulebook import agent_messages

        if at_work:
            context = f"{agent_messages.others(at_work)}\n{context}".strip()
        if elsewhere is None:
            return Answer(QUIET, context=context)
        twice = agent_messages.also_open(elsewhere.shown, elsewhere.witness.pid)
        return Answer(QUIET, user=f"holdfast: {twice}", context=f"{twice}\n{context}".strip())

    def stop(self, *, may_go_on: bool = False, is_alone: bool = False) -> Stop:
        """The agent has nothing more to do, but may have files to wait for. `is_alone`: none of its
        sub-agents is at work."""
        return self.stopped(may_go_on=may_go_on, ends=False, is_alone=is_alone)

    def end_agent(self, *, may_go_on: bool = False) -> Stop:
        """A sub-agent has nothing more to do, and ends."""
        return self.stopped(may_go_on=may_go_on, ends=True)

    def stopped(self, *, may_go_on: bool, ends: bool, is_alone: bool = False) -> Stop:
        """Decide a stop, which may be held open."""
        from holdfast.gate.held_stops import Stop

        seen = self.seen()
        hold = round(self.hold_seconds * SECOND)
        outcome: Any = self.decide(
            lambda view: event_decisions.stop(
                view, self.asker, seen, hold=hold, may_go_on=may_go_on, ends=ends, is_alone=is_alone
            )
        )
        return Stop(self, outcome, ends=ends)

    def seen(self) -> Seen:
        """The present stamps of the agent's files: those that it has, and that it waits for."""
        key = self.holder.key

        def paths(view: View) -> tuple[dict[str, str], list[str]]:
            known = agent_records.known(view, key)
            held = {grant.id: grant.paths[0] for grant in view.held_by(key)}
            waits = (*known.waits, *known.handed)
            return held, [path for wait in waits for path in wait.paths]

        held, waited = transactions.look(self.manager, paths)
        stamps = stamps_at(self._root, [*held.values(), *waited])
        return Seen(
            {id: stamps[path] for id, path in held.items()}, {path: stamps[path] for path in waited}
        )

    def end_session(self) -> Answer:
        """The session ended: all leases of its agents end. If it was blocked, the answer reports
        that to the person or program that started it."""
        blocks = self.decide(lambda view: event_decisions.session_end(view, self.asker))
        if not blocks:
            return Answer(QUIET)
        from holdfast.gate.rulebook import agent_messages

        told = agent_messages.ended_blocked([block.report for block in blocks])
        return Answer(HALT, told, user=told, report=blocks[0].report)

    def fail(self) -> None:
        """The agent failed for good: all its leases and waits end."""
        self.decide(lambda view: event_decisions.fail(view, self.asker))


def _at_work(view: View, others: Sequence[Presence]) -> list[tuple[str, list[str]]]:
    """The sessions of agents and the people at work here, with their files."""
    from holdfast.core import rules

    found: dict[str, list[str]] = {}
    for one in others:
        if not one.agent:
            held = [grant for grant in view.held_within(one.key) if rules.is_live(view, grant)]
            found[one.shown] = [path for grant in held for path in dict.fromkeys(grant.paths)]
    for _number, id in view.some_grants(0, PEOPLE_AMONG):
        grant = view.grant(id)
        if not isinstance(grant, Grant) or grant.holder.key.startswith(AGENT):
            continue
        if rules.is_live(view, grant):
            found.setdefault(grant.holder.id, []).extend(dict.fromkeys(grant.paths))
    return list(found.items())
