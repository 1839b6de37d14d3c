"""Seeded bugs of the gate: each breaks its rulebook in one small way, as `mutants` does the core.

Each names the check that should fail in the simulation of the gate. If the broken code raises by
itself, that counts too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules, conflicts
from holdfast.core.draft import Draft
from holdfast.core.model import ConflictInfo, Event, Grant, Holder, Request, Witness
from holdfast.gate.rulebook import (
    agent_family,
    agent_life,
    agent_records,
    agent_stop,
    contention,
    display_names,
    event_decisions,
    handover,
    lease_limits,
    sessions,
    unblocking,
)
from holdfast.gate.rulebook.agent_life import Life
from holdfast.gate.rulebook.agent_records import Known
from holdfast.gate.rulebook.outcomes import Asker
from mutants.sim_mutants import Mutant, Patch

if TYPE_CHECKING:
    from holdfast.core.model import Decision
    from holdfast.core.view import View
    from holdfast.gate.rulebook.agent_records import Block, Wait

GATE_MUTANTS: dict[str, Mutant] = {}


def mutant(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
    """Register a mutant: the function returns its patches, its docstring describes the bug."""
    name = patches.__name__
    GATE_MUTANTS[name] = Mutant(name, (patches.__doc__ or "").strip(), patches)
    return patches


def _nothing(*_given: Any, **_named: Any) -> None:
    """Replaces a function that changes the ledger."""


# Stops and rest


@mutant
def rest_goes_on() -> list[Patch]:
    """An event does not end the rest. Caught by (4)."""
    return [(Life, "wake_up", lambda self, *, is_tail=False: handover.notice(self))]


@mutant
def a_start_is_work() -> list[Patch]:
    """A session that is compacted, or only viewed, no longer rests. Caught by (4)."""
    begin = sessions.begin

    def waking(life: Life) -> None:
        begin(life)
        life.wake_up()

    return [(sessions, "begin", waking)]


@mutant
def resumed_at_work() -> list[Patch]:
    """A session that continues in a new process does not rest until it works. Caught by (4)."""

    def restless(life: Life) -> None:
        sessions._rebind(life)
        life.show_life()

    return [(sessions, "begin", restless)]


@mutant
def second_window_takes_over() -> list[Patch]:
    """A session that is opened a second time continues there, and the first one rests. Caught by
    (4)."""
    return [(sessions, "elsewhere", _nothing), (sessions, "_is_gone", _is_another)]


def _is_another(life: Life, witness: Witness | None) -> bool:
    return witness != life.holder.witness


@mutant
def stop_frees_what_was_changed() -> list[Patch]:
    """A stop frees everything immediately. Caught by (4)."""
    return [(agent_stop, "is_unchanged", lambda grant, seen: True)]


@mutant
def unchanged_rests_too() -> list[Patch]:
    """A stop does not free unchanged files. Caught by (4)."""
    return [(agent_stop, "is_unchanged", lambda grant, seen: False)]


@mutant
def no_stamp_is_no_change() -> list[Patch]:
    """A file without a stamp counts as unchanged. Caught by (4)."""
    return [
        (
            agent_stop,
            "is_unchanged",
            lambda grant, seen: seen.leases.get(grant.id, "") in ("", grant.stamp),
        )
    ]


@mutant
def stop_never_ends() -> list[Patch]:
    """A stop starts no timer. Caught by (4)."""
    return [(Life, "rest", _nothing)]


@mutant
def held_stop_has_no_end() -> list[Patch]:
    """While a stop is held open the leases have no end, if the hook is killed. Caught by (4)."""
    rest = Life.rest

    def careless(self: Life, *, held_until: int = 0) -> None:
        if not held_until:
            rest(self)
            return
        agent_records.Rest(
            self.holder.key, agent=self.holder.id, length=0, held_until=held_until, at=self.now
        ).write(self.draft, agent_records.RESTING)

    return [(Life, "rest", careless)]


@mutant
def rest_is_short() -> list[Patch]:
    """Leases end a second too early after a stop. Caught by (4)."""
    come_to_rest = bulk_rules.come_to_rest

    def hasty(draft: Draft, holder_key: str, length: int | None) -> list[Grant]:
        return come_to_rest(draft, holder_key, None if length is None else length - 1_000_000)

    return [(bulk_rules, "come_to_rest", hasty)]


@mutant
def rest_is_taken_back() -> list[Patch]:
    """An event brings leases back whose rest was over, and that others may have seen free. Caught
    by (4)."""

    def revived(draft: Draft, holder_key: str, length: int | None) -> list[Grant]:
        idle_at = None if length is None else draft.now + length
        return [
            draft.extend(grant, expires_at=grant.expires_at, idle_at=idle_at)
            for grant in draft.held_by(holder_key)
        ]

    return [(bulk_rules, "come_to_rest", revived)]


@mutant
def stopped_stay_in_line() -> list[Patch]:
    """A stopped agent keeps its ticket, and gets a file that it no longer wants. Caught by (5)."""
    return [(Life, "leave_lines", _nothing)]


# Refusals and retries


@mutant
def retry_after_179_seconds() -> list[Patch]:
    """The retry is due a second too early. Caught by (2)."""
    early = property(lambda self: round((self.retry_seconds - 1) * 1_000_000))
    return [(Asker, "retry", early)]


@mutant
def retry_at_once() -> list[Patch]:
    """The second attempt is the retry, whenever it comes. Caught by (3)."""
    retry = contention.retry

    def at_once(life: Life, wait: Wait, wanted: Sequence[Request]) -> Any:
        contention.settle(life, wait)
        return retry(life, wait) if wait in life.known.waits else None

    return [(contention, "again", at_once)]


@mutant
def retry_never() -> list[Patch]:
    """A retry that is due is postponed forever. Caught by (2) or (7)."""

    def never(life: Life, wait: Wait, wanted: Sequence[Request]) -> Any:
        conflicts = contention.settle(life, wait)
        waits = wait in life.known.waits and conflicts
        return contention._denied(life, wait, conflicts) if waits else None

    return [(contention, "again", never)]


@mutant
def blocked_without_a_conflict() -> list[Patch]:
    """A retry fails although the file is free. Caught by (3)."""

    def failing(life: Life, wait: Wait, *, stops: bool = True) -> Any:
        conflicts = list(contention.settle(life, wait))
        if wait not in life.known.waits:
            return None
        path = wait.paths[0]
        told = ConflictInfo(
            path=path, mode="w", held_path=path, held_mode="w", holder=wait.owner,
            holder_key=wait.owner_key, grant_id="", since=wait.since, until=None,
        )  # fmt: skip
        return contention._block(life, wait, conflicts or [told], stops=stops)

    return [(contention, "retry", failing)]


@mutant
def blocked_may_write() -> list[Patch]:
    """A blocked agent continues to write. Caught by (3)."""
    edit = Life.edit

    def forgiving(self: Life, wanted: Sequence[Request]) -> Any:
        self.known.blocks.clear()
        return edit(self, wanted)

    return [(Life, "edit", forgiving)]


@mutant
def prompt_resumes_nobody() -> list[Patch]:
    """A new prompt resumes no blocked agent. Caught by (3)."""
    resume = event_decisions.resume

    def deaf(draft: Draft, by: str, *, key: str = "", start: str = "gate:@") -> list[Block]:
        return [] if by == "a new prompt" else resume(draft, by, key=key, start=start)

    return [(event_decisions, "resume", deaf)]


@mutant
def any_event_resumes() -> list[Patch]:
    """A blocked agent resumes by itself. Caught by (3)."""
    wake_up = Life.wake_up

    def eager(self: Life, *, is_tail: bool = False) -> None:
        wake_up(self, is_tail=is_tail)
        for block in self.known.blocks:
            block.end(self.draft, agent_records.RESUMED, agent=block.agent, by="itself")
        self.known.blocks.clear()

    return [(Life, "wake_up", eager)]


@mutant
def answered_without_a_look() -> list[Patch]:
    """Before the retry the owner's life is not checked. Caught by (2)."""
    again = contention.again

    def blind(life: Life, wait: Wait, wanted: Sequence[Request]) -> Any:
        if life.now < wait.retry_at:
            return contention._denied(life, wait, ())
        return again(life, wait, wanted)

    return [(contention, "again", blind)]


