"""The nodes of a parsed command line: words, and the commands that they form."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, TypeAlias

    Part: TypeAlias = "Text | Parameter | Substitution | Process | Arithmetic | Mystery"
    Node: TypeAlias = (
        "Simple | Pipeline | Chain | Sequence | Subshell | Group | If | While | For | Case"
        " | Function | Condition"
    )


class ParseError(Exception):
    """The text cannot be parsed as a command line; the message says why."""


class Word:
    """One word as typed. `raw` is its spelling."""

    __slots__ = ("parts", "raw")

    def __init__(self, parts: list[Part], raw: str = "") -> None:
        self.parts: Final = parts
        self.raw: Final = raw

    def plain(self) -> str | None:
        """The text, if nothing in it is quoted or expanded."""
        if len(self.parts) != 1:
            return None
        part = self.parts[0]
        return part.text if isinstance(part, Text) and not part.quoted else None


class Text:
    __slots__ = ("quoted", "text")

    def __init__(self, text: str, quoted: bool) -> None:
        self.text: Final = text
        self.quoted: Final = quoted


class Parameter:
    """`$name`, `${name}` or `${name[index]OPERATOR argument}`."""

    __slots__ = ("argument", "index", "name", "operator", "quoted")

    def __init__(
        self,
        name: str,
        quoted: bool,
        operator: str = "",
        argument: Word | None = None,
        index: str = "",
    ) -> None:
        self.name: Final = name
        self.quoted: Final = quoted
        self.operator: Final = operator
        self.argument: Final = argument
        self.index: Final = index


class Substitution:
    """`$(…)` or backquotes."""

    __slots__ = ("body", "quoted")

    def __init__(self, body: Sequence, quoted: bool) -> None:
        self.body: Final = body
        self.quoted: Final = quoted


class Process:
    """`<(…)` or `>(…)`."""

    __slots__ = ("body", "quoted")

    def __init__(self, body: Sequence) -> None:
        self.body: Final = body
        self.quoted: Final = True


class Arithmetic:
    """`$((…))`: its value is not computed, but its content is expanded."""

    __slots__ = ("body", "quoted")

    def __init__(self, body: Word, quoted: bool) -> None:
        self.body: Final = body
        self.quoted: Final = quoted


class Mystery:
    """An expression whose value is never computed (extended patterns, `${!name}`)."""

    __slots__ = ("quoted",)

    def __init__(self, quoted: bool) -> None:
        self.quoted: Final = quoted


class Redirect:
    """`fd OPERATOR target`; for a here-document `target` is its text, filled in when read."""

    __slots__ = ("fd", "operator", "target")

    def __init__(self, operator: str, fd: str, target: Word) -> None:
        self.operator: Final = operator
        self.fd: Final = fd
        self.target = target


class Assignment:
    """`name=value`, `name+=value`, `name=(a b)`; `items` is set for an array."""

    __slots__ = ("append", "indexed", "items", "name", "value")

    def __init__(
        self,
        name: str,
        value: Word | None,
        items: list[Word] | None = None,
        append: bool = False,
        indexed: bool = False,
    ) -> None:
        self.name: Final = name
        self.value: Final = value
        self.items: Final = items
        self.append: Final = append
        self.indexed: Final = indexed


class Simple:
    """A command with its words. `arrays` are array values given to `declare` and the like."""

    __slots__ = ("arrays", "assignments", "redirects", "words")

    def __init__(self) -> None:
        self.assignments: Final[list[Assignment]] = []
        self.words: Final[list[Word]] = []
        self.arrays: Final[list[Assignment]] = []
        self.redirects: list[Redirect] = []


class Compound:
    __slots__ = ("redirects",)

    def __init__(self) -> None:
        self.redirects: list[Redirect] = []


class Pipeline:
    __slots__ = ("commands",)

    def __init__(self, commands: list[Node]) -> None:
        self.commands: Final = commands


class Chain:
    """Pipelines joined by `&&` and `||`: the first, then pairs of operator and pipeline."""

    __slots__ = ("background", "first", "rest")

    def __init__(self, first: Node, rest: list[tuple[str, Node]]) -> None:
        self.first: Final = first
        self.rest: Final = rest
        self.background = False


class Sequence:
    __slots__ = ("items",)

    def __init__(self, items: list[Chain]) -> None:
        self.items: Final = items


class Subshell(Compound):
    __slots__ = ("body",)

    def __init__(self, body: Sequence) -> None:
        super().__init__()
        self.body: Final = body


class Group(Compound):
    __slots__ = ("body",)

    def __init__(self, body: Sequence) -> None:
        super().__init__()
        self.body: Final = body


class If(Compound):
    """Pairs of test and body; `otherwise` is the part after `else`."""

    __slots__ = ("otherwise", "pairs")

    def __init__(self, pairs: list[tuple[Sequence, Sequence]], otherwise: Sequence | None) -> None:
        super().__init__()
        self.pairs: Final = pairs
        self.otherwise: Final = otherwise


class While(Compound):
    __slots__ = ("body", "test")

    def __init__(self, test: Sequence, body: Sequence) -> None:
        super().__init__()
        self.test: Final = test
        self.body: Final = body


class For(Compound):
    """`words` is None for the positional parameters; `header` is that of `for ((…))`."""

    __slots__ = ("body", "header", "name", "words")

    def __init__(
        self, name: str, words: list[Word] | None, body: Sequence, header: Word | None = None
    ) -> None:
        super().__init__()
        self.name: Final = name
        self.words: Final = words
        self.body: Final = body
        self.header: Final = header


class Case(Compound):
    """`arms` are pairs of patterns and body."""

    __slots__ = ("arms", "subject")

    def __init__(self, subject: Word, arms: list[tuple[list[Word], Sequence]]) -> None:
        super().__init__()
        self.subject: Final = subject
        self.arms: Final = arms


class Function(Compound):
    __slots__ = ("body", "name")

    def __init__(self, name: str, body: Node) -> None:
        super().__init__()
        self.name: Final = name
        self.body: Final = body


class Condition(Compound):
    """`[[ … ]]` or `((…))`: it writes nothing itself, but the words in it are expanded."""

    __slots__ = ("arithmetic", "words")

    def __init__(self, words: list[Word], arithmetic: bool = False) -> None:
        super().__init__()
        self.words: Final = words
        self.arithmetic: Final = arithmetic
