"""Proofs of af: claims in its dialect, and nothing that its replay refuses."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers_af as af
from helpers_proof import af_fight
from holdfast.cli import main
from holdfast.core.errors import LockExpiredError, LockNotHeldError, Lost, StoreCorruptError
from holdfast.manager.clock import FakeClock
from holdfast.proof import (
    BadEventError,
    BadNodeError,
    BadTimeoutError,
    Claims,
    ForeignProofError,
    NodeAlreadyLocked,
    ProofLedger,
    agents,
    make_proof,
    verify,
)
from holdfast.proof.health import proof_repair
from holdfast.proof.health.audit_finding import ERROR

#: The fake clock begins at 2023-11-14T22:13:20Z, which is 1_700_000_000.
BEGIN = 1_700_000_000
LATE = "2099-01-01T00:00:00Z"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return af.make(tmp_path / "proof")


@pytest.fixture
def ledger(root: Path, clock: FakeClock) -> ProofLedger:
    return ProofLedger(root, sync=False, clock=clock, wait_seconds=0.05)


@pytest.fixture
def claims(ledger: ProofLedger) -> Claims:
    return Claims(ledger)


def last(root: Path) -> bytes:
    return max((root / "ledger").glob("[0-9]*.json")).read_bytes()


def wrong(ledger: ProofLedger) -> list[str]:
    return [one.detail for one in verify(ledger) if one.severity == ERROR]


def test_claims_are_spelled_byte_for_byte_as_af_spells_them(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    clock.advance(0.25)
    claims.claim("1.1", owner="R&D<x>")
    told = b'"timestamp":"2023-11-14T22:13:20.25Z",'
    assert last(root) == (
        b'{"type":"nodes_claimed",' + told + b'"node_ids":["1.1"],'
        b'"owner":"R\\u0026D\\u003cx\\u003e","timeout":"2023-11-14T23:13:20.25Z"}'
    )
    claims.refresh("1.1", owner="R&D<x>", timeout="90s")
    assert last(root) == (
        b'{"type":"claim_refreshed",' + told + b'"node_id":"1.1",'
        b'"owner":"R\\u0026D\\u003cx\\u003e","new_timeout":"2023-11-14T22:14:50.25Z"}'
    )
    claims.release("1.1", owner="R&D<x>")
    assert last(root) == b'{"type":"nodes_released",' + told + b'"node_ids":["1.1"]}'
    af.check_bytes(root)
    assert af.replay(root)["1.1"] is None
    assert not (root / "locks/1.1.lock").exists()


def test_the_mode_is_0644_whatever_the_mask(root: Path, claims: Claims) -> None:
    before = os.umask(0o077)
    try:
        claims.claim("1.1", owner="ann")
    finally:
        os.umask(before)
    af.check_bytes(root)


def test_a_claim_of_af_is_respected_until_it_expires(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    af.put(root, {"type": "nodes_claimed", "node_ids": ["1.1", "1.2"], "owner": "prover",
                  "timeout": "2023-11-14T22:14:20Z"})  # fmt: skip
    for node in ("1.1", "1.2"):
        with pytest.raises(NodeAlreadyLocked, match=f"prover has {node} until"):
            claims.claim(node, owner="ours")
    af.put(root, {"type": "claim_refreshed", "node_id": "1.1", "owner": "prover",
                  "new_timeout": "2023-11-14T22:15:20Z"})  # fmt: skip
    clock.advance(60)
    with pytest.raises(NodeAlreadyLocked):
        claims.claim("1.1", owner="ours")
    assert claims.claim("1.2", owner="ours").owner == "ours"
    af.put(root, {"type": "nodes_released", "node_ids": ["1.1"]})
    assert claims.claim("1.1", owner="ours").owner == "ours"
    assert {node: claim and claim[0] for node, claim in af.replay(root).items()} == {
        "1": None, "1.1": "ours", "1.2": "ours", "1.3": None, "1.4": None, "1.5": None, "1.6": None,
    }  # fmt: skip


def test_an_expired_claim_is_released_before_the_node_is_claimed_again(
    root: Path, claims: Claims, ledger: ProofLedger, clock: FakeClock
) -> None:
    """af cannot replay a claim of a node that was not released, expired or not."""
    claims.claim("1.1", owner="ann", timeout="1s")
    clock.advance(1)
    with pytest.raises(LockExpiredError):
        claims.refresh("1.1", owner="ann")
    claims.claim("1.1", owner="bob")
    assert [one.type for one in ledger.read(8)] == [
        "nodes_claimed", "nodes_released", "nodes_claimed",
    ]  # fmt: skip
    assert af.replay(root)["1.1"] == ("bob", BEGIN + 3601)
    assert wrong(ledger) == []


def test_reaping_is_a_release_that_af_can_replay(
    root: Path, claims: Claims, ledger: ProofLedger, clock: FakeClock
) -> None:
    claims.claim("1.1", owner="ann", timeout="1s")
    claims.claim("1.2", owner="bob", timeout="1m")
    clock.advance(1)
    rival = Claims(ProofLedger(root, sync=False, clock=clock))
    assert [one.node for one in rival.reap(dry_run=True)] == ["1.1"]
    assert [one.node for one in rival.reap()] == ["1.1"]
    assert claims.reap() == []
    assert af.replay(root)["1.1"] is None
    assert wrong(ledger) == []


@pytest.mark.parametrize("between", ["claim", "reap", "af"])
def test_what_came_between_is_not_released_twice(
    root: Path, ledger: ProofLedger, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, between: str
) -> None:
    from holdfast.proof.ledger_lock import WriteLock

    mine, rival = Claims(ledger), Claims(ProofLedger(root, sync=False, clock=clock))
    mine.claim("1.1", owner="ann", timeout="1s")
    clock.advance(2)
    real = WriteLock.acquire

    def acquire(self: WriteLock) -> None:
        if self is ledger._lock:  # we have found it expired, and now wait for the lock
            monkeypatch.setattr(WriteLock, "acquire", real)
            if between == "claim":
                rival.claim("1.2", owner="bob")
            elif between == "reap":
                rival.reap()
            else:
                af.put(root, {"type": "nodes_released", "node_ids": ["1.1"]})
        real(self)

    monkeypatch.setattr(WriteLock, "acquire", acquire)
    assert mine.claim("1.1", owner="carl").owner == "carl"
    claim = af.replay(root)["1.1"]
    assert claim is not None
    assert claim[0] == "carl"


def test_a_missing_node_cannot_be_claimed(root: Path, claims: Claims) -> None:
    with pytest.raises(BadNodeError, match=r"has no node 1\.9"):
        claims.claim("1.9", owner="ann")
    af.put(root, {"type": "node_created", "node": {"id": "1.9", "workflow_state": "available"}})
    assert claims.claim("1.9", owner="ann").node == "1.9"
    af.replay(root)


def test_only_the_owner_refreshes_and_releases(claims: Claims) -> None:
    claims.claim("1.1", owner="ann")
    for change in (claims.refresh, claims.release):
        with pytest.raises(LockNotHeldError, match="ann has it"):
            change("1.1", owner="bob")
        with pytest.raises(LockNotHeldError, match="it is free"):
            change("1.2", owner="bob")


def test_a_release_of_a_later_version_frees_no_successor(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    """It names its claim by the number of the claim's event."""
    first = claims.claim("1.1", owner="ann")
    claims.release("1.1", owner="ann")
    second = claims.claim("1.1", owner="bob")
    late = {"type": "nodes_released", "node_ids": ["1.1"], "claim_seqs": [first.sequence]}
    af.put(root, late)
    assert claims.get("1.1") == second
    af.put(root, {**late, "claim_seqs": [second.sequence]})
    assert claims.get("1.1") is None
    third = claims.claim("1.1", owner="ann")
    done = {"type": "node_validated", "node_id": "1.1", "release_claim": True}
    af.put(root, {**done, "claim_seq": second.sequence})
    assert claims.get("1.1") == third
    af.put(root, {**done, "claim_seq": third.sequence})
    assert claims.get("1.1") is None


