"""The guide to the gate matches the gate: its diagram, its refusal, its terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.gate.people.file_standing import standings
from holdfast.gate.rulebook import file_states
from holdfast.manager import transactions
from stage import Stage

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/gate.md").read_text(encoding="utf-8")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.close()


def alike(text: str) -> str:
    """A text without the parts that differ between refusals, and without its line breaks."""
    for pattern, instead in (
        (r"claude[@:][\w./:@-]*\w", "NAME"),
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "WHEN"),
        (r"\b\d+ (?:min|s)\b", "LONG"),
        (r"\s+", " "),
    ):
        text = re.sub(pattern, instead, text)
    return text.strip()


def test_the_diagram_is_the_table_of_the_source() -> None:
    [shown] = re.findall(r"^```mermaid\n(.*?)^```$", GUIDE, re.M | re.S)
    assert shown.rstrip("\n") == file_states.diagram()


@pytest.mark.parametrize("page", ["docs/gate.md", "README.md"])
def test_the_refusal_is_what_an_agent_reads(stage: Stage, page: str) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb")
    stage.clock.advance(180)
    said = bob.edit("app/x.rb").reason
    text = (ROOT / page).read_text(encoding="utf-8")
    [shown] = re.findall(r"^```\n(Refused: .*?)^```$", text, re.M | re.S)
    assert alike(shown) == alike(said)
    assert "number 1 in line" in shown


def test_every_state_is_explained_with_the_words_that_people_read(stage: Stage) -> None:
    table = GUIDE.partition("| state | shown as |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (\w+) \| (.*?) \|", table, re.M))
    assert list(rows) == [
        "".join(part.title() for part in one.split("_")) for one in file_states.STATES
    ]
    ann, bob, eve = stage.agent("ann"), stage.agent("bob"), stage.agent("eve")
    ann.edit("x.rb")
    eve.edit("x.rb")
    stage.clock.advance(181)
    eve.edit("x.rb")
    bob.edit("x.rb")
    stage.clock.advance(50)
    now = stage.manager.now()
    words = {one.state: one.words(now) for one in transactions.look(stage.manager, standings)}
    assert rows["Owned"] == f"`{words[file_states.OWNED]}`"
    assert rows["RetryPending"] == f"`{words[file_states.RETRY_PENDING]}`"
    assert rows["Blocked"] == f"`{words[file_states.BLOCKED]}`"
