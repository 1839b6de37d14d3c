"""How the tests are run: several processes lose no test, and flaky tests are reported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import conftest
import run
from helpers_postgres import Run
from promises import NAMED
from record import Record

HERE = Path(__file__).parent
LINE = re.compile(r"^(\d+) of (\d+) tests.*; \d+:\d\d elapsed, about \d+:\d\d left$", re.MULTILINE)

CONFTEST = """
from record import Record

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        names = ("promise", "broken_promise", "skipped_promise", "promise_that_is_not_asked_for")
        config.pluginmanager.register(Record({f"test_it.py::test_{name}" for name in names}))
"""


def pytest_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a session of its own, in a folder with a conftest that keeps the record."""
    (folder / "conftest.py").write_text(CONFTEST)
    line = ["-p", "progress", "-o", "console_output_style=classic"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", *line, *words]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=120,
        check=False,
    )


SUITE = """
import pytest

def test_promise(): pass
def test_broken_promise(): assert 0
def test_skipped_promise(): pytest.skip("not here")
def test_promise_that_is_not_asked_for(): assert 0
@pytest.mark.parametrize("n", range(17))
def test_other(n): pass
"""


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_in_any_number_of_processes_the_record_and_the_progress_line_miss_nothing(
    tmp_path: Path, processes: str
) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    ran = pytest_in(tmp_path, processes, "-k", "not asked")
    assert ran.returncode == 1, ran.stdout
    _, _, summary = ran.stdout.partition("docs/CONFORMANCE.md names tests that did not pass")
    assert "FAILED test_it.py::test_broken_promise - assert 0\n" in ran.stdout
    assert re.findall(r"^test_it.py::(\w+): (\w+)$", summary, re.MULTILINE) == [
        ("test_broken_promise", "failed"),
        ("test_skipped_promise", "skipped"),
    ]
    assert LINE.findall(ran.stdout) == [(str(n), "20") for n in range(2, 21, 2)], ran.stdout
    before_the_end = ran.stdout.partition("20 of 20 tests, 1 failed")[0]
    assert "FAILED test_it.py::test_broken_promise (call)\n" in before_the_end


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_a_session_in_which_a_named_test_is_only_skipped_fails(
    tmp_path: Path, processes: str
) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    ran = pytest_in(tmp_path, processes, "-k", "skipped or other")
    assert ran.returncode == 1, ran.stdout
    assert "test_it.py::test_skipped_promise: skipped" in ran.stdout


def test_tests_that_are_lost_with_their_process_are_missed(tmp_path: Path) -> None:
    lethal = "import os\ndef test_lethal(): os._exit(1)\n"
    (tmp_path / "test_it.py").write_text(SUITE + lethal)
    ran = pytest_in(tmp_path, "-n1", "--max-worker-restart=0", "-k", "other or lethal")
    assert ran.returncode != 0, ran.stdout
    (tmp_path / "test_it.py").write_text(lethal + SUITE)
    ran = pytest_in(tmp_path, "-n1", "--max-worker-restart=0", "-k", "other or lethal")
    assert ran.returncode == 2, ran.stdout
    assert "17 tests were collected and did not run" in ran.stdout


def test_a_look_at_what_there_is_fails_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    ran = pytest_in(tmp_path, "--collect-only")
    assert ran.returncode == 0, ran.stdout
    assert "CONFORMANCE" not in ran.stdout


def test_this_suite_keeps_the_record() -> None:
    registered: list[object] = []

    class Config:
        class pluginmanager:
            @staticmethod
            def register(plugin: object, name: str) -> None:
                registered.append(plugin)

    conftest.pytest_configure(cast("pytest.Config", Config()))
    kept, servers = registered
    assert isinstance(servers, Run)
    assert isinstance(kept, Record)
    assert kept.named == NAMED


def test_every_room_is_a_folder_and_every_stage_has_its_tests() -> None:
    assert {"core", "store", "manager", "gate", "work", "cli"} <= set(run.rooms())
    for paths, processes, minutes in run.STAGES.values():
        assert all((HERE.parent / path).is_dir() for path in paths)
        assert processes >= 1
        assert minutes >= 1


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        (["tests"], ["tests"]),
        (["tests", "gate", "cli", "-k", "wake"], ["tests/gate", "tests/cli", "-k", "wake"]),
        (["tests", "tests/test_readme.py::test_it"], ["tests/test_readme.py::test_it"]),
        (["fights", "-k", "gate"], ["tests/fights", "-k", "gate"]),
        (["tests", "-k", "gate"], ["tests", "-k", "gate"]),
        (["fights", "--deselect", "tests/x"], ["tests/fights", "--deselect", "tests/x"]),
    ],
)
def test_a_room_is_named_by_its_name(
    asked: list[str], paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []

    def listen(words: list[str]) -> int:
        told.extend(words)
        return 0

    monkeypatch.setattr(run, "_pytest", listen)
    assert run.main(asked) == 0
    assert told[-len(paths) :] == paths
    assert ("tests" in told) is ("tests" in paths)


@pytest.mark.parametrize(("code", "kept"), [(0, True), (1, True), (2, False), (3, False)])
def test_after_a_session_that_broke_off_there_is_no_second_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, kept: bool
) -> None:
    failed = tmp_path / "lastfailed"
    failed.write_text("{}")
    monkeypatch.setattr(run, "FAILED", failed)
    monkeypatch.setattr(run, "_pytest", lambda words: code)
    assert run.main(["tests"]) == code
    assert failed.exists() is kept


def test_what_fails_and_then_passes_is_called_flaky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = tmp_path / "lastfailed"
    ids = ("tests/cli/a.py::test_flaky", "tests/a.py::test_broken", "tests/fights/a.py::test_other")
    failed.write_text(json.dumps(dict.fromkeys(ids, True)))

    def second_try(words: list[str]) -> int:
        assert "--last-failed" in words
        failed.write_text(json.dumps({ids[1]: True, ids[2]: True}))
        return 1

    monkeypatch.setattr(run, "FAILED", failed)
    monkeypatch.setattr(run, "_pytest", second_try)
    assert run.main(["again", "tests"]) == 1
    said = capsys.readouterr().out
    assert f"FLAKY {ids[0]}\n" in said
    assert f"FAILED TWICE {ids[1]}\n" in said
    assert ids[2] not in said
