"""Several ledgers at once: an agent at work in more repositories than the one it was started in.

What it writes is asked for where the file lies, all or nothing: if one ledger refuses, what the
others had given just now is given back.

A client tells its hooks of a stop or an end in the folder that the session belongs to, its home.
What its agents hold elsewhere would be held on until the client dies. So beside the ledger there a
small file says which others have to hear of it too. Without a ledger at home nobody can say that;
what is held elsewhere then ends with a commit or with the client.
"""

from __future__ import annotations

import os
from time import time

from holdfast.core.errors import HoldfastError
from holdfast.core.model import agent_key
from holdfast.gate import clients, guard, pending_writes
from holdfast.gate.guard.edit_marks import digest
from holdfast.gate.intent import (
    DENY,
    EDIT,
    FAILED,
    HALT,
    QUIET,
    SESSION_END,
    SHELL,
    SHELLED,
    Answer,
    joined,
)
from holdfast.manager.files.paths import LEDGER_FOLDER, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.view import View
    from holdfast.gate.door.client_events import Call, Paths
    from holdfast.gate.intent import Intent
    from holdfast.gate.shell import Reading

FOLDER = f"{LEDGER_FOLDER}/abroad"
#: A session of which nothing was heard for so long has ended without a word.
OLD_SECONDS = 30 * 86_400.0


# Which ledgers


def ledgers(intent: Intent, here: str | None, home: str) -> tuple[list[str], Reading | None]:
    """The roots of all ledgers that have to hear of something that is no edit, and what was read
    of the command line, if that is what decides. `here` is the ledger where it happens."""
    base = root_of(_home(intent, home)) or here
    roots = {root: None for root in (base, here) if root is not None}
    session = agent_key(intent.client, intent.session)
    line = None
    if intent.event == SHELL or (not roots and intent.event in (SHELLED, FAILED)):
        if intent.command and not guard.is_own(intent.command):
            line = guard.read_line(intent)
            roots.update(dict.fromkeys(_of_line(line)))
        if base is not None and intent.event == SHELL:
            _note(base, session, roots)
            roots.update(dict.fromkeys(_where_blocked(intent, base, roots)))
    elif base is not None:
        roots.update(dict.fromkeys(_known(base, session)))
        if intent.event == SESSION_END:
            _forget(base, session)
    return list(roots), line


def note_edit(intent: Intent, home: str, roots: Iterable[str]) -> None:
    """An agent edits in these ledgers; that at home may not be among them."""
    base = root_of(home)
    if base is not None:
        _note(base, agent_key(intent.client, intent.session), roots)


def blocked(intent: Intent, home: str, roots: Iterable[str]) -> list[str]:
    """The ledgers of a session, beside these, in which its agent may write nothing. It may not
    anywhere then: so they are asked as well."""
    base = root_of(home)
    return [] if base is None else _where_blocked(intent, base, roots)


def _where_blocked(intent: Intent, base: str, roots: Iterable[str]) -> list[str]:
    session = agent_key(intent.client, intent.session)
    others = [root for root in (base, *_known(base, session)) if root not in roots]
    return [root for root in others if _is_blocked(root, intent, is_home=root == base)]


def _is_blocked(root: str, intent: Intent, *, is_home: bool) -> bool:
    """Whether an agent is blocked in a ledger, or one above it was before it was heard of: that is
    known at home only, where all agents of the session are heard of at once."""
    from holdfast.gate.agents import holder_of
    from holdfast.gate.rulebook import agent_family, agent_records
    from holdfast.manager import transactions
    from holdfast.manager.manager import LockManager

    holder = holder_of(intent)

    def look(view: View) -> bool:
        if is_home:
            return agent_family.block_of(view, holder) is not None
        return bool(agent_records.known(view, holder.key).blocks)

    try:
        with LockManager.open(root) as manager:
            return transactions.look(manager, look)
    except HoldfastError:
        return False  # nothing of what lies there is written


