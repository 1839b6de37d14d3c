"""Agents working in several repositories: each file is leased in its own one, all or nothing.

Through the door, as the clients' hooks come in, in real git repositories.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_guard import Session, called, context, gated, owners, refusal, sh, sneaky
from holdfast import LockManager
from holdfast.core.model import agent_key
from holdfast.gate.guard import kept_files, other_ledgers
from holdfast.manager import transactions


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return gated(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return gated(tmp_path / "there")


@pytest.fixture
def ann(here: Path) -> Session:
    return Session("ann", here)


@pytest.fixture
def bob(there: Path) -> Session:
    return Session("bob", there)


ACROSS = [
    "sed -i s/x/y/ ../there/app/x.py",
    "cd ../there && echo new > app/x.py",
    "cp README.md ../there/app/x.py",
    "echo new | tee ../there/app/x.py",
    "(cd ../there/app; rm x.py)",
    "rm -rf ../there/app",
    "git -C ../there checkout -- app/x.py",
    "git -C ../there reset --hard",
    "git --work-tree=../there --git-dir=../there/.git stash",
    "cd ../there && git stash -u",
]


@pytest.mark.parametrize("command", ACROSS)
@pytest.mark.parametrize("client", ["claude", "codex"])
def test_a_file_held_in_another_repository_is_not_written_from_here(
    here: Path, there: Path, bob: Session, command: str, client: str
) -> None:
    assert bob.write(there / "app/x.py", "bob\n") == ""
    reason = Session("ann", here, client).ask(command)
    assert "app/x.py" in reason
    assert called(there, "bob") in reason
    assert (there / "app/x.py").read_text() == "bob\n"


def test_from_outside_of_any_repository_too(
    there: Path, ann: Session, bob: Session, tmp_path: Path
) -> None:
    bob.write(there / "app/x.py", "bob\n")
    assert called(there, "bob") in ann.ask(f"echo ann > {there}/app/x.py", tmp_path)
    nowhere = Session("cid", tmp_path)
    assert called(there, "bob") in nowhere.ask(f"echo cid > {there}/app/x.py")
    assert nowhere.run(f"echo cid > {there}/app/z.py; true") == ""
    assert owners(there) == {"app/x.py": "claude:bob", "app/z.py": "claude:cid"}
    assert kept_files.all_running(str(there)) == []


def test_a_free_file_is_leased_in_its_own_repository(here: Path, there: Path, ann: Session) -> None:
    assert ann.run("echo a > app/x.py; echo b > ../there/lib/y.py; cd ../there; touch new") == ""
    assert owners(here) == {"app/x.py": "claude:ann"}
    assert owners(there) == {"lib/y.py": "claude:ann", "new": "claude:ann"}


@pytest.mark.parametrize("how", ["command", "patch"])
def test_all_or_nothing_over_both(here: Path, there: Path, bob: Session, how: str) -> None:
    ann = Session("ann", here, "codex")
    ann.write(here / "app/x.py", "ann\n")
    bob.write(there / "app/x.py", "bob\n")
    if how == "command":
        said = ann.ask("echo > app/x.py; echo > lib/y.py; make; echo > ../there/app/x.py")
    else:
        paths = ("app/x.py", "lib/y.py", f"{there}/app/x.py")
        changes = "".join(f"*** Update File: {path}\n@@\n-a\n+b\n" for path in paths)
        patch = f"*** Begin Patch\n{changes}*** End Patch\n"
        said = refusal(ann.tool("PreToolUse", "apply_patch", {"command": patch}))
    assert called(there, "bob") in said
    assert owners(here) == {"app/x.py": "codex:ann"}  # its earlier lease; lib/y.py is free
    assert kept_files.all_running(str(here)) == []
    assert list((here / ".holdfast/busy").iterdir()) == []


def test_if_one_ledger_refuses_nothing_is_taken_in_the_other(
    here: Path, there: Path, ann: Session, tmp_path: Path
) -> None:
    zed = gated(tmp_path / "zed")  # checked after `there`
    cid = Session("cid", zed)
    cid.write(zed / "app/x.py", "cid\n")
    assert ann.ask("echo > ../there/app/x.py; echo > ../zed/app/x.py")
    assert owners(there) == {}
    assert ann.ask("echo > ../there/app/x.py") == ""


def test_a_broken_ledger_elsewhere_refuses_and_nothing_is_kept(
    here: Path, there: Path, ann: Session
) -> None:
    (there / ".holdfast/ledger.db").write_bytes(b"this is no database" * 100)
    assert "ledger.db" in ann.ask("echo > app/x.py; echo > ../there/app/x.py")
    assert owners(here) == {}
    assert ann.ask("echo > app/x.py; cat ../there/app/x.py") == ""


def test_a_program_that_is_sent_elsewhere_is_watched_there(
    there: Path, ann: Session, bob: Session
) -> None:
    bob.write(there / "app/x.py", "bob\n")
    script = ann.home / "script.py"
    script.write_text("import sys; open(sys.argv[1] + '/app/x.py', 'a').write('x')")
    for command in (
        f"cd ../there && {sneaky('app/x.py')}",
        sneaky("../there/app/x.py"),
        f"python3 script.py {there}",
        "python3 script.py ../there",
    ):
        told = ann.run(command)
        assert f"app/x.py ({called(there, 'bob')})" in told, command
        assert "holdfast undo" in context(
            bob.tool("PreToolUse", "Bash", {"command": "ls"})
        )  # also reported to the owner


def test_a_file_that_a_program_changed_elsewhere_is_reported_and_free(
    there: Path, ann: Session
) -> None:
    told = ann.run(f"cd ../there && {sneaky('app/x.py')}")
    assert "1 unleased file changed: app/x.py." in told
    assert owners(there) == {}


def test_undo_names_the_repository(there: Path, ann: Session, bob: Session) -> None:
    bob.write(there / "app/x.py", "bob\n")
    told = ann.run(f"cd ../there && {sneaky('app/x.py')}")
    command = told.partition("with: holdfast ")[2].partition("\n")[0]
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *command.split()], cwd=ann.home,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (told, done.stderr)
    assert (there / "app/x.py").read_text() == "bob\n"


# The life of leases in other repositories


def held_until(root: Path) -> list[bool]:
    with LockManager.open(root) as manager:
        return [one.expires_at is not None for one in manager.active_grants()]


@pytest.mark.parametrize("how", ["edit", "command"])
@pytest.mark.parametrize("client", ["claude", "codex"])
def test_the_end_of_a_session_ends_what_it_holds_elsewhere(
    here: Path, there: Path, how: str, client: str
) -> None:
    ann = Session("ann", here, client)
    if how == "edit":
        ann.write(there / "app/x.py")
    else:
        ann.run("echo new > ../there/app/x.py")
    assert owners(there)
    ann.tell("SessionEnd", reason="other")
    assert owners(there) == {}
    assert not (here / other_ledgers.FOLDER).exists()


def test_a_stop_frees_elsewhere_what_was_never_changed(there: Path, ann: Session) -> None:
    ann.tool("PreToolUse", "Write", {"file_path": str(there / "app/x.py"), "content": "x"})
    ann.tell("Stop")
    assert owners(there) == {}


def test_a_stop_starts_the_timer_elsewhere_and_a_prompt_ends_it(there: Path, ann: Session) -> None:
    ann.write(there / "app/x.py")
    with LockManager.open(there) as manager:
        ann.tell("Stop")
        kinds = [event.type for event in manager.events()]
        assert kinds[-1] == "agent_resting"
        ann.tell("UserPromptSubmit", prompt="go on")
        kinds = [event.type for event in manager.events()]
        assert kinds[-1] == "agent_awake"


def retry_is_due(root: Path, session: Session) -> None:
    """Let an agent's one retry come due."""
    with LockManager.open(root) as manager:
        key = agent_key(session.client, session.name)
        (event,) = transactions.notes(manager, f"gate:{key}:retry:")
        data = {**event.data, "retry_at": manager.now()}
        name = data.pop("note")
        transactions.note(manager, event.type, data, name=name)


