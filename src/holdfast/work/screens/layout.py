"""Where the files of a screen are, and what each phase runs: `[work]` of `holdfast.toml`.

    [work]
    controller = "app/controllers/{module}/{controller}_controller.rb"
    views = "app/views/{module}/{controller}/"
    models = ["app/models/{module}/{model}.rb"]
    docs = ".analysis/{module}/{controller}/{screen}/"
    slots = 4                        # agents at once; MAX_CLAUDE_CONCURRENCY takes precedence
    queue_seconds = 300              # how long an item waits before that counts as one attempt
    retries = 12                     # attempts before it is an error

    [work.model]
    staff = "employee"               # by controller, where the model is not its singular

    [work.analyze]                   # and apply, test, fix, ci, verify
    command = ["claude", "-p", "{prompt}"]
    timeout_seconds = 1800

    [work.agent]                     # the agent of plain tasks; by default the installed client
    command = ["my-agent", "{prompt}"]
    stdin = false                    # or true: the prompt is its standard input
    timeout_seconds = 3600
    environment = { MY_MODEL = "large" }

A misspelled key is an error with its line, as everywhere in that file. Whether the files and the
commands exist is not checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from holdfast.core.keys import overlap
from holdfast.core.root_errors import SettingsError
from holdfast.gate.config.settings_file import (
    checked,
    number,
    shown,
    wrong,
)
from holdfast.manager.files.plain_toml import toml_tables
from holdfast.manager.files.settings_text import FILE, WORK, text_of
from holdfast.work.engine.work_items import ANALYZE, FIX, PHASES, LockRequest
from holdfast.work.input_checks import folded, name_problem, path_problem, tidy
from holdfast.work.screens.manifest import Screen, ScreenManifest
from holdfast.work.screens.phases import (
    MERGE_WORDS,
    PATH_WORDS,
    SCREEN_WORDS,
    Phase,
    default_phases,
)
from holdfast.work.screens.singular_names import singular
from holdfast.work.screens.templates import (
    braced,
    filled,
    place_problem,
    placeholder_problem,
    placeholders,
)

SLOTS_VARIABLE = "MAX_CLAUDE_CONCURRENCY"
SLOTS_MAX = 1000

#: What a screen reads, by its source.
CONTROLLER, VIEWS, MODEL, DECLARED = "controller", "views", "model", "reads_from"

AGENT = "agent"
#: The placeholders in the command of `[work.agent]`.
AGENT_WORDS = ("prompt", "name")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """`[work.agent]`: the agent of plain tasks, as a list of words, with `{prompt}` in it or with
    the prompt on its standard input. `environment` are variables that it gets in addition."""

    command: tuple[str, ...]
    stdin: bool = False
    timeout_seconds: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """The settings of `[work]`. The defaults fit a Rails application."""

    controller: str = "app/controllers/{module}/{controller}_controller.rb"
    views: str = "app/views/{module}/{controller}/"
    models: tuple[str, ...] = ("app/models/{module}/{model}.rb",)
    docs: str = ".analysis/{module}/{controller}/{screen}/"
    slots: int = 4
    queue_seconds: float = 300
    retries: int = 12
    model_names: Mapping[str, str] = field(default_factory=dict)
    phases: Mapping[str, Phase] = field(default_factory=default_phases)
    agent: AgentSettings | None = None

    @classmethod
    def load(cls, root: str, environ: Mapping[str, str]) -> Layout:
        """The settings of the repository with this root; `MAX_CLAUDE_CONCURRENCY` in the
        environment takes precedence. Raises SettingsError with file, line and key."""
        file = f"{root}/{FILE}"
        return cls.of(file, text_of(file), environ)

    @classmethod
    def of(cls, file: str, text: str | None, environ: Mapping[str, str]) -> Layout:
        """The same from the text of that file, which is None if there is none."""
        found = cls()
        if text is not None:
            found = _Reading(file, text).layout(toml_tables(file, text).get(WORK, {}))
        slots = _slots(environ)
        return found if slots is None else replace(found, slots=slots)

    def phase(self, name: str) -> Phase:
        """The settings of one phase."""
        return self.phases[name]

    # Where the files are

    def model_of(self, screen: Screen) -> str:
        """The name of its model: as set for `module/controller` or for the controller, or else the
        controller in the singular."""
        names = self.model_names
        found = names.get(screen.group) or names.get(screen.controller)
        return found or singular(screen.controller)

    def docs_of(self, screen: Screen) -> str:
        """The folder of its analysis, with a slash at the end. No other analysis writes there."""
        return filled(self.docs, self._names(screen))

    def output_of(self, screen: Screen) -> tuple[str, ...]:
        """The files that its analysis writes; the first has the findings."""
        folder = self.docs_of(screen)
        return tuple(folder + name for name in self.phases[ANALYZE].outputs)

    def parts_of(self, screen: Screen) -> list[tuple[str, str]]:
        """What its analysis reads, each with its source."""
        names = self._names(screen)
        found = [(CONTROLLER, filled(self.controller, names))]
        if self.views:
            found.append((VIEWS, filled(self.views, names)))
        found += [(MODEL, filled(template, names)) for template in self.models]
        found += [(DECLARED, path) for path in screen.reads_from]
        return found

    def reads_of(self, screen: Screen) -> tuple[str, ...]:
        """What its analysis reads, each once."""
        return tuple(dict.fromkeys(path for _part, path in self.parts_of(screen)))

    def analysis_request(self, screen: Screen) -> LockRequest:
        """The locks of its analysis: read locks on everything that it reads, and a write lock on
        its own output."""
        return LockRequest.of(self.reads_of(screen), self.output_of(screen))

    def merge_request(self, screens: Iterable[Screen], write_targets: Iterable[str]) -> LockRequest:
        """The locks of a controller's merge: write locks on exactly its targets, and read locks on
        its screens' folders."""
        return LockRequest.of(map(self.docs_of, screens), write_targets)

    def _names(self, screen: Screen) -> dict[str, str]:
        return {
            "module": screen.module,
            "controller": screen.controller,
            "screen": screen.name,
            "action": screen.primary,
            "model": self.model_of(screen),
        }

    def check(self, manifest: ScreenManifest) -> None:
        """Refuse templates that send two analyses to one folder: each would take the other's output
        for its own. Raises SettingsError."""
        folders = sorted((folded(self.docs_of(screen)), screen.workflow) for screen in manifest)
        for (one, first), (other, second) in pairwise(folders):
            # In this order, a path inside a folder comes right after the folder.
            if overlap(one.rstrip("/"), other.rstrip("/")):
                raise SettingsError(
                    f"{first} and {second} would both write their analysis to {one}",
                    hint=f"let docs in [{WORK}] of {FILE} contain {{module}}, {{controller}} and "
                    "{screen}",
                    file=FILE, key=f"{WORK}.docs",
                )  # fmt: skip

    # The values of placeholders

    def screen_words(self, screen: Screen) -> dict[str, str]:
        """The values for the command and the prompt of an analysis."""
        return {
            **self._names(screen),
            "actions": ", ".join((screen.primary, *screen.secondary)),
            "workflow": screen.workflow,
            "docs": self.docs_of(screen),
            "output": self.output_of(screen)[0],
            "reads": "\n".join(self.reads_of(screen)),
        }

    def merge_words(
        self,
        screens: Iterable[Screen],
        write_targets: Iterable[str],
        *,
        log: str = "",
        round: int = 0,
    ) -> dict[str, str]:
        """The values for the commands and prompts of a controller's merge. `log` is the file with
        the output of the phase before."""
        every = list(screens)
        return {
            "module": every[0].module,
            "controller": every[0].controller,
            "model": self.model_of(every[0]),
            "workflow": every[0].group,
            "screens": ", ".join(screen.name for screen in every),
            "docs": "\n".join(self.output_of(screen)[0] for screen in every),
            "files": "\n".join(write_targets),
            "log": log,
            "round": str(round),
        }


