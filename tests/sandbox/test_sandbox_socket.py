"""The socket through which processes inside ask the runner."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_processes import until
from holdfast.gate.sandbox import SandboxError, runner_client
from holdfast.gate.sandbox.runner import ledger_socket
from holdfast.manager.manager import LockManager

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")


@pytest.fixture
def manager(repository: Path) -> Iterator[LockManager]:
    with LockManager.open(repository) as made:
        yield made


@pytest.fixture
def served(manager: LockManager, tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "socket")
    made = ledger_socket.LedgerSocket(path, {"echo": lambda _manager, wanted: dict(wanted)})
    made.start(manager)
    yield path
    made.close()


def raw(path: str, data: bytes) -> bytes:
    """Send anything, and read until the other side closes the connection."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect(path)
        try:
            line.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        heard = b""
        try:
            while some := line.recv(65536):
                heard += some
        except ConnectionResetError:
            pass
        return heard


def test_a_grant_is_verified_through_the_socket(manager: LockManager, served: str) -> None:
    grant = manager.try_acquire(holder="a", write_paths=["app/x.rb"])
    assert grant is not None
    assert runner_client.verify(grant.id, "app/x.rb", token=grant.token, where=served)
    verdict = runner_client.verify(grant.id, "lib/y.rb", token=grant.token, where=served)
    assert verdict == manager.verify(grant.id, "lib/y.rb", token=grant.token)
    said = runner_client.status(where=served)
    assert said["grants"] == [grant.to_dict()]
    assert said["root"] == manager.tree.root  # type: ignore[union-attr]
    manager.release(grant.id)
    verdict = runner_client.verify(grant.id, "app/x.rb", token=grant.token, where=served)
    assert verdict.code == "E_LOCK_NOT_HELD"


@pytest.mark.parametrize(
    "request_",
    [
        b"\n", b"no json\n", b"[]\n", b"5\n", b'"verify"\n', b"null\n", b"{}\n", b'{"ask":5}\n',
        b'{"ask":[]}\n', b'{"ask":"force"}\n', b'{"ask":"verify"}\n', b"\xff\xfe\n",
        b'{"ask":"verify","grant":5,"token":1}\n', b'{"ask":"verify","grant":"x","token":"1"}\n',
        b'{"ask":"verify","grant":"x","token":true}\n',
        b'{"ask":"verify","grant":"x","token":1,"path":5}\n',
        b'{"ask":"verify","grant":"x","token":1,"path":"../.."}\n',
        b'{"ask":"verify","grant":"x","token":1,"path":"\\ud800"}\n',
        b'{"ask":"verify","grant":"x","token":1,"path":""}\n',
        b"[" * 60_000 + b"\n", b"x" * 70_000, b"x" * 5_000_000 + b"\n",
    ],
)  # fmt: skip
def test_an_invalid_request_is_an_error_and_the_next_is_answered(
    served: str, request_: bytes
) -> None:
    heard = raw(served, request_)
    if len(request_) < 1_000_000:  # a client that sends more may be cut off before it reads
        assert set(json.loads(heard)) == {"error"}
        assert set(json.loads(heard)["error"]) == {"code", "message", "hint"}
    assert runner_client.status(where=served)["cut"] is False


def test_a_refused_question_raises_inside(served: str) -> None:
    with pytest.raises(SandboxError, match="requests are: verify, status, echo") as caught:
        runner_client.ask({"ask": "nothing"}, where=served)
    assert caught.value.fields["said"] == "E_SANDBOX"
    assert (
        runner_client.ask({"ask": "echo", "text": "ü\ud800\n"}, where=served)["text"] == "ü\ud800\n"
    )


def test_a_silent_client_does_not_delay_others_and_is_dropped(
    served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_socket, "TALK_SECONDS", 0.3)
    with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as half:
        for line in (silent, half):
            line.settimeout(30)
            line.connect(served)
        half.sendall(b'{"ask":')
        assert runner_client.status(where=served)
        assert silent.recv(1) == b""
        assert half.recv(1) == b""


def test_a_client_that_does_not_read_does_not_delay_others(served: str) -> None:
    text = "x" * 50_000
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.connect(served)
        deaf.sendall(json.dumps({"ask": "echo", "text": text}).encode() + b"\n")
        assert runner_client.ask({"ask": "echo", "text": text}, where=served)["text"] == text


def test_clients_over_the_limit_are_sent_away(served: str) -> None:
    lines = []
    try:
        for _ in range(ledger_socket.TALKING_MAX):
            line = socket.socket(socket.AF_UNIX)
            line.connect(served)
            lines.append(line)
        with pytest.raises(SandboxError, match="does not answer"):
            runner_client.status(where=served)
    finally:
        for line in lines:
            line.close()
    until(lambda: _answers(served), "there is room again")


def _answers(path: str) -> bool:
    try:
        return bool(runner_client.status(where=path))
    except SandboxError:
        return False


def test_a_long_list_is_cut_and_says_so(
    manager: LockManager, served: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_socket, "ANSWER_BYTES_MAX", 2000)
    for at in range(20):
        assert manager.try_acquire(holder="a", write_paths=[f"app/{at}"])
    said = runner_client.status(where=served)
    assert said["cut"] is True
    assert 1 <= len(said["grants"]) < 20


