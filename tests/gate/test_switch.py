"""holdfast off and on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_cli import Terminal
from helpers_init import (
    Installation,
    Site,
    git,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are run by a POSIX shell")


@pytest.fixture
def here(tmp_path: Path, stub_site: Site) -> Installation:
    return Installation(tmp_path, stub_site)


@pytest.fixture
def terminal(here: Installation) -> Iterator[Terminal]:
    made = Terminal(here.repository, **here.env)
    yield made
    made.close()


def test_a_person_switches_the_gate_off_and_everybody_can_see_it(
    here: Installation, terminal: Terminal
) -> None:
    answer = terminal.hold("off", "--reason", "'a big rename'")
    assert answer.code == 0
    assert answer.out.startswith("the gate is off since ")
    assert answer.out.rstrip().endswith(": a big rename")
    assert "holdfast on" in answer.err
    told = json.loads((here.root / ".holdfast/off").read_text())
    assert told["reason"] == "a big rename"
    assert told["by"]
    status = here.hold("status")
    assert "the gate is off since" in status.out
    assert "a big rename (holdfast on)" in status.out
    assert here.hold("status", "--json").json["off"] == told
    assert ".holdfast" not in git(here, "status", "--porcelain", "--untracked-files=all")
    assert terminal.hold("off").out.startswith("already: the gate is off")
    assert terminal.hold("on").out == "the gate is on\n"
    assert terminal.hold("on").out == "already: the gate is on\n"
    assert "off" not in here.hold("status").out
    assert here.hold("status", "--json").json["off"] is None


def test_that_it_was_switched_is_in_the_log(here: Installation, terminal: Terminal) -> None:
    terminal.hold("off", "--reason", "'a rename'")
    terminal.hold("off")
    terminal.hold("on")
    events = [json.loads(line) for line in here.hold("log", "--json").out.splitlines()]
    told = [event for event in events if event["type"].startswith("gate_")]
    assert [event["type"] for event in told] == ["gate_off", "gate_on"]
    assert told[0]["data"]["reason"] == "a rename"
    assert "switched the gate off: a rename" in here.hold("log").out


def test_it_can_be_switched_while_the_ledger_is_broken(
    here: Installation, terminal: Terminal
) -> None:
    terminal.hold("off")
    terminal.hold("on")
    (here.root / ".holdfast/ledger.db").write_bytes(b"no ledger" * 1000)
    answer = terminal.hold("off")
    assert answer.code == 0
    assert "it could not be logged" in answer.err
    assert (here.root / ".holdfast/off").exists()
    assert terminal.hold("on").code == 0
    assert not (here.root / ".holdfast/off").exists()


def test_agents_and_scripts_may_not_switch_it(here: Installation) -> None:
    for word in ("off", "on"):
        for env in ({"CLAUDE_CODE_SESSION_ID": "5e551011"}, {"HOLDFAST_GRANT": "g"}, {}):
            answer = here.hold(word, env=env)
            assert answer.code == 2
            assert "only a person at a terminal may switch the gate" in answer.err
    assert not (here.root / ".holdfast/off").exists()


def test_init_and_check_say_that_the_gate_is_off(here: Installation, terminal: Terminal) -> None:
    terminal.hold("off")
    assert "the gate is off since" in here.init("--client", "claude").err
    answer = here.hold("init", "--check")
    assert answer.code == 1, "a gate that is off is a problem"
    assert "the gate is off since" in answer.out
    assert here.hold("init", "--check", "--json").json["off"]["by"]


def test_whatever_is_in_the_file_the_gate_is_off(here: Installation, terminal: Terminal) -> None:
    terminal.hold("off")
    for data in (b"", b"\xff\xfe", b"[1]", b'{"by": 3}', b"[" * 99_999):
        (here.root / ".holdfast/off").write_bytes(data)
        assert "the gate is off (holdfast on)" in here.hold("status").out
    assert terminal.hold("on").code == 0
