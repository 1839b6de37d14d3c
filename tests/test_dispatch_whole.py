"""Nothing half done: work that fails leaves its files as they were, and what is done stays done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers_cli import COMMAND, Answer, environment
from helpers_processes import PATIENCE_SECONDS, until
from helpers_sandbox import NEEDS_LANDLOCK
from helpers_work import Application

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="launchers need Linux: subreaper, pidfd, Landlock"
)

ONE = {"blog/posts": ["index"]}
TWO = {"blog/posts": ["index"], "shop/carts": ["index"]}
CONTROLLER = "app/controllers/blog/posts_controller.rb"
SHARED = "app/shared.rb"

#: Half an edit of every file, in the way that most tools write.
HALF = """
for file in files:
    with open(file, "r+") as stream:
        stream.write("half ")
"""
#: The other one, which waits for the shared file: it does not build on what it must not see.
LOOKING = """
found = Path("app/shared.rb").read_bytes()
if found != b"shared\\n":
    sys.exit(f"this is half an edit: {found!r}")
for file in files:
    with open(file, "a") as stream:
        stream.write(f"{name}\\n")
"""
#: An agent that says that it is there, and waits until it may go on.
WAITING = """
(home / "signs/up").touch()
while not (home / "signs/go").exists():
    time.sleep(0.01)
