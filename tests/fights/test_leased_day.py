"""An ordinary day with leases at the write: two agents and two people in one checkout.

Each step of an agent is also run in a copy of the repository without Holdfast. Both must end alike:
with the same exit code, the same output and the same files. After each step every lease belongs to
the agent whose command wrote that file, and nothing else is held.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_commands import ClaudeLike, held, leased, line_of
from helpers_guard import ENV
from helpers_processes import PATIENCE_SECONDS, until
from helpers_sandbox import NEEDS_LANDLOCK
from holdfast import LockManager
from holdfast.gate.git import git_hooks

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Landlock is part of Linux"),
    *([NEEDS_LANDLOCK] if sys.platform == "linux" else []),
]

IDLE_SECONDS = RETRY_SECONDS = 0.5
TOOLS = os.path.dirname(sys.executable)
FILES = {
    ".gitignore": "node_modules/\n.venv/\ndist/\n*.o\n/prog\n*.log\n.holdfast/\nholdfast.toml\n",
    "package.json": json.dumps(
        {"name": "day", "version": "1.0.0", "scripts": {"build": "node build.js"}}, indent=2
    ),
    "tiny/package.json": '{"name": "tiny", "version": "1.0.0", "main": "index.js"}\n',
    "tiny/index.js": "module.exports = 'tiny'\n",
    "build.js": "const fs = require('fs')\nfs.mkdirSync('dist', {recursive: true})\n"
    "fs.writeFileSync('dist/out.js', require('tiny'))\nconsole.log('built')\n",
    "Makefile": "prog: src/main.o src/util.o\n\tcc -o $@ $^\nclean:\n\trm -f src/*.o prog\n",
    "src/main.c": "int util(void);\nint main(void) { return util(); }\n",
    "src/util.c": "int util(void) { return 0; }\n",
    "gen.py": "import glob\nfor name in sorted(glob.glob('gen/*.py')):\n"
    "    text = open(name).read()\n    open(name, 'w').write(text + f'# again {name}\\n')\n",
    "gen/a.py": "A = 1\n", "gen/b.py": "B = 1\n", "gen/c.py": "C = 1\n",
    **{f"app/m{number}.py": f"M = {{ 'n':{number} }}\n" for number in range(6)},
    "test_app.py": "def test_it():\n    from app import m0\n    assert m0.M\n",
    "notes.md": "notes\n", "README.md": "readme\n", "vendor.txt": "vendor\n",
}  # fmt: skip


class Day:
    """The repository, its remote, two agents, and what should be held."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.twin = folder, folder / "repo", folder / "twin"
        self.env = {
            **ENV, "HOME": str(folder / "home"), "npm_config_cache": str(folder / "npm"),
            "npm_config_audit": "false", "npm_config_fund": "false",
            "npm_config_update_notifier": "false", "npm_config_offline": "true",
            "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000",
        }  # fmt: skip
        self.should: dict[str, str] = {}
        #: What people and agents wrote, and where it must be at the end.
        self.written: dict[str, str] = {}
        self._make()
        self.ann, self.bob = (ClaudeLike(self.root, name) for name in ("ann", "bob"))
        for agent in (self.ann, self.bob):
            agent.more_environment = self.env

    def _make(self) -> None:
        (self.folder / "home").mkdir()
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        self.person("git init -q -b main . && git add -A && git commit -qm start")
        self.person("git clone -q --bare . ../remote.git && git remote add origin ../remote.git")
        self.person(
            "git fetch -q && git branch -q -u origin/main && git clone -q ../remote.git ../away"
        )
        leased(self.root)
        (self.root / "holdfast.toml").write_text(
            f"[gate]\nidle_seconds = {IDLE_SECONDS}\nretry_seconds = {RETRY_SECONDS}\n"
            "hold_seconds = 0\nwake = false\n"
        )
        git_hooks.install(str(self.root))

    def close(self) -> None:
        (self.root / "stop.log").touch()
        self.ann.close()
        self.bob.close()

    # People

    def person(self, command: str, at: str = "repo") -> None:
        """A person's command in a terminal: it works, whatever agents hold elsewhere."""
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder / at, env=self.env, text=True,
            capture_output=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), command

    def save(self, name: str, text: str) -> None:
        """A person's editor saves a file."""
        with (self.root / name).open("a") as file:
            file.write(text)
        self.written[name] = text

    # Agents

    def does(
        self, who: ClaudeLike, command: str, *, takes: str = "", frees: str = "", agent: str = ""
    ) -> None:
        """A step that touches no file of another agent."""
        shutil.rmtree(self.twin, ignore_errors=True)
        shutil.copytree(
            self.root, self.twin, symlinks=True, ignore=shutil.ignore_patterns(".holdfast")
        )
        alone = self._alone(command)
        assert who.run(command, agent) == alone, command
        assert _content(self.root) == _content(self.twin), command
        self.holds(who, takes=takes, frees=frees, agent=agent)

    def _alone(self, command: str) -> tuple[int, str]:
        env = {
            **self.env, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.hooksPath",
            "GIT_CONFIG_VALUE_0": "/dev/null",
        }  # fmt: skip
        done = subprocess.run(
            ["/bin/bash", "-c", line_of(command)], cwd=self.twin, env=env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.replace(str(self.twin), str(self.root))

    def hands_over(self, names: str, to: ClaudeLike) -> None:
        """Another agent is in line for these files, and gets them with the next step."""
        for name in names.split():
            self.should[name] = f"@claude/{to.session}/"

    def holds(self, who: ClaudeLike, *, takes: str = "", frees: str = "", agent: str = "") -> None:
        """Check that these files and no others have changed hands."""
        for name in takes.split():
            self.should[name] = f"@claude/{who.session}/{agent}"
        for name in frees.split():
            del self.should[name]
        end = time.monotonic() + 5
        while held(self.root) != self.should and time.monotonic() < end:
            time.sleep(0.01)
        assert held(self.root) == self.should

    def is_refused(self, who: ClaudeLike, command: str, name: str, agent: str = "") -> int:
        """A step that reaches for a file that another agent holds: it is refused, and the file is
        unchanged."""
        before = (self.root / name).read_bytes()
        code, out = who.run(command, agent)
        assert "Refused" in out, (command, code, out)
        assert name in out
        assert (self.root / name).read_bytes() == before
        return code


def _content(root: Path) -> dict[str, bytes]:
    """All files that git does not ignore, except caches, which contain the name of their folder."""
    said = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=root, env=ENV, text=True,
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    names = [name for name in said.split("\0") if name and "cache" not in name]
    files = {name: root / name for name in names}
    return {name: file.read_bytes() for name, file in files.items() if file.is_file()}


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    made = Day(tmp_path)
    yield made
    made.close()


def test_on_a_leased_day_everything_works_as_without_us(day: Day) -> None:
    programs(day)
    generated_and_formatted(day)
    git_verbs(day)
    from_elsewhere(day)
    linked_worktree(day)
    servers_and_caches(day)
    sub_agents(day)
    the_end(day)


def programs(day: Day) -> None:
    ann, bob = day.ann, day.bob
    day.does(ann, "npm install --silent ./tiny", takes="package.json package-lock.json")
    day.does(bob, "npm run build --silent")
    day.does(ann, "npm install --silent")
    assert day.is_refused(bob, "npm install --silent ./tiny --save-dev", "package.json")
    day.does(bob, "make -s && ./prog && make -s clean && make -s")
    day.save("notes.md", "by a person\n")
    day.person("git commit -qm notes -- notes.md")
    day.does(ann, "python3 -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'")
    day.does(bob, "echo todo > TODO.txt; printf 'x\\n' > new.md; touch empty.txt",
             takes="TODO.txt new.md empty.txt")  # fmt: skip
    day.hands_over("package.json", bob)
    day.does(ann, "git add package*.json && git commit -qm packages", frees="package-lock.json")
    time.sleep(RETRY_SECONDS)
    day.does(bob, "npm install --silent ./tiny --save-dev", takes="package-lock.json")
    day.does(bob, "git commit -qm dev -- package.json package-lock.json",
             frees="package.json package-lock.json")  # fmt: skip


def generated_and_formatted(day: Day) -> None:
    ann, bob = day.ann, day.bob
    command = "touch begun.log; until [ -e go.log ]; do sleep 0.02; done; python3 gen.py"
    bob.before(command)
    running = bob.start(command)
    until(lambda: (day.root / "begun.log").exists(), "it runs")
    day.save("README.md", "a person saves this meanwhile\n")
    day.save("plan.md", "and this is new\n")
    (day.root / "go.log").touch()
    assert running.communicate(timeout=PATIENCE_SECONDS)[0] == ""
    bob.after(command, 0)
    day.holds(bob, takes="gen/a.py gen/b.py gen/c.py")
    formatted = " ".join(f"app/m{number}.py" for number in range(6))
    day.does(ann, "sed -i 's/M = /M  =  /' app/*.py", takes=formatted)
    day.does(ann, f"{TOOLS}/ruff format -q app && cat app/m0.py")
    assert day.is_refused(ann, "sed -i s/again/lost/ gen/*.py", "gen/a.py") == -1
    day.hands_over("gen/a.py gen/b.py gen/c.py", ann)
    day.does(bob, "git add gen && git commit -qm gen")
    day.person("git commit -qm readme -- README.md && git add plan.md && git commit -qm plan")
    time.sleep(RETRY_SECONDS)
    day.does(ann, "sed -i s/again/anew/ gen/*.py")
    day.does(bob, "sed -i s/readme/README/ README.md", takes="README.md")
    assert day.is_refused(bob, "python3 gen.py", "gen/a.py") > 0
    day.hands_over("gen/a.py", bob)
    day.does(ann, "git commit -qm formatted -- app gen", frees=f"{formatted} gen/b.py gen/c.py")
    time.sleep(RETRY_SECONDS)
    day.does(bob, "python3 gen.py", takes="gen/b.py gen/c.py")
    day.does(bob, "git checkout -q README.md", frees="README.md")
    day.does(bob, "git commit -qam more", frees="gen/a.py gen/b.py gen/c.py")


def git_verbs(day: Day) -> None:
    ann, bob = day.ann, day.bob
    day.does(ann, "git switch -qc topic")
    day.does(ann, "echo '# topic' >> app/m0.py", takes="app/m0.py")
    day.does(ann, "git commit -qam topic", frees="app/m0.py")
    day.does(ann, "git switch -q -")
    day.does(ann, "echo '# stashed' >> app/m1.py", takes="app/m1.py")
    assert day.is_refused(bob, "git stash -q", "app/m1.py") == -1
    day.does(ann, "git stash -q", frees="app/m1.py")
    day.does(ann, "git stash pop -q", takes="app/m1.py")
    day.does(ann, "git commit -qm stashed -- app/m1.py", frees="app/m1.py")
    day.does(bob, "git merge -q --no-edit topic")
    day.does(ann, "git switch -q topic && git rebase -q main && git switch -q main")
    day.does(ann, "git reset -q --hard HEAD && git status --short")


def from_elsewhere(day: Day) -> None:
    ann, bob = day.ann, day.bob
    day.person("echo 2 >> vendor.txt && echo 3 > more.txt && git add -A && git commit -qm away "
               "&& git push -q", at="away")  # fmt: skip
    day.does(bob, "echo '# bob' >> app/m2.py", takes="app/m2.py")
    day.save("notes.md", "a person works on this\n")
    day.does(ann, "git pull -q --no-rebase --no-edit && cat vendor.txt more.txt")
    day.person("echo 4 >> vendor.txt && git commit -qam again && git push -q", at="away")
    day.does(bob, "git commit -qm bob -- app/m2.py", frees="app/m2.py")
    day.person("git commit -qm person -- notes.md")
    day.does(ann, "git pull -q --rebase && cat vendor.txt")


def linked_worktree(day: Day) -> None:
    ann, bob = day.ann, day.bob
    day.does(bob, "echo '# here' >> app/m5.py", takes="app/m5.py")
    assert ann.run("git worktree add -q ../linked -b linked") == (0, "")
    ann.cwd = day.folder / "linked"
    assert ann.run("echo '# there' >> app/m5.py") == (0, "")
    day.holds(ann, takes="../linked/app/m5.py")
    assert ann.run("git commit -qam there") == (0, "")
    day.holds(ann, frees="../linked/app/m5.py")
    ann.cwd = day.root
    day.does(bob, "git commit -qm here -- app/m5.py", frees="app/m5.py")


def servers_and_caches(day: Day) -> None:
    ann, bob = day.ann, day.bob
    server = "(until [ -e stop.log ]; do date > server.log; sleep 0.05; done) >/dev/null 2>&1 &"
    assert bob.run(server) == (0, "")
    until(lambda: (day.root / "server.log").exists(), "the server writes")
    for who in (ann, bob):
        tests = (
            f"env -u PYTHONDONTWRITEBYTECODE {sys.executable} -m pytest -q --rootdir=. test_app.py"
        )
        day.does(who, f"{tests} > tests.log 2>&1")
    assert list((day.root / "app").glob("__pycache__/*.pyc"))
    day.holds(ann)


def sub_agents(day: Day) -> None:
    ann = day.ann
    ann.tell("SubagentStart", "s1")
    ann.tell("SubagentStart", "s2")
    day.does(ann, "echo '# s1' >> app/m3.py", takes="app/m3.py", agent="s1")
    day.does(ann, "echo '# s2' >> app/m4.py", takes="app/m4.py", agent="s2")
    assert day.is_refused(ann, 'python3 -c \'open("app/m3.py", "a")\'', "app/m3.py", "s2") > 0
    day.save("README.md", "a person again\n")
    day.person("git commit -qm readme -- README.md")
    ann.stop("s1")
    ann.stop("s2")
    day.holds(ann, takes="app/m3.py app/m4.py")
    day.does(ann, "git commit -qm subs -- app", frees="app/m3.py app/m4.py")


def the_end(day: Day) -> None:
    day.does(day.ann, "echo more >> gen/c.py", takes="gen/c.py")
    for who in (day.ann, day.bob):
        who.stop()
    until(lambda: held(day.root) == {}, "nothing is held")
    for name, text in day.written.items():
        assert text in (day.root / name).read_text()
    for number, text in (
        (0, "topic"),
        (1, "stashed"),
        (2, "bob"),
        (3, "s1"),
        (4, "s2"),
        (5, "here"),
    ):
        assert f"# {text}\n" in (day.root / f"app/m{number}.py").read_text()
    with LockManager.open(day.root) as manager:
        assert manager.queue() == []
        assert [one for one in manager.events() if one.type in ("damage", "agent_blocked")] == []
