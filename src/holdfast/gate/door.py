"""The door for clients' hooks: bytes in, an answer out. It never raises and never hangs.

Whatever goes wrong in here would let the write happen, for that is what clients do with a hook
that fails. So trouble is a refusal in the client's own form, with what to do, and only for what
could write. Everything else passes in silence.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.gate import busy, clients
from holdfast.gate.intent import (
    AGENT_STOP,
    ALLOW,
    DENY,
    EDIT,
    EDITED,
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
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.model import Holder
    from holdfast.gate.leases import Gate
    from holdfast.gate.settings import Settings
    from holdfast.manager.manager import LockManager

#: More than this no client sends; what is cut off cannot be understood, and is refused.
INPUT_BYTES_MAX = 16 << 20
GRANT_VARIABLE = "HOLDFAST_GRANT"
TOKEN_VARIABLE = "HOLDFAST_TOKEN"
SOCKET_VARIABLE = "HOLDFAST_SOCKET"
GAP = "coverage_gap"
#: As in `gate.switch` and `gate.guard`, which are only imported if these are there.
OFF_FILE = ".holdfast/off"
ASIDE_FOLDER = ".holdfast/aside"


def answer(
    client: str,
    data: bytes,
    env: Mapping[str, str],
    *,
    started: float | None = None,
    pause: Callable[[float, object], bool] | None = None,
) -> Reply:
    """What a hook of this client says to what it was told."""
    adapter = clients.adapter(client)
    if adapter is None:
        known = "no client of that name is known"
        return Reply(stderr=f"holdfast: {client[:40]!r}: {known}\n", code=2)
    intent = Intent(client, EDIT, "", problem="the input is no JSON")
    try:
        intent = adapter.read(_parsed(data), env)
        said = _decided(intent, env, monotonic() if started is None else started, pause)
    except HoldfastError as error:
        said = _in_trouble(intent, error.message, error.hint)
    except Exception as error:  # whatever it is, the write must not happen
        said = _in_trouble(intent, f"{type(error).__name__}: {error}")
    return adapter.say(intent, said)


def _parsed(data: bytes) -> object:
    if len(data) > INPUT_BYTES_MAX:
        return None
    try:
        return codec.loads(data.decode("utf-8").strip())
    except (ValueError, RecursionError):
        return None


def _in_trouble(intent: Intent, what: str, hint: str = "") -> Answer:
    if intent.event not in (EDIT, SHELL):
        return Answer(QUIET)
    from holdfast.gate import guard, telling

    if intent.command and guard.is_own(intent.command):
        return Answer(QUIET)  # nobody is kept from looking what is wrong
    return Answer(DENY, telling.trouble(what, hint))


def _decided(
    intent: Intent,
    env: Mapping[str, str],
    started: float,
    pause: Callable[[float, object], bool] | None,
) -> Answer:
    if intent.event == EDIT and not intent.problem:
        said = Answer(QUIET)
        for root, paths in by_root(intent.writes, intent.cwd).items():
            said = _at(root, intent, paths, env, started, pause)
            if said.kind not in (ALLOW, QUIET):
                break
        return said
    from holdfast.manager.paths import find_root

    here = find_root(intent.cwd or os.getcwd())
    return Answer(QUIET) if here is None else _at(here, intent, [], env, started, pause)


def by_root(writes: tuple[str, ...], cwd: str) -> dict[str, list[str]]:
    """Paths by the ledger that each belongs to: the nearest above the file, wherever the agent
    is. What has none is nobody's business here."""
    from holdfast.manager.paths import find_root

    found: dict[str, list[str]] = {}
    for text in writes:
        whole = text if text[:1] == "/" else f"{cwd or os.getcwd()}/{text}"
        root = find_root(whole)
        if root is not None:
            found.setdefault(root, []).append(whole)
    return found


def _at(
    root: str,
    intent: Intent,
    paths: list[str],
    env: Mapping[str, str],
    started: float,
    pause: Callable[[float, object], bool] | None,
) -> Answer:
    """What one ledger's gate says."""
    from holdfast.manager.manager import LockManager

    if os.path.lexists(f"{root}/{OFF_FILE}"):
        return _switched_off(root, intent)
    problem = intent.problem or ("" if intent.session else "it does not say which session")
    if problem:
        return _not_understood(intent, problem)
    if env.get(GRANT_VARIABLE):
        return _by_grant(root, intent, paths, env)
    from holdfast.gate.settings import Settings

    settings = Settings.load(root, lenient=True)
    deadline = started + settings.deadline_seconds
    with LockManager.open(root) as manager:
        said = _asked(intent, paths, manager, settings, deadline, pause)
    if settings.problem and _is_start(intent):
        return Answer(said.kind, said.reason, user=f"holdfast: {settings.problem}")
    return said


def _switched_off(root: str, intent: Intent) -> Answer:
    from holdfast.gate.switch import Off, switched_off

    off = switched_off(root) or Off()
    told = f"holdfast: {off.sentence()}. Edits are not checked." if _is_start(intent) else ""
    return Answer(QUIET, user=told)


def _not_understood(intent: Intent, problem: str) -> Answer:
    if intent.event not in (EDIT, SHELL):
        return Answer(QUIET)
    from holdfast.gate import telling

    return Answer(DENY, telling.not_understood(problem))


