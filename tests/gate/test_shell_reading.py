"""The files that a command line writes: the corpus, real shells, hostile texts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from shlex import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.gate.shell import Reading, TreeVerb, read
from shell_corpus import ROWS
from shell_world import HOME, Row, build


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("world")
    build(root)
    return root


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)


def absolute(root: Path, paths: tuple[str, ...]) -> set[str]:
    return {path if path.startswith("/") else f"{root}/{path}" for path in paths}


def test_the_corpus_is_large_and_has_no_row_twice() -> None:
    assert len(ROWS) >= 220
    assert len({row.command for row in ROWS}) == len(ROWS)
    assert sum(row.real for row in ROWS) >= 100


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.command[:60])
def test_a_command_writes_what_the_corpus_says(row: Row, world: Path) -> None:
    found = read(row.command, str(world))
    assert set(found.writes) == absolute(world, row.writes)
    assert len(set(found.writes)) == len(found.writes)
    assert [(tree.verb, *tree.argv) for tree in found.trees] == list(row.trees)
    assert found.unsure is row.unsure
    assert found.problem == ""


# against real shells

BASH = shutil.which("bash")
GIT = shutil.which("git")


def look(root: Path) -> dict[str, tuple[int, ...]]:
    """Every file below a folder, with a stamp that changes when it is written."""
    found: dict[str, tuple[int, ...]] = {}
    for folder, folders, files in os.walk(root):
        if ".git" in folders:
            folders.remove(".git")
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*files, *links]:
            path = os.path.join(folder, name)
            state = os.lstat(path)
            found[path] = (state.st_ino, state.st_size, state.st_mtime_ns)
    return found


def changed(root: Path, command: str, shell: str) -> set[str]:
    """The files that a command really changes, without temporary ones."""
    for path in look(root):  # so old that every write gets a later clock tick
        os.utime(path, (1_000_000_000, 1_000_000_000), follow_symlinks=False)
    before = look(root)
    environment = {"PATH": os.environ["PATH"], "HOME": str(root.parent), "LC_ALL": "C.UTF-8"}
    subprocess.run(
        [shell, "-c", command],
        cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    after = look(root)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def real(path: str) -> str:
    """A path with all links but the last name resolved."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


