"""How soon the page shows something: 1,000 items and 10,000 events in the ledger, in Chromium.

Measured from opening the address until the first items are drawn, with an empty cache. The server
runs in a process of its own, as usual.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from tests.browser.chromium import Chromium, found
from tests.browser.scenes import crowd

from bench.harness import Row, Seat, at_most
from holdfast.manager.manager import LockManager
from holdfast.server.server import Server

ITEMS = 1000
EVENTS = 10_000
#: The mark that the page sets when it is drawn.
SHOWN = "performance.getEntriesByName('holdfast-shown')[0]?.startTime"

_server: Server | None = None


def run(scratch: Path, quick: bool) -> list[Row]:
    if not found():
        return [Row("page to first paint", "ms", None, note="there is no Chromium here")]
    rounds = 3 if quick else 9
    with Seat() as seat, Chromium() as browser:
        url = seat.ask(serve, scratch / "crowd")
        browser.size(1380, 860)
        browser.call("Network.setCacheDisabled", cacheDisabled=True)
        samples = [_first_paint(browser, url) for _ in range(rounds)]
        seat.ask(close)
    figure = statistics.median(samples)
    note = f"{ITEMS:,} items, {EVENTS:,} events"
    target = at_most(1000.0, "ours")
    return [
        Row("page to first paint", "ms", figure, target=target, note=note,
            samples={"holdfast": samples})
    ]  # fmt: skip


def _first_paint(browser: Chromium, url: str) -> float:
    browser.open("about:blank")
    browser.open(url)
    return float(browser.until(SHOWN, "the page is drawn"))


def serve(root: Path) -> str:
    """In the server's process: the address of the page."""
    global _server
    crowd(root, items=ITEMS, events=EVENTS)
    _server = Server(LockManager.open(str(root)), port=0)
    _server.start()
    return _server.url


def close() -> None:
    """In the server's process: stop serving."""
    assert _server is not None
    _server.close()
