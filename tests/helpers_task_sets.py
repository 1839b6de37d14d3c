"""Random sets of tasks, and whether their result could be that of the tasks run serially."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import task_set_agent
from helpers_tasks import Checkout, picture
from holdfast.gate.broker.command_start import demand
from holdfast.gate.sandbox import SandboxError
from holdfast.manager.files.unfinished_edits import FOLDER, LIST
from holdfast.manager.manager import LockManager
from holdfast.work.tasks import task_records, task_states
from holdfast.work.tasks.lists.task import Task, TaskList
from holdfast.work.tasks.task_records import TaskRecord
from task_set_agent import ALWAYS, HOWS, IN_PLACE, KINDS, NEW_MODE, Player, written_by


def _cannot() -> str:
    try:
        demand()
    except SandboxError as error:
        return error.message
    return ""


#: Why no broker can run here; empty if one can.
CANNOT = _cannot()

#: Every file of a checkout, with its mode.
Tree = dict[str, tuple[int, bytes]]

NAMES = ("a.txt", "b.txt", "src/x.py", "src/y.py", "doc/one.md", "new.txt", "new/deep/n.txt")
TASKS_MIN, TASKS_MAX = 3, 8
HANG_SECONDS = 1.0


# A set


@dataclass(frozen=True)
class Program:
    """The steps of one task, for its agent and for the model."""

    name: str
    kind: str
    steps: list[list[Any]]
    fix: list[list[Any]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        """Every path that it writes."""
        return sorted({path for step in [*self.steps, *self.fix] for path in written_by(step)})

    @property
    def can_succeed(self) -> bool:
        return not any(step[0] == "crash" and step[2] == ALWAYS for step in self.steps)

    def play(self, tree: Tree) -> None:
        """Run it on a tree, as a whole. Raises OSError if that is impossible."""
        files = InMemory(tree)
        player = Player(self.name, files)
        for step in self.steps:
            player.play(step)
        if self.fix:
            fixing = Player(f"{self.name} fix", files)
            for step in self.fix:
                fixing.play(step)


class InMemory:
    """The files of the model."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def read(self, path: str) -> tuple[int, bytes] | None:
        self._demand_file(path)
        return self._tree.get(path)

    def write(self, path: str, old: bytes, line: bytes, how: str) -> None:
        known = self.read(path)
        mode = NEW_MODE if known is None or how == task_set_agent.REPLACED else known[0]
        self._tree[path] = mode, old + line

    def remove(self, path: str) -> None:
        self._tree.pop(path, None)

    def rename(self, path: str, to: str) -> None:
        self._demand_file(to)
        self._tree[to] = self._tree.pop(path)

    def chmod(self, path: str, mode: int) -> None:
        self._tree[path] = mode, self._tree[path][1]

    def _demand_file(self, path: str) -> None:
        """Raises OSError if a folder has this name, or a file has that of one of its folders."""
        if any(
            other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in self._tree
        ):
            raise OSError(f"{path} is in the way of another, or the other way round")


@dataclass
class TaskSet:
    """A checkout, and tasks for it."""

    seed: int
    checkout: Checkout
    tasks: TaskList
    programs: dict[str, Program]
    before: Tree

    def dispatch(self) -> dict[str, TaskRecord]:
        """Dispatch all tasks, in this process."""
        return self.checkout.dispatch(tasklist=self.tasks)

    def write_list(self) -> Path:
        """The list as a file in the checkout, for the command."""
        text = "".join(_toml(task) for task in self.tasks)
        self.checkout.write({self.tasks.name: f"slots = {self.tasks.slots}\n{text}"})
        self.before = tree_of(self.checkout.root)
        return self.checkout.root / self.tasks.name


def random_set(folder: Path, seed: int) -> TaskSet:
    """Three to eight tasks over two to six files."""
    random = Random(seed)
    names = random.sample(NAMES, random.randint(2, 6))
    there = {name: f"{name} as it was\n" for name in names if random.random() < 0.8}
    marks = folder / "marks"
    marks.mkdir(parents=True)
    settings = {"holdfast.toml": f'[sandbox]\nwrite = ["{marks}/"]\n'}
    checkout = Checkout(folder, {**there, **settings})
    count = random.randint(TASKS_MIN, TASKS_MAX)
    made = [_random_task(random, f"t{number}", number, names, marks) for number in range(count)]
    tasks = tuple(task for task, _program in made)
    return TaskSet(
        seed, checkout, TaskList("tasks.toml", tasks, slots=random.randint(2, 6)),
        {program.name: program for _task, program in made}, tree_of(checkout.root),
    )  # fmt: skip


