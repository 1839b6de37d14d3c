"""Read and write locks, and the dispatcher: mutants for 004-19 to 004-36."""

from __future__ import annotations

from mutants.table import Mutant

IN_CORE = "tests/core/test_seed_004.py::test_seed004_"
IN_SCHEDULER = "tests/work/test_scheduler.py::test_seed004_"
IN_PIPELINE = "tests/work/test_pipeline.py::test_seed004_"
IN_WORK = "tests/work/test_seed_004_work.py::test_seed004_"
IN_SERVER = "tests/server/test_server.py::test_seed004_"
DOOR = "tests/gate/test_gate_door.py::test_with_a_grant_in_the_environment_that_grant_decides"
AMENDED = (
    "tests/work/test_cli_dispatch.py::test_a_refused_file_is_listed_and_amended_with_another_grant"
)
IN_TASKS = "tests/tasks/test_seed_004_tasks.py::test_seed004_"
TRANSACTION = "tests/tasks/test_task_transactions.py::test_"
CONTROLS = "tests/tasks/test_task_attacked.py::test_no_task_changes_a_control_file_or_its_own_list"
WRITES = (
    "tests/gate/test_safe_write.py::"
    "test_seed004_27_a_made_up_released_expired_or_foreign_grant_id_is_refused"
)
WHOLE = (
    "tests/work/test_dispatch_whole.py::"
    "test_a_merge_that_fails_leaves_its_files_as_they_were_before_another_has_them"
)
RESERVED = (
    "tests/core/test_rules_waiting.py::"
    "test_after_its_limit_a_ticket_is_a_reservation_that_no_request_overtakes"
)

