"""The small world in which the commands of the corpus are read and run, and the form of a row.

`runs(…)` rows are also given to a real shell, in a copy of the world, and the files that it changes
must be those predicted. `reads(…)` rows are only read: they need a network, a tool or a history
that a test does not have. Paths are relative to the world; a slash at the end means everything
below.
"""

from __future__ import annotations

import os
from pathlib import Path

#: A folder that every system has: `cd` to a missing one fails.
HOME = "/var/tmp"

PATCH = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+--- a/not-this.txt
++++ b/nor-this.txt
diff --git a/b.txt b/b.txt
deleted file mode 100644
--- a/b.txt
+++ /dev/null
@@ -1 +0,0 @@
-b
"""

WORLD = {
    "README.md": "read me\n",
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "b\n",
    "c.py": "c = 1\n",
    "d.py": "d = 2\n",
    "my file.txt": "mine\n",
    "it's.txt": "its\n",
    "ünï.txt": "u\n",
    "data.csv": "1,2\n3,4\n",
    "list.txt": "a.txt\n",
    "q.sql": "-- a/z\n",
    "p.patch": PATCH,
    ".hidden": "h\n",
    "src/app.py": "app\n",
    "src/util.py": "util\n",
    "src/deep/x.js": "x\n",
    "docs/guide.md": "guide\n",
    "build/out.o": "o\n",
    "build/sub/in.o": "i\n",
    "main.c": "int main(void) { return 0; }\n",
}


def build(root: Path) -> None:
    """Make the world: files, an empty folder, a link to a folder, a repository's `.git`."""
    for name, text in WORLD.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "empty").mkdir()
    os.symlink("src", root / "link")
    for branch in ("main", "feature"):
        ref = root / ".git/refs/heads" / branch
        ref.parent.mkdir(parents=True, exist_ok=True)
        ref.write_text("0" * 40 + "\n")


class Row:
    def __init__(
        self,
        command: str,
        writes: tuple[str, ...],
        trees: tuple[tuple[str, ...], ...],
        unsure: bool,
        real: bool,
    ) -> None:
        self.command = command
        self.writes = writes
        self.trees = trees
        self.unsure = unsure
        self.real = real


ROWS: list[Row] = []


def runs(command: str, *writes: str) -> None:
    ROWS.append(Row(command, writes, (), False, True))


def reads(
    command: str, *writes: str, trees: tuple[tuple[str, ...], ...] = (), unsure: bool = False
) -> None:
    ROWS.append(Row(command, writes, trees, unsure, False))


def tree(command: str, *words: str) -> None:
    """A git verb on the whole tree: the verb and the words after it."""
    reads(command, trees=(words,))


def unsure(command: str, *writes: str) -> None:
    reads(command, *writes, unsure=True)
