"""A copy of the project with an interpreter of its own, to break and to run tests in.

The tests start many processes, some of them with an emptied environment. So no variable can point
them to the broken package: the copy has a virtual environment, whose `python` finds the copy's
source first, and then the packages of the interpreter that runs this.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mutants.table import PACKAGE, PROJECT, Mutant

#: The parts of the project that tests read.
NEEDED = ("src", "tests", "docs", "bench", ".ci", "README.md", "CHANGELOG.md", "pyproject.toml", "check")  # fmt: skip
#: Far longer than any test in the table takes alone.
PATIENCE_SECONDS = 300

_OUTCOME = re.compile(r"^(PASSED|FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
_SKIPPED = re.compile(r"^SKIPPED .*$", re.MULTILINE)


class Workshop:
    """One copy, for one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        ignored = shutil.ignore_patterns(
            "__pycache__", "*.egg-info", ".pytest_cache", "samples.new"
        )
        self.project.mkdir(parents=True)
        for name in NEEDED:
            if (PROJECT / name).is_dir():
                shutil.copytree(PROJECT / name, self.project / name, ignore=ignored)
            else:
                shutil.copy2(PROJECT / name, self.project / name)
        self.python = self._environment(folder / "environment")
        self._changes = itertools.count(1)

    def _environment(self, home: Path) -> Path:
        venv.create(home, symlinks=True)
        libraries = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(home)}))
        behind = [
            path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")
        ]
        lines = [str(self.project / "src"), *behind]
        (libraries / "workshop.pth").write_text("".join(f"{line}\n" for line in lines))
        command = home / "bin" / "holdfast"
        command.write_text(
            f"#!{home}/bin/python\nfrom holdfast.cli import main\nraise SystemExit(main())\n"
        )
        command.chmod(0o755)
        return home / "bin" / "python"

    @contextmanager
    def broken(self, mutant: Mutant) -> Iterator[None]:
        """Inside, one file of the copy is different."""
        file = self.project / PACKAGE / mutant.file
        before = file.read_text(encoding="utf-8")
        self._write(file, mutant.applied_to(before))
        try:
            yield
        finally:
            self._write(file, before)

    def _write(self, file: Path, text: str) -> None:
        """Write a file with another time: Python's cache compares only size and seconds."""
        file.write_text(text, encoding="utf-8")
        moment = file.stat().st_mtime + next(self._changes) * 2
        os.utime(file, (moment, moment))

    def run(self, tests: tuple[str, ...]) -> dict[str, str]:
        """The result of each test, in pytest's words; of a test with parameters, the worst."""
        words = ["-m", "pytest", "-q", "-rA", "-n0", "-p", "no:randomly", "-p", "no:cacheprovider"]
        # Sessions that share a folder for temporary files remove each other's.
        with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
            self._run([str(self.python), *words, f"--basetemp={folder}/t", *tests], len(tests))
        if skipped := _SKIPPED.findall(self.said):
            pytest.skip("; ".join(skipped))
        outcomes: dict[str, str] = {}
        for outcome, test in _OUTCOME.findall(self.said):
            if outcomes.get(test, "PASSED") == "PASSED":
                outcomes[test] = outcome
        return outcomes

    def _run(self, command: list[str], count: int) -> None:
        process = subprocess.Popen(
            command,
            cwd=self.project,
            env={**os.environ, "PYTHONWARNINGS": ""},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            self.said, _ = process.communicate(timeout=PATIENCE_SECONDS + 10 * count)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
