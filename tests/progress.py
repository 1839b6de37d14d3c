"""One line with the progress of the tests, and the time left.

On a terminal the line is overwritten; elsewhere a new one is printed for every tenth of the tests.
A failed test is named immediately, and its details are printed at the end, as pytest does.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any

import pytest

#: How often the line on a terminal is rewritten.
_PAUSE_SECONDS = 0.2


class Progress:
    """The line, in the process that the others report to."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._overwrites = reporter.isatty
        self._begin = monotonic()
        self._written = -_PAUSE_SECONDS
        self._total = self._done = self._failed = self._tenths = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total = max(self._total, len(session.items))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Every process collects all tests."""
        self._total = len(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letters for single tests: the line has the same information."""
        if hasattr(report, "wasxfail"):
            return None
        if report.when == "call" or report.skipped:
            return report.outcome, "", report.outcome.upper()
        return ("error", "", "ERROR") if report.failed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed += 1
            self._wipe()
            self._write(f"FAILED {report.nodeid} ({report.when})\n")
        if report.when == "teardown":
            self._done += 1
            self._tell()

    def pytest_sessionfinish(self) -> None:
        self._wipe()

    def _tell(self) -> None:
        now = monotonic()
        if self._overwrites:
            if now - self._written >= _PAUSE_SECONDS:
                self._written = now
                self._write(f"\r\x1b[K{self._line(now)}")
        elif (tenths := 10 * self._done // max(self._total, 1)) > self._tenths:
            self._tenths = tenths
            self._write(f"{self._line(now)}\n")

    def _line(self, now: float) -> str:
        gone = now - self._begin
        left = gone * (self._total - self._done) / self._done
        failed = f", {self._failed} failed" if self._failed else ""
        return (
            f"{self._done:,} of {self._total:,} tests{failed}; "
            f"{_minutes(gone)} elapsed, about {_minutes(left)} left"
        )

    def _wipe(self) -> None:
        if self._overwrites:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._reporter.write(text, flush=True)


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """One line for all processes."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(reporter), "progress line")
