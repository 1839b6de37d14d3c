"""Which dialect a proof uses: a folder with both, or with neither, is refused, and nothing is
written."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from helpers_foreign import af_proof
from helpers_trees import picture
from holdfast.cli import main
from holdfast.cli.families.proof import COMMANDS
from holdfast.proof import (
    Claims,
    ForeignProofError,
    NoProofError,
    ProofLedger,
    make_proof,
    verify,
)
from holdfast.proof.dialects import dialect
from holdfast.proof.health import proof_repair

#: Arguments with which each command gets as far as possible.
WORDS = {
    "proof init": ["--locks"],
    "proof append": ["node_created"],
    "proof claim": ["1.1", "--owner", "bob"],
    "proof refresh": ["1.1", "--owner", "ann"],
    "proof release": ["1.1", "--owner", "ann"],
    "proof doctor": ["--fix"],
}


def _mixed(root: Path) -> None:
    """What earlier versions made of a proof of af: their claim beside that of af."""
    af_proof(root)
    event = {"type": "lock_acquired", "node_id": "1.1", "owner": "bob",
             "timestamp": "2026-02-20T10:00:00Z", "expires_at": "2099-01-01T00:00:00Z"}  # fmt: skip
    (root / "ledger/event-000001.json").write_text(json.dumps(event))


def _ours_then_one_of_af(root: Path) -> None:
    make_proof(root)
    ProofLedger(root, sync=False).append_batch([{"type": "x"}] * 3)
    (root / "ledger/000002.json").write_text('{"type":"nodes_claimed"}')


def _unpadded(root: Path) -> None:
    for file in (af_proof(root) / "ledger").iterdir():
        file.rename(file.with_name(f"{int(file.stem)}.json"))


AF = {"mixed": _mixed, "ours, then one of af": _ours_then_one_of_af, "af, unpadded": _unpadded}


@pytest.mark.parametrize("kind", AF)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_every_command_refuses_a_mixed_proof_before_it_writes_a_byte(
    tmp_path: Path,
    kind: str,
    command: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "proof"
    AF[kind](root)
    before = picture(tmp_path)
    words = [*command.name.split(), *WORDS.get(command.name, [])]
    monkeypatch.chdir(root)
    assert main([*words, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "E_PROOF_FOREIGN"
    assert "of af" in error["message"]
    assert "nothing was changed" in error["hint"]
    assert picture(tmp_path) == before


def test_the_refusal_names_what_it_saw(tmp_path: Path) -> None:
    _mixed(tmp_path / "proof")
    with pytest.raises(ForeignProofError, match=r"000001\.json.*event-000001\.json") as found:
        ProofLedger(tmp_path / "proof")
    assert found.value.fields["files"] == ["000001.json", "000002.json", "000003.json"]
    assert isinstance(found.value, NoProofError)


def test_a_ledger_that_is_open_already_stops_when_af_comes(tmp_path: Path) -> None:
    root = tmp_path / "proof"
    make_proof(root)
    ledger = ProofLedger(root, sync=False)
    claims = Claims(ledger)
    claims.claim("1.1", owner="ann")
    (root / "ledger/000001.json").write_text('{"type":"proof_initialized"}')
    before = picture(root / "ledger", mtimes=False)
    for attempt in (
        lambda: ledger.append({"type": "x"}), lambda: claims.claim("1.2", owner="bob"),
        lambda: claims.release("1.1", owner="ann"),
    ):  # fmt: skip
        with pytest.raises(ForeignProofError):
            attempt()
    assert picture(root / "ledger", mtimes=False) == before


def test_af_that_comes_while_an_append_waits_is_seen_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "proof"
    make_proof(root)
    ledger = ProofLedger(root, sync=False)
    real = ledger._lock.acquire

    def acquire() -> None:
        real()
        (root / "ledger/000001.json").write_text('{"type":"proof_initialized"}')

    monkeypatch.setattr(ledger._lock, "acquire", acquire)
    with pytest.raises(ForeignProofError):
        ledger.append({"type": "x"})
    assert os.listdir(root / "ledger") == ["000001.json"]


def test_a_long_ledger_is_not_listed_to_open_it_and_af_is_found_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "proof"
    make_proof(root)
    ProofLedger(root, sync=False).append_batch([{"type": "x"}] * 3)
    monkeypatch.setattr(dialect, "_LISTED_MAX", 2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", lambda path: pytest.fail("it listed the folder"))
        ProofLedger(root)
    (root / "ledger/000007.json").write_text("{}")
    found = [one for one in verify(ProofLedger(root)) if one.code == "foreign-event"]
    assert [(one.severity, one.files) for one in found] == [("error", ("ledger/000007.json",))]
    (root / "ledger/000001.json").write_text("{}")
    with pytest.raises(ForeignProofError):
        ProofLedger(root)


@pytest.mark.parametrize(
    "meta",
    ['{"lock_timeout": "5m", "version": "1.0"}', '{"version": 3}', "{}", '{"title": "x"}', None],
)
def test_what_is_of_this_protocol_stays_usable(tmp_path: Path, meta: str | None) -> None:
    """A timeout as text is never af's, whatever is beside it."""
    (tmp_path / "proof/ledger").mkdir(parents=True)
    if meta is not None:
        (tmp_path / "proof/meta.json").write_text(meta)
    (tmp_path / "proof/README.md").write_text("what it is about")
    make_proof(tmp_path / "proof")
    assert ProofLedger(tmp_path / "proof", sync=False).append({"type": "x"}) == 1


