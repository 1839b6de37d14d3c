"""How a proof is written on disk: names of files, events, the ledger's lock, claim files, times.

This module contains formats and no decisions. Moments are whole nanoseconds of wall time since
1970, in UTC.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from holdfast.proof.errors import BadEventError, BadNodeError, BadTimeoutError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

LEDGER = "ledger"
LOCK = "ledger.lock"
CLAIM_FILES = "locks"
META = "meta.json"

ACQUIRED = "lock_acquired"
RELEASED = "lock_released"
REAPED = "lock_reaped"
CLAIM_TYPES = (ACQUIRED, RELEASED, REAPED)
#: Takes the place of a lost event, so that later events keep their numbers.
LOST = "event_lost"

SECOND = 1_000_000_000
TIMEOUT_DEFAULT = 5 * 60 * SECOND
TIMEOUT_MIN = SECOND
TIMEOUT_MAX = 3600 * SECOND

#: Other programs read no larger or deeper events.
EVENT_BYTES_MAX = 1 << 20
EVENT_DEPTH_MAX = 100
NODE_CHARACTERS_MAX = 200

_EVENT_NAME = re.compile(r"event-(0{0,5}[1-9][0-9]{0,17})\.json\Z")
_NODE = re.compile(r"[1-9][0-9]*(?:\.[1-9][0-9]*)*\Z")
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?([Zz]|[+-]\d\d:?\d\d)?\Z",
    re.ASCII,
)
_LENGTH = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h)", re.ASCII)
_UNITS = {
    "ns": 1, "us": 1000, "µs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)


# Names


def event_name(sequence: int) -> str:
    """The file of an event. Numbers above 999,999 have more digits, as with `printf %06d`."""
    return f"event-{sequence:06d}.json"


def sequence_of(name: str) -> int | None:
    """The number in the name of an event's file; None unless the name has exactly that form."""
    found = _EVENT_NAME.match(name)
    if found is None or len(found[1]) < 6 or (len(found[1]) > 6 and found[1][0] == "0"):
        return None
    return int(found[1])


def claim_name(node: str) -> str:
    """The file of a claim."""
    return f"{node}.lock"


def is_node(node: object) -> bool:
    """Whether a value is a node: numbers from 1 on, separated by dots."""
    return isinstance(node, str) and len(node) <= NODE_CHARACTERS_MAX and bool(_NODE.match(node))


def checked_node(node: str) -> str:
    """The node, if it is valid. Raises BadNodeError otherwise."""
    if is_node(node):
        return node
    raise BadNodeError(
        f"{str(node)[:80]!r} is not a node of a proof",
        hint="a node is written as numbers from 1 on, separated by dots: 1, 1.2, 1.2.3",
        node=str(node)[:80],
    )


# Times


def moment_text(moment: int) -> str:
    """A moment as RFC 3339, with as many fractional digits as it needs."""
    whole, part = divmod(moment, SECOND)
    fraction = f".{part:09d}".rstrip("0") if part else ""
    return f"{_second_text(whole)}{fraction}Z"


def moment_text_nano(moment: int) -> str:
    """A moment as RFC 3339 with nine fractional digits."""
    whole, part = divmod(moment, SECOND)
    return f"{_second_text(whole)}.{part:09d}Z"


@lru_cache(maxsize=64)  # many events are appended in one second
def _second_text(whole: int) -> str:
    return (_EPOCH + timedelta(seconds=whole)).replace(tzinfo=None).isoformat()


def moment_of(text: object, *, zone_needed: bool = False) -> int | None:
    """The moment of a text, or None. Without an offset it counts as UTC."""
    found = _MOMENT.match(text) if isinstance(text, str) else None
    if found is None or (zone_needed and not found[8]):
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        return None
    if second > 60:
        return None
    zone = found[8] or "Z"
    shift = 0
    if zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        if hours > 23 or minutes > 59:
            return None
        shift = (hours * 60 + minutes) * (-60 if zone[0] == "-" else 60)
    whole = (at - _EPOCH) // timedelta(seconds=1) + max(second - 59, 0) - shift
    if not _FIRST <= whole <= _LAST:  # an offset can lead out of the range of years
        return None
    return whole * SECOND + int((found[7] or "0")[:9].ljust(9, "0"))


def timeout_of(text: object, source: str) -> int:
    """A claim timeout such as `5m`, `90s` or `1h`; from 1 second to 1 hour."""
    length = _length(text)
    if length is None:
        raise BadTimeoutError(
            f"{source} {str(text)[:40]!r} is not a duration",
            hint="give a number with s, m or h, from 1s to 1h: 90s, 5m, 1h",
        )
    if not TIMEOUT_MIN <= length <= TIMEOUT_MAX:
        raise BadTimeoutError(
            f"{source} {str(text)[:40]!r} is out of range",
            hint="a claim lasts from 1 second to 1 hour: 1s, 5m, 1h",
        )
    return length


def _length(text: object) -> int | None:
    if not isinstance(text, str):
        return None
    parts = _LENGTH.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def meta_fields(data: bytes) -> dict[str, Any]:
    """The fields of a proof's meta.json."""
    try:
        meta = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict):
        raise BadTimeoutError(
            "meta.json is not a JSON object", hint='correct it: {"lock_timeout": "5m"}'
        )
    return meta


def meta_timeout(data: bytes) -> int:
    """The claim timeout that a proof's meta.json sets."""
    meta = meta_fields(data)
    if "lock_timeout" not in meta:
        return TIMEOUT_DEFAULT
    return timeout_of(meta["lock_timeout"], "lock_timeout in meta.json:")


