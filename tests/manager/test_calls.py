"""Open calls: a command that was running when its client died keeps the agent's files, and nothing
that an earlier call left behind does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast import Holder, LockManager
from holdfast.core.errors import LockTimeoutError
from holdfast.core.model import Witness, agent_key
from holdfast.gate.checked_write import is_foreign
from holdfast.manager.clock import boot_id
from holdfast.manager.files.unfinished_edits import dead_in, left_running
from holdfast.manager.owners import running_calls
from holdfast.manager.owners.liveness import is_dead, witness_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="judges life by Linux's /proc")

KEY = agent_key("claude", "faf2c0de-0000-4000-8000-00000000cafe")
NAME = "toolu_01ABC"
TICK = 1 / os.sysconf("SC_CLK_TCK")
#: Two ticks pass, so that later processes do not start in the same tick as earlier ones.
LATER = 3 * TICK


def open_since(root: str, key: str) -> int | None:
    """When the oldest open call of an agent was opened, in ticks; None if none is open."""
    found = running_calls.sought(root, (running_calls.mark(key, "NAME", "value"),))
    return found[0][1] if found else None


@pytest.fixture
def root(tmp_path: Path) -> str:
    (tmp_path / ".holdfast").mkdir()
    return str(tmp_path)


class Agent:
    """A client's process, and commands that carry its session's id."""

    def __init__(self, session: str) -> None:
        self.variable = ("TEST_SESSION_ID", session)
        self.mark = running_calls.mark(KEY, *self.variable)
        self.commands: list[subprocess.Popen[str]] = []
        self.client = subprocess.Popen(["sleep", "60"])
        found = witness_of(self.client.pid)
        assert found is not None
        self.witness: Witness = found

    def start(self, *argv: str) -> subprocess.Popen[str]:
        environ = {**os.environ, self.variable[0]: self.variable[1]}
        command = subprocess.Popen(
            argv or ("sleep", "60"), env=environ, text=True, stdout=subprocess.PIPE
        )
        self.commands.append(command)
        return command

    def die(self) -> None:
        self.client.kill()
        self.client.wait()

    def end(self) -> None:
        self.die()
        for command in self.commands:
            command.kill()
            command.wait()
            if command.stdout is not None:
                command.stdout.close()


@pytest.fixture
def agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    made = Agent(f"{os.getpid()}-{request.node.name}")
    yield made
    made.end()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def dead(root: str, agent: Agent) -> bool | None:
    return dead_in(root)(agent.witness, (agent.mark,))


def files(root: str) -> list[str]:
    folder = Path(root, running_calls.FOLDER)
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


# With real processes


def test_a_command_whose_call_is_open_keeps_the_owner_until_it_ends(
    root: str, agent: Agent
) -> None:
    running_calls.open_call(root, KEY, NAME)
    command = agent.start()
    assert dead(root, agent) is False
    agent.die()
    assert dead(root, agent) is False
    assert left_running(root, (agent.mark,)) == [command.pid]
    command.kill()
    assert os.waitid(os.P_PID, command.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert dead(root, agent) is True
    assert left_running(root, (agent.mark,)) == []


def test_an_orphan_of_the_command_keeps_it_as_well(root: str, agent: Agent) -> None:
    running_calls.open_call(root, KEY, NAME)
    shell = agent.start("sh", "-c", "sleep 60 & echo $!; wait")
    assert shell.stdout is not None
    orphan = int(shell.stdout.readline())
    try:
        agent.die()
        shell.kill()
        shell.wait()
        assert dead(root, agent) is False
        assert left_running(root, (agent.mark,)) == [orphan]
    finally:
        os.kill(orphan, signal.SIGKILL)
    until(lambda: dead(root, agent) is True)


def test_a_process_from_before_the_call_keeps_nothing(root: str, agent: Agent) -> None:
    server = agent.start()
    time.sleep(LATER)
    running_calls.open_call(root, KEY, NAME)
    agent.die()
    assert dead(root, agent) is True
    assert left_running(root, (agent.mark,)) == []
    assert is_dead(agent.witness, (f"{agent.variable[0]}={agent.variable[1]}",)) is False
    assert server.poll() is None


def test_a_later_child_of_an_earlier_server_keeps_nothing(root: str, agent: Agent) -> None:
    server = agent.start("sh", "-c", "read -r _ < $0; sleep 60 & echo $!; wait", fifo(root))
    time.sleep(LATER)
    running_calls.open_call(root, KEY, NAME)
    Path(fifo(root)).write_text("now\n")
    assert server.stdout is not None
    worker = int(server.stdout.readline())
    agent.die()
    try:
        assert dead(root, agent) is True
    finally:
        os.kill(worker, signal.SIGKILL)


def fifo(root: str) -> str:
    path = f"{root}/fifo"
    if not os.path.exists(path):
        os.mkfifo(path)
    return path


def test_a_call_that_was_closed_keeps_nothing(root: str, agent: Agent) -> None:
    running_calls.open_call(root, KEY, NAME)
    agent.start()
    running_calls.close_call(root, KEY, NAME)
    agent.die()
    assert dead(root, agent) is True


def test_a_call_of_another_boot_keeps_nothing(
    root: str, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(running_calls, "boot_id", lambda: "00000000-0000-0000-0000-000000000000")
        running_calls.open_call(root, KEY, NAME)
    assert len(files(root)) == 1
    agent.start()
    agent.die()
    assert open_since(root, KEY) is None
    assert dead(root, agent) is True


def test_the_call_of_another_agent_keeps_nothing(root: str, agent: Agent) -> None:
    running_calls.open_call(root, agent_key("claude", "another"), NAME)
    agent.start()
    agent.die()
    assert dead(root, agent) is True


def test_the_command_of_another_session_keeps_nothing(root: str, agent: Agent) -> None:
    other = Agent(f"{agent.variable[1]}-other")
    try:
        running_calls.open_call(root, KEY, NAME)
        other.start()
        agent.die()
        assert dead(root, agent) is True
    finally:
        other.end()


def test_the_oldest_open_call_counts(root: str, agent: Agent) -> None:
    running_calls.open_call(root, KEY, "first")
    agent.start()
    time.sleep(LATER)
    running_calls.open_call(root, KEY, "second")
    agent.die()
    assert dead(root, agent) is False
    running_calls.close_call(root, KEY, "first")
    assert dead(root, agent) is True


def test_a_command_that_begins_as_soon_as_the_call_is_open_is_never_missed(
    root: str, agent: Agent
) -> None:
    agent.die()
    for _ in range(40):
        running_calls.open_call(root, KEY, NAME)
        command = agent.start()
        assert dead(root, agent) is False
        command.kill()
        command.wait()
        running_calls.close_call(root, KEY, NAME)


def test_a_command_that_keeps_changing_its_pid_is_seen(root: str, agent: Agent) -> None:
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
        " env={**os.environ, sys.argv[3]: sys.argv[4]})\n"
        "try:\n"
        "    while True: os.wait()\n"
        "except ChildProcessError: pass\n"
        "first.returncode = 0\n"
    )
    stop = Path(root, "stop")
    running_calls.open_call(root, KEY, NAME)
    agent.die()
    gatherer = subprocess.Popen([sys.executable, "-c", gather, hop, str(stop), *agent.variable])
    try:
        until(lambda: dead(root, agent) is False)
        assert [dead(root, agent) for _ in range(100)].count(True) == 0
    finally:
        stop.touch()
        gatherer.wait(timeout=30)
    assert dead(root, agent) is True


def test_plain_marks_mean_what_they_always_did(root: str, agent: Agent) -> None:
    agent.start()
    agent.die()
    plain = f"{agent.variable[0]}={agent.variable[1]}"
    assert dead_in(root)(agent.witness, (plain,)) is False
    assert dead_in(root)(agent.witness, (agent.mark, plain)) is False
    assert left_running(root, (plain,)) == [agent.commands[0].pid]


def test_a_caller_without_open_calls_counts_every_process_with_the_variable(agent: Agent) -> None:
    command = agent.start()
    agent.die()
    assert is_dead(agent.witness, (agent.mark,)) is False
    command.kill()
    command.wait()
    assert is_dead(agent.witness, (agent.mark,)) is True


def test_the_files_of_a_killed_client_wait_for_its_command(tmp_path: Path, agent: Agent) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".holdfast").mkdir()
    with LockManager.open(tmp_path) as manager:
        owner = Holder(id="ann", key=KEY, witness=agent.witness, marks=(agent.mark,))
        server = agent.start()
        time.sleep(LATER)
        running_calls.open_call(str(tmp_path), KEY, NAME)
        command = agent.start()
        assert manager.acquire(holder=owner, write_paths=["a.py"], ttl=None)
        agent.die()
        with pytest.raises(LockTimeoutError):
            manager.acquire(holder="bob", write_paths=["a.py"], timeout=0.05)
        command.kill()
        command.wait()
        assert server.poll() is None
        assert manager.acquire(holder="bob", write_paths=["a.py"], timeout=10)


# The files


def test_nothing_is_left_of_calls_that_were_closed(root: str) -> None:
    for name in ("a", "b"):
        running_calls.open_call(root, KEY, name)
    assert [file.rpartition("/")[2] for file in files(root)] == ["a", "b"]
    running_calls.close_call(root, KEY, "a")
    assert [file.rpartition("/")[2] for file in files(root)] == ["b"]
    running_calls.open_call(root, KEY, "c")
    running_calls.close_all(root, KEY)
    assert os.listdir(f"{root}/{running_calls.FOLDER}") == []
    assert open_since(root, KEY) is None


def test_closing_a_call_that_was_never_opened_is_harmless(root: str) -> None:
    running_calls.close_call(root, KEY, NAME)
    running_calls.close_all(root, KEY)
    assert open_since(root, KEY) is None
    running_calls.open_call(root, KEY, NAME)
    running_calls.close_call(root, KEY, "another")
    assert len(files(root)) == 1


def test_nothing_is_made_where_there_is_no_ledger(tmp_path: Path) -> None:
    running_calls.open_call(str(tmp_path), KEY, NAME)
    assert list(tmp_path.iterdir()) == []


def test_the_moment_is_by_the_clock_of_start_times(root: str) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        started = witness_of(process.pid)
        assert started is not None
        running_calls.open_call(root, KEY, NAME)
        opened = open_since(root, KEY)
        assert opened is not None
        assert 0 <= opened + 1 - started.start <= 20 / TICK
    finally:
        process.kill()
        process.wait()
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert opened * TICK == pytest.approx(uptime, abs=20)


@pytest.mark.parametrize("name", ["", "..", "a/../b", "a b\n", "x" * 300, "ä", "\udc80", "+", "~"])
def test_any_name_will_do(root: str, name: str) -> None:
    running_calls.open_call(root, name, name)
    running_calls.open_call(root, f"{name}2", "other")
    assert open_since(root, name) is not None
    assert len(files(root)) == 2
    assert all("\n" not in file and file.isascii() for file in files(root))
    mark = running_calls.mark(name, "NAME", "a:b=c")
    assert running_calls.variable_of(mark) == "NAME=a:b=c"
    (found,) = running_calls.sought(root, (mark,))
    assert found == ("NAME=a:b=c", open_since(root, name))
    running_calls.close_call(root, name, name)
    assert running_calls.sought(root, (mark,)) == []


def test_a_plain_mark_is_its_own_variable() -> None:
    assert running_calls.variable_of("NAME=call:x:y") == "NAME=call:x:y"
    assert running_calls.variable_of("call:x") == "call:x"


def test_a_half_written_file_is_ignored(root: str) -> None:
    running_calls.open_call(root, KEY, NAME)
    (file,) = Path(root, running_calls.FOLDER).rglob(NAME)
    text = file.read_text()
    file.with_name(f"{NAME}.1.tmp").write_text(text)
    for wrong in ("", boot_id(), f"{boot_id()} -5", f"{boot_id()} x", "\0" * 200):
        file.write_text(wrong)
        assert open_since(root, KEY) is None


def test_many_calls_of_one_agent_open_and_close_concurrently(root: str) -> None:
    def use(name: str) -> None:
        for _ in range(200):
            running_calls.open_call(root, KEY, name)
            assert open_since(root, KEY) is not None
            running_calls.close_call(root, KEY, name)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(use, ("a", "b")))
    assert files(root) == []


def test_calls_from_before_the_last_boot_are_removed(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running_calls.sweep(root)  # there is nothing yet
    with monkeypatch.context() as patch:
        patch.setattr(running_calls, "boot_id", lambda: "00000000-0000-0000-0000-000000000000")
        running_calls.open_call(root, KEY, "old")
        running_calls.open_call(root, f"{KEY}2", "old")
    running_calls.open_call(root, KEY, "new")
    running_calls.sweep(root)
    assert [file.rpartition("/")[2] for file in files(root)] == ["new"]
    assert len(os.listdir(f"{root}/{running_calls.FOLDER}")) == 1


# Readers of marks


def test_a_process_knows_its_own_agent_by_the_new_mark(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = Holder(id="ann", key=KEY, witness=agent.witness, marks=(agent.mark,))
    assert is_foreign(owner)
    monkeypatch.setenv(*agent.variable)
    assert not is_foreign(owner)


def test_importing_costs_no_heavy_module() -> None:
    code = (
        "import sys\n"
        "import holdfast.manager.owners.liveness, holdfast.manager.files.paths\n"
        "before = set(sys.modules)\n"
        "from holdfast.manager.owners.running_calls import mark\n"
        "mark('@claude/faf2-1/a', 'NAME', 'value')\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True,
                         env={"PYTHONPATH":
                              str(Path(running_calls.__file__).parents[3])})  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [
        "holdfast.manager.files.replace_file",
        "holdfast.manager.owners.running_calls",
    ]