def test_an_answer_that_does_not_come_in_time_is_an_error(tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    begin = time.monotonic()
    with socket.socket(socket.AF_UNIX) as ear:
        ear.bind(path)
        ear.listen(1)
        with pytest.raises(SandboxError, match="does not answer"):
            runner_client.status(where=path, seconds=0.2)
    assert time.monotonic() - begin < 20
    with pytest.raises(SandboxError, match="does not answer"):
        runner_client.status(where=path)
    with pytest.raises(SandboxError, match="does not answer"):
        runner_client.status(where=str(tmp_path / "absent"))


def test_outside_a_sandbox_there_is_no_runner_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_SOCKET", raising=False)
    with pytest.raises(SandboxError, match="HOLDFAST_SOCKET is not set"):
        runner_client.status()


AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with socket.socket(socket.AF_UNIX) as line:
    line.settimeout(30)
    line.connect(sys.argv[1])
    try:
        line.sendall(b'{"ask":"status"}\\n')
        print(line.recv(1))
    except (BrokenPipeError, ConnectionResetError):
        print(b"")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_another_user_is_not_answered(manager: LockManager) -> None:
    folder = Path(tempfile.mkdtemp())
    made = ledger_socket.LedgerSocket(str(folder / "socket"))
    try:
        made.start(manager)
        folder.chmod(0o755)  # as if the modes alone did not keep other users out
        os.chmod(made.path, 0o777)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, made.path], capture_output=True, text=True, check=True
        )
        assert done.stdout == "b''\n"
        assert raw(made.path, b'{"ask":"status"}\n') != b""
    finally:
        made.close()
        shutil.rmtree(folder)


def test_it_is_the_user_s_own_and_ends_at_once(manager: LockManager, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    made = ledger_socket.LedgerSocket(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    made.start(manager)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        made.close()
        made.close()
    with pytest.raises(SandboxError, match="does not answer"):
        runner_client.status(where=path)


def test_it_answers_again_after_a_rest_but_not_earlier_clients(
    manager: LockManager, tmp_path: Path
) -> None:
    path = str(tmp_path / "socket")
    made = ledger_socket.LedgerSocket(path)
    asked = b'{"ask": "status"}\n'
    with socket.socket(socket.AF_UNIX) as waiting, socket.socket(socket.AF_UNIX) as talking:
        waiting.connect(path)  # and is not answered
        waiting.sendall(asked)
        assert made.first_request >= 0
        assert made.rest()
        made.start(manager)
        assert made.first_request == -1
        assert json.loads(raw(path, asked))["root"], "the next one is answered"
        assert _rest_of(waiting) == b"", "the first connection was closed"
        talking.connect(path)
        talking.sendall(b'{"ask"')
        until(lambda: made._talks, "it is heard")
        assert made.rest()
        assert _rest_of(talking) == b""
    assert made.first_request >= 0
    made.start(manager)
    assert json.loads(raw(path, asked))["root"]
    made.close()


def _rest_of(line: socket.socket) -> bytes:
    line.settimeout(30)
    try:
        return line.recv(65536)
    except ConnectionResetError:  # it had sent something that was never read
        return b""


def test_an_answer_that_does_not_end_is_waited_for_once(
    manager: LockManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_socket, "END_SECONDS", 0.01)
    begun, go_on = threading.Event(), threading.Event()

    def slow(_manager: LockManager, _wanted: object) -> dict[str, object]:
        begun.set()
        go_on.wait(60)
        return {}

    made = ledger_socket.LedgerSocket(str(tmp_path / "socket"), {"slow": slow})
    made.start(manager)
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(made.path)
        line.sendall(b'{"ask": "slow"}\n')
        assert begun.wait(60)
        assert not made.rest()
        monkeypatch.setattr(ledger_socket, "END_SECONDS", 600.0)
        assert not made.rest(), "without waiting, since it was told to end before"
        go_on.set()
        until(made.rest, "it has ended")
    made.close()


def test_a_client_that_cannot_be_turned_away_keeps_it_from_restarting(
    manager: LockManager, tmp_path: Path
) -> None:
    made = ledger_socket.LedgerSocket(str(tmp_path / "socket"))
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(made.path)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
        try:
            assert not made.rest()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert made.rest()
    made.close()


def test_a_socket_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(SandboxError, match="cannot listen"):
        ledger_socket.LedgerSocket(str(tmp_path / "absent/socket"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_asking_imports_nothing_heavy() -> None:
    heavy = {
        "json", "dataclasses", "typing", "re", "enum", "socket", "threading", "select", "signal",
        "ctypes", "tempfile", "shutil", "subprocess", "contextlib", "collections", "functools",
    }  # fmt: skip
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}; before = set(sys.modules)\n"
        "import holdfast.gate.sandbox.runner_client as a\n"
        "try: a.ask({'ask': 'status'}, where='/absent')\n"
        "except a.SandboxError: print(*(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert "holdfast.gate.sandbox.runner_client" in done.stdout.split()
    assert set(done.stdout.split()) & heavy == set()
