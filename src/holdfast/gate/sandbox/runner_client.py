"""Requests to the runner outside the sandbox, which has access to the ledger.

One request and one answer, each a line of JSON, on a connection of their own. Hooks use this, so
it imports next to nothing.
"""

from __future__ import annotations

import os
from time import monotonic

from holdfast.core import codec
from holdfast.core.model import Value, Verdict
from holdfast.gate.sandbox import SOCKET_VARIABLE, SandboxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Iterable, Mapping
    from typing import Any, Final

    from holdfast.core.model import Grant

DEADLINE_SECONDS = 10.0
#: A runner that has started listens within this time.
SOON_SECONDS = 0.5
REQUEST_BYTES_MAX = 65_536
ANSWER_BYTES_MAX = 4 << 20
#: The longest socket path that works on every system.
PATH_BYTES_MAX = 100

_SOME_BYTES = 65_536


class Held(Value):
    """A file that another live holder has: git's name for it, the lease, its age."""

    __slots__ = ("age", "grant", "name")

    def __init__(self, name: str, grant: Grant, age: int) -> None:
        self.name: Final = name
        self.grant: Final = grant
        self.age: Final = age


def address(environ: Mapping[str, str] | None = None) -> str:
    """Where the runner listens; empty outside a sandbox."""
    return (os.environ if environ is None else environ).get(SOCKET_VARIABLE, "")


def verify(
    grant_id: str,
    path: str | None = None,
    *,
    token: int,
    where: str = "",
    seconds: float = DEADLINE_SECONDS,
) -> Verdict:
    """May this write proceed? As `LockManager.verify`, from inside. `path` is absolute, or
    relative to the root. Raises SandboxError if there is no answer, or the path is invalid."""
    wanted = {"ask": "verify", "grant": grant_id, "token": token}
    if path is not None:
        wanted["path"] = path
    said = ask(wanted, where=where, seconds=seconds)
    return Verdict(
        allowed=said.get("allowed") is True,
        code=str(said.get("code", "")),
        reason=str(said.get("reason", "")),
    )


def gap(
    grant_id: str,
    path: str,
    *,
    token: int,
    client: str,
    where: str = "",
    seconds: float = DEADLINE_SECONDS,
) -> bool:
    """Have a refused write recorded, since the ledger is closed inside. False if there have been
    too many."""
    wanted = {"ask": "gap", "grant": grant_id, "token": token, "path": path, "client": client}
    return ask(wanted, where=where, seconds=seconds).get("recorded") is True


def held_by_others(
    root: str, names: Iterable[str], *, edit: bool = False, reader: int = 0
) -> list[Held]:
    """The files, out of some in a work tree, that other holders have. Only below a broker. With
    `edit`, an edit of them is about to be made, which may wait in line; `reader` is the process
    that will base the edit on their present content, or not make it."""
    wanted = {"ask": "held", "root": root, "names": list(names), "edit": edit}
    said = ask({**wanted, "reader": reader} if reader else wanted)
    return [
        Held(one["name"], codec.grant_from_dict(one["grant"]), one["age"]) for one in said["held"]
    ]


def are_others_at_work(root: str) -> bool:
    """Whether an agent other than our own may be writing in a checkout. True if the broker does
    not know."""
    try:
        return ask({"ask": "at work", "root": root}).get("others") is not False
    except SandboxError:
        return True


def note_commit(root: str) -> None:
    """Report a commit that was made below a broker. A broker that detects commits itself does not
    know this request, and need not."""
    try:
        ask({"ask": "committed", "root": root})
    except SandboxError:
        pass


def announce(digest: str, agent: str) -> None:
    """Tell the broker of a whole client that a command with this digest is about to run for an
    agent. Raises SandboxError."""
    ask({"ask": "announce", "digest": digest, "agent": agent})


def introduce(digest: str, process: int) -> None:
    """Tell the broker that the announced command starts, as this process. Raises SandboxError."""
    ask({"ask": "introduce", "digest": digest, "process": process})


def furnish(root: str) -> list[str]:
    """Have hooks installed in a worktree that was created below a broker. Returns the lines to
    show to the user."""
    return [str(line) for line in ask({"ask": "furnish", "root": root}).get("told", ())]


def status(*, where: str = "", seconds: float = DEADLINE_SECONDS) -> dict[str, Any]:
    """What is held now: `root`, `store`, and `grants` as `LockGrant.to_dict` writes them."""
    return ask({"ask": "status"}, where=where, seconds=seconds)


def ask(
    request: Mapping[str, Any], *, where: str = "", seconds: float = DEADLINE_SECONDS
) -> dict[str, Any]:
    """Send one request. Raises SandboxError if the answer is an error, or does not come."""
    where = where or address()
    if not where:
        raise SandboxError(
            f"{SOCKET_VARIABLE} is not set",
            hint="this works only inside holdfast run --sandbox",
        )
    try:
        text = _exchange(where, codec.dumps(dict(request)), monotonic() + seconds)
        said = codec.loads(text)
        if not isinstance(said, dict):
            raise ValueError("no answer")
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or str(error) or "no answer"
        raise SandboxError(
            f"the runner of this sandbox does not answer: {told}",
            hint="if it was killed, stop this command and start it again",
        ) from error
    if "error" in said:
        trouble = said["error"]
        raise SandboxError(str(trouble["message"]), hint=str(trouble["hint"]), said=trouble["code"])
    return said


def _exchange(where: str, text: str, end: float) -> str:
    import _socket

    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.settimeout(_left(end))
        _connect_soon(line, where)
        rest = memoryview(text.encode("utf-8", "surrogatepass") + b"\n")
        while rest:
            line.settimeout(_left(end))
            rest = rest[line.send(rest) :]
        return _answer(line, end).decode("utf-8", "surrogatepass")
    finally:
        line.close()


def _connect_soon(line: socket, where: str) -> None:
    """Connect, with retries: the broker of a command that has just started may not listen yet."""
    from time import sleep

    until = monotonic() + SOON_SECONDS
    while True:
        try:
            _connect(line, where)
            return
        except FileNotFoundError:
            if monotonic() >= until:
                raise
            sleep(0.01)


def _connect(line: socket, where: str) -> None:
    if len(os.fsencode(where)) <= PATH_BYTES_MAX:
        line.connect(where)
        return
    folder = os.open(os.path.dirname(where), os.O_PATH | os.O_CLOEXEC)
    try:
        line.connect(f"/proc/self/fd/{folder}/{os.path.basename(where)}")
    finally:
        os.close(folder)


def _answer(line: socket, end: float) -> bytes:
    found = bytearray()
    while not found.endswith(b"\n"):
        line.settimeout(_left(end))
        some = line.recv(_SOME_BYTES)
        found += some
        if not some or len(found) > ANSWER_BYTES_MAX:
            raise ValueError("the answer is truncated" if found else "it closed the connection")
    return bytes(found[:-1])


def _left(end: float) -> float:
    left = end - monotonic()
    if left <= 0:
        raise TimeoutError("it took too long")
    return left
