"""run --sandbox: every way in which a command ends, and the ledger from inside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_cli import COMMAND, Terminal, children_of, is_gone, wait_for_file
from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK, Room

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

CREATE_RULESET = 444


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    made = Room(tmp_path)
    yield made
    assert made.left_over() == [], "the scratch folder is gone"
    assert made.held() == [], "the lock is given back"


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Processes to end after the test."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)


# As without a sandbox


@NEEDS_LANDLOCK
def test_exit_codes_and_signals_pass_through(room: Room) -> None:
    for code in (0, 1, 42, 255):
        answer = room.shell(f"exit {code}")
        assert (answer.code, answer.out, answer.err) == (code, "", "")
    assert room.shell("kill -KILL $$").code == 128 + signal.SIGKILL


@NEEDS_LANDLOCK
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on_and_all_is_cleaned_up(
    room: Room, started: list[int], number: signal.Signals
) -> None:
    words = room.line("--", "sh", "-c", "echo began; exec sleep 600", write=["app/new.rb"])
    process = room.repo.start(*words, env=room.env)
    started.append(process.pid)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert not (room.root / "app/new.rb").exists()


@NEEDS_LANDLOCK
def test_ctrl_c_at_a_terminal_ends_the_command_and_cleans_up(room: Room) -> None:
    terminal = Terminal(room.repo, **room.env)
    try:
        line = "sh -c 'echo be''gun; exec sleep 600'"
        terminal.type(f"{' '.join([*COMMAND, *room.line('--')])} {line}; echo code:$?\n")
        terminal.shows("begun\r\n")
        terminal.type("\x03")
        terminal.shows("code:130")
    finally:
        terminal.close()


@NEEDS_LANDLOCK
def test_the_command_starts_with_the_signals_as_they_were_given(room: Room) -> None:
    command = ["grep", "-E", "Sig(Blk|Ign|Cgt)", "/proc/self/status"]  # a shell would reset some
    inside = room.run("--", *command)
    outside = room.repo.hold("run", "--write", "app/x.rb", "--", *command)
    assert _signals(inside.out) == _signals(outside.out)
    answer = room.repo.hold(
        *room.line("--", "sh", "-c", "kill -HUP $$; echo alive"), env=room.env,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert answer.out == "alive\n"


def _signals(text: str) -> list[tuple[str, int]]:
    """The sets of signals, without the two that the C library keeps for itself."""
    lines = [line.split() for line in text.splitlines()]
    return [(name, int(found, 16) & ~(0b11 << 31)) for name, found in lines]


@NEEDS_LANDLOCK
def test_the_command_inherits_no_descriptor_of_ours(room: Room) -> None:
    answer = room.shell("ls /proc/$$/fd")
    assert answer.out.split() == ["0", "1", "2"]


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    ("name", "code"), [("no-such-command", 127), ("./not-executable", 126), ("./script", 126)]
)
def test_a_command_that_cannot_be_started_is_told(room: Room, name: str, code: int) -> None:
    (room.root / "not-executable").write_text("nothing\n")
    (room.root / "script").write_text("nothing\n")
    (room.root / "script").chmod(0o755)
    answer = room.run("--", name, write=["app/new.rb"])
    assert answer.code == code
    assert answer.err.startswith(f"holdfast: cannot start '{name}': ")
    assert not (room.root / "app/new.rb").exists()
    answer = room.run("--json", "--", name)
    assert (answer.code, answer.error["code"]) == (code, "E_COMMAND")


@NEEDS_LANDLOCK
def test_a_killed_runner_leaves_a_command_that_is_still_kept_in(
    room: Room, started: list[int]
) -> None:
    note = room.root / "app/x.rb"
    script = f"echo $$ >app/x.rb; while [ -d /proc/{os.getpid()} ]; do read line <$TMPDIR/go "
    script += "&& break; done; echo new >app/y.rb; echo over >>app/x.rb; exec sleep 600"
    words = room.line("--", "sh", "-c", f"mkfifo $TMPDIR/go; {script}",
                      write=["app/x.rb", "app/new.rb"])  # fmt: skip
    process = room.repo.start(
        *words, env=room.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    started.append(process.pid)
    until(lambda: note.read_text().strip().isdigit(), "the command has begun")
    child = int(note.read_text())
    started.append(child)
    process.kill()
    process.wait(30)
    [left] = room.left_over()
    with open(room.tmp / left / "tmp/go", "w") as go:
        go.write("go\n")
    until(lambda: note.read_text().endswith("over\n"), "the orphan goes on")
    assert room.text("app/y.rb") == "old\n", "and is still kept in"
    assert room.repo.hold("check", "app/x.rb").code == 3, "and still has its lock"
    assert room.shell("true", write=["app/y.rb"]).code == 0
    assert room.left_over() == [left], "its scratch folder stays as long as it lives"
    os.kill(child, signal.SIGKILL)
    until(lambda: is_gone(child), "the orphan is gone")
    assert (room.root / "app/new.rb").exists(), "no process has cleaned up yet"
    assert room.shell("true", write=["app/y.rb"]).code == 0
    assert room.left_over() == [], "the next one does"
    assert not (room.root / "app/new.rb").exists()
    assert note.read_text().endswith("over\n")


@NEEDS_LANDLOCK
def test_a_conflict_exits_with_3_and_nothing_is_created(room: Room) -> None:
    room.repo.hold("lock", "app/new.rb", "--holder", "bob")
    answer = room.shell("touch app/new.rb", write=["app/new.rb"])
    assert answer.code == 3
    assert not (room.root / "app/new.rb").exists()
    room.repo.hold("unlock", "app/new.rb", "--holder", "bob")


# The ledger from inside


ASK = """
import json, os, sys
from holdfast.gate.sandbox import SandboxError, runner_client
grant, token = os.environ["HOLDFAST_GRANT"], int(os.environ["HOLDFAST_TOKEN"])
root = os.getcwd()
said = [
    bool(runner_client.verify(grant, f"{root}/app/x.rb", token=token)),
    bool(runner_client.verify(grant, "app/x.rb", token=token)),
    bool(runner_client.verify(grant, token=token)),
    runner_client.verify(grant, "app/y.rb", token=token).code,
    runner_client.verify(grant, "app/x.rb", token=token - 1).code,
    runner_client.verify("nobody's", "app/x.rb", token=token).code,
    [one["write_paths"] for one in runner_client.status()["grants"]],
    runner_client.status()["root"] == root,
]
try:
    runner_client.verify(grant, "../outside", token=token)
