"""The leases of a command: what it holds, what others hold, and what is stale.

A lease is a grant of its own, with one file in it. It is taken at the first write and kept in
memory, so a write to a file that is already held does not read the ledger. It lives as long as the
broker, or as a process that the command left running.

A tool reads a file first and writes it later. If another holder had the file in between, the tool
is about to write stale content. So the first write by a process that started before such a change
fails, once, with ESTALE. The lease stays, so the file cannot change again before the retry. Some
edit tools change a part of the file's content at the write; if a client's hook announces such an
edit, that moment counts as the last time its process has read the file.
"""

from __future__ import annotations

import errno
import os
from _functools import partial  # type: ignore[import-not-found]  # functools takes longer
from time import monotonic, time_ns

from holdfast.core import bulk_rules, rules
from holdfast.core.errors import BadKeyError, HoldfastError
from holdfast.core.model import (
    PATIENCE_DEFAULT_SECONDS,
    SECOND,
    Decision,
    Grant,
    Refusal,
    Request,
    Waiting,
)
from holdfast.core.sentences import circle_sentence, conflict_sentences
from holdfast.gate.broker.calling_thread import lineage
from holdfast.gate.broker.leasing.leased_files import (
    Lease,
    MustWait,
    changed_at,
    seen_of,
    started_at,
)
from holdfast.gate.broker.leasing.others_changes import OthersChanges
from holdfast.gate.broker.leasing.refusals import Refusals
from holdfast.manager import transactions
from holdfast.manager.files.realpath import plain
from holdfast.manager.files.unfinished_edits import settles
from holdfast.manager.ids import new_id
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.manager.request_limits import one_line, to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.model import ConflictInfo, Decision, Event, Holder
    from holdfast.core.view import View
    from holdfast.gate.broker.calling_thread import Caller
    from holdfast.gate.broker.places.path_kinds import PathKinds
    from holdfast.gate.broker.places.path_lookup import Found
    from holdfast.manager.files.paths import Place
    from holdfast.manager.manager import LockManager

_RELEASED_AT_ONCE = 200
_READS_MAX = 4096
_CYCLE = "E_LOCK_CYCLE"


