"""Real clients in a terminal that wait at their stops: what a person sees, and what happens when
the person does not want to wait."""

from __future__ import annotations

import re

from helpers_processes import LINUX_ONLY, until
from holdfast.gate.clients import WAITING

from .crew import BLOCKED, Claudes, Codexes, Crew, Gateway, is_refusal
from .gated import HELD, WAITED, Gated
from .test_waiting import CAME, SOON_SECONDS, hooks_of
from .windows import ESCAPE, Window, open_claude, open_codex

pytestmark = LINUX_ONLY


def open_one(crew: Crew) -> Window:
    """A client of this kind in a terminal, with the home `window`."""
    home = crew.gated.root.parent / "window"
    if isinstance(crew, Claudes):
        return open_claude(crew.gated.root, crew.server, home)
    assert isinstance(crew, Codexes)
    return open_codex(crew.gated.root, crew.server, home)


def reaches(crew: Crew, window: Window) -> None:
    """Let the agent try to edit another's file, and stop. If it continues, it tries again."""
    change = crew.edit("a.txt", "mine", "mine and theirs")
    crew.server.scripts["main"] = [change, "I wait.", change]
    window.enter("[[main]]")


def is_held(crew: Crew, window: Window) -> None:
    """The same, and wait until its stop is held."""
    reaches(crew, window)
    until(lambda: crew.gated.happened("stop_held"), "its stop is held")


def turns(crew: Crew) -> set[int]:
    """The turns that the client requested; Codex requests some of them twice, for a title."""
    return {request.turn for request in crew.server.asked("main")}


def test_a_person_sees_that_it_waits_and_then_that_it_goes_on(gated: Gated, leaders: Crew) -> None:
    gated.init(**WAITED)
    owner = leaders.owner()
    with open_one(leaders) as window:
        is_held(leaders, window)
        window.shows(WAITING)
        owner.ends()
        leaders.server.wait_for("main", 3)
        assert gated.text() == "mine and theirs\n"
        assert CAME in leaders.server.wait_for("main", 2).text()


def test_a_name_says_which_terminal_it_is(gated: Gated, leaders: Crew) -> None:
    gated.init(**WAITED)
    leave = Gateway()
    leaders.server.scripts["main"] = [leaders.edit("a.txt", "old", "mine"), leave.then()]
    with open_one(leaders) as window:
        window.enter("[[main]]")
        until(gated.held, "it changed the file")
        (name,) = gated.held().values()
        assert re.fullmatch(rf"{leaders.client}@pts/\d+:\w{{4,}}", name)
        leave.open()


def test_a_retry_that_fails_at_a_held_stop_is_shown_and_the_next_prompt_lets_it_go_on(
    gated: Gated, leaders: Crew
) -> None:
    gated.init(**HELD)
    owner = leaders.owner()
    with open_one(leaders) as window:
        reaches(leaders, window)
        until(gated.blockers, "it is blocked")
        window.shows(BLOCKED)
        window.shows(owner.name)
        assert turns(leaders) == {0, 1}  # its model got no further request
        owner.ends()
        assert len(gated.blockers()) == 1
        leaders.server.scripts["on"] = [leaders.edit("a.txt", "mine", "theirs")]
        window.enter("[[on]]")
        until(lambda: gated.text() == "theirs\n", "it went on")
    assert gated.blockers() == []


def test_a_prompt_typed_while_claude_waits_ends_the_waiting_and_keeps_the_place_in_line(
    gated: Gated, claudes: Claudes
) -> None:
    gated.init(**WAITED)
    owner = claudes.owner()
    freed = Gateway()
    claudes.server.scripts["more"] = [
        claudes.edit("b.txt", "old", "theirs"),
        freed.then(claudes.edit("a.txt", "mine", "mine and theirs")),
    ]
    with open_one(claudes) as window:
        is_held(claudes, window)
        window.enter("[[more]]")
        until(lambda: claudes.server.asked("more"), "the prompt is served", SOON_SECONDS)
        claudes.server.wait_for("more", 1)
        assert gated.text("b.txt") == "theirs\n"
        assert len(gated.waiting()) == 1
        owner.ends()
        freed.open()
        claudes.server.wait_for("more", 2)
        assert not any(map(is_refusal, claudes.server.results("more")[1:]))
    assert gated.text() == "mine and theirs\n"


def test_escape_ends_the_waiting_and_what_comes_free_then_is_not_kept_for_long(
    gated: Gated, leaders: Crew
) -> None:
    gated.init(**WAITED, idle_seconds=2)
    owner = leaders.owner()
    with open_one(leaders) as window:
        is_held(leaders, window)
        window.press(ESCAPE)
        until(lambda: not hooks_of(gated.root.parent / "window"), "its hook ended", SOON_SECONDS)
        owner.ends()
        until(lambda: gated.held() == {}, "nobody has the file")
        other = leaders.run("other", leaders.edit("a.txt", "mine", "theirs"))
        assert not is_refusal(other.results[0])
        assert turns(leaders) == {0, 1}
    assert gated.text() == "theirs\n"
