"""Agents that a fork server starts for their launcher: as if the launcher had started them
itself."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from conftest import until
from helpers_launcher import PYTHON, Bench, before_launchers, is_running, pid_in
from helpers_processes import Crowd, state_of
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.gate.broker import heard_calls
from holdfast.gate.broker.command_start import demand
from holdfast.gate.sandbox import SandboxError
from holdfast.gate.sandbox.gaps import denied_writes
from holdfast.gate.sandbox.kernel import landlock, seccomp
from holdfast.gate.sandbox.starting import fork_client
from holdfast.work.launching.run_folders import Run
from holdfast.work.launching.slots import AgentError, Ended

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not fork_client.is_possible(),
    reason="not known how to make a process for another parent here",
)

WITHOUT = (
    "from holdfast.gate.sandbox.starting import fork_client\n"
    "fork_client.is_possible = lambda: False"
)

#: The fork server, with another way to call the kernel.
OTHER_KERNEL = """
from holdfast.gate.sandbox.starting import fork_client
fork_client._PROGRAM = '''
import os, sys
sys.path.insert(0, sys.argv[1])
from holdfast.gate.sandbox.starting import fork_server
real = fork_server.syscall()
def call(number, *arguments):
    {0}
fork_server.syscall = lambda: call
fork_server.main()
'''
"""


@pytest.fixture(params=["fork server", "without one"])
def bench(
    request: pytest.FixtureRequest,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    """Both ways to start an agent, between which an agent should see no difference."""
    if request.param != "fork server":
        before_launchers(WITHOUT, tmp_path, monkeypatch)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    made = Bench(repository)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    made.shell("true", write=None)
    assert len(made.children) == (request.param == "fork server")
    yield made
    made.close()


only_with_one = pytest.mark.parametrize("bench", ["fork server"], indirect=True)
#: An agent without a sandbox, in one if possible, and below a broker if possible.
WAYS: list[dict[str, object]] = [{"write": None}]
if landlock.support().is_enough:
    WAYS.append({"write": ()})
with suppress(SandboxError):
    demand()
    WAYS.append({"write": (), "lease": {}})


# What an agent finds


def test_an_agent_has_three_descriptors_and_no_more(bench: Bench) -> None:
    script = """
import os
for number in range(1024):
    try:
        os.fstat(number)
    except OSError:
        continue
    print(number)
