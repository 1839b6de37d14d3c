"""The values of each key of a task, and the mistakes in them."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from functools import cached_property
from typing import Any

from holdfast.core import keys
from holdfast.core.errors import BadKeyError
from holdfast.gate.config.settings_file import number, shown
from holdfast.gate.git.git_control_files import controls_of
from holdfast.manager.files.control_files import Controls, control_of
from holdfast.manager.files.paths import Place, Tree
from holdfast.manager.request_limits import PRIORITY_MAX, over_lock
from holdfast.work.input_checks import folded, kind_of, path_problem, tidy
from holdfast.work.screens.layout import SLOTS_MAX
from holdfast.work.screens.phases import WORD_BYTES_MAX
from holdfast.work.screens.templates import braced, filled, placeholder_problem, placeholders
from holdfast.work.tasks.lists.task import Task
from holdfast.work.tasks.lists.task_names import name_problem

SLOTS = "slots"
NEEDED = ("name", "prompt")
#: The keys that may be set above all tasks, as a default for each.
DEFAULTS = (
    "reads", "locks", "check", "commit", "message", "command", "timeout_seconds", "priority",
    "rounds", "tries",
)  # fmt: skip
KEYS = (*NEEDED, "writes", "after", *DEFAULTS)

COMMAND_WORDS = ("prompt", "name")
MESSAGE_WORDS = ("name", "prompt", "first_line")

_NUMBERS: dict[str, tuple[Callable[[object], bool], str]] = {
    SLOTS: (number(1, SLOTS_MAX, whole=True), f"a whole number, 1 to {SLOTS_MAX}"),
    "timeout_seconds": (number(0.01, 604_800), "seconds, 0.01 to 604800"),
    "priority": (
        number(-PRIORITY_MAX, PRIORITY_MAX, whole=True),
        f"a whole number, -{PRIORITY_MAX} to {PRIORITY_MAX}",
    ),
    "rounds": (number(0, 100, whole=True), "a whole number, 0 to 100"),
    "tries": (number(1, 100, whole=True), "a whole number, 1 to 100"),
}


class Fields:
    """The keys of the tasks of one list, for the repository with this root."""

    def __init__(self, root: str, file: str) -> None:
        self._root = root
        self._list = os.path.realpath(file)

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self._root)

    @cached_property
    def _controls(self) -> Controls:
        return controls_of(self._tree.root)

    def value(self, key: str, given: Any) -> tuple[Any, list[str]]:
        """The value of a key, and the mistakes in it."""
        if key in _NUMBERS:
            return given, self._number(key, given)
        if key in ("writes", "reads"):
            return self._paths(key, given)
        if key in ("locks", "after", "command"):
            return self._texts(key, given)
        if key == "commit":
            right = isinstance(given, bool)
            return given, [] if right else [f"{key} must be true or false, not {kind_of(given)}"]
        return given, self._text(key, given)

    def slots_problems(self, given: Any) -> list[str]:
        """The mistakes in a number of slots."""
        return self._number(SLOTS, given)

    @staticmethod
    def _number(key: str, given: Any) -> list[str]:
        is_right, meant = _NUMBERS[key]
        return [] if is_right(given) else [f"{key} cannot be {shown(given)}; it must be {meant}"]

    # Texts

    @staticmethod
    def _text(key: str, given: Any) -> list[str]:
        if key == "check" and _is_texts(given):
            line = shlex.join(given).replace("\\", "\\\\").replace('"', '\\"')
            return [f'check is one shell command, not a list of words; write check = "{line}"']
        if not isinstance(given, str):
            return [f"{key} must be a text, not {kind_of(given)}"]
        if not given.strip():
            return [f"{key} is empty"]
        if "\0" in given:
            return [f"{key} contains a NUL"]
        problem = name_problem(given) if key == "name" else ""
        if key == "message" and (wrong := placeholder_problem(given, MESSAGE_WORDS)):
            problem = f"message: {wrong}; there is {braced(MESSAGE_WORDS)}"
        return [problem] if problem else []

    def _texts(self, key: str, given: Any) -> tuple[Any, list[str]]:
        if not _is_texts(given):
            return (), [f"{key} must be a list of texts, not {kind_of(given)}"]
        if key == "command":
            return tuple(given), _command_problems(given)
        told: list[str] = []
        found: dict[str, str] = {}
        for text in given:
            name, problem = _lock(text) if key == "locks" else (text, "")
            if problem:
                told.append(problem)
            elif folded(name) in found:
                told.append(f"{key} lists {shown(text)} twice")
            else:
                found[folded(name)] = name
        return tuple(found.values()), told

    # Paths

    def _paths(self, key: str, given: Any) -> tuple[tuple[str, ...], list[str]]:
        if not isinstance(given, list):
            return (), [f"{key} must be a list of paths, not {kind_of(given)}"]
        told: list[str] = []
        found: dict[str, str] = {}
        for text in given:
            place, problem = self._place(text)
            if place is not None:
                problem = self._place_problem(key, text, place)
            if problem:
                told.append(f"{key}: {problem}")
            elif place is not None and folded(place.key) in found:
                told.append(f"{key} lists {shown(text)} twice")
            elif place is not None:
                found[folded(place.key)] = place.path
        return tuple(found.values()), told

    def _place(self, text: Any) -> tuple[Place | None, str]:
        problem = path_problem(text)
        if problem:
            return None, problem
        try:
            place = self._tree.place(tidy(text))
        except BadKeyError as error:
            return None, error.message
        if keys.is_outside(place.key):
            return None, f"{shown(text)} leads out of the repository"
        return place, ""

    def _place_problem(self, key: str, text: str, place: Place) -> str:
        if place.real == self._list:
            return f"{shown(text)} is the list itself"
        if key == "reads":
            return ""
        control = control_of(tidy(text)) or self._controls.of(f"{self._tree.root}/{place.path}")
        if control is not None:
            return control.sentence(shown(text))
        return over_lock(place.path).message if place.folder else ""


def words_problem(task: Task) -> list[str]:
    """The mistakes in the command of a task once its prompt is filled in."""
    values = {"name": task.name, "prompt": task.prompt}
    # A command with an unknown placeholder is refused anyway.
    known = [word for word in task.command if not placeholder_problem(word, COMMAND_WORDS)]
    if any(len(filled(word, values).encode()) > WORD_BYTES_MAX for word in known):
        return [f"with this prompt, a word of command is longer than {WORD_BYTES_MAX} bytes"]
    return []


def _command_problems(words: list[str]) -> list[str]:
    if not words or not words[0].strip():
        return ['command is a list of words, such as ["claude", "-p", "{prompt}"]']
    told = [f"command: {problem}" for word in words
            if (problem := placeholder_problem(word, COMMAND_WORDS))]  # fmt: skip
    if any("\0" in word for word in words):
        told.append("command contains a NUL")
    if not any("prompt" in placeholders(word) for word in words):
        told.append("command has no {prompt} in any of its words")
    if placeholders(words[0]):
        told.append(f"command must begin with a program, not with {shown(words[0])}")
    return told


def _lock(text: str) -> tuple[str, str]:
    """The key of a resource, or the mistake in it."""
    try:
        found = keys.resource(text)
    except BadKeyError as error:
        return "", f"locks: {error.message}; {error.hint}"
    if found is None:
        kinds = ", ".join(f"{kind}:" for kind in keys.GENERIC_KINDS)
        return "", f"locks: {shown(text)} is not a resource; resources begin with {kinds}"
    return found, ""


def _is_texts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(one, str) for one in given)
