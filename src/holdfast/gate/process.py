"""The hook as a process: reads standard input, prints what the client obeys, ends.

Whatever happens it ends with an answer, and before the client loses its patience: a hook that is
late, that crashes or that says nothing lets the write happen.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from holdfast.gate.intent import Reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

GIT = "git"


def main(arguments: list[str]) -> None:
    """Answer, and end at once: there is nothing to clean up."""
    started = monotonic()
    if arguments and arguments[0] == GIT:
        from holdfast.gate.committing import main as git_main

        code = git_main(arguments[1:])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    reply = _reply(arguments[0] if arguments else "", started)
    if reply.stderr:
        _write(2, reply.stderr)
    if reply.stdout:
        _write(1, reply.stdout)
    os._exit(reply.code)


def _reply(client: str, started: float) -> Reply:
    try:
        from holdfast.gate.door import answer

        return answer(client, _read(0), os.environ, started=started, pause=_pause)
    except BaseException as error:  # the client reads an exit code of 2 as a refusal
        return Reply(stderr=f"holdfast: refused, the gate broke: {error!r}\n", code=2)


def _read(descriptor: int) -> bytes:
    from holdfast.gate.door import INPUT_BYTES_MAX

    parts, size = [], 0
    while size <= INPUT_BYTES_MAX:
        part = os.read(descriptor, 1 << 16)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _write(descriptor: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(descriptor, data) :]


def _pause(seconds: float, waiter: Any) -> bool:
    """Wait to be called, or for so long."""
    return bool(waiter.wait(seconds))
