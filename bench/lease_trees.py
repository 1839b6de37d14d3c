"""The repositories that `lease` works in, and the commands that it runs there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_FOLDERS = 10
_C_FILES = 60
_TEST_FILES, _TESTS_IN_ONE = 20, 40
_PACKAGES, _FILES_IN_ONE = 40, 25
_NPM = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts"]


@dataclass(frozen=True)
class Steps:
    """The measured command, and what runs before and after it, unmeasured and alone."""

    line: list[str]
    before: list[list[str]] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)


#: Makes a repository; None if its program is not installed on this machine.
Make = Callable[[Path], Steps | None]


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=bench", "-c", "user.email=bench@example.org")
    quiet = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")
    subprocess.run(["git", *named, *quiet, *words], cwd=folder, check=True, stdout=sys.stderr)


def _commit(folder: Path, ignored: str = "") -> None:
    """Make a folder a repository, with all its files in the first commit."""
    (folder / ".gitignore").write_text(f"/.holdfast/\n{ignored}")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")


def tracked(folder: Path, count: int) -> Path:
    """A repository with so many small files, in ten folders."""
    for number in range(count):
        file = folder / str(number % _FOLDERS) / str(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    _commit(folder, "/ignored/\n")
    return folder


def nothing(folder: Path) -> Steps | None:
    tracked(folder, 1)
    return Steps(["true"])


def make_c(folder: Path) -> Steps | None:
    """A program of many small parts, whose objects git ignores."""
    if not (shutil.which("make") and shutil.which("cc")):
        return None
    folder.mkdir()
    for number in range(_C_FILES):
        (folder / f"part{number}.c").write_text(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
            + "".join(
                f"int part{number}_{one}(int n) {{ char t[64]; int s = {one};\n"
                "  for (int i = 0; i < n; i++) { snprintf(t, sizeof t, \"%d\", i);"
                " s += (int)strlen(t) * i; }\n  return s; }\n"
                for one in range(20)
            )
        )  # fmt: skip
    names = [f"part{number}" for number in range(_C_FILES)]
    (folder / "main.c").write_text(
        "".join(f"int {name}_0(int);\n" for name in names)
        + "int main(void) { return ("
        + " + ".join(f"{name}_0(3)" for name in names)
        + ") == 0; }\n"
    )
    (folder / "Makefile").write_text(
        "OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))\nCFLAGS = -O1\n"
        "program: $(OBJECTS)\n\tcc -o $@ $^\nclean:\n\trm -f program *.o\n"
    )
    _commit(folder, "*.o\n/program\n")
    return Steps(["make", "-s"], after=[["make", "-s", "clean"]])


def make_tests(folder: Path) -> Steps | None:
    """Small tests, of which every eighth writes into a temporary folder."""
    folder.mkdir()
    for number in range(_TEST_FILES):
        (folder / f"test_part{number}.py").write_text(
            "import json\nimport pytest\n\n\n"
            "def work(n):\n"
            "    data = {str(i): list(range(n)) for i in range(400)}\n"
            "    assert json.loads(json.dumps(data)) == data\n"
            "    return data\n\n\n"
            f"@pytest.mark.parametrize('n', range({_TESTS_IN_ONE * 7 // 8}))\n"
            "def test_part(n):\n"
            "    work(n)\n\n\n"
            f"@pytest.mark.parametrize('n', range({_TESTS_IN_ONE // 8}))\n"
            "def test_written(n, tmp_path):\n"
            "    (tmp_path / 'data.json').write_text(json.dumps(work(n)))\n"
        )
    _commit(folder, "__pycache__/\n.pytest_cache/\n")
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:xdist"]
    return Steps(line, after=[["git", "clean", "-fdqX", "-e", "!.holdfast"]])


def _make_packages(folder: Path) -> bool:
    """A package that needs others, all of them packed in files beside it."""
    if not shutil.which("npm"):
        return False
    sources = folder.parent / f"{folder.name}-sources"
    folder.mkdir()
    (folder / "packed").mkdir()
    needed = {}
    for number in range(_PACKAGES):
        source = sources / f"part{number}"
        (source / "lib").mkdir(parents=True)
        name = {"name": f"part{number}", "version": "1.0.0", "main": "lib/0.js"}
        (source / "package.json").write_text(json.dumps(name))
        for one in range(_FILES_IN_ONE):
            (source / "lib" / f"{one}.js").write_text(f"module.exports = {one};\n" * 20)
        needed[f"part{number}"] = f"file:packed/part{number}-1.0.0.tgz"
    subprocess.run(
        ["npm", "pack", "--silent", *(f"{sources}/part{number}" for number in range(_PACKAGES))],
        cwd=folder / "packed", check=True, stdout=sys.stderr,
    )  # fmt: skip
    whole = {"name": "whole", "version": "1.0.0", "private": True, "dependencies": needed}
    (folder / "package.json").write_text(json.dumps(whole, indent=2))
    subprocess.run(_NPM, cwd=folder, check=True, stdout=sys.stderr)
    _commit(folder, "node_modules/\n")
    return True


def make_npm(folder: Path) -> Steps | None:
    return Steps(_NPM) if _make_packages(folder) else None


def make_npm_fresh(folder: Path) -> Steps | None:
    if not _make_packages(folder):
        return None
    return Steps(_NPM, before=[["rm", "-rf", "node_modules"]])


def branches(files: int) -> Make:
    def make(folder: Path) -> Steps | None:
        """Two branches, which differ in every file."""
        tracked(folder, files)
        git(folder, "checkout", "-qb", "other")
        for number in range(files):
            (folder / str(number % _FOLDERS) / str(number)).write_text(f"other {number}\n")
        git(folder, "commit", "-qam", "other")
        git(folder, "checkout", "-q", "main")
        return Steps(["git", "checkout", "-q", "other"],
                     after=[["git", "checkout", "-q", "main"]])  # fmt: skip

    return make
