"""The demo: it runs anywhere, tells the truth, and would say so if the locks did not hold."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import holdfast
from helpers_cli import COMMAND, Answer, environment
from helpers_processes import PATIENCE_SECONDS, until
from holdfast.cli import demo_show, main
from holdfast.cli.demo import FILES, Director
from holdfast.cli.demo_audit import Finding, agents_at_once, audit
from holdfast.cli.demo_show import Show
from holdfast.core.model import Event

pytestmark = pytest.mark.skipif(os.name != "posix", reason="stops and kills processes")

DEMO_SECONDS = 4 * PATIENCE_SECONDS


def play(*words: str, **more: str) -> Answer:
    """Run the demo to its end."""
    done = subprocess.run(
        [*COMMAND, "demo", *words], capture_output=True, text=True, stdin=subprocess.DEVNULL,
        env=environment(**more), timeout=DEMO_SECONDS, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def test_everything_is_as_promised_and_nothing_is_left_behind(tmp_path: Path) -> None:
    # What the caller's environment says of stores and holders must not reach the agents.
    strange = {"HOLDFAST_STORE": "sqlite:///nowhere/ledger.db", "HOLDFAST_HOLDER": "somebody"}
    answer = play("--json", TMPDIR=str(tmp_path), **strange)
    result = answer.json
    assert [check for check in result["checks"] if not check["passed"]] == []
    assert result["passed"]
    assert answer.code == 0
    assert result["agents_at_once"] >= 3
    assert result["wall_seconds"] < result["work_seconds"]
    assert result["conflicts_avoided"] >= 5
    assert result["crash"]["why"] == "owner dead"
    assert result["pause"]["refused"] == "E_LOCK_EXPIRED"
    assert result["pause"]["old_token"] < result["pause"]["new_token"]
    assert result["circle"]["refused"] == "E_LOCK_CYCLE"
    assert result["person"]["refused"] == "E_LOCK_CONFLICT"
    assert result["folder"] is None
    assert list(tmp_path.iterdir()) == []


def test_what_it_keeps_is_what_it_told_on_80_columns_without_git(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    answer = play("--keep", TMPDIR=str(tmp_path), PATH=str(tmp_path / "bin"))
    assert answer.code == 0, answer
    assert "there is no git here" in " ".join(answer.out.split())
    assert "\x1b" not in answer.out
    *lines, last = answer.out.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    [folder] = tmp_path.glob("holdfast-demo-*")
    assert last == f"  holdfast -C {folder} log"
    added = sum(len((folder / file).read_text().splitlines()) - 1 for file in FILES)
    assert f"  edits           {added} in {len(FILES)} files\n" in answer.out
    log = subprocess.run(
        [*COMMAND, "-C", folder, "log"], capture_output=True, text=True, check=True,
        env=environment(),
    ).stdout  # fmt: skip
    assert f"Checked by reading {len(log.splitlines())} events" in answer.out
    assert len(re.findall(r" has .*port:5432", answer.out)) == 3
    assert re.search(r"finn  has app/models/ \(to read\)", answer.out)
    assert re.search(r"eve lost app/.*: it is gone", log)


def test_it_fails_where_late_writers_are_let_through(tmp_path: Path) -> None:
    shutil.copytree(Path(holdfast.__file__).parent, tmp_path / "holdfast")
    rules = tmp_path / "holdfast/core/rules.py"
    good = "return Verdict(allowed=False, code=refusal.code, reason=refusal.message)"
    assert rules.read_text().count(good) == 1
    rules.write_text(rules.read_text().replace(good, "return Verdict(allowed=True)"))
    answer = play("--json", PYTHONPATH=str(tmp_path))
    assert answer.code == 1
    failed = {check["question"] for check in answer.json["checks"] if not check["passed"]}
    assert "the late writer was fenced" in failed
    assert "every published edit is there, and nothing else" in failed
    assert "what was refused or never published is in no file" in failed


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_somebody_who_ends_it_leaves_no_agents_and_no_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo"], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        env=environment(TMPDIR=str(tmp_path), PYTHONUNBUFFERED="1"),
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            if " has " in line:
                break
        agents = agents_below(tmp_path)
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
    assert len(agents) == 6
    until(lambda: agents_below(tmp_path) == [], "the agents are gone")
    assert list(tmp_path.iterdir()) == []


def agents_below(folder: Path) -> list[str]:
    """The processes that were started for repositories in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if "demo_agent" in words and f"{folder}/" in words:
            found.append(process.name)
    return found


