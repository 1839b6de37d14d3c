"""Whether Codex would run its hooks: it silently skips hooks that the user has not trusted.

The doctor asks Codex itself (`codex app-server`), because only Codex knows how it compares a hook
with the trusted one. Codex gets a home of its own with a copy of the user's `config.toml`, where
trust is kept, so none of the user's files is written.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from time import monotonic

from holdfast.core.model import Value
from holdfast.gate.doctor.trial_repository import end
from holdfast.gate.install import hook_entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from holdfast.gate.doctor.trial_repository import Scene

PROGRAM = "codex"
TRUSTED = "trusted"
_LIST_ID = 2
_ANSWER_BYTES_MAX = 16 << 20


class Trust(Value):
    """The events whose hooks Codex would skip, each with its state; `why` if that is unknown."""

    __slots__ = ("skipped", "why")

    def __init__(self, skipped: tuple[tuple[str, str], ...] = (), why: str = "") -> None:
        self.skipped: Final = skipped
        self.why: Final = why


def codex_trust(root: str, home: str, scene: Scene, environ: Mapping[str, str]) -> Trust:
    """What Codex reports on our hooks in a repository."""
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    if program is None:
        return Trust(why=f"{PROGRAM} is not on the path")
    try:
        answer = _asked(program, root, _copied(home, scene), scene)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return Trust(why=f"{program} app-server gave no answer: {said}")
    return _read(answer, root)


def _copied(home: str, scene: Scene) -> str:
    folder = f"{scene.folder}/codex-home"
    os.mkdir(folder, 0o700)
    if os.path.isfile(f"{home}/config.toml"):
        shutil.copyfile(f"{home}/config.toml", f"{folder}/config.toml")
    return folder


def _asked(program: str, root: str, home: str, scene: Scene) -> dict[str, Any]:
    """The answer to `hooks/list`. Raises OSError or ValueError if there is none."""
    name = {"name": "holdfast-doctor", "version": "1"}
    questions = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": name}},
        {"method": "initialized"},
        {"id": _LIST_ID, "method": "hooks/list", "params": {"cwds": [root]}},
    )
    process = subprocess.Popen(
        [program, "app-server"], cwd=scene.folder, env=scene.environment(CODEX_HOME=home),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, encoding="utf-8", start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        process.stdin.write("".join(f"{json.dumps(one)}\n" for one in questions))
        process.stdin.flush()
        return _answer(process, monotonic() + scene.patience_seconds)
    finally:
        end(process)


def _answer(process: subprocess.Popen[str], deadline: float) -> dict[str, Any]:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    rest = b""
    while len(rest) < _ANSWER_BYTES_MAX:
        left = deadline - monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            raise ValueError("it timed out")
        some = os.read(descriptor, 1 << 16)
        if not some:
            raise ValueError("it ended too early")
        *lines, rest = (rest + some).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if isinstance(said, dict) and said.get("id") == _LIST_ID:
                if not isinstance(said.get("result"), dict):
                    raise ValueError("it does not know hooks/list")
                return dict(said["result"])
    raise ValueError("its answer is too long")


def _read(answer: dict[str, Any], root: str) -> Trust:
    folders = answer.get("data")
    known: list[dict[str, Any]] = []
    complaints: list[str] = []
    for folder in folders if isinstance(folders, list) else ():
        if isinstance(folder, dict):
            known += [one for one in folder.get("hooks") or () if isinstance(one, dict)]
            complaints += map(str, folder.get("errors") or ())
    ours = [
        one for one in known
        if hook_entries.is_ours(one)
        and str(one.get("key", "")).startswith(f"{root}/")
    ]  # fmt: skip
    if not ours:
        said = (
            f": {complaints[0][:200]}" if complaints else "; perhaps it does not trust the folder"
        )
        return Trust((("all", f"codex does not load them{said}"),))
    skipped = []
    for one in ours:
        state = str(one.get("trustStatus"))
        if state == TRUSTED and one.get("enabled") is False:
            state = "switched off"
        if state != TRUSTED:
            skipped.append((_event(one), state))
    return Trust(tuple(skipped))


def _event(one: dict[str, Any]) -> str:
    parts = str(one.get("key", "")).rsplit(":", 3)
    return parts[1] if len(parts) == 4 else str(one.get("eventName", "?"))
