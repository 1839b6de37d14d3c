"""Agents stay inside: under a real dispatch, an agent cannot get out of its sandbox."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import COMMAND, Answer, environment
from helpers_processes import PATIENCE_SECONDS
from helpers_sandbox import NEEDS_LANDLOCK, OLD_KERNEL, without_call
from helpers_work import Desk, states
from holdfast.gate.sandbox.kernel import landlock

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="launchers need Linux: subreaper, pidfd, Landlock"
)
NEEDS_SCOPES = pytest.mark.skipif(
    landlock.support().abi < 6, reason="needs a Landlock that scopes signals (Linux 6.12)"
)

CREATE_RULESET = 444
TWO = {"blog/posts": ["index"], "shop/carts": ["index"]}
WAIT = """
(home / "signs/up").touch()
while not (home / "signs/go").exists():
    time.sleep(0.01)
"""
#: A valid analysis, with these files to write.
ANALYSIS = """
found = {{"screen": "index", "findings": [], "write_targets": {targets}}}
Path(files[0]).write_text(json.dumps(found))
"""


class Place(Desk):
    """An application, agents, the command line, and a folder that is closed to agents."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TWO)
        #: Not in the repository.
        self.outside = folder / "outside"
        self.outside.mkdir()

    def without_landlock(self, *words: str) -> Answer:
        line = without_call(CREATE_RULESET, errno.ENOSYS, *COMMAND, *words)
        done = subprocess.run(
            line, cwd=self.root, env=environment(), capture_output=True, text=True,
            timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    def told(self, name: str) -> Any:
        """What an agent has written, once it is complete."""
        file = self.signs / name
        self.when(lambda: file.exists() and file.read_text().endswith(("}", "]")), "it was told")
        return json.loads(file.read_text())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


# Settings, and the files that control us


@NEEDS_LANDLOCK
def test_settings_that_change_during_a_run_change_nothing_in_it(place: Place) -> None:
    place.app.order("analyze-blog-posts-index", WAIT + ANALYSIS.format(targets='["app/shared.rb"]'))
    place.app.order(
        "apply",
        f"""
try:
    Path("{place.outside}/escaped").touch()
except OSError as error:
    print("refused", error)
""",
    )
    work = place.start("dispatch", "screens.json", "--json")
    place.when((place.signs / "up").exists, "an agent is out")
    place.settings(write=[place.outside])
    (place.signs / "go").touch()
    answer = place.end(work)
    assert states(answer) == {"blog/posts": "completed", "shop/carts": "completed"}
    assert list(place.outside.iterdir()) == []


@pytest.mark.parametrize(
    "target", ["holdfast.toml", ".claude/settings.json", "link.toml", ".codex/config.toml"]
)
def test_an_analysis_that_names_a_control_file_is_an_error_and_its_merge_never_begins(
    place: Place, target: str
) -> None:
    (place.root / "link.toml").symlink_to("holdfast.toml")
    before = (place.root / "holdfast.toml").read_text()
    place.app.order("analyze-blog-posts-index", ANALYSIS.format(targets=json.dumps([target])))
    place.app.order("apply-blog-posts", "Path(files[0]).write_text('[sandbox]')")
    answer = place.run("dispatch", "screens.json", "--json")
    assert answer.code == 1
    assert states(answer) == {"blog/posts": "error", "shop/carts": "completed"}
    (failed,) = answer.json["failed"]
    assert failed["phase"] == "analyze"
    assert "E_CONTROL_FILE" in failed["reason"]
    assert "write_targets[0]" in failed["reason"]
    assert (place.root / "holdfast.toml").read_text() == before
    assert not (place.root / target).exists() or (place.root / target).read_text() == before


@NEEDS_LANDLOCK
def test_a_gap_that_is_a_control_file_is_reported_with_its_reason_and_never_amended(
    place: Place,
) -> None:
    files = ["holdfast.toml", ".claude/settings.json", "app/missed.rb"]
    (place.root / ".claude").mkdir()
    place.app.order(
        "apply-blog-posts",
        f"""
for path in {files}:
    try:
        Path(path).write_text("open")
    except OSError as error:
        print("refused", error)
""",
    )
    assert place.run("dispatch", "screens.json").code == 0
    found = {gap["path"]: gap for gap in place.run("gaps", "--json").json["gaps"]}
    assert {path: gap["possible"] for path, gap in found.items()} == {
        "holdfast.toml": False, ".claude/settings.json": False, "app/missed.rb": True,
    }  # fmt: skip
    assert "Holdfast" in found["holdfast.toml"]["why"]
    assert "Claude Code" in found[".claude/settings.json"]["why"]
    assert "controls" in " ".join(place.run("gaps").out.split())
    before = (place.root / "holdfast.toml").read_text()
    assert place.run("dispatch", "--amend").code == 0
    assert (place.root / "app/missed.rb").read_text() == "open"
    assert (place.root / "holdfast.toml").read_text() == before
    assert not (place.root / ".claude/settings.json").exists()


# Secrets


@NEEDS_LANDLOCK
def test_an_agent_finds_no_secret_of_ours_and_keeps_what_is_the_users(place: Place) -> None:
    place.app.order(
        "analyze-blog-posts-index",
        """
def environments():
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                yield Path(f"/proc/{entry}/environ").read_bytes().decode()
            except OSError:
                pass
def foreign():
    launcher = os.getppid()
    dispatcher = int(Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()[1])
    for pid in (launcher, dispatcher):
        for name in ("fd/0", "fd/1", "mem"):
            try:
                os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
                yield name
            except PermissionError:
                pass
told = {
    "mine": sorted(name for name in os.environ if name.startswith("HOLDFAST_")),
    "key": os.environ.get("ANTHROPIC_API_KEY"),
    "others": [one for one in environments() if "open-sesame" in one],
    "open": [one for one in sorted(os.listdir("/proc/self/fd")) if int(one) > 3],
    "foreign": list(foreign()),
}
(home / "signs/told").write_text(json.dumps(told))
"""
        + ANALYSIS.format(targets="[]"),
    )
    answer = place.run(
        "dispatch", "screens.json", "--json", HOLDFAST_SERVE_TOKEN="open-sesame",
        HOLDFAST_TREE_TOKEN="main:1", ANTHROPIC_API_KEY="model-key",
    )  # fmt: skip
    assert answer.code == 0, answer
    told = place.told("told")
    assert told["mine"] == [
        "HOLDFAST_GRANT", "HOLDFAST_HOLDER", "HOLDFAST_OWNER", "HOLDFAST_SOCKET", "HOLDFAST_TOKEN",
    ]  # fmt: skip
    assert told["key"] == "model-key"
    assert told["foreign"] == [], "neither memory nor descriptors of the dispatcher"
    assert told["open"] == []
    # From Linux 6.16 on a process with CAP_PERFMON, as root has it, may read any environment.
    assert told["others"] == [] or os.geteuid() == 0


#: Tries to approve the other controller, on the page and by the command.
APPROVE = """
import http.client, subprocess
port = int((home / "signs/port").read_text())
def asked(method, path, **headers):
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    line.request(method, path, b'{"decision": "approve"}' if method == "POST" else None, headers)
    answer = line.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode("utf-8", "replace")
page = asked("GET", "/")
own = {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{port}",
       "Host": f"127.0.0.1:{port}"}
posted = [asked("POST", "/decide/blog/posts", **own)[0], asked("POST", "/stop", **own)[0]]
for name, value in os.environ.items():
    if name.startswith("HOLDFAST_"):
        bearer = {**own, "Authorization": f"Bearer {value}"}
        posted.append(asked("POST", "/decide/blog/posts", **bearer)[0])
command = [*json.loads((home / "signs/command").read_text()), "decide", "blog/posts", "approve"]
clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
codes = [subprocess.run(command, env=env, capture_output=True).returncode
         for env in (None, clean)]
told = {"posted": posted, "codes": codes, "page": page[0], "cookie": page[1].get("Set-Cookie")}
(home / "signs/told").write_text(json.dumps(told))
"""


@NEEDS_LANDLOCK
def test_an_agent_cannot_approve_a_merge_and_the_operator_can(place: Place) -> None:
    (place.signs / "command").write_text(json.dumps(COMMAND))
    place.app.order(
        "analyze-shop-carts-index", WAIT + APPROVE + ANALYSIS.format(targets='["app/carts.rb"]')
    )
    work = place.start("dispatch", "screens.json", "--review", "--serve=0")
    assert work.stderr is not None
    url = ""
    while not url:
        line = work.stderr.readline()
        assert line, "it ended"
        url = line.split()[-1] if "watch it at" in line else ""
    port = url.split(":")[2].split("/")[0]
    secret = re.search(r"#secret=([\w-]+)$", url)
    (place.signs / "port").write_text(port)

    def state() -> str:
        flows = _asked(int(port), "/api/state")["workflows"]
        return str(flows.get("blog/posts", {}).get("state"))

    place.when(lambda: state() == "awaiting_decisions", "a merge waits for a decision")
    (place.signs / "go").touch()
    told = place.told("told")
    assert set(told["posted"]) == {401}, told
    assert told["page"] == 200, "to look is free"
    assert told["cookie"] is None
    assert 0 not in told["codes"], told
    assert state() == "awaiting_decisions"
    assert secret is not None, url
    answer = _asked(int(port), "/decide/blog/posts", secret=secret[1])
    assert answer["state"] in ("queued", "applying"), answer  # a dispatcher may be that quick
    said = [one["data"]["data"].get("decision") for one in place.events("work_state")]
    assert {bool(re.fullmatch(r"approved by .+, on the page", one)) for one in said if one} == {
        True
    }
    assert ", on the page" in place.run("log").out
    place.when(lambda: state() == "completed", "the merge is done")
    place.when(
        lambda: place.run("decide", "shop/carts", "reject").code == 0, "the other one waits too"
    )
    place.end(work)


def _asked(port: int, path: str, secret: str = "") -> Any:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        if secret:
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
            line.request("POST", path, b'{"decision": "approve"}', headers)
        else:
            line.request("GET", path)
        return json.loads(line.getresponse().read())
    finally:
        line.close()


# Signals


@NEEDS_SCOPES
def test_an_agent_may_signal_its_children_and_no_other_process(place: Place) -> None:
    place.app.order(
        "analyze-blog-posts-index",
        """
import signal, subprocess, threading
def above():
    pid, found = os.getppid(), []
    while pid > 1:
        found.append(pid)
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found
child = subprocess.Popen(["sleep", "600"])
thread = threading.Thread(target=child.terminate)
thread.start()
thread.join()
hit = []
for pid in above()[:2]:
    for number in (0, signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
            hit.append([pid, number])
        except PermissionError:
            pass
told = {"child": child.wait(), "hit": hit, "tried": len(above())}
(home / "signs/told").write_text(json.dumps(told))
"""
        + ANALYSIS.format(targets="[]"),
    )
    answer = place.run("dispatch", "screens.json", "--json")
    assert answer.code == 0, answer
    told = place.told("told")
    assert told["child"] == -15, "its own children are its own"
    assert told["tried"] >= 2
    assert told["hit"] == [], "neither its launcher nor the dispatcher"


# Without support by the kernel


def test_without_landlock_a_dispatcher_refuses_and_nothing_begins(place: Place) -> None:
    answer = place.without_landlock("dispatch", "screens.json", "--json")
    assert answer.code == 1, answer
    assert answer.error["code"] == "E_SANDBOX"
    assert "Landlock" in answer.error["message"]
    assert "--sandbox=best-effort" in answer.error["hint"]
    assert not (place.root / ".analysis").exists()
    assert place.run("dispatch", "--resume").code == 3, "no work was begun"


def test_an_older_landlock_is_refused_as_well(place: Place) -> None:
    line = [sys.executable, "-c", OLD_KERNEL, "2", "dispatch", "screens.json", "--json"]
    done = subprocess.run(
        line, cwd=place.root, env=environment(), capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "E_SANDBOX")


def test_with_best_effort_it_goes_on_without_and_says_so(place: Place) -> None:
    answer = place.without_landlock("dispatch", "screens.json", "--sandbox=best-effort")
    assert answer.code == 0, answer
    assert "without a sandbox" in answer.err


def test_only_best_effort_is_a_manner_of_the_sandbox(place: Place) -> None:
    answer = place.run("dispatch", "screens.json", "--sandbox=loosely", "--json")
    assert (answer.code, answer.error["code"]) == (2, "E_USAGE")


def test_without_a_sandbox_an_agent_still_decides_nothing_by_command(place: Place) -> None:
    place.app.order(
        "analyze-blog-posts-index",
        f"""
import subprocess
clean = {{"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}}
told = []
for words in (["decide", "shop/carts", "approve"], ["dispatch", "--amend", "--sandbox=best-effort"],
              ["dispatch", "--forget"]):
    done = subprocess.run({COMMAND!r} + words + ["--json"], env=clean, capture_output=True,
                          text=True)
    told.append([done.returncode, json.loads(done.stdout)["error"]["message"]])
(home / "signs/told").write_text(json.dumps(told))
"""
        + ANALYSIS.format(targets="[]"),
    )
    answer = place.without_landlock("dispatch", "screens.json", "--sandbox=best-effort")
    assert answer.code == 0, answer
    for code, message in place.told("told"):
        assert code == 2
        assert "only a person may" in message
        assert "agent" in message
    assert os.path.exists(place.root / "app/shared.rb")


# Processes that the dispatcher itself starts


def test_no_launcher_imports_what_lies_in_the_repository(place: Place) -> None:
    escape = f"open({str(place.outside / 'escaped')!r}, 'w').close()\nraise SystemExit('json')\n"
    (place.root / "json.py").write_text(escape)
    (place.root / "holdfast").mkdir()
    (place.root / "holdfast/__init__.py").write_text(escape)
    # Nor was the command itself started from the repository's own modules.
    command = [sys.executable, "-P", "-m", "holdfast"]
    done = subprocess.run(
        [*command, "dispatch", "screens.json", "--sandbox=best-effort"], cwd=place.root,
        env=environment(), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert list(place.outside.iterdir()) == [], done.stderr
    assert done.returncode == 0, done.stderr
