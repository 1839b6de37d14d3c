"""At a commit: refuse what another live agent holds, and free what was committed.

Runs as git's `pre-commit` and `post-commit`, and asks git only questions: what goes into a commit,
and when it is made, is up to whoever commits.

Who that is says the environment of the agent's shell; the nearest client above us says which part
of it counts. An agent may commit what its sub-agents have, a sub-agent not what its parent has.
Outside of any agent no lease is one's own but those of the programs that this runs under, such as
the shell of a terminal.

What this does not promise: to tell a sub-agent of Claude Code from its session, for nothing in the
environment of its shell does; so it commits as the session. `--no-verify` skips the refusal, not
the release. What an amended commit only repeats is not looked at again.
"""

from __future__ import annotations

import os
import stat
import sys
from time import monotonic

from holdfast.core import keys, rules
from holdfast.core.errors import BadKeyError, HoldfastError
from holdfast.core.model import AGENT, WRITE, Grant, Value, agent_key
from holdfast.core.time import iso
from holdfast.core.words import duration
from holdfast.gate.gitfiles import call, committed, dirty, git, inside, staged, top
from holdfast.gate.switch import switched_off
from holdfast.manager import services
from holdfast.manager.identity import CLAUDE_PID_VARIABLE, HOLDER_VARIABLE, whoami
from holdfast.manager.liveness import sees_processes
from holdfast.manager.manager import LockManager
from holdfast.manager.paths import find_root
from holdfast.manager.processes import ancestors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

    from holdfast.core.model import Witness
    from holdfast.core.view import View
    from holdfast.gate.stashing import Stasher
    from holdfast.manager.paths import Tree

BEFORE = "pre-commit"
AFTER = "post-commit"
GRANT_VARIABLE = "HOLDFAST_GRANT"

#: Each client that names its session to its shells, and its sub-agent too if it does.
_SESSIONS = (
    ("claude", "CLAUDE_CODE_SESSION_ID", ""),
    ("codex", "CODEX_SESSION_ID", "CODEX_THREAD_ID"),
)
#: How long one question to the ledger may take, whatever other processes do to it.
_STORE_SECONDS = 8.0
#: How many files are named.
_SHOWN_MAX = 20


def main(arguments: list[str]) -> int:
    """What a hook of git runs; the code to end with."""
    name = arguments[0] if arguments else ""
    if name == BEFORE:
        return _before()
    if name == AFTER:
        return _after()
    _say(f"holdfast: {name[:40]!r} is no hook of git that it knows; there is {BEFORE}, {AFTER}")
    return 2


def _before() -> int:
    try:
        refusal = refused(os.getcwd(), os.environ)
    except HoldfastError as error:
        refusal = _in_trouble(error.message, error.hint)
    except BaseException as error:  # whatever it is, nobody knows what would be committed
        refusal = _in_trouble(f"{type(error).__name__}: {error}")
    if refusal:
        _say(refusal)
    return 1 if refusal else 0


def _after() -> int:
    try:
        release(os.getcwd(), os.environ)
    except BaseException as error:  # the commit is made; its files come free with their owner
        what = error.message if isinstance(error, HoldfastError) else repr(error)
        _say(f"holdfast: committed, but your leases on these files stay for now: {what}")
    return 0


def refused(folder: str, env: Mapping[str, str]) -> str:
    """Why the commit that is being made here may not be; empty if it may."""
    root = _top(folder)
    names = staged(root)
    held = _held(root, names)
    if held:
        me = Committer(env)
        others = [one for one in held if not me.owns(one.grant)]
        if others:
            return _contains(root, env, me, others)
    if not _is_guarded(root):
        return ""
    from holdfast.gate.stashing import ALL, stashing_managers

    managers = [one for one in stashing_managers(root) if one.takes == ALL]
    held = _held(root, _unstaged(root)) if managers else []
    if held:
        me = Committer(env)
        others = [one for one in held if not me.owns(one.grant)]
        if others:
            return _would_lose(names, managers[0], others)
    return ""


def release(folder: str, env: Mapping[str, str]) -> None:
    """Free what the last commit contains, is clean now, and belongs to the agent that made it."""
    root = _top(folder)
    held = [one for one in _held(root, committed(root)) if one.grant.holder.key.startswith(AGENT)]
    if not held:
        return
    me = Committer(env)
    ours = [one for one in held if me.owns(one.grant)]
    changed = dirty(root, [one.name for one in ours]) if ours else []
    ids: dict[str, list[str]] = {}
    for one in ours:
        # What was asked for by hand has a ttl, and is given back by hand; and one lease for several
        # files is not given back for one of them.
        by_hand = one.grant.ttl is not None or len(set(one.grant.paths)) > 1
        if one.name not in changed and not by_hand:
            ids.setdefault(one.ledger, []).append(one.grant.id)
    for ledger, some in ids.items():
        with LockManager.open(ledger) as manager:
            services.release_each(manager, some, monotonic() + _STORE_SECONDS)