@pytest.mark.parametrize(
    ("meta", "seconds"),
    [({}, 3600), ({"lock_timeout": 0}, 3600), ({"lock_timeout": 90_000_000_000}, 90)],
)
def test_a_claim_lasts_an_hour_or_the_nanoseconds_of_meta_json(
    tmp_path: Path, meta: dict[str, Any], seconds: int
) -> None:
    ledger = ProofLedger(af.make(tmp_path / "proof", **meta), sync=False)
    assert ledger.folder.timeout() == seconds * 10**9


@pytest.mark.parametrize("given", [1, -5, True, 1.5, 3_600_000_000_001])
def test_another_timeout_is_an_error(tmp_path: Path, given: Any) -> None:
    claims = Claims(ProofLedger(af.make(tmp_path / "proof", lock_timeout=given), sync=False))
    with pytest.raises(BadTimeoutError, match="out of range"):
        claims.claim("1.1", owner="ann")


# Detecting the dialect


def test_it_is_found_before_the_first_event_and_without_settings(tmp_path: Path) -> None:
    (tmp_path / "new/ledger").mkdir(parents=True)
    (tmp_path / "new/meta.json").write_text('{"version": "1.1", "title": "t"}')
    assert ProofLedger(tmp_path / "new").folder.dialect.name == "af"
    root = af.make(tmp_path / "old")
    (root / "meta.json").unlink()
    ledger = ProofLedger(root, sync=False)
    assert (ledger.folder.dialect.name, ledger.head) == ("af", 8)
    assert ledger.folder.timeout() == 3600 * 10**9
    make_proof(root)
    assert ProofLedger(root).folder.dialect.name == "af"


