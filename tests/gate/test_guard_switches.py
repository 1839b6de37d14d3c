"""Files that switch the gate off: an agent may change the other parts, a person everything.

Through the door, as the clients' hooks come in, with the hooks that `init` really writes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import ENV, Session, called, copied, gated, owners, refusal
from holdfast import LockManager
from holdfast.gate.clients.patch_result import outcome
from holdfast.gate.git import git_hooks

LOCAL = ".claude/settings.local.json"
HOOKS = ".codex/hooks.json"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that every test copies; no test works in it."""
    folder = tmp_path_factory.mktemp("model")
    root = gated(folder / "work")
    (root / "holdfast.toml").unlink()
    (root / ".claude").mkdir()
    (root / LOCAL).write_text('{"permissions": {"allow": ["Bash(ls:*)"]}, "model": "small"}\n')
    subprocess.run(
        [sys.executable, "-m", "holdfast", "init", "--client", "claude,codex", "--git"],
        cwd=root, env={**ENV, "HOME": str(folder)}, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return root


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    root = copied(model, tmp_path / "work")
    record = root / ".holdfast/init.json"
    record.write_text(record.read_text().replace(str(model), str(root)))
    return root


@pytest.fixture
def ann(root: Path) -> Session:
    return Session("ann", root)


@pytest.fixture
def cid(root: Path) -> Session:
    return Session("cid", root, "codex")


def edit(session: Session, name: str, old: str, new: str, **more: Any) -> str:
    """The reason why a replacement in a file is refused; empty if it is allowed."""
    if session.client == "codex":
        lines = [f"-{line}\n" for line in old.splitlines()]
        lines += [f"+{line}\n" for line in new.splitlines()]
        patch = f"*** Begin Patch\n*** Update File: {name}\n@@\n{''.join(lines)}*** End Patch\n"
        return refusal(session.tool("PreToolUse", "apply_patch", {"command": patch}))
    fields = {"file_path": f"{session.home}/{name}", "old_string": old, "new_string": new, **more}
    return refusal(session.tool("PreToolUse", "Edit", fields))


def settings(root: Path, name: str) -> dict[str, Any]:
    found = json.loads((root / name).read_text())
    assert isinstance(found, dict)
    return found


def write(session: Session, name: str, value: Any) -> str:
    return session.write(session.home / name, json.dumps(value, indent=2))


# Settings of clients


def test_the_rest_of_the_settings_can_be_changed(ann: Session, root: Path) -> None:
    assert edit(ann, LOCAL, '"model": "small"', '"model": "large"') == ""
    found = settings(root, LOCAL)
    found["permissions"]["allow"].append("Bash(make:*)")
    found["hooks"]["PreToolUse"].insert(0, {"hooks": [{"type": "command", "command": "mine"}]})
    assert write(ann, LOCAL, found) == ""
    assert owners(root) == {LOCAL: "claude:ann"}


def test_an_edit_that_removes_our_hooks_is_refused(ann: Session, root: Path) -> None:
    before = (root / LOCAL).read_text()
    found = settings(root, LOCAL)
    del found["hooks"]["PreToolUse"]
    reason = write(ann, LOCAL, found)
    assert "PreToolUse" in reason
    assert "ask your user" in reason
    assert write(ann, LOCAL, {"permissions": {}})
    assert ann.write(
        root / LOCAL, before.replace("{", "{ // mine\n", 1)
    )  # the client would not read the file
    assert edit(ann, LOCAL, "hook.py", "nothing.py", replace_all=True)
    assert edit(ann, LOCAL, "Write|", "")
    assert edit(ann, LOCAL, '"timeout": 240', '"timeout": 1')
    assert edit(ann, LOCAL, "not there at all", "x")
    assert (root / LOCAL).read_text() == before
    assert owners(root) == {}
    with LockManager.open(root) as manager:
        events = [event for event in manager.events() if event.type == "edit_refused"]
    assert len(events) == 7
    assert events[0].data["agent"] == called(root, "ann")


def test_all_hooks_cannot_be_switched_off_in_the_other_file_either(
    ann: Session, root: Path
) -> None:
    assert "switch off all hooks" in write(ann, ".claude/settings.json", {"disableAllHooks": True})
    assert write(ann, ".claude/settings.json", {"disableAllHooks": False, "model": "x"}) == ""
    (root / ".claude/settings.json").write_text('{"disableAllHooks": true}')  # written by a person
    assert write(ann, ".claude/settings.json", {"disableAllHooks": True, "model": "y"}) == ""


def test_codex_hooks_stay_where_they_are_trusted(cid: Session, root: Path) -> None:
    found = settings(root, HOOKS)
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    found["hooks"]["Stop"].insert(0, mine)
    assert "trusted" in write(cid, HOOKS, found)
    found["hooks"]["Stop"].append(found["hooks"]["Stop"].pop(0))
    assert write(cid, HOOKS, found) == ""
    assert "key" in write(cid, HOOKS, {**found, "mine": 1})
    del found["hooks"]["Stop"][0]
    assert "Stop" in write(cid, HOOKS, found)
    patch = f"*** Begin Patch\n*** Delete File: {HOOKS}\n*** End Patch\n"
    assert refusal(cid.tool("PreToolUse", "apply_patch", {"command": patch}))
    patch = f"*** Begin Patch\n*** Update File: {HOOKS}\n*** Move to: x.json\n*** End Patch\n"
    assert refusal(cid.tool("PreToolUse", "apply_patch", {"command": patch}))


def test_codex_features_can_be_set_but_not_this_one(cid: Session, root: Path) -> None:
    config = ".codex/config.toml"
    assert cid.write(root / config, 'model = "x"\n[features]\nweb = true\n') == ""
    assert "switch off" in edit(cid, config, "web = true", "web = true\nhooks = false")
    assert edit(cid, config, "web = true", "web = false") == ""
    assert "edit tool" in cid.ask(f"sed -i s/web/hooks/ {config}")


# Our own files


@pytest.mark.parametrize("client", ["claude", "codex"])
@pytest.mark.parametrize("name", [".holdfast/off", ".holdfast/ledger.db", ".holdfast/new/x"])
def test_no_agent_may_edit_the_ledger(root: Path, client: str, name: str) -> None:
    reason = Session("ann", root, client).write(root / name, "x")
    assert "it belongs to Holdfast" in reason
    assert "ask your user" in reason


@pytest.mark.parametrize("client", ["claude", "codex"])
def test_settings_of_the_gate_are_for_people(root: Path, client: str) -> None:
    agent = Session("ann", root, client)
    file = root / "holdfast.toml"
    assert "people" in agent.write(file, '[gate]\nshell = "off"\n')
    file.write_text("[gate]\nretry_seconds = 60\n")
    assert edit(agent, "holdfast.toml", "[gate]", "# said by Ann\n[gate]") == ""
    assert "people" in edit(agent, "holdfast.toml", "retry_seconds = 60", "retry_seconds = 1")
    assert "people" in agent.write(root / "holdfast.toml", "")
    assert "edit tool" in agent.ask("sed -i s/60/1/ holdfast.toml")
    assert "edit tool" in agent.ask("rm holdfast.toml")


@pytest.mark.parametrize("name", git_hooks.HOOKS)
def test_gits_hooks_are_kept_from_agents_where_they_are_ours(
    ann: Session, root: Path, name: str
) -> None:
    hook = f".git/hooks/{name}"
    assert "committing" in ann.write(root / hook, "#!/bin/sh\n")
    assert "committing" in edit(ann, hook, "exit 1", "exit 0")
    for command in (f"rm {hook}", f"echo > {hook}", "rm -rf .git/hooks", "rm -f .git/hooks/*",
                    f"mv {hook} /tmp/x", f"cd .git/hooks && cp /bin/true {name}"):  # fmt: skip
        assert "committing" in ann.ask(command), command
    assert ann.write(root / ".git/hooks/pre-push", "#!/bin/sh\n") == ""
    assert ann.ask("rm -f .git/index.lock; echo x > .git/hooks/pre-rebase") == ""


def test_the_folder_of_our_own_hooks_is_kept_from_agents(ann: Session, root: Path) -> None:
    own = root / ".git/holdfast"
    (own / "hooks").mkdir(parents=True)
    for name in ("config", "hooks/commit-msg"):
        (own / name).write_text("x\n")
        assert "committing" in ann.write(own / name, "")
        assert "committing" in ann.ask(f"rm .git/holdfast/{name}")
    for command in ("rm -rf .git/holdfast", "rm -rf .git/holdfast/hooks"):
        assert "committing" in ann.ask(command), command
    assert ann.write(root / ".git/info/exclude", "x\n") == ""


def test_hooks_that_are_not_ours_are_files_like_any_other(ann: Session, root: Path) -> None:
    (root / ".husky").mkdir()
    (root / ".husky/pre-commit").write_text("npm test\n")
    assert ann.write(root / ".husky/pre-commit", "npm run lint\n") == ""
    assert ann.write(root / ".vscode/settings.json", "{}") == ""
    assert ann.write(root / "app/config.toml", "x = 1\n") == ""
    assert ann.write(root / "app/.claude/settings.json", "{}") == ""


@pytest.mark.parametrize(
    "command",
    [f"echo '{{}}' > {LOCAL}", f"rm {LOCAL}", "rm -rf .claude", f"sed -i /hook/d {HOOKS}",
     "rm -rf .codex", "git clean -fdx .claude", "rm -rf .holdfast"],
)  # fmt: skip
def test_no_command_changes_any_of_these_files(ann: Session, command: str) -> None:
    assert "a person can" in ann.ask(command)


def test_a_file_of_settings_that_another_agent_holds_is_refused_as_such(
    ann: Session, cid: Session, root: Path
) -> None:
    assert edit(ann, LOCAL, '"model": "small"', '"model": "large"') == ""
    assert called(root, "ann") in cid.write(root / LOCAL, (root / LOCAL).read_text())


# The result of a patch


OLD = "one\ntwo\nthree\nfour\n"


@pytest.mark.parametrize(
    ("body", "new"),
    [
        ("*** Update File: f\n@@\n-two\n+TWO\n", "one\nTWO\nthree\nfour\n"),
        ("*** Update File: f\n@@\n one\n-two\n three\n", "one\nthree\nfour\n"),
        ("*** Update File: f\n@@\n-one\n+1\n@@\n-four\n+4\n*** End of File\n",
         "1\ntwo\nthree\n4\n"),
        ("*** Update File: f\n@@ three\n-four\n+4\n", "one\ntwo\nthree\n4\n"),
        ("*** Update File: f\n@@\n+end\n", f"{OLD}end\n"),
        ("*** Update File: f\n@@\n-five\n+5\n", None),
        ("*** Add File: f\n+new\n+text\n", "new\ntext\n"),
        ("*** Delete File: f\n", ""),
        ("*** Update File: f\n*** Move to: g\n@@\n-two\n+TWO\n", ""),
        ("*** Update File: g\n@@\n-two\n+TWO\n", None),
        ("*** Add File: g\n+*** Delete File: f\n*** Update File: f\n@@\n-two\n",
         "one\nthree\nfour\n"),
    ],
)  # fmt: skip
def test_what_a_patch_makes_of_a_file(body: str, new: str | None) -> None:
    assert outcome(f"*** Begin Patch\n{body}*** End Patch\n", "f", OLD) == new


def test_a_text_that_is_no_patch_makes_nothing_known() -> None:
    assert outcome("rm -rf /", "f", OLD) is None
    assert outcome("", "f", OLD) is None


def test_in_a_linked_worktree_the_same_files_are_kept(root: Path) -> None:
    feature = root.parent / "feature"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (
        ["commit", "--quiet", "--allow-empty", "--no-verify", "-m", "start"],
        ["worktree", "add", "--quiet", "--detach", str(feature)],
    ):
        subprocess.run([*git, *words], cwd=root, env=ENV, check=True, capture_output=True)
    assert (feature / HOOKS).read_text() == (
        root / HOOKS
    ).read_text()  # git's hook has created it there
    cid = Session("cid", feature, "codex")
    assert "hooks" in write(cid, HOOKS, {})
    ann = Session("ann", feature)
    assert "hooks" in refusal(ann.tool("PreToolUse", "Bash", {"command": f"rm {HOOKS}"}))
    assert not refusal(ann.tool("PreToolUse", "Bash", {"command": "rm .codex/rules"}))
