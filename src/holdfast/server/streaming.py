"""What is sent as it happens, as server-sent events.

    /api/events          id: the number of the event in the ledger
    /api/output/…        id: the byte up to which the log was sent

A browser whose connection broke asks again with the last id, and gets what it has missed, once.
Whoever does not read what is sent is cut off after a while, and has lost nothing either: every
stream has a thread of its own, and takes what it sends from where it is kept anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from holdfast.server.feed import Feed, as_json
from holdfast.server.output import Log

#: How long nothing is sent before a sign of life, which also shows whether anybody is there.
QUIET_SECONDS = 10.0
#: How often a log is looked at while its agent runs. Nobody says when an agent prints.
LOOK_SECONDS = 0.25
#: How long a browser waits before it asks again.
AGAIN_MILLISECONDS = 1000


class Sink(Protocol):
    """Where a stream goes. Raises OSError when nobody takes it."""

    def __call__(self, text: str) -> None: ...


def events(feed: Feed, after: int, send: Sink) -> None:
    """Everything after an event, for ever."""
    epoch, seq = feed.epoch, after
    send(f"retry: {AGAIN_MILLISECONDS}\n\n")
    if not feed.has_been(seq):
        seq = _from_the_beginning(send)
    while not feed.is_over:
        if feed.epoch != epoch:
            epoch, seq = feed.epoch, _from_the_beginning(send)
        lines = feed.after(seq)
        if lines and lines[0][0] > seq + 1:
            # they were trimmed away: whoever builds on them must look anew
            send(_event("trimmed", as_json({"after": seq, "next": lines[0][0]})))
        if lines:
            send("".join(f"id: {number}\ndata: {line}\n\n" for number, line in lines))
            seq = lines[-1][0]
        elif not feed.wait(seq, epoch, QUIET_SECONDS):
            send(": nothing happens\n\n")


def output(
    log: Log,
    offset: int,
    send: Sink,
    is_running: Callable[[], bool],
    pause: Callable[[float], bool],
) -> None:
    """A log from a byte on, until its agent has ended. `pause` waits; True if it is all over."""
    send(f"retry: {AGAIN_MILLISECONDS}\n\n")
    quiet = 0.0
    while True:
        runs = is_running()  # asked first: what is printed before the end is read after it
        text, offset = log.read(offset, is_whole=not runs)
        if text:
            send(f"id: {offset}\ndata: {as_json(text)}\n\n")
            quiet = 0.0
        elif not runs:
            send(_event("end", "{}"))
            return
        elif pause(LOOK_SECONDS):
            return
        else:
            quiet += LOOK_SECONDS
            if quiet >= QUIET_SECONDS:
                send(": it prints nothing\n\n")
                quiet = 0.0


def _from_the_beginning(send: Sink) -> int:
    """The ledger is not the one that the reader knows."""
    send(f"id: 0\n{_event('reset', '{}')}")
    return 0


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
