"""snippet, statusline: texts for agents' instructions and for a client's status line."""

from __future__ import annotations

import sys

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext
from holdfast.cli.printing import document, out, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call

#: A client describes its session in much less.
_INPUT_BYTES_MAX = 1 << 20


def snippet(call: Call) -> int:
    """Print the paragraph for AGENTS.md and CLAUDE.md."""
    from holdfast.gate.install.agent_snippet import SNIPPET

    if call.flag("json"):
        document({"text": SNIPPET})
    else:
        out(SNIPPET.removesuffix("\n"))
    return DONE


def statusline(call: Call) -> int:
    """Print the line of the session that the client describes on standard input."""
    from holdfast.gate.people.session_line import state_of

    CommandContext(call)
    state = state_of(b"" if sys.stdin.isatty() else sys.stdin.buffer.read(_INPUT_BYTES_MAX))
    if call.flag("json"):
        document(None if state is None else state.to_data())
    else:
        out("" if state is None else plain(state.line))
    return DONE
