"""A database may begin its sessions in other ways; the ledger in it works all the same."""

from __future__ import annotations

import threading

import pytest

from helpers_postgres import Server
from holdfast import LockManager

#: What the owner of a database may have set for all sessions in it.
DEFAULTS = {
    "isolation": "default_transaction_isolation = 'serializable'",
    "search path": "search_path = 'pg_catalog'",
    "commits": "synchronous_commit = 'off'",
    "texts": "standard_conforming_strings = 'off'",
    "language": "lc_messages = 'C'",
    "zone": "timezone = 'Pacific/Chatham'",
    "dates": "datestyle = 'German'",
    "plans": "plan_cache_mode = 'force_generic_plan'",
}
THREADS, TURNS = 3, 20


@pytest.mark.parametrize("default", DEFAULTS)
def test_a_ledger_works_whatever_the_defaults_of_its_database(
    postgres_server: Server, default: str
) -> None:
    name = postgres_server.make_database(f"defaults_{default.replace(' ', '_')}")
    postgres_server.run(f"alter database {name} set {DEFAULTS[default]}")
    url = postgres_server.url("defaults", database=name)
    held: list[str] = []
    trouble: list[BaseException] = []

    def play(who: str) -> None:
        try:
            with LockManager.open(store=url) as manager:
                for _ in range(TURNS):
                    grant = manager.acquire(holder=who, write_paths=["it's \\a"], timeout=60)
                    held.append(who)
                    with manager.fenced(grant):
                        assert held == [who]
                    held.clear()
                    manager.release(grant.id)
        except BaseException as error:
            trouble.append(error)

    crew = [threading.Thread(target=play, args=(f"player-{number}",)) for number in range(THREADS)]
    for one in crew:
        one.start()
    for one in crew:
        one.join(120)
    assert trouble == []
    with LockManager.open(store=url) as manager:
        assert manager.active_grants() == []
        tokens = [e.data["token"] for e in manager.events() if e.type == "lock_acquired"]
    assert len(tokens) == THREADS * TURNS
    assert tokens == sorted(set(tokens))
