"""Two phases: every screen is analysed, then each controller is merged.

The analyses run side by side, as many as there are slots. As soon as all screens of one controller
are analysed, and not later, their write targets together become the locks of its merge, which are
held through apply, test, fix, ci and verify.

Nothing is left half done. Before the first agent of an item starts, the files of its grant are kept
(`holdfast.manager.files.keepsakes`). If an item fails, is retried or is interrupted, they are
restored before its locks are released. The grant is the unit, so a merge that fails in verify
undoes its apply and its fixes too. A merge is recorded in the transaction that ends its item
(`holdfast.work.screens.merged_findings`), and no later run merges it again.

Without a lock manager the pipeline does what it did before there were locks: it runs one agent
after another, in the calling thread, and checks nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.core.model import Decision
from holdfast.gate import checked_write
from holdfast.gate.config.settings import Settings
from holdfast.gate.sandbox.box import demand
from holdfast.gate.sandbox.kernel.landlock import support
from holdfast.manager.files.control_files import ControlFileError, control_of
from holdfast.manager.files.paths import Tree
from holdfast.manager.files.settings_text import FILE, text_of
from holdfast.manager.grants import LockGrant
from holdfast.manager.manager import LockManager
from holdfast.work.engine.item_store import ItemStore
from holdfast.work.engine.scheduler import Again, Failed, Next, Scheduler
from holdfast.work.engine.work_items import (
    ANALYZE,
    APPLY,
    CHECKS,
    CI,
    COMPLETED,
    DISPATCHED,
    FIX,
    MERGE_PHASES,
    TEST,
    VERIFY,
    Order,
    WorkItem,
)
from holdfast.work.engine.work_items import ERROR as ITEM_ERROR
from holdfast.work.launching.run_folders import Run
from holdfast.work.launching.slots import Ended, Launchers, run_here
from holdfast.work.screens import merged_findings, workflow_states
from holdfast.work.screens.findings import Findings
from holdfast.work.screens.layout import Layout
from holdfast.work.screens.manifest import Screen, ScreenManifest
from holdfast.work.screens.workflow_records import (
    Flows,
    known,
    moved,
    moved_along,
)

if TYPE_CHECKING:
    from holdfast.core.view import View
    from holdfast.work.engine.item_store import Together
    from holdfast.work.engine.work_items import LockRequest

#: An agent that was killed has not failed: it gets another attempt, but not without limit.
CRASHES_MAX = 2
MAKING_TRIES_MAX = 10
#: The reason for ending an agent whose dispatcher was told to stop.
HALTED = "halted"


class Pipeline:
    """The work on one repository, by its manifest."""

    def __init__(
        self,
        *,
        lock_manager: LockManager | None = None,
        scheduler: Scheduler | None = None,
        screen_manifest: ScreenManifest | None = None,
        layout: Layout | None = None,
        root: str | None = None,
        review: bool = False,
        environment: Mapping[str, str] | None = None,
        launchers: Launchers | None = None,
        settings: Settings | None = None,
        best_effort: bool = False,
    ) -> None:
        """With `review` a merge waits until a person decides. `launchers` run its agents; without
        them the agents run directly below this process, and outside any sandbox.

        Settings are read once, here or by the caller: later changes take effect with the next run.
        With launchers a sandbox is required, or SandboxError is raised; with `best_effort` an
        incomplete one or none is accepted.
        """
        tree = lock_manager.tree if lock_manager is not None else None
        self.root = root or (tree.root if tree is not None else os.getcwd())
        self.manager = lock_manager
        self.scheduler = scheduler
        self.manifest = screen_manifest or ScreenManifest(())
        self.layout = layout or Layout.load(self.root, os.environ)
        self.review = review
        self._tree = tree or Tree(self.root)
        self._environment = dict(os.environ if environment is None else environment)
        self._launchers = launchers
        self._settings = settings or (Settings.load(self.root) if launchers else Settings())
        self._has_sandbox = bool(support().abi if best_effort or not launchers else demand().abi)
        self._screens = {screen.workflow: screen for screen in self.manifest}
        self._groups = self.manifest.groups
        #: The items whose agents are running, by their grants.
        self._out: dict[str, WorkItem] = {}
        self.flows = Flows(lock_manager) if lock_manager is not None else None
        self.item_store = ItemStore(lock_manager) if lock_manager is not None else None
        #: Called with every item that this dispatcher changes itself.
        self._watch: Callable[[WorkItem], None] | None = None
        if scheduler is not None:
            self.use(scheduler)
            scheduler.serve(self)

    @classmethod
    def open(
        cls,
        manager: LockManager,
        manifest: ScreenManifest,
        *,
        review: bool = False,
        changed: Callable[[WorkItem], None] | None = None,
        best_effort: bool = False,
    ) -> Pipeline:
        """A pipeline with a scheduler of its own, whose agents run in the sandbox of their
        grants."""
        assert manager.tree is not None
        file = f"{manager.tree.root}/{FILE}"
        text = text_of(file)
        layout = Layout.of(file, text, os.environ)
        layout.check(manifest)
        launchers = Launchers(manager, layout.slots)
        made = cls(
            lock_manager=manager, screen_manifest=manifest, layout=layout, review=review,
            launchers=launchers, settings=Settings.of(file, text), best_effort=best_effort,
        )  # fmt: skip

        made.use(
            Scheduler(
                lock_manager=manager, slots=layout.slots, queue_seconds=layout.queue_seconds,
                retries=layout.retries, host=launchers.lend, work=made,
            )
        )  # fmt: skip
        made._watch = changed
        return made

    def use(self, scheduler: Scheduler) -> None:
        """Let this scheduler do the work."""
        self.scheduler = scheduler
        self.item_store = scheduler.item_store
        scheduler.handle(ANALYZE, self._analyze)
        for phase in MERGE_PHASES:
            scheduler.handle(phase, self._merge)

    # Start and end

    def start(self) -> None:
        """Start, and queue everything that is not done yet. Work that an earlier run left is taken
        up."""
        scheduler = self._need_scheduler()
        if self._launchers is not None:
            self._launchers.warm(len(self._screens))
        # First, so that no change by another dispatcher is missed from now on.
        scheduler.start()
        for group in self._groups:
            self._take_up(group)

    def is_done(self) -> bool:
        """Whether nothing is left to do here: every workflow has ended, or waits for a decision
        that is not requested here. Also if the scheduler broke."""
        assert self.flows is not None
        scheduler = self._need_scheduler()
        if scheduler.error:
            return True
        if scheduler.queue_depth or scheduler.active_items or scheduler.held_items:
            return False
        known = self.flows.all()
        return all(
            group in known and known[group].state in workflow_states.OVER for group in self._groups
        )

    def halt(self) -> None:
        """Dispatch no more items and end those in progress; they are queued again."""
        scheduler = self._need_scheduler()
        scheduler.drain()
        for item in scheduler.active_items:
            scheduler.stop_item(item.id, HALTED)

    def stop(self) -> None:
        """Wait for the items in progress, and dispatch no more."""
        if self.scheduler is not None:
            self.scheduler.stop()
        if self._launchers is not None:
            self._launchers.close()

    def _take_up(self, group: str) -> None:
        assert self.flows is not None
        flow = self.flows.get(group)
        if flow.is_untouched:
            assert self.manager is not None
            left = merged_findings.left(self.manager, group, self._groups[group])
            if left:
                self._queue_analyses(group, left, (workflow_states.IDLE,))
            else:
                self.flows.try_move(group, workflow_states.COMPLETED, merged_findings.DONE_BEFORE)
        self._see_to(group)

    def _queue_analyses(
        self, group: str, screens: Iterable[Screen], from_states: Container[str]
    ) -> bool:
        """Queue analyses of a controller in one step with its state, which names them: so they are
        queued once, even if another process does the same. False if it is in none of the states."""

        def begin(view: View, items: list[WorkItem]) -> Decision[Any] | None:
            if known(view, group).state not in from_states:
                return None
            data = {"decision": "", "analyses": [item.id for item in items]}
            return moved(view, group, workflow_states.QUEUED, "", data)

        orders = [
            Order(one.workflow, ANALYZE, self.layout.analysis_request(one), {"group": group})
            for one in screens
        ]
        return bool(self._put(orders, begin))

    def _put(self, orders: list[Order], together: Together) -> list[WorkItem]:
        """Queue items: for our scheduler, or for that of another process."""
        assert self.item_store is not None
        if self.scheduler is not None:
            return self.scheduler.enqueue_all(orders, together)
        return self.item_store.enqueue_all(orders, together)

    def analyze(self, group: str) -> None:
        """Do a controller again: analyse its screens, then merge it."""
        self._group(group)
        if self.flows is None:
            threading.Thread(target=self.run_analysis, args=(group,), daemon=True).start()
            return
        over = (*workflow_states.OVER, workflow_states.AWAITING_DECISIONS)
        if not self._queue_analyses(group, self._groups[group], over):
            raise self._busy(group)

    def _busy(self, group: str) -> workflow_states.TransitionError:
        assert self.flows is not None
        state = self.flows.get(group).state
        return workflow_states.TransitionError(
            f"{group} is {state}: it is already in progress",
            hint="wait until that is done; holdfast top shows its progress",
            workflow=group, state=state, to=workflow_states.QUEUED,
        )  # fmt: skip

    def decide(self, group: str, *, approve: bool, by: str) -> None:
        """Decide on the findings for a controller: its merge is queued, or dropped."""
        assert self.flows is not None
        self._group(group)
        state = self.flows.get(group).state
        if state != workflow_states.AWAITING_DECISIONS:
            raise workflow_states.TransitionError(
                f"{group} is {state}: there is nothing to decide",
                hint="its screens must be analysed first; holdfast top shows their progress",
                workflow=group, state=state, to=workflow_states.QUEUED,
            )  # fmt: skip
        if approve:
            self._queue_merge(group, by)
        else:
            self.flows.move(
                group, workflow_states.IDLE, f"rejected by {by}", {"decision": "rejected"}
            )

    def amend(self, group: str, missing: list[str], *, by: str) -> None:
        """Give a controller files that its analyses had missed: under a new grant, since a grant
        never grows. If its merge is done, with these files only: files that the merge has written
        are not written again. Not while it is in progress. `by` is the person who asks for it, for
        the ledger."""
        assert self.flows is not None
        assert self.manager is not None
        self._group(group)
        for path in missing:
            control = control_of(path)
            if control is not None:
                raise ControlFileError(control.sentence(path), hint="change it yourself")
        amends = merged_findings.is_merged(self.manager, group)
        had = () if amends else self.flows.get(group).data.get("targets", ())
        targets = list(dict.fromkeys([*had, *missing]))

        def begin(view: View, _items: list[WorkItem]) -> Decision[Any] | None:
            if known(view, group).state not in workflow_states.OVER:
                return None
            return moved(view, group, workflow_states.QUEUED, "", {"decision": f"amended by {by}"})

        screens = self._groups[group]
        if not self._enqueue_merge(group, screens, targets, begin, amends=amends):
            raise self._busy(group)

    # Events of items

    def changed(self, item: WorkItem, *, here: bool) -> None:
        """An item has changed, here or elsewhere: its controller's merge may start."""
        group = str(item.data.get("group", ""))
        if group in self._groups and item.phase == ANALYZE and item.status == COMPLETED:
            self._see_to(group)
        if here and self._watch is not None:
            self._watch(item)

    def amended(self, _item: WorkItem) -> LockRequest | None:
        """A screen needs exactly what its manifest lists."""
        return None

    def beside(self, view: View, item: WorkItem, decision: Decision[Any]) -> Decision[Any]:
        """The state of a workflow changes in one transaction with its item: no crash comes
        between."""
        group = str(item.data.get("group", ""))
        if group not in self._groups:
            return decision
        state, reason = "", ""
        data: dict[str, Any] = {}
        if item.status == DISPATCHED:
            state = workflow_states.OF_PHASE[item.phase]
        elif item.status == ITEM_ERROR:
            state, reason = workflow_states.ERROR, f"{item.workflow}: {item.reason}"
        elif item.phase != ANALYZE and item.status == COMPLETED:
            state = workflow_states.COMPLETED
            had = known(view, group).data.get("targets", ())
            data = {"targets": list(dict.fromkeys([*had, *item.data["targets"]]))}
            decision = merged_findings.with_merged(
                view, decision, group, self._merged_screens(item)
            )
        elif item.phase != ANALYZE and not item.grant_id:
            state = workflow_states.QUEUED
        return moved_along(view, decision, group, state, reason, data) if state else decision

    def _merged_screens(self, item: WorkItem) -> tuple[Screen, ...]:
        """The screens whose findings an item carries out."""
        screens = self._groups[item.workflow]
        names = item.data.get("screens")
        return tuple(one for one in screens if names is None or one.workflow in names) or screens

    def _see_to(self, group: str) -> None:
        """If all screens of a controller are done, its merge may start."""
        assert self.flows is not None
        found = self._analyses(group)
        if not found or not all(item.status == COMPLETED for item in found):
            return
        self.flows.try_move(group, workflow_states.AWAITING_DECISIONS)
        waits = self.flows.get(group).state == workflow_states.AWAITING_DECISIONS
        if waits and not self.review:
            self._queue_merge(group, "itself")

    def _queue_merge(self, group: str, by: str) -> None:
        assert self.flows is not None
        analyses = self._analyses(group)
        names = {item.workflow for item in analyses}
        screens = [one for one in self._groups[group] if one.workflow in names]
        targets = list(
            dict.fromkeys(path for one in analyses for path in one.data["write_targets"])
        )
        data = {"decision": f"approved by {by}", "targets": targets}

        def approve(view: View, _items: list[WorkItem]) -> Decision[Any] | None:
            if known(view, group).state != workflow_states.AWAITING_DECISIONS:
                return None
            return moved(view, group, workflow_states.QUEUED, "", data)

        if targets:
            self._enqueue_merge(group, screens, targets, approve)
        else:
            self.flows.try_move(
                group, workflow_states.COMPLETED, "there was nothing to write", data
            )

    def _enqueue_merge(
        self,
        group: str,
        screens: Sequence[Screen],
        targets: list[str],
        together: Together,
        *,
        amends: bool = False,
    ) -> bool:
        request = self.layout.merge_request(screens, targets)
        data = {
            "group": group, "targets": targets, "round": 0, "amends": amends,
            "screens": [screen.workflow for screen in screens],
        }  # fmt: skip
        return bool(self._put([Order(group, APPLY, request, data)], together))

    def _analyses(self, group: str) -> list[WorkItem]:
        """The present items of a controller's analyses."""
        assert self.item_store is not None
        assert self.flows is not None
        found = [self.item_store.item(id) for id in self.flows.get(group).data.get("analyses", ())]
        return [item for item in found if item is not None]

    def undo(self, item: WorkItem) -> None:
        """Restore the files as they were before an item was dispatched. Its locks are held."""
        run = self._run_of(item)
        manager = self.manager
        if item.grant_id or (manager is not None and manager.store.lease is not None):
            run.put_back(manager)
        else:
            run.forget()  # a person forced its locks: the files are as that person wants them

    def _run_of(self, item: WorkItem) -> Run:
        """The folder of an item, valid while this attempt is the present one."""
        item_store = self.item_store
        assert item_store is not None
        return Run(self.root, item.id, lambda: item_store.is_current(item))

    @contextmanager
    def finishing(self, item: WorkItem) -> Iterator[None]:
        """The context in which an item is ended as done: its files must not have been restored, nor
        be restored meanwhile."""
        if item.data.get("group") not in self._groups:
            yield  # another program queued this item on our scheduler: nothing is kept for it
            return
        with self._run_of(item).finishing() as are_kept:
            if not are_kept:
                raise Again("another process took it for dead and restored its files")
            yield

    # The phases

    def run_analysis(self, name: str, grant_id: str | None = None) -> dict[str, Any]:
        """Analyse a screen, or all screens of a controller. Returns the targets that they name."""
        if name in self._groups:
            every = [self.run_analysis(one.workflow, grant_id) for one in self._groups[name]]
            return {"write_targets": [path for one in every for path in one["write_targets"]]}
        screen = self._screens[name]
        self._check_grant(name, grant_id)
        _make_folder(f"{self.root}/{self.layout.docs_of(screen)}")
        ended = self._agent(ANALYZE, name, self.layout.screen_words(screen), grant_id)
        if not ended.is_well:
            raise Failed(ended.sentence(ANALYZE))
        return self._findings(screen)

    def run_apply(self, group: str, grant_id: str | None = None) -> Ended:
        """Carry out the findings for a controller."""
        return self._run(APPLY, group, grant_id)

    def run_test(self, group: str, grant_id: str | None = None) -> Ended:
        """Test it."""
        return self._run(TEST, group, grant_id)

    def run_fix(self, group: str, grant_id: str | None = None) -> Ended:
        """Fix what a check has found."""
        return self._run(FIX, group, grant_id)

    def run_ci(self, group: str, grant_id: str | None = None) -> Ended:
        """Run all checks on it."""
        return self._run(CI, group, grant_id)

    def run_verify(self, group: str, grant_id: str | None = None) -> Ended:
        """Check whether the findings were really carried out."""
        return self._run(VERIFY, group, grant_id)

    def _run(self, phase: str, group: str, grant_id: str | None) -> Ended:
        screens = self._group(group)
        self._check_grant(group, grant_id)
        item = self._out.get(grant_id or "")
        if item is None:
            found = [self._findings(screen)["write_targets"] for screen in screens]
            targets, round, log = [path for one in found for path in one], 0, ""
        else:
            screens = self._merged_screens(item)
            targets, round = item.data["targets"], item.data["round"]
            log = item.data.get("log", "")
        words = self.layout.merge_words(screens, dict.fromkeys(targets), log=log, round=round)
        return self._agent(phase, group, words, grant_id)

    def _check_grant(self, name: str, grant_id: str | None) -> None:
        """Raise LockViolationError unless the grant is the one with which this workflow's item was
        dispatched. Without a grant there is no check, as before there were locks."""
        if grant_id is None:
            return
        if self.manager is None:
            sentence = f"there is no grant {grant_id!r}: this pipeline has no lock manager"
            raise checked_write.violation(checked_write.UNKNOWN, sentence, "", grant_id)
        grant = checked_write.live_grant(self.manager, grant_id)
        item = self._out.get(grant_id)
        if item is None or item.workflow != name:
            sentence = (
                f"grant {grant_id} belongs to {grant.holder.id}, and was not granted to {name}"
            )
            raise checked_write.violation(checked_write.FOREIGN, sentence, "", grant_id)

    def _findings(self, screen: Screen) -> dict[str, Any]:
        file = f"{self.root}/{self.layout.output_of(screen)[0]}"
        found = Findings.load(file, screen, self._tree)
        return {"write_targets": list(found.write_targets), "findings": len(found.findings)}

    def _agent(
        self, phase: str, name: str, words: Mapping[str, str], grant_id: str | None
    ) -> Ended:
        """Run the agent of a phase: in a launcher if there is a grant, otherwise in this
        process."""
        item = self._out.get(grant_id or "")
        settings = self.layout.phase(phase)
        if item is not None and item.data.get("amends"):
            settings = settings.amending()
        command, typed = settings.words(words), settings.typed(words) or ""
        if item is None:
            log = Run(self.root, name.replace("/", "-")).log(phase)
            return run_here(
                command, folder=self.root, output=log, environment=self._environment, stdin=typed,
                timeout_seconds=settings.timeout_seconds,
            )  # fmt: skip
        write = self._settings.sandbox_write if self._has_sandbox else None
        ended = self._need_scheduler().host_of(item).run(
            item, command, folder=self.root, environment=self._environment, stdin=typed,
            output=Run(self.root, item.id).log(phase, item.data.get("round", 0)), write=write,
            output_bytes_max=settings.output_bytes_max, timeout_seconds=settings.timeout_seconds,
        )  # fmt: skip
        if ended.why == HALTED or (ended.was_killed and item.retries < CRASHES_MAX):
            raise Again(ended.sentence(phase))
        return ended

    # As callbacks of the scheduler

    def _analyze(self, item: WorkItem, grant: LockGrant) -> dict[str, Any]:
        with self._sent_out(item):
            self._run_of(item).keep(item.lock_request.write_paths)
            # Otherwise old findings would count as the result of an agent that writes nothing.
            for path in item.lock_request.write_paths:
                Path(self.root, path).unlink(missing_ok=True)
            return self.run_analysis(item.workflow, grant_id=grant.id)

    def _merge(self, item: WorkItem, grant: LockGrant) -> Any:
        with self._sent_out(item):
            if item.phase == APPLY:
                self._run_of(item).keep(item.lock_request.write_paths)
            ended = self._run(item.phase, item.workflow, grant.id)
        return self._after(item, ended)

    @contextmanager
    def _sent_out(self, item: WorkItem) -> Iterator[None]:
        """While an item's agent runs, it can be found by its grant. An error is reported to the
        operator with its code."""
        self._out[item.grant_id] = item
        try:
            yield
        except HoldfastError as error:
            raise Failed(f"{error.code}: {error.message}") from error
        finally:
            del self._out[item.grant_id]

    def _after(self, item: WorkItem, ended: Ended) -> Any:
        """What follows a phase of a merge: the next phase, a fix, or the end."""
        if ended.is_well and item.phase == FIX:
            return Next(item.data["failed"])
        if ended.is_well:
            following = self._following(item.phase)
            if following:
                return Next(following, {"round": 0} if item.phase == APPLY else None)
            return None
        fix = self.layout.phase(FIX)
        round = item.data["round"] + 1
        if item.phase in CHECKS and not fix.is_skipped and round <= fix.rounds:
            log = Run(self.root, item.id).log(item.phase, item.data["round"])
            return Next(FIX, {"round": round, "failed": item.phase, "log": log})
        raise Failed(ended.sentence(item.phase))

    def _following(self, phase: str) -> str:
        later = CHECKS if phase == APPLY else CHECKS[CHECKS.index(phase) + 1 :]
        return next((one for one in later if not self.layout.phase(one).is_skipped), "")

    # Helpers

    def _group(self, group: str) -> tuple[Screen, ...]:
        found = self._groups.get(group)
        if found is None:
            known = ", ".join(sorted(self._groups)[:10]) or "none"
            raise InvalidInput(
                f"there is no controller {group!r} in the manifest",
                hint=f"controllers are named with their module: {known}",
            )
        return found

    def _need_scheduler(self) -> Scheduler:
        if self.scheduler is None:
            raise InvalidInput(
                "this needs a scheduler", hint="give lock_manager and scheduler, or Pipeline.open"
            )
        return self.scheduler


def _make_folder(path: str) -> None:
    """Another item that has failed may at the same moment remove an empty folder on the way."""
    for _ in range(MAKING_TRIES_MAX - 1):
        try:
            return os.makedirs(path, exist_ok=True)
        except FileNotFoundError:
            continue
    return os.makedirs(path, exist_ok=True)
