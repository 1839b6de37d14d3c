"""Calls of an agent that was dispatched with a grant, or that runs below a broker.

Neither takes a lease here: the grant cannot be extended, and the broker takes its leases at the
write."""

from __future__ import annotations

import os

from holdfast.gate import clients
from holdfast.gate.door.ledger_answer import GRANT_VARIABLE, LEDGER_FOLDER, SOCKET_VARIABLE
from holdfast.gate.intent import (
    ALLOW,
    DENY,
    EDIT,
    QUIET,
    SHELL,
    Answer,
    leads_into_spec,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.model import Verdict
    from holdfast.gate.door.client_events import Call
    from holdfast.gate.intent import Intent

TOKEN_VARIABLE = "HOLDFAST_TOKEN"
GAP = "coverage_gap"
#: How many gaps of one call are recorded.
GAPS_MAX = 20


def by_grant(root: str, paths: list[str], call: Call) -> Answer:
    """The answer to an agent that was started under a grant: it may write only covered files."""
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
    if env.get(SOCKET_VARIABLE):  # in a sandbox only the runner outside can read the ledger
        return _by_runner(paths, grant, number, env[SOCKET_VARIABLE], intent.client)
    from holdfast.manager import transactions
    from holdfast.manager.manager import LockManager

    with LockManager.open(root) as manager:
        gaps = _gaps(paths, lambda path: manager.verify(grant, path, token=number))
        for path, why in gaps:
            gap = {"grant": grant, "path": path, "why": why, "client": intent.client}
            transactions.note(manager, GAP, gap)
    return _covered(gaps, grant)


def by_broker(root: str, paths: list[str], call: Call) -> Answer:
    """The answer below a broker, which leases every write when it is made; but an agent should hear
    of a refusal before the write. And the broker learns of an edit that will be applied to the
    file's text at the write, whatever the client had read before: that edit is not stale."""
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
    """Tell the broker for which agent a command is about to run, so that its leases name it."""
    from holdfast.core.model import agent_key
    from holdfast.gate.commands.slips import digest
    from holdfast.gate.sandbox import SandboxError, runner_client

    try:
        runner_client.announce(
            digest(intent.command), agent_key(intent.client, intent.session, intent.agent)
        )
    except SandboxError:
        pass  # the leases then name only the program


def _reader(call: Call) -> int:
    """The client's process, if it will apply this edit to the file's text at the write; else 0."""
    adapter = clients.adapter(call.intent.client)
    if adapter is None or not adapter.keeps_rest(call.data):
        return 0
    from holdfast.gate.agents import holder_of

    witness = holder_of(call.intent).witness
    return 0 if witness is None else witness.pid


def _in_specs(paths: list[str], env: Mapping[str, str]) -> Answer | None:
    """The refusal of files in specs that others have locked, for a caller below a runner."""
    from holdfast.gate import locked_specs
    from holdfast.manager.owners.identity import whoami

    folders = [path for path in paths if path.endswith("/")]
    files = [os.path.realpath(path) for path in paths if not path.endswith("/")]
    return locked_specs.refusal(whoami(env).holder, files, folders)


def _gaps(paths: list[str], verify: Callable[[str], Verdict]) -> list[tuple[str, str]]:
    """The paths that a grant does not cover, with the reasons; at most GAPS_MAX."""
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
