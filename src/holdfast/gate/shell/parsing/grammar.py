"""From words to commands: lists, pipelines, compound commands, redirections."""

from __future__ import annotations

from holdfast.gate.shell.parsing.lexer import (
    COMMANDS_MAX,
    DIGITS,
    NAME,
    NAME_START,
    WORD_END,
    WordReader,
)
from holdfast.gate.shell.parsing.syntax_nodes import (
    Assignment,
    Case,
    Chain,
    Condition,
    For,
    Function,
    Group,
    If,
    ParseError,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Subshell,
    Text,
    While,
    Word,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.parsing.syntax_nodes import Node

#: Longest first, so that the first match is the right one.
REDIRECTS = ("&>>", "<<<", "<<-", "&>", "<<", ">>", ">|", ">&", "<&", "<>", ">", "<")
#: Words that end a list, where a command could begin.
CLOSERS = frozenset(["then", "elif", "else", "fi", "do", "done", "esac", "}"])
#: Builtins that take assignments, also of arrays, as arguments.
DECLARERS = frozenset(["declare", "local", "export", "readonly", "typeset"])


def parse(text: str, depth: int = 0) -> Sequence:
    """The commands of a text. `ParseError` if no shell would accept it, or if it is too deep."""
    return Parser(text, depth).whole()


class Parser(WordReader):
    __slots__ = ()

    def whole(self) -> Sequence:
        found = self.sequence()
        if self.i < self.end:
            raise ParseError(f"unexpected {self.text[self.i : self.i + 12]!r}")
        return found

    def sequence_until(self, closing: str) -> Sequence:
        found = self.sequence()
        self.expect(closing)
        return found

    # steps between words

    def skip_lines(self) -> None:
        """Skip blanks, comments and newlines; a newline begins the here-documents."""
        while True:
            self.skip_blanks()
            if self.char() != "\n":
                return
            self.newline()

    def newline(self) -> None:
        self.i += 1
        if self.here:
            self.read_here()

    def keyword(self) -> str:
        """The unquoted word that begins here, without reading it."""
        i, text, end = self.i, self.text, self.end
        limit = min(end, i + 10)
        while i < limit and text[i] not in WORD_END:
            i += 1
        if i == limit and i < end and text[i] not in WORD_END:
            return ""
        return text[self.i : i]

    def expect(self, what: str) -> None:
        self.skip_lines()
        found = self.keyword() if what[0].isalpha() or what == "}" else self.char()
        if found != what:
            near = self.text[self.i : self.i + 12]
            raise ParseError(
                f"{what!r} is missing before {near!r}" if near else f"{what!r} is missing"
            )
        self.i += len(what)

    # lists

    def sequence(self) -> Sequence:
        items: list[Chain] = []
        while True:
            self.skip_lines()
            c = self.char()
            if c == "" or c == ")" or self.keyword() in CLOSERS or self.at(";;") or self.at(";&"):
                break
            chain = self.chain()
            items.append(chain)
            self.skip_blanks()
            c = self.char()
            if c == "&":
                chain.background = True
                self.i += 1
            elif c == ";" and not (self.at(";;") or self.at(";&")):
                self.i += 1
            elif c == "\n":
                self.newline()
            else:
                break
        if self.here and self.i >= self.end:
            self.read_here()
        return Sequence(items)

    def chain(self) -> Chain:
        first = self.pipeline()
        rest: list[tuple[str, Node]] = []
        while True:
            self.skip_blanks()
            operator = self.text[self.i : self.i + 2]
            if operator not in ("&&", "||"):
                return Chain(first, rest)
            self.i += 2
            self.skip_lines()
            rest.append((operator, self.pipeline()))

    def pipeline(self) -> Node:
        while self.keyword() in ("!", "time"):
            timed = self.keyword() == "time"
            self.i += 4 if timed else 1
            self.skip_blanks()
            if timed and self.keyword() == "-p":
                self.i += 2
                self.skip_blanks()
            if self.char() in ("", "\n", ";", "&", "|", ")"):
                return Simple()
        commands = [self.command()]
        while True:
            self.skip_blanks()
            if self.char() != "|" or self.at("||"):
                break
            self.i += 2 if self.at("|&") else 1
            self.skip_lines()
            commands.append(self.command())
        return commands[0] if len(commands) == 1 else Pipeline(commands)

    # commands

    def command(self) -> Node:
        self.enter()
        self.count[0] += 1
        if self.count[0] > COMMANDS_MAX:
            raise ParseError("it holds too many commands")
        node = self.compound() or self.simple()
        self.depth -= 1
        if not isinstance(node, Simple):
            self.trailing_redirects(node)
        return node

    def trailing_redirects(self, node: Node) -> None:
        assert not isinstance(node, Simple | Pipeline | Chain | Sequence)
        while True:
            self.skip_blanks()
            redirect = self.redirect()
            if redirect is None:
                return
            node.redirects.append(redirect)

    def compound(self) -> Node | None:
        if self.char() == "(":
            if self.at("(("):
                close = self.arithmetic_end(self.i + 2)
                if close >= 0:
                    inside = self.inner(self.text[self.i + 2 : close])
                    self.i = close + 2
                    return Condition([inside.as_quoted()], arithmetic=True)
            self.i += 1
            return Subshell(self.sequence_until(")"))
        word = self.keyword()
        if word == "{":
            self.i += 1
            return Group(self.sequence_until("}"))
        if word == "[[":
            return self.condition()
        if word == "if":
            return self.if_()
        if word in ("while", "until"):
            self.i += 5
            test = self.sequence_until("do")
            return While(test, self.sequence_until("done"))
        if word in ("for", "select"):
            return self.for_(word)
        if word == "case":
            return self.case()
        if word == "function":
            return self.function()
        if word == "coproc":
            self.i += 6
            self.skip_blanks()
            return Subshell(Sequence([Chain(self.command(), [])]))
        return None

    def condition(self) -> Condition:
        self.i += 2
        words: list[Word] = []
        pattern = False
        while True:
            self.skip_lines()
            c = self.char()
            if c == "":
                raise ParseError("[[ is not closed")
            if c == "]" and self.keyword() == "]]":
                self.i += 2
                return Condition(words)
            if c in "<>()&|;" and not (pattern and c == "("):
                self.i += 1
                continue
            word = self.word(pattern)
            if word is None:
                raise ParseError(f"unexpected {c!r} in [[")
            pattern = word.raw == "=~"
            words.append(word)

    def if_(self) -> If:
        self.i += 2
        pairs: list[tuple[Sequence, Sequence]] = []
        while True:
            test = self.sequence_until("then")
            pairs.append((test, self.sequence()))
            self.skip_lines()
            word = self.keyword()
            if word == "elif":
                self.i += 4
                continue
            otherwise = None
            if word == "else":
                self.i += 4
                otherwise = self.sequence()
            self.expect("fi")
            return If(pairs, otherwise)

    def for_(self, kind: str) -> For:
        self.i += len(kind)
        self.skip_blanks()
        if self.at("(("):
            close = self.arithmetic_end(self.i + 2)
            if close < 0:
                raise ParseError("for (( is not closed")
            header = self.inner(self.text[self.i + 2 : close]).as_quoted()
            self.i = close + 2
            return For("", [], self.loop_body(), header)
        name = self.name()
        if not name:
            raise ParseError("for without a name")
        self.skip_lines()
        words: list[Word] | None = None
        if self.keyword() == "in":
            self.i += 2
            words = []
            self.skip_blanks()
            while (word := self.word()) is not None:
                words.append(word)
                self.skip_blanks()
        return For(name, words, self.loop_body())

    def loop_body(self) -> Sequence:
        self.skip_blanks()
        if self.char() == ";":
            self.i += 1
        self.skip_lines()
        if self.keyword() == "{":
            self.i += 1
            return self.sequence_until("}")
        self.expect("do")
        return self.sequence_until("done")

    def case(self) -> Case:
        self.i += 4
        self.skip_blanks()
        subject = self.word()
        if subject is None:
            raise ParseError("case without a word")
        self.expect("in")
        arms: list[tuple[list[Word], Sequence]] = []
        while True:
            self.skip_lines()
            if self.keyword() == "esac":
                self.i += 4
                return Case(subject, arms)
            arms.append((self.patterns(), self.sequence()))
            self.skip_lines()
            for end in (";;&", ";;", ";&"):
                if self.at(end):
                    self.i += len(end)
                    break
            else:
                self.expect("esac")
                return Case(subject, arms)

    def patterns(self) -> list[Word]:
        if self.char() == "(":
            self.i += 1
        found: list[Word] = []
        while True:
            self.skip_blanks()
            word = self.word()
            if word is None:
                raise ParseError("case without a pattern")
            found.append(word)
            self.skip_blanks()
            c = self.char()
            self.i += 1
            if c == ")":
                return found
            if c != "|":
                raise ParseError("')' is missing in case")

    def function(self) -> Function:
        self.i += 8
        self.skip_blanks()
        word = self.word()
        name = word.plain() if word else None
        if not name:
            raise ParseError("function without a name")
        self.skip_blanks()
        if self.char() == "(":
            self.i += 1
            self.expect(")")
        return self.function_body(name)

    def function_body(self, name: str) -> Function:
        self.skip_lines()
        return Function(name, self.command())

    # simple commands

    def simple(self) -> Node:
        node = Simple()
        begin = self.i
        while True:
            self.skip_blanks()
            redirect = self.redirect()
            if redirect is not None:
                node.redirects.append(redirect)
                continue
            declares = bool(node.words) and node.words[0].plain() in DECLARERS
            assignment = (
                self.assignment(array_only=declares) if declares or not node.words else None
            )
            if assignment is not None:
                (node.arrays if declares else node.assignments).append(assignment)
                continue
            word = self.word()
            if word is None:
                break
            node.words.append(word)
            if self.char() in (" ", "\t", "(") and len(node.words) == 1:
                name = self.function_name(node)
                if name:
                    return self.function_body(name)
        if self.i == begin or self.char() == "(":
            near = self.text[self.i : self.i + 12]
            raise ParseError(f"unexpected {near!r}" if near else "a command is missing at the end")
        return node

    def function_name(self, node: Simple) -> str:
        """The name, if `name()` was read; then the parentheses are read too."""
        i = self.i
        while i < self.end and self.text[i] in " \t":
            i += 1
        if self.text[i : i + 1] != "(" or node.assignments or node.redirects:
            return ""
        i += 1
        while i < self.end and self.text[i] in " \t":
            i += 1
        name = node.words[0].plain()
        if self.text[i : i + 1] != ")" or not name:
            return ""
        self.i = i + 1
        return name

    def assignment(self, array_only: bool) -> Assignment | None:
        """`name=…` that begins here; inside a declaration only arrays are of another form."""
        text, end = self.text, self.end
        begin = i = self.i
        if i >= end or text[i] not in NAME_START:
            return None
        while i < end and text[i] in NAME:
            i += 1
        name = text[begin:i]
        indexed = text.startswith("[", i)
        if indexed:
            close = text.find("]", i, i + 200)
            if close < 0:
                return None
            i = close + 1
        append = text.startswith("+", i)
        i += append
        if not text.startswith("=", i):
            return None
        i += 1
        if text.startswith("(", i):
            self.i = i + 1
            return Assignment(name, None, self.array(), append)
        if array_only:
            return None
        self.i = i
        return Assignment(name, self.word(), None, append, indexed)

    def array(self) -> list[Word]:
        items: list[Word] = []
        while True:
            self.skip_lines()
            if self.char() == ")":
                self.i += 1
                return items
            word = self.word()
            if word is None:
                raise ParseError("an array is not closed")
            items.append(word)

    # redirections

    def redirect(self) -> Redirect | None:
        text, end, i = self.text, self.end, self.i
        fd = ""
        if i < end and text[i] in DIGITS:
            while i < end and text[i] in DIGITS:
                i += 1
            fd = text[self.i : i]
        elif i < end and text[i] == "{":
            close = i + 1
            while close < end and text[close] in NAME:
                close += 1
            if not text.startswith("}", close) or close == i + 1:
                return None
            i = close + 1
            fd = text[self.i : i]
        if i >= end or text[i] not in "<>&" or (fd and text[i] == "&"):
            return None
        for operator in REDIRECTS:
            if text.startswith(operator, i):
                break
        else:
            return None
        if operator in ("<", ">") and text.startswith("(", i + 1):
            return None  # a process substitution
        self.i = i + len(operator)
        self.skip_blanks()
        target = self.word()
        if target is None:
            raise ParseError(f"{operator} without a target")
        redirect = Redirect(operator, fd, target)
        if operator in ("<<", "<<-"):
            delimiter, quoted = _delimiter(target)
            self.here.append((redirect, delimiter, quoted, operator == "<<-"))
        return redirect


def _delimiter(word: Word) -> tuple[str, bool]:
    """The delimiter of a here-document, and whether its text is taken literally."""
    pieces: list[str] = []
    quoted = False
    for part in word.parts:
        if isinstance(part, Text):
            pieces.append(part.text)
            quoted = quoted or part.quoted
        else:  # nothing is expanded in a delimiter
            return word.raw, False
    return "".join(pieces), quoted
