"""Two agents in a repository, whose shell commands are leased."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers_commands import ClaudeLike, leased
from helpers_guard import made_repository, sh


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of which every test gets a copy."""
    made = made_repository(tmp_path_factory.mktemp("model") / "repo")
    sh(made, "echo a > a.txt && git add a.txt && git commit -qm a")
    return leased(made)


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    made = shutil.copytree(model, tmp_path / "repo", symlinks=True)
    sh(made, "git update-index -q --refresh")
    return leased(made)


@pytest.fixture
def ann(root: Path) -> Iterator[ClaudeLike]:
    made = ClaudeLike(root, "ann")
    yield made
    made.close()


@pytest.fixture
def bob(root: Path) -> Iterator[ClaudeLike]:
    made = ClaudeLike(root, "bob")
    yield made
    made.close()