"""
    for way in WAYS:
        assert bench.python(script, **way).split() == ["0", "1", "2"]


def test_no_signal_is_kept_from_an_agent(bench: Bench) -> None:
    for way in WAYS:
        said = bench.shell("exec grep ^Sig[BI] /proc/self/status", **way)
        masks = {line.split(":")[0]: int(line.split()[1], 16) for line in said.splitlines()}
        assert masks["SigBlk"] == 0
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
            assert not masks["SigIgn"] >> (number - 1) & 1


def test_an_agent_is_a_child_of_its_launcher_with_a_session_of_its_own(bench: Bench) -> None:
    parent, session, pid = bench.python(
        "import os; print(os.getppid(), os.getsid(0), os.getpid())", write=None
    ).split()
    assert int(parent) == bench.pid
    assert session == pid


def test_a_large_environment_and_a_long_line_arrive(bench: Bench) -> None:
    large = {f"LARGE_{number}": str(number % 10) * 60_000 for number in range(18)}
    script = (
        "import os, sys; "
        "print(*[len(os.environ[f'LARGE_{n}']) for n in range(18)], len(sys.argv[1]))"
    )
    assert bench.run(PYTHON, "-c", script, "x" * 100_000, environment=large, write=None).code == 0
    assert bench.output.read_text().split() == ["60000"] * 18 + ["100000"]


def test_a_word_is_looked_for_where_the_agent_starts(bench: Bench) -> None:
    for name in ("here", "bin/there"):
        file = bench.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\necho {name}\n")
        file.chmod(0o755)
    assert bench.run("./here", write=None).code == 0
    for path in ("bin:/usr/bin:/bin", "/no/such/folder:bin"):
        assert bench.run("there", environment={"PATH": path}, write=None).code == 0
    assert bench.output.read_text().split() == ["here", "bin/there", "bin/there"]


#: Commands that cannot start: the command, its peculiarity, and the end of the answer.
WRONG: tuple[tuple[list[str], dict[str, object], str], ...] = (
    (["no-such-agent"], {}, "[Errno 2] No such file or directory"),
    (["/"], {}, "[Errno 13] Permission denied"),
    (["true", "a\0b"], {}, "embedded null byte"),
    (["true"], {"environment": {"A": "\0"}}, "embedded null byte"),
    (["true"], {"folder": "/no/such/folder"}, "No such file or directory"),
    (["true"], {"stdin": "\ud800"}, "surrogates not allowed"),
    (["true"], {"environment": {"A": "x" * 200_000}}, "[Errno 7] Argument list too long"),
)


def test_a_command_that_cannot_start_is_reported_and_leaves_nothing(bench: Bench) -> None:
    for way in WAYS:
        bench.shell("true", **way)
        # One may come at any moment, and stay: a socket. Leftovers of each of these attempts would
        # be more.
        before = len(_open_in(bench.pid)) + 1
        for _ in range(3):
            _start_in_vain(bench, way)
        # After reporting how an agent ended, the launcher cleans up, and then reads the next order.
        until(partial(_has_at_most, bench.pid, before), "all is closed")
    assert [pid for pid in bench.children if not is_running(pid)] == []


def _start_in_vain(bench: Bench, way: dict[str, object]) -> None:
    for command, more, said in WRONG:
        with pytest.raises(AgentError) as caught:
            bench.run(*command, **way, **more)
        assert caught.value.message.endswith(said)
    assert bench.shell("echo well", **way) == "well\n"


def _has_at_most(pid: int, descriptors: int) -> bool:
    return len(_open_in(pid)) <= descriptors


def _open_in(pid: int) -> list[str]:
    """The open descriptors of a process, except those of the few processes whose lives it has
    checked more than once: it watches them, at any time."""
    folder, found = f"/proc/{pid}/fd", []
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):  # closed while we looked
            found.append(os.readlink(f"{folder}/{name}"))
    return [what for what in found if what != "anon_inode:[pidfd]"]


# When a process is killed


def test_when_a_launcher_is_killed_nothing_of_it_is_left(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    script = f"echo $$ > {file}; exec sleep 1000"
    runner = threading.Thread(target=lambda: _caught(lambda: bench.sh(script, write=None)))
    runner.start()
    agent = pid_in(file)
    children = bench.children
    assert agent in children
    os.kill(bench.pid, signal.SIGKILL)
    runner.join(60)
    for pid in children:
        until(lambda: not is_running(pid), "they are gone")  # noqa: B023


def _caught(function: object) -> None:
    try:
        function()  # type: ignore[operator]
    except Exception:
        pass


@only_with_one
def test_a_fork_server_that_was_killed_is_replaced(bench: Bench) -> None:
    for _ in range(2):
        (fork_server,) = bench.children
        os.kill(fork_server, signal.SIGKILL)
        assert bench.shell("echo well", write=None) == "well\n"
        (another,) = bench.children
        assert another != fork_server
        assert is_running(another)


@only_with_one
def test_one_that_is_killed_while_it_has_an_order_is_replaced(bench: Bench) -> None:
    (fork_server,) = bench.children
    os.kill(fork_server, signal.SIGSTOP)
    until(lambda: state_of(fork_server) == "T", "it stands still")
    ended: list[Ended] = []
    runner = threading.Thread(target=lambda: ended.append(bench.sh("echo well", write=None)))
    runner.start()
    until(lambda: _reads_a_pipe(bench.pid), "the launcher waits for its agent")
    os.kill(fork_server, signal.SIGKILL)
    runner.join(60)
    assert (ended[0].code, bench.output.read_text()) == (0, "well\n")
    assert fork_server not in bench.children


def _reads_a_pipe(pid: int) -> bool:
    """Whether a process is in a call that reads, from something other than its input."""
    try:
        number, first, *_rest = Path(f"/proc/{pid}/syscall").read_text().split()
    except (OSError, ValueError):
        return False
    reading = {"x86_64": "0", "aarch64": "63", "riscv64": "63"}[os.uname().machine]
    return number == reading and int(first, 16) > 2


@only_with_one
def test_an_agent_that_kills_the_fork_server_gains_nothing(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    (fork_server,) = bench.children
    script = f"kill -9 {fork_server}; setsid sleep 1000 & echo $! > {file}"
    assert bench.sh(script, write=None).code == 0
    assert not is_running(pid_in(file))
    assert bench.children == []
    assert bench.shell("echo well", write=None) == "well\n"


def test_an_agent_is_started_once_even_if_the_fork_server_is_killed_then(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = "return real(number, *arguments) and os._exit(9)"
    before_launchers(OTHER_KERNEL.format(dies), tmp_path, monkeypatch)
    bench = Bench(repository)
    Run(str(repository), bench.item.id).begin()
    for count, way in enumerate(WAYS, 1):
        assert bench.sh("echo $PPID >> app/x.rb", **way).code == 0
        assert (repository / "app/x.rb").read_text() == "old\n" + f"{bench.pid}\n" * count
    bench.close()


def test_where_a_fork_server_may_start_nothing_the_launcher_does_it(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_launchers(OTHER_KERNEL.format("raise PermissionError(1, 'no')"), tmp_path, monkeypatch)
    bench = Bench(repository)
    assert bench.shell("echo $PPID", write=None) == f"{bench.pid}\n"
    assert bench.children == [], "it is of no use"
    assert bench.shell("echo $PPID", write=None) == f"{bench.pid}\n"
    bench.close()


SPARED = """
from holdfast.gate.sandbox.starting.fork_client import ForkServer
from holdfast.work.launching.descendants import kill_all
fork_server = ForkServer()
pid = fork_server.pid
kill_all(fork_server)
say("spared", fork_server.pid == pid, os.path.exists(f"/proc/{pid}"))
os.kill(pid, signal.SIGKILL)
while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
    time.sleep(0.001)
