"""Recorded fights on a PostgreSQL server that is killed and cut off: their histories are legal.

With a bug in the programs they are not, which shows that the checker would see it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers_histories import HAPPENS, MET, ServerFight, kinds
from helpers_network import Proxy
from helpers_postgres import Server, own_server
from helpers_processes import LINUX_ONLY
from histories import check

pytestmark = LINUX_ONLY

OPERATIONS = 20_000
#: One of each habit: more programs would wait for each other, and do no more.
WHO = ("plays", "plays", "forgets", "walks", "opens", "forks", "daemonises", "threads")
#: How often a fight with a bug is repeated before the bug counts as missed.
ATTEMPTS = 8


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests kill; each test has a repository of its own on it."""
    with own_server() as made:
        yield made


def crash(server: Server) -> None:
    """The server's machine loses its power, and comes back."""
    server.kill()
    server.start()


def test_the_history_of_a_long_fight_on_a_server_that_crashes_is_legal(
    tmp_path: Path, server: Server
) -> None:
    troubles: dict[str, Callable[[], object]] = {
        "crashed": lambda: crash(server),
        "cut": server.cut_all,
    }
    # On a busy machine it takes longer, but it ends with the last of so many operations.
    fight = ServerFight(tmp_path, server, 240, troubles=troubles, every_seconds=4, roughness=0.03)
    history = fight.run(WHO, operations=OPERATIONS + OPERATIONS // 8)  # some are sections
    assert fight.troubles() == ""
    judgement = check(history)
    assert judgement, str(judgement)
    assert len(history.operations) > OPERATIONS
    assert [met for met in MET if not kinds(history)[met]] == []
    for what in (*HAPPENS, *troubles):
        assert fight.counts[what], f"nothing {what}: that proves less than it says"


def test_programs_that_believe_in_other_times_of_day_have_a_legal_history(
    tmp_path: Path, server: Server
) -> None:
    fight = ServerFight(tmp_path, server, 8, wrong_clocks=True)
    history = fight.run(("forgets", "plays") * 4, gently=True)
    assert fight.troubles() == ""
    judgement = check(history)
    assert judgement, str(judgement)
    assert len(history.operations) > 200


def test_connections_that_are_dropped_or_swallowed_leave_a_legal_history(
    tmp_path: Path, server: Server
) -> None:
    with Proxy(server.port) as proxy:

        def swallow() -> None:
            proxy.silence()
            time.sleep(0.5)  # the span for which nothing arrives
            proxy.restore()

        troubles: dict[str, Callable[[], object]] = {"dropped": proxy.drop, "swallowed": swallow}
        fight = ServerFight(
            tmp_path, server, 10, troubles=troubles, every_seconds=1, roughness=0.1,
            store=server.url("dropped", port=proxy.port),
        )  # fmt: skip
        history = fight.run(("plays", "forgets", "opens", "forks", "threads"))
    assert fight.troubles() == ""
    judgement = check(history)
    assert judgement, str(judgement)
    assert len(history.operations) > 200
    assert fight.counts["dropped"] >= 2
    assert fight.counts["swallowed"] >= 2


# Bugs


@pytest.mark.parametrize(
    ("bug", "habits", "trouble", "wrong_clocks"),
    [
        ("commits_without_waiting_for_the_disk", ("plays",) * 4, "crashed", False),
        ("takes_every_lost_commit_for_done", ("plays",) * 4, "cut", False),
        ("fences_without_a_lock", ("plays",) * 4, "", False),
        ("believes_the_clock_of_its_host", ("forgets", "plays", "plays"), "", True),
        ("never_expires", ("forgets", "forgets", "plays", "plays"), "", False),
        ("forget_ancestors", ("plays",) * 4, "", False),
    ],
)
def test_each_seeded_bug_is_found(
    tmp_path: Path,
    server: Server,
    bug: str,
    habits: tuple[str, ...],
    trouble: str,
    wrong_clocks: bool,
) -> None:
    known: dict[str, Callable[[], object]] = {
        "crashed": lambda: crash(server), "cut": server.cut_all,
    }  # fmt: skip
    troubles = {trouble: known[trouble]} if trouble else {}
    every = 0.1 if trouble == "cut" else 1
    for attempt in range(ATTEMPTS):
        fight = ServerFight(
            tmp_path / str(attempt), server, 4 if trouble else 2, bug=bug, seed=attempt,
            troubles=troubles, every_seconds=every, roughness=0, wrong_clocks=wrong_clocks,
        )  # fmt: skip
        judgement = check(fight.run(habits))
        assert judgement.name != "undecided", str(judgement)
        if not judgement:
            return
    pytest.fail(f"{bug} was not found")
