"""The tables of a settings file.

A file of plain lines is parsed here, because importing the standard library's parser takes longer
than a hook has. As soon as one line is not plain, that parser reads the file, so both always agree.
"""

from __future__ import annotations

import os

from holdfast.core.root_errors import SettingsError
from holdfast.manager.files.settings_text import HINT, WORK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
