"""What is known at one point of a command line: folder, variables, functions."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, TypeAlias

    from holdfast.gate.shell.parsing.syntax_nodes import Node

    #: A text, the items of an array, or None for an unknown value.
    Known: TypeAlias = "str | list[str] | None"


class Arg:
    """One word of a command after expansion.

    Not `known`: `text` is only its certain beginning. `loose`: it may expand to any number of
    words. `unmatched`: a pattern without a match, passed on as typed.
    """

    __slots__ = ("known", "loose", "raw", "text", "unmatched")

    def __init__(
        self,
        text: str,
        known: bool = True,
        raw: str = "",
        loose: bool = False,
        unmatched: bool = False,
    ) -> None:
        self.text: Final = text
        self.known: Final = known
        self.raw: Final = raw or text
        self.loose: Final = loose
        self.unmatched: Final = unmatched

    def part(self, begin: int) -> Arg:
        """The rest of an argument, as in `--output=FILE`."""
        return Arg(self.text[begin:], self.known, self.raw, False, self.unmatched)


class Scope:
    """The state of one shell. A subshell works on a copy."""

    __slots__ = (
        "cwd", "dead", "functions", "globs", "nullglob", "old", "positional", "stack", "variables",
    )  # fmt: skip

    def __init__(self, cwd: str | None) -> None:
        self.cwd = cwd
        self.old: str | None = None
        self.stack: list[str | None] = []
        self.variables: dict[str, Known] = {}
        self.functions: dict[str, Node] = {}
        self.positional: list[Arg] | None = None
        self.dead = False  # after exit, return, break: the following commands are not reached
        self.globs = True
        self.nullglob = False

    def copy(self) -> Scope:
        other = Scope(self.cwd)
        self._into(other)
        return other

    def take(self, other: Scope) -> None:
        """Take over the other's state."""
        other._into(self)

    def _into(self, other: Scope) -> None:
        other.cwd = self.cwd
        other.old = self.old
        other.stack = list(self.stack)
        other.variables = dict(self.variables)
        other.functions = dict(self.functions)
        other.positional = self.positional
        other.dead = self.dead
        other.globs = self.globs
        other.nullglob = self.nullglob

    def merge(self, other: Scope) -> None:
        """Keep what is the same in both branches, since either may have run."""
        if other.dead:
            return
        if self.dead:
            self.take(other)
            return
        if self.cwd != other.cwd:
            self.cwd = None
        if self.old != other.old:
            self.old = None
        if self.stack != other.stack:
            self.stack = []
        for name in self.variables.keys() | other.variables.keys():
            mine, theirs = self.variables.get(name), other.variables.get(name)
            if mine != theirs:
                self.variables[name] = None
        for name, body in other.functions.items():
            self.functions.setdefault(name, body)
        if self.positional is not other.positional:
            self.positional = None
        self.globs = self.globs and other.globs

    def lookup(self, name: str) -> Known:
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return self.cwd
        if name == "OLDPWD":
            return self.old
        if name == "HOME":
            return os.environ.get("HOME") or None
        return None

    def enter(self, folder: str | None) -> None:
        """Change the folder, as `cd` does."""
        self.old, self.cwd = self.cwd, folder
        self.variables.pop("PWD", None)
        self.variables.pop("OLDPWD", None)

    def path(self, text: str) -> str | None:
        """A path made absolute, or None if the folder is unknown.

        Doubled slashes and `.` are removed, `..` stays: only the disk knows where it leads.
        """
        if not text.startswith("/"):
            if self.cwd is None:
                return None
            text = self.cwd + "/" + text
        if "//" in text or "/." in text or text.endswith("/"):
            slash = "/" if text.endswith(("/", "/.")) else ""
            text = "/" + "/".join(p for p in text.split("/") if p not in ("", "."))
            text = text if text == "/" else text + slash
        return text

    def folder(self, text: str) -> str | None:
        """Where `cd TEXT` leads: a shell applies `..` to its own spelling of the folder."""
        path = self.path(text)
        if path is None:
            return None
        parts: list[str] = []
        for part in path.split("/"):
            if part == "..":
                if parts:
                    parts.pop()
            elif part:
                parts.append(part)
        return "/" + "/".join(parts)
