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
        config.pluginmanager.register(Record({"test_it.py::test_promise"}))
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


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("pass", True),
        ("assert 0", False),
        ("import pytest; pytest.skip('not here')", False),
    ],
    ids=["passes", "fails", "is skipped"],
)
def test_a_session_fails_unless_the_tests_that_are_named_have_passed(
    tmp_path: Path, processes: str, body: str, shown: bool
) -> None:
    (tmp_path / "test_it.py").write_text(f"def test_promise(): {body}\ndef test_other(): pass\n")
    ran = pytest_in(tmp_path, processes)
    assert (ran.returncode == 0) is shown, ran.stdout
    assert ("names tests that did not pass" not in ran.stdout) is shown


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_what_was_not_asked_for_is_not_missed(tmp_path: Path, processes: str) -> None:
    (tmp_path / "test_it.py").write_text("def test_promise(): assert 0\ndef test_other(): pass\n")
    ran = pytest_in(tmp_path, processes, "-k", "other")
    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("processes", ["-n0", "-n2"])
def test_the_progress_line_counts_all_processes_and_names_failures_at_once(
    tmp_path: Path, processes: str
) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(20))\ndef test_one(n): assert n != 7\n"
    )
    ran = pytest_in(tmp_path, processes)
    assert LINE.findall(ran.stdout) == [(str(n), "20") for n in range(2, 21, 2)], ran.stdout
    assert "20 of 20 tests, 1 failed" in ran.stdout
    assert "FAILED test_it.py::test_one[7] (call)\n" in ran.stdout.partition("20 of 20")[0]


def test_every_room_is_a_folder_and_every_stage_has_its_tests() -> None:
    assert {"core", "store", "manager", "gate", "work", "cli"} <= set(run.rooms())
    for paths, processes, minutes in run.STAGES.values():
        assert all((HERE.parent / path).is_dir() for path in paths)
        assert processes >= 1
        assert minutes >= 1


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
