"""The memory store and another, driven together through many more histories."""

from __future__ import annotations

from hypothesis import settings

from test_stores_agree import MANY_STEPS, PostgresAgrees, StoresAgree


class ForLonger(StoresAgree):
    """The same state machine, with more examples."""


class PostgresForLonger(PostgresAgrees):
    """The same on a server, where each step takes longer."""


ForLonger.TestCase.settings = settings(MANY_STEPS, max_examples=600)
TestStoresAgreeForLonger = ForLonger.TestCase
PostgresForLonger.TestCase.settings = settings(MANY_STEPS, max_examples=100)
TestPostgresAgreesForLonger = PostgresForLonger.TestCase
