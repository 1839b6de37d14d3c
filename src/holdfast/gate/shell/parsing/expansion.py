"""From words as typed to arguments as a command receives them, as far as can be known."""

from __future__ import annotations

from holdfast.gate.shell.parsing.globs import (
    TooMuch,
    braces,
    escape,
    has_magic,
    matches,
    spread,
    steps_of,
)
from holdfast.gate.shell.parsing.syntax_nodes import (
    Arithmetic,
    Parameter,
    Process,
    Substitution,
    Text,
    Word,
)
from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from holdfast.gate.shell.parsing.syntax_nodes import Part, Sequence
    from holdfast.gate.shell.scope import Known, Scope

    class Runner(Protocol):
        """What expansion needs from the walk over the commands."""

        def spend(self, steps: int) -> None: ...

        def output(self, body: Sequence, scope: Scope) -> str | None: ...

        def made_paths(self) -> Iterable[str]: ...


BLANKS = " \t\n"
#: Longer values are not computed: doubling one again and again would fill the memory.
VALUE_MAX = 65_536
TRIMS: dict[str, Callable[[str, int], str]] = {
    "#": lambda text, at: text[at:],
    "##": lambda text, at: text[at:],
    "%": lambda text, at: text[:at],
    "%%": lambda text, at: text[:at],
}


class Field:
    """A word in the making."""

    __slots__ = ("known", "loose", "pieces", "started")

    def __init__(self) -> None:
        self.pieces: list[tuple[str, bool]] = []
        self.known = True
        self.loose = False
        self.started = False

    def add(self, text: str, quoted: bool) -> None:
        if quoted or text:
            self.started = True
        if self.known:
            self.pieces.append((text, quoted))

    def doubt(self, loose: bool) -> None:
        self.started = True
        self.known = False
        self.loose = self.loose or loose


def arguments(words: list[Word], scope: Scope, run: Runner) -> list[Arg]:
    """All the words of a command."""
    found: list[Arg] = []
    for word in words:
        found += argument(word, scope, run)
    return found


def argument(word: Word, scope: Scope, run: Runner, split: bool = True) -> list[Arg]:
    """The arguments from one word: any number, with unquoted expansions, braces or patterns."""
    run.spend(1)
    plain = word.plain()
    if plain is not None and not has_magic(plain) and "{" not in plain and plain[:1] != "~":
        return [Arg(plain)]
    try:
        ways = braces(word.parts) if split else [word.parts]
    except TooMuch:
        return [Arg("", False, word.raw, True)]
    found: list[Arg] = []
    for parts in ways:
        for field in fields(parts, scope, run):
            found += finish(field, word.raw, scope, run)
    return found


