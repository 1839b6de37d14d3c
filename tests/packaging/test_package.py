"""What is published: the two distributions, what they say of themselves, and that they work."""

from __future__ import annotations

import email.message
import email.parser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from bench.shell import BUILD_FILES

from helpers_cli import environment

ROOT = Path(__file__).parents[2]
#: What a checkout has and git does not track.
LEFT_BEHIND = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "site", "*.egg-info", "__pycache__", "*.bundle", ".holdfast",
    ".*_cache", ".hypothesis",
)  # fmt: skip


class Built:
    """Both distributions of this checkout."""

    def __init__(self, folder: Path) -> None:
        project = folder / "project"
        shutil.copytree(ROOT, project, ignore=LEFT_BEHIND)
        self.tracked = {
            str(file.relative_to(project)) for file in project.rglob("*") if file.is_file()
        }
        subprocess.run(
            [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", project],
            check=True, capture_output=True, text=True, timeout=300, env=environment(),
        )  # fmt: skip
        (self.sdist,) = (folder / "dist").glob("*.tar.gz")
        (self.wheel,) = (folder / "dist").glob("*.whl")

    @property
    def metadata(self) -> email.message.Message:
        """What an index shows."""
        with zipfile.ZipFile(self.wheel) as wheel:
            (name,) = (one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
            return email.parser.Parser().parsestr(wheel.read(name).decode())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return Built(tmp_path_factory.mktemp("built"))


def test_the_source_distribution_has_every_file_of_the_project(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        files = {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}
    assert built.tracked - files == set()
    added = files - built.tracked
    assert {name for name in added if ".egg-info/" not in name} <= {"PKG-INFO", "setup.cfg"}


def test_the_tests_run_from_the_source_distribution(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (project,) = tmp_path.iterdir()
    words = ["-p", "no:cacheprovider", "-p", "no:randomly", "-n0", "tests/core", "-k", "keys"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=project, env=environment(PYTHONPATH=str(project / "src")),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d\d+ passed", done.stdout), "some ran"


def test_an_installed_wheel_locks_a_file(built: Built, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True, timeout=300)
    bin = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    install = ["-m", "pip", "install", "-q", "--no-index", "--no-deps", str(built.wheel)]
    subprocess.run([bin / "python", *install], check=True, timeout=300)
    project = tmp_path / "project"
    project.mkdir()

    def holdfast(*words: str) -> str:
        done = subprocess.run(
            [bin / "holdfast", *words], cwd=project, env=environment(), check=True,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        return done.stdout

    assert holdfast("-V").split()[-1] == built.metadata["Version"]
    assert holdfast("lock", "a.txt", "--holder", "me").startswith("locked a.txt for me")
    with zipfile.ZipFile(built.wheel) as wheel:
        modules = {one for one in wheel.namelist() if one.startswith("holdfast/")}
    assert "holdfast/server/page/index.html" in modules
    assert {one for one in modules if one.startswith("holdfast/testing/")}, "the suites ship"
    assert not {one for one in modules if "mutants" in one or "histories" in one}


def test_the_benchmarks_install_from_all_that_a_build_reads(tmp_path: Path) -> None:
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=LEFT_BEHIND)
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--wheel", tmp_path],
        check=True, capture_output=True, text=True, timeout=300, env=environment(),
    )  # fmt: skip
    assert len(list(tmp_path.glob("dist/*.whl"))) == 1


def test_an_index_is_told_licence_addresses_authors_and_status(built: Built) -> None:
    found = built.metadata
    assert found["License-Expression"] == "Apache-2.0"
    assert found["License-File"] == "LICENSE"
    assert found["Author"]
    addresses = dict(line.split(", ") for line in found.get_all("Project-URL", []))
    assert addresses.keys() >= {"Homepage", "Documentation", "Source", "Issues", "Changelog"}
    classifiers = found.get_all("Classifier", [])
    assert [one for one in classifiers if one.startswith("Development Status")]
    assert not [one for one in classifiers if one.startswith("License")], "said by the expression"
    assert not [one for one in found.get_all("Requires-Dist", []) if "extra ==" not in one]


def test_the_links_of_the_description_lead_away_from_the_index(built: Built) -> None:
    text = built.metadata.get_payload()
    assert isinstance(text, str)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    assert not [link for link in links if not re.match(r"https?://|#", link)]
    source = dict(line.split(", ") for line in built.metadata.get_all("Project-URL", []))["Source"]
    for link in links:
        file = link.removeprefix(source).partition("#")[0]
        assert not link.startswith(source) or (ROOT / file).is_file(), link
