"""Child processes of a check: forked, watched, and always cleaned up."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from holdfast.testing.conformance.scene import PATIENT_SECONDS


class Child:
    """A forked child that answers over a pipe. It is killed when its check ends."""

    def __init__(self, work: Callable[[Callable[[Any], None]], None]) -> None:
        reads, writes = os.pipe()
        with warnings.catch_warnings():
            # Some checks are about a fork beside threads.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            os.close(reads)
            _work(work, writes)
        os.close(writes)
        self._answers = reads
        self._left = b""

    def answer(self) -> Any:
        """The child's next message. Fails if the child ends or sends nothing."""
        end = monotonic() + PATIENT_SECONDS
        while b"\n" not in self._left:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, end - monotonic()))
            assert ready, "the child does not answer"
            more = os.read(self._answers, 65536)
            assert more, "the child has ended without an answer; see its traceback"
            self._left += more
        line, _, self._left = self._left.partition(b"\n")
        return json.loads(line)

    def stop(self) -> None:
        """Stop the child, and wait until it has stopped."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitpid(self.pid, os.WUNTRACED)

    def go_on(self) -> None:
        """Let a stopped child continue."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kill the child without a warning, and wait until it is gone."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            os.close(self._answers)
            self.pid = 0


def _work(work: Callable[[Callable[[Any], None]], None], pipe: int) -> None:
    def say(answer: Any) -> None:
        os.write(pipe, json.dumps(answer).encode() + b"\n")

    try:
        work(say)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(0)


@contextmanager
def child(work: Callable[[Callable[[Any], None]], None]) -> Iterator[Child]:
    """A child that runs `work(say)` and reports by `say`."""
    made = Child(work)
    try:
        yield made
    finally:
        made.kill()
