"""The files of a patch in the form that `apply_patch` takes.

This finds the files that a patch would touch, as the client's own parser finds them; it does not
check whether the patch fits those files. A line of a file's new text can look like a header of the
patch, and a file can be named like one, so lines are parsed in order and never searched for. A
patch that cannot be parsed gives None: the client might apply it, to unknown files.
"""

from __future__ import annotations

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File: "
UPDATE = "*** Update File: "
DELETE = "*** Delete File: "
MOVE = "*** Move to: "
ENVIRONMENT = "*** Environment ID: "
END_OF_FILE = "*** End of File"

#: The characters that the client trims. `str.strip` alone would also remove the separators U+001C
#: to U+001F, which the client leaves in a name: the wrong file would be leased.
BLANKS = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_COMMANDS = ("", "apply_patch", "applypatch")


def files(text: str) -> tuple[str, ...] | None:
    """The files that a patch creates, changes, removes or moves (source and target), in its order
    and once each, spelled as in the patch. None if it cannot be parsed."""
    lines = inside(text.strip(BLANKS).split("\n"))
    if lines is None:
        return None
    found: dict[str, None] = {}
    at = 0
    if lines and lines[0].strip(BLANKS).startswith(ENVIRONMENT):
        at = 1
    while at < len(lines):
        head = lines[at].strip(BLANKS)
        at += 1
        if not head or head == END:
            continue
        if head.startswith(ADD):
            path = head[len(ADD) :]
            while at < len(lines) and lines[at].startswith("+"):
                at += 1
        elif head.startswith(DELETE):
            path = head[len(DELETE) :]
        elif head.startswith(UPDATE):
            path = head[len(UPDATE) :]
            if at < len(lines) and lines[at].startswith(MOVE):
                found[path] = None
                path = lines[at][len(MOVE) :].rstrip(BLANKS)
                at += 1
            while at < len(lines) and is_body(lines[at]):
                at += 1
        else:
            return None
        if not path:
            return None
        found[path] = None
    return tuple(found) or None


def only_updates(text: str) -> bool:
    """Whether a patch only changes lines in existing files; False if unknown."""
    kinds = (ADD, DELETE, MOVE)
    return not any(line.strip(BLANKS).startswith(kinds) for line in text.split("\n"))


def inside(lines: list[str]) -> list[str] | None:
    """The lines between begin and end, without the here-document that may be around them."""
    word = _delimiter(lines[0])
    if word is not None:
        lines = lines[1:]
        if lines and lines[-1].strip(BLANKS) == word:
            lines.pop()
        while lines and not lines[-1].strip(BLANKS):
            lines.pop()
    if len(lines) < 2 or lines[0].strip(BLANKS) != BEGIN or lines[-1].strip(BLANKS) != END:
        return None
    return lines[1:-1]


def _delimiter(line: str) -> str | None:
    """The word that ends a here-document which this line begins, if it begins one for a patch."""
    command, mark, word = line.strip(BLANKS).partition("<<")
    if not mark or command.strip(BLANKS) not in _COMMANDS:
        return None
    word = word.removeprefix("-").strip(BLANKS)
    if len(word) > 2 and word[0] == word[-1] and word[0] in "'\"":
        word = word[1:-1]
    return word if word and not set(word) & set("'\"\\$`|&;<>() \t") else None


def is_body(line: str) -> bool:
    """Whether a line belongs to the change of the file above it, whatever it looks like."""
    return (
        line[:1] in ("+", "-", " ", "@", "")
        or not line.strip(BLANKS)
        or line.startswith(END_OF_FILE)
    )
