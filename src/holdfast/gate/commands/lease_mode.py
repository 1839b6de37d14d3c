"""Whether an agent's commands are leased in a repository, and why not.

Hooks call this for every command, so it costs only a look at the environment and one failed `stat`.
`holdfast init` tested the kernel, and then wrote the prefix script: without a script, commands are
guarded.
"""

from __future__ import annotations

import os

from holdfast.gate import clients
from holdfast.gate.commands import prefix_script
from holdfast.gate.intent import ALLOW, DENY, QUIET, Answer
from holdfast.manager.files.paths import LEDGER_FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.gate.config.settings import Settings
    from holdfast.gate.intent import Intent

CLAUDE, CODEX = "claude", "codex"


def slips_folder(root: str, settings: Settings, intent: Intent, environ: Mapping[str, str]) -> str:
    """Where the hook leaves a slip for a command of an agent; empty if it is not leased."""
    from holdfast.gate.config.settings import LEASE

    if settings.shell != LEASE or intent.tool != "Bash":
        return ""
    if intent.client == CLAUDE:
        folder = prefix_script.folder_of(environ)
        return "" if folder and has_own_sandbox(root, environ) else folder
    if intent.client == CODEX and _is_ready(root) and _can_write_ledger(root, intent.cwd):
        return f"{root}/{LEDGER_FOLDER}"
    return ""


def has_own_sandbox(root: str, environ: Mapping[str, str]) -> bool:
    """Whether Claude Code runs its commands in its own sandbox. There /proc belongs to another
    process namespace, so a broker cannot tell which process makes a call."""
    from holdfast.core.codec import loads

    home = environ.get("CLAUDE_CONFIG_DIR") or f"{environ.get('HOME', '')}/.claude"
    names = (f"{root}/.claude/settings.local.json", f"{root}/.claude/settings.json")
    for file in (*names, f"{home}/settings.json"):
        try:
            with open(file, encoding="utf-8-sig") as stream:
                text = stream.read()
            found = loads(text)["sandbox"]["enabled"] if '"sandbox"' in text else None
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if isinstance(found, bool):
            return found
    return False


def _is_ready(root: str) -> bool:
    return os.path.lexists(prefix_script.path_of(root))


def _can_write_ledger(root: str, cwd: str) -> bool:
    """Whether a command of Codex can write the ledger: its sandbox opens the session's folder, and
    not the ledger of another checkout."""
    return f"{os.path.realpath(cwd)}/".startswith(f"{root}/")


def is_leased(root: str) -> bool:
    """Whether agents' commands are leased in a repository, judging by its files."""
    from holdfast.gate.config.off_switch import switched_off
    from holdfast.gate.config.settings import LEASE, Settings

    return (
        _is_ready(root)
        and Settings.load(root, lenient=True).shell == LEASE
        and switched_off(root) is None
    )


def can_lease() -> str:
    """Why no command can run below a broker on this machine; empty if it can."""
    from holdfast.gate.broker.command_start import demand
    from holdfast.gate.sandbox import SandboxError

    try:
        demand()
    except SandboxError as error:
        return error.message
    return ""


def rewritten(said: Answer, intent: Intent, data: object, folder: str) -> Answer:
    """The answer that makes a command run below a broker. Claude Code starts our program itself;
    Codex gets the line that does."""
    if intent.client != CODEX or said.kind not in (ALLOW, QUIET):
        return said
    from holdfast.gate.commands.codex_lines import is_too_long, line

    fields = data.get("tool_input") if isinstance(data, dict) else None
    text = line(intent.command, folder)
    if not isinstance(fields, dict) or not isinstance(fields.get("command"), str):
        return Answer(DENY, _NO_LINE.format("it is not a shell line"))
    if "\0" in text or clients.is_broken(text) or is_too_long(text):
        return Answer(DENY, _NO_LINE.format("the line is too long, or no shell accepts it"))
    return Answer(
        said.kind, said.reason, user=said.user, context=said.context, report=said.report,
        input={**fields, "command": text},
    )  # fmt: skip


def introducing(intent: Intent, data: object, folder: str) -> Answer:
    """The answer that makes a command below the broker of a whole client tell that broker for which
    agent it runs. A line before which our program cannot be put runs without that."""
    if intent.tool != "Bash":
        return Answer(QUIET)
    said = rewritten(Answer(QUIET), intent, data, folder)
    return Answer(QUIET) if said.kind == DENY else said


_NO_LINE = (
    "Refused: this command cannot be run with leases: {0}. Put it into a script, and run that."
)
