"""What git knows of files: what a commit would contain, what the last one contains, what is dirty.

The real git is asked, with output that separates names by zero bytes, so that any name is handled.
Inside a hook, git's environment names the index that the commit is made from (`git commit -a` and
`git commit PATH` make one of their own); outside of a hook it does not.

What this does not promise: a hook cannot know that a commit amends another. `staged` then has the
changes against the commit that will be replaced.
"""

from __future__ import annotations

import os

from holdfast.core.errors import HoldfastError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Variables that tie git to one repository, or to the settings of one call.
LOCAL = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS", "GIT_DIR", "GIT_GRAFT_FILE", "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE", "GIT_INTERNAL_SUPER_PREFIX", "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_REPLACE_REF_BASE", "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)  # fmt: skip
#: Those that may be relative to where a hook was started.
_PLACES = ("GIT_COMMON_DIR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_WORK_TREE")
#: Variables that change how paths are read.
_PATHSPECS = (
    "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_LITERAL_PATHSPECS", "GIT_NOGLOB_PATHSPECS",
)  # fmt: skip
#: A slow disk may delay git's answer, but not without limit.
GIT_SECONDS_MAX = 60.0
#: Where git records what it has stashed for the duration of an operation.
_AUTOSTASHES = ("rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH")
_PATHS_BYTES_MAX = 60_000


class GitError(HoldfastError):
    """git could not be started, or failed."""

    code = "E_GIT"


