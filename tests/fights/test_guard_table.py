"""docs/shell.md lists, for each client, which ways of writing a file the guard catches.

Here every cell of that table is tried through the door, with the events that the clients send.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers_guard import ENV, Session, context, gated, refusal, settled, sh, sneaky
from helpers_sandbox import NEEDS_LANDLOCK

TABLE = Path(__file__).parents[2] / "docs/shell.md"
PREVENTED, DETECTED, NEITHER = "prevented", "detected", "neither"
FILE = "app/x.py"


class Way:
    """A way in which Bob writes a file that Ann holds."""

    def __init__(self, folder: Path, client: str) -> None:
        self.root = gated(folder / "work")
        self.client = client
        self.ann = Session("ann", self.root)
        self.bob = Session("bob", self.root, client)

    def held(self) -> None:
        assert self.ann.write(self.root / FILE, "ann\n") == ""
        settled(self.root / FILE)

    def outcome(self, said: str) -> str:
        """The outcome for the file, judged by what the gate told its writer."""
        kept = (self.root / FILE).exists() and (self.root / FILE).read_text() == "ann\n"
        if said.startswith("Refused"):
            assert kept
            return PREVENTED
        assert not kept
        told = context(self.ann.tell("UserPromptSubmit", prompt="go on"))
        if "holdfast undo" not in told:
            return NEITHER
        id = told.partition("holdfast undo ")[2].split()[0]
        undo = [sys.executable, "-m", "holdfast", "-C", str(self.root), "undo", id]
        subprocess.run(undo, check=True, capture_output=True, timeout=60)
        assert (self.root / FILE).read_text() == "ann\n"
        return DETECTED

    def run(self, command: str, *, code: int | None = 0) -> str:
        self.held()
        return self.outcome(self.bob.run(command, code=code))

    def run_each(self, *commands: str) -> str:
        self.held()
        (found,) = {self.outcome(self.bob.run(command)) for command in commands}
        return found

    def start(self, command: str, **more: object) -> dict[str, object]:
        fields = {"command": command, **more}
        assert not refusal(self.bob.tool("PreToolUse", "Bash", fields))
        return fields

    def harm(self) -> None:
        """Let the running program write the file."""
        sh(self.root, f"echo harm > {FILE}")


def edit_tools(way: Way) -> str:
    way.held()
    return way.outcome(way.bob.write(way.root / FILE, "bob\n"))


def plain(way: Way) -> str:
    (way.root / "p.patch").write_text(f"--- {FILE}\n+++ {FILE}\n@@ -1 +1 @@\n-ann\n+bob\n")
    return way.run_each(
        f"echo x > {FILE}", f"echo x >> {FILE}", f"echo x | tee {FILE}", f"sed -i s/a/b/ {FILE}",
        f"cp README.md {FILE}", f"mv {FILE} y", f"rm {FILE}", f"touch {FILE}",
        "patch -p0 < p.patch", f"git checkout -- {FILE}",
    )  # fmt: skip


def elsewhere(way: Way) -> str:
    way.bob = Session("bob", gated(way.root.parent / "other"), way.client)
    return way.run_each(
        f"echo x > ../work/{FILE}", f"cd ../work && rm {FILE}", "git -C ../work stash"
    )


def apply_patch(way: Way) -> str:
    return way.run(
        f"apply_patch <<'E'\n*** Begin Patch\n*** Update File: {FILE}\n@@\n-a\n+b\n*** End Patch\nE"
    )


def whole_tree(way: Way) -> str:
    sh(way.root, f"git checkout -qb far && echo far > {FILE} && git commit -qam far")
    sh(way.root, "git checkout -q main")
    return way.run_each(
        "git stash", "git reset --hard", "git checkout far", "git switch far", "git merge far",
        "git rebase far",
    )  # fmt: skip


def far_commit(way: Way) -> None:
    """Another repository has a newer commit of the file; Ann holds the old version."""
    sh(way.root.parent, f"git clone -q {way.root} far")
    sh(way.root.parent / "far", f"git checkout -q main; echo far > {FILE}; git commit -qam far")
    sh(way.root, "git remote add far ../far && git fetch -q far && git branch -q -u far/main")
    sh(way.root, f"git update-ref -d refs/remotes/far/main; echo ann > {FILE}; git commit -qam ann")
    sh(way.root.parent / "far", f"git pull -q -X ours --no-rebase {way.root} main", code=None)
    way.held()


def known_pull(way: Way) -> str:
    far_commit(way)
    sh(way.root, "git fetch -q far")
    return way.outcome(way.bob.run("git pull -q"))


def unknown_pull(way: Way) -> str:
    far_commit(way)
    return way.outcome(way.bob.run("git pull -q"))


def mcp_named(way: Way) -> str:
    way.held()
    for tool in ("write_file", "move_file", "tidy"):
        fields = {"path": str(way.root / FILE), "destination": FILE}
        said = refusal(way.bob.tool("PreToolUse", f"mcp__files__{tool}", fields))
        assert way.outcome(said) == PREVENTED
    return PREVENTED


def mcp_unnamed(way: Way) -> str:
    way.held()
    for tool, fields in (("tidy", {"style": "short"}), ("read_file", {"path": FILE})):
        assert not refusal(way.bob.tool("PreToolUse", f"mcp__files__{tool}", fields))
        way.harm()
        way.bob.tool("PostToolUse", f"mcp__files__{tool}", fields)
        assert way.outcome("") == DETECTED
        settled(way.root / FILE)
    return DETECTED


def program(way: Way) -> str:
    (way.root / "Makefile").write_text(f"all:\n\techo made > {FILE}\n")
    return way.run_each("make", sneaky(FILE))


def unknown_words(way: Way) -> str:
    sh(way.root, f"git checkout -qb far && git rm -q {FILE} && git commit -qm far")
    sh(way.root, f"git checkout -q main; echo {FILE} > list")
    return way.run_each('rm "$(cat list | head -1)"', "B=$(date +far); git checkout -f $B")


def failing(way: Way) -> str:
    return way.run(f"{sneaky(FILE)}; exit 3", code=3)


def background(way: Way) -> str:
    way.held()
    fields = way.start("npm run watch", run_in_background=True)
    if way.client == "codex":  # the client calls its hook at the end
        way.harm()
        return way.outcome(context(way.bob.tool("PostToolUse", "Bash", fields)))
    way.bob.tool("PostToolUse", "Bash", fields, tool_response={"backgroundTaskId": "b"})
    way.harm()
    way.bob.tell("Stop", background_tasks=[])
    return way.outcome("")


def typed(way: Way) -> str:
    if way.client == "claude":
        return "there is no such tool"
    way.held()
    way.start("bash")
    way.harm()
    way.bob.tell("Stop")
    return way.outcome("")


def broken_off(way: Way) -> str:
    way.held()
    way.start("make")
    way.harm()
    return way.outcome(context(way.bob.tell("UserPromptSubmit", prompt="not like this")))


def left_running(way: Way) -> str:
    way.held()
    fields = way.start("./server.sh --daemon")
    way.bob.tool("PostToolUse", "Bash", fields)
    way.harm()
    way.bob.tell("Stop")
    return way.outcome("")


def not_named(way: Way) -> str:
    way.bob = Session("bob", gated(way.root.parent / "other"), way.client)
    (way.bob.home / "x.py").write_text(f"open('../work/{FILE}', 'w').write('x')")
    return way.run("python3 x.py")


def no_hooks(way: Way) -> str:
    way.held()
    way.harm()
    return way.outcome("")


def sandboxed(way: Way) -> str:
    way.held()
    run = [sys.executable, "-m", "holdfast", "run", "--sandbox", "--write", "README.md", "--"]
    done = subprocess.run(
        [*run, "sh", "-c", f"echo x > {FILE}"], cwd=way.root, timeout=60, check=False,
        env={**ENV, "HOME": os.environ.get("HOME", "/")}, capture_output=True,
    )  # fmt: skip
    return way.outcome("Refused" if done.returncode else "")


#: Each row, by the words in its first column.
WAYS: dict[str, Callable[[Way], str]] = {
    "the client's own edit tools": edit_tools,
    "`>`, `>>`, `tee`": plain,
    "any of these in another repository": elsewhere,
    "`apply_patch` typed": apply_patch,
    "`git stash`, `reset --hard`": whole_tree,
    "`git pull`, changes that were fetched": known_pull,
    "`git pull`, changes that it fetches": unknown_pull,
    "a tool of an MCP server whose arguments": mcp_named,
    "a tool of an MCP server that writes": mcp_unnamed,
    "a program:": program,
    "words that are known only": unknown_words,
    "a command that writes and then fails": failing,
    "a command in the background": background,
    "text typed into": typed,
    "a command that the user": broken_off,
    "a process that is left running": left_running,
    "a program that writes into a repository": not_named,
    "any of these by a client whose hooks": no_hooks,
    "any of these inside `holdfast run --sandbox`": sandboxed,
}


def rows() -> list[tuple[str, str, str]]:
    text = TABLE.read_text().partition("### What the nets catch")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]
    return [(row[0], row[1], row[2]) for row in cells]


def test_each_row_of_the_table_is_tried_here() -> None:
    found = [[start for start in WAYS if way.startswith(start)] for way, _claude, _codex in rows()]
    assert [one for one in found if len(one) != 1] == []
    assert len(found) == len(WAYS)


@pytest.mark.parametrize("client", ["claude", "codex"])
@pytest.mark.parametrize("start", [
    pytest.param(start, marks=NEEDS_LANDLOCK) if "sandbox" in start else start for start in WAYS
])  # fmt: skip
def test_a_cell_of_the_table_is_true(start: str, client: str, tmp_path: Path) -> None:
    (row,) = [row for row in rows() if row[0].startswith(start)]
    cell = row[1] if client == "claude" else row[2]
    assert cell.startswith(WAYS[start](Way(tmp_path, client)))
