"""Whatever is wrong, the command explains it and exits with a documented code."""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast.cli as cli
from helpers_cli import COMMAND, QuickRepository, Repository, environment
from holdfast.cli.commands import COMMANDS, GLOBALS
from holdfast.cli.parser import UsageError, parse


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return QuickRepository(tmp_path / "repo")


def both(repo: Repository, *words: str, code: int, error: str) -> None:
    """The same error as text and as JSON."""
    answer = repo.hold(*words)
    assert (answer.code, answer.out) == (code, ""), answer
    assert answer.err.startswith("holdfast: ")
    assert "\n  -> " in answer.err
    found = repo.hold("--json", *words)
    assert (found.code, found.error["code"]) == (code, error), found


COMMANDS_THAT_OPEN = (
    ["lock", "app/x.rb"], ["unlock", "app/x.rb"], ["renew", "app/x.rb"], ["steal", "app/x.rb"],
    ["check", "app/x.rb"], ["status"], ["log"], ["reap"], ["trim", "--keep", "1"],
    ["run", "--write", "app/x.rb", "true"],
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS_THAT_OPEN)
def test_a_damaged_ledger(repo: Repository, words: list[str]) -> None:
    repo.hold("lock", "app/y.rb")
    for file in (repo.root / ".holdfast").glob("ledger.db*"):
        file.unlink()
    (repo.root / ".holdfast/ledger.db").write_bytes(b"this is no database" * 1000)
    both(repo, *words, code=1, error="E_STORE_CORRUPT")


@pytest.mark.parametrize("words", COMMANDS_THAT_OPEN)
def test_a_ledger_of_a_newer_version(repo: Repository, words: list[str]) -> None:
    repo.hold("lock", "app/y.rb")
    connection = sqlite3.connect(repo.root / ".holdfast/ledger.db")
    connection.execute("pragma user_version = 999")
    connection.close()
    both(repo, *words, code=1, error="E_STORE_VERSION")


def test_a_record_that_cannot_be_read(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    connection = sqlite3.connect(repo.root / ".holdfast/ledger.db")
    connection.execute("update events set data = 'nonsense'")
    connection.commit()
    connection.close()
    for words in (["status"], ["lock", "app/x.rb"], ["log"]):
        both(repo, *words, code=1, error="E_STORE_CORRUPT")


def test_a_ledger_without_its_tables(repo: Repository) -> None:
    repo.hold("lock", "app/x.rb", "--holder", "ann")
    connection = sqlite3.connect(repo.root / ".holdfast/ledger.db")
    for (name,) in connection.execute(
        "select name from sqlite_schema where type = 'table'"
    ).fetchall():
        connection.execute(f"drop table {name}")
    connection.close()
    for words in (["status"], ["lock", "app/x.rb"], ["log"], ["trim", "--keep", "0"]):
        answer = repo.hold(*words)
        assert (answer.code, answer.out) == (1, "")


def test_a_file_where_the_ledgers_folder_should_be(repo: Repository) -> None:
    (repo.root / ".holdfast").write_text("in the way")
    assert repo.hold("lock", "app/x.rb").code == 1
    assert repo.hold("status").code == 0


#: Everything is imported first: another user may not be able to read this installation.
AS_NOBODY = """
import os, shlex, sqlite3, sys
import holdfast.cli.locking.log_commands, holdfast.cli.locking.lock_commands
import holdfast.cli.locking.status, holdfast.manager.plain_data, holdfast.store.sqlite.sqlite_store
from holdfast.cli import main
os.setgid(65534)
os.setuid(65534)
sys.exit(main())
"""


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to run as another user"
)
def test_a_ledger_that_another_user_may_not_write() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        repo = Repository(folder / "repo")
        repo.hold("lock", "app/x.rb")
        for words in (["lock", "app/y.rb"], ["status"], ["log"]):
            done = subprocess.run(
                [sys.executable, "-c", AS_NOBODY, *words, "--json"], cwd=repo.root,
                env=environment(HOME="/"), capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stderr) == (1, "")
            assert json.loads(done.stdout)["error"]["code"] == "E_STORE_READONLY"
    finally:
        shutil.rmtree(folder)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to run as another user"
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_ledger_that_root_made_tells_the_owner_of_the_repository_how_to_get_it_back(
    whole: bool,
) -> None:
    folder = Path(tempfile.mkdtemp()).resolve()
    try:
        folder.chmod(0o755)
        repo = Repository(folder / "repo")
        repo.hold("lock", "app/x.rb")
        ledger = repo.root / ".holdfast"
        subprocess.run(["chown", "-R", "65534:65534", repo.root], check=True)
        for file in [ledger, *ledger.iterdir()] if whole else [ledger / "gate"]:
            os.chown(file, 0, 0)
        command = f"sudo chown -R 65534:65534 {ledger}"
        words = [sys.executable, "-c", AS_NOBODY, "status", "--json"]
        how = {"cwd": repo.root, "env": environment(HOME="/"), "capture_output": True}
        done = subprocess.run(words, check=False, **how)  # type: ignore[call-overload]
        error = json.loads(done.stdout)["error"]
        assert error["code"] == "E_STORE_READONLY"
        assert error["hint"] == f"root has written there; take the files back: {command}"
        subprocess.run(shlex.split(command.removeprefix("sudo ")), check=True)
        done = subprocess.run(words, check=False, **how)  # type: ignore[call-overload]
        assert done.returncode == 0, done
    finally:
        shutil.rmtree(folder)


