"""Text in which every character can be seen.

A name or a path may contain characters that leave no mark, or that change the order in which the
others are shown: two different names look the same, and `evil\\u202etxt.exe` looks like a text. So
each of them is spelled out as `<U+202E>`. The page does the same with all that it shows
(`page/visible.js`); a test compares the two.
"""

from __future__ import annotations

import re
import unicodedata

#: Categories of characters without a picture of their own: controls, formats (bidirectional and
#: zero-width ones), surrogates, private use, separators of lines and paragraphs, odd spaces.
_CATEGORIES = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"))
#: Letters and marks that are drawn as nothing.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0]")


def visible(text: str) -> str:
    """The text, with what cannot be seen spelled out; lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        f"<U+{ord(one):04X}>" if is_invisible(one) and not _is_emoji(before, one) else one
        for before, one in zip(("", *text), text, strict=False)
    )


def _is_emoji(before: str, character: str) -> bool:
    """Whether a character says no more than that the symbol before it is to be in colour."""
    return character == "\ufe0f" and before != "" and unicodedata.category(before) == "So"


def is_invisible(character: str) -> bool:
    """Whether a character leaves no mark, or moves others."""
    if character in " \n\t":
        return False
    return (
        unicodedata.category(character) in _CATEGORIES
        or _BLANK.match(character) is not None
        or 0xE0100 <= ord(character) <= 0xE01EF
    )
