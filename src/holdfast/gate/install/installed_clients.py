"""Which clients are in use, where their settings are, and which settings disable hooks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

from holdfast.core.model import Value
from holdfast.gate.clients import NAMES, adapter
from holdfast.gate.git.git_files import outside
from holdfast.gate.install import hook_entries
from holdfast.gate.install.client_hooks import Wanted
from holdfast.manager.files import checkouts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from holdfast.gate.clients import Adapter
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.install.hook_command import Command


#: How people call a client, and the variable that moves its own settings elsewhere.
_CALLED = {"claude": ("Claude Code", "CLAUDE_CONFIG_DIR"), "codex": ("Codex", "CODEX_HOME")}


class Client(Value):
    """The facts about a client that are needed to install hooks for it.

    Hooks go to the first of its `files` in the repository; the client also reads hooks from the
    others. A `folder` in the repository shows that the client is used there; its own folder in the
    home has the same name.
    """

    __slots__ = ("adapter", "file", "files", "folder", "home_variable", "name", "title")

    def __init__(self, name: str, adapter: Adapter) -> None:
        self.name: Final = name
        self.adapter: Final = adapter
        self.title, self.home_variable = _CALLED.get(name, (name.capitalize(), ""))
        self.files: Final = adapter.SETTINGS_FILES
        self.file: Final = self.files[0]
        self.folder: Final = self.file.partition("/")[0]

    def wanted(self, command: Command, settings: Settings) -> list[Wanted]:
        """The hooks that the client should have."""
        facts, words = self.adapter, command.hook(self.name)
        found = []
        for event, matcher in facts.EVENTS.items():
            handler = hook_entries.made(
                words, event, self.file,
                exec_form=facts.EXEC_FORM, status=facts.STATUS.get(event, ""),
            )  # fmt: skip
            most = facts.TIMEOUT_SECONDS_MAX.get(event, settings.timeout_seconds)
            seconds = min(settings.timeout_seconds, most)
            handler[facts.TIMEOUT_FIELD] = seconds * facts.TIMEOUT_PER_SECOND
            found.append(Wanted(event, matcher, handler, facts.TIMEOUT_FIELD))
        return found

    def home_folder(self, environ: Mapping[str, str]) -> str:
        """The folder of its settings for all repositories of this user."""
        return environ.get(self.home_variable) or os.path.expanduser(f"~/{self.folder}")


def _clients() -> tuple[Client, ...]:
    found = ((name, adapter(name)) for name in NAMES)
    return tuple(Client(name, module) for name, module in found if module is not None)


CLIENTS = _clients()


def client(name: str) -> Client | None:
    """The client of that name."""
    return next((one for one in CLIENTS if one.name == name), None)


def in_use(root: str, environ: Mapping[str, str]) -> list[tuple[Client, str]]:
    """The clients that are used here or on this machine, each with the evidence."""
    found = []
    for one in CLIENTS:
        program = shutil.which(one.name, path=environ.get("PATH"))
        home = one.home_folder(environ)
        if os.path.isdir(f"{root}/{one.folder}"):
            found.append((one, f"{one.folder} is here"))
        elif program:
            found.append((one, f"{program} is installed"))
        elif os.path.isdir(home):
            found.append((one, f"{home} is there"))
    return found


def has_git(root: str) -> bool:
    """Whether the root is that of a git work tree, or a bare repository with linked ones."""
    return os.path.lexists(f"{root}/.git") or bool(checkouts.is_bare(root) and git_folder(root))


def git_folder(root: str) -> str:
    """The folder in which to run git for the repository of a ledger: of a bare repository the first
    linked worktree, empty if there is none."""
    if not checkouts.is_bare(root):
        return root
    return next(checkouts.linked(root), "")


def client_checkouts(root: str, one: Client) -> list[str]:
    """The folders in which a client needs hooks of its own, the main checkout first.

    Codex reads those of the main checkout, but only in a worktree that has a folder `.codex`; so
    each checkout gets them. Codex takes the folder around `.git` for the main checkout, even around
    a bare repository."""
    if one.adapter.READS_MAIN_CHECKOUT and not checkouts.is_bare(root):
        return [root]
    around, name = os.path.split(root)
    is_taken = checkouts.is_bare(root) and name == checkouts.GIT
    reads_around = is_taken and not one.adapter.READS_MAIN_CHECKOUT
    return [*([around] if reads_around else []), *checkouts.checkouts(root)]


def git(root: str, *words: str) -> str | None:
    """The output of git in a repository, None if git fails or is missing."""
    try:
        done = subprocess.run(
            ["git", "-C", root, *words], capture_output=True, text=True, errors="surrogateescape",
            timeout=30, check=False, stdin=subprocess.DEVNULL, env=outside(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.rstrip("\n") if done.returncode == 0 else None


def is_tracked(root: str, file: str) -> bool:
    """Whether git tracks the file, so that a change would be committed."""
    return bool(git(root, "ls-files", "--", f":(top,literal){file}"))


def is_ignored(root: str, file: str) -> bool:
    """Whether git ignores the file."""
    return git(root, "check-ignore", "-q", "--no-index", "--", file) is not None


def obstacles(one: Client, root: str, environ: Mapping[str, str]) -> list[str]:
    """The settings that keep a client's installed hooks from running, as sentences."""
    home = one.home_folder(environ)
    if one.name == "claude":
        files = (f"{root}/.claude/settings.json", f"{root}/{one.file}", f"{home}/settings.json")
        return [
            f'{_short(file, root)} disables all hooks ("disableAllHooks")'
            for file in files if _json(file).get("disableAllHooks") is True
        ]  # fmt: skip
    found = []
    for file in (f"{root}/.codex/config.toml", f"{home}/config.toml"):
        features = _toml(file).get("features")
        if isinstance(features, dict):
            found += [
                f"{_short(file, root)} disables all hooks (features.{name} = false)"
                for name in ("hooks", "codex_hooks") if features.get(name) is False
            ]  # fmt: skip
    return found


def _short(file: str, root: str) -> str:
    return file.removeprefix(f"{root}/")


def _json(file: str) -> dict[str, Any]:
    """The contents of a client's file; empty if it cannot be read, for then it has no effect."""
    try:
        with open(file, encoding="utf-8-sig") as stream:
            found = json.load(stream)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _toml(file: str) -> dict[str, Any]:
    import tomllib

    try:
        with open(file, "rb") as stream:
            return tomllib.load(stream)
    except (OSError, ValueError, RecursionError):
        return {}
