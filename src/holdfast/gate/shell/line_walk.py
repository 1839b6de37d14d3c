"""Follow a parsed command line from left to right and note what it writes.

Nothing is run. Both sides of a condition are followed, and state in which they differ (the folder,
a variable) is unknown afterwards. A loop over known words is followed word by word; any other
loop once, with everything that its body changes taken as unknown.

The work is counted and ends at a limit, so a hostile line costs little and is merely unsure.
"""

from __future__ import annotations

import os
import stat

from holdfast.gate.shell.command_calls import Call, run
from holdfast.gate.shell.conditions import truth_of
from holdfast.gate.shell.line_writes import Reading, TreeVerb
from holdfast.gate.shell.parsing.expansion import argument, arguments, text_of
from holdfast.gate.shell.parsing.grammar import parse
from holdfast.gate.shell.parsing.syntax_nodes import (
    Case,
    Chain,
    Condition,
    For,
    Function,
    Group,
    If,
    ParseError,
    Pipeline,
    Sequence,
    Simple,
    Subshell,
    While,
)
from holdfast.gate.shell.scope import Arg, Scope

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.gate.shell.parsing.syntax_nodes import (
        Assignment,
        Node,
        Redirect,
        Word,
    )

STEPS_MAX = 20_000
DEPTH_MAX = 40
FILE_SIZE_MAX = 1_000_000
VISITS_MAX = 50

OPENING = frozenset([">", ">>", ">|", "&>", "&>>", "<>"])
#: Commands that do not fail, so that the command after `&&` is reached.
CERTAIN = frozenset(["echo", "printf", ":", "true", "export", "declare", "local", "set", "shopt"])
NO_FILES = ("/dev/", "/proc/self/fd/")


class Enough(Exception):
    """The line requires more work than the limit allows."""


class Stream:
    """The standard input of a command: a text, or a file."""

    __slots__ = ("path", "text")

    def __init__(self, text: str | None = None, path: str | None = None) -> None:
        self.text = text
        self.path = path


class Ways:
    """The shell's state after a command that succeeded, and after one that failed."""

    __slots__ = ("bad", "can_fail", "good", "printed")

    def __init__(self, good: Scope, bad: Scope, can_fail: bool, printed: str | None) -> None:
        self.good = good
        self.bad = bad
        self.can_fail = can_fail
        self.printed = printed

    def go(self, operator: str, following: Ways) -> None:
        if operator == "&&":
            if not self.can_fail:
                self.bad = following.bad
            elif following.can_fail:
                self.bad.merge(following.bad)
            self.good = following.good
            self.can_fail = self.can_fail or following.can_fail
        else:
            if self.can_fail:
                self.good.merge(following.good)
            self.bad = following.bad
            self.can_fail = self.can_fail and following.can_fail


