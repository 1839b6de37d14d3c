"""At a commit: refuse files that another live agent holds, and free the committed files.

Runs as those hooks of git that come before a commit and after it, and only reads from git: what
goes into a commit, and when, is the committer's decision. One exception: changes that a hook staged
in an index of its own (`commit_index`) are staged for the commit, as they are without Holdfast.

    git commit, also --amend, -a, PATH    pre-commit, post-commit
    git merge, git pull                   pre-merge-commit, post-merge
    git am, git rebase --apply            pre-applypatch, post-applypatch
    git cherry-pick, revert               post-commit alone; after a conflict as git commit
    git rebase                            post-commit alone

What this does not promise: `--no-verify` skips the refusal, not the release. Changes that an
amended commit only repeats are not checked again.
"""

from __future__ import annotations

import os
import stat
import sys
from time import monotonic

from holdfast.core import keys, rules
from holdfast.core.errors import BadKeyError, HoldfastError, StoreReadonlyError
from holdfast.core.model import AGENT, SECOND, WRITE, Grant
from holdfast.gate import pending_writes
from holdfast.gate.config.off_switch import switched_off
from holdfast.gate.config.settings import Settings
from holdfast.gate.git.commit_refusal import (
    contains,
    in_trouble,
    partly_staged,
    would_lose,
)
from holdfast.gate.git.committer import Committer
from holdfast.gate.git.git_files import (
    committed,
    dirty,
    inside,
    is_merging,
    put_aside,
    staged,
    top,
    unstaged,
)
from holdfast.gate.git.hook_folder import folders
from holdfast.gate.git.hook_managers import ALL, stashing_managers
from holdfast.gate.git.hook_scripts import AGAIN, FIRST, SHIELD, is_ours, read
from holdfast.gate.sandbox import runner_client
from holdfast.gate.sandbox.runner_client import Held
from holdfast.manager import transactions
from holdfast.manager.files.paths import file_of, find_root
from holdfast.manager.manager import LockManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Final, Protocol

    from holdfast.core.model import Decision, Holder
    from holdfast.core.view import View
    from holdfast.gate.git.hook_managers import Stasher
    from holdfast.manager.files.paths import Tree

    class Author(Protocol):
        """A committer: which leases are its own."""

        def is_holder(self, holder: Holder) -> bool: ...

        def owns(self, manager: LockManager, grant: Grant) -> bool: ...


BEFORE_COMMIT = "pre-commit"
BEFORE_MERGE = "pre-merge-commit"
BEFORE_PATCH = "pre-applypatch"
AFTER_COMMIT = "post-commit"
AFTER_MERGE = "post-merge"
AFTER_PATCH = "post-applypatch"
#: Runs after a worktree was made, among other occasions.
AFTER_CHECKOUT = "post-checkout"
#: The hooks of git that refuse, and those that release.
CHECKS = (BEFORE_COMMIT, BEFORE_MERGE, BEFORE_PATCH)
RELEASES = (AFTER_COMMIT, AFTER_MERGE, AFTER_PATCH)

#: Which further hooks a commit runs: a hook manager may stash in each of them.
_FOLLOWING = {
    BEFORE_COMMIT: ("prepare-commit-msg", "commit-msg", AFTER_COMMIT),
    BEFORE_MERGE: ("prepare-commit-msg", "commit-msg", AFTER_MERGE),
    BEFORE_PATCH: (),
}
#: The hooks that run before a commit is made, and may see what it will contain.
_BEFORE = (*CHECKS, "prepare-commit-msg", "commit-msg")
#: How long one question to the ledger may take, whatever other processes do to it.
_STORE_SECONDS = 8.0


def main(arguments: list[str]) -> int:
    """The entry point of git's hooks; the exit code."""
    name = arguments[0] if arguments else ""
    if SHIELD in arguments[1:2]:
        return _shield(name)
    if name in CHECKS:
        return _check(name, arguments[1:])
    if name in RELEASES:
        return _release(name)
    if name == AFTER_CHECKOUT:
        return _furnish()
    known = ", ".join((*CHECKS, *RELEASES, AFTER_CHECKOUT))
    _say(f"holdfast: unknown git hook {name[:40]!r}; known: {known}")
    return 2