# Folders of neither kind


def _other_ledger(root: Path) -> None:
    (root / "ledger").mkdir(parents=True)
    (root / "ledger/2026.csv").write_text("1;2")


def _other_ledger_and_meta(root: Path) -> None:
    _other_ledger(root)
    (root / "meta.json").write_text('{"name": "accounts"}')


def _project(root: Path) -> None:
    (root / "src").mkdir(parents=True)
    (root / "README.md").write_text("a project")


NEITHER = {"a ledger of something else": _other_ledger, "with a meta.json": _other_ledger_and_meta,
           "a project": _project}  # fmt: skip


@pytest.mark.parametrize("kind", NEITHER)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_every_command_refuses_a_folder_that_is_no_proof_before_it_writes_a_byte(
    tmp_path: Path,
    kind: str,
    command: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = tmp_path / "folder"
    NEITHER[kind](root)
    before = picture(tmp_path)
    monkeypatch.chdir(root)
    words = [*command.name.split(), *WORDS.get(command.name, [])]
    assert main([*words, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "E_NO_PROOF"
    assert "holdfast proof init" in error["hint"]
    assert picture(tmp_path) == before


def test_a_proof_is_made_in_a_new_folder_an_empty_one_and_one_of_a_version_control(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "tracked/.git").mkdir(parents=True)
    for name in ("new", "empty", "tracked"):
        make_proof(tmp_path / name)
        assert ProofLedger(tmp_path / name).head == 0


def test_a_stray_file_does_not_make_a_proof_unusable(tmp_path: Path) -> None:
    root = tmp_path / "proof"
    make_proof(root)
    (root / "ledger/notes.txt").write_text("mine")
    assert ProofLedger(root, sync=False).append({"type": "x"}) == 1


# Unknown files are named

STRANGE = {
    "ledger/notes.txt": "warning", "ledger/.hidden": "note", "ledger/folder/x": "warning",
    "locks/1.1": "warning", "locks/old.tmp": "warning", ".holdfast-proof/what": "note",
    ".holdfast-proof/seats/mine": "note", ".holdfast-proof/aside/mine": "note",
}  # fmt: skip
BESIDE = ("README.md", "nodes/x", ".git/config")


@pytest.fixture
def strange(tmp_path: Path) -> Path:
    root = tmp_path / "proof"
    make_proof(root, claim_files=True)
    ledger = ProofLedger(root, sync=False)
    Claims(ledger).claim("1.1", owner="ann")
    proof_repair.fix(ledger)
    for path in (*STRANGE, *BESIDE):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("?")
    return root


@pytest.mark.parametrize("command", ["verify", "doctor"])
def test_verify_and_doctor_name_every_file_that_they_do_not_understand(
    strange: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = picture(strange)
    monkeypatch.chdir(strange)
    expected = {path.replace("/folder/x", "/folder"): how for path, how in STRANGE.items()}
    assert main(["proof", command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert {one["code"] for one in found} == {"unknown-file"}
    named = {one["files"][0]: one["severity"] for one in found if len(one["files"]) == 1}
    assert named == expected
    (rest,) = (one for one in found if len(one["files"]) > 1)
    assert (rest["files"], rest["severity"]) == ([".git", "README.md", "nodes"], "note")
    assert main(["proof", command]) == 0
    said = capsys.readouterr().out
    for path, severity in expected.items():
        assert re.search(rf"^{severity} unknown-file: {re.escape(path)} ", said, re.MULTILINE)
    assert "note unknown-file: not part of the proof: .git, README.md, nodes" in said
    assert picture(strange) == before


def test_a_repair_leaves_what_is_not_understood_where_it_is(strange: Path) -> None:
    proof_repair.fix(ProofLedger(strange))
    assert all((strange / path).exists() for path in (*STRANGE, *BESIDE))


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    make_proof(tmp_path / "proof")
    (tmp_path / "proof/locks").write_text("no folder")
    (found,) = verify(ProofLedger(tmp_path / "proof"))
    assert (found.code, found.files) == ("unknown-file", ("locks",))


def test_a_proof_in_use_has_nothing_that_is_not_understood(tmp_path: Path) -> None:
    root = tmp_path / "proof"
    make_proof(root, claim_files=True)
    ledger = ProofLedger(root, sync=False)
    claims = Claims(ledger)
    claims.claim("1.1", owner="ann")
    ledger.append_batch([{"type": "x"}] * 1200)
    Claims(ProofLedger(root)).known()  # writes a checkpoint
    (root / "ledger/event-000004.json").write_text("broken")
    assert proof_repair.fix(ledger)
    claims.claim("1.2", owner="bob", timeout="1h")
    with ledger.locked():
        assert [one for one in verify(ledger) if one.files] == []
    assert {path.name for path in (root / ".holdfast-proof").iterdir()} >= {
        "aside", "chain", "checkpoint", "seats",
    }  # fmt: skip
