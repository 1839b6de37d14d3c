"""Command lines that always pass: those that only call Holdfast."""

from __future__ import annotations

import os

from holdfast.gate.shell.parsing.grammar import parse
from holdfast.gate.shell.parsing.syntax_nodes import (
    ParseError,
    Pipeline,
    Simple,
    Text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.parsing.syntax_nodes import Node, Word

LENGTH_MAX = 10_000
#: Programs that may follow a pipe: they only show what they read.
_SHOWING = frozenset(["cat", "grep", "head", "jq", "tail", "wc"])
#: Commands of Holdfast that write no file and start nothing; `resume` itself requires a person.
_LOOKING = frozenset(
    ["blockers", "check", "gaps", "log", "resume", "status", "unlock", "whoami"],
)
_WITH_VALUE = ("-C", "--store")


def is_own_line(command: str) -> bool:
    """Whether a line only calls Holdfast, perhaps after `cd`, perhaps piped into a filter."""
    if len(command) > LENGTH_MAX:
        return False
    try:
        body = parse(command)
    except (ParseError, RecursionError):
        return False
    steps = [step for chain in body.items for step in (chain.first, *(n for _, n in chain.rest))]
    names = [_name(step) for step in steps]
    return "holdfast" in names and all(name in ("holdfast", "cd") for name in names)


def only_looks(command: str) -> bool:
    """Whether such a line writes no file and starts nothing that could."""
    body = parse(command)
    steps = [step for chain in body.items for step in (chain.first, *(n for _, n in chain.rest))]
    firsts = [step.commands[0] if isinstance(step, Pipeline) else step for step in steps]
    return all(_name(one) != "holdfast" or _verb(one) in _LOOKING for one in firsts)


def _verb(node: Node) -> str:
    """The command of Holdfast that is called."""
    words = [_text(word) for word in node.words] if isinstance(node, Simple) else []
    words = words[3:] if words[1:3] == ["-m", "holdfast"] else words[1:]
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _WITH_VALUE else 1 :]
    return words[0] if words else ""


def _name(node: Node) -> str:
    """The program that is called; empty if the node is more than a plain call."""
    if isinstance(node, Pipeline):
        first, *rest = (_name(one) for one in node.commands)
        return first if all(name in _SHOWING for name in rest) else ""
    if not isinstance(node, Simple) or node.assignments or node.arrays or not node.words:
        return ""
    if not all(one.operator == ">&" and _text(one.target).isdigit() for one in node.redirects):
        return ""
    words = [_text(word) for word in node.words]
    if not all(words):
        return ""
    name = os.path.basename(words[0])
    if name.startswith("python") and words[1:3] == ["-m", "holdfast"]:
        return "holdfast"
    return name


def _text(word: Word) -> str:
    """A word that is known from its spelling alone; else empty."""
    texts = [part.text for part in word.parts if isinstance(part, Text)]
    return "".join(texts) if len(texts) == len(word.parts) else ""
