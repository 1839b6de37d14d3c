"""holdfast doctor: it confirms a guard that works, and finds each one that does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_doctor import (
    COMMIT,
    EDIT,
    FREE_COMMIT,
    SHELL,
    STORE,
    WORK,
    Clinic,
    script,
    states,
)
from helpers_init import Installation, Site, tree
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.core.model import Holder, agent_key
from holdfast.gate.doctor import inspection
from holdfast.gate.sandbox.kernel import landlock
from holdfast.manager.manager import LockManager
from holdfast.manager.owners.liveness import witness_of

pytestmark = pytest.mark.skipif(os.name != "posix", reason="hooks are run by a POSIX shell")


@pytest.fixture
def here(tmp_path: Path, real_site: Site) -> Clinic:
    return Clinic(tmp_path, real_site)


@pytest.fixture
def own(tmp_path: Path) -> Clinic:
    """An installation whose package a test may change."""
    return Clinic(tmp_path)


# A guard that works


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, real_site: Site
) -> dict[tuple[str, str], dict[str, Any]]:
    """The findings about a guard without faults."""
    return Clinic(tmp_path_factory.mktemp("clinic"), real_site).doctor(code=0)


def test_everything_that_is_forbidden_is_tried_and_held(
    found: dict[tuple[str, str], dict[str, Any]],
) -> None:
    for client in ("claude", "codex"):
        assert {check: found[client, check]["state"] for check in (EDIT, SHELL, WORK, STORE)} == {
            EDIT: "held", SHELL: "held", WORK: "held", STORE: "held",
        }  # fmt: skip
        assert found[client, "hooks"]["state"] == "held"
    git_states = states(found, "git")
    assert git_states == {"hooks": "held", COMMIT: "held", FREE_COMMIT: "held"}
    assert found["ledger", "reading"]["state"] == "held"


@NEEDS_LANDLOCK
def test_a_sandboxed_write_is_tried_where_the_kernel_can(
    found: dict[tuple[str, str], dict[str, Any]],
) -> None:
    assert found["sandbox", "a sandboxed write"]["state"] == "held"
    assert found["sandbox", "a write below a broker"]["state"] == "held"
    scoped = landlock.support().scopes_signals
    signal = found["sandbox", "a sandboxed signal"]
    assert signal["state"] == ("held" if scoped else "note")
    assert scoped or "6.12" in signal["detail"]


def test_people_get_a_table_and_the_fixes_whole(own: Clinic) -> None:
    own.script.write_text(script("sys.exit(1)"))
    answer = own.hold("doctor", env={"COLUMNS": "60"})
    assert answer.code == 1
    table, _, rest = answer.out.partition("\n\n")
    assert table.startswith("WHO")
    assert all(len(line) <= 60 for line in table.splitlines())
    assert "claude, free work: Write was refused although the file is free: it " in rest
    assert "  -> holdfast doctor --fix, or holdfast init" in rest
    assert " failed\n" in rest


def test_a_wrapper_that_swallows_the_refusal_is_found(here: Clinic) -> None:
    here.in_a_shell(here.claude, f"{here.line('claude')} >/dev/null || true")
    found = here.doctor(code=1)
    assert states(found, "claude")[EDIT] == states(found, "claude")[SHELL] == "failed"
    assert states(found, "codex")[EDIT] == "held"


def test_where_there_are_no_hooks_nothing_is_fine(tmp_path: Path, stub_site: Site) -> None:
    bare = Installation(tmp_path, stub_site)
    answer = bare.hold("doctor", "--json")
    assert answer.code == 1
    assert "no hooks are installed here" in answer.out
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


# Visible states


def test_a_gate_that_is_off_is_not_fine(here: Clinic) -> None:
    (here.root / ".holdfast/off").write_text("{}")
    found = here.doctor(code=1)
    assert found["gate", "switch"]["fix"] == "holdfast on"
    assert found["claude", EDIT]["state"] == "held"  # the hooks themselves work


def test_a_command_to_notify_that_is_not_there_is_noted(
    here: Clinic, found: dict[tuple[str, str], dict[str, Any]]
) -> None:
    assert ("settings", "notify") not in found
    settings = here.root / "holdfast.toml"
    settings.write_text('notify = ["no-such-program", "Holdfast"]\n')
    told = here.doctor(code=0)["settings", "notify"]
    assert (told["state"], told["fix"]) == (
        "note",
        "install it, or correct notify in holdfast.toml",
    )
    assert "no-such-program" in told["detail"]


@pytest.mark.parametrize(
    ("program", "is_there"),
    [("tell", True), ("./tools/shout", True), ("/bin/sh", True), ("shout", False),
     ("./tell", False), ("tools/quiet", False), ("/nowhere/tell", False)],
)  # fmt: skip
def test_it_is_looked_for_where_it_will_be_started(
    tmp_path: Path, program: str, is_there: bool
) -> None:
    for file in ("bin/tell", "root/tools/shout", "root/tools/quiet"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("#!/bin/sh\n")
        (tmp_path / file).chmod(0o644 if "quiet" in file else 0o755)
    (tmp_path / "root/holdfast.toml").write_text(f'notify = ["{program}"]\n')
    found = inspection.gate(f"{tmp_path}/root", {"PATH": f"{tmp_path}/bin"})
    assert [one.check for one in found] == ([] if is_there else ["notify"])


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    env = {**os.environ, "DOCTOR_MARK": "orphan"}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=env) as one:
        yield one
        one.kill()


def leased(here: Clinic, pid: int, *paths: str, marks: tuple[str, ...] = ()) -> None:
    """Give an agent with that process leases."""
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
    assert done["what"] == "removed 2 leases that had ended, of claude:gone"
    assert here.repository.grants("--all") == []


# Repairs


def test_hooks_are_put_right_as_init_would(here: Clinic) -> None:
    before = tree(here.root)
    here.in_a_shell(here.claude, f"/nonexistent/python {here.script} claude")
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
