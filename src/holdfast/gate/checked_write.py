"""safe_write: the last check before a file changes.

A write passes if all of these conditions hold, and is refused with the first that does not:

1. the path lies in the tree and, if there is an allowlist, in one of its folders, after all
   symbolic links have been followed;
2. the grant is live: it was granted, and not released, expired or taken away, and its owner is not
   dead; and it is the caller's, or the caller was given its token (`is_foreign`);
3. the grant covers exactly this path for writing; a folder or another name of the file is not
   enough;
4. the token is the grant's current one.

Then the file is replaced inside a fenced section, in which the second and fourth conditions are
checked again: a caller that has just lost the lease changes nothing.

Without a grant (`None`, and nothing else) the write happens as if there were no locks, except that
a file that another holder has locked is not written: a momentary lock, taken in the caller's name
(see `holdfast.manager.owners.identity`), ensures that. The caller's own locks do not refuse it.

What this does not promise: it does not stop programs that write without it.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import events, keys, rules, sentences
from holdfast.core.errors import BadKeyError, LockViolationError, Lost
from holdfast.core.model import WRITE, Grant, Holder, Refusal
from holdfast.gate.replacement import Moved, replacement
from holdfast.manager import request_limits
from holdfast.manager.files import realpath
from holdfast.manager.files.paths import Place, Words, find_root, home_root
from holdfast.manager.ledger import DEADLINE_SECONDS
from holdfast.manager.manager import LockManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Final

    Path = str | os.PathLike[str]

# The reasons: the field `reason` of the error.
NOT_ALLOWED = "not_allowed"
OUTSIDE = "outside"
UNKNOWN = "unknown"
FOREIGN = "foreign"
RELEASED = "released"
EXPIRED = "expired"
LOST = "lost"
NOT_COVERED = "not_covered"
STALE_TOKEN = "stale_token"
HELD = "held"
MOVED = "moved"

_HINTS = {
    NOT_ALLOWED: "write below one of the allowed paths, or have this one added",
    OUTSIDE: "write below the root of the tree, and through no link that leads out of it",
    UNKNOWN: "pass the id of the grant that you acquired, or none to write without a lock",
    FOREIGN: "acquire the lock yourself; if its holder gave you this grant, pass its token too",
    RELEASED: "acquire the lock before you write, and release it afterwards",
    EXPIRED: "stop writing; acquire the lock again, and reread the file before you continue",
    LOST: "stop writing: another holder has taken over; reread the file first",
    NOT_COVERED: "request every file that you will write with the lock; a grant is never extended",
    STALE_TOKEN: "pass the token that came with this grant",
    HELD: "wait until it is released; if it is yours, write with its grant_id",
    MOVED: "another program is moving files there; check the path and try again",
}

#: How many events are searched to tell a released grant from one that never existed.
_RECENT_EVENTS = 10_000

#: How long the lock of a write without a grant lasts if its process hangs.
MOMENT_SECONDS = 60.0


def safe_write(
    path: Path,
    content: str | bytes,
    *,
    grant_id: str | None = None,
    token: int | None = None,
    manager: LockManager | None = None,
    allowed_write_paths: Iterable[Path] | None = None,
) -> str:
    """Replace or create a file, if that is permitted. Returns the path as the ledger spells it.

    Raises LockViolationError with the field `reason` if it is not. Text is written as UTF-8.
    Relative paths start at the root of the manager's tree; without a manager they start at the
    current folder, and the ledger is the nearest above the file. Without `token` the grant's own
    is taken from the ledger. Missing folders are created. The system's own errors (no space, no
    permission) are OSErrors, and then nothing has changed.
    """
    data = _bytes(content)
    if manager is not None:
        find = _in_memory if manager.tree is None else _in_tree
        target = find(path, manager, grant_id)
        return _write(target, data, grant_id, token, allowed_write_paths)
    target = _anywhere(path, grant_id, bounded=allowed_write_paths is None)
    if target.manager is None:
        return _write(target, data, grant_id, token, allowed_write_paths)
    with target.manager:
        return _write(target, data, grant_id, token, allowed_write_paths)


def _bytes(content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8")
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise TypeError(f"content is text or bytes, not {type(content).__name__}")


# Where it goes


class _Target:
    """The file: its place in the ledger, and the way to it from a root that is a real path."""

    __slots__ = ("base", "manager", "names", "path", "place", "root")

    def __init__(
        self, place: Place, path: str, root: str, base: str, manager: LockManager | None
    ) -> None:
        self.place: Final = place
        self.path: Final = path
        self.root: Final = root
        self.base: Final = base
        self.manager: Final = manager
        self.names: Final = tuple(place.real[len(root) :].strip("/").split("/"))


def _in_tree(
    path: Path, manager: LockManager, grant_id: str | None, base: str | None = None
) -> _Target:
    """A path in the tree of a manager that has one."""
    tree = manager.tree
    assert tree is not None
    try:
        place = tree.place(path, base=base)
    except BadKeyError as error:
        if "root" not in error.fields:
            raise
        raise violation(OUTSIDE, error.message, os.fspath(path), grant_id) from error
    _refuse_other_than_files(place)
    return _Target(place, place.path, tree.root, base or tree.root, manager)


def _in_memory(path: Path, manager: LockManager, grant_id: str | None) -> _Target:
    """A path by its words, below the current folder. No link may be on the way, for words do
    not tell where it leads."""
    place = Words().place(path)
    _refuse_other_than_files(place)
    root = os.getcwd()
    full = os.path.join(root, os.path.normpath(os.fspath(path)))
    real, status, _ = realpath.resolve(full, place.path)
    if real != full:
        sentence = f"{place.path} leads to {realpath.plain(real)}"
        raise violation(OUTSIDE, sentence, place.path, grant_id)
    found = Place(place.key, place.path, real, _is_folder(status))
    _refuse_other_than_files(found)
    return _Target(found, place.path, root, root, manager)


def _anywhere(path: Path, grant_id: str | None, *, bounded: bool) -> _Target:
    """A path that is given without a manager: the ledger above it decides, if there is one."""
    given, here = os.fspath(path), realpath.absolute(".")
    real, status, _ = realpath.resolve(realpath.absolute(given), given)
    ledger = find_root(real)
    if grant_id is not None and ledger is None:
        sentence = f"there is no grant {_shown(grant_id)}: {given} is not in a tree with a ledger"
        raise violation(UNKNOWN, sentence, given, grant_id)
    if bounded and grant_id is None:
        _refuse_outside(given, real, home_root(here))
    if ledger is not None:
        manager = LockManager.open(ledger)
        try:
            return _in_tree(path, manager, grant_id, here)
        except BaseException:
            manager.close()
            raise
    place = Place("", given, real, _is_folder(status))
    if place.folder:
        raise request_limits.over_lock(given)
    return _Target(place, given, "/" if os.name == "posix" else os.path.dirname(real), here, None)


def _refuse_outside(given: str, real: str, root: str) -> None:
    if not real.startswith(root if root.endswith("/") else f"{root}/"):
        sentence = f"{given} lies outside the tree of {realpath.plain(root)}"
        raise violation(OUTSIDE, sentence, given)


def _refuse_other_than_files(place: Place) -> None:
    if place.folder:
        raise request_limits.over_lock(place.path)
    if keys.kind(place.key) != "path":
        raise BadKeyError(
            f"{place.key} is not a file",
            hint=f"a file of that name is ./{place.key}",
            key=place.key,
        )


def _is_folder(status: os.stat_result | None) -> bool:
    import stat

    return status is not None and stat.S_ISDIR(status.st_mode)


# Whether it may


def _write(
    target: _Target,
    data: bytes,
    grant_id: str | None,
    token: int | None,
    allowed_write_paths: Iterable[Path] | None,
) -> str:
    if allowed_write_paths is not None:
        _check_allowed(target, grant_id, allowed_write_paths)
    if target.manager is None:
        _replace(target, data, None, "", 0)
    elif grant_id is not None:
        current = _check_grant(target, target.manager, grant_id, token)
        _replace(target, data, target.manager, grant_id, current)
    else:
        _write_for_the_moment(target, data, target.manager)
    return target.path


def _check_allowed(target: _Target, grant_id: str | None, allowed: Iterable[Path]) -> None:
    if isinstance(allowed, str):
        raise request_limits.not_a_list(allowed)
    real = target.place.real
    above = realpath.upwards(os.path.dirname(real))
    for one in allowed:
        text = os.fspath(one)
        full = text if realpath.is_absolute(text) else f"{target.base}/{text}"
        entry = realpath.resolve(full, text)[0]
        # By identity too: there may be two spellings of one folder, but a file of two names is
        # two places.
        if real == entry or entry in above or any(realpath.same_file(up, entry) for up in above):
            return
    raise violation(
        NOT_ALLOWED, f"{target.path} is not within the allowed paths", target.path, grant_id
    )


def _check_grant(target: _Target, manager: LockManager, grant_id: str, token: int | None) -> int:
    """The current token of a grant that lives, covers the target and is the caller's to use.
    Raises the reason if not."""
    known = live_grant(manager, grant_id, target.path)
    if token != known.token and is_foreign(known.holder):
        sentence = f"grant {known.id} belongs to {known.holder.id}"
        raise violation(FOREIGN, sentence, target.path, grant_id)
    held = dict(zip(known.keys, known.modes, strict=True))
    if held.get(target.place.key) != WRITE:
        raise violation(NOT_COVERED, _uncovered(known, target.place), target.path, grant_id)
    if token is not None and token != known.token:
        sentence = f"token {token} is not the token of grant {grant_id}"
        raise violation(STALE_TOKEN, sentence, target.path, grant_id)
    return known.token


def live_grant(manager: LockManager, grant_id: str, path: str = "") -> Grant:
    """The grant of that id, if it lives. Raises LockViolationError with the reason if not."""
    with manager.store.view(deadline=monotonic() + DEADLINE_SECONDS) as view:
        known = view.grant(grant_id) if _is_id(grant_id) else None
        if isinstance(known, Grant):
            verdict = rules.verify(view, grant_id, None, known.token)
            if verdict:
                return known
            reason = EXPIRED if verdict.code == rules.EXPIRED_CODE else LOST
            sentence = verdict.reason
        elif known is not None:
            reason = EXPIRED if known.why in ("expired", "idle") else LOST
            sentence = rules.lost(known).message
        else:
            reason, sentence = UNKNOWN, f"there is no grant {_shown(grant_id)}"
        head = view.head
    if reason == UNKNOWN and _was_given_back(manager, grant_id, head):
        reason, sentence = RELEASED, f"grant {grant_id} has been released"
    raise violation(reason, sentence, path, grant_id)


def is_foreign(holder: Holder) -> bool:
    """Whether a holder is certainly not the caller.

    A holder is the caller if it is the same process, one above it, or the same holder at the
    command line (`holdfast.manager.owners.identity`). Nothing is certain for a holder without a
    process, and on systems that do not show the processes above.
    """
    from holdfast.manager.owners.identity import whoami
    from holdfast.manager.owners.liveness import own_witness, sees_processes
    from holdfast.manager.owners.processes import ancestors
    from holdfast.manager.owners.running_calls import variable_of

    if holder.witness is None or holder.witness == own_witness():
        return False
    marks = (variable_of(mark).partition("=") for mark in holder.marks)
    if any(os.environ.get(name) == value for name, _, value in marks):
        return False
    if not sees_processes() or whoami(os.environ).holder.key == holder.key:
        return False
    return all(process.witness != holder.witness for process in ancestors())


def _was_given_back(manager: LockManager, grant_id: str, head: int) -> bool:
    """Whether a recent event released the grant: a released grant leaves no other trace."""
    recent = manager.events(after=max(0, head - _RECENT_EVENTS))
    return any(
        event.type == events.LOCK_RELEASED and event.data.get("grant") == grant_id
        for event in recent
    )


def _is_id(text: object) -> bool:
    """Whether a text can be the id of a grant. An empty one cannot."""
    return isinstance(text, str) and text.isascii() and text.isprintable() and text != ""


def _shown(grant_id: object) -> str:
    return grant_id[:100] if isinstance(grant_id, str) and _is_id(grant_id) else ascii(grant_id)


def _uncovered(grant: Grant, place: Place) -> str:
    held = dict(zip(grant.keys, grant.modes, strict=True))
    sentence = f"grant {grant.id} does not cover writing {place.path}"
    if place.key in held:
        return f"{sentence}: it covers reading it"
    if place.inode and held.get(place.inode) == WRITE:
        other = grant.paths[grant.keys.index(place.inode)]
        return f"{sentence}: it covers {other}, which is another name of that file"
    return sentence


def _write_for_the_moment(target: _Target, data: bytes, manager: LockManager) -> None:
    """Write without a grant: under a lock of its own, so that no other holder gets the file."""
    outcome = manager.ask(
        _caller(manager), [], [target.place.path], ttl=MOMENT_SECONDS, reason="writing it once"
    )
    if isinstance(outcome, Refusal):
        sentence = sentences.conflict_sentences(outcome.conflicts, manager.now(), more=outcome.more)
        raise violation(HELD, sentence, target.path, conflicts=outcome.conflicts)
    try:
        _replace(target, data, manager, outcome.id, outcome.token)
    finally:
        manager.release(outcome.id)


def _caller(manager: LockManager) -> Holder:
    """The caller, as at the command line; but the lock ends with this process."""
    from holdfast.manager.owners.identity import whoami
    from holdfast.manager.owners.liveness import own_witness

    me = whoami(os.environ).holder
    if me.client:
        from holdfast.gate.people.agent_lookup import introduced

        me = introduced(manager, me)
    return Holder(
        id=me.id, key=me.key, witness=own_witness(), user=me.user, client=me.client,
        session=me.session, agent=me.agent, parent=me.parent,
    )  # fmt: skip


# The write itself


def _replace(
    target: _Target, data: bytes, manager: LockManager | None, grant_id: str, token: int
) -> None:
    # A ledger on disk admits one writer at a time; without one, other processes may write too.
    alone = manager is not None and manager.tree is not None
    new = replacement(target.root, target.names, alone=alone)
    try:
        new.prepare(data)
        if manager is None:
            new.commit()
        else:
            with manager.fenced(grant_id, token):
                new.commit()
        new.settle()
    except Moved as error:
        sentence = f"{target.path} was moved: {error}"
        raise violation(MOVED, sentence, target.path, grant_id) from error
    except Lost as error:
        assert manager is not None
        _check_grant(target, manager, grant_id, token)
        raise violation(LOST, error.message, target.path, grant_id) from error
    except OSError as error:
        error.filename, error.filename2 = target.place.real, None
        raise
    finally:
        new.close()


def violation(
    reason: str, sentence: str, path: str, grant_id: str | None = None, **fields: Any
) -> LockViolationError:
    """The error of a refused write, for one of the reasons above."""
    return LockViolationError(
        sentence,
        hint=_HINTS[reason],
        reason=reason,
        path=realpath.plain(path),
        grant=grant_id if isinstance(grant_id, str) else "",
        **fields,
    )