def _of_line(line: Reading) -> Iterable[str]:
    """The ledgers of what a command line writes, and of where its programs may write."""
    paths = [*line.writes, *(verb.folder for verb in line.trees if verb.folder)]
    for path in (*paths, *line.visits) if line.unsure else paths:
        root = root_of(path)
        if root is not None:
            yield root


def root_of(path: str) -> str | None:
    """The root of the ledger that a path belongs to, if any."""
    try:
        return find_root(path)
    except HoldfastError:  # nobody can tell, or it leads nowhere
        return None


def _home(intent: Intent, home: str) -> str:
    """Where the session belongs to. A client whose hooks are not told runs there itself; the
    folder of a command is only where that runs."""
    adapter = clients.adapter(intent.client)
    if intent.event not in (SHELL, SHELLED) or adapter is None or adapter.HOME:
        return home
    from holdfast.manager.owners.processes import ancestors

    for process in ancestors():
        if process.client == intent.client:
            try:
                return os.readlink(f"/proc/{process.witness.pid}/cwd")
            except OSError:
                break
    return home


# All of them, or none


def in_each(
    places: Mapping[str, Paths], call: Call, ask: Callable[[str, Paths, Call], Answer]
) -> Answer:
    """What all ledgers say together. In the order of their names: two agents that want the same
    files take them in the same order, and cannot wait for each other. Those without a file are
    asked first: they have nothing to give, and may refuse."""
    said = Answer(QUIET)
    asked: list[str] = []
    for root in sorted(places, key=lambda root: (bool(places[root]), root)):
        asked.append(root)
        try:
            said = joined(said, ask(root, places[root], call))
        except BaseException:
            _give_back(call, asked)
            raise
        if call.intent.event in (EDIT, SHELL) and said.kind in (DENY, HALT):
            _give_back(call, asked)
            break
    return said


def _give_back(call: Call, roots: Iterable[str]) -> None:
    """What was newly taken in these ledgers is free again, and nothing begins."""
    from holdfast.gate.agents import holder_of
    from holdfast.gate.guard import file_watch
    from holdfast.manager import transactions
    from holdfast.manager.owners import running_calls

    holder, intent = holder_of(call.intent), call.intent
    for root in roots:
        pending_writes.end(root, holder.key)
        if intent.event == SHELL:
            file_watch.withdraw(root, holder, intent.command)
            running_calls.close_call(root, holder.key, intent.call or intent.command)
        if root not in call.taken:
            continue
        try:
            transactions.release_each(call.manager_of(root), call.taken[root])
        except HoldfastError:
            continue  # it comes free at the next stop, for it was never written


# What is known of a session


def _file(home: str, session: str) -> str:
    return f"{home}/{FOLDER}/{digest(session)}"


def _known(home: str, session: str) -> list[str]:
    """The roots of other ledgers, as far as they are still there."""
    try:
        with open(_file(home, session), encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return []
    return [root for root in dict.fromkeys(lines) if os.path.isdir(f"{root}/{LEDGER_FOLDER}")]


def _note(home: str, session: str, roots: Iterable[str]) -> None:
    """Agents of this session go there. Never raises: their leases would only last longer."""
    known = (home, *_known(home, session))
    new = [root for root in roots if root not in known and "\n" not in root]
    if not new:
        return
    try:
        os.makedirs(f"{home}/{FOLDER}", exist_ok=True)
        _sweep(f"{home}/{FOLDER}")
        with open(_file(home, session), "ab") as stream:
            stream.write(b"".join(os.fsencode(root) + b"\n" for root in new))
    except OSError:
        pass


def _forget(home: str, session: str) -> None:
    try:
        os.unlink(_file(home, session))
        os.rmdir(f"{home}/{FOLDER}")  # unless it knows of others; without it hooks are quicker
    except OSError:
        pass


def _sweep(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < time() - OLD_SECONDS:
                os.unlink(entry.path)
