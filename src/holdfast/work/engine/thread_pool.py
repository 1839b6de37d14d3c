"""Threads that run one task after another, as many as there are tasks at once.

Starting a thread and waiting until it runs would take longer than everything else in a dispatch.
The threads do not keep the program from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]


class ThreadPool:
    """Starts every task that it is given immediately. A task must not raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0

    def do(self, task: Task) -> None:
        """Run a task beside everything else."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._tasks.put(task)
                return
            thread = threading.Thread(
                target=self._serve, args=(self._tasks, task), name=self._name, daemon=True
            )
            thread.start()  # if it cannot be started, it is forgotten, and nothing has begun
            self._threads.append(thread)

    def finish(self) -> None:
        """Wait until all tasks have ended, except the one that calls this. Tasks that are added
        meanwhile are not waited for."""
        with self._lock:
            tasks, threads = self._tasks, self._threads
            self._begin()
        for _ in threads:
            tasks.put(None)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _serve(self, tasks: SimpleQueue[Task | None], first: Task) -> None:
        task: Task | None = first
        while task is not None:
            task()
            with self._lock:
                if tasks is self._tasks:
                    self._idle += 1
            task = tasks.get()
