"""gate.shell = "enforce": what the hook makes of a command, and what the command cannot do then."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers_guard import ENV, called, made_repository, owners, sh
from helpers_processes import PATIENCE_SECONDS
from helpers_sandbox import NEEDS_LANDLOCK, without_call
from holdfast.gate import door
from holdfast.gate.sandbox import SandboxError, closing, landlock, line
from holdfast.manager.manager import LockManager

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux")

SHELLS = [name for name in ("bash", "zsh", "dash") if shutil.which(name)]
#: Nobody can tell from such a line what it writes.
PROGRAM = 'python3 -c \'open("new.txt", "w")\''


class Agent:
    """A client with one agent, whose hooks are called through the door."""

    def __init__(self, root: Path, session: str, client: str = "claude") -> None:
        self.root = root
        self.session = session
        self.client = client
        self.process = subprocess.Popen(["sleep", "600"])

    def tell(self, event: str, tool: str, **fields: Any) -> dict[str, Any]:
        told = {
            "session_id": self.session, "cwd": str(self.root), "hook_event_name": event,
            "tool_name": tool, "tool_input": fields,
        }  # fmt: skip
        env = {"CLAUDE_PID": str(self.process.pid)}
        reply = door.answer(self.client, json.dumps(told).encode(), env)
        assert (reply.stderr, reply.code) == ("", 0)
        return json.loads(reply.stdout) if reply.stdout else {}

    def edit(self, path: str) -> None:
        """Hold a file, and change it."""
        file = self.root / path
        before = self.tell("PreToolUse", "Write", file_path=str(file), content="x")
        assert "permissionDecision" not in before.get("hookSpecificOutput", {}), before
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"by {self.session}\n")
        self.tell("PostToolUse", "Write", file_path=str(file), content="x")

    def shell(self, command: str, tool: str = "Bash", **more: Any) -> dict[str, Any]:
        """What is said before a command."""
        said = self.tell("PreToolUse", tool, command=command, **more)
        found: dict[str, Any] = said.get("hookSpecificOutput", {})
        return found

    def refusal(self, command: str, tool: str = "Bash") -> str:
        return str(self.shell(command, tool).get("permissionDecisionReason", ""))

    def run(self, command: str, *, shell: str = "bash") -> subprocess.CompletedProcess[str]:
        """Run what the client would, and tell the hook of its end; its words are in `.args`."""
        text = self.shell(command)["updatedInput"]["command"]
        done = run(text, self.root, shell=shell)
        event = "PostToolUse" if done.returncode == 0 else "PostToolUseFailure"
        done.args = self.tell(event, "Bash", command=text)
        return done


def run(text: str, cwd: Path, *, shell: str = "bash") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [shell, "-c", text], cwd=cwd, env=ENV, capture_output=True, text=True, check=False,
        timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every test has a copy of."""
    made = made_repository(tmp_path_factory.mktemp("model") / "repo")
    (made / "holdfast.toml").write_text('[gate]\nshell = "enforce"\n')
    sh(made, "git add holdfast.toml && git commit -qm settings")
    (made / ".holdfast").mkdir()
    return made


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    made = shutil.copytree(model, tmp_path / "repo", symlinks=True)
    sh(made, "git update-index -q --refresh")
    return made


@pytest.fixture
def ann(root: Path) -> Iterator[Agent]:
    yield from _agent(root, "ann")


@pytest.fixture
def bob(root: Path) -> Iterator[Agent]:
    yield from _agent(root, "bob")


def _agent(root: Path, session: str) -> Iterator[Agent]:
    made = Agent(root, session)
    yield made
    made.process.kill()
    made.process.wait()


def inside(root: Path, command: str, *paths: str, shell: str = "bash") -> Any:
    """A command in a sandbox in which these files are closed."""
    return run(line.line(command, str(root), paths), root, shell=shell)


# What the hook says


def test_nobody_holds_anything_so_the_command_runs_as_it_is(ann: Agent, bob: Agent) -> None:
    assert bob.shell(PROGRAM) == {}
    bob.edit("app/z.py")
    assert bob.shell("make") == {}, "what is one's own needs no sandbox"


