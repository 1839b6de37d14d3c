"""Which files would be changed by a git verb that works on the whole tree.

The real git is asked: which files differ, are dirty, would be removed. If that cannot be known
(a target that is not here yet, an interactive choice) the answer is None: then the command is not
refused, and its effects are checked afterwards.

Verbs of one line are followed in order, so `git checkout main && git pull` pulls into main.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core.model import Value
from holdfast.gate.guard.git_queries import DIFF, GIT_SECONDS, Git
from holdfast.gate.guard.held_by_others import is_near
from holdfast.gate.guard.switch_files import switches_off
from holdfast.gate.shell.programs.operands import Options, scan
from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Final

    from holdfast.gate.guard.held_by_others import Held
    from holdfast.gate.shell.line_writes import TreeVerb

    Names = set[str] | None

_UNTRACKED = ("ls-files", "--others", "--exclude-standard", "-z", "--full-name")
_ALL_OTHERS = ("ls-files", "--others", "-z", "--full-name")


class Tree:
    """One working tree, as it will be when the verbs so far have run."""

    __slots__ = ("branch", "git", "head", "stashed")

    def __init__(self, git: Git) -> None:
        self.git = git
        self.head = "HEAD"
        self.branch = ""
        self.stashed = False

    def diff(self, *words: str, git: Git | None = None) -> Names:
        return (git or self.git).names(*DIFF, *words)

    def between(self, one: str, other: str) -> Names:
        return set() if one == other else self.diff(one, other, "--")

    def dirty(self) -> Names:
        """Tracked files that differ from the last commit, staged or not."""
        return self.diff("HEAD", "--")

    def incoming(self, target: str, base: str | None = None) -> Names:
        """What merging a commit changes: what it changed since the merge base, unless HEAD has
        the same already."""
        base = base or self.git.line("merge-base", self.head, target)
        if base is None:
            return None
        return meet(self.between(base, target), self.between(self.head, target))


def join(*some: Names) -> Names:
    """Their union; unknown sets are left out, unless all are unknown."""
    known = [names for names in some if names is not None]
    return set().union(*known) if known else None


def meet(one: Names, other: Names) -> Names:
    return None if one is None or other is None else one & other


class Verb:
    """One verb with its words."""

    __slots__ = ("argv", "folder", "tree")

    def __init__(self, verb: TreeVerb, tree: Tree) -> None:
        self.tree = tree
        self.argv = list(verb.argv)
        self.folder = tree.git.at(verb.folder)

    def read(self, takes: str = "", *long_takes: str) -> tuple[Options, list[str], list[str]]:
        """Options, operands before `--`, and paths after it."""
        cut = self.argv.index("--") if "--" in self.argv else len(self.argv)
        found = scan([Arg(word) for word in self.argv[:cut]], takes, long_takes)
        return found, [arg.text for arg in found.operands], self.argv[cut + 1 :]


# The verbs


def checkout(one: Verb) -> Names:
    found, operands, paths = one.read("bB", "--orphan", "--conflict", "--pathspec-from-file")
    if found.has("-p", "--patch", "--pathspec-from-file", "--orphan"):
        return None
    tree = one.tree
    if paths:
        return _from(one, operands[0] if operands else "", paths, removes=False)
    force = found.has("-f", "--force")
    if not operands:
        return tree.dirty() if force else set()
    target = tree.git.commit("@{-1}" if operands[0] == "-" else operands[0])
    if target is None and len(operands) == 1 and not found.has("-b", "-B"):
        target = _remote(tree, operands[0])
    if target is None:
        return _from(one, "", operands, removes=False)
    if len(operands) > 1:
        return _from(one, operands[0], operands[1:], removes=False)
    named = found.value("-b", "-B")
    return _go(tree, target, named.text if named else operands[0], force=force)


def switch(one: Verb) -> Names:
    found, operands, _paths = one.read("cC", "--create", "--force-create", "--orphan", "--conflict")
    tree = one.tree
    if found.has("--orphan"):
        return tree.git.names("ls-files", "-z", "--full-name")
    if not operands:
        return set()
    name = "@{-1}" if operands[0] == "-" else operands[0]
    target = tree.git.commit(name) or _remote(tree, name)
    if target is None:
        return None
    force = found.has("-f", "--force", "--discard-changes")
    return _go(tree, target, name, force=force)


def _remote(tree: Tree, name: str) -> str | None:
    """The commit of a branch that only a remote has: git would create a local branch for it."""
    answer = tree.git.ask(
        "for-each-ref", "--format=%(objectname)", f"refs/remotes/*/{name}", "--count=2"
    )
    found = (answer or b"").decode("ascii", "replace").split()
    return found[0] if len(found) == 1 else None


def _go(tree: Tree, target: str, name: str, *, force: bool) -> Names:
    changed = tree.between(tree.head, target)
    if force:
        changed = join(changed, tree.dirty())
    tree.head, tree.branch = target, name
    return changed


def _from(one: Verb, source: str, paths: list[str], *, removes: bool) -> Names:
    """What restoring paths from a commit, or from the index, changes in the tree."""
    words = [source] if source else []
    if not removes and source:
        words.insert(0, "--diff-filter=a")  # files that the commit does not have stay unchanged
    return one.tree.diff(*words, "--", *paths, git=one.folder)


def restore(one: Verb) -> Names:
    found, operands, paths = one.read("s", "--source", "--conflict", "--pathspec-from-file")
    if found.has("-p", "--patch", "--pathspec-from-file"):
        return None
    source = found.value("-s", "--source")
    where = source.text if source else "HEAD" if found.has("-S", "--staged") else ""
    if where.startswith("-"):
        return None  # git refuses it, and `git diff` would take it for an option
    return _from(one, where, [*operands, *paths], removes=not found.has("--overlay"))


def reset(one: Verb) -> Names:
    found, operands, _paths = one.read()
    tree = one.tree
    target = tree.git.commit(operands[0]) if operands else tree.git.commit(tree.head)
    if target is None:
        return None
    ahead = tree.between(tree.head, target)
    if found.has("--hard"):
        ahead = join(ahead, tree.diff(target, "--"))
    elif found.has("--merge"):
        ahead = join(ahead, tree.diff("--cached", "HEAD", "--"))
    tree.head = target
    return ahead


def stash(one: Verb) -> Names:
    action = one.argv[0] if one.argv and not one.argv[0].startswith("-") else "push"
    if action in ("pop", "apply", "branch"):
        return _unstash(one, action)
    if action not in ("push", "save"):
        return None
    if one.argv and one.argv[0] == action:
        one.argv = one.argv[1:]
    found, operands, paths = one.read("m", "--message", "--pathspec-from-file")
    if found.has("-p", "--patch", "--pathspec-from-file"):
        return None
    paths = [*operands, *paths] if action == "push" else []
    git = one.folder if paths else one.tree.git
    below = ("--", *paths)
    if found.has("-S", "--staged"):
        changed = one.tree.diff("--cached", "HEAD", *below, git=git)
    elif found.has("-k", "--keep-index"):
        changed = one.tree.diff(*below, git=git)
    else:
        changed = one.tree.diff("HEAD", *below, git=git)
    if found.has("-u", "--include-untracked"):
        changed = join(changed, git.names(*_UNTRACKED, *below))
    elif found.has("-a", "--all"):
        changed = join(changed, git.names(*_ALL_OTHERS, *below))
    one.tree.stashed = True
    return changed


def _unstash(one: Verb, action: str) -> Names:
    """What is restored. A stash made earlier in the same line has only the agent's own files."""
    if one.tree.stashed:
        return set()
    found, operands, _paths = one.read()
    del found
    operands = operands[2:] if action == "branch" else operands[1:]
    name = operands[0] if operands else "stash@{0}"
    if name.isdigit():
        name = f"stash@{{{name}}}"
    git = one.tree.git
    if git.commit(name) is None:
        return None
    back = one.tree.between(f"{name}^1", name)
    if git.commit(f"{name}^3") is not None:
        back = join(back, git.names("ls-tree", "-r", "-z", "--name-only", f"{name}^3"))
    if action == "branch":
        back = join(back, one.tree.between(one.tree.head, f"{name}^1"))
    return back


