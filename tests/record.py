"""Records which tests ran, in all processes, and how each of them ended.

A session fails if a test that docs/CONFORMANCE.md names was collected and did not pass: a promise
is shown by a test that ran, and a skipped one shows nothing. A part of the suite shows a part of
the promises, so tests that were not selected are not missed. A session that lost tests, because
their process died, counts as interrupted: repeating only the failed tests would hide that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

_RANK = ("passed", "skipped", "failed")


class Record:
    """The record, in the process that the others report to."""

    def __init__(self, named: Collection[str]) -> None:
        self.named = named
        #: The ids of the tests, with their parameters.
        self.collected: set[str] = set()
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Tests were collected here, after other plugins have selected from them."""
        result = yield
        self.collected.update(item.nodeid for item in items)
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Tests were collected by another process."""
        self.collected.update(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            worst = max(self.outcomes.get(report.nodeid, "passed"), report.outcome, key=_RANK.index)
            self.outcomes[report.nodeid] = worst

    def not_run(self) -> list[str]:
        """The collected tests without a report."""
        return sorted(self.collected - self.outcomes.keys())

    def not_shown(self) -> dict[str, str]:
        """The tests of promises that did not pass, and how they ended."""
        ended = {id: self.outcomes.get(id, "not run") for id in sorted(self.collected)}
        return {
            id: how for id, how in ended.items() if how != "passed" and plain_id(id) in self.named
        }

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A session that was not stopped has run all collected tests."""
        if self._was_cut_short(session):
            self.collected.intersection_update(self.outcomes)
        elif self.not_run():
            session.exitstatus = pytest.ExitCode.INTERRUPTED
        elif session.exitstatus == pytest.ExitCode.OK and self.not_shown():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _was_cut_short(self, session: pytest.Session) -> bool:
        asked_to_look = bool(session.config.option.collectonly)
        return asked_to_look or bool(session.shouldstop) or bool(session.shouldfail)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Report the tests that did not run, and the promises that were not shown."""
        if lost := self.not_run():
            terminalreporter.section(f"{len(lost)} tests were collected and did not run")
            for test in lost[:20]:
                terminalreporter.write_line(test)
        if missing := self.not_shown():
            terminalreporter.section("docs/CONFORMANCE.md names tests that did not pass")
            for test, how in missing.items():
                terminalreporter.write_line(f"{test}: {how}")


def plain_id(nodeid: str) -> str:
    """A test's id from the root of the project, without its parameters."""
    return nodeid.partition("[")[0]
