"""Threads that do one thing after another, as many as there are things to do at once.

To start a thread and to wait until it runs takes longer than all else that sending out an item
takes. They are no obstacle to the end of the program.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Task = Callable[[], None]


class Hands:
    """What is given to them is begun at once. A task must not raise."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = 0

    def do(self, task: Task) -> None:
        """Have it done, beside all else."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._tasks.put(task)
                return
            thread = threading.Thread(
                target=self._serve, args=(self._tasks, task), name=self._name, daemon=True
            )
            thread.start()  # if it cannot be started nothing is left of it, and nothing was begun
            self._threads.append(thread)

    def finish(self) -> None:
        """Wait until all is done that was begun, but for what the caller itself is part of.
        Something new may be given to them meanwhile, and is not waited for."""
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
