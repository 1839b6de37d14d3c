"""One command with its arguments, and the handler that knows what it writes."""

from __future__ import annotations

from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, TypeAlias

    from holdfast.gate.shell.line_walk import Stream, Walk
    from holdfast.gate.shell.scope import Scope

    #: Notes what a call writes, and returns what it prints if that is known.
    Handler: TypeAlias = Callable[["Call"], str | None]


class Call:
    __slots__ = ("args", "env", "name", "scope", "stdin", "walk", "words")

    def __init__(
        self,
        walk: Walk,
        words: list[Arg],
        scope: Scope,
        stdin: Stream | None,
        env: dict[str, str | None],
    ) -> None:
        self.walk: Final = walk
        self.words: Final = words
        self.args: Final = words[1:]
        self.name = words[0].text if words else ""
        self.scope: Final = scope
        self.stdin: Final = stdin
        self.env: Final = env

    def again(self, words: list[Arg], scope: Scope | None = None) -> Call:
        """The same call with other words: the command after `sudo` or `env`."""
        return Call(self.walk, words, scope or self.scope, self.stdin, self.env)

    def write(self, arg: Arg | None, folder: bool = False) -> None:
        """Note the path that an argument names. A pattern without a match names none."""
        if arg is None:
            return
        if not arg.known:
            self.walk.doubt()
        elif not arg.unmatched:
            self.walk.write(arg.text, self.scope, folder)

    def remove(self, arg: Arg) -> None:
        """Note that the file named by an argument is removed."""
        if not arg.known:
            self.walk.doubt()
        elif not arg.unmatched:
            self.walk.remove(arg.text, self.scope)

    def path(self, arg: Arg) -> str | None:
        return self.scope.path(arg.text) if arg.known else None

    def stdin_text(self) -> str | None:
        return self.walk.stream_text(self.stdin)


#: Folders whose programs are the well-known ones of their names.
BIN = ("/bin", "/sbin", "/.bin", "/Scripts")


def program(text: str) -> str:
    """The name of a well-known program, however its path is written; empty for a script."""
    folder, slash, name = text.rpartition("/")
    if not slash:
        return name
    known = folder.endswith(BIN) or folder in ("bin", ".bin", "node_modules/.bin")
    return name if known else ""


def _visit(call: Call, text: str) -> None:
    """Note that a program gets a path elsewhere, perhaps in an option."""
    if text.startswith("-"):
        text = text.partition("=")[2]
    if text.startswith("/") or "../" in text or text == "..":
        call.walk.visit(call.scope.path(text))


def run(call: Call) -> str | None:
    """Note what a command writes; what it prints, if that is known."""
    from holdfast.gate.shell.programs.program_table import (
        ALTERING,
        HANDLERS,
        HARMLESS,
    )  # imported here because they import this module

    walk = call.walk
    walk.spend(1)
    if not call.words:
        return ""
    first = call.words[0]
    if not first.known or first.unmatched:
        walk.doubt()
        return None
    body = call.scope.functions.get(first.text)
    if body is not None:
        before, call.scope.positional = call.scope.positional, call.args
        walk.depth += 1
        if walk.depth > 30:
            walk.doubt()
            printed = None
        else:
            printed = walk.command(body, call.scope, call.stdin)
        walk.depth -= 1
        call.scope.positional = before
        call.scope.dead = False
        return printed
    call.name = program(first.text)
    walk.programs.add(call.name or first.text.rpartition("/")[2])
    for arg in call.words:
        if arg.known:
            _visit(call, arg.text)
    if call.name in ALTERING and not walk.alters:
        walk.alters = _alters(call)
    handler = HANDLERS.get(call.name)
    if handler is not None:
        return handler(call)
    if call.name not in HARMLESS:
        walk.doubt()
    return None


def _alters(call: Call) -> bool:
    """Whether a command from `ALTERING` changes anything in this call."""
    if call.name in ("date", "hostname", "mount"):  # without arguments they only print
        return any(not arg.text.startswith("+") for arg in call.args)
    return True
