"""Calls outside the repository, answered before the ledger is open.

Nearly every command of an agent opens something outside for writing: /dev/null, a temporary file,
the file in which its client records the final working folder. Most commands write nothing else. So
these calls do not wait until the rest of the broker is ready; the first call that needs more is
kept for it.
"""

from __future__ import annotations

import os
import select
from time import monotonic

from holdfast.gate.broker.calling_thread import Caller, CallerGone
from holdfast.gate.broker.heard_calls import AT_FDCWD, NAMES, signed
from holdfast.gate.broker.places.path_lookup import KernelDecides, find
from holdfast.gate.broker.places.path_zones import OUTSIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gate.broker.calling_thread import Trust
    from holdfast.gate.broker.calls.waiting_calls import Call
    from holdfast.gate.broker.heard_calls import Listener
    from holdfast.gate.broker.places.path_zones import PathZones

#: A command that makes no call for this long will run for longer: the rest is prepared then.
_QUIET_SECONDS = 0.03
_CREATES = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
#: The positions of the folder, the path and the flags among the arguments of each call.
_AT = {"open": (-1, 0, 1), "openat": (0, 1, 2), "creat": (-1, 0, -1)}
_OPENS = {number: _AT[name] for number, name in NAMES.items() if name in _AT}


class OutsideCalls:
    """The first calls of a command."""

    def __init__(
        self,
        listener: Listener,
        trust: Trust,
        zones: PathZones,
        is_open: Callable[[str, bool], bool],
    ) -> None:
        self._listener = listener
        self._trust = trust
        self._zones = zones
        self._is_open = is_open
        #: No process is left that could make a call.
        self.is_over = False

    def serve(self) -> Call | None:
        """Answer calls outside. Returns the first call that is not; None if there is no call for a
        while, or no process is left that could make one."""
        poll = select.poll()
        poll.register(self._listener.fd, select.POLLIN)
        until = monotonic() + _QUIET_SECONDS
        while (left := until - monotonic()) > 0:
            for _fd, happened in poll.poll(left * 1000):
                if not happened & select.POLLIN:
                    self.is_over = True
                    return None
                call = self._listener.hear()
                if call is not None and not self._is_outside(call):
                    return call
                if call is not None:
                    self._listener.pass_on(call[0])
                until = monotonic() + _QUIET_SECONDS
        return None

    def _is_outside(self, call: Call) -> bool:
        """Whether a call is certainly one that the kernel may decide."""
        id, thread, number, given = call
        if number not in _OPENS:
            return False
        folder_at, path_at, flags_at = _OPENS[number]
        flags = given[flags_at] if flags_at >= 0 else _CREATES
        makes = bool(flags & os.O_CREAT)
        follow = not (flags & os.O_NOFOLLOW or (makes and flags & os.O_EXCL))
        try:
            caller = Caller(thread, lambda: self._listener.is_waiting(id))
            if not self._trust.has_first_identity(caller):
                return False
            folder = signed(given[folder_at]) if folder_at >= 0 else AT_FDCWD
            found = find(caller, folder, caller.text(given[path_at]), follow=follow, makes=makes)
            try:
                is_outside = self._zones.of(found.path)[0] == OUTSIDE
                return is_outside and self._is_open(found.path, found.is_there)
            finally:
                found.close()
        except (OSError, ValueError, KernelDecides, CallerGone):
            return False  # the broker itself answers with the error