def _check(name: str, told: list[str]) -> int:
    """Check before a hook that was there, and again after it. Prints the path of the index with
    which that hook has to run, if any."""
    copy = ""
    try:
        if told[:1] == [AGAIN] and told[1:]:
            from holdfast.gate.git import commit_index

            commit_index.bring_back(_top(os.getcwd()), told[1])
        refusal = refused(os.getcwd(), os.environ, name, again=AGAIN in told)
        if not refusal and FIRST in told:
            copy = shielded(os.getcwd(), os.environ, name)
    except HoldfastError as error:
        refusal = in_trouble(error.message, error.hint)
    except BaseException as error:  # of any kind: it is unknown what would be committed
        refusal = in_trouble(f"{type(error).__name__}: {error}")
    if refusal:
        _say(refusal)
    sys.stdout.write(copy)
    return 1 if refusal else 0


def _furnish() -> int:
    """A linked worktree was made: give agents that are started in it hooks, too."""
    try:
        from holdfast.gate.install.worktree_hooks import furnish

        root = _top(os.getcwd())
        told = runner_client.furnish(root) if runner_client.address() else furnish(root)
    except BaseException as error:  # the worktree exists, with or without hooks
        what = error.message if isinstance(error, HoldfastError) else repr(error)
        told = [f"agents in this worktree may have no hooks: {what}", "run: holdfast init"]
    for line in told:
        _say(f"holdfast: {line}")
    return 0


def _shield(name: str) -> int:
    """The same for a hook that neither refuses nor runs again."""
    try:
        sys.stdout.write(shielded(os.getcwd(), os.environ, name))
    except BaseException as error:  # the hook then runs as it would without Holdfast
        _say(f"holdfast: the work of others is not hidden from the {name} hook: {error}")
        return 1
    return 0


def _release(name: str) -> int:
    try:
        root = _top(os.getcwd())
        if runner_client.address():
            runner_client.note_commit(
                root
            )  # the leases are those of the broker that this runs below
            return 0
        if name != AFTER_MERGE or is_merging(root):  # else nothing was committed: a fast-forward
            release(root, os.environ)
        from holdfast.gate.git import hook_repair

        hook_repair.commit_was_seen(root)
    except BaseException as error:  # the commit is made; its files come free with their owner
        what = error.message if isinstance(error, HoldfastError) else repr(error)
        _say(f"holdfast: committed, but your leases on these files remain for now: {what}")
    return 0


def refused(
    folder: str, env: Mapping[str, str], name: str = BEFORE_COMMIT, *, again: bool = False
) -> str:
    """Why the commit that is being made here is refused; empty if it is not.

    `name` is the hook that asks. With `again`, the hook that was there before has run meanwhile.
    """
    root = _top(folder)
    names = staged(root)
    others = _of_others(root, names, env)
    if others:
        return contains(root, env, name, others, is_person=Committer(env).is_person)
    if not _is_guarded(root):
        return ""
    hooks = _FOLLOWING[name] if again else (name, *_FOLLOWING[name])
    managers = stashing_managers(root, hooks)
    return _endangered(root, env, name, names, managers) if managers else ""


def _endangered(
    root: str, env: Mapping[str, str], name: str, names: list[str], managers: list[Stasher]
) -> str:
    """The refusal if hook managers would harm the work of others; else empty."""
    changed, hooks = unstaged(root), folders(root).now
    unshielded = [one for one in managers if one.takes == ALL and not _is_shielded(hooks, one)]
    others = _of_others(root, changed, env) if unshielded else []
    if others:
        return would_lose(root, env, name, names, unshielded[0], others)
    partly = sorted({*names} & {*changed})
    others = _of_others(root, partly, env, below=False) if partly else []
    return partly_staged(root, env, managers[0], others) if others else ""


def _is_shielded(hooks: str, manager: Stasher) -> bool:
    """Whether Holdfast's hook runs a manager, with an index that hides the work of others."""
    return manager.can_be_shielded and is_ours(read(f"{hooks}/{manager.hook}"))