def is_meta_of_af(data: bytes) -> bool:
    """Whether a meta.json belongs to af, which adds a version. A `lock_timeout` as text is not
    af's: there it is a number."""
    meta = _object(data)
    return isinstance(meta.get("version"), str) and not isinstance(meta.get("lock_timeout"), str)


def is_meta_of_ours(data: bytes) -> bool:
    """Whether a meta.json has this protocol's setting, in this dialect's form."""
    return isinstance(_object(data).get("lock_timeout"), str)


# Events


class _Broken(ValueError):
    pass


def _refuse_constant(text: str) -> Any:
    raise _Broken(f"{text} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def event_bytes(event: Mapping[str, Any], now: int) -> bytes:
    """The bytes of an event: type, timestamp, then its other fields. Raises BadEventError."""
    if not hasattr(event, "keys"):
        raise _bad("an event is an object with a type", 'give {"type": …}')
    type = event.get("type")
    if not (isinstance(type, str) and type and type.isprintable() and " " not in type):
        raise _bad(
            f"{str(type)[:80]!r} cannot be the type of an event", "give a word: node_created"
        )
    stamp = event.get("timestamp")
    if stamp is None:
        stamp = moment_text(now)
    elif moment_of(stamp, zone_needed=True) is None:
        raise _bad(
            f"{str(stamp)[:80]!r} is not a timestamp",
            "leave it out, or give one like 2024-01-15T10:30:00Z or 2024-01-15T10:30:00+01:00",
        )
    rest = {name: value for name, value in event.items() if name not in ("type", "timestamp")}
    data = checked_size(_json_bytes({"type": type, "timestamp": stamp, **rest}))
    flaw = claim_flaw({"type": type, "timestamp": stamp, **rest})
    if flaw:
        raise _bad(f"{type} {flaw}", "holdfast proof claim and release write these events")
    return data


def checked_size(data: bytes) -> bytes:
    """The bytes of an event, if they are within the limit. Raises BadEventError otherwise."""
    if len(data) <= EVENT_BYTES_MAX:
        return data
    raise _bad(
        f"the event has {len(data):,} bytes; other programs read at most {EVENT_BYTES_MAX:,}",
        "put large data in a file of its own, and the name of that file in the event",
    )


def _json_bytes(event: dict[str, Any]) -> bytes:
    try:
        text = _encode(event)
        if text.count("[") + text.count("{") > EVENT_DEPTH_MAX and _depth(event) > EVENT_DEPTH_MAX:
            raise RecursionError
        return text.encode("utf-8")
    except RecursionError:
        raise _bad(
            f"the event is nested more than {EVENT_DEPTH_MAX} levels deep", "make it flatter"
        ) from None
    except (TypeError, ValueError) as error:
        raise _bad(f"the event is not JSON: {error}", "use text, numbers, lists, objects") from None


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            inner
            for one in level
            if isinstance(one, dict | list | tuple)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


def _bad(message: str, hint: str) -> BadEventError:
    return BadEventError(message, hint=hint)


def event_of(data: bytes) -> dict[str, Any]:
    """The fields in an event's file. Raises ValueError with a description of the fault.

    A byte order mark is skipped, although we never write one.
    """
    if not data:
        raise ValueError("it is empty")
    try:
        event = _decoder.decode(data.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except _Broken as error:
        raise ValueError(str(error)) from None
    except ValueError:
        raise ValueError("it is not JSON, or only part of it") from None
    if not isinstance(event, dict):
        raise ValueError("it is not a JSON object")
    if not isinstance(event.get("type"), str):
        raise ValueError("it has no type")
    return event


def claim_flaw(event: Mapping[str, Any]) -> str:
    """What is wrong with a claim's event; empty if it is valid, or not the event of a claim."""
    type = event.get("type")
    if type not in CLAIM_TYPES:
        return ""
    owner = event.get("owner")
    if not is_node(event.get("node_id")):
        return "has no node_id"
    if not (isinstance(owner, str) and owner):
        return "has no owner"
    if moment_of(event.get("timestamp")) is None:
        return "has no timestamp"
    if type == ACQUIRED and moment_of(event.get("expires_at")) is None:
        return "has no expires_at"
    return ""


# The ledger's lock and the files of claims


def lock_bytes(agent: str, now: int) -> bytes:
    """The content of the ledger's lock: its holder, and since when, to the second."""
    acquired = moment_text(now - now % SECOND)
    return _encode({"agent_id": agent, "acquired_at": acquired}).encode() + b"\n"


def lock_fields(data: bytes) -> tuple[str, int | None]:
    """The holder of the ledger's lock and since when, as far as the file is readable."""
    fields = _object(data)
    agent = fields.get("agent_id")
    return agent if isinstance(agent, str) else "", moment_of(fields.get("acquired_at"))


def claim_bytes(node: str, owner: str, acquired_at: int, expires_at: int) -> bytes:
    """A claim's own file, with nanoseconds."""
    return _encode(
        {
            "node_id": node,
            "owner": owner,
            "acquired_at": moment_text_nano(acquired_at),
            "expires_at": moment_text_nano(expires_at),
        }
    ).encode()


def claim_fields(data: bytes) -> tuple[str, str, int, int] | None:
    """Node, owner, start and end in a claim's own file; None if one is missing."""
    fields = _object(data)
    node, owner = fields.get("node_id"), fields.get("owner")
    since, until = moment_of(fields.get("acquired_at")), moment_of(fields.get("expires_at"))
    if not (isinstance(node, str) and is_node(node) and isinstance(owner, str) and owner):
        return None
    return None if since is None or until is None else (node, owner, since, until)


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
