"""The tests of processes, threads, forks, interrupts and wake-ups, on a server: the same bodies.

They open the ledger of a folder. Here that folder's ledger is on a server. Left out are the tests
about files and locks of the embedded store, and about the number of its steps.
"""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from helpers_postgres import Server
from test_fork_and_threads import (  # noqa: F401
    test_a_fork_while_another_thread_uses_the_ledger_leaves_the_child_a_ledger_to_use,
    test_a_forked_child_is_another_holder_and_both_go_on,
    test_a_thread_inside_the_fence_keeps_the_others_out_until_their_deadline,
    test_an_interrupt_at_any_moment_leaves_nothing_behind,
    test_an_interrupt_in_the_middle_of_a_wait_leaves_neither_ticket_nor_grant,
    test_hold_is_held_again_when_the_ledger_comes_back_in_time,
    test_hold_is_suspect_when_the_ledger_cannot_be_reached_and_then_lost,
    test_hold_knows_how_much_of_its_lease_has_passed_before_it_woke,
    test_hold_learns_that_it_was_taken_away,
    test_hold_releases_on_an_exception_and_lets_it_through,
    test_hold_renews_by_itself_for_as_long_as_it_lasts,
    test_sixteen_threads_on_one_manager_exclude_each_other,
    test_the_ledger_used_from_within_the_fence_is_refused_not_deadlocked,
    test_threads_of_one_holder_do_not_refuse_each_other,
    test_threads_on_two_managers_exclude_each_other,
    test_two_holds_of_one_process_exclude_each_other,
    test_two_processes_that_call_themselves_the_same_exclude_each_other,
    test_workers_of_multiprocessing_share_a_manager_that_was_opened_before,
)
from test_wake import (  # noqa: F401
    test_a_release_before_the_waiter_listens_is_not_missed,
    test_a_waiter_in_another_process_is_woken_when_its_turn_comes,
    test_an_expired_lease_is_noticed_when_it_ends_not_a_second_later,
    test_twenty_waiters_are_served_in_the_order_in_which_they_came,
    test_waiting_requests_notice_that_a_holder_died,
)


@pytest.fixture(autouse=True)
def on_a_server(postgres_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger of every folder is on the server of the run."""
    url = postgres_server.url(f"repository-{secrets.token_hex(6)}")
    monkeypatch.setenv("HOLDFAST_STORE", url)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with room for what a clone keeps."""
    folder = tmp_path / "repo"
    (folder / ".holdfast").mkdir(parents=True)
    return folder
