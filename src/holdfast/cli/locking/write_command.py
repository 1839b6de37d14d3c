"""write: replace a file with the standard input, if a grant permits it."""

from __future__ import annotations

import os
import sys

from holdfast.cli import DONE
from holdfast.cli.command_context import CommandContext, nothing_held
from holdfast.cli.locking.run_command import GRANT_VARIABLE, TOKEN_VARIABLE
from holdfast.cli.parser import UsageError
from holdfast.cli.printing import document, out, plain
from holdfast.gate.checked_write import safe_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.cli.parser import Call


def write(call: Call) -> int:
    """Replace one file, whole or not at all."""
    if len(call.words) != 1:
        raise UsageError("write needs one path", hint="holdfast write PATH --grant ID < CONTENT")
    grant, token = _grant(call)
    content = _content()  # read completely before the grant is checked, since input may be slow
    context = CommandContext(call)
    [path] = context.places(call.words)
    manager = context.find([path])
    if manager is None:
        raise nothing_held(call.words[0])
    written = safe_write(path, content, grant_id=grant, token=token, manager=manager)
    if call.flag("json"):
        document({"written": written, "bytes": len(content), "grant": grant})
    else:
        out(f"wrote {plain(written)}, {len(content)} bytes")
    return DONE


def _grant(call: Call) -> tuple[str, int | None]:
    """The grant to write with and its token, if any, from the options or the environment."""
    grant, token = call.text("grant"), call.number("token")
    if grant is not None:
        return grant, token
    grant = os.environ.get(GRANT_VARIABLE, "")
    if not grant:
        raise UsageError(
            "write needs a grant",
            hint="holdfast lock PATH --json prints its id; give it as --grant ID",
        )
    given = os.environ.get(TOKEN_VARIABLE)
    if token is not None or given is None:
        return grant, token
    if not (given.isascii() and given.isdigit()):
        raise UsageError(
            f"{TOKEN_VARIABLE} is {given[:40]!r}, which is not a token",
            hint="leave it as the runner set it, or give --token N",
        )
    return grant, int(given)


def _content() -> bytes:
    if sys.stdin is None:
        raise UsageError("there is no standard input to write", hint="give the content: < FILE")
    return sys.stdin.buffer.read()
