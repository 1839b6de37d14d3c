"""The settings of a repository: `holdfast.toml` at its root, and what holds without one.

    [gate]
    shell = "guard"          # what happens around shell commands: guard, enforce or off
    retry_seconds = 180      # from a refusal to the one retry
    timeout_seconds = 240    # how long a client waits for a hook, which stops 10 s earlier itself
    idle_seconds = 30        # from a stop without further activity to the release
    wake = false             # hand a file over the moment it comes free, before the retry is due

    [sandbox]
    write = []               # what a sandboxed command may write beside its grant

    [work]                   # how agents are sent out: read in `holdfast.work.layout`, not here

What is misspelled is an error that names the line, never a default that somebody believes to have
changed. A hook cannot stop for that, so it asks for `lenient`: then whatever is right counts, the
rest has its default, and `problem` says what to tell people.

A hook reads this each time. Without a file that costs one failed `open`; a file of plain lines is
read here, because the standard library's reader takes longer to import than the hook has. That one
is asked as soon as a line is anything but plain, so both always mean the same. The tables of
`[work]`, with their long prompts, are no concern of a hook: it passes over them, right or wrong.
"""

from __future__ import annotations

import os

from holdfast.core.errors import InvalidInput
from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    Keys = dict[str, tuple[str, Any, str]]

FILE = "holdfast.toml"
GUARD = "guard"
ENFORCE = "enforce"
OFF = "off"
SHELL_CHOICES = (GUARD, ENFORCE, OFF)
#: The table that is not read here, and the first word of those below it.
WORK = "work"

#: How long before its client gives up a hook gives up by itself, for a client that loses its
#: patience lets the write happen.
MARGIN_SECONDS = 10

#: More than this was not meant to be settings.
SIZE_MAX = 1 << 18


class SettingsError(InvalidInput):
    """Settings that cannot be meant. The fields say which `file`, `line` and `key`."""

    code = "E_SETTINGS"


class Settings(Value):
    """What a repository has set. `problem` is empty unless something was wrong and let pass."""

    __slots__ = (
        "idle_seconds", "problem", "retry_seconds", "sandbox_write", "shell", "timeout_seconds",
        "wake",
    )  # fmt: skip

    def __init__(
        self,
        *,
        shell: str = GUARD,
        retry_seconds: float = 180,
        timeout_seconds: int = 240,
        idle_seconds: float = 30,
        wake: bool = False,
        sandbox_write: tuple[str, ...] = (),
        problem: str = "",
    ) -> None:
        self.shell: Final = shell
        self.retry_seconds: Final = retry_seconds
        self.timeout_seconds: Final = timeout_seconds
        self.idle_seconds: Final = idle_seconds
        self.wake: Final = wake
        self.sandbox_write: Final = sandbox_write
        self.problem: Final = problem

    @property
    def deadline_seconds(self) -> int:
        """After how long a hook answers, whatever it has found out by then."""
        return self.timeout_seconds - MARGIN_SECONDS

    @classmethod
    def load(cls, root: str, *, lenient: bool = False) -> Settings:
        """The settings of the repository with this root. Raises SettingsError unless `lenient`."""
        file = f"{root}/{FILE}"
        try:
            text = text_of(file)
        except SettingsError as error:
            if not lenient:
                raise
            return cls(problem=error.message)
        return cls.of(file, text, lenient=lenient)

    @classmethod
    def of(cls, file: str, text: str | None, *, lenient: bool = False) -> Settings:
        """What the text of a file sets; None if there is no file. Raises as `load`."""
        if text is None:
            return cls()
        try:
            tables = plain_tables(text)
            if tables is None:
                tables = toml_tables(file, text)
                tables.pop(WORK, None)
            found, problems = checked(file, text, tables, _KEYS)
        except SettingsError as error:
            if not lenient:
                raise
            return cls(problem=error.message)
        if problems and not lenient:
            raise problems[0]
        return cls(**found, problem="; ".join(error.message for error in problems))


def text_of(file: str) -> str | None:
    """The text of a settings file; None if there is none. Raises SettingsError."""
    try:
        with open(file, "rb") as stream:
            data = stream.read(SIZE_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be read: {error.strerror or type(error).__name__}",
            hint="make it a file that you may read, or remove it: without it the defaults hold",
            file=file,
        ) from error
    if len(data) > SIZE_MAX:
        raise SettingsError(
            f"{file} is larger than {SIZE_MAX >> 10} KiB, which settings never are",
            hint=_HINT, file=file,
        )  # fmt: skip
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError(
            f"{file}, line {line}: this is not UTF-8", hint=_HINT, file=file, line=line
        ) from error


