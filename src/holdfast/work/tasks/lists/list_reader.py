"""Lists of tasks: a TOML file, a Markdown checklist, or prompts from the command line.

    slots = 4
    check = "make test"              # a default for every task below

    [[task]]
    name = "rename User"
    prompt = "Rename User to Account, also in the documentation."
    writes = ["app/user.py", "docs/user.md"]

A list with a mistake is refused as a whole, and every mistake is reported with its line. A list
that was read is consistent: its names differ, its paths stay inside the repository as links lead
now, and no task comes after itself. Whether the files exist is not checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from holdfast.core.errors import InvalidInput
from holdfast.gate.config.settings_file import shown
from holdfast.work.input_checks import (
    Problems,
    Unreadable,
    file_bytes,
    kind_of,
    nearest,
    readable,
)
from holdfast.work.tasks.lists import checklist
from holdfast.work.tasks.lists.task import COMMAND_LINE, Task, TaskList
from holdfast.work.tasks.lists.task_fields import (
    DEFAULTS,
    KEYS,
    NEEDED,
    SLOTS,
    Fields,
    words_problem,
)
from holdfast.work.tasks.lists.task_names import name_of, same
from holdfast.work.tasks.lists.task_order import cycle_in
from holdfast.work.tasks.lists.toml_lines import TOP, Lines

SIZE_MAX = checklist.SIZE_MAX
TASKS_MAX = 10_000
TASK = "task"
TOML = (".toml",)
MARKDOWN = (".md", ".markdown")
SUFFIXES = (*TOML, *MARKDOWN)

_READING_HINT = "name a list of tasks: a .toml file, or a Markdown file with items such as - [ ] …"
_TOML_HINT = 'a task is: [[task]], then name = "…" and prompt = "…", each on a line of its own'
#: The hint where the tasks themselves are well-formed.
_PLAN_HINT = "correct the list; holdfast plan LIST reads it and starts nothing"
_MARKDOWN_HINT = "a task is a line such as: - [ ] rename User to Account"
_LINE_HINT = 'give each task once: --task "rename User to Account"'


class TasksError(InvalidInput):
    """A list that cannot be worked on. The field `problems` has each line and its problem."""

    code = "E_TASKS"


def is_list(path: str) -> bool:
    """Whether a file is a list of tasks, by its name."""
    return path.lower().endswith(SUFFIXES)


def read_tasks(path: str, root: str) -> TaskList:
    """The list in a file, for the repository with this root. Raises TasksError with every
    mistake."""
    problems = Problems(path)
    with readable(problems, TasksError, _READING_HINT):
        if not is_list(path):
            raise Unreadable(f"a list of tasks ends with {', '.join(SUFFIXES)}")
        data = file_bytes(path, SIZE_MAX)
        text = _text(data)
    name = list_name(path, root)
    if path.lower().endswith(MARKDOWN):
        return _checklist(problems, text, name)
    return _Toml(problems, text, path, root).read(name)


def from_command_line(prompts: Sequence[str]) -> TaskList:
    """The tasks that were given one by one. Raises TasksError."""
    found: list[Task] = []
    wrong: list[tuple[int, str]] = []
    places: dict[str, int] = {}
    for at, prompt in enumerate(prompts, 1):
        name = name_of(prompt)
        if not name:
            wrong.append((at, "it is empty"))
        elif "\0" in prompt:
            wrong.append((at, "this contains a NUL"))
        elif places.setdefault(same(name), at) != at:
            wrong.append((at, f"{name!r} is already task {places[same(name)]}"))
        else:
            found.append(Task(name, prompt.strip(), line=at))
    if not prompts:
        wrong.append((0, "it contains no tasks"))
    if len(prompts) > TASKS_MAX:
        wrong = [(0, _too_many(len(prompts)))]
    problems = Problems(COMMAND_LINE)
    for at, what in wrong:
        problems.add(f"task {at}" if at and len(prompts) > 1 else "", what)
    if wrong:
        error = problems.error(TasksError, _LINE_HINT)
        if len(prompts) == 1 and wrong == [(1, "it is empty")]:
            raise TasksError(f"{COMMAND_LINE} is empty", hint=_LINE_HINT, **error.fields)
        raise error
    return TaskList(COMMAND_LINE, tuple(found))


def list_name(path: str, root: str) -> str:
    """The name of a list: its path from the root, or its real path if that is elsewhere."""
    real, top = os.path.realpath(path), os.path.realpath(root)
    prefix = top if top.endswith("/") else f"{top}/"
    return real[len(prefix) :] if real.startswith(prefix) else real


def _text(data: bytes) -> str:
    if len(data) > SIZE_MAX:
        raise Unreadable(f"this is larger than {SIZE_MAX >> 20} MiB")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable("this is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable("this is not UTF-8", f"line {line}") from error


def _too_many(count: int) -> str:
    return f"{count} tasks; at most {TASKS_MAX} are accepted"


def _refused(problems: Problems, wrong: list[tuple[int, str]], hint: str) -> TasksError:
    for line, what in sorted(wrong, key=lambda one: one[0]):
        problems.add(f"line {line}" if line else "", what)
    return problems.error(TasksError, hint)


# Markdown


def _checklist(problems: Problems, text: str, name: str) -> TaskList:
    wrong = _broken_boxes(text)
    tasks: list[Task] = []
    lines: dict[str, int] = {}
    every = checklist.items(text)
    for item in every:
        # Beside a ticked one too: a name identifies the item, whatever is in its box.
        first = lines.setdefault(same(item.name), item.line) if item.name else item.line
        if not item.name:
            if not item.is_ticked:
                wrong.append((item.line, "this item has no text"))
        elif first != item.line:
            wrong.append((item.line, f"{item.name!r} is already in line {first}"))
        elif "\0" in item.prompt:
            wrong.append((item.line, "this contains a NUL"))
        elif not item.is_ticked:
            tasks.append(Task(item.name, item.prompt, line=item.line))
    if not every and not wrong:
        wrong.append((0, "the list has no item with a checkbox"))
    if len(tasks) > TASKS_MAX:
        wrong = [(0, _too_many(len(tasks)))]
    if wrong:
        raise _refused(problems, wrong, _MARKDOWN_HINT)
    return TaskList(name, tuple(tasks), is_checklist=True)


#: An item that seems to have a checkbox, as opposed to `[link](…)`, `[link][…]` and `[link]: …`.
_BOX = re.compile(
    r"^(?P<item>[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+|-(?=\[)))"
    r"\[(?P<mark>[ \t]*[xX]?[ \t]*)\](?![(\[:])(?P<rest>[^\r\n]*)",
    re.MULTILINE,
)


def _broken_boxes(text: str) -> list[tuple[int, str]]:
    """The items that are no tasks only because their checkbox is malformed, such as `- []`. Those
    that belong to another item, or are in code, do not count."""
    told: dict[int, str] = {}
    line, counted = 1, 0

    def repaired(match: re.Match[str]) -> str:
        nonlocal line, counted
        item, mark, rest = match["item"], match["mark"], match["rest"]
        if len(mark) == 1 and item[-1:] in " \t" and (not rest or rest[0] in " \t"):
            return match[0]
        ticked = "x" if mark.strip() else " "
        meant = f"{item.rstrip()} [{ticked}] {rest.strip()}"
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        told[line] = f"this checkbox is broken; write {shown(meant.strip())}"
        return f"{item[: len(item) - len(item.lstrip())]}{meant.lstrip()}"

    whole = _BOX.sub(repaired, text)
    if not told:
        return []
    return [(one.line, told[one.line]) for one in checklist.items(whole) if one.line in told]


# TOML


class _Toml:
    """One reading of a TOML list."""

    def __init__(self, problems: Problems, text: str, path: str, root: str) -> None:
        self._problems = problems
        self._text = text
        self._lines = Lines(text, TASK)
        self._fields = Fields(root, path)
        self._wrong: list[tuple[int, str]] = []
        self._is_malformed = False
        #: The names that each entry comes after, even if it has other mistakes.
        self._after: dict[int, tuple[str, ...]] = {}

    def read(self, name: str) -> TaskList:
        """The list. Raises TasksError."""
        with readable(self._problems, TasksError, _TOML_HINT):
            tables = self._tables()
        entries = self._entries(tables)
        slots = tables.get(SLOTS)
        defaults = self._defaults(tables)
        tasks = [self._task(at, entry, defaults) for at, entry in enumerate(entries)]
        self._check_order(self._names(entries))
        if self._wrong:
            hint = _TOML_HINT if self._is_malformed else _PLAN_HINT
            raise _refused(self._problems, self._wrong, hint)
        return TaskList(name, tuple(task for task in tasks if task is not None), slots)

    def _tables(self) -> dict[str, Any]:
        import tomllib

        try:
            return tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            said = str(error)
            line = said.partition("at line ")[2].partition(",")[0]
            raise Unreadable(
                f"this is not valid TOML: {said}", f"line {line}" if line.isdigit() else ""
            ) from error
        except RecursionError:
            raise Unreadable("this is nested too deeply") from None

    def _entries(self, tables: dict[str, Any]) -> list[Any]:
        given = tables.pop(TASK, [])
        if not isinstance(given, list):
            self._malformed(TOP, TASK, "each task begins with [[task]], in double brackets")
            return []
        if not given and not any(map(_is_tables, tables.values())):
            self._is_malformed = True
            self._wrong.append((0, "the list has no [[task]]"))
        if len(given) > TASKS_MAX:
            self._wrong.append((0, _too_many(len(given))))
            return []
        return given

    def _defaults(self, tables: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in tables.items():
            if key == SLOTS:
                self._add(TOP, key, *self._fields.slots_problems(value))
            elif key in DEFAULTS:
                found[key] = self._value(TOP, key, value)
            elif key in KEYS:
                told = f"{key} belongs to one task and cannot be a default; write it below [[task]]"
                self._malformed(TOP, key, told)
            elif _is_tables(value):
                self._malformed(TOP, key, f"[[{key}]] is not known; did you mean [[{TASK}]]?")
            else:
                self._malformed(TOP, key, self._unknown(key, (SLOTS, TASK, *DEFAULTS)))
        return {key: value for key, value in found.items() if value is not None}

    def _task(self, at: int, entry: Any, defaults: dict[str, Any]) -> Task | None:
        if not isinstance(entry, dict):
            self._malformed(at, "", f"a task is a table with name and prompt, not {kind_of(entry)}")
            return None
        found = dict(defaults)
        for key, value in entry.items():
            if key in KEYS:
                found[key] = self._value(at, key, value)
            elif key == SLOTS:
                told = f"{SLOTS} applies to the whole list; write it above every [[task]]"
                self._malformed(at, key, told)
            else:
                self._malformed(at, key, self._unknown(key, KEYS))
        for key in NEEDED:
            if key not in entry:
                self._malformed(at, "", f"{key} is missing")
        self._after[at] = found.get("after") or ()
        if any(found.get(key) is None for key in NEEDED):
            return None
        given = {key: value for key, value in found.items() if value is not None}
        task = Task(**given, line=self._lines.of(at))
        self._add(at, "command", *words_problem(task))
        return task

    def _value(self, at: int, key: str, value: Any) -> Any:
        """The value of a key; None if it is wrong, which is reported."""
        found, told = self._fields.value(key, value)
        self._add(at, key, *told)
        return None if told else found

    @staticmethod
    def _unknown(key: str, known: Sequence[str]) -> str:
        near = nearest(key, known)
        more = f"did you mean {near}?" if near else f"there is {', '.join(known)}"
        return f"there is no {key!r} here; {more}"

    def _names(self, entries: list[Any]) -> dict[int, str]:
        """The names of all tasks by their places, even of those with other mistakes."""
        places: dict[str, int] = {}
        found: dict[int, str] = {}
        for at, entry in enumerate(entries):
            name = entry.get("name") if isinstance(entry, dict) else None
            if not isinstance(name, str):
                continue
            found[at] = name
            first = places.setdefault(same(name), at)
            if first != at:
                line = self._lines.of(first, "name")
                self._add(at, "name", f"{shown(name)} is already in line {line}")
        return found

    def _check_order(self, names: dict[int, str]) -> None:
        known = set(names.values())
        for at, after in self._after.items():
            for name in after:
                if name == names.get(at):
                    self._add(at, "after", f"{shown(name)} cannot come after itself")
                elif name not in known:
                    near = nearest(name, known)
                    more = f"; did you mean {near!r}?" if near else ""
                    self._add(at, "after", f"there is no task {shown(name)}{more}")
        cycle = cycle_in({name: self._after.get(at, ()) for at, name in names.items()})
        if cycle:
            at = next(at for at, name in names.items() if name == cycle[0])
            self._add(at, "after", f"these wait for each other: {' -> '.join(cycle)}")

    def _add(self, at: int, key: str, *told: str) -> None:
        self._wrong += [(self._lines.of(at, key), what) for what in told]

    def _malformed(self, at: int, key: str, told: str) -> None:
        self._is_malformed = True
        self._add(at, key, told)


def _is_tables(value: Any) -> bool:
    """Whether a value was written as tables in double brackets, or as a list of them."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
