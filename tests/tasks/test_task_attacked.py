"""Agents of tasks that try to get out: through control files, by deciding, by signals."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Answer, environment
from helpers_processes import PATIENCE_SECONDS, until
from helpers_sandbox import without_call
from helpers_task_commands import TypedCheckout, why_no_broker
from helpers_tasks import picture, shell
from holdfast.gate.door.delegated_calls import GAP
from holdfast.gate.sandbox.kernel import landlock
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.variables import NOT_FOR_AGENTS
from holdfast.work.tasks import task_states
from holdfast.work.tasks.lists.list_reader import TasksError, read_tasks

NEEDS_BROKER = pytest.mark.skipif(
    bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}"
)
NEEDS_SCOPES = pytest.mark.skipif(
    landlock.support().abi < 6, reason="needs a Landlock that scopes signals (Linux 6.12)"
)
CREATE_RULESET = 444


class Stage(TypedCheckout):
    """A checkout with a folder that agents may write, through which they and the test signal each
    other."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.signs = folder / "signs"
        self.signs.mkdir()
        self.write({"holdfast.toml": f'[sandbox]\nwrite = ["{self.signs}/"]\n'})

    def python(self, name: str, code: str) -> str:
        """A script that runs a program, which writes its result as `signs/NAME`."""
        file = self.home / f"{name}.py"
        begin = (
            f"import json, os, sys\nfrom pathlib import Path\nsigns = Path({str(self.signs)!r})\n"
        )
        end = f"\npart = signs / '{name}.part'\npart.write_text(json.dumps(told))\n"
        file.write_text(f"{begin}{code}{end}part.rename(signs / '{name}')\n")
        return f"{sys.executable} {file}"

    def told(self, name: str) -> Any:
        """The result of an agent."""
        until((self.signs / name).exists, "the agent has told", PATIENCE_SECONDS)
        return json.loads((self.signs / name).read_text())


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


# Files that control Holdfast, a client or git, and the list itself


CLOSED = (
    "holdfast.toml", ".claude/settings.json", ".claude/settings.local.json",
    ".claude/hooks/after.sh", ".mcp.json", ".codex/config.toml", ".git/config", ".git/HEAD",
    ".git/index", ".git/hooks/pre-commit", ".git/refs/heads/main", ".holdfast/ledger.db",
    ".holdfast/runs/mine", "tasks.toml",
)  # fmt: skip
#: What an agent does to the file PATH, in the folder IN and called NAME there. Each is tried in a
#: shell of its own.
MANNERS = {
    "written": "echo mine > PATH",
    "appended to": "echo mine >> PATH",
    "made with its folder": "mkdir -p IN && echo mine > PATH",
    "replaced": "echo mine > own.txt && mv -f own.txt PATH",
    "linked over": "ln -sf b.txt PATH",
    "hard-linked over": "rm -f PATH; ln b.txt PATH",
    "written by a link": "ln -s PATH alias && echo mine > alias",
    "written by another name": "ln PATH other && echo mine > other",
    "written by a link to its folder": "ln -s IN folder && echo mine > folder/NAME",
    "in another folder": "mkdir -p made/IN && echo mine > made/PATH && mv -T made/IN IN",
    "written by a name that was there": "[ -e twin ] && echo mine > twin",
    "deleted": "rm -f PATH; [ ! -e PATH ]",
    "moved away": "mv PATH away",
    "made executable": "chmod +x PATH",
    "cut": "truncate -s 0 PATH",
}


def state_of(path: Path) -> tuple[int, bytes] | None:
    """The mode and the bytes of a file; None if there is none."""
    return (path.stat().st_mode, path.read_bytes()) if path.is_file() else None


@NEEDS_BROKER
@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("path", CLOSED)
def test_no_task_changes_a_control_file_or_its_own_list(
    stage: Stage, path: str, ignored: bool
) -> None:
    """In every way that it tries, even if git ignores the file. The rest of its work is done."""
    folder, name = os.path.split(path)
    if ignored:
        stage.write({".gitignore": f"/{path}\n"})
    stage.write({".claude/settings.json": "{}\n", ".codex/config.toml": "x = 1\n"})
    words = [("PATH", path), ("IN", folder or "."), ("NAME", name)]
    lines = []
    for manner, line in MANNERS.items():
        for word, text in words:
            line = line.replace(word, text)
        lines.append(
            f"(cd '{stage.root}'; {line}) 2>/dev/null && echo '{manner}' >> {stage.signs}/did"
        )
        lines.append("rm -rf own.txt alias other folder made away || true")
    stage.list(attacks=shell(*(f"{line} || true" for line in lines), "echo done > a.txt"))
    with LockManager.open(str(stage.root)):
        pass  # the ledger exists
    if path in ("holdfast.toml", ".claude/settings.json", "tasks.toml"):
        os.link(stage.root / path, stage.root / "twin")
    before = state_of(stage.root / path)
    found = stage.dispatch(tasklist=read_tasks(str(stage.root / "tasks.toml"), str(stage.root)))
    after = state_of(stage.root / path)
    if path != ".holdfast/ledger.db":  # which others write meanwhile
        assert after == before, (stage.signs / "did").read_text()
    assert found["attacks"].state == task_states.DONE, found["attacks"].tail
    assert stage.read("a.txt") == "done\n"
    with LockManager.open(str(stage.root)) as manager:
        taken = {
            name
            for event in manager.events()
            if event.type == "lock_acquired"
            for name in (*event.data["keys"], *event.data.get("paths", ()))
        }
    assert "a.txt" in taken
    assert path not in taken, "no lease was given for it"