BLOCKED = "waiting for instruction"


def blocked_in(root: Path, session: Session) -> None:
    """Let an agent's retry fail in a repository that no other agent uses any more."""
    cid = Session("cid", root)
    assert cid.write(root / "app/x.py") == ""
    assert session.write(root / "app/x.py")
    retry_is_due(root, session)
    assert BLOCKED in session.write(root / "app/x.py")
    cid.tell("SessionEnd", reason="other")


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_seed002_13_an_agent_that_is_blocked_at_home_writes_nowhere(
    here: Path, there: Path, tmp_path: Path, client: str
) -> None:
    ann = Session("ann", here, client)
    blocked_in(here, ann)
    for file in (there / "lib/y.py", tmp_path / "outside.txt"):
        assert BLOCKED in ann.write(file, "ann\n")
        assert BLOCKED in ann.ask(f"echo ann > {file}")
    assert owners(there) == {}
    ann.tell("UserPromptSubmit", prompt="go on")
    assert ann.write(there / "lib/y.py") == ""
    assert ann.write(tmp_path / "outside.txt") == ""


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_seed002_13_an_agent_that_is_blocked_elsewhere_writes_nothing_at_home(
    here: Path, there: Path, tmp_path: Path, client: str
) -> None:
    ann = Session("ann", here, client)
    assert ann.write(here / "lib/y.py") == ""
    blocked_in(there, ann)
    for file in (here / "lib/y.py", here / "lib/z.py", tmp_path / "outside.txt"):
        assert BLOCKED in ann.write(file, "ann\n")
        assert BLOCKED in ann.ask(f"echo ann > {file}")
    assert ann.ask("cat lib/y.py") == ""
    tool = "Agent" if client == "claude" else "spawn_agent"
    assert BLOCKED in refusal(ann.tool("PreToolUse", tool, {}))
    assert list(owners(here)) == ["lib/y.py"]
    # its sub-agents are agents of their own, even if they have never worked there
    fields = {"file_path": str(here / "lib/z.py"), "content": "x"}
    patch = f"*** Begin Patch\n*** Add File: {here}/lib/z.py\n+x\n*** End Patch\n"
    tools = {"claude": ("Write", fields), "codex": ("apply_patch", {"command": patch})}
    assert refusal(ann.tool("PreToolUse", *tools[client], agent_id="sub")) == ""
    ann.tell("SubagentStop", agent_id="sub")
    # others are not blocked, and a switch that is off blocks no agent
    assert Session("bob", here, client).write(here / "lib/z.py") == ""
    (there / ".holdfast/off").touch()
    assert ann.ask("echo ann > lib/y.py") == ""
    (there / ".holdfast/off").unlink()
    ann.tell("UserPromptSubmit", prompt="go on")
    assert ann.write(here / "lib/y.py") == ""


