"""The dispatcher is killed at random moments and continued: nothing is lost, doubled or half
done."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from helpers_processes import LINUX_ONLY, until
from helpers_work import manifest
from holdfast.core.codec import grant_of
from holdfast.core.model import Event
from holdfast.gate.sandbox.runner.scratch_folder import sweep
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import carriers
from holdfast.work.screens.workflow_records import Flows

pytestmark = LINUX_ONLY

SCREENS = {
    "blog/posts": ["index", "show"],
    "blog/tags": ["index", "edit"],
    "shop/carts": ["show", "pay"],
}
#: The file that every merge writes in addition to its own controller: so no two of them run at
#: once.
SHARED = "app/shared.rb"
#: The file that the agents and their orphans append to; an orphan keeps it open. Its sum is not
#: checked.
JOURNAL = "app/journal.log"
#: A variable of every process that is started here; its value is the folder of the test.
MARK = "HOLDFAST_TEST_OF_KILLS"
#: Longer than anything takes here, even on a busy machine.
END_SECONDS = 90.0

#: `agent.py PHASE NAME FILES EVIDENCE ORPHANS`. It writes files in two halves, with their sum in
#: the last line, and never adds its name to one that is not whole or has it already. Each write is
#: recorded in the evidence, which is not restored after a crash: when, what, with which grant.
AGENT = """
import hashlib, json, os, random, sys, time
phase, name, files, evidence, orphans = sys.argv[1:]
files = files.splitlines()
grant = os.environ["HOLDFAST_GRANT"]
rest = lambda: time.sleep(random.uniform(0.02, 0.07))

def opened(path, made=0):
    return os.open(path, os.O_WRONLY | os.O_APPEND | made)