_HINT = "correct it, or remove it: without it the defaults hold"


# What is set, and what may be


def number(least: float, most: float, *, whole: bool = False) -> Any:
    """Whether a value is a number from `least` to `most`, as a question to ask."""

    def check(value: object) -> bool:
        kinds = int if whole else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool) and least <= value <= most

    return check


def _is_paths(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, str) and one.strip() and "\0" not in one for one in value
    )


#: Each table's keys: the field that one sets, whether a value can be meant, and what can.
_KEYS: dict[str, Keys] = {
    "gate": {
        "shell": ("shell", lambda value: isinstance(value, str) and value in SHELL_CHOICES,
                  '"guard", "enforce" or "off"'),
        "retry_seconds": ("retry_seconds", number(0.01, 86400), "seconds, up to 86400"),
        "timeout_seconds": ("timeout_seconds", number(MARGIN_SECONDS + 5, 3600, whole=True),
                            f"whole seconds, {MARGIN_SECONDS + 5} to 3600"),
        "idle_seconds": ("idle_seconds", number(0, 86400), "seconds, up to 86400"),
        "wake": ("wake", lambda value: isinstance(value, bool), "true or false"),
    },
    "sandbox": {
        "write": ("sandbox_write", _is_paths, 'a list of paths, such as ["~/.cache/pip"]'),
    },
}  # fmt: skip


def checked(
    file: str, text: str, tables: dict[str, Any], keys: dict[str, Keys]
) -> tuple[dict[str, Any], list[SettingsError]]:
    """The fields that are rightly set, and an error for each that is not."""
    found: dict[str, Any] = {}
    problems: list[SettingsError] = []
    for table, values in tables.items():
        known = keys.get(table)
        if known is None or not isinstance(values, dict):
            names = " and ".join(f"[{name}]" for name in (*keys, WORK))
            problems.append(wrong(file, text, "", table, f"there is no {table!r} here", names))
            continue
        for key, value in values.items():
            if key not in known:
                problem = f"there is no {key!r} in [{table}]"
                problems.append(wrong(file, text, table, key, problem, ", ".join(known)))
                continue
            field, is_right, meant = known[key]
            if is_right(value):
                found[field] = tuple(value) if isinstance(value, list) else value
            else:
                problem = f"{table}.{key} cannot be {shown(value)}"
                problems.append(wrong(file, text, table, key, problem, meant))
    return found, problems


def shown(value: object) -> str:
    """A value as it is quoted to whoever wrote it."""
    told = ascii(value) if not isinstance(value, bool) else str(value).lower()
    return told if len(told) <= 60 else f"{told[:57]}..."


def wrong(file: str, text: str, table: str, key: str, problem: str, meant: str) -> SettingsError:
    """The error about one key: what is wrong with it, and what it could be."""
    line = _line_of(text, table, key)
    where = f"{os.path.basename(file)}, line {line}" if line else os.path.basename(file)
    name = f"{table}.{key}" if table else key
    return SettingsError(
        f"{where}: {problem}; there is {meant}" if "there is no" in problem
        else f"{where}: {problem}; it is {meant}",
        hint="correct it, or remove the line: without it the default holds",
        file=file, line=line, key=name,
    )  # fmt: skip


def _line_of(text: str, table: str, key: str) -> int:
    """In which line a key is set, or else the table or value around it, as far as that can be
    seen; 0 if it cannot."""
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
    """What a text sets, by the standard library's reader. Raises SettingsError."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        said = str(error) or type(error).__name__
        line = said.partition("at line ")[2].partition(",")[0]
        number = int(line) if line.isdigit() else 0
        where = f"{os.path.basename(file)}, line {number}" if number else os.path.basename(file)
        raise SettingsError(
            f"{where}: this is no TOML: {said}", hint=_HINT, file=file, line=number
        ) from error


_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def plain_tables(text: str) -> dict[str, Any] | None:
    """What a file of plain lines sets: tables, and numbers, words or lists of words in them.

    None if any line is more than that, whether it is right or wrong: then it is not for us to say.
    The tables of `[work]` are left out, and may say what they like.
    """
    tables: dict[str, Any] = {}
    values: dict[str, Any] | None = None
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
        if found is None or values is None or key in values or not _is_remark(found[1]):
            return None
        values[key] = found[0]
    return tables


def _without_work(text: str) -> str | None:
    """The text without the tables of `[work]`; None if it cannot be seen where those end.

    Only a text of several lines can contain a line that looks like the head of a table and is
    none, so those are the only values to look at.
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
