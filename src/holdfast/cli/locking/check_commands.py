"""check and whoami: they only read."""

from __future__ import annotations

from holdfast.cli import CONFLICT, DONE
from holdfast.cli.command_context import CommandContext, view_of
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import document, out, plain
from holdfast.core import rules, sentences
from holdfast.core.errors import HoldfastError, StoreReadonlyError
from holdfast.core.model import Conflicts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.manager.owners.identity import Self


def check(call: Call) -> int:
    """Show what would conflict if the caller locked this now."""
    context = CommandContext(call)
    reads, writes = context.places(call.many("read")), context.places(call.words)
    if not reads and not writes:
        raise UsageError("check needs at least one path", hint="holdfast check PATH…")
    conflicts, now = Conflicts(), 0
    try:
        manager = context.find(writes + reads)
        if manager is not None:
            request = manager.request(context.me().holder, reads, writes)
            with view_of(manager) as view:
                conflicts, now = rules.look(view, request), view.now
    except StoreReadonlyError as closed:
        from holdfast.cli.locking import inside_sandbox

        conflicts, now = inside_sandbox.conflicts(context, reads, writes, closed)
    if call.flag("json"):
        from holdfast.manager.plain_data import conflict_data

        more = {"more": conflicts.more} if conflicts.more else {}
        named = list(map(conflict_data, conflicts))
        document({"free": not conflicts, "conflicts": named, **more})
    elif not conflicts:
        out("free")
    for conflict in () if call.flag("json") else conflicts:
        out(plain(sentences.conflict_sentence(conflict, now)))
    if conflicts.more and not call.flag("json"):
        out(sentences.and_more(0, conflicts.more))
    return CONFLICT if conflicts else DONE


def whoami(call: Call) -> int:
    """Show the holder that the caller's locks would have."""
    me = _named_caller(CommandContext(call))
    if call.flag("json"):
        from holdfast.manager.plain_data import holder_data

        document({**holder_data(me.holder), "how": me.how, **_refusals()})
    else:
        out(f"{plain(me.holder.id)}: {plain(me.how)}")
        for one in _refusals().get("refusals", ()):
            out(f"  refused: {plain(one['sentence'])}")
    return DONE


def _refusals() -> dict[str, Any]:
    """The refusals of the broker around this command, if there is one."""
    from holdfast.gate.sandbox import SandboxError, runner_client

    if not runner_client.address():
        return {}
    try:
        return {"refusals": runner_client.ask({"ask": "refusals"})["refusals"]}
    except SandboxError:  # another kind of sandbox, or the runner has exited
        return {}


def _named_caller(context: CommandContext) -> Self:
    """The caller; an agent by its name in this ledger, if the ledger can be read."""
    me = context.me()
    if not me.holder.client:
        return me
    from holdfast.gate.people.agent_lookup import known_as

    try:
        manager = context.find([])
        return me if manager is None else type(me)(known_as(manager, me.holder), me.how)
    except HoldfastError:
        return me
