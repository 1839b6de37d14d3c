"""A repository, a list of tasks, and agents that are shell scripts: the prompt is the script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers_processes import PATIENCE_SECONDS
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_records
from holdfast.work.tasks.dispatcher import TaskDispatcher
from holdfast.work.tasks.lists.task import Task, TaskList
from holdfast.work.tasks.task_records import TaskRecord

#: `agent.py PROMPT`: runs the prompt, without the part that every agent gets, as a script that
#: stops at the first error.
AGENT = """
import os, sys
script = sys.argv[1].partition("\\n\\nYour changes")[0].partition("\\n\\n(You share")[0]
os.execv("/bin/sh", ["sh", "-ec", script])
"""
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.org",
}  # fmt: skip


class Checkout:
    """A repository with a few files in it."""

    def __init__(self, folder: Path, files: Mapping[str, str] | None = None) -> None:
        self.root = folder / "repository"
        self.root.mkdir(parents=True)
        self.agent = folder / "agent.py"
        self.agent.write_text(AGENT)
        self.home = folder
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ann")
        self.git("config", "user.email", "ann@example.org")
        self.write(files or {"a.txt": "a0\n", "b.txt": "b0\n", "c.txt": "c0\n", "src/x.py": "x\n"})
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.root), *words], check=True, capture_output=True, text=True
        )
        return done.stdout

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def status(self) -> str:
        return self.git("status", "--porcelain", "--untracked-files=all")

    @property
    def command(self) -> tuple[str, ...]:
        """An agent that runs its prompt."""
        return (sys.executable, "-S", str(self.agent), "{prompt}")

    def task(self, name: str, script: str, **terms: Any) -> Task:
        """A task whose prompt is a script."""
        return Task(name, script, **{"command": self.command, "tries": 1, **terms})

    def tasks(self, *tasks: Task, name: str = "tasks.toml", **terms: Any) -> TaskList:
        return TaskList(name, tasks, **terms)

    def dispatch(self, *tasks: Task, **options: Any) -> dict[str, TaskRecord]:
        """Dispatch these tasks, in this process, until all are over."""
        tasklist = options.pop("tasklist", None) or self.tasks(*tasks)
        with LockManager.open(str(self.root)) as manager:
            return run(manager, tasklist, **options)

    def records(self) -> dict[str, TaskRecord]:
        with LockManager.open(str(self.root)) as manager:
            return {one.name: one for one in transactions.look(manager, task_records.tasks_in)}

    def log(self) -> list[str]:
        """The subjects of all commits, newest first."""
        return self.git("log", "--format=%s").split("\n")[:-1]


def run(
    manager: LockManager,
    tasks: TaskList,
    *,
    retry_failed: bool = False,
    until: Callable[[TaskDispatcher], bool] | None = None,
    **options: Any,
) -> dict[str, TaskRecord]:
    """Dispatch the tasks of a list until all are over."""
    work = TaskDispatcher(manager, tasks, **{"slots": 4, "pause_seconds": 0.05, **options})
    work.begin(command="holdfast dispatch tasks.toml", retry_failed=retry_failed)
    work.start()
    try:
        wait(work, until or TaskDispatcher.is_done)
    finally:
        work.stop()
    assert not work.error, work.error
    return {one.name: one for one in work.flow.records()}


def wait(work: TaskDispatcher, is_over: Callable[[TaskDispatcher], bool]) -> None:
    from time import monotonic

    end = monotonic() + PATIENCE_SECONDS
    while not is_over(work):
        assert monotonic() < end, [(one.name, one.state, one.reason) for one in work.flow.records()]
        work.wait_for_change(0.2)


def picture(root: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every file except those of git and the ledger: its mode and content, or a link's target."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for folder, folders, files in os.walk(root):
        folders[:] = [one for one in folders if one not in (".git", ".holdfast")]
        for name in [*files, *folders]:
            path = os.path.join(folder, name)
            inner = os.path.relpath(path, root)
            mode = os.lstat(path).st_mode
            if os.path.islink(path):
                found[inner] = (0, os.readlink(path))
            elif os.path.isdir(path):
                found[inner] = (0, "folder")
            elif not os.path.isfile(path):
                found[inner] = (mode, "neither a file nor a folder")  # opening a pipe would block
            else:
                found[inner] = (mode & 0o7777, Path(path).read_bytes())
    return found


def shell(*lines: str) -> str:
    return "\n".join(lines)


def until_file(path: Path | str) -> str:
    """A line of a script that waits until a file exists."""
    return f"while [ ! -e '{path}' ]; do sleep 0.01; done"


__all__: Sequence[str] = (
    "AGENT", "IDENTITY", "Checkout", "picture", "run", "shell", "until_file", "wait",
)  # fmt: skip
