"""The clients: one small module each, which parses a hook's input and prints what its client obeys.

An adapter is a module with `NAME`, `read`, `say`, `outcome`, `TELLS` and the facts that `init`
needs. Only the requested one is imported, because every hook pays for what it loads.

`read` never raises, whatever the JSON: a writing call that it cannot parse becomes an edit with a
`problem`, which the gate refuses; anything else becomes "other". `say` has one duty above all: a
refusal must have the form that its client obeys, because any other output, exit code or additional
key lets the write happen. `outcome` returns the text of a file after an edit, as far as that can be
known: for the few files of which an agent may change a part. `keeps_rest` returns whether an edit
is applied to the text that its files have at the write, so that it undoes no change of another
holder, whenever the agent has read them.

This module has what the adapters share. Clients of another form share nothing of it but the names.

    claude         Claude Code
    codex          Codex
    mcp_calls      files among the arguments of an MCP tool
    patch_files    which files an `apply_patch` text changes
    patch_result   the text that such a patch makes of one file
"""

from __future__ import annotations

import os

from holdfast.core.codec import dumps
from holdfast.gate.intent import (
    AGENT_STOP,
    CONTINUE,
    DENY,
    EDIT,
    HALT,
    MCP_PREFIX,
    OTHER,
    SHELL,
    Intent,
    Reply,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    from holdfast.gate.intent import Answer

    class Adapter(Protocol):
        """The attributes of each adapter module."""

        #: Its name for `holdfast hook` and `init --client`.
        NAME: str
        #: The hook events to install, each with the matcher of its tools, or None for all.
        EVENTS: dict[str, str | None]
        #: The files that can contain its hooks in a repository; `init` writes to the first.
        SETTINGS_FILES: tuple[str, ...]
        #: Whether it reads the hooks of the main checkout in any linked worktree.
        READS_MAIN_CHECKOUT: bool
        #: The field of a hook that ends it, and how many of its units are a second.
        TIMEOUT_FIELD: str
        TIMEOUT_PER_SECOND: int
        #: Events for which the client accepts no longer timeout than this, in seconds.
        TIMEOUT_SECONDS_MAX: dict[str, int]
        #: Whether it starts a hook without a shell (`args`) and knows `onFailure`.
        EXEC_FORM: bool
        #: The variable that names a program in front of its shell commands; empty if it has none.
        SHELL_PREFIX: str
        #: The text that the client shows while a hook of these events runs.
        STATUS: dict[str, str]
        #: The variable that carries the session in the environment of the agent's commands.
        MARK: str
        #: The variable that carries the folder of the session in the environment of a hook, if any.
        HOME: str
        #: The hook events at which the client passes context on to the agent without a refusal.
        TELLS: frozenset[str]
        #: What the user still has to do after `init`; empty for nothing.
        TO_DO: str

        def read(self, data: object, env: Mapping[str, str]) -> Intent: ...

        def say(self, intent: Intent, answer: Answer) -> Reply: ...

        def outcome(self, data: object, path: str, old: str) -> str | None: ...

        def keeps_rest(self, data: object) -> bool: ...


NAMES = ("claude", "codex")

#: The matcher for all tools of MCP servers, which both clients name alike.
MCP_TOOLS = f"{MCP_PREFIX}.*"

TEXT_MAX = 4000
NAME_MAX = 200
PATH_MAX = 4096

#: The reason of a refusal that has none: Codex ignores a denial without a reason.
NO_REASON = "Holdfast refused this."
#: The reason for continuing that has none: a blank reason lets the agent stop.
GO_ON = "Continue what you were doing."

#: Shown while a call or a stop may be held open. It is fixed text in the settings.
WAITING = "holdfast: waiting for a file"


def adapter(name: str) -> Adapter | None:
    """The adapter of a client, or None if there is none of that name."""
    if name == "claude":
        from holdfast.gate.clients import claude

        return claude
    if name == "codex":
        from holdfast.gate.clients import codex

        return codex
    return None


def hears(intent: Intent) -> bool:
    """Whether the agent of an intent reads the answer's `context`. After the end of a sub-agent
    another agent reads it."""
    found = adapter(intent.client)
    return found is not None and intent.hook in found.TELLS and intent.event != AGENT_STOP


class Told:
    """The common input of every hook, as far as it has the right types: agent, folder, event, tool.

    `agent` is empty for the session's own agent. `problem` says why the agent cannot be identified:
    its lease could not be distinguished from another's.
    """

    __slots__ = (
        "agent", "call", "cwd", "event", "fields", "is_attended", "is_repeated", "problem",
        "session", "tool",
    )  # fmt: skip

    def __init__(self, data: dict[Any, Any]) -> None:
        self.event = _name(data, "hook_event_name")
        self.tool = _name(data, "tool_name")
        self.call = _name(data, "tool_use_id")
        self.is_repeated = bool(data.get("stop_hook_active"))
        self.is_attended = True
        fields = data.get("tool_input")
        self.fields: dict[Any, Any] = fields if isinstance(fields, dict) else {}
        cwd = text_of(data, "cwd")
        self.cwd = cwd if is_path(cwd) and os.path.isabs(cwd) else ""
        self.session = _name(data, "session_id")
        self.agent = _name(data, "agent_id")
        self.problem = ""
        if not self.session:
            self.problem = "it names no session"
        elif not self.agent and data.get("agent_id") not in (None, ""):
            # mistaken for its parent, it could write the parent's files
            self.problem = "it names no sub-agent"

    def intent(self, client: str, event: str, *, problem: str = "", **more: Any) -> Intent:
        """The intent of this agent. With a problem it is an edit, which is refused, or an event
        that the gate ignores."""
        if problem and event == SHELL:
            event = EDIT
        elif problem and event != EDIT:
            event = OTHER
        return Intent(
            client, event, self.session,
            agent=self.agent, tool=self.tool, call=self.call, cwd=self.cwd, problem=problem,
            hook=self.event, is_repeated=self.is_repeated, is_attended=self.is_attended, **more,
        )  # fmt: skip

    def mcp(self, client: str, event: str, **more: Any) -> Intent:
        """A call of an MCP tool: like a command, whose `writes` are known from its arguments."""
        from holdfast.gate.clients.mcp_calls import written

        writes = tuple(
            path for path in written(self.tool, self.fields, self.cwd) if not is_broken(path)
        )
        command = " ".join((self.tool, *writes))
        problem = self.unreadable((".",))
        return self.intent(client, event, writes=writes, command=command, problem=problem, **more)

    def unreadable(self, paths: tuple[str, ...] | None) -> str:
        """Why these paths cannot be leased for this agent, or nothing."""
        if self.problem:
            return self.problem
        if paths is None:
            return "it names no file"
        if not self.cwd and not all(map(os.path.isabs, paths)):
            return "it names no working folder"
        return ""


def text_of(data: dict[Any, Any], name: str) -> str:
    """A field's text; empty if it is missing or something else."""
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _name(data: dict[Any, Any], name: str) -> str:
    """A field's text if it can be a name in a ledger and for people; else empty."""
    value = text_of(data, name)
    return value if len(value) <= NAME_MAX and value.isprintable() else ""


def is_path(text: str) -> bool:
    """Whether a file could have this path."""
    return 0 < len(text) <= PATH_MAX and "\0" not in text and not is_broken(text)


def is_broken(text: str) -> bool:
    """Whether the text has a lone surrogate, which no client and no file system accepts."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


_PLAIN: dict[int, str | None] = {
    **dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "\ufffd"),
    13: None,
    0x2028: "\n",
    0x2029: "\n",
}


def plain(text: str) -> str:
    """A text that any client can read and any terminal show, no longer than `TEXT_MAX`.

    The middle of a longer text is cut: its beginning says what happened, and its end what to do
    next."""
    if len(text) > TEXT_MAX:
        head = TEXT_MAX * 3 // 4
        text = f"{text[:head]} … {text[head + 3 - TEXT_MAX :]}"
    if text.isascii() and text.isprintable():
        return text
    if is_broken(text):
        text = text.encode("utf-8", "replace").decode()
    return text.translate(_PLAIN).strip()


def reason_of(answer: Answer, more: str = "") -> str:
    """The text for an agent that is refused or made to continue. Never blank."""
    said = (answer.reason, answer.context, more)
    blank = GO_ON if answer.kind == CONTINUE else NO_REASON
    return plain("\n".join(text for text in said if text.strip())) or blank


def telling(intent: Intent, answer: Answer, tells: frozenset[str], *, decision: str = "") -> Reply:
    """The reply to an event that is not refused, or can no longer be: context for the agent where
    its hook `tells` it, and a message for the user. Empty if there is neither, so that the client's
    own permissions decide. A changed input goes with `decision`, for a client that accepts it only
    with one."""
    agent, user = plain(answer.context), plain(answer.user)
    if answer.kind in (DENY, HALT, CONTINUE):
        agent = reason_of(answer)
    said: dict[str, Any] = {}
    hook = intent.hook if intent.hook in tells else ""
    if agent and hook:
        said["hookSpecificOutput"] = {"hookEventName": hook, "additionalContext": agent}
    elif agent and answer.kind in (DENY, HALT, CONTINUE):
        user = user or agent  # or the message would be lost
    if answer.input is not None and hook:
        inner = said.setdefault("hookSpecificOutput", {"hookEventName": hook})
        inner["updatedInput"] = dict(answer.input)
        if decision:
            inner["permissionDecision"] = decision
    if user:
        said["systemMessage"] = user
    return Reply(f"{dumps(said)}\n" if said else "")


def denying(reason: str, user: str, **more: Any) -> Reply:
    """A refusal in the form that Claude Code introduced and others adopted."""
    said: dict[str, Any] = {
        "hookSpecificOutput": {
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        },
        **more,
    }
    if user:
        said["systemMessage"] = user
    return Reply(f"{dumps(said)}\n")


def going_on(answer: Answer) -> Reply:
    """The reply that makes an agent continue instead of stopping, in the form that both clients
    obey."""
    said = {"decision": "block", "reason": reason_of(answer)}
    user = plain(answer.user)
    if user:
        said["systemMessage"] = user
    return Reply(f"{dumps(said)}\n")