def clean(one: Verb) -> Names:
    """git lists what it would remove; a folder ends with a slash."""
    found, operands, paths = one.read("e", "--exclude")
    if found.has("-i", "--interactive"):
        return None
    words: list[str] = []
    for name, value in found.options:
        if name not in ("-q", "--quiet"):  # with these git lists nothing
            words.append(f"{name}={value.text}" if value and name[1] == "-" else name)
            words += [value.text] if value and name[1] != "-" else []
    # After the words, so that no `--no-dry-run` among them makes it remove anything.
    answer = one.folder.ask("clean", *words, "-n", "--", *operands, *paths)
    prefix = one.folder.ask("rev-parse", "--show-prefix")
    if answer is None or prefix is None:
        return None
    below = prefix.decode("utf-8", "surrogateescape").rstrip("\n")
    lines = answer.decode("utf-8", "surrogateescape").splitlines()
    start = "Would remove "
    names = [below + _unquoted(line[len(start) :]) for line in lines if line.startswith(start)]
    return {os.path.normpath(name) + ("/" if name.endswith("/") else "") for name in names}


def _unquoted(name: str) -> str:
    """A name from git's output, which quotes and escapes unusual ones."""
    if not name.startswith('"'):
        return name
    known = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
    data = name[1:-1].encode("utf-8", "surrogateescape")
    made = bytearray()
    i = 0
    while i < len(data):
        letter = chr(data[i + 1]) if data[i] == 0x5C and i + 1 < len(data) else ""
        if letter.isdigit():
            made.append(int(data[i + 1 : i + 4], 8) & 0xFF)
            i += 4
        elif letter:
            made.append(known.get(letter, data[i + 1]))
            i += 2
        else:
            made.append(data[i])
            i += 1
    return made.decode("utf-8", "surrogateescape")


