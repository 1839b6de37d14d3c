"""The examples in the help of store, spec, proof and tree commands, in an order that works."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers_cli import COMMAND
from helpers_jvs import Jvs
from helpers_trees import told
from holdfast.cli import main, store_commands
from holdfast.cli.commands import FAMILIES
from holdfast.cli.locking import status

Capture = pytest.CaptureFixture[str]
Run = Callable[..., None]


def _examples(family: str) -> dict[str, tuple[str, ...]]:
    """The examples of a family's commands, by the command's name without the family's."""
    commands = next(one for one in FAMILIES if one.name == family).commands
    return {one.name.partition(" ")[2]: one.examples for one in commands}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("HOLDFAST_HOLDER", "ann")
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(line: str, folder: Path, **replace: str) -> None:
        monkeypatch.chdir(folder)
        line, _, file = line.partition(" < ")
        words = [replace.get(word, word) for word in shlex.split(line)]
        if file:
            monkeypatch.setattr("sys.stdin", io.StringIO((folder / file).read_text()))
        words = [os.path.expanduser(word) for word in words[1:]]
        if words[:2] == ["tree", "run"]:  # waits for signals, which a worker's thread may get
            code = subprocess.run([*COMMAND, *words], timeout=60, check=False).returncode
        else:
            code = main(words)
        assert code == 0, line

    return run


def test_the_examples_of_store_work(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_commands, "person_in", lambda *_, **__: None)
    examples = _examples("store")
    assert sorted(examples) == ["check", "copy"]
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    run("holdfast lock x", folder)
    run("holdfast unlock x", folder)
    for name in ("check", "copy"):
        for line in examples[name]:
            run(line, folder)
    run("holdfast lock x", folder)


def test_the_examples_of_spec_work(tmp_path: Path, run: Run) -> None:
    for spec in ("payments", "checkout"):
        (tmp_path / ".kiro/specs" / spec).mkdir(parents=True)
    examples = _examples("spec")
    order = ["lock", "status", "cleanup", "whoami", "unlock"]
    assert sorted(order) == sorted(examples)
    for name in order:
        for line in examples[name]:
            run(line, tmp_path)


def test_the_examples_of_proof_work(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = _examples("proof")
    for line in examples.pop("init"):
        run(line, tmp_path)
    folder = tmp_path / "proofs/sqrt2"
    (folder / "event.json").write_text('{"node": "1.1"}')
    # With --follow the command runs until its reader is gone.
    monkeypatch.setattr(status, "reader_is_gone", lambda: True)
    order = ["append", "claim", "refresh", "status", "agents", "events", "release", "reap",
             "verify", "doctor"]  # fmt: skip
    assert sorted(order) == sorted(examples)
    for name in order:
        for line in examples[name]:
            run(line, tmp_path if " -C " in line else folder)


def test_the_examples_of_tree_work(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    make = tmp_path / "bin/make"
    make.parent.mkdir()
    make.write_text("#!/bin/sh\necho made >> made.txt\n")
    make.chmod(0o755)
    monkeypatch.setenv("PATH", f"{make.parent}:{os.environ['PATH']}")
    jvs = Jvs(tmp_path / "old/project")
    jvs.write("a.txt")
    jvs.take("the first")
    examples = _examples("tree")
    main_folder = tmp_path / "project/main"

    def every(*names: str, **replace: str) -> None:
        for name in names:
            for line in examples.pop(name):
                run(line, main_folder, **replace)

    def hold(*words: str) -> None:
        monkeypatch.chdir(main_folder)
        assert main(["tree", *words]) == 0

    for line in examples.pop("init"):
        run(line, tmp_path)
    hold("lock", "acquire")
    every("snapshot", "tag add", "create", "list", "path", "info", "history", "diff")
    hold("lock", "release")
    for worktree in ("main", "hotfix"):
        hold("lock", "acquire", "--lease", "0.1s", "--holder", "bob", "--worktree", worktree)
    time.sleep(0.2)  # by uptime: no clock can be set instead
    every("lock steal", "lock renew", "restore")
    hold("lock", "release")
    every("lock acquire", "lock status", "run", "lock release")
    hold("lock", "acquire", "--worktree", "try-2")
    hold("snapshot", "the last", "--worktree", "try-2")
    every("remove", "verify", "gc settings", "import", "doctor")
    for line in examples["gc run"]:
        capsys.readouterr()
        hold("gc", "plan", "--keep-last", "0", "--keep-days", "0", "--json")
        plan = told(capsys)["plan"]["plan_id"]
        run(line, main_folder, **{"4be1a09c": plan})
    del examples["gc run"]
    every("gc plan", "tag list", "tag remove")
    assert not examples