MUTANTS: list[Mutant] = [
    Mutant(
        "004-19",
        "later leases of the holder count for the grant",
        "core/rules.py",
        "writes = [held for held, mode in zip(grant.keys, grant.modes, strict=True) if mode == WRITE]",
        "writes = [held for held, mode, _id in draft.rows_of(grant.holder.key) if mode == WRITE]",
        (f"{IN_CORE}19_a_grants_footprint_never_grows",),
    ),
    Mutant(
        "004-19",
        "a dispatched agent leases the files that its grant lacks",
        "gate/door/ledger_answer.py",
        "if call.env.get(GRANT_VARIABLE):",
        "if call.env.get(SOCKET_VARIABLE):",
        (DOOR,),
    ),
    Mutant(
        "004-19",
        "a merge is granted more files while its agent is running",
        "work/screens/pipeline.py",
        "if known(view, group).state not in workflow_states.OVER:",
        "if known(view, group).state == workflow_states.QUEUED:",
        (f"{IN_PIPELINE}19_a_merge_that_is_out_is_given_no_more_files",),
    ),
    Mutant(
        "004-19",
        "a gap is not a finding: only covered files are reported",
        "work/screens/run_report.py",
        'if item is None or (item.id, data["path"]) in self._told:',
        'if item is None or data["path"] not in item.lock_request.write_paths:',
        (AMENDED,),
    ),
    Mutant(
        "004-19",
        "a task leases undeclared files",
        "gate/broker/leasing/task_leases.py",
        "            if found.is_there or not self._stands_in(found.path):\n",
        "            if not found.path:\n",
        (
            f"{TRANSACTION}seed004_19_an_undeclared_write_of_a_task_is_refused_and_is_a_gap",
            f"{IN_TASKS}19_a_task_that_declares_its_writes_is_given_no_lease_beside_them",
        ),
    ),
    Mutant(
        "004-19",
        "a task that moves a folder leases its files, declared or not",
        "gate/broker/leasing/task_leases.py",
        "            if self._declared and place.key not in self._first:\n",
        "            if self._declared and not place.key:\n",
        (f"{IN_TASKS}19_a_task_that_declares_its_writes_is_given_no_lease_beside_them",),
    ),
    Mutant(
        "004-20",
        "a waiting request gives up after 30 seconds",
        "manager/manager.py",
        "timeout: float = 300,\n"
        "        ttl: float | None = TTL_DEFAULT_SECONDS,\n"
        '        reason: str = "",\n'
        "        priority",
        "timeout: float = 30,\n"
        "        ttl: float | None = TTL_DEFAULT_SECONDS,\n"
        '        reason: str = "",\n'
        "        priority",
        (f"{IN_CORE}20_the_interface_of_the_manager",),
    ),
    Mutant(
        "004-20",
        "releasing twice is an error",
        "core/rules.py",
        "    if not isinstance(grant, Grant):\n        return Decision(False)\n",
        "    if not isinstance(grant, Grant):\n        return Decision(lost(grant, id))\n",
        (f"{IN_CORE}20_the_results_of_the_methods",),
    ),
    Mutant(
        "004-20",
        "a check treats reads as writes",
        "manager/manager.py",
        "request = self.request(outsider, read_paths, write_paths)",
        "request = self.request(outsider, (), [*read_paths, *write_paths])",
        (f"{IN_CORE}20_the_results_of_the_methods",),
    ),
    Mutant(
        "004-20",
        "a wait that times out is reported as a conflict",
        "core/sentences.py",
        "return LockTimeoutError(",
        'return error_of("E_LOCK_CONFLICT")(',
        (f"{IN_CORE}20_the_results_of_the_methods",),
    ),
    Mutant(
        "004-21",
        "a grant lasts for three minutes",
        "core/model.py",
        "TTL_DEFAULT_SECONDS = 30 * 60",
        "TTL_DEFAULT_SECONDS = 3 * 60",
        (f"{IN_CORE}21_the_fields_of_a_grant",),
    ),
    Mutant(
        "004-21",
        "a grant lists its writable paths as read too",
        "manager/grants.py",
        "if held == mode and kind(key) != INODE",
        "if held in (mode, WRITE) and kind(key) != INODE",
        (f"{IN_CORE}21_the_fields_of_a_grant",),
    ),
    Mutant(
        "004-21",
        "a grant does not notice that it was released",
        "manager/grants.py",
        "return self._has_ended(self.id)",
        "return GrantSnapshot.released",
        (f"{IN_CORE}21_the_fields_of_a_grant",),
    ),
    Mutant(
        "004-21",
        "the id is not a UUID",
        "manager/ids.py",
        'return f"{time[:8]}-{time[8:]}-7{chance[:3]}-8{chance[3:6]}-{chance[6:]}"',
        'return f"{time}-{chance}"',
        (f"{IN_CORE}21_the_fields_of_a_grant",),
    ),
    Mutant(
        "004-22",
        "a thread's decision is outdated when it is recorded",
        "store/memory.py",
        "        if not self._mutex.acquire(False):\n"
        "            self._enter(deadline)\n"
        "        try:\n"
        "            decision = decide(self._view())\n",
        "        decision = decide(self._view())\n"
        "        if not self._mutex.acquire(False):\n"
        "            self._enter(deadline)\n"
        "        try:\n",
        (f"{IN_CORE}22_while_one_thread_decides_no_other_does",),
    ),
    Mutant(
        "004-22",
        "a thread that meets another inside the ledger is refused",
        "store/sqlite/sqlite_store.py",
        "if not mutex.acquire(False) and not mutex.acquire(timeout=max(0.0, deadline - monotonic())):",
        "if not mutex.acquire(False):",
        (f"{IN_CORE}22_while_one_thread_decides_no_other_does",),
    ),
    Mutant(
        "004-23",
        "stop does not wait for dispatched items",
        "work/engine/scheduler.py",
        "        self._pool.finish()\n        if self._following is not None:\n",
        "        if self._following is not None:\n",
        (f"{IN_SCHEDULER}23_stop_waits_for_items_in_progress_and_dispatches_no_more",),
    ),
    Mutant(
        "004-23",
        "stop runs all waiting items first",
        "work/engine/scheduler.py",
        "        self.drain()\n        if self._thread is None:\n",
        "        self.wait_until_idle()\n        self.drain()\n        if self._thread is None:\n",
        (f"{IN_SCHEDULER}23_stop_waits_for_items_in_progress_and_dispatches_no_more",),
    ),
    Mutant(
        "004-23",
        "dispatched items count as waiting",
        "work/engine/scheduler_loop.py",
        "queue_depth=len(self._lines) + len(self._later),",
        "queue_depth=len(self._lines) + len(self._later) + len(self._out),",
        (f"{IN_SCHEDULER}23_and_24_what_an_item_tells",),
    ),
    Mutant(
        "004-24",
        "an item lacks the time of its dispatch",
        "work/engine/item_store.py",
        "token=grant.token, dispatched=view.now,",
        "token=grant.token,",
        (f"{IN_SCHEDULER}23_and_24_what_an_item_tells",),
    ),
    Mutant(
        "004-24",
        "in the ledger the reads and writes of an item are swapped",
        "work/engine/work_items.py",
        'LockRequest(tuple(data["read_paths"]), tuple(data["write_paths"]))',
        'LockRequest(tuple(data["write_paths"]), tuple(data["read_paths"]))',
        (f"{IN_SCHEDULER}23_and_24_what_an_item_tells",),
    ),
    Mutant(
        "004-24",
        "a finished item stays dispatched",
        "work/engine/item_store.py",
        "status=after(known.status, FAILED if reason else DONE), reason=reason,",
        "status=after(known.status, FAILED) if reason else known.status, reason=reason,",
        (f"{IN_SCHEDULER}23_and_24_what_an_item_tells",),
    ),
    Mutant(
        "004-25",
        "a scheduler that the caller passes does not know the phases",
        "work/screens/pipeline.py",
        "            self.use(scheduler)\n            scheduler.serve",
        "            self.item_store = scheduler.item_store\n            scheduler.serve",
        (f"{IN_PIPELINE}25_the_pipeline_is_made_with_its_collaborators",),
    ),
    Mutant(
        "004-25",
        "without launchers an agent is not told its grant",
        "work/launching/slots.py",
        "environment={**environment, **told},",
        "environment=environment,",
        (f"{IN_PIPELINE}25_the_pipeline_is_made_with_its_collaborators",),
    ),
    Mutant(
        "004-25",
        "a pipeline without a lock manager opens one",
        "work/screens/pipeline.py",
        "        tree = lock_manager.tree if lock_manager is not None else None\n",
        '        lock_manager = lock_manager or LockManager.open(root or ".")\n'
        "        tree = lock_manager.tree\n",
        (f"{IN_PIPELINE}16_and_25_without_a_lock_manager_nothing_is_locked",),
    ),
    Mutant(
        "004-25",
        "the semaphore is not used",
        "work/engine/scheduler.py",
        "                claude_semaphore,\n            ),\n",
        "                None,\n            ),\n",
        (f"{IN_PIPELINE}25_the_constructor_of_the_document_works_as_it_stands",),
    ),
    Mutant(
        "004-25",
        "a permit is released twice",
        "work/engine/scheduler_loop.py",
        "        if has_permit and self._limits.permits is not None:\n",
        "        if self._limits.permits is not None:\n",
        (f"{IN_PIPELINE}25_the_constructor_of_the_document_works_as_it_stands",),
    ),
    Mutant(
        "004-26",
        "an idle workflow may be analysed without having been queued",
        "work/screens/workflow_states.py",
        "IDLE: (QUEUED, COMPLETED),",
        "IDLE: (QUEUED, ANALYZING, COMPLETED),",
        (f"{IN_PIPELINE}26_queued_comes_between_idle_and_analyzing",),
    ),
    Mutant(
        "004-26",
        "a workflow that waits for its locks is shown as being analysed",
        "work/screens/pipeline.py",
        "if item.status == DISPATCHED:\n            state",
        "if not item.is_over:\n            state",
        (f"{IN_PIPELINE}26_a_workflow_is_queued_until_its_locks_are_free",),
    ),
    Mutant(
        "004-26",
        "any transition is allowed",
        "work/screens/workflow_states.py",
        "    if not may_follow(state, to):\n",
        "    if state not in STATES:\n",
        ("tests/work/test_pipeline.py::test_an_illegal_transition_is_refused",),
    ),
    Mutant(
        "004-27",
        "a phase treats an empty grant id as none",
        "work/screens/pipeline.py",
        "        if grant_id is None:\n            return\n",
        "        if not grant_id:\n            return\n",
        (f"{IN_PIPELINE}27_a_made_up_released_expired_or_foreign_grant_id_is_refused",),
    ),
    Mutant(
        "004-27",
        "a phase works under a grant of another workflow's running item",
        "work/screens/pipeline.py",
        "if item is None or item.workflow != name:",
        "if item is None:",
        (f"{IN_PIPELINE}27_the_grant_of_another_workflow_is_refused",),
    ),
    Mutant(
        "004-27",
        "a phase accepts a grant that no dispatched item has",
        "work/screens/pipeline.py",
        "if item is None or item.workflow != name:",
        "if item is not None and item.workflow != name:",
        (f"{IN_PIPELINE}27_a_made_up_released_expired_or_foreign_grant_id_is_refused",),
    ),
    Mutant(
        "004-27",
        "the phases after the analysis check no grant",
        "work/screens/pipeline.py",
        "        screens = self._group(group)\n        self._check_grant(group, grant_id)\n",
        "        screens = self._group(group)\n",
        (f"{IN_PIPELINE}27_a_made_up_released_expired_or_foreign_grant_id_is_refused",),
    ),
    Mutant(
        "004-27",
        "a phase treats a missing grant as an invalid one",
        "work/screens/pipeline.py",
        "def run_fix(self, group: str, grant_id: str | None = None)",
        'def run_fix(self, group: str, grant_id: str | None = "")',
        (f"{IN_PIPELINE}27_phases_take_the_grant_that_they_work_under",),
    ),
    Mutant(
        "004-27",
        "a write treats an empty grant id as none",
        "gate/checked_write.py",
        "    elif grant_id is not None:\n        current",
        "    elif grant_id:\n        current",
        (WRITES,),
    ),
    Mutant(
        "004-27",
        "a caller that knows the id of another's grant writes with it",
        "gate/checked_write.py",
        "if token != known.token and is_foreign(known.holder):",
        "if token not in (None, known.token) and is_foreign(known.holder):",
        (
            WRITES,
            "tests/gate/test_safe_write.py::test_the_command_refuses_the_grant_of_another_process",
        ),
    ),
    Mutant(
        "004-28",
        "an analysis need not report its findings",
        "work/screens/findings.py",
        '_FIELDS = ("screen", "findings", "write_targets")',
        '_FIELDS = ("screen", "write_targets")',
        (f"{IN_WORK}28_an_analysis_puts_out_its_screen_findings_and_write_targets",),
    ),
    Mutant(
        "004-28",
        "a folder is recognised only by a slash at the end",
        "work/screens/findings.py",
        'return place.path, "", place.folder',
        'return place.path, "", text.endswith("/")',
        (f"{IN_WORK}28_a_folder_among_the_targets_is_an_over_lock_error",),
    ),
    Mutant(
        "004-28",
        "a folder among the targets is an error like any other",
        "work/screens/findings.py",
        "        if folders:\n            raise problems.error(\n                OverLockError,",
        "        if folders and not targets:\n            raise problems.error(\n                OverLockError,",
        (f"{IN_WORK}28_a_folder_among_the_targets_is_an_over_lock_error",),
    ),
    Mutant(
        "004-28",
        "a merge has the targets of its first screen only",
        "work/screens/pipeline.py",
        'dict.fromkeys(path for one in analyses for path in one.data["write_targets"])',
        'dict.fromkeys(path for one in analyses[:1] for path in one.data["write_targets"])',
        (f"{IN_PIPELINE}28_a_merge_locks_the_targets_of_all_its_screens_each_once",),
    ),
    Mutant(
        "004-29",
        "the state counts those in the kernel's line as the queue",
        "server/state/board.py",
        '"queue_depth": len(queued),',
        '"queue_depth": len(tickets),',
        (f"{IN_SERVER}29_the_state_has_phase_controllers_workflows_and_locks",),
    ),
    Mutant(
        "004-29",
        "the state has no active items",
        "server/state/board.py",
        '"active_items": [item_data(item) for item in active],',
        '"active": [item_data(item) for item in active],',
        (f"{IN_SERVER}29_the_state_has_phase_controllers_workflows_and_locks",),
    ),
    Mutant(
        "004-29",
        "work on merges is shown as analysis",
        "server/state/board.py",
        'return "analyzing" if merging == {ANALYZE} else "merging"',
        'return "analyzing"',
        (f"{IN_SERVER}29_the_state_has_phase_controllers_workflows_and_locks",),
    ),
    Mutant(
        "004-29",
        "every waiting item is shown as waiting for a slot",
        "server/state/board.py",
        "conflicts = [] if item.grant_id else self._question(item)(view)",
        "conflicts = self._question(item)(view) if item.grant_id else []",
        (
            "tests/server/test_server.py::test_the_state_says_why_an_item_waits_and_for_which_holder",
        ),
    ),
    Mutant(
        "004-30",
        "a route starts work immediately, past the scheduler",
        "work/screens/pipeline.py",
        "        if self.flows is None:\n            threading.Thread",
        "        if self.flows is not None:\n            threading.Thread",
        (
            f"{IN_SERVER}30_analyze_goes_through_the_scheduler",
            f"{IN_SERVER}30_without_a_scheduler_here_the_item_waits_for_a_dispatcher_elsewhere",
        ),
    ),
    Mutant(
        "004-30",
        "a request for a controller that is already in work is not refused",
        "work/screens/pipeline.py",
        "        if not self._queue_analyses(group, self._groups[group], over):\n"
        "            raise self._busy(group)\n",
        "        self._queue_analyses(group, self._groups[group], over)\n",
        (f"{IN_SERVER}30_without_a_scheduler_here_the_item_waits_for_a_dispatcher_elsewhere",),
    ),
    Mutant(
        "004-30",
        "the server's own pipeline is ignored",
        "server/page_orders.py",
        "        pipeline = self._pipeline\n        if pipeline is None:\n",
        "        pipeline = self._pipeline\n        if pipeline is None or pipeline.flows is None:\n",
        (f"{IN_SERVER}30_a_pipeline_without_locks_does_it_at_once",),
    ),
    Mutant(
        "004-31",
        "the locks of a failed item stay",
        "work/engine/item_store.py",
        "given = Decision(new) if hold else _released(view, known, new)",
        "given = Decision(new) if hold or reason else _released(view, known, new)",
        (f"{IN_SCHEDULER}31_whatever_a_callback_raises_its_locks_are_free_and_it_is_in_error",),
    ),
    Mutant(
        "004-31",
        "a callback that exits ends the scheduler",
        "work/engine/item_steps.py",
        "        except BaseException as error:\n            return self._failed(",
        "        except Exception as error:\n            return self._failed(",
        (f"{IN_SCHEDULER}31_whatever_a_callback_raises_its_locks_are_free_and_it_is_in_error",),
    ),
    Mutant(
        "004-31",
        "the writes of a crashed agent stay when its locks come free",
        "work/screens/pipeline.py",
        "            run.put_back(manager)\n",
        "            run.forget()\n",
        (
            f"{IN_PIPELINE}31_an_agent_that_is_killed_is_tried_again_with_its_files_as_they_were",
            WHOLE,
        ),
    ),
    Mutant(
        "004-31",
        "a killed agent is retried once too often",
        "work/screens/pipeline.py",
        "item.retries < CRASHES_MAX)",
        "item.retries <= CRASHES_MAX)",
        (f"{IN_PIPELINE}31_an_agent_that_is_always_killed_is_an_error_in_the_end",),
    ),
    Mutant(
        "004-31",
        "a task has one attempt too many",
        "work/tasks/attempt.py",
        "        if failures >= self._task.tries:\n",
        "        if failures > self._task.tries:\n",
        (f"{IN_TASKS}31_a_task_whose_agent_crashes_fails_in_the_end_and_holds_nothing",),
    ),
    Mutant(
        "004-31",
        "only the first grant of a task is released",
        "work/engine/item_store.py",
        "    return [own, *more] if isinstance(own, Grant) else more\n",
        "    return [own] if isinstance(own, Grant) else more\n",
        (f"{IN_TASKS}31_a_task_whose_agent_crashes_fails_in_the_end_and_holds_nothing",),
    ),
    Mutant(
        "004-32",
        "nothing starts a reaper",
        "work/engine/scheduler.py",
        "self._reaper.enter_context(self._manager.reaper(self._reap_seconds))",
        "self._manager.reaper(self._reap_seconds)",
        (f"{IN_SCHEDULER}32_a_scheduler_reaps_leaked_grants_that_no_request_wants",),
    ),
    Mutant(
        "004-32",
        "a living owner keeps its grant after the ttl",
        "core/conflicts.py",
        "    if expires_at is not None and draft.now >= expires_at:\n        return EXPIRED\n",
        "    if draft.is_dead(grant.holder.witness) and draft.now >= (expires_at or 0):\n"
        "        return EXPIRED\n",
        (
            f"{IN_CORE}32_it_is_free_without_a_reaper_too",
            f"{IN_CORE}32_the_waiter_has_the_lock_when_the_ttl_is_over",
        ),
    ),
    Mutant(
        "004-32",
        "a lease lasts for an hour",
        "core/model.py",
        "TTL_DEFAULT_SECONDS = 30 * 60",
        "TTL_DEFAULT_SECONDS = 60 * 60",
        (
            f"{IN_CORE}32_it_is_free_without_a_reaper_too",
            f"{IN_SCHEDULER}32_an_item_gets_a_leaked_file_when_its_lease_has_expired",
        ),
    ),
    Mutant(
        "004-32",
        "reaping looks for live grants",
        "manager/manager.py",
        "over = pages(self.store, self._deadline, live=False)",
        "over = pages(self.store, self._deadline, live=True)",
        (f"{IN_CORE}32_a_grant_that_leaked_ends_with_its_ttl",),
    ),
    Mutant(
        "004-33",
        "a wait that closes a deadlock begins",
        "core/wait_line.py",
        "        if holder_key == me:\n            return trail\n",
        "        if holder_key == me:\n            continue\n",
        (
            f"{IN_CORE}33_there_is_no_deadlock",
            "tests/core/test_rules_circles.py::test_a_deadlock_of_three_is_refused_immediately",
        ),
    ),
    Mutant(
        "004-33",
        "only a deadlock of two is detected",
        "core/wait_line.py",
        "                trails.append((*trail, conflict))\n",
        "                if conflict.holder_key == me:\n"
        "                    return (*trail, conflict)\n",
        ("tests/core/test_rules_circles.py::test_a_deadlock_of_three_is_refused_immediately",),
    ),
    Mutant(
        "004-33",
        "a request that has waited for ten minutes is overtaken for fifty more",
        "core/model.py",
        "PATIENCE_DEFAULT_SECONDS = 10 * 60",
        "PATIENCE_DEFAULT_SECONDS = 60 * 60",
        (
            f"{IN_CORE}33_a_wide_request_does_not_starve",
            RESERVED,
        ),
    ),
    Mutant(
        "004-33",
        "a reservation holds no request back",
        "core/conflicts.py",
        "if ticket.arrival >= arrival or ticket.request.holder.key == request.holder.key:",
        "if ticket.arrival <= arrival or ticket.request.holder.key == request.holder.key:",
        (
            f"{IN_CORE}33_a_wide_request_does_not_starve",
            RESERVED,
        ),
    ),
    Mutant(
        "004-33",
        "in a deadlock the oldest task has to yield",
        "work/launching/brokered_attempt.py",
        "victim = max(ages,",
        "victim = min(ages,",
        (f"{TRANSACTION}in_a_circle_the_younger_task_yields_and_both_are_done",),
    ),
    Mutant(
        "004-34",
        "a failed scheduler cannot be started again",
        "work/engine/scheduler.py",
        "if self._thread is not None and self._thread.is_alive():\n            return",
        "if self._thread is not None:\n            return",
        (f"{IN_SCHEDULER}34_a_crash_of_the_loop_is_an_error_for_all_to_see_and_loses_nothing",),
    ),
    Mutant(
        "004-34",
        "when the loop fails the waiting items are dropped",
        "work/engine/scheduler_loop.py",
        "                self._error = error\n",
        "                self._error = error\n                self._lines = Lines()\n",
        (f"{IN_SCHEDULER}34_a_crash_of_the_loop_is_an_error_for_all_to_see_and_loses_nothing",),
    ),
    Mutant(
        "004-34",
        "other processes do not see that the loop failed",
        "work/engine/scheduler.py",
        'transactions.note(self._manager, BROKEN, {"error": said}, name=TROUBLE)',
        'transactions.note(self._manager, BROKEN, {"error": said})',
        (f"{IN_SCHEDULER}34_a_crash_of_the_loop_is_an_error_for_all_to_see_and_loses_nothing",),
    ),
    Mutant(
        "004-34",
        "the trouble is reported for ever",
        "work/engine/scheduler.py",
        "transactions.note(self._manager, MENDED, {}, name=TROUBLE, over=True)",
        "transactions.note(self._manager, MENDED, {}, name=TROUBLE)",
        (f"{IN_SCHEDULER}34_a_crash_of_the_loop_is_an_error_for_all_to_see_and_loses_nothing",),
    ),
    Mutant(
        "004-35",
        "a grant covers every file",
        "gate/door/delegated_calls.py",
        "manager.verify(grant, path, token=number)",
        "manager.verify(grant, token=number)",
        (DOOR,),
    ),
    Mutant(
        "004-35",
        "refusals of the hook are not recorded",
        "gate/door/delegated_calls.py",
        "            transactions.note(manager, GAP, gap)\n",
        "",
        (DOOR,),
    ),
    Mutant(
        "004-35",
        "a dispatched agent may write the whole tree",
        "gate/sandbox/box.py",
        "            places.add_targets(root, grant.write_paths)\n",
        "            places.add_folder(root)\n",
        (f"{IN_PIPELINE}35_an_undeclared_file_is_refused_and_the_agent_completes_what_it_can",),
    ),
    Mutant(
        "004-35",
        "refusals of the kernel are recorded only for paths that the grant covers",
        "gate/sandbox/gaps/gap_records.py",
        "        if not verdict:\n",
        "        if verdict:\n",
        (f"{IN_PIPELINE}35_an_undeclared_file_is_refused_and_the_agent_completes_what_it_can",),
    ),
    Mutant(
        "004-35",
        "an agent that tries to write beyond its targets has failed",
        "work/launching/slots.py",
        '                unrecorded = self._recorded(item, [*unrecorded, *heard["gaps"]])\n',
        '                unrecorded = self._recorded(item, [*unrecorded, *heard["gaps"]])\n'
        '                return Ended(1, "it wrote what it may not", 0, 0.0)\n',
        (f"{IN_PIPELINE}35_an_undeclared_file_is_refused_and_the_agent_completes_what_it_can",),
    ),
    Mutant(
        "004-35",
        "the refusals of a task are not recorded",
        "gate/broker/leasing/task_leases.py",
        "            self.gaps.append(path)\n",
        "",
        (f"{IN_TASKS}35_a_task_completes_what_it_can_and_its_gaps_are_told",),
    ),
    Mutant(
        "004-35",
        "the gaps of a task are reported for ever",
        "work/tasks/undeclared_writes.py",
        "    if path in (record.task.writes or ()) or (record.item, path) in told:\n",
        "    if (record.item, path) in told:\n",
        (f"{IN_TASKS}35_a_task_completes_what_it_can_and_its_gaps_are_told",),
    ),
    Mutant(
        "004-35",
        "a task may write a control file if its content stays the same",
        "gate/broker/leasing/task_leases.py",
        "        if control is not None:\n",
        "        if control is not None and not control.judge:\n",
        (CONTROLS,),
    ),
    Mutant(
        "004-36",
        "the server releases locks of others",
        "server/routes.py",
        'Handler.posts = {"analyze": Handler._analyze,',
        'Handler.posts = {"release": lambda self, words: '
        "self._json(self.site.board._manager.release(words[0])), "
        '"analyze": Handler._analyze,',
        (
            f"{IN_SERVER}36_there_is_no_way_to_override_a_lock",
            f"{IN_SERVER}36_whatever_is_asked_for_a_lock_stays_with_its_holder",
        ),
    ),
    Mutant(
        "004-36",
        "the page has a button that releases a grant",
        "server/page/detail.js",
        "    this.box.replaceChildren(close, ...body);\n",
        "    const free = button('Release', () => fetch(`/release/${about.id}`, { method: 'POST' }));\n"
        "    this.box.replaceChildren(close, free, ...body);\n",
        (
            f"{IN_SERVER}36_there_is_no_way_to_override_a_lock",
            "tests/browser/test_page.py::test_no_control_of_the_page_touches_a_lock",
        ),
    ),
    Mutant(
        "004-36",
        "a decision removes the conflicting locks",
        "server/page_orders.py",
        "        with self._lock:\n            pipeline = self._known(group)\n            if pipeline.flows is None:",
        "        with self._lock:\n            pipeline = self._known(group)\n            for grant in self._manager.active_grants():\n                self._manager.force(grant.id, by=self._by, reason=decision)\n            if pipeline.flows is None:",
        (f"{IN_SERVER}36_whatever_is_asked_for_a_lock_stays_with_its_holder",),
    ),
]
