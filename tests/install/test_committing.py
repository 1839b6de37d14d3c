"""Commits through the installed hooks, by several agents at the same time, with the real git."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_commits import ANN, ANN_KEY, BOB, BOB_KEY, Actor, Repo
from helpers_processes import LINUX_ONLY
from holdfast import LockManager
from holdfast.core.model import agent_key
from holdfast.gate.agents import holder_of
from holdfast.gate.config.off_switch import Off, switch_off, switch_on
from holdfast.gate.config.settings import Settings
from holdfast.gate.git import git_hooks
from holdfast.gate.git.commit_check import main
from holdfast.gate.intent import EDIT, Intent
from holdfast.gate.lease_gate import LeaseGate

pytestmark = LINUX_ONLY

SUB = "3333cccc-0000-4000-8000-000000000003"
OTHER_SUB = "4444dddd-0000-4000-8000-000000000004"


@pytest.fixture
def repo(tmp_path: Path, bundled: None) -> Iterator[Repo]:
    made = Repo(tmp_path)
    yield made
    made.close()


@pytest.fixture
def ann(repo: Repo) -> Actor:
    return repo.actor("claude", ANN)


@pytest.fixture
def bob(repo: Repo) -> Actor:
    return repo.actor("codex", BOB)


@pytest.fixture
def person(repo: Repo) -> Actor:
    return repo.actor("editor")


# A commit releases the committed files


def test_seed002_fr6_1_a_successful_commit_releases_the_committed_files(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py", "c.py")
    ann.edit("a.py", "b.py")
    bob.edit("c.py")
    ann.git("add", "a.py")
    done = ann.commit()
    assert done.code == 0, done
    assert "holdfast" not in done.complained
    assert repo.last() == ["a.py"]
    assert repo.held() == {"b.py": ANN_KEY, "c.py": BOB_KEY}


def test_seed002_fr6_1_the_next_agent_may_edit_what_was_committed(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py")
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    bob.edit("a.py", content="bob\n")
    assert repo.held() == {"a.py": BOB_KEY}


def test_seed002_fr6_1_a_file_that_is_dirty_again_stays_leased(repo: Repo, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    bob.edit("a.py", "b.py")
    bob.git("add", "a.py", "b.py")
    bob.edit("a.py", content="more\n")
    assert bob.commit().code == 0
    assert repo.held() == {"a.py": BOB_KEY}


def test_seed002_fr6_1_a_refused_commit_releases_nothing(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    assert ann.commit("-a").code == 1
    assert repo.held() == {"a.py": ANN_KEY, "b.py": BOB_KEY}


def test_a_new_file_a_renamed_one_and_a_removed_one_are_freed(repo: Repo, ann: Actor) -> None:
    repo.start("a.py", "gone.py", "kept.py")
    ann.edit("new/file.py", "a.py")
    ann.lease("moved.py", "gone.py", "kept.py")
    ann.git("add", "new", "a.py")
    ann.git("mv", "-f", "a.py", "moved.py")
    ann.git("rm", "--quiet", "gone.py")
    assert ann.commit().code == 0
    assert repo.held() == {"kept.py": ANN_KEY}


def test_an_amended_commit_frees_what_it_contains(repo: Repo, ann: Actor) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    assert ann.commit("-a").code == 0
    ann.edit("a.py", "b.py", content="again\n")
    ann.git("add", "a.py", "b.py")
    assert ann.run("git", "commit", "--amend", "--no-edit").code == 0
    assert repo.held() == {}
    assert repo.subjects() == ["a commit", "start"]


def test_the_first_commit_of_all(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start()
    ann.edit("a.py")
    bob.edit("b.py")
    ann.git("add", "a.py", "b.py")
    done = ann.commit()
    assert done.code == 1
    assert "git rm --cached -- b.py" in done.complained
    ann.git("rm", "--quiet", "--cached", "--", "b.py")
    assert ann.commit().code == 0
    assert repo.held() == {"b.py": BOB_KEY}


def test_a_merge_that_is_finished_by_hand(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py", "c.py")
    repo.git("switch", "--quiet", "-c", "side")
    for name in ("a.py", "b.py"):
        (repo.root / name).write_text("side\n")
    repo.git("commit", "--quiet", "-am", "side")
    repo.git("switch", "--quiet", "main")
    (repo.root / "a.py").write_text("main\n")
    repo.git("commit", "--quiet", "-am", "main")
    assert ann.run("git", "merge", "side").code == 1
    ann.edit("a.py", content="both\n")
    ann.git("add", "a.py")
    bob.lease("b.py")
    refused = ann.commit()
    assert refused.code == 1
    assert "git merge --abort" in refused.complained
    bob.kill()
    assert ann.commit().code == 0
    assert len(repo.git("log", "--format=%P", "-1").split()) == 2
    assert repo.held() == {}


def test_a_commit_of_one_agent_frees_nothing_of_another(
    repo: Repo, ann: Actor, person: Actor
) -> None:
    repo.start("a.py")
    ann.edit("a.py")
    person.git("add", "a.py")
    assert person.commit("--no-verify").code == 0
    assert repo.held() == {"a.py": ANN_KEY}


def test_a_lock_that_was_requested_by_hand_stays(repo: Repo, ann: Actor) -> None:
    repo.start("a.py", "b.py")
    holdfast = (sys.executable, "-m", "holdfast")
    assert ann.run(*holdfast, "lock", "a.py").code == 0
    ann.edit("b.py")
    (repo.root / "a.py").write_text("new\n")
    assert ann.commit("-a").code == 0
    assert list(repo.held()) == ["a.py"]


# A commit of files that other holders have locked


def test_a_file_that_another_agent_holds_is_refused_and_named(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "lib/it's b.py")
    ann.edit("a.py")
    bob.edit("lib/it's b.py")
    ann.git("add", "--all")
    done = ann.commit()
    assert done.code == 1
    assert repo.subjects() == ["start"]
    assert f"lib/it's b.py: {repo.name(BOB_KEY)}, for 0 s (since 20" in done.complained
    assert "a.py:" not in done.complained
    assert "--no-verify" not in done.complained
    advice = next(line for line in done.complained.split("\n") if "git restore" in line)
    assert advice == "  -> git restore --staged -- 'lib/it'\\''s b.py'"
    assert ann.run("sh", "-c", advice.removeprefix("  -> ")).code == 0
    assert ann.commit().code == 0
    assert repo.last() == ["a.py"]
    assert (repo.root / "lib/it's b.py").read_text() == "new\n"
    assert repo.held() == {"lib/it's b.py": BOB_KEY}


def test_the_advice_is_good_in_the_folder_where_it_is_given(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("app/a.py", "lib/b.py")
    ann.edit("app/a.py")
    bob.edit("lib/b.py")
    ann.git("add", "--all")
    app = repo.root / "app"
    done = ann.commit(at=app)
    assert "  -> git restore --staged -- ../lib/b.py\n" in done.complained
    ann.git("restore", "--staged", "--", "../lib/b.py", at=app)
    assert ann.commit(at=app).code == 0
    assert repo.held() == {"lib/b.py": BOB_KEY}


def test_dirty_files_of_others_outside_the_commit_do_not_matter(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py", "new.py")
    assert ann.commit("--", "a.py").code == 0
    assert bob.commit("--", "b.py").code == 0
    assert repo.held() == {"new.py": BOB_KEY}


def test_files_that_no_one_holds_pass(repo: Repo, ann: Actor, bob: Actor, person: Actor) -> None:
    repo.start("a.py", "b.py", "c.py")
    bob.edit("b.py")
    for actor, name in ((ann, "a.py"), (person, "c.py")):
        (repo.root / name).write_text("new\n")
        done = actor.commit("--", name)
        assert done.code == 0, done


def test_all_changed_files_are_checked_with_a(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    done = ann.commit("-a")
    assert done.code == 1
    assert "commit without -a" in done.complained
    assert "restore" not in done.complained


def test_only_named_files_are_checked_in_a_partial_commit(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    bob.git("add", "b.py")
    refused = ann.commit("--", "a.py", "b.py")
    assert refused.code == 1
    assert "do not name these files" in refused.complained
    assert ann.commit("--", "a.py").code == 0
    assert repo.last() == ["a.py"]
    assert repo.held() == {"b.py": BOB_KEY}


def test_a_removal_and_both_sides_of_a_rename_are_checked(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    bob.lease("a.py", "c.py")
    ann.git("rm", "--quiet", "a.py")
    assert "a.py: codex" in ann.commit().complained
    ann.git("reset", "--quiet", "--hard")
    ann.git("mv", "b.py", "c.py")
    assert "c.py: codex" in ann.commit().complained


def test_a_dead_owner_never_blocks(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py")
    bob.edit("a.py")
    assert ann.commit("-a").code == 1
    bob.kill()
    assert ann.commit("-a").code == 0


def test_a_holder_that_only_reads_does_not_block(repo: Repo, ann: Actor) -> None:
    repo.start("app/a.py")
    (repo.root / "app/a.py").write_text("new\n")
    with LockManager.open(repo.root) as manager:  # held by this process, which is alive
        assert manager.try_acquire(holder="reader", read_paths=["app", "app/a.py"])
    assert ann.commit("-a").code == 0


def test_names_that_are_hard_to_say(repo: Repo, ann: Actor, bob: Actor) -> None:
    names = ["port:5432", "two words", "grüße.py", "-n", "a\\b", "$HOME"]
    repo.start(*names, "a\nb")
    bob.edit(*names)
    ann.git("add", "--all")
    done = ann.commit()
    assert done.code == 1
    for name in names:
        assert f"  {name}: {repo.name(BOB_KEY)}" in done.complained
    advice = next(line for line in done.complained.split("\n") if "git restore" in line)
    assert ann.run("sh", "-c", advice.removeprefix("  -> ")).code == 0
    (repo.root / "a\nb").write_text("new\n")
    ann.git("add", "a\nb")
    assert ann.commit().code == 0
    assert bob.commit("-a").code == 0
    assert repo.held() == {}


def test_a_link_is_not_what_it_leads_to_but_a_second_name_is(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    bob.edit("b.py")
    (repo.root / "link").symlink_to("b.py")
    ann.git("add", "link")
    assert ann.commit().code == 0
    os.link(repo.root / "b.py", repo.root / "second.py")
    bob.lease("second.py")
    with LockManager.open(repo.root) as manager:
        second = [g for g in manager.active_grants() if "second.py" in g.write_paths]
        manager.release(second[0].id)
    ann.git("add", "second.py")
    assert f"second.py: {repo.name(BOB_KEY)}" in ann.commit().complained


def test_many_files_are_counted_and_not_all_named(repo: Repo, ann: Actor, bob: Actor) -> None:
    names = [f"f{number:02}.py" for number in range(23)]
    repo.start(*names)
    for name in names:
        (repo.root / name).write_text("new\n")
    with LockManager.open(repo.root) as manager:
        for name in names:
            manager.try_acquire(holder="somebody", write_paths=[name], ttl=600)
    ann.git("add", "--all")
    done = ann.commit()
    assert "  and 3 more\n" in done.complained
    assert "git restore --staged -- FILE..." in done.complained


# The committer


def test_a_parent_may_commit_what_its_sub_agents_have(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py", "c.py", "d.py")
    ann.edit("a.py")
    ann.edit("b.py", agent="sub1")
    bob.edit("c.py")
    bob.edit("d.py", agent=SUB)
    assert ann.commit("--", "a.py", "b.py").code == 0
    assert bob.commit("-a").code == 0
    assert repo.held() == {}


def test_a_sub_agent_commits_its_own_files_and_not_its_parents_or_siblings(
    repo: Repo, bob: Actor
) -> None:
    repo.start("a.py", "b.py", "c.py")
    bob.edit("a.py")
    bob.edit("b.py", agent=SUB)
    bob.edit("c.py", agent=OTHER_SUB)
    refused = bob.commit("-a", agent=SUB)
    assert refused.code == 1
    assert f"a.py: {repo.name(BOB_KEY)}, " in refused.complained
    assert f"c.py: {repo.name(agent_key('codex', BOB, OTHER_SUB))}, " in refused.complained
    assert "b.py" not in refused.complained
    assert bob.commit("--", "b.py", agent=SUB).code == 0
    assert repo.held() == {"a.py": BOB_KEY, "c.py": agent_key("codex", BOB, OTHER_SUB)}


def test_a_person_owns_no_lease_of_an_agent_and_reads_what_to_do(
    repo: Repo, ann: Actor, person: Actor
) -> None:
    repo.start("a.py")
    ann.edit("a.py")
    done = person.commit("-a")
    assert done.code == 1
    assert f"a.py: {repo.name(ANN_KEY)}, " in done.complained
    assert "outside of any agent" in done.complained
    assert "git commit --no-verify" in done.complained
    assert person.commit("-a", "--no-verify").code == 0


def test_a_person_may_commit_what_was_locked_from_the_same_place(repo: Repo, person: Actor) -> None:
    repo.start("a.py")
    (repo.root / "a.py").write_text("new\n")
    assert person.run(sys.executable, "-m", "holdfast", "lock", "a.py").code == 0
    assert repo.actor("browser").commit("-a").code == 1
    assert person.commit("-a").code == 0


def test_the_nearest_client_counts_whatever_the_environment_inherited(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    """A client that another client started has the variables of both."""
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    both = {**ann.shell(), **bob.shell()}
    commit = ("git", "commit", "-m", "a commit", "--")
    assert "a.py: claude" in bob.run(*commit, "a.py", env=both).complained
    assert bob.run(*commit, "b.py", env=both).code == 0
    assert ann.run(*commit, "a.py", env=both).code == 0
    assert repo.held() == {}


def test_a_client_without_our_variables_is_no_other_clients_agent(repo: Repo, ann: Actor) -> None:
    repo.start("a.py")
    ann.edit("a.py")
    gemini = repo.actor("gemini")
    done = gemini.run("git", "commit", "-am", "a commit", env=ann.shell() | {"CLAUDE_PID": ""})
    assert done.code == 1
    assert "--no-verify" not in done.complained


def test_an_agent_whose_client_cannot_be_seen_is_known_by_its_environment(
    repo: Repo, ann: Actor, bob: Actor, person: Actor
) -> None:
    """As in a sandbox that hides the processes outside it."""
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    commit = ("git", "commit", "-m", "a commit", "--")
    assert person.run(*commit, "b.py", env=ann.shell()).code == 1
    assert person.run(*commit, "a.py", env=ann.shell() | {"CLAUDE_PID": "4"}).code == 0
    assert person.run(*commit, "b.py", env=bob.shell()).code == 0
    assert repo.held() == {}


def test_an_agent_whose_shell_lost_its_environment_is_known_by_its_client(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    commit = ("git", "commit", "-m", "a commit", "--")
    assert ann.run(*commit, "b.py", env={}).code == 1
    assert ann.run(*commit, "a.py", env={}).code == 0
    assert repo.held() == {"b.py": BOB_KEY}


def test_a_runner_commits_what_its_grant_covers(repo: Repo, ann: Actor, person: Actor) -> None:
    repo.start("a.py", "b.py", "c.py")
    ann.edit("b.py")
    (repo.root / "a.py").write_text("new\n")
    (repo.root / "c.py").write_text("new\n")
    run = (sys.executable, "-m", "holdfast", "run", "--write", "a.py", "--")
    commit = ("git", "commit", "-m", "a commit", "--")
    refused = person.run(*run, *commit, "a.py", "b.py")
    assert refused.code == 1
    assert f"b.py: {repo.name(ANN_KEY)}" in refused.complained
    assert "--no-verify" not in refused.complained
    done = person.run(*run, *commit, "a.py", "c.py")
    assert done.code == 0, done


def test_one_who_was_sent_out_with_a_grant_commits_what_it_covers(
    repo: Repo, person: Actor
) -> None:
    repo.start("a.py", "b.py")
    for name in ("a.py", "b.py"):
        (repo.root / name).write_text("new\n")
    with LockManager.open(repo.root) as manager:
        one = manager.acquire(holder="dispatcher", write_paths=["a.py"], timeout=0)
        other = manager.acquire(holder="dispatcher", write_paths=["b.py"], timeout=0)
    env = {"HOLDFAST_GRANT": one.id, "HOLDFAST_TOKEN": str(one.token)}
    commit = ("git", "commit", "-m", "a commit", "--")
    assert "b.py: dispatcher" in person.run(*commit, "a.py", "b.py", env=env).complained
    assert person.run(*commit, "a.py", env=env).code == 0
    with LockManager.open(repo.root) as manager:
        assert {grant.id for grant in manager.active_grants()} == {one.id, other.id}


def test_the_id_of_anothers_grant_is_not_enough_to_commit_what_it_covers(
    repo: Repo, person: Actor
) -> None:
    """A refusal names the conflicting grant; only the agent started for it has its token."""
    repo.start("a.py")
    (repo.root / "a.py").write_text("new\n")
    with LockManager.open(repo.root) as manager:
        one = manager.acquire(holder="dispatcher", write_paths=["a.py"], timeout=0)
    for token in ({}, {"HOLDFAST_TOKEN": ""}, {"HOLDFAST_TOKEN": str(one.token - 1)}):
        env = {"HOLDFAST_GRANT": one.id, **token}
        done = person.run("git", "commit", "-m", "a commit", "--", "a.py", env=env)
        assert "a.py: dispatcher" in done.complained, done


def test_a_sub_agent_commits_what_those_below_it_have(repo: Repo, bob: Actor) -> None:
    """A sub-agent may start sub-agents of its own; a sibling is not one of them."""
    repo.start("a.py", "b.py", "c.py", "d.py")
    mine, child, grandchild = (
        holder_of(Intent("codex", EDIT, BOB, agent=agent, pid=bob.pid))
        for agent in (SUB, OTHER_SUB, "5555eeee")
    )
    with LockManager.open(repo.root) as manager:
        for parent, below in ((mine, child), (child, grandchild)):
            LeaseGate(manager, parent, Settings()).agent_call()
            LeaseGate(manager, below, Settings()).agent_start()
    bob.edit("a.py", agent=SUB)
    bob.edit("b.py", agent=OTHER_SUB)
    bob.edit("c.py", agent="5555eeee")
    bob.edit("d.py", agent="6666ffff")
    refused = bob.commit("-a", agent=SUB)
    assert f"d.py: {repo.name(agent_key('codex', BOB, '6666ffff'))}" in refused.complained
    for name in ("a.py", "b.py", "c.py"):
        assert f"{name}: " not in refused.complained
    assert "a.py: " in bob.commit("--", "a.py", agent=OTHER_SUB).complained
    assert bob.commit("--", "a.py", "b.py", "c.py", agent=SUB).code == 0
    assert repo.held() == {"d.py": agent_key("codex", BOB, "6666ffff")}


def test_a_sub_agent_is_not_one_whose_name_begins_like_its_own(repo: Repo, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    bob.edit("a.py", agent="a")
    bob.edit("b.py", agent="ab")
    assert (
        f"b.py: {repo.name(agent_key('codex', BOB, 'ab'))}"
        in bob.commit("-a", agent="a").complained
    )
    assert bob.commit("--no-verify", "-a", agent="a").code == 0
    assert repo.held() == {"b.py": agent_key("codex", BOB, "ab")}


def test_a_session_is_not_one_whose_name_begins_like_its_own(repo: Repo) -> None:
    repo.start("a.py", "b.py")
    short, long = repo.actor("claude", "s"), repo.actor("claude", "s2")
    short.edit("a.py")
    long.edit("b.py")
    other = agent_key("claude", "s2")
    assert f"b.py: {repo.name(other)}, " in short.commit("-a").complained
    assert short.commit("--no-verify", "-a").code == 0
    assert repo.held() == {"b.py": other}


def test_a_file_is_not_one_whose_name_begins_like_its_own(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a", "ab", "a.b/c")
    ann.edit("a", "a.b/c")
    bob.edit("ab")
    assert ann.commit("--", "a").code == 0
    assert repo.held() == {"ab": BOB_KEY, "a.b/c": ANN_KEY}


# Folders and repositories


@pytest.mark.parametrize("kind", ["relative", "absolute"])
def test_hooks_in_another_folder_do_the_same(repo: Repo, ann: Actor, bob: Actor, kind: str) -> None:
    hooks = "tools/hooks" if kind == "relative" else repo.folder / "hooks"
    repo.git("config", "core.hooksPath", hooks)
    repo.start("app/a.py", "b.py")
    ann.edit("app/a.py")
    bob.edit("b.py")
    app = repo.root / "app"
    assert f"b.py: {repo.name(BOB_KEY)}" in ann.commit("-a", at=app).complained
    assert ann.commit("--", "a.py", at=app).code == 0
    assert repo.held() == {"b.py": BOB_KEY}


def test_hooks_for_all_repositories_keep_out_of_those_without_a_ledger(
    repo: Repo, ann: Actor, bob: Actor, person: Actor
) -> None:
    with open(repo.env["GIT_CONFIG_GLOBAL"], "a") as file:
        file.write(f"[core]\n\thooksPath = {repo.folder}/all\n")
    (repo.folder / "all").mkdir()
    for name in git_hooks.HOOKS:
        hook = repo.folder / "all" / name
        words = " ".join(f"'{word}'" for word in (*git_hooks.command(), "git", name))
        hook.write_text(f"#!/bin/sh\nexec {words}\n")
        hook.chmod(0o755)
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    assert f"b.py: {repo.name(BOB_KEY)}" in ann.commit("-a").complained
    assert ann.commit("--", "a.py").code == 0
    assert repo.held() == {"b.py": BOB_KEY}
    plain = repo.folder / "plain"
    person.git("init", "--quiet", plain, at=repo.folder)
    (plain / "a.py").write_text("new\n")
    person.git("add", "a.py", at=plain)
    assert person.commit(at=plain).code == 0


def test_a_submodule_is_checked_where_it_has_hooks(repo: Repo, ann: Actor, bob: Actor) -> None:
    inner = repo.folder / "inner"
    repo.git("init", "--quiet", inner)
    for name in ("x.py", "y.py"):
        (inner / name).write_text("old\n")
    repo.git("add", "--all", at=inner)
    repo.git("commit", "--quiet", "-m", "inner", at=inner)
    repo.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner, "module")
    repo.start("a.py")
    module = repo.root / "module"
    git_hooks.install(str(module))
    ann.edit("module/x.py")
    bob.edit("module/y.py")
    assert f"y.py: {repo.name(BOB_KEY)}" in ann.commit("-a", at=module).complained
    assert ann.commit("--", "x.py", at=module).code == 0
    assert repo.held() == {"module/y.py": BOB_KEY}
    assert ann.commit("-a").code == 0, "the submodule's entry is a file of its own"
    assert repo.last() == ["module"]
    assert repo.held() == {"module/y.py": BOB_KEY}


def test_a_hook_that_cannot_be_run_any_more_is_passed_over_by_git_and_seen_by_us(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    hook = repo.root / ".git/hooks/pre-commit"
    ann.edit("a.py")
    bob.edit("b.py")
    hook.chmod(0o644)
    assert {one.state for one in git_hooks.status(str(repo.root))} == {"installed", "outdated"}
    repo.install()
    assert ann.commit("-a").code == 1


def test_a_linked_worktree_with_a_ledger_of_its_own(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    tree = repo.folder / "linked"
    repo.git("worktree", "add", "--quiet", "-b", "side", tree)
    bob.edit("a.py")
    (tree / ".holdfast").mkdir()
    ann.edit("a.py", at=tree)
    assert ann.commit("-a", at=tree).code == 0
    assert repo.held(tree) == {}
    assert repo.held() == {"a.py": BOB_KEY}
    bob.edit("b.py", at=tree)
    assert "b.py: codex" in ann.commit("-a", at=tree).complained


def test_a_linked_worktree_has_the_ledger_of_its_repository(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    tree = repo.folder / "linked"
    repo.git("worktree", "add", "--quiet", "-b", "side", tree)
    bob.edit("a.py")
    ann.edit("a.py", at=tree)
    assert repo.held() == {"a.py": BOB_KEY, "../linked/a.py": ANN_KEY}
    bob.edit("b.py", at=tree)
    assert "b.py: codex" in ann.commit("-a", at=tree).complained
    assert ann.commit("--", "a.py", at=tree).code == 0
    assert repo.held() == {"a.py": BOB_KEY, "../linked/b.py": BOB_KEY}
    assert not (tree / ".holdfast").exists()


def test_a_linked_worktree_inside_the_tree_of_another_ledger(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    repo.start("a.py", "b.py")
    tree = repo.root / "trees/side"
    repo.git("worktree", "add", "--quiet", "-b", "side", tree)
    bob.edit("a.py")
    ann.edit("a.py", at=tree)
    bob.edit("b.py", at=tree)
    assert "b.py: codex" in ann.commit("-a", at=tree).complained
    assert ann.commit("--", "a.py", at=tree).code == 0
    assert repo.held() == {"a.py": BOB_KEY, "trees/side/b.py": BOB_KEY}


def test_a_folder_with_a_ledger_of_its_own(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "part/b.py")
    (repo.root / "part/.holdfast").mkdir()
    bob.edit("part/b.py")
    ann.edit("a.py")
    assert "part/b.py: codex" in ann.commit("-a").complained
    assert bob.commit("--", "part/b.py").code == 0
    assert repo.held(repo.root / "part") == {}


def test_without_a_ledger_everything_passes_and_none_is_made(repo: Repo, person: Actor) -> None:
    repo.start("a.py")
    shutil.rmtree(repo.root / ".holdfast")
    (repo.root / "a.py").write_text("new\n")
    done = person.commit("-a")
    assert done.code == 0
    assert done.complained == ""
    assert not (repo.root / ".holdfast").exists()


def test_with_the_gate_off_everything_passes(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    bob.edit("b.py")
    switch_off(str(repo.root), Off())
    ann.git("add", "--all")
    done = ann.commit()
    assert done.code == 0
    assert "holdfast" not in done.complained
    switch_on(str(repo.root))
    assert repo.held() == {"b.py": BOB_KEY}


def test_a_commits_own_index_is_the_one_that_is_checked(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    bob.git("add", "b.py")
    own = ann.shell() | {"GIT_INDEX_FILE": str(repo.folder / "own index")}
    assert ann.run("git", "read-tree", "HEAD", env=own).code == 0
    assert ann.run("git", "add", "a.py", env=own).code == 0
    assert ann.run("git", "commit", "-m", "a commit", env=own).code == 0
    assert repo.last() == ["a.py"]


# Failures


def test_a_broken_ledger_refuses_with_the_reason_and_never_spoils_a_commit(
    repo: Repo, ann: Actor
) -> None:
    repo.start("a.py")
    ann.edit("a.py")
    for file in (repo.root / ".holdfast").iterdir():
        if file.is_file():
            file.write_bytes(b"this is no database, whatever its name says" * 100)
    done = ann.commit("-a")
    assert done.code == 1
    assert "it is unknown what others hold" in done.complained
    assert "--no-verify" in done.complained
    forced = ann.commit("-a", "--no-verify")
    assert forced.code == 0
    assert repo.last() == ["a.py"]
    assert "your leases on these files remain" in forced.complained
    assert "Traceback" not in done.complained + forced.complained


def test_an_unknown_hook_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pre-push"]) == 2
    assert "known: pre-commit, pre-merge-commit" in capsys.readouterr().err
    assert main([]) == 2


# Hook managers that set unstaged work aside; the dangerous ones are in fights/test_hook_managers.py


def put_before_ours(repo: Repo, text: str) -> None:
    """Install a hook before ours."""
    hook = repo.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(text)
    hook.chmod(0o755)


def test_a_manager_without_settings_removes_nothing(repo: Repo, ann: Actor, bob: Actor) -> None:
    put_before_ours(repo, "#!/bin/sh\n# File generated by pre-commit: https://pre-commit.com\n")
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    assert ann.commit("--", "a.py").code == 0


def test_a_manager_that_takes_only_partly_staged_files_is_safe(
    repo: Repo, ann: Actor, bob: Actor
) -> None:
    put_before_ours(repo, "#!/bin/sh\nlefthook() { :; }\nlefthook run pre-commit\n")
    repo.start("a.py", "b.py")
    (repo.root / "lefthook.yml").write_text("pre-commit:\n  jobs: []\n")
    ann.edit("a.py")
    bob.edit("b.py")
    assert ann.commit("--", "a.py").code == 0


# The gate neither adds nor commits


def calls(trace: Path) -> list[tuple[bool, list[str]]]:
    """Every git that ran: whether a hook started it, and its arguments."""
    found = []
    for file in trace.iterdir():
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["event"] == "start":
                found.append(("/" in event["sid"], event["argv"]))
    return found


WRITES = {
    "add", "am", "apply", "checkout", "checkout-index", "cherry-pick", "clean", "commit",
    "commit-tree", "gc", "merge", "mv", "pull", "push", "read-tree", "rebase", "reset", "restore",
    "rm", "stash", "switch", "update-index", "update-ref", "write-tree",
}  # fmt: skip


def verbs(words: list[str]) -> set[str]:
    return {word for word in words[1:] if word in WRITES}


def test_seed002_fr8_1_the_agent_alone_adds_and_commits(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py")
    trace = repo.folder / "trace"
    trace.mkdir()
    repo.env["GIT_TRACE2_EVENT"] = str(trace)
    ann.edit("a.py")
    bob.edit("b.py")
    ann.git("add", "a.py")
    assert ann.commit().code == 0
    assert ann.commit("-a").code == 1
    seen = calls(trace)
    by_agent = [words for child, words in seen if not child]
    by_hooks = [words for child, words in seen if child and "maintenance" not in words]
    assert sorted(words[1] for words in by_agent) == ["add", "commit", "commit"]
    assert len(by_hooks) >= 4, "the hooks have run git"
    assert not [words for words in by_hooks if verbs(words)]


def test_seed002_fr8_2_the_hooks_call_no_git_that_writes(repo: Repo, ann: Actor) -> None:
    repo.start("a.py")
    ann.edit("a.py")
    ann.git("add", "a.py")
    log = repo.folder / "calls"
    wrapper = repo.folder / "wrapped/git"
    wrapper.parent.mkdir()
    real = shutil.which("git")
    wrapper.write_text(f'#!/bin/sh\necho "$*" >> "{log}"\nexec "{real}" "$@"\n')
    wrapper.chmod(0o755)
    index = repo.root / ".git/index"
    before = index.read_bytes()
    env = ann.shell() | {"PATH": f"{wrapper.parent}:{os.environ['PATH']}"}
    for name in git_hooks.HOOKS:
        done = ann.run(*git_hooks.command(), "git", name, env=env)
        assert done.code == 0, done
    lines = log.read_text().splitlines()
    assert lines
    assert not [line for line in lines if verbs(["git", *line.split()])]
    assert index.read_bytes() == before
    assert repo.subjects() == ["start"]


def test_seed002_fr8_a_dirty_main_stays_a_dirty_main(repo: Repo, ann: Actor, bob: Actor) -> None:
    repo.start("a.py", "b.py", "c.py")
    ann.edit("a.py", "c.py")
    bob.edit("b.py", "new.py")
    bob.git("add", "b.py")
    assert ann.commit("--", "a.py").code == 0
    assert repo.git("status", "--porcelain").split("\n")[:-1] == [
        "M  b.py", " M c.py", "?? new.py",
    ]  # fmt: skip
    assert repo.held() == {"b.py": BOB_KEY, "c.py": ANN_KEY, "new.py": BOB_KEY}


def test_a_commit_is_not_slowed_down_for_long(repo: Repo, ann: Actor, bob: Actor) -> None:
    """Not a measurement: it fails if the hooks ever wait for anything."""
    repo.start("a.py", "b.py")
    ann.edit("a.py")
    bob.edit("b.py")
    started = time.monotonic()
    assert ann.commit("--", "a.py").code == 0
    assert time.monotonic() - started < 10
