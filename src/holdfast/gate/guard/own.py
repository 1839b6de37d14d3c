"""Command lines that always pass, and files that switch the gate off."""

from __future__ import annotations

import os

from holdfast.gate.shell.nodes import ParseError, Pipeline, Simple, Text
from holdfast.gate.shell.parser import parse
from holdfast.manager.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.gate.shell.nodes import Node, Word

LENGTH_MAX = 10_000
#: What may stand behind a pipe: it shows what it reads.
_SHOWING = frozenset(["cat", "grep", "head", "jq", "less", "sort", "tail", "wc"])
_SETTINGS_BYTES_MAX = 1 << 20

#: Where hooks can stand, by the folder. Others of these names hold none of ours.
_HOOK_FILES = (
    (".claude", "settings.local.json"), (".claude", "settings.json"), (".codex", "hooks.json"),
)  # fmt: skip
_LEDGER = "it is Holdfast's own, and all leases would go with it"
_HOOKS = "the hooks stand there that keep agents apart"
#: How each hook of ours is called, whatever stands before it.
_SCRIPT = b"gate/hook.py"


def is_own_line(command: str) -> bool:
    """Whether a line does nothing but call Holdfast, perhaps elsewhere, perhaps to show a part."""
    if len(command) > LENGTH_MAX:
        return False
    try:
        body = parse(command)
    except (ParseError, RecursionError):
        return False
    steps = [step for chain in body.items for step in (chain.first, *(n for _, n in chain.rest))]
    names = [_name(step) for step in steps]
    return "holdfast" in names and all(name in ("holdfast", "cd") for name in names)


def _name(node: Node) -> str:
    """What is called; empty if it is more than that."""
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
    """A word that is known from its spelling alone; else nothing."""
    texts = [part.text for part in word.parts if isinstance(part, Text)]
    return "".join(texts) if len(texts) == len(word.parts) else ""


def switches_off(root: str, paths: Iterable[str]) -> tuple[str, str] | None:
    """The first of some real paths that an agent must not write, and why.

    A path with a slash at its end means everything below that folder.
    """
    own = f"{root}/{LEDGER_FOLDER}"
    hooks = [f"{root}/{folder}/{name}" for folder, name in _HOOK_FILES]
    for path in paths:
        bare = path.rstrip("/")
        if bare == own or bare.startswith(f"{own}/"):
            return bare, _LEDGER
        if path.endswith("/") and own.startswith(path):
            return own, _LEDGER
        for file in hooks:
            below = path.endswith("/") and file.startswith(path)
            if (bare == file or below) and _holds_our_hook(file):
                return file, _HOOKS
    return None


def _holds_our_hook(file: str) -> bool:
    try:
        with open(file, "rb") as stream:
            return _SCRIPT in stream.read(_SETTINGS_BYTES_MAX)
    except OSError:
        return False
