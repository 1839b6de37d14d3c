"""holdfast doctor: what clients obey, and whether Codex trusts its hooks."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers_doctor import DENIAL, Clinic, examined
from helpers_init import SOURCE, Installation
from holdfast.gate.doctor import client_rules, forbidden_writes
from holdfast.gate.doctor.client_rules import Ran
from holdfast.gate.install.installed_clients import CLIENTS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are run by a POSIX shell")


@pytest.fixture
def here(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


# What clients were measured to do with an answer


def said(**more: Any) -> str:
    return json.dumps({**DENIAL, **more})


def output(**more: Any) -> str:
    return json.dumps({"hookSpecificOutput": {**DENIAL["hookSpecificOutput"], **more}})


BLOCK = json.dumps({"decision": "block", "reason": "no"})


@pytest.mark.parametrize(
    ("ran", "claude", "codex"),
    [
        (Ran(0, said(), ""), True, True),
        (Ran(0, said(systemMessage="x"), ""), True, True),
        (Ran(0, output(additionalContext="x"), ""), True, True),
        (Ran(0, BLOCK, ""), True, True),
        (Ran(2, "", "no"), True, True),
        (Ran(2, said(), ""), True, False),
        (Ran(2, "", ""), True, False),
        (Ran(1, said(), ""), True, False),
        (Ran(0, output(permissionDecisionReason=""), ""), True, False),
        (Ran(0, said(**{"continue": False}), ""), True, False),
        (Ran(0, said(unknown=1), ""), True, False),
        (Ran(0, output(unknown=1), ""), True, False),
        (Ran(0, json.dumps({"continue": False}), ""), False, False),
        (Ran(1, "", "no"), False, False),
        (Ran(127, "", "not found"), False, False),
        (Ran(0, "{", ""), False, False),
        (Ran(0, "[]", ""), False, False),
        (Ran(0, "", ""), False, False),
        (Ran(-1, said(), "", late=True), False, False),
    ],
)
def test_only_what_the_clients_obey_counts(ran: Ran, claude: bool, codex: bool) -> None:
    assert (client_rules.blocks("claude", ran), client_rules.blocks("codex", ran)) == (
        claude,
        codex,
    )
    assert not client_rules.blocks("another", ran)


@pytest.mark.parametrize(
    ("matcher", "tool", "is_for"),
    [
        (None, "Write", True), ("", "Write", True), ("*", "Write", True),
        ("Edit|Write", "Write", True), ("Edit", "NotebookEdit", False),
        ("Edit|Writer", "Write", False),
        ("^(Write)$", "Write", True), ("Wri.*", "Write", True), ("(", "Write", False),
        (7, "Write", False),
    ],
)  # fmt: skip
def test_matchers_are_read_as_clients_read_them(matcher: object, tool: str, is_for: bool) -> None:
    assert client_rules.matches(matcher, tool) is is_for


def test_every_client_that_can_have_hooks_is_tried() -> None:
    assert {one.name for one in CLIENTS} == forbidden_writes._EDITORS.keys()


# Whether Codex trusts the hooks

CODEX = """#!{python}
import json, os, sys
for line in sys.stdin:
    told = json.loads(line)
    if told.get("method") == "hooks/list":
        [root] = told["params"]["cwds"]
        data = json.load(open(root + "/.codex/hooks.json"))["hooks"]
        config = os.environ["CODEX_HOME"] + "/config.toml"
        trust = open(config).read() if os.path.exists(config) else "untrusted"
        hooks = [
            {{"key": f"{{root}}/.codex/hooks.json:{{event}}:0:0", "trustStatus": trust,
              "enabled": True, "command": groups[0]["hooks"][0]["command"]}}
            for event, groups in data.items()
        ]
        print(json.dumps({{"id": told["id"], "result": {{"data": [{{"hooks": hooks}}]}}}}),
              flush=True)
    elif "id" in told:
        print(json.dumps({{"id": told["id"], "result": {{}}}}), flush=True)
"""


def codex(here: Clinic, text: str = CODEX.format(python=sys.executable)) -> None:
    here.program("codex", text)


def test_hooks_that_codex_does_not_trust_are_not_fine(here: Clinic) -> None:
    codex(here)
    told = here.doctor(code=1)["codex", "trust"]
    assert told["state"] == "failed"
    assert "PreToolUse (untrusted)" in told["detail"]
    assert "/hooks" in told["fix"]


@pytest.mark.parametrize(("trust", "state"), [("trusted", "held"), ("modified", "failed")])
def test_trust_is_that_of_the_users_own_settings(here: Clinic, trust: str, state: str) -> None:
    codex(here)
    (here.home / ".codex").mkdir()
    (here.home / ".codex/config.toml").write_text(trust)
    assert here.doctor(code=int(state != "held"))["codex", "trust"]["state"] == state
    assert os.listdir(here.home / ".codex") == ["config.toml"]


def test_without_codex_nobody_can_tell(here: Clinic) -> None:
    told = here.doctor(code=0)["codex", "trust"]
    assert told["state"] == "note"
    assert told["detail"].startswith("it is unknown whether")


@pytest.mark.parametrize(
    "text",
    ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho rubbish\n", "#!/nonexistent\n",
     '#!/bin/sh\necho \'{"id": 2, "error": {}}\'\nsleep 600\n'],
)  # fmt: skip
def test_a_codex_that_does_not_answer_is_no_proof(here: Clinic, text: str) -> None:
    codex(here, text)
    assert here.doctor(code=0)["codex", "trust"]["detail"].startswith("it is unknown whether")


def test_a_codex_that_hangs_is_not_waited_for(here: Clinic) -> None:
    codex(here, "#!/bin/sh\nsleep 600\n")
    begin = time.monotonic()
    found = [one for one in examined(here, patience_seconds=5) if one.check == "trust"]
    assert time.monotonic() - begin < 60
    assert [one.state for one in found] == ["note"]


def test_a_client_in_use_without_hooks_is_named(tmp_path: Path) -> None:
    bare = Installation(tmp_path)
    shutil.copy(SOURCE / "gate/hook.py", bare.script)
    bare.init("--client", "claude")
    (bare.home / ".codex").mkdir()
    answer = bare.hold("doctor")
    assert answer.code == 0
    assert "Codex has no hooks here" in answer.out