class Walk:
    __slots__ = (
        "absent", "alters", "depth", "fleeting", "folders", "made", "muted", "programs", "steps",
        "trees", "unsure", "visits", "writes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.writes: dict[str, None] = {}
        self.trees: dict[TreeVerb, None] = {}
        self.unsure = False
        self.alters = False
        self.steps = STEPS_MAX
        self.depth = 0
        self.muted = 0
        #: files that the line itself wrote, with their text if that is known
        self.made: dict[str, str | None] = {}
        #: folders that the line itself made
        self.folders: set[str] = set()
        #: what the line removes although it did not exist before: never made, or made by the line
        self.absent: set[str] = set()
        self.fleeting: set[str] = set()
        #: the names of the programs that it calls
        self.programs: set[str] = set()
        #: places that the line enters, or passes to a program
        self.visits: dict[str, None] = {}

    def reading(self) -> Reading:
        return Reading(
            tuple(self.writes), tuple(self.trees), self.unsure,
            absent=frozenset(self.absent), fleeting=frozenset(self.fleeting),
            visits=tuple(self.visits), alters=self.alters, programs=frozenset(self.programs),
        )  # fmt: skip

    # results

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Enough

    def doubt(self) -> None:
        if not self.muted:
            self.unsure = True

    def alter(self) -> None:
        """Note that something other than a file of the tree is changed."""
        self.alters = True

    def write(self, text: str, scope: Scope, folder: bool = False) -> str | None:
        """Note that a path is written; the path, or None if it does not count."""
        self.spend(1)
        path = scope.path(text) if text else None
        if path is None:
            if text:
                self.doubt()
            return None
        if path.startswith(NO_FILES) and not path.startswith("/dev/shm/"):
            return None
        path = path.rstrip("/") + ("/" if folder else "")
        if not path:
            return None
        if not self.muted:
            self.writes[path] = None
            self.absent.discard(path)
            self.fleeting.discard(path)
            if not folder:
                self.made[path] = None
        return path

    def remove(self, text: str, scope: Scope) -> None:
        """Note that a path is written by removing what exists there, if anything."""
        own = scope.path(text) in self.made
        path = self.write(text, scope)
        if path is not None and not self.muted and not os.path.lexists(path):
            (self.fleeting if own else self.absent).add(path)

    def visit(self, path: str | None) -> None:
        if path is not None and len(self.visits) < VISITS_MAX:
            self.visits[path] = None

    def tree(self, verb: TreeVerb) -> None:
        if not verb.plain or not verb.folder:
            self.doubt()
        if not self.muted:
            self.trees[verb] = None

    # files on the disk, or that will be

    def made_paths(self) -> Iterable[str]:
        return self.made

    def is_folder(self, path: str | None) -> bool:
        if path is None:
            return False
        return path.rstrip("/") in self.folders or os.path.isdir(path)

    def is_nowhere(self, path: str | None) -> bool:
        """Whether `cd` there certainly fails: it does not exist, and the line did not make it."""
        if path is None or self.unsure or self.trees or self.is_folder(path):
            return False
        within = f"{path.rstrip('/')}/"
        return not any(
            f"{one.rstrip('/')}/".startswith(within) or within.startswith(f"{one.rstrip('/')}/")
            for one in self.writes
        )

    def file_exists(self, path: str | None) -> bool:
        return path is not None and (path in self.made or os.path.lexists(path))

    def file_text(self, path: str | None) -> str | None:
        """The text of a small regular file, also of one that this line itself wrote."""
        if path is None:
            return None
        if path in self.made:
            return self.made[path]
        self.spend(10)
        try:
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_SIZE_MAX:
                return None
            self.spend(found.st_size // 1000)
            with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
                return file.read()
        except (OSError, ValueError):
            return None

    def stream_text(self, stream: Stream | None) -> str | None:
        if stream is None:
            return None
        return stream.text if stream.text is not None else self.file_text(stream.path)

    # lists

    def script(self, text: str, scope: Scope) -> str | None:
        """Follow a text that a shell will read."""
        self.spend(5 + len(text) // 100)
        if self.depth >= DEPTH_MAX:
            raise Enough
        try:
            body = parse(text, self.depth)
        except ParseError:
            self.doubt()
            return None
        return self.sequence(body, scope)

    def fork(self, scope: Scope) -> Scope:
        self.spend(1 + (len(scope.variables) + len(scope.functions)) // 20)
        return scope.copy()

    def output(self, body: Sequence, scope: Scope) -> str | None:
        """Follow a substitution; what it prints, if that is known."""
        return self.sequence(body, self.fork(scope))

    def sequence(self, node: Sequence, scope: Scope, stdin: Stream | None = None) -> str | None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise Enough
        printed: list[str | None] = []
        for chain in node.items:
            if scope.dead:
                break
            if chain.background:
                printed.append(self.chain(chain, self.fork(scope), stdin))
            else:
                printed.append(self.chain(chain, scope, stdin))
        self.depth -= 1
        return _joined(printed)

    def chain(self, node: Chain, scope: Scope, stdin: Stream | None) -> str | None:
        if not node.rest:
            before = self.fork(scope) if _name(node.first) in _MOVES else None
            printed = self.command(node.first, scope, stdin)
            if before is not None and self.is_nowhere(scope.cwd):
                scope.take(before)
            return printed
        ways = self.attempt(node.first, scope, stdin)
        all_printed = [ways.printed]
        for operator, command in node.rest:
            if ways.good.dead if operator == "&&" else not ways.can_fail:
                continue  # it is not reached
            following = self.attempt(command, ways.good if operator == "&&" else ways.bad, stdin)
            certain = operator == "&&" and not ways.can_fail
            all_printed.append(following.printed if certain or following.printed == "" else None)
            ways.go(operator, following)
        if ways.can_fail:
            ways.good.merge(ways.bad)
        scope.take(ways.good)
        return _joined(all_printed)

    def attempt(self, node: Node, scope: Scope, stdin: Stream | None) -> Ways:
        """Follow a command that may fail, and keep what is certain in either case."""
        good = self.fork(scope)
        printed = self.command(node, good, stdin)
        name = _name(node)
        if name in _MOVES:
            bad = self.fork(scope)
            good.dead = good.dead or self.is_nowhere(good.cwd)
        else:
            bad = self.fork(good)
            if not isinstance(node, Simple):
                bad.merge(scope)
        truth = truth_of(node, good, self)
        good.dead = good.dead or truth is False
        certain = truth is True or self.is_certain(node, name, good)
        return Ways(good, bad, not certain, printed)

    def is_certain(self, node: Node, name: str | None, after: Scope) -> bool:
        """Whether a command certainly succeeds."""
        if name == "cd":
            return self.is_folder(after.cwd)
        if name == "mkdir" and isinstance(node, Simple):
            return any((word.plain() or "").startswith("-p") for word in node.words)
        return name in CERTAIN or (isinstance(node, Simple) and not node.words)

    def pipeline(self, node: Pipeline, scope: Scope, stdin: Stream | None) -> str | None:
        printed: str | None = None
        for command in node.commands:
            printed = self.command(command, self.fork(scope), stdin)
            stdin = Stream(printed)
        return printed

    # commands

    def command(self, node: Node, scope: Scope, stdin: Stream | None) -> str | None:
        self.spend(1)
        if isinstance(node, Simple):
            return self.simple(node, scope, stdin)
        if isinstance(node, Pipeline):
            return self.pipeline(node, scope, stdin)
        if isinstance(node, Chain):
            return self.chain(node, scope, stdin)
        if isinstance(node, Sequence):
            return self.sequence(node, scope, stdin)
        stdin, targets = self.redirects(node.redirects, scope, stdin)
        printed = self.compound(node, scope, stdin)
        return self.printed_to(targets, printed)

    def compound(self, node: Node, scope: Scope, stdin: Stream | None) -> str | None:
        if isinstance(node, Subshell):
            return self.sequence(node.body, self.fork(scope), stdin)
        if isinstance(node, Group):
            return self.sequence(node.body, scope, stdin)
        if isinstance(node, Function):
            scope.functions[node.name] = node.body
            return ""
        if isinstance(node, Condition):
            for word in node.words:
                text_of(word, scope, self)
                if node.arithmetic:
                    _forget_names(word.raw, scope)
            return ""
        if isinstance(node, If):
            self.if_(node, scope, stdin)
        elif isinstance(node, While):
            self.loop([node.test, node.body], scope, stdin)
        elif isinstance(node, For):
            self.for_(node, scope, stdin)
        elif isinstance(node, Case):
            text_of(node.subject, scope, self)
            end = self.fork(scope)
            for _, body in node.arms:
                branch = self.fork(scope)
                self.sequence(body, branch, stdin)
                end.merge(branch)
            scope.take(end)
        return None

    def if_(self, node: If, scope: Scope, stdin: Stream | None) -> None:
        ends: list[Scope] = []
        for test, body in node.pairs:
            self.sequence(test, scope, stdin)
            alone = len(test.items) == 1 and not test.items[0].rest
            truth = truth_of(test.items[0].first, scope, self) if alone else None
            if truth is False:
                continue
            ends.append(self.fork(scope))
            self.sequence(body, ends[-1], stdin)
            if truth:
                break
        else:
            ends.append(self.fork(scope))
            if node.otherwise is not None:
                self.sequence(node.otherwise, ends[-1], stdin)
        last = ends.pop()
        for end in ends:
            last.merge(end)
        scope.take(last)

    def loop(self, bodies: list[Sequence], scope: Scope, stdin: Stream | None) -> None:
        """Any number of rounds: once to find what they change, then with that unknown."""
        trial = self.fork(scope)
        self.muted += 1
        for body in bodies:
            self.sequence(body, trial, stdin)
        self.muted -= 1
        trial.dead = False
        scope.merge(trial)
        for body in bodies:
            self.sequence(body, scope, stdin)
        scope.dead = False

    def for_(self, node: For, scope: Scope, stdin: Stream | None) -> None:
        if node.header is not None:
            text_of(node.header, scope, self)
            _forget_names(node.header.raw + "=", scope)
            self.loop([node.body], scope, stdin)
            return
        if node.words is not None:
            values = arguments(node.words, scope, self)
        else:
            values = scope.positional if scope.positional is not None else [Arg("", False)]
        if any(value.loose for value in values):
            scope.variables[node.name] = None
            self.loop([node.body], scope, stdin)
            return
        for value in values:
            scope.variables[node.name] = value.text if value.known else None
            self.sequence(node.body, scope, stdin)
            scope.dead = False

    # simple commands

    def simple(self, node: Simple, scope: Scope, stdin: Stream | None) -> str | None:
        words = arguments(node.words, scope, self)
        stdin, targets = self.redirects(node.redirects, scope, stdin)
        if not node.words:
            for assignment in node.assignments:
                self.assign(assignment, scope)
            return self.printed_to(targets, "")
        for assignment in node.arrays:
            self.assign(assignment, scope)
        temporary: dict[str, str | None] = {}
        for assignment in node.assignments:
            temporary[assignment.name] = text_of(assignment.value, scope, self)
        call = Call(self, words, scope, stdin, temporary)
        return self.printed_to(targets, run(call))

    def assign(self, assignment: Assignment, scope: Scope) -> None:
        name = assignment.name
        if assignment.items is not None:
            items = arguments(assignment.items, scope, self)
            known = all(item.known for item in items) and not assignment.append
            scope.variables[name] = [item.text for item in items] if known else None
            return
        value = text_of(assignment.value, scope, self)
        if assignment.append:
            old = scope.lookup(name)
            value = old + value if isinstance(old, str) and value is not None else None
        scope.variables[name] = None if assignment.indexed else value

    def redirects(
        self, redirects: list[Redirect], scope: Scope, stdin: Stream | None
    ) -> tuple[Stream | None, list[tuple[str, bool]]]:
        """What the command reads, and the files that its output replaces (or is added to)."""
        targets: list[tuple[str, bool]] = []
        for redirect in redirects:
            operator = redirect.operator
            if operator in ("<<", "<<-", "<<<"):
                text = text_of(redirect.target, scope, self)
                ending = "\n" if operator == "<<<" else ""
                if redirect.fd in ("", "0"):
                    stdin = Stream(None if text is None else text + ending)
                continue
            if redirect.fd.startswith("{"):  # the shell chooses a number and keeps it there
                scope.variables[redirect.fd[1:-1]] = "10"
            target = self.target(redirect.target, scope)
            if target is None:
                continue
            if operator == "<":
                if redirect.fd in ("", "0"):
                    stdin = Stream(path=scope.path(target.text) if target.known else None)
            elif operator in OPENING or (operator == ">&" and not _is_descriptor(target)):
                if not target.known:
                    self.doubt()
                    continue
                path = self.write(target.text, scope)
                if path and redirect.fd in ("", "1"):
                    targets.append((path, operator in (">>", "&>>", "<>")))
        return stdin, targets

    def target(self, word: Word, scope: Scope) -> Arg | None:
        """The target of a redirection. Several words are an error to a shell: there is none."""
        found = argument(word, scope, self)
        return found[0] if len(found) == 1 else None

    def printed_to(self, targets: list[tuple[str, bool]], printed: str | None) -> str | None:
        if not targets or self.muted:
            return printed if not targets else ""
        for path, added in targets:
            self.made[path] = None if added else printed
        return ""


#: Commands that change the folder, or fail and leave it unchanged.
_MOVES = ("cd", "pushd", "popd")


def _name(node: Node) -> str | None:
    """The command of a plain line, if it is known."""
    return node.words[0].plain() if isinstance(node, Simple) and node.words else None


def _joined(printed: list[str | None]) -> str | None:
    known = [text for text in printed if text is not None]
    return "".join(known) if len(known) == len(printed) else None


def _is_descriptor(target: Arg) -> bool:
    return target.known and (target.text == "-" or target.text.rstrip("-").isdigit())


def _forget_names(expression: str, scope: Scope) -> None:
    """Forget variables: an arithmetic expression may set any that it names."""
    if "=" not in expression and "++" not in expression and "--" not in expression:
        return
    name = ""
    for c in expression + " ":
        if c.isalnum() or c == "_":
            name += c
            continue
        if name and not name[0].isdigit():
            scope.variables[name] = None
        name = ""


def follow(command: str, cwd: str) -> Reading:
    """The work of `read`, for a command that is not too long."""
    try:
        body = parse(command)
    except ParseError as error:
        return Reading(unsure=True, problem=str(error))
    walk = Walk()
    try:
        walk.sequence(body, Scope(cwd))
    except Enough:
        walk.unsure = True
    return walk.reading()