def test_a_prompt_sets_an_agent_going_that_was_blocked_elsewhere(
    there: Path, ann: Session, bob: Session
) -> None:
    bob.write(there / "app/x.py")
    ann.ask("echo > ../there/app/x.py")
    retry_is_due(there, ann)
    assert "waiting for instruction" in ann.ask("echo > ../there/app/x.py")
    assert "waiting for instruction" in ann.ask("echo > ../there/lib/y.py")
    ann.tell("UserPromptSubmit", prompt="go on")
    assert ann.ask("echo > ../there/lib/y.py") == ""


def test_a_stop_is_heard_elsewhere_also_by_one_who_is_blocked_at_home(
    here: Path, there: Path, ann: Session
) -> None:
    Session("cid", here).write(here / "app/x.py")
    ann.write(there / "lib/y.py")
    assert ann.write(here / "app/x.py")
    retry_is_due(here, ann)
    assert "waiting for instruction" in json.dumps(ann.tell("Stop"))
    with LockManager.open(there) as manager:
        assert [event.type for event in manager.events()][-1] == "agent_resting"


def test_an_agent_goes_on_for_what_came_free_in_one_of_several_ledgers(
    here: Path, there: Path, ann: Session
) -> None:
    for home in (here, there):
        cid = Session("cid", home)
        cid.write(home / "app/x.py")
        ann.write(here / "lib/y.py")
        ann.write(there / "lib/y.py")
        assert ann.write(home / "app/x.py")
        cid.tell("SessionEnd", reason="other")
        said = ann.tell("Stop")
        assert said["decision"] == "block"
        assert "app/x.py came free" in said["reason"]
        assert owners(home)["app/x.py"] == "claude:ann"


def test_an_agent_that_went_elsewhere_is_still_heard_at_home(
    here: Path, there: Path, ann: Session
) -> None:
    ann.write(here / "app/x.py")
    ann.tell("SessionEnd", cwd=there, reason="other")
    assert owners(here) == {}


def test_after_an_edit_elsewhere_the_owner_is_not_busy_any_more(
    there: Path, ann: Session, bob: Session
) -> None:
    ann.write(there / "app/x.py", "ann\n")
    assert list((there / ".holdfast/busy").iterdir()) == []
    assert f"app/x.py ({called(there, 'ann')})" in bob.run(sneaky("app/x.py"))


def test_an_agent_that_stays_at_home_leaves_no_file(here: Path, ann: Session) -> None:
    ann.write(here / "app/x.py")
    ann.run("echo x > lib/y.py; make || true")
    ann.tell("Stop")
    assert not (here / other_ledgers.FOLDER).exists()


def test_a_file_in_no_repository_passes(here: Path, ann: Session, tmp_path: Path) -> None:
    assert ann.run("echo x > ../outside.txt; mkdir -p ../d; cp README.md ../d/; rm -rf ../d") == ""
    assert owners(here) == {}
    sh(tmp_path, "mkdir bare && cd bare && git init -q && echo x > f && git add f")
    assert ann.run("echo x > ../bare/f; git -C ../bare reset --hard || true") == ""


def test_a_repository_that_is_switched_off_is_not_asked(
    there: Path, ann: Session, bob: Session
) -> None:
    bob.write(there / "app/x.py")
    (there / ".holdfast/off").touch()
    assert ann.ask("echo > ../there/app/x.py") == ""


@pytest.mark.parametrize("command", ["rm -rf ..", "rm -rf ../../{0}", "mv ../here ../gone"])
def test_a_folder_that_contains_a_repository_is_not_removed(
    here: Path, ann: Session, command: str
) -> None:
    assert ".holdfast" in ann.ask(command.format(here.parent.name))


def test_with_a_grant_another_repository_is_not_covered(here: Path, there: Path) -> None:
    from holdfast.gate.door import client_events

    with LockManager.open(here) as manager:
        grant = manager.ensure(holder="ann", write_paths=["app/x.py"])
        env = {"HOLDFAST_GRANT": grant.id, "HOLDFAST_TOKEN": str(grant.token)}
        for command, refused in (("echo > app/x.py", False), ("echo > ../there/x", True)):
            said = {"session_id": "ann", "cwd": str(here), "hook_event_name": "PreToolUse",
                    "tool_name": "Bash", "tool_input": {"command": command}}  # fmt: skip
            reply = client_events.answer("claude", json.dumps(said).encode(), env)
            assert bool(reply.stdout) is refused, reply.stdout
