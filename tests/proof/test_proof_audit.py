"""Damage is found and named, by syntax and gaps alone and by the chain; repairs lose nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import StoreCorruptError
from holdfast.manager.clock import FakeClock
from holdfast.proof import Claims, ProofLedger, make_proof, verify
from holdfast.proof.health import proof_repair
from holdfast.proof.health.audit_finding import ERROR


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_proof(tmp_path / "proof")
    return tmp_path / "proof"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ledger(root: Path, clock: FakeClock) -> ProofLedger:
    return ProofLedger(root, sync=False, clock=clock)


def path(root: Path, sequence: int) -> Path:
    return root / f"ledger/event-{sequence:06d}.json"


def found(ledger: ProofLedger) -> list[tuple[str, int | None]]:
    return [(one.code, one.sequence) for one in verify(ledger) if one.severity == ERROR]


def codes(ledger: ProofLedger) -> list[str]:
    return [one.code for one in verify(ledger)]


def filled(folder: str, count: int = 10) -> tuple[Path, ProofLedger]:
    make_proof(folder)
    ledger = ProofLedger(folder, sync=False)
    for at in range(count):
        ledger.append({"type": "x", "at": at, "text": "é" * at})
    assert verify(ledger) == []
    return Path(folder), ledger


@settings(max_examples=60)
@given(sequence=st.integers(1, 10), keep=st.floats(0, 1, exclude_max=True), chained=st.booleans())
def test_a_truncated_event_is_found_by_its_syntax(
    sequence: int, keep: float, chained: bool
) -> None:
    with TemporaryDirectory() as folder:
        root, ledger = filled(folder)
        data = path(root, sequence).read_bytes()
        path(root, sequence).write_bytes(data[: int(len(data) * keep)])
        if not chained:
            (root / ".holdfast-proof/chain").unlink()
        assert ("broken", sequence) in found(ledger)
        with pytest.raises(StoreCorruptError, match=f"event-{sequence:06d}"):
            list(ledger.read())


@settings(max_examples=60)
@given(missing=st.sets(st.integers(1, 10), min_size=1, max_size=9), chained=st.booleans())
def test_missing_events_are_found_by_the_gap_and_at_the_end_by_the_chain(
    missing: set[int], chained: bool
) -> None:
    with TemporaryDirectory() as folder:
        root, ledger = filled(folder)
        for sequence in missing:
            path(root, sequence).unlink()
        if not chained:
            (root / ".holdfast-proof/chain").unlink()
        last = max((n for n in range(1, 11) if n not in missing), default=0)
        starts = {n for n in missing if n < last and n - 1 not in missing}
        assert {at for code, at in found(ledger) if code == "gap"} == starts
        gone = [at for code, at in found(ledger) if code == "gone"]
        assert gone == ([last + 1] if chained and last < 10 else [])


@settings(max_examples=60)
@given(sequence=st.integers(1, 10), at=st.integers(0, 9), by=st.binary(min_size=1, max_size=3))
def test_a_changed_event_is_found_by_the_chain(sequence: int, at: int, by: bytes) -> None:
    with TemporaryDirectory() as folder:
        root, ledger = filled(folder)
        data = path(root, sequence).read_bytes()
        changed = data[:at] + by + data[at + len(by) :]
        path(root, sequence).write_bytes(changed)
        names = {name for name, number in found(ledger) if number == sequence}
        assert ("changed" in names) == (changed != data)
        assert all(number == sequence for _, number in found(ledger))


@settings(max_examples=60)
@given(order=st.permutations(list(range(1, 8))))
def test_reordered_events_are_found_by_the_chain(order: list[int]) -> None:
    with TemporaryDirectory() as folder:
        root, ledger = filled(folder, 7)
        datas = {n: path(root, n).read_bytes() for n in order}
        for place, source in enumerate(order, 1):
            path(root, place).write_bytes(datas[source])
        moved = [place for place, source in enumerate(order, 1) if place != source]
        assert found(ledger) == [("reordered", place) for place in moved]


def test_an_event_in_the_place_of_another_stays_found(root: Path, ledger: ProofLedger) -> None:
    ledger.append_batch([{"type": "x"}] * 5)
    path(root, 5).unlink()
    assert ledger.append({"type": "another"}) == 5
    ledger.append({"type": "x"})
    assert ("changed", 5) in found(ledger)
    (root / ".holdfast-proof/chain").unlink()  # as a person does to accept the change
    assert found(ledger) == []


def test_a_chain_begins_anew_when_it_was_deleted(root: Path, ledger: ProofLedger) -> None:
    ledger.append_batch([{"type": "x", "at": at} for at in range(20)])
    (root / ".holdfast-proof/chain").unlink()
    assert codes(ledger) == ["chain-behind"]
    ledger.append({"type": "x"})  # also adds those before it
    assert codes(ledger) == []


def test_a_long_history_leaves_a_hole_that_the_doctor_fills(
    root: Path, ledger: ProofLedger
) -> None:
    ledger.append_batch([{"type": "x", "at": at} for at in range(100)])
    (root / ".holdfast-proof/chain").unlink()
    ledger.append_batch([{"type": "y", "at": at} for at in range(3)])
    assert [one.detail for one in verify(ledger)] == ["the chain covers 3 of 103 events"]
    forged = path(root, 102).read_text().replace('"y"', '"z"')
    path(root, 102).write_text(forged)
    assert found(ledger) == [("changed", 102)]
    path(root, 102).write_text(forged.replace('"z"', '"y"'))
    assert proof_repair.fix(ledger) == ["added 100 events to the chain"]
    assert codes(ledger) == []
    for number in (50, 100, 101, 103):
        data = path(root, number).read_bytes()
        path(root, number).write_bytes(data.replace(b"at", b"to"))
        assert found(ledger) == [("changed", number)]
        path(root, number).write_bytes(data)


def test_events_of_other_programs_come_into_the_chain(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "x"})
    for number in (2, 3):
        path(root, number).write_text('{"type":"theirs","timestamp":"2023-11-14T22:13:20Z"}')
    ledger.append({"type": "x"})
    assert codes(ledger) == []
    path(root, 3).write_text('{"type":"forged","timestamp":"2023-11-14T22:13:20Z"}')
    assert found(ledger) == [("changed", 3)]


def test_events_that_only_others_cannot_read_are_a_warning(root: Path, ledger: ProofLedger) -> None:
    path(root, 1).write_bytes(b'\xef\xbb\xbf{"type":"x","timestamp":"2023-11-14T22:13:20Z"}')
    path(root, 2).write_text(json.dumps({"type": "x", "timestamp": "yesterday"}))
    path(root, 3).write_text(
        json.dumps({"type": "x", "timestamp": "2023-11-14T22:13:20Z", "text": "y" * (1 << 20)})
    )
    assert [one.type for one in ledger.read()] == ["x", "x", "x"]
    assert found(ledger) == []
    assert [(one.code, one.sequence) for one in verify(ledger) if one.severity == "warning"] == [
        ("byte-order-mark", 1), ("no-timestamp", 2), ("large", 3),
    ]  # fmt: skip


def test_odd_files_are_named(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "x"})
    for name in ("event-1.json", "event-0000002.json", "event-x.json", "event-000000.json"):
        (root / "ledger" / name).write_text("{}")
    (root / "ledger/README").write_text("hello")
    assert found(ledger) == [("misnamed", None)] * 4
    assert ledger.head == 1


def test_an_event_that_is_a_link_or_a_folder_is_broken(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "x"})
    os.symlink(path(root, 1), path(root, 2))
    path(root, 3).mkdir()
    os.mkfifo(path(root, 4))
    assert found(ledger) == [("broken", 2), ("broken", 3), ("broken", 4)]


def test_violations_by_other_programs_are_reported(root: Path, ledger: ProofLedger) -> None:
    late = "2099-01-01T00:00:00Z"
    rows = [
        ("lock_acquired", "1", "a"), ("lock_acquired", "1", "b"), ("lock_released", "1", "a"),
        ("lock_released", "1", "a"),
    ]  # fmt: skip
    for at, (type, node, owner) in enumerate(rows, 1):
        event = {"type": type, "timestamp": "2023-11-14T22:13:20Z", "node_id": node, "owner": owner}
        path(root, at).write_text(json.dumps({**event, "expires_at": late}))
    path(root, 5).write_text('{"type":"lock_acquired","timestamp":"2023-11-14T22:13:20Z"}')
    told = [one for one in codes(ledger) if one != "chain-behind"]
    assert told == ["double-claim", "foreign-release", "free-release", "bad-claim"]


def test_a_wrong_mirror_is_reported_and_only_our_own_is_repaired(
    root: Path, ledger: ProofLedger
) -> None:
    (root / "locks").mkdir()
    claims = Claims(ledger)
    for node in ("1", "4", "5"):
        claims.claim(node, owner="a")
    whole = (root / "locks/1.lock").read_text()
    (root / "locks/1.lock").write_text(whole.replace('"a"', '"b"'))
    (root / "locks/2.lock").write_text(whole.replace('"1"', '"2"'))
    (root / "locks/3.lock").write_text("{")
    left = (root / "locks/4.lock").read_text()
    claims.release("4", owner="a")
    (root / "locks/4.lock").write_text(left)  # it could not be removed
    (root / "locks/5.lock").unlink()
    told = [one for one in verify(ledger) if one.code == "claim-file"]
    assert codes(ledger) == ["bad-claim-file", "claim-file", "claim-file", "claim-file"]
    assert ["respected" in one.repair for one in told] == [True, True, False]
    proof_repair.fix(ledger)
    assert codes(ledger) == ["bad-claim-file", "claim-file", "claim-file"]
    assert json.loads((root / "locks/1.lock").read_text())["owner"] == "b"
    assert json.loads((root / "locks/5.lock").read_text())["owner"] == "a"
    assert not (root / "locks/4.lock").exists()


# Repairs


def test_the_repair_fills_what_is_lost_and_deletes_nothing(root: Path, ledger: ProofLedger) -> None:
    ledger.append_batch([{"type": "x", "at": at} for at in range(1, 9)])
    path(root, 2).write_text('{"type":"x","at"')
    for number in (4, 5, 7):
        path(root, number).unlink()
    kept = {n: path(root, n).read_bytes() for n in (1, 3, 6, 8)}
    assert [one.repair != "" for one in verify(ledger)] == [True] * len(verify(ledger))
    done = proof_repair.fix(ledger)
    assert len(done) == 4
    assert found(ledger) == []
    assert [one.type for one in ledger.read()] == [
        "x", "event_lost", "x", "event_lost", "event_lost", "x", "event_lost", "x",
    ]  # fmt: skip
    assert {n: path(root, n).read_bytes() for n in kept} == kept
    (aside,) = (root / ".holdfast-proof/aside").iterdir()
    assert aside.read_text() == '{"type":"x","at"'
    assert ledger.append({"type": "x"}) == 9
    assert proof_repair.fix(ledger) == []


def test_verify_is_quiet_after_a_repair_however_many_events_follow_it(
    root: Path, ledger: ProofLedger, clock: FakeClock
) -> None:
    ledger.append_batch([{"type": "x"}] * 300)
    for number in (2, 3, 7):
        path(root, number).unlink()
    clock.advance(86400)  # the repair comes a day later
    proof_repair.fix(ledger)
    (told,) = verify(ledger)
    assert (told.code, told.severity, told.sequence) == ("lost", "note", 2)
    assert "3 events were lost" in told.detail
    clock.advance(5)
    ledger.append({"type": "x"})
    assert [one.code for one in verify(ledger)] == ["lost"]


def test_events_in_a_row_that_are_too_old_are_one_finding(root: Path, ledger: ProofLedger) -> None:
    ledger.append({"type": "x", "timestamp": "2030-01-01T00:00:00Z"})
    ledger.append_batch([{"type": "x"}] * 50)
    ledger.append({"type": "x", "timestamp": "2031-01-01T00:00:00Z"})
    ledger.append({"type": "x", "timestamp": "2029-01-01T00:00:00Z"})
    told = [one for one in verify(ledger) if one.code == "backwards"]
    assert [one.sequence for one in told] == [2, 53]
    assert "event-000002.json to event-000051.json (50) are older" in told[0].detail


def test_a_repair_leaves_what_is_only_forbidden_or_changed(root: Path, ledger: ProofLedger) -> None:
    ledger.append_batch([{"type": "x"}] * 3)
    text = path(root, 2).read_text().replace('"x"', '"y"')
    path(root, 2).write_text(text)
    assert proof_repair.fix(ledger) == []
    assert path(root, 2).read_text() == text
    assert found(ledger) == [("changed", 2)]


def test_drafts_of_dead_processes_are_removed(root: Path, ledger: ProofLedger) -> None:
    old, new = root / "ledger/.event-999999999-5-1-abc.tmp", root / "ledger/.event-abcde.tmp"
    foreign = root / "ledger/.event-old.tmp"
    mine = root / f"ledger/.event-{os.getpid()}-1-1-abc.tmp"
    for left in (old, new, foreign):
        left.write_text("{")
    os.utime(old, (0, 0))
    os.utime(foreign, (0, 0))
    assert not mine.exists()
    assert [one.code for one in proof_repair.examine(ledger)] == ["left-over", "left-over"]
    assert len(proof_repair.fix(ledger)) == 2
    assert sorted(root.glob("ledger/.event*")) == [new]