@pytest.fixture(scope="module")
def real_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The world as a repository of the real git, to be copied."""
    root = tmp_path_factory.mktemp("real") / "world"
    root.mkdir()
    build(root)
    shutil.rmtree(root / ".git")
    subprocess.run(["git", "init", "-q", "--template=", root], check=True, capture_output=True)
    return root


@pytest.mark.skipif(BASH is None or GIT is None, reason="needs bash and git")
@pytest.mark.parametrize("row", [row for row in ROWS if row.real], ids=lambda row: row.command[:60])
def test_a_real_shell_changes_what_was_foretold(row: Row, real_world: Path, tmp_path: Path) -> None:
    assert BASH is not None
    for tool in ("perl", "gcc", "patch"):
        if f"{tool} " in row.command and shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    root = tmp_path / "world"
    shutil.copytree(real_world, root, symlinks=True, copy_function=shutil.copyfile)
    told = read(row.command, str(root))
    folders = [real(path.rstrip("/")) + "/" for path in told.writes if path.endswith("/")]
    files = {real(path) for path in told.writes if not path.endswith("/")}
    seen = changed(root, row.command, BASH)

    untold = {path for path in seen if real(path) not in files}
    assert {path for path in untold if not real(path).startswith(tuple(folders))} == set()
    # A predicted file has changed, is missing again, or could never exist.
    assert {
        path for path in files - {real(path) for path in seen} if os.path.lexists(path)
    } == set()
    for folder in folders:
        assert not os.path.exists(folder) or any(real(path).startswith(folder) for path in seen)


# promises beyond the corpus


def test_a_reading_says_where_git_works(world: Path) -> None:
    found = read("git -C src reset --hard && cd docs && git stash", str(world))
    assert found.trees == (
        TreeVerb("reset", ("--hard",), f"{world}/src"),
        TreeVerb("stash", (), f"{world}/docs"),
    )


@pytest.mark.parametrize(
    ("command", "absent", "fleeting"),
    [
        ("rm -f nope.txt a.txt", "nope.txt", ""),
        ("rm -rf dist && mkdir dist && touch dist/x", "dist", ""),
        ("rm -f nope.txt; touch nope.txt", "", ""),
        ("touch nope.txt; rm nope.txt", "", "nope.txt"),
        ("touch nope.txt; rm nope.txt; touch nope.txt", "", ""),
        ("touch a.txt; rm a.txt", "", ""),
        ("mkdir dist; rm -rf dist", "", ""),
        ("for f in x y; do rm -f $f; done", "x y", ""),
        ("rm -f *.nope", "", ""),
        ("unlink nope.txt", "nope.txt", ""),
        ("sort a.txt > t && mv t a.txt", "", "t"),
        ("sed -i.bak s/a/b/ a.txt && rm a.txt.bak", "", "a.txt.bak"),
        ("while read f; do touch t; rm t; done", "", "t"),
    ],
)
def test_a_removal_of_a_missing_file_is_distinguished(
    command: str, absent: str, fleeting: str, world: Path
) -> None:
    found = read(command, str(world))
    assert found.absent == {f"{world}/{name}" for name in absent.split()}
    assert found.fleeting == {f"{world}/{name}" for name in fleeting.split()}
    assert found.absent | found.fleeting <= set(found.writes)


@pytest.mark.parametrize(
    ("command", "visits"),
    [
        ("cd ../b && make", ["../b"]),
        ("make -C ../b", ["../b"]),
        ("npm --prefix=/b install", ["/b"]),
        ("(cd /b; npm test)", ["/b"]),
        ("pushd src; make", ["src"]),
        ("git -C ../b pull", ["../b"]),
        ("../b/run.sh x y", ["../b/run.sh"]),
        ("black ..", [".."]),
        ("make all", []),
        ('cd "$X" && make -C "$Y"', []),
    ],
)
def test_a_reading_says_where_else_its_programs_may_write(
    command: str, visits: list[str], world: Path
) -> None:
    meant = {os.path.normpath(os.path.join(world, path)) for path in visits}
    assert {os.path.normpath(path) for path in read(command, str(world)).visits} == meant


def test_a_git_verb_in_an_unknown_folder_is_unsure(world: Path) -> None:
    found = read('cd "$X" && git reset --hard', str(world))
    assert found.trees == (TreeVerb("reset", ("--hard",), ""),)
    assert found.unsure


@pytest.mark.parametrize(
    "command",
    ["echo 'a", 'echo "a', "echo $(ls", "echo `ls", "if true; then ls", "for", "ls | ", "a && ",
     "( ls", "{ ls", "case x in", "echo >", "ls )", "done", "echo ${x", "[[ a", "&& ls", "a=(1",
     "f() ", "while true; do", "x <<<", "fi", ";; ls", "| ls", "$((", "cat <(ls"],
)  # fmt: skip
def test_text_that_no_shell_accepts_is_a_problem(command: str, world: Path) -> None:
    found = read(command, str(world))
    assert found.problem
    assert found.unsure
    assert not found.problem.startswith("it could not be followed")
    assert found.writes == ()
    assert found.trees == ()


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.command[:60])
def test_bash_accepts_every_row(row: Row) -> None:
    done = subprocess.run(
        ["bash", "-n", "-c", row.command], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_pattern_in_a_folder_with_too_many_files_is_unsure(tmp_path: Path) -> None:
    for number in range(600):
        (tmp_path / f"{number}.txt").touch()
    found = read("rm *.txt", str(tmp_path))
    assert found.unsure
    assert found.writes == ()


def test_a_pipe_as_a_patch_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "p.patch")
    assert read("patch -p1 < p.patch; git apply p.patch", str(tmp_path)).unsure


@pytest.mark.skipif(BASH is None or GIT is None, reason="needs bash and git")
@pytest.mark.parametrize("name", ["app.py", "src/app.py", "README.md"])
@pytest.mark.parametrize("header", [True, False], ids=["git's diff", "plain diff"])
def test_git_apply_in_a_folder_takes_the_names_that_git_takes(
    name: str, header: bool, tmp_path: Path
) -> None:
    assert BASH is not None
    root = tmp_path / "world"
    (root / "src").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True, capture_output=True)
    for file in ("app.py", "src/app.py", "README.md", "src/README.md"):
        (root / file).write_text("x\n")
    first = f"diff --git a/{name} b/{name}\n" if header else ""
    patch = f"{first}--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-x\n+y\n"
    command = f"cd src && git apply <<'EOF'\n{patch}EOF\n"
    assert set(read(command, str(root)).writes) == changed(root, command, BASH)


def test_a_file_named_like_a_branch_is_the_branch(tmp_path: Path) -> None:
    build(tmp_path)
    (tmp_path / "feature").touch()
    assert read("git checkout feature", str(tmp_path)).trees
    assert read("git checkout -- feature", str(tmp_path)).writes == (f"{tmp_path}/feature",)


HOSTILE = {
    "parentheses": "(" * 100_000,
    "double parentheses": "((" * 50_000,
    "dollar parentheses": "$(" * 50_000,
    "quoted substitutions": '"$(' * 33_000,
    "braces": "{ " * 50_000,
    "brace words": "echo " + "{a,b}" * 20_000,
    "brace nests": "echo " + "{a," * 25_000,
    "brace numbers": "echo {1..99999999}",
    "backquotes": "`" * 100_001,
    "escaped backquotes": "echo `" + "\\`" * 49_000 + "`",
    "parameters": "${" * 50_000,
    "parameter words": "echo " + "$x" * 50_000,
    "known words": "x=aaaaaaaaaaaaaaaaaaaa; echo " + "$x" * 49_000,
    "doubling": "x=aa; " + "x=$x$x; " * 12_000 + "echo > $x",
    "here-documents": "cat " + "<<A " * 25_000 + "\n",
    "open here-documents": "cat <<A\n" * 12_000,
    "substitutions in a here-document": "cat <<A\n" + "$(ls)\n" * 16_000 + "A\n",
    "lines": "ls\n" * 33_000,
    "semicolons": "a;" * 50_000,
    "pipes": "a|" * 49_999 + "a",
    "conditions": "a&&" * 33_000 + "a",
    "assignments and subshells": "".join(f"v{n}=1;" for n in range(5000)) + "(:);" * 12_000,
    "redirections": "a " + ">b " * 33_000,
    "many files": "".join(f">f{n} " for n in range(14_000)),
    "loops": "for a in {1..99}; do " * 30 + "touch $a; " + "done; " * 30,
    "while loops": "while a; do " * 35 + "b; " + "done; " * 35,
    "functions": "".join(f"f{n}() {{ f{n + 1}; f{n + 1}; }}; " for n in range(2000)) + "f0",
    "itself": "f() { f; f; }; f",
    "eval": "eval " * 20_000 + "ls",
    "prefixes": "sudo " * 20_000 + "ls",
    "shells": "bash -c '" * 5000 + "'" * 5000,
    "patterns": "echo " + "*a" * 50_000,
    "pattern words": "echo " + "*/* " * 25_000,
    "trimming": "x=" + "a" * 1900 + "; echo " + "${x%%*a*a*a*b}" * 6000,
    "cases": "case x in " + "a|" * 49_000 + "a) ls;; esac",
    "ifs": "if a; then " * 9000,
    "arithmetic": "echo $((" + "(" * 50_000 + ")" * 50_000 + "))",
    "regular expression": "[[ a =~ " + "(" * 90_000 + " ]]",
    "comments": "#" * 100_000,
    "backslashes": "\\" * 99_999,
    "newlines": "\n" * 100_000,
    "continued lines": "echo \\\n" * 14_000,
    "names": "a" * 100_000,
    "quotes": "'a'" * 33_000,
    "ansi": "echo $'" + "\\x41" * 24_000 + "'",
    "arrays": "a=(" + "b " * 49_000 + ")",
    "sed": "sed '" + "s/a/b/w" * 14_000 + "' f",
    "awk": "awk '" + "print >" * 14_000 + "' f",
    "patch": "git apply <<'A'\n" + "--- a\n+++ b\n" * 8000 + "A\n",
    "unicode": "é > ü; " * 14_000,
    "find": "find . " + "-exec a {} + " * 7000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lines_end_soon(name: str, world: Path) -> None:
    command = HOSTILE[name]
    read("ls", str(world))
    begin = time.process_time()
    found = read(command, str(world))
    took = time.process_time() - begin
    assert isinstance(found, Reading)
    assert not found.problem.startswith("it could not be followed")
    assert took < 1.0, f"{took:.2f} s"


def test_ten_times_the_text_takes_about_ten_times_as_long(world: Path) -> None:
    def seconds(count: int) -> float:
        command = "echo 'a' \"b $HOME\" > /dev/null; \n" * count
        best = 60.0
        for _ in range(3):
            begin = time.process_time()
            read(command, str(world))
            best = min(best, time.process_time() - begin)
        return best

    seconds(10)
    assert seconds(3000) < 10 * 3 * max(seconds(300), 0.001)


def test_a_line_that_is_too_long_is_a_problem(world: Path) -> None:
    assert read("x" * 1_000_001, str(world)).problem
    assert read("echo \0", str(world)).problem


def test_reading_loads_nothing_that_slows_a_hook_down() -> None:
    heavy = "re", "shlex", "enum", "dataclasses", "typing", "json", "pathlib", "glob", "fnmatch"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from holdfast.gate.shell import read;"
        "read('sed -i s/a/b/ *.py && git reset --hard', '/');"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(source)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


# any text at all

SIGNS = "( ) { } ' \" ` \\ ; & | > < $ ~ * ? [ ] # ! = - / % @ + é a"
JOINED = (
    "b.txt && || >> << <<< <<- EOF $( ${ $(( )) $x x= fi done esac ;; f() -- $' {a,b} {1..3} 2>&1"
)
WORDS = (
    "[[ if then for in do case while cd git checkout cp mv eval tee xargs awk patch local sed rm"
)
PHRASES = ["\n", "\t", "\nEOF\n", "reset --hard", "rm -rf ", "sed -i ", "perl -i ", "set --", "$@",
           "bash -c ", "find . -exec ", ":-", "..", "%%", " ]]", " "]  # fmt: skip
SHELLISH = st.lists(
    st.sampled_from(
        [*SIGNS.split(), *JOINED.split(), *PHRASES, *(word + " " for word in WORDS.split())]
    ),
    max_size=40,
).map("".join)


@settings(max_examples=600)
@given(st.one_of(st.text(), SHELLISH))
@example("for ((;;)); do a; done")
@example("${x/}")
@example("$'\\c'")
@example("$'\\x'")
@example("perl -")
@example("a[")
@example("cd -\ncd")
@example("[[ a =~ ]]")
def test_no_text_is_too_much(text: str) -> None:
    found = read(text, "/nowhere")
    assert not found.problem.startswith("it could not be followed")
    assert not found.problem or found.unsure
    assert all(path.startswith("/") for path in found.writes)


NAMES = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=30
).filter(lambda name: name not in (".", ".."))


@settings(max_examples=300)
@given(NAMES)
@example("a b")
@example("it's")
@example("$(rm x)")
@example("~")
@example("*")
@example("-")
@example("\\\n")
def test_any_quoted_name_is_found_as_it_is(name: str) -> None:
    for command in ("echo x > {}", "cat >>{}", "touch -- {}", "cd / && sed -i s/a/b/ -- /w/{}"):
        found = read(command.format(quote(name)).replace("/w/'", "'/w/"), "/w")
        assert found.writes == (f"/w/{name}",), command
        assert not found.unsure


@settings(max_examples=300)
@given(NAMES)
def test_any_name_in_double_quotes_is_found_as_it_is(name: str) -> None:
    escaped = "".join("\\" + c if c in '$`"\\' else c for c in name)
    assert read(f'echo x > "{escaped}"', "/w").writes == (f"/w/{name}",)
    assert read("bash -c " + quote("echo x > " + quote(name)), "/w").writes == (f"/w/{name}",)
    assert read("eval " + quote("echo x > " + quote(name)), "/w").writes == (f"/w/{name}",)


LOOKERS = st.sampled_from(
    ["ls", "cat", "grep -n", "head -3", "git log", "git diff", "echo", "wc -l"]
)


@settings(max_examples=300)
@given(st.lists(st.tuples(LOOKERS, st.lists(NAMES, max_size=3)), min_size=1, max_size=4),
       st.sampled_from([" | ", " && ", "; ", " || ", "\n"]))  # fmt: skip
def test_commands_that_only_read_write_nothing(
    commands: list[tuple[str, list[str]]], joint: str
) -> None:
    line = joint.join(" ".join([name, "--", *map(quote, words)]) for name, words in commands)
    found = read(line, "/nowhere")
    assert (found.writes, found.trees, found.unsure, found.problem) == ((), (), False, "")


@settings(max_examples=200)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=80))
def test_the_text_of_a_quoted_here_document_is_never_a_command(text: str) -> None:
    lines = [line for line in text.split("\n") if line != "HERE"]
    body = "\n".join(lines)
    found = read(f"cat > out.txt <<'HERE'\n{body}\nHERE\ntouch after", "/w")
    assert found.writes == ("/w/out.txt", "/w/after")
    assert not found.unsure


@pytest.mark.parametrize(
    ("line", "is_proven"),
    [
        ("ls -l && cat a.txt | head", True),
        ("grep -r x . 2>/dev/null", True),
        ("git status && git log -3 && git branch && git remote -v", True),
        ("curl https://example.org", True),
        ("date +%s", True),
        ("mkdir made", False),
        ("git add a.txt", False),
        ("git commit -m done", False),
        ("git branch other", False),
        ("git fetch", False),
        ("chmod +x run.sh", False),
        ("kill 1234", False),
        ("date -s yesterday", False),
        ("make", False),
        ("echo x > a.txt", False),
        ("git checkout .", False),
        ("cat 'a", False),
    ],
)
def test_only_lines_proven_to_change_nothing_count_as_reading(
    tmp_path: Path, line: str, is_proven: bool
) -> None:
    assert read(line, str(tmp_path)).only_reads is is_proven
