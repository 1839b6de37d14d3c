"""The demo of tasks: a list of eight, five agents at once, and everything that can go wrong.

Two of them want one file, and the second waits. Two want what the other has, and the younger
yields. One crashes in the middle of an edit, and then the dispatcher itself is killed with `kill
-9` and started again. The agents are scripts that pause instead of thinking. Everything else is
real. Everything that is printed was read from the ledger, recorded by an agent, or measured; and at
the end it is checked by code that shares nothing with the code that decided.

It needs no network and no account, and leaves nothing behind unless asked to.
"""

from __future__ import annotations

import glob
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any

from holdfast.cli import DONE, FAILED
from holdfast.cli.demo import demo_tasks_stage as stage
from holdfast.cli.demo.demo_checks import Finding
from holdfast.cli.demo.demo_process import (
    DemoError,
    about_ledger,
    dispatch,
    end,
    last_words,
    temporary_folder,
)
from holdfast.cli.demo.demo_tasks_audit import (
    Commit,
    Evidence,
    Plan,
    audit,
    crashed,
    waited,
    yielded,
)
from holdfast.cli.demo.demo_tasks_story import News, Story
from holdfast.cli.demo.demo_words import GREEN, Words
from holdfast.cli.printing import document, listed, quoted
from holdfast.cli.terminal.tables import RED
from holdfast.core.model import SECOND
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.manager import LockManager

if TYPE_CHECKING:
    from holdfast.cli.parser import Call

#: How long the agents think, relative to their script. Tests use less.
PACE = 1.0
#: How long nothing may happen at most, on a busy machine.
SILENCE_SECONDS = 60.0
LOOK_SECONDS = 0.1
#: How long it may take to restore the files of a killed dispatcher.
BACK_SECONDS = 10.0
NAME_WIDTH = 15
_HINT = "try again with --keep, and look at the files that it leaves"


def play(call: Call) -> int:
    """Play it. The exit code is 1 if a check failed."""
    words = Words(quiet=call.flag("json"))
    with (
        temporary_folder(keep=call.flag("keep")) as folder,
        Director(folder, words, PACE) as director,
    ):
        result = director.play()
    if call.flag("json"):
        document({**result, "folder": folder if call.flag("keep") else None})
    else:
        _say_what_is_next(words, folder if call.flag("keep") else "")
    return DONE if result["passed"] else FAILED


def _say_what_is_next(words: Words, kept: str) -> None:
    if kept:
        words.say("Kept. Look at it with:")
        root = quoted([f"{kept}/{stage.REPOSITORY}"])
        for line in ("serve", "log", f"dispatch {stage.LIST}"):
            words.paste(f"holdfast -C {root} {line}")
        words.paste(f"git -C {root} log --stat")
    words.say("Next: docs/tasks.md, and in your repository: holdfast dispatch tasks.toml")


