"""Runs the commands of a plan one after the other, each in its folder, and records each result.

    python lease_driver.py FOLDER

The plan is FOLDER/plan, the results go to FOLDER/notes, a line for each command. At the end it
creates FOLDER/done and waits for FOLDER/go, so that a test can see what is held then.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

#: How long a command of the corpus may take on a busy machine.
CASE_SECONDS = 60.0


def run(words: list[str], folder: str) -> tuple[int, str, str]:
    """The exit code and the output of a command."""
    process = subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=CASE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err += b"\n(it did not end)"
    return process.returncode, _text(out), _text(err)


def _text(said: bytes) -> str:
    return said.decode("utf-8", "backslashreplace")


def main(folder: Path) -> None:
    plan: list[tuple[str, list[str], str]] = json.loads((folder / "plan").read_text())
    with (folder / "notes").open("w") as notes:
        for name, words, where in plan:
            print(json.dumps([name, *run(words, where)]), file=notes, flush=True)
    (folder / "done").touch()
    end = time.monotonic() + CASE_SECONDS
    while not (folder / "go").exists() and time.monotonic() < end:
        time.sleep(0.005)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