@mutant
def refused_without_a_place() -> list[Patch]:
    """An agent that left the queue and tries again is refused from the record, without a new place.
    Caught by (2)."""
    return [(contention, "back_in_line", lambda life, wait, denied: denied)]


@mutant
def back_in_its_old_place() -> list[Patch]:
    """An agent that left the queue overtakes the others when it retries. Caught by (5)."""
    back_in_line = contention.back_in_line

    def pushing(life: Life, wait: Wait, denied: Any) -> Any:
        for ticket in list(life.draft.view.queue()):
            is_mine = ticket.request.holder.key == life.holder.key
            if not is_mine and not set(ticket.request.keys).isdisjoint(wait.keys):
                life.draft.drop(ticket, "passed")
        return back_in_line(life, wait, denied)

    return [(contention, "back_in_line", pushing)]


@mutant
def every_attempt_is_a_denial() -> list[Patch]:
    """An earlier retry writes another heartbeat and a second ticket. Caught by (2)."""
    return [(contention, "again", _nothing)]


@mutant
def heartbeat_in_a_second_transaction() -> list[Patch]:
    """The place in line is written first, and the hook is killed before the heartbeat. Caught by
    (6)."""
    write = agent_records.Record.write

    def killed(self: agent_records.Record, draft: Draft, type: str, **facts: Any) -> None:
        if type != agent_records.HEARTBEAT:
            write(self, draft, type, **facts)

    return [(agent_records.Record, "write", killed)]


