"""One scripted agent of the demo. The dispatcher starts it as it would start any other.

    python agent.py PHASE WORKFLOW PATHS [READS]

It is a stand-in for a coding agent, needs only the standard library, and of locks it knows only its
grant's token, as every agent does. It pauses instead of thinking. What a model would decide is in
`script.json` beside it: how long it thinks, what it finds, and which agent gets into trouble. An
edit reads a file, thinks, and rewrites the file with one more line, so two edits at the same time
would lose a line.

Its output is its diary, by a clock that all processes of a machine share: the demo's audit reads it
as a second witness beside the ledger. Trouble comes once; the next attempt has none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

#: How long it writes nothing to its diary, at most, while it works on a file.
SILENCE_SECONDS = 0.2
HOME = os.path.dirname(os.path.abspath(__file__))
CRASH, HANG, STRAY = "crash", "hang", "stray"


class Agent:
    """One run: a phase of a workflow, some paths, and a part to play."""

    def __init__(self, phase: str, workflow: str, paths: list[str], reads: list[str]) -> None:
        with open(f"{HOME}/script.json", encoding="utf-8") as file:
            script = json.load(file)
        self._phase = phase
        self._workflow = workflow
        self._paths = paths
        self._reads = reads
        self._part: dict[str, Any] = script["parts"][phase].get(workflow, {})
        self._seconds = script["pace"] * self._part.get("seconds", script["seconds"][phase])
        self._token = os.environ.get("HOLDFAST_TOKEN", "0")

    def play(self) -> int:
        """Do the work of the phase. The exit code is what a real agent's would be."""
        say("begins", f"{self._token} {self._workflow} {self._phase}")
        if self._phase == "analyze":
            self._analyze()
        elif self._phase in ("apply", "fix"):
            self._edit()
        elif self._phase == "test":
            self._test()
        elif not self._verified():
            return 1
        say("ends")
        return 0

    # The phases

    def _analyze(self) -> None:
        """Read, think, and check that nothing has changed meanwhile, as it must not."""
        before = {path: contents(path) for path in self._reads}
        self._think("reads", self._reads)
        for path, known in before.items():
            if contents(path) != known:
                say("changed", path)
        screen = self._workflow.rpartition("/")[2]
        found = {
            "screen": screen, "findings": self._part["findings"],
            "write_targets": self._part["targets"],
        }  # fmt: skip
        with open(self._paths[0], "w", encoding="utf-8") as file:
            json.dump(found, file)

    def _edit(self) -> None:
        """One more line in every file; a fix only in the first."""
        paths = self._paths if self._phase == "apply" else self._paths[:1]
        for number, path in enumerate(paths):
            text = contents(path)
            self._think("edits", [path], len(paths))
            line = f"# {self._token} {self._workflow} {self._phase}\n"
            if number == 1 and self._trouble(CRASH):
                with open(path, "w", encoding="utf-8") as file:
                    file.write((text + line)[:-9])
                say("crashes", path)
                os.kill(os.getpid(), signal.SIGKILL)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + line)
            say("wrote", path)
        if self._trouble(STRAY):
            self._stray(self._part["stray"])

    def _test(self) -> None:
        if self._trouble(HANG):
            # in a session of its own, as processes that agents leave running often are
            sleeps = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(3600)"]
            child = subprocess.Popen(sleeps, start_new_session=True)
            say("hangs", str(child.pid))
            child.wait()
        self._think("reads", self._paths)

    def _verified(self) -> bool:
        self._think("reads", self._paths)
        missing = [path for path in self._paths if f"# {self._token} " not in contents(path)]
        for path in missing:
            say("misses", path)
        return not missing

    # Helpers

    def _think(self, verb: str, paths: list[str], parts: int = 1) -> None:
        """Take its time, with an entry now and then: an agent that is killed was there until the
        last one."""
        end = time.monotonic() + self._seconds / parts
        while True:
            for path in paths:
                say(verb, path)
            left = end - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, SILENCE_SECONDS))

    def _trouble(self, kind: str) -> bool:
        """Whether it is to get into trouble now. The next time it is not."""
        if self._part.get("trouble") != kind:
            return False
        mark = f"tmp/{self._phase}-{self._workflow.replace('/', '-')}"
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _stray(self, path: str) -> None:
        """Write a file that no analysis had named."""
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"# {self._token} {self._workflow} stray\n")
            say("strayed", path)
        except PermissionError:
            say("refused", path)


def say(verb: str, what: str = "") -> None:
    """One line of the diary."""
    print(f"{time.monotonic():.3f} {verb} {what}".rstrip(), flush=True)


def contents(path: str) -> str:
    """What a file says, or all files of a folder."""
    if os.path.isdir(path):
        names = sorted(os.listdir(path))
        return "".join(contents(os.path.join(path, name)) for name in names)
    with open(path, encoding="utf-8") as file:
        return file.read()


def main(phase: str, workflow: str, paths: str, reads: str = "") -> int:
    """Play one part; paths come a line each."""
    return Agent(phase, workflow, paths.splitlines(), reads.splitlines()).play()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
