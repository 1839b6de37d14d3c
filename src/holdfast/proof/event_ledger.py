"""The ledger of a proof: events in numbered files, appended by many programs at once.

    ledger = ProofLedger("proofs/sqrt2")
    number = ledger.append({"type": "node_created", "node_id": "1.1"})
    for event in ledger.read(after=number):
        ...

An event is written to a temporary file and synced, gets its number by a `link` under the ledger's
lock, which cannot replace anything, and is acknowledged when the folder is synced too. The number
is the compare-and-swap: the process that links `event-000042.json` has written the 42nd event, even
if the lock failed.

What this does not promise: that a batch is complete after a power cut; only its beginning may be
there. Nor that a program which writes without the ledger's lock keeps all of its own events.
"""

from __future__ import annotations

import os
import time
import weakref
from contextlib import contextmanager
from threading import RLock

from holdfast.core.errors import LockTimeoutError, StoreBusyError, StoreCorruptError, StoreError
from holdfast.manager.clock import SystemClock
from holdfast.proof import backoff, hash_chain
from holdfast.proof.dialects import dialect, proof_codec
from holdfast.proof.errors import SequenceMismatch, told
from holdfast.proof.event_reader import ProofEvent, find_head, parsed, raw
from holdfast.proof.ledger_lock import WAIT_SECONDS, WriteLock
from holdfast.proof.proof_folder import Draft, ProofFolder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Final

    from holdfast.core.ledger_time import Clock

    Events = Callable[[], list[Mapping[str, Any]]]
    Check = Callable[[int], None]
    Settle = Callable[[list[int]], None]
    Decide = Callable[[int], Mapping[str, Any] | None]

#: An event that has waited longer than this gets a new timestamp.
_FRESH = proof_codec.SECOND // 10
#: How often to start again when another process took our number without the lock.
_TRIES = 50
_PAUSE_SECONDS_MAX = 0.1
#: How often to decide again when other processes appended meanwhile.
_DECISIONS = 20
_LOOK_SECONDS = 0.05


