"""Which owners are dead: real processes, killed, orphaned, hidden, renamed and replaced."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.model import Witness
from holdfast.manager.clock import boot_id
from holdfast.manager.files.unfinished_edits import dead_in
from holdfast.manager.owners import liveness
from holdfast.manager.owners.liveness import (
    is_dead,
    own_witness,
    sees_processes,
    witness_of,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="judges life by Linux's /proc")

needs_root = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="needs root to become another user"
)

NOBODY = 65534
CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def fields_of(witness: Witness) -> dict[str, Any]:
    return {name: getattr(witness, name) for name in ("host", "boot", "namespace", "pid", "start")}


def changed(witness: Witness, **fields: object) -> Witness:
    return Witness(**{**fields_of(witness), **fields})


class Children:
    """Processes that are ended when the test is over, whatever happened."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *argv: str, **options: object) -> subprocess.Popen[str]:
        child = subprocess.Popen(argv, text=True, **options)  # type: ignore[call-overload]
        self.started.append(child)
        return child  # type: ignore[no-any-return]

    def sleeper(self, **options: object) -> tuple[subprocess.Popen[str], Witness]:
        child = self.start("sleep", "60", **options)
        witness = witness_of(child.pid)
        assert witness is not None
        return child, witness

    def dead(self) -> Witness:
        child, witness = self.sleeper()
        child.kill()
        child.wait()
        return witness


@pytest.fixture
def children() -> Iterator[Children]:
    made = Children()
    yield made
    for child in made.started:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream:
                stream.close()


def marked(mark: str) -> dict[str, str]:
    name, _, value = mark.partition("=")
    return {**os.environ, name: value}


