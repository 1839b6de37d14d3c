"""Time and chance are read in few, named places: the ledger's moments come from a `Clock` only.

Every module that reads a clock or chance is listed here with its reason. A reading is one of:

- `wait`: the monotonic clock, or a sleep: how long this process waits, or how long a call may take;
- `wall`: the wall clock, or the time since boot;
- `chance`: random numbers and fresh ids.

Turning a number into a date (`gmtime(seconds)`) reads nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent

KINDS = {
    "wait": (
        "time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns time.sleep"
        " time.process_time time.process_time_ns asyncio.sleep"
    ),
    "wall": (
        "time.time time.time_ns time.clock_gettime time.clock_gettime_ns time.ctime"
        " datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today"
        " datetime.date.today"
    ),
    "chance": "os.urandom os.getrandom",
}
READERS = {name: kind for kind, names in KINDS.items() for name in names.split()}
#: They read the wall clock unless they are given a moment, as the argument with this number.
UNLESS_GIVEN = {
    "time.gmtime": 1, "time.localtime": 1, "time.asctime": 1, "time.strftime": 2,
}  # fmt: skip
CHANCE = ("random", "secrets", "uuid")

#: (reason, what may be read, where)
ALLOWED = (
    (
        "the sources themselves, which are handed in: the Clock, and the ids of requests",
        "wait wall chance",
        "manager/clock manager/ids",
    ),
    (
        "the deadline of a call: a limit on this process, which no decision sees",
        "wait",
        """
        manager/files/ended_edits manager/keeper manager/ledger manager/manager
        store/memory store/sqlite/sqlite_store
        store/postgres/server_sections store/postgres/server_session
        store/postgres/server_store store/postgres/server_waits store/postgres/server_mover
        store/sqlite/sqlite_mover
        manager/ledger_move manager/store_check
        cli/command_context cli/dispatch/task_dispatch
        gate/broker/control/git_includes gate/broker/leasing/command_leases
        gate/broker/leasing/committed_files gate/broker/leasing/git_lookahead
        gate/broker/leasing/others_changes gate/broker/places/path_kinds
        gate/checked_write gate/door/client_events gate/door/hook_process gate/door/ledger_answer
        gate/git/commit_check gate/guard/before_command gate/guard/git_queries
        gate/guard/tree_verbs gate/guard/unclaimed_changes gate/lease_gate
        gate/people/session_line gate/people/ledger_picture gate/sandbox/gaps/gap_records
        """,
    ),
    (
        "a pause between attempts, and when to give up: another process has what is needed",
        "wait",
        """
        store/sqlite/lock_bytes store/sqlite/session store/sqlite/transaction
        store/sqlite/wake_ups store/sqlite/write_gate store/postgres/listener
        manager/files/keepsakes manager/owners/liveness
        gate/broker/calls/outside_calls gate/client_keeper gate/doctor/codex_trust
        gate/git/commit_index gate/git/hook_folder gate/git/hook_repair
        gate/install/exec_form_check gate/install/hook_command gate/people/lookout
        gate/sandbox/runner/ledger_socket gate/sandbox/runner_client
        proof/event_ledger proof/ledger_lock specs/lockfile specs/spec_files specs/spec_locks
        trees/locking/operation_guard work/engine/orphan_cleanup work/screens/assignment
        work/tasks/landing
        """,
    ),
    (
        "an event loop: what is due when in this process",
        "wait",
        """
        cli/dispatch/task_waits cli/proof_commands
        gate/broker/broker_loop gate/broker/calls/waiting_calls server/ledger_feed
        server/stream_thread trees/locking/operation_rights
        work/engine/deadlines work/engine/scheduler_loop work/launching/launcher
        """,
    ),
    ("the age of an answer that is kept for a moment", "wait", "server/server"),
    (
        "how often something is printed, and how long something took",
        "wait",
        """
        cli/dispatch/dispatch_command cli/dispatch/task_report cli/locking/log_commands
        cli/locking/status cli/tree/tree_progress cli/watching/top
        work/launching/launcher work/launching/slots
        store/sqlite/file_check store/postgres/server_check
        """,
    ),
    ("compared with the server's clock, to say by how much they differ", "wall",
     "store/postgres/server_check"),
    (
        "compared with the times of files, which the kernel takes from the wall clock",
        "wall",
        """
        store/sqlite/sqlite_store
        gate/broker/calls/call_answers gate/broker/leasing/command_leases
        gate/broker/leasing/leased_files gate/broker/leasing/others_changes gate/file_stamps
        gate/git/commit_index gate/git/hook_repair gate/guard/file_watch gate/guard/kept_files
        gate/guard/other_ledgers gate/guard/unclaimed_changes gate/pending_writes
        gate/sandbox/runner/scratch_folder
        proof/health/proof_repair proof/health/unknown_files specs/spec_files
        trees/payload/payload_copy
        """,
    ),
    (
        "compared with the start times of processes, which the kernel counts from boot",
        "wall",
        "gate/broker/calling_thread manager/owners/running_calls",
    ),
    (
        "part of a name or of a line that people read",
        "wall",
        """
        cli/dispatch/task_waits cli/guarding/off_and_on cli/locking/lock_commands
        cli/locking/status cli/printing gate/install/install_plan gate/install/ledger_takeover
        manager/owners/identity trees/snapshots/restoring
        """,
    ),
    ("a slip that another process leaves for a hook to find is good for a while", "wall",
     "gate/commands/slips"),
    (
        "a name that no other process has: of a temporary file, a run, a snapshot, a machine",
        "chance",
        """
        cli/locking/run_command cli/tree/tree_running gate/replacement
        manager/files/replace_file
        gate/sandbox/runner/scratch_folder proof/ledger_lock proof/proof_folder specs/machine
        store/sqlite/wake_ups store/postgres/listener trees/engines/__init__
        trees/locking/worktree_locks
        trees/snapshots/descriptors trees/snapshots/garbage_collection trees/snapshots/restoring
        """,
    ),
    ("a mark by which a process knows its own entry at the gate, or its session, again", "chance",
     "store/sqlite/sqlite_store store/postgres/server_session"),
    ("a secret that a browser must show", "chance", "server/server"),
    ("pauses of different lengths, so that contenders do not meet again and again", "chance",
     "proof/backoff proof/ledger_lock"),
    (
        "the demonstration, which plays agents at work",
        "wait chance",
        """
        cli/demo/demo_process cli/demo/demo_screens cli/demo/demo_screens_agent
        cli/demo/demo_tasks cli/demo/demo_tasks_agent
        """,
    ),
    (
        "the suites for stores: real processes, and generators with a given seed",
        "wait chance",
        """
        testing/conformance/child_processes testing/conformance/scene
        testing/conformance/sharing_checks testing/conformance/trouble_checks
        testing/conformance/waiting_checks testing/gate_simulator/sim_gate_events
        testing/simulator/sim_agents testing/simulator/sim_commands testing/simulator/sim_faults
        testing/simulator/sim_run testing/simulator/sim_world
        """,
    ),
)  # fmt: skip


def test_time_and_chance_are_read_only_where_a_reason_is_given() -> None:
    found = {
        (module_of(path), kind)
        for path in SOURCE.rglob("*.py")
        for kind in readings(ast.parse(path.read_text(encoding="utf-8")))
    }
    allowed = {
        (module, kind)
        for _reason, kinds, modules in ALLOWED
        for module in modules.split()
        for kind in kinds.split()
    }
    unexplained = sorted(found - allowed)
    assert not unexplained, "hand a Clock in, or give the reason here"
    modules = {module for _reason, _kinds, modules in ALLOWED for module in modules.split()}
    assert modules == {module for module, _kind in found}, (
        "this module no longer reads any of these"
    )


def test_neither_the_core_nor_the_rulebook_reads_time_or_chance() -> None:
    pure = [*(SOURCE / "core").rglob("*.py"), *(SOURCE / "gate/rulebook").rglob("*.py")]
    assert len(pure) > 25
    found = {
        module_of(path): read
        for path in pure
        if (read := readings(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert not found


def test_each_way_of_reading_is_noticed() -> None:
    for text, kind in (
        ("import time\ntime.time()", "wall"),
        ("from time import monotonic as now\nnow()", "wait"),
        ("from time import sleep\nwaiting(sleep)", "wait"),
        ("import time as clock\nclock.gmtime()", "wall"),
        ("from time import gmtime, strftime\nstrftime('%H', gmtime())", "wall"),
        ("from time import strftime\nstrftime('%H')", "wall"),
        ("from datetime import datetime, UTC\ndatetime.now(UTC)", "wall"),
        ("import datetime\ndatetime.datetime.now()", "wall"),
        ("def draw():\n    import os\n    return os.urandom(8)", "chance"),
        ("import random\nrandom.Random(3)", "chance"),
        ("from uuid import uuid4\nuuid4()", "chance"),
    ):
        assert readings(ast.parse(text)) == Counter([kind]), text
    for text in (
        "from time import gmtime\ngmtime(3)",
        "from datetime import datetime\ndatetime.fromtimestamp(3)",
        "import os\nos.getpid()",
        "def f(clock):\n    return clock.monotonic()",
    ):
        assert not readings(ast.parse(text)), text


def module_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix()


def readings(tree: ast.Module) -> Counter[str]:
    """How often a module reads which kind."""
    names = imported(tree)
    found: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = full_name(node.func, names)
            if name in UNLESS_GIVEN:
                found["wall"] += len(node.args) < UNLESS_GIVEN[name]
        if isinstance(node, ast.Attribute | ast.Name):
            kind = kind_of(full_name(node, names))
            if kind:
                found[kind] += 1
    return +found


def imported(tree: ast.Module) -> dict[str, str]:
    """What each imported name of a module stands for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({one.asname or one.name: one.name for one in node.names})
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(
                {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            )
    return names


def full_name(node: ast.expr, names: dict[str, str]) -> str:
    """The name that an expression stands for, with its module; empty if it is none."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "") if isinstance(node.ctx, ast.Load) else ""
    if isinstance(node, ast.Attribute):
        start = full_name(node.value, names)
        return f"{start}.{node.attr}" if start else ""
    return ""


def kind_of(name: str) -> str:
    module, dot, _rest = name.partition(".")
    return "chance" if dot and module in CHANCE else READERS.get(name, "")
