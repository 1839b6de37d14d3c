"""Git's hooks after `init`: the next event of any agent detects changed hooks, and commits that
none of our hooks has seen. Real agents, the real git.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_commits import ANN, ANN_KEY, BOB, BOB_KEY, Actor, Repo
from helpers_processes import LINUX_ONLY
from holdfast.core.file_times import TICK_NS
from holdfast.gate.config.off_switch import Off, switch_off, switch_on
from holdfast.gate.git import git_hooks, hook_repair, hook_watch

pytestmark = LINUX_ONLY

FOREIGN = "#!/bin/sh\necho theirs >> ../ran\n"


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    made = Repo(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ann(repo: Repo) -> Actor:
    return repo.actor("claude", ANN)


@pytest.fixture
def bob(repo: Repo) -> Actor:
    return repo.actor("codex", BOB)


def hook(repo: Repo, name: str = "pre-commit") -> Path:
    return repo.root / ".git/hooks" / name


def replace(repo: Repo, name: str = "pre-commit", text: str = FOREIGN) -> None:
    """Replace a hook as a manager does that does not know Holdfast."""
    hook(repo, name).unlink(missing_ok=True)
    hook(repo, name).write_text(text)
    hook(repo, name).chmod(0o755)


def states(repo: Repo) -> set[str]:
    return {one.state for one in git_hooks.status(str(repo.root))}


def told(actor: Actor, event: str = "UserPromptSubmit", **more: object) -> str:
    """The message that the user gets at an event of an agent."""
    data = {
        "session_id": actor.session, "cwd": str(actor.repo.root), "hook_event_name": event,
        "prompt": "go on", **more,
    }  # fmt: skip
    done = actor.run(*git_hooks.command(), actor.client, text=json.dumps(data))
    assert done.code == 0, done
    return str(json.loads(done.said or "{}").get("systemMessage", ""))


# Hooks


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("SessionStart", {"source": "startup"}),
        ("UserPromptSubmit", {}),
        ("PreToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        ("PostToolUse", {"tool_name": "Bash", "tool_input": {"command": "ls"}}),
        ("Stop", {}),
    ],
)
def test_a_hook_that_was_replaced_is_repaired_at_the_next_event_and_the_user_is_told(
    repo: Repo, bob: Actor, ann: Actor, event: str, more: dict[str, object]
) -> None:
    repo.start("a.py", "b.py")
    bob.edit("b.py")
    replace(repo)
    said = told(ann, event, **more)
    assert ".git/hooks/pre-commit was replaced by another hook" in said
    assert "in place again" in said
    assert states(repo) == {"installed"}
    assert "git's hooks" not in told(ann, event, **more), "once"
    ann.edit("a.py")
    assert "b.py: codex" in ann.commit("-a").complained
    assert ann.commit("--", "a.py").code == 0
    assert (repo.folder / "ran").read_text() == "theirs\n"


@pytest.mark.parametrize("name", git_hooks.HOOKS)
@pytest.mark.parametrize("way", ["gone", "overwritten", "not executable"])
def test_any_change_of_any_hook_is_noticed(repo: Repo, ann: Actor, name: str, way: str) -> None:
    repo.start("a.py")
    told(ann)
    if way == "gone":
        hook(repo, name).unlink()
    elif way == "overwritten":  # in place, so that its folder does not change
        with hook(repo, name).open("w") as file:
            file.write(FOREIGN)
    else:
        hook(repo, name).chmod(0o644)
    assert name in told(ann)
    assert states(repo) == {"installed"}


@pytest.mark.parametrize("where", ["local", "global"])
def test_a_folder_of_hooks_that_was_set_since_then_is_noticed(
    repo: Repo, ann: Actor, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", repo.env["GIT_CONFIG_GLOBAL"])
    repo.start("a.py")
    folder = repo.folder / "their hooks"
    folder.mkdir()
    (folder / "pre-commit").write_text(FOREIGN)
    (folder / "pre-commit").chmod(0o755)
    told(ann)
    ann.git("config", f"--{where}", "core.hooksPath", folder)
    assert "in place again" in told(ann)
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    assert repo.held() == {}
    assert (repo.folder / "ran").read_text() == "theirs\n"
    assert [file.name for file in folder.iterdir()] == ["pre-commit"]
    ann.git("config", f"--{where}", "--unset", "core.hooksPath")
    assert "in place again" in told(ann)
    assert not (repo.root / ".git/holdfast").exists()
    assert hook(repo).exists()


@pytest.mark.parametrize("way", ["settings gone", "settings changed", "hook gone", "folder gone"])
def test_a_change_of_our_own_folder_is_noticed(repo: Repo, ann: Actor, way: str) -> None:
    ann.git("config", "core.hooksPath", "tools")
    repo.start("a.py")
    told(ann)
    own = repo.root / ".git/holdfast"
    if way == "settings gone":
        (own / "config").unlink()
    elif way == "settings changed":
        (own / "config").write_text(f"[core]\n\thooksPath = {os.devnull}\n")
    elif way == "hook gone":
        (own / "hooks/commit-msg").unlink()
    else:
        shutil.rmtree(own)
    assert "in place again" in told(ann)
    assert states(repo) == {"installed"}


def test_a_problem_that_cannot_be_repaired_is_reported_again_at_each_start(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py")
    ruby = "#!/usr/bin/env ruby\nhook_type = File.basename($0)\n"
    replace(repo, text=ruby)
    said = told(ann)
    assert "cannot be repaired" in said
    assert "own file name" in said
    assert hook(repo).read_text() == ruby
    assert told(ann) == "", "once"
    assert "cannot be repaired" in told(bob, "SessionStart", source="startup")
    hook(repo).unlink()
    assert "in place again" in told(bob)
    assert "git's hooks" not in told(ann, "SessionStart", source="resume")


def test_an_edit_is_not_refused_for_hooks_that_cannot_be_repaired(repo: Repo, ann: Actor) -> None:
    repo.start("a.py")
    shutil.rmtree(repo.root / ".git/hooks")
    (repo.root / ".git/hooks").write_text("no folder")
    ann.edit("a.py")
    assert repo.held() == {"a.py": ANN_KEY}


def test_where_the_gate_is_off_or_removed_nothing_is_repaired(repo: Repo, ann: Actor) -> None:
    repo.start("a.py")
    switch_off(str(repo.root), Off())
    hook(repo).unlink()
    told(ann)
    assert not hook(repo).exists()
    switch_on(str(repo.root))
    assert "in place again" in told(ann)
    git_hooks.uninstall(str(repo.root))
    assert not (repo.root / hook_watch.FILE).exists()
    replace(repo)
    assert told(ann) == ""
    assert hook(repo).read_text() == FOREIGN


def test_the_hooks_that_are_put_back_run_what_init_made_them_run(repo: Repo, ann: Actor) -> None:
    repo.start("a.py")
    python = repo.folder / "python"
    python.symlink_to(git_hooks.command()[0])
    words = (str(python), *git_hooks.command()[1:])
    git_hooks.install(str(repo.root), words=words)
    hook(repo).unlink()
    told(ann)
    assert str(python) in hook(repo).read_text()
    python.unlink()
    hook(repo).unlink()
    told(ann)
    assert git_hooks.command()[0] in hook(repo).read_text(), "the old one is gone"


def test_of_two_processes_that_notice_it_one_repairs_it(repo: Repo) -> None:
    repo.start("a.py")
    hook(repo).unlink()
    root = str(repo.root)
    with hook_repair._Alone(root) as is_alone:
        assert is_alone
        assert hook_repair.look(root) == ""
        assert not hook(repo).exists()
    assert "in place again" in hook_repair.look(root)


def test_as_long_as_nothing_changes_an_event_asks_git_nothing(repo: Repo, ann: Actor) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    trace = repo.folder / "trace"
    trace.mkdir()
    repo.env["GIT_TRACE2_EVENT"] = str(trace)
    ann.edit("b.py")
    told(ann)
    assert list(trace.iterdir()) == []
    with (repo.root / ".git/config").open("a") as file:
        file.write("# a remark\n")
    assert told(ann) == ""
    assert list(trace.iterdir()), "after the change the event runs git"
    shutil.rmtree(trace)
    trace.mkdir()
    told(ann)
    assert list(trace.iterdir()) == [], "the next event does not run git again"


# Commits


def without_hooks(repo: Repo) -> tuple[str, ...]:
    return ("git", "-c", f"core.hooksPath={os.devnull}")


def test_a_commit_frees_its_files_while_our_hook_is_gone(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    for name in git_hooks.HOOKS:
        hook(repo, name).unlink()
    assert ann.commit("--", "a.py").code == 0
    assert repo.held() == {"a.py": ANN_KEY, "b.py": BOB_KEY}
    assert "in place again" in told(bob), "any agent's event repairs the hooks"
    assert repo.held() == {"b.py": BOB_KEY}


def test_an_agent_that_wants_such_a_file_gets_it_at_once(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py")
    ann.edit("a.py")
    assert ann.run(*without_hooks(repo), "commit", "-qam", "x").code == 0
    bob.edit("a.py")
    assert repo.held() == {"a.py": BOB_KEY}


def settle() -> None:
    """Wait until a file that changes gets a different modification time."""
    time.sleep(2 * TICK_NS / 1e9)


def test_such_a_commit_frees_only_what_is_done(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("done.py", "dirty.py", "unchanged.py", "about.py")
    (repo.root / "unchanged.py").write_text("by a person\n")
    settle()
    bob.lease("unchanged.py")
    bob.edit("done.py", "dirty.py")
    fields = {"file_path": str(repo.root / "about.py"), "content": ""}
    told(ann, "PreToolUse", tool_name="Write", tool_input=fields)
    (repo.root / "about.py").write_text("new\n")
    repo.git("add", "--all")
    repo.git("commit", "--quiet", "-m", "everything")
    (repo.root / "dirty.py").write_text("newer\n")
    told(bob)
    assert repo.held() == {
        "dirty.py": BOB_KEY, "unchanged.py": BOB_KEY, "about.py": ANN_KEY,
    }, "the last one may be written at this moment, as far as its client says"  # fmt: skip


@pytest.mark.parametrize("move", ["checkout", "reset", "fast-forward", "switch"])
def test_moves_of_head_that_are_no_commits_free_nothing(
    repo: Repo, ann: Actor, bob: Actor, move: str
) -> None:
    repo.start("a.py", "b.py")
    repo.git("switch", "--quiet", "-c", "side")
    (repo.root / "a.py").write_text("side\n")
    repo.git("commit", "--quiet", "-am", "side")
    repo.git("switch", "--quiet", "main")
    told(ann)
    ann.edit("a.py", content="mine\n")
    (repo.root / "a.py").write_text("old a.py\n")  # reverted by the agent itself
    words = {
        "checkout": ("checkout", "--quiet", "side"),
        "reset": ("reset", "--quiet", "--hard", "side"),
        "fast-forward": ("merge", "--quiet", "--ff-only", "side"),
        "switch": ("switch", "--quiet", "side"),
    }[move]
    repo.git(*words)
    told(bob)
    assert repo.held() == {"a.py": ANN_KEY}


@pytest.mark.parametrize("way", ["commit", "amend", "merge", "cherry-pick", "revert", "rebase"])
def test_each_way_to_commit_without_hooks_frees(
    repo: Repo, ann: Actor, bob: Actor, way: str
) -> None:
    repo.start("a.py", "b.py")
    repo.side("b.py")
    told(ann)
    lines: dict[str, list[tuple[str, ...]]] = {
        "commit": [("commit", "-qam", "x")],
        "amend": [("commit", "-qam", "x", "--amend")],
        "merge": [("merge", "--no-edit", "side")],
        "cherry-pick": [("cherry-pick", "side")],
        "revert": [("cherry-pick", "side"), ("revert", "--no-edit", "HEAD")],
        "rebase": [("rebase", "--quiet", "main", "side")],
    }
    if way in ("commit", "amend"):
        ann.edit("a.py")
    else:
        ann.edit("b.py", content="old b.py\n")  # clean again, but written
    for line in lines[way]:
        repo.git(*line)
    told(bob)
    assert repo.held() == {}


def test_a_commit_that_our_hook_has_seen_is_no_news_to_the_next_event(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    """An agent keeps its leases, as always, if a person commits the files anyway."""
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    person = repo.actor("editor")
    assert person.commit("-a", "--no-verify").code == 0
    told(bob)
    assert repo.held() == {"a.py": ANN_KEY}


def test_earlier_commits_that_no_hook_saw_free_their_files_too(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py", "c.py")
    ann.edit("a.py")
    bob.edit("b.py", "c.py")
    repo.git("commit", "--quiet", "-m", "unseen", "--", "a.py")
    assert bob.commit("--", "b.py").code == 0
    assert repo.held() == {"c.py": BOB_KEY}


def test_a_log_that_git_rewrote_is_read_from_its_last_line(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    repo.git("commit", "--quiet", "-am", "unseen")
    log = repo.root / ".git/logs/HEAD"
    text = log.read_bytes().splitlines(keepends=True)
    new = log.with_name("HEAD.lock")
    new.write_bytes(b"".join(text[1:]))
    new.replace(log)
    told(bob)
    assert repo.held() == {}


def test_without_a_log_nothing_is_known_and_nothing_fails(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.git("config", "core.logAllRefUpdates", "false")
    repo.start("a.py")
    shutil.rmtree(repo.root / ".git/logs", ignore_errors=True)
    ann.edit("a.py")
    repo.git("commit", "--quiet", "-am", "unseen")
    assert told(bob) == ""
    assert repo.held() == {"a.py": ANN_KEY}


# Linked worktrees


def test_a_commit_in_a_linked_worktree_frees_its_files_too(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    tree = repo.folder / "linked"
    told(bob)
    repo.git("worktree", "add", "--quiet", "-b", "side", tree)
    ann.edit("a.py", at=tree)
    ann.edit("b.py")
    for number in range(2):
        assert repo.held() == {"../linked/a.py": ANN_KEY, "b.py": ANN_KEY}
        repo.git("commit", "--quiet", "-am", "unseen", at=tree)
        told(bob)
        assert repo.held() == {"b.py": ANN_KEY}
        ann.edit("a.py", at=tree, content=f"{number}\n")
    assert ann.commit("-a", at=tree).code == 0, "a commit that our hook sees"
    assert repo.held() == {"b.py": ANN_KEY}


def test_a_bare_repository_with_worktrees_is_watched_as_well(tmp_path: Path) -> None:
    repo = Repo(tmp_path)
    repo.start("a.py")
    bare, tree = repo.folder / "bare.git", repo.folder / "tree"
    repo.git("clone", "--quiet", "--bare", repo.root, bare)
    repo.git("worktree", "add", "--quiet", tree, at=bare)
    (bare / ".holdfast").mkdir()
    git_hooks.install(str(tree))
    assert (bare / hook_watch.FILE).exists()
    (bare / "hooks/pre-commit").unlink()
    assert "in place again" in hook_repair.look(str(bare))
    assert (bare / "hooks/pre-commit").exists()
    ann = repo.actor("claude", ANN)
    ann.edit("a.py", at=tree)
    repo.git("commit", "--quiet", "-am", "unseen", at=tree)
    assert repo.held(bare) != {}
    hook_repair.look(str(bare))
    assert repo.held(bare) == {}
    repo.close()