def fields(parts: list[Part], scope: Scope, run: Runner) -> list[Field]:
    run.spend(1 + len(parts) // 20)
    done: list[Field] = []
    field = Field()
    for number, part in enumerate(parts):
        if isinstance(part, Text):
            text = part.text
            if number == 0 and not part.quoted and text.startswith("~"):
                text = tilde(text, len(parts) > 1, scope, field)
            field.add(text, part.quoted)
            continue
        value = part_value(part, scope, run)
        if value is None:
            field.doubt(loose=not part.quoted)
        elif isinstance(value, str):
            if part.quoted:
                field.add(value, True)
            elif "IFS" in scope.variables:
                field.doubt(loose=True)
            else:
                field = split(value, field, done)
        else:
            field = join(value, part.quoted, field, done)
    if field.started:
        done.append(field)
    return done


def split(value: str, field: Field, done: list[Field]) -> Field:
    """Cut an unquoted value at its blanks."""
    words = value.split()
    if field.started and value[:1] in BLANKS and value:
        done.append(field)
        field = Field()
    for number, word in enumerate(words):
        if number:
            done.append(field)
            field = Field()
        field.add(word, False)
    if words and value[-1] in BLANKS:
        done.append(field)
        field = Field()
    return field


def join(values: list[str], quoted: bool, field: Field, done: list[Field]) -> Field:
    """Insert the items of `"$@"` or an array, each as a word of its own."""
    for number, value in enumerate(values):
        if number:
            done.append(field)
            field = Field()
        if quoted:
            field.add(value, True)
        else:
            field = split(value, field, done)
    return field


def tilde(text: str, more: bool, scope: Scope, field: Field) -> str:
    prefix, slash, rest = text.partition("/")
    if more and not slash:
        return text
    names = {"~": "HOME", "~+": "PWD", "~-": "OLDPWD"}
    if prefix not in names:
        field.doubt(loose=False)
        return text
    value = scope.lookup(names[prefix])
    if not isinstance(value, str):
        field.doubt(loose=False)
        return text
    field.add(value.rstrip("/") if slash else value, True)
    return slash + rest


def finish(field: Field, raw: str, scope: Scope, run: Runner) -> list[Arg]:
    text = "".join([piece for piece, _ in field.pieces])
    if not field.known:
        return [Arg(text, False, raw, field.loose)]
    if not any(not quoted and has_magic(piece) for piece, quoted in field.pieces):
        return [Arg(text, raw=raw)]
    if not scope.globs or (scope.cwd is None and not text.startswith("/")):
        return [Arg("", False, raw, True)]
    pattern = "".join([escape(piece) if quoted else piece for piece, quoted in field.pieces])
    found = spread(pattern, scope.cwd or "/", run.made_paths(), run.spend)
    if found is None:
        return [Arg("", False, raw, True)]
    if not found:
        return [] if scope.nullglob else [Arg(text, raw=raw, unmatched=True)]
    return [Arg(path, raw=raw) for path in found]


def text_of(word: Word | None, scope: Scope, run: Runner) -> str | None:
    """The value of a word that is neither split nor matched, as in an assignment."""
    if word is None:
        return ""
    pieces: list[str] = []
    field = Field()
    known = True
    run.spend(1 + len(word.parts) // 20)
    for number, part in enumerate(word.parts):
        if isinstance(part, Text):
            text = part.text
            if number == 0 and not part.quoted and text.startswith("~"):
                text = tilde(text, len(word.parts) > 1, scope, field)
                pieces += [piece for piece, _ in field.pieces]
            pieces.append(text)
            continue
        value = part_value(part, scope, run)
        if value is None:
            known = False
        else:
            pieces.append(value if isinstance(value, str) else " ".join(value))
    return "".join(pieces) if known and field.known else None


def pattern_of(word: Word, scope: Scope, run: Runner) -> str | None:
    """A word as a pattern: quoted characters have no special meaning."""
    pieces: list[str] = []
    for part in word.parts:
        if isinstance(part, Text):
            pieces.append(escape(part.text) if part.quoted else part.text)
            continue
        value = part_value(part, scope, run)
        if not isinstance(value, str):
            return None
        pieces.append(escape(value) if part.quoted else value)
    return "".join(pieces)


def part_value(part: Part, scope: Scope, run: Runner) -> Known:
    value = _part_value(part, scope, run)
    if value is not None:
        size = len(value) if isinstance(value, str) else sum(len(item) + 10 for item in value)
        run.spend(size // 1000)
        if size > VALUE_MAX:
            return None
    return value


def _part_value(part: Part, scope: Scope, run: Runner) -> Known:
    if isinstance(part, Parameter):
        return parameter(part, scope, run)
    if isinstance(part, Substitution):
        found = run.output(part.body, scope)
        return None if found is None else found.rstrip("\n")
    if isinstance(part, Process):
        run.output(part.body, scope)
        return "/dev/fd/63"
    if isinstance(part, Arithmetic):
        text_of(part.body, scope, run)
    return None


def parameter(part: Parameter, scope: Scope, run: Runner) -> Known:
    value = base_value(part, scope)
    operator, word = part.operator, part.argument
    if not operator or word is None:
        return value
    if operator in ("/", "//", "/#", "/%"):
        return replaced(value, operator, word, scope, run)
    if operator in TRIMS:
        pattern = pattern_of(word, scope, run)
        if not isinstance(value, str) or pattern is None:
            return None
        return trimmed(value, operator, pattern, run)
    argument = text_of(word, scope, run)
    if not isinstance(value, str):
        return None
    if operator in ("-", "=", "?", ":?"):
        return value
    if operator in (":-", ":="):
        if not value and operator == ":=":
            scope.variables[part.name] = argument
        return value or argument
    if operator in ("+", ":+"):
        return argument if value or operator == "+" else ""
    if operator in ("^^", ",,", "^", ",") and not argument:
        head, tail = (value, "") if len(operator) == 2 else (value[:1], value[1:])
        return (head.upper() if operator[0] == "^" else head.lower()) + tail
    return None


def base_value(part: Parameter, scope: Scope) -> Known:
    name = part.name
    if name in ("@", "*") or name.isdigit():
        given = scope.positional
        if given is None or not all(arg.known for arg in given):
            return None
        if not name.isdigit():
            texts = [arg.text for arg in given]
            return " ".join(texts) if name == "*" and part.quoted else texts
        number = int(name[:6])
        if number == 0:
            return None
        return given[number - 1].text if number <= len(given) else ""
    value = scope.lookup(name)
    if not isinstance(value, list):
        return value if part.index in ("", "0", "@", "*") else None
    if part.index in ("@", "*"):
        return " ".join(value) if part.index == "*" and part.quoted else value
    number = int(part.index) if part.index.isdigit() and len(part.index) < 6 else 0
    if part.index and not part.index.isdigit():
        return None
    return value[number] if number < len(value) else ""


def trimmed(value: str, operator: str, pattern: str, run: Runner) -> str | None:
    """`${name%pattern}` and its three relatives."""
    if len(value) > 500 or len(pattern) > 500:
        return None
    run.spend(1 + len(value) * len(value) * len(pattern) // 400)
    steps = steps_of(pattern)
    if steps is None:
        return None
    front = operator[0] == "#"
    places = range(len(value) + 1)
    nearest = list(places) if operator in ("#", "%%") else list(reversed(places))
    for at in nearest:
        if matches(steps, value[:at] if front else value[at:]):
            return TRIMS[operator](value, at)
    return value


def replaced(value: Known, operator: str, word: Word, scope: Scope, run: Runner) -> str | None:
    """`${name/pattern/text}`, for patterns that are plain text."""
    for number, part in enumerate(word.parts):
        if isinstance(part, Text) and not part.quoted and "/" in part.text:
            left, _, right = part.text.partition("/")
            before = Word([*word.parts[:number], Text(left, False)])
            after = Word([Text(right, False), *word.parts[number + 1 :]])
            break
    else:
        before, after = word, Word([])
    old, new = text_of(before, scope, run), text_of(after, scope, run)
    plain = all(not isinstance(p, Text) or p.quoted or not has_magic(p.text) for p in before.parts)
    if not isinstance(value, str) or old is None or new is None or not plain or not old:
        return None
    if operator == "//":
        return value.replace(old, new) if len(value) * (len(new) + 1) < 100_000 else None
    if operator == "/":
        return value.replace(old, new, 1)
    if operator == "/#":
        return new + value[len(old) :] if value.startswith(old) else value
    return value[: -len(old)] + new if value.endswith(old) else value
