"""The keys of the settings file, and the errors in it.

The tables of `[work]`, with their long prompts, do not concern a hook: it skips them, valid or not.
"""

from __future__ import annotations

import os

from holdfast.core.root_errors import SettingsError
from holdfast.gate.config.settings import ACROSS_CHOICES, MARGIN_SECONDS, SHELL_CHOICES
from holdfast.manager.files.plain_toml import plain_tables, toml_tables
from holdfast.manager.files.settings_text import WORK
from holdfast.store.store_url import WANTED_NAME, WANTED_STORE, is_for_settings, is_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Keys = dict[str, tuple[str, Any, str]]


def found_in(file: str, text: str) -> tuple[dict[str, Any], list[SettingsError]]:
    """The valid fields in a file's text, and an error for each invalid one. Raises SettingsError
    for a text that cannot be parsed at all."""
    tables = plain_tables(text)
    if tables is None:
        tables = toml_tables(file, text)
        tables.pop(WORK, None)
    return checked(file, text, tables, KEYS)


# Keys and their values


def number(least: float, most: float, *, whole: bool = False) -> Any:
    """A check whether a value is a number from `least` to `most`."""

    def check(value: object) -> bool:
        kinds = int if whole else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most

    return check


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, str) and one.strip() and "\0" not in one for one in value
    )


#: The name in `KEYS` for the keys above all tables.
TOP = ""

#: The keys of each table: the field that a key sets, a check of its value, and the valid values.
KEYS: dict[str, Keys] = {
    TOP: {
        "notify": ("notify", _is_texts, 'a command, such as ["notify-send", "Holdfast"]'),
        "store": ("store", lambda value: value == "" or is_for_settings(value), WANTED_STORE),
        "repository": ("repository", lambda value: value == "" or is_name(value), WANTED_NAME),
    },
    "gate": {
        "shell": ("shell", lambda value: isinstance(value, str) and value in SHELL_CHOICES,
                  '"lease", "guard" or "off"'),
        "lease_except": ("lease_except", _is_texts, 'a list of programs, such as ["sudo"]'),
        "retry_seconds": ("retry_seconds", number(0.01, 86400), "seconds, up to 86400"),
        "hold_seconds": ("hold_seconds", number(0, 3600), "seconds, up to 3600"),
        "timeout_seconds": ("timeout_seconds", number(MARGIN_SECONDS + 5, 3600, whole=True),
                            f"whole seconds, {MARGIN_SECONDS + 5} to 3600"),
        "idle_seconds": ("idle_seconds", number(0, 86400), "seconds, up to 86400"),
        "foreign_seconds": ("foreign_seconds", number(0.01, 864000), "seconds, up to 864000"),
        "wake": ("wake", lambda value: isinstance(value, bool), "true or false"),
        "across_worktrees": (
            "across_worktrees", lambda value: isinstance(value, str) and value in ACROSS_CHOICES,
            '"tell", "refuse" or "off"',
        ),
    },
    "sandbox": {
        "write": ("sandbox_write", _is_texts, 'a list of paths, such as ["~/.cache/pip"]'),
    },
}  # fmt: skip


#: Keys whose value may contain a password by mistake, which no message may repeat.
_NOT_SHOWN = ("store",)


def checked(
    file: str, text: str, tables: dict[str, Any], keys: dict[str, Keys]
) -> tuple[dict[str, Any], list[SettingsError]]:
    """The valid fields, and an error for each invalid one."""
    found: dict[str, Any] = {}
    problems: list[SettingsError] = []
    top = keys.get(TOP, {})

    def look(table: str, key: str, value: Any) -> None:
        field, is_right, meant = keys[table][key]
        if is_right(value):
            found[field] = tuple(value) if isinstance(value, list) else value
        else:
            name = f"{table}.{key}" if table else key
            told = "this" if key in _NOT_SHOWN else shown(value)
            problem = f"{name} cannot be {told}"
            problems.append(wrong(file, text, table, key, problem, meant))

    for table, values in tables.items():
        if table in top:
            look(TOP, table, values)
        elif not table or table not in keys or not isinstance(values, dict):
            names = " and ".join((*top, *(f"[{name}]" for name in (*keys, WORK) if name)))
            problems.append(wrong(file, text, TOP, table, f"there is no {table!r} here", names))
        else:
            for key, value in values.items():
                if key in keys[table]:
                    look(table, key, value)
                    continue
                elsewhere = ", only above all tables" if key in top else ""
                problem = f"there is no {key!r} in [{table}]{elsewhere}"
                problems.append(wrong(file, text, table, key, problem, ", ".join(keys[table])))
    return found, problems


def shown(value: object) -> str:
    """A value as it is quoted in an error."""
    told = ascii(value) if not isinstance(value, bool) else str(value).lower()
    return told if len(told) <= 60 else f"{told[:57]}..."


def wrong(file: str, text: str, table: str, key: str, problem: str, meant: str) -> SettingsError:
    """The error about one key: the problem, and the valid values."""
    line = _line_of(text, table, key)
    where = f"{os.path.basename(file)}, line {line}" if line else os.path.basename(file)
    name = f"{table}.{key}" if table else key
    return SettingsError(
        f"{where}: {problem}; there is {meant}" if "there is no" in problem
        else f"{where}: {problem}; it must be {meant}",
        hint="correct it, or remove the line: without it the default applies",
        file=file, line=line, key=name,
    )  # fmt: skip


def _line_of(text: str, table: str, key: str) -> int:
    """The line that sets a key, or else that of the table or value around it; 0 if it cannot be
    found."""
    wanted = f"{table}.{key}" if table else key
    inside, around, around_at, is_prose = "", "", 0, False
    for number, line in enumerate(text.split("\n"), 1):
        words = line.strip()
        was_prose = is_prose
        is_prose ^= (words.count('"""') + words.count("'''")) % 2 == 1
        if was_prose or words.startswith("#"):
            continue
        if words.startswith("["):
            name = inside = words.strip("[]").partition("]")[0].strip().strip("\"'")
        else:
            name = words.partition("=")[0].strip().strip("\"'")
            name = f"{inside}.{name}" if inside else name
        if name == wanted or name.startswith(f"{wanted}."):
            return number
        if wanted.startswith(f"{name}.") and len(name) > len(around):
            around, around_at = name, number
    return around_at
