"""docs/shell.md states, client by client, which ways of writing are prevented where commands are
leased.

Every cell of that table is tested here with the real clients: an owner holds a file by an edit, and
another agent writes it in some way.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from helpers_processes import LINUX_ONLY, until
from helpers_sandbox import NEEDS_LANDLOCK

from .conftest import need
from .crew import REFUSED, Agent, Claudes, Codexes, Crew, Gateway, is_refusal, when
from .drive import sweep
from .gated import AT_ONCE, Gated
from .leased import NOTEBOOK
from .mcp import NOTES, started_with, tool
from .servers import AnthropicServer, Call, OpenAIServer, Step, bash, edit_cell, patch, read, write

pytestmark = [LINUX_ONLY, *([NEEDS_LANDLOCK] if sys.platform == "linux" else [])]

TABLE = Path(__file__).parents[2] / "docs/shell.md"
HEADER = "| way of writing a file that another agent holds, with leases |"
PREVENTED, DETECTED, NEITHER = "prevented", "detected", "neither"
CLIENTS = ("claude", "codex")

#: The owner's files: one that it has changed, one that it has made, and with Claude Code one for
#: which Claude Code has another tool.
CHANGED, MADE, BOOK = "a.txt", "made.txt", "book.ipynb"
#: A parser of the command line does not see this write.
WRITER = "open('a.txt', 'w').write('bad')\n"
IDENTITY = ["-c", "user.name=Tess", "-c", "user.email=tess@example.org"]

PROJECT = {
    "a.txt": "old\n",
    "b.txt": "old\n",
    "book.ipynb": json.dumps(NOTEBOOK).replace("mine", "old"),
    "list": "a.txt\n",
    "p.patch": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-mine\n+bad\n",
    "Makefile": "all:\n\techo bad >$(shell cat list)\n",
    "package.json": '{"scripts": {"postinstall": "python3 x.py"}}\n',
    "x.py": WRITER,
    "late.py": (
        "import os, sys, time\n"
        "go, done = sys.argv[1:]\n"
        "while not os.path.exists(go):\n"
        "    time.sleep(0.02)\n"
        "try:\n"
        "    exec(open('x.py').read())\n"
        "finally:\n"
        "    open(done, 'w').close()\n"
    ),
    "tidy.sh": "git stash\ngit reset --hard\ngit clean -fd\n",
}


def project(root: Path, **files: str) -> Path:
    """A repository with a branch on which the files that are held here have other contents."""
    root.mkdir(parents=True)
    for name, text in {**PROJECT, **files}.items():
        (root / name).write_text(text)
    git(root, "init", "-q", "-b", "main")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    git(root, "checkout", "-q", "-b", "far")
    for name in (CHANGED, MADE):
        (root / name).write_text("far\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "far")
    git(root, "checkout", "-q", "main")
    return root


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *IDENTITY, *words], cwd=folder, check=True, capture_output=True)


def state(file: Path) -> tuple[Any, ...] | None:
    if not file.exists():
        return None
    found = os.stat(file)
    return file.read_bytes(), found.st_mode, found.st_ino, found.st_mtime_ns


class Scene:
    """A repository with the gate, in which one agent holds files and others of its client write."""

    def __init__(self, folder: Path, client: str, stack: ExitStack, **settings: object) -> None:
        need(client)
        self.gated = Gated(project(folder / "repo"))
        self.gated.init(**{**AT_ONCE, **settings})
        stack.callback(sweep, folder)
        self.crew: Crew
        if client == "claude":
            self.crew = Claudes(self.gated, stack.enter_context(AnthropicServer()))
        else:
            self.crew = Codexes(self.gated, stack.enter_context(OpenAIServer()))
        self._goes_on, self._ends = Gateway(), Gateway()
        stack.callback(self._ends.open)
        stack.callback(self._goes_on.open)
        self._others = 0

    @property
    def root(self) -> Path:
        return self.gated.root

    def has_owner(self, *steps: Step) -> None:
        """Let an owner do these steps, or by default take all the files that are held here."""
        crew = self.crew
        steps = steps or (crew.edit(CHANGED, "old", "mine"), *self._taking())
        self._goes_on, self._ends = Gateway(), Gateway()
        script = [*steps, self._goes_on.then(crew.shell("true")), self._ends.then()]
        self._steps = len(steps)
        self.owner = crew.start("owner", *script)
        self.owner.has_done(self._steps)
        assert not any(map(is_refusal, self.owner.results)), self.owner.results
        self.name = self.owner.name
        self.before = self.state()
        assert self.gated.held() == dict.fromkeys(self.before, self.name)

    def _taking(self) -> tuple[Call, ...]:
        if isinstance(self.crew, Claudes):
            book = self.root / BOOK
            return write(self.root / MADE, "mine\n"), read(book), edit_cell(book, "one", "mine")
        return (patch(f"*** Add File: {MADE}\n+mine"),)

    def state(self) -> dict[str, Any]:
        """The owner's files: their exact content, and their other changeable attributes."""
        names = [name for name, holder in self.gated.held().items() if holder == self.name]
        return {name: state(self.root / name) for name in names}

    def other(self, *steps: Step, **more: Any) -> Agent:
        """Another agent that has done these steps, and has ended."""
        self._others += 1
        done = self.crew.run(f"other-{self._others}", *steps, **more)
        assert len(done.results) >= len(steps), done.results
        return done

    def refused(self, *steps: Step, names: str = "a.txt", **more: Any) -> str:
        """The outcome of ways for which every result of the model's calls is a refusal."""
        said = self.other(*steps, **more)
        for text in said.results:
            assert REFUSED in text, text
            assert names in text
            assert self.name in text
        return self.outcome(said)

    def outcome(self, other: Agent) -> str:
        """The outcome for the owner's files."""
        if self.state() == self.before:
            assert self.gated.happened("damage") == []
            return PREVENTED
        return self.told(other)

    def told(self, other: Agent) -> str:
        """The outcome for changed files: whether both are told, and if one command undoes it."""
        self._goes_on.open()
        self.owner.has_done(self._steps + 1)
        both = self.owner, other
        texts = [self.crew.server.asked(one.script)[-1].text() for one in both]
        damages = self.gated.happened("damage")
        found = ["holdfast undo" in text for text in texts]
        if not damages:
            assert found == [False, False]
            return NEITHER
        assert found == [True, True], texts
        for event in reversed(damages):
            id = event["data"]["id"]
            assert all(f"holdfast undo {id}" in text for text in texts)
            undone = self.gated.by_a_person("undo", id)
            assert undone.code == 0, undone
        for name, (content, *_more) in self.before.items():
            assert (self.root / name).read_bytes() == content
        return DETECTED


