"""Runs cases of the corpus of writing tools, with Holdfast around them and without."""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from helpers_cli import COMMAND, environment, quickly
from helpers_processes import until
from lease_corpus_git import REPOSITORY
from lease_world import WORLD, Case

DRIVER = Path(__file__).with_name("lease_driver.py")
#: How long all commands of a batch may take on a busy machine.
BATCH_SECONDS = 600.0
TOOL, OTHER = "tool", "other"
#: The words before a command that run it with leases.
AROUND = [*COMMAND, "run", "--lease", "--holder", TOOL, "--"]
#: The time of every run: each run has the same time, user and language.
MOMENT = 1_700_000_000
GIT_SETTINGS = """
[user]
    name = Corpus
    email = corpus@example.org
[protocol "file"]
    allow = always
[advice]
    detachedHead = false
[gc]
    auto = 0
[maintenance]
    auto = false
"""
#: Prints the facts about a repository that are compared besides its files.
FACTS = """
git status --porcelain; git for-each-ref; git log --all --format='%H %T %s'; git ls-files -s
git stash list --format=%T; git worktree list --porcelain; git fsck --no-dangling 2>&1
git reflog --format='%H %gs'; git config --local -l
[ ! -e ../far.git ] || git --git-dir=../far.git for-each-ref
"""


class Entry(NamedTuple):
    """One name in a tree, with everything that must be the same."""

    kind: str
    mode: int
    owner: tuple[int, int]
    content: bytes


class Noted(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


class Run(NamedTuple):
    """The state after some cases had run, by the names of the cases."""

    notes: dict[str, Noted]
    trees: dict[str, dict[str, Entry]]
    facts: str
    victims: dict[str, tuple[object, object]]
    """What the victim of a case was before and after, its times included."""
    leases: dict[str, set[str]]
    """The files of a case that were held when all cases had ended, and before the command did."""
    left: list[str]
    """Who held anything after the command had ended."""
    code: int
    err: str


class Yard:
    """A place where cases run: always the same folder, made anew from a template."""

    def __init__(
        self, folder: Path, cases: Sequence[Case], modules: Path, base: Path | None = None
    ) -> None:
        self.folder, self.cases, self.base = folder, cases, base
        #: A case that runs alone has a copy of the repository `base` for itself.
        self.alone = base is not None
        self.place, self.template = folder / "place", folder / "template"
        self.root = self.place / "repo"
        home = folder / "home"
        home.mkdir(parents=True)
        (home / ".gitconfig").write_text(GIT_SETTINGS)
        self.env = environment(
            HOME=str(home), TMPDIR=str(folder), TZ="UTC", LC_ALL="C.UTF-8",
            PATH=f"{modules}/.bin:{os.environ['PATH']}", PYTHONDONTWRITEBYTECODE="1",
            GIT_AUTHOR_DATE=f"{MOMENT} +0000", GIT_COMMITTER_DATE=f"{MOMENT} +0000",
            GIT_CONFIG_NOSYSTEM="1", npm_config_cache=str(home / "npm"),
            npm_config_update_notifier="false",
        )  # fmt: skip
        self._furnish_alone() if self.alone else self._furnish()
        for here, folders, files in os.walk(self.place):
            for name in (*folders, *files):
                os.utime(Path(here, name), (MOMENT, MOMENT), follow_symlinks=False)
        self.place.rename(self.template)

    def _furnish(self) -> None:
        """Create the files of the cases in the place where they will be used."""
        for case in self.cases:
            furnish(self._of(case))
            self._prepare(case.before, self._of(case))
        self._prepare("git init -q -b main . && git add -A && git commit -qm start", self.root)

    def _furnish_alone(self) -> None:
        """Copy a repository with a history, which is created once."""
        assert self.base is not None
        if not self.base.exists():
            furnish(self.root)
            self._prepare(REPOSITORY, self.root)
            self.place.rename(self.base)
        copy(self.base, self.place)
        (case,) = self.cases
        self._prepare(case.before, self.root)

    def _prepare(self, script: str, here: Path) -> None:
        done = subprocess.run(
            ["sh", "-ec", script], cwd=here, env=self.env, capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"

    def _of(self, case: Case) -> Path:
        return self.root if self.alone else self.root / case.name

    def path(self, case: Case, name: str) -> str:
        """The path of a case's file in its repository."""
        return name if self.alone else f"{case.name}/{name}"

    def before(self) -> Run:
        """The state before any case has run."""
        self._clear()
        return self._look({}, self._victims(), {}, [], 0, "")

    def run(self, *, leased: bool, holding: bool = False) -> Run:
        """Run the cases, with leases or without. With `holding`, another holder has the victims,
        and only the cases that concern those run."""
        self._clear()
        cases = [one for one in self.cases if not holding or one.victim or one.beside]
        held = [self.path(one, one.victim or one.beside) for one in cases] if holding else []
        if held:
            self._hold("lock", "--holder", OTHER, "--ttl", "1h", *held)
        victims = self._victims()
        plan = [(one.name, one.command, str(self._of(one))) for one in cases]
        for name in ("plan", "notes", "done", "go"):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / "plan").write_text(json.dumps(plan))
        prefix = AROUND if leased else []
        err = self.folder / "err"
        with err.open("wb") as stream:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-IS", str(DRIVER), str(self.folder)], cwd=self.root,
                env=self.env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            )  # fmt: skip
        with process:
            done = self.folder / "done"
            until(lambda: done.exists() or process.poll() is not None, "all ran", BATCH_SECONDS)
            grants = self._grants() if leased else []
            (self.folder / "go").touch()
            code = process.wait(BATCH_SECONDS)
        held_then = [path for holder, paths in grants if holder == TOOL for path in paths]
        leases = {one.name: self._share(one, held_then) for one in cases}
        left = [holder for holder, _ in self._grants()] if leased else []
        lines = (self.folder / "notes").read_text() if (self.folder / "notes").exists() else ""
        notes = {name: Noted(*rest) for name, *rest in map(json.loads, lines.splitlines())}
        return self._look(
            notes, victims, leases, left, code, err.read_text(errors="backslashreplace")
        )

    def _clear(self) -> None:
        """Restore the initial state."""
        if self.place.exists():
            # Some cases remove permissions, which only root can do without.
            subprocess.run(["chmod", "-R", "u+rwX", self.place], check=True)
            shutil.rmtree(self.place)
        copy(self.template, self.place)
        if self.alone:  # git recognises its files by more attributes than `cp` preserves
            self._prepare("git update-index -q --refresh || :", self.root)

    def _look(
        self, notes: dict[str, Noted], victims: dict[str, object], leases: dict[str, set[str]],
        left: list[str], code: int, err: str,
    ) -> Run:  # fmt: skip
        facts = ""
        if self.alone:
            facts = subprocess.run(
                ["sh", "-c", FACTS], cwd=self.root, env=self.env, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, errors="backslashreplace",
            ).stdout  # fmt: skip
            facts += "\n".join(sorted(os.listdir(self.root / ".git")))
        return Run(
            notes,
            {one.name: tree(self._of(one)) for one in self.cases},
            facts,
            {name: (victims[name], now) for name, now in self._victims().items()},
            leases, left, code, err,
        )  # fmt: skip

    def _victims(self) -> dict[str, object]:
        """The identity of each victim now."""
        return {one.name: identity(self._of(one) / one.victim) for one in self.cases if one.victim}

    def _share(self, case: Case, paths: Iterable[str]) -> set[str]:
        """Those of the given paths that belong to a case, relative to its folder."""
        begin = "" if self.alone else f"{case.name}/"
        return {path.removeprefix(begin) for path in paths if path.startswith(begin)}

    def _grants(self) -> list[tuple[str, list[str]]]:
        """All grants: holder and paths."""
        if not (self.root / ".holdfast").exists():
            return []
        told = json.loads(self._hold("status", "--json"))
        return [(one["holder"], one["write_paths"]) for one in told["grants"]]

    def _hold(self, *words: str) -> str:
        answer = quickly(words, self.root)
        assert answer is not None
        assert answer.code == 0, answer
        return answer.out


