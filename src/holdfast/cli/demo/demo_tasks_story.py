"""What happened in the demo of tasks, read from the ledger, in an order that people can follow.

In the ledger a file passes from one task to the next in the same transaction that ends the first.
People expect to read of the end first, so the consequences are printed after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.cli.demo.demo_checks import ENDS, held
from holdfast.cli.demo.demo_words import GREEN
from holdfast.cli.printing import listed
from holdfast.cli.terminal.tables import RED, YELLOW
from holdfast.core.model import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.model import Event

YIELDED, KILLED = "it yielded", "killed by signal"
DONE, FAILED, QUEUED, WORKING = "done", "failed", "queued", "working"


class News(NamedTuple):
    """One event of a task."""

    at: int
    who: str
    text: str
    colour: str = ""


@dataclass(slots=True)
class Wait:
    """A task that had to wait, inside its write, for a file of another one."""

    waiter: str
    holder: str
    path: str
    began: int
    seconds: float = 0.0


class Story:
    """Follows the ledger from its first event."""

    def __init__(self) -> None:
        self.seen = 0
        self.began = 0
        self.ended = 0
        #: The latest record of each task.
        self.tasks: dict[str, Mapping[str, Any]] = {}
        self.waits: list[Wait] = []
        #: Which attempts were undone, and why.
        self.undone: list[tuple[str, str]] = []
        #: Which task has which files, by grant.
        self._files: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._waiting: dict[tuple[str, str], Wait] = {}
        #: Printed when the task that has given up its files has ended.
        self._later: dict[str, list[News]] = {}
        self._cut: set[str] = set()

    def read(self, events: Iterable[Event]) -> list[News]:
        """Continue with these events. The news worth printing."""
        return [news for event in events for news in self._see(event)]

    def cut_off(self) -> list[str]:
        """The dispatcher was killed: which tasks were in progress."""
        out = [name for name, task in self.tasks.items() if task["state"] == WORKING]
        self._cut.update(out)
        return out

    # One event

    def _see(self, event: Event) -> list[News]:
        self.seen, self.ended = event.seq, event.at
        self.began = self.began or event.at
        if event.type == "lock_acquired":
            return self._taken(event)
        if event.type in ENDS:
            self._files.pop(event.data["grant"], None)
        elif event.type == "ticket_added":
            return self._stands(event)
        elif event.type == "task_changed":
            return self._changed(event)
        return []

    def _taken(self, event: Event) -> list[News]:
        task, paths = self._task_of(event), held(event).paths
        self._files[event.data["id"]] = (task, paths)
        path = paths[0]
        wait = self._waiting.pop((task, path), None)
        if wait is None:
            return []
        wait.seconds = (event.at - wait.began) / SECOND
        text = f"gets {path} after {wait.seconds:.1f} s,"
        self._later.setdefault(wait.holder, []).append(News(event.at, task, text, GREEN))
        return []

    def _stands(self, event: Event) -> list[News]:
        task, path = self._task_of(event), event.data["paths"][0]
        holder = next((name for name, paths in self._files.values() if path in paths), "")
        if not holder:
            return []
        wait = self._waiting[task, path] = Wait(task, holder, path, event.at)
        self.waits.append(wait)
        text = f"is about to write {path}, which {holder} is changing: the write waits"
        return [News(event.at, task, text, YELLOW)]

    def _task_of(self, event: Event) -> str:
        """The task of a holder."""
        id = event.data["holder"]["id"]
        return next((name for name, task in self.tasks.items() if task["item"] == id), id)

    def _changed(self, event: Event) -> list[News]:
        task = event.data
        name, state = task["name"], task["state"]
        before = self.tasks.get(name)
        self.tasks[name] = task
        if before is None or before["state"] == state:
            return []
        if state == WORKING:
            return [News(event.at, name, _begins(task))]
        if state == DONE:
            return [self._done(event), *self._next(name, f"as {name} left it")]
        if state == FAILED:
            failed = News(event.at, name, f"failed: {task['reason']}", RED)
            return [failed, *self._next(name, f"as it was before {name}")]
        if state == QUEUED and before["state"] != "waiting":
            return self._again(event)
        return []

    def _done(self, event: Event) -> News:
        files, commit = listed(event.data["files"]), event.data["commit"]
        made = f", commit {commit[:7]}" if commit else ""
        return News(event.at, event.data["name"], f"is done{made}: {files}", GREEN)

    def _again(self, event: Event) -> list[News]:
        task = event.data
        name, why = task["name"], task["reason"]
        self.undone.append((name, why))
        for key in [key for key in self._waiting if key[0] == name]:
            del self._waiting[key]
        after = self._next(name, f"as it was before {name}")
        if name in self._cut:
            self._cut.discard(name)  # it was reported with the dispatcher
            return after
        text = why
        if why.startswith(YIELDED):
            text = f"is in a deadlock: {self._circle(why)}. The younger yields:"
        elif KILLED in why:
            text = "its agent is killed in the middle of an edit:"
        put_back = "its files are restored, and it will be done again later"
        return [News(event.at, name, f"{text} {put_back}", RED), *after]

    def _circle(self, why: str) -> str:
        """The deadlock as the ledger describes it, with the names of the tasks."""
        told = why.partition(": ")[2].replace("would wait", "waits")
        for name, task in self.tasks.items():
            told = told.replace(task["item"] or name, name)
        return told

    def _next(self, name: str, what: str) -> list[News]:
        """The tasks that waited for one that has ended."""
        return [news._replace(text=f"{news.text} {what}") for news in self._later.pop(name, ())]


def _begins(task: Mapping[str, Any]) -> str:
    if task["tries"] == 1:
        return "starts"
    if task["needs"]:
        return f"starts again, with {listed(task['needs'])} leased from the start"
    return "starts again"
