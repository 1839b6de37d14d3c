"""Several ledgers at once: an agent at work in more repositories than the one it was started in.

Each file is requested in the ledger of its own repository, all or nothing: if one ledger refuses,
the leases that the others have just granted are released.

A client reports a stop or an end to its hooks in the folder that the session belongs to, its home.
Leases of its agents elsewhere would otherwise last until the client dies. So a small file beside
the ledger at home lists the other ledgers that have to be told. Without a ledger at home there is
no such list; leases elsewhere then end with a commit or with the client.
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
#: A session without any event for so long has ended without a report.
OLD_SECONDS = 30 * 86_400.0


# Which ledgers


def ledgers(intent: Intent, here: str | None, home: str) -> tuple[list[str], Reading | None]:
    """The roots of all ledgers that have to be told of an event other than an edit, and the reading
    of the command line, if that decides it. `here` is the ledger where the event happens."""
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
    """Note that an agent edits in these ledgers; its home may not be among them."""
    base = root_of(home)
    if base is not None:
        _note(base, agent_key(intent.client, intent.session), roots)


def blocked(intent: Intent, home: str, roots: Iterable[str]) -> list[str]:
    """The ledgers of a session, other than these, in which its agent is blocked. A blocked agent
    must not write anywhere, so these ledgers are asked as well."""
    base = root_of(home)
    return [] if base is None else _where_blocked(intent, base, roots)


def _where_blocked(intent: Intent, base: str, roots: Iterable[str]) -> list[str]:
    session = agent_key(intent.client, intent.session)
    others = [root for root in (base, *_known(base, session)) if root not in roots]
    return [root for root in others if _is_blocked(root, intent, is_home=root == base)]


def _is_blocked(root: str, intent: Intent, *, is_home: bool) -> bool:
    """Whether an agent is blocked in a ledger, or one above it was before the agent was known
    there. The latter is known only at home, where all agents of the session are recorded."""
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
        return False  # nothing in that repository is written


def _of_line(line: Reading) -> Iterable[str]:
    """The ledgers of the files that a command line writes, and of where its programs may write."""
    paths = [*line.writes, *(verb.folder for verb in line.trees if verb.folder)]
    for path in (*paths, *line.visits) if line.unsure else paths:
        root = root_of(path)
        if root is not None:
            yield root


def root_of(path: str) -> str | None:
    """The root of the ledger that a path belongs to, if any."""
    try:
        return find_root(path)
    except HoldfastError:  # it cannot be resolved, or leads nowhere
        return None


def _home(intent: Intent, home: str) -> str:
    """The folder that the session belongs to. A client that does not tell its hooks runs in that
    folder itself; the folder of a command is only where the command runs."""
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
    """The joint answer of all ledgers. They are asked in the order of their names: two agents that
    want the same files take them in the same order, and cannot deadlock. Ledgers without a file are
    asked first: they have nothing to grant, and may refuse."""
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
    """Release what was newly taken in these ledgers, and forget the call."""
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
            continue  # the file was never written, so it comes free at the next stop


# What is known of a session


def _file(home: str, session: str) -> str:
    return f"{home}/{FOLDER}/{digest(session)}"


def _known(home: str, session: str) -> list[str]:
    """The roots of other ledgers, as far as they still exist."""
    try:
        with open(_file(home, session), encoding="utf-8", errors="surrogateescape") as stream:
            lines = stream.read().splitlines()
    except OSError:
        return []
    return [root for root in dict.fromkeys(lines) if os.path.isdir(f"{root}/{LEDGER_FOLDER}")]


def _note(home: str, session: str, roots: Iterable[str]) -> None:
    """Note where agents of this session go. Never raises: at worst their leases last longer."""
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
        os.rmdir(
            f"{home}/{FOLDER}"
        )  # fails if it lists other sessions; without the folder hooks are faster
    except OSError:
        pass


def _sweep(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < time() - OLD_SECONDS:
                os.unlink(entry.path)
