"""Runs pytest; with HOLDFAST_NO_SKIPS=1 a test that is skipped has failed.

A test that needs a program or a right which a machine does not have is skipped there, with the
reason. Where everything should be there nobody reads reasons, and a test that never runs proves
nothing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator

import pytest

VARIABLE = "HOLDFAST_NO_SKIPS"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """One test, before, while or after it ran."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A whole file that skips itself."""
    report = yield
    if report.skipped:
        _fail(report)
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"{reason}\n(nothing may be skipped here, because {VARIABLE} is set)"


def main(words: list[str]) -> int:
    """Run pytest with these words."""
    # Whatever was started in the background ignores interrupts, and so would all that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGHUP", "SIGQUIT"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    plugin = ["-p", "no_skips"] if os.environ.get(VARIABLE) == "1" else []
    return int(pytest.main([*plugin, *words]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