Stage = Callable[..., Scene]


# Ways in a repository that all of them share: they must leave it unchanged


def edit_tools(scene: Scene) -> str:
    crew = scene.crew
    if isinstance(crew, Claudes):
        book = scene.root / "book.ipynb"
        other = scene.other(read(book), edit_cell(book, "one", "bad"))
        assert f"{REFUSED}book.ipynb" in other.results[1]
        return scene.refused(crew.edit("a.txt", "mine", "bad"), write(scene.root / "a.txt", "bad"))
    onto = "*** Update File: b.txt\n*** Move to: a.txt\n@@\n-old\n+bad"
    away = "*** Update File: a.txt\n*** Move to: c.txt\n@@\n-mine\n+bad"
    delete, add = "*** Delete File: a.txt", "*** Add File: a.txt\n+bad"
    calls = (patch(one) for one in (onto, away, delete, add))
    return scene.refused(crew.edit("a.txt", "mine", "bad"), *calls)


def plain(scene: Scene) -> str:
    lines = (
        "echo bad >a.txt", "echo bad >>a.txt", "echo bad | tee a.txt", "sed -i s/mine/bad/ a.txt",
        "cp b.txt a.txt", "mv a.txt c.txt", "rm a.txt", "touch a.txt", "patch -p0 <p.patch",
        "git checkout -- a.txt",
    )  # fmt: skip
    return scene.refused(*map(scene.crew.shell, lines))


