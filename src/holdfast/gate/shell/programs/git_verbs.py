"""git: verbs that write files they name, and verbs that may change any file of the tree.

A verb with a folder or a pattern for a path counts as one that may change any file: which ones
depends on what is committed, and git itself can tell exactly.
"""

from __future__ import annotations

import os

from holdfast.gate.shell.line_writes import TreeVerb
from holdfast.gate.shell.programs.file_tools import move, pairs
from holdfast.gate.shell.programs.operands import Options, scan
from holdfast.gate.shell.programs.patch_tools import git_apply
from holdfast.gate.shell.scope import Arg

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.gate.shell.command_calls import Call
    from holdfast.gate.shell.scope import Scope

GLOBAL_TAKES = ("--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix",
                "--config-env", "--attr-source")  # fmt: skip

#: Verbs that leave all files of the tree unchanged.
LOOKING = frozenset([
    "add", "annotate", "blame", "branch", "bugreport", "cat-file", "check-attr", "check-ignore",
    "check-mailmap", "check-ref-format", "cherry", "column", "commit-graph", "commit-tree",
    "config", "count-objects", "credential", "describe", "diagnose", "diff", "diff-files",
    "diff-index", "diff-tree", "fast-export", "fetch", "fetch-pack", "fmt-merge-msg",
    "for-each-ref", "fsck", "gc", "get-tar-commit-id", "grep", "hash-object", "help",
    "interpret-trailers", "log", "ls-files", "ls-remote", "ls-tree", "maintenance", "merge-base",
    "merge-tree", "mktree", "mktag", "name-rev", "notes", "pack-objects", "pack-refs",
    "patch-id", "prune", "range-diff", "reflog", "remote", "repack", "replace", "rerere",
    "rev-list", "rev-parse", "shortlog", "show", "show-branch", "show-index", "show-ref",
    "status", "stripspace", "symbolic-ref", "tag", "update-index", "update-ref", "var",
    "verify-commit", "verify-pack", "verify-tag", "version", "whatchanged", "write-tree",
])  # fmt: skip

#: Those of them that leave git's own data unchanged, too.
READING = LOOKING - frozenset([
    "add", "branch", "commit-graph", "commit-tree", "config", "credential", "fetch", "fetch-pack",
    "gc", "hash-object", "maintenance", "mktag", "mktree", "notes", "pack-objects", "pack-refs",
    "prune", "reflog", "remote", "repack", "replace", "rerere", "symbolic-ref", "tag",
    "update-index", "update-ref", "write-tree",
])  # fmt: skip
#: Without an argument these only list.
LISTING = frozenset(["branch", "reflog", "remote", "tag"])

#: Verbs that may change any file, whatever their options.
WHOLE = frozenset(["rebase", "merge", "pull", "cherry-pick", "revert", "am"])


class Git:
    """One call of git: the verb, its words, and the folder it works in."""

    __slots__ = ("args", "call", "scope", "verb")

    def __init__(self, call: Call, scope: Scope, verb: str, args: list[Arg]) -> None:
        self.call = call
        self.scope = scope
        self.verb = verb
        self.args = args

    def tree(self) -> None:
        plain = all(arg.known for arg in self.args)
        words = tuple(arg.text if arg.known else arg.raw for arg in self.args)
        self.call.walk.tree(TreeVerb(self.verb, words, self.scope.cwd or "", plain))

    def doubt(self) -> None:
        self.call.walk.doubt()

    def path(self, arg: Arg) -> str | None:
        return self.scope.path(arg.text) if arg.known else None

    def is_wide(self, arg: Arg) -> bool:
        """Whether a path may mean more than one file."""
        if arg.text.startswith(":") or arg.text in (".", "..", "/"):
            return True
        magic = any(c in arg.text for c in "*?[")
        path = self.path(arg)
        return self.call.walk.is_folder(path) or (magic and not self.call.walk.file_exists(path))

    def write_paths(self, paths: list[Arg]) -> None:
        """Paths that the verb writes; if one of them is wide, it may write any file."""
        if any(self.is_wide(arg) for arg in paths if arg.known and not arg.unmatched):
            self.tree()
            return
        if any(arg.unmatched for arg in paths):
            self.tree()
            return
        for arg in paths:
            if arg.known:
                self.call.walk.write(arg.text, self.scope)
            else:
                self.doubt()


