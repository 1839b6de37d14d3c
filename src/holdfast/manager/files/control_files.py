"""Files that control Holdfast, an agent's client or git: one table for all rooms.

A program outside every sandbox obeys or executes the contents of such a file: the next dispatcher,
the client that a person starts tomorrow, the next `git commit`. An agent that could write one could
escape. So none of them is ever a target of dispatched work, a gap that could be amended, or
writable in a sandbox; and agents at the gate may not change the parts that keep agents apart.

Not in the table, on purpose:

- files that only inform an agent (`CLAUDE.md`, `AGENTS.md`, rules in prose): they grant nothing;
- files that the project itself executes (`Makefile`, `package.json`, settings of linters): writing
  them is the work of agents, and a person sees the diff before they run anywhere else;
- `.gitmodules` and `.gitattributes`: git takes no command from them; they only name entries that
  its own settings must define.

Names match at any depth, because a repository may contain others, and in any case, because some
file systems ignore case. `Controls` also resolves links.
"""

from __future__ import annotations

import os
import stat

from holdfast.core.errors import InvalidInput
from holdfast.core.model import Value
from holdfast.manager.files.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final

HOLDFAST, GIT, CLAUDE, CODEX = "Holdfast", "git", "Claude Code", "Codex"

_SETTINGS = "it sets hooks, permissions and programs to start"
_EXECUTED = "its files are executed outside the sandbox"
_GRANTING = "its first lines may allow tools and set hooks"
_SERVERS = "it sets programs to start"

#: The name of each, a folder with a trailing slash; what it controls; why; and, if agents at the
#: gate may change parts of it, how a change is judged (`holdfast.gate.guard.switch_files`).
_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("holdfast.toml", HOLDFAST, "it sets what agents may write and how they run", "settings"),
    (f"{LEDGER_FOLDER}/", HOLDFAST, "it contains the ledger, which keeps the agents apart", ""),
    # Also a file of that name, which points to the folder of a linked worktree.
    (".git/", GIT, "its hooks and settings are executed outside the sandbox", ""),
    # git is asked for the folder of core.hooksPath; husky's hooks there run the files in this one.
    (".husky/", GIT, "git's hooks run its files", ""),
    (".claude/settings.json", CLAUDE, _SETTINGS, "claude"),
    (".claude/settings.local.json", CLAUDE, _SETTINGS, "claude"),
    (".claude/hooks/", CLAUDE, _EXECUTED, ""),
    (".claude/agents/", CLAUDE, _GRANTING, ""),
    (".claude/commands/", CLAUDE, _GRANTING, ""),
    (".claude/skills/", CLAUDE, _GRANTING, ""),
    (".claude/plugins/", CLAUDE, _EXECUTED, ""),
    (".mcp.json", CLAUDE, _SERVERS, ""),
    (".codex/hooks.json", CODEX, _SETTINGS, "codex"),
    (".codex/config.toml", CODEX, _SETTINGS, "codex-config"),
    (".codex/hooks/", CODEX, _EXECUTED, ""),
    (".codex/rules/", CODEX, "it sets which commands need no approval", ""),
    (".gemini/settings.json", "Gemini CLI", _SETTINGS, ""),
    (".gemini/hooks/", "Gemini CLI", _EXECUTED, ""),
    (".gemini/extensions/", "Gemini CLI", _EXECUTED, ""),
    (".qwen/settings.json", "Qwen Code", _SETTINGS, ""),
    (".opencode/plugins/", "opencode", _EXECUTED, ""),
    (".opencode/plugin/", "opencode", _EXECUTED, ""),
    ("opencode.json", "opencode", _SETTINGS, ""),
    ("opencode.jsonc", "opencode", _SETTINGS, ""),
    (".cursor/hooks.json", "Cursor", _SETTINGS, ""),
    (".cursor/cli.json", "Cursor", _SETTINGS, ""),
    (".cursor/mcp.json", "Cursor", _SERVERS, ""),
    (".github/hooks/", "Copilot CLI", _SETTINGS, ""),
    ("crush.json", "Crush", _SETTINGS, ""),
    (".crush.json", "Crush", _SETTINGS, ""),
    (".clinerules/hooks/", "Cline", _EXECUTED, ""),
)

#: The names of git's hooks, which git executes.
GIT_HOOKS = frozenset([
    "applypatch-msg", "commit-msg", "fsmonitor-watchman", "p4-changelist", "p4-post-changelist",
    "p4-pre-submit", "p4-prepare-changelist", "post-applypatch", "post-checkout", "post-commit",
    "post-index-change", "post-merge", "post-receive", "post-rewrite", "post-update",
    "pre-applypatch", "pre-auto-gc", "pre-commit", "pre-merge-commit", "pre-push", "pre-rebase",
    "pre-receive", "prepare-commit-msg", "proc-receive", "push-to-checkout",
    "reference-transaction", "sendemail-validate", "update",
])  # fmt: skip

#: For large folders: the only folders in them that are searched.
_LOOKED_INTO = {f"{LEDGER_FOLDER}/": (), ".git/": ("hooks",)}


class ControlFileError(InvalidInput):
    """A file that controls Holdfast, a client or git was named for an agent to write. The field
    `problems` has each place and the reason."""

    code = "E_CONTROL_FILE"


