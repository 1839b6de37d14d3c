"""A guard: a short critical section that one process at a time may enter.

It is an advisory `flock` on a file of its own, so the kernel releases it when its holder dies. It
is held for a check and a few renames, and Ctrl-C takes effect when it is left. A process that is
stopped inside makes the others wait until it continues or is killed; they give up after a while
and name the process.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core.errors import StoreBusyError
from holdfast.store.sqlite.write_gate import Gate
from holdfast.trees.kernel_calls import undisturbed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Final

DEADLINE_SECONDS = 10.0


class Guard:
    """One process at a time: `with Guard(path, "the worktree main"):`."""

    def __init__(self, path: str, what: str, seconds: float = DEADLINE_SECONDS) -> None:
        self._path: Final = path
        self._what: Final = what
        self._seconds: Final = seconds
        self._gate: Gate | None = None
        self._quiet: AbstractContextManager[None] | None = None

    def __enter__(self) -> Guard:
        deadline = monotonic() + self._seconds
        while True:
            gate = Gate(self._path)
            try:
                gate.enter(deadline)
            except StoreBusyError as error:
                gate.close()
                raise self._busy(error) from error
            except BaseException:
                gate.close()
                raise
            if self._is_current(gate):
                break
            gate.close()  # the file was removed with its worktree while we waited
        self._gate = gate
        self._quiet = undisturbed()
        self._quiet.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._gate is not None
        assert self._quiet is not None
        self._gate.close()
        self._quiet.__exit__(None, None, None)

    def _is_current(self, gate: Gate) -> bool:
        try:
            status = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return (status.st_dev, status.st_ino) == gate.inode

    def _busy(self, error: StoreBusyError) -> StoreBusyError:
        pid = error.fields.get("pid")
        who = f"process {pid} has been" if pid else "another process has been"
        return StoreBusyError(
            f"{self._what} is busy: {who} in the middle of a change for {self._seconds:g} s",
            hint=f"continue it (kill -CONT {pid}) or end it" if pid else "try again",
            pid=pid,
        )
