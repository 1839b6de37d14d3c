"""Where specs are, which machine this is, and the owner's name in a lock."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from helpers_cli import Repository
from helpers_processes import Crowd
from helpers_specs import foreign, locks, made_repository, made_workspace
from holdfast.specs import (
    MachineIdentifier,
    SpecLocks,
    machine,
    owner_names,
    spec_names,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made_workspace(tmp_path / "workspace")


@pytest.fixture
def demo(root: Path) -> Path:
    return root / ".kiro/specs/demo"


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return made_repository(tmp_path / "repo")


# Where specs are


def test_a_spec_that_one_home_alone_has_is_locked_there(tmp_path: Path) -> None:
    (tmp_path / ".sce/specs/new").mkdir(parents=True)
    (tmp_path / ".kiro/specs/old").mkdir(parents=True)
    for name, home in (("new", ".sce"), ("old", ".kiro")):
        assert locks(tmp_path).acquire_lock(name).success
        assert (tmp_path / home / "specs" / name / ".lock").exists()
        assert locks(tmp_path).release_lock(name).success


@pytest.mark.parametrize(
    ("folders", "home"),
    [([], ".kiro"), ([".kiro"], ".kiro"), ([".sce"], ".sce"), ([".sce", ".kiro/specs"], ".kiro"),
     ([".sce", ".kiro"], ".sce"), ([".sce/specs", ".kiro/specs"], ".sce")],
)  # fmt: skip
def test_which_of_the_two_homes_it_is(tmp_path: Path, folders: list[str], home: str) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    assert spec_names.specs_folder(str(tmp_path)) == f"{tmp_path}/{home}/specs"


def test_a_command_finds_the_workspace_from_anywhere_inside(repo: Repository) -> None:
    assert repo.hold("spec", "lock", "demo", cwd=repo.root / "app/models").code == 0
    assert (repo.root / ".kiro/specs/demo/.lock").exists()
    assert repo.hold("spec", "status", "-C", "app").out.splitlines()[1].startswith("demo ")


def test_specs_of_a_folder_above_the_repository_are_not_its_own(repo: Repository) -> None:
    inner = repo.root / "vendor/inner"
    inner.mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", inner], check=True)
    assert "Spec not found" in repo.hold("spec", "lock", "demo", cwd=inner).err


def test_where_there_are_no_specs_nothing_is_written(tmp_path: Path) -> None:
    bare = Repository(tmp_path / "bare")
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    for words in (("status",), ("cleanup",), ("lock", "demo"), ("unlock", "demo")):
        bare.hold("spec", *words, env=env)
    assert not (bare.root / ".kiro").exists()
    assert not (bare.root / ".holdfast").exists()
    assert not (tmp_path / "config").exists()
    bare.hold("spec", "whoami", env=env)
    assert (tmp_path / "config/holdfast/machine-id.json").exists()
    assert not (bare.root / ".kiro").exists()


def test_looking_makes_nothing(repo: Repository) -> None:
    before = sorted(repo.root.rglob("*"))
    repo.hold("spec", "status")
    repo.hold("spec", "status", "demo")
    assert sorted(repo.root.rglob("*")) == before


# Which machine it is


WHOAMI = """
from holdfast.specs import MachineIdentifier
say("ready"); go()
say("id", MachineIdentifier(sys.argv[1]).get_machine_id().id)
"""


@pytest.mark.parametrize("before", [None, b"", b"{", b"nonsense", b'{"id": ""}'])
def test_ten_processes_that_start_at_once_are_one_machine(
    tmp_path: Path, before: bytes | None
) -> None:
    config = tmp_path / "config"
    if before is not None:
        config.mkdir()
        (config / "machine-id.json").write_bytes(before)
    with Crowd(tmp_path) as crowd:
        children = [crowd.start(WHOAMI, config) for _ in range(10)]
        for child in children:
            child.wait_for("ready")
        for child in children:
            child.tell()
        ids = {child.done().words("id")[0][0] for child in children}
    assert len(ids) == 1
    assert json.loads((config / "machine-id.json").read_text())["id"] == ids.pop()
    kept = [one.read_bytes() for one in config.glob("machine-id.json.damaged-*")]
    assert kept == ([] if before is None else [before])


def test_a_damaged_id_is_replaced_and_kept(tmp_path: Path) -> None:
    (tmp_path / "machine-id.json").write_text("[]")
    id = MachineIdentifier(tmp_path).get_machine_id()
    assert MachineIdentifier(tmp_path).get_machine_id() == id


def test_a_machine_without_a_name_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nameless = os.uname_result(("Linux", " ", "6", "", "x86_64"))
    monkeypatch.setattr(os, "uname", lambda: nameless)
    id = MachineIdentifier(tmp_path).get_machine_id()
    assert id.hostname == "unknown-host"
    assert id.id.startswith("unknown-host-")


def test_the_id_is_the_users_in_every_workspace_and_nothing_is_written_beside_the_specs(
    root: Path, tmp_path: Path, settings_of_the_tests: Path
) -> None:
    mine = ours(root)
    taken = mine.acquire_lock("demo").lock
    assert taken is not None
    kept = json.loads((settings_of_the_tests / "holdfast/machine-id.json").read_text())
    assert taken.machine_id == kept["id"] == mine.machine.get_machine_id().id
    assert not (root / ".kiro/config").exists()
    other = ours(made_workspace(tmp_path / "other")).acquire_lock("demo").lock
    assert other is not None
    assert other.machine_id == taken.machine_id


def ours(root: Path) -> SpecLocks:
    return SpecLocks(root, holder="x", owner="ann", settle_seconds=0)


def beside(root: Path, home: str, id: str, host: str | None = None) -> None:
    """The id that another program keeps beside the specs."""
    (root / home / "config").mkdir(parents=True, exist_ok=True)
    theirs = {"id": id, "hostname": host or machine.host_name(), "createdAt": "then"}
    (root / home / "config/machine-id.json").write_text(json.dumps(theirs))


def test_an_id_that_another_program_made_is_used(root: Path, demo: Path) -> None:
    beside(root, ".kiro", "its-own")
    foreign(demo / ".lock", machineId="its-own")
    mine = ours(root)
    assert mine.is_locked_by_me("demo")
    assert mine.release_lock("demo").success
    taken = mine.acquire_lock("demo").lock
    assert taken is not None
    assert taken.machine_id == "its-own"


def test_locks_with_any_id_of_this_machine_are_its_own(root: Path, demo: Path) -> None:
    """The user's id, from before another program came, and those of versions that kept an id in
    each workspace."""
    before = ours(root).acquire_lock("demo").lock
    assert before is not None
    (root / ".sce/specs").mkdir(parents=True)
    beside(root, ".sce", "new-1")
    beside(root, ".kiro", "old-1")
    assert ours(root).machine.get_machine_id().id == "new-1"
    for id in (before.machine_id, "new-1", "old-1"):
        foreign(demo / ".lock", machineId=id)
        assert ours(root).is_locked_by_me("demo")
        assert ours(root).release_lock("demo").success
    beside(root, ".kiro", "old-1", "another-host")
    foreign(demo / ".lock", machineId="old-1")
    assert not ours(root).is_locked_by_me("demo")
    assert ours(root).release_lock("demo").error == "Lock owned by different machine"


def test_an_id_that_came_from_another_machine_is_not_ours(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "mine"))
    beside(root, ".kiro", "far-1", "far")
    mine = ours(root)
    assert mine.acquire_lock("demo").success
    made = mine.machine.get_machine_id()
    assert made.hostname == machine.host_name()
    assert json.loads((tmp_path / "mine/holdfast/machine-id.json").read_text())["id"] == made.id


# The owner's name


def test_the_owner_is_git_s_name_else_the_users(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in owner_names.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    assert owner_names.owner_name(str(root), {}) == "unknown"
    assert owner_names.owner_name(str(root), {"USERNAME": "w"}) == "w"
    assert owner_names.owner_name(str(root), {"USER": " u ", "USERNAME": "w"}) == "u"
    (tmp_path / "gitconfig").write_text("[user]\n\tname = Ann Ä\n")
    assert owner_names.owner_name(str(root), {"USER": "u"}) == "Ann Ä"
    monkeypatch.setenv("PATH", str(tmp_path))  # no git at all
    assert owner_names.owner_name(str(root), {"USER": "u"}) == "u"
