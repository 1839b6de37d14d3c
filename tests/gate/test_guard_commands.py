"""Commands that agents type all day, run twice: once without a gate, to learn their real effects,
and once through the door while another agent holds files. So both a needless refusal and unreported
damage are detected.

Real git, real shells, two agents.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_guard import ENV, Session, gated, owners, settled, sh
from holdfast.gate.guard.unclaimed_changes import NAMED_MAX

FILES = {
    "src/a.py": "a = 'foo'\n",
    "src/b.py": "b = 'foo'\n",
    "src/deep/c.py": "c = 'foo'\n",
    "src/ünï.py": "u = 'foo'\n",
    "docs/guide.md": "# foo\n",
    "my file.txt": "foo\n",
    "list.txt": "src/b.py\nsrc/deep/c.py\n",
    "package.json": '{"name": "x"}\n',
    "Makefile": "out.txt: src/b.py\n\tcat src/b.py > out.txt\nfmt:\n\tsed -i s/foo/bar/ src/*.py\n",
    "swap.py": "import sys\nfor f in sys.argv[1:]:\n    t = open(f).read()\n"
    "    open(f, 'w').write(t.replace('foo', 'bar'))\n",
    "b.patch": "--- a/src/b.py\n+++ b/src/b.py\n@@ -1 +1 @@\n-b = 'foo'\n+b = 'new'\n",
    "my.patch": "--- a/my file.txt\t\n+++ b/my file.txt\t\n@@ -1,2 +1,2 @@\n-foo\n+new\n"
    " # ann foo\n",
}
#: What the other agent has changed, and holds: committed files, and one that is new.
HELD = ("src/a.py", "docs/guide.md", "my file.txt", "new one.py")

PASSED, REFUSED, DAMAGED = "passed", "refused", "damaged"

COMMANDS = [
    # plain writes
    ("cat > src/b.py <<'EOF'\nnew\nEOF", PASSED),
    ("cat > src/a.py <<'EOF'\nnew\nEOF", REFUSED),
    ("echo hi | tee src/b.py src/new.py > /dev/null", PASSED),
    ("echo hi | tee -a 'my file.txt'", REFUSED),
    ("sed -i s/foo/bar/ lnk/a.py", REFUSED),
    ("sed -i s/foo/bar/ src/{b,ünï}.py", PASSED),
    ("sed -i s/foo/bar/ src/*.py", REFUSED),
    ("for f in src/b.py src/deep/c.py; do sed -i s/foo/bar/ \"$f\"; done", PASSED),
    ("D=src; N=a; echo x > $D/$N.py", REFUSED),
    ("echo x > \"$(git rev-parse --show-toplevel)/src/a.py\"", REFUSED),
    ("ln -s a.py src/alias.py && echo x > src/alias.py", DAMAGED),
    ("git mv src/b.py src/moved.py", PASSED),
    ("git mv src/a.py src/moved.py", REFUSED),
    ("git rm -qf 'my file.txt'", REFUSED),
    ("git apply b.patch", PASSED),
    ("patch -s -p1 < my.patch", REFUSED),
    ("mkdir pkg && mv src/b.py src/deep pkg/", PASSED),
    ("mv docs documents", REFUSED),
    ("tr a-z A-Z < src/b.py > t && mv t src/b.py", PASSED),
    ("tr a-z A-Z < src/a.py > t && mv t src/a.py", REFUSED),
    ("[ -f src/a.py ] || cp src/b.py src/a.py", PASSED),
    ("[ -f zz.py ] || cp src/b.py zz.py", PASSED),
    ("rm -rf dist && mkdir dist && echo x > dist/o.js", PASSED),
    ("echo x > 'new one.py'", REFUSED),
    ("find . -name '*.md' | xargs grep -l foo; cat src/a.py | wc -l", PASSED),
    # programs, and arguments that are known only when the line runs
    ("make", PASSED),
    ("make fmt", DAMAGED),
    ("python3 swap.py src/b.py", PASSED),
    ("python3 swap.py src/a.py src/b.py", DAMAGED),
    ("python3 - <<'EOF'\nopen('docs/guide.md', 'w').write('x')\nEOF", DAMAGED),
    ("python3 -c \"import os; os.unlink('new one.py')\"; false", DAMAGED),
    ("find . -name '*.py' -exec sed -i s/foo/bar/ {} +", DAMAGED),
    ("find src/deep -name '*.py' -exec sed -i s/foo/bar/ {} \\;", PASSED),
    ("grep -rl foo src docs | xargs sed -i s/foo/bar/", DAMAGED),
    ("xargs sed -i s/foo/bar/ < list.txt", PASSED),
    ("python3 swap.py src/b.py & wait", PASSED),
    ("F=$(echo src/a.py); echo x > $F", REFUSED),
    ("F=$(ls src | head -1); echo x > src/$F", DAMAGED),
    # git on the whole tree
    ("git stash -q", REFUSED),
    ("git stash push -q -- src/b.py; git checkout -q other; git checkout -q main", PASSED),
    ("git checkout -q other", PASSED),
    ("git merge -q other", PASSED),
    ("git pull -q", PASSED),
    ("git reset -q --hard", REFUSED),
    ("git clean -qfd", REFUSED),
    ("git -c rebase.autoStash=true rebase -q other", REFUSED),
]  # fmt: skip
#: Added by the other agent to each of its files.
ANNS = "# ann foo\n"
#: Refused although the files end up unchanged: they are missing for a moment.
FOR_A_MOMENT = ("autoStash",)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = gated(tmp_path_factory.mktemp("commands") / "work")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    os.symlink("src", root / "lnk")
    sh(root, "git checkout -q main && git add -A && git commit -qm files && git branch -qf other")
    sh(root, "git checkout -q other && echo o >> src/b.py && git commit -qam o")
    sh(root, "git checkout -q main && git branch -q -u other")
    return root


def look(root: Path) -> dict[str, bytes]:
    """All files with their content."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in (".git", ".holdfast")]
        for name in names:
            path = Path(folder, name)
            found[str(path.relative_to(root))] = path.read_bytes()
    return found


