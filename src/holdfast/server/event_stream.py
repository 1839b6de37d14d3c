"""What is sent as it happens, as server-sent events.

    /api/events          id: the number of the event in the ledger
    /api/output/…        id: the byte up to which the log was sent

A browser whose connection broke asks again with the last id, and gets what it has missed, once. A
source never waits: it is asked whether there is more, and takes that from where it is kept anyway.
`holdfast.server.stream_thread` sends it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.server.agent_files import Log
from holdfast.server.ledger_feed import Feed, as_json

#: How long nothing is sent before a sign of life, which also shows whether the reader is there.
QUIET_SECONDS = 10.0
#: How often a log is looked at while its agent runs: programs do not say when they print.
LOOK_SECONDS = 0.25
#: How much of events is sent at once, in characters, if one alone is not longer.
BATCH_CHARACTERS = 256 << 10
#: How long a browser waits before it asks again.
AGAIN_MILLISECONDS = 1000


class Source(Protocol):
    """Where the text of one stream comes from."""

    #: How often it is asked although nothing was said to have changed.
    look_seconds: float

    def more(self) -> str | None:
        """What is to be sent now, which may be nothing; None if the stream is over."""

    def close(self) -> None:
        """The stream is over, or its reader is gone."""


class Events:
    """Everything after an event, for ever."""

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
            found += _event("changed", "{}")  # without an id: it is no event of the ledger
        return found + self._events()

    def close(self) -> None:
        pass

    def _events(self) -> str:
        lines = self._feed.after(self._seq)
        if not lines:
            return ""
        told = ""
        if lines[0][0] > self._seq + 1:
            # they were trimmed away: a reader that builds on them must look anew
            told = _event("trimmed", as_json({"after": self._seq, "next": lines[0][0]}))
        for number, line in lines:
            if len(told) > BATCH_CHARACTERS:
                break
            told += f"id: {number}\ndata: {line}\n\n"
            self._seq = number
        return told

    def _from_the_beginning(self) -> str:
        """The ledger is not the one that the reader knows."""
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
        runs = self._is_running()  # asked first: what is printed before the end is read after it
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
