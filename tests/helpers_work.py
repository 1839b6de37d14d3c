"""A small application with a manifest, and agents that do what a test tells them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from conftest import until
from helpers_cli import COMMAND, Answer, as_a_person, environment, quickly
from helpers_processes import PATIENCE_SECONDS
from holdfast.manager.manager import LockManager
from holdfast.work.engine.work_items import WorkItem
from holdfast.work.screens.manifest import ScreenManifest
from holdfast.work.screens.pipeline import Pipeline

#: The agent: `agent.py PHASE NAME FILE…`. A file `orders/PHASE-NAME` beside it is run in its place,
#: with the same names defined.
AGENT = """
import json, os, sys, time
from pathlib import Path
phase, name, files = sys.argv[1], sys.argv[2], sys.argv[3].splitlines()
home = Path(__file__).parent
order = home / "orders" / f"{phase}-{name.replace('/', '-')}"
if not order.exists():
    order = home / "orders" / phase
if order.exists():
    exec(order.read_text())
elif phase == "analyze":
    screen, controller = name.split("/")[2], name.split("/")[1]
    targets = [f"app/controllers/{name.split('/')[0]}/{controller}_controller.rb", "app/shared.rb"]
    found = {"screen": screen, "findings": ["tidy up"], "write_targets": targets}
    Path(files[0]).write_text(json.dumps(found))
elif phase == "apply":
    for file in files:
        with open(file, "a") as stream:
            stream.write(f"{name}\\n")
