"""Claims: who works on which node of a proof, until when.

    claims = Claims(ledger)
    claims.claim("1.2.3", owner="agent-7")
    claims.refresh("1.2.3", owner="agent-7")
    claims.release("1.2.3", owner="agent-7")

The ledger is the truth: the state is the replay of its events, each of which says it all. A claim
that has expired (`expires_at <= now`) is nobody's, whether it was reaped or not: its owner can
neither refresh nor release it, and anybody may claim the node.

Whatever is appended was decided under the ledger's lock on all events before it, so claims of
different nodes never get in each other's way, and a late release cannot free a successor's claim.
"""

from __future__ import annotations

import os

from holdfast.core.errors import LockExpiredError, LockNotHeldError
from holdfast.core.model import Value
from holdfast.manager.identity import checked_id
from holdfast.proof import checkpoint, codec, mirror
from holdfast.proof.errors import NodeAlreadyLocked
from holdfast.proof.reading import parsed, raw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from holdfast.proof.ledger import Check, Events, ProofLedger, Settle

    #: Asked at the moment that the new claim begins.
    Rule = Callable[[int], object]


class Claim(Value):
    """One claim, in nanoseconds of wall time. Without an end it was written by somebody whose end
    cannot be read, and lasts until it is released."""

    __slots__ = ("acquired_at", "expires_at", "node", "owner", "sequence")

    def __init__(
        self, node: str, owner: str, acquired_at: int | None, expires_at: int | None, sequence: int
    ) -> None:
        self.node: Final = node
        self.owner: Final = owner
        self.acquired_at: Final = acquired_at
        self.expires_at: Final = expires_at
        self.sequence: Final = sequence

    def is_live(self, now: int) -> bool:
        """Whether it still counts."""
        return self.expires_at is None or self.expires_at > now

    @property
    def is_whole(self) -> bool:
        """Whether it has a node and an owner that we would write as well."""
        return codec.is_node(self.node) and bool(self.owner)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        since, until = self.acquired_at, self.expires_at
        return {
            "node_id": self.node,
            "owner": self.owner,
            "acquired_at": None if since is None else codec.moment_text(since),
            "expires_at": None if until is None else codec.moment_text(until),
            "sequence": self.sequence,
        }


def fold(claims: dict[str, Claim], sequence: int, event: Mapping[str, Any]) -> None:
    """What an event changes. A node that is not known, or not spelled, changes nothing."""
    type, node = event.get("type"), event.get("node_id")
    if not isinstance(node, str):
        return
    if type == codec.ACQUIRED:
        claims[node] = Claim(
            node, str(event.get("owner") or ""), codec.moment_of(event.get("timestamp")),
            codec.moment_of(event.get("expires_at")), sequence,
        )  # fmt: skip
    elif type in (codec.RELEASED, codec.REAPED):
        claims.pop(node, None)


