"""From characters to words: quoting, expansions, here-documents.

A shell's words cannot be split first and parsed later: `$(…)` in a word is a whole command line
again, with its own quotes and here-documents. So one recursive descent over the text reads words
and commands; this half reads words, `grammar` reads commands.
"""

from __future__ import annotations

from holdfast.gate.shell.parsing.syntax_nodes import (
    Arithmetic,
    Mystery,
    Parameter,
    ParseError,
    Process,
    Substitution,
    Text,
    Word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.parsing.syntax_nodes import Part, Redirect, Sequence

#: Deeper than any real command, and shallow enough for the interpreter's own stack.
NESTING_MAX = 40
#: More than any real command has, and few enough to be parsed quickly.
COMMANDS_MAX = 6000
ARITHMETIC_MAX = 4000

WORD_END = frozenset(" \t\n;|&<>()")
WORD_SPECIAL = WORD_END | frozenset("'\"\\$`")
DOUBLE_SPECIAL = frozenset('"\\$`')
HERE_SPECIAL = frozenset("\\$`")
BRACE_SPECIAL = frozenset("}'\"\\$`")
NAME_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
DIGITS = frozenset("0123456789")
NAME = NAME_START | DIGITS
SPECIAL_NAMES = frozenset("@*#?-$!_")
ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b",
    "f": "\f", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
HEX = frozenset("0123456789abcdefABCDEF")


class WordReader:
    """A place in a text, and how to read a word from there. `ParseError` if there is none."""

    __slots__ = ("count", "depth", "end", "here", "i", "text")

    def __init__(self, text: str, depth: int = 0, count: list[int] | None = None) -> None:
        self.text = text
        self.end = len(text)
        self.i = 0
        self.depth = depth
        #: how many commands were read, together with the readers of inner texts
        self.count = [0] if count is None else count
        #: here-documents that begin after the next newline: redirect, delimiter, quoted, tabs
        self.here: list[tuple[Redirect, str, bool, bool]] = []

    # what the other half provides

    def sequence_until(self, closing: str) -> Sequence:
        raise NotImplementedError

    def whole(self) -> Sequence:
        raise NotImplementedError

    # small steps

    def at(self, text: str) -> bool:
        return self.text.startswith(text, self.i)

    def char(self, ahead: int = 0) -> str:
        at = self.i + ahead
        return self.text[at] if at < self.end else ""

    def enter(self) -> None:
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise ParseError("it is nested too deeply")

    def inner(self, text: str) -> WordReader:
        """A reader of the same kind for a text inside this one."""
        if self.depth + 1 > NESTING_MAX:
            raise ParseError("it is nested too deeply")
        return type(self)(text, self.depth + 1, self.count)

    def skip_blanks(self) -> None:
        text, end, i = self.text, self.end, self.i
        while i < end:
            c = text[i]
            if c == " " or c == "\t":
                i += 1
            elif c == "\\" and text.startswith("\n", i + 1):
                i += 2
            elif c == "#":
                i = text.find("\n", i)
                i = end if i < 0 else i
                break
            else:
                break
        self.i = i

    def plain_run(self, special: frozenset[str]) -> str:
        """The character here, whatever it is, and those up to the next special one."""
        text, end, begin = self.text, self.end, self.i
        i = begin + 1
        while i < end and text[i] not in special:
            i += 1
        self.i = i
        return text[begin:i]

    # words

    def word(self, pattern: bool = False) -> Word | None:
        """The word that begins here, or None. The pattern of `[[ =~ ]]` may contain `(|)`."""
        start = self.i
        parts: list[Part] = []
        text, end = self.text, self.end
        nested = 0
        while self.i < end:
            c = text[self.i]
            if c not in WORD_SPECIAL:
                parts.append(Text(self.plain_run(WORD_SPECIAL), False))
            elif c in "<>" and self.char(1) == "(" and not pattern:
                self.i += 2
                parts.append(Process(self.substituted()))
            elif c == "(" and (pattern or (self.i > start and text[self.i - 1] in "?*+@!")):
                nested += 1
                self.i += 1
                parts.append(Mystery(False))
            elif nested and c == ")":
                nested -= 1
                self.i += 1
            elif (nested and c in "|<>& ") or (pattern and c == "|" and self.char(1) != "|"):
                self.i += 1
            elif c in WORD_END:
                break
            else:
                self.special(c, parts)
        if self.i == start:
            return None
        return Word(parts, text[start : self.i])

    def special(self, c: str, parts: list[Part]) -> None:
        """Read a quotation or an expansion outside double quotes."""
        if c == "'":
            parts.append(Text(self.single(), True))
        elif c == '"':
            self.i += 1
            self.double(parts, DOUBLE_SPECIAL)
        elif c == "\\":
            following = self.char(1)
            self.i += 2
            if following != "\n":
                parts.append(Text(following or "\\", True))
        elif c == "`":
            parts.append(self.backquotes(False))
        else:
            self.dollar(parts, False)

    def single(self) -> str:
        close = self.text.find("'", self.i + 1)
        if close < 0:
            raise ParseError("a single quote is not closed")
        inside = self.text[self.i + 1 : close]
        self.i = close + 1
        return inside

    def double(self, parts: list[Part], special: frozenset[str]) -> None:
        """The rest of a double quotation; with `HERE_SPECIAL`, the whole text as one."""
        text, end = self.text, self.end
        parts.append(Text("", True))  # an empty quotation is a word too
        quotation = special is DOUBLE_SPECIAL
        while self.i < end:
            c = text[self.i]
            if c not in special:
                parts.append(Text(self.plain_run(special), True))
            elif c == '"':
                self.i += 1
                return
            elif c == "\\":
                following = self.char(1)
                self.i += 2
                if following and following in '$`\\"' and (quotation or following != '"'):
                    parts.append(Text(following, True))
                elif following != "\n":
                    parts.append(Text("\\" + following, True))
            elif c == "`":
                parts.append(self.backquotes(quotation))
            else:
                self.dollar(parts, True)
        if quotation:
            raise ParseError("a double quote is not closed")

    def as_quoted(self) -> Word:
        """All of the text, read as a here-document or an arithmetic expression is."""
        parts: list[Part] = []
        self.double(parts, HERE_SPECIAL)
        return Word(parts, self.text)

    # expansions

    def dollar(self, parts: list[Part], quoted: bool) -> None:
        following = self.char(1)
        if following == "(":
            if self.char(2) == "(":
                close = self.arithmetic_end(self.i + 3)
                if close >= 0:
                    inside = self.inner(self.text[self.i + 3 : close])
                    self.i = close + 2
                    parts.append(Arithmetic(inside.as_quoted(), quoted))
                    return
            self.i += 2
            parts.append(Substitution(self.substituted(), quoted))
        elif following == "{":
            self.i += 2
            parts.append(self.braced(quoted))
        elif following == "[":
            close = self.text.find("]", self.i)
            if close < 0:
                raise ParseError("an arithmetic expression is not closed")
            self.i = close + 1
            parts.append(Mystery(quoted))
        elif following == "'" and not quoted:
            self.i += 2
            parts.append(Text(self.ansi(), True))
        elif following == '"' and not quoted:
            self.i += 2
            self.double(parts, DOUBLE_SPECIAL)
        elif following and following in NAME_START:
            self.i += 1
            parts.append(Parameter(self.name(), quoted))
        elif following and (following in DIGITS or following in SPECIAL_NAMES):
            self.i += 2
            parts.append(Parameter(following, quoted))
        else:
            self.i += 1
            parts.append(Text("$", quoted))

    def name(self) -> str:
        begin = i = self.i
        while i < self.end and self.text[i] in NAME:
            i += 1
        self.i = i
        return self.text[begin:i]

    def substituted(self) -> Sequence:
        self.enter()
        body = self.sequence_until(")")
        self.depth -= 1
        return body

    def arithmetic_end(self, i: int) -> int:
        """The position of the `))` that closes an expression, or -1: then it is a subshell."""
        text, end, nested = self.text, min(self.end, i + ARITHMETIC_MAX), 0
        while i < end:
            c = text[i]
            if c == "(":
                nested += 1
            elif c == ")":
                if nested == 0:
                    return i if text.startswith("))", i) else -1
                nested -= 1
            elif c == "\\":
                i += 1
            elif c == "'" or c == '"':
                i = text.find(c, i + 1, end)
                if i < 0:
                    return -1
            i += 1
        return -1

    def braced(self, quoted: bool) -> Part:
        """The rest of `${…}`."""
        self.enter()
        length = self.char() == "#" and self.char(1) not in ("}", "")
        if length or (self.char() == "!" and self.char(1) not in ("}", "")):
            self.i += 1
            self.braced_rest(quoted)
            self.depth -= 1
            return Mystery(quoted)
        c = self.char()
        if c and c in NAME:
            name = self.name()
        elif c and c in SPECIAL_NAMES:
            name = c
            self.i += 1
        else:
            raise ParseError("bad substitution")
        index = ""
        if self.char() == "[":
            close = self.text.find("]", self.i)
            if close < 0:
                raise ParseError("bad substitution")
            index = self.text[self.i + 1 : close]
            self.i = close + 1
        operator = self.operator()
        argument = self.braced_rest(quoted)
        self.depth -= 1
        if not operator and argument.raw:
            return Mystery(quoted)
        return Parameter(name, quoted, operator, argument, index)

    def operator(self) -> str:
        for operator in (
            ":-", ":=", ":+", ":?", "##", "%%", "//", "/#", "/%", "^^", ",,",
            "-", "=", "+", "?", "#", "%", "/", "^", ",", ":", "@",
        ):  # fmt: skip
            if self.at(operator):
                self.i += len(operator)
                return operator
        return ""

    def braced_rest(self, quoted: bool) -> Word:
        start = self.i
        parts: list[Part] = []
        text, end = self.text, self.end
        while self.i < end:
            c = text[self.i]
            if c == "}":
                raw = text[start : self.i]
                self.i += 1
                return Word(parts, raw)
            if c not in BRACE_SPECIAL or (c == "'" and quoted):
                parts.append(Text(self.plain_run(BRACE_SPECIAL), False))
            elif c == "$":
                self.dollar(parts, quoted)
            else:
                self.special(c, parts)
        raise ParseError("${ is not closed")

    def backquotes(self, quoted: bool) -> Substitution:
        text, end = self.text, self.end
        pieces: list[str] = []
        begin = i = self.i + 1
        while i < end and text[i] != "`":
            if text[i] != "\\":
                i += 1
                continue
            following = text[i + 1 : i + 2]
            if following in ("`", "\\", "$") or (quoted and following == '"'):
                pieces.append(text[begin:i])
                begin = i + 1
            i += 2
        if i >= end:
            raise ParseError("a backquote is not closed")
        pieces.append(text[begin:i])
        self.i = i + 1
        return Substitution(self.inner("".join(pieces)).whole(), quoted)

    def ansi(self) -> str:
        """The rest of `$'…'`. Bytes that are not valid text are kept, as in file names."""
        text, end = self.text, self.end
        out = bytearray()
        ended = False
        i = self.i
        while i < end and text[i] != "'":
            c = text[i]
            i += 1
            if c != "\\":
                piece = c.encode("utf-8", "surrogateescape") if _encodes(c) else b"?"
            else:
                piece, i = _escape(text, i)
            if piece == b"\0":
                ended = True
            if not ended:
                out += piece
        if i >= end:
            raise ParseError("a single quote is not closed")
        self.i = i + 1
        return out.decode("utf-8", "surrogateescape")

    # here-documents

    def read_here(self) -> None:
        """Read the texts of the here-documents that were announced on the line that just ended."""
        waiting, self.here = self.here, []
        for redirect, delimiter, quoted, tabs in waiting:
            pieces: list[str] = []
            while self.i < self.end:
                stop = self.text.find("\n", self.i)
                stop = self.end if stop < 0 else stop
                line = self.text[self.i : stop]
                self.i = min(stop + 1, self.end)
                if tabs:
                    line = line.lstrip("\t")
                if line == delimiter:
                    break
                pieces.append(line + "\n")
            body = "".join(pieces)
            redirect.target = (
                Word([Text(body, True)]) if quoted or not body else self.inner(body).as_quoted()
            )


def _encodes(c: str) -> bool:
    return not 0xD800 <= ord(c) <= 0xDFFF or 0xDC80 <= ord(c) <= 0xDCFF


def _escape(text: str, i: int) -> tuple[bytes, int]:
    """The character that an escape in `$'…'` stands for, and where the escape ends."""
    c = text[i : i + 1]
    if c in ESCAPES and c:
        return ESCAPES[c].encode(), i + 1
    if c and c in "01234567":
        j = i
        while j < i + 3 and text[j : j + 1] and text[j] in "01234567":
            j += 1
        return bytes([int(text[i:j], 8) & 255]), j
    longest = {"x": 2, "u": 4, "U": 8}.get(c, 0)
    j = i + 1
    while longest and j < i + 1 + longest and text[j : j + 1] and text[j] in HEX:
        j += 1
    if longest and j > i + 1:
        number = int(text[i + 1 : j], 16)
        if c == "x":
            return bytes([number]), j
        if number < 0x110000 and _encodes(chr(number)):
            return chr(number).encode("utf-8", "surrogateescape"), j
        return b"?", j
    if c == "c" and i + 1 < len(text):
        return bytes([ord(text[i + 1]) & 31]), i + 2
    return (b"\\" + c.encode("utf-8", "replace")), i + 1