def _is_start(intent: Intent) -> bool:
    return intent.event == SESSION_START


def _asked(
    intent: Intent,
    paths: list[str],
    manager: LockManager,
    settings: Settings,
    deadline: float,
    pause: Callable[[float, object], bool] | None,
) -> Answer:
    from holdfast.gate.agents import holder_of
    from holdfast.gate.leases import Gate

    holder = holder_of(intent)
    gate = Gate(
        manager,
        holder,
        settings,
        deadline_seconds=STORE_SECONDS,
        hold_seconds=deadline - monotonic(),
        pause=pause,
    )
    # Nothing is kept aside as long as nobody ran a command while another held something.
    watched = os.path.lexists(f"{_root(manager)}/{ASIDE_FOLDER}")
    if intent.event == EDIT:
        said = gate.permit(paths)
        if said.kind == ALLOW:
            busy.begin(_root(manager), holder.key, paths)
            if watched:
                _signed(manager, holder, paths)
    elif intent.event in (SHELL, SHELLED, FAILED) and intent.command:
        from holdfast.gate import guard

        said = guard.around(intent, gate, manager, settings)
    else:
        if intent.event in (EDITED, FAILED, STOP, AGENT_STOP, SESSION_END):
            busy.end(_root(manager), holder.key)
        if watched and intent.event in (EDITED, FAILED) and intent.writes:
            _signed(manager, holder, by_root(intent.writes, intent.cwd).get(_root(manager), []))
        said = _lived(intent, gate)
    return _with_damage(said, intent, manager, holder) if watched else said


def _signed(manager: LockManager, holder: Holder, paths: list[str]) -> None:
    """An agent's own edit is not taken for damage by those who watch its files."""
    from holdfast.gate import guard

    guard.edited(manager, holder, paths)


def _with_damage(said: Answer, intent: Intent, manager: LockManager, holder: Holder) -> Answer:
    """What was done to this agent's files, told where it can be heard."""
    adapter = clients.adapter(intent.client)
    if adapter is None or intent.event not in adapter.TELLS:
        return said
    from holdfast.gate import guard

    told = guard.pending(manager, holder)
    return _with_context(said, told) if told else said


def _root(manager: LockManager) -> str:
    return manager.tree.root if manager.tree is not None else ""


def _with_context(said: Answer, told: str) -> Answer:
    context = f"{said.context}\n{told}" if said.context else told
    return Answer(said.kind, said.reason, user=said.user, context=context, report=said.report)


#: How long one decision may take, whatever other processes do to the ledger.
STORE_SECONDS = 8.0


def _lived(intent: Intent, gate: Gate) -> Answer:
    """The beginning, the turns and the end of an agent's life."""
    event = intent.event
    if event == STOP:
        gate.stop(background=intent.background)
    elif event == SESSION_END:
        gate.end_session()
    elif event == AGENT_STOP:
        from holdfast.gate.agents import holder_of

        parent = Intent(intent.client, event, intent.session, cwd=intent.cwd, pid=intent.pid)
        gate.end_agent(holder_of(parent))
    elif event == FAILED and not intent.tool:
        gate.fail()
    else:
        if event == SESSION_START:
            gate.rebind()
        elif event == PROMPT:
            gate.resume("a new prompt")
        gate.awake()
    return Answer(QUIET)


def _by_grant(root: str, intent: Intent, paths: list[str], env: Mapping[str, str]) -> Answer:
    """One who was sent out with a grant writes what it covers, and nothing else."""
    if intent.event == SHELL:
        paths = _plain_writes(root, intent)
    elif intent.event != EDIT:
        return Answer(QUIET)
    grant, token = env[GRANT_VARIABLE], env.get(TOKEN_VARIABLE, "")
    number = int(token) if token.isascii() and token.isdigit() else -1
    if env.get(SOCKET_VARIABLE):  # in a sandbox only the runner outside can look
        return _by_runner(paths, grant, number, env[SOCKET_VARIABLE])
    from holdfast.manager import services
    from holdfast.manager.manager import LockManager

    with LockManager.open(root) as manager:
        for path in paths:
            verdict = manager.verify(grant, path, token=number)
            if not verdict:
                gap = {"grant": grant, "path": path, "why": verdict.reason}
                services.note(manager, GAP, {**gap, "client": intent.client})
                return _uncovered(path, grant, verdict.reason)
    return Answer(ALLOW)


def _uncovered(path: str, grant: str, why: str) -> Answer:
    from holdfast.gate import telling

    return Answer(DENY, telling.uncovered(path, grant, why))


def _plain_writes(root: str, intent: Intent) -> list[str]:
    from holdfast.gate import guard
    from holdfast.manager.manager import LockManager
    from holdfast.manager.paths import Tree

    return guard.plain_writes(intent, LockManager(tree=Tree(root)))


def _by_runner(paths: list[str], grant: str, token: int, where: str) -> Answer:
    from holdfast.gate.sandbox import asking

    for path in paths:
        verdict = asking.verify(grant, path, token=token, where=where)
        if not verdict:
            return _uncovered(path, grant, verdict.reason)
    return Answer(ALLOW)