def _slots(environ: Mapping[str, str]) -> int | None:
    given = environ.get(SLOTS_VARIABLE, "").strip()
    if not given:
        return None
    if given.isascii() and given.isdigit() and len(given) < 9 and 1 <= int(given) <= SLOTS_MAX:
        return int(given)
    raise SettingsError(
        f"{SLOTS_VARIABLE} cannot be {shown(given)}; it must be a whole number, 1 to {SLOTS_MAX}",
        hint="set it to how many agents may run at once, or unset it",
        key=SLOTS_VARIABLE,
    )


# The possible settings


def _is_text(value: object) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_command(value: object) -> bool:
    return isinstance(value, list) and _is_texts(value) and bool(value and value[0].strip())


def _is_output(value: object) -> bool:
    return _is_text(value) or (_is_texts(value) and bool(value))


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _is_variables(value: object) -> bool:
    return isinstance(value, dict) and all(
        name and "=" not in name and "\0" not in name and _is_text(text)
        for name, text in value.items()
    )


def _is_switch(value: object) -> bool:
    return isinstance(value, bool)


_PATH = f'a path such as "app/{{module}}/{{controller}}.rb", with {braced(PATH_WORDS)}'
_WORK_KEYS: dict[str, tuple[str, Any, str]] = {
    "controller": ("controller", _is_text, _PATH),
    "views": ("views", _is_text, f'{_PATH}; or "" if there are none'),
    "models": ("models", _is_texts, "a list of paths"),
    "docs": ("docs", _is_text, _PATH),
    "slots": ("slots", number(1, SLOTS_MAX, whole=True), f"a whole number, 1 to {SLOTS_MAX}"),
    "queue_seconds": ("queue_seconds", number(0.01, 86400), "seconds, up to 86400"),
    "retries": ("retries", number(0, 1000, whole=True), "a whole number, up to 1000"),
    "model": ("model_names", _is_table, 'a table with lines such as staff = "employee"'),
    **dict.fromkeys((*PHASES, AGENT), ("", _is_table, "a table")),
}
_PHASE_KEYS: dict[str, tuple[str, Any, str]] = {
    "command": ("command", _is_command, 'a list of words, such as ["claude", "-p", "{prompt}"]'),
    "prompt": ("prompt", _is_text, "a text"),
    "stdin": ("stdin", _is_switch, "true or false"),
    "timeout_seconds": ("timeout_seconds", number(0.01, 604800), "seconds, up to 604800"),
    "output_bytes_max": ("output_bytes_max", number(1, 1 << 40, whole=True), "a number of bytes"),
}
_AGENT_KEYS: dict[str, tuple[str, Any, str]] = {
    **{key: _PHASE_KEYS[key] for key in ("command", "stdin", "timeout_seconds")},
    "environment": ("environment", _is_variables, 'a table with lines such as MODEL = "large"'),
}
_OWN_KEYS: dict[str, dict[str, tuple[str, Any, str]]] = {
    ANALYZE: {"output": ("outputs", _is_output, 'a file, or a list, such as "findings.json"')},
    FIX: {"rounds": ("rounds", number(0, 100, whole=True), "a whole number, up to 100")},
}


