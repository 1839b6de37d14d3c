"""The event of an agent, and the gate's answer to it."""

from __future__ import annotations

from holdfast.core.model import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

EDIT = "edit"
EDITED = "edited"
SHELL = "shell"
SHELLED = "shelled"
PROMPT = "prompt"
STOP = "stop"
AGENT_CALL = "agent_call"
AGENT_START = "agent_start"
AGENT_STOP = "agent_stop"
SESSION_START = "session_start"
SESSION_END = "session_end"
FAILED = "failed"
OTHER = "other"

#: How clients name the tools of MCP servers: `mcp__SERVER__TOOL`.
MCP_PREFIX = "mcp__"

#: A path with one of these leads into a spec, which may be locked (see `gate.locked_specs`).
SPEC_WORDS = (".kiro/specs/", ".sce/specs/")

ALLOW = "allow"
DENY = "deny"
HALT = "halt"
QUIET = "quiet"
#: At a stop: the agent continues, and reads the reason.
CONTINUE = "continue"


def leads_into_spec(path: str) -> bool:
    """Whether a path may lie in a spec, by its text alone: this is called for every edit."""
    return SPEC_WORDS[0] in path or SPEC_WORDS[1] in path


class Intent(Value):
    """One event that a client passed to its hook, in terms that are the same for all clients.

    `agent` is the sub-agent, or empty for the session's own. `writes` are the paths of all files
    that will be created, changed, removed or moved, as they were given, relative to `cwd`. `pid` is
    the client's process if the client names it. A call of an MCP tool is a `command` that has
    `writes` too. `background`: at a stop, background work continues. `call` is the client's id of a
    tool call. `is_repeated`: a stop at which the agent cannot be sent back to work, because a hook
    did so before, or its user ended the work. `is_alone`: at a stop, the client reports that no
    sub-agent of the session is at work. `hook` is the client's own name of the event: it decides
    which answers the client accepts. `is_attended`: a person uses the client interactively, as far
    as the client reports. `problem` says what could not be parsed: such an edit is refused.
    """

    __slots__ = (
        "agent", "background", "call", "client", "command", "cwd", "event", "hook", "is_alone",
        "is_attended", "is_repeated", "pid", "problem", "session", "tool", "writes",
    )  # fmt: skip

    def __init__(
        self,
        client: str,
        event: str,
        session: str,
        *,
        agent: str = "",
        tool: str = "",
        writes: tuple[str, ...] = (),
        command: str = "",
        cwd: str = "",
        pid: int = 0,
        background: bool = False,
        call: str = "",
        hook: str = "",
        is_repeated: bool = False,
        is_alone: bool = False,
        is_attended: bool = True,
        problem: str = "",
    ) -> None:
        self.client: Final = client
        self.event: Final = event
        self.session: Final = session
        self.agent: Final = agent
        self.tool: Final = tool
        self.writes: Final = writes
        self.command: Final = command
        self.cwd: Final = cwd
        self.pid: Final = pid
        self.background: Final = background
        self.call: Final = call
        self.hook: Final = hook
        self.is_repeated: Final = is_repeated
        self.is_alone: Final = is_alone
        self.is_attended: Final = is_attended
        self.problem: Final = problem


class Answer(Value):
    """The gate's answer: `reason` for the agent, `user` for the person, `context` for the agent
    without a refusal. A halt is a refusal that also stops the agent; at the end of a session it
    reports that the agent ended blocked. `input` replaces the input of the tool."""

    __slots__ = ("context", "input", "kind", "reason", "report", "user")

    def __init__(
        self,
        kind: str,
        reason: str = "",
        *,
        user: str = "",
        context: str = "",
        report: Mapping[str, Any] | None = None,
        input: Mapping[str, Any] | None = None,
    ) -> None:
        self.kind: Final = kind
        self.reason: Final = reason
        self.user: Final = user
        self.context: Final = context
        self.report: Final = report
        self.input: Final = input


def with_context(said: Answer, told: str) -> Answer:
    """The same answer, with more context for the agent."""
    if not told:
        return said
    context = f"{said.context}\n{told}" if said.context else told
    return Answer(
        said.kind, said.reason, user=said.user, context=context, report=said.report,
        input=said.input,
    )  # fmt: skip


def with_user(said: Answer, told: str) -> Answer:
    """The same answer, with one more message for the user."""
    if not told:
        return said
    user = f"{said.user}\n{told}" if said.user else told
    return Answer(
        said.kind, said.reason, user=user, context=said.context, report=said.report,
        input=said.input,
    )  # fmt: skip


def joined(one: Answer, other: Answer) -> Answer:
    """Two answers as one: a refusal takes precedence, and no message is lost."""
    kinds = (one.kind, other.kind)
    kind = next((kind for kind in (HALT, DENY, CONTINUE, ALLOW) if kind in kinds), QUIET)

    def both(name: str) -> str:
        return "\n".join(filter(None, (getattr(one, name), getattr(other, name))))

    return Answer(
        kind, both("reason"), user=both("user"), context=both("context"),
        report=other.report or one.report,
    )  # fmt: skip


class Reply(Value):
    """The output of a hook, and its exit code."""

    __slots__ = ("code", "stderr", "stdout")

    def __init__(self, stdout: str = "", *, stderr: str = "", code: int = 0) -> None:
        self.stdout: Final = stdout
        self.stderr: Final = stderr
        self.code: Final = code
