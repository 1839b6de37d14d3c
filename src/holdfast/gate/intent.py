"""What an agent is about to do, and what the gate has to say to it."""

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

#: By these words a path leads into a spec, which somebody may have locked (see `gate.specs`).
SPEC_WORDS = (".kiro/specs/", ".sce/specs/")

ALLOW = "allow"
DENY = "deny"
HALT = "halt"
QUIET = "quiet"


def leads_into_spec(path: str) -> bool:
    """Whether a path may lie in a spec. Asked for every edit, so by nothing but its words."""
    return SPEC_WORDS[0] in path or SPEC_WORDS[1] in path


class Intent(Value):
    """One thing that a client told its hook, in words that are the same for all clients.

    `agent` is the sub-agent, or empty for the session's own. `writes` are the paths of all that
    will be made, changed, removed or moved, as they were given, to be read from `cwd`. `pid` is
    the client's process if it says so. `background`: at a stop, work still goes on. `problem`
    says what could not be understood: such an edit is refused.
    """

    __slots__ = (
        "agent", "background", "client", "command", "cwd", "event", "pid", "problem", "session",
        "tool", "writes",
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
        self.problem: Final = problem


class Answer(Value):
    """What the gate says: `reason` to the agent, `user` to the person, `context` to the agent
    without refusing anything. A halt is a refusal that also stops the agent. `input` is what the
    tool is to be called with instead."""

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


class Reply(Value):
    """What a hook prints, and how it ends."""

    __slots__ = ("code", "stderr", "stdout")

    def __init__(self, stdout: str = "", *, stderr: str = "", code: int = 0) -> None:
        self.stdout: Final = stdout
        self.stderr: Final = stderr
        self.code: Final = code
