"""Twenty tasks in a small package, done by scripts that find out at run time which files they need.

Every task leaves its mark once in a few files that others mark as well, in another order each time,
makes a file of its own and deletes one. Some meet another task in a deadlock, some leave a process
behind that goes on writing, some have a check. `helpers_task_witness` judges the result, and
consults neither the ledger nor the dispatcher.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from helpers_processes import until
from helpers_task_scripts import (
    AGENT,
    CHECKLIST,
    CIRCLE,
    JOURNAL,
    PACKAGE_TEST,
    SHARED,
    chosen,
    signed,
)
from helpers_tasks import IDENTITY
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import carriers
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.task_records import TaskRecord

COUNT = 20
SLOTS = 6
#: A variable of every process that is started here; its value is the folder of the fight.
MARK = "HOLDFAST_TEST_OF_TASKS"
LIST = "tasks.toml"
#: Longer than anything takes here, even on a busy machine.
END_SECONDS = 120.0


class Arena:
    """The package, its list of tasks, and the dispatchers that work on it."""

    def __init__(
        self,
        folder: Path,
        *,
        root: Path | None = None,
        commit: bool = False,
        checklist: bool = False,
        words: dict[str, str] | None = None,
        terms: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        """`words` select what tasks go through, and `terms` are the keys of the list, by name."""
        self.folder = folder
        self.root = root or folder / "repository"
        self.evidence, self.temporary = folder / "evidence", folder / "tmp"
        for one in (self.evidence, self.temporary, self.root):
            one.mkdir(parents=True)
        self.names = [f"task-{number:02}" for number in range(1, COUNT + 1)]
        self.words = words or (WORDS_OF_CHECKLIST if checklist else WORDS)
        self.commit = commit
        self.list = CHECKLIST if checklist else LIST
        self.running: list[subprocess.Popen[bytes]] = []
        self.said = folder / "said"
        self.said.touch()
        self._make_package()
        self.make_list(terms or {})
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        (self.root / ".holdfast").mkdir()  # so that no ledger in a folder above is used
        self.manager = LockManager.open(self.root)

    # The package

    def _make_package(self) -> None:
        for path in (*SHARED, *CIRCLE):
            self.write(path, signed('from shop.marks import mark\nmark("start")\n'))
        self.write("shop/__init__.py", "")
        self.write("shop/marks.py", "NAMES = []\nmark = NAMES.append\n")
        self.write(JOURNAL, "")
        self.write("tests/test_marks.py", PACKAGE_TEST)
        self.write(".gitignore", "__pycache__/\n")
        for name in self.names:
            self.write(f"todo/{name}.txt", f"{name} is to be done\n")

    def make_list(self, terms: dict[str, dict[str, Any]]) -> None:
        """Write the list, with these keys for tasks in addition to their own."""
        self._make_settings()
        if self.list == CHECKLIST:
            items = [f"- [ ] {name}\n  {self._prompt(name)}\n" for name in self.names]
            self.write(CHECKLIST, "# To do\n\n" + "".join(items))
            return
        check = f"{sys.executable} -BS tests/test_marks.py -q"
        lines = [f"slots = {SLOTS}", f"commit = {json.dumps(self.commit)}", "tries = 50",
                 'message = "{name}"']  # fmt: skip
        for number, name in enumerate(self.names):
            given = {"name": name, "prompt": self._prompt(name)}
            if number % 3 == 0:
                given["check"] = check
            lines += ["", "[[task]]"]
            for key, value in {**given, **terms.get(name, {})}.items():
                lines.append(f"{key} = {json.dumps(value)}")
        self.write(LIST, "\n".join([*lines, ""]))

    def _make_settings(self) -> None:
        agent = self.folder / "agent.py"
        agent.write_text(AGENT)
        command = [sys.executable, "-IS", str(agent), "{prompt}", "{name}", str(self.evidence)]
        lines = ["[sandbox]", f"write = [{json.dumps(f'{self.evidence}/')}]",
                 "[work]", f"slots = {SLOTS}",
                 "[work.agent]", f"command = {json.dumps(command)}"]  # fmt: skip
        self.write("holdfast.toml", "\n".join([*lines, ""]))

    def _prompt(self, name: str) -> str:
        return f"leave your mark {self.words.get(name, '')}".strip()

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.root), *words], env={**os.environ, **IDENTITY}, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def files_of(self, name: str) -> set[str]:
        """The files that a task changes, makes or deletes."""
        words = self.words.get(name, "").split()
        found = {*chosen(name), f"shop/parts/{name}/part.py", f"todo/{name}.txt"}
        found |= set(CIRCLE) if any(word.startswith("circle=") for word in words) else set()
        return found | ({JOURNAL} if "orphan" in words else set())

    # Dispatchers

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start one more dispatcher: `holdfast dispatch` with these words, or with the list."""
        # If the tests themselves are killed, no process would be left to end it.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        line = [*guard, sys.executable, "-m", "holdfast", "dispatch", *(words or (self.list,))]
        environment = {
            **os.environ, **IDENTITY, MARK: str(self.folder), "TMPDIR": str(self.temporary),
            "HOLDFAST_HOLDER": "",
        }  # fmt: skip
        with open(self.said, "ab") as said:
            made = subprocess.Popen(
                line, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=said,
                stderr=said, start_new_session=True,
            )  # fmt: skip
        self.running.append(made)
        return made

    def ended(self, one: subprocess.Popen[bytes], seconds: float = END_SECONDS) -> int:
        """The exit code of a dispatcher that ends by itself."""
        try:
            code = one.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it does not come to an end\n{self.told()}") from None
        self.running.remove(one)
        return code

    def finish(self) -> None:
        """Let the remaining dispatchers, or another one, do everything that is left."""
        if not any(one.poll() is None for one in self.running):
            self.start()
        for one in list(self.running):
            code = self.ended(one)
            assert code == 0, f"a dispatcher ended with {code}\n{self.told()}"
        # Another run does nothing twice, and removes what a killed dispatcher could not.
        assert self.ended(self.start("--resume")) == 0, self.told()

    def states(self) -> dict[str, TaskRecord]:
        found = transactions.look(self.manager, task_records.tasks_in)
        return {one.name: one for one in found}

    def is_done(self) -> bool:
        found = self.states()
        return len(found) == len(self.names) and all(one.is_over for one in found.values())

    def head(self) -> int:
        return transactions.look(self.manager, lambda view: view.head)

    # Kills

    def goes_on(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition holds. False if the work was done before that."""
        end = time.monotonic() + END_SECONDS
        while not condition():
            for one in self.running:
                assert one.poll() in (None, 0), f"a dispatcher ended by itself\n{self.told()}"
            if all(one.poll() is not None for one in self.running) or self.is_done():
                return False
            assert time.monotonic() < end, f"nothing happens any more\n{self.told()}"
            self.manager.store.wait(self.head(), 0.02)
        return True

    def moment(self, dice: random.Random) -> Callable[[], bool]:
        """A future moment: any, or one of the kinds that are short or rare."""
        head, later, wrote = self.head(), dice.randint(1, 40), self.orphans()
        kind = dice.choice(["any", "any", "orphan", "landing", "yield"])
        pause = dice.uniform(0, 0.05)

        def is_any() -> bool:
            return self.head() >= head + later

        def is_written_by_an_orphan() -> bool:
            return self.orphans() > wrote or self.head() >= head + 80

        def is_of_a_kind() -> bool:
            if not self._has_happened(kind, head) and self.head() < head + 150:
                return False
            time.sleep(pause)  # somewhere in the consequences, between which no event distinguishes
            return True

        return {"any": is_any, "orphan": is_written_by_an_orphan}.get(kind, is_of_a_kind)

    def _has_happened(self, kind: str, head: int) -> bool:
        for event in self.manager.events(after=head):
            if kind == "yield" and event.type == "work_yield":
                return True
            if kind == "landing" and event.data.get("state") == task_states.LANDING:
                return True
        return False

    def orphans(self) -> int:
        """How many times a process that was left behind has written up to now."""
        return sum(one.stat().st_size for one in self.evidence.glob("orphan-*"))

    def kill(self, way: str, dice: random.Random) -> None:
        """The effect of `kill -9`, on some of the processes."""
        one = dice.choice([one for one in self.running if one.poll() is None] or self.running)
        launchers = below(one.pid, b"holdfast.work.launching.launcher")
        if way == "agent":
            _kill(dice.sample(agents := self.agents(), min(1, len(agents))))
        elif way == "launcher":
            _kill(dice.sample(launchers, min(1, len(launchers))))
        elif way == "launchers":
            _kill(launchers)
        elif way == "launchers and dispatcher":
            _kill([*launchers, one.pid])  # in this order: none of them can see its parent die
        elif way == "group":
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
        elif way == "everything":
            _kill([*launchers, *self.agents()])
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
        else:
            _kill([one.pid])
        if way in ("dispatcher", "launchers and dispatcher", "group", "everything"):
            one.wait()
            self.running.remove(one)

    def agents(self) -> list[int]:
        """The agents that run now, and the processes that they left behind."""
        agent = os.fsencode(self.folder / "agent.py")
        return [pid for pid in carriers(f"{MARK}={self.folder}") if agent in _line_of(pid)]

    def close(self) -> None:
        for one in self.running:
            one.kill()
            one.wait()
        _kill(carriers(f"{MARK}={self.folder}"))
        self.manager.close()

    def told(self) -> str:
        """For a test that fails: the output of the dispatchers, and the states of the tasks."""
        stand = "\n".join(
            f"{one.name}: {one.state} {one.item} tries {one.tries} {one.reason} {one.tail}"
            for one in self.states().values()
        )
        held = "\n".join(
            f"{one.owner.id} {one.write_paths} {one.owner}" for one in self.manager.active_grants()
        )
        return f"{self.said.read_text()[-6000:]}\n{stand}\n{held}\n{self.manager.queue()}"


#: Which tasks meet in a deadlock, which leave a process behind, and whose check fails at first.
WORDS = {
    "task-01": "circle=0,0", "task-02": "circle=0,1", "task-03": "orphan", "task-04": "careless",
    "task-08": "circle=1,0", "task-09": "circle=1,1 orphan", "task-12": "orphan",
    "task-15": "circle=2,1", "task-16": "circle=2,0", "task-19": "orphan careless",
}  # fmt: skip
#: The same for a checklist, which has no checks; and one task wants to write the list.
WORDS_OF_CHECKLIST = {
    **{name: words.replace("careless", "") for name, words in WORDS.items()}, "task-05": "reaches",
}  # fmt: skip


def below(pid: int, words: bytes) -> list[int]:
    """The children of a process whose command line has these words."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return [child for child in found if words in _line_of(child)]


def _line_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def arena(folder: Path, **options: Any) -> Iterator[Arena]:
    made = Arena(folder, **options)
    try:
        yield made
    finally:
        made.close()


#: Which processes a kill takes, and how many dispatchers there are then.
WAYS = [
    ("agent", 1), ("launcher", 1), ("launchers", 1), ("dispatcher", 1),
    ("launchers and dispatcher", 1), ("group", 1), ("everything", 1), ("dispatcher", 2),
    ("everything", 2), ("group", 2),
]  # fmt: skip


def kill_at_random_moments(made: Arena, kills: int, dice: random.Random) -> int:
    """Kill up to this many times, as long as work is left; the number of kills. All work is done
    then."""
    done = 0
    for _ in range(kills):
        way, dispatchers = dice.choice(WAYS)
        while len(made.running) < dispatchers:
            made.start(*(["--resume"] if made.states() and dice.random() < 0.5 else []))
        if not made.goes_on(made.moment(dice)):
            break
        made.kill(way, dice)
        done += 1
    made.finish()
    return done


def until_no_process_is_left(made: Arena) -> None:
    until(lambda: not carriers(f"{MARK}={made.folder}"), "no process is left")