def in_child(check: Callable[[], bool]) -> bool:
    """The answer of a forked child, which may change its user and its namespaces."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = 0 if check() else 1
        except BaseException as error:  # it must not return into pytest
            os.write(2, f"{error!r}\n".encode())
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 1), "the child failed"
    return code == 0


def libc(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


def own_mounts(*, kind: bytes, options: bytes | None) -> None:
    """Put another file system on /proc, for this process alone."""
    libc("unshare", CLONE_NEWNS)
    libc("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    libc("mount", kind, b"/proc", kind, 0, options)


def become_nobody() -> None:
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)


# Witnesses


def test_our_own_witness_names_this_process() -> None:
    own = own_witness()
    assert own.pid == os.getpid()
    assert boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert own.boot == boot_id().replace("-", "")[:12]
    assert f"pid:[{own.namespace.split(' ')[0]}]" == os.readlink("/proc/self/ns/pid")
    stat = Path("/proc/self/stat").read_text()
    assert own.start == int(stat[stat.rindex(")") + 2 :].split()[19])
    assert own.host
    assert own is own_witness()
    assert witness_of(os.getpid()) == own


def test_the_host_is_the_machine_id_where_there_is_one() -> None:
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    assert own_witness().host == (machine[:12] or os.uname().nodename)


def test_a_forked_child_has_a_witness_of_its_own() -> None:
    parent = own_witness()
    assert in_child(
        lambda: (
            own_witness().pid == os.getpid()
            and own_witness().pid != parent.pid
            and witness_of(parent.pid) == parent
            and not is_dead(parent, ())
        )
    )


def test_a_child_that_was_forked_behind_our_back_has_its_own_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = own_witness()
    monkeypatch.setattr(liveness._here, "own", changed(own, pid=own.pid + 1))
    assert own_witness() == own


def test_a_missing_process_has_no_witness(children: Children) -> None:
    assert witness_of(children.dead().pid) is None
    assert witness_of(0) is None
    assert witness_of(-1) is None


def test_a_living_process_is_not_dead(children: Children) -> None:
    _, witness = children.sleeper()
    assert is_dead(witness, ()) is False
    assert is_dead(own_witness(), ()) is False
    assert is_dead(changed(own_witness()), ()) is False


def test_a_stopped_process_is_not_dead(children: Children) -> None:
    child, witness = children.sleeper()
    child.send_signal(signal.SIGSTOP)
    until(lambda: b"T" in Path(f"/proc/{child.pid}/stat").read_bytes().split(b")")[-1][:3])
    assert not is_dead(witness, ())


def test_a_killed_process_is_dead(children: Children) -> None:
    assert is_dead(children.dead(), ())


def test_a_zombie_is_dead(children: Children) -> None:
    child, witness = children.sleeper()
    child.kill()
    until(lambda: b") Z" in Path(f"/proc/{child.pid}/stat").read_bytes())
    assert is_dead(witness, ())
    assert witness_of(child.pid) is None


def test_a_process_whose_first_thread_ended_is_alive(children: Children) -> None:
    code = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)\n"
    )
    child = children.start(sys.executable, "-c", code)
    until(lambda: b") Z" in Path(f"/proc/{child.pid}/stat").read_bytes())
    witness = witness_of(child.pid)
    assert witness is not None
    assert not is_dead(witness, ())


def test_another_start_time_means_that_the_pid_was_reused(children: Children) -> None:
    _, witness = children.sleeper()
    assert is_dead(changed(witness, start=witness.start - 1), ())
    assert is_dead(changed(own_witness(), start=own_witness().start - 1), ())


def test_an_unknown_start_time_proves_nothing(children: Children) -> None:
    child, witness = children.sleeper()
    unknown = changed(witness, start=0)
    assert not is_dead(unknown, ())
    child.kill()
    child.wait()
    assert is_dead(unknown, ())


def test_another_boot_means_dead_even_with_marks_around(children: Children) -> None:
    children.start("sleep", "60", env=marked("HOLDFAST_HOLDER=t-boot"))
    before = changed(own_witness(), boot="00000000-0000-0000-0000-000000000000")
    assert is_dead(before, ("HOLDFAST_HOLDER=t-boot",))


@pytest.mark.parametrize("boot", ["00000000-0000", ""])
def test_on_a_ledger_of_several_hosts_another_boot_may_be_another_host(
    children: Children, tmp_path: Path, boot: str
) -> None:
    """Two machines made from one image have the same id."""
    before = changed(own_witness(), boot=boot)
    assert is_dead(before, (), is_shared=True) is None
    assert dead_in(str(tmp_path), is_shared=True)(before, ("HOLDFAST_HOLDER=t",)) is None
    assert dead_in(str(tmp_path))(before, ("HOLDFAST_HOLDER=t",)) is (True if boot else None)


def test_on_a_ledger_of_several_hosts_processes_of_this_boot_are_judged(
    children: Children, tmp_path: Path
) -> None:
    _child, alive = children.sleeper()
    judge = dead_in(str(tmp_path), is_shared=True)
    assert judge(children.dead(), ()) is True
    assert judge(alive, ()) is False
    assert judge(own_witness(), ()) is False
    assert judge(changed(children.dead(), host="elsewhere"), ()) is None
    assert judge(changed(children.dead(), namespace="pid:[1]"), ()) is None


@pytest.mark.parametrize(
    "foreign", [{"host": "elsewhere"}, {"namespace": "pid:[1]"}, {"boot": ""}, {"pid": 0}]
)
def test_a_foreign_or_unknown_process_cannot_be_checked(
    children: Children, foreign: dict[str, object]
) -> None:
    assert is_dead(changed(children.dead(), **foreign), ()) is None


def test_a_foreign_host_is_alive_whatever_its_boot_says(children: Children) -> None:
    assert is_dead(changed(children.dead(), host="elsewhere", boot="other"), ()) is None


def test_a_pid_that_no_machine_has_proves_nothing_and_breaks_nothing() -> None:
    assert is_dead(changed(own_witness(), pid=2**70), ()) is None


@pytest.mark.parametrize("name", ["a) (b", ") Z 1 1", "x y\nz)", "((("])
def test_the_name_of_a_program_cannot_confuse_us(
    tmp_path: Path, children: Children, name: str
) -> None:
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    child = children.start(str(program), "60")
    witness = witness_of(child.pid)
    assert witness is not None
    assert witness.start >= own_witness().start
    assert not is_dead(witness, ())
    child.kill()
    child.wait()
    assert is_dead(witness, ())


# Marks


def test_a_dead_owner_whose_descendant_lives_is_not_dead(children: Children) -> None:
    mark = "HOLDFAST_HOLDER=t-descendant"
    owner = children.start(
        "sh", "-c", "sleep 60 & echo $!; wait", env=marked(mark), stdout=subprocess.PIPE
    )
    assert owner.stdout is not None
    orphan = int(owner.stdout.readline())
    witness = witness_of(owner.pid)
    assert witness is not None
    try:
        owner.kill()
        owner.wait()
        assert is_dead(witness, ())
        assert is_dead(witness, (mark,)) is False
        assert is_dead(witness, ("OTHER=1", mark)) is False
        assert is_dead(witness, ("HOLDFAST_HOLDER=t-descendan",))
        assert is_dead(witness, ("OLDFAST_HOLDER=t-descendant",))
    finally:
        os.kill(orphan, signal.SIGKILL)
    until(lambda: is_dead(witness, (mark,)) is True)


def test_a_zombie_carries_no_mark(children: Children) -> None:
    mark = "HOLDFAST_HOLDER=t-zombie"
    dead = children.dead()
    child = children.start("sleep", "60", env=marked(mark))
    assert not is_dead(dead, (mark,))
    child.kill()
    until(lambda: b") Z" in Path(f"/proc/{child.pid}/stat").read_bytes())
    assert is_dead(dead, (mark,))


def test_the_process_that_asks_counts_when_it_carries_the_mark(children: Children) -> None:
    mark = "HOLDFAST_HOLDER=t-asking"
    dead = children.dead()
    code = (
        "import sys; from holdfast.core.model import Witness\n"
        "from holdfast.manager.owners.liveness import is_dead\n"
        "w = Witness(**eval(sys.argv[1]))\n"
        "sys.exit(10 + is_dead(w, (sys.argv[2],)))"
    )
    run = [sys.executable, "-c", code, repr(fields_of(dead)), mark]
    assert subprocess.run(run, env=marked(mark)).returncode == 10
    assert subprocess.run(run).returncode == 11


def test_a_mark_is_found_at_the_end_of_a_long_environment(children: Children) -> None:
    dead = children.dead()
    environ = {f"FILL_{n}": "x" * 100_000 for n in range(5)}
    children.start("sleep", "60", env={**environ, "HOLDFAST_HOLDER": "t-long"})
    assert not is_dead(dead, ("HOLDFAST_HOLDER=t-long",))


def test_a_mark_need_not_be_text(children: Children) -> None:
    dead = children.dead()
    children.start("sleep", "60", env={b"HOLDFAST_HOLDER": b"t-\xff\xc3\xa4"})
    assert not is_dead(dead, (os.fsdecode(b"HOLDFAST_HOLDER=t-\xff\xc3\xa4"),))
    assert is_dead(dead, ("HOLDFAST_HOLDER=t-ä",))


def test_a_process_that_keeps_executing_new_programs_is_seen(
    tmp_path: Path, children: Children
) -> None:
    mark = "HOLDFAST_HOLDER=t-exec"
    dead = children.dead()
    restless = tmp_path / "restless"
    restless.write_text('#!/bin/sh\nexec "$0"\n')
    restless.chmod(0o755)
    children.start(str(restless), env={"HOLDFAST_HOLDER": "t-exec"})
    assert [is_dead(dead, (mark,)) for _ in range(1000)].count(True) == 0


def test_a_process_that_keeps_changing_its_pid_is_seen(tmp_path: Path, children: Children) -> None:
    mark = "HOLDFAST_HOLDER=t-fork"
    dead = children.dead()
    stop = tmp_path / "stop"
    hop = (
        "import os, sys, time\n"
        "deadline = time.monotonic() + 20\n"
        "while time.monotonic() < deadline and not os.path.exists(sys.argv[1]):\n"
        "    if os.fork(): os._exit(0)\n"
    )
    gather = (  # the orphans become its children, so that no zombies are left to others
        "import ctypes, os, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
        "first = subprocess.Popen([sys.executable, '-c', *sys.argv[1:3]],"
        " env={**os.environ, 'HOLDFAST_HOLDER': 't-fork'})\n"
        "try:\n"
        "    while True: os.wait()\n"
        "except ChildProcessError: pass\n"
        "first.returncode = 0\n"
    )
    gatherer = children.start(sys.executable, "-c", gather, hop, str(stop))
    until(lambda: not is_dead(dead, (mark,)))
    try:
        assert [is_dead(dead, (mark,)) for _ in range(200)].count(True) == 0
    finally:
        stop.touch()
        gatherer.wait(timeout=30)
    assert is_dead(dead, (mark,))


def test_where_processes_change_faster_than_we_can_look_nothing_is_proven(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = children.dead()
    pids = iter(range(10_000_000, 20_000_000))
    monkeypatch.setattr(os, "listdir", lambda _: [str(next(pids))])
    assert not is_dead(dead, ("HOLDFAST_HOLDER=t-fast",))
    monkeypatch.setattr(os, "listdir", lambda _: [])
    assert is_dead(dead, ("HOLDFAST_HOLDER=t-fast",))


def test_a_busy_machine_does_not_keep_the_dead_alive(children: Children) -> None:
    dead = children.dead()
    spawning = "while :; do /bin/true; done"
    children.start("sh", "-c", spawning)
    assert [is_dead(dead, ("HOLDFAST_HOLDER=t-busy",)) for _ in range(50)].count(True) > 40


def test_a_program_without_an_environment_is_no_hindrance(children: Children) -> None:
    dead = children.dead()
    children.start("sleep", "60", env={})
    begun = time.monotonic()
    assert is_dead(dead, ("HOLDFAST_HOLDER=t-empty",))
    assert time.monotonic() - begun < 1


def test_running_out_of_file_descriptors_proves_nothing(children: Children) -> None:
    import resource

    dead = children.dead()
    mark = ("HOLDFAST_HOLDER=t-descriptors",)

    def exhausted() -> bool:
        own_witness(), sees_processes()
        highest = os.dup(0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
        return is_dead(dead, ()) is False and is_dead(dead, mark) is False

    os.set_inheritable(0, True)
    assert in_child(exhausted)
    assert is_dead(dead, mark)


# Other users, and less to see


@needs_root
def test_a_process_of_another_user_is_alive_until_it_ends(children: Children) -> None:
    child, witness = children.sleeper(user=NOBODY, group=NOBODY, extra_groups=[])
    assert is_dead(witness, ()) is False
    child.kill()
    child.wait()
    assert is_dead(witness, ())


@needs_root
def test_an_ordinary_user_judges_the_processes_of_root_and_skips_their_marks(
    children: Children,
) -> None:
    mark = "HOLDFAST_HOLDER=t-root"
    _, alive = children.sleeper(env=marked(mark))
    dead = children.dead()

    def judged() -> bool:
        become_nobody()
        return is_dead(alive, ()) is False and is_dead(dead, ()) is is_dead(dead, (mark,)) is True

    assert in_child(judged)
    assert not is_dead(dead, (mark,))


@needs_root
def test_an_ordinary_user_finds_the_marks_of_its_own_processes(children: Children) -> None:
    dead = children.dead()
    mark = "HOLDFAST_HOLDER=t-own"

    def judged() -> bool:
        become_nobody()
        child = subprocess.Popen(["sleep", "60"], env=marked(mark))
        # A process that changed its user is unreadable to others, and so is its child at first.
        until(lambda: os.access(f"/proc/{child.pid}/environ", os.R_OK))
        found = not is_dead(dead, (mark,))
        child.kill()
        until(lambda: witness_of(child.pid) is None)
        gone = is_dead(dead, (mark,))  # it is a zombie now, which not even its user may read
        child.wait()
        return found and gone is True and is_dead(dead, (mark,)) is True

    assert in_child(judged)


@needs_root
def test_a_hidden_process_cannot_be_judged(children: Children) -> None:
    _, alive = children.sleeper()
    dead = children.dead()

    def judged() -> bool:
        own_mounts(kind=b"proc", options=b"hidepid=2")
        become_nobody()
        assert not os.path.exists(f"/proc/{alive.pid}")
        seen = witness_of(alive.pid)
        assert seen is not None
        assert seen.start == 0
        return is_dead(alive, ()) is None and is_dead(dead, ()) is True and sees_processes()

    assert in_child(judged)


@needs_root
def test_a_process_that_may_be_seen_and_not_read_cannot_be_judged(children: Children) -> None:
    _, alive = children.sleeper()

    def judged() -> bool:
        own_mounts(kind=b"proc", options=b"hidepid=1")
        become_nobody()
        assert os.path.exists(f"/proc/{alive.pid}")
        return is_dead(alive, ()) is None

    assert in_child(judged)


@needs_root
def test_without_proc_nothing_is_proven(children: Children) -> None:
    dead = children.dead()

    def judged() -> bool:
        own = own_witness()
        own_mounts(kind=b"tmpfs", options=None)
        assert not sees_processes()
        return own == own_witness() and is_dead(dead, ()) is None

    assert in_child(judged)


@needs_root
def test_without_proc_from_the_beginning_nothing_is_proven(children: Children) -> None:
    dead = children.dead()

    def judged() -> bool:
        own_mounts(kind=b"tmpfs", options=None)
        assert own_witness().start == 0
        assert witness_of(os.getppid()) is not None
        assert witness_of(dead.pid) is None
        return is_dead(dead, ()) is None and is_dead(own_witness(), ()) is False

    assert in_child(judged)


@needs_root
def test_a_new_pid_namespace_with_the_old_proc_proves_nothing(children: Children) -> None:
    dead = children.dead()

    def judged() -> bool:
        libc("unshare", CLONE_NEWPID)
        return in_child(inside)

    def inside() -> bool:
        own = own_witness()
        assert own.pid == 1
        assert not sees_processes()
        return (
            is_dead(dead, ()) is None
            and is_dead(changed(dead, namespace=own.namespace), ()) is None
            and is_dead(own, ()) is False
        )

    assert in_child(judged)


@needs_root
def test_from_outside_a_process_in_a_new_pid_namespace_is_another(children: Children) -> None:
    child = children.start(
        "unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c",
        "from holdfast.manager.owners.liveness import own_witness, sees_processes\n"
        "w = own_witness(); print(w.pid, w.start, w.namespace, sees_processes())",
        stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    pid, start, namespace, sees = child.stdout.read().split()
    child.wait()
    assert (pid, sees) == ("1", "True")
    assert namespace != own_witness().namespace
    inner = changed(own_witness(), pid=1, start=int(start), namespace=namespace)
    assert is_dead(inner, ()) is None


# Systems without a Linux /proc


def test_elsewhere_a_missing_pid_is_proof_and_a_present_one_is_not(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, witness = children.sleeper()
    monkeypatch.setattr(liveness, "_LINUX", False)
    monkeypatch.setattr(liveness, "boot_id", lambda: "")
    monkeypatch.setattr(liveness, "_here", None)
    known = changed(witness, boot="", start=0)
    assert own_witness().start == 0
    assert is_dead(known, ("HOLDFAST_HOLDER=t",)) is False
    assert is_dead(changed(own_witness()), ()) is False
    assert witness_of(child.pid) == known
    child.kill()
    child.wait()
    assert is_dead(known, ("HOLDFAST_HOLDER=t",))
    assert witness_of(child.pid) is None
    assert is_dead(changed(known, host="elsewhere"), ()) is None
    assert is_dead(changed(known, boot="another"), ()) is None


def test_on_windows_no_process_is_ever_signalled_or_checked(
    children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = children.dead()
    monkeypatch.setattr(liveness, "_LINUX", False)
    monkeypatch.setattr(liveness, "_POSIX", False)
    monkeypatch.setattr(liveness, "boot_id", lambda: "")
    monkeypatch.setattr(liveness, "_here", None)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("signal 0 is Ctrl-C there"))
    assert is_dead(changed(dead, host=own_witness().host, boot=""), ()) is None
    assert is_dead(changed(own_witness()), ()) is False
    assert witness_of(dead.pid) is not None


def test_importing_costs_no_heavy_module() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import holdfast.manager.owners.liveness, holdfast.manager.owners.identity\n"
        "import holdfast.manager.clock\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True,
                         env={"PYTHONPATH": str(Path(liveness.__file__).parents[3])})  # fmt: skip
    heavy = {"dataclasses", "typing", "enum", "re", "json", "pathlib", "contextlib", "logging",
             "uuid", "socket", "threading", "datetime", "subprocess", "collections"}  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert not heavy & set(run.stdout.split())


def test_an_owner_that_is_checked_often_is_watched_and_still_found_dead() -> None:
    process = subprocess.Popen(["sleep", "100"])
    try:
        witness = witness_of(process.pid)
        assert witness is not None
        assert [is_dead(witness, ()) for _ in range(5)] == [False] * 5
        assert liveness._watched[witness] is not None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended: a zombie now
        assert is_dead(witness, ())
    finally:
        process.kill()
        process.wait()
    assert is_dead(witness, ())
    assert liveness._watched.get(witness) is None


def test_many_threads_may_check_a_watched_owner() -> None:
    process = subprocess.Popen(["sleep", "100"])
    try:
        witness = witness_of(process.pid)
        assert witness is not None

        def ask(_number: int) -> set[bool | None]:
            return {is_dead(witness, ()) for _ in range(2000)}

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(ask, range(8))) == [{False}] * 8
    finally:
        process.kill()
        process.wait()


def test_a_stopped_process_that_is_watched_lives() -> None:
    process = subprocess.Popen(["sleep", "100"])
    try:
        witness = witness_of(process.pid)
        assert witness is not None
        os.kill(process.pid, signal.SIGSTOP)
        assert [is_dead(witness, ()) for _ in range(4)] == [False] * 4
    finally:
        process.kill()
        process.wait()


def test_not_more_are_watched_than_there_is_room_for() -> None:
    before = len(os.listdir("/proc/self/fd"))
    processes = [subprocess.Popen(["sleep", "100"]) for _ in range(40)]
    try:
        for process in processes:
            witness = witness_of(process.pid)
            assert witness is not None
            assert [is_dead(witness, ()) for _ in range(3)] == [False] * 3
        assert len(os.listdir("/proc/self/fd")) <= before + liveness.WATCHED_MAX
    finally:
        for process in processes:
            process.kill()
            process.wait()