kill_all(fork_server)
say("gone", fork_server.pid, os.path.exists(f"/proc/{pid}"))
fork_server.close()
"""


def test_only_the_fork_server_is_spared_and_not_the_next_process_with_its_pid(
    tmp_path: Path,
) -> None:
    with Crowd(tmp_path) as crowd:
        child = crowd.start(SPARED).done()
        assert child.words("spared") == [["True", "True"]]
        assert child.words("gone") == [["0", "False"]]


# A filter that is needed


@pytest.mark.skipif(bool(seccomp.lacks()), reason=f"needs a listener: {seccomp.lacks()}")
def test_a_command_that_needs_a_filter_is_not_started_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Below another listener the kernel refuses a second one."""
    below = "from holdfast.gate.sandbox.kernel.seccomp import Filter; Filter().install(); main()"
    monkeypatch.setattr(fork_client, "_PROGRAM", fork_client._PROGRAM.replace("main()", below))
    fork_server = fork_client.ForkServer()
    ours, theirs = socket.socketpair()

    def start(filter: seccomp.Filter | None) -> int:
        return fork_server.start(
            ["/bin/true"], {}, "/", (0, 2), line=theirs.fileno(), filter=filter
        )

    with ours, theirs:
        assert os.waitpid(start(None), 0)[1] == 0
        with pytest.raises(SandboxError):
            start(seccomp.Filter(heard_calls.program))
    fork_server.close()


# A new process that nothing holds up


@NEEDS_LANDLOCK
@pytest.mark.skipif(bool(seccomp.lacks()), reason=f"needs a listener: {seccomp.lacks()}")
def test_an_unknown_word_is_reported_even_where_no_bytecode_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searching for it takes an import; writing the compiled file would wait for the launcher,
    which waits for the new process."""
    empty = f"import sys; sys.pycache_prefix = {str(tmp_path / 'cache')!r}; "
    monkeypatch.setattr(fork_client, "_PROGRAM", empty + fork_client._PROGRAM)
    fork_server = fork_client.ForkServer()
    attentive = denied_writes.DeniedWrites(str(tmp_path), {}, ())
    told: list[BaseException] = []

    def start() -> None:
        with open(os.devnull, "rb+", buffering=0) as null:
            streams = (null.fileno(), null.fileno())
            try:
                fork_server.start(["no-such-agent"], {}, "/", streams, line=attentive.line)
            except BaseException as error:
                told.append(error)

    starter = threading.Thread(target=start, daemon=True)
    starter.start()
    starter.join(20)
    attentive.close()
    assert [type(error) for error in told] == [FileNotFoundError]
    fork_server.close()
