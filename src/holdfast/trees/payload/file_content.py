"""The content of one file: copied and hashed. The hash is always that of the copy."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable

from holdfast.manager.files.replace_file import write_all
from holdfast.trees import tree_files
from holdfast.trees.engines import Engine
from holdfast.trees.payload.copy_workers import Job, Workers
from holdfast.trees.progress_reports import Pulse

_READ_BYTES = 1 << 20
_LOOK_SECONDS = 0.005
#: A file up to this size is copied before another thread would wake up.
_ALONE_BYTES_MAX = 1 << 20
#: A file of this size is flushed on its own, while others are still being copied.
_FLUSH_BYTES_MIN = 256 << 20


def read_small(source: int, size: int) -> bytes:
    """All of a small file: at most its known size and one byte more."""
    data = os.read(source, size + 1)
    while len(data) < size and (more := os.read(source, size + 1 - len(data))):
        data += more
    return data


def write_small(folder: int, name: str, data: bytes, mode: int) -> int:
    """Create a file with this content, and leave it open."""
    target = os.open(name, tree_files.NEW, mode, dir_fd=folder)
    try:
        if data:
            write_all(target, data)
    except BaseException:
        os.close(target)
        raise
    return target


def hash_of(descriptor: int, tick: Callable[[int], None]) -> str:
    """The hash of an open file."""
    found = hashlib.sha256()
    at = 0
    while data := os.pread(descriptor, _READ_BYTES, at):
        found.update(data)
        at += len(data)
        tick(len(data))
    return found.hexdigest()


def copy_large(
    engine: Engine,
    source: int,
    size: int,
    folder: int,
    name: str,
    mode: int,
    dress: Callable[[int], None],
    workers: Workers,
    pulse: Pulse,
) -> Job:
    """Copy a large file with an engine, in one worker, while another hashes the copy behind it.

    The open source belongs to the workers from here on. `dress` sets everything but the content on
    the finished copy. The answer is the hash.
    """
    try:
        flags = (tree_files.NEW & ~os.O_WRONLY) | os.O_RDWR
        target = os.open(name, flags, mode, dir_fd=folder)
    except BaseException:
        os.close(source)
        raise
    copying = _Copying(engine, source, target, size, dress, workers, pulse)
    if size <= _ALONE_BYTES_MAX:
        copying.copy()
        job = Job(copying.hash, copying.close)
        job.do(stopped=False)
        return job
    workers.submit(copying.copy, copying.drop)
    return workers.submit(copying.hash, copying.close)


class _Copying:
    """One large file that is being copied."""

    def __init__(
        self,
        engine: Engine,
        source: int,
        target: int,
        size: int,
        dress: Callable[[int], None],
        workers: Workers,
        pulse: Pulse,
    ) -> None:
        self._engine = engine
        self._source = source
        self._target = target
        self._size = size
        self._dress = dress
        self._workers = workers
        self._pulse = pulse
        self._done = threading.Event()
        self._trouble: BaseException | None = None

    def copy(self) -> str:
        """Copy all of it, from beginning to end."""
        try:
            self._engine.copy(self._source, self._target, self._size, self._tick)
            self._dress(self._target)
            if self._size >= _FLUSH_BYTES_MIN:
                os.fsync(self._target)
        except BaseException as trouble:
            self._trouble = trouble
        finally:
            self._done.set()
        return ""

    def drop(self) -> None:
        """Give it up."""
        self._done.set()

    def hash(self) -> str:
        """Hash the copy as it grows, until it is complete."""
        try:
            found = hashlib.sha256()
            at = 0
            while True:
                done = self._done.is_set()
                at += self._hash_up_to(os.fstat(self._target).st_size, at, found.update)
                if done:
                    break
                self._done.wait(_LOOK_SECONDS)
            if self._trouble is not None:
                raise self._trouble
            return found.hexdigest()
        finally:
            self.close()

    def _hash_up_to(self, end: int, at: int, update: Callable[[bytes], None]) -> int:
        begin = at
        while at < end:
            self._workers.check()
            data = os.pread(self._target, min(_READ_BYTES, end - at), at)
            if not data:
                break
            update(data)
            at += len(data)
        return at - begin

    def close(self) -> None:
        """Close both files once no worker uses them."""
        self._done.wait()
        os.close(self._source)
        os.close(self._target)

    def _tick(self, count: int) -> None:
        self._workers.check()
        self._pulse.count(count)
