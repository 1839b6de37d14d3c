"""The gate with real Codexes, installed by the real `holdfast init` in a real repository; and with
one Codex against one Claude Code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helpers_processes import LINUX_ONLY, until

from . import drive
from .drive import CODEX_CODE_MODEL, Running, run_claude, run_codex, start_claude, start_codex
from .gated import (
    AT_ONCE,
    BLOCKED,
    HELD,
    REFUSED,
    Gated,
    Gateway,
    first_to_end,
    is_refusal,
    name,
    when,
)
from .servers import (
    AnthropicServer,
    Call,
    OpenAIServer,
    code_patch,
    edit,
    patch,
    shell,
    spawn,
    wait_for_agents,
)

pytestmark = LINUX_ONLY

ROUNDS = 10


@pytest.fixture
def gated(repo: Path) -> Gated:
    return Gated(repo)


def change(path: str, old: str, new: str) -> str:
    """The part of a patch that replaces one line of a file."""
    return f"*** Update File: {path}\n@@\n-{old}\n+{new}"


class Owner:
    """A Codex that has edited `a.txt` and is still at work, until `finish`."""

    def __init__(self, gated: Gated, server: OpenAIServer, *first: Call) -> None:
        self._leave = Gateway()
        steps = first or (patch(change("a.txt", "old", "mine")),)
        server.scripts["owner"] = [*steps, self._leave.then("Done.")]
        self.running = start_codex(gated.root, "[[owner]]", server, home=gated.home())
        server.wait_for("owner", len(steps))
        self.name = name("codex", self.running.said().session)

    def finish(self) -> None:
        self._leave.open()
        assert self.running.wait().code == 0


def test_a_refused_patch_leaves_all_its_files_as_they_are_and_the_model_reads_whose_they_are(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(gated, openai)
    assert gated.held()["a.txt"] == owner.name
    openai.scripts["other"] = [
        patch(change("b.txt", "old", "theirs"), change("a.txt", "mine", "theirs")),
        patch("*** Delete File: a.txt"),
        patch("*** Update File: b.txt\n*** Move to: a.txt\n@@\n-old\n+theirs"),
        patch(change("b.txt", "old", "free")),
        "Done.",
    ]
    run_codex(gated.root, "[[other]]", openai, home=gated.home())
    assert gated.text() == "mine\n"
    *refusals, _free = openai.results("other")
    assert f"{REFUSED}a.txt is being written by {owner.name}" in refusals[0]
    for said in refusals:
        assert is_refusal(said)
        assert owner.name in said
    owner.finish()
    assert gated.held() == {}


def test_a_free_file_of_a_refused_patch_can_be_patched_alone(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(gated, openai)
    openai.scripts["other"] = [
        patch(change("b.txt", "old", "theirs"), change("a.txt", "mine", "theirs")),
        patch(change("b.txt", "old", "free")),
        "Done.",
    ]
    run_codex(gated.root, "[[other]]", openai, home=gated.home())
    refused, free = openai.results("other")
    assert is_refusal(refused)
    assert not is_refusal(free), free
    assert gated.text("b.txt") == "free\n"
    owner.finish()


def test_a_free_file_of_a_refused_patch_is_free_for_a_third_agent(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(gated, openai)
    leave = Gateway()
    openai.scripts["other"] = [
        patch(change("b.txt", "old", "theirs"), change("a.txt", "mine", "theirs")),
        leave.then("Done."),
    ]
    other = start_codex(gated.root, "[[other]]", openai, home=gated.home())
    openai.wait_for("other", 1)
    assert gated.held() == {"a.txt": owner.name}
    openai.scripts["third"] = [patch(change("b.txt", "old", "free")), "Done."]
    run_codex(gated.root, "[[third]]", openai, home=gated.home())
    assert gated.text("b.txt") == "free\n", openai.results("third")
    leave.open()
    other.wait()
    owner.finish()


def test_the_gate_holds_with_hooks_that_were_trusted_in_codex_itself(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(gated, openai)
    home = gated.home()
    drive.trust_codex_hooks(gated.root, home)
    openai.scripts["other"] = [patch(change("a.txt", "mine", "theirs")), "Done."]
    run_codex(gated.root, "[[other]]", openai, home=home, vetted=False)
    assert gated.text() == "mine\n"
    assert owner.name in openai.results("other")[0]
    owner.finish()


def test_two_at_once_on_one_file_make_exactly_one_edit_each_round(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**HELD)
    lines: list[str] = []
    (gated.root / "a.txt").write_text("end\n")
    for number in range(ROUNDS):
        over = Gateway()
        runs: dict[str, Running] = {}
        for who in ("one", "two"):
            script, line = f"{who}-{number}", f"{number} by {who}"
            openai.scripts[script] = [
                patch(f"*** Update File: a.txt\n@@\n+{line}\n end"),
                over.unless_refused(openai),
            ]
            home = gated.root.parent / who
            runs[line] = start_codex(gated.root, f"[[{script}]]", openai, home=home)
        loser = first_to_end(*runs.values())
        (winner,) = (line for line, run in runs.items() if run is not loser)
        lines.append(winner)
        assert gated.text().splitlines() == [*lines, "end"]
        over.open()
        for line, run in runs.items():
            assert run.wait().code == 0
            said = openai.results(f"{line.split()[2]}-{number}")[0]
            assert (BLOCKED in said) is (line != winner)
        assert gated.held() == {}
    assert gated.text().splitlines() == [*lines, "end"]


#: A file, and a command that writes it past apply_patch as a tool.
WAYS = {
    "a.txt": "sed -i s/old/new/ a.txt",
    "b.txt": "echo new | tee b.txt",
    "c.txt": "echo new > c.txt",
    "d.txt": "cd . && echo new >> ./d.txt",
    "e.txt": f"apply_patch <<'EOF'\n{patch(change('e.txt', 'old, mine', 'new')).input}EOF\n",
    "f.txt": "rm -f f.txt",
}


def test_shell_commands_that_write_what_another_has_are_refused(
    gated: Gated, openai: OpenAIServer
) -> None:
    for path in WAYS:
        (gated.root / path).write_text("old\n")
    gated.init(**AT_ONCE)
    owner = Owner(gated, openai, patch(*(change(path, "old", "old, mine") for path in WAYS)))
    openai.scripts["other"] = [*map(shell, WAYS.values()), shell("cat a.txt > g.txt"), "Done."]
    run_codex(gated.root, "[[other]]", openai, home=gated.home())
    *refusals, free = openai.results("other")
    for path, said in zip(WAYS, refusals, strict=True):
        assert f"{REFUSED}{path} is being written by {owner.name}" in said
        assert gated.text(path) == "old, mine\n"
    assert not is_refusal(free)
    assert gated.text("g.txt") == "old, mine\n"
    owner.finish()


def test_siblings_exclude_each_other_and_the_parent_gets_the_lease_back(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**AT_ONCE)
    leave = Gateway()
    during: list[dict[str, str]] = []
    openai.scripts["main"] = [
        code_patch(change("a.txt", "old", "parent")),
        spawn("[[one]]", "one"),
        spawn("[[two]]", "two"),
        wait_for_agents(),
        when(
            lambda: until(lambda: only_the_parent_holds(gated), "the sub-agents have ended"),
            wait_for_agents(),
        ),
        leave.then(code_patch(change("a.txt", "one", "parent again"))),
        leave.then("Done."),
    ]
    openai.scripts["one"] = [
        code_patch(change("a.txt", "parent", "one")),
        when(lambda: openai.wait_for("two", 1), "Done."),
    ]
    openai.scripts["two"] = [
        when(
            lambda: (openai.wait_for("one", 1), during.append(gated.held())),
            code_patch(change("a.txt", "one", "two")),
        ),
        "Done.",
    ]
    running = start_codex(gated.root, "[[main]]", openai, model=CODEX_CODE_MODEL)
    openai.wait_for("main", 5)
    parent = name("codex", running.said().session)
    (child,) = {holder for held in during for holder in held.values()}
    assert child.startswith(f"{parent}:")
    assert f"{REFUSED}a.txt is being written by {child}" in openai.results("two")[0]
    assert gated.text() == "one\n"
    assert gated.held() == {"a.txt": parent}
    leave.open()
    assert running.wait().code == 0
    assert gated.text() == "parent again\n"
    assert gated.held() == {}


def only_the_parent_holds(gated: Gated) -> bool:
    """Whether no sub-agent has anything any more; the name of one has a third part."""
    return all(holder.count(":") == 1 for holder in gated.held().values())


#: Tells its pid, waits for a file, and writes late; what is left of an agent that was killed.
ORPHAN = (
    "echo $$ > ../pid.new; mv ../pid.new ../pid; until [ -e ../go ]; do sleep 0.05; done; "
    "echo late > a.txt"
)


def test_a_killed_owner_is_taken_over_from_once_its_orphans_are_gone(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**AT_ONCE)
    command = {"cmd": f"bash -c '{ORPHAN}' & wait", "yield_time_ms": 30000}
    openai.scripts["owner"] = [
        patch(change("a.txt", "old", "mine")),
        Call("exec_command", command),
        "Done.",
    ]
    running = start_codex(gated.root, "[[owner]]", openai, home=gated.home())
    outside = gated.root.parent
    until((outside / "pid").exists, "the command began")
    running.kill()
    owner = name("codex", running.said().session)
    openai.scripts["early"] = [patch(change("a.txt", "mine", "theirs")), "Done."]
    run_codex(gated.root, "[[early]]", openai, home=gated.home())
    assert owner in openai.results("early")[0]
    assert gated.text() == "mine\n"
    (outside / "go").touch()
    pid = int((outside / "pid").read_text())
    until(lambda: not os.path.exists(f"/proc/{pid}"), "the orphan ended")
    openai.scripts["heir"] = [patch(change("a.txt", "late", "late, theirs")), "Done."]
    run_codex(gated.root, "[[heir]]", openai, home=gated.home())
    assert not is_refusal(openai.results("heir")[0])
    assert gated.text() == "late, theirs\n"


def test_a_commit_releases_what_it_has_while_its_agent_goes_on(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(
        gated,
        openai,
        patch(change("a.txt", "old", "mine"), change("b.txt", "old", "not ready")),
        shell("git commit -q -m mine a.txt && git log -1 --format=%s"),
    )
    assert "mine" in openai.results("owner")[1]
    assert gated.held() == {"b.txt": owner.name}
    openai.scripts["other"] = [
        patch(change("a.txt", "mine", "mine and theirs")),
        shell("git commit -q -m everything -a"),
        shell("git commit -q -m theirs a.txt"),
        "Done.",
    ]
    run_codex(gated.root, "[[other]]", openai, home=gated.home())
    free, everything, own = openai.results("other")
    assert not is_refusal(free)
    assert "b.txt" in everything
    assert owner.name in everything
    assert owner.name not in own
    assert gated.git("log", "--format=%s").split() == ["theirs", "mine", "settings", "first"]
    assert gated.held() == {"b.txt": owner.name}
    owner.finish()


def test_after_a_stop_files_come_free_though_the_client_lives_on(
    gated: Gated, openai: OpenAIServer
) -> None:
    go = gated.let_stops_wait()
    gated.init(**AT_ONCE, idle_seconds=4)
    openai.scripts["owner"] = [
        patch(change("a.txt", "old", "mine")),
        shell("false && echo new > b.txt; echo over"),
        "Done.",
    ]
    running = start_codex(gated.root, "[[owner]]", openai, home=gated.home())
    until(lambda: gated.happened("agent_resting"), "it stopped")
    # what it never changed is free at once, the rest is not
    assert list(gated.held()) == ["a.txt"]
    until(lambda: gated.held() == {}, "its file came free")
    assert running.process.poll() is None
    go.touch()
    assert running.wait().code == 0
    openai.scripts["other"] = [patch(change("a.txt", "mine", "theirs")), "Done."]
    run_codex(gated.root, "[[other]]", openai, home=gated.home())
    assert gated.text() == "theirs\n"


def test_a_resumed_session_has_what_it_had(gated: Gated, openai: OpenAIServer) -> None:
    gated.init(**AT_ONCE)
    home = gated.home()
    leave = Gateway()
    openai.scripts["first"] = [patch(change("a.txt", "old", "mine")), leave.then("Done.")]
    first = start_codex(gated.root, "[[first]]", openai, home=home)
    openai.wait_for("first", 1)
    session = first.said().session
    first.kill()
    until(lambda: gated.held() == {}, "the killed one has nothing any more")
    openai.scripts["again"] = [leave.then(patch(change("a.txt", "mine", "mine again"))), "Done."]
    again = start_codex(gated.root, "[[again]]", openai, home=home, resume=session)
    openai.wait_for("again")
    assert gated.held() == {"a.txt": name("codex", session)}
    openai.scripts["other"] = [patch(change("a.txt", "mine", "theirs")), "Done."]
    run_codex(gated.root, "[[other]]", openai, home=gated.home())
    assert name("codex", session) in openai.results("other")[0]
    leave.open()
    assert again.wait().session == session
    assert gated.text() == "mine again\n"
    assert gated.held() == {}


def test_a_retry_that_succeeds_goes_on_as_if_nothing_had_been(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(retry_seconds=4, timeout_seconds=60)
    owner = Owner(gated, openai)
    openai.scripts["other"] = [patch(change("a.txt", "mine", "mine and theirs")), "Done."]
    running = start_codex(gated.root, "[[other]]", openai, home=gated.home())
    until(lambda: gated.happened("contention_heartbeat"), "the other was refused")
    owner.finish()
    assert running.wait().code == 0
    assert not is_refusal(openai.results("other")[0])
    assert gated.text() == "mine and theirs\n"
    assert gated.blockers() == []


def test_a_retry_that_fails_refuses_every_edit_until_holdfast_resume(
    gated: Gated, openai: OpenAIServer
) -> None:
    gated.init(**HELD)
    owner = Owner(gated, openai)
    resumed = Gateway()
    openai.scripts["other"] = [
        patch(change("a.txt", "mine", "theirs")),
        patch(change("b.txt", "old", "theirs")),
        shell("echo theirs > c.txt"),
        resumed.then(patch(change("a.txt", "mine", "theirs"))),
        "Done.",
    ]
    running = start_codex(gated.root, "[[other]]", openai, home=gated.home())
    openai.wait_for("other", 3)
    me = name("codex", running.said().session)
    (report,) = gated.blockers()
    assert report["state"] == "waiting_for_instruction"
    assert (report["agent"], report["owner"], report["blocked_file"]) == (me, owner.name, "a.txt")
    assert report["retry_interval_seconds"] == 1
    assert me in gated.by_a_person("blockers").out
    for said in openai.results("other"):
        assert BLOCKED in said
        assert f"owner           {owner.name}" in said
    assert gated.text() == "mine\n"
    assert gated.text("b.txt") == "old\n"
    assert not (gated.root / "c.txt").exists()
    owner.finish()
    answer = gated.by_a_person("resume")
    assert f"{me} may go on" in answer.out, answer
    assert gated.blockers() == []
    resumed.open()
    assert running.wait().code == 0
    assert gated.text() == "theirs\n"


def test_a_blocked_agent_goes_on_after_a_new_prompt(gated: Gated, openai: OpenAIServer) -> None:
    gated.init(**HELD)
    owner = Owner(gated, openai)
    home = gated.home()
    hang = Gateway()
    openai.scripts["other"] = [patch(change("a.txt", "mine", "theirs")), hang.then("Done.")]
    running = start_codex(gated.root, "[[other]]", openai, home=home)
    openai.wait_for("other", 1)
    session = running.said().session
    running.kill()  # so that its session does not end, and it is still blocked
    assert [report["agent"] for report in gated.blockers()] == [name("codex", session)]
    owner.finish()
    openai.scripts["on"] = [patch(change("a.txt", "mine", "theirs")), "Done."]
    run_codex(gated.root, "[[on]]", openai, home=home, resume=session)
    assert gated.text() == "theirs\n"
    assert gated.blockers() == []
    hang.open()


def test_codex_is_refused_what_claude_has_and_the_other_way_round(
    gated: Gated, openai: OpenAIServer, anthropic: AnthropicServer
) -> None:
    gated.init(**AT_ONCE)
    owner = Owner(gated, openai)
    leave = Gateway()
    anthropic.scripts["claude"] = [
        edit(gated.root / "b.txt", "old", "claude's"),
        edit(gated.root / "a.txt", "mine", "claude's"),
        leave.then("Done."),
    ]
    claude = start_claude(gated.root, "[[claude]]", anthropic, home=gated.home())
    anthropic.wait_for("claude", 2)
    its_name = name("claude", claude.said().session)
    assert f"a.txt is being written by {owner.name}" in anthropic.results("claude")[1]
    openai.scripts["other"] = [patch(change("b.txt", "claude's", "codex's")), "Done."]
    run_codex(gated.root, "[[other]]", openai, home=gated.home())
    assert f"b.txt is being written by {its_name}" in openai.results("other")[0]
    assert (gated.text("a.txt"), gated.text("b.txt")) == ("mine\n", "claude's\n")
    leave.open()
    assert claude.wait().code == 0
    owner.finish()
    # and now both are free for either
    anthropic.scripts["after"] = [edit(gated.root / "a.txt", "mine", "both"), "Done."]
    run_claude(gated.root, "[[after]]", anthropic, home=gated.home())
    openai.scripts["after"] = [patch(change("b.txt", "claude's", "both")), "Done."]
    run_codex(gated.root, "[[after]]", openai, home=gated.home())
    assert (gated.text("a.txt"), gated.text("b.txt")) == ("both\n", "both\n")


def test_one_claude_and_one_codex_at_once_on_one_file_make_exactly_one_edit_each_round(
    gated: Gated, openai: OpenAIServer, anthropic: AnthropicServer
) -> None:
    gated.init(**HELD)
    lines: list[str] = []
    path = gated.root / "a.txt"
    path.write_text("end\n")
    for number in range(ROUNDS):
        over = Gateway()
        script = f"round-{number}"
        one, two = f"{number} by claude", f"{number} by codex"
        anthropic.scripts[script] = [
            edit(path, "end\n", f"{one}\nend\n"),
            over.unless_refused(anthropic),
        ]
        openai.scripts[script] = [
            patch(f"*** Update File: a.txt\n@@\n+{two}\n end"),
            over.unless_refused(openai),
        ]
        homes = gated.root.parent / "claude", gated.root.parent / "codex"
        runs = {
            one: start_claude(gated.root, f"[[{script}]]", anthropic, home=homes[0]),
            two: start_codex(gated.root, f"[[{script}]]", openai, home=homes[1]),
        }
        loser = first_to_end(*runs.values())
        (winner,) = (line for line, run in runs.items() if run is not loser)
        lines.append(winner)
        assert gated.text().splitlines() == [*lines, "end"]
        over.open()
        assert all(run.wait().code == 0 for run in runs.values())
        assert gated.held() == {}
    assert gated.text().splitlines() == [*lines, "end"]