class Leases:
    """The leases of one command. Only for the broker's single thread."""

    #: Whether every decision in the command's name is made here.
    _sees_all = True

    def __init__(self, manager: LockManager, holder: Holder, say: Callable[[str], None]) -> None:
        self.mine: dict[str, Lease] = {}
        self.holder = holder
        self.refusals = Refusals()
        self.is_over = False
        #: Whether the lease stays on a name that was created and is gone again, or whose removal
        #: failed because it does not exist.
        self.keeps_absent = False
        #: Whether a folder is backed up before the command changes it.
        self.keeps_folders = False
        assert manager.tree is not None
        self._manager = manager
        self._tree = manager.tree
        self.say = say
        #: Processes that run a command for an agent of a client below, and that agent's name.
        self.agents: dict[int, str] = {}
        self._own: set[str] = set()
        #: How many of the files of a grant are still held.
        self._counts: dict[str, int] = {}
        self.others = OthersChanges(manager, self._own, self._is_ours, self._lost)
        #: When a process last read a path, as announced by its own hook.
        self._reads: dict[tuple[int, str], int] = {}

    def know_kinds(self, _kinds: PathKinds) -> None:
        """Set the kinds of paths for the present command."""

    def is_own(self, holder: Holder) -> bool:
        """Whether a lease of that holder is the command's own."""
        return holder.key == self.holder.key

    # Taking

    def held(self, path: str) -> Lease | None:
        """The lease on a path, if the command has it."""
        return self.mine.get(path)

    def was_another_s(self, _lease: Lease) -> bool:
        """Whether a file that changed just before it was leased may be another holder's work."""
        return True

    def take(self, caller: Caller, found: Found, *, waits: bool = False) -> Lease | None:
        """Take the lease for what a path names, and verify that the caller knows its content.

        None if such a name cannot be leased; then no holder can have it. Raises OSError with the
        error for the caller, or MustWait.
        """
        lease = self.mine.get(found.path)
        if lease is None:
            lease = self._take(caller, found, waits)
        elif lease.is_ahead:
            lease.is_ahead = False
            lease.moved_at = self._moved_at(found, lease.shown)
        if lease is not None and lease.moved_at:
            self._demand_fresh(caller, lease)
        return lease

    def _take(self, caller: Caller, found: Found, waits: bool) -> Lease | None:
        place = self._place(found)
        return None if place is None else self._take_place(caller, found, place, waits)

    def _take_place(self, caller: Caller, found: Found, place: Place, waits: bool) -> Lease:
        if self.is_over:
            told = f"{plain(place.path)} was not leased when the command ended; processes that "
            self._refuse(found.path, "", told + "were left running can no longer lease it")
        request = self._request(to_write(place), self._why("written", caller))
        outcome = self._decide(request)
        if isinstance(outcome, Refusal):
            if waits and outcome.code != _CYCLE:
                raise MustWait(request, found.path, seen_of(found.status))
            self._refuse_held(place.path, outcome.conflicts, caller)
        assert isinstance(outcome, Grant)
        return self._keep(outcome, found, place)

    def _why(self, done: str, caller: Caller) -> str:
        """The reason of a lease: which program wrote the file, and for which agent."""
        why = f"{done} by {caller.name} (pid {caller.process})"
        agent = ""
        if self.agents:
            agent = next(filter(None, map(self.agents.get, lineage(caller.process))), "")
        return f"{why} for {agent}" if agent else why

    def _keep(self, grant: Grant, found: Found, place: Place) -> Lease:
        lease = self._add(Lease(found.path, place.path, grant, found.is_there))
        lease.moved_at = self._moved_at(found, place.path)
        return lease

    def _add(self, lease: Lease) -> Lease:
        self._own.add(lease.grant)
        self._counts[lease.grant] = self._counts.get(lease.grant, 0) + 1
        self.mine[lease.path] = lease
        return lease

    def _place(self, found: Found) -> Place | None:
        known = len(found.path) if found.is_there else found.path.rindex("/")
        try:
            return self._tree.place_of(found.path, found.path, found.status, known)
        except BadKeyError as error:
            if "root" in error.fields:
                self._refuse(found.path, "", f"{error.message}; run the command there to write it")
            return None

    def _request(
        self, footprint: tuple[tuple[str, ...], str, tuple[str, ...], tuple[str, ...]], why: str
    ) -> Request:
        keys, modes, paths, silent = footprint
        patience = PATIENCE_DEFAULT_SECONDS * SECOND
        return Request(
            new_id(), self.holder, keys, modes, paths, silent, None, one_line(why), 0, patience
        )

    def _decide(self, request: Request) -> Grant | Refusal | Waiting:
        self._manager.keep_alive(request.holder)

        def decide() -> Grant | Refusal | Waiting:
            return self.others.transact(
                lambda view: rules.acquire(view, request, wait=False, again=False)
            )

        try:
            outcome = decide()
            if isinstance(outcome, Refusal) and settles(self._manager, outcome.conflicts):
                outcome = decide()
        except HoldfastError as error:
            raise self._trouble(error) from error
        return outcome

    def _trouble(self, error: HoldfastError) -> OSError:
        """The error for a ledger that cannot be used: nothing is opened."""
        self._tell(
            "", error.code, f"cannot use the ledger, so a write was refused: {error.message}"
        )
        return OSError(errno.EACCES, os.strerror(errno.EACCES))

    def made_folder(self, path: str) -> None:
        """The command has created a folder. Raises OSError if it must not exist."""

    # Closed paths, and locks of other holders

    def refuse_closed(self, path: str) -> None:
        """Raise OSError for a file that this command may never write, leased or not."""

    def demand_free(self, found: Found) -> None:
        """Verify that no other holder has this path. Raises OSError."""
        if found.path in self.mine:
            return
        place = self._place(found)
        if place is not None and not place.folder:
            self._look(to_write(place), place.path)

    def demand_free_below(self, found: Found) -> None:
        """Verify that no other holder has this folder, or anything in it. Raises OSError."""
        try:
            place = self._tree.place_of(found.path, found.path, found.status, len(found.path))
        except BadKeyError:
            return
        self._look(((place.key,), "r", (place.path,), ()), place.path)

    def demand_may_change(self, found: Found) -> None:
        """The same for a folder that is about to be removed or renamed, or to get another mode,
        owner or attribute."""
        self.demand_free_below(found)

    def hold_folder(self, caller: Caller, found: Found) -> str:
        """Keep other holders from being granted anything in a folder until `let_go`: the id of a
        grant. Empty if that is not possible, or the conflicting locks count as the command's own.
        Raises OSError, or MustWait, if another holder has something there."""
        try:
            place = self._tree.place_of(found.path, found.path, found.status, len(found.path))
        except BadKeyError:
            return ""
        footprint = (place.key,), "r", (place.path,), ()
        outcome = self._decide(self._request(footprint, self._why("renamed", caller)))
        if not isinstance(outcome, Grant):
            counting = self._counting(outcome.conflicts)
            if counting:
                self._refuse_held(place.path, counting, caller)
            return ""
        self._own.add(outcome.id)
        return outcome.id

    def let_go(self, id: str) -> None:
        """Release the grant of a folder."""
        try:
            self._manager.release(id)
        except HoldfastError:  # it ends with its holder
            return

    def _look(
        self, footprint: tuple[tuple[str, ...], str, tuple[str, ...], tuple[str, ...]], shown: str
    ) -> None:
        request = self._request(footprint, "")
        try:
            with self._manager.store.view(deadline=monotonic() + DEADLINE_SECONDS) as view:
                conflicts = rules.look(view, request)
        except HoldfastError as error:
            raise self._trouble(error) from error
        counting = self._counting(conflicts)
        if counting:
            self._refuse_held(shown, counting, None)

    def _counting(self, conflicts: Sequence[ConflictInfo]) -> Sequence[ConflictInfo]:
        """Those of some conflicts that keep the command from a write."""
        return conflicts

    def _refuse_held(
        self, shown: str, conflicts: Sequence[ConflictInfo], caller: Caller | None
    ) -> None:
        first = conflicts[0]
        sentence = conflict_sentences(conflicts, self._manager.now())
        who = "" if caller is None else f". Refused: {caller.name} (pid {caller.process})"
        self._refuse(shown, first.holder, plain(sentence) + who)

    def _refuse(self, shown: str, by: str, sentence: str) -> None:
        self._tell(shown, by, sentence)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def _tell(self, shown: str, by: str, sentence: str) -> None:
        if self.refusals.add(shown, by, sentence):
            self.say(sentence)

    # Stale content

    def note_read(self, process: int, path: str) -> None:
        """Record that a process has read a file now. May be called from any thread."""
        if len(self._reads) >= _READS_MAX:
            self._reads.clear()
        self._reads[process, path] = time_ns()

    def _demand_fresh(self, caller: Caller, lease: Lease) -> None:
        process = caller.process
        if process in lease.told:
            return
        lease.told.add(process)
        read_at = self._reads.get((process, lease.path), 0)
        if read_at <= lease.moved_at and started_at(process) <= lease.moved_at:
            self._tell(
                lease.shown, "stale",
                f"{plain(lease.shown)} was changed by another holder after {caller.name} (pid "
                f"{process}) started; this write was refused once: read it again, then write it",
            )  # fmt: skip
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def _moved_at(self, found: Found, shown: str) -> int:
        return self.others.changed_at(found, shown, sees_all=self._sees_all)

    def _is_ours(self, _event: Event) -> bool:
        """Whether a lease that ended was the command's own, although the command did not take
        it."""
        return False

    def _lost(self, id: str) -> None:
        for path, lease in list(self.mine.items()):
            if lease.grant == id:
                del self.mine[path]
                self._counts.pop(id, None)
                self._tell(lease.shown, id, f"the lease on {plain(lease.shown)} was taken away: "
                           "holdfast log shows by whom")  # fmt: skip

    def find_lost_leases(self) -> None:
        """Find out which leases were taken away. Called now and then."""
        self.others.follow_if_behind()

    # Waiting in line

    def waited(self, awaited: MustWait, grant: Grant, status: os.stat_result | None) -> None:
        """A call that waited in line has its lease; `status` is that of the file now."""
        path = awaited.path
        lease = self._add(Lease(path, grant.paths[0], grant, awaited.seen is not None))
        if seen_of(status) != awaited.seen:
            lease.moved_at = time_ns()
            return
        # Its last holder may have removed it before the call: then it was gone all the time.
        changed = changed_at(path, status)
        if changed >= self.others.began:
            self.others.follow()
            lease.moved_at = changed if lease.shown in self.others.released else 0

    def waits_on(self, _stands: MustWait, _refusal: Refusal) -> bool:
        """Whether a call that was refused its place in line keeps waiting nevertheless, because
        another holder will yield."""
        return False

    def refuse_wait(self, awaited: MustWait, refusal: Refusal | Sequence[ConflictInfo]) -> int:
        """A call waited in line in vain. The number of its error."""
        shown = awaited.request.paths[0]
        conflicts = refusal.conflicts if isinstance(refusal, Refusal) else refusal
        if isinstance(refusal, Refusal) and refusal.code == _CYCLE:
            steps = plain(circle_sentence(self.holder.id, refusal.circle))
            self._tell(shown, "circle", f"waiting for {plain(shown)} would deadlock: {steps}")
            return errno.EDEADLK
        sentence = conflict_sentences(conflicts, self._manager.now()) if conflicts else ""
        self._tell(shown, "wait", "gave up waiting: " + (plain(sentence) or plain(shown)))
        return errno.EACCES

    # Many at once

    def take_ahead(
        self, caller: Caller, wanted: Iterable[tuple[str, os.stat_result | None, int]]
    ) -> list[str]:
        """Lease the files, out of some, that are free, each with a grant of its own, in one
        decision. Each is a real path, its status, and the length of the part that exists. Returns
        the leased paths."""
        asked: dict[str, tuple[str, Place, bool]] = {}
        requests = []
        for path, status, known in wanted:
            try:
                place = self._tree.place_of(path, path, status, known)
            except BadKeyError:
                continue
            requests.append(request := self._request_ahead(caller, place))
            asked[request.id] = path, place, status is not None
        taken = []
        for grant in self._take_free(requests):
            path, place, existed = asked[grant.id]
            self._add(Lease(path, place.path, grant, existed)).is_ahead = True
            taken.append(path)
        return taken

    def _request_ahead(self, caller: Caller, place: Place) -> Request:
        return self._request(to_write(place), self._why("written", caller))

    def _take_free(self, requests: list[Request]) -> list[Grant]:
        self._manager.keep_alive(self.holder)
        return self.others.transact(partial(bulk_rules.take_free, requests=requests))

    def take_all(
        self, caller: Caller, wanted: Sequence[tuple[str, os.stat_result | None]]
    ) -> list[Lease]:
        """Lease many files, all or nothing, for a folder that is to be renamed. Returns the new
        leases. Raises OSError."""
        new, places = self._places(wanted)
        if not new:
            return []
        keys: dict[str, str] = {}
        silent: list[str] = []
        for place in places:
            some, _modes, paths, quiet = to_write(place)
            keys.update(zip(some, paths, strict=True))
            silent += quiet
        footprint = (tuple(keys), "w" * len(keys), tuple(keys.values()), tuple(silent))
        request = self._request(footprint, self._why("renamed", caller))
        outcome = self._decide(request)
        if isinstance(outcome, Refusal):
            self._refuse_held(outcome.conflicts[0].path, outcome.conflicts, caller)
        assert isinstance(outcome, Grant)
        return [
            self._add(Lease(path, place.path, outcome, status is not None))
            for (path, status), place in zip(new, places, strict=True)
        ]

    def _places(
        self, wanted: Sequence[tuple[str, os.stat_result | None]]
    ) -> tuple[list[tuple[str, os.stat_result | None]], list[Place]]:
        """The files that are not held yet and can be leased, and the place of each."""
        new, places = [], []
        for path, status in wanted:
            held = self.held(path)
            if held is not None:
                held.is_ahead = False
                continue
            known = len(path) if status is not None else path.rindex("/")
            try:
                places.append(self._tree.place_of(path, path, status, known))
            except BadKeyError:
                continue
            new.append((path, status))
        return new, places

    # Releasing

    def drop(self, path: str) -> None:
        """Release one lease."""
        self.drop_all((path,))

    def drop_all(self, paths: Iterable[str]) -> None:
        """Release many leases. A grant with several files ends with the last of them."""
        over = []
        for path in list(paths):
            lease = self.mine.pop(path, None)
            if lease is not None:
                left = self._counts[lease.grant] = self._counts[lease.grant] - 1
                if not left:
                    del self._counts[lease.grant]
                    over.append(lease.grant)
        self._release(over)

    def settle(self, in_use: Iterable[str]) -> None:
        """The command has ended: release what no process below has open for writing."""
        used = set(in_use)
        self.drop_all([path for path in self.mine if path not in used])

    def free_clean(self, _kinds: PathKinds) -> None:
        """Release what git has made clean. Here nothing: the leases end with the command."""

    def close(self) -> None:
        """Release everything: no process is left below."""
        self.settle(())

    def drop_ahead(self, paths: Iterable[str]) -> None:
        """Release the leases, out of some, that were taken ahead of a write that did not come."""
        mine = self.mine
        self.drop_all([path for path in paths if path in mine and mine[path].is_ahead])

    def relabel(self, path: str, reason: str) -> None:
        """Change the reason of a lease without releasing the file."""
        lease = self.mine[path]

        def decide(view: View) -> Decision[list[Grant] | Refusal]:
            grant = view.grant(lease.grant)
            if not isinstance(grant, Grant) or grant.reason == one_line(reason):
                return Decision([])
            heir = bulk_rules.heir(grant, self.holder, new_id(), reason=one_line(reason))
            return bulk_rules.exchange(view, [(grant.id, heir)])

        moved = transactions.decide(self._manager, decide, monotonic() + DEADLINE_SECONDS)
        if isinstance(moved, list) and moved:
            self._own.add(moved[0].id)
            self._counts[moved[0].id] = self._counts.pop(lease.grant)
            for other in self.mine.values():
                if other.grant == lease.grant and other is not lease:
                    other.grant, other.token = moved[0].id, moved[0].token
            lease.grant, lease.token = moved[0].id, moved[0].token

    def _release(self, grants: list[str]) -> None:
        for start in range(0, len(grants), _RELEASED_AT_ONCE):
            some = grants[start : start + _RELEASED_AT_ONCE]
            try:
                self.others.transact(partial(bulk_rules.release_each, ids=some))
            except HoldfastError as error:
                self._tell("", error.code, f"could not release a lease: {error.message}")
