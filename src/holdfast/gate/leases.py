"""The lease gate: before an agent writes a file it holds it, without ever hearing of locks.

Each file that an agent writes is a lease of its own, without an end but that of its owner. What
is free is taken, what the agent has is kept, and what another live agent has is refused:

    refused   a heartbeat is written, with the moment of the one retry (180 s later, exactly);
              the agent stands in line, and its call is held open for a moment
    in between  the agent works on something else; every attempt is answered from that record
    it comes free  the file is the agent's at once, and it is told with its next event
    stop      held open until the file comes free, or the retry is made
    blocked   the retry failed: the agent is stopped, a report says who has what since when, and
              nothing that it writes passes until a person told it to go on

What is decided stands in `gate.rulebook`. Here the facts are gathered, one transaction is made for
each event, calls are held open, and the outcome is put into words. All that is known of an agent
beside its leases are notes in the ledger, so nothing has to run.
"""

from __future__ import annotations

from time import monotonic

from holdfast.core import rules
from holdfast.core.model import AGENT, SECOND, Grant
from holdfast.gate.intent import ALLOW, CONTINUE, DENY, HALT, QUIET, Answer, leads_into_spec
from holdfast.gate.rulebook import decisions, records
from holdfast.gate.rulebook.life import REASON
from holdfast.gate.rulebook.naming import session_key
from holdfast.gate.rulebook.outcomes import Asker, Denied, Halted, Held, Passed
from holdfast.gate.stamps import stamp_of, stamps_at
from holdfast.manager import services
from holdfast.manager.ids import new_id
from holdfast.manager.liveness import is_outermost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.core.draft import Draft
    from holdfast.core.model import Decision, Holder, Request
    from holdfast.core.view import View
    from holdfast.gate.rulebook.records import Presence
    from holdfast.gate.settings import Settings
    from holdfast.manager.manager import LockManager
    from holdfast.manager.paths import Place

#: While a call is held open: how long until the owner's life is looked at again.
LOOK_SECONDS = 0.5
#: A hook that holds a stop answers so long before its time is up.
SPARE_SECONDS = 2.0
#: So many grants are looked through for people who are at work here.
PEOPLE_AMONG = 200


def _nowhere() -> str:
    return ""


