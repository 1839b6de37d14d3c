"""The command that clients run for a hook: absolute, tested, and without a shim.

A version manager's shim takes longer than the hook itself, chooses the Python by the current
folder, and may find none. A command that cannot be run lets every write happen, and a missing
script refuses everything; so a command has run once before it is written into a user's settings.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from time import monotonic

import holdfast
from holdfast.core.errors import HoldfastError
from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: An event that no client has: a hook that receives it has nothing to decide.
PROBE_EVENT = "HoldfastProbe"
#: No client would wait for a hook that takes longer than this for nothing.
PROBE_SECONDS_MAX = 30.0

#: Runs the script given as the first argument, as Python itself would.
LOADER = "import sys; del sys.argv[0]; exec(open(sys.argv[0], 'rb').read())"

_MANAGERS = ("pyenv", "asdf", "mise", "rtx", "uv", "uvx", "rye")
_TAG = b"Signature: 8a477f597d28d172789f06886806bc55"
#: Paths of caches in versions of uv and pipx that did not tag them yet.
_PASSING = (
    "/uv/archive-v", "/uv/builds-v", "/uv/environments-v", "/.cache/pipx/", "/pipx/.cache/",
)  # fmt: skip


class InstallError(HoldfastError):
    """Hooks that cannot be written, or would not work. Nothing was written."""

    code = "E_INSTALL"


class Command(Value):
    """An interpreter and a script, both by absolute paths."""

    __slots__ = ("python", "script")

    def __init__(self, python: str, script: str) -> None:
        self.python: Final = python
        self.script: Final = script

    def words(self, *more: str) -> list[str]:
        """The words, without the environment's settings for Python and without site packages."""
        return [self.python, "-I", "-S", self.script, *more]

    def hook(self, client: str) -> list[str]:
        """The words that a client runs. A Python that cannot open its script ends with 2, which
        clients treat as a refusal at every event: they erase prompts, and never let an agent stop.
        With the loader it ends with 1."""
        return [self.python, "-I", "-S", "-c", LOADER, self.script, client]


def own_command() -> Command:
    """The command of this installation. Raises InstallError."""
    package = os.path.dirname(os.path.abspath(holdfast.__file__))
    script = os.path.join(package, "gate", "hook.py")
    python = interpreter(sys.executable)
    for place in (python, package):
        cache = cache_around(place)
        if cache:
            raise InstallError(
                f"this Holdfast runs from a cache that is cleared without notice: {cache}",
                hint="install it permanently and run that: uv tool install holdfast, "
                "or pipx install holdfast",
                path=cache,
            )
    if not os.path.isfile(script):
        raise InstallError(
            f"this installation is incomplete: {script} is missing",
            hint="install Holdfast again",
            path=script,
        )
    return Command(python, script)


def cache_around(path: str) -> str:
    """The cache that a path is in; empty if it is in none. uv and pipx tag their caches by the
    convention (https://bford.info/cachedir), wherever they are. Some tools tag virtual
    environments too, which are no caches."""
    folder = os.path.dirname(path)
    while folder != os.path.dirname(folder):
        if _is_tagged(folder) and not os.path.exists(f"{folder}/pyvenv.cfg"):
            return folder
        folder = os.path.dirname(folder)
    return path if any(mark in f"{path}/" for mark in _PASSING) else ""


def _is_tagged(folder: str) -> bool:
    try:
        with open(f"{folder}/CACHEDIR.TAG", "rb") as file:
            return file.read(len(_TAG)) == _TAG
    except OSError:
        return False


def interpreter(python: str) -> str:
    """The Python behind a path: the path itself, or the shim's target. Raises InstallError."""
    if python and os.path.isabs(python) and os.access(python, os.X_OK) and not is_shim(python):
        return python
    for found in (_asked(python) if python else "", _running()):
        if found and os.path.isabs(found) and os.access(found, os.X_OK) and not is_shim(found):
            return found
    raise InstallError(
        f"no Python to run the hooks with was found behind {python or 'this process'}",
        hint="install Holdfast into a virtual environment of its own and run it from there",
        path=python,
    )


def is_shim(python: str) -> bool:
    """Whether a path is a version manager's shim or a script, rather than a program."""
    real = os.path.realpath(python)
    if "shims" in real.split(os.sep) or "shims" in python.split(os.sep):
        return True
    if os.path.splitext(os.path.basename(real))[0] in _MANAGERS:
        return True
    try:
        with open(real, "rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def _asked(python: str) -> str:
    """The interpreter that a shim runs, as that reports."""
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", "import sys; print(sys.executable)"],
            capture_output=True, text=True, timeout=PROBE_SECONDS_MAX, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _running() -> str:
    """The program of this process, according to the system."""
    try:
        return os.readlink("/proc/self/exe")
    except OSError:
        return ""


def probe(words: list[str], root: str, deadline_seconds: float) -> float:
    """Run a hook's command once with nothing to decide; returns how long that took. Raises
    InstallError."""
    told = json.dumps({"hook_event_name": PROBE_EVENT, "session_id": "holdfast-probe", "cwd": root})
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HOLDFAST_")}
    limit = max(1.0, min(deadline_seconds, PROBE_SECONDS_MAX))
    begin = monotonic()
    try:
        done = subprocess.run(
            words, input=told, capture_output=True, text=True, errors="replace",
            timeout=limit, check=False, cwd=root, env=kept,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _fails(words, f"it did not answer within {limit:g} s") from None
    except OSError as error:
        raise _fails(words, f"it cannot be run: {error.strerror}") from error
    said = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode != 0:
        why = f"it ended with {done.returncode}"
        raise _fails(words, f"{why}: {said}" if said else why)
    if not _is_answer(done.stdout):
        raise _fails(words, f"its output is not valid: {done.stdout.strip()[:80]}")
    return monotonic() - begin


def _is_answer(text: str) -> bool:
    if not text.strip():
        return True
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _fails(words: list[str], why: str) -> InstallError:
    line = words[2] if words[:2] == ["/bin/sh", "-c"] else shlex.join(words)
    return InstallError(
        f"the hook's command does not work: {why}",
        hint=f"install Holdfast again; to reproduce: echo '{{}}' | {line}",
        command=line,
    )