class Director:
    """Sets the stage, lets the dispatcher work, kills it once, and examines the result."""

    def __init__(self, folder: str, words: Words, pace: float) -> None:
        self._words = words
        self._folder = folder
        self._root = f"{folder}/{stage.REPOSITORY}"
        self._log = f"{folder}/{stage.DISPATCH_LOG}"
        self._has_git = stage.build(folder, pace)
        self._manager = LockManager.open(self._root)
        self._story = Story()
        self._dispatcher: subprocess.Popen[bytes] | None = None
        self._killed: dict[str, Any] = {}

    def __enter__(self) -> Director:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        if self._dispatcher is not None:
            end(self._dispatcher)
        self._manager.close()

    def play(self) -> dict[str, Any]:
        """All of it, then the report."""
        self._introduce()
        self._work()
        return self._report()

    def _introduce(self) -> None:
        words = self._words
        kind = "git repository" if self._has_git else "folder (there is no git here)"
        words.title("One checkout, a list of tasks, many agents")
        words.say(
            f"A made-up {kind} and a list of {len(stage.PROMPTS)} tasks, {stage.SLOTS} at once. "
            "No task declares which files it will write: each file is leased at its first write. "
            "The agents are scripts that pause instead of thinking; everything else is real."
        )
        if told := about_ledger(self._manager.store.url):
            words.say(told)
        words.pause()
        for name, prompt in stage.PROMPTS.items():
            after = f" (after {', '.join(stage.AFTER[name])})" if name in stage.AFTER else ""
            words.paste(f"{name:<{NAME_WIDTH}}{prompt}{after}")
        words.pause()
        words.paste(f"$ holdfast dispatch {stage.LIST}")

    # While it runs

    def _work(self) -> None:
        """Until the dispatcher has nothing left to do; it is killed once in the middle."""
        self._dispatcher = self._dispatch(stage.LIST)
        heard = time.monotonic()
        while self._dispatcher.poll() is None:
            before = self._story.seen
            self._manager.store.wait(before, LOOK_SECONDS)
            self._catch_up()
            if self._story.seen > before:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_SECONDS:
                raise DemoError(f"no progress any more: {last_words(self._log)}", hint=_HINT)
            if not self._killed and self._are_in_the_middle():
                self._kill()
        self._catch_up()
        if self._dispatcher.returncode and not self._story.tasks:
            raise DemoError(f"the dispatcher did not start: {last_words(self._log)}", hint=_HINT)

    def _catch_up(self) -> None:
        self._tell(self._story.read(list(self._manager.events(self._story.seen))))
        for wait in self._story.waits:
            stage.mark(self._folder, wait.waiter, wait.path)

    def _tell(self, news: list[News]) -> None:
        for one in news:
            seconds = (one.at - self._story.began) / SECOND
            for line in self._words.news(seconds, one.who, one.text, one.colour, NAME_WIDTH):
                self._words.line(line)

    def _dispatch(self, word: str) -> subprocess.Popen[bytes]:
        return dispatch(self._root, self._log, word, environment=stage.environment())

    def _are_in_the_middle(self) -> bool:
        """Whether there is half a line in each of the files whose edits are to be interrupted."""
        return all(_is_half(f"{self._root}/{path}") for path in stage.STALLS.values())

    def _kill(self) -> None:
        """The worst that can happen to a dispatcher; and what a person does then."""
        assert self._dispatcher is not None
        self._dispatcher.kill()
        self._dispatcher.wait()
        self._catch_up()
        out = self._story.cut_off()
        self._killed = {"tasks_out": out, "event": self._story.seen}
        halves = listed(stage.STALLS.values())
        told = f"is killed (kill -9), with half a line written in {halves}"
        self._tell([News(self._manager.now(), "the dispatcher", told, RED)])
        if self._has_git:
            self._look_back()
        self._tell(
            [
                News(
                    self._manager.now(),
                    "the dispatcher",
                    "is started again: holdfast dispatch --resume",
                )
            ]
        )
        self._dispatcher = self._dispatch("--resume")

    def _look_back(self) -> None:
        """What the interrupted tasks have left, before anything is started again."""
        began = time.monotonic()
        while (left := self._changed()) and time.monotonic() - began < BACK_SECONDS:
            time.sleep(LOOK_SECONDS / 5)
        self._killed["left"] = left
        if not left:
            told = "is gone, and every file is as last committed: git status is clean"
            self._tell([News(self._manager.now(), "the dispatcher", told, GREEN)])

    def _changed(self) -> list[str]:
        """The uncommitted changes in the checkout, by git."""
        said = stage.git(self._root, "status", "--porcelain", "--untracked-files=all")
        return said.decode(errors="replace").splitlines()

    # The result

    def _report(self) -> dict[str, Any]:
        events = list(self._manager.events())
        logs = glob.glob(f"{glob.escape(self._root)}/{LEDGER_FOLDER}/runs/*/*.log")
        diaries = [_diary(log) for log in logs]
        found = Evidence(events, _files(self._root), diaries, self._commits())
        plan = self._plan()
        findings = [*self._shown(plan, found), *audit(plan, found)]
        story = self._story
        result = {
            "passed": all(finding.passed is not False for finding in findings),
            "tasks": len(stage.PROMPTS),
            "done": sum(task["state"] == "done" for task in story.tasks.values()),
            "seconds": round((story.ended - story.began) / SECOND, 2),
            "waits": [[one.waiter, one.holder, one.path] for one in story.waits],
            "undone": story.undone,
            "killed": self._killed,
            "commits": None if found.commits is None else len(found.commits) - 1,
            "events": len(events),
            "files": len(found.files),
            "diaries": len(diaries),
            "store": self._manager.store.url,
            "checks": [finding._asdict() for finding in findings],
        }
        self._print(result, findings)
        return result

    def _print(self, result: dict[str, Any], findings: list[Finding]) -> None:
        self._words.title(
            f"{result['done']} of {result['tasks']} tasks done in {result['seconds']:.1f} s"
        )
        if self._has_git:
            for line in stage.git(self._root, "log", "--format=%h  %s").decode().splitlines():
                self._words.paste(line)
        history = f", {result['commits']} commits" if self._has_git else ""
        self._words.title(
            f"Checked by reading {result['events']} events, {result['files']} files{history} and "
            f"{result['diaries']} diaries again"
        )
        self._words.findings(findings)

    def _shown(self, plan: Plan, found: Evidence) -> list[Finding]:
        """Whether everything happened that was to be shown."""
        return [
            waited(found, stage.FIRST, stage.SECOND, stage.SHARED),
            yielded(found, stage.OLDER, stage.YOUNGER),
            crashed(plan, found, *stage.CRASHES),
            self._cut_off(),
        ]

    def _cut_off(self) -> Finding:
        question = "the killed dispatcher left no half edit, even before another was started"
        if sorted(self._killed.get("tasks_out", ())) != sorted(stage.STALLS):
            return Finding(question, False, "it did not happen")
        if not self._has_git:
            return Finding(question, None, "there is no git here to compare with")
        left = self._killed["left"]
        return Finding(question, not left, listed(left) or "git status was clean")

    def _plan(self) -> Plan:
        at_first = {path: text.encode() for path, text in stage.application().items()}
        for name in stage.SETTINGS:
            with open(f"{self._root}/{name}", "rb") as file:
                at_first[name] = file.read()
        return Plan(at_first, {name: stage.files_of(name) for name in stage.PARTS}, stage.PROMPTS)

    def _commits(self) -> list[Commit] | None:
        """The history, by git."""
        if not self._has_git:
            return None
        ids = stage.git(self._root, "rev-list", "--reverse", "HEAD").decode().split()
        return [_commit(self._root, id) for id in ids]


def _commit(root: str, id: str) -> Commit:
    words = ("show", "--name-only", "-z", "--format=%s", id)
    subject, _, names = stage.git(root, *words).decode().partition("\0")
    tree = stage.git(root, "ls-tree", "-r", "-z", "--name-only", id).decode()
    files = {path: stage.git(root, "show", f"{id}:{path}") for path in tree.split("\0") if path}
    return Commit(subject.strip(), [name for name in names.strip("\n").split("\0") if name], files)


def _is_half(path: str) -> bool:
    """Whether an agent is in the middle of writing a line there."""
    with open(path, "rb") as file:
        content = file.read()
    return bool(content) and not content.endswith(b"\n")


def _files(root: str) -> dict[str, bytes]:
    """Every file of the checkout."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [one for one in folders if one not in (".git", LEDGER_FOLDER)]
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found


def _diary(file: str) -> list[str]:
    """The diary of an agent, without the output of the programs that it used."""
    with open(file, encoding="utf-8", errors="replace") as text:
        lines = text.read().splitlines()
    return [line for line in lines if line[:1].isdigit() and line.count(" ")]
