"""Whose lock it is: real process trees with agents, terminals, shells and runners in them."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.codec import holder_from_dict
from holdfast.core.errors import BadKeyError
from holdfast.core.model import Holder, Witness
from holdfast.manager.owners import identity, liveness, processes
from holdfast.manager.owners.identity import (
    Self,
    process_holder,
    runner_holder,
    user_name,
    whoami,
)
from holdfast.manager.owners.liveness import is_dead, own_witness, witness_of
from holdfast.manager.owners.processes import Process, process_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

SESSION = "8c1f0d52-aaaa-bbbb-cccc-0123456789ab"

#: Determines its holder, writes it to a file, and exits: the short-lived command.
PROBE = """
import os, sys
from holdfast.core.codec import dumps, holder_to_dict
from holdfast.manager.owners.identity import whoami
me = whoami(os.environ)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(dumps({"holder": holder_to_dict(me.holder), "how": me.how, "probe": os.getpid()}))
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""

#: A lasting program that runs commands on demand, in place of an agent, an editor, a scheduler. It
#: has no parent, so that an agent which runs these tests is not found above it.
KEEPER = """
import fcntl, json, os, pty, subprocess, sys, termios
if os.fork():
    os._exit(0)
os.setsid()
print(os.getpid(), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    own = str(os.getpid())
    environ = {name: value.replace("@PID", own) for name, value in order["env"].items()}
    if order["terminal"]:
        master, slave = pty.openpty()
        take = lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        child = subprocess.Popen(order["argv"], env=environ, stdin=slave, stdout=slave,
                                 stderr=slave, start_new_session=True, preexec_fn=take)
        os.close(slave)
        child.wait()
        os.close(master)
    else:
        subprocess.run(order["argv"], env=environ, stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, start_new_session=order["session"])
    print("done", flush=True)
"""


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


class Answer:
    """The output of a probe."""

    def __init__(self, path: Path) -> None:
        said: dict[str, Any] = json.loads(path.read_text())
        path.unlink()
        self.holder = holder_from_dict(said["holder"])
        self.how: str = said["how"]
        self.probe: int = said["probe"]

    @property
    def pid(self) -> int | None:
        return self.holder.witness.pid if self.holder.witness else None


class Keeper:
    """A lasting program, and the holders of the commands that it runs."""

    def __init__(self, bench: Bench, argv: list[str]) -> None:
        self.bench = bench
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=bench.environ()
        )
        self.process.wait(timeout=30)
        self.pid = int(self.hear())

    def hear(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 30)
        assert ready, "the keeper does not answer"
        return self.process.stdout.readline().strip()

    def ask(
        self,
        *wrapper: str,
        env: Mapping[str, str] | None = None,
        terminal: bool = False,
        session: bool = False,
        argv: list[str] | None = None,
    ) -> Answer:
        order = {
            "argv": argv or [*wrapper, *self.bench.probe],
            "env": self.bench.environ(env),
            "terminal": terminal,
            "session": session,
        }
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        assert self.hear() == "done"
        return Answer(self.bench.answer)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


