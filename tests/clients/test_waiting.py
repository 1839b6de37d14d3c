"""Real clients that wait: an agent that was refused continues, waits at its stop, and continues by
itself when the file comes free, or is blocked when its one retry fails.

Every test runs twice, once with Claude Codes and once with Codexes.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from helpers_cli import is_gone, wait_for_file
from helpers_processes import LINUX_ONLY, until
from holdfast.gate.install.hook_entries import SCRIPT

from .crew import REFUSED, SERVER, Agent, Crew, Gateway, is_refusal
from .drive import MARK, marked
from .gated import HELD, WAITED, WOKEN, Gated

pytestmark = LINUX_ONLY

CAME = "a.txt came free and is yours now"
#: A waiting agent notices any change within a second; the machine may be busy.
SOON_SECONDS = 3.0
#: A server in the background. Codex ends the processes in the group of its shell.
LEFT_RUNNING = f"setsid nohup sh -c '{SERVER}' >/dev/null 2>&1 </dev/null &"
#: Writes its pid, and ends when a file exists.
UNTIL_GO = "echo $$ > ../pid.new; mv ../pid.new ../pid; until [ -e ../go ]; do sleep 0.05; done"


def pid_beside(gated: Gated) -> int:
    return int(wait_for_file(gated.root.parent / "pid"))


def seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def waiter(crew: Crew) -> Agent:
    """An agent that was refused the owner's file, and is held at its stop. If it continues, it
    changes the file."""
    other = crew.start(
        "other",
        crew.edit("a.txt", "mine", "mine and theirs"),
        "I wait.",
        crew.edit("a.txt", "mine", "mine and theirs"),
    )
    until(lambda: crew.gated.happened("stop_held"), "its stop is held")
    assert other.results[0].count(REFUSED) == 1
    assert [one["holder"] for one in crew.gated.waiting()] == [other.name]
    return other


def check_went_on(other: Agent, crew: Crew) -> None:
    """Check that the agent continued by itself, and was told why."""
    other.ends()
    asked = crew.server.asked("other")
    assert [request.turn for request in asked] == [0, 1, 2, 3]
    assert CAME not in asked[1].text()
    assert CAME in asked[2].text()
    assert [is_refusal(said) for said in other.results] == [True, False]
    assert crew.gated.text() == "mine and theirs\n"
    assert crew.gated.blockers() == []
    assert crew.gated.waiting() == []


def check_was_soon(gated: Gated, since: str) -> None:
    """Check that the file was handed over soon after a time."""
    (handed,) = gated.happened("file_handed_over")
    assert 0 <= seconds_between(since, handed["timestamp"]) < SOON_SECONDS


def test_who_works_on_is_given_the_file_with_the_owner_s_commit_and_told_so(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**WAITED)
    commit, leave, freed = Gateway(), Gateway(), Gateway()
    owner = crew.start(
        "owner",
        crew.edit("a.txt", "old", "mine"),
        commit.then(crew.shell("git commit -q -m mine a.txt")),
        leave.then(),
    )
    owner.leave = leave
    owner.has_done(1)
    other = crew.start(
        "other",
        crew.edit("a.txt", "mine", "mine and theirs"),
        crew.edit("b.txt", "old", "theirs"),
        freed.then(crew.shell("true")),
        crew.edit("a.txt", "mine", "mine and theirs"),
    )
    other.has_done(2)
    assert gated.held() == {"a.txt": owner.name, "b.txt": other.name}
    since = gated.now()
    commit.open()
    owner.has_done(2)
    assert gated.held() == {"a.txt": other.name, "b.txt": other.name}
    assert seconds_between(since, gated.now()) < 3 * SOON_SECONDS
    freed.open()
    other.ends()
    assert [is_refusal(said) for said in other.results] == [True, False, False, False]
    asked = crew.server.asked("other")
    assert [CAME in request.text() for request in asked] == [False, False, False, True, True]
    assert gated.text() == "mine and theirs\n"
    assert gated.happened("stop_held") == []
    owner.ends()


def test_at_its_stop_it_waits_for_the_owner_s_commit_and_goes_on_by_itself(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**WAITED)
    commit, leave = Gateway(), Gateway()
    owner = crew.start(
        "owner",
        crew.edit("a.txt", "old", "mine"),
        commit.then(crew.shell("git commit -q -m mine a.txt")),
        leave.then(),
    )
    owner.leave = leave
    owner.has_done(1)
    other = waiter(crew)
    commit.open()
    check_went_on(other, crew)
    assert gated.git("log", "-1", "--format=%s") == "mine\n"
    owner.ends()


def test_at_its_stop_it_waits_for_the_end_of_the_owner_s_session(gated: Gated, crew: Crew) -> None:
    gated.init(**WAITED)
    owner = crew.owner()
    other = waiter(crew)
    owner.ends()
    check_went_on(other, crew)


def test_at_its_stop_it_hears_of_the_owner_s_death(gated: Gated, crew: Crew) -> None:
    gated.init(**WAITED)
    owner = crew.owner()
    other = waiter(crew)
    since = gated.now()
    owner.running.kill()
    check_went_on(other, crew)
    check_was_soon(gated, since)


def test_at_its_stop_it_waits_until_an_owner_that_stopped_was_idle_for_long_enough(
    gated: Gated, crew: Crew
) -> None:
    go = gated.let_stops_wait()
    gated.init(**WAITED, idle_seconds=4)
    leave = Gateway()
    owner = crew.start("owner", crew.edit("a.txt", "old", "mine"), leave.then())
    owner.has_done(1)
    other = waiter(crew)
    leave.open()
    until(lambda: gated.happened("file_handed_over"), "the file was handed over")
    assert not owner.has_ended()
    owner_rests = next(
        event for event in gated.happened("agent_resting") if event["data"]["agent"] == owner.name
    )
    (handed,) = gated.happened("file_handed_over")
    idle = seconds_between(owner_rests["timestamp"], handed["timestamp"])
    assert 4 <= idle < 4 + SOON_SECONDS
    go.touch()
    check_went_on(other, crew)
    owner.ends()


def test_after_it_went_on_its_next_stop_is_not_held_and_its_user_hears_what_is_not_done(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**WAITED)
    commit, leave = Gateway(), Gateway()
    owner = crew.start(
        "owner",
        crew.edit("a.txt", "old", "mine"),
        crew.edit("b.txt", "old", "mine"),
        commit.then(crew.shell("git commit -q -m mine a.txt")),
        leave.then(),
    )
    owner.leave = leave
    owner.has_done(2)
    change = crew.edit("a.txt", "mine", "mine and theirs")
    other = crew.start("other", change, "I wait.", change, crew.edit("b.txt", "mine", "theirs"))
    until(lambda: gated.happened("stop_held"), "its stop is held")
    commit.open()
    said = other.ends().stdout
    assert (gated.text(), gated.text("b.txt")) == ("mine and theirs\n", "mine\n")
    assert [is_refusal(result) for result in other.results] == [True, False, True]
    assert len(gated.happened("stop_held")) == 1
    assert gated.waiting() == []
    if crew.client == "claude":  # Codex shows such messages in a terminal only
        assert f"{other.name} stopped and did not write b.txt" in said
    owner.ends()


def test_a_sub_agent_waits_at_its_end_and_goes_on_by_itself(gated: Gated, leaders: Crew) -> None:
    gated.init(**WAITED)
    owner = leaders.owner()
    change = leaders.edit("a.txt", "mine", "mine and theirs")
    leaders.server.scripts["child"] = [change, "I wait.", change]
    parent = leaders.start("main", *leaders.delegate("child"))
    until(lambda: gated.happened("stop_held"), "its end is held")
    (waiting,) = gated.waiting()
    names = gated.names(parent.session)
    assert waiting["holder"] in names.values()
    assert waiting["holder"] != parent.name
    owner.ends()
    parent.ends()
    asked = leaders.server.asked("child")
    assert [request.turn for request in asked] == [0, 1, 2, 3]
    assert CAME in asked[2].text()
    assert gated.text() == "mine and theirs\n"
    assert gated.held() == {}
    assert gated.waiting() == []


def test_a_killed_owner_s_open_command_keeps_the_file_until_it_ends(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**WAITED)
    # A killed Codex kills its shell too, but not the processes that the shell has started.
    command = crew.shell(f"bash -c '{UNTIL_GO}' & wait")
    owner = crew.start("owner", crew.edit("a.txt", "old", "mine"), command)
    pid = pid_beside(gated)
    other = waiter(crew)
    owner.running.kill()
    with pytest.raises(AssertionError):
        until(lambda: gated.happened("file_handed_over"), "the file was handed over", 2)
    assert not is_gone(pid)
    since = gated.now()
    (gated.root.parent / "go").touch()
    check_went_on(other, crew)
    check_was_soon(gated, since)


def test_a_killed_owner_s_server_keeps_nothing(gated: Gated, crew: Crew) -> None:
    gated.init(**WAITED)
    owner = crew.owner(crew.edit("a.txt", "old", "mine"), crew.shell(LEFT_RUNNING))
    pid = pid_beside(gated)
    owner.running.kill()
    other = crew.run("other", crew.edit("a.txt", "mine", "theirs"))
    assert not is_refusal(other.results[0])
    assert gated.text() == "theirs\n"
    assert not is_gone(pid)
    assert gated.happened("contention_heartbeat") == []


def test_a_server_does_not_keep_the_files_of_an_agent_that_stopped(
    gated: Gated, crew: Crew
) -> None:
    go = gated.let_stops_wait()
    gated.init(**WAITED, idle_seconds=2)
    owner = crew.start("owner", crew.edit("a.txt", "old", "mine"), crew.shell(LEFT_RUNNING))
    until(lambda: gated.happened("agent_resting"), "it stopped")
    assert list(gated.held()) == ["a.txt"]
    until(lambda: gated.held() == {}, "its file came free")
    assert not is_gone(pid_beside(gated))
    assert not owner.has_ended()
    go.touch()
    owner.ends()


@pytest.mark.parametrize("settings", [WOKEN, WAITED], ids=["a call", "a stop"])
def test_the_hook_of_a_waiting_client_ends_with_it_and_leaves_the_line(
    gated: Gated, crew: Crew, settings: dict[str, int]
) -> None:
    gated.init(**settings)
    owner = crew.owner()
    home = gated.home()
    other = crew.start("other", crew.edit("a.txt", "mine", "theirs"), home=home)
    event = "contention_heartbeat" if settings is WOKEN else "stop_held"
    until(lambda: gated.happened(event), "it waits")
    assert [one["holder"] for one in gated.waiting()] == [other.name]
    assert hooks_of(home)
    other.running.kill()
    until(lambda: not hooks_of(home), "its hook ended", SOON_SECONDS)
    assert gated.waiting() == []
    owner.ends()
    assert gated.held() == {}
    assert gated.text() == "mine\n"


def hooks_of(home: Path) -> list[int]:
    """The hooks that run for the client with this home."""
    return [pid for pid in marked(f"{MARK}={home}".encode()) if SCRIPT in line_of(pid)]


def line_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_an_owner_that_keeps_it_blocks_the_other_until_its_user_speaks(
    gated: Gated, crew: Crew
) -> None:
    notices = gated.root.parent / "notices"
    tell = f'echo "$HOLDFAST_NOTICE: $0" >> {notices}'
    gated.init(["sh", "-c", tell], **HELD)
    owner = crew.owner()
    home = gated.home()
    other = crew.run("other", crew.edit("a.txt", "mine", "theirs"), "I wait.", home=home)
    # it was refused once, and was held at its stop: its model got no further request
    assert [request.turn for request in crew.server.asked("other")] == [0, 1]
    (report,) = gated.blockers()
    assert (report["agent"], report["owner"]) == (other.name, owner.name)
    assert report["blocked_file"] == "a.txt"
    assert other.name in gated.by_a_person("blockers").out
    blocked = f"blocked: {other.name} is blocked: a.txt is held by {owner.name}"
    until(lambda: notices.exists() and notices.read_text() == f"{blocked}\n", "people were told")
    owner.ends()
    free = f"free: a.txt is free again: {other.name} can continue (holdfast resume)"
    until(lambda: notices.read_text().splitlines() == [blocked, free], "people were told")
    assert len(gated.blockers()) == 1
    crew.run("on", crew.edit("a.txt", "mine", "theirs"), home=home, resume=other.session)
    resumed = f"resumed: {other.name} may continue (a new prompt)"
    until(lambda: notices.read_text().splitlines() == [blocked, free, resumed], "they were told")
    assert gated.text() == "theirs\n"
    assert gated.blockers() == []


def test_a_session_is_told_at_its_start_who_else_is_at_work(gated: Gated, crew: Crew) -> None:
    gated.init(**WAITED)
    alone = crew.owner()
    assert "Also at work" not in crew.server.asked("owner")[0].text()
    leave = Gateway()
    other = crew.start("other", leave.then())
    other.leave = leave
    other.has_done(0)
    told = crew.server.asked("other")[0].text()
    assert f"Also at work in this repository: {alone.name} (a.txt)." in told
    alone.running.kill()
    other.ends()
    crew.run("later")
    assert "Also at work" not in crew.server.asked("later")[0].text()