@NEEDS_LANDLOCK
def test_a_program_is_put_into_a_sandbox_while_others_hold_something(
    ann: Agent, bob: Agent
) -> None:
    ann.edit("app/x.py")
    more: dict[str, Any] = {"description": "d", "run_in_background": True, "timeout": 5000}
    said = bob.shell(PROGRAM, **more)
    assert "permissionDecision" not in said, "the client's own permissions stay in charge"
    given = said["updatedInput"]
    assert {name: given[name] for name in more} == more
    first, _, rest = given["command"].partition("\n")
    words = shlex.split(first)
    assert words[:4] == [sys.executable, "-I", "-S", line.LAUNCHER]
    assert words[4:] == [PROGRAM, str(bob.root), "app/x.py"]
    assert rest == f"\\exit\n{PROGRAM}\n"
    assert f"app/x.py ({called(ann.root, 'ann')})" in said["additionalContext"]
    assert f"{bob.root}/app" in said["additionalContext"]


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    "command", ["ls", "git status", "touch new.txt", "rm -rf build", "echo x > lib/y.py",
                "git checkout -q other", "holdfast status", "mkdir a && mv README.md a"],
)  # fmt: skip
def test_a_line_of_which_all_is_known_runs_as_it_is(ann: Agent, bob: Agent, command: str) -> None:
    ann.edit("app/x.py")
    assert bob.shell(command) == {}


def test_what_is_plainly_another_s_is_refused_as_ever(ann: Agent, bob: Agent) -> None:
    ann.edit("app/x.py")
    assert "app/x.py" in bob.refusal("make > app/x.py")
    assert "app/x.py" in bob.refusal("git stash")


@NEEDS_LANDLOCK
@pytest.mark.parametrize("tool", ["Monitor", "PowerShell"])
def test_what_cannot_be_changed_is_refused_with_the_reason(
    ann: Agent, bob: Agent, tool: str
) -> None:
    assert bob.refusal("make", tool) == ""
    ann.edit("app/x.py")
    told = bob.refusal("make", tool)
    assert "enforce" in told
    assert f"a {tool} cannot be changed" in told
    assert f"app/x.py ({called(ann.root, 'ann')})" in told


@NEEDS_LANDLOCK
def test_a_line_that_no_shell_would_take_is_refused(ann: Agent, bob: Agent) -> None:
    ann.edit("app/x.py")
    assert "too long" in bob.refusal(f"make {'x' * 70_000}")
    assert "updatedInput" in bob.shell(f"make {'x' * 50_000}")


@NEEDS_LANDLOCK
def test_a_file_with_another_name_cannot_be_kept_closed(ann: Agent, bob: Agent) -> None:
    ann.edit("app/x.py")
    os.link(bob.root / "app/x.py", bob.root / "lib/same.py")
    assert "app/x.py has other names" in bob.refusal("make")


@NEEDS_LANDLOCK
def test_a_git_verb_that_would_stop_half_way_is_refused(ann: Agent, bob: Agent) -> None:
    ann.edit("app/x.py")
    assert "`git fetch` first" in bob.refusal("git pull")
    assert "`git checkout` would change" in bob.refusal("git checkout $BRANCH")
    assert "updatedInput" in bob.shell("git rebase --continue"), "this can be taken up again"


def test_where_the_kernel_cannot_it_is_refused(
    ann: Agent, bob: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "support", lambda: landlock.Support(0, "no Landlock here"))
    assert bob.shell("make") == {}
    ann.edit("app/x.py")
    assert "no Landlock here" in bob.refusal("make")


@NEEDS_LANDLOCK
def test_codex_takes_another_line_only_with_a_decision(root: Path, ann: Agent) -> None:
    ann.edit("app/x.py")
    for agent in _agent(root, "carl"):
        agent.client = "codex"
        said = agent.shell("make")
        assert said["permissionDecision"] == "allow"
        assert set(said["updatedInput"]) == {"command"}


