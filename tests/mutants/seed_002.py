"""File leases of living owners: a mutant for every promise of 002."""

from __future__ import annotations

from mutants.table import Mutant

COMMITS = "tests/install/test_committing.py::"
CORE = "tests/core/test_seed_002.py::"
DOOR = "tests/gate/test_gate_door.py::"
GATE = "tests/gate/test_gate.py::"
HOOK = "tests/gate/test_seed_002_hook.py::"
LIFE = "tests/core/test_rules_liveness.py::"

MUTANTS: list[Mutant] = [
    # The lease comes before the write
    Mutant(
        "002-01",
        "the hook takes no lease",
        "gate/door.py",
        "said = _switching(call, paths, manager, holder) or gate.permit(paths)",
        "said = _switching(call, paths, manager, holder) or Answer(ALLOW)",
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "one of the tools that edit is not known",
        "gate/clients/claude.py",
        '    "NotebookEdit": "notebook_path",\n',
        "",
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "the client is asked for two of its tools only",
        "gate/clients/claude.py",
        '_TOOLS = "|".join((*_FILES, *_SHELLS))',
        '_TOOLS = "|".join(("Write", "Edit", *_SHELLS))',
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "where a patch moves a file to is not leased",
        "gate/patch.py",
        "                path = lines[at][len(MOVE) :].rstrip(BLANKS)\n",
        "",
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "of several files those are leased that are free",
        "core/moving.py",
        "        refused = record_refusal(draft, together(missing), None, refusal)\n",
        "        for one in missing:\n"
        "            if not in_the_way(draft, one):\n"
        "                draft.admit(one, ticket=False)\n"
        "        refused = record_refusal(draft, together(missing), None, refusal)\n",
        (
            GATE + "test_seed002_fr1_1_several_files_are_leased_all_or_none",
            HOOK + "test_seed002_01_of_several_files_the_hook_leases_all_or_none",
        ),
    ),
    Mutant(
        "002-01",
        "what the gate takes is not written down",
        "gate/leases.py",
        "            return Decision(found.outcome, found.events, found.wake, found.hint)\n",
        "            return Decision(found.outcome)\n",
        (GATE + "test_seed002_fr1_1_every_edit_takes_a_lease_before_it_is_applied",),
    ),
    Mutant(
        "002-01",
        "a command's plain writes are not leased",
        "gate/guard/before.py",
        "    return gate.permit([*wanted, *below])",
        "    return gate.permit(below)",
        (HOOK + "test_seed002_01_a_command_that_plainly_writes_takes_a_lease_too",),
    ),
    Mutant(
        "002-02",
        "each call of the hook is an agent of its own",
        "gate/agents.py",
        "        key=agent_key(client, session, agent),\n        witness=_witness(intent),",
        "        key=agent_key(client, session, agent or str(os.getpid())),\n"
        "        witness=_witness(intent),",
        (HOOK + "test_seed002_02_edits_pass_without_a_word_and_without_a_command",),
    ),
    Mutant(
        "002-02",
        "what an agent has is not found again",
        "core/moving.py",
        "            and grant.holder.key == request.holder.key\n            and covers",
        "            and grant.holder.id == request.id\n            and covers",
        (GATE + "test_seed002_fr1_2_an_agent_that_edits_again_needs_nothing_new",),
    ),
    Mutant(
        "002-02",
        "every edit tells the agent of its lock",
        "gate/leases.py",
        "            return self._contend(wanted, outcome.conflicts)\n        return Answer(ALLOW)\n",
        "            return self._contend(wanted, outcome.conflicts)\n"
        '        return Answer(ALLOW, context="Locked: run holdfast unlock when you are done.")\n',
        (
            DOOR + "test_an_edit_of_a_free_file_passes_without_a_word",
            HOOK + "test_seed002_02_edits_pass_without_a_word_and_without_a_command",
        ),
    ),
    Mutant(
        "002-03",
        "a link is another file than what it leads to",
        "manager/paths.py",
        "        return self._place(given, real, status, known)\n",
        "        return self._place(given, os.path.normpath(full), status, known)\n",
        (CORE + "test_seed002_03_the_key_is_the_normalised_path_below_the_repository",),
    ),
    Mutant(
        "002-03",
        "the ledger is where the command runs",
        "manager/manager.py",
        "            tree = Tree(home_root(realpath.absolute(place)))",
        "            tree = Tree(realpath.absolute(place))",
        (CORE + "test_seed002_03_it_does_not_depend_on_where_the_command_runs",),
    ),
    Mutant(
        "002-03",
        "the ledger of an unrelated folder is asked, where the agent stands",
        "gate/door.py",
        "        root = find_root(whole)\n",
        "        root = find_root(cwd or os.getcwd())\n",
        (HOOK + "test_seed002_03_the_ledger_is_the_one_above_the_file_wherever_the_agent_is",),
    ),
    Mutant(
        "002-03",
        "the settings of an unrelated folder are read",
        "gate/door.py",
        "    settings = Settings.load(root, lenient=True)",
        "    settings = Settings.load(os.getcwd(), lenient=True)",
        (HOOK + "test_seed002_03_the_settings_are_those_of_the_files_repository",),
    ),
    # One owner, as long as it lives
    Mutant(
        "002-04",
        "what is held is granted again as long as nobody waits",
        "core/rules.py",
        "    if view.stirs or not view.is_free(*reach(looked_up(request))):",
        "    if view.stirs and not view.is_free(*reach(looked_up(request))):",
        (CORE + "test_seed002_04_at_most_one_live_owner_has_a_file",),
    ),
    Mutant(
        "002-04",
        "the agents of a session are one owner",
        "gate/agents.py",
        "        key=agent_key(client, session, agent),\n        witness=_witness(intent),",
        "        key=agent_key(client, session),\n        witness=_witness(intent),",
        (HOOK + "test_seed002_04_two_agents_of_one_session_are_two_owners",),
    ),
    Mutant(
        "002-05",
        "after a day nobody is denied any more",
        "core/conflicts.py",
        "    if grant.expires_at is None:\n        return None\n",
        "    if grant.expires_at is None:\n        return grant.acquired_at + 86_400_000_000\n",
        (
            CORE + "test_seed002_05_a_competing_change_is_denied_while_the_owner_lives",
            HOOK + "test_seed002_05_however_long_ago_it_began",
        ),
    ),
    Mutant(
        "002-05",
        "the gate's leases end after an hour",
        "manager/services.py",
        "[manager.request(holder, (), [path], None, reason) for path in paths]",
        "[manager.request(holder, (), [path], 3600, reason) for path in paths]",
        (HOOK + "test_seed002_05_however_long_ago_it_began",),
    ),
    Mutant(
        "002-05",
        "the owner lives no longer than its hook",
        "gate/agents.py",
        "        named = witness_of(intent.pid)\n",
        "        named = own_witness()\n",
        (HOOK + "test_seed002_05_the_hook_refuses_an_edit_while_the_owner_lives",),
    ),
    Mutant(
        "002-05",
        "a refusal asks the user instead",
        "gate/clients/__init__.py",
        '            "permissionDecision": "deny",',
        '            "permissionDecision": "ask",',
        (HOOK + "test_seed002_05_the_hook_refuses_an_edit_while_the_owner_lives",),
    ),
    Mutant(
        "002-06",
        "an owner without an end to its lease never counts as dead",
        "core/conflicts.py",
        "    if draft.is_dead(grant.holder.witness, grant.holder.marks):\n        return OWNER_DEAD",
        "    if grant.ttl is not None and draft.is_dead(grant.holder.witness, grant.holder.marks):\n"
        "        return OWNER_DEAD",
        (
            CORE + "test_seed002_06_non_live_owners_keep_nothing",
            HOOK + "test_seed002_06_a_client_that_is_gone_keeps_no_file",
        ),
    ),
    Mutant(
        "002-06",
        "the life of whoever started the client counts",
        "gate/agents.py",
        "    if intent.pid:\n        named = witness_of(intent.pid)",
        "    if os.getppid() != intent.pid:\n        named = witness_of(os.getppid())",
        (HOOK + "test_seed002_06_a_client_that_is_gone_keeps_no_file",),
    ),
    Mutant(
        "002-06",
        "what is listed as held may be of the dead",
        "manager/listing.py",
        "if isinstance(grant, Grant) and rules.is_live(view, grant) == live",
        "if isinstance(grant, Grant)",
        (CORE + "test_seed002_06_non_live_owners_keep_nothing",),
    ),
    Mutant(
        "002-06",
        "reaping spares the dead",
        "core/rules.py",
        "        if grant is not None and why and not steal_only(grant):\n            endings.append",
        "        if grant is not None and why == EXPIRED and not steal_only(grant):\n"
        "            endings.append",
        (CORE + "test_seed002_06_non_live_owners_keep_nothing",),
    ),
    Mutant(
        "002-07",
        "who was alive twice is not looked for again",
        "manager/liveness.py",
        "        if watch.lives():\n            return True\n    except RuntimeError:",
        "        return True\n    except RuntimeError:",
        (HOOK + "test_seed002_07_the_hook_looks_for_the_owner_before_each_refusal",),
    ),
    Mutant(
        "002-07",
        "who was alive in one decision is not looked for in the next",
        "core/draft.py",
        "    def is_dead(self, witness: Witness | None, marks: tuple[str, ...] = ()) -> bool:\n"
        '        """Whether a process, and all that carry its marks, are proven to be gone.\n\n'
        "        Asked once per decision for each: one process may be several holders, whose marks differ.\n"
        '        """\n'
        "        if witness is None:\n"
        "            return False\n"
        "        known = self._dead.get((witness, marks))\n"
        "        if known is None:\n"
        "            known = self._dead[witness, marks] = self.view.dead(witness, marks)\n",
        "    def is_dead(self, witness, marks=(), seen={}) -> bool:\n"
        "        if witness is None:\n"
        "            return False\n"
        "        known = seen.get((witness, marks))\n"
        "        if known is None:\n"
        "            known = seen[witness, marks] = self.view.dead(witness, marks)\n",
        (CORE + "test_seed002_07_liveness_is_checked_again_before_every_denial",),
    ),
    Mutant(
        "002-07",
        "before a denial only the time is looked at",
        "core/conflicts.py",
        "        why = fate(draft, grant)\n        if why and not steal_only(grant):",
        "        expires_at = expiry(draft, grant)\n"
        '        why = EXPIRED if expires_at is not None and draft.now >= expires_at else ""\n'
        "        if why and not steal_only(grant):",
        (
            CORE + "test_seed002_07_liveness_is_checked_again_before_every_denial",
            HOOK + "test_seed002_07_the_hook_looks_for_the_owner_before_each_refusal",
        ),
    ),
    Mutant(
        "002-08",
        "a dead owner's lease lasts half a minute more",
        "core/conflicts.py",
        "    if draft.is_dead(grant.holder.witness, grant.holder.marks):\n        return OWNER_DEAD",
        "    rested = draft.now - grant.acquired_at >= 30_000_000\n"
        "    if rested and draft.is_dead(grant.holder.witness, grant.holder.marks):\n"
        "        return OWNER_DEAD",
        (
            CORE + "test_seed002_08_a_dead_owners_lease_is_reclaimable_at_once",
            CORE + "test_seed002_08_also_of_a_real_process_that_was_killed",
            HOOK + "test_seed002_08_the_next_edit_has_a_dead_owners_file_at_once",
        ),
    ),
    Mutant(
        "002-08",
        "the files of one who was killed go to nobody while its pid is there",
        "manager/liveness.py",
        '    return fields[STATE] in b"ZXx" and int(fields[THREADS]) <= 1',
        "    return False",
        (HOOK + "test_seed002_08_a_client_that_was_killed_and_not_waited_for_is_dead_too",),
    ),
    # Heartbeat, and one retry
    Mutant(
        "002-09",
        "a refusal leaves no heartbeat",
        "gate/leases.py",
        'HEARTBEAT = "contention_heartbeat"',
        'HEARTBEAT = "contention"',
        (
            GATE + "test_seed002_fr4_1_a_refusal_writes_a_heartbeat",
            HOOK + "test_seed002_09_an_edit_that_is_refused_leaves_a_heartbeat",
        ),
    ),
    Mutant(
        "002-09",
        "the heartbeat names the refused agent as the owner",
        "gate/leases.py",
        '                "owner": first.holder,',
        '                "owner": self.holder.id,',
        (
            GATE + "test_seed002_fr4_1_a_refusal_writes_a_heartbeat",
            HOOK + "test_seed002_09_an_edit_that_is_refused_leaves_a_heartbeat",
        ),
    ),
    Mutant(
        "002-10",
        "the retry comes after two minutes",
        "gate/settings.py",
        "        retry_seconds: float = 180,",
        "        retry_seconds: float = 120,",
        (
            GATE
            + "test_seed002_fr4_2_the_retry_is_scheduled_exactly_180_seconds_after_the_refusal",
            HOOK + "test_seed002_10_its_retry_is_exactly_180_seconds_later",
        ),
    ),
    Mutant(
        "002-10",
        "the retry is planned for the end of the time that the file is kept",
        "gate/leases.py",
        '                "retry_at": view.now + retry,',
        '                "retry_at": view.now + retry + KEPT,',
        (
            GATE
            + "test_seed002_fr4_2_the_retry_is_scheduled_exactly_180_seconds_after_the_refusal",
            GATE + "test_seed002_fr4_2_a_call_that_is_held_open_is_tried_again_at_that_instant",
            HOOK + "test_seed002_10_its_retry_is_exactly_180_seconds_later",
        ),
    ),
    Mutant(
        "002-10",
        "a call that is woken early is tried early",
        "gate/leases.py",
        "        while (left := until - self._manager.now()) > 0:",
        "        if (left := until - self._manager.now()) > 0:",
        (HOOK + "test_seed002_10_a_hook_that_is_held_tries_again_at_that_moment_and_not_before",),
    ),
    Mutant(
        "002-10",
        "the hook is never held open",
        "gate/door.py",
        "        pause=call.pause,\n",
        "",
        (HOOK + "test_seed002_10_a_hook_that_is_held_tries_again_at_that_moment_and_not_before",),
    ),
    Mutant(
        "002-11",
        "every attempt is tried",
        "gate/leases.py",
        '        if self._manager.now() < record.data["retry_at"]:\n            return self._denied',
        '        if self._manager.now() < record.data["denied_at"]:\n            return self._denied',
        (
            GATE + "test_seed002_fr4_3_an_attempt_before_the_retry_is_not_tried",
            HOOK + "test_seed002_11_an_edit_before_the_retry_is_not_tried",
        ),
    ),
    Mutant(
        "002-11",
        "every attempt is a contention of its own",
        "gate/leases.py",
        '            if keys.intersection(event.data["keys"]):',
        '            if keys.intersection(event.data["owner"]):',
        (
            GATE + "test_seed002_fr4_3_an_attempt_before_the_retry_is_not_tried",
            HOOK + "test_seed002_11_an_edit_before_the_retry_is_not_tried",
        ),
    ),
    Mutant(
        "002-12",
        "a retry that succeeds is answered like one that is too early",
        "gate/leases.py",
        "                self._over(record, CONTENTION_OVER)\n            return Answer(ALLOW)\n",
        "                self._over(record, CONTENTION_OVER)\n"
        "            return self._denied(record)\n",
        (
            GATE + "test_seed002_fr5_1_when_the_retry_succeeds_the_edit_goes_on",
            HOOK + "test_seed002_12_a_held_edit_goes_on_when_the_retry_succeeds",
        ),
    ),
    Mutant(
        "002-12",
        "what was kept for the retry ends when it would have been kept no longer",
        "gate/leases.py",
        "            self._over(record, CONTENTION_OVER)\n            self._spread(kept)\n",
        "            self._over(record, CONTENTION_OVER)\n",
        (HOOK + "test_seed002_12_a_held_edit_goes_on_when_the_retry_succeeds",),
    ),
    Mutant(
        "002-13",
        "a retry that fails is a refusal like others",
        "gate/leases.py",
        "        self.stop(background=False)\n        return Answer(HALT, ",
        "        self.stop(background=False)\n        return Answer(DENY, ",
        (
            GATE + "test_seed002_fr5_2_when_the_retry_fails_the_agent_is_stopped_and_waits",
            HOOK + "test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks",
        ),
    ),
    Mutant(
        "002-13",
        "a blocked agent may edit other files",
        "gate/leases.py",
        "        blocked = [event for event in notes if event.type == BLOCKED]\n        if blocked:",
        "        blocked = [event for event in notes if event.type == BLOCKED]\n"
        '        if any(one.data["report"]["blocked_file"] in wanted[0].paths for one in blocked):',
        (
            GATE + "test_seed002_fr5_2_when_the_retry_fails_the_agent_is_stopped_and_waits",
            HOOK + "test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks",
        ),
    ),
    Mutant(
        "002-13",
        "the client is not told to stop",
        "gate/clients/claude.py",
        '**{"continue": False, "stopReason": user or reason}',
        '**{"stopReason": user or reason}',
        (HOOK + "test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks",),
    ),
    Mutant(
        "002-13",
        "a notice of the client counts as the user's word",
        "gate/clients/claude.py",
        "    if event == PROMPT and not _is_typed(told, data):\n",
        "    if event == PROMPT and told.agent:\n",
        (HOOK + "test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks",),
    ),
    Mutant(
        "002-14",
        "a refusal does not say which file",
        "gate/telling.py",
        "            f\"Refused: {names} belongs to {record['owner']}, as you were told \"\n",
        "            f\"Refused: it belongs to {record['owner']}, as you were told \"\n",
        (
            GATE + "test_seed002_fr5_3_nothing_is_skipped_in_silence",
            HOOK + "test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done",
        ),
    ),
    Mutant(
        "002-14",
        "the user does not hear of a refusal",
        "gate/clients/__init__.py",
        "        **more,\n    }\n    if user:\n",
        "        **more,\n    }\n    if user and more:\n",
        (HOOK + "test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done",),
    ),
    Mutant(
        "002-14",
        "that an agent was blocked is written nowhere",
        "gate/blocking.py",
        'BLOCKED = "agent_blocked"',
        'BLOCKED = "contention_over"',
        (
            GATE + "test_seed002_fr5_3_nothing_is_skipped_in_silence",
            HOOK + "test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done",
        ),
    ),
    # When leases end
    Mutant(
        "002-15",
        "what is clean after a commit is kept",
        "gate/committing.py",
        "    ids = [one.grant.id for one in ours if one.name not in changed]",
        "    ids = [one.grant.id for one in ours if one.name in changed]",
        (
            GATE + "test_seed002_fr6_1_a_commit_frees_what_was_committed",
            COMMITS + "test_seed002_fr6_1_a_successful_commit_releases_the_committed_files",
        ),
    ),
    Mutant(
        "002-15",
        "only the commit of a merge releases",
        "gate/committing.py",
        "        if name != AFTER_MERGE or is_merging(root):",
        "        if is_merging(root):",
        (COMMITS + "test_seed002_fr6_1_a_successful_commit_releases_the_committed_files",),
    ),
    Mutant(
        "002-15",
        "git's hook after a commit is not installed",
        "gate/githooks.py",
        "HOOKS = (*CHECKS, *RELEASES)",
        "HOOKS = CHECKS",
        (COMMITS + "test_seed002_fr6_1_a_successful_commit_releases_the_committed_files",),
    ),
    Mutant(
        "002-16",
        "StopFailure frees nothing",
        "gate/door.py",
        "    elif event == FAILED and not intent.tool:\n        gate.fail()\n",
        "",
        (
            HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",
            HOOK + "test_seed002_16_of_a_sub_agent_that_failed_hard_only_its_own",
        ),
    ),
    Mutant(
        "002-16",
        "a failure of the agent is taken for one of a tool",
        "gate/door.py",
        "    elif event == FAILED and not intent.tool:\n",
        "    elif event == FAILED and intent.tool:\n",
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "a hard failure counts as a stop",
        "gate/clients/claude.py",
        '    "StopFailure": FAILED,',
        '    "StopFailure": STOP,',
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "the client is not asked for hard failures",
        "gate/clients/claude.py",
        '    "StopFailure": None,\n',
        "",
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "of an agent that failed only one file is free",
        "gate/leases.py",
        "            self._manager, lambda view: view.held_by(self.holder.key), self._deadline\n",
        "            self._manager, lambda view: view.held_by(self.holder.key)[:1], self._deadline\n",
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "the gate frees what is under an agent's name for people",
        "gate/leases.py",
        "            self._manager, lambda view: view.held_by(self.holder.key), self._deadline\n",
        "            self._manager, lambda view: view.held_by(self.holder.id), self._deadline\n",
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "an agent that failed still stands in line",
        "gate/leases.py",
        '        for event in self._notes():\n            self._leave_line(event, "failed")\n',
        "",
        (HOOK + "test_seed002_16_nothing_is_kept_for_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-17",
        "SessionEnd frees nothing",
        "gate/door.py",
        "    elif event == SESSION_END:\n        gate.end_session()\n",
        "",
        (
            HOOK + "test_seed002_17_the_hook_frees_everything_when_a_session_ends",
            HOOK + "test_seed002_17_of_either_client",
        ),
    ),
    Mutant(
        "002-17",
        "the end of a session counts as a stop",
        "gate/clients/codex.py",
        '    "SessionEnd": SESSION_END,',
        '    "SessionEnd": STOP,',
        (HOOK + "test_seed002_17_of_either_client",),
    ),
    Mutant(
        "002-17",
        "the client is not asked for the end of a session",
        "gate/clients/claude.py",
        '    "SessionEnd": None,\n',
        "",
        (HOOK + "test_seed002_17_the_hook_frees_everything_when_a_session_ends",),
    ),
    Mutant(
        "002-17",
        "what the sub-agents of a session have outlives it",
        "gate/leases.py",
        "lambda view: view.held_within(start), self._deadline)",
        "lambda view: view.held_by(start), self._deadline)",
        (HOOK + "test_seed002_17_the_hook_frees_everything_when_a_session_ends",),
    ),
    Mutant(
        "002-17",
        "at a stop what was never changed is kept too",
        "gate/leases.py",
        "        unchanged = [grant.id for grant in held if is_unchanged(self._manager, grant)]",
        "        unchanged = [grant.id for grant in held if not self._manager.tree]",
        (HOOK + "test_seed002_17_a_stop_frees_at_once_what_was_never_changed",),
    ),
    Mutant(
        "002-18",
        "a dead owner stays in the way of the next",
        "core/conflicts.py",
        "        if why and not steal_only(grant):\n            draft.end",
        "        if why != OWNER_DEAD and why and not steal_only(grant):\n            draft.end",
        (
            CORE + "test_seed002_06_non_live_owners_keep_nothing",
            LIFE + "test_a_dead_owner_is_reaped_in_the_step_that_grants_the_next",
            HOOK + "test_seed002_06_a_client_that_is_gone_keeps_no_file",
        ),
    ),
    Mutant(
        "002-18",
        "only a process from before the last boot is dead",
        "manager/liveness.py",
        "        if not _gone(witness):\n            _watch(witness)\n            return False\n"
        "        return not (marks and _carried(marks))",
        "        if not _gone(witness):\n            _watch(witness)\n        return False",
        (HOOK + "test_seed002_06_a_client_that_is_gone_keeps_no_file",),
    ),
    Mutant(
        "002-19",
        "Stop starts no timer",
        "gate/door.py",
        "    if event == STOP:\n        gate.stop(background=intent.background)\n    elif event == SESSION_END:",
        "    if event == SESSION_END:",
        (
            HOOK + "test_seed002_19_thirty_seconds_after_a_stop_the_hook_lets_others_edit",
            HOOK + "test_seed002_19_a_stop_in_a_process_of_its_own_starts_the_timer",
        ),
    ),
    Mutant(
        "002-19",
        "an agent that was interrupted goes on",
        "gate/clients/codex.py",
        '    "Interrupt": STOP,',
        '    "Interrupt": OTHER,',
        (HOOK + "test_seed002_19_an_interrupted_agent_has_stopped",),
    ),
    Mutant(
        "002-19",
        "every stop counts as one with work in the background",
        "gate/clients/claude.py",
        'background = event == STOP and bool(data.get("background_tasks"))',
        'background = event == STOP and "background_tasks" in data',
        (HOOK + "test_seed002_19_thirty_seconds_after_a_stop_the_hook_lets_others_edit",),
    ),
    Mutant(
        "002-19",
        "work in the background does not count",
        "gate/door.py",
        "        gate.stop(background=intent.background)",
        "        gate.stop(background=False)",
        (HOOK + "test_seed002_19_an_agent_whose_commands_still_run_has_not_stopped",),
    ),
    Mutant(
        "002-19",
        "the timer is a minute",
        "gate/settings.py",
        "        idle_seconds: float = 30,",
        "        idle_seconds: float = 60,",
        (
            HOOK + "test_seed002_19_thirty_seconds_after_a_stop_the_hook_lets_others_edit",
            HOOK + "test_seed002_19_a_stop_in_a_process_of_its_own_starts_the_timer",
        ),
    ),
    Mutant(
        "002-19",
        "it is free a moment after the 30 s",
        "core/conflicts.py",
        "draft.now >= grant.idle_at:",
        "draft.now > grant.idle_at:",
        (HOOK + "test_seed002_19_thirty_seconds_after_a_stop_the_hook_lets_others_edit",),
    ),
    Mutant(
        "002-19",
        "the agent goes on, and so does the timer",
        "gate/door.py",
        "            gate.prompt()\n        gate.awake()\n",
        "            gate.prompt()\n",
        (HOOK + "test_seed002_19_whatever_the_agent_does_stops_the_timer",),
    ),
    Mutant(
        "002-19",
        "the timer cannot be stopped",
        "core/moving.py",
        "    idle_at = None if length is None else draft.now + length\n    left = []",
        "    idle_at = draft.now + (length or 30_000_000)\n    left = []",
        (HOOK + "test_seed002_19_whatever_the_agent_does_stops_the_timer",),
    ),
    # The report
    Mutant(
        "002-20",
        "the report names the lease instead of the file",
        "gate/telling.py",
        '        "blocked_file": conflict.path,',
        '        "blocked_file": conflict.grant_id,',
        (
            GATE + "test_seed002_fr7_the_report_has_everything_that_was_promised",
            GATE + "test_seed002_fr7_agent_and_user_read_the_same_report",
            HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",
        ),
    ),
    Mutant(
        "002-20",
        "the report calls the blocked agent the owner",
        "gate/telling.py",
        '        "owner": conflict.holder,',
        '        "owner": agent,',
        (
            GATE + "test_seed002_fr7_the_report_has_everything_that_was_promised",
            HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",
        ),
    ),
    Mutant(
        "002-20",
        "the report gives the time of the wait for the age of the lock",
        "gate/telling.py",
        "round((now - conflict.since) / 1_000_000, 3)",
        "round((now - record.at) / 1_000_000, 3)",
        (
            GATE + "test_seed002_fr7_the_report_has_everything_that_was_promised",
            HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",
        ),
    ),
    Mutant(
        "002-20",
        "the report gives its own moment for that of the heartbeat",
        "gate/telling.py",
        '        "last_heartbeat": iso(record.at),',
        '        "last_heartbeat": iso(now),',
        (
            GATE + "test_seed002_fr7_the_report_has_everything_that_was_promised",
            HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",
        ),
    ),
    Mutant(
        "002-20",
        "the report gives the interval in minutes",
        "gate/telling.py",
        '        "retry_interval_seconds": retry_seconds,',
        '        "retry_interval_seconds": retry_seconds / 60,',
        (
            GATE + "test_seed002_fr7_the_report_has_everything_that_was_promised",
            GATE + "test_seed002_fr7_agent_and_user_read_the_same_report",
            HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",
        ),
    ),
    Mutant(
        "002-20",
        "the state has another name",
        "gate/telling.py",
        'WAITING_FOR_INSTRUCTION = "waiting_for_instruction"',
        'WAITING_FOR_INSTRUCTION = "waiting_for_instructions"',
        (
            GATE + "test_seed002_fr7_the_report_has_everything_that_was_promised",
            HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",
        ),
    ),
    Mutant(
        "002-20",
        "what is read lacks the last heartbeat",
        "gate/telling.py",
        "        f\"  last heartbeat  {report['last_heartbeat']}\\n\"\n",
        "",
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    # The commit is the agent's
    Mutant(
        "002-21",
        "the check before a commit adds what is changed",
        "gate/gitfiles.py",
        '    env = inside()\n    base = "HEAD"\n',
        '    env = inside()\n    git(repo, "add", "--update", env=env)\n    base = "HEAD"\n',
        (
            COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",
            COMMITS + "test_seed002_fr8_2_the_hooks_call_no_git_that_writes",
        ),
    ),
    Mutant(
        "002-21",
        "the refusal takes what is others' out of the index itself",
        "gate/committing.py",
        "    if others:\n        return contains(",
        "    if others:\n"
        "        from holdfast.gate.gitfiles import git\n\n"
        '        git(root, "reset", "--quiet", "--", *[one.name for one in others], env=inside())\n'
        "        return contains(",
        (COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",),
    ),
    Mutant(
        "002-21",
        "what is freed is committed once more",
        "gate/gitfiles.py",
        '    env.pop("GIT_INDEX_FILE", None)\n',
        '    env.pop("GIT_INDEX_FILE", None)\n'
        '    words = ("-c", "core.hooksPath=/dev/null", "commit", "--amend", "--no-edit")\n'
        "    git(repo, *words, env=env)\n",
        (COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",),
    ),
    Mutant(
        "002-22",
        "a commit is refused for what is dirty and not in it",
        "gate/committing.py",
        "    names = staged(root)\n",
        "    names = [*staged(root), *unstaged(root)]\n",
        (COMMITS + "test_seed002_fr8_a_dirty_main_stays_a_dirty_main",),
    ),
    Mutant(
        "002-22",
        "a commit releases nothing as long as anything is dirty",
        "gate/committing.py",
        "    ids = [one.grant.id for one in ours if one.name not in changed]",
        "    ids = [one.grant.id for one in ours if not unstaged(root)]",
        (COMMITS + "test_seed002_fr8_a_dirty_main_stays_a_dirty_main",),
    ),
    # The states of a file
    Mutant(
        "002-23",
        "a file comes from Contended to Blocked without a retry",
        "gate/leases.py",
        "            if circle or waiter is None:\n                return self._denied(record, conflicts)\n",
        "            if circle or waiter is None:\n                return self._block(record, conflicts)\n",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a file comes from Blocked to Owned though nobody told the agent to go on",
        "gate/leases.py",
        "        blocked = [event for event in notes if event.type == BLOCKED]\n",
        '        blocked = [event for event in notes if event.type == "blocked"]\n',
        (
            GATE + "test_seed002_a_file_has_exactly_the_promised_states_and_ways_between_them",
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a file never comes out of Blocked by hand",
        "gate/door.py",
        "        elif event == PROMPT:\n            gate.prompt()\n",
        "",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a retry that fails leaves the file in RetryPending",
        "gate/leases.py",
        "        return self._block(record, outcome.conflicts)\n",
        "        return self._denied(record, outcome.conflicts)\n",
        (
            GATE + "test_seed002_a_file_has_exactly_the_promised_states_and_ways_between_them",
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a file stays in RetryPending when the retry has succeeded",
        "gate/leases.py",
        "            self._over(record, CONTENTION_OVER)\n            self._spread(kept)\n",
        "            self._spread(kept)\n",
        (
            GATE + "test_seed002_a_file_has_exactly_the_promised_states_and_ways_between_them",
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    # What was to be verified
    Mutant(
        "002-24",
        "the gate looks first and takes in a second step",
        "gate/leases.py",
        "            found = moving.ensure_each(view, wanted)\n"
        "            return Decision(found.outcome, found.events, found.wake, found.hint)\n\n"
        "        outcome = self._decide(at_once)\n",
        "            if is_free:\n"
        "                draft = rules.Draft(view)\n"
        "                return draft.done([draft.admit(one, ticket=False) for one in wanted])\n"
        "            found = moving.ensure_each(view, wanted)\n"
        "            return Decision(found.outcome, found.events, found.wake, found.hint)\n\n"
        "        is_free = not any(services.conflicts_of(self._manager, one) for one in wanted)\n"
        "        outcome = self._decide(at_once)\n",
        (HOOK + "test_seed002_24_also_if_all_have_looked_before_any_of_them_takes_it",),
    ),
    Mutant(
        "002-24",
        "only readers keep a writer out",
        "core/conflicts.py",
        "            return [place for place in places if modes[place] != READ]\n        return places\n",
        "            return [place for place in places if modes[place] != READ]\n        return []\n",
        (HOOK + "test_seed002_24_of_agents_that_ask_at_the_same_moment_one_may_change_the_file",),
    ),
    Mutant(
        "002-25",
        "contention leaves no heartbeat",
        "gate/leases.py",
        "            return moving.note(view, HEARTBEAT, data, name=name)\n",
        "            return moving.note(view, CONTENTION_OVER, data, name=name)\n",
        (
            GATE
            + "test_seed002_verification_2_contention_writes_a_heartbeat_and_plans_a_retry_at_180",
            HOOK + "test_seed002_25_through_the_hook_contention_is_a_heartbeat_and_a_retry_at_180",
        ),
    ),
    Mutant(
        "002-25",
        "the retry comes a second late",
        "gate/leases.py",
        "        retry = round(self._settings.retry_seconds * SECOND)\n        first",
        "        retry = round(self._settings.retry_seconds * SECOND) + SECOND\n        first",
        (
            GATE
            + "test_seed002_verification_2_contention_writes_a_heartbeat_and_plans_a_retry_at_180",
            HOOK + "test_seed002_25_through_the_hook_contention_is_a_heartbeat_and_a_retry_at_180",
        ),
    ),
    Mutant(
        "002-26",
        "a retry that fails begins a new contention",
        "gate/leases.py",
        "        if kept is not None:  # ours now, but",
        "        if not kept:  # ours now, but",
        (
            GATE
            + "test_seed002_verification_3_still_blocked_at_the_retry_is_a_hard_stop_with_a_report",
            HOOK
            + "test_seed002_26_through_the_hook_still_blocked_at_the_retry_is_a_hard_stop_with_a_report",
        ),
    ),
    Mutant(
        "002-26",
        "a hard stop has no report",
        "gate/leases.py",
        '            self._manager, BLOCKED, {"agent": self.holder.id, "report": report},\n',
        '            self._manager, BLOCKED, {"agent": self.holder.id, "report": {}},\n',
        (
            HOOK
            + "test_seed002_26_through_the_hook_still_blocked_at_the_retry_is_a_hard_stop_with_a_report",
        ),
    ),
    Mutant(
        "002-26",
        "the answer of a hard stop has no report",
        "gate/leases.py",
        "        self.stop(background=False)\n        return Answer(HALT, telling.blocked(report), user=telling.blocked(report), report=report)\n",
        "        self.stop(background=False)\n        return Answer(HALT, telling.blocked(report), user=telling.blocked(report))\n",
        (
            GATE
            + "test_seed002_verification_3_still_blocked_at_the_retry_is_a_hard_stop_with_a_report",
        ),
    ),
    Mutant(
        "002-27",
        "the next contender finds the dead owner's lease",
        "core/conflicts.py",
        "    if draft.is_dead(grant.holder.witness, grant.holder.marks):\n        return OWNER_DEAD",
        "    if draft.is_dead(grant.holder.witness) and grant.holder.marks:\n        return OWNER_DEAD",
        (CORE + "test_seed002_08_a_dead_owners_lease_is_reclaimable_at_once",),
    ),
    Mutant(
        "002-27",
        "one that stands in line for a dead owner's file does not get it",
        "core/conflicts.py",
        "        if why and not steal_only(grant):\n            draft.end",
        "        if why and not grant.reason and not steal_only(grant):\n            draft.end",
        (HOOK + "test_seed002_27_through_the_hook_a_dead_owners_file_goes_to_the_next_contender",),
    ),
    Mutant(
        "002-28",
        "a stop is like any other event",
        "gate/clients/claude.py",
        '    "Stop": STOP,',
        '    "Stop": OTHER,',
        (HOOK + "test_seed002_28_through_the_hook_a_stop_and_30_idle_seconds_free_the_file",),
    ),
    Mutant(
        "002-28",
        "the client is not asked for stops",
        "gate/clients/claude.py",
        '    "Stop": None,\n',
        "",
        (HOOK + "test_seed002_28_through_the_hook_a_stop_and_30_idle_seconds_free_the_file",),
    ),
    Mutant(
        "002-28",
        "a stop is noted, and the leases have no end",
        "gate/leases.py",
        "        services.rest(self._manager, self.holder, length, self._deadline)\n",
        "",
        (HOOK + "test_seed002_28_through_the_hook_a_stop_and_30_idle_seconds_free_the_file",),
    ),
    Mutant(
        "002-29",
        "after a commit the rest is staged",
        "gate/gitfiles.py",
        '    """The paths that the last commit changed; of a merge, what it changed on this branch."""\n'
        "    env = inside()\n",
        '    """The paths that the last commit changed; of a merge, what it changed on this branch."""\n'
        "    env = inside()\n"
        '    git(repo, "add", "--all", env=env)\n',
        (COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",),
    ),
]
