"""The documents are true: their commands and their Python code are run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from helpers_cli import Repository, environment
from helpers_guides import PAGES, ROOT, blocks
from holdfast import Event, Holder, LockGrant, LockManager
from holdfast.core import bulk_rules, events, rules
from holdfast.core.draft import Draft
from holdfast.core.model import SECOND, Decision, Request
from holdfast.manager import transactions
from holdfast.manager.clock import FakeClock
from holdfast.store import open_store
from holdfast.store.memory import MemoryStore
from holdfast.store.sqlite import schema

if TYPE_CHECKING:
    from holdfast.core.view import View

README = (ROOT / "README.md").read_text()
FOREVER = 1e18


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "project")


# Commands


def test_the_two_commands_of_the_readme_are_what_continuous_integration_runs() -> None:
    lines = "".join(blocks("README.md", "sh")).splitlines()
    assert len(lines) == 2
    script = (ROOT / ".ci/run").read_text()
    for line in lines:
        assert line in script, line
    assert lines[0].endswith("holdfast demo")
    assert lines[1].endswith("./check")


# Python


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_python_of_a_page_runs(page: str, repository: Repository) -> None:
    (repository.root / "app/x.rb").write_text("old\n")
    code = "\n".join(blocks(page, "python"))
    assert code.count("\n") > 8
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=repository.root, env=environment(),
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert (repository.root / "app/x.rb").read_text() in ("new\n", "better\n")
    assert list(repository.root.glob("app/*.new")) == []


# Pages


def anchors(page: Path) -> set[str]:
    """The anchors of a page, to which links can lead."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.is_file(), f"{page.name} links to {link}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", ["README.md", "docs/ARCHITECTURE.md"])
def test_files_that_a_page_names_are_there(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.S)
    for name in re.findall(r"`((?:src|tests|bench|docs|core|store|manager|cli)/[\w./]+)`", text):
        places = (ROOT / name, ROOT / "src/holdfast" / name)
        assert any(place.exists() for place in places), name


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 200


# The ledger's page


LEDGER = (ROOT / "docs/ledger.md").read_text()


def test_every_event_is_documented_with_the_version_of_its_vocabulary() -> None:
    kinds = ("LOCK_", "TICKET_", "LEASES_")
    names = {value for name, value in vars(events).items() if name.startswith(kinds)}
    assert set(re.findall(r"^### `(\w+)`", LEDGER, re.M)) == names
    assert f"version {events.VERSION}" in LEDGER


def all_kinds_of_events() -> list[Event]:
    """A history with every kind of event."""
    clock = FakeClock()
    store = open_store("memory:", clock=clock, is_dead=lambda witness, marks: False)
    manager = LockManager(store, clock=clock)

    def take(holder: str, **more: Any) -> LockGrant:
        grant = manager.try_acquire(holder=holder, write_paths=["x"], **more)
        assert grant is not None
        return grant

    def wait(holder: str, patience: float) -> Request:
        request = manager.request(holder, [], ["x"], patience=patience)
        store.transact(lambda view: rules.acquire(view, request, wait=True), deadline=FOREVER)
        return request

    grant = take("ann", reason="a reason")
    manager.renew(grant.id, rest=5)
    manager.release(grant.id)
    take("ann", ttl=1)
    clock.sleep_machine(2)
    clock.advance(2)
    manager.steal(holder="bob", write_paths=["x"], ttl=1)
    clock.advance(2)
    manager.reap()
    grant = take("ann")
    assert manager.try_acquire(holder="bob", write_paths=["x"]) is None
    wait("bob", 1)
    late = wait("cleo", 1000)
    clock.advance(2)
    assert manager.try_acquire(holder="dan", write_paths=["x"]) is None
    store.transact(lambda view: rules.cancel(view, late.id, "cancelled"), deadline=FOREVER)
    manager.force(grant.id, by="eve", reason="in a hurry")
    (served,) = transactions.look(manager, lambda view: view.grants())
    moved = bulk_rules.heir(served, manager.holder("fay"), "moved")
    transactions.decide(manager, lambda view: bulk_rules.exchange(view, [(served.id, moved)]))
    return [*manager.events(), *kept_leases()]


def kept_leases() -> list[Event]:
    """The history of a ledger where a lease without a ttl has to be renewed, and was."""
    clock = FakeClock()
    store = MemoryStore(clock=clock, is_dead=lambda witness, marks: False, lease=60 * SECOND)
    with LockManager(store, clock=clock) as manager:
        assert manager.try_acquire(holder="ann", write_paths=["x"], ttl=None) is not None
        clock.advance(40)

        def renew(view: View) -> Decision[None]:
            draft = Draft(view)
            bulk_rules.renew_kept(draft, view.grants())
            return draft.done(None)

        transactions.decide(manager, renew)
        return list(manager.events())


def test_every_field_of_every_event_is_documented() -> None:
    history = all_kinds_of_events()
    sections = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##)", LEDGER, re.M | re.S))
    assert {event.type for event in history} == sections.keys()
    for event in history:
        section = sections[event.type]
        if "as `lock_released`" in section:
            section += sections["lock_released"]
        assert event.version == events.VERSION
        for field in event.data:
            assert f"`{field}`" in section, f"{event.type} has {field}"
    [holder, *_] = [event.data["holder"] for event in history if event.type == "lock_acquired"]
    general = LEDGER.partition("A **holder**")[2].partition("**Keys**")[0]
    for field in (*holder, *(name for name in Holder.__slots__ if name[0] != "_")):
        assert f"`{field}`" in general, field


def test_a_backup_can_be_made_and_put_back(repository: Repository) -> None:
    copy, put_back = blocks("docs/ledger.md", "sh")

    def run(line: str) -> None:
        subprocess.run(line, shell=True, check=True, cwd=repository.root, env=environment())

    with LockManager.open(repository.root) as manager:
        kept = manager.try_acquire(holder="ann", write_paths=["app/x.rb"])
        assert kept is not None
        run(copy)
        other = manager.try_acquire(holder="ann", write_paths=["app/y.rb"])
        assert other is not None
        run(put_back)
        later = manager.try_acquire(holder="ann", write_paths=["lib/z.rb"])
        assert later is not None
        assert later.token > other.token
        held = [grant.write_paths for grant in manager.active_grants()]
        assert held == [("app/x.rb",), ("lib/z.rb",)]


def test_the_tables_of_the_ledger_are_documented() -> None:
    for table in re.findall(r"create table (\w+)", schema.TABLES):
        assert f"| `{table}` |" in LEDGER
    assert f"format {schema.VERSION}" in LEDGER
