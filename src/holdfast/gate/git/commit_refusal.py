"""The text of a refused commit, for the agent or the person who makes it.

Each refusal names the files and their holders, and ends with what to do next.
"""

from __future__ import annotations

import os

from holdfast.core.ledger_time import iso
from holdfast.core.sentences import duration
from holdfast.gate.git.git_files import exists, git_folder, is_merging

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.gate.git.hook_managers import Stasher
    from holdfast.gate.sandbox.runner_client import Held

#: How many files are named.
_SHOWN_MAX = 20


def contains(
    root: str, env: Mapping[str, str], hook: str, others: list[Held], *, is_person: bool
) -> str:
    """For a commit with files that others are changing. `hook` is the git hook that refuses it."""
    last = (
        "Do not work around this refusal; if you cannot go on without the commit, tell your user."
    )
    if is_person:
        anyway = "git commit --no-verify skips this check."
        if hook == "pre-applypatch":
            anyway = (
                f"git -c core.hooksPath=/dev/null {_applying(root)} --continue skips this check."
            )
        last = (
            "You commit outside of any agent, so none of these leases is yours. If you are sure "
            f"that the files\nbelong in this commit, {anyway}"
        )
    return "\n".join(
        (
            "holdfast: this commit is refused: others are changing files that it contains:",
            *_listed(others),
            _leave_out(root, env, hook, sorted({one.name for one in others})),
            "  -> or wait until the owner has committed or is done: holdfast status",
            last,
        )
    )


def _leave_out(root: str, env: Mapping[str, str], hook: str, names: list[str]) -> str:
    """How to commit the rest."""
    index = os.path.basename(env.get("GIT_INDEX_FILE", ""))
    if index.startswith("next-index-"):
        return "  -> do not name these files, and commit the rest"
    if index.endswith(".lock"):
        return "  -> git add your own files, and commit without -a"
    if hook == "pre-applypatch":
        verb = _applying(root)
        return _whole("a patch", f"git {verb} --continue", f"git {verb} --abort")
    if hook == "pre-merge-commit" or is_merging(root):
        return _whole("a merge", "git commit", "git merge --abort")
    words = "git restore --staged --" if exists(root, "HEAD") else "git rm --cached --"
    return f"  -> {words} {_as_words(names, env)}"


def _whole(what: str, go_on: str, give_up: str) -> str:
    return f"  -> {what} is committed as a whole: wait, then {go_on}; or abort it: {give_up}"


def _applying(root: str) -> str:
    """The command of git that applies patches here."""
    return "rebase" if os.path.exists(f"{git_folder(root)}/rebase-apply/rebasing") else "am"


def would_lose(
    root: str,
    env: Mapping[str, str],
    hook: str,
    names: list[str],
    manager: Stasher,
    others: list[Held],
) -> str:
    """For a commit during which a hook would set the work of others aside."""
    return "\n".join(
        (
            f"holdfast: this commit is refused: {manager.name} removes unfinished work of others",
            "from the work tree while it runs, and what they write meanwhile would be lost:",
            *_listed(others),
            f"({manager.evidence}.)",
            "  -> wait until they have committed: holdfast status",
            *(
                ["     then git commit; or abort the merge: git merge --abort"]
                if hook == "pre-merge-commit" or is_merging(root)
                else _way_round(_as_words(names, env), manager)
            ),
        )
    )


def partly_staged(root: str, env: Mapping[str, str], manager: Stasher, others: list[Held]) -> str:
    """For a commit with part of a file that an agent below the committer is still changing."""
    names = _as_words(sorted({one.name for one in others}), env)
    words = "git restore --staged --" if exists(root, "HEAD") else "git rm --cached --"
    return "\n".join(
        (
            f"holdfast: this commit is refused: {manager.name} sets aside the unstaged part of",
            "partly staged files, and what their owners write meanwhile would be lost:",
            *_listed(others),
            f"({manager.evidence}.)",
            f"  -> stage them whole: git add -- {names}",
            f"  -> or leave them out: {words} {names}",
        )
    )


def _way_round(mine: str, manager: Stasher) -> list[str]:
    """How to commit without the manager, if it can be skipped. Agents need this too: two of them
    with unfinished work would wait for each other."""
    if not manager.is_skipped:
        return []
    checks = {
        "pre-commit": f"pre-commit run --files {mine}",
        "prek": f"prek run --files {mine}",
        "lint-staged": "npx lint-staged --no-stash",
    }.get(manager.name, f"what {manager.name} would run, by hand")
    return [
        f"  -> or run the checks so that nothing is put aside: {checks}",
        f"     and commit these files, and no others: git commit --no-verify -- {mine}",
    ]


def in_trouble(what: str, hint: str = "") -> str:
    """For a commit while it is unknown what others hold."""
    lines = [f"holdfast: this commit is refused: it is unknown what others hold: {what}"]
    if hint:
        lines.append(f"  -> {hint}")
    lines.append("  -> run holdfast doctor; a person can use git commit --no-verify")
    return "\n".join(lines)


def _listed(found: list[Held]) -> list[str]:
    lines = []
    for one in found[:_SHOWN_MAX]:
        since = iso(one.grant.acquired_at)
        whose = f"{one.grant.holder.id}, for {duration(one.age)} (since {since})"
        lines.append(f"  {_printable(one.name)}: {whose}")
    more = len(found) - _SHOWN_MAX
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _as_words(names: list[str], env: Mapping[str, str]) -> str:
    """Names quoted for a shell, relative to where git was called; a placeholder if too many."""
    if not 0 < len(names) <= _SHOWN_MAX:
        return "FILE..."
    prefix = env.get("GIT_PREFIX", "")
    shown = [os.path.relpath(name, prefix) for name in names] if prefix else names
    return " ".join(map(_quoted, shown))


def _quoted(name: str) -> str:
    if name.isascii() and all(one.isalnum() or one in "/._-+@%," for one in name):
        return name
    return "'" + _printable(name).replace("'", "'\\''") + "'"


def _printable(name: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in name)
