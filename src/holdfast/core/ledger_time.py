"""Ledger time: a clock that many processes share, that never goes back and never jumps.

The wall clock may be set at any moment, so nothing depends on it while the machine runs. The ledger
keeps an anchor, which pairs an uptime of one boot with a ledger time. From there on, ledger time
follows the machine's uptime (which includes sleep). After a reboot a new anchor starts at the wall
clock or at the ledger's last event, whichever is later.

Ledger time may differ from the time of day: it starts with the wall clock and keeps whatever error
that had. On systems without a boot id (macOS and Windows) ledger time is the wall clock, kept from
going back; there a step forward does count.

All of this is arithmetic. Clocks are read in `holdfast.manager.clock`; take the reading inside
the transaction that uses it, or it may be older than the last event.
"""

from __future__ import annotations

from time import gmtime

from holdfast.core.model import SECOND, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Protocol

#: Two clocks cannot be read at the same moment; a smaller difference is the time between reads.
SLEEP_NOTICED = SECOND // 100

#: An uptime this far behind the last event cannot come from a late reading: the machine was
#: restored from a snapshot with the same boot id.
SET_BACK = 60 * SECOND


class Reading(Value):
    """The clocks of one machine at one moment, in microseconds.

    `uptime` includes the time asleep, and `slept` is that part of it; `boot` is the id of the boot
    that both belong to, and is empty where the system has none.
    """

    __slots__ = ("boot", "slept", "uptime", "wall")

    def __init__(self, wall: int, boot: str, uptime: int, slept: int) -> None:
        self.wall: Final = wall
        self.boot: Final = boot
        self.uptime: Final = uptime
        self.slept: Final = slept


class Anchor(Value):
    """At `uptime` of this boot, ledger time was `ledger`, and the machine had slept for `slept`
    over the whole history of the ledger, of which `asleep` belongs to this boot."""

    __slots__ = ("asleep", "boot", "ledger", "slept", "uptime")

    def __init__(self, *, boot: str, uptime: int, ledger: int, slept: int, asleep: int) -> None:
        self.boot: Final = boot
        self.uptime: Final = uptime
        self.ledger: Final = ledger
        self.slept: Final = slept
        self.asleep: Final = asleep


if TYPE_CHECKING:

    class Clock(Protocol):
        """The source of time. There is one, which the outermost caller hands in."""

        def read(self) -> Reading:
            """All clocks now; called once per transaction."""

        def monotonic(self) -> float:
            """Seconds, for the deadlines of this process; meaningless to any other."""


def ledger_time(
    anchor: Anchor | None, reading: Reading, last_event_at: int
) -> tuple[int, int, Anchor | None]:
    """Ledger time, the machine's total sleep, and a new anchor to store.

    The new anchor is None while the given one is still valid. There is a new one after a reboot,
    and after a sleep, so that a later reboot cannot lose the sleep. Not storing it loses only that.
    """
    if anchor is not None and anchor.boot == reading.boot != "":  # the same boot, as nearly always
        now = anchor.ledger + reading.uptime - anchor.uptime
        if now >= last_event_at and reading.slept - anchor.asleep < SLEEP_NOTICED:
            return now, anchor.slept, None
    if not reading.boot:
        seen = last_event_at if anchor is None else max(last_event_at, anchor.ledger)
        return max(reading.wall, seen), 0 if anchor is None else anchor.slept, None
    if anchor is None:
        return _anchored(reading, max(reading.wall, last_event_at), 0)
    if anchor.boot != reading.boot:
        return _anchored(reading, max(reading.wall, last_event_at, anchor.ledger), anchor.slept)
    now = anchor.ledger + reading.uptime - anchor.uptime
    if now < last_event_at:
        # The wall clock must agree: a reading taken long before its use has an old wall time too,
        # and an anchor there would move all processes forward.
        if now + SET_BACK < last_event_at < reading.wall:
            return _anchored(reading, reading.wall, anchor.slept)
        now = last_event_at
    asleep = reading.slept - anchor.asleep
    if asleep >= SLEEP_NOTICED:
        return _anchored(reading, now, anchor.slept + asleep)
    return now, anchor.slept, None


def _anchored(reading: Reading, now: int, slept: int) -> tuple[int, int, Anchor]:
    made = Anchor(
        boot=reading.boot, uptime=reading.uptime, ledger=now, slept=slept, asleep=reading.slept
    )
    return now, slept, made


def iso(microseconds: int) -> str:
    """A time as ISO 8601 in UTC, always with microseconds, so that texts sort like times."""
    seconds, fraction = divmod(microseconds, SECOND)
    at = gmtime(seconds)
    return (
        f"{at.tm_year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}"
        f"T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}.{fraction:06d}Z"
    )
