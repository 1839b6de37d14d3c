"""A dispatcher for one list: its tasks, a scheduler, and the launchers in which agents run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.errors import StoreError
from holdfast.core.model import Event
from holdfast.gate.broker.command_start import demand
from holdfast.gate.config.settings import Settings
from holdfast.gate.sandbox import SandboxError
from holdfast.manager import transactions
from holdfast.manager.files.settings_text import FILE, text_of
from holdfast.manager.manager import LockManager
from holdfast.work.engine.ledger_follower import LedgerFollower
from holdfast.work.engine.scheduler import Scheduler
from holdfast.work.engine.scheduler_loop import HELD_MAX
from holdfast.work.launching.brokered_attempt import WAIT_SECONDS
from holdfast.work.launching.slots import Launchers
from holdfast.work.screens.layout import Layout
from holdfast.work.tasks import landing
from holdfast.work.tasks.attempt import PAUSE_SECONDS, Setting
from holdfast.work.tasks.list_start import leave
from holdfast.work.tasks.lists.task import COMMAND_LINE, Task, TaskList
from holdfast.work.tasks.task_agent import (
    Agent,
    AgentMissingError,
    agent_of,
    find_agent,
)
from holdfast.work.tasks.task_flow import TaskFlow
from holdfast.work.tasks.task_records import TaskRecord

if TYPE_CHECKING:
    from holdfast.work.engine.work_items import WorkItem

#: The reason for ending an agent whose dispatcher was told to stop.
HALTED = "halted"


class Agents:
    """The agent of each task: the one that the task names, or the one that is set or installed."""

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        self._root = root
        self._environ = environ
        self._found: dict[tuple[str, ...], Agent] = {}

    def of(self, task: Task) -> Agent:
        """The agent of a task. Raises AgentMissingError, with the name of the program that is
        missing."""
        known = self._found.get(task.command)
        if known is None:
            known = self._named(task) if task.command else find_agent(self._root, self._environ)
            self._found[task.command] = known
        return known

    def _named(self, task: Task) -> Agent:
        try:
            return agent_of(task.command, self._root, self._environ)
        except AgentMissingError as error:
            raise AgentMissingError(
                f"{task.name}: {error.message}", hint=error.hint, task=task.name, **error.fields
            ) from error


class TaskDispatcher:
    """Call `begin`, `start`, and at the end `stop`."""

    def __init__(
        self,
        manager: LockManager,
        tasks: TaskList,
        *,
        slots: int | None = None,
        only: Iterable[str] = (),
        review: bool = False,
        keep_failed: bool = False,
        changed: Callable[[TaskRecord], None] | None = None,
        environ: Mapping[str, str] | None = None,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        """Every error that can be found in advance is raised here, before anything starts:
        SandboxError if this machine cannot run a broker, AgentMissingError, SettingsError, and
        CommitError if a task is to be committed and git cannot commit."""
        assert manager.tree is not None
        _demand_broker()
        self.manager = manager
        self.root = manager.tree.root
        environment = dict(os.environ if environ is None else environ)
        file = f"{self.root}/{FILE}"
        text = text_of(file)
        layout, settings = Layout.of(file, text, environment), Settings.of(file, text)
        self.agents = Agents(self.root, environment)
        wanted = [task for task in tasks if not only or task.name in only]
        for task in wanted:
            _make_writable(self.agents.of(task))
        if any(task.commit for task in wanted):
            landing.demand_identity(self.root)
        is_file = tasks.name != COMMAND_LINE
        closed = (os.path.realpath(os.path.join(self.root, tasks.name)),) if is_file else ()
        setting = Setting(
            manager, self.root, environment, tuple(settings.sandbox_write), closed, self.agents.of,
            pause_seconds,
        )  # fmt: skip
        self.slots = slots or tasks.slots or layout.slots
        self.flow = TaskFlow(
            manager, tasks, setting, only=only, review=review, keep_failed=keep_failed,
            changed=changed,
        )  # fmt: skip
        self._launchers = Launchers(manager, self.slots)
        self.scheduler = Scheduler(
            lock_manager=manager, slots=self.slots, queue_seconds=WAIT_SECONDS,
            retries=layout.retries, host=self._launchers.lend, work=self.flow,
        )  # fmt: skip
        self.flow.serve(self.scheduler)
        self._following: LedgerFollower | None = None
        self._error = ""

    @property
    def error(self) -> str:
        """Why it broke; empty if it did not."""
        return self.scheduler.error or self._error

    def begin(self, *, command: str, retry_failed: bool = False) -> list[TaskRecord]:
        """Record the list; returns the tasks that are done already. `command` is what a person
        types to continue the list."""
        return self.flow.begin(slots=self.slots, command=command, retry_failed=retry_failed)

    def start(self) -> None:
        """Take up the work in the ledger, and queue the tasks that can start."""
        self._launchers.warm(len(self.flow.tasks))
        head = transactions.look(self.manager, lambda view: view.head)
        self.scheduler.start()
        self._following = LedgerFollower(self.manager, head, self._hear, self._broke)
        self.flow.tick_all()
        self.flow.queue_ready()

    def _hear(self, event: Event) -> None:
        self.flow.heard(event)

    def _broke(self, error: BaseException) -> None:
        self._error = f"{type(error).__name__}: {error}"

    def is_done(self) -> bool:
        """Whether nothing is left to do here, or the scheduler broke."""
        return bool(self.error) or self.flow.is_done()

    def wait_for_change(self, seconds: float) -> None:
        """Wait until something has happened, or for this long."""
        self.scheduler.wait_for_change(seconds)

    def undecided(self) -> list[str]:
        """The tasks in review, if everything that is left here waits for a person."""
        held = self.in_review()
        waits = self.scheduler.queue_depth and len(held) < HELD_MAX
        return [] if self.scheduler.active_items or waits else held

    def in_review(self) -> list[str]:
        """The tasks in review whose files are held here."""
        return [str(item.data["task"]) for item in self.scheduler.held_items]

    def halt(self) -> None:
        """End the running agents; their tasks are undone and stay queued."""
        self.scheduler.drain()
        for item in [*self.scheduler.active_items, *self.scheduler.held_items]:
            self.scheduler.stop_item(item.id, HALTED)

    def stop(self) -> None:
        """Wait for the running agents, and start no more."""
        if self._following is not None:
            self._following.end()
        if self.scheduler.error:
            # A task whose end could not be recorded keeps its files, and a call that waits for one
            # of them would wait for ever.
            self.halt()
        self.scheduler.stop()  # its last event wakes the thread that follows the ledger
        if self._following is not None:
            self._following.join()
        self._launchers.close()
        with suppress(StoreError):
            self.flow.tick_all()
            leave(self.manager, self.flow.tasks.name)

    def active(self) -> list[WorkItem]:
        """The items in progress here."""
        return self.scheduler.active_items


def _demand_broker() -> None:
    """Raises SandboxError if agents cannot be run below a broker here."""
    try:
        demand(what="a list of tasks")
    except SandboxError as error:
        raise SandboxError(
            error.message,
            hint="run the list on Linux on x86_64 with Landlock and seccomp, outside any sandbox",
            **error.fields,
        ) from error


def _make_writable(agent: Agent) -> None:
    """Create, empty, a file that an agent needs and that does not exist yet: a sandbox can only
    open existing files."""
    for path in agent.writes:
        full = os.path.expanduser(path)
        if not path.endswith("/") and not os.path.lexists(full):
            os.makedirs(os.path.dirname(full), exist_ok=True)
            os.close(os.open(full, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
