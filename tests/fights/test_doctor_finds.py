"""Everything that the doctor can find, case by case; the fast suite has a few of the cases."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers_cli import is_gone
from helpers_doctor import (
    COMMIT,
    DENIAL,
    EDIT,
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
from helpers_sandbox import OLD_KERNEL
from test_doctor import leased, sleeper

__all__ = ["sleeper"]  # a fixture

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are run by a POSIX shell")


@pytest.fixture
def here(tmp_path: Path) -> Clinic:
    """An installation whose package the test may change."""
    return Clinic(tmp_path)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pass", "its answer does not block"),
        ("print('no')", "its answer does not block"),
        ("print(json.dumps({'continue': False}))", "its answer does not block"),
        ("print(json.dumps({'hookSpecificOutput': {'permissionDecision': 'deny'}}))", "not block"),
    ],
)
def test_a_hook_that_lets_pass_is_found(here: Clinic, text: str, said: str) -> None:
    here.script.write_text(script(text))
    found = here.doctor(code=1)
    for client in ("claude", "codex"):
        for check in (EDIT, SHELL, STORE):
            assert found[client, check]["state"] == "failed"
            assert said in found[client, check]["detail"]
            assert "holdfast init" in found[client, check]["fix"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sys.exit(1)", "it ended with 1"),
        ("print('Traceback', file=sys.stderr); sys.exit(1)", "it ended with 1: Traceback"),
        ("os.kill(os.getpid(), 9)", "it ended with -9"),
    ],
)
def test_a_hook_that_fails_lets_nothing_pass_and_is_found(
    here: Clinic, text: str, said: str
) -> None:
    here.script.write_text(script(text))
    found = here.doctor(code=1)
    for client in ("claude", "codex"):
        for check in (EDIT, SHELL, STORE):
            assert found[client, check]["state"] == "held"
        assert found[client, WORK]["state"] == "failed"
        assert "holdfast init" in found[client, WORK]["fix"]
    assert said in found["claude", WORK]["detail"]


def test_a_hook_of_an_older_form_that_fails_lets_everything_pass_and_is_found(
    here: Clinic,
) -> None:
    here.script.write_text(script("sys.exit(1)"))
    for client, file in (("claude", here.claude), ("codex", here.codex)):
        here.in_a_shell(file, here.line(client))
    found = here.doctor(code=1)
    for client in ("claude", "codex"):
        assert "it ended with 1" in found[client, EDIT]["detail"]
        assert "has an older form" in found[client, "hooks"]["detail"]


def test_a_command_that_is_not_there_is_found(here: Clinic) -> None:
    for client, file in (("claude", here.claude), ("codex", here.codex)):
        here.in_a_shell(file, f"/nonexistent/python -I -S {here.script} {client}")
    found = here.doctor(code=1)
    for client in ("claude", "codex"):
        assert states(found, client)[EDIT] == "failed"
        assert states(found, client)["hooks"] == "failed"
        assert "127" in found[client, EDIT]["detail"]


def test_a_hook_that_comes_too_late_is_found_and_ended(here: Clinic, tmp_path: Path) -> None:
    note = tmp_path / "pids"
    text = f"open({str(note)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(600)"
    here.script.write_text(script(text))
    for file in (here.claude, here.codex):
        here.before_tools(file, timeout=1)
    (here.root / ".git/hooks/pre-commit").unlink()  # the doctor would wait for it, too
    begin = time.monotonic()
    found = here.doctor(code=1)
    assert time.monotonic() - begin < 60
    assert states(found, "codex")[EDIT] == "failed"  # Codex lets it pass if the hook is late
    assert "no answer within 1 s" in found["codex", EDIT]["detail"]
    assert states(found, "codex")[WORK] == "skipped"
    assert states(found, "claude")[EDIT] == "held"
    assert "no answer within 1 s" in found["claude", WORK]["detail"]
    pids = [int(pid) for pid in note.read_text().split()]
    assert pids
    until(lambda: all(map(is_gone, pids)), "the hooks are ended")


def test_our_patience_ends_before_the_clients(here: Clinic) -> None:
    here.script.write_text(script("time.sleep(600)"))
    found = {(one.about, one.check): one for one in examined(here, patience_seconds=0.5)}
    assert found["claude", WORK].state == found["codex", EDIT].state == "failed"
    for one in (found["claude", WORK], found["codex", EDIT]):
        assert "no answer within 0.5 s" in one.detail


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
        (lambda data: data["hooks"]["PreToolUse"][0].update(matcher="Bash"), "does not match"),
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


@pytest.mark.parametrize(
    "text", ["# File generated by pre-commit: https://pre-commit.com", "overcommit --run"]
)
def test_a_hook_manager_is_named_that_stashes_what_cannot_be_hidden_from_it(
    here: Clinic, text: str
) -> None:
    (here.root / ".pre-commit-config.yaml").write_text("repos: []\n")
    before = here.root / ".git/hooks/pre-commit.holdfast-before"
    before.write_text(f"#!/bin/sh\n{text}\n")
    before.chmod(0o755)
    here.init("--client", "claude,codex", "--git")
    found = here.doctor(code=0)
    told = found.get(("git", "commits"), {"state": "", "detail": ""})
    if text.startswith("overcommit"):
        assert told["state"] == "note"
        assert "overcommit stashes all unstaged work" in told["detail"]
    else:
        assert told["state"] == ""


def test_without_hooks_of_git_that_is_told(tmp_path: Path) -> None:
    bare = Installation(tmp_path)
    shutil.copy(SOURCE / "gate/hook.py", bare.script)
    bare.init("--client", "claude")
    found = bare.hold("doctor", "--json").json["findings"]
    assert [one["state"] for one in found if one["check"] == COMMIT] == ["skipped"]


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
    """The doctor's own hook is broken, so writing the copy again would not help."""
    here.script.write_text(script("sys.exit(1)"))
    here.codex.unlink()
    here.doctor("--fix", code=1)
    assert here.answer.json["fixed"][0]["done"] is False
    assert not here.codex.exists()
