"""run: the lock is held while the command runs, and is free however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Repository, Terminal, children_of, is_gone, wait_for_file
from helpers_processes import state_of, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Processes to kill when the test is over, whatever their parents are by then."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if not is_gone(pid):
            os.kill(pid, signal.SIGKILL)


def runner(
    repo: Repository, started: list[int], script: str, *options: str, **more: Any
) -> tuple[subprocess.Popen[str], int]:
    """A runner whose command is a shell script that has started, and the pid of the script."""
    note = repo.root.parent / f"began-{len(started)}"
    more = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **more}
    process = repo.start(
        "run", "--write", "app/x.rb", *options, "--",
        "sh", "-c", f"echo $$ >{note}; {script}", **more,
    )  # fmt: skip
    started.append(process.pid)
    child = int(wait_for_file(note))
    started.append(child)
    return process, child


def test_the_exit_code_is_that_of_the_command(repo: Repository) -> None:
    for code in (0, 1, 3, 42, 255):
        answer = repo.hold("run", "--write", "app/x.rb", "--", "sh", "-c", f"exit {code}")
        assert (answer.code, answer.out, answer.err) == (code, "", "")
    assert repo.grants() == []


def test_a_command_that_dies_of_a_signal_is_128_and_its_number(repo: Repository) -> None:
    answer = repo.hold("run", "--write", "app/x.rb", "--", "sh", "-c", "kill -KILL $$")
    assert answer.code == 128 + signal.SIGKILL
    assert repo.grants() == []


def test_the_lock_is_held_while_the_command_runs_and_free_afterwards(
    repo: Repository, started: list[int]
) -> None:
    process, _child = runner(repo, started, "read line", stdin=subprocess.PIPE)
    [grant] = repo.grants()
    assert grant["write_paths"] == ["app/x.rb"]
    assert grant["expires_at"] is None
    assert grant["owner"]["pid"] == process.pid
    assert re.fullmatch(r"run-[0-9a-f]{8}", grant["holder"])
    assert grant["reason"] == "running sh"
    assert repo.hold("lock", "app/x.rb").code == 3
    process.communicate("go\n", timeout=30)
    assert process.returncode == 0
    assert repo.grants() == []
    assert [event["type"] for event in repo.events()] == [
        "lock_acquired", "lock_refused", "lock_released",
    ]  # fmt: skip


def test_the_command_knows_its_grant_token_and_holder(repo: Repository) -> None:
    answer = repo.hold(
        "run", "--write", "app/x.rb", "--reason", "why", "--", *COMMAND, "status", "--json"
    )
    [grant] = answer.json["grants"]
    variables = repo.hold("run", "--write", "app/x.rb", "--", "env").out
    assert re.search(r"^HOLDFAST_HOLDER=run-[0-9a-f]{8}$", variables, re.M)
    assert re.search(r"^HOLDFAST_GRANT=[0-9a-f-]{36}$", variables, re.M)
    assert re.search(r"^HOLDFAST_TOKEN=[0-9]+$", variables, re.M)
    assert re.search(r"^HOLDFAST_OWNER=[0-9]+:", variables, re.M)
    assert (grant["reason"], grant["released"]) == ("why", False)
    script = (
        f"{' '.join(COMMAND)} status --json >status; echo $HOLDFAST_GRANT $HOLDFAST_TOKEN"
        " $HOLDFAST_HOLDER"
    )
    said = repo.hold("run", "--write", "app/x.rb", "--", "sh", "-c", script).out.split()
    [grant] = json.loads((repo.root / "status").read_text())["grants"]
    assert said == [grant["id"], str(grant["token"]), grant["holder"]]


def test_what_the_command_locks_itself_belongs_to_the_same_holder(repo: Repository) -> None:
    script = f"{' '.join(COMMAND)} lock app/x.rb app/y.rb && {' '.join(COMMAND)} status --json >s"
    answer = repo.hold("run", "--write", "app/x.rb", "--", "sh", "-c", script)
    assert answer.code == 0, answer
    grants = json.loads((repo.root / "s").read_text())["grants"]
    assert len({grant["holder"] for grant in grants}) == 1
    assert len(grants) == 2
    assert repo.hold("check", "app/y.rb").code == 0, "it ends with the runner"


def test_a_run_inside_a_run_is_another_holder(repo: Repository) -> None:
    inner = [*COMMAND, "run", "--write", "app/x.rb", "--", "true"]
    assert repo.hold("run", "--write", "app/x.rb", "--", *inner).code == 3
    assert repo.hold("run", "--write", "app/y.rb", "--", *inner).code == 0


def test_a_given_holder_is_used_and_does_not_outlive_the_runner(
    repo: Repository, started: list[int]
) -> None:
    # The name is in the environment of the runner itself and of a bystander, as when a shell
    # exports it: neither may keep the lock when the runner is killed.
    env = {"HOLDFAST_HOLDER": "agent-7"}
    bystander = subprocess.Popen(["sleep", "600"], env={**os.environ, **env})
    started.append(bystander.pid)
    process, child = runner(repo, started, "read line", env=env, stdin=subprocess.PIPE)
    assert repo.holders("app/x.rb") == ["agent-7"]
    process.kill()
    process.communicate()
    until(lambda: is_gone(child), "the command has noticed")
    assert repo.hold("check", "app/x.rb", "--holder", "bob").code == 0
    answer = repo.hold("run", "--write", "app/x.rb", "--holder", "eve", "--", "env")
    assert "HOLDFAST_HOLDER=eve\n" in answer.out
    bystander.kill()
    bystander.wait()


def test_a_conflict_is_3_and_the_command_is_never_started(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    answer = repo.hold("run", "--write", "app/x.rb", "--", "touch", "started")
    assert answer.code == 3
    assert "has been locked for writing by bob" in answer.err
    answer = repo.hold("run", "--wait", "0.1", "--write", "app/x.rb", "--", "touch", "started")
    assert answer.code == 5
    assert repo.hold("run", "--read", "../..", "--", "touch", "started").code == 2
    answer = repo.hold("run", "--json", "--write", "app/x.rb", "--", "touch", "started")
    assert (answer.code, answer.error["code"]) == (3, "E_LOCK_CONFLICT")
    assert not (repo.root / "started").exists()


def test_with_wait_it_starts_when_the_lock_is_free(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "bob")
    waiter = repo.start("run", "--write", "app/x.rb", "--wait", "echo", "now")
    until(lambda: len(repo.waiting()) == 1, "it waits")
    repo.hold("unlock", "app/x.rb", "--holder", "bob")
    out, _err = waiter.communicate(timeout=30)
    assert (waiter.returncode, out) == (0, "now\n")
    assert repo.grants() == []


@pytest.mark.parametrize(("name", "code"), [("no-such-command", 127), ("./not-executable", 126)])
def test_the_lock_is_released_if_the_command_cannot_be_started(
    repo: Repository, name: str, code: int
) -> None:
    (repo.root / "not-executable").write_text("nothing\n")
    answer = repo.hold("run", "--write", "app/x.rb", "--", name)
    assert answer.code == code
    assert answer.err.startswith(f"holdfast: cannot start '{name}': ")
    assert repo.grants() == []
    answer = repo.hold("run", "--write", "app/x.rb", "--json", "--", name)
    assert (answer.code, answer.error["code"]) == (code, "E_COMMAND")


def test_a_script_without_a_first_line_is_126_with_a_hint(repo: Repository) -> None:
    (repo.root / "script").write_text("nothing\n")
    (repo.root / "script").chmod(0o755)
    answer = repo.hold("run", "--write", "app/x.rb", "--", "./script")
    assert answer.code == 126
    assert "#!/bin/sh" in answer.err


def test_the_words_of_the_command_are_passed_on_untouched(repo: Repository) -> None:
    words = ["--json", "-C", "--", "a b", "$HOME", "*", "", "--help"]
    answer = repo.hold("run", "--write", "app/x.rb", "printf", r"<%s>", *words)
    assert answer.out == "".join(f"<{word}>" for word in words)


def test_the_command_runs_in_the_folder_of_c_and_reads_the_same_input(repo: Repository) -> None:
    answer = repo.hold("-C", "app", "run", "--write", "x.rb", "--", "pwd")
    assert answer.out == f"{repo.root}/app\n"
    process = repo.start("run", "--write", "app/x.rb", "--", "cat", stdin=subprocess.PIPE)
    assert process.communicate("hello", timeout=30)[0] == "hello"


def test_the_store_that_was_chosen_is_handed_down(repo: Repository, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    url = f"sqlite://{tmp_path}/elsewhere/ledger.db"
    answer = repo.hold(
        "run", "--store", url, "--write", "app/x.rb", "--", *COMMAND, "check", "app/x.rb",
        "--holder", "bob",
    )  # fmt: skip
    assert answer.code == 3


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_is_passed_on_and_the_lock_released(
    repo: Repository, started: list[int], number: signal.Signals
) -> None:
    process, _child = runner(repo, started, "exec sleep 600")
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert repo.grants() == []
    assert repo.events()[-1]["type"] == "lock_released"


def test_a_command_that_handles_a_signal_keeps_running_and_keeps_the_lock(
    repo: Repository, started: list[int]
) -> None:
    note = repo.root.parent / "heard"
    script = f"trap 'echo heard >>{note}' TERM; echo ready >>{note}; "
    script += "while :; do read line && exit 5; done"
    process, _child = runner(repo, started, script, stdin=subprocess.PIPE)
    for said in ("ready\n", "ready\nheard\n"):
        until(lambda said=said: note.exists() and note.read_text() == said, "it heard")  # type: ignore[misc]
        process.send_signal(signal.SIGTERM)
    until(lambda: note.read_text().count("heard") == 2, "it heard again")
    assert repo.holders("app/x.rb") != []
    process.communicate("go\n", timeout=30)
    assert process.returncode == 5
    assert repo.grants() == []


def test_the_command_starts_with_the_signals_as_they_were_given(repo: Repository) -> None:
    script = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    assert repo.hold("run", "--write", "app/x.rb", sys.executable, "-c", script).out == "[]\n"
    status = repo.hold("run", "--write", "app/x.rb", "grep", "Sig", "/proc/self/status").out
    ignored = int(re.search(r"SigIgn:\s*([0-9a-f]+)", status)[1], 16)  # type: ignore[index]
    assert ignored & (1 << (signal.SIGPIPE - 1)) == 0, "the interpreter ignores it for itself"


def test_a_command_inherits_that_it_is_to_outlive_its_terminal(repo: Repository) -> None:
    answer = repo.hold(
        "run", "--write", "app/x.rb", "--", "sh", "-c", "kill -HUP $$; echo alive",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert answer.out == "alive\n"


def test_a_killed_runner_leaves_the_lock_with_its_command_until_that_is_gone(
    repo: Repository, started: list[int]
) -> None:
    process, child = runner(repo, started, "exec sleep 600")
    holder = repo.holders("app/x.rb")
    process.kill()
    process.wait(30)
    assert not is_gone(child)
    assert repo.holders("app/x.rb") == holder, "the orphan may still write"
    assert repo.hold("lock", "app/x.rb").code == 3
    os.kill(child, signal.SIGKILL)
    until(lambda: is_gone(child), "the command is gone")
    assert repo.holders("app/x.rb") == []
    assert repo.hold("lock", "app/x.rb").code == 0, "nobody had to help"
    assert "lock_reaped" in [event["type"] for event in repo.events()]


def test_a_descendant_of_the_command_keeps_the_lock_of_a_killed_runner(
    repo: Repository, started: list[int]
) -> None:
    process, child = runner(repo, started, "sleep 600 & echo $! >grandchild; wait")
    grandchild = int(wait_for_file(repo.root / "grandchild"))
    started.append(grandchild)
    process.kill()
    process.wait(30)
    os.kill(child, signal.SIGKILL)
    until(lambda: is_gone(child), "the command is gone")
    assert repo.hold("check", "app/x.rb").code == 3
    os.kill(grandchild, signal.SIGKILL)
    until(lambda: is_gone(grandchild), "its child is gone")
    assert repo.hold("check", "app/x.rb").code == 0


def test_a_waiter_is_served_though_the_runner_before_it_was_killed(
    repo: Repository, started: list[int]
) -> None:
    process, child = runner(repo, started, "exec sleep 600")
    waiter = repo.start("run", "--write", "app/x.rb", "--wait", "60", "--", "echo", "mine")
    until(lambda: len(repo.waiting()) == 1, "a request waits")
    process.kill()
    process.wait(30)
    os.kill(child, signal.SIGKILL)
    out, _err = waiter.communicate(timeout=30)
    assert (waiter.returncode, out) == (0, "mine\n")


def test_a_lock_that_was_taken_away_is_reported_and_the_exit_code_stays(
    repo: Repository, started: list[int]
) -> None:
    process, _child = runner(
        repo,
        started,
        "read line; exit 6",
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    person = Terminal(repo)
    try:
        assert person.hold("unlock", "app/x.rb", "--force", "--reason", "urgent").code == 0
    finally:
        person.close()
    _out, err = process.communicate("go\n", timeout=30)
    assert process.returncode == 6
    assert "taken away" in err


def test_a_command_that_is_stopped_alone_and_then_ends_is_noticed(
    repo: Repository, started: list[int]
) -> None:
    process, child = runner(repo, started, "read line", stdin=subprocess.PIPE)
    os.kill(child, signal.SIGSTOP)
    until(lambda: state_of(child) == "T", "the command is stopped")
    os.kill(child, signal.SIGCONT)
    process.communicate("go\n", timeout=30)
    assert process.returncode == 0


# At a terminal


@pytest.fixture
def terminal(repo: Repository) -> Iterator[Terminal]:
    made = Terminal(repo)
    yield made
    made.close()


#: Records each signal that it receives, and whether the kernel sent it; USR1 ends it.
LISTENER = """
import signal, sys
heard = {signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, heard)
with open(sys.argv[1], "w", buffering=1) as note:
    note.write("ready\\n")
    while True:
        info = signal.sigwaitinfo(heard)
        note.write(f"{signal.Signals(info.si_signo).name} {info.si_code}\\n")
        if info.si_signo == signal.SIGUSR1:
            sys.exit(9)
