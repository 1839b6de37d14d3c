"""Records of an agent from a newer Holdfast: that agent gets a refusal with the reason, and no
other agent is affected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast import RecordVersionError
from holdfast.core.draft import Draft
from holdfast.core.model import Decision
from holdfast.gate.rulebook import agent_records
from holdfast.manager import transactions
from stage import Actor, Stage

if TYPE_CHECKING:
    from holdfast.core.view import View


def newer(stage: Stage, actor: Actor, type: str) -> None:
    """Rewrite an agent's notes of a type in the format of a version that does not exist yet."""

    def rule(view: View) -> Decision[None]:
        draft = Draft(view)
        for event in view.notes(agent_records.of_agent(actor.holder.key)):
            if event.type == type:
                draft.say(type, {"spelled": "otherwise"}, name=event.data["note"], version=99)
        return draft.done(None)

    transactions.decide(stage.manager, rule)


def blocked(stage: Stage, actor: Actor, path: str) -> None:
    assert actor.edit(path).kind == "deny"
    stage.clock.advance(180)
    assert actor.edit(path).kind == "halt"


def test_a_newer_report_on_another_agent_keeps_nobody_from_giving_back(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", write="new\n")
    ann.edit("lib/y.rb", write=None)
    blocked(stage, bob, "app/x.rb")
    newer(stage, bob, agent_records.BLOCKED)
    ann.stop()
    assert stage.owner("lib/y.rb") == "", "a file that was never changed is free"
    ann.commit("app/x.rb")
    assert stage.owner("app/x.rb") == ""
    ann.edit("lib/y.rb", write="new\n")
    ann.gate().end_session()
    assert stage.owner("lib/y.rb") == ""


def test_a_newer_presence_of_another_agent_keeps_nobody_from_beginning(stage: Stage) -> None:
    ann, bob, cid = stage.agent("ann"), stage.agent("bob"), stage.agent("cid")
    ann.edit("app/x.rb")
    bob.edit("lib/y.rb")
    newer(stage, bob, agent_records.PRESENT)
    assert "claude:ann (app/x.rb)" in cid.gate().session_start().context
    assert ann.stop().kind == "quiet"


def test_the_agent_itself_is_refused_in_words(stage: Stage) -> None:
    ann, bob = stage.agent("ann"), stage.agent("bob")
    ann.edit("app/x.rb", write="new\n")
    blocked(stage, bob, "app/x.rb")
    newer(stage, bob, agent_records.BLOCKED)
    with pytest.raises(RecordVersionError, match="newer version of Holdfast"):
        bob.edit("lib/y.rb")
