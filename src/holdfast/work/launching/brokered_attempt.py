"""An attempt at a task, as its launcher sees it: the launcher is the broker of the task's agents.

The agent runs as `holdfast run --sandbox --lease` would run it: in the repository it can write only
what the broker leases, outside only what the settings list, and git's own files are closed as well.
The leases outlive the agent: the check and the next agent of the same attempt have them too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core import bulk_rules
from holdfast.core.errors import LockNotHeldError
from holdfast.core.model import Decision, Grant
from holdfast.gate.broker.assembly import questions
from holdfast.gate.broker.command_start import Enclosure
from holdfast.gate.broker.leasing.task_leases import TaskLeases
from holdfast.gate.git.git_control_files import controls_of
from holdfast.gate.people.ledger_picture import QUESTIONS
from holdfast.gate.sandbox import SOCKET_VARIABLE
from holdfast.manager import transactions
from holdfast.manager.files.keepsakes import Keepsake
from holdfast.manager.files.paths import LEDGER_FOLDER
from holdfast.manager.ledger_location import folder_of
from holdfast.manager.manager import LockManager

if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.gate.broker.broker_loop import Broker
    from holdfast.gate.sandbox.kernel.open_places import OpenPlaces
    from holdfast.gate.sandbox.runner.runner_folders import RunnerFolders

#: A call waits for the files of another task without limit, because every task ends.
WAIT_SECONDS = 366 * 86400.0


def task_grant(manager: LockManager, id: str) -> Grant:
    """The grant that a task was dispatched with. Raises LockNotHeldError."""
    found = transactions.look(manager, lambda view: view.grant(id))
    if not isinstance(found, Grant):
        raise LockNotHeldError(f"grant {id} is no longer held", hint="dispatch the task again")
    return found


def choose_victim(manager: LockManager, me: str, holders: Sequence[str], why: str) -> str:
    """Which task of a deadlock has to yield: the youngest. If that is another task, its dispatcher
    is informed through the ledger."""
    from holdfast.work.engine.item_store import NOTES, YIELD, YIELD_NOTES
    from holdfast.work.engine.work_items import DISPATCHED, WorkItem

    def decide(view: View) -> Decision[str]:
        found = (view.note(f"{NOTES}{id}") for id in dict.fromkeys([me, *holders]))
        items = [WorkItem.from_data(event.data) for event in found if event is not None]
        ages = {item.id: item.arrival for item in items if item.status == DISPATCHED}
        victim = max(ages, key=ages.__getitem__, default=me)
        name = f"{YIELD_NOTES}{victim}"
        if victim == me or view.note(name) is not None:
            return Decision(victim)
        said = {"item": victim, "why": why}
        return bulk_rules.with_note(view, Decision(victim), YIELD, said, name=name)

    return transactions.decide(manager, decide)


class Brokered:
    """One attempt. `start`, `serve` and `end` are called for each of its commands."""

    def __init__(
        self, manager: LockManager, grant: Grant, abi: int, terms: Mapping[str, Any]
    ) -> None:
        assert manager.tree is not None
        self.manager = manager
        self.grant = grant
        self._abi = abi
        self._root = manager.tree.root
        self._said: list[str] = []
        self._broker: Broker | None = None
        me = grant.holder.id
        self._leases = TaskLeases(
            manager, grant, self._said.append, Keepsake(self._root, me),
            declared=bool(terms.get("declared")), closed=frozenset(terms.get("closed", ())),
            choose_victim=lambda holders, why: choose_victim(manager, me, holders, why),
        )  # fmt: skip
        self._umask = os.umask(0o022)
        os.umask(self._umask)

    @property
    def victim(self) -> str:
        """Why the task has to yield; empty if it need not."""
        return self._leases.victim

    @property
    def waited_seconds(self) -> float:
        """How long a call of the present command has waited for files, in all."""
        return 0.0 if self._broker is None else self._broker.waited_seconds

    def gaps(self) -> list[str]:
        """Writes that were refused since the last call, because the task does not declare the
        files."""
        found, self._leases.gaps = self._leases.gaps, []
        return found

    def start(
        self,
        environment: Mapping[str, str],
        begin: Callable[[Enclosure, Mapping[str, str]], int],
        runner_folders: RunnerFolders,
        write: Iterable[str],
    ) -> int:
        """Start a command of the task; its pid. `begin` starts it in an enclosure, with these
        variables. Raises OSError, ValueError, SandboxError."""
        ledger = folder_of(self.manager.store.url, self._root)
        closed = [runner_folders.folder, f"{self._root}/{LEDGER_FOLDER}", ledger]

        def opened(places: OpenPlaces) -> None:
            places.add_listed(self._root, write, controls_of(self._root), keep=closed)
            places.add_folder(runner_folders.tmp)
            places.add_devices()
            places.add_streams()

        self._leases.begin_command()
        self._said.clear()
        runner_folders.furnish({**QUESTIONS, **questions(self._leases, WAIT_SECONDS)})
        enclosure = Enclosure(self._root, ledger, self._abi, closes_git=True, places=opened)
        told = dict.fromkeys(("TMPDIR", "TMP", "TEMP"), runner_folders.tmp)
        whole = {**environment, **told, SOCKET_VARIABLE: runner_folders.socket}
        try:
            pid = begin(enclosure, whole)
        except BaseException:
            enclosure.close()
            raise
        self._broker = enclosure.broker(self.manager, self._leases, wait=WAIT_SECONDS)
        return pid

    def serve(
        self,
        look: Callable[[], float | None],
        ears: Callable[[], dict[int, Callable[[], object]]],
    ) -> None:
        """Answer the command's calls until `look`, which is called in every round, returns None."""
        broker = self._broker
        assert broker is not None
        own: dict[int, Callable[[], object]] = {}

        def attend() -> float:
            seconds = look()
            for fd in own:
                broker.ears.pop(fd, None)
            own.clear()
            own.update(ears())
            broker.ears.update(own)  # type: ignore[arg-type]
            broker.is_over = broker.is_over or seconds is None
            return seconds or 0.0

        broker.attend = attend
        broker.serve()

    def end(self) -> None:
        """The command has ended: processes that it left running can write nothing from now on."""
        broker, self._broker = self._broker, None
        if broker is not None:
            self._leases.wanted += broker.wanted
            broker.refuse_all()  # and releases nothing: its leases are the task's
            broker.let_go()
            self._leases.remove_stand_ins()
            broker.close()
        os.umask(self._umask)

    def told(self) -> dict[str, Any]:
        """What the dispatcher needs to know of a command that has ended."""
        leases = self._leases
        return {
            "stale": leases.is_stale, "wanted": list(dict.fromkeys(leases.wanted)),
            "refused": [one["sentence"] for one in leases.refusals][-5:],
        }  # fmt: skip
