"""Worktree locks and snapshots: a mutant for every promise of 000."""

from __future__ import annotations

from mutants.table import Mutant

MUTANTS: list[Mutant] = [
    Mutant(
        "000-01",
        "any holder writes with the lock of another",
        "trees/locking/worktree_locks.py",
        """\
        if record.holder_id != holder_id:
            raise LockNotHeldError(""",
        """\
        if not holder_id:
            raise LockNotHeldError(""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_01_an_exclusive_worktree_has_one_writer",
        ),
    ),
    Mutant(
        "000-01",
        "a second lock takes the place of the first",
        "trees/locking/worktree_locks.py",
        """\
        if lock.record is not None:
            raise _expired(lock.record) if lock.is_expired else _conflict(lock.record, holder_id)
        record = lock.issue(holder_id, lease_seconds)
        lock.publish(record)
""",
        """\
        record = lock.issue(holder_id, lease_seconds)
        lock.replace(record)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_01_an_exclusive_worktree_has_one_writer",
        ),
    ),
    Mutant(
        "000-01",
        "each holder has a lock file of its own",
        "trees/locking/worktree_locks.py",
        """\
        path = _record_path(self._worktree)
        beside = f"{path}{tree_files.UNFINISHED}"
""",
        """\
        path = f"{_record_path(self._worktree)[:-5]}-{record.lock_id}.json"
        beside = f"{path}{tree_files.UNFINISHED}"
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_01_an_exclusive_worktree_has_one_writer",
        ),
    ),
    Mutant(
        "000-02",
        "a shared worktree needs a lock too",
        "trees/locking/operation_rights.py",
        """\
        if not worktree.is_shared:
""",
        """\
        if worktree.isolation:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_02_a_shared_worktree_enforces_nothing_and_is_marked",
        ),
    ),
    Mutant(
        "000-02",
        "a shared worktree can be locked",
        "trees/locking/worktree_locks.py",
        """\
def _refuse_shared(worktree: Worktree) -> None:
    if worktree.is_shared:
""",
        """\
def _refuse_shared(worktree: Worktree) -> None:
    if not worktree.isolation:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_02_a_shared_worktree_enforces_nothing_and_is_marked",
        ),
    ),
    Mutant(
        "000-02",
        "programs are not told of the high risk",
        "cli/tree/tree_worktrees.py",
        '"high_risk": worktree.is_shared,',
        '"high_risk": False,',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_02_a_shared_worktree_enforces_nothing_and_is_marked",
        ),
    ),
    Mutant(
        "000-02",
        "people are not told of the high risk",
        "cli/tree/tree_worktrees.py",
        'return "shared (high risk)" if worktree.is_shared else worktree.isolation',
        "return worktree.isolation",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_02_a_shared_worktree_enforces_nothing_and_is_marked",
        ),
    ),
    Mutant(
        "000-02",
        "a shared worktree has no warning",
        "cli/tree/tree_worktrees.py",
        """\
    if worktree.is_shared:
        found.append("it is shared""",
        """\
    if not worktree.isolation:
        found.append("it is shared""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_02_a_shared_worktree_enforces_nothing_and_is_marked",
        ),
    ),
    Mutant(
        "000-03",
        "the control folder has another name",
        "trees/repository.py",
        'CONTROL = ".jvs"',
        'CONTROL = ".trees"',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_03_lock_records_are_files_below_jvs_locks",
        ),
    ),
    Mutant(
        "000-03",
        "records are in another folder",
        "trees/locking/worktree_locks.py",
        'return worktree.repository.path("locks", f"{worktree.id}.json")',
        'return worktree.repository.path("staging", f"{worktree.id}.json")',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_03_lock_records_are_files_below_jvs_locks",
        ),
    ),
    Mutant(
        "000-03",
        "a record is named by its worktree's name",
        "trees/locking/worktree_locks.py",
        'return worktree.repository.path("locks", f"{worktree.id}.json")',
        'return worktree.repository.path("locks", f"{worktree.name}.json")',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_03_lock_records_are_files_below_jvs_locks",
        ),
    ),
    Mutant(
        "000-03",
        "a record outlives its lock",
        "trees/locking/worktree_locks.py",
        """\
        os.unlink(_record_path(worktree))
""",
        """\
        tree_files.replace(_record_path(worktree), tree_files.pretty({}))
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_03_lock_records_are_files_below_jvs_locks",
        ),
    ),
    Mutant(
        "000-04",
        "a field is missing",
        "trees/locking/worktree_locks.py",
        "files.write_new(beside, tree_files.pretty(record.to_dict()))",
        'files.write_new(beside, tree_files.pretty({name: value for name, value in record.to_dict().items() if name != "created_at"}))',
        ("tests/trees/test_seed_000_trees.py::test_seed000_04_a_lock_record_has_its_seven_fields",),
    ),
    Mutant(
        "000-04",
        "the id of a lock is not a UUID",
        "trees/locking/worktree_locks.py",
        "lock_id=str(uuid.uuid4())",
        "lock_id=uuid.uuid4().hex",
        ("tests/trees/test_seed_000_trees.py::test_seed000_04_a_lock_record_has_its_seven_fields",),
    ),
    Mutant(
        "000-04",
        "a record names its worktree by name",
        "trees/locking/worktree_locks.py",
        "worktree_id=self._worktree.id, holder_id=holder_id,",
        "worktree_id=self._worktree.name, holder_id=holder_id,",
        ("tests/trees/test_seed_000_trees.py::test_seed000_04_a_lock_record_has_its_seven_fields",),
    ),
    Mutant(
        "000-04",
        "the token is a string",
        "trees/locking/lock_records.py",
        """\
        return {name: getattr(self, name) for name in _ORDER}
""",
        """\
        return {name: str(getattr(self, name)) for name in _ORDER}
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_04_a_lock_record_has_its_seven_fields",),
    ),
    Mutant(
        "000-04",
        "a renewal is not recorded",
        "trees/locking/lock_records.py",
        'fields |= {"last_renewed_at": iso(now), "lease_expires_at"',
        'fields |= {"lease_expires_at"',
        ("tests/trees/test_seed_000_trees.py::test_seed000_04_a_lock_record_has_its_seven_fields",),
    ),
    Mutant(
        "000-04",
        "a renewal changes the time of acquisition",
        "trees/locking/lock_records.py",
        'fields |= {"last_renewed_at": iso(now), "lease_expires_at"',
        'fields |= {"created_at": iso(now), "last_renewed_at": iso(now), "lease_expires_at"',
        ("tests/trees/test_seed_000_trees.py::test_seed000_04_a_lock_record_has_its_seven_fields",),
    ),
    Mutant(
        "000-04",
        "a holder has no start time",
        "trees/locking/worktree_holders.py",
        '{holder.witness.pid}:{holder.witness.start}"',
        '{holder.witness.pid}"',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_04_the_holder_is_the_session_and_not_the_command",
        ),
    ),
    Mutant(
        "000-04",
        "the holder is the command",
        "trees/locking/worktree_holders.py",
        "{_part(user)}:{holder.witness.pid}:",
        "{_part(user)}:{os.getpid()}:",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_04_the_holder_is_the_session_and_not_the_command",
        ),
    ),
    Mutant(
        "000-04",
        "host and user are swapped",
        "trees/locking/worktree_holders.py",
        '    return f"{host}:{_part(user)}:{holder.witness.pid}',
        '    return f"{_part(user)}:{host}:{holder.witness.pid}',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_04_the_holder_is_the_session_and_not_the_command",
        ),
    ),
    Mutant(
        "000-05",
        "the check that the lock is free comes before the guard",
        "trees/locking/worktree_locks.py",
        """\
    with worktree.guard():
        _check_there(worktree)
        lock = _LockFiles(worktree)
        if lock.record is not None:
            raise _expired(lock.record) if lock.is_expired else _conflict(lock.record, holder_id)
        record = lock.issue(holder_id, lease_seconds)
        lock.publish(record)
""",
        """\
    lock = _LockFiles(worktree)
    if lock.record is not None:
        raise _expired(lock.record) if lock.is_expired else _conflict(lock.record, holder_id)
    with worktree.guard():
        _check_there(worktree)
        record = lock.issue(holder_id, lease_seconds)
        lock.replace(record)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_05_a_later_request_does_not_get_it_too",
            "tests/trees/test_seed_000_trees.py::test_seed000_05_of_many_who_acquire_at_once_one_gets_it",
        ),
    ),
    Mutant(
        "000-05",
        "a record is written in place, visible before it is complete",
        "trees/locking/worktree_locks.py",
        """\
            tree_files.write_new(beside, tree_files.pretty(record.to_dict()))
            os.link(beside, path)
""",
        """\
            tree_files.write_new(path, tree_files.pretty(record.to_dict()))
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_05_a_process_killed_while_writing_it_has_it_whole_or_not_at_all",
        ),
    ),
    Mutant(
        "000-05",
        "threads decide without a mutex",
        "store/memory.py",
        """\
        if not self._mutex.acquire(False):
            self._enter(deadline)
        try:
            decision = decide(self._view())
""",
        """\
        decision = decide(self._view())
        if not self._mutex.acquire(False):
            self._enter(deadline)
        try:
""",
        ("tests/core/test_seed_000.py::test_seed000_05_no_request_is_decided_during_another",),
    ),
    Mutant(
        "000-05",
        "a request that cannot wait is granted",
        "core/rules.py",
        """\
    if not conflicts:
        return draft.done(draft.admit(request""",
        """\
    if not conflicts or not wait:
        return draft.done(draft.admit(request""",
        ("tests/core/test_seed_000.py::test_seed000_05_acquire_is_atomic",),
    ),
    Mutant(
        "000-05",
        "a lock is committed in two steps",
        "store/sqlite/rows.py",
        """\
            self._put_grant(grant, seq)
        elif type == events.LOCK_RELEASED:""",
        """\
            self._put_grant(grant, seq)
            self._ask("commit")
            self._ask("begin immediate")
        elif type == events.LOCK_RELEASED:""",
        ("tests/core/test_seed_000.py::test_seed000_05_a_lock_is_there_whole_or_not_at_all",),
    ),
    Mutant(
        "000-06",
        "the holder of a lock acquires it again",
        "trees/locking/worktree_locks.py",
        """\
        if lock.record is not None:
            raise _expired(lock.record) if""",
        """\
        if lock.record is not None and lock.record.holder_id == holder_id:
            return lock.extend(lock.record, lease_seconds)
        if lock.record is not None:
            raise _expired(lock.record) if""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_06_acquire_on_a_live_lock_is_a_conflict_even_for_its_holder",
        ),
    ),
    Mutant(
        "000-06",
        "a live lock is said to have expired",
        "trees/locking/worktree_locks.py",
        "raise _expired(lock.record) if lock.is_expired else _conflict(lock.record, holder_id)",
        "raise _conflict(lock.record, holder_id) if lock.is_expired else _expired(lock.record)",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_06_acquire_on_a_live_lock_is_a_conflict_even_for_its_holder",
        ),
    ),
    Mutant(
        "000-06",
        "a lease ends a moment early",
        "trees/locking/lock_records.py",
        """\
        return reading.uptime >= counter.ends_at_uptime
""",
        """\
        return reading.uptime >= counter.ends_at_uptime - SECOND
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_06_acquire_on_a_live_lock_is_a_conflict_even_for_its_holder",
        ),
    ),
    Mutant(
        "000-06",
        "every refusal says that the lock has expired",
        "core/rules.py",
        "code = EXPIRED_CODE if expired else CONFLICT",
        "code = EXPIRED_CODE",
        ("tests/core/test_seed_000.py::test_seed000_06_an_unexpired_lock_is_a_conflict",),
    ),
    Mutant(
        "000-06",
        "a lease ends a moment early in the ledger",
        "core/conflicts.py",
        """\
    if expires_at is not None and draft.now >= expires_at:
""",
        """\
    if expires_at is not None and draft.now >= expires_at - 1_000_000:
""",
        ("tests/core/test_seed_000.py::test_seed000_06_an_unexpired_lock_is_a_conflict",),
    ),
    Mutant(
        "000-06",
        "conflicting grants are not looked up",
        "core/rules.py",
        """\
    if view.grace_over or not view.is_free(*reach(checked_keys(request))):
""",
        """\
    if view.grace_over:
""",
        ("tests/core/test_seed_000.py::test_seed000_06_an_unexpired_lock_is_a_conflict",),
    ),
    Mutant(
        "000-07",
        "an expired lock is acquired without a steal",
        "trees/locking/worktree_locks.py",
        """\
        if lock.record is not None:
            raise _expired(lock.record) if lock.is_expired else _conflict(lock.record, holder_id)
        record = lock.issue(holder_id, lease_seconds)
        lock.publish(record)
""",
        """\
        if lock.record is not None and not lock.is_expired:
            raise _conflict(lock.record, holder_id)
        record = lock.issue(holder_id, lease_seconds)
        lock.replace(record)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_07_an_expired_lock_is_acquired_only_by_stealing",
        ),
    ),
    Mutant(
        "000-07",
        "the holder of an expired lock acquires it again",
        "trees/locking/worktree_locks.py",
        """\
        if lock.record is not None:
            raise _expired(lock.record) if""",
        """\
        if lock.is_expired and lock.own(lock.record.holder_id, None).holder_id == holder_id:
            return lock.extend(lock.record, lease_seconds)
        if lock.record is not None:
            raise _expired(lock.record) if""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_07_an_expired_lock_is_acquired_only_by_stealing",
        ),
    ),
    Mutant(
        "000-07",
        "the holder revives an expired lock",
        "trees/locking/worktree_locks.py",
        """\
        record = lock.own(holder_id, token)
        if lock.is_expired:
            raise _expired(record)
        return lock.extend""",
        """\
        record = lock.own(holder_id, token)
        return lock.extend""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_07_not_even_its_holder_renews_an_expired_lock",
        ),
    ),
    Mutant(
        "000-07",
        "expired worktree locks come free like leases of files",
        "core/keys.py",
        'STEAL_ONLY_KINDS = ("worktree",)',
        'STEAL_ONLY_KINDS = ("tree",)',
        (
            "tests/core/test_seed_000.py::test_seed000_07_an_expired_lock_is_acquired_by_the_steal_flow_only",
            "tests/core/test_seed_000.py::test_seed000_07_a_dead_owners_lock_waits_for_its_expiry_too",
        ),
    ),
    Mutant(
        "000-07",
        "a dead owner's worktree is free at once",
        "core/conflicts.py",
        """\
        if why and not steal_only(grant):
            draft.end(grant, events.LOCK_REAPED, why=why)
            return None
        return grant
""",
        """\
        if why == OWNER_DEAD or (why and not steal_only(grant)):
            draft.end(grant, events.LOCK_REAPED, why=why)
            return None
        return grant
""",
        (
            "tests/core/test_seed_000.py::test_seed000_07_a_dead_owners_lock_waits_for_its_expiry_too",
        ),
    ),
    Mutant(
        "000-07",
        "a request that may wait queues for an expired lock",
        "core/rules.py",
        """\
    if any(_expired_and_not_stolen(draft, conflict) for conflict in conflicts):
        return _refuse(draft, request, ticket, conflicts)
""",
        "",
        (
            "tests/core/test_seed_000.py::test_seed000_07_an_expired_lock_is_acquired_by_the_steal_flow_only",
        ),
    ),
    Mutant(
        "000-08",
        "any holder renews any lock",
        "trees/locking/worktree_locks.py",
        """\
        record = lock.own(holder_id, token)
        if lock.is_expired""",
        """\
        record = lock.record or lock.own(holder_id, token)
        if lock.is_expired""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_08_only_the_holder_renews",),
    ),
    Mutant(
        "000-08",
        "a renewal without a lock issues one",
        "trees/locking/worktree_locks.py",
        """\
        if record is None:
            raise LockNotHeldError(
                f"the lock of worktree {name} is not held",
                hint="acquire it first: holdfast tree lock acquire",
                holder=holder_id,
            )
""",
        """\
        if record is None:
            record = self.issue(holder_id, LEASE_SECONDS_DEFAULT)
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_08_only_the_holder_renews",),
    ),
    Mutant(
        "000-08",
        "any holder renews any grant",
        "core/rules.py",
        """\
        is_holder = holder_key == grant.holder.key
""",
        """\
        is_holder = True
""",
        ("tests/core/test_seed_000.py::test_seed000_08_only_the_current_holder_renews",),
    ),
    Mutant(
        "000-09",
        "a renewal does not move the end of a lock",
        "trees/locking/lock_records.py",
        '"lease_expires_at": iso(after(now, lease_seconds))}',
        '"lease_expires_at": iso(after(moment(self.created_at), lease_seconds))}',
        ("tests/trees/test_seed_000_trees.py::test_seed000_09_a_renewal_extends_the_lease",),
    ),
    Mutant(
        "000-09",
        "a renewal does not move the end by uptime",
        "trees/locking/worktree_locks.py",
        """\
        self._count(renewed, lease_seconds)
        self.replace(renewed)
""",
        """\
        self.replace(renewed)
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_09_a_renewal_extends_the_lease",),
    ),
    Mutant(
        "000-09",
        "a renewal is a new lock",
        "trees/locking/worktree_locks.py",
        """\
        return lock.extend(record, lease_seconds or record.lease_seconds)
""",
        """\
        record = lock.issue(holder_id, lease_seconds or record.lease_seconds)
        lock.replace(record)
        return record
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_09_a_renewal_extends_the_lease",),
    ),
    Mutant(
        "000-09",
        "a renewal is not recorded",
        "trees/locking/worktree_locks.py",
        """\
        self.replace(renewed)
        return renewed
""",
        """\
        return renewed
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_09_a_renewal_extends_the_lease",),
    ),
    Mutant(
        "000-09",
        "a renewal does not move the end of a grant",
        "core/rules.py",
        """\
        expires_at = max(expires_at or 0, draft.now + (ttl or length or 0))
""",
        """\
        expires_at = max(expires_at or 0, grant.acquired_at + (ttl or length or 0))
""",
        ("tests/core/test_seed_000.py::test_seed000_09_a_renewal_extends_the_lease",),
    ),
    Mutant(
        "000-10",
        "a holder whose lock was stolen still writes",
        "trees/locking/worktree_locks.py",
        """\
        if record.holder_id != holder_id:
            raise LockNotHeldError(""",
        """\
        if not holder_id:
            raise LockNotHeldError(""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_10_a_failed_renewal_stops_the_holders_writes",
        ),
    ),
    Mutant(
        "000-10",
        "an old token of the same holder still writes",
        "trees/locking/worktree_locks.py",
        """\
        if token is not None and (record is None or record.fencing_token != token):
""",
        """\
        if token is not None and (record is None or record.holder_id != holder_id):
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_10_a_failed_renewal_stops_the_holders_writes",
        ),
    ),
    Mutant(
        "000-10",
        "an operation does not notice a failed renewal",
        "trees/locking/operation_rights.py",
        """\
        worktree_locks.renew(self._worktree, self._holder_id, token=self.token)
""",
        """\
        try:
            worktree_locks.renew(self._worktree, self._holder_id, token=self.token)
        except Exception:
            return
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_10_a_renewal_that_fails_in_the_middle_ends_an_operation_there",
        ),
    ),
    Mutant(
        "000-10",
        "an operation never renews its lease",
        "trees/locking/operation_rights.py",
        """\
        if now - self._renewed_at < self._lease_seconds * _RENEW_AFTER:
""",
        """\
        if now - self._renewed_at < self._lease_seconds / _RENEW_AFTER:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_10_a_renewal_that_fails_in_the_middle_ends_an_operation_there",
        ),
    ),
    Mutant(
        "000-10",
        "a restore does not renew its lease",
        "trees/snapshots/restoring.py",
        """\
            pulse = Pulse(progress, right.keep)
""",
        """\
            pulse = Pulse(progress)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_10_a_renewal_that_fails_in_the_middle_ends_an_operation_there",
        ),
    ),
    Mutant(
        "000-10",
        "a run goes on without its lock",
        "cli/tree/tree_running.py",
        """\
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:""",
        """\
        for number in ():
            try:""",
        ("tests/trees/test_trees_commands.py::test_a_failed_renewal_ends_the_command_of_a_run",),
    ),
    Mutant(
        "000-10",
        "a run that lost its lock has the exit code of its command",
        "cli/tree/tree_running.py",
        """\
    return NOT_HELD if keeper.lost else code
""",
        """\
    return code
""",
        ("tests/trees/test_trees_commands.py::test_a_failed_renewal_ends_the_command_of_a_run",),
    ),
    Mutant(
        "000-10",
        "an ended grant still verifies",
        "core/rules.py",
        """\
        refusal = lost(grant, id)
        return Verdict(allowed=False, code=refusal.code, reason=refusal.message)
""",
        """\
        refusal = lost(grant, id)
        return Verdict(allowed=True, code=refusal.code, reason=refusal.message)
""",
        (
            "tests/core/test_seed_000.py::test_seed000_10_a_failed_renewal_stops_the_holders_writes",
            "tests/core/test_seed_000.py::test_seed000_10_so_does_one_of_a_stolen_worktree",
        ),
    ),
    Mutant(
        "000-10",
        "a late renewal revives a grant",
        "core/rules.py",
        """\
    if why in ("expired", "idle") and not steal_only(grant):
        ended = draft.end(grant""",
        """\
    if why == "idle" and not steal_only(grant):
        ended = draft.end(grant""",
        ("tests/core/test_seed_000.py::test_seed000_10_a_failed_renewal_stops_the_holders_writes",),
    ),
    Mutant(
        "000-11",
        "a lock is stolen before it has expired",
        "trees/locking/worktree_locks.py",
        """\
        if not lock.is_expired:
            raise _conflict(lock.record, holder_id, verb=""",
        """\
        if lock.record is not None and lock.record.holder_id == holder_id:
            raise _conflict(lock.record, holder_id, verb=""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_11_nothing_is_stolen_before_it_has_expired",
            "tests/trees/test_seed_000_trees.py::test_seed000_11_not_even_a_dead_owners_lock",
            "tests/trees/test_seed_000_trees.py::test_seed000_11_setting_the_wall_clock_frees_nothing_and_freezes_nothing",
        ),
    ),
    Mutant(
        "000-11",
        "a lease ends a second early",
        "trees/locking/lock_records.py",
        """\
        return reading.uptime >= counter.ends_at_uptime
""",
        """\
        return reading.uptime >= counter.ends_at_uptime - SECOND
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_11_nothing_is_stolen_before_it_has_expired",
        ),
    ),
    Mutant(
        "000-11",
        "a lease lasts longer than it says",
        "trees/locking/lock_records.py",
        """\
        return reading.uptime >= counter.ends_at_uptime
""",
        """\
        return reading.uptime > counter.ends_at_uptime
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_11_nothing_is_stolen_before_it_has_expired",
        ),
    ),
    Mutant(
        "000-11",
        "a dead owner's lock is stolen at once",
        "trees/locking/worktree_locks.py",
        """\
        if not lock.is_expired:
            raise _conflict(lock.record, holder_id, verb=""",
        """\
        pid = lock.record.holder_id.split(":")[2] if lock.record is not None else ""
        if not lock.is_expired and os.path.exists(f"/proc/{pid}"):
            raise _conflict(lock.record, holder_id, verb=""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_11_not_even_a_dead_owners_lock",),
    ),
    Mutant(
        "000-11",
        "the wall clock decides",
        "trees/locking/lock_records.py",
        """\
    if counter.lock_id == record.lock_id and counter.boot == reading.boot != "":
        return""",
        """\
    if counter.lock_id == record.lock_id and reading.boot == "":
        return""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_11_setting_the_wall_clock_frees_nothing_and_freezes_nothing",
        ),
    ),
    Mutant(
        "000-11",
        "any conflicting lock can be stolen",
        "core/rules.py",
        """\
        if clash and fate(draft, grant) == EXPIRED:
""",
        """\
        if clash:
""",
        ("tests/core/test_seed_000.py::test_seed000_11_steal_only_when_expired",),
    ),
    Mutant(
        "000-12",
        "a token is the time of day",
        "trees/locking/lock_records.py",
        """\
        return max(seen + 1, reading.wall)
""",
        """\
        return reading.wall
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_12_a_steal_raises_the_token",
            "tests/trees/test_seed_000_trees.py::test_seed000_12_the_counter_outlives_the_record",
        ),
    ),
    Mutant(
        "000-12",
        "a thief gets the token of its victim",
        "trees/locking/lock_records.py",
        """\
        return max(seen + 1, reading.wall)
""",
        """\
        return max(seen, reading.wall)
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_12_a_steal_raises_the_token",),
    ),
    Mutant(
        "000-12",
        "tokens are forgotten with the record",
        "trees/locking/lock_records.py",
        """\
        seen = max(self.token, record.fencing_token if record is not None else 0)
""",
        """\
        seen = record.fencing_token if record is not None else 0
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_12_the_counter_outlives_the_record",),
    ),
    Mutant(
        "000-12",
        "the check that a lock has expired comes before the guard",
        "trees/locking/worktree_locks.py",
        """\
    with worktree.guard():
        _check_there(worktree)
        lock = _LockFiles(worktree, steals=True)
""",
        """\
    lock = _LockFiles(worktree, steals=True)
    with worktree.guard():
        _check_there(worktree)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_12_a_thief_who_comes_a_moment_later_gets_nothing",
            "tests/trees/test_trees_crashes.py::test_of_many_thieves_one_wins_and_tokens_grow",
        ),
    ),
    Mutant(
        "000-12",
        "a token of the ledger is the time of day",
        "core/draft.py",
        """\
        token if token > view.wall else view.wall,
""",
        """\
        view.wall,
""",
        ("tests/core/test_seed_000.py::test_seed000_12_a_steal_increments_the_token",),
    ),
    Mutant(
        "000-12",
        "every thief of the ledger wins",
        "core/rules.py",
        """\
        if clash and fate(draft, grant) == EXPIRED:
""",
        """\
        if clash:
""",
        ("tests/core/test_seed_000.py::test_seed000_12_exactly_one_of_many_thieves_gets_it",),
    ),
    Mutant(
        "000-13",
        "a steal is not recorded",
        "trees/locking/worktree_locks.py",
        """\
        audit_log.append(worktree.repository, "lock_stolen", facts)
""",
        "",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_13_a_steal_is_in_the_audit_log_with_both_parties",
        ),
    ),
    Mutant(
        "000-13",
        "a steal is recorded like any other lock",
        "trees/locking/worktree_locks.py",
        '"lock_stolen", facts)',
        '"lock_acquired", facts)',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_13_a_steal_is_in_the_audit_log_with_both_parties",
        ),
    ),
    Mutant(
        "000-13",
        "the thief is recorded as its own victim",
        "trees/locking/worktree_locks.py",
        '"stolen_from": _party(lock.record)}',
        '"stolen_from": _party(record)}',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_13_a_steal_is_in_the_audit_log_with_both_parties",
        ),
    ),
    Mutant(
        "000-13",
        "the reason is dropped",
        "cli/tree/tree_locks.py",
        'reason=call.text("reason") or "",',
        'reason="",',
        ("tests/trees/test_trees_commands.py::test_a_steal_by_a_command_names_the_former_holder",),
    ),
    Mutant(
        "000-13",
        "a steal takes effect before it is recorded",
        "trees/locking/worktree_locks.py",
        """\
        audit_log.append(worktree.repository, "lock_stolen", facts)
        lock.replace(record)
""",
        """\
        lock.replace(record)
        audit_log.append(worktree.repository, "lock_stolen", facts)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_13_no_steal_takes_effect_before_it_is_in_the_audit_log",
        ),
    ),
    Mutant(
        "000-13",
        "the ledger does not name the thief",
        "core/rules.py",
        "draft.end(grant, events.LOCK_STOLEN, by=by)",
        "draft.end(grant, events.LOCK_STOLEN)",
        (
            "tests/core/test_seed_000.py::test_seed000_13_a_steal_is_in_the_ledger_with_both_parties",
        ),
    ),
    Mutant(
        "000-13",
        "what was stolen is recorded as reaped",
        "core/rules.py",
        "draft.end(grant, events.LOCK_STOLEN, by=by)",
        'draft.end(grant, events.LOCK_REAPED, why="expired", by=by)',
        (
            "tests/core/test_seed_000.py::test_seed000_13_a_steal_is_in_the_ledger_with_both_parties",
        ),
    ),
    Mutant(
        "000-14",
        "any holder releases any lock",
        "trees/locking/worktree_locks.py",
        """\
        record = _LockFiles(worktree).own(holder_id, token)
        audit_log.append""",
        """\
        lock = _LockFiles(worktree)
        record = lock.record or lock.own(holder_id, token)
        audit_log.append""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_14_only_the_holder_releases",),
    ),
    Mutant(
        "000-14",
        "a release happens in the audit log only",
        "trees/locking/worktree_locks.py",
        """\
        os.unlink(_record_path(worktree))
""",
        "",
        ("tests/trees/test_seed_000_trees.py::test_seed000_14_only_the_holder_releases",),
    ),
    Mutant(
        "000-14",
        "any holder releases any grant",
        "core/rules.py",
        """\
    if holder_key is not None and holder_key != grant.holder.key:
""",
        """\
    if holder_key is not None and not grant.holder.key:
""",
        ("tests/core/test_seed_000.py::test_seed000_14_only_the_holder_releases",),
    ),
    Mutant(
        "000-14",
        "the release of another's grant reports no error",
        "core/rules.py",
        """\
    if holder_key is not None and holder_key != grant.holder.key:
        return Decision(_not_the_holder(grant))
""",
        """\
    if holder_key is not None and holder_key != grant.holder.key:
        return Decision(False)
""",
        ("tests/core/test_seed_000.py::test_seed000_14_only_the_holder_releases",),
    ),
    Mutant(
        "000-15",
        "a snapshot checks its token at the beginning only",
        "trees/snapshots/taking.py",
        """\
                self._right.check()
""",
        "",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_15_a_snapshot_checks_the_token_again_at_its_commit",
            "tests/trees/test_seed_000_trees.py::test_seed000_15_so_does_one_whose_lease_merely_expired",
            "tests/trees/test_seed_000_trees.py::test_seed000_15_no_steal_comes_between_the_check_and_the_commit",
        ),
    ),
    Mutant(
        "000-15",
        "a restore checks its token at the beginning only",
        "trees/snapshots/restoring.py",
        """\
                right.check()
""",
        "",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_15_so_does_a_restore_in_place",
            "tests/trees/test_seed_000_trees.py::test_seed000_15_no_steal_comes_between_the_check_and_the_commit",
        ),
    ),
    Mutant(
        "000-15",
        "a snapshot checks its token before the guard",
        "trees/snapshots/taking.py",
        """\
            with self._worktree.guard():
                self._right.check()
""",
        """\
            self._right.check()
            with self._worktree.guard():
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_15_no_steal_comes_between_the_check_and_the_commit",
        ),
    ),
    Mutant(
        "000-15",
        "a restore checks its token before the guard",
        "trees/snapshots/restoring.py",
        """\
            with worktree.guard():
                right.check()
""",
        """\
            right.check()
            with worktree.guard():
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_15_no_steal_comes_between_the_check_and_the_commit",
        ),
    ),
    Mutant(
        "000-15",
        "an expired lease is accepted for a commit",
        "trees/locking/worktree_locks.py",
        """\
    if lock.is_expired:
        raise _expired(record)
    return record


def discard""",
        """\
    return record


def discard""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_15_so_does_one_whose_lease_merely_expired",
        ),
    ),
    Mutant(
        "000-16",
        "the command of a snapshot ignores the token",
        "cli/tree/tree_snapshots.py",
        'consistency=call.text("consistency") or QUIESCED, token=context.token(worktree),',
        'consistency=call.text("consistency") or QUIESCED,',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_16_a_stale_token_ends_with_a_code_and_publishes_nothing",
        ),
    ),
    Mutant(
        "000-16",
        "the command of a restore ignores the token",
        "cli/tree/tree_snapshots.py",
        "worktree, context.caller().id, snapshot_id, reason=reason,\n            token=context.token(worktree),",
        "worktree, context.caller().id, snapshot_id, reason=reason,",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_16_a_stale_token_ends_with_a_code_and_publishes_nothing",
        ),
    ),
    Mutant(
        "000-16",
        "the token of a run is ignored",
        "cli/tree/tree_context.py",
        "return int(number) if id == worktree.id and number.isdigit() else None",
        "return int(number) if id == worktree.name and number.isdigit() else None",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_16_a_stale_token_ends_with_a_code_and_publishes_nothing",
        ),
    ),
    Mutant(
        "000-16",
        "an operation that lost its lock reports success",
        "cli/__init__.py",
        """\
    if isinstance(error, Lost):
        return NOT_HELD
""",
        """\
    if isinstance(error, Lost):
        return DONE
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_16_a_stale_token_ends_with_a_code_and_publishes_nothing",
        ),
    ),
    Mutant(
        "000-16",
        "a snapshot is published, then checked",
        "trees/snapshots/taking.py",
        """\
                self._right.check()
                if self._worktree.head() == head:
                    self._commit()
                    return fields
""",
        """\
                if self._worktree.head() == head:
                    self._commit()
                    self._right.check()
                    return fields
                head = self._worktree.head()
                facts = self._describe(account, head)
                fields = publishing.seal(self._repository, self._id, facts)
                self._commit()
                self._right.check()
                return fields
""",
        (
            "tests/trees/test_trees_crashes.py::test_a_stopped_holder_whose_lock_was_stolen_publishes_nothing",
        ),
    ),
    Mutant(
        "000-16",
        "a refused snapshot leaves its files behind",
        "trees/snapshots/taking.py",
        """\
        except BaseException:
            self._roll_back(intent)
            raise
""",
        """\
        except BaseException:
            intent.let_go()
            raise
""",
        (
            "tests/trees/test_trees_crashes.py::test_a_stopped_holder_whose_lock_was_stolen_publishes_nothing",
        ),
    ),
    Mutant(
        "000-16",
        "a removal ignores the token",
        "trees/worktree_removal.py",
        """\
    right = Right(worktree, holder_id, token)
""",
        """\
    right = Right(worktree, holder_id)
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_16_removing_needs_lock_and_token_too",),
    ),
    Mutant(
        "000-16",
        "a forced removal needs no lock",
        "trees/worktree_removal.py",
        """\
    right = Right(worktree, holder_id, token)
""",
        """\
    if force and worktree_locks.status(worktree).record is None:
        worktree_locks.acquire(worktree, holder_id)
    right = Right(worktree, holder_id, token)
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_16_removing_needs_lock_and_token_too",),
    ),
    Mutant(
        "000-17",
        "best effort is the default of the command",
        "cli/tree/tree_snapshots.py",
        'call.text("consistency") or QUIESCED',
        'call.text("consistency") or BEST_EFFORT',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_17_quiesced_is_the_default_and_is_stored",
        ),
    ),
    Mutant(
        "000-17",
        "best effort is the default",
        "trees/snapshots/taking.py",
        """\
    consistency: str = QUIESCED,
""",
        """\
    consistency: str = BEST_EFFORT,
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_17_quiesced_is_the_default_and_is_stored",
        ),
    ),
    Mutant(
        "000-17",
        "quiesced is stored as best effort",
        "trees/snapshots/taking.py",
        '"consistency_level": self._consistency,',
        '"consistency_level": BEST_EFFORT,',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_17_quiesced_is_the_default_and_is_stored",
        ),
    ),
    Mutant(
        "000-17",
        "a quiesced snapshot needs no lock",
        "trees/locking/operation_rights.py",
        """\
        if not worktree.is_shared:
""",
        """\
        if token is not None:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_17_quiesced_is_the_default_and_is_stored",
        ),
    ),
    Mutant(
        "000-17",
        "a quiesced snapshot tolerates up to 100 concurrent changes",
        "trees/snapshots/taking.py",
        """\
        if account.changed.count and self._consistency == QUIESCED:
""",
        """\
        if account.changed.count > 100 and self._consistency == QUIESCED:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_17_a_writer_meanwhile_makes_a_quiesced_snapshot_fail",
        ),
    ),
    Mutant(
        "000-17",
        "the source is not checked again after the copy",
        "trees/snapshots/taking.py",
        """\
        payload_copy.changed(source, self._building, self._pulse, account)
""",
        "",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_17_a_writer_meanwhile_makes_a_quiesced_snapshot_fail",
        ),
    ),
    Mutant(
        "000-17",
        "only size and time of change are compared",
        "trees/payload/entry_lists.py",
        '''\
f"{quoted(path)} {status.st_ino} {status.st_size} {status.st_mtime_ns} "
        f"{status.st_ctime_ns} {status.st_mode}\\n"''',
        '''\
f"{quoted(path)} {status.st_size} {status.st_mtime_ns} "
        f"{status.st_mode}\\n"''',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_17_a_writer_meanwhile_makes_a_quiesced_snapshot_fail",
        ),
    ),
    Mutant(
        "000-18",
        "a best-effort snapshot fails like a quiesced one",
        "trees/snapshots/taking.py",
        """\
        if account.changed.count and self._consistency == QUIESCED:
""",
        """\
        if account.changed.count:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-18",
        "best effort is stored as quiesced",
        "trees/snapshots/taking.py",
        '"consistency_level": self._consistency,',
        '"consistency_level": QUIESCED,',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-18",
        "best effort has no warning",
        "trees/snapshots/taking.py",
        """\
    return fields.get("consistency_level") == BEST_EFFORT or (
        fields.get("integrity_state") == "damaged"
    )
""",
        """\
    return fields.get("integrity_state") == "damaged"
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-18",
        "info warns of shared worktrees only",
        "cli/tree/tree_worktrees.py",
        """\
    data |= {"warning": bool(warnings), "warnings": warnings}
""",
        """\
    data |= {"warning": bool(worktree and worktree.is_shared), "warnings": warnings}
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-18",
        "history has no warning",
        "cli/tree/tree_snapshots.py",
        """\
    return {**fields, "warning": taking.warning(fields), "tags": named}
""",
        """\
    return {**fields, "warning": fields.get("integrity_state") == "damaged"}
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-18",
        "everything has a warning",
        "cli/tree/tree_snapshots.py",
        """\
    return {**fields, "warning": taking.warning(fields), "tags": named}
""",
        """\
    return {**fields, "warning": True}
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-18",
        "history for people has no warning",
        "cli/tree/tree_snapshots.py",
        'Cell("best_effort" if loose else "", YELLOW)',
        'Cell("", YELLOW)',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-18",
        "the files that changed are not named",
        "trees/snapshots/taking.py",
        '"changed": {"count": account.changed.count, "paths": account.changed.some},',
        '"changed": {"count": account.changed.count, "paths": []},',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_18_best_effort_goes_on_and_says_which_files",
        ),
    ),
    Mutant(
        "000-19",
        "a snapshot of an exclusive worktree needs no lock",
        "trees/locking/operation_rights.py",
        """\
        if not worktree.is_shared:
""",
        """\
        if token is not None:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_19_what_a_snapshot_needs_in_each_isolation",
        ),
    ),
    Mutant(
        "000-19",
        "a snapshot of a shared worktree needs a lock",
        "trees/locking/operation_rights.py",
        """\
        if not worktree.is_shared:
""",
        """\
        if worktree.isolation:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_19_what_a_snapshot_needs_in_each_isolation",
        ),
    ),
    Mutant(
        "000-19",
        "a snapshot ignores the token",
        "trees/snapshots/taking.py",
        """\
    right = Right(worktree, holder_id, token)
""",
        """\
    right = Right(worktree, holder_id)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_19_what_a_snapshot_needs_in_each_isolation",
        ),
    ),
    Mutant(
        "000-19",
        "a snapshot of a shared worktree is always best effort",
        "trees/snapshots/taking.py",
        """\
        self._consistency = consistency
""",
        """\
        self._consistency = BEST_EFFORT if worktree.is_shared else consistency
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_19_what_a_snapshot_needs_in_each_isolation",
        ),
    ),
    Mutant(
        "000-19",
        "a snapshot does not say how its worktree was isolated",
        "trees/snapshots/taking.py",
        '"isolation": worktree.isolation,',
        '"isolation": "exclusive",',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_19_what_a_snapshot_needs_in_each_isolation",
        ),
    ),
    Mutant(
        "000-20",
        "history is for the holder of the lock",
        "cli/tree/tree_snapshots.py",
        """\
        head = worktree.head()
        found =""",
        """\
        head = worktree.head()
        restoring.Right(worktree, context.caller().id)
        found =""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_20_history_needs_no_lock_and_changes_nothing",
        ),
    ),
    Mutant(
        "000-20",
        "history removes the leftovers of others",
        "cli/tree/tree_snapshots.py",
        """\
        head = worktree.head()
        found =""",
        """\
        restoring.settle_abandoned(repository, worktree.id)
        head = worktree.head()
        found =""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_20_history_needs_no_lock_and_changes_nothing",
        ),
    ),
    Mutant(
        "000-20",
        "history rewrites the head",
        "cli/tree/tree_snapshots.py",
        """\
        head = worktree.head()
        found =""",
        """\
        head = worktree.head()
        worktree.move_head(head)
        found =""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_20_history_needs_no_lock_and_changes_nothing",
        ),
    ),
    Mutant(
        "000-20",
        "history shows the oldest first",
        "trees/snapshots/descriptors.py",
        'key=lambda one: (one["created_at"], one["snapshot_id"]), reverse=True)',
        'key=lambda one: (one["created_at"], one["snapshot_id"]))',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_20_history_needs_no_lock_and_changes_nothing",
        ),
    ),
    Mutant(
        "000-21",
        "a safe restore needs the lock of the current worktree",
        "cli/tree/tree_snapshots.py",
        """\
    name = checked_name(call.text("name") or restoring.new_name(snapshot_id))
""",
        """\
    name = checked_name(call.text("name") or restoring.new_name(snapshot_id))
    restoring.Right(context.worktree(), context.caller().id)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_21_a_safe_restore_needs_no_lock_and_makes_a_new_worktree",
        ),
    ),
    Mutant(
        "000-21",
        "a second restore of a snapshot has the name of the first",
        "trees/snapshots/restoring.py",
        'return f"restore-{snapshot_id[:SHORT_CHARACTERS]}-{at}-{secrets.token_hex(2)}"',
        'return f"restore-{snapshot_id[:SHORT_CHARACTERS]}-{at[:8]}-000000-0000"',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_21_a_safe_restore_needs_no_lock_and_makes_a_new_worktree",
        ),
    ),
    Mutant(
        "000-21",
        "the new worktree is a part of the old one",
        "trees/snapshots/restoring.py",
        """\
                repository, building, isolation, made_by=intent.id, id=worktree_id,
""",
        """\
                repository, building, isolation, made_by=intent.id, id=worktrees.find(repository, "main").id,
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_21_a_safe_restore_needs_no_lock_and_makes_a_new_worktree",
        ),
    ),
    Mutant(
        "000-21",
        "a safe restore replaces main",
        "trees/snapshots/restoring.py",
        """\
                _give_name(building, repository.place(name), name)
""",
        """\
                if snapshot_id:
                    kernel_calls.exchange(building, repository.place("main"))
                _give_name(building, repository.place(name), name)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_21_a_safe_restore_needs_no_lock_and_makes_a_new_worktree",
        ),
    ),
    Mutant(
        "000-22",
        "a restore in place needs no lock",
        "trees/locking/operation_rights.py",
        """\
        if not worktree.is_shared:
""",
        """\
        if token is not None:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_22_a_restore_in_place_needs_lock_and_token",
        ),
    ),
    Mutant(
        "000-22",
        "a restore in place ignores the token",
        "trees/snapshots/restoring.py",
        """\
    right = Right(worktree, holder_id, token)
""",
        """\
    right = Right(worktree, holder_id)
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_22_a_restore_in_place_needs_lock_and_token",
        ),
    ),
    Mutant(
        "000-22",
        "a restore in place is allowed in a shared worktree",
        "trees/snapshots/restoring.py",
        "worktree.config.get(ALLOW_IN_PLACE) is not True:",
        "worktree.config.get(ALLOW_IN_PLACE) is False:",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_22_it_is_off_in_a_shared_worktree_until_it_is_allowed",
        ),
    ),
    Mutant(
        "000-22",
        "a restore in place cannot be allowed",
        "trees/snapshots/restoring.py",
        """\
    if worktree.is_shared and worktree.config.get(ALLOW_IN_PLACE) is not True:
""",
        """\
    if worktree.is_shared:
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_22_it_is_off_in_a_shared_worktree_until_it_is_allowed",
        ),
    ),
    Mutant(
        "000-22",
        "a reason is as good as force",
        "cli/tree/tree_snapshots.py",
        '    if not call.flag("force") or not reason or',
        '    if (not call.flag("force") and not reason) or',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_22_the_command_wants_force_and_a_reason",
        ),
    ),
    Mutant(
        "000-22",
        "the reason is not recorded",
        "trees/locking/intent_recovery.py",
        '"worktree_id", "worktree", "snapshot_id", "previous_head", "reason", "holder_id",',
        '"worktree_id", "worktree", "snapshot_id", "previous_head", "holder_id",',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_22_the_command_wants_force_and_a_reason",
        ),
    ),
    Mutant(
        "000-22",
        "two renames instead of an exchange",
        "trees/snapshots/restoring.py",
        """\
        kernel_calls.exchange(building, place)
""",
        """\
        os.rename(place, f"{building}.old")
        os.rename(building, place)
        os.rename(f"{building}.old", building)
""",
        (
            "tests/trees/test_trees_crashes.py::test_a_restore_in_place_that_is_killed_leaves_the_old_payload_or_the_new_one",
        ),
    ),
    Mutant(
        "000-23",
        "a snapshot with only a descriptor is visible",
        "trees/snapshots/descriptors.py",
        """\
    return os.path.lexists(path(repository, id)) and os.path.lexists(
        f"{folder(repository, id)}/{READY}"
    )
""",
        """\
    return os.path.lexists(path(repository, id))
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_23_only_ready_snapshots_are_seen",),
    ),
    Mutant(
        "000-23",
        "history does not check for the mark",
        "trees/snapshots/descriptors.py",
        'name.endswith(".json") and is_visible(repository, id):',
        'name.endswith(".json"):',
        ("tests/trees/test_seed_000_trees.py::test_seed000_23_only_ready_snapshots_are_seen",),
    ),
    Mutant(
        "000-23",
        "a snapshot without its mark is reported as damaged",
        "trees/snapshots/descriptors.py",
        """\
    if not is_visible(repository, id):
        raise _partial(id)
    why""",
        "    why",
        ("tests/trees/test_seed_000_trees.py::test_seed000_23_only_ready_snapshots_are_seen",),
    ),
    Mutant(
        "000-23",
        "the mark has another name",
        "trees/snapshots/descriptors.py",
        'READY = ".READY"',
        'READY = ".DONE"',
        ("tests/trees/test_seed_000_trees.py::test_seed000_23_only_ready_snapshots_are_seen",),
    ),
    Mutant(
        "000-23",
        "a snapshot gets its name before it is whole",
        "trees/snapshots/publishing.py",
        """\
    os.rename(building(repository, id), descriptors.folder(repository, id))
    tree_files.flush_folder(repository.path("snapshots"))
    path = descriptors.path(repository, id)
    os.rename(f"{path}{tree_files.UNFINISHED}", path)
""",
        """\
    path = descriptors.path(repository, id)
    os.rename(f"{path}{tree_files.UNFINISHED}", path)
    tree_files.flush_folder(repository.path("snapshots"))
    os.rename(building(repository, id), descriptors.folder(repository, id))
""",
        ("tests/trees/test_trees_crashes.py::test_a_publish_that_is_killed_is_whole_or_not_there",),
    ),
    Mutant(
        "000-24",
        "history shows every entry of the folder",
        "trees/snapshots/descriptors.py",
        """\
    for name in sorted(os.listdir(repository.path("descriptors"))):
        id = name.removesuffix(".json")
        if is_id(id) and name.endswith(".json") and is_visible(repository, id):
""",
        """\
    for name in sorted(os.listdir(repository.path("snapshots"))):
        id = name.removesuffix(tree_files.UNFINISHED)
        if is_id(id):
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_24_partial_ones_are_ignored_and_refused_by_name",
        ),
    ),
    Mutant(
        "000-24",
        "a partial snapshot does not count as a snapshot",
        "trees/snapshots/descriptors.py",
        """\
            raise _partial(name.removesuffix(tree_files.UNFINISHED))
""",
        """\
            break
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_24_partial_ones_are_ignored_and_refused_by_name",
        ),
    ),
    Mutant(
        "000-24",
        "only a snapshot marked as unfinished is refused as partial",
        "trees/snapshots/descriptors.py",
        """\
    for name in os.listdir(repository.path("snapshots")):
        if name.startswith(wanted):
""",
        """\
    for name in os.listdir(repository.path("snapshots")):
        if name.startswith(wanted) and name.endswith(tree_files.UNFINISHED):
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_24_partial_ones_are_ignored_and_refused_by_name",
        ),
    ),
    Mutant(
        "000-24",
        "a descriptor without a snapshot is shown",
        "trees/snapshots/descriptors.py",
        """\
    return os.path.lexists(path(repository, id)) and os.path.lexists(
        f"{folder(repository, id)}/{READY}"
    )
""",
        """\
    return os.path.lexists(path(repository, id))
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_24_partial_ones_are_ignored_and_refused_by_name",
        ),
    ),
    Mutant(
        "000-25",
        "abandoned intents are not reported",
        "trees/tree_damage.py",
        """\
        examination.intents,
""",
        "",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_25_the_strict_doctor_reports_leftovers_and_cleans_them_if_told",
        ),
    ),
    Mutant(
        "000-25",
        "unfinished snapshots are not reported",
        "trees/tree_damage.py",
        """\
        examination.leftovers,
""",
        "",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_25_the_strict_doctor_reports_leftovers_and_cleans_them_if_told",
        ),
    ),
    Mutant(
        "000-25",
        "the doctor cleans up without a request",
        "cli/tree/tree_health.py",
        'clean=call.flag("clean"),',
        'clean=call.flag("strict"),',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_25_the_strict_doctor_reports_leftovers_and_cleans_them_if_told",
        ),
    ),
    Mutant(
        "000-25",
        "the doctor never cleans up",
        "cli/tree/tree_health.py",
        'clean=call.flag("clean"),',
        "clean=False,",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_25_the_strict_doctor_reports_leftovers_and_cleans_them_if_told",
        ),
    ),
    Mutant(
        "000-25",
        "the doctor reports a clean-up that it did not do",
        "trees/tree_damage.py",
        """\
                tree_files.remove_tree(path)
            elif self._clean:""",
        """\
                pass
            elif self._clean:""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_25_the_strict_doctor_reports_leftovers_and_cleans_them_if_told",
        ),
    ),
    Mutant(
        "000-25",
        "the doctor reports success whatever it finds",
        "cli/tree/tree_health.py",
        """\
             "healthy": not left}
        )  # fmt: skip
        return FAILED if left else DONE
""",
        """\
             "healthy": not left}
        )  # fmt: skip
        return DONE
""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_25_the_strict_doctor_reports_leftovers_and_cleans_them_if_told",
        ),
    ),
    Mutant(
        "000-25",
        "the intent of a live process counts as abandoned",
        "trees/locking/intents.py",
        """\
        flock(descriptor, LOCK_EX | LOCK_NB)
        if os.fstat""",
        "        if os.fstat",
        ("tests/trees/test_seed_000_trees.py::test_seed000_25_work_in_progress_is_not_a_leftover",),
    ),
    Mutant(
        "000-25",
        "the files of a live process are cleaned up",
        "trees/tree_damage.py",
        """\
            if _operation(path) in known or not os.path.lexists(path):
""",
        """\
            if not os.path.lexists(path):
""",
        ("tests/trees/test_seed_000_trees.py::test_seed000_25_work_in_progress_is_not_a_leftover",),
    ),
    Mutant(
        "000-25",
        "a changed descriptor is not found",
        "trees/snapshots/descriptors.py",
        'return sealed == {"algo": ALGORITHM, "value": _checksum(fields)}',
        "return isinstance(sealed, dict)",
        (
            "tests/trees/test_trees_trouble.py::test_a_tampered_descriptor_is_found_and_not_restored",
        ),
    ),
    Mutant(
        "000-26",
        "E_LOCK_CONFLICT has another name",
        "core/errors.py",
        'code = "E_LOCK_CONFLICT"',
        'code = "E_CONFLICT"',
        (
            "tests/core/test_seed_000.py::test_seed000_26_error_classes_are_stable_and_machine_readable",
            "tests/core/test_rules_errors.py::test_each_code_has_one_class_on_its_branch",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_the_six_error_classes_have_stable_codes",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "E_LOCK_EXPIRED has another name",
        "core/errors.py",
        'code = "E_LOCK_EXPIRED"',
        'code = "E_LEASE_EXPIRED"',
        (
            "tests/core/test_seed_000.py::test_seed000_26_error_classes_are_stable_and_machine_readable",
            "tests/core/test_rules_errors.py::test_each_code_has_one_class_on_its_branch",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_the_six_error_classes_have_stable_codes",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "E_LOCK_NOT_HELD has another name",
        "core/errors.py",
        'code = "E_LOCK_NOT_HELD"',
        'code = "E_NOT_HELD"',
        (
            "tests/core/test_seed_000.py::test_seed000_26_error_classes_are_stable_and_machine_readable",
            "tests/core/test_rules_errors.py::test_each_code_has_one_class_on_its_branch",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_the_six_error_classes_have_stable_codes",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "E_FENCING_MISMATCH has another name",
        "core/errors.py",
        'code = "E_FENCING_MISMATCH"',
        'code = "E_FENCED"',
        (
            "tests/core/test_seed_000.py::test_seed000_26_error_classes_are_stable_and_machine_readable",
            "tests/core/test_rules_errors.py::test_each_code_has_one_class_on_its_branch",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_the_six_error_classes_have_stable_codes",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "E_CONSISTENCY_UNAVAILABLE has another name",
        "trees/errors.py",
        'code = "E_CONSISTENCY_UNAVAILABLE"',
        'code = "E_TREE_CHANGED"',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_26_the_six_error_classes_have_stable_codes",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "E_PARTIAL_SNAPSHOT has another name",
        "trees/errors.py",
        'code = "E_PARTIAL_SNAPSHOT"',
        'code = "E_SNAPSHOT_PARTIAL"',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_26_the_six_error_classes_have_stable_codes",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "an error has no code for programs",
        "core/root_errors.py",
        'return {"code": self.code, "message"',
        'return {"kind": type(self).__name__, "message"',
        (
            "tests/core/test_seed_000.py::test_seed000_26_error_classes_are_stable_and_machine_readable",
        ),
    ),
    Mutant(
        "000-26",
        "a command tells programs no code",
        "manager/plain_data.py",
        'return {"code": error.code, "message"',
        'return {"kind": type(error).__name__, "message"',
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "a tree that changed is reported as invalid input",
        "trees/errors.py",
        "class ConsistencyError(Refused):",
        "class ConsistencyError(InvalidInput):",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "an operation that lost its lock is told that it may retry",
        "core/errors.py",
        "class FencingError(Lost):",
        "class FencingError(Refused):",
        (
            "tests/core/test_rules_errors.py::test_each_code_has_one_class_on_its_branch",
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
    Mutant(
        "000-26",
        "using a lock that was never held is a fencing error",
        "trees/locking/worktree_locks.py",
        """\
            raise LockNotHeldError(
                f"the lock of worktree {name} is not held""",
        """\
            raise FencingError(
                f"the lock of worktree {name} is not held""",
        (
            "tests/trees/test_seed_000_trees.py::test_seed000_26_each_class_reaches_the_caller_as_json_with_its_exit_code",
        ),
    ),
]