def outside(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for questions about a repository by its folder, from any place."""
    given = os.environ if environ is None else environ
    dropped = (*LOCAL, *_PATHSPECS)
    kept = {name: text for name, text in given.items() if name not in dropped}
    return {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}


def inside(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment as git gave it to a hook, valid in any current folder."""
    given = os.environ if environ is None else environ
    found = outside(given)
    for name in _PLACES:
        if given.get(name):
            found[name] = os.path.abspath(given[name])
    return found


def git(folder: str, *words: str, env: Mapping[str, str], input: bytes = b"") -> bytes:
    """The output of a git command. Raises GitError with its last message if it fails."""
    code, answer, said = call(folder, *words, env=env, input=input)
    if code != 0:
        raise GitError(
            f"git {words[0]} failed in {folder}: {said or f'exit code {code}'}",
            hint="run it there by hand; git says what it needs",
            folder=folder,
        )
    return answer


def call(
    folder: str, *words: str, env: Mapping[str, str], input: bytes = b""
) -> tuple[int, bytes, str]:
    """The exit code of a git command, its output, and the last line of its standard error."""
    import subprocess

    try:
        done = subprocess.run(
            ["git", "-C", folder, "--literal-pathspecs", *words], env=env, input=input,
            capture_output=True, check=False, timeout=GIT_SECONDS_MAX,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise GitError("git was not found", hint="install git, or repair PATH") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(
            f"git {words[0]} did not answer within {GIT_SECONDS_MAX:g} s",
            hint="run it by hand",
            folder=folder,
        ) from error
    said = done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    return done.returncode, done.stdout, said[-1] if said else ""


def top(repo: str, env: Mapping[str, str]) -> str:
    """The root of the work tree. In a hook that is where git runs it."""
    return _line(git(repo, "rev-parse", "--show-toplevel", env=env))


def staged(repo: str) -> list[str]:
    """The paths that the commit being made would change, add or delete; both sides of a rename.

    Relative to the root of the work tree, `/` between. In a hook, of the index that git gave it.
    """
    env = inside()
    base = "HEAD"
    if not exists(repo, "HEAD"):  # before the first commit everything is new
        base = _line(git(repo, "hash-object", "-t", "tree", "--stdin", env=env))
    return _names(
        git(
            repo, "diff-index", "--cached", "--name-only", "-z", "--no-renames",
            "--ignore-submodules=none", base, "--", env=env,
        )
    )  # fmt: skip


def committed(repo: str) -> list[str]:
    """The paths that the last commit changed; for a merge, those that it changed on this branch."""
    env = inside()
    if not exists(repo, "HEAD"):
        return []
    if not exists(repo, "HEAD^1"):
        return _names(git(repo, "ls-tree", "-r", "-z", "--name-only", "--full-tree", "HEAD",
                          env=env))  # fmt: skip
    return _names(
        git(
            repo, "diff-tree", "-r", "-z", "--name-only", "--no-renames",
            "--ignore-submodules=none", "HEAD^1", "HEAD", "--", env=env,
        )
    )  # fmt: skip


def changed_by(repo: str, commits: list[str]) -> list[str]:
    """The paths that some commits changed; for a merge, compared with its first parent."""
    found: dict[str, None] = {}
    for some in _portions(commits):
        answer = git(
            repo, "-c", "log.showRoot=true", "log", "--no-walk=unsorted", "--ignore-missing",
            "--first-parent", "-m", "--name-only", "--no-renames", "--no-ext-diff", "-z",
            "--format=", "--ignore-submodules=none", *some, "--", env=inside(),
        )  # fmt: skip
        found.update(dict.fromkeys(name.removeprefix("\n") for name in _names(answer)))
    return [name for name in found if name]


def unstaged(repo: str) -> list[str]:
    """The tracked files that differ from what is about to be committed."""
    return _names(
        git(
            repo, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative",
            "--ignore-submodules=all", "--", env=inside(),
        )
    )  # fmt: skip


def put_aside(repo: str) -> list[str]:
    """The paths that git has made clean for a while: a rebase or a merge with `--autostash` stashed
    their changes, and restores these when it is done."""
    env, folder = inside(), git_folder(repo)
    found: list[str] = []
    for place in _AUTOSTASHES:
        try:
            with open(f"{folder}/{place}", encoding="ascii") as file:
                stash = file.read().strip()
        except OSError:
            continue
        found += _names(
            git(
                repo, "diff-tree", "-r", "-z", "--name-only", "--no-renames",
                "--ignore-submodules=none", f"{stash}^1", stash, "--", env=env,
            )
        )  # fmt: skip
    return found


def is_merging(repo: str) -> bool:
    """Whether a merge is being committed, or just was: git forgets it after its last hook."""
    return exists(repo, "MERGE_HEAD")


def git_folder(repo: str) -> str:
    """The folder of git for this work tree alone."""
    return _line(git(repo, "rev-parse", "--absolute-git-dir", env=inside()))


def dirty(repo: str, paths: Iterable[str]) -> list[str]:
    """Those of some paths that differ from the last commit, staged or not, or are untracked.

    Compared by the work tree's own index, not by one that a commit made for itself. Ignored files
    are not dirty.
    """
    env = inside()
    env.pop("GIT_INDEX_FILE", None)
    wanted, root = list(dict.fromkeys(paths)), top(repo, env)
    found: set[str] = set()
    for some in _portions(wanted):
        answer = git(
            root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all",
            "--ignore-submodules=none", "--", *some, env=env,
        )  # fmt: skip
        found.update(entry[3:] for entry in _names(answer))
    return [path for path in wanted if path in found]


def _portions(paths: list[str]) -> list[list[str]]:
    """The paths in lists that fit on a command line."""
    portions: list[list[str]] = []
    room = 0
    for path in paths:
        size = len(os.fsencode(path)) + 1
        if size > room or not portions:
            portions.append([])
            room = _PATHS_BYTES_MAX
        portions[-1].append(path)
        room -= size
    return portions


def exists(repo: str, name: str) -> bool:
    """Whether git knows a commit by this name."""
    code, _answer, said = call(
        repo, "rev-parse", "--quiet", "--verify", f"{name}^{{commit}}", env=inside()
    )
    if code not in (0, 1):
        raise GitError(
            f"git rev-parse failed in {repo}: {said}", hint="run it there by hand", folder=repo
        )
    return code == 0


def _line(answer: bytes) -> str:
    return os.fsdecode(answer.removesuffix(b"\n"))


def _names(answer: bytes) -> list[str]:
    return [os.fsdecode(name) for name in answer.split(b"\0") if name]
