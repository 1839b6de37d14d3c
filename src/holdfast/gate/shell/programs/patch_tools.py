"""Patches: which files they change. Unified diffs, git's and others, and `apply_patch` texts."""

from __future__ import annotations

import os

from holdfast.gate.clients.patch_files import files
from holdfast.gate.shell.programs.operands import scan
from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.gate.shell.command_calls import Call, Handler
    from holdfast.gate.shell.scope import Scope

NONE = "/dev/null"


class Change:
    """One file of a diff: its name before and after. `moved`: git names both, and both change.
    `git`: git made the diff, so its names begin at the top of the tree."""

    __slots__ = ("git", "moved", "new", "old")

    def __init__(self, old: str, new: str, git: bool, moved: bool = False) -> None:
        self.old = old
        self.new = new
        self.git = git
        self.moved = moved

    def names(self) -> list[str]:
        """The files that git writes for this change."""
        if self.moved:
            return [self.old, self.new]
        return [self.old if self.new == NONE else self.new]


def diff_changes(text: str) -> list[Change]:
    """The files of a unified diff. Lines inside the hunks are counted, never parsed."""
    found: list[Change] = []
    lines = text.split("\n")
    old = origin = ""
    git = False
    left = right = 0
    for line in lines:
        if left > 0 or right > 0:
            mark = line[:1]
            if mark == "-":
                left -= 1
            elif mark == "+":
                right -= 1
            elif mark != "\\":
                left -= 1
                right -= 1
            continue
        if line.startswith("@@ "):
            left, right = _hunk(line)
        elif line.startswith("--- "):
            old = _name(line[4:])
        elif line.startswith("+++ ") and old:
            found.append(Change(old, _name(line[4:]), git))
            old = ""
            git = False
        elif line.startswith(("rename from ", "copy from ")):
            origin = "" if line[0] == "c" else "a/" + _name(line.partition("from ")[2])
        elif line.startswith(("rename to ", "copy to ")):
            target = "b/" + _name(line.partition(" to ")[2])
            found.append(Change(origin or target, target, True, moved=True))
        elif line.startswith("diff --git "):
            git = True
            bare = _git_header(line)
            if bare:
                found.append(Change(bare, bare, git))
    return found


def _git_header(line: str) -> str:
    """The name in `diff --git a/x b/x`, if it is the same twice: an empty or binary file has no
    other line that names it."""
    rest = line[11:].rstrip("\r")
    middle = len(rest) // 2
    left, right = rest[:middle], rest[middle + 1 :]
    same = left.partition("/")[2] == right.partition("/")[2] and rest[middle : middle + 1] == " "
    return right if same and '"' not in rest else ""


def _hunk(line: str) -> tuple[int, int]:
    words = line.split(" ")
    counts: list[int] = []
    for word in words[1:3]:
        _, comma, count = word.partition(",")
        counts.append(int(count) if comma and count.isdigit() and len(count) < 8 else 1)
    return (counts[0], counts[1]) if len(counts) == 2 else (0, 0)


def _name(text: str) -> str:
    """A name as a diff spells it: up to a tab, or in quotes with escapes."""
    text = text.rstrip("\r")
    if text.startswith('"'):
        close = text.rfind('"')
        raw = text[1:close].encode("utf-8", "surrogateescape")
        try:
            import _codecs

            data, _ = _codecs.escape_decode(raw)
        except ValueError:
            return text
        return data.decode("utf-8", "surrogateescape")
    return text.partition("\t")[0].rstrip(" ")


def strip(name: str, levels: int) -> str | None:
    """A name without its first folders; None if it has too few."""
    parts = name.split("/")
    if levels >= len(parts):
        return None
    return "/".join(parts[levels:])


# commands


def apply_patch(call: Call) -> str | None:
    arg = call.args[0] if call.args else None
    text = (arg.text if arg.known else None) if arg else call.stdin_text()
    paths = files(text) if text is not None else None
    if paths is None:
        call.walk.doubt()
        return None
    for path in paths:
        call.walk.write(path, call.scope)
    return None


def patch(call: Call) -> str | None:
    found = scan(
        call.args,
        "pidorBDFgVYz",
        ("--strip", "--input", "--directory", "--output", "--reject-file", "--fuzz", "--suffix"),
    )
    if found.has("--dry-run", "-C", "--version", "--help", "-v"):
        return None
    scope = call.scope
    folder = found.value("-d", "--directory")
    if folder is not None:
        scope = scope.copy()
        scope.enter(scope.folder(folder.text) if folder.known else None)
    output = found.value("-o", "--output")
    operands = found.operands
    if output is not None or operands:
        target = output or operands[0]
        if not target.known:
            call.walk.doubt()
        elif target.text != "-":
            call.walk.write(target.text, scope)
        return None
    source = found.value("-i", "--input")
    text = call.walk.file_text(call.path(source)) if source else call.stdin_text()
    level = found.value("-p", "--strip")
    if text is None or (level is not None and not level.text.isdigit()):
        call.walk.doubt()
        return None
    for change in diff_changes(text):
        name = _choose(change, int(level.text[:3]) if level else None, scope)
        if name:
            call.walk.write(name, scope)
        origin = strip(change.old, int(level.text[:3])) if change.moved and level else None
        if origin:
            call.walk.write(origin, scope)
    if found.has("-b", "--backup"):
        call.walk.doubt()
    return None


def _choose(change: Change, level: int | None, scope: Scope) -> str | None:
    """The name that `patch` chooses: one that exists, else the one to be created."""
    names: list[str] = []
    for name in (change.new, change.old):
        if name == NONE or not name:
            continue
        short = name.rpartition("/")[2] if level is None else strip(name, level)
        if short:
            names.append(short)
    for name in names:
        path = scope.path(name)
        if path and os.path.lexists(path):
            return name
    return names[0] if names else None


def git_apply(call: Call, args: list[Arg], folder: str, top: str) -> None:
    """`git apply`: names in its own diffs begin at the top; only those below the folder count."""
    found = scan(args, "pC", ("--directory", "--exclude", "--include", "--whitespace"))
    looks = found.has("--check", "--stat", "--numstat", "--summary") and not found.has("--apply")
    if looks or (found.has("--cached") and not found.has("--index")):
        return
    if found.has("--exclude", "--include", "--reject"):
        call.walk.doubt()
    level = found.value("-p")
    levels = int(level.text[:3]) if level and level.text.isdigit() else 1
    root = found.value("--directory")
    prefix = root.text.rstrip("/") + "/" if root and root.text else ""
    inside = folder.rstrip("/")[len(top.rstrip("/")) + 1 :] + "/"
    texts: list[str | None] = []
    for operand in found.operands or [Arg("-")]:
        if operand.text == "-" and operand.known:
            texts.append(call.stdin_text())
        else:
            texts.append(call.walk.file_text(call.path(operand)))
    for text in texts:
        if text is None:
            call.walk.doubt()
            continue
        for change in diff_changes(text):
            for name in change.names():
                short = strip(name, levels)
                if not short:
                    continue
                # names in a plain diff are relative to the folder, unless they contain it
                guessed = level is None and name.partition("/")[2].startswith(inside)
                base = top if change.git or guessed else folder
                path = f"{base.rstrip('/')}/{prefix}{short}"
                if path.startswith(folder.rstrip("/") + "/"):
                    call.walk.write(path, call.scope)


PATCHES: dict[str, Handler] = {
    "patch": patch, "gpatch": patch, "apply_patch": apply_patch, "applypatch": apply_patch,
}  # fmt: skip
