"""Text in which every character is visible.

A name or a path may contain characters that leave no mark, or that change the order in which
others are displayed: two different names look the same, and `evil\\u202etxt.exe` looks like a text
file. Each such character is spelled out as `<U+202E>`. The page does the same with everything that
it shows (`page/visible.js`); a test compares the two.
"""

from __future__ import annotations

import re
import unicodedata

#: Categories of characters without a glyph: controls, formats (bidirectional and zero-width ones),
#: surrogates, private use, separators of lines and paragraphs, unusual spaces.
_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"))
#: Letters and marks that are drawn as nothing at all.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")


def visible(text: str) -> str:
    """The text with its invisible characters spelled out; newlines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"<U+{ord(one):04X}>" if is_invisible(one) and not _is_emoji(before, one) else one
        for before, one in zip(("", *text), text, strict=False)
    )


def _is_emoji(before: str, character: str) -> bool:
    """Whether a character only requests that the symbol before it be drawn in colour."""
    return character == "\ufe0f" and before != "" and unicodedata.category(before) == "So"


def is_invisible(character: str) -> bool:
    """Whether a character leaves no mark, or moves other characters."""
    if character in " \n\t":
        return False
    return (
        unicodedata.category(character) in _CATEGORIES
        or _BLANK.match(character) is not None
        or 0xE0100 <= ord(character) <= 0xE01EF
    )
