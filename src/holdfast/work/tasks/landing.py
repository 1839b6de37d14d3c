"""How the changes of a task become one commit, with exactly its files in it.

The commit is made apart from git's index and work tree, with git's own plumbing: an index of our
own starts as the last commit, and only the task's files are replaced in it. The branch is moved by
compare-and-swap, so a commit that a person or another task makes at the same moment is never
undone: the same files are then put on top of that one. At the end the same files are updated in the
index that people use.

Git's hooks do not run: a hook looks at the whole work tree, where other tasks are half done. Its
checks belong in the task's `check`.

`plan` writes everything to git's object database and changes nothing else. It is recorded in the
ledger before the branch moves, so a dispatcher that dies at any moment leaves enough for the next
one to finish the commit (`land`), and nothing is committed twice.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

from holdfast.core.errors import HoldfastError
from holdfast.gate.git.git_files import outside

GIT_SECONDS = 60.0
#: How many times another process may move the branch before we give up.
MOVES_MAX = 50
INDEX_SECONDS = 10.0
LOOK_SECONDS = 0.05
#: The pauses between attempts at a commit that must be made, in seconds.
PAUSES = (0.1, 0.4, 1.5, 5.0)
_SUBMODULE = "160000"
#: The mode of a file that does not exist.
_ABSENT = "000000"
_NOTHING = (_ABSENT, "")
#: How many commits are searched for one that was made before.
LOOKED_AT_MAX = 100


class CommitError(HoldfastError):
    """Git did not make a commit. The message is git's own."""

    code = "E_COMMIT"


class OldIndexError(CommitError):
    """The commit is made, and git's index still lists the files as they were before. The field
    `commit` has its id."""


class OvertakenError(CommitError):
    """Another commit has changed the same files meanwhile, in another way."""


def demand_identity(root: str) -> None:
    """Check that git can commit here: there is a repository, and the author is known. Raises
    CommitError."""
    missing = "git init"
    try:
        _git(root, "rev-parse", "--git-dir")
        missing = "git config user.name and user.email"
        _git(root, "var", "GIT_AUTHOR_IDENT")
        _git(root, "var", "GIT_COMMITTER_IDENT")
    except CommitError as error:
        raise CommitError(
            f"commits cannot be made here: {error.message}",
            hint=f"{missing}, or leave commit = true out of the list",
        ) from error


def plan(root: str, files: Sequence[str], message: str, room: str) -> dict[str, Any]:
    """What will be committed, with the content in git's object database. `room` is a folder for an
    index of our own. Raises CommitError."""
    _demand_one_repository(root, files)
    index = {"GIT_INDEX_FILE": f"{room}/plan.index"}
    _forget(index)
    try:
        head = _head(root)
        if head:
            _git(root, "read-tree", head, variables=index)
        given = b"".join(os.fsencode(path) + b"\0" for path in files)
        _git(root, "update-index", "--add", "--remove", "--replace", "-z", "--stdin",
             variables=index, input=given)  # fmt: skip
        # Not needed yet; but if there is no room for it, we find out while everything can still be
        # undone.
        _git(root, "write-tree", variables=index)
        base = head or _git(root, "hash-object", "-t", "tree", "--stdin", "-w")
        words = ("diff-index", "--cached", "--raw", "--no-renames", "-z", base)
        raw = _answer(root, words, index)
    finally:
        _forget(index)
    entries = _entries(raw)
    for one in entries:
        if one["old_mode"] == _SUBMODULE:
            raise CommitError(
                f"{one['path']} is a submodule, and this would put files in its place",
                hint="leave commit out for this task, and commit by hand",
            )
    return {"entries": entries, "message": message}


def _demand_one_repository(root: str, files: Sequence[str]) -> None:
    """Git would replace a nested repository, such as a submodule, by a file inside it. Raises
    CommitError."""
    inner = {folder for path in files for folder in _folders(path)}
    for folder in sorted(inner):
        if os.path.lexists(os.path.join(root, folder, ".git")):
            raise CommitError(
                f"{folder} is a repository of its own, whose files cannot be committed in this one",
                hint="leave commit out for this task, and commit there yourself",
            )


def _folders(path: str) -> Iterator[str]:
    """The folders above a file, inside the repository."""
    while path := os.path.dirname(path):
        yield path


