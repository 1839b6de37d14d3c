"""An agent's shell command: each file that it writes is leased to the agent, at the write."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers_commands import ClaudeLike, held, leased, line_of
from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast import LockManager
from holdfast.gate.commands import prefix_script, slips
from holdfast.gate.git import git_hooks

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux"),
    *([NEEDS_LANDLOCK] if sys.platform == "linux" else []),
]


def happened(root: Path, type: str) -> list[dict[str, object]]:
    with LockManager.open(root) as manager:
        return [dict(event.data) for event in manager.events() if event.type == type]


def writer(path: str, text: str = "program") -> str:
    return f'python3 -c \'open("{path}", "w").write("{text}")\''


# Leased


def test_seed002_01_what_a_program_writes_is_leased_to_its_agent(
    root: Path, ann: ClaudeLike
) -> None:
    assert ann.run(writer("new.txt")) == (0, "")
    assert held(root) == {"new.txt": "@claude/ann/"}
    assert (root / "new.txt").read_text() == "program"


def test_the_lease_ends_as_that_of_an_edit_does(root: Path, ann: ClaudeLike) -> None:
    git_hooks.install(str(root))
    ann.run(writer("new.txt"))
    ann.run("git add new.txt && git commit -qm new")
    assert held(root) == {}


def test_seed002_01_a_program_cannot_write_what_another_agent_holds(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    ann.edit("a.txt")
    code, out = bob.run(f"{writer('a.txt')}; echo over")
    assert "PermissionError" in out
    assert "Refused: a.txt" in out
    assert "The one retry is due in" in out
    assert (code, out.rstrip().endswith("over")) == (0, True)
    assert (root / "a.txt").read_text() == "mine\n"
    (heartbeat,) = happened(root, "contention_heartbeat")
    assert heartbeat["paths"] == ["a.txt"]


def test_a_file_made_and_removed_again_leaves_no_lease(root: Path, ann: ClaudeLike) -> None:
    ann.run("sed -i s/a/b/ a.txt; echo x > t; mv t u; rm u")
    assert held(root) == {"a.txt": "@claude/ann/"}


def test_what_git_has_made_clean_is_free(root: Path, ann: ClaudeLike) -> None:
    ann.run("git checkout -qb other && echo b > b.txt && git add . && git commit -qm b")
    code, out = ann.run("git checkout -q - && git checkout -q other")
    assert (code, out) == (0, "")
    until(lambda: held(root) == {}, "the clean files are free")


def test_stash_and_pop_in_one_line(root: Path, ann: ClaudeLike) -> None:
    ann.edit("a.txt", "changed\n")
    assert ann.run("git stash -q && git stash pop -q")[0] == 0
    assert (root / "a.txt").read_text() == "changed\n"
    assert held(root) == {"a.txt": "@claude/ann/"}


def test_ignored_files_and_new_folders_need_no_lease(root: Path, ann: ClaudeLike) -> None:
    (root / ".gitignore").write_text("build/\n")
    assert ann.run("mkdir -p build node_modules/x && touch build/o node_modules/x/i")[0] == 0
    assert held(root) == {}


def test_a_sub_agent_s_command_is_the_sub_agent_s(root: Path, ann: ClaudeLike) -> None:
    ann.run("echo x > sub.txt", agent="s1")
    assert held(root) == {"sub.txt": "@claude/ann/s1"}
    _code, out = ann.run("sh -c 'echo y > sub.txt'", agent="s2")
    assert "Refused: sub.txt" in out


def test_what_the_parent_holds_comes_down_to_its_sub_agent(root: Path, ann: ClaudeLike) -> None:
    ann.edit("a.txt")
    assert ann.run("sed -i s/mine/down/ a.txt", agent="s1") == (0, "")
    assert held(root) == {"a.txt": "@claude/ann/s1"}


def test_a_lease_that_has_ended_meanwhile_is_asked_for_again(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    command = "echo 1 > x; touch ready; until [ -e go ]; do sleep 0.02; done; echo 2 > x"
    ann.before(command)
    running = ann.start(command)
    until(lambda: (root / "ready").exists(), "the first write is done")
    with LockManager.open(root) as manager:
        for grant in manager.active_grants():
            manager.release(grant.id)
    assert bob.edit("x", "bob's\n") == ""
    (root / "go").touch()
    out, _none = running.communicate(timeout=60)
    assert "Refused: x" in out
    assert (root / "x").read_text() == "bob's\n"


# Processes left running


def test_what_an_agent_leaves_running_does_not_wake_it(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    ann.run(
        "(until [ -e go ]; do sleep 0.02; done; echo late > late.txt; touch done) >&/dev/null &"
    )
    ann.stop()
    (root / "go").touch()
    until(lambda: (root / "done").exists(), "it has written")
    until(lambda: "late.txt" not in held(root), "it holds only files that it has open")
    assert bob.edit("late.txt", "bob's\n") == ""


def test_a_process_left_running_cannot_write_a_file_that_another_holds(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    ann.run(
        "(until [ -e go ]; do sleep 0.02; done; echo bad > a.txt; touch done) >/dev/null 2>&1 &"
    )
    ann.stop()
    assert bob.edit("a.txt", "bob's\n") == ""
    (root / "go").touch()
    until(lambda: (root / "done").exists(), "it has tried")
    assert (root / "a.txt").read_text() == "bob's\n"


def test_the_killed_client_s_command_goes_on_and_keeps_its_files(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    command = "echo 1 > x; touch ready; until [ -e go ]; do sleep 0.02; done; echo 2 > x"
    ann.before(command)
    running = ann.start(command)
    until(lambda: (root / "ready").exists(), "the first write is done")
    ann.close()
    assert "x" in bob.edit("x")
    (root / "go").touch()
    running.communicate(timeout=60)
    assert (root / "x").read_text() == "2\n"


# The shell behaves as usual


@pytest.mark.parametrize(
    "command",
    [
        "exit 7",
        "echo out; echo err >&2",
        "kill -TERM $$",
        'echo "it\'s" \'a "quoted"\' $((1+1)) `echo x`',
        "cat <<'EOF'\nhere $no `no`\nEOF",
        "cd lib && pwd",
        "umask; ulimit -n; env | grep -c LC_CTYPE || true",
        "readlink /proc/$$/exe; set -o | grep -c pipefail",
        "sleep 0 & wait; jobs",
    ],
)
def test_a_command_behaves_as_without_us(root: Path, ann: ClaudeLike, command: str) -> None:
    (root / "lib").mkdir(exist_ok=True)
    alone = subprocess.run(
        ["/bin/bash", "-c", line_of(command)], cwd=root, env=ann.environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    code, out = ann.run(command)
    assert out == alone.stdout
    assert code == (alone.returncode if alone.returncode >= 0 else 128 - alone.returncode)


def test_where_the_command_ended_is_written_down(root: Path, ann: ClaudeLike) -> None:
    ann.before("cd lib")
    words = [prefix_script.path_of(str(root)), line_of("cd lib", str(root.parent / "cwd"))]
    subprocess.run(words, cwd=root, env=ann.environment, check=True)
    assert (root.parent / "cwd").read_text() == f"{root}/lib\n"


def test_the_user_s_own_prefix_runs_behind_ours(root: Path, ann: ClaudeLike) -> None:
    own = root.parent / "own"
    own.write_text('#!/bin/sh\necho "before"; exec /bin/sh -c "$1"\n')
    own.chmod(0o755)
    leased(root, str(own))
    assert ann.run("echo x > new.txt; cat new.txt") == (0, "before\nx\n")
    assert held(root) == {"new.txt": "@claude/ann/"}


# Without a slip


def test_a_line_without_a_slip_runs_as_it_is(root: Path, ann: ClaudeLike, bob: ClaudeLike) -> None:
    bob.edit("a.txt")
    done = ann.start("echo by-hand > a.txt")
    assert done.communicate(timeout=60)[0] == ""
    assert (root / "a.txt").read_text() == "by-hand\n", "a person may"


def test_another_hook_runs_directly(root: Path, ann: ClaudeLike) -> None:
    ann.before("echo hook")
    env = {**ann.environment, "CLAUDE_PROJECT_DIR": str(root), "SHELL": "/bin/false"}
    words = [prefix_script.path_of(str(root)), "echo hook; readlink /proc/$$/exe"]
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"hook\n{os.path.realpath('/bin/sh')}\n"


def test_without_python_every_line_runs_as_it_is(root: Path, ann: ClaudeLike) -> None:
    script = Path(prefix_script.path_of(str(root)))
    script.write_text(script.read_text().replace(sys.executable, "/nowhere/python"))
    done = ann.start("echo x")
    assert done.communicate(timeout=60)[0] == "x\n"


def test_a_command_that_never_claimed_its_slip_is_told_to_the_user(
    root: Path, ann: ClaudeLike
) -> None:
    ann.before("echo x")
    said = ann.after("echo x", 0)
    assert "ran without leases" in said["systemMessage"]


def test_one_slip_is_claimed_by_one_process(root: Path, ann: ClaudeLike) -> None:
    ann.before("echo x")
    folder = str(root / ".holdfast")
    assert slips.claim(folder, "bob", "echo x") is None
    assert slips.claim(folder, "ann", "echo y") is None
    assert slips.claim(folder, "ann", "echo x") is not None
    assert slips.claim(folder, "ann", "echo x") is None


def test_an_mcp_server_is_the_session_s(root: Path, ann: ClaudeLike, bob: ClaudeLike) -> None:
    bob.edit("a.txt")
    ann.edit("sub.txt", agent="s1")
    env = {**ann.environment, "CLAUDE_PROJECT_DIR": str(root)}
    del env["CLAUDE_PID"]
    line = "echo new > new.txt; echo for-s1 > sub.txt; echo bad > a.txt; sleep 0.3"
    words = [prefix_script.path_of(str(root)), line]
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert "Refused: a.txt" in done.stderr
    assert (root / "a.txt").read_text() == "mine\n"
    assert (root / "sub.txt").read_text() == "for-s1\n", "the hook of the call permitted that"
    assert held(root)["new.txt"] == "@claude/ann/"


# Which commands are leased


def test_what_cannot_run_below_a_broker_is_guarded_and_told_once(
    root: Path, ann: ClaudeLike
) -> None:
    first = ann.before("sudo true")["hookSpecificOutput"]["additionalContext"]
    assert first.startswith("holdfast: sudo cannot run below a broker")
    assert not list((root / ".holdfast").glob("slips/*"))
    assert ann.before("sudo true") == {}


def test_a_setting_names_other_commands(root: Path, ann: ClaudeLike) -> None:
    (root / "holdfast.toml").write_text('[gate]\nlease_except = ["mytool"]\n')
    ann.before("mytool --x")
    assert not list((root / ".holdfast").glob("slips/*"))
    ann.before("sudo true")
    assert list((root / ".holdfast").glob("slips/*"))


@pytest.mark.parametrize("setting", ["guard", "off"])
def test_other_settings_leave_no_slip(root: Path, ann: ClaudeLike, setting: str) -> None:
    (root / "holdfast.toml").write_text(f'[gate]\nshell = "{setting}"\n')
    ann.run(writer("new.txt"))
    assert held(root) == {}


def test_enforce_means_the_same_as_lease(root: Path, ann: ClaudeLike) -> None:
    (root / "holdfast.toml").write_text('[gate]\nshell = "enforce"\n')
    ann.run(writer("new.txt"))
    assert held(root) == {"new.txt": "@claude/ann/"}


def test_lines_of_holdfast_run_without_a_broker(root: Path, ann: ClaudeLike) -> None:
    ann.edit("a.txt")
    holdfast = f"{os.path.dirname(sys.executable)}/holdfast"
    code, out = ann.run(f"{holdfast} unlock a.txt")
    assert code == 0, out
    assert held(root) == {}


def test_claude_s_own_sandbox_is_guarded(root: Path, ann: ClaudeLike) -> None:
    (root / ".claude").mkdir()
    (root / ".claude/settings.json").write_text('{"sandbox": {"enabled": true}}')
    ann.before("make")
    assert not list((root / ".holdfast").glob("slips/*"))


def test_in_that_sandbox_a_leased_command_is_not_run(root: Path, ann: ClaudeLike) -> None:
    ann.before("echo x > new.txt")
    words = [prefix_script.path_of(str(root)), line_of("echo x > new.txt")]
    env = {**ann.environment, "SANDBOX_RUNTIME": "1"}
    done = subprocess.run(words, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 126
    assert "Claude Code's own sandbox" in done.stderr
    assert not (root / "new.txt").exists()


# Refused early and clearly


def test_what_the_line_plainly_writes_and_another_holds_is_refused_before_it_runs(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    (root / "holdfast.toml").write_text("[gate]\nhold_seconds = 0\n")
    ann.edit("a.txt")
    code, out = bob.run("echo started > other.txt; echo bad > a.txt")
    assert code == -1
    assert out.startswith("Refused: a.txt")
    assert not (root / "other.txt").exists()


def test_nothing_is_leased_before_the_write(root: Path, ann: ClaudeLike) -> None:
    ann.before("echo x > a.txt; rm -rf lib")
    assert held(root) == {}


def test_a_blocked_agent_writes_nothing_by_commands(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    (root / "holdfast.toml").write_text(
        "[gate]\nhold_seconds = 0\nretry_seconds = 0.3\nwake = false\n"
    )
    ann.edit("a.txt")
    bob.run(writer("a.txt"))
    time.sleep(0.4)
    code, out = bob.run(writer("a.txt"))
    assert "state=waiting_for_instruction" in out
    assert len(happened(root, "agent_blocked")) == 1
    code, out = bob.run(writer("free.txt"))
    assert code == -1
    assert not (root / "free.txt").exists()


# Commits


def test_a_commit_with_another_s_file_is_refused_by_git_s_hook(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    git_hooks.install(str(root))
    ann.edit("a.txt")
    code, out = bob.run("git commit -qam stolen")
    assert code != 0
    assert "a.txt" in out


def test_a_commit_frees_what_the_agent_has_edited_before(root: Path, ann: ClaudeLike) -> None:
    git_hooks.install(str(root))
    ann.edit("a.txt", "edited\n")
    command = "git commit -qam done; touch made; until [ -e go ]; do sleep 0.02; done"
    ann.before(command)
    running = ann.start(command)
    until(lambda: (root / "made").exists(), "it is committed")
    until(lambda: "a.txt" not in held(root), "free while the command still runs")
    (root / "go").touch()
    running.communicate(timeout=60)


# Programs cannot change the files that switch the gate


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".holdfast/off", ""),
        (".holdfast/ledger.db", "x"),
        (".holdfast/slips/forged", "{}"),
        (".holdfast/shell-prefix", "#!/bin/sh\n"),
        (".git/hooks/pre-commit", "#!/bin/sh\n"),
        (".claude/settings.local.json", "{}"),
        (".codex/hooks.json", "{}"),
        ("holdfast.toml", '[gate]\nshell = "off"\n'),
    ],
)
def test_a_program_cannot_switch_the_gate_off(
    root: Path, ann: ClaudeLike, path: str, text: str
) -> None:
    for folder in (".claude", ".codex", ".git/hooks", ".holdfast/slips"):
        (root / folder).mkdir(exist_ok=True)
    (root / ".claude/settings.local.json").write_text('{"hooks": {}}')
    (root / ".codex/hooks.json").write_text('{"hooks": {}}')
    (root / "holdfast.toml").write_text("[gate]\n")
    file = root / path
    before = file.read_bytes() if file.exists() else None
    for way in (
        f"open({path!r}, 'w').write({text!r})",
        f"import os; open('t', 'w').write({text!r}); os.replace('t', {path!r})",
        f"import os; os.unlink({path!r})",
    ):
        ann.run(f"python3 -c {shlex.quote(way)}")
        if path == ".holdfast/ledger.db":
            assert file.read_bytes()[:16] == b"SQLite format 3\0"
        else:
            assert (file.read_bytes() if file.exists() else None) == before, way