def _random_task(
    random: Random, name: str, number: int, names: Sequence[str], marks: Path
) -> tuple[Task, Program]:
    reads = random.sample(names, random.randint(1, 2)) if random.random() < 0.35 else []
    steps = [_random_step(random, names, reads) for _ in range(random.randint(1, 5))]
    if reads:  # the same file twice, as far apart as possible: it must not change in between
        path = random.choice(names)
        first, last = (["note", reads[0], path, IN_PLACE] for _ in range(2))
        steps = [first, ["sleep", 0.1], *steps, last]
    terms: dict[str, Any] = {}
    fix = []
    if random.random() < 0.2:
        path = random.choice(names)
        steps.append(["edit", path, IN_PLACE])
        fix = [["edit", path, IN_PLACE]]
        terms["check"] = f"grep -q '^{name} fix ' {path}"
    program = Program(name, random.choice(KINDS), steps, fix)
    if random.random() < 0.25:
        terms["writes"] = tuple(program.paths)
        for step in steps:  # a file beside it, under a name of its own, would be a gap
            step[:] = [IN_PLACE if one in HOWS else one for one in step]
    if random.random() < 0.3:
        _add_crash(random, steps, terms)
    for _ in range(random.randint(0, 3)):
        pause = round(random.uniform(0.005, 0.08), 3)
        steps.insert(random.randint(0, len(steps)), ["sleep", pause])
    if random.random() < 0.2:
        terms["locks"] = (random.choice(("db:one", "port:8000")),)
    if number and random.random() < 0.2:
        terms["after"] = (f"t{random.randrange(number)}",)
    said = {"name": name, "kind": program.kind, "steps": steps, "fix": fix,
            "count": str(marks / name)}  # fmt: skip
    task = Task(
        name, json.dumps(said), reads=tuple(_read_paths(random, reads)),
        priority=random.randint(-1, 1), tries=random.randint(1, 3), commit=random.random() < 0.15,
        message="{name}", rounds=1, command=_command(), **terms,
    )  # fmt: skip
    return task, program


def _random_step(random: Random, names: Sequence[str], reads: Sequence[str]) -> list[Any]:
    path, how = random.choice(names), random.choice(HOWS)
    if reads and random.random() < 0.4:
        return ["note", random.choice(reads), path, how]
    verb = random.choices(("edit", "delete", "rename", "chmod"), (12, 3, 3, 2))[0]
    if verb == "edit":
        # Now and then below a name that may be a file's, so that files and folders change places.
        return ["edit", f"{path}/inner" if random.random() < 0.04 else path, how]
    if verb == "rename":
        others = [one for one in names if one != path]
        return ["rename", path, random.choice([*others, "renamed.txt", "new/moved.txt"])]
    return ["delete", path] if verb == "delete" else ["chmod", path, random.choice((0o755, 0o600))]


def _add_crash(random: Random, steps: list[list[Any]], terms: dict[str, Any]) -> None:
    how = random.choice(("exit", "kill", "hang"))
    attempts = random.choice((1, ALWAYS))
    steps.insert(random.randint(0, len(steps)), ["crash", how, attempts])
    if how == "hang":
        terms["timeout_seconds"] = HANG_SECONDS


def _read_paths(random: Random, reads: Sequence[str]) -> list[str]:
    """Replace some of the paths by the folders that they are in."""
    found = []
    for path in reads:
        folder = os.path.dirname(path)
        found.append(f"{folder}/" if folder and random.random() < 0.3 else path)
    return list(dict.fromkeys(found))


def _command() -> tuple[str, ...]:
    return (sys.executable, "-S", "-E", task_set_agent.__file__, "{prompt}")