@mutant
def denial_is_half_done() -> list[Patch]:
    """The heartbeat is written, and the hook is killed before its agent is in line, so the agent is
    never handed anything. Caught by (2)."""
    done = Life.done

    def torn(self: Life, outcome: Any) -> Decision[Any]:
        decision = done(self, outcome)
        kept = [event for event in decision.events if event.type != "ticket_added"]
        again = [
            Event(
                seq=self.draft.view.head + 1 + number, type=event.type, at=event.at,
                data=event._data, version=event.version, once=event.once, subject=event.subject,
            )
            for number, event in enumerate(kept)
        ]  # fmt: skip
        decision.events = tuple(again)  # type: ignore[misc]
        return decision

    return [(Life, "done", torn)]


# Notices to people


@mutant
def free_by_what_ended() -> list[Patch]:
    """The file of an ended lease counts as free, even if another agent has it. Caught by (3)."""

    def hasty(draft: Draft) -> None:
        ended = [event.subject for event in draft.events if event.type == "lock_released"]
        paths = {path for grant in ended if grant is not None for path in grant.paths}
        for block in agent_records.known_blocks(draft):
            if block.file in paths:
                block.free.write(draft, agent_records.FREE_AGAIN)

    return [(unblocking, "note_what_is_free", hasty)]


@mutant
def the_dead_block_for_ever() -> list[Patch]:
    """The lookout for people does not check whether owners live. Caught by (3)."""

    def held(draft: Draft, block: Block) -> Any:
        return list(draft.scopes([block.file], []))

    return [(unblocking, "blockers", held)]


@mutant
def people_are_told_again() -> list[Patch]:
    """Notices to people are forgotten. Caught by (3)."""

    def forgetful(view: View) -> Decision[Any]:
        draft = Draft(view)
        found = agent_records.known_blocks(draft)
        for block in unblocking._not_held(draft, found):
            if draft.note(block.free.name) is None:
                block.free.write(draft, agent_records.FREE_AGAIN)
            block.free.write(draft, agent_records.FREE_TOLD)
        return draft.done(([], len(found)))

    return [(unblocking, "look_out", forgetful)]


# Hand-overs