class Claims:
    """The claims of one proof, as far as the ledger has been read; every call reads what is new."""

    def __init__(self, ledger: ProofLedger) -> None:
        self._ledger: Final = ledger
        self._forget()

    def _forget(self) -> None:
        self._state: dict[str, Claim] = {}
        self._sequence = 0
        self._stamps = checkpoint.Stamps()
        self._is_cold = True

    # Looking

    def active(self) -> list[Claim]:
        """All claims that count now, by node."""
        now = self._ledger.now()
        return [claim for claim in self.known() if claim.is_live(now)]

    def known(self) -> list[Claim]:
        """All claims that were neither released nor reaped, expired ones too, by node."""
        with self._ledger.mutex:
            self._catch_up()
            return sorted(self._state.values(), key=lambda claim: node_order(claim.node))

    def get(self, node: str) -> Claim | None:
        """Who has a node now."""
        with self._ledger.mutex:
            self._catch_up()
            found = self._state.get(codec.checked_node(node))
        return found if found is not None and found.is_live(self._ledger.now()) else None

    # Changing

    def claim(self, node: str, *, owner: str, timeout: str | None = None) -> Claim:
        """Claim a node that nobody has. Raises NodeAlreadyLocked, also for one's own."""
        return self._acquire(node, owner, timeout, lambda at: self._check_free(node, owner, at))

    def refresh(self, node: str, *, owner: str, timeout: str | None = None) -> Claim:
        """Extend one's own claim from now on. Raises LockExpiredError or LockNotHeldError."""
        return self._acquire(node, owner, timeout, lambda at: self._check_own(node, owner))

    def release(self, node: str, *, owner: str) -> Claim:
        """Give one's own claim back. Raises LockExpiredError or LockNotHeldError."""
        codec.checked_node(node), checked_id(owner, "owner")
        ended: list[Claim] = []

        def check(head: int) -> None:
            self._catch_up(head)
            ended[:] = [self._check_own(node, owner)]

        event = {"type": codec.RELEASED, "node_id": node, "owner": owner}
        self._commit(lambda: [event], check, lambda numbers: mirror.remove(self._ledger, node))
        return ended[0]

    def reap(self, *, dry_run: bool = False) -> list[Claim]:
        """Record which claims have expired, and remove all files of such. What would be, if dry.

        A file of which the ledger knows nothing, or knows a successor, is only removed: an event
        would say that somebody lost what it did not have.
        """
        now = self._ledger.now()
        found = [claim for claim in self.known() if not claim.is_live(now) and claim.is_whole]
        if dry_run:
            return found
        reaped = [claim for claim in found if self._reap_one(claim)]
        mirror.tidy(self._ledger)
        return reaped

    def _acquire(self, node: str, owner: str, timeout: str | None, rule: Rule) -> Claim:
        codec.checked_node(node), checked_id(owner, "owner")
        length = (
            self._ledger.folder.timeout()
            if timeout is None
            else codec.timeout_of(timeout, "the timeout")
        )
        made: list[Claim] = []

        def events() -> list[Mapping[str, Any]]:
            now = self._ledger.now()
            made[:] = [Claim(node, owner, now, now + length, 0)]
            return [
                {
                    "type": codec.ACQUIRED,
                    "timestamp": codec.moment_text(now),
                    "node_id": node,
                    "owner": owner,
                    "expires_at": codec.moment_text(now + length),
                }
            ]

        def check(head: int) -> None:
            self._catch_up(head)
            rule((made[0].acquired_at if made else None) or self._ledger.now())

        def settle(numbers: list[int]) -> None:
            mirror.write(self._ledger, made[0])

        (number,) = self._commit(events, check, settle)
        return Claim(node, owner, made[0].acquired_at, made[0].expires_at, number)

    def _reap_one(self, claim: Claim) -> bool:
        """Record one expired claim, unless it is no longer there when our turn comes."""
        event = {"type": codec.REAPED, "node_id": claim.node, "owner": claim.owner}

        def check(head: int) -> None:
            self._catch_up(head)
            if self._state.get(claim.node) != claim:
                raise _Changed

        try:
            self._commit(
                lambda: [event], check, lambda numbers: mirror.remove(self._ledger, claim.node)
            )
        except _Changed:
            return False
        return True

    def _commit(self, events: Events, check: Check, settle: Settle) -> list[int]:
        with self._ledger.mutex:
            self._catch_up()  # what takes long is done before the lock is taken
            return self._ledger.commit(events, check, settle)

    # The rules

    def _check_free(self, node: str, owner: str, at: int) -> None:
        """Nobody may have it at the moment that the event will name, or two would overlap."""
        found = self._state.get(node)
        if found is None or not found.is_live(at):
            return
        until = "" if found.expires_at is None else f" until {codec.moment_text(found.expires_at)}"
        hint = "wait, or work on a different node"
        if found.owner == owner:
            hint = f"it is your own: holdfast proof refresh {node} extends it"
        raise NodeAlreadyLocked(
            f"node already locked: {found.owner} has {node}{until}", hint=hint, **found.to_dict()
        )

    def _check_own(self, node: str, owner: str) -> Claim:
        found = self._state.get(node)
        if found is None or found.owner != owner:
            by = "nobody has it" if found is None else f"{found.owner} has it"
            raise LockNotHeldError(
                f"{owner} has no claim on {node}: {by}",
                hint="stop working on it; holdfast proof status shows who has what",
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
        """Read what is new; from the checkpoint on if nothing has been read yet."""
        folder = self._ledger.folder
        if self._sequence and not os.path.lexists(folder.event(self._sequence)):
            self._forget()  # the ledger was put back to what it was before
        if self._is_cold:
            self._is_cold = False
            found = checkpoint.load(folder)
            if found is not None:
                self._sequence, state, self._stamps = found
                self._state = {row[0]: Claim(*row) for row in state}
        if upto is not None and upto == self._sequence:
            return
        for sequence, data, status in raw(folder, self._sequence, calm=self._sequence > 0):
            fold(self._state, sequence, parsed(folder, sequence, data).data)
            self._stamps.add(status)
            self._sequence = sequence
        if upto is None and self._stamps.are_due():
            rows = [
                [one.node, one.owner, one.acquired_at, one.expires_at, one.sequence]
                for one in self._state.values()
            ]
            checkpoint.save(folder, self._sequence, rows, self._stamps)


class _Changed(Exception):
    """What was to be reaped is no longer there."""


def node_order(node: str) -> list[tuple[int, str]]:
    """How nodes sort: 1.2 before 1.10."""
    is_short = len(node) <= codec.NODE_CHARACTERS_MAX  # Python converts no endless numbers
    return [
        (int(part), "") if is_short and part.isdecimal() else (0, part) for part in node.split(".")
    ]