def git(call: Call) -> str | None:
    scope = call.scope
    args = call.args
    autostash: list[Arg] = []
    while args and args[0].text.startswith("-"):
        option, equals, value = args[0].text.partition("=")
        known = args[0].known
        if option in ("-C", "-c") or (option in GLOBAL_TAKES and not equals):
            if len(args) < 2:
                return None
            value, known = args[1].text, args[1].known
            args = args[1:]
        args = args[1:]
        if option == "-c" and value.lower().endswith(".autostash=true"):
            autostash = [Arg("--autostash")]
        if option in ("-C", "--work-tree"):
            scope = scope.copy()
            scope.enter(scope.folder(value) if known and value else None)
    if not args:
        return None
    if not args[0].known:
        call.walk.doubt()
        return None
    verb = args[0].text
    one = Git(call, scope, verb, args[1:])
    if not _only_tells(verb, one.args):
        call.walk.alter()
    if verb in ("merge", "pull", "rebase"):
        one.args += autostash
    if verb in VERBS:
        return VERBS[verb](one)
    if verb in WHOLE:
        one.tree()
    elif verb in LOOKING:
        return look(one)
    else:
        call.walk.doubt()
    return None


def _only_tells(verb: str, args: list[Arg]) -> bool:
    if verb in LISTING:
        return all(arg.known and arg.text.startswith("-") for arg in args)
    return verb in READING


def look(one: Git) -> str | None:
    words = [arg.text for arg in one.args]
    for arg in one.args:
        if arg.text.startswith("--output=") and one.verb in ("diff", "log", "show", "diff-tree"):
            target = arg.part(9)
            if target.known:
                one.call.walk.write(target.text, one.scope)
            else:
                one.doubt()
    if one.verb == "rev-parse" and words == ["--show-toplevel"]:
        top = find_top(one.scope.cwd)
        return top + "\n" if top else None
    return None


def find_top(folder: str | None) -> str | None:
    """The working tree that contains a folder, found by its `.git`."""
    while folder:
        if os.path.lexists(folder.rstrip("/") + "/.git"):
            return folder
        if folder == "/":
            return None
        folder = folder.rpartition("/")[0] or "/"
    return None


def is_revision(one: Git, name: str) -> bool:
    """Whether a name is certainly a branch or tag, judged by git's own files."""
    if name in ("HEAD", "-", "@", "FETCH_HEAD", "ORIG_HEAD", "MERGE_HEAD"):
        return True
    top = find_top(one.scope.cwd)
    if not top or name.startswith("/") or ".." in name or "\0" in name:
        return False
    store = top.rstrip("/") + "/.git"
    for kind in ("refs/heads/", "refs/tags/", "refs/remotes/", "refs/"):
        if os.path.isfile(f"{store}/{kind}{name}"):
            return True
    packed = one.call.walk.file_text(store + "/packed-refs") or ""
    return any(f" {kind}{name}\n" in packed for kind in ("refs/heads/", "refs/tags/"))


def split_paths(args: list[Arg]) -> tuple[list[Arg], list[Arg] | None]:
    """The words before `--`, and those after it (None without one)."""
    for number, arg in enumerate(args):
        if arg.text == "--" and arg.known:
            return args[:number], args[number + 1 :]
    return args, None


def checkout(one: Git) -> str | None:
    before, paths = split_paths(one.args)
    found = scan(before, "bB", ("--orphan", "--conflict", "--pathspec-from-file"))
    operands = found.operands
    if found.has("-b", "-B", "--orphan"):
        if operands and not (len(operands) == 1 and operands[0].text == "HEAD"):
            one.tree()  # a new branch, but from another commit
        return None
    if found.has("-p", "--patch", "--pathspec-from-file") or any(arg.loose for arg in operands):
        one.tree()
    elif paths is not None and paths:
        one.write_paths(paths)
    elif len(operands) == 1 and paths is None:
        arg = operands[0]
        file = one.call.walk.file_exists(one.path(arg)) and not is_revision(one, arg.text)
        ours = found.has("--ours", "--theirs")
        if file or ours:
            one.write_paths(operands)
        else:
            one.tree()
    elif operands:
        first = operands[0]
        file = one.call.walk.file_exists(one.path(first)) and not is_revision(one, first.text)
        one.write_paths(operands if file or found.has("--ours", "--theirs") else operands[1:])
    elif found.has("-f", "--force"):
        one.tree()
    return None


def switch(one: Git) -> str | None:
    found = scan(one.args, "cC", ("--create", "--force-create", "--orphan", "--conflict"))
    creates = found.has("-c", "-C", "--create", "--force-create")
    if not (creates and not found.operands) and one.args:
        one.tree()
    return None


