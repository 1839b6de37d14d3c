"""The recorder: a manager whose calls are logged, before they are made and when they answer.

Each process has a file of its own in the history's folder, with two lines for each call, each
written with a single write(2): the answers to a killed process are recorded. A forked child starts
a file of its own with its first call; a call that the fork interrupted is its parent's.

Keep that folder outside the tree whose ledger is tested. A file is reopened if the program has
closed its descriptor, as daemons do: the number may belong to another file by then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any

from histories.operation import Death, History, Operation
from holdfast.core.errors import HoldfastError, LockTimeoutError, Lost, Refused
from holdfast.core.model import Holder
from holdfast.manager.grants import LockGrant
from holdfast.manager.manager import LockManager

NANOSECONDS = 1_000_000_000
#: The file for deaths, written by the processes that observe them.
DEATHS = "deaths"


class Journal:
    """The file of one process, or of one thread that counts as one."""

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        self._folder = os.path.abspath(folder)
        self._name = name
        self._pid = 0
        self._file = -1
        self._identity = (0, 0)
        self._calls = 0
        self._process = ""
        self._open()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._process = f"{self._name}.{self._pid}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(f"{self._folder}/{self._process}", flags, 0o644)
        status = os.fstat(self._file)
        self._identity = (status.st_dev, status.st_ino)

    @property
    def process(self) -> str:
        """The name of this process in the history; a forked child has another one."""
        if self._pid != os.getpid():
            self._open()
        return self._process

    def _put(self, **facts: Any) -> None:
        if self._pid != os.getpid() or not self._is_open():
            self._open()
        os.write(self._file, json.dumps(facts).encode() + b"\n")

    def _is_open(self) -> bool:
        try:
            status = os.fstat(self._file)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self._identity

    def invoke(self, call: str, **facts: Any) -> tuple[int, int]:
        """Record that a call is about to be made."""
        if self._pid != os.getpid():
            self._open()
        self._calls += 1
        self._put(number=self._calls, call=call, invoked=monotonic_ns(), **facts)
        return self._pid, self._calls

    def answer(self, call: tuple[int, int], answer: str, **facts: Any) -> None:
        """Record the answer, unless the call is our parent's."""
        answered = monotonic_ns()
        if call[0] == os.getpid():
            self._put(number=call[1], answered=answered, answer=answer, **facts)

    def inside(self, call: tuple[int, int]) -> None:
        """Record that a fenced section has begun."""
        entered = monotonic_ns()
        if call[0] == os.getpid():
            self._put(number=call[1], entered=entered)

    def leave(self) -> None:
        """Record that this process is about to end by itself."""
        self._put(process=self.process, after=monotonic_ns())

    def close(self) -> None:
        """Close the file."""
        if self._pid == os.getpid() and self._is_open():
            os.close(self._file)
        self._file = -1


