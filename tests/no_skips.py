"""With HOLDFAST_NO_SKIPS=1 a skipped test has failed.

A test is skipped, with the reason, if the machine lacks a program or a right that it needs. In
continuous integration nothing should be missing and no person reads the reasons, and a test that
never runs proves nothing.
"""

from __future__ import annotations

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
    """A file that skips itself as a whole."""
    report = yield
    if report.skipped:
        _fail(report)
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"{reason}\n(nothing may be skipped here, because {VARIABLE} is set)"
