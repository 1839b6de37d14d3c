"""The leases of an agent's shell command: taken at the write, by the rules of the gate.

The files that the command writes are leased as if the agent's edit tool had written them: the lease
ends when the agent stops, commits or ends, not when the command does. For a file that another
holder has, the gate refuses: with a heartbeat, a place in line, and the one retry. So a lease that
this broker has taken may end while the command is still running, and is checked at every open.

Two kinds of leases end earlier. A file that git has made clean (by checking out a branch, or a
rebase) contains no work of the agent, and is released when the command ends. A file that is written
by a process that the agent left running is released as soon as no process has it open.
"""

from __future__ import annotations

import os

from holdfast.core import bulk_rules, rules
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Conflicts, Grant
from holdfast.gate import pending_writes
from holdfast.gate.broker.leasing.command_leases import Leases
from holdfast.gate.broker.leasing.leased_files import Lease
from holdfast.gate.rulebook import agent_family, agent_messages, event_decisions
from holdfast.gate.rulebook.display_names import session_key
from holdfast.gate.rulebook.outcomes import Denied, Halted, Leased
from holdfast.manager import transactions
from holdfast.manager.files.realpath import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.model import ConflictInfo, Event, Holder, Request
    from holdfast.core.view import View
    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.places.path_kinds import PathKinds
    from holdfast.gate.broker.places.path_lookup import Found
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.manager.files.paths import Place
    from holdfast.manager.manager import LockManager

_HELD_BY = "held by "


