"""Threads that copy and hash large files while the small ones go on beside them.

Copying and hashing both release the interpreter lock. A thread that waits for an answer keeps
beating, so that a lease is renewed while one huge file is copied. Ctrl-C never reaches these
threads.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from holdfast.trees.kernel_calls import undisturbed

WORKERS = 2
#: How many large files may be open at the same time.
JOBS_MAX = 8
_BEAT_SECONDS = 0.1


class Stopped(Exception):
    """The operation was given up."""


class Job:
    """One piece of work, and its answer once it is done."""

    __slots__ = ("_answer", "_done", "_drop", "_trouble", "_work")

    def __init__(self, work: Callable[[], str], drop: Callable[[], None]) -> None:
        self._work = work
        self._drop = drop
        self._done = threading.Event()
        self._answer = ""
        self._trouble: BaseException | None = None

    def do(self, stopped: bool) -> None:
        """Do it, in a thread."""
        try:
            if stopped:
                self._drop()
                raise Stopped
            self._answer = self._work()
        except BaseException as trouble:
            self._trouble = trouble
        finally:
            self._done.set()

    def answer(self, beat: Callable[[], None]) -> str:
        """Wait for the answer. Raises what the work raised."""
        while not self._done.wait(_BEAT_SECONDS):
            beat()
        if self._trouble is not None:
            raise self._trouble
        return self._answer


class Workers:
    """Some threads, started when the first job comes; leaving the section ends them."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._jobs: queue.Queue[Job | None] = queue.Queue(JOBS_MAX)
        self._threads: list[threading.Thread] = []
        self._stopped = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        for _thread in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """For jobs to call regularly: raise if the operation was given up."""
        if self._stopped:
            raise Stopped

    def submit(self, work: Callable[[], str], drop: Callable[[], None]) -> Job:
        """Submit a job; waits while the queue is full.

        If the operation has been given up when the job's turn comes, `drop` is called instead.
        """
        if len(self._threads) < WORKERS:
            self._start()
        job = Job(work, drop)
        while True:
            try:
                self._jobs.put(job, timeout=_BEAT_SECONDS)
            except queue.Full:
                self._beat()
                continue
            return job

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name="holdfast-trees", daemon=True)
        with undisturbed():
            thread.start()
        self._threads.append(thread)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.do(self._stopped)
