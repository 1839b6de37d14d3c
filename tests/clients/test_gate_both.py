"""The gate with the real clients, installed by the real `holdfast init`: what both clients share.

Every test runs twice, once with Claude Codes and once with Codexes.
"""

from __future__ import annotations

import os
import time

from helpers_processes import LINUX_ONLY, until
from holdfast.core.ledger_time import iso

from .crew import (
    BLOCKED,
    REFUSED,
    ROUNDS,
    Crew,
    Gateway,
    insist,
    is_refusal,
    meet_on_one_file,
    when,
)
from .gated import AT_ONCE, HELD, WOKEN, Gated

pytestmark = LINUX_ONLY


def test_a_refused_edit_leaves_the_file_as_it_is_and_the_model_reads_whose_it_is(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**AT_ONCE)
    owner = crew.owner()
    assert gated.held() == {"a.txt": owner.name}
    other = crew.run(
        "other",
        crew.edit("a.txt", "mine", "theirs"),
        crew.edit("a.txt", "mine", "theirs"),
        crew.edit("b.txt", "old", "free"),
    )
    assert gated.text() == "mine\n"
    assert gated.text("b.txt") == "free\n"
    first, again, free = other.results
    assert f"{REFUSED}a.txt has been locked for writing by {owner.name}" in first
    assert f"{REFUSED}a.txt has been locked for writing by {owner.name}" in again
    for said in (first, again):
        assert "You are number 1 in line for it." in said
        assert "earlier retries are refused" in said
    assert not is_refusal(free)
    assert gated.held() == {"a.txt": owner.name}
    owner.ends()
    assert gated.held() == {}


def test_two_at_once_on_one_file_make_exactly_one_edit_each_round(gated: Gated, crew: Crew) -> None:
    gated.init(**HELD)
    meet_on_one_file(crew, crew)


def test_with_wake_two_on_one_file_take_turns_at_once_and_no_edit_is_lost(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**WOKEN)
    gated.write("a.txt", "end\n")
    lines: set[str] = set()
    for number in range(ROUNDS):
        over = Gateway()
        agents = []
        for who in ("one", "two"):
            line = f"{number} by {who}"
            lines.add(line)
            home = gated.root.parent / who
            insert = crew.insert("a.txt", line, "end")
            agents.append(crew.start(f"{who}-{number}", insert, over.then(), home=home))
        until(
            lambda: len(gated.happened("contention_heartbeat")) > number,  # noqa: B023
            "one must wait",
        )
        over.open()
        for agent in agents:
            said = agent.ends().stdout + "".join(agent.results)
            assert not is_refusal(said)
        *found, end = gated.text().splitlines()
        assert (sorted(found), end) == (sorted(lines), "end")
        beat = gated.happened("contention_heartbeat")[-1]["data"]
        served = [
            event for event in gated.happened("contention_over")
            if event["data"]["note"] == beat["note"]
        ]  # fmt: skip
        assert served[0]["timestamp"] < iso(beat["retry_at"])


#: A file, and a command that writes it past every edit tool.
WAYS = {
    "a.txt": "sed -i s/old/new/ a.txt",
    "b.txt": "echo new | tee b.txt",
    "c.txt": "echo new > c.txt",
    "d.txt": "cd . && echo new >> ./d.txt",
    "e.txt": "cp b.txt e.txt",
    "f.txt": "rm -f f.txt",
}


def test_shell_commands_that_write_what_another_has_are_refused(gated: Gated, crew: Crew) -> None:
    for path in WAYS:
        gated.write(path, "old\n")
    gated.init(**AT_ONCE)
    owner = crew.owner(*(crew.edit(path, "old", "old, mine") for path in WAYS))
    other = crew.run("other", *map(crew.shell, WAYS.values()), crew.shell("cat a.txt > g.txt"))
    *refusals, free = other.results
    for path, said in zip(WAYS, refusals, strict=True):
        assert f"{REFUSED}{path} has been locked for writing by {owner.name}" in said
        assert gated.text(path) == "old, mine\n"
    assert not is_refusal(free)
    assert gated.text("g.txt") == "old, mine\n"
    owner.ends()
    assert gated.happened("damage") == []


