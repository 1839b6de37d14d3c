"""Agents' shell commands under attack: odd texts, odd folders, races, and kills."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from helpers_commands import ClaudeLike, held, line_of
from helpers_guard import ENV, made_repository, sh
from helpers_processes import until
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast.gate.commands import prefix_script, slips
from holdfast.gate.commands.shell_lines import evaluated
from holdfast.gate.git import git_hooks

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux"),
    *([NEEDS_LANDLOCK] if sys.platform == "linux" else []),
]


def brokers(root: Path) -> list[int]:
    """Our processes that serve commands in a repository."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if b"/prefixed.py" in words and os.fsencode(root) in words:
            found.append(int(name))
    return found


# Which command runs


@pytest.mark.parametrize(
    "command",
    [
        "echo x > new.txt  \n\n",
        "\n  echo x > new.txt",
        "echo \u00e9\u4e16 > new.txt",
        "cat > new.txt <<'EOF'\n$x ' \" && eval y\nEOF",
        "true && eval 'echo x > new.txt'",
        "true && eval true && pwd -P >| new.txt",
        f"echo x > new.txt # {'y' * 100_000}",
        'echo "it\'s" | tee new.txt | cat',
    ],
)
def test_a_command_of_any_text_is_leased(root: Path, ann: ClaudeLike, command: str) -> None:
    assert ann.run(command)[0] == 0
    assert held(root) == {"new.txt": "@claude/ann/"}


def test_a_command_is_leased_whatever_the_session_prepares(root: Path, ann: ClaudeLike) -> None:
    prepared = 'command -v true >/dev/null && eval "$(echo export A=1)"'
    ann.before("echo $A > new.txt")
    words = [prefix_script.path_of(str(root)), line_of("echo $A > new.txt", session_env=prepared)]
    subprocess.run(words, cwd=root, env=ann.environment, check=True)
    assert (root / "new.txt").read_text() == "1\n"
    assert held(root) == {"new.txt": "@claude/ann/"}


@pytest.mark.parametrize("command", ["x && eval y && pwd -P >| z", "true && eval 'a' && b", "x"])
def test_the_command_of_a_line_is_found(command: str) -> None:
    for prepared in ("", "a && eval b", "a && eval 'b' < /dev/null && pwd -P >| c"):
        assert evaluated(line_of(command, "/tmp/cwd", session_env=prepared)) == command


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("make 2>nul", "make 2>/dev/null"),
        ("a >NUL; b", "a >/dev/null; b"),
        ("echo \ud800 x", "echo \ufffd x"),
    ],
)
def test_a_client_that_repairs_a_text_runs_the_same_command(
    root: Path, ann: ClaudeLike, written: str, run: str
) -> None:
    ann.before(written)
    assert slips.claim(str(root / ".holdfast"), "ann", run) is not None


# Slips


def test_a_command_that_the_user_first_refused_is_leased_when_it_is_run_again(
    root: Path, ann: ClaudeLike
) -> None:
    ann.before("echo x > new.txt")  # the user refuses it
    ann.before("echo x > new.txt")
    ann.start("echo x > new.txt").communicate(timeout=60)
    assert "systemMessage" not in ann.after("echo x > new.txt", 0)
    assert held(root) == {"new.txt": "@claude/ann/"}


def test_a_sub_agent_that_is_faster_with_the_same_text_leaves_the_other_its_slip(
    root: Path, ann: ClaudeLike
) -> None:
    ann.before("make", agent="s1")
    first = ann.calls
    ann.before("make", agent="s2")
    folder = str(root / ".holdfast")
    assert slips.claim(folder, "ann", "make") is not None
    assert ann.after("make", 0, agent="s2") == {}
    assert slips.claim(folder, "ann", "make") is not None, "s1 has not run its own yet"
    ann.calls = first
    assert ann.after("make", 0, agent="s1") == {}


