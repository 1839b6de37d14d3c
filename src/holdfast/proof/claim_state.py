"""The claims of a ledger after a given event.

The state keeps no clock: the caller gives the moment at which a claim is to count.
"""

from __future__ import annotations

from holdfast.core.model import Value
from holdfast.proof.dialects import proof_codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


class Claim(Value):
    """One claim, in nanoseconds of wall time. A claim without an end was written with an
    unreadable one, and lasts until it is released."""

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
        """Whether it has not expired."""
        return self.expires_at is None or self.expires_at > now

    @property
    def is_whole(self) -> bool:
        """Whether it has a node and an owner that we would write too."""
        return proof_codec.is_node(self.node) and bool(self.owner)

    def is_shown_by(self, shown: Claim | None) -> bool:
        """Whether the claim in a file is this one."""
        return shown is not None and (shown.owner, shown.expires_at) == (
            self.owner, self.expires_at,
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        since, until = self.acquired_at, self.expires_at
        return {
            "node_id": self.node,
            "owner": self.owner,
            "acquired_at": None if since is None else proof_codec.moment_text(since),
            "expires_at": None if until is None else proof_codec.moment_text(until),
            "sequence": self.sequence,
        }

    def row(self) -> list[Any]:
        """The form in a checkpoint; `Claim(*row)` restores it."""
        return [self.node, self.owner, self.acquired_at, self.expires_at, self.sequence]


class ClaimState:
    """The claims that were neither released nor reaped, by node.

    `ended` has the last claim of each node that has none now: it distinguishes a file that was left
    behind from one that another program wrote. `nodes` has the nodes that can be claimed, in a
    dialect whose proofs name them.
    """

    __slots__ = ("_soonest", "claims", "ended", "nodes")

    def __init__(self) -> None:
        #: No claim ends before this, so that they need not all be checked.
        self._soonest: int | None = None
        self.claims: Final[dict[str, Claim]] = {}
        self.ended: Final[dict[str, Claim]] = {}
        self.nodes: Final[set[str]] = set()

    def put(self, claim: Claim) -> None:
        """Add the claim of a node."""
        self.claims[claim.node] = claim
        self.ended.pop(claim.node, None)
        if claim.expires_at is not None:
            self._soonest = min(self._soonest or claim.expires_at, claim.expires_at)

    def expired(self, now: int) -> list[Claim]:
        """The claims that have expired, and were neither released nor reaped."""
        if self._soonest is None or self._soonest > now:
            return []
        found = [claim for claim in self.claims.values() if not claim.is_live(now)]
        if not found:
            ends = [one.expires_at for one in self.claims.values() if one.expires_at is not None]
            self._soonest = min(ends, default=None)
        return found

    def drop(self, node: str) -> None:
        """Remove the claim of a node."""
        before = self.claims.pop(node, None)
        if before is not None:
            self.ended[node] = before

    def rows(self) -> list[Any]:
        """As plain data."""
        claims, ended = self.claims.values(), self.ended.values()
        return [[one.row() for one in claims], [one.row() for one in ended], sorted(self.nodes)]


def state_of(rows: list[Any]) -> ClaimState:
    """The state in a checkpoint. Raises TypeError or ValueError if it is invalid."""
    claims, ended, nodes = rows
    state = ClaimState()
    for row in claims:
        state.put(Claim(*row))
    state.ended.update((row[0], Claim(*row)) for row in ended)
    state.nodes.update(nodes)
    return state
