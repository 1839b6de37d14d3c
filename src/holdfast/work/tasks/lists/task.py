"""One task, as its list states it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

#: The name of the list of tasks that were given on the command line.
COMMAND_LINE = "--task"

TIMEOUT_SECONDS = 3600.0
ROUNDS = 2
TRIES = 3
#: The placeholders are `{name}`, `{prompt}` and `{first_line}` (of the prompt).
MESSAGE = "{first_line}"


@dataclass(frozen=True, slots=True)
class Task:
    """What to do, and its limits.

    `writes` is None if it is not known which files the task will write; then each file is leased at
    the first write. Otherwise the task may write these files only. `reads` are files and folders
    that must not change while it runs; `locks` are resources such as `port:5432`. `after` names
    tasks of the same list that must be done first. `check` is a shell command that must succeed
    before the task is done; if it fails, its output goes back to the agent, up to `rounds` times. A
    failed attempt is repeated until there were `tries`. `command` is the agent, as a list of words
    with `{prompt}` in it; empty for the one that is set or installed. `timeout_seconds` is None if
    the list does not set it. `line` is where the task is in its list.
    """

    name: str
    prompt: str
    writes: tuple[str, ...] | None = None
    reads: tuple[str, ...] = ()
    locks: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    check: str = ""
    commit: bool = False
    message: str = MESSAGE
    command: tuple[str, ...] = ()
    timeout_seconds: float | None = None
    priority: int = 0
    rounds: int = ROUNDS
    tries: int = TRIES
    line: int = 0

    @property
    def digest(self) -> str:
        """A digest of the prompt: a finished task is not done again under a new one."""
        return sha256(self.prompt.strip().encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def to_data(self) -> dict[str, Any]:
        """For the ledger, and for `--json`."""
        found: dict[str, Any] = {}
        for name in _NAMES:
            value = getattr(self, name)
            found[name] = list(value) if isinstance(value, tuple) else value
        return found

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Task:
        """The task that `to_data` wrote."""
        given: dict[str, Any] = {}
        for name in _NAMES:
            if name in data:
                value = data[name]
                given[name] = tuple(value) if isinstance(value, list) else value
        return cls(**given)


#: Of the fields. Computing them for every record would take a third of the time of reading.
_NAMES = tuple(field.name for field in fields(Task))


@dataclass(frozen=True, slots=True)
class TaskList:
    """Tasks that were read together.

    `name` is the path of the list relative to the root of the repository, or `COMMAND_LINE`. It
    identifies the list. `slots` is how many agents work at once; None if the list does not set it.
    `is_checklist` is whether the items are ticked when they are done.
    """

    name: str
    tasks: tuple[Task, ...]
    slots: int | None = None
    is_checklist: bool = False

    @property
    def title(self) -> str:
        """The title for people."""
        return title_of(self.name)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)

    def task(self, name: str) -> Task | None:
        """The task of that name."""
        return next((one for one in self.tasks if one.name == name), None)


def title_of(list: str) -> str:
    """The title of the list of that name, for people."""
    return "the command line" if list == COMMAND_LINE else list
