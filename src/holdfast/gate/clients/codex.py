"""Codex.

Its hooks have the form of Claude Code's, with less room: a refusal may carry only a message to the
user. With `continue: false`, an unknown key, or a blank reason Codex treats the whole answer as an
error, and the write happens. So the gate cannot stop its agent: a halt is a refusal which says that
it holds until a person resumes the agent.

At a stop the agent continues with `decision: block` and a reason that is not blank. An interruption
by the user is a stop too, with a timeout of 3 seconds.

Codex does not report a failed tool, and names no process: the gate looks among the hook's
ancestors.
"""

from __future__ import annotations

from holdfast.gate.clients import (
    MCP_TOOLS,
    WAITING,
    Told,
    denying,
    going_on,
    is_path,
    patch_files,
    plain,
    reason_of,
    telling,
)
from holdfast.gate.intent import (
    AGENT_CALL,
    AGENT_START,
    AGENT_STOP,
    CONTINUE,
    DENY,
    EDIT,
    EDITED,
    HALT,
    MCP_PREFIX,
    OTHER,
    PROMPT,
    SESSION_END,
    SESSION_START,
    SHELL,
    SHELLED,
    STOP,
    Intent,
    Reply,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.gate.intent import Answer

NAME = "codex"

_PATCHES = ("apply_patch", "applypatch")
_SHELLS = ("Bash", "shell", "local_shell", "shell_command", "exec_command")
_TOOLS = "|".join(("apply_patch", *_SHELLS))
#: Tools whose command line the answer may replace, together with "allow". That allows nothing that
#: the client's own sandbox and its user would not.
REWRITES = ("Bash",)
#: The suffix of the tools that start a sub-agent.
_CALL = "spawn_agent"

EVENTS: dict[str, str | None] = {
    "PreToolUse": f"{_TOOLS}|.*{_CALL}|{MCP_TOOLS}",
    "PostToolUse": f"{_TOOLS}|{MCP_TOOLS}",
    "UserPromptSubmit": None,
    "Stop": None,
    "Interrupt": None,
    "SubagentStart": None,
    "SubagentStop": None,
    "SessionStart": None,
    "SessionEnd": None,
}
SETTINGS_FILES: tuple[str, ...] = (".codex/hooks.json",)
READS_MAIN_CHECKOUT = False
TIMEOUT_FIELD = "timeout"
TIMEOUT_PER_SECOND = 1
TIMEOUT_SECONDS_MAX: dict[str, int] = {"SessionEnd": 3, "Interrupt": 3}
SHELL_PREFIX = ""
EXEC_FORM = False
STATUS = dict.fromkeys(("PreToolUse", "Stop", "SubagentStop"), WAITING)
MARK = "CODEX_SESSION_ID"
HOME = ""
TO_DO = "start codex in this repository and trust the hooks with /hooks; until then it skips them"

_LIVES = {
    "UserPromptSubmit": PROMPT,
    "Stop": STOP,
    "Interrupt": STOP,
    "SubagentStart": AGENT_START,
    "SubagentStop": AGENT_STOP,
    "SessionStart": SESSION_START,
    "SessionEnd": SESSION_END,
}
TELLS = frozenset(
    ["PreToolUse", "PostToolUse", "UserPromptSubmit", "SubagentStart", "SessionStart"],
)

HALTED = (
    "All further edits by this agent are refused too. Stop here and tell your user: "
    "the agent may continue after their next message, or after `holdfast resume`."
)


def read(data: object, env: Mapping[str, str]) -> Intent:
    """The intent of an event of this client."""
    if not isinstance(data, dict):
        return Intent(NAME, EDIT, "", problem="the input is not a JSON object")
    told = Told(data)
    if told.event in ("PreToolUse", "PostToolUse"):
        return _tool(told)
    problem = told.problem
    if not told.event and (not told.tool or told.tool in _PATCHES or told.tool in _SHELLS):
        return told.intent(NAME, EDIT, problem="the input names no event")
    event = _LIVES.get(told.event, OTHER)
    if event == PROMPT and told.agent:  # its task, which another agent wrote
        event = OTHER
    if event in (AGENT_START, AGENT_STOP) and not told.agent:
        problem = problem or "it names no sub-agent"
    if told.event == "Interrupt":
        told.is_repeated = True
    return told.intent(NAME, event, problem=problem)


def _tool(told: Told) -> Intent:
    """Before or after a tool ran."""
    after = told.event == "PostToolUse"
    edit, shell = (EDITED, SHELLED) if after else (EDIT, SHELL)
    if told.tool.startswith(MCP_PREFIX):
        return told.mcp(NAME, shell)
    if told.tool not in _PATCHES and told.tool not in _SHELLS:
        if told.tool or after:
            calls = told.tool.endswith(_CALL) and not after
            return told.intent(NAME, AGENT_CALL if calls else OTHER, problem=told.problem)
        return told.intent(NAME, EDIT, problem="the input names no tool")
    words = told.fields.get("command")
    if isinstance(words, str):
        words = [words]
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        return told.intent(NAME, edit, problem="it names no command")
    if told.tool in _PATCHES or (len(words) == 2 and words[0] in _PATCHES):
        writes = _files(words)
        problem = told.unreadable(writes or ())
        if writes is None:
            problem = problem or "the patch cannot be parsed"
        return told.intent(NAME, edit, writes=writes or (), problem=problem)
    command = words[0] if len(words) == 1 else " ".join(map(_quoted, words))
    return told.intent(NAME, shell, command=command, problem=told.unreadable((".",)))


def _files(words: list[str]) -> tuple[str, ...] | None:
    """The files of a patch, given alone or as the last word of a command."""
    found = patch_files.files(words[-1]) if words else None
    return found if found is not None and all(map(is_path, found)) else None


def _quoted(word: str) -> str:
    """A word as a shell reads it back."""
    if word and word.isascii() and word.replace("-", "").replace("_", "").isalnum():
        return word
    return "'" + word.replace("'", "'\\''") + "'"


def say(intent: Intent, answer: Answer) -> Reply:
    """The reply that this client obeys."""
    if answer.kind not in (DENY, HALT) or intent.event not in (EDIT, SHELL, AGENT_CALL, OTHER):
        if intent.event == SESSION_END:
            return Reply()  # it accepts no answer there
        stops = intent.event in (STOP, AGENT_STOP)
        if answer.kind == CONTINUE and stops and not intent.is_repeated:
            return going_on(answer)
        return telling(intent, answer, TELLS, decision="allow")
    return denying(reason_of(answer, HALTED if answer.kind == HALT else ""), plain(answer.user))


def outcome(data: object, path: str, old: str) -> str | None:
    """The text of a file after a patch; None if that cannot be known."""
    from holdfast.gate.clients.patch_result import outcome as patched

    words = Told(data if isinstance(data, dict) else {}).fields.get("command")
    text = words if isinstance(words, str) else words[-1] if isinstance(words, list) else None
    return patched(text, path, old) if isinstance(text, str) else None


def keeps_rest(data: object) -> bool:
    """Whether all parts of a patch change lines that they find in a file at the write. Added,
    removed or moved files replace the existing text."""
    words = Told(data if isinstance(data, dict) else {}).fields.get("command")
    text = words if isinstance(words, str) else words[-1] if isinstance(words, list) else None
    return isinstance(text, str) and patch_files.only_updates(text)
