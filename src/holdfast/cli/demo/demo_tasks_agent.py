"""One scripted agent of the demo of tasks. The dispatcher starts it as it would start any other.

    python agent.py NAME PROMPT

It is a stand-in for a coding agent, needs only the standard library, and knows nothing of locks: it
opens files and writes them. It pauses instead of thinking. What a model would decide is in
`parts.json` beside it: which files it edits, and what goes wrong meanwhile. An edit reads a file,
thinks, and rewrites the file with one more line, in two halves. So two edits at the same time would
lose a line, and an interrupted one leaves half an edit.

Its output is its diary, by a clock that all processes of a machine share: the demo's audit reads it
as a witness beside the ledger and git. Each entry is also a file in `marks/`, by which the agents
meet: whether a collision can be seen must not depend on luck. Trouble comes once; the next attempt
has none.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
import zlib
from typing import Any, TextIO

HOME = os.path.dirname(os.path.abspath(__file__))
MARKS = f"{HOME}/marks"
#: No agent waits longer for another: then it goes on alone, and the audit reports it.
PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.02
#: How much of a line is missing in the middle of an edit.
HALF = 12
CRASH, STALL = "crashes", "stalls"


class Agent:
    """One attempt at a task."""

    def __init__(self, name: str, prompt: str) -> None:
        with open(f"{HOME}/parts.json", encoding="utf-8") as file:
            script = json.load(file)
        self._name = name
        self._seconds: float = script["seconds"]
        self._part: list[dict[str, Any]] = script["parts"][name]
        self._number = int.from_bytes(os.urandom(4), "big")
        #: What it adds to every file: the attempt, the task, and its prompt.
        self._line = f"# {self._number:010} {name}: {prompt.strip().splitlines()[0]}\n"

    def work(self) -> None:
        """Do every step of its part."""
        self._say("begins", f"{self._number:010} {self._name} task")
        for step in self._part:
            if "edit" in step:
                self._edit(step["edit"], step.get("when", ""), step.get("trouble", ""))
            else:
                self._await(step["until"])
                time.sleep(self._seconds)
        self._say("ends")

    def _edit(self, path: str, when: str, trouble: str) -> None:
        text = self._read(path)
        time.sleep(self._seconds)
        self._await(when)
        self._say("asks", path)
        file, text = self._opened(path, text)
        with file:
            self._say("edits", path)
            whole = text + self._line
            is_troubled = bool(trouble) and self._mark(f"{trouble} {path}")
            file.write(whole[:-HALF])
            file.flush()
            if is_troubled:
                self._have(trouble, path)
            time.sleep(self._seconds)
            file.write(whole[-HALF:])
        self._say("wrote", path)

    def _opened(self, path: str, text: str) -> tuple[TextIO, str]:
        """The file, emptied, and what was in it last. Opening it may take as long as another task
        has it; if that task changed it, opening fails once, and the file must be read again."""
        while True:
            try:
                return open(path, "w", encoding="utf-8"), text
            except OSError as error:
                if error.errno != errno.ESTALE:
                    raise
                self._say("stale", path)
                text = self._read(path)

    def _read(self, path: str) -> str:
        text = contents(path)
        self._say("read", path, f" {zlib.crc32(text.encode()):08x}")
        return text

    # What goes wrong

    def _have(self, trouble: str, path: str) -> None:
        """Be killed in the middle of an edit, or be so slow that the dispatcher is killed first."""
        self._say(trouble, path)
        if trouble == CRASH:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(PATIENCE_SECONDS)

    # How agents meet

    def _await(self, mark: str) -> None:
        """Wait until another agent has come so far, once."""
        end = time.monotonic() + PATIENCE_SECONDS
        while mark and not os.path.exists(f"{MARKS}/{flat(mark)}"):
            if time.monotonic() > end:
                return self._say("misses", mark)
            time.sleep(LOOK_SECONDS)
        return None

    def _mark(self, what: str) -> bool:
        """Leave a mark. False if it exists already."""
        try:
            os.close(os.open(f"{MARKS}/{flat(f'{self._name} {what}')}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _say(self, verb: str, what: str = "", more: str = "") -> None:
        """One line of the diary."""
        print(f"{time.monotonic():.3f} {verb} {what}{more}".rstrip(), flush=True)
        self._mark(f"{verb} {what}")


def contents(path: str) -> str:
    """The content of a file; empty if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def flat(mark: str) -> str:
    """A mark as the name of a file."""
    return mark.replace("/", "-").replace(" ", "_")


if __name__ == "__main__":
    Agent(*sys.argv[1:]).work()
