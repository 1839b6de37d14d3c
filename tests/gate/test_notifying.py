"""The command of `notify`: the data it gets, and that no process has to wait for it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from helpers_cli import wait_for_file
from helpers_processes import LINUX_ONLY, until
from holdfast.gate.people import notify_command
from holdfast.manager.owners.variables import NOT_FOR_AGENTS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a command of POSIX is started")

#: Writes its input and environment to its first argument, a file, and then does the second.
PROGRAM = """
import json, os, sys, time
into, then, *words = sys.argv[1:]
said = {
    "pid": os.getpid(), "session": os.getsid(0), "words": words, "folder": os.getcwd(),
    "environ": dict(os.environ), "input": sys.stdin.read(),
    "descriptors": [os.readlink(f"/dev/fd/{number}") for number in range(3)],
}
with open(into + ".new", "w") as file:
    print(json.dumps(said), file=file)
os.rename(into + ".new", into)
if then == "hang":
    time.sleep(600)
elif then == "fail":
    sys.exit("no")
"""


class Listener:
    """A command that records its input. One that hangs is ended with the test."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "a 'strange' $root"
        self.root.mkdir()
        self.file = folder / "said.json"
        self.pid = 0

    def command(self, then: str = "end") -> tuple[str, ...]:
        return (sys.executable, "-c", PROGRAM, str(self.file), then)

    def notify(self, then: str = "end", **more: str) -> None:
        told = {"what": "blocked", "agent": "claude@pts/3:faf2", "file": "app/x.rb"}
        told["sentence"] = "It is blocked."
        notify_command.notify(self.command(then), str(self.root), **{**told, **more})

    def heard(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(wait_for_file(self.file))
        self.pid = said["pid"]
        return said

    def end(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture(params=["spawned", "by the library"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by the library":
        monkeypatch.delattr(os, "posix_spawn")


@pytest.fixture
def listener(tmp_path: Path, way: None) -> Iterator[Listener]:
    made = Listener(tmp_path)
    yield made
    made.end()


def test_the_command_gets_the_sentence_as_one_more_argument(listener: Listener) -> None:
    sentence = "-n it's \"blocked\" by $HOME;\nexit 'now' *"
    listener.notify(sentence=sentence)
    assert listener.heard()["words"] == [sentence]


def test_it_runs_in_the_folder_of_the_repository(listener: Listener) -> None:
    listener.notify()
    assert os.path.samefile(listener.heard()["folder"], listener.root)


def test_a_program_beside_the_settings_can_be_named_by_its_path(listener: Listener) -> None:
    program = listener.root / "tell"
    program.write_text(f'#!/bin/sh\necho "$$ $1" > {listener.file}\n')
    program.chmod(0o755)
    told = {"what": "free", "agent": "a", "file": "f", "sentence": "Free."}
    notify_command.notify(("./tell",), str(listener.root), **told)
    pid, said = wait_for_file(listener.file).split()
    assert said == "Free."
    os.waitpid(int(pid), 0)


def test_its_environment_says_what_it_is_about(listener: Listener) -> None:
    listener.notify(what="resumed")
    environ = listener.heard()["environ"]
    said = {name: environ[name] for name in environ if name.startswith("HOLDFAST_")}
    assert said == {
        "HOLDFAST_NOTICE": "resumed",
        "HOLDFAST_AGENT": "claude@pts/3:faf2",
        "HOLDFAST_FILE": "app/x.rb",
    }


def test_its_environment_gives_no_rights_and_is_no_agents_or_commits(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {
        *NOT_FOR_AGENTS, "HOLDFAST_HOLDER", "HOLDFAST_OWNER", "HOLDFAST_GRANT", "HOLDFAST_TOKEN",
        "CLAUDE_PID", "CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "CODEX_THREAD_ID",
        "GIT_INDEX_FILE", "GIT_DIR",
    }  # fmt: skip
    for name in names:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OF_THE_USER", "kept")
    listener.notify()
    environ = listener.heard()["environ"]
    assert not names & set(environ)
    assert environ["OF_THE_USER"] == "kept"


def test_it_has_a_session_of_its_own_and_hears_and_says_nothing(listener: Listener) -> None:
    listener.notify()
    said = listener.heard()
    assert said["session"] == said["pid"]
    assert said["input"] == ""
    assert said["descriptors"] == [os.devnull] * 3


def test_nobody_waits_for_one_that_hangs(listener: Listener) -> None:
    began = monotonic()
    listener.notify("hang")
    assert monotonic() - began < 30
    listener.heard()
    assert os.waitpid(listener.pid, os.WNOHANG) == (0, 0), "the command is still running"


def test_it_keeps_nothing_open_that_the_hook_was_given(listener: Listener) -> None:
    source, into = os.pipe()
    os.set_inheritable(into, True)
    listener.notify("hang")
    os.close(into)
    listener.heard()
    assert select.select([source], [], [], 0) == ([source], [], []), "all writers have closed"
    os.close(source)


def test_one_that_fails_disturbs_nobody(
    listener: Listener, capfd: pytest.CaptureFixture[str]
) -> None:
    listener.notify("fail")
    pid = listener.heard()["pid"]
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    listener.pid = 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("command", "more"),
    [
        (("/nowhere/at/all",), {}),
        (("no-such-program-anywhere",), {}),
        ((".",), {}),
        ((os.devnull,), {}),
        (("true",), {"root": "/nowhere"}),
        (("true",), {"file": "a\0b"}),
        (("true",), {"sentence": "\ud800"}),
        (("true",), {"sentence": "x" * (1 << 22)}),
        ((), {}),
    ],
)
def test_one_that_cannot_be_started_disturbs_nobody(
    way: None, tmp_path: Path, command: tuple[str, ...], more: dict[str, str]
) -> None:
    """In a process of its own, so that all output below it is captured."""
    told = {"what": "blocked", "agent": "a", "file": "f", "sentence": "s", **more}
    root = told.pop("root", str(tmp_path))
    without = "" if hasattr(os, "posix_spawn") else "import os; del os.posix_spawn\n"
    script = (
        "import json, sys\nfrom holdfast.gate.people.notify_command import notify\n"
        f"{without}command, root, told = json.load(sys.stdin)\n"
        "notify(tuple(command), root, **told)\nprint('went on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=json.dumps([command, root, told]),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("went on\n", "")


@LINUX_ONLY
def test_what_it_costs_is_not_an_import(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom holdfast.gate.people.notify_command import notify\n"
        f"notify(('true',), {str(tmp_path)!r}, what='free', agent='a', file='f', sentence='s')\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert not {"subprocess", "threading", "selectors", "typing"} & set(done.stdout.split())


def test_it_outlives_the_hook(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    script = (
        "import os, signal\nfrom holdfast.gate.people.notify_command import notify\n"
        f"notify({listener.command('hang')!r}, {str(listener.root)!r}, what='free', agent='a',"
        " file='f', sentence='s')\nos.killpg(0, signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script], start_new_session=True, timeout=60)
    assert done.returncode == -signal.SIGKILL
    pid = listener.heard()["pid"]
    os.kill(pid, 0)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists() or _is_dead(pid), "it is gone")


def _is_dead(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
