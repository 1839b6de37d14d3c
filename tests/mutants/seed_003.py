"""Proof ledgers and claims: a mutant for every promise of 003."""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = [
    Mutant(
        "003-01",
        "the lock has its time as a number",
        "proof/dialects/proof_codec.py",
        '"acquired_at": acquired}',
        '"acquired_at": now}',
        (
            "tests/proof/test_seed_003.py::test_seed003_01_the_lock_is_a_json_file_with_who_and_since_when",
        ),
    ),
    Mutant(
        "003-01",
        "the lock names its holder in another field",
        "proof/dialects/proof_codec.py",
        '_encode({"agent_id": agent,',
        '_encode({"agent": agent,',
        (
            "tests/proof/test_seed_003.py::test_seed003_01_the_lock_is_a_json_file_with_who_and_since_when",
        ),
    ),
    Mutant(
        "003-01",
        "any user may read the lock",
        "proof/ledger_lock.py",
        "os.open(self._seat, NEW, 0o600)",
        "os.open(self._seat, NEW, 0o644)",
        (
            "tests/proof/test_seed_003.py::test_seed003_01_the_lock_is_a_json_file_with_who_and_since_when",
        ),
    ),
    Mutant(
        "003-01",
        "the lock has another name",
        "proof/dialects/proof_codec.py",
        'LOCK = "ledger.lock"',
        'LOCK = "write.lock"',
        (
            "tests/proof/test_seed_003.py::test_seed003_01_the_lock_is_a_json_file_with_who_and_since_when",
            "tests/proof/test_seed_003.py::test_seed003_01_a_lock_made_by_any_program_is_respected",
        ),
    ),
    Mutant(
        "003-01",
        "the lock replaces another's",
        "proof/ledger_lock.py",
        "os.link(self._seat, self._folder.lock)",
        "os.replace(self._seat, self._folder.lock)",
        (
            "tests/proof/test_seed_003.py::test_seed003_01_making_it_is_exclusive",
            "tests/proof/test_seed_003.py::test_seed003_01_a_lock_made_by_any_program_is_respected",
        ),
    ),
    Mutant(
        "003-02",
        "a waiter gives up after a second",
        "proof/ledger_lock.py",
        "WAIT_SECONDS = 5.0",
        "WAIT_SECONDS = 1.0",
        (
            "tests/proof/test_seed_003.py::test_seed003_02_the_defaults_are_10_ms_and_5_seconds",
            "tests/proof/test_seed_003.py::test_seed003_02_it_is_taken_soon_after_it_came_free",
        ),
    ),
    Mutant(
        "003-02",
        "a waiter waits longer than the promised limit",
        "proof/ledger_lock.py",
        "WAIT_SECONDS = 5.0",
        "WAIT_SECONDS = 30.0",
        ("tests/proof/test_seed_003.py::test_seed003_02_the_defaults_are_10_ms_and_5_seconds",),
    ),
    Mutant(
        "003-02",
        "a waiter retries only every tenth of a second",
        "proof/ledger_lock.py",
        "POLL_SECONDS = 0.010",
        "POLL_SECONDS = 0.100",
        ("tests/proof/test_seed_003.py::test_seed003_02_the_defaults_are_10_ms_and_5_seconds",),
    ),
    Mutant(
        "003-02",
        "the pauses between retries grow without limit",
        "proof/ledger_lock.py",
        "pause = min(_PAUSE_SECONDS + (now - turn_since) / 8, POLL_SECONDS)",
        "pause = _PAUSE_SECONDS + (now - turn_since) / 8",
        (
            "tests/proof/test_seed_003.py::test_seed003_02_the_defaults_are_10_ms_and_5_seconds",
            "tests/proof/test_seed_003.py::test_seed003_02_it_is_taken_soon_after_it_came_free",
        ),
    ),
    Mutant(
        "003-02",
        "a waiter does not lengthen its pauses",
        "proof/ledger_lock.py",
        "pause = min(_PAUSE_SECONDS + (now - turn_since) / 8, POLL_SECONDS)",
        "pause = _PAUSE_SECONDS",
        ("tests/proof/test_seed_003.py::test_seed003_02_the_defaults_are_10_ms_and_5_seconds",),
    ),
    Mutant(
        "003-02",
        "the error has another text",
        "proof/ledger_lock.py",
        'f"timeout waiting for lock: {found.holder()}',
        'f"gave up: {found.holder()}',
        ("tests/proof/test_seed_003.py::test_seed003_02_the_defaults_are_10_ms_and_5_seconds",),
    ),
    Mutant(
        "003-03",
        "a release leaves the lock",
        "proof/ledger_lock.py",
        """\
                return False
            os.unlink(self._folder.lock)
""",
        "                return False\n",
        ("tests/proof/test_seed_003.py::test_seed003_03_releasing_deletes_it",),
    ),
    Mutant(
        "003-04",
        "an old lock is removed",
        "proof/ledger_lock.py",
        "return found is not None and found.is_dead and _remove_lock(self._folder, found)",
        """\
if found is None or found.age(self._clock.read().wall * 1000) < BREAK_SECONDS:
            return False
        return _remove_lock(self._folder, found)""",
        (
            "tests/proof/test_seed_003.py::test_seed003_04_it_does_not_expire",
            "tests/proof/test_seed_003.py::test_seed003_04_that_of_a_crashed_process_of_ours_is_recovered",
        ),
    ),
    Mutant(
        "003-04",
        "the lock of a killed process is never recovered",
        "proof/ledger_lock.py",
        "if self._break_dead():",
        "if self._wait_seconds > 60 and self._break_dead():",
        (
            "tests/proof/test_seed_003.py::test_seed003_04_that_of_a_crashed_process_of_ours_is_recovered",
        ),
    ),
    Mutant(
        "003-04",
        "a lock of 3 seconds can be broken",
        "proof/ledger_lock.py",
        "BREAK_SECONDS = 30.0",
        "BREAK_SECONDS = 3.0",
        (
            "tests/proof/test_seed_003.py::test_seed003_04_that_of_another_program_only_when_it_is_old_and_a_person_says_so",
        ),
    ),
    Mutant(
        "003-04",
        "the old lock of a living process can be broken",
        "proof/ledger_lock.py",
        "if found.owner is not None and found.owner.host == own_witness().host and not found.is_dead:",
        "if found.owner is not None and found.owner.host != own_witness().host and not found.is_dead:",
        (
            "tests/proof/test_seed_003.py::test_seed003_04_the_lock_of_a_living_process_is_not_broken",
        ),
    ),
    Mutant(
        "003-04",
        "the present lock is removed, even if it is not the one that was checked",
        "proof/ledger_lock.py",
        """\
        if same:
            os.unlink""",
        """\
        if there.st_nlink:
            os.unlink""",
        (
            "tests/proof/test_proof_lock.py::test_a_late_process_does_not_break_the_lock_of_a_successor",
        ),
    ),
    Mutant(
        "003-04",
        "an agent may break a lock",
        "cli/proof_commands.py",
        '    _person("break a ledger\'s lock", "wait for it, or let a person do it")\n',
        "",
        (
            "tests/proof/test_proof_cli.py::test_doctor_breaks_the_lock_of_another_program_only_for_a_person",
        ),
    ),
    Mutant(
        "003-05",
        "a reaping is recorded under another type",
        "proof/dialects/proof_codec.py",
        'REAPED = "lock_reaped"',
        'REAPED = "lock_expired"',
        (
            "tests/proof/test_seed_003.py::test_seed003_05_claims_are_events_with_exactly_their_fields",
        ),
    ),
    Mutant(
        "003-05",
        "a reaping names the reaper",
        "proof/dialects/seed_dialect.py",
        '{"type": proof_codec.REAPED, "node_id": node, "owner": owner}',
        '{"type": proof_codec.REAPED, "node_id": node, "owner": "holdfast"}',
        (
            "tests/proof/test_seed_003.py::test_seed003_05_claims_are_events_with_exactly_their_fields",
        ),
    ),
    Mutant(
        "003-05",
        "a claim has an additional field",
        "proof/dialects/seed_dialect.py",
        '"owner": owner, "expires_at": proof_codec.moment_text(until),',
        '"owner": owner, "expires_at": proof_codec.moment_text(until), "timeout": 300,',
        (
            "tests/proof/test_seed_003.py::test_seed003_05_claims_are_events_with_exactly_their_fields",
        ),
    ),
    Mutant(
        "003-05",
        "a claim lacks its end",
        "proof/dialects/seed_dialect.py",
        '"owner": owner, "expires_at": proof_codec.moment_text(until),',
        '"owner": owner, "expires_at": proof_codec.moment_text(now),',
        (
            "tests/proof/test_seed_003.py::test_seed003_05_claims_are_events_with_exactly_their_fields",
        ),
    ),
    Mutant(
        "003-06",
        "the default is 10 minutes",
        "proof/dialects/proof_codec.py",
        "TIMEOUT_DEFAULT = 5 * 60 * SECOND",
        "TIMEOUT_DEFAULT = 10 * 60 * SECOND",
        (
            "tests/proof/test_seed_003.py::test_seed003_06_the_timeout_of_claims_comes_from_meta_json",
        ),
    ),
    Mutant(
        "003-06",
        "meta.json is ignored",
        "proof/claims.py",
        "            return self._ledger.folder.timeout()\n",
        "            return proof_codec.TIMEOUT_DEFAULT\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_06_the_timeout_of_claims_comes_from_meta_json",
            "tests/proof/test_seed_003.py::test_seed003_06_it_lies_between_a_second_and_an_hour",
            "tests/proof/test_seed_003.py::test_seed003_06_a_meta_json_that_cannot_be_read_is_no_default",
        ),
    ),
    Mutant(
        "003-06",
        "less than a second is allowed",
        "proof/dialects/proof_codec.py",
        "TIMEOUT_MIN = SECOND\n",
        "TIMEOUT_MIN = SECOND // 2\n",
        ("tests/proof/test_seed_003.py::test_seed003_06_it_lies_between_a_second_and_an_hour",),
    ),
    Mutant(
        "003-06",
        "two hours are allowed",
        "proof/dialects/proof_codec.py",
        "TIMEOUT_MAX = 3600 * SECOND",
        "TIMEOUT_MAX = 7200 * SECOND",
        ("tests/proof/test_seed_003.py::test_seed003_06_it_lies_between_a_second_and_an_hour",),
    ),
    Mutant(
        "003-06",
        "an hour is refused",
        "proof/dialects/proof_codec.py",
        "if not TIMEOUT_MIN <= length <= TIMEOUT_MAX:",
        "if not TIMEOUT_MIN <= length < TIMEOUT_MAX:",
        (
            "tests/proof/test_seed_003.py::test_seed003_06_the_timeout_of_claims_comes_from_meta_json",
        ),
    ),
    Mutant(
        "003-06",
        "a meta.json that cannot be read means the default",
        "proof/dialects/proof_codec.py",
        """\
        raise BadTimeoutError(
            "meta.json is not a JSON object", hint='correct it: {"lock_timeout": "5m"}'
        )
""",
        "        return TIMEOUT_DEFAULT\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_06_a_meta_json_that_cannot_be_read_is_no_default",
        ),
    ),
    Mutant(
        "003-07",
        "a reaped claim stays in force",
        "proof/dialects/seed_dialect.py",
        "elif type in (proof_codec.RELEASED, proof_codec.REAPED):",
        "elif type == proof_codec.RELEASED:",
        ("tests/proof/test_seed_003.py::test_seed003_07_the_state_is_the_replay_of_the_events",),
    ),
    Mutant(
        "003-07",
        "the first claim of a node stays for ever",
        "proof/claim_state.py",
        "        self.claims[claim.node] = claim\n",
        "        self.claims.setdefault(claim.node, claim)\n",
        ("tests/proof/test_seed_003.py::test_seed003_07_the_state_is_the_replay_of_the_events",),
    ),
    Mutant(
        "003-07",
        "a claim lasts a moment too long",
        "proof/claim_state.py",
        "self.expires_at is None or self.expires_at > now",
        "self.expires_at is None or self.expires_at >= now",
        ("tests/proof/test_seed_003.py::test_seed003_07_expired_ones_are_filtered",),
    ),
    Mutant(
        "003-07",
        "expired claims are listed",
        "proof/claims.py",
        "return [claim for claim in self.known() if claim.is_live(now)]",
        "return self.known()",
        (
            "tests/proof/test_seed_003.py::test_seed003_07_expired_ones_are_filtered",
            "tests/proof/test_proof_claims.py::test_the_fold_of_the_events_is_the_live_state",
        ),
    ),
    Mutant(
        "003-08",
        "claim files have microseconds",
        "proof/dialects/proof_codec.py",
        '    return f"{_second_text(whole)}.{part:09d}Z"',
        '    return f"{_second_text(whole)}.{part // 1000:06d}Z"',
        ("tests/proof/test_seed_003.py::test_seed003_08_claim_files_have_nanoseconds",),
    ),
    Mutant(
        "003-08",
        "claim files lack the start of the claim",
        "proof/dialects/proof_codec.py",
        """\
            "acquired_at": moment_text_nano(acquired_at),
            "expires_at": moment""",
        '            "expires_at": moment',
        ("tests/proof/test_seed_003.py::test_seed003_08_claim_files_have_nanoseconds",),
    ),
    Mutant(
        "003-08",
        "a claim file outlives its claim",
        "proof/claims.py",
        "                check,\n                lambda numbers: self._unshow(ended),\n            )\n        return ended[0]",
        "                check,\n            )\n        return ended[0]",
        ("tests/proof/test_seed_003.py::test_seed003_08_claim_files_have_nanoseconds",),
    ),
    Mutant(
        "003-08",
        "claim files are made in the wrong place",
        "proof/claim_files.py",
        "    if not is_kept(ledger) or claim.acquired_at is None or claim.expires_at is None:\n        return\n",
        "    if claim.acquired_at is None or claim.expires_at is None:\n        return\n    os.makedirs(folder, exist_ok=True)\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_08_they_are_optional_and_the_ledger_is_the_truth_about_its_own",
        ),
    ),
    Mutant(
        "003-09",
        "live claims are reaped",
        "proof/claims.py",
        "for claim in self._state.expired(now) if claim.is_whole]",
        "for claim in self._state.claims.values() if claim.is_whole]",
        ("tests/proof/test_seed_003.py::test_seed003_09_stale_claims_are_removed_and_recorded",),
    ),
    Mutant(
        "003-09",
        "a reaping only removes files",
        "proof/claims.py",
        "                if found:\n                    self._ledger.commit(\n                        events,",
        "                if not found:\n                    self._ledger.commit(\n                        events,",
        ("tests/proof/test_seed_003.py::test_seed003_09_stale_claims_are_removed_and_recorded",),
    ),
    Mutant(
        "003-09",
        "the leftovers of a killed process count as another program's",
        "proof/claims.py",
        "            found += [claim for claim in files if not self._was_ours(claim)]\n",
        "            found += files\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_09_a_file_that_was_left_two_claims_ago_is_not_recorded_once_more",
        ),
    ),
    Mutant(
        "003-09",
        "stale files stay",
        "proof/claims.py",
        "            found += [claim for claim in files if not self._was_ours(claim)]\n",
        "            found += []\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_09_a_stale_file_that_the_ledger_does_not_know_is_recorded_too",
            "tests/proof/test_seed_003.py::test_seed003_09_a_stale_file_never_ends_the_claim_of_a_successor",
            "tests/proof/test_seed_003.py::test_seed003_09_a_claim_reaps_what_is_stale_in_the_same_step",
        ),
    ),
    Mutant(
        "003-09",
        "a stale file ends the claim of a successor",
        "proof/claim_files.py",
        "    return found is None or not found.is_live(now)\n",
        "    return True\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_09_a_stale_file_never_ends_the_claim_of_a_successor",
        ),
    ),
    Mutant(
        "003-09",
        "a node that was claimed again meanwhile is reaped",
        "proof/claims.py",
        "            if not self._stale(now):\n                raise _Changed\n",
        "",
        ("tests/proof/test_proof_claims.py::test_what_came_between_is_not_reaped",),
    ),
    Mutant(
        "003-10",
        "a node is claimed twice",
        "proof/claims.py",
        "            self._check_free(node, owner, made.acquired_at or 0)\n",
        "",
        (
            "tests/proof/test_seed_003.py::test_seed003_10_a_claimed_node_is_refused",
            "tests/proof/test_proof_cli.py::test_claims_from_claim_to_release",
            "tests/proof/test_proof_claims.py::test_a_claim_that_came_between_is_seen_under_the_lock",
        ),
    ),
    Mutant(
        "003-10",
        "the owner of a node claims it again",
        "proof/claims.py",
        "        if found is not None and found.is_live(at):\n            hint",
        "        if found is not None and found.owner != owner and found.is_live(at):\n            hint",
        ("tests/proof/test_seed_003.py::test_seed003_10_a_claimed_node_is_refused",),
    ),
    Mutant(
        "003-10",
        "the refusal has another text",
        "proof/claims.py",
        'f"node already locked: {claim.owner}',
        'f"node is taken: {claim.owner}',
        (
            "tests/proof/test_seed_003.py::test_seed003_10_a_claimed_node_is_refused",
            "tests/proof/test_proof_cli.py::test_claims_from_claim_to_release",
        ),
    ),
    Mutant(
        "003-10",
        "the check that a node is free comes only before the lock",
        "proof/event_ledger.py",
        """\
                    check(head)
                    if self.now()""",
        "                    if self.now()",
        (
            "tests/proof/test_proof_claims.py::test_a_claim_that_came_between_is_seen_under_the_lock",
        ),
    ),
    Mutant(
        "003-11",
        "an outdated number is accepted",
        "proof/event_ledger.py",
        "if expected is not None and head != expected:",
        "if expected is not None and head < expected:",
        ("tests/proof/test_seed_003.py::test_seed003_11_append_at_the_expected_number_only",),
    ),
    Mutant(
        "003-11",
        "an append cannot expect an empty ledger",
        "proof/event_ledger.py",
        "if expected is not None and head != expected:",
        "if expected and head != expected:",
        (
            "tests/proof/test_seed_003.py::test_seed003_11_append_at_the_expected_number_only",
            "tests/proof/test_proof_ledger.py::test_and_then_the_expected_number_is_no_longer_the_expected_one",
            "tests/proof/test_proof_cli.py::test_append_if_sequence_is_refused_with_3",
        ),
    ),
    Mutant(
        "003-11",
        "the numbers are compared only before the lock is taken",
        "proof/event_ledger.py",
        """\
                    check(head)
                    if self.now()""",
        "                    if self.now()",
        (
            "tests/proof/test_proof_ledger.py::test_and_then_the_expected_number_is_no_longer_the_expected_one",
        ),
    ),
    Mutant(
        "003-11",
        "the command ignores the expected number",
        "cli/proof_commands.py",
        'if_sequence=call.number("if-sequence"), force=force',
        "force=force",
        ("tests/proof/test_proof_cli.py::test_append_if_sequence_is_refused_with_3",),
    ),
    Mutant(
        "003-12",
        "numbers have eight digits",
        "proof/dialects/proof_codec.py",
        'f"event-{sequence:06d}.json"',
        'f"event-{sequence:08d}.json"',
        ("tests/proof/test_seed_003.py::test_seed003_12_event_files_are_padded_to_six_digits",),
    ),
    Mutant(
        "003-12",
        "a number of seven digits is not recognised",
        "proof/dialects/proof_codec.py",
        "[1-9][0-9]{0,17})",
        "[1-9][0-9]{0,5})",
        ("tests/proof/test_seed_003.py::test_seed003_12_they_still_sort_past_999999",),
    ),
    Mutant(
        "003-12",
        "events sort by their names",
        "proof/proof_folder.py",
        "sorted(filter(None, map(self.dialect.sequence_of, names)))",
        "list(filter(None, map(self.dialect.sequence_of, sorted(names))))",
        ("tests/proof/test_seed_003.py::test_seed003_12_they_still_sort_past_999999",),
    ),
    Mutant(
        "003-13",
        "an event is not synced",
        "proof/proof_folder.py",
        """\
        if sync:
            os.fsync(descriptor)
        return os""",
        "        return os",
        (
            "tests/proof/test_seed_003.py::test_seed003_13_an_event_is_written_aside_synced_and_published_whole",
        ),
    ),
    Mutant(
        "003-13",
        "the folder is not synced",
        "proof/event_ledger.py",
        """\
            if self._sync:
                self.folder.sync()
""",
        "            pass\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_13_an_event_is_written_aside_synced_and_published_whole",
        ),
    ),
    Mutant(
        "003-13",
        "an event is written in place",
        "proof/proof_folder.py",
        "os.link(self.path, self._folder.event(sequence))",
        "write_new(self._folder.event(sequence), self.data)",
        (
            "tests/proof/test_seed_003.py::test_seed003_13_an_event_is_written_aside_synced_and_published_whole",
        ),
    ),
    Mutant(
        "003-13",
        "the temporary file of an event stays",
        "proof/event_ledger.py",
        """\
            for draft in drafts:
                draft.discard()
            self.mutex""",
        "            self.mutex",
        (
            "tests/proof/test_seed_003.py::test_seed003_13_an_event_is_written_aside_synced_and_published_whole",
        ),
    ),
    Mutant(
        "003-13",
        "an event replaces another",
        "proof/proof_folder.py",
        "os.link(self.path, self._folder.event(sequence))",
        "os.replace(self.path, self._folder.event(sequence))",
        (
            "tests/proof/test_seed_003.py::test_seed003_13_it_never_replaces_an_event",
            "tests/proof/test_seed_003.py::test_seed003_13_an_event_is_written_aside_synced_and_published_whole",
        ),
    ),
    Mutant(
        "003-14",
        "readers take the lock",
        "proof/event_ledger.py",
        """\
        for sequence, data, _status in raw(self.folder, after):
            yield""",
        """\
        with self.locked():
            found = list(raw(self.folder, after))
        for sequence, data, _status in found:
            yield""",
        ("tests/proof/test_seed_003.py::test_seed003_14_readers_need_no_lock",),
    ),
    Mutant(
        "003-14",
        "a read creates a folder",
        "proof/proof_folder.py",
        "        self.dialect: Final[Dialect] = dialect.found(self)\n",
        "        self.dialect: Final[Dialect] = dialect.found(self)\n        self.make_own()\n",
        ("tests/proof/test_seed_003.py::test_seed003_14_and_leave_nothing_behind",),
    ),
    Mutant(
        "003-15",
        "a writer takes no lock",
        "proof/event_ledger.py",
        """\
                self._lock.acquire()
                try:
                    dialect""",
        """\
                try:
                    dialect""",
        (
            "tests/proof/test_seed_003.py::test_seed003_15_it_compares_and_appends_under_the_lock_and_releases_it",
        ),
    ),
    Mutant(
        "003-15",
        "a writer compares the numbers only before it has the lock",
        "proof/event_ledger.py",
        """\
                    check(head)
                    if self.now()""",
        "                    if self.now()",
        (
            "tests/proof/test_seed_003.py::test_seed003_15_it_compares_and_appends_under_the_lock_and_releases_it",
        ),
    ),
    Mutant(
        "003-15",
        "a writer that is refused keeps the lock",
        "proof/event_ledger.py",
        """\
                finally:
                    kept = self._lock.release()
""",
        """\
                except OSError:
                    self._lock.release()
                    raise
                else:
                    kept = self._lock.release()
""",
        (
            "tests/proof/test_seed_003.py::test_seed003_15_it_compares_and_appends_under_the_lock_and_releases_it",
        ),
    ),
    Mutant(
        "003-15",
        "a writer whose number was taken gives up",
        "proof/event_ledger.py",
        "_TRIES = 50",
        "_TRIES = 1",
        ("tests/proof/test_proof_ledger.py::test_a_number_taken_without_the_lock_is_left_alone",),
    ),
    Mutant(
        "003-15",
        "a mismatch of one is accepted",
        "proof/event_ledger.py",
        "expected is not None and head != expected",
        "expected is not None and head > expected + 1",
        (
            "tests/proof/test_seed_003.py::test_seed003_15_it_compares_and_appends_under_the_lock_and_releases_it",
        ),
    ),
    Mutant(
        "003-16",
        "any owner may release and refresh any claim",
        "proof/claims.py",
        "if found is None or found.owner != owner:",
        "if found is None:",
        (
            "tests/proof/test_seed_003.py::test_seed003_16_only_the_owner_refreshes_and_releases",
            "tests/proof/test_seed_003.py::test_seed003_16_a_late_release_frees_no_successor",
        ),
    ),
    Mutant(
        "003-16",
        "an expired claim is refreshed and released",
        "proof/claims.py",
        """\
        if not found.is_live(self._ledger.now()):
            raise LockExpiredError(""",
        """\
        if found.expires_at is None:
            raise LockExpiredError(""",
        ("tests/proof/test_seed_003.py::test_seed003_16_an_expired_claim_is_usable_by_nobody",),
    ),
    Mutant(
        "003-16",
        "an expired claim keeps others out",
        "proof/claims.py",
        "        if found is not None and found.is_live(at):\n            hint",
        "        if found is not None:\n            hint",
        ("tests/proof/test_seed_003.py::test_seed003_16_an_expired_claim_is_usable_by_nobody",),
    ),
    Mutant(
        "003-16",
        "a refresh changes nothing",
        "proof/claim_state.py",
        "        self.claims[claim.node] = claim\n",
        "        self.claims.setdefault(claim.node, claim)\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_16_a_refresh_is_a_new_lock_acquired_by_the_same_owner",
        ),
    ),
    Mutant(
        "003-16",
        "a proof in both dialects counts as one of ours",
        "proof/dialects/dialect.py",
        "    if theirs and ours:\n        raise _mixed(folder.root, theirs, ours)\n",
        "    if theirs and ours:\n        return SEED\n",
        (
            "tests/proof/test_proof_dialect.py::test_every_command_refuses_a_mixed_proof_before_it_writes_a_byte",
        ),
    ),
    Mutant(
        "003-17",
        "of several simultaneous claims of a node more than one succeeds",
        "proof/event_ledger.py",
        """\
                    check(head)
                    if self.now()""",
        "                    if self.now()",
        (
            "tests/proof/test_proof_claims.py::test_a_claim_that_came_between_is_seen_under_the_lock",
        ),
    ),
    Mutant(
        "003-17",
        "any claim keeps all nodes",
        "proof/claims.py",
        "        found = self._state.claims.get(node)\n        if found is not None and found.is_live(at):\n            hint",
        "        found = next(iter(self._state.claims.values()), None)\n        if found is not None and found.is_live(at):\n            hint",
        ("tests/proof/test_seed_003.py::test_seed003_17_claims_of_different_nodes_never_conflict",),
    ),
    Mutant(
        "003-17",
        "a partial event is visible",
        "proof/proof_folder.py",
        "os.link(self.path, self._folder.event(sequence))",
        "write_new(self._folder.event(sequence), self.data)",
        (
            "tests/proof/test_seed_003.py::test_seed003_17_a_writer_that_is_killed_at_any_step_leaves_whole_events",
        ),
    ),
    Mutant(
        "003-17",
        "a killed writer locks out all others",
        "proof/ledger_lock.py",
        "if self._break_dead():",
        "if self._wait_seconds > 60 and self._break_dead():",
        (
            "tests/proof/test_seed_003.py::test_seed003_17_a_writer_that_is_killed_at_any_step_leaves_whole_events",
        ),
    ),
    Mutant(
        "003-17",
        "the last in line goes first",
        "proof/append_line.py",
        "self._place <= 1 or self._is_free(self._file(), 1, self._place - 1)",
        "self._is_free(self._file(), self._place + 1, 1 << 20)",
        ("tests/proof/test_seed_003.py::test_seed003_17_fair_among_ours_in_the_order_of_arrival",),
    ),
    Mutant(
        "003-17",
        "a batch is appended partially",
        "proof/event_ledger.py",
        "return self.commit(lambda: batch, lambda head",
        "return self.commit(lambda: batch[:2], lambda head",
        (
            "tests/proof/test_proof_ledger.py::test_any_interleaving_of_appenders_gives_all_numbers_without_gap",
        ),
    ),
    Mutant(
        "003-17",
        "claims never expire",
        "proof/claim_state.py",
        "self.expires_at is None or self.expires_at > now",
        "self.expires_at is None or self.expires_at > 0",
        ("tests/proof/test_seed_003.py::test_seed003_07_expired_ones_are_filtered",),
    ),
    Mutant(
        "003-02",
        "a waiter checks a third as often",
        "proof/ledger_lock.py",
        "POLL_SECONDS = 0.010",
        "POLL_SECONDS = 0.030",
        (
            "tests/proof/test_seed_003.py::test_seed003_02_with_the_real_clock_it_takes_5_seconds_and_looks_every_10_ms",
        ),
    ),
    Mutant(
        "003-09",
        "a claim reaps nothing",
        "proof/claims.py",
        "            ended[:] = self._stale(now, node)\n            taken",
        "            ended[:] = []\n            taken",
        (
            "tests/proof/test_seed_003.py::test_seed003_09_a_claim_reaps_what_is_stale_in_the_same_step",
        ),
    ),
    Mutant(
        "003-09",
        "a command that follows the ledger reaps nothing",
        "cli/proof_commands.py",
        "            _reap_quietly(claims)\n",
        "            pass\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_09_a_command_that_follows_the_events_reaps_from_time_to_time",
        ),
    ),
    Mutant(
        "003-15",
        "all pauses between retries are of the same length",
        "proof/backoff.py",
        "pause = min(pause * 2, longest)",
        "pause = min(pause, longest)",
        (
            "tests/proof/test_seed_003.py::test_seed003_15_retries_after_a_mismatch_pause_longer_each_time",
        ),
    ),
    Mutant(
        "003-15",
        "a retry does not decide again",
        "proof/event_ledger.py",
        "_DECISIONS = 20",
        "_DECISIONS = 1",
        (
            "tests/proof/test_seed_003.py::test_seed003_15_retries_after_a_mismatch_pause_longer_each_time",
        ),
    ),
    Mutant(
        "003-16",
        "the file of another's claim is overwritten",
        "proof/claims.py",
        "            raise _locked(\n                shown, f",
        "            return\n            raise _locked(\n                shown, f",
        (
            "tests/proof/test_seed_003.py::test_seed003_16_the_file_of_anothers_claim_refuses_and_is_not_written_over",
        ),
    ),
    Mutant(
        "003-16",
        "an event changes a node that another has claimed",
        "proof/claims.py",
        "        nodes = [] if force else nodes_of(event)\n",
        "        nodes: list[str] = []\n",
        (
            "tests/proof/test_seed_003.py::test_seed003_16_a_node_that_another_has_claimed_is_not_changed",
            "tests/proof/test_seed_003.py::test_seed003_16_nor_one_that_was_claimed_while_the_lock_was_waited_for",
        ),
    ),
    Mutant(
        "003-16",
        "the claims of af are not seen",
        "proof/dialects/af_dialect.py",
        "        elif type == CLAIMED:\n            since",
        "        elif type == CREATED:\n            since",
        ("tests/proof/test_proof_af.py::test_a_claim_of_af_is_respected_until_it_expires",),
    ),
    Mutant(
        "003-16",
        "an expired claim in af is claimed again without a release",
        "proof/claims.py",
        "            return [*self._reaped(ended), taken]\n",
        "            return [taken]\n",
        (
            "tests/proof/test_proof_af.py::test_an_expired_claim_is_released_before_the_node_is_claimed_again",
        ),
    ),
    Mutant(
        "003-16",
        "an expired claim that another process released is released again in af",
        "proof/claims.py",
        "                events, check, settle, lambda: ended == self._stale(made.acquired_at or 0, node)\n",
        "                events, check, settle\n",
        ("tests/proof/test_proof_af.py::test_what_came_between_is_not_released_twice",),
    ),
]
