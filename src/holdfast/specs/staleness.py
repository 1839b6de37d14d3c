"""Moments as ISO 8601 texts and back, and whether a lock is stale.

All moments are whole milliseconds since 1970. An invalid text is not an error here: other programs,
and people, write these files.
"""

from __future__ import annotations

from time import gmtime, mktime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.specs.results import LockMetadata

HOUR = 3_600_000
_DAY = 24 * HOUR
_DAYS_IN_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def written(milliseconds: int) -> str:
    """The moment in UTC with milliseconds, as all programs write it into these files."""
    seconds, fraction = divmod(milliseconds, 1000)
    at = gmtime(seconds)
    return (
        f"{at.tm_year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}"
        f"T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}.{fraction:03d}Z"
    )


def read(text: str) -> int | None:
    """The moment of a text, or None if it is invalid.

    It is parsed as in the other programs: a date alone is UTC, a time without an offset is local.
    """
    date, letter, rest = text.partition("T")
    midnight = _date(date)
    if midnight is None or not letter:
        return midnight
    time, offset = _parted(rest)
    since = _time(time)
    if since is None:
        return None
    if not offset:
        return _local(midnight, since)
    shift = _offset(offset)
    return None if shift is None else midnight + since - shift


def age(lock: LockMetadata, now: int) -> int | None:
    """How long it has been held; None if its time is invalid or in the future."""
    taken = read(lock.timestamp)
    return None if taken is None or taken > now else now - taken


def is_stale(lock: LockMetadata, now: int) -> bool:
    """Whether it has outlived its timeout. A lock without an age is never stale."""
    held = age(lock, now)
    return held is not None and held > lock.timeout * HOUR


def _number(text: str, digits: int) -> int | None:
    return int(text) if len(text) == digits and text.isascii() and text.isdigit() else None


def _date(text: str) -> int | None:
    parts = text.split("-")
    if len(parts) != 3:
        return None
    year, month, day = _number(parts[0], 4), _number(parts[1], 2), _number(parts[2], 2)
    if year is None or month is None or day is None or not 1 <= month <= 12:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not 1 <= day <= _DAYS_IN_MONTH[month - 1] or (month == 2 and day == 29 and not leap):
        return None
    return _days(year, month, day) * _DAY


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970, in a calendar whose years begin with March so that leap days come last."""
    year -= month <= 2
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468


def _parted(text: str) -> tuple[str, str]:
    """A time and its offset, which may be missing."""
    if text.endswith("Z"):
        return text[:-1], "Z"
    for sign in "+-":
        time, found, offset = text.partition(sign)
        if found:
            return time, sign + offset
    return text, ""


def _time(text: str) -> int | None:
    whole, point, fraction = text.partition(".")
    if point and not (fraction.isascii() and fraction.isdigit()):
        return None
    parts = [_number(part, 2) for part in whole.split(":")]
    if len(parts) not in (2, 3) or (point and len(parts) == 2):
        return None
    hour, minute, second = (*parts, 0)[:3]
    if hour is None or minute is None or second is None:
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    milliseconds = int(fraction[:3].ljust(3, "0")) if point else 0
    return ((hour * 60 + minute) * 60 + second) * 1000 + milliseconds


def _offset(text: str) -> int | None:
    if text == "Z":
        return 0
    hours, colon, minutes = text[1:].partition(":")
    hour, minute = _number(hours, 2), _number(minutes, 2)
    if not colon or hour is None or minute is None or hour > 23 or minute > 59:
        return None
    shift = (hour * 60 + minute) * 60_000
    return -shift if text[0] == "-" else shift


def _local(midnight: int, since: int) -> int | None:
    seconds, fraction = divmod(midnight + since, 1000)
    at = gmtime(seconds)
    try:
        return round(mktime((*at[:8], -1))) * 1000 + fraction
    except (OverflowError, ValueError):
        return None
