"""Claims: the fold of the events is the live state, from a checkpoint and without one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import BadKeyError, Lost
from holdfast.manager.clock import FakeClock
from holdfast.proof import (
    BadNodeError,
    Claims,
    NodeAlreadyLocked,
    ProofLedger,
    SequenceMismatch,
    checkpoint,
    make_proof,
    proof_folder,
    verify,
)
from holdfast.proof.dialects import proof_codec
from holdfast.proof.ledger_lock import WriteLock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_proof(tmp_path / "proof")
    return tmp_path / "proof"


@pytest.fixture
def ledger(root: Path, clock: FakeClock) -> ProofLedger:
    return ProofLedger(root, sync=False, clock=clock)


def replayed(root: Path, now: str) -> dict[str, str]:
    """The replay as the protocol's text has it, without any code of ours."""
    locks: dict[str, dict[str, str]] = {}
    for path in sorted(root.glob("ledger/event-*.json")):
        event = json.loads(path.read_text())
        if event["type"] == "lock_acquired":
            locks[event["node_id"]] = event
        elif event["type"] in ("lock_released", "lock_reaped"):
            del locks[event["node_id"]]
    return {node: lock["owner"] for node, lock in locks.items() if _key(lock["expires_at"]) > now}


def _key(text: str) -> str:
    """Texts that sort like times: always nine fractional digits."""
    whole, _, part = text.removesuffix("Z").partition(".")
    return f"{whole}.{part:0<9}"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "refresh", "release", "reap", "wait", "cold"]),
        st.sampled_from(["1", "1.1", "1.2"]),
        st.sampled_from(["ann", "bob"]),
        st.integers(1, 5),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(steps=STEPS)
