"""How af writes a proof: `000001.json`, `nodes_claimed`, a timeout in nanoseconds.

af replays all events for each command, and a single event that it does not expect makes the whole
proof unreadable for it: an unknown type, a claim of a node that does not exist or is claimed (even
if that claim has expired), a release of a free node, a refresh by another owner. So an expired
claim is released before the node is claimed again, and everything is decided under the ledger's
lock, on a replay of all events so far.

Files in `locks/` belong to af's library. They are respected and left alone: af's replay has no
event for them.
"""

from __future__ import annotations

import re

from holdfast.proof.claim_state import Claim
from holdfast.proof.dialects import proof_codec
from holdfast.proof.errors import BadEventError, BadNodeError, BadTimeoutError
from holdfast.proof.health.audit_finding import ERROR, Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from holdfast.proof.claim_state import ClaimState

CLAIMED = "nodes_claimed"
REFRESHED = "claim_refreshed"
RELEASED = "nodes_released"
CREATED = "node_created"

TIMEOUT_DEFAULT = 3600 * proof_codec.SECOND

_EVENT_NAME = re.compile(r"([0-9]{6}|[1-9][0-9]{6,17})\.json\Z", re.ASCII)
_NUMBERED = re.compile(r"[0-9]+\.json\Z", re.ASCII)
#: Go escapes these in texts, and they occur nowhere else in JSON.
_SPELLED = {"&": b"\\u0026", "<": b"\\u003c", ">": b"\\u003e", "\u2028": b"\\u2028",
            "\u2029": b"\\u2029"}  # fmt: skip
_SEVERITIES = ("critical", "major", "minor", "note")
_CANNOT = "af cannot read its proof from this event on; restore it from a backup"


def is_event(name: str) -> bool:
    """Whether af counts a file of that name as an event: a number, padded or not."""
    return _NUMBERED.match(name) is not None


class AfDialect:
    """The dialect of af."""

    name = "af"
    shows_claims = False
    fills_gaps = False
    has_fixed_mode = True
    claim_types = (CLAIMED, REFRESHED, RELEASED)
    first_event = "000001.json"

    @staticmethod
    def event_name(sequence: int) -> str:
        """The file of an event."""
        return f"{sequence:06d}.json"

    @staticmethod
    def sequence_of(name: str) -> int | None:
        """The number in the name of an event's file, or None if af would not find that name."""
        found = _EVENT_NAME.match(name)
        return (int(found[1]) or None) if found else None

    @staticmethod
    def is_event_like(name: str) -> bool:
        """Whether af counts a file as an event."""
        return is_event(name)

    @staticmethod
    def timeout(meta: bytes | None) -> int:
        """The duration of a claim in a proof with these settings."""
        given = proof_codec.meta_fields(meta or b"{}").get("lock_timeout", 0)
        if given == 0:
            return TIMEOUT_DEFAULT
        is_whole = isinstance(given, int) and not isinstance(given, bool)
        if not is_whole or not proof_codec.TIMEOUT_MIN <= given <= proof_codec.TIMEOUT_MAX:
            raise BadTimeoutError(
                f"lock_timeout in meta.json: {str(given)[:40]} is out of range",
                hint="af keeps it in nanoseconds, from 1000000000 (1 s) to 3600000000000 (1 h)",
            )
        return int(given)

    @staticmethod
    def encoded(event: Mapping[str, Any], now: int) -> bytes:
        """The bytes of an event, exactly as af writes them. Raises BadEventError."""
        data = proof_codec.event_bytes(event, now)
        for character, spelled in _SPELLED.items():
            data = data.replace(character.encode(), spelled)
        return proof_codec.checked_size(data)

    @staticmethod
    def check_append(event: Mapping[str, Any]) -> None:
        """Raise BadEventError for an event that af might be unable to replay.

        Most of af's events depend on earlier events, and af writes them itself. Allowed here are
        those that it can always replay.
        """
        type = event.get("type")
        fields = _APPENDED.get(type) if isinstance(type, str) else None
        if fields is None:
            raise BadEventError(
                f"{str(type)[:80]!r} cannot be appended to a proof of af: af could not replay it, "
                "or only after events that af itself checks",
                hint=f"use af's own command; {', '.join(sorted(_APPENDED))} can be appended here",
            )
        flaw = _flaw(event, {**fields, "type": _is_text, "timestamp": _is_moment}, ("timestamp",))
        if flaw:
            raise BadEventError(
                f"{type} {flaw}", hint="af reads this event only with exactly its own fields"
            )

    @staticmethod
    def check_node(state: ClaimState, node: str) -> None:
        """Raise BadNodeError if af has no such node, since it could not replay a claim on it."""
        if node not in state.nodes:
            raise BadNodeError(
                f"this proof of af has no node {node} that can be claimed",
                hint="af status shows its nodes",
                node=node,
            )

    # Claims

    @staticmethod
    def taken(node: str, owner: str, now: int, until: int) -> dict[str, Any]:
        """The event of a new claim."""
        return {
            "type": CLAIMED, "timestamp": proof_codec.moment_text(now), "node_ids": [node],
            "owner": owner, "timeout": proof_codec.moment_text(until),
        }  # fmt: skip

    @staticmethod
    def extended(node: str, owner: str, now: int, until: int) -> dict[str, Any]:
        """The event of a claim that is refreshed."""
        return {
            "type": REFRESHED, "timestamp": proof_codec.moment_text(now), "node_id": node,
            "owner": owner, "new_timeout": proof_codec.moment_text(until),
        }  # fmt: skip

    @staticmethod
    def released(node: str, owner: str) -> dict[str, Any]:
        """The event of a claim that is released."""
        return {"type": RELEASED, "node_ids": [node]}

    #: af records an expired claim as a release.
    reaped = released

    @staticmethod
    def fold(state: ClaimState, sequence: int, event: Mapping[str, Any]) -> None:
        """Apply an event to the state, as af's own replay does."""
        type = event.get("type")
        if type == CREATED:
            _create(state, event.get("node"))
        elif type == CLAIMED:
            since, until = map(
                proof_codec.moment_of, (event.get("timestamp"), event.get("timeout"))
            )
            for node in _nodes(event):
                state.put(Claim(node, str(event.get("owner") or "unknown"), since, until, sequence))
        elif type == REFRESHED:
            before = state.claims.get(str(event.get("node_id")))
            if before is not None and before.owner == event.get("owner"):
                until = proof_codec.moment_of(event.get("new_timeout"))
                state.put(
                    Claim(before.node, before.owner, before.acquired_at, until, before.sequence)
                )
        elif type == RELEASED:
            for node in _released(state, event):
                state.drop(node)
                state.nodes.add(node)
        elif (
            event.get("release_claim") is True
        ):  # later versions end a claim together with the work
            before = state.claims.get(str(event.get("node_id")))
            if before is not None and before.sequence == event.get("claim_seq"):
                state.drop(before.node)

    def conduct(
        self, state: ClaimState, sequence: int, event: Mapping[str, Any]
    ) -> Iterator[Finding]:
        """The reasons why af could not replay the event of a claim, after all earlier events."""
        name, type = self.event_name(sequence), str(event.get("type"))
        for why in _unreplayable(state, event):
            yield Finding("unreplayable", ERROR, f"{name}: {type} {why}", sequence, _CANNOT)