"""


class Desk:
    """An application with a shared file, and the command line on it."""

    def __init__(self, folder: Path, screens: dict[str, list[str]]) -> None:
        self.app = Application(folder / "repository", screens)
        self.root = self.app.root
        (self.root / SHARED).write_text("shared\n")
        self.signs = self.app.home / "signs"
        self.signs.mkdir()
        self.settings()
        self._started: list[subprocess.Popen[str]] = []

    def settings(self, phases: str = "", work: str = "slots = 4", more: str = "") -> None:
        self.app.settings(phases, work)
        with open(self.root / "holdfast.toml", "a") as file:
            file.write(f'{more}\n[sandbox]\nwrite = ["{self.signs}/"]\n')

    def limit(self, seconds: float) -> None:
        """How long the agent of an apply may take."""
        file = self.root / "holdfast.toml"
        limited = f"[work.apply]\ntimeout_seconds = {seconds}"
        file.write_text(file.read_text().replace("[work.apply]", limited))

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*COMMAND, *words], cwd=self.root, env=environment(), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Answer:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in err, err
        return Answer(process.returncode, out, err)

    def run(self, *words: str) -> Answer:
        return self.end(self.start(*words))

    def dispatch(self, *words: str) -> Answer:
        """To its end, as a document."""
        return self.run("dispatch", *words, "--json")

    def when(self, condition: Callable[[], bool], what: str) -> None:
        until(condition, what, PATIENCE_SECONDS)

    def kill(self, process: subprocess.Popen[str], *, launchers: bool) -> None:
        """What `kill -9` does; the launchers first, so that they cannot see their parent go."""
        for pid in launchers_of(process.pid) if launchers else []:
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()


def states(answer: Answer) -> dict[str, str]:
    return {name: flow["state"] for name, flow in answer.json["workflows"].items()}


def launchers_of(pid: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for word in file.read_text().split():
            if b"holdfast.work.launcher" in Path(f"/proc/{word}/cmdline").read_bytes():
                found.append(int(word))
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path, ONE)
    yield made
    made.close()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path, TWO)
    yield made
    made.close()


def as_before(desk: Desk) -> bool:
    return desk.app.read(CONTROLLER) == "old\n" and desk.app.read(SHARED) == "shared\n"


# A phase that fails for good


WAYS = {
    "exit code": "sys.exit(1)",
    "timeout": "time.sleep(1000)",
    "killed": "os.kill(os.getpid(), 9)",
    "not started": None,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_merge_that_fails_leaves_its_files_as_they_were_before_another_has_them(
    two: Desk, way: str
) -> None:
    ending = WAYS[way]
    two.app.order("apply-blog-posts", HALF + (ending or ""))
    two.app.order("apply-shop-carts", LOOKING)
    # the first is at the shared file before the second wants it
    analysis = (two.app.home / "agent.py").read_text().split("elif phase == ")[1]
    assert analysis.startswith('"analyze"')
    two.app.order("analyze-shop-carts-index", WAITING + _analysis("shop/carts/index"))
    if way == "timeout":
        two.limit(2)
    work = two.start("dispatch", "screens.json", "--json")
    two.when((two.signs / "up").exists, "the second is analysed")
    if ending is None:
        two.app.order("apply-blog-posts", HALF)
    two.when(lambda: b"half" in (two.root / SHARED).read_bytes() or as_before(two), "it writes")
    (two.signs / "go").touch()
    answer = two.end(work)
    if ending is None:
        return
    assert states(answer) == {"blog/posts": "error", "shop/carts": "completed"}, answer
    assert two.app.read(CONTROLLER) == "old\n"
    assert two.app.read(SHARED) == "shared\nshop/carts\n"
    assert two.run("status", "--json").json["grants"] == []


def _analysis(name: str, *more: str) -> str:
    module, controller, screen = name.split("/")
    targets = [f"app/controllers/{module}/{controller}_controller.rb", SHARED, *more]
    found = {"screen": screen, "findings": [], "write_targets": targets}
    return f"Path(files[0]).write_text({json.dumps(found)!r})\n"


def test_one_that_fails_in_verify_undoes_all_that_was_done_under_its_grant(desk: Desk) -> None:
    desk.settings("test fix verify")
    desk.app.order("fix", HALF)
    desk.app.order("verify", "sys.exit(4)")
    answer = desk.dispatch("screens.json")
    assert states(answer) == {"blog/posts": "error"}
    assert as_before(desk)


@NEEDS_LANDLOCK
def test_one_that_completes_with_gaps_keeps_its_edits(desk: Desk) -> None:
    desk.app.order("apply", HALF + "try: open('app/other.rb', 'w')\nexcept OSError: pass\n")
    answer = desk.dispatch("screens.json")
    assert states(answer) == {"blog/posts": "completed"}
    assert [gap["path"] for gap in answer.json["gaps"]] == ["app/other.rb"]
    assert desk.app.read(SHARED) == "half d\n"


def test_what_is_rejected_changes_nothing(desk: Desk) -> None:
    work = desk.start("dispatch", "screens.json", "--review", "--json")
    desk.when(lambda: desk.run("decide", "blog/posts", "reject").code == 0, "it was rejected")
    assert states(desk.end(work)) == {"blog/posts": "idle"}
    assert as_before(desk)


def test_an_analysis_that_fails_leaves_its_last_findings_as_they_were(desk: Desk) -> None:
    findings = desk.root / ".analysis/blog/posts/index/findings.json"
    findings.parent.mkdir(parents=True)
    findings.write_text("those of last week")
    (findings.parent / "by-hand.md").write_text("a person wrote this")
    desk.app.order("analyze", "Path(files[0]).write_text('half')\nsys.exit(1)")
    assert states(desk.dispatch("screens.json")) == {"blog/posts": "error"}
    assert findings.read_text() == "those of last week"
    assert (findings.parent / "by-hand.md").read_text() == "a person wrote this"


# What is finished


@NEEDS_LANDLOCK
def test_amend_writes_what_was_missing_and_applies_nothing_twice(desk: Desk) -> None:
    desk.app.order("apply", GREEDY)
    assert states(desk.dispatch("screens.json")) == {"blog/posts": "completed"}
    before = desk.app.read(CONTROLLER), desk.app.read(SHARED)
    assert desk.dispatch("--amend").code == 0
    assert desk.app.read("app/missed.rb") == "needed\n"
    assert (desk.app.read(CONTROLLER), desk.app.read(SHARED)) == before


#: One that wants to write what nobody had named, and does what it can.
GREEDY = """
for file in files:
    if file != "app/missed.rb":
        with open(file, "a") as stream:
            stream.write(f"{name}\\n")
try:
    Path("app/missed.rb").write_text("needed\\n")
except OSError as error:
    print("refused", error)
"""


def test_a_second_run_of_a_manifest_applies_nothing_twice_and_says_so(desk: Desk) -> None:
    assert states(desk.dispatch("screens.json")) == {"blog/posts": "completed"}
    assert desk.app.read(SHARED) == "shared\nblog/posts\n"
    again = desk.dispatch("screens.json")
    assert states(again) == {"blog/posts": "completed"}
    assert desk.app.read(SHARED) == "shared\nblog/posts\n"
    assert again.json["items"] == 0
    assert "--forget" in again.json["workflows"]["blog/posts"]["reason"]
