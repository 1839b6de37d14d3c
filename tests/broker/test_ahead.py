"""Leases that are taken ahead of the write, many in one decision, for a git that changes a tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers_broker import NEEDS_BROKER, Site, ended, until
from holdfast.gate.broker.leasing.git_lookahead import SINGLY

pytestmark = NEEDS_BROKER

FILES = 3 * SINGLY
NAMES = [f"d{number % 3}/{number:03}.txt" for number in range(FILES)]
LAST = max(NAMES)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Two branches that differ in all files."""
    site = Site(tmp_path)
    write(site, "main")
    site.git("add", ".")
    site.git("commit", "-qm", "main")
    site.git("branch", "-M", "main")
    site.git("switch", "-qc", "other")
    write(site, "other")
    (site.root / "new").mkdir()
    (site.root / "new/file.txt").write_text("new\n")
    site.git("add", ".")
    site.git("commit", "-qm", "other")
    site.git("switch", "-q", "main")
    return site


def write(site: Site, text: str) -> None:
    for name in NAMES:
        (site.root / name).parent.mkdir(exist_ok=True)
        (site.root / name).write_text(f"{text} {name}\n")


def grants(site: Site) -> list[dict[str, Any]]:
    """All events that started a lease, oldest first."""
    lines = site.holdfast("log", "--json").stdout.splitlines()
    found = [json.loads(line) for line in lines]
    return [one for one in found if one["type"] == "lock_acquired"]


def moments(site: Site) -> int:
    """The number of decisions that took the leases: those of one decision have the same time."""
    return len({one["timestamp"] for one in grants(site)})


@pytest.mark.parametrize(
    "line",
    [
        "git checkout -q other",
        "git switch -q other",
        "git -C . -c advice.detachedHead=false checkout -q other~0",
        "cd d0 && git checkout -q other",
        "git reset -q --hard other",
        "git merge -q other",
        "git cherry-pick other >/dev/null",
        "git checkout -q other -- .",
        "git restore --source other -- .",
    ],
)
def test_a_git_that_changes_a_tree_takes_many_leases_at_once(site: Site, line: str) -> None:
    done = site.lease(line)
    assert done.returncode == 0, done.stderr
    assert all(site.text(name) == f"other {name}\n" for name in NAMES if "d0" in name)
    taken = [one["data"]["keys"][0] for one in grants(site)]
    if "cd" not in line:
        assert set(NAMES) <= set(taken)
        assert all(site.text(name) == f"other {name}\n" for name in NAMES)
    assert len(taken) == len(set(taken)), "each file has one grant of its own"
    assert moments(site) <= SINGLY + 10
    assert site.held() == []


@pytest.mark.parametrize(
    "line",
    [
        "for f in d*/*.txt; do echo x >$f; done",
        "GIT_DIR=$PWD/.git GIT_WORK_TREE=$PWD git checkout -q other",
        "git --git-dir=.git checkout -q other",
    ],
)
def test_all_others_take_their_leases_singly(site: Site, line: str) -> None:
    done = site.lease(line)
    assert done.returncode == 0, done.stderr
    assert moments(site) >= FILES


def test_a_git_of_a_command_that_waits_takes_its_leases_singly(site: Site) -> None:
    assert site.lease("git checkout -q other", "--wait", "60").returncode == 0
    assert moments(site) >= FILES


def test_a_file_that_another_holder_has_is_skipped_and_refused_at_its_write(site: Site) -> None:
    site.holdfast("lock", "--holder", "other", LAST)
    done = site.lease("git checkout -q other")
    assert f"{LAST} has been locked for writing by other" in done.stderr
    assert f"unable to unlink old '{LAST}': Permission denied" in done.stderr
    assert site.text(LAST) == f"main {LAST}\n"
    assert all(site.text(name) == f"other {name}\n" for name in NAMES if name != LAST)
    assert moments(site) <= SINGLY + 10