def whole_tree(scene: Scene) -> str:
    lines = ("git stash", "git reset --hard", "git checkout far", "git merge far", "git rebase far")
    assert scene.refused(*map(scene.crew.shell, lines)) == PREVENTED
    return scene.refused(scene.crew.shell("git clean -fd"), names="made.txt")


def program(scene: Scene) -> str:
    lines = (
        "make",
        "npm install --no-update-notifier",
        "perl -pi -e s/mine/bad/ *.txt",
        "python3 x.py",
        "sh tidy.sh",
    )
    return scene.refused(*map(scene.crew.shell, lines))


def failing(scene: Scene) -> str:
    return scene.refused(scene.crew.shell("python3 x.py; exit 3"))


def background(scene: Scene) -> str:
    go, done = (scene.root.parent / f"background-{one}" for one in ("go", "done"))
    line = shlex.join(["python3", "late.py", str(go), str(done)])
    call = bash(line, background=True)
    if isinstance(scene.crew, Codexes):
        call = Call("exec_command", {"cmd": line, "yield_time_ms": 250})

    def has_tried() -> None:
        assert not done.exists(), "the command runs in the background"
        go.touch()
        until(done.exists, "it has tried")

    return scene.outcome(scene.other(call, when(has_tried, scene.crew.shell("true"))))


def left_running(scene: Scene) -> str:
    go, done = (scene.root.parent / f"left-{one}" for one in ("go", "done"))
    line = shlex.join(["setsid", "python3", "late.py", str(go), str(done)])
    other = scene.other(scene.crew.shell(f"{line} >/dev/null 2>&1 &"))
    assert not done.exists()
    go.touch()
    until(done.exists, "it has tried")
    return scene.outcome(other)


def mcp_named(scene: Scene) -> str:
    crew, file, free = scene.crew, str(scene.root / "a.txt"), str(scene.root / "b.txt")
    by_files = scene.refused(
        tool(crew, "write_file", path=file, content="bad\n"),
        tool(crew, "edit_file", path=file, edits=[{"oldText": "mine", "newText": "bad"}]),
        tool(crew, "move_file", source=free, destination=file),
        **started_with(crew),
    )
    assert by_files == PREVENTED
    return scene.refused(
        tool(crew, "tidy_file", server=NOTES, destination=file),
        tool(crew, "tidy", server=NOTES, style=file),
        **started_with(crew, [NOTES], "a.txt"),
    )


# Ways that need a repository of their own


def pull(stage: Stage) -> str:
    scene = stage()
    far = scene.root.parent / "far"
    git(scene.root.parent, "clone", "-q", str(scene.root), str(far))
    git(scene.root, "remote", "add", "far", str(far))
    git(scene.root, "fetch", "-q", "far")
    git(scene.root, "branch", "-q", "-u", "far/main")
    (far / "a.txt").write_text("far\n")
    git(far, "commit", "-q", "-a", "-m", "what comes only then")
    crew = scene.crew  # git itself would not replace uncommitted changes
    scene.has_owner(crew.edit("a.txt", "old", "mine"), crew.edit("a.txt", "mine", "old"))
    return scene.refused(crew.shell("git pull"))


def unknown_words(stage: Stage) -> str:
    scene = stage()
    scene.has_owner()
    lines = 'rm "$(cat list)"', "BRANCH=$(echo far); git checkout -f $BRANCH"
    return scene.refused(*map(scene.crew.shell, lines))


def mcp_unnamed(stage: Stage) -> str:
    found = set()
    for name, fields in (("tidy", {"style": "short"}), ("read_notes", {"path": "a.txt"})):
        scene = stage()
        scene.has_owner()
        call = tool(scene.crew, name, server=NOTES, **fields)
        other = scene.other(call, **started_with(scene.crew, [NOTES], "a.txt"))
        assert REFUSED not in other.results[0], "its hook cannot see the file that it writes"
        found.add(scene.outcome(other))
        assert ("Permission denied" in other.results[0]) is (found == {PREVENTED})
    (outcome,) = found
    return outcome


