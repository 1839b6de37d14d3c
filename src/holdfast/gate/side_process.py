"""A side process: a helper that outlives the hook which starts it, and ends by itself.

It inherits nothing from the hook: no descriptor that a client waits for, no terminal, no folder,
and no variable by which it would count as an agent's command. A file beside the ledger names the
process of each task; a process that finds another named there ends.
"""

from __future__ import annotations

import os
import sys

from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.owners.liveness import own_witness, witness_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Under the root: a file for each process.
FOLDER = f"{LEDGER_FOLDER}/beside"

#: The side processes that this process has started.
STARTED: set[int] = set()

_BYTES_MAX = 300
_SOURCE = __file__.removesuffix("/holdfast/gate/side_process.py")
_PROGRAM = (
    "import os, sys; os.chdir('/'); sys.path.insert(0, sys.argv.pop(1)); "
    "from importlib import import_module; import_module(sys.argv.pop(1)).run(sys.argv[1:])"
)
_SHELL = "/bin/sh"
#: To start a program in another folder without going there ourselves.
_IN_FOLDER = 'cd "$0" && exec "$@"'


def start(module: str, words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Start the `run` of a module, named in full, in a process of its own: its pid, or 0 if it
    could not be started. Never raises."""
    if os.name != "posix" or not sys.executable:
        return 0
    program = [sys.executable, "-I", "-S", "-c", _PROGRAM, _SOURCE, module]
    try:
        pid = spawn([*program, *words], environ)
    except (OSError, ValueError):
        return 0
    STARTED.add(pid)
    return pid


def spawn(words: Sequence[str], environ: Mapping[str, str], folder: str = "") -> int:
    """Start a detached program that inherits nothing from us, in another folder if one is given;
    returns its pid. Raises OSError, or ValueError for a zero byte.

    This avoids `subprocess` where possible: importing it takes longer than all the rest."""
    if sys.platform != "win32" and hasattr(os, "posix_spawn"):
        try:
            inside = [_SHELL, "-c", _IN_FOLDER, folder] if folder else []
            return _spawn([*inside, *words], environ)
        except NotImplementedError:  # no `setsid` here
            pass
    import subprocess

    child = subprocess.Popen(
        words, cwd=folder or None, env=environ, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    child.returncode = 0  # or Popen would warn that the child was not waited for
    return child.pid


def _spawn(words: list[str], environ: Mapping[str, str]) -> int:
    import signal

    return os.posix_spawn(
        words[0], words, environ,
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # the interpreter ignores these, for itself
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
        ],
    )  # fmt: skip


def _inheritable() -> Iterator[int]:
    """The descriptors that a program started by us would inherit, except the first three: those
    that we inherited ourselves, because our own close on exec."""
    for name in os.listdir("/dev/fd"):
        descriptor = int(name)
        try:
            if descriptor > 2 and os.get_inheritable(descriptor):
                yield descriptor
        except OSError:  # the descriptor of the listing itself
            continue


class Place:
    """The file that names the process of one task, `about` something, in a pid namespace."""

    __slots__ = ("_about", "_file", "_text")

    def __init__(self, root: str, name: str, about: str = "") -> None:
        self._file = f"{root}/{FOLDER}/{name}"
        own = own_witness()
        self._about = f"{about} {own.namespace}"
        self._text = f"{own.pid} {own.start} {self._about}"

    def is_taken(self) -> bool:
        """Whether a live process has it, for the same task. Raises OSError."""
        pid, _, rest = self._said().partition(" ")
        start, _, about = rest.partition(" ")
        if about != self._about or not pid.isdecimal():
            return False
        found = witness_of(int(pid))
        return found is not None and str(found.start) == start

    def is_ours(self) -> bool:
        """Whether this process has it."""
        return self._said() == self._text

    def claim(self) -> bool:
        """Take it, unless it is taken. Raises OSError."""
        try:
            os.mkdir(self._file.rpartition("/")[0])
        except FileExistsError:
            pass
        descriptor = self._locked()
        try:
            if self.is_taken():
                return False
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, self._text.encode("ascii", "replace"), 0)
            return True
        finally:
            os.close(descriptor)

    def give_up(self) -> None:
        """Leave it, if it is ours. Raises OSError."""
        if not self.is_ours():
            return
        descriptor = self._locked()
        try:
            if self.is_ours():
                os.unlink(self._file)
        finally:
            os.close(descriptor)

    def _said(self) -> str:
        """The pid, the start time and the task; empty if there is none."""
        try:
            descriptor = os.open(self._file, os.O_RDONLY)
        except FileNotFoundError:
            return ""
        try:
            return os.read(descriptor, _BYTES_MAX).decode("ascii", "replace")
        finally:
            os.close(descriptor)

    def _locked(self) -> int:
        """A descriptor of the file, locked, once it is the file of this name."""
        from fcntl import LOCK_EX, flock

        while True:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                flock(descriptor, LOCK_EX)
                if os.fstat(descriptor).st_ino == os.stat(self._file).st_ino:
                    return descriptor
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
