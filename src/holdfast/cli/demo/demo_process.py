"""The folder that a demo works in, and the dispatcher that it starts there, kills and starts again.

The dispatcher is the ordinary command, in a process of its own. The ledger is in that folder, or on
the server that HOLDFAST_STORE names: there it is a repository of its own, which remains.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.core.errors import HoldfastError
from holdfast.manager.owners.variables import STORE
from holdfast.store.store_url import is_server
from holdfast.work.screens.layout import SLOTS_VARIABLE

#: How long an interrupted dispatcher has to end its agents.
END_SECONDS = 10.0
LOOK_SECONDS = 0.02


class DemoError(HoldfastError):
    """The demo itself failed; this says nothing about the locks."""

    code = "E_DEMO"


@contextmanager
def temporary_folder(*, keep: bool) -> Iterator[str]:
    """A folder for a demo. However the demo ends, neither the folder nor agents are left."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="holdfast-demo-"))
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield folder
    finally:
        if not keep:
            remove(folder)
        signal.signal(signal.SIGTERM, before)


def dispatch(
    root: str, log: str, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `holdfast dispatch` in a repository. Its output is appended to the log."""
    with open(log, "ab") as printed:
        return subprocess.Popen(
            # -P: the made-up application must not be importable in place of ours.
            [sys.executable, "-P", "-m", "holdfast", "dispatch", *words],
            cwd=root, env=environment or clean_environment(), stdin=subprocess.DEVNULL,
            stdout=printed, stderr=printed,
            start_new_session=True,  # an interrupt is for us; we end all of them
        )  # fmt: skip


def clean_environment() -> dict[str, str]:
    """The environment without variables that would make a dispatcher work elsewhere."""
    ours = ("HOLDFAST_", SLOTS_VARIABLE)
    kept = {name: text for name, text in os.environ.items() if not name.startswith(ours)}
    return {**kept, STORE: os.environ[STORE]} if _is_on_server() else kept


def name_setting(folder: str) -> str:
    """The first line of a demo's settings: its name on a server. Without it, the URL could name the
    user's own repository."""
    return f"repository = {json.dumps(os.path.basename(folder))}\n" if _is_on_server() else ""


def about_ledger(url: str) -> str:
    """A sentence about the ledger of a demo, if it is on a server; else empty."""
    store, _, name = url.partition("#")
    if not is_server(url):
        return ""
    return f"Its ledger is on a server ({store}), as the repository {name}, and remains there."


def _is_on_server() -> bool:
    return is_server(os.environ.get(STORE, ""))


def last_words(log: str) -> str:
    """The end of a dispatcher's output, in one line."""
    with open(log, encoding="utf-8", errors="replace") as printed:
        return " ".join(printed.read().splitlines()[-3:])


def end(dispatcher: subprocess.Popen[bytes]) -> None:
    """End it with everything that it has started. A second signal ends it immediately."""
    for seconds in (END_SECONDS / 50, END_SECONDS):
        if dispatcher.poll() is not None:
            return
        dispatcher.terminate()
        try:
            dispatcher.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    dispatcher.kill()
    dispatcher.wait()


def remove(folder: str) -> None:
    """Remove it whole; processes that we have just killed may still be writing there."""
    give_up = time.monotonic() + END_SECONDS
    while os.path.exists(folder) and time.monotonic() < give_up:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(LOOK_SECONDS)