def stop_in_the_middle(site: Site, line: str = ":") -> str:
    """Make a checkout wait for the flag `go` in the middle, then fail. Returns the middle file."""
    program = site.flags / "filter"
    program.write_text(
        f"#!/bin/sh\n{line}; touch {site.flag('waits')}; {site.wait_for('go')}; exit 1\n"
    )
    program.chmod(0o755)
    for name, value in (("smudge", str(program)), ("clean", "cat"), ("required", "true")):
        site.git("config", f"filter.stop.{name}", value)
    middle = sorted(NAMES)[FILES // 2]
    (site.root / ".git/info/attributes").write_text(f"{middle} filter=stop\n")
    return middle


def test_a_lease_whose_write_never_came_is_released_when_git_ends(site: Site) -> None:
    middle = stop_in_the_middle(site)
    process = site.begin(
        f"git checkout -q other; touch {site.flag('ended')}; {site.wait_for('end')}"
    )
    site.until_flag("waits")
    assert {LAST, middle} <= set(site.held()), "taken, and not written yet"
    assert site.text(LAST) == f"main {LAST}\n"
    refused = site.lease(f"echo mine >{LAST}")
    assert "has been locked for writing by run-" in refused.stderr
    site.raise_flag("go")
    site.until_flag("ended")
    until(lambda: LAST not in site.held(), "the lease that was not needed has ended")
    assert min(NAMES) in site.held(), "the lease of a written file stays"
    assert site.lease(f"echo mine >{LAST}").returncode == 0
    site.raise_flag("end")
    ended(process)


def test_a_lease_that_was_taken_before_is_as_good_as_one_at_the_write(site: Site) -> None:
    """A stale write is refused once, even if the lease was taken ahead."""
    process = site.begin(
        f"sh -c 'touch {site.flag('begun')}; {site.wait_for('changed')}; "
        "exec git checkout -q other'"
    )
    site.until_flag("begun")
    changed = site.lease(f"echo 'main {LAST}' >{LAST}")
    assert changed.returncode == 0
    site.raise_flag("changed")
    _code, _out, err = ended(process)
    assert f"{LAST} was changed by another holder after git" in err
    assert "Stale file handle" in err
    assert site.text(LAST) == f"main {LAST}\n"


def test_a_file_that_the_command_writes_itself_keeps_its_lease(site: Site) -> None:
    """Another process of the command writes a file that was leased ahead for git."""
    stop_in_the_middle(site, f"echo own >{LAST}")
    process = site.begin(
        f"git checkout -q other; touch {site.flag('ended')}; {site.wait_for('end')}"
    )
    site.until_flag("waits")
    site.raise_flag("go")
    site.until_flag("ended")
    until(lambda: max(set(NAMES) - {LAST}) not in site.held(), "git's others have ended")
    assert LAST in site.held()
    site.raise_flag("end")
    ended(process)


def test_git_is_never_started_in_a_repository_whose_settings_are_not_checked(site: Site) -> None:
    """Git would obey these settings without any restrictions."""
    nested = site.root / "nested"
    nested.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=nested, check=True)
    for branch in ("main", "other"):
        for number in range(FILES):
            (nested / f"{number}.txt").write_text(branch)
        named = ["-c", "user.name=a", "-c", "user.email=a@b"]
        if branch == "other":
            subprocess.run(["git", "switch", "-qc", "other"], cwd=nested, check=True)
        subprocess.run(["git", "add", "."], cwd=nested, check=True)
        subprocess.run(["git", *named, "commit", "-qm", branch], cwd=nested, check=True)
    subprocess.run(["git", "switch", "-q", "main"], cwd=nested, check=True)
    done = site.lease("cd nested && git checkout -q other")
    assert done.returncode == 0, done.stderr
    assert (nested / "0.txt").read_text() == "other"
    assert moments(site) >= FILES
    assert os.path.isdir(nested / ".git")


@pytest.mark.parametrize(
    "words",
    ["restore --source=--output={} -- .", "checkout --output={} other", "reset --output={}"],
)
def test_arguments_of_a_fake_git_are_not_passed_to_the_brokers_git(site: Site, words: str) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    program = site.flags / "git"
    shutil.copy(bash, program)
    (site.root / words.split()[0]).write_text("for f in d*/*.txt; do echo x >$f; done\n")
    done = site.lease(f"{program} {words.format(site.root / 'b.txt')}")
    assert done.returncode == 0, done.stderr
    assert site.text(LAST) == "x\n"
    assert site.text("b.txt") == "bravo\n"
