"""How the protocol writes a proof: `event-000001.json`, `lock_acquired`, `lock_timeout` as text.

It does not know the content of a proof, so any event may be appended and any node claimed.
"""

from __future__ import annotations

from holdfast.proof.claim_state import Claim
from holdfast.proof.dialects import proof_codec
from holdfast.proof.health.audit_finding import ERROR, NOTE, WARNING, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from holdfast.proof.claim_state import ClaimState


class SeedDialect:
    """The protocol's own dialect."""

    name = "protocol"
    #: Whether claims are mirrored in `locks/`.
    shows_claims = True
    #: Whether an `event_lost` may take the place of a lost event.
    fills_gaps = True
    #: Whether every program writes events with the same mode, whatever its umask.
    has_fixed_mode = False
    #: Only the commands for claims write these.
    claim_types = proof_codec.CLAIM_TYPES
    first_event = proof_codec.event_name(1)

    @staticmethod
    def event_name(sequence: int) -> str:
        """The file of an event."""
        return proof_codec.event_name(sequence)

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number in the name of an event's file; None unless the name has exactly that form."""
        return proof_codec.sequence_of(name)

    @staticmethod
    def is_event_like(name: str) -> bool:
        """Whether a file looks like an event."""
        return name.startswith("event-")

    @staticmethod
    def timeout(meta: bytes | None) -> int:
        """The duration of a claim in a proof with these settings."""
        return proof_codec.TIMEOUT_DEFAULT if meta is None else proof_codec.meta_timeout(meta)

    @staticmethod
    def encoded(event: Mapping[str, Any], now: int) -> bytes:
        """The bytes of an event. Raises BadEventError."""
        return proof_codec.event_bytes(event, now)

    @staticmethod
    def check_append(event: Mapping[str, Any]) -> None:
        """Raise BadEventError for an event that only the commands for claims may write."""

    @staticmethod
    def check_node(state: ClaimState, node: str) -> None:
        """Raise BadNodeError if no such node can be claimed."""

    # Claims

    @staticmethod
    def taken(node: str, owner: str, now: int, until: int) -> dict[str, Any]:
        """The event of a new claim."""
        return {
            "type": proof_codec.ACQUIRED, "timestamp": proof_codec.moment_text(now),
            "node_id": node,
            "owner": owner, "expires_at": proof_codec.moment_text(until),
        }  # fmt: skip

    #: A refresh is another claim by the same owner.
    extended = taken

    @staticmethod
    def released(node: str, owner: str) -> dict[str, Any]:
        """The event of a claim that is released."""
        return {"type": proof_codec.RELEASED, "node_id": node, "owner": owner}

    @staticmethod
    def reaped(node: str, owner: str) -> dict[str, Any]:
        """The event of a claim that has expired."""
        return {"type": proof_codec.REAPED, "node_id": node, "owner": owner}

    @staticmethod
    def fold(state: ClaimState, sequence: int, event: Mapping[str, Any]) -> None:
        """Apply an event to the state. An unknown or invalid node changes nothing."""
        type, node = event.get("type"), event.get("node_id")
        if not isinstance(node, str):
            return
        if type == proof_codec.ACQUIRED:
            since = proof_codec.moment_of(event.get("timestamp"))
            until = proof_codec.moment_of(event.get("expires_at"))
            state.put(Claim(node, str(event.get("owner") or ""), since, until, sequence))
        elif type in (proof_codec.RELEASED, proof_codec.REAPED):
            state.drop(node)

    def conduct(
        self, state: ClaimState, sequence: int, event: Mapping[str, Any]
    ) -> Iterator[Finding]:
        """What is wrong with a claim's event, after all earlier events."""
        type, flaw = event.get("type"), proof_codec.claim_flaw(event)
        name = self.event_name(sequence)
        if flaw:
            repair = "a claim without an end lasts until holdfast proof release"
            yield Finding("bad-claim", ERROR, f"{name}: {type} {flaw}", sequence, repair)
            return
        if type not in self.claim_types:
            return
        node, owner = event["node_id"], event["owner"]
        before = state.claims.get(node)
        if type == proof_codec.RELEASED and before is None:
            told = f"{name}: {type} of {node}, which was not claimed"
            yield Finding("free-release", NOTE, told, sequence)
        elif before is None or before.owner == owner:
            return
        elif type != proof_codec.ACQUIRED:
            told = f"{name}: {type} by {owner} ended the claim of {before.owner} on {node}"
            yield Finding("foreign-release", WARNING, told, sequence)
        elif before.is_live(latest(event)):
            told = f"{name}: {owner} claimed {node} while {before.owner} held it"
            yield Finding("double-claim", ERROR, told, sequence, "ask both; one of them must stop")


def latest(event: Mapping[str, Any]) -> int:
    """The latest moment that an event's time can mean: many programs record only seconds."""
    moment = proof_codec.moment_of(event["timestamp"]) or 0
    return moment if moment % proof_codec.SECOND else moment + proof_codec.SECOND
