"""The figures in the documents, which the benchmark program writes from its stored results."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bench import __main__ as program
from bench import figures
from bench.figures import Figures
from bench.harness import Row, at_least

ROOT = Path(__file__).parent.parent
DOCUMENTS = ("docs/benchmarks.json", "docs/benchmarks.md", "README.md")
NAME = "cycle"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the documents with figures."""
    (tmp_path / "docs").mkdir()
    for name in DOCUMENTS:
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def bench(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program with one instant benchmark, and the copy of the documents."""

    def run(_scratch: Path, _quick: bool) -> list[Row]:
        [line] = [one for one in figures.README_LINES if one.benchmark == NAME]
        return [
            Row(line.what, "/s", 4321.0, rival, 1000.0, 4.321, at_least(5), samples={"ours": [1.0]})
            for rival in line.rivals
        ]

    monkeypatch.setattr(program, "BENCHMARKS", {NAME: run})
    monkeypatch.setattr(program, "Figures", lambda: Figures(checkout))
    monkeypatch.setattr(program, "_compile", lambda: None)
    return checkout


def kept(checkout: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkout / "docs/benchmarks.json").read_text())
    return found


def test_both_documents_show_the_figures_that_are_kept() -> None:
    for file, text in Figures().documents().items():
        assert file.read_text() == text, f"run `python -m bench --write-docs` for {file.name}"


def test_a_run_replaces_its_own_figures_in_both_documents_and_no_others(bench: Path) -> None:
    before = kept(bench)
    assert program.main(["--write", "--json", str(bench / "report.json")]) == 1  # the target
    after = kept(bench)
    own = after["benchmarks"].pop(NAME)
    del before["benchmarks"][NAME]
    assert after["benchmarks"] == before["benchmarks"]
    assert own["run"] == json.loads((bench / "report.json").read_text())["when"]
    assert after["runs"][own["run"]]["surroundings"]["cores"] >= 1
    assert {row["ours"] for row in own["rows"]} == {4321.0}
    assert not any(row["samples"] for row in own["rows"])
    page, readme = (bench / "docs/benchmarks.md").read_text(), (bench / "README.md").read_text()
    assert f"**{own['run'][:10]}**" in page
    assert "4,321/s" in page
    assert ">= 5 x" in page
    assert "| acquire and release, one process | 4,321/s | filelock.FileLock 1,000/s; " in readme
    for file, text in Figures(bench).documents().items():
        assert file.read_text() == text


def test_a_run_whose_figures_are_all_replaced_is_forgotten(bench: Path) -> None:
    figures_of = Figures(bench)
    around = {"seconds": 1, "surroundings": {"cores": 3}, "load_after": [0.5]}
    for when in ("2030-01-01T00:00:00+00:00", "2031-01-01T00:00:00+00:00"):
        figures_of.keep({"when": when, **around, "benchmarks": {"specs": []}})
    assert "2030-01-01T00:00:00+00:00" not in kept(bench)["runs"]
    assert "2031-01-01T00:00:00+00:00" in kept(bench)["runs"]


def test_the_documents_are_written_from_the_kept_figures_without_a_run(
    bench: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "BENCHMARKS", {})
    data = kept(bench)
    first = data["benchmarks"][NAME]["rows"][0]["what"]
    for row in data["benchmarks"][NAME]["rows"]:
        if row["what"] == first:
            row["ours"] = 1234.0
    (bench / "docs/benchmarks.json").write_text(json.dumps(data))
    assert program.main(["--write-docs"]) == 0
    assert "| 1,234/s " in (bench / "README.md").read_text()
    assert "| 1,234/s " in (bench / "docs/benchmarks.md").read_text()


def test_a_row_of_the_readme_that_is_not_kept_leaves_the_documents_as_they_are(
    bench: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = kept(bench)
    del data["benchmarks"]["tasks"]
    (bench / "docs/benchmarks.json").write_text(json.dumps(data))
    before = (bench / "README.md").read_text()
    assert program.main(["--write-docs"]) == 1
    assert "of tasks beside 'one after the other', which is not kept" in capsys.readouterr().err
    assert (bench / "README.md").read_text() == before


def test_figures_of_a_quick_run_are_not_kept(bench: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["--quick", "--write"])
    assert ended.value.code == 2
