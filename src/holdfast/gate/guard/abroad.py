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
from holdfast.gate import busy, clients, guard
from holdfast.gate.guard.signs import digest
from holdfast.gate.intent import (
    ALLOW,
    CONTINUE,
    DENY,
    EDIT,
    FAILED,
    HALT,
    QUIET,
    SESSION_END,
    SHELL,
    SHELLED,
    Answer,
)
from holdfast.manager.paths import LEDGER_FOLDER, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.gate.door import Call, Paths
    from holdfast.gate.intent import Intent
    from holdfast.gate.shell import Reading

FOLDER = f"{LEDGER_FOLDER}/abroad"
#: A session of which nothing was heard for so long has ended without a word.
OLD_SECONDS = 30 * 86_400.0


# Which ledgers


def ledgers(intent: Intent, here: str | None, home: str) -> tuple[list[str], Reading | None]:
    """The roots of all ledgers that have to hear of something that is no edit, and what was read
    of the command line, if that is what decides. `here` is the ledger where it happens."""
    base = _root_of(_home(intent, home)) or here
    roots = {root: None for root in (base, here) if root is not None}
    session = agent_key(intent.client, intent.session)
    line = None
    if intent.event == SHELL or (not roots and intent.event in (SHELLED, FAILED)):
        if intent.command and not guard.is_own(intent.command):
            line = guard.read_line(intent)
            roots.update(dict.fromkeys(_of_line(line)))
        if base is not None and intent.event == SHELL:
            _note(base, session, roots)
    elif base is not None:
        roots.update(dict.fromkeys(_known(base, session)))
        if intent.event == SESSION_END:
            _forget(base, session)
    return list(roots), line


def note_edit(intent: Intent, home: str, roots: Iterable[str]) -> None:
    """An agent edits in these ledgers; that at home may not be among them."""
    base = _root_of(home)
    if base is not None:
        _note(base, agent_key(intent.client, intent.session), roots)


def _of_line(line: Reading) -> Iterable[str]:
    """The ledgers of what a command line writes, and of where its programs may write."""
    paths = [*line.writes, *(verb.folder for verb in line.trees if verb.folder)]
    for path in (*paths, *line.visits) if line.unsure else paths:
        root = _root_of(path)
        if root is not None:
            yield root


def _root_of(path: str) -> str | None:
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
    from holdfast.manager.processes import ancestors

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
    files take them in the same order, and cannot wait for each other."""
    said = Answer(QUIET)
    trouble: Exception | None = None
    for root in sorted(places):
        try:
            said = _joined(said, ask(root, places[root], call))
        except Exception as error:
            trouble = trouble or error
        if call.intent.event in (EDIT, SHELL) and (said.kind in (DENY, HALT) or trouble):
            _give_back(call)
            break
    if trouble is not None:
        raise trouble
    return said


def _joined(one: Answer, other: Answer) -> Answer:
    """Two answers as one: a refusal counts most, and no word to anybody is lost."""
    kinds = (one.kind, other.kind)
    kind = next((kind for kind in (HALT, DENY, CONTINUE, ALLOW) if kind in kinds), QUIET)

    def both(name: str) -> str:
        return "\n".join(filter(None, (getattr(one, name), getattr(other, name))))

    return Answer(
        kind, both("reason"), user=both("user"), context=both("context"),
        report=other.report or one.report,
    )  # fmt: skip


def _give_back(call: Call) -> None:
    """What was newly taken is free again, and nothing begins."""
    from holdfast.gate.agents import holder_of
    from holdfast.gate.guard import watching
    from holdfast.manager import services
    from holdfast.manager.manager import LockManager

    holder = holder_of(call.intent)
    for root, ids in call.taken.items():
        busy.end(root, holder.key)
        watching.withdraw(root, holder, call.intent.command)
        try:
            with LockManager.open(root) as manager:
                services.release_each(manager, ids)
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
    except OSError:
        pass


def _sweep(folder: str) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < time() - OLD_SECONDS:
                os.unlink(entry.path)