def test_a_ledger_that_is_open_stops_when_the_other_dialect_comes(
    root: Path, ledger: ProofLedger, claims: Claims
) -> None:
    (root / "ledger/event-000001.json").write_text('{"type":"x"}')
    with pytest.raises(ForeignProofError):
        claims.claim("1.1", owner="ann")
    (root / "ledger/event-000001.json").unlink()
    assert claims.claim("1.1", owner="ann")


def test_a_damaged_proof_of_af_is_named_and_not_filled(root: Path, ledger: ProofLedger) -> None:
    """af has no event that stands for a lost one."""
    (root / "ledger/000004.json").unlink()
    with pytest.raises(StoreCorruptError, match=r"000004\.json is missing"):
        ledger.append({"type": "def_added", "definition": DEFINITION})
    (gap,) = (one for one in verify(ledger) if one.severity == ERROR)
    assert (gap.code, gap.sequence) == ("gap", 4)
    assert "backup" in gap.repair
    assert not any("event_lost" in one for one in proof_repair.fix(ledger))
    assert not (root / "ledger/000004.json").exists()


@pytest.mark.parametrize(
    "event",
    [
        {"type": "lock_acquired", "node_id": "1.1", "owner": "x"},
        {"type": "nodes_claimed", "node_ids": ["1.7"], "owner": "x", "timeout": LATE},
        {"type": "nodes_released", "node_ids": ["1.2"]},
        {"type": "claim_refreshed", "node_id": "1.1", "owner": "y", "new_timeout": LATE},
    ],
    ids=lambda one: one["type"],
)  # fmt: skip
def test_verify_names_what_af_cannot_replay(root: Path, claims: Claims, event: Any) -> None:
    claims.claim("1.1", owner="x")
    ledger = ProofLedger(root)
    assert wrong(ledger) == []
    af.put(root, event)
    with pytest.raises(af.Unreadable):
        af.replay(root)
    (found,) = (one for one in verify(ledger) if one.severity == ERROR)
    assert (found.code, found.sequence) == ("unreplayable", 10)


