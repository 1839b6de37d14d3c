"""The documentation is one site, and its command makes it without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers_cli import environment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT, env=environment(NO_MKDOCS_2_WARNING="1"), timeout=300,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")  # strict: a dead link is an error
    return folder


def test_every_page_is_on_the_site_and_in_its_contents(site: Path) -> None:
    pages = {file.stem for file in (ROOT / "docs").glob("*.md")}
    assert pages == {file.stem for file in site.glob("*.html")} - {"404"}
    contents = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    assert sorted(re.findall(r": ([\w-]+)\.md$", contents, re.M)) == sorted(pages)


def test_the_contents_are_ordered_by_what_people_want_to_do(site: Path) -> None:
    contents = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    jobs = re.findall(r"^  - ([A-Z][\w ]+):", contents, re.M)
    assert jobs == [
        "Start here", "Guard a repository", "Any program", "Lists of tasks", "Many machines",
        "From Python", "Specs", "Proofs", "Worktrees and snapshots", "Reference", "Design",
    ]  # fmt: skip


def test_no_page_names_a_script_a_style_or_a_picture_of_another_site(site: Path) -> None:
    for page in site.glob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|link|img)[^>]* (?:src|href)=\"?(https?://[^\s\">]+)", text)
        assert loaded == [], page.name