class AgentLeases(Leases):
    """The leases of one command of an agent. Only for the broker's single thread."""

    _sees_all = False  # the gate makes its own decisions

    def __init__(
        self,
        manager: LockManager,
        gate: LeaseGate,
        say: Callable[[str], None],
        *,
        is_server: bool = False,
    ) -> None:
        """`is_server`: all agents of the session use this program (an MCP server). It may write a
        file that one of them holds: the hook of the call has permitted that."""
        super().__init__(manager, gate.introduce(), say)
        self._gate = gate
        self._is_server = is_server
        self._session = session_key(self.holder)
        #: The leases that this command has taken, and those that end with processes left running.
        self._taken: set[str] = set()
        self._passing: set[str] = set()

    def is_own(self, holder: Holder) -> bool:
        """Whether a lease is the agent's, or of an agent below it."""
        if holder.key == self.holder.key:
            return True
        if self._is_server:
            return self._is_of_session(holder.key)
        if not holder.agent:
            return False
        return self.holder.key in transactions.look(
            self._manager, lambda view: agent_family.ancestors(view, holder)
        )

    def _is_of_session(self, key: str) -> bool:
        return key.startswith(self._session)

    # Taking

    def held(self, path: str) -> Lease | None:
        """The lease on a path, if the agent still has it."""
        lease = self.mine.get(path)
        if lease is None:
            return None
        id = lease.grant

        def is_live(view: View) -> bool:
            grant = view.grant(id)
            return isinstance(grant, Grant) and rules.is_live(view, grant)

        try:
            is_held = transactions.look(self._manager, is_live)
        except HoldfastError as error:
            raise self._trouble(error) from error
        if not is_held:
            self._forget(path)
            return None
        return lease

    def was_another_s(self, lease: Lease) -> bool:
        """Changes by other commands of the same agent are not stale."""
        self.others.follow()
        return lease.shown in self.others.released

    def _forget(self, path: str) -> None:
        lease = self.mine.pop(path)
        self._taken.discard(lease.grant)
        self._passing.discard(lease.grant)

    def _take(self, caller: Caller, found: Found, _waits: bool) -> Lease | None:
        place = self._place(found)
        if place is None or (self._is_server and self._has_session(place)):
            return None
        (lease,) = self._have(caller, [(found.path, found.status)], [place])
        lease.moved_at = self._moved_at(found, place.path)
        return lease

    def take_all(
        self, caller: Caller, wanted: Sequence[tuple[str, os.stat_result | None]]
    ) -> list[Lease]:
        new, places = self._places(wanted)
        return self._have(caller, new, places) if new else []

    def take_ahead(
        self, caller: Caller, wanted: Iterable[tuple[str, os.stat_result | None, int]]
    ) -> list[str]:
        return [] if self.is_over or self._is_server else super().take_ahead(caller, wanted)

    def _request_ahead(self, _caller: Caller, place: Place) -> Request:
        return self._gate.requests([place])[0]

    def _take_free(self, requests: list[Request]) -> list[Grant]:
        grants: list[Grant] = self._gate.decide(lambda view: bulk_rules.take_free(view, requests))
        self._taken.update(grant.id for grant in grants)
        return grants

    def _have(
        self,
        caller: Caller,
        wanted: Sequence[tuple[str, os.stat_result | None]],
        places: Sequence[Place],
    ) -> list[Lease]:
        """Take a lease on each of these. Raises OSError."""
        locked = self._gate.locked_spec(places)
        if locked is not None:
            self._refuse(places[0].path, "spec", plain(locked.reason))
        try:
            outcome = self._gate.write(places, is_left=self.is_over)
        except HoldfastError as error:
            raise self._trouble(error) from error
        if not isinstance(outcome, Leased):
            self._deny(outcome, places, caller)
        new = {request.id for request in self._gate.wanted}
        leases = []
        for (path, status), place in zip(wanted, places, strict=True):
            grant = next(one for one in outcome.grants if place.key in one.keys)
            leases.append(self._add(Lease(path, place.path, grant, status is not None)))
            if grant.id in new:
                (self._taken if outcome.is_kept else self._passing).add(grant.id)
        self._sign([path for path, _status in wanted])
        return leases

    def _sign(self, paths: list[str]) -> None:
        """Record the writer: another agent's command that is only watched must not be blamed."""
        from holdfast.gate import guard

        guard.edited(self._manager, self.holder, paths)

    def _deny(
        self, outcome: Denied | Halted | Conflicts, places: Sequence[Place], caller: Caller
    ) -> None:
        """Report the refusal in the words of the gate. Raises OSError."""
        shown, now = places[0].path, self._manager.now()
        if isinstance(outcome, Halted):
            self._refuse(shown, "blocked", agent_messages.blocked(outcome.block.report))
        elif isinstance(outcome, Denied):
            told = agent_messages.denied(outcome.wait, now, outcome.conflicts, line=outcome.line)
            self._refuse(shown, f"{_HELD_BY}{outcome.wait.owner}", plain(told))
        else:
            self._refuse_held(shown, outcome, caller)

    # Locks of other holders

    def _has_session(self, place: Place) -> bool:
        """Whether only agents of the session hold a file, which their server writes for them."""
        found = self._in_the_way(place)
        return bool(found) and all(self._is_of_session(one.holder_key) for one in found)

    def _in_the_way(self, place: Place) -> Sequence[ConflictInfo]:
        request = transactions.request_at(self.holder, place, reason="", stamp="")
        try:
            return transactions.conflicts_of(self._manager, request)
        except HoldfastError as error:
            raise self._trouble(error) from error

    def _counting(self, conflicts: Sequence[ConflictInfo]) -> Sequence[ConflictInfo]:
        """Without those of agents above this one, which may write what they hold."""
        if not (self.holder.agent or self._is_server):
            return conflicts
        above = transactions.look(
            self._manager, lambda view: agent_family.ancestors(view, self.holder)
        )
        return [
            one for one in conflicts
            if one.holder_key not in above
            and not (self._is_server and self._is_of_session(one.holder_key))
        ]  # fmt: skip

    # Stale content

    def _is_ours(self, event: Event) -> bool:
        return bool(event.data.get("holder") == self.holder.id)

    def _lost(self, id: str) -> None:
        """The gate has ended a lease. If the command writes that file again, a new one is taken."""
        for path in [path for path, lease in self.mine.items() if lease.grant == id]:
            self._forget(path)

    # Releasing

    def drop_all(self, paths: Iterable[str]) -> None:
        """Release the leases that this command has taken, after a failed call or for a name that is
        gone again. Leases that the agent had before stay."""
        over = []
        for path in list(paths):
            lease = self.mine.get(path)
            if lease is not None:
                if lease.grant in self._taken or lease.grant in self._passing:
                    over.append(lease.grant)
                self._forget(path)
        self._end(over)

    def settle(self, in_use: Iterable[str]) -> None:
        used = set(in_use)
        self.drop_all([
            path for path, lease in self.mine.items()
            if lease.grant in self._passing and path not in used
        ])  # fmt: skip

    def relabel(self, path: str, reason: str) -> None:
        if self.mine[path].grant not in self._passing:
            return
        old = self.mine[path].grant
        super().relabel(path, reason)
        if self.mine[path].grant != old:
            self._passing.discard(old)
            self._passing.add(self.mine[path].grant)

    def free_clean(self, kinds: PathKinds) -> None:
        """The command has ended, and git has changed files: a file that this command wrote and that
        is clean now is released, as after a commit, no matter when the agent got its lease."""
        from holdfast.gate.git.git_files import dirty, put_aside

        inside: dict[str, dict[str, Lease]] = {}
        for path, lease in self.mine.items():
            if lease.grant not in self._passing:
                _kind, checkout, inner = kinds.rough(path)
                inside.setdefault(checkout, {})[inner] = lease
        for checkout, names in inside.items():
            try:
                changed = {*dirty(checkout, names), *put_aside(checkout)}
            except HoldfastError:
                continue  # git does not answer: they end with the agent's rest
            clean = [lease for inner, lease in names.items() if inner not in changed]
            self._end([lease.grant for lease in clean])
            for lease in clean:
                self._forget(lease.path)

    def _end(self, ids: list[str]) -> None:
        if not ids:
            return
        root = self._tree.root

        def is_writing(key: str, keys: Sequence[str]) -> bool:
            return pending_writes.is_writing(root, key, keys)

        try:
            self._gate.decide(lambda view: event_decisions.commit(view, ids, is_writing))
        except HoldfastError as error:
            self._tell("", error.code, f"could not release a lease: {error.message}")
