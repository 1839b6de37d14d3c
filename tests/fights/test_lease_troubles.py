"""Programs below `run --lease` that change their identity, bypass the filter, or attack the
broker."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lease_siege_programs
from helpers_processes import LINUX_ONLY, state_of, until
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_siege import OTHER, ROOT_ONLY, X86_64, Siege, compiled, descendants

pytestmark = [LINUX_ONLY, NEEDS_LANDLOCK, X86_64]

PROGRAMS = [sys.executable, lease_siege_programs.__file__]
#: The steps of `at_the_broker`, for each process.
TRIES = 26
ENOSYS, EFAULT, EACCES, EPERM = -38, -14, -13, -1


@pytest.fixture
def siege() -> Iterator[Siege]:
    made = Siege()
    yield made
    try:
        made.stands()
        answer = made.shell("echo served >served.txt")
        assert answer.code == 0, answer
    finally:
        made.close()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("raw"), "raw", "-no-pie")


def said(siege: Siege, name: str, *words: str, options: tuple[str, ...] = ()) -> list[str]:
    """The lines that a program prints below the command."""
    answer = siege.run(*PROGRAMS, name, *words, options=options)
    assert answer.code == 0, answer
    return answer.out.split()


# Programs that change their identity


def test_the_changes_are_made_for_a_plain_program(siege: Siege) -> None:
    # Else the tests below would prove nothing.
    assert said(siege, "plain") == ["ok"] * 6 + ["ENOENT", "ok"]


@ROOT_ONLY
@pytest.mark.parametrize(
    "name",
    [
        "another_user", "another_user_of_files", "another_user_in_a_thread", "other_groups",
        "fewer_capabilities", "another_user_namespace", "another_mount_namespace", "another_root",
    ],
)  # fmt: skip
def test_nothing_is_done_for_one_that_became_something_else(siege: Siege, name: str) -> None:
    for path in (siege.root, siege.root / "free.txt"):
        path.chmod(0o777)  # so that it is not the mode that protects it
    before = (siege.root / "free.txt").stat()
    assert said(siege, name) == ["EACCES"] * 8
    after = (siege.root / "free.txt").stat()
    assert before[:7] + before[8:] == after[:7] + after[8:], (
        "something other than the access time has changed"
    )


@ROOT_ONLY
def test_a_file_that_is_read_only_stays_so_without_the_capability(siege: Siege) -> None:
    os.chown(siege.root / "free.txt", 1, 1)
    (siege.root / "free.txt").chmod(0o444)
    assert said(siege, "fewer_capabilities")[0] == "EACCES"
    assert said(siege, "plain")[0] == "ok"


@ROOT_ONLY
def test_the_rest_of_the_command_is_served(siege: Siege) -> None:
    assert said(siege, "unlike_others") == ["ok"]


@pytest.mark.parametrize(
    "name",
    [
        "restricted", "restricted_parent", "restricted_thread",
        "restricted_thread_then_another_program", "restricted_daemon",
    ],
)  # fmt: skip
def test_one_that_closed_itself_further_stays_closed(siege: Siege, name: str) -> None:
    assert said(siege, name) == ["EACCES"] * 8


# Other ways of making system calls


@pytest.mark.parametrize(
    "op", ["open", "openat", "creat", "truncate", "unlink", "rename", "chmod", "link"]
)
def test_32_bit_calls_are_not_there(siege: Siege, raw: Path, op: str) -> None:
    assert int(siege.run(raw, "int80", op, "held.txt").out) == ENOSYS
    assert int(siege.run(raw, "int80", op, "free.txt").out) == ENOSYS


def test_other_ways_of_calling_are_not_there(siege: Siege, raw: Path) -> None:
    assert int(siege.run(raw, "x32", "held.txt").out) == ENOSYS
    assert int(siege.run(raw, "uring").out) == ENOSYS


def test_paths_at_the_edge_of_memory(siege: Siege, raw: Path) -> None:
    found = [int(line) for line in siege.run(raw, "memory", "free.txt").out.split()]
    assert found == [0, 0] + [EFAULT] * 7
    found = [int(line) for line in siege.run(raw, "memory", "held.txt").out.split()]
    assert found == [EACCES] * 2 + [EFAULT] * 7


def test_memory_that_is_kept_back_stops_only_its_owner(siege: Siege, raw: Path) -> None:
    plainly = siege.plainly(raw, "fault").out.split()
    assert plainly in (["0", "0"], [str(EPERM)]), (
        "the kernel allows this or forbids it to users; both are safe"
    )
    (siege.root / "served while waiting.txt").unlink(missing_ok=True)
    assert siege.run(raw, "fault").out.split() in (["0", "0"], [str(EPERM)])


def test_a_second_listener_is_refused_and_a_filter_is_not(siege: Siege) -> None:
    assert said(siege, "second_listener") == ["EBUSY", "ok", "ok"]
    assert said(siege, "own_filter_that_allows") == ["EACCES"]


def test_a_socket_takes_no_name_that_is_held(siege: Siege) -> None:
    assert said(siege, "unix_socket")[0] == "EADDRINUSE"


# Attacks on the broker


def test_the_broker_and_the_runner_cannot_be_reached(siege: Siege) -> None:
    script = (
        'echo ready; read pids; "$@" at_the_broker $pids; echo served >served.txt; cat served.txt'
    )
    below = siege.start("sh", "-c", script, "sh", *PROGRAMS)
    below.says("ready")
    broker, runner = below.broker, below.process.pid
    assert broker != runner
    below.tell(f"{broker} {runner}")
    answer = below.end()
    assert answer.code == 0, answer
    *tries, served = answer.out.split()
    assert served == "served"
    assert len(tries) == 2 * TRIES
    for at in (0, TRIES):
        assert "ok" not in tries[at : at + 5], (
            "the command reached the memory of the broker or the runner"
        )
        assert "ok" not in tries[at + 9 : at + TRIES], (
            "the command reached its descriptors, its limits, or sent it a signal"
        )


def test_the_broker_is_killed(siege: Siege) -> None:
    """Without the broker no further file can be opened; the command keeps its leases while it
    lives."""
    script = """
    exec 5>free.txt; echo one >&5; echo ready; read line
    { echo two >sub/free.txt; } 2>/dev/null && echo opened
    chmod 600 sub/free.txt 2>/dev/null && echo marked
    mv sub/free.txt sub/gone.txt 2>/dev/null && echo moved
    echo three >&5; echo tried; read line
    """
    below = siege.start("sh", "-c", script)
    below.says("ready")
    broker = below.broker
    command = next(pid for pid in descendants(broker) if b"exec 5>free" in _line(pid))
    os.kill(broker, signal.SIGKILL)
    until(lambda: state_of(broker) in "ZX", "the broker is gone")
    below.tell()
    below.says("tried")
    assert siege.text("free.txt") == "one\nthree\n", "an open descriptor no longer works"
    assert siege.text("sub/free.txt") == "sub/free.txt as it was\n"
    answer = siege.repo.hold("lock", "--holder", "third", "free.txt")
    assert answer.code != 0, "the lease ended while the command had the file open for writing"
    os.kill(command, signal.SIGKILL)
    below.end()
    until(lambda: state_of(command) in "ZX", "the command is gone")
    answer = siege.repo.hold("lock", "--holder", "third", "free.txt")
    assert answer.code == 0, answer


def _line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# Calls that make the broker wait


def test_a_pipe_has_both_ends(siege: Siege) -> None:
    assert said(siege, "pipes") == ["through"]


def test_one_that_waits_for_a_reader_is_killed(siege: Siege) -> None:
    script = """
    "$@" pipe_that_nobody_reads pipe & sleep 0.5
    echo free >free.txt && echo served; kill -9 $!; wait $!; echo again >free.txt && echo served
    """
    answer = siege.shell(script, *PROGRAMS)
    assert answer.out.split() == ["made", "served", "served"], answer
    assert siege.text("free.txt") == "again\n"


def test_a_lease_of_the_kernel_stops_only_who_wants_that_file(siege: Siege) -> None:
    assert said(siege, "leased_by_the_kernel") == ["False", "ok", "changed"]


def test_two_hundred_threads_wait_while_others_go_on(siege: Siege) -> None:
    assert said(siege, "many_waiters", "200", options=("--wait", "2")) == [
        "went", "on", "EACCES:200",
    ]  # fmt: skip
    assert len(list(siege.root.glob("new-*.txt"))) == 50
    assert siege.repo.waiting() == []


def test_callers_are_killed_in_mid_call(siege: Siege) -> None:
    assert said(siege, "killed_in_mid_call", "40") == ["done"]
    assert [grant["holder"] for grant in siege.repo.grants()] == [OTHER]


# Other paths to the same file


@ROOT_ONLY
def test_the_same_tree_mounted_elsewhere(siege: Siege) -> None:
    """A file that is mounted twice is held under both names."""
    (siege.folder / "alias").mkdir()
    inside = "cd ../alias && { echo changed >held.txt; } 2>/dev/null; chmod 600 sub/held.txt; "
    inside += "mv held.txt gone.txt; rm -f sub/held.txt"
    line = " ".join(f"'{word}'" for word in siege.line("sh", "-c", inside))
    script = f"mount --make-rprivate / && mount --bind {siege.root} {siege.folder}/alias && {line}"
    siege.plainly("unshare", "-m", "sh", "-c", script)
    siege.stands()


@ROOT_ONLY
def test_a_part_of_the_tree_mounted_within_it(siege: Siege) -> None:
    inside = "{ echo changed >sub2/held.txt; } 2>/dev/null; rm -f sub2/held.txt"
    line = " ".join(f"'{word}'" for word in siege.line("sh", "-c", inside))
    script = f"mount --make-rprivate / && mount --bind sub sub2 && {line}"
    siege.plainly("unshare", "-m", "sh", "-c", script)
    siege.stands()


@ROOT_ONLY
@pytest.mark.parametrize("path", ["self/mem", "thread-self/mem", "self/comm"])
def test_another_proc_leads_to_no_process_outside(siege: Siege, path: str) -> None:
    (siege.root / "proc").mkdir()
    code = (
        "import os\n"
        f"fd = os.open('proc/{path}', os.O_RDWR)\n"
        "print(os.getpid(), os.readlink(f'/proc/self/fd/{fd}'))"
    )
    line = [*siege.line(sys.executable, "-c", code)]
    quoted = " ".join(f"'{word}'" if "'" not in word else f'"{word}"' for word in line)
    script = f"mount --make-rprivate / && mount -t proc proc proc && {quoted}"
    answer = siege.plainly("unshare", "-m", "sh", "-c", script)
    if answer.code == 0:
        pid, place = answer.out.split()
        assert f"/proc/{pid}/" in place, "if it was opened, it is its own"


def test_the_whole_repository_cannot_be_renamed(siege: Siege) -> None:
    answer = siege.shell(f"cd .. && mv {siege.root.name} gone")
    assert answer.code != 0
    assert siege.root.is_dir()