def test_a_guard_imports_nothing_of_it(root: Path) -> None:
    (root / "holdfast.toml").unlink()
    script = (
        f"import sys, json; sys.path[:0] = {sys.path!r}\n"
        "from holdfast.gate import door\n"
        f"data = {{'session_id': 's', 'cwd': {str(root)!r}, 'hook_event_name': 'PreToolUse',\n"
        " 'tool_name': 'Bash', 'tool_input': {'command': 'make'}}\n"
        "door.answer('claude', json.dumps(data).encode(), {})\n"
        "print(*(name for name in sys.modules if 'sandbox' in name or name == 'ctypes'))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


# The line


@pytest.mark.parametrize(
    "command",
    ["make", "it's", 'a "b" $c `d` !e \\f', "cat <<'E'\nit's\nE\n", "x\n\\exit\ny", "'", "", "ü\n"],
)
def test_a_line_gives_back_its_command(command: str) -> None:
    text = line.line(command, "/a b", ["it's/x", "y"])
    assert line.command_of(text) == command
    assert shlex.split(text.partition(f"\n\\exit\n{command}\n")[0])[4:] == [
        command, "/a b", "it's/x", "y",
    ]  # fmt: skip


START = f"{sys.executable} -I -S {line.LAUNCHER}"
END = "\n\\exit\nmake\n"
OTHERS = {
    "nothing": "",
    "any": "make",
    "without a command": f"{START}{END}",
    "without a root": f"{START} make{END}",
    "the command alone": f"{START} make / x\n",
    "another command": f"{START} rm / x{END}",
    "something more": f"{START} make / x; rm y{END}",
    "something after": f"{START} make / x{END}rm y\n",
    "a redirection": f"{START} make / x >y{END}",
    "a document": f"{START} make / x <<'E'{END}",
    "a remark": f"{START} make / x #{END}",
    "a variable": f'{START} make / "$x"{END}',
    "other quotes": f"{START} 'make' / x{END}",
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_no_other_line_is_taken_for_one_of_ours(text: str) -> None:
    assert line.command_of(text) is None


@NEEDS_LANDLOCK
def test_the_launcher_runs_nothing_that_the_client_has_not_seen(root: Path) -> None:
    for text in (
        f"{START} 'touch lib/ran' {root} app/x.py",
        f"{START} 'touch lib/ran' {root} app/x.py\n\\exit\ntrue\n",
        f"{START} 'touch lib/ran' {root} app/x.py <<'E'\n\\exit\ntouch lib/ran\n",
    ):
        done = run(text, root)
        assert done.returncode == 126, text
        assert "not run: this program is for the lines" in done.stderr
    assert not (root / "lib/ran").exists()


# What the command cannot do


TRIES = {
    ">": "echo bad > app/x.py",
    ">>": "echo bad >> app/x.py",
    "sed -i": "sed -i s/by/bad/ app/x.py",
    "python": 'python3 -c \'open("app/x.py", "w").write("bad")\'',
    "mv over it": "echo bad > lib/n && mv lib/n app/x.py",
    "mv it away": "mv app/x.py lib/gone.py",
    "rm": "rm -f app/x.py",
    "truncate": "truncate -s 0 app/x.py",
    "a link": "ln -f app/x.py lib/link && echo bad > lib/link",
    "a symbolic link": "ln -sf ../app/x.py lib/soft && echo bad > lib/soft",
    "its folder away": "mv app lib/app && echo bad > lib/app/x.py",
    "its tree away": "mv ../repo ../away && echo bad > ../away/app/x.py",
    "by a descriptor": "exec 5>/proc/self/cwd/app/x.py && echo bad >&5",
    "a child in another session": "setsid sh -c 'echo bad > app/x.py'",
    "an executed shell": "exec sh -c 'echo bad > app/x.py'",
    "git": "git checkout -q -- app/x.py",
}


@NEEDS_LANDLOCK
@pytest.mark.parametrize("way", TRIES)
def test_what_another_holds_cannot_be_written_by(root: Path, way: str) -> None:
    (root / "app/x.py").write_text("by ann\n")
    done = inside(root, TRIES[way], "app/x.py")
    assert done.returncode != 0
    assert (root / "app/x.py").read_text() == "by ann\n"
    assert run(TRIES[way], root).returncode == 0, "without the sandbox it would have been"


@NEEDS_LANDLOCK
@pytest.mark.parametrize("shell", SHELLS)
def test_everything_else_can_be_written_that_the_guide_says(root: Path, shell: str) -> None:
    (root / "app/sub").mkdir()
    script = """
set -e
echo new > app/z.py; echo new >> README.md; truncate -s 0 .gitignore
touch app/sub/new lib/new; sed -i s/y/z/ lib/y.py; mkdir -p lib/a/b; mv lib/a app/sub; rm lib/new
new=$(mktemp); echo x > "$new"; rm "$new"; echo x > /dev/null
git add lib && git commit -qm inside
echo done
"""
    done = inside(root, script, "app/x.py", shell=shell)
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert (root / "app/z.py").read_text() == "new\n"
    assert (root / "app/sub/a/b").is_dir()


@NEEDS_LANDLOCK
@pytest.mark.parametrize(
    "script",
    ["touch new", "mkdir new", "rm README.md", "mv README.md lib", "touch app/new", "rm app/z.py",
     "mv app/z.py app/y.py", "sed -i s/a/b/ app/z.py", "touch ../new", "ln -s x new"],
)  # fmt: skip
def test_in_the_folders_on_the_way_nothing_is_made_renamed_or_removed(
    root: Path, script: str
) -> None:
    before = sorted(root.rglob("*"))
    done = inside(root, script, "app/x.py")
    assert done.returncode != 0
    assert "ermission denied" in done.stderr or "cross-device" in done.stderr
    assert sorted(root.rglob("*")) == before


@NEEDS_LANDLOCK
def test_a_file_that_is_not_there_yet_cannot_be_made(root: Path) -> None:
    closed = ["app/new.py", "docs/deep/new.md"]
    assert inside(root, "echo > app/new.py", *closed).returncode != 0
    assert inside(root, "mkdir docs", *closed).returncode != 0
    assert inside(root, "echo ok > lib/new.py", *closed).returncode == 0


@NEEDS_LANDLOCK
def test_a_folder_that_another_reads_is_closed_as_a_whole(root: Path) -> None:
    (root / "app/sub").mkdir()
    assert inside(root, "touch app/sub/new", "app").returncode != 0
    assert inside(root, "touch app/sub/new", "app", "app/x.py").returncode != 0
    assert inside(root, "echo x > lib/y.py", ".").returncode != 0
    assert inside(root, "git commit -q --allow-empty -m inside", ".").returncode == 0


@NEEDS_LANDLOCK
def test_the_exit_code_the_words_and_the_shell_are_the_command_s_own(root: Path) -> None:
    script = 'echo "it\'s $0"; echo "$1"; echo err >&2; sleep 0.01 | true; kill -9 $$'
    for shell in SHELLS:
        done = inside(root, script, "app/x.py", shell=shell)
        assert done.returncode in (137, -9)
        assert (done.stdout, done.stderr.splitlines()[0]) == (f"it's {shell}\n\n", "err")
    assert inside(root, "exit 7", "app/x.py").returncode == 7
    assert inside(root, "no-such-command", "app/x.py").returncode == 127
    assert inside(root, "if", "app/x.py").returncode == 2
    found = inside(root, "grep SigIgn /proc/self/status", "app/x.py").stdout
    assert found == run("grep SigIgn /proc/self/status", root).stdout


@NEEDS_LANDLOCK
@pytest.mark.parametrize("shell", [name for name in SHELLS if name != "dash"])
def test_what_the_client_prepared_is_there_and_it_learns_where_the_command_ended(
    root: Path, tmp_path: Path, shell: str
) -> None:
    snapshot, note = tmp_path / "snapshot.sh", tmp_path / "home/cwd"
    note.parent.mkdir()
    snapshot.write_text("helper() { echo helped \"$1\"; }\nalias hi='echo hello'\n"
                        "shopt -s expand_aliases 2>/dev/null || true\n")  # fmt: skip
    text = line.line("hi; helper it\\'s; cd lib", str(root), ["app/x.py"])
    for quoted in (shlex.quote(text), '"' + _escaped(text) + '"'):
        note.unlink(missing_ok=True)
        whole = f"source {snapshot} 2>/dev/null || true && eval {quoted} && pwd -P >| {note}"
        done = run(whole, root, shell=shell)
        assert (done.stdout, done.stderr) == ("hello\nhelped it's\n", "")
        assert note.read_text() == f"{root}/lib\n"
    closed = f"source {snapshot} || true && eval {shlex.quote(text)} && pwd -P >| {tmp_path}/new"
    done = run(closed, root, shell=shell)
    assert (done.returncode, done.stderr) == (0, ""), "where it wants to be told is closed"


def _escaped(text: str) -> str:
    return "".join(f"\\{c}" if c in '"\\$`' else c for c in text)


@NEEDS_LANDLOCK
@pytest.mark.parametrize("number", [444, 445, 446])
def test_a_kernel_that_does_not_restrict_runs_nothing(root: Path, number: int) -> None:
    text = line.line("touch lib/ran", str(root), ["app/x.py"])
    done = subprocess.run(
        without_call(number, 1, "bash", "-c", text), cwd=root, env=ENV, capture_output=True,
        text=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert done.returncode == 126
    assert done.stderr.startswith("holdfast: not run: ")
    assert not (root / "lib/ran").exists()


@NEEDS_LANDLOCK
def test_what_stays_open_in_spite_of_all_is_found_out(root: Path) -> None:
    closing.prove([str(root / "absent")])
    with pytest.raises(SandboxError, match="stays open"):
        closing.prove([str(root / "app/x.py")])


def test_the_ways_to_what_is_closed(tmp_path: Path) -> None:
    assert closing.ways(["/a/b/c", "/a/d"]) == ["/a/b", "/a", "/"]
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real").mkdir()
    assert closing.real(f"{tmp_path}/link/x") == f"{tmp_path}/real/x"
    assert closing.real("/") == "/"


@NEEDS_LANDLOCK
def test_a_link_on_the_way_opens_nothing(root: Path) -> None:
    (root.parent / "alias").symlink_to(root)
    done = inside(root.parent / "alias", "echo bad > app/x.py", "app/x.py")
    assert done.returncode != 0
    assert (root / "app/x.py").read_text() == "app/x.py\n"


@NEEDS_LANDLOCK
@pytest.mark.parametrize("way", ["echo {} > F", "rm -f F", "echo {} > F.new; mv F.new F"])
def test_the_settings_of_the_clients_are_closed_to_scripts(root: Path, way: str) -> None:
    for name in (".claude/settings.local.json", ".codex/hooks.json"):
        (root / name).parent.mkdir()
        (root / name).write_text("{}\n")
        script = root / "lib/script.sh"
        script.write_text(way.replace("F", str(root / name)))
        assert inside(root, f"sh {script}", "app/x.py").returncode != 0
        assert (root / name).read_text() == "{}\n"
    for name in (".claude/settings.json", ".codex/config.toml"):
        assert inside(root, f"echo {{}} > {name}", "app/x.py").returncode != 0
        assert not (root / name).exists()
    assert inside(root, "echo x > lib/y.py", "app/x.py").returncode == 0


# From the hook to the end of the command


@NEEDS_LANDLOCK
def test_the_whole_way_of_a_command_that_goes_too_far(root: Path, ann: Agent, bob: Agent) -> None:
    ann.edit("app/x.py")
    program = "import pathlib; pathlib.Path('lib/made').touch(); open('app/x.py', 'w')"
    done = bob.run(f"python3 -c {shlex.quote(program)}")
    assert "Permission denied: 'app/x.py'" in done.stderr
    assert (root / "app/x.py").read_text() == "by ann\n"
    with LockManager.open(root) as manager:
        assert not [event for event in manager.events() if event.type == "damage"]
    assert owners(root) == {"app/x.py": "claude:ann"}
    told = done.args["hookSpecificOutput"]["additionalContext"]
    assert "lib/made" in told, "it was looked at after"
    assert os.listdir(root / ".holdfast/aside/running") == []


@NEEDS_LANDLOCK
def test_damage_is_still_found_after_a_sandboxed_command(ann: Agent, bob: Agent) -> None:
    ann.edit("app/x.py")
    text = bob.shell("make")["updatedInput"]["command"]
    (bob.root / "app/x.py").write_text("from outside\n")
    said = bob.tell("PostToolUse", "Bash", command=text)
    assert "holdfast undo" in said["hookSpecificOutput"]["additionalContext"]


@NEEDS_LANDLOCK
def test_a_line_that_only_looks_like_ours_hides_nothing(ann: Agent, bob: Agent) -> None:
    ann.edit("app/x.py")
    (bob.root / "holdfast.toml").unlink()
    text = line.line("make", str(bob.root), ["nothing"])
    assert bob.shell(text) == {}
    (bob.root / "app/x.py").write_text("from outside\n")
    said = bob.tell("PostToolUse", "Bash", command=text)
    assert "holdfast undo" in said["hookSpecificOutput"]["additionalContext"]