def test_two_sessions_run_the_same_text_each_as_itself(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    command = "echo $CLAUDE_CODE_SESSION_ID > $CLAUDE_CODE_SESSION_ID.txt"
    ann.before(command)
    bob.before(command)
    for one in (bob, ann):
        one.start(command).communicate(timeout=60)
    assert held(root) == {"ann.txt": "@claude/ann/", "bob.txt": "@claude/bob/"}


def test_no_command_makes_a_slip_for_another(root: Path, ann: ClaudeLike, bob: ClaudeLike) -> None:
    bob.edit("a.txt")
    bob.before("echo bad > a.txt")
    forged = "for f in .holdfast/slips/*; do cp $f .holdfast/slips/forged; mv $f x; rm $f; done"
    again = f"HOLDFAST_SOCKET= {prefix_script.path_of(str(root))} {shlex.quote(line_of('true'))}"
    names = sorted(os.listdir(root / ".holdfast/slips"))
    script = root.parent / "forge.sh"
    script.write_text(f"{forged}\n{again}\n")
    _code, out = ann.run(f"CLAUDE_CODE_SESSION_ID=bob bash {script}")
    assert "Permission denied" in out
    assert [name for name in sorted(os.listdir(root / ".holdfast/slips")) if "bob" in name] == names
    assert (root / "a.txt").read_text() == "mine\n"


def test_without_room_for_a_slip_the_command_is_refused(root: Path, ann: ClaudeLike) -> None:
    (root / ".holdfast/slips").write_text("in the way")
    code, out = ann.run("echo x > new.txt")
    assert code == -1
    assert "holdfast" in out
    assert not (root / "new.txt").exists()


# Quick, killed, left running


def test_quick_commands_lose_nothing(root: Path, ann: ClaudeLike) -> None:
    for number in range(12):
        assert ann.run("true") == (0, "")
        assert ann.run("exit 3") == (3, "")
        assert ann.run(f"echo {number} > f") == (0, "")
        assert (root / "f").read_text() == f"{number}\n"
        assert held(root) == {"f": "@claude/ann/"}
    until(lambda: not brokers(root), "no broker is left")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_group_leaves_nothing_running(root: Path, ann: ClaudeLike, number: int) -> None:
    command = "echo 1 > k; touch up; sleep 300 & sleep 300"
    ann.before(command)
    running = ann.start(command)
    until(lambda: (root / "up").exists(), "it runs")
    os.killpg(running.pid, number)
    running.communicate(timeout=60)
    assert running.returncode == (-9 if number == signal.SIGKILL else 143)
    until(lambda: not brokers(root), "no broker is left")
    assert held(root) == {"k": "@claude/ann/", "up": "@claude/ann/"}
    ann.after(command, 143)


def test_a_command_that_is_killed_while_its_broker_starts_does_not_run(
    root: Path, ann: ClaudeLike
) -> None:
    command = "sleep 30"
    for number in range(24):
        ann.before(command)
        running = ann.start(command)
        time.sleep(number * 0.008)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate(timeout=10)
        ann.after(command, 137)
    until(lambda: not brokers(root), "no broker is left")


def test_commands_of_one_agent_may_write_one_file_at_once(root: Path, ann: ClaudeLike) -> None:
    command = "echo x >> new.txt"
    for _ in range(6):
        ann.before(command)
    for running in [ann.start(command) for _ in range(6)]:
        assert running.communicate(timeout=60)[0] == ""
    assert (root / "new.txt").read_text() == 6 * "x\n"


def test_no_broker_stays_when_what_was_left_running_has_ended(root: Path, ann: ClaudeLike) -> None:
    ann.run("(until [ -e go ]; do sleep 0.02; done) >/dev/null 2>&1 &")
    assert brokers(root)
    (root / "go").touch()
    until(lambda: not brokers(root), "no broker is left")


def test_a_busy_ledger_is_waited_for(root: Path, ann: ClaudeLike) -> None:
    ann.run("true")
    words = [sys.executable, "-c", _KEEPS_BUSY, str(root)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as busy:
        command = "echo x > new.txt; cat new.txt"
        ann.before(command)
        assert busy.stdout is not None
        assert busy.stdout.readline() == "inside\n"
        began = time.monotonic()
        running = ann.start(command)
        assert running.communicate(timeout=60)[0] == "x\n"
        assert time.monotonic() - began > 1
    assert held(root) == {"new.txt": "@claude/ann/"}


_KEEPS_BUSY = """
import sys, time
from holdfast import LockManager
from holdfast.core.model import Decision

def slowly(view):
    time.sleep(1)  # its hook goes first
    print("inside", flush=True)
    time.sleep(2)
    return Decision(None)

with LockManager.open(sys.argv[1]) as manager:
    time.sleep(0.5)
    manager.store.transact(slowly, deadline=time.monotonic() + 60)
"""


# Where a command runs


def test_commands_in_other_folders(root: Path, ann: ClaudeLike) -> None:
    sh(root, "git worktree add -q ../linked -b linked")
    elsewhere, plain = made_repository(root.parent / "elsewhere"), root.parent / "plain"
    plain.mkdir()
    for folder, name in (
        (root / "lib", "one"), (root.parent / "linked", "two"), (elsewhere, "three"), (plain, "4")
    ):  # fmt: skip
        ann.cwd = folder
        assert ann.run(f"echo x > {name}; cat {name}") == (0, "x\n")
    assert ann.run(f"echo x > {root}/five") == (0, "")
    mine = ("lib/one", "../linked/two", "five")
    assert held(root) == dict.fromkeys(mine, "@claude/ann/")


def test_a_command_whose_folder_is_gone_still_runs(root: Path, ann: ClaudeLike) -> None:
    gone = root.parent / "gone"
    gone.mkdir()
    ann.cwd = gone
    command = f"echo x > {root}/new.txt; exit 4"
    ann.before(command)
    words = shlex.join([prefix_script.path_of(str(root)), line_of(command)])
    line = f"cd {gone} && rmdir {gone} && exec {words}"
    done = subprocess.run(["/bin/bash", "-c", line], env=ann.environment, check=False)
    assert done.returncode == 4
    assert held(root) == {"new.txt": "@claude/ann/"}


def test_names_that_are_not_utf_8(root: Path, ann: ClaudeLike, bob: ClaudeLike) -> None:
    line = "echo x > $'b\\xff'; mkdir $'d\\xfe'; echo y > $'d\\xfe/f'; mv $'b\\xff' $'c\\xff'"
    assert ann.run(f"{line}; git add -A; git commit -qm odd; git checkout -q -b odd HEAD~1") == (
        0, "",
    )  # fmt: skip
    assert bob.run("git checkout -q main && rm $'c\\xff'") == (0, "")
    assert (root / os.fsdecode(b"d\xfe") / "f").read_text() == "y\n"


def test_a_hook_of_git_that_writes_files_works(root: Path, ann: ClaudeLike) -> None:
    """As with the pre-commit framework: the hook repairs staged files and stages them again."""
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/bash\nfor f in $(git diff --cached --name-only); do sed -i 's/ *$//' $f; done\n"
        "git add -u\necho ran > hook.log\n"
    )
    hook.chmod(0o755)
    git_hooks.install(str(root))
    assert ann.run("echo 'x  ' > new.txt; git add new.txt; git commit -qm new") == (0, "")
    assert sh(root, "git show HEAD:new.txt") == "x\n"
    assert held(root) == {}


def test_what_git_makes_clean_is_free_whatever_wrote_it_before(root: Path, ann: ClaudeLike) -> None:
    ann.edit("a.txt", "edited\n")
    ann.run("echo b >> README.md; echo c >> lib/y.py")
    assert ann.run("git checkout -q a.txt README.md") == (0, "")
    until(lambda: held(root) == {"lib/y.py": "@claude/ann/"}, "the clean files are free")


def test_a_line_that_also_calls_holdfast_can_look(
    root: Path, ann: ClaudeLike, bob: ClaudeLike
) -> None:
    bob.edit("a.txt")
    holdfast = f"{os.path.dirname(sys.executable)}/holdfast"
    code, out = ann.run(f"cd lib && {holdfast} status && {holdfast} whoami && echo x > new.txt")
    assert code == 0, out
    assert "a.txt" in out
    assert held(root) == {"a.txt": "@claude/bob/", "lib/new.txt": "@claude/ann/"}
    code, out = ann.run(f"{holdfast} check a.txt; echo over")
    assert "a.txt" in out, (code, out)


# Tracked and ignored files


def leased_by(root: Path, ann: ClaudeLike, *paths: str) -> set[str]:
    assert ann.run("; ".join(f"mkdir -p $(dirname {p}); echo x > {p}" for p in paths))[0] == 0
    return set(held(root))


def test_what_git_tracks_is_leased_whatever_ignores_it(root: Path, ann: ClaudeLike) -> None:
    names = ("build/keep.c", "build/deep/keep.c", "kept.log", "lib/kept.log", "node_modules/own.js")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    sh(root, f"git add -f {' '.join(names)} && git commit -qm kept")
    passing = ("build/x.c", "build/deep/x.c", "x.log", "lib/x.log", "node_modules/x.js", "b[x].log")
    assert leased_by(root, ann, *names, *passing) == set(names)


def test_a_submodule_has_its_own_ignore_rules(root: Path, ann: ClaudeLike) -> None:
    made_repository(root.parent / "other")
    sh(root, "git -c protocol.file.allow=always submodule --quiet add ../other sub")
    assert leased_by(root, ann, "sub/build/new.c", "build/new.c") == {"sub/build/new.c"}


def test_git_s_index_is_not_read_for_an_ordinary_file(root: Path, ann: ClaudeLike) -> None:
    tools = root.parent / "tools"
    tools.mkdir()
    (tools / "git").write_text(f'#!/bin/sh\necho "$*" >> {tools}/asked\nexec /usr/bin/git "$@"\n')
    (tools / "git").chmod(0o755)
    told: dict[str, Any] = {"PATH": f"{tools}:{ENV['PATH']}"}
    ann.more_environment = told
    assert ann.run("echo x > new.txt; echo y >> a.txt") == (0, "")
    asked = (tools / "asked").read_text()
    assert "check-ignore" in asked
    assert "ls-files" not in asked