class _Reading:
    """One reading of `[work]`: the settings, and the mistakes in them."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._problems: list[SettingsError] = []

    def layout(self, work: object) -> Layout:
        """The settings. Raises SettingsError with every mistake."""
        fields = self._checked(WORK, work, _WORK_KEYS)
        fields.pop("", None)
        for key in ("controller", "views", "docs"):
            if key in fields and (key, fields[key]) != ("views", ""):
                fields[key] = self._path(key, fields[key])
        if not fields.get("docs", "/").endswith("/"):
            fields["docs"] += "/"
        if "models" in fields:
            fields["models"] = tuple(self._path("models", one) for one in fields["models"])
        for controller, model in fields.get("model_names", {}).items():
            self._tell(f"{WORK}.model", controller, name_problem(model), "the name of a model")
        found = default_phases()
        for name, values in work.items() if isinstance(work, dict) else ():
            if name in PHASES and isinstance(values, dict):
                found[name] = self._phase(found[name], values)
        agent = self._agent(work[AGENT]) if isinstance(work, dict) and AGENT in work else None
        if self._problems:
            raise self._error()
        return Layout(**fields, phases=found, agent=agent)

    def _checked(self, table: str, values: object, keys: Any) -> dict[str, Any]:
        if not isinstance(values, dict):
            self._add("", table, f"{table} cannot be {shown(values)}", "a table")
            return {}
        found, problems = checked(self._file, self._text, {table: values}, {table: keys})
        self._problems += problems
        return found

    def _phase(self, phase: Phase, values: dict[str, Any]) -> Phase:
        table = f"{WORK}.{phase.name}"
        fields = self._checked(table, values, {**_PHASE_KEYS, **_OWN_KEYS.get(phase.name, {})})
        words = SCREEN_WORDS if phase.name == ANALYZE else MERGE_WORDS
        for word in fields.get("command", ()):
            known = (*words, "prompt")
            problem = placeholder_problem(word, known)
            self._tell(table, "command", problem, f"words with {braced(known)}")
        problem = placeholder_problem(fields.get("prompt", ""), words)
        self._tell(table, "prompt", problem, f"a text with {braced(words)}")
        if "outputs" in fields:
            given = fields["outputs"]
            names = (given,) if isinstance(given, str) else given
            fields["outputs"] = tuple(self._output(table, name) for name in names)
        found = replace(phase, **fields)
        if "prompt" in fields and not found.stdin and not _asks_for_prompt(found.command):
            self._add(table, "prompt", f"{table}.prompt is not used",
                      "for a command with {prompt} in it, or with stdin = true")  # fmt: skip
        return found

    def _agent(self, values: object) -> AgentSettings | None:
        if not isinstance(values, dict):
            return None  # which is reported already
        table = f"{WORK}.{AGENT}"
        before = len(self._problems)
        fields = self._checked(table, values, _AGENT_KEYS)
        command = fields.get("command", ())
        for word in command:
            problem = placeholder_problem(word, AGENT_WORDS)
            self._tell(table, "command", problem, f"words with {braced(AGENT_WORDS)}")
        if command and placeholders(command[0]):
            self._tell(table, "command", f"{shown(command[0])} is not a program", "a program first")
        if command and not fields.get("stdin") and not _asks_for_prompt(command):
            self._tell(table, "command", "the prompt is not used",
                       "words with {prompt} in one of them, or any with stdin = true")  # fmt: skip
        if "command" not in values:
            self._add(table, "command", f"{table} has no command", _AGENT_KEYS["command"][2])
        return None if len(self._problems) > before else AgentSettings(**fields)

    def _path(self, key: str, template: str) -> str:
        problem = place_problem(template, PATH_WORDS)
        self._tell(WORK, key, problem, _PATH)
        return template if problem else tidy(template)

    def _output(self, table: str, name: str) -> str:
        problem = path_problem(name)
        if not problem and tidy(name).endswith("/"):
            problem = f"{shown(name)} is a folder"
        self._tell(table, "output", problem, "the name of a file")
        return name if problem else tidy(name)

    def _tell(self, table: str, key: str, problem: str, meant: str) -> None:
        if problem:
            self._add(table, key, f"{table}.{key}: {problem}", meant)

    def _add(self, table: str, key: str, problem: str, meant: str) -> None:
        self._problems.append(wrong(self._file, self._text, table, key, problem, meant))

    def _error(self) -> SettingsError:
        """All of them, with the line and the key of the first."""
        found = sorted(self._problems, key=lambda error: int(error.fields["line"]))
        first = found[0]
        told = [error.message.partition(": ") for error in found]
        return SettingsError(
            "; ".join(error.message for error in found),
            hint=first.hint,
            **first.fields,
            count=len(found),
            problems=[{"place": place, "problem": problem} for place, _colon, problem in told],
        )


def _asks_for_prompt(command: Iterable[str]) -> bool:
    return any("prompt" in placeholders(word) for word in command)
