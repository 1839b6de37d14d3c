"""The memory and the sqlite store, driven together through many more histories."""

from __future__ import annotations

from hypothesis import settings

from test_stores_agree import StoresAgree


class ForLonger(StoresAgree):
    """The same state machine, with more examples."""


ForLonger.TestCase.settings = settings(StoresAgree.TestCase.settings, max_examples=600)
TestStoresAgreeForLonger = ForLonger.TestCase
