"""The hook as a process: reads standard input, prints the reply that the client obeys, exits.

In every case it ends with an answer, before the client's timeout: a hook that is late, crashes or
prints nothing lets the write happen.
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
#: No client sends more than this; a truncated input cannot be parsed, and is refused.
INPUT_BYTES_MAX = 16 << 20


def main(arguments: list[str]) -> None:
    """Answer, and exit immediately: there is nothing to clean up."""
    started = monotonic()
    if arguments and arguments[0] == GIT:
        from holdfast.gate.git.commit_check import main as git_main

        code = git_main(arguments[1:])
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    code = 2
    try:
        reply = _reply(arguments[0] if arguments else "", started)
        limit(0)  # the decision is printed, however late it is
        if reply.stderr:
            _write(2, reply.stderr)
        if reply.stdout:
            _write(1, reply.stdout)
        code = reply.code
    finally:
        os._exit(code)


def _reply(client: str, started: float) -> Reply:
    told = b""
    try:
        told = _read(0)
        from holdfast.gate.door.client_events import answer

        return answer(client, told, os.environ, started=started, pause=_pause, limit=limit)
    except BaseException as error:  # a signal, a bug, half an upgrade
        limit(0)
        if not _may_write(told):
            return Reply()
        # The client treats this code as a refusal; at a stop it would mean "continue", and at a
        # prompt "erase it".
        return Reply(stderr=f"holdfast: refused, the gate failed: {error!r}\n", code=2)


#: The name of the event before a tool runs, in all clients.
_BEFORE = "PreToolUse"


def _may_write(told: bytes) -> bool:
    """Whether the event may be the beginning of a write; True if unknown. This calls none of our
    modules, which may be what is broken."""
    try:
        import json

        event = json.loads(told)["hook_event_name"]
    except BaseException:
        return True
    return not isinstance(event, str) or event in ("", _BEFORE)


def _read(descriptor: int) -> bytes:
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


def limit(seconds: float) -> None:
    """Raise OutOfTime so many seconds from now, and again until the process ends, because it may
    be lost where it is raised. 0 cancels it."""
    try:
        from _signal import (  # type: ignore[import-not-found]
            ITIMER_REAL,
            SIGALRM,
            setitimer,
            signal,
        )
    except ImportError:  # this system has no interval timer
        return
    signal(SIGALRM, _out_of_time)
    setitimer(ITIMER_REAL, seconds, 1.0 if seconds else 0.0)


def _out_of_time(_number: int, _frame: object) -> None:
    from holdfast.gate.door.client_events import OutOfTime

    raise OutOfTime


def _pause(seconds: float, waiter: Any) -> bool:
    """Wait for an event in the ledger, or for so many seconds."""
    return bool(waiter.wait(seconds))
