"""How the tests are run: nothing is lost in several processes, and what is flaky is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import run

HERE = Path(__file__).parent
LINE = re.compile(r"^(\d+) of (\d+) tests.*; \d+:\d\d gone, about \d+:\d\d to go$", re.MULTILINE)

CONFTEST = """
from record import Record

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        names = ("promise", "broken_promise", "skipped_promise", "promise_that_is_not_asked_for")
        config.pluginmanager.register(Record({f"test_it.py::test_{name}" for name in names}))
"""


def pytest_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A session of its own, in a folder with a conftest that keeps the record."""
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


def test_what_fails_and_then_passes_is_called_flaky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = tmp_path / "lastfailed"
    failed.write_text('{"a.py::test_flaky": true, "a.py::test_broken": true}')

    def second_try(words: list[str]) -> int:
        assert "--last-failed" in words
        failed.write_text('{"a.py::test_broken": true}')
        return 1

    monkeypatch.setattr(run, "FAILED", failed)
    monkeypatch.setattr(run, "_pytest", second_try)
    assert run.main(["again", "tests"]) == 1
    said = capsys.readouterr().out
    assert "FLAKY a.py::test_flaky\n" in said
    assert "FAILED TWICE a.py::test_broken\n" in said
