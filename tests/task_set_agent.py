"""The agent of random sets of tasks, and the model of it: a program of steps, played on the disk or
on a dictionary.

What a program writes depends only on what it reads: each line that it adds has a sum over all that
was read so far, so the content shows in which order the tasks ran. It reads only files that it
writes in the same step, or that its task declares under `reads`.

    task_set_agent.py PROMPT    a program as JSON, with the text that every agent gets

It starts very often, so it imports little.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Files(Protocol):
        """A tree of files."""

        def read(self, path: str) -> tuple[int, bytes] | None:
            """The mode and the content; None if there is no such file."""

        def write(self, path: str, old: bytes, line: bytes, how: str) -> None:
            """Replace the content with the one that was read, plus the line."""

        def remove(self, path: str) -> None:
            """Remove a file that may be missing."""

        def rename(self, path: str, to: str) -> None:
            """Rename a file, possibly over another one."""

        def chmod(self, path: str, mode: int) -> None:
            """Change the mode."""


#: How a file is written: opened and overwritten, appended to, or exchanged for a new one.
IN_PLACE, APPENDED, REPLACED = HOWS = ("in place", "appended", "replaced")
#: How an agent goes on when it was refused a file that it had read before: it repeats the step, or
#: gives up. The last kind has read everything at its start, so it cannot repeat a single step.
RETRIES, GIVES_UP, EAGER = KINDS = ("retries", "gives up", "eager")
#: A crash that happens in every attempt.
ALWAYS = 1_000
NEW_MODE = 0o644
_STALE_MAX = 100


class Player:
    """Plays the steps of one program on files."""

    def __init__(self, label: str, files: Files) -> None:
        self._label = label
        self._files = files
        self._seen = zlib.crc32(label.encode())

    def play(self, step: list[Any]) -> None:
        """Play one step. If it raises OSError, it can be repeated."""
        seen = self._seen
        try:
            getattr(self, f"_{step[0]}")(*step[1:])
        except OSError:
            self._seen = seen
            raise

    def _look(self, path: str) -> tuple[int, bytes] | None:
        found = self._files.read(path)
        told = b"none" if found is None else b"%o %s" % found
        self._seen = zlib.crc32(f"{path} ".encode() + told, self._seen)
        return found

    def _edit(self, path: str, how: str) -> None:
        self._add(path, self._look(path), how)

    def _add(self, path: str, old: tuple[int, bytes] | None, how: str) -> None:
        line = f"{self._label} {self._seen:08x}\n".encode()
        self._files.write(path, b"" if old is None else old[1], line, how)

    def _note(self, source: str, path: str, how: str) -> None:
        self._look(source)
        self._edit(path, how)

    def _delete(self, path: str) -> None:
        self._look(path)
        self._files.remove(path)

    def _rename(self, path: str, to: str) -> None:
        if self._look(path) is None:
            self._add(path, None, IN_PLACE)
        else:
            self._files.rename(path, to)

    def _chmod(self, path: str, mode: int) -> None:
        if self._look(path) is None:
            self._add(path, None, IN_PLACE)
        else:
            self._files.chmod(path, mode)

    def _sleep(self, seconds: float) -> None:
        pass

    def _crash(self, how: str, attempts: int) -> None:
        pass


def written_by(step: list[Any]) -> list[str]:
    """The paths that a step writes."""
    verb, *given = step
    if verb == "rename":
        return list(given[:2])
    return [given[1 if verb == "note" else 0]] if verb not in ("sleep", "crash") else []


class Disk:
    """The files below the folder that the agent was started in."""

    def read(self, path: str) -> tuple[int, bytes] | None:
        try:
            with open(path, "rb") as file:
                return os.fstat(file.fileno()).st_mode & 0o7777, file.read()
        except FileNotFoundError:
            return None

    def write(self, path: str, old: bytes, line: bytes, how: str) -> None:
        _make_folder(path)
        if how == REPLACED:
            self._replace(path, old + line)
            return
        flags = os.O_WRONLY | os.O_CREAT
        fd = os.open(path, flags | (os.O_APPEND if how == APPENDED else os.O_TRUNC), NEW_MODE)
        with open(fd, "wb") as file:
            file.write(line if how == APPENDED else old + line)

    def _replace(self, path: str, content: bytes) -> None:
        new = f"{path}.{os.getpid()}.new"
        try:
            with open(new, "wb") as file:
                file.write(content)
            os.replace(new, path)
        except OSError:
            self.remove(new)
            raise

    def remove(self, path: str) -> None:
        _make_folder(path)  # a missing folder has no name to lease
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def rename(self, path: str, to: str) -> None:
        _make_folder(to)
        os.rename(path, to)

    def chmod(self, path: str, mode: int) -> None:
        os.chmod(path, mode)


class Eager(Disk):
    """The same files, for an agent that has read everything at its start."""

    def __init__(self, paths: list[str]) -> None:
        self._known = {path: Disk.read(self, path) for path in paths}

    def read(self, path: str) -> tuple[int, bytes] | None:
        return self._known[path] if path in self._known else Disk.read(self, path)

    def write(self, path: str, old: bytes, line: bytes, how: str) -> None:
        Disk.write(self, path, old, line, how)
        known = self._known[path]
        mode = NEW_MODE if known is None or how == REPLACED else known[0]
        self._known[path] = mode, old + line

    def remove(self, path: str) -> None:
        Disk.remove(self, path)
        if path in self._known:
            self._known[path] = None

    def rename(self, path: str, to: str) -> None:
        Disk.rename(self, path, to)
        self._known[to], self._known[path] = self._known[path], None

    def chmod(self, path: str, mode: int) -> None:
        Disk.chmod(self, path, mode)
        known = self._known[path]
        assert known is not None
        self._known[path] = mode, known[1]


def _make_folder(path: str) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)


class Agent(Player):
    """Plays a program on the disk, with its sleeps and crashes."""

    def __init__(self, program: dict[str, Any], is_fix: bool) -> None:
        steps = program["fix" if is_fix else "steps"]
        paths = [path for step in steps for path in written_by(step)]
        files = Eager(paths) if program["kind"] == EAGER else Disk()
        super().__init__(f"{program['name']} fix" if is_fix else program["name"], files)
        self._program = program
        self._steps = steps
        self._attempt = self._count()

    def _count(self) -> int:
        """Which attempt this is. Written outside of the repository, so it survives an undo."""
        fd = os.open(self._program["count"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, NEW_MODE)
        os.write(fd, b".")
        return os.fstat(fd).st_size

    def work(self) -> None:
        for step in self._steps:
            for _ in range(_STALE_MAX):
                try:
                    self.play(step)
                    break
                except OSError as error:
                    if error.errno != errno.ESTALE or self._program["kind"] != RETRIES:
                        raise

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _crash(self, how: str, attempts: int) -> None:
        if self._attempt > attempts:
            return
        if how == "exit":
            os._exit(3)
        if how == "kill":
            os.kill(os.getpid(), 9)
        time.sleep(600)


def main() -> None:
    os.umask(0o022)
    program = json.loads(sys.argv[1].partition("\n\n")[0])
    Agent(program, "\n\nYour changes are in place" in sys.argv[1]).work()


if __name__ == "__main__":
    main()