def test_a_proof_of_af_in_use_has_nothing_that_is_not_understood(
    root: Path, claims: Claims, ledger: ProofLedger
) -> None:
    claims.claim("1.1", owner="ann")
    assert [one.code for one in verify(ledger)] == []


# What may be appended

DEFINITION = {"id": "d1", "name": "prime", "definition": "p > 1", "created": "2026-02-20T10:00:00Z"}
CHALLENGE = {"type": "challenge_raised", "challenge_id": "c1", "node_id": "1.1", "target": "gap",
             "reason": "why?", "severity": "major", "raised_by": "bob"}  # fmt: skip


def test_events_that_af_can_always_replay_may_be_appended(
    root: Path, ledger: ProofLedger, claims: Claims
) -> None:
    odd = {**DEFINITION, "definition": "p > 1 & p < 3\u2028\u2029 ü"}
    assert ledger.append({"type": "def_added", "definition": odd}) == 9
    assert b"p \\u003e 1 \\u0026 p \\u003c 3\\u2028\\u2029 \xc3\xbc" in last(root)
    lemma = {"id": "l1", "statement": "s", "node_id": "1.1", "created": "2026-02-20T10:00:00Z"}
    assert claims.append({"type": "lemma_extracted", "lemma": lemma}, owner="ann") == 10
    assert claims.append(CHALLENGE, owner="ann") == 11
    af.check_bytes(root)
    af.replay(root)
    claims.claim("1.1", owner="ann")
    with pytest.raises(NodeAlreadyLocked):
        claims.append({**CHALLENGE, "challenge_id": "c2"}, owner="bob")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "custom"}, {"type": "lock_reaped", "node_id": "1.1", "owner": "x"},
        {"type": "nodes_released", "node_ids": ["1.1"]}, {"type": "event_lost"},
        {"type": "node_validated", "node_id": "1.1"}, {"type": "def_added"},
        {"type": "def_added", "definition": {}},
        {**CHALLENGE, "severity": "huge"}, {**CHALLENGE, "Type": "custom"},
        {**CHALLENGE, "node_id": "one"}, {**CHALLENGE, "reason": 5},
        {**CHALLENGE, "timestamp": "now"},
    ],
)  # fmt: skip
def test_events_that_af_might_not_replay_may_not(
    root: Path, ledger: ProofLedger, claims: Claims, event: dict[str, Any]
) -> None:
    for append in (ledger.append, lambda one: claims.append(one, owner="ann", force=True)):
        with pytest.raises(BadEventError):
            append(event)
    assert ledger.head == 8


# Files of af's library


def test_the_file_of_a_claim_is_respected_and_left_alone(
    root: Path, claims: Claims, clock: FakeClock
) -> None:
    file = root / "locks/1.1.lock"
    file.write_text(json.dumps({
        "node_id": "1.1", "owner": "library", "acquired_at": "2023-11-14T22:13:20.000000001Z",
        "expires_at": "2023-11-14T22:13:30.000000001Z",
    }))  # fmt: skip
    (root / "locks/1.2.lock").write_text("{")  # af passes over what it cannot read
    before = file.read_bytes()
    with pytest.raises(NodeAlreadyLocked, match="library has"):
        claims.claim("1.1", owner="ann")
    assert claims.claim("1.2", owner="ann").owner == "ann"
    clock.advance(16)
    assert claims.reap() == []
    claims.claim("1.1", owner="ann")
    assert file.read_bytes() == before
    assert (root / "locks/1.2.lock").read_text() == "{"
    af.replay(root)


# The commands


