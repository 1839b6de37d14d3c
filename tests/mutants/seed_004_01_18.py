"""Read and write locks, and the dispatcher: mutants for 004-01 to 004-18."""

from __future__ import annotations

from mutants.table import Mutant

CORE = "tests/core/test_seed_004.py"
MANY = "tests/core/test_seed_004_many.py"
OVERLAP = "tests/core/test_rules_overlap.py"
PIPELINE = "tests/work/test_pipeline.py"
QUEUE = "tests/work/test_work_queue.py"
SAFE_WRITE = "tests/gate/test_safe_write.py"
SCHEDULER = "tests/work/test_scheduler.py"
WORK = "tests/work/test_seed_004_work.py"

PAIRS = f"{OVERLAP}::test_every_pair_of_shapes_conflicts_exactly_when_they_overlap_and_one_writes"
ANALYSIS = f"{PIPELINE}::test_seed004_05_an_analysis_reads_its_screen_and_writes_its_own_folder"
MERGE = f"{PIPELINE}::test_seed004_06_a_merge_locks_exactly_its_targets_from_apply_to_verify"
BETWEEN = (
    f"{SCHEDULER}::test_seed004_06_between_phases_an_item_gives_back_its_slot_and_keeps_its_grant"
)
ORDER = f"{QUEUE}::test_seed004_12_verify_before_test_before_apply_before_analyze_then_first_come"
PATIENCE = f"{SCHEDULER}::test_seed004_13_and_33_after_10_minutes_no_item_overtakes_it"
KILLED = f"{SAFE_WRITE}::test_killed_before_the_rename_it_leaves_the_old_file"
RETRIED = f"{SCHEDULER}::test_seed004_18_after_300_seconds_in_vain_it_has_one_retry_more_and_its_old_place"
GIVEN_UP = (
    f"{SCHEDULER}::test_seed004_18_after_the_last_retry_it_is_an_error_that_says_who_is_in_the_way"
)
OPERATOR = f"{PIPELINE}::test_seed004_18_one_that_never_gets_its_files_is_an_error_for_the_operator"
FOLDER = (
    "tests/core/test_rules_keys.py::test_a_folder_on_disk_is_not_written_with_or_without_its_slash"
)
WITHOUT_LANDLOCK = (
    "tests/work/test_dispatch_inside.py::"
    "test_without_landlock_a_dispatcher_refuses_and_nothing_begins"
)
NO_TASK = "tests/tasks/test_task_attacked.py::test_without_landlock_no_task_begins"
NO_BUG = (
    f"{PIPELINE}::test_seed004_15_even_a_bug_in_the_scheduler_cannot_produce_an_unprotected_write"
)
NO_TASK_BUG = (
    "tests/tasks/test_seed_004_tasks.py::"
    "test_seed004_15_even_a_bug_in_the_scheduler_cannot_let_a_task_write_what_it_did_not_lock"
)
READ_ONLY = (
    "tests/gate/test_seed_004_gate.py::test_seed004_15_what_a_grant_only_reads_is_not_written"
)