def excepted(stage: Stage) -> str:
    scene = stage(lease_except=["mytool"])
    scene.has_owner()
    folder = scene.root.parent / "bin"
    folder.mkdir()
    (folder / "mytool").write_text(f"#!{sys.executable}\n{WRITER}")
    (folder / "mytool").chmod(0o755)
    other = scene.other(scene.crew.shell("../bin/mytool --all"))
    assert "mytool cannot run below a broker" in scene.crew.server.asked("other-1")[-1].text()
    return scene.outcome(other)


def not_named(stage: Stage) -> str:
    scene = stage()
    scene.has_owner()
    writer = f"import os; os.chdir({str(scene.root)!r}); {WRITER}"
    there = Gated(project(scene.root.parent / "there", **{"x.py": writer})).init(**AT_ONCE)
    agents = type(scene.crew)(there, scene.crew.server)
    other = agents.run("there", scene.crew.shell("python3 x.py"), home=scene.gated.home())
    assert other.results
    return scene.outcome(other)


def no_hooks(stage: Stage) -> str:
    scene = stage()
    scene.has_owner()
    more: dict[str, Any] = {"vetted": False}
    if isinstance(scene.crew, Claudes):
        more = {"options": ["--setting-sources", "user"]}
    return scene.outcome(scene.other(scene.crew.shell("echo bad >a.txt"), **more))


#: Each row by its first words.
SHARED: dict[str, Callable[[Scene], str]] = {
    "the client's own edit tools": edit_tools,
    "`>`, `>>`, `tee`": plain,
    "`git stash`, `reset --hard`": whole_tree,
    "a program: `make`": program,
    "a command that writes and then fails": failing,
    "a command in the background": background,
    "a process that is left running": left_running,
    "a tool of an MCP server whose arguments": mcp_named,
}
ALONE: dict[str, Callable[[Stage], str]] = {
    "`git pull`, changes that it fetches": pull,
    "words that are known only": unknown_words,
    "a tool of an MCP server that writes": mcp_unnamed,
    "a line that calls a command of `gate.lease_except`": excepted,
    "a program that writes into a repository": not_named,
    "any of these by a client whose hooks": no_hooks,
}


def rows() -> list[tuple[str, str, str]]:
    text = TABLE.read_text().partition(HEADER)[2].partition("\n\n")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    # A `|` inside a cell would have to be code, and this table has none.
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(row[0], row[1], row[2]) for row in cells if not row[0].startswith("Claude")]


def cell(start: str, client: str) -> str:
    (row,) = [row for row in rows() if row[0].startswith(start)]
    return row[1 + CLIENTS.index(client)]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Scene]]:
    """The scene of each client that most ways share."""
    made: dict[str, Scene] = {}
    with ExitStack() as stack:

        def scene(client: str) -> Scene:
            if client not in made:
                made[client] = Scene(tmp_path_factory.mktemp(client), client, stack)
                made[client].has_owner()
            return made[client]

        yield scene


def test_each_row_of_the_table_is_tried_here() -> None:
    ways = [*SHARED, *ALONE]
    found = [[start for start in ways if row.startswith(start)] for row, _claude, _codex in rows()]
    assert [one for one in found if len(one) != 1] == []
    assert len(found) == len(ways)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("start", SHARED)
def test_a_cell_is_true(start: str, client: str, scenes: Callable[[str], Scene]) -> None:
    assert SHARED[start](scenes(client)) == cell(start, client)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("start", ALONE)
def test_a_cell_is_true_in_a_repository_of_its_own(start: str, client: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        made: list[Scene] = []

        def stage(**settings: object) -> Scene:
            made.append(Scene(tmp_path / f"{len(made)}", client, stack, **settings))
            return made[-1]

        assert ALONE[start](stage) == cell(start, client)