"""


def test_a_signal_of_the_terminal_reaches_the_command_once(
    repo: Repository, terminal: Terminal
) -> None:
    note = repo.root.parent / "note"
    (repo.root / "listener.py").write_text(LISTENER)
    line = f"{' '.join(COMMAND)} run --write app/x.rb -- {sys.executable} listener.py {note}"
    # A shell in between, because the one at the terminal would notice that the runner is stopped.
    terminal.type(f"sh -c 'trap : INT QUIT; {line}; echo code:$?'\n")
    wait_for_file(note)
    [between] = children_of(terminal.pid)
    [own] = children_of(between)
    for key, name in (("\x03", "SIGINT"), ("\x1c", "SIGQUIT")):
        # The command hears it before the runner does: two that wait at once would look like one.
        os.kill(own, signal.SIGSTOP)
        until(lambda: state_of(own) == "T", "the runner is stopped")
        terminal.type(key)
        until(lambda name=name: name in note.read_text(), "it was heard")  # type: ignore[misc]
        os.kill(own, signal.SIGCONT)
    assert repo.holders("app/x.rb") != []
    # The runner takes one signal after the other, so whatever it had to pass on came before this.
    os.kill(own, signal.SIGUSR1)
    terminal.shows("code:9")
    assert note.read_text() == "ready\nSIGINT 128\nSIGQUIT 128\nSIGUSR1 0\n"
    assert repo.grants() == []


def test_a_signal_that_a_person_sends_to_the_runner_is_passed_on_at_a_terminal_too(
    repo: Repository, terminal: Terminal
) -> None:
    note = repo.root.parent / "note"
    (repo.root / "listener.py").write_text(LISTENER)
    line = f"{sys.executable} listener.py {note}"
    terminal.type(f"{' '.join(COMMAND)} run --write app/x.rb -- {line}; echo code:$?\n")
    wait_for_file(note)
    [own] = children_of(terminal.pid)
    os.kill(own, signal.SIGINT)
    until(lambda: "SIGINT 0" in note.read_text(), "it was passed on")
    os.kill(own, signal.SIGUSR1)
    terminal.shows("code:9")


def test_ctrl_c_ends_command_and_runner_and_releases_the_lock(
    repo: Repository, terminal: Terminal
) -> None:
    terminal.type(
        f"{' '.join(COMMAND)} run --write app/x.rb -- sh -c 'echo be''gun; exec sleep 600'"
        "; echo code:$?\n"
    )
    terminal.shows("begun\r\n")
    terminal.type("\x03")
    terminal.shows("code:130")
    assert repo.grants() == []


def test_ctrl_z_stops_both_and_fg_continues_both(repo: Repository, terminal: Terminal) -> None:
    note = repo.root.parent / "began"
    line = f"sh -c 'echo $$ >{note}; read line; exit 4'"
    terminal.type(f"{' '.join(COMMAND)} run --write app/x.rb -- {line}; echo code:$?\n")
    child = int(wait_for_file(note))
    [own] = children_of(terminal.pid)
    for _ in range(2):
        terminal.screen = b""
        terminal.type("\x1a")
        until(lambda: state_of(child) == state_of(own) == "T", "both are stopped")
        terminal.shows("Stopped")
        assert repo.holders("app/x.rb") != [], "a stopped command still holds"
        terminal.type("fg\n")
        until(lambda: state_of(child) == state_of(own) == "S", "both go on")
    terminal.type("\n")
    until(lambda: is_gone(own), "the runner has ended")
    terminal.type("echo last:$?\n")
    terminal.shows("last:4")
    assert repo.grants() == []


def test_hanging_up_ends_the_command_and_frees_the_lock(repo: Repository) -> None:
    person = Terminal(repo)
    note = repo.root.parent / "began"
    line = f"sh -c 'echo $$ >{note}; exec sleep 600'"
    person.type(f"{' '.join(COMMAND)} run --write app/x.rb -- {line}\n")
    child = int(wait_for_file(note))
    os.close(person.master)
    until(lambda: is_gone(child), "the command is gone")
    until(lambda: repo.grants() == [], "the lock is free")