def test_the_commands_work_on_a_proof_of_af_from_below_it_too(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(root / "nodes")

    def told(*words: str) -> tuple[int, Any]:
        code = main(["proof", *words, "--json"])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert told("claim", "1.1", "--owner", "ann")[0] == 0
    code, (refused,) = told("claim", "1.1", "--owner", "bob")
    assert (code, refused["error"]["code"]) == (3, "E_NODE_LOCKED")
    code, (unknown,) = told("claim", "1.9", "--owner", "bob")
    assert (code, unknown["error"]["code"]) == (2, "E_BAD_NODE")
    assert told("refresh", "1.1", "--owner", "ann")[0] == 0
    assert [one["node_id"] for one in told("status")[1][0]["claims"]] == ["1.1"]
    assert told("verify")[1][0]["findings"] == []
    assert told("doctor", "--fix")[0] == 0
    assert told("append", "custom")[1][0]["error"]["code"] == "E_BAD_EVENT"
    code, shown = told("events", "-n", "2", "--reverse")
    assert [one["event"]["type"] for one in shown] == ["claim_refreshed", "nodes_claimed"]
    assert told("release", "1.1", "--owner", "ann")[0] == 0
    (ann,) = told("agents")[1][0]["agents"]
    assert (ann["owner"], ann["nodes"], ann["claimed"], ann["refreshed"], ann["released"]) == (
        "ann", [], 1, 1, 1,
    )  # fmt: skip
    assert told("init", str(root))[1][0]["lock_timeout_seconds"] == 3600
    af.check_bytes(root)
    af.replay(root)


# Any order

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "refresh", "release", "reap", "wait", "cold", "af"]),
        st.sampled_from(["1", "1.1", "1.2"]),
        st.sampled_from(["ann", "bob"]),
        st.integers(1, 5),
    ),
    max_size=40,
)  # fmt: skip


@settings(max_examples=150)
@given(steps=STEPS)
def test_in_any_order_af_replays_what_we_append_and_both_see_the_same_claims(
    steps: list[tuple[str, str, str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        root, clock = af.make(Path(folder) / "proof", 2), FakeClock()
        ledger = ProofLedger(root, sync=False, clock=clock)
        claims = Claims(ledger)
        for what, node, owner, seconds in steps:
            now = ledger.now() / 10**9
            held = af.replay(root)[node]
            live = held is not None and held[1] > now
            try:
                if what == "claim":
                    claims.claim(node, owner=owner, timeout=f"{seconds}s")
                    assert not live
                elif what == "refresh":
                    claims.refresh(node, owner=owner, timeout=f"{seconds}s")
                elif what == "release":
                    claims.release(node, owner=owner)
                elif what == "reap":
                    claims.reap()
                elif what == "wait":
                    clock.advance(seconds)
                elif what == "af":
                    _af_step(root, node, held, now + seconds)
                else:
                    claims = Claims(ProofLedger(root, sync=False, clock=clock))
            except NodeAlreadyLocked:
                assert live
            except Lost:
                assert not (live and held is not None and held[0] == owner)
            now = ledger.now() / 10**9
            theirs = {n: c[0] for n, c in af.replay(root).items() if c and c[1] > now}
            assert {one.node: one.owner for one in claims.active()} == theirs
        assert wrong(ledger) == []
        assert (
            {one.owner for one in agents(ledger) if one.nodes} == set(theirs.values())
            if steps
            else 1
        )


def _af_step(root: Path, node: str, held: tuple[str, float] | None, until: float) -> None:
    from datetime import UTC, datetime

    if held is not None:
        af.put(root, {"type": "nodes_released", "node_ids": [node]})
    else:
        end = datetime.fromtimestamp(until, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        af.put(root, {"type": "nodes_claimed", "node_ids": [node], "owner": "af", "timeout": end})


def test_ours_beside_af_grant_nothing_twice_and_af_replays_all(tmp_path: Path) -> None:
    ring = af_fight(tmp_path, ours=2, theirs=2, seconds=2.5, between=0.4)
    assert ring.killed >= 2