def shielded(folder: str, env: Mapping[str, str], name: str) -> str:
    """The path of the index with which the other hook of this name must run, because it would set
    the work of others aside. Empty if it may run with the commit's own index."""
    root = _top(folder)
    if not _is_guarded(root):
        return ""
    managers = stashing_managers(root, (name,))
    if not any(one.takes == ALL and one.can_be_shielded for one in managers):
        return ""
    if not _are_others_at_work(root, Committer(env)):
        return ""  # a committer who is alone has the checks as without Holdfast
    from holdfast.gate.git import commit_index

    return commit_index.copy_index(root, staged(root) if name in _BEFORE else ())


def _are_others_at_work(root: str, me: Committer) -> bool:
    try:
        return are_others_at_work(root, me)
    except StoreReadonlyError:
        if not runner_client.address():
            raise
        return runner_client.are_others_at_work(root)  # below a broker, which can read the ledger


def are_others_at_work(root: str, me: Author) -> bool:
    """Whether an agent other than the committer may be writing in this work tree, or may begin to
    while a hook runs."""
    from holdfast.gate.rulebook import agent_records

    def look(view: View) -> bool:
        agents = (one.in_process(one.witness) for one in agent_records.present(view))
        holders = (grant.holder for grant in view.grants() if rules.is_live(view, grant))
        return any(
            not me.is_holder(one) and (one.witness is None or not view.dead(one.witness, ()))
            for one in (*agents, *holders)
        )

    ledgers = {find_root(root) or "", *_by_ledger(root, unstaged(root))}
    for ledger in filter(None, ledgers):
        with LockManager.open(ledger) as manager:
            if transactions.look(manager, look, monotonic() + _STORE_SECONDS):
                return True
    return False


def release(folder: str, env: Mapping[str, str]) -> None:
    """Free the files of the last commit that are clean now and belong to the committing agent."""
    root = _top(folder)
    for ledger, names in _by_ledger(root, committed(root)).items():
        with LockManager.open(ledger) as manager:
            free(manager, root, names, Committer(env))


def free(manager: LockManager, root: str, names: Iterable[str], me: Author) -> list[Grant]:
    """Release the committer's leases on those of the committed files that are clean now."""
    return _free(manager, root, names, lambda one: me.owns(manager, one.grant))


def free_unseen(folder: str, names: Iterable[str]) -> None:
    """The same after a commit that no hook of Holdfast saw, so its committer is unknown: frees the
    leases of owners that had changed these files and are not about to change them again."""
    root = _top(folder)
    from holdfast.gate.file_stamps import stamp_at

    for ledger, some in _by_ledger(root, names).items():

        def is_done(one: Held, ledger: str = ledger) -> bool:
            grant = one.grant
            was_changed = (
                not grant.stamp or stamp_at(file_of(ledger, grant.paths[0])) != grant.stamp
            )
            return was_changed and not pending_writes.is_busy(ledger, grant.holder.key, grant.keys)

        with LockManager.open(ledger) as manager:
            _free(manager, root, some, is_done)


def _free(
    manager: LockManager, root: str, names: Iterable[str], may: Callable[[Held], bool]
) -> list[Grant]:
    """Leases that were requested by hand stay: they have a ttl, or cover several files."""
    ours = [
        one
        for one in held(manager, root, names)
        if one.grant.holder.key.startswith(AGENT)
        and one.grant.ttl is None
        and len(set(one.grant.paths)) == 1
        and may(one)
    ]
    if not ours:
        return []
    changed = {*dirty(root, [one.name for one in ours]), *put_aside(root)}
    ids = [one.grant.id for one in ours if one.name not in changed]
    from holdfast.gate.people.notices import decide_and_tell
    from holdfast.gate.rulebook.event_decisions import commit

    ledger = manager.tree.root if manager.tree is not None else ""

    def is_writing(key: str, keys: Sequence[str]) -> bool:
        return pending_writes.is_writing(ledger, key, keys)

    return decide_and_tell(
        manager, lambda view: commit(view, ids, is_writing), monotonic() + _STORE_SECONDS
    )


# Holders


def _top(folder: str) -> str:
    """The root of the work tree, where git runs its hooks."""
    return folder if os.path.lexists(f"{folder}/.git") else top(folder, inside())


def _is_guarded(folder: str) -> bool:
    ledger = find_root(folder)
    return ledger is not None and switched_off(ledger) is None