def test_what_a_shell_command_plainly_writes_is_refused_to_others_from_then_on(
    gated: Gated, crew: Crew
) -> None:
    ways = dict(list(WAYS.items())[:3])
    for path in ways:
        gated.write(path, "old\n")
    gated.init(**AT_ONCE)
    owner = crew.owner(*map(crew.shell, ways.values()))
    assert gated.held() == dict.fromkeys(ways, owner.name)
    other = crew.run("other", *(crew.edit(path, "new", "theirs") for path in ways))
    for path, said in zip(ways, other.results, strict=True):
        assert f"{REFUSED}{path} has been locked for writing by {owner.name}" in said
        assert gated.text(path) == "new\n"
    owner.ends()


def test_siblings_exclude_each_other_and_the_parent_gets_the_lease_back(
    gated: Gated, leaders: Crew
) -> None:
    gated.init(**AT_ONCE)
    during: list[dict[str, str]] = []
    model = leaders.server

    def look_at_the_other() -> None:
        model.wait_for("one", 1)
        during.append(gated.held())

    to_one = leaders.edit("a.txt", "parent", "one")
    model.scripts["one"] = [to_one, when(lambda: model.wait_for("two", 1))]
    model.scripts["two"] = [when(look_at_the_other, leaders.edit("a.txt", "one", "two"))]
    steps = [leaders.edit("a.txt", "old", "parent"), *leaders.delegate("one", "two")]
    leave = Gateway()
    last = leave.then(leaders.edit("a.txt", "one", "parent again"))
    parent = leaders.start("main", *steps, last)
    parent.has_done(len(steps))
    until(lambda: gated.held() == {"a.txt": parent.name}, "the sub-agents have ended")
    (child,) = {holder for held in during for holder in held.values()}
    assert child in gated.names(parent.session).values()
    assert child != parent.name
    assert f"{REFUSED}a.txt has been locked for writing by {child}" in model.results("two")[0]
    assert gated.text() == "one\n"
    leave.open()
    parent.ends()
    assert gated.text() == "parent again\n"
    assert gated.held() == {}


#: Writes its pid, waits for a file, and writes late; it survives the death of its agent.
ORPHAN = (
    "echo $$ > ../pid.new; mv ../pid.new ../pid; until [ -e ../go ]; do sleep 0.05; done; "
    "echo late > a.txt"
)


def test_a_killed_owner_is_taken_over_from_once_its_orphans_are_gone(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**AT_ONCE)
    # A killed Codex kills its shell too, but not the processes that the shell has started.
    command = crew.shell(f"bash -c '{ORPHAN}' & wait")
    owner = crew.start("owner", crew.edit("a.txt", "old", "mine"), command)
    outside = gated.root.parent
    until((outside / "pid").exists, "the command began")
    owner.running.kill()
    early = crew.run("early", crew.edit("a.txt", "mine", "theirs"))
    assert owner.name in early.results[0]
    assert gated.text() == "mine\n"
    (outside / "go").touch()
    pid = int((outside / "pid").read_text())
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the orphan ended")
    heir = crew.run("heir", crew.edit("a.txt", "late", "late, theirs"))
    assert not is_refusal(heir.results[0])
    assert gated.text() == "late, theirs\n"


def test_a_commit_releases_what_it_has_while_its_agent_goes_on(gated: Gated, crew: Crew) -> None:
    gated.init(**AT_ONCE)
    owner = crew.owner(
        crew.edit("a.txt", "old", "mine"),
        crew.edit("b.txt", "old", "not ready"),
        crew.shell("git commit -q -m mine a.txt && git log -1 --format=%s"),
    )
    assert "mine" in owner.results[2]
    assert gated.held() == {"b.txt": owner.name}
    other = crew.run(
        "other",
        crew.edit("a.txt", "mine", "mine and theirs"),
        crew.shell("git commit -q -m everything -a"),
        crew.shell("git commit -q -m theirs a.txt"),
    )
    free, everything, own = other.results
    assert not is_refusal(free)
    assert "b.txt" in everything
    assert owner.name in everything
    assert owner.name not in own
    assert gated.git("log", "--format=%s").split() == ["theirs", "mine", "settings", "first"]
    assert gated.held() == {"b.txt": owner.name}
    owner.ends()


