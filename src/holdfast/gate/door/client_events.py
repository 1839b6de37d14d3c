"""One event of a client: bytes in, an answer out, before the client's timeout.

A client lets a write happen when its hook fails or is late. So any failure here becomes a refusal
in the client's own form, with the next step, for events that may write; other events pass, and the
user is warned where it matters."""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import codec
from holdfast.core.root_errors import HoldfastError
from holdfast.gate import clients
from holdfast.gate.door import ledger_answer
from holdfast.gate.door.hook_process import INPUT_BYTES_MAX
from holdfast.gate.intent import (
    AGENT_STOP,
    DENY,
    EDIT,
    FAILED,
    PROMPT,
    QUIET,
    SESSION_END,
    SESSION_START,
    SHELL,
    SHELLED,
    STOP,
    Answer,
    Intent,
    Reply,
    joined,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.gate.held_stops import Stop
    from holdfast.gate.shell import Reading
    from holdfast.manager.ledger import Ledger

    #: Absolute paths, and where each leads: its real path, what is there, how much of it exists.
    Paths = Mapping[str, tuple[str, os.stat_result | None, int]]

#: Code that does not check the time itself is interrupted this much later.
LATE_SECONDS = 0.5
#: As in `gate.guard.other_ledgers`, which is imported only if the folder exists.
ABROAD_FOLDER = ".holdfast/abroad"


class OutOfTime(BaseException):
    """The answer is due now: the running work is abandoned."""


class Call:
    """One event of an agent, and the state of its handling in the ledgers that it concerns."""

    __slots__ = (
        "_end", "_limit", "_managers", "data", "env", "intent", "line", "pause", "slips",
        "started", "stops", "taken",
    )  # fmt: skip

    def __init__(
        self,
        intent: Intent,
        data: object,
        env: Mapping[str, str],
        started: float,
        pause: Callable[[float, object], bool] | None,
        limit: Callable[[float], None] | None = None,
    ) -> None:
        self.intent = intent
        self.data = data
        self.env = env
        self.started = started
        self.pause = pause
        #: The writes of a command line, once it was parsed.
        self.line: Reading | None = None
        #: The folder with the slip of a command that is leased at the write.
        self.slips = ""
        #: The ids of the requests in each ledger.
        self.taken: dict[str, list[str]] = {}
        #: For a stop: its outcome in each ledger, where it may still be held open.
        self.stops: list[Stop] = []
        self._managers: dict[str, Ledger] = {}
        self._end = 0.0
        self._limit = limit

    def is_home(self, root: str) -> bool:
        """Whether a ledger is the nearest above the session's folder."""
        home = self.home
        if home == root:
            return True
        from holdfast.manager.files.paths import find_root

        return find_root(home) == root

    def manager_of(self, root: str, end: float = float("inf")) -> Ledger:
        """The ledger of one repository, open until the call is closed. `end` is the deadline of the
        answer, as a moment of `time.monotonic()`."""
        if root not in self._managers:
            from holdfast.manager.ledger import Ledger

            self._managers[root] = Ledger.at(root, end=end)
        return self._managers[root]

    def must_end(self, end: float) -> None:
        """Set the deadline of one ledger's answer; exceeding it is an error."""
        if end > self._end and self._limit is not None:
            self._end = end
            self._limit(max(LATE_SECONDS, end - monotonic() + LATE_SECONDS))

    def paths_in(self, root: str) -> list[str]:
        """The edited paths that belong to one repository's ledger."""
        return list(by_root(self.intent.writes, self.intent.cwd).get(root, ()))

    def close(self) -> None:
        """Close all ledgers."""
        for manager in self._managers.values():
            manager.close()

    @property
    def home(self) -> str:
        """The folder of the session; its agents may be elsewhere."""
        adapter = clients.adapter(self.intent.client)
        variable = adapter.HOME if adapter is not None else ""
        return (self.env.get(variable) if variable else "") or self.intent.cwd or os.getcwd()


def answer(
    client: str,
    data: bytes,
    env: Mapping[str, str],
    *,
    started: float | None = None,
    pause: Callable[[float, object], bool] | None = None,
    limit: Callable[[float], None] | None = None,
) -> Reply:
    """The reply of a client's hook to its input.

    `pause` waits so many seconds, or until an event is written to a ledger; `limit` raises
    OutOfTime so many seconds later.
    """
    adapter = clients.adapter(client)
    if adapter is None:
        known = "unknown client"
        return Reply(stderr=f"holdfast: {client[:40]!r}: {known}\n", code=2)
    intent = Intent(client, EDIT, "", problem="the input is not JSON")
    try:
        told = _parsed(data)
        intent = adapter.read(told, env)
        begun = monotonic() if started is None else started
        call = Call(intent, told, env, begun, pause, limit)
        try:
            said = _decided(call)
        finally:
            call.close()
        if call.slips:
            from holdfast.gate.commands.lease_mode import rewritten

            said = rewritten(said, intent, told, call.slips)
    except (Exception, OutOfTime) as error:  # on any error the write must not happen
        said = _in_trouble(intent, error)
    return adapter.say(intent, said)


def _parsed(data: bytes) -> object:
    if len(data) > INPUT_BYTES_MAX:
        return None
    try:
        return codec.loads(data.decode("utf-8").strip())
    except (ValueError, RecursionError):
        return None


#: How events that could not be recorded are named to a person, and the consequence.
_LOST = {
    SESSION_START: ("the start of this session", "other agents do not know of it yet"),
    PROMPT: ("this prompt", "a blocked agent remains blocked; send another prompt"),
    STOP: ("this stop", "the agent keeps its files until it stops again, commits or ends"),
    AGENT_STOP: ("this stop", "the sub-agent keeps its files until the session ends"),
    SESSION_END: ("the end of this session", "its files come free when its client has ended"),
}


def _in_trouble(intent: Intent, error: BaseException) -> Answer:
    what, hint = f"{type(error).__name__}: {error}", ""
    if isinstance(error, HoldfastError):
        what, hint = error.message, error.hint
    elif isinstance(error, OutOfTime):
        what = "it took too long"
    event = STOP if intent.event == FAILED and not intent.tool else intent.event
    if event in _LOST:
        from holdfast.gate.rulebook import agent_messages

        lost, therefore = _LOST[event]
        return Answer(QUIET, user=agent_messages.not_noted(lost, what, therefore))
    if intent.event not in (EDIT, SHELL):
        return Answer(QUIET)
    from holdfast.gate import guard
    from holdfast.gate.rulebook import agent_messages

    if intent.command and guard.is_own(intent.command):
        return Answer(QUIET)  # commands that diagnose the gate always pass
    return Answer(DENY, agent_messages.trouble(what, hint))


def _decided(call: Call) -> Answer:
    intent = call.intent
    places: dict[str, Paths]
    if intent.event == EDIT and not intent.problem:
        places = dict(by_root(intent.writes, intent.cwd))
        if not _stays_at_home(call, places):
            from holdfast.gate.guard import other_ledgers

            other_ledgers.note_edit(intent, call.home, places)
            places.update({root: {} for root in other_ledgers.blocked(intent, call.home, places)})
    else:
        places = {root: {} for root in _ledgers(call)}
    said = _in_each(places, call)
    if call.stops:
        from holdfast.gate.held_stops import hold

        return joined(said, hold(call.stops))
    return said


def _in_each(places: Mapping[str, Paths], call: Call) -> Answer:
    if len(places) == 1:
        ((root, paths),) = places.items()
        return ledger_answer.answer_at(root, paths, call)
    if not places:
        return Answer(QUIET)
    from holdfast.gate.guard import other_ledgers

    return other_ledgers.in_each(
        places, call, ledger_answer.answer_at if call.intent.event in (EDIT, SHELL) else _heard_at
    )


def _heard_at(root: str, paths: Paths, call: Call) -> Answer:
    """The same for events that cannot be refused: one ledger's failure keeps no other from the
    event."""
    try:
        return ledger_answer.answer_at(root, paths, call)
    except Exception as error:
        return _in_trouble(call.intent, error)


def _stays_at_home(call: Call, places: Mapping[str, Paths]) -> bool:
    """Whether an edit concerns the ledger of its session alone, as nearly all do."""
    if len(places) != 1:
        return False
    ((root, paths),) = places.items()
    return (
        len(paths) == len(call.intent.writes)
        and call.is_home(root)
        and not os.path.lexists(f"{root}/{ABROAD_FOLDER}")
    )


def _ledgers(call: Call) -> list[str]:
    """The ledgers that must receive an event which is not an edit: nearly always the one here."""
    from holdfast.manager.files.paths import find_root

    intent = call.intent
    here = find_root(intent.cwd or os.getcwd())
    if (
        here is not None
        and intent.event not in (SHELL, SHELLED)
        and call.is_home(here)
        and not os.path.lexists(f"{here}/{ABROAD_FOLDER}")
    ):
        return [here]
    from holdfast.gate.guard import other_ledgers

    roots, call.line = other_ledgers.ledgers(intent, here, call.home)
    return roots


def by_root(writes: tuple[str, ...], cwd: str) -> Mapping[str, Paths]:
    """Paths by the ledger that each belongs to: the nearest above the file, wherever the agent is.
    Files without a ledger are left out. Each path is resolved once, here."""
    from holdfast.manager.files.paths import root_above
    from holdfast.manager.files.realpath import resolve

    found: dict[str, dict[str, tuple[str, os.stat_result | None, int]]] = {}
    for text in writes:
        whole = text if text[:1] == "/" else f"{cwd or os.getcwd()}/{text}"
        resolved = resolve(whole, whole)
        root = root_above(resolved[0])
        if root is not None:
            found.setdefault(root, {})[whole] = resolved
    return found
