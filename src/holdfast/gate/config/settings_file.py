"""The parser of the settings file, and its errors.

A file of plain lines is parsed here, because importing the standard library's parser takes longer
than a hook has. As soon as one line is not plain, that parser reads the file, so both always agree.
The tables of `[work]`, with their long prompts, do not concern a hook: it skips them, valid or not.
"""

from __future__ import annotations

import os

from holdfast.gate.config.settings import (
    ACROSS_CHOICES,
    HINT,
    MARGIN_SECONDS,
    SHELL_CHOICES,
    WORK,
    SettingsError,
)

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
            problem = f"{name} cannot be {shown(value)}"
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


# Reading


def toml_tables(file: str, text: str) -> dict[str, Any]:
    """The tables of a text, by the standard library's parser. Raises SettingsError."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        said = str(error) or type(error).__name__
        line = said.partition("at line ")[2].partition(",")[0]
        number = int(line) if line.isdigit() else 0
        where = f"{os.path.basename(file)}, line {number}" if number else os.path.basename(file)
        raise SettingsError(
            f"{where}: this is not TOML: {said}", hint=HINT, file=file, line=number
        ) from error


_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def plain_tables(text: str) -> dict[str, Any] | None:
    """The tables of a file of plain lines: numbers, words and lists of words, in tables or above
    them.

    None if any line is more than that, valid or not: then the other parser decides. `[work]` is
    left out, and may contain anything.
    """
    tables: dict[str, Any] = {}
    values = tables
    if f"[{WORK}" in text:
        rest = _without_work(text)
        if rest is None:
            return None
        text = rest
    if not text.replace("\n", "").replace("\t", "").isprintable():
        return None
    for line in text.split("\n"):
        line = line.strip(" \t")
        if not line or line[0] == "#":
            continue
        if line[0] == "[":
            name, bracket, rest = line[1:].partition("]")
            if not bracket or not _is_bare(name) or name in tables or not _is_remark(rest):
                return None
            values = tables[name] = {}
            continue
        key, equals, rest = line.partition("=")
        key = key.rstrip(" \t")
        found = _value(rest.lstrip(" \t")) if equals and _is_bare(key) else None
        if found is None or key in values or not _is_remark(found[1]):
            return None
        values[key] = found[0]
    tables.pop(WORK, None)
    return tables


def _without_work(text: str) -> str | None:
    """The text without the tables of `[work]`; None if their end cannot be determined.

    Only a multi-line string can contain a line that looks like the head of a table and is not, so
    only those values are examined.
    """
    kept: list[str] = []
    inside = False
    closing = ""
    for line in text.split("\n"):
        prose = words = line.strip(" \t")
        if not closing:
            if words.startswith("["):
                name, bracket, rest = words[1:].partition("]")
                if bracket and _is_remark(rest) and all(map(_is_bare, name.split("."))):
                    inside = name.partition(".")[0] == WORK
                elif inside and _is_remark(words.rpartition("]")[2]):
                    return None  # a head that is more than plain, or the last item of a list
            if not inside:
                kept.append(line)
            if not inside or words.startswith("#") or not ('"""' in words or "'''" in words):
                continue
            value = words.partition("=")[2].lstrip(" \t")
            closing, prose = value[:3], value[3:]
            if closing not in ('"""', "'''"):
                return None
        before, end, rest = prose.partition(closing)
        if end and (before.endswith("\\") or not _is_remark(rest)):
            return None
        closing = "" if end else closing
    return None if closing else "\n".join(kept)


def _is_bare(name: str) -> bool:
    return bool(name) and _BARE.issuperset(name)


def _is_remark(rest: str) -> bool:
    rest = rest.lstrip(" \t")
    return not rest or rest[0] == "#"


def _value(text: str) -> tuple[Any, str] | None:
    """The value that a text begins with, and the rest."""
    if text.startswith('"'):
        return _word(text)
    if text.startswith("["):
        return _words(text)
    word = text.partition("#")[0].rstrip(" \t")
    rest = text[len(word) :]
    if word in ("true", "false"):
        return word == "true", rest
    whole, point, part = word.partition(".")
    if not _is_digits(whole) or (len(whole) > 1 and whole[0] == "0"):
        return None
    if not point:
        return int(whole), rest
    return (float(word), rest) if _is_digits(part) else None


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def _word(text: str) -> tuple[str, str] | None:
    word, quote, rest = text[1:].partition('"')
    # Two quotes and a third begin a text of several lines.
    if not quote or "\\" in word or (not word and rest.startswith('"')):
        return None
    return word, rest


def _words(text: str) -> tuple[list[str], str] | None:
    words: list[str] = []
    rest = text[1:].lstrip(" \t")
    while not rest.startswith("]"):
        found = _word(rest) if rest.startswith('"') else None
        if found is None:
            return None
        words.append(found[0])
        rest = found[1].lstrip(" \t")
        if rest.startswith(","):
            rest = rest[1:].lstrip(" \t")
        elif not rest.startswith("]"):
            return None
    return words, rest[1:]