# Who commits


class Committer:
    """Whoever makes this commit, by all that tells its leases from those of others."""

    __slots__ = ("_agents", "_client", "_grant", "_keys", "_processes", "is_person")

    def __init__(self, env: Mapping[str, str]) -> None:
        named = _named(env)
        client, above = _up_to_client(env)
        if client:
            named = {client: named[client]} if client in named else {}
        self._agents: Final = [agent_key(name, *agent) for name, agent in named.items()]
        self._keys: Final = {whoami(env).holder.key, *self._agents}
        self._grant: Final = env.get(GRANT_VARIABLE, "")
        self._processes: Final = above
        # A client that says nothing of sessions to its shells has one in each process.
        self._client: Final = "" if named else client
        known = named or client or self._grant or env.get(HOLDER_VARIABLE)
        self.is_person: Final = not known

    def owns(self, grant: Grant) -> bool:
        """Whether a lease is the committer's own, or of an agent below it."""
        holder = grant.holder
        if grant.id == self._grant or holder.key in self._keys:
            return True
        if holder.witness in self._processes and holder.client in ("", self._client):
            return True
        # The key of a session's own agent ends so, and those of its sub-agents start with it.
        return any(key[-1] == "/" and holder.key.startswith(key) for key in self._agents)


def _named(env: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Session and sub-agent of each client that has put its own into the environment."""
    found = {}
    for client, session_variable, agent_variable in _SESSIONS:
        agent = env.get(agent_variable, "") if agent_variable else ""
        session = env.get(session_variable, "") or agent
        if session:
            found[client] = session, "" if agent == session else agent
    return found


def _up_to_client(env: Mapping[str, str]) -> tuple[str, list[Witness]]:
    """The nearest client above us, and the processes up to it; all of them if there is none.

    A client that another one started inherits the environment of that one. In a sandbox none may
    be in sight.
    """
    above = []
    for process in ancestors() if sees_processes() else ():
        above.append(process.witness)
        client = "claude" if str(process.pid) == env.get(CLAUDE_PID_VARIABLE) else process.client
        if client:
            return client, above
    return "", above


# Who holds what


class Held(Value):
    """A file that somebody alive is writing: git's name for it, the lease, its age, its ledger."""

    __slots__ = ("age", "grant", "ledger", "name")

    def __init__(self, name: str, grant: Grant, age: int, ledger: str) -> None:
        self.name: Final = name
        self.grant: Final = grant
        self.age: Final = age
        self.ledger: Final = ledger


def _top(folder: str) -> str:
    """The root of the work tree, which is where git runs its hooks."""
    return folder if os.path.lexists(f"{folder}/.git") else top(folder, inside())


def _is_guarded(folder: str) -> bool:
    ledger = find_root(folder)
    return ledger is not None and switched_off(ledger) is None


def _unstaged(root: str) -> list[str]:
    """The tracked files that differ from what is about to be committed."""
    answer = git(
        root, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--no-relative",
        "--ignore-submodules=all", "--", env=inside(),
    )  # fmt: skip
    return [os.fsdecode(name) for name in answer.split(b"\0") if name]


def _held(root: str, names: Iterable[str]) -> list[Held]:
    """Those of some files that somebody alive is writing. Where the gate is off, nobody is."""
    found: list[Held] = []
    for ledger, some in _by_ledger(root, names).items():
        with LockManager.open(ledger) as manager:
            assert manager.tree is not None
            wanted = _Keys(manager.tree, root, some)

            def look(view: View, ledger: str = ledger, wanted: _Keys = wanted) -> list[Held]:
                return [
                    Held(name, grant, view.now - grant.acquired_at, ledger)
                    for name, grant in wanted.leases(view)
                    if rules.is_live(view, grant)
                ]

            found += services.look(manager, look, monotonic() + _STORE_SECONDS)
    return sorted(found, key=lambda one: one.name)


def _by_ledger(root: str, names: Iterable[str]) -> dict[str, list[str]]:
    """Files by the ledger that each belongs to, which is the nearest above it."""
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
    """The keys under which somebody may hold files, each with git's name for it.

    By their text, for git follows no links below the root: a link that is committed is not what
    it leads to.
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
            inner = f"{real}/{name}".removeprefix(tree.root).lstrip("/")
            self._names[_key(tree, inner, status)] = name
            if status is not None and status.st_nlink > 1 and stat.S_ISREG(status.st_mode):
                self._inodes[f"{keys.INODE}:{status.st_dev}-{status.st_ino}"] = name

    def leases(self, view: View) -> list[tuple[str, Grant]]:
        """The leases to write these files, alive or not."""
        found: dict[tuple[str, str], Grant] = {}
        for key, mode, id in view.scopes(list(self._names), []):
            grant = view.grant(id) if mode == WRITE else None
            if isinstance(grant, Grant):
                found[self._names[key], id] = grant
        for grant in view.grants() if self._inodes else ():  # rare: files with two names
            for key, mode in zip(grant.keys, grant.modes, strict=True):
                if mode == WRITE and key in self._inodes:
                    found[self._inodes[key], grant.id] = grant
        return [(name, grant) for (name, _id), grant in found.items()]


def _key(tree: Tree, inner: str, status: os.stat_result | None) -> str:
    if tree.folds and not (status is not None and stat.S_ISLNK(status.st_mode)):
        try:
            return tree.place(f"{tree.root}/{inner}").key
        except BadKeyError:
            pass  # nobody can hold it, under any name
    if not inner.isascii():
        inner = keys.normal(inner)
    return keys.path((inner,))


# What is said


def _contains(root: str, env: Mapping[str, str], me: Committer, others: list[Held]) -> str:
    """To whoever commits what others are changing."""
    last = (
        "You commit outside of any agent, so none of these leases is yours. If you are sure that "
        "they belong\ninto it, git commit --no-verify does not ask."
        if me.is_person
        else "Do not go round this; if you cannot go on without it, tell your user."
    )
    return "\n".join(
        (
            "holdfast: this commit is refused, for others are changing what it contains:",
            *_listed(others),
            _leave_out(root, env, sorted({one.name for one in others})),
            "  -> or wait until its owner has committed it or is done: holdfast status",
            last,
        )
    )


def _leave_out(root: str, env: Mapping[str, str], names: list[str]) -> str:
    """How to commit the rest."""
    index = os.path.basename(env.get("GIT_INDEX_FILE", ""))
    if index.startswith("next-index-"):
        return "  -> leave it out of the files that you name, and commit the rest"
    if index.endswith(".lock"):
        return "  -> git add what is yours, and commit without -a"
    if _is_there(root, "MERGE_HEAD"):
        return "  -> a merge is committed as a whole: wait, or give it up with git merge --abort"
    words = "git restore --staged --" if _is_there(root, "HEAD") else "git rm --cached --"
    prefix = env.get("GIT_PREFIX", "")
    shown = [os.path.relpath(name, prefix) if prefix else name for name in names]
    return f"  -> {words} {_as_words(shown)}"


def _would_lose(names: list[str], manager: Stasher, others: list[Held]) -> str:
    """To whoever commits where a hook would put the work of others aside.

    The way out is for agents too: two of them with unfinished work would wait for each other.
    """
    mine = _as_words(names)
    checks = {
        "pre-commit": f"pre-commit run --files {mine}",
        "prek": f"prek run --files {mine}",
        "lint-staged": "npx lint-staged --no-stash",
    }.get(manager.name, f"what {manager.name} would run, by hand")
    return "\n".join(
        (
            f"holdfast: this commit is refused, for {manager.name} takes unfinished work of others",
            "out of the work tree while it runs, and what they write meanwhile would be lost:",
            *_listed(others),
            f"({manager.evidence}.)",
            "  -> wait until they have committed: holdfast status",
            f"  -> or run the checks so that nothing is put aside: {checks}",
            f"     and commit these files, and no others: git commit --no-verify -- {mine}",
        )
    )


def _in_trouble(what: str, hint: str = "") -> str:
    lines = [f"holdfast: this commit is refused, for nobody can say what others hold: {what}"]
    if hint:
        lines.append(f"  -> {hint}")
    lines.append("  -> holdfast doctor looks into it; a person can use git commit --no-verify")
    return "\n".join(lines)


def _listed(found: list[Held]) -> list[str]:
    lines = []
    for one in found[:_SHOWN_MAX]:
        since = iso(one.grant.acquired_at)
        whose = f"{one.grant.holder.id}, for {duration(one.age)} (since {since})"
        lines.append(f"  {_printable(one.name)}: {whose}")
    more = len(found) - _SHOWN_MAX
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _as_words(names: list[str]) -> str:
    """Names as a shell takes them; not more than can be read."""
    if not 0 < len(names) <= _SHOWN_MAX:
        return "FILE..."
    return " ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    if name.isascii() and all(one.isalnum() or one in "/._-+@%," for one in name):
        return name
    return "'" + _printable(name).replace("'", "'\\''") + "'"


def _printable(name: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in name)


def _is_there(root: str, name: str) -> bool:
    return call(root, "rev-parse", "--quiet", "--verify", name, env=inside())[0] == 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