@NEEDS_BROKER
@pytest.mark.parametrize("path", ["holdfast.toml", ".claude/settings.json", ".git/config"])
def test_a_list_that_declares_a_control_file_is_refused_whole(stage: Stage, path: str) -> None:
    stage.list(opens="echo mine")
    with open(stage.root / "tasks.toml", "a") as file:
        file.write(f"writes = [{json.dumps(path)}]\n")
    with pytest.raises(TasksError, match=re.escape(path)):
        read_tasks(str(stage.root / "tasks.toml"), str(stage.root))


@NEEDS_BROKER
def test_a_control_file_is_a_gap_of_a_task_that_declares_its_writes(stage: Stage) -> None:
    script = "echo mine > holdfast.toml || true; echo done > a.txt"
    found = stage.dispatch(stage.task("declares", script, writes=("a.txt",)))["declares"]
    assert found.state == task_states.DONE
    with LockManager.open(str(stage.root)) as manager:
        (gap,) = [one.data for one in manager.events() if one.type == GAP]
    assert (gap["path"], gap["controls"], gap["possible"]) == ("holdfast.toml", "Holdfast", False)


# Deciding


#: Tries to approve a task in review, and everything else that only people may do.
DECIDES = """
import http.client, subprocess, time
while not (signs / "port").exists():
    time.sleep(0.01)
port = int((signs / "port").read_text())
body = (signs / "body").read_bytes()
def asked(method, path, **headers):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, path, body if method == "POST" else None, headers)
    answer = line.getresponse()
    return answer.status, answer.read().decode("utf-8", "replace")
own = {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{port}",
       "Host": f"127.0.0.1:{port}"}
bearers = [value for name, value in os.environ.items() if name.startswith("HOLDFAST_")]
posted = []
for path in ("/decide", "/stop"):
    posted.append(asked("POST", path, **own)[0])
    posted += [asked("POST", path, **own, Authorization=f"Bearer {one}")[0] for one in bearers]
def ran(*words):
    kept = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    lines = [[*COMMAND, *words], ["setsid", *COMMAND, *words]]
    return [subprocess.run(line, env=env, capture_output=True, stdin=subprocess.DEVNULL).returncode
            for line in lines for env in (None, kept)]
told = {
    "posted": posted, "page": asked("GET", "/")[0], "bearers": len(bearers),
    "decide": ran("decide", "waits", "approve"),
    "forget": ran("dispatch", "tasks.toml", "--forget"),
    "task": ran("dispatch", "--task", "say hello"),
    "off": ran("off"),
}
"""


@NEEDS_BROKER
def test_the_agent_of_a_task_cannot_approve_another_and_a_person_can(stage: Stage) -> None:
    decides = stage.python("decides", f"COMMAND = {COMMAND!r}\n{DECIDES}")
    stage.list(waits="echo waits > a.txt", decides=decides)
    work = stage.start("dispatch", "tasks.toml", "--review", "--serve=0", "--slots=1")
    until(lambda: "waits" in stage.records(), "it has begun", PATIENCE_SECONDS)
    until(lambda: stage.records()["waits"].state == task_states.REVIEWING, "a task is in review",
          PATIENCE_SECONDS)  # fmt: skip
    port, secret = _page_of(work)
    waits = stage.records()["waits"]
    body = json.dumps({"list": "tasks.toml", "task": "waits", "item": waits.item,
                       "tries": waits.tries, "decision": "approve"})  # fmt: skip
    (stage.signs / "body").write_text(body)
    (stage.signs / "port").write_text(port)
    told = stage.told("decides")
    assert told["bearers"] > 0
    assert set(told["posted"]) == {401}, told
    assert told["page"] == 200, "to look is free"
    for what in ("decide", "forget", "task", "off"):
        assert 0 not in told[what], (what, told)
    assert stage.records()["waits"].state == task_states.REVIEWING
    assert _posted(int(port), secret, body) == 200, "the same request, by a person"
    until(lambda: stage.type("decide", "decides", "approve").code == 0, "the other is approved too",
          PATIENCE_SECONDS)  # fmt: skip
    assert stage.end(work).code == 0
    assert stage.records()["waits"].decision.endswith(", on the page")


