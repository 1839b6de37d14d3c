"""Half-done edits whose locks have ended by time, on a ledger that several hosts share.

There a lease ends when nobody renews it, for example because the host of a dispatcher has crashed.
Other hosts may then have its files, in checkouts of their own. In this checkout the files are still
half edited, and a keepsake of them exists (`holdfast.manager.files.keepsakes`). So:

- No decision of this process gives a file to anybody while a local keepsake has that file and its
  holder does not. It is checked inside the transaction, on the grants that the decision makes,
  whoever asked (`CarefulStore`). The files are restored first, and the decision is repeated.
- The files are restored under leases of their own, so that meanwhile no host has them.
- A file that another holder could write after the lease had ended is left as it is: the restore
  would overwrite work. The history of the ledger tells which files these are. Their copies stay,
  under the name `not-restored`, and an event in the ledger names them.
- While the process that made the edits is known to be alive, nothing is restored: it may still
  write. Whoever asks gets what the ledger gives.
- Files that cannot be restored stay held by the leases of the restore, until these end as well and
  the next request tries again.
- A request that waits here may be granted by a decision of another host, which has no half edit.
  Then the files are restored when the waiter learns of its grant, before it uses them (`entrust`).

Not promised: a file of work whose process was stopped or cut off for longer than its lease, and is
alive. A holder that uses its files before it has heard that they came free.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import monotonic

from holdfast.core import bulk_rules, events
from holdfast.core.conflicts import EXPIRED, IDLE, fate, steal_only
from holdfast.core.draft import Draft, reach
from holdfast.core.errors import BadKeyError, StoreBusyError
from holdfast.core.model import WRITE, Decision, Grant, Holder, Request
from holdfast.core.overlaps import Overlaps
from holdfast.manager.files.file_restore import LINK
from holdfast.manager.files.unfinished_edits import FOLDER, LIST, MARK, has_keepsakes
from holdfast.manager.ids import new_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    from holdfast.core.model import Event
    from holdfast.core.view import View
    from holdfast.manager.files.keepsakes import Keepsake
    from holdfast.manager.files.paths import Tree
    from holdfast.manager.ledger import Ledger
    from holdfast.store.contract import Store

    T = TypeVar("T")

#: The event that names the files of ended work that were left as they are.
NOT_RESTORED = "edits_not_restored"
#: How much of the history is read at once, from its end.
PAGE = 500
#: How long another process that restores the same files is waited for, at most.
PATIENCE_SECONDS = 30.0
#: How a grant ends if its holder, or a person, gave its files away as they were.
_GIVEN_AWAY = ("released", "forced", "stolen")
#: The beginning of the key of a holder that restores.
_RESTORER = "restore/"


class _Unfinished:
    """The outcome of a decision that must not be made yet: whose files to restore first."""

    def __init__(self, names: list[str]) -> None:
        self.names = names


class CarefulStore:
    """A shared store as it is used in one checkout: a file that ended work has left half edited
    there is restored before anybody gets it."""

    def __init__(self, store: Store, tree: Tree) -> None:
        self._store = store
        self._tree = tree
        # As they are: a frame in between would be one more place for an interrupt.
        self.url, self.lease = store.url, store.lease
        self.fenced, self.view, self.events = store.fenced, store.view, store.events
        self.wait, self.waiter = store.wait, store.waiter
        self.trim, self.close = store.trim, store.close
        #: The keys of a keepsake's files, with the state of its list when they were read.
        self._known: dict[str, tuple[tuple[int, int, int], tuple[str, ...]]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def transact(self, decide: Callable[[View], Decision[T]], *, deadline: float) -> T:
        """Decide, once nothing that the decision gives away is half edited here."""
        if not has_keepsakes(self._tree.root):
            return self._store.transact(decide, deadline=deadline)
        done: set[str] = set()

        def checked(view: View) -> Decision[Any]:
            decision = decide(view)
            names = self._half_edited(decision.events, done)
            return Decision(_Unfinished(names)) if names else decision

        while True:
            outcome: Any = self._store.transact(checked, deadline=deadline)
            if not isinstance(outcome, _Unfinished):
                told: T = outcome
                return told
            for name in outcome.names:
                self.settle(name, deadline)
                done.add(name)

    def entrust(self, grant: Grant) -> None:
        """Restore the files of a grant that its holder has not used yet."""
        if has_keepsakes(self._tree.root):
            for name in self._with_keys_of([grant], ()):
                self.settle(name, monotonic() + PATIENCE_SECONDS, frozenset((grant.id,)))

    def settle(self, name: str, deadline: float, own: frozenset[str] = frozenset()) -> bool:
        """Restore the files of one holder, unless it may still write them. True if they have been
        restored. Files that cannot be restored stay held. Raises StoreBusyError."""
        from holdfast.manager.files.keepsakes import Keepsake, KeepsakeError

        keepsake = Keepsake(self._tree.root, name)
        if keepsake.is_alone():  # this thread is about to end that work
            return False
        # Files stay held also if we lack the permission, as with those of another user.
        with suppress(KeepsakeError, OSError), keepsake.alone(deadline) as is_mine:
            if not is_mine:
                raise StoreBusyError(
                    f"another process has been restoring files of {name} for too long",
                    hint="try again; the files are given to nobody before they are restored",
                )
            if keepsake.is_there:
                return put_back(self, keepsake, name, own=own) is not None
        return False

    # What a decision gives away

    def _half_edited(self, made: Sequence[Event], done: set[str]) -> list[str]:
        """The holders of keepsakes with files that a decision gives to others."""
        given = [
            event.subject for event in made
            if event.type == events.LOCK_ACQUIRED and event.subject is not None
        ]  # fmt: skip
        if not given:
            return []
        ended = [
            event.subject for event in made
            if event.subject is not None and events.ENDINGS.get(event.type) in _GIVEN_AWAY
        ]  # fmt: skip
        return [name for name in self._with_keys_of(given, ended) if name not in done]

    def _with_keys_of(self, given: Sequence[Grant], ended: Sequence[Grant]) -> list[str]:
        """The holders of keepsakes with files of these grants, except what they gave away."""
        found = []
        folder = f"{self._tree.root}/{FOLDER}"
        for name in _names(folder):
            mark = f"{MARK}{name}"
            others = [grant for grant in given if mark not in grant.holder.marks]
            if not others or not os.path.lexists(f"{folder}/{name}/{LIST}"):
                continue
            gone = {key for grant in ended if mark in grant.holder.marks for key in grant.keys}
            wanted = Overlaps([key for grant in others for key in grant.keys])
            if any(wanted.of(key) for key in self._keys(name) if key not in gone):
                found.append(name)
        return found

    def _keys(self, name: str) -> tuple[str, ...]:
        from holdfast.manager.files.keepsakes import Keepsake, KeepsakeError

        try:
            now = os.stat(f"{self._tree.root}/{FOLDER}/{name}/{LIST}")
        except OSError:
            return ()
        state = now.st_ino, now.st_size, now.st_mtime_ns
        known = self._known.get(name)
        if known is None or known[0] != state:
            try:
                keys = tuple(keys_of(self._tree, Keepsake(self._tree.root, name)).values())
            except KeepsakeError:  # damaged: its files can only be restored by hand
                keys = ()
            known = self._known[name] = state, keys
        return known[1]

    # For `put_back`

    @property
    def tree(self) -> Tree:
        """The checkout."""
        return self._tree

    @property
    def shared(self) -> Store:
        """The store itself."""
        return self._store


def careful(store: Store, tree: Tree) -> Store:
    """The store as it is to be used in a checkout."""
    return CarefulStore(store, tree)


def entrust(manager: Ledger, grant: Grant) -> None:
    """A ticket of this process was served, maybe by another host: restore its files before they are
    used, if ended work has left them half edited here."""
    store: object = manager.store
    if isinstance(store, CarefulStore):
        store.entrust(grant)


def settle_ended(manager: Ledger, name: str) -> None:
    """Restore the files of a holder whose leases have ended by time."""
    store: object = manager.store
    if isinstance(store, CarefulStore):
        store.settle(name, monotonic() + PATIENCE_SECONDS)


def keys_of(tree: Tree, keepsake: Keepsake) -> dict[str, str]:
    """The files of a keepsake, each with the key under which it was leased. A link was leased as
    what it led to."""
    return {at: was.get("key") or _key(tree, at, was) for at, was in keepsake.entries()}


def _key(tree: Tree, at: str, was: Mapping[str, Any]) -> str:
    path = os.path.join(tree.root, at)
    if was["kind"] == LINK:
        path = os.path.realpath(os.path.join(os.path.dirname(path), was["to"]))
    try:
        return tree.place_of(path, path, None, 0).key
    except BadKeyError:
        return f"\n{at}"  # no lease can have such a key


# The restore


def put_back(
    store: CarefulStore,
    keepsake: Keepsake,
    name: str,
    *,
    own: frozenset[str] = frozenset(),
    by_owner: bool = False,
) -> list[str] | None:
    """Restore the files that no other holder could write since they were kept. Returns those that
    had changed; None if the holder may still write them. The caller is `alone` with the keepsake.

    `own` are grants of the caller under which nothing was written yet. `by_owner`: the caller has
    the work to undo, and keeps the leases that it still has. Raises KeepsakeError."""
    work = _Restore(store, name, own, by_owner)
    entries = keys_of(store.tree, keepsake)
    ours = work.taken({key: at for at, key in entries.items()})
    if ours is None:
        return None
    left = sorted(at for at, key in entries.items() if key in work.left)
    changed = keepsake.put_back(ours.__contains__, entries.__getitem__, sets_aside=bool(left))
    work.finish(left, f"{FOLDER}/{name}")
    return changed


class _Restore:
    """The leases of one restore, and what the ledger tells about the files."""

    def __init__(self, store: CarefulStore, name: str, own: frozenset[str], by_owner: bool) -> None:
        from holdfast.manager.owners.liveness import own_witness

        self._root, self._store = store.tree.root, store.shared
        self._name, self._mark = name, f"{MARK}{name}"
        self._own, self._by_owner = own, by_owner
        # With the mark of the work: if we die, the files stay held, and the next process goes on.
        self._holder = Holder(
            id=name, key=f"{_RESTORER}{name}/{new_id()}", witness=own_witness(),
            marks=(self._mark,),
        )  # fmt: skip
        self._ids: dict[str, str] = {}
        #: The keys of files that are not restored, although the work did not give them away.
        self.left: set[str] = set()

    def taken(self, wanted: Mapping[str, str]) -> set[str] | None:
        """Take leases for the files that may be restored; their keys. None if the holder lives."""
        got = None
        while got is None:
            held, head = self._look(lambda view: (self._held(view, wanted), view.head))
            past = self._history(set(wanted) - set(held), 0, head)
            owners = {grant.holder for grant in held.values()} | past.owners
            if not self._by_owner and any(map(self._lives, owners)):
                return None
            got = self._taken(held, {key: wanted[key] for key in past.ended})
        ours, now = got
        since = self._history(ours - set(held), head, now)
        ours -= since.overtaken
        self.left = (past.overtaken | past.unknown | past.ended) - ours
        return ours

    def finish(self, left: list[str], folder: str) -> None:
        """Release the leases of the restore, and record what was not restored."""

        def decide(view: View) -> Decision[None]:
            mine = [grant.id for grant in view.held_by(self._holder.key)]
            given: Decision[Any] = bulk_rules.release_each(view, mine)
            if left:
                said = {"holder": self._name, "paths": left, "copies": f"{folder}/not-restored"}
                given = bulk_rules.with_note(view, given, NOT_RESTORED, said, name="")
            return Decision(None, given.events, given.wake, given.hint)

        self._decide(decide)

    def _held(self, view: View, wanted: Iterable[str]) -> dict[str, Grant]:
        """The grants of the work that have not been ended by anybody, by key: as long as one is
        there, expired or not, nobody else had the file."""
        found = {}
        for key in wanted:
            for at, mode, id in view.scopes([key], []):
                grant = view.grant(id)
                if at != key or mode != WRITE or not isinstance(grant, Grant):
                    continue
                if id in self._own or self._mark in grant.holder.marks:
                    found[key] = grant
        return found

    def _taken(
        self, held: Mapping[str, Grant], ended: Mapping[str, str]
    ) -> tuple[set[str], int] | None:
        ids = {key: grant.id for key, grant in held.items()}
        return self._decide(lambda view: self._take(view, ids, ended))

    def _take(
        self, view: View, held: Mapping[str, str], ended: Mapping[str, str]
    ) -> Decision[tuple[set[str], int] | None]:
        draft = Draft(view)
        for id in dict.fromkeys(held.values()):
            grant = draft.live_grant(id)
            if grant is None:
                return Decision(None)  # it has changed meanwhile: look again
            if id in self._own or (self._by_owner and fate(draft, grant) not in (EXPIRED, IDLE)):
                continue
            heir = bulk_rules.heir(grant, self._holder, self._id(id), for_life=True)
            bulk_rules.move(draft, grant, [heir])
        ours = set(held)
        for key, path in ended.items():
            if self._is_free(draft, key):
                request = Request(
                    self._id(key), self._holder, (key,), WRITE, (path,), ttl=None,
                    reason=f"restoring what {self._name} left half done",
                )  # fmt: skip
                draft.admit(request, ticket=False)
                ours.add(key)
        return draft.done((ours, view.head))

    def _is_free(self, draft: Draft, key: str) -> bool:
        """Whether no live lease overlaps a key; leases that have ended are removed."""
        for _key, _mode, id in list(draft.scopes(*reach((key,)))):
            grant = draft.live_grant(id)
            if grant is None or id in self._own or self._mark in grant.holder.marks:
                continue
            why = fate(draft, grant)
            if not why or steal_only(grant):
                return False
            draft.end(grant, events.LOCK_REAPED, why=why)
        return True

    def _id(self, of: str) -> str:
        """The same id for the same lease, however often this is decided."""
        return self._ids.setdefault(of, new_id())

    def _lives(self, holder: Holder) -> bool:
        """Whether a process of the work is known to be alive. Its lease has ended, so another boot
        of this host is one that is over."""
        from holdfast.manager.owners import running_calls
        from holdfast.manager.owners.liveness import is_dead

        if holder.witness is None or holder.key.startswith(_RESTORER) or not self._is_of(holder):
            return False
        return (
            is_dead(
                holder.witness, holder.marks, lambda marks: running_calls.sought(self._root, marks)
            )
            is False
        )

    def _is_of(self, holder: Holder) -> bool:
        return self._mark in holder.marks

    def _history(self, wanted: set[str], after: int, head: int) -> _Past:
        """What became of these keys, from the newest event back to the last lease of the work."""
        past = _Past(wanted)
        high = head
        while past.unknown and high > after:
            low = max(after, high - PAGE)
            page = list(self._store.events(low, high - low))
            for event in reversed([event for event in page if event.seq <= high]):
                past.add(event, self._mark, {*self._own, *self._ids.values()})
            high = low
        return past

    def _look(self, question: Callable[[View], T]) -> T:
        from holdfast.manager.ledger import call_deadline, look_at

        return look_at(self._store, question, call_deadline(float("inf")))

    def _decide(self, rule: Callable[[View], Decision[T]]) -> T:
        from holdfast.manager.ledger import call_deadline

        return self._store.transact(rule, deadline=call_deadline(float("inf")))


class _Past:
    """The last lease of each key, read from the history, newest event first."""

    def __init__(self, wanted: Iterable[str]) -> None:
        #: Not found yet.
        self.unknown = set(wanted)
        #: The work had them last, until its lease ended by itself.
        self.ended: set[str] = set()
        #: Another holder could write them after that.
        self.overtaken: set[str] = set()
        self.owners: set[Holder] = set()
        self._ends: dict[str, str] = {}

    def add(self, event: Event, mark: str, but: set[str]) -> None:
        """The next older event; `but` are grants that do not count."""
        if event.type in events.ENDINGS:
            data = event.data
            self._ends[data["grant"]] = events.ENDINGS[event.type] or data["why"]
        if event.type != events.LOCK_ACQUIRED or not self.unknown:
            return
        from holdfast.core import codec

        grant = codec.grant_of(event)
        writes = [key for key, mode in zip(grant.keys, grant.modes, strict=True) if mode == WRITE]
        if grant.id in but or not writes:
            return
        there = Overlaps(writes)
        found = {key for key in self.unknown if there.of(key)}
        if not found:
            return
        self.unknown -= found
        if mark not in grant.holder.marks:
            self.overtaken |= found
        elif self._ends.get(grant.id) not in _GIVEN_AWAY:
            self.ended |= found
            self.owners.add(grant.holder)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
