"""The door for clients' hooks: bytes in, an answer out, before the client loses its patience.

Whatever goes wrong in here would let the write happen, for that is what clients do with a hook
that fails or is late. So trouble is a refusal in the client's own form, with what to do, and only
for what could write. Everything else passes; the user hears of it where it matters.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import codec
from holdfast.core.root_errors import HoldfastError
from holdfast.gate import clients, pending_writes
from holdfast.gate.door.hook_process import INPUT_BYTES_MAX
from holdfast.gate.git import hook_watch
from holdfast.gate.intent import (
    AGENT_CALL,
    AGENT_START,
    AGENT_STOP,
    ALLOW,
    DENY,
    EDIT,
    EDITED,
    FAILED,
    HALT,
    MCP_PREFIX,
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
    leads_into_spec,
    with_context,
    with_user,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.model import Holder, Verdict
    from holdfast.gate.commands.hook_answers import Around
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.held_stops import Stop
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.gate.shell import Reading
    from holdfast.manager.ledger import Ledger

    #: Absolute paths, and where each leads: its real path, what is there, how much of it exists.
    Paths = Mapping[str, tuple[str, os.stat_result | None, int]]

GRANT_VARIABLE = "HOLDFAST_GRANT"
TOKEN_VARIABLE = "HOLDFAST_TOKEN"
SOCKET_VARIABLE = "HOLDFAST_SOCKET"
GAP = "coverage_gap"
#: Where a client accepts no longer timeout than its own, the hook answers within this part of it.
ANSWERED_PART = 2 / 3
#: Whatever does not look at the time itself is ended so much later.
LATE_SECONDS = 0.5
#: As many gaps of one call are recorded.
GAPS_MAX = 20
#: As in `gate.switch`, `gate.guard` and `manager.calls`, only imported if these are there.
OFF_FILE = ".holdfast/off"
ASIDE_FOLDER = ".holdfast/aside"
ABROAD_FOLDER = ".holdfast/abroad"
CALLS_FOLDER = ".holdfast/calls"
LEDGER_FOLDER = ".holdfast"
SLIPS_FOLDER = ".holdfast/slips"
#: How files are named that can switch the gate off; `gate.guard` looks which of them do.
SWITCHES = ("settings.json", "settings.local.json", "hooks.json", "config.toml", "holdfast.toml")
GIT_HOOKS = ("pre-", "post-")


class OutOfTime(BaseException):
    """The answer must be given now, whatever is being done: nothing may go on after this."""


class Call:
    """One event of an agent, on its way to the ledgers that it concerns."""

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
        #: What a command line writes, once it was read.
        self.line: Reading | None = None
        #: Where the slip of a command lies that is leased at the write.
        self.slips = ""
        #: What was asked for in each ledger, by the ids of the requests.
        self.taken: dict[str, list[str]] = {}
        #: If it is a stop: what it came to in each ledger, where it may be held open yet.
        self.stops: list[Stop] = []
        self._managers: dict[str, Ledger] = {}
        self._end = 0.0
        self._limit = limit

    def is_home(self, root: str) -> bool:
        """Whether a ledger is that of the session's folder: the nearest above it."""
        home = self.home
        if home == root:
            return True
        from holdfast.manager.files.paths import find_root

        return find_root(home) == root

    def manager_of(self, root: str, end: float = float("inf")) -> Ledger:
        """The locks of one repository, open until the call is closed. `end`: when what is asked for
        there must have been answered, as a moment of `time.monotonic()`."""
        if root not in self._managers:
            from holdfast.manager.ledger import Ledger

            self._managers[root] = Ledger.at(root, end=end)
        return self._managers[root]

    def must_end(self, end: float) -> None:
        """One ledger's answer must be there by then; if it is not, that is an error."""
        if end > self._end and self._limit is not None:
            self._end = end
            self._limit(max(LATE_SECONDS, end - monotonic() + LATE_SECONDS))

    def close(self) -> None:
        """Let go of all ledgers."""
        for manager in self._managers.values():
            manager.close()

    @property
    def home(self) -> str:
        """The folder that the session belongs to; its agents may be elsewhere."""
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
    """What a hook of this client says to what it was told.

    `pause` waits so many seconds, or until something happens in a ledger; `limit` raises OutOfTime
    so many seconds later.
    """
    adapter = clients.adapter(client)
    if adapter is None:
        known = "no client of that name is known"
        return Reply(stderr=f"holdfast: {client[:40]!r}: {known}\n", code=2)
    intent = Intent(client, EDIT, "", problem="the input is no JSON")
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
    except (Exception, OutOfTime) as error:  # whatever it is, the write must not happen
        said = _in_trouble(intent, error)
    return adapter.say(intent, said)