@mutant
def handed_over_for_ever() -> list[Patch]:
    """A hand-over never lapses. Caught by (4)."""
    enqueue = Draft.enqueue
    return [(Draft, "enqueue", lambda self, request: enqueue(self, request.but(ttl=None)))]


@mutant
def used_and_still_lapsing() -> list[Patch]:
    """A handed-over file that is used keeps its end. Caught by (1)."""

    def lapsing(life: Life, stamps: Mapping[str, str], wanted: Any = ()) -> None:
        for wait in list(life.known.handed):
            grant = life.draft.live_grant(wait.ticket)
            if grant is not None and not stamps.keys().isdisjoint(grant.paths):
                life.forget(wait)

    return [(handover, "claim", lapsing)]


@mutant
def the_line_is_passed() -> list[Patch]:
    """Earlier tickets are ignored. Caught by (5)."""
    return [(conflicts, "reservations_in_the_way", lambda draft, request, arrival=0: [])]


@mutant
def nothing_is_handed_over() -> list[Patch]:
    """A released file is not handed over. Caught by (5)."""
    forget = lambda draft: draft.freed.clear()  # noqa: E731
    return [
        (module, "hand_over", forget)
        for module in (agent_life, contention, event_decisions, bulk_rules)
    ]


# Families


@mutant
def blocked_agents_write_through_others() -> list[Patch]:
    """A sub-agent of a blocked agent may write. Caught by (3)."""

    def own(view: View | Draft, holder: Holder, known: Known | None = None) -> Block | None:
        blocks = (known or agent_records.known(view, holder.key)).blocks
        return blocks[0] if blocks else None

    return [(agent_family, "block_of", own)]


@mutant
def children_of_the_blocked_stop_too() -> list[Patch]:
    """Agents that were at work before their parent was blocked may not write. Caught by
    (3)."""
    block_of = agent_family.block_of

    def strict(view: View | Draft, holder: Holder, known: Known | None = None) -> Block | None:
        return block_of(view, holder, known) or block_of(view, holder, Known(()))

    return [(agent_family, "block_of", strict)]


@mutant
def blocked_agents_start_others() -> list[Patch]:
    """A blocked agent may start another agent. Caught by (3)."""

    def careless(view: View, asker: Asker) -> Decision[Any]:
        life = Life(view, asker)
        life.wake_up()
        agent_family.called(life.draft, life.holder, asker.new_id())
        return life.done(life.passed())

    return [(event_decisions, "agent_call", careless)]


@mutant
def files_of_a_child_go_free() -> list[Patch]:
    """The changed files of a sub-agent are free when it ends. Caught by (4)."""
    return [(handover, "move", lambda life, grant, holder: life.draft.end(grant, "lock_released"))]


@mutant
def files_go_to_siblings() -> list[Patch]:
    """A sub-agent gets the files of another one of the session. Caught by (4)."""

    def everybody(view: View | Draft, holder: Holder) -> list[str]:
        session = display_names.session_key(holder)
        return [session, *(grant.holder.key for grant in view.held_within(session))]

    return [(agent_family, "ancestors", everybody)]


@mutant
def parent_is_invented() -> list[Patch]:
    """The changed files of a sub-agent pass to a session that has ended. Caught by (6)."""

    parent = agent_stop._parent

    def revived(life: Life) -> Any:
        found = parent(life)
        if found is not None:
            return found
        above = Holder(
            id=display_names.above(life.holder), key=display_names.session_key(life.holder),
            witness=life.holder.witness, client=life.holder.client, session=life.holder.session,
        )  # fmt: skip
        return display_names.introduce(life.draft, above, "pts/1"), None

    return [(agent_stop, "_parent", revived)]


@mutant
def children_of_the_ended_are_forgotten() -> list[Patch]:
    """An ended agent remains the parent of its sub-agents. Caught by (4)."""
    return [(agent_family, "ended", _nothing)]


@mutant
def stranger_for_a_parent() -> list[Patch]:
    """A call without a sub-agent makes its agent the parent of the next one. Caught by (4)."""
    return [(agent_family, "CALL_LASTS", 1 << 60)]


# Ends


