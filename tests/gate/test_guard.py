"""The shell guard before a command: its plain writes, and the lines that always pass.

Real git repositories, real commands, two or three agents.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import Shop, Worker, made_repository, settled, sh, sneaky, text
from helpers_hook import Scene, refusal
from holdfast.gate import guard
from holdfast.gate.config.settings import Settings
from holdfast.gate.door import client_events


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    root = made_repository(tmp_path / "work")
    made = Shop(root)
    settled(root / "app/x.py", root / "lib/y.py")
    yield made
    made.close()


# Plain writes


@pytest.mark.parametrize(
    "command",
    [
        "echo new > app/x.py",
        "echo new >> app/x.py",
        "sed -i s/x/y/ app/x.py",
        "echo new | tee app/x.py",
        "cp README.md app/x.py",
        "mv app/x.py app/new.py",
        "rm app/x.py",
        "touch app/x.py",
        "git checkout -- app/x.py",
        "git restore app/x.py",
        "git rm -f app/x.py",
        "cd app && echo new > x.py",
        "rm -rf app",
        "mv app elsewhere",
        "true && (cd app; : > x.py)",
        "printf '%s\\n' '--- app/x.py' '+++ app/x.py' '@@ -1 +1 @@' -app/x.py +new | patch -p0",
    ],
)
def test_a_command_cannot_write_a_file_of_another_holder(shop: Shop, command: str) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    said = bob.ask(command)
    assert said.kind == "deny"
    assert "app/x.py" in said.reason
    assert "claude:ann" in said.reason


@pytest.mark.parametrize(
    ("command", "held"),
    [
        ("echo new > app/x.py", ["app/x.py"]),
        ("sed -i s/x/y/ app/x.py lib/y.py", ["app/x.py", "lib/y.py"]),
        ("echo new > made/here.py", ["made/here.py"]),
        ("cd nowhere && echo new > x.py", []),
        ("cd nowhere; echo new > app/x.py", ["app/x.py"]),
        ("mv app/x.py app/new.py", ["app/new.py", "app/x.py"]),
        ("echo a > /tmp/holdfast-elsewhere; echo b > ../outside", []),
        ("ls -la; cat app/x.py; git status; git diff", []),
        ("rm -f .git/index.lock", []),
        ("echo line >> out.log; mkdir -p build; echo x > build/out.js", []),
        ("rm -rf build", []),
    ],
)
def test_what_a_command_plainly_writes_is_leased(shop: Shop, command: str, held: list[str]) -> None:
    ann = shop.worker("ann")
    assert ann.ask(command).kind in ("allow", "quiet")
    assert ann.held() == held


def test_an_ignored_file_of_another_holder_is_refused_too(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("notes.log", "ann\n")
    assert bob.ask("echo bob > notes.log").kind == "deny"
    assert bob.ask("echo bob > other.log").kind != "deny"


def test_paths_are_read_from_the_folder_of_the_command(shop: Shop) -> None:
    ann = shop.worker("ann")
    ann.ask("echo x > x.py; echo y > ../lib/y.py", "app")
    assert ann.held() == ["app/x.py", "lib/y.py"]


def test_plain_writes_are_those_of_this_ledger(shop: Shop) -> None:
    ann = shop.worker("ann")
    intent = ann.intent("shell", "echo a > app/x.py; echo b > /tmp/no; rm -f .git/index.lock")
    assert guard.plain_writes(intent, shop.manager) == [f"{shop.root}/app/x.py"]
    ours = ann.intent("shell", "touch .holdfast/off")
    assert guard.plain_writes(ours, shop.manager) == [f"{shop.root}/.holdfast/off"]
    assert guard.plain_writes(ann.intent("shell", "holdfast status"), shop.manager) == []


def test_a_refused_command_contends_like_an_edit(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.ask("echo bob > app/x.py")
    assert [event.data["agent"] for event in shop.events("contention_heartbeat")] == ["claude:bob"]
    shop.clock.advance(180)
    assert bob.ask("echo bob > app/x.py").kind == "halt"
    assert bob.ask("echo bob > app/x.py").kind == "halt"


def test_removing_a_missing_file_takes_no_lease(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    assert ann.run("rm -rf out; rm -f old.txt").kind == "quiet"
    assert ann.held() == []
    assert bob.run("mkdir out && echo x > out/x.py").kind == "quiet"
    assert ann.run("rm -rf gen && mkdir gen && echo x > gen/a.py").kind == "quiet"
    assert ann.held() == ["gen/a.py"]
    assert bob.run("echo y > gen/b.py").kind == "quiet"


def test_a_file_that_another_is_about_to_make_is_not_removed(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.edit("app/new.py", write=None)
    assert bob.ask("rm -f app/new.py").kind == "deny"


def test_a_temporary_file_is_free_when_the_command_has_ended(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    for worker, file in ((ann, "app/x.py"), (bob, "lib/y.py"), (ann, "app/x.py")):
        command = f"tr a-z A-Z < {file} > tmp.txt && mv tmp.txt {file}"
        assert worker.ask(command).kind == "allow"
        assert worker.held() == [file, "tmp.txt"]  # as long as it runs
        sh(shop.root, command)
        worker.ended(command)
        assert worker.held() == [file]
    command = "sort nope.txt > tmp.txt && mv tmp.txt README.md"
    ann.run(command, code=2)
    assert "tmp.txt" in ann.held()  # because it still exists


def test_a_lease_on_a_file_that_was_never_made_ends_with_the_stop(shop: Shop) -> None:
    ann = shop.worker("ann")
    ann.run("false && echo x > app/never.py; cp nope app/nor.py; true")
    assert ann.held() == ["app/never.py", "app/nor.py"]
    ann.gate().stop()
    assert ann.held() == []


def test_names_that_cannot_be_leased_pass(shop: Shop) -> None:
    ann = shop.worker("ann")
    assert ann.ask("rm -f $'a\\tb'; echo x > ./" + "n" * 300).kind in ("allow", "quiet")


# An agent that was stopped


@pytest.mark.parametrize(
    "command",
    [
        "git stash",  # a verb for the whole tree
        "echo x > app/z.py",  # a file that is free
        "echo x > /tmp/holdfast-elsewhere",  # a file that needs no lease
        "sed -i s/x/y/ lib/y.py",
        "rm -f none.py",
        "rm -rf gen",
        "make test",  # a program
        "npm run format | tail",
        "git commit -am wip",
        "ls; $(cat line)",
    ],
)
def test_a_blocked_agent_writes_nothing_by_any_command(shop: Shop, command: str) -> None:
    bob = blocked(shop)
    said = bob.ask(command)
    assert said.kind == "halt"
    assert said.report == shop.events("agent_blocked")[0].data["report"]
    assert "app/x.py" in said.reason
    assert bob.held() == []
    assert bob.ask("ls").kind == "quiet"  # reading is not writing


@pytest.mark.parametrize(
    "command",
    ["ls -la > /dev/null 2>&1", "cat app/x.py | head", "git status; git diff", "grep -rn x app",
     "cd app && cat x.py", "holdfast blockers", "holdfast status 2>&1 | tail -3"],
)  # fmt: skip
def test_a_blocked_agent_may_read_and_call_holdfast(shop: Shop, command: str) -> None:
    assert blocked(shop).ask(command).kind == "quiet"


def test_once_told_to_go_on_its_commands_run_again(shop: Shop) -> None:
    bob = blocked(shop)
    bob.gate().prompt()
    assert bob.ask("make test").kind == "quiet"


def blocked(shop: Shop) -> Worker:
    """An agent whose retry failed, and that waits for instructions."""
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    assert bob.ask("echo > app/x.py").kind == "deny"
    shop.clock.advance(180)
    assert bob.ask("echo > app/x.py").kind == "halt"
    return bob


# Lines that always pass, and files that switch the gate off


@pytest.mark.parametrize(
    ("command", "own"),
    [
        ("holdfast status | sort -o app/x.py", False),  # less can write what it shows
        ("holdfast log | less -o app/x.py", False),
        ("holdfast status", True),
        ("holdfast undo abc && holdfast status 2>&1 | head -5", True),
        ("cd app; /opt/venv/bin/holdfast why x.py", True),
        ("python3 -m holdfast status", True),
        ("holdfast write 'a b' --grant 1", True),
        ("holdfast status > app/x.py", False),
        ("holdfast status; rm app/x.py", False),
        ("holdfast $(rm app/x.py)", False),
        ("holdfast status | tee app/x.py", False),
        ("HOME=/x holdfast status", False),
        ("echo holdfast", False),
        ("holdfast 'unclosed", False),
        ("ls", False),
    ],
)
def test_calls_of_holdfast_itself_always_pass(command: str, own: bool) -> None:
    assert guard.is_own(command) is own


def test_a_refused_agent_can_call_holdfast(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    assert bob.ask("echo > app/x.py").kind == "deny"
    assert bob.ask("holdfast blockers").kind == "quiet"


@pytest.mark.parametrize(
    "command",
    ["git clean -fdx", "git clean -fdXq", "cd app && git clean -dfx ..", "git stash --all",
     "rm -rf ../work", "touch .holdfast/off", "rm -rf .holdfast",
     "rm .holdfast/ledger.db", "cd .holdfast && : > off",
     "mv .holdfast elsewhere", "ln -sf x .holdfast/off"],
)  # fmt: skip
def test_an_agent_may_not_write_holdfasts_own_files(shop: Shop, command: str) -> None:
    said = shop.worker("ann").ask(command)
    assert said.kind == "deny"
    assert "a person can" in said.reason
    assert shop.events("command_refused")


OUR_GROUP = {
    "matcher": "Write|Bash",
    "hooks": [{"type": "command", "command": "/x/python -I -S /y/holdfast/gate/hook.py claude"}],
}


@pytest.mark.parametrize(
    ("file", "command"),
    [
        (".claude/settings.local.json", "echo '{}' > .claude/settings.local.json"),
        (".claude/settings.json", "rm .claude/settings.json"),
        (".codex/hooks.json", "sed -i /hook/d .codex/hooks.json"),
        (".claude/settings.json", "rm -rf .claude"),
    ],
)
def test_settings_with_our_hooks_are_kept_from_agents(shop: Shop, file: str, command: str) -> None:
    ann = shop.worker("ann")
    settings = shop.root / file
    settings.parent.mkdir()
    settings.write_text('{"permissions": {}}')
    assert ann.ask(command).kind != "deny"  # without our hook it is an ordinary file
    settings.write_text(json.dumps({"hooks": {"PreToolUse": [OUR_GROUP]}}))
    assert ann.ask(command).kind == "deny"


def test_a_command_that_only_reads_leaves_nothing_behind(shop: Shop) -> None:
    ann = shop.worker("ann")
    ann.run("ls; cat app/x.py; git status; git log --oneline | head -3")
    assert not (shop.root / ".holdfast/aside").exists()


# The settings, and the timer


def test_off_does_nothing(shop: Shop) -> None:
    shop.settings = Settings(shell="off")
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    assert bob.ask("echo > app/x.py").kind == "quiet"
    assert bob.ask("git stash").kind == "quiet"


@pytest.mark.parametrize("mode", ["guard", "off"])
@pytest.mark.parametrize("event", ["before", "after", "own"])
def test_any_command_stops_the_timer_of_a_stop(shop: Shop, mode: str, event: str) -> None:
    shop.settings = Settings(shell=mode)
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    ann.gate().stop()
    shop.clock.advance(29)
    {"before": lambda: ann.ask("ls"), "after": lambda: ann.ended("ls"),
     "own": lambda: ann.ask("holdfast status")}[event]()  # fmt: skip
    shop.clock.advance(60)
    assert bob.write("app/x.py", "bob\n").kind == "deny"


# Through the door, as the clients' hooks come in


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_through_the_hooks_a_shell_write_is_refused_and_damage_told_to_both(
    shop: Shop, client: str
) -> None:
    def hook(session: str, event: str, tool: str, **fields: str) -> dict[str, Any]:
        said = {"session_id": session, "cwd": str(shop.root), "hook_event_name": event,
                "tool_name": tool, "tool_input": fields, "tool_use_id": "1"}  # fmt: skip
        env = {"CLAUDE_PID": str(os.getpid())}
        reply = client_events.answer(client, json.dumps(said).encode(), env)
        assert reply.code == 0
        found = json.loads(reply.stdout)["hookSpecificOutput"] if reply.stdout else {}
        assert isinstance(found, dict)
        return found

    patch = "*** Begin Patch\n*** Update File: app/x.py\n@@\n-a\n+b\n*** End Patch\n"
    edit = ("apply_patch", {"command": patch}) if client == "codex" else (
        "Edit", {"file_path": f"{shop.root}/app/x.py", "old_string": "a", "new_string": "b"}
    )  # fmt: skip
    assert hook("ann", "PreToolUse", edit[0], **edit[1]) == {}
    (shop.root / "app/x.py").write_text("ann\n")
    hook("ann", "PostToolUse", edit[0], **edit[1])

    refused = hook("bob", "PreToolUse", "Bash", command="sed -i s/a/b/ app/x.py")
    assert refused["permissionDecision"] == "deny"
    assert "app/x.py" in refused["permissionDecisionReason"]
    refused = hook("bob", "PreToolUse", "Bash", command="git stash")
    assert "app/x.py" in refused["permissionDecisionReason"]

    command = sneaky("app/x.py")
    assert hook("bob", "PreToolUse", "Bash", command=command) == {}
    sh(shop.root, command)
    told = hook("bob", "PostToolUse", "Bash", command=command)["additionalContext"]
    (event,) = shop.events("damage")
    assert f"holdfast undo {event.data['id']}" in told
    told = hook("ann", "PreToolUse", "Bash", command="ls")["additionalContext"]
    assert f"holdfast undo {event.data['id']}" in told
    guard.undo(shop.manager, event.data["id"])
    assert text(shop, "app/x.py") == "ann\n"


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_seed002_13_through_the_hooks_a_blocked_agent_runs_only_what_reads(
    repository: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    scene = Scene(repository, monkeypatch)
    ann, bob = scene.at_the_door("ann-session"), scene.at_the_door("bob-session", client)

    def hook(command: str) -> dict[str, Any]:
        return bob.tell("PreToolUse-Bash", tool_input={"command": command})

    try:
        assert ann.edit("app/x.rb") == ""
        assert refusal(hook("echo bob > app/x.rb"))
        scene.clock.advance(180)
        outside = f"echo x > {repository.parent}/outside"
        for command in ("echo bob > app/x.rb", "echo free > lib/y.rb", outside, "make test"):
            said = hook(command)
            assert "state=waiting_for_instruction" in refusal(said)
            assert (said.get("continue") is False) is (client == "claude")
        for command in ("cat lib/y.rb", "holdfast blockers"):
            assert hook(command) == {}
        bob.tell("UserPromptSubmit")
        assert hook("make test") == {}
        assert "lib/y.rb" not in scene.owners()
    finally:
        scene.close()


# An ordinary hour: no refusals, and no damage is reported


ORDINARY = [
    "ls -la && git status && git diff",
    "python3 -m py_compile app/x.py || true",
    "mkdir -p .pytest_cache/v && date > .pytest_cache/v/last; echo ok > test.log",
    "f=$(echo node_modules); mkdir -p $f/a && for i in 1 2 3 4 5; do echo $i > $f/a/$i.js; done",
    "git stash && git stash pop",
    "git fetch --all; git pull || true",
    "git checkout -b topic-$RANDOM && git checkout main",
    "git log --oneline | head -3 > /tmp/holdfast-guard-log",
    "rm -rf build && mkdir build && echo out > build/out.js",
    "git clean -fdX -e '!/.holdfast' -e '!/.holdfast/**'",
    "git clean -fdx -e /.holdfast app/none",
    "rm -f .git/index.lock",
    "git merge --no-edit main",
    "git rebase main || true",
]


def test_nobody_is_refused_in_an_ordinary_hour(shop: Shop) -> None:
    ann, bob, cid = shop.worker("ann"), shop.worker("bob"), shop.worker("cid")
    cid.edit("README.md", write=None)
    mine = {"ann": "app/x.py", "bob": "lib/y.py"}
    for number, command in enumerate(ORDINARY):
        worker = (ann, bob)[number % 2]
        other = (bob, ann)[number % 2]
        said = worker.write(mine[worker.session], f"{number}\n")
        assert said.kind == "allow", (number, said.reason)
        said = worker.run(command, code=None)
        assert (said.kind, said.context) == ("quiet", ""), (command, said.reason)
        said = other.run("ls; mkdir -p .pytest_cache && date > .pytest_cache/x; make || true")
        assert said.kind in ("allow", "quiet")
        worker.commit(mine[worker.session])
    assert shop.events("damage", "command_refused", "contention_heartbeat") == []
    assert ann.pending() == bob.pending() == cid.pending() == ""


def test_a_formatter_on_ones_own_files_passes(shop: Shop) -> None:
    ann, bob = shop.worker("ann"), shop.worker("bob")
    ann.write("app/x.py", "ann\n")
    bob.write("lib/y.py", "bob\n")
    said = bob.run("sed -i 's/bob/BOB/' lib/*.py && perl -pi -e 's/B/b/' $(git ls-files lib)")
    assert (said.kind, said.context) in (("quiet", ""), ("allow", ""))
    assert bob.held() == ["lib/y.py"]


# Speed


def test_alone_a_command_that_reads_costs_next_to_nothing(shop: Shop) -> None:
    ann = shop.worker("ann")
    ann.ask("ls")
    best = min(_took(lambda: ann.ask("ls -la")) for _ in range(20))
    read = min(_took(lambda: shop.manager.active_grants()) for _ in range(20))
    assert best - read < 0.002 * SLACK


def _took(action: object) -> float:
    begun = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - begun


#: Other processes may be using the machine.
SLACK = 3