@pytest.mark.parametrize(("passed", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_is_what_the_check_says(
    passed: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Director, "_scenes", lambda self: [])
    found = [Finding("a question", passed, "a detail")]
    monkeypatch.setattr("holdfast.cli.demo.audit", lambda *_: found)
    assert main(["demo"]) == code
    out = capsys.readouterr().out
    assert ("ok  a question" in out) is passed
    assert ("please report this" in out) is not passed


def test_colours_are_for_terminals_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Show(quiet=False).title("plain")
    monkeypatch.setattr(demo_show, "colours", lambda: True)
    Show(quiet=False).title("bold")
    Show(quiet=True).title("nothing")
    assert capsys.readouterr().out == "\nplain\n\n\x1b[1mbold\x1b[0m\n"


# The check can fail


def acquired(seq: int, who: str, token: int, *paths: str, mode: str = "w") -> Event:
    data = {
        "id": f"grant-{seq}", "holder": {"id": who}, "keys": paths, "modes": mode * len(paths),
        "token": token, "ttl": None,
    }  # fmt: skip
    return Event(seq, "lock_acquired", seq, data)


def released(seq: int, grant: Event) -> Event:
    return Event(seq, "lock_released", seq, {"grant": grant.data["id"]})


ONE = acquired(1, "ann", 10, "a/x")
TWO = acquired(3, "bob", 11, "a/x", "b")
GOOD: dict[str, Any] = {
    "events": [ONE, released(2, ONE), TWO],
    "files": {"a/x": ["10 ann 1", "11 bob 1"], "b": ["11 bob 2"]},
    "published": [("a/x", "10 ann 1"), ("a/x", "11 bob 1"), ("b", "11 bob 2")],
    "refused": ["9 eve 1"],
}


def failures(**changed: Any) -> list[str]:
    return [finding.question for finding in audit(**{**GOOD, **changed}) if not finding.passed]


def test_the_check_passes_what_is_right() -> None:
    assert failures() == []
    assert agents_at_once(GOOD["events"]) == 1


@pytest.mark.parametrize(
    "events",
    [
        [ONE, TWO],
        [ONE, acquired(2, "bob", 11, "a", mode="r")],
        [acquired(1, "ann", 10, "a", mode="r"), TWO],
    ],
)
def test_the_check_sees_two_who_were_inside_at_once(events: Sequence[Event]) -> None:
    assert "no writer ever shared a file with anybody" in failures(events=events)


def test_the_check_lets_readers_share_and_a_holder_overlap_itself() -> None:
    readers = [acquired(1, "ann", 10, "a", mode="r"), acquired(2, "bob", 11, "a/x", mode="r")]
    again = [ONE, acquired(2, "ann", 11, "a/x")]
    for events in (readers, again):
        assert "no writer ever shared a file with anybody" not in failures(events=events)
    assert agents_at_once(readers) == 2


def test_the_check_sees_a_token_that_came_back() -> None:
    events = [ONE, released(2, ONE), acquired(3, "bob", 10, "a/x", "b")]
    assert "every token is larger than all before it" in failures(events=events)


@pytest.mark.parametrize(
    "lines",
    [["11 bob 1"], ["10 ann 1", "11 bob 1", "11 bob 1"], ["10 ann 1", "11 bob 1", "11 bob 3"]],
)
def test_the_check_sees_lines_that_are_lost_doubled_or_strange(lines: list[str]) -> None:
    files = {**GOOD["files"], "a/x": lines}
    assert failures(files=files) == ["every published edit is there, and nothing else"]


def test_the_check_sees_who_wrote_late_or_without_holding() -> None:
    late = {"a/x": ["11 bob 1", "10 ann 1"], "b": ["11 bob 2"]}
    assert failures(files=late) == ["in each file the tokens only grow"]
    elsewhere = {"a/x": ["10 ann 1", "11 bob 1"], "b": ["11 bob 2"], "c": ["10 ann 2"]}
    found = failures(files=elsewhere, published=[*GOOD["published"], ("c", "10 ann 2")])
    assert found == ["each line was written by who held that file"]


def test_the_check_sees_what_was_refused_and_is_there_all_the_same() -> None:
    assert failures(refused=["11 bob 2"]) == ["what was refused or never published is in no file"]