class Gate:
    """The gate of one repository, for one event of one agent."""

    __slots__ = (
        "_asker", "_deadline_seconds", "_hold_seconds", "_manager", "_pause", "_settings", "holder",
        "wanted",
    )  # fmt: skip

    def __init__(
        self,
        manager: LockManager,
        holder: Holder,
        settings: Settings,
        *,
        place: Callable[[], str] = _nowhere,
        deadline_seconds: float = 8.0,
        hold_seconds: float = 0,
        pause: Callable[[float, Any], bool] | None = None,
    ) -> None:
        """`place` says where a person finds the agent. `deadline_seconds`: how long one decision
        may take. `hold_seconds`: how long this event may be held open at most. `pause` waits so
        many seconds, or until something happens in the ledger."""
        self._manager = manager
        self.holder = holder
        self._settings = settings
        self._deadline_seconds = deadline_seconds
        self._hold_seconds = hold_seconds
        self._pause = pause
        self._asker = Asker(
            holder,
            place=place,
            new_id=new_id,
            retry_seconds=settings.retry_seconds,
            idle=round(settings.idle_seconds * SECOND),
            foreign=round(settings.foreign_seconds * SECOND),
            wake=settings.wake,
        )
        #: What was asked for; what of it is new has the id of its request.
        self.wanted: list[Request] = []

    @property
    def _root(self) -> str:
        return self._manager.tree.root if self._manager.tree is not None else ""

    def also(self, part: Callable[[Draft, Holder], None]) -> None:
        """Decide this with the event, in the same transaction."""
        self._asker = self._asker.with_also((*self._asker.also, part))

    def introduce(self) -> Holder:
        """The agent by the name that it has, or will have with its first decision."""
        self.holder = services.look(
            self._manager, lambda view: decisions.introduced(view, self._asker)
        )
        return self.holder

    def _decide(self, rule: Callable[[View], Decision[Any]]) -> Any:
        """One transaction. People hear of what concerns them."""
        end = monotonic() + self._deadline_seconds
        if self._settings.notify:
            from holdfast.gate.notices import decide_and_tell

            outcome = decide_and_tell(self._manager, rule, end, self._settings.notify)
        else:
            outcome = services.decide(self._manager, rule, end)
        if self._asker.also:
            self._asker = self._asker.with_also(())
        return outcome

    def _decide_if_needed(self, rule: Callable[[View], Decision[Any]]) -> Any:
        """The same, without keeping others waiting when there is nothing to write."""
        found = services.look(self._manager, rule, monotonic() + self._deadline_seconds)
        return self._decide(rule) if found.events else found.outcome

    def _keep(self, passed: Passed) -> None:
        """If others cannot tell whether this agent lives, something beside its client says so."""
        if passed.is_limited:
            self._start_keeper()

    def keep_through_command(self) -> None:
        """A command may run for long without a word of the agent: where another may be here that
        cannot tell whether it lives, its leases have a keeper before that."""
        own = self.holder.witness
        if own is None:
            return

        def may_be_foreign(view: View) -> bool:
            others = (one.witness for one in records.present(view))
            here = (own.host, own.namespace)
            return any(one is not None and (one.host, one.namespace) != here for one in others)

        if not is_outermost(own) or services.look(self._manager, may_be_foreign):
            self._start_keeper()

    def _start_keeper(self) -> None:
        if self.holder.witness is None:
            return
        from holdfast.gate import keeping

        start = session_key(self.holder)
        keeping.start(self._root, start, self.holder.witness, self._settings.foreign_seconds)

    # Before a write

    def permit(self, paths: Sequence[str | Place]) -> Answer:
        """May this agent write these files, all of them or none? From now on it holds them."""
        wanted = self._requests(paths)
        if not wanted:
            return Answer(QUIET)
        locked = self._locked_spec(wanted)
        if locked is not None:
            return locked
        self.wanted = wanted
        self._settle(wanted)
        outcome = self._decide(lambda view: decisions.edit(view, self._asker, wanted))
        if isinstance(outcome, Denied) and self._may_hold(outcome):
            outcome = self._wait(outcome, paths)
        if isinstance(outcome, Passed):
            self._keep(outcome)
            mine = {path for request in wanted for path in request.paths}
            return Answer(ALLOW, context=self._told(outcome.came, outcome.lapsed, mine))
        return self._refused(outcome)

    def _requests(self, paths: Sequence[str | Place]) -> list[Request]:
        """A request for each file, with what it looks like now; each path is looked up once."""
        places: dict[str, Place] = {}
        for path in paths:
            place = self._manager.place(path) if isinstance(path, str) else path
            places.setdefault(place.key, place)
        return [
            services.request_at(self.holder, place, reason=REASON, stamp=stamp_of(place.status))
            for place in places.values()
        ]

    def _locked_spec(self, wanted: list[Request]) -> Answer | None:
        """The refusal of what lies in a spec that somebody else has locked."""
        inside = [key for one in wanted if leads_into_spec(key := one.keys[0])]
        if not inside or self._manager.tree is None:
            return None
        from holdfast.gate import specs

        return specs.refusal(self.introduce(), [f"{self._root}/{key}" for key in inside])

    def _settle(self, wanted: list[Request]) -> None:
        """What a dead owner left half done is put back before somebody is refused for it."""
        from holdfast.manager.settling import has_keepsakes, settles

        if not has_keepsakes(self._root):
            return
        for request in wanted:
            settles(self._manager, services.conflicts_of(self._manager, request))

    # Waiting

    def _may_hold(self, denied: Denied) -> bool:
        return (
            self._pause is not None
            and self._settings.wake
            and self._settings.hold_seconds > 0
            and denied.line > 0
            and self._hold_seconds > 0
        )

    def _wait(self, denied: Denied, paths: Sequence[str | Place]) -> Any:
        """Keep the call open for a moment: what comes free meanwhile is the agent's, as its owner
        has left it."""
        id = denied.wait.id
        until = denied.now + round(min(self._hold_seconds, self._settings.hold_seconds) * SECOND)
        texts = [path if isinstance(path, str) else path.real or path.path for path in paths]

        def now() -> Callable[[View], Decision[Any]]:
            self.wanted = wanted = self._requests(texts)
            return lambda view: decisions.wait_on(view, self._asker, wanted, id)

        return self._held_open(denied, now, min(until, denied.wait.retry_at))

    def _held_open(self, outcome: Any, rule: Callable[[], Any], until: int) -> Any:
        """Wait until a decision comes to something else; None if the client is gone."""
        head = services.look(self._manager, lambda view: view.head)
        while (left := until - self._manager.now()) > 0 and isinstance(outcome, Denied | Held):
            assert self._pause is not None
            self._pause(min(left / SECOND, LOOK_SECONDS), _Follower(self._manager, head))
            if self._client_is_gone():
                self._decide(lambda view: decisions.leave(view, self._asker))
                return None
            decide = rule()
            head = services.look(self._manager, lambda view: view.head)
            found = services.look(self._manager, decide)
            outcome = self._decide(decide) if found.events else found.outcome
        return outcome

    def _client_is_gone(self) -> bool:
        witness = self.holder.witness
        if witness is None:
            return False
        return bool(services.look(self._manager, lambda view: view.dead(witness, ())))

    # In words

    def _refused(self, outcome: Denied | Halted | None) -> Answer:
        from holdfast.gate.rulebook import telling

        if outcome is None:
            return Answer(DENY, telling.trouble("the client of this call is gone"))
        if isinstance(outcome, Halted):
            return self._halted(outcome)
        denied = outcome
        now = self._manager.now()
        return Answer(
            DENY,
            telling.denied(denied.wait, now, denied.conflicts, line=denied.line),
            user=telling.denied_to_user(denied.wait, denied.holder.id, now, denied.conflicts),
            context=self._told(denied.came),
        )

    def _halted(self, halted: Halted) -> Answer:
        from holdfast.gate.rulebook import telling

        report = halted.block.report
        return Answer(HALT, telling.blocked(report), user=telling.blocked(report), report=report)

    def _told(
        self,
        came: Sequence[str],
        lapsed: Sequence[str] = (),
        known: set[str] | frozenset[str] = frozenset(),
    ) -> str:
        """What came free for the agent while it did something else."""
        came = [path for path in came if path not in known]
        lapsed = [path for path in lapsed if path not in known]
        if not (came or lapsed):
            return ""
        from holdfast.gate.rulebook import telling

        seconds = self._settings.idle_seconds
        said = [telling.came(came, seconds)] if came else []
        return "\n".join([*said, *([telling.lapsed(lapsed, seconds)] if lapsed else ())])

    def blocked(self) -> Answer | None:
        """The answer to whatever this agent wants to write, if it is blocked."""
        known = services.look(self._manager, lambda view: records.known(view, self.holder.key))
        if not known.blocks:
            return None
        return self._halted(Halted(self.holder, known.blocks[0], is_new=False))

    # The turns of a life

    def live_on(self, *, is_tail: bool = False) -> Answer:
        """Something happened that shows that the agent is at work, or (`is_tail`) the end of
        something that it began before."""
        return self._lived(lambda view: decisions.live_on(view, self._asker, is_tail=is_tail))

    def agent_call(self) -> Answer:
        """It is about to start a sub-agent."""
        return self._lived(lambda view: decisions.agent_call(view, self._asker))

    def agent_start(self) -> Answer:
        """It is a sub-agent that has started."""
        return self._lived(lambda view: decisions.agent_start(view, self._asker))

    def _lived(self, rule: Callable[[View], Decision[Passed]]) -> Answer:
        passed: Passed = self._decide_if_needed(rule)
        self._keep(passed)
        return Answer(QUIET, context=self._told(passed.came, passed.lapsed))

    def prompt(self) -> Answer:
        """The user spoke: whoever of this session was blocked may go on."""
        passed, _resumed = self._decide_if_needed(lambda view: decisions.prompt(view, self._asker))
        return Answer(QUIET, context=self._told(passed.came, passed.lapsed))

    def session_start(self) -> Answer:
        """The session begins, or goes on: it hears who else is at work here, and on what."""
        passed, others = self._decide(lambda view: decisions.session_start(view, self._asker))
        context = self._told(passed.came, passed.lapsed)
        at_work = services.look(self._manager, lambda view: _at_work(view, others))
        if at_work:
            from holdfast.gate.rulebook import telling

            context = f"{telling.others(at_work)}\n{context}".strip()
        return Answer(QUIET, context=context)

    def stop(self, *, may_go_on: bool = False) -> Answer:
        """The agent has nothing more to do. What it waits for is waited for here."""
        return self._stopped(may_go_on=may_go_on, ends=False)

    def end_agent(self, *, may_go_on: bool = False) -> Answer:
        """A sub-agent has nothing more to do, and ends."""
        return self._stopped(may_go_on=may_go_on, ends=True)

    def _stopped(self, *, may_go_on: bool, ends: bool) -> Answer:
        stamps = self._stamps()
        hold = round((self._hold_seconds - SPARE_SECONDS) * SECOND) if self._pause else 0
        outcome: Any = self._decide(
            lambda view: decisions.stop(
                view, self._asker, stamps, hold=hold, may_go_on=may_go_on, ends=ends
            )
        )
        if isinstance(outcome, Held):
            outcome = self._held_stop(outcome, ends=ends)
        return self._said_at_stop(outcome)

    def _held_stop(self, held: Held, *, ends: bool) -> Any:
        def now() -> Callable[[View], Decision[Any]]:
            stamps = self._stamps()
            return lambda view: decisions.hold_on(
                view, self._asker, stamps, until=held.until, ends=ends
            )

        outcome = self._held_open(held, now, held.until)
        if not isinstance(outcome, Held):
            return outcome
        stamps = self._stamps()
        return self._decide(
            lambda view: decisions.hold_on(
                view, self._asker, stamps, until=held.until, is_over=True, ends=ends
            )
        )

    def _stamps(self) -> dict[str, str]:
        """What the files of the agent look like now: those that it has, and that it waits for."""
        key = self.holder.key

        def paths(view: View) -> list[str]:
            known = records.known(view, key)
            held = [grant.paths[0] for grant in view.held_by(key)]
            waits = (*known.waits, *known.handed)
            return [*held, *(path for wait in waits for path in wait.paths)]

        return stamps_at(self._root, services.look(self._manager, paths))

    def _said_at_stop(self, outcome: Any) -> Answer:
        from holdfast.gate.rulebook import telling

        if isinstance(outcome, Passed):
            return Answer(CONTINUE, telling.go_on(outcome.came))
        if isinstance(outcome, Halted):
            return self._halted(outcome)
        if outcome is None:
            return Answer(QUIET)
        user = telling.not_done(outcome.holder.id, outcome.left) if outcome.left else ""
        if not outcome.blocks:
            return Answer(QUIET, user=user)
        told = telling.child_blocked(outcome.blocks[0].report)
        return Answer(QUIET, user=f"holdfast: {told}", context=told)

    def end_session(self) -> Answer:
        """The session ended: everything of all its agents is free. If it was blocked, whoever
        started it hears so."""
        blocks = self._decide(lambda view: decisions.session_end(view, self._asker))
        if not blocks:
            return Answer(QUIET)
        from holdfast.gate.rulebook import telling

        told = telling.ended_blocked([block.report for block in blocks])
        return Answer(HALT, told, user=told, report=blocks[0].report)

    def fail(self) -> None:
        """The agent failed for good: everything of it is free, and it stands in no line."""
        self._decide(lambda view: decisions.fail(view, self._asker))


class _Follower:
    """One who waits for something to happen in the ledger."""

    __slots__ = ("_head", "_manager")

    def __init__(self, manager: LockManager, head: int) -> None:
        self._manager = manager
        self._head = head

    def wait(self, seconds: float) -> bool:
        """Whether something did, within so many seconds."""
        return self._manager.store.wait(self._head, seconds) > self._head


def _at_work(view: View, others: Sequence[Presence]) -> list[tuple[str, list[str]]]:
    """Who is at work here, and on what: the sessions of agents, and people who hold something."""
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