except SandboxError as error:
    said.append(error.fields["said"])
print(json.dumps(said))
"""


@NEEDS_LANDLOCK
def test_from_inside_the_runner_is_asked_what_is_held(room: Room) -> None:
    answer = room.run("--", sys.executable, "-c", ASK)
    assert answer.json == [
        True, True, True, "E_LOCK_VIOLATION", "E_FENCING_MISMATCH", "E_LOCK_NOT_HELD",
        [["app/x.rb"]], True, "E_BAD_KEY",
    ], answer  # fmt: skip


@NEEDS_LANDLOCK
def test_a_grant_that_was_taken_away_is_refused_inside_at_once(
    room: Room, started: list[int]
) -> None:
    script = "import os; from holdfast.gate.sandbox import runner_client\n"
    script += "grant, token = os.environ['HOLDFAST_GRANT'], int(os.environ['HOLDFAST_TOKEN'])\n"
    script += "for _ in range(2):\n"
    script += " input(); print(bool(runner_client.verify(grant, token=token)), flush=True)"
    process = room.repo.start(
        *room.line("--", sys.executable, "-c", script), env=room.env, stdin=subprocess.PIPE
    )
    started.append(process.pid)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "True\n"
    person = Terminal(room.repo)
    try:
        assert person.hold("unlock", "app/x.rb", "--force", "--reason", "urgent").code == 0
    finally:
        person.close()
    assert process.communicate("\n", timeout=30)[0] == "False\n"


@NEEDS_LANDLOCK
def test_the_ledger_itself_is_closed_inside(room: Room) -> None:
    answer = room.run("--", *COMMAND, "lock", "app/y.rb", "--json")
    assert (answer.code, answer.error["code"]) == (1, "E_STORE_READONLY")


@NEEDS_LANDLOCK
def test_a_killed_runner_does_not_answer(room: Room, started: list[int]) -> None:
    script = "import os; from holdfast.gate.sandbox import runner_client\n"
    script += "note = open('note', 'w', buffering=1)\n"
    script += "print(os.getpid(), file=note)\n"
    script += "while True:\n try: runner_client.status()\n except Exception as error:\n"
    script += "  print(error.code, error.message, file=note)\n  break\n"
    process = room.repo.start(
        *room.line("--", sys.executable, "-c", script, write=["note"]),
        env=room.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    started.append(process.pid)
    child = int(wait_for_file(room.root / "note"))
    started.append(child)
    process.kill()
    process.wait(30)
    until(lambda: is_gone(child), "it has given up")
    assert "E_SANDBOX the runner of this sandbox does not answer" in room.text("note")
    room.shell("true")


@NEEDS_LANDLOCK
def test_a_place_for_temporary_files_with_a_very_long_name_will_do(
    room: Room, tmp_path: Path
) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    words = room.line("--", sys.executable, "-c", ASK)
    answer = room.repo.hold(*words, env={"TMPDIR": str(deep)})
    assert answer.json[0] is True, answer
    assert os.listdir(deep) == []


# Several runs


@NEEDS_LANDLOCK
def test_a_process_left_running_does_not_delay_the_runner(room: Room, started: list[int]) -> None:
    script = "sleep 600 >/dev/null 2>&1 & echo $! >app/x.rb"
    assert room.shell(script).code == 0
    started.append(int(room.text("app/x.rb")))


@NEEDS_LANDLOCK
def test_two_at_once_do_not_disturb_each_other(room: Room, started: list[int]) -> None:
    first = room.repo.start(
        *room.line("--", "sh", "-c", "echo began; read line; echo $line >app/x.rb"),
        env=room.env, stdin=subprocess.PIPE,
    )  # fmt: skip
    started.append(first.pid)
    assert first.stdout is not None
    assert first.stdout.readline() == "began\n"
    answer = room.shell("echo two >app/y.rb; echo two >app/x.rb", write=["app/y.rb"])
    assert answer.code != 0
    assert (room.text("app/x.rb"), room.text("app/y.rb")) == ("old\n", "two\n")
    assert children_of(first.pid), "the other one was left alone"
    first.communicate("one\n", timeout=30)
    assert room.text("app/x.rb") == "one\n"


def test_the_guide_s_requests_are_the_ones_that_are_answered() -> None:
    from holdfast.gate.sandbox.runner.ledger_socket import QUESTIONS

    guide = (Path(__file__).parents[2] / "docs/sandbox.md").read_text()
    for name in QUESTIONS:
        assert json.dumps({"ask": name})[:-1] in guide