def restore(one: Git) -> str | None:
    before, paths = split_paths(one.args)
    found = scan(before, "s", ("--source", "--conflict", "--pathspec-from-file"))
    if found.has("-S", "--staged") and not found.has("-W", "--worktree"):
        return None
    if found.has("-p", "--patch", "--pathspec-from-file"):
        one.tree()
    else:
        one.write_paths([*found.operands, *(paths or [])])
    return None


def reset(one: Git) -> str | None:
    if scan(split_paths(one.args)[0]).has("--hard", "--merge", "--keep"):
        one.tree()
    elif any(arg.loose for arg in one.args):
        one.doubt()
    return None


def stash(one: Git) -> str | None:
    action = one.args[0].text if one.args and one.args[0].text[:1] != "-" else "push"
    if action in ("list", "show", "drop", "clear", "create", "store", "export", "import"):
        return None
    _, paths = split_paths(one.args)
    if action == "push" and paths:
        one.write_paths(paths)
    else:
        one.tree()
    return None


def clean(one: Git) -> str | None:
    if not scan(one.args, "e", ("--exclude",)).has("-n", "--dry-run"):
        one.tree()
    return None


def bisect(one: Git) -> str | None:
    action = one.args[0].text if one.args else ""
    if action not in ("", "log", "view", "visualize", "terms", "help"):
        one.tree()
        if action == "run":
            one.doubt()
    return None


def rm(one: Git) -> str | None:
    found = scan(one.args, "", ("--pathspec-from-file",))
    if found.has("--cached", "-n", "--dry-run"):
        return None
    for arg in found.operands:
        path = one.path(arg)
        folder = one.call.walk.is_folder(path)
        if not arg.known or arg.unmatched or (one.is_wide(arg) and not folder):
            one.doubt()
        elif not folder or found.has("-r"):
            one.call.walk.write(arg.text, one.scope, folder)
    return None


def mv(one: Git) -> str | None:
    found = scan(one.args)
    if not found.has("-n", "--dry-run"):
        call = one.call.again(one.call.words, one.scope)
        move(call, pairs(call, found.operands, None, False))
    return None


def apply(one: Git) -> str | None:
    folder = one.scope.cwd
    if folder is None:
        one.doubt()
        return None
    call = one.call.again(one.call.words, one.scope)
    git_apply(call, one.args, folder, find_top(folder) or folder)
    return None


def commit(one: Git) -> str | None:
    """Its hooks may do anything to the tree."""
    if not scan(one.args, "mFCct", ("--message", "--file")).has("--dry-run"):
        one.doubt()
    return None


def push(one: Git) -> str | None:
    if not scan(one.args, "o").has("--no-verify", "-n", "--dry-run"):
        one.doubt()
    return None


def with_harmless(*words: str) -> Callable[[Git], str | None]:
    """A verb whose first word decides whether it only reads."""

    def handler(one: Git) -> str | None:
        if not one.args or one.args[0].text not in words:
            one.doubt()
        return None

    return handler


def named_output(*names: str) -> Callable[[Git], str | None]:
    """A verb that writes the file named by an option."""

    def handler(one: Git) -> str | None:
        found: Options = scan(one.args, "o", ("--output", "--format", "--prefix"))
        for target in found.values(*names):
            if target.known:
                one.call.walk.write(target.text, one.scope)
            else:
                one.doubt()
        return None

    return handler


def format_patch(one: Git) -> str | None:
    if not scan(one.args).has("--stdout"):
        one.doubt()
    return None


def merge_file(one: Git) -> str | None:
    found = scan(one.args, "L", ("--marker-size",))
    if not found.has("-p", "--stdout") and found.operands:
        one.write_paths(found.operands[:1])
    return None


def read_tree(one: Git) -> str | None:
    if scan(one.args).has("-u", "--reset"):
        one.tree()
    return None


VERBS: dict[str, Callable[[Git], str | None]] = {
    "checkout": checkout, "switch": switch, "restore": restore, "reset": reset, "stash": stash,
    "clean": clean, "bisect": bisect, "rm": rm, "mv": mv, "apply": apply, "commit": commit,
    "push": push, "worktree": with_harmless("list", "prune", "lock", "unlock"),
    "submodule": with_harmless("status", "summary"), "lfs": with_harmless("ls-files", "status"),
    "sparse-checkout": with_harmless("list"), "bundle": with_harmless("verify", "list-heads"),
    "archive": named_output("-o", "--output"), "format-patch": format_patch,
    "merge-file": merge_file, "read-tree": read_tree,
}  # fmt: skip
