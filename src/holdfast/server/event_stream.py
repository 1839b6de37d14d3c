"""What streams send, as server-sent events.

    /api/events          id: the number of the event in the ledger
    /api/output/…        id: the byte up to which the log was sent

A browser whose connection broke reconnects with the last id, and gets what it has missed, once. A
source never waits: when asked for more, it reads that from the ledger or the log.
`holdfast.server.stream_thread` sends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.server.agent_files import Log
from holdfast.server.ledger_feed import Feed, as_json

#: After how long a silence a sign of life is sent, which also detects a reader that is gone.
QUIET_SECONDS = 10.0
#: How often a log is checked while its agent runs: programs do not announce their output.
LOOK_SECONDS = 0.25
#: How many characters of events are sent together, unless one event alone is longer.
BATCH_CHARACTERS = 256 << 10
#: How long a browser waits before it reconnects.
AGAIN_MILLISECONDS = 1000


class Source(Protocol):
    """The text of one stream."""

    #: How often it is asked for more although no change was reported.
    look_seconds: float

    def more(self) -> str | None:
        """The text to send now, which may be empty; None if the stream has ended."""

    def close(self) -> None:
        """The stream has ended, or its reader is gone."""


class Events:
    """All events after a given one, without end."""

    look_seconds = QUIET_SECONDS

    def __init__(self, feed: Feed, after: int) -> None:
        self._feed = feed
        self._epoch, self._beat, self._seq = feed.epoch, feed.beat, after
        self._first = f"retry: {AGAIN_MILLISECONDS}\n\n"
        if not feed.has_been(after):
            self._first += self._from_the_beginning()

    def more(self) -> str | None:
        feed = self._feed
        if feed.is_over:
            return None
        found, self._first = self._first, ""
        if feed.epoch != self._epoch:
            self._epoch = feed.epoch
            found += self._from_the_beginning()
        if feed.beat != self._beat:
            self._beat = feed.beat
            found += _event("changed", "{}")  # without an id: it is not an event of the ledger
        return found + self._events()

    def close(self) -> None:
        pass

    def _events(self) -> str:
        lines = self._feed.after(self._seq)
        if not lines:
            return ""
        told = ""
        if lines[0][0] > self._seq + 1:
            # the events between were trimmed: a reader that needs them must request the state again
            told = _event("trimmed", as_json({"after": self._seq, "next": lines[0][0]}))
        for number, line in lines:
            if len(told) > BATCH_CHARACTERS:
                break
            told += f"id: {number}\ndata: {line}\n\n"
            self._seq = number
        return told

    def _from_the_beginning(self) -> str:
        """The ledger was replaced since the reader last read it."""
        self._seq = 0
        return f"id: 0\n{_event('reset', '{}')}"


class Output:
    """A log from a byte on, until its agent has ended."""

    look_seconds = LOOK_SECONDS

    def __init__(self, log: Log, offset: int, is_running: Callable[[], bool]) -> None:
        self._log = log
        self._offset = offset
        self._is_running = is_running
        self._first = f"retry: {AGAIN_MILLISECONDS}\n\n"
        self._is_over = False

    def more(self) -> str | None:
        if self._is_over:
            return None
        runs = self._is_running()  # checked first, so that the last output is read after the end
        text, self._offset = self._log.read(self._offset, is_whole=not runs)
        found, self._first = self._first, ""
        if text:
            return f"{found}id: {self._offset}\ndata: {as_json(text)}\n\n"
        self._is_over = not runs
        return found if runs else found + _event("end", "{}")

    def close(self) -> None:
        self._log.close()


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