def _parsed(data: bytes) -> object:
    if len(data) > INPUT_BYTES_MAX:
        return None
    try:
        return codec.loads(data.decode("utf-8").strip())
    except (ValueError, RecursionError):
        return None


#: What a person reads of events that were lost, and what comes of it.
_LOST = {
    SESSION_START: ("the start of this session", "nobody was told of it"),
    PROMPT: ("this prompt", "an agent that was blocked is so still; send another"),
    STOP: ("this stop", "the agent's files are its own until it stops again, commits or ends"),
    AGENT_STOP: ("this stop", "the sub-agent's files are its own until the session ends"),
    SESSION_END: ("the end of this session", "its files are free when its client has ended"),
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
        return Answer(QUIET)  # nobody is kept from looking what is wrong
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
        return _at(root, paths, call)
    if not places:
        return Answer(QUIET)
    from holdfast.gate.guard import other_ledgers

    return other_ledgers.in_each(
        places, call, _at if call.intent.event in (EDIT, SHELL) else _heard_at
    )


def _heard_at(root: str, paths: Paths, call: Call) -> Answer:
    """The same for what can only be heard: one ledger's trouble keeps no other from it."""
    try:
        return _at(root, paths, call)
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
    """The ledgers that have to hear of something that is no edit: nearly always the one here."""
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
    """Paths by the ledger that each belongs to: the nearest above the file, wherever the agent
    is. What has none is nobody's business here. Each is resolved once, here."""
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


def _at(root: str, paths: Paths, call: Call) -> Answer:
    """What one ledger's gate says; and what its user has to know of the gate itself."""
    from holdfast.gate.config import seals

    names = seals.changed(root)
    return with_user(_said_at(root, paths, call), _broken_seals(root, names, call) if names else "")


def _broken_seals(root: str, names: list[str], call: Call) -> str:
    """What was done to the files that switch the gate; also written down, for `holdfast log`."""
    from holdfast.gate.config import seals
    from holdfast.manager import transactions

    told = seals.notice(root, names)
    for name in told:
        try:
            transactions.note(call.manager_of(root), seals.CHANGED, {"path": name})
        except HoldfastError:  # the user hears it all the same
            continue
    return "\n".join(f"holdfast: {text}." for text in told.values())


def _said_at(root: str, paths: Paths, call: Call) -> Answer:
    intent = call.intent
    if os.path.lexists(f"{root}/{OFF_FILE}"):
        return _switched_off(root, intent)
    problem = intent.problem or ("" if intent.session else "it does not say which session")
    if problem:
        return _not_understood(intent, problem)
    if call.env.get(GRANT_VARIABLE):
        return _by_grant(root, list(paths), call)
    if call.env.get(SOCKET_VARIABLE):
        return _by_broker(root, list(paths), call)
    from holdfast.gate.config.settings import Settings

    settings = Settings.load(root, lenient=True)
    end = _end(call, root, settings)
    call.must_end(end)
    told = _git_told(root, intent)
    said = _asked(call, paths, call.manager_of(root, end), settings)
    if settings.problem and _is_start(intent):
        said = with_user(said, f"holdfast: {settings.problem}")
    return with_user(said, told)


def _git_told(root: str, intent: Intent) -> str:
    """What the user should know of git's hooks; nearly always nothing. Commits that these did not
    see are made up for before anything is decided."""
    if not hook_watch.is_to_look(root, is_start=_is_start(intent)):
        return ""
    from holdfast.gate.git import hook_repair

    return hook_repair.look(root)


def _end(call: Call, root: str, settings: Settings) -> float:
    """When the answer must be there, as a moment of `time.monotonic()`: before the client loses its
    patience, as it is set where the session belongs to."""
    seconds: float = settings.deadline_seconds
    if not call.is_home(root):
        from holdfast.gate.guard import other_ledgers

        home = other_ledgers.root_of(call.home)
        if home is not None:
            seconds = min(seconds, settings.load(home, lenient=True).deadline_seconds)
    adapter = clients.adapter(call.intent.client)
    if adapter is not None and adapter.TIMEOUT_SECONDS_MAX and isinstance(call.data, dict):
        most = adapter.TIMEOUT_SECONDS_MAX.get(call.data.get("hook_event_name", ""))
        seconds = min(seconds, most * ANSWERED_PART) if most else seconds
    return call.started + seconds


def _switched_off(root: str, intent: Intent) -> Answer:
    from holdfast.gate.config.off_switch import Off, switched_off

    off = switched_off(root) or Off()
    told = f"holdfast: {off.sentence()}. Edits are not checked." if _is_start(intent) else ""
    return Answer(QUIET, user=told)


def _not_understood(intent: Intent, problem: str) -> Answer:
    if intent.event not in (EDIT, SHELL):
        return Answer(QUIET)
    from holdfast.gate.rulebook import agent_messages

    return Answer(DENY, agent_messages.not_understood(problem))


def _is_start(intent: Intent) -> bool:
    return intent.event == SESSION_START


def _asked(call: Call, paths: Paths, manager: Ledger, settings: Settings) -> Answer:
    from holdfast.gate.agents import holder_of, place_of
    from holdfast.gate.lease_gate import LeaseGate

    intent = call.intent
    holder = holder_of(intent)
    gate = LeaseGate(
        manager,
        holder,
        settings,
        place=lambda: place_of(holder.witness, call.home),
        left=lambda: manager.end - monotonic(),
        pause=call.pause,
        hears=clients.hears(intent),
    )
    root = _root(manager)
    # Nothing is kept aside as long as nobody ran a command while another held something.
    watched = os.path.lexists(f"{root}/{ASIDE_FOLDER}")
    around = intent.event in (SHELL, SHELLED, FAILED) and intent.command
    if intent.event != EDIT and not around:
        return _lived(call, gate, manager, watched=watched)
    damage = _damage(intent, gate, manager) if watched else str
    if intent.event == EDIT:
        said = _switching(call, paths, manager, gate) or _permitted(paths, manager, gate)
        if said.kind == ALLOW and watched:
            _signed(manager, holder, list(paths))
    else:
        said = _around_command(call, gate, manager, settings)
    if gate.wanted:
        call.taken[root] = [one.id for one in gate.wanted]
    return with_context(said, damage())


def _permitted(paths: Paths, manager: Ledger, gate: LeaseGate) -> Answer:
    tree = manager.tree
    assert tree is not None
    places = [tree.place_of(path, *where) for path, where in paths.items()]
    return gate.permit(places, is_edit=True)


def _around_command(call: Call, gate: LeaseGate, manager: Ledger, settings: Settings) -> Answer:
    """Before a command of the agent, or after it. As long as its call is open, it keeps the agent's
    files even if the client dies."""
    from holdfast.gate import guard
    from holdfast.manager.owners import running_calls

    intent, root, key = call.intent, _root(manager), gate.holder.key
    name = intent.call or intent.command
    if intent.event == SHELL:
        pending_writes.end(root, key)
        running_calls.open_call(root, key, name)
    else:
        running_calls.close_call(root, key, name)
    is_line = not intent.tool.startswith(MCP_PREFIX)
    around = _leased(call, gate, manager, settings) if is_line else None
    if around is None:
        said = guard.around(intent, gate, manager, settings, call.line)
    elif intent.event == SHELL:
        said, is_leased = around.before(call.line)
        call.slips = around.folder if is_leased else ""
    else:
        said = around.after()
    if said.kind in (DENY, HALT):
        running_calls.close_call(root, key, name)
    elif intent.event == SHELL:
        gate.keep_through_command()
    return said


def _leased(call: Call, gate: LeaseGate, manager: Ledger, settings: Settings) -> Around | None:
    """What is done around a command that is leased at the write: in the repository that it is run
    in. Others that it may write to are guarded."""
    from holdfast.gate.commands.lease_mode import slips_folder
    from holdfast.manager.files.paths import find_root

    intent, root = call.intent, _root(manager)
    folder = slips_folder(root, settings, intent, call.env)
    if not folder or find_root(intent.cwd or os.getcwd()) != root:
        return None
    from holdfast.gate.commands.hook_answers import Around

    return Around(intent, gate, manager, settings, folder, call.home)


def _switching(call: Call, paths: Paths, manager: Ledger, gate: LeaseGate) -> Answer | None:
    """The refusal of an edit that would switch the gate off."""
    for path in paths:
        name = path.rpartition("/")[2]
        if name.endswith(SWITCHES) or name.startswith(GIT_HOOKS) or _leads_to_ours(path):
            from holdfast.gate import guard

            refused = guard.edit_refused(call.intent, call.data, manager, gate)
            return refused and with_context(refused, gate.live_on().context)
    return None


def _leads_to_ours(path: str) -> bool:
    """Whether a path may be one of ours, by its words."""
    return ".holdfast" in path or ".git/holdfast/" in path


def _signed(manager: Ledger, holder: Holder, paths: list[str]) -> None:
    """An agent's own edit is not taken for damage by those who watch its files."""
    from holdfast.gate import guard

    guard.edited(manager, holder, paths)


def _damage(
    intent: Intent, gate: LeaseGate, manager: Ledger, *, expected: bool = False
) -> Callable[[], str]:
    """What was done to this agent's files, to be told where it can be heard."""
    if not clients.hears(intent):
        return str
    from holdfast.gate import guard

    return guard.pending(manager, gate, intent.cwd, expected=expected)


def _root(manager: Ledger) -> str:
    return manager.tree.root if manager.tree is not None else ""


#: Events after which an agent is in the middle of no edit and no command.
_AT_REST = (STOP, AGENT_STOP, SESSION_END)


def _lived(call: Call, gate: LeaseGate, manager: Ledger, *, watched: bool) -> Answer:
    """The beginning, the turns and the end of an agent's life."""
    intent, root, key = call.intent, _root(manager), gate.holder.key
    event = intent.event
    if event in (EDITED, FAILED, AGENT_CALL, *_AT_REST):
        pending_writes.end(root, key)
    if event in (*_AT_REST, PROMPT, SESSION_START) and os.path.lexists(f"{root}/{CALLS_FOLDER}"):
        from holdfast.manager.owners import running_calls

        running_calls.close_all(root, key)
        if event == SESSION_START:
            running_calls.sweep(root)
    if event in (*_AT_REST, PROMPT) and os.path.lexists(f"{root}/{SLIPS_FOLDER}"):
        from holdfast.gate.commands.slips import withdraw_old

        withdraw_old(f"{root}/{LEDGER_FOLDER}", key)
    if watched and event in (EDITED, FAILED) and intent.writes:
        _signed(manager, gate.holder, list(by_root(intent.writes, intent.cwd).get(root, ())))
    unheard: Callable[[], str] = str
    if watched and event in (*_AT_REST, PROMPT):
        from holdfast.gate import guard

        unheard = guard.settle(intent, gate, manager)
    damage = _damage(intent, gate, manager, expected=unheard is not str) if watched else str
    said = _turn(call, gate)
    return with_context(with_user(said, unheard()), damage())


def _turn(call: Call, gate: LeaseGate) -> Answer:
    intent, event = call.intent, call.intent.event
    if event == STOP:
        call.stops.append(gate.stop(may_go_on=not intent.is_repeated, is_alone=intent.is_alone))
        return Answer(QUIET)  # what it comes to is said when all ledgers have heard of it
    if event == AGENT_STOP:
        # After the tool that ran it, it has ended for good.
        call.stops.append(gate.end_agent(may_go_on=not (intent.is_repeated or intent.tool)))
        return Answer(QUIET)
    if event == SESSION_END:
        return gate.end_session()
    if event == FAILED and not intent.tool:
        gate.fail()
        return Answer(QUIET)
    if event == SESSION_START:
        return gate.session_start()
    if event == PROMPT:
        return gate.prompt()
    if event == AGENT_CALL:
        return gate.agent_call()
    if event == AGENT_START:
        return gate.agent_start()
    return gate.live_on(is_tail=True)


def _by_grant(root: str, paths: list[str], call: Call) -> Answer:
    """One who was sent out with a grant writes what it covers, and nothing else."""
    intent, env = call.intent, call.env
    if intent.event == SHELL:
        paths = _plain_writes(root, call)
    elif intent.event != EDIT:
        return Answer(QUIET)
    inside = [path for path in paths if leads_into_spec(path)]
    locked = _in_specs(inside, env) if inside else None
    if locked is not None:
        return locked
    grant, token = env[GRANT_VARIABLE], env.get(TOKEN_VARIABLE, "")
    number = int(token) if token.isascii() and token.isdigit() else -1
    if env.get(SOCKET_VARIABLE):  # in a sandbox only the runner outside can look
        return _by_runner(paths, grant, number, env[SOCKET_VARIABLE], intent.client)
    from holdfast.manager import transactions
    from holdfast.manager.manager import LockManager

    with LockManager.open(root) as manager:
        gaps = _gaps(paths, lambda path: manager.verify(grant, path, token=number))
        for path, why in gaps:
            gap = {"grant": grant, "path": path, "why": why, "client": intent.client}
            transactions.note(manager, GAP, gap)
    return _covered(gaps, grant)


def _by_broker(root: str, paths: list[str], call: Call) -> Answer:
    """Below a broker every write is leased when it is made, so nothing is left to decide; but a
    refusal is better heard before the write. And the broker hears of an edit that will be made from
    what is in the file then, whatever the client had read before: that edit is not stale."""
    if call.intent.event == SHELL and call.intent.command:
        from holdfast.gate.commands.lease_mode import introducing

        _announce(call.intent)
        return introducing(call.intent, call.data, f"{root}/{LEDGER_FOLDER}")
    if call.intent.event != EDIT:
        return Answer(QUIET)
    from holdfast.gate.sandbox import runner_client
    from holdfast.manager.files.paths import checkout_of

    reader = _reader(call)
    for path in paths:
        top = checkout_of(root, path)
        inner = [path[len(top) + 1 :]] if path.startswith(f"{top}/") else []
        held = runner_client.held_by_others(top, inner, edit=True, reader=reader)
        if held:
            from holdfast.gate.rulebook import agent_messages

            return Answer(DENY, agent_messages.held_outside(path, held[0].grant.holder.id))
    return Answer(ALLOW)


def _announce(intent: Intent) -> None:
    """Tell the broker for which agent a command is about to run, so that its leases can say so."""
    from holdfast.core.model import agent_key
    from holdfast.gate.commands.slips import digest
    from holdfast.gate.sandbox import SandboxError, runner_client

    try:
        runner_client.announce(
            digest(intent.command), agent_key(intent.client, intent.session, intent.agent)
        )
    except SandboxError:
        pass  # the leases then say only which program has written


def _reader(call: Call) -> int:
    """The process of the client, if it will make this edit from what is in the file; else 0."""
    adapter = clients.adapter(call.intent.client)
    if adapter is None or not adapter.keeps_rest(call.data):
        return 0
    from holdfast.gate.agents import holder_of

    witness = holder_of(call.intent).witness
    return 0 if witness is None else witness.pid


def _in_specs(paths: list[str], env: Mapping[str, str]) -> Answer | None:
    """The refusal of what lies in specs that others have locked, to one who runs for a runner."""
    from holdfast.gate import locked_specs
    from holdfast.manager.owners.identity import whoami

    folders = [path for path in paths if path.endswith("/")]
    files = [os.path.realpath(path) for path in paths if not path.endswith("/")]
    return locked_specs.refusal(whoami(env).holder, files, folders)


def _gaps(paths: list[str], verify: Callable[[str], Verdict]) -> list[tuple[str, str]]:
    """What a grant does not cover, and why; as much of it as anybody would read."""
    found: list[tuple[str, str]] = []
    for path in paths:
        verdict = verify(path)
        if not verdict:
            found.append((path, verdict.reason))
            if len(found) == GAPS_MAX:
                break
    return found


def _covered(gaps: list[tuple[str, str]], grant: str) -> Answer:
    if not gaps:
        return Answer(ALLOW)
    from holdfast.gate.rulebook import agent_messages

    names = ", ".join(path for path, _why in gaps)
    return Answer(DENY, agent_messages.uncovered(names, grant, gaps[0][1]))


def _plain_writes(root: str, call: Call) -> list[str]:
    from holdfast.gate import guard
    from holdfast.manager.files.paths import Tree
    from holdfast.manager.manager import LockManager

    return guard.plain_writes(call.intent, LockManager(tree=Tree(root)), call.line)


def _by_runner(paths: list[str], grant: str, token: int, where: str, client: str) -> Answer:
    from holdfast.gate.sandbox import runner_client

    gaps = _gaps(paths, lambda path: runner_client.verify(grant, path, token=token, where=where))
    for path, _why in gaps:
        runner_client.gap(grant, path, token=token, client=client, where=where)
    return _covered(gaps, grant)
