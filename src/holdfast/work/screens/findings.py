"""What an analysis must contain, and the mistakes in one that does not.

    {"screen": "show",
     "findings": ["authorisation is checked in the view"],
     "write_targets": ["app/controllers/blog/posts_controller.rb"]}

An agent wrote it, so nothing in it is trusted: the merge gets write locks on exactly its targets.
Other fields are ignored, and the content of `findings` is only for the next agent. A folder among
the targets is an `OverLockError`, for the operator: write locks cover files. A file among them that
controls us, a client or git is a `ControlFileError`: see `holdfast.manager.files.control_files`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import BadKeyError, InvalidInput, OverLockError
from holdfast.gate.config.settings_file import shown
from holdfast.gate.git.git_control_files import controls_of
from holdfast.manager.files.control_files import (
    Control,
    ControlFileError,
    Controls,
    control_of,
)
from holdfast.manager.files.paths import Tree, Words
from holdfast.work.input_checks import (
    Doubled,
    Problems,
    Unreadable,
    file_bytes,
    folded,
    json_value,
    kind_of,
    path_problem,
    printable,
    readable,
    tidy,
)
from holdfast.work.screens.manifest import Screen

SIZE_MAX = 8 << 20
#: A merge that writes more than this should be several.
TARGETS_MAX = 10_000

_FIELDS = ("screen", "findings", "write_targets")
_HINT = "the prompt of the analysis must ask for plain JSON with these fields; then run it again"
_CONTROL_HINT = (
    "if it must change, change it yourself; tell the analysis to leave it out, and run it again"
)
_FOLDER_HINT = (
    "the analysis must name every file that it means; correct its prompt, and run it again"
)


class FindingsError(InvalidInput):
    """An analysis that cannot be used. The field `problems` has each place and its problem."""

    code = "E_FINDINGS"


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of one screen's analysis. The targets are files below the root, each once."""

    screen: str
    findings: tuple[Any, ...]
    write_targets: tuple[str, ...]

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], screen: Screen, tree: Tree | None = None
    ) -> Findings:
        """The analysis of a screen, from the file that its agent wrote.

        With a `tree` the targets are followed to where they lead on disk: a link out of the
        repository is refused, and a folder is recognised with or without a slash at its end. Raises
        FindingsError with every mistake, or ControlFileError if a control file is among the
        targets, or OverLockError if a folder is.
        """
        source = os.fspath(path)
        with readable(Problems(source), FindingsError, _HINT, screen=screen.workflow):
            data = file_bytes(source, SIZE_MAX, by_agent=True)
        return cls.parse(data, screen, tree, source=source)

    @classmethod
    def parse(
        cls, data: bytes, screen: Screen, tree: Tree | None = None, *, source: str = "findings"
    ) -> Findings:
        """The same, from a text."""
        problems = Problems(source)
        with readable(problems, FindingsError, _HINT, screen=screen.workflow):
            value = json_value(data, SIZE_MAX)
            if not isinstance(value, dict):
                raise Unreadable(f"an object is needed, not {kind_of(value)}")
        if isinstance(value, Doubled):
            problems.add(printable(value.twice), "given twice")
        for name in _FIELDS:
            if name not in value:
                problems.add(name, "missing")
        _check_screen(problems, value.get("screen", screen.name), screen)
        findings = value.get("findings", [])
        if not isinstance(findings, list):
            problems.add("findings", f"a list is needed, not {kind_of(findings)}")
        targets, folders, controls = _targets(problems, value.get("write_targets", []), tree)
        if controls:
            raise problems.error(
                ControlFileError, _CONTROL_HINT, screen=screen.workflow, path=controls[0]
            )
        if folders:
            raise problems.error(
                OverLockError, _FOLDER_HINT, screen=screen.workflow, path=folders[0]
            )
        if problems.count:
            raise problems.error(FindingsError, _HINT, screen=screen.workflow)
        return cls(screen.name, tuple(findings), targets)


def aggregate(outputs: Iterable[Findings]) -> tuple[str, ...]:
    """The files that the merge of a controller writes: the targets of all its screens, in order,
    each once."""
    return tuple(dict.fromkeys(path for output in outputs for path in output.write_targets))


def _check_screen(problems: Problems, said: Any, screen: Screen) -> None:
    if not isinstance(said, str):
        problems.add("screen", f"a text is needed, not {kind_of(said)}")
    elif folded(said) != folded(screen.name):
        problems.add("screen", f"{shown(said)}, but this is the analysis of {shown(screen.name)}")


def _targets(
    problems: Problems, value: Any, tree: Tree | None
) -> tuple[tuple[str, ...], list[str], list[str]]:
    """The files among the targets; folders and control files are reported as problems."""
    if not isinstance(value, list):
        problems.add("write_targets", f"a list is needed, not {kind_of(value)}")
        return (), [], []
    if len(value) > TARGETS_MAX:
        problems.add("write_targets", f"{len(value)} files; at most {TARGETS_MAX} are accepted")
        return (), [], []
    controls = controls_of(tree.root) if tree is not None else None
    files: list[str] = []
    folders: list[str] = []
    closed: list[str] = []
    for at, one in enumerate(value):
        path, problem, is_folder = _target(one, tree)
        control = _control(one, path, controls)
        if control is not None:
            closed.append(str(one))
            problem = control.sentence(shown(one))
        elif is_folder:
            folders.append(path)
            problem = f"{shown(path)} is a folder; write locks cover single files"
        if problem:
            problems.add(f"write_targets[{at}]", problem)
        else:
            files.append(path)
    return tuple(dict.fromkeys(files)), folders, closed


def _target(text: Any, tree: Tree | None) -> tuple[str, str, bool]:
    """The path of a target, its problem, and whether it is a folder."""
    problem = path_problem(text)
    if problem:
        return "", problem, False
    try:
        place = (tree or Words()).place(tidy(text))
    except BadKeyError as error:
        return "", error.message, False
    return place.path, "", place.folder


def _control(text: Any, path: str, controls: Controls | None) -> Control | None:
    """What a target controls, by its text and by where it leads."""
    found = control_of(text) if isinstance(text, str) else None
    if found is None and path and controls is not None:
        found = controls.of(f"{controls.root}/{path}")
    return found
