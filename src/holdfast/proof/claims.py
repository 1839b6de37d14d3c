"""Claims: which owner works on which node of a proof, and until when.

    claims = Claims(ledger)
    claims.claim("1.2.3", owner="agent-7")
    claims.append({"type": "note", "node_id": "1.2.3"}, owner="agent-7")
    claims.refresh("1.2.3", owner="agent-7")
    claims.release("1.2.3", owner="agent-7")

The ledger is the truth: the state is the replay of its events, each of which is complete. A claim
that has expired (`expires_at <= now`) has no owner, whether it was reaped or not: its former owner
can neither refresh nor release it, and any owner may claim the node.

Every event is decided under the ledger's lock, on all events before it, so claims of different
nodes never conflict, and a late release cannot free a successor's claim.
"""

from __future__ import annotations

import os

from holdfast.core.errors import LockExpiredError, LockNotHeldError
from holdfast.manager.owners.identity import checked_id
from holdfast.proof import checkpoint, claim_files
from holdfast.proof.claim_state import Claim, ClaimState
from holdfast.proof.dialects import proof_codec
from holdfast.proof.errors import NodeAlreadyLocked
from holdfast.proof.event_reader import parsed, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from holdfast.proof.event_ledger import ProofLedger

__all__ = ["Claim", "Claims", "node_order", "nodes_of"]