def furnish(root: Path) -> None:
    """Create the files of the world in an empty place."""
    for name, text in WORLD.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.txt")


def copy(source: Path, target: Path) -> None:
    """Copy a folder with all attributes of its files."""
    subprocess.run(["cp", "-a", source, target], check=True)


def tree(root: Path) -> dict[str, Entry]:
    """Everything below a folder, except the files of git and of the ledger."""
    found: dict[str, Entry] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            if name not in (".git", ".holdfast"):
                file = Path(folder, name)
                found[str(file.relative_to(root))] = entry(file)
        folders[:] = [name for name in folders if name not in (".git", ".holdfast")]
    return found


def entry(file: Path) -> Entry:
    """One name in a tree."""
    status = file.lstat()
    kind, content = "other", b""
    if stat.S_ISLNK(status.st_mode):
        kind, content = "link", os.readlink(os.fsencode(file))
    elif stat.S_ISREG(status.st_mode):
        kind, content = "file", _content(file)
    elif stat.S_ISDIR(status.st_mode):
        kind = "folder"
    elif stat.S_ISFIFO(status.st_mode):
        kind = "pipe"
    return Entry(kind, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid), content)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except PermissionError:
        return b"(not readable)"


def identity(file: Path) -> object:
    """A value that changes when the file is replaced or written."""
    if not os.path.lexists(file):
        return None
    status = file.lstat()
    return status.st_ino, status.st_mtime_ns, entry(file)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns matches a name in a tree; a star matches slashes too."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