def merge(one: Verb) -> Names:
    found, operands, _paths = one.read("mXsF", "--strategy", "--strategy-option", "--message",
                                       "--into-name", "--file", "--cleanup")  # fmt: skip
    tree = one.tree
    if found.has("--continue", "--quit"):
        return set()
    if found.has("--abort"):
        return tree.diff("--cached", "HEAD", "--")
    targets = [tree.git.commit(name) for name in operands or ["@{upstream}"]]
    changed = [tree.incoming(target) for target in targets if target]
    return join(_put_away(one, found, "merge"), *changed)


def _put_away(one: Verb, found: Options, *sections: str) -> Names:
    """With autostash, everything dirty is stashed for a moment: others write meanwhile."""
    if found.has("--no-autostash"):
        return None
    git = one.tree.git
    if found.has("--autostash") or any(
        git.line("config", "--type=bool", "--get", f"{section}.autoStash") == "true"
        for section in sections
    ):
        return one.tree.dirty()
    return None


def pull(one: Verb) -> Names:
    """As far as is known here: commits that the remote has received since are unknown."""
    found, operands, _paths = one.read("mXsSj", "--strategy", "--strategy-option", "--depth",
                                       "--upload-pack", "--jobs", "--refmap")  # fmt: skip
    tree = one.tree
    if len(operands) > 1:
        branch = operands[1].partition(":")[0].lstrip("+")
        names = [f"refs/remotes/{operands[0]}/{branch}"]
    else:
        names = [f"{tree.branch}@{{upstream}}"]
    targets = [tree.git.commit(name) for name in names]
    changed = [tree.incoming(target) for target in targets if target]
    return join(_put_away(one, found, "merge", "rebase"), *changed)


def rebase(one: Verb) -> Names:
    found, operands, _paths = one.read("xXsC", "--onto", "--strategy", "--strategy-option",
                                       "--exec", "--empty")  # fmt: skip
    tree, git = one.tree, one.tree.git
    if found.has("--abort"):
        return _rebase_abort(tree)
    steps = ("--continue", "--skip", "--quit", "--edit-todo", "--show-current-patch", "--root")
    if found.has(*steps):
        return None
    left: Names = set()
    if len(operands) > 1:
        branch = git.commit(operands[1])
        if branch is None:
            return None
        left = _go(tree, branch, operands[1], force=False)
    upstream = git.commit(operands[0] if operands else f"{tree.branch}@{{upstream}}")
    if upstream is None:
        return None
    base = git.line("merge-base", tree.head, upstream)
    onto = found.value("--onto")
    target = git.commit(onto.text) if onto else upstream
    if target is None or base is None:
        return None
    return join(_put_away(one, found, "rebase"), left, tree.incoming(target, base))