class Bench:
    """Where trees of processes are built, and cut down when the test is over."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answer = folder / "answer.json"
        script = folder / "probe.py"
        script.write_text(PROBE)
        self.probe = [sys.executable, str(script), str(self.answer)]
        self.keepers: list[Keeper] = []
        self.ends: list[Callable[[], None]] = []

    def environ(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Our environment, without the variables that identify us."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOLDFAST_", "CLAUDE", "CODEX_"))
        }
        return {**kept, **(extra or {})}

    def keeper(self, *argv: str, path: str = "keeper.py") -> Keeper:
        script = self.folder / path
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(f"#!{sys.executable}\n{KEEPER}")
        script.chmod(0o755)
        made = Keeper(self, [*argv, str(script)])
        self.keepers.append(made)
        return made

    def sh(self, command: str = "") -> str:
        """A line for a shell that cannot replace itself by its last command."""
        return f"{command or ' '.join(self.probe)}; true"

    def terminal(self, *argv: str) -> Terminal:
        made = Terminal(self, list(argv))
        self.ends.append(made.close)
        return made

    def close(self) -> None:
        for end in [*(keeper.close for keeper in self.keepers), *self.ends]:
            end()


class Terminal:
    """An interactive shell with its own terminal."""

    def __init__(self, bench: Bench, argv: list[str]) -> None:
        self.bench = bench
        self.master, slave = pty.openpty()
        self.tty = os.ttyname(slave).removeprefix("/dev/")
        started = bench.folder / "terminal.pid"
        code = (
            "import fcntl, os, sys, termios\n"
            "if os.fork(): os._exit(0)\n"
            "os.setsid()\n"
            "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            "open(sys.argv[1], 'w').write(f'{os.getpid()}\\n')\n"
            "os.execvp(sys.argv[2], sys.argv[2:])\n"
        )
        subprocess.run(
            [sys.executable, "-c", code, str(started), *argv],
            stdin=slave, stdout=slave, stderr=slave, env=bench.environ(), check=True,
        )  # fmt: skip
        os.close(slave)
        until(lambda: started.exists() and started.read_text().endswith("\n"))
        self.pid = int(started.read_text())
        until(lambda: Path(f"/proc/{self.pid}/comm").read_text().strip() == Path(argv[0]).name)

    def type(self, line: str) -> None:
        os.write(self.master, f"{line}\n".encode())

    def ask(self, line: str = "") -> Answer:
        self.type(line or " ".join(self.bench.probe))
        until(self.said)
        return Answer(self.bench.answer)

    def said(self) -> bool:
        while select.select([self.master], [], [], 0)[0]:  # a full terminal would stop them
            os.read(self.master, 65536)
        return self.bench.answer.exists()

    def close(self) -> None:
        os.close(self.master)  # hangs up: the shell ends
        until(lambda: witness_of(self.pid) is None)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.fixture
def sleeper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(**options: Any) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "60"], **options))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.wait()


# a. Named at the command line


def test_a_given_name_is_the_holder_and_lives_by_its_ttl() -> None:
    me = whoami({"HOLDFAST_HOLDER": "other", "CLAUDE_CODE_SESSION_ID": SESSION}, holder="release 7")
    assert me.holder == Holder(id="release 7", key="release 7", user=user_name())
    assert me.holder.witness is None
    assert "ttl" in me.how


FORGED = ["a\nb", "a\0b", "\x1b[31mred", "a\u2028b", "\u202eabc", "a\t", "\ud800"]


@pytest.mark.parametrize("id", ["", " ", " a", "x" * 201, *FORGED])
@pytest.mark.parametrize(
    "named",
    [
        lambda text: whoami({}, holder=text),
        lambda text: whoami({"HOLDFAST_HOLDER": text or " "}),
        process_holder,
        runner_holder,
        lambda text: identity._claude(text, "", []),
    ],
    ids=["argument", "variable", "process", "runner", "claude"],
)
def test_a_name_that_could_forge_a_line_is_refused(id: str, named: Callable[[str], object]) -> None:
    with pytest.raises(BadKeyError) as caught:
        named(id)
    assert caught.value.hint
    json.dumps(caught.value.to_dict()).encode()


def test_an_empty_variable_is_none() -> None:
    assert whoami({"HOLDFAST_HOLDER": ""}).holder == whoami({}).holder


@pytest.mark.parametrize("id", ["a", "agent-1", "Ünïcode ✓", "x" * 200, "claude:12345678", "a=b;c"])
def test_ordinary_names_are_taken(id: str) -> None:
    assert whoami({}, holder=id).holder.id == id


# b. The runner


def test_a_command_of_a_runner_is_the_runner() -> None:
    made, environ = runner_holder("run-1")
    assert made.id == "run-1"
    assert made.witness == own_witness()
    assert made.marks == (f"HOLDFAST_OWNER={environ['HOLDFAST_OWNER']}",)
    assert environ["HOLDFAST_HOLDER"] == "run-1"
    me = whoami(environ)
    assert me.holder == made
    assert str(os.getpid()) in me.how


def test_two_runners_of_one_name_are_two_holders(bench: Bench) -> None:
    mine, _ = runner_holder("twin")
    subprocess.run(
        [sys.executable, "-c", RUNNER_CODE, str(bench.answer)], env=bench.environ(), check=True
    )
    assert bench.answer.read_text() != mine.key


RUNNER_CODE = """
import sys
from holdfast.manager.owners.identity import runner_holder
open(sys.argv[1], "w").write(runner_holder("twin")[0].key)
"""


def test_a_command_of_a_runner_is_the_runner_across_processes(bench: Bench) -> None:
    made, environ = runner_holder("run-2")
    subprocess.run(["sh", "-c", bench.sh()], env=bench.environ(environ), check=True)
    assert Answer(bench.answer).holder == made


def test_a_runner_comes_before_the_agent_that_it_runs() -> None:
    _, environ = runner_holder("run-3")
    agent = {"CLAUDE_PID": str(os.getppid()), "CLAUDE_CODE_SESSION_ID": SESSION}
    assert whoami({**environ, **agent}).holder.id == "run-3"


def test_a_name_without_a_runner_lives_by_its_ttl() -> None:
    me = whoami({"HOLDFAST_HOLDER": "alone"})
    assert me.holder == Holder(id="alone", user=user_name())
    assert "ttl" in me.how


def test_a_child_that_outlives_a_killed_runner_still_is_that_runner(bench: Bench) -> None:
    orphan_code = "import sys; sys.stdin.read(1); " + PROBE
    runner_code = (
        "import os, subprocess, sys\n"
        "from holdfast.manager.owners.identity import runner_holder\n"
        "made, environ = runner_holder('run-4')\n"
        "subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]],"
        " env={**os.environ, **environ})\n"
        "print(made.witness.pid, made.witness.start, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", runner_code, orphan_code, str(bench.answer)],
        env=bench.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as runner:  # fmt: skip
        assert runner.stdin is not None
        assert runner.stdout is not None
        pid, start = map(int, runner.stdout.readline().split())
        assert runner.wait(timeout=30) == -signal.SIGKILL
        own = own_witness()
        dead = Witness(host=own.host, boot=own.boot, namespace=own.namespace, pid=pid, start=start)
        mark = (f"HOLDFAST_OWNER={pid}:{start}:{own.boot}:{own.namespace}",)
        assert is_dead(dead, ())
        assert not is_dead(dead, mark)
        runner.stdin.write("x")
        runner.stdin.close()
        until(bench.answer.exists)
        said = Answer(bench.answer)
        assert said.holder.witness == dead
        assert said.holder.marks == mark
        until(lambda: is_dead(dead, mark) is True)


@pytest.mark.parametrize(
    "owner", ["", ":", "abc", "12", "-1:5", "1:x", "1:2:3", "٣:٤", "9" * 30 + ":1"]
)
def test_a_variable_that_names_no_runner_is_not_believed(owner: str) -> None:
    me = whoami({"HOLDFAST_HOLDER": "h", "HOLDFAST_OWNER": owner})
    assert me.holder == Holder(id="h", user=user_name())


def test_the_short_form_must_name_a_living_process(
    sleeper: Callable[..., subprocess.Popen[bytes]],
) -> None:
    child = sleeper()
    witness = witness_of(child.pid)
    assert witness is not None
    environ = {"HOLDFAST_HOLDER": "h", "HOLDFAST_OWNER": f"{witness.pid}:{witness.start}"}
    assert whoami(environ).holder.witness == witness
    wrong = {**environ, "HOLDFAST_OWNER": f"{witness.pid}:{witness.start + 1}"}
    assert whoami(wrong).holder.witness is None
    child.kill()
    child.wait()
    assert whoami(environ).holder.witness is None


def test_a_runner_of_another_machine_is_not_looked_for_here() -> None:
    own = own_witness()
    owner = f"{own.pid}:{own.start}:another-boot:{own.namespace}"
    me = whoami({"HOLDFAST_HOLDER": "h", "HOLDFAST_OWNER": owner})
    assert me.holder.witness is None


def test_in_a_sandbox_the_runner_keeps_its_own_namespace() -> None:
    own = own_witness()
    owner = f"{own.pid}:{own.start}:{own.boot}:pid:[4026530000]"
    witness = whoami({"HOLDFAST_HOLDER": "h", "HOLDFAST_OWNER": owner}).holder.witness
    assert witness is not None
    assert witness.namespace == "pid:[4026530000]"
    assert not is_dead(witness, ())


# c. The agent client


def claude(pid: str = "@PID") -> dict[str, str]:
    return {"CLAUDE_PID": pid, "CLAUDE_CODE_SESSION_ID": SESSION}


def test_under_claude_the_session_holds(bench: Bench) -> None:
    keeper = bench.keeper()
    said = keeper.ask("sh", "-c", bench.sh(), env=claude(), argv=["sh", "-c", bench.sh()])
    assert said.holder.id == f"claude:{SESSION}"
    assert said.holder.key == f"@claude/{SESSION}/"
    assert (said.holder.client, said.holder.session) == ("claude", SESSION)
    assert said.holder.marks == (f"CLAUDE_CODE_SESSION_ID={SESSION}",)
    assert said.pid == keeper.pid
    assert said.how == f"the Claude Code session {SESSION} (pid {keeper.pid})"
    assert said.holder.witness is not None
    assert not is_dead(said.holder.witness, said.holder.marks)


def test_each_call_of_one_session_is_the_same_holder(bench: Bench) -> None:
    keeper = bench.keeper()
    calls = [keeper.ask(env=claude(), session=session) for session in (False, True)]
    assert calls[0].holder == calls[1].holder
    assert calls[0].probe != calls[1].probe


def test_a_claude_that_is_no_ancestor_must_be_an_older_process_of_the_same_user(
    sleeper: Callable[..., subprocess.Popen[bytes]],
) -> None:
    code = (
        "import os, sys; from holdfast.manager.owners.identity import whoami\n"
        "w = whoami({'CLAUDE_PID': sys.argv[1], 'CLAUDE_CODE_SESSION_ID': 's'}).holder.witness\n"
        "print(w.pid if w else None)"
    )

    def seen(pid: int) -> str:
        run = [sys.executable, "-c", code, str(pid)]
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()

    child = sleeper()
    assert seen(child.pid) == str(child.pid)
    if os.geteuid() == 0:
        other = sleeper(user=65534, group=65534, extra_groups=[])
        assert seen(other.pid) == "None"
    child.kill()
    child.wait()
    assert seen(child.pid) == "None"
    # Younger than we are: it cannot have started us.
    young = sleeper()
    witness = witness_of(young.pid)
    assert witness is not None
    if witness.start > own_witness().start:
        assert identity._claude_witness(str(young.pid), []) is None
    assert identity._claude_witness(str(os.getpid()), []) is None


def test_a_claude_out_of_sight_lives_by_its_ttl_under_the_same_key(bench: Bench) -> None:
    keeper = bench.keeper()
    said = keeper.ask(env=claude("4194304"))
    assert said.holder.key == f"@claude/{SESSION}/"
    assert said.holder.witness is None
    assert said.holder.marks == ()
    assert "ttl" in said.how


def test_a_claude_that_does_not_name_its_pid_is_found_by_its_name(bench: Bench) -> None:
    keeper = bench.keeper(path="bin/claude")
    said = keeper.ask(env={"CLAUDE_CODE_SESSION_ID": SESSION})
    assert (said.holder.key, said.pid) == (f"@claude/{SESSION}/", keeper.pid)
    said = keeper.ask()
    assert (said.holder.id, said.pid) == (f"claude:{keeper.pid}", keeper.pid)


@pytest.mark.parametrize(
    ("client", "path"),
    [
        ("codex", "bin/codex"),
        ("codex", "lib/codex.py"),
        ("codex", "lib/node_modules/@openai/codex/bin/index.py"),
        ("gemini", "bin/gemini"),
        ("gemini", "lib/node_modules/@google/gemini-cli/dist/index.py"),
        ("opencode", "bin/opencode"),
        ("cursor", "share/cursor-agent/versions/1/index.py"),
        ("aider", "bin/aider"),
    ],
)
def test_a_client_is_recognised_by_its_program(bench: Bench, client: str, path: str) -> None:
    keeper = bench.keeper(path=path)
    said = keeper.ask(argv=["bash", "-c", bench.sh()])
    start = process_of(keeper.pid)
    assert start is not None
    assert said.holder.id == f"{client}:{keeper.pid}"
    assert said.holder.key == f"@{client}/{keeper.pid}.{start.start}/"
    assert said.holder.client == client
    assert said.holder.witness == witness_of(keeper.pid)


def test_a_client_is_recognised_by_its_own_name(bench: Bench) -> None:
    keeper = bench.keeper("bash", "-c", f'exec -a codex {sys.executable} "$0"')
    assert keeper.ask().holder.id == f"codex:{keeper.pid}"


def test_a_client_with_a_terminal_per_call_is_still_the_client(bench: Bench) -> None:
    keeper = bench.keeper(path="bin/codex")
    said = keeper.ask(argv=["bash", "-lc", bench.sh()], terminal=True)
    assert said.holder.id == f"codex:{keeper.pid}"


def test_a_shell_script_can_be_a_client(bench: Bench) -> None:
    script = bench.folder / "gemini"
    script.write_text(f"#!/bin/bash -e\n{bench.sh()}\n")
    script.chmod(0o755)
    said = bench.keeper().ask(argv=[str(script)])
    assert said.holder.client == "gemini"
    assert said.holder.id == f"gemini:{said.pid}"


def test_the_session_of_codex_marks_its_children(bench: Bench) -> None:
    env = {"CODEX_SESSION_ID": "s-1", "CODEX_THREAD_ID": "s-1"}
    said = bench.keeper(path="bin/codex").ask(env=env)
    assert said.holder.marks == ("CODEX_SESSION_ID=s-1",)
    assert (said.holder.session, said.holder.agent) == ("s-1", "")
    assert said.holder.key == "@codex/s-1/"


def test_a_thread_of_codex_is_a_sub_agent_of_its_session(bench: Bench) -> None:
    env = {"CODEX_SESSION_ID": "s-1", "CODEX_THREAD_ID": "t-2"}
    said = bench.keeper(path="bin/codex").ask(env=env)
    assert (said.holder.key, said.holder.parent) == ("@codex/s-1/t-2", "@codex/s-1/")
    assert said.holder.id == "codex:s-1/t-2"


def test_two_sessions_of_one_minute_are_not_called_the_same(bench: Bench) -> None:
    """Codex begins its ids with the time."""
    keeper = bench.keeper(path="bin/codex")
    ids = ("019a1b2c-3d4e-7f00-8000-00000000000a", "019a1b2c-3d4e-7f00-8000-00000000000b")
    said = [keeper.ask(env={"CODEX_SESSION_ID": id, "CODEX_THREAD_ID": id}).holder for id in ids]
    assert [one.id for one in said] == [f"codex:{id}" for id in ids]


def test_an_agent_that_an_agent_started_is_its_own_holder(bench: Bench) -> None:
    """Two of them under one Claude must exclude each other, though both inherit its variables."""
    keeper = bench.keeper()
    inner = bench.folder / "codex"
    inner.write_text(f"#!/bin/sh\n{bench.sh()}\n")
    inner.chmod(0o755)
    one = keeper.ask(argv=[str(inner)], env=claude())
    two = keeper.ask(argv=[str(inner)], env=claude())
    assert one.holder.client == two.holder.client == "codex"
    assert one.holder.key != two.holder.key


def test_a_folder_of_that_name_makes_no_client(bench: Bench) -> None:
    keeper = bench.keeper(path="codex/claude/main.py")
    assert keeper.ask().holder.client == ""


# d. The terminal


def test_in_a_terminal_the_session_holds(bench: Bench) -> None:
    terminal = bench.terminal("bash", "--norc", "--noprofile", "-i")
    said = terminal.ask()
    assert said.pid == terminal.pid
    assert said.holder.id == f"{user_name()}@{terminal.tty}:{terminal.pid}"
    assert said.how == f"this terminal (session leader bash, pid {terminal.pid})"
    assert said.holder.client == ""
    assert terminal.ask().holder == said.holder


@pytest.mark.parametrize(
    "wrapped",
    [
        "sh -c '{0}; true'",
        "env X=1 timeout 20 nice {0}",
        "({0}) < /dev/null | cat",
        "bash --norc --noprofile -c 'sh -c \"{0}; true\"; true'",
        "setsid -w {0} < /dev/null",
        "script -qec '{0}' /dev/null",
        "script -qec 'sh -c \"{0}; true\"; true' /dev/null",
    ],
)
def test_wrappers_and_sessions_for_one_call_do_not_change_whose_terminal_it_is(
    bench: Bench, wrapped: str
) -> None:
    if wrapped.startswith("script") and not shutil.which("script"):
        pytest.skip("needs the script command of util-linux")
    terminal = bench.terminal("bash", "--norc", "--noprofile", "-i")
    plain = terminal.ask()
    said = terminal.ask(wrapped.format(" ".join(bench.probe)))
    assert said.pid == terminal.pid
    assert said.holder == plain.holder


@pytest.mark.parametrize("terminal_per_call", [False, True])
def test_an_unknown_agent_that_detaches_its_calls_holds_itself(
    bench: Bench, terminal_per_call: bool
) -> None:
    agent = bench.folder / "agent.py"
    agent.write_text(
        "import fcntl, os, pty, subprocess, sys, termios\n"
        "slave = pty.openpty()[1]\n"
        "take = (lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0)) if sys.argv[1:2] == ['True']"
        " else None\n"
        "subprocess.run(['sh', '-c', sys.argv[2]], start_new_session=True, preexec_fn=take,"
        " stdin=slave, stdout=slave)\n"
    )
    terminal = bench.terminal("bash", "--norc", "--noprofile", "-i")
    said = terminal.ask(f"{sys.executable} {agent} {terminal_per_call} '{bench.sh()}'")
    assert said.holder.id == f"{user_name()}@{Path(sys.executable).name}:{said.pid}"
    assert said.pid not in (said.probe, terminal.pid)


def test_two_terminals_are_two_holders(bench: Bench, tmp_path_factory: Any) -> None:
    other = Bench(tmp_path_factory.mktemp("other"))
    try:
        one = bench.terminal("bash", "--norc", "--noprofile", "-i").ask()
        two = other.terminal("bash", "--norc", "--noprofile", "-i").ask()
        assert one.holder.key != two.holder.key
    finally:
        other.close()


def test_a_shell_for_one_command_does_not_own_the_terminal_that_a_shell_inside_it_does(
    bench: Bench,
) -> None:
    terminal = bench.terminal("bash", "-c", "bash --norc --noprofile -i; true")
    said = terminal.ask()
    inner = process_of(said.pid or 0)
    assert inner is not None
    assert inner.parent == terminal.pid
    assert inner.arguments == ["bash", "--norc", "--noprofile", "-i"]


def test_an_unknown_agent_with_a_terminal_per_call_is_one_holder(bench: Bench) -> None:
    keeper = bench.keeper()
    calls = [
        keeper.ask(argv=argv, terminal=True)
        for argv in (["sh", "-c", bench.sh()], ["bash", "-lc", bench.sh()], bench.probe)
    ]
    assert [said.pid for said in calls] == [keeper.pid] * 3
    assert len({said.holder.key for said in calls}) == 1


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (136 << 8, "pts/0"),
        (136 << 8 | 17, "pts/17"),
        (137 << 8 | 1, "pts/257"),
        (4 << 8 | 1, "tty1"),
        (4 << 8 | 64, "ttyS0"),
        (5 << 8 | 1, ""),
        (0, ""),
    ],
)
def test_terminals_have_their_usual_names(number: int, name: str) -> None:
    assert identity.terminal_name(number) == name


def test_an_odd_terminal_is_called_by_its_machine() -> None:
    found = process_of(os.getpid())
    assert found is not None
    fields = [b"0"] * 30
    fields[liveness.TERMINAL] = str(5 << 8 | 1).encode()
    odd = processes.Process(found.pid, "sh", fields)
    said = identity._terminal_of(found, odd).holder
    assert said.id == f"{user_name()}@{os.uname().nodename}:{odd.session}"


# e. The program that started it


def test_without_a_terminal_the_program_that_started_it_holds(bench: Bench) -> None:
    keeper = bench.keeper()
    said = keeper.ask(session=True)
    name = Path(f"/proc/{keeper.pid}/comm").read_text().strip()
    assert said.pid == keeper.pid
    assert said.holder.id == f"{user_name()}@{name}:{keeper.pid}"
    assert str(keeper.pid) in said.how


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "{0}; true"],
        ["bash", "-lc", "sh -c '{0}; true'; true"],
        ["env", "X=1", "timeout", "20", "nice", "-n", "1", "{0}"],
        ["setsid", "-w", "nohup", "{0}"],
        ["sh", "-c", "echo 1 | xargs -n1 sh -c '{0}; true'; true"],
        ["sh", "{script}"],
    ],
)
def test_shells_and_wrappers_hold_nothing(bench: Bench, argv: list[str]) -> None:
    keeper = bench.keeper()
    script = bench.folder / "call.sh"
    script.write_text(bench.sh())
    filled: list[str] = []
    for word in argv:
        whole = word.format(" ".join(bench.probe), script=script)
        filled += bench.probe if word == "{0}" else [whole]
    first, second = keeper.ask(argv=filled), keeper.ask(argv=filled, session=True)
    assert first.pid == second.pid == keeper.pid
    assert first.holder == second.holder


def test_this_program_itself_holds_nothing(bench: Bench) -> None:
    """A command that a command of ours runs belongs to the starter of ours."""
    package = bench.folder / "package" / "holdfast"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import subprocess, sys; subprocess.run(sys.argv[1:])")
    keeper = bench.keeper()
    run = f"{sys.executable} -m holdfast env -C / {' '.join(bench.probe)}"
    nested = ["sh", "-c", f"cd {package.parent} && {run}; true"]
    assert keeper.ask(argv=nested).pid == keeper.pid


def test_a_program_with_a_strange_name_makes_an_ordinary_id(bench: Bench) -> None:
    program = bench.folder / "a) Z (\n\x1b"
    keeper = bench.keeper(path=program.name)
    said = keeper.ask()
    assert said.pid == keeper.pid
    assert said.holder.id.isprintable()


def test_never_the_command_itself(bench: Bench) -> None:
    keeper = bench.keeper()
    for session in (False, True):
        for terminal in (False, True):
            assert keeper.ask(session=session, terminal=terminal).pid == keeper.pid


def chain(*argvs: list[str]) -> list[Process]:
    """Processes above us that exist in the test alone, nearest first."""
    found = []
    for number, argv in enumerate(argvs):
        fields = [b"0"] * 50
        process = Process(1_000_000 + number, Path(argv[0]).name, fields)
        process._arguments, process._executable = argv, argv[0]
        found.append(process)
    return found


def held_by(*argvs: list[str]) -> Self | None:
    return identity._program(chain(*argvs))


def test_the_first_process_of_a_container_holds_only_if_it_is_a_program() -> None:
    agent = held_by(["sh", "-c", "x"], ["agent-server"])
    assert agent is not None
    assert agent.holder.id.endswith("@agent-server:1000001")
    job = held_by(["bash", "job.sh"], ["/sbin/init"])
    assert job is not None
    assert job.holder.id.endswith("@bash:1000000")
    assert job.holder.witness is not None


def test_a_shell_for_one_command_with_no_program_above_it_lives_by_its_ttl() -> None:
    for above in ([["bash", "-c", "x"]], [["sh", "-ec", "x"], ["/usr/lib/systemd/systemd"]]):
        me = held_by(*above)
        assert me is not None
        assert me.holder.witness is None
        assert "ttl" in me.how
    assert held_by(["/sbin/init"]) is None


def test_a_command_with_no_process_above_it_is_reported_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(identity, "sees_processes", lambda: False)
    monkeypatch.setattr(identity, "_terminal_by_system", lambda: None)
    me = whoami({})
    assert me.holder.witness is None
    assert "ttl" in me.how
    assert whoami({}) == me


def test_without_proc_a_terminal_is_found_by_the_system(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from holdfast.manager.owners import identity; identity.sees_processes = lambda: False\n"
        + PROBE
    )
    script = bench.folder / "system.py"
    script.write_text(code)
    terminal = bench.terminal("bash", "--norc", "--noprofile", "-i")
    said = terminal.ask(f"{sys.executable} {script} {bench.answer}")
    assert said.pid == terminal.pid
    assert said.holder.id.endswith(f":{terminal.pid}")


# Shells


@pytest.mark.parametrize(
    ("argv", "task"),
    [
        (["-bash"], ""),
        (["bash"], ""),
        (["bash", "-i", "-l"], ""),
        (["bash", "--login", "--norc"], ""),
        (["bash", "--init-file", "/usr/share/code/integration.sh"], ""),
        (["bash", "-O", "extglob", "-o", "vi"], ""),
        (["fish", "--init-command", "source x"], ""),
        (["fish", "-C", "source x"], ""),
        (["bash", "-c", "make"], "-c"),
        (["bash", "-lc", "make"], "-c"),
        (["bash", "-euo", "pipefail", "-c", "make"], "-c"),
        (["fish", "--command=make"], "-c"),
        (["sh", "/tmp/call.sh", "-i"], "/tmp/call.sh"),
        (["bash", "-e", "job.sh"], "job.sh"),
        (["bash", "-eo", "pipefail", "job.sh"], "job.sh"),
    ],
)
def test_the_task_of_a_shell(argv: list[str], task: str) -> None:
    process = chain(argv)[0]
    assert process.is_shell
    assert process.task == task
    assert process.lasts == (not task)


# In-process holders


def test_two_processes_of_one_name_are_two_holders() -> None:
    code = (
        "from holdfast.manager.owners.identity import process_holder\n"
        "print(process_holder('a').key)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    mine = process_holder("a")
    assert mine.id == "a"
    assert mine.witness == own_witness()
    assert mine.marks == ()
    assert mine == process_holder("a")
    assert mine.key != process_holder("b").key
    assert mine.key != run.stdout.strip()
    assert str(os.getpid()) in mine.key


def test_a_forked_child_is_another_holder() -> None:
    mine = process_holder("a").key
    pid = os.fork()
    if pid == 0:
        os._exit(0 if process_holder("a").key != mine else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_without_start_times_a_reused_pid_inherits_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "_LINUX", False)
    monkeypatch.setattr(liveness, "_here", None)
    monkeypatch.setattr(identity, "_birth", (0, 0))
    first = process_holder("a").key
    assert process_holder("a").key == first
    monkeypatch.setattr(identity, "_birth", (0, 0))  # as in a later process with the same pid
    assert process_holder("a").key != first


def test_the_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    assert user_name() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(identity, "_user", None)
    monkeypatch.setattr(os, "getuid", lambda: 987_654)
    monkeypatch.setenv("USER", "some\none")
    assert user_name() == "some?one"
    monkeypatch.setattr(identity, "_user", None)


def test_the_table_of_clients_is_consistent() -> None:
    names = [row[0] for row in processes.CLIENTS]
    assert len(set(names)) == len(names)
    assert all(program and folder for _, program, folder, _ in processes.CLIENTS)
    assert not set(processes.SHELLS) & set(processes.WRAPPERS)
