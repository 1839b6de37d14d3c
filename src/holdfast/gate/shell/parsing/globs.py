"""Patterns: `*`, `?`, `[…]` against names and folders, and `{a,b}` in words.

A pattern is a text in which a backslash makes the next character literal.
"""

from __future__ import annotations

import os

from holdfast.gate.shell.parsing.syntax_nodes import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from holdfast.gate.shell.parsing.syntax_nodes import Part

    #: A step of a pattern: `*`, `?`, `=c` for a character, or ranges and whether they are wanted.
    Step: TypeAlias = "str | tuple[bool, list[tuple[str, str]]]"

WORDS_MAX = 500
FOLDERS_MAX = 60
NAMES_MAX = 5000
BRACES_MAX = 30

MAGIC = "*?["
STAR = "*"
ANY = "?"


class TooMuch(Exception):
    """The result would exceed the limit."""


def escape(text: str) -> str:
    if not any(c in text for c in "*?[]\\"):
        return text
    return "".join("\\" + c if c in "*?[]\\" else c for c in text)


def has_magic(text: str) -> bool:
    return "*" in text or "?" in text or ("[" in text and "]" in text)


def steps_of(pattern: str) -> list[Step] | None:
    """The steps of a pattern; None if it uses unsupported syntax."""
    steps: list[Step] = []
    i, end = 0, len(pattern)
    while i < end:
        c = pattern[i]
        i += 1
        if c == "\\" and i < end:
            steps.append("=" + pattern[i])
            i += 1
        elif c == "*":
            if not steps or steps[-1] != STAR:
                steps.append(STAR)
        elif c == "?":
            steps.append(ANY)
        elif c == "[":
            found = _bracket(pattern, i)
            if found is None:
                return None
            step, i = found
            steps.append(step)
        else:
            steps.append("=" + c)
    return steps


def _bracket(pattern: str, i: int) -> tuple[Step, int] | None:
    negative = pattern[i : i + 1] in ("!", "^")
    j = i + negative
    pairs: list[tuple[str, str]] = []
    while True:
        c = pattern[j : j + 1]
        if c == "":
            return "=[", i  # never closed: an ordinary character
        if c == "]" and j > i + negative:
            return (not negative, pairs), j + 1
        if c == "[" and pattern[j + 1 : j + 2] in (":", ".", "="):
            return None
        if c == "\\" and j + 1 < len(pattern):
            j += 1
            c = pattern[j]
        if pattern[j + 1 : j + 2] == "-" and pattern[j + 2 : j + 3] not in ("]", ""):
            pairs.append((c, pattern[j + 2]))
            j += 3
        else:
            pairs.append((c, c))
            j += 1


def matches(steps: list[Step], name: str) -> bool:
    """Whether the whole name fits. The last star alone is tried again, which is enough."""
    i = j = 0
    star, mark = -1, 0
    while j < len(name):
        if i < len(steps) and steps[i] != STAR and _fits(steps[i], name[j]):
            i += 1
            j += 1
        elif i < len(steps) and steps[i] == STAR:
            star, mark = i, j
            i += 1
        elif star >= 0:
            mark += 1
            i, j = star + 1, mark
        else:
            return False
    return all(step == STAR for step in steps[i:])


def _fits(step: Step, c: str) -> bool:
    if isinstance(step, str):
        return step == ANY or step[1:] == c
    wanted, pairs = step
    return any(low <= c <= high for low, high in pairs) == wanted


