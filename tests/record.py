"""Which tests ran, in however many processes, and how each of them ended.

A session fails if a test that docs/CONFORMANCE.md names was collected and did not pass: a promise
is shown by a test that ran, and a skipped one shows nothing. A part of the suite shows a part of
the promises, so what was not asked for is not missed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pytest

_RANK = ("passed", "skipped", "failed")


class Record:
    """Keeps it in the process that the others report to."""

    def __init__(self, named: Collection[str]) -> None:
        self.named = named
        self.collected: set[str] = set()
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Collected here, after others have picked from them."""
        result = yield
        self.collected.update(plain_id(item.nodeid) for item in items)
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Collected by another process."""
        self.collected.update(plain_id(id) for id in ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            id = plain_id(report.nodeid)
            worst = max(self.outcomes.get(id, "passed"), report.outcome, key=_RANK.index)
            self.outcomes[id] = worst

    def not_shown(self) -> dict[str, str]:
        """The tests that are named for a promise and did not pass, and how they ended."""
        asked_for = sorted(self.collected.intersection(self.named))
        ended = {test: self.outcomes.get(test, "not run") for test in asked_for}
        return {test: how for test, how in ended.items() if how != "passed"}

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and self.not_shown():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which promises were not shown."""
        if missing := self.not_shown():
            terminalreporter.section("docs/CONFORMANCE.md names tests that did not pass")
            for test, how in missing.items():
                terminalreporter.write_line(f"{test}: {how}")


def plain_id(nodeid: str) -> str:
    """A test's id from the root of the project, without its parameters."""
    return nodeid.partition("[")[0]
