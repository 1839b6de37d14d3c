"""The answer of one repository's ledger to one event of an agent.

Answers for several repositories are joined in `client_events`."""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core.root_errors import HoldfastError
from holdfast.gate import clients, pending_writes
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
    with_context,
    with_user,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.model import Holder
    from holdfast.gate.commands.hook_answers import HookAnswers
    from holdfast.gate.config.settings import Settings
    from holdfast.gate.door.client_events import Call, Paths
    from holdfast.gate.lease_gate import LeaseGate
    from holdfast.manager.ledger import Ledger

GRANT_VARIABLE = "HOLDFAST_GRANT"
SOCKET_VARIABLE = "HOLDFAST_SOCKET"
#: If a client caps the timeout of an event, the hook answers within this part of it.
ANSWERED_PART = 2 / 3
#: As in `gate.config.off_switch`, `gate.guard.edit_marks` and `manager.owners.running_calls`, which
#: are imported only if these exist.
OFF_FILE = ".holdfast/off"
ASIDE_FOLDER = ".holdfast/aside"
CALLS_FOLDER = ".holdfast/calls"
LEDGER_FOLDER = ".holdfast"
SLIPS_FOLDER = ".holdfast/slips"
#: The names of files that may switch the gate off; `gate.guard` decides which of them do.
SWITCHES = ("settings.json", "settings.local.json", "hooks.json", "config.toml", "holdfast.toml")
GIT_HOOKS = ("pre-", "post-")


def answer_at(root: str, paths: Paths, call: Call) -> Answer:
    """The answer of one ledger's gate, with warnings for the user about the gate itself."""
    from holdfast.gate.config import seals

    names = seals.changed(root)
    return with_user(_said_at(root, paths, call), _broken_seals(root, names, call) if names else "")


def _broken_seals(root: str, names: list[str], call: Call) -> str:
    """The warnings about changed files that control the gate; also recorded for `holdfast log`."""
    from holdfast.gate.config import seals
    from holdfast.manager import transactions

    told = seals.notice(root, names)
    for name in told:
        try:
            transactions.note(call.manager_of(root), seals.CHANGED, {"path": name})
        except HoldfastError:  # the user is warned all the same
            continue
    return "\n".join(f"holdfast: {text}." for text in told.values())


def _said_at(root: str, paths: Paths, call: Call) -> Answer:
    intent = call.intent
    if os.path.lexists(f"{root}/{OFF_FILE}"):
        return _switched_off(root, intent)
    problem = intent.problem or ("" if intent.session else "it names no session")
    if problem:
        return _not_understood(intent, problem)
    if call.env.get(GRANT_VARIABLE):
        from holdfast.gate.door import delegated_calls

        return delegated_calls.by_grant(root, list(paths), call)
    if call.env.get(SOCKET_VARIABLE):
        from holdfast.gate.door import delegated_calls

        return delegated_calls.by_broker(root, list(paths), call)
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
    """Warnings about git's hooks, nearly always none. Commits that the hooks did not see are
    processed first."""
    if not hook_watch.is_to_look(root, is_start=_is_start(intent)):
        return ""
    from holdfast.gate.git import hook_repair

    return hook_repair.look(root)


def _end(call: Call, root: str, settings: Settings) -> float:
    """The deadline of the answer, as a moment of `time.monotonic()`: before the client's timeout,
    as it is set in the session's own repository."""
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
    # No copies are kept until an agent has run a command while another agent held a file.
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
    """Before a command of the agent, or after it. While the command's call is open, it keeps the
    agent's leases even if the client dies."""
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


def _leased(call: Call, gate: LeaseGate, manager: Ledger, settings: Settings) -> HookAnswers | None:
    """The handling of a command that is leased at the write, in the repository that it runs in.
    Others that it may write to are guarded."""
    from holdfast.gate.commands.lease_mode import slips_folder
    from holdfast.manager.files.paths import find_root

    intent, root = call.intent, _root(manager)
    folder = slips_folder(root, settings, intent, call.env)
    if not folder or find_root(intent.cwd or os.getcwd()) != root:
        return None
    from holdfast.gate.commands.hook_answers import HookAnswers

    return HookAnswers(intent, gate, manager, settings, folder, call.home)


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
    """Whether a path may be one of ours, by its text."""
    return ".holdfast" in path or ".git/holdfast/" in path


def _signed(manager: Ledger, holder: Holder, paths: list[str]) -> None:
    """Mark an agent's own edit, so that it does not count as damage to its files."""
    from holdfast.gate import guard

    guard.edited(manager, holder, paths)


def _damage(
    intent: Intent, gate: LeaseGate, manager: Ledger, *, expected: bool = False
) -> Callable[[], str]:
    """A function that returns the message on damage to this agent's files, if its client passes
    messages on at this event."""
    if not clients.hears(intent):
        return str
    from holdfast.gate import guard

    return guard.pending(manager, gate, intent.cwd, expected=expected)


def _root(manager: Ledger) -> str:
    return manager.tree.root if manager.tree is not None else ""


#: Events after which an agent has no pending edit or command.
_AT_REST = (STOP, AGENT_STOP, SESSION_END)


def _lived(call: Call, gate: LeaseGate, manager: Ledger, *, watched: bool) -> Answer:
    """Events of an agent's life: its start, its turns and its end."""
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
        _signed(manager, gate.holder, call.paths_in(root))
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
        return Answer(QUIET)  # the outcome is reported when all ledgers have decided
    if event == AGENT_STOP:
        # After the tool that ran it, the sub-agent has ended for good.
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