class Control(Value):
    """One row of the table."""

    __slots__ = ("judge", "name", "of", "why")

    def __init__(self, name: str, of: str, why: str, judge: str = "") -> None:
        self.name: Final = name
        self.of: Final = of
        self.why: Final = why
        #: How the gate judges a change of it; empty if the gate does not.
        self.judge: Final = judge

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, with everything below it."""
        return self.name.endswith("/")

    def sentence(self, path: str) -> str:
        """Why an agent may not write a path."""
        return f"{path} controls {self.of}, so no agent may write it: {self.why}"


TABLE: Final = tuple(Control(*row) for row in _ROWS)
#: Folders that agents may not even lock for reading, each with what it controls.
CLOSED: Final = {control.name[:-1]: control.of for control in TABLE if control.name in _LOOKED_INTO}
_HOOK: Final = Control("core.hooksPath", GIT, "git executes the files in its hooks folder")

_starts: dict[str, list[tuple[list[str], Control]]] = {}
for _control in TABLE:
    _parts = _control.name.rstrip("/").split("/")
    _starts.setdefault(_parts[0], []).append((_parts, _control))


def control_of(path: str) -> Control | None:
    """The control for a path below a root, by its text alone; None if there is none."""
    parts = path.casefold().rstrip("/").split("/")
    for at, part in enumerate(parts):
        for wanted, control in _starts.get(part, ()):
            end = at + len(wanted)
            if parts[at:end] == wanted and (control.is_folder or end == len(parts)):
                return control
    return None


class Controls:
    """The control files of one tree on disk, determined on first use."""

    __slots__ = ("_ask_hooks", "_files", "_folders", "_hooks", "_led", "root")

    def __init__(self, root: str, hooks: Callable[[str], str]) -> None:
        """`hooks` returns the folder of git's hooks for a tree; empty if git reports none."""
        self.root: Final = root
        self._ask_hooks = hooks
        self._hooks: str | None = None
        #: Whether a folder has an entry with the name of a hook.
        self._folders: dict[str, bool] = {}
        self._led: list[tuple[str, Control]] | None = None
        self._files: dict[tuple[int, int], Control] | None = None

    def of(self, path: str) -> Control | None:
        """The control for an absolute path: by its resolved path, and by its inode."""
        real = os.path.realpath(path)
        prefix = f"{self.root}/"
        by_words = control_of(real[len(prefix) :]) if real.startswith(prefix) else None
        return by_words or self._by_link(real) or self._by_hook(real) or self._by_inode(real)

    def below(self, path: str) -> Control | None:
        """The first control at the root that is inside this folder, or is this file; else the
        control that the path is in."""
        real = os.path.realpath(path)
        for control in TABLE:
            place = f"{self.root}/{control.name.rstrip('/')}"
            if f"{place}/".startswith(f"{real.rstrip('/')}/"):
                return control
        return self.of(path)

    def _by_link(self, real: str) -> Control | None:
        """The control whose file, or a folder on its path, is a link that leads here."""
        if self._led is None:
            self._led = [
                (os.path.realpath(place), control)
                for place, control in self._places()
                if _has_link(self.root, control.name)
            ]
        for led, control in self._led:
            if real == led or (control.is_folder and real.startswith(f"{led}/")):
                return control
        return None

    def _by_hook(self, real: str) -> Control | None:
        """Whether it is in the folder of git's hooks, wherever that is. Git is asked only if the
        folder has an entry with the name of a hook."""
        folder, name = os.path.split(real)
        if name not in GIT_HOOKS and not self._holds_hooks(folder):
            return None
        if self._hooks is None:
            self._hooks = os.path.realpath(self._ask_hooks(self.root) or "/nowhere")
        return _HOOK if folder == self._hooks else None

    def _holds_hooks(self, folder: str) -> bool:
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = not GIT_HOOKS.isdisjoint(_names(folder))
        return found

    def _by_inode(self, real: str) -> Control | None:
        """Whether it is another name (hard link) of a control file."""
        try:
            status = os.lstat(real)
        except OSError:
            return None
        if status.st_nlink < 2 or not stat.S_ISREG(status.st_mode):
            return None
        if self._files is None:
            self._files = {}
            for place, control in self._places():
                for file in _files(place, control):
                    _note(self._files, file, control)
        return self._files.get((status.st_dev, status.st_ino))

    def _places(self) -> Iterator[tuple[str, Control]]:
        for control in TABLE:
            yield f"{self.root}/{control.name.rstrip('/')}", control


def _has_link(root: str, name: str) -> bool:
    """Whether a component of a control file's path is a link."""
    place = root
    for part in name.rstrip("/").split("/"):
        place = f"{place}/{part}"
        try:
            if stat.S_ISLNK(os.lstat(place).st_mode):
                return True
        except OSError:
            return False
    return False


def _files(place: str, control: Control) -> Iterator[str]:
    yield place
    if control.is_folder:
        into = _LOOKED_INTO.get(control.name)
        for folder, folders, names in os.walk(place):
            yield from (f"{folder}/{name}" for name in names)
            if into is not None:
                folders[:] = [name for name in into if folder == place and name in folders]


def _note(files: dict[tuple[int, int], Control], file: str, control: Control) -> None:
    try:
        status = os.stat(file)
    except OSError:
        return
    if stat.S_ISREG(status.st_mode):
        files.setdefault((status.st_dev, status.st_ino), control)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
