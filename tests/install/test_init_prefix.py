"""`holdfast init` and the program in front of Claude Code's shell commands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_init import Installation, Site
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.gate import hook
from holdfast.gate.commands.prefix_script import VARIABLE, chained_in

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux"),
    *([NEEDS_LANDLOCK] if sys.platform == "linux" else []),
]
CLAUDE = ("--client", "claude")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A package with the real hook, shared by all tests here."""
    return Site(tmp_path_factory.mktemp("site"), Path(hook.__file__).read_text())


@pytest.fixture
def here(tmp_path: Path, site: Site) -> Iterator[Installation]:
    yield Installation(tmp_path, site)
    site.check()


def script(here: Installation) -> Path:
    return here.root / ".holdfast/shell-prefix"


def env_of(here: Installation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here.claude.read_text()).get("env", {})
    return found


def test_it_is_set_in_the_local_settings(here: Installation) -> None:
    here.init(*CLAUDE)
    assert env_of(here) == {VARIABLE: str(script(here))}
    assert os.access(script(here), os.X_OK)
    assert here.hold("init", "--check").code == 0


def test_undo_takes_it_back_to_the_byte(here: Installation) -> None:
    here.claude.parent.mkdir()
    text = '{\n  "env": {"A": "b"},\n  "model": "x"\n}\n'
    here.claude.write_text(text)
    here.init(*CLAUDE)
    assert env_of(here) == {"A": "b", VARIABLE: str(script(here))}
    here.init("--undo")
    assert here.claude.read_text() == text


def test_undo_after_the_file_was_changed_takes_back_only_ours(here: Installation) -> None:
    here.init(*CLAUDE)
    data = json.loads(here.claude.read_text())
    data["env"]["C"] = "d"
    here.claude.write_text(json.dumps(data))
    here.init("--undo")
    assert json.loads(here.claude.read_text()) == {"env": {"C": "d"}}


def test_a_prefix_of_the_user_s_is_chained_and_comes_back(here: Installation) -> None:
    here.claude.parent.mkdir()
    text = json.dumps({"env": {VARIABLE: "/opt/audit -x"}}, indent=2)
    here.claude.write_text(text)
    here.init(*CLAUDE)
    assert env_of(here)[VARIABLE] == str(script(here))
    assert chained_in(script(here).read_text()) == "/opt/audit -x"
    here.init(*CLAUDE)
    assert chained_in(script(here).read_text()) == "/opt/audit -x", "unchanged by the second init"
    data = json.loads(here.claude.read_text())
    here.claude.write_text(json.dumps({**data, "model": "x"}))
    here.init("--undo")
    assert env_of(here) == {VARIABLE: "/opt/audit -x"}


def test_a_prefix_in_the_shared_settings_is_chained(here: Installation) -> None:
    here.claude.parent.mkdir()
    shared = here.root / ".claude/settings.json"
    shared.write_text(json.dumps({"env": {VARIABLE: "/opt/audit"}}))
    here.init(*CLAUDE)
    assert chained_in(script(here).read_text()) == "/opt/audit"
    assert json.loads(shared.read_text()) == {"env": {VARIABLE: "/opt/audit"}}


@pytest.mark.parametrize("setting", ["guard", "off"])
def test_it_is_not_set_where_commands_are_not_leased(here: Installation, setting: str) -> None:
    (here.root / "holdfast.toml").write_text(f'[gate]\nshell = "{setting}"\n')
    here.init(*CLAUDE)
    assert VARIABLE not in env_of(here)


def test_it_goes_when_commands_are_not_leased_any_more(here: Installation) -> None:
    here.init(*CLAUDE)
    (here.root / "holdfast.toml").write_text('[gate]\nshell = "guard"\n')
    here.init(*CLAUDE)
    assert VARIABLE not in env_of(here)


def test_a_missing_script_is_found_and_mended(here: Installation) -> None:
    here.init(*CLAUDE)
    script(here).unlink()
    assert "none can run" in here.hold("init", "--check").out
    here.init(*CLAUDE)
    assert here.hold("init", "--check").code == 0


def test_a_variable_that_was_taken_out_is_found(here: Installation) -> None:
    here.init(*CLAUDE)
    data = json.loads(here.claude.read_text())
    del data["env"]
    here.claude.write_text(json.dumps(data))
    assert "shell commands are not leased" in here.hold("init", "--check").out


def test_doctor_says_that_commands_are_leased(here: Installation) -> None:
    here.init(*CLAUDE)
    found = here.hold("doctor", "--json").json["findings"]
    (one,) = [one for one in found if one["check"] == "shell commands"]
    assert (one["state"], one["about"]) == ("held", "claude")
    assert "leased at the write" in one["detail"]
    assert not list((here.root / ".holdfast").glob("slips/*"))


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda here: script(here).unlink(), "none can run"),
        (lambda here: script(here).chmod(0o644), "none can run"),
        (lambda here: script(here).write_text('#!/bin/sh\nexec sh -c "$1"\n'), "could write"),
        (lambda here: script(here).write_text("#!/bin/sh\nexit 1\n"), "could not write"),
    ],
)
def test_doctor_finds_a_broken_prefix(here: Installation, break_it: Any, told: str) -> None:
    here.init(*CLAUDE)
    break_it(here)
    found = here.hold("doctor", "--json").json["findings"]
    (one,) = [one for one in found if one["check"] == "shell commands"]
    assert one["state"] == "failed"
    assert told in one["detail"]


def test_doctor_says_why_commands_are_only_guarded(here: Installation) -> None:
    (here.root / "holdfast.toml").write_text('[gate]\nshell = "guard"\n')
    here.init(*CLAUDE)
    found = here.hold("doctor", "--json").json["findings"]
    (one,) = [one for one in found if one["check"] == "shell commands"]
    assert (one["state"], "gate.shell" in one["detail"]) == ("note", True)


def test_claude_code_s_own_sandbox_is_told(here: Installation) -> None:
    here.init(*CLAUDE)
    data = json.loads(here.claude.read_text())
    here.claude.write_text(json.dumps({**data, "sandbox": {"enabled": True}}))
    found = here.hold("doctor", "--json").json["findings"]
    (one,) = [one for one in found if one["check"] == "shell commands"]
    assert (one["state"], "own sandbox" in one["detail"]) == ("note", True)