def test_a_current_folder_that_is_gone(repo: Repository) -> None:
    gone = repo.root / "gone"
    line = f"mkdir {gone}; cd {gone}; rmdir {gone}; exec {' '.join(COMMAND)} --json "
    for words in ("status", "lock x", "run --write x true"):
        done = subprocess.run(
            ["sh", "-c", line + words], env=environment(PYTHONSAFEPATH="1"), check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (2, "")
        assert json.loads(done.stdout)["error"]["code"] == "E_USAGE"


def test_an_error_of_the_system_or_the_database_becomes_one_of_ours() -> None:
    too_many = cli._as_holdfast_error(OSError(24, "Too many open files", "gate"))
    assert too_many is not None
    assert too_many.message == "the system refused: Too many open files (gate)"
    assert cli.exit_code(too_many) == 1
    assert cli._as_holdfast_error(sqlite3.OperationalError("disk I/O error")) is not None
    assert cli._as_holdfast_error(ValueError("a mistake of ours")) is None, (
        "that deserves a traceback"
    )


# Reading any line


def test_a_mistyped_name_gets_a_suggestion(repo: Repository) -> None:
    assert "did you mean status?" in repo.hold("statsu").err
    assert "did you mean --reason?" in repo.hold("lock", "x", "--raeson=y").err


OPTIONS = [f"--{option.name}" for command in COMMANDS for option in command.options] + [
    option.short or f"--{option.name}" for option in GLOBALS
]
WORDS = st.one_of(
    st.sampled_from([*OPTIONS, *(command.name for command in COMMANDS), "--", "-", ""]),
    st.sampled_from(OPTIONS).map(lambda option: f"{option}=x"),
    st.text(max_size=8),
)


@given(st.lists(WORDS, max_size=8))
def test_every_line_is_understood_or_refused(words: list[str]) -> None:
    try:
        found = parse(words)
    except UsageError as error:
        said = (error.message, error.hint)
    else:
        said = (found.command.name, found.command.module)
    assert all(said)


#: Calls the real main with one line after the other and prints how each ended.
WORKER = """
import contextlib, io, json, os, sys, traceback
from holdfast.cli import main
home = os.getcwd()
for line in sys.stdin:
    words = json.loads(line)
    os.chdir(home)
    real = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    try:
        code = main(words)
    except BaseException:
        code = traceback.format_exc()
    sys.stdout, sys.stderr = real
    print(json.dumps(code), flush=True)
"""

#: No word here waits without a limit, and no command that could run does any harm.
POOL = [
    "lock", "unlock", "renew", "steal", "check", "status", "log", "whoami", "run", "reap", "trim",
    "completion", "bash", "zsh", "fish", "--json", "--all", "--force", "--help", "-h", "--version",
    "--read", "--write", "--holder", "--ttl", "--reason", "--since", "--before", "--keep",
    "--store", "-C", "-Capp", "--wait=0.01", "--wait=x", "--ttl=1s", "--ttl=none", "--ttl=0",
    "--ttl=9999d",
    "--holder=ann", "--holder=bob", "--holder=\x1b", "--store=memory:", "--store=x",
    "--store=sqlite:///nowhere/at/all.db", "--store=sqlite:///dev/null", "app/x.rb", "app/y.rb",
    "app", "lib/", ".", "..", "/", "/etc/passwd", "port:1", "port:99999", "spec:x", "inode:1-2",
    "db:", "./port:1", "nowhere/at/all", "true", "false", "no-such-command", "--", "-", "", " ",
    "\n", "\x00", "\x1b[31m", "\udcff", "\ud800", "漢字", "e\u0301", "x" * 300, "y/" * 3000,
    "0", "1", "-1", "1e9", "99999999999999999999", "30m", "none", "=", "--=", "--=x", "-x", "---",
    "01a1e126-54ee-7b60-864d-52c6ecb385a4", "a\u202eb", "\U0010ffff", "link/x.rb", "loop",
]  # fmt: skip

#: Words that make valid lines, and holders whose requests conflict.
LIKELY = ["app/x.rb", "port:1", "--holder=ann", "--holder=bob"]


@pytest.fixture
def worker(repo: Repository) -> Iterator[subprocess.Popen[str]]:
    (repo.root / "link").symlink_to("app")
    (repo.root / "loop").symlink_to("loop")
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER], cwd=repo.root, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


def test_no_line_ends_in_a_traceback(worker: subprocess.Popen[str]) -> None:
    chance = random.Random(7)
    assert worker.stdin is not None
    assert worker.stdout is not None
    seen = set()
    for _ in range(1500):
        words = [chance.choice(POOL[:12])] if chance.random() < 0.8 else []
        words += chance.choices(POOL + LIKELY * 8, k=chance.randrange(7))
        worker.stdin.write(json.dumps(words) + "\n")
        worker.stdin.flush()
        code = json.loads(worker.stdout.readline())
        assert code in (0, 1, 2, 3, 4, 5, 126, 127), (words, code)
        seen.add(code)
    assert seen >= {0, 1, 2, 3, 4}, "the lines reached every corner"


def test_each_command_survives_each_odd_word(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    assert worker.stdout is not None
    for command in POOL[:11]:
        for word in POOL[12:]:
            words = [command, word] if command != "run" else ["run", "--write", word, "true"]
            worker.stdin.write(json.dumps(words) + "\n")
            worker.stdin.flush()
            code = json.loads(worker.stdout.readline())
            assert code in (0, 1, 2, 3, 4, 5), (words, code)
