"""The bytes of a lock file, exactly as the other programs write them, and how they are parsed.

JSON with an indentation of two spaces, the keys in a fixed order, no newline at the end, and
non-ASCII characters unescaped. Numbers and escapes are written as JavaScript writes them.

A file counts if it has the four texts, of which owner and machine must not be empty, and a number
of hours; a missing reason or version gets its default. Anything else is not a lock.
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
    """The content of the file of a lock."""
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
    """The lock in these bytes, if it is valid."""
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
    """Whether a program may still be writing this: it begins like an object, and has no end. A
    complete object without a lock will not become one."""
    text = _decoded(data)
    return not text or (text[0] == "{" and _object_of(text) is None)


def machine_bytes(machine: MachineId) -> bytes:
    """The content of the file of a machine's id."""
    return _object(
        id=_text(machine.id),
        hostname=_text(machine.hostname),
        createdAt=_text(machine.created_at),
    )


def machine_of(data: bytes) -> MachineId | None:
    """The machine's id in these bytes, if it is valid."""
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
    """A number as JavaScript writes it: `24`, `0.5`, `1e+21`, `1e-7`; `null` if not finite."""
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
    """A text in quotes. A lone surrogate has no bytes, so it is escaped."""
    spelled = quoted(text)
    if spelled.isascii():
        return spelled
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in spelled)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix(_BYTE_ORDER_MARK).strip(_BLANKS)


def _parsed(data: bytes) -> dict[str, Any]:
    """The fields of an object; none for any other value."""
    return _object_of(_decoded(data)) or {}


def _object_of(text: str) -> dict[str, Any] | None:
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