def _toml(task: Task) -> str:
    """A task as a list spells it. The common part of JSON and TOML is enough here."""
    wanted = {
        "name": task.name, "prompt": task.prompt, "reads": list(task.reads),
        "locks": list(task.locks), "after": list(task.after), "check": task.check,
        "commit": task.commit, "message": task.message, "command": list(task.command),
        "timeout_seconds": task.timeout_seconds, "priority": task.priority, "rounds": task.rounds,
        "tries": task.tries,
    }  # fmt: skip
    if task.writes is not None:
        wanted["writes"] = list(task.writes)
    lines = [
        f"{key} = {json.dumps(value)}" for key, value in wanted.items() if value not in ("", None)
    ]
    return "\n".join(["", "[[task]]", *lines, ""])


# The result


def tree_of(root: Path) -> Tree:
    """Every file. An empty folder does not count, as in git."""
    return {
        path: (mode, content) for path, (mode, content) in picture(root).items()
        if isinstance(content, bytes)
    }  # fmt: skip


def serial_order(
    before: Tree, programs: Mapping[str, Program], after: Tree, guess: Sequence[str]
) -> list[str] | None:
    """An order in which these programs, one by one, make one tree of the other; None if there is
    none. The guess is tried first."""
    if played(before, [programs[name] for name in guess]) == after:
        return list(guess)
    seen: set[tuple[frozenset[str], frozenset[tuple[str, tuple[int, bytes]]]]] = set()

    def search(tree: Tree, order: list[str]) -> list[str] | None:
        left = [name for name in programs if name not in order]
        if not left:
            return order if tree == after else None
        key = frozenset(left), frozenset(tree.items())
        if key in seen:
            return None
        seen.add(key)
        for name in left:
            then = played(tree, [programs[name]])
            found = search(then, [*order, name]) if then is not None else None
            if found is not None:
                return found
        return None

    return search(before, [])


def played(before: Tree, programs: Sequence[Program]) -> Tree | None:
    """The tree after these programs; None if one of them fails."""
    tree = dict(before)
    try:
        for program in programs:
            program.play(tree)
    except OSError:
        return None
    return tree


def problems(made: TaskSet) -> list[str]:
    """The problems of a checkout whose tasks are all over; empty if there are none."""
    found = made.checkout.records()
    wrong = [f"{one.name} is {one.state}" for one in found.values() if not one.is_over]
    if sorted(found) != sorted(made.programs):
        wrong.append(f"there are records of {sorted(found)}")
    done = {
        name: made.programs[name] for name, one in found.items() if one.state == task_states.DONE
    }
    wrong += [f"{one.name} succeeded" for one in done.values() if not one.can_succeed]
    after = tree_of(made.checkout.root)
    with LockManager.open(str(made.checkout.root)) as manager:
        guess = [name for name in _landed(manager) if name in done]
        wrong += [f"{one.holder} still holds {one.write_paths}" for one in manager.active_grants()]
        wrong += [f"{one.request.holder.id} is in line" for one in manager.queue()]
    if sorted(guess) != sorted(done):
        wrong.append(f"{sorted(done)} are done, and these landed: {guess}")
    elif serial_order(made.before, done, after, guess) is None:
        wrong.append(_told(made, found, guess, after))
    return wrong + [f"{path} is left" for path in (made.checkout.root / FOLDER).glob(f"*/{LIST}")]


def _landed(manager: LockManager) -> list[str]:
    """The tasks in the order in which they could no longer be undone."""
    said = [one.data for one in manager.events() if one.type == task_records.TASK_CHANGED]
    return list(dict.fromkeys(one["name"] for one in said if one["state"] == task_states.LANDING))


def _told(made: TaskSet, found: Mapping[str, TaskRecord], guess: Sequence[str], after: Tree) -> str:
    lines = [f"seed {made.seed}: no serial order of {guess} leads to this tree:"]
    expected = played(made.before, [made.programs[name] for name in guess])
    for path in sorted({*after, *made.before, *(expected or {})}):
        trees = ("before", made.before), ("is", after), ("would be", expected or {})
        lines += [f"  {path} {what}: {tree.get(path)}" for what, tree in trees]
    for task in made.tasks:
        record = found[task.name]
        lines.append(f"  {task.name} {record.state} ({record.tries} tries) {record.reason}")
        lines.append(f"    {task.prompt}")
        terms = {"writes": task.writes, "reads": task.reads, "after": task.after,
                 "locks": task.locks, "needs": record.needs}  # fmt: skip
        lines.append(f"    {terms}")
    return "\n".join(lines)