def _of_others(
    root: str, names: Iterable[str], env: Mapping[str, str], *, below: bool = True
) -> list[Held]:
    """Those of some files that a live holder other than the committer is writing. Without `below`
    the agents below the committer count as others."""
    found: list[Held] = []
    for ledger, some in _by_ledger(root, names).items():
        try:
            found += _others_in(ledger, root, some, Committer(env), below)
        except StoreReadonlyError:
            if not runner_client.address():
                raise
            # Below a broker the ledger is not accessible, and the broker answers for it.
            found += runner_client.held_by_others(root, some)
    return sorted(found, key=lambda one: one.name)


def _others_in(
    ledger: str, root: str, names: Iterable[str], me: Committer, below: bool
) -> list[Held]:
    with LockManager.open(ledger) as manager:
        others = [
            one
            for one in held(manager, root, names)
            if not (me.owns(manager, one.grant) if below else me.is_holder(one.grant.holder))
        ]
        _limit(manager, ledger, others)
    return others


def _limit(manager: LockManager, ledger: str, others: list[Held]) -> None:
    """Give an end to leases whose owners cannot be judged from here: they block a commit only for a
    while."""
    if not others:
        return
    from holdfast.gate.rulebook.event_decisions import limit

    length = round(Settings.load(ledger, lenient=True).foreign_seconds * SECOND)

    def rule(view: View) -> Decision[None]:
        return limit(view, [one.grant.id for one in others], length)

    end = monotonic() + _STORE_SECONDS
    if transactions.look(manager, rule, end).events:
        transactions.decide(manager, rule, end)


def held(manager: LockManager, root: str, names: Iterable[str]) -> list[Held]:
    """Those of some files of one ledger that a live holder is writing."""
    assert manager.tree is not None
    wanted = _Keys(manager.tree, root, names)

    def look(view: View) -> list[Held]:
        return [
            Held(name, grant, view.now - grant.acquired_at)
            for name, grant in wanted.leases(view)
            if rules.is_live(view, grant)
        ]

    return transactions.look(manager, look, monotonic() + _STORE_SECONDS)


def _by_ledger(root: str, names: Iterable[str]) -> dict[str, list[str]]:
    """Files by the ledger that each belongs to, which is the nearest above it. Files whose gate is
    off belong to none."""
    ledgers: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for name in names:
        folder = f"{root}/{name}".rpartition("/")[0]
        if folder not in ledgers:
            ledgers[folder] = (find_root(folder) or "") if _is_guarded(folder) else ""
        if ledgers[folder]:
            found.setdefault(ledgers[folder], []).append(name)
    return found


class _Keys:
    """The keys under which files may be held, each with git's name for it.

    Made from their text, because git follows no links below the root: a committed link is not the
    file that it leads to.
    """

    __slots__ = ("_inodes", "_names")

    def __init__(self, tree: Tree, root: str, names: Iterable[str]) -> None:
        self._names: Final[dict[str, str]] = {}
        self._inodes: Final[dict[str, str]] = {}
        real = os.path.realpath(root)
        for name in names:
            try:
                status = os.lstat(f"{root}/{name}")
            except OSError:
                status = None
            inner = _from(tree.root, f"{real}/{name}")
            self._names[_key(tree, inner, status)] = name
            if status is not None and status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                self._inodes[tree.inode(status)] = name

    def leases(self, view: View) -> list[tuple[str, Grant]]:
        """The leases to write these files, alive or not."""
        found: dict[tuple[str, str], Grant] = {}
        for names in (self._names, self._inodes):
            for key, mode, id in view.scopes(list(names), []):
                grant = view.grant(id) if mode == WRITE else None
                if isinstance(grant, Grant):
                    found[names[key], id] = grant
        return [(name, grant) for (name, _id), grant in found.items()]


def _from(root: str, file: str) -> str:
    """The path of a file from the root of the ledger, which may be that of another checkout."""
    return file[len(root) + 1 :] if file.startswith(f"{root}/") else os.path.relpath(file, root)


def _key(tree: Tree, inner: str, status: os.stat_result | None) -> str:
    if tree.folds and not (status is not None and stat.S_ISLNK(status.st_mode)):
        try:
            return tree.place(f"{tree.root}/{inner}").key
        except BadKeyError:
            pass  # it cannot be held under any name
    if not inner.isascii():
        inner = keys.normal(inner)
    return keys.path((inner,))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
