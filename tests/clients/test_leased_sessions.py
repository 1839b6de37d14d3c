"""Leases in a session of a real Claude Code, and the commands that run unchanged: commands in the
background, of sub-agents and of killed sessions; lines that a person types; hooks and MCP servers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from helpers_processes import LINUX_ONLY, until
from helpers_sandbox import NEEDS_LANDLOCK

from .crew import REFUSED, Claudes, Codexes, Gateway, is_refusal
from .drive import MARK, hooks_for, marked, write_json
from .gated import AT_ONCE, Gated
from .leased import lease, wait_for
from .mcp import NOTES, started_with, tool
from .servers import Call, bash
from .windows import ENTER, open_claude

pytestmark = [LINUX_ONLY, *([NEEDS_LANDLOCK] if sys.platform == "linux" else [])]


def writer(path: str, text: str = "program\\n") -> str:
    """A program whose command line does not show what it writes."""
    return f'python3 -c \'open("{path[0]}" "{path[1:]}", "w").write("{text}")\''


def beside(gated: Gated, name: str) -> Path:
    """A file outside the repository."""
    return gated.root.parent / name


# Commands


def test_a_command_in_the_background_is_leased(gated: Gated, claudes: Claudes) -> None:
    gated.init(**AT_ONCE)
    go = beside(gated, "go")
    line = f"exec 5>>b.txt; touch {beside(gated, 'ready')}; {wait_for(go)}"
    owner = claudes.owner(bash(line, background=True))
    until(beside(gated, "ready").exists, "it has come so far")
    assert gated.held() == {"b.txt": owner.name}
    other = claudes.run("other", claudes.edit("b.txt", "old", "theirs"), bash(writer("b.txt")))
    for said in other.results:
        assert f"{REFUSED}b.txt has been locked for writing by {owner.name}" in said
    go.touch()
    owner.ends()
    assert gated.held() == {}


def test_the_commands_of_two_sub_agents_are_each_its_own(gated: Gated, claudes: Claudes) -> None:
    gated.init(**AT_ONCE)
    leave = Gateway()
    for script in ("one", "two"):
        (gated.root / f"{script}-edited.txt").write_text("old\n")
        claudes.server.scripts[script] = [
            claudes.edit(f"{script}-edited.txt", "old", "mine"),
            bash(writer(f"{script}.txt")),
            bash(writer("both.txt", f"{script}\\n")),
            leave.then(),
        ]
    main = claudes.start("main", *claudes.delegate("one", "two"))
    for script in ("one", "two"):
        claudes.server.wait_for(script, 3)
    held = gated.held()
    names = gated.names(main.session)
    owners = {script: held[f"{script}-edited.txt"] for script in ("one", "two")}
    assert {*owners.values()} == {*names.values()} - {names[""]}
    assert len({*owners.values()}) == 2
    assert {script: held[f"{script}.txt"] for script in owners} == owners
    # One of them was first, and the other got the refusal.
    first = gated.text("both.txt").strip()
    assert held["both.txt"] == owners[first]
    for script in owners:
        said = claudes.server.results(script)[2]
        assert is_refusal(said) is (script != first), said
    leave.open()
    main.ends()
    assert gated.held() == {}


def test_the_command_of_a_killed_session_goes_on_and_keeps_its_files(
    gated: Gated, claudes: Claudes
) -> None:
    gated.init(**AT_ONCE)
    ready, go, done = (beside(gated, name) for name in ("ready", "go", "done"))
    line = f"echo 1 >b.txt; touch {ready}; {wait_for(go)}; {writer('b.txt', '2')}; touch {done}"
    owner = claudes.start("owner", bash(line))
    until(ready.exists, "it has come so far")
    name = owner.name
    owner.running.kill()
    assert gated.held() == {"b.txt": name}
    other = claudes.run("other", claudes.edit("b.txt", "1", "theirs"), bash(writer("b.txt")))
    for said in other.results:
        assert f"{REFUSED}b.txt has been locked for writing by {name}" in said
    assert not done.exists()
    go.touch()
    until(done.exists, "the command has ended")
    assert gated.text("b.txt") == "2"
    until(lambda: gated.held() == {}, "its files are free")
    until(lambda: not below(owner.running.home), "no broker is left")


def test_nothing_is_left_of_a_command_that_takes_too_long(gated: Gated, claudes: Claudes) -> None:
    gated.init(**AT_ONCE)
    ready, leave = beside(gated, "ready"), Gateway()
    line = f"echo x >b.txt; touch {ready}; sleep 600 & (sleep 600; true)"
    call = Call("Bash", {"command": line, "description": "Take too long", "timeout": 3000})
    env = {"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1"}
    owner = claudes.start("owner", call, leave.then(), env=env)
    until(ready.exists, "it has come so far")
    assert any("prefixed.py" in line for line in below(owner.running.home).values())
    owner.has_done(1)
    until(lambda: below(owner.running.home).keys() == {owner.running.pid}, "its tree is gone")
    assert "timed out" in owner.results[0]
    assert gated.held() == {"b.txt": owner.name}, "the agent still holds the file that it wrote"
    leave.open()
    owner.ends()
    assert gated.held() == {}


def below(home: Path) -> dict[int, str]:
    """The processes of a client with this home, with their command lines."""
    found = {}
    for pid in marked(f"{MARK}={home}".encode()):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words != [b""]:  # ended, but not reaped by its parent
            found[pid] = os.fsdecode(b" ".join(words))
    return found


# Commands that are not an agent's


def test_a_line_that_a_person_types_may_write_what_an_agent_holds(
    gated: Gated, claudes: Claudes
) -> None:
    gated.init(**AT_ONCE)
    owner = claudes.owner()
    with open_claude(gated.root, claudes.server, beside(gated, "window")) as window:
        window.press("!")
        window.enter("echo by-hand >a.txt; echo by-hand >free.txt; touch ../typed")
        until(beside(gated, "typed").exists, "it has come so far")
        assert gated.text() == "by-hand\n"
        assert gated.text("free.txt") == "by-hand\n"
        assert gated.held() == {"a.txt": owner.name}, "a person takes no lease"
        window.press(ENTER)
    owner.ends()


def test_a_hook_of_another_runs_unchanged(gated: Gated, claudes: Claudes) -> None:
    said = beside(gated, "said")
    line = (
        f"grep NoNewPrivs /proc/self/status >{said}.new; env >>{said}.new; "
        f"readlink /proc/$$/exe >>{said}.new; echo by-hook >b.txt; mv {said}.new {said}"
    )
    write_json(gated.root / ".claude/settings.json", hooks_for(line, ["UserPromptSubmit"]))
    gated.init(**AT_ONCE)
    assert gated.hold("lock", "b.txt", "--holder", "bob").code == 0
    claudes.run("main", bash("true"))
    text = said.read_text()
    assert text.startswith("NoNewPrivs:\t0\n"), "it does not run below a broker"
    assert "HOLDFAST_SOCKET" not in text
    assert f"\n{os.path.realpath('/bin/sh')}\n" in text
    assert gated.text("b.txt") == "by-hook\n"
    assert gated.held() == {"b.txt": "bob"}


def test_an_mcp_server_is_leased_as_the_session_s(gated: Gated, claudes: Claudes) -> None:
    gated.write("c.txt", "old\n")
    gated.init(**AT_ONCE)
    owner = claudes.owner()
    tidy = tool(claudes, "tidy", server=NOTES, style="short")
    refused = claudes.run("refused", tidy, **started_with(claudes, [NOTES], "a.txt"))
    assert "Permission denied" in refused.results[0]
    assert gated.text() == "mine\n"
    other = claudes.owner(tidy, script="other", **started_with(claudes, [NOTES], "b.txt"))
    assert gated.text("b.txt") == "by tidy\n"
    assert gated.held() == {"a.txt": owner.name, "b.txt": other.name}
    own = claudes.run(
        "own", claudes.edit("c.txt", "old", "mine"), tidy,
        **started_with(claudes, [NOTES], "c.txt"),
    )  # fmt: skip
    assert "wrote" in own.results[1]
    assert gated.text("c.txt") == "by tidy\n", "it may write a file that one of its agents holds"
    other.ends()
    owner.ends()


# A whole client


def test_below_a_broker_of_its_own_the_prefix_adds_none(gated: Gated, claudes: Claudes) -> None:
    gated.init(**AT_ONCE)
    owner = claudes.owner()
    other = claudes.owner(
        bash(writer("b.txt")),
        bash(writer("a.txt")),
        bash("grep Seccomp_filters /proc/self/status"),
        script="other",
        before=lease("whole"),
    )
    _written, refused, status = other.results
    assert gated.text("b.txt") == "program\n"
    assert "Permission denied" in refused
    assert gated.text() == "mine\n"
    assert "Seccomp_filters:\t1" in status, "only one broker is above it"
    assert gated.held()["b.txt"] == "whole"
    assert reason(gated, "b.txt").endswith(f" for @claude/{other.session}/")
    other.ends()
    owner.ends()


def test_a_whole_codex_s_leases_name_its_agent(gated: Gated, codexes: Codexes) -> None:
    gated.init(**AT_ONCE)
    open_to_us = ["--dangerously-bypass-approvals-and-sandbox"]
    other = codexes.owner(codexes.shell(writer("b.txt")), before=lease("whole"), options=open_to_us)
    assert gated.text("b.txt") == "program\n"
    assert reason(gated, "b.txt").endswith(f" for @codex/{other.session}/")
    other.ends()


def reason(gated: Gated, path: str) -> str:
    """The reason with which a file is held."""
    (found,) = [str(one["reason"]) for one in gated.grants() if one["write_paths"] == [path]]
    return found
