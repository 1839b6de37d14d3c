"""A lock file's bytes, exactly as the other programs write them, and what is read from any bytes.

JSON with two blanks of indentation, the keys in one order, no line break at the end, everything
that is not ASCII as it is. Numbers and escapes are spelled as JavaScript spells them.

A file counts if it has the four texts, of which owner and machine may not be empty, and a number
of hours; a reason or a version that is missing gets its default. All else is no lock.
"""

from __future__ import annotations

from holdfast.core.codec import loads, quoted
from holdfast.specs.results import VERSION, LockMetadata, MachineId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_BLANKS = " \t\n\r"
_BYTE_ORDER_MARK = "\ufeff"


def lock_bytes(lock: LockMetadata) -> bytes:
    """What stands in the file of a lock."""
    return _object(
        owner=_text(lock.owner),
        machineId=_text(lock.machine_id),
        hostname=_text(lock.hostname),
        timestamp=_text(lock.timestamp),
        reason="null" if lock.reason is None else _text(lock.reason),
        timeout=number(lock.timeout),
        version=_text(lock.version),
    )


def lock_of(data: bytes) -> LockMetadata | None:
    """The lock that stands in these bytes, if any does."""
    fields = _parsed(data)
    texts = [fields.get(name) for name in ("owner", "machineId", "hostname", "timestamp")]
    hours = fields.get("timeout")
    owner, machine, host, timestamp = (text if isinstance(text, str) else None for text in texts)
    if not owner or not machine or host is None or timestamp is None:
        return None
    if isinstance(hours, bool) or not isinstance(hours, int | float) or hours != hours:
        return None
    reason, version = fields.get("reason"), fields.get("version")
    return LockMetadata(
        owner=owner,
        machine_id=machine,
        hostname=host,
        timestamp=timestamp,
        reason=reason if isinstance(reason, str) else None,
        timeout=hours,
        version=version if isinstance(version, str) else VERSION,
    )


def is_unfinished(data: bytes) -> bool:
    """Whether somebody may be in the middle of writing this: it begins like an object, and has no
    end. One that is whole, and says nothing, will not say more."""
    text = _decoded(data)
    return not text or (text[0] == "{" and _object_of(text) is None)


def machine_bytes(machine: MachineId) -> bytes:
    """What stands in the file of a machine's id."""
    return _object(
        id=_text(machine.id),
        hostname=_text(machine.hostname),
        createdAt=_text(machine.created_at),
    )


def machine_of(data: bytes) -> MachineId | None:
    """The machine's id that stands in these bytes, if any does."""
    fields = _parsed(data)
    id, hostname, created = (fields.get(name) for name in ("id", "hostname", "createdAt"))
    if not isinstance(id, str) or not id:
        return None
    return MachineId(
        id=id,
        hostname=hostname if isinstance(hostname, str) else "",
        created_at=created if isinstance(created, str) else "",
    )


def number(value: float) -> str:
    """A number as JavaScript writes it: `24`, `0.5`, `1e+21`, `1e-7`; `null` if it is none."""
    if value - value != 0:
        return "null"
    if isinstance(value, int) or (value == value // 1 and abs(value) < 1e21):
        return str(int(value))
    mantissa, exponential, exponent = repr(value).partition("e")
    if not exponential:
        return mantissa
    power = int(exponent)
    if -7 < power < 0:
        digits = len(mantissa.replace(".", "").lstrip("-")) - 1
        return f"{value:.{digits - power}f}"
    return f"{mantissa}e{power:+d}"


def _object(**fields: str) -> bytes:
    lines = ",\n".join(f'  "{name}": {value}' for name, value in fields.items())
    return f"{{\n{lines}\n}}".encode()


def _text(text: str) -> str:
    """A text in quotes. Half of a pair of surrogates has no bytes, so it is spelled out."""
    spelled = quoted(text)
    if spelled.isascii():
        return spelled
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in spelled)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix(_BYTE_ORDER_MARK).strip(_BLANKS)


def _parsed(data: bytes) -> dict[str, Any]:
    """The fields of an object; none if it is something else."""
    return _object_of(_decoded(data)) or {}


def _object_of(text: str) -> dict[str, Any] | None:
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
