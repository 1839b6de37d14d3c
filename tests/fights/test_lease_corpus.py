"""`holdfast run --lease` around the tools that people and agents write with.

Each tool does the same with Holdfast as without it. A file that another holder has stays unchanged,
however a tool reaches it. The leases of a tool cover the files that it changed and no temporary
names.

The cases are in `lease_corpus.py`. Many share one command, because its start takes longer than most
of them; a case about git has its own repository and command.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from helpers_lease_corpus import OTHER, Entry, Run, Yard, matches
from helpers_node import node_modules
from helpers_processes import LINUX_ONLY
from helpers_sandbox import NEEDS_LANDLOCK
from lease_corpus import ALONE, BATCHES
from lease_world import CACHES, PACKAGES, Case, needing

pytestmark = [
    LINUX_ONLY,
    NEEDS_LANDLOCK,
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]

#: Every case with the batch that it runs in; a case that runs alone is a batch of its own.
PLACES = {one.name: one.name for one in ALONE} | {
    one.name: batch for batch, cases in BATCHES.items() for one in cases
}
CASES = [*ALONE, *(one for cases in BATCHES.values() for one in cases)]
assert len(PLACES) == len(CASES), "two cases have the same name"


class Runs:
    """The results of the cases of a batch: without Holdfast, with leases, and while another holder
    has their victims. Each run starts when a test first needs it."""

    def __init__(self, yard: Yard) -> None:
        self.before = once(yard.before)
        self.plain = once(lambda: yard.run(leased=False))
        self.leased = once(lambda: yard.run(leased=True))
        self.held = once(lambda: yard.run(leased=True, holding=True))


def once(run: Callable[[], Run]) -> Callable[[], Run]:
    """The same run, started only once, even if it fails."""
    found: list[Run | BaseException] = []

    def ask() -> Run:
        if not found:
            try:
                found.append(run())
            except Exception as error:
                found.append(error)
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]

    return ask


Ran = Callable[[Case], Runs]


@pytest.fixture(scope="module")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The runs of a case's batch. Only the cases whose tests were selected run."""
    asked = set()
    for item in request.session.items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if isinstance(case := given.get("case"), Case):
            asked.add(case.name)
    modules, base = node_modules(), tmp_path_factory.mktemp("history") / "base"

    @cache
    def made(batch: str) -> Runs:
        cases = [one for one in CASES if PLACES[one.name] == batch and one.name in asked]
        able = [one for one in cases if not one.missing]
        folder = tmp_path_factory.mktemp(batch)
        return Runs(Yard(folder, able, modules, None if batch in BATCHES else base))

    return lambda case: made(PLACES[case.name])


def ids(case: Case) -> str:
    return case.name


SOUND = [one for one in CASES if not one.gap]
every = pytest.mark.parametrize("case", CASES, ids=ids)
sound = pytest.mark.parametrize("case", SOUND, ids=ids)
with_gap = pytest.mark.parametrize("case", [one for one in CASES if one.gap], ids=ids)
with_victim = pytest.mark.parametrize("case", [one for one in SOUND if one.victim], ids=ids)
with_neighbour = pytest.mark.parametrize("case", [one for one in SOUND if one.beside], ids=ids)


def compare(case: Case, run: Run, plain: Run) -> None:
    """Check that a case did the same in two runs."""
    assert case.name in run.notes, f"it did not get that far ({run.code}): {run.err}"
    noted, expected = run.notes[case.name], plain.notes[case.name]
    assert noted.code == expected.code, noted
    if "out" not in case.differs:
        assert noted.out == expected.out
    if "err" not in case.differs:
        assert noted.err == expected.err
    assert seen(case, run.trees[case.name]) == seen(case, plain.trees[case.name])
    assert run.facts == plain.facts


def seen(case: Case, tree: dict[str, Entry]) -> dict[str, Entry]:
    """A tree, without the content that differs from run to run."""
    return {
        path: one._replace(content=b"") if matches(path, case.differs) else one
        for path, one in tree.items()
    }


def is_free(case: Case, name: str, before: dict[str, Entry]) -> bool:
    """Whether a file is written without a lease: git ignores it, or it is new and a tool's own."""
    return matches(name, case.unleased) or (name not in before and matches(name, CACHES))


def test_continuous_integration_installs_all_of_the_tools() -> None:
    text = (Path(__file__).parents[2] / ".ci/run").read_text()
    wanted = {f"{program}:{package}" for program, package in PACKAGES.items()}
    assert wanted - {"node:nodejs", "npm:npm"} <= {*text.replace(";", " ").split()}


@sound
def test_a_tool_does_the_same_as_without_us(ran: Ran, case: Case) -> None:
    needing(case)
    runs = ran(case)
    compare(case, runs.leased(), runs.plain())


@with_gap
def test_what_is_known_not_to_work_does_not(ran: Ran, case: Case) -> None:
    """A case that works now shows that the table is outdated."""
    needing(case)
    runs = ran(case)
    with pytest.raises(AssertionError):
        compare(case, runs.leased(), runs.plain())


@with_victim
def test_what_another_holder_has_stays_as_it_is(ran: Ran, case: Case) -> None:
    needing(case)
    runs = ran(case)
    before, after = runs.plain().victims[case.name]
    assert before != after, "the tool does not change its victim, so the rest would prove nothing"
    held = runs.held()
    assert case.name in held.notes, f"it did not get that far ({held.code}): {held.err}"
    before, after = held.victims[case.name]
    assert after == before
    noted = held.notes[case.name]
    assert (noted.code == 0) == case.quiet, f"the tool was to hear of it: {noted}"


@with_victim
def test_a_tool_that_is_refused_leaves_no_temporary_names(ran: Ran, case: Case) -> None:
    needing(case)
    runs = ran(case)
    known = {*runs.before().trees[case.name], *runs.plain().trees[case.name]}
    names = {one for one in runs.held().trees[case.name] if not matches(one, case.temporary)}
    assert names <= known


@with_neighbour
def test_what_another_holder_has_does_not_disturb_work_beside_it(ran: Ran, case: Case) -> None:
    needing(case)
    runs = ran(case)
    compare(case, runs.held(), runs.plain())


@every
def test_leased_is_what_the_tool_changed(ran: Ran, case: Case) -> None:
    needing(case)
    runs = ran(case)
    before, after = runs.before().trees[case.name], runs.leased().trees[case.name]
    leased = runs.leased().leases[case.name]
    names = {*before, *after}
    changed = {
        name for name in names
        if before.get(name) != after.get(name) and not is_free(case, name, before)
        and any(one and one.kind != "folder" for one in (before.get(name), after.get(name)))
    }  # fmt: skip
    assert changed <= leased, "a tool has to hold leases on what it changes"
    assert leased <= {*names, *case.between}, (
        "a name that existed neither before nor after is a temporary one"
    )
    assert not {one for one in leased if is_free(case, one, before)}


@every
def test_all_is_given_back_when_the_command_ends(ran: Ran, case: Case) -> None:
    needing(case)
    runs = ran(case)
    assert runs.leased().left == []
    assert runs.leased().code == 0, runs.leased().err


@with_victim
def test_who_has_a_file_is_told(ran: Ran, case: Case) -> None:
    needing(case)
    held = ran(case).held()
    assert set(held.left) == {OTHER}
    assert case.victim in held.err
    assert OTHER in held.err