def land(root: str, planned: Mapping[str, Any], room: str) -> str:
    """Make the commit, unless it exists already; its id. Empty if nothing differs from the last
    commit, or that one has these files already. Raises CommitError."""
    entries: Sequence[Mapping[str, str]] = planned["entries"]
    if not entries:
        return ""
    root = _top(root)  # in the form in which git returns file names
    for _ in range(MOVES_MAX):
        head = _head(root)
        if (other := _overtaken(root, head, entries)) is not None:
            raise OvertakenError(f"another commit has changed {other}", hint="commit it by hand")
        commit = _commit(root, head, entries, planned["message"], room)
        if not commit:  # it was interrupted after the branch had moved
            _bring_index_up_to_date(root, entries, find(root, planned))
            return ""
        said = f"commit: {planned['message'].splitlines()[0][:200]}"
        moved = _run(root, ("update-ref", "-m", said, "HEAD", commit, head))
        if moved.returncode == 0:
            _bring_index_up_to_date(root, entries, commit)
            return commit
        if _head(root) == head:
            raise CommitError(_said(moved), hint="make room for the commit, then run it again")
    raise CommitError("the branch kept moving", hint="run the list again later")


def land_patiently(root: str, planned: Mapping[str, Any], room: str, turns: Lock) -> str:
    """The commit of a task, made now or before; empty if there is none. The task can no longer be
    undone, so it is worth waiting for room on the disk or for a branch that another git has locked.
    Only one thread at a time has the turn. Raises CommitError."""
    for pause in (*PAUSES, None):
        try:
            with turns:
                return land(root, planned, room) or find(root, planned)
        except OldIndexError:
            raise
        except OvertakenError:  # also by a commit after the one that it had made itself
            if found := find(root, planned):
                return found
            raise
        except CommitError:
            if pause is None:
                raise
            time.sleep(pause)
    raise AssertionError("the last pause is None")


def find(root: str, planned: Mapping[str, Any]) -> str:
    """The commit that has these files, if a dispatcher died right after making it. Empty if there
    is none."""
    entries: Sequence[Mapping[str, str]] = planned.get("entries", ())
    if not entries:
        return ""
    root = _top(root)
    limit = f"-{LOOKED_AT_MAX}"
    words = ("--literal-pathspecs", "log", limit, "--format=%H", "--", entries[0]["path"])
    found = _run(root, words)
    commits = found.stdout.decode().split() if found.returncode == 0 else []
    return next((one for one in commits if _has(root, one, entries)), "")


def _top(root: str) -> str:
    """The folder of the whole checkout, of which the repository may be a part."""
    return os.fsdecode(_answer(root, ("rev-parse", "--show-toplevel")).rstrip(b"\n"))


def _head(root: str) -> str:
    """The last commit; empty on a branch without commits."""
    found = _run(root, ("rev-parse", "--verify", "--quiet", "HEAD^{commit}"))
    return found.stdout.decode().strip() if found.returncode == 0 else ""


def _entries(raw: bytes) -> list[dict[str, str]]:
    """The entries of `diff-index --raw -z`: a line of facts, then a path."""
    parts = raw.split(b"\0")
    found = []
    for facts, path in zip(parts[0:-1:2], parts[1::2], strict=True):
        old_mode, mode, old, new, _status = facts.decode().lstrip(":").split()
        found.append({"path": os.fsdecode(path), "mode": mode, "id": new,
                      "old_mode": old_mode, "old_id": old})  # fmt: skip
    return found


def _overtaken(root: str, head: str, entries: Sequence[Mapping[str, str]]) -> str | None:
    """A file that the last commit has neither as it was when this was planned nor as it is to be;
    None if there is none."""
    now = _listed(root, head, entries) if head else {}
    for one in entries:
        known = _fact(one["old_mode"], one["old_id"]), _new(one)
        if now.get(one["path"], _NOTHING) not in known:
            return one["path"]
    return None


def _has(root: str, commit: str, entries: Sequence[Mapping[str, str]]) -> bool:
    """Whether a commit has these files as they are to be."""
    now = _listed(root, commit, entries)
    return all(now.get(one["path"], _NOTHING) == _new(one) for one in entries)


def _new(entry: Mapping[str, str]) -> tuple[str, str]:
    return _fact(entry["mode"], entry["id"])


def _fact(mode: str, id: str) -> tuple[str, str]:
    return _NOTHING if mode == _ABSENT else (mode, id)