@mutant
def end_of_a_session_forgets_the_line() -> list[Patch]:
    """An ended session keeps its tickets. Caught by (6)."""
    leave_line = Life.leave_line

    def staying(self: Life, wait: Wait, why: str) -> None:
        if why != "ended":
            leave_line(self, wait, why)

    return [(Life, "leave_line", staying)]


@mutant
def end_of_a_session_forgets_children() -> list[Patch]:
    """The leases of sub-agents outlive their session. Caught by (6)."""
    end = sessions.end

    def own_only(life: Life) -> None:
        draft: Any = life.draft
        draft.__class__ = _Own
        end(life)
        draft.__class__ = Draft

    return [(sessions, "end", own_only)]


class _Own(Draft):
    __slots__ = ()

    def held_within(self, start: str) -> list[Grant]:
        return self.held_by(start)


@mutant
def notes_outlive_the_session() -> list[Patch]:
    """The notes about an agent remain after its end. Caught by (6)."""
    return [(agent_records, "end_all", _nothing)]


@mutant
def failure_frees_nothing() -> list[Patch]:
    """A failed agent keeps its files. Caught by (4)."""
    return [(Life, "free", _nothing)]


@mutant
def commit_frees_everything() -> list[Patch]:
    """A commit frees all files of the agent, even those outside it. Caught by (4)."""
    commit = event_decisions.commit

    def generous(view: View, ids: Sequence[str], is_writing: Any) -> Decision[Any]:
        keys = [grant.holder.key for id in ids if isinstance(grant := view.grant(id), Grant)]
        return commit(view, [grant.id for key in keys for grant in view.held_by(key)], is_writing)

    return [(event_decisions, "commit", generous)]


@mutant
def commit_frees_what_is_about_to_be_written() -> list[Patch]:
    """A commit frees a file whose permitted edit has not been made yet. Caught by (1)."""
    commit = event_decisions.commit
    return [
        (
            event_decisions,
            "commit",
            lambda view, ids, is_writing: commit(view, ids, lambda *_: False),
        )
    ]


@mutant
def what_is_about_to_be_written_goes_down() -> list[Patch]:
    """A sub-agent gets a file whose permitted edit its parent has not made yet. Caught by (1)."""
    hand_down = handover.hand_down

    def hasty(life: Life, *given: Any, **named: Any) -> bool:
        knows, life.asker = life.asker, life.asker.but(is_writing=lambda *_: False)
        try:
            return hand_down(life, *given, **named)
        finally:
            life.asker = knows

    return [(handover, "hand_down", hasty)]


# Owners on other hosts


@mutant
def unknown_owners_have_no_end() -> list[Patch]:
    """A lease whose owner cannot be judged never ends. Caught by (4)."""
    return [(lease_limits, "limit", _nothing)]


@mutant
def signs_renew_nothing() -> list[Patch]:
    """The events of an owner that cannot be judged do not renew its leases. Caught by (4)."""
    return [(lease_limits, "renew", _nothing)]


@mutant
def bury_the_unknown() -> list[Patch]:
    """An owner that cannot be judged counts as dead. Caught by (4)."""
    is_dead = Draft.is_dead

    def buried(self: Draft, witness: Witness | None, marks: tuple[str, ...] = ()) -> bool:
        return witness is not None and is_dead(self, witness, marks) is not False

    return [(Draft, "is_dead", buried)]


@mutant
def nobody_is_dead() -> list[Patch]:
    """A dead agent keeps its files. Caught by (2)."""
    return [(Draft, "is_dead", lambda self, witness, marks=(): False)]


# Names


@mutant
def names_by_first_digits() -> list[Patch]:
    """A name is the beginning of an id, even if another agent has it. Caught by (7)."""
    return [(display_names, "_shortest", lambda view, start, name, key: f"{start}{name[:4]}")]


@mutant
def names_may_be_shared() -> list[Patch]:
    """A name is the end of an id, even if another agent has it. Caught by (7)."""
    return [(display_names, "_shortest", lambda view, start, name, key: f"{start}{name[-4:]}")]
