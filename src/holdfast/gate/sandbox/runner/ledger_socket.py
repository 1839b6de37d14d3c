"""The ledger for processes inside: a socket of the runner, which is outside.

A sandboxed process cannot write the ledger, and even reading it takes locks. So its runner answers
the few requests that it needs, on a socket whose path is in HOLDFAST_SOCKET:

    {"ask": "verify", "grant": ID, "token": N, "path": PATH}
        -> {"allowed": true, "code": "", "reason": ""}; without a path only the grant is checked
    {"ask": "status"}
        -> {"root": PATH, "store": URL, "grants": [...], "cut": false}
    {"ask": "gap", "grant": ID, "token": N, "path": PATH, "client": NAME}
        -> {"recorded": true}; only in a sandbox, for its own grant, and only for a path that the
        grant does not cover: see `gap_records`
    any other request, or one that fails
        -> {"error": {"code": "E_...", "message": "...", "hint": "..."}}

A request is one line of JSON of at most 64 kB, an answer one line of at most 4 MB; then the
connection is closed. Only processes of the same user are answered, each within a few seconds, and
a slow one does not delay the others. No request changes what is held.

It lives as long as the runner. Once that is killed there is no answer, and a hook must refuse.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from time import monotonic, sleep

from holdfast.core import codec
from holdfast.core.errors import HoldfastError
from holdfast.gate.sandbox import SandboxError
from holdfast.gate.sandbox.runner_client import (
    ANSWER_BYTES_MAX,
    PATH_BYTES_MAX,
    REQUEST_BYTES_MAX,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping
    from typing import Any

    from holdfast.manager.manager import LockManager

    Question = Callable[[LockManager, Mapping[str, Any]], dict[str, Any]]

#: How long a client may take to send its request and to read the answer.
TALK_SECONDS = 5.0
TALKING_MAX = 64
END_SECONDS = 15.0
_SOME_BYTES = 65_536
_PEER = struct.Struct("iII")


class LedgerSocket:
    """Listens from its creation; answers between `start` and `rest`, which can be repeated."""

    def __init__(self, path: str, questions: Mapping[str, Question] | None = None) -> None:
        self.path = path
        #: Requests that are answered besides the usual ones.
        self.questions: Mapping[str, Question] = questions or {}
        self._talks: dict[int, _Talk] = {}
        self._thread: threading.Thread | None = None
        self._manager: LockManager | None = None
        self._end_read = self._end_write = -1
        self._ear = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(self._ear, path)
            os.chmod(path, 0o600)
            self._ear.listen(TALKING_MAX)
            self._ear.setblocking(False)
        except OSError as error:
            self.close()
            raise SandboxError(
                f"cannot listen at {path}: {error.strerror}",
                hint="TMPDIR must name a folder in which sockets can be made",
            ) from error

    @property
    def first_request(self) -> int:
        """Readable when a client has connected; -1 while requests are being answered."""
        return self._ear.fileno() if self._thread is None else -1

    def start(self, manager: LockManager) -> None:
        """Answer from now on, in a thread. Call this only after the process has forked."""
        import threading

        self._manager = manager
        self._end_read, self._end_write = os.pipe()
        self._thread = threading.Thread(target=self._serve, name="sandbox", daemon=True)
        self._thread.start()

    def rest(self) -> bool:
        """Close all connections, and wait until the answer in progress is finished. False if it
        does not finish, or a client cannot be turned away: then do not start this again."""
        patience = 0.0  # for a thread that did not end after an earlier call
        if self._end_write >= 0:
            os.close(self._end_write)
            self._end_write = -1
            patience = END_SECONDS
        if self._thread is not None:
            self._thread.join(patience)
            if self._thread.is_alive():  # it ends with this process, and may use these until then
                return False
            self._thread = None
        if self._end_read >= 0:
            os.close(self._end_read)
            self._end_read = -1
        self._talks.clear()
        return self._turn_away()

    def close(self) -> None:
        """Stop permanently."""
        self.rest()
        if self._thread is None:
            self._ear.close()

    def _turn_away(self) -> bool:
        """Drop clients that were not answered, so that no later command's runner answers them."""
        try:
            while True:
                self._ear.accept()[0].close()
        except BlockingIOError:
            return True
        except OSError:  # such as too many open files
            return False

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._end_read, select.POLLIN)
        poll.register(self._ear.fileno(), select.POLLIN)
        while True:
            ready = poll.poll(250 if self._talks else None)
            for number, _events in ready:
                if number == self._end_read:
                    for talk in self._talks.values():
                        talk.line.close()
                    return
                if number == self._ear.fileno():
                    self._accept(poll)
                elif not self._go_on(poll, self._talks[number]):
                    self._drop(poll, number)
            now = monotonic()
            for number in [at for at, talk in self._talks.items() if talk.end < now]:
                self._drop(poll, number)

    def _drop(self, poll: select.poll, number: int) -> None:
        poll.unregister(number)
        self._talks.pop(number).line.close()

    def _accept(self, poll: select.poll) -> None:
        try:
            line, _address = self._ear.accept()
        except BlockingIOError:
            return
        except OSError:
            sleep(0.05)  # too many open files: the client stays queued, and we must not spin
            return
        if len(self._talks) >= TALKING_MAX or not _is_same_user(line):
            line.close()
            return
        line.setblocking(False)
        self._talks[line.fileno()] = _Talk(line)
        poll.register(line.fileno(), select.POLLIN)

    def _go_on(self, poll: select.poll, talk: _Talk) -> bool:
        """Read or write what is possible without blocking. False when the connection is done."""
        try:
            if not talk.answer:
                some = talk.line.recv(_SOME_BYTES)
                talk.heard += some
                if len(talk.heard) > REQUEST_BYTES_MAX:
                    talk.say(_error("E_SANDBOX", "the request is too long"))
                elif talk.heard.endswith(b"\n"):
                    talk.say(self._answer(bytes(talk.heard)))
                else:
                    return bool(some)
                poll.modify(talk.line.fileno(), select.POLLOUT)
            talk.answer = talk.answer[talk.line.send(talk.answer) :]
            return bool(talk.answer)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            return False  # the client did not wait for the answer

    def _answer(self, heard: bytes) -> dict[str, Any]:
        assert self._manager is not None
        questions = {**QUESTIONS, **self.questions}
        try:
            wanted = codec.loads(heard.decode("utf-8", "surrogatepass").strip())
            question = questions[wanted["ask"]]
        except (ValueError, LookupError, TypeError, RecursionError):
            known = ", ".join(questions)
            return _error("E_SANDBOX", f"unknown request; known requests are: {known}")
        try:
            return question(self._manager, wanted)
        except HoldfastError as error:
            return _error(error.code, error.message, error.hint)
        except (ValueError, LookupError, TypeError) as error:
            return _error("E_SANDBOX", f"invalid request: {error}")
        except Exception as error:  # the client must get an answer, or it waits in vain
            return _error("E_STORE", f"cannot use the ledger: {error}")