MUTANTS: list[Mutant] = [
    Mutant(
        "004-01",
        "readers exclude each other",
        "core/conflicts.py",
        "return [place for place in places if modes[place] != READ]",
        "return places",
        (f"{CORE}::test_seed004_01_many_may_read_files_and_folders",),
    ),
    Mutant(
        "004-01",
        "two holders may write one file",
        "core/conflicts.py",
        "        return places\n\n    def _standing",
        "        return [place for place in places if self._request.modes[place] == READ]\n\n"
        "    def _standing",
        (f"{CORE}::test_seed004_01_a_write_lock_is_exclusive_and_on_files_only",),
    ),
    Mutant(
        "004-01",
        "a folder that is not on the disk can be locked for writing",
        "manager/request_limits.py",
        "if place.folder and found is writes:",
        "if place.folder and place.inode and found is writes:",
        (f"{CORE}::test_seed004_01_a_write_lock_is_exclusive_and_on_files_only",),
    ),
    Mutant(
        "004-02",
        "a file that is locked for writing may be read",
        "core/conflicts.py",
        "        return places\n\n    def _standing",
        "        return [place for place in places if self._request.modes[place] != READ]\n\n"
        "    def _standing",
        (
            f"{CORE}::test_seed004_02_compatibility_matrix",
            PAIRS,
        ),
    ),
    Mutant(
        "004-02",
        "a file that is locked for reading may be written",
        "core/conflicts.py",
        "return [place for place in places if modes[place] != READ]",
        "return []",
        (
            f"{CORE}::test_seed004_02_compatibility_matrix",
            PAIRS,
        ),
    ),
    Mutant(
        "004-03",
        "a folder contains only its direct children",
        "core/keys.py",
        'slash = key.rfind("/", 0, slash)',
        "slash = 0",
        (
            f"{CORE}::test_seed004_03_the_five_overlap_rules",
            PAIRS,
        ),
    ),
    Mutant(
        "004-03",
        "the reader of a folder does not conflict with writers in it",
        "core/keys.py",
        'return f"{key}/", f"{key}0"',
        'return f"{key}/", f"{key}/"',
        (
            f"{CORE}::test_seed004_03_the_five_overlap_rules",
            PAIRS,
        ),
    ),
    Mutant(
        "004-03",
        "only the first of many folders is checked",
        "core/draft.py",
        "        if inside is not None:\n            below.append(inside)",
        "        if inside is not None and not below:\n            below.append(inside)",
        (f"{MANY}::test_seed004_03_the_rules_hold_for_every_path_of_a_long_request",),
    ),
    Mutant(
        "004-03",
        "a request of many paths does not conflict with files inside its folders",
        "core/overlaps.py",
        "(self._at.get(key), self._inside.get(key))",
        "(self._at.get(key),)",
        (f"{MANY}::test_seed004_03_the_rules_hold_for_every_path_of_a_long_request",),
    ),
    Mutant(
        "004-04",
        "a folder is detected only if it is named first",
        "manager/request_limits.py",
        "if place.folder and found is writes:",
        "if place.folder and found is writes and not writes:",
        (f"{CORE}::test_seed004_04_a_write_lock_on_a_folder_is_an_over_lock_error",),
    ),
    Mutant(
        "004-04",
        "a single folder on the disk can be locked for writing",
        "manager/request_limits.py",
        "    if place.folder:\n        raise over_lock(place.path)\n    if not place.inode:",
        "    if not place.inode:",
        (FOLDER,),
    ),
    Mutant(
        "004-04",
        "a write lock on a folder raises another error",
        "manager/request_limits.py",
        "    return OverLockError(",
        "    return BadKeyError(",
        (f"{CORE}::test_seed004_04_a_write_lock_on_a_folder_is_an_over_lock_error",),
    ),
    Mutant(
        "004-05",
        "reads_from is ignored",
        "work/screens/layout.py",
        "        found += [(DECLARED, path) for path in screen.reads_from]\n",
        "",
        (ANALYSIS,),
    ),
    Mutant(
        "004-05",
        "an analysis reads an unrelated folder",
        "work/screens/layout.py",
        "        found = [(CONTROLLER, filled(self.controller, names))]\n",
        '        found = [(CONTROLLER, filled(self.controller, names)), (VIEWS, "app/views/")]\n',
        (ANALYSIS,),
    ),
    Mutant(
        "004-05",
        "an agent is dispatched without its read locks",
        "work/engine/item_store.py",
        "holder, wanted.read_paths, wanted.write_paths, ttl,",
        "holder, (), wanted.write_paths, ttl,",
        (ANALYSIS,),
    ),
    Mutant(
        "004-05",
        "the locks of a finished analysis stay",
        "work/engine/item_store.py",
        "given = Decision(new) if hold else _released(view, known, new)",
        "given = _released(view, known, new) if reason and not hold else Decision(new)",
        (ANALYSIS,),
    ),
    Mutant(
        "004-05",
        "the analyses of a controller share a folder",
        "work/screens/layout.py",
        'docs: str = ".analysis/{module}/{controller}/{screen}/"',
        'docs: str = ".analysis/{module}/{controller}/"',
        (ANALYSIS,),
    ),
    Mutant(
        "004-06",
        "a merge has the targets of one of its screens",
        "work/screens/pipeline.py",
        'dict.fromkeys(path for one in analyses for path in one.data["write_targets"])',
        'dict.fromkeys(path for one in analyses[:1] for path in one.data["write_targets"])',
        (MERGE,),
    ),
    Mutant(
        "004-06",
        "a merge does not lock the targets of the analyses",
        "work/screens/layout.py",
        "return LockRequest.of(map(self.docs_of, screens), write_targets)",
        "return LockRequest.of((), write_targets)",
        (MERGE,),
    ),
    Mutant(
        "004-06",
        "the locks are released between two phases",
        "work/engine/item_store.py",
        "                escalated=False, data={**known.data, **(data or {})},\n"
        "            )  # fmt: skip\n"
        "            return self._changed(view, Decision(new), ITEM_WAITS)",
        "                escalated=False, data={**known.data, **(data or {})},\n"
        "            )  # fmt: skip\n"
        '            free = new.but(grant_id="", token=0, holder="")\n'
        "            return self._changed(view, _released(view, known, free), ITEM_WAITS)",
        (BETWEEN,),
    ),
    Mutant(
        "004-06",
        "the verification phase is skipped",
        "work/engine/work_items.py",
        "in MERGE_PHASES[1:] if phase != FIX",
        "in MERGE_PHASES[1:-1] if phase != FIX",
        (MERGE,),
    ),
    Mutant(
        "004-06",
        "there is no continuous integration between test and verification",
        "work/engine/work_items.py",
        "in MERGE_PHASES[1:] if phase != FIX",
        "in MERGE_PHASES[1:] if phase not in (FIX, CI)",
        (MERGE,),
    ),
    Mutant(
        "004-06",
        "after an error the locks stay",
        "work/engine/item_store.py",
        "given = Decision(new) if hold else _released(view, known, new)",
        "given = Decision(new) if hold or reason else _released(view, known, new)",
        (f"{PIPELINE}::test_seed004_06_after_an_error_the_locks_of_a_merge_are_free",),
    ),
    Mutant(
        "004-07",
        "secondary actions are dropped",
        "work/screens/manifest.py",
        "return primary, tuple(map(str, others))",
        "return primary, ()",
        (f"{WORK}::test_seed004_07_a_screen_has_name_module_controller_actions_and_reads",),
    ),
    Mutant(
        "004-07",
        "reads_from may be left out",
        "work/screens/manifest.py",
        "fields = check_fields(problems, place, value, _FIELDS)",
        "fields = check_fields(problems, place, value, _FIELDS[:-1], _FIELDS[-1:])",
        (f"{WORK}::test_seed004_07_a_missing_field_is_reported_with_its_place",),
    ),
    Mutant(
        "004-07",
        "reads_from may lead out of the repository",
        "work/screens/manifest.py",
        "problem = path_problem(one)",
        'problem = "" if isinstance(one, str) else path_problem(one)',
        ("tests/work/test_manifest.py::test_reads_from_never_leads_out_of_the_repository",),
    ),
    Mutant(
        "004-08",
        "controllers with the same name in two modules are one group",
        "work/screens/manifest.py",
        'return f"{self.module}/{self.controller}"',
        "return self.controller",
        (f"{WORK}::test_seed004_08_screens_are_grouped_by_controller",),
    ),
    Mutant(
        "004-08",
        "a merge and an analysis of another controller are not counted as a pair",
        "work/screens/screen_plan.py",
        "return self.controllers * others // 2 + self.screens * others",
        "return self.controllers * others // 2",
        (f"{WORK}::test_seed004_08_the_graph_says_what_is_shared_and_what_that_will_cost",),
    ),
    Mutant(
        "004-08",
        "targets in another module count as within the module",
        "work/screens/screen_plan.py",
        "IN_MODULE if all(module == first for module in modules) else IN_APP",
        "IN_MODULE if any(module == first for module in modules) else IN_APP",
        (f"{WORK}::test_seed004_08_the_graph_says_what_is_shared_and_what_that_will_cost",),
    ),
    Mutant(
        "004-08",
        "readers of a folder are not counted for the files in it",
        "work/screens/screen_plan.py",
        "        found |= readers.get(folder, 0)\n",
        "        found |= 0\n",
        ("tests/work/test_plan.py::test_the_graph_agrees_with_one_made_pair_by_pair",),
    ),
    Mutant(
        "004-09",
        "only the first screen of a controller is analysed",
        "work/screens/pipeline.py",
        "            for one in screens\n        ]\n        return bool(self._put(orders, begin))",
        "            for one in [*screens][:1]\n        ]\n"
        "        return bool(self._put(orders, begin))",
        (f"{PIPELINE}::test_seed004_09_every_screen_has_an_item_and_all_of_them_are_out_at_once",),
    ),
    Mutant(
        "004-09",
        "models are not read",
        "work/screens/layout.py",
        "        found += [(MODEL, filled(template, names)) for template in self.models]\n",
        "",
        (
            f"{WORK}::test_seed004_09_an_analysis_reads_controller_views_models_and_what_it_declares",
        ),
    ),
    Mutant(
        "004-09",
        "reads_from is ignored",
        "work/screens/layout.py",
        "        found += [(DECLARED, path) for path in screen.reads_from]\n",
        "",
        (
            f"{WORK}::test_seed004_09_an_analysis_reads_controller_views_models_and_what_it_declares",
        ),
    ),
    Mutant(
        "004-09",
        "a merge may begin while its screens are analysed",
        "work/screens/layout.py",
        "return LockRequest.of(map(self.docs_of, screens), write_targets)",
        "return LockRequest.of((), write_targets)",
        (f"{WORK}::test_seed004_09_all_analyses_hold_their_locks_at_once",),
    ),
    Mutant(
        "004-10",
        "one more item is dispatched than there are slots",
        "work/engine/scheduler_loop.py",
        "has_room = used < self._limits.slots and",
        "has_room = used <= self._limits.slots and",
        (f"{SCHEDULER}::test_seed004_10_an_item_is_sent_out_when_its_locks_and_a_slot_are_free",),
    ),
    Mutant(
        "004-10",
        "an item that cannot start holds up all items behind it",
        "work/engine/scheduler_loop.py",
        "            if item is None:\n                break\n",
        "            if item is None or self._blocked.keys() - {item.id}:\n                break\n",
        (f"{SCHEDULER}::test_seed004_10_one_that_cannot_start_does_not_hold_up_the_next",),
    ),
    Mutant(
        "004-10",
        "all items share one lock holder",
        "work/engine/callbacks.py",
        'key=f"work/{item.id}"',
        'key="work"',
        (f"{SCHEDULER}::test_seed004_10_two_that_want_one_file_are_not_out_together",),
    ),
    Mutant(
        "004-11",
        "a merge waits for the screens of all controllers",
        "work/screens/pipeline.py",
        "        found = self._analyses(group)\n",
        "        found = [one for each in self._groups for one in self._analyses(each)]\n",
        (f"{PIPELINE}::test_seed004_11_a_merge_begins_as_soon_as_its_own_screens_are_done",),
    ),
    Mutant(
        "004-11",
        "a merge begins when one of its screens is done",
        "work/screens/pipeline.py",
        "return [item for item in found if item is not None]",
        "return [item for item in found if item is not None and item.status == COMPLETED]",
        (f"{PIPELINE}::test_seed004_11_a_merge_begins_as_soon_as_its_own_screens_are_done",),
    ),
    Mutant(
        "004-12",
        "items to apply come before items to test",
        "work/engine/work_items.py",
        "phase: LAST - 1 - at for",
        "phase: at for",
        (ORDER,),
    ),
    Mutant(
        "004-12",
        "the newest item comes first",
        "work/engine/work_items.py",
        "return (not self.escalated, -self.priority, order, self.arrival)",
        "return (not self.escalated, -self.priority, -order, self.arrival)",
        (f"{PIPELINE}::test_seed004_12_a_later_phase_gets_the_slot_first",),
    ),
    Mutant(
        "004-12",
        "within a phase the last to arrive is served first",
        "work/engine/work_items.py",
        "return (not self.escalated, -self.priority, order, self.arrival)",
        "return (not self.escalated, -self.priority, order, -self.arrival)",
        (ORDER,),
    ),
    Mutant(
        "004-13",
        "escalated items have no priority",
        "work/engine/work_items.py",
        "return (not self.escalated, -self.priority, order, self.arrival)",
        "return (False, -self.priority, order, self.arrival)",
        (f"{QUEUE}::test_seed004_13_the_escalated_come_before_all_others",),
    ),
    Mutant(
        "004-13",
        "items escalate after one minute",
        "work/engine/scheduler.py",
        "PATIENCE_SECONDS = 600.0",
        "PATIENCE_SECONDS = 60.0",
        (PATIENCE,),
    ),
    Mutant(
        "004-13",
        "items escalate after an hour",
        "work/engine/scheduler.py",
        "PATIENCE_SECONDS = 600.0",
        "PATIENCE_SECONDS = 3600.0",
        (PATIENCE,),
    ),
    Mutant(
        "004-13",
        "escalated items get no reservation",
        "work/engine/scheduler_loop.py",
        "self._item_store.escalate(item, host.holder(item) if host is not None else None)",
        "self._item_store.escalate(item, None)",
        (PATIENCE,),
    ),
    Mutant(
        "004-14",
        "the variable has another name",
        "work/screens/layout.py",
        'SLOTS_VARIABLE = "MAX_CLAUDE_CONCURRENCY"',
        'SLOTS_VARIABLE = "MAX_AGENT_CONCURRENCY"',
        (
            f"{WORK}::test_seed004_14_the_environment_says_how_many_agents_run_at_once",
            f"{PIPELINE}::test_seed004_14_no_more_agents_than_slots",
        ),
    ),
    Mutant(
        "004-14",
        "the file wins over the environment",
        "work/screens/layout.py",
        "return found if slots is None else replace(found, slots=slots)",
        "return found if slots is None or text else replace(found, slots=slots)",
        (f"{WORK}::test_seed004_14_the_environment_says_how_many_agents_run_at_once",),
    ),
    Mutant(
        "004-14",
        "a dispatcher does not read the environment",
        "work/screens/pipeline.py",
        "layout = Layout.of(file, text, os.environ)",
        "layout = Layout.of(file, text, {})",
        (f"{PIPELINE}::test_seed004_14_no_more_agents_than_slots",),
    ),
    Mutant(
        "004-14",
        "a dispatcher always has four slots",
        "work/screens/pipeline.py",
        "lock_manager=manager, slots=layout.slots, queue_seconds",
        "lock_manager=manager, queue_seconds",
        (f"{PIPELINE}::test_seed004_14_no_more_agents_than_slots",),
    ),
    Mutant(
        "004-15",
        "an empty list allows everything",
        "gate/checked_write.py",
        "    if allowed_write_paths is not None:\n        _check_allowed(",
        "    if allowed_write_paths:\n        _check_allowed(",
        (f"{SAFE_WRITE}::test_seed004_safe_write_refuses_a_path_outside_the_allowlist",),
    ),
    Mutant(
        "004-15",
        "a path that starts like an allowed one is allowed",
        "gate/checked_write.py",
        "if real == entry or entry in above or any(",
        "if real.startswith(entry) or any(",
        (f"{SAFE_WRITE}::test_seed004_safe_write_refuses_a_path_outside_the_allowlist",),
    ),
    Mutant(
        "004-15",
        "a grant is valid exactly at its end",
        "core/conflicts.py",
        "if expires_at is not None and draft.now >= expires_at:",
        "if expires_at is not None and draft.now > expires_at:",
        (f"{SAFE_WRITE}::test_seed004_safe_write_refuses_a_grant_that_is_not_valid",),
    ),
    Mutant(
        "004-15",
        "the grant of a dead owner is valid",
        "core/rules.py",
        "    why = fate(draft, grant)\n    if why:\n        code = NOT_HELD",
        "    why = fate(draft, grant)\n    if why == EXPIRED:\n        code = NOT_HELD",
        (f"{SAFE_WRITE}::test_seed004_safe_write_refuses_a_grant_that_is_not_valid",),
    ),
    Mutant(
        "004-15",
        "a read lock is enough to write",
        "gate/checked_write.py",
        "if held.get(target.place.key) != WRITE:",
        "if target.place.key not in held:",
        (READ_ONLY,),
    ),
    Mutant(
        "004-15",
        "another name of the file is covered",
        "gate/checked_write.py",
        "if held.get(target.place.key) != WRITE:",
        "if WRITE not in (held.get(target.place.key), held.get(target.place.inode)):",
        (f"{SAFE_WRITE}::test_seed004_safe_write_refuses_what_the_grant_does_not_cover_exactly",),
    ),
    Mutant(
        "004-15",
        "a token that is too high is accepted",
        "gate/checked_write.py",
        "if token is not None and token != known.token:",
        "if token is not None and token < known.token:",
        (f"{SAFE_WRITE}::test_seed004_safe_write_refuses_another_token_than_the_current_one",),
    ),
    Mutant(
        "004-15",
        "the grant is not verified again before the file is replaced",
        "gate/checked_write.py",
        "            with manager.fenced(grant_id, token):\n                new.commit()",
        "            new.commit()",
        (f"{SAFE_WRITE}::test_seed004_safe_write_stops_a_late_writer_whose_lease_was_stolen",),
    ),
    Mutant(
        "004-15",
        "a file is written in place",
        "gate/replacement.py",
        "        self._open_file(folder, 0o666 if old is None else 0o600)\n",
        "        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC\n"
        "        self._file = os.open(self._name, flags, 0o666, dir_fd=folder)\n",
        (KILLED,),
    ),
    Mutant(
        "004-15",
        "an agent may write the whole tree, whatever its locks cover",
        "gate/sandbox/box.py",
        "            places.add_targets(root, grant.write_paths)\n",
        "            places.add_folder(root)\n",
        (NO_BUG,),
    ),
    Mutant(
        "004-15",
        "a task that declares a file may write it, locked or not",
        "gate/broker/leasing/task_leases.py",
        "        if self._declared:\n            if found.is_there or",
        "        if self._declared and found.is_there:\n            return self._add(\n"
        "                Lease(found.path, place.path, self._grant, found.is_there)\n"
        "            )\n        if self._declared:\n            if found.is_there or",
        (NO_TASK_BUG,),
    ),
    Mutant(
        "004-15",
        "without a sandbox in the kernel, agents are dispatched nevertheless",
        "gate/sandbox/box.py",
        "    if not found.is_enough:\n        raise SandboxError(\n",
        "    if found.is_enough:\n        return found\n    if found.abi < 0:\n"
        "        raise SandboxError(\n",
        (WITHOUT_LANDLOCK,),
    ),
    Mutant(
        "004-15",
        "where no broker can run, tasks start nevertheless",
        "work/tasks/dispatcher.py",
        '        demand(what="a list of tasks")',
        "        pass",
        (NO_TASK,),
    ),
    Mutant(
        "004-16",
        "without a grant id nothing is written",
        "gate/checked_write.py",
        "    elif grant_id is not None:\n        current",
        '    elif grant_id != "":\n        current',
        (f"{SAFE_WRITE}::test_seed004_without_a_grant_id_only_the_allowlist_counts",),
    ),
    Mutant(
        "004-16",
        "without a grant id the allowlist does not count",
        "gate/checked_write.py",
        "    if allowed_write_paths is not None:\n        _check_allowed(",
        "    if grant_id is not None and allowed_write_paths is not None:\n        _check_allowed(",
        (f"{SAFE_WRITE}::test_seed004_without_a_grant_id_only_the_allowlist_counts",),
    ),
    Mutant(
        "004-16",
        "without a grant id no lock counts",
        "gate/checked_write.py",
        "        _write_for_the_moment(target, data, target.manager)",
        '        _replace(target, data, None, "", 0)',
        (f"{SAFE_WRITE}::test_seed004_without_a_grant_id_a_file_that_another_has_is_not_written",),
    ),
    Mutant(
        "004-17",
        "a request is granted if its first path is free",
        "core/conflicts.py",
        "    if not silent:\n        return wanted\n",
        "    if not silent:\n        return wanted[:1]\n",
        (
            f"{CORE}::test_seed004_17_a_request_is_granted_whole_or_refused_immediately",
            f"{SCHEDULER}::test_seed004_17_all_locks_or_none",
        ),
    ),
    Mutant(
        "004-17",
        "a refused request stays in line",
        "manager/manager.py",
        "call, lambda view: rules.acquire(view, request, wait=False, again=False)",
        "call, lambda view: rules.acquire(view, request, wait=True, again=False)",
        (f"{MANY}::test_seed004_17_a_request_that_is_refused_immediately_does_not_stay_queued",),
    ),
    Mutant(
        "004-17",
        "a waiting request keeps others from free files",
        "core/rules.py",
        "        ticket = draft.enqueue(request)\n",
        "        ticket = draft.reserve(draft.enqueue(request))\n",
        (f"{CORE}::test_seed004_17_a_waiting_request_stays_queued_and_holds_nothing_meanwhile",),
    ),
    Mutant(
        "004-17",
        "an item that cannot have its locks ends",
        "work/engine/scheduler_loop.py",
        "            self._block(item, claimed)\n",
        '            self.cancel(item.id, "not free")\n',
        (f"{SCHEDULER}::test_seed004_17_all_locks_or_none",),
    ),
    Mutant(
        "004-18",
        "a try lasts 30 seconds",
        "work/engine/scheduler.py",
        "QUEUE_SECONDS = 300.0",
        "QUEUE_SECONDS = 30.0",
        (RETRIED,),
    ),
    Mutant(
        "004-18",
        "a try lasts an hour",
        "work/engine/scheduler.py",
        "QUEUE_SECONDS = 300.0",
        "QUEUE_SECONDS = 3600.0",
        (RETRIED,),
    ),
    Mutant(
        "004-18",
        "a repository without settings has another time limit for tries",
        "work/screens/layout.py",
        "queue_seconds: float = 300",
        "queue_seconds: float = 3000",
        (f"{WORK}::test_seed004_18_an_item_waits_300_seconds_unless_it_is_set",),
    ),
    Mutant(
        "004-18",
        "a dispatcher ignores the time limit of a try",
        "work/screens/pipeline.py",
        "slots=layout.slots, queue_seconds=layout.queue_seconds,",
        "slots=layout.slots,",
        (OPERATOR,),
    ),
    Mutant(
        "004-18",
        "retries are not counted",
        "work/engine/item_store.py",
        "retries=known.retries + (1 if counts else 0),",
        "retries=known.retries,",
        (RETRIED, GIVEN_UP),
    ),
    Mutant(
        "004-18",
        "an item that is retried goes to the end of the line",
        "work/engine/item_store.py",
        "retries=known.retries + (1 if counts else 0),",
        "retries=known.retries + (1 if counts else 0), arrival=view.head + 1,",
        (RETRIED,),
    ),
    Mutant(
        "004-18",
        "there is one try more than the settings allow",
        "work/engine/scheduler_loop.py",
        "        if item.retries >= self._limits.retries:\n            tries",
        "        if item.retries > self._limits.retries:\n            tries",
        (GIVEN_UP,),
    ),
    Mutant(
        "004-18",
        "the operator is not shown the conflicting holder",
        "work/engine/scheduler_loop.py",
        'attempts of {seconds:g} s: {why}")',
        'attempts of {seconds:g} s: it is locked")',
        (GIVEN_UP, OPERATOR),
    ),
]