class Claims:
    """The claims of one proof. Every call reads the new events first."""

    def __init__(self, ledger: ProofLedger) -> None:
        self._ledger: Final = ledger
        self._dialect: Final = ledger.folder.dialect
        self._forget()

    def _forget(self) -> None:
        self._state = ClaimState()
        self._sequence = 0
        self._stamps = checkpoint.Stamps()
        self._is_cold = True
        #: Whether the ledger ever had the claims in some files, as far as they were looked up.
        self._had: dict[tuple[str, str, int | None], bool] = {}

    # Reading

    def active(self) -> list[Claim]:
        """All live claims, by node."""
        now = self._ledger.now()
        return [claim for claim in self.known() if claim.is_live(now)]

    def known(self) -> list[Claim]:
        """All claims that were neither released nor reaped, including expired ones, by node."""
        with self._ledger.mutex:
            self._catch_up()
            return sorted(self._state.claims.values(), key=lambda claim: node_order(claim.node))

    def get(self, node: str) -> Claim | None:
        """The live claim on a node."""
        with self._ledger.mutex:
            self._catch_up()
            found = self._state.claims.get(proof_codec.checked_node(node))
        return found if found is not None and found.is_live(self._ledger.now()) else None

    def left_behind(self) -> list[Claim]:
        """The claims in files in `locks/` although the ledger has ended them."""
        with self._ledger.mutex:
            self._catch_up()
            return self._left_behind()

    # Changing

    def claim(self, node: str, *, owner: str, timeout: str | None = None) -> Claim:
        """Claim a node that is free. Raises NodeAlreadyLocked, even if the owner is the same.

        All expired claims are reaped in the same step, on whatever nodes. Of the files of other
        programs only that of this node is read.
        """
        length = self._checked(node, owner, timeout)
        made = Claim(node, owner, self._ledger.now(), None, 0)
        ended: list[Claim] = []

        def check(head: int) -> None:
            self._catch_up(head)
            self._dialect.check_node(self._state, node)
            self._check_free(node, owner, made.acquired_at or 0)

        def events() -> list[Mapping[str, Any]]:
            nonlocal made
            now = self._ledger.now()
            made = Claim(node, owner, now, now + length, 0)
            ended[:] = self._stale(now, node)
            taken = self._dialect.taken(node, owner, now, now + length)
            return [*self._reaped(ended), taken]

        def settle(numbers: list[int]) -> None:
            self._unshow(ended)
            claim_files.write(self._ledger, made)

        with self._ledger.mutex:
            self._catch_up()  # slow work is done before the lock is taken
            numbers = self._ledger.commit(
                events, check, settle, lambda: ended == self._stale(made.acquired_at or 0, node)
            )
        return Claim(node, owner, made.acquired_at, made.expires_at, numbers[-1])

    def refresh(self, node: str, *, owner: str, timeout: str | None = None) -> Claim:
        """Extend the owner's claim, from now on. Raises LockExpiredError or LockNotHeldError."""
        length = self._checked(node, owner, timeout)
        made = Claim(node, owner, None, None, 0)

        def check(head: int) -> None:
            self._catch_up(head)
            self._check_own(node, owner)

        def events() -> list[Mapping[str, Any]]:
            nonlocal made
            now = self._ledger.now()
            made = Claim(node, owner, now, now + length, 0)
            return [self._dialect.extended(node, owner, now, now + length)]

        with self._ledger.mutex:
            self._catch_up()
            (number,) = self._ledger.commit(
                events, check, lambda numbers: claim_files.write(self._ledger, made)
            )
        return Claim(node, owner, made.acquired_at, made.expires_at, number)

    def release(self, node: str, *, owner: str) -> Claim:
        """Release the owner's claim. Raises LockExpiredError or LockNotHeldError."""
        self._checked(node, owner, None)
        ended: list[Claim] = []

        def check(head: int) -> None:
            self._catch_up(head)
            ended[:] = [self._check_own(node, owner)]

        with self._ledger.mutex:
            self._catch_up()
            self._ledger.commit(
                lambda: [self._dialect.released(node, owner)],
                check,
                lambda numbers: self._unshow(ended),
            )
        return ended[0]

    def reap(self, *, dry_run: bool = False) -> list[Claim]:
        """Record the claims that have expired, and remove their files; if dry, only return them.

        This includes claims in other programs' files, in a dialect that has an event for them.
        """
        now = self._ledger.now()
        ended: list[Claim] = []

        def check(head: int) -> None:
            self._catch_up(head)
            if not self._stale(now):
                raise _Changed

        def events() -> list[Mapping[str, Any]]:
            ended[:] = self._stale(now)
            return self._reaped(ended)

        with self._ledger.mutex:
            self._catch_up()
            found = self._stale(now)
            if dry_run:
                return found
            try:
                if found:
                    self._ledger.commit(
                        events,
                        check,
                        lambda numbers: self._unshow(ended),
                        lambda: ended == self._stale(now),
                    )
            except _Changed:
                ended = []
            self._tidy()
        return ended

    def append(
        self,
        event: Mapping[str, Any],
        *,
        owner: str,
        if_sequence: int | None = None,
        force: bool = False,
    ) -> int:
        """Append an event, unless it is about a node that another owner has claimed.

        In that case it raises NodeAlreadyLocked. Raises SequenceMismatch like `append_if_sequence`.
        With `force` the claims of other owners do not count.
        """
        checked_id(owner, "owner")
        self._dialect.check_append(event)
        nodes = [] if force else nodes_of(event)

        def check(head: int) -> None:
            self._ledger.check_sequence(head, if_sequence)
            if nodes:
                self._catch_up(head)
            for node in nodes:
                self._check_unclaimed(node, owner)

        with self._ledger.mutex:
            if nodes:  # otherwise the claims do not matter, and a damaged ledger has none
                self._catch_up()
            return self._ledger.commit(lambda: [event], check)[0]

    def _checked(self, node: str, owner: str, timeout: str | None) -> int:
        """The duration of a claim, if the arguments are valid. Raises otherwise."""
        proof_codec.checked_node(node), checked_id(owner, "owner")
        if timeout is None:
            return self._ledger.folder.timeout()
        return proof_codec.timeout_of(timeout, "the timeout")

    # Claims that have expired

    def _stale(self, now: int, node: str | None = None) -> list[Claim]:
        """The claims to reap, by the events read so far: of files, those of one node, or all."""
        found = [claim for claim in self._state.expired(now) if claim.is_whole]
        if claim_files.is_kept(self._ledger):
            files = claim_files.stale(self._ledger, self._state, now, node)
            found += [claim for claim in files if not self._was_ours(claim)]
        return sorted(found, key=lambda claim: (node_order(claim.node), claim.owner))

    def _reaped(self, claims: list[Claim]) -> list[Mapping[str, Any]]:
        return [self._dialect.reaped(claim.node, claim.owner) for claim in claims]

    def _unshow(self, claims: list[Claim]) -> None:
        for claim in claims:
            claim_files.remove(self._ledger, claim)

    def _tidy(self) -> None:
        """Remove the files of claims that the ledger has ended."""
        if not claim_files.is_kept(self._ledger) or not self._left_behind():
            return
        with self._ledger.locked():  # or a file written just now would be removed
            self._catch_up()
            self._unshow(self._left_behind())

    def _left_behind(self) -> list[Claim]:
        """The claims in files although the ledger has ended them: the last one of its node, or an
        earlier one whose process was killed before it could remove the file."""
        now = self._ledger.now()
        old = claim_files.stale(self._ledger, self._state, now)
        found = claim_files.left_behind(self._ledger, self._state)
        return [*found, *(claim for claim in old if self._was_ours(claim))]

    def _was_ours(self, claim: Claim) -> bool:
        """Whether the ledger has ever had the claim in a file: then an event has ended it, and no
        further event is needed. Only nodes with several claims need a search of the history."""
        if claim.node not in self._state.ended and claim.node not in self._state.claims:
            return False
        key = (claim.node, claim.owner, claim.expires_at)
        if key not in self._had:
            state, folder = ClaimState(), self._ledger.folder
            self._had[key] = False
            for sequence, data, _status in raw(folder, 0, calm=False):
                self._dialect.fold(state, sequence, parsed(folder, sequence, data).data)
                had = state.claims.get(claim.node)
                if had is not None and had.is_shown_by(claim):
                    self._had[key] = True
                    break
        return self._had[key]

    # The rules

    def _check_free(self, node: str, owner: str, at: int) -> None:
        """Raise if the node is claimed at the moment that the event will name: two claims would
        overlap."""
        found = self._state.claims.get(node)
        if found is not None and found.is_live(at):
            hint = "wait, or work on a different node"
            if found.owner == owner:
                hint = f"it is yours: holdfast proof refresh {node} extends it"
            raise _locked(found, hint)
        self._check_file(node, owner, at)

    def _check_unclaimed(self, node: str, owner: str) -> None:
        """Raise if another owner has claimed a node."""
        now, found = self._ledger.now(), self._state.claims.get(node)
        if found is not None and found.is_live(now) and found.owner != owner:
            raise _locked(found, "wait, or ask its owner; a person can append it with --force")
        if found is None or not found.is_live(now):
            self._check_file(node, owner, now)

    def _check_file(self, node: str, owner: str, at: int) -> None:
        """Raise if another program has claimed a node only in a file."""
        shown = claim_files.shown(self._ledger, node) if proof_codec.is_node(node) else None
        if shown is None or shown.owner == owner or not claim_files.counts(shown, at):
            return
        if claim_files.is_foreign(self._state, shown) and not self._was_ours(shown):
            name = proof_codec.claim_name(node)
            raise _locked(
                shown, f"wait, or ask its owner: it is in {proof_codec.CLAIM_FILES}/{name}"
            )

    def _check_own(self, node: str, owner: str) -> Claim:
        found = self._state.claims.get(node)
        if found is None or found.owner != owner:
            by = "it is free" if found is None else f"{found.owner} has it"
            raise LockNotHeldError(
                f"{owner} has no claim on {node}: {by}",
                hint="stop working on it; holdfast proof status shows all claims",
                node_id=node,
                owner=owner,
            )
        if not found.is_live(self._ledger.now()):
            raise LockExpiredError(
                f"the claim of {owner} on {node} has expired",
                hint="stop working on it, and claim it again if it is still free",
                **found.to_dict(),
            )
        return found

    # Reading

    def _catch_up(self, upto: int | None = None) -> None:
        """Read the new events, from the checkpoint on if nothing has been read yet."""
        folder = self._ledger.folder
        if self._sequence and not os.path.lexists(folder.event(self._sequence)):
            self._forget()  # the ledger was restored to an earlier state
        if self._is_cold:
            self._is_cold = False
            found = checkpoint.load(folder)
            if found is not None:
                self._sequence, self._state, self._stamps = found
        if upto is not None and upto == self._sequence:
            return
        for sequence, data, status in raw(folder, self._sequence, calm=self._sequence > 0):
            self._dialect.fold(self._state, sequence, parsed(folder, sequence, data).data)
            self._stamps.add(status)
            self._sequence = sequence
        if upto is None and self._stamps.are_due():
            checkpoint.save(folder, self._sequence, self._state, self._stamps)


class _Changed(Exception):
    """The claims to reap have changed."""


def _locked(claim: Claim, hint: str) -> NodeAlreadyLocked:
    until = (
        "" if claim.expires_at is None else f" until {proof_codec.moment_text(claim.expires_at)}"
    )
    return NodeAlreadyLocked(
        f"node already locked: {claim.owner} has {claim.node}{until}", hint=hint, **claim.to_dict()
    )


def nodes_of(event: Mapping[str, Any]) -> list[str]:
    """The nodes that an event names: in `node_id`, `node_ids`, or as its `node`."""
    node = event.get("node")
    ids = event.get("node_ids")
    named = [event.get("node_id"), *(ids if isinstance(ids, list | tuple) else ())]
    named.append(node.get("id", node.get("node_id")) if isinstance(node, dict) else node)
    return [one for one in named if isinstance(one, str)]


def node_order(node: str) -> list[tuple[int, str]]:
    """The sort key of a node: 1.2 before 1.10."""
    is_short = (
        len(node) <= proof_codec.NODE_CHARACTERS_MAX
    )  # Python refuses to convert very long numbers
    return [
        (int(part), "") if is_short and part.isdecimal() else (0, part) for part in node.split(".")
    ]
