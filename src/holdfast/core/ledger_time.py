"""Ledger time: a clock that many processes share, that never goes back and never jumps.

The wall clock may be set by anybody at any moment, so it decides nothing while the machine
runs. The ledger keeps an anchor: at this uptime of this boot it was that time. From there on
time is what the machine's uptime says (which counts sleep). After a reboot the anchor is made
anew, at the later of the wall clock and of what the ledger has seen.

What this does not promise: that ledger time is the right time of day. It starts with the wall
clock and keeps whatever error that had. On systems that have no boot id (macOS and Windows)
ledger time is the wall clock, held back from going back: there a step forward does count.

All of it is arithmetic. Clocks are read in `holdfast.manager.clock`; take the reading inside
the transaction that uses it, or it may be older than the last event.
"""

from __future__ import annotations

from time import gmtime

from holdfast.core.model import SECOND, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Protocol

#: Two clocks cannot be read at one moment; a difference below this is the gap between them.
SLEEP_NOTICED = SECOND // 100

#: An uptime this far behind the last event did not come from a late reading: the machine was
#: put back to a snapshot that has the same boot id.
SET_BACK = 60 * SECOND


class Reading(Value):
    """What the clocks of one machine say, in microseconds.

    `uptime` counts the time asleep, `slept` is that part of it; `boot` names the boot that both
    belong to and is empty where that cannot be known.
    """

    __slots__ = ("boot", "slept", "uptime", "wall")

    def __init__(self, wall: int, boot: str, uptime: int, slept: int) -> None:
        self.wall: Final = wall
        self.boot: Final = boot
        self.uptime: Final = uptime
        self.slept: Final = slept


class Anchor(Value):
    """At `uptime` of this boot the ledger's time was `ledger`, and the machine had slept `slept`
    in all that the ledger has seen, of which the clocks of this boot showed `asleep`."""

    __slots__ = ("asleep", "boot", "ledger", "slept", "uptime")

    def __init__(self, *, boot: str, uptime: int, ledger: int, slept: int, asleep: int) -> None:
        self.boot: Final = boot
        self.uptime: Final = uptime
        self.ledger: Final = ledger
        self.slept: Final = slept
        self.asleep: Final = asleep


if TYPE_CHECKING:

    class Clock(Protocol):
        """Where time comes from. There is one, handed in at the edge."""

        def read(self) -> Reading:
            """What the clocks say now, once per transaction."""

        def monotonic(self) -> float:
            """Seconds for the deadlines of this process; means nothing to any other."""


def ledger_time(
    anchor: Anchor | None, reading: Reading, last_event_at: int
) -> tuple[int, int, Anchor | None]:
    """The ledger's time, how long the machine has slept in all, and a new anchor to store.

    The new anchor is None when the given one still holds. A new one is made after a reboot, and
    after a sleep so that a later reboot cannot lose it. Not stored, nothing breaks but that.
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
        # The wall clock's word is needed too: a reading that was taken long before it is used
        # has an old wall time as well, and anchoring there would throw everybody forward.
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
    """The moment as UTC in ISO 8601, always with microseconds so that texts sort like times."""
    seconds, fraction = divmod(microseconds, SECOND)
    at = gmtime(seconds)
    return (
        f"{at.tm_year:04d}-{at.tm_mon:02d}-{at.tm_mday:02d}"
        f"T{at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d}.{fraction:06d}Z"
    )
