"""Claude Code.

A refusal is printed with exit code 0; together with `continue: false` it also stops the agent.
That key alone would stop the agent and let the write happen, so it is only printed with a refusal,
and never in the answer to another event. "allow" is never printed: it would answer the client's
own permission dialog for the user.

At a stop `decision: block` makes the agent continue. A client that runs unattended (`claude -p`)
shows none of the messages to its user, and nothing at all when its agent was stopped. It prints the
stderr of a failing hook at the end of the session: there the gate reports that the agent ended
blocked.

A command with an exit code other than 0 is a `failed` with its `command`: it may have written all
the same. A `failed` without a tool is the agent's own: its model could not be reached.
"""

from __future__ import annotations

from holdfast.gate.clients import (
    MCP_TOOLS,
    WAITING,
    Told,
    denying,
    going_on,
    is_path,
    plain,
    reason_of,
    telling,
    text_of,
)
from holdfast.gate.intent import (
    AGENT_CALL,
    AGENT_START,
    AGENT_STOP,
    CONTINUE,
    DENY,
    EDIT,
    EDITED,
    FAILED,
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
    from typing import Any

    from holdfast.gate.intent import Answer

NAME = "claude"

#: Each tool that edits, with the field that names its file.
_FILES = {
    "Write": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "NotebookEdit": "notebook_path",
}
_SHELLS = ("Bash", "PowerShell", "Monitor")
_TOOLS = "|".join((*_FILES, *_SHELLS))
#: Tools whose command line the answer may replace. All other fields must be repeated.
REWRITES = ("Bash",)
#: The names of the tool that starts a sub-agent.
_AGENTS = ("Agent", "Task")

EVENTS: dict[str, str | None] = {
    "PreToolUse": f"{_TOOLS}|{'|'.join(_AGENTS)}|{MCP_TOOLS}",
    "PostToolUse": f"{_TOOLS}|{'|'.join(_AGENTS)}|{MCP_TOOLS}",
    "PostToolUseFailure": f"{_TOOLS}|{MCP_TOOLS}",
    "UserPromptSubmit": None,
    "Stop": None,
    "StopFailure": None,
    "SubagentStart": None,
    "SubagentStop": None,
    "SessionStart": None,
    "SessionEnd": None,
}
#: The commands are valid on this machine only, so they go into the file that git ignores.
SETTINGS_FILES: tuple[str, ...] = (".claude/settings.local.json", ".claude/settings.json")
READS_MAIN_CHECKOUT = True
TIMEOUT_FIELD = "timeout"
TIMEOUT_PER_SECOND = 1
TIMEOUT_SECONDS_MAX: dict[str, int] = {}
SHELL_PREFIX = "CLAUDE_CODE_SHELL_PREFIX"
EXEC_FORM = True
STATUS = dict.fromkeys(("PreToolUse", "Stop", "SubagentStop"), WAITING)
MARK = "CLAUDE_CODE_SESSION_ID"
HOME = "CLAUDE_PROJECT_DIR"
TO_DO = ""

_AFTER = ("PostToolUse", "PostToolUseFailure")
_LIVES = {
    "UserPromptSubmit": PROMPT,
    "Stop": STOP,
    "StopFailure": FAILED,
    "SubagentStart": AGENT_START,
    "SubagentStop": AGENT_STOP,
    "SessionStart": SESSION_START,
    "SessionEnd": SESSION_END,
}
#: The events whose answers may carry context. A stop accepts it too, but the agent then continues
#: instead of stopping, so none is sent there.
TELLS = frozenset(
    ["PreToolUse", *_AFTER, "UserPromptSubmit", "SubagentStart", "SessionStart"],
)

#: The characters that JavaScript's trim removes; this client trims every path.
_BLANKS = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def read(data: object, env: Mapping[str, str]) -> Intent:
    """The intent of an event of this client."""
    pid = _pid(env)
    if not isinstance(data, dict):
        return Intent(NAME, EDIT, "", pid=pid, problem="the input is not a JSON object")
    told = Told(data)
    told.is_attended = _is_attended(env)
    if told.event == "PreToolUse" or told.event in _AFTER:
        return _tool(told, data, env, pid)
    problem = told.problem
    if not told.event and (not told.tool or told.tool in _FILES or told.tool in _SHELLS):
        problem = "the input names no event"
        return told.intent(NAME, EDIT, pid=pid, problem=problem)
    event = _LIVES.get(told.event, OTHER)
    if event == PROMPT and not _is_typed(told, data):
        event = OTHER
    if event in (AGENT_START, AGENT_STOP) and not told.agent:
        problem = problem or "it names no sub-agent"
    # a sub-agent's stop lists the tasks of the whole session, among them itself
    background = event == STOP and bool(data.get("background_tasks"))
    is_alone = event == STOP and data.get("background_tasks") == []
    return told.intent(
        NAME, event, pid=pid, background=background, is_alone=is_alone, problem=problem
    )


def _tool(told: Told, data: dict[Any, Any], env: Mapping[str, str], pid: int) -> Intent:
    """Before or after a tool ran."""
    after = told.event in _AFTER
    if told.tool in _SHELLS:
        event = SHELLED if after else SHELL
    elif told.tool in _FILES:
        event = EDITED if after else EDIT
    elif told.tool in _AGENTS:
        if after:
            return _agent(told, data, pid)
        return told.intent(NAME, AGENT_CALL, pid=pid, problem=told.problem)
    elif told.tool.startswith(MCP_PREFIX):
        event = FAILED if told.event == "PostToolUseFailure" else SHELLED if after else SHELL
        return told.mcp(NAME, event, pid=pid)
    elif told.tool or after:
        return told.intent(NAME, OTHER, pid=pid)
    else:
        problem = "the input names no tool"
        return told.intent(NAME, EDIT, pid=pid, problem=problem)
    if told.event == "PostToolUseFailure":
        event = FAILED
    if told.tool in _FILES:
        path = _expanded(told.fields.get(_FILES[told.tool]), env)
        writes = None if path is None else (path,)
        problem = told.unreadable(writes)
        return told.intent(NAME, event, pid=pid, writes=writes or (), problem=problem)
    command = told.fields.get("command")
    if not isinstance(command, str):
        if told.tool == "Monitor":  # can watch other things than a command
            return told.intent(NAME, OTHER, pid=pid)
        return told.intent(NAME, event, pid=pid, problem="it names no command")
    return told.intent(
        NAME, event, pid=pid, command=command,
        background=after and _is_running(told, data), problem=told.unreadable((".",)),
    )  # fmt: skip


def _agent(told: Told, data: dict[Any, Any], pid: int) -> Intent:
    """After the tool that runs a sub-agent. A halted sub-agent does not report its own end; its
    parent does here. One that continues in the background has not ended."""
    response = data.get("tool_response")
    if not isinstance(response, dict) or text_of(response, "status") != "completed":
        return told.intent(NAME, OTHER, pid=pid)
    ended = Told({**data, "agent_id": response.get("agentId")})
    ended.is_attended = told.is_attended
    if not ended.agent:
        return told.intent(NAME, OTHER, pid=pid)
    return ended.intent(NAME, AGENT_STOP, pid=pid, problem=ended.problem)


def _is_typed(told: Told, data: dict[Any, Any]) -> bool:
    """Whether a person wrote the prompt. The client's own notices come as prompts too, and must not
    resume an agent that waits for its user."""
    source, prompt = text_of(data, "source"), text_of(data, "prompt")
    return (
        source in ("", "user", "sdk")
        and not told.agent
        and not prompt.startswith("<task-notification>")
    )


def _is_attended(env: Mapping[str, str]) -> bool:
    """Whether a person uses the client interactively, as it reports itself."""
    said = env.get("CLAUDE_CODE_SESSION_ATTENDED", "")
    return said != "0" if said else not env.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")


def _is_running(told: Told, data: dict[Any, Any]) -> bool:
    """Whether a command still runs although its call has ended."""
    response = data.get("tool_response")
    in_background = isinstance(response, dict) and bool(response.get("backgroundTaskId"))
    return in_background or told.fields.get("run_in_background") is True or told.tool == "Monitor"


def _expanded(path: object, env: Mapping[str, str]) -> str | None:
    """The path that this client derives from its model's text. The client does so itself before it
    calls its hooks, except where it is not sure."""
    if not isinstance(path, str):
        return None
    path = path.strip(_BLANKS)
    if path == "~" or path.startswith("~/"):
        home = env.get("HOME", "")
        path = home + path[1:] if home else ""
    return path if is_path(path) else None


def _pid(env: Mapping[str, str]) -> int:
    text = env.get("CLAUDE_PID", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else 0


def say(intent: Intent, answer: Answer) -> Reply:
    """The reply that this client obeys."""
    if answer.kind not in (DENY, HALT) or intent.event not in (EDIT, SHELL, AGENT_CALL, OTHER):
        # its parent also reports a sub-agent's end, after the tool that ran it
        stops = intent.event in (STOP, AGENT_STOP) and intent.tool not in _AGENTS
        if answer.kind == CONTINUE and stops and not intent.is_repeated:
            return going_on(answer)
        if answer.kind == HALT and intent.event == SESSION_END and not intent.is_attended:
            # on lines of its own, because the client prints the hook's command before it
            return Reply(stderr=f"\n{plain(answer.user) or reason_of(answer)}\n", code=1)
        return telling(intent, answer, TELLS)
    reason, user = reason_of(answer), plain(answer.user)
    if answer.kind == HALT and intent.event != OTHER:
        return denying(reason, user, **{"continue": False, "stopReason": user or reason})
    return denying(reason, user)


def outcome(data: object, path: str, old: str) -> str | None:
    """The text of a file after an edit; None if that cannot be known."""
    told = Told(data if isinstance(data, dict) else {})
    if told.tool == "Write":
        content = told.fields.get("content")
        return content if isinstance(content, str) else None
    edits = told.fields.get("edits") if told.tool == "MultiEdit" else [told.fields]
    for edit in edits if isinstance(edits, list) else [None]:
        fields = edit if isinstance(edit, dict) else {}
        before, after = fields.get("old_string"), fields.get("new_string")
        if not isinstance(before, str) or not isinstance(after, str):
            return None
        if (before not in old) or (not before and old):
            return None  # the client's search is not exact
        old = old.replace(before, after, -1 if fields.get("replace_all") else 1)
    return old


def keeps_rest(data: object) -> bool:
    """Whether a call replaces a part of the text that its file has at the write. `Write` replaces
    all of it, and the client does not check whether the agent has read it."""
    return isinstance(data, dict) and Told(data).tool == "Edit"
