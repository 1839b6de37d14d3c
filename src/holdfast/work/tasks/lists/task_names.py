"""The name of a task: one line that people can tell from every other.

A name contains no characters that a terminal would not show, or would show in another order. Two
names that look the same are one: names are compared by `same`.
"""

from __future__ import annotations

import re
from hashlib import sha256

from holdfast.gate.config.settings_file import shown
from holdfast.work.input_checks import folded

NAME_CHARACTERS_MAX = 100
_DIGEST_CHARACTERS = 8

#: Characters that count as printable and are invisible.
_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")


def name_of(text: str) -> str:
    """The name that a text gives to its task; empty if nothing in it is visible.

    Of markup only backticks, double asterisks and the addresses of links are left out. A text that
    is too long is cut, and ends with a digest of the whole.
    """
    bare = _LINK.sub(r"\1", text).replace("**", "").replace("`", "")
    seen = "".join(" " if one.isspace() else "" if _is_hidden(one) else one for one in bare)
    line = " ".join(seen.split())
    if len(line) <= NAME_CHARACTERS_MAX:
        return line
    digest = sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    kept = line[: NAME_CHARACTERS_MAX - _DIGEST_CHARACTERS - 2].rstrip()
    return f"{kept}… {digest}"


def name_problem(name: str) -> str:
    """Why a text cannot be a name as it is; empty if it can."""
    if not name.strip():
        return "name is empty"
    if len(name) > NAME_CHARACTERS_MAX:
        return f"name is longer than {NAME_CHARACTERS_MAX} characters"
    wrong = next((one for one in name if _is_hidden(one)), "")
    if wrong:
        return f"name contains {shown(wrong)}, a line break or an invisible character"
    return "name has blanks around it" if name != name.strip() else ""


def same(name: str) -> str:
    """The form in which names are compared: without case, in one Unicode form, without variants."""
    return folded("".join(one for one in name if not _is_variant(one)))


def _is_hidden(one: str) -> bool:
    return not one.isprintable() or one in _BLANKS or "\U000e0100" <= one <= "\U000e01ef"


def _is_variant(one: str) -> bool:
    return "\ufe00" <= one <= "\ufe0f"
