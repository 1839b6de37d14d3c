"""LockManager: acquire, renew, release.

Every method is thread-safe, and process-safe on an embedded store. A request is granted as a whole
or not at all. A refusal is recorded before it is raised.

Locks are advisory: they stop only programs that ask. `verify` and `fenced` enforce them where an
effect becomes visible.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import rules
from holdfast.core.errors import BadKeyError, Refused, StoreBusyError, StoreError
from holdfast.core.model import (
    PATIENCE_DEFAULT_SECONDS,
    SECOND,
    TTL_DEFAULT_SECONDS,
    Grant,
    Holder,
    Refusal,
    Request,
    Waiting,
)
from holdfast.manager import fork_check, request_limits
from holdfast.manager.clock import SystemClock
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import Tree, home_root
from holdfast.manager.files.unfinished_edits import dead_in, settles
from holdfast.manager.grants import GrantSnapshot, LockGrant
from holdfast.manager.ids import new_id
from holdfast.manager.ledger import Ledger
from holdfast.manager.ledger_location import complete, is_url, root_of
from holdfast.manager.owners.liveness import is_dead, own_witness
from holdfast.store import NEEDED_IN_CHILDREN, open_store
from holdfast.store.store_url import is_server

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from holdfast.core.ledger_time import Clock
    from holdfast.core.model import Conflicts, Ending, Event, Ticket, Verdict
    from holdfast.core.view import View
    from holdfast.manager.heartbeat import Heartbeat
    from holdfast.manager.keeper import Hold, Reaper
    from holdfast.store.contract import IsDead, Store, Waiter

    Path = str | os.PathLike[str]

NEEDED_IN_CHILDREN += [
    "holdfast.core.sentences", "holdfast.manager.owners.identity", "holdfast.manager.keeper",
    "holdfast.manager.all_grants", "select", "unicodedata", "pwd", "datetime",
]  # fmt: skip

#: How long a waiter relies on being woken before it checks again.
FALLBACK_SECONDS = 1.0
#: How many grants `reap` examines in one transaction.
REAPED_AT_ONCE = 100
REMEMBERED_MAX = 4096

#: How long running processes may overtake a waiter; see `holdfast.core.wait_line`.
GRACE = SECOND // 80

_TTL_DEFAULT = TTL_DEFAULT_SECONDS * SECOND
_PATIENCE_DEFAULT = PATIENCE_DEFAULT_SECONDS * SECOND


class LockManager(Ledger):
    """The locks of one repository, or of this process alone."""

    def __init__(
        self,
        store: Store | None = None,
        *,
        tree: Tree | None = None,
        clock: Clock | None = None,
        is_dead: IsDead = is_dead,
    ) -> None:
        """In memory, with paths compared as text, unless a store and a tree are given."""
        clock = clock or SystemClock()
        super().__init__(store or open_store("memory:", clock=clock, is_dead=is_dead), tree=tree)
        self._holders: dict[str, Holder] = {}
        self._holders_of = 0
        self._footprints = request_limits.Footprints(self._places, fixed=tree is None)
        self._heartbeat: Heartbeat | None = None
        if self.store.lease is not None:
            from holdfast.manager.heartbeat import Heartbeat

            self._heartbeat = Heartbeat(self, self.store.lease)

    @classmethod
    def open(cls, where: Path = ".", *, store: str | None = None) -> LockManager:
        """The locks of the repository around a path, or of the store with a URL (`memory:`,
        `sqlite:///…`, `postgresql://…`). An embedded store is created if missing."""
        clock = SystemClock()
        place = os.fspath(where)
        if store is None and is_url(place):
            store, place = place, ""
        if store == "memory:":
            return cls(clock=clock)
        if store is None:
            return cls.at(home_root(realpath.absolute(place)))
        is_shared = is_server(store)
        tree = Tree(root_of(store, place), is_shared=is_shared)
        dead = dead_in(tree.root, is_shared=is_shared)
        store = complete(store, tree.root)
        return cls(open_store(store, clock=clock, is_dead=dead), tree=tree, clock=clock)

    def close(self) -> None:
        """Close the store. Grants stay; on a server's ledger, those without a ttl only for as long
        as their last renewal lasts."""
        if self._heartbeat is not None:
            self._heartbeat.end()
        super().close()

    # Acquiring

    def try_acquire(
        self,
        *,
        holder: str | Holder,
        read_paths: Iterable[Path] = (),
        write_paths: Iterable[Path] = (),
        ttl: float | None = TTL_DEFAULT_SECONDS,
        reason: str = "",
    ) -> LockGrant | None:
        """Grant the whole request now, or return None. OverLockError for a write on a folder."""
        call = fork_check.count()
        request = self._kept(self.request(holder, read_paths, write_paths, ttl, reason))
        try:  # not in `_put`: an interrupt may come while it returns
            outcome = self._decide(
                call, lambda view: rules.acquire(view, request, wait=False, again=False)
            )
            if isinstance(outcome, Refusal) and settles(self, outcome.conflicts):
                outcome = self._decide(call, lambda view: rules.acquire(view, request, wait=False))
            grant = LockGrant(outcome, self._has_ended) if isinstance(outcome, Grant) else None
            fork_check.refuse_in_child(call)
            return grant
        except StoreBusyError:
            raise  # nothing was decided
        except BaseException:
            self._give_up(request.id, call)
            raise

    def ask(
        self,
        holder: str | Holder,
        read_paths: Iterable[Path] = (),
        write_paths: Iterable[Path] = (),
        *,
        ttl: float | None = TTL_DEFAULT_SECONDS,
        reason: str = "",
    ) -> LockGrant | Refusal:
        """Grant the whole request now, or return the refusal with its conflicts."""
        call = fork_check.count()
        request = self._kept(self.request(holder, read_paths, write_paths, ttl, reason))
        return self._put(
            call, request, lambda view: rules.acquire(view, request, wait=False, again=False)
        )

    def _put(self, call: int, request: Request, decide: Any) -> LockGrant | Refusal:
        """Decide on a request that does not wait. An interrupt leaves nothing behind."""
        try:
            outcome: Grant | Refusal = self._decide(call, decide)
            if isinstance(outcome, Refusal) and settles(self, outcome.conflicts):
                outcome = self._decide(call, decide)
            told = LockGrant(outcome, self._has_ended) if isinstance(outcome, Grant) else outcome
            fork_check.refuse_in_child(call)
            return told
        except StoreBusyError:
            raise  # nothing was decided
        except BaseException:
            self._give_up(request.id, call)
            raise

    def acquire(
        self,
        *,
        holder: str | Holder,
        read_paths: Iterable[Path] = (),
        write_paths: Iterable[Path] = (),
        timeout: float = 300,
        ttl: float | None = TTL_DEFAULT_SECONDS,
        reason: str = "",
        priority: int = 0,
        patience: float = PATIENCE_DEFAULT_SECONDS,
    ) -> LockGrant:
        """Grant the whole request, after waiting for up to `timeout` seconds.

        Raises LockTimeoutError after that; immediately, LockCycleError if waiting would deadlock,
        and LockConflictError if the request would upgrade a read that others share. After
        `patience` seconds no later request may overtake it.
        """
        call = fork_check.count()
        end = monotonic() + request_limits.seconds(timeout, "timeout")
        request = self._kept(
            self.request(
                holder, read_paths, write_paths, ttl, reason, priority=priority, patience=patience
            )
        )
        try:
            # Usually there is no need to wait, and no need for a waiter.
            outcome = self._decide(call, lambda view: rules.acquire_if_free(view, request))
            if outcome is not None:
                grant = LockGrant(outcome, self._has_ended)
            else:
                grant = self._stand_in_line(call, request, end, timeout)
            fork_check.refuse_in_child(call)
            return grant
        except Refused:
            raise  # the request has ended
        except BaseException:
            self._give_up(request.id, call)
            raise

    def _stand_in_line(self, call: int, request: Request, end: float, timeout: float) -> LockGrant:
        waiter = self.store.waiter()
        try:
            me = own_witness()
            patient = request.waiting(
                waiter=None if me == request.holder.witness else me,
                wake=waiter.address,
                grace=GRACE,
            )
            grant = self._wait_for(call, patient, waiter, end, timeout)
        except Refused:
            waiter.close()
            raise
        except BaseException:
            # The ledger may be unreachable, with the ticket still in it. A ticket whose address is
            # gone is never granted.
            waiter.discard()
            raise
        waiter.close()
        return grant

    def _wait_for(
        self, call: int, request: Request, waiter: Waiter, end: float, timeout: float
    ) -> LockGrant:
        while True:
            try:
                outcome = self._decide(call, lambda view: rules.acquire(view, request, wait=True))
                if not isinstance(outcome, Waiting):
                    break
                if settles(self, outcome.conflicts):
                    continue
                served = self._served(outcome, waiter, end)
            except StoreError as error:
                if not error.is_away or monotonic() >= end:
                    raise
                continue  # a server that comes back in time still has the ticket
            if served is not None:
                self._entrusted(served)
                return self._lock_grant(served)
            if monotonic() >= end:
                break
        if isinstance(outcome, Grant):
            self._entrusted(outcome)
            return self._lock_grant(outcome)
        if isinstance(outcome, Refusal):
            raise self._error(outcome, request.holder.id)
        late = self._decide(call, lambda view: rules.cancel(view, request.id, "timeout"))
        if late is not None:
            return self._lock_grant(late)
        from holdfast.core.sentences import timeout_error

        raise timeout_error(outcome.conflicts, now=self.now(), seconds=timeout, more=outcome.more)

    def _entrusted(self, grant: Grant) -> None:
        """A ticket may have been served by another host, which does not see the files here."""
        if self.store.lease is not None:
            from holdfast.manager.files.ended_edits import entrust

            entrust(self, grant)

    def _served(self, waiting: Waiting, waiter: Waiter, end: float) -> Grant | None:
        """Wait for the ticket's grant, until it is time to decide again."""
        look_at = monotonic() + FALLBACK_SECONDS
        if waiting.check_after is not None:
            look_at = min(look_at, monotonic() + waiting.check_after / SECOND)
        look_at = min(look_at, end)
        if (left := look_at - monotonic()) > 0 and waiter.wait(left):
            return self._look(lambda view: _live_grant(view, waiting.ticket.id))
        return None  # decide again: it was a hint, or the grant is not visible yet

    def _give_up(self, id: str, call: int) -> None:
        """Leave neither a ticket nor a grant that no caller knows of."""
        if call != fork_check.count():
            return  # a child forked during the call, which continues in the parent
        if not self._gave_up(id):
            from holdfast.manager.keeper import keep_trying

            keep_trying(lambda: self._gave_up(id))

    def _gave_up(self, id: str) -> bool:
        try:
            if self._transact(lambda view: rules.cancel(view, id, "cancelled")) is not None:
                self.release(id)
        except StoreBusyError:
            return False
        except StoreError as error:  # closed, or unreachable for this process: it ends with that
            return not error.is_away
        return True

    def ensure(
        self,
        *,
        holder: str | Holder,
        read_paths: Iterable[Path] = (),
        write_paths: Iterable[Path] = (),
        ttl: float | None = TTL_DEFAULT_SECONDS,
        reason: str = "",
    ) -> LockGrant:
        """A grant of this holder that covers the whole request: an existing one, or a new one."""
        call = fork_check.count()
        request = self._kept(self.request(holder, read_paths, write_paths, ttl, reason))
        outcome = self._put(call, request, lambda view: rules.ensure(view, request))
        if isinstance(outcome, Refusal):
            raise self._error(outcome, request.holder.id)
        return outcome

    def steal(
        self,
        *,
        holder: str | Holder,
        read_paths: Iterable[Path] = (),
        write_paths: Iterable[Path] = (),
        ttl: float | None = TTL_DEFAULT_SECONDS,
        reason: str = "",
    ) -> LockGrant:
        """Take over expired locks. LockConflictError if they are live, LockNotHeldError if free."""
        call = fork_check.count()
        request = self._kept(self.request(holder, read_paths, write_paths, ttl, reason))
        outcome = self._put(call, request, lambda view: rules.steal(view, request))
        if isinstance(outcome, Refusal):
            raise self._error(outcome, request.holder.id)
        return outcome

    # Holding

    def keep_alive(self, holder: Holder) -> None:
        """On a server's ledger, renew the holder's leases without a ttl from now on, as long as it
        has any. For requests that are not made by the methods above, before each of them."""
        if self._heartbeat is not None and holder.witness is not None:
            self._heartbeat.keep(holder.key)

    def _kept(self, request: Request) -> Request:
        """The same request, whose lease is renewed from its start if it has no ttl."""
        if request.ttl is None:
            self.keep_alive(request.holder)
        return request

    def renew(
        self,
        grant_id: str,
        *,
        holder: str | Holder | None = None,
        ttl: float | None = None,
        rest: float | None = None,
    ) -> LockGrant:
        """Extend a lease; only its holder can. Without `holder` the caller is this process."""
        key = None if holder is None else self.holder(holder).key
        lease = request_limits.lease(ttl)
        pause = None if rest is None else request_limits.microseconds(rest, "rest")
        me = own_witness()
        outcome = self._transact(
            lambda view: rules.renew(
                view, grant_id, holder_key=key, caller=me, ttl=lease, rest=pause
            )
        )
        if isinstance(outcome, Grant):
            return self._lock_grant(outcome)
        raise self._error(outcome)

    def verify(self, grant_id: str, path: Path | None = None, *, token: int) -> Verdict:
        """Whether a write may proceed. The verdict is true, or has the exact reason why not."""
        key = None if path is None else self._places.place(path).key
        return self._look(lambda view: rules.verify(view, grant_id, key, token))

    def fenced(
        self, grant: LockGrant | str, token: int | None = None
    ) -> AbstractContextManager[None]:
        """A short section, for one rename, in which no lock changes hands.

        It requires a live grant with its current token, and raises the exact error otherwise. No
        process can change the ledger meanwhile: do the work before, and only the last step inside.
        """
        if isinstance(grant, GrantSnapshot):
            return self.store.fenced(
                grant.id, grant.token if token is None else token, deadline=self._deadline()
            )
        if token is None:
            raise BadKeyError("a grant's id alone is not enough", hint="give its token too")
        return self.store.fenced(grant, token, deadline=self._deadline())

    def hold(
        self,
        *,
        holder: str | Holder | None = None,
        read_paths: Iterable[Path] = (),
        write_paths: Iterable[Path] = (),
        timeout: float = 300,
        ttl: float | None = TTL_DEFAULT_SECONDS,
        reason: str = "",
    ) -> Hold:
        """`with manager.hold(...) as grant:` waits, renews the lease, and releases it at the end.

        Without `holder`, every call is a separate holder.
        """
        from holdfast.manager.keeper import Hold

        owner = holder if holder is not None else f"hold-{new_id()[-12:]}"
        return Hold(
            self, owner, tuple(read_paths), tuple(write_paths),
            timeout=timeout, ttl=ttl, reason=reason,
        )  # fmt: skip

    # Releasing

    def release(self, grant_id: str, *, holder: str | Holder | None = None) -> bool:
        """Release a grant. True if this call ended it; releasing twice is not an error.

        With `holder`, raises LockNotHeldError unless that is the grant's holder.
        """
        call = fork_check.count()
        key = None if holder is None else self.holder(holder).key
        outcome: bool | Refusal = self._decide(
            call, lambda view: rules.release(view, grant_id, key)
        )
        if isinstance(outcome, Refusal):
            raise self._error(outcome)
        return outcome

    def force(self, grant_id: str, *, by: str | Holder, reason: str) -> GrantSnapshot:
        """Take a grant away from its holder, who is fenced. The event has both parties."""
        if not reason.strip():
            raise BadKeyError("forcing needs a reason", hint="give a reason, for the log")
        person = self.holder(by)
        outcome = self._transact(
            lambda view: rules.force(
                view, grant_id, by=person, reason=request_limits.one_line(reason)
            )
        )
        if isinstance(outcome, Grant):
            return GrantSnapshot(outcome)
        raise self._error(outcome)

    def reap(self) -> list[Ending]:
        """End every grant that is no longer live, and every ticket whose waiter is dead.

        Nothing depends on it: every decision reaps the grants that it examines.
        """
        from holdfast.manager.all_grants import pages

        over = pages(self.store, self._deadline, live=False)
        ids = [grant.id for page in over for grant in page]
        ids += self._look(
            lambda view: [one.id for one in view.queue() if not rules.has_live_waiter(view, one)]
        )
        endings: list[Ending] = []
        for start in range(0, len(ids), REAPED_AT_ONCE):
            some = ids[start : start + REAPED_AT_ONCE]
            endings += self._transact(lambda view, some=some: rules.reap(view, some))
        return endings

    def reaper(self, interval: float = 60) -> Reaper:
        """A thread that reaps periodically: `with manager.reaper():`."""
        from holdfast.manager.keeper import Reaper

        return Reaper(self, request_limits.seconds(interval, "interval"))

    # Queries

    def check_conflicts(
        self, *, read_paths: Iterable[Path] = (), write_paths: Iterable[Path] = ()
    ) -> Conflicts:
        """The conflicts that such a request would meet, reservations included: a list of the first
        20, whose `more` counts the others up to 1,000."""
        outsider = Holder(id="nobody", key="\n")  # no holder can have a key like that
        request = self.request(outsider, read_paths, write_paths)
        return self._look(lambda view: rules.look(view, request))

    def active_grants(self) -> Sequence[GrantSnapshot]:
        """All live grants, oldest first. The first 200 are a consistent snapshot; the others are
        read during the iteration, and other processes use the ledger in between."""
        from holdfast.manager.all_grants import ActiveGrants

        return ActiveGrants(self.store, self._deadline)

    def queue(self) -> list[Ticket]:
        """All tickets with live waiters, in order."""
        return self._look(
            lambda view: [one for one in view.queue() if rules.has_live_waiter(view, one)]
        )

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Event]:
        """The history, oldest first."""
        return self.store.events(after, limit)

    # Arguments to requests

    def holder(self, holder: str | Holder) -> Holder:
        """The holder for a name in this process; in another process it is another holder."""
        if not isinstance(holder, str):
            return holder
        if self._holders_of != fork_check.count():  # a forked child is another holder
            self._holders.clear()
            self._holders_of = fork_check.count()
        known = self._holders.get(holder)
        if known is None:
            if len(self._holders) >= REMEMBERED_MAX:
                self._holders.clear()
            from holdfast.manager.owners.identity import process_holder

            known = self._holders[holder] = process_holder(holder)
        return known

    def request(
        self,
        holder: str | Holder,
        read_paths: Iterable[Path] = (),
        write_paths: Iterable[Path] = (),
        ttl: float | None = TTL_DEFAULT_SECONDS,
        reason: str = "",
        *,
        priority: int = 0,
        patience: float = PATIENCE_DEFAULT_SECONDS,
    ) -> Request:
        """The request for these arguments. Raises for a path that cannot be locked."""
        owner = self.holder(holder)
        keys, modes, paths, silent = self._footprints.of(read_paths, write_paths)
        return Request(
            new_id(),
            owner,
            keys,
            modes,
            paths,
            silent,
            _TTL_DEFAULT if ttl == TTL_DEFAULT_SECONDS else request_limits.lease(ttl),
            request_limits.one_line(reason) if reason else "",
            request_limits.priority(priority) if priority else 0,
            _PATIENCE_DEFAULT
            if patience == PATIENCE_DEFAULT_SECONDS
            else request_limits.microseconds(patience, "patience"),
        )

    def _transact(self, decide: Any) -> Any:
        return self._decide(fork_check.count(), decide)

    def _decide(self, call: int, decide: Any) -> Any:
        return fork_check.decide_once(self.store, call, decide, self._deadline())

    def _lock_grant(self, grant: Grant) -> LockGrant:
        return LockGrant(grant, self._has_ended)

    def _has_ended(self, id: str) -> bool:
        return self._look(lambda view: _live_grant(view, id) is None)

    def _error(self, refusal: Refusal, requester: str = "") -> Exception:
        from holdfast.core.sentences import refusal_error

        return refusal_error(refusal, now=self.now(), requester=requester)


def _live_grant(view: View, id: str) -> Grant | None:
    grant = view.grant(id)
    return grant if isinstance(grant, Grant) and rules.is_live(view, grant) else None
