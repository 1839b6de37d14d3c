"""Whether the installed client obeys the form of our hooks, tested with small stand-ins for it.

`tests/clients/test_failing_hooks.py` tests the real client. Each of these stand-ins behaves as an
older or newer version of it was observed to.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from helpers_doctor import Clinic
from helpers_init import Installation, Site
from holdfast.gate.install import exec_form_check

CLIENT = f"""#!{sys.executable}
import json, os, subprocess, sys, urllib.request
KNOWS_ARGS, BLOCKS, LOOKS_FIRST = {{}}
hooks = json.load(open(".claude/settings.json"))["hooks"]["UserPromptSubmit"][0]["hooks"]
url = os.environ["ANTHROPIC_BASE_URL"]
if LOOKS_FIRST:
    try:
        urllib.request.urlopen(url + "/health")
    except OSError:
        pass
for hook in hooks:
    words = [hook["command"], *hook["args"]] if KNOWS_ARGS else ["/bin/sh", "-c", hook["command"]]
    code = subprocess.run(words, input=b"{{{{}}}}").returncode
    if code and BLOCKS:
        sys.exit(0)
request = urllib.request.Request(url + "/v1/messages", data=b"hello")
urllib.request.urlopen(request)
"""
NEW = CLIENT.format("True, True, False")
NEW_AND_CURIOUS = CLIENT.format("True, True, True")  # sends its server another request first
OPEN = CLIENT.format("True, False, True")
OLD = CLIENT.format("False, False, False")
BROKEN = "#!/bin/sh\nexit 3\n"


@pytest.fixture
def here(tmp_path: Path, stub_site: Site) -> Installation:
    return Installation(tmp_path, stub_site)


@pytest.mark.parametrize(
    ("text", "exec_form", "blocks", "why"),
    [
        (NEW, True, True, ""),
        (NEW_AND_CURIOUS, True, True, ""),
        (OPEN, True, False, ""),
        (OLD, False, False, ""),
        (BROKEN, False, False, "ended with 3 and ran no hook"),
    ],
)
def test_a_client_is_known_by_what_it_does(
    here: Installation, text: str, exec_form: bool, blocks: bool, why: str
) -> None:
    here.program("claude", text)
    found = exec_form_check.tried(here.env)
    assert found is not None
    assert (found.exec_form, found.blocks) == (exec_form, blocks)
    assert why in found.why
    assert bool(found.problem) is (not why and not (exec_form and blocks))


def test_a_client_that_hangs_is_ended(here: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_form_check, "PATIENCE_SECONDS", 0.5)
    here.program("claude", "#!/bin/sh\nexec sleep 600\n")
    found = exec_form_check.tried(here.env)
    assert found is not None
    assert "did not end within 0.5 s" in found.why


def test_without_a_client_nothing_is_tried(here: Installation) -> None:
    assert exec_form_check.tried(here.env) is None


def test_init_says_nothing_of_a_client_that_obeys(here: Installation) -> None:
    here.program("claude", NEW)
    assert "obey" not in here.init().err
    assert here.hold("init", "--check").code == 0


def test_init_warns_of_a_client_that_lets_edits_pass_if_their_hook_fails(
    here: Installation,
) -> None:
    here.program("claude", OPEN)
    answer = here.init()
    assert 'does not obey "onFailure"' in answer.err
    assert "claude update" in answer.err
    check = here.hold("init", "--check")
    assert check.code == 1
    assert 'does not obey "onFailure"' in check.out


def test_init_writes_nothing_for_a_client_that_would_run_no_hook(here: Installation) -> None:
    here.program("claude", OLD)
    answer = here.hold("init")
    assert answer.code == 1
    assert "does not know hooks in exec form" in answer.err
    assert "claude update" in answer.err
    assert not here.claude.exists()
    assert not (here.root / ".git/hooks/pre-commit").exists()
    assert here.hold("init", "--client", "codex").code == 0


def test_init_says_if_it_cannot_tell(here: Installation) -> None:
    here.program("claude", BROKEN)
    assert "cannot tell whether edits are refused if the hook fails" in here.init().err


# doctor


@pytest.fixture
def clinic(tmp_path: Path, real_site: Site) -> Clinic:
    return Clinic(tmp_path, real_site)


def test_doctor_does_not_say_that_all_held_if_no_client_is_installed(clinic: Clinic) -> None:
    answer = clinic.hold("doctor")
    assert answer.code == 0
    assert answer.out.splitlines()[-1].endswith(
        "held, but no client is installed to obey the hooks"
    )
    clinic.program("claude", NEW)
    answer = clinic.hold("doctor")
    assert answer.out.splitlines()[-1].startswith("all ")


def test_doctor_fails_where_only_git_has_hooks(tmp_path: Path, stub_site: Site) -> None:
    here = Installation(tmp_path, stub_site)
    here.init("--git")
    answer = here.hold("doctor", "--json")
    assert answer.code == 1
    told = [one["detail"] for one in answer.json["findings"] if one["state"] == "failed"]
    assert "no client has hooks here, so edits are not checked" in told


def test_doctor_tells_what_a_client_makes_of_a_failing_hook(clinic: Clinic) -> None:
    clinic.program("claude", NEW)
    assert clinic.doctor(code=0)["claude", "a hook that fails"]["state"] == "held"
    clinic.program("claude", OPEN)
    assert clinic.doctor(code=1)["claude", "a hook that fails"]["state"] == "failed"
    clinic.program("claude", BROKEN)
    assert clinic.doctor(code=0)["claude", "a hook that fails"]["state"] == "note"
