"""Tests for files, `[ -f x ]`, whose result decides which commands are reached.

Only if the result is certain: the test is of one path, and nothing before it in the line can have
changed that path.
"""

from __future__ import annotations

import os

from holdfast.gate.shell.parsing.expansion import arguments
from holdfast.gate.shell.parsing.syntax_nodes import Simple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.line_walk import Walk
    from holdfast.gate.shell.parsing.syntax_nodes import Node
    from holdfast.gate.shell.scope import Scope

TESTS = {"-e": os.path.exists, "-f": os.path.isfile, "-d": os.path.isdir, "-L": os.path.islink}


def truth_of(node: Node, scope: Scope, walk: Walk) -> bool | None:
    """The result of a command if it is such a test; None if it is uncertain."""
    name = node.words[0].plain() if isinstance(node, Simple) and node.words else None
    if not isinstance(node, Simple) or name not in ("test", "[") or walk.unsure:
        return None
    walk.spend(1 + len(walk.writes) // 100)
    words = arguments(node.words, scope, walk)[1:]
    if not all(arg.known and not arg.unmatched for arg in words):
        return None
    texts = [arg.text for arg in words]
    if name == "[" and texts[-1:] == ["]"]:
        texts.pop()
    is_not = texts[:1] == ["!"]
    operator, *names = texts[is_not:] or [""]
    path = scope.path(names[0]) if len(names) == 1 else None
    if operator not in TESTS or path is None or _is_touched(path.rstrip("/"), walk):
        return None
    return TESTS[operator](path) is not is_not


def _is_touched(path: str, walk: Walk) -> bool:
    """Whether the line so far has changed a path, or a folder that contains it."""
    below = any(path.startswith(one) for one in walk.writes if one.endswith("/"))
    return below or path in walk.writes or f"{path}/" in walk.writes or path in walk.folders
