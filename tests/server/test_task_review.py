"""`holdfast dispatch LIST --serve` from end to end: a person can approve on the page, an agent
cannot, and a killed dispatcher is reported."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from conftest import until
from helpers_server import PATIENCE_SECONDS, Far, Serving, Stream, ask, post
from helpers_tasks import AGENT, Checkout
from holdfast.core import codec
from holdfast.gate.broker.command_start import demand
from holdfast.gate.sandbox import SandboxError
from holdfast.manager import transactions
from holdfast.manager.manager import LockManager
from holdfast.server.server import Server
from holdfast.work.tasks import task_records, task_states


def _cannot() -> str:
    try:
        demand()
    except SandboxError as error:
        return error.message
    return ""


pytestmark = pytest.mark.skipif(bool(_cannot()), reason=f"no broker here: {_cannot()}")

#: An agent that tries to approve its own work: the address is not secret, and it sends every word
#: of its environment as the secret.
ATTACK = """
import json, os, sys, urllib.error, urllib.request
port, name = sys.argv[1:3]
found = []
for secret in ["", *os.environ.values()]:
    body = {"list": "tasks.toml", "task": name, "item": "", "tries": 1, "decision": "approve"}
    headers = {"Content-Type": "application/json", "Host": f"localhost:{port}"}
    if secret.isascii() and secret.isprintable():
        headers["Authorization"] = f"Bearer {secret}"
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/decide", json.dumps(body).encode(), headers)
    try:
        found.append(urllib.request.urlopen(asked, timeout=20).status)
    except urllib.error.HTTPError as error:
        found.append(error.code)
print("answers", sorted(set(found)))
"""
LIST = """
slots = 2
command = [{python}, "-S", {agent}, "{{prompt}}"]

[[task]]
name = "good"
prompt = "echo good >> a.txt"
commit = true

[[task]]
name = "bad"
prompt = "echo bad >> b.txt; python3 {attack} {port} bad > /dev/stderr"
tries = 1
"""

SLOW = """
slots = 1
command = [{python}, "-S", {agent}, "{{prompt}}"]

[[task]]
name = "first"
prompt = "echo x >> a.txt; while [ ! -e go ]; do sleep 0.05; done"

[[task]]
name = "second"
prompt = "echo x >> b.txt"
"""


def dispatched(checkout: Checkout, port: int) -> Serving:
    """The real command, as a person would start it."""
    attack = checkout.home / "attack.py"
    attack.write_text(ATTACK)
    text = LIST.format(python=repr(sys.executable), agent=repr(str(checkout.agent)), attack=attack,
                       port=port)  # fmt: skip
    checkout.write({"tasks.toml": text.replace("'", '"')})
    return Serving(checkout.root, "dispatch", "tasks.toml", "--review", f"--serve={port}",
                   HOLDFAST_SERVE_TOKEN="token-of-the-page")  # fmt: skip


def free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        return int(line.getsockname()[1])


def address(serving: Serving) -> str:
    assert serving.process.stderr is not None
    line = serving.process.stderr.readline()
    while "watch it at" not in line:
        assert line, "it ended"
        line = serving.process.stderr.readline()
    return line.split()[-1]


def test_a_person_approves_on_the_page_and_an_agent_cannot(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    assert AGENT in checkout.agent.read_text()
    serving = dispatched(checkout, free_port())
    far: Any = Far(address(serving))
    look = {"Authorization": "Bearer token-of-the-page"}

    def told() -> dict[str, dict[str, Any]]:
        found = ask(far, "/api/summary", headers=look).json["tasks"]
        return {one["name"]: one for one in found}

    until(lambda: {one["state"] for one in told().values()} == {task_states.REVIEWING}, "both wait")
    assert checkout.read("a.txt") == "a0\ngood\n"
    task = ask(far, "/api/task?list=tasks.toml&name=bad", headers=look).json
    printed = ask(far, f"/api/output/{task['item']}/task.log", headers=look).body.decode()
    assert "answers [401]" in printed, "the agent asked, with all that it knows, and was refused"
    assert task["state"] == task_states.REVIEWING
    diff = ask(far, f"/api/diff/{task['item']}", headers=look).body.decode()
    assert "+bad" in diff
    for name, verb in (("good", "approve"), ("bad", "reject")):
        one = told()[name]
        body = {"list": one["list"], "task": name, "item": one["item"], "tries": one["tries"],
                "decision": verb}  # fmt: skip
        assert post(far, "/decide", body).status == 200
    _, said = serving.process.communicate(timeout=PATIENCE_SECONDS)
    assert serving.process.returncode == 1, said
    found = checkout.records()
    assert (found["good"].state, found["bad"].state) == (task_states.DONE, task_states.FAILED)
    assert found["good"].decision.endswith(", on the page")
    assert found["bad"].reason.startswith("rejected by ")
    assert checkout.read("a.txt") == "a0\ngood\n"
    assert checkout.read("b.txt") == "b0\n", "what is rejected leaves nothing behind"
    assert len(checkout.log()) == 2


def dispatcher_of(manager: LockManager) -> int:
    """The dispatcher's process for the list."""
    [one] = transactions.look(manager, task_records.lists_in)
    witness = codec.witness_from_list(list(one.by))
    assert witness is not None
    return witness.pid


def test_a_killed_dispatcher_is_reported_within_seconds(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.write({"tasks.toml": SLOW.format(
        python=json.dumps(sys.executable), agent=json.dumps(str(checkout.agent)))})  # fmt: skip
    serving = Serving(checkout.root, "dispatch", "tasks.toml")
    with LockManager.open(str(checkout.root)) as own, Server(own, port=0) as site:

        def told() -> dict[str, Any]:
            found: dict[str, Any] = ask(site, "/api/summary").json
            return found

        until(lambda: told()["counts"]["at_work"] == 1, "its agent is out")
        with Stream(site, "/api/events") as stream:
            os.kill(dispatcher_of(own), signal.SIGKILL)
            serving.process.communicate()
            began = monotonic()
            until(lambda: told()["phase"] == "stopped", "it is said")
            assert monotonic() - began < 8.0
            while stream.next().get("event") != "changed":
                pass  # its launchers may still write
        [one] = told()["progress"]
        assert one["command"] == "holdfast dispatch tasks.toml"
        assert "and 2 tasks are left" in one["gone"]
        assert (one["at_work"], told()["counts"]["at_work"]) == (0, 0)
    again = Serving(checkout.root, *one["command"].split()[1:])
    with LockManager.open(str(checkout.root)) as own, Server(own, port=0) as site:
        until(lambda: not ask(site, "/api/summary").json["progress"][0]["gone"], "it goes on")
    (checkout.root / "go").touch()
    again.process.communicate(timeout=PATIENCE_SECONDS)
    assert again.process.returncode == 0
    assert {one.state for one in checkout.records().values()} == {task_states.DONE}
