"""The text of one file after a patch in the form of `apply_patch`.

Only for files whose new text decides whether an agent may write them. The client finds the place
of a change more leniently than this does: a result that is not certain is unknown, never guessed.
"""

from __future__ import annotations

from holdfast.gate.clients.patch_files import (
    ADD,
    BLANKS,
    DELETE,
    END_OF_FILE,
    MOVE,
    UPDATE,
    inside,
    is_body,
)


def outcome(patch: str, path: str, old: str) -> str | None:
    """The text of a file, as the patch spells its path, when the patch has been applied; empty if
    the file is gone then, None if it cannot be known."""
    lines = inside(patch.strip(BLANKS).split("\n")) or []
    at = 0
    while at < len(lines):
        head = lines[at].strip(BLANKS)
        at += 1
        start = at
        while at < len(lines) and (is_body(lines[at]) or lines[at].startswith(MOVE)):
            at += 1
        if head == DELETE + path:
            return ""
        if head == ADD + path:
            return "".join(f"{line[1:]}\n" for line in lines[start:at] if line.startswith("+"))
        if head == UPDATE + path:
            moved = start < at and lines[start].startswith(MOVE)
            return "" if moved else _updated(old, lines[start:at])
    return None


def _updated(old: str, body: list[str]) -> str | None:
    """A text with the changes of a patch made, in their order."""
    text = old.removesuffix("\n").split("\n") if old else []
    done: list[str] = []
    for before, after in _changes(body):
        at = _found(text, before)
        if at is None:
            return None
        done += [*text[:at], *after]
        text = text[at + len(before) :]
    return "\n".join([*done, *text]) + "\n"


def _changes(body: list[str]) -> list[tuple[list[str], list[str]]]:
    """For each change: the lines that stand there, and those that will."""
    changes: list[tuple[list[str], list[str]]] = [([], [])]
    for line in body:
        before, after = changes[-1]
        if line.startswith("@@"):
            heading = line[2:].strip(BLANKS)
            changes.append(([heading], [heading]) if heading else ([], []))
            changes += [([], [])] if heading else []
        elif line.startswith("-"):
            before.append(line[1:])
        elif line.startswith("+"):
            after.append(line[1:])
        elif not line.startswith(END_OF_FILE):
            before.append(line[1:])
            after.append(line[1:])
    return [change for change in changes if change != ([], [])]


def _found(text: list[str], lines: list[str]) -> int | None:
    """Where some lines stand in a text; at its end if there are none of them."""
    if not lines:
        return len(text)
    for at in range(len(text) - len(lines) + 1):
        if text[at : at + len(lines)] == lines:
            return at
    return None