def _page_of(work: subprocess.Popen[str]) -> tuple[str, str]:
    """The port and the secret that a dispatcher prints."""
    assert work.stderr is not None
    for line in work.stderr:
        if "watch it at" in line:
            found = re.search(r":(\d+)/.*#secret=([\w-]+)", line)
            assert found is not None, line
            return found[1], found[2]
    raise AssertionError("it ended")


def _posted(port: int, secret: str, body: str) -> int:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    with closing(line):
        line.request("POST", "/decide", body.encode(), headers)
        return line.getresponse().status


# Signals


SIGNALS = """
import ctypes, signal, subprocess
def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
def is_launcher(pid):
    return b"holdfast.work.launching.launcher" in Path(f"/proc/{pid}/cmdline").read_bytes()
launcher = os.getppid()
while not is_launcher(launcher):
    launcher = parent(launcher)
dispatcher = parent(launcher)
children = [int(word) for file in Path(f"/proc/{dispatcher}/task").glob("*/children")
            for word in file.read_text().split()]
beside = [pid for pid in children if pid != launcher and is_launcher(pid)]
libc = ctypes.CDLL(None, use_errno=True)
hit = []
for pid in [launcher, dispatcher, *beside]:
    for number in (0, signal.SIGCONT, signal.SIGUSR1, signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
            hit.append(["kill", pid, number])
        except PermissionError:
            pass
    try:
        signal.pidfd_send_signal(os.pidfd_open(pid), signal.SIGKILL)
        hit.append(["pidfd", pid])
    except PermissionError:
        pass
    if libc.ptrace(16, pid, 0, 0) == 0:
        hit.append(["ptrace", pid])
    for name in ("mem", "fd/0", "fd/1", "environ"):
        try:
            os.close(os.open(f"/proc/{pid}/{name}", os.O_RDWR if name == "mem" else os.O_RDONLY))
            hit.append([name, pid])
        except OSError:
            pass
child = subprocess.Popen(["sleep", "600"])
child.terminate()
told = {"hit": hit, "beside": len(beside), "child": child.wait()}
"""


@NEEDS_BROKER
@NEEDS_SCOPES
def test_the_agent_of_a_task_signals_only_its_own_children(stage: Stage) -> None:
    """Neither its launcher, nor the dispatcher, nor the launcher of another task."""
    stage.list(signals=stage.python("signals", SIGNALS), other="echo done > a.txt")
    answer = stage.type("dispatch", "tasks.toml", "--slots=2", "--json")
    told = stage.told("signals")
    assert told["beside"] >= 1, "another launcher is there"
    assert [one for one in told["hit"] if one[0] != "environ"] == []
    # From Linux 6.16 on a process with CAP_PERFMON, as root has it, may read any environment.
    assert told["hit"] == [] or os.geteuid() == 0
    assert told["child"] == -15
    assert answer.code == 0, answer
    assert {one["state"] for one in answer.json["tasks"]} == {"done"}


@NEEDS_BROKER
def test_the_agent_of_a_task_finds_no_secret_of_ours(stage: Stage) -> None:
    stage.list(looks=stage.python("looks", "told = sorted(os.environ)"))
    secrets = {"HOLDFAST_SERVE_TOKEN": "open-sesame", "HOLDFAST_TREE_TOKEN": "main:1"}
    assert stage.type("dispatch", "tasks.toml", **secrets).code == 0
    found = set(stage.told("looks"))
    assert "HOLDFAST_TASK" in found
    assert found.isdisjoint(NOT_FOR_AGENTS)


# Without support by the kernel


@pytest.mark.parametrize("more", [(), ("--sandbox=best-effort",)])
def test_without_landlock_no_task_begins(stage: Stage, more: tuple[str, ...]) -> None:
    """Not even if an incomplete sandbox is requested: without a broker nothing would be leased."""
    stage.list(writes="echo unprotected > a.txt")
    before = picture(stage.root)
    line = without_call(CREATE_RULESET, errno.ENOSYS, *COMMAND, "dispatch", "tasks.toml", *more,
                        "--json")  # fmt: skip
    done = subprocess.run(
        line, cwd=stage.root, env=environment(), capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    answer = Answer(done.returncode, done.stdout, done.stderr)
    assert (answer.code, answer.error["code"]) == (1, "E_SANDBOX"), answer
    assert answer.error["message"].startswith("a list of tasks cannot work here: ")
    assert "Landlock" in answer.error["message"]
    assert picture(stage.root) == before
    assert stage.records() == {}, "nothing was begun"


def test_only_best_effort_is_a_manner_of_the_sandbox_for_tasks_too(stage: Stage) -> None:
    stage.list(writes="echo x > a.txt")
    answer = stage.type("dispatch", "tasks.toml", "--sandbox=loosely", "--json")
    assert (answer.code, answer.error["code"]) == (2, "E_USAGE")