def spread(
    pattern: str, folder: str, made: Iterable[str], spend: Callable[[int], None]
) -> list[str] | None:
    """The paths that match, spelled like the pattern; None if that is unknown.

    `made` are paths that the same command line made before: they are not on the disk yet.
    """
    if len(pattern) > 2000:
        return None
    parts = pattern.split("/")
    found = [""]
    looked = 0
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if not has_magic(part):
            plain = _unescape(part)
            found = [base + plain + ("" if last else "/") for base in found]
            if last:
                found = [p for p in found if os.path.lexists(os.path.join(folder, p))]
            continue
        steps = steps_of(part)
        if steps is None:
            return None
        following: list[str] = []
        for base in found:
            looked += 1
            names = _names(os.path.join(folder, base) if base else folder)
            if looked > FOLDERS_MAX or names is None:
                return None
            spend(1 + len(names) * (10 + len(part)) // 200)
            hidden = part.startswith((".", "\\."))
            for name in names:
                if (hidden or not name.startswith(".")) and matches(steps, name):
                    following.append(base + name + ("" if last else "/"))
        found = following
        if len(found) > WORDS_MAX:
            return None
    found += _made(parts, folder, made, set(found), spend)
    return sorted(found)


def _made(
    parts: list[str],
    folder: str,
    made: Iterable[str],
    known: set[str],
    spend: Callable[[int], None],
) -> list[str]:
    found: list[str] = []
    compiled = [steps_of(part) for part in parts]
    absolute = parts[0] == ""
    prefix = folder.rstrip("/") + "/"
    for path in made:
        spend(1)
        if not absolute and not path.startswith(prefix):
            continue
        text = path if absolute else path[len(prefix) :]
        names = text.split("/")
        if text in known or len(names) != len(parts):
            continue
        if all(
            steps is not None
            and matches(steps, name)
            and (not name.startswith(".") or part.startswith((".", "\\.")))
            for steps, name, part in zip(compiled, names, parts, strict=True)
        ):
            found.append(text)
    return found


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    i = 0
    while i < len(text):
        if text[i] == "\\" and i + 1 < len(text):
            i += 1
        out.append(text[i])
        i += 1
    return "".join(out)


def _names(folder: str) -> list[str] | None:
    try:
        with os.scandir(folder) as entries:
            names: list[str] = []
            for entry in entries:
                names.append(entry.name)
                if len(names) > NAMES_MAX:
                    return None
            return names
    except (OSError, ValueError):
        return []


# braces


def braces(parts: list[Part]) -> list[list[Part]]:
    """The words that one with `{a,b}` or `{1..3}` expands to. `TooMuch` if they are too many."""
    opening = 0
    for part in parts:
        if isinstance(part, Text) and not part.quoted:
            opening += part.text.count("{")
    if not opening:
        return [parts]
    if opening > BRACES_MAX:
        raise TooMuch
    atoms: list[Part | str] = []
    for part in parts:
        if isinstance(part, Text) and not part.quoted:
            atoms.extend(part.text)
        else:
            atoms.append(part)
    found = _spread_braces(atoms)
    return [_joined(one) for one in found]


def _spread_braces(atoms: list[Part | str]) -> list[list[Part | str]]:
    start = 0
    while True:
        try:
            i = atoms.index("{", start)
        except ValueError:
            return [atoms]
        commas, close = _partners(atoms, i)
        if close >= 0:
            inside = atoms[i + 1 : close]
            if commas:
                choices: list[list[Part | str]] = []
                begin = i + 1
                for comma in [*commas, close]:
                    choices += _spread_braces(atoms[begin:comma])
                    begin = comma + 1
                break
            counted = _counted(inside)
            if counted is not None:
                choices = [list(text) for text in counted]
                break
        start = i + 1
    rest = _spread_braces(atoms[close + 1 :])
    if len(choices) * len(rest) > WORDS_MAX:
        raise TooMuch
    before = atoms[:i]
    return [before + choice + after for choice in choices for after in rest]


def _partners(atoms: list[Part | str], i: int) -> tuple[list[int], int]:
    """The positions of a brace's commas and of its partner; -1 if it has none."""
    nested = 0
    commas: list[int] = []
    for j in range(i + 1, len(atoms)):
        c = atoms[j]
        if c == "{":
            nested += 1
        elif c == "}":
            if nested == 0:
                return commas, j
            nested -= 1
        elif c == "," and nested == 0:
            commas.append(j)
    return [], -1


def _counted(inside: list[Part | str]) -> list[str] | None:
    """The members of `1..10`, `a..e` or `1..9..2`."""
    if len(inside) > 40 or not all(isinstance(c, str) for c in inside):
        return None
    bounds = "".join(c for c in inside if isinstance(c, str)).split("..")
    if len(bounds) not in (2, 3):
        return None
    low, high = bounds[:2]
    letters = len(low) == len(high) == 1 and low.isascii() and high.isascii()
    try:
        step = abs(int(bounds[2])) or 1 if len(bounds) == 3 else 1
        if letters and low.isalpha() and high.isalpha():
            first, final = ord(low), ord(high)
        else:
            first, final = int(low), int(high)
            letters = False
    except ValueError:
        return None
    if abs(final - first) // step > WORDS_MAX:
        raise TooMuch
    members = range(first, final + 1, step) if first <= final else range(first, final - 1, -step)
    if letters:
        return [chr(number) for number in members]
    digits = [bound.lstrip("-") for bound in (low, high)]
    padded = any(len(d) > 1 and d.startswith("0") for d in digits)
    width = max(len(low), len(high)) if padded else 0
    return [str(number).zfill(width) for number in members]


def _joined(atoms: list[Part | str]) -> list[Part]:
    parts: list[Part] = []
    text: list[str] = []
    for atom in atoms:
        if isinstance(atom, str):
            text.append(atom)
            continue
        if text:
            parts.append(Text("".join(text), False))
            text = []
        parts.append(atom)
    if text:
        parts.append(Text("".join(text), False))
    return parts