def _rebase_abort(tree: Tree) -> Names:
    for folder in ("rebase-merge", "rebase-apply"):
        path = tree.git.line("rev-parse", "--path-format=absolute", "--git-path",
                             f"{folder}/orig-head")  # fmt: skip
        try:
            with open(path or "", encoding="ascii", errors="replace") as stream:
                target = tree.git.commit(stream.read(100).strip())
        except OSError:
            continue
        return tree.diff(target, "--") if target else None
    return None


def pick(one: Verb) -> Names:
    """cherry-pick and revert: what the commits changed."""
    found, operands, _paths = one.read("mXSs", "--mainline", "--strategy", "--strategy-option",
                                       "--cleanup")  # fmt: skip
    if found.has("--continue", "--quit", "--skip"):
        return None
    if found.has("--abort"):
        return one.tree.diff("--cached", "HEAD", "--")
    if not operands or any(name.startswith("-") for name in operands):
        return None
    walk = () if any(".." in name for name in operands) else ("--no-walk",)
    answer = one.tree.git.ask(
        "log", *walk, "--format=", "--name-only", "-z", "--no-renames", "-m", "--first-parent",
        "--no-ext-diff", "--no-textconv", *operands, "--",
    )  # fmt: skip
    if answer is None:
        return None
    return {name.decode("utf-8", "surrogateescape").lstrip("\n") for name in answer.split(b"\0")}


VERBS: dict[str, Callable[[Verb], Names]] = {
    "checkout": checkout, "switch": switch, "restore": restore, "reset": reset, "stash": stash,
    "clean": clean, "merge": merge, "pull": pull, "rebase": rebase, "cherry-pick": pick,
    "revert": pick,
}  # fmt: skip


#: Verbs that may remove untracked files, and so also Holdfast's own.
_CLEARING = ("clean", "stash")


def changes(
    verbs: Iterable[TreeVerb], root: str, seconds: float = GIT_SECONDS
) -> Iterator[tuple[TreeVerb, str, Names]]:
    """What each verb would change, in order: the top of its tree, and names below it; None if
    unknown. Verbs that do not concern this root are left out."""
    end = monotonic() + seconds
    trees: dict[str, Tree] = {}
    for verb in verbs:
        if verb.folder and not is_near(os.path.realpath(verb.folder), root):
            continue
        top: str | None = None
        if verb.plain and verb.folder and verb.verb in VERBS:
            top = Git(verb.folder, end).line("rev-parse", "--show-toplevel")
        if top is None:
            yield verb, "", None
        elif is_near(top, root):
            tree = trees.setdefault(top, Tree(Git(top, end)))
            yield verb, top, VERBS[verb.verb](Verb(verb, tree))


class Loss(Value):
    """What a verb would destroy: files that others hold, or that the gate needs (and why)."""

    __slots__ = ("held", "ours", "verb", "why")

    def __init__(self, verb: TreeVerb, held: list[Held], ours: str = "", why: str = "") -> None:
        self.verb: Final = verb
        self.held: Final = held
        self.ours: Final = ours
        self.why: Final = why


def losses(
    verbs: Iterable[TreeVerb], others: Iterable[Held], root: str, seconds: float
) -> Loss | None:
    """What the first harmful verb would destroy; None if none does, as far as is known."""
    held = list(others)
    wanted = [verb for verb in verbs if held or verb.verb in _CLEARING]
    for verb, top, names in changes(wanted, root, seconds):
        changed = names or set()
        lost = met(top, changed, held)
        if lost:
            return Loss(verb, lost)
        if verb.verb in _CLEARING:
            ours = switches_off(root, [f"{top}/{name}" for name in changed])
            if ours is not None:
                return Loss(verb, [], *ours)
    return None


def met(top: str, changed: set[str], held: Iterable[Held]) -> list[Held]:
    """Those held that are among the changed; a name that ends with a slash is a folder."""
    files = {f"{top}/{name}" for name in changed if not name.endswith("/")}
    folders = tuple(f"{top}/{name}" for name in changed if name.endswith("/"))
    found = []
    for one in held:
        if one.folder:
            below = f"{one.file}/"
            hit = any(file.startswith(below) for file in files) or f"{one.file}/" in folders
        else:
            hit = one.file in files or one.file.startswith(folders)
        if hit:
            found.append(one)
    return found
