"""File leases of living owners: a mutant for every promise of 002."""

from __future__ import annotations

from mutants.table import Mutant

ABROAD = "tests/gate/test_guard_abroad.py::"
COMMANDS = "tests/commands/test_agent_commands.py::"
COMMITS = "tests/install/test_committing.py::"
CORE = "tests/core/test_seed_002.py::"
DOOR = "tests/gate/test_gate_door.py::"
GUARD = "tests/gate/test_guard.py::"
PENDING = "tests/gate/test_gate_pending.py::"
WORKTREES = "tests/gate/test_gate_worktrees.py::"
HOOK = "tests/gate/test_seed_002_hook.py::"
LEDGERS = "tests/gate/test_gate_ledgers.py::"
LIFE = "tests/core/test_rules_liveness.py::"
WORDS = "tests/gate/test_gate_words.py::"

MUTANTS: list[Mutant] = [
    # The lease comes before the write
    Mutant(
        "002-01",
        "the hook takes no lease",
        "gate/door/ledger_answer.py",
        "or _permitted(paths, manager, gate)\n",
        "or Answer(ALLOW)\n",
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "an agent's command leaves no slip",
        "gate/commands/hook_answers.py",
        "        slips.leave(self.folder, slip, intent.command)\n",
        "        pass\n",
        (COMMANDS + "test_seed002_01_what_a_program_writes_is_leased_to_its_agent",),
    ),
    Mutant(
        "002-01",
        "a refusal of the gate does not keep a program from its write",
        "gate/broker/leasing/agent_leases.py",
        "        if not isinstance(outcome, Leased):\n            self._deny",
        "        if not isinstance(outcome, Leased):\n            return []\n            self._deny",
        (COMMANDS + "test_seed002_01_a_program_cannot_write_what_another_agent_holds",),
    ),
    Mutant(
        "002-01",
        "one of the editing tools is unknown",
        "gate/clients/claude.py",
        '    "NotebookEdit": "notebook_path",\n',
        "",
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "the hook is registered for two of the editing tools only",
        "gate/clients/claude.py",
        '_TOOLS = "|".join((*_FILES, *_SHELLS))',
        '_TOOLS = "|".join(("Write", "Edit", *_SHELLS))',
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "the target of a patch that moves a file is not leased",
        "gate/clients/patch_files.py",
        "                path = lines[at][len(MOVE) :].rstrip(BLANKS)\n",
        "",
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "a refused request for several files leases the free ones",
        "core/bulk_rules.py",
        "    if conflicts:\n        return conflicts\n    return [\n        grant or",
        "    if conflicts:\n"
        "        for one in missing:\n"
        "            if not in_the_way(draft, one):\n"
        "                draft.admit(one, ticket=False)\n"
        "        return conflicts\n"
        "    return [\n"
        "        grant or",
        (HOOK + "test_seed002_01_of_several_files_the_hook_leases_all_or_none",),
    ),
    Mutant(
        "002-01",
        "the gate's leases are not recorded",
        "gate/lease_gate.py",
        "            outcome = transactions.decide(self.manager, rule, end)\n",
        "            outcome = transactions.look(self.manager, rule, end).outcome\n",
        (HOOK + "test_seed002_01_the_hook_takes_a_lease_before_every_edit",),
    ),
    Mutant(
        "002-01",
        "a command's plain writes are not leased",
        "gate/guard/before_command.py",
        "    return gate.permit([*wanted, *below]) if wanted or below else gate.live_on()",
        "    return gate.permit(below) if below else gate.live_on()",
        (HOOK + "test_seed002_01_a_command_that_plainly_writes_takes_a_lease_too",),
    ),
    Mutant(
        "002-02",
        "each call of the hook is an agent of its own",
        "gate/agents.py",
        "    key = agent_key(client, session, agent)\n",
        "    key = agent_key(client, session, agent or str(os.getpid()))\n",
        (HOOK + "test_seed002_02_edits_pass_without_a_word_and_without_a_command",),
    ),
    Mutant(
        "002-02",
        "an agent's existing lease is not found",
        "core/bulk_rules.py",
        "            and grant.holder.key == request.holder.key\n            and covers",
        "            and grant.holder.id == request.id\n            and covers",
        (HOOK + "test_seed002_02_edits_pass_without_a_word_and_without_a_command",),
    ),
    Mutant(
        "002-02",
        "every edit reports its lock to the agent",
        "gate/lease_gate.py",
        "            told = self.told(outcome.came, outcome.lapsed, mine)\n",
        '            told = f"Locked {mine}: run holdfast unlock when you are done."\n',
        (
            DOOR + "test_an_edit_of_a_free_file_passes_without_a_word",
            HOOK + "test_seed002_02_edits_pass_without_a_word_and_without_a_command",
        ),
    ),
    Mutant(
        "002-03",
        "the same file in two checkouts counts as one",
        "manager/files/paths.py",
        '            inner = f"{os.path.relpath(checkout, self.root)}{real[inside:]}"\n',
        "            inner = real[inside + 1 :]\n",
        (WORKTREES + "test_seed002_03_the_same_file_in_two_worktrees_is_no_conflict_and_is_told",),
    ),
    Mutant(
        "002-04",
        "a commit frees a file that an edit tool is about to write",
        "gate/rulebook/event_decisions.py",
        "        if grant is not None and not is_writing(grant.holder.key, grant.keys):\n",
        "        if grant is not None:\n",
        (PENDING + "test_seed002_04_a_commit_leaves_what_a_sub_agent_is_about_to_write",),
    ),
    Mutant(
        "002-04",
        "a sub-agent gets a file that its parent is about to write",
        "gate/rulebook/handover.py",
        "    if any(life.asker.is_writing(one.holder.key, one.keys) for one in grants.values()):\n        return False\n",
        "",
        (
            PENDING
            + "test_seed002_04_what_an_agent_is_about_to_write_does_not_go_down_to_its_sub_agent",
        ),
    ),
    Mutant(
        "002-03",
        "a link and its target count as different files",
        "manager/files/paths.py",
        "        return self.place_of(given, *realpath.resolve(full, given))\n",
        "        _real, status, known = realpath.resolve(full, given)\n"
        "        return self.place_of(given, os.path.normpath(full), status, known)\n",
        (CORE + "test_seed002_03_the_key_is_the_normalised_path_below_the_repository",),
    ),
    Mutant(
        "002-03",
        "the ledger is opened in the folder where the command runs",
        "manager/manager.py",
        "            return cls.at(home_root(realpath.absolute(place)))\n",
        "            return cls.at(realpath.absolute(place))\n",
        (CORE + "test_seed002_03_it_does_not_depend_on_where_the_command_runs",),
    ),
    Mutant(
        "002-03",
        "the ledger of the agent's working folder is used for unrelated files",
        "gate/door/client_events.py",
        "        root = root_above(resolved[0])\n",
        "        root = root_above(cwd or os.getcwd())\n",
        (HOOK + "test_seed002_03_the_ledger_is_the_one_above_the_file_wherever_the_agent_is",),
    ),
    Mutant(
        "002-03",
        "the settings of an unrelated folder apply",
        "gate/door/ledger_answer.py",
        "    settings = Settings.load(root, lenient=True)",
        "    settings = Settings.load(os.getcwd(), lenient=True)",
        (HOOK + "test_seed002_03_the_settings_are_those_of_the_files_repository",),
    ),
    # One owner, as long as it lives
    Mutant(
        "002-04",
        "a held file is granted again unless a request waits for it",
        "core/rules.py",
        "    if view.grace_over or not view.is_free(*reach(checked_keys(request))):",
        "    if view.grace_over and not view.is_free(*reach(checked_keys(request))):",
        (CORE + "test_seed002_04_at_most_one_live_owner_has_a_file",),
    ),
    Mutant(
        "002-04",
        "the agents of a session are one owner",
        "gate/agents.py",
        "    key = agent_key(client, session, agent)\n",
        "    key = agent_key(client, session)\n",
        (HOOK + "test_seed002_04_two_agents_of_one_session_are_two_owners",),
    ),
    Mutant(
        "002-05",
        "after a day no agent is denied",
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
        "manager/transactions.py",
        "    return Request(new_id(), holder, keys, modes, paths, silent, None, reason, stamp=stamp)\n",
        "    hour = 3_600_000_000\n"
        "    return Request(new_id(), holder, keys, modes, paths, silent, hour, reason, stamp=stamp)\n",
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
        "002-05",
        "after a refusal all leases have an end",
        "gate/rulebook/lease_limits.py",
        "            and draft.is_dead(grant.holder.witness, grant.holder.marks) is None\n",
        "            and not draft.is_dead(grant.holder.witness, grant.holder.marks)\n",
        (HOOK + "test_seed002_05_however_long_ago_it_began",),
    ),
    Mutant(
        "002-06",
        "an owner without an end to its lease never counts as dead",
        "core/conflicts.py",
        "    if draft.is_dead(grant.holder.witness, grant.holder.marks):\n"
        "        return OWNER_DEAD",
        "    if grant.ttl is not None and draft.is_dead(grant.holder.witness, grant.holder.marks):\n"
        "        return OWNER_DEAD",
        (
            CORE + "test_seed002_06_non_live_owners_keep_nothing",
            HOOK + "test_seed002_06_a_client_that_is_gone_keeps_no_file",
        ),
    ),
    Mutant(
        "002-06",
        "the life of the client's parent process counts",
        "gate/agents.py",
        "    if intent.pid:\n        named = witness_of(intent.pid)",
        "    if os.getppid() != intent.pid:\n        named = witness_of(os.getppid())",
        (HOOK + "test_seed002_06_a_client_that_is_gone_keeps_no_file",),
    ),
    Mutant(
        "002-06",
        "the list of active grants includes those of dead owners",
        "manager/all_grants.py",
        "if isinstance(grant, Grant) and rules.is_live(view, grant) == live",
        "if isinstance(grant, Grant)",
        (CORE + "test_seed002_06_non_live_owners_keep_nothing",),
    ),
    Mutant(
        "002-06",
        "reaping spares the dead",
        "core/rules.py",
        "        if grant is not None and why and not steal_only(grant):\n"
        "            endings.append",
        "        if grant is not None and why == EXPIRED and not steal_only(grant):\n"
        "            endings.append",
        (CORE + "test_seed002_06_non_live_owners_keep_nothing",),
    ),
    Mutant(
        "002-06",
        "a place in line outlives the client",
        "gate/lease_gate.py",
        "        if self._client_is_gone():\n",
        "        if not self.holder.key:\n",
        (HOOK + "test_seed002_06_a_hook_that_waits_ends_with_its_client_and_leaves_the_line",),
    ),
    Mutant(
        "002-06",
        "a hook that ends with its client stays in line",
        "gate/rulebook/event_decisions.py",
        '    life.leave_lines("client gone")\n',
        "",
        (HOOK + "test_seed002_06_a_hook_that_waits_ends_with_its_client_and_leaves_the_line",),
    ),
    Mutant(
        "002-06",
        "a lease whose owner cannot be judged never ends",
        "gate/rulebook/contention.py",
        "    _limit(life, found)\n",
        "",
        (HOOK + "test_seed002_06_an_owner_that_nobody_can_judge_keeps_a_file_for_half_an_hour",),
    ),
    Mutant(
        "002-06",
        "the events of such an owner do not postpone its end",
        "gate/rulebook/agent_life.py",
        "        if self.known.limit is not None or self.draft.view.lease is not None:\n"
        "            from holdfast.gate.rulebook import lease_limits\n"
        "\n"
        "            lease_limits.renew(self)\n",
        "",
        (HOOK + "test_seed002_06_as_long_as_it_is_heard_of_it_keeps_it",),
    ),
    Mutant(
        "002-06",
        "any process that a client started keeps its files leased",
        "manager/owners/running_calls.py",
        '        since = _opened(f"{root}/{FOLDER}/{agent}") if agent else 0\n',
        "        since = 0\n",
        (HOOK + "test_seed002_06_what_a_client_left_in_the_background_keeps_nothing",),
    ),
    Mutant(
        "002-06",
        "a call stays open after its command has returned",
        "gate/door/ledger_answer.py",
        "    else:\n        running_calls.close_call(root, key, name)\n    is_line",
        "    is_line",
        (HOOK + "test_seed002_06_what_a_client_left_in_the_background_keeps_nothing",),
    ),
    Mutant(
        "002-06",
        "a command that still runs keeps nothing",
        "gate/door/ledger_answer.py",
        "        running_calls.open_call(root, key, name)\n",
        "        pass\n",
        (HOOK + "test_seed002_06_a_command_whose_call_is_open_keeps_the_files_until_it_ends",),
    ),
    Mutant(
        "002-07",
        "an owner found alive once is not checked again",
        "manager/owners/liveness.py",
        "        if watch.lives():\n            return True\n    except RuntimeError:",
        "        return True\n    except RuntimeError:",
        (HOOK + "test_seed002_07_the_hook_looks_for_the_owner_before_each_refusal",),
    ),
    Mutant(
        "002-07",
        "an owner's life is not checked again in the next decision",
        "core/draft.py",
        "        self._dead: dict[tuple[Witness, tuple[str, ...]], bool | None] = {}\n",
        '        self._dead = globals().setdefault("_dead", {})\n',
        (CORE + "test_seed002_07_liveness_is_checked_again_before_every_denial",),
    ),
    Mutant(
        "002-07",
        "before a denial only the lease's end is checked",
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
        "    if draft.is_dead(grant.holder.witness, grant.holder.marks):\n"
        "        return OWNER_DEAD",
        "    rested = draft.now - grant.acquired_at >= 30_000_000\n"
        "    if rested and draft.is_dead(grant.holder.witness, grant.holder.marks):\n"
        "        return OWNER_DEAD",
        (
            CORE + "test_seed002_08_a_dead_owners_lease_is_reclaimable_immediately",
            CORE + "test_seed002_08_also_of_a_real_process_that_was_killed",
            HOOK + "test_seed002_08_the_next_edit_has_a_dead_owners_file_at_once",
        ),
    ),
    Mutant(
        "002-08",
        "the files of a killed agent stay held while its pid exists",
        "manager/owners/liveness.py",
        '    return fields[STATE] in b"ZXx" and int(fields[THREADS]) <= 1',
        "    return False",
        (HOOK + "test_seed002_08_a_client_that_was_killed_and_not_waited_for_is_dead_too",),
    ),
    # Heartbeat, and one retry
    Mutant(
        "002-09",
        "a refusal leaves no heartbeat",
        "gate/rulebook/agent_records.py",
        'HEARTBEAT = "contention_heartbeat"',
        'HEARTBEAT = "contention"',
        (HOOK + "test_seed002_09_an_edit_that_is_refused_leaves_a_heartbeat",),
    ),
    Mutant(
        "002-09",
        "the heartbeat names the refused agent as the owner",
        "gate/rulebook/contention.py",
        "        owner=first.holder,\n",
        "        owner=life.holder.id,\n",
        (HOOK + "test_seed002_09_an_edit_that_is_refused_leaves_a_heartbeat",),
    ),
    Mutant(
        "002-10",
        "the retry comes after two minutes",
        "gate/config/settings.py",
        "        retry_seconds: float = 180,",
        "        retry_seconds: float = 120,",
        (
            HOOK + "test_seed002_10_its_retry_is_exactly_180_seconds_later",
            HOOK + "test_seed002_10_a_stop_that_is_held_tries_again_at_that_moment_and_not_before",
        ),
    ),
    Mutant(
        "002-10",
        "the retry is scheduled for the end of the hand-over",
        "gate/rulebook/contention.py",
        "        retry_at=life.now + asker.retry,\n",
        "        retry_at=life.now + asker.retry + KEPT,\n",
        (
            HOOK + "test_seed002_10_its_retry_is_exactly_180_seconds_later",
            HOOK + "test_seed002_10_a_stop_that_is_held_tries_again_at_that_moment_and_not_before",
        ),
    ),
    Mutant(
        "002-10",
        "a held stop that is woken early retries early",
        "gate/rulebook/contention.py",
        "        if life.now >= wait.retry_at:\n            halted = retry(life, wait, stops=stops)\n",
        "        if life.now > wait.denied_at:\n            halted = retry(life, wait, stops=stops)\n",
        (HOOK + "test_seed002_10_a_stop_that_is_held_tries_again_at_that_moment_and_not_before",),
    ),
    Mutant(
        "002-10",
        "the hook is never held open",
        "gate/door/ledger_answer.py",
        "        pause=call.pause,\n",
        "",
        (
            HOOK + "test_seed002_10_a_refused_call_is_held_open_for_20_seconds_and_no_longer",
            HOOK + "test_seed002_10_a_stop_that_is_held_tries_again_at_that_moment_and_not_before",
        ),
    ),
    Mutant(
        "002-10",
        "a refused call is held until the retry",
        "gate/lease_gate.py",
        "min(self.hold_seconds, self._settings.hold_seconds) * SECOND",
        "min(self.hold_seconds, self._settings.retry_seconds) * SECOND",
        (HOOK + "test_seed002_10_a_refused_call_is_held_open_for_20_seconds_and_no_longer",),
    ),
    Mutant(
        "002-10",
        "the 180 seconds count from the end of the hold",
        "gate/rulebook/contention.py",
        "        if wait.id == id:\n"
        "            answer = again(life, wait, wanted)\n"
        "            if answer is not None:\n",
        "        if wait.id == id:\n"
        "            answer = again(life, wait, wanted)\n"
        "            if isinstance(answer, Denied):\n"
        "                later = wait.but(retry_at=life.now + life.asker.retry)\n"
        "                later.write(life.draft, agent_records.HEARTBEAT)\n"
        "                return _denied(life, later, answer.conflicts)\n"
        "            if answer is not None:\n",
        (HOOK + "test_seed002_10_a_refused_call_is_held_open_for_20_seconds_and_no_longer",),
    ),
    Mutant(
        "002-10",
        "a stop is held no longer than a call",
        "gate/rulebook/agent_stop.py",
        "        return _hold(life, waits, seen, life.now + hold)\n",
        "        return _hold(life, waits, seen, life.now + min(hold, 20_000_000))\n",
        (HOOK + "test_seed002_10_a_stop_that_is_held_tries_again_at_that_moment_and_not_before",),
    ),
    Mutant(
        "002-11",
        "every attempt is a retry",
        "gate/rulebook/contention.py",
        "    if life.now >= wait.retry_at:\n        halted = retry(life, wait)\n",
        "    if life.now >= wait.denied_at:\n        halted = retry(life, wait)\n",
        (
            HOOK + "test_seed002_11_an_edit_before_the_retry_is_not_tried",
            HOOK + "test_seed002_11_nor_is_one_of_a_file_that_is_free_if_nothing_is_handed_over",
        ),
    ),
    Mutant(
        "002-11",
        "every attempt is a contention of its own",
        "gate/rulebook/contention.py",
        "        if not keys.isdisjoint(wait.keys):\n            answer = again",
        "        if not keys.isdisjoint(wait.owner_key):\n            answer = again",
        (HOOK + "test_seed002_11_an_edit_before_the_retry_is_not_tried",),
    ),
    Mutant(
        "002-11",
        "the retry is made a moment early",
        "gate/rulebook/contention.py",
        "    if life.now >= wait.retry_at:\n        halted = retry(life, wait)\n",
        "    if life.now >= wait.retry_at - 1:\n        halted = retry(life, wait)\n",
        (HOOK + "test_seed002_11_an_edit_before_the_retry_is_not_tried",),
    ),
    Mutant(
        "002-11",
        "without hand-overs a file that came free is granted before the retry",
        "gate/rulebook/contention.py",
        "    if life.asker.wake:\n        if not conflicts:  # it came",
        "    if life.asker.wake or not conflicts:\n        if not conflicts:  # it came",
        (HOOK + "test_seed002_11_nor_is_one_of_a_file_that_is_free_if_nothing_is_handed_over",),
    ),
    Mutant(
        "002-12",
        "a retry that succeeds is answered like one that is too early",
        "gate/rulebook/contention.py",
        "            life.rest()\n        return halted\n",
        "            life.rest()\n        return halted or _denied(life, wait, ())\n",
        (HOOK + "test_seed002_12_the_edit_goes_on_when_the_retry_succeeds",),
    ),
    Mutant(
        "002-12",
        "a lease that was handed over ends with the hand-over, even if used",
        "gate/rulebook/handover.py",
        "            heirs.append(heir.but(stamp=stamps[path]))\n",
        "            heirs.append(heir.but(stamp=stamps[path], ttl=grant.ttl))\n",
        (
            HOOK + "test_seed002_12_the_edit_goes_on_when_the_retry_succeeds",
            HOOK + "test_seed002_12_a_held_edit_goes_on_when_its_file_comes_free",
            HOOK + "test_seed002_12_a_stop_that_is_held_goes_on_when_the_file_comes_free",
        ),
    ),
    Mutant(
        "002-12",
        "messages are lost at calls that cannot carry any",
        "gate/clients/__init__.py",
        '    hook = intent.hook if intent.hook in tells else ""\n',
        '    hook = intent.hook if intent.hook in tells and intent.event != "agent_call" else ""\n',
        (WORDS + "test_seed002_12_that_a_file_came_free_is_heard_with_this_event_or_the_next",),
    ),
    Mutant(
        "002-12",
        "a stop that cannot carry messages counts as delivery",
        "gate/rulebook/agent_stop.py",
        "    life.hears, life.goes_on = False, may_go_on\n",
        "    life.hears, life.goes_on = True, may_go_on\n",
        (
            WORDS + "test_seed002_12_that_a_file_came_free_is_heard_with_this_event_or_the_next",
            WORDS + "test_seed002_12_that_it_is_not_the_agents_any_more_is_heard_too",
        ),
    ),
    Mutant(
        "002-12",
        "a refusal drops the other messages",
        "gate/lease_gate.py",
        "            context=self.told(denied.came, denied.lapsed, set(denied.wait.blocked)),\n",
        "            context=self.told(denied.came, (), set(denied.wait.blocked)),\n",
        (WORDS + "test_seed002_12_one_that_is_refused_something_else_hears_it_beside_the_refusal",),
    ),
    Mutant(
        "002-12",
        "a hand-over is not noticed",
        "gate/rulebook/handover.py",
        "            if not is_handed and (life.hears",
        "            if is_handed and (life.hears",
        (
            HOOK + "test_seed002_12_what_came_free_is_told_with_the_next_event_and_is_not_retried",
            HOOK + "test_seed002_12_a_stop_that_is_held_goes_on_when_the_file_comes_free",
        ),
    ),
    Mutant(
        "002-12",
        "an earlier event does not cancel the retry",
        "gate/rulebook/contention.py",
        "            handover.over(life, wait, file_states.HANDED_OVER)\n            return None\n",
        "            return None\n",
        (HOOK + "test_seed002_12_what_came_free_while_an_agent_rested_is_had_with_its_next_edit",),
    ),
    Mutant(
        "002-12",
        "a wait is remembered when it is over",
        "gate/rulebook/handover.py",
        "                life.draft.end(grant, events.LOCK_RELEASED)\n"
        "            life.forget(wait)\n"
        "            continue\n",
        "                life.draft.end(grant, events.LOCK_RELEASED)\n            continue\n",
        (HOOK + "test_seed002_12_what_came_free_is_told_with_the_next_event_and_is_not_retried",),
    ),
    Mutant(
        "002-12",
        "a call that is held open does not notice that its file came free",
        "gate/lease_gate.py",
        "            outcome = self.a_moment_later(follower, min(left / SECOND, LOOK_SECONDS), rule)\n",
        "            self._pause(LOOK_SECONDS, follower)\n",
        (HOOK + "test_seed002_12_a_held_edit_goes_on_when_its_file_comes_free",),
    ),
    Mutant(
        "002-12",
        "an agent whose file came free stops nevertheless",
        "gate/rulebook/agent_stop.py",
        "    if life.came:\n        return _go_on(life, seen)\n    if is_over",
        "    if is_over",
        (
            HOOK + "test_seed002_12_a_stop_that_is_held_goes_on_when_the_file_comes_free",
            HOOK + "test_seed002_12_the_stop_of_a_session_or_of_a_sub_agent",
        ),
    ),
    Mutant(
        "002-12",
        "a sub-agent cannot be sent back to work",
        "gate/door/ledger_answer.py",
        "gate.end_agent(may_go_on=not (intent.is_repeated or intent.tool))",
        "gate.end_agent(may_go_on=False)",
        (HOOK + "test_seed002_12_the_stop_of_a_session_or_of_a_sub_agent",),
    ),
    Mutant(
        "002-12",
        "the timer keeps running for an agent that goes on",
        "gate/rulebook/agent_stop.py",
        "    handover.claim(life, seen.waited)\n    life.wake_up()\n    return passed\n",
        "    handover.claim(life, seen.waited)\n    return passed\n",
        (HOOK + "test_seed002_12_a_stop_that_is_held_goes_on_when_the_file_comes_free",),
    ),
    Mutant(
        "002-12",
        "the answer to the client has a word that it does not know",
        "gate/clients/__init__.py",
        '    said = {"decision": "block", "reason": reason_of(answer)}',
        '    said = {"decision": "continue", "reason": reason_of(answer)}',
        (HOOK + "test_seed002_12_a_stop_that_is_held_goes_on_when_the_file_comes_free",),
    ),
    Mutant(
        "002-12",
        "a hand-over never lapses",
        "gate/rulebook/contention.py",
        '        ttl=_kept(life), reason=FOR_NEXT_EDIT, patience=0, stamp=""\n',
        "        ttl=None if asker.wake else _kept(life),\n"
        '        reason=FOR_NEXT_EDIT, patience=0, stamp="",\n',
        (HOOK + "test_seed002_12_what_came_free_and_is_not_used_lapses_after_30_seconds",),
    ),
    Mutant(
        "002-13",
        "a retry that fails is a refusal like others",
        "gate/lease_gate.py",
        "        return Answer(HALT, told, user=told, context=",
        "        return Answer(DENY, told, user=told, context=",
        (HOOK + "test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks",),
    ),
    Mutant(
        "002-13",
        "a blocked agent may edit other files",
        "gate/rulebook/agent_life.py",
        "        if halted is not None:\n            return halted\n        wanted = [",
        '        if halted and halted.block.report["blocked_file"] in wanted[0].paths:\n'
        "            return halted\n"
        "        wanted = [",
        (
            HOOK + "test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks",
            HOOK + "test_seed002_13_a_retry_that_fails_at_a_stop_stops_the_agent_too",
        ),
    ),
    Mutant(
        "002-13",
        "a blocked agent may start others",
        "gate/rulebook/event_decisions.py",
        "    if halted is not None:\n        return life.done(halted)\n",
        "",
        (HOOK + "test_seed002_13_a_blocked_agent_starts_no_other",),
    ),
    Mutant(
        "002-13",
        "the client ignores that a blocked agent may not start others",
        "gate/clients/codex.py",
        "intent.event not in (EDIT, SHELL, AGENT_CALL, OTHER)",
        "intent.event not in (EDIT, SHELL, OTHER)",
        (HOOK + "test_seed002_13_a_blocked_agent_starts_no_other",),
    ),
    Mutant(
        "002-13",
        "a blocked agent writes through others that it starts",
        "gate/rulebook/agent_family.py",
        "            if block.at <= since:\n",
        "            if since <= 0:\n",
        (HOOK + "test_seed002_13_nobody_writes_in_the_place_of_a_blocked_agent",),
    ),
    Mutant(
        "002-13",
        "blocking an agent blocks all agents that it started before",
        "gate/rulebook/agent_family.py",
        "            if block.at <= since:\n",
        "            if since:\n",
        (HOOK + "test_seed002_13_nobody_writes_in_the_place_of_a_blocked_agent",),
    ),
    Mutant(
        "002-13",
        "a blocked agent may write in other repositories",
        "gate/door/client_events.py",
        "            places.update({root: {} for root in other_ledgers.blocked(intent, call.home, places)})\n",
        "",
        (
            ABROAD + "test_seed002_13_an_agent_that_is_blocked_at_home_writes_nowhere",
            ABROAD + "test_seed002_13_an_agent_that_is_blocked_elsewhere_writes_nothing_at_home",
        ),
    ),
    Mutant(
        "002-13",
        "an agent that is blocked in another repository runs any command at home",
        "gate/guard/other_ledgers.py",
        "            roots.update(dict.fromkeys(_where_blocked(intent, base, roots)))\n",
        "",
        (ABROAD + "test_seed002_13_an_agent_that_is_blocked_elsewhere_writes_nothing_at_home",),
    ),
    Mutant(
        "002-13",
        "a blocked agent may write outside by a command",
        "gate/shell/line_writes.py",
        "not (self.writes or self.trees or self.unsure or self.alters or self.problem)",
        "not (self.trees or self.unsure or self.alters or self.problem)",
        (GUARD + "test_seed002_13_through_the_hooks_a_blocked_agent_runs_only_what_reads",),
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
        "a notice of the client counts as a prompt of the user",
        "gate/clients/claude.py",
        "    if event == PROMPT and not _is_typed(told, data):\n",
        "    if event == PROMPT and told.agent:\n",
        (HOOK + "test_seed002_13_a_retry_that_fails_stops_the_agent_until_its_user_speaks",),
    ),
    Mutant(
        "002-13",
        "a blocked agent runs any command",
        "gate/guard/before_command.py",
        "        _blocked(gate, reading, sight)\n        or _switching_off",
        "        _switching_off",
        (HOOK + "test_seed002_13_a_blocked_agent_runs_no_command_that_may_write",),
    ),
    Mutant(
        "002-13",
        "a blocked agent runs every command that is not known to write",
        "gate/shell/line_writes.py",
        "not (self.writes or self.trees or self.unsure or self.alters or self.problem)",
        "not (self.writes or self.trees or self.alters or self.problem)",
        (
            GUARD + "test_seed002_13_through_the_hooks_a_blocked_agent_runs_only_what_reads",
            HOOK + "test_seed002_13_a_blocked_agent_runs_no_command_that_may_write",
        ),
    ),
    Mutant(
        "002-13",
        "a blocked agent runs any command through holdfast itself",
        "gate/guard/before_command.py",
        "        if not only_looks(intent.command):\n            return halted",
        "        if only_looks(intent.command):\n            return halted",
        (
            HOOK + "test_seed002_13_a_blocked_agent_runs_no_command_that_may_write",
            HOOK + "test_seed002_13_a_blocked_agent_may_run_what_is_proven_to_only_read",
        ),
    ),
    Mutant(
        "002-13",
        "a blocked agent may not even read",
        "gate/guard/before_command.py",
        "sight.blocked is None or reading.only_reads",
        "sight.blocked is None",
        (HOOK + "test_seed002_13_a_blocked_agent_may_run_what_is_proven_to_only_read",),
    ),
    Mutant(
        "002-13",
        "a held stop ends without the retry",
        "gate/rulebook/agent_stop.py",
        "    halted = contention.retry_what_is_due(life)\n"
        "    if halted is not None:\n"
        "        return _stopped(life, seen, ends=ends, halted=halted)\n"
        "    if life.came:\n",
        "    if life.came:\n",
        (HOOK + "test_seed002_13_a_retry_that_fails_at_a_stop_stops_the_agent_too",),
    ),
    Mutant(
        "002-13",
        "a new prompt does not end a held stop",
        "gate/rulebook/agent_life.py",
        "not (is_tail and rest is not None and rest.held_until)",
        "not (rest is not None and rest.held_until)",
        (HOOK + "test_seed002_13_a_new_prompt_ends_a_stop_that_is_held",),
    ),
    Mutant(
        "002-14",
        "the user is not told which file it is",
        "gate/rulebook/agent_messages.py",
        '        f"holdfast: {agent} may not write {listed(wait.blocked)} now: {owner} has held it for "',
        '        f"holdfast: {agent} may not write now: {owner} has held it for "',
        (HOOK + "test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done",),
    ),
    Mutant(
        "002-14",
        "the user is not told of a refusal",
        "gate/clients/__init__.py",
        "        **more,\n    }\n    if user:\n",
        "        **more,\n    }\n    if user and more:\n",
        (HOOK + "test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done",),
    ),
    Mutant(
        "002-14",
        "the blocking of an agent is not recorded",
        "gate/rulebook/agent_records.py",
        'BLOCKED = "agent_blocked"',
        'BLOCKED = "contention_over"',
        (HOOK + "test_seed002_14_agent_and_user_hear_of_every_edit_that_is_not_done",),
    ),
    Mutant(
        "002-14",
        "the missing file of a stopped agent is not reported",
        "gate/held_stops.py",
        "        user = agent_messages.not_done(outcome.holder.id, outcome.left, outcome.given_back)\n",
        '        user = ""\n',
        (HOOK + "test_seed002_14_the_user_hears_of_what_an_agent_stopped_without",),
    ),
    Mutant(
        "002-14",
        "a session that ended blocked reports success",
        "gate/lease_gate.py",
        "        if not blocks:\n            return Answer(QUIET)\n        from",
        "        if blocks is not None:\n            return Answer(QUIET)\n        from",
        (HOOK + "test_seed002_14_one_that_nobody_sits_before_says_that_it_ended_blocked",),
    ),
    Mutant(
        "002-14",
        "an unattended client gets no exit code",
        "gate/clients/claude.py",
        '{plain(answer.user) or reason_of(answer)}\\n", code=1)\n',
        '{plain(answer.user) or reason_of(answer)}\\n")\n',
        (HOOK + "test_seed002_14_one_that_nobody_sits_before_says_that_it_ended_blocked",),
    ),
    Mutant(
        "002-14",
        "the record of a blocked agent ends with the agent",
        "gate/rulebook/agent_records.py",
        "    PRESENT: GONE,\n    LIMITED",
        "    PRESENT: GONE,\n    BLOCKED: RESUMED,\n    LIMITED",
        (HOOK + "test_seed002_14_one_that_nobody_sits_before_says_that_it_ended_blocked",),
    ),
    Mutant(
        "002-14",
        "every client counts as attended",
        "gate/clients/claude.py",
        '    return said != "0" if said else not env.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")',
        '    return said != "0"',
        (HOOK + "test_seed002_14_one_that_nobody_sits_before_says_that_it_ended_blocked",),
    ),
    # When leases end
    Mutant(
        "002-15",
        "files that are clean after a commit stay leased",
        "gate/git/commit_check.py",
        "    ids = [one.grant.id for one in ours if one.name not in changed]",
        "    ids = [one.grant.id for one in ours if one.name in changed]",
        (
            COMMITS + "test_seed002_fr6_1_a_successful_commit_releases_the_committed_files",
            HOOK + "test_seed002_15_a_commit_frees_what_was_committed_for_the_next_one",
        ),
    ),
    Mutant(
        "002-15",
        "only the commit of a merge releases",
        "gate/git/commit_check.py",
        "        if name != AFTER_MERGE or is_merging(root):",
        "        if is_merging(root):",
        (COMMITS + "test_seed002_fr6_1_a_successful_commit_releases_the_committed_files",),
    ),
    Mutant(
        "002-15",
        "git's hook after a commit is not installed",
        "gate/git/git_hooks.py",
        "HOOKS = (*CHECKS, *RELEASES, AFTER_CHECKOUT)",
        "HOOKS = CHECKS",
        (COMMITS + "test_seed002_fr6_1_a_successful_commit_releases_the_committed_files",),
    ),
    Mutant(
        "002-15",
        "a commit frees nothing",
        "gate/rulebook/event_decisions.py",
        "            draft.end(grant, events.LOCK_RELEASED)\n            ended.append(grant)\n",
        "            ended.append(grant)\n",
        (
            COMMITS + "test_seed002_fr6_1_a_successful_commit_releases_the_committed_files",
            HOOK + "test_seed002_15_a_commit_frees_what_was_committed_for_the_next_one",
        ),
    ),
    Mutant(
        "002-15",
        "a file that a commit frees is handed to no waiter",
        "gate/rulebook/event_decisions.py",
        "            ended.append(grant)\n    hand_over(draft)\n",
        "            ended.append(grant)\n    draft.freed.clear()\n",
        (HOOK + "test_seed002_15_a_commit_frees_what_was_committed_for_the_next_one",),
    ),
    Mutant(
        "002-16",
        "StopFailure frees nothing",
        "gate/door/ledger_answer.py",
        "    if event == FAILED and not intent.tool:\n"
        "        gate.fail()\n"
        "        return Answer(QUIET)\n",
        "",
        (
            HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",
            HOOK + "test_seed002_16_of_a_sub_agent_that_failed_hard_only_its_own",
            HOOK + "test_seed002_16_of_a_session_whose_own_agent_failed_hard_not_its_sub_agents",
        ),
    ),
    Mutant(
        "002-16",
        "a failure of the agent counts as one of a tool",
        "gate/door/ledger_answer.py",
        "    if event == FAILED and not intent.tool:\n",
        "    if event == FAILED and intent.tool:\n",
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
        "the hook is not registered for hard failures",
        "gate/clients/claude.py",
        '    "StopFailure": None,\n',
        "",
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "only one file of a failed agent is freed",
        "gate/rulebook/event_decisions.py",
        "    for grant in life.draft.held_by(life.holder.key):\n",
        "    for grant in life.draft.held_by(life.holder.key)[:1]:\n",
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "the gate frees grants that a person holds under an agent's name",
        "gate/rulebook/event_decisions.py",
        "    for grant in life.draft.held_by(life.holder.key):\n",
        "    for grant in life.draft.held_by(life.holder.id):\n",
        (HOOK + "test_seed002_16_the_hook_frees_everything_of_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "a failed agent stays in line",
        "gate/rulebook/event_decisions.py",
        '    life.leave_lines("failed")\n',
        "",
        (HOOK + "test_seed002_16_nothing_is_kept_for_an_agent_that_failed_hard",),
    ),
    Mutant(
        "002-16",
        "a failure of a session's own agent counts for its sub-agents",
        "gate/rulebook/event_decisions.py",
        "    for grant in life.draft.held_by(life.holder.key):\n",
        "    for grant in life.draft.held_within(life.holder.key):\n",
        (HOOK + "test_seed002_16_of_a_session_whose_own_agent_failed_hard_not_its_sub_agents",),
    ),
    Mutant(
        "002-17",
        "SessionEnd frees nothing",
        "gate/door/ledger_answer.py",
        "    if event == SESSION_END:\n        return gate.end_session()\n",
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
        "the hook is not registered for the end of a session",
        "gate/clients/claude.py",
        '    "SessionEnd": None,\n',
        "",
        (HOOK + "test_seed002_17_the_hook_frees_everything_when_a_session_ends",),
    ),
    Mutant(
        "002-17",
        "the leases of a session's sub-agents outlive it",
        "gate/rulebook/sessions.py",
        "    for grant in life.draft.held_within(session):\n        life.free",
        "    for grant in life.draft.held_by(session):\n        life.free",
        (HOOK + "test_seed002_17_the_hook_frees_everything_when_a_session_ends",),
    ),
    Mutant(
        "002-17",
        "a stop keeps unchanged files too",
        "gate/rulebook/agent_stop.py",
        "    return bool(grant.stamp) and seen.leases.get(grant.id) == grant.stamp\n",
        "    return not grant.stamp and not seen.leases\n",
        (HOOK + "test_seed002_17_a_stop_frees_at_once_what_was_never_changed",),
    ),
    Mutant(
        "002-17",
        "a stop frees changed files too",
        "gate/rulebook/agent_stop.py",
        "    return bool(grant.stamp) and seen.leases.get(grant.id) == grant.stamp\n",
        "    return bool(grant.stamp) and grant.id in seen.leases\n",
        (HOOK + "test_seed002_17_a_stop_frees_at_once_what_was_never_changed",),
    ),
    Mutant(
        "002-17",
        "the state of a file when it was leased is not recorded",
        "gate/lease_gate.py",
        "reason=FOR_EDIT, stamp=stamp_of(place.status)\n",
        'reason=FOR_EDIT, stamp=""\n',
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
        "manager/owners/liveness.py",
        "            return gone\n        return not (marks and _carried(sought(marks)))",
        "            return gone\n        return False",
        (HOOK + "test_seed002_06_a_client_that_is_gone_keeps_no_file",),
    ),
    Mutant(
        "002-19",
        "Stop starts no timer",
        "gate/door/ledger_answer.py",
        "        call.stops.append(gate.stop(may_go_on=not intent.is_repeated, is_alone=intent.is_alone))\n",
        "",
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
        "background work postpones the rest",
        "gate/door/ledger_answer.py",
        "    if event == STOP:\n        call",
        "    if event == STOP and not intent.background:\n        call",
        (HOOK + "test_seed002_19_work_in_the_background_does_not_keep_the_files",),
    ),
    Mutant(
        "002-19",
        "a stop that one ledger holds open counts as over in the others",
        "gate/held_stops.py",
        "            stop.hold_along(until)\n",
        "            pass\n",
        (LEDGERS + "test_seed002_19_a_held_stop_that_ends_starts_the_rest_in_every_ledger",),
    ),
    Mutant(
        "002-19",
        "an agent that one ledger sends back to work rests in the others",
        "gate/held_stops.py",
        "            stop.go_on()\n",
        "            pass\n",
        (LEDGERS + "test_seed002_19_an_agent_that_is_sent_back_rests_in_no_ledger",),
    ),
    Mutant(
        "002-19",
        "the timer is a minute",
        "gate/config/settings.py",
        "        idle_seconds: float = 30,",
        "        idle_seconds: float = 60,",
        (
            HOOK + "test_seed002_19_thirty_seconds_after_a_stop_the_hook_lets_others_edit",
            HOOK + "test_seed002_19_a_stop_in_a_process_of_its_own_starts_the_timer",
        ),
    ),
    Mutant(
        "002-19",
        "a file comes free a moment after the 30 s",
        "core/conflicts.py",
        "draft.now >= grant.idle_at:",
        "draft.now > grant.idle_at:",
        (HOOK + "test_seed002_19_thirty_seconds_after_a_stop_the_hook_lets_others_edit",),
    ),
    Mutant(
        "002-19",
        "the timer keeps running although the agent goes on",
        "gate/rulebook/agent_life.py",
        "            bulk_rules.come_to_rest(self.draft, self.holder.key, None)\n            rest.end(",
        "            rest.end(",
        (HOOK + "test_seed002_19_whatever_the_agent_does_stops_the_timer",),
    ),
    Mutant(
        "002-19",
        "the timer cannot be stopped",
        "core/bulk_rules.py",
        "    idle_at = None if length is None else draft.now + length\n    left = []",
        "    idle_at = draft.now + (length or 30_000_000)\n    left = []",
        (HOOK + "test_seed002_19_whatever_the_agent_does_stops_the_timer",),
    ),
    Mutant(
        "002-19",
        "leases expire while a stop is held open",
        "gate/rulebook/agent_life.py",
        "        length = self.asker.idle + max(0, held_until - self.now)\n",
        "        length = self.asker.idle\n",
        (HOOK + "test_seed002_19_the_30_seconds_begin_when_a_stop_is_held_no_longer",),
    ),
    Mutant(
        "002-19",
        "a file that is handed to a resting agent has no timer",
        "gate/rulebook/handover.py",
        "    if rest is not None:\n        idle_at = max(",
        "    if rest is not None and rest.held_until:\n        idle_at = max(",
        (HOOK + "test_seed002_19_what_a_sub_agent_leaves_to_one_that_has_stopped_rests_too",),
    ),
    Mutant(
        "002-19",
        "the stop of an agent without files is not recorded",
        "gate/rulebook/agent_life.py",
        "        if not (left or held_until or known or agent_family.has_children(self.draft, self.holder)):\n",
        "        if not (left or held_until or self.known.rest):\n",
        (HOOK + "test_seed002_19_what_a_sub_agent_leaves_to_one_that_has_stopped_rests_too",),
    ),
    # The report
    Mutant(
        "002-20",
        "the report names the lease instead of the file",
        "gate/rulebook/agent_messages.py",
        '        "blocked_file": conflict.path,',
        '        "blocked_file": conflict.grant_id,',
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "the report calls the blocked agent the owner",
        "gate/rulebook/agent_messages.py",
        '        "owner": conflict.holder,',
        '        "owner": agent,',
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "the report gives the length of the wait as the age of the lock",
        "gate/rulebook/agent_messages.py",
        "round((now - conflict.since) / 1_000_000, 3)",
        "round((now - wait.denied_at) / 1_000_000, 3)",
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "the report gives its own time as that of the heartbeat",
        "gate/rulebook/agent_messages.py",
        '        "last_heartbeat": iso(wait.denied_at),',
        '        "last_heartbeat": iso(now),',
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "the report gives the interval in minutes",
        "gate/rulebook/agent_messages.py",
        '        "retry_interval_seconds": wait.retry_seconds,',
        '        "retry_interval_seconds": wait.retry_seconds / 60,',
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "the state has another name",
        "gate/rulebook/agent_messages.py",
        'WAITING_FOR_INSTRUCTION = "waiting_for_instruction"',
        'WAITING_FOR_INSTRUCTION = "waiting_for_instructions"',
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "the printed report lacks the last heartbeat",
        "gate/rulebook/agent_messages.py",
        "        f\"  last heartbeat  {report['last_heartbeat']}\\n\"\n",
        "",
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "the report lacks the state",
        "gate/rulebook/agent_messages.py",
        '        "state": WAITING_FOR_INSTRUCTION,\n        "agent": agent.id,',
        '        "state": "blocked",\n        "agent": agent.id,',
        (HOOK + "test_seed002_20_agent_and_user_read_the_six_facts",),
    ),
    Mutant(
        "002-20",
        "two owners may have the same name",
        "gate/rulebook/display_names.py",
        '        if agent_records.owner_of_name(view, name) in ("", key):\n            return name\n',
        "        if name:\n            return name\n",
        (HOOK + "test_seed002_20_no_two_agents_have_one_name",),
    ),
    Mutant(
        "002-20",
        "the owner of a name is not recorded",
        "gate/rulebook/display_names.py",
        "            agent_records.Name(name, key).write(draft, agent_records.NAMED)\n",
        "            pass\n",
        (HOOK + "test_seed002_20_no_two_agents_have_one_name",),
    ),
    # The commit is the agent's
    Mutant(
        "002-21",
        "the check before a commit adds changed files",
        "gate/git/git_files.py",
        '    env = inside()\n    base = "HEAD"\n',
        '    env = inside()\n    git(repo, "add", "--update", env=env)\n    base = "HEAD"\n',
        (
            COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",
            COMMITS + "test_seed002_fr8_2_the_hooks_call_no_git_that_writes",
        ),
    ),
    Mutant(
        "002-21",
        "the refusal removes the files of others from the index",
        "gate/git/commit_check.py",
        "    if others:\n        return contains(",
        "    if others:\n"
        "        from holdfast.gate.git.git_files import git\n"
        "\n"
        '        git(root, "reset", "--quiet", "--", *[one.name for one in others], env=inside())\n'
        "        return contains(",
        (COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",),
    ),
    Mutant(
        "002-21",
        "freed files are committed again",
        "gate/git/git_files.py",
        '    env.pop("GIT_INDEX_FILE", None)\n',
        '    env.pop("GIT_INDEX_FILE", None)\n'
        '    words = ("-c", "core.hooksPath=/dev/null", "commit", "--amend", "--no-edit")\n'
        "    git(repo, *words, env=env)\n",
        (COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",),
    ),
    Mutant(
        "002-21",
        "a stop adds changed files to the index",
        "gate/lease_gate.py",
        "        seen = self.seen()\n        hold = round(",
        "        import subprocess\n"
        "\n"
        '        subprocess.run(["git", "add", "--all"], cwd=self._root, check=False)\n'
        "        seen = self.seen()\n"
        "        hold = round(",
        (HOOK + "test_seed002_21_whatever_an_agent_does_its_hook_neither_adds_nor_commits",),
    ),
    Mutant(
        "002-22",
        "a commit is refused for dirty files outside it",
        "gate/git/commit_check.py",
        "    names = staged(root)\n",
        "    names = [*staged(root), *unstaged(root)]\n",
        (COMMITS + "test_seed002_fr8_a_dirty_main_stays_a_dirty_main",),
    ),
    Mutant(
        "002-22",
        "a commit releases nothing as long as anything is dirty",
        "gate/git/commit_check.py",
        "    ids = [one.grant.id for one in ours if one.name not in changed]",
        "    ids = [one.grant.id for one in ours if not unstaged(root)]",
        (COMMITS + "test_seed002_fr8_a_dirty_main_stays_a_dirty_main",),
    ),
    Mutant(
        "002-22",
        "files that a person saves meanwhile are leased to the agent",
        "gate/guard/after_command.py",
        "    new = unclaimed_changes.news(root, key, found[0].free)\n",
        "    new = unclaimed_changes.news(root, key, found[0].free)\n"
        '    gate.permit([f"{root}/{path}" for path in changed])\n',
        (
            HOOK
            + "test_seed002_22_a_file_that_a_person_saves_while_a_command_runs_stays_the_persons",
        ),
    ),
    # The states of a file
    Mutant(
        "002-23",
        "a file comes from Contended to Blocked without a retry",
        "gate/rulebook/contention.py",
        "    life.refusal = request, refusal\n    return _denied(life, wait, found)\n",
        "    life.refusal = request, refusal\n"
        "    return _block(life, wait, found)  # type: ignore[return-value]\n",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a file goes from Blocked to Owned although no person resumed the agent",
        "gate/rulebook/agent_life.py",
        "        if halted is not None:\n            return halted\n        wanted = [",
        "        wanted = [",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a prompt of the user does not move a file out of Blocked",
        "gate/door/ledger_answer.py",
        "    if event == PROMPT:\n        return gate.prompt()\n",
        "",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a retry that fails leaves the file in RetryPending",
        "gate/rulebook/contention.py",
        "    if conflicts:\n        return _block(life, wait, conflicts, stops=stops)\n",
        "    if conflicts:\n        return _denied(life, wait, conflicts)\n",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a file stays in RetryPending when the retry has succeeded",
        "gate/rulebook/contention.py",
        "    if _is_served(life, wait):\n"
        "        handover.handed(life, wait, file_states.RETRY_SUCCEEDED)\n"
        "        return None\n",
        "    if _is_served(life, wait):\n        return None\n",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    Mutant(
        "002-23",
        "a hand-over leaves the file in RetryPending",
        "gate/rulebook/handover.py",
        "    wait.write(life.draft, agent_records.HANDED_OVER, state=state, cause=cause)\n",
        "",
        (
            HOOK
            + "test_seed002_23_through_the_hook_a_file_goes_through_the_five_states_as_promised",
        ),
    ),
    # What was to be verified
    Mutant(
        "002-24",
        "the gate checks first and grants in a second transaction",
        "gate/lease_gate.py",
        "        outcome = self.decide(lambda view: event_decisions.edit(view, self.asker, wanted))\n",
        "        found = transactions.look(\n"
        "            self.manager, lambda view: event_decisions.edit(view, self.asker, wanted)\n"
        "        )\n"
        "        if isinstance(found.outcome, Passed):\n"
        "            from holdfast.core.draft import Draft\n"
        "\n"
        "            def take(view: View) -> Decision[Any]:\n"
        "                draft = Draft(view)\n"
        "                for one in wanted:\n"
        "                    draft.admit(one, ticket=False)\n"
        "                return draft.done(found.outcome)\n"
        "\n"
        "            outcome = self.decide(take)\n"
        "        else:\n"
        "            outcome = self.decide(lambda view: event_decisions.edit(view, self.asker, wanted))\n",
        (HOOK + "test_seed002_24_also_if_all_have_looked_before_any_of_them_takes_it",),
    ),
    Mutant(
        "002-24",
        "only readers conflict with a writer",
        "core/conflicts.py",
        "            return [place for place in places if modes[place] != READ]\n"
        "        return places\n",
        "            return [place for place in places if modes[place] != READ]\n"
        "        return []\n",
        (HOOK + "test_seed002_24_of_agents_that_ask_at_the_same_moment_one_may_change_the_file",),
    ),
    Mutant(
        "002-25",
        "contention leaves no heartbeat",
        "gate/rulebook/contention.py",
        "    wait.write(life.draft, agent_records.HEARTBEAT, state=state)\n",
        "    wait.write(life.draft, agent_records.STOP_HELD, state=state)\n",
        (HOOK + "test_seed002_25_through_the_hook_contention_is_a_heartbeat_and_a_retry_at_180",),
    ),
    Mutant(
        "002-25",
        "the retry comes a second late",
        "gate/rulebook/outcomes.py",
        "        return round(self.retry_seconds * SECOND)\n",
        "        return round(self.retry_seconds * SECOND) + SECOND\n",
        (HOOK + "test_seed002_25_through_the_hook_contention_is_a_heartbeat_and_a_retry_at_180",),
    ),
    Mutant(
        "002-26",
        "a retry that fails begins a new contention",
        "gate/rulebook/contention.py",
        "    if conflicts:\n        return _block(life, wait, conflicts, stops=stops)\n",
        "    if conflicts:\n"
        '        life.leave_line(wait, "retried")\n'
        "        life.forget(wait)\n"
        "        return None\n",
        (
            HOOK
            + "test_seed002_26_through_the_hook_still_blocked_at_the_retry_is_a_hard_stop_with_a_report",
        ),
    ),
    Mutant(
        "002-26",
        "a hard stop has no report",
        "gate/rulebook/contention.py",
        "        Block.named(life.holder.key, wait.id), agent=life.holder.id, report=told,\n",
        "        Block.named(life.holder.key, wait.id), agent=life.holder.id, report={},\n",
        (
            HOOK
            + "test_seed002_26_through_the_hook_still_blocked_at_the_retry_is_a_hard_stop_with_a_report",
        ),
    ),
    Mutant(
        "002-26",
        "the answer of a hard stop has no report",
        "gate/lease_gate.py",
        "        return Answer(HALT, told, user=told, context=",
        '        return Answer(HALT, "Stop here.", user="Stop here.", context=',
        (
            HOOK
            + "test_seed002_26_through_the_hook_still_blocked_at_the_retry_is_a_hard_stop_with_a_report",
        ),
    ),
    Mutant(
        "002-27",
        "the next contender finds the dead owner's lease",
        "core/conflicts.py",
        "    if draft.is_dead(grant.holder.witness, grant.holder.marks):\n"
        "        return OWNER_DEAD",
        "    if draft.is_dead(grant.holder.witness) and grant.holder.marks:\n"
        "        return OWNER_DEAD",
        (CORE + "test_seed002_08_a_dead_owners_lease_is_reclaimable_immediately",),
    ),
    Mutant(
        "002-27",
        "a waiter for a dead owner's file does not get it",
        "core/conflicts.py",
        "        if why and not steal_only(grant):\n            draft.end",
        "        if why and not grant.reason and not steal_only(grant):\n            draft.end",
        (HOOK + "test_seed002_27_through_the_hook_a_dead_owners_file_goes_to_the_next_contender",),
    ),
    Mutant(
        "002-27",
        "a waiter checks only every ten seconds whether the owner lives",
        "gate/held_stops.py",
        "LOOK_SECONDS = 0.5",
        "LOOK_SECONDS = 10",
        (
            HOOK
            + "test_seed002_27_whoever_waits_has_it_within_a_second_after_the_owner_died_or_finished",
        ),
    ),
    Mutant(
        "002-27",
        "a waiter does not check whether the owner lives",
        "gate/rulebook/contention.py",
        "        if wait.id == id:\n            answer = again(life, wait, wanted)\n",
        "        if wait.id == id and life.now < wait.retry_at:\n"
        "            return _denied(life, wait, ())\n"
        "        if wait.id == id:\n"
        "            answer = again(life, wait, wanted)\n",
        (
            HOOK
            + "test_seed002_27_whoever_waits_has_it_within_a_second_after_the_owner_died_or_finished",
        ),
    ),
    Mutant(
        "002-27",
        "a held stop does not check whether the owner lives",
        "gate/rulebook/agent_stop.py",
        "        return None  # that hold belongs to a later stop\n    life.look_round()\n",
        "        return None\n    handover.notice(life)\n",
        (
            HOOK
            + "test_seed002_27_whoever_waits_has_it_within_a_second_after_the_owner_died_or_finished",
        ),
    ),
    Mutant(
        "002-28",
        "a stop is treated like any other event",
        "gate/clients/claude.py",
        '    "Stop": STOP,',
        '    "Stop": OTHER,',
        (HOOK + "test_seed002_28_through_the_hook_a_stop_and_30_idle_seconds_free_the_file",),
    ),
    Mutant(
        "002-28",
        "the hook is not registered for stops",
        "gate/clients/claude.py",
        '    "Stop": None,\n',
        "",
        (HOOK + "test_seed002_28_through_the_hook_a_stop_and_30_idle_seconds_free_the_file",),
    ),
    Mutant(
        "002-28",
        "a stop is recorded, but the leases have no end",
        "gate/rulebook/agent_life.py",
        "        left = bulk_rules.come_to_rest(self.draft, self.holder.key, length)\n",
        "        left = self.draft.held_by(self.holder.key)\n",
        (HOOK + "test_seed002_28_through_the_hook_a_stop_and_30_idle_seconds_free_the_file",),
    ),
    Mutant(
        "002-29",
        "after a commit the rest is staged",
        "gate/git/git_files.py",
        '    """The paths that the last commit changed; for a merge, those that it changed on this branch."""\n'
        "    env = inside()\n",
        '    """The paths that the last commit changed; for a merge, those that it changed on this branch."""\n'
        "    env = inside()\n"
        '    git(repo, "add", "--all", env=env)\n',
        (COMMITS + "test_seed002_fr8_1_the_agent_alone_adds_and_commits",),
    ),
]