def _listed(
    root: str, commit: str, entries: Sequence[Mapping[str, str]]
) -> dict[str, tuple[str, str]]:
    """The mode and the id of each of these files in a commit, except those that it does not
    have."""
    paths = [one["path"] for one in entries]
    listed = _answer(root, ("--literal-pathspecs", "ls-tree", "-z", commit, "--", *paths))
    found: dict[str, tuple[str, str]] = {}
    for line in filter(None, listed.split(b"\0")):
        facts, _, path = line.partition(b"\t")
        mode, _kind, id = facts.decode().split()
        found[os.fsdecode(path)] = (mode, id)
    return found


def _commit(
    root: str, head: str, entries: Sequence[Mapping[str, str]], message: str, room: str
) -> str:
    """A commit on top of the last one; empty if it would change nothing."""
    index = {"GIT_INDEX_FILE": f"{room}/land.index"}
    _forget(index)
    try:
        if head:
            _git(root, "read-tree", head, variables=index)
        _git(root, *_BY_FACTS, variables=index, input=_facts(entries))
        tree = _git(root, "write-tree", variables=index)
    finally:
        _forget(index)
    if head and tree == _git(root, "rev-parse", f"{head}^{{tree}}"):
        return ""
    signed = _run(root, ("config", "--type=bool", "commit.gpgsign")).stdout.strip() == b"true"
    words = ["commit-tree", tree, *(("-p", head) if head else ()), *(("-S",) if signed else ())]
    return _git(root, *words, input=message.encode("utf-8", "surrogateescape"))


def _bring_index_up_to_date(root: str, entries: Sequence[Mapping[str, str]], commit: str) -> None:
    """Update these files to the commit in the index that people use, including files that a person
    has marked `skip-worktree` or `assume-unchanged`. Raises OldIndexError if another git keeps it
    locked: the next commit from it would undo this one."""
    end = time.monotonic() + INDEX_SECONDS
    while (done := _run(root, _BY_FACTS, input=_facts(entries))).returncode:
        if time.monotonic() >= end:
            raise OldIndexError(_said(done), hint="git reset -- FILES", commit=commit)
        time.sleep(LOOK_SECONDS)
    there = (one["path"] for one in entries if one["mode"] != _ABSENT)
    given = b"".join(os.fsencode(path) + b"\0" for path in there)
    # The facts alone do not show that they are unchanged. Git would check that itself, later.
    _run(root, ("update-index", "-q", "-z", "--stdin"), input=given)


#: Takes `_facts`. A file where there was a folder replaces it.
_BY_FACTS = ("update-index", "--replace", "-z", "--index-info")


def _facts(entries: Sequence[Mapping[str, str]]) -> bytes:
    # Removed files go first: a folder may have taken the place of a file.
    gone_first = sorted(entries, key=lambda one: one["mode"] != _ABSENT)
    return b"".join(
        f"{one['mode'] if one['mode'] != _ABSENT else '0'} {one['id']}\t".encode()
        + os.fsencode(one["path"]) + b"\0"
        for one in gone_first
    )  # fmt: skip


def _forget(index: Mapping[str, str]) -> None:
    for path in (index["GIT_INDEX_FILE"], f"{index['GIT_INDEX_FILE']}.lock"):
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue


def _git(
    root: str, *words: str, variables: Mapping[str, str] | None = None, input: bytes = b""
) -> str:
    return _answer(root, words, variables, input).decode().strip()


def _answer(
    root: str,
    words: Sequence[str],
    variables: Mapping[str, str] | None = None,
    input: bytes = b"",
) -> bytes:
    done = _run(root, words, variables, input)
    if done.returncode:
        raise CommitError(_said(done), hint="fix this, then run the list again")
    return done.stdout


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1] if said else f"git ended with {done.returncode}"


def _run(
    root: str,
    words: Sequence[str],
    variables: Mapping[str, str] | None = None,
    input: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    try:
        # In a session of its own: if our whole group is killed, a git that is writing continues to
        # its end, and leaves none of its lock files behind.
        return subprocess.run(
            ["git", "-C", root, *words], input=input, capture_output=True, check=False,
            env={**outside(), **(variables or {})}, timeout=GIT_SECONDS, start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommitError(f"git cannot be run: {error}", hint="install git") from error