def test_after_a_stop_files_come_free_though_the_client_lives_on(gated: Gated, crew: Crew) -> None:
    go = gated.let_stops_wait()
    gated.init(**AT_ONCE, idle_seconds=4)
    never_written = crew.shell("false && echo new > b.txt; echo over")
    owner = crew.start("owner", crew.edit("a.txt", "old", "mine"), never_written)
    until(lambda: gated.happened("agent_resting"), "it stopped")
    # the file it never changed is free immediately, the other one later
    assert list(gated.held()) == ["a.txt"]
    until(lambda: gated.held() == {}, "its file came free")
    assert not owner.has_ended()
    go.touch()
    crew.run("other", crew.edit("a.txt", "mine", "theirs"))
    assert gated.text() == "theirs\n"
    owner.ends()


def test_silence_without_a_stop_frees_nothing(gated: Gated, crew: Crew) -> None:
    gated.init(**AT_ONCE, idle_seconds=1)
    owner = crew.owner()
    silent = time.monotonic()
    until(lambda: time.monotonic() > silent + 2, "more than the idle time has passed")
    assert gated.held() == {"a.txt": owner.name}
    other = crew.run("other", crew.edit("a.txt", "mine", "theirs"))
    assert owner.name in other.results[0]
    owner.ends()
    assert gated.text() == "mine\n"


def test_a_resumed_session_has_what_it_had(gated: Gated, crew: Crew) -> None:
    gated.init(**AT_ONCE)
    home = gated.home()
    first = crew.owner(home=home)
    name, session = first.name, first.session
    first.running.kill()
    until(lambda: gated.held() == {}, "the killed one has nothing any more")
    leave = Gateway()
    change = leave.then(crew.edit("a.txt", "mine", "mine again"))
    again = crew.start("again", change, home=home, resume=session)
    again.has_done(0)
    assert gated.held() == {"a.txt": name}
    other = crew.run("other", crew.edit("a.txt", "mine", "theirs"))
    assert name in other.results[0]
    leave.open()
    assert again.ends().session == session
    assert gated.text() == "mine again\n"
    assert gated.held() == {}


def test_a_retry_that_succeeds_goes_on_as_if_nothing_had_been(gated: Gated, crew: Crew) -> None:
    gated.init(retry_seconds=4, timeout_seconds=60, wake=False)
    owner = crew.owner()
    change = crew.edit("a.txt", "mine", "mine and theirs")
    refused, due = Gateway(), Gateway()
    other = crew.start("other", change, refused.then(change), due.then(change))
    other.has_done(1)
    owner.ends()
    refused.open()
    other.has_done(2)
    # the file is free, but without `wake` nothing happens before the retry
    assert gated.text() == "mine\n"
    (beat,) = gated.happened("contention_heartbeat")
    assert beat["data"]["retry_at"] - beat["data"]["denied_at"] == 4_000_000
    until(lambda: gated.now() >= iso(beat["data"]["retry_at"]), "the retry is due")
    due.open()
    other.ends()
    assert [is_refusal(said) for said in other.results] == [True, True, False]
    assert gated.text() == "mine and theirs\n"
    assert len(gated.happened("contention_heartbeat")) == 1
    assert gated.blockers() == []


def test_a_retry_that_fails_is_reported_and_the_report_outlives_the_client(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**HELD)
    owner = crew.owner()
    other = crew.start("other", *insist(crew.edit("a.txt", "mine", "theirs")))
    said = other.ends().stdout + "".join(other.results)
    assert REFUSED in other.results[0]
    assert BLOCKED not in other.results[0]
    assert BLOCKED in said
    assert f"owner           {owner.name}" in said.replace("\\n", "\n")
    (report,) = gated.blockers()
    assert report["state"] == "waiting_for_instruction"
    assert report["agent"] == other.name
    assert (report["owner"], report["blocked_file"]) == (owner.name, "a.txt")
    assert report["retry_interval_seconds"] == 1
    assert report["lock_age_seconds"] > 0
    assert report["last_heartbeat"]
    assert other.name in gated.by_a_person("blockers").out
    assert gated.text() == "mine\n"
    owner.ends()


def test_a_stopped_agent_goes_on_after_a_new_prompt_in_a_resumed_session(
    gated: Gated, crew: Crew
) -> None:
    gated.init(**HELD)
    owner = crew.owner()
    home = gated.home()
    blocked = crew.run("other", crew.edit("a.txt", "mine", "theirs"), home=home)
    assert [report["agent"] for report in gated.blockers()] == [blocked.name]
    owner.ends()
    crew.run("on", crew.edit("a.txt", "mine", "theirs"), home=home, resume=blocked.session)
    assert gated.text() == "theirs\n"
    assert gated.blockers() == []
