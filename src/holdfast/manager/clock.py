"""The source of time: the machine's clocks, and a clock that tests move by hand.

Neither decides anything: `holdfast.core.ledger_time` computes ledger time from a reading.
"""

from __future__ import annotations

import os
import time
from time import monotonic_ns, time_ns

from holdfast.core.ledger_time import SLEEP_NOTICED, Reading
from holdfast.core.model import SECOND

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_TIME_NAMESPACE = "/proc/self/ns/time"
_TIME_NAMESPACE_FIRST = "time:[4026531834]"  # the same number on every Linux kernel

#: How often to check whether the machine has slept: shorter than the shortest sleep that counts.
LOOK_EVERY = SLEEP_NOTICED // 2

_boot_id: str | None = None


def boot_id() -> str:
    """The kernel's id of this boot; empty where there is none. It is read once.

    macOS has one too, but reading it takes longer than starting a whole command.
    """
    global _boot_id
    if _boot_id is None:
        _boot_id = read_line(_BOOT_ID)
    return _boot_id


def time_namespace() -> str:
    """The time namespace, if it is not the machine's own: uptimes and start times inside it are
    shifted, so they must not be compared with those from outside."""
    try:
        link = os.readlink(_TIME_NAMESPACE)
    except OSError:
        return ""
    return "" if link == _TIME_NAMESPACE_FIRST else link


def read_line(path: str) -> str:
    """The text of a small file of the system; empty if it is missing or not readable."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""
    try:
        return os.read(descriptor, 4096).decode("ascii", "replace").strip()
    except (IsADirectoryError, PermissionError):
        return ""
    finally:
        os.close(descriptor)


class SystemClock:
    """The clocks of this machine.

    Without a boot id, `uptime` is meaningful within this process at most, and `slept` is 0.
    """

    __slots__ = ("_boot", "_boottime", "_look_at", "_slept")

    def __init__(self) -> None:
        self._boot = " ".join(filter(None, (boot_id(), time_namespace()))) if boot_id() else ""
        self._boottime: int | None = getattr(time, "CLOCK_BOOTTIME", None)
        self._slept = 0
        self._look_at = 0

    def read(self) -> Reading:
        """All clocks, read at nearly the same moment."""
        if self._boottime is None:
            return Reading(time_ns() // 1000, self._boot, monotonic_ns() // 1000, 0)
        uptime = time.clock_gettime_ns(self._boottime) // 1000
        if uptime >= self._look_at:  # no relevant sleep fits into a shorter time
            # In this order, a pause between the two reads makes the sleep appear shorter, never
            # longer. The sleep never shrinks, so the longest value is the most accurate.
            slept = uptime - monotonic_ns() // 1000
            if slept > self._slept:
                self._slept = slept
            self._look_at = uptime + LOOK_EVERY
        return Reading(time_ns() // 1000, self._boot, uptime, self._slept)

    def monotonic(self) -> float:
        """Seconds, for the deadlines of this process."""
        return time.monotonic()


class FakeClock:
    """A clock that stands still until it is moved, for tests and simulation."""

    __slots__ = ("_boots", "_monotonic", "_slept", "_uptime", "_wall")

    def __init__(self, wall: int = 1_700_000_000 * SECOND) -> None:
        self._wall = wall
        self._uptime = 1000 * SECOND
        self._monotonic = 1000 * SECOND
        self._slept = 0
        self._boots = 1

    def read(self) -> Reading:
        """What the clock has been set to."""
        return Reading(self._wall, f"fake-boot-{self._boots}", self._uptime, self._slept)

    def monotonic(self) -> float:
        """Seconds. It stands still while the machine sleeps, and continues across a reboot: no
        process sees both sides of a reboot, but a test does, and its deadlines must still come."""
        return self._monotonic / SECOND

    def advance(self, seconds: float) -> None:
        """Let time pass on all clocks."""
        passed = _microseconds(seconds)
        self._wall += passed
        self._uptime += passed
        self._monotonic += passed

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._wall += round(seconds * SECOND)

    def sleep_machine(self, seconds: float) -> None:
        """Let the machine sleep and wake up again; no process runs meanwhile."""
        passed = _microseconds(seconds)
        self._wall += passed
        self._uptime += passed
        self._slept += passed

    def reboot(self, down_seconds: float = 0) -> None:
        """Switch the machine off, and on again after a while."""
        self._wall += _microseconds(down_seconds)
        self._boots += 1
        self._uptime = 0
        self._slept = 0


def _microseconds(seconds: float) -> int:
    if seconds < 0:
        raise ValueError("time only goes forward; only the wall clock can be set back")
    return round(seconds * SECOND)