class Recorder:
    """The calls of one holder to a manager. Refusals are None or False here, not errors."""

    def __init__(self, manager: LockManager, journal: Journal, holder: str | Holder) -> None:
        self.manager = manager
        self.journal = journal
        self.holder = holder

    def _who(self) -> str:
        if isinstance(self.holder, Holder):
            return self.holder.key
        return f"{self.holder} in {self.journal.process}"

    def try_acquire(
        self, *, read_paths: Iterable[str] = (), write_paths: Iterable[str] = (), ttl: float | None
    ) -> LockGrant | None:
        """Request keys without waiting."""
        return self._ask("try_acquire", tuple(read_paths), tuple(write_paths), ttl, {})

    def acquire(
        self,
        *,
        read_paths: Iterable[str] = (),
        write_paths: Iterable[str] = (),
        ttl: float | None,
        timeout: float,
        patience: float = 600,
    ) -> LockGrant | None:
        """Request keys and wait."""
        rest = {"timeout": timeout, "patience": patience}
        return self._ask("acquire", tuple(read_paths), tuple(write_paths), ttl, rest)

    def _ask(
        self, call: str, reads: tuple[str, ...], writes: tuple[str, ...], ttl: float | None,
        rest: dict[str, float],
    ) -> LockGrant | None:  # fmt: skip
        wants = [(path, "r") for path in reads] + [(path, "w") for path in writes]
        facts = {"holder": self._who(), "wants": wants, "ttl": ttl}
        if "patience" in rest:
            facts["patience"] = rest["patience"]
        made = self.journal.invoke(call, **facts)
        grant: LockGrant | None = None
        with self._failure(made):
            try:
                ask = getattr(self.manager, call)
                grant = ask(
                    holder=self.holder, read_paths=reads, write_paths=writes, ttl=ttl, **rest
                )
            except LockTimeoutError:
                self.journal.answer(made, "timed out")
                return None
            except Refused:
                self.journal.answer(made, "refused")
                return None
            except Lost:  # the process was stopped while it waited, and its grant expired meanwhile
                self.journal.answer(made, "lost")
                return None
        if grant is None:
            self.journal.answer(made, "refused")
        else:
            self.journal.answer(made, "granted", grant=grant.id, token=grant.token)
        return grant

    @contextmanager
    def _failure(self, made: tuple[int, int]) -> Iterator[None]:
        try:
            yield
        except HoldfastError as error:
            self.journal.answer(made, "failed", error=f"{error.code} {error}")
            raise

    def release(self, grant: LockGrant) -> bool:
        """Release a grant."""
        made = self._about("release", grant)
        with self._failure(made):
            ended = self.manager.release(grant.id)
        self.journal.answer(made, "released" if ended else "nothing to release")
        return ended

    def verify(self, grant: LockGrant, *, token: int | None = None) -> bool:
        """Verify a grant, with its own token or another."""
        shown = grant.token if token is None else token
        made = self._about("verify", grant, token=shown)
        with self._failure(made):
            holds = bool(self.manager.verify(grant.id, token=shown))
        self.journal.answer(made, "holds" if holds else "does not hold")
        return holds

    def renew(self, grant: LockGrant) -> bool:
        """Extend a grant by its own ttl."""
        made = self._about("renew", grant)
        with self._failure(made):
            try:
                self.manager.renew(grant.id, holder=self.holder)
            except Lost:
                self.journal.answer(made, "lapsed")
                return False
        self.journal.answer(made, "renewed")
        return True

    @contextmanager
    def fenced(self, grant: LockGrant) -> Iterator[bool]:
        """A fenced section; False, without a section, if it is not entered."""
        made = self._about("fenced", grant, token=grant.token)
        section = self.manager.fenced(grant)
        with self._failure(made):
            try:
                section.__enter__()
            except Lost:
                self.journal.answer(made, "kept out")
                yield False
                return
        self.journal.inside(made)
        try:
            yield True
            left = monotonic_ns()
        finally:
            section.__exit__(None, None, None)
        self.journal.answer(made, "entered", left=left)

    def _about(self, call: str, grant: LockGrant, **facts: Any) -> tuple[int, int]:
        return self.journal.invoke(call, holder=self._who(), grant=grant.id, **facts)


def note_death(folder: str | os.PathLike[str], process: str, after: int, by: int) -> None:
    """Record that a process was killed, and the interval in which it died."""
    line = json.dumps({"process": process, "after": after, "by": by})
    file = os.open(os.path.join(folder, DEATHS), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.write(file, line.encode() + b"\n")
    os.close(file)


# Reading it back


def read(folder: str | os.PathLike[str]) -> History:
    """The history that was recorded in a folder."""
    operations: list[Operation] = []
    deaths: dict[str, Death] = {}
    for file in sorted(Path(folder).iterdir()):
        calls: dict[int, dict[str, Any]] = {}
        # After the last line break may be half a line, of a call that was never made.
        for line in file.read_text(encoding="utf-8").split("\n")[:-1]:
            facts = json.loads(line)
            if "number" in facts:
                calls.setdefault(facts["number"], {}).update(facts)
            elif facts["process"] not in deaths or facts.get("by"):
                deaths[facts["process"]] = Death(**facts)
        operations += [_operation(file.name, facts) for facts in calls.values()]
    operations.sort(key=lambda operation: operation.invoked)
    return History(tuple(operations), tuple(deaths.values()))


def _operation(process: str, facts: dict[str, Any]) -> Operation:
    section, answered, answer = None, facts.get("answered"), facts.get("answer", "")
    if "entered" in facts:
        section = (facts["entered"], facts.get("left", facts["entered"]))
        if answered is None:  # the process was killed inside
            answered, answer = facts["entered"], "entered"
    return Operation(
        process=process,
        holder=facts["holder"],
        call=facts["call"],
        invoked=facts["invoked"],
        answered=answered,
        answer=answer,
        wants=tuple((key, mode) for key, mode in facts.get("wants", ())),
        grant=facts.get("grant", ""),
        token=facts.get("token", 0),
        ttl=_nanoseconds(facts.get("ttl")),
        patience=_nanoseconds(facts.get("patience")),
        section=section,
    )


def _nanoseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * NANOSECONDS)
