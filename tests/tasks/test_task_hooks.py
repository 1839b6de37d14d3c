"""A client's hooks in the agent of a task, where `holdfast init` was run before."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from helpers_task_commands import why_no_broker
from helpers_tasks import Checkout, shell
from holdfast.work.tasks import task_states

pytestmark = pytest.mark.skipif(bool(why_no_broker()), reason=f"no broker here: {why_no_broker()}")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def asks(checkout: Checkout, client: str, tool: str, into: str, **given: str) -> str:
    """A line of a script: the hook of a client before a tool, with its answer in a file."""
    event = {
        "hook_event_name": "PreToolUse", "session_id": "s1", "cwd": str(checkout.root),
        "tool_name": tool, "tool_input": given,
    }  # fmt: skip
    hook = f"{sys.executable} -m holdfast hook {client} > {into} 2>&1"
    return f"printf %s {shlex.quote(json.dumps(event))} | {hook}"


@pytest.mark.parametrize("declared", [False, True])
def test_an_edit_passes_the_hook_of_the_client_and_is_leased_at_the_write(
    checkout: Checkout, declared: bool
) -> None:
    file = str(checkout.root / "a.txt")
    line = asks(checkout, "claude", "Edit", "said.txt", file_path=file, old_string="a0",
                new_string="a1")  # fmt: skip
    writes = ("a.txt", "said.txt") if declared else None
    found = checkout.dispatch(
        checkout.task("edit", shell(line, "echo a1 > a.txt"), writes=writes)
    )  # fmt: skip
    assert found["edit"].state == task_states.DONE, found["edit"].tail
    assert "deny" not in checkout.read("said.txt")
    assert checkout.read("a.txt") == "a1\n"


def test_the_agent_of_a_task_finds_no_grant_that_would_limit_it(checkout: Checkout) -> None:
    found = checkout.dispatch(checkout.task("asks", "env > said.txt"))
    assert found["asks"].state == task_states.DONE
    names = {line.partition("=")[0] for line in checkout.read("said.txt").splitlines()}
    assert {"HOLDFAST_HOLDER", "HOLDFAST_SOCKET", "HOLDFAST_TASK"} <= names
    assert not {"HOLDFAST_GRANT", "HOLDFAST_TOKEN"} & names
