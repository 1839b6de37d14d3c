"""The agents of the demo as its director sees them: started, told, stopped, killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from typing import Any

from holdfast.core.errors import HoldfastError

#: Longer than anything here takes, even on a machine that has much else to do.
ANSWER_SECONDS = 40.0


class DemoError(HoldfastError):
    """The demo itself did not work; this says nothing about the locks."""

    code = "E_DEMO"


def clean_environment() -> dict[str, str]:
    """The environment without what would tell a command whose locks are meant."""
    return {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}


class Actor:
    """One agent's process. What is told to it is answered in order."""

    def __init__(self, root: str, name: str) -> None:
        self.name = name
        self._answers: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            # -P: the made-up application must not be importable as if it were ours.
            [sys.executable, "-P", "-m", "holdfast.cli.demo_agent", root, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=clean_environment(),
            start_new_session=True,  # an interrupt is for the director, who ends them all
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(json.loads(line))
        self._answers.put(None)

    def tell(self, verb: str, **words: Any) -> None:
        """Tell it what to do, and do not wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": verb, **words}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Its next answer."""
        try:
            found = self._answers.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            found = None
        if found is None:
            raise DemoError(
                f"the agent {self.name} does not answer", hint="see above for what it said last"
            )
        return found

    def do(self, verb: str, **words: Any) -> dict[str, Any]:
        """Tell it what to do, and wait until it is done."""
        self.tell(verb, **words)
        return self.answer()

    def stop(self) -> None:
        """Stop it where it is, as a laptop's lid or a debugger would. Returns when it stands."""
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """Let it go on as if nothing had happened."""
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