class _Talk:
    """One connection, until one request has been answered."""

    __slots__ = ("answer", "end", "heard", "line")

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.heard = bytearray()
        self.answer = memoryview(b"")
        self.end = monotonic() + TALK_SECONDS

    def say(self, answer: Mapping[str, Any]) -> None:
        """Set the answer; it is sent as the client reads it."""
        self.answer = memoryview(codec.dumps(answer).encode("utf-8", "surrogatepass") + b"\n")


def _bind(ear: socket.socket, path: str) -> None:
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        ear.bind(path)
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_CLOEXEC)
    try:
        ear.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
    finally:
        os.close(folder)


def _is_same_user(line: socket.socket) -> bool:
    try:
        found = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    except OSError:
        return False
    _pid, user, _group = _PEER.unpack(found)
    return bool(user == os.geteuid())


def _error(code: str, message: str, hint: str = "") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "hint": hint}}


def _verify(manager: LockManager, wanted: Mapping[str, Any]) -> dict[str, Any]:
    grant, token, path = wanted["grant"], wanted["token"], wanted.get("path")
    if not isinstance(grant, str) or type(token) is not int:
        raise TypeError("grant must be a string, token a number")
    if path is not None and not isinstance(path, str):
        raise TypeError("path must be a string")
    verdict = manager.verify(grant, path, token=token)
    return {"allowed": verdict.allowed, "code": verdict.code, "reason": verdict.reason}


def _status(manager: LockManager, _wanted: Mapping[str, Any]) -> dict[str, Any]:
    root = manager.tree.root if manager.tree is not None else ""
    grants: list[dict[str, Any]] = []
    room = ANSWER_BYTES_MAX // 2
    cut = False
    for grant in manager.active_grants():
        one = grant.to_dict()
        room -= len(codec.dumps(one).encode("utf-8", "surrogatepass"))
        if room < 0:
            cut = True
            break
        grants.append(one)
    return {"root": root, "store": manager.store.url, "grants": grants, "cut": cut}


#: The requests that are always answered.
QUESTIONS: Mapping[str, Question] = {"verify": _verify, "status": _status}