class ProofLedger:
    """One proof's ledger, for any number of threads. Closing it is optional."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        sync: bool = True,
        clock: Clock | None = None,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        """Without `sync` a power cut can lose the last events; a killed process cannot."""
        self.folder: Final = ProofFolder(root)
        self.clock: Final[Clock] = clock or SystemClock()
        self.mutex: Final = RLock()
        self._sync: Final = sync
        self._lock: Final = WriteLock(self.folder, self.clock, wait_seconds)
        self._wait_seconds: Final = wait_seconds
        self._known = 0
        weakref.finalize(self, WriteLock.close, self._lock)

    # Reading

    @property
    def head(self) -> int:
        """The number of the last event; 0 when there is none. Lists no folder."""
        self._known = head = find_head(self.folder, self._known)
        return head

    def read(self, after: int = 0) -> Iterator[ProofEvent]:
        """The events after a number, oldest first. Needs no lock and sees only whole events.

        Raises StoreCorruptError at a gap or at an event that cannot be read.
        """
        for sequence, data, _status in raw(self.folder, after):
            yield parsed(self.folder, sequence, data)

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until there is an event after a number, for at most `seconds`."""
        end = time.monotonic() + seconds
        while not os.path.lexists(self.folder.event(after + 1)):
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, _LOOK_SECONDS))
        return True

    def now(self) -> int:
        """The wall time in nanoseconds, by which claims expire."""
        return self.clock.read().wall * 1000

    # Appending

    def append(self, event: Mapping[str, Any]) -> int:
        """Append an event, and return its number. A missing timestamp is added."""
        return self.append_batch([event])[0]

    def append_if_sequence(self, event: Mapping[str, Any], expected: int) -> int:
        """Append an event if the last one has this number; otherwise raise SequenceMismatch."""
        return self.append_batch([event], if_sequence=expected)[0]

    def append_batch(
        self, events: Iterable[Mapping[str, Any]], *, if_sequence: int | None = None
    ) -> list[int]:
        """Append several events with consecutive numbers."""
        batch = list(events)
        for event in batch:
            self.folder.dialect.check_append(event)
        if not batch:
            return []
        return self.commit(lambda: batch, lambda head: self.check_sequence(head, if_sequence))

    def append_decided(self, decide: Decide) -> int | None:
        """Append the event that `decide` returns for the ledger up to the number that it gets;
        None if it returns none. If another process appends meanwhile, `decide` is called again,
        after a growing pause. Raises SequenceMismatch when that has happened too often.
        """
        for pause in backoff.pauses(_DECISIONS):
            head = self.head
            event = decide(head)
            if event is None:
                return None
            try:
                return self.append_if_sequence(event, head)
            except SequenceMismatch as mismatch:
                last = mismatch
            time.sleep(pause)
        raise last

    @staticmethod
    def check_sequence(head: int, expected: int | None) -> None:
        """Raise SequenceMismatch if the last event does not have the expected number."""
        if expected is not None and head != expected:
            raise SequenceMismatch(
                f"concurrent modification: the ledger is at {head}, not at {expected} "
                "(ErrSequenceMismatch)",
                hint="read the new events, decide again, and retry with the new number",
                expected=expected,
                actual=head,
            )

    def commit(
        self,
        events: Events,
        check: Check,
        settle: Settle = lambda numbers: None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> list[int]:
        """Append the events that `events` returns, if `check` does not raise.

        `check` gets the number of the last event. It is called before anything is written, so that
        a refusal costs nothing, then under the lock, and again if a program that ignores the lock
        appended in between. Then `is_current` tells whether the events are still the right ones; if
        not, `events` is called again. `settle` gets the new numbers, still under the lock.
        """
        if not self.mutex.acquire(timeout=self._wait_seconds):
            raise LockTimeoutError("timeout waiting for lock", hint="try again in a moment")
        drafts: list[Draft] = []
        numbers: list[int] = []
        try:
            dialect.check_still(self.folder)
            check(self.head)
            made_at = self._draft(drafts, events)
            for pause in (0.0, *backoff.pauses(_TRIES - 1, longest=_PAUSE_SECONDS_MAX)):
                if pause:
                    time.sleep(pause)
                self._lock.acquire()
                try:
                    dialect.check_still(self.folder)
                    head = self.head
                    check(head)
                    if self.now() - made_at > _FRESH or not is_current():
                        made_at = self._draft(drafts, events)
                    numbers = self._publish(drafts, head)
                    if numbers:
                        settle(numbers)
                finally:
                    kept = self._lock.release()
                if numbers and (kept or self._are_there(drafts, numbers)):
                    break
            else:
                raise _crowded_out()
        except OSError as error:
            if numbers:
                raise _unsure(numbers, error) from error
            raise told(error, "appending to the ledger") from error
        finally:
            for draft in drafts:
                draft.discard()
            self.mutex.release()
        try:
            if self._sync:
                self.folder.sync()
        except OSError as error:
            raise _unsure(numbers, error) from error
        return numbers

    def _draft(self, drafts: list[Draft], events: Events) -> int:
        """Write the events to temporary files, replacing earlier drafts."""
        now = self.now()
        datas = [self.folder.dialect.encoded(event, now) for event in events()]
        while drafts:
            drafts.pop().discard()
        for data in datas:
            drafts.append(Draft(self.folder, data, sync=self._sync))
        return now

    def _publish(self, drafts: list[Draft], head: int) -> list[int]:
        """Give the drafts their numbers; none if another process took the first one."""
        numbers: list[int] = []
        number = head
        try:
            for draft in drafts:
                number += 1
                while not draft.publish(number):
                    if not numbers:
                        return []
                    number += 1  # the published part stays: the rest follows the foreign event
                numbers.append(number)
        except OSError as error:
            if not numbers:
                raise
            raise StoreError(
                f"only {len(numbers)} of {len(drafts)} events were appended, up to number "
                f"{numbers[-1]}: {error.strerror}",
                hint="fix that, and append the others",
                sequence=numbers[-1],
            ) from error
        self._known = numbers[-1]
        self._chain(numbers, drafts)
        return numbers

    def _chain(self, numbers: list[int], drafts: list[Draft]) -> None:
        if numbers[-1] - numbers[0] != len(numbers) - 1:
            return  # other events came first: the next append adds them all
        try:
            hash_chain.extend(self.folder, numbers[0], [draft.data for draft in drafts])
        except (OSError, StoreCorruptError):
            pass  # the event exists; a chain that lags behind is detected and completed later

    def _are_there(self, drafts: list[Draft], numbers: list[int]) -> bool:
        """Whether our events have kept their numbers, checked when no other process is appending.

        The lock was removed while we used it, and the process that did so may have replaced events.
        Those that are gone must be appended again; afterwards `drafts` has only them.
        """
        self._lock.acquire()
        try:
            gone = [
                one for one, number in zip(drafts, numbers, strict=True) if not one.is_at(number)
            ]
        finally:
            self._lock.release()
        for draft in drafts if gone else ():
            if draft not in gone:
                draft.discard()
        drafts[:] = gone or drafts
        return not gone

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep all other processes from appending: for repairs."""
        self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close what this process keeps open. The ledger can still be used."""
        with self.mutex:
            self._lock.close()

    def __enter__(self) -> ProofLedger:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _unsure(numbers: list[int], error: OSError) -> StoreError:
    return StoreError(
        f"event {numbers[-1]} is appended, but a power cut may still undo it: {error.strerror}",
        hint="do not append it again; check the disk",
        sequence=numbers[-1],
    )


def _crowded_out() -> StoreBusyError:
    return StoreBusyError(
        "another program keeps appending to the ledger without its lock",
        hint="make it use ledger.lock, or try again when it has ended",
    )