def test_the_fold_of_the_events_is_the_live_state(
    steps: list[tuple[str, str, str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        root, clock = Path(folder), FakeClock()
        make_proof(root, claim_files=True)
        ledger = ProofLedger(root, sync=False, clock=clock)
        workers = {"ann": Claims(ledger), "bob": Claims(ProofLedger(root, sync=False, clock=clock))}
        model: dict[str, tuple[str, int]] = {}
        for what, node, owner, seconds in steps:
            claims, now = workers[owner], ledger.now()
            holder = model.get(node)
            live = holder is not None and holder[1] > now
            try:
                if what == "claim":
                    claims.claim(node, owner=owner, timeout=f"{seconds}s")
                    assert not live
                elif what == "refresh":
                    claims.refresh(node, owner=owner, timeout=f"{seconds}s")
                    assert live
                    assert holder is not None
                    assert holder[0] == owner
                elif what == "release":
                    claims.release(node, owner=owner)
                    assert live
                    assert holder is not None
                    assert holder[0] == owner
                    del model[node]
                elif what == "reap":
                    expired = {one for one, (_, until) in model.items() if until <= now}
                    assert {one.node for one in claims.reap()} == expired
                    for one in expired:
                        del model[one]
                elif what == "wait":
                    clock.advance(seconds)
                else:
                    workers[owner] = Claims(ProofLedger(root, sync=False, clock=clock))
            except NodeAlreadyLocked:
                assert live
            except Lost:
                assert not (live and holder is not None and holder[0] == owner)
            else:
                if what == "claim":  # also reaps expired claims
                    model = {one: held for one, held in model.items() if held[1] > now}
                if what in ("claim", "refresh"):
                    model[node] = (owner, now + seconds * proof_codec.SECOND)
            now = ledger.now()
            expected = {one: who for one, (who, until) in model.items() if until > now}
            for worker in workers.values():
                assert {claim.node: claim.owner for claim in worker.active()} == expected
            assert replayed(root, _key(proof_codec.moment_text(now))) == expected
        assert verify(ledger) == []


def test_nodes_are_numbers_with_dots(ledger: ProofLedger) -> None:
    claims = Claims(ledger)
    for node in ("1", "1.2.3", "10.20", "1." * 99 + "1"):
        claims.claim(node, owner="a")
    wrong: tuple[Any, ...] = (
        "", "0", "01", "1.", ".1", "1..2", "1.0", "a", "1.a", "1/2", "../1", "1 ", "１", "-1",
        "1\n", "1." * 100 + "1", None, 1,
    )  # fmt: skip
    for bad in wrong:
        with pytest.raises(BadNodeError):
            claims.claim(bad, owner="a")
    for owner in ("", " a", "a\n", "x" * 300):
        with pytest.raises(BadKeyError):
            claims.claim("2", owner=owner)
    assert ledger.head == 4


def test_nodes_sort_like_the_numbers_that_they_are(ledger: ProofLedger) -> None:
    claims = Claims(ledger)
    for node in ("1.10", "1.9", "1", "2", "1.9.1"):
        claims.claim(node, owner="a")
    assert [one.node for one in claims.active()] == ["1", "1.9", "1.9.1", "1.10", "2"]


def test_events_of_others_are_taken_as_they_are(root: Path, ledger: ProofLedger) -> None:
    rows = [
        {"type": "lock_acquired", "timestamp": "2023-11-14T22:13:20Z", "node_id": "1",
         "owner": "a", "expires_at": "2023-11-15T00:13:21+02:00"},  # in a second
        {"type": "lock_acquired", "timestamp": "2023-11-14T22:13:20Z", "node_id": "2",
         "owner": "b", "expires_at": "2023-11-15T00:13:20+02:00"},  # now
        {"type": "lock_acquired", "node_id": "3", "owner": "c", "expires_at": "soon"},
        {"type": "lock_acquired", "owner": "d", "expires_at": "2099-01-01T00:00:00Z"},
        {"type": "lock_released", "node_id": "4", "owner": "e"},
        {"type": "lock_acquired", "node_id": ["5"], "owner": {}, "expires_at": 7},
        {"type": "whatever", "node_id": "1", "owner": "x"},
    ]  # fmt: skip
    for at, row in enumerate(rows, 1):
        (root / f"ledger/event-{at:06d}.json").write_text(json.dumps(row))
    claims = Claims(ledger)
    assert [(one.node, one.owner) for one in claims.active()] == [("1", "a"), ("3", "c")]
    with pytest.raises(NodeAlreadyLocked):  # a claim with an unreadable end has not ended
        claims.claim("3", owner="z")
    claims.release("3", owner="c")
    claims.claim("3", owner="z")


@pytest.mark.parametrize("node", ["../ledger/ledger", "/etc/x", "1" * 5000, "", "x\x1b[31m", "１"])
def test_a_node_that_others_made_up_does_no_harm(
    root: Path, ledger: ProofLedger, clock: FakeClock, node: str
) -> None:
    (root / "locks").mkdir()
    event = {"type": "lock_acquired", "timestamp": "2020-01-01T00:00:00Z", "node_id": node,
             "owner": "a", "expires_at": "2020-01-01T00:00:01Z"}  # fmt: skip
    (root / "ledger/event-000001.json").write_text(json.dumps(event))
    claims = Claims(ledger)
    claims.claim("1.1", owner="b", timeout="1s")
    clock.advance(2)
    assert [one.node for one in claims.reap()] == ["1.1"]
    assert [one.node for one in claims.known()] == [node]
    assert "bad-claim" in [one.code for one in verify(ledger)]


def test_a_refusal_writes_nothing_and_needs_no_lock(
    root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = Claims(ledger)
    claims.claim("1", owner="a")
    (root / "ledger/ledger.lock").mkdir()  # another program is appending at this moment
    monkeypatch.setattr(
        proof_folder, "write_new", lambda *_, **__: pytest.fail("it wrote something")
    )
    with pytest.raises(NodeAlreadyLocked):
        claims.claim("1", owner="b")
    with pytest.raises(Lost):
        claims.release("1", owner="b")
    with pytest.raises(SequenceMismatch):
        ledger.append_if_sequence({"type": "x"}, 0)


def test_a_claim_that_came_between_is_seen_under_the_lock(
    root: Path, ledger: ProofLedger, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, rival = Claims(ledger), Claims(ProofLedger(root, sync=False, clock=clock))
    real = WriteLock.acquire

    def acquire(self: WriteLock) -> None:
        if self is ledger._lock:  # we have checked, and now wait for the lock
            monkeypatch.setattr(WriteLock, "acquire", real)
            rival.claim("1", owner="b")
        real(self)

    monkeypatch.setattr(WriteLock, "acquire", acquire)
    with pytest.raises(NodeAlreadyLocked, match="b has 1"):
        mine.claim("1", owner="a")
    assert ledger.head == 1


@pytest.mark.parametrize("between", ["claim", "reap"])
def test_what_came_between_is_not_reaped(
    root: Path,
    ledger: ProofLedger,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    between: str,
) -> None:
    mine, rival = Claims(ledger), Claims(ProofLedger(root, sync=False, clock=clock))
    mine.claim("1", owner="a", timeout="1s")
    clock.advance(2)
    real = WriteLock.acquire

    def acquire(self: WriteLock) -> None:
        if self is ledger._lock:  # we have found it expired, and now wait for the lock
            monkeypatch.setattr(WriteLock, "acquire", real)
            rival.claim("1", owner="b") if between == "claim" else rival.reap()
        real(self)

    monkeypatch.setattr(WriteLock, "acquire", acquire)
    assert mine.reap() == []
    last = ["lock_reaped", "lock_acquired"] if between == "claim" else ["lock_reaped"]
    assert [one.type for one in ledger.read()] == ["lock_acquired", *last]


def test_a_claim_waits_for_no_checkpoint_and_no_folder_of_ours(
    root: Path, ledger: ProofLedger
) -> None:
    assert Claims(ledger).active() == []
    assert not (root / ".holdfast-proof").exists()


# The checkpoint


@pytest.fixture
def long(root: Path, ledger: ProofLedger, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A proof of 40 events, whose checkpoint is due after 10."""
    monkeypatch.setattr(checkpoint, "DUE_EVENTS", 10)
    claims = Claims(ledger)
    for number in range(1, 21):
        claims.claim(f"1.{number}", owner="a")
        ledger.append({"type": "x"})
    Claims(ledger).active()
    assert (root / ".holdfast-proof/checkpoint").exists()
    return root


def reads(root: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str]]:
    """How many events a cold replay reads, and the nodes it finds."""
    opened: list[str] = []
    real = os.open

    def open_and_tell(path: str, *more: Any) -> int:
        opened.append(str(path))
        return real(path, *more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_and_tell)
        found = Claims(ProofLedger(root, clock=clock)).active()
    count = sum(1 for path in opened if "event-" in path and os.path.exists(path))
    return count, [one.node for one in found]


def test_a_cold_replay_reads_only_what_the_checkpoint_does_not_have(
    long: Path, ledger: ProofLedger, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [f"1.{number}" for number in range(1, 21)]
    assert reads(long, clock, monkeypatch) == (0, nodes)
    Claims(ledger).release("1.1", owner="a")
    assert reads(long, clock, monkeypatch) == (1, nodes[1:])


def test_a_checkpoint_can_be_deleted(
    long: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (long / ".holdfast-proof/checkpoint").unlink()
    assert reads(long, clock, monkeypatch) == (40, [f"1.{number}" for number in range(1, 21)])


@pytest.mark.parametrize("how", ["in place", "by another file", "same size"])
def test_a_checkpoint_is_not_trusted_when_an_event_has_changed(
    long: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = long / "ledger/event-000001.json"
    text = path.read_text().replace('"1.1"', '"1.9"' if how == "same size" else '"1.77"')
    old = path.stat()
    if how == "by another file":
        (long / "new").write_text(text)
        (long / "new").rename(path)
    else:
        path.write_text(text)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    count, nodes = reads(long, clock, monkeypatch)
    assert count == 40
    assert "1.1" not in nodes


def test_a_checkpoint_is_not_trusted_when_an_event_is_missing(
    long: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (long / "ledger/event-000040.json").unlink()
    count, _ = reads(long, clock, monkeypatch)
    assert count == 39


@pytest.mark.parametrize("damage", [b"", b"junk", b"\0" * 200])
def test_a_damaged_checkpoint_is_none(
    long: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    path = long / ".holdfast-proof/checkpoint"
    whole = path.read_bytes()
    for content in (damage, whole[:-1], whole[:40] + b"!" + whole[41:], whole + b"12345678"):
        path.write_bytes(content)
        count, nodes = reads(long, clock, monkeypatch)
        assert (count, len(nodes)) == (40, 20)
        path.write_bytes(content)


def test_a_ledger_that_was_put_back_is_folded_anew(long: Path, ledger: ProofLedger) -> None:
    claims = Claims(ledger)
    assert len(claims.active()) == 20
    for number in range(11, 41):
        (long / f"ledger/event-{number:06d}.json").unlink()
    assert len(claims.active()) == 5
    claims.claim("1.20", owner="b")
