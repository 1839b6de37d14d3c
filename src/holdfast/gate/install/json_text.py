"""JSON in a file of another program: where its parts are, and small changes to the text.

The rest of the text stays the same to the byte: order, blanks, line ends, numbers, escapes. A
change follows the style of the text around it: on lines of its own with the same indentation, or
on the same line. Removing the part that was added last restores the earlier text.

Plain JSON only. Comments and trailing commas are refused with their place, never guessed at.
"""

from __future__ import annotations

import json
import re

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)


class NotJson(ValueError):
    """A text that is not plain JSON, with the place of the first error."""

    def __init__(self, text: str, at: int, what: str) -> None:
        self.line = text.count("\n", 0, at) + 1
        self.column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(what)


class Node(Value):
    """One value in the text, from `start` to before `end`.

    `parts` are the values in it, `names` their names if it is an object; `begins` is where each
    part begins, with its name.
    """

    __slots__ = ("begins", "end", "kind", "names", "parts", "start")

    def __init__(self, kind: str, start: int, end: int, **parts: list[Any]) -> None:
        self.kind: Final = kind
        self.start: Final = start
        self.end: Final = end
        self.names: Final[list[str]] = parts.get("names", [])
        self.parts: Final[list[Node]] = parts.get("parts", [])
        self.begins: Final[list[int]] = parts.get("begins", [])

    def member(self, name: str) -> Node | None:
        """The value of that name; the last if there are several, as JSON parsers take it."""
        found = [part for known, part in zip(self.names, self.parts, strict=False) if known == name]
        return found[-1] if found else None


def parse(text: str) -> Node:
    """The parts of a text. Raises NotJson."""
    try:
        node, at = _value(text, _skip(text, 0))
    except RecursionError:
        raise NotJson(text, 0, "it is nested too deeply") from None
    at = _skip(text, at)
    if at != len(text):
        raise _unexpected(text, at)
    return node


def value(text: str, node: Node) -> Any:
    """The value of a part of the text."""
    return json.loads(text[node.start : node.end])


def _skip(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


def _value(text: str, at: int) -> tuple[Node, int]:
    sign = text[at : at + 1]
    if sign == '"':
        end = _string(text, at)[1]
        return Node("string", at, end), end
    if sign in ("{", "["):
        return _container(text, at, "object" if sign == "{" else "array")
    found = _SCALAR.match(text, at)
    if found is None:
        raise _unexpected(text, at)
    return Node("scalar", at, found.end()), found.end()


def _container(text: str, start: int, kind: str) -> tuple[Node, int]:
    closing = "}" if kind == "object" else "]"
    names: list[str] = []
    parts: list[Node] = []
    begins: list[int] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing or parts:
        begins.append(at)
        if kind == "object":
            name, at = _string(text, at)
            names.append(name)
            at = _expect(text, _skip(text, at), ":")
        part, at = _value(text, _skip(text, at))
        parts.append(part)
        at = _skip(text, at)
        if text[at : at + 1] == closing:
            break
        at = _skip(text, _expect(text, at, ","))
    end = at + 1
    return Node(kind, start, end, names=names, parts=parts, begins=begins), end


def _string(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != '"':
        raise _unexpected(text, at)
    try:
        found, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise NotJson(text, error.pos, error.msg) from None
    return str(found), end


def _expect(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise _unexpected(text, at)
    return at + 1


def _unexpected(text: str, at: int) -> NotJson:
    if at >= len(text):
        return NotJson(text, at, "it ends too early")
    if text.startswith(("//", "/*"), at) or text[at] == "#":
        return NotJson(text, at, "it has comments")
    if text[at] in "}]" and text[:at].rstrip().endswith(","):
        return NotJson(text, at, "it has a comma before the closing bracket")
    return NotJson(text, at, f"unexpected {text[at]!r}")


# Changes


def added(text: str, node: Node, item: Any, *, name: str | None = None) -> str:
    """The text with one more part at the end of an array, or of an object under a name."""
    unit, line_end = _unit(text), "\r\n" if "\r\n" in text else "\n"
    head = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    if not node.parts:
        if not _stands_alone(text):
            return _replaced(text, node.start + 1, node.end - 1, head + _inline(item))
        base = _indentation(text, node.start)
        body = head + _part(node, item, unit, base + unit, line_end)
        inside = f"{line_end}{base}{unit}{body}{line_end}{base}"
        return _replaced(text, node.start + 1, node.end - 1, inside)
    begin, end = node.begins[-1], node.parts[-1].end
    if _begins_line(text, begin):
        base = _indentation(text, begin)
        more = f",{line_end}{base}{head}{_part(node, item, unit, base, line_end)}"
    else:
        more = f", {head}{_inline(item)}"
    return _replaced(text, end, end, more)


def removed(text: str, node: Node, at: int) -> str:
    """The text without one part of an array or an object."""
    if len(node.parts) == 1:
        return _replaced(text, node.start + 1, node.end - 1, "")
    if at == 0:
        return _replaced(text, node.begins[0], node.begins[1], "")
    return _replaced(text, node.parts[at - 1].end, node.parts[at].end, "")


def replaced(text: str, node: Node, item: Any) -> str:
    """The text with another value in the place of one, on one line."""
    return _replaced(text, node.start, node.end, _inline(item))


def document(item: Any) -> str:
    """A new text."""
    return _block(item, "  ", "", "\n") + "\n"


def _replaced(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _part(node: Node, item: Any, unit: str, base: str, line_end: str) -> str:
    return _inline(item) if node.kind == "array" else _block(item, unit, base, line_end)


def _inline(item: Any) -> str:
    return json.dumps(item, ensure_ascii=False)


def _block(item: Any, unit: str, base: str, line_end: str) -> str:
    """On lines of its own, except that each part of a list has one line for all that is in it:
    short enough to be read in a diff."""
    if not item or not isinstance(item, dict | list):
        return _inline(item)
    inner = base + unit
    if isinstance(item, list):
        parts, (opening, closing) = [_inline(part) for part in item], "[]"
    else:
        parts, (opening, closing) = (
            [
                f"{_inline(name)}: {_block(part, unit, inner, line_end)}"
                for name, part in item.items()
            ],
            "{}",
        )
    inside = f",{line_end}{inner}".join(parts)
    return f"{opening}{line_end}{inner}{inside}{line_end}{base}{closing}"


def _begins_line(text: str, at: int) -> bool:
    line = text.rfind("\n", 0, at)
    return line >= 0 and not text[line + 1 : at].strip(" \t")


def _indentation(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _stands_alone(text: str) -> bool:
    """Whether the text has its parts on lines of their own, or none to tell by."""
    return "\n" in text.strip() or text.strip() in ("{}", "")


def _unit(text: str) -> str:
    """One step of indentation: that of the first thing in the text."""
    first = _skip(text, 0)
    found = _skip(text, first + 1)
    step = _indentation(text, found) if _begins_line(text, found) else ""
    return step if step and text[found : found + 1] not in ("}", "]") else "  "