def note(fd, what, path, began):
    os.write(fd, json.dumps([what, path, grant, began, time.time_ns() // 1000]).encode() + b"\\n")

def journal(what, path, fd, seen):
    began = time.time_ns() // 1000
    os.write(fd, b"%s\\n" % name.encode())
    note(seen, what, path, began)

def whole(path):
    text = open(path).read() if os.path.exists(path) else ""
    body, _, last = text.rpartition("sum ")
    if text and last.strip() != hashlib.sha256(body.encode()).hexdigest():
        sys.exit(f"{path} is half written: {text!r}")
    return body

def orphan(path):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.closerange(0, 3)
        fd, seen = opened(path), opened(f"{evidence}/{os.getpid()}", os.O_CREAT)
        while True:
            journal("orphan", path, fd, seen)
            time.sleep(0.002)

rest()
seen = opened(f"{evidence}/{os.getpid()}", os.O_CREAT)
if phase == "analyze":
    module, controller, screen = name.split("/")
    own = f"app/controllers/{module}/{controller}_controller.rb"
    found = {"screen": screen, "findings": ["tidy up"], "write_targets": [own, *SHARED]}
    text = json.dumps(found)
    with open(files[0], "w") as file:
        file.write(text[:20])
        file.flush()
        rest()
        file.write(text[20:])
elif phase == "apply":
    *sources, log = files
    if random.random() < float(orphans):
        orphan(log)
    for path in sources:
        body = whole(path)
        if name in body.split():
            sys.exit(f"{path} has {name} already: {body!r}")
        body += name + "\\n"
        began = time.time_ns() // 1000
        with open(path, "w") as file:
            file.write(body)
            file.flush()
            rest()
            file.write("sum " + hashlib.sha256(body.encode()).hexdigest() + "\\n")
        note(seen, "agent", path, began)
    journal("agent", log, opened(log), seen)
else:
    for path in files[:-1]:
        if name not in whole(path).split():
            sys.exit(f"{path} has lost {name}")
""".replace("SHARED", repr([SHARED, JOURNAL]))


class Written(NamedTuple):
    """A write that a process has recorded, in microseconds of the machine's clock."""

    what: str
    path: str
    grant: str
    began: int
    ended: int


class Doomed:
    """A small application whose dispatchers are killed."""

    def __init__(self, folder: Path, *, orphans: float) -> None:
        self.folder = folder
        self.root = folder / "repository"
        self.evidence = folder / "evidence"
        self.temporary = folder / "tmp"
        self.evidence.mkdir(parents=True)
        self.temporary.mkdir()
        for group in SCREENS:
            file = self.root / f"app/controllers/{group}_controller.rb"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(_signed("old\n"))
        (self.root / JOURNAL).write_text("")
        subprocess.run(["git", "init", "-q", str(self.root)], check=True)
        agent = folder / "agent.py"
        agent.write_text(AGENT)
        lines = ["[sandbox]", f"write = [{json.dumps(f'{self.evidence}/')}]", "[work]", "slots = 3"]
        for phase, what in (("analyze", "{output}"), ("apply", "{files}"), ("test", "{files}")):
            words = [sys.executable, "-IS", str(agent), phase, "{workflow}", what]
            command = [*words, str(self.evidence), str(orphans)]
            lines += [f"[work.{phase}]", f"command = {json.dumps(command)}"]
        (self.root / "holdfast.toml").write_text("\n".join([*lines, ""]))
        (self.root / "screens.json").write_text(json.dumps(manifest(SCREENS)))
        self.manager = LockManager.open(self.root)
        self.running: list[subprocess.Popen[bytes]] = []
        self.said = folder / "said"

    def start(self) -> subprocess.Popen[bytes]:
        """One more dispatcher, which continues the work if there is some."""
        if self.running:  # another one has the work, and records it in time
            until(self._is_assigned, "there is work to go on with", END_SECONDS)
        what = "--resume" if self._is_assigned() else "screens.json"
        # If the tests themselves are killed, no process would be left to end it.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        words = [*guard, sys.executable, "-m", "holdfast", "dispatch", what]
        environment = {
            **os.environ, MARK: str(self.folder), "TMPDIR": str(self.temporary),
            "HOLDFAST_HOLDER": "",
        }  # fmt: skip
        with open(self.said, "ab") as said:
            made = subprocess.Popen(
                words, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=said,
                stderr=said, start_new_session=True,
            )  # fmt: skip
        self.running.append(made)
        return made

    def _is_assigned(self) -> bool:
        return any(event.type == "work_assigned" for event in self.manager.events())

    def goes_on(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds. False if the work was done before that."""
        end = time.monotonic() + END_SECONDS
        while not condition():
            for one in self.running:
                assert one.poll() in (None, 0), f"a dispatcher ended by itself\n{self.told()}"
            if self.is_done() or all(one.poll() is not None for one in self.running):
                return False
            assert time.monotonic() < end, f"nothing happens any more\n{self.told()}"
            self.manager.store.wait(self.head(), 0.02)
        return True

    def moment(self, dice: random.Random) -> Callable[[], bool]:
        """A future moment: any, or one at which an orphan writes, which is rare."""
        head, wrote = self.head() + dice.randint(1, 25), self.orphans()
        return dice.choice([lambda: self.head() >= head, lambda: self.orphans() > wrote])

    def orphans(self) -> int:
        """How many times an orphan has written up to now."""
        return sum(one.what == "orphan" for one in self.written())

    def head(self) -> int:
        with self.manager.store.view(deadline=time.monotonic() + 30) as view:
            return view.head

    def is_done(self) -> bool:
        flows = Flows(self.manager).all()
        return len(flows) == len(SCREENS) and all(
            flow.state in ("completed", "error") for flow in flows.values()
        )

    def kill(self, one: subprocess.Popen[bytes], *, itself: bool, launchers: bool) -> None:
        """The effect of `kill -9`, in this order: the launchers cannot see their parent die."""
        children = _launchers(one.pid) if launchers else []
        for pid in children if not itself else [*children, one.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if itself:
            one.wait()
            self.running.remove(one)

    def finish(self) -> None:
        """Let the remaining dispatchers, or another one, do everything that is left."""
        if not any(one.poll() is None for one in self.running):
            self.start()
        for one in self.running:
            try:
                code = one.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"it does not come to an end\n{self.told()}") from None
            assert code == 0, f"a dispatcher ended with {code}\n{self.told()}"
        self.running.clear()

    def close(self) -> None:
        for one in self.running:
            one.kill()
            one.wait()
        for pid in carriers(f"{MARK}={self.folder}"):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.manager.close()

    # What must be true at the end

    def check(self) -> None:
        events = list(self.manager.events())
        self._all_is_done_once(events)
        self._files_are_whole()
        self._nobody_wrote_in_the_time_of_another(events)
        until(lambda: not carriers(f"{MARK}={self.folder}"), "nothing is left running")
        assert self.manager.active_grants() == []
        assert self.manager.queue() == []
        sweep(str(self.temporary))
        left = list(self.temporary.glob("holdfast-run-*"))
        # one that was killed right after making its folder could not even sign it
        assert [list(folder.iterdir()) for folder in left] == [[] for _ in left]

    def _all_is_done_once(self, events: list[Event]) -> None:
        states = {flow.name: flow.state for flow in Flows(self.manager).all().values()}
        assert states == dict.fromkeys(SCREENS, "completed"), self.told()
        wanted = [*SCREENS, *(f"{group}/{name}" for group in SCREENS for name in SCREENS[group])]
        queued = [event.data for event in events if event.type == "work_queued"]
        assert Counter(one["workflow"] for one in queued) == Counter(wanted), self.told()
        ended = [event.data for event in events if event.type == "work_ended"]
        assert Counter((one["id"], one["status"]) for one in ended) == Counter(
            (one["id"], "completed") for one in queued
        ), self.told()

    def _files_are_whole(self) -> None:
        controllers = {f"app/controllers/{group}_controller.rb": [group] for group in SCREENS}
        for path, names in {**controllers, SHARED: list(SCREENS)}.items():
            body = (self.root / path).read_text().rpartition("sum ")[0]
            assert _signed(body) == (self.root / path).read_text(), path
            assert sorted(body.split()) == sorted([*(["old"] if path != SHARED else []), *names])
        known = {*controllers, SHARED, JOURNAL}
        there = {str(file.relative_to(self.root)) for file in self.root.glob("app/**/*.*")}
        assert there == known

    def _nobody_wrote_in_the_time_of_another(self, events: list[Event]) -> None:
        """By the clock of the machine, from which the ledger's differs by the same amount at any
        time."""
        apart = self.manager.now() - time.time_ns() // 1000
        owners: dict[str, dict[str, int]] = {}
        for event in events:
            if event.type == "lock_acquired":
                grant = grant_of(event)
                for path, mode in zip(grant.paths, grant.modes, strict=True):
                    if mode == "w":
                        owners.setdefault(path, {})[grant.id] = event.at - apart
        for one in self.written():
            line = list(owners[one.path])
            for id in line[line.index(one.grant) + 1 :]:
                assert one.began <= owners[one.path][id], (one, owners[one.path])

    def written(self) -> Iterator[Written]:
        for file in self.evidence.iterdir():
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    yield Written(*json.loads(line))

    def told(self) -> str:
        """For a test that fails: the output of the dispatchers, and the states of the items."""
        notes: dict[str, Any] = {}
        for event in self.manager.events():
            if event.type.startswith("work_") and "note" in event.data:
                notes[event.data["note"]] = (event.seq, event.type, event.data)
        stand = "\n".join(f"{name}: {note}" for name, note in notes.items())
        return f"{self.said.read_text()[-6000:]}\n{stand}"


def _signed(body: str) -> str:
    return f"{body}sum {hashlib.sha256(body.encode()).hexdigest()}\n"


def _launchers(pid: int) -> list[int]:
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    found = []
    for word in words + _children_of_threads(pid):
        try:
            line = Path(f"/proc/{word}/cmdline").read_bytes()
        except OSError:
            continue
        if b"holdfast.work.launching.launcher" in line:
            found.append(int(word))
    return found


def _children_of_threads(pid: int) -> list[str]:
    found: list[str] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += task.read_text().split()
        except OSError:
            continue
    return found


@contextmanager
def doomed(folder: Path, orphans: float) -> Iterator[Doomed]:
    made = Doomed(folder, orphans=orphans)
    try:
        yield made
    finally:
        made.close()


#: Which processes a kill takes: the dispatcher, its launchers; and how many dispatchers there are.
WAYS = [
    {"itself": True, "launchers": False, "dispatchers": 1},
    {"itself": True, "launchers": True, "dispatchers": 1},
    {"itself": False, "launchers": True, "dispatchers": 1},
    {"itself": True, "launchers": True, "dispatchers": 2},
    {"itself": True, "launchers": False, "dispatchers": 2},
]


def kill_at_random_moments(
    folder: Path, kills: int, *, seed: int, orphans: float, in_one: int = 8
) -> int:
    """Kill so many times, while something is left to do, and let the work end in between: after so
    many kills a new application is started. How many writes of orphans were seen."""
    dice = random.Random(seed)
    left, number, seen = kills, 0, 0
    while left:
        number += 1
        with doomed(folder / str(number), orphans) as app:
            for _ in range(min(left, in_one)):
                way = dice.choice(WAYS)
                while len(app.running) < way["dispatchers"]:
                    app.start()
                if not app.goes_on(app.moment(dice)):
                    break
                itself, launchers = bool(way["itself"]), bool(way["launchers"])
                app.kill(dice.choice(app.running), itself=itself, launchers=launchers)
                left -= 1
            app.finish()
            app.check()
            seen += app.orphans()
    return seen


def test_a_dispatcher_that_is_killed_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    kill_at_random_moments(tmp_path, kills=3, seed=4, orphans=0.5, in_one=3)
