"""hook, blockers, resume, undo: the gate, as clients call it and as people see it."""

from __future__ import annotations

from holdfast.cli import DONE, FAILED
from holdfast.cli.command_context import CommandContext
from holdfast.cli.guarding.person import person
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import document, listed, out, plain, talk
from holdfast.core.errors import StoreReadonlyError
from holdfast.gate.people.blocked_agents import blockers as blocked
from holdfast.gate.people.blocked_agents import resume as let_go_on
from holdfast.gate.people.notices import look_out_if_wanted
from holdfast.gate.rulebook import agent_messages
from holdfast.manager.files.paths import find_root
from holdfast.manager.manager import LockManager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.cli.parser import Call
    from holdfast.gate.rulebook.agent_records import Block


def hook(call: Call) -> int:
    """Answer a client's hook. `init` installs a faster way to call it."""
    from holdfast.gate.door.hook_process import main

    if len(call.words) != 1:
        raise UsageError("hook needs one client", hint="holdfast hook claude, or codex")
    main(call.words)
    return DONE


def blockers(call: Call) -> int:
    """Show which agents were stopped, and why."""
    context = CommandContext(call)
    root = find_root(context.folder)
    found: list[dict[str, Any]] = []
    if root is not None:
        try:
            with LockManager.open(root) as manager:
                found = [block.report for block in blocked(manager)]
            if found:
                look_out_if_wanted(root)
        except StoreReadonlyError as closed:
            from holdfast.cli.locking import inside_sandbox

            found = inside_sandbox.blockers(context, closed)
    if call.flag("json"):
        document({"blockers": found})
        return DONE
    if not found:
        out("no agent is blocked")
    for report in found:
        out(f"{plain(report['agent'])}\n{_plain_lines(agent_messages.facts(report))}")
    if found:
        talk("  to let one continue when its file is free: holdfast resume AGENT")
    return DONE


def _plain_lines(text: str) -> str:
    return "\n".join(map(plain, text.split("\n")))


def resume(call: Call) -> int:
    """Let blocked agents continue."""
    if len(call.words) > 1:
        raise UsageError("one agent at a time", hint="without a name all blocked agents continue")
    may, hint = "let a blocked agent continue", "ask the person whom you work for"
    agent = call.words[0] if call.words else ""
    root = find_root(CommandContext(call).folder)
    found: list[dict[str, Any]] = []
    others: list[Block] = []
    if root is None:
        person(may, hint, at_a_terminal=False)
    else:
        with LockManager.open(root) as manager:
            me = person(may, hint, at_a_terminal=False, manager=manager)
            found = let_go_on(manager, me.id, agent=agent)
            others = [] if found else blocked(manager)
    if call.flag("json"):
        document({"resumed": found})
    elif found:
        for report in found:
            out(plain(f"{report['agent']} may continue; it was blocked by {report['owner']}, "
                      f"which held {report['blocked_file']}"))  # fmt: skip
    else:
        out(plain(f"{agent} is not blocked" if agent else "no agent is blocked"))
        if others:
            talk(plain(f"  blocked agents: {listed(_names(others), 20)}"))
    return DONE if found or not agent else FAILED


def _names(blocks: list[Block]) -> list[str]:
    """The names of some agents, each once; with their keys if two share a name."""
    names = {block.key: block.agent for block in blocks}
    shared = len(set(names.values())) < len(names)
    return [f"{name} ({key})" if shared else name for key, name in names.items()]


def undo(call: Call) -> int:
    """Restore what a command damaged."""
    from holdfast.gate import guard

    if len(call.words) != 1:
        raise UsageError("undo needs the id of one damage", hint="holdfast log shows the ids")
    root = find_root(CommandContext(call).folder)
    if root is None:
        raise UsageError("there is no ledger here", hint="go to the repository first")
    with LockManager.open(root) as manager:
        done = guard.undo(manager, call.words[0])
    if call.flag("json"):
        left = [{"path": path, "why": why} for path, why in done.left]
        document({"id": done.id, "restored": list(done.restored), "left": left})
        return FAILED if left else DONE
    if done.restored:
        out(f"restored {listed(done.restored)}")
    for path, why in done.left:
        talk(plain(f"  not restored: {path} ({why})"))
    return FAILED if done.left else DONE
