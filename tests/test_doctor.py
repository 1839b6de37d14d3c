"""holdfast doctor: a guard that holds is said to, and every one that does not is found out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import is_gone
from helpers_doctor import (
    COMMIT,
    DENIAL,
    EDIT,
    FREE_COMMIT,
    SHELL,
    STORE,
    WORK,
    Clinic,
    examined,
    script,
    states,
)
from helpers_init import SOURCE, Installation, tree
from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK, OLD_KERNEL
from holdfast.core.model import Holder, agent_key
from holdfast.manager.liveness import witness_of
from holdfast.manager.manager import LockManager

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are run by a POSIX shell")


@pytest.fixture
def here(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


# A guard that holds


def test_everything_that_is_forbidden_is_tried_and_held(here: Clinic) -> None:
    found = here.doctor(code=0)
    for client in ("claude", "codex"):
        assert {check: found[client, check]["state"] for check in (EDIT, SHELL, WORK, STORE)} == {
            EDIT: "held", SHELL: "held", WORK: "held", STORE: "held",
        }  # fmt: skip
        assert found[client, "hooks"]["state"] == "held"
    git_states = states(found, "git")
    assert git_states == {"hooks": "held", COMMIT: "held", FREE_COMMIT: "held"}
    assert found["ledger", "reading"]["state"] == "held"


@NEEDS_LANDLOCK
def test_a_sandboxed_write_is_tried_where_the_kernel_can(here: Clinic) -> None:
    assert here.doctor(code=0)["sandbox", "a sandboxed write"]["state"] == "held"


def test_a_kernel_that_cannot_is_told_and_is_no_failure(here: Clinic) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OLD_KERNEL, "1", "doctor", "--json"],
        cwd=here.root, env={**os.environ, **here.env}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = {one["about"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["sandbox"]["state"] == "skipped"
    assert "version 1" in found["sandbox"]["detail"]


def test_nothing_of_the_users_is_touched(here: Clinic) -> None:
    assert here.hold("lock", "app/x.rb", "--holder", "somebody").code == 0
    before, events = tree(here.root), here.repository.events()
    home = sorted(here.home.rglob("*"))
    here.doctor(code=0)
    assert tree(here.root) == before
    assert here.repository.events() == events
    assert sorted(here.home.rglob("*")) == home


def test_who_asks_makes_no_difference(here: Clinic) -> None:
    env = {
        "HOLDFAST_GRANT": "a-grant", "HOLDFAST_TOKEN": "1", "CLAUDE_PID": "1",
        "CLAUDE_CODE_SESSION_ID": "doctor-owner", "CODEX_SESSION_ID": "doctor-owner",
        "GIT_DIR": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent/index",
    }  # fmt: skip
    found = here.doctor(code=0, **env)
    assert found["claude", EDIT]["state"] == found["git", COMMIT]["state"] == "held"


def test_people_get_a_table_and_the_fixes_whole(here: Clinic) -> None:
    here.script.write_text(script("sys.exit(1)"))
    answer = here.hold("doctor", env={"COLUMNS": "60"})
    assert answer.code == 1
    table, _, rest = answer.out.partition("\n\n")
    assert table.startswith("WHO")
    assert all(len(line) <= 60 for line in table.splitlines())
    assert "claude, a forbidden edit: Write is not stopped by its hook: it ended with 1" in rest
    assert "  -> holdfast doctor --fix, or holdfast init" in rest
    assert " failed\n" in rest


# Hooks that do not hold


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sys.exit(1)", "it ended with 1"),
        ("print('Traceback', file=sys.stderr); sys.exit(1)", "it ended with 1: Traceback"),
        ("pass", "its answer does not block"),
        ("print('no')", "its answer does not block"),
        ("print(json.dumps({'continue': False}))", "its answer does not block"),
        ("print(json.dumps({'hookSpecificOutput': {'permissionDecision': 'deny'}}))", "not block"),
        ("os.kill(os.getpid(), 9)", "it ended with -9"),
    ],
)
def test_a_hook_that_lets_pass_is_found(here: Clinic, text: str, said: str) -> None:
    here.script.write_text(script(text))
    found = here.doctor(code=1)
    for client in ("claude", "codex"):
        for check in (EDIT, SHELL, STORE):
            assert found[client, check]["state"] == "failed"
            assert said in found[client, check]["detail"] or "137" in found[client, check]["detail"]
            assert "holdfast init" in found[client, check]["fix"]


def test_a_command_that_is_not_there_is_found(here: Clinic) -> None:
    for client, file in (("claude", here.claude), ("codex", here.codex)):
        here.before_tools(file, command=f"/nonexistent/python -I -S {here.script} {client}")
    found = here.doctor(code=1)
    for client in ("claude", "codex"):
        assert states(found, client)[EDIT] == "failed"
        assert states(found, client)["hooks"] == "failed"
        assert "127" in found[client, EDIT]["detail"]


def test_a_wrapper_that_swallows_the_refusal_is_found(here: Clinic) -> None:
    here.before_tools(here.claude, command=f"{here.line('claude')} >/dev/null || true")
    found = here.doctor(code=1)
    assert states(found, "claude")[EDIT] == states(found, "claude")[SHELL] == "failed"
    assert states(found, "codex")[EDIT] == "held"


def test_a_hook_that_comes_too_late_is_found_and_ended(here: Clinic, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    text = f"open({str(note)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(600)"
    here.script.write_text(script(text))
    for file in (here.claude, here.codex):
        here.before_tools(file, timeout=1)
    (here.root / ".git/hooks/pre-commit").unlink()  # it would be waited for, too
    begin = time.monotonic()
    found = here.doctor(code=1)
    assert time.monotonic() - begin < 60
    for client in ("claude", "codex"):
        assert states(found, client)[EDIT] == "failed"
        assert "no answer within 1 s" in found[client, EDIT]["detail"]
        assert states(found, client)[WORK] == "skipped"
    pids = [int(pid) for pid in note.read_text().split()]
    assert pids
    until(lambda: all(map(is_gone, pids)), "the hooks are ended")


def test_our_patience_ends_before_the_clients(here: Clinic) -> None:
    here.script.write_text(script("time.sleep(600)"))
    by_edit = {
        one.about: one for one in examined(here, patience_seconds=0.5) if one.check == EDIT
    }  # fmt: skip
    assert by_edit["claude"].state == by_edit["codex"].state == "failed"
    assert "no answer within 0.5 s" in by_edit["claude"].detail


def test_a_hook_that_refuses_everything_is_found(here: Clinic) -> None:
    here.script.write_text(script(f"print({json.dumps(json.dumps(DENIAL))})"))
    found = here.doctor(code=1)
    for client in ("claude", "codex"):
        assert states(found, client)[EDIT] == "held"
        assert states(found, client)[WORK] == "failed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data["hooks"].pop("PreToolUse"), "no hook of ours for PreToolUse"),
        (lambda data: data["hooks"]["PreToolUse"][0].update(matcher="Bash"), "not among them"),
        (lambda data: data["hooks"]["PreToolUse"][0]["hooks"][0].update(type="prompt"), "changed"),
        (lambda data: data["hooks"]["PreToolUse"][0]["hooks"][0].update({"async": True}), "chang"),
        (lambda data: data.update(disableAllHooks=True), "disableAllHooks"),
    ],
)
def test_a_hook_that_the_client_would_not_start_is_found(
    here: Clinic, change: Any, said: str
) -> None:
    here.set(here.claude, change)
    found = here.doctor(code=1)
    assert found["claude", EDIT]["state"] == "failed"
    assert said in found["claude", EDIT]["detail"]
    assert found["claude", "hooks"]["state"] == "failed"


def test_one_tool_that_is_not_guarded_is_enough(here: Clinic) -> None:
    here.set(
        here.claude, lambda data: data["hooks"]["PreToolUse"][0].update(matcher="Write|Edit|Bash")
    )
    found = here.doctor(code=1)
    assert "NotebookEdit" in found["claude", EDIT]["detail"]
    assert found["claude", SHELL]["state"] == "held"


@pytest.mark.parametrize("text", [None, "", "{", "// mine\n{}", '{"hooks": {}}'])
def test_settings_without_hooks_are_found(here: Clinic, text: str | None) -> None:
    if text is None:
        here.claude.unlink()
    else:
        here.claude.write_text(text)
    found = here.doctor(code=1)
    assert {states(found, "claude")[check] for check in ("hooks", EDIT, SHELL, STORE)} == {"failed"}


def test_a_file_that_codex_rejects_is_found(here: Clinic) -> None:
    here.set(here.codex, lambda data: data.update(mine=1))
    found = here.doctor(code=1)
    assert "rejects the whole .codex/hooks.json" in found["codex", EDIT]["detail"]


def test_where_there_are_no_hooks_nothing_is_fine(tmp_path: Path) -> None:
    bare = Installation(tmp_path)
    answer = bare.hold("doctor", "--json")
    assert answer.code == 1
    assert "there are no hooks here" in answer.out
    assert not (bare.root / ".holdfast").exists()


# git


def test_a_commit_hook_that_is_gone_or_lets_pass_is_found(here: Clinic) -> None:
    hook = here.root / ".git/hooks/pre-commit"
    text = hook.read_text()
    hook.unlink()
    assert states(here.doctor(code=1), "git")[COMMIT] == "failed"
    hook.write_text(text)
    hook.chmod(0o644)
    found = here.doctor(code=1)
    assert states(found, "git")["hooks"] == states(found, "git")[COMMIT] == "failed"
    assert "was committed" in found["git", COMMIT]["detail"]
    hook.write_text(text.replace("ask || refuse", "exit 0"))
    hook.chmod(0o755)
    assert states(here.doctor(code=1), "git")[COMMIT] == "failed"
    hook.write_text(text.replace("ask || refuse", "exit 1"))
    found = here.doctor(code=1)
    assert states(found, "git")[FREE_COMMIT] == "failed"


def test_what_runs_before_our_commit_hook_is_not_started(tmp_path: Path) -> None:
    bare = Installation(tmp_path)
    hook = bare.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    hook.chmod(0o755)
    shutil.copy(SOURCE / "gate/hook.py", bare.script)
    bare.init("--client", "claude", "--git")
    answer = bare.hold("doctor", "--json")
    assert answer.code == 0, answer
    assert not (tmp_path / "started").exists()


def test_a_hook_manager_that_stashes_is_named(here: Clinic) -> None:
    (here.root / ".pre-commit-config.yaml").write_text("repos: []\n")
    before = here.root / ".git/hooks/pre-commit.holdfast-before"
    before.write_text("#!/bin/sh\n# File generated by pre-commit: https://pre-commit.com\n")
    before.chmod(0o755)
    here.init("--client", "claude,codex", "--git")
    found = here.doctor(code=0)
    assert found["git", "commits"]["state"] == "note"
    assert "pre-commit puts everybody's unstaged work aside" in found["git", "commits"]["detail"]


def test_without_hooks_of_git_that_is_told(tmp_path: Path) -> None:
    bare = Installation(tmp_path)
    shutil.copy(SOURCE / "gate/hook.py", bare.script)
    bare.init("--client", "claude")
    found = bare.hold("doctor", "--json").json["findings"]
    assert [one["state"] for one in found if one["check"] == COMMIT] == ["skipped"]


# What can be seen


def test_a_gate_that_is_off_is_not_fine(here: Clinic) -> None:
    (here.root / ".holdfast/off").write_text("{}")
    found = here.doctor(code=1)
    assert found["gate", "switch"]["fix"] == "holdfast on"
    assert found["claude", EDIT]["state"] == "held"  # the hooks themselves are well


def test_settings_that_are_wrong_are_not_fine(here: Clinic) -> None:
    (here.root / "holdfast.toml").write_text("[gate]\nshel = 'guard'\n")
    found = here.doctor(code=1)
    assert "line 2" in found["settings", "holdfast.toml"]["detail"]


def test_commands_that_are_kept_in_a_sandbox_are_fine(here: Clinic) -> None:
    (here.root / "holdfast.toml").write_text('[gate]\nshell = "enforce"\n')
    found = here.doctor(code=0)
    assert found["claude", WORK]["state"] == "held"
    assert found["claude", SHELL]["state"] == "held"


def test_shell_commands_that_nobody_wants_guarded_are_not_tried(here: Clinic) -> None:
    (here.root / "holdfast.toml").write_text('[gate]\nshell = "off"\n')
    found = here.doctor(code=0)
    assert found["claude", SHELL]["state"] == "skipped"
    assert found["claude", EDIT]["state"] == "held"


def test_a_ledger_that_cannot_be_read_is_not_fine(here: Clinic) -> None:
    for end in ("", "-wal", "-shm"):
        (here.root / f".holdfast/ledger.db{end}").unlink(missing_ok=True)
    (here.root / ".holdfast/ledger.db").write_text("rubbish\n" * 1000)
    found = here.doctor(code=1)
    assert found["ledger", "reading"]["state"] == "failed"
    assert found["ledger", "reading"]["fix"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "DOCTOR_MARK": "orphan"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env) as one:
        yield one
        one.kill()


def leased(here: Clinic, pid: int, *paths: str, marks: tuple[str, ...] = ()) -> None:
    """An agent with that process has leases."""
    witness = witness_of(pid)
    assert witness is not None
    holder = Holder(
        id="claude:gone", key=agent_key("claude", "gone"), witness=witness, marks=marks
    )  # fmt: skip
    with LockManager.open(str(here.root)) as manager:
        for path in paths:
            file = str(here.root / path)
            assert manager.try_acquire(holder=holder, write_paths=[file], ttl=None)


def test_leases_of_the_dead_are_found_and_cleared_away(
    here: Clinic, sleeper: subprocess.Popen[bytes]
) -> None:
    leased(here, sleeper.pid, "app/x.rb", "app/y.rb")
    assert ("ledger", "stale leases") not in here.doctor(code=0)
    sleeper.kill()
    sleeper.wait()
    told = here.doctor(code=0)["ledger", "stale leases"]
    assert told["state"] == "note"
    assert "app/x.rb" in told["detail"]
    found = here.doctor("--fix", code=0)
    assert ("ledger", "stale leases") not in found
    [done] = here.answer.json["fixed"]
    assert done["what"] == "cleared away 2 leases that had ended, of claude:gone"
    assert here.repository.grants("--all") == []


@pytest.mark.skipif(sys.platform != "linux", reason="marks are looked for on Linux only")
def test_orphans_that_keep_leases_are_named(here: Clinic, sleeper: subprocess.Popen[bytes]) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    leased(here, owner.pid, "app/x.rb", marks=("DOCTOR_MARK=orphan",))
    owner.kill()
    owner.communicate()
    told = here.doctor("--fix", code=0)["ledger", "orphan processes"]
    assert "app/x.rb" in told["detail"]
    assert str(sleeper.pid) in told["fix"].split()
    assert sleeper.poll() is None


# Putting right


def test_hooks_are_put_right_as_init_would(here: Clinic) -> None:
    before = tree(here.root)
    here.before_tools(here.claude, command=f"/nonexistent/python {here.script} claude")
    here.codex.unlink()
    (here.root / ".git/hooks/post-commit").unlink()
    here.doctor(code=1)
    found = here.doctor("--fix", code=0)
    assert found["claude", EDIT]["state"] == found["codex", EDIT]["state"] == "held"
    told = [one["what"] for one in here.answer.json["fixed"]]
    assert [what.partition(" (")[0] for what in told] == [
        "wrote .claude/settings.local.json", "wrote .codex/hooks.json",
        "wrote .git/hooks/post-commit",
    ]  # fmt: skip
    assert ".holdfast/backup/" in told[0]
    assert json.loads(before[".claude/settings.local.json"][1]) == json.loads(
        here.claude.read_text()
    )
    assert here.hold("init", "--check").code == 0
    here.doctor("--fix", code=0)
    assert here.answer.json["fixed"] == []


def test_what_a_person_decided_is_left_alone(here: Clinic) -> None:
    (here.root / ".holdfast/off").write_text("{}")
    (here.root / "holdfast.toml").write_text("[gate]\nnone = 1\n")
    here.claude.unlink()
    here.doctor("--fix", code=1)
    [told] = here.answer.json["fixed"]
    assert told["done"] is False
    assert "holdfast.toml, line 2" in told["what"]
    assert (here.root / ".holdfast/off").exists()
    assert not here.claude.exists()


def test_where_nothing_is_installed_nothing_is_put_in(tmp_path: Path) -> None:
    bare = Installation(tmp_path)
    before = tree(bare.root)
    assert bare.hold("doctor", "--fix").code == 1
    assert tree(bare.root) == before


def test_a_copy_that_cannot_work_is_not_written(here: Clinic) -> None:
    """The doctor's own hook is broken, so writing it anew would not help."""
    here.script.write_text(script("sys.exit(1)"))
    here.codex.unlink()
    here.doctor("--fix", code=1)
    assert here.answer.json["fixed"][0]["done"] is False
    assert not here.codex.exists()