"""


class Application:
    """A repository with screens and agents, and a pipeline on it."""

    def __init__(self, root: Path, screens: dict[str, list[str]], phases: str = "") -> None:
        self.root = root
        root.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(root)], check=True)
        for group in screens:
            file = root / f"app/controllers/{group}_controller.rb"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("old\n")
        self.home = root.parent / "agents"
        (self.home / "orders").mkdir(parents=True)
        (self.home / "agent.py").write_text(AGENT)
        self.settings(phases)
        self.manifest_file = root / "screens.json"
        self.manifest_file.write_text(json.dumps(manifest(screens)))
        self.seen: list[tuple[str, str, str]] = []
        self.manager: LockManager | None = None
        self.pipeline: Pipeline | None = None

    def settings(self, phases: str = "", work: str = "slots = 4") -> None:
        """Write holdfast.toml: the agent for analyze and apply, and for these phases too."""
        lines = ["[work]", work]
        for phase in ("analyze", "apply", *phases.split()):
            what = "{output}" if phase == "analyze" else "{files}"
            command = [sys.executable, str(self.home / "agent.py"), phase, "{workflow}", what]
            lines += [f"[work.{phase}]", f"command = {json.dumps(command)}"]
        (self.root / "holdfast.toml").write_text("\n".join(lines) + "\n")

    def order(self, name: str, code: str) -> None:
        """Replace what the agent of a phase, or of a phase for one workflow, does."""
        (self.home / "orders" / name).write_text(code)

    def open(self, **more: Any) -> Pipeline:
        self.manager = LockManager.open(self.root)
        manifest = ScreenManifest.load(self.manifest_file)
        more.setdefault("best_effort", True)  # the other lines are tested elsewhere
        self.pipeline = Pipeline.open(self.manager, manifest, changed=self._see, **more)
        return self.pipeline

    def _see(self, item: WorkItem) -> None:
        self.seen.append((item.workflow, item.phase, item.status))

    def run(self, **more: Any) -> dict[str, str]:
        """Do all of it; the state of each workflow at the end."""
        pipeline = self.pipeline or self.open(**more)
        pipeline.start()
        until(pipeline.is_done, "all is done", 120)
        return self.states()

    def states(self) -> dict[str, str]:
        assert self.pipeline is not None
        assert self.pipeline.flows is not None
        return {name: flow.state for name, flow in self.pipeline.flows.all().items()}

    def items(self) -> list[WorkItem]:
        assert self.pipeline is not None
        assert self.pipeline.item_store is not None
        return self.pipeline.item_store.items()

    def reason(self, group: str) -> str:
        assert self.pipeline is not None
        assert self.pipeline.flows is not None
        return self.pipeline.flows.get(group).reason

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def when(self, condition: Callable[[], bool], what: str) -> None:
        until(condition, what, 120)

    def close(self) -> None:
        if self.pipeline is not None:
            self.pipeline.halt()
            self.pipeline.stop()
        if self.manager is not None:
            self.manager.close()


def manifest(screens: dict[str, list[str]]) -> dict[str, Any]:
    """A manifest with these screens of these controllers."""
    return {
        "version": 1,
        "screens": [
            {
                "name": name, "module": group.split("/")[0], "controller": group.split("/")[1],
                "actions": {"primary": name, "secondary": []}, "reads_from": [],
            }
            for group, names in screens.items()
            for name in names
        ],
    }  # fmt: skip


#: Variables that only a person has; and a page on which one can decide is a person's too.
FOR_PEOPLE = {"decide", "--amend", "--forget", "--serve=0"}
#: An environment that is the same for all commands.
LOOKING = {"gaps", "log", "status"}


class Desk:
    """An application with agents, and the command line on it."""

    def __init__(self, folder: Path, screens: dict[str, list[str]]) -> None:
        self.app = Application(folder / "repository", screens)
        self.root = self.app.root
        #: The folder through which agents and tests signal each other.
        self.signs = self.app.home / "signs"
        self.signs.mkdir()
        self.settings()
        self._started: list[subprocess.Popen[str]] = []

    def settings(self, phases: str = "", *, write: Sequence[Path] = ()) -> None:
        """Set the phases; agents may write these folders and their signals."""
        self.app.settings(phases)
        places = [f"{self.signs}/", *(f"{place}/" for place in write)]
        with open(self.root / "holdfast.toml", "a") as file:
            file.write(f"[sandbox]\nwrite = {json.dumps(places)}\n")

    def limit(self, seconds: float) -> None:
        """Set the time limit of an apply."""
        file = self.root / "holdfast.toml"
        limited = f"[work.apply]\ntimeout_seconds = {seconds}"
        file.write_text(file.read_text().replace("[work.apply]", limited))

    def start(self, *words: str, **env: str) -> subprocess.Popen[str]:
        line = [*COMMAND, *words]
        process = subprocess.Popen(
            as_a_person(*line) if FOR_PEOPLE.intersection(words) else line, cwd=self.root,
            env=environment(**env), text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        self._started.append(process)
        return process

    def end(self, process: subprocess.Popen[str]) -> Answer:
        out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert "Traceback" not in err, err
        return Answer(process.returncode, out, err)

    def run(self, *words: str, **env: str) -> Answer:
        answer = quickly(words, self.root) if words[0] in LOOKING and not env else None
        return answer or self.end(self.start(*words, **env))

    def dispatch(self, *words: str) -> Answer:
        """Run it to its end, with its JSON."""
        return self.run("dispatch", *words, "--json")

    def when(self, condition: Callable[[], bool], what: str) -> None:
        until(condition, what, PATIENCE_SECONDS)

    def gaps(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.run("gaps", "--json").json["gaps"]
        return found

    def events(self, type: str) -> list[dict[str, Any]]:
        lines = self.run("log", "--json").out.splitlines()
        return [event for event in map(json.loads, lines) if event["type"] == type]

    def kill(self, process: subprocess.Popen[str], *, launchers: bool) -> None:
        """The effect of `kill -9`; the launchers first, so that they cannot see their parent
        die."""
        for pid in launchers_of(process.pid) if launchers else []:
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.communicate()

    def close(self) -> None:
        left = [process for process in self._started if process.poll() is None]
        for process in left:
            process.kill()
        if left:  # a person's command is a grandchild, and keeps the pipe open that we read
            for pid in working_in(self.root):
                os.kill(pid, signal.SIGKILL)
        for process in left:
            process.communicate(timeout=PATIENCE_SECONDS)


def working_in(folder: Path) -> list[int]:
    """The processes whose current folder this is."""
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        with suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/cwd") == str(folder):
                found.append(int(name))
    return found


def states(answer: Answer) -> dict[str, str]:
    """The state of each workflow, as a dispatcher prints it at the end."""
    return {name: flow["state"] for name, flow in answer.json["workflows"].items()}


def launchers_of(pid: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        for word in file.read_text().split():
            if b"holdfast.work.launching.launcher" in Path(f"/proc/{word}/cmdline").read_bytes():
                found.append(int(word))
    return found
