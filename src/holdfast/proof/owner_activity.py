"""What each owner of claims has claimed, refreshed, released and let expire."""

from __future__ import annotations

from holdfast.core.model import Value
from holdfast.proof.claim_state import ClaimState
from holdfast.proof.claims import node_order, nodes_of
from holdfast.proof.dialects import proof_codec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from holdfast.proof.claim_state import Claim
    from holdfast.proof.event_ledger import ProofLedger
    from holdfast.proof.event_reader import ProofEvent


class Agent(Value):
    """One owner of claims: its present nodes, and how often it has done what."""

    __slots__ = ("claimed", "expired", "last", "nodes", "owner", "refreshed", "released")

    def __init__(
        self,
        owner: str,
        nodes: tuple[str, ...],
        *,
        claimed: int,
        refreshed: int,
        released: int,
        expired: int,
        last: str,
    ) -> None:
        self.owner: Final = owner
        self.nodes: Final = nodes
        self.claimed: Final = claimed
        self.refreshed: Final = refreshed
        self.released: Final = released
        self.expired: Final = expired
        self.last: Final = last

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return self._fields()


def agents(ledger: ProofLedger) -> list[Agent]:
    """All owners of claims, those with live claims first, then by name. Reads every event."""
    state, tallies = ClaimState(), dict[str, _Tally]()
    for event in ledger.read():
        nodes = nodes_of(event.data)
        before = [state.claims.get(node) for node in nodes]
        ledger.folder.dialect.fold(state, event.sequence, event.data)
        for node, was in zip(nodes, before, strict=True):
            _count(tallies, event, was, state.claims.get(node))
    now = ledger.now()
    found = [
        Agent(
            owner,
            tuple(sorted((one.node for one in state.claims.values()
                          if one.owner == owner and one.is_live(now)), key=node_order)),
            claimed=tally.claimed, refreshed=tally.refreshed, released=tally.released,
            expired=tally.expired, last=tally.last,
        )
        for owner, tally in tallies.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (not one.nodes, one.owner))


class _Tally:
    __slots__ = ("claimed", "expired", "last", "refreshed", "released")

    def __init__(self) -> None:
        self.claimed = self.refreshed = self.released = self.expired = 0
        self.last = ""


def _count(
    tallies: dict[str, _Tally], event: ProofEvent, was: Claim | None, now: Claim | None
) -> None:
    if was == now:
        return
    if now is None and was is not None:
        tally = tallies.setdefault(was.owner, _Tally())
        if event.type == proof_codec.REAPED or not was.is_live(
            proof_codec.moment_of(event.timestamp) or 0
        ):
            tally.expired += 1
            return
        tally.released += 1
        tally.last = event.timestamp
    elif now is not None:
        tally = tallies.setdefault(now.owner, _Tally())
        if was is not None and was.owner == now.owner:
            tally.refreshed += 1
        else:
            tally.claimed += 1
        tally.last = event.timestamp