def ann_writes(root: Path) -> dict[str, str]:
    """Let the other agent work; the content of its files afterwards."""
    ann = Session("ann", root)
    for name in HELD:
        text = (root / name).read_text() if (root / name).exists() else ""
        assert ann.write(root / name, f"{text}{ANNS}") == ""
    return anns(root)


def anns(root: Path) -> dict[str, str]:
    return {name: (root / name).read_text() for name in HELD if (root / name).exists()}


def really_changed(template: Path, root: Path, command: str) -> tuple[set[str], bool]:
    """The files that a command changes without a gate, and whether it succeeds."""
    shutil.copytree(template, root, symlinks=True)
    for name in HELD:
        with open(root / name, "a") as file:
            file.write(ANNS)
    before = look(root)
    succeeds = sh(root, f"({command}\n) > /dev/null 2>&1 && echo yes", code=None) == "yes\n"
    after = look(root)
    names = before.keys() | after.keys()
    return {name for name in names if before.get(name) != after.get(name)}, succeeds


def with_a_gate(template: Path, root: Path, command: str) -> str:
    """The outcome of a command while another agent holds files."""
    return outcome(said_with_a_gate(template, root, command))


def outcome(told: str) -> str:
    return REFUSED if told.startswith("Refused") else DAMAGED if "holdfast undo" in told else PASSED


def said_with_a_gate(template: Path, root: Path, command: str) -> str:
    """The report to an agent on its command while another agent holds files. Those end up
    unchanged, if necessary because the damage is undone."""
    shutil.copytree(template, root, symlinks=True)
    kept = ann_writes(root)
    settled(root / "new one.py")
    told = Session("bob", root).run(command, code=None)
    if "holdfast undo" in told:
        id = told.partition("holdfast undo ")[2].split()[0]
        undo = [sys.executable, "-m", "holdfast", "undo", id]
        subprocess.run(undo, cwd=root, env=ENV, check=True, capture_output=True, timeout=60)
        assert "holdfast undo" in Session("ann", root).run("ls")
    assert anns(root) == kept
    return told


@pytest.mark.parametrize(("command", "expected"), COMMANDS, ids=lambda value: value[:50])
def test_no_refusal_is_needless_and_no_damage_is_missed(
    template: Path, tmp_path: Path, command: str, expected: str
) -> None:
    changed, _succeeds = really_changed(template, tmp_path / "free", command)
    hurts = not changed.isdisjoint(HELD) or any(word in command for word in FOR_A_MOMENT)
    assert hurts is (expected != PASSED)
    told = said_with_a_gate(template, tmp_path / "gated", command)
    assert outcome(told) == expected
    if expected != REFUSED:
        assert_accounted_for(tmp_path / "gated", changed, told)


def assert_accounted_for(root: Path, changed: set[str], told: str) -> None:
    """An uncommitted file is leased to its agent if the line plainly writes it; otherwise it is
    reported and left free. No temporary file is leased."""
    dirty = sh(root, "git -c core.quotePath=false status --porcelain -uall --no-renames")
    fresh = {line[3:].strip('"') for line in dirty.splitlines()} & changed - set(HELD)
    mine = {path for path, owner in owners(root).items() if owner == "claude:bob"}
    left = {name for name in fresh if (root / name).exists()} - {"dist/o.js"} - mine
    if len(left) > NAMED_MAX:
        assert f"{len(left)} unleased files changed" in told
    else:
        assert {name for name in left if name in told} == left
    assert {name for name in mine if not (root / name).exists()} <= changed
