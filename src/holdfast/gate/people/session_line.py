"""One session of Claude Code in one line, for the client's status line.

    holdfast: 3 files held, codex@pts/3:77ab waits for app/x.rb

The client passes JSON on standard input. The session is found by its id, as the hooks find it, and
its sub-agents count with it. The line is decoration: for anything that cannot be read or decided
in time it is empty.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import codec, rules
from holdfast.core.conflicts import in_the_way, waiter_is_dead
from holdfast.core.draft import Draft
from holdfast.core.keys import kind
from holdfast.core.model import READ, Value, agent_key
from holdfast.gate.clients import Told, claude, text_of
from holdfast.gate.config.off_switch import switched_off
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from holdfast.manager.files.paths import find_root
from holdfast.manager.ledger import Ledger
from holdfast.manager.ledger_location import has_ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Final

    from holdfast.core.model import Grant
    from holdfast.core.view import View

#: The client draws nothing while it waits for the line.
LINE_SECONDS = 0.5
#: How many waiting requests are examined.
TICKETS_MAX = 100


class SessionState(Value):
    """What a session holds, who waits for it, and what blocks it.

    `held` are paths, once each. `waiting` are pairs of a holder and a path that it waits for.
    `blocked` is a file and its owner, or empty. `is_off`: the gate is switched off.
    """

    __slots__ = ("blocked", "held", "is_off", "root", "session", "waiting")

    def __init__(
        self,
        root: str,
        session: str,
        *,
        held: Iterable[str] = (),
        waiting: Iterable[tuple[str, str]] = (),
        blocked: tuple[str, ...] = (),
        is_off: bool = False,
    ) -> None:
        self.root: Final = root
        self.session: Final = session
        self.held: Final = tuple(held)
        self.waiting: Final = tuple(waiting)
        self.blocked: Final = blocked
        self.is_off: Final = is_off

    @property
    def line(self) -> str:
        """The state in one line."""
        if self.is_off:
            return "holdfast: the gate is off"
        count = len(self.held)
        files = "1 file" if count == 1 else f"{count} files"
        said = [f"{files} held" if count else "nothing held"]
        if self.blocked:
            file, owner = self.blocked
            said.append(f"blocked: {owner} holds {file}")
        if self.waiting:
            holder, path = self.waiting[0]
            more = len({other for other, _path in self.waiting}) - 1
            said.append(f"{holder} waits for {path}" + (f" (and {more} more)" if more else ""))
        return f"holdfast: {', '.join(said)}"

    def to_data(self) -> dict[str, Any]:
        """For other programs."""
        blocked = dict(zip(("file", "owner"), self.blocked, strict=False)) or None
        return {
            "root": self.root, "session": self.session, "line": self.line, "held": self.held,
            "waiting": [{"holder": holder, "path": path} for holder, path in self.waiting],
            "blocked": blocked, "off": self.is_off,
        }  # fmt: skip


def state_of(data: bytes) -> SessionState | None:
    """The state of the session that a client describes; None if there is no session, no repository
    or no answer in time. Never raises."""
    try:
        return _state(data, monotonic() + LINE_SECONDS)
    except Exception:  # the status line is no place for an error
        return None


def _state(data: bytes, end: float) -> SessionState | None:
    told = codec.loads(data.decode("utf-8").strip())
    if not isinstance(told, dict):
        return None
    session, folder = Told(told).session, _folder(told)
    root = find_root(folder) if session and folder else None
    if root is None or not has_ledger(root):
        return None
    if switched_off(root) is not None:
        return SessionState(root, session, is_off=True)
    with Ledger.at(root, end=end) as ledger:
        return transactions.look(ledger, lambda view: _seen(view, root, session), end)


def _folder(told: dict[Any, Any]) -> str:
    """The folder of the session, as the hooks take it; else the one that the client is in."""
    places = told.get("workspace")
    places = places if isinstance(places, dict) else {}
    named = (text_of(places, "project_dir"), text_of(places, "current_dir"), text_of(told, "cwd"))
    return next(filter(os.path.isabs, named), "")


def _seen(view: View, root: str, session: str) -> SessionState:
    key = agent_key(claude.NAME, session)  # and the beginning of its sub-agents' keys
    grants = [one for one in view.held_within(key) if rules.is_live(view, one)]
    held = [path for one in grants for path in _files(one)]
    blocks = [one for one in agent_records.known_blocks(Draft(view)) if one.key == key]
    return SessionState(
        root, session, held=dict.fromkeys(held), waiting=_waiting(view, key) if held else (),
        blocked=(blocks[0].file, str(blocks[0].report["owner"])) if blocks else (),
    )  # fmt: skip


def _files(grant: Grant) -> Iterator[str]:
    """The files that a grant lets its holder write."""
    for key, mode, path in zip(grant.keys, grant.modes, grant.paths, strict=True):
        if mode != READ and kind(key) == "path":
            yield path


def _waiting(view: View, session: str) -> Iterator[tuple[str, str]]:
    """Each live request in the queue that this session keeps from a file."""
    for ticket in view.queue()[:TICKETS_MAX]:
        waiter = ticket.request.holder
        draft = Draft(view)  # one for each: examining ends what it finds dead, and we only look
        if waiter.key.startswith(session) or waiter_is_dead(draft, ticket):
            continue
        for conflict in in_the_way(draft, ticket.request, ticket.arrival):
            if conflict.kind != "reservation" and conflict.holder_key.startswith(session):
                yield waiter.id, conflict.path
                break