def _create(state: ClaimState, node: object) -> None:
    id = node.get("id") if isinstance(node, dict) else None
    if not isinstance(node, dict) or not isinstance(id, str):
        return
    state.drop(id)
    if node.get("workflow_state", "available") == "available":
        state.nodes.add(id)
    else:
        state.nodes.discard(id)


def _nodes(event: Mapping[str, Any]) -> list[str]:
    found = event.get("node_ids")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _released(state: ClaimState, event: Mapping[str, Any]) -> Iterator[str]:
    """The nodes that a release frees. Later versions also name the claim, by the number of its
    event, so that a late release frees no successor."""
    meant = event.get("claim_seqs")
    meant = meant if isinstance(meant, list) else []
    for at, node in enumerate(_nodes(event)):
        number = meant[at] if at < len(meant) else 0
        before = state.claims.get(node)
        if not number or before is None or before.sequence == number:
            yield node


def _unreplayable(state: ClaimState, event: Mapping[str, Any]) -> Iterator[str]:
    type = event.get("type")
    if type in proof_codec.CLAIM_TYPES:
        yield "is not an event of af"
    elif type == CLAIMED:
        for node in _nodes(event):
            before = state.claims.get(node)
            if before is not None:
                yield f"of {node}, which {before.owner} has claimed and not released"
            elif node not in state.nodes:
                yield f"of {node}, which is not a node of the proof"
    elif type == REFRESHED:
        before = state.claims.get(str(event.get("node_id")))
        if before is None or before.owner != event.get("owner"):
            yield f"of {event.get('node_id')}, which {event.get('owner')} has not claimed"
    elif type == RELEASED:
        for node in _released(state, event):
            if node not in state.claims:
                yield f"of {node}, which is not claimed"


# What may be appended


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_moment(value: object) -> bool:
    return proof_codec.moment_of(value, zone_needed=True) is not None


def _is_severity(value: object) -> bool:
    return value in _SEVERITIES


def _object(**fields: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, dict) and not _flaw(value, fields)


_APPENDED: dict[str, dict[str, Callable[[object], bool]]] = {
    "challenge_raised": {
        "challenge_id": _is_text, "node_id": proof_codec.is_node, "target": _is_text,
        "reason": _is_text,
        "severity": _is_severity, "raised_by": _is_text,
    },
    "def_added": {
        "definition": _object(id=_is_text, name=_is_text, definition=_is_text, created=_is_moment)
    },
    "lemma_extracted": {
        "lemma": _object(id=_is_text, statement=_is_text, node_id=proof_codec.is_node,
        created=_is_moment)
    },
}  # fmt: skip


def _flaw(
    given: Mapping[str, Any],
    fields: Mapping[str, Callable[[object], bool]],
    optional: tuple[str, ...] = (),
) -> str:
    """What is wrong with the fields of an event. Unexpected fields are not allowed, because Go
    treats names that differ only in case as equal."""
    for name in given:
        if name not in fields:
            return f"has a field {name!r} that af does not expect"
    for name, is_right in fields.items():
        if (name in given or name not in optional) and not is_right(given.get(name)):
            return f"has no {name}, or one that af cannot read"
    return ""
